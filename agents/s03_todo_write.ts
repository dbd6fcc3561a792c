/**
 * s03: todo write
 *
 * A plan that the model writes down is a plan it keeps.
 *
 *     todo([...]) ──▶ [x] #1: write the module
 *                     [>] #2: test it            three rounds without todo?
 *                     [ ] #3: describe it        results + <reminder>
 *
 * Same as s02: setup, tools, files, writing, turn, reply, bash, terminal, main
 * New in s03: todo
 * Changed from s02: loop, system
 * Run: npx tsx agents/s03_todo_write.ts
 */

// #region setup
import { isUtf8 } from "node:buffer";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, styleText } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

const ENV_FILE = join(import.meta.dirname, "../.env"); // not the one in the workspace, which may be untrusted
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const RESULT_LIMIT = 50_000; // characters of a tool result
const READ_LIMIT = 10_000_000; // bytes of a file that is read whole
export const WORKDIR = fs.realpathSync(process.cwd());
// #endregion

// #region loop
// What `messages` holds in the end (only the model is the assistant, so results come from the user):
//   user       Run `echo hi`
//   assistant  tool_use     toolu_1  bash { command: "echo hi" }
//   user       tool_result  toolu_1  hi
//   assistant  It printed: hi
/** Calls the model and runs the tools it asks for, until it asks for none. @returns its last reply */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  let roundsWithoutTodo = 0;
  while (true) {
    const reply = await callModel(messages, options);
    messages.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // done: the model has said what it has to say
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options));
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    if (roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
    messages.push({ role: "user", content: results }); // one result for each call, in one message
  }
}

export type Messages = Anthropic.MessageParam[];
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[];
  approve: (question: string) => Promise<void>; // asks the user, and throws if the answer is no
  signal: AbortSignal; // Ctrl-C aborts it
};

const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: 32_000, // of a reply, thinking included
  thinking: process.env.THINKING === "off" ? undefined : THINKING, // some servers do not know it
  cache_control: { type: "ephemeral" } as const, // the next model call pays little for what this one sends
};

/** Sends the whole conversation, each time, since the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions): Promise<Anthropic.Message> {
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", endLine);
  return checkReply(await stream.finalMessage()); // throws if it is refused, cut off or empty
}

/** Runs a call. Whatever happens, it gets a result, and the model reads what went wrong. */
async function runCall(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<Anthropic.ToolResultBlockParam> {
  let content: string;
  let is_error = false;
  try {
    options.signal.throwIfAborted(); // after Ctrl-C no call runs
    content = await runTool(call.name, call.input, options);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : messageOf(error);
    is_error = true;
  }
  print(`${firstLines(content)}\n`, "dim");
  return { type: "tool_result", tool_use_id: call.id, content: cutMiddle(content).toWellFormed(), is_error };
}
// #endregion

// #region tools
type Handler<Input> = (input: Input, options: TurnOptions) => string | Promise<string>;
/** The dispatch map: what runs when the model calls a tool of that name. */
export const TOOL_HANDLERS: Record<string, Handler<unknown>> = {};
/** What the model knows about each tool. */
export const TOOLS: Anthropic.Tool[] = [];

/** A new tool is a new entry. Its schema tells the model what to send, and checks what it then sends. */
function addTool<T extends z.ZodObject>(name: string, description: string, schema: T, run: Handler<z.output<T>>): void {
  TOOLS.push({ name, description, input_schema: { ...z.toJSONSchema(schema, { io: "input" }), type: "object" } });
  TOOL_HANDLERS[name] = (input, options) => run(check(name, schema, input), options);
}

const BashInput = z.object({ command: z.string() });
addTool("bash", "Run a bash command. Times out after 120 s.", BashInput, async ({ command }, options) => {
  print(`$ ${fitToScreen(command)}\n`);
  await options.approve("Run this?");
  return runBash(command, options.signal);
});

const ReadInput = z.object({ path: z.string(), offset: z.int().min(1).optional(), limit: z.int().min(1).optional() });
addTool("read_file", "Read a file, or `limit` lines of it from line `offset` on (from 1).", ReadInput, (input) =>
  runRead(input.path, input.offset, input.limit),
);

/** @returns what the model reads @throws why the call can't be run, which the model reads too */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  if (name !== "bash") print(`> ${name} ${firstLines(JSON.stringify(input))}\n`); // bash shows its command itself
  const names = options.tools.map((tool) => tool.name); // not always all there are
  const handler = TOOL_HANDLERS[name];
  if (!handler || !names.includes(name)) throw new Error(`unknown tool ${name}: the tools are ${names.join(", ")}`);
  return handler(input, options);
}

