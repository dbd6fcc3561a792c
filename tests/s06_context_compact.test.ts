// What the agent forgets, when, and what it must not forget. A lesson with other limits is a copy with other variables.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Model, type Reply, scripted } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { blocksOf, call, expectRejection, folder, optionsFor, resultsIn, say, server, start, use, user } = harness;
type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

let copies = 0;
/** Imports a copy of the lesson with these variables in its environment. */
async function load(env: Record<string, string> = {}): Promise<Lesson> {
  Object.assign(process.env, env);
  try {
    return await import(`../agents/s06_context_compact.ts?copy=${copies++}`);
  } finally {
    for (const name of Object.keys(env)) delete process.env[name];
  }
}
const s06 = await load();
const small = await load({ COMPACT_THRESHOLD: "6000" });
const { TRANSCRIPT_DIR } = s06;

/** What `work` returns, prints, sends and throws while the model says this. */
async function watch<T>(work: () => T | Promise<T>, said: Reply[] | [Model] = []) {
  const [first, ...others] = said;
  server.model = typeof first === "function" ? first : scripted(...(first ? [first] : []), ...(others as Reply[]));
  const from = server.journal.length;
  const outcome = await harness.capture(async () => {
    try {
      return { value: await work() };
    } catch (error) {
      return { error: String(error) };
    }
  });
  return { ...outcome.value, printed: outcome.printed, sent: server.journal.slice(from).map(({ request }) => request) };
}

/** A conversation. `ask` is a turn of it, `compact` what /compact does. */
function talkTo(lesson: Lesson, messages: Messages = [], options = optionsFor(lesson)) {
  const ask = (request: string, ...said: Reply[] | [Model]) =>
    watch(() => {
      lesson.add(messages, user(request), options);
      return lesson.agentLoop(messages, options);
    }, said);
  const compact = (...said: Reply[]) =>
    watch(() => lesson.autoCompact(messages, { ...options, trigger: "manual" }), said);
  const compressed = () => textsOf(messages[0])[0] ?? "";
  return { lesson, messages, options, transcript: options.transcript, ask, compact, compressed };
}
/** A conversation whose next request is past the limit of 6,000 tokens, though not for the sake of results. */
async function longTalk(lesson = small) {
  const talk = talkTo(lesson);
  await talk.ask("first", say("words ".repeat(3_500)));
  return talk;
}

const textsOf = (message?: Anthropic.MessageParam) =>
  (message ? blocksOf(message) : []).flatMap((block) => (block.type === "text" ? [block.text] : []));
const asksForSummary = ({ messages }: Anthropic.MessageCreateParams) =>
  /^Write a summary/.test(textsOf(messages.at(-1)).at(-1) ?? "");
const kinds = (sent: Anthropic.MessageCreateParams[]) =>
  sent.map((request) => (asksForSummary(request) ? "summary" : "call")).join(" ");
const contents = (messages: Messages = []) => resultsIn(messages).map(({ text }) => text);
const thinkingIn = (messages: Messages) => messages.flatMap(blocksOf).filter(({ type }) => type.endsWith("thinking"));
const read = (path: string, more = {}) => call(use("read_file", { path, ...more }));
const linesOf = (file: string) => (readFileSync(file, "utf8").match(/.+\n/g) ?? []).map((line) => JSON.parse(line));
const compactions = (file: string) => linesOf(file).filter(({ type }) => type === "compaction");
/** A command that is long and prints nothing. */
const LONG = `: ${"words ".repeat(3_500)}`;
/** A file of that many characters. */
const fileOf = (name: string, size: number) => writeFileSync(name, `${name} `.padEnd(size, "text "));
/** A model that answers a request with the first reply and results with the second, and sums up. */
const answering = (first: Reply, second: Reply, summary = say("A summary.")): Model => {
  const hasResults = (messages: Messages) => contents(messages.slice(-1)).length > 0;
  return (request) => (asksForSummary(request) ? summary : hasResults(request.messages) ? second : first);
};
const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request

beforeEach(() => {
  harness.emptyWorkspace();
  Object.assign(server, { contextLimit: 200_000, countsMaxTokens: false, reportedUsage: undefined });
  for (const lesson of [s06, small]) lesson.TODO.items = [];
});

