// Conversations that nobody thought of: fast-check makes them up, the loop plays them against the strict server, and what
// has to hold for every conversation is asked of each. A failure prints the smallest conversation that shows it.
// FC_RUNS says how many conversations are tried, FC_SEED which ones: the seed that a failure printed.

import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import type { Failure, JournalEntry, Reply, ReplyBlock } from "../tools/offline/server.ts";
import { blocksOf, capture, optionsFor, say, server, user } from "./harness.ts";

type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

const lessons: Lesson[] = [];
for (const [limit, size] of [
  ["2500", ""],
  ["6000", ""],
  ["", "16000"],
  ["", ""],
]) {
  Object.assign(process.env, { COMPACT_THRESHOLD: limit, CONTEXT_WINDOW: size });
  lessons.push(await import(`../agents/s06_context_compact.ts?copy=${lessons.length}`));
}
const [{ SUMMARY_PROMPT, TRANSCRIPT_DIR } = assert.fail()] = lessons;

// --- what conversations are made of ---------------------------------------------------------------------------------

/** A text as a unit and how often it is repeated, so that a failure prints it short. */
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
/** Once in about `often` + 1 times. */
const rarely = <T>(often: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: often, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

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
type Block = { say: Words } | { note: Words } | "redacted" | Call;
const block: fc.Arbitrary<Block> = fc.oneof(
  { weight: 9, arbitrary: call },
  { weight: 2, arbitrary: fc.record({ say: words(60) }) },
  { weight: 2, arbitrary: fc.record({ note: words(100) }) },
  fc.constant("redacted" as const),
);
function replyBlock(block: Block): ReplyBlock {
  if (block === "redacted") return { type: "redacted_thinking" };
  if ("say" in block) return { type: "text", text: spell(block.say) };
  if ("note" in block) return { type: "thinking", thinking: spell(block.note) };
  return { type: "tool_use", ...block };
}

/** What the model says, and what goes wrong with the request after it. */
type Said = { blocks: Block[]; failure?: Failure };
const FAILURES: Failure[] = [
  { kind: "status", status: 400 },
  { kind: "status", status: 401 },
  { kind: "status", status: 529, retryAfter: 0.001 },
  { kind: "drop" },
  { kind: "error_event" },
  { kind: "max_tokens" },
  { kind: "context_window" },
  { kind: "refusal" },
  { kind: "blank_text" },
];
const said = (blocks: fc.Arbitrary<Block[]>) =>
  fc.record({ blocks, failure: rarely(8, fc.constantFrom(...FAILURES)) }, { requiredKeys: ["blocks"] });
const reply = said(fc.array(block, { maxLength: 5 }));
const summary = fc.oneof(
  { weight: 6, arbitrary: words(10).map((say): Said => ({ blocks: [{ say: ["A summary. ", 3] }, { say }] })) },
  said(fc.array(block, { maxLength: 2 })),
);

/**
 * One thing that happens. `stop`: the user interrupts at the n-th request or question. `torn`: bytes the crash took away.
 * `pause`: for so long that the prompt cache is cold. A disk that is full takes half of each line.
 */
type Step =
  | {
      kind: "request";
      text: Words;
      replies: Said[];
      children: Said[];
      summaries: Said[];
      window: number;
      stop?: number;
    }
  | { kind: "compact"; summaries: Said[]; window: number; stop?: number }
  | { kind: "resume"; torn: number }
  | { kind: "pause" }
  | { kind: "disk"; isFull: boolean };
const window = fc.oneof({ weight: 2, arbitrary: fc.constant(200_000) }, fc.integer({ min: 2_200, max: 9_000 }));
const shared = { summaries: fc.array(summary, { maxLength: 3 }), window, stop: rarely(3, fc.nat(10)) };
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      text: words(200),
      replies: fc.array(reply, { maxLength: 7 }),
      children: fc.array(reply, { maxLength: 2 }),
      ...shared,
    }),
  },
  fc.record({ kind: fc.constant("compact" as const), ...shared }),
  fc.record({ kind: fc.constant("resume" as const), torn: fc.oneof(fc.constant(0), fc.nat(400)) }),
  fc.record({ kind: fc.constant("pause" as const) }),
  fc.record({ kind: fc.constant("disk" as const), isFull: fc.boolean() }),
);
type Script = { lesson: number; files: Words[]; steps: Step[] };
const script: fc.Arbitrary<Script> = fc.record({
  lesson: fc.nat(lessons.length - 1),
  files: fc.tuple(words(100), words(400), words(3_000)),
  steps: fc.array(step, { minLength: 1, maxLength: 6 }),
});

