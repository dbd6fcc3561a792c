/**
 * s06: context compact
 *
 * Forgetting on purpose, losing nothing: context is short, the disk is not.
 *
 *     the history:       request reply results … reply results | reply results   (after |: the open round)
 *     1, microCompact:   request reply [Prev.] … reply results | reply results   (3 answered results stay)
 *     2, autoCompact:    [summary, todo list, files]  the request | reply results
 *     3, on request:     as 2, because the model or the user asks (2 also: in a pause, if the API says "too long")
 *
 * Same as s05: tools, skills, todo, files, writing, bash
 * New in s06: limits, compact, transcript
 * Changed from s05: setup, loop, subagent, system, turn, reply, terminal, main
 * Run: npx tsx agents/s06_context_compact.ts
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

const ENV_FILE = join(import.meta.dirname, "../.env"); // not the workspace's, which may be a stranger's
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const CONTEXT_WINDOW = Number(process.env.CONTEXT_WINDOW || 200_000); // tokens
const MAX_TOKENS = Math.min(32_000, Math.floor(CONTEXT_WINDOW / 2)); // of a reply, thinking included
const RESULT_LIMIT = 1_000_000; // characters of a tool result; a large one goes to disk before the model gets it
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
  const { maxRounds = Number.POSITIVE_INFINITY } = options;
  let roundsWithoutTodo = 0;
  for (let round = 0; round < maxRounds; round++) {
    await compactIfNeeded(messages, options);
    const reply = await callOrCompact(messages, options);
    add(messages, { role: "assistant", content: reply.content }, options);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // done: the model has said what it has to say
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options));
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const hasTodo = options.tools.some((tool) => tool.name === "todo"); // a subagent has none
    if (hasTodo && roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
    saveLargeResults(results, LARGE_OUTPUT * options.state.charsPerToken, options.state);
    add(messages, { role: "user", content: results }, options); // one result for each call, in one message
  }
  throw new Error(`out of rounds: ${maxRounds} were allowed`);
}

export type Messages = Anthropic.MessageParam[];
export type TurnOptions = {
  system: string;
  tools: Anthropic.Tool[];
  approve: (question: string) => Promise<void>; // asks the user, and throws if the answer is no
  signal: AbortSignal; // Ctrl-C aborts it
  maxRounds?: number; // of a subagent
  state: State;
};

const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: MAX_TOKENS,
  thinking: process.env.THINKING === "off" ? undefined : THINKING, // some servers do not know it
  cache_control: { type: "ephemeral" } as const, // the next model call pays little for what this one sends
};

/** Sends the whole conversation, each time, since the API remembers nothing. Prints the reply, except a summary. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions, isSummary = false) {
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  if (isSummary) return checkReply(await stream.finalMessage());
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

// #region limits
/** The window minus room for a reply (at most 20,000 tokens) and a reserve of 13,000. */
export const autoCompactThreshold = (window: number, output: number) => window - Math.min(output, 20_000) - 13_000;
const computed = Math.max(autoCompactThreshold(CONTEXT_WINDOW, MAX_TOKENS), 0.4 * CONTEXT_WINDOW); // in small windows
export const THRESHOLD = Math.min(Number(process.env.COMPACT_THRESHOLD || computed), computed); // tokens
export const MIN_SAVINGS = 0.4; // of THRESHOLD: a rewrite costs the prompt cache and all thinking
export const PAUSE: number = 240; // seconds after a reply: the cache expires 300 after the request; 0 turns pauses off
export const PAUSE_THRESHOLD = Math.min(25_000, THRESHOLD / 2);
export const KEEP_RECENT = 3; // tool results
export const PRESERVE_RESULT_TOOLS = ["load_skill"];
export const SUMMARY = Math.min(2_000, THRESHOLD / 10); // tokens, about
export const RESTORED = Math.min(12_000, THRESHOLD / 4); // tokens: parts of files, put back after a summary
export const LARGE_OUTPUT = Math.min(40_000, 0.4 * THRESHOLD); // tokens: the results of a round together
const SAVED_TO = "Output too large. Saved to: "; // begins what the model gets instead of a large result

