/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import { once } from "node:events";
import { constants, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../docs/lessons.ts";
import { check } from "./check.ts";
import { draw, solution } from "./screen.ts";
import { changedBetween, read, skeletonOf, stepsOf } from "./skeleton.ts";

const root = process.cwd();
const folder = join(root, "practice");
const flag = { type: "boolean" } as const;
const options = { once: flag, hint: flag, solution: flag, reset: flag };
const { values: flags, positionals } = parseArgs({ allowPositionals: true, strict: false, options });
const [name = ""] = positionals;
const unknown = Object.keys(flags).find((flag) => !(flag in options));
const lessons = readLessons(root);
const lesson = lessons.get(name);
const fileOf = ({ file }: Lesson) => join(folder, basename(file));
const usage = "Usage: npm run practice -- s03 [--once | --hint | --solution | --reset]";
const left = new AbortController(); // Ctrl-C, or a terminal that is closed
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => left.abort());
if (unknown) fail(`There is no option ${unknown}. ${usage}`);
else if (lesson) await practise(lesson, fileOf(lesson)).catch((error) => fail(error.message));
else if (name) fail(`There is no lesson ${name}, only ${[...lessons.keys()].join(", ")}. ${usage}`);
else list();
if (left.signal.aborted) process.exit(130);

function fail(problem: string): void {
  console.error(problem);
  process.exitCode = 1;
}

/** How far each lesson is. */
function list(): void {
  for (const each of lessons.values()) {
    const progress = `${resultOf(fileOf(each)).done} of ${stepsOf(each).length} steps`;
    console.log(each.header[0]?.padEnd(24), existsSync(fileOf(each)) ? progress : "not begun");
  }
  console.log("\nBegin one, or go on: npm run practice -- s01");
}

async function practise(lesson: Lesson, file: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  copyFileSync(new URL("tsconfig.practice.json", import.meta.url), join(folder, "tsconfig.json"));
  const isNew = !existsSync(file);
  if (isNew) writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  if (isNew) console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
  if (flags.reset) await reset(lesson, file);
  else if (flags.hint || flags.solution) help(lesson, file);
  else if (flags.once || !process.stdout.isTTY) await show(lesson, file, left.signal);
  else await watch(lesson, file);
}

/** Shows the result, and again when the file is saved or a key is pressed. */
async function watch(lesson: Lesson, file: string): Promise<void> {
  let isAsked = true; // by a key, or because not all tests have been green: then those of the whole program run, too
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    isAsked = true;
    if (/[\x03\x04]/.test(`${keys}`)) left.abort(); // Ctrl-C, Ctrl-D
  });
  while (!left.signal.aborted) {
    const isWhole = isAsked;
    isAsked = false;
    const changed = new AbortController();
    const change = changeOf(file, () => isAsked).then(() => changed.abort());
    console.log("running…");
    const isGreen = await show(lesson, file, changed.signal, isWhole);
    await change;
    isAsked ||= !isGreen;
    console.clear();
  }
}

/** Waits until a file is saved with another text, a key is pressed, or the user leaves. */
async function changeOf(file: string, isAsked: () => boolean): Promise<void> {
  const read = () => (existsSync(file) ? readFileSync(file, "utf8") : undefined); // an editor may be replacing it
  const before = read();
  while (!left.signal.aborted && !isAsked() && [undefined, before].includes(read())) await sleep(100);
}

/** What is kept of the last run: the steps that were green; the most that ever were, and the text at that time. */
type Result = { done: number; most: number; best: string };

function resultOf(file: string): Result {
  try {
    return JSON.parse(readFileSync(`${file}.progress`, "utf8"));
  } catch {
    return { done: 0, most: 0, best: "" };
  }
}

/** Runs the tests and shows what came of them, unless that is stopped. @returns whether all is green */
async function show(lesson: Lesson, file: string, signal: AbortSignal, isWhole = true): Promise<boolean> {
  const began = Date.now();
  const progress = await check(root, lesson, file, { signal, isWhole });
  if (signal.aborted) return false;
  const old = resultOf(file);
  const { own, done = old.done, state } = progress;
  const isWorse = done < old.most;
  const changed = own && isWorse ? changedBetween(read(lesson, old.best), own) : [];
  const names = [...lessons.keys()];
  if (process.stdout.isTTY) console.clear();
  const shown = { root, lesson, progress, done, changed, seconds: (Date.now() - began) / 1_000 };
  console.log(draw(shown, names[names.indexOf(lesson.name) + 1]));
  const result: Result = own && !isWorse ? { done, most: done, best: own.lines.join("\n") } : { ...old, done };
  writeFileSync(`${file}.progress`, JSON.stringify(result));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}

/** The hint or the solution for the step that was red in the last run. When all are green, the solution of all. */
function help(lesson: Lesson, file: string): void {
  const steps = stepsOf(lesson);
  const { done } = resultOf(file);
  const current = steps[done];
  const hint = current
    ? `Step ${done + 1} of ${steps.length}, ${current.name}: ${current.hint}`
    : "Each step is green.";
  console.log(flags.solution ? solution(lesson, current ? [current] : steps) : hint);
}

async function reset(lesson: Lesson, file: string): Promise<void> {
  const rl = createInterface({ input: process.stdin, output: process.stdout });
  const ended = once(rl, "close").then(() => "");
  const question = `Begin practice/${basename(file)} again? Yours is kept beside it. [y/N] `;
  const answer = await Promise.race([rl.question(question), ended]);
  rl.close();
  if (answer !== "y") return console.log("Nothing was changed; only y begins again.");
  const old = `${file}.${Date.now()}.old`;
  copyFileSync(file, old, constants.COPYFILE_EXCL);
  writeFileSync(file, skeletonOf(lesson));
  rmSync(`${file}.progress`, { force: true });
  console.log(`Yours is practice/${basename(old)} now.`);
}
