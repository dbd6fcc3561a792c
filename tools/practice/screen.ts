/** What the reader sees after a run. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { styleText } from "node:util";
import { structuredPatch } from "diff";
import { codeOf, functionsOf, type Lesson } from "../docs/lessons.ts";
import type { Green, Progress } from "./check.ts";
import type { Problem } from "./child.ts";
import { suiteOf } from "./run.ts";
import { type Code, changedBetween, fileFor, read, type Step, skeletonOf, stepsOf, textOf } from "./skeleton.ts";

/** `done` steps are green. `green`: as in the runs before. */
export type Shown = { lesson: Lesson; progress: Progress; done: number; green: Green; seconds: number };

export function draw(shown: Shown, next?: string): string {
  const { lesson, progress, done, seconds } = shown;
  const { state, failure, types, isWhole } = progress;
  const { length } = stepsOf(lesson);
  const bar = "█".repeat(done * 4).padEnd(length * 4, "░");
  const title = `${lesson.header[0]}   ${bar} ${done} of ${length} steps   ${state}   ${seconds.toFixed(1)} s\n\n`;
  const goOn = next ? `Next: npm run practice -- ${next}` : "That was the last lesson.";
  const run = `Run it, without a key: npm run offline -- practice/${basename(lesson.file)}`;
  if (state === "green" && isWhole)
    return `${title}All green. --solution shows how the lesson does it.\n${run}\n${goOn}\n`;
  if (state === "green") return `${title}Each step is green. A key runs all tests of the program.\n`;
  const help = styleText("dim", `npm run practice -- ${lesson.name} --hint, --solution or --reset`);
  const blocks = [[`→ ${adviceFor(shown).join("\n  ")}`, help]];
  if (types.length > 0)
    blocks.unshift([`✗ its ${progress.own ? "types are" : "syntax is"} right\n`, ...types.slice(0, 5)]);
  if (failure) blocks.unshift([`✗ ${failure.title}\n`, ...explain(lesson, failure.problem)]);
  return `${title}${blocks.map((lines) => lines.join("\n  ")).join("\n\n")}\n`;
}

/** What to write or to look at, and what has changed since it was green. */
function adviceFor({ lesson, progress, done, green }: Shown): string[] {
  const { state, own, failure, types } = progress;
  const current = stepsOf(lesson).find(({ name }) => name === failure?.step);
  if (failure && !current)
    return ["each step is green with the lesson's version of the others: do yours fit together?"];
  const place = (failure && thrownAt(failure.problem)) ?? types[0]?.split(": ")[0];
  const isLost = state === "did not load" && place; // the line says more than a test
  if (!own || !failure || !current || isLost) return [`look at ${place}`];
  const written = changedBetween(read(lesson, skeletonOf(lesson)), own);
  const open = current.functions.filter((name) => !written.includes(name));
  const where = (name: string) => `${name} (${lineOf(own, name) ?? "not in the file"})`;
  const what = open.length > 0 ? "write" : "look at";
  const names = open.length > 0 ? open : current.functions;
  const lines = [
    `step ${done + 1} of ${stepsOf(lesson).length}: ${what} ${names.map(where).join(", ")}`,
    `practice/${basename(lesson.file)}; the page: ${lesson.page}, "${current.page.replaceAll("`", "")}"`,
    "the functions of other steps are the lesson's own while this one is graded",
  ];
  const before = green[current.name];
  const now = textOf(fileFor(lesson, own, current.name));
  const changed = before ? changedBetween(read(lesson, before), read(lesson, now)) : [];
  if (changed.length > 0) lines.push(`it was green; since then you changed ${changed.map(where).join(", ")}`);
  return lines;
}

/** Where a function begins, below its comment. */
function lineOf({ lines, parts }: Code, name: string): string | undefined {
  const part = parts.get(name);
  const isNamed = (line: string, i: number) =>
    i + 1 >= (part?.from ?? 0) && line.includes(`${name.split(".").at(-1)}`) && !/^\s*(\/|\*)/.test(line);
  return part && `line ${lines.findIndex(isNamed) + 1}`;
}

/** What is wrong, in a few lines. */
function explain(lesson: Lesson, problem: Problem): string[] {
  const { message, stack, wanted, came } = problem;
  const suite = suiteOf(lesson);
  const api = /\d{3} \{"type":"error".*?"message":"((?:[^"\\]|\\.)*)".*/;
  const lines = message.replace(api, "the API says: $1").split("\n").filter(Boolean).slice(0, 6);
  if (wanted !== undefined && came !== undefined) lines.push(...compare(wanted, came));
  const [, at] = new RegExp(`.*${suite}:(\\d+)`, "s").exec(stack) ?? []; // the last: not of a helper
  const code = at && readFileSync(suite, "utf8").split("\n")[Number(at) - 1]?.trim();
  if (code) lines.push(`${suite}:${at}   ${code}`);
  const thrown = thrownAt(problem);
  if (thrown) lines.push(`thrown at ${thrown}`);
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)} …` : line));
}

const thrownAt = ({ stack }: Problem) => /practice\/s\d\d\w*\.ts:\d+/.exec(stack)?.[0];

/** A few lines of what an assertion compared: those that differ, or of a text that a pattern does not match both ends. */
function compare(wanted: string, came: string): string[] {
  if (!`${wanted}${came}`.includes("\n")) return [`wanted  ${wanted}`, `came    ${came}`];
  const lines = came.split("\n");
  const ends = lines.length > 8 ? [...lines.slice(0, 4), "…", ...lines.slice(-4)] : lines;
  if (wanted.startsWith("/")) return [`wanted  ${wanted}`, "came", ...ends];
  const { hunks } = structuredPatch("", "", `${wanted}\n`, `${came}\n`, "", "", { context: 1 });
  return ["wanted: the lines with -; came: those with +", ...hunks.flatMap(({ lines }) => lines).slice(0, 10)];
}

/** The functions of some steps as the lesson has them. */
export function solution(lesson: Lesson, steps: Step[]): string {
  const parts = functionsOf(lesson);
  const found = steps.flatMap(({ functions }) => functions).flatMap((name) => parts.get(name) ?? []);
  return found.map((part) => codeOf(lesson, part).join("\n")).join("\n\n");
}
