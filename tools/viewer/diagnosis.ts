/** What a session cost, what of that its cache misses took, what filled it: each with a model call that shows it. */
import { sumOf } from "./prices.ts";
import { type Block, dollarsOf, type Missed, type Moment, type Timeline } from "./timeline.ts";

/** Model calls are named by their index. Sizes are tokens. */
export type Diagnosis = {
  calls: number;
  /** Of all prompts together; nothing is known of some if `isCounted` is false. */
  sent: number;
  isCounted: boolean;
  /** With its summaries, if the file counts those; nothing if no price is known. */
  dollars?: number;
  /** Whether some of the output is an estimate. */
  isEstimate: boolean;
  summaries: { count: number; dollars?: number };
  /** Calls without a known price. */
  unpaid: number;
  models: string[];
  /** The most expensive call, or the one with the largest prompt. */
  most: number;
  missed: { tokens: number; dollars?: number; causes: Cause[] };
  /** What compactions made new, and so had to be written to the cache: that is not missed. */
  anew?: Cause;
  /** The series that most of the largest prompt is made of. */
  top?: { series: string; share: number; at: number };
  /** Of all files that were read more than once, the one whose further reads took most. */
  again?: Found;
};
/** Misses of one kind: how many, and the call of the largest. */
export type Cause = { why: Missed["why"]; count: number; tokens: number; dollars?: number; at: number };
/** Several blocks that a call with the same label returned, and the first call with all of them. */
export type Found = { block: Block; count: number; tokens: number; at: number };

export function diagnose(timeline: Timeline): Diagnosis {
  const { moments, compactions } = timeline;
  const summaries = compactions.filter(({ isSummary }) => isSummary);
  const [own, others] = [dollarsOf(moments), dollarsOf(summaries)];
  const weights = moments.map(({ cost, tokens }) => (own === undefined ? tokens : sumOf(cost)));
  return {
    calls: moments.length,
    sent: moments.reduce((sum, { tokens }) => sum + tokens, 0),
    isCounted: moments.every(({ usage }) => usage),
    dollars: own === undefined ? undefined : own + (others ?? 0),
    isEstimate: moments.some(({ isEstimate }) => isEstimate),
    summaries: { count: summaries.length, dollars: others },
    unpaid: moments.filter(({ cost }) => !cost).length,
    models: [...new Set(moments.flatMap(({ model }) => model ?? []))],
    most: weights.indexOf(weights.reduce((most, each) => Math.max(most, each), 0)),
    ...missedIn(moments),
    top: topOf(timeline),
    again: readAgain(timeline),
  };
}

/** What the tokens that were missed took: they were written to the cache, or sent without it. */
function dollarsFor({ missed, usage, cost }: Moment): number {
  if (!missed || !usage || !cost) return 0;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

function missedIn(moments: Moment[]): Pick<Diagnosis, "missed" | "anew"> {
  const causes = new Map<string, Cause>();
  const isPriced = moments.some(({ cost }) => cost);
  for (const [at, moment] of moments.entries()) {
    if (!moment.missed) continue;
    const { why, tokens } = moment.missed;
    const cause = causes.get(why) ?? { why, count: 0, tokens: 0, dollars: isPriced ? 0 : undefined, at };
    if (tokens > (moments[cause.at]?.missed?.tokens ?? 0)) cause.at = at;
    cause.count++;
    cause.tokens += tokens;
    if (cause.dollars !== undefined) cause.dollars += dollarsFor(moment);
    causes.set(why, cause);
  }
  const anew = causes.get("compaction");
  causes.delete("compaction");
  const all = [...causes.values()].sort((a, b) => b.tokens - a.tokens);
  const tokens = all.reduce((sum, cause) => sum + cause.tokens, 0);
  const dollars = isPriced ? all.reduce((sum, { dollars = 0 }) => sum + dollars, 0) : undefined;
  return { missed: { tokens, dollars, causes: all }, anew };
}

function topOf({ moments, series }: Timeline): Diagnosis["top"] {
  const most = moments.reduce((largest, { tokens }) => Math.max(largest, tokens), 0);
  const at = moments.findIndex(({ tokens }) => tokens === most);
  const sizes = moments[at]?.sizes ?? [];
  const size = Math.max(0, ...sizes);
  return size > 0 ? { series: series[sizes.indexOf(size)] ?? "", share: size / most, at } : undefined;
}

/** Of the files that were read more than once, the one whose further reads took most. */
function readAgain(timeline: Timeline): Found | undefined {
  const reads = new Map<string, Block[]>();
  for (const block of timeline.blocks) {
    const isRead = block.kind === "result" && /^read/i.test(block.tool ?? "") && block.original === undefined;
    if (isRead) reads.set(block.label, [...(reads.get(block.label) ?? []), block]);
  }
  const furtherIn = (all: Block[]) => charsOf(all.slice(1));
  const again = [...reads.values()].sort((a, b) => furtherIn(b) - furtherIn(a))[0] ?? [];
  const firsts = firstPrompts(timeline);
  const block = again.findLast(({ id }) => firsts.has(id));
  const at = firsts.get(block?.id ?? -1);
  if (again.length < 2 || !block || at === undefined) return undefined;
  return { block, count: again.length, tokens: charsOf(again) / (timeline.moments[at]?.charsPerToken ?? 1), at };
}

const charsOf = (blocks: Block[]) => blocks.reduce((sum, { chars }) => sum + chars, 0);

/** By block, the first model call that had it in its prompt. */
function firstPrompts({ moments, epochs }: Timeline): Map<number, number> {
  const firsts = new Map<number, number>();
  let [last, known] = [-1, 0];
  for (const [i, { epoch, length }] of moments.entries()) {
    const ids = epochs[epoch]?.slice(epoch === last ? known : 0, length) ?? [];
    for (const id of ids) if (!firsts.has(id)) firsts.set(id, i);
    [last, known] = [epoch, length];
  }
  return firsts;
}