describe("the limits", () => {
  test("are for a request that arrives and within a turn; COMPACT_THRESHOLD and CONTEXT_WINDOW set them", async () => {
    const limits = async (env: Record<string, string>) => {
      const { THRESHOLD, TURN_THRESHOLD } = await load(env);
      return [THRESHOLD, TURN_THRESHOLD];
    };
    assert.equal(s06.autoCompactThreshold(200_000, 32_000), 167_000);
    assert.equal(s06.autoCompactThreshold(1_000_000, 8_000), 979_000);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "9000" }), [9_000, 9_000]);
    assert.deepEqual(await limits({ CONTEXT_WINDOW: "1000000" }), [50_000, 967_000]);
    assert.deepEqual(await limits({ CONTEXT_WINDOW: "20000" }), [8_000, 8_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "90000", CONTEXT_WINDOW: "100000" }), [67_000, 67_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "" }), [50_000, 167_000]);
  });

  test("are not guessed: a value that is not a number of tokens is an error that names the variable", async () => {
    for (const name of ["COMPACT_THRESHOLD", "CONTEXT_WINDOW"]) {
      for (const value of ["0", "-1", "many"])
        await assert.rejects(load({ [name]: value }), new RegExp(`^Error: ${name} `));
    }
  });

  test("leave a reply at most half of the window", async () => {
    for (const [window, most] of Object.entries({ 20000: 10_000, 32001: 16_000, 500000: 32_000 })) {
      const { sent, error } = await talkTo(await load({ CONTEXT_WINDOW: window })).ask("hello", say("hi"));
      assert.deepEqual([sent[0]?.max_tokens, error], [most, undefined]);
    }
  });
});

describe("counting", () => {
  test("is exact for what a reply has counted, cached or not, and its ratio counts for what is added", async () => {
    const talk = talkTo(s06);
    const size = () => s06.estimateTokens(talk.messages, talk.options);
    for (const request of ["function f(a) { return a?.b ?? {} }\n".repeat(100), "and then?"]) {
      await talk.ask(request, say("ok"));
      const counted = server.journal.at(-1)?.promptTokens ?? 0;
      const estimated = s06.estimateTokens(talk.messages.slice(0, -1), talk.options);
      assert.ok(Math.abs(estimated - counted) <= 1, `${estimated}, not ${counted}`);
    }
    assert.ok(server.journal.at(-1)?.usage?.cache_read_input_tokens, "the second prompt was read from the cache");
    const before = size();
    talk.messages.push(user("x".repeat(3_000)));
    assert.ok(Math.abs(size() - before - 1_000) < 60, `${size() - before}: 3 characters are a token here`);
  });

  test("stays between 0.5 and 10 characters a token, whatever a server reports", async () => {
    const ratio = async (reportedUsage: Partial<Anthropic.Usage>) => {
      Object.assign(server, { reportedUsage });
      const talk = talkTo(s06);
      await talk.ask("hello", say("hi"));
      return talk.transcript.charsPerToken;
    };
    for (const input_tokens of [0, 1, 1_000_000, undefined]) {
      const found = await ratio({ input_tokens });
      assert.ok(found >= 0.5 && found <= 10, `${input_tokens}: ${found}`);
    }
  });

  test("on a server that reports 1 still compacts in time", async () => {
    server.reportedUsage = { input_tokens: 1 };
    const talk = talkTo(small);
    await talk.ask("first", say("words ".repeat(12_000)));
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
  });
});

describe("a transcript", () => {
  test("has every message as it entered the history, before any layer shortens it", async () => {
    fileOf("a.txt", 60_000);
    const talk = talkTo(s06);
    const calls = call({ type: "thinking", thinking: "look" }, use("read_file", { path: "a.txt" }));
    await talk.ask("read it", calls, say("done"));
    const written = linesOf(talk.transcript.file);
    assert.deepEqual(written.map(({ role }) => role[0]).join(""), "uaua");
    assert.match(contents(talk.messages)[0] ?? "", /^Output too large/);
    const [, place = ""] = /Saved to: (.*)/.exec(contents(talk.messages)[0] ?? "") ?? [];
    const onDisk = [contents(written)[0], existsSync(place) && readFileSync(place, "utf8")];
    assert.ok(onDisk.includes(readFileSync("a.txt", "utf8")));
    assert.deepEqual(written[1].content, talk.messages[1]?.content);
    assert.equal(written[1].content[0].type, "thinking");
  });

  test("can be read by its owner alone, and git does not see it; those of children are in tasks/", async () => {
    fileOf("a.txt", 60_000);
    const replies = [call(use("task", { prompt: "read a.txt" })), read("a.txt"), say("it is long"), say("done")];
    await talkTo(s06).ask("go", ...replies);
    assert.equal(readFileSync(join(TRANSCRIPT_DIR, ".gitignore"), "utf8"), "*\n");
    const names = readdirSync(TRANSCRIPT_DIR, { recursive: true, encoding: "utf8" });
    const modeOf = (name: string) => statSync(join(TRANSCRIPT_DIR, name)).mode & 0o777;
    for (const name of ["", "tasks", "outputs"]) assert.equal(modeOf(name), 0o700, name);
    const written = names.filter((name) => /\.(jsonl|txt)$/.test(name));
    assert.equal(written.length, 3);
    for (const name of written) assert.equal(modeOf(name), 0o600, name);
    const child = written.find((name) => name.startsWith("tasks/transcript_"));
    assert.equal(linesOf(join(TRANSCRIPT_DIR, child ?? ""))[0].content, "read a.txt");
  });

  test("that cannot be written is told once, and the conversation goes on", async () => {
    writeFileSync(TRANSCRIPT_DIR, "a file where the folder should be");
    const talk = talkTo(s06);
    const { error, printed } = await talk.ask("go", read("none.txt"), say("done"));
    assert.equal(error, undefined);
    assert.equal(printed.match(/\[not saved: .*; the conversation goes on\]/g)?.length, 1);
    assert.match((await talk.compact(say("Sum."))).printed, /\[transcript saved: \(not written\)\]/);
  });
});

