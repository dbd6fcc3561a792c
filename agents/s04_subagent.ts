/**
 * s04: subagent
 *
 * A fresh context is the cheapest way to keep the main one clean.
 *
 *     messages: request, …, task("find out …") ──▶ fresh messages: prompt, calls, results, calls, …
 *                           one result         ◀── the last text
 *
 * Same as s03: setup, turn, dispatch, todo, files, bash
 * New in s04: subagent
 * Changed from s03: loop, system, terminal
 * Run: npx tsx agents/s04_subagent.ts
 */

// #region setup
import { isUtf8 } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, styleText } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

const ENV_FILE = join(import.meta.dirname, "../.env"); // not the one of the workspace, which may be a stranger's
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const MAX_TOKENS = 32_000; // of a reply, thinking included
const RESULT_LIMIT = 50_000; // characters of a tool result
export const WORKDIR = fs.realpathSync(process.cwd());
// #endregion

// #region loop
// messages:  user       Run `echo hi`
//            assistant  tool_use     toolu_1  bash { command: "echo hi" }
//            user       tool_result  toolu_1  hi      (only the model is the assistant, so results come from the user)
//            assistant  It printed: hi
/** Calls the model and runs the tools it asks for, until it asks for none. @returns its last reply */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  let roundsWithoutTodo = 0;
  for (let round = 0; round !== options.maxRounds; round++) {
    const reply = await callModel(messages, options);
    messages.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // done: the model has said what it has to say
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, reply, options));
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const plans = options.tools.some((tool) => tool.name === "todo");
    if (plans && roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
    messages.push({ role: "user", content: results }); // one result for each call, in one message
  }
  throw new Error(`out of rounds: ${options.maxRounds} were allowed`);
}

export type Messages = Anthropic.MessageParam[];
export type Tools = Anthropic.Tool[];
/** What a turn needs besides its messages. `approve` throws if the user says no; Ctrl-C aborts `signal`. */
export type TurnOptions = Basics & { maxRounds?: number };
type Basics = { system: string; tools: Tools; approve(text: string): Promise<void>; signal: AbortSignal };

/** Sends the whole conversation, each time, since the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions): Promise<Anthropic.Message> {
  const thinking = process.env.THINKING === "off" ? undefined : ({ type: "adaptive", display: "summarized" } as const);
  const cache_control = { type: "ephemeral" } as const; // the next model call pays little for what this one sends
  const body = { model: MODEL, max_tokens: MAX_TOKENS, thinking, cache_control, system, tools, messages };
  const stream = client.messages.stream(body, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", ({ type }) => print(type === "tool_use" ? "" : "\n"));
  return checkReply(await stream.finalMessage());
}

/** Runs a call of a reply. Whatever happens, it gets a result, and the model reads what went wrong. */
async function runCall(call: Anthropic.ToolUseBlock, reply: Anthropic.Message, options: TurnOptions) {
  let [content, is_error] = ["", false];
  try {
    options.signal.throwIfAborted(); // after Ctrl-C no call runs, and the next callModel throws
    if (isCut(reply)) throw new Error(`${call.name}: not run: the reply was cut off; send less in one go`);
    content = await runTool(call.name, call.input, options);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : explain(error);
    is_error = true;
  }
  print(`${firstLines(content)}\n`, "dim");
  return { type: "tool_result" as const, tool_use_id: call.id, content: cutMiddle(content).toWellFormed(), is_error };
}

/** @returns at most `limit` characters: of a longer text the head and the tail */
function cutMiddle(text: string, limit = RESULT_LIMIT): string {
  if (text.length <= limit) return text;
  const half = Math.max(0, limit / 2 - 30); // room for the note
  const note = `\n[... cut here: longer than ${limit} characters ...]\n`;
  return (text.slice(0, half) + note + text.slice(text.length - half)).slice(0, limit);
}
// #endregion

// #region turn
/** Carries out a request. However it ends, the API accepts the history that is left. @throws what went wrong */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = messages.length;
  messages.push({ role: "user", content: request.toWellFormed() }); // the API rejects half an emoji
  try {
    if (isCut(await agentLoop(messages, options))) throw new Error("the reply was cut off; ask for less in one go");
  } catch (error) {
    options.signal.throwIfAborted(); // interrupted: all stays, since each call has its result
    if (error instanceof Refusal) messages.length = before; // as long as this turn is there, it is refused again
    if (isRejected(error)) messages.length = Math.max(before, messages.length - 2); // reply and results, or the request
    throw error;
  }
}