/** @returns the value as the schema parses it @throws all that is wrong with it */
function check<Schema extends z.ZodType>(what: string, schema: Schema, value: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (!success) throw new Error(`${what} is not valid:\n${z.prettifyError(error)}`);
  return data;
}
// #endregion

// #region todo
const REMINDER: Anthropic.TextBlockParam = { type: "text", text: "<reminder>Update your todos.</reminder>" };
const TodoItem = z.object({ text: z.string().trim().min(1), status: z.enum(["pending", "in_progress", "completed"]) });
const isFocused = (items: { status: string }[]) => items.filter((item) => item.status === "in_progress").length <= 1;
const fromJson = (items: unknown) => (typeof items === "string" ? JSON.parse(items) : items); // some models send JSON
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
const TodoInput = z.object({ items: TodoItems });
addTool("todo", "Write down the whole plan: at most 20 items.", TodoInput, ({ items }) => TODO.update(items));
// #endregion

// #region files
/** The real path of a file, which may not exist yet. @throws if that is outside the workspace, links included */
export function safePath(path: string): string {
  const absolute = resolve(WORKDIR, path);
  let existing = absolute; // the file, or else the nearest folder above it that exists
  while (!fs.lstatSync(existing, { throwIfNoEntry: false })) existing = dirname(existing);
  const real = join(fs.realpathSync(existing), relative(existing, absolute));
  const isOutside = relative(WORKDIR, real).split("/")[0] === "..";
  if (isOutside) throw new Error(`${path} is outside the workspace ${WORKDIR}`);
  return real;
}

function readText(path: string): string {
  const file = safePath(path);
  const stat = fs.statSync(file);
  if (!stat.isFile()) throw new Error(`${path} is a folder or a device; use bash to look at it`);
  if (stat.size > READ_LIMIT) throw new Error(`${path} is above 10 MB; name an offset and a limit, or use bash`);
  const bytes = fs.readFileSync(file);
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error(`${path} is binary; use bash to look at it`);
  return bytes.toString();
}

/** Reads a file, or `limit` lines of it, starting at line `offset` (the first is 1). */
export async function runRead(path: string, offset = 1, limit = Number.POSITIVE_INFINITY): Promise<string> {
  const isPart = offset > 1 || limit < Number.POSITIVE_INFINITY;
  if (isPart && fs.statSync(safePath(path)).size > READ_LIMIT) return readPart(safePath(path), offset, limit);
  const text = readText(path);
  if (text === "") return "(empty)";
  const lines = text.replace(/\n$/, "").split("\n");
  if (offset > lines.length) throw new Error(`${path} has only ${lines.length} lines`);
  const end = offset - 1 + limit;
  const part = lines.slice(offset - 1, end).join("\n");
  if (end >= lines.length) return part;
  return `${part}\n[${lines.length - end} more lines: go on with offset ${end + 1}]`;
}

/** Lines of a large file. It is read bit by bit, and no further than they go, or than a result can hold. */
async function readPart(file: string, offset: number, limit: number): Promise<string> {
  let skip = offset - 1; // lines that are still to come before the first that is wanted
  let text = "";
  for await (const chunk of fs.createReadStream(file, "utf8")) {
    const lines = String(chunk).split("\n");
    text += lines.slice(skip).join("\n");
    skip = Math.max(0, skip - (lines.length - 1)); // the last one goes on in the next chunk
    const isEnough = text.split("\n").length > limit || text.length > RESULT_LIMIT;
    if (isEnough) break;
  }
  if (text === "") throw new Error(`there is no line ${offset}`);
  return text.split("\n").slice(0, limit).join("\n");
}
// #endregion