describe("large output", () => {
  test("above 50,000 characters is on disk whole, and the model gets its head and its tail", async () => {
    writeFileSync("a.txt", `HEAD${"x".repeat(51_000)}TAIL`);
    const { messages, ask } = talkTo(s06);
    const { sent } = await ask("go", call(use("read_file", { path: "a.txt" }, "call_1")), say("done"));
    const [preview = ""] = contents(sent[1]?.messages);
    assert.match(
      preview,
      /^Output too large\. Saved to: \S+\/outputs\/call_1\.txt\nHEADx+\n\[.* cut here.*\]\nx+TAIL$/,
    );
    assert.ok(preview.length < 2_200, `${preview.length}`);
    assert.equal(readFileSync(".transcripts/outputs/call_1.txt", "utf8"), readFileSync("a.txt", "utf8"));
    assert.deepEqual(contents(messages), [preview]);
  });

  test("of one round counts together: the longest go to disk until the rest fits", async () => {
    const sizes = [15_000, 40_000, 25_000];
    for (const [i, size] of sizes.entries()) fileOf(`${i}.txt`, size);
    const reads = (...names: string[]) => call(...names.map((path) => use("read_file", { path })));
    const { messages, ask } = talkTo(s06); // 20,000 tokens of 3 characters
    await ask("go", reads("0.txt", "1.txt"), reads("0.txt", "1.txt", "2.txt"), say("done"));
    const kept = contents(messages).map((text) => (text.startsWith("Output too large") ? "disk" : text.length));
    assert.deepEqual(kept, [15_000, 40_000, 15_000, "disk", 25_000]);
  });
});

describe("layer 1", () => {
  let ids = 0;
  /** A call and its result. */
  const round = (name: string, content: string): Messages => {
    const id = `call_${ids++}`;
    return [
      { role: "assistant", content: [{ type: "tool_use", id, name, input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
    ];
  };
  const long = (digit: number) => String(digit).repeat(400);

  test("clears old long results, but not the three newest, the unanswered one and those of load_skill", () => {
    const short = "y".repeat(100);
    const tools = ["bash", "load_skill", "read_file", "bash", "bash", "bash", "bash"];
    const messages = [...round("bash", short), ...tools.flatMap((name, i) => round(name, long(i)))];
    assert.deepEqual(s06.microCompact(messages, 0, 2), { cleared: 2, saved: 377 });
    const kept = [short, "[Previous: used bash]", long(1), "[Previous: used read_file]", ...[3, 4, 5, 6].map(long)];
    assert.deepEqual(contents(messages), kept);
  });

  test("keeps the line that says where a result was saved, and clears nothing twice", () => {
    const place = `Output too large. Saved to: .transcripts/outputs/${"x".repeat(60)}.txt`;
    const messages = [place, "2", "3", "4", "5"].flatMap((text) => round("bash", `${text}\n${long(1)}`));
    assert.equal(s06.microCompact(messages).cleared, 1);
    assert.equal(contents(messages)[0], `[Previous: used bash]\n${place}`);
    assert.equal(s06.microCompact(messages).cleared, 0);
  });

  test("changes nothing if that saves too little", () => {
    const messages = [1, 2, 3, 4, 5].flatMap((digit) => round("bash", long(digit)));
    const before = structuredClone(messages);
    assert.deepEqual(s06.microCompact(messages, 96), { cleared: 0, saved: 0 }); // 379 characters less, 4 a token
    assert.deepEqual(messages, before);
    assert.equal(s06.microCompact(messages, 95).cleared, 1);
  });

  test("acts in a turn that is past its limit, strips thinking and keeps the notes in it as text", async () => {
    fileOf("a.txt", 3_500);
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "12000" }));
    const four = Array(4).fill(use("read_file", { path: "a.txt" }));
    const step = call({ type: "thinking", thinking: "I note this" }, { type: "redacted_thinking" }, ...four);
    const { error, sent, printed } = await talk.ask("go", step, step, step, say("done"));
    assert.deepEqual([error, kinds(sent)], [undefined, "call call call call"]);
    assert.match(printed, /\[micro_compact\] cleared 5 old tool results \(~5,[0-9]{3} tokens\)/);
    const last = sent.at(-1)?.messages ?? [];
    assert.equal(contents(last).filter((text) => text === "[Previous: used read_file]").length, 5);
    assert.deepEqual(thinkingIn(last), []);
    assert.deepEqual(textsOf(last[1]), ["I note this"]);
  });
});

