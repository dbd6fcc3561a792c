/**
 * Gives each suite an empty workspace as its current folder, and a strict server. Lessons look at both when they're
 * imported, so a suite imports this file first and then the lessons with `await import(…)`.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, beforeEach, describe, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { build } from "esbuild";
import {
  type Failure,
  type Model,
  type Reply,
  type ReplyBlock,
  type Server,
  scripted,
  startServer,
} from "../tools/api/server.ts";
import { BUNDLE_OPTIONS } from "../tools/lesson/program.ts";

export type Messages = Anthropic.MessageParam[];
/** The turn options that every lesson has. */
type Basics = {
  system: string;
  tools: Anthropic.Tool[];
  approve: (question: string) => Promise<void>;
  signal: AbortSignal;
};

const newFolder = () => realpathSync(mkdtempSync(join(tmpdir(), "lesson-")));
export const folder = newFolder();
process.chdir(folder);
export const emptyWorkspace = () => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
};

const servers: Server[] = [];
/** Starts another strict server with these replies, for tests that run at the same time. */
export async function newServer(...replies: Reply[]): Promise<Server> {
  const server = await startServer({ model: scripted(...replies) });
  servers.push(server);
  return server;
}
for (const name of Object.keys(process.env)) {
  if (name.startsWith("ANTHROPIC_")) delete process.env[name];
}
// Empty rather than deleted, or the .env of whoever runs the tests would set them when a lesson is imported.
for (const name of ["MODEL_ID", "THINKING", "CONTEXT_WINDOW", "COMPACT_THRESHOLD"]) process.env[name] = "";
export const server = await newServer();
Object.assign(process.env, { ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "test-key" });

const expected: RegExp[] = [];
/** A rejected request fails the suite unless a test announces it here, once per rejection. */
export const expectRejection = (message: RegExp) => void expected.push(message);

/** Throws if a request was rejected that no test announced, or if an announced rejection didn't happen. */
export function checkRejections(): void {
  const journals = servers.map(({ journal }) => journal.splice(0));
  const rejected = journals.flat().flatMap(({ status, error }) => (status > 200 && error) || []);
  const surprises = rejected.filter((error) => {
    const i = expected.findIndex((message) => message.test(error));
    return i < 0 || !expected.splice(i, 1);
  });
  assert.deepEqual({ surprises, expected }, { surprises: [], expected: [] }, "what the servers rejected");
}

after(async () => {
  await Promise.all(servers.map((each) => each.close()));
  rmSync(folder, { recursive: true, force: true });
  checkRejections();
});

export const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
export const use = (name: string, input: unknown, id?: string): ReplyBlock => ({ type: "tool_use", name, input, id });
export const call = (...content: ReplyBlock[]): Reply => ({ content });
export const bash = (...commands: string[]): Reply => call(...commands.map((command) => use("bash", { command })));
export const PASS: Failure = { kind: "slow", delay: 0 }; // among failures: lets one request succeed
/** A command that runs until the file `go` appears or the workspace is emptied. */
export const WAIT = "echo begun; touch begun; until [ -e go ] || [ ! -e begun ]; do sleep 0.02; done";
export const user = (content: string): Anthropic.MessageParam => ({ role: "user", content });
export const blocksOf = ({ content }: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []); // a reader's message may lack its content
const resultText = (content: string | { type: string; text?: string }[] = "") =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
/** All tool results in a history, in order. */
export const resultsIn = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => {
    if (block.type !== "tool_result") return [];
    return [{ id: block.tool_use_id, text: resultText(block.content), failed: block.is_error === true }];
  });
/** The user's requests and notes, or the model's answers. */
export const textsIn = (messages: Messages, role: "user" | "assistant" = "user") =>
  messages
    .filter((message) => message.role === role)
    .flatMap(blocksOf)
    .flatMap((block) => (block.type === "text" ? block.text : []));

/** The complete lines of one of s06's transcripts. */
export function entriesIn(file: string) {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}
export const rewritesIn = (file: string) => entriesIn(file).filter(({ type }) => type === "rewrite");
/** The history that a transcript ends with. */
export function historyIn(file: string): Messages {
  const entries = entriesIn(file);
  const last = entries.findLastIndex(({ messages }) => messages);
  return [...(entries[last]?.messages ?? []), ...entries.slice(last + 1).flatMap(({ message }) => message ?? [])];
}