// #region writing
const WriteInput = z.object({ path: z.string(), content: z.string() });
addTool("write_file", "Write a file, and the folders it needs.", WriteInput, async ({ path, content }, { approve }) => {
  await approve(`${content}\nWrite this to ${safePath(path)}?`);
  return runWrite(path, content);
});

const EditInput = z.object({ path: z.string(), old_text: z.string().min(1), new_text: z.string() });
addTool("edit_file", "Replace old_text, which must occur exactly once.", EditInput, async (input, { approve }) => {
  const { path, old_text, new_text } = input;
  replaceOnce(path, old_text, new_text); // throws before the user is asked
  const change = `${old_text.replace(/^/gm, "- ")}\n${new_text.replace(/^/gm, "+ ")}`;
  await approve(`${change}\nChange ${safePath(path)} like this?`);
  return runEdit(path, old_text, new_text);
});

/** Writes a file, and the folders it needs. At any moment the file holds the old content or the new. */
export function runWrite(path: string, content: string): string {
  const file = safePath(path);
  const old = fs.statSync(file, { throwIfNoEntry: false });
  if (old && !old.isFile()) throw new Error(`${path} is a folder or a device; name a file`);
  fs.mkdirSync(dirname(file), { recursive: true });
  const temporary = join(dirname(file), `${crypto.randomUUID()}.tmp`); // nobody can guess it, and plant a link there
  try {
    fs.writeFileSync(temporary, content, { flag: "wx" });
    if (old) fs.chmodSync(temporary, old.mode);
    fs.renameSync(temporary, file);
  } finally {
    fs.rmSync(temporary, { force: true }); // if the disk is full
  }
  return `Wrote ${Buffer.byteLength(content)} bytes to ${path}`;
}

export function runEdit(path: string, oldText: string, newText: string): string {
  runWrite(path, replaceOnce(path, oldText, newText));
  return `Edited ${path}`;
}

/** The text of a file with `oldText` replaced, which must occur exactly once. */
function replaceOnce(path: string, oldText: string, newText: string): string {
  const text = readText(path);
  const wanted = withLineEndsOf(text, oldText);
  const [place, ...others] = placesOf(wanted, text);
  if (place === undefined) throw new Error(`old_text does not occur in ${path}; read it again and copy it exactly`);
  if (others.length > 0) throw new Error(`old_text occurs ${others.length + 1} times in ${path}; include more lines`);
  return text.slice(0, place) + withLineEndsOf(text, newText) + text.slice(place + wanted.length);
}

/** Where a part occurs in a text. Places can overlap: "aa" is in "aaa" twice. */
function placesOf(part: string, text: string): number[] {
  const places: number[] = [];
  let place = text.indexOf(part);
  while (place >= 0) {
    places.push(place);
    place = text.indexOf(part, place + 1);
  }
  return places;
}

