/** Everything the viewer says, in each language. */

import type { Cost } from "../prices.ts";
import type { Kind, Skipped } from "../trace/events.ts";
import { whole } from "../trace/numbers.ts";
import type { Capacity, Missed, ModelCall, Side, Timeline } from "../trace/timeline.ts";
import { counted, percent } from "./format.ts";

export type Language = "en" | "zh";

const en = {
  choose: "Choose a session",
  drop: " or drop a file here: a transcript of s06 (.transcripts/) or a session of Claude Code (~/.claude/projects). ",
  local: "It stays on your machine; nothing is uploaded.",
  reading: (name: string) => `Reading ${name} …`,
  progress: (bytes: number, share: number) => `Reading ${whole(bytes / 1e6)} MB: ${percent(share)} done`,
  opened: {
    file: (name: string) => name,
    newest: (name: string) => `your newest session, ${name}`,
    demo: () => "the recorded demo",
  },
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
  axis: { context: "tokens of the prompt", cost: "cost" },
  request: "model call",
  atRequest: (n: number, of: number) => `Model call ${whole(n)} of ${whole(of)}`,
  beforeCall: (n: number, of: number) => (n > of ? "at the end" : `before call ${whole(n)}`),
  atCompaction: (n: number, of: number) => `Compaction ${en.beforeCall(n, of)}`,
  compactions: "Compactions",
  share: (share: number, of: string) => `${percent(share)} of the ${of}`,
  estimate: "estimated from the blocks",
  diagnosis: {
    about: {
      cost: "Cost",
      sent: "Sent",
      largest: "Largest prompt",
      cold: "Cold calls",
      taken: "Taken by compactions",
    },
    comma: ", ",
    end: ". ",
    unknown: "unknown",
    call: (n: number) => `call ${whole(n)}`,
    calls: (count: number) => `${counted(count, "model call")}. `,
    unpriced: "The cost is unknown: no call in the file has a known list price.",
    dearest: "The most expensive is ",
    paid: (amount: string) => ` (${amount}). `,
    summaries: (count: number, amount: string) => `${counted(count, "summary", "summaries")} cost ${amount} of it. `,
    otherSummaries: (count: number) =>
      `Without ${counted(count, "summary", "summaries")} whose cost isn't in the file. `,
    unpaid: (count: number) => `Without ${counted(count, "call")} of unknown price. `,
    at: "At ",
    ofCapacity: (share: string, kind: Capacity["kind"]) => `, ${share} of the ${en.capacities[kind]}`,
    share: (share: string, name: string) => `${share} ${name}`,
    filledBy: (shares: string) => `: ${shares}. `,
    unexplained: (share: string) => `${share} isn't in the file: system prompt, tools and what the client added.`,
    uncounted: "The file doesn't say what was read from the prompt cache.",
    countOf: (count: number, of: number) => `${whole(count)} of ${whole(of)}`,
    hit: "The prompt cache was never missed. ",
    missed: (amount: string, share: string) =>
      `What the prompt cache no longer had cost ${amount}, ${share} of the total: `,
    cause: (count: number, why: Missed["why"]) => {
      const causes = {
        pause: "after a long pause",
        compaction: "after a compaction",
        model: "after a change of model",
        changed: "for a reason that isn't in the file",
      };
      return `${whole(count)} ${causes[why]}`;
    },
    compacted: "Compactions replaced ",
    prompts: (count: number) => `another ${counted(count, "cached prompt")}`,
    amount: (amount: string) => ` (${amount}).`,
    neverCompacted: "Nothing was compacted.",
    compactions: (count: number, cleared: number) =>
      `${counted(count, "compaction")}${cleared > 0 && cleared < count ? `, ${whole(cleared)} of which only cleared old results` : ""}`,
    mostly: (kinds: string) => `, which took mostly ${kinds}. `,
    takenUnknown: ". The file doesn't have the messages before it.",
    takenOf: (tokens: number, name: string) => `${name} (${whole(tokens)})`,
    after: (count: number, n: number) => (count > 1 ? `After the one before call ${whole(n)}` : "After it"),
    lost: (paths: number) => `, nothing in the prompt names ${counted(paths, "file path")} that it named before.`,
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
  largest: "Largest blocks, and what is here more than once",
  lost: (count: number) => `${counted(count, "file path")} named before the compaction, and nowhere after it`,
  took: (tokens: number) => `took ${whole(tokens)} tokens`,
  taken: "Tokens it took, estimated by kind:",
  added: "Tokens it added:",
  pale: "Pale blocks stayed. Select a block to read it.",
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
  sized: ({ tokens, sizeSource }: Side) => {
    const source = { file: "", estimate: "", next: ", as the next prompt was counted" }[sizeSource];
    return en.about(en.tokens(tokens), sizeSource === "estimate") + source;
  },
  tokens: (tokens: number) => `${whole(tokens)} tokens`,
  about: (amount: string, isEstimate: boolean) => (isEstimate ? `about ${amount}` : amount),
  capacities: { window: "context window", threshold: "threshold" },
  capacity: ({ tokens, kind }: Capacity) => `${en.capacities[kind]} ${whole(tokens)}`,
  marks: {
    cold: "prompt cache missed",
    summarized: "compaction: what it removed",
    withdrawn: "a request taken out",
    disk: "layer 1: old results cleared",
    request: "a request of the user",
  } as Record<string, string>,
  time: (time: number) => new Date(time).toLocaleString("en"),
  blocks: (count: number) => counted(count, "block"),
  notInFile:
    "The API counted more tokens than the file has text for. The rest is what the file leaves out: system prompt, tools, what the client added, and sometimes earlier messages. Only its size is known.",
  original: "Cleared from the context. What the file still has:",
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
  progress: (bytes, share) => `正在读取 ${whole(bytes / 1e6)} MB：已完成 ${percent(share)}`,
  opened: { file: (name) => name, newest: (name) => `最新的会话 ${name}`, demo: () => "录制的演示" },
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
  axis: { context: "提示词的 token 数", cost: "费用" },
  request: "模型调用",
  atRequest: (n, of) => `第 ${whole(n)} 次模型调用（共 ${whole(of)} 次）`,
  beforeCall: (n, of) => (n > of ? "会话结尾处" : `第 ${whole(n)} 次模型调用之前`),
  atCompaction: (n, of) => `${zh.beforeCall(n, of)}的压缩`,
  share: (share, of) => `占${of} 的 ${percent(share)}`,
  estimate: "按内容块估算",
  diagnosis: {
    about: { cost: "费用", sent: "发送量", largest: "最大的提示词", cold: "缓存未命中", taken: "压缩去掉的" },
    comma: "，",
    end: "。",
    unknown: "未知",
    call: (n) => `第 ${whole(n)} 次调用`,
    calls: (count) => `共 ${whole(count)} 次模型调用。`,
    unpriced: "费用未知：文件中没有价格已知的调用。",
    dearest: "最贵的是",
    paid: (amount) => `（${amount}）。`,
    summaries: (count, amount) => `其中 ${whole(count)} 次摘要花费 ${amount}。`,
    otherSummaries: (count) => `不含 ${whole(count)} 次摘要，文件里没有它们的费用。`,
    unpaid: (count) => `不含 ${whole(count)} 次价格未知的调用。`,
    at: "在",
    ofCapacity: (share, kind) => `，占${zh.capacities[kind]}的 ${share}`,
    share: (share, name) => `${name}占 ${share}`,
    filledBy: (shares) => `：${shares}。`,
    unexplained: (share) => `另有 ${share} 不在文件中：系统提示词、工具，以及客户端添加的内容。`,
    uncounted: "文件里没有记录从提示词缓存读取了多少。",
    countOf: (count, of) => `${whole(of)} 次中的 ${whole(count)} 次`,
    hit: "没有出现过缓存未命中。",
    missed: (amount, share) => `缓存中已没有的部分花费 ${amount}，占总量的 ${share}：`,
    cause: (count, why) => {
      const causes = {
        pause: "长时间停顿之后",
        compaction: "压缩之后",
        model: "更换模型之后",
        changed: "原因不在文件里的",
      };
      return `${causes[why]} ${whole(count)} 次`;
    },
    compacted: "压缩另外替换了",
    prompts: (count) => `${whole(count)} 个已缓存的提示词`,
    amount: (amount) => `（${amount}）。`,
    neverCompacted: "没有压缩过。",
    compactions: (count, cleared) =>
      `${whole(count)} 次压缩${cleared > 0 && cleared < count ? `（其中 ${whole(cleared)} 次只清除旧的工具结果）` : ""}`,
    mostly: (kinds) => `，主要去掉了${kinds}。`,
    takenUnknown: "。文件里没有压缩之前的消息。",
    takenOf: (tokens, name) => `${name}（${whole(tokens)}）`,
    after: (count, n) => (count > 1 ? `第 ${whole(n)} 次调用之前的压缩` : "压缩"),
    lost: (paths) => `之后，提示词里再没有提到之前的 ${whole(paths)} 个文件路径。`,
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
  largest: "最大的内容块，以及重复出现的内容",
  lost: (count) => `${whole(count)} 个文件路径在压缩前提到过，压缩后再没有提到`,
  took: (tokens) => `去掉 ${whole(tokens)} token`,
  taken: "去掉的 token，按类估算：",
  added: "增加的 token：",
  pale: "浅色的内容块保留了下来。选中一块即可阅读原文。",
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
  about: (amount, isEstimate) => (isEstimate ? `约 ${amount}` : amount),
  capacities: { window: "上下文窗口", threshold: "阈值" },
  capacity: ({ tokens, kind }) => `${zh.capacities[kind]} ${whole(tokens)}`,
  marks: {
    cold: "未命中提示词缓存",
    summarized: "压缩：去掉了多少",
    withdrawn: "撤回的请求",
    disk: "第一层：清除旧的工具结果",
    request: "一次用户请求",
  },
  time: (time) => new Date(time).toLocaleString("zh"),
  blocks: (count) => `${whole(count)} 块`,
  notInFile:
    "API 计得的 token 多于文件里的文字。其余部分文件没有记录：系统提示词、工具、客户端添加的内容，有时还有更早的消息。这部分只知道大小。",
  original: "已从上下文中清除，文件里仍保留原文：",
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
