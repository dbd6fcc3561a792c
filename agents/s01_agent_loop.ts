/**
 * s01: the agent loop
 *
 * An agent is a loop around a model that may call tools.
 *
 *     request ──▶ model ──▶ tool calls? ── no ──▶ back to the person
 *                   ▲            │ yes
 *                   └── results ─┘ run them
 *
 * New in s01: imports, config, screen, approval, bash, dispatch, system, call, bound, results, loop, prompt, main
 * Run: npx tsx agents/s01_agent_loop.ts
 */

// #region imports
import { spawn } from "node:child_process";
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs, styleText } from "node:util";
import Anthropic, { AnthropicError, APIConnectionError, APIError } from "@anthropic-ai/sdk";

// #endregion

// #region config
if (statSync(".env", { throwIfNoEntry: false })?.isFile()) process.loadEnvFile();

export const WORKDIR = realpathSync(process.cwd());
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
/** Tokens a reply may have, thinking included. */
const MAX_TOKENS = 32_000;
/** "off" leaves the field out of the request, for servers and older models that do not know it. */
const THINKING: Anthropic.ThinkingConfigParam | undefined =
  process.env.THINKING === "off" ? undefined : { type: "adaptive", display: "summarized" };
/** Reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL from the environment. Its log is off: each error is told once. */
const client = new Anthropic({ logLevel: "off" });
// #endregion

// #region screen
let lineOpen = false;
const dim = (text: string) => (process.stdout.isTTY ? styleText("dim", text) : text);

/** Control, text-direction and invisible characters as visible signs, so that no output can drive the terminal. */
const harmless = (text: string) =>
  text
    .replaceAll("\r\n", "\n")
    .replace(/[\0-\x08\x0b-\x1f]/g, (c) => String.fromCodePoint(0x2400 + c.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");

/** Prints a piece of text as it arrives. */
function print(text: string, style = (plain: string) => plain): void {
  if (!text) return;
  process.stdout.write(style(harmless(text)));
  lineOpen = !text.endsWith("\n");
}

/** Prints text on lines of its own. */
export function printLine(text: string, style?: (plain: string) => string): void {
  if (lineOpen) print("\n");
  print(`${text}\n`, style);
}

/** The first `lines` lines of a text, each at most 200 characters. */
function glimpse(text: string, lines: number): string {
  const all = text.split("\n");
  const shown = all.slice(0, lines).map((line) => (line.length > 200 ? `${line.slice(0, 200)}…` : line));
  if (all.length > lines) shown.push(`… ${all.length - lines} more lines`);
  return shown.join("\n");
}
// #endregion

// #region approval
/** How the person is asked before a command runs. `main` sets `ask` when there is a terminal; `-y` sets `always`. */
export const approval: { always: boolean; ask?: (question: string, signal?: AbortSignal) => Promise<string> } = {
  always: false,
};

/** Returns when the command may run; throws what the model is to know when it may not. */
async function approve(command: string, signal?: AbortSignal): Promise<void> {
  if (approval.always) return;
  if (!approval.ask) {
    throw new Error(
      "bash: not run: nobody can be asked, stdin is not a terminal; the person can start the agent with -y",
    );
  }
  const lines = command.split("\n");
  printLine(`$ ${lines.join("\n| ")}`);
  // A long command can push its beginning off the screen: the question says how much there is to read.
  const size = lines.length > 1 || command.length > 200 ? ` (${lines.length} lines, ${command.length} characters)` : "";
  const answer = (await approval.ask(`Run it${size}? [Enter or y: yes, n: no, a: always] `, signal)).trim();
  if (/^a$/i.test(answer)) approval.always = true;
  else if (!/^y?$/i.test(answer)) throw new Error(`bash: the person refused to run this command (answer: ${answer})`);
}
// #endregion

// #region bash
const BASH_LIMIT = 120_000; // ms
const GRACE = 250; // ms that a command has to clean up before it is killed
const CAPTURE = 10_000_000; // bytes kept of an output: the beginning and what came last

/**
 * Runs a command with `bash -c` in the workspace, in a process group of its own.
 * @returns stdout and stderr in the order they were written, and how the command ended if not with exit code 0
 * @throws if bash cannot be started
 */
export function runBash(command: string, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    // cat makes both streams one real pipe: Node's pipes are sockets, which `> /dev/stderr` cannot open. When we stop
    // reading, the second cat takes over, so that a process left in the background can go on printing. Neither hears
    // the signals that a command sends its own group. What a command wrote may still be on its way when it ends, and a
    // process in the background may hold the pipe for ever: `end` goes after it, the same way, once stdin is closed.
    const half = crypto.randomUUID(); // ps shows it, but never twice in a row
    const end = half + half;
    const pipe = "exec > >(cat || exec cat > /dev/null) 2>&1; { read; echo $2$2; } <&0 & exec < /dev/null";
    const script = `trap "" HUP INT TERM; ${pipe}; trap - HUP INT TERM; exec bash -c "$1"`;
    const child = spawn("bash", ["-c", script, "bash", command, half], {
      cwd: WORKDIR,
      env: { ...process.env, ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined },
      detached: true,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const chunks: Buffer[] = [];
    let [size, dropped, middle] = [0, 0, 0];
    child.stdout.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      while (size > CAPTURE) {
        middle ||= chunks.length >> 1;
        const oldest = chunks.splice(middle, 1)[0]?.length ?? 0;
        size -= oldest;
        dropped += oldest;
      }
      const hasEnded = child.exitCode !== null || child.signalCode !== null;
      if (hasEnded && Buffer.concat(chunks.slice(-2)).includes(end)) child.stdout.destroy();
    });

    let ending = "";
    const signalGroup = (name: NodeJS.Signals) => {
      try {
        if (child.pid) process.kill(-child.pid, name);
      } catch {} // nobody is left in the group
    };
    const stop = (why: string) => {
      ending ||= `\n(${why})`;
      signalGroup("SIGTERM");
      setTimeout(() => signalGroup("SIGKILL"), GRACE);
    };
    const interrupt = () => stop("interrupted by user");
    signal?.addEventListener("abort", interrupt);
    const timer = setTimeout(() => stop(`timed out after ${BASH_LIMIT / 1000} s and was killed`), BASH_LIMIT);
    child.on("error", (error) => reject(new Error(`bash: it cannot be started (${error.message}); is it on PATH?`)));
    child.on("exit", () => child.stdin.destroy());
    child.on("close", (code, killer) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", interrupt);
      if (dropped) chunks.splice(middle, 0, Buffer.from(`\n[... ${dropped} bytes not kept ...]\n`));
      const [text = ""] = new TextDecoder().decode(Buffer.concat(chunks)).split(end);
      const output = text.trimEnd() || "(no output)";
      resolve(output + (ending || (killer ? `\n(killed by ${killer})` : code ? `\n(exit code ${code})` : "")));
    });
  });
}
// #endregion

