/** The file that a reader begins with: a lesson without the bodies of what the reader writes. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { codeOf, functionsOf, type Lesson } from "../docs/lessons.ts";

export type Step = { name: string; functions: string[]; hint: string; tests: string[] };
const read = (name: string) => parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const { bodies, ...hints }: Record<string, Record<string, string>> = read("steps.yaml");

/** Tests of programs, terminals, time and kills, with the name of their group. They run when the rest is green. */
export const IS_LATE =
  /program|terminal|Ctrl-|typed|^in a pause|disk has no room|user sees|the question shows|takes too long|through tee|process group|SIGTERM|interrupt| alive|slow reader|reads what it prints/;

/** The steps of a lesson. The last has nothing to write: it is the stage of the late tests. */
export function stepsOf({ name: lesson }: Lesson): Step[] {
  const tests: Record<string, string[]> = read("tests.json")[lesson] ?? {};
  const all = { ...hints[lesson], late: "These are about Ctrl-C, time, terminals and the program as a whole." };
  return Object.entries(all).map(([name, hint]) => {
    return { name, functions: name === "late" ? [] : name.split(" "), hint, tests: tests[name] ?? [] };
  });
}

/** A function as it was in the lesson before, if it was there. */
function oldCode({ before }: Lesson, name: string): string | undefined {
  const old = before && functionsOf(before).get(name);
  return old && codeOf(before, old).join("\n");
}

/** The body of a function that is to be written. */
function stubOf(name: string): string {
  const body = bodies?.[name];
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
