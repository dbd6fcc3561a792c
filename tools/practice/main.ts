/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import fs from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../docs/lessons.ts";
import { check, type Green } from "./check.ts";
import { suiteOf } from "./run.ts";
import { draw, solution } from "./screen.ts";
import { skeletonOf, stepsOf } from "./skeleton.ts";

const root = process.cwd();
const lessons = readLessons(root);
const fileOf = ({ file }: Lesson) => join(root, "practice", basename(file));
const left = new AbortController(); // Ctrl-C, or a terminal that is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => left.abort());
await main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
if (left.signal.aborted) process.exit(130);

async function main(): Promise<void> {
  const flag = { type: "boolean" } as const;
  const options = { once: flag, hint: flag, solution: flag, reset: flag };
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const [name] = positionals;
  const lesson = lessons.get(`${name}`);
  if (!lesson) throw new Error(`Name one of the lessons ${[...lessons.keys()].join(", ")}: npm run practice -- s01`);
  if (values.reset && fs.existsSync(fileOf(lesson))) putAside(fileOf(lesson));
  begin(lesson);
  if (values.reset) return;
  if (values.hint || values.solution) console.log(helpFor(lesson, values.solution));
  else if (values.once || !process.stdout.isTTY) await show(lesson, left.signal);
  else await watch(lesson);
}

function begin(lesson: Lesson): void {
  const file = fileOf(lesson);
  fs.mkdirSync(join(file, ".."), { recursive: true });
  fs.copyFileSync(new URL("tsconfig.practice.json", import.meta.url), join(file, "../tsconfig.json"));
  if (fs.existsSync(file)) return;
  fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
}

/** Keeps the reader's file under another name. */
function putAside(file: string): void {
  const old = `${file}.${Date.now()}.old`;
  fs.renameSync(file, old);
  fs.rmSync(`${file}.progress`, { force: true });
  console.log(`Yours is practice/${basename(old)} now.`);
}

/** The hint, or the solution, for the step that was red in the last run. When all are green, the solution of all. */
function helpFor(lesson: Lesson, isSolution = false): string {
  const steps = stepsOf(lesson);
  const { done } = keptOf(lesson);
  const current = steps[done];
  if (isSolution) return solution(lesson, current ? [current] : steps);
  return current ? `Step ${done + 1} of ${steps.length}, ${current.name}: ${current.hint}` : "Each step is green.";
}

/** Shows the result, and again when the file is saved or a key is pressed. */
async function watch(lesson: Lesson): Promise<void> {
  const file = fileOf(lesson);
  const read = () => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined); // an editor may be replacing it
  let isAsked = false;
  let isGreen = false;
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    isAsked = true;
    if (/[\x03\x04]/.test(`${keys}`)) left.abort(); // Ctrl-C, Ctrl-D
  });
  while (!left.signal.aborted) {
    const before = read();
    const changed = new AbortController();
    console.log("running…");
    const showing = show(lesson, changed.signal, isAsked, isAsked || !isGreen);
    isAsked = false;
    while (!left.signal.aborted && !isAsked && [undefined, before].includes(read())) await sleep(100);
    changed.abort();
    isGreen = await showing;
    console.clear();
  }
}

/** Of the last run: how many steps were green, one after the other. And the files on which steps ever were, with these `tests`. */
type Kept = { done: number; green: Green; tests: string };

function keptOf(lesson: Lesson): Kept {
  const file = `${fileOf(lesson)}.progress`;
  const tests = fs.readFileSync(join(root, suiteOf(lesson)), "utf8");
  const kept: Kept = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : { done: 0, green: {}, tests };
  return kept.tests === tests ? kept : { done: kept.done, green: {}, tests };
}

/** Runs the tests, all of them if `isAgain`, and shows what came of it, unless stopped. @returns whether all is green */
async function show(lesson: Lesson, signal: AbortSignal, isAgain = false, isWhole = true): Promise<boolean> {
  const began = Date.now();
  const kept = keptOf(lesson);
  const green = isAgain ? {} : { ...kept.green };
  const progress = await check(root, lesson, fileOf(lesson), { signal, isWhole, green });
  if (signal.aborted) return false;
  const { done = kept.done, state } = progress;
  const seconds = (Date.now() - began) / 1_000;
  const names = [...lessons.keys()];
  if (process.stdout.isTTY) console.clear();
  console.log(draw({ lesson, progress, done, green: kept.green, seconds }, names[names.indexOf(lesson.name) + 1]));
  const next: Kept = { ...kept, done, green: { ...kept.green, ...green } };
  fs.writeFileSync(`${fileOf(lesson)}.progress`, JSON.stringify(next));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}
