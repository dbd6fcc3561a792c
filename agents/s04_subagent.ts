/**
 * s04: subagent
 *
 * A fresh context is the cheapest way to keep the main one clean.
 *
 *     messages: request, …, task("find out …") ──▶ fresh messages: prompt, calls, results, calls, …
 *                           one result         ◀── the last text
 *
 * Same as s03: setup, dispatch, todo, files, bash
 * New in s04: subagent
 * Changed from s03: loop, system, terminal
 * Run: npx tsx agents/s04_subagent.ts
 */

// #region setup
import { isUtf8 } from "node:buffer";
import { spawn } from "node:child_process";
import { on } from "node:events";
import fs from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs, styleText } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

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
export type TurnOptions = { system: string; tools: Tools; approve: Approve; signal: AbortSignal; maxRounds?: number };

/**
 * Runs one turn: the request at the end of `messages`, which grows in place. The API accepts it however the turn ends.
 * @throws if the turn doesn't complete: interruption, refusal, cut-off or empty reply, error of the API
 */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<void> {
  const before = messages.slice(0, -1); // to go back to if the model refuses
  let accepted = before; // to go back to if the API rejects what came since
  let roundsWithoutTodo = 0;
  for (let round = 0; ; round++) {
    options.signal.throwIfAborted();
    if (round === options.maxRounds) throw new Error(`out of rounds: ${round} were allowed`);
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
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const plans = options.tools.some((tool) => tool.name === "todo");
    if (plans && roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
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
type Handler<Input> = (input: Input, options: TurnOptions) => string | Promise<string>;
/** The dispatch map: what runs when the model calls a tool of that name. */
export const TOOL_HANDLERS: Record<string, Handler<unknown>> = {};
/** What the model knows about each tool. */
export const TOOLS: Tools = [];

/** A new tool is a new entry. Its schema tells the model what to send, and checks what it then sends. */
function addTool<T extends z.ZodObject>(name: string, description: string, schema: T, run: Handler<z.output<T>>): void {
  TOOLS.push({ name, description, input_schema: { ...z.toJSONSchema(schema, { io: "input" }), type: "object" } });
  TOOL_HANDLERS[name] = (input, options) => run(check(name, schema, input), options);
}

/** @returns the value as the schema parses it @throws all that is wrong with it */
function check<Schema extends z.ZodType>(what: string, schema: Schema, value: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (!success) throw new Error(`${what} is not valid:\n${z.prettifyError(error)}`);
  return data;
}

/** @returns what the model reads @throws why the call can't be run, which the model reads too */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  const names = options.tools.map((tool) => tool.name);
  const handler = names.includes(name) && TOOL_HANDLERS[name];
  if (!handler) throw new Error(`unknown tool ${name}: the tools are ${names.join(", ")}`);
  return handler(input, options);
}

const command = z.object({ command: z.string() });
addTool("bash", "Run a bash command. Times out after 120 s.", command, async (input, options) => {
  await options.approve("Run this command?");
  return runBash(input.command, options.signal);
});
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent working in ${WORKDIR}. Carry out the task with the tools. Your last message is
all that is passed on: make it the complete answer.`;

/** Runs a task in a fresh context. @returns the last text, and how the task ended if it isn't done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const messages: Messages = [{ role: "user", content: prompt.toWellFormed() }];
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  let ending = "";
  margin = "  ";
  await agentLoop(messages, { ...options, system: CHILD_SYSTEM, tools, maxRounds: 30 }).catch((error) => {
    ending = `\n(the subagent was not done: ${explain(error)})`;
  });
  margin = "";
  const texts = messages.map((message) => (message.role === "assistant" ? textOf(message) : ""));
  return (texts.findLast((text) => text !== "") ?? "(it said nothing)") + ending;
}

function textOf({ content }: Anthropic.MessageParam): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

const task = z.object({ prompt: z.string().trim().min(1) });
addTool("task", "Give a self-contained task to a subagent. Returns its answer.", task, ({ prompt }, options) =>
  runSubagent(prompt, options),
);
// #endregion

// #region todo
const REMINDER: Anthropic.TextBlockParam = { type: "text", text: "<reminder>Update your todos.</reminder>" };
const TodoItem = z.object({ text: z.string().trim().min(1), status: z.enum(["pending", "in_progress", "completed"]) });
const isFocused = (items: { status: string }[]) => items.filter((item) => item.status === "in_progress").length <= 1;
const TodoList = z.array(TodoItem).max(20).refine(isFocused, "only one item can be in_progress");
const fromJson = (items: unknown) => (typeof items === "string" ? JSON.parse(items) : items); // some models do
const TodoItems = z.preprocess(fromJson, TodoList);

export class TodoManager {
  items: z.output<typeof TodoItems> = [];

  /** Replaces the list. @returns it as text @throws if it breaks a rule; then the old list stays */
  update(items: unknown): string {
    this.items = check("the todo list", TodoItems, items);
    return this.render();
  }

  render(): string {
    const marks = { pending: "[ ]", in_progress: "[>]", completed: "[x]" };
    const lines = this.items.map((item, i) => `${marks[item.status]} #${i + 1}: ${item.text}`);
    const completed = this.items.filter((item) => item.status === "completed").length;
    return [...lines, `(${completed}/${lines.length} completed)`].join("\n");
  }
}
export const TODO = new TodoManager();
const list = z.object({ items: TodoItems });
addTool("todo", "Write down the whole plan: at most 20 items.", list, ({ items }) => TODO.update(items));
// #endregion

