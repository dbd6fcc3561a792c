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

/** What is saved between runs. */
export type Saved = {
  stepsDone: number; // how many steps are green before the first red one
  greenTexts: Record<string, string>; // for each step that was ever green, the text it was green with
};
export type Progress = Saved & {
  state: State;
  code?: Code; // the reader's code, unless it can't be parsed
  failure?: Failure;
  typeErrors: string[];
  ranAll: boolean; // whether the tests of the whole program ran as well
};
export type Failure = Status & { problem: Problem; step?: string };
type Job = {
  lesson: Lesson;
  code: Code;
  patience: number; // how many milliseconds may pass until the next test begins
  signal?: AbortSignal;
  step?: string; // the only step to run, if there is one
  test?: string; // the only test to run, if there is one
};
type Options = { patience?: number; signal?: AbortSignal; stepsOnly?: boolean; tell?: (news: string) => void };

/** Runs the tests of the steps up to the first that is red. If all are green, runs all tests of the program. */
export async function check(lesson: Lesson, file: string, saved: Saved, options: Options = {}): Promise<Progress> {
  const { patience = 5_000, signal, stepsOnly, tell } = options;
  const checking = typeErrorsIn(file, signal);
  const text = fs.promises.readFile(file, "utf8");
  const code = await text.then(read).catch(() => undefined);
  if (!code) return { ...saved, state: "did not load", typeErrors: await checking, ranAll: false }; // tsc says why
  const job = { lesson, code, patience, signal };
  let failure = await firstRed(job, saved);
  const ranAll = !stepsOnly && !failure;
  if (ranAll) {
    tell?.("Each step is green. All tests of the program run…");
    failure = await run({ ...job, patience: 2 * patience });
    if (failure) failure = (await firstRed({ ...job, test: failure.test }, { greenTexts: {} })) ?? failure; // names the step
  }
  const names = stepsOf(lesson).map(({ name }) => name);
  const stepsDone = failure?.step ? names.indexOf(failure.step) : names.length;
  const typeErrors = await checking;
  const state = failure?.state ?? (typeErrors.length > 0 ? "red" : "green");
  return { ...saved, stepsDone, state, code, failure, typeErrors, ranAll };
}

/** What is red in the first step that isn't green. A step that was green with the same text doesn't run again. */
export async function firstRed(job: Job, { greenTexts }: Pick<Saved, "greenTexts">): Promise<Failure | undefined> {
  for (const { name } of stepsOf(job.lesson)) {
    const text = textOf(fileFor(job.lesson, job.code, name));
    if (greenTexts[name] === text) continue;
    const failure = await run({ ...job, step: name });
    if (failure) return failure;
    greenTexts[name] = text;
  }
}

/** What the compiler reports, with the lines of the file. */
async function typeErrorsIn(file: string, signal?: AbortSignal): Promise<string[]> {
  const tsc = promisify(execFile)("node_modules/.bin/tsc", ["-p", dirname(file)], { signal });
  const { stdout } = await tsc.catch((error) => error); // the exit code is 2 if there are errors
  const lines: string[] = stdout.split(/\n(?! )/).filter((line: string) => line.startsWith(relative("", file)));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}

/** Runs tests until one is red. If that took too long, tries once more, since the machine may be busy. */
async function run(job: Job, isAgain = false): Promise<Failure | undefined> {
  const { lesson, code, step } = job;
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  const file = join(folder, basename(lesson.file));
  const lines = fileFor(lesson, code, step);
  fs.writeFileSync(file, textOf(lines));
  const output = join(folder, "output");
  await compile(job, file).catch(({ message }) => fs.writeFileSync(output, message)); // then there is nothing to start
  const status = await start(job, file, output);
  const printed = fs.readFileSync(output, "utf8");
  const [error = "The process ended before its tests did."] = /^\w*Error.*|(?<=ERROR: ).*/m.exec(printed) ?? [];
  const { problem = { message: error, stack: printed } } = status;
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // this ends commands that wait for a file in there
  if (status.isLate && !isAgain) return run({ ...job, patience: 2 * job.patience }, true);
  if (status.state !== "green") return { ...status, step, problem: inReadersLines(problem, file, lines) };
}

const PACKAGES = { sdk: "@anthropic-ai/sdk", zod: "zod" };
/** These packages as one file each, which loads faster than hundreds. Making them is slow, so it's done once. */
const packages = build({ ...PROGRAM, entryPoints: PACKAGES, outdir: ".", minify: true, write: false });

/** Compiles the tests, and the reader's file in place of every lesson. */
async function compile({ lesson, step }: Job, file: string): Promise<void> {
  const folder = dirname(file);
  const suites = join(folder, "suites.ts");
  const imports = suitesOf(lesson, step).map((suite) => `import "${resolve(suite)}";`);
  fs.writeFileSync(suites, imports.join("\n"));
  fs.chmodSync(folder, 0o711); // one test runs the agent as another user
  for (const name of ["node_modules", "skills"]) fs.symlinkSync(resolve(name), join(folder, name));
  for (const { path, contents } of (await packages).outputFiles)
    fs.writeFileSync(join(folder, basename(path)), contents);
  const useReaders: Plugin["setup"] = ({ onResolve }) =>
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
    plugins: [{ name: "each lesson is the reader's", setup: useReaders }],
  });
}

/** Runs the child until it ends, and kills it if a loop keeps it from reporting. */
async function start(job: Job, file: string, output: string): Promise<Status> {
  const { step, test, patience, signal } = job;
  const program = join(dirname(file), "tests/child.mjs");
  const printed = fs.openSync(output, "a");
  const practice = {
    PRACTICE_FILE: file,
    PRACTICE_STEP: step,
    PRACTICE_TEST: test,
    PRACTICE_PATIENCE: `${patience}`,
  };
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
  child.on("message", (news: Status) => {
    timer.refresh();
    status = news;
  });
  child.on("error", () => {}); // when the signal aborts; "close" follows
  await new Promise((ended) => child.on("close", ended));
  clearTimeout(timer);
  if (!child.killed || status.problem) return status;
  const message = "Stopped: always busy. Is there a loop that never ends?";
  return { ...status, state: "timed out", problem: { message, stack: "" } };
}

/** Replaces the lines of the file that ran by those of the reader's file. */
function inReadersLines(problem: Problem, file: string, lines: Line[]): Problem {
  const name = (_: string, at: string) => {
    const own = lines[Number(at) - 1]?.line;
    return own ? `practice/${basename(file)}:${own}` : `agents/${basename(file)}`;
  };
  return JSON.parse(JSON.stringify(problem).replace(new RegExp(`(?:file://)?${file}:(\\d+)`, "g"), name));
}
