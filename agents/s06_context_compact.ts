/**
 * s06: context compact
 *
 * Forgetting on purpose: the context is short, the disk is not.
 *
 *     answered: a later reply has seen it       | not yet
 *     request  calls  results …  calls  results | calls  results    the history
 *     request  calls  [Previous: used bash] …   | calls  results    after layer 1, microCompact
 *     request  [summary, todo list, files]      | calls  results    after layer 2, autoCompact
 *
 *     Layer 3, compact, is layer 2 when the model or the user asks for it. Very long results go straight to disk.
 *     Layer 1 breaks the prompt cache, so it waits until the context is full or the cache has expired.
 *
 * Same as s05: tools, files, skills, todo, replies
 * New in s06: compact, history, layer1, layer2, layer3, transcript, resume, recovery
 * Changed from s05: setup, loop, system, subagent, turn, bash, terminal, main
 * Run: npx tsx agents/s06_context_compact.ts [-c: continue the newest transcript] [--resume FILE]
 *      at the prompt also: /compact [what to keep], /clear
 * See it compact: COMPACT_THRESHOLD=12000 npx tsx agents/s06_context_compact.ts; have it read files one by one
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

const ENV_FILE = join(import.meta.dirname, "../.env"); // never from the cwd: a cloned repo could ship one
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // reads ANTHROPIC_API_KEY
const CONTEXT_WINDOW = Number(process.env.CONTEXT_WINDOW) || 200_000; // tokens
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: Math.min(32_000, Math.floor(CONTEXT_WINDOW / 4)), // per reply, thinking included
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
    await compactIfNeeded(messages, options);
    const reply = await callWithRecovery(messages, options); // each pass is a round: a reply, its calls, their results
    addMessage(messages, { role: "assistant", content: reply.content }, options);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // the model is done
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options)); // in order: each may depend on earlier ones
    if (hasTodo) results.push(...TODO.reminderAfter(calls)); // none, or one
    addMessage(messages, { role: "user", content: results }, options); // the API requires a result for every call
  }
}

export type Messages = Anthropic.MessageParam[]; // the content of a message is a string or a list of blocks
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[]; // what the model may call
  approve: (question: string) => Promise<void>; // returns on yes; otherwise throws, and the model sees why
  signal: AbortSignal; // aborted by Ctrl-C
  state: State; // for compaction and the transcript: see newState
};

/** Sends the whole conversation each time: the API remembers nothing. Prints the reply as it arrives. */
async function callModel(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  const { system, tools, signal, state } = options;
  state.usage = undefined; // a failed call has none
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  stream.on("connect", () => {
    state.lastCall = Date.now();
  });
  stream.on("thinking", (text) => print(text, "dim"));
  stream.on("text", (text) => print(text));
  stream.on("contentBlock", () => print("\n"));
  const reply = await stream.finalMessage();
  state.usage = reply.usage;
  learnTokens(messages, reply.usage, options);
  return checkReply(reply); // drops blank text and the like; throws if refused, cut off or empty
}

export const RESULT_LIMIT = 50_000; // characters; longer results go to disk

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
  content = saveIfLarge(content, options.state);
  return { type: "tool_result", tool_use_id: call.id, content, is_error };
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

// #region compact
/** How large a prompt may get before it's compacted, in tokens: it leaves room for a typical reply and a margin. */
export const autoCompactThreshold = (window: number, output: number) =>
  window - Math.min(output, 20_000) - Math.min(13_000, Math.floor(window / 4)); // the figures are Claude Code's
const MAX_THRESHOLD = autoCompactThreshold(CONTEXT_WINDOW, SETTINGS.max_tokens); // 200,000 → 167,000
export const THRESHOLD = Math.min(MAX_THRESHOLD, Number(process.env.COMPACT_THRESHOLD) || MAX_THRESHOLD);

