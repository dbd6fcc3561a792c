/** Grades a reader's file: runs tests on it, each step in a process of its own. The current folder is the repository. */
import { execFile, fork } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { type BuildFailure, type BuildOptions, build, type Plugin } from "esbuild";
import { BUNDLE_OPTIONS } from "../lesson/program.ts";
import { type Code, type Lesson, parseCode } from "../lesson/source.ts";
import type { Problem, State, Status } from "./child.ts";
import { fileFor, type Line, stepsOf, suiteOf, suitesOf, textOf } from "./skeleton.ts";

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
export type Failure = Status & {
  problem: Problem;
  step?: string;
  isOwn?: boolean; // whether the reader's other steps ran, since the lesson's didn't fit in
};
type Job = {
  lesson: Lesson;
  code: Code;
  patience: number; // how many milliseconds may pass until the next test begins
  signal?: AbortSignal;
  step?: string; // the only step to run, if there is one
  test?: string; // the only test to run, if there is one
};
type Options = Partial<Job> & { stepsOnly?: boolean; tell?: (news: string) => void };

/** Runs the tests of the steps up to the first that is red. If all are green, runs all tests of the program. */
export async function check(lesson: Lesson, file: string, saved: Saved, options: Options = {}): Promise<Progress> {
  const { patience = 5_000, signal, stepsOnly, tell } = options;
  const checking = typeErrorsIn(file, signal);
  const text = fs.promises.readFile(file, "utf8");
  const code = await text.then((text) => parseCode(text.replaceAll("\r\n", "\n"))).catch(() => undefined);
  if (!code) return { ...saved, state: "did not load", typeErrors: await checking, ranAll: false }; // tsc says why
  const job = { lesson, code, patience, signal };
  let failure = await firstRed(job, saved);
  const ranAll = !stepsOnly && !failure;
  if (ranAll) {
    tell?.("Each step is green. All tests of the program run…");
    failure = await run({ ...job, patience: 2 * patience }, fileFor(lesson, code));
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
  const { lesson, code } = job;
  for (const { name } of stepsOf(lesson)) {
    const lines = fileFor(lesson, code, name);
    if (greenTexts[name] === textOf(lines)) continue;
    let failure = await run({ ...job, step: name }, lines);
    const isOwn = failure?.state === "did not load" || JSON.stringify(failure?.problem)?.includes("is not defined");
    if (isOwn) failure = await run({ ...job, step: name }, fileFor(lesson, code, name, isOwn));
    if (failure) return { ...failure, isOwn };
    greenTexts[name] = textOf(lines);
  }
}

/** What the compiler reports, with the lines of the file. */
async function typeErrorsIn(file: string, signal?: AbortSignal): Promise<string[]> {
  const tsc = promisify(execFile)("node_modules/.bin/tsc", ["--noEmit", "-p", dirname(file)], { signal });
  const { stdout } = await tsc.catch((error) => error); // the exit code is 2 if there are errors
  const lines: string[] = stdout.split(/\n(?! )/).filter((line: string) => line.startsWith(relative("", file)));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}

/** Runs tests on this file until one is red. If that took too long, tries once more, since the machine may be busy. */
async function run(job: Job, lines: Line[], isAgain = false): Promise<Failure | undefined> {
  const folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "practice-")));
  const file = join(folder, basename(job.lesson.file));
  fs.writeFileSync(file, textOf(lines));
  const started = prepare(job, file).then(() => start(job, file));
  const status = await started.catch((failure) => notCompiled(failure, folder));
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // this ends commands that wait for a file in there
  if (status.isLate && !isAgain) return run({ ...job, patience: 2 * job.patience }, lines, true);
  const { state, problem } = status;
  if (problem && state !== "green") return { ...status, step: job.step, problem: inReadersLines(problem, file, lines) };
}

const LOADING: Status = { state: "did not load", test: "the file loads" };

function notCompiled({ errors: [error] }: BuildFailure, folder: string): Status {
  const { text = "", location } = error ?? {};
  const stack = `${join(folder, basename(location?.file ?? ""))}:${location?.line}`;
  return { ...LOADING, problem: { message: text, stack } };
}

