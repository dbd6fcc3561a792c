/**
 * s04: subagent
 *
 * A subagent does the reading; only its answer enters the context.
 *
 *     the agent                     a subagent
 *     request                   ┌─▶ prompt
 *     reply: task("find out …") ┘   calls, results, calls, results, …
 *     result                    ◀── its last text
 *
 * Same as s03: setup, tools, files, todo, turn, replies, bash, terminal, main
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

const ENV_FILE = join(import.meta.dirname, "../.env"); // never from the cwd: a cloned repo could ship one
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // reads ANTHROPIC_API_KEY
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: 32_000, // per reply, thinking included
  thinking: process.env.THINKING === "off" ? undefined : THINKING, // some models and servers don't support it
  cache_control: { type: "ephemeral" } as const, // prompt caching: resending the same prefix is cheap
};
export const WORKDIR = process.cwd();
// #endregion

// #region loop
// What `messages` holds after a turn. The API has only two roles, so tool results go in user messages:
//   user       Run `echo hi`
//   assistant  tool_use     toolu_1  bash { command: "echo hi" }
//   user       tool_result  toolu_1  hi
//   assistant  It printed: hi
/** Calls the model and runs the tools it asks for, until a reply asks for none. Returns that reply. */
export async function agentLoop(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  const hasTodo = options.tools.some((tool) => tool.name === "todo"); // a subagent has none: the list is its parent's
  while (true) {
    const reply = await callModel(messages, options); // each pass is a round: a reply, its calls, their results
    messages.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // the model is done
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options)); // in order: each may depend on earlier ones
    if (hasTodo) results.push(...TODO.reminderAfter(calls)); // none, or one
    messages.push({ role: "user", content: results }); // the API requires a result for every call
  }
}

export type Messages = Anthropic.MessageParam[]; // the content of a message is a string or a list of blocks
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[]; // what the model may call
  approve: (question: string) => Promise<void>; // returns on yes; otherwise throws, and the model sees why
  signal: AbortSignal; // aborted by Ctrl-C
};

