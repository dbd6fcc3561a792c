/** Grades a reader's file: runs tests on it, each step in a process of its own. The current folder is the repository. */
import { execFile, fork } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { build, type OutputFile, type Plugin } from "esbuild";
import { PROGRAM } from "../../tests/program.ts";
import type { Lesson } from "../docs/lessons.ts";
import type { Problem, State, Status } from "./child.ts";
import { type Code, fileFor, type Line, read, stepsOf, textOf } from "./skeleton.ts";

/** What is kept between runs: how many steps are green, one after the other, and the file of each step that ever was green. */
export type Kept = { done: number; green: Record<string, string> };
/** Where a reader is. */
export type Progress = Kept & {
  state: State;
  own?: Code; // unless the file cannot be parsed
  failure?: Failure;
  types: string[]; // what the compiler says
  isWhole: boolean; // all tests ran on the whole file
};
export type Failure = Status & { problem: Problem; step?: string };
/** What to run. All tests, if it has no step. In `patience` milliseconds the next test has to begin. */
type Job = { lesson: Lesson; own: Code; patience: number; signal?: AbortSignal; step?: string };
type Options = { isWhole?: boolean; patience?: number; signal?: AbortSignal };

export const suiteOf = ({ file }: Lesson) => file.replace(/^agents(.*)ts$/, "tests$1test.ts");

/** Runs the tests of the steps up to the first that is red; if none is, all tests, unless not `isWhole`. */
export async function check(lesson: Lesson, file: string, kept: Kept, options: Options = {}): Promise<Progress> {
  const { isWhole = true, patience = 5_000, signal } = options;
  const checking = typesOf(file, signal);
  let own: Code;
  try {
    own = read(fs.readFileSync(file, "utf8"));
  } catch {
    return { ...kept, state: "did not load", types: await checking, isWhole: false }; // the compiler says why
  }
  const job = { lesson, own, patience, signal };
  let failure = await firstRed(job, kept);
  const goesOn = isWhole && !failure;
  if (goesOn) failure = await steadily({ ...job, patience: 2 * patience });
  if (goesOn && failure) failure = (await firstRed(job, { green: {} }, failure.test)) ?? failure; // whose fault it is
  const steps = stepsOf(lesson);
  const red = steps.findIndex(({ name }) => name === failure?.step);
  const done = red < 0 ? steps.length : red;
  const types = await checking;
  const state = failure?.state ?? (types.length > 0 ? "red" : "green");
  return { ...kept, done, state, own, failure, types, isWhole: goesOn };
}

/** What is red in the first step that is not green, or of one test. What was green with the same file does not run again. */
export async function firstRed(job: Job, { green }: Pick<Kept, "green">, test?: string): Promise<Failure | undefined> {
  for (const { name } of stepsOf(job.lesson)) {
    const text = textOf(fileFor(job.lesson, job.own, name));
    if (green[name] === text) continue;
    const failure = await steadily({ ...job, step: name }, test);
    if (failure) return failure;
    green[name] = text;
  }
}

/** What the compiler says, with lines. */
async function typesOf(file: string, signal?: AbortSignal): Promise<string[]> {
  const tsc = promisify(execFile)("node_modules/.bin/tsc", ["-p", dirname(file)], { signal });
  const { stdout } = await tsc.catch((error) => error); // it exits with 2 if it says something
  const lines: string[] = stdout.split("\n").filter((line: string) => line.startsWith(relative("", file)));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}

/** Runs tests, and once more if one took too long: the machine may be busy. */
async function steadily(job: Job, test?: string): Promise<Failure | undefined> {
  const failure = await run(job, test);
  return failure?.isLate ? run({ ...job, patience: 2 * job.patience }, test) : failure;
}