/** Before each model call: layer 3 if asked for, layer 1 if cold or past the threshold, layer 2 if still past it. */
export async function compactIfNeeded(messages: Messages, options: TurnOptions): Promise<void> {
  const { state } = options;
  const isPastThreshold = () => estimateTokens(messages, options) > THRESHOLD;
  if (state.pendingCompact) await autoCompact(messages, "tool", options, state.pendingCompact.focus); // layer 3
  if (isColdRequest(messages, state)) clearOldResults(messages, options, COLD_SAVINGS); // layer 1
  if (isPastThreshold()) clearOldResults(messages, options, MIN_SAVINGS); // layer 1
  if (isPastThreshold() && state.roundsPastThreshold < 3) await autoCompact(messages, "auto", options); // layer 2
  state.roundsPastThreshold = isPastThreshold() ? state.roundsPastThreshold + 1 : 0; // after 3, no more layer 2
}

/** Whether a request comes after a pause. The cache has expired, so the whole prompt is paid for anyway. */
function isColdRequest(messages: Messages, { lastCall }: State): boolean {
  return kindOf(messages.at(-1)) === "request" && Date.now() - lastCall > CACHE_SECONDS * 1_000;
}

/** A conversation's state, besides its messages. Each line of the transcript has it, so that resume can restore it. */
export function newState(folder = TRANSCRIPT_DIR) {
  return {
    file: join(folder, `transcript_${Date.now()}_${process.pid}.jsonl`),
    transcriptEnded: false, // a write failed, so nothing more is written
    lastCall: 0, // when the model was last called, in ms since 1970
    usage: undefined as Anthropic.Usage | undefined, // of that call, for scripts that read the transcript
    charsPerToken: 4,
    files: [] as string[], // for the next summary, newest first
    roundsPastThreshold: 0, // in a row, in this turn, despite compaction
    pendingCompact: undefined as { focus?: string } | undefined, // set by the compact tool
  };
}
export type State = ReturnType<typeof newState>;

/** Estimates the size of a prompt with these messages, in tokens. */
export function estimateTokens(messages: Messages, { system, tools, state }: TurnOptions): number {
  return tokensOf([system, tools, messages], state);
}

const tokensOf = (value: unknown, { charsPerToken }: State) => Math.ceil(JSON.stringify(value).length / charsPerToken);

/** Fits charsPerToken to what the API counted. Ignores nonsense: some servers always say 1. */
function learnTokens(messages: Messages, usage: Anthropic.Usage, { system, tools, state }: TurnOptions): void {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage;
  const tokens = input_tokens + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0);
  const ratio = JSON.stringify([system, tools, messages]).length / tokens;
  if (ratio >= 0.5 && ratio <= 10) state.charsPerToken = ratio;
}
// #endregion

// #region history
/** Tells messages apart: requests (and STOPPED) are strings, a summary begins with text, results with a tool_result. */
function kindOf(message?: Messages[number]): "reply" | "request" | "summary" | "results" {
  if (message?.role === "assistant") return "reply";
  if (typeof message?.content === "string") return "request";
  return blocksOf(message)[0]?.type === "text" ? "summary" : "results";
}

const blocksOf = (message?: Messages[number]) => (Array.isArray(message?.content) ? message.content : []);
const callsIn = (message?: Messages[number]) => blocksOf(message).filter((block) => block.type === "tool_use");
const resultsIn = (message?: Messages[number]) => blocksOf(message).filter((block) => block.type === "tool_result");

/** Splits the history at the | in the header, before what no reply has seen. Calls go with their results. */
function splitAnswered(messages: Messages): { answered: Messages; unanswered: Messages } {
  const last = messages.findLastIndex((message) => ["reply", "summary"].includes(kindOf(message)));
  const hasCalls = callsIn(messages[last]).length > 0; // no reply has seen their results yet
  const start = hasCalls ? last : last + 1;
  return { answered: messages.slice(0, start), unanswered: messages.slice(start) };
}

