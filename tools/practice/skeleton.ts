/** The steps of a lesson, the file that a reader begins with, and the files on which the steps are graded. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { codeOf, declarations, functionsOf, type Lesson, type Lines } from "../docs/lessons.ts";

export type Step = { name: string; functions: string[]; page: string; hint: string };
type Entry = { with?: string; page: string; hint: string };
const entries = parse(readFileSync(new URL("steps.yaml", import.meta.url), "utf8"));

export function stepsOf({ name: lesson }: Lesson): Step[] {
  return Object.entries<Entry>(entries[lesson]).map(([name, { with: others, page, hint }]) => {
    return { name, functions: [name, ...(others?.split(" ") ?? [])], page, hint };
  });
}

/** A lesson in which of the functions of its steps only these are written. The others are as in the lesson before, or throw. */
export function skeletonOf(lesson: Lesson, written: string[] = []): string {
  const lines: (string | undefined)[] = [...lesson.lines];
  const parts = functionsOf(lesson);
  for (const name of stepsOf(lesson).flatMap(({ functions }) => functions)) {
    const part = parts.get(name);
    if (!part) throw new Error(`${lesson.file} has no function ${name}`);
    if (written.includes(name)) continue;
    const old = lesson.before && functionsOf(lesson.before).get(name);
    const { from, to } = old ? part : part.body;
    lines.fill(undefined, from - 1, to);
    const margin = name.includes(".") ? "    " : "  ";
    lines[from - 1] = `${margin}throw new Error("write me: ${name}");`;
    if (lesson.before && old) lines[from - 1] = codeOf(lesson.before, old).join("\n");
  }
  return `${lines.filter((line) => line !== undefined).join("\n")}\n`;
}

/** A version of a lesson, and the lines of what it declares, comments included. A method is Class.method. */
export type Code = { lines: string[]; parts: Map<string, Lines> };

/** @throws if the text cannot be parsed */
export function read(lesson: Lesson, text: string): Code {
  const lines = text.split("\n");
  const methods = [...functionsOf({ lines })].filter(([name]) => name.includes("."));
  return { lines, parts: new Map([...declarations({ ...lesson, lines }, { from: 1, to: lines.length }), ...methods]) };
}

function textOf({ lines, parts }: Code, name: string): string | undefined {
  const part = parts.get(name);
  return part && lines.slice(part.from - 1, part.to).join("\n");
}

/** What is declared in `before` and is not the same now. */
export function changedBetween(before: Code, now: Code, names = [...before.parts.keys()]): string[] {
  return names.filter((name) => textOf(now, name) !== textOf(before, name));
}

/** A reader's file in which some functions are the lesson's, and of which line of the reader's each of its lines is. */
export type Mixed = { text: string; lines: (number | undefined)[] };

export function mix(own: Code, given: Code, names: string[]): Mixed {
  const lines = own.lines.map((text, i): { text: string; line?: number }[] => [{ text, line: i + 1 }]);
  for (const name of names) {
    const code = (textOf(given, name) ?? "").split("\n").map((text) => ({ text }));
    const part = own.parts.get(name);
    if (part) lines.fill([], part.from - 1, part.to);
    if (part) lines[part.from - 1] = code;
    else if (!name.includes(".")) lines.push(code); // the reader has no such function; a declaration may come late
  }
  const all = lines.flat();
  return { text: all.map(({ text }) => text).join("\n"), lines: all.map(({ line }) => line) };
}
