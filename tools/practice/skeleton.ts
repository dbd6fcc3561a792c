/** The steps of a lesson, the file that a reader begins with, and the files on which the steps are graded. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { declarations, functionsOf, type Lesson, type Lines } from "../docs/lessons.ts";

/** `name`: its first function. */
export type Step = { name: string; functions: string[]; page: string; hint: string };
const steps: Record<string, Omit<Step, "name">[]> = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

export const stepsOf = ({ name }: Lesson): Step[] =>
  (steps[name] ?? []).map((step) => ({ name: `${step.functions[0]}`, ...step }));

/** A version of a lesson, and the lines of what it declares, comments included. A method is Class.method. */
export type Code = { lines: string[]; parts: Map<string, Lines> };

/** @throws if the text cannot be parsed */
export function read(lesson: Lesson, text: string): Code {
  const lines = text.split("\n");
  const methods = [...functionsOf({ lines })].filter(([name]) => name.includes("."));
  return { lines, parts: new Map([...declarations({ ...lesson, lines }, { from: 1, to: lines.length }), ...methods]) };
}

function partOf({ lines, parts }: Code, name: string): string[] {
  const { from, to } = parts.get(name) ?? { from: 1, to: 0 };
  return lines.slice(from - 1, to);
}

/** A lesson in which of the functions of its steps only these are written. A step that changes the lesson before is as it was there. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const { before = { lines: [] } } = lesson;
  const [parts, old, open] = [functionsOf(lesson), functionsOf(before), new Map<string, string[]>()];
  for (const { functions } of stepsOf(lesson)) {
    const isOld = functions.every((name) => old.has(name));
    for (const name of functions) {
      const part = parts.get(name);
      if (!part) throw new Error(`${lesson.file} has no function ${name}`);
      const { from, to, body } = part;
      const mark = `${name.includes(".") ? "    " : "  "}throw new Error("write me: ${name}");`;
      const begun = [...lesson.lines.slice(from - 1, body.from - 1), mark, ...lesson.lines.slice(body.to, to)];
      if (!written.includes(name)) open.set(name, isOld ? partOf({ ...before, parts: old }, name) : begun);
    }
  }
  return `${textOf(replaced({ ...lesson, parts }, open))}\n`;
}

/** What is declared in `before` and is not the same now. */
export function changedBetween(before: Code, now: Code): string[] {
  return [...before.parts.keys()].filter((name) => `${partOf(before, name)}` !== `${partOf(now, name)}`);
}

/** A line, and which line of the reader's it is, if it is one. */
export type Line = { text: string; line?: number };
export const textOf = (lines: Line[]) => lines.map(({ text }) => text).join("\n");

const known = new WeakMap<Lesson, Code>(); // lessons that were parsed

/** The file on which a step is graded: the reader's, with the lesson's own version of the other steps. That of "all" is as it is. */
export function fileFor(lesson: Lesson, own: Code, step: string): Line[] {
  const given = known.get(lesson) ?? read(lesson, lesson.lines.join("\n"));
  known.set(lesson, given);
  const others = stepsOf(lesson).filter(({ name }) => step !== "all" && step !== name);
  const names = others.flatMap(({ functions }) => functions);
  return replaced(own, new Map(names.map((name) => [name, partOf(given, name)])));
}

/** Code with some of its parts replaced. One that it lacks is added: to its class, or at the end. */
function replaced({ lines, parts }: Code, by: Map<string, string[]>): Line[] {
  const all = lines.map((text, i): Line[] => [{ text, line: i + 1 }]);
  const names = [...by.keys()];
  const missing = names.filter((name) => !parts.has(name));
  for (const name of [...names.filter((name) => parts.has(name)), ...missing]) {
    const [, sibling] = [...parts].find(([each]) => each.startsWith(`${name.split(".")[0]}.`)) ?? [];
    const end = sibling?.from ?? lines.length + 1;
    const { from, to } = parts.get(name) ?? { from: end, to: end - 1 };
    all.fill([], from - 1, to);
    const added = (by.get(name) ?? []).map((text) => ({ text }));
    all[from - 1] = [...added, ...(all[from - 1] ?? [])];
  }
  return all.flat();
}