/** What the user said since the last final reply, with the notes that it was stopped. */
function unfinishedRequests(messages: Messages): Messages {
  const isFinalReply = (message: Messages[number]) => kindOf(message) === "reply" && callsIn(message).length === 0;
  return messages.slice(messages.findLastIndex(isFinalReply) + 1).filter((message) => kindOf(message) === "request");
}

/** Adds a message to the transcript and then to the history, so whatever is forgotten later is on disk. */
export function addMessage(messages: Messages, message: Anthropic.MessageParam, { state }: TurnOptions): void {
  record({ message }, state);
  messages.push(message);
}

type Trigger = "auto" | "tool" | "manual" | "recovery" | "micro" | "refused" | "rejected" | "resume" | "clear";

/** Records a new history, then puts it in place. Thinking stays only if nothing before it has changed. */
function replaceHistory(messages: Messages, replacement: Messages, trigger: Trigger, options: TurnOptions): void {
  const firstChange = replacement.findIndex((message, i) => JSON.stringify(message) !== JSON.stringify(messages[i]));
  const isStale = (i: number) => firstChange >= 0 && i >= firstChange;
  const next = replacement.map((message, i) => (isStale(i) ? withoutThinking(message) : message));
  const before = estimateTokens(messages, options);
  const after = estimateTokens(next, options);
  record({ type: "compaction", trigger, before, after, messages: next }, options.state);
  messages.splice(0, messages.length, ...next);
}

/** Turns thinking into text, since its signature holds only while everything before it stays the same. */
export function withoutThinking(message: Anthropic.MessageParam): Anthropic.MessageParam {
  if (message.role !== "assistant" || typeof message.content === "string") return message;
  return { role: "assistant", content: message.content.flatMap(thinkingAsText) };
}

function thinkingAsText(block: Anthropic.ContentBlockParam): Anthropic.ContentBlockParam[] {
  if (block.type === "redacted_thinking") return [];
  if (block.type !== "thinking") return [block];
  return block.thinking.trim() === "" ? [] : [{ type: "text", text: block.thinking }];
}
// #endregion

// #region layer1
export const KEEP_RECENT = 3; // tool results, as in the API's own context editing
export const PRESERVE_RESULT_TOOLS = ["load_skill"];
export const MIN_SAVINGS = 0.4 * THRESHOLD; // tokens: less wouldn't pay for rewriting the cache (docs/s06)
export const CACHE_SECONDS = 300; // how long the API caches a prompt after its last use
export const COLD_SAVINGS = Math.min(20_000, MIN_SAVINGS); // tokens: a cold rewrite is free, but forgetting isn't

//   user       tool_result  toolu_1  import fs from "node:fs"; … (4,000 characters)
//        →     tool_result  toolu_1  [Previous: used read_file]
/** Layer 1. Returns a copy in which long results are one line each, except the newest `keep`. */
export function microCompact(messages: Messages, keep = KEEP_RECENT): Messages {
  const copy = structuredClone(messages);
  const names = new Map(copy.flatMap(callsIn).map((call) => [call.id, call.name]));
  const toolOf = (result: Anthropic.ToolResultBlockParam) => names.get(result.tool_use_id) ?? "unknown";
  const isClearable = (result: Anthropic.ToolResultBlockParam) => {
    if (result.is_error) return false; // it may say why the user said no
    if (PRESERVE_RESULT_TOOLS.includes(toolOf(result))) return false;
    const text = String(result.content);
    return text.length > 100 && !text.startsWith("[Previous: used");
  };
  const clearable = splitAnswered(copy).answered.flatMap(resultsIn).filter(isClearable);
  for (const result of clearable.reverse().slice(keep)) {
    const saved = SAVED.exec(String(result.content))?.[0] ?? ""; // "Output too large. Saved to: …"
    result.content = `[Previous: used ${toolOf(result)}] ${saved}`.trim();
  }
  return copy;
}

