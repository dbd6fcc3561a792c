/** What the reader sees after a run. */
import { readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { styleText } from "node:util";
import { structuredPatch } from "diff";
import { codeOf, functionAt, functionsOf, type Lesson } from "../docs/lessons.ts";
import { isOpen, type Step } from "./skeleton.ts";
import type { Finding, Progress } from "./suite.ts";

const dim = (text: string) => styleText("dim", text);

export function draw(root: string, file: string, lesson: Lesson, progress: Progress, next?: string): string {
  const { done, current, failed, run } = progress;
  const source = readFileSync(file, "utf8");
  const all = progress.steps.length;
  const bar = "█".repeat(done * 4).padEnd(all * 4, "░");
  const green = `${run.findings.filter(({ ok }) => ok).length} of ${run.findings.length} tests are green`;
  const counts = `${done} of ${all} steps   ${run.state}: ${green}   ${(run.ms / 1_000).toFixed(1)} s`;
  const title = `${lesson.header[0]}   ${bar} ${counts}\n`;
  if (!current && !failed) {
    const end = "All green. --solution shows how the lesson does it.";
    return `${title}\n${end}\n${next ? `Next: npm run practice -- ${next}` : "That was the last lesson."}\n`;
  }
  const problem = failed ? [`✗ ${`${failed.parent} ${failed.name}`.trim()}\n`, ...explain(root, file, failed)] : [];
  const page = current?.page ? `; the page: ${lesson.page}, "${current.page.replaceAll("`", "")}"` : "";
  return `${title}
${problem.join("\n  ")}

→ ${current ? `step ${done + 1} of ${all}: ` : ""}${adviceFor(file, lesson, source, progress)}
  ${relative(root, file)}${page}
${dim(`  npm run practice -- ${lesson.name} --hint, --solution or --reset`)}
`;
}

/** What to write, or to look at: what threw, or else what of the step was not called, and then all of the step. */
function adviceFor(file: string, lesson: Lesson, source: string, { steps, current, failed, run }: Progress): string {
  const { functions = [], hint = "" } = current ?? {};
  const places = failed?.stack.matchAll(new RegExp(`${basename(file)}:(\\d+)`, "g")) ?? [];
  const lines = [...places].map(([, line]) => Number(line));
  if (run.state === "did not load") return `look first at line ${lines[0]}`; // and there is nothing to parse
  const parts = functionsOf({ lines: source.split("\n") });
  const show = (name: string) => {
    const part = parts.get(name);
    return `${name} ${part ? `(line ${part.body.from - 1})` : "(not in the file; is its name right?)"}`;
  };
  const mistyped = functionAt(parts, lines[0] ?? 0);
  if (failed?.step === "types" && mistyped) return `look first at ${show(mistyped)}`;
  const open = functions.filter((name) => isOpen(lesson, source, name));
  const verb = source.includes(`write me: ${open[0]}`) ? "write" : "change";
  if (open.length > 0) return `${verb} ${open.map(show).join(" and ")}`;
  const given = functionsOf(lesson);
  const toWrite = steps.flatMap((step) => step.functions);
  const isWritten = (name: string) => toWrite.includes(name) || !given.has(name); // what is given passes errors on
  const threw = lines.flatMap((line) => functionAt(parts, line) ?? []).find(isWritten);
  if (threw) return `look first at ${show(threw)}`;
  const isSilent = (name: string) => failed?.reached?.includes(name.replace(/.*\./, "")) === false;
  const silent = functions.filter(isSilent).map((name) => `${show(name)}, which was not called`);
  const called = functions.filter((name) => !isSilent(name)).map(show);
  const order = [...silent, called.join(" and ")].filter(Boolean).join(", then at ");
  return order ? `look first at ${order}` : hint || "look at what you changed last";
}

/** What is wrong, in a few lines. */
function explain(
  root: string,
  file: string,
  { message, ending, stack, operator, actual, expected }: Finding,
): string[] {
  const suite = `tests/${basename(file).replace(/ts$/, "test.ts")}`;
  const lines = message.split("\n").filter(Boolean);
  if (operator) lines.push(...compare(operator, expected ?? "", actual ?? ""));
  const [, at] = new RegExp(`.*${suite}:(\\d+)`, "s").exec(stack) ?? []; // the last: not of a helper
  const code = at && readFileSync(join(root, suite), "utf8").split("\n")[Number(at) - 1]?.trim();
  if (code) lines.push(dim(`${suite}:${at}   ${code}`));
  const [own] = new RegExp(`${relative(root, file)}:\\d+`).exec(stack) ?? [];
  if (own && !message.includes(own)) lines.push(dim(`thrown at ${own}`));
  const api = /^.*?(\d{3}) \{"type":"error".*?"message":"((?:[^"\\]|\\.)*)".*/s;
  if (ending) lines.push(`the turn ended with: ${ending.replace(api, "the API says $1: $2")}`);
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line)).slice(0, 14);
}

/** What a test wanted, and what came. */
function compare(operator: string, expected: string, actual: string): string[] {
  if (operator.startsWith("not")) return [`must not be  ${actual}`];
  if (operator === "doesNotMatch") return [`must not have  ${expected}`, `but has        ${actual}`];
  if (operator === "throws")
    return [`wanted  an error like ${expected}`, `came    ${actual === "undefined" ? "none" : actual}`];
  if (!`${expected}${actual}`.includes("\n")) return [`wanted  ${expected}`, `came    ${actual}`];
  const { hunks } = structuredPatch("", "", `${expected}\n`, `${actual}\n`, "", "", { context: 1 });
  return ["wanted: the lines with -; came: those with +", ...hunks.flatMap(({ lines }) => lines).slice(0, 10)];
}

/** The functions of a step, or if there is none of all, as the lesson has them. */
export function solution(lesson: Lesson, steps: Step[]): string {
  const parts = functionsOf(lesson);
  const lines = steps.flatMap(({ functions }) => functions).flatMap((name) => parts.get(name) ?? []);
  return lines.map((part) => codeOf(lesson, part).join("\n")).join("\n\n");
}