const bundle = (options: BuildOptions) => build({ ...BUNDLE_OPTIONS, ...options, outdir: ".", write: false });
const packages = bundle({ entryPoints: { sdk: "@anthropic-ai/sdk", zod: "zod" }, minify: true }); // loads faster
const IMPORTS: BuildOptions = {
  alias: { "@anthropic-ai/sdk": "../sdk.mjs", zod: "../zod.mjs" },
  external: ["../*.mjs", "esbuild", "yaml"],
  sourcemap: "inline",
  sourcesContent: false,
};
/** Imports the reader's file in place of every lesson. */
const setup: Plugin["setup"] = ({ onResolve }) =>
  onResolve({ filter: /\/agents\/s\d\d_/ }, () => ({ path: "../agents/lesson.mjs", external: true }));
const tests = bundle({
  ...IMPORTS,
  entryPoints: ["tools/practice/child.ts", ...fs.readdirSync("agents").map(suiteOf)],
  entryNames: "[name]",
  splitting: true,
  plugins: [{ name: "reader's file", setup }],
});

/** Puts everything that the tests need beside the file, and compiles it. */
async function prepare({ lesson, step }: Job, file: string): Promise<void> {
  const folder = dirname(file);
  fs.chmodSync(folder, 0o711); // one test runs the agent as another user
  const others = fs.existsSync("practice") ? fs.readdirSync("practice") : [];
  const imported = others.filter((name) => !/^(tsconfig|s\d\d_)/.test(name)).map((name) => join("practice", name));
  for (const path of ["node_modules", "skills", ...imported])
    fs.symlinkSync(resolve(path), join(folder, basename(path)));
  fs.mkdirSync(join(folder, "tests"));
  const write = (name: string, text: string | Uint8Array) => fs.writeFileSync(join(folder, name), text);
  for (const { path, contents } of (await packages).outputFiles) write(basename(path), contents);
  for (const { path, contents } of (await tests).outputFiles) write(`tests/${basename(path)}`, contents);
  const suites = suitesOf(lesson, step).map((suite) => `import "./${basename(suite, "ts")}mjs";\n`);
  write("tests/suite.mjs", suites.join(""));
  await build({ ...BUNDLE_OPTIONS, ...IMPORTS, entryPoints: { "agents/lesson": file }, outdir: folder });
}

/** Runs the child until it ends, and kills it if a loop keeps it from reporting. Unless it's green, there is a problem. */
async function start({ step, test, patience, signal }: Job, file: string): Promise<Status> {
  const program = join(dirname(file), "tests/child.mjs");
  const output = join(dirname(file), "output");
  const printed = fs.openSync(output, "a");
  const practice = { PRACTICE_FILE: file, PRACTICE_STEP: step, PRACTICE_TEST: test, PRACTICE_PATIENCE: `${patience}` };
  const child = fork(program, {
    env: { ...process.env, ...practice, TMPDIR: dirname(file), NODE_TEST_CONTEXT: undefined, NO_COLOR: "1" },
    execArgv: ["--enable-source-maps", `--test-reporter=${program}`, "--test-reporter-destination=stdout"],
    stdio: ["ignore", printed, printed, "ipc"],
    signal,
    killSignal: "SIGKILL",
  });
  fs.closeSync(printed);
  let status = LOADING;
  const timer = setTimeout(() => child.kill("SIGKILL"), patience);
  child.on("message", (news: Status) => {
    timer.refresh();
    status = news;
  });
  child.on("error", () => {}); // when the signal aborts; "close" follows
  await new Promise((ended) => child.on("close", ended));
  clearTimeout(timer);
  if (status.problem || status.state === "green") return status;
  const stack = fs.readFileSync(output, "utf8");
  const [error = "The process ended before its tests did."] = /^\w*Error.*/m.exec(stack) ?? [];
  if (!child.killed) return { ...status, problem: { message: error, stack } };
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
