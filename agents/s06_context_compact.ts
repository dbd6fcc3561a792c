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
 * Same as s05: dispatch, skills, todo, files, bash
 * New in s06: limits, compact, transcript
 * Changed from s05: setup, loop, turn, subagent, system, terminal
 * Run: npx tsx agents/s06_context_compact.ts
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
import { parse as parseYaml } from "yaml";
import { z } from "zod";

const ENV_FILE = join(import.meta.dirname, "../.env"); // not the one of the workspace, which may be a stranger's
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const CONTEXT_WINDOW = Number(process.env.CONTEXT_WINDOW || 200_000); // tokens
const MAX_TOKENS = Math.min(32_000, Math.floor(CONTEXT_WINDOW / 2)); // of a reply, thinking included
const RESULT_LIMIT = 1_000_000; // characters of a tool result; a large one goes to disk before the model gets it
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
    await compactIfNeeded(messages, options);
    const reply = await callOrCompact(messages, options);
    add(messages, { role: "assistant", content: reply.content }, options);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // done: the model has said what it has to say
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, reply, options));
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const plans = options.tools.some((tool) => tool.name === "todo");
    if (plans && roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
    saveLargeResults(results, LARGE_OUTPUT * options.state.charsPerToken, options.state);
    add(messages, { role: "user", content: results }, options); // one result for each call, in one message
  }
  throw new Error(`out of rounds: ${options.maxRounds} were allowed`);
}

export type Messages = Anthropic.MessageParam[];
export type Tools = Anthropic.Tool[];
/** What a turn needs besides its messages. `approve` throws if the user says no; Ctrl-C aborts `signal`. */
export type TurnOptions = Basics & { maxRounds?: number; state: State };
type Basics = { system: string; tools: Tools; approve(text: string): Promise<void>; signal: AbortSignal };

/** Sends the whole conversation, each time, since the API remembers nothing. Prints the reply, except a summary. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions, isSummary = false) {
  const thinking = process.env.THINKING === "off" ? undefined : ({ type: "adaptive", display: "summarized" } as const);
  const cache_control = { type: "ephemeral" } as const; // the next model call pays little for what this one sends
  const body = { model: MODEL, max_tokens: MAX_TOKENS, thinking, cache_control, system, tools, messages };
  const stream = client.messages.stream(body, { signal });
  if (isSummary) return checkReply(await stream.finalMessage());
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
  const before = [...messages];
  add(messages, { role: "user", content: request.toWellFormed() }, options);
  try {
    if (isCut(await agentLoop(messages, options))) throw new Error("the reply was cut off; ask for less in one go");
  } catch (error) {
    options.signal.throwIfAborted(); // interrupted: all stays, since each call has its result
    // Refused, or no room whatever is left out: this turn goes. Rejected: only its open round. What stays was answered.
    const answered = (history: Messages) => history.slice(0, openAt(history));
    if (error instanceof Refusal || isTooLong(error)) rewrite(messages, answered(before), "refused", options);
    else if (isRejected(error)) rewrite(messages, answered(messages), "rejected", options);
    throw error;
  }
}

const isCut = (reply: Anthropic.Message) => reply.stop_reason === "max_tokens";
const isRejected = (error: unknown) => error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);
class Refusal extends Error {}
class WindowFull extends Error {}

/** Whether the prompt, or the reply to it, has no room in the window. "It took too long" is a 504. */
function isTooLong(error: unknown): boolean {
  if (!(error instanceof Anthropic.APIError)) return error instanceof WindowFull;
  return /^413|^400.*(too long|context (limit|length|size|window))/s.test(error.message); // it begins with the status
}

/** @returns the reply without what the API sends and then rejects: blank text, half an emoji, thinking at the end */
function checkReply(reply: Anthropic.Message): Anthropic.Message {
  if (reply.stop_reason === "refusal") throw new Refusal("the model refused; what it was asked is taken out");
  if (reply.stop_reason === "model_context_window_exceeded") throw new WindowFull("the context window is full");
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
    print(`[compaction failed: ${explain(error)}]\n`);
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
    if (!state.isUnsaved) print(`[not saved: ${explain(error)}; the conversation goes on]\n`);
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
  return { ...check("the frontmatter", SkillHead, parseYaml(match[1] ?? "")), body: (match[2] ?? "").trim() };
}

/** The skills in `<folder>/<any>/SKILL.md`. */
export class SkillLoader {
  readonly skills = new Map<string, { file: string; description: string }>();
  readonly warnings: string[] = []; // about skills that were left out

