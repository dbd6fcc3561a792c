/** The diagnosis in words: what a session cost, what cache misses took of that and why, and what filled it. */
import type { Cause, Diagnosis } from "./diagnosis.ts";
import { counted, dollars, percent, shortened, whole } from "./numbers.ts";

/** A sentence; what has the index of a model call leads there. */
type Sentence = (string | { text: string; call: number })[];
/** `nameOf`: what a series of the timeline is called. */
type Sentences = (diagnosis: Diagnosis, nameOf: (series: string) => string) => Sentence[];

type Causes = Record<Cause["why"], string>;

/** Parts with `between` between them. */
const joined = (parts: Sentence[], between: string): Sentence =>
  parts.flatMap((part, i) => (i === 0 ? part : [between, ...part]));

/** What misses took of all that was paid, or of all that was sent. */
const shareOf = ({ missed, dollars, sent }: Diagnosis): number =>
  dollars ? (missed.dollars ?? 0) / dollars : missed.tokens / sent;

const ENGLISH: Causes = {
  pause: "after a long pause",
  compaction: "after a compaction",
  model: "after a change of model",
  changed: "for a reason that is not in the file",
};

const english: Sentences = (d, nameOf) => [englishCost(d), englishMisses(d), englishFilling(d, nameOf)];

function englishCost(d: Diagnosis): Sentence {
  const all = `${counted(d.calls, "model call")} sent ${d.isCounted ? "" : "about "}${whole(d.sent)} tokens`;
  const most = { text: `call ${whole(d.most + 1)}`, call: d.most };
  if (d.dollars === undefined) {
    const why = d.models.length > 0 ? `no price is known for ${d.models.join(", ")}` : "the file names no model";
    return [`What it cost is not known, as ${why}: ${all}. The largest prompt is that of `, most, "."];
  }
  const parts = [`It cost ${d.isEstimate ? "about " : ""}${dollars(d.dollars)}`];
  const { count, dollars: paid } = d.summaries;
  const summaries = counted(count, "summary", "summaries");
  if (paid !== undefined) parts.push(`${dollars(paid)} of it for ${summaries}`);
  else if (count > 0) parts.push(`without ${summaries}, whose cost is not in the file`);
  if (d.unpaid > 0) parts.push(`without ${counted(d.unpaid, "call")} of unknown price`);
  return [`${parts.join(", ")}: ${all}. The most expensive is `, most, "."];
}

function englishMisses(d: Diagnosis): Sentence {
  const { missed, anew } = d;
  if (!d.isCounted && missed.causes.length === 0) return ["The file does not say what was read from the prompt cache."];
  const after: Sentence = [];
  if (anew) {
    const paid = anew.dollars === undefined ? `${whole(anew.tokens)} tokens` : dollars(anew.dollars);
    const link = { text: `${counted(anew.count, "prompt")} ${ENGLISH.compaction}`, call: anew.at };
    after.push(" ", link, ` ${anew.count === 1 ? "was" : "were"} written anew: ${paid}.`);
  }
  if (missed.causes.length === 0) return ["The prompt cache was never missed.", ...after];
  const all = missed.causes.map(({ why, count, dollars: paid, at }): Sentence => {
    const link = { text: `${whole(count)} ${ENGLISH[why]}`, call: at };
    return paid === undefined ? [link] : [link, ` (${dollars(paid)})`];
  });
  const took = missed.dollars === undefined ? "" : `${dollars(missed.dollars)}, `;
  const of = d.dollars === undefined ? "of all tokens" : "of it";
  const tokens = `${whole(missed.tokens)} tokens were paid in full`;
  return [`Cache misses took ${took}${percent(shareOf(d))} ${of}: ${tokens}, `, ...joined(all, ", "), ".", ...after];
}