/** Sends the whole conversation each time: the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions): Promise<Anthropic.Message> {
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", () => print("\n"));
  return checkReply(await stream.finalMessage()); // drops blank text and the like; throws if refused, cut off or empty
}

const RESULT_LIMIT = 50_000; // characters: the most the model sees of a result

/** Runs one call. Always returns a result: if the call fails, the model sees the error. */
async function runCall(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<Anthropic.ToolResultBlockParam> {
  let content: string;
  let is_error = false;
  try {
    content = await runTool(call.name, call.input, options);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : describeError(error);
    is_error = true;
  }
  print(`${cutMiddle(content, 500)}\n`, "dim"); // the user sees at most 500 characters
  return { type: "tool_result", tool_use_id: call.id, content: cutMiddle(content, RESULT_LIMIT), is_error };
}
// #endregion

// #region tools
/** The dispatch map, from a tool's name to its handler. addTool fills it. */
export const TOOL_HANDLERS: Record<string, Handler<unknown>> = {};
/** What the model knows about its tools. */
export const TOOLS: Anthropic.Tool[] = [];
type Handler<Input> = (input: Input, options: TurnOptions) => string | Promise<string>; // returns the result, or throws

/** Runs a tool and returns its result as text. Throws if the call can't be run. */
async function runTool(name: string, input: unknown, options: TurnOptions): Promise<string> {
  options.signal.throwIfAborted(); // after Ctrl-C, run nothing more
  const names = options.tools.map((tool) => tool.name); // the tools this turn may call, perhaps not all of them
  const handler = TOOL_HANDLERS[name];
  if (!handler || !names.includes(name)) throw new Error(`unknown tool ${name}: the tools are ${names.join(", ")}`);
  print(`> ${name} ${cutMiddle(JSON.stringify(input), 500)}\n`); // tools that ask show it in full
  return handler(input, options);
}

addTool({
  name: "bash",
  description: "Run a bash command in a new shell. Times out after 120 s.",
  schema: z.object({ command: z.string() }),
  run: async ({ command }, { approve, signal }) => {
    await approve(`${command}\nRun this?`);
    return runBash(command, signal);
  },
});

addTool({
  name: "read_file",
  description: "Read a file: up to `limit` lines (1,000 by default) from line `offset`, counting from 1.",
  schema: z.object({ path: z.string(), offset: z.int().min(1).optional(), limit: z.int().min(1).optional() }),
  run: ({ path, offset, limit }) => runRead(path, offset, limit),
});

addTool({
  name: "write_file",
  description: "Write a file, creating any missing folders.",
  schema: z.object({ path: z.string(), content: z.string() }),
  run: async ({ path, content }, { approve }) => {
    const file = safePath(path);
    await approve(`${content}\n${fs.existsSync(file) ? "Overwrite" : "Create"} ${file}?`);
    return runWrite(path, content);
  },
});

addTool({
  name: "edit_file",
  description: "In a file, replace old_text, which must occur exactly once, with new_text.",
  schema: z.object({ path: z.string(), old_text: z.string().min(1), new_text: z.string() }),
  run: async ({ path, old_text, new_text }, { approve }) => {
    editedText(path, old_text, new_text); // throws if the edit can't be made, before the user is asked
    const change = `${old_text.replace(/^/gm, "- ")}\n${new_text.replace(/^/gm, "+ ")}`;
    await approve(`${change}\nChange ${safePath(path)} as shown?`);
    return runEdit(path, old_text, new_text);
  },
});

type ToolSpec<Schema extends z.ZodObject> = {
  name: string;
  description: string;
  schema: Schema; // tells the model what to send, and checks what it sends
  run: Handler<z.output<Schema>>;
};

/** Adds a tool: TOOLS tells the model about it, TOOL_HANDLERS runs it. */
function addTool<Schema extends z.ZodObject>({ name, description, schema, run }: ToolSpec<Schema>): void {
  TOOLS.push({ name, description, input_schema: { ...z.toJSONSchema(schema), type: "object" } }); // type: for tsc
  TOOL_HANDLERS[name] = (input, options) => run(validate(`input for ${name}`, schema, input), options);
}

/** Parses a value with the schema. Throws an error that lists everything wrong with it. */
function validate<Schema extends z.ZodType>(what: string, schema: Schema, value: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (!success) throw new Error(`invalid ${what}:\n${z.prettifyError(error)}`);
  return data;
}
// #endregion

// #region files
// Reading needs no approval, so these tools stay inside the workspace. (bash can go anywhere, but asks.)
/** Resolves a path, following links; the file need not exist yet. Throws if it leads outside the workspace. */
export function safePath(path: string): string {
  const absolute = resolve(WORKDIR, path);
  let existing = absolute; // the file, or the nearest folder above it that exists
  while (!fs.lstatSync(existing, { throwIfNoEntry: false })) existing = dirname(existing); // lstat sees broken links
  const real = join(fs.realpathSync(existing), relative(existing, absolute)); // plus the part that doesn't exist yet
  const isOutside = relative(WORKDIR, real).split("/")[0] === "..";
  if (isOutside) throw new Error(`${path} is outside the workspace ${WORKDIR}`);
  return real;
}

/** Reads up to `limit` lines from line `offset`, counting from 1, but no more than fit in a result. */
export function runRead(path: string, offset = 1, limit = 1_000): string {
  const lines = readText(path).replace(/\n$/, "").split("\n");
  if (offset > lines.length) throw new Error(`${path} ends at line ${lines.length}`);
  const part: string[] = [];
  let size = 0;
  for (const line of lines.slice(offset - 1, offset - 1 + limit)) {
    size += line.length + 1;
    if (size > RESULT_LIMIT - 100) break; // room for the note
    part.push(line);
  }
  if (part.length === 0) throw new Error(`line ${offset} of ${path} is too long to read; use bash`);
  const next = offset + part.length;
  const note = next <= lines.length ? `\n[the file has ${lines.length} lines; continue with offset ${next}]` : "";
  return (part.join("\n") || "(empty)") + note;
}

const READ_LIMIT = 10_000_000; // bytes

function readText(path: string): string {
  const file = safePath(path);
  const stat = fs.statSync(file);
  if (!stat.isFile()) throw new Error(`${path} is a folder or a device; use bash to look at it`);
  if (stat.size > READ_LIMIT) throw new Error(`${path} is larger than 10 MB; use bash to look at parts of it`);
  const bytes = fs.readFileSync(file);
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error(`${path} is binary; use bash to look at it`);
  return bytes.toString();
}

/** Writes a file via a temporary one, so that a crash can't leave half a file. Creates missing folders. */
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
  runWrite(path, editedText(path, oldText, newText));
  return `Edited ${path}`;
}

