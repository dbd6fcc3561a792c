/**
 * s01: the agent loop
 *
 * An agent is a loop around a model that may call tools.
 *
 *     request ──▶ model ──▶ tool calls? ── no ──▶ back to the user
 *                   ▲            │ yes
 *                   └── results ─┘ run them
 *
 * New in s01: setup, loop, tools, turn, bash, terminal, rejected, main
 * Needs: Node 20.12 or later, bash (Linux, macOS, WSL). It runs commands on your machine, and asks first.
 * Run: npx tsx agents/s01_agent_loop.ts [-y: never ask] ["a request"]
 */

// #region setup
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { basename, join } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, styleText } from "node:util";
import Anthropic from "@anthropic-ai/sdk";

const ENV_FILE = join(import.meta.dirname, "../.env"); // the course's own; one in the workspace may be a stranger's
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // takes ANTHROPIC_API_KEY from the environment
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: 32_000, // of a reply, thinking included
  thinking: process.env.THINKING === "off" ? undefined : THINKING, // other servers with this API may not know it
  cache_control: { type: "ephemeral" } as const, // prompt caching: what was sent shortly before costs far less
};
export const WORKDIR = process.cwd();
// #endregion

// #region loop
// What `messages` holds after a turn. The API has only two roles, so tool results come from the user:
//   user       Run `echo hi`
//   assistant  tool_use     toolu_1  bash { command: "echo hi" }
//   user       tool_result  toolu_1  hi
//   assistant  It printed: hi
/** Calls the model and runs the tools it asks for, until it asks for none. Throws if a model call fails. */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<void> {
  while (true) {
    const reply = await callModel(messages, options);
    messages.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return; // no calls: the model is done
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options)); // in turn: one may need the one before
    messages.push({ role: "user", content: results }); // the API wants a result for each call in the next message
  }
}

export type Messages = Anthropic.MessageParam[]; // the content of each is a string, or a list of blocks
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[]; // that the model may call
  approve: (question: string) => Promise<void>; // asks the user; throws on no, and the model reads why
  signal: AbortSignal; // Ctrl-C aborts it
};

