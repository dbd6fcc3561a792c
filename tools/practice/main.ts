/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import { once } from "node:events";
import fs from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../lesson/source.ts";
import { check, type Saved } from "./grade.ts";
import { draw } from "./screen.ts";
import { partOf, skeletonOf, stepsOf } from "./skeleton.ts";

const lessons = readLessons(".");
const fileOf = ({ file }: Lesson) => resolve("practice", basename(file));
const quitting = new AbortController(); // on Ctrl-C, or when the terminal is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => quitting.abort());
await main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
if (quitting.signal.aborted) process.exit(130);

async function main(): Promise<void> {
  const flag = { type: "boolean" } as const;
  const options = { once: flag, hint: flag, solution: flag, reset: flag };
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const lesson = lessons.get(`${positionals[0]}`);
  if (!lesson) throw new Error(`Name one of the lessons ${[...lessons.keys()].join(", ")}: npm run practice -- s01`);
  begin(lesson, values.reset);
  if (values.hint || values.solution) console.log(helpFor(lesson, values.solution));
  else if (values.once || !process.stdout.isTTY) await show(lesson, quitting.signal);
  else await watch(lesson);
}

/** Makes the reader's file unless it exists. With `isReset`, renames the old file first. */
function begin(lesson: Lesson, isReset = false): void {
  const file = fileOf(lesson);
  fs.mkdirSync(join(file, ".."), { recursive: true });
  fs.copyFileSync(new URL("tsconfig.practice.json", import.meta.url), join(file, "../tsconfig.json"));
  if (isReset && fs.existsSync(file)) {
    const old = `${file}.${Date.now()}.old`;
    fs.renameSync(file, old);
    fs.rmSync(`${file}.json`, { force: true });
    console.log(`Your old file is now practice/${basename(old)}.`);
  }
  if (fs.existsSync(file)) return;
  fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  console.log(`Made practice/${basename(file)}: open it. Its tests run whenever you save it.\n`);
}

function savedFor(lesson: Lesson): Saved {
  const file = `${fileOf(lesson)}.json`;
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : { stepsDone: 0, greenTexts: {} };
}

/** The hint or the solution for the step that was red in the last run. If none was red, all solutions. */
function helpFor(lesson: Lesson, isSolution = false): string {
  const steps = stepsOf(lesson);
  const current = steps[savedFor(lesson).stepsDone];
  const names = (current ? [current] : steps).flatMap(({ functions }) => functions);
  if (isSolution) return names.map((name) => partOf(lesson, name).join("\n")).join("\n\n");
  return current ? `Step ${current.name}: ${current.hint}` : "Each step is green.";
}

/** Shows the result. Runs the tests again when the file is saved, and all of them when a key is pressed. */
async function watch(lesson: Lesson): Promise<void> {
  let again = new AbortController();
  let stepsOnly = false;
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    if (/[\x03\x04]/.test(`${keys}`)) quitting.abort(); // Ctrl-C, Ctrl-D
    stepsOnly = false;
    again.abort();
  });
  fs.watchFile(fileOf(lesson), { interval: 100 }, () => again.abort());
  while (!quitting.signal.aborted) {
    again = new AbortController();
    const signal = AbortSignal.any([again.signal, quitting.signal]);
    console.log("running…");
    stepsOnly = await show(lesson, signal, stepsOnly);
    if (!signal.aborted) await once(signal, "abort");
  }
}

/** Runs the tests and shows the result, unless aborted. Returns whether it's green. */
async function show(lesson: Lesson, signal: AbortSignal, stepsOnly = false): Promise<boolean> {
  const began = Date.now();
  const progress = await check(lesson, fileOf(lesson), savedFor(lesson), { signal, stepsOnly, tell: console.log });
  if (signal.aborted) return false;
  const { stepsDone, greenTexts, state } = progress;
  const next = [...lessons.values()].find(({ before }) => before === lesson)?.name;
  if (process.stdout.isTTY) console.clear();
  console.log(draw(lesson, progress, (Date.now() - began) / 1_000, next));
  fs.writeFileSync(`${fileOf(lesson)}.json`, JSON.stringify({ stepsDone, greenTexts } satisfies Saved));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}