// #region dispatch
/** What a turn is given besides its messages. */
export type TurnOptions = { signal?: AbortSignal };

/** A tool is a name, a description and a schema: all that the model ever sees of it. */
export const TOOLS: Anthropic.Tool[] = [
  {
    name: "bash",
    description: "Run a bash command in the workspace. Returns its output; stops after 120 s.",
    input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  },
];

/** Runs one tool call and returns its output; throws what the model should know when it cannot. */
async function runTool(call: Anthropic.ToolUseBlock, { signal }: TurnOptions): Promise<string> {
  if (call.name !== "bash") throw new Error(`unknown tool ${call.name}: the only tool is bash`);
  const { command } = Object(call.input);
  if (typeof command !== "string") throw new Error("bash: command is missing or not a string");
  await approve(command, signal);
  return runBash(command, signal);
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Use the tools to solve the task.
Act first, then report briefly.
`;
// #endregion

// #region call
/** An error in one line, cut at 500 characters: its status, if it has one, and what the API or the system said. */
function explain(error: unknown): string {
  const fromApi = error instanceof APIError;
  const kind = fromApi ? `API error ${error.status ?? ""}`.trim() : "error";
  // When a proxy answers in the API's place, the SDK's message is the status and the proxy's whole page.
  const reason = (fromApi && error.apiMessage) || String(Object(error).message || error).replace(/^\d{3} /, "");
  return `${kind}: ${reason}`.replace(/\s+/g, " ").slice(0, 500);
}

/**
 * One request to the model; the reply is printed as it streams.
 * @returns nothing when `signal` aborted it
 * @throws AnthropicError when the API does not answer
 */
async function callModel(
  messages: Anthropic.MessageParam[],
  { signal }: TurnOptions,
): Promise<Anthropic.Message | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      const stream = client.messages.stream(
        {
          model: MODEL,
          max_tokens: MAX_TOKENS,
          cache_control: { type: "ephemeral" },
          thinking: THINKING,
          system: SYSTEM,
          tools: TOOLS,
          messages,
        },
        { signal },
      );
      stream.on("thinking", (delta) => print(delta, dim));
      stream.on("text", (delta) => print(delta));
      stream.on("contentBlock", () => lineOpen && print("\n"));
      return await stream.finalMessage();
    } catch (error) {
      if (signal?.aborted) return undefined;
      // The SDK retries what fails before the stream begins; one that breaks has neither status nor connection error.
      const answered = error instanceof APIConnectionError || (error instanceof APIError && error.status);
      if (attempt === 2 || answered || !(error instanceof AnthropicError)) throw error;
      printLine(`[the reply broke off (${explain(error)}); trying once more]`);
    }
  }
}
// #endregion

// #region bound
const RESULT_LIMIT = 50_000; // characters

/** Keeps each result within RESULT_LIMIT: its head, its tail and a line that says how much is missing. */
function boundResults(results: Anthropic.ToolResultBlockParam[]): Anthropic.ToolResultBlockParam[] {
  return results.map((result) => {
    const text = String(result.content);
    if (text.length <= RESULT_LIMIT) return result;
    const half = RESULT_LIMIT / 2 - 50;
    const missing = `\n[... ${text.length - 2 * half} of ${text.length} characters cut ...]\n`;
    return { ...result, content: text.slice(0, half) + missing + text.slice(-half) };
  });
}
// #endregion

// #region results
const isCut = (reply: Anthropic.Message) =>
  reply.stop_reason === "max_tokens" || reply.stop_reason === "model_context_window_exceeded";

/** The API takes no lone surrogates, which models and cut texts sometimes contain; JSON writes them as `\ud…`. */
const wellFormed = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value).replace(/\\(ud...|.)/g, (all, rest) => (rest.length > 1 ? "\ufffd" : all)));

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * What of a reply the API takes back: no blank text, no broken strings, no input that is no object, no name that no
 * tool may have, no thinking at the end, and none after a block that had to change, as it is bound to what was before.
 */
function usableContent(reply: Anthropic.Message): Anthropic.ContentBlock[] {
  const isThinking = (block?: Anthropic.ContentBlock) => block?.type.endsWith("thinking");
  const content: Anthropic.ContentBlock[] = [];
  let changed = false;
  for (const original of reply.content) {
    const block = wellFormed(original);
    if (block.type === "tool_use") {
      if (!isObject(block.input)) block.input = { input: block.input };
      block.name = block.name.replace(/[^\w-]/g, "_").slice(0, 200) || "_";
    }
    const isBlank = block.type === "text" && block.text.trim() === "";
    changed ||= isBlank || JSON.stringify(block) !== JSON.stringify(original);
    if (!isBlank && !(changed && isThinking(block))) content.push(block);
  }
  while (isThinking(content.at(-1))) content.pop();
  return content;
}

/** Runs the calls in their order; whatever happens, each gets exactly one result. */
async function runCalls(
  reply: Anthropic.Message,
  calls: Anthropic.ToolUseBlock[],
  options: TurnOptions,
): Promise<Anthropic.ToolResultBlockParam[]> {
  const results: Anthropic.ToolResultBlockParam[] = [];
  const last = reply.content.at(-1);
  for (const call of calls) {
    const result: Anthropic.ToolResultBlockParam = { type: "tool_result", tool_use_id: call.id };
    results.push(result);
    try {
      printLine(`> ${call.name} ${glimpse(JSON.stringify(call.input), 1)}`);
      if (isCut(reply) && last?.type === "tool_use" && last.id === call.id) {
        throw new Error(
          `${call.name}: not run: the reply reached its limit inside this call, which is incomplete; send less at once`,
        );
      }
      options.signal?.throwIfAborted();
      result.content = await runTool(call, options);
    } catch (error) {
      result.is_error = true;
      result.content = (error instanceof Error && error.message) || String(error);
      if (options.signal?.aborted) result.content = "(interrupted by user)";
    }
    printLine(glimpse(result.content, 5), dim);
  }
  return results;
}
// #endregion

// #region loop
/** How a turn ended. */
export type Outcome = "done" | "cut off" | "refused" | "interrupted";

/**
 * Calls the model and runs its tool calls until it calls no more. `messages` ends with the request and is extended in
 * place; when the loop returns or throws, it is a history that the API accepts.
 * @throws AnthropicError when the API does not answer
 */
export async function agentLoop(messages: Anthropic.MessageParam[], options: TurnOptions = {}): Promise<Outcome> {
  const start = messages.length - 1;
  let cutReplies = 0;
  while (!options.signal?.aborted) {
    const reply = await callModel(messages, options);
    if (!reply) break;
    if (reply.stop_reason === "refusal") {
      messages.length = start; // a refused request that stays is refused again and again
      printLine("[the model refused; this request is taken out of the conversation]");
      return "refused";
    }
    const content = usableContent(reply);
    if (content.length > 0) messages.push({ role: "assistant", content });

    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return isCut(reply) ? "cut off" : "done";

    const results = boundResults(await runCalls(reply, calls, options));
    messages.push(wellFormed({ role: "user", content: results }));
    cutReplies = isCut(reply) ? cutReplies + 1 : 0;
    if (cutReplies === 3) return "cut off";
  }
  return "interrupted";
}
// #endregion

// #region prompt
/** Carries out one request and tells the person how it ended, unless it was done. @returns whether it was */
async function runTurn(messages: Anthropic.MessageParam[], content: string, options: TurnOptions): Promise<boolean> {
  const request: Anthropic.MessageParam = wellFormed({ role: "user", content });
  messages.push(request);
  try {
    const outcome = await agentLoop(messages, options);
    if (outcome !== "done" && outcome !== "refused") printLine(`[${outcome}]`); // of a refusal the loop has told
    return outcome === "done";
  } catch (error) {
    printLine(`[${explain(error)}]`);
    // What the API calls invalid (400) or too large (413) would be that in every later call, too.
    const status = error instanceof APIError && error.status;
    if ((status === 400 || status === 413) && messages.at(-1) === request) messages.pop();
    return false;
  }
}
// #endregion

// #region main
const FILE = fileURLToPath(import.meta.url);
const LESSON = basename(FILE).split("_")[0];
const HELP = `npx tsx agents/${basename(FILE)} [-y] ["a request"]

  "a request"  carry out this one and exit (0 if it was done, else 1); without it, a prompt opens
  -y, --yes    run bash commands without asking

At the prompt, Ctrl-C stops a turn; q, exit or Ctrl-D leaves. Requests may be piped in, one a line.`;

async function main(): Promise<void> {
  const { values: flags, positionals } = parseArgs({
    allowPositionals: true,
    options: { yes: { type: "boolean", short: "y", default: false }, help: { type: "boolean", short: "h" } },
  });
  if (flags.help) return console.log(HELP);
  const request = positionals.join(" ");
  if (positionals.length > 0 && !request.trim()) throw new Error("The request is empty; --help shows how to give one.");
  if (!process.env.ANTHROPIC_API_KEY && !process.env.ANTHROPIC_AUTH_TOKEN) {
    throw new Error("No credential: set ANTHROPIC_API_KEY in the environment or in .env (npm run demo needs none).");
  }

  const terminal = process.stdin.isTTY && process.stdout.isTTY;
  const rl = createInterface({ input: process.stdin, output: process.stdout, terminal, prompt: `${LESSON} >> ` });
  approval.always = flags.yes;
  if (process.stdin.isTTY) {
    approval.ask = (question, signal) => {
      if (terminal) rl.write(null, { ctrl: true, name: "u" }); // what was typed before the question is no answer
      return rl.question(question, { signal });
    };
  }

  const messages: Anthropic.MessageParam[] = [];
  let turn: AbortController | undefined;
  let open = true;
  const interrupt = () => (turn ? turn.abort() : rl.close());
  rl.on("SIGINT", interrupt);
  process.on("SIGINT", interrupt);
  rl.on("close", () => {
    open = false;
    if (process.stdin.isTTY) turn?.abort(); // but the end of piped input is no wish to stop
  });
  process.stdout.on("error", () => {
    turn?.abort(); // nobody reads on: the terminal is closed, or the other end of a pipe
    rl.close();
  });
  for (const signal of ["SIGHUP", "SIGTERM"]) {
    process.once(signal, () => {
      turn?.abort(); // takes the running command along
      setTimeout(() => process.kill(process.pid, signal), 2 * GRACE);
    });
  }
  const carryOut = async (request: string) => {
    turn = new AbortController();
    const done = await runTurn(messages, request, { signal: turn.signal });
    turn = undefined;
    return done;
  };

  if (positionals.length > 0) {
    process.exitCode = (await carryOut(request)) ? 0 : 1;
  } else {
    const showPrompt = () => terminal && open && rl.prompt();
    showPrompt();
    for await (const line of rl) {
      const words = line.trim();
      if (words === "q" || words === "exit") break;
      if (words) await carryOut(words);
      showPrompt();
    }
    if (terminal && !open) printLine(""); // the shell's prompt goes on a line of its own
  }
  rl.close();
}

const script = process.argv[1] ?? "";
if (existsSync(script) && realpathSync(script) === realpathSync(FILE)) {
  main().catch((error: Error) => {
    console.error(harmless(error.message));
    process.exitCode = 1;
  });
}
// #endregion