const chars = (value: unknown): number => JSON.stringify(value).length;
const format = (tokens: number): string => Math.round(tokens).toLocaleString("en-US");

/** Tokens of the prompt that these messages make, by the characters per token of the last reply. */
export function estimateTokens(messages: Messages, { system, tools, state }: TurnOptions): number {
  return Math.ceil(chars([system, tools, messages]) / state.charsPerToken);
}

/** Updates the characters per token by what the API counted, unless it is absurd: some servers report 1, or none. */
function countTokens(messages: Messages, usage: Anthropic.Usage, { system, tools, state }: TurnOptions): void {
  const { input_tokens, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
  const ratio = chars([system, tools, messages]) / (input_tokens + (read ?? 0) + (written ?? 0));
  if (ratio >= 0.5 && ratio <= 10) state.charsPerToken = ratio;
}

/** Requests are plain strings; summaries, results and reminders are blocks. */
const isRequest = ({ role, content }: Anthropic.MessageParam) => role === "user" && typeof content === "string";

function blocksOf(message?: Anthropic.MessageParam): Anthropic.ContentBlockParam[] {
  const content = message?.content ?? [];
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
// #endregion

// #region compact
/** Where the open round begins: a request without a reply, or calls whose results have none. A summary is answered. */
function openAt(messages: Messages): number {
  const lastReply = messages.findLastIndex((each, i) => each.role === "assistant" || (i === 0 && !isRequest(each)));
  const hasCalls = blocksOf(messages[lastReply]).some((block) => block.type === "tool_use");
  return hasCalls ? lastReply : lastReply + 1;
}

/** What a compaction keeps word for word: the open round, and the request that it belongs to. */
function kept(messages: Messages): Messages {
  const open = messages.slice(openAt(messages));
  if (open.length === 0 || open.some(isRequest)) return open;
  return [...messages.filter(isRequest).slice(-1), ...open];
}

/** Before each call: layer 3 if the model has asked for it. Past the limit: layer 1, then layer 2 if need be. */
async function compactIfNeeded(messages: Messages, options: TurnOptions): Promise<void> {
  const asked = options.state.compactAsked; // layer 3
  options.state.compactAsked = undefined;
  options.signal.throwIfAborted();
  if (asked) await autoCompact(messages, "tool", options, asked.focus);
  const size = (history: Messages) => estimateTokens(history, options);
  if (size(messages) <= THRESHOLD) return;
  const cleared = microCompact(messages); // layer 1
  const saved = size(messages) - size(cleared);
  if (saved >= MIN_SAVINGS * THRESHOLD) {
    const blocks = messages.flatMap(blocksOf);
    const count = cleared.flatMap(blocksOf).filter((block, i) => chars(block) < chars(blocks[i])).length;
    print(`[micro_compact] cleared ${count} old tool results (~${format(saved)} tokens)\n`);
    rewrite(messages, cleared, "micro", options);
  }
  const lastSummary = messages.slice(0, 1).filter((each) => !isRequest(each)); // and files: the next will be as long
  const freed = size(messages) - size([...lastSummary, ...kept(messages)]) - SUMMARY; // a guess at what layer 2 frees
  if (size(messages) <= THRESHOLD || freed < MIN_SAVINGS * THRESHOLD || options.state.failures >= 3) return;
  await autoCompact(messages, "auto", options);
}

/** Layer 1. @returns a copy in which each answered result is one line, except for the newest KEEP_RECENT */
export function microCompact(messages: Messages): Messages {
  const copy = structuredClone(messages);
  const blocks = copy.slice(0, openAt(copy)).flatMap(blocksOf);
  const calls = blocks.filter((block) => block.type === "tool_use");
  const results = blocks.filter((block) => block.type === "tool_result");
  for (const result of results.slice(0, -KEEP_RECENT)) {
    const name = calls.find((call) => call.id === result.tool_use_id)?.name ?? "";
    const text = String(result.content);
    const isOurs = (line: string) => line.startsWith(SAVED_TO) && line.endsWith(`_${result.tool_use_id}.txt`);
    const place = text.split("\n", 2).find(isOurs); // line 2 if cleared before; without the id, no tool can fake it
    const line = place ? `[Previous: used ${name}]\n${place}` : `[Previous: used ${name}]`;
    if (text.length > Math.max(100, line.length) && !PRESERVE_RESULT_TOOLS.includes(name)) result.content = line;
  }
  return copy;
}

/** Thinking is only valid after the exact history it was written for. Afterwards, what it says stays as text. */
export function withoutThinking(message: Anthropic.MessageParam): Anthropic.MessageParam {
  if (message.role !== "assistant") return message;
  const content = blocksOf(message).flatMap((block): Anthropic.ContentBlockParam[] => {
    if (block.type === "thinking") return block.thinking.trim() ? [{ type: "text", text: block.thinking }] : [];
    return block.type === "redacted_thinking" ? [] : [block];
  });
  return { role: "assistant", content };
}

const SUMMARY_PROMPT = `Write a summary of this conversation; the work goes on from it alone. State the goal, standing
instructions, what was done, the current state, decisions and their reasons, files and what matters in each, skills in
use, the next step. Copy paths, names, values and error messages exactly. About ${SUMMARY} tokens; no tool calls.`;

/** Layers 2 and 3. `trigger`: auto, pause, tool or manual (layer 3), or reactive (the prompt was too long). */
export async function autoCompact(messages: Messages, trigger: string, options: TurnOptions, focus = "") {
  const { state, tools } = options;
  const stays = kept(messages);
  const old = messages.filter((message) => !stays.includes(message));
  if (old.length < (trigger === "reactive" ? 1 : 2)) return print("[nothing to compact yet]\n");
  print(trigger === "manual" || trigger === "tool" ? "[manual compact]\n" : "[auto_compact triggered]\n");
  const summary = await summarize(messages, options, focus).catch((error) => {
    options.signal.throwIfAborted();
    const isHopeless = isTooLong(error) || (state.failures >= 3 && !(error instanceof Anthropic.APIError));
    if (trigger === "reactive" && isHopeless) return "(No summary could be made. The transcript has it all.)";
    state.failures++; // after three in a row: only on request, or when a prompt is too long
    print(`[compaction failed: ${messageOf(error)}]\n`);
  });
  options.signal.throwIfAborted(); // by a request, in a pause
  if (!summary) return;
  state.failures = 0;
  const file = fs.existsSync(state.file) ? relative(WORKDIR, state.file) : "(not written)";
  const texts = [`[Conversation compressed. Transcript: ${file}]\n\n${summary}`];
  if (TODO.items.length > 0 && tools.some((tool) => tool.name === "todo")) texts.push(TODO.render());
  texts.push(...restoreFiles(old, state, trigger === "reactive" ? 0 : RESTORED));
  const content = texts.map((text) => ({ type: "text" as const, text: text.toWellFormed() }));
  rewrite(messages, [{ role: "user", content }, ...stays], trigger, options);
  if (fs.existsSync(state.file)) print(`[transcript saved: ${relative(WORKDIR, state.file)}]\n`);
  print(`context: ~${format(estimateTokens(messages, options))} tokens\n`);
}

/** Asks for a summary with the whole prompt, which is cached; if that is too long, with what layer 1 leaves of it. */
async function summarize(messages: Messages, options: TurnOptions, focus: string): Promise<string> {
  const answered = messages.slice(0, openAt(messages));
  const content = `${SUMMARY_PROMPT}${focus && `\nAbove all, keep: ${focus}`}`.toWellFormed();
  const ask = (history: Messages) => callModel([...history, { role: "user", content }], options, true);
  const cleared = microCompact(answered).map(withoutThinking);
  const reply = await ask(messages).catch((error) => (isTooLong(error) ? ask(cleared) : Promise.reject(error)));
  const summary = textOf(reply).trim();
  const isWhole = reply.stop_reason === "end_turn" && reply.content.every((block) => block.type !== "tool_use");
  if (isWhole && summary.length < chars(answered)) return summary;
  throw new Error(`no usable summary: ${reply.stop_reason}, ${summary.length} characters`);
}

/** What was read, written or edited last, as it is on disk now, in `room` tokens. `state` remembers the places. */
function restoreFiles(messages: Messages, state: State, room: number): string[] {
  for (const block of messages.flatMap(blocksOf)) {
    if (block.type !== "tool_use" || !/^(read|write|edit)_file$/.test(block.name)) continue;
    const { path, offset, limit, new_text: text } = block.input as { [name: string]: unknown };
    const [start, lines] = typeof text === "string" ? [text.slice(0, 80), text.split("\n").length + 20] : []; // an edit
    const place = JSON.stringify({ path, offset, limit: lines ?? limit, start });
    state.places = [...state.places.filter((each) => each !== place), place].slice(-40); // the newest last
  }
  const texts: string[] = [];
  for (const place of [...state.places].reverse()) {
    const { path, start = "", offset = 1, limit } = JSON.parse(place);
    try {
      const from = Math.max(offset, readText(path).split(start, 1).join("").split("\n").length - 10); // before an edit
      const text = `<file path="${path}" offset="${from}">\n${runRead(path, from, limit)}\n</file>`;
      if (chars([...texts, text]) <= room * state.charsPerToken) texts.push(text);
    } catch {} // it is gone, or the call was wrong
  }
  return texts;
}

/** Compacts when the user has been away for a while, but the prompt cache is still warm. `signal` ends the wait. */
export async function compactInPause(messages: Messages, options: TurnOptions): Promise<void> {
  const due = Date.now() + PAUSE * 1_000;
  await sleep(PAUSE * 1_000, undefined, { signal: options.signal });
  const isCold = Date.now() > due + 30_000; // the machine slept, and the cache has expired
  if (isCold || options.state.failures >= 3 || estimateTokens(messages, options) <= PAUSE_THRESHOLD) return;
  print("\n[a pause: compacting while the prompt cache is warm]\n");
  await autoCompact(messages, "pause", options);
}

const focus = z.object({ focus: z.string().optional().describe("what to keep above all") });
addTool("compact", "Replace the conversation with a summary.", focus, (input, { state }) => {
  state.compactAsked = input;
  return "After this round a summary replaces the conversation.";
});

/** Calls the model. If the prompt is too long, the estimate was wrong: forgets what it can and tries again, twice. */
async function callOrCompact(messages: Messages, options: TurnOptions, tries = 3): Promise<Anthropic.Message> {
  try {
    const reply = await callModel(messages, options);
    countTokens(messages, reply.usage, options);
    return reply;
  } catch (error) {
    if (!isTooLong(error) || tries === 1) throw error;
    const before = chars(messages);
    const shorter = microCompact(messages); // first: clear
    saveLargeResults(kept(shorter).flatMap(blocksOf), before / 2, options.state); // then: to disk; changes `shorter`
    rewrite(messages, shorter, "micro", options);
    const goal = options.state.failures >= 3 ? before : (1 - MIN_SAVINGS) * before; // below it, no summary is needed
    if (chars(messages) >= goal) await autoCompact(messages, "reactive", options); // last: layer 2
    if (chars(messages) >= before) throw error; // nothing has helped
    return callOrCompact(messages, options, tries - 1);
  }
}

/** Moves results to disk, the longest first, until they total at most `limit` characters, and none more than 50,000. */
function saveLargeResults(blocks: Anthropic.ContentBlockParam[], limit: number, state: State): void {
  const results = blocks.filter((block) => block.type === "tool_result");
  const size = (result: Anthropic.ToolResultBlockParam) => String(result.content).length;
  for (const result of results.toSorted((a, b) => size(b) - size(a))) {
    const total = results.reduce((sum, each) => sum + size(each), 0);
    if (size(result) <= 2_400 || (total <= limit && size(result) <= 50_000)) return;
    const text = String(result.content);
    const file = join(TRANSCRIPT_DIR, "outputs", `${Date.now()}_${basename(result.tool_use_id)}.txt`);
    const [head, length] = save(file, text, state) ? [`${SAVED_TO}${relative(WORKDIR, file)}\n`, 2_000] : ["", 50_000];
    result.content = head + cutMiddle(text, length).toWellFormed();
  }
}
// #endregion

// #region transcript
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts"); // readable by its owner alone
let lastTime = 0;
/** What is known of a conversation besides its messages. Its transcript will be in `folder`. */
export function newState(folder = TRANSCRIPT_DIR, charsPerToken = 4) {
  lastTime = Math.max(lastTime + 1, Date.now()); // never two in one millisecond
  return {
    file: join(folder, `transcript_${lastTime}_${process.pid}.jsonl`),
    isUnsaved: false, // the last write failed, and the user knows
    charsPerToken,
    places: [] as string[], // in files, touched before a compaction, as JSON
    lastText: "", // what the model said last
    failures: 0, // failed compactions in a row
    compactAsked: undefined as { focus?: string } | undefined, // by the model
  };
}
export type State = ReturnType<typeof newState>;

/** Adds a message to the history, and to the transcript before any layer can shorten it. */
export function add(messages: Messages, message: Anthropic.MessageParam, { state }: TurnOptions): void {
  record(message, messages, state);
  messages.push(message);
  if (message.role === "assistant") state.lastText = textOf(message) || state.lastText;
}

/** Replaces the history in place, and tells the transcript. Thinking becomes text. */
function rewrite(messages: Messages, history: Messages, trigger: string, options: TurnOptions): void {
  const next = history.map(withoutThinking);
  const [before, after] = [estimateTokens(messages, options), estimateTokens(next, options)];
  record({ type: "compaction", trigger, before, after, limit: THRESHOLD, messages: next }, messages, options.state);
  messages.splice(0, messages.length, ...next);
}

/** Writes a line to the transcript. If its file is gone or could not be written, a new one begins with all messages. */
function record(entry: object, messages: Messages, state: State): void {
  const isLost = messages.length > 0 && !fs.existsSync(state.file);
  const entries = isLost ? [{ type: "compaction", trigger: "resume", messages }, entry] : [entry];
  const rest = { time: Date.now(), charsPerToken: state.charsPerToken, todos: TODO.items, places: state.places };
  const lines = entries.map((each) => `${JSON.stringify({ ...each, ...rest })}\n`);
  if (isLost && !state.isUnsaved) print("[the transcript is gone; a new one begins with the whole history]\n");
  if (!save(state.file, lines.join(""), state)) state.file = newState(dirname(state.file)).file; // that one may be torn
}

/** Appends to a file in TRANSCRIPT_DIR. @returns whether it could; if not, the user is told once */
function save(file: string, text: string, state: State): boolean {
  try {
    if (safePath(file) !== file) throw new Error(`${relative(WORKDIR, file)} is, or is in, a link`);
    fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const ignore = join(TRANSCRIPT_DIR, ".gitignore");
    if (!fs.lstatSync(ignore, { throwIfNoEntry: false })) fs.writeFileSync(ignore, "*\n", { mode: 0o600, flag: "wx" });
    fs.appendFileSync(file, text, { mode: 0o600 });
    state.isUnsaved = false;
  } catch (error) {
    if (!state.isUnsaved) print(`[not saved: ${messageOf(error)}; the conversation goes on]\n`);
    state.isUnsaved = true;
  }
  return !state.isUnsaved;
}

/** The file that --resume names, taken from `words` (a request has several), or else the transcript written last. */
function transcriptToResume(words: string[]): string {
  const named = /^\S+$/.test(words[0] ?? "") ? words.shift() : undefined;
  const names = fs.existsSync(TRANSCRIPT_DIR) ? fs.readdirSync(TRANSCRIPT_DIR) : [];
  const files = names.filter((name) => /^transcript_/.test(name)).map((name) => join(TRANSCRIPT_DIR, name));
  const file = named ?? files.sort((a, b) => fs.statSync(a).mtimeMs - fs.statSync(b).mtimeMs).at(-1) ?? "at all";
  if (!fs.existsSync(file)) throw new Error(`--resume: there is no transcript ${file}; a request has several words`);
  return file;
}

/** Continues a transcript in a new one. @returns its last compaction and what came after, without a torn last line */
export function resume(file: string, options: TurnOptions): Messages {
  const lines = fs.readFileSync(file, "utf8").split("\n").slice(0, -1);
  const entries = lines.map((line, i) => {
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`--resume: line ${i + 1} of ${file} is broken; delete that line, or name another transcript`);
    }
  });
  const start = entries.findLastIndex((entry) => entry.type === "compaction");
  const history: Messages = [...(entries[start]?.messages ?? [])];
  for (const { role, content } of entries.slice(start + 1)) if (role) history.push({ role, content });
  const calls = blocksOf(history.at(-1)).filter((block) => block.type === "tool_use");
  const lost = { type: "tool_result" as const, content: "(interrupted; it may have run)", is_error: true };
  if (calls.length > 0) history.push({ role: "user", content: calls.map(({ id }) => ({ ...lost, tool_use_id: id })) });
  if (history.length === 0) throw new Error(`--resume: ${file} contains no messages; name another file`);
  const { charsPerToken, places = [], todos } = entries.at(-1);
  Object.assign(options.state, { charsPerToken, places });
  TODO.items = todos;
  const messages: Messages = [];
  rewrite(messages, history, "resume", options);
  print(`[resumed ${relative(WORKDIR, file)}: ~${format(estimateTokens(messages, options))} tokens. `);
  print(`The last request was: ${firstLines(String(history.findLast(isRequest)?.content ?? "(in the summary)"))}]\n`);
  return messages;
}
// #endregion

