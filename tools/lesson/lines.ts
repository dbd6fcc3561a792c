/** Finds the lines of a lesson that a recorded run points to. */
import type { Lesson } from "./source.ts";
import { LINES } from "./wording.ts";

export type LineName = keyof typeof LINES;

/** Returns the index of a line, counted from 0. Throws if the lesson has no such line. */
export function lineNamed(name: LineName, { file, lines }: Pick<Lesson, "file" | "lines">): number {
  const loop = lines.findIndex((line) => line.includes(LINES.start));
  const line = lines.findIndex((each, i) => i >= loop && each.includes(LINES[name]));
  if (line < 0) throw new Error(`${file} has no line with ${LINES[name]}; tools/lesson/wording.ts calls it "${name}"`);
  return line;
}

/** Returns the function that a line is in, as `name()`, or an empty string at the top level. */
export function functionAround(line: number, { lines }: Pick<Lesson, "lines">): string {
  if (/^\S/.test(lines[line] ?? "")) return "";
  const names = lines.slice(0, line).map((text) => /^(?:export )?(?:async )?function (\w+)/.exec(text)?.[1]);
  return `${names.findLast(Boolean)}()`;
}
