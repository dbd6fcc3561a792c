/** Builds the lines of session files for tests. */
import { SUMMARY } from "../lesson/wording.ts";

export const linesOf = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

export const text = (text: string) => ({ type: "text", text });
export const use = (id: string, name: string, input: object = {}) => ({ type: "tool_use", id, name, input });
export const result = (id: string, content: unknown = `result of ${id}`) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});
export const user = (content: unknown) => ({ role: "user", content });
export const reply = (...content: object[]) => ({ role: "assistant", content });
export const summary = user([text(`${SUMMARY} Transcript: t.jsonl]\n\nAll.`)]);

/** A line of s06. */
export const own = (message: object, state: object = {}) => ({ message, state });
/** A line of s06 after a compaction. */
export const compaction = (trigger: string, messages: object[], more: object = {}) => ({
  type: "compaction",
  trigger,
  messages,
  state: {},
  ...more,
});

/** A line of Claude Code. */
export function line(parentUuid: string | null, uuid: string, minute: number, message: object, more: object = {}) {
  const timestamp = new Date(60_000 * minute).toISOString();
  return { type: "id" in message ? "assistant" : "user", uuid, parentUuid, timestamp, cwd: "/app", message, ...more };
}
/** A reply of Claude Code, or one line of it: lines with the same `id` belong together. */
export const said = (id: string, ...content: object[]) => ({ ...reply(...content), id });
