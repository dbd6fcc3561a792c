/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import { once } from "node:events";
import fs from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../lesson/source.ts";
import { check, type Kept } from "./grade.ts";
import { draw } from "./screen.ts";
import { partOf, skeletonOf, stepsOf } from "./skeleton.ts";

const lessons = readLessons(".");
const fileOf = ({ file }: Lesson) => resolve("practice", basename(file));
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
  const lesson = lessons.get(`${positionals[0]}`);
  if (!lesson) throw new Error(`Name one of the lessons ${[...lessons.keys()].join(", ")}: npm run practice -- s01`);
  begin(lesson, values.reset);
  if (values.hint || values.solution) console.log(helpFor(lesson, values.solution));
  else if (values.once || !process.stdout.isTTY) await show(lesson, left.signal);
  else await watch(lesson);
}

/** Makes the reader's file, if there is none. One that is there is kept under another name if `isReset`. */
function begin(lesson: Lesson, isReset = false): void {
  const file = fileOf(lesson);
  fs.mkdirSync(join(file, ".."), { recursive: true });
  fs.copyFileSync(new URL("tsconfig.practice.json", import.meta.url), join(file, "../tsconfig.json"));
  if (isReset && fs.existsSync(file)) {
    const old = `${file}.${Date.now()}.old`;
    fs.renameSync(file, old);
    fs.rmSync(`${file}.json`, { force: true });
    console.log(`Yours is practice/${basename(old)} now.`);
  }
  if (fs.existsSync(file)) return;
  fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
}

function keptOf(lesson: Lesson): Kept {
  const file = `${fileOf(lesson)}.json`;
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : { done: 0, green: {} };
}

/** The hint, or the lesson's own functions, for the step that was red in the last run. When all are green, the functions of all. */
function helpFor(lesson: Lesson, isSolution = false): string {
  const steps = stepsOf(lesson);
  const current = steps[keptOf(lesson).done];
  const names = (current ? [current] : steps).flatMap(({ functions }) => functions);
  if (isSolution) return names.map((name) => partOf(lesson, name).join("\n")).join("\n\n");
  return current ? `Step ${current.name}: ${current.hint}` : "Each step is green.";
}

/** Shows the result, and again when the file is saved or a key is pressed. */
async function watch(lesson: Lesson): Promise<void> {
  let again = new AbortController();
  let isWhole = true;
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    if (/[\x03\x04]/.test(`${keys}`)) left.abort(); // Ctrl-C, Ctrl-D
    isWhole = true;
    again.abort();
  });
  fs.watchFile(fileOf(lesson), { interval: 100 }, () => again.abort());
  while (!left.signal.aborted) {
    again = new AbortController();
    const signal = AbortSignal.any([again.signal, left.signal]);
    console.log("running…");
    isWhole = !(await show(lesson, signal, isWhole));
    if (!signal.aborted) await once(signal, "abort");
  }
}

/** Runs the tests, all of them if `isWhole`, and shows what came of it, unless stopped. @returns whether all is green */
async function show(lesson: Lesson, signal: AbortSignal, isWhole = true): Promise<boolean> {
  const began = Date.now();
  const progress = await check(lesson, fileOf(lesson), keptOf(lesson), { signal, isWhole, tell: console.log });
  if (signal.aborted) return false;
  const { done, green, state } = progress;
  const next = [...lessons.values()].find(({ before }) => before === lesson)?.name;
  if (process.stdout.isTTY) console.clear();
  console.log(draw(lesson, progress, (Date.now() - began) / 1_000, next));
  fs.writeFileSync(`${fileOf(lesson)}.json`, JSON.stringify({ done, green } satisfies Kept));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}
