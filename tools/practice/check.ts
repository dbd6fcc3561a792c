/** Runs the suites on a reader's file. The current folder is the repository. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { run } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { promisify } from "node:util";
import { type Code, type Lesson, parseCode } from "../lesson/source.ts";
import { completed, type Step, stepsOf } from "./skeleton.ts";

export type Result = {
  code?: Code; // the reader's, unless it can't be parsed
  unwritten: string[]; // functions
  step?: Step; // where a test has failed, or else the first that isn't written
  green: string[]; // functions whose tests have passed
  passed: number; // tests
  ahead: string[]; // the tests of the first step that isn't written
  failure?: { name: string; test: string; printed: string; problem: Problem }; // with the name of the function it's about
  typeErrors: string[];
  isGreen?: boolean;
};
type Problem = { message: string; stack?: string; operator?: string; expected?: unknown; actual?: unknown };

const TEMPORARY = tmpdir(); // of this process
const NODE_OPTIONS = `--import=${new URL("hook.mjs", import.meta.url)}`;
const PATIENCE = Math.max(6_000, 10_000 * process.uptime()); // ms that loading may take; this process shows how fast the machine is
const LATE = { message: "Stopped: is there an endless loop or wait? If the machine was busy, a key tries again." };
const LOADING = "the file loads";

export async function check(lesson: Lesson, signal: AbortSignal): Promise<Result> {
  const file = join("practice", basename(lesson.file));
  const checking = typeErrorsIn(file, signal);
  const result: Result = { unwritten: [], step: stepsOf(lesson)[0], green: [], passed: 0, ahead: [], typeErrors: [] };
  try {
    result.code = parseCode(fs.readFileSync(file, "utf8").replaceAll("\r\n", "\n"));
  } catch {
    return { ...result, typeErrors: await checking }; // these say what is wrong
  }
  const { unwritten, text } = completed(lesson, result.code);
  fs.writeFileSync(join("practice", `.${basename(file)}`), text);
  const folder = fs.mkdtempSync(join(TEMPORARY, "practice-"));
  fs.chmodSync(folder, 0o711); // one test runs the agent as another user
  Object.assign(process.env, { LESSON: lesson.name, TMPDIR: folder, NODE_OPTIONS });
  await runSuites(lesson, Object.assign(result, { unwritten }), signal);
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // this ends commands that wait for a file in there
  result.typeErrors = await checking;
  result.isGreen = result.passed > 0 && !result.step && !result.failure && result.typeErrors.length === 0;
  return result;
}

/** What the compiler reports, with the lines of the file. */
async function typeErrorsIn(file: string, signal: AbortSignal): Promise<string[]> {
  const tsc = promisify(execFile)("node_modules/.bin/tsc", ["-p", "practice"], { signal });
  const { stdout } = await tsc.catch((error) => error); // its exit code isn't 0
  const lines: string[] = `${stdout}`.split(/\n(?! )/).filter((line) => line.startsWith(file));
  return lines.map((line) => line.replace(/\((\d+),\d+\): error TS\d+/, ":$1"));
}

/** The suites that test a lesson, its own first. */
function suitesOf({ file }: Lesson): string[] {
  const names = fs.readdirSync("tests").filter((name) => /^s\d\d_(?!histories).*\.test\.ts$/.test(name));
  const suites = names.map((name) => resolve("tests", name));
  return suites.filter((suite) => fs.readFileSync(suite, "utf8").includes(file)).reverse();
}

/** Runs the suites until a test fails, or until the tests of the first step begin that isn't written. */
async function runSuites(lesson: Lesson, result: Result, signal: AbortSignal): Promise<void> {
  const steps = stepsOf(lesson);
  const open = steps.findIndex(({ functions }) => functions.some((name) => result.unwritten.includes(name)));
  const begun = steps.slice(0, open).flatMap(({ functions }) => functions);
  result.step = steps[open];
  const now = { name: "", test: LOADING, printed: "" };
  const isAhead = (nesting: number) => nesting > 0 && open >= 0 && !begun.includes(now.name);
  const stop = new AbortController();
  const on: { [Event in TestEvent as Event["type"]]?: (data: Event["data"]) => unknown } = {
    "test:dequeue": ({ name, nesting }) => {
      if (nesting > 0) now.test = name;
      else Object.assign(now, { name: /^s\d\d: ([\w.]+)/.exec(name)?.[1] ?? "", test: LOADING });
    },
    "test:enqueue": ({ name, nesting }) => void (isAhead(nesting) && result.ahead.push(name)),
    "test:start": ({ nesting }) => isAhead(nesting),
    "test:stderr": ({ message }) => void Object.assign(now, { printed: now.printed + message }),
    "test:pass": ({ nesting }) => void (nesting > 0 ? result.passed++ : result.green.push(now.name)),
    "test:fail": ({ name, nesting, details: { error } }) => {
      if (Object(error).failureType === "subtestsFailed") return false;
      const problem = stop.signal.aborted ? LATE : problemOf(error, nesting > 0 ? "" : now.printed);
      result.failure = { ...now, test: nesting > 0 ? name : now.test, problem };
      result.step = now.name ? steps.find(({ functions }) => functions.includes(now.name)) : steps[0];
      return true;
    },
  };
  const options = { files: suitesOf(lesson), concurrency: 1, signal: AbortSignal.any([signal, stop.signal]) };
  let timer: NodeJS.Timeout | undefined;
  for await (const { type, data } of run(options) as AsyncIterable<TestEvent>) {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), now.test === LOADING ? PATIENCE : PATIENCE / 2);
    if (on[type]?.(data as never)) break;
  }
  clearTimeout(timer);
  stop.abort();
}

/** What a test threw, or what ended the process, which printed this. */
function problemOf({ cause, message }: Error, printed: string): Problem {
  if (cause instanceof Error) return cause;
  const [first = message] = /(?<= ERROR: ).*/.exec(printed) ?? /^\w*Error\b.*/m.exec(printed) ?? [];
  return { message: first, stack: printed };
}
