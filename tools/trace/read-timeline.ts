/** Makes the timeline of a recorded conversation. */
import type { Clear, Conversation, Message, Rewrite, SessionEvent } from "./conversation.ts";
import { readConversation, textOf } from "./conversation.ts";
import { groupBy, largestOf, sum } from "./numbers.ts";
import { CACHE_LIFE, costOf, LONG_CACHE_LIFE, windowOf } from "./prices.ts";
import { CHARS_PER_TOKEN } from "./sizes.ts";
import type { Block, Capacity, Compaction, Extent, Kind, ModelCall, Side, Size, Timeline } from "./timeline.ts";
import { blocksAt, seriesFor, totalOf } from "./timeline.ts";

const TOOLS_WITH_COLOUR = 4; // with a colour of their own
const MIN_MISSED = 2_000; // tokens: even a healthy cache misses a few
const MIN_GROWTH = 200; // tokens: from less, the characters per token can't be told

// --- blocks ----------------------------------------------------------------------------------------------------------

type Draft = Omit<Block, "id" | "since" | "message">;

/** Text that the client writes in the user's name, such as `<task-notification>…</task-notification>`. */
const TAGGED = /<([a-z]+(?:-[a-z]+)+)\b[^>]*>[\s\S]*?(<\/\1>|$)|^\[Request interrupted.*/g;
const OPENING = /^\s*<([a-z-]+)[^>]*>\s*/;
const saidIn = (text: string) => text.replace(TAGGED, "").trim();

function isRequest({ role, parts, isMeta, isSummary, callId }: Message): boolean {
  const isOther = isMeta || isSummary || callId || parts.some(({ type }) => type === "tool_result");
  const isPicture = parts.some(({ type }) => type === "image" || type === "document");
  return role === "user" && !isOther && (isMeta === false || isPicture || saidIn(textOf(parts)) !== "");
}

function headlineOf(text: string): string {
  const [line = ""] = text.trimStart().slice(0, 1_000).split("\n", 1);
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

/** Returns the arguments of a call, each on its own line, and so is each item of a list. */
function argumentsOf(input: Record<string, unknown>): string {
  const lines = Object.entries(input).map(([name, value]) => {
    if (Array.isArray(value)) return [`${name}:`, ...value.map((item) => `  ${JSON.stringify(item)}`)].join("\n");
    return `${name}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`;
  });
  return lines.join("\n");
}

/** `calls` remembers the calls, so that a result can say which tool it's from. */
function toDraft(part: Message["parts"][number], message: Message, calls: Map<string, Draft>): Draft {
  const user = isRequest(message) ? "request" : "client";
  const said = message.role === "assistant" ? "reply" : user;
  const draft = (kind: Kind, text: string): Draft => ({ kind, text, label: headlineOf(text), chars: part.chars });
  switch (part.type) {
    case "text":
      return { ...draft(said, part.text), ...nameText(part.text, message, said, part === message.parts[0]) };
    case "thinking":
      return draft("thinking", part.thinking);
    case "tool_use": {
      const argument = Object.values(part.input).find((value) => typeof value === "string") ?? "";
      const label = `${part.name} ${headlineOf(String(argument))}`;
      const call = { ...draft("call", argumentsOf(part.input)), tool: part.name, callId: part.id, label };
      calls.set(part.id, call);
      return call;
    }
    case "tool_result": {
      const { tool = "?", label = "" } = calls.get(part.tool_use_id) ?? {};
      return { ...draft("result", textOf(part.content, "[image]")), tool, label, callId: part.tool_use_id };
    }
    default:
      return draft(said, part.type === "unknown" ? part.json : `[${part.type}]`);
  }
}

/** Names a text. A summary message begins with the summary, and files follow. */
function nameText(text: string, { isSummary }: Message, said: Kind, isFirst: boolean): Pick<Draft, "kind" | "label"> {
  const [, path] = (isSummary && !isFirst && /^<file path="(.*?)"/.exec(text)) || [];
  if (path) return { kind: "file", label: path };
  const plain = said === "client" ? text.replace(OPENING, "$1: ") : saidIn(text) || text;
  return { kind: isSummary ? "summary" : said, label: headlineOf(plain) };
}

// --- the context, step by step ---------------------------------------------------------------------------------------

/** One side of a compaction. `tokens` is what the file says, if it does. */
type UnsizedSide = Extent & { tokens?: number; charsPerToken?: number };
/** A model call: its prompt, its reply (`step`), and when it was sent. */
type Call = UnsizedSide & { step: Message; sent?: number };
type Builder = Pick<Timeline, "blocks" | "epochs" | "requests"> & {
  compactions: (Omit<Compaction, "before" | "after"> & { before: UnsizedSide; after: UnsizedSide })[];
  modelCalls: Call[];
  calls: Map<string, Draft>;
  /** How many messages there have been, so that each gets a number. */
  messages: number;
  /** The newest time and ratio in the file. */
  time?: number;
  charsPerToken?: number;
};

/** Two blocks have the same key if one can take the place of the other. */
const blockKey = ({ kind, callId, text }: Draft) => (callId ? `${kind} ${callId}` : text);

function followSteps(steps: SessionEvent[]): Builder {
  const builder: Builder = {
    blocks: [],
    epochs: [[]],
    compactions: [],
    modelCalls: [],
    requests: [],
    calls: new Map(),
    messages: 0,
  };
  for (const step of steps) {
    if (step.type === "clear") clearResults(builder, step);
    else if (step.type === "rewrite") rewriteHistory(builder, step);
    else appendMessage(builder, step);
  }
  return builder;
}

/** Returns the context as it is now. */
function currentContext({ epochs, charsPerToken }: Builder): UnsizedSide {
  return { epoch: epochs.length - 1, length: epochs.at(-1)?.length ?? 0, charsPerToken };
}

/** Returns the id of the new block. */
function add({ blocks, modelCalls }: Builder, draft: Draft, message: number): number {
  return blocks.push({ ...draft, message, id: blocks.length, since: modelCalls.length }) - 1;
}

const blockDrafts = ({ calls }: Builder, message: Message) =>
  message.parts.map((part) => toDraft(part, message, calls));

/** Adds a message. A reply also adds a model call. */
function appendMessage(builder: Builder, step: Message): void {
  const prompt = currentContext(builder);
  const drafts = blockDrafts(builder, step);
  builder.charsPerToken = step.charsPerToken ?? builder.charsPerToken;
  if (isRequest(step) && drafts.length > 0)
    builder.requests.push({ modelCall: builder.modelCalls.length, block: builder.blocks.length });
  if (step.role === "assistant")
    builder.modelCalls.push({ ...prompt, charsPerToken: builder.charsPerToken, step, sent: builder.time ?? step.time });
  builder.time = step.time ?? builder.time;
  const message = builder.messages++;
  for (const draft of drafts) builder.epochs.at(-1)?.push(add(builder, draft, message));
}

function clearResults(builder: Builder, { callIds }: Clear): void {
  const text = "[Old tool result content cleared]";
  const cleared = new Set<string | undefined>(callIds);
  const old = blocksAt(builder, currentContext(builder));
  const ids = old.map((block) => {
    const isCleared = block.kind === "result" && block.original === undefined && cleared.has(block.callId);
    const chars = block.chars - block.text.length + text.length;
    return isCleared ? add(builder, { ...block, text, chars, original: block.id }, block.message) : block.id;
  });
  beginEpoch(builder, ids, { trigger: "micro" });
}

/** Messages take the place of the context. Blocks that were there before stay the same; a new summary brings its own files. */
function rewriteHistory(builder: Builder, step: Rewrite): void {
  builder.charsPerToken = step.charsPerToken ?? builder.charsPerToken;
  const known = groupBy(blocksAt(builder, currentContext(builder)), blockKey);
  // Backwards: of texts that occur twice, the newest is the one that's kept.
  const ids = step.messages.toReversed().flatMap((message) => {
    const [first, ...rest] = blockDrafts(builder, message);
    if (!first) return [];
    const isNewSummary = message.isSummary && !known.has(blockKey(first));
    const drafts = [first, ...rest].reverse();
    const found = drafts.map((draft) => (isNewSummary ? undefined : known.get(blockKey(draft))?.pop()));
    const number = found.find((block) => block)?.message ?? builder.messages++;
    return drafts.map((draft, i) => keepOrAdd(builder, draft, found[i], number));
  });
  beginEpoch(builder, ids.reverse(), step);
}

/** Returns the id of the block that was found, or of a new block if the text has changed. */
function keepOrAdd(builder: Builder, draft: Draft, found: Block | undefined, message: number): number {
  if (found?.kind === draft.kind && found.text === draft.text) return found.id;
  const original = draft.kind === "result" ? found?.id : undefined; // it was cleared
  const thought = found?.kind === "thinking" ? found.id : undefined;
  return add(builder, { ...draft, original, thought }, message);
}

/** Begins an epoch. That's a compaction, unless a transcript begins by resuming another one. */
function beginEpoch(builder: Builder, ids: number[], step: Pick<Rewrite, "trigger"> & Partial<Rewrite>): void {
  const { trigger, usage, model } = step;
  const before = { ...currentContext(builder), tokens: step.before };
  const old = new Set(builder.epochs.at(-1));
  builder.epochs.push(ids);
  if (trigger === "resume" && before.length === 0) return;
  const after = { ...currentContext(builder), tokens: step.after };
  const isSummary = ids.some((id) => builder.blocks[id]?.kind === "summary" && !old.has(id));
  const cost = costOf(usage, model);
  builder.compactions.push({ modelCall: builder.modelCalls.length, trigger, before, after, isSummary, usage, cost });
}

// --- sizes -----------------------------------------------------------------------------------------------------------

const KINDS: Kind[] = ["unexplained", "summary", "file", "request", "client", "reply", "thinking", "call"];

function seriesOf(blocks: Block[]): string[] {
  const tools = new Map<string, number>();
  for (const { kind, tool = "", chars } of blocks)
    if (kind === "result") tools.set(tool, (tools.get(tool) ?? 0) + chars);
  const names = [...tools].sort((a, b) => b[1] - a[1]).map(([name]) => `result:${name}`);
  const kinds = KINDS.filter((kind) => kind === "unexplained" || blocks.some((block) => block.kind === kind));
  return [...kinds, ...names.slice(0, TOOLS_WITH_COLOUR), ...(names.length > TOOLS_WITH_COLOUR ? ["result:"] : [])];
}

/** Returns the characters of each series at each model call. */
function charsBySeries({ blocks, epochs, modelCalls }: Builder, series: string[]): number[][] {
  const sums = epochs.map((ids) => {
    const running = [series.map(() => 0)];
    for (const block of ids.flatMap((id) => blocks[id] ?? [])) {
      const last = running.at(-1) ?? [];
      const place = series.indexOf(seriesFor(block, series));
      running.push(last.with(place, (last[place] ?? 0) + block.chars));
    }
    return running;
  });
  return modelCalls.map(({ epoch, length }) => sums[epoch]?.[length] ?? []);
}

/** Returns the characters per token: the median over the model calls, since some prompts grow by what isn't in the file. */
function ratioOf(modelCalls: Call[], chars: number[]): number {
  const ratios = modelCalls.flatMap(({ epoch, step }, i) => {
    const before = modelCalls[i - 1];
    if (!step.usage || !before?.step.usage || before.epoch !== epoch) return [];
    const grown = totalOf(step.usage) - totalOf(before.step.usage);
    return grown > MIN_GROWTH ? ((chars[i] ?? 0) - (chars[i - 1] ?? 0)) / grown : [];
  });
  return medianOf(ratios) || CHARS_PER_TOKEN;
}

const medianOf = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Splits the tokens of a prompt into those of its blocks and those that no block accounts for. */
function sizeFor(chars: number, charsPerToken: number, tokens = chars / charsPerToken): Size {
  const explained = chars / charsPerToken;
  if (explained <= tokens) return { tokens, unexplained: tokens - explained, charsPerToken };
  return { tokens, unexplained: 0, charsPerToken: chars / tokens };
}

/** Finds out why the previous prompt wasn't read from the cache. */
function missedBy(before: ModelCall | undefined, now: ModelCall): ModelCall["missed"] {
  if (!before || !now.usage) return undefined;
  const tokens = Math.min(before.tokens, now.tokens) - now.usage.read;
  const isLate = (now.gap ?? 0) > (before.usage?.isHour ? LONG_CACHE_LIFE : CACHE_LIFE);
  if (tokens < MIN_MISSED) return undefined;
  if (now.epoch !== before.epoch) return { why: "compaction", tokens };
  if (isLate) return { why: "pause", tokens };
  return { why: now.model === before.model ? "changed" : "model", tokens };
}

/** `sums` has the characters of each series in the prompt. */
function toModelCall({ step, sent, ...call }: Call, sums: number[], ratio: number): ModelCall {
  const { usage, model, time, parts } = step;
  const size = sizeFor(sum(sums), call.charsPerToken ?? ratio, usage && totalOf(usage));
  const sizes = sums.map((chars, place) => (place === 0 ? size.unexplained : chars / size.charsPerToken));
  const written = Math.round(sum(parts.map(({ chars }) => chars)) / size.charsPerToken);
  const isEstimate = usage !== undefined && !usage.isFinal && written > usage.output;
  const paid = usage && { ...usage, output: isEstimate ? written : usage.output };
  return { ...call, ...size, sizes, usage: paid, isEstimate, model, cost: costOf(paid, model), time, request: -1 };
}

function toTimeline(builder: Builder) {
  const series = seriesOf(builder.blocks);
  const sums = charsBySeries(builder, series);
  const ratio = ratioOf(builder.modelCalls, sums.map(sum));
  const modelCalls = builder.modelCalls.map((call, i) => toModelCall(call, sums[i] ?? [], ratio));
  for (const [i, modelCall] of modelCalls.entries()) {
    const [before, now] = [builder.modelCalls[i - 1]?.sent, builder.modelCalls[i]?.sent];
    modelCall.gap = before && now && Math.max(0, now - before);
    modelCall.missed = missedBy(modelCalls[i - 1], modelCall);
    modelCall.request = builder.requests.findLastIndex((request) => request.modelCall <= i);
  }
  const isCounted = modelCalls.some(({ usage }) => usage);
  return { modelCalls, series, isCounted, charsPerToken: builder.charsPerToken ?? ratio };
}

// --- the timeline -----------------------------------------------------------------------------------------------------

/** The newest threshold in a transcript of s06. */
function thresholdIn(steps: SessionEvent[]): Capacity | undefined {
  const tokens = steps.findLast((step): step is Rewrite => step.type === "rewrite")?.threshold;
  return tokens ? { tokens, kind: "threshold" } : undefined;
}

/** Sizes one side of a compaction: by the file, or else by the model call next to it. */
function sideOf(
  builder: Builder,
  { tokens, charsPerToken, ...extent }: UnsizedSide,
  place: "before" | "after",
  beside?: ModelCall,
): Side {
  const ratio = charsPerToken ?? beside?.charsPerToken ?? CHARS_PER_TOKEN;
  const chars = sum(blocksAt(builder, extent).map((block) => block.chars));
  if (tokens !== undefined) return { ...extent, ...sizeFor(chars, ratio, tokens), sizeSource: "file" };
  const isCounted = place === "after" && beside?.usage && beside.epoch === extent.epoch;
  if (isCounted) return { ...beside, sizeSource: "next" };
  return { ...extent, ...sizeFor(chars, ratio, chars / ratio + (beside?.unexplained ?? 0)), sizeSource: "estimate" };
}

/** Reads a session of Claude Code or a trace of a lesson. The timeline of any other text has no model calls. */
export const readTimeline = (text: string): Timeline => timelineOf(readConversation(text));

export function timelineOf({ format, steps, skipped }: Conversation): Timeline {
  const builder = followSteps(steps);
  const { blocks, epochs, requests } = builder;
  const { modelCalls, ...rest } = toTimeline(builder);
  const compactions = builder.compactions.map(({ before, after, ...rest }): Compaction => {
    const [last, next] = [modelCalls[rest.modelCall - 1], modelCalls[rest.modelCall]];
    return {
      ...rest,
      before: sideOf(builder, before, "before", last),
      after: sideOf(builder, after, "after", next ?? last),
    };
  });
  const largest = largestOf(modelCalls.map(({ tokens }) => tokens));
  const tokens = windowOf(modelCalls.at(-1)?.model, modelCalls[largest]?.tokens ?? 0);
  const window: Capacity | undefined = tokens ? { tokens, kind: "window" } : undefined;
  const capacity = format === "s06" ? thresholdIn(steps) : window;
  return { format, blocks, epochs, modelCalls, compactions, largest, requests, capacity, skipped, ...rest };
}
