/** What the reader sees after a run. */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { styleText } from "node:util";
import { diffLines, structuredPatch } from "diff";
import { functionsOf, type Lesson, type Lines, lineAt } from "../docs/lessons.ts";
import type { Result } from "./reporter.ts";
import { isOpen, type Step, skeletonOf } from "./skeleton.ts";
import type { Progress } from "./suite.ts";

const dim = (text: string) => styleText("dim", text);

export function draw(root: string, file: string, lesson: Lesson, progress: Progress, next?: string): string {
  const { steps, current, failed, green, total, run } = progress;
  const source = readFileSync(file, "utf8");
  const bar = "█".repeat(Math.floor((30 * green) / total)).padEnd(30, "░");
  const title = `${lesson.header[0]}   ${bar} ${green} of ${total}   ${(run.ms / 1_000).toFixed(1)} s\n`;
  if (!current || !failed) {
    const parts = diffLines(skeletonOf(lesson), source);
    const sum = parts.reduce((sum, { added, count }) => (added ? sum + count : sum), 0);
    const done = `All green. You wrote ${sum} lines; --solution compares them with the lesson's.`;
    return `${title}\n${done}\n${next ? `Next: npm run practice -- ${next}` : "That was the last lesson."}\n`;
  }
  const open = current.functions.filter((name) => isOpen(lesson, source, name));
  const names = open.length > 0 ? open : current.functions;
  const places = names.map((name) => `${name} (line ${lineOf(source, name)})`).join(" and ");
  const verb = open.length === 0 ? "look first at" : source.includes(`write me: ${open[0]}`) ? "write" : "change";
  const { length: count } = steps.filter(({ tests }) => tests.length > 0); // not every lesson has late tests
  const test = /^s\d\d: (.*)/.exec(failed.name)?.[1] ?? `${failed.parent} ${failed.name}`.trim();
  const problem = explain(root, file, failed).map((line) => `  ${line}\n`);
  return `${title}
✗ ${test}

${problem.join("")}
→ step ${steps.indexOf(current) + 1} of ${count}: ${places ? `${verb} ${places}` : current.hint}
  practice/${basename(file)}; the page: ${lesson.page}${sectionOf(root, lesson, current)}
${dim(`  npm run practice -- ${lesson.name} --hint, --solution or --reset`)}
`;
}

/** What is wrong, in a few lines. */
function explain(root: string, file: string, { message, stack, actual, expected }: Result): string[] {
  const suite = `tests/${basename(file).replace(/ts$/, "test.ts")}`;
  const [what = "", ending] = message.split("\n\nthe turn ended with: ");
  const isOfNode = /^(Expected|The input|The expression|Values)/.test(what);
  const lines = what.split("\n").filter((line) => line && !isOfNode);
  if (actual !== undefined && expected !== undefined) lines.push(...compare(expected, actual));
  const [, at] = new RegExp(`.*${suite}:(\\d+)`, "s").exec(stack) ?? []; // the last: not of a helper
  const code = at && readFileSync(join(root, suite), "utf8").split("\n")[Number(at) - 1]?.trim();
  if (code) lines.push(dim(`${suite}:${at}   ${code}`));
  const [own] = new RegExp(`practice/${basename(file)}:\\d+`).exec(stack) ?? [];
  if (own) lines.push(dim(`thrown at ${own}`));
  const api = /^.*?(\d{3}) \{"type":"error".*?"message":"((?:[^"\\]|\\.)*)".*/s;
  if (ending) lines.push(`the turn ended with: ${ending.replace(api, "the API says $1: $2")}`);
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line)).slice(-14);
}

function compare(expected: string, actual: string): string[] {
  if (!`${expected}${actual}`.includes("\n")) return [`wanted  ${expected}`, `came    ${actual}`];
  const { hunks } = structuredPatch("", "", `${expected}\n`, `${actual}\n`, "", "", { context: 1 });
  return ["wanted: the lines with -; came: those with +", ...hunks.flatMap(({ lines }) => lines).slice(0, 10)];
}

/** The line of the reader's file at which a function begins. */
function lineOf(source: string, name: string): number {
  const head = name.includes(".") ? `^ +${name.split(".")[1]}\\(.*\\{$` : `function ${name}\\b`;
  return lineAt(source, source.search(new RegExp(head, "m")));
}

/** The section of the page that the hint of a step begins with: "§4 …". */
function sectionOf(root: string, { page }: Lesson, { hint }: Step): string {
  const number = /(?<=^§)\d/.exec(hint);
  const [heading] = new RegExp(`(?<=^### )${number}\\. .*`, "m").exec(readFileSync(join(root, page), "utf8")) ?? [];
  return heading ? `, "${heading.replaceAll("`", "")}"` : "";
}

/** How the lesson differs from the reader's file: in the functions of a step, or if there is none in all. */
export function solution(source: string, lesson: Lesson, step?: Step): string {
  const parts = functionsOf(lesson);
  const lines = step?.functions.length ? step.functions.flatMap((name) => parts.get(name) ?? []) : undefined;
  const { hunks } = structuredPatch("", "", source, `${lesson.lines.join("\n")}\n`, "", "", { context: 0 });
  const isNear = ({ from, to }: Lines, start: number, count: number) => start <= to && start + count >= from;
  const near = hunks.filter((hunk) => !lines || lines.some((each) => isNear(each, hunk.newStart, hunk.newLines)));
  return near.flatMap((hunk) => [`@@ your line ${hunk.oldStart} @@`, ...hunk.lines]).join("\n") || "No difference.";
}
