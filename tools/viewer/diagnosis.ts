/** What a session cost, what of that its cache misses took, and what was largest: each with a model call that shows it. */
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
  largest?: Found;
  /** Of all files that were read more than once, the one whose further reads took most. */
  again?: Found;
};
/** Misses of one kind: how many, and the call of the largest. */
export type Cause = { why: Missed["why"]; count: number; tokens: number; dollars?: number; at: number };
/** A block, or several that a call with the same label returned: the first call with (all of) them, and how many had it. */
export type Found = { block: Block; count: number; tokens: number; at: number; prompts: number };

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
    missed: missedIn(moments),
    ...foundIn(timeline),
  };
}

/** What the tokens that were missed took: they were written to the cache, or sent without it. */
function dollarsFor({ missed, usage, cost }: Moment): number {
  if (!missed || !usage || !cost) return 0;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

function missedIn(moments: Moment[]): Diagnosis["missed"] {
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
  const all = [...causes.values()].sort((a, b) => b.tokens - a.tokens);
  const tokens = all.reduce((sum, cause) => sum + cause.tokens, 0);
  return {
    tokens,
    dollars: isPriced ? all.reduce((sum, { dollars = 0 }) => sum + dollars, 0) : undefined,
    causes: all,
  };
}

function foundIn(timeline: Timeline): Pick<Diagnosis, "largest" | "again"> {
  const firsts = firstPrompts(timeline);
  const shown = timeline.blocks.filter(({ id }) => firsts.has(id));
  const largest = shown.reduce((most, block) => (block.chars > most.chars ? block : most), shown[0] ?? NOTHING);
  const reads = new Map<string, Block[]>();
  for (const block of timeline.blocks) {
    const isRead = block.kind === "result" && /^read/i.test(block.tool ?? "") && block.original === undefined;
    if (isRead) reads.set(block.label, [...(reads.get(block.label) ?? []), block]);
  }
  const furtherIn = (all: Block[]) => charsOf(all.slice(1));
  const again = [...reads.values()].sort((a, b) => furtherIn(b) - furtherIn(a))[0] ?? [];
  const find = (all: Block[]): Found | undefined => {
    const block = all.findLast(({ id }) => firsts.has(id));
    const at = firsts.get(block?.id ?? -1);
    if (!block || at === undefined) return undefined;
    const tokens = charsOf(all) / (timeline.moments[at]?.charsPerToken ?? 1);
    return { block, count: all.length, tokens, at, prompts: promptsWith(timeline, block) };
  };
  return { largest: find([largest]), again: again.length > 1 ? find(again) : undefined };
}

const NOTHING: Block = { id: -1, kind: "reply", label: "", text: "", chars: 0 };
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

/** How many model calls had a block in their prompt. */
function promptsWith({ moments, epochs }: Timeline, { id }: Block): number {
  const places = epochs.map((ids) => ids.indexOf(id));
  const isIn = (place: number, length: number) => place >= 0 && place < length;
  return moments.filter(({ epoch, length }) => isIn(places[epoch] ?? -1, length)).length;
}
