/** Makes the timeline of a recording: the size and cost of each prompt, and what the cache missed. */
import { CACHE_LIFE, CHARS_PER_TOKEN, LONG_CACHE_LIFE } from "../../offline/constants.ts";
import { type Asked, charsIn, type Followed, followEvents, type Replaced } from "./contexts.ts";
import type { Recording } from "./events.ts";
import { largestOf } from "./numbers.ts";
import { costOf } from "./prices.ts";
import { readRecording } from "./recording.ts";
import {
  type Compaction,
  type Context,
  type ModelCall,
  type Side,
  type Size,
  type Timeline,
  totalOf,
} from "./timeline.ts";

export const MIN_MISSED = 2_000; // tokens: even a healthy cache misses a few
const MIN_GROWTH = 200; // tokens: from less, the characters per token can't be told

// --- sizes and costs --------------------------------------------------------------------------------------------------

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

function toModelCall({ call, reply, sent, ...context }: Asked, before: Asked | undefined, ratio: number): ModelCall {
  const { usage, model, time } = call;
  const size = sizeFor(context.chars, ratio, usage && totalOf(usage));
  const written = Math.round(charsIn(reply?.blocks ?? []) / size.charsPerToken);
  const isEstimate = usage !== undefined && !usage.isFinal && written > usage.output;
  const paid = usage && { ...usage, output: isEstimate ? written : usage.output };
  const gap = sent && before?.sent && sent - before.sent;
  return { ...context, ...size, usage: paid, isEstimate, model, cost: costOf(paid, model), time, gap };
}

// --- what the cache missed --------------------------------------------------------------------------------------------

function findMissed({ compactions }: Followed, modelCalls: ModelCall[]): void {
  const compacted = new Set(compactions.map(({ modelCall }) => modelCall));
  for (const [i, modelCall] of modelCalls.entries()) {
    const previous = modelCalls[i - 1];
    if (previous) modelCall.missed = missedBy(previous, modelCall, compacted.has(i));
  }
}

/** Finds out why the previous prompt wasn't read from the cache. */
function missedBy(before: ModelCall, now: ModelCall, isCompacted: boolean): ModelCall["missed"] {
  if (!now.usage) return undefined;
  const tokens = Math.min(before.tokens, now.tokens) - now.usage.read;
  if (tokens < MIN_MISSED) return undefined;
  if (isCompacted) return { why: "compaction", tokens };
  const life = before.usage?.writtenForHour ? LONG_CACHE_LIFE : CACHE_LIFE;
  if ((now.gap ?? 0) > life) return { why: "pause", tokens };
  return { why: now.model === before.model ? "changed" : "model", tokens };
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
  const followed = followEvents(recording.events);
  const { blocks, requests, asked } = followed;
  const charsPerToken = ratioOf(asked);
  const modelCalls = asked.map((each, i) => toModelCall(each, asked[i - 1], charsPerToken));
  findMissed(followed, modelCalls);
  const compactions = followed.compactions.map((each) => toCompaction(each, modelCalls));
  const largest = largestOf(modelCalls.map(({ tokens }) => tokens));
  const isCounted = modelCalls.some(({ usage }) => usage);
  const about = { format, cwd, threshold, isCounted, charsPerToken, skipped };
  return { blocks, modelCalls, compactions, largest, requests, ...about };
}