describe("layer 2", () => {
  test("acts past 50,000 tokens when a request arrives, within a turn only when the window is full", async () => {
    fileOf("a.txt", 45_000);
    const lesson = await load({ CONTEXT_WINDOW: "100000" }); // 67,000 within a turn
    const reads = (times: number): Reply[] => Array(times).fill(read("a.txt"));
    const first = talkTo(lesson);
    assert.equal(kinds((await first.ask("go", ...reads(4), say("done"))).sent), "call call call call call");
    assert.equal(kinds((await first.ask("go on", say("Sum."), say("done"))).sent), "summary call");
    const { sent } = await talkTo(lesson).ask("go", ...reads(5), say("Sum."), say("done"));
    assert.equal(kinds(sent), "call call call call call summary call");
  });

  test("asks with the same prompt and one message more, so that the prompt cache is read", async () => {
    const talk = await longTalk();
    const prompt = structuredClone(talk.messages);
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    const [summary] = sent;
    assert.deepEqual([summary?.system, summary?.tools], [small.SYSTEM, small.TOOLS]);
    assert.deepEqual(summary?.messages.slice(0, -1), [...prompt, user("second")]);
    assert.ok(thinkingIn(summary?.messages ?? []).length > 0, "nothing is changed for it");
    assert.ok(server.journal.at(-2)?.usage?.cache_read_input_tokens, "read from the cache");
  });

  test("leaves the summary, the todos, the files read last, the request itself and the round without an answer", async () => {
    fileOf("kept.txt", 900);
    const talk = talkTo(small);
    const items = [{ text: "compact", status: "in_progress" }];
    const first = call(use("todo", { items }), use("read_file", { path: "kept.txt" }), use("bash", { command: LONG }));
    const { sent, printed } = await talk.ask("do it", first, read("none.txt"), say("A summary."), say("done"));
    assert.equal(kinds(sent), "call call summary call");
    const [compressed, request, ...tail] = sent.at(-1)?.messages ?? [];
    const file = talk.transcript.file.slice(folder.length + 1);
    const head = `[Conversation compressed. Transcript: ${file}]\n\nA summary.`;
    const restored = `<file path="kept.txt" offset="1">\n${readFileSync("kept.txt", "utf8")}\n</file>`;
    assert.deepEqual(textsOf(compressed), [head, "[>] #1: compact\n(0/1 completed)", restored]);
    assert.deepEqual([compressed?.role, request], ["user", user("do it")]);
    assert.equal(tail.map(({ role }) => role).join(), "assistant,user");
    assert.match(contents(tail)[0] ?? "", /none\.txt/);
    assert.match(printed, /\[auto_compact triggered\]\n\[transcript saved: \.transcripts.*\]\ncontext: ~[\d,]+ tokens/);
    const [{ trigger, messages }] = compactions(talk.transcript.file);
    assert.deepEqual([trigger, messages], ["auto", sent.at(-1)?.messages]);
  });

  test("restores the three files touched last as they are on disk now: the lines read, if they are not too long", async () => {
    const lines = (first: string) => `${first}\n2\n3\n4`;
    for (let i = 1; i <= 9; i++) writeFileSync(`${i}`, lines("old"));
    fileOf("long", 3_000);
    const edit = use("edit_file", { path: "8", old_text: "old", new_text: "edited" });
    const reads = ["1", "2", "3", "4", "5", "6", "8", "9", "long", "1"].map((path) => use("read_file", { path }));
    const part = use("read_file", { path: "7", offset: 2, limit: 2 });
    const talk = talkTo(small);
    await talk.ask("go", call(...reads, edit, part), say("done"));
    writeFileSync("1", lines("new"));
    rmSync("9");
    await talk.compact(say("A summary."));
    assert.deepEqual(textsOf(talk.messages[0]).slice(1), [
      '<file path="7" offset="2">\n2\n3\n[1 more lines: go on with offset 4]\n</file>',
      `<file path="8" offset="1">\n${lines("edited")}\n</file>`,
      `<file path="1" offset="1">\n${lines("new")}\n</file>`,
    ]);
  });

  test("whose summary is refused, cut, empty, a call, too long or an error leaves the history as it was", async () => {
    const fine = say("A summary.");
    const bad: [Reply, Failure][] = [
      [fine, { kind: "refusal" }],
      [fine, { kind: "max_tokens" }],
      [fine, { kind: "status", status: 400 }],
      [say(" \n"), PASS],
      [{ ...call(...fine.content, use("bash", { command: "touch ran" })), stop_reason: "end_turn" }, PASS],
      [say("longer ".repeat(3_500)), PASS],
    ];
    expectRejection(/Bad request/);
    for (const [summary, failure] of bad) {
      const talk = await longTalk();
      const before = structuredClone(talk.messages);
      server.fail(failure);
      const replies = failure.kind === "status" ? [say("done")] : [summary, say("done")];
      const { error, printed, sent } = await talk.ask("second", ...replies);
      assert.deepEqual([error, kinds(sent)], [undefined, "summary call"], JSON.stringify(failure));
      assert.match(printed, /\[compaction failed: /);
      assert.deepEqual(talk.messages.slice(0, 3), [...before, user("second")]);
    }
    assert.equal(existsSync("ran"), false);
  });

  test("that fails three times in a row stays off until the user asks for it", async () => {
    const talk = await longTalk();
    const bad = say(" ");
    for (let i = 0; i < 3; i++) assert.equal(kinds((await talk.ask("go on", bad, say("ok"))).sent), "summary call");
    assert.equal(kinds((await talk.ask("go on", say("ok"))).sent), "call");
    assert.equal((await talk.compact(say("A summary."))).value, true);
    await talk.ask("more", say("words ".repeat(3_500)));
    assert.equal(kinds((await talk.ask("go on", say("Sum."), say("ok"))).sent), "summary call");
  });

  test("is not tried when it would free too little", async () => {
    const { sent } = await talkTo(small).ask("words ".repeat(4_000), read("none.txt"), read("none.txt"), say("ok"));
    assert.equal(kinds(sent), "call call call");
  });
});

describe("layer 3", () => {
  test("acts after the round in which the model calls compact, and keeps its focus", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(200)));
    const replies = [call(use("compact", { focus: "the names" })), say("A summary."), say("done")];
    const { sent, printed, error } = await talk.ask("second", ...replies);
    assert.deepEqual([error, kinds(sent)], [undefined, "call summary call"]);
    assert.match(textsOf(sent[1]?.messages.at(-1)).at(-1) ?? "", /\nAbove all, keep: the names$/);
    assert.match(printed, /\[manual compact\]/);
    assert.deepEqual(talk.messages[1], user("second"));
    assert.equal(compactions(talk.transcript.file)[0].trigger, "tool");
    assert.equal(kinds((await talk.ask("third", say("ok"))).sent), "call"); // once
  });

  test("measures before it strips the thinking", async () => {
    const talk = talkTo(s06);
    await talk.ask("go", call({ type: "thinking", thinking: "hm ".repeat(3_000) }, { type: "text", text: "done" }));
    const before = s06.estimateTokens(talk.messages, talk.options);
    await talk.compact(say("A summary."));
    const [entry] = compactions(talk.transcript.file);
    assert.equal(entry.before, before);
    assert.ok(entry.after < entry.before / 2, `${entry.after}`);
  });
});