/** Layer 1, if it saves at least `minSavings` tokens. */
function clearOldResults(messages: Messages, options: TurnOptions, minSavings: number): void {
  const cleared = microCompact(messages);
  const saved = estimateTokens(messages, options) - estimateTokens(cleared, options);
  if (saved < minSavings) return;
  replaceHistory(messages, cleared, "micro", options);
  print(`[micro_compact] cleared old tool results (~${saved} tokens)\n`);
}
// #endregion

// #region layer2
export const SUMMARY_TOKENS = Math.min(2_000, Math.floor(THRESHOLD / 10)); // what we ask for; the model may write more
export const RECENT_FILES = 5; // files that come with a summary
export const FILE_TOKENS = Math.min(5_000, THRESHOLD / 20); // longer files are left out

export const SUMMARY_PROMPT = `Summarize this conversation: you will continue with nothing but your summary. State the
goal, the user's standing instructions, what was done, the current state, decisions and their reasons, files and what
matters in each, skills in use, and the next step. Copy paths, names, values and error messages exactly. Call no tool.
Write about ${SUMMARY_TOKENS} tokens, in the user's language.`;

/** Layers 2 and 3: puts a summary in place of what the model has answered. If that fails, nothing changes. */
export async function autoCompact(messages: Messages, trigger: Trigger, options: TurnOptions, focus = "") {
  options.state.pendingCompact = undefined;
  const isBetweenTurns = trigger === "manual"; // nothing is in progress, so all of it is summarized
  const unanswered = isBetweenTurns ? [] : splitAnswered(messages).unanswered;
  const answered = messages.slice(0, messages.length - unanswered.length);
  if (tokensOf(answered, options.state) < SUMMARY_TOKENS) return print("[a summary wouldn't be shorter]\n");
  print(trigger === "auto" || trigger === "recovery" ? "[auto_compact triggered]\n" : "[manual compact]\n");
  try {
    const summary = await askForSummary(answered, options, focus);
    const files = trigger === "recovery" ? [] : recentFiles(answered, options.state); // recovery needs the room
    const message = summaryMessage(summary, files, options);
    const requests = unfinishedRequests(answered); // verbatim: a summary could distort them
    replaceHistory(messages, [...requests, message, ...unanswered], trigger, options);
    if (!options.state.transcriptEnded) print(`[what was summarized is in ${nameOf(options.state.file)}]\n`);
  } catch (error) {
    if (options.signal.aborted) throw error;
    print(`[compaction failed: ${describeError(error)}]\n`);
  }
}

/** Asks for a summary. This prompt shares its beginning with the last one, so most of it is cached. */
async function askForSummary(answered: Messages, options: TurnOptions, focus: string): Promise<string> {
  const content = focus ? `${SUMMARY_PROMPT}\nAbove all, keep: ${focus}` : SUMMARY_PROMPT;
  const reply = await callModel([...answered, { role: "user", content }], options);
  if (callsIn(reply).length > 0) throw new Error("the model called a tool instead of summarizing");
  return textOf(reply);
}

//   user       text  [Conversation compressed. Transcript: .transcripts/transcript_1764115200000_4711.jsonl] Goal: …
//              text  [x] #1: write the module …
//              text  <file path="src/module.ts"> …
/** The message that takes the place of what is answered. */
function summaryMessage(summary: string, files: string[], { state, tools }: TurnOptions): Anthropic.MessageParam {
  const texts = [`[Conversation compressed. Transcript: ${nameOf(state.file)}]\n\n${summary}`];
  const hasTodo = tools.some((tool) => tool.name === "todo"); // a subagent has none
  if (hasTodo && TODO.items.length > 0) texts.push(TODO.render());
  return { role: "user", content: [...texts, ...files].map((text) => ({ type: "text", text })) };
}