// --- playing a conversation -----------------------------------------------------------------------------------------

type Options = ReturnType<typeof optionsFor<Lesson>>;
const textsOf = (message?: Anthropic.MessageParam) =>
  (message ? blocksOf(message) : []).flatMap((block) => (block.type === "text" ? [block.text] : []));
const isSummary = ({ messages }: Anthropic.MessageCreateParams) =>
  textsOf(messages.at(-1)).some((text) => text.startsWith(SUMMARY_PROMPT.slice(0, 40)));
const isChild = ({ system }: Anthropic.MessageCreateParams) => String(system).startsWith("You are a subagent");
/** As the command line takes it: not blank. */
const requestOf = (text: Words) => spell(text).trim() || "go on";
/** How many requests there were when the last failure was queued: it is for the next one. */
let owed = -1;

/** A turn may fail, but not for one of these. */
function assertNotBug(error: unknown) {
  for (const bug of [TypeError, ReferenceError, RangeError, assert.AssertionError]) {
    if (error instanceof bug) throw error;
  }
}

type Talk = { kind: "request" | "compact" };
/** Plays one step. @returns what the user reads @throws what is a bug of the lesson; that a turn is not done is none */
async function carryOut(lesson: Lesson, messages: Messages, step: Extract<Step, Talk>, base: Options) {
  const end = new AbortController();
  const options = { ...base, signal: end.signal };
  const { summaries, ...rest } = step;
  const left = { summaries: [...summaries], children: [] as Said[], replies: [] as Said[] };
  if (rest.kind === "request") Object.assign(left, { children: [...rest.children], replies: [...rest.replies] });
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
    const next = (isSummary(request) ? left.summaries : isChild(request) ? left.children : left.replies).shift();
    if (next?.failure) {
      server.fail(next.failure);
      owed = server.journal.length;
    }
    return next ? { content: next.blocks.map(replyBlock) } : say("fine");
  };
  const work = () =>
    rest.kind === "compact"
      ? lesson.autoCompact(messages, "manual", options)
      : lesson.runTurn(messages, requestOf(rest.text), options);
  return (await capture(() => work().catch(assertNotBug))).printed;
}

let isFull = false;
const { appendFileSync } = fs;
fs.appendFileSync = (file, data, ...rest) => {
  if (!isFull) return appendFileSync(file, data, ...rest);
  appendFileSync(file, data.slice(0, data.length / 2), ...rest);
  throw new Error("ENOSPC: no space left on device");
};

