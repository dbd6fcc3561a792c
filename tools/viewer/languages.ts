/** Everything the viewer says, in each language. */

import type { Cost } from "../prices.ts";
import type { Kind, Skipped } from "../trace/events.ts";
import { whole } from "../trace/numbers.ts";
import type { Capacity, Fate, Missed, ModelCall, Side, Timeline } from "../trace/timeline.ts";
import { counted, percent } from "./format.ts";
import type { Lost } from "./lost.ts";

export type Language = "en" | "zh";

const en = {
  choose: "Choose a session",
  drop: " or drop a file here: a transcript of s06 (.transcripts/) or a session of Claude Code (~/.claude/projects). ",
  local: "It stays on your machine; nothing is uploaded.",
  reading: (name: string) => `Reading ${name} …`,
  unreadable: (name: string, reason: string) =>
    `${name} could not be read: ${reason}. Choose it again, or start npm run view again.`,
  nothing: (name: string) =>
    `${name} holds no model call. Choose a transcript of s06 or a session of Claude Code, a .jsonl file.`,
  kinds: {
    unexplained: "not in the file",
    summary: "summary",
    file: "restored files",
    request: "requests",
    client: "written by the client",
    reply: "replies",
    thinking: "thinking",
    call: "tool calls",
    read: "read from the cache",
    written: "written to the cache",
    input: "not cached",
    output: "output",
  } satisfies Record<Exclude<Kind, "result"> | "unexplained" | keyof Cost, string>,
  result: "result",
  results: (tool: string) => (tool ? `results of ${tool}` : "results of other tools"),
  fates: {
    kept: "kept word for word",
    thought: "thinking that is now text",
    summarized: "summarized",
    disk: "cleared: only on disk",
    withdrawn: "taken out",
  } satisfies Record<Fate, string>,
  triggers: {
    auto: "past the threshold",
    tool: "asked for by the model",
    manual: "asked for by the user",
    recovery: "the prompt was too long after all",
    micro: "old results cleared",
    rejected: "the API rejected the messages",
    refused: "the model refused",
    clear: "the user cleared the conversation",
  } as Record<string, string>,
  axis: { context: "tokens of the prompt", cache: "tokens of the prompt by cache", cost: "cost" },
  request: "model call",
  overTime: "Over time",
  chartHint: "Point at the chart to read it. Drag across calls to zoom in.",
  zoomOut: "All calls",
  atRequest: (n: number, of: number) => `At model call ${whole(n)} of ${whole(of)}`,
  beforeCall: (n: number, of: number) => (n > of ? "at the end" : `before call ${whole(n)}`),
  atCompaction: (n: number, of: number) => `At the compaction ${en.beforeCall(n, of)}`,
  compactions: "Compactions",
  share: (share: number, of: string) => `${percent(share)} of the ${of}`,
  estimate: "estimated from the blocks",
  diagnosis: {
    about: { cost: "Cost", cache: "Cache", filling: "Filled by", compactions: "Compactions" },
    cost: (paid: string, isEstimate: boolean) => `The session cost ${isEstimate ? "about " : ""}${paid}`,
    unpriced: "What the session cost is not known, as the file names no model with a known price",
    summaries: (count: number, paid: string) => `of which ${paid} for ${counted(count, "summary", "summaries")}`,
    otherSummaries: (count: number) => `without ${counted(count, "summary", "summaries")} of unknown cost`,
    unpaid: (count: number) => `without ${counted(count, "call")} of unknown cost`,
    sent: (calls: number, tokens: number, isCounted: boolean) =>
      `: ${counted(calls, "model call")} sent ${isCounted ? "" : "about "}${whole(tokens)} tokens.`,
    dearest: " The most expensive is ",
    call: (n: number) => `call ${whole(n)}`,
    uncounted: "The file does not say what was read from the prompt cache.",
    hit: "The prompt cache was never missed.",
    onlyCompacted: "The prompt cache was missed only after a compaction: ",
    prompts: (count: number) => counted(count, "prompt"),
    missed: (amount: string, share: string, isPriced: boolean) =>
      `Prompt cache misses cost ${amount}, ${share} of ${isPriced ? "the cost" : "all tokens sent"}: `,
    cause: (count: number, why: Missed["why"]) => {
      const causes = {
        pause: "after a long pause",
        compaction: "after a compaction",
        model: "after a change of model",
        changed: "for a reason that is not in the file",
      };
      return `${whole(count)} ${causes[why]}`;
    },
    amount: (amount: string) => ` (${amount})`,
    compacted: (count: number) => `${counted(count, "prompt")} after a compaction`,
    written: (amount: string) => ` had to be written again (${amount}).`,
    prompt: "The largest prompt",
    filling: (shares: string) => `: ${shares}. `,
    share: (name: string, share: string) => `${share} ${name}`,
    once: "Nothing was read twice.",
    again: (count: number, tokens: number) => ` was read ${count} times, about ${whole(tokens)} tokens in all.`,
    neverCompacted: "Nothing was compacted.",
    removed: (count: number, tokens: number) => `${counted(count, "compaction")} removed ${whole(tokens)} tokens`,
    bothKinds: (cleared: number, summaries: number) =>
      ` (${whole(cleared)} cleared old results, ${whole(summaries)} wrote a summary)`,
    lostPaths: (count: number) => counted(count, "path"),
    lostAfter: (paths: number, compactions: number, n: number) =>
      ` ${paths === 1 ? "is" : "are"} named nowhere after ${compactions > 1 ? `the one before call ${whole(n)}` : "it"}.`,
    punctuation: { comma: ", ", semicolon: "; ", end: ".", space: " " },
  },
  missed: ({ why }: Missed, { gap = 0, usage, tokens }: ModelCall) => {
    const reasons = {
      pause: `${whole(gap / 60_000)} min had passed since the model call before, and the cache lives ${usage?.writtenForHour ? "an hour" : "5 min"}`,
      compaction: "a compaction had replaced what was in it",
      model: "another model answers, and each has its own cache",
      changed: "the prompt no longer begins as before; the file does not say what changed in it",
    };
    const read = usage?.read ? `Only ${whole(usage.read)}` : "None";
    const what = why === "compaction" ? "The prompt had to be written to the cache" : "The prompt cache was missed";
    return `${what}: ${reasons[why]}. ${read} of ${whole(tokens)} tokens were read from it.`;
  },
  requests: "Requests",
  requestOf: (n: number, text: string) => `Request ${n}: ${text}`,
  named: (name: string, value: string) => `${name}: ${value}`,
  calls: (count: number) => counted(count, "call"),
  largest: "The largest in this context, and what is in it more than once",
  lost: "Named before the compaction, and nowhere after it",
  lostKind: (kind: Lost["kind"], count: number) => counted(count, kind.slice(0, -1)),
  thought: "This was thinking. Its text is the same; the API takes it as a reply now.",
  sessions: "Sessions",
  counts: (calls: number, compactions: number) =>
    `${counted(calls, "model call")}${compactions > 0 ? `, ${counted(compactions, "compaction")}` : ""}`,
  following: "Live: the newest call is shown as the file grows.",
  grown: "Live: the file has grown. ",
  newest: "Show the newest call",
  ofSubagent: "subagent",
  before: "Before",
  after: "After",
  sized: ({ tokens, sizeSource }: Side) =>
    `${sizeSource === "estimate" ? "about " : ""}${whole(tokens)} tokens${sizeSource === "next" ? ", as the next prompt was counted" : ""}`,
  tokens: (tokens: number) => `${whole(tokens)} tokens`,
  capacity: ({ tokens, kind }: Capacity) => `${kind === "window" ? "context window" : "threshold"} ${whole(tokens)}`,
  marks: {
    cold: "prompt cache missed",
    summarized: "compaction: what it removed",
    withdrawn: "a request taken out",
    disk: "layer 1: old results cleared",
    request: "a request of the user",
  } as Record<string, string>,
  time: (time: number) => new Date(time).toLocaleString("en"),
  blocks: (count: number) => counted(count, "block"),
  hint: "← → steps through the model calls, ↑ ↓ through the blocks. Select a block to read it.",
  notInFile:
    "The API counted more tokens than the blocks in the file explain: the system prompt, the definitions of the tools, and what else the client sent or kept. Only their size is known.",
  original: "Cleared from the context. What the file still has:",
  search: "Search blocks",
  next: "Next",
  previous: "Previous",
  hits: (n: number, of: number) => (of === 0 ? "no hits" : `${n} of ${of}`),
  prices: "Costs follow the list prices of November 2026.",
  demo: "The context of s06 in npm run demo, model call by model call",
  overview: ({ format, modelCalls, compactions, largest }: Timeline) =>
    `${format}: ${en.counts(modelCalls.length, compactions.length)}, largest prompt ${whole(modelCalls[largest]?.tokens ?? 0)} tokens.`,
  source: ({ isCounted, charsPerToken }: Timeline) =>
    `${isCounted ? "The API counted the prompts; the sizes of their parts" : "Sizes"} are estimates, at ${charsPerToken.toFixed(1)} characters a token.`,
  skipped: ({ reason, count, lines }: Skipped) =>
    `${whole(count)} × ${reason}${lines.length > 0 ? ` (line ${lines.join(", ")}${count > lines.length ? ", …" : ""})` : ""}`,
  leftOut: (parts: string[]) => `Left out: ${parts.join("; ")}.`,
};
export type Words = typeof en;

