/** Grades a reader's file. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Lesson } from "../docs/lessons.ts";
import { type Failure, type Job, run, type State, steadily } from "./run.ts";
import { type Code, fileFor, read, stepsOf, textOf } from "./skeleton.ts";

/** Where a reader is. */
export type Progress = {
  state: State | "green";
  own?: Code; // this and the next unless the file cannot be parsed
  done?: number; // steps that are green, one after the other
  failure?: Failure;
  types: string[]; // what the compiler says
  isWhole: boolean; // all tests ran on the whole file
};
/** The file of each step, as it was when the step was green. */
export type Green = Record<string, string>;
type Options = { green?: Green; isWhole?: boolean; patience?: number; signal?: AbortSignal };

/** Runs the tests of the steps up to the first that is red; if none is, all tests, unless not `isWhole`. */
export async function check(root: string, lesson: Lesson, file: string, options: Options = {}): Promise<Progress> {
  const { green = {}, isWhole = true, patience = 5_000, signal } = options;
  const checking = typesOf(root, file, signal);
  let own: Code;
  try {
    own = read(lesson, readFileSync(file, "utf8"));
  } catch {
    return { state: "did not load", types: await checking, isWhole: false }; // the compiler says why
  }
  const job = { root, lesson, own, patience, signal };
  let failure = await firstRed(job, green);
  const goesOn = isWhole && !failure;
  if (goesOn) failure = await wholeOf({ ...job, step: "all", patience: 2 * patience });
  const names = stepsOf(lesson).map(({ name }) => name);
  const done = failure && names.includes(failure.step) ? names.indexOf(failure.step) : names.length;
  const types = await checking;
  const state = failure?.state ?? (types.length > 0 ? "red" : "green");
  return { state, own, done, failure, types, isWhole: goesOn };
}

/** What is red in the first step that is not green. What was green with the same file does not run again. */
export async function firstRed(job: Omit<Job, "step">, green: Green): Promise<Failure | undefined> {
  for (const { name } of stepsOf(job.lesson)) {
    const text = textOf(fileFor(job.lesson, job.own, name));
    if (green[name] === text) continue;
    const failure = await steadily({ ...job, step: name });
    if (failure) return failure;
    green[name] = text;
  }
}

/** Runs all tests on the whole file. If one is red, it runs for each step on its own, to find out whose fault it is. */
async function wholeOf(job: Job): Promise<Failure | undefined> {
  const failure = await steadily(job);
  if (!failure) return;
  for (const { name } of stepsOf(job.lesson)) {
    const found = await run({ ...job, step: name }, failure.test);
    if (found) return found;
  }
  return failure;
}

/** What the compiler says, with lines. */
async function typesOf(root: string, file: string, signal?: AbortSignal): Promise<string[]> {
  const words = ["-p", dirname(file), "--pretty", "false"];
  const output = await new Promise<string>((resolve) => {
    execFile(join(root, "node_modules/.bin/tsc"), words, { cwd: root, signal }, (_, stdout) => resolve(stdout));
  });
  const lines = output.split("\n").filter((line) => line.startsWith(relative(root, file)));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}