const isCut = (reply: Anthropic.Message) => reply.stop_reason === "max_tokens";
const isRejected = (error: unknown) => error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);
class Refusal extends Error {}

/** @returns the reply without what the API sends and then rejects: blank text, half an emoji, thinking at the end */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  if (reply.stop_reason === "refusal") throw new Refusal("the model refused; your request was taken out");
  if (reply.stop_reason === "model_context_window_exceeded") throw new Error("the context window is full");
  const isThinking = ({ type }: Anthropic.ContentBlock) => type === "thinking" || type === "redacted_thinking";
  const isBad = (b: Anthropic.ContentBlock) => b.type === "text" && !(b.text.trim() && b.text.isWellFormed());
  const last = reply.content.at(-1);
  if (last && !isThinking(last) && !reply.content.some(isBad)) return reply;
  // Thinking is signed together with all that is before it, so when a block goes, all thinking goes.
  const content = reply.content.filter((block) => !isBad(block) && !isThinking(block));
  if (content.length === 0) throw new Error(isCut(reply) ? "the reply was cut off" : "the reply is empty");
  return { ...reply, content };
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
  if (name !== "bash") print(`> ${name} ${firstLines(JSON.stringify(input))}\n`);
  const names = options.tools.map((tool) => tool.name);
  const handler = names.includes(name) && TOOL_HANDLERS[name];
  if (!handler) throw new Error(`unknown tool ${name}: the tools are ${names.join(", ")}`);
  return handler(input, options);
}

const command = z.object({ command: z.string() });
addTool("bash", "Run a bash command. Times out after 120 s.", command, async ({ command }, options) => {
  print(`$ ${command}\n`);
  await options.approve(command.includes("\n") ? `Run these ${command.split("\n").length} lines?` : "Run this?");
  return runBash(command, options.signal);
});
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent working in ${WORKDIR}. Carry out the task with the tools. Your last message is
all that is passed on: make it the complete answer.`;

/** Runs a task in a fresh context. @returns the last text, and how the task ended if it isn't done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const messages: Messages = [];
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  let ending = "";
  margin = "  ";
  await runTurn(messages, prompt, { ...options, system: CHILD_SYSTEM, tools, maxRounds: 30 }).catch((error) => {
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
const fromJson = (items: unknown) => (typeof items === "string" ? JSON.parse(items) : items); // some models do
const TodoItems = z.preprocess(fromJson, z.array(TodoItem).max(20).refine(isFocused, "only one can be in_progress"));

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
  fs.mkdirSync(dirname(file), { recursive: true });
  const temporary = `${file}.${crypto.randomUUID()}.tmp`; // a name that nobody can have put a link at
  try {
    fs.writeFileSync(temporary, content, { flag: "wx" });
    if (old) fs.chmodSync(temporary, old.mode);
    fs.renameSync(temporary, file);
  } finally {
    fs.rmSync(temporary, { force: true }); // if the disk is full
  }
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
  await approve(`${content}\nWrite this to ${safePath(path)} (${content.trimEnd().split("\n").length} lines)?`);
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
/** Runs a command. @returns stdout and stderr in the order they were written, and how it ended if not with code 0 */
export async function runBash(command: string, signal: AbortSignal): Promise<string> {
  const variables = Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC_.*|BASH_ENV|ENV)$/.test(name));
  const child = spawn("bash", ["-c", `exec 2>&1\n${command}`], {
    env: Object.fromEntries(variables), // without keys, and without a file that bash would run first
    stdio: ["ignore", "pipe", "ignore"], // one pipe for stdout and stderr (`exec 2>&1`) keeps their order
    detached: true, // its own process group, which `stop` ends as a whole
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output = cutMiddle(output + text); // cuts the note of an earlier cut out, too
  });
  const allRead = once(child.stdout, "close"); // late, if a process in the background holds the pipe open
  let ending = "";
  const stop = (why: string) => {
    ending = `\n(${why})`;
    if (child.pid) process.kill(-child.pid, "SIGTERM"); // minus: its group; a helper kills the rest, even if we exit
    spawn("sh", ["-c", `sleep .2; kill -9 -${child.pid}`], { detached: true, stdio: "ignore" }).on("error", () => {});
  };
  const over = new AbortController();
  signal.addEventListener("abort", () => stop("interrupted by user"), { signal: over.signal });
  sleep(120_000, "timed out after 120 s", { signal: over.signal }).then(stop, () => {}); // calls stop with that text
  const [code, killedBy] = await once(child, "exit").finally(() => over.abort());
  if (code !== 0) ending ||= killedBy ? `\n(killed by ${killedBy})` : `\n(exit code ${code})`;
  const stillOpen = await Promise.race([allRead.then(() => false), sleep(250, true)]);
  if (stillOpen) ending ||= "\n(something runs on in the background; what else it prints is not shown)";
  return (output.trimEnd() || "(no output)") + ending;
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Use a subagent (task) for work that needs lots of reading and has a short answer.`;
// #endregion

