// fast-check makes up conversations, the loop plays them on the strict server, and each is checked for what must always
// hold. A failure prints the smallest conversation that shows it, and its seed. FC_RUNS sets how many conversations are
// played, and FC_SEED chooses them.

import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { say, user } from "../offline/api/said.ts";
import type { Failure, JournalEntry, Reply, ReplyBlock } from "../offline/api/server.ts";
import { useServer } from "./server.ts";
import { blocksOf, capture, entriesIn, historyIn, type Messages, optionsFor, rewritesIn, textsIn } from "./turn.ts";
import { useWorkspace } from "./workspace.ts";

useWorkspace();
const server = await useServer();
type Lesson = typeof import("../agents/s06_context_compact.ts");

const lessons: Lesson[] = [];
for (const env of [{ COMPACT_THRESHOLD: "2500" }, { COMPACT_THRESHOLD: "6000" }, { CONTEXT_WINDOW: "16000" }, {}]) {
  Object.assign(process.env, { COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "" }, env);
  lessons.push(await import(`../agents/s06_context_compact.ts?copy=${lessons.length}`));
}
const [{ SUMMARY_PROMPT, TRANSCRIPT_DIR } = assert.fail()] = lessons;
const NOTE = "(Stopped here. Whatever ran has taken effect.)";

// --- making up a conversation -----------------------------------------------------------------------------------------

/** A text: a unit and how often it's repeated. */
type Words = [unit: string, times: number];
const spell = ([unit, times]: Words) => unit.repeat(times);
const UNITS = [
  "x",
  "a line of output\n",
  "把它建好。",
  "😀",
  " \n",
  "\0\u2028",
  "Output too large. Saved to: .transcripts/outputs/other.txt\n",
  "[Previous: used bash]",
  "[Conversation compressed. Transcript: x]\n\n",
];
const words = (max: number): fc.Arbitrary<Words> => fc.tuple(fc.constantFrom(...UNITS), fc.nat(max));
/** Makes a value about once in `often` + 1 times. */
const rarely = <T>(often: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: often, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

type Made<A> = A extends fc.Arbitrary<infer T> ? T : never;
type Call = { name: string; input: unknown };
const path = fc.constantFrom("f0", "f1", "f2", "none");
const call: fc.Arbitrary<Call> = fc.oneof(
  { weight: 8, arbitrary: path.map((path) => ({ name: "read_file", input: { path } })) },
  words(20).map((content) => ({ name: "write_file", input: { path: "w", content: spell(content) } })),
  path.map((path) => ({ name: "edit_file", input: { path, old_text: "x", new_text: "y" } })),
  words(5).map((text) => ({ name: "todo", input: { items: [{ text: spell(text), status: "in_progress" }] } })),
  words(5).map((prompt) => ({ name: "task", input: { prompt: spell(prompt) } })),
  fc.constantFrom({}, { focus: "names" }, { focus: 1 }).map((input) => ({ name: "compact", input })),
  fc.constantFrom({}, { command: "exit 3" }).map((input) => ({ name: "bash", input })),
  fc.constant({ name: "no_such_tool", input: {} }),
);
const block: fc.Arbitrary<ReplyBlock> = fc.oneof(
  { weight: 9, arbitrary: call.map((call): ReplyBlock => ({ type: "tool_use", ...call })) },
  { weight: 2, arbitrary: words(60).map((text): ReplyBlock => ({ type: "text", text: spell(text) })) },
  { weight: 2, arbitrary: words(100).map((text): ReplyBlock => ({ type: "thinking", thinking: spell(text) })) },
  fc.constant<ReplyBlock>({ type: "redacted_thinking" }),
);

/** Three in a row fail the request, because the SDK tries three times. */
const overload = (status: 429 | 529, times: number): Failure[] =>
  Array(times).fill({ kind: "status", status, retryAfter: 0.001 });
const failures = rarely(
  6,
  fc.constantFrom<Failure[]>(
    [{ kind: "status", status: 400 }],
    [{ kind: "status", status: 400, message: "Your credit balance is too low to access the API." }],
    [{ kind: "status", status: 401 }],
    [{ kind: "status", status: 413 }],
    overload(429, 3),
    overload(529, 1),
    overload(529, 3),
    [{ kind: "drop" }],
    [{ kind: "error_event" }],
    [{ kind: "error_event", status: 400 }],
    [{ kind: "error_event", status: 413 }],
    [{ kind: "max_tokens" }],
    [{ kind: "context_window" }],
    [{ kind: "refusal" }],
  ),
);
/** A reply, and the failures of the calls after it. */
const said = (content: fc.Arbitrary<ReplyBlock[]>) => fc.record({ content, failures });
type Said = Made<ReturnType<typeof said>>;
const replies = (most: number) => fc.array(said(fc.array(block, { maxLength: 5 })), { maxLength: most });
const summary = fc.oneof(
  { weight: 6, arbitrary: said(words(10).map((text) => [{ type: "text", text: `A summary. ${spell(text)}` }])) },
  said(fc.array(block, { maxLength: 2 })),
);

const shared = {
  failures,
  summaries: fc.array(summary, { maxLength: 3 }),
  window: fc.oneof({ weight: 2, arbitrary: fc.constant(200_000) }, fc.integer({ min: 2_200, max: 9_000 })),
  stop: rarely(3, fc.nat(10)), // Ctrl-C at this model call or question
};
const talk = { kind: fc.constant("request" as const), text: words(200), replies: replies(7), children: replies(2) };
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ ...talk, ...shared }) },
  fc.record({ kind: fc.constant("compact" as const), ...shared }),
  // The program crashes, and this many bytes of the transcript are lost.
  fc.record({ kind: fc.constant("resume" as const), torn: fc.oneof(fc.constant(0), fc.nat(400)) }),
  fc.record({ kind: fc.constant("disk" as const), isFull: fc.boolean() }), // a full disk writes half of each line
);
type Step = Made<typeof step>;
const script = fc.record({
  lesson: fc.nat(lessons.length - 1),
  files: fc.tuple(words(100), words(400), words(3_000)),
  steps: fc.array(step, { minLength: 1, maxLength: 6 }),
});