/** What every lesson exports. In s06, turns need a state from `newState`. */
export type Lesson = {
  agentLoop(messages: Messages, options: Basics): Promise<Anthropic.Message>;
  runTurn(messages: Messages, request: string, options: Basics): Promise<void>;
  SYSTEM: string;
  TOOLS: Anthropic.Tool[];
  newState?: () => unknown;
};
type Options<L extends Lesson> = Parameters<L["runTurn"]>[2];

/**
 * Describes a part of several lessons, as in `s01: runCall`. The part is what practice names when a test fails: a function that a
 * reader writes, or another one. LESSON=s03 leaves out all other lessons.
 */
export function onEach<L>(part: string, lessons: Record<string, L>, cases: (lesson: L) => void, options = {}): void {
  for (const [short, lesson] of Object.entries(lessons))
    if ((process.env.LESSON || short) === short) describe(`${short}: ${part}`, options, () => cases(lesson));
}

/** Returns options for a turn. Unless `approve` is given, the answer to every question is yes. */
export function optionsFor<L extends Lesson>(lesson: L, more: Partial<Options<L>> = {}): Options<L> {
  const { signal } = new AbortController();
  const state = lesson.newState?.();
  return { system: lesson.SYSTEM, tools: lesson.TOOLS, approve: async () => {}, signal, state, ...more };
}

/** Runs the work, and returns its value and what it printed, which doesn't reach the screen. */
export async function capture<T>(work: () => T | Promise<T>): Promise<{ value: T; printed: string }> {
  const { write } = process.stdout;
  let printed = "";
  process.stdout.write = (chunk: string | Uint8Array, ...rest: never[]) => {
    if (typeof chunk !== "string") return write.call(process.stdout, chunk, ...rest); // the test runner's own report
    printed += chunk;
    return true;
  };
  try {
    return { value: await work(), printed };
  } finally {
    process.stdout.write = write;
  }
}

let ending = ""; // how the last turn of a test failed, which often explains why an assertion fails later
let trace = ""; // where that error was thrown
beforeEach(() => {
  ending = trace = "";
});
afterEach((t) => {
  const { cause } = Object(Object(t).error); // what the test threw, if it did
  if (cause instanceof Error) Object.assign(cause, { message: cause.message + ending, stack: cause.stack + trace });
});
/** Does the work while the model gives these replies. Returns what it prints, sends and throws, and the model's last reply. */
export async function watch<T>(model: Model, work: () => T | Promise<T>) {
  server.model = model;
  const before = server.journal.length;
  let error: string | undefined;
  const { value, printed } = await capture(async () => {
    try {
      return await work();
    } catch (thrown) {
      error = String(thrown);
      ending = `\n\nthe turn ended with: ${error}`;
      trace = `\n${Object(thrown).stack}`;
    }
  });
  const sent = server.journal.slice(before).map(({ request }) => request);
  return { value, error, printed, sent };
}

/** The same for work on a history. Also returns the tool results in it. */
async function watchTurn<T>(messages: Messages, replies: Reply[], work: () => Promise<T>) {
  const { value: reply, ...seen } = await watch(scripted(...replies), work);
  return { messages, reply, results: resultsIn(messages), ...seen };
}

type Talk = Partial<Basics> & { messages?: Messages };
/** Carries out a request with runTurn. `messages` is the history so far, which grows in place. */
export function turn(lesson: Lesson, replies: Reply[], talk: Talk & { request?: string } = {}) {
  const { messages = [], request = "go", ...options } = talk;
  return watchTurn(messages, replies, () => lesson.runTurn(messages, request, optionsFor(lesson, options)));
}

/** Carries out a request and presses Ctrl-C while it runs the command WAIT. */
export async function interruptedTurn(lesson: Lesson, replies: Reply[], talk: Talk & { request?: string } = {}) {
  const stop = new AbortController();
  const running = turn(lesson, replies, { ...talk, signal: stop.signal });
  await until(() => existsSync("begun"));
  stop.abort(new Error("interrupted"));
  return running;
}

/** The same as `turn`, but with agentLoop alone. Here `messages` already ends with the request. */
export function loop(lesson: Lesson, replies: Reply[], talk: Talk = {}) {
  const { messages = [user("go")], ...options } = talk;
  return watchTurn(messages, replies, () => lesson.agentLoop(messages, optionsFor(lesson, options)));
}

/** Sends one more request, which shows that the API still accepts the conversation. Returns the prompt. */
export async function goOn(lesson: Lesson, messages: Messages): Promise<Messages> {
  const { error, sent } = await loop(lesson, [say("still here")], { messages: [...messages, user("and now?")] });
  assert.equal(error, undefined, "the API accepts the conversation");
  return sent[0]?.messages ?? [];
}

