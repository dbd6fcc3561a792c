/** Reads the text of a recording. */
import type * as z from "zod";
import { eventsOfClaudeCode } from "./claude-code.ts";
import { ClaudeLine } from "./claude-lines.ts";
import type { Recording, Skip, Skipped } from "./events.ts";
import { eventsOfS06, Line } from "./s06.ts";

/** Counts in `skipped` what it can't read. */
export function readRecording(text: string): Recording {
  const skipped = new Map<string, Skipped>();
  const skip: Skip = (reason, line) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, line };
    entry.count++;
    skipped.set(reason, entry);
  };
  const read = readLines(text, skip);
  return { ...read, skipped: [...skipped.values()] };
}

function readLines(text: string, skip: Skip): Omit<Recording, "skipped"> {
  const lines = text.split("\n").flatMap((line, i) => (line.trim() ? [{ number: i + 1, value: parseLine(line) }] : []));
  const accept = <Schema extends z.ZodType>(schema: Schema): z.output<Schema>[] =>
    lines.flatMap(({ value, number }) => {
      const { success, data } = schema.safeParse(value);
      if (!success) skip(value === undefined ? "broken line" : "unknown line", number);
      return success ? [data] : [];
    });
  if (lines.some(({ value }) => Line.safeParse(value).success)) {
    const own = accept(Line);
    const threshold = own.findLast((line) => line.threshold)?.threshold;
    return { format: "s06", events: eventsOfS06(own), cwd: "/", threshold };
  }
  const all = accept(ClaudeLine);
  const cwd = all.find((line) => line.cwd)?.cwd ?? "/";
  return { format: "Claude Code", events: eventsOfClaudeCode(all, skip), cwd };
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
