/**
 * s06: context compact
 *
 * Forgetting on purpose, losing nothing: context is short, the disk is not.
 *
 *     prompt past the limit?            layer 1  microCompact  old tool results become one line each
 *     still past it? the user is away?  layer 2  autoCompact   a summary replaces the history
 *     `compact` called, /compact typed  layer 3  autoCompact   the same, on request
 *     every message is in .transcripts/ before any layer can shorten it
 *
 * Same as s05: dispatch, skills, todo, files, bash
 * New in s06: limits, compact, transcript
 * Changed from s05: setup, loop, subagent, system, terminal
 * Run: npx tsx agents/s06_context_compact.ts
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
import { parse as parseYaml } from "yaml";
import { z } from "zod";

if (fs.existsSync(".env")) process.loadEnvFile();
const client = new Anthropic({ logLevel: "off" }); // finds the key itself
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
const Tokens = z.coerce.number().positive();
const CONTEXT_WINDOW = check("CONTEXT_WINDOW", Tokens, process.env.CONTEXT_WINDOW || 200_000);
const MAX_TOKENS = Math.min(32_000, Math.floor(CONTEXT_WINDOW / 2)); // of a reply, thinking included
const THINKING = process.env.THINKING === "off" ? undefined : ({ type: "adaptive", display: "summarized" } as const);
const RESULT_LIMIT = 1_000_000; // characters of a tool result; a long one goes to disk before it reaches the model
export const WORKDIR = fs.realpathSync(process.cwd());
// #endregion

// #region loop
export type Messages = Anthropic.MessageParam[];
export type Tools = Anthropic.Tool[];
export type Approve = (question: string) => Promise<void>;
/** What a turn needs besides its messages. `approve` throws if the user says no; Ctrl-C aborts `signal`. */
export type TurnOptions = { system: string; tools: Tools; approve: Approve; signal: AbortSignal } & MoreOptions;
type MoreOptions = { maxRounds?: number; transcript: Transcript; request?: Anthropic.MessageParam };

/**
 * Runs one turn: the request at the end of `messages`, which grows in place. The API accepts it however the turn ends.
 * @throws if the turn doesn't complete: interruption, refusal, cut-off or empty reply, error of the API
 */
export async function agentLoop(messages: Messages, turn: TurnOptions): Promise<void> {
  const options = { ...turn, request: messages.at(-1) }; // a compaction keeps it
  const before = messages.slice(0, -1); // to go back to if the model refuses
  let accepted = before; // to go back to if the API rejects what came since
  let roundsWithoutTodo = 0;
  for (let round = 0; ; round++) {
    options.signal.throwIfAborted();
    if (round === options.maxRounds) throw new Error(`out of rounds: ${round} were allowed`);
    await compactIfNeeded(messages, options);
    const reply = await callOrCompact(messages, options).catch((error) => {
      options.signal.throwIfAborted();
      // Go back: a history that is rejected once would be rejected every time.
      if (error.status === 400 || error.status === 413) rewrite(messages, accepted, "rejected", options);
      throw error;
    });
    accepted = [...messages];
    countTokens(messages, reply.usage, options);
    if (reply.stop_reason === "refusal") {
      rewrite(messages, before, "refused", options); // if it stayed, it would be refused again
      throw new Error("the model refused; your request was taken out of the conversation");
    }
    const content = withoutBlanks(reply.content);
    if (content.length > 0) add(messages, { role: "assistant", content }, options);

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
    saveLargeResults(results, LARGE_OUTPUT * options.transcript.charsPerToken);
    add(messages, { role: "user", content: results }, options);
  }
}

