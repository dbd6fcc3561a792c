/** What the reader sees after a run. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { styleText } from "node:util";
import { structuredPatch } from "diff";
import { codeOf, functionsOf, type Lesson } from "../docs/lessons.ts";
import type { Progress } from "./check.ts";
import type { Problem } from "./child.ts";
import type { Step } from "./skeleton.ts";

/** `done` steps are green. `changed`: what is declared otherwise than when more were. */
export type Shown = { lesson: Lesson; progress: Progress; done: number; changed: string[]; seconds: number };

export function draw(shown: Shown, next?: string): string {
  const { lesson, progress, done, seconds } = shown;
  const { steps, state, failure, types, isWhole } = progress;
  const bar = "█".repeat(done * 4).padEnd(steps.length * 4, "░");
  const title = `${lesson.header[0]}   ${bar} ${done} of ${steps.length} steps   ${state}   ${seconds.toFixed(1)} s\n\n`;
  const goOn = next ? `Next: npm run practice -- ${next}` : "That was the last lesson.";
  if (state === "green" && isWhole) return `${title}All green. --solution shows how the lesson does it.\n${goOn}\n`;
  if (state === "green") return `${title}Each step is green. A key runs all tests of the program.\n`;
  const help = styleText("dim", `npm run practice -- ${lesson.name} --hint, --solution or --reset`);
  const blocks = [[`→ ${adviceFor(shown).join("\n  ")}`, help]];
  if (types.length > 0) blocks.unshift(["✗ its types are right\n", ...types.slice(0, 5)]);
  if (failure) blocks.unshift([`✗ ${failure.title ?? failure.test}\n`, ...explain(lesson, failure.problem)]);
  return `${title}${blocks.map((lines) => lines.join("\n  ")).join("\n\n")}\n`;
}

/** What to write or to look at, and what has changed since it was green. */
function adviceFor({ lesson, progress, done, changed }: Shown): string[] {
  const { state, steps, own, current, open, failure, types } = progress;
  if (!current && failure)
    return ["each step is green with the lesson's version of the others: do yours fit together?"];
  const isLost = state === "did not load" || !failure; // no test says more than the compiler, or the line that threw
  const [place] = [failure && thrownAt(failure.problem), types[0]?.split(": ")[0]].filter(Boolean);
  if (!current || (isLost && place)) return [`look at ${place}`];
  const show = (names: string[]) =>
    names.map((name) => `${name} (${own?.parts.has(name) ? `line ${own.parts.get(name)?.from}` : "not in the file"})`);
  const isNew = failure?.problem.message.includes("write me");
  const verb = open.length === 0 ? "look at" : isNew ? "write" : "change";
  const names = show(open.length > 0 ? open : current.functions).join(", ");
  const page = `the page: ${lesson.page}, "${current.page.replaceAll("`", "")}"`;
  const lines = [`step ${done + 1} of ${steps.length}: ${verb} ${names}`, `practice/${basename(lesson.file)}; ${page}`];
  return changed.length > 0 ? [...lines, `it was green; since then you changed ${show(changed).join(", ")}`] : lines;
}

/** What is wrong, in a few lines. */
function explain(lesson: Lesson, { message, stack, wanted, came }: Problem): string[] {
  const suite = `tests/${basename(lesson.file).replace(/ts$/, "test.ts")}`;
  const api = /\d{3} \{"type":"error".*?"message":"((?:[^"\\]|\\.)*)".*/;
  const lines = message.replace(api, "the API says: $1").split("\n").filter(Boolean);
  if (wanted !== undefined && came !== undefined) lines.push(...compare(wanted, came));
  const [, at] = new RegExp(`.*${suite}:(\\d+)`, "s").exec(stack) ?? []; // the last: not of a helper
  const code = at && readFileSync(suite, "utf8").split("\n")[Number(at) - 1]?.trim();
  if (code) lines.push(`${suite}:${at}   ${code}`);
  const thrown = thrownAt({ message, stack });
  if (thrown) lines.push(`thrown at ${thrown}`);
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line)).slice(0, 14);
}

const thrownAt = ({ stack }: Problem) => /practice\/s\d\d\w*\.ts:\d+/.exec(stack)?.[0];

function compare(wanted: string, came: string): string[] {
  if (!`${wanted}${came}`.includes("\n")) return [`wanted  ${wanted}`, `came    ${came}`];
  const { hunks } = structuredPatch("", "", `${wanted}\n`, `${came}\n`, "", "", { context: 1 });
  return ["wanted: the lines with -; came: those with +", ...hunks.flatMap(({ lines }) => lines).slice(0, 10)];
}

/** The functions of some steps as the lesson has them. */
export function solution(lesson: Lesson, steps: Step[]): string {
  const parts = functionsOf(lesson);
  const found = steps.flatMap(({ functions }) => functions).flatMap((name) => parts.get(name) ?? []);
  return found.map((part) => codeOf(lesson, part).join("\n")).join("\n\n");
}