/** Sends the whole conversation each time: the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions): Promise<Anthropic.Message> {
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", () => print("\n"));
  return checkReply(await stream.finalMessage()); // throws if it is refused, cut off or empty
}

/** Runs one call. Always returns a result: if the call fails, the model reads the error. */
async function runCall(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<Anthropic.ToolResultBlockParam> {
  let content: string;
  let is_error = false;
  try {
    content = await runTool(call.name, call.input, options);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : messageOf(error);
    is_error = true;
  }
  print(`${cutMiddle(content, 500)}\n`, "dim"); // characters for the screen; the model gets up to 50,000
  return { type: "tool_result", tool_use_id: call.id, content: cutMiddle(content, RESULT_LIMIT), is_error };
}
// #endregion

// #region tools
const BASH: Anthropic.Tool = {
  name: "bash",
  description: "Run a bash command, in a new shell. Times out after 120 s.",
  input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};
export const TOOLS = [BASH]; // all that the model knows about its tools
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.`;

/** Returns the text that the model reads. Throws if the call can't be run; the model then reads the error. */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  options.signal.throwIfAborted(); // after Ctrl-C no call runs
  if (name !== "bash") throw new Error(`unknown tool ${name}: the only tool is bash`);
  const { command } = (input ?? {}) as { command?: unknown }; // the model wrote it, so it has to be checked
  if (typeof command !== "string") throw new Error("bash: command is missing, or not a string");
  print(`$ ${command}\n`);
  await options.approve("Run this?");
  return runBash(command, options.signal);
}
// #endregion

// #region turn
const INTERRUPTED = { role: "user", content: "(I interrupted this.)" } as const; // the API joins it with the next one

/** Carries out one request. Throws if that fails, and leaves `messages` in a state that the API accepts. */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = messages.length;
  messages.push({ role: "user", content: request });
  try {
    await agentLoop(messages, options);
  } catch (error) {
    if (isRejected(error)) messages.length = before; // left in, this turn would make every later request fail
    if (options.signal.aborted) messages.push(INTERRUPTED);
    throw error;
  }
}
// #endregion

// That is the agent. The rest keeps it alive: bash, the terminal, bad replies, main. It can wait for a second reading.

// #region bash
const RESULT_LIMIT = 50_000; // characters of a tool result

/** Runs a command. Returns stdout and stderr in the order they were written, and how it ended, if not with code 0. */
export async function runBash(command: string, signal: AbortSignal, limit = 120_000): Promise<string> {
  const child = spawn("bash", ["-c", `exec 2>&1\n${command}`], {
    cwd: WORKDIR,
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ANTHROPIC_"))), // no key
    stdio: ["ignore", "pipe", "ignore"], // one pipe: `exec 2>&1` sends stderr into it, too, which keeps the order
    detached: true, // in a process group of its own, which can be killed as a whole
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output = cutMiddle(output + text, RESULT_LIMIT); // as it arrives, so that memory stays small
  });
  const closed = once(child.stdout, "close"); // when bash ends, or later: a job in the background may hold the pipe
  const ending = await endOf(child, signal, limit);
  const isOpen = await Promise.race([closed.then(() => false), sleep(250, true)]);
  const note = isOpen ? "\n(something still runs in the background)" : "";
  return (output.trimEnd() || "(no output)") + ending + note;
}

/** Waits until a command ends; ends it on Ctrl-C, after `limit` ms, or when the agent exits. Returns how it ended. */
async function endOf(child: ChildProcess, signal: AbortSignal, limit: number): Promise<string> {
  const kill = () => sendSignal(child, "SIGKILL");
  process.on("exit", kill);
  const timeout = AbortSignal.timeout(limit); // in a variable: Node 20 may collect it otherwise, and it never fires
  try {
    const stop = AbortSignal.any([signal, timeout]);
    const [code, killedBy] = await once(child, "exit", { signal: stop }); // throws when `stop` does
    process.off("exit", kill); // it has ended by itself, and what it left in the background may outlive the agent
    if (killedBy) return `\n(killed by ${killedBy})`;
    return code === 0 ? "" : `\n(exit code ${code})`;
  } catch (error) {
    if (child.pid === undefined) throw error; // bash could not be started
    sendSignal(child, "SIGTERM");
    setTimeout(() => {
      kill(); // in case it ignores SIGTERM
      process.off("exit", kill);
    }, 1_000);
    return timeout.aborted ? `\n(timed out after ${limit / 1_000} s)` : "\n(interrupted by user)";
  }
}

function sendSignal({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-Number(pid), signal); // a negative id means the whole group
  } catch {
    // It has ended, or it belongs to another user (sudo) and runs on.
  }
}

/** Returns at most `limit` characters: the head and the tail of a longer text. */
function cutMiddle(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const note = `\n[... cut here: longer than ${limit} characters ...]\n`;
  const half = Math.floor((limit - note.length) / 2);
  return (text.slice(0, half) + note + text.slice(-half)).toWellFormed(); // the cut may have halved an emoji
}
// #endregion

// #region terminal
const UNSAFE = /(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu; // control characters, and those that turn the text direction

/** Prints text so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r", "").replace(UNSAFE, "\ufffd");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, safe) : safe);
}

function messageOf(error: unknown): string {
  if (error instanceof Anthropic.APIUserAbortError) return "interrupted";
  if (error instanceof Anthropic.APIConnectionError) return `${error.message} The server is ${client.baseURL}`;
  if (error instanceof Anthropic.APIError)
    return `API error ${error.status ?? error.type}: ${error.apiMessage ?? error.message}`;
  return error instanceof Error ? error.message : String(error);
}

/** Tells the user why a request failed, and what to do about it. */
function report(error: unknown): void {
  let text = messageOf(error);
  if (/resolve auth/.test(text)) text = `no key: set ANTHROPIC_API_KEY, maybe in ${ENV_FILE}; npm run demo needs none`;
  if (isRejected(error))
    text += "; this turn was dropped, but what it did remains (if every request now fails, start again)";
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}
// #endregion

// #region rejected
class Refusal extends Error {} // by the model

/** Whether sending the same messages again would fail again. */
function isRejected(error: unknown): boolean {
  const isInvalid = error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);
  return isInvalid || error instanceof Refusal;
}

/** Returns the reply without what the API rejects: blank text, thinking at the end. Throws if it can't be used. */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  const reason = reply.stop_reason ?? "";
  if (reason === "refusal") throw new Refusal("the model refused");
  const isCut = ["max_tokens", "model_context_window_exceeded"].includes(reason); // a call may be cut in half
  if (isCut) throw new Error(`the reply was cut off (${reason}) and is dropped; ask for less in one go`);
  const content = reply.content.filter((block) => block.type !== "text" || block.text.trim() !== "");
  const last = content.findLastIndex(({ type }) => type === "text" || type === "tool_use"); // after it, thinking
  if (last < 0) throw new Error("the reply is empty");
  return { ...reply, content: content.slice(0, last + 1) };
}
// #endregion

// #region main
/** Lines that arrive together are one request: a paste, or what was typed during a turn. Ctrl-C drops them. */
async function* typedRequests(rl: Interface): AsyncGenerator<string> {
  const lines: string[] = [];
  print("Ctrl-C stops a turn, Ctrl-D or q leaves\n", "dim");
  rl.on("line", (line) => lines.push(line));
  rl.on("SIGINT", () => {
    lines.length = 0;
    if (rl.line !== "") rl.write(null, { ctrl: true, name: "u" }); // clears what is typed
  });
  while (true) {
    rl.prompt(true); // true: the cursor stays behind what was typed during the turn
    if (lines.length === 0) await once(rl, "line");
    let seen = 0;
    while (seen < lines.length || rl.line !== "") {
      seen = lines.length;
      await sleep(50); // for more lines of a paste, and for Enter after the last
    }
    yield lines.splice(0).join("\n");
  }
}

/** The requests: the one on the command line; or those typed in a terminal; or, of a pipe, one a line. */
function requestsFrom(rl: Interface, words: string[]): AsyncIterable<string> | string[] {
  if (words.length > 0) return [words.join(" ")];
  return process.stdin.isTTY ? typedRequests(rl) : rl;
}

/** Returns the answer if it is yes or always. Throws on any other: that is a no. */
async function ask(rl: Interface, question: string, signal: AbortSignal): Promise<string> {
  if (!process.stdin.isTTY) throw new Error("not run: without a terminal nobody can be asked; -y allows everything");
  print(`${question}\n`);
  const answer = (await rl.question("[y: yes, a: always, anything else: no] ", { signal })).trim();
  if (/^(y|yes|a|always)$/i.test(answer)) return answer;
  throw new Error(`not run: the user said no: ${answer}`);
}

const leave = () => process.stdout.write("", () => process.exit()); // once all is printed; an open readline would stay

async function main(): Promise<void> {
  const args = parseArgs({ allowPositionals: true, options: { y: { type: "boolean", short: "y" } } });
  const { stdin: input, stdout: output } = process;
  const rl = createInterface({ input, output, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
  const messages: Messages = [];
  let interrupt = new AbortController();
  let always = args.values.y;

  const approve = async (question: string) => {
    if (always) return;
    const answer = await ask(rl, question, interrupt.signal);
    always = /^a/i.test(answer);
  };

  const carryOut = async (request: string) => {
    interrupt = new AbortController();
    const options = { system: SYSTEM, tools: TOOLS, approve, signal: interrupt.signal };
    await runTurn(messages, request, options).catch(report);
  };

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1)); // kills the command
  output.on("error", () => process.exit(1)); // its reader is gone, as in `… | head -1`
  rl.on("SIGINT", () => interrupt.abort()); // Ctrl-C in a terminal
  if (input.isTTY) rl.on("close", leave); // Ctrl-D; a pipe closes while its requests still run

  for await (const request of requestsFrom(rl, args.positionals)) {
    if (request.trim() === "q") return;
    if (request.trim() !== "") await carryOut(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(report).finally(leave);
// #endregion