/** A request that always succeeds unless the history is not valid. */
async function assertAccepted({ SYSTEM, TOOLS }: Lesson, messages: Messages) {
  const { contextLimit } = server;
  server.contextLimit = Number.POSITIVE_INFINITY;
  server.model = () => say("fine");
  const body = {
    model: "m",
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

/** Plays a conversation and asks after each step what has to hold. */
async function play({ lesson: number, files, steps }: Script) {
  const lesson = lessons[number] ?? assert.fail();
  lesson.TODO.items = [];
  fs.rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
  isFull = false;
  for (const [i, text] of files.entries()) fs.writeFileSync(`f${i}`, spell(text));
  let options = optionsFor(lesson);
  let messages: Messages = [];
  const crashed: string[] = []; // transcripts as they were before a crash
  const known = new Set<string>(); // what was in the history while it could be written
  for (const step of steps) {
    const from = server.journal.length;
    const { state } = options;
    const rewrites = rewritesIn(state.file);
    if (step.kind === "disk") isFull = step.isFull;
    else if (step.kind === "pause") state.lastCall -= 301_000;
    else if (step.kind === "resume") {
      const whole = fs.existsSync(state.file) ? fs.readFileSync(state.file) : Buffer.alloc(0);
      const left = whole.subarray(0, -step.torn || undefined);
      if (!left.includes("\n")) continue;
      crashed.push(`${whole}`);
      fs.rmSync(state.file); // the new one may begin in the same millisecond
      fs.writeFileSync("old.jsonl", left);
      options = optionsFor(lesson);
      messages = (await capture(() => lesson.resume("old.jsonl", options))).value;
    } else {
      const wasOver = state.isTranscriptOver;
      const printed = await carryOut(lesson, messages, step, options);
      if (state.isTranscriptOver && !wasOver) assert.match(printed, /ENOSPC/, "the user is told");
    }
    const entries = server.journal.slice(from);
    if (owed === server.journal.length) await assertAccepted(lesson, []).catch(() => {}); // meets the failure
    checkRequests(entries);
    if (step.kind === "request") checkRequestStays(entries, requestOf(step.text));
    await assertAccepted(lesson, messages);
    if (options.state.isTranscriptOver) continue;
    checkTranscript(options.state.file, messages);
    if (step.kind === "request") checkCache(entries, rewritesIn(state.file) - rewrites);
    for (const { request } of entries) {
      if (!isSummary(request)) for (const message of request.messages) known.add(essence(message));
    }
    for (const message of messages) known.add(essence(message));
  }
  checkDisk(known, crashed);
  isFull = false;
  await checkNext(lesson, messages, options, steps.length % 2 === 0);
  server.journal.length = 0;
}

// --- what has to hold -----------------------------------------------------------------------------------------------

/** The server rejects nothing but what the script wants it to, and prompts that are too long. */
function checkRequests(entries: JournalEntry[]) {
  for (const { status, error = "" } of entries) {
    assert.ok(status !== 400 || /^(Bad request|prompt is too long)/.test(error), error);
    assert.notEqual(status, 500, error);
  }
}

/** The user's request is in each prompt of its turn, word for word. */
function checkRequestStays(entries: JournalEntry[], request: string) {
  for (const { messages } of entries
    .map((entry) => entry.request)
    .filter((each) => !isChild(each) && !isSummary(each))) {
    const texts = messages.filter(({ role }) => role === "user").flatMap(textsOf);
    assert.ok(texts.includes(request), json(messages));
  }
}

/** Each prompt begins with the one before it, which is cached, unless the history was rewritten. */
function checkCache(entries: JournalEntry[], rewrites: number) {
  const prompts = entries.map(({ request }) => request).filter((each) => !isChild(each) && !isSummary(each));
  const texts = prompts.map(({ messages }) => json(messages));
  const broken = texts.filter((text, i) => i > 0 && !text.startsWith(texts[i - 1]?.slice(0, -1) ?? ""));
  assert.ok(broken.length <= rewrites, `${broken.length} prompts begin in another way, after ${rewrites} rewrites`);
}

/** A message without thinking and without what its results say: the same in any form it takes in a history. */
function essence(message: Anthropic.MessageParam): string {
  const blocks = blocksOf(message).flatMap((block): unknown[] => {
    if (block.type === "thinking") return block.thinking.trim() ? [block.thinking] : [];
    if (block.type === "text") return [block.text];
    if (block.type === "tool_result") return [block.tool_use_id];
    return block.type === "tool_use" ? [block.id, block.input] : [];
  });
  return json([message.role, blocks]);
}

/** The entries of a transcript. Only its last line may be torn. */
const entriesIn = (text: string) =>
  text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const rewritesIn = (file: string) =>
  fs.existsSync(file) ? entriesIn(fs.readFileSync(file, "utf8")).filter(({ type }) => type === "compaction").length : 0;

/** The transcript holds the history as it is: its last compaction, and what came after. */
function checkTranscript(file: string, messages: Messages) {
  const entries = fs.existsSync(file) ? entriesIn(fs.readFileSync(file, "utf8")) : [];
  const last = entries.findLastIndex(({ messages }) => messages);
  const later = entries.slice(last + 1).map(({ message }) => message);
  assert.deepEqual([...(entries[last]?.messages ?? []), ...later], JSON.parse(json(messages)));
}

/** Whatever was in the history is in some transcript. */
function checkDisk(known: Set<string>, crashed: string[]) {
  const files = [...transcripts(), ...transcripts(join(TRANSCRIPT_DIR, "tasks"))];
  const texts = files.map((file) => fs.readFileSync(file, "utf8"));
  const onDisk = new Set<string>();
  for (const entry of [...texts, ...crashed].flatMap(entriesIn)) {
    for (const message of entry.messages ?? [entry.message]) onDisk.add(essence(message));
  }
  for (const message of known) assert.ok(onDisk.has(message), message);
}

/** A history as it is when nothing else helps: without thinking and results, of which the new ones are on disk. */
const shortest = ({ microCompact, withoutThinking }: Lesson, messages: Messages) =>
  JSON.stringify(microCompact(messages.map(withoutThinking), 0), (_, value) =>
    value?.type === "tool_result" ? { ...value, content: String(value.content).slice(0, 3_100) } : value,
  );

/** The next request succeeds if there is room for that, and for a summary and files. If not, the user reads what helps. */
async function checkNext(lesson: Lesson, messages: Messages, options: Options, isTight: boolean) {
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

test("whatever happens to a conversation, it stays valid, nothing is lost, and it goes on", async () => {
  const runs = { numRuns: Number(process.env.FC_RUNS || 25), seed: Number(process.env.FC_SEED || 20261120) };
  await fc.assert(fc.asyncProperty(script, play), { ...runs, includeErrorInReport: true });
});
