/** What the viewer says, in each language. */
import { type Compaction, type Fate, type Fault, largestOf, type Skipped, type Timeline } from "./model.ts";

export type Language = "en" | "zh";

const en = {
  choose: "Choose a session",
  drop: "or drop a file anywhere on this page: a transcript of s06 (.transcripts/) or a session of Claude Code (~/.claude/projects).",
  local: "It stays on your machine; nothing is uploaded.",
  reading: (name: string) => `Reading ${name} …`,
  unreadable: (name: string, reason: string) => `${name} could not be read: ${reason}. Choose the file again.`,
  faults: {
    empty: (name: string) => `${name} is empty. Choose a session that has messages in it.`,
    binary: (name: string) =>
      `${name} is not a text file. Choose a .jsonl file: a transcript of s06 or a session of Claude Code.`,
    text: (name: string) =>
      `${name} holds no lines of JSON. Choose a .jsonl file: a transcript of s06 or a session of Claude Code.`,
    json: (name: string) =>
      `${name} is JSON, but no session: it has no messages. Choose a transcript of s06 or a session of Claude Code.`,
  } satisfies Record<Fault["fault"], (name: string) => string>,
  kinds: {
    ...{ system: "system and tools", summary: "summary", file: "restored files", request: "requests" },
    ...{ reply: "replies", thinking: "thinking", call: "calls" },
    ...{ read: "read from the cache", written: "written to the cache", input: "not cached", output: "output" },
  } as Record<string, string>,
  results: (tool: string) => (tool ? `results of ${tool}` : "results of other tools"),
  fates: {
    kept: "kept word for word",
    summarized: "summarized",
    disk: "cleared: only on disk",
    withdrawn: "taken out",
  } satisfies Record<Fate, string>,
  triggers: {
    auto: "past the limit or in a pause (auto)",
    tool: "the model asked for it (compact)",
    manual: "the user asked for it (/compact)",
    reactive: "the prompt was too long (reactive)",
    micro: "old results cleared (layer 1)",
    rejected: "the API rejected the request",
    refused: "the model refused",
    resume: "resumed",
  } as Record<string, string>,
  axis: { context: "tokens of the prompt", cache: "tokens of the prompt by cache", cost: "cost, in input tokens" },
  request: "model call",
  overTime: "Over time",
  atRequest: (n: number, of: number) => `At model call ${n} of ${of}`,
  atCompaction: (n: number) => `At the compaction before model call ${n}`,
  compactions: "Compactions",
  before: "Before",
  after: "After",
  tokens: (tokens: number) => `${whole(tokens)} tokens`,
  short: (tokens: number) => (tokens < 1_000 ? whole(tokens) : `${Number((tokens / 1_000).toFixed(1))}k`),
  limit: (tokens: number, source: "inferred" | "window") =>
    `${source === "window" ? "context window" : "limit"} ${whole(tokens)}`,
  coldAfter: (minutes: number) => `${whole(minutes)} min after the model call before: the prompt cache was cold`,
  coldMark: "pause after which the prompt cache was cold",
  compactionMark: "compaction: what it took away",
  blocks: (count: number) => counted(count, "block"),
  group: (count: number) => `${whole(count)} small blocks`,
  hint: "← → steps through the model calls, ↑ ↓ through the blocks. Select a block to read it.",
  notInFile: "The system prompt and the definitions of the tools are not in the file; only their size is known.",
  cut: (shown: number, of: number) => `${whole(shown)} of ${whole(of)} characters are shown.`,
  more: "Show more",
  original: "Cleared from the context. What the file still has:",
  search: "Search in this context",
  next: "Next",
  previous: "Previous",
  hits: (n: number, of: number) => (of === 0 ? "no hits" : `${n} of ${of}${of >= MOST_HITS ? "+" : ""}`),
  open: "Open your own session",
  cost: (units: number, share: string) =>
    `Paid for the whole session: as much as ${whole(units)} input tokens, ${share} of what the same prompts cost without a cache. Prices of Sonnet 5.5 and Opus 5.5: a token read from the cache costs 0.05, written 1.25 (for an hour: 2), output 5.`,
  demo: "The context of s06 in npm run demo, model call by model call",
  overview: (timeline: Timeline) =>
    `${timeline.format}: ${counted(timeline.moments.length, "model call")}, ${counted(timeline.compactions.length, "compaction")}, largest prompt ${whole(largestOf(timeline))} tokens.`,
  source: ({ source: { by, charsPerToken, isSystemKnown, isUnclear }, limits }: Timeline) => {
    const ratio = [...new Set(charsPerToken.map((each) => each.toFixed(1)))].join(" to ");
    const texts = {
      counted: `Sizes of prompts: counted by the API. Their parts are shares by characters (${ratio} a token); system and tools are what the blocks in the file leave unexplained.`,
      recorded: `Sizes are estimated with the transcript's own characters per token (${ratio}), which s06 corrects by what the API counts.`,
      assumed: `Sizes are estimated at ${ratio} characters a token: the file holds no counts.`,
    };
    const system = isSystemKnown ? "" : " System and tools are missing: nothing in the file tells their size.";
    const inferred = limits.some(({ source }) => source === "inferred")
      ? " Where layer 1 cleared old results, and the limit, are inferred from the sizes recorded at the compactions."
      : "";
    const unclear = isUnclear
      ? " Layer 1 cleared old results, but nothing tells where: before some compactions the sizes shown are too large."
      : "";
    return texts[by] + system + inferred + unclear;
  },
  skipped: ({ reason, count, lines }: Skipped) =>
    `${whole(count)} × ${reason}${lines.length > 0 ? ` (line ${lines.join(", ")}${count > lines.length ? ", …" : ""})` : ""}`,
  leftOut: "Left out",
  nothing: "The file has messages, but no reply of a model: there is no model call to show.",
  took: ({ moment, trigger, before, after }: Compaction) =>
    `${moment + 1} · ${trigger}: ${whole(before.tokens)} → ${whole(after.tokens)}`,
};