/** Sends the conversation to the model and prints the reply as it arrives, unless it is a summary. */
async function callModel(messages: Messages, { system, tools, signal }: TurnOptions, isSummary = false) {
  const cache_control = { type: "ephemeral" } as const;
  const request = { model: MODEL, max_tokens: MAX_TOKENS, thinking: THINKING, cache_control, system, tools, messages };
  const stream = client.messages.stream(request, { signal });
  if (isSummary) return stream.finalMessage();
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

// #region limits
/** A window minus room for a reply and a reserve of 13,000 tokens. */
export const autoCompactThreshold = (window: number, output: number) => window - Math.min(output, 20_000) - 13_000;
const WINDOW_THRESHOLD = Math.max(autoCompactThreshold(CONTEXT_WINDOW, MAX_TOKENS), 0.4 * CONTEXT_WINDOW);
const { COMPACT_THRESHOLD } = process.env;
// In tokens unless noted. The first is for a call that begins a turn, the second for all others.
export const THRESHOLD = Math.min(check("COMPACT_THRESHOLD", Tokens, COMPACT_THRESHOLD || 50_000), WINDOW_THRESHOLD);
export const TURN_THRESHOLD = COMPACT_THRESHOLD ? THRESHOLD : WINDOW_THRESHOLD;
export const MIN_SAVINGS = 0.4; // of the limit: a rewrite costs the prompt cache and all thinking
export const PAUSE: number = 240; // seconds after a reply: the cache expires 300 after the request; 0 turns pauses off
export const PAUSE_THRESHOLD = Math.min(25_000, THRESHOLD);
export const KEEP_RECENT = 3; // tool results
export const PRESERVE_RESULT_TOOLS = ["load_skill"];
export const SUMMARY = Math.min(2_000, THRESHOLD / 10);
export const RESTORED = { files: 3, each: 0.1 * THRESHOLD };
export const LARGE_OUTPUT = Math.min(40_000, 0.4 * THRESHOLD); // the results of a round together
const PREVIEW = 2_000; // characters of a result that is on disk
// #endregion

// #region compact
/** Before each call: compacts if the model asked. Past the limit: layer 1, then layer 2 if that wasn't enough. */
async function compactIfNeeded(messages: Messages, options: TurnOptions): Promise<void> {
  const { compactAsked, charsPerToken, failures } = options.transcript;
  options.transcript.compactAsked = undefined;
  if (compactAsked) await autoCompact(messages, { ...options, ...compactAsked, trigger: "tool" });
  const limit = messages.at(-1) === options.request ? THRESHOLD : TURN_THRESHOLD;
  if (estimateTokens(messages, options) <= limit) return;
  const { cleared, saved } = microCompact(messages, MIN_SAVINGS * limit, charsPerToken);
  if (cleared) print(`[micro_compact] cleared ${cleared} old tool results (~${format(saved)} tokens)\n`);
  if (estimateTokens(messages, options) <= limit || failures >= 3) return;
  await autoCompact(messages, { ...options, trigger: "auto", limit });
}

/** Calls the model. If the prompt is too long, the estimate was wrong: tries again after each remedy that helped. */
async function callOrCompact(messages: Messages, options: TurnOptions): Promise<Anthropic.Message> {
  const remedies = [
    () => microCompact(messages),
    () => saveLargeResults(blocksOf(messages.at(-1)), 0),
    () => autoCompact(messages, { ...options, trigger: "reactive" }),
  ];
  let size = Number.POSITIVE_INFINITY;
  for (const remedy of remedies) {
    const reply = chars(messages) < size && (await callIfFits(messages, options));
    if (reply) return reply;
    size = chars(messages);
    await remedy();
  }
  return callModel(messages, options);
}

/** @returns the reply, or nothing if the prompt is too long for the model */
async function callIfFits(messages: Messages, options: TurnOptions, isSummary = false) {
  const reply = await callModel(messages, options, isSummary).catch((error) => {
    const isTooLong = error.status === 400 && /too long|context (limit|length|window)/.test(error.message);
    if (!isTooLong && error.status !== 413) throw error;
  });
  return reply?.stop_reason === "model_context_window_exceeded" ? undefined : reply;
}

const focus = z.object({ focus: z.string().optional().describe("what to keep above all") });
addTool("compact", "Replace the conversation with a summary.", focus, (input, { transcript }) => {
  transcript.compactAsked = input;
  return "After this round a summary replaces the conversation, if it is long enough.";
});

/** Layer 1, in place: each result that the model has answered becomes one line, except the newest KEEP_RECENT. */
export function microCompact(messages: Messages, minSavings = 0, charsPerToken = 4) {
  const calls = messages.flatMap(blocksOf).filter((block) => block.type === "tool_use");
  const names = new Map(calls.map(({ id, name }) => [id, name]));
  const lastReply = messages.findLastIndex((message) => message.role === "assistant");
  const answered = messages.slice(0, Math.max(0, lastReply)).flatMap(blocksOf);
  const results = answered.filter((block) => block.type === "tool_result");
  const old = results.slice(0, Math.max(0, results.length - KEEP_RECENT)).flatMap((result) => {
    const name = names.get(result.tool_use_id) ?? "";
    const text = String(result.content);
    const [place = ""] = /^Output too large\. Saved to: .*$/m.exec(text) ?? [];
    const line = `[Previous: used ${name}]\n${place}`.trim();
    const isShort = text.length <= Math.max(100, line.length);
    return isShort || PRESERVE_RESULT_TOOLS.includes(name) ? [] : [{ result, line, size: text.length }];
  });
  const saved = Math.round(old.reduce((sum, { line, size }) => sum + size - line.length, 0) / charsPerToken);
  if (old.length === 0 || saved < minSavings) return { cleared: 0, saved: 0 };
  for (const { result, line } of old) result.content = line;
  stripThinking(messages);
  return { cleared: old.length, saved };
}

/** A thinking block is only valid after the exact history it was written for. What it says stays as text. */
export function stripThinking(messages: Messages): void {
  for (const message of messages.filter(({ role }) => role === "assistant")) {
    message.content = blocksOf(message).flatMap((block): Anthropic.ContentBlockParam[] => {
      if (block.type === "thinking") return block.thinking.trim() ? [{ type: "text", text: block.thinking }] : [];
      return block.type === "redacted_thinking" ? [] : [block];
    });
  }
}

type Compaction = TurnOptions & { trigger: "auto" | "tool" | "manual" | "reactive"; focus?: string; limit?: number };

const SUMMARY_PROMPT = `Write a summary of this conversation; the work goes on from it alone. State the goal, standing
instructions, what was done, the current state, decisions and their reasons, files and what matters in each, skills in
use, the next step. Copy paths, names, values and error messages exactly. About ${SUMMARY} tokens; no tool calls.`;

/**
 * Layers 2 and 3, in place: the history becomes a summary, the todo list, some files, the request if its turn is open,
 * and what the model has not answered. @returns whether it did @throws if it was interrupted
 */
export async function autoCompact(messages: Messages, options: Compaction): Promise<boolean> {
  const { trigger, request, limit = 0, transcript } = options;
  const lastReply = messages.findLastIndex((message) => message.role === "assistant");
  const isOpen = blocksOf(messages[lastReply]).some((block) => block.type === "tool_use");
  const tail = messages.slice(isOpen ? lastReply : lastReply + 1); // keeps calls and results together
  const head = messages.filter((message) => message !== request && !tail.includes(message));
  const freed = chars(head) / transcript.charsPerToken - SUMMARY;
  const isTooLittle = head.length < (trigger === "reactive" ? 1 : 2);
  if (isTooLittle && trigger !== "auto") print("[nothing to compact yet]\n");
  if (isTooLittle || (trigger === "auto" && freed < MIN_SAVINGS * limit)) return false;
  print(trigger === "auto" || trigger === "reactive" ? "[auto_compact triggered]\n" : "[manual compact]\n");
  const summary = await summarize(messages, tail, options).catch((error) => {
    options.signal.throwIfAborted();
    transcript.failures++; // after three in a row, only the user or the model starts one
    print(`[compaction failed: ${explain(error)}]\n`);
  });
  if (!summary) return false;
  transcript.failures = 0;
  const file = transcript.file ? relative(WORKDIR, transcript.file) : "(not written)";
  const texts = [`[Conversation compressed. Transcript: ${file}]\n\n${summary}`];
  if (TODO.items.length > 0 && options.tools.some((tool) => tool.name === "todo")) texts.push(TODO.render());
  texts.push(...restoreFiles(head, transcript.charsPerToken));
  const content = texts.map((text) => ({ type: "text" as const, text: text.toWellFormed() }));
  const open = request && !tail.includes(request) ? [request] : [];
  rewrite(messages, [{ role: "user", content }, ...open, ...tail], trigger, options);
  print(`[transcript saved: ${file}]\ncontext: ~${format(estimateTokens(messages, options))} tokens\n`);
  return true;
}

/** Compacts while the user is away and the prompt cache is still warm. @returns a function that ends the wait */
export function compactInPause(messages: Messages, options: TurnOptions, redraw: () => void): () => Promise<void> {
  const end = new AbortController();
  let work: Promise<unknown> | undefined;
  const timer = setTimeout(() => {
    if (options.transcript.failures >= 3 || estimateTokens(messages, options) <= PAUSE_THRESHOLD) return;
    print("\n");
    work = autoCompact(messages, { ...options, signal: end.signal, trigger: "auto" }).then(redraw, redraw);
  }, PAUSE * 1_000);
  return async () => {
    clearTimeout(timer);
    end.abort();
    await work;
  };
}

/** Asks for a summary: first with the whole prompt, which is cached; if that is too long, with less of it. */
async function summarize(messages: Messages, tail: Messages, options: Compaction): Promise<string> {
  const focus = options.focus ? `\nAbove all, keep: ${options.focus}` : "";
  const question = { role: "user" as const, content: (SUMMARY_PROMPT + focus).toWellFormed() };
  const seen = messages.slice(0, messages.length - tail.length); // the API has accepted this much
  const cleared = structuredClone(seen);
  microCompact(cleared);
  for (const history of [messages, seen, cleared]) {
    const reply = await callIfFits([...history, question], options, true);
    if (!reply) continue;
    const summary = textOf(reply).trim();
    const calls = reply.content.some((block) => block.type === "tool_use");
    if (reply.stop_reason === "end_turn" && !calls && summary && summary.length < chars(seen)) return summary;
    if (options.trigger !== "reactive") throw new Error(`no usable summary (${reply.stop_reason})`);
  }
  if (options.trigger !== "reactive") throw new Error("the prompt is too long for a summary");
  return "(No summary: the conversation was too long for one. Look up what you need in the transcript.)";
}

/** The files touched last: the lines that were read of each, as they are on disk now. */
function restoreFiles(head: Messages, charsPerToken: number): string[] {
  const ranges = new Map<string, { offset?: number; limit?: number }>();
  for (const block of head.flatMap(blocksOf)) {
    if (block.type !== "tool_use" || !/^(read|write|edit)_file$/.test(block.name)) continue;
    const { path, offset, limit } = Object(block.input);
    const range = block.name === "read_file" ? { offset, limit } : ranges.get(path);
    ranges.delete(path);
    ranges.set(path, range ?? {}); // the newest goes last
  }
  const texts: string[] = [];
  for (const [path, { offset = 1, limit }] of [...ranges].reverse()) {
    try {
      texts.push(`<file path="${path}" offset="${offset}">\n${runRead(path, offset, limit)}\n</file>`);
    } catch {} // it is gone
  }
  return texts.filter((text) => text.length <= RESTORED.each * charsPerToken).slice(0, RESTORED.files);
}
// #endregion

// #region transcript
const chars = (value: unknown): number => JSON.stringify(value).length;
const format = (tokens: number): string => Math.round(tokens).toLocaleString("en-US");

/** Tokens of the prompt that these messages make, by the characters per token of the last reply. */
export function estimateTokens(messages: Messages, { system, tools, transcript }: TurnOptions): number {
  return Math.ceil(chars([system, tools, messages]) / transcript.charsPerToken);
}

/** Updates the characters per token by what the API counted, unless it is absurd: some servers report 1, or none. */
function countTokens(messages: Messages, usage: Anthropic.Usage, { system, tools, transcript }: TurnOptions): void {
  const { input_tokens, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
  const ratio = chars([system, tools, messages]) / (input_tokens + (read ?? 0) + (written ?? 0));
  if (ratio >= 0.5 && ratio <= 10) transcript.charsPerToken = ratio;
}

function blocksOf(message?: Anthropic.MessageParam): Anthropic.ContentBlockParam[] {
  const content = message?.content ?? [];
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** Where every message is kept, readable by its owner alone. */
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts");
/** A conversation's file, characters per token, failed compactions in a row, and one the model asked for. */
export type Transcript = { file: string; charsPerToken: number; failures: number; compactAsked?: { focus?: string } };

let newest = 0;
export function newTranscript(folder = TRANSCRIPT_DIR, charsPerToken = 4): Transcript {
  newest = Math.max(newest + 1, Date.now()); // never two in one millisecond
  return { file: join(folder, `transcript_${newest}_${process.pid}.jsonl`), charsPerToken, failures: 0 };
}

/** Adds a message to the history, and to the transcript before any layer can shorten it. */
export function add(messages: Messages, message: Anthropic.MessageParam, { transcript }: TurnOptions): void {
  messages.push(message);
  record(message, transcript);
}

/** Replaces the history in place, and tells the transcript. */
function rewrite(messages: Messages, history: Messages, trigger: string, options: TurnOptions): void {
  const before = estimateTokens(messages, options);
  messages.splice(0, messages.length, ...history);
  stripThinking(messages);
  const after = estimateTokens(messages, options);
  record({ type: "compaction", trigger, before, after, messages }, options.transcript);
}

function record(entry: object, transcript: Transcript): void {
  const { file, charsPerToken } = transcript;
  const line = JSON.stringify({ ...entry, time: Date.now(), charsPerToken, todos: TODO.items });
  if (file && !save(file, `${line}\n`)) transcript.file = ""; // its last line may be torn: append nothing more
}

/** Appends to a file in TRANSCRIPT_DIR. @returns whether it could; if not, the user is told */
function save(file: string, text: string): boolean {
  try {
    fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    fs.writeFileSync(join(TRANSCRIPT_DIR, ".gitignore"), "*\n", { mode: 0o600 });
    fs.appendFileSync(file, text, { mode: 0o600 });
    return true;
  } catch (error) {
    print(`[not saved: ${explain(error)}; the conversation goes on]\n`);
    return false;
  }
}

/** Moves results to disk, the longest first, until they total at most `limit` characters, and none more than 50,000. */
function saveLargeResults(blocks: Anthropic.ContentBlockParam[], limit: number): void {
  const results = blocks.filter((block) => block.type === "tool_result");
  const size = (result: Anthropic.ToolResultBlockParam) => String(result.content).length;
  for (const result of results.toSorted((a, b) => size(b) - size(a))) {
    const total = results.reduce((sum, each) => sum + size(each), 0);
    if (size(result) <= 1.2 * PREVIEW || (total <= limit && size(result) <= 50_000)) return;
    const text = String(result.content);
    const file = join(TRANSCRIPT_DIR, "outputs", `${basename(result.tool_use_id)}.txt`);
    const place = save(file, text) ? `Saved to: ${relative(WORKDIR, file)}` : "It could not be saved.";
    result.content = `Output too large. ${place}\n${cutMiddle(text, PREVIEW).toWellFormed()}`;
  }
}

function newestTranscript(): string {
  const names = fs.existsSync(TRANSCRIPT_DIR) ? fs.readdirSync(TRANSCRIPT_DIR).sort() : [];
  const name = names.findLast((each) => /^transcript_\d+_\d+\.jsonl$/.test(each));
  if (!name) throw new Error(`--resume: no transcript in ${TRANSCRIPT_DIR}; run without --resume`);
  return join(TRANSCRIPT_DIR, name);
}

/** Continues a transcript in a new one. @returns its last compaction and what came after, without a torn last line */
export function resume(file: string, options: TurnOptions): Messages {
  const lines = fs.readFileSync(file, "utf8").split("\n").slice(0, -1);
  const entries = lines.map((line) => JSON.parse(line));
  const start = entries.findLastIndex((entry) => entry.type === "compaction");
  const added = entries.slice(start + 1).filter((entry) => entry.role);
  const history = added.map(({ role, content }): Anthropic.MessageParam => ({ role, content }));
  history.unshift(...(entries[start]?.messages ?? []));
  const calls = blocksOf(history.at(-1)).filter((block) => block.type === "tool_use");
  const content = calls.map(({ id }): Anthropic.ToolResultBlockParam => {
    return { type: "tool_result", tool_use_id: id, content: "(interrupted; it may have run)", is_error: true };
  });
  if (calls.length > 0) history.push({ role: "user", content });
  if (history.length === 0) throw new Error(`--resume: ${file} contains no messages; name another file`);
  options.transcript.charsPerToken = entries.at(-1).charsPerToken;
  TODO.items = entries.at(-1).todos;
  rewrite(history, [...history], "resume", options);
  const request = history.findLast(({ role, content }) => role === "user" && typeof content === "string");
  print(`[resumed ${relative(WORKDIR, file)}: ~${format(estimateTokens(history, options))} tokens. `);
  print(`The last request was: ${firstLines(String(request?.content ?? "(in the summary)"))}]\n`);
  return history;
}
// #endregion

// #region skills
const SkillHead = z.object({ name: z.string().regex(/^[\w-]+$/), description: z.string().trim().min(1) });

function readSkill(file: string): z.output<typeof SkillHead> & { body: string } {
  const match = /^\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)(.*)$/s.exec(fs.readFileSync(file, "utf8"));
  if (!match) throw new Error("it doesn't begin with YAML between two --- lines");
  return { ...check("the frontmatter", SkillHead, parseYaml(match[1] ?? "")), body: (match[2] ?? "").trim() };
}

/** The skills in `<folder>/<any>/SKILL.md`. */
export class SkillLoader {
  readonly skills = new Map<string, { file: string; description: string }>();
  readonly warnings: string[] = []; // about skills that were left out

  constructor(folder: string) {
    const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
    for (const file of names.map((name) => join(folder, name, "SKILL.md")).filter(fs.existsSync)) {
      try {
        const { name, description } = readSkill(file);
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
  const transcript = newTranscript(join(TRANSCRIPT_DIR, "tasks"), options.transcript.charsPerToken);
  const child = { ...options, transcript, system: CHILD_SYSTEM, tools, maxRounds: 30 };
  const messages: Messages = [];
  add(messages, { role: "user", content: prompt.toWellFormed() }, child);
  let ending = "";
  margin = "  ";
  await agentLoop(messages, child).catch((error) => {
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
Give what takes much reading but has a short answer to a subagent with task.
When a skill fits the work, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact.`;
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

/** What fills the context, kind by kind, and the limits. */
export function drawContext(messages: Messages, options: TurnOptions): string {
  const sizes = new Map([["system and tools", chars([options.system, options.tools])]]);
  const tools = new Map<string, string>();
  for (const { role, ...block } of messages.flatMap((each) => blocksOf(each).map((b) => ({ ...b, role: each.role })))) {
    let kind = role === "assistant" ? "replies" : "requests";
    if (block.type === "tool_use") tools.set(block.id, block.name);
    if (block.type === "tool_result") kind = `results of ${tools.get(block.tool_use_id)}`;
    if (block.type === "text" && block.text.startsWith("[Conversation compressed.")) kind = "summary";
    sizes.set(kind, (sizes.get(kind) ?? 0) + chars(block));
  }
  const total = estimateTokens(messages, options);
  const all = chars([options.system, options.tools, messages]);
  const lines = [...sizes].map(([kind, size]) => {
    return `${kind.padEnd(24)} ${"█".repeat(Math.ceil((30 * size) / all))} ${format((total * size) / all)}`;
  });
  const limits = `compacted above ${format(THRESHOLD)} when a request arrives, else above ${format(TURN_THRESHOLD)}`;
  return [...lines, `context: ~${format(total)} tokens; ${limits}`].join("\n");
}

const FILE = fileURLToPath(import.meta.url);
const HELP = `npx tsx agents/${basename(FILE)} [-y] [--resume [FILE.jsonl]] ["a request"]     -y: never ask
Without a request a prompt opens: Ctrl-C stops a turn, q or Ctrl-D quits. Requests may be piped in, one per line.
At the prompt: /context shows what fills the context, /compact [focus] compacts it, /help shows this.`;

async function main(): Promise<void> {
  const yes = { type: "boolean", short: "y" } as const;
  const options = { yes, help: { type: "boolean", short: "h" }, resume: { type: "boolean" } } as const;
  const { values: flags, positionals } = parseArgs({ allowPositionals: true, options });
  if (flags.help) return console.log(HELP);

  for (const warning of SKILLS.warnings) print(`${warning}\n`);
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
  const base = { system: SYSTEM, tools: TOOLS, approve, transcript: newTranscript(), signal: AbortSignal.any([]) };
  const file = flags.resume && positionals[0]?.endsWith(".jsonl") ? positionals.shift() : undefined;
  const messages = flags.resume ? resume(file ?? newestTranscript(), base) : [];
  let endPause = async () => {};
  const runTurn = async (content: string) => {
    const [, command, focus] = /^(\/\w+)\s*(.*)$/s.exec(content.trim()) ?? [];
    if (command === "/help") return print(`${HELP}\n`);
    if (command === "/context") return print(`${drawContext(messages, base)}\n`);
    await endPause();
    turn = new AbortController();
    const options = { ...base, signal: turn.signal };
    if (command !== "/compact") add(messages, { role: "user", content: content.toWellFormed() }, options);
    const compact = () => autoCompact(messages, { ...options, trigger: "manual", focus });
    await (command === "/compact" ? compact() : agentLoop(messages, options)).catch(reportFailure);
    turn = undefined;
    if (terminal && PAUSE > 0) endPause = compactInPause(messages, base, () => rl.prompt(true));
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