/** Returns the text of a file with `oldText` replaced. Throws unless it occurs exactly once. */
function editedText(path: string, oldText: string, newText: string): string {
  const text = readText(path);
  const isCrlf = text.includes("\r\n") && !/(?<!\r)\n/.test(text); // every line ends in \r\n; models send \n
  const asInFile = (part: string) => (isCrlf ? part.replace(/\r?\n/g, "\r\n") : part);
  const old = asInFile(oldText);
  const start = text.indexOf(old);
  if (start < 0) throw new Error(`old_text does not occur in ${path}; read the file again and copy the text exactly`);
  if (start !== text.lastIndexOf(old)) throw new Error(`old_text occurs more than once in ${path}; include more lines`);
  return text.slice(0, start) + asInFile(newText) + text.slice(start + old.length);
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan multi-step work with todo; mark an item in_progress when you start it and completed when it is done.
Use a subagent (task) for work that needs a lot of reading but has a short answer.`;
// #endregion

// #region subagent
const SUBAGENT_SYSTEM = `You are a subagent in ${WORKDIR}. Only your last message is passed on, so make it complete.`;

/** Runs the same loop on fresh messages. Returns the last text. Throws if a model call fails: the parent sees why. */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo"); // no subagents, no todo list
  const reply = await agentLoop([{ role: "user", content: prompt }], { ...options, system: SUBAGENT_SYSTEM, tools });
  print("[subagent done]\n", "dim");
  return textOf(reply);
}

const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");

addTool({
  name: "task",
  description: "Hand a self-contained task to a subagent. It can't see this conversation.",
  schema: z.object({ prompt: z.string().trim().min(1) }),
  run: ({ prompt }, options) => runSubagent(prompt, options),
});
// #endregion

// #region todo
const TodoItem = z.object({ text: z.string().trim().min(1), status: z.enum(["pending", "in_progress", "completed"]) });
type TodoItem = z.output<typeof TodoItem>;

export class TodoManager {
  items: TodoItem[] = [];
  private roundsWithoutUpdate = 0;

  /** Replaces the list and returns it as text. Throws, and keeps the old list, if more than one item is in_progress. */
  update(items: TodoItem[]): string {
    const inProgress = items.filter((item) => item.status === "in_progress");
    if (inProgress.length > 1) throw new Error(`only one item can be in_progress, not ${inProgress.length}`);
    this.items = items;
    return this.render();
  }

  render(): string {
    const marks = { pending: "[ ]", in_progress: "[>]", completed: "[x]" };
    const lines = this.items.map((item, i) => `${marks[item.status]} #${i + 1}: ${item.text}`);
    const completed = this.items.filter((item) => item.status === "completed").length;
    return [...lines, `(${completed}/${lines.length} completed)`].join("\n");
  }

  /** Shows the model an unfinished list again, every three rounds without a call to todo. */
  reminderAfter(calls: Anthropic.ToolUseBlock[]): Anthropic.TextBlockParam[] {
    const isUpdated = calls.some((call) => call.name === "todo");
    const isUnfinished = this.items.some((item) => item.status !== "completed");
    this.roundsWithoutUpdate = isUpdated ? 0 : this.roundsWithoutUpdate + 1;
    if (this.roundsWithoutUpdate < 3 || !isUnfinished) return [];
    this.roundsWithoutUpdate = 0;
    const text = `<reminder>Update your todos:\n${this.render()}</reminder>`;
    print(`${text}\n`, "dim");
    return [{ type: "text", text }];
  }
}
export const TODO = new TodoManager();

