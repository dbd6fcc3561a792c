/** What the viewer says, in each language. */
import type { Skipped } from "../sessions/conversation.ts";
import { nameOf, type Shown } from "./elements.ts";
import type { Lost } from "./lost.ts";
import { sumOf } from "./prices.ts";
import type { Listed } from "./sessions-list.ts";
import type { Missed, Moment, Timeline } from "./timeline.ts";
import { type Compaction, dollarsOf, type Fate, type Fault, isClearing, largestOf } from "./timeline.ts";

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
    thought: "thinking that is now text",
    summarized: "summarized",
    disk: "cleared: only on disk",
    withdrawn: "taken out",
  } satisfies Record<Fate, string>,
  triggers: {
    auto: "past the limit (auto)",
    pause: "the user paused, while the cache was warm (pause)",
    tool: "the model asked for it (compact)",
    manual: "the user asked for it (/compact)",
    reactive: "the prompt was too long (reactive)",
    micro: "old results cleared (layer 1)",
    rejected: "the API rejected the request",
    refused: "the model refused",
    resume: "resumed",
  } as Record<string, string>,
  axis: { context: "tokens of the prompt", cache: "tokens of the prompt by cache", cost: "cost" },
  request: "model call",
  overTime: "Over time",
  atRequest: (n: number, of: number) => `At model call ${n} of ${of}`,
  atCompaction: (n: number, of: number) => `At the compaction ${n > of ? "at the end" : `before model call ${n}`}`,
  compactions: "Compactions",
  at: ({ moments }: Timeline, index: number) => facts(`${index + 1} / ${moments.length}`, en, moments[index]),
  dollars: (dollars: number) =>
    dollars > 0 && dollars < 0.0005 ? "<$0.001" : `$${dollars.toFixed(dollars > 0 && dollars < 0.0995 ? 3 : 2)}`,
  share: (share: number, of: string) => `${Math.round(100 * share)} % of the ${of}`,
  estimate: "estimated from the blocks, as the file has only a part of the count",
  missed: ({ why, tokens }: Missed, { gap = 0, usage }: Moment) => {
    const reasons = {
      pause: `${whole(gap / 60_000)} min had passed since the model call before, and the cache lives ${usage?.isHour ? "an hour" : "5 min"}`,
      compaction: "a compaction had replaced the prompt that was in it",
      model: "another model answers, and each has its own cache",
      changed: "the prompt no longer begins as before; the file does not say what changed in it",
    };
    return `The prompt cache was missed: ${reasons[why]}. Up to ${whole(tokens)} tokens were not read from it.`;
  },
  requests: "Requests",
  requestOf: (n: number) => `Request ${n}:`,
  asked: (n: number, text: string, calls: Moment[]) =>
    [`${n} · ${text}`, counted(calls.length, "call"), ...dollarsIn(en, calls)].join(" · "),
  largest: "The largest in this context, and what is in it more than once",
  consumer: ({ all: [first, ...more], tokens, share }: Group) =>
    `${first ? shortened(nameOf(first)) : ""}${more.length > 0 ? ` × ${more.length + 1}` : ""} · ${whole(tokens)} tokens · ${Math.round(100 * share)} %`,
  lost: "Named before, and by nothing that was left",
  lostKind: (kind: Lost["kind"], count: number, most: number) =>
    `${whole(count)} ${kind}${count > most ? `, the ${most} named most` : ""}:`,
  thought: "This was thinking. Its text is the same; the API takes it as a reply now.",
  sessions: (count: number) => `Sessions (${count})`,
  listed: ({ calls, compactions, bytes }: Listed) =>
    `${counted(calls, "model call")} · ${counted(compactions, "compaction")} · ${kilobytes(bytes)}`,
  ofSubagent: "subagent",
  live: "The picture follows the file.",
  stopped: "npm run view has ended: the picture no longer follows the file.",
  before: "Before",
  after: "After",
  tokens: (tokens: number) => `${whole(tokens)} tokens`,
  short: (tokens: number) => (tokens < 1_000 ? whole(tokens) : `${Number((tokens / 1_000).toFixed(1))}k`),
  limit: (tokens: number, source: "recorded" | "window") =>
    `${source === "window" ? "context window" : "limit"} ${whole(tokens)}`,
  marks: {
    ...{ cold: "prompt cache missed", text: "compaction: what it took away", withdrawn: "a request taken out" },
    ...{ disk: "layer 1: old results cleared", request: "a request of the user" },
  } as Record<string, string>,
  time: (time: number) => new Date(time).toLocaleString("en"),
  blocks: (count: number) => counted(count, "block"),
  group: (count: number) => `${whole(count)} small blocks`,
  hint: "← → steps through the model calls, ↑ ↓ through the blocks. Select a block to read it.",
  notInFile: "The system prompt and the definitions of the tools are not in the file; only their size is known.",
  original: "Cleared from the context. What the file still has:",
  search: "Search in this context",
  next: "Next",
  previous: "Previous",
  hits: (n: number, of: number) => (of === 0 ? "no hits" : `${n} of ${of}${of >= MOST_HITS ? "+" : ""}`),
  open: "Open your own session",
  cost: (dollars: number, unpaid: number, summaries?: number) =>
    `The model calls shown cost ${en.dollars(dollars)}${unpaid > 0 ? `, without ${counted(unpaid, "call")} that no price is known for` : ""}; ${summaries === undefined ? "what summaries cost is not in the file" : `those for summaries ${en.dollars(summaries)} more`}.`,
  prices: (model: string, list?: string) =>
    list ? `${model}, a million tokens (November 2026): ${list}.` : `${model}: its prices are not known here.`,
  noModel: "The file names no model, so only tokens are shown.",
  estimates: (count: number) => `The output of ${counted(count, "call")} is estimated from the blocks.`,
  demo: "The context of s06 in npm run demo, model call by model call",
  overview: (timeline: Timeline) =>
    `${timeline.format}: ${counted(timeline.moments.length, "model call")}, ${counted(timeline.compactions.length, "compaction")}${clearings(timeline, (n) => ` (${n} of layer 1)`)}, largest prompt ${whole(largestOf(timeline))} tokens.`,
  source: ({ source: { by, charsPerToken, isSystemKnown } }: Timeline) => {
    const ratio = [...new Set(charsPerToken.map((each) => each.toFixed(1)))].join(" to ");
    const texts = {
      counted: `Sizes of prompts: counted by the API. Their parts are shares by characters (${ratio} a token); system and tools are what the blocks in the file leave unexplained.`,
      recorded: `Sizes are estimated with the transcript's own characters per token (${ratio}), which s06 corrects by what the API counts.`,
      assumed: `Sizes are estimated at ${ratio} characters a token: the file holds no counts.`,
    };
    const system = isSystemKnown ? "" : " System and tools are missing: nothing in the file tells their size.";
    return texts[by] + system;
  },
  skipped: ({ reason, count, lines }: Skipped) =>
    `${whole(count)} × ${reason}${lines.length > 0 ? ` (line ${lines.join(", ")}${count > lines.length ? ", …" : ""})` : ""}`,
  leftOut: "Left out",
  nothing: "The file has messages, but no reply of a model: there is no model call to show.",
  took: ({ moment, trigger, before, after }: Compaction, of: number) =>
    `${moment < of ? moment + 1 : "end"} · ${trigger}: ${whole(before.tokens)} → ${whole(after.tokens)}`,
};
type Group = { all: Shown[]; tokens: number; share: number };
const dollarsIn = (words: Pick<Words, "dollars">, calls: Moment[]) => {
  const dollars = dollarsOf(calls);
  return dollars === undefined ? [] : [words.dollars(dollars)];
};
const facts = (place: string, words: Pick<Words, "tokens" | "dollars">, moment?: Moment): string =>
  [place, words.tokens(moment?.tokens ?? 0), ...(moment?.cost ? [words.dollars(sumOf(moment.cost))] : [])].join(" · ");
