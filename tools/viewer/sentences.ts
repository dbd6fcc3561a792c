/** Puts the diagnosis into sentences. */
import type { Step } from "../trace/timeline.ts";
import type { Cause, Diagnosis } from "./diagnosis.ts";
import { dollars, percent, shortened } from "./format.ts";
import { nameOfSeries } from "./labels.ts";
import type { Words } from "./languages.ts";

/** A part with a step becomes a link to it. */
export type Sentence = (string | { text: string; step: Step })[];

export const sentencesOf = (found: Diagnosis, words: Words): { about: string; sentence: Sentence }[] => [
  { about: words.diagnosis.about.cost, sentence: costSentence(found, words) },
  { about: words.diagnosis.about.cache, sentence: missSentence(found, words) },
  { about: words.diagnosis.about.filling, sentence: fillingSentence(found, words) },
  { about: words.diagnosis.about.compactions, sentence: compactionSentence(found, words) },
];

function costSentence({ dollars: all, summaries, unpaid, dearest, ...found }: Diagnosis, words: Words): Sentence {
  const say = words.diagnosis;
  const sent = say.sent(found.calls, found.sent, found.isCounted);
  if (all === undefined) return [`${say.unpriced}${sent}`];
  const paid = [say.cost(dollars(all), found.isEstimate)];
  if (summaries.dollars !== undefined) paid.push(say.summaries(summaries.count, dollars(summaries.dollars)));
  else if (summaries.count > 0) paid.push(say.otherSummaries(summaries.count));
  if (unpaid > 0) paid.push(say.unpaid(unpaid));
  const link = { text: say.call(dearest + 1), step: { call: dearest } };
  return [`${paid.join(say.punctuation.comma)}${sent}${say.dearest}`, link, say.punctuation.end];
}

function missSentence({ missed, compacted, isCounted, dollars: all, sent }: Diagnosis, words: Words): Sentence {
  const say = words.diagnosis;
  if (!isCounted && missed.causes.length === 0) return [say.uncounted];
  const amountOf = ({ tokens, dollars: paid }: Pick<Cause, "tokens" | "dollars">) =>
    paid === undefined ? words.tokens(tokens) : dollars(paid);
  const isOtherwiseHit = missed.causes.length === 0;
  const written: Sentence = [];
  if (compacted) {
    const text = isOtherwiseHit ? say.prompts(compacted.count) : say.compacted(compacted.count);
    written.push({ text, step: { call: compacted.at } }, say.written(amountOf(compacted)));
  }
  if (isOtherwiseHit) return compacted ? [say.onlyCompacted, ...written] : [say.hit];
  const share = missed.dollars !== undefined && all ? missed.dollars / all : missed.tokens / sent;
  const causes = missed.causes.flatMap((cause, i): Sentence => {
    const link = { text: say.cause(cause.count, cause.why), step: { call: cause.at } };
    return [i > 0 ? say.punctuation.comma : "", link, say.amount(amountOf(cause))];
  });
  const misses = [say.missed(amountOf(missed), percent(share), all !== undefined), ...causes, say.punctuation.end];
  return compacted ? [...misses, say.punctuation.space, ...written] : misses;
}

function fillingSentence({ top, largest, readAgain }: Diagnosis, words: Words): Sentence {
  const say = words.diagnosis;
  const shares = top.map(({ series, share }) => say.share(nameOfSeries(series, words), percent(share)));
  const filling: Sentence = [
    { text: say.prompt, step: { call: largest } },
    say.filling(shares.join(say.punctuation.comma)),
  ];
  if (!readAgain) return [...filling, say.once];
  const { path, count, tokens, at } = readAgain;
  return [...filling, { text: shortened(path), step: { call: at } }, say.again(count, tokens)];
}

function compactionSentence(
  { compactions: { count, tokens, cleared }, summaries, lost }: Diagnosis,
  words: Words,
): Sentence {
  const say = words.diagnosis;
  if (count === 0) return [say.neverCompacted];
  const isBoth = cleared > 0 && summaries.count > 0 && cleared + summaries.count === count;
  const removed = say.removed(count, tokens) + (isBoth ? say.bothKinds(cleared, summaries.count) : "");
  if (!lost?.paths) return [removed, say.punctuation.end];
  const link = { text: say.lostPaths(lost.paths), step: { compaction: lost.compaction } };
  return [removed, say.punctuation.semicolon, link, say.lostAfter(lost.paths, count, lost.call + 1)];
}
