/** The steps of a lesson, the file that a reader starts with, and the file that the tests run on. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { type Code, codeOf, type Lesson, parseCode } from "../lesson/source.ts";

export type Step = { number: number; section: string; functions: string[]; hint: string };
const steps = readFileSync(new URL("steps.yaml", import.meta.url), "utf8");
export const stepsOf = ({ name, parts }: Lesson): Step[] =>
  Object.entries<string>(parse(steps)[name]).map(([key, hint], i) => {
    const [section = "", ...functions] = key.split(" ");
    const wrong = functions.find((each) => !parts.get(each)?.body);
    if (wrong) throw new Error(`tools/practice/steps.yaml: ${name}, "${key}": ${name} has no function ${wrong}`);
    return { number: i + 1, section, functions, hint };
  });
const functionsOf = (lesson: Lesson): string[] => stepsOf(lesson).flatMap(({ functions }) => functions);

const partOf = (code: Code, name: string) => codeOf(code, code.parts.get(name) ?? { from: 1, to: 0 }).join("\n");

/** The file that a reader starts with. Its functions are as in the lesson before, or else left to write. */
export const skeletonOf = (lesson: Lesson): string =>
  `${replaced(lesson, functionsOf(lesson), (name) => carriedOver(lesson, name) ?? opened(lesson, name))}\n`;

/** A function as it is in the lesson before, unless it isn't there or calls a function that is gone. */
function carriedOver({ before, parts }: Lesson, name: string): string | undefined {
  if (!before?.parts.has(name)) return;
  const text = partOf(before, name);
  const called = Array.from(text.matchAll(/\b\w+(?=\()/g), ([callee]) => callee);
  return called.some((callee) => before.parts.has(callee) && !parts.has(callee)) ? undefined : text;
}

function opened({ lines, parts }: Code, name: string): string {
  const { from = 0, to, body = { from: 0, to: 0 } } = parts.get(name) ?? {};
  const mark = `${name.includes(".") ? "    " : "  "}throw new Error("write me: ${name}");`;
  return [...lines.slice(from - 1, body.from - 1), mark, ...lines.slice(body.to, to)].join("\n");
}

function replaced({ lines, parts }: Code, names: string[], textFor: (name: string, lines: number) => string): string {
  const all = [...lines];
  const edits = names.map((name) => ({ name, from: 1, to: 0, ...parts.get(name) })).sort((a, b) => b.from - a.from);
  for (const { name, from, to } of edits) all.splice(from - 1, to - from + 1, textFor(name, to - from + 1));
  return all.join("\n");
}

const withoutComments = (text: string) => text.replace(/\/\*\*(?:.|\n)*?\*\/|(?<=^|\s)\/\/ .*$/gm, "");

/** The names of the functions that have changed. Comments and what formatters change don't count. */
export function changedBetween(before: Code, now: Code): string[] {
  const essence = (code: Code, name: string) => withoutComments(partOf(code, name)).replace(/[\s;,()"'`]/g, "");
  const functions = [...before.parts.keys()].filter((name) => before.parts.get(name)?.body);
  return functions.filter((name) => essence(before, name) !== essence(now, name));
}

/** What a reader hasn't written yet, and the code with the lesson's version of it, on one line so that lines keep their numbers. */
export function completed(lesson: Lesson, code: Code): { unwritten: string[]; text: string } {
  const changed = changedBetween(parseCode(skeletonOf(lesson)), code);
  const unwritten = functionsOf(lesson).filter((name) => !changed.includes(name));
  const onOneLine = (name: string) => withoutComments(partOf(lesson, name)).replace(/\n\s*/g, " ");
  return { unwritten, text: replaced(code, unwritten, (name, lines) => onOneLine(name) + "\n".repeat(lines - 1)) };
}
