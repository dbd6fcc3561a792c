/** Builds the lines of session files for tests. */
import { SUMMARY } from "../../offline/wording.ts";

export const linesOf = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

export const text = (text: string) => ({ type: "text", text });
export const thinking = (thinking: string) => ({ type: "thinking", thinking });
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
export const own = (message: object, more: object = {}) => ({ message, ...more });
/** A line of s06 before a reply: read from the cache, written to it, sent without it, and output. */
export const used = (counts: number[], more: object = {}) => ({ usage: usageOf(counts), ...more });
/** A line of s06 with a new history. */
export const rewrite = (trigger: string, messages: object[], more: object = {}) => ({
  type: "rewrite",
  trigger,
  messages,
  ...more,
});

const usageOf = ([read, written, input, output]: number[]) => ({
  cache_read_input_tokens: read,
  cache_creation_input_tokens: written,
  input_tokens: input,
  output_tokens: output,
});

/** A line of Claude Code. Without a parent, it continues the line above. */
export function claude(minute: number, message: object, more: object = {}) {
  const timestamp = new Date(60_000 * minute).toISOString();
  return { type: "id" in message ? "assistant" : "user", timestamp, cwd: "/app", message, ...more };
}
/** A line of Claude Code at a place in the tree of lines. */
export const line = (parentUuid: string | null, uuid: string, minute: number, message: object, more: object = {}) =>
  claude(minute, message, { uuid, parentUuid, ...more });
/** The line with which Claude Code announces a compaction. */
export const boundary = (compactMetadata: object, more: object = {}) => ({ type: "system", compactMetadata, ...more });
/** A summary that Claude Code puts in place of all earlier messages. */
export const continued = (minute: number, content = "This session is continued.") =>
  claude(minute, user(content), { isCompactSummary: true });
/** A reply of Claude Code, or one line of it: lines with the same `id` belong together. */
export const said = (id: string, ...content: object[]) => ({ ...reply(...content), id });
/** Such a reply with its tokens: read from the cache, written to it, sent without it, and output. */
export const billed = (id: string, counts: number[], ...content: object[]) => ({
  ...said(id, ...content),
  model: "claude-opus-5-5",
  usage: usageOf(counts),
});

/** A session of Claude Code with a subagent, a cache miss and a compaction. */
export const claudeSession = linesOf(
  claude(0, user("Look at the code.")),
  claude(1, billed("m1", [0, 9_000, 3, 8], text("I look."))),
  claude(1, billed("m1", [0, 9_000, 3, 50], use("t1", "Read", { file_path: "/app/a.ts" }))),
  claude(2, user([result("t1", "const a = 1;\n".repeat(1_000))])),
  claude(2, billed("m2", [9_000, 4_000, 1, 60], use("t2", "Bash", { command: "npm test" }))),
  claude(3, user([result("t2", "ok\n".repeat(100))])),
  claude(3, user("A subagent's."), { isSidechain: true }),
  claude(12, billed("m3", [0, 13_200, 1, 20], text("Seen."))),
  boundary({ trigger: "manual", preTokens: 13_300 }),
  continued(13),
  claude(13, user("And now?")),
  claude(13, billed("m4", [8_000, 700, 1, 20], text("Done."))),
);

/** A session whose file starts with a compaction. The messages before it are in another file. */
export const openedByCompaction = linesOf(
  boundary({ trigger: "auto", preTokens: 998_659, postTokens: 18_101 }),
  continued(0, "This session is continued. ".repeat(800)),
  claude(1, billed("m1", [38_000, 31_000, 2, 50], text("On it."))),
);
