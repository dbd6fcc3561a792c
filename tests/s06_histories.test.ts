// Histories that nobody thought of: fast-check makes up conversations, the loop plays them against the strict server, and
// what has to hold for every conversation is asked of each. A failure prints the smallest conversation that shows it.
// FC_RUNS says how many conversations a property tries, FC_SEED which ones: the seed that a failure printed.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import type { Failure, JournalEntry, Reply, ReplyBlock } from "../offline/server.ts";
import { capture, folder, load, server } from "./harness.ts";
import { blocksOf, unmarked } from "./replies.ts";

type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

const RUNS = Number(process.env.FC_RUNS || 15);
let seeds = 20261120;
/** Tests a property, each with conversations of its own. */
const always = <T>(name: string, property: fc.IAsyncProperty<T>) => {
  const settings = { numRuns: RUNS, seed: Number(process.env.FC_SEED || seeds++), includeErrorInReport: true };
  test(name, () => fc.assert(property, settings));
};

mkdirSync("skills/tidy", { recursive: true });
writeFileSync("skills/tidy/SKILL.md", `---\nname: tidy\ndescription: how to tidy up\n---\n${"Tidy well. ".repeat(60)}`);

// --- lessons, each with limits of its own ---------------------------------------------------------------------------

const LIMITS: Record<string, string>[] = [
  { COMPACT_THRESHOLD: "2500", COMPACT_MIN_SAVINGS: "100", COMPACT_KEEP_RECENT: "0" },
  { COMPACT_THRESHOLD: "0", COMPACT_MIN_SAVINGS: "0", COMPACT_KEEP_RECENT: "0" },
  { COMPACT_THRESHOLD: "2500", COMPACT_MIN_SAVINGS: "0", COMPACT_KEEP_RECENT: "1" },
  { COMPACT_THRESHOLD: "3500", COMPACT_MIN_SAVINGS: "300", COMPACT_KEEP_RECENT: "0" },
  { COMPACT_THRESHOLD: "2500", COMPACT_TURN_THRESHOLD: "5000", COMPACT_PRESERVE: "read_file,load_skill" },
  { COMPACT_THRESHOLD: "6000", COMPACT_TEXTBOOK: "1", COMPACT_KEEP_RECENT: "2" },
  { COMPACT_THRESHOLD: "20000", COMPACT_MIN_SAVINGS: "500" },
  {},
];
const lessons: Lesson[] = [];
for (const limits of LIMITS) lessons.push(await load("s06_context_compact", limits));
const lessonAt = (i: number): Lesson => lessons[i] ?? assert.fail(`there is no lesson ${i}`);
const { TRANSCRIPT_DIR } = lessonAt(0);

// --- what conversations are made of ---------------------------------------------------------------------------------

/** A text as a unit and how often it is repeated, so that a failure prints it short. */
type Words = [unit: string, times: number];
const spell = ([unit, times]: Words) => unit.repeat(times);