addTool({
  name: "todo",
  description: "Set the whole todo list. At most one item may be in_progress.",
  schema: z.object({ items: z.array(TodoItem).max(20) }),
  run: ({ items }) => TODO.update(items),
});
// #endregion

// #region turn
// Added when a turn fails. The next request may follow it, because the API merges user messages.
const STOPPED = { role: "user", content: "(Stopped here. Whatever ran has taken effect.)" } as const;

/** Carries out one request. On failure it throws, but leaves a history that the API accepts. */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const turnStart = messages.length;
  messages.push({ role: "user", content: request });
  try {
    await agentLoop(messages, options);
  } catch (error) {
    if (error instanceof Refusal) messages.length = turnStart; // or the model would just refuse again
    if (isBadRequest(error)) dropUnanswered(messages); // or every later request would fail too
    const last = messages.at(-1);
    if (last?.role === "user" && last !== STOPPED) messages.push(STOPPED); // after a refusal, it may be there already
    throw error;
  }
}

/** Drops what came after the last reply, and that reply if it has calls: their results may be to blame. */
function dropUnanswered(messages: Messages): void {
  const last = messages.findLastIndex(({ role }) => role === "assistant"); // -1: drops everything
  const content = messages[last]?.content ?? [];
  const hasCalls = typeof content !== "string" && content.some(({ type }) => type === "tool_use");
  messages.length = hasCalls ? last : last + 1;
}
// #endregion

// That is the agent. The rest is the plumbing you know from s01: replies, bash, terminal, main.

// #region replies
class Refusal extends Error {}

/** Whether the messages themselves are the problem, so that sending them again can't help. */
function isBadRequest(error: unknown): boolean {
  if (!(error instanceof Anthropic.APIError)) return false;
  const isAccount = /credit balance/i.test(error.message); // also a 400, but the messages are fine
  return [400, 413].includes(error.status ?? 0) && !isAccount;
}

/** Drops what the API would reject later: blank text, thinking at the end. Throws if the reply can't be used. */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  const reason = reply.stop_reason ?? "";
  if (reason === "refusal") throw new Refusal("the model refused");
  const isTruncated = ["max_tokens", "model_context_window_exceeded"].includes(reason); // its calls may be incomplete
  if (isTruncated) throw new Error(`the reply was cut off (${reason}); ask for less, or start over`);
  const content = reply.content.filter((block) => block.type !== "text" || block.text.trim() !== "");
  const last = content.findLastIndex(({ type }) => type === "text" || type === "tool_use"); // after it, only thinking
  if (last < 0) throw new Error("the reply is empty");
  return { ...reply, content: content.slice(0, last + 1) };
}
// #endregion

