/**
 * What every suite runs on: an empty workspace, which is the current folder from now on, and the strict server. Lessons
 * read both when they are imported, so import this first and a lesson with `await import(…)`.
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
import {
  type Failure,
  type Reply,
  type ReplyBlock,
  type Server,
  scripted,
  startServer,
} from "../tools/offline/server.ts";
import { PROGRAM } from "./program.ts";

export type Messages = Anthropic.MessageParam[];
/** What a turn needs in each lesson. */
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
/** A strict server of its own that gives these replies, for tests that run side by side. */
export async function newServer(...replies: Reply[]): Promise<Server> {
  const server = await startServer({ model: scripted(...replies) });
  servers.push(server);
  return server;
}
for (const name of Object.keys(process.env)) {
  if (name.startsWith("ANTHROPIC_")) delete process.env[name];
}
// Empty and not deleted: then a reader's own .env, which a lesson reads when it is imported, does not set them either.
for (const name of ["MODEL_ID", "THINKING", "CONTEXT_WINDOW", "COMPACT_THRESHOLD"]) process.env[name] = "";
export const server = await newServer();
Object.assign(process.env, { ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "test-key" });

const expected: RegExp[] = [];
/** A request that a server rejects fails the suite, unless the test says so with this: once for each rejection. */
export const expectRejection = (message: RegExp) => void expected.push(message);

/** @throws what the servers rejected though no test said so, and what they were to reject and did not */
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
export const user = (content: string): Anthropic.MessageParam => ({ role: "user", content });
export const blocksOf = ({ content }: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []); // a wrong solution may have none
const textOf = (content: string | { type: string; text?: string }[] = "") =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
/** The results in a history, in their order. */
export const resultsIn = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => {
    if (block.type !== "tool_result") return [];
    return [{ id: block.tool_use_id, text: textOf(block.content), failed: block.is_error === true }];
  });
/** The texts that one side says: what the user asks, or what the model answers. Results are none. */
export const textsIn = (messages: Messages, role: "user" | "assistant" = "user") =>
  messages
    .filter((message) => message.role === role)
    .flatMap(blocksOf)
    .flatMap((block) => (block.type === "text" ? block.text : []));
/** A history in one form, whatever form it has: what means the same to the API is equal. */
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

/** What all lessons export. A later one needs more options, and makes what it needs by `newState`. */
export type Lesson = {
  agentLoop(messages: Messages, options: Basics): Promise<void>;
  runTurn(messages: Messages, request: string, options: Basics): Promise<void>;
  SYSTEM: string;
  TOOLS: Anthropic.Tool[];
  newState?: () => unknown;
};
type Options<L extends Lesson> = Parameters<L["runTurn"]>[2];
type Body = (t: TestContext) => void | Promise<void>;
type Case = (name: string, body: Body) => void;
const { PRACTICE, PRACTICE_PATIENCE = 120_000 } = process.env; // a reader's own version of a lesson, which takes its place
let stepOfTests = "";
let hasFailed = false; // in practice one failure is enough
/** Says for which step of tools/practice/steps.yaml the tests are that follow; "program" is what needs no writing. */
export function step(name: string): void {
  stepOfTests = name;
}

/** A test. In practice those of one lesson run that belong to a step or have a name, if that is asked for. */
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
    t.signal.addEventListener("abort", fail); // it took too long
    try {
      await body(t);
      t.signal.removeEventListener("abort", fail); // which also comes at the end of a test
    } catch (error) {
      fail();
      throw error;
    }
  });
}

/** Runs cases on several lessons. Their names begin with the lesson's: `s01: …`, `s06: …` */
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

/** What a turn needs. Everything is allowed unless `approve` is given. */
export function optionsFor<L extends Lesson>(lesson: L, more: Partial<Options<L>> = {}): Options<L> {
  const { signal } = new AbortController();
  const state = lesson.newState?.();
  return { system: lesson.SYSTEM, tools: lesson.TOOLS, approve: async () => {}, signal, state, ...more };
}

/** What something returns and what it prints meanwhile, which does not reach the screen. */
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

