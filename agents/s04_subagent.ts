/**
 * s04: subagent
 *
 * A subagent does the reading; only its answer enters the context.
 *
 *     messages: request, …, task("find out …") ──▶ fresh messages: prompt, calls, results, calls, …
 *                           one result         ◀── the last text
 *
 * Same as s03: setup, tools, files, todo, turn, bash, terminal, rejected, main
 * New in s04: subagent
 * Changed from s03: loop, system
 * Run: npx tsx agents/s04_subagent.ts
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
/** Calls the model and runs the tools it asks for until it asks for none. Throws if a call or `maxRounds` ends it. */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<void> {
  const { maxRounds = Number.POSITIVE_INFINITY } = options;
  const hasTodo = options.tools.some((tool) => tool.name === "todo"); // a subagent has none
  let roundsWithoutTodo = 0;
  for (let round = 0; round < maxRounds; round++) {
    const reply = await callModel(messages, options);
    messages.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return; // no calls: the model is done
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options)); // in turn: one may need the one before
    const hasPlanned = calls.some((call) => call.name === "todo");
    roundsWithoutTodo = hasPlanned ? 0 : roundsWithoutTodo + 1;
    if (hasTodo && !hasPlanned && roundsWithoutTodo % 3 === 0) results.push(REMINDER); // after 3, 6, 9 … rounds
    messages.push({ role: "user", content: results }); // the API wants a result for each call in the next message
  }
  throw new Error(`out of rounds: ${maxRounds} were allowed`);
}

export type Messages = Anthropic.MessageParam[]; // the content of each is a string, or a list of blocks
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[]; // that the model may call
  approve: (question: string) => Promise<void>; // asks the user; throws on no, and the model reads why
  signal: AbortSignal; // Ctrl-C aborts it
  maxRounds?: number; // of a subagent
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

/** @returns the value as the schema parses it @throws all that is wrong with it */
function check<Schema extends z.ZodType>(what: string, schema: Schema, value: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (!success) throw new Error(`${what} is not valid:\n${z.prettifyError(error)}`);
  return data;
}

/** Returns the text that the model reads. Throws if the call can't be run; the model then reads the error. */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  options.signal.throwIfAborted(); // after Ctrl-C no call runs
  const names = options.tools.map((tool) => tool.name); // not always all there are
  const handler = TOOL_HANDLERS[name];
  if (!handler || !names.includes(name)) throw new Error(`unknown tool ${name}: the tools are ${names.join(", ")}`);
  print(`> ${name} ${JSON.stringify(input).slice(0, 200)}\n`);
  return handler(input, options);
}

const BashInput = z.object({ command: z.string() });
addTool("bash", "Run a command in a new shell, at most 120 s.", BashInput, async ({ command }, { approve, signal }) => {
  await approve(`${command}\nRun this?`);
  return runBash(command, signal);
});

const ReadInput = z.object({ path: z.string(), offset: z.int().min(1).optional(), limit: z.int().min(1).optional() });
addTool("read_file", "Read a file: 1,000 lines, or `limit`, from line `offset` on.", ReadInput, (input) =>
  runRead(input.path, input.offset, input.limit),
);

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

/** Reads `limit` lines of a file, starting at line `offset` (the first is 1). */
export function runRead(path: string, offset = 1, limit = 1_000): string {
  const lines = readText(path).replace(/\n$/, "").split("\n");
  if (offset > lines.length) throw new Error(`${path} has only ${lines.length} lines`);
  const end = offset - 1 + limit;
  const part = lines.slice(offset - 1, end).join("\n") || "(empty)";
  const text = end < lines.length ? `${part}\n[${lines.length - end} more lines: go on with offset ${end + 1}]` : part;
  const isLong = text.length > RESULT_LIMIT;
  if (isLong) throw new Error(`${path}: these lines are too long; name a limit below ${limit}, or use bash`);
  return text;
}

const READ_LIMIT = 10_000_000; // bytes of a file

function readText(path: string): string {
  const file = safePath(path);
  const stat = fs.statSync(file);
  if (!stat.isFile()) throw new Error(`${path} is a folder or a device; use bash to look at it`);
  if (stat.size > READ_LIMIT) throw new Error(`${path} is above 10 MB; use bash to look at parts of it`);
  const bytes = fs.readFileSync(file);
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error(`${path} is binary; use bash to look at it`);
  return bytes.toString();
}

/** Writes a file, and the folders it needs. At any moment the file holds the old content or the new. */
export function runWrite(path: string, content: string): string {
  const file = safePath(path);
  const old = fs.statSync(file, { throwIfNoEntry: false });
  if (old && !old.isFile()) throw new Error(`${path} is a folder or a device`);
  const temporary = join(dirname(file), `${crypto.randomUUID()}.tmp`);
  fs.mkdirSync(dirname(file), { recursive: true });
  fs.writeFileSync(temporary, content);
  if (old) fs.chmodSync(temporary, old.mode);
  fs.renameSync(temporary, file);
  return `Wrote ${Buffer.byteLength(content)} bytes to ${path}`;
}

export function runEdit(path: string, oldText: string, newText: string): string {
  runWrite(path, replaceOnce(path, oldText, newText));
  return `Edited ${path}`;
}

/** The text of a file with `oldText` replaced, which must occur exactly once. */
function replaceOnce(path: string, oldText: string, newText: string): string {
  const text = readText(path);
  const asInFile = (part: string) => (text.includes("\r\n") ? part.replace(/\r?\n/g, "\r\n") : part); // models write \n
  const old = asInFile(oldText);
  const place = text.indexOf(old);
  if (place < 0) throw new Error(`old_text does not occur in ${path}; read it again and copy it exactly`);
  if (place !== text.lastIndexOf(old)) throw new Error(`old_text occurs more than once in ${path}; include more lines`);
  return text.slice(0, place) + asInFile(newText) + text.slice(place + old.length);
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Use a subagent (task) for work that needs lots of reading and has a short answer.`;
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent in ${WORKDIR}. Only your last message is passed on: make it the whole answer.`;

/** Runs a task in a fresh context. @returns the child's last text @throws why the task is not done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const messages: Messages = [];
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  print(`[subagent: ${prompt}]\n`, "dim");
  await runTurn(messages, prompt, { ...options, system: CHILD_SYSTEM, tools, maxRounds: 30 });
  return textOf(messages.at(-1));
}

function textOf(message: Anthropic.MessageParam | undefined): string {
  const content = message?.content ?? "";
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

const TaskInput = z.object({ prompt: z.string().trim().min(1) });
addTool("task", "Hand a subagent a complete task.", TaskInput, ({ prompt }, options) => runSubagent(prompt, options));
// #endregion

// #region todo
const REMINDER: Anthropic.TextBlockParam = { type: "text", text: "<reminder>Update your todos.</reminder>" };
const TodoItem = z.object({ text: z.string().trim().min(1), status: z.enum(["pending", "in_progress", "completed"]) });
type TodoItem = z.output<typeof TodoItem>;

export class TodoManager {
  items: TodoItem[] = [];

  /** Replaces the list, and returns it as text. If it breaks a rule, throws, and the old list stays. */
  update(items: TodoItem[]): string {
    const current = items.filter((item) => item.status === "in_progress");
    if (items.length > 20) throw new Error(`there can be 20 items, not ${items.length}: combine some`);
    if (current.length > 1) throw new Error(`only one item can be in_progress, not ${current.length}`);
    this.items = items;
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
const TodoInput = z.object({ items: z.array(TodoItem) });
addTool("todo", "Write down the whole plan: at most 20 items.", TodoInput, ({ items }) => TODO.update(items));
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
