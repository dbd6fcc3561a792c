/** Shows the messages around a compaction, as a transcript of s06 has them. */
import { readFileSync } from "node:fs";
import type Anthropic from "@anthropic-ai/sdk";

type Entry = Anthropic.MessageParam | { type: "compaction"; trigger: string; messages: Anthropic.MessageParam[] };

const WIDTH = 80; // characters of a line, without the columns for role and kind
const count = (value: number) => value.toLocaleString("en-US");

/**
 * The history when a transcript's compaction began, or what replaced it.
 * @param which the compaction: `1` is the first with a summary, `micro:1` the first of that trigger
 */
export function historyAt(file: string, which: string, side: "before" | "after"): Anthropic.MessageParam[] {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  let history: Anthropic.MessageParam[] = [];
  let seen = 0;
  const [, trigger, number] = /^(?:(\w+):)?(\d+)$/.exec(which) ?? [];
  for (const line of lines) {
    const entry: Entry = JSON.parse(line);
    if ("role" in entry) history.push(entry);
    else {
      const isKind = trigger ? entry.trigger === trigger : !/^(micro|resume|refused|rejected)$/.test(entry.trigger);
      if (isKind) seen++;
      if (isKind && seen === Number(number)) return side === "before" ? history : entry.messages;
      history = [...entry.messages];
    }
  }
  throw new Error(`${file} has no compaction ${which}: it has only ${seen}`);
}

/** A message as a table: its role, then a row for each block. At most `most` lines of a text are shown. */
export function describe({ role, content }: Anthropic.MessageParam, most: number): string {
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  const files = blocks.filter((block) => textOf(block).startsWith("<file"));
  const left = new Set(files.slice(2));
  const shown = blocks.filter((block) => !left.has(block));
  if (left.size > 0) shown.push({ type: "text", text: `… ${left.size} more files` });
  const rows = shown.flatMap((block) => {
    const lines = textOf(block)
      .split("\n")
      .filter((line) => line.trim());
    const few = lines.slice(0, most).map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH)} …` : line));
    if (lines.length > most) few.push(`… more lines: ${count(lines.length - most)}`);
    return few.map((line, i) => `${(i === 0 ? block.type : "").padEnd(13)}${line}`);
  });
  return rows.map((row, i) => `${(i === 0 ? role : "").padEnd(11)}${row}`.trimEnd()).join("\n");
}

function textOf(block: Anthropic.ContentBlockParam): string {
  if (block.type === "text") return block.text;
  if (block.type === "thinking") return block.thinking;
  if (block.type === "tool_use") return `${block.name} ${JSON.stringify(block.input)}`;
  return block.type === "tool_result" ? String(block.content) : "";
}
