/** What the viewer says, in each language. */
import type { Skipped } from "../sessions/conversation.ts";
import type { Lost } from "./lost.ts";
import { counted, dollars, kilobytes, percent, whole } from "./numbers.ts";
import { sumOf } from "./prices.ts";
import { SENTENCES } from "./sentences.ts";
import type { Compaction, Fate, Fault, Missed, Moment, Side, Timeline } from "./timeline.ts";
import { dollarsOf, isClearing, largestOf } from "./timeline.ts";

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
    ...{ unexplained: "not in the file", summary: "summary", file: "restored files" },
    ...{ request: "requests", client: "written by the client", reply: "replies", thinking: "thinking", call: "calls" },
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
    tool: "the model asked for it (compact)",
    manual: "the user asked for it (/compact)",
    micro: "old results cleared (layer 1)",
    rejected: "the API rejected the request",
    refused: "the model refused",
    resume: "resumed",
    clear: "the user began again (/clear)",
  } as Record<string, string>,
  axis: { context: "tokens of the prompt", cache: "tokens of the prompt by cache", cost: "cost" },
  request: "model call",
  overTime: "Over time",
  atRequest: (n: number, of: number) => `At model call ${whole(n)} of ${whole(of)}`,
  atCompaction: (n: number, of: number) =>
    `At the compaction ${n > of ? "at the end" : `before model call ${whole(n)}`}`,
  compactions: "Compactions",
  at: ({ moments }: Timeline, index: number) =>
    facts(`${whole(index + 1)} / ${whole(moments.length)}`, en, moments[index]),
  percent: (share: number) => percent(share),
  share: (share: number, of: string) => `${percent(share)} of the ${of}`,
  estimate: "estimated from the blocks, as the file has only a part of the count",
  diagnosis: SENTENCES.en,
  missed: ({ why }: Missed, { gap = 0, usage, tokens }: Moment) => {
    const reasons = {
      pause: `${whole(gap / 60_000)} min had passed since the model call before, and the cache lives ${usage?.isHour ? "an hour" : "5 min"}`,
      compaction: "a compaction had replaced the prompt that was in it",
      model: "another model answers, and each has its own cache",
      changed: "the prompt no longer begins as before; the file does not say what changed in it",
    };
    const read = `${whole(usage?.read ?? 0)} of ${whole(tokens)} tokens were read from it`;
    const what = why === "compaction" ? "The prompt was written anew" : "The prompt cache was missed";
    return `${what}: ${reasons[why]}. Only ${read}.`;
  },
  requests: "Requests",
  countedIn: (name: string, count: number) => `${name} (${whole(count)})`,
  requestOf: (n: number, text: string) => `Request ${n}: ${text}`,
  named: (name: string, value: string) => `${name}: ${value}`,
  asked: (calls: Moment[]) => [counted(calls.length, "call"), ...dollarsIn(calls)],
  largest: "The largest in this context, and what is in it more than once",
  lost: "Named before, and by nothing that was left",
  lostKind: (kind: Lost["kind"], count: number, most: number) =>
    `${whole(count)} ${kind}${count > most ? `, the ${most} named most` : ""}:`,
  thought: "This was thinking. Its text is the same; the API takes it as a reply now.",
  sessions: "Sessions",
  listed: (calls: number, compactions: number, bytes: number) =>
    `${counted(calls, "model call")} · ${counted(compactions, "compaction")} · ${kilobytes(bytes)}`,
  ofSubagent: "subagent",
  stopped: "npm run view has ended: the picture no longer follows the file.",
  before: "Before",
  after: "After",
  sized: ({ tokens, by }: Side) =>
    `${by === "estimate" ? "about " : ""}${whole(tokens)} tokens${by === "next" ? ", as the next prompt was counted" : ""}`,
  tokens: (tokens: number) => `${whole(tokens)} tokens`,
  short: (tokens: number) => {
    const [size, unit] = tokens < 1_000 ? [1, ""] : tokens < 1_000_000 ? [1_000, "k"] : [1_000_000, "M"];
    return `${Number((tokens / size).toFixed(1))}${unit}`;
  },
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
  notInFile:
    "The API counted more tokens than the blocks in the file explain: the system prompt, the definitions of the tools, and what else the client sent or kept. Only their size is known.",
  original: "Cleared from the context. What the file still has:",
  search: "Search in this context",
  next: "Next",
  previous: "Previous",
  hits: (n: number, of: number, most: number) => (of === 0 ? "no hits" : `${n} of ${of}${of >= most ? "+" : ""}`),
  prices: (model: string, list?: string) =>
    list ? `${model}, a million tokens (November 2026): ${list}.` : `${model}: its prices are not known here.`,
  estimates: (count: number) => `The output of ${counted(count, "call")} is estimated from the blocks.`,
  demo: "The context of s06 in npm run demo, model call by model call",
  overview: (timeline: Timeline) =>
    `${timeline.format}: ${counted(timeline.moments.length, "model call")}, ${counted(timeline.compactions.length, "compaction")}${clearings(timeline, (n) => ` (${n} of layer 1)`)}, largest prompt ${whole(largestOf(timeline))} tokens.`,
  source: ({ source: { by, charsPerToken } }: Timeline) => {
    const ratio = `${charsPerToken.toFixed(1)} characters a token`;
    const texts = {
      counted: `The sizes of prompts are counted by the API. Those of their parts are estimates, at ${ratio}; what is left is not in the file: the system prompt, the tools, and what else the client sends.`,
      recorded: `Sizes are estimates, at the transcript's own ${ratio}; system and tools are missing, as the file holds no counts.`,
      assumed: `Sizes are estimates, at ${ratio}; system and tools are missing, as the file holds no counts.`,
    };
    return texts[by];
  },
  skipped: ({ reason, count, lines }: Skipped) =>
    `${whole(count)} × ${reason}${lines.length > 0 ? ` (line ${lines.join(", ")}${count > lines.length ? ", …" : ""})` : ""}`,
  leftOut: (parts: string[]) => `Left out: ${parts.join("; ")}.`,
  nothing: "The file has messages, but no reply of a model: there is no model call to show.",
  took: ({ moment, trigger, before, after }: Compaction, of: number) =>
    `${moment < of ? whole(moment + 1) : "end"} · ${trigger}: ${whole(before.tokens)} → ${whole(after.tokens)}`,
};
const dollarsIn = (calls: Moment[]) => {
  const paid = dollarsOf(calls);
  return paid === undefined ? [] : [dollars(paid)];
};
const facts = (place: string, words: Pick<Words, "tokens">, moment?: Moment): string =>
  [place, words.tokens(moment?.tokens ?? 0), ...(moment?.cost ? [dollars(sumOf(moment.cost))] : [])].join(" · ");
