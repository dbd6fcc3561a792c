/** The steps of a lesson, the file that a reader starts with, and the file that each step is graded on. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import * as babel from "@babel/parser";
import { parse } from "yaml";
import { type Code, codeOf, type Lesson, type Lines, parseCode } from "../lesson/source.ts";

export type Step = {
  name: string; // its first function
  functions: string[];
  page: string; // the section of the page that explains it
  hint: string;
};
const steps: Record<string, Omit<Step, "name">[]> = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

export const stepsOf = ({ name }: Lesson): Step[] =>
  (steps[name] ?? []).map((step) => ({ name: `${step.functions[0]}`, ...step }));

/** The suite of a lesson's file. */
export const suiteOf = (file: string): string => `tests/${basename(file, ".ts")}.test.ts`;
/** The lesson's suite. If a step changes a step of the lesson before, then also that suite, since it tests both lessons. */
export function suitesOf({ file, before }: Lesson, step?: string): string[] {
  const old = before && suitesOf(before, step).slice(stepsOf(before).some(({ name }) => name === step) ? 0 : 1);
  return [suiteOf(file), ...(old ?? [])];
}
export const partOf = (code: Code, name: string): string[] => codeOf(code, code.parts.get(name) ?? { from: 1, to: 0 });

/** The names of the declarations that have changed. Formatting and comments don't count. */
export function changedBetween(before: Code, now: Code): string[] {
  const [old, current] = [tokensOf(before), tokensOf(now)];
  return [...before.parts.keys()].filter((name) => old.get(name) !== current.get(name));
}

/** The tokens of each declaration, without those that formatters add and remove. */
function tokensOf({ lines, parts }: Code): Map<string, string> {
  const options: babel.ParserOptions = {
    sourceType: "module",
    plugins: ["typescript"],
    errorRecovery: true,
    tokens: true,
  };
  const tokens = babel.parse(lines.join("\n"), options).tokens?.filter(({ type }) => typeof type !== "string") ?? []; // no comments
  const textOf = ({ from, to }: Lines) => {
    const within = tokens.filter(({ loc }) => loc.start.line >= from && loc.start.line <= to);
    const text = within.map(({ type, value }) => value ?? type.label).join(" ");
    return text.replaceAll(/ [();,]/g, "");
  };
  return new Map([...parts].map(([name, part]) => [name, textOf(part)]));
}

/** The lesson with only these functions written. The others are as in the lesson before, or else left to write. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const { before } = lesson;
  const names = stepsOf(lesson).flatMap(({ functions }) => functions);
  const open = names.filter((name) => !written.includes(name));
  const bodyOf = (name: string) => (before?.parts.has(name) ? partOf(before, name) : opened(lesson, name));
  return `${textOf(replaced(lesson, new Map(open.map((name) => [name, bodyOf(name)]))))}\n`;
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

/**
 * The file that a step is graded on: the reader's, with the lesson's functions in place of all other steps. With `isOwn`
 * these replace only what isn't written yet, since they may not fit into the reader's code.
 */
export function fileFor(lesson: Lesson, code: Code, step?: string, isOwn = false): Line[] {
  const others = stepsOf(lesson).flatMap(({ name, functions }) => (!step || name === step ? [] : functions));
  const written = isOwn ? changedBetween(parseCode(skeletonOf(lesson)), code) : [];
  const names = others.filter((name) => !written.includes(name));
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
  edits.sort((a, b) => b.from - a.from || b.to - a.to); // from the end, so that the numbers above stay right
  for (const { from, to, text } of edits) all.splice(from - 1, to - from + 1, ...text.map((text) => ({ text })));
  return all;
}
