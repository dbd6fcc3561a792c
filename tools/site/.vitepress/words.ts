/** The site's own words. */
import type { Usage } from "../../docs/runs.ts";

export const number = (value: number) => value.toLocaleString("en-US");

const EN = {
  title: "A coding agent in six lessons",
  siteTitle: "Six lessons",
  tagline:
    "Six TypeScript files. The first is a loop with one tool; the last is a whole coding agent that keeps working when its context window is full. All of it runs without a key.",
  description: "How coding agents work: six scripts to read in one evening",
  lessons: "Lessons",
  changes: "What changed",
  changesOf: "What changed in",
  lines: "lines",
  states: { new: "new", changed: "changed", same: "same" },
  diff: "Line by line: what is new",
  viewer: "Context viewer",
  viewerIntro:
    "Open a session of s06 (`.transcripts/*.jsonl`) or of Claude Code (`~/.claude/projects/**/*.jsonl`), and see what filled its context. The file stays in your browser.",
  reference: "Reference",
  menu: {
    "docs/promises.md": "What every lesson promises",
    "docs/python.md": "Python → TypeScript",
    "docs/benchmarks.md": "What forgetting costs",
    "README.md": "Install and run",
    "CONTRIBUTING.md": "Contribute",
  } as Record<string, string>,
  demo: "One task: each column is what is in the context at a model call. Those that write a summary aren't drawn.",
  player: {
    title: (lesson: string) => `A run of ${lesson}, step by step`,
    previous: "Previous step",
    next: "Next step",
    play: "Play",
    pause: "Pause",
    step: "Step",
    follows: "follows the text",
    more: (lines: number) => `… ${number(lines)} more ${lines === 1 ? "line" : "lines"}`,
    kinds: {
      request: "request",
      thinking: "thinking",
      text: "text",
      tool_use: "tool call",
      tool_result: "tool result",
    },
    notes: { reminder: "reminder", Conversation: "summary", file: "file" },
    modelCall: (when: "last" | "now" | "next", isChild: boolean, isSummary: boolean, was: number) =>
      `${{ last: "Last", now: "This", next: "Next" }[when]} model call${isChild ? " of the subagent" : ""}${isSummary ? ", for a summary" : ""}${was ? ` (was ${number(was)})` : ""}:`,
    estimate: "Next model call, without compaction:",
    noCall: "No model call until the next request.",
    unit: "tokens",
    read: "from the cache:",
    fresh: "new:",
    share: (percent: number) => `${percent.toFixed(2)} % of the window`,
    cache: (tokens: number) => (tokens > 0 ? `In the cache: ${number(tokens)}` : "The cache is empty"),
    limit: (tokens: number) => `limit: ${number(tokens)}`,
    legend: { round: "round", compaction: "compaction", remind: "reminder", child: "subagent", resume: "resume" },
    start: "The loop begins: the user’s request is the first message.",
    again: "The user’s next request is one more message.",
    check: (limit: number) =>
      `Before each model call: is the prompt past the limit of ${number(limit)} tokens? Not yet.`,
    call: (messages: number, tokens: number) =>
      `The model gets ${messages === 1 ? "this message" : `all ${messages} messages`}, the system prompt and the tools: ${number(tokens)} tokens. It replies.`,
    reply: "The reply is added to messages.",
    if: (calls: number) =>
      `The reply has ${["no tool call: the loop is done, and returns", "a tool call: the loop goes on"][calls] ?? `${calls} tool calls: the loop goes on`}.`,
    value: (calls: number): string => (calls === 0 ? "return" : "go on"),
    run: (tool: string) => `The program runs ${tool}`,
    rounds: (rounds: number) => `${rounds === 1 ? "One round" : `${rounds} rounds`}. The program runs`,
    remind: "Three rounds without todo: a reminder goes out with the results.",
    results: "What the tools returned is added as one message. Back to the model.",
    past: (tokens: number, limit: number, saved: number) =>
      `With the last result about ${number(tokens)} tokens, past the limit of ${number(limit)}. Layer 1 comes first, as it forgets the least. It saves ${number(saved)}, more than 40 % of the limit: it will clear what is struck out.`,
    cold: "Not past the limit, but the cache is cold: the next model call pays for all anyway, and layer 1 costs no cached tokens. It saves more than 40 % of the limit: it will clear what is struck out.",
    kept: "The cache is cold, but layer 1 would save less than 40 % of the limit: not worth forgetting anything.",
    cleared: (results: number, isCold: boolean) =>
      `Layer 1: ${results} old results are a line each now. The newest 3 that the model has seen stay; so do short ones, and what it hasn’t seen.${isCold ? "" : " Thinking is text now: its signature no longer fits."}`,
    price: (room: number, tokens: number) =>
      `The gain is room, ${number(room)} tokens, without a summary. The price: all ${number(tokens)} tokens are new to the cache.`,
    reach: (blocks: number) =>
      `The first thinking is text now. Of the cached prompts only the first is still a beginning of this one. It ended ${blocks} blocks (boxes here) ago, and the API searches back only 20.`,
    summaryPrice: (room: number, found: number) =>
      `The gain is room, ${number(room)} tokens. The price: the summary’s model call, and ${found ? `all but the first prompt, ${number(found)} tokens, is new to the cache` : "all is new: the cache has whole prompts, never the system prompt alone"}.`,
    free: (room: number) => `The gain is room, ${number(room)} tokens. It costs no cached tokens: there were none.`,
    before: (isAsked: boolean, tokens: number, limit: number) =>
      isAsked
        ? "Layer 3: the model has called the tool compact. So a summary comes before the next reply."
        : `About ${number(tokens)} tokens, past the limit of ${number(limit)}, and layer 1 would save less than ${number(0.4 * limit)}, 40 % of the limit. So layer 2: a summary.`,
    summary: (tokens: number, { cache_read_input_tokens: read, output_tokens: out }: Usage) =>
      `A model call of its own, without the last round, writes the summary: ${number(tokens)} tokens in, ${number(read)} of them from the cache, ${out} out. Only the instruction is new. It will replace what is struck out.`,
    after: (before: number, after: number) =>
      `${before} messages have become ${after}: the last request; the summary, with the last short file; “Understood.”, which the program adds as a reply; the open tool call; its result.`,
    exit: "The user has no more requests, and the program ends. Its memory goes, with all messages. The transcript stays on disk.",
    killed:
      "This command kills the program. All messages are gone. The transcript has them; it ends with this tool call, without a result.",
    paused: "Nothing runs, and more than 300 seconds pass without a model call. The prompt cache expires: it is cold.",
    disk: "On disk, the transcript ends with:",
    resume: (isKilled: boolean) =>
      `A new program reads the transcript. What the last compaction left is back, and all since, thinking as text, as in every history that is rebuilt.${isKilled ? " The tool call that was cut off gets a result: it may have run." : ""}`,
    child: "task calls agentLoop again, for a subagent with messages of its own.",
    prompt: "The prompt is all the subagent knows.",
    back: "The subagent’s last text is the result. Its messages are dropped.",
  },
  footer: "MIT license. This site loads nothing from elsewhere, and what you open in the viewer stays in your browser.",
};

