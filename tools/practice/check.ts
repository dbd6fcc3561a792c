/** Grades a reader's file. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Lesson } from "../docs/lessons.ts";
import { type Failure, type Job, run, type State } from "./run.ts";
import { type Code, changedBetween, filesOf, read, type Step, skeletonOf, stepsOf } from "./skeleton.ts";

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
type Options = Partial<Pick<Job, "known" | "patience" | "signal">> & { isWhole?: boolean };

/** Runs the tests of the steps up to the first that is red; if none is, all tests, unless not `isWhole`. */
export async function check(root: string, lesson: Lesson, file: string, options: Options = {}): Promise<Progress> {
  const { isWhole = true, known = new Set(), patience = 8_000, signal } = options;
  const [steps, checking] = [stepsOf(lesson), typesOf(root, file, signal)];
  let own: Code;
  try {
    own = read(lesson, readFileSync(file, "utf8"));
  } catch {
    return { state: "did not load", steps, open: [], types: await checking, isWhole: false }; // the compiler says why
  }
  const written = changedBetween(read(lesson, skeletonOf(lesson)), own);
  const openIn = ({ functions }: Step) => functions.filter((name) => !written.includes(name));
  const names = steps.map(({ name }) => name);
  const next = steps.findIndex((step) => openIn(step).length > 0); // likely the first that is red: then no other runs
  const files = filesOf(lesson, own, read(lesson, lesson.lines.join("\n")));
  const job: Job = { root, lesson, files, known, patience, signal };
  let failure = (await steadily(job, names.slice(0, next + 1))) ?? (await steadily(job, names));
  const goesOn = isWhole && !failure;
  if (goesOn) failure = await wholeOf({ ...job, patience: 2 * patience }, names);
  const current = steps.find(({ name }) => name === failure?.step);
  const done = current ? steps.indexOf(current) : steps.length;
  const types = await checking;
  const state = failure?.state ?? (types.length > 0 ? "red" : "green");
  return { state, steps, own, done, current, open: current ? openIn(current) : [], failure, types, isWhole: goesOn };
}

/** Runs tests, and what took too long once more, alone: the machine may be busy. */
export async function steadily(job: Job, steps: string[]): Promise<Failure | undefined> {
  const failure = await run(job, steps);
  const isLate = failure?.state === "timed out" || failure?.problem.message.startsWith("waited in vain");
  if (!failure || !isLate) return failure;
  const longer = { ...job, patience: 2 * job.patience };
  return (await run(longer, [failure.step], failure.test)) ?? run(longer, steps);
}

/** Runs all tests on the whole file. If one is red, it runs for each step on its own, to find out whose fault it is. */
async function wholeOf(job: Job, steps: string[]): Promise<Failure | undefined> {
  const failure = await steadily(job, ["all"]);
  return failure && ((await run(job, steps, failure.test)) ?? failure);
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
