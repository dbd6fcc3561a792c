/**
 * s01: the agent loop
 *
 * An agent is a loop around a model that may call tools.
 *
 *     request ──▶ model ──▶ tool calls? ── no ──▶ back to the user
 *                   ▲            │ yes
 *                   └── results ─┘ run them
 *
 * New in s01: setup, loop, dispatch, bash, terminal
 * Run: npx tsx agents/s01_agent_loop.ts
 */

// #region setup
import { spawn } from "node:child_process";
import { on } from "node:events";
import fs from "node:fs";
import { basename } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs, styleText } from "node:util";
import Anthropic from "@anthropic-ai/sdk";

if (fs.existsSync(".env")) process.loadEnvFile();
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const MAX_TOKENS = 32_000; // of a reply, thinking included
const THINKING = process.env.THINKING === "off" ? undefined : ({ type: "adaptive", display: "summarized" } as const);
const RESULT_LIMIT = 50_000; // characters of a tool result
export const WORKDIR = fs.realpathSync(process.cwd());
// #endregion

// #region loop
export type Messages = Anthropic.MessageParam[];
export type Tools = Anthropic.Tool[];
export type Approve = (question: string) => Promise<void>;
/** What a turn needs besides its messages. `approve` throws if the user says no; Ctrl-C aborts `signal`. */
export type TurnOptions = { system: string; tools: Tools; approve: Approve; signal: AbortSignal };

/**
 * Runs one turn: the request at the end of `messages`, which grows in place. The API accepts it however the turn ends.
 * @throws if the turn doesn't complete: interruption, refusal, cut-off or empty reply, error of the API
 */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<void> {
  const before = messages.slice(0, -1); // to go back to if the model refuses
  let accepted = before; // to go back to if the API rejects what came since
  while (true) {
    options.signal.throwIfAborted();
    const reply = await callModel(messages, options).catch((error) => {
      options.signal.throwIfAborted();
      // Go back: a history that is rejected once would be rejected every time.
      if (error.status === 400 || error.status === 413) messages.splice(0, messages.length, ...accepted);
      throw error;
    });
    accepted = [...messages];
    if (reply.stop_reason === "refusal") {
      messages.splice(0, messages.length, ...before); // if it stayed, it would be refused again
      throw new Error("the model refused; your request was taken out of the conversation");
    }
    const content = withoutBlanks(reply.content);
    if (content.length > 0) messages.push({ role: "assistant", content });

    const isCut = reply.stop_reason === "max_tokens" || reply.stop_reason === "model_context_window_exceeded";
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0 && isCut) throw new Error("the reply was cut off; ask for less in one go");
    if (content.length === 0) throw new Error("the reply is empty");
    if (calls.length === 0) return;
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, isCut && call === reply.content.at(-1), options));
    messages.push({ role: "user", content: results });
  }
}

/** Sends the conversation to the model and prints the reply as it arrives. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions): Promise<Anthropic.Message> {
  const cache_control = { type: "ephemeral" } as const;
  const request = { model: MODEL, max_tokens: MAX_TOKENS, thinking: THINKING, cache_control, system, tools, messages };
  const stream = client.messages.stream(request, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", (block) => block.type !== "tool_use" && print("\n"));
  return stream.finalMessage();
}

/** Drops what the API rejects when it is sent back: blank text, the thinking after it, and thinking at the end. */
function withoutBlanks(content: Anthropic.ContentBlock[]): Anthropic.ContentBlock[] {
  const isThinking = (block?: Anthropic.ContentBlock) => block?.type.endsWith("thinking");
  const isBlank = (block: Anthropic.ContentBlock) => block.type === "text" && !block.text.trim();
  const blank = content.findIndex(isBlank);
  const kept = content.filter((block, i) => !isBlank(block) && !(isThinking(block) && blank >= 0 && blank < i));
  while (isThinking(kept.at(-1))) kept.pop();
  return kept;
}

/** Runs a call, unless the reply was cut off inside it. Whatever happens, the call gets a result. */
async function runCall({ id, name, input }: Anthropic.ToolUseBlock, isCut: boolean, options: TurnOptions) {
  let [content, is_error] = ["", false];
  print(name === "bash" ? `$ ${Object(input).command}\n` : `> ${name} ${firstLines(JSON.stringify(input))}\n`);
  try {
    options.signal.throwIfAborted();
    if (isCut) throw new Error(`${name}: not run: the reply was cut off inside this call; send less in one go`);
    content = await runTool(name, input, options);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : explain(error);
    is_error = true;
  }
  print(`${firstLines(content)}\n`, "dim");
  return { type: "tool_result" as const, tool_use_id: id, content: cutMiddle(content).toWellFormed(), is_error };
}

/** Keeps the head and the tail of a text that is longer than `limit` characters. */
function cutMiddle(text: string, limit = RESULT_LIMIT): string {
  if (text.length <= limit) return text;
  const half = limit / 2 - 50;
  return `${text.slice(0, half)}\n[... cut here: longer than ${limit} characters ...]\n${text.slice(-half)}`;
}
// #endregion

// #region dispatch
const description = "Run a bash command in the workspace. Returns its output. Times out after 120 s.";
const input_schema = { type: "object" as const, properties: { command: { type: "string" } }, required: ["command"] };
/** All the model knows about a tool: a name, a description and a schema. */
export const TOOLS: Tools = [{ name: "bash", description, input_schema }];

