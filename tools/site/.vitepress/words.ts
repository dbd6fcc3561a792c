/** The site's own words. */

export const number = (value: number) => value.toLocaleString("en-US");
const about = (value: number) => number(Math.round(value / 100) * 100);

const EN = {
  title: "A coding agent in six lessons",
  siteTitle: "Six lessons",
  tagline:
    "Six TypeScript files. The first is a loop with one tool; the last is a whole coding agent that keeps working when its context window is full. All of it runs without a key.",
  description: "How coding agents work: six scripts to read in one evening",
  lessons: "Lessons",
  changes: "What changed",
  changesOf: (lesson: string) => `What changed in ${lesson}`,
  lines: "lines",
  states: { new: "new", changed: "changed" } as Record<string, string>,
  diff: "Line by line: what is new",
  viewer: "Context viewer",
  start: (lesson: string, time: string) => `Start ${lesson} · ${time}`,
  ownSession: "See your own session",
  place: (number: number, of: number) => `${number} of ${of}`,
  showStep: "Show this step of the run",
  smallerRun: "The run that this page plays step by step is a smaller one.",
  reference: "Reference",
  menu: {
    "docs/promises.md": "What every lesson promises",
    "docs/python.md": "Python → TypeScript",
    "docs/benchmarks.md": "What forgetting costs",
    "docs/api.md": "The local API",
    "docs/words.md": "Words",
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
    follow: "Back to the text",
    recorded: "Recorded: the agent writes and runs hello.mjs",
    lines: "This section is about these lines.",
    more: (lines: number) => `… ${number(lines)} more ${lines === 1 ? "line" : "lines"}`,
    kinds: {
      request: "request",
      thinking: "thinking",
      reply: "text",
      call: "tool call",
      result: "tool result",
      summary: "summary",
      file: "file",
      reminder: "reminder",
      client: "note",
    } as Record<string, string>,
    modelCall: (when: "last" | "now" | "next", isChild: boolean, isSummary: boolean, was: number) =>
      `${{ last: "Last", now: "This", next: "Next" }[when]} model call${isChild ? " of the subagent" : ""}${isSummary ? ", for a summary" : ""}${was ? ` (was ${number(was)})` : ""}:`,
    estimate: "Next model call, before compaction:",
    noCall: "No model call until the next request.",
    unit: "tokens",
    read: "from the cache:",
    fresh: "new:",
    cache: (tokens: number) => (tokens > 0 ? `Now in the cache: ${number(tokens)}` : "The cache is empty"),
    threshold: (tokens: number) => `threshold: ${number(tokens)}`,
    marks: {
      round: "tokens of a model call",
      fresh: "new tokens",
      read: "cached",
      1: "clear",
      2: "summary",
      3: "asked",
    } as Record<string, string>, // others say their name
    start: "The loop begins: the user's request is the first message.",
    again: "The user's next request is one more message.",
    check: (threshold: number) =>
      `Before each model call: is the prompt (system prompt, tools, messages) past the threshold of ${number(threshold)} tokens? Not yet.`,
    call: (messages: number, tokens: number) =>
      `The model gets ${messages === 1 ? "this message" : `all ${messages} messages`}, the system prompt and the tools: ${number(tokens)} tokens. Its reply, dashed, isn't in messages yet.`,
    reply: "The reply is added to messages.",
    if: (calls: number) =>
      `The reply has ${["no tool call: the loop is done, and returns", "a tool call: the loop goes on"][calls] ?? `${calls} tool calls: the loop goes on`}.`,
    value: (calls: number): string => (calls === 0 ? "return" : "go on"),
    run: (tool: string) => `The program runs ${tool}`,
    rounds: (rounds: number) => `${rounds === 1 ? "One round" : `${rounds} rounds`}. The program runs`,
    remind: "Three rounds without todo, and the list isn't finished. A reminder with the list follows the results.",
    results: "What the tools returned is added as one message, in the role of the user. Back to the model.",
    cached: (messages: number, fresh: number) =>
      `The model gets all ${messages} messages. The cache has the prompt before, with which this one begins: only ${fresh} tokens are new. They cost 25 times as much as cached ones.`,
    past: (tokens: number, saved: number) =>
      `About ${number(tokens)} tokens, past the threshold. Layer 1 acts if it saves 40% of the threshold. Here it saves about ${about(saved)}, by clearing what's struck out.`,
    cold: (saved: number) =>
      `Not past the threshold, but the cache is cold, so the whole prompt is paid for anyway. Layer 1 saves about ${about(saved)} by clearing what's struck out.`,
    cleared: (results: number, isCold: boolean) =>
      `Layer 1: ${results === 1 ? "one old result is a line now" : `${results} old results are a line each now`}. ${isCold ? "No cached tokens are lost, because there were none." : "Short ones stay, and so do the newest 3 long ones, and whatever the model hasn't answered."}`,
    clearedPrice: (room: number, fresh: number) =>
      `The gain is ${number(room)} tokens. The price: the cache ends at the first line that changed, so ${number(fresh)} tokens are new, and thinking after it becomes text.`,
    before: (tokens: number, threshold: number) =>
      `About ${number(tokens)} tokens, past the threshold of ${number(threshold)}. Clearing old results would save less than 40% of that, so layer 2 asks for a summary.`,
    asked: "Layer 3, whatever the size: the model has called compact, so a summary is made before the next model call.",
    summary: (tokens: number, out: number) =>
      `A separate model call summarizes what the model has answered: ${number(tokens)} tokens in, of which only the instruction is new, and ${out} out. The summary replaces what's struck out.`,
    after: (before: number, after: number) =>
      `${before} messages have become ${after}: the request, the summary with the files used last, the tool call in progress, and its result.`,
    afterPrice: (room: number, fresh: number) =>
      `The gain is ${number(room)} tokens. The price: that model call, what the summary leaves out, and ${number(fresh)} new tokens, since the cache ends at the request.`,
    killed:
      "This command kills the program, and all messages are gone. The transcript on disk ends with this tool call:",
    paused: "Nothing runs. After 300 seconds without a model call, the prompt cache has expired: it's cold.",
    disk: "On disk, the transcript ends with:",
    resume:
      "A new program reads the transcript. It adds a result for the tool call that was cut off, and a note that the turn stopped. Thinking becomes text.",
    child: "task calls agentLoop again, for a subagent with messages of its own.",
    prompt: "The prompt is all the subagent knows.",
    back: "The subagent's last text is the result. Its messages are dropped.",
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
  changesOf: (lesson) => `${lesson} 的改动`,
  lines: "行",
  states: { new: "新增", changed: "有改动" },
  diff: "逐行对比：新增的代码",
  viewer: "上下文查看器",
  start: (lesson, time) => `从 ${lesson} 开始 · ${time}`,
  ownSession: "查看自己的会话",
  place: (number, of) => `第 ${number} 课，共 ${of} 课`,
  showStep: "查看这一步的运行",
  smallerRun: "本页逐步回放的，是另一次较小的运行。",
  reference: "参考",
  menu: {
    "docs/promises.md": "每一课的保证（英文）",
    "docs/python.md": "Python → TypeScript（英文）",
    "docs/benchmarks.md": "遗忘的代价（英文）",
    "docs/api.md": "本地 API（英文）",
    "docs/words.md": "术语",
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
    follow: "回到正文的位置",
    recorded: "运行记录：agent 写出并运行 hello.mjs",
    lines: "这一节讲的是这几行。",
    more: (lines) => `… 还有 ${number(lines)} 行`,
    kinds: {
      request: "用户请求",
      thinking: "思考",
      reply: "文字",
      call: "工具调用",
      result: "工具结果",
      summary: "摘要",
      file: "文件",
      reminder: "提醒",
      client: "说明",
    },
    modelCall: (when, isChild, isSummary, was) =>
      `${isChild ? "子智能体的" : ""}${{ last: "上一次", now: "本次", next: "下一次" }[when]}模型调用${isSummary ? "（写摘要）" : ""}${was ? `（压缩前 ${number(was)}）` : ""}：`,
    estimate: "下一次模型调用，压缩之前：",
    noCall: "下一个请求到来之前，不再调用模型。",
    unit: "token",
    read: "缓存命中",
    fresh: "新增",
    cache: (tokens) => (tokens > 0 ? `现在缓存中有 ${number(tokens)}` : "缓存是空的"),
    threshold: (tokens) => `阈值：${number(tokens)}`,
    marks: {
      round: "模型调用的 token 数",
      fresh: "新增 token",
      read: "缓存命中",
      threshold: "阈值",
      1: "清除",
      2: "摘要",
      3: "要求",
      reminder: "提醒",
      subagent: "子智能体",
      resume: "恢复",
    },
    start: "循环开始：用户请求是第一条消息。",
    again: "用户的下一个请求追加为一条新消息。",
    check: (threshold) =>
      `每次调用模型之前先检查：提示词（系统提示词、工具和消息）是否超过阈值 ${number(threshold)} token？还没有。`,
    call: (messages, tokens) =>
      `模型收到${messages === 1 ? "这条消息" : `全部 ${messages} 条消息`}，连同系统提示词和工具共 ${number(tokens)} token。虚线里是回复，还不在 messages 里。`,
    reply: "回复追加进 messages。",
    if: (calls) => (calls === 0 ? "回复里没有工具调用：循环结束并返回。" : `回复里有 ${calls} 个工具调用：循环继续。`),
    value: (calls) => (calls === 0 ? "返回" : "继续"),
    run: (tool) => `程序运行 ${tool}`,
    rounds: (rounds) => `${rounds} 轮，程序运行`,
    remind: "连续三轮没有用 todo，清单也还没有完成：提醒连同清单跟在结果后面。",
    results: "工具返回的结果以 user 的身份追加为一条消息，再交给模型。",
    cached: (messages, fresh) =>
      `模型收到全部 ${messages} 条消息。开头就是上一次的提示词，已经在缓存里：只有 ${fresh} token 是新的，单价是缓存命中的 25 倍。`,
    past: (tokens, saved) =>
      `约 ${number(tokens)} token，超过阈值。第一层能省下阈值的 40% 才动手：这里约省 ${about(saved)}，将清除划掉的内容。`,
    cold: (saved) => `没有超过阈值，但缓存已冷，整个提示词反正要付全价。第一层约省 ${about(saved)}，将清除划掉的内容。`,
    cleared: (results, isCold) =>
      `第一层：${results} 个旧结果只剩一行。${isCold ? "不损失缓存：它本来就是空的。" : "很短的、最新三个长的，以及模型还没有答复的，都保留。"}`,
    clearedPrice: (room, fresh) =>
      `得到 ${number(room)} token 的空间。代价：缓存只匹配到第一处改动为止，${number(fresh)} token 是新的；那之后的思考改成文字。`,
    before: (tokens, threshold) =>
      `约 ${number(tokens)} token，超过阈值 ${number(threshold)}。清除旧结果省不到阈值的 40%，所以由第二层写摘要。`,
    asked: "第三层，不论大小：模型调用了 compact 工具，所以在下一次模型调用之前先写摘要。",
    summary: (tokens, out) =>
      `单独用一次模型调用，为模型答复过的内容写摘要：发出 ${number(tokens)} token，新的只有写摘要的指令；写回 ${out} token。摘要将取代划掉的内容。`,
    after: (before, after) =>
      `${before} 条消息变成 ${after} 条：请求、摘要和最近用过的文件、进行中的工具调用、它的结果。`,
    afterPrice: (room, fresh) =>
      `得到 ${number(room)} token 的空间。代价：刚才那次模型调用，摘要略去的内容，还有 ${number(fresh)} 个新 token：缓存只匹配到请求为止。`,
    killed: "这条命令杀死了程序，内存里的消息全部消失。会话记录还在磁盘上，最后一条是这个工具调用：",
    paused: "程序没有运行。300 秒没有模型调用，提示词缓存过期，变冷了。",
    disk: "磁盘上的会话记录以这几条结尾：",
    resume: "新的程序读取会话记录，为被打断的工具调用补上一个结果，再加一条说明：这个回合已停止。思考变成文字。",
    child: "task 再次调用 agentLoop：子智能体有自己的 messages。",
    prompt: "子智能体只知道这段提示词。",
    back: "子智能体的最后一段文字就是结果，它的消息全部丢掉。",
  },
  footer: "MIT 许可证。本站不加载任何外部资源；在查看器中打开的文件不会离开你的浏览器。",
};

export const words = (prefix: string): typeof EN => (prefix === "zh/" ? ZH : EN);
