/** Grades a reader's file. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Lesson } from "../docs/lessons.ts";
import { type Failure, type Job, run, type State } from "./run.ts";
import { type Code, changedBetween, read, type Step, skeletonOf, stepsOf } from "./skeleton.ts";

/** Where a reader is. */
export type Progress = {
  state: State | "green";
  steps: Step[];
  own?: Code; // this and the next unless the file cannot be parsed
  done?: number; // steps that are green
  current?: Step; // the first that is not
  open: string[]; // its functions that are as they were at the beginning
  failure?: Failure;
  types: string[]; // what the compiler says
  isWhole: boolean; // all tests ran on the whole file
};
/** `isWhole`: once each step is green, all tests run on the whole file. `patience`: see Job. */
export type Options = { signal?: AbortSignal; isWhole?: boolean; patience?: number };

/** Runs the tests of the steps up to the first that is red or not written. */
export async function check(root: string, lesson: Lesson, file: string, options: Options = {}): Promise<Progress> {
  const { signal, isWhole = true, patience = 8_000 } = options;
  const [steps, checking] = [stepsOf(lesson), typesOf(root, file, signal)];
  const own = readIfPossible(lesson, file);
  if (!own) return { state: "did not load", steps, open: [], types: await checking, isWhole: false };
  const written = changedBetween(read(lesson, skeletonOf(lesson)), own);
  const openIn = ({ functions }: Step) => functions.filter((name) => !written.includes(name));
  const next = steps.findIndex((step) => openIn(step).length > 0);
  const names = steps.slice(0, next < 0 ? undefined : next + 1).map(({ name }) => name);
  const job: Job = { root, lesson, own, given: read(lesson, lesson.lines.join("\n")), patience, signal };
  let failure = await steadily(job, names);
  const goesOn = isWhole && next < 0 && !failure;
  if (goesOn) failure = await wholeOf({ ...job, patience: 2 * patience }, names);
  const current = failure ? steps.find(({ name }) => name === failure.step) : steps[next];
  const done = current ? steps.indexOf(current) : steps.length;
  const types = await checking;
  const state = failure?.state ?? (current || types.length > 0 ? "red" : "green");
  return { state, steps, own, done, current, open: current ? openIn(current) : [], failure, types, isWhole: goesOn };
}

function readIfPossible(lesson: Lesson, file: string): Code | undefined {
  try {
    return read(lesson, readFileSync(file, "utf8"));
  } catch {
    return; // the compiler says why
  }
}

/** Runs tests, and what took too long once more, alone: the machine may be busy. */
async function steadily(job: Job, steps: string[]): Promise<Failure | undefined> {
  const failure = await run(job, steps);
  const isLate = failure?.state === "timed out" || failure?.problem.message.startsWith("waited in vain");
  if (!failure || !isLate) return failure;
  const longer = { ...job, patience: 2 * job.patience };
  return (await run(longer, [failure.step], failure.test)) ?? run(longer, steps);
}

/** Runs all tests on the whole file. If one is red, it runs for each step on its own, to find out whose fault it is. */
async function wholeOf(job: Job, steps: string[]): Promise<Failure | undefined> {
  const failure = await steadily(job, ["all"]);
  for (const step of failure ? steps : []) {
    const own = await run(job, [step], failure?.test);
    if (own) return own;
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
