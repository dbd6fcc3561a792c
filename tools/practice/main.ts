/** npm run practice -- s03 [--once | --hint | --solution | --reset] */
import { once } from "node:events";
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
    const progress = `${fileOf(each)}.progress`;
    console.log(each.header[0]?.padEnd(24), existsSync(progress) ? readFileSync(progress, "utf8") : "not begun");
  }
  console.log("\nBegin one, or go on: npm run practice -- s01");
}

async function practise(lesson: Lesson, file: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  make(join(folder, "tsconfig.json"), readFileSync(new URL("tsconfig.practice.json", import.meta.url), "utf8"));
  const isNew = make(file, skeletonOf(lesson));
  if (isNew) console.log(`Made practice/${basename(file)}: open it. When you save it, its tests run again.\n`);
  if (flags.reset) return await reset(lesson, file);
  if (flags.once || flags.hint || flags.solution || !process.stdout.isTTY) return await show(lesson, file, left.signal);
  while (!left.signal.aborted) {
    const saved = new AbortController();
    const change = changeOf(file).then(() => saved.abort());
    console.log("running…");
    await Promise.all([change, show(lesson, file, saved.signal)]);
    console.clear();
  }
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

/** Waits until a file is saved with another text, or the user leaves. */
async function changeOf(file: string): Promise<void> {
  const read = () => (existsSync(file) ? readFileSync(file, "utf8") : undefined); // an editor may be replacing it
  const before = read();
  while (!left.signal.aborted && [undefined, before].includes(read())) await sleep(100);
}

/** Runs the tests, and shows what the reader wants to see, unless the run is stopped. */
async function show(lesson: Lesson, file: string, signal: AbortSignal): Promise<void> {
  const progress = await check(root, lesson, file, { signal });
  const { steps, done, current, failed } = progress;
  if (signal.aborted) return;
  if (flags.solution) return console.log(solution(lesson, current ? [current] : steps));
  if (flags.hint) return console.log(current?.hint ?? "All steps are green.");
  const names = [...lessons.keys()];
  if (process.stdout.isTTY) console.clear();
  console.log(draw(root, file, lesson, progress, names[names.indexOf(lesson.name) + 1]));
  writeFileSync(`${file}.progress`, `${done} of ${steps.length} steps`);
  process.exitCode = current || failed ? 1 : 0;
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
  console.log(`Yours is practice/${basename(old)} now.`);
}