const UNITS = [
  "x",
  "a line of output\n",
  "把它建好。",
  "😀",
  "\ud83d",
  "\ude00",
  " \n",
  '"\\ud800"',
  "\0\u2028",
  "Saved to: elsewhere.txt\n",
  "Output too large. Saved to: elsewhere.txt\n",
  "Output too large. Saved to: .transcripts/outputs/other.txt\n",
  `Saved to: ${"far/".repeat(30)}away.txt\n`,
  "[Previous: used bash]",
  "[Conversation compressed. Transcript: x]\n\n",
  "<request>\nmine\n</request>\n",
  "</request>\n(answered)",
];
const unit = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...UNITS) }, fc.string({ unit: "binary", maxLength: 8 }));
const times = (max: number) => fc.oneof({ weight: 4, arbitrary: fc.nat(3) }, fc.nat(max));
/** Once in about `often` + 1 times. */
const rarely = <T>(often: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: often, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
const words = (max: number): fc.Arbitrary<Words> => fc.tuple(unit, times(max));

/** A call: the tool, and its input. */
type Call = { name: string; input: unknown };
const path = fc.constantFrom("f0", "f1", "f2", "f3", "none", "skills");
const call: fc.Arbitrary<Call> = fc.oneof(
  { weight: 8, arbitrary: path.map((path) => ({ name: "read_file", input: { path } })) },
  fc.tuple(path, fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 })).map(([path, offset, limit]) => ({
    name: "read_file",
    input: { path, offset, limit },
  })),
  fc
    .constantFrom("cat f0 f1", "echo 你好", "false", "printf '\\377\\ud800'", "cat f2; exit 3")
    .map((command) => ({ name: "bash", input: { command } })),
  words(20).map((content) => ({ name: "write_file", input: { path: "w", content: spell(content) } })),
  path.map((path) => ({ name: "edit_file", input: { path, old_text: "x", new_text: "y" } })),
  words(5).map((text) => ({ name: "todo", input: { items: [{ text: spell(text), status: "in_progress" }] } })),
  words(5).map((prompt) => ({ name: "task", input: { prompt: spell(prompt) } })),
  fc.constantFrom("tidy", "untidy").map((name) => ({ name: "load_skill", input: { name } })),
  fc
    .constantFrom({}, { focus: "names" }, { focus: "\ud800" }, { focus: 1 })
    .map((input) => ({ name: "compact", input })),
  fc
    .constantFrom("no_such_tool", "no such tool!", "", "x".repeat(201), "bash", "read_file", "todo")
    .chain((name) =>
      fc.constantFrom({}, [], "text", null, 7, { "\ud800": "\udc00" }).map((input) => ({ name, input })),
    ),
);

type Block = { say: Words } | { note: Words } | "redacted" | Call;
const block: fc.Arbitrary<Block> = fc.oneof(
  { weight: 9, arbitrary: call },
  { weight: 2, arbitrary: fc.record({ say: words(200) }) },
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
type Turn = { blocks: Block[]; stop?: Anthropic.StopReason; failure?: Failure };
const STOPS: Anthropic.StopReason[] = [
  "max_tokens",
  "refusal",
  "model_context_window_exceeded",
  "end_turn",
  "tool_use",
];
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
const turn = (blocks: fc.Arbitrary<Block[]>): fc.Arbitrary<Turn> =>
  fc.record({
    blocks,
    stop: rarely(18, fc.constantFrom(...STOPS)),
    failure: rarely(10, fc.constantFrom(...FAILURES)),
  });
const reply = turn(fc.array(block, { maxLength: 5 }));
const summary = fc.oneof(
  { weight: 6, arbitrary: words(10).map((say): Turn => ({ blocks: [{ say: ["A summary. ", 3] }, { say }] })) },
  turn(fc.array(block, { maxLength: 2 })),
);

/** Where the person interrupts: at the n-th thing printed, at the n-th request, at the n-th question. */
type Stop = { at: "print" | "request" | "question"; n: number };
const stop: fc.Arbitrary<Stop> = fc.record({
  at: fc.constantFrom("print", "request", "question"),
  n: fc.oneof(fc.nat(3), fc.nat(25)),
});

/** One thing that happens to a conversation; `torn` bytes are missing at the end of the transcript that is resumed. */
type Step =
  | { kind: "request"; text: Words; replies: Turn[]; children: Turn[]; summaries: Turn[]; window: number; stop?: Stop }
  | { kind: "compact"; summaries: Turn[]; window: number; stop?: Stop }
  | { kind: "resume"; torn: number };
const window = fc.oneof({ weight: 3, arbitrary: fc.constant(200_000) }, fc.integer({ min: 2_200, max: 9_000 }));
const summaries = fc.array(summary, { maxLength: 3 });
const interruption = rarely(2, stop);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      text: words(900),
      replies: fc.array(reply, { maxLength: 6 }),
      children: fc.array(reply, { maxLength: 2 }),
      summaries,
      window,
      stop: interruption,
    }),
  },
  fc.record({ kind: fc.constant("compact" as const), summaries, window, stop: interruption }),
  fc.record({ kind: fc.constant("resume" as const), torn: fc.oneof(fc.constant(0), fc.nat(400)) }),
);