// #region skills
const SkillHead = z.object({ name: z.string().regex(/^[\w-]+$/), description: z.string().trim().min(1).max(1_024) });

function readSkill(file: string): z.output<typeof SkillHead> & { body: string } {
  const match = /^\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)(.*)$/s.exec(readText(file));
  if (!match) throw new Error("it doesn't begin with YAML between two --- lines");
  const [, head = "", body = ""] = match;
  const values: unknown = parseYaml(head, { logLevel: "error" }); // else yaml prints its warnings as they are
  return { ...check("the frontmatter", SkillHead, values), body: body.trim() };
}

/** The skills in `<folder>/<any>/SKILL.md`. */
export class SkillLoader {
  readonly skills = new Map<string, { file: string; description: string }>();
  readonly warnings: string[] = []; // about skills that were left out, for announceSkills

  constructor(folder: string) {
    const isFolder = fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory();
    const names = isFolder ? fs.readdirSync(folder).sort() : [];
    const files = names.map((name) => join(folder, name, "SKILL.md"));
    for (const file of files.filter(fs.existsSync)) {
      try {
        this.add(file);
      } catch (error) {
        this.warnings.push(`[skill left out: ${file}: ${messageOf(error)}]`);
      }
    }
  }

  private add(file: string): void {
    const { name, description } = readSkill(file);
    if (this.skills.has(name)) throw new Error(`there is another skill called ${name}`);
    this.skills.set(name, { file, description: description.replace(/\s+/g, " ") });
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
export const SKILLS = new SkillLoader(join(WORKDIR, "skills"));
const SkillInput = z.object({ name: z.string() });
addTool("load_skill", "Load the instructions of a skill.", SkillInput, ({ name }) => SKILLS.content(name));

/** The folder may be a stranger's, so the user sees which skills it brings. */
function announceSkills(): void {
  for (const warning of SKILLS.warnings) print(`${warning}\n`);
  const names = [...SKILLS.skills.keys()];
  if (names.length > 0) print(`[skills: ${names.join(", ")}]\n`);
}
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent in ${WORKDIR}. Only your last message is passed on: make it the whole answer.`;

/** Runs a task in a fresh context. @returns the last text, and how the task ended if it isn't done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  const state = newState(join(TRANSCRIPT_DIR, "tasks"), options.state.charsPerToken);
  let ending = "";
  margin = "  ";
  try {
    await runTurn([], prompt, { ...options, state, system: CHILD_SYSTEM, tools, maxRounds: 30 });
  } catch (error) {
    ending = `\n(the subagent was not done: ${messageOf(error)})`;
  }
  margin = "";
  return (state.lastText || "(it said nothing)") + ending;
}

function textOf({ content }: Anthropic.MessageParam): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

const TaskInput = z.object({ prompt: z.string().trim().min(1) });
addTool("task", "Hand a subagent a complete task.", TaskInput, ({ prompt }, options) => runSubagent(prompt, options));
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
  if (!fs.statSync(file).isFile()) throw new Error(`${path} is a folder or a device; use bash to look at it`);
  const bytes = fs.readFileSync(file);
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error(`${path} is binary; use bash to look at it`);
  return bytes.toString();
}

/** Reads a file, or `limit` lines of it, starting at line `offset` (the first is 1). */
export function runRead(path: string, offset = 1, limit = Number.POSITIVE_INFINITY): string {
  const text = readText(path);
  if (text === "") return "(empty)";
  const lines = text.replace(/\n$/, "").split("\n");
  if (offset > lines.length) throw new Error(`${path} has only ${lines.length} lines`);
  const end = offset - 1 + limit;
  const part = lines.slice(offset - 1, end).join("\n");
  if (end >= lines.length) return part;
  return `${part}\n[${lines.length - end} more lines: go on with offset ${end + 1}]`;
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
  const temporary = `${file}.${crypto.randomUUID()}.tmp`; // nobody can guess it, and plant a link there
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
  const [before = "", ...after] = text.split(withLineEndsOf(text, oldText));
  if (after.length === 0) throw new Error(`old_text does not occur in ${path}; read it again and copy it exactly`);
  if (after.length > 1) throw new Error(`old_text occurs ${after.length} times in ${path}; include more lines`);
  return before + withLineEndsOf(text, newText) + after[0];
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
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Use a subagent (task) for work that needs lots of reading and has a short answer.
When a skill fits the work, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact. What was cleared is in .transcripts/.`;
// #endregion

// #region turn
/** Carries out a request. However it ends, the API accepts the history that is left. @throws what went wrong */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = [...messages];
  add(messages, { role: "user", content: request.toWellFormed() }, options);
  try {
    await agentLoop(messages, options);
  } catch (error) {
    // Refused, or no room whatever is left out: this turn goes. Rejected: only its open round. What stays was answered.
    const answered = (history: Messages) => history.slice(0, openAt(history));
    if (error instanceof Refusal || isTooLong(error)) rewrite(messages, answered(before), "refused", options);
    else if (isRejected(error)) rewrite(messages, answered(messages), "rejected", options);
    throw error;
  }
}
// #endregion

// That is the agent. What follows keeps it alive, and can wait for a second reading.

// #region reply
class Refusal extends Error {} // by the model
const isRejected = (error: unknown) => error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);

