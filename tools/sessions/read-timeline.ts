/** Makes the timeline of a recording. */

import { CACHE_LIFE, CHARS_PER_TOKEN, LONG_CACHE_LIFE } from "../../offline/constants.ts";
import { type Block, type Call, type Clear, type Message, type Recording, type Rewrite, textOf } from "./events.ts";
import { groupBy, largestOf, sum } from "./numbers.ts";
import { costOf } from "./prices.ts";
import { readRecording } from "./recording.ts";
import type { Compaction, Context, ContextBlock, ModelCall, Side, Size, Timeline } from "./timeline.ts";
import { totalOf } from "./timeline.ts";

export const MIN_MISSED = 2_000; // tokens: even a healthy cache misses a few
const MIN_GROWTH = 200; // tokens: from less, the characters per token can't be told

// --- the context, event by event -------------------------------------------------------------------------------------

/** A model call with its prompt, its reply, and when it was sent. */
type Asked = Context & { call: Call; reply?: Message; sent?: number };
type Replaced = Pick<Compaction, "modelCall" | "trigger" | "isSummary"> & {
  before: Context;
  after: Context;
  tokensBefore?: number; // if the file says so
  call?: Call; // what wrote the summary
};
type Builder = Pick<Timeline, "blocks" | "requests"> & {
  now: Context;
  asked: Asked[];
  compactions: Replaced[];
  time?: number; // of the newest message
};

function follow({ events }: Recording): Builder {
  const now = { epoch: [], length: 0, chars: 0 };
  const builder: Builder = { blocks: [], now, requests: [], asked: [], compactions: [] };
  for (const [i, event] of events.entries()) {
    if (event.type === "call") askModel(builder, event);
    else if (event.type === "message") addMessage(builder, event);
    else if (event.type === "clear") clearResults(builder, event);
    else rewriteHistory(builder, event, events[i - 1]?.type === "call");
  }
  return builder;
}

function askModel({ asked, now, time }: Builder, call: Call): void {
  asked.push({ ...now, call, sent: time ?? call.time });
}

function addMessage(builder: Builder, message: Message): void {
  const { asked, requests, now } = builder;
  const blocks = message.blocks.map((block) => place(builder, block));
  const request = blocks.find(({ kind }) => kind === "request");
  const last = asked.at(-1);
  if (request) requests.push({ modelCall: asked.length, block: request });
  if (last && message.role === "assistant") last.reply = message;
  builder.time = message.time ?? builder.time;
  now.epoch.push(...blocks);
  builder.now = contextOf(now.epoch, now.chars + charsIn(blocks));
}

const charsIn = (blocks: Block[]) => sum(blocks.map(({ chars }) => chars));
const contextOf = (epoch: ContextBlock[], chars = charsIn(epoch)): Context => ({ epoch, length: epoch.length, chars });

function place({ blocks }: Builder, block: Block): ContextBlock {
  const placed = { ...block, id: blocks.length };
  blocks.push(placed);
  return placed;
}

const PLACEHOLDER = "[Old tool result content cleared]";

function clearResults(builder: Builder, { ids }: Clear): void {
  const cleared = new Set(ids);
  const blocks = builder.now.epoch.map((block) => {
    if (block.kind !== "result" || textOf(block) === PLACEHOLDER || !cleared.has(block.call.id)) return block;
    const chars = block.chars - textOf(block).length + PLACEHOLDER.length;
    return place(builder, { ...block, texts: [{ text: PLACEHOLDER }], chars });
  });
  beginEpoch(builder, blocks, { trigger: "micro", isSummary: false });
}

/** Two blocks have the same key if one can take the place of the other. */
const keyOf = (block: Block) => ("call" in block ? `${block.kind} ${block.call.id}` : block.text);

/** Messages take the place of the context. Blocks that were there before stay the same; a new summary brings its own files. */
function rewriteHistory(builder: Builder, { messages, ...rewrite }: Rewrite, isAfterCall: boolean): void {
  const known = groupBy(builder.now.epoch, keyOf);
  const isNew = ({ by, blocks: [first] }: Message) =>
    by === "summary" && first !== undefined && !known.has(keyOf(first));
  const isSummary = messages.some(isNew);
  // Backwards: of texts that occur twice, the newest is the one that's kept.
  const blocks = messages.toReversed().flatMap((message) => {
    const old = isNew(message) ? undefined : known;
    return message.blocks.toReversed().map((block) => keepOrPlace(builder, block, old?.get(keyOf(block))?.pop()));
  });
  const call = isSummary && isAfterCall ? builder.asked.pop()?.call : undefined;
  beginEpoch(builder, blocks.reverse(), { ...rewrite, isSummary, call });
}

/** Returns the block that was found, or a new one if the text has changed. */
const keepOrPlace = (builder: Builder, block: Block, found?: ContextBlock): ContextBlock =>
  found?.kind === block.kind && textOf(found) === textOf(block) ? found : place(builder, block);

type Made = Omit<Replaced, "modelCall" | "before" | "after">;

