/** Lines of a lesson's script by what happens in them, for whoever shows which line runs. */
import type { Lesson } from "./source.ts";

/** A part of each line. All of them come after `function agentLoop`. */
const LINES = {
  start: "function agentLoop",
  again: 'role: "user", content: request }',
  check: "await compactIfNeeded(",
  call: "const reply =",
  reply: 'role: "assistant", content: reply',
  if: "if (calls.length === 0)",
  run: "runCall(call",
  remind: "TODO.reminderAfter(calls)",
  results: "content: results",
  past: "if (isPastThreshold()) clearOldResults(",
  cold: "if (isColdRequest(messages, state)) clearOldResults(",
  cleared: 'replaceHistory(messages, cleared, "micro"',
  asked: "if (state.pendingCompact) await autoCompact(",
  before: 'await autoCompact(messages, "auto"',
  summary: "callModel([...answered",
  after: "replaceHistory(messages, [...requests, message",
  pause: "const CACHE_SECONDS = ",
  resume: 'answerOpenCalls(replay(entries)), "resume"',
};
export type LineName = keyof typeof LINES;
export const LINE_NAMES = Object.keys(LINES) as LineName[];

/** @returns the index of a line, counted from 0 @throws if the lesson has none like it */
export function lineNamed(name: LineName, { file, lines }: Pick<Lesson, "file" | "lines">): number {
  const loop = lines.findIndex((line) => line.includes(LINES.start));
  const line = lines.findIndex((each, i) => i >= loop && each.includes(LINES[name]));
  if (line < 0) throw new Error(`${file} has no line with ${LINES[name]}; tools/lesson/lines.ts names it "${name}"`);
  return line;
}

/** @returns the function that a line is in, as `name()`; nothing for a line at the top level */
export function functionAround(line: number, { lines }: Pick<Lesson, "lines">): string {
  if (/^\S/.test(lines[line] ?? "")) return "";
  const names = lines.slice(0, line).map((text) => /^(?:export )?(?:async )?function (\w+)/.exec(text)?.[1]);
  return `${names.findLast(Boolean)}()`;
}