/** Runs the tests of a step, or one test, until one is red. */
async function run(job: Job, test?: string): Promise<Failure | undefined> {
  const { lesson, own, step } = job;
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  const file = join(folder, basename(lesson.file));
  const lines = fileFor(lesson, own, step);
  fs.writeFileSync(file, textOf(lines));
  const output = join(folder, "output");
  await compile(job, file).catch(({ message }) => fs.writeFileSync(output, message)); // then there is nothing to start
  const status = await start(job, file, output, test);
  const printed = fs.readFileSync(output, "utf8");
  const [error = "The process ended before its tests did."] = /^\w*Error.*|(?<=ERROR: ).*/m.exec(printed) ?? [];
  const { problem = { message: error, stack: printed } } = status;
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  if (status.state !== "green") return { ...status, step, problem: inReadersLines(problem, file, lines) };
}

const FORMAT = { ...PROGRAM, sourcemap: "inline", sourcesContent: false, logLevel: "silent" } as const;
const suites = new Map<string, Promise<OutputFile[]>>(); // compiled once: that takes longer than all the rest

/** Compiles the suite and the packages that lessons import: one file starts faster than hundreds. */
async function compileSuite(lesson: Lesson): Promise<OutputFile[]> {
  const own: Plugin["setup"] = ({ onResolve }) =>
    onResolve({ filter: /\/agents\/s\d\d_/ }, () => ({ path: "../agents/lesson.mjs", external: true }));
  const suite = { child: "tools/practice/child.ts", "tests/suite": suiteOf(lesson) };
  const { outputFiles } = await build({
    ...FORMAT,
    entryPoints: { ...suite, sdk: "@anthropic-ai/sdk", zod: "zod" },
    absWorkingDir: process.cwd(),
    external: ["esbuild", "yaml"],
    outdir: ".",
    outExtension: { ".js": ".mjs" },
    splitting: true,
    write: false,
    plugins: [{ name: "each lesson is the reader's", setup: own }],
  });
  return outputFiles;
}

/** Puts the programs of the suite beside that of the reader's file, which is each lesson's. */
async function compile({ lesson }: Job, file: string): Promise<void> {
  const folder = dirname(file);
  fs.chmodSync(folder, 0o711); // a test of root's runs the agent as another user
  for (const name of ["node_modules", "skills"]) fs.symlinkSync(resolve(name), join(folder, name));
  fs.mkdirSync(join(folder, "tests"));
  const suite = suites.get(lesson.name) ?? compileSuite(lesson);
  suites.set(lesson.name, suite);
  for (const { path, contents } of await suite) fs.writeFileSync(join(folder, relative("", path)), contents);
  const alias = { "@anthropic-ai/sdk": "../sdk.mjs", zod: "../zod.mjs" };
  const outfile = join(folder, "agents/lesson.mjs");
  await build({ ...FORMAT, entryPoints: [file], outfile, alias, external: ["../*.mjs", "yaml"] });
}

/** Runs the child until it ends, and ends it if a loop keeps it from telling how it stands. */
async function start(job: Job, file: string, output: string, test?: string): Promise<Status> {
  const { step, patience, signal } = job;
  const program = join(dirname(file), "child.mjs");
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
  const timer = setTimeout(() => {
    child.kill("SIGKILL");
    const message = "Stopped: always busy. Is there a loop that never ends?";
    if (!status.problem) status = { ...status, state: "timed out", problem: { message, stack: "" } };
  }, patience);
  child.on("message", (now: Status) => {
    timer.refresh();
    status = now;
  });
  child.on("error", () => {}); // the signal: "close" follows
  await new Promise((ended) => child.on("close", ended));
  clearTimeout(timer);
  return status;
}

/** Names the lines of the reader's file instead of those of the file that ran. */
function inReadersLines(problem: Problem, file: string, lines: Line[]): Problem {
  const name = (_: string, at: string) => {
    const own = lines[Number(at) - 1]?.line;
    return own ? `practice/${basename(file)}:${own}` : `agents/${basename(file)}`;
  };
  return JSON.parse(JSON.stringify(problem).replace(new RegExp(`(?:file://)?${file}:(\\d+)`, "g"), name));
}
