/** The steps of a lesson, the file that a reader begins with, and the files on which the steps are graded. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { type Code, codeOf, type Lesson } from "../lesson/source.ts";

/** `name`: its first function. */
export type Step = { name: string; functions: string[]; page: string; hint: string };
const steps: Record<string, Omit<Step, "name">[]> = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

export const stepsOf = ({ name }: Lesson): Step[] =>
  (steps[name] ?? []).map((step) => ({ name: `${step.functions[0]}`, ...step }));

/** The lesson's suite. For a step that changes what is in a lesson before, also that lesson's, which has cases for this one. */
export function suitesOf({ file, before }: Lesson, step?: string): string[] {
  const old = before && suitesOf(before, step).slice(stepsOf(before).some(({ name }) => name === step) ? 0 : 1);
  return [file.replace(/^agents(.*)ts$/, "tests$1test.ts"), ...(old ?? [])];
}
export const partOf = (code: Code, name: string): string[] => codeOf(code, code.parts.get(name) ?? { from: 1, to: 0 });

/** What is declared in `before` and is not the same now. */
export const changedBetween = (before: Code, now: Code): string[] =>
  [...before.parts.keys()].filter((name) => `${partOf(before, name)}` !== `${partOf(now, name)}`);

/** A lesson in which only these functions are written. Of the others, those that the lesson before has are as they were there. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const { before } = lesson;
  const names = stepsOf(lesson).flatMap(({ functions }) => functions);
  const open = names.filter((name) => !written.includes(name));
  const code = open.map(
    (name) => [name, before?.parts.has(name) ? partOf(before, name) : opened(lesson, name)] as const,
  );
  return `${textOf(replaced(lesson, new Map(code)))}\n`;
}

/** A function whose body is to be written. */
function opened({ lines, parts }: Code, name: string): string[] {
  const { from, to, body } = parts.get(name) ?? {};
  if (!from || !body) throw new Error(`no function ${name}`);
  const mark = `${name.includes(".") ? "    " : "  "}throw new Error("write me: ${name}");`;
  return [...lines.slice(from - 1, body.from - 1), mark, ...lines.slice(body.to, to)];
}

/** A line, and which line of the reader's it is, if it is one. */
export type Line = { text: string; line?: number };
export const textOf = (lines: Line[]) => lines.map(({ text }) => text).join("\n");

/** The file on which a step is graded: the reader's, with the lesson's own version of the other steps. */
export function fileFor(lesson: Lesson, own: Code, step: string | undefined): Line[] {
  const names = stepsOf(lesson).flatMap(({ name, functions }) => (step && step !== name ? functions : []));
  return replaced(own, new Map(names.map((name) => [name, partOf(lesson, name)])));
}

/** Code with some of its parts replaced. One that it lacks is added: to its class, or at the end. */
function replaced({ lines, parts }: Code, by: Map<string, string[]>): Line[] {
  const all: Line[] = lines.map((text, i) => ({ text, line: i + 1 }));
  const edits = [...by].map(([name, text]) => {
    const [, sibling] = [...parts].find(([each]) => each.startsWith(`${name.split(".")[0]}.`)) ?? [];
    const end = sibling?.from ?? lines.length + 1;
    const { from, to } = parts.get(name) ?? { from: end, to: end - 1 };
    return { from, to, text };
  });
  for (const { from, to, text } of edits.sort((a, b) => b.from - a.from || b.to - a.to)) // from the end: lines stay where they are
    all.splice(from - 1, to - from + 1, ...text.map((text) => ({ text })));
  return all;
}
