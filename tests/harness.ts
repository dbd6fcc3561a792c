/**
 * Every suite runs in an empty workspace, which becomes the current folder, and against the strict server. Lessons look at
 * both when they are imported, so import this file first, and then the lesson with `await import(…)`.
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
import { basename, dirname, join } from "node:path";
import { after, type TestContext, test as testOfNode } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { build } from "esbuild";
import { type Failure, type Reply, type ReplyBlock, type Server, scripted, startServer } from "../tools/api/server.ts";
import { PROGRAM } from "../tools/lesson/program.ts";

export type Messages = Anthropic.MessageParam[];
/** The options of a turn that all lessons share. */
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
/** Starts another strict server that gives these replies, for tests that run side by side. */
export async function newServer(...replies: Reply[]): Promise<Server> {
  const server = await startServer({ model: scripted(...replies) });
  servers.push(server);
  return server;
}
for (const name of Object.keys(process.env)) {
  if (name.startsWith("ANTHROPIC_")) delete process.env[name];
}
// Emptied rather than deleted, so that a reader's own .env doesn't set them when a lesson is imported.
for (const name of ["MODEL_ID", "THINKING", "CONTEXT_WINDOW", "COMPACT_THRESHOLD"]) process.env[name] = "";
export const server = await newServer();
Object.assign(process.env, { ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "test-key" });

const expected: RegExp[] = [];
/** Any request that a server rejects fails the suite, unless the test announces it here, once for each rejection. */
export const expectRejection = (message: RegExp) => void expected.push(message);

/** Throws if the servers rejected a request that no test announced, or accepted one that a test did announce. */
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
  if (!hasFailed) checkRejections();
});

export const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
export const use = (name: string, input: unknown, id?: string): ReplyBlock => ({ type: "tool_use", name, input, id });
export const call = (...content: ReplyBlock[]): Reply => ({ content });
export const bash = (...commands: string[]): Reply => call(...commands.map((command) => use("bash", { command })));
export const PASS: Failure = { kind: "slow", delay: 0 }; // lets a request succeed when only a later one should fail
/** A command that runs until there is a file `go`, or until the workspace is emptied. */
export const WAIT = "echo begun; touch begun; until [ -e go ] || [ ! -e begun ]; do sleep 0.02; done";
export const user = (content: string): Anthropic.MessageParam => ({ role: "user", content });
export const blocksOf = ({ content }: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []); // a reader's may have no content
const textOf = (content: string | { type: string; text?: string }[] = "") =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
/** All tool results in a history, in order. */
export const resultsIn = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => {
    if (block.type !== "tool_result") return [];
    return [{ id: block.tool_use_id, text: textOf(block.content), failed: block.is_error === true }];
  });
/** The texts of one side: the requests and notes of the user, or the answers of the model. Tool results don't count. */
export const textsIn = (messages: Messages, role: "user" | "assistant" = "user") =>
  messages
    .filter((message) => message.role === role)
    .flatMap(blocksOf)
    .flatMap((block) => (block.type === "text" ? block.text : []));
/** Brings a history into one form, so that two that mean the same to the API are equal. */
export const plain = (messages: Messages) =>
  messages.map((message) => ({
    role: message.role,
    blocks: blocksOf(message).map((block) => {
      if (block.type === "text") return { type: "text", text: block.text };
      return block.type === "tool_result"
        ? { type: "tool_result", ...resultsIn([{ role: "user", content: [block] }])[0] }
        : block;
    }),
  }));

/** What all lessons export. In s06 a turn also needs the state that `newState` returns. */
export type Lesson = {
  agentLoop(messages: Messages, options: Basics): Promise<Anthropic.Message>;
  runTurn(messages: Messages, request: string, options: Basics): Promise<void>;
  SYSTEM: string;
  TOOLS: Anthropic.Tool[];
  newState?: () => unknown;
};
type Options<L extends Lesson> = Parameters<L["runTurn"]>[2];
type Body = (t: TestContext) => void | Promise<void>;
type Case = (name: string, body: Body) => void;
/** A reader's own version of a lesson to test instead of ours, and how long a test may take, in ms, before it counts as hung. */
const { PRACTICE, PRACTICE_PATIENCE = 600_000 } = process.env;
let stepOfTests = "";
let hasFailed = false; // in practice, one failure is enough
/** Names the step of tools/practice/steps.yaml that the next tests grade. Nobody has to write what "program" covers. */
export function step(name: string): void {
  stepOfTests = name;
}

/** Defines a test. In practice, only those of the reader's lesson run, and only those of one step or one name if asked. */
export function test(name: string, ...rest: [Body] | [options: { skip: string | false }, Body]): void {
  const [options, body] = rest.length === 2 ? rest : [{}, rest[0]];
  if (!PRACTICE) return void testOfNode(name, options, body);
  const { PRACTICE_STEP, PRACTICE_TEST } = process.env;
  const [lesson = ""] = /^s\d\d(?=: )/.exec(name) ?? [];
  const isAsked = PRACTICE_TEST ? PRACTICE_TEST === name : [undefined, stepOfTests].includes(PRACTICE_STEP);
  if (!isAsked || !basename(PRACTICE).startsWith(lesson)) return;
  void testOfNode(name, { ...options, timeout: Number(PRACTICE_PATIENCE) }, async (t) => {
    if (hasFailed) return t.skip();
    const fail = () => {
      hasFailed = true;
    };
    t.signal.addEventListener("abort", fail); // it hangs
    try {
      await body(t);
      t.signal.removeEventListener("abort", fail); // it is also aborted after the test
    } catch (error) {
      fail();
      throw error;
    }
  });
}