/** Waits until something is true and all earlier output has been read. Throws if that takes suspiciously long. */
export async function until(isSo: () => boolean): Promise<void> {
  const end = Date.now() + 300_000;
  while (!isSo()) {
    assert.ok(Date.now() < end, `waited in vain: ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await new Promise((resolve) => setImmediate(resolve));
}

/** Whether a process exists and isn't a zombie. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc") || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

const programs = new Map<string, Promise<string>>();
after(async () => {
  for (const program of await Promise.all(programs.values()))
    rmSync(dirname(dirname(program)), { recursive: true, force: true });
});
/** Bundles a lesson into `<folder>/agents/<lesson>.mjs`, so that the .env it loads is `<folder>/.env`. */
async function programOf(lesson: string, dotEnv: string | undefined): Promise<string> {
  const above = newFolder();
  const outfile = join(above, "agents", `${lesson}.mjs`);
  const source = fileURLToPath(import.meta.resolve(`../agents/${lesson}.ts`)); // in practice, the reader's
  if (dotEnv !== undefined) writeFileSync(join(above, ".env"), dotEnv);
  await build({ ...BUNDLE_OPTIONS, entryPoints: [source], outfile, minifyWhitespace: true });
  return outfile;
}

/** Why tests that need a terminal are skipped, or false. The terminal is `script` from util-linux. */
export const noTerminal: string | false =
  process.platform === "linux" && existsSync("/usr/bin/script") ? false : "needs script from util-linux";
type Setting = {
  replies?: Reply[];
  failures?: Failure[];
  input?: string;
  env?: NodeJS.ProcessEnv;
  /** Files in the workspace. */
  files?: Record<string, string>;
  /** The .env in the folder above the lesson. Without it, there is none. */
  dotEnv?: string;
  terminal?: boolean;
  /** Makes a shell line of the command, such as `${agent} | head -1`. It runs with `pipefail`. */
  shell?: (agent: string) => string;
};

/** Starts a lesson as a process with its own folder and server. Without `input`, stdin stays open. */
export async function start(t: TestContext, lesson: string, args: string[] = [], setting: Setting = {}) {
  const { replies = [], failures = [], input, env, files = {}, dotEnv, terminal, shell } = setting;
  const cwd = newFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(cwd, dirname(name)), { recursive: true });
    writeFileSync(join(cwd, name), text);
  }
  const own = await newServer(...replies);
  own.fail(...failures);
  const program = programs.get(`${lesson} ${dotEnv}`) ?? programOf(lesson, dotEnv);
  programs.set(`${lesson} ${dotEnv}`, program); // the promise, since another test may need it before it's done
  let command = [process.execPath, await program, ...args];
  const quoted = command.map((word) => `'${word}'`).join(" ");
  if (shell !== undefined) command = ["bash", "-c", `set -o pipefail; ${shell(quoted)}`];
  if (terminal) command = ["/usr/bin/script", "-qec", shell?.(quoted) ?? quoted, "/dev/null"];
  const [name = "", ...words] = command;
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value));
  const colors = { TERM: "xterm", NO_COLOR: undefined, CI: undefined }; // or Node might print no colors
  const variables = { ...inherited, ANTHROPIC_BASE_URL: own.url, ...colors, ...env };
  const child = spawn(name, words, { cwd, env: variables });
  let screen = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      screen += text;
    });
  }
  if (input !== undefined) child.stdin.end(input);
  let isOver = false;
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  ended.then(() => {
    isOver = true;
  });
  t.after(() => {
    child.kill("SIGKILL");
    rmSync(cwd, { recursive: true, force: true });
  });
  let seen = 0;
  /** Waits until this appears on the screen, after what the last call waited for. */
  const waitFor = async (what: string | RegExp) => {
    const find = () => {
      const [found = ""] = typeof what === "string" ? [what] : (what.exec(screen.slice(seen)) ?? []);
      const at = found === "" ? -1 : screen.indexOf(found, seen);
      return at < 0 ? undefined : at + found.length;
    };
    await until(() => find() !== undefined || isOver);
    seen = find() ?? assert.fail(`${what} did not appear:\n${screen}`);
  };
  const type = (keys: string) => child.stdin.write(keys);
  return { child, cwd, journal: own.journal, ended, screen: () => screen, waitFor, type };
}
