/** The diagnosis in words: what a session cost, what cache misses took of that and why, and what was largest. */
import type { Cause, Diagnosis, Found } from "./diagnosis.ts";
import { counted, dollars, percent, shortened, whole } from "./numbers.ts";

/** A sentence; what has the index of a model call leads there. */
export type Sentence = (string | { text: string; call: number })[];
/** `kinds`: of blocks, in words. */
export type Sentences = (diagnosis: Diagnosis, kinds: Record<string, string>) => Sentence[];

type Causes = Record<Cause["why"], string>;

/** Parts with `between` between them. */
const joined = (parts: Sentence[], between: string): Sentence =>
  parts.flatMap((part, i) => (i === 0 ? part : [between, ...part]));

function nameOf({ block: { kind, label } }: Found, kinds: Record<string, string>, summary: string): string {
  if (kind === "summary") return summary;
  return shortened(kind === "result" ? label : `${kinds[kind]}: ${label}`);
}

/** What misses took of all that was paid, or of all that was sent. */
const shareOf = ({ missed, dollars, sent }: Diagnosis): string =>
  percent(dollars ? (missed.dollars ?? 0) / dollars : missed.tokens / sent);

function english(d: Diagnosis, kinds: Record<string, string>): Sentence[] {
  const causes: Causes = {
    ...{ pause: "after a long pause", compaction: "after a compaction", model: "after a change of model" },
    changed: "for a reason that is not in the file",
  };
  return [englishCost(d), englishMisses(d, causes), englishLargest(d, kinds)];
}

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

function englishMisses(d: Diagnosis, causes: Causes): Sentence {
  const { missed } = d;
  if (!d.isCounted) return ["The file does not say what was read from the prompt cache."];
  if (missed.causes.length === 0) return ["The prompt cache was never missed."];
  const all = missed.causes.map(({ why, count, dollars: paid, at }): Sentence => {
    const link = { text: `${whole(count)} ${causes[why]}`, call: at };
    return paid === undefined ? [link] : [link, ` (${dollars(paid)})`];
  });
  const took = missed.dollars === undefined ? "" : `${dollars(missed.dollars)}, `;
  const of = d.dollars === undefined ? "of all tokens" : "of it";
  const tokens = `${whole(missed.tokens)} tokens were paid in full`;
  return [`Cache misses took ${took}${shareOf(d)} ${of}: ${tokens}, `, ...joined(all, ", "), "."];
}

function englishLargest({ largest, again, calls }: Diagnosis, kinds: Record<string, string>): Sentence {
  if (!largest) return ["No prompt had anything in it."];
  const link = { text: nameOf(largest, kinds, "a summary"), call: largest.at };
  const size = `about ${whole(largest.tokens)} tokens, in ${whole(largest.prompts)} of ${counted(calls, "prompt")}`;
  const first: Sentence = ["The largest thing was ", link, `, ${size}.`];
  if (!again) return [...first, " No file was read twice."];
  const read = ` was read ${again.count} times, about ${whole(again.tokens)} tokens in all.`;
  return [...first, " ", { text: shortened(again.block.label), call: again.at }, read];
}

function chinese(d: Diagnosis, kinds: Record<string, string>): Sentence[] {
  const causes: Causes = {
    pause: "长时间停顿之后",
    compaction: "压缩之后",
    model: "更换模型之后",
    changed: "原因不在文件里",
  };
  return [chineseCost(d), chineseMisses(d, causes), chineseLargest(d, kinds)];
}

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

function chineseMisses(d: Diagnosis, causes: Causes): Sentence {
  const { missed } = d;
  if (!d.isCounted) return ["文件里没有记录从提示词缓存读取了多少。"];
  if (missed.causes.length === 0) return ["提示词缓存从未落空。"];
  const all = missed.causes.map(({ why, count, dollars: paid, at }): Sentence => {
    const link = { text: `${causes[why]} ${whole(count)} 次`, call: at };
    return paid === undefined ? [link] : [link, `（${dollars(paid)}）`];
  });
  const took = missed.dollars === undefined ? "" : ` ${dollars(missed.dollars)}，`;
  const of = d.dollars === undefined ? "全部 token 的 " : "其中的 ";
  return [
    `缓存未命中花费${took}占${of}${shareOf(d)}：${whole(missed.tokens)} token 按全价计费，`,
    ...joined(all, "，"),
    "。",
  ];
}

function chineseLargest({ largest, again, calls }: Diagnosis, kinds: Record<string, string>): Sentence {
  if (!largest) return ["所有提示词都是空的。"];
  const link = { text: nameOf(largest, kinds, "一份摘要"), call: largest.at };
  const size = `约 ${whole(largest.tokens)} token，出现在 ${whole(calls)} 个提示词中的 ${whole(largest.prompts)} 个里`;
  const first: Sentence = ["最大的内容是 ", link, `，${size}。`];
  if (!again) return [...first, "没有文件被重复读取。"];
  const read = ` 被读取了 ${again.count} 次，共约 ${whole(again.tokens)} token。`;
  return [...first, { text: shortened(again.block.label), call: again.at }, read];
}

export const SENTENCES: Record<"en" | "zh", Sentences> = { en: english, zh: chinese };