/** Defines the same tests for several lessons. Their names begin with that of the lesson, as in `s01: …`. */
export function onEach<L>(lessons: Record<string, L>, cases: (lesson: L, test: Case) => void): void {
  for (const [short, lesson] of Object.entries(lessons)) {
    cases(lesson, (name, body) => {
      test(`${short}: ${name}`, async (t) => {
        [ended, trace] = ["", ""];
        try {
          await body(t);
        } catch (error) {
          if (ended && error instanceof Error) error.message += `\n\n${ended}`;
          if (trace && error instanceof Error) error.stack += trace;
          throw error;
        }
      });
    });
  }
}

/** Returns options for a turn in which every question is answered with yes, unless `approve` is given. */
export function optionsFor<L extends Lesson>(lesson: L, more: Partial<Options<L>> = {}): Options<L> {
  const { signal } = new AbortController();
  const state = lesson.newState?.();
  return { system: lesson.SYSTEM, tools: lesson.TOOLS, approve: async () => {}, signal, state, ...more };
}

/** Keeps what is printed meanwhile from the screen, and returns it with the value. */
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

let ended = ""; // how the last turn of a test failed, which often explains why an assertion fails later
let trace = ""; // where that error was thrown
/** Does the work while the model gives these replies, and returns all that can be seen from outside. */
async function watch<T>(messages: Messages, replies: Reply[], work: () => Promise<T>) {
  server.model = scripted(...replies);
  const before = server.journal.length;
  let error: string | undefined;
  const { value: reply, printed } = await capture(async () => {
    try {
      return await work();
    } catch (thrown) {
      if (thrown instanceof Error) trace = `\n${thrown.stack}`;
      error = String(thrown);
    }
  });
  const sent = server.journal.slice(before).map(({ request }) => request);
  const results = resultsIn(messages);
  const open = results.find(({ text }) => text.startsWith("write me"));
  if (open) ended = `a result says: ${open.text}`;
  if (error !== undefined) ended = `the turn ended with: ${error}`;
  return { messages, reply, error, printed, sent, results };
}

type Talk = Partial<Basics> & { messages?: Messages };
/** Carries out a request with runTurn. `messages` is the history before it, and grows in place. */
export function turn(lesson: Lesson, replies: Reply[], talk: Talk & { request?: string } = {}) {
  const { messages = [], request = "go", ...options } = talk;
  return watch(messages, replies, () => lesson.runTurn(messages, request, optionsFor(lesson, options)));
}

/** The same with agentLoop alone: here `messages` ends with the request. */
export function loop(lesson: Lesson, replies: Reply[], talk: Talk = {}) {
  const { messages = [user("go")], ...options } = talk;
  return watch(messages, replies, () => lesson.agentLoop(messages, optionsFor(lesson, options)));
}

/** Sends one more request, to show that the API accepts what is left of a conversation. Returns the prompt. */
export async function goOn(lesson: Lesson, messages: Messages): Promise<Messages> {
  const { error, sent } = await loop(lesson, [say("still here")], { messages: [...messages, user("and now?")] });
  assert.equal(error, undefined, "the API accepts the conversation");
  return sent[0]?.messages ?? [];
}

/** The path of a lesson's source. */
export function sourceOf(lesson: string): string {
  if (PRACTICE?.endsWith(`/${lesson}.ts`)) return PRACTICE;
  return fileURLToPath(new URL(`../agents/${lesson}.ts`, import.meta.url));
}

/** The URL to import a lesson from for a second copy of the module. */
export function moduleOf(lesson: string): string {
  return new URL(`../agents/${PRACTICE ? "lesson.mjs" : `${lesson}.ts`}`, import.meta.url).href;
}

/** Waits for a fact, and then until whatever was printed before has been read. Throws only if it seems to hang. */
export async function until(isSo: () => boolean): Promise<void> {
  const end = Date.now() + Number(PRACTICE_PATIENCE) / 2;
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
  if (dotEnv !== undefined) writeFileSync(join(above, ".env"), dotEnv);
  await build({ ...PROGRAM, entryPoints: [sourceOf(lesson)], outfile, minifyWhitespace: true });
  return outfile;
}

/** The reason to skip a test that needs a terminal, or false. A terminal takes `script` of util-linux. */
export const noTerminal: string | false =
  process.platform === "linux" && existsSync("/usr/bin/script") ? false : "needs script of util-linux";
type Setting = {
  replies?: Reply[];
  failures?: Failure[];
  input?: string;
  env?: NodeJS.ProcessEnv;
  /** Files in the workspace. */
  files?: Record<string, string>;
  /** The text of the .env in the folder above the lesson. By default there is none. */
  dotEnv?: string;
  terminal?: boolean;
  /** Returns a shell line that contains the command, such as `${agent} | head -1`. It runs with `pipefail`. */
  shell?: (agent: string) => string;
};

/** Starts a lesson as a process in its own folder, with its own server. Without `input`, stdin stays open. */
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
  programs.set(`${lesson} ${dotEnv}`, program); // a promise, since another test may start it meanwhile
  let command = [process.execPath, await program, ...args];
  const quoted = command.map((word) => `'${word}'`).join(" ");
  if (shell !== undefined) command = ["bash", "-c", `set -o pipefail; ${shell(quoted)}`];
  if (terminal) command = ["/usr/bin/script", "-qec", shell?.(quoted) ?? quoted, "/dev/null"];
  const [name = "", ...words] = command;
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value));
  const colors = { TERM: "xterm", NO_COLOR: undefined, CI: undefined }; // else Node prints no colors under CI or NO_COLOR
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
  /** Waits until something appears on the screen, after whatever was waited for before. */
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
