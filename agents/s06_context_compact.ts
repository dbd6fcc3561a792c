/**
 * s06: context compact
 *
 * Forgetting on purpose: the context is short, the disk is not.
 *
 *     messages:          request reply results … reply results | calls results   (after |: not answered yet)
 *     1, microCompact:   request reply [Prev.] … reply results | calls results   (the newest 3 results stay)
 *     2, autoCompact:    request [summary, todo list, files] "Understood." | calls results
 *        at a request:   [summary, todo list, files] "Understood." | request
 *     3, compact:        the same as 2, when the model or the user asks for it
 *     cold cache:        layer 1 when a request arrives after a pause: the prompt is paid in full anyway
 *
 * Same as s05: tools, files, skills, todo, rejected
 * New in s06: compact, layer1, layer2, layer3, transcript, recovery, resume
 * Changed from s05: setup, loop, system, subagent, turn, bash, terminal, main
 * Run: npx tsx agents/s06_context_compact.ts [--resume [FILE.jsonl]]; then /compact [what to keep above all], /clear
 * See it: let it read ten files one by one: COMPACT_THRESHOLD=6000 npx tsx agents/s06_context_compact.ts
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
import { parse as parseYaml } from "yaml";
import { z } from "zod";

const ENV_FILE = join(import.meta.dirname, "../.env"); // the course's own; one in the workspace may be a stranger's
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // takes ANTHROPIC_API_KEY from the environment
const CONTEXT_WINDOW = Number(process.env.CONTEXT_WINDOW) || 200_000; // tokens
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: Math.min(32_000, Math.floor(CONTEXT_WINDOW / 4)), // of a reply, thinking included
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
    await compactIfNeeded(messages, options);
    const reply = await callOrCompact(messages, options);
    add(messages, { role: "assistant", content: reply.content }, options);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return; // no calls: the model is done
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options)); // in turn: one may need the one before
    const hasPlanned = calls.some((call) => call.name === "todo");
    roundsWithoutTodo = hasPlanned ? 0 : roundsWithoutTodo + 1;
    if (hasTodo && !hasPlanned && roundsWithoutTodo % 3 === 0) results.push(REMINDER); // after 3, 6, 9 … rounds
    add(messages, { role: "user", content: results }, options); // the API wants a result for each call in one message
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
  state: State; // what is known of the conversation besides its messages
};

/** Sends the whole conversation each time: the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  const { system, tools, signal, state } = options;
  state.lastCall = Date.now();
  state.usage = undefined;
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", () => print("\n"));
  const reply = await stream.finalMessage();
  learnTokens(messages, reply.usage, options);
  return checkReply(reply); // throws if it is refused, cut off or empty
}

/** Runs one call. Always returns a result: if the call fails, the model reads the error. */
async function runCall(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<Anthropic.ToolResultBlockParam> {
  let content: string;
  let is_error = false;
  try {
    content = await runTool(call.name, call.input, options);
    touchFile(call, options.state);
  } catch (error) {
    content = options.signal.aborted ? "(interrupted by user)" : messageOf(error);
    is_error = true;
  }
  print(`${cutMiddle(content, 500)}\n`, "dim"); // characters for the screen; the model gets up to 50,000
  content = saveIfLarge(content, options.state);
  return { type: "tool_result", tool_use_id: call.id, content, is_error };
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

// #region compact
/** The limit of a prompt, in tokens: the window minus a reply and a reserve, as in Claude Code. 200,000 → 167,000 */
export const autoCompactThreshold = (window: number, output: number) =>
  window - Math.min(output, 20_000) - Math.min(13_000, window / 4);
const MAX_THRESHOLD = autoCompactThreshold(CONTEXT_WINDOW, SETTINGS.max_tokens);
export const THRESHOLD = Math.min(MAX_THRESHOLD, Number(process.env.COMPACT_THRESHOLD) || MAX_THRESHOLD);

/** Before each model call: layer 3 if asked for; past the limit, layer 1 if it saves enough; still past it, layer 2. */
export async function compactIfNeeded(messages: Messages, options: TurnOptions): Promise<void> {
  const { state } = options;
  const isPastLimit = () => estimateTokens(messages, options) > THRESHOLD;
  const asked = state.compactAsked;
  state.compactAsked = undefined;
  if (asked) await autoCompact(messages, "tool", options, asked.focus); // layer 3
  if (isPastLimit()) clearOldResults(messages, options, MIN_SAVINGS); // layer 1
  if (isPastLimit() && state.roundsPastLimit < 3) await autoCompact(messages, "auto", options); // layer 2
  state.roundsPastLimit = isPastLimit() ? state.roundsPastLimit + 1 : 0; // 3 in a row: summaries do not help
}

/** Tokens of the prompt that these messages make, by the characters per token of the last prompt. */
export function estimateTokens(messages: Messages, { system, tools, state }: TurnOptions): number {
  return tokensOf([system, tools, messages], state);
}

const tokensOf = (value: unknown, { charsPerToken }: State) => Math.ceil(JSON.stringify(value).length / charsPerToken);

/** Learns the characters per token from what the API counted. Implausible counts are ignored: some servers report 1. */
function learnTokens(messages: Messages, usage: Anthropic.Usage, { system, tools, state }: TurnOptions): void {
  state.usage = usage;
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage;
  const tokens = input_tokens + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0);
  const ratio = JSON.stringify([system, tools, messages]).length / tokens;
  if (ratio >= 0.5 && ratio <= 10) state.charsPerToken = ratio;
}
// #endregion

// #region layer1
/** Where the last step begins, at the | of the header: a request without a reply, or calls with their results. */
function lastStep(messages: Messages): number {
  const last = messages.findLastIndex(({ role }) => role === "assistant"); // -1: there is no reply yet
  const hasCalls = callsIn(messages[last]).length > 0;
  return hasCalls ? last : last + 1;
}

export const KEEP_RECENT = 3; // tool results
export const PRESERVE_RESULT_TOOLS = ["load_skill"];
export const MIN_SAVINGS = 0.4 * THRESHOLD; // tokens: a rewrite costs the prompt cache, and thinking (withoutThinking)
export const COLD = 300; // seconds without a model call, after which the prompt cache has expired
export const COLD_SAVINGS = Math.min(20_000, MIN_SAVINGS); // tokens: with a cold cache only thinking is left to lose

//   user       tool_result  toolu_1  import fs from "node:fs"; … (4,000 characters)
//        →     tool_result  toolu_1  [Previous: used read_file]
/** Layer 1. @returns a copy in which every result that the model has answered is one line, except the newest `keep` */
export function microCompact(messages: Messages, keep = KEEP_RECENT): Messages {
  const copy = structuredClone(messages);
  const names = new Map(copy.flatMap(callsIn).map((call) => [call.id, call.name]));
  const answered = copy.slice(0, lastStep(copy)).flatMap(resultsIn);
  const old = answered.slice(0, Math.max(0, answered.length - keep));
  for (const result of old) {
    const name = names.get(result.tool_use_id) ?? "unknown";
    const isLong = String(result.content).length > 100;
    if (isLong && !PRESERVE_RESULT_TOOLS.includes(name)) result.content = `[Previous: used ${name}]`;
  }
  return copy;
}

const callsIn = (message?: Messages[number]) => blocksOf(message).filter((block) => block.type === "tool_use");
const resultsIn = (message?: Messages[number]) => blocksOf(message).filter((block) => block.type === "tool_result");

function blocksOf(message?: Messages[number]): Anthropic.ContentBlockParam[] {
  const content = message?.content ?? [];
  return typeof content === "string" ? [] : content;
}

/** Layer 1, if it saves enough tokens. */
function clearOldResults(messages: Messages, options: TurnOptions, minSaved: number, why = ""): void {
  const cleared = microCompact(messages);
  const saved = estimateTokens(messages, options) - estimateTokens(cleared, options);
  if (saved < minSaved) return;
  replaceHistory(messages, cleared, "micro", options);
  print(`[micro_compact] cleared old tool results (~${saved} tokens)${why}\n`);
}
// #endregion

// #region layer2
export const SUMMARY_TOKENS = Math.min(2_000, THRESHOLD / 10); // about
export const RECENT_FILES = 5; // files that are put back after a summary
export const FILE_TOKENS = Math.min(5_000, THRESHOLD / 20); // of each, at most; a longer one stays out

export const SUMMARY_PROMPT = `Write a summary of this conversation; the work goes on from it alone. State the goal,
standing instructions, what was done, the current state, decisions and their reasons, files and what matters in each,
skills in use, the next step. Copy paths, names, values and error messages exactly. Call no tool. Write about
${SUMMARY_TOKENS} tokens, in the user's language.`;

/** Layer 2, and 3: a summary takes the place of what the model has answered. If it fails, the history stays. */
export async function autoCompact(messages: Messages, trigger: string, options: TurnOptions, focus = "") {
  const answered = messages.slice(0, lastStep(messages));
  if (tokensOf(answered, options.state) < SUMMARY_TOKENS) return print("[nothing to summarize yet]\n");
  print(trigger === "auto" ? "[auto_compact triggered]\n" : "[manual compact]\n");
  try {
    const summary = await askForSummary(answered, options, focus);
    replaceHistory(messages, compacted(messages, summary, options), trigger, options);
    const { file, isTranscriptOver } = options.state;
    if (!isTranscriptOver) print(`[transcript saved: ${nameOf(file)}]\n`);
  } catch (error) {
    if (options.signal.aborted) throw error;
    print(`[compaction failed: ${messageOf(error)}]\n`);
  }
}

/** Sends the answered messages as the call before did, and one more: so nearly all is read from the prompt cache. */
async function askForSummary(answered: Messages, options: TurnOptions, focus: string): Promise<string> {
  const content = focus ? `${SUMMARY_PROMPT}\nAbove all, keep: ${focus}` : SUMMARY_PROMPT;
  const reply = await callModel([...answered, { role: "user", content }], options);
  if (callsIn(reply).length > 0) throw new Error("no summary, but a call");
  return textOf(reply);
}

/** The new history: the request under way, word for word; summary, todo list and files; calls not answered yet. */
function compacted(messages: Messages, summary: string, { state, tools }: TurnOptions): Messages {
  const texts = [`[Conversation compressed. Transcript: ${nameOf(state.file)}]\n\n${summary}`];
  const hasTodo = tools.some((tool) => tool.name === "todo"); // a subagent has none
  if (hasTodo && TODO.items.length > 0) texts.push(TODO.render());
  texts.push(...restoreFiles(state));
  const content = texts.map((text) => ({ type: "text" as const, text }));
  const open = messages.slice(lastStep(messages));
  const isMidTurn = open.length > 0 && !open.some(isRequest); // calls in progress: they need their request
  const request = isMidTurn ? messages.filter(isRequest).slice(-1) : [];
  const answer: Anthropic.MessageParam = { role: "assistant", content: "Understood." }; // for lastStep: it is answered
  return [...request, { role: "user", content }, answer, ...open]; // the API joins neighbours of one role
}

/** A request is a user message whose content is a string. All others are blocks: results, reminders, a summary. */
const isRequest = ({ role, content }: Anthropic.MessageParam) => role === "user" && typeof content === "string";

/** The files touched last, whole, as they are on disk now, but for those that are too long. */
function restoreFiles({ files, charsPerToken }: State): string[] {
  const texts: string[] = [];
  for (const path of files) {
    try {
      texts.push(`<file path="${path}">\n${readText(path)}\n</file>`);
    } catch {
      // It is gone, or is no longer text.
    }
  }
  return texts.filter((text) => text.length <= FILE_TOKENS * charsPerToken);
}

/** Remembers the file of a call that was carried out. */
function touchFile({ name, input }: Anthropic.ToolUseBlock, state: State): void {
  if (!["read_file", "write_file", "edit_file"].includes(name)) return;
  const { path } = z.object({ path: z.string() }).parse(input);
  const file = nameOf(safePath(path));
  state.files = [file, ...state.files.filter((other) => other !== file)].slice(0, RECENT_FILES);
}
// #endregion

// #region layer3
const CompactInput = z.object({ focus: z.string().optional().describe("what to keep above all") });
addTool("compact", "Replace the conversation with a summary.", CompactInput, (input, { state }) => {
  state.compactAsked = input; // for the next round: the result has to come right after its call
  return "Before the next reply, a summary replaces the conversation so far, if that works.";
});
// #endregion

// #region transcript
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts"); // readable by its owner alone

/** What is known of a conversation besides its messages. Each line of its transcript holds it, for --resume. */
export function newState(folder = TRANSCRIPT_DIR) {
  return {
    file: join(folder, `transcript_${Date.now()}_${process.pid}.jsonl`),
    charsPerToken: 4,
    lastCall: 0, // when the model was called, in ms since 1970
    usage: undefined as Anthropic.Usage | undefined, // of that call, for whoever reads the transcript
    files: [] as string[], // touched last, the last one first
    isTranscriptOver: false,
    roundsPastLimit: 0, // in a row, in this turn
    compactAsked: undefined as { focus?: string } | undefined, // by the model
  };
}
export type State = ReturnType<typeof newState>;

/** Adds a message to the transcript, before any layer can shorten it, and then to the history. */
export function add(messages: Messages, message: Anthropic.MessageParam, { state }: TurnOptions): void {
  record({ message }, state);
  messages.push(message);
}

/** Replaces the history, and tells the transcript first. */
function replaceHistory(messages: Messages, history: Messages, trigger: string, options: TurnOptions): void {
  const next = history.map(withoutThinking);
  const before = estimateTokens(messages, options);
  const after = estimateTokens(next, options);
  record({ type: "compaction", trigger, before, after, messages: next }, options.state);
  messages.splice(0, messages.length, ...next);
}

/** Thinking is only valid after the exact history it was written for. After any rewrite its words stay as text. */
export function withoutThinking(message: Anthropic.MessageParam): Anthropic.MessageParam {
  if (message.role !== "assistant" || typeof message.content === "string") return message;
  return { role: "assistant", content: message.content.flatMap(thinkingAsText) };
}

function thinkingAsText(block: Anthropic.ContentBlockParam): Anthropic.ContentBlockParam[] {
  if (block.type === "redacted_thinking") return [];
  if (block.type !== "thinking") return [block];
  return block.thinking.trim() === "" ? [] : [{ type: "text", text: block.thinking }];
}

/** Writes a line to the transcript: a message, or the history that replaces the one before. A failure ends it. */
function record(entry: object, state: State): void {
  if (state.isTranscriptOver) return; // what followed a gap could not be resumed
  try {
    const line = { ...entry, time: Date.now(), model: MODEL, limit: THRESHOLD, state, todos: TODO.items };
    append(state.file, `${JSON.stringify(line)}\n`);
  } catch (error) {
    state.isTranscriptOver = true;
    print(`[transcript ends here: ${messageOf(error)}; the conversation goes on]\n`);
  }
}

/** Appends to a file in TRANSCRIPT_DIR, or in a folder in it. A folder that it makes gets a .gitignore. */
function append(file: string, text: string): void {
  const isLink = safePath(file) !== file; // or in one: safePath follows links
  if (isLink) throw new Error(`${nameOf(file)} is, or is in, a link`);
  const isNew = fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 }) !== undefined;
  if (isNew) fs.writeFileSync(join(dirname(file), ".gitignore"), "*\n");
  fs.appendFileSync(file, text, { mode: 0o600 });
}