let ended = ""; // how the last turn of a test failed, which says more than what a test then misses
let trace = ""; // where that was thrown
/** What happens while the model gives these replies. `error` is what was thrown. */
async function watch(messages: Messages, replies: Reply[], work: () => Promise<void>) {
  server.model = scripted(...replies);
  const before = server.journal.length;
  const { value: error, printed } = await capture(async () => {
    try {
      await work();
    } catch (thrown) {
      if (thrown instanceof Error) trace = `\n${thrown.stack}`;
      return String(thrown);
    }
  });
  const sent = server.journal.slice(before).map(({ request }) => request);
  const results = resultsIn(messages);
  const open = results.find(({ text }) => text.startsWith("write me"));
  if (open) ended = `a result says: ${open.text}`;
  if (error !== undefined) ended = `the turn ended with: ${error}`;
  return { messages, error, printed, sent, results };
}

type Talk = Partial<Basics> & { maxRounds?: number; messages?: Messages };
/** Carries out a request, after a history that grows in place. */
export function turn(lesson: Lesson, replies: Reply[], talk: Talk & { request?: string } = {}) {
  const { messages = [], request = "go", ...options } = talk;
  return watch(messages, replies, () => lesson.runTurn(messages, request, optionsFor(lesson, options)));
}

/** The same without what a turn is besides the loop. The history ends with a request. */
export function loop(lesson: Lesson, replies: Reply[], talk: Talk = {}) {
  const { messages = [user("go")], ...options } = talk;
  return watch(messages, replies, () => lesson.agentLoop(messages, optionsFor(lesson, options)));
}

/** Asks once more, which shows that the API accepts what is left of a conversation. Returns it as it was sent. */
export async function goOn(lesson: Lesson, messages: Messages): Promise<Messages> {
  const { error, sent } = await loop(lesson, [say("still here")], { messages: [...messages, user("and now?")] });
  assert.equal(error, undefined, "the conversation goes on");
  return sent[0]?.messages ?? [];
}

/** Where the source of a lesson is. */
export function sourceOf(lesson: string): string {
  if (PRACTICE?.endsWith(`/${lesson}.ts`)) return PRACTICE;
  return fileURLToPath(new URL(`../agents/${lesson}.ts`, import.meta.url));
}

/** What to import a lesson from, for a copy of its own. */
export function moduleOf(lesson: string): string {
  return new URL(`../agents/${PRACTICE ? "lesson.mjs" : `${lesson}.ts`}`, import.meta.url).href;
}

/** Waits until something is so, and until what was printed before is read. @throws after a minute, in practice sooner */
export async function until(isSo: () => boolean): Promise<void> {
  const end = Date.now() + Number(PRACTICE_PATIENCE) / 2;
  while (!isSo()) {
    assert.ok(Date.now() < end, `waited in vain: ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await new Promise((resolve) => setImmediate(resolve));
}

/** Whether a process is there and no zombie. */
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
/** A lesson in one file without types, at `<folder>/agents/<lesson>.mjs`, so the .env that it reads is `<folder>/.env`. */
async function programOf(lesson: string, dotEnv: string | undefined): Promise<string> {
  const above = newFolder();
  const outfile = join(above, "agents", `${lesson}.mjs`);
  if (dotEnv !== undefined) writeFileSync(join(above, ".env"), dotEnv);
  await build({ ...PROGRAM, entryPoints: [sourceOf(lesson)], outfile, minifyWhitespace: true });
  return outfile;
}

/** A terminal is made by util-linux' script, which not every system has. False, or the reason to skip a test. */
export const noTerminal: string | false =
  process.platform === "linux" && existsSync("/usr/bin/script") ? false : "needs script of util-linux";
type Setting = {
  replies?: Reply[];
  failures?: Failure[];
  input?: string;
  env?: NodeJS.ProcessEnv;
  /** In the workspace. */
  files?: Record<string, string>;
  /** The text of the .env beside the lessons. Default: there is none. */
  dotEnv?: string;
  terminal?: boolean;
  /** A shell line around the command, such as `${agent} | head -1`. Its exit code is the last that is not 0. */
  shell?: (agent: string) => string;
};

/** Starts a lesson as its own process, in a folder and with a server of its own. Without `input` stdin stays open. */
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
  programs.set(`${lesson} ${dotEnv}`, program); // made once: another test may be starting it
  let command = [process.execPath, await program, ...args];
  const quoted = command.map((word) => `'${word}'`).join(" ");
  if (shell !== undefined) command = ["bash", "-c", `set -o pipefail; ${shell(quoted)}`];
  if (terminal) command = ["/usr/bin/script", "-qec", shell?.(quoted) ?? quoted, "/dev/null"];
  const [name = "", ...words] = command;
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value));
  const colors = { TERM: "xterm", NO_COLOR: undefined, CI: undefined }; // Node leaves them out where CI or NO_COLOR is set
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
  /** Waits until something appears after what was waited for before. */
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