const zh: Words = {
  choose: "选择会话文件",
  drop: " 或把文件拖到这里：s06 的会话记录（.transcripts/），或 Claude Code 的会话（~/.claude/projects）。",
  local: "文件只在本机读取，不会上传。",
  reading: (name) => `正在读取 ${name}……`,
  unreadable: (name, reason) => `无法读取 ${name}：${reason}。请重新选择文件，或重新运行 npm run view。`,
  nothing: (name) => `${name} 里没有模型调用。请选择 s06 的会话记录或 Claude Code 的会话（.jsonl 文件）。`,
  kinds: {
    unexplained: "不在文件中",
    summary: "摘要",
    file: "恢复的文件",
    request: "用户请求",
    client: "客户端写的消息",
    reply: "模型回复",
    thinking: "思考",
    call: "工具调用",
    read: "缓存命中",
    written: "写入缓存",
    input: "未缓存",
    output: "输出",
  },
  result: "结果",
  results: (tool) => (tool ? `${tool} 的结果` : "其他工具的结果"),
  fates: {
    kept: "原样保留",
    thought: "思考，已变为文字",
    summarized: "写进摘要",
    disk: "已清除，只在磁盘上",
    withdrawn: "已撤回",
  },
  triggers: {
    auto: "超过阈值",
    tool: "模型要求",
    manual: "用户要求",
    recovery: "提示词还是太长",
    micro: "清除旧的工具结果",
    rejected: "API 拒绝了消息",
    refused: "模型拒绝回答",
    clear: "用户清空了会话",
  },
  axis: { context: "提示词的 token 数", cache: "提示词的 token 数（按缓存）", cost: "费用" },
  request: "模型调用",
  overTime: "随时间变化",
  chartHint: "把指针移到图上即可读数；横向拖动可放大一段。",
  zoomOut: "全部调用",
  atRequest: (n, of) => `第 ${whole(n)} 次模型调用（共 ${whole(of)} 次）`,
  beforeCall: (n, of) => (n > of ? "会话结尾处" : `第 ${whole(n)} 次模型调用之前`),
  atCompaction: (n, of) => `${zh.beforeCall(n, of)}的压缩`,
  share: (share, of) => `占${of} 的 ${percent(share)}`,
  estimate: "按内容块估算",
  diagnosis: {
    about: { cost: "费用", cache: "缓存", filling: "占用", compactions: "压缩" },
    cost: (paid, isEstimate) => `这次会话的费用${isEstimate ? "约为" : "为"} ${paid}`,
    unpriced: "费用未知，因为文件里没有价格已知的模型",
    summaries: (count, paid) => `其中 ${whole(count)} 次摘要花费 ${paid}`,
    otherSummaries: (count) => `不含 ${whole(count)} 次费用未知的摘要`,
    unpaid: (count) => `不含 ${whole(count)} 次费用未知的调用`,
    sent: (calls, tokens, isCounted) =>
      `：${whole(calls)} 次模型调用${isCounted ? "" : "约"}发送了 ${whole(tokens)} token。`,
    dearest: "最贵的是",
    call: (n) => `第 ${whole(n)} 次调用`,
    uncounted: "文件里没有记录从提示词缓存读取了多少。",
    hit: "没有出现过缓存未命中。",
    onlyCompacted: "只有压缩之后未命中提示词缓存：",
    prompts: (count) => `${whole(count)} 个提示词`,
    missed: (amount, share, isPriced) =>
      `提示词缓存未命中花费 ${amount}，占${isPriced ? "总费用" : "发送总量"}的 ${share}：`,
    cause: (count, why) => {
      const causes = {
        pause: "长时间停顿之后",
        compaction: "压缩之后",
        model: "更换模型之后",
        changed: "原因不在文件里的",
      };
      return `${causes[why]} ${whole(count)} 次`;
    },
    amount: (amount) => `（${amount}）`,
    compacted: (count) => `压缩之后的 ${whole(count)} 个提示词`,
    written: (amount) => `需要重新写入（${amount}）。`,
    prompt: "最大的提示词",
    filling: (shares) => `：${shares}。`,
    share: (name, share) => `${name}占 ${share}`,
    once: "没有内容被重复读取。",
    again: (count, tokens) => ` 被读取了 ${count} 次，共约 ${whole(tokens)} token。`,
    neverCompacted: "没有压缩过。",
    removed: (count, tokens) => `${whole(count)} 次压缩共去掉 ${whole(tokens)} token`,
    bothKinds: (cleared, summaries) => `（${whole(cleared)} 次清除旧的工具结果，${whole(summaries)} 次写摘要）`,
    lostPaths: (count) => `${whole(count)} 个路径`,
    lostAfter: (_, compactions, n) =>
      `在${compactions > 1 ? `第 ${whole(n)} 次调用之前的压缩` : "压缩"}之后再没有提到。`,
    punctuation: { comma: "，", semicolon: "；", end: "。", space: "" },
  },
  missed: ({ why }, { gap = 0, usage, tokens }) => {
    const reasons = {
      pause: `距上一次模型调用已过 ${whole(gap / 60_000)} 分钟，而缓存只保留${usage?.writtenForHour ? "一小时" : " 5 分钟"}`,
      compaction: "压缩替换了缓存里的内容",
      model: "换了模型，每个模型的缓存各自独立",
      changed: "提示词的开头变了，文件里看不出变了什么",
    };
    const what = why === "compaction" ? "提示词需要写入缓存" : "未命中提示词缓存";
    const read = usage?.read ? `只有 ${whole(usage.read)} 是` : "没有一个是";
    return `${what}：${reasons[why]}。${whole(tokens)} token 中${read}从缓存读取的。`;
  },
  requests: "用户请求",
  requestOf: (n, text) => `请求 ${n}：${text}`,
  named: (name, value) => `${name}：${value}`,
  calls: (count) => `${whole(count)} 次调用`,
  largest: "这个上下文里最大的内容，以及重复出现的内容",
  lost: "之前提到过、压缩后再没有提到的内容",
  lostKind: (kind, count) => `${whole(count)} 个${{ paths: "路径", names: "名称", values: "值" }[kind]}`,
  thought: "这原是思考；文字未变，现在作为模型回复发给 API。",
  sessions: "会话",
  counts: (calls, compactions) =>
    `${whole(calls)} 次模型调用${compactions > 0 ? `，${whole(compactions)} 次压缩` : ""}`,
  following: "实时：文件增长时显示最新的调用。",
  grown: "实时：文件已增长。",
  newest: "查看最新的调用",
  ofSubagent: "子智能体",
  compactions: "压缩",
  before: "压缩前",
  after: "压缩后",
  sized: ({ tokens, sizeSource }) =>
    `${sizeSource === "estimate" ? "约 " : ""}${whole(tokens)} token${sizeSource === "next" ? "（按下一次提示词的计数）" : ""}`,
  tokens: (tokens) => `${whole(tokens)} token`,
  capacity: ({ tokens, kind }) => `${kind === "window" ? "上下文窗口" : "阈值"} ${whole(tokens)}`,
  marks: {
    cold: "未命中提示词缓存",
    summarized: "压缩：去掉了多少",
    withdrawn: "撤回的请求",
    disk: "第一层：清除旧的工具结果",
    request: "一次用户请求",
  },
  time: (time) => new Date(time).toLocaleString("zh"),
  blocks: (count) => `${whole(count)} 块`,
  hint: "← → 切换模型调用，↑ ↓ 切换内容块；选中一块即可阅读原文。",
  notInFile:
    "API 计得的 token 多于文件中各内容块所能解释的：系统提示词、工具定义，以及客户端另外发送或保留的内容。这部分只知道大小。",
  original: "已从上下文中清除，文件里仍保留原文：",
  search: "搜索内容块",
  next: "下一个",
  previous: "上一个",
  hits: (n, of) => (of === 0 ? "没有结果" : `${n} / ${of}`),
  prices: "费用按 2026 年 11 月的标价计算。",
  demo: "npm run demo 中 s06 的上下文：每次模型调用由什么组成",
  overview: ({ format, modelCalls, compactions, largest }) =>
    `${format}：${zh.counts(modelCalls.length, compactions.length)}，最大的提示词 ${whole(modelCalls[largest]?.tokens ?? 0)} token。`,
  source: ({ isCounted, charsPerToken }) =>
    `${isCounted ? "提示词由 API 计数；各部分的大小" : "大小"}按每个 token ${charsPerToken.toFixed(1)} 个字符估算。`,
  skipped: ({ reason, count, lines }) => {
    const reasons: Record<string, string> = {
      "broken line": "无法解析的行",
      "reply of the client": "客户端生成的回复",
      "line of a subagent": "子智能体的行",
      "line of an abandoned branch": "被放弃的分支",
    };
    const places = lines.length > 0 ? `（第 ${lines.join("、")} 行${count > lines.length ? "……" : ""}）` : "";
    return `${reasons[reason] ?? reason.replace(/ line$/, " 类型的行")} × ${whole(count)}${places}`;
  },
  leftOut: (parts) => `未显示：${parts.join("；")}。`,
};

export const WORDS: Record<Language, Words> = { en, zh };
