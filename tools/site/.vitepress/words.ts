/** The site's own words. */
const EN = {
  title: "A coding agent in six lessons",
  tagline:
    "Six TypeScript files. The first is a loop with one tool; the last is a whole coding agent that keeps working when its context window is full. All of it runs without a key.",
  description: "How coding agents work: six scripts to read in one evening",
  start: "Start with s01",
  lessons: "Lessons",
  changes: "What changed",
  changesOf: "What changed in",
  onlyNew: "Only what is new",
  sideBySide: "Side by side",
  lines: "lines",
  states: { new: "new", changed: "changed", same: "same" },
  diff: "Line by line: only what is new, or side by side",
  viewer: "Context viewer",
  viewerIntro:
    "Open a session of s06 (`.transcripts/*.jsonl`) or of Claude Code (`~/.claude/projects/**/*.jsonl`), and see what filled its context. The file stays in your browser.",
  reference: "Reference",
  untranslated: "",
  footer: "MIT license. This site loads nothing from elsewhere, and what you open in the viewer stays in your browser.",
};

const ZH: typeof EN = {
  title: "六课读懂 coding agent",
  tagline:
    "六个 TypeScript 文件：第一个只有一个循环和一个工具，最后一个是完整的 coding agent，上下文窗口写满了也能继续工作。不需要密钥就能全部运行。",
  description: "coding agent 的工作原理：六个脚本，一个晚上读完",
  start: "从 s01 开始",
  lessons: "课程",
  changes: "改动对比",
  changesOf: "改动对比：",
  onlyNew: "只看新增",
  sideBySide: "左右对照",
  lines: "行",
  states: { new: "新增", changed: "有改动", same: "未变" },
  diff: "逐行对比：只看新增，或左右对照",
  viewer: "上下文查看器",
  viewerIntro:
    "打开一份 s06 的会话记录（`.transcripts/*.jsonl`）或 Claude Code 的会话记录（`~/.claude/projects/**/*.jsonl`），看看上下文里都装了什么。文件只在浏览器里处理，不会上传。",
  reference: "参考",
  untranslated: "本页暂无中文版，以下为英文原文。",
  footer: "MIT 许可证。本站不加载任何外部资源；在查看器中打开的文件不会离开你的浏览器。",
};

export type Words = typeof EN;
export const words = (prefix: string): Words => (prefix === "zh/" ? ZH : EN);
