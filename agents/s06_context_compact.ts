/**
 * s06: context compact
 *
 * Forgetting on purpose, losing nothing: context is short, the disk is not.
 *
 *     the history:       request reply results … reply results | reply results   (after |: not answered yet)
 *     1, microCompact:   request reply [Prev.] … reply results | reply results   (3 answered results stay)
 *     2, autoCompact:    [summary, todo list, files]  request  | reply results
 *     3, compact:        the same as 2, when the model or the user asks for it
 *
 * Same as s05: tools, skills, todo, files, writing, bash
 * New in s06: limits, messages, layer1, layer2, layer3, transcript, recovery, outputs, resume, context
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

const ENV_FILE = join(import.meta.dirname, "../.env"); // not the one in the workspace, which may be untrusted
if (fs.existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const CONTEXT_WINDOW = Number(process.env.CONTEXT_WINDOW || 200_000); // tokens
const MAX_TOKENS = Math.min(32_000, Math.floor(CONTEXT_WINDOW / 4)); // of a reply, thinking included
const RESULT_LIMIT = 1_000_000; // characters of a tool result; a large one goes to disk before the model gets it
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
  const { maxRounds = Number.POSITIVE_INFINITY } = options;
  let roundsWithoutTodo = 0;
  for (let round = 0; round < maxRounds; round++) {
    await compactIfNeeded(messages, options);
    const reply = await callOrCompact(messages, options);
    add(messages, { role: "assistant", content: reply.content }, options, reply);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply; // done: the model has said what it has to say
    const results: Anthropic.ContentBlockParam[] = [];
    for (const call of calls) results.push(await runCall(call, options));
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const hasTodo = options.tools.some((tool) => tool.name === "todo"); // a subagent has none
    if (hasTodo && roundsWithoutTodo > 0 && roundsWithoutTodo % 3 === 0) results.push(REMINDER);
    const message = saveLargeResults({ role: "user", content: results }, options);
    add(messages, message, options); // one result for each call, in one message
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
  state: State; // what is known of the conversation besides its messages
};

const THINKING = { type: "adaptive", display: "summarized" } as const;
const SETTINGS = {
  model: MODEL,
  max_tokens: MAX_TOKENS,
  thinking: process.env.THINKING === "off" ? undefined : THINKING, // some servers do not know it
  cache_control: { type: "ephemeral" } as const, // the next model call pays little for what this one sends
};

/** Sends the whole conversation, each time, since the API remembers nothing. Prints the reply, except a summary. */
async function callModel(messages: Messages, options: TurnOptions, isSummary = false): Promise<Anthropic.Message> {
  const { system, tools, signal, state } = options;
  const began = Date.now();
  const stream = client.messages.stream({ ...SETTINGS, system, tools, messages }, { signal });
  if (!isSummary) {
    stream.on("thinking", (text) => print(text, "dim"));
    stream.on("text", (text) => print(text));
    stream.on("contentBlock", endLine);
  }
  const reply = await stream.finalMessage();
  state.lastCall = began;
  learnTokens(messages, reply.usage, options);
  return checkReply(reply); // throws if it is refused, cut off or empty
}

