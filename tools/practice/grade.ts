/** Grades a reader's file: runs tests on it, each step in a process of its own. The current folder is the repository. */
import { execFile, fork } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { build, type Plugin } from "esbuild";
import { PROGRAM } from "../lesson/program.ts";
import { type Code, type Lesson, read } from "../lesson/source.ts";
import type { Problem, State, Status } from "./child.ts";
import { fileFor, type Line, stepsOf, suitesOf, textOf } from "./skeleton.ts";

/** What is kept between runs: which step is red, or how many there are, and the file of each step that ever was green. */
export type Kept = { done: number; green: Record<string, string> };
/** Where a reader is. `own`: unless the file cannot be parsed. `types`: what the compiler says. `isWhole`: all tests ran. */
export type Progress = Kept & { state: State; own?: Code; failure?: Failure; types: string[]; isWhole: boolean };
export type Failure = Status & { problem: Problem; step?: string };
/** What to run: a step, or all; one test, or all. In `patience` milliseconds the next test has to begin. */
type Job = { lesson: Lesson; own: Code; patience: number; signal?: AbortSignal; step?: string; test?: string };
type Options = Partial<Job> & { isWhole?: boolean; tell?: (news: string) => void };

/** Runs the tests of the steps up to the first that is red; if none is, all tests, unless not `isWhole`. */
export async function check(lesson: Lesson, file: string, kept: Kept, options: Options = {}): Promise<Progress> {
  const checking = typesOf(file, options.signal);
  const text = fs.promises.readFile(file, "utf8");
  const own = await text.then(read).catch(() => undefined);
  if (!own) return { ...kept, state: "did not load", types: await checking, isWhole: false }; // the compiler says why
  const job = { patience: 5_000, ...options, lesson, own };
  let failure = await firstRed(job, kept);
  const goesOn = options.isWhole !== false && !failure;
  if (goesOn) options.tell?.("Each step is green. All tests of the program run…");
  if (goesOn) failure = await run({ ...job, patience: 2 * job.patience });
  if (goesOn && failure) failure = (await firstRed({ ...job, test: failure.test }, { green: {} })) ?? failure; // whose fault it is
  const done = [...stepsOf(lesson).map(({ name }) => name), failure?.step].indexOf(failure?.step); // all, if it's no step's
  const types = await checking;
  const state = failure?.state ?? (types.length > 0 ? "red" : "green");
  return { ...kept, done, state, own, failure, types, isWhole: goesOn };
}

/** What is red in the first step that is not green. What was green with the same file does not run again. */
export async function firstRed(job: Job, { green }: Pick<Kept, "green">): Promise<Failure | undefined> {
  for (const { name } of stepsOf(job.lesson)) {
    const text = textOf(fileFor(job.lesson, job.own, name));
    if (green[name] === text) continue;
    const failure = await run({ ...job, step: name });
    if (failure) return failure;
    green[name] = text;
  }
}

/** What the compiler says, with lines. */
async function typesOf(file: string, signal?: AbortSignal): Promise<string[]> {
  const tsc = promisify(execFile)("node_modules/.bin/tsc", ["-p", dirname(file)], { signal });
  const { stdout } = await tsc.catch((error) => error); // it exits with 2 if it says something
  const lines: string[] = stdout.split(/\n(?! )/).filter((line: string) => line.startsWith(relative("", file)));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}

/** Runs tests until one is red, and once more if that took too long: the machine may be busy. */
async function run(job: Job, isAgain = false): Promise<Failure | undefined> {
  const { lesson, own, step } = job;
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  const file = join(folder, basename(lesson.file));
  const lines = fileFor(lesson, own, step);
  fs.writeFileSync(file, textOf(lines));
  const output = join(folder, "output");
  await compile(job, file).catch(({ message }) => fs.writeFileSync(output, message)); // then there is nothing to start
  const status = await start(job, file, output);
  const printed = fs.readFileSync(output, "utf8");
  const [error = "The process ended before its tests did."] = /^\w*Error.*|(?<=ERROR: ).*/m.exec(printed) ?? [];
  const { problem = { message: error, stack: printed } } = status;
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  if (status.isLate && !isAgain) return run({ ...job, patience: 2 * job.patience }, true);
  if (status.state !== "green") return { ...status, step, problem: inReadersLines(problem, file, lines) };
}

