/** The site's own words. */

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
  demo: (files: number, calls: number, summaries: number) =>
    `One task, ${files} files: each column is what is in the context at a model call. There are ${calls}; the ${summaries} that wrote a summary aren't drawn.`,
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
      note: "added by the program",
    } as Record<string, string>,
    nextCall: (isChild: boolean, isSummary: boolean, isOpen: boolean) =>
      `${isChild ? "Subagent’s next model call" : "Next model call"}${isSummary ? ", for a summary" : ""}${isOpen ? ", results to come" : ""}:`,
    estimate: "Next model call, if nothing were compacted:",
    noCall: "No further model call in this turn.",
    unit: "tokens",
    read: "read from the cache",
    fresh: "new",
    share: (percent: number) => `${percent.toFixed(1)} % of the window`,
    limit: (tokens: number) => `limit: ${number(tokens)}`,
    start: "The request is the first message.",
    again: "The next request is one more message.",
    check: (limit: number) =>
      `Before each model call: is the prompt past the limit of ${number(limit)} tokens? Not yet.`,
    call: (messages: number, tokens: number) =>
      `The model gets ${messages === 1 ? "this message" : `all ${messages} messages`}: ${number(tokens)} tokens, with system prompt and tools. It replies.`,
    reply: "The reply is added to messages.",
    if: (calls: number) =>
      calls === 0
        ? "The reply has no tool call: the loop returns, and the turn is done."
        : `The reply has ${calls === 1 ? "a tool call" : `${calls} tool calls`}: the loop goes on.`,
    value: (calls: number) =>
      calls === 0 ? "0 calls: return" : calls === 1 ? "1 call: go on" : `${calls} calls: go on`,
    run: (tool: string) => `The program runs ${tool}`,
    rounds: (rounds: number) => `${rounds === 1 ? "One more round" : `${rounds} more rounds`}. The program runs`,
    ended: "The program is ended in the middle of a call. The call has no result.",
    remind: "Three rounds without todo: a reminder goes out with the results.",
    results: "The results are added as one message. Back to the model.",
    past: (tokens: number, limit: number) =>
      `With the last result, the prompt would have about ${number(tokens)} tokens, past the limit of ${number(limit)}. Layer 1 clears what is struck out: that saves enough.`,
    cold: "After a pause the cache has expired: the whole prompt is paid for anyway. So layer 1 clears what is struck out.",
    cleared: (results: number) =>
      `After layer 1: ${results} old results are a line each. The newest stay, and so does what the model hasn’t answered.`,
    before: (isAsked: boolean, tokens: number, limit: number) =>
      isAsked
        ? "Layer 3: the model has called compact, so a summary comes before the next model call."
        : `About ${number(tokens)} tokens, past the limit of ${number(limit)}, and layer 1 would save too little. So layer 2: a summary.`,
    summary: (tokens: number, output: number) =>
      `The summary call: ${number(tokens)} tokens in, a summary of ${number(output)} out. It replaces what is struck out.`,
    after: (before: number, after: number) =>
      `After the compaction: ${before} messages have become ${after}. The request stays, and so do the calls that the model hasn’t answered.`,
    resume: (isEnded: boolean) =>
      `--resume: the program goes on with its transcript.${isEnded ? " The call without a result gets one: it may have run." : ""}`,
    child: "task calls agentLoop again, for a subagent with messages of its own.",
    prompt: "The prompt is all the subagent knows.",
    childEnd: "No tool call: the subagent is done.",
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
  demo: (files, calls, summaries) =>
    `一项任务，${files} 个文件：每一列是一次模型调用时上下文里的内容。共 ${calls} 次；写摘要的 ${summaries} 次没有画出。`,
  player: {
    title: (lesson) => `逐步回放 ${lesson} 的一次运行`,
    previous: "上一步",
    next: "下一步",
    play: "播放",
    pause: "暂停",
    step: "步骤",
    follows: "跟随正文",
    more: (lines) => `… 还有 ${number(lines)} 行`,
    kinds: {
      request: "用户请求",
      thinking: "思考",
      text: "文字",
      tool_use: "工具调用",
      tool_result: "工具结果",
      note: "程序添加的内容",
    },
    nextCall: (isChild, isSummary, isOpen) =>
      `${isChild ? "子智能体的" : ""}下一次模型调用${isSummary ? "（写摘要）" : ""}${isOpen ? "（等待结果）" : ""}：`,
    estimate: "如果不压缩，下一次模型调用：",
    noCall: "本回合不再调用模型。",
    unit: "token",
    read: "缓存命中",
    fresh: "新增",
    share: (percent) => `占窗口的 ${percent.toFixed(1)}%`,
    limit: (tokens) => `上限：${number(tokens)}`,
    start: "用户请求是第一条消息。",
    again: "下一个用户请求追加为一条新消息。",
    check: (limit) => `每次调用模型之前先检查：提示词是否超过上限 ${number(limit)} token？还没有。`,
    call: (messages, tokens) =>
      `模型收到${messages === 1 ? "这条消息" : `全部 ${messages} 条消息`}，连同系统提示词和工具共 ${number(tokens)} token，然后回复。`,
    reply: "回复追加进 messages。",
    if: (calls) =>
      calls === 0 ? "回复里没有工具调用：循环返回，回合结束。" : `回复里有 ${calls} 个工具调用：循环继续。`,
    value: (calls) => (calls === 0 ? "0 个调用：返回" : `${calls} 个调用：继续`),
    run: (tool) => `程序运行 ${tool}`,
    rounds: (rounds) => `又是 ${rounds} 轮，程序运行`,
    ended: "程序在一次调用中途被终止，这个调用没有结果。",
    remind: "连续三轮没有用 todo：提醒随结果一起发出。",
    results: "结果作为一条消息追加，再交给模型。",
    past: (tokens, limit) =>
      `加上最后一个结果，提示词约 ${number(tokens)} token，超过上限 ${number(limit)}。第一层清除划掉的内容，省下的足够多。`,
    cold: "停顿之后缓存已经过期，整个提示词反正要按全价付费，所以第一层清除划掉的内容。",
    cleared: (results) => `第一层之后：${results} 个旧结果各剩一行。最新的几个保留，模型还没有回应的也保留。`,
    before: (isAsked, tokens, limit) =>
      isAsked
        ? "第三层：模型调用了 compact，所以下一次模型调用之前先写摘要。"
        : `约 ${number(tokens)} token，超过上限 ${number(limit)}，而第一层省不了多少，所以由第二层写摘要。`,
    summary: (tokens, output) =>
      `摘要调用：发出 ${number(tokens)} token，写回 ${number(output)} token 的摘要，取代划掉的内容。`,
    after: (before, after) => `压缩之后：${before} 条消息变成 ${after} 条。用户请求和模型还没有回应的调用保留下来。`,
    resume: (isEnded) =>
      `--resume：程序接着会话记录继续。${isEnded ? "没有结果的调用得到一个结果：它可能已经运行。" : ""}`,
    child: "task 再次调用 agentLoop：子智能体有自己的 messages。",
    prompt: "子智能体只知道这段提示词。",
    childEnd: "没有工具调用：子智能体完成。",
    back: "子智能体的最后一段文字就是结果，它的消息全部丢掉。",
  },
  footer: "MIT 许可证。本站不加载任何外部资源；在查看器中打开的文件不会离开你的浏览器。",
};

export type Words = typeof EN;
export const words = (prefix: string): Words => (prefix === "zh/" ? ZH : EN);