/** @returns the text, or if it is longer than `limit`, the path of a file that has it, and its head and tail */
function saveIfLarge(text: string, { file }: State, limit = RESULT_LIMIT): string {
  if (text.length <= limit) return text;
  const saved = join(dirname(file), "outputs", `${crypto.randomUUID()}.txt`);
  try {
    append(saved, text);
    return `Output too large. Saved to: ${nameOf(saved)}\n${cutMiddle(text, 2_000)}`;
  } catch (error) {
    const problem = `Output too large, and not saved: ${messageOf(error)}`;
    print(`[${problem}]\n`);
    return `${problem}\n${cutMiddle(text, limit)}`;
  }
}

/** A file as it is named to the user and the model. */
const nameOf = (file: string) => relative(WORKDIR, file);
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

// #region skills
const SkillHead = z.object({ name: z.string().regex(/^[\w-]{1,64}$/), description: z.string().min(1).max(1_024) });

/** The skills in `<folder>/<any>/SKILL.md`. */
export class SkillLoader {
  readonly skills = new Map<string, { file: string; description: string }>();
  readonly warnings: string[] = []; // about skills that were left out

  constructor(folder: string) {
    const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
    const files = names.map((name) => join(folder, name, "SKILL.md"));
    for (const file of files.filter(fs.existsSync)) this.add(file);
  }

