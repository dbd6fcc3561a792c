/** Drives turns of a lesson in this process, on the server of server.ts, and reads what they leave. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, describe } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { contentBlocks, say, user } from "../offline/api/said.ts";
import { type Model, type Reply, scripted } from "../offline/api/server.ts";
import { server } from "./server.ts";

export type Messages = Anthropic.MessageParam[];
/** The turn options that every lesson has. */
type Basics = {
  system: string;
  tools: Anthropic.Tool[];
  approve: (question: string) => Promise<void>;
  signal: AbortSignal;
};
/** What every lesson exports. In s06, turns need a state from `newState`. */
export type Lesson = {
  agentLoop(messages: Messages, options: Basics): Promise<Anthropic.Message>;
  runTurn(messages: Messages, request: string, options: Basics): Promise<void>;
  SYSTEM: string;
  TOOLS: Anthropic.Tool[];
  newState?: () => unknown;
};
let copies = 0;
/** Imports a lesson once more, such as agents/s01_agent_loop.ts, with these environment variables. */
export async function load<L = Lesson>(file: string, env: NodeJS.ProcessEnv = {}): Promise<L> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await import(`../${file}?copy=${copies++}`);
  } finally {
    for (const name of Object.keys(env)) process.env[name] = before[name] ?? "";
  }
}
type Options<L extends Lesson> = Parameters<L["runTurn"]>[2];

// --- groups of tests -------------------------------------------------------------------------------------------------

let ending = ""; // how the last turn of a test failed, which often explains why an assertion fails later
let trace = ""; // where that error was thrown

/**
 * Describes a part of several lessons, as in `s01: runCall`. The part is what practice names when a test fails: a function
 * that a reader writes, or another one. LESSON=s03 leaves out all other lessons.
 */
export function onEach<L>(part: string, lessons: Record<string, L>, cases: (lesson: L) => void, options = {}): void {
  for (const [short, lesson] of Object.entries(lessons)) {
    if ((process.env.LESSON || short) !== short) continue;
    describe(`${short}: ${part}`, options, () => {
      beforeEach(() => {
        ending = trace = "";
      });
      cases(lesson);
      afterEach((t) => {
        const { cause } = Object(Object(t).error); // what the test threw, if it did
        if (cause instanceof Error)
          Object.assign(cause, { message: cause.message + ending, stack: cause.stack + trace });
      });
    });
  }
}

/** The same for tests that run at the same time, each with a folder and a server of its own, unless there's a reason to skip them. */
export function onEachAtOnce<L>(
  part: string,
  lessons: Record<string, L>,
  skip: string | false,
  cases: (lesson: L) => void,
) {
  onEach(part, lessons, cases, { concurrency: 6, timeout: 600_000, skip });
}

// --- turns -----------------------------------------------------------------------------------------------------------

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

/** Does the work while the model gives these replies. Returns what it returns, prints, sends and throws. */
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

// --- what is in a history --------------------------------------------------------------------------------------------

export const blocksOf = ({ content }: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  contentBlocks(content ?? []); // a reader's message may lack its content
const resultText = (content: string | { type: string; text?: string }[] = "") =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
/** All tool results in a history, in order. */
export const resultsIn = (messages: Messages = []) =>
  messages.flatMap(blocksOf).flatMap((block) => {
    if (block.type !== "tool_result") return [];
    return [{ id: block.tool_use_id, text: resultText(block.content), failed: block.is_error === true }];
  });
/** The texts of a message. */
export const textsOf = (message?: Anthropic.MessageParam) =>
  (message ? blocksOf(message) : []).flatMap((block) => (block.type === "text" ? block.text : []));
/** The user's requests and notes, or the model's answers. */
export const textsIn = (messages: Messages = [], role: "user" | "assistant" = "user") =>
  messages.filter((message) => message.role === role).flatMap(textsOf);

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