/** The files read or changed last, whole, as they are on disk now. Long ones are left out. */
function recentFiles(answered: Messages, state: State): string[] {
  const isFileTool = ({ name }: Anthropic.ToolUseBlockParam) => ["read_file", "write_file", "edit_file"].includes(name);
  const touched = answered.flatMap(callsIn).filter(isFileTool).reverse();
  const paths = [...touched.map(({ input }) => String(Object(input).path)), ...state.files]; // the newest first
  const files = new Map<string, string>();
  for (const path of paths) {
    if (files.size === RECENT_FILES) break;
    try {
      const name = nameOf(safePath(path)); // ./a.ts is a.ts
      files.set(name, `<file path="${name}">\n${readText(name)}\n</file>`);
    } catch {
      // It's gone, binary or outside the workspace.
    }
  }
  state.files = [...files.keys()]; // for the next summary: the calls that name them are about to go
  return [...files.values()].filter((text) => text.length <= FILE_TOKENS * state.charsPerToken);
}
// #endregion

// #region layer3
addTool({
  name: "compact",
  description: "Replace the conversation with a summary.",
  schema: z.object({ focus: z.string().optional().describe("what to keep above all") }),
  run: (input, { state }) => {
    state.pendingCompact = input; // for compactIfNeeded, since this call needs its result first
    return "The conversation will be summarized before your next reply. If that fails, it stays as it is.";
  },
});
// #endregion

// #region transcript
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts");

/** Writes a line to the transcript. If that fails, the transcript ends: with a gap, it couldn't be resumed. */
function record(entry: object, state: State): void {
  if (state.transcriptEnded) return;
  try {
    const line = { ...entry, time: Date.now(), model: MODEL, threshold: THRESHOLD, state, todos: TODO.items };
    appendPrivately(state.file, `${JSON.stringify(line)}\n`);
  } catch (error) {
    state.transcriptEnded = true;
    print(`[transcript ends here: ${describeError(error)}; the conversation goes on]\n`);
  }
}

/** Appends to a file under TRANSCRIPT_DIR, readable by its owner only and ignored by git. */
function appendPrivately(file: string, text: string): void {
  if (safePath(file) !== file) throw new Error(`${nameOf(file)} is behind a link`); // safePath follows links
  const isNew = fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 }) !== undefined;
  if (isNew) fs.writeFileSync(join(dirname(file), ".gitignore"), "*\n");
  fs.appendFileSync(file, text, { mode: 0o600 });
}

const SAVED = /^Output too large\. Saved to: \S+/;

/** Returns the text, or if it has more than `limit` characters, saves it and returns the path, head and tail. */
function saveIfLarge(text: string, { file }: State, limit = RESULT_LIMIT): string {
  if (text.length <= limit) return text;
  const saved = join(dirname(file), "outputs", `${crypto.randomUUID()}.txt`);
  try {
    appendPrivately(saved, text);
    return `Output too large. Saved to: ${nameOf(saved)}\n${cutMiddle(text, 2_000)}`;
  } catch (error) {
    const problem = `Output too large, and not saved: ${describeError(error)}`;
    print(`[${problem}]\n`);
    return `${problem}\n${cutMiddle(text, limit)}`;
  }
}

const nameOf = (file: string) => relative(WORKDIR, file); // its path in the workspace
// #endregion

// #region resume
/** Replays a transcript and continues it in a new one. Returns the history. */
export function resume(file: string, options: TurnOptions): Messages {
  const entries = readEntries(file);
  const last = entries.at(-1);
  if (!last?.todos) throw new Error(`${file} is not an s06 transcript; try another file`);
  Object.assign(options.state, { ...last.state, file: options.state.file, lastCall: 0 }); // 0: treat it as uncached
  TODO.items = last.todos;
  const messages: Messages = [];
  replaceHistory(messages, answerOpenCalls(replay(entries)), "resume", options); // all new: thinking becomes text
  markStopped(messages, options);
  const isRequest = (message: Messages[number]) => kindOf(message) === "request" && message.content !== STOPPED.content;
  const request = String(messages.findLast(isRequest)?.content ?? "(none left)");
  print(`[resumed ${nameOf(file)}. The last request was: ${cutMiddle(request, 500)}]\n`);
  return messages;
}