  private add(file: string): void {
    try {
      const { name, description } = readSkill(file);
      this.skills.set(name, { file, description: description.replace(/\s+/g, " ") });
    } catch (error) {
      this.warnings.push(`[skill left out: ${file}: ${messageOf(error)}]`);
    }
  }

  /** For the system prompt: one line each. */
  descriptions(): string {
    return [...this.skills].map(([name, { description }]) => `- ${name}: ${description}`).join("\n") || "(none)";
  }

  /** For the model, when it asks: the body, as it is on disk now. */
  content(name: string): string {
    const skill = this.skills.get(name);
    if (!skill) throw new Error(`there is no skill ${name}; the skills are: ${[...this.skills.keys()].join(", ")}`);
    return `<skill name="${name}">\n${readSkill(skill.file).body}\n</skill>`;
  }
}

/** A skill is Markdown that begins with its name and description, in YAML between two --- lines. */
function readSkill(file: string): z.output<typeof SkillHead> & { body: string } {
  const parts = /^---\r?\n(?<head>.*?)\r?\n---\r?\n(?<body>.*)$/s.exec(readText(file));
  const { head = "", body = "" } = parts?.groups ?? {};
  const values: unknown = parseYaml(head, { logLevel: "error" }) ?? {}; // its own warnings stay off the screen
  return { ...check(`the head of ${file}`, SkillHead, values), body: body.trim() };
}

