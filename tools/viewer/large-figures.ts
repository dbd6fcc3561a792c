/** The four large figures: what a session cost, its largest prompt, its cold calls, and what compactions took. */

import { sumOf } from "../prices.ts";
import { groupBy, largestOf, sum, whole } from "../trace/numbers.ts";
import { type Compaction, dollarsOf, isMissed, type ModelCall, type Side, type Timeline } from "../trace/timeline.ts";
import type { Selection } from "./address.ts";
import { dollars, percent } from "./format.ts";
import { nameOfSeries } from "./labels.ts";
import type { Words } from "./languages.ts";
import { lostPaths } from "./lost.ts";
import { changesIn, seriesOf, sizesOf } from "./series.ts";

/** A part with a step becomes a link to it. */
export type Sentence = (string | { text: string; step: Selection })[];
export type LargeFigure = { about: string; value: string; unit?: string; sentence: Sentence };

const MOST_NAMED = 3; // kinds of content

export const largeFigures = (timeline: Timeline, words: Words): LargeFigure[] => [
  costFigure(timeline, words),
  largestFigure(timeline, words),
  coldFigure(timeline, words),
  takenFigure(timeline, words),
];

const inTokens = (tokens: number, isEstimate: boolean, words: Words) => {
  return { value: words.about(whole(tokens), isEstimate), unit: words.figures.tokens };
};
const linkTo = (call: number, words: Words) => ({ text: words.figures.call(call + 1), step: { call } });
const isCounted = ({ modelCalls }: Timeline) => modelCalls.every(({ usage }) => usage);
const sentTokens = ({ modelCalls }: Timeline) => sum(modelCalls.map(({ tokens }) => tokens));

// --- what it cost ----------------------------------------------------------------------------------------------------

/** Dollars of all calls and summaries whose price is known. */
export function totalCost({ modelCalls, compactions }: Timeline): number | undefined {
  const calls = dollarsOf(modelCalls);
  return calls === undefined ? undefined : calls + (dollarsOf(compactions) ?? 0);
}

function costFigure(timeline: Timeline, words: Words): LargeFigure {
  const { modelCalls, compactions } = timeline;
  const { about, ...say } = words.figures;
  const all = totalCost(timeline);
  if (all === undefined) {
    const sentence = [say.calls(modelCalls.length), say.unpriced];
    return { about: about.sent, ...inTokens(sentTokens(timeline), !isCounted(timeline), words), sentence };
  }
  const summaries = compactions.filter(({ isSummary }) => isSummary);
  const paid = summaries.filter(({ cost }) => cost);
  const unpaid = modelCalls.filter(({ cost }) => !cost).length;
  const dearest = largestOf(modelCalls.map(({ cost }) => sumOf(cost)));
  const most = dollars(sumOf(modelCalls[dearest]?.cost));
  const sentence: Sentence = [say.calls(modelCalls.length), say.dearest, linkTo(dearest, words), say.paid(most)];
  if (paid.length > 0) sentence.push(say.summaries(paid.length, dollars(dollarsOf(paid))));
  if (paid.length < summaries.length) sentence.push(say.otherSummaries(summaries.length - paid.length));
  if (unpaid > 0) sentence.push(say.unpaid(unpaid));
  const isEstimate = modelCalls.some((modelCall) => modelCall.isEstimate);
  return { about: about.cost, value: words.about(dollars(all), isEstimate), sentence };
}

// --- what filled it --------------------------------------------------------------------------------------------------

function largestFigure(timeline: Timeline, words: Words): LargeFigure {
  const { modelCalls, largest, capacity } = timeline;
  const { about, ...say } = words.figures;
  const modelCall = modelCalls[largest];
  const tokens = modelCall?.tokens ?? 0;
  const [unexplained = 0, ...shares] = (modelCall ? sizesOf(timeline, modelCall) : []).map((size) => size / tokens);
  const [, ...series] = seriesOf(timeline);
  const kinds = series.map((each, i) => ({ name: nameOfSeries(each, words), share: shares[i] ?? 0 }));
  const top = kinds.filter(({ share }) => share >= 0.005).sort((a, b) => b.share - a.share);
  const named = top.slice(0, MOST_NAMED).map(({ name, share }) => say.share(percent(share), name));
  const sentence = [
    say.at,
    linkTo(largest, words),
    capacity ? say.ofCapacity(percent(tokens / capacity.tokens), capacity.kind) : "",
    named.length > 0 ? say.filledBy(named.join(say.comma)) : say.end,
    unexplained < 0.005 ? "" : say.unexplained(percent(unexplained)),
  ];
  return { about: about.largest, ...inTokens(tokens, !isCounted(timeline), words), sentence };
}

