// What the agent forgets, when, and what it must not forget. A lesson with other limits is a copy with other variables.

import assert from "node:assert/strict";
import fs, {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, mock, type TestContext } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Model, type Reply, scripted } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { blocksOf, call, expectRejection, folder, optionsFor, resultsIn, say, server, start, step, test, use, user } =
  harness;
type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

let copies = 0;
/** Imports a copy of the lesson with these variables in its environment. */
async function load(env: Record<string, string> = {}): Promise<Lesson> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await import(`../agents/s06_context_compact.ts?copy=${copies++}`);
  } finally {
    for (const name of Object.keys(env)) process.env[name] = before[name] ?? "";
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
    watch(() => lesson.runTurn(messages, request, options), said);
  const compact = (...said: Reply[]) => watch(() => lesson.autoCompact(messages, "manual", options), said);
  const compressed = () => textsOf(messages[0])[0] ?? "";
  return { lesson, messages, options, state: options.state, ask, compact, compressed };
}
/** A conversation whose next request is past the limit of 6,000 tokens, though not for the sake of results. */
async function longTalk(lesson = small) {
  const talk = talkTo(lesson);
  await talk.ask("words ".repeat(3_500), say("ok"));
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
/** The history as a transcript has it: its last compaction, and what came after. */
function historyIn(file: string): Messages {
  const lines = linesOf(file);
  const last = lines.findLastIndex(({ type }) => type === "compaction");
  return [...(lines[last]?.messages ?? []), ...lines.slice(last + 1).map(({ role, content }) => ({ role, content }))];
}
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

step("estimateTokens");
describe("the limit", () => {
  test("is computed from the window; COMPACT_THRESHOLD lowers it; in a cold cache it is 50,000 tokens", async () => {
    const limits = async (env: Record<string, string>) => {
      const { THRESHOLD, COLD_THRESHOLD } = await load(env);
      return [THRESHOLD, COLD_THRESHOLD];
    };
    assert.equal(s06.autoCompactThreshold(200_000, 32_000), 167_000);
    assert.equal(s06.autoCompactThreshold(1_000_000, 8_000), 979_000);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "" }), [167_000, 50_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "50000" }), [50_000, 25_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "9000" }), [9_000, 4_500]);
    assert.deepEqual(await limits({ CONTEXT_WINDOW: "1000000" }), [967_000, 50_000]);
    assert.deepEqual(await limits({ CONTEXT_WINDOW: "20000" }), [8_000, 4_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "90000", CONTEXT_WINDOW: "100000" }), [67_000, 33_500]);
  });

  test("leaves a reply at most a quarter of the window", async () => {
    for (const [window, most] of Object.entries({ 20000: 5_000, 32001: 8_000, 500000: 32_000 })) {
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
      return talk.state.charsPerToken;
    };
    for (const input_tokens of [0, 1, 1_000_000, undefined]) {
      const found = await ratio({ input_tokens });
      assert.ok(found >= 0.5 && found <= 10, `${input_tokens}: ${found}`);
    }
  });

  step("compactIfNeeded");
  test("on a server that reports 1 still compacts in time", async () => {
    server.reportedUsage = { input_tokens: 1 };
    const talk = talkTo(small);
    await talk.ask("words ".repeat(12_000), say("ok"));
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
  });
});

