/** Reads the text of a recording. It also runs in a browser. */
import type * as z from "zod";
import { eventsOfClaudeCode } from "./claude-code.ts";
import { ClaudeLine } from "./claude-lines.ts";
import type { Recording, Skip, Skipped } from "./events.ts";
import { eventsOfS06, isOld, Line } from "./s06.ts";

/** Counts in `skipped` what it can't read. Throws if an earlier version of s06 wrote the text. `report` is told how far it is. */
export function readRecording(text: string, report?: (share: number) => void): Recording {
  const skipped = new Map<string, Skipped>();
  const skip: Skip = (reason, line) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, line };
    entry.count++;
    skipped.set(reason, entry);
  };
  const read = readLines(text, skip, report);
  return { ...read, skipped: [...skipped.values()] };
}

function readLines(text: string, skip: Skip, report?: (share: number) => void): Omit<Recording, "skipped"> {
  const lines = text.split("\n").flatMap((line, i, { length }) => {
    report?.(i / length);
    return line.trim() ? [{ number: i + 1, value: parseLine(line) }] : [];
  });
  const accept = <Schema extends z.ZodType>(schema: Schema): z.output<Schema>[] =>
    lines.flatMap(({ value, number }) => {
      const { success, data } = schema.safeParse(value);
      if (!success) skip(value === undefined ? "broken line" : "unknown line", number);
      return success ? [data] : [];
    });
  if (lines.some(({ value }) => Line.safeParse(value).success)) {
    if (lines.some(({ value }) => isOld(value)))
      throw new Error("an earlier version of s06 wrote it, in another format");
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
