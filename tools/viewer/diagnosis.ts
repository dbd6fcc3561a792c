/** Works out what a session cost, what filled its largest prompt, which calls were cold and what compactions took. */
import { sumOf } from "../prices.ts";
import { largestOf, sum } from "../trace/numbers.ts";
import {
  type Capacity,
  type Compaction,
  dollarsOf,
  type Missed,
  type ModelCall,
  type Timeline,
} from "../trace/timeline.ts";
import { lostPaths } from "./lost.ts";
import { changesIn, type Series, seriesOf, sizesOf } from "./series.ts";

/** Sizes are in tokens. A single model call is given by its index. */
export type Diagnosis = {
  calls: number;
  sent: number; // the size of all prompts together
  isCounted: boolean; // whether the API counted every prompt
  /** Includes the summaries whose cost is known. Missing if no price is known. */
  dollars?: number;
  isEstimate: boolean; // whether some of the output is an estimate
  summaries: { paid: number; unpaid: number; dollars?: number }; // how many have a known cost, and how many don't
  unpaid: number; // the number of calls without a known price
  dearest: Call & { dollars?: number };
  largest: Call & Filling & { tokens: number; capacity?: { share: number; kind: Capacity["kind"] } };
  cold: Amount & { count: number; causes: Cause[] };
  /** Prompts that a compaction replaced. Those had to be written to the cache anyway. */
  compacted?: Cause;
  taken: Taken;
};
type Call = { at: number };
/** What most of a prompt is, largest first, and the share of it that isn't in the file. */
type Filling = { top: { series: Series; share: number }[]; unexplained: number };
type Amount = { tokens: number; dollars?: number };
/** Misses for the same reason. `at` is the call with the largest. */
export type Cause = Amount & { why: Missed["why"]; count: number; at: number };
/** What compactions took, and the one that lost the most paths. */
type Taken = {
  count: number;
  cleared: number; // the number of those that only cleared old results
  tokens: number;
  isEstimate: boolean;
  top: { series: Series; tokens: number }[]; // of what is in the file, largest first
  lost?: { compaction: number; paths: number; modelCall: number };
};

const MOST_NAMED = 3; // kinds of content

export function diagnose(timeline: Timeline): Diagnosis {
  const { modelCalls, compactions } = timeline;
  const summaries = compactions.filter(({ isSummary }) => isSummary);
  const paid = summaries.filter(({ cost }) => cost);
  const dearest = largestOf(modelCalls.map(({ cost }) => sumOf(cost)));
  return {
    calls: modelCalls.length,
    sent: sum(modelCalls.map(({ tokens }) => tokens)),
    isCounted: modelCalls.every(({ usage }) => usage),
    dollars: totalCost(timeline),
    isEstimate: modelCalls.some(({ isEstimate }) => isEstimate),
    summaries: { paid: paid.length, unpaid: summaries.length - paid.length, dollars: dollarsOf(paid) },
    unpaid: modelCalls.filter(({ cost }) => !cost).length,
    dearest: { at: dearest, dollars: dollarsOf(modelCalls.slice(dearest, dearest + 1)) },
    largest: fillingOf(timeline),
    ...groupMisses(modelCalls),
    taken: takenBy(timeline),
  };
}

/** Dollars of all calls and summaries whose price is known. */
export function totalCost({ modelCalls, compactions }: Timeline): number | undefined {
  const calls = dollarsOf(modelCalls);
  return calls === undefined ? undefined : calls + (dollarsOf(compactions) ?? 0);
}

/** The price of the missed tokens, which were written to the cache or sent without it. */
function dollarsMissed({ missed, usage, cost }: ModelCall): number | undefined {
  if (!missed || !usage || !cost) return undefined;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

const addAmounts = (all: Amount[]): Amount => ({
  tokens: sum(all.map(({ tokens }) => tokens)),
  dollars: all.some(({ dollars }) => dollars !== undefined) ? sum(all.map(({ dollars = 0 }) => dollars)) : undefined,
});

function groupMisses(modelCalls: ModelCall[]): Pick<Diagnosis, "cold" | "compacted"> {
  const all = modelCalls.flatMap((modelCall, at) => {
    return modelCall.missed ? [{ ...modelCall.missed, at, dollars: dollarsMissed(modelCall) }] : [];
  });
  const causes = (["pause", "changed", "model", "compaction"] as const).flatMap((why): Cause[] => {
    const misses = all.filter((each) => each.why === why).sort((a, b) => b.tokens - a.tokens);
    const [largest] = misses;
    return largest ? [{ why, count: misses.length, at: largest.at, ...addAmounts(misses) }] : [];
  });
  const cold = causes.filter(({ why }) => why !== "compaction").sort((a, b) => b.tokens - a.tokens);
  const compacted = causes.find(({ why }) => why === "compaction");
  return { cold: { ...addAmounts(cold), count: sum(cold.map(({ count }) => count)), causes: cold }, compacted };
}

function fillingOf(timeline: Timeline): Diagnosis["largest"] {
  const { modelCalls, largest: at, capacity } = timeline;
  const modelCall = modelCalls[at];
  const { tokens = 0 } = modelCall ?? {};
  const sizes = modelCall ? sizesOf(timeline, modelCall) : [];
  const [unexplained = 0, ...shares] = sizes.map((size) => size / tokens);
  const [, ...series] = seriesOf(timeline);
  const found = series.map((each, i) => ({ series: each, share: shares[i] ?? 0 }));
  const top = found.filter(({ share }) => share >= 0.005).sort((a, b) => b.share - a.share);
  const ofCapacity = capacity && { share: tokens / capacity.tokens, kind: capacity.kind };
  return { at, tokens, capacity: ofCapacity, unexplained, top: top.slice(0, MOST_NAMED) };
}

function takenBy(timeline: Timeline): Taken {
  const { compactions } = timeline;
  const changes = compactions.map((each) => changesIn(timeline, each));
  const totals = seriesOf(timeline).map((series, i) => {
    return { series, tokens: -sum(changes.map((each) => Math.min(0, each[i] ?? 0))) };
  });
  const losses = compactions.map((each, compaction) => {
    return { compaction, paths: lostPaths(each).length, modelCall: each.modelCall };
  });
  const top = totals
    .filter(({ series, tokens }) => series.kind !== "unexplained" && tokens >= 1)
    .sort((a, b) => b.tokens - a.tokens);
  return {
    count: compactions.length,
    cleared: compactions.filter(({ trigger }) => trigger === "micro").length,
    tokens: sum(compactions.map(tokensTaken)),
    isEstimate: compactions.some(({ before, after }) => [before, after].some((side) => side.sizeSource === "estimate")),
    top: top.slice(0, MOST_NAMED),
    lost: losses.filter(({ paths }) => paths > 0).sort((a, b) => b.paths - a.paths)[0],
  };
}

export const tokensTaken = ({ before, after }: Compaction) => before.tokens - after.tokens;