/** @returns what the model reads @throws why the call can't be run, which the model reads too */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  if (name !== "bash") throw new Error(`unknown tool ${name}: the only tool is bash`);
  const { command } = Object(input);
  if (typeof command !== "string") throw new Error("bash: command is missing or not a string");
  await options.approve("Run this command?");
  return runBash(command, options.signal);
}

export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.`;
// #endregion

// #region bash
/** Runs a command. @returns stdout and stderr in the order they were written, and the exit code unless it is 0 */
export function runBash(command: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn("bash", ["-c", `exec 2>&1\n${command}`], {
      env: { ...process.env, ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true, // its own process group, which `stop` kills as a whole
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output = cutMiddle(output + text);
    });
    const stop = () => spawn("bash", ["-c", "kill -15 -$0; sleep .2; kill -9 -$0", `${child.pid}`], { detached: true });
    const timeout = AbortSignal.timeout(120_000);
    for (const each of [signal, timeout]) each.addEventListener("abort", stop);
    const finish = (code: number | null, killer: string | null) => {
      for (const each of [signal, timeout]) each.removeEventListener("abort", stop);
      let ending = code === 0 ? "" : `\n(${killer ? `killed by ${killer}` : `exit code ${code}`})`;
      if (timeout.aborted) ending = "\n(timed out after 120 s)";
      if (signal.aborted) ending = "\n(interrupted by user)";
      resolve((output.trimEnd() || "(no output)") + ending);
    };
    child.on("error", reject);
    child.on("close", finish); // all output has arrived
    child.on("exit", (...how) => setTimeout(finish, 250, ...how)); // a background process may hold the pipe open
  });
}
// #endregion

// #region terminal
/** Prints text with its control and text-direction characters replaced, so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r\n", "\n").replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, "\ufffd");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, safe) : safe);
}

function firstLines(text: string): string {
  const start = text.split("\n").slice(0, 10).join("\n").slice(0, 500);
  return start.length < text.length ? `${start} …` : text;
}

function explain(error: unknown): string {
  const { message = String(error), apiMessage, status = "" } = Object(error);
  if (!message.startsWith("Could not resolve auth")) return apiMessage ? `API error ${status}: ${apiMessage}` : message;
  return "no API key: set ANTHROPIC_API_KEY in the environment or in .env; npm run demo needs none";
}

function reportFailure(error: unknown): void {
  print(`\n[${explain(error)}]\n`);
  process.exitCode = 1;
}

/** The requests, one per line. Lines that reach a terminal together, such as a paste, are one request. */
function requestsFrom(rl: Interface): AsyncIterable<string[]> {
  if (!rl.terminal) return on(rl, "line", { close: ["close"] });
  const lines: string[] = [];
  let timer: NodeJS.Timeout;
  const finish = () => rl.line || rl.emit("request", lines.splice(0).join("\n")); // a pasted line may wait for Enter
  rl.on("line", (line) => {
    lines.push(line);
    clearTimeout(timer);
    timer = setTimeout(finish, 30);
  });
  rl.on("SIGINT", () => lines.splice(0));
  return on(rl, "request", { close: ["close"] });
}

const FILE = fileURLToPath(import.meta.url);
const HELP = `npx tsx agents/${basename(FILE)} [-y] ["a request"]     -y: never ask
Without a request a prompt opens: Ctrl-C stops a turn, q or Ctrl-D quits. Requests may be piped in, one per line.`;

async function main(): Promise<void> {
  const options = { yes: { type: "boolean", short: "y" }, help: { type: "boolean", short: "h" } } as const;
  const { values: flags, positionals } = parseArgs({ allowPositionals: true, options });
  if (flags.help) return console.log(HELP);

  const { stdin: input, stdout: output } = process;
  const terminal = input.isTTY && output.isTTY;
  const rl = createInterface({ input, output, terminal, prompt: `${basename(FILE).split("_")[0]} >> ` });
  let turn: AbortController | undefined;
  rl.on("SIGINT", () => {
    if (turn) return turn.abort(new Error("interrupted"));
    rl.write(null, { ctrl: true, name: "e" });
    rl.write(null, { ctrl: true, name: "u" }); // clears what was typed
  });
  rl.on("close", () => terminal && process.exit(0));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  process.on("exit", () => turn?.abort()); // stops the running command, too

  const approve = async (question: string) => {
    if (flags.yes) return;
    if (!input.isTTY) throw new Error("not run: stdin is not a terminal, so nobody can be asked; -y runs everything");
    print(`${question}\n`);
    const answer = await rl.question("[y: yes, a: always, anything else: no] ", { signal: turn?.signal });
    flags.yes = answer === "a";
    if (answer !== "a" && answer !== "y") throw new Error(`not run: the user said no: ${answer || "(nothing)"}`);
  };
  const messages: Messages = [];
  const runTurn = async (content: string) => {
    turn = new AbortController();
    messages.push({ role: "user", content: content.toWellFormed() });
    await agentLoop(messages, { system: SYSTEM, tools: TOOLS, approve, signal: turn.signal }).catch(reportFailure);
    turn = undefined;
  };

  if (positionals.length > 0) return runTurn(positionals.join(" "));
  if (terminal) rl.prompt();
  for await (const [request = ""] of requestsFrom(rl)) {
    if (["q", "exit", "/exit"].includes(request.trim())) process.exit(0);
    if (request.trim()) await runTurn(request);
    if (terminal) rl.prompt();
  }
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fs.realpathSync(FILE)) {
  main().catch(reportFailure).finally(process.exit); // even if a command in the background holds a pipe open
}
// #endregion
