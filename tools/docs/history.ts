/** Shows the history that a compaction left, for a page. */
import { readFileSync } from "node:fs";
import { readTimeline } from "../trace/read-timeline.ts";
import { type Block, type Message, messagesAt } from "../trace/timeline.ts";

const WIDTH = 80; // characters of a line, without the columns for role and type
const FILES = 2; // the rest are only counted
/** How the API calls a block. All others are text. */
const TYPES: Record<string, string> = { thinking: "thinking", call: "tool_use", result: "tool_result" };

/**
 * Returns a line for each block, with the first line of its text and how many more there are.
 * @param trigger names the compaction: the first of this kind in the trace
 */
export function historyAfter(file: string, trigger: string): string {
  const timeline = readTimeline(readFileSync(file, "utf8"));
  const compaction = timeline.compactions.find((each) => each.trigger === trigger);
  if (!compaction) throw new Error(`${file} has no compaction with the trigger ${trigger}`);
  return messagesAt(timeline, compaction.after).map(describeMessage).join("\n");
}

function describeMessage({ role, blocks }: Message): string {
  const hidden = blocks.filter(({ kind }) => kind === "file").slice(FILES);
  const rows = blocks.filter((block) => !hidden.includes(block)).flatMap(rowsOf);
  if (hidden.length > 0) rows.push(`${"text".padEnd(13)}… ${hidden.length} more files`);
  return rows.map((row, i) => `${(i === 0 ? role : "").padEnd(11)}${row}`.trimEnd()).join("\n");
}

function rowsOf({ kind, tool, text }: Block): string[] {
  const lines = text.split("\n").filter((line) => line.trim());
  const first = `${kind === "call" ? `${tool} ` : ""}${lines[0] ?? ""}`;
  const row = `${(TYPES[kind] ?? "text").padEnd(13)}${first.length > WIDTH ? `${first.slice(0, WIDTH)} …` : first}`;
  return lines.length > 1 ? [row, `${" ".repeat(13)}… more lines: ${lines.length - 1}`] : [row];
}
