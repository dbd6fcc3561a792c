/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import fs from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../docs/lessons.ts";
import { check } from "./check.ts";
import { draw, solution } from "./screen.ts";
import { changedBetween, read, skeletonOf, stepsOf } from "./skeleton.ts";

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
  if (name === undefined) return list();
  const lesson = lessons.get(name);
  if (!lesson) throw new Error(`There is no lesson ${name}, only ${[...lessons.keys()].join(", ")}.`);
  begin(lesson);
  if (values.reset) reset(lesson);
  else if (values.hint || values.solution) console.log(helpFor(lesson, values.solution));
  else if (values.once || !process.stdout.isTTY) await show(lesson, left.signal, true);
  else await watch(lesson);
}

/** How far each lesson is. */
function list(): void {
  for (const lesson of lessons.values()) {
    const progress = `${keptOf(lesson).done} of ${stepsOf(lesson).length} steps`;
    console.log(lesson.header[0]?.padEnd(24), fs.existsSync(fileOf(lesson)) ? progress : "not begun");
  }
  console.log("\nBegin one, or go on: npm run practice -- s01");
}

function begin(lesson: Lesson): void {
  const file = fileOf(lesson);
  fs.mkdirSync(join(file, ".."), { recursive: true });
  fs.copyFileSync(new URL("tsconfig.practice.json", import.meta.url), join(file, "../tsconfig.json"));
  if (fs.existsSync(file)) return;
  fs.writeFileSync(file, skeletonOf(lesson), { flag: "wx" });
  console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
}

/** Begins again. The reader's file is kept under another name. */
function reset(lesson: Lesson): void {
  const [file, old] = [fileOf(lesson), `${fileOf(lesson)}.${Date.now()}.old`];
  fs.copyFileSync(file, old, fs.constants.COPYFILE_EXCL);
  fs.writeFileSync(file, skeletonOf(lesson));
  fs.rmSync(`${file}.progress`, { force: true });
  console.log(`practice/${basename(file)} is as it was at the beginning. Yours is practice/${basename(old)} now.`);
}

/** The hint, or the solution, for the step that was red in the last run. When all are green, the solution of all. */
function helpFor(lesson: Lesson, isSolution = false): string {
  const [steps, { done }] = [stepsOf(lesson), keptOf(lesson)];
  const current = steps[done];
  if (isSolution) return solution(lesson, current ? [current] : steps);
  return current ? `Step ${done + 1} of ${steps.length}, ${current.name}: ${current.hint}` : "Each step is green.";
}

/** Shows the result, and again when the file is saved or a key is pressed. */
async function watch(lesson: Lesson): Promise<void> {
  const file = fileOf(lesson);
  const read = () => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined); // an editor may be replacing it
  let [isAsked, isGreen] = [false, false];
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on("data", (keys) => {
    isAsked = true;
    if (/[\x03\x04]/.test(`${keys}`)) left.abort(); // Ctrl-C, Ctrl-D
  });
  while (!left.signal.aborted) {
    const [before, isAgain, changed] = [read(), isAsked, new AbortController()];
    isAsked = false;
    console.log("running…");
    const showing = show(lesson, changed.signal, isAgain, isAgain || !isGreen);
    while (!left.signal.aborted && !isAsked && [undefined, before].includes(read())) await sleep(100);
    changed.abort();
    isGreen = await showing;
    console.clear();
  }
}

/** Of the last run: the steps that were green; the most that ever were, and the text then; the files that were green. */
type Kept = { done: number; most: number; best: string; known: string[] };

function keptOf(lesson: Lesson): Kept {
  try {
    return JSON.parse(fs.readFileSync(`${fileOf(lesson)}.progress`, "utf8"));
  } catch {
    return { done: 0, most: 0, best: "", known: [] };
  }
}

/** Runs the tests, all of them if `isAgain`, and shows what came of it, unless stopped. @returns whether all is green */
async function show(lesson: Lesson, signal: AbortSignal, isAgain: boolean, isWhole = true): Promise<boolean> {
  const [kept, began, names] = [keptOf(lesson), Date.now(), [...lessons.keys()]];
  const known = new Set(isAgain ? [] : kept.known);
  const progress = await check(root, lesson, fileOf(lesson), { signal, isWhole, known });
  if (signal.aborted) return false;
  const { own, done = kept.done, state } = progress;
  const changed = own && done < kept.most ? changedBetween(read(lesson, kept.best), own) : [];
  const seconds = (Date.now() - began) / 1_000;
  if (process.stdout.isTTY) console.clear();
  console.log(draw({ lesson, progress, done, changed, seconds }, names[names.indexOf(lesson.name) + 1]));
  const best = own && done >= kept.most ? { most: done, best: own.lines.join("\n") } : {};
  const next: Kept = { ...kept, ...best, done, known: [...known].slice(-50) };
  fs.writeFileSync(`${fileOf(lesson)}.progress`, JSON.stringify(next));
  process.exitCode = state === "green" ? 0 : 1;
  return state === "green";
}