  constructor(folder: string) {
    const names = fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? fs.readdirSync(folder).sort() : [];
    for (const file of names.map((name) => join(folder, name, "SKILL.md")).filter(fs.existsSync)) {
      try {
        const { name, description } = readSkill(file);
        if (this.skills.has(name)) throw new Error(`there is another skill called ${name}`);
        this.skills.set(name, { file, description: description.replace(/\s+/g, " ") });
      } catch (error) {
        this.warnings.push(`[skill left out: ${file}: ${explain(error)}]`);
      }
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
export const SKILLS = new SkillLoader(join(WORKDIR, "skills"));
const skill = z.object({ name: z.string() });
addTool("load_skill", "Load the instructions of a skill.", skill, ({ name }) => SKILLS.content(name));
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent working in ${WORKDIR}. Carry out the task with the tools. Your last message is
all that is passed on: make it the complete answer.`;

/** Runs a task in a fresh context. @returns the last text, and how the task ended if it isn't done */
export async function runSubagent(prompt: string, options: TurnOptions): Promise<string> {
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  const state = newState(join(TRANSCRIPT_DIR, "tasks"), options.state.charsPerToken);
  let ending = "";
  margin = "  ";
  await runTurn([], prompt, { ...options, state, system: CHILD_SYSTEM, tools, maxRounds: 30 }).catch((error) => {
    ending = `\n(the subagent was not done: ${explain(error)})`;
  });
  margin = "";
  return (state.lastText || "(it said nothing)") + ending;
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
Use a subagent (task) for work that needs lots of reading and has a short answer.
When a skill fits the work, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact. What was cleared is in .transcripts/.`;
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
  return text;
}

function report(error: unknown): void {
  print(`\n[${explain(error)}]\n`);
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

const HELP = `npx tsx agents/${basename(import.meta.filename)} [-y: never ask] [--resume [FILE]] ["a request"]
At the prompt: /context shows what fills the context, /compact [focus] compacts it; Ctrl-C stops a turn, Ctrl-D quits.`;

async function main(): Promise<void> {
  const [y, help] = [{ type: "boolean", short: "y" } as const, { type: "boolean", short: "h" } as const];
  const args = parseArgs({ allowPositionals: true, options: { y, help, resume: { type: "boolean" } } });
  if (args.values.help) return console.log(HELP);
  if (!(THRESHOLD > 0)) throw new Error("CONTEXT_WINDOW and COMPACT_THRESHOLD have to be numbers of tokens");
  const { stdin: input, stdout: output } = process;
  const terminal = input.isTTY && output.isTTY;
  const rl = createInterface({ input, output, terminal, prompt: `${basename(import.meta.filename).slice(0, 3)} >> ` });
  let turn: AbortController | undefined; // while one runs
  let pause = new AbortController();
  const requests: string[] = []; // typed, and not yet carried out
  const lines: string[] = []; // of the next request: those that reach a terminal together, such as a paste
  rl.on("line", async (line) => {
    const count = lines.push(line);
    if (terminal) await sleep(30);
    if (count !== lines.length || rl.line) return; // more has come, or waits for Enter
    requests.push(lines.splice(0).join("\n"));
    rl.emit("request");
  });
  rl.on("SIGINT", () => {
    turn?.abort(new Error("interrupted"));
    pause.abort();
    requests.length = lines.length = 0;
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
  const base = { system: SYSTEM, tools: TOOLS, approve, signal: new AbortController().signal, state: newState() };
  const messages = args.values.resume ? resume(transcriptToResume(args.positionals), base) : [];
  const carryOut = async (request: string) => {
    const [, command, focus] = /^\/(help|context|compact)(?:\s+(.*))?$/s.exec(request.trim()) ?? [];
    if (command === "help") return print(`${HELP}\n`);
    if (command === "context") return print(`${drawContext(messages, base)}\n`);
    turn = new AbortController();
    pause.abort();
    const own = { ...base, signal: turn.signal };
    await (command ? autoCompact(messages, "manual", own, focus) : runTurn(messages, request, own)).catch(report);
    turn = undefined;
    if (!terminal || PAUSE === 0) return;
    pause = new AbortController();
    const redraw = () => turn || rl.prompt(true);
    compactInPause(messages, { ...base, signal: pause.signal }).then(redraw, redraw);
  };
  for (const warning of SKILLS.warnings) print(`${warning}\n`);
  if (SKILLS.skills.size > 0) print(`[skills: ${[...SKILLS.skills.keys()].join(", ")}]\n`);
  if (args.positionals.length > 0) return carryOut(args.positionals.join(" "));
  while (true) {
    if (terminal) rl.prompt(true);
    if (requests.length === 0) await once(rl, "request");
    const request = requests.shift() ?? "";
    if (["q", "exit", "/exit"].includes(request.trim())) process.exit(terminal ? 0 : process.exitCode);
    if (request.trim()) await carryOut(request);
  }
}

const isProgram = process.argv[1] && fs.realpathSync(process.argv[1]) === import.meta.filename;
if (isProgram) main().catch(report).finally(process.exit);
// #endregion