export const SKILLS = new SkillLoader(join(WORKDIR, "skills"));
const SkillInput = z.object({ name: z.string() });
addTool("load_skill", "Load the instructions of a skill.", SkillInput, ({ name }) => SKILLS.content(name));

/** The folder may be a stranger's, so the user sees which skills it brings. */
function announceSkills(): void {
  for (const warning of SKILLS.warnings) print(`${warning}\n`);
  if (SKILLS.skills.size > 0) print(`[skills: ${[...SKILLS.skills.keys()].join(", ")}]\n`);
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Use a subagent (task) for work that needs lots of reading and has a short answer.
When a skill fits the work, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact. Leave .transcripts/ out of searches.`;
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent in ${WORKDIR}. Only your last message is passed on: make it the whole answer.`;

/** Runs a task in a fresh context. @returns the child's last text @throws why the task is not done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const messages: Messages = [];
  const state = newState(join(TRANSCRIPT_DIR, "tasks"));
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  print(`[subagent: ${prompt}]\n`, "dim");
  await runTurn(messages, prompt, { ...options, system: CHILD_SYSTEM, tools, maxRounds: 30, state });
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
const INTERRUPTED: Anthropic.TextBlockParam = { type: "text", text: "(I interrupted this.)" }; // in a list: no request

/** Carries out one request. Throws if that fails, and leaves `messages` in a state that the API accepts. */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = [...messages];
  const { state } = options;
  const size = tokensOf(request, state);
  if (size > THRESHOLD) throw new Error(`this request is ~${size} tokens long: put it in a file`);
  const isCold = Date.now() - state.lastCall > COLD * 1_000; // the cache has expired
  state.roundsPastLimit = 0;
  add(messages, { role: "user", content: request }, options);
  try {
    if (isCold) clearOldResults(messages, options, COLD_SAVINGS, ": the cache is cold"); // all is paid in full anyway
    await agentLoop(messages, options);
  } catch (error) {
    if (error instanceof Refusal) replaceHistory(messages, before, "refused", options);
    else if (isRejected(error)) forgetLastStep(messages, options); // left in, it would make every later request fail
    if (options.signal.aborted) add(messages, { role: "user", content: [INTERRUPTED] }, options);
    throw error;
  }
}

