/** Runs tests of a lesson's suite on a reader's file. */
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Lesson } from "../docs/lessons.ts";
import type { Result } from "./reporter.ts";
import { isOpen, type Step, stepsOf } from "./skeleton.ts";

export type Run = { results: Result[]; ms: number };
const beside = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** A pattern for the tests of exactly these names. */
export const exactly = (names: string[]) =>
  names.map((name) => `^${name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}$`).join("|");

/** Runs the tests of which the names match. What neither ends nor begins one for `limit` milliseconds is stopped. */
export async function runSuite(root: string, file: string, pattern: string, limit = 10_000): Promise<Run> {
  const began = Date.now();
  const temporary = mkdtempSync(join(tmpdir(), "practice-"));
  chmodSync(temporary, 0o711); // a test of root's runs the agent as another user
  const words = ["--import", "tsx", "--import", beside("preload.ts"), `--test-reporter=${beside("reporter.ts")}`];
  const suite = join(root, "tests", basename(file).replace(/ts$/, "test.ts"));
  words.push("--test-reporter-destination=stdout", `--test-name-pattern=${pattern}`, suite);
  const settings = { PRACTICE: file, PRACTICE_TMPDIR: temporary, PRACTICE_WAIT: String(limit / 2), NO_COLOR: "1" };
  const env = { ...process.env, ...settings, NODE_TEST_CONTEXT: undefined };
  const child = spawn(process.execPath, words, { cwd: root, env, stdio: ["ignore", "pipe", "pipe", "pipe"] });
  const results: Result[] = [];
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-100_000);
    });
  }
  let current = "the file loads";
  let hasEnded = false;
  const fail = (message: string) => results.push({ name: current, ok: false, parent: "", message, stack: "" });
  const stop = () => {
    fail("Stopped: nothing came for too long. Is there a loop that never ends?");
    child.kill("SIGKILL");
  };
  let timer = setTimeout(stop, 3 * limit); // loading may take longer
  if (!(child.stdio[3] instanceof Readable)) throw new Error("no stream for the results");
  createInterface({ input: child.stdio[3] }).on("line", (line) => {
    const { begins, ends, ...result } = JSON.parse(line);
    if (begins) current = begins;
    else if (ends) hasEnded = true;
    else if (!result.name.endsWith(".ts")) results.push(result); // what fails outside a test has its file's name
    clearTimeout(timer);
    timer = setTimeout(stop, limit);
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  const [, problem] = /ERROR: (.*)/.exec(output) ?? /^(\w*Error.*)/m.exec(output) ?? [];
  const [place = ""] = new RegExp(`practice/${basename(file)}[:\\d]*\\d`).exec(output) ?? [];
  if (results.length === 0) fail(`${place}: ${problem ?? "no test ran"}`);
  else if (!hasEnded && results.every(({ ok }) => ok)) fail("The process ended here. Does something call exit?");
  return { results, ms: Date.now() - began };
}

/** Where a reader is: all steps, the one to work on, and how many tests are green. */
export type Progress = { steps: Step[]; current?: Step; failed?: Result; green: number; total: number; run: Run };

/** Runs the tests of the steps up to the first that is not written; when all is green, those of the last stage. */
export async function check(root: string, lesson: Lesson, file: string, limit?: number): Promise<Progress> {
  const steps = stepsOf(lesson);
  const source = readFileSync(file, "utf8");
  const early = steps.slice(0, -1);
  const open = early.find(({ functions }) => functions.some((name) => isOpen(lesson, source, name)));
  const reached = open ? early.slice(0, early.indexOf(open) + 1) : early;
  const testsOf = (some: Step[]) => some.flatMap(({ tests }) => tests);
  let run = await runSuite(root, file, exactly(testsOf(reached)), limit);
  const late = testsOf(steps.slice(-1));
  if (!open && late.length > 0 && run.results.every(({ ok }) => ok)) {
    const second = await runSuite(root, file, exactly(late), limit);
    run = { results: [...run.results, ...second.results], ms: run.ms + second.ms };
  }
  const red = run.results.filter(({ ok }) => !ok);
  const failed = red.find(({ name }) => !open?.tests.includes(name)) ?? red[0]; // first what is written and wrong
  const green = run.results.length - red.length;
  if (!open && !failed) return { steps, green, total: green, run }; // not every system has all tests
  const current = steps.find(({ tests }) => tests.includes(failed?.name ?? "")) ?? reached.at(-1);
  return { steps, current, failed, green, total: testsOf(steps).length, run };
}