// #region terminal
let margin = ""; // before each line; runSubagent sets it
let isLineStart = true;

/** Prints text with its control and text-direction characters replaced, so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r", "").replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, "\ufffd");
  const lines = (isLineStart && safe ? margin : "") + safe.replace(/\n(?=.)/g, `\n${margin}`);
  if (safe) isLineStart = safe.endsWith("\n");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, lines) : lines);
}

function firstLines(text: string): string {
  const start = text.split("\n").slice(0, 10).join("\n").slice(0, 500);
  return start.length < text.length ? `${start} …` : text;
}

function explain(error: unknown): string {
  let text = error instanceof Error ? error.message : String(error);
  if (error instanceof Anthropic.APIError && error.apiMessage) text = `API error ${error.status}: ${error.apiMessage}`;
  if (/resolve auth/.test(text)) return `no key: set ANTHROPIC_API_KEY, maybe in ${ENV_FILE}; npm run demo needs none`;
  if (/'\w+_tokens'/.test(text)) return "the server's reply has no usage, which the SDK needs"; // a TypeError
  if (/^Unknown/.test(text)) return `${text.split(".")[0]}; usage: npx tsx ${process.argv[1]} [-y] ["a request"]`;
  if (/window is full|too long|context limit/.test(text)) text += "; ask for less, or begin anew (q leaves)";
  return text;
}

function report(error: unknown): void {
  print(`\n[${explain(error)}]\n`);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const args = parseArgs({ allowPositionals: true, options: { y: { type: "boolean", short: "y" } } });
  const { stdin: input, stdout: output } = process;
  const terminal = input.isTTY && output.isTTY;
  const rl = createInterface({ input, output, terminal, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
  let turn: AbortController | undefined; // while one runs
  const messages: Messages = [];
  const requests: string[] = []; // typed, and not yet carried out
  rl.on("line", (line) => requests.push(line));
  rl.on("SIGINT", () => {
    turn?.abort(new Error("interrupted"));
    requests.length = 0;
    if (rl.line) for (const name of ["e", "u"]) rl.write(null, { ctrl: true, name }); // clears the line
  });
  rl.on("close", () => (terminal && turn ? process.exit(1) : rl.emit("line", "q"))); // like q, or not done
  output.on("error", () => process.exit(1)); // nobody reads on, as in `… | head -1`
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  process.on("exit", () => turn?.abort()); // stops the running command, too
  const approve = async (question: string) => {
    if (args.values.y) return sleep(0, undefined, { signal: turn?.signal }); // so Ctrl-C or a closed stdout is seen
    if (!terminal) throw new Error("not run: there is no terminal, so nobody can be asked; -y runs everything");
    print(`${question}\n`);
    const half = rl.line; // a request that is being typed is no answer
    for (const name of ["e", "u"]) rl.write(null, { ctrl: true, name }); // Ctrl-E, Ctrl-U
    const answer = await rl.question("[y: yes, a: always, anything else: no] ", { signal: turn?.signal });
    rl.write(half);
    args.values.y = answer === "a";
    if (answer !== "a" && answer !== "y") throw new Error(`not run: the user said no: ${answer || "(nothing)"}`);
  };
  const carryOut = async (request: string) => {
    turn = new AbortController();
    await runTurn(messages, request, { system: SYSTEM, tools: TOOLS, approve, signal: turn.signal }).catch(report);
    turn = undefined;
  };

  if (args.positionals.length > 0) return carryOut(args.positionals.join(" "));
  while (true) {
    if (terminal) rl.prompt(true);
    if (requests.length === 0) await once(rl, "line");
    const request = requests.shift() ?? "";
    if (["q", "exit", "/exit"].includes(request.trim())) process.exit(terminal ? 0 : process.exitCode);
    if (request.trim()) await carryOut(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(report).finally(process.exit);
// #endregion