type Script = { limits: number; files: Words[]; steps: Step[] };
const script: fc.Arbitrary<Script> = fc.record({
  limits: fc.nat(LIMITS.length - 1),
  files: fc.tuple(...[60, 150, 300, 3_000].map((max) => fc.tuple(unit, fc.nat(max)))),
  steps: fc.array(step, { minLength: 1, maxLength: 5 }),
});

// --- playing a conversation -----------------------------------------------------------------------------------------

type Moment = {
  step: Step;
  /** What the person asked for, in a step that is a request. */
  request?: string;
  outcome: string;
  /** Requests that the agent made in it, and the history after it. */
  entries: JournalEntry[];
  history: Messages;
};
type Played = { lesson: Lesson; moments: Moment[]; transcript?: string; lost: string };

const textsOf = (message: Anthropic.MessageParam | undefined) =>
  message ? blocksOf(message).flatMap((block) => (block.type === "text" ? [block.text] : [])) : [];
const isSummary = ({ messages }: Anthropic.MessageCreateParams) =>
  textsOf(messages.at(-1)).some((text) => text.startsWith("Write a summary of this conversation."));
const isChild = ({ system }: Anthropic.MessageCreateParams) => String(system).startsWith("You are a subagent");

/** What something returns, with `seen` called for each thing that it prints. */
const quiet = <T>(work: () => T | Promise<T>, seen = () => {}): Promise<T> => capture(work, seen);

const transcripts = (dir = TRANSCRIPT_DIR) =>
  (existsSync(dir) ? readdirSync(dir) : []).filter((name) => name.endsWith(".jsonl")).map((name) => join(dir, name));

/** Carries out one step; the messages are those after it. */
async function carryOut(lesson: Lesson, messages: Messages, step: Step): Promise<[Messages, string]> {
  if (step.kind === "resume") {
    const [file] = transcripts();
    if (!file) return [messages, "nothing to resume"];
    const left = readFileSync(file).subarray(0, -step.torn || undefined);
    if (!left.includes("\n")) return [messages, "nothing to resume"];
    writeFileSync(file, left);
    return [await quiet(() => lesson.resume(file)), "resumed"];
  }

  const controller = new AbortController();
  const passed = { print: 0, request: 0, question: 0 };
  const pass = (at: Stop["at"]) => {
    if (passed[at]++ === step.stop?.n && at === step.stop.at) controller.abort();
  };
  const left = {
    summaries: [...step.summaries],
    children: step.kind === "request" ? [...step.children] : [],
    replies: step.kind === "request" ? [...step.replies] : [],
  };
  server.contextLimit = step.window;
  server.model = (request): Reply => {
    pass("request");
    const next = (isSummary(request) ? left.summaries : isChild(request) ? left.children : left.replies).shift();
    if (next?.failure) {
      server.fail(next.failure);
      owed = server.journal.length;
    }
    if (!next) return { content: [{ type: "text", text: "fine" }] };
    return { content: next.blocks.map(replyBlock), stop_reason: next.stop };
  };
  lesson.approval.ask = async () => {
    pass("question");
    controller.signal.throwIfAborted();
    return "y";
  };
  const { signal } = controller;
  if (step.kind === "request") messages.push({ role: "user", content: requestOf(step.text) });
  const run = () =>
    step.kind === "request"
      ? lesson.agentLoop(messages, { signal })
      : lesson.autoCompact(messages, { trigger: "manual", signal });
  try {
    return [messages, await quiet(run, () => pass("print"))];
  } catch (error) {
    if (!(error instanceof Anthropic.AnthropicError)) throw error;
    return [messages, `error: ${error.message}`];
  }
}

/** As the command line takes it: without space around it, not blank, without lone surrogates. */
const requestOf = (text: Words) => spell(text).trim().toWellFormed() || "go on";