type Entry = { state: State; todos: TodoItem[] } & ({ message: Anthropic.MessageParam } | { messages: Messages });

/** Reads a transcript up to the first incomplete line: kill -9 or a full disk may have cut it off. */
function readEntries(file: string): Entry[] {
  const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
  const entries: Entry[] = [];
  try {
    for (const line of lines) entries.push(JSON.parse(line));
  } catch {
    print(`[${nameOf(file)}: line ${entries.length + 1} is incomplete; the rest is skipped]\n`);
  }
  return entries;
}

/** Each entry adds a message or replaces the history. */
function replay(entries: Entry[]): Messages {
  let history: Messages = [];
  for (const entry of entries) history = "messages" in entry ? entry.messages : [...history, entry.message];
  return history;
}

/** Adds results for calls that were cut off when the program ended. */
function answerOpenCalls(history: Messages): Messages {
  const open = callsIn(history.at(-1));
  if (open.length === 0) return history;
  const lost = { type: "tool_result" as const, content: "(interrupted; it may have run)", is_error: true };
  return [...history, { role: "user", content: open.map(({ id }) => ({ ...lost, tool_use_id: id })) }];
}

/** The transcript that was started most recently. */
function newestTranscript(): string {
  const names = fs.existsSync(TRANSCRIPT_DIR) ? fs.readdirSync(TRANSCRIPT_DIR).sort() : [];
  const newest = names.findLast((name) => name.endsWith(".jsonl"));
  if (newest === undefined) throw new Error("--continue: no transcript in .transcripts/");
  return join(TRANSCRIPT_DIR, newest);
}
// #endregion

// #region recovery
/** Whether a shorter prompt would help. Servers word it differently; checkReply says model_context_window_exceeded. */
const isTooLong = (error: unknown) =>
  /error 413|(prompt|input) is too long|context.?(length|limit|size|window)/i.test(describeError(error));

/** Calls the model. If the prompt is too long after all, shortens it and tries once more. */
async function callWithRecovery(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  try {
    return await callModel(messages, options);
  } catch (error) {
    if (!isTooLong(error)) throw error;
    print(`[${describeError(error)}; making room. Again? Lower CONTEXT_WINDOW (${CONTEXT_WINDOW}) or /clear]\n`);
    clearAllResults(messages, options);
    await autoCompact(messages, "recovery", options);
    return callModel(messages, options);
  }
}

