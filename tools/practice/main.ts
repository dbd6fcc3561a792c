/** npm run practice -- s03 [--solution | --reset] */
import { once } from "node:events";
import fs from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs, styleText } from "node:util";
import { type Lesson, readLessons } from "../lesson/source.ts";
import { check, type Saved } from "./grade.ts";
import { draw } from "./screen.ts";
import { partOf, skeletonOf, stepsOf } from "./skeleton.ts";

const lessons = readLessons(".");
const fileOf = ({ file }: Lesson) => resolve("practice", basename(file));
let notice = ""; // stays at the top of the screen
const quitting = new AbortController(); // on Ctrl-C, or when the terminal is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => quitting.abort());

async function main(): Promise<void> {
  const flag = { type: "boolean" } as const;
  const options = { solution: flag, reset: flag };
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const lesson = lessons.get(`${positionals[0]}`);
  if (!lesson) throw new Error(`Name one of the lessons ${[...lessons.keys()].join(", ")}: npm run practice -- s01`);
  begin(lesson, values.reset);
  if (values.solution) return console.log(solutionFor(lesson));
  if (process.stdout.isTTY) return watch(lesson);
  const isGreen = await show(lesson, quitting.signal);
  if (!isGreen && !quitting.signal.aborted) console.log(hintFor(lesson)); // no key can ask for it
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
    notice = `Your old file is now practice/${basename(old)}.\n`;
  }
  if (fs.existsSync(file)) return;
  fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  notice += `Made practice/${basename(file)}: open it. Its tests run whenever you save it.\n`;
}

function savedFor(lesson: Lesson): Saved {
  const file = `${fileOf(lesson)}.json`;
  const saved = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : {};
  return { stepsDone: 0, greenTexts: {}, ...saved };
}

/** The step that was red in the last run, if one was. */
const currentStep = (lesson: Lesson) => stepsOf(lesson)[savedFor(lesson).stepsDone];

const hintFor = (lesson: Lesson) => `A hint: ${currentStep(lesson)?.hint ?? "each step is green."}\n`;

/** The lesson's own functions for the current step. If no step is red, for all. */
function solutionFor(lesson: Lesson): string {
  const step = currentStep(lesson);
  const names = (step ? [step] : stepsOf(lesson)).flatMap(({ functions }) => functions);
  return names.map((name) => partOf(lesson, name).join("\n")).join("\n\n");
}

/** Shows the result. Runs the tests again when the file is saved. The key h shows a hint, and others run all tests. */
async function watch(lesson: Lesson): Promise<void> {
  let again = new AbortController();
  let stepsOnly = false;
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    if (`${keys}` === "h") return console.log(hintFor(lesson));
    if (/[\x03\x04]/.test(`${keys}`)) quitting.abort(); // Ctrl-C, Ctrl-D
    stepsOnly = false;
    again.abort();
  });
  fs.watchFile(fileOf(lesson), { interval: 100 }, () => again.abort());
  while (!quitting.signal.aborted) {
    again = new AbortController();
    const signal = AbortSignal.any([again.signal, quitting.signal]);
    console.log(`${notice}running…`);
    stepsOnly = await show(lesson, signal, stepsOnly);
    if (!stepsOnly && !signal.aborted) console.log(styleText("dim", "h shows a hint, any other key runs all tests"));
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
  console.log(notice + draw(lesson, progress, (Date.now() - began) / 1_000, next));
  fs.writeFileSync(`${fileOf(lesson)}.json`, JSON.stringify({ stepsDone, greenTexts } satisfies Saved));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}

await main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
if (quitting.signal.aborted) process.exit(130);