async function play({ limits, files, steps }: Script): Promise<Played> {
  const lesson = lessonAt(limits);
  lesson.TODO.items = [];
  rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
  for (const [i, text] of files.entries()) writeFileSync(`f${i}`, spell(text));
  server.journal.length = 0;
  const played: Played = { lesson, moments: [], lost: "" };
  let messages: Messages = [];
  for (const step of steps) {
    const from = server.journal.length;
    if (step.kind === "resume") played.lost += allText();
    const [after, outcome] = await carryOut(lesson, messages, step);
    messages = after;
    const request = step.kind === "request" ? requestOf(step.text) : undefined;
    const entries = server.journal.slice(from).map((entry) => {
      return { ...entry, request: { ...entry.request, messages: unmarked(entry.request.messages) } };
    });
    played.moments.push({ step, request, outcome, entries, history: structuredClone(messages) });
    if (owed === server.journal.length) await accept(lesson, []).catch(() => {}); // meets the failure
  }
  played.transcript = transcripts()[0];
  return played;
}

/** How many requests there were when the last failure was queued: as many as now, and no request has met it. */
let owed = -1;

const client = new Anthropic({ maxRetries: 0 });
/** What the model says to this history, with one request more if it waits for one. @throws if the API does not take it */
async function accept({ SYSTEM, TOOLS }: Lesson, messages: Messages, blocks: ReplyBlock[] = []): Promise<Messages> {
  server.contextLimit = Number.POSITIVE_INFINITY;
  server.model = () => ({ content: blocks });
  const open = messages.at(-1)?.role === "user" ? messages : [...messages, { role: "user" as const, content: "next" }];
  const { content } = await client.messages.create({
    model: "m",
    max_tokens: 20_000,
    thinking: { type: "adaptive", display: "summarized" },
    system: SYSTEM,
    tools: TOOLS,
    messages: open,
  });
  return [...open, { role: "assistant", content }];
}

/** Everything in all transcripts. */
const allText = () =>
  [...transcripts(), ...transcripts(join(TRANSCRIPT_DIR, "tasks"))].map((file) => readFileSync(file, "utf8")).join("");

// --- what has to hold -----------------------------------------------------------------------------------------------

/** Tests that something holds for every conversation. */
const holds = (name: string, check: (played: Played) => void | Promise<void>) =>
  always(
    name,
    fc.asyncProperty(script, async (made) => check(await play(made))),
  );

const isThinking = ({ type }: Anthropic.ContentBlockParam) => type === "thinking" || type === "redacted_thinking";
const json = (value: unknown) => JSON.stringify(value);

/** A message as it is without its thinking, of which the notes stay. */
function withoutThinking(message: Anthropic.MessageParam): Anthropic.MessageParam {
  if (message.role !== "assistant" || typeof message.content === "string") return message;
  const content = message.content.flatMap((block): Anthropic.ContentBlockParam[] => {
    if (block.type === "thinking" && block.thinking.trim()) return [{ type: "text", text: block.thinking }];
    return isThinking(block) ? [] : [block];
  });
  return { role: "assistant", content: content.length > 0 ? content : [{ type: "text", text: "(thinking removed)" }] };
}

/** The same for a message as it was sent and as any later form of it is: without thinking and what results say. */
const essence = (message: Anthropic.MessageParam) =>
  json([
    message.role,
    blocksOf(withoutThinking(message)).map((block) =>
      block.type === "tool_result" ? [block.tool_use_id, block.is_error] : block,
    ),
  ]);

const resultsIn = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_result" ? [block] : []));

/** The requests in which the agent asked for an answer to this history, of which the summary is not one. */
const asked = ({ entries }: Moment) =>
  entries.filter(({ request }) => !isSummary(request) && !isChild(request)).map(({ request }) => request.messages);

