/** Puts the diagnosis into four large figures, each with a sentence or two. */
import type { Step } from "../trace/timeline.ts";
import type { Cause, Diagnosis } from "./diagnosis.ts";
import { dollars, percent } from "./format.ts";
import { nameOfSeries } from "./labels.ts";
import type { Words } from "./languages.ts";

/** A part with a step becomes a link to it. */
export type Sentence = (string | { text: string; step: Step })[];
export type LargeFigure = { about: string; value: string; sentence: Sentence };

export const largeFigures = (found: Diagnosis, words: Words): LargeFigure[] => [
  costFigure(found, words),
  largestFigure(found, words),
  coldFigure(found, words),
  takenFigure(found, words),
];

const callAt = (at: number, words: Words) => ({ text: words.diagnosis.call(at + 1), step: { call: at } });

function costFigure({ dollars: all, summaries, unpaid, ...found }: Diagnosis, words: Words): LargeFigure {
  const { about, ...say } = words.diagnosis;
  if (all === undefined) {
    const value = words.about(words.tokens(found.sent), !found.isCounted);
    return { about: about.sent, value, sentence: [say.calls(found.calls), say.unpriced] };
  }
  const { at, dollars: most } = found.dearest;
  const sentence: Sentence = [say.calls(found.calls), say.dearest, callAt(at, words), say.paid(dollars(most))];
  if (summaries.paid > 0) sentence.push(say.summaries(summaries.paid, dollars(summaries.dollars)));
  if (summaries.unpaid > 0) sentence.push(say.otherSummaries(summaries.unpaid));
  if (unpaid > 0) sentence.push(say.unpaid(unpaid));
  return { about: about.cost, value: words.about(dollars(all), found.isEstimate), sentence };
}

function largestFigure({ largest, isCounted }: Diagnosis, words: Words): LargeFigure {
  const { at, tokens, capacity, top, unexplained } = largest;
  const { about, ...say } = words.diagnosis;
  const shares = top.map(({ series, share }) => say.share(percent(share), nameOfSeries(series, words)));
  const share = capacity ? say.ofCapacity(percent(capacity.share), capacity.kind) : "";
  const value = words.about(words.tokens(tokens), !isCounted);
  const rest = unexplained < 0.005 ? "" : say.unexplained(percent(unexplained));
  const sentence = [say.at, callAt(at, words), share, say.filledBy(shares.join(say.comma)), rest];
  return { about: about.largest, value, sentence };
}

function coldFigure({ cold, compacted, isCounted, dollars: all, sent, calls }: Diagnosis, words: Words): LargeFigure {
  const { about, ...say } = words.diagnosis;
  if (!isCounted && cold.count === 0) return { about: about.cold, value: say.unknown, sentence: [say.uncounted] };
  const amountOf = ({ tokens, dollars: paid }: Pick<Cause, "tokens" | "dollars">) =>
    paid === undefined ? words.tokens(tokens) : dollars(paid);
  const share = cold.dollars !== undefined && all ? cold.dollars / all : cold.tokens / sent;
  const sentence: Sentence = [cold.count === 0 ? say.hit : say.missed(amountOf(cold), percent(share))];
  for (const [i, { count, why, at }] of cold.causes.entries())
    sentence.push(i > 0 ? say.comma : "", { text: say.cause(count, why), step: { call: at } });
  if (cold.count > 0) sentence.push(say.end);
  if (compacted) {
    const link = { text: say.prompts(compacted.count), step: { call: compacted.at } };
    sentence.push(say.compacted, link, say.amount(amountOf(compacted)));
  }
  return { about: about.cold, value: say.countOf(cold.count, calls), sentence };
}

function takenFigure({ taken }: Diagnosis, words: Words): LargeFigure {
  const { count, cleared, tokens, isEstimate, top, lost } = taken;
  const { about, ...say } = words.diagnosis;
  const value = words.about(words.tokens(tokens), isEstimate);
  if (count === 0) return { about: about.taken, value, sentence: [say.neverCompacted] };
  const kinds = top.map((each) => say.takenOf(each.tokens, nameOfSeries(each.series, words)));
  const what = kinds.length > 0 ? say.mostly(kinds.join(say.comma)) : say.takenUnknown;
  const sentence: Sentence = [say.compactions(count, cleared), what];
  if (lost) {
    const link = { text: say.after(count, lost.modelCall + 1), step: { compaction: lost.compaction } };
    sentence.push(link, say.lost(lost.paths));
  }
  return { about: about.taken, value, sentence };
}