/** Models write \n, also where each line of the file ends with \r\n. */
function withLineEndsOf(text: string, part: string): string {
  const isCrlf = text.includes("\r\n") && !/(?<!\r)\n/.test(text);
  return isCrlf ? part.replace(/\r?\n/g, "\r\n") : part;
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.`;
// #endregion

// #region turn
/** Carries out a request. Whatever goes wrong, `messages` stays what the API accepts. @throws what went wrong */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = messages.length;
  messages.push({ role: "user", content: request.toWellFormed() }); // the API rejects half an emoji
  try {
    await agentLoop(messages, options);
  } catch (error) {
    dropRejected(messages, before, error); // all else that was done stays: each call has its result
    throw error;
  }
}
// #endregion

// That is the agent. What follows keeps it alive, and can wait for a second reading.

// #region reply
class Refusal extends Error {} // by the model
const isRejected = (error: unknown) => error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);

/** Takes out what would fail again: a turn that the model refused, or a step that the API rejected. */
function dropRejected(messages: Messages, before: number, error: unknown): void {
  if (error instanceof Refusal) messages.length = before;
  if (isRejected(error)) messages.length = openAt(messages);
}

/**
 * The index of the first message that the model has not answered:
 *
 *     0 request  1 reply        2 request   ──▶ 2: the request
 *     0 request  1 reply, call  2 result    ──▶ 1: the call and its result
 */
function openAt(messages: Messages): number {
  const lastReply = messages.findLastIndex(({ role }) => role === "assistant");
  const content = messages[lastReply]?.content ?? [];
  const hasCalls = typeof content !== "string" && content.some((block) => block.type === "tool_use");
  return hasCalls ? lastReply : lastReply + 1;
}

/** @returns the reply without blocks that the API would not take back @throws if it is refused, cut off or empty */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  const reason = reply.stop_reason ?? "";
  if (reason === "refusal") throw new Refusal("the model refused");
  const isCut = ["max_tokens", "model_context_window_exceeded"].includes(reason); // half a call must not run
  if (isCut) throw new Error(`the reply was cut off (${reason}) and is dropped; ask for less in one go`);
  // Thinking is signed together with everything before it: where a block goes, all thinking has to go.
  const last = reply.content.at(-1);
  if (last && !isThinking(last) && reply.content.every(isSendable)) return reply;
  const content = reply.content.filter((block) => isSendable(block) && !isThinking(block));
  if (content.length === 0) throw new Error("the reply is empty");
  return { ...reply, content };
}

const isThinking = ({ type }: Anthropic.ContentBlock) => type === "thinking" || type === "redacted_thinking";

function isSendable(block: Anthropic.ContentBlock): boolean {
  if (block.type !== "text") return true;
  const isBlank = block.text.trim() === "";
  return !isBlank && block.text.isWellFormed();
}
// #endregion

// #region bash
const WITHHELD = /^ANTHROPIC_|^BASH_ENV$|^ENV$/; // the model's key, and files that bash would run first

/** Runs a command. @returns stdout and stderr in the order they were written, and how it ended if not with code 0 */
export async function runBash(command: string, signal: AbortSignal, limit = 120_000): Promise<string> {
  const child = spawn("bash", ["-c", `exec 2>&1\n${command}`], {
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !WITHHELD.test(name))),
    stdio: ["ignore", "pipe", "ignore"], // one pipe for stdout and stderr (`exec 2>&1`) keeps their order
    detached: true, // a process group of its own, so that what it starts ends with it
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output = cutMiddle(output + text); // as it arrives, so that memory stays small
  });
  const closed = new Promise<boolean>((resolve) => child.on("close", () => resolve(true)));
  const ending = await endOf(child, signal, limit);
  const isOver = await Promise.race([closed, sleep(250, false)]); // a background job keeps the pipe open: nobody waits
  const lines = [output.trimEnd() || "(no output)"];
  if (ending !== "") lines.push(`(${ending})`);
  if (!isOver) lines.push("(something may still be running; what it prints from now on is not shown)");
  return lines.join("\n");
}

/** Waits until a command ends, or ends it: on Ctrl-C, or after `limit` ms. @returns how; "" for exit code 0 */
function endOf(child: ChildProcess, signal: AbortSignal, limit: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const stop = (why: string) => {
      stopGroup(child.pid);
      resolve(why); // at once: don't wait for processes that ignore the signal
    };
    const interrupt = () => stop("interrupted by user");
    const timer = setTimeout(() => stop(`timed out after ${limit / 1_000} s`), limit);
    signal.addEventListener("abort", interrupt);
    const release = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", interrupt); // background jobs keep running
    };
    child.on("exit", (code, killedBy) => {
      release();
      if (killedBy) resolve(`killed by ${killedBy}`);
      else resolve(code === 0 ? "" : `exit code ${code}`);
    });
    child.on("error", (error) => {
      release();
      reject(error); // there is no bash
    });
  });
}

const stopping = new Set<number>(); // process groups that got SIGTERM, and no SIGKILL yet

/** Ends a process group: SIGTERM now, SIGKILL in a second, or sooner if the agent exits. */
function stopGroup(group: number | undefined): void {
  if (group === undefined) return; // it never began
  stopping.add(group);
  sendSignal(group, "SIGTERM");
  setTimeout(killGroup, 1_000, group).unref();
}

function killGroup(group: number): void {
  stopping.delete(group);
  sendSignal(group, "SIGKILL");
}

function sendSignal(group: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(-group, signal); // minus: the whole group
  } catch {
    // It has ended, or it belongs to another user (sudo) and runs on.
  }
}

/** @returns at most `limit` characters: of a longer text the head and the tail */
function cutMiddle(text: string, limit = RESULT_LIMIT): string {
  if (text.length <= limit) return text;
  const note = `\n[... cut here: longer than ${limit} characters ...]\n`;
  const half = Math.floor((limit - note.length) / 2);
  return text.slice(0, half) + note + text.slice(-half);
}
// #endregion

// #region terminal
/** Prints text with control and text-direction characters replaced, so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r", "").replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, "\ufffd");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, safe) : safe);
}

function firstLines(text: string): string {
  const start = text.split("\n").slice(0, 10).join("\n").slice(0, 500);
  return start.length < text.length ? `${start} …` : text;
}

/** Ends the line of a text, or of thinking. A call is printed when it runs. */
function endLine({ type }: Anthropic.ContentBlock): void {
  if (type !== "tool_use") print("\n");
}

/** @returns the text with long runs of blanks counted, so that they hide nothing; if it is too long, head and tail */
function fitToScreen(text: string): string {
  const columns = process.stdout.columns || 80; // none if it is no terminal, 0 in some terminals
  const rows = process.stdout.rows || 24;
  const shown = text
    .replace(/[\s\p{Cf}\u2800\u3164]{40,}/gu, (blanks) => ` [${blanks.length} blanks] `)
    .replaceAll("\t", "    ");
  const lines = shown.split("\n");
  const heights = lines.map((line) => Math.ceil(Buffer.byteLength(line) / columns) || 1); // in rows, at most
  const height = heights.reduce((sum, each) => sum + each, 0);
  if (height <= rows - 4) return shown;
  const part = Math.max(1, Math.floor(rows / 4) - 1); // lines of the head, and of the tail
  const size = (part * columns) / 2; // characters of each, which may be two columns wide
  const head = lines.slice(0, part).join("\n").slice(0, size);
  const tail = lines.slice(-part).join("\n").slice(-size);
  return `${head}\n[... ${text.length} characters and ${lines.length} lines in all ...]\n${tail}`;
}

function messageOf(error: unknown): string {
  if (error instanceof Anthropic.APIUserAbortError) return "interrupted";
  if (error instanceof Anthropic.APIConnectionError) return `${error.message} The server is ${client.baseURL}`;
  if (error instanceof Anthropic.APIError && error.apiMessage) {
    const status = error.status ?? error.type; // none if it came in the middle of a reply
    return `API error ${status}: ${error.apiMessage}`;
  }
  const isBroken = error instanceof Anthropic.AnthropicError && error.cause instanceof Error;
  if (isBroken) return `the reply broke off, or could not be read, and is dropped: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

const TAKEN_OUT = "the last step is forgotten, but its effects remain; if it was too long, ask for less or begin again";

/** Tells the user why a request is not done, and what to do about it. */
function report(error: unknown): void {
  let text = messageOf(error);
  if (/resolve auth/.test(text)) text = `no key: set ANTHROPIC_API_KEY, maybe in ${ENV_FILE}; npm run demo needs none`;
  if (/^Unknown option/.test(text)) text += `; ${USAGE}`;
  if (error instanceof Refusal) text += "; the request is forgotten, but what was done remains";
  if (isRejected(error)) text += `; ${TAKEN_OUT}`;
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}
// #endregion

// #region main
const PROGRAM = basename(import.meta.filename);
const USAGE = `usage: npx tsx agents/${PROGRAM} [-y: never ask] ["a request"]`;

/** In a terminal, lines that arrive together are one request: a paste, or what was typed during a turn. */
async function* typedRequests(rl: Interface, lines: string[]): AsyncGenerator<string> {
  while (true) {
    rl.prompt(true);
    const isReady = () => lines.length > 0 && rl.line === ""; // the last line of a paste may lack its Enter
    while (!isReady()) {
      await once(rl, "line");
      await sleep(50); // for the other lines of a paste
    }
    const request = lines.join("\n");
    lines.length = 0;
    yield request;
  }
}

/** @returns y, or a for always @throws if the user answers anything else: that is a no */
async function ask(rl: Interface, question: string, signal?: AbortSignal): Promise<string> {
  if (!rl.terminal) throw new Error("not run: there is no terminal, so nobody can be asked; -y runs everything");
  print(`${fitToScreen(question)}\n`);
  const answer = await rl.question("[y: yes, a: always, anything else: no] ", { signal });
  if (answer === "y" || answer === "a") return answer;
  throw new Error(`not run: the user said no: ${answer || "(nothing)"}`);
}

function clearLine(rl: Interface): void {
  if (rl.line === "") return;
  rl.write(null, { ctrl: true, name: "e" }); // Ctrl-E: to the end of the line
  rl.write(null, { ctrl: true, name: "u" }); // Ctrl-U: deletes what is before the cursor
}

/** However the agent ends, the running command ends with it. */
function endAtExit(abortTurn: () => void): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  process.stdout.on("error", () => process.exit(1)); // its reader is gone, as in `… | head -1`
  process.on("exit", () => {
    abortTurn();
    stopping.forEach(killGroup);
  });
}