/** What was just sent goes: the request if it has no reply yet; else the calls with their results. */
function forgetLastStep(messages: Messages, options: TurnOptions): void {
  const end = Math.max(messages.findLastIndex(isRequest), lastStep(messages)); // after Ctrl-C it may be an older one
  replaceHistory(messages, messages.slice(0, end), "rejected", options);
}
// #endregion

// That is the agent. The rest keeps it alive: recovery, resume, bash, terminal, main. It can wait for a second reading.

// #region recovery
/** Whether a shorter prompt can help. Each server has its words; our own is model_context_window_exceeded. */
const isTooLong = (error: unknown) =>
  /error 413|(prompt|input) is too long|context.?(length|limit|size|window)/i.test(messageOf(error));

/** Calls the model. If the prompt is too long after all: clears all results, summarizes, and tries once more. */
async function callOrCompact(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  try {
    return await callModel(messages, options);
  } catch (error) {
    if (!isTooLong(error)) throw error;
    print(`[${messageOf(error)}; CONTEXT_WINDOW is ${CONTEXT_WINDOW}; if this goes on: /clear]\n`);
    clearAllResults(messages, options);
    options.state.files = []; // put back, they might make it too long again
    await autoCompact(messages, "auto", options);
    return callModel(messages, options);
  }
}