class WindowFull extends Error {}
/** Whether the prompt, or the reply to it, has no room in the window. "It took too long" is a 504. */
function isTooLong(error: unknown): boolean {
  if (!(error instanceof Anthropic.APIError)) return error instanceof WindowFull;
  return /^413|^400.*(too long|context (limit|length|size|window))/s.test(error.message); // it begins with the status
}

/** @returns the reply without blocks that the API would not take back @throws if it is refused, cut off or empty */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  const reason = reply.stop_reason ?? "";
  if (reason === "refusal") throw new Refusal("the model refused");
  if (reason === "model_context_window_exceeded") throw new WindowFull("the context window is full");
  if (reason === "max_tokens") throw new Error("the reply was cut off (max_tokens) and is dropped; ask for less");
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
const WITHHELD = /^ANTHROPIC_|^BASH_ENV$|^ENV$/; // your key, and files that bash would run first

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
      resolve(why); // at once: whatever ignores the signal is not waited for
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
let margin = ""; // before each line; runSubagent sets it
let isLineStart = true;

/** Prints text with control and text-direction characters replaced, so that it cannot drive the terminal. */
function print(text: string, style?: "dim"): void {
  const safe = text.replaceAll("\r", "").replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, "\ufffd");
  if (safe === "") return;
  const indented = (isLineStart ? margin : "") + safe.replace(/\n(?=.)/g, `\n${margin}`);
  isLineStart = safe.endsWith("\n");
  process.stdout.write(style && process.stdout.isTTY ? styleText(style, indented) : indented);
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
  if (error instanceof Anthropic.APIError && error.apiMessage) return `API error ${error.status}: ${error.apiMessage}`;
  return error instanceof Error ? error.message : String(error);
}

