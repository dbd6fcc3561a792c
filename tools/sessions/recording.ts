/** Reads the text of a recording. */
import type * as z from "zod";
import { eventsOfClaudeCode } from "./claude-code.ts";
import { ClaudeLine } from "./claude-lines.ts";
import type { Recording, Skip, Skipped } from "./events.ts";
import { eventsOfS06, Line } from "./s06.ts";

/** Is told which part of the text has been read. */
export type Progress = (share: number) => void;

/** Counts in `skipped` what it can't read. */
export function readRecording(text: string, onProgress?: Progress): Recording {
  const skipped = new Map<string, Skipped>();
  const skip: Skip = (reason, line) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, line };
    entry.count++;
    skipped.set(reason, entry);
  };
  const read = readLines(text, skip, onProgress);
  return { ...read, skipped: [...skipped.values()] };
}

function readLines(text: string, skip: Skip, onProgress: Progress = () => {}): Omit<Recording, "skipped"> {
  const lines = text.split("\n");
  const accept = <Schema extends z.ZodType>(schema: Schema): z.output<Schema>[] =>
    lines.flatMap((line, i) => {
      onProgress((i + 1) / lines.length);
      if (line.trim() === "") return [];
      const value = parseLine(line);
      const { success, data } = schema.safeParse(value);
      if (!success) skip(value === undefined ? "broken line" : "unknown line", i + 1);
      return success ? [data] : [];
    });
  if (isOfS06(lines)) {
    const own = accept(Line);
    const threshold = own.findLast((line) => line.threshold)?.threshold;
    return { format: "s06", events: eventsOfS06(own), cwd: "/", threshold };
  }
  const all = accept(ClaudeLine);
  const cwd = all.find((line) => line.cwd)?.cwd ?? "/";
  return { format: "Claude Code", events: eventsOfClaudeCode(all, skip), cwd };
}

/** The first line that one of the two can have written decides. */
function isOfS06(lines: string[]): boolean {
  for (const line of lines) {
    const value = parseLine(line);
    if (Line.safeParse(value).success) return true;
    if (ClaudeLine.safeParse(value).success) return false;
  }
  return false;
}

/** Returns the value of a line of JSON with lone surrogates replaced, or undefined if the line is broken. */
export function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}