/** Layer 1 for all results. Those that are not answered yet go to disk, if they are long. */
function clearAllResults(messages: Messages, options: TurnOptions): void {
  const cleared = microCompact(messages, 0);
  for (const result of cleared.slice(lastStep(cleared)).flatMap(resultsIn)) {
    result.content = saveIfLarge(String(result.content), options.state, 3_000);
  }
  replaceHistory(messages, cleared, "micro", options);
}
// #endregion

// #region resume
/** Continues a transcript in a new one. Returns the history, with a result for each call that has none. */
export function resume(file: string, options: TurnOptions): Messages {
  const entries = readEntries(file);
  const last = entries.at(-1);
  if (!last) throw new Error(`--resume: ${file} contains no messages; name another file`);
  let history: Messages = [];
  for (const entry of entries) history = "messages" in entry ? [...entry.messages] : [...history, entry.message];
  const lost = { type: "tool_result" as const, content: "(interrupted; it may have run)", is_error: true };
  const open = callsIn(history.at(-1));
  if (open.length > 0) history.push({ role: "user", content: open.map(({ id }) => ({ ...lost, tool_use_id: id })) });
  Object.assign(options.state, { ...last.state, file: options.state.file });
  TODO.items = last.todos;
  const messages: Messages = [];
  replaceHistory(messages, history, "resume", options); // the first line of the new transcript
  const request = history.findLast(isRequest)?.content ?? "(none)";
  print(`[resumed ${nameOf(file)}. The last request was: ${cutMiddle(String(request), 500)}]\n`);
  return messages;
}

