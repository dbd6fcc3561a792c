// Conversations that nobody thought of: fast-check makes them up, the loop plays them against the strict server, and what
// has to hold for every conversation is asked of each. A failure prints the smallest conversation that shows it.
// FC_RUNS says how many conversations are tried, FC_SEED which ones: the seed that a failure printed.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import type { Failure, JournalEntry, Reply, ReplyBlock } from "../tools/offline/server.ts";
import { blocksOf, capture, optionsFor, say, server, user } from "./harness.ts";

type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

const lessons: Lesson[] = [];
for (const [i, limit] of ["2500", "6000", ""].entries()) {
  process.env.COMPACT_THRESHOLD = limit;
  lessons.push(await import(`../agents/s06_context_compact.ts?copy=${i}`));
}
const [{ TRANSCRIPT_DIR } = assert.fail()] = lessons;

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

/** One thing that happens. `stop`: the user interrupts at the n-th request or question. `torn`: bytes the crash took away. */
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
  | { kind: "resume"; torn: number };
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
);
type Script = { lesson: number; files: Words[]; steps: Step[] };
const script: fc.Arbitrary<Script> = fc.record({
  lesson: fc.nat(lessons.length - 1),
  files: fc.tuple(words(100), words(400), words(3_000)),
  steps: fc.array(step, { minLength: 1, maxLength: 6 }),
});

// --- playing a conversation -----------------------------------------------------------------------------------------

type Options = ReturnType<typeof optionsFor>;
const textsOf = (message?: Anthropic.MessageParam) =>
  (message ? blocksOf(message) : []).flatMap((block) => (block.type === "text" ? [block.text] : []));
const isSummary = ({ messages }: Anthropic.MessageCreateParams) =>
  textsOf(messages.at(-1)).some((text) => text.startsWith("Write a summary of this conversation"));
const isChild = ({ system }: Anthropic.MessageCreateParams) => String(system).startsWith("You are a subagent");
/** As the command line takes it: not blank. */
const requestOf = (text: Words) => spell(text).trim() || "go on";
/** How many requests there were when the last failure was queued: it is for the next one. */
let owed = -1;

/** Plays one step. What it throws is a bug of the lesson; a turn that is not done is not. */
async function carryOut(lesson: Lesson, messages: Messages, step: Exclude<Step, { kind: "resume" }>, base: Options) {
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
  await capture(async () => {
    if (rest.kind === "compact") {
      await lesson.autoCompact(messages, { ...options, trigger: "manual" }).catch(() => {});
    } else {
      lesson.add(messages, user(requestOf(rest.text)), options);
      await lesson.agentLoop(messages, options).catch(() => {});
    }
  });
}

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
  (existsSync(dir) ? readdirSync(dir) : []).filter((name) => name.endsWith(".jsonl")).map((name) => join(dir, name));
const json = (value: unknown) => JSON.stringify(value);

/** Plays a conversation and asks after each step what has to hold. */
async function play({ lesson: number, files, steps }: Script) {
  const lesson = lessons[number] ?? assert.fail();
  lesson.TODO.items = [];
  rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
  for (const [i, text] of files.entries()) writeFileSync(`f${i}`, spell(text));
  let options = optionsFor(lesson);
  let messages: Messages = [];
  let gone = ""; // what crashes took from the disk
  const everSent = new Set<string>();
  for (const step of steps) {
    const from = server.journal.length;
    if (step.kind === "resume") {
      const { file } = options.transcript;
      const whole = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
      const left = whole.subarray(0, -step.torn || undefined);
      if (!left.includes('"role"')) continue;
      gone += `\n${whole}`;
      writeFileSync(file, left);
      options = optionsFor(lesson);
      const resumed = await capture(() => {
        try {
          return lesson.resume(file, options);
        } catch (error) {
          if (/contains no messages/.test(String(error))) return [];
          throw error;
        }
      });
      messages = resumed.value;
    } else await carryOut(lesson, messages, step, options);
    const entries = server.journal.slice(from);
    if (owed === server.journal.length) await assertAccepted(lesson, []).catch(() => {}); // meets the failure
    checkRequests(entries);
    if (step.kind === "request") checkRequestStays(entries, requestOf(step.text));
    await assertAccepted(lesson, messages);
    for (const { request } of entries) {
      if (!isSummary(request)) for (const message of request.messages) everSent.add(essence(message));
    }
    for (const message of messages) everSent.add(essence(message));
  }
  checkDisk(everSent, gone);
  await checkNext(lesson, messages, options);
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

/** The entry of a line; nothing if it is torn. */
function parsed(line: string) {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}

/** Whatever was in the history is in some transcript. */
function checkDisk(everSent: Set<string>, gone: string) {
  const files = [...transcripts(), ...transcripts(join(TRANSCRIPT_DIR, "tasks"))];
  const lines = files.map((file) => readFileSync(file, "utf8")).join("") + gone;
  const onDisk = new Set<string>();
  for (const entry of lines.split("\n").flatMap(parsed)) {
    for (const message of entry.messages ?? [entry]) onDisk.add(essence(message));
  }
  for (const message of everSent) assert.ok(onDisk.has(message), message);
}

/** The next request can succeed, in a window in which there is room for it. */
async function checkNext(lesson: Lesson, messages: Messages, options: Options) {
  const base = json([lesson.SYSTEM, lesson.TOOLS]).length / 3;
  server.contextLimit = base + 16_000;
  server.model = (request) => say(isSummary(request) ? "A summary." : "fine");
  await capture(() => {
    lesson.add(messages, user("and now?"), options);
    return lesson.agentLoop(messages, options);
  });
}

test("whatever happens to a conversation, it stays valid, nothing is lost, and it goes on", async () => {
  const runs = { numRuns: Number(process.env.FC_RUNS || 25), seed: Number(process.env.FC_SEED || 20261120) };
  await fc.assert(fc.asyncProperty(script, play), { ...runs, includeErrorInReport: true });
});