function englishFilling({ top, again }: Diagnosis, nameOf: (series: string) => string): Sentence {
  if (!top) return ["No prompt had anything in it."];
  const link = { text: "the largest prompt", call: top.at };
  const first: Sentence = [`${percent(top.share)} of `, link, ` was ${nameOf(top.series)}.`];
  if (!again) return [...first, " No file was read twice."];
  const read = ` was read ${again.count === 2 ? "twice" : `${again.count} times`}, about ${whole(again.tokens)} tokens in all.`;
  return [...first, " ", { text: shortened(again.block.label), call: again.at }, read];
}

const CHINESE: Causes = {
  pause: "长时间停顿之后",
  compaction: "压缩之后",
  model: "更换模型之后",
  changed: "看不出原因的",
};

const chinese: Sentences = (d, nameOf) => [chineseCost(d), chineseMisses(d), chineseFilling(d, nameOf)];

function chineseCost(d: Diagnosis): Sentence {
  const all = `${whole(d.calls)} 次模型调用${d.isCounted ? "" : "约"}发送了 ${whole(d.sent)} token`;
  const most = { text: `第 ${whole(d.most + 1)} 次调用`, call: d.most };
  if (d.dollars === undefined) {
    const why = d.models.length > 0 ? `${d.models.join("、")} 的价格未知` : "文件里没有模型名称";
    return [`费用未知，因为${why}：${all}。提示词最大的是`, most, "。"];
  }
  const parts = [`${d.isEstimate ? "费用约" : "费用"} ${dollars(d.dollars)}`];
  const { count, dollars: paid } = d.summaries;
  if (paid !== undefined) parts.push(`其中 ${whole(count)} 次摘要花费 ${dollars(paid)}`);
  else if (count > 0) parts.push(`不含 ${whole(count)} 次摘要（其费用不在文件里）`);
  if (d.unpaid > 0) parts.push(`不含 ${whole(d.unpaid)} 次价格未知的调用`);
  return [`${parts.join("，")}：${all}。最贵的是`, most, "。"];
}

function chineseMisses(d: Diagnosis): Sentence {
  const { missed, anew } = d;
  if (!d.isCounted && missed.causes.length === 0) return ["文件里没有记录从提示词缓存读取了多少。"];
  const after: Sentence = [];
  if (anew) {
    const paid = anew.dollars === undefined ? `${whole(anew.tokens)} token` : dollars(anew.dollars);
    after.push(
      { text: `${CHINESE.compaction}的 ${whole(anew.count)} 个提示词`, call: anew.at },
      `重新写入缓存：${paid}。`,
    );
  }
  if (missed.causes.length === 0) return ["没有出现过缓存未命中。", ...after];
  const all = missed.causes.map(({ why, count, dollars: paid, at }): Sentence => {
    const link = { text: `${CHINESE[why]} ${whole(count)} 次`, call: at };
    return paid === undefined ? [link] : [link, `（${dollars(paid)}）`];
  });
  const took = missed.dollars === undefined ? "" : ` ${dollars(missed.dollars)}，`;
  const of = d.dollars === undefined ? "全部 token 的 " : "总费用的 ";
  const tokens = `${whole(missed.tokens)} token 按全价计费，`;
  return [`缓存未命中花费${took}占${of}${percent(shareOf(d), "%")}：${tokens}`, ...joined(all, "，"), "。", ...after];
}

function chineseFilling({ top, again }: Diagnosis, nameOf: (series: string) => string): Sentence {
  if (!top) return ["所有提示词都是空的。"];
  const link = { text: "最大的提示词", call: top.at };
  const first: Sentence = [link, `中，${nameOf(top.series)}占 ${percent(top.share, "%")}。`];
  if (!again) return [...first, "没有文件被重复读取。"];
  const read = ` 被读取了 ${again.count} 次，共约 ${whole(again.tokens)} token。`;
  return [...first, { text: shortened(again.block.label), call: again.at }, read];
}

export const SENTENCES: Record<"en" | "zh", Sentences> = { en: english, zh: chinese };