const TAKEN_OUT = "the last step is forgotten (what it did is done); if it was too long, ask for less or begin again";

/** Tells the user why a request is not done, and what to do about it. */
function report(error: unknown): void {
  let text = messageOf(error);
  if (/resolve auth/.test(text)) text = `no key: set ANTHROPIC_API_KEY, maybe in ${ENV_FILE}; npm run demo needs none`;
  if (/^Unknown option/.test(text)) text += `; ${USAGE}`;
  if (error instanceof Refusal) text += "; the request is forgotten (what was done is done)";
  if (isRejected(error)) text += `; ${TAKEN_OUT}`;
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}

/** What fills the context, kind by kind, and the limits. */
export function drawContext(messages: Messages, options: TurnOptions): string {
  const base = [options.system, options.tools];
  const sizes = new Map([["system and tools", chars(base)]]);
  const names = new Map<string, string>();
  for (const message of messages) {
    for (const block of blocksOf(message)) {
      let kind = "summary, files, reminders";
      if (message.role === "assistant") kind = "replies";
      if (isRequest(message)) kind = "requests";
      if (block.type === "tool_use") names.set(block.id, block.name);
      if (block.type === "tool_result") kind = `results of ${names.get(block.tool_use_id)}`;
      sizes.set(kind, (sizes.get(kind) ?? 0) + chars(block));
    }
  }
  const total = estimateTokens(messages, options);
  const lines = [...sizes].map(([kind, size]) => {
    const share = size / chars([...base, messages]);
    return `${kind.padEnd(26)} ${"█".repeat(Math.ceil(30 * share))} ${format(total * share)}`;
  });
  lines.push(`context: ~${format(total)} tokens; limit ${format(THRESHOLD)}, in a pause ${format(PAUSE_THRESHOLD)}`);
  return lines.join("\n");
}
// #endregion

