/** Shows the messages around a compaction, as a transcript of s06 has them. */
import { readFileSync } from "node:fs";
import { type Message, type Part, readConversation, textOf } from "../trace/conversation.ts";

const WIDTH = 80; // characters of a line, without the columns for role and kind
const count = (value: number) => value.toLocaleString("en-US");

/**
 * The history when a transcript's compaction began, or what replaced it.
 * @param which the compaction: `1` is the first with a summary, `micro:1` the first of that trigger
 */
export function historyAt(file: string, which: string, side: "before" | "after"): Message[] {
  let history: Message[] = [];
  let seen = 0;
  const [, trigger, number] = /^(?:(\w+):)?(\d+)$/.exec(which) ?? [];
  for (const step of readConversation(readFileSync(file, "utf8")).steps) {
    if (step.type === "message") history.push(step);
    if (step.type !== "rewrite") continue;
    const isKind = trigger ? step.trigger === trigger : /^(auto|tool|manual|recovery)$/.test(step.trigger);
    if (isKind) seen++;
    if (isKind && seen === Number(number)) return side === "before" ? history : step.messages;
    history = [...step.messages];
  }
  throw new Error(`${file} has no compaction ${which}: it has only ${seen}`);
}

/** A message as a table: its role, then a row for each block. At most `most` lines of a text are shown. */
export function describe({ role, parts }: Message, most: number): string {
  const files = parts.filter((part) => contentOf(part).startsWith("<file"));
  const left = new Set(files.slice(2));
  const shown: Part[] = parts.filter((part) => !left.has(part));
  if (left.size > 0) shown.push({ type: "text", text: `… ${left.size} more files` });
  const rows = shown.flatMap((part) => {
    const lines = contentOf(part)
      .split("\n")
      .filter((line) => line.trim());
    const few = lines.slice(0, most).map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH)} …` : line));
    if (lines.length > most) few.push(`… more lines: ${count(lines.length - most)}`);
    return few.map((line, i) => `${(i === 0 ? part.type : "").padEnd(13)}${line}`);
  });
  return rows.map((row, i) => `${(i === 0 ? role : "").padEnd(11)}${row}`.trimEnd()).join("\n");
}

function contentOf(part: Part): string {
  if (part.type === "text") return part.text;
  if (part.type === "thinking") return part.thinking;
  if (part.type === "tool_use") return `${part.name} ${JSON.stringify(part.input)}`;
  return part.type === "tool_result" ? textOf(part.content) : "";
}