// #region bash
/** Runs a command. Returns stdout and stderr interleaved, and how it ended if the exit code isn't 0. */
export async function runBash(command: string, signal: AbortSignal, timeoutMs = 120_000): Promise<string> {
  const child = spawn("bash", ["-c", `exec 2>&1\n${command}`], {
    cwd: WORKDIR,
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ANTHROPIC_"))), // no key
    stdio: ["ignore", "pipe", "ignore"], // no input; stderr goes to the same pipe, see `exec`
    detached: true, // its own process group, so we can kill everything it starts
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output = cutMiddle(output + text, RESULT_LIMIT); // cut as it arrives, so that memory stays small
  });
  const closed = once(child.stdout, "close").then(() => true);
  const ending = await waitForExit(child, signal, timeoutMs);
  const isClosed = await Promise.race([closed, sleep(250, false)]); // a background job may hold the pipe open
  const note = isClosed ? "" : "\n(something is still running in the background)";
  return (output.trimEnd() || "(no output)") + ending + note;
}

/** Waits for a command to end. Kills it on Ctrl-C, after `timeoutMs`, or when the agent exits. Returns how it ended. */
async function waitForExit(child: ChildProcess, signal: AbortSignal, timeoutMs: number): Promise<string> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const stop = AbortSignal.any([signal, timeout]);
  const kill = () => signalGroup(child, "SIGKILL");
  process.on("exit", kill);
  try {
    const [code, killedBy] = await once(child, "exit", { signal: stop }); // rejects when `stop` is aborted
    if (killedBy) return `\n(killed by ${killedBy})`;
    return code === 0 ? "" : `\n(exit code ${code})`;
  } catch (error) {
    if (!stop.aborted) throw error; // bash could not be started
    const ending = timeout.aborted ? `\n(timed out after ${timeoutMs / 1_000} s)` : "\n(interrupted by user)";
    await terminate(child);
    return ending;
  } finally {
    process.off("exit", kill); // from here on, background jobs may outlive the agent
  }
}

/** Ends a command and everything it started: politely at first, by force a second later. */
async function terminate(child: ChildProcess): Promise<void> {
  signalGroup(child, "SIGTERM");
  for (let i = 0; i < 20 && signalGroup(child, 0); i++) await sleep(50);
  signalGroup(child, "SIGKILL");
}

/** Signals a command and everything it started. Returns false if nothing is left. Signal 0 only checks. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-Number(pid), signal); // a negative id: the whole group
  } catch {
    return false; // gone, or not ours (sudo)
  }
}

/** Cuts the middle out of a text with more than `limit` characters. */
function cutMiddle(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const note = `\n[... cut here: longer than ${limit} characters ...]\n`;
  const half = Math.floor((limit - note.length) / 2);
  return (text.slice(0, half) + note + text.slice(-half)).toWellFormed(); // the cut may split an emoji
}
// #endregion