/** Runs a call. Whatever happens, it gets a result, and the model reads what went wrong. */
async function runCall(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<Anthropic.ToolResultBlockParam> {
  let content: string;
  let is_error = false;
  try {
    options.signal.throwIfAborted(); // after Ctrl-C no call runs
    content = await runTool(call.name, call.input, options);
    touchFile(call, options.state);
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
/** The window minus room for a reply (at most 20,000 tokens) and a reserve of 13,000: what Claude Code leaves free. */
export const autoCompactThreshold = (window: number, output: number) => window - Math.min(output, 20_000) - 13_000;
// In a small window, 40 % of it.
const highest = Math.max(autoCompactThreshold(CONTEXT_WINDOW, MAX_TOKENS), 0.4 * CONTEXT_WINDOW);
export const THRESHOLD = Math.min(Number(process.env.COMPACT_THRESHOLD || highest), highest); // tokens of a prompt
export const COLD = 300; // seconds without a model call, after which the prompt cache has expired
export const COLD_THRESHOLD = Math.min(50_000, THRESHOLD / 2); // tokens of a prompt: the limit when the cache is cold
export const MIN_SAVINGS = 0.4; // of the limit: a rewrite invalidates the prompt cache and all thinking
export const KEEP_RECENT = 3; // tool results
export const PRESERVE_RESULT_TOOLS = ["load_skill"];
export const SUMMARY = Math.min(2_000, THRESHOLD / 10); // tokens, about
export const RECENT_FILES = 5; // files that are put back after a summary
export const FILE_LIMIT = Math.min(5_000, THRESHOLD / 20); // tokens of a file that is put back
export const LARGE_OUTPUT = Math.min(40_000, 0.4 * THRESHOLD); // tokens: the results of a round together

/** Tokens of the prompt that these messages make, by the characters per token of the last reply. */
export function estimateTokens(messages: Messages, { system, tools, state }: TurnOptions): number {
  return Math.ceil(JSON.stringify([system, tools, messages]).length / state.charsPerToken);
}

/** Learns the characters per token from what the API counted. Implausible counts are ignored: some servers report 1. */
function learnTokens(messages: Messages, usage: Anthropic.Usage, { system, tools, state }: TurnOptions): void {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage;
  const tokens = input_tokens + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0);
  const ratio = JSON.stringify([system, tools, messages]).length / tokens;
  if (ratio >= 0.5 && ratio <= 10) state.charsPerToken = ratio;
}

function checkLimits(): void {
  const isLimit = THRESHOLD > 0; // not NaN
  if (!isLimit) throw new Error("CONTEXT_WINDOW and COMPACT_THRESHOLD have to be numbers of tokens");
}

const format = (tokens: number): string => Math.round(tokens).toLocaleString("en-US");
// #endregion

// #region messages
/** A request is a user message whose content is a string. All others are blocks: results, reminders, a summary. */
const isRequest = ({ role, content }: Anthropic.MessageParam) => role === "user" && typeof content === "string";

/**
 * The index of the first message that the model has not answered. A summary, which is first, counts as answered:
 *
 *     0 request  1 reply    2 request                    ──▶ 2: the request
 *     0 summary  1 request  2 reply, call  3 result      ──▶ 2: the call and its result, the open round
 */
function openAt(messages: Messages): number {
  const isSummary = (message: Anthropic.MessageParam, i: number) => i === 0 && !isRequest(message);
  const last = messages.findLastIndex((message, i) => message.role === "assistant" || isSummary(message, i));
  return callsIn(messages[last]).length > 0 ? last : last + 1;
}

function blocksOf(message?: Anthropic.MessageParam): Anthropic.ContentBlockParam[] {
  const content = message?.content ?? [];
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

const callsIn = (message?: Anthropic.MessageParam) => blocksOf(message).filter((block) => block.type === "tool_use");
const resultsIn = (message: Anthropic.MessageParam) =>
  blocksOf(message).filter((block) => block.type === "tool_result");

type Shorten = (result: Anthropic.ToolResultBlockParam) => Anthropic.ToolResultBlockParam;
/** @returns the message with its results changed; the message itself if none is */
function mapResults(message: Anthropic.MessageParam, shorten: Shorten): Anthropic.MessageParam {
  const { role, content } = message;
  if (role !== "user" || typeof content === "string") return message;
  const next = content.map((block) => (block.type === "tool_result" ? shorten(block) : block));
  const isSame = next.every((block, i) => block === content[i]);
  return isSame ? message : { role, content: next };
}
// #endregion

// #region layer1
/** Layer 1. @returns a copy in which every result that the model has answered is one line, except the newest `keep` */
export function microCompact(messages: Messages, keep = KEEP_RECENT): Messages {
  const answered = messages.slice(0, openAt(messages)).flatMap(resultsIn);
  const old = new Set(answered.slice(0, Math.max(0, answered.length - keep)));
  return messages.map((message, i) => {
    const calls = callsIn(messages[i - 1]);
    const shorten = (result: Anthropic.ToolResultBlockParam): Anthropic.ToolResultBlockParam => {
      const name = calls.find((call) => call.id === result.tool_use_id)?.name ?? "";
      const isLong = String(result.content).length > 100;
      const isOld = old.has(result) && isLong && !PRESERVE_RESULT_TOOLS.includes(name);
      return isOld ? { ...result, content: `[Previous: used ${name}]` } : result;
    };
    return mapResults(message, shorten);
  });
}

/** Layer 1, if it saves enough: replaces the history. */
function clearOldResults(messages: Messages, options: TurnOptions, limit: number): void {
  const next = microCompact(messages);
  const saved = estimateTokens(messages, options) - estimateTokens(next, options);
  if (saved < MIN_SAVINGS * limit) return;
  replaceHistory(messages, next, { trigger: "micro" }, options);
  print(`[micro_compact] cleared old tool results (~${format(saved)} tokens)\n`);
}
// #endregion

// #region layer2
export const SUMMARY_PROMPT = `Write a summary of this conversation; the work goes on from it alone. State the goal,
standing instructions, what was done, the current state, decisions and their reasons, files and what matters in each,
skills in use, the next step. Copy paths, names, values and error messages exactly. About ${SUMMARY} tokens; no calls.`;

/** Layer 2, and 3: a summary takes the place of what the model has answered. If that fails, the history stays. */
export async function autoCompact(messages: Messages, trigger: Trigger, options: TurnOptions, focus = "") {
  const { state } = options;
  const answered = messages.slice(0, openAt(messages));
  const hasReply = answered.some(({ role }) => role === "assistant");
  if (!hasReply) return print("[nothing to compact yet]\n");
  print(trigger === "auto" ? "[auto_compact triggered]\n" : "[manual compact]\n");
  let reply: Anthropic.Message;
  try {
    reply = await askForSummary(answered, options, focus);
  } catch (error) {
    options.signal.throwIfAborted();
    if (trigger === "auto") state.failures++; // after three in a row layer 2 waits until the user asks
    return print(`[compaction failed: ${messageOf(error)}]\n`);
  }
  state.failures = 0;
  const summary = textOf(reply);
  const next = compacted(messages, summary, restoreFiles(state), options);
  const { model, usage } = reply;
  replaceHistory(messages, next, { trigger, summary, model, usage }, options);
  if (!state.isUnsaved) print(`[transcript saved: ${nameOf(state)}]\n`);
  print(`context: ~${format(estimateTokens(messages, options))} tokens\n`);
}

/** Sends the answered messages as they were sent before, and one more: so nearly all is read from the prompt cache. */
async function askForSummary(answered: Messages, options: TurnOptions, focus = ""): Promise<Anthropic.Message> {
  const content = focus ? `${SUMMARY_PROMPT}\nAbove all, keep: ${focus}`.toWellFormed() : SUMMARY_PROMPT;
  const reply = await callModel([...answered, { role: "user", content }], options, true);
  options.signal.throwIfAborted(); // it came after Ctrl-C
  const { length } = textOf(reply);
  const isShorter = length > 0 && length < JSON.stringify(answered).length;
  const isUsable = reply.stop_reason === "end_turn" && callsIn(reply).length === 0 && isShorter;
  if (!isUsable) throw new Error(`no usable summary: ${reply.stop_reason}, ${length} characters`);
  return reply;
}

/** The history after a summary: one message with summary, todos and files; the request that is open; the open round. */
function compacted(messages: Messages, summary: string, files: string[], { state, tools }: TurnOptions): Messages {
  const texts = [`[Conversation compressed. Transcript: ${nameOf(state)}]\n\n${summary}`];
  const hasTodo = tools.some((tool) => tool.name === "todo");
  if (hasTodo && TODO.items.length > 0) texts.push(TODO.render());
  texts.push(...files);
  const content = texts.map((text) => ({ type: "text" as const, text: text.toWellFormed() }));
  const open = messages.slice(openAt(messages));
  const isMidTurn = open.length > 0 && !open.some(isRequest); // calls and results, which belong to an earlier request
  const request = isMidTurn ? messages.filter(isRequest).slice(-1) : [];
  return [{ role: "user", content }, ...request, ...open];
}

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
  return texts.filter((text) => text.length <= FILE_LIMIT * charsPerToken);
}

/** Remembers the file of a call that was carried out. */
function touchFile({ name, input }: Anthropic.ToolUseBlock, state: State): void {
  if (!["read_file", "write_file", "edit_file"].includes(name)) return;
  const { path } = z.object({ path: z.string() }).parse(input);
  const file = relative(WORKDIR, safePath(path));
  state.files = [file, ...state.files.filter((other) => other !== file)].slice(0, RECENT_FILES);
}
// #endregion

// #region layer3
const CompactInput = z.object({ focus: z.string().optional().describe("what to keep above all") });
addTool("compact", "Replace the conversation with a summary.", CompactInput, (input, { state }) => {
  state.compactAsked = input; // for the next round: the result has to come right after its call
  return "After this round a summary replaces the conversation.";
});

export const isCold = ({ lastCall }: State) => Date.now() - lastCall > COLD * 1_000;

/** Before each model call. Layer 3 if the model asked for it; past the limit layer 1, then layer 2 if still past it. */
export async function compactIfNeeded(messages: Messages, options: TurnOptions, limit = THRESHOLD): Promise<void> {
  const { state, signal } = options;
  state.limit = limit;
  const asked = state.compactAsked;
  state.compactAsked = undefined;
  signal.throwIfAborted();
  if (asked) await autoCompact(messages, "tool", options, asked.focus); // layer 3
  const isPastLimit = () => estimateTokens(messages, options) > limit;
  const isWorthIt = () => state.failures < 3 && savedBySummary(messages, options) >= MIN_SAVINGS * limit;
  if (!isPastLimit()) return;
  clearOldResults(messages, options, limit); // layer 1
  if (isPastLimit() && isWorthIt()) await autoCompact(messages, "auto", options); // layer 2
}

/** Estimates the tokens that a summary would free. If they are few, the next round would be past the limit again. */
function savedBySummary(messages: Messages, options: TurnOptions): number {
  const { state } = options;
  const next = compacted(messages, "x".repeat(SUMMARY * state.charsPerToken), restoreFiles(state), options);
  return estimateTokens(messages, options) - estimateTokens(next, options);
}
// #endregion

// #region transcript
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts"); // readable by its owner alone

/** What is tracked besides the messages. The transcript will be in `folder`. */
export function newState(folder = TRANSCRIPT_DIR, charsPerToken = 4) {
  return {
    file: join(folder, `transcript_${newTime()}_${process.pid}.jsonl`),
    charsPerToken,
    lastCall: 0, // when the model was called, in ms since 1970
    limit: THRESHOLD, // of the last check, in tokens
    lastText: "", // what the model said last
    files: [] as string[], // touched last, the last one first
    failures: 0, // failed compactions in a row
    compactAsked: undefined as { focus?: string } | undefined, // by the model
    isUnsaved: false, // the last write failed, and the user knows
    written: "", // the files and todos that the transcript has
  };
}
export type State = ReturnType<typeof newState>;

let lastTime = 0;
/** The time in ms, never twice the same: for names. */
function newTime(): number {
  lastTime = Math.max(lastTime + 1, Date.now());
  return lastTime;
}

/** Adds a message to the transcript, before any layer can shorten it, and then to the history. */
export function add(messages: Messages, message: Anthropic.MessageParam, options: TurnOptions, reply?: About): void {
  record({ ...message, model: reply?.model, usage: reply?.usage }, messages, options);
  messages.push(message);
  if (message.role === "assistant") options.state.lastText = textOf(message) || options.state.lastText;
}
type About = { model: string; usage: Anthropic.Usage }; // of a reply

type Trigger = "auto" | "tool" | "manual" | "micro" | "reactive" | "refused" | "rejected" | "resume";
type Rewrite = { trigger: Trigger; summary?: string } & Partial<About>;

/** Replaces the history, and tells the transcript first. Thinking that is no longer valid becomes text. */
function replaceHistory(messages: Messages, history: Messages, rewrite: Rewrite, options: TurnOptions): void {
  const isPrefix = history.every((message, i) => message === messages[i]); // then its thinking is still valid
  const next = isPrefix ? history : history.map(withoutThinking);
  const firstKept = history.findLastIndex((message) => !messages.includes(message)) + 1;
  const results = messages.flatMap(resultsIn);
  const shortened = history.flatMap(resultsIn).filter((result) => results.length > 0 && !results.includes(result));
  const entry = {
    type: "compaction",
    ...rewrite,
    limit: options.state.limit,
    before: estimateTokens(messages, options),
    after: estimateTokens(next, options),
    kept: history.length - firstKept,
    cleared: shortened.map((result) => result.tool_use_id),
    messages: next,
  };
  record(entry, messages, options);
  messages.splice(0, messages.length, ...next);
}

/** Thinking is only valid after the exact history it was written for. Once that changes, its words stay as text. */
export function withoutThinking(message: Anthropic.MessageParam): Anthropic.MessageParam {
  if (message.role !== "assistant") return message;
  return { role: "assistant", content: blocksOf(message).flatMap(thinkingAsText) };
}

function thinkingAsText(block: Anthropic.ContentBlockParam): Anthropic.ContentBlockParam[] {
  if (block.type === "redacted_thinking") return [];
  if (block.type !== "thinking") return [block];
  return block.thinking.trim() === "" ? [] : [{ type: "text", text: block.thinking }];
}

/** Writes a line to the transcript. If that is gone, or was not writable, a new one begins with the whole history. */
function record(entry: object, messages: Messages, options: TurnOptions): void {
  const { state } = options;
  const isGone = messages.length > 0 && !fs.existsSync(state.file);
  if (isGone && !state.isUnsaved) print("[the transcript is gone; a new one begins with the whole history]\n");
  const lines = [lineFor(entry, options, isGone)];
  if (isGone) lines.unshift(lineFor({ type: "compaction", trigger: "resume", messages }, options, true));
  try {
    append(state.file, lines.join(""));
    state.isUnsaved = false;
  } catch (error) {
    if (!state.isUnsaved) print(`[not saved: ${messageOf(error)}; the conversation goes on]\n`);
    state.isUnsaved = true;
    state.file = newState(dirname(state.file)).file; // the old one may end in half a line
  }
}

/** A line of the transcript. Files and todos are in it if they have changed, or if a history begins. */
function lineFor(entry: object, { state, tools }: TurnOptions, isBeginning: boolean): string {
  const hasTodo = tools.some((tool) => tool.name === "todo"); // a subagent has none
  const rest = { files: state.files, todos: hasTodo ? TODO.items : [] };
  const isNew = isBeginning || "messages" in entry || JSON.stringify(rest) !== state.written;
  state.written = JSON.stringify(rest);
  return `${JSON.stringify({ ...entry, time: Date.now(), charsPerToken: state.charsPerToken, ...(isNew && rest) })}\n`;
}

/** Appends to a file in TRANSCRIPT_DIR. @throws if it can't; then no part of a new file is left behind */
function append(file: string, text: string): void {
  const isNew = !fs.existsSync(file);
  if (safePath(file) !== file) throw new Error(`${relative(WORKDIR, file)} is, or is in, a link`);
  fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const ignore = join(TRANSCRIPT_DIR, ".gitignore");
  const hasIgnore = fs.lstatSync(ignore, { throwIfNoEntry: false }) !== undefined;
  try {
    if (!hasIgnore) fs.writeFileSync(ignore, "*\n", { mode: 0o600, flag: "wx" });
    fs.appendFileSync(file, text, { mode: 0o600 });
  } catch (error) {
    if (isNew) fs.rmSync(file, { force: true });
    throw error;
  }
}

/** The transcript as it is named to the user and the model. */
const nameOf = ({ file }: State) => (fs.existsSync(file) ? relative(WORKDIR, file) : "(not written)");
// #endregion

// #region skills
const SkillHead = z.object({
  name: z.string().regex(/^[\w-]{1,64}$/),
  description: z.string().trim().min(1).max(1_024),
});
const SKILLS_LIMIT = 20_000; // characters of all descriptions together, which every prompt holds

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
    this.skills.set(name, { file, description: description.replace(/\s+/g, " ").toWellFormed() });
    if (this.descriptions().length <= SKILLS_LIMIT) return;
    this.skills.delete(name);
    throw new Error(`the descriptions of all skills together would be above ${SKILLS_LIMIT} characters`);
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
  for (const warning of SKILLS.warnings.slice(0, 10)) print(`${warning}\n`);
  if (SKILLS.warnings.length > 10) print(`[${SKILLS.warnings.length - 10} more skills left out]\n`);
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
    await runTurn([], prompt, { ...options, system: CHILD_SYSTEM, tools, maxRounds: 30, state });
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
Plan work of several steps with todo; mark an item in_progress when you begin it and completed when it is done.
Use a subagent (task) for work that needs lots of reading and has a short answer.
When a skill fits the work, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact. What was cleared is in .transcripts/.`;
// #endregion

// #region turn
/** Carries out a request. Whatever goes wrong, `messages` stays what the API accepts. @throws what went wrong */
export async function runTurn(messages: Messages, request: string, options: TurnOptions): Promise<void> {
  const before = [...messages];
  const isCacheCold = isCold(options.state);
  add(messages, { role: "user", content: request.toWellFormed() }, options); // the API rejects half an emoji
  try {
    if (isCacheCold) await compactIfNeeded(messages, options, COLD_THRESHOLD);
    await agentLoop(messages, options);
  } catch (error) {
    dropRejected(messages, before, error, options); // all else that was done stays: each call has its result
    throw error;
  }
}
// #endregion

// That is the agent. What follows keeps it alive, and can wait for a second reading.

// #region reply
class Refusal extends Error {} // by the model
const isRejected = (error: unknown) => error instanceof Anthropic.APIError && [400, 413].includes(error.status ?? 0);

/** Takes out what would fail again: a turn that the model refused, or a step that the API rejected. */
function dropRejected(messages: Messages, before: Messages, error: unknown, options: TurnOptions): void {
  if (error instanceof Refusal) replaceHistory(messages, before, { trigger: "refused" }, options);
  if (!isRejected(error) && !isTooLong(error)) return;
  replaceHistory(messages, messages.slice(0, openAt(messages)), { trigger: "rejected" }, options);
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

// #region recovery
class WindowFull extends Error {}
/** Whether the prompt, or the reply to it, has no room in the window, so that a shorter one can help. */
function isTooLong(error: unknown): boolean {
  if (!(error instanceof Anthropic.APIError)) return error instanceof WindowFull;
  const [, output, window] = /\+ (\d+) > (\d+)/.exec(error.message) ?? []; // max_tokens alone can be too much
  if (Number(output) >= Number(window)) return false;
  return /^413|^400.*(too long|context (limit|length|size|window))/s.test(error.message); // a 504 "took too long"
}

/** Calls the model. If the prompt is too long, the estimate was wrong: forgets more and more, and tries again. */
async function callOrCompact(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  for (const forget of [clearAll, summarizeAll]) {
    try {
      return await callModel(messages, options);
    } catch (error) {
      if (!isTooLong(error)) throw error;
    }
    await forget(messages, options);
  }
  return callModel(messages, options);
}

/** Layer 1 for all results; those of the open round go to disk. */
async function clearAll(messages: Messages, options: TurnOptions): Promise<void> {
  print("[micro_compact] the prompt is too long: all tool results are cleared or saved\n");
  const open = openAt(messages);
  const cleared = microCompact(messages, 0);
  const next = cleared.map((message, i) => (i < open ? message : saveLargeResults(message, options, 0)));
  replaceHistory(messages, next, { trigger: "micro" }, options);
}

/** Layer 2, without files. If no summary can be made, a line that names the transcript takes its place. */
async function summarizeAll(messages: Messages, options: TurnOptions): Promise<void> {
  const answered = messages.slice(0, openAt(messages));
  if (answered.length === 0) return;
  print("[auto_compact triggered]\n");
  let reply: Anthropic.Message | undefined;
  try {
    reply = await askForSummary(answered, options);
  } catch (error) {
    options.signal.throwIfAborted();
    const mayPass = error instanceof Anthropic.AnthropicError && !isRejected(error); // overloaded, or no connection
    if (mayPass) throw error;
  }
  if (reply) options.state.failures = 0;
  const summary = reply ? textOf(reply) : "(No summary could be made. The transcript has it all.)";
  const next = compacted(messages, summary, [], options);
  replaceHistory(messages, next, { trigger: "reactive", summary, model: reply?.model, usage: reply?.usage }, options);
}
// #endregion

// #region outputs
const SAVED_TO = "Output too large. Saved to: "; // the model gets this, the path and a preview
const SINGLE_OUTPUT = 50_000; // characters of one result
const PREVIEW = 2_000; // characters of a result that stay in the history

/** Moves results to disk, the longest first, until all together are below `limit` tokens. @returns what stays */
function saveLargeResults(message: Anthropic.MessageParam, { state }: TurnOptions, limit = LARGE_OUTPUT) {
  const sizeOf = (result: Anthropic.ToolResultBlockParam) => String(result.content).length;
  const longestFirst = resultsIn(message).sort((a, b) => sizeOf(b) - sizeOf(a));
  let total = longestFirst.reduce((sum, result) => sum + sizeOf(result), 0);
  const large: Anthropic.ToolResultBlockParam[] = [];
  for (const result of longestFirst) {
    const isPastLimit = total > limit * state.charsPerToken || sizeOf(result) > SINGLE_OUTPUT;
    if (!isPastLimit || sizeOf(result) <= 1.2 * PREVIEW) break; // the others are shorter
    large.push(result);
    total -= sizeOf(result) - PREVIEW;
  }
  return mapResults(message, (result) => (large.includes(result) ? saveResult(result) : result));
}

function saveResult(result: Anthropic.ToolResultBlockParam): Anthropic.ToolResultBlockParam {
  const text = String(result.content);
  const file = join(TRANSCRIPT_DIR, "outputs", `${newTime()}_${basename(result.tool_use_id)}.txt`);
  try {
    append(file, text);
    const content = `${SAVED_TO}${relative(WORKDIR, file)}\n${cutMiddle(text, PREVIEW)}`;
    return { ...result, content: content.toWellFormed() };
  } catch (error) {
    print(`[a large result is cut and not saved: ${messageOf(error)}]\n`);
    return { ...result, content: cutMiddle(text, SINGLE_OUTPUT).toWellFormed() };
  }
}
// #endregion

// #region resume
const isBlock = (value: unknown) => z.looseObject({ type: z.string() }).safeParse(value).success;
const Block = z.custom<Anthropic.ContentBlockParam>(isBlock);
const Message = z.object({ role: z.enum(["user", "assistant"]), content: z.union([z.string(), z.array(Block)]) });
const Compaction = z.object({ type: z.literal("compaction"), messages: z.array(Message) });
const Rest = z.object({ charsPerToken: z.number().min(0.5).max(10), files: z.array(z.string()), todos: TodoItems });
const Line = z.intersection(z.union([Compaction, Message]), Rest.partial());

/** Continues a transcript in a new one. @returns the history as it was, with a result for each call that has none */
export function resume(file: string, options: TurnOptions): Messages {
  const { state } = options;
  const lines = readTranscript(file);
  const history = historyIn(lines);
  if (history.length === 0) throw new Error(`--resume: ${file} contains no messages; name another file`);
  for (const { charsPerToken, files, todos } of lines) {
    state.charsPerToken = charsPerToken ?? state.charsPerToken;
    state.files = files ?? state.files;
    TODO.items = todos ?? TODO.items;
  }
  const lost = { type: "tool_result" as const, content: "(interrupted; it may have run)", is_error: true };
  const results = callsIn(history.at(-1)).map(({ id }) => ({ ...lost, tool_use_id: id }));
  if (results.length > 0) history.push({ role: "user", content: results });
  const messages: Messages = [];
  replaceHistory(messages, history, { trigger: "resume" }, options);
  print(`[resumed ${relative(WORKDIR, file)}: ~${format(estimateTokens(messages, options))} tokens. `);
  print(`The last request was: ${fitToScreen(lastRequest(messages))}]\n`);
  return messages;
}

/** The history that a transcript ends with: that of its last rewrite, and the messages after it. */
function historyIn(lines: z.output<typeof Line>[]): Messages {
  let history: Messages = [];
  for (const line of lines) {
    if ("messages" in line) history = [...line.messages];
    else history.push({ role: line.role, content: line.content });
  }
  return history;
}

/** The lines of a transcript, without a last one that kill -9 has cut off. @throws what is wrong with another */
function readTranscript(file: string): z.output<typeof Line>[] {
  const isFile = fs.existsSync(file) && fs.statSync(safePath(file)).isFile();
  if (!isFile) throw new Error(`--resume: there is no transcript ${file}, or it is a folder or a device`);
  const lines = fs.readFileSync(safePath(file), "utf8").split("\n").slice(0, -1);
  return lines.map((text, i) => {
    try {
      return Line.parse(JSON.parse(text));
    } catch {
      throw new Error(`--resume: line ${i + 1} of ${file} is broken; delete that line, or name another file`);
    }
  });
}

/** The text of the last request. Transcripts of earlier versions have requests in blocks, too. */
function lastRequest(messages: Messages): string {
  const isOurs = (message: Anthropic.MessageParam) => message.role === "user" && resultsIn(message).length === 0;
  const request = messages.findLast((message, i) => (i === 0 ? isRequest(message) : isOurs(message)));
  return request ? textOf(request) : "(in the summary)";
}

/** Which transcript to go on with: `named`, or else the one written last, of those that hold a message. */
function transcriptToResume(named: string | undefined): string {
  if (named !== undefined) return named;
  const names = fs.existsSync(TRANSCRIPT_DIR) ? fs.readdirSync(TRANSCRIPT_DIR) : [];
  const files = names.filter((name) => /^transcript_.*\.jsonl$/.test(name)).map((name) => join(TRANSCRIPT_DIR, name));
  const timeOf = (file: string) => fs.lstatSync(file).mtimeMs;
  const newestFirst = files.sort((a, b) => timeOf(b) - timeOf(a));
  const newest = newestFirst.find((file) => historyIn(readTranscript(file)).length > 0);
  if (newest === undefined) throw new Error("--resume: there is no transcript in .transcripts/");
  return newest;
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
  if (isRejected(error) || isTooLong(error)) text += `; ${TAKEN_OUT}`;
  if (/exceed context/.test(text)) text += "; set CONTEXT_WINDOW to the tokens of your server's window";
  print(`\n[${text}]\n`);
  process.exitCode = 1;
}
// #endregion

// #region context
/** What fills the context, kind by kind, and the limits. */
export function drawContext(messages: Messages, options: TurnOptions): string {
  const { system, tools, state } = options;
  const sizes = new Map([["system and tools", JSON.stringify([system, tools]).length]]);
  for (const [i, message] of messages.entries()) {
    for (const block of blocksOf(message)) {
      const kind = kindOf(block, message, messages[i - 1]);
      sizes.set(kind, (sizes.get(kind) ?? 0) + JSON.stringify(block).length);
    }
  }
  const total = estimateTokens(messages, options);
  const lines = [...sizes].map(([kind, size]) => {
    const tokens = size / state.charsPerToken;
    return `${kind.padEnd(26)} ${"█".repeat(Math.ceil((30 * tokens) / total))} ${format(tokens)}`;
  });
  const limits = `limit ${format(THRESHOLD)}, ${format(COLD_THRESHOLD)} when the prompt cache is cold`;
  return [...lines, `context: ~${format(total)} tokens; ${limits}`].join("\n");
}

function kindOf(block: Anthropic.ContentBlockParam, message: Anthropic.MessageParam, before?: Anthropic.MessageParam) {
  if (message.role === "assistant") return "replies";
  if (isRequest(message)) return "requests";
  if (block.type !== "tool_result") return "summary, files, reminders";
  const call = callsIn(before).find(({ id }) => id === block.tool_use_id);
  return `results of ${call?.name}`;
}
// #endregion

// #region main
const PROGRAM = basename(import.meta.filename);
const USAGE = `usage: npx tsx agents/${PROGRAM} [-y: never ask] [--resume [FILE.jsonl]] ["a request"]`;

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

/** Carries out a request of the user, or a command that begins with / */
async function obey(request: string, messages: Messages, options: TurnOptions): Promise<void> {
  const [command, ...focus] = request.trim().split(" ");
  if (command === "/context") return print(`${drawContext(messages, options)}\n`);
  if (command === "/compact") return autoCompact(messages, "manual", options, focus.join(" "));
  return runTurn(messages, request, options);
}

/** @returns the file that --resume names, which is then no request any more */
function takeTranscript(words: string[]): string | undefined {
  const [first = ""] = words;
  const isNamed = first.endsWith(".jsonl") && (fs.existsSync(first) || !/\s/.test(first));
  return isNamed ? words.shift() : undefined;
}

async function main(): Promise<void> {
  const flags = { y: { type: "boolean", short: "y" }, resume: { type: "boolean" } } as const;
  const args = parseArgs({ allowPositionals: true, options: flags });
  checkLimits();
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

  const { signal } = new AbortController();
  const base = { system: SYSTEM, tools: TOOLS, approve, signal, state: newState() };
  const messages = args.values.resume ? resume(transcriptToResume(takeTranscript(args.positionals)), base) : [];
  const carryOut = async (request: string) => {
    turn = new AbortController();
    process.exitCode = 0; // report makes it 1
    await obey(request, messages, { ...base, signal: turn.signal }).catch(report);
    turn = undefined;
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
