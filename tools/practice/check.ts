/** Runs the suites on a reader's file. The current folder is the repository. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { run } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { promisify } from "node:util";
import { type Code, type Lesson, parseCode } from "../lesson/source.ts";
import { completed, type Step, stepsOf } from "./skeleton.ts";

export type Result = {
  code?: Code; // the reader's, unless it can't be parsed
  unwritten: string[]; // functions
  step?: Step; // where a test has failed, or else the first that isn't written
  passed: number; // tests
  ahead: string[]; // the tests of the first step that isn't written
  failure?: Failure;
  typeErrors: string[]; // each begins with file:line
  isGreen?: boolean;
};
export type Failure = Place & { problem: Problem };
type Place = { name: string; test: string; printed: string }; // the function it's about, and what the suite has printed
type Problem = { message: string; stack?: string; operator?: string; expected?: unknown; actual?: unknown };

const TEMPORARY = tmpdir(); // of this process
const NODE_OPTIONS = `--import=${new URL("hook.mjs", import.meta.url)}`;
const PATIENCE = Math.max(6_000, 10_000 * process.uptime()); // ms that loading may take; this process shows how fast the machine is
const LATE = { message: "Stopped: is there an endless loop or wait? If the machine was busy, a key tries again." };
const LOADING = "the file loads";

export async function check(lesson: Lesson, signal: AbortSignal): Promise<Result> {
  const file = lesson.file.replace("agents", "practice");
  const checking = typeErrorsIn(file, signal);
  const result: Result = { unwritten: [], step: stepsOf(lesson)[0], passed: 0, ahead: [], typeErrors: [] };
  try {
    result.code = parseCode(fs.readFileSync(file, "utf8").replaceAll("\r\n", "\n"));
  } catch {
    return { ...result, typeErrors: await checking }; // these say what is wrong
  }
  const { unwritten, text } = completed(lesson, result.code);
  result.unwritten = unwritten;
  fs.writeFileSync(file.replace("/", "/."), text);
  const folder = fs.mkdtempSync(join(TEMPORARY, "practice-"));
  fs.chmodSync(folder, 0o711); // one test runs the agent as another user
  Object.assign(process.env, { LESSON: lesson.name, TMPDIR: folder, NODE_OPTIONS });
  await runSuites(lesson, result, signal);
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // this ends commands that wait for a file in there
  result.typeErrors = await checking;
  result.isGreen = result.passed > 0 && !result.step && !result.failure && result.typeErrors.length === 0;
  return result;
}

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
  const place = { name: "", test: LOADING, printed: "" };
  const isAhead = () => open >= 0 && !begun.includes(place.name);
  const stop = new AbortController();
  const options = { files: suitesOf(lesson), concurrency: 1, signal: AbortSignal.any([signal, stop.signal]) };
  let timer: NodeJS.Timeout | undefined;
  for await (const event of run(options) as AsyncIterable<TestEvent>) {
    if (isLast(event, result, place, isAhead)) break;
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), place.test === LOADING ? PATIENCE : PATIENCE / 2);
  }
  clearTimeout(timer);
  if (result.failure && stop.signal.aborted) result.failure.problem = LATE;
  if (result.failure)
    result.step = place.name ? steps.find(({ functions }) => functions.includes(place.name)) : steps[0];
  stop.abort();
}

/** Notes what a test or a group of tests does. Returns whether that's all there is to show. */
function isLast({ type, data }: TestEvent, result: Result, place: Place, isAhead: () => boolean): boolean {
  if (type === "test:stderr") place.printed += data.message;
  if (!data || !("nesting" in data)) return false;
  const isTest = data.nesting > 0;
  if (type === "test:dequeue") Object.assign(place, isTest ? { test: data.name } : groupCalled(data.name));
  if (type === "test:pass" && isTest) result.passed++;
  if (type === "test:fail") result.failure = failureOf(data.details.error, place, isTest ? data.name : undefined);
  if (type === "test:enqueue" && isTest && isAhead()) result.ahead.push(data.name);
  return result.failure !== undefined || (type === "test:start" && isTest && isAhead());
}

/** A group's title begins with the function it's about, as in `s01: runCall`. */
const groupCalled = (title: string) => ({ name: /^s\d\d: ([\w.]+)/.exec(title)?.[1] ?? "", test: LOADING });

/** What a test threw. Without a test, it's a group whose test has failed before, or else what ended the process. */
function failureOf(error: Error, place: Place, test?: string): Failure | undefined {
  if (Object(error).failureType === "subtestsFailed") return;
  if (error.cause instanceof Error) return { ...place, test: test ?? place.test, problem: error.cause };
  const [message = error.message] = /(?<= ERROR: ).*/.exec(place.printed) ?? /^\w*Error\b.*/m.exec(place.printed) ?? [];
  return { ...place, test: test ?? place.test, problem: { message, stack: place.printed } };
}