// #region terminal
const UNSAFE_CHARS = /(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu; // control characters, and text-direction overrides

/** Prints text without control characters, so that it can't take over the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r", "").replace(UNSAFE_CHARS, "\ufffd");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, safe) : safe);
}

function describeError(error: unknown): string {
  if (error instanceof Anthropic.APIUserAbortError) return "interrupted";
  if (error instanceof Anthropic.APIConnectionError) return `can't reach ${client.baseURL}: ${rootCause(error)}`;
  if (error instanceof Anthropic.APIError)
    return `API error ${error.status ?? error.type}: ${error.apiMessage ?? error.message}`;
  return error instanceof Error ? error.message : String(error);
}

/** The innermost error. The SDK's own message only says "Connection error". */
function rootCause(error: Error & { code?: string }): string {
  if (error.cause instanceof Error) return rootCause(error.cause);
  return error.message || (error.code ?? error.name); // an AggregateError has only a code
}

/** Tells the user why a request failed and what was dropped. */
function reportError(error: unknown): void {
  let text = describeError(error);
  const hasNoKey = /resolve auth/.test(text); // the SDK's message
  if (hasNoKey) text = `no API key: set ANTHROPIC_API_KEY, e.g. in ${ENV_FILE}; npm start works without one`;
  if (isBadRequest(error)) text += "; the unanswered part was dropped, what ran wasn't undone (recurring? start over)";
  if (error instanceof Refusal) text += "; this turn was dropped, but whatever ran was not undone";
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}
// #endregion

// #region main
/** Yields what the user types. Lines that arrive together, pasted or typed during a turn, are one request. */
async function* typedRequests(rl: Interface): AsyncGenerator<string> {
  const lines: string[] = [];
  print("Ctrl-C stops a turn, Ctrl-D or q quits\n", "dim");
  rl.on("line", (line) => lines.push(line));
  rl.on("SIGINT", () => {
    lines.length = 0; // forgets what was typed; main also stops the turn
    takeLine(rl);
  });
  while (true) {
    rl.prompt(true); // true: the cursor stays after what was typed during the turn
    if (lines.length === 0) await once(rl, "line");
    let seen = 0;
    while (seen < lines.length || rl.line !== "") {
      seen = lines.length; // until 50 ms pass with no new line and none half typed
      await sleep(50);
    }
    yield lines.splice(0).join("\n");
  }
}

/** Clears what has been typed so far, and returns it. */
function takeLine(rl: Interface): string {
  const { line } = rl;
  if (line === "") return line;
  rl.write(null, { ctrl: true, name: "e" }); // moves to the end
  print("\n".repeat(rl.getCursorPos().rows)); // readline may erase this many rows above; give it blank ones
  rl.write(null, { ctrl: true, name: "u" }); // deletes to the start
  return line;
}

/** Where requests come from: the command line, the terminal, or a pipe (one per line). */
function requestsFrom(rl: Interface, words: string[]): AsyncIterable<string> | string[] {
  if (words.length > 0) return [words.join(" ")];
  return process.stdin.isTTY ? typedRequests(rl) : rl;
}

/** Exits on a signal or when the output is closed (`… | head -1`). The running command ends too (see waitForExit). */
function exitWhenAbandoned(): void {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"]; // in a terminal, readline handles Ctrl-C instead (see main)
  for (const signal of signals) process.on(signal, () => process.exit(1));
  process.stdout.on("error", () => process.exit(1));
}

const flushAndExit = () => process.stdout.write("", () => process.exit()); // an open readline keeps Node alive

async function main(): Promise<void> {
  const args = parseArgs({ allowPositionals: true, options: { y: { type: "boolean", short: "y" } } });
  const { stdin: input, stdout: output } = process;
  const rl = createInterface({ input, output, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
  const messages: Messages = [];
  let turnAbort = new AbortController();
  let approveAll = args.values.y;

  const approve = async (question: string) => {
    if (approveAll) return;
    if (!input.isTTY) throw new Error("not run: can't ask without a terminal; use -y to allow everything");
    const draft = takeLine(rl); // part of the next request, not the answer
    print(`${question}\n`);
    const choices = "[y]es, yes to [a]ll from now on, or tell the model why not: ";
    const answer = (await rl.question(choices, { signal: turnAbort.signal })).trim();
    if (draft !== "") rl.write(draft);
    approveAll = /^a(ll|lways)?$/i.test(answer);
    if (!approveAll && !/^y(es)?$/i.test(answer)) throw new Error(`not run: the user said: ${answer || "no"}`);
  };

  const handleRequest = async (request: string) => {
    turnAbort = new AbortController();
    const options = { system: SYSTEM, tools: TOOLS, approve, signal: turnAbort.signal };
    await runTurn(messages, request, options).catch(reportError);
  };

  exitWhenAbandoned();
  rl.on("SIGINT", () => turnAbort.abort()); // Ctrl-C in a terminal
  rl.on("SIGTSTP", () => {}); // ignores Ctrl-Z: it would suspend this process, but not npx, and lock the terminal
  if (input.isTTY) rl.on("close", flushAndExit); // Ctrl-D; a pipe closes while its requests still run

  for await (const request of requestsFrom(rl, args.positionals)) {
    if (request.trim() === "q") return;
    if (request.trim() !== "") await handleRequest(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(reportError).finally(flushAndExit);
// #endregion
