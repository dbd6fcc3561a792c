/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import { constants, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Lesson, readLessons } from "../docs/lessons.ts";
import { draw, solution } from "./screen.ts";
import { skeletonOf } from "./skeleton.ts";
import { check } from "./suite.ts";

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
if (unknown) fail(`There is no option ${unknown}.`);
else if (lesson) await practise(lesson, fileOf(lesson));
else if (name) fail(`There is no lesson ${name}, only ${[...lessons.keys()].join(", ")}.`);
else list();

function fail(problem: string): void {
  console.error(`${problem} Usage: npm run practice -- s03 [--once | --hint | --solution | --reset]`);
  process.exitCode = 1;
}

/** How far each lesson is. */
function list(): void {
  for (const each of lessons.values()) {
    const progress = `${fileOf(each)}.progress`;
    console.log(each.header[0]?.padEnd(24), existsSync(progress) ? readFileSync(progress, "utf8") : "not begun");
  }
  console.log("\nBegin one, or go on: npm run practice -- s01");
}

async function practise(lesson: Lesson, file: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  make(join(folder, "tsconfig.json"), readFileSync(new URL("tsconfig.practice.json", import.meta.url), "utf8"));
  if (make(file, skeletonOf(lesson)))
    console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
  if (flags.reset) return await reset(lesson, file);
  const isOnce = !process.stdout.isTTY || flags.once || flags.hint || flags.solution;
  let seen = "";
  do {
    const source = existsSync(file) ? readFileSync(file, "utf8") : seen; // an editor may be replacing it
    if (seen && source !== seen) console.clear();
    if (source !== seen) await show(lesson, file);
    seen = source;
  } while (!isOnce && (await sleep(200, true)));
}

/** Makes a file, unless there is one. @returns whether it did */
function make(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: "wx" });
  } catch (error) {
    if (existsSync(file)) return false;
    throw error;
  }
  return true;
}

async function show(lesson: Lesson, file: string): Promise<void> {
  const progress = await check(root, lesson, file);
  if (flags.solution) return console.log(solution(readFileSync(file, "utf8"), lesson, progress.current));
  if (flags.hint) return console.log(progress.current?.hint ?? "All is green.");
  const names = [...lessons.keys()];
  console.log(draw(root, file, lesson, progress, names[names.indexOf(lesson.name) + 1]));
  writeFileSync(`${file}.progress`, `${progress.green} of ${progress.total}`);
  process.exitCode = progress.current ? 1 : 0;
}

async function reset(lesson: Lesson, file: string): Promise<void> {
  const rl = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await rl.question(`Begin practice/${basename(file)} again? Yours is kept beside it. [y/N] `);
  rl.close();
  if (answer !== "y") return console.log("Nothing was changed.");
  const old = `${file}.${Date.now()}.old`;
  copyFileSync(file, old, constants.COPYFILE_EXCL);
  writeFileSync(file, skeletonOf(lesson));
  console.log(`Yours is practice/${basename(old)} now.`);
}
