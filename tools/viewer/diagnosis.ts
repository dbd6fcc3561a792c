/** Works out what a session cost, what cache misses added to that, what filled the context and what compactions removed. */

import { sumOf } from "../prices.ts";
import { callKey } from "../trace/events.ts";
import { groupBy, largestOf, sum } from "../trace/numbers.ts";
import {
  blocksIn,
  type ContextBlock,
  dollarsOf,
  fateOfTaken,
  isCleared,
  type Missed,
  type ModelCall,
  type Timeline,
} from "../trace/timeline.ts";
import { lostIn } from "./lost.ts";
import { type Series, seriesOf, sizesOf } from "./series.ts";

/** Sizes are in tokens. A single model call is given by its index. */
export type Diagnosis = {
  calls: number;
  sent: number; // the size of all prompts together
  isCounted: boolean; // whether the API counted every prompt
  /** Includes the summaries if their cost is known. Missing if no price is known. */
  dollars?: number;
  isEstimate: boolean; // whether some of the output is an estimate
  summaries: { count: number; dollars?: number };
  unpaid: number; // the number of calls without a known price
  dearest: number; // the most expensive call
  missed: Amount & { causes: Cause[] };
  /** Prompts that a compaction replaced. Writing those to the cache isn't a miss. */
  compacted?: Cause;
  largest: number; // the call with the largest prompt
  top: { series: Series; share: number }[]; // the two series that fill most of the largest prompt
  /** The read that took the most tokens by being repeated. `at` is the call after the last time. */
  readAgain?: { path: string; count: number; tokens: number; at: number };
  compactions: { count: number; tokens: number; cleared: number }; // `cleared` old results without a summary
  /** The compaction that lost the most paths, and the call after it. */
  lost?: { compaction: number; paths: number; call: number };
};
type Amount = { tokens: number; dollars?: number };
/** Misses for the same reason. `at` is the call with the largest. */
export type Cause = Amount & { why: Missed["why"]; count: number; at: number };

export function diagnose(timeline: Timeline): Diagnosis {
  const { modelCalls, compactions } = timeline;
  const summaries = compactions.filter(({ isSummary }) => isSummary);
  const losses = compactions.map((each, compaction) => {
    const paths = lostIn(each).filter(({ kind }) => kind === "paths").length;
    return { compaction, paths, call: each.modelCall };
  });
  const taken = compactions.map(({ before, after }) => before.tokens - after.tokens);
  const cleared = compactions.filter((each) => fateOfTaken(each) === "disk").length;
  return {
    calls: modelCalls.length,
    sent: sum(modelCalls.map(({ tokens }) => tokens)),
    isCounted: modelCalls.every(({ usage }) => usage),
    dollars: totalCost(timeline),
    isEstimate: modelCalls.some(({ isEstimate }) => isEstimate),
    summaries: { count: summaries.length, dollars: dollarsOf(summaries) },
    unpaid: modelCalls.filter(({ cost }) => !cost).length,
    dearest: largestOf(modelCalls.map(({ cost }) => sumOf(cost))),
    ...groupMisses(modelCalls),
    largest: timeline.largest,
    top: fillsOf(timeline),
    readAgain: findRepeatedReads(timeline),
    compactions: { count: compactions.length, tokens: sum(taken), cleared },
    lost: losses.sort((a, b) => b.paths - a.paths)[0],
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

function groupMisses(modelCalls: ModelCall[]): Pick<Diagnosis, "missed" | "compacted"> {
  const all = modelCalls.flatMap((modelCall, at) => {
    return modelCall.missed ? [{ ...modelCall.missed, at, dollars: dollarsMissed(modelCall) }] : [];
  });
  const causes = (["pause", "changed", "model", "compaction"] as const).flatMap((why): Cause[] => {
    const misses = all.filter((each) => each.why === why).sort((a, b) => b.tokens - a.tokens);
    const [largest] = misses;
    return largest ? [{ why, count: misses.length, at: largest.at, ...addAmounts(misses) }] : [];
  });
  const missed = causes.filter(({ why }) => why !== "compaction").sort((a, b) => b.tokens - a.tokens);
  const compacted = causes.find(({ why }) => why === "compaction");
  return { missed: { ...addAmounts(missed), causes: missed }, compacted };
}

function fillsOf(timeline: Timeline): Diagnosis["top"] {
  const modelCall = timeline.modelCalls[timeline.largest];
  const sizes = modelCall ? sizesOf(timeline, modelCall) : [];
  const shares = seriesOf(timeline).map((series, i) => {
    return { series, share: (sizes[i] ?? 0) / (modelCall?.tokens ?? 1) };
  });
  const sorted = shares.filter(({ share }) => share > 0).sort((a, b) => b.share - a.share);
  return sorted.slice(0, 2);
}

/** Two pages of a file aren't a repetition. */
function findRepeatedReads(timeline: Timeline): Diagnosis["readAgain"] {
  const { modelCalls } = timeline;
  const reads = timeline.blocks.flatMap((block) => {
    return block.kind === "result" && /^read/i.test(block.call.name) && !isCleared(block) ? block : [];
  });
  const furtherIn = (all: ContextBlock[]) => charsOf(all.slice(1));
  const byCall = [...groupBy(reads, ({ call }) => callKey(call)).values()];
  const [group = []] = byCall.sort((a, b) => furtherIn(b) - furtherIn(a));
  const last = group.at(-1);
  if (group.length < 2 || !last) return undefined;
  const next = modelCalls.findIndex((modelCall) => blocksIn(modelCall).includes(last));
  const at = next < 0 ? modelCalls.length - 1 : next;
  const tokens = charsOf(group) / (modelCalls[at]?.charsPerToken ?? 1);
  const { file_path, path = file_path } = last.call.input;
  return { path: String(path), count: group.length, tokens, at };
}

const charsOf = (blocks: ContextBlock[]) => sum(blocks.map(({ chars }) => chars));