describe("a prompt that is too long after all", () => {
  const LOST = /\(No summary/;
  let from = 0;
  beforeEach(() => {
    from = server.journal.length;
  });
  afterEach(() => {
    const rejected = server.journal.splice(from).flatMap(({ status, error = "" }) => (status === 200 ? [] : error));
    for (const error of rejected) assert.match(error, /^prompt is too long|exceed context limit/);
  });

  test("because of a new request is compacted, with a summary of what was there before", async () => {
    const { ask, compressed, messages } = await longTalk(s06);
    server.contextLimit = 8_500;
    const { error, printed } = await ask("second ".repeat(700), say("A summary."), say("done"));
    assert.equal(error, undefined);
    assert.match(printed, /\[auto_compact triggered\]/);
    assert.match(compressed(), /\n\nA summary\.$/);
    assert.match(textsOf(messages[1])[0] ?? "", /^second/);
  });

  test("is only cleared by layer 1 if that is enough", async () => {
    fileOf("a.txt", 12_000);
    server.contextLimit = 20_000;
    const { error, sent } = await talkTo(s06).ask("go", ...Array(5).fill(read("a.txt")), say("done"));
    assert.deepEqual([error, kinds(sent)], [undefined, "call ".repeat(7).trim()]);
    assert.equal(contents(sent.at(-1)?.messages)[0], "[Previous: used read_file]");
  });

  test("and a reply that the window cuts are one case", async () => {
    const { ask, compressed } = await longTalk(s06);
    server.contextLimit = 9_000;
    const reply = say("a long reply ".repeat(500));
    const { error } = await ask("second", (request) => (asksForSummary(request) ? say("A summary.") : reply));
    assert.equal(error, undefined);
    assert.match(compressed(), /\n\nA summary\.$/);
  });

  test("for its summary too is sent with old results cleared; the turn at last goes on without one", async () => {
    fileOf("a.txt", 6_000);
    const talk = talkTo(s06);
    await talk.ask("go", ...Array(5).fill(read("a.txt")), say("done"));
    const before = structuredClone(talk.messages);
    server.contextLimit = 10_000;
    const { sent } = await talk.compact(say("A summary."));
    assert.equal(contents(sent.at(-1)?.messages)[0], "[Previous: used read_file]");
    assert.match(talk.compressed(), /\n\nA summary\.$/);

    const lost = talkTo(s06, before, talk.options);
    server.contextLimit = 5_000;
    assert.equal((await lost.ask("go on", say("ok"))).error, undefined);
    assert.match(lost.compressed(), /Transcript: \.transcripts\/transcript_\d+_\d+\.jsonl\]\n\n\(No summary/);
  });

  for (const [size, window] of Object.entries({ 58000: 20_000, 49000: 16_000 })) {
    test(`through one result of ${size} characters does not end the conversation`, async () => {
      fileOf("a.txt", Number(size));
      server.contextLimit = window;
      const talk = talkTo(s06);
      const options = optionsFor(s06);
      assert.equal((await talk.ask("read it", read("a.txt"), say("done"))).error, undefined);
      assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
      const resumed = talkTo(s06, (await watch(() => s06.resume(talk.transcript.file, options))).value, options);
      assert.equal((await resumed.ask("go on", say("ok"))).error, undefined);
      if (size === "58000") assert.doesNotMatch(resumed.compressed(), LOST);
      assert.equal((await talk.compact(say("A summary."))).value, true);
      assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
    });
  }

  test("does not come up where max_tokens counts, if CONTEXT_WINDOW is set", async () => {
    fileOf("a.txt", 9_000);
    Object.assign(server, { contextLimit: 32_000, countsMaxTokens: true });
    const { ask, compressed } = talkTo(await load({ CONTEXT_WINDOW: "32000" }));
    for (let i = 0; i < 8; i++) {
      assert.equal((await ask("read it", answering(read("a.txt"), say("done")))).error, undefined);
    }
    assert.match(compressed(), /\n\nA summary\.$/);
  });

  test("where max_tokens counts, without CONTEXT_WINDOW, does not cost the history", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(500)));
    const last = talk.messages.map((message) => textsOf(message).at(-1));
    Object.assign(server, { contextLimit: 32_000, countsMaxTokens: true });
    assert.match((await talk.ask("second")).error ?? "", /exceed context limit/);
    await talk.compact();
    assert.deepEqual(
      talk.messages.map((message) => textsOf(message).at(-1)),
      last,
    );
  });

  const refused: Reply = { ...say("A summary."), stop_reason: "refusal" };
  const bad = { "a call": call(use("bash", { command: "true" })), "a refusal": refused };
  for (const [what, summary] of Object.entries(bad)) {
    test(`works in every later turn, though each summary is ${what}`, async () => {
      fileOf("a.txt", 9_000);
      server.contextLimit = 20_000;
      const { ask, messages } = talkTo(await load({ COMPACT_THRESHOLD: "15000" }));
      for (let i = 0; i < 9; i++) {
        assert.equal((await ask("read it", answering(read("a.txt"), say("done"), summary))).error, undefined);
      }
      assert.equal(contents(messages)[0], "[Previous: used read_file]");
      assert.doesNotMatch(JSON.stringify(messages), LOST);
    });
  }
});