// #region main
const PROGRAM = basename(import.meta.filename);
const USAGE = `usage: npx tsx agents/${PROGRAM} [-y: never ask] [--resume [FILE]] ["a request"]`;
const HELP = `${USAGE}
At the prompt: /context shows what fills the context, /compact [focus] compacts it; Ctrl-C stops a turn, Ctrl-D quits.`;

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
  const [y, help] = [{ type: "boolean", short: "y" } as const, { type: "boolean", short: "h" } as const];
  const args = parseArgs({ allowPositionals: true, options: { y, help, resume: { type: "boolean" } } });
  if (args.values.help) return console.log(HELP);
  if (!(THRESHOLD > 0)) throw new Error("CONTEXT_WINDOW and COMPACT_THRESHOLD have to be numbers of tokens");
  const { stdin: input, stdout: output } = process;
  const terminal = Boolean(input.isTTY && output.isTTY);
  const rl = createInterface({ input, output, terminal, prompt: `${PROGRAM.slice(0, 3)} >> ` });
  const lines: string[] = []; // typed, and not yet carried out
  let turn: AbortController | undefined; // while one runs
  let pause = new AbortController();

  if (terminal) {
    rl.on("line", (line) => lines.push(line));
    rl.on("close", () => process.exit(turn ? 1 : process.exitCode)); // Ctrl-D; 1: the turn is not done
  }
  rl.on("SIGINT", () => {
    lines.length = 0;
    clearLine(rl);
    pause.abort();
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

  const base = { system: SYSTEM, tools: TOOLS, approve, signal: new AbortController().signal, state: newState() };
  const messages = args.values.resume ? resume(transcriptToResume(args.positionals), base) : [];
  const carryOut = async (request: string) => {
    const [, command, focus] = /^\/(help|context|compact)(?:\s+(.*))?$/s.exec(request.trim()) ?? [];
    if (command === "help") return print(`${HELP}\n`);
    if (command === "context") return print(`${drawContext(messages, base)}\n`);
    turn = new AbortController();
    pause.abort();
    process.exitCode = 0; // report makes it 1
    const own = { ...base, signal: turn.signal };
    await (command ? autoCompact(messages, "manual", own, focus) : runTurn(messages, request, own)).catch(report);
    turn = undefined;
    if (!terminal || PAUSE === 0) return;
    pause = new AbortController();
    const redraw = () => turn || rl.prompt(true);
    compactInPause(messages, { ...base, signal: pause.signal }).then(redraw, redraw);
  };

  announceSkills();
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