/** Begins an epoch. That's a compaction, unless a conversation is only resumed. */
function beginEpoch(builder: Builder, blocks: ContextBlock[], made: Made): void {
  const { now: before, asked, compactions } = builder;
  builder.now = contextOf(blocks);
  if (made.trigger !== "resume") compactions.push({ ...made, modelCall: asked.length, before, after: builder.now });
}

// --- sizes -----------------------------------------------------------------------------------------------------------

/** Returns the characters per token: the median over the model calls, since some prompts grow by what isn't in the file. */
function ratioOf(asked: Asked[]): number {
  const ratios = asked.flatMap(({ epoch, chars, call: { usage } }, i) => {
    const before = asked[i - 1];
    if (!usage || !before?.call.usage || before.epoch !== epoch) return [];
    const grown = totalOf(usage) - totalOf(before.call.usage);
    return grown > MIN_GROWTH ? (chars - before.chars) / grown : [];
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

function toModelCall({ call, reply, epoch, length, chars }: Asked, ratio: number): ModelCall {
  const { usage, model, time } = call;
  const size = sizeFor(chars, ratio, usage && totalOf(usage));
  const written = Math.round(charsIn(reply?.blocks ?? []) / size.charsPerToken);
  const isEstimate = usage !== undefined && !usage.isFinal && written > usage.output;
  const paid = usage && { ...usage, output: isEstimate ? written : usage.output };
  const cost = costOf(paid, model);
  return { epoch, length, chars, ...size, usage: paid, isEstimate, model, cost, time, request: -1 };
}

/** Finds out why the previous prompt wasn't read from the cache. */
function missedBy(before: ModelCall, now: ModelCall, isCompacted: boolean): ModelCall["missed"] {
  if (!now.usage) return undefined;
  const tokens = Math.min(before.tokens, now.tokens) - now.usage.read;
  const isLate = (now.gap ?? 0) > (before.usage?.writtenForHour ? LONG_CACHE_LIFE : CACHE_LIFE);
  if (tokens < MIN_MISSED) return undefined;
  if (isCompacted) return { why: "compaction", tokens };
  if (isLate) return { why: "pause", tokens };
  return { why: now.model === before.model ? "changed" : "model", tokens };
}

/** Adds what each model call has to do with those before it. */
function compareCalls({ asked, compactions, requests }: Builder, modelCalls: ModelCall[]): void {
  for (const [i, modelCall] of modelCalls.entries()) {
    const [before, now] = [asked[i - 1]?.sent, asked[i]?.sent];
    modelCall.gap = before && now && Math.max(0, now - before);
    modelCall.request = requests.findLastIndex((request) => request.modelCall <= i);
    const previous = modelCalls[i - 1];
    const isCompacted = compactions.some((compaction) => compaction.modelCall === i);
    if (previous) modelCall.missed = missedBy(previous, modelCall, isCompacted);
  }
}

// --- the timeline -----------------------------------------------------------------------------------------------------

/** Sizes one side of a compaction: by the file, or else by the model call next to it. */
function sideOf(context: Context, beside?: ModelCall, tokens?: number): Side {
  const ratio = beside?.charsPerToken ?? CHARS_PER_TOKEN;
  const { chars } = context;
  if (tokens !== undefined) return { ...context, ...sizeFor(chars, ratio, tokens), isEstimate: false };
  return { ...context, ...sizeFor(chars, ratio, chars / ratio + (beside?.unexplained ?? 0)), isEstimate: true };
}

function toCompaction(made: Replaced, modelCalls: ModelCall[]): Compaction {
  const { modelCall, trigger, isSummary, call } = made;
  const [last, next] = [modelCalls[modelCall - 1], modelCalls[modelCall]];
  const before = sideOf(made.before, last, made.tokensBefore);
  const isCounted = next?.usage && next.epoch === made.after.epoch;
  const after: Side = isCounted ? { ...next, isEstimate: false } : sideOf(made.after, next ?? last);
  return { modelCall, trigger, isSummary, before, after, usage: call?.usage, cost: costOf(call?.usage, call?.model) };
}

/** Reads a recording. The timeline of any other text has no model calls. */
export const readTimeline = (text: string): Timeline => timelineOf(readRecording(text));

export function timelineOf(recording: Recording): Timeline {
  const { format, cwd, threshold, skipped } = recording;
  const builder = follow(recording);
  const { blocks, requests, asked } = builder;
  const charsPerToken = ratioOf(asked);
  const modelCalls = asked.map((each) => toModelCall(each, charsPerToken));
  compareCalls(builder, modelCalls);
  const compactions = builder.compactions.map((each) => toCompaction(each, modelCalls));
  const largest = largestOf(modelCalls.map(({ tokens }) => tokens));
  const isCounted = modelCalls.some(({ usage }) => usage);
  const about = { format, cwd, threshold, isCounted, charsPerToken, skipped };
  return { blocks, modelCalls, compactions, largest, requests, ...about };
}