describe("in a pause", () => {
  /** Lets so many seconds pass after a reply, on a clock that only the test moves. `compacted` is when it is over. */
  async function pause({ lesson, messages, options }: ReturnType<typeof talkTo>, seconds: number, isBack = false) {
    server.model = scripted(say("A summary."));
    const from = server.journal.length;
    let [end, redraw] = [async () => {}, () => {}];
    const compacted = new Promise<void>((resolve) => {
      redraw = resolve;
    });
    const { printed } = await harness.capture(async () => {
      mock.timers.enable({ apis: ["setTimeout"] });
      end = lesson.compactInPause(messages, options, redraw);
      if (isBack) end();
      mock.timers.tick(seconds * 1_000);
      mock.timers.reset(); // real time again, for all that is under way
    });
    return { end, printed, compacted, sent: () => server.journal.slice(from) };
  }

  test("of four minutes a conversation is compacted once, while its cache is warm", async () => {
    const talk = await longTalk();
    const { printed } = await harness.capture(async () => {
      assert.equal((await pause(talk, 239)).sent().length, 0);
      const { compacted, sent } = await pause(talk, 2_000);
      await compacted;
      assert.equal(kinds(sent().map(({ request }) => request)), "summary");
      assert.ok(sent()[0]?.usage?.cache_read_input_tokens);
    });
    assert.match(printed, /\[transcript saved: /);
    assert.match(talk.compressed(), /\n\nA summary\.$/);
    assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
  });

  test("nothing happens below 25,000 tokens, nor when the user is back", async () => {
    const [short, long] = [talkTo(s06), await longTalk()];
    await short.ask("first", say("words ".repeat(11_000)));
    for (const talk of [short, long]) {
      const { printed, sent } = await pause(talk, 400, talk === long);
      assert.deepEqual([printed, sent()], ["", []]);
    }
    assert.deepEqual([s06.PAUSE_THRESHOLD, small.PAUSE_THRESHOLD], [25_000, 6_000]);
  });

  test("a request ends the compaction that is under way, and the history is as it was", async () => {
    const talk = await longTalk();
    const before = structuredClone(talk.messages);
    server.fail({ kind: "slow", delay: 1_000_000 });
    const { sent, end } = await pause(talk, 240);
    await harness.until(() => sent().length === 1);
    await harness.capture(end);
    assert.deepEqual([talk.messages, talk.transcript.failures], [before, 0]);
  });
});

test("a subagent compacts by the same rules", async () => {
  fileOf("a.txt", 3_000);
  const child = [call(use("bash", { command: LONG })), read("a.txt"), say("A summary."), say("found")];
  const talk = talkTo(small);
  const { sent, printed } = await talk.ask("go", call(use("task", { prompt: "find it" })), ...child, say("done"));
  assert.equal(kinds(sent), "call call call summary call call");
  assert.match(printed, /\n {2}\[auto_compact triggered\]\n/);
  assert.deepEqual(contents(talk.messages), ["found"]);
  const [name = ""] = readdirSync(join(TRANSCRIPT_DIR, "tasks"));
  const [compressed, request] = sent[4]?.messages ?? [];
  assert.match(textsOf(compressed)[0] ?? "", new RegExp(`Transcript: \\.transcripts/tasks/${name}\\]`));
  assert.deepEqual(request, user("find it"));
});

test("/context shows what fills the context, kind by kind, and the limits", async () => {
  fileOf("a.txt", 3_000);
  const talk = talkTo(s06);
  await talk.ask("first", say("ok"));
  await talk.compact(say("S."));
  await talk.ask("read it", read("a.txt"), say("done"));
  const drawn = s06.drawContext(talk.messages, talk.options);
  const rows = [...drawn.matchAll(/^(\S.*?) +█+ ([\d,]+)$/gm)];
  const shown = "system and tools, summary, requests, replies, results of read_file";
  assert.equal(rows.map(([, kind]) => kind).join(", "), shown);
  const total = s06.estimateTokens(talk.messages, talk.options);
  const sum = rows.reduce((sum, [, , tokens = ""]) => sum + Number(tokens.replace(",", "")), 0);
  assert.ok(Math.abs(sum - total) < total / 20, `${sum} of ${total}`);
  assert.match(drawn, /\ncontext: ~[\d,]+ tokens; compacted above 50,000 when a request .*, else above 167,000$/);
});

describe("--resume", () => {
  /** What a transcript continues as, and what the user reads. */
  async function resume(file: string) {
    const options = optionsFor(s06);
    const { value, printed, sent, error = "" } = await watch(() => s06.resume(file, options));
    assert.deepEqual(sent, [], "it does nothing by itself");
    return { ...talkTo(s06, value, options), printed, error };
  }

  test("goes on in a new transcript; the old one stays as it was, so two may resume it at once", async () => {
    const talk = await longTalk();
    const { file } = talk.transcript;
    const old = readFileSync(file);
    const both = [await resume(file), await resume(file)];
    for (const { ask } of both) assert.equal((await ask("go on", say("ok"))).error, undefined);
    assert.deepEqual(readFileSync(file), old);
    assert.equal(new Set([file, ...both.map(({ transcript }) => transcript.file)]).size, 3);
    for (const { transcript } of both) {
      assert.equal(linesOf(transcript.file).length, 3);
      assert.equal((await resume(transcript.file)).messages.length, 4);
    }
  });

  test("shows the last request and the size, and brings back characters per token and todos", async () => {
    const talk = talkTo(s06);
    const items = [{ text: "one", status: "in_progress" as const }];
    server.reportedUsage = { input_tokens: 5_000 };
    await talk.ask("make it", call(use("todo", { items })), say("made"));
    s06.TODO.items = [];
    const { transcript, printed, messages, options } = await resume(talk.transcript.file);
    assert.ok(transcript.charsPerToken < 1);
    assert.equal(transcript.charsPerToken, talk.transcript.charsPerToken);
    assert.deepEqual(s06.TODO.items, items);
    const size = s06.estimateTokens(messages, options).toLocaleString("en-US");
    assert.match(printed, /^\[resumed \.transcripts\/transcript_\d+_\d+\.jsonl: /);
    assert.ok(printed.endsWith(`: ~${size} tokens. The last request was: make it]\n`), printed);
  });

  test("begins at the last compaction, also if that holds the last request", async () => {
    const talk = await longTalk();
    await talk.compact(say("A summary."));
    const { messages, printed } = await resume(talk.transcript.file);
    assert.deepEqual(messages, talk.messages);
    assert.doesNotMatch(printed, /undefined/);
    await talk.ask("second", say("ok"));
    const second = await resume(talk.transcript.file);
    assert.equal(second.messages.length, 3);
    assert.match(second.printed, /The last request was: second\]/);
  });

  test("skips a torn last line, answers the calls without an answer and strips thinking", async () => {
    const talk = talkTo(s06);
    const calls = ["a", "b"].map((id) => use("bash", { command: "true" }, id));
    await talk.ask("go", call(...calls), say("done"));
    const lines = readFileSync(talk.transcript.file, "utf8").split("\n");
    writeFileSync("old.jsonl", `${lines.slice(0, 2).join("\n")}\n${lines[2]?.slice(0, 30)}`);
    const { messages, ask } = await resume("old.jsonl");
    const answers = ["a", "b"].map((id) => ({ id, text: "(interrupted; it may have run)", failed: true }));
    assert.deepEqual(resultsIn(messages), answers);
    assert.deepEqual(thinkingIn(messages), []);
    assert.equal((await ask("go on", say("ok"))).error, undefined);
  });

  test("of a file without messages, or of none, is an error that names it", async () => {
    writeFileSync("empty.jsonl", "");
    assert.match((await resume("empty.jsonl")).error, /--resume: empty\.jsonl contains no messages; name another file/);
    assert.match((await resume("none.jsonl")).error, /none\.jsonl/);
  });
});

describe("the program", { concurrency: true }, () => {
  const lesson = "s06_context_compact";
  const lines = [user("make it"), { role: "assistant", content: "made" }].map((line) => {
    return `${JSON.stringify({ ...line, charsPerToken: 3, todos: [] })}\n`;
  });
  const files = { "old.jsonl": lines.join("") };

  test("knows /context, /help and /compact, which are no requests", async (t) => {
    const input = "/compact\nhello\n/compact the names\n/context\n/help\n";
    const run = await start(t, lesson, [], { replies: [say("hi"), say("S.")], input });
    assert.equal(await run.ended, 0);
    assert.match(
      run.screen(),
      /\[nothing to compact yet\].*\[manual compact\].*summary +█+.*At the prompt: \/context/s,
    );
    assert.equal(kinds(run.journal.map(({ request }) => request)), "call summary");
    assert.match(textsOf(run.journal[1]?.request.messages.at(-1)).at(-1) ?? "", /keep: the names$/);
  });

  for (const flags of [[], ["-y"]]) {
    test(`shows what --resume ${flags} continues and does nothing by itself`, async (t) => {
      const run = await start(t, lesson, [...flags, "--resume", "old.jsonl"], { files, input: "" });
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /^\[resumed old\.jsonl: ~[\d,]+ tokens\. The last request was: make it\]\n/);
      assert.deepEqual(run.journal, []);
    });
  }

  test("says that there is no transcript to resume", async (t) => {
    const run = await start(t, lesson, ["--resume"], { input: "" });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /--resume: no transcript in .*\.transcripts; run without --resume/);
  });
});
