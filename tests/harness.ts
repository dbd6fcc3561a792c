/**
 * What every suite runs on: an empty workspace, which is the current folder from now on, and the strict server. Lessons
 * read both when they are imported, so suites import them afterwards: `const s01 = await import("../agents/…")`.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, mock, type TestContext, test as testOf } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startServer } from "../offline/server.ts";

export const server = await startServer();
process.env.ANTHROPIC_BASE_URL = server.url;
process.env.ANTHROPIC_API_KEY = "test-key";
delete process.env.ANTHROPIC_AUTH_TOKEN;
for (const name of Object.keys(process.env)) {
  if (/^(MODEL_ID|THINKING|CONTEXT_WINDOW|COMPACT_.*)$/.test(name)) delete process.env[name];
}

/** Makes an empty workspace, which is the current folder from now on. */
export function enterWorkspace(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "lesson-")));
  process.chdir(folder);
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
export const folder = enterWorkspace();

/** What is in a folder besides the record that s06 keeps. */
export const filesIn = (folder: string) => readdirSync(folder).filter((name) => name !== ".transcripts");

after(() => server.close());

// --- the cases of a lesson, which the later lessons have to pass, too ----------------------------------------------

/** The lesson whose suite was started. What this file of cases is for, and the ones that it carries over, runs on it. */
export const LESSON = basename(process.argv[1] ?? "", ".test.ts");
export const FILE = fileURLToPath(new URL(`../agents/${LESSON}.ts`, import.meta.url));

/** For a `before` hook: waits until all cases are loaded, each in its workspace, then goes to that of the ones that follow. */
export async function goTo(workspace: string): Promise<void> {
  await import(pathToFileURL(process.argv[1] ?? "").href);
  process.chdir(workspace);
}

let copies = 0;
/** Imports a lesson anew, as another program in the current folder would have it, with these variables in its environment. */
export async function load<Lesson>(lesson: string, env: Record<string, string> = {}): Promise<Lesson> {
  const before = Object.keys(env).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, env);
  const loaded = await import(`../agents/${lesson}.ts?copy=${copies++}`);
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  return loaded;
}
/** The lesson whose suite was started, as the lesson that a case was written for. */
export const underTest = <Lesson>(env?: Record<string, string>): Promise<Lesson> => load(LESSON, env);

/** Cases that do not hold for the lesson whose suite was started, and why; `undefined` once they were met. */
const exceptions = new Map<string, string>();
const met = new Set<string>();

/** A case, or if it is an exception, the proof that it is one: it has to fail. */
export function test(name: string, body: (t: TestContext) => void | Promise<void>): void {
  const reason = exceptions.get(name);
  if (!reason) return void testOf(name, body);
  met.add(name);
  testOf(`${name} (not so here: ${reason})`, async (t) => {
    await assert.rejects(async () => body(t), assert.AssertionError);
  });
}

/**
 * Runs the cases of the lesson before on this one.
 * @param notSo the names of those that do not hold from this lesson on, and why
 */
export async function carryOver(suite: string, notSo: Record<string, string> = {}): Promise<void> {
  if (process.env.CARRIED === "off") return; // a run over mutants asks each lesson's own cases
  for (const [name, reason] of Object.entries(notSo)) exceptions.set(name, reason);
  await import(`./${suite}.test.ts`);
  for (const name of Object.keys(notSo)) assert.ok(met.has(name), `no case has the name of this exception: ${name}`);
}

// --- lessons as programs -------------------------------------------------------------------------------------------

export const TSX = import.meta.resolve("tsx");

export type Ended = { code: number | null; stdout: string; stderr: string };

/**
 * Starts a lesson as its own process, as a person does, in the current folder and without a terminal.
 * @param input what is piped in before the end of input; nothing if left out
 */
export function start(lesson: string, args: string[], env: Record<string, string | undefined> = {}, input = "") {
  const file = fileURLToPath(new URL(`../agents/${lesson}.ts`, import.meta.url));
  const child: ChildProcess = spawn(process.execPath, ["--import", TSX, file, ...args], {
    env: { ...process.env, ...env },
    stdio: "pipe",
  });
  const seen: Ended = { code: null, stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    seen.stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    seen.stderr += text;
  });
  child.stdin?.end(input);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ ...seen, code }));
  });
  return { child, seen, ended };
}

/** What something returns. What it prints meanwhile goes to `print`, not to the screen. */
export async function capture<T>(work: () => T | Promise<T>, print: (text: string) => void): Promise<T> {
  const write = process.stdout.write.bind(process.stdout);
  const silent = mock.method(process.stdout, "write", (chunk: string | Uint8Array) => {
    if (typeof chunk !== "string") return write(chunk); // the test runner's own report
    print(chunk);
    return true;
  });
  try {
    return await work();
  } finally {
    silent.mock.restore();
  }
}

/** Whether a process is there and no zombie. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return error instanceof Error && "path" in error && !existsSync("/proc");
  }
}

/** Waits until something is so; the suite's own time limit ends a wait in vain. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 10));
}