type Entry = { state: State; todos: TodoItem[] } & ({ message: Anthropic.MessageParam } | { messages: Messages });

/** The entries of a transcript, up to a line that is not whole: kill -9 or a full disk cut it off. */
function readEntries(file: string): Entry[] {
  const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
  const entries: Entry[] = [];
  try {
    for (const line of lines) entries.push(JSON.parse(line));
  } catch {
    print(`[${nameOf(file)}: line ${entries.length + 1} is not whole, and is left out with what follows]\n`);
  }
  return entries;
}

/** The transcript that the first word names, or else the one that was begun last. */
function transcriptIn([first = ""]: string[]): string {
  const isFile = /^\S+\.jsonl$|^\.transcripts\//.test(first);
  if (isFile) return first;
  const names = fs.existsSync(TRANSCRIPT_DIR) ? fs.readdirSync(TRANSCRIPT_DIR).sort() : [];
  const newest = names.findLast((name) => name.endsWith(".jsonl"));
  if (newest === undefined) throw new Error("--resume: there is no transcript in .transcripts/");
  return join(TRANSCRIPT_DIR, newest);
}
// #endregion

// #region bash
export const RESULT_LIMIT = 50_000; // characters of a tool result
const OUTPUT_LIMIT = 1_000_000; // characters of a command's output: memory stays small

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
    output = cutMiddle(output + text, OUTPUT_LIMIT); // as it arrives
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
  if (isRejected(error)) text += "; it was dropped, but what was done remains (if every request fails: /clear)";
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
/** Carries out a request of the user, /compact with instructions, or /clear. */
async function obey(request: string, messages: Messages, options: TurnOptions): Promise<void> {
  const line = request.trim();
  const isCompact = /^\/compact( .*)?$/.test(line); // with more lines it is a request
  if (isCompact) return autoCompact(messages, "manual", options, line.slice("/compact ".length));
  if (line === "/clear") return clear(messages, options);
  return runTurn(messages, request, options);
}

/** Starts again. The transcript goes on, and holds what was before. */
function clear(messages: Messages, options: TurnOptions): void {
  const { state } = options;
  TODO.items = [];
  Object.assign(state, newState(), { file: state.file, isTranscriptOver: state.isTranscriptOver });
  replaceHistory(messages, [], "clear", options);
  print("[cleared]\n");
}

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
  const flags = { y: { type: "boolean", short: "y" }, resume: { type: "boolean" } } as const;
  const args = parseArgs({ allowPositionals: true, options: flags });
  const { stdin: input, stdout: output } = process;
  const rl = createInterface({ input, output, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
  let interrupt = new AbortController();
  let always = args.values.y;

  const approve = async (question: string) => {
    if (always) return;
    const answer = await ask(rl, question, interrupt.signal);
    always = /^a/i.test(answer);
  };

  const options = { system: SYSTEM, tools: TOOLS, approve, signal: interrupt.signal, state: newState() };
  const transcript = args.values.resume ? transcriptIn(args.positionals) : undefined;
  const messages = transcript ? resume(transcript, options) : [];

  const carryOut = async (request: string) => {
    interrupt = new AbortController();
    await obey(request, messages, { ...options, signal: interrupt.signal }).catch(report);
    print(`[context: ~${estimateTokens(messages, options)} of ${THRESHOLD} tokens]\n`, "dim");
  };

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1)); // kills the command
  output.on("error", () => process.exit(1)); // its reader is gone, as in `… | head -1`
  rl.on("SIGINT", () => interrupt.abort()); // Ctrl-C in a terminal
  if (input.isTTY) rl.on("close", leave); // Ctrl-D; a pipe closes while its requests still run

  announceSkills();
  const words = args.positionals.filter((word) => word !== transcript);
  for await (const request of requestsFrom(rl, words)) {
    if (request.trim() === "q") return;
    if (request.trim() !== "") await carryOut(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(report).finally(leave);
// #endregion