const clearings = ({ compactions }: Timeline, say: (count: number) => string) => {
  const count = compactions.filter(isClearing).length;
  return count > 0 ? say(count) : "";
};
export type Words = typeof en;

const REASONS: [RegExp, string][] = [
  [/^broken line$/, "无法解析的行"],
  [/^line of a subagent$/, "子智能体的行"],
  [/^line of an abandoned branch$/, "被放弃的分支"],
  [/^reply of the client$/, "客户端生成的回复"],
  [/^(.*) line$/, "$1 类型的行"],
];

const TRIGGERS: Record<string, string> = {
  ...{ auto: "自动", tool: "模型要求", manual: "用户要求", micro: "清除" },
  ...{ rejected: "被拒绝", refused: "拒答", resume: "恢复", clear: "清空" },
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
    ...{ unexplained: "不在文件里的内容", summary: "摘要", file: "恢复的文件" },
    ...{ request: "用户请求", client: "客户端写的消息", reply: "模型回复", thinking: "思考", call: "工具调用" },
    ...{ read: "缓存命中", written: "写入缓存", input: "未缓存", output: "输出" },
  },
  results: (tool) => (tool ? `${tool} 的结果` : "其他工具的结果"),
  fates: {
    kept: "原样保留",
    thought: "思考，已变为文字",
    summarized: "写进摘要",
    disk: "已清除，只在磁盘上",
    withdrawn: "已撤回",
  },
  triggers: {
    auto: "超过上限（auto）",
    tool: "模型要求（compact）",
    manual: "用户要求（/compact）",
    micro: "清除旧的工具结果（第一层）",
    rejected: "API 拒绝了请求",
    refused: "模型拒绝回答",
    resume: "恢复会话",
    clear: "用户重新开始（/clear）",
  },
  axis: { context: "提示词的 token 数", cache: "提示词的 token 数（按缓存）", cost: "费用" },
  request: "模型调用",
  overTime: "随时间变化",
  atRequest: (n, of) => `第 ${whole(n)} 次模型调用（共 ${whole(of)} 次）`,
  atCompaction: (n, of) => (n > of ? "会话结尾处的压缩" : `第 ${whole(n)} 次模型调用之前的压缩`),
  at: ({ moments }, index) => facts(`${whole(index + 1)} / ${whole(moments.length)}`, zh, moments[index]),
  percent: (share) => percent(share, "%"),
  share: (share, of) => `占${of} 的 ${percent(share, "%")}`,
  estimate: "按内容块估算：文件里只记录了一部分",
  diagnosis: SENTENCES.zh,
  missed: ({ why }, { gap = 0, usage, tokens }) => {
    const reasons = {
      pause: `距上一次模型调用已过 ${whole(gap / 60_000)} 分钟，而缓存只保留${usage?.isHour ? "一小时" : " 5 分钟"}`,
      compaction: "压缩替换了缓存里的提示词",
      model: "换了模型，每个模型的缓存各自独立",
      changed: "提示词的开头变了，文件里看不出变了什么",
    };
    const what = why === "compaction" ? "提示词重新写入缓存" : "未命中提示词缓存";
    return `${what}：${reasons[why]}。${whole(tokens)} token 中只有 ${whole(usage?.read ?? 0)} 是从缓存读取的。`;
  },
  requests: "用户请求",
  countedIn: (name, count) => `${name}（${whole(count)}）`,
  requestOf: (n, text) => `请求 ${n}：${text}`,
  named: (name, value) => `${name}：${value}`,
  asked: (calls) => [`${whole(calls.length)} 次调用`, ...dollarsIn(calls)],
  largest: "这个上下文里最大的内容，以及重复出现的内容",
  lost: "之前提到过、压缩后再没有提到的内容",
  lostKind: (kind, count, most) =>
    `${whole(count)} 个${{ paths: "路径", names: "名称", values: "值" }[kind]}${count > most ? `，列出提到最多的 ${most} 个` : ""}：`,
  thought: "这原是思考；文字未变，现在作为模型回复发给 API。",
  sessions: "会话",
  listed: (calls, compactions, bytes) =>
    `${whole(calls)} 次模型调用 · ${whole(compactions)} 次压缩 · ${kilobytes(bytes)}`,
  ofSubagent: "子智能体",
  stopped: "npm run view 已结束，图不再随文件更新。",
  compactions: "压缩",
  before: "压缩前",
  after: "压缩后",
  sized: ({ tokens, by }) =>
    `${by === "estimate" ? "约 " : ""}${whole(tokens)} token${by === "next" ? "（按下一次提示词的计数）" : ""}`,
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
  notInFile:
    "API 计得的 token 多于文件中各内容块所能解释的：系统提示词、工具定义，以及客户端另外发送或保留的内容。这部分只知道大小。",
  original: "已从上下文中清除，文件里仍保留原文：",
  search: "在此上下文中搜索",
  next: "下一个",
  previous: "上一个",
  hits: (n, of, most) => (of === 0 ? "没有结果" : `${n} / ${of}${of >= most ? "+" : ""}`),
  prices: (model, list) => {
    const chinese = list
      ?.replace("input", "输入")
      .replace("read from the cache", "缓存命中")
      .replace("written", "写入缓存");
    const rest = chinese?.replace("for an hour", "保留一小时").replace("output", "输出").replaceAll(", ", "，");
    return rest ? `${model} 每百万 token 的价格（2026 年 11 月）：${rest}。` : `${model}：价格未知。`;
  },
  estimates: (count) => `其中 ${whole(count)} 次调用的输出按内容块估算。`,
  demo: "npm run demo 中 s06 的上下文：每次模型调用由什么组成",
  overview: (timeline) =>
    `${timeline.format}：${whole(timeline.moments.length)} 次模型调用，${whole(timeline.compactions.length)} 次压缩${clearings(timeline, (n) => `（其中第一层 ${n} 次）`)}，最大的提示词 ${whole(largestOf(timeline))} token。`,
  source: ({ source: { by, charsPerToken } }) => {
    const ratio = charsPerToken.toFixed(1);
    const texts = {
      counted: `提示词的大小由 API 计数。各部分的大小按每个 token ${ratio} 个字符估算；余下的部分不在文件里：系统提示词、工具，以及客户端另外发送的内容。`,
      recorded: `大小按会话记录自己的比值估算（每个 token ${ratio} 个字符）；文件里没有计数，因此不含系统提示词与工具。`,
      assumed: `大小按每个 token ${ratio} 个字符估算；文件里没有计数，因此不含系统提示词与工具。`,
    };
    return texts[by];
  },
  skipped: ({ reason, count, lines }) => {
    const [pattern = /$^/, text = ""] = REASONS.find(([each]) => each.test(reason)) ?? [];
    const places = lines.length > 0 ? `（第 ${lines.join("、")} 行${count > lines.length ? " …" : ""}）` : "";
    return `${reason.replace(pattern, text)} × ${whole(count)}${places}`;
  },
  leftOut: (parts) => `未显示：${parts.join("；")}。`,
  nothing: "文件里有消息，但没有模型的回复，因此没有可以显示的模型调用。",
  took: ({ moment, trigger, before, after }, of) =>
    `${moment < of ? whole(moment + 1) : "结尾"} · ${TRIGGERS[trigger] ?? trigger}：${whole(before.tokens)} → ${whole(after.tokens)}`,
};

export const WORDS: Record<Language, Words> = { en, zh };

/** A series of a timeline in words. */
export const nameOfSeries = (name: string, words: Words): string =>
  name.startsWith("result:") ? words.results(name.slice(7)) : (words.kinds[name] ?? name);
