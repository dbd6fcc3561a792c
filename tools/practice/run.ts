/** Runs tests on a reader's file in a process of its own. */
import { type ChildProcess, fork } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { type BuildResult, build, type PluginBuild } from "esbuild";
import type { Lesson } from "../docs/lessons.ts";
import type { Event, Problem } from "./child.ts";
import { type Code, fileFor, type Line, textOf } from "./skeleton.ts";

/** What to grade. `step`: a name, or "all". In `patience` milliseconds the next test has to begin. */
export type Job = { root: string; lesson: Lesson; own: Code; step: string; patience: number; signal?: AbortSignal };
export type State = "red" | "crashed" | "timed out" | "did not load";
/** The first test that is red, or that was running when the process ended. `isLate`: another time it may be green. */
export type Failure = { state: State; step: string; test: string; title: string; problem: Problem; isLate: boolean };

export const suiteOf = ({ file }: Lesson) => file.replace(/^agents(.*)ts$/, "tests$1test.ts");

/** Runs tests, and what took too long once more, alone: the machine may be busy. */
export async function steadily(job: Job): Promise<Failure | undefined> {
  const failure = await run(job);
  if (!failure?.isLate) return failure;
  const longer = { ...job, patience: 2 * job.patience };
  return (await run(longer, failure.test)) ?? run(longer);
}

/** Runs the tests of a step, or one test, until one is red. */
export async function run(job: Job, test?: string): Promise<Failure | undefined> {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  const file = join(folder, basename(job.lesson.file));
  const output = join(folder, "output");
  const lines = fileFor(job.lesson, job.own, job.step);
  fs.writeFileSync(file, textOf(lines));
  await compile(job, file).catch((error) => fs.writeFileSync(output, error.message)); // then there is nothing to start
  const ended = await watch(start(job, file, output, test), job.patience);
  const failure = judge(ended, fs.readFileSync(output, "utf8"));
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  return failure && { ...failure, step: job.step, problem: inReadersLines(failure.problem, file, lines) };
}

const FORMAT = { bundle: true, splitting: true, format: "esm", platform: "node", logLevel: "silent" } as const;
const banner = { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' };
const PACKAGES: Record<string, string> = { "@anthropic-ai/sdk": "sdk", zod: "zod" };
let packages: Promise<BuildResult<{ write: false }>> | undefined; // compiled once: that takes longer than all the rest

/** Makes programs of the suite, with the reader's file for each lesson: they start faster than hundreds of files. */
async function compile({ root, lesson }: Job, file: string): Promise<void> {
  const folder = dirname(file);
  fs.chmodSync(folder, 0o711); // a test of root's runs the agent as another user
  for (const name of ["node_modules", "skills"]) fs.symlinkSync(join(root, name), join(folder, name));
  const entries = Object.entries(PACKAGES).map(([name, out]) => ({ in: name, out }));
  packages ??= build({
    ...FORMAT,
    absWorkingDir: root,
    entryPoints: entries,
    outdir: "packages",
    write: false,
    banner,
  });
  for (const { path, contents } of (await packages).outputFiles)
    fs.writeFileSync(join(folder, basename(path)), contents);
  const setup = ({ onResolve }: PluginBuild) => {
    onResolve({ filter: /\/agents\/s\d\d_/ }, () => ({ path: file }));
    onResolve({ filter: /^(@anthropic-ai\/sdk|zod)$/ }, ({ path }) => {
      return { path: join(folder, `${PACKAGES[path]}.js`), external: true };
    });
  };
  const plugins = [{ name: "the reader's file", setup }];
  const entryPoints = { child: "tools/practice/child.ts", "tests/suite": suiteOf(lesson), "agents/lesson": file };
  const places = { absWorkingDir: root, entryPoints, outdir: folder, external: ["esbuild", "yaml"] };
  await build({ ...FORMAT, ...places, banner, plugins, sourcemap: "inline" });
}

function start({ root, step, patience, signal }: Job, file: string, output: string, test?: string): ChildProcess {
  const child = join(dirname(file), "child.js");
  const printed = fs.openSync(output, "a");
  const practice = { PRACTICE: file, PRACTICE_STEP: step, PRACTICE_TEST: test, PRACTICE_PATIENCE: `${patience}` };
  const started = fork(child, {
    cwd: root,
    env: { ...process.env, ...practice, TMPDIR: dirname(file), NODE_TEST_CONTEXT: undefined, NO_COLOR: "1" },
    execArgv: ["--enable-source-maps", `--test-reporter=${child}`, "--test-reporter-destination=stdout"],
    stdio: ["ignore", printed, printed, "ipc"],
    signal,
    killSignal: "SIGKILL",
  });
  fs.closeSync(printed);
  return started.on("error", () => {}); // the signal: "close" follows
}

type Ended = { events: Event[]; isBlocked: boolean };

/** Waits until a process ends, and ends it if a loop keeps it from telling anything. */
async function watch(child: ChildProcess, patience: number): Promise<Ended> {
  const ended: Ended = { events: [], isBlocked: false };
  const timer = setTimeout(() => {
    ended.isBlocked = child.kill("SIGKILL");
  }, patience);
  child.on("message", (event: Event) => {
    timer.refresh();
    ended.events.push(event);
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  return ended;
}

/** The failure, if there is one. */
function judge({ events, isBlocked }: Ended, printed: string): Omit<Failure, "step"> | undefined {
  const red = events.find((event) => event.event === "red");
  if (!red && events.some(({ event }) => event === "end")) return;
  const { test } = events.findLast((event) => event.event === "begin") ?? { test: "the file loads" };
  const [error = "The process ended before its tests did."] = /^\w*Error.*|(?<=ERROR: ).*/m.exec(printed) ?? [];
  const message = isBlocked ? "Stopped: always busy. Is there a loop that never ends?" : error;
  const failure = red ?? { test, title: test, problem: { message, stack: printed } };
  const isLate = /^(waited in vain|test timed out)/.test(failure.problem.message);
  const isOpen = failure.problem.message.startsWith("write me"); // a function that is called while the file loads
  if (isLate)
    failure.problem.message += "\nDoes it wait for what never comes, or try without end? Or is the machine busy?";
  let state: State = red && !red.isExit ? "red" : "crashed";
  if (!isOpen && !events.some(({ event }) => event === "loaded")) state = "did not load";
  if (isLate || isBlocked) state = "timed out";
  return { ...failure, state, isLate };
}

/** Names the lines of the reader's file instead of those of the file that ran. */
function inReadersLines({ message, stack, ...rest }: Problem, file: string, lines: Line[]): Problem {
  const name = (_: string, at: string) => {
    const own = lines[Number(at) - 1]?.line;
    return own ? `practice/${basename(file)}:${own}` : `agents/${basename(file)}`;
  };
  const named = (text: string) => text.replace(new RegExp(`(?:file://)?${file}:(\\d+)`, "g"), name);
  return { ...rest, message: named(message), stack: named(stack) };
}