const clearings = ({ compactions }: Timeline, say: (count: number) => string) => {
  const count = compactions.filter(isClearing).length;
  return count > 0 ? say(count) : "";
};
/** With its end, which tells paths apart. */
const shortened = (text: string) => (text.length > 90 ? `${text.slice(0, 30)} … ${text.slice(-56)}` : text);
const kilobytes = (bytes: number) => `${Math.ceil(bytes / 1_000).toLocaleString("en-US")} kB`;

/** Hits are counted up to here. */
export const MOST_HITS = 5_000;
const whole = (value: number) => Math.round(value).toLocaleString("en-US");
const counted = (count: number, thing: string) => `${whole(count)} ${thing}${count === 1 ? "" : "s"}`;
export type Words = typeof en;

const REASONS: [RegExp, string][] = [
  [/^broken line$/, "无法解析的行"],
  [/^line of a subagent$/, "子智能体的行"],
  [/^line of an abandoned branch$/, "被放弃的分支"],
  [/^reply of the client$/, "客户端生成的回复"],
  [/^(.*) line$/, "$1 类型的行"],
];

const TRIGGERS: Record<string, string> = {
  ...{ auto: "自动", pause: "停顿", tool: "模型要求", manual: "用户要求", reactive: "过长", micro: "清除" },
  ...{ rejected: "被拒绝", refused: "拒答", resume: "恢复" },
};

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
  fates: {
    kept: "原样保留",
    thought: "思考，已变为正文",
    summarized: "写进摘要",
    disk: "已清除，只在磁盘上",
    withdrawn: "已撤回",
  },
  triggers: {
    auto: "超过上限（auto）",
    pause: "用户停顿期间，缓存仍有效（pause）",
    tool: "模型要求（compact）",
    manual: "用户要求（/compact）",
    reactive: "提示词过长（reactive）",
    micro: "清除旧的工具结果（第一层）",
    rejected: "API 拒绝了请求",
    refused: "模型拒绝回答",
    resume: "恢复会话",
  },
  axis: { context: "提示词的 token 数", cache: "提示词的 token 数（按缓存）", cost: "费用" },
  request: "模型调用",
  overTime: "随时间变化",
  atRequest: (n, of) => `第 ${n} 次模型调用（共 ${of} 次）`,
  atCompaction: (n, of) => (n > of ? "会话结尾处的压缩" : `第 ${n} 次模型调用之前的压缩`),
  at: ({ moments }, index) => facts(`${index + 1} / ${moments.length}`, zh, moments[index]),
  dollars: en.dollars,
  share: (share, of) => `占${of}的 ${Math.round(100 * share)} %`,
  estimate: "按内容块估算：文件里只记录了一部分",
  missed: ({ why, tokens }, { gap = 0, usage }) => {
    const reasons = {
      pause: `距上一次模型调用已过 ${whole(gap / 60_000)} 分钟，而缓存只保留${usage?.isHour ? "一小时" : " 5 分钟"}`,
      compaction: "压缩替换了缓存里的提示词",
      model: "换了模型，每个模型的缓存各自独立",
      changed: "提示词的开头变了，文件里看不出变了什么",
    };
    return `未命中提示词缓存：${reasons[why]}。至多 ${whole(tokens)} token 没有从缓存读取。`;
  },
  requests: "用户请求",
  requestOf: (n) => `请求 ${n}：`,
  asked: (n, text, calls) => [`${n} · ${text}`, `${whole(calls.length)} 次调用`, ...dollarsIn(zh, calls)].join(" · "),
  largest: "这个上下文里最大的内容，以及重复出现的内容",
  consumer: ({ all: [first, ...more], tokens, share }) =>
    `${first ? shortened(nameOf(first)) : ""}${more.length > 0 ? ` × ${more.length + 1}` : ""} · ${whole(tokens)} token · ${Math.round(100 * share)} %`,
  lost: "之前提到过、压缩后再没有提到的内容",
  lostKind: (kind, count, most) =>
    `${whole(count)} 个${{ paths: "路径", names: "名称", values: "值" }[kind]}${count > most ? `，列出提到最多的 ${most} 个` : ""}：`,
  thought: "这原是思考；文字未变，现在作为模型回复发给 API。",
  sessions: (count) => `会话（${count}）`,
  listed: ({ calls, compactions, bytes }) =>
    `${whole(calls)} 次模型调用 · ${whole(compactions)} 次压缩 · ${kilobytes(bytes)}`,
  ofSubagent: "子智能体",
  live: "图会随文件更新。",
  stopped: "npm run view 已结束，图不再随文件更新。",
  compactions: "压缩",
  before: "压缩前",
  after: "压缩后",
  tokens: (tokens) => `${whole(tokens)} token`,
  short: en.short,
  limit: (tokens, source) => `${source === "window" ? "上下文窗口" : "上限"} ${whole(tokens)}`,
  marks: {
    ...{ cold: "未命中提示词缓存", text: "压缩：去掉了多少", withdrawn: "撤回的请求" },
    ...{ disk: "第一层：清除旧的工具结果", request: "用户请求" },
  },
  time: (time) => new Date(time).toLocaleString("zh"),
  blocks: (count) => `${whole(count)} 块`,
  group: (count) => `${whole(count)} 个小块`,
  hint: "← → 切换模型调用，↑ ↓ 切换内容块；选中一块即可阅读原文。",
  notInFile: "系统提示词和工具定义不在文件里，只知道大小。",
  original: "已从上下文中清除，文件里仍保留原文：",
  search: "在此上下文中搜索",
  next: "下一个",
  previous: "上一个",
  hits: (n, of) => (of === 0 ? "没有结果" : `${n} / ${of}${of >= MOST_HITS ? "+" : ""}`),
  open: "打开自己的会话",
  cost: (dollars, unpaid, summaries) =>
    `图中的模型调用共花费 ${zh.dollars(dollars)}${unpaid > 0 ? `，其中 ${whole(unpaid)} 次调用没有已知价格，未计入` : ""}；${summaries === undefined ? "写摘要的费用不在文件里" : `写摘要另花费 ${zh.dollars(summaries)}`}。`,
  prices: (model, list) => {
    const chinese = list
      ?.replace("input", "输入")
      .replace("read from the cache", "读缓存")
      .replace("written", "写缓存");
    const rest = chinese?.replace("for an hour", "保留一小时").replace("output", "输出").replaceAll(", ", "，");
    return rest ? `${model} 每百万 token 的价格（2026 年 11 月）：${rest}。` : `${model}：价格未知。`;
  },
  noModel: "文件里没有模型名称，因此只显示 token 数。",
  estimates: (count) => `其中 ${whole(count)} 次调用的输出按内容块估算。`,
  demo: "npm run demo 中 s06 的上下文：每次模型调用由什么组成",
  overview: (timeline) =>
    `${timeline.format}：${whole(timeline.moments.length)} 次模型调用，${whole(timeline.compactions.length)} 次压缩${clearings(timeline, (n) => `（其中第一层 ${n} 次）`)}，最大的提示词 ${whole(largestOf(timeline))} token。`,
  source: ({ source: { by, charsPerToken, isSystemKnown } }) => {
    const ratio = [...new Set(charsPerToken.map((each) => each.toFixed(1)))].join("–");
    const texts = {
      counted: `提示词大小由 API 计数；各部分按字符数分摊（每个 token ${ratio} 个字符），文件中的内容解释不了的部分算作系统提示词与工具。`,
      recorded: `大小按会话记录里的字符/token 比（${ratio}）估算，s06 会用 API 的计数校正这个比值。`,
      assumed: `大小按每个 token ${ratio} 个字符估算：文件里没有计数。`,
    };
    const system = isSystemKnown ? "" : "不含系统提示词与工具：从文件里看不出它们的大小。";
    return texts[by] + system;
  },
  skipped: ({ reason, count, lines }) => {
    const [pattern = /$^/, text = ""] = REASONS.find(([each]) => each.test(reason)) ?? [];
    const places = lines.length > 0 ? `（第 ${lines.join("、")} 行${count > lines.length ? " …" : ""}）` : "";
    return `${reason.replace(pattern, text)} × ${whole(count)}${places}`;
  },
  leftOut: "未显示",
  nothing: "文件里有消息，但没有模型的回复，因此没有可以显示的模型调用。",
  took: ({ moment, trigger, before, after }, of) =>
    `${moment < of ? moment + 1 : "结尾"} · ${TRIGGERS[trigger] ?? trigger}：${whole(before.tokens)} → ${whole(after.tokens)}`,
};

export const WORDS: Record<Language, Words> = { en, zh };

/** A series of a timeline in words. */
export const nameOfSeries = (name: string, words: Words): string =>
  name.startsWith("result:") ? words.results(name.slice(7)) : (words.kinds[name] ?? name);