const ZH: typeof EN = {
  title: "六课读懂 coding agent",
  siteTitle: "六课读懂 agent",
  tagline:
    "六个 TypeScript 文件：第一个只有一个循环和一个工具，最后一个是完整的 coding agent，上下文窗口写满了也能继续工作。不需要密钥就能全部运行。",
  description: "coding agent 的工作原理：六个脚本，一个晚上读完",
  lessons: "课程",
  changes: "改动对比",
  changesOf: "改动对比：",
  lines: "行",
  states: { new: "新增", changed: "有改动", same: "未变" },
  diff: "逐行对比：新增的代码",
  viewer: "上下文查看器",
  viewerIntro:
    "打开一份 s06 的会话记录（`.transcripts/*.jsonl`）或 Claude Code 的会话记录（`~/.claude/projects/**/*.jsonl`），看看上下文里都装了什么。文件只在浏览器里处理，不会上传。",
  reference: "参考",
  menu: {
    "docs/promises.md": "每一课的保证（英文）",
    "docs/python.md": "Python → TypeScript（英文）",
    "docs/benchmarks.md": "遗忘的代价（英文）",
    "README.md": "安装与运行",
    "CONTRIBUTING.md": "参与贡献（英文）",
  },
  demo: "一项任务：每一列是一次模型调用时上下文里的内容。写摘要的模型调用没有画出。",
  player: {
    title: (lesson) => `逐步回放 ${lesson} 的一次运行`,
    previous: "上一步",
    next: "下一步",
    play: "播放",
    pause: "暂停",
    step: "步骤",
    follows: "跟随正文",
    more: (lines) => `… 还有 ${number(lines)} 行`,
    kinds: { request: "用户请求", thinking: "思考", text: "文字", tool_use: "工具调用", tool_result: "工具结果" },
    notes: { reminder: "提醒", Conversation: "摘要", file: "文件" },
    modelCall: (when, isChild, isSummary, was) =>
      `${isChild ? "子智能体的" : ""}${{ last: "上一次", now: "本次", next: "下一次" }[when]}模型调用${isSummary ? "（写摘要）" : ""}${was ? `（压缩前 ${number(was)}）` : ""}：`,
    estimate: "如果不压缩，下一次模型调用：",
    noCall: "下一个请求到来之前，不再调用模型。",
    unit: "token",
    read: "缓存命中",
    fresh: "新增",
    share: (percent) => `窗口的 ${percent.toFixed(2)}%`,
    cache: (tokens) => (tokens > 0 ? `缓存中有 ${number(tokens)}` : "缓存是空的"),
    limit: (tokens) => `上限：${number(tokens)}`,
    legend: { round: "一轮", compaction: "压缩", remind: "提醒", child: "子智能体", resume: "恢复" },
    start: "循环开始：用户请求是第一条消息。",
    again: "用户的下一个请求追加为一条新消息。",
    check: (limit) => `每次调用模型之前先检查：提示词是否超过上限 ${number(limit)} token？还没有。`,
    call: (messages, tokens) =>
      `模型收到${messages === 1 ? "这条消息" : `全部 ${messages} 条消息`}，连同系统提示词和工具共 ${number(tokens)} token，然后回复。`,
    reply: "回复追加进 messages。",
    if: (calls) => (calls === 0 ? "回复里没有工具调用：循环结束并返回。" : `回复里有 ${calls} 个工具调用：循环继续。`),
    value: (calls) => (calls === 0 ? "返回" : "继续"),
    run: (tool) => `程序运行 ${tool}`,
    rounds: (rounds) => `${rounds} 轮，程序运行`,
    remind: "连续三轮没有用 todo：提醒随结果一起发出。",
    results: "工具返回的结果作为一条消息追加，再交给模型。",
    past: (tokens, limit, saved) =>
      `加上最后一个结果约 ${number(tokens)} token，超过上限 ${number(limit)}。先用第一层，它遗忘得最少：能省下 ${number(saved)}，超过上限的 40%，所以将清除划掉的内容。`,
    cold: "没有超过上限，但缓存已冷：下一次模型调用反正要为整个提示词付全价，此时第一层不损失缓存。它能省下的超过上限的 40%，将清除划掉的内容。",
    kept: "缓存已冷，但第一层省下的不到上限的 40%，不值得为此遗忘什么。",
    cleared: (results, isCold) =>
      `第一层：${results} 个旧结果各剩一行。模型看过的最新三个、很短的，以及还没有看过的，都保留。${isCold ? "" : "思考变成文字：它的签名不再匹配。"}`,
    price: (room, tokens) =>
      `得到的是空间：${number(room)} token，不用写摘要。代价：全部 ${number(tokens)} token 都不在缓存里。`,
    reach: (blocks) =>
      `第一段思考已变成文字，所以以前的提示词中，仍是现在的开头的只有第一个，但它在 ${blocks} 个块（图中的框）之前，而 API 最多向前查找 20 个块。`,
    summaryPrice: (room, found) =>
      `得到的是空间：${number(room)} token。代价：写摘要的那次模型调用，而且${found ? `除了第一个提示词的 ${number(found)} token，都不在缓存里` : "全部都不在缓存里：缓存里只有整个提示词，没有单独的系统提示词"}。`,
    free: (room) => `得到的是空间：${number(room)} token。不损失缓存：它本来就是空的。`,
    before: (isAsked, tokens, limit) =>
      isAsked
        ? "第三层：模型调用了 compact 工具，所以先写摘要，再继续回复。"
        : `约 ${number(tokens)} token，超过上限 ${number(limit)}，而第一层省下的不到上限的 40%（${number(0.4 * limit)}），所以由第二层写摘要。`,
    summary: (tokens, { cache_read_input_tokens: read, output_tokens: out }) =>
      `单独用一次模型调用写摘要，不含最后一轮：发出 ${number(tokens)} token，其中 ${number(read)} 命中缓存，写回 ${out} token。新的只有写摘要的指令。摘要将取代划掉的内容。`,
    after: (before, after) =>
      `${before} 条消息变成 ${after} 条：最后的请求；摘要，附上最近的短文件；程序代为回复的“Understood.”；还没有回应的工具调用及其结果。`,
    exit: "用户没有更多请求，程序退出。内存里的消息随之消失，会话记录还在磁盘上。",
    killed: "这条命令杀死了程序，内存里的消息全部消失。会话记录里都有，最后一条是这个还没有结果的工具调用。",
    paused: "程序没有运行，300 多秒没有模型调用，提示词缓存过期，变冷了。",
    disk: "磁盘上的会话记录以这几条结尾：",
    resume: (isKilled) =>
      `新的程序读取会话记录，上次压缩留下的和之后的消息全部恢复；和每次重建历史一样，思考变成文字。${isKilled ? "被打断的工具调用得到一个结果：它可能已经运行。" : ""}`,
    child: "task 再次调用 agentLoop：子智能体有自己的 messages。",
    prompt: "子智能体只知道这段提示词。",
    back: "子智能体的最后一段文字就是结果，它的消息全部丢掉。",
  },
  footer: "MIT 许可证。本站不加载任何外部资源；在查看器中打开的文件不会离开你的浏览器。",
};

export const words = (prefix: string): typeof EN => (prefix === "zh/" ? ZH : EN);
