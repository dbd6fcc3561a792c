/** The file that a reader begins with: a lesson without the bodies of what the reader writes. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { codeOf, functionsOf, type Lesson } from "../docs/lessons.ts";

export type Step = { name: string; functions: string[]; page: string; hint: string };
type Entry = { with?: string; page: string; hint: string };
const { bodies, ...entries } = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

/** The steps of a lesson. The last has nothing to write: its tests are those of what is given, and of the program. */
export function stepsOf({ name: lesson }: Lesson): Step[] {
  const steps = Object.entries<Entry>(entries[lesson]).map(([name, { with: others, page, hint }]) => {
    return { name, functions: [name, ...(others?.split(" ") ?? [])], page, hint };
  });
  const hint = "All steps are written. These tests are about what was given, and the program as a whole.";
  return [...steps, { name: "program", functions: [], page: "", hint }];
}

/** A function as it was in the lesson before, if it was there. */
function oldCode({ before }: Lesson, name: string): string | undefined {
  const old = before && functionsOf(before).get(name);
  return old && codeOf(before, old).join("\n");
}

/** The body of a function that is to be written. */
function stubOf(name: string): string {
  const body = bodies[name];
  const stub = body === undefined ? `throw new Error("write me: ${name}");` : `${body} // write me: ${name}`.trim();
  return name.includes(".") ? `    ${stub}` : `  ${stub}`;
}

/** Whether a function of the reader's file is still as it was at the beginning. */
export function isOpen(lesson: Lesson, source: string, name: string): boolean {
  const closing = name.includes(".") ? "  }" : "}";
  return source.includes(oldCode(lesson, name) ?? `{\n${stubOf(name)}\n${closing}\n`);
}

/** A lesson in which of all the functions of its steps only these are written. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const lines: (string | undefined)[] = [...lesson.lines];
  const parts = functionsOf(lesson);
  for (const name of stepsOf(lesson).flatMap(({ functions }) => functions)) {
    const [part, old] = [parts.get(name), oldCode(lesson, name)];
    if (!part) throw new Error(`${lesson.file} has no function ${name}`);
    if (written.includes(name)) continue;
    const { from, to } = old ? part : part.body;
    lines.fill(undefined, from - 1, to);
    lines[from - 1] = old ?? stubOf(name);
  }
  return `${lines.filter((line) => line !== undefined).join("\n")}\n`;
}
