/** The steps of a lesson, the file that a reader starts with, and the file that each step is graded on. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { type Code, codeOf, type Lesson } from "../lesson/source.ts";

export type Step = {
  name: string; // its first function
  functions: string[];
  page: string; // the section of the page that explains it
  hint: string;
};
const steps: Record<string, Omit<Step, "name">[]> = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

export const stepsOf = ({ name }: Lesson): Step[] =>
  (steps[name] ?? []).map((step) => ({ name: `${step.functions[0]}`, ...step }));

/** The lesson's suite. If a step changes a step of the lesson before, then also that suite, since it tests both lessons. */
export function suitesOf({ file, before }: Lesson, step?: string): string[] {
  const old = before && suitesOf(before, step).slice(stepsOf(before).some(({ name }) => name === step) ? 0 : 1);
  return [file.replace(/^agents(.*)ts$/, "tests$1test.ts"), ...(old ?? [])];
}
export const partOf = (code: Code, name: string): string[] => codeOf(code, code.parts.get(name) ?? { from: 1, to: 0 });

/** The names of the declarations that have changed. */
export const changedBetween = (before: Code, now: Code): string[] =>
  [...before.parts.keys()].filter((name) => `${partOf(before, name)}` !== `${partOf(now, name)}`);

/** The lesson with only these functions written. The others are as in the lesson before, or else left to write. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const { before } = lesson;
  const names = stepsOf(lesson).flatMap(({ functions }) => functions);
  const open = names.filter((name) => !written.includes(name));
  const code = open.map(
    (name) => [name, before?.parts.has(name) ? partOf(before, name) : opened(lesson, name)] as const,
  );
  return `${textOf(replaced(lesson, new Map(code)))}\n`;
}

/** A function whose body is left to write. */
function opened({ lines, parts }: Code, name: string): string[] {
  const { from, to, body } = parts.get(name) ?? {};
  if (!from || !body) throw new Error(`no function ${name}`);
  const mark = `${name.includes(".") ? "    " : "  "}throw new Error("write me: ${name}");`;
  return [...lines.slice(from - 1, body.from - 1), mark, ...lines.slice(body.to, to)];
}

export type Line = {
  text: string;
  line?: number; // its number in the reader's file, if it comes from there
};
export const textOf = (lines: Line[]) => lines.map(({ text }) => text).join("\n");

/** The file that a step is graded on: the reader's, with the lesson's functions in place of all other steps. */
export function fileFor(lesson: Lesson, code: Code, step: string | undefined): Line[] {
  const names = stepsOf(lesson).flatMap(({ name, functions }) => (step && step !== name ? functions : []));
  return replaced(code, new Map(names.map((name) => [name, partOf(lesson, name)])));
}

/** Replaces some parts of the code. Adds those that are missing to their class, or at the end. */
function replaced({ lines, parts }: Code, by: Map<string, string[]>): Line[] {
  const all: Line[] = lines.map((text, i) => ({ text, line: i + 1 }));
  const edits = [...by].map(([name, text]) => {
    const [, sibling] = [...parts].find(([each]) => each.startsWith(`${name.split(".")[0]}.`)) ?? [];
    const end = sibling?.from ?? lines.length + 1;
    const { from, to } = parts.get(name) ?? { from: end, to: end - 1 };
    return { from, to, text };
  });
  for (const { from, to, text } of edits.sort((a, b) => b.from - a.from || b.to - a.to)) // from the end, so that the numbers above stay right
    all.splice(from - 1, to - from + 1, ...text.map((text) => ({ text })));
  return all;
}