// --- playing a conversation -----------------------------------------------------------------------------------------

type Options = ReturnType<typeof optionsFor<Lesson>>;
const isSummary = ({ messages }: Anthropic.MessageCreateParams) =>
  textsIn(messages.slice(-1)).some((text) => text.startsWith(SUMMARY_PROMPT.slice(0, 40)));
const isChild = ({ system }: Anthropic.MessageCreateParams) => String(system).startsWith("You are a subagent");
/** Requests can't be blank. */
const requestOf = (text: Words) => spell(text).trim() || "go on";
/** The queued failures end before this model call, counted as in the server's journal. */
let failsUntil = 0;

function fail(failures: Failure[] = []) {
  server.fail(...failures);
  failsUntil = Math.max(failsUntil, server.journal.length) + failures.length;
}

type Talk = { kind: "request" | "compact" };
/** Runs a turn or /compact. Returns what was printed and the turn's error. Throws errors that only a bug can cause. */
async function carryOut(lesson: Lesson, messages: Messages, step: Extract<Step, Talk>, base: Options) {
  const end = new AbortController();
  const options = { ...base, signal: end.signal };
  const { replies, children } = step.kind === "request" ? step : { replies: [], children: [] };
  const left = { summaries: [...step.summaries], children: [...children], replies: [...replies] };
  let moments = 0;
  const pass = () => {
    if (moments++ === step.stop) end.abort(new Error("interrupted"));
  };
  options.approve = async () => {
    pass();
    end.signal.throwIfAborted();
  };
  server.contextLimit = step.window;
  server.model = (request): Reply => {
    pass();
    const next: Said | undefined =
      left[isSummary(request) ? "summaries" : isChild(request) ? "children" : "replies"].shift();
    fail(next?.failures);
    return next ?? say("fine");
  };
  fail(step.failures);
  const work = () =>
    step.kind === "compact"
      ? lesson.autoCompact(messages, "manual", options)
      : lesson.runTurn(messages, requestOf(step.text), options);
  const { value: error, printed } = await capture(() => work().catch((thrown: unknown) => thrown));
  for (const bug of [TypeError, ReferenceError, RangeError, assert.AssertionError])
    if (error instanceof bug) throw error;
  return { printed, error };
}

let isFull = false;
const { appendFileSync } = fs;
fs.appendFileSync = (file, data, ...rest) => {
  if (!isFull) return appendFileSync(file, data, ...rest);
  appendFileSync(file, data.slice(0, data.length / 2), ...rest);
  throw new Error("ENOSPC: no space left on device");
};