/** Layer 1, keeping none of the newest results. Long ones that aren't answered go to disk. */
function clearAllResults(messages: Messages, options: TurnOptions): void {
  const cleared = microCompact(messages, 0);
  for (const result of splitAnswered(cleared).unanswered.flatMap(resultsIn)) {
    result.content = saveIfLarge(String(result.content), options.state, 3_000); // results saved before are shorter
  }
  replaceHistory(messages, cleared, "micro", options);
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

// #region skills
const FrontMatter = z.object({ name: z.string().regex(/^[\w-]{1,64}$/), description: z.string().min(1).max(1_024) });

/** The skills in `<folder>/<name>/SKILL.md`. The folder must be inside the workspace. */
export class SkillLoader {
  readonly skills = new Map<string, { file: string; description: string }>();
  readonly warnings: string[] = []; // one for each skill that was skipped

  constructor(folder: string) {
    const isFolder = fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory();
    const names = isFolder ? fs.readdirSync(folder).sort() : [];
    for (const name of names) this.add(join(folder, name, "SKILL.md"));
  }

  private add(file: string): void {
    if (!fs.existsSync(file)) return;
    try {
      const { name, description } = readSkill(file);
      this.skills.set(name, { file, description: description.replace(/\s+/g, " ") });
    } catch (error) {
      this.warnings.push(`[skipped the skill ${file}: ${describeError(error)}]`);
    }
  }

  /** One line for each skill, for the system prompt. */
  descriptions(): string {
    return [...this.skills].map(([name, { description }]) => `- ${name}: ${description}`).join("\n") || "(none)";
  }

  /** A skill's body, as it is on disk now, and the folder its files are in. */
  content(name: string): string {
    const skill = this.skills.get(name);
    if (!skill) throw new Error(`unknown skill ${name}: the skills are ${[...this.skills.keys()].join(", ")}`);
    return `<skill name="${name}" folder="${dirname(skill.file)}">\n${readSkill(skill.file).body}\n</skill>`;
  }
}

/** Reads a SKILL.md: YAML front matter with the skill's name and description, then its body in Markdown. */
function readSkill(file: string): z.output<typeof FrontMatter> & { body: string } {
  const parts = /^\ufeff?---\r?\n(.*?)\r?\n---(\r?\n.*)?$/s.exec(readText(file)); // a BOM, ---, head, ---, body
  if (!parts) throw new Error("no front matter: the file must begin with ---, then name and description");
  const [, head = "", body = ""] = parts;
  const values: unknown = parseYaml(head, { logLevel: "error" }); // otherwise yaml prints its warnings
  return { ...validate("front matter", FrontMatter, values), body: body.trim() };
}

export const SKILLS = new SkillLoader(join(WORKDIR, "skills"));
const SKILL_PROMPT = `If a skill fits the work, load it with load_skill before you start. Skills:
${SKILLS.descriptions()}`;
addTool({
  name: "load_skill",
  description: "Load a skill's instructions.",
  schema: z.object({ name: z.string() }),
  run: ({ name }) => SKILLS.content(name),
});

/** Lists the skills: the model obeys them, and in a cloned repo a stranger wrote them. */
function announceSkills(): void {
  for (const warning of SKILLS.warnings) print(`${warning}\n`);
  if (SKILLS.skills.size > 0) print(`[skills: ${[...SKILLS.skills.keys()].join(", ")}]\n`);
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan multi-step work with todo; mark an item in_progress when you start it and completed when it is done.
Use a subagent (task) for work that needs a lot of reading but has a short answer.
${SKILL_PROMPT}
When a step is done and the conversation is long, call compact. Exclude .transcripts/ from searches.`;
// #endregion

// #region subagent
const SUBAGENT_SYSTEM = `You are a subagent in ${WORKDIR}. Only your last message is passed on, so make it complete.
${SKILL_PROMPT}
Exclude .transcripts/ from searches.`;

/** Runs the same loop on fresh messages. Returns the last text. Throws if a model call fails: the parent sees why. */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo"); // no subagents, no todo list
  const state = newState(join(TRANSCRIPT_DIR, "tasks"));
  const childOptions = { ...options, system: SUBAGENT_SYSTEM, tools, state };
  const messages: Messages = [];
  addMessage(messages, { role: "user", content: prompt }, childOptions);
  const reply = await agentLoop(messages, childOptions);
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
  const size = tokensOf(request, options.state); // compaction can't shorten a request
  if (size > THRESHOLD / 2) throw new Error(`this request is too long (~${size} tokens); put it in a file`);
  options.state.roundsPastThreshold = 0;
  const before = [...messages];
  addMessage(messages, { role: "user", content: request }, options);
  try {
    await agentLoop(messages, options);
  } catch (error) {
    if (error instanceof Refusal) replaceHistory(messages, before, "refused", options); // or it would refuse again
    if (isBadRequest(error)) dropUnanswered(messages, options); // or every later request would fail too
    markStopped(messages, options);
    throw error;
  }
}

/** Tells the model, once, that a request was left unfinished. */
function markStopped(messages: Messages, options: TurnOptions): void {
  const last = unfinishedRequests(messages).at(-1);
  if (last && last.content !== STOPPED.content) addMessage(messages, STOPPED, options);
}

/** Drops what isn't answered, such as calls with their results, which may be to blame. */
function dropUnanswered(messages: Messages, options: TurnOptions): void {
  replaceHistory(messages, splitAnswered(messages).answered, "rejected", options);
}
// #endregion

// That is the agent. The rest is the plumbing you know from s01, with /compact, /clear and -c in main.

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
const OUTPUT_LIMIT = 1_000_000; // characters of a command's output, so that memory stays small

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
    output = cutMiddle(output + text, OUTPUT_LIMIT); // cut as it arrives
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
  if (isBadRequest(error)) text += "; the unanswered part was dropped, but whatever ran was not undone";
  if (error instanceof Refusal) text += "; this turn was dropped, but whatever ran was not undone";
  const isRateLimit = /API error 429/.test(text); // one prompt alone can be over the limit
  if (isBadRequest(error) || isRateLimit) text += " (if every request fails: /clear)";
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}
// #endregion

// #region main
/** Handles what the user typed: /compact with or without instructions, /clear, or a request. */
async function runCommandOrTurn(text: string, messages: Messages, options: TurnOptions): Promise<void> {
  const line = text.trim();
  const isCompact = /^\/compact( .*)?$/.test(line); // on one line; anything longer is a request
  if (isCompact) return autoCompact(messages, "manual", options, line.slice("/compact ".length));
  if (line === "/clear") return clear(messages, options);
  return runTurn(messages, text, options);
}

/** Empties the conversation. The transcript still has it. */
function clear(messages: Messages, options: TurnOptions): void {
  const { state } = options;
  TODO.items = [];
  Object.assign(state, newState(), { file: state.file, transcriptEnded: state.transcriptEnded });
  replaceHistory(messages, [], "clear", options);
  print("[cleared]\n");
}

/** Yields what the user types. Lines that arrive together, pasted or typed during a turn, are one request. */
async function* typedRequests(rl: Interface): AsyncGenerator<string> {
  const lines: string[] = [];
  print("Ctrl-C stops a turn, Ctrl-D or q quits, /compact and /clear make room\n", "dim");
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

const FLAGS = {
  y: { type: "boolean", short: "y" },
  continue: { type: "boolean", short: "c" },
  resume: { type: "string" },
} as const;

async function main(): Promise<void> {
  const args = parseArgs({ allowPositionals: true, options: FLAGS });
  const { stdin: input, stdout: output } = process;
  const rl = createInterface({ input, output, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
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

  const options = { system: SYSTEM, tools: TOOLS, approve, signal: turnAbort.signal, state: newState() };
  const transcript = args.values.resume ?? (args.values.continue ? newestTranscript() : undefined);
  const messages = transcript === undefined ? [] : resume(transcript, options);

  const handleRequest = async (request: string) => {
    turnAbort = new AbortController();
    await runCommandOrTurn(request, messages, { ...options, signal: turnAbort.signal }).catch(reportError);
    print(`[context: ~${estimateTokens(messages, options)} of ${THRESHOLD} tokens]\n`, "dim");
  };

  exitWhenAbandoned();
  rl.on("SIGINT", () => turnAbort.abort()); // Ctrl-C in a terminal
  rl.on("SIGTSTP", () => {}); // ignores Ctrl-Z: it would suspend this process, but not npx, and lock the terminal
  if (input.isTTY) rl.on("close", flushAndExit); // Ctrl-D; a pipe closes while its requests still run

  announceSkills();
  for await (const request of requestsFrom(rl, args.positionals)) {
    if (request.trim() === "q") return;
    if (request.trim() !== "") await handleRequest(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(reportError).finally(flushAndExit);
// #endregion