describe("a transcript", () => {
  step("saveLargeResults");
  test("has every message as it entered the history, before any layer shortens it", async () => {
    fileOf("a.txt", 60_000);
    const talk = talkTo(s06);
    const calls = call({ type: "thinking", thinking: "look" }, use("read_file", { path: "a.txt" }));
    await talk.ask("read it", calls, say("done"));
    const written = linesOf(talk.state.file);
    assert.deepEqual(written.map(({ role }) => role[0]).join(""), "uaua");
    assert.match(contents(talk.messages)[0] ?? "", /^Output too large/);
    const [, place = ""] = /Saved to: (.*)/.exec(contents(talk.messages)[0] ?? "") ?? [];
    assert.equal(readFileSync(place, "utf8"), readFileSync("a.txt", "utf8"));
    assert.deepEqual(historyIn(talk.state.file), talk.messages);
    assert.equal(written[1].content[0].type, "thinking");
  });

  step("compactIfNeeded");
  test("has a line for every rewrite, with the sizes and the limit, so that it shows what the history was", async () => {
    fileOf("a.txt", 3_500);
    const four = call(...Array(4).fill(use("read_file", { path: "a.txt" })));
    const sum = say("A summary.");
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "12000" }));
    const before = new Map<string, number>(); // tokens
    const step = async (trigger: string, work: () => Promise<unknown>) => {
      await work();
      const entry = compactions(talk.state.file).at(-1);
      assert.equal(entry.trigger, trigger);
      assert.deepEqual(historyIn(talk.state.file), talk.messages, trigger);
      assert.equal(entry.limit, 12_000, trigger);
      before.set(trigger, entry.before - entry.after);
    };
    await step("micro", () => talk.ask("read", four, four, four, say("done")));
    await step("auto", () => talk.ask("words ".repeat(3_500), sum, say("words")));
    await step("tool", () => talk.ask("now", call(use("compact", {})), sum, say("words ".repeat(100))));
    await step("manual", () => talk.compact(sum));
    await step("refused", () => {
      server.fail({ kind: "refusal" });
      return talk.ask("something forbidden", say("no"));
    });
    await step("rejected", () => {
      expectRejection(/Bad request/);
      server.fail({ kind: "status", status: 400 });
      return talk.ask("something wrong");
    });
    for (const trigger of ["micro", "auto", "manual"]) assert.ok((before.get(trigger) ?? 0) > 0, trigger);
    assert.doesNotMatch(JSON.stringify(talk.messages), /forbidden|wrong/);
  });

  test("says in fields what a reply cost, what a layer cleared, and what a summary says, cost and kept", async () => {
    fileOf("a.txt", 3_500);
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "12000" }));
    const four = call(...Array(4).fill(use("read_file", { path: "a.txt" })));
    await talk.ask("read", four, four, four, say("done"));
    const ids = resultsIn(linesOf(talk.state.file).filter(({ role }) => role)).map(({ id }) => id);
    const replies = linesOf(talk.state.file).filter(({ role }) => role === "assistant");
    const usages = server.journal.slice(-4).map(({ usage }) => usage?.input_tokens);
    assert.deepEqual(
      replies.map(({ model, usage }) => [model, usage.input_tokens]),
      usages.map((tokens) => [s06.MODEL, tokens]),
    );
    const [micro] = compactions(talk.state.file);
    assert.deepEqual([micro.cleared, micro.summary], [ids.slice(0, 5), undefined]);
    await talk.ask("and now", call(use("compact", {})), say("A summary."), say("ok"));
    const last = compactions(talk.state.file).at(-1);
    assert.deepEqual([last.summary, last.model, last.kept], ["A summary.", s06.MODEL, 3]);
    assert.equal(last.usage.output_tokens, server.journal.at(-2)?.usage?.output_tokens);
    assert.deepEqual(last.messages.slice(-3), talk.messages.slice(1, 4));
  });

  step("restoreFiles");
  test("has files and todos in the lines that change them, and in each that begins or rewrites a history", async () => {
    fileOf("a.txt", 20);
    const talk = talkTo(s06);
    const items = [{ text: "one", status: "pending" }];
    await talk.ask("go", read("a.txt"), call(use("todo", { items })), say("words ".repeat(50)));
    await talk.compact(say("S."));
    const known = linesOf(talk.state.file).map(({ files, todos }) => [files, todos]);
    const nothing = [undefined, undefined];
    assert.deepEqual(known, [
      [[], []],
      nothing,
      [["a.txt"], []],
      nothing,
      [["a.txt"], items],
      nothing,
      [["a.txt"], items],
    ]);
  });

  step("saveLargeResults");
  test("is not left behind empty when the disk is full", async () => {
    for (const name of ["appendFileSync", "writeFileSync"] as const) {
      mock.method(fs, name, (file: string) => {
        closeSync(openSync(file, "w"));
        throw new Error("ENOSPC: no space left on device");
      });
      for (let i = 0; i < 3; i++) await talkTo(s06).ask("first", say("ok"));
      mock.restoreAll();
      assert.deepEqual(readdirSync(TRANSCRIPT_DIR), []);
    }
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

  step("resume");
  test("that cannot be written is told once, and begins with the whole history when it can", async () => {
    const talk = talkTo(s06);
    const saved = await talk.ask("first", say("ok"));
    assert.doesNotMatch(saved.printed, /not saved/);
    const { appendFileSync } = fs;
    mock.method(fs, "appendFileSync", (file: string, text: string) => {
      appendFileSync(file, text.slice(0, 20));
      throw new Error("ENOSPC: no space left on device");
    });
    const full = await talk.ask("second", read("none.txt"), say("words ".repeat(100)));
    assert.equal(full.error, undefined);
    assert.equal(full.printed.match(/\[not saved: ENOSPC.*; the conversation goes on\]/g)?.length, 1);
    await talk.compact(say("Sum."));
    assert.equal(talk.compressed(), "[Conversation compressed. Transcript: (not written)]\n\nSum.");
    await talk.ask("third", say("words ".repeat(100)));
    const before = structuredClone(talk.messages);
    mock.restoreAll();
    const free = await talk.compact(say("Sum."));
    const [first, second] = linesOf(talk.state.file);
    assert.deepEqual([first.trigger, first.messages, second.trigger], ["resume", before, "manual"]);
    const place = talk.state.file.slice(folder.length + 1);
    assert.match(free.printed, new RegExp(`\\[transcript saved: ${place}\\]`));
    await talk.ask("fourth", say("ok"));
    assert.deepEqual(historyIn(talk.state.file), talk.messages);
    const { value } = await watch(() => s06.resume(talk.state.file, optionsFor(s06)));
    assert.deepEqual(value, talk.messages.map(s06.withoutThinking));
  });

  test("that was deleted begins again with the whole history, and the user is told once", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("one"));
    rmSync(TRANSCRIPT_DIR, { recursive: true });
    const { printed } = await talk.ask("second", read("none.txt"), say("two"));
    assert.equal(printed.match(/\[the transcript is gone; a new one begins with the whole history\]/g)?.length, 1);
    assert.equal(linesOf(talk.state.file)[0].trigger, "resume");
    assert.deepEqual(historyIn(talk.state.file), talk.messages);
    const { value } = await watch(() => s06.resume(talk.state.file, optionsFor(s06)));
    assert.deepEqual(value, talk.messages.map(s06.withoutThinking));
  });

  step("saveLargeResults");
  for (const [name, what] of [
    [".transcripts", "the folder"],
    [".transcripts/outputs", "the folder for large results"],
  ] as const) {
    test(`writes nothing through a link: ${what} is one, so the user is told`, async (t) => {
      const outside = realpathSync(mkdtempSync(join(tmpdir(), "outside-")));
      t.after(() => rmSync(outside, { recursive: true }));
      fileOf("a.txt", 51_000);
      if (name !== ".transcripts") mkdirSync(TRANSCRIPT_DIR);
      for (const target of [outside, join(folder, "elsewhere")]) {
        if (target !== outside) mkdirSync(target);
        symlinkSync(target, name);
        const talk = talkTo(s06);
        const { error, printed } = await talk.ask("go", read("a.txt"), say("done"));
        assert.equal(error, undefined);
        assert.match(printed, /not saved: .*(outside the workspace|is, or is in, a link).*\]/);
        const { length = 0 } = contents(talk.messages)[0] ?? "";
        assert.ok(length > 49_000 && length <= 50_000, `${length}`);
        assert.deepEqual(readdirSync(target), []);
        rmSync(name);
      }
    });
  }

  test("does not touch what a repository has put in the place of its .gitignore", async () => {
    mkdirSync(TRANSCRIPT_DIR);
    symlinkSync("../victim", `${TRANSCRIPT_DIR}/.gitignore`);
    for (const text of ["precious", ""]) {
      if (text) writeFileSync("victim", text);
      assert.equal((await talkTo(s06).ask("hello", say("hi"))).error, undefined);
      assert.equal(existsSync("victim") && readFileSync("victim", "utf8"), text || false, "what a link points to");
      rmSync("victim", { force: true });
    }
    rmSync(`${TRANSCRIPT_DIR}/.gitignore`);
    writeFileSync(`${TRANSCRIPT_DIR}/.gitignore`, "my own");
    assert.equal((await talkTo(s06).ask("hello", say("hi"))).error, undefined);
    assert.equal(readFileSync(`${TRANSCRIPT_DIR}/.gitignore`, "utf8"), "my own");
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
      /^Output too large\. Saved to: \S+\/outputs\/\d+_call_1\.txt\nHEADx+\n\[.* cut here.*\]\nx+TAIL$/,
    );
    assert.ok(preview.length < 2_200, `${preview.length}`);
    const [, place = ""] = /Saved to: (.*)/.exec(preview) ?? [];
    assert.equal(readFileSync(place, "utf8"), readFileSync("a.txt", "utf8"));
    assert.deepEqual(contents(messages), [preview]);
  });

  test("of two sessions in which a call has the same id does not share a file", async () => {
    for (const content of ["one ", "two "]) {
      writeFileSync("a.txt", content.repeat(13_000));
      await talkTo(s06).ask("go", call(use("read_file", { path: "a.txt" }, "call_1")), say("done"));
    }
    const names = readdirSync(join(TRANSCRIPT_DIR, "outputs"));
    const texts = names.map((name) => readFileSync(join(TRANSCRIPT_DIR, "outputs", name), "utf8").slice(0, 4));
    assert.deepEqual(texts.sort(), ["one ", "two "]);
  });

  test("of one round counts together: the longest go to disk until the rest fits", async () => {
    const sizes = [35_000, 48_000, 42_000];
    for (const [i, size] of sizes.entries()) fileOf(`${i}.txt`, size);
    const reads = (...names: string[]) => call(...names.map((path) => use("read_file", { path })));
    const { messages, ask } = talkTo(s06); // 40,000 tokens of 3 characters
    await ask("go", reads("0.txt", "1.txt"), reads("0.txt", "1.txt", "2.txt"), say("done"));
    const kept = contents(messages).map((text) => (text.startsWith("Output too large") ? "disk" : text.length));
    assert.deepEqual(kept, [35_000, 48_000, 35_000, "disk", 42_000]);
  });
});