type Line = Anthropic.MessageParam | { type: "compaction"; messages: Messages };
const parsed = (text: string): Line[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

holds("every request is valid for the API, and so is the history after every step", async ({ lesson, moments }) => {
  for (const { entries, history } of moments) {
    for (const { status, error } of entries) {
      assert.ok(status !== 400 || /^(Bad request|prompt is too long)/.test(error ?? ""), error);
    }
    await accept(lesson, history);
  }
});

/** Whether a prompt says this word for word, itself or in the files that it names. */
function says(messages: Messages, request: string): boolean {
  const texts = messages.filter(({ role }) => role === "user").flatMap(textsOf);
  const isIn = (text: string): boolean => {
    if (text === request || text.startsWith(`<request>\n${request}\n</request>`)) return true;
    const [, file] = /^(?:<request>\n)?Output too large\. Saved to: (\S*outputs\/request_\S+)\n/.exec(text) ?? [];
    return file !== undefined && isIn(readFileSync(file, "utf8"));
  };
  return texts.some(isIn);
}

holds("the person's request is in every prompt that it is worked on with, word for word or saved", ({ moments }) => {
  for (const moment of moments) {
    if (moment.request === undefined) continue;
    for (const messages of asked(moment)) assert.ok(says(messages, moment.request), json(messages));
  }
});

holds("thinking is sent only with all that was before it when it was produced", ({ moments }) => {
  const producedFor = new Map<string, string>();
  for (const { entries } of moments) {
    for (const { request, reply } of entries) {
      for (const [i, message] of request.messages.entries()) {
        for (const block of blocksOf(message)) {
          if (isThinking(block)) assert.equal(producedFor.get(json(block)), json(request.messages.slice(0, i)));
        }
      }
      for (const block of reply ?? []) if (isThinking(block)) producedFor.set(json(block), json(request.messages));
    }
  }
});

holds("whatever was in the history is on disk as it was", ({ moments, lost }) => {
  const lines = parsed(lost + allText()).flatMap((line) => ("messages" in line ? line.messages : [line]));
  const onDisk = new Set(lines.map(json));
  const essences = new Set(lines.map(essence));
  const seen = new Set<string>();
  for (const { step, entries, history } of moments) {
    const prompts = entries.map(({ request }) => request);
    const sent = prompts.flatMap((prompt) => (isSummary(prompt) ? prompt.messages.slice(0, -1) : prompt.messages));
    // What a resumed history holds comes from the disk; the results that it adds get there with the next message.
    for (const message of step.kind === "resume" ? [] : [...sent, ...history]) {
      // Results are whole when they are first sent; a reply may lose its thinking before it is ever sent.
      const isFirst = message.role === "user" && !seen.has(essence(message));
      seen.add(essence(message));
      if (isFirst || blocksOf(message).some(isThinking)) assert.ok(onDisk.has(json(message)), json(message));
      else assert.ok(essences.has(essence(message)), json(message));
    }
  }
});

holds("a result that is too large is on disk whole, and the history shows its beginning and end", ({ moments }) => {
  const said = new Map<string, string>();
  for (const { entries, history } of moments) {
    for (const messages of [...entries.map(({ request }) => request.messages), history]) {
      for (const { tool_use_id, content } of resultsIn(messages)) {
        if (!said.has(tool_use_id)) said.set(tool_use_id, String(content));
      }
    }
  }
  for (const text of said.values()) {
    const [head, file, half, of] =
      /^Output too large\. Saved to: (.+)\n\[the first and the last (\d+) of (\d+) characters:\]\n/.exec(text) ?? [];
    assert.ok(head !== undefined || !text.startsWith("Output too large. Saved to: .transcripts"), text);
    if (head === undefined || !file) continue;
    const whole = readFileSync(file, "utf8");
    assert.equal(whole.length, Number(of));
    const parts = [whole.slice(0, Number(half)), whole.slice(whole.length - Number(half))];
    assert.equal(text, (head + parts.join("\n[...]\n")).toWellFormed());
  }
});

const openCalls = (message?: Anthropic.MessageParam) =>
  message ? blocksOf(message).flatMap((block) => (block.type === "tool_use" ? [block.id] : [])) : [];

holds("after every step, each call has one result right behind it, and each result a call", ({ moments }) => {
  for (const { history } of moments) {
    for (const [i, message] of history.entries()) {
      assert.deepEqual(
        resultsIn([message]).map((result) => result.tool_use_id),
        openCalls(history[i - 1]),
      );
    }
    assert.deepEqual(openCalls(history.at(-1)), []);
  }
});

holds("a transcript resumes as the history that was left, but for thinking, and in full", async (played) => {
  const { lesson, moments, transcript } = played;
  const left = moments.at(-1)?.history ?? [];
  if (!transcript || !readFileSync(transcript, "utf8")) return assert.deepEqual(left, []);
  const copy = join(folder, "copy.jsonl");
  writeFileSync(copy, readFileSync(transcript));
  const resumed = await quiet(() => lesson.resume(copy));
  assert.deepEqual(resumed.map(essence), left.map(essence));
  assert.ok(!resumed.flatMap(blocksOf).some(isThinking));
  const now = new Map(resultsIn(left).map((result) => [result.tool_use_id, result.content]));
  for (const { tool_use_id, content } of resultsIn(resumed)) {
    const then = String(now.get(tool_use_id));
    assert.ok(content === then || then.startsWith("[Previous: used "), `${content}, and it was ${then}`);
  }
  await accept(lesson, resumed);
});

/** Where to cut, in thousandths of the file. */
const CUTS = fc.array(fc.nat(1_000), { minLength: 6, maxLength: 6 });
always(
  "a transcript cut at any byte resumes with every whole line, and calls without a result get one",
  fc.asyncProperty(script, CUTS, async (made, cuts) => {
    const { lesson, transcript } = await play(made);
    if (!transcript) return;
    const bytes = readFileSync(transcript);
    const copy = join(folder, "copy.jsonl");
    for (const cut of cuts) {
      const at = Math.floor((cut / 1_000) * bytes.length);
      const part = bytes.subarray(0, cut % 3 ? at : bytes.indexOf("\n", at)); // a third at the end of a line
      const end = part.lastIndexOf("\n") + 1;
      const isWhole = bytes[part.length] === 10; // but for its end
      const kept = isWhole ? `${part}\n` : String(part.subarray(0, end));
      writeFileSync(copy, part);
      if (kept === "") {
        assert.throws(() => lesson.resume(copy), /copy\.jsonl/);
        assert.deepEqual(readFileSync(copy), part);
        continue;
      }
      const resumed = await quiet(() => lesson.resume(copy));
      assert.equal(readFileSync(copy, "utf8"), kept);
      let expected: Messages = [];
      for (const line of parsed(kept)) {
        if ("messages" in line) expected = line.messages;
        else expected.push(line);
      }
      const content = openCalls(expected.at(-1)).map((id): Anthropic.ToolResultBlockParam => {
        return { type: "tool_result", tool_use_id: id, content: "(interrupted; it may have run)", is_error: true };
      });
      if (content.length > 0) expected.push({ role: "user", content });
      assert.deepEqual(resumed, expected.map(withoutThinking));
      await accept(lesson, resumed);
    }
  }),
);

// --- histories written down, with what this agent itself does not put there: pictures, and results in blocks -------

type Result = { text: Words; shape: "string" | "blocks" | "picture" | "none"; is_error: boolean };
type Part = { person?: Words; picture: boolean; said: Block[]; results: Result[]; reminded: boolean };
type Made = { limits: number; parts: Part[]; end: number };

const result: fc.Arbitrary<Result> = fc.record({
  text: fc.tuple(unit, fc.nat(200)),
  shape: fc.constantFrom("string", "string", "string", "blocks", "picture", "none"),
  is_error: fc.boolean(),
});
const plainCall = fc
  .constantFrom("bash", "read_file", "load_skill", "no_such_tool")
  .chain((name) => path.map((path): Block => ({ name, input: { path } })));
const part: fc.Arbitrary<Part> = fc.record({
  person: rarely(1, words(900)),
  picture: fc.boolean(),
  said: fc.array(
    fc.oneof(
      { weight: 3, arbitrary: plainCall },
      block.filter((made) => made === "redacted" || !("name" in made)),
    ),
    {
      maxLength: 6,
    },
  ),
  results: fc.array(result, { minLength: 1, maxLength: 4 }),
  reminded: fc.boolean(),
});
const made: fc.Arbitrary<Made> = fc.record({
  limits: fc.nat(LIMITS.length - 1),
  parts: fc.array(part, { minLength: 1, maxLength: 6 }),
  end: fc.nat(1),
});

const PICTURE: Anthropic.ImageBlockParam = {
  type: "image",
  source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" },
};
/** Not as a compaction begins: in blocks, that is how the agent knows its own. */
const text = (words: Words): Anthropic.TextBlockParam => ({
  type: "text",
  text: requestOf(words).replaceAll("[Conversation", "(Conversation"),
});

function resultContent({ text: words, shape }: Result): Anthropic.ToolResultBlockParam["content"] {
  if (shape === "none") return undefined;
  if (shape === "string") return spell(words).toWellFormed();
  return shape === "picture" ? [text(words), PICTURE] : [text(words)];
}

/** The history, with thinking that the server has signed; it ends with a message of the model's, or of the person's. */
async function build({ limits, parts, end }: Made): Promise<Messages> {
  let messages: Messages = [];
  for (const { person, picture, said, results, reminded } of parts) {
    if (person) messages.push({ role: "user", content: picture ? [text(person), PICTURE] : requestOf(person) });
    if (messages.length === 0) messages.push({ role: "user", content: "go on" });
    const blocks = said.map((block): ReplyBlock => {
      const made = replyBlock(block);
      if (made.type === "thinking") return { ...made, thinking: made.thinking.toWellFormed() };
      return made.type === "text" ? { ...made, text: requestOf([made.text, 1]) } : made;
    });
    const last = blocks.at(-1)?.type;
    if (last !== "tool_use" && last !== "text") blocks.push({ type: "text", text: "so far" });
    messages = structuredClone(await accept(lessonAt(limits), messages, blocks));
    const content = openCalls(messages.at(-1)).map((id, i): Anthropic.ContentBlockParam => {
      const each = results[i % results.length] ?? assert.fail();
      const content = resultContent(each);
      // The API takes no failure without words.
      return {
        type: "tool_result",
        tool_use_id: id,
        content,
        is_error: each.is_error && json(content ?? "").length > 2,
      };
    });
    if (content.length > 0 && reminded) content.push({ type: "text", text: "<reminder>Update your todos.</reminder>" });
    if (content.length > 0) messages.push({ role: "user", content });
  }
  if (end === 0 && messages.at(-1)?.role === "user")
    return accept(lessonAt(limits), messages, [{ type: "text", text: "done" }]);
  return messages;
}

const holdsFor = <Extra>(
  name: string,
  extra: fc.Arbitrary<Extra>,
  check: (lesson: Lesson, messages: Messages, extra: Extra) => void | Promise<void>,
) =>
  always(
    name,
    fc.asyncProperty(made, extra, async (made, extra) => {
      rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
      await check(lessonAt(made.limits), await build(made), extra);
    }),
  );
const NOTHING_MORE = fc.constant(undefined);

/** The results that layer 1 may clear: answered, not among the newest, long, plain text, of a tool that is not preserved. */
function clearable({ KEEP_RECENT, PRESERVE_RESULT_TOOLS }: Lesson, messages: Messages): Set<string> {
  const uses = messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_use" ? [block] : []));
  const lastReply = messages.findLastIndex(({ role }) => role === "assistant");
  const answered = resultsIn(messages.slice(0, lastReply));
  const old = answered.slice(0, Math.max(0, answered.length - KEEP_RECENT));
  const isPreserved = (id: string) => uses.some((use) => use.id === id && PRESERVE_RESULT_TOOLS.includes(use.name));
  return new Set(
    old.flatMap(({ content, tool_use_id: id }) =>
      typeof content === "string" && content.length > 100 && !isPreserved(id) ? [id] : [],
    ),
  );
}

/** The line that layer 1 leaves of a result that was saved. */
const SAVED = /^Output too large\. Saved to: \.transcripts\/outputs\/[\w-]+\.txt$/m;

holdsFor(
  "layer 1 clears old long results and nothing else, and a second time nothing",
  NOTHING_MORE,
  async (lesson, messages) => {
    const before = structuredClone(messages);
    const { cleared } = lesson.microCompact(messages);
    const was = new Map(resultsIn(before).map((result) => [result.tool_use_id, result.content]));
    const may = clearable(lesson, before);
    let changed = 0;
    for (const result of resultsIn(messages)) {
      const old = was.get(result.tool_use_id);
      if (json(old) === json(result.content)) {
        assert.ok(!may.has(result.tool_use_id) || SAVED.test(String(old)), json(result));
        continue;
      }
      changed++;
      assert.ok(may.has(result.tool_use_id), json(result));
      const [, saved = ""] = /^\[Previous: used \w+\](?:\n(.+))?$/.exec(String(result.content)) ?? assert.fail();
      assert.equal(saved, SAVED.exec(String(old))?.[0] ?? "");
      result.content = old;
    }
    assert.equal(cleared, changed);
    assert.deepEqual(messages, cleared ? before.map(withoutThinking) : before);

    const again = structuredClone(messages);
    lesson.microCompact(again);
    const once = structuredClone(again);
    assert.deepEqual(lesson.microCompact(again), { cleared: 0, saved: 0 });
    assert.deepEqual(again, once);
    await accept(lesson, again);
  },
);

holdsFor(
  "layer 1 saves what it says, besides the thinking it removes, or below its minimum changes nothing",
  NOTHING_MORE,
  (lesson, messages) => {
    const stripped = messages.map(withoutThinking);
    const cleared = structuredClone(messages);
    const all = lesson.microCompact(cleared);
    if (all.cleared === 0) return assert.deepEqual([cleared, all], [messages, { cleared: 0, saved: 0 }]);
    const difference = lesson.estimateTokens(stripped) - lesson.estimateTokens(cleared);
    assert.ok(Math.abs(difference - all.saved) <= 1, `${all.saved} said, ${difference} saved`); // each of the two is rounded
    const [enough, tooLittle] = [structuredClone(messages), structuredClone(messages)];
    assert.deepEqual(lesson.microCompact(enough, all.saved - 1), all);
    assert.deepEqual(enough, cleared);
    assert.deepEqual(lesson.microCompact(tooLittle, all.saved + 1), { cleared: 0, saved: 0 });
    assert.deepEqual(tooLittle, messages);
  },
);

const COMPACTION = fc.record({ trigger: fc.constantFrom("auto", "tool", "manual", "reactive"), said: summary });
holdsFor(
  "layer 2 keeps the request and whole rounds of the end, or everything",
  COMPACTION,
  async (lesson, messages, { trigger, said }) => {
    const before = structuredClone(messages);
    server.contextLimit = 200_000;
    server.model = () => ({ content: said.blocks.map(replyBlock), stop_reason: said.stop });
    const outcome = await quiet(() => lesson.autoCompact(messages, { trigger }));
    if (outcome !== "done") assert.deepEqual(messages, before);
    else {
      const [first, ...tail] = messages;
      assert.match(textsOf(first)[0] ?? "", /^\[Conversation compressed\. Transcript: \.transcripts/);
      assert.deepEqual(tail, tail.length > 0 ? before.slice(-tail.length).map(withoutThinking) : []);
      const person = before.filter((message) => message.role === "user" && resultsIn([message]).length === 0).at(-1);
      const request = textsOf(person).join("");
      assert.ok(says(messages, request), json(first));
    }
    await accept(lesson, messages);
  },
);

holdsFor(
  "a history written down resumes as it is, but for thinking, whatever its messages hold",
  fc.nat(3),
  async (lesson, messages, missing) => {
    const kept = messages.slice(0, Math.max(1, messages.length - missing));
    const file = join(folder, "written.jsonl");
    writeFileSync(file, kept.map((message) => `${json(message)}\n`).join(""));
    const resumed = await quiet(() => lesson.resume(file));
    assert.deepEqual(resumed.slice(0, kept.length), JSON.parse(json(kept.map(withoutThinking))));
    assert.deepEqual(
      resultsIn(resumed.slice(kept.length)).map(({ tool_use_id }) => tool_use_id),
      openCalls(kept.at(-1)),
    );
    await accept(lesson, resumed);
  },
);