// #region files
/** The real path of a file that may not exist yet. @throws if it is outside the workspace, by whatever route */
export function safePath(path: string): string {
  const absolute = resolve(WORKDIR, path);
  let existing = absolute;
  while (!fs.lstatSync(existing, { throwIfNoEntry: false })) existing = dirname(existing);
  const real = join(fs.realpathSync(existing), relative(existing, absolute));
  if (relative(WORKDIR, real).split("/")[0] === "..") throw new Error(`${path} is outside the workspace ${WORKDIR}`);
  return real;
}

function readText(path: string): string {
  const file = safePath(path);
  if (!fs.statSync(file).isFile()) throw new Error(`${path} is a folder or a device; use bash to look at it`);
  const bytes = fs.readFileSync(file);
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error(`${path} is binary; use bash to look at it`);
  return bytes.toString();
}

/** Reads a file, or `limit` lines of it, starting at line `offset` (the first is 1). */
export function runRead(path: string, offset = 1, limit = Number.POSITIVE_INFINITY): string {
  const lines = readText(path).replace(/\n$/, "").split("\n");
  if (offset > lines.length) throw new Error(`${path} has only ${lines.length} lines`);
  const end = offset - 1 + limit;
  const more = end < lines.length ? `\n[${lines.length - end} more lines: go on with offset ${end + 1}]` : "";
  return (lines.slice(offset - 1, end).join("\n") || "(empty)") + more;
}

/** Writes a file, and the folders it needs. At any moment the file holds the old content or the new. */
export function runWrite(path: string, content: string): string {
  const file = safePath(path);
  const old = fs.statSync(file, { throwIfNoEntry: false });
  if (old && !old.isFile()) throw new Error(`${path} is a folder or a device; name a file`);
  const temporary = `${file}.${process.pid}.tmp`;
  fs.mkdirSync(dirname(file), { recursive: true });
  fs.writeFileSync(temporary, content);
  if (old) fs.chmodSync(temporary, old.mode);
  fs.renameSync(temporary, file);
  return `Wrote ${Buffer.byteLength(content)} bytes to ${path}`;
}

/** The text of a file with `oldText` replaced, which must occur exactly once. */
function replaceOnce(path: string, oldText: string, newText: string): string {
  const text = readText(path);
  const isCrlf = text.includes("\r\n") && !/(?<!\r)\n/.test(text); // models write \n even then
  const adapt = (part: string) => (isCrlf ? part.replace(/\r?\n/g, "\r\n") : part);
  const [before = "", ...after] = text.split(adapt(oldText));
  if (after.length === 0) throw new Error(`old_text does not occur in ${path}; read it again and copy it exactly`);
  if (after.length > 1) throw new Error(`old_text occurs ${after.length} times in ${path}; include more lines`);
  return before + adapt(newText) + after[0];
}

export function runEdit(path: string, oldText: string, newText: string): string {
  runWrite(path, replaceOnce(path, oldText, newText));
  return `Edited ${path}`;
}

const range = z.object({ path: z.string(), offset: z.int().min(1).optional(), limit: z.int().min(1).optional() });
addTool("read_file", "Read a file, or `limit` lines of it from line `offset` on (from 1).", range, (input) =>
  runRead(input.path, input.offset, input.limit),
);
const file = z.object({ path: z.string(), content: z.string() });
addTool("write_file", "Write a file, and the folders it needs.", file, async ({ path, content }, { approve }) => {
  await approve(`${content}\nWrite this to ${safePath(path)}?`);
  return runWrite(path, content);
});
const edit = z.object({ path: z.string(), old_text: z.string().min(1), new_text: z.string() });
addTool("edit_file", "Replace old_text, which must occur exactly once.", edit, async (input, { approve }) => {
  const { path, old_text, new_text } = input;
  replaceOnce(path, old_text, new_text); // throws before the user is asked
  await approve(`${old_text.replace(/^/gm, "- ")}\n${new_text.replace(/^/gm, "+ ")}\nChange ${path} like this?`);
  return runEdit(path, old_text, new_text);
});
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

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Give what takes much reading but has a short answer to a subagent with task.`;
// #endregion

// #region terminal
let margin = ""; // before each line; runSubagent sets it
let isLineStart = true;

/** Prints text with its control and text-direction characters replaced, so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r\n", "\n").replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, "\ufffd");
  const lines = (isLineStart ? margin : "") + safe.replace(/\n(?=.)/g, `\n${margin}`);
  if (safe) isLineStart = safe.endsWith("\n");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, lines) : lines);
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