step("microCompact");
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
    const before = structuredClone(messages);
    const kept = [short, "[Previous: used bash]", long(1), "[Previous: used read_file]", ...[3, 4, 5, 6].map(long)];
    assert.deepEqual(contents(s06.microCompact(messages)), kept);
    assert.deepEqual(messages, before, "it returns a copy");
  });

  test("goes by the call before each result, where a server gives the same ids again and again", () => {
    const same = (name: string, content: string) => {
      const [calls, results] = round(name, content);
      const [call, result] = [calls, results].flatMap((each) => (each ? blocksOf(each) : []));
      if (call?.type === "tool_use") call.id = "call_0";
      if (result?.type === "tool_result") result.tool_use_id = "call_0";
      return [calls, results].flatMap((each) => each ?? []);
    };
    const messages = ["load_skill", "bash", "read_file", "bash", "bash", "bash", "bash"].flatMap((name, i) =>
      same(name, long(i)),
    );
    const kept = [long(0), "[Previous: used bash]", "[Previous: used read_file]", ...[3, 4, 5, 6].map(long)];
    assert.deepEqual(contents(s06.microCompact(messages)), kept);
  });

  step("compactIfNeeded");
  test("changes nothing if that saves less than 40 % of the limit", async () => {
    for (const [size, cleared] of [
      [2_300, 0],
      [2_700, 3],
    ] as const) {
      fileOf("a.txt", size); // three of them are 2,400 tokens of 3 characters, or not
      const talk = talkTo(small);
      talk.state.failures = 3; // layer 2 stays off
      const { sent } = await talk.ask("words ".repeat(1_000), ...Array(7).fill(read("a.txt")), say("done"));
      const { messages = [] } = sent.at(-1) ?? {};
      const count = contents(messages).filter((text) => text === "[Previous: used read_file]").length;
      assert.deepEqual([count, thinkingIn(messages).length > 0], [cleared, cleared === 0]);
    }
  });

  test("acts in a turn that is past its limit, strips thinking and keeps the notes in it as text", async () => {
    fileOf("a.txt", 3_500);
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "12000" }));
    const four = Array(4).fill(use("read_file", { path: "a.txt" }));
    const step = call({ type: "thinking", thinking: "I note this" }, { type: "redacted_thinking" }, ...four);
    const { error, sent, printed } = await talk.ask("go", step, step, step, say("done"));
    assert.deepEqual([error, kinds(sent)], [undefined, "call call call call"]);
    assert.match(printed, /\[micro_compact\] cleared old tool results \(~5,[0-9]{3} tokens\)/);
    const last = sent.at(-1)?.messages ?? [];
    assert.equal(contents(last).filter((text) => text === "[Previous: used read_file]").length, 5);
    assert.deepEqual(thinkingIn(last), []);
    assert.deepEqual(textsOf(last[1]), ["I note this"]);
  });
});