/** Sends a request that fails only if the history isn't valid. */
async function assertAccepted({ SYSTEM, TOOLS }: Lesson, messages: Messages) {
  const { contextLimit } = server;
  server.contextLimit = Number.POSITIVE_INFINITY;
  server.model = () => say("fine");
  const body = {
    model: "claude-m",
    max_tokens: 100,
    thinking: { type: "adaptive", display: "summarized" },
    system: SYSTEM,
    tools: TOOLS,
    messages: [...messages, user("next")],
  };
  const headers = { "content-type": "application/json", "x-api-key": "test", "anthropic-version": "2023-06-01" };
  const response = await fetch(`${server.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 200, await response.text());
  server.contextLimit = contextLimit;
}

const transcripts = (dir = TRANSCRIPT_DIR) =>
  (fs.existsSync(dir) ? fs.readdirSync(dir) : [])
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(dir, name));
const json = (value: unknown) => JSON.stringify(value);

/** A conversation while it's played. */
type Played = {
  lesson: Lesson;
  options: Options;
  messages: Messages;
  open: string[]; // requests since the last final reply, and the notes that they were stopped
  crashed: ReturnType<typeof entriesIn>; // what the transcripts had before a crash
  known: Set<string>; // what was in the history while the transcript could be written
};

/** Plays a conversation, and checks after each step what must hold. */
async function play({ lesson: number, files, steps }: Made<typeof script>) {
  const lesson = lessons[number] ?? assert.fail();
  lesson.TODO.items = [];
  fs.rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
  isFull = false;
  for (const [i, text] of files.entries()) fs.writeFileSync(`f${i}`, spell(text));
  const played = { lesson, options: optionsFor(lesson), messages: [], open: [], crashed: [], known: new Set<string>() };
  for (const step of steps) await playStep(played, step);
  checkDisk(played);
  isFull = false;
  await checkNext(played, steps.length % 2 === 0);
  server.journal.length = failsUntil = 0;
}

async function playStep(played: Played, step: Step) {
  const from = server.journal.length;
  const rewrites = rewritesIn(played.options.state.file).length;
  if (step.kind === "disk") isFull = step.isFull;
  else if (step.kind === "resume") await crashAndResume(played, step.torn);
  else await talkOn(played, step);
  const { lesson, messages, options, open, known } = played;
  assert.deepEqual(openIn(messages), open, "the requests since the last final reply");
  const entries = server.journal.slice(from);
  while (failsUntil > server.journal.length) await assertAccepted(lesson, []).catch(() => {}); // uses up the failures
  checkRequests(entries);
  await assertAccepted(lesson, messages);
  if (options.state.transcriptEnded) return;
  assert.deepEqual(historyIn(options.state.file), JSON.parse(json(messages)), "the transcript");
  if (step.kind === "request") checkCache(entries, rewritesIn(options.state.file).length - rewrites);
  const sent = entries.filter(({ request }) => !isSummary(request)).flatMap(({ request }) => request.messages);
  for (const message of [...sent, ...messages]) known.add(essence(message));
}

/** The program ends without its last `torn` bytes on the disk, and starts again. */
async function crashAndResume(played: Played, torn: number) {
  const { lesson, crashed } = played;
  const { file, transcriptEnded } = played.options.state;
  const whole = fs.existsSync(file) ? fs.readFileSync(file) : Buffer.alloc(0);
  const left = whole.subarray(0, -torn || undefined);
  if (!left.includes("\n")) return;
  crashed.push(...entriesIn(file));
  fs.rmSync(file); // the new one may begin in the same millisecond
  fs.writeFileSync("old.jsonl", left);
  played.options = optionsFor(lesson);
  played.messages = (await capture(() => lesson.resume("old.jsonl", played.options))).value;
  if (torn > 0 || transcriptEnded) played.open = openIn(played.messages);
  assert.equal(played.open.at(-1) ?? NOTE, NOTE, "what was cut off is marked as stopped");
}

async function talkOn(played: Played, step: Extract<Step, Talk>) {
  const { lesson, messages, options, open } = played;
  const { state } = options;
  const from = server.journal.length;
  const wasEnded = state.transcriptEnded;
  const { printed, error } = await carryOut(lesson, messages, step, options);
  if (state.transcriptEnded && !wasEnded) assert.match(printed, /ENOSPC/, "the user is told");
  if (step.kind === "request")
    played.open = checkOpen(open, requestOf(step.text), error, server.journal.slice(from), messages);
}

// --- what must hold -------------------------------------------------------------------------------------------------

/** The server rejected only what it was told to reject, and prompts that were too long. */
function checkRequests(entries: JournalEntry[]) {
  for (const { status, error = "" } of entries) {
    assert.ok(status !== 400 || /^(Bad request|Your credit|prompt is too long)/.test(error), error);
    assert.notEqual(status, 500, error);
  }
}

/** Returns the requests since the last final reply, and the notes that they were stopped. */
function openIn(messages: Messages): string[] {
  const isFinal = (message: Anthropic.MessageParam) =>
    message.role === "assistant" && blocksOf(message).every(({ type }) => type !== "tool_use");
  const later = messages.slice(messages.findLastIndex(isFinal) + 1);
  return later.flatMap(({ content }) => (typeof content === "string" ? [content] : []));
}

/** Each prompt of a turn has all open requests, word for word. Returns those that are still open afterwards. */
function checkOpen(open: string[], request: string, error: unknown, entries: JournalEntry[], messages: Messages) {
  for (const { messages } of promptsIn(entries)) assert.deepEqual(openIn(messages), [...open, request]);
  if (error === undefined) return [];
  if (/request is too long|refused/.test(`${error}`)) return open;
  const { status, type } = Object(error);
  const isBad = [400, 413].includes(status) || ["invalid_request_error", "request_too_large"].includes(type);
  const isRejected = isBad && !/credit/.test(`${error}`);
  if (!isRejected) return [...open, request, NOTE];
  const left = openIn(messages); // the unseen part was dropped
  const requests = (texts: string[]) => texts.filter((text) => text !== NOTE);
  assert.deepEqual(requests(left), requests([...open, request]).slice(0, requests(left).length));
  assert.equal(left.at(-1) ?? NOTE, NOTE);
  return left;
}

const promptsIn = (entries: JournalEntry[]) =>
  entries.map(({ request }) => request).filter((request) => !isChild(request) && !isSummary(request));

/** Each prompt begins with the one before it, which is cached, unless the history was rewritten. */
function checkCache(entries: JournalEntry[], rewrites: number) {
  const texts = promptsIn(entries).map(({ messages }) => json(messages));
  const broken = texts.filter((text, i) => i > 0 && !text.startsWith(texts[i - 1]?.slice(0, -1) ?? ""));
  assert.ok(broken.length <= rewrites, `${broken.length} prompts begin differently, after ${rewrites} rewrites`);
}

/** Returns the part of a message that no rewrite changes. */
function essence(message: Anthropic.MessageParam): string {
  const blocks = blocksOf(message).flatMap((block): unknown[] => {
    if (block.type === "thinking") return block.thinking.trim() ? [block.thinking] : [];
    if (block.type === "text") return [block.text];
    if (block.type === "tool_result") return [block.tool_use_id];
    return block.type === "tool_use" ? [block.id, block.input] : [];
  });
  return json([message.role, blocks]);
}

/** Every message that was ever in the history is in a transcript. */
function checkDisk({ known, crashed }: Played) {
  const files = [...transcripts(), ...transcripts(join(TRANSCRIPT_DIR, "tasks"))];
  const onDisk = new Set<string>();
  for (const entry of [...files.flatMap(entriesIn), ...crashed]) {
    for (const message of entry.messages ?? [entry.message ?? []].flat()) onDisk.add(essence(message));
  }
  for (const message of known) assert.ok(onDisk.has(message), message);
}

/** Returns the shortest form of a history: no thinking, no old results, and new results on disk. */
const shortest = ({ microCompact, withoutThinking }: Lesson, messages: Messages) =>
  JSON.stringify(microCompact(messages.map(withoutThinking), 0), (_, value) => {
    const isResult = value?.type === "tool_result";
    return isResult ? { ...value, content: String(value.content).slice(0, 3_100) } : value;
  });

/** The next request succeeds if the window has room for it. Otherwise the user is told what helps. */
async function checkNext({ lesson, messages, options }: Played, isTight: boolean) {
  const base = json([lesson.SYSTEM, lesson.TOOLS]).length / 3;
  const files = options.state.files.map((file) => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : ""));
  const needed = base + (shortest(lesson, messages) + files.join()).length / 3 + 500;
  server.contextLimit = isTight ? base + 1_000 : needed;
  server.model = (request) => say(isSummary(request) ? "A summary." : "fine");
  let failed = "";
  const { printed } = await capture(() =>
    lesson.runTurn(messages, "and now?", options).catch((error) => {
      failed = String(error);
    }),
  );
  if (failed === "") return;
  assert.ok(isTight, `${needed} tokens are enough: ${failed}`);
  assert.match(printed, /CONTEXT_WINDOW.*\/clear/, "what helps");
}

test("whatever happens to a conversation, it stays valid, no request or message is lost, and it goes on", async () => {
  const runs = { numRuns: Number(process.env.FC_RUNS || 25), seed: Number(process.env.FC_SEED || 20261120) };
  await fc.assert(fc.asyncProperty(script, play), { ...runs, includeErrorInReport: true });
});