// --- cold calls ------------------------------------------------------------------------------------------------------

/** The price of the missed tokens, which were written to the cache or sent without it. */
function dollarsMissed({ missed, usage, cost }: ModelCall): number | undefined {
  if (!missed || !usage || !cost) return undefined;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

const tokensMissed = (modelCalls: ModelCall[]) => sum(modelCalls.map(({ missed }) => missed?.tokens ?? 0));

/** In dollars, or else in tokens. */
function amountMissed(modelCalls: ModelCall[], words: Words): string {
  const paid = modelCalls.flatMap((modelCall) => dollarsMissed(modelCall) ?? []);
  return paid.length > 0 ? dollars(sum(paid)) : words.tokens(tokensMissed(modelCalls));
}

function coldFigure(timeline: Timeline, words: Words): LargeFigure {
  const { modelCalls } = timeline;
  const { about, ...say } = words.figures;
  const missed = modelCalls.filter(({ missed }) => missed).sort((a, b) => tokensMissed([b]) - tokensMissed([a]));
  const cold = missed.filter(isMissed);
  const compacted = missed.filter((modelCall) => !isMissed(modelCall));
  const firstOf = ([modelCall]: ModelCall[]): Selection => ({ call: modelCall && modelCalls.indexOf(modelCall) });
  if (!isCounted(timeline) && cold.length === 0)
    return { about: about.cold, value: say.unknown, sentence: [say.uncounted] };
  const paid = sum(cold.map((modelCall) => dollarsMissed(modelCall) ?? 0));
  const all = totalCost(timeline);
  const share = all ? paid / all : tokensMissed(cold) / sentTokens(timeline);
  const sentence: Sentence = [cold.length === 0 ? say.hit : say.missed(amountMissed(cold, words), percent(share))];
  const causes = [...groupBy(cold, ({ missed }) => missed?.why ?? "changed")];
  for (const [i, [why, calls]] of causes.entries()) {
    const text = say.cause(calls.length, why);
    sentence.push(i > 0 ? say.comma : "", { text, step: firstOf(calls) });
  }
  if (cold.length > 0) sentence.push(say.end);
  if (compacted.length > 0) {
    const link = { text: say.prompts(compacted.length), step: firstOf(compacted) };
    sentence.push(say.compacted, link, say.amount(amountMissed(compacted, words)));
  }
  return { about: about.cold, value: whole(cold.length), unit: say.of(modelCalls.length), sentence };
}

// --- what compactions took -------------------------------------------------------------------------------------------

const isEstimated = ({ sizeSource }: Side) => sizeSource === "estimate";
export const tokensTaken = ({ before, after }: Compaction) => before.tokens - after.tokens;

function takenFigure(timeline: Timeline, words: Words): LargeFigure {
  const { compactions } = timeline;
  const { about, ...say } = words.figures;
  const isEstimate = compactions.some(({ before, after }) => isEstimated(before) || isEstimated(after));
  const figure = { about: about.taken, ...inTokens(sum(compactions.map(tokensTaken)), isEstimate, words) };
  if (compactions.length === 0) return { ...figure, sentence: [say.neverCompacted] };
  const kinds = mostTaken(timeline, words).map(({ name, tokens }) => say.takenOf(tokens, name));
  const mostly = kinds.length > 0 ? say.mostly(kinds.join(say.comma)) : say.end;
  const sentence: Sentence = [say.compactions(compactions.length), mostly];
  const losses = compactions.map((each) => lostPaths(each).length);
  const compaction = largestOf(losses);
  const most = losses[compaction] ?? 0;
  if (most > 0) {
    const text = say.after(compactions.length, (compactions[compaction]?.modelCall ?? 0) + 1);
    sentence.push({ text, step: { compaction } }, say.lost(most));
  }
  return { ...figure, sentence };
}

/** The kinds of content of which compactions took most, largest first. */
function mostTaken(timeline: Timeline, words: Words): { name: string; tokens: number }[] {
  const changes = timeline.compactions.map((each) => changesIn(timeline, each));
  const kinds = seriesOf(timeline).map((series, i) => {
    const name = series.kind === "unexplained" ? words.figures.notInFile : nameOfSeries(series, words);
    return { name, tokens: -sum(changes.map((each) => Math.min(0, each[i] ?? 0))) };
  });
  const taken = kinds.filter(({ tokens }) => tokens >= 1).sort((a, b) => b.tokens - a.tokens);
  return taken.slice(0, MOST_NAMED);
}