describe("layer 2", () => {
  test("acts past the limit, when a request arrives and within a turn", async () => {
    fileOf("a.txt", 6_000); // 2,000 tokens
    const reads = (times: number): Reply[] => Array(times).fill(read("a.txt"));
    const first = talkTo(small);
    assert.equal(kinds((await first.ask("go", ...reads(2), say("words ".repeat(200)))).sent), "call call call");
    assert.equal(kinds((await first.ask("words ".repeat(200), say("Sum."), say("done"))).sent), "summary call");
    const { sent } = await talkTo(small).ask("go", ...reads(3), say("Sum."), say("done"));
    assert.equal(kinds(sent), "call call call summary call");
  });

  test("asks with the same prompt and one message more, so that the prompt cache is read", async () => {
    const talk = await longTalk();
    const prompt = structuredClone(talk.messages);
    const { sent, printed } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.doesNotMatch(printed, /A summary/, "it is no reply to the user");
    const [summary] = sent;
    assert.deepEqual([summary?.system, summary?.tools], [small.SYSTEM, small.TOOLS]);
    assert.deepEqual(summary?.messages.slice(0, -1), prompt, "what the model has answered");
    assert.ok(thinkingIn(summary?.messages ?? []).length > 0, "nothing is changed for it");
    assert.ok(server.journal.at(-2)?.usage?.cache_read_input_tokens, "read from the cache");
  });

  test("leaves the summary, the todos, the files read last, the request itself and the round without an answer", async () => {
    fileOf("kept.txt", 800);
    const talk = talkTo(small);
    const items = [{ text: "compact", status: "in_progress" }];
    const first = call(use("todo", { items }), use("read_file", { path: "kept.txt" }), use("bash", { command: LONG }));
    const { sent, printed } = await talk.ask("do it", first, read("none.txt"), say("A summary."), say("done"));
    assert.equal(kinds(sent), "call call summary call");
    const [compressed, request, ...tail] = sent.at(-1)?.messages ?? [];
    const file = talk.state.file.slice(folder.length + 1);
    const head = `[Conversation compressed. Transcript: ${file}]\n\nA summary.`;
    const restored = `<file path="kept.txt">\n${readFileSync("kept.txt", "utf8")}\n</file>`;
    assert.deepEqual(textsOf(compressed), [head, "[>] #1: compact\n(0/1 completed)", restored]);
    assert.deepEqual([compressed?.role, request], ["user", user("do it")]);
    assert.equal(tail.map(({ role }) => role).join(), "assistant,user");
    assert.match(contents(tail)[0] ?? "", /none\.txt/);
    assert.match(printed, /\[auto_compact triggered\]\n\[transcript saved: \.transcripts.*\]\ncontext: ~[\d,]+ tokens/);
    const [{ trigger, messages }] = compactions(talk.state.file);
    assert.deepEqual([trigger, messages], ["auto", sent.at(-1)?.messages]);
  });

  step("restoreFiles");
  test("restores the five files touched last, whole, as they are now, the newest first", async () => {
    for (const name of ["a", "b", "c", "d", "e", "gone", "denied"]) writeFileSync(name, `one\ntwo of ${name}\nthree`);
    fileOf("long", 9_000);
    const talk = talkTo(small);
    const path = (name: string) => use("read_file", { path: name });
    const edit = use("edit_file", { path: "c", old_text: "\ntwo of c", new_text: "" });
    const wrong = use("edit_file", { path: "denied", old_text: "none", new_text: "x" });
    const part = use("read_file", { path: "b", offset: 2, limit: 1 });
    await talk.ask(
      "go",
      call(path("a"), path("gone"), path("./a"), path("d"), part, edit, wrong, path("e")),
      say("done"),
    );
    rmSync("gone");
    writeFileSync("d", "new");
    await talk.compact(say("A summary."));
    const file = (name: string, text: string) => `<file path="${name}">\n${text}\n</file>`;
    const [e, c] = [file("e", "one\ntwo of e\nthree"), file("c", "one\nthree")];
    const [b, d, a] = [file("b", "one\ntwo of b\nthree"), file("d", "new"), file("a", "one\ntwo of a\nthree")];
    assert.deepEqual(textsOf(talk.messages[0]).slice(1), [e, c, b, d, a]);
    await talk.ask("more", call(path("long"), path("a")), say("words ".repeat(100)));
    rmSync("c");
    await talk.compact(say("A second summary."));
    assert.deepEqual(textsOf(talk.messages[0]).slice(1), [a, e, b], "not one that is too long, or gone");
  });

  step("resume");
  test("restores them after --resume, too", async () => {
    for (const name of ["a", "b"]) writeFileSync(name, `text of ${name}`);
    const talk = talkTo(small);
    await talk.ask("go", call(...["a", "b"].map((path) => use("read_file", { path }))), say("words ".repeat(100)));
    const options = optionsFor(small);
    const resumed = talkTo(small, (await watch(() => small.resume(talk.state.file, options))).value, options);
    await resumed.compact(say("A summary."));
    assert.deepEqual(
      textsOf(resumed.messages[0]).slice(1),
      ["b", "a"].map((name) => `<file path="${name}">\ntext of ${name}\n</file>`),
    );
  });

  step("autoCompact");
  test("does not stumble over a call whose input is null", async () => {
    const talk = talkTo(small);
    talk.messages.push(
      user("first"),
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "read_file", input: null }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "wrong ".repeat(50) }] },
      { role: "assistant", content: [{ type: "text", text: "words ".repeat(100) }] },
    );
    expectRejection(/input: Input should be a valid dictionary/); // this server is strict
    const { error } = await talk.compact(say("A summary."));
    assert.match(error ?? "", /compaction failed: API error 400/);
    assert.deepEqual(contents(small.microCompact(talk.messages, 0)), ["[Previous: used read_file]"]);
  });

  step("compactIfNeeded");
  test("of a subagent has no todo list, which is its parent's", async () => {
    const items = [{ text: "of the parent", status: "pending" }];
    const child = [
      call(use("bash", { command: LONG })),
      call(use("bash", { command: "true" })),
      say("Sum."),
      say("found"),
    ];
    const replies = [call(use("todo", { items })), call(use("task", { prompt: "find it" })), ...child, say("done")];
    const { sent } = await talkTo(small).ask("go", ...replies);
    const compressed = sent.find(({ messages }) => /^\[Conversation compressed/.test(textsOf(messages[0])[0] ?? ""));
    assert.deepEqual(textsOf(compressed?.messages[0]).length, 1);
  });

  step("resume");
  test("works after --resume of a transcript that an earlier version wrote, without todos and files", async () => {
    const old = [user("first"), { role: "assistant", content: "words ".repeat(100) }];
    writeFileSync(
      "old.jsonl",
      old.map((line) => `${JSON.stringify({ ...line, charsPerToken: 3, places: [] })}\n`).join(""),
    );
    const options = optionsFor(small);
    const talk = talkTo(small, (await watch(() => small.resume("old.jsonl", options))).value, options);
    const { error } = await talk.compact(say("A summary."));
    assert.equal(error, undefined);
    assert.match(talk.compressed(), /A summary\./);
  });

  step("compactIfNeeded");
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
      assert.doesNotMatch(printed, /your request was taken out/);
      assert.deepEqual(talk.messages.slice(0, 3), [...before, user("second")]);
    }
    assert.equal(existsSync("ran"), false);
  });

  test("that fails three times in a row stays off until the user asks for it", async () => {
    const talk = await longTalk();
    const bad = say(" ");
    const short = talkTo(small);
    await short.ask("hello", say("words ".repeat(20)));
    for (let i = 0; i < 3; i++) await short.compact(bad);
    assert.equal(short.state.failures, 0, "a failed /compact does not count");
    for (let i = 0; i < 3; i++) assert.equal(kinds((await talk.ask("go on", bad, say("ok"))).sent), "summary call");
    assert.equal(kinds((await talk.ask("go on", say("ok"))).sent), "call");
    await talk.compact(say("A summary."));
    assert.match(talk.compressed(), /A summary\.$/);
    await talk.ask("words ".repeat(3_500), say("ok"));
    assert.equal(kinds((await talk.ask("go on", say("Sum."), say("ok"))).sent), "summary call");
  });

  test("is not tried when it would free too little", async () => {
    const { sent } = await talkTo(small).ask("words ".repeat(4_000), read("none.txt"), read("none.txt"), say("ok"));
    assert.equal(kinds(sent), "call call call");
  });

  test("waits in a small window until enough is new since the last one, as the restored files come back", async () => {
    const lesson = await load({ CONTEXT_WINDOW: "8000" });
    for (let i = 0; i < 6; i++) fileOf(`${i}.txt`, 700);
    const talk = talkTo(lesson);
    let i = 0;
    const { error } = await talk.ask("go", (request) => {
      if (asksForSummary(request)) return say("A summary. ".repeat(60));
      return i++ < 25 ? read(`${i % 6}.txt`) : say("done");
    });
    assert.equal(error, undefined);
    const [, ...saved] = compactions(talk.state.file).map(({ before, after }) => before - after);
    assert.ok(saved.length > 1 && Math.min(...saved) >= 0.38 * lesson.THRESHOLD, `${saved}`);
  });

  step("autoCompact");
  test("does not ask for a summary of what is one already", async () => {
    const talk = await longTalk();
    await talk.compact(say("A summary."));
    const before = structuredClone(talk.messages);
    const { sent, printed } = await talk.compact();
    assert.deepEqual([sent, printed, talk.messages], [[], "[nothing to compact yet]\n", before]);
  });

  step("compactIfNeeded");
  test("that comes after Ctrl-C replaces nothing", async () => {
    const talk = await longTalk();
    const before = structuredClone(talk.messages);
    const end = new AbortController();
    talk.options.signal = end.signal;
    const stream = Anthropic.Messages.prototype.stream;
    mock.method(Anthropic.Messages.prototype, "stream", function (this: Anthropic.Messages, ...args: never[]) {
      const running = Reflect.apply(stream, this, [args[0]]); // without the signal, as if the reply were here already
      running.on("end", () => end.abort(new Error("interrupted")));
      return running;
    });
    const { error } = await talk.compact(say("A summary."));
    mock.restoreAll();
    assert.match(error ?? "", /interrupted/);
    assert.deepEqual(talk.messages, before);
  });

  test("that the user interrupts leaves the history as it was, and counts as no failure", async () => {
    const talk = await longTalk();
    const before = structuredClone(talk.messages);
    const end = new AbortController();
    talk.options.signal = end.signal;
    const { error } = await talk.ask("second", () => {
      end.abort(new Error("interrupted"));
      return say("A summary.");
    });
    assert.match(error ?? "", /interrupted/);
    assert.deepEqual([talk.messages, talk.state.failures], [[...before, user("second")], 0]);
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
    assert.equal(compactions(talk.state.file)[0].trigger, "tool");
    assert.equal(kinds((await talk.ask("third", say("ok"))).sent), "call"); // once
  });

  test("is forgotten if the user interrupts the round in which the model asks for it", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(200)));
    const end = new AbortController();
    const approve = async () => end.abort(new Error("interrupted"));
    const interrupted = talkTo(s06, talk.messages, { ...talk.options, approve, signal: end.signal });
    const reply = call(use("compact", {}), use("bash", { command: "true" }));
    assert.match((await interrupted.ask("second", reply)).error ?? "", /interrupted/);
    assert.equal(kinds((await talk.ask("third", say("ok"))).sent), "call");
  });

  step("autoCompact");
  test("measures before it strips the thinking", async () => {
    const talk = talkTo(s06);
    await talk.ask("go", call({ type: "thinking", thinking: "hm ".repeat(3_000) }, { type: "text", text: "done" }));
    const before = s06.estimateTokens(talk.messages, talk.options);
    await talk.compact(say("A summary."));
    const [entry] = compactions(talk.state.file);
    assert.ok(entry.before > 0.9 * before, `${entry.before}`);
    assert.ok(entry.after < entry.before / 2, `${entry.after}`);
  });
});