const PACKAGES = { sdk: "@anthropic-ai/sdk", zod: "zod" }; // one file of each starts faster than hundreds
const packages = build({ ...PROGRAM, entryPoints: PACKAGES, outdir: ".", minify: true, write: false }); // slow: made once

/** Compiles the tests, and the reader's file, which is each lesson's. */
async function compile({ lesson, step }: Job, file: string): Promise<void> {
  const folder = dirname(file);
  const suites = join(folder, "suites.ts");
  const imports = suitesOf(lesson, step).map((suite) => `import "${resolve(suite)}";`);
  fs.writeFileSync(suites, imports.join("\n"));
  fs.chmodSync(folder, 0o711); // a test of root's runs the agent as another user
  for (const name of ["node_modules", "skills"]) fs.symlinkSync(resolve(name), join(folder, name));
  for (const { path, contents } of (await packages).outputFiles)
    fs.writeFileSync(join(folder, basename(path)), contents);
  const own: Plugin["setup"] = ({ onResolve }) =>
    onResolve({ filter: /\/agents\/s\d\d_/ }, () => ({ path: "../agents/lesson.mjs", external: true }));
  await build({
    ...PROGRAM,
    entryPoints: { "tests/child": "tools/practice/child.ts", "tests/suite": suites, "agents/lesson": file },
    outdir: folder,
    splitting: true,
    chunkNames: "tests/[hash]",
    sourcemap: "inline",
    sourcesContent: false,
    alias: { "@anthropic-ai/sdk": "../sdk.mjs", zod: "../zod.mjs" },
    external: ["../*.mjs", "esbuild", "yaml"],
    plugins: [{ name: "each lesson is the reader's", setup: own }],
  });
}

/** Runs the child until it ends, and ends it if a loop keeps it from telling how it stands. */
async function start(job: Job, file: string, output: string): Promise<Status> {
  const { step, test, patience, signal } = job;
  const program = join(dirname(file), "tests/child.mjs");
  const printed = fs.openSync(output, "a");
  const practice = { PRACTICE: file, PRACTICE_STEP: step, PRACTICE_TEST: test, PRACTICE_PATIENCE: `${patience}` };
  const child = fork(program, {
    env: { ...process.env, ...practice, TMPDIR: dirname(file), NODE_TEST_CONTEXT: undefined, NO_COLOR: "1" },
    execArgv: ["--enable-source-maps", `--test-reporter=${program}`, "--test-reporter-destination=stdout"],
    stdio: ["ignore", printed, printed, "ipc"],
    signal,
    killSignal: "SIGKILL",
  });
  fs.closeSync(printed);
  let status: Status = { state: "did not load", test: "the file loads" };
  const timer = setTimeout(() => child.kill("SIGKILL"), patience);
  child.on("message", (now: Status) => {
    timer.refresh();
    status = now;
  });
  child.on("error", () => {}); // the signal: "close" follows
  await new Promise((ended) => child.on("close", ended));
  clearTimeout(timer);
  if (!child.killed || status.problem) return status;
  const message = "Stopped: always busy. Is there a loop that never ends?";
  return { ...status, state: "timed out", problem: { message, stack: "" } };
}

/** Names the lines of the reader's file instead of those of the file that ran. */
function inReadersLines(problem: Problem, file: string, lines: Line[]): Problem {
  const name = (_: string, at: string) => {
    const own = lines[Number(at) - 1]?.line;
    return own ? `practice/${basename(file)}:${own}` : `agents/${basename(file)}`;
  };
  return JSON.parse(JSON.stringify(problem).replace(new RegExp(`(?:file://)?${file}:(\\d+)`, "g"), name));
}