async function main(): Promise<void> {
  const args = parseArgs({ allowPositionals: true, options: { y: { type: "boolean", short: "y" } } });
  const { stdin: input, stdout: output } = process;
  const terminal = Boolean(input.isTTY && output.isTTY);
  const rl = createInterface({ input, output, terminal, prompt: `${PROGRAM.slice(0, 3)} >> ` });
  const lines: string[] = []; // typed, and not yet carried out
  let turn: AbortController | undefined; // while one runs

  if (terminal) {
    rl.on("line", (line) => lines.push(line));
    rl.on("close", () => process.exit(turn ? 1 : process.exitCode)); // Ctrl-D; 1: the turn is not done
  }
  rl.on("SIGINT", () => {
    lines.length = 0;
    clearLine(rl);
    if (turn) return turn.abort(new Error("interrupted"));
    print("\n[Ctrl-D or q leaves]\n");
    rl.prompt();
  });
  endAtExit(() => turn?.abort());

  let always = args.values.y;
  const approve = async (question: string) => {
    await sleep(0, undefined, { signal: turn?.signal }); // first let Ctrl-C, or a closed stdout, be noticed
    if (always) return;
    const answer = await ask(rl, question, turn?.signal);
    always = answer === "a";
  };

  const messages: Messages = [];
  const carryOut = async (request: string) => {
    turn = new AbortController();
    process.exitCode = 0; // report makes it 1
    await runTurn(messages, request, { system: SYSTEM, tools: TOOLS, approve, signal: turn.signal }).catch(report);
    turn = undefined;
  };

  if (args.positionals.length > 0) return carryOut(args.positionals.join(" "));
  const requests = terminal ? typedRequests(rl, lines) : rl; // piped: each line is one
  for await (const request of requests) {
    if (["q", "exit", "/exit"].includes(request.trim())) return;
    if (request.trim() !== "") await carryOut(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(report).finally(process.exit); // readline would wait for more input
// #endregion