step("callOrCompact");
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
    assert.match(String(messages[1]?.content), /^second/);
  });

  test("is only cleared by layer 1 if that is enough", async () => {
    fileOf("a.txt", 8_000);
    server.contextLimit = 20_000;
    const { error, sent, printed } = await talkTo(s06).ask("go", ...Array(8).fill(read("a.txt")), say("done"));
    assert.deepEqual([error, kinds(sent)], [undefined, "call ".repeat(10).trim()], printed);
    const cleared = contents(sent.at(-1)?.messages).filter((text) => text === "[Previous: used read_file]");
    assert.ok(cleared.length >= 5, `${cleared.length}: the newest three, too`);
  });

  test("is cleared by layer 1 first, and then summarized; no file is put back", async () => {
    fileOf("a.txt", 12_000);
    const { ask, compressed, messages } = talkTo(s06);
    await ask("words ".repeat(3_000), say("ok"));
    server.contextLimit = 12_300; // one request more, but not its result, even if that is on disk
    const { error, sent } = await ask("words ".repeat(2_500), read("a.txt"), say("A summary."), say("done"));
    assert.deepEqual([error, kinds(sent)], [undefined, "call call call summary call"]);
    assert.match(contents(sent.at(-1)?.messages)[0] ?? "", /^Output too large/);
    assert.match(compressed(), /\n\nA summary\.$/);
    assert.equal(textsOf(messages[0]).length, 1);
  });

  test("and a reply that the window cuts are one case", async () => {
    const { ask, compressed } = await longTalk(s06);
    server.contextLimit = 9_000;
    const reply = say("a long reply ".repeat(500));
    const { error } = await ask("second", (request) => (asksForSummary(request) ? say("A summary.") : reply));
    assert.equal(error, undefined);
    assert.match(compressed(), /\n\nA summary\.$/);
  });

  test("goes on without a summary if none can be had", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(4_000), say("words ".repeat(2_000)));
    server.contextLimit = 5_000;
    assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
    assert.match(talk.compressed(), /Transcript: \.transcripts\/transcript_\d+_\d+\.jsonl\]\n\n\(No summary/);
  });

  for (const [size, window] of Object.entries({ 58000: 20_000, 49000: 16_000 })) {
    test(`through one result of ${size} characters does not end the conversation`, async () => {
      fileOf("a.txt", Number(size));
      server.contextLimit = window;
      const talk = talkTo(s06);
      const options = optionsFor(s06);
      assert.equal((await talk.ask("read it", read("a.txt"), say("done"))).error, undefined);
      assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
      const resumed = talkTo(s06, (await watch(() => s06.resume(talk.state.file, options))).value, options);
      assert.equal((await resumed.ask("go on", say("ok"))).error, undefined);
      if (size === "58000") assert.doesNotMatch(resumed.compressed(), LOST);
      await talk.compact(say("A summary."));
      assert.match(talk.compressed(), /\n\nA summary\.$/);
      assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
    });
  }

  test("through the results of a turn that was interrupted does not end the conversation", async () => {
    fileOf("a.txt", 40_000);
    const end = new AbortController();
    const approve = async () => end.abort(new Error("interrupted"));
    const talk = talkTo(s06);
    const { messages, options } = talk;
    const reply = call(use("read_file", { path: "a.txt" }), use("bash", { command: "true" }));
    await talkTo(s06, messages, { ...options, approve, signal: end.signal }).ask("read it", reply);
    server.contextLimit = 12_000;
    assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
    assert.match(contents(messages)[0] ?? "", /^Output too large/);
  });

  test("that nothing makes short enough goes, and the next request succeeds", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", { ...say("ok"), thinks: false });
    server.contextLimit = 5_000;
    const { error } = await talk.ask("words ".repeat(4_000), say("Sum."));
    assert.match(error ?? "", /prompt is too long/);
    assert.doesNotMatch(JSON.stringify(talk.messages), /words/);
    assert.equal(compactions(talk.state.file).at(-1).trigger, "rejected");
    assert.equal((await talk.ask("go on", say("ok"))).error, undefined);
  });

  test("through what the user has interrupted does not end the conversation", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("ok"));
    const { signal } = new AbortController();
    talk.options.signal = AbortSignal.abort(new Error("interrupted"));
    assert.match((await talk.ask("words ".repeat(20_000))).error ?? "", /interrupted/);
    talk.options.signal = signal;
    server.contextLimit = 20_000;
    const model: Model = (request) => say(asksForSummary(request) ? "Sum." : "ok");
    assert.match((await talk.ask("go on", model)).error ?? "", /prompt is too long/);
    assert.equal((await talk.ask("go on", model)).error, undefined);
  });

  test("keeps what there was if the connection breaks when the summary is asked for", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), { ...say("ok"), thinks: false });
    const before = structuredClone(talk.messages);
    server.contextLimit = 9_000; // what is answered fits, and the new request doesn't
    server.fail(PASS, PASS, { kind: "drop" });
    const second = "second ".repeat(700);
    const { error } = await talk.ask(second, say("A summary."));
    assert.notEqual(error, undefined);
    assert.deepEqual(talk.messages, [...before, user(second)]);
    server.contextLimit = 200_000;
    assert.equal((await talk.ask("third", say("ok"))).error, undefined);
  });

  test("keeps what there was if the server is overloaded when the summary is asked for", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), { ...say("ok"), thinks: false });
    const before = structuredClone(talk.messages);
    server.contextLimit = 5_000;
    server.fail(PASS, PASS, ...Array<Failure>(3).fill({ kind: "status", status: 529, retryAfter: 0.001 }));
    const { error } = await talk.ask("second");
    const errors = server.journal.splice(from).flatMap(({ error }) => error ?? []);
    assert.match(errors.join(), /^(prompt is too long[^,]*,){2}(Overloaded,?){3}$/);
    assert.match(error ?? "", /Overloaded/);
    assert.deepEqual(talk.messages, [...before, user("second")]);
    server.contextLimit = 200_000;
    assert.equal((await talk.ask("third", say("ok"))).error, undefined);
  });

  test("does not end the conversation though no summary is usable", async () => {
    const talk = talkTo(s06);
    const bad = call(use("bash", { command: "true" }));
    const ask = () => talk.ask("go on", answering(say("words ".repeat(700)), say("done"), bad));
    server.contextLimit = 5_000;
    for (let i = 0; i < 5; i++) assert.equal((await ask()).error, undefined);
    assert.match(talk.compressed(), LOST);
  });

  /** A lesson whose server answers each request with this, and what a conversation in it sends and prints. */
  async function answered(t: TestContext, status: number, type: string, body: string) {
    const http = createServer((_, response) =>
      response.writeHead(status, { "content-type": type, "x-should-retry": "false" }).end(body),
    ).listen(0, "127.0.0.1");
    t.after(() => http.close());
    await new Promise((resolve) => http.on("listening", resolve));
    const { port } = http.address() as AddressInfo;
    const lesson = await load({ ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}` });
    const messages: Messages = [user("first"), { role: "assistant", content: "words ".repeat(100) }];
    const { printed, error } = await talkTo(lesson, messages).ask("second");
    return { printed, error, messages };
  }

  test("is known by a 413 without JSON, and not by the words of another error", async (t) => {
    const proxy = await answered(t, 413, "text/html", "<h1>Request Entity Too Large</h1>");
    assert.match(proxy.error ?? "", /413/);
    assert.match(proxy.printed, /\[auto_compact triggered\]/);
    assert.doesNotMatch(JSON.stringify(proxy.messages), /second/);
    const error = { type: "timeout_error", message: "the request took too long" };
    const slow = await answered(t, 504, "application/json", JSON.stringify({ type: "error", error }));
    assert.match(slow.error ?? "", /took too long/);
    assert.doesNotMatch(slow.printed, /compact/);
    assert.deepEqual(slow.messages.at(-1), user("second"));
  });

  test("does not come up where max_tokens counts, if CONTEXT_WINDOW is set", async () => {
    fileOf("a.txt", 9_000);
    Object.assign(server, { contextLimit: 32_000, countsMaxTokens: true });
    const { ask, compressed } = talkTo(await load({ CONTEXT_WINDOW: "32000" }));
    for (let i = 0; i < 8; i++) {
      assert.equal((await ask("read it", answering(read("a.txt"), say("done")))).error, undefined);
    }
    assert.match(compressed(), /\n\nA summary\.$/);
  });

  test("is known by the words of other servers, too", async () => {
    for (const message of ["Input length 40000 exceeds the maximum allowed", "maximum context length is 8192 tokens"]) {
      const talk = talkTo(s06);
      await talk.ask("first", say("ok"));
      server.fail({ kind: "status", status: 400, message });
      const { error, printed } = await talk.ask("second", say("done"));
      assert.deepEqual([error, /micro_compact/.test(printed)], [undefined, true], message);
    }
    server.journal.length = from; // these were not the server's own words
  });

  test("where max_tokens counts, without CONTEXT_WINDOW, does not cost the history, and the error names it", async (t) => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(500)));
    const last = talk.messages.map((message) => textsOf(message).at(-1));
    const isAsBefore = () =>
      assert.deepEqual(
        talk.messages.map((message) => textsOf(message).at(-1)),
        last,
      );
    Object.assign(server, { contextLimit: 32_000, countsMaxTokens: true });
    assert.match((await talk.ask("second")).error ?? "", /exceed context limit/);
    isAsBefore();
    const message = "maximum context length is 32000 tokens. However, you requested 32000 output tokens";
    server.fail({ kind: "status", status: 400, message });
    await talk.ask("third");
    server.journal.pop(); // these were not the server's own words
    isAsBefore();
    expectRejection(/exceed context limit/);
    const run = await start(t, "s06_context_compact", ["go"], {
      failures: [{ kind: "status", status: 400, message: server.journal.at(-1)?.error }],
    });
    await run.ended;
    assert.match(run.screen(), /exceed context limit.*CONTEXT_WINDOW/);
    await talk.compact();
    isAsBefore();
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

step("compactIfNeeded");
describe("the cold cache", () => {
  /** A conversation of about 3,500 tokens, whose last call was so many seconds ago. */
  async function talkAgo(seconds: number, replies: Reply[] = []) {
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "6000" })); // 3,000 when the cache is cold
    await talk.ask("words ".repeat(1_500), ...replies, say("ok"));
    talk.state.lastCall -= seconds * 1_000;
    return talk;
  }

  test("lowers the limit when a request arrives, and the request stays", async () => {
    const warm = await talkAgo(290);
    assert.equal(kinds((await warm.ask("second", say("done"))).sent), "call");
    const cold = await talkAgo(301);
    const { sent } = await cold.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.deepEqual(cold.messages[1], user("second"));
    assert.equal(compactions(cold.state.file).at(-1).limit, 3_000);
    assert.equal(kinds((await cold.ask("third", say("done"))).sent), "call");
  });

  test("is not looked at within a turn", async () => {
    const talk = await talkAgo(0);
    talk.options.approve = async () => {
      talk.state.lastCall = 0; // as if the user had thought for long, or a tool had taken long
    };
    const { sent } = await talk.ask("second", answering(call(use("bash", { command: "true" })), say("done")));
    assert.equal(kinds(sent), "call call");
  });

  test("makes layer 1 act first", async () => {
    fileOf("a.txt", 2_000);
    const talk = talkTo(await load({ COMPACT_THRESHOLD: "8000" }));
    await talk.ask("first", ...Array(6).fill(read("a.txt")), say("ok"));
    talk.state.lastCall = 0;
    const { sent, printed } = await talk.ask("second", say("done"));
    assert.match(printed, /micro_compact/);
    assert.equal(contents(sent.at(-1)?.messages)[0], "[Previous: used read_file]");
  });

  test("costs no call while the user is away, and Ctrl-C in the summary loses no request", async () => {
    const talk = await talkAgo(301);
    const from = server.journal.length;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(server.journal.length, from, "calls");
    const end = new AbortController();
    talk.options.signal = end.signal;
    const { error } = await talk.ask("second", () => {
      end.abort(new Error("interrupted"));
      return say("A summary.");
    });
    assert.match(error ?? "", /interrupted|abort/i);
    assert.deepEqual(talk.messages.at(-1), user("second"));
  });
});

for (const [what, failure] of [
  ["rejects", { kind: "status", status: 400 }],
  ["refuses", { kind: "refusal" }],
] as const) {
  test(`what the API ${what} goes, so the next request succeeds`, async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(50)));
    await talk.compact(say("A summary."));
    assert.match(talk.compressed(), /\n\nA summary\.$/);
    const before = structuredClone(talk.messages);
    const fail = async (request: string) => {
      if (what === "rejects") expectRejection(/Bad request/);
      server.fail(failure);
      assert.ok((await talk.ask(request, say("no"))).error);
    };
    await fail("second");
    assert.deepEqual(talk.messages, before, "the summary stays");
    const end = new AbortController();
    const approve = async () => end.abort(new Error("interrupted"));
    const interrupted = talkTo(s06, talk.messages, { ...talk.options, approve, signal: end.signal });
    await interrupted.ask("third", call(use("bash", { command: "true" })));
    const left = what === "rejects" ? [...before, user("third")] : structuredClone(talk.messages);
    await fail("fourth");
    assert.deepEqual(talk.messages, left);
    assert.equal((await talk.ask("fifth", say("ok"))).error, undefined);
  });
}

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

test("a subagent that runs out of rounds answers with its last text, not with thinking that became text", async () => {
  const first = call({ type: "text", text: "so far" }, use("bash", { command: LONG }));
  const later = call({ type: "thinking", thinking: "a note" }, use("bash", { command: "true" }));
  const talk = talkTo(small);
  let calls = 0;
  const { sent } = await talk.ask("go", (request) => {
    if (asksForSummary(request)) return say("A summary.");
    if (!String(request.system).startsWith("You are a subagent")) {
      return contents(request.messages).length > 0 ? say("done") : call(use("task", { prompt: "find it" }));
    }
    return calls++ === 0 ? first : later;
  });
  assert.match(kinds(sent), /summary/);
  const answer = "so far\n(the subagent was not done, but what it did is: out of rounds: 30 were allowed)";
  assert.deepEqual([calls, contents(talk.messages)], [30, [answer]]);
});

test("/context shows what fills the context, kind by kind, and the limits", async () => {
  fileOf("a.txt", 3_000);
  const talk = talkTo(s06);
  await talk.ask("first", say("ok"));
  await talk.compact(say("S."));
  await talk.ask("read it", read("a.txt"), say("done"));
  const drawn = s06.drawContext(talk.messages, talk.options);
  const rows = [...drawn.matchAll(/^(\S.*?) +█+ ([\d,]+)$/gm)];
  const shown = "system and tools, summary, files, reminders, requests, replies, results of read_file";
  assert.equal(rows.map(([, kind]) => kind).join(", "), shown);
  const total = s06.estimateTokens(talk.messages, talk.options);
  const sum = rows.reduce((sum, [, , tokens = ""]) => sum + Number(tokens.replace(",", "")), 0);
  assert.ok(Math.abs(sum - total) < total / 20, `${sum} of ${total}`);
  assert.match(drawn, /\ncontext: ~[\d,]+ tokens; limit 167,000, 50,000 when the prompt cache is cold$/);
});

step("resume");
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
    const { file } = talk.state;
    const old = readFileSync(file);
    const both = [await resume(file), await resume(file)];
    for (const { ask } of both) assert.equal((await ask("go on", say("ok"))).error, undefined);
    assert.deepEqual(readFileSync(file), old);
    assert.equal(new Set([file, ...both.map(({ state }) => state.file)]).size, 3);
    for (const { state } of both) {
      assert.equal(linesOf(state.file).length, 3);
      assert.equal((await resume(state.file)).messages.length, 4);
    }
  });

  test("shows the last request and the size, and brings back characters per token and todos", async () => {
    const talk = talkTo(s06);
    const items = [{ text: "one", status: "in_progress" as const }];
    server.reportedUsage = { input_tokens: 5_000 };
    await talk.ask("make it", call(use("todo", { items })), say("made"));
    s06.TODO.items = [];
    const { state, printed, messages, options } = await resume(talk.state.file);
    assert.ok(state.charsPerToken < 1, `${state.charsPerToken} characters per token`);
    assert.equal(state.charsPerToken, talk.state.charsPerToken);
    assert.deepEqual(s06.TODO.items, items);
    const size = s06.estimateTokens(messages, options).toLocaleString("en-US");
    assert.match(printed, /^\[resumed \.transcripts\/transcript_\d+_\d+\.jsonl: /);
    assert.ok(printed.endsWith(`: ~${size} tokens. The last request was: make it]\n`), printed);
  });

  test("begins at the last compaction, also if that holds the last request", async () => {
    const talk = await longTalk();
    await talk.compact(say("A summary."));
    const { messages, printed } = await resume(talk.state.file);
    assert.deepEqual(messages, talk.messages);
    assert.doesNotMatch(printed, /undefined/);
    await talk.ask("second", say("ok"));
    const second = await resume(talk.state.file);
    assert.equal(second.messages.length, 3);
    assert.match(second.printed, /The last request was: second\]/);
  });

  test("skips a torn last line, answers the calls without an answer and strips thinking", async () => {
    const talk = talkTo(s06);
    const calls = ["a", "b"].map((id) => use("bash", { command: "true" }, id));
    await talk.ask("go", call(...calls), say("done"));
    const lines = readFileSync(talk.state.file, "utf8").split("\n");
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
  });

  test("of a file with a broken line names it, and the line", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("ok"));
    const lines = readFileSync(talk.state.file, "utf8").split("\n");
    writeFileSync("old.jsonl", [lines[0], lines[1]?.slice(9), ""].join("\n"));
    assert.match((await resume("old.jsonl")).error, /--resume: line 2 of old\.jsonl is broken; delete that line, or /);
    for (const wrong of [
      { role: "system", content: "x" },
      { role: "user", content: [{}] },
      { ...user("a"), todos: "no" },
      { role: "assistant", content: [{ type: "thinking" }] },
    ]) {
      writeFileSync("old.jsonl", `${JSON.stringify(user("first"))}\n${JSON.stringify(wrong)}\n`);
      assert.match((await resume("old.jsonl")).error, /line 2 of old\.jsonl is broken/, JSON.stringify(wrong));
    }
  });

  test("reads no link that leads out of the workspace or nowhere, and no pipe, and says what is wrong", async (t) => {
    const outside = realpathSync(mkdtempSync(join(tmpdir(), "outside-")));
    t.after(() => rmSync(outside, { recursive: true }));
    writeFileSync(join(outside, "other.jsonl"), `${JSON.stringify(user("a secret"))}\n`);
    symlinkSync(join(outside, "other.jsonl"), "link.jsonl");
    assert.match((await resume("link.jsonl")).error, /link\.jsonl is outside the workspace/);
    symlinkSync("nowhere", "dangling.jsonl");
    assert.match((await resume("dangling.jsonl")).error, /--resume: there is no transcript dangling\.jsonl/);
    await s06.runBash("mkfifo pipe.jsonl", new AbortController().signal);
    assert.match((await resume("pipe.jsonl")).error, /pipe\.jsonl, or it is a folder or a device/);
  });

  test("shows a long last request by its head and tail, and one of an early transcript that is in blocks", async () => {
    const talk = talkTo(s06);
    await talk.ask(`begin ${"words ".repeat(1_000)}end`, say("ok"));
    assert.match(
      (await resume(talk.state.file)).printed,
      /The last request was: begin (.|\n)*6009 characters(.|\n)* end\]/,
    );
    const early = [
      user("one"),
      { role: "assistant", content: "ok" },
      { role: "user", content: [{ type: "text", text: "two" }] },
    ];
    writeFileSync("early.jsonl", early.map((line) => `${JSON.stringify(line)}\n`).join(""));
    assert.match((await resume("early.jsonl")).printed, /The last request was: two\]/);
  });

  test("brings back a history that was rolled back or cleared, as it was", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("ok"));
    server.fail({ kind: "refusal" });
    assert.match((await talk.ask("second", say("no"))).error ?? "", /refused/);
    const { messages, printed } = await resume(talk.state.file);
    assert.deepEqual(messages, talk.messages.map(s06.withoutThinking));
    assert.match(printed, /The last request was: first\]/);
  });
});

step("program");
describe("the program", { concurrency: true }, () => {
  const lesson = "s06_context_compact";
  const transcript = (request: string) =>
    [user(request), { role: "assistant", content: "made" }]
      .map((line) => `${JSON.stringify({ ...line, charsPerToken: 3, todos: [], files: [] })}\n`)
      .join("");
  const files = { "old.jsonl": transcript("make it") };

  test("knows /context and /compact, which are no requests, and what only begins like them", async (t) => {
    const input = "/compact\nhello\n/compact the names\n/context\n/compact.ts is broken\n";
    const run = await start(t, lesson, [], { replies: [say("hi"), say("S."), say("ok")], input });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), /\[nothing to compact yet\].*\[manual compact\].*summary, files, reminders +█+/s);
    assert.equal(kinds(run.journal.map(({ request }) => request)), "call summary call");
    assert.match(textsOf(run.journal[1]?.request.messages.at(-1)).at(-1) ?? "", /keep: the names$/);
    assert.deepEqual(run.journal[2]?.request.messages.at(-1), user("/compact.ts is broken"));
  });

  test("says in one line that a limit is no number of tokens", async (t) => {
    const wrong = [{ CONTEXT_WINDOW: "abc" }, { COMPACT_THRESHOLD: "-1" }];
    await Promise.all(
      wrong.map(async (env) => {
        const run = await start(t, lesson, ["hello"], { env });
        assert.equal(await run.ended, 1);
        assert.equal(run.screen(), "\n[CONTEXT_WINDOW and COMPACT_THRESHOLD have to be numbers of tokens]\n");
        assert.deepEqual(run.journal, []);
      }),
    );
  });

  test("shows what --resume continues and does nothing by itself, with -y neither", async (t) => {
    const run = await start(t, lesson, ["-y", "--resume", "old.jsonl"], { files, input: "" });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), /^\[resumed old\.jsonl: ~[\d,]+ tokens\. The last request was: make it\]\n/);
    assert.deepEqual(run.journal, []);
  });

  test("resumes the transcript that was written last, whatever its name, and takes a request", async (t) => {
    const names = { ".transcripts/transcript_1_1.jsonl": "newest", ".transcripts/transcript_2_1.jsonl": "older" };
    const older = Object.fromEntries(Object.entries(names).map(([name, text]) => [name, transcript(text)]));
    const put = (agent: string) => `touch -d 2020-01-01 .transcripts/transcript_2_1.jsonl; ${agent}`;
    const setting = { files: older, replies: [say("ok")], shell: put };
    const run = await start(t, lesson, ["--resume", "explain data.jsonl"], setting);
    assert.equal(await run.ended, 0, run.screen());
    assert.match(run.screen(), /^\[resumed \.transcripts\/transcript_1_1\.jsonl: .*The last request was: newest\]/);
    const { messages = [] } = run.journal[0]?.request ?? {};
    assert.deepEqual([messages[0], messages.at(-1)], ["newest", "explain data.jsonl"].map(user));
  });

  test("takes a file whose name holds a blank, and of the others the newest that holds a message", async (t) => {
    const blank = await start(t, lesson, ["--resume", "my old.jsonl"], {
      files: { "my old.jsonl": transcript("make it"), ".transcripts/transcript_1_1.jsonl": transcript("other") },
      input: "",
    });
    assert.equal(await blank.ended, 0);
    assert.match(blank.screen(), /^\[resumed my old\.jsonl: .*make it\]/);
    assert.deepEqual(blank.journal, []);
    const empty = await start(t, lesson, ["--resume"], {
      files: { ".transcripts/transcript_1_1.jsonl": transcript("whole") },
      shell: (agent) => `touch .transcripts/transcript_2_1.jsonl; ${agent}`,
      input: "",
    });
    assert.equal(await empty.ended, 0);
    assert.match(empty.screen(), /The last request was: whole\]/);
  });

  test("says that there is no transcript to resume, or no file of that name", async (t) => {
    const none = await start(t, lesson, ["--resume"], { input: "" });
    assert.equal(await none.ended, 1);
    assert.match(none.screen(), /--resume: there is no transcript/);
    const named = await start(t, lesson, ["--resume", "session.jsonl"], { files, input: "" });
    assert.equal(await named.ended, 1);
    assert.match(named.screen(), /--resume: there is no transcript session\.jsonl/);
    assert.deepEqual([...none.journal, ...named.journal], []);
  });
});

describe("at a terminal", { concurrency: true, skip: harness.noTerminal }, () => {
  const [lesson, prompt, CTRL_C] = ["s06_context_compact", "s06 >> ", "\x03"];
  /** A moment in which what should not happen could. */
  const moment = () => new Promise((resolve) => setTimeout(resolve, 60));

  test("a paste of several lines is one request, once its last line is ended; Ctrl-C clears all of them", async (t) => {
    const run = await start(t, lesson, [], { replies: [say("Got one."), say("Got two.")], terminal: true });
    await run.waitFor(prompt);
    run.type("a function:\rq\rand its end\r");
    await run.waitFor("Got one.");
    await run.waitFor(prompt);
    run.type("never\rsent");
    await run.waitFor("sent");
    await moment();
    run.type(CTRL_C);
    await moment();
    run.type("line one\rline two");
    await run.waitFor("line two");
    await moment();
    run.type(" and more\r");
    await run.waitFor("Got two.");
    await run.waitFor(prompt);
    run.type("q\r");
    assert.equal(await run.ended, 0);
    const requests = run.journal[1]?.request.messages.filter(({ content }) => typeof content === "string");
    assert.deepEqual(requests, ["a function:\nq\nand its end", "line one\nline two and more"].map(user));
    assert.equal(run.journal.length, 2);
  });
});