/** Hits are counted up to here. */
export const MOST_HITS = 5_000;
const whole = (value: number) => Math.round(value).toLocaleString("en-US");
const counted = (count: number, thing: string) => `${whole(count)} ${thing}${count === 1 ? "" : "s"}`;
export type Words = typeof en;

const REASONS: [RegExp, string][] = [
  [/^broken line$/, "无法解析的行"],
  [/^line of a subagent$/, "子代理的行"],
  [/^line of an abandoned branch$/, "被放弃的分支"],
  [/^reply of the client$/, "客户端生成的回复"],
  [/^(.*) line$/, "$1 类型的行"],
];

const zh: Words = {
  choose: "选择会话文件",
  drop: "或把文件拖到页面任意位置：s06 的会话记录（.transcripts/），或 Claude Code 的会话（~/.claude/projects）。",
  local: "文件只在本机读取，不会上传。",
  reading: (name) => `正在读取 ${name} …`,
  unreadable: (name, reason) => `无法读取 ${name}：${reason}。请重新选择文件。`,
  faults: {
    empty: (name) => `${name} 是空文件。请选择一个有消息的会话。`,
    binary: (name) => `${name} 不是文本文件。请选择 .jsonl 文件：s06 的会话记录或 Claude Code 的会话。`,
    text: (name) => `${name} 里没有 JSON 行。请选择 .jsonl 文件：s06 的会话记录或 Claude Code 的会话。`,
    json: (name) => `${name} 是 JSON，但不是会话：里面没有消息。请选择 s06 的会话记录或 Claude Code 的会话。`,
  },
  kinds: {
    ...{ system: "系统提示词与工具", summary: "摘要", file: "恢复的文件", request: "用户请求" },
    ...{ reply: "模型回复", thinking: "思考", call: "工具调用" },
    ...{ read: "读缓存", written: "写缓存", input: "未缓存", output: "输出" },
  },
  results: (tool) => (tool ? `${tool} 的结果` : "其他工具的结果"),
  fates: { kept: "原样保留", summarized: "写进摘要", disk: "已清除，只在磁盘上", withdrawn: "已撤回" },
  triggers: {
    auto: "超过上限或在停顿时（auto）",
    tool: "模型要求（compact）",
    manual: "用户要求（/compact）",
    reactive: "提示词过长（reactive）",
    micro: "清除旧的工具结果（第一层）",
    rejected: "API 拒绝了请求",
    refused: "模型拒绝回答",
    resume: "恢复会话",
  },
  axis: { context: "提示词的 token 数", cache: "提示词的 token 数（按缓存）", cost: "费用（折合输入 token）" },
  request: "模型调用",
  overTime: "随时间变化",
  atRequest: (n, of) => `第 ${n} 次模型调用（共 ${of} 次）`,
  atCompaction: (n) => `第 ${n} 次模型调用之前的压缩`,
  compactions: "压缩",
  before: "压缩前",
  after: "压缩后",
  tokens: (tokens) => `${whole(tokens)} token`,
  short: en.short,
  limit: (tokens, source) => `${source === "window" ? "上下文窗口" : "上限"} ${whole(tokens)}`,
  coldAfter: (minutes) => `距上一次模型调用 ${whole(minutes)} 分钟：提示词缓存已失效`,
  coldMark: "停顿过久，提示词缓存已失效",
  compactionMark: "压缩：去掉了多少",
  blocks: (count) => `${whole(count)} 块`,
  group: (count) => `${whole(count)} 个小块`,
  hint: "← → 切换模型调用，↑ ↓ 切换内容块；选中一块即可阅读原文。",
  notInFile: "系统提示词和工具定义不在文件里，只知道大小。",
  cut: (shown, of) => `已显示 ${whole(shown)} / ${whole(of)} 个字符。`,
  more: "显示更多",
  original: "已从上下文中清除，文件里仍保留原文：",
  search: "在此上下文中搜索",
  next: "下一个",
  previous: "上一个",
  hits: (n, of) => (of === 0 ? "没有结果" : `${n} / ${of}${of >= MOST_HITS ? "+" : ""}`),
  open: "打开自己的会话",
  cost: (units, share) =>
    `整个会话的费用相当于 ${whole(units)} 个输入 token，是不用缓存时的 ${share}。按 Sonnet 5.5 与 Opus 5.5 的价格：读缓存 0.05，写缓存 1.25（保留一小时为 2），输出 5。`,
  demo: "npm run demo 中 s06 的上下文：每次模型调用由什么组成",
  overview: (timeline) =>
    `${timeline.format}：${whole(timeline.moments.length)} 次模型调用，${whole(timeline.compactions.length)} 次压缩，最大的提示词 ${whole(largestOf(timeline))} token。`,
  source: ({ source: { by, charsPerToken, isSystemKnown, isUnclear }, limits }) => {
    const ratio = [...new Set(charsPerToken.map((each) => each.toFixed(1)))].join("–");
    const texts = {
      counted: `提示词大小由 API 计数；各部分按字符数分摊（每个 token ${ratio} 个字符），文件中的内容解释不了的部分算作系统提示词与工具。`,
      recorded: `大小按会话记录里的字符/token 比（${ratio}）估算，s06 会用 API 的计数校正这个比值。`,
      assumed: `大小按每个 token ${ratio} 个字符估算：文件里没有计数。`,
    };
    const system = isSystemKnown ? "" : "不含系统提示词与工具：从文件里看不出它们的大小。";
    const isInferred = limits.some(({ source }) => source === "inferred");
    const inferred = isInferred ? "第一层清除旧结果的位置和上限，是由各次压缩记录的大小推算的。" : "";
    const unclear = isUnclear ? "第一层清除过旧结果，但无法得知位置：某些压缩之前显示的大小偏大。" : "";
    return texts[by] + system + inferred + unclear;
  },
  skipped: ({ reason, count, lines }) => {
    const [pattern = /$^/, text = ""] = REASONS.find(([each]) => each.test(reason)) ?? [];
    const places = lines.length > 0 ? `（第 ${lines.join("、")} 行${count > lines.length ? " …" : ""}）` : "";
    return `${reason.replace(pattern, text)} × ${whole(count)}${places}`;
  },
  leftOut: "未显示",
  nothing: "文件里有消息，但没有模型的回复，因此没有可以显示的模型调用。",
  took: en.took,
};

export const WORDS: Record<Language, Words> = { en, zh };

/** A series of a timeline in words. */
export const nameOfSeries = (name: string, words: Words): string =>
  name.startsWith("result:") ? words.results(name.slice(7)) : (words.kinds[name] ?? name);
