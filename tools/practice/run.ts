/** Runs tests on a reader's file in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type BuildResult, build } from "esbuild";
import type { Lesson } from "../docs/lessons.ts";
import type { Event, Problem } from "./child.ts";
import { type Files, textOf } from "./skeleton.ts";

/** `known`: what was green. In `patience` milliseconds the next test has to begin. */
export type Job = {
  root: string;
  lesson: Lesson;
  files: Files;
  known: Set<string>;
  patience: number;
  signal?: AbortSignal;
};
export type State = "red" | "crashed" | "endless" | "timed out" | "did not load";
/** The first test that is red, or that was running when the process ended. */
export type Failure = { state: State; step: string; test: string; title?: string; problem: Problem };
const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));
const suiteOf = ({ root, lesson }: Job) => join(root, "tests", basename(lesson.file).replace(/ts$/, "test.ts"));

/** Runs the tests of steps, or one of them, until one is red. What was green with the same file does not run again. */
export async function run(job: Job, steps: string[], test?: string): Promise<Failure | undefined> {
  const left = steps.filter((step) => test || !job.known.has(keyOf(job, step)));
  if (left.length === 0) return;
  const folder = await folderFor(job, left);
  const ended = await watch(start(job, folder, left, test), job.patience);
  const failure = judge(ended, fs.readFileSync(join(folder, "output"), "utf8"), left);
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  const green = left.slice(0, failure && left.indexOf(failure.step));
  for (const step of test ? [] : green) job.known.add(keyOf(job, step));
  return failure && { ...failure, problem: inReadersLines(failure.problem, folder, job.files) };
}

/** What decides whether a step is green: its tests, and the file on which they run. */
export function keyOf(job: Job, step: string): string {
  const text = `${fs.readFileSync(suiteOf(job))} ${step} ${textOf(job.files.get(step) ?? [])}`;
  return createHash("sha1").update(text).digest("hex");
}

let sdk: Promise<BuildResult<{ write: false }>> | undefined; // in one file: hundreds take most of the time of a run

async function folderFor({ root, lesson, files }: Job, steps: string[]): Promise<string> {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  fs.chmodSync(folder, 0o711); // a test of root's runs the agent as another user
  fs.symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const step of steps) {
    fs.mkdirSync(join(folder, step));
    fs.writeFileSync(join(folder, step, basename(lesson.file)), textOf(files.get(step) ?? []));
  }
  const options = { bundle: true, format: "esm", platform: "node", absWorkingDir: root } as const;
  sdk ??= build({ entryPoints: ["@anthropic-ai/sdk"], write: false, ...options });
  fs.writeFileSync(join(folder, "sdk.mjs"), (await sdk).outputFiles[0]?.text ?? "");
  return folder;
}

function start(job: Job, folder: string, steps: string[], test?: string): ChildProcess {
  const { root, lesson, patience, signal } = job;
  const PRACTICE = join(folder, `${steps[0]}`, basename(lesson.file));
  const practice = { PRACTICE, PRACTICE_FOLDER: folder, PRACTICE_TEST: test, PRACTICE_WAIT: `${patience / 2}` };
  const env = { ...process.env, ...practice, NODE_TEST_CONTEXT: undefined, NO_COLOR: "1" };
  const output = fs.openSync(join(folder, "output"), "w");
  const stdio: ("ignore" | "pipe" | number)[] = ["ignore", output, output, "pipe"];
  const words = ["--import", "tsx", `--test-reporter=${CHILD}`, "--test-reporter-destination=stdout", CHILD];
  const child = spawn(process.execPath, [...words, suiteOf(job), ...steps], {
    cwd: root,
    env,
    stdio,
    signal,
    killSignal: "SIGKILL",
  });
  fs.closeSync(output);
  return child.on("error", () => {}); // the signal: "close" follows
}

type Ended = { events: Event[]; stopped?: "endless" | "timed out" };

/** Waits until a process ends, and ends it if no test begins for too long. */
async function watch(child: ChildProcess, patience: number): Promise<Ended> {
  const ended: Ended = { events: [] };
  let lastPause = Date.now();
  const timer = setTimeout(() => {
    const isBusy = Date.now() - lastPause > patience / 2; // with a loop that never pauses
    if (child.kill("SIGKILL")) ended.stopped = isBusy ? "endless" : "timed out";
  }, patience);
  createInterface({ input: child.stdio[3] as Readable }).on("line", (line) => {
    const event: Event = JSON.parse(line);
    lastPause = Date.now();
    if (event.event === "pause") return;
    ended.events.push(event);
    timer.refresh();
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  return ended;
}

/** The failure, if there is one. */
function judge({ events, stopped }: Ended, printed: string, [first = ""]: string[]): Failure | undefined {
  const red = events.find((event) => event.event === "red");
  if (red) return red;
  if (events.some(({ event }) => event === "end")) return;
  const { step, test } = events.findLast((event) => event.event === "begin") ?? { step: first, test: "the file loads" };
  const fail = (state: State, message: string, stack = "") => ({ state, step, test, problem: { message, stack } });
  if (stopped === "endless") return fail(stopped, "Stopped: always busy. Is there a loop that never ends?");
  if (stopped) return fail(stopped, "Stopped, twice: does it wait for what never comes, or is the machine busy?");
  const state = test === "the file loads" ? "did not load" : "crashed";
  const exit = events.find((event) => event.event === "exit");
  if (exit) return fail(state, "Something called process.exit.", exit.stack);
  const [problem = "The process ended before its tests did."] = /^\w*Error.*/m.exec(printed) ?? [];
  return fail(state, problem, printed);
}

/** Names the lines of the reader's file instead of those of the file that ran. */
function inReadersLines({ message, stack, ...rest }: Problem, folder: string, files: Files): Problem {
  const place = new RegExp(`(?:file://)?${folder}/([\\w.]+)/(\\w+\\.ts)(?:\\?[\\w=&]*)?:(\\d+)`, "g");
  const name = (_: string, step: string, name: string, line: string) => {
    const own = files.get(step)?.[Number(line) - 1]?.line;
    return own ? `practice/${name}:${own}` : `agents/${name}`;
  };
  return { message: message.replace(place, name), stack: stack.replace(place, name), ...rest };
}
