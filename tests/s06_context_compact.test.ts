// What the agent forgets and when, what it must not forget, and what is on disk. In the order of the lesson's regions. A
// lesson with other limits is a copy that was imported with other variables.

import assert from "node:assert/strict";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, type TestContext } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Model, type Reply, scripted } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { bash, blocksOf, call, capture, expectRejection, folder, plain, resultsIn, say, server } = harness;
const { optionsFor, start, step, test, use, user } = harness;
type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];
type Request = Anthropic.MessageCreateParams;

let copies = 0;
/** Imports a copy of the lesson with these variables in its environment. */
async function load(env: Record<string, string> = {}): Promise<Lesson> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await import(`${harness.moduleOf("s06_context_compact")}?copy=${copies++}`);
  } finally {
    for (const name of Object.keys(env)) process.env[name] = before[name] ?? "";
  }
}
const s06 = await load();
const small = await load({ COMPACT_THRESHOLD: "6000" });
const medium = await load({ COMPACT_THRESHOLD: "12000" });
const { TRANSCRIPT_DIR } = s06;

type Said = Reply[] | [Model];
const isModel = (said: Said): said is [Model] => typeof said[0] === "function";
/** What `work` throws, prints, sends and returns while the model says this. */
async function watch<T>(work: () => T | Promise<T>, said: Said = []) {
  server.model = isModel(said) ? said[0] : scripted(...said);
  const from = server.journal.length;
  let error = "";
  const { value, printed } = await capture(async () => {
    try {
      return await work();
    } catch (thrown) {
      error = String(thrown);
    }
  });
  return { value, error, printed, sent: server.journal.slice(from).map(({ request }) => request) };
}

/** A conversation. `ask` is a turn of it, `compact` what /compact does, `interrupted` a turn in which bash gets Ctrl-C. */
function talkTo(lesson: Lesson, messages: Messages = [], options = optionsFor(lesson)) {
  const now = Date.now();
  while (Date.now() === now); // the names of transcripts differ by their milliseconds
  const run = (request: string, more: Partial<typeof options>, said: Said) =>
    watch(() => lesson.runTurn(messages, request, { ...options, ...more }), said);
  const ask = (request: string, ...said: Said) => run(request, {}, said);
  const compact = (...said: Reply[]) => watch(() => lesson.autoCompact(messages, "manual", options), said);
  const interrupted = (request: string, ...said: Reply[]) => {
    const end = new AbortController();
    const approve = async () => end.abort(new Error("interrupted"));
    return run(request, { approve, signal: end.signal }, said);
  };
  return { messages, options, state: options.state, ask, compact, interrupted };
}
/** A conversation whose next request is past the limit of 6,000 tokens, though not because of results. */
async function longTalk(options = optionsFor(small)) {
  const talk = talkTo(small, [], options);
  await talk.ask("words ".repeat(3_000), say("ok"));
  return talk;
}
/** A conversation whose oldest result has that many characters, and whose last call was so many seconds ago. */
async function talkAgo(lesson: Lesson, size: number, seconds: number) {
  const talk = talkTo(lesson);
  fileOf("old.txt", size);
  fileOf("new.txt", 90);
  await talk.ask("go", read("old.txt"), ...Array(3).fill(read("new.txt")), say("ok"));
  talk.state.lastCall = Date.now() - seconds * 1_000;
  return talk;
}

const textsOf = (message?: Anthropic.MessageParam) =>
  (message ? blocksOf(message) : []).flatMap((block) => (block.type === "text" ? [block.text] : []));
/** What follows a summary: todo list and files, whether in blocks of their own or in one text. */
const afterSummary = (message: Anthropic.MessageParam | undefined, summary: string) => {
  const text = textsOf(message).join("\n");
  const rest = text.slice(text.indexOf(summary) + summary.length);
  return rest.trim().split(/\s+(?=<file )/);
};
const contents = (messages: Messages = []) => resultsIn(messages).map(({ text }) => text);
const thinkingIn = (messages: Messages) => messages.flatMap(blocksOf).filter(({ type }) => type.endsWith("thinking"));
const lastTextOf = ({ messages }: Request) => textsOf(messages.at(-1)).at(-1) ?? "";
const asksForSummary = (request: Request) => lastTextOf(request).startsWith(s06.SUMMARY_PROMPT.slice(0, 40));
const kinds = (sent: Request[]) => sent.map((request) => (asksForSummary(request) ? "summary" : "call")).join(" ");
/** Each message in a word: what compaction leaves, and in which order. */
const outline = (messages: Messages = []) =>
  messages.map((message) => {
    const texts = textsOf(message);
    if (texts[0]?.startsWith("[Conversation compressed")) return "compressed";
    if (resultsIn([message]).length > 0) return "results";
    return blocksOf(message).some(({ type }) => type === "tool_use") ? "calls" : texts.at(-1);
  });
/** A call and its result. */
const round = (name: string, content: string, id: string): Messages => [
  { role: "assistant", content: [{ type: "tool_use", id, name, input: {} }] },
  { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
];
const read = (path: string) => call(use("read_file", { path }));
const CLEARED = "[Previous: used read_file]";
/** Writes a file of that many characters. */
const fileOf = (name: string, size: number) => fs.writeFileSync(name, `${name} `.padEnd(size, "text "));
/** Where a result went, or undefined if it did not go to disk. */
const savedIn = (result = "") => /^Output too large\. Saved to: (.*)$/m.exec(result)?.[1];
/** What is in the file that a result names. */
const savedOf = (result = "") =>
  fs.readFileSync(
    savedIn(result) ?? assert.fail(`no line "Output too large. Saved to: …" in: ${result.slice(0, 200)}`),
    "utf8",
  );
const linesOf = (file: string) => (fs.readFileSync(file, "utf8").match(/.+\n/g) ?? []).map((line) => JSON.parse(line));
const rewritesIn = (file: string) => linesOf(file).filter(({ type }) => type === "compaction");
/** The history as a transcript has it. */
function historyIn(file: string): Messages {
  const lines = linesOf(file);
  const last = lines.findLastIndex(({ messages }) => messages);
  return [...(lines[last]?.messages ?? []), ...lines.slice(last + 1).map(({ message }) => message)];
}
const outside = (t: TestContext) => {
  const name = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "outside-")));
  t.after(() => fs.rmSync(name, { recursive: true }));
  return name;
};

beforeEach(() => {
  harness.emptyWorkspace();
  Object.assign(server, { contextLimit: 200_000, reportedUsage: undefined });
  for (const lesson of [s06, small, medium]) lesson.TODO.items = [];
});

describe("the limit", () => {
  step("estimateTokens");
  test("is the window without a reply and a reserve; COMPACT_THRESHOLD lowers it, and never raises it", async () => {
    assert.equal(s06.autoCompactThreshold(200_000, 32_000), 167_000);
    assert.equal(s06.autoCompactThreshold(1_000_000, 8_000), 979_000);
    const limits: [Record<string, string>, number][] = [
      [{ COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "" }, 167_000],
      [{ COMPACT_THRESHOLD: "50000" }, 50_000],
      [{ COMPACT_THRESHOLD: "500000" }, 167_000],
      [{ CONTEXT_WINDOW: "1000000" }, 967_000],
      [{ CONTEXT_WINDOW: "16000" }, 8_000],
    ];
    for (const [env, limit] of limits) assert.equal((await load(env)).THRESHOLD, limit, JSON.stringify(env));
  });

  test("leaves a reply at most a quarter of the window", async () => {
    for (const [window, most] of Object.entries({ 20000: 5_000, 500000: 32_000 })) {
      const { sent, error } = await talkTo(await load({ CONTEXT_WINDOW: window })).ask("hello", say("hi"));
      assert.deepEqual([sent[0]?.max_tokens, error], [most, ""]);
    }
  });

  test("is compared with what the API counted, cached or not; its characters per token are used for what is new", async () => {
    const talk = talkTo(s06);
    for (const request of ["function f(a) { return a?.b ?? {} }\n".repeat(100), "and then?"]) {
      await talk.ask(request, say("ok"));
      const counted = server.journal.at(-1)?.promptTokens ?? 0;
      const estimated = s06.estimateTokens(talk.messages.slice(0, -1), talk.options);
      assert.ok(Math.abs(estimated - counted) <= 1, `${estimated}, not ${counted}`);
      assert.equal(talk.state.usage?.output_tokens, server.journal.at(-1)?.usage?.output_tokens, "usage of the call");
    }
    assert.ok(server.journal.at(-1)?.usage?.cache_read_input_tokens, "the second prompt was read from the cache");
    const before = s06.estimateTokens(talk.messages, talk.options);
    const added = s06.estimateTokens([...talk.messages, user("x".repeat(3_000))], talk.options) - before;
    assert.ok(Math.abs(added - 1_000) < 60, `${added}: 3 characters are a token here`);
    const [latin, chinese] = ["x", "中"].map((sign) => s06.estimateTokens([user(sign.repeat(900))], talk.options));
    assert.equal(chinese, latin, "characters, not bytes");
  });

  test("is not misled by a server that counts wrong: a token has 0.5 to 10 characters", async () => {
    for (const input_tokens of [0, 1, 1_000_000, undefined]) {
      server.reportedUsage = { input_tokens };
      const { ask, state } = talkTo(s06);
      state.charsPerToken = 3.5;
      assert.equal((await ask("hello", say("hi"))).error, "");
      assert.equal(state.charsPerToken, 3.5, `characters per token stay as they were after ${input_tokens} tokens`);
    }
  });
});

describe("before each call", () => {
  /** A history past the limit of 6,000 tokens, in which layer 1 can save that many. */
  function withResults(saved: number): Messages {
    const content = "x".repeat((saved * 4) / 3 + CLEARED.length); // four characters are a token
    const rounds = Array.from({ length: 6 }, (_, i) => round("read_file", content, `call_${i}`));
    return [user("words ".repeat(3_000)), ...rounds.flat(), { role: "assistant", content: "ok" }];
  }

  step("compactIfNeeded");
  test("past the limit old results go, and if that is enough there is no summary", async () => {
    fileOf("a.txt", 3_500);
    const four = call(...Array(4).fill(use("read_file", { path: "a.txt" })));
    const talk = talkTo(medium);
    const { error, sent, printed } = await talk.ask("go", four, four, four, say("done"));
    assert.deepEqual([error, kinds(sent)], ["", "call call call call"]);
    assert.equal(rewritesIn(talk.state.file).at(-1)?.trigger, "micro", "what the transcript calls it");
    assert.match(printed, /\[micro_compact\].*\d/, "the user reads [micro_compact], and how many tokens that saved");
    const cleared = contents(sent.at(-1)?.messages).filter((text) => text === CLEARED);
    assert.equal(cleared.length, 5, "of eight that were answered");
  });

  test("old results go if that saves 40 % of the limit", async () => {
    for (const isCleared of [false, true]) {
      const saved = isCleared ? 2_430 : 2_370; // tokens, of a limit of 6,000
      const { messages, options, state } = talkTo(small, withResults(saved));
      state.roundsPastLimit = 3; // layer 2 waits
      await watch(() => small.compactIfNeeded(messages, options));
      assert.equal(contents(messages).includes(CLEARED), isCleared, `${saved} tokens`);
    }
  });

  test("past the limit 20,000 tokens are not enough, which they are in a cold cache", async () => {
    server.contextLimit = 300_000; // it counts 3 characters as a token, and a new conversation 4
    const results = ["old ".repeat(30_000), "a", "b", "c"].flatMap((text, i) => round("bash", text, `call_${i}`));
    const talk = talkTo(s06, [user("go"), ...results, { role: "assistant", content: "words ".repeat(95_000) }]);
    const { sent } = await watch(() => s06.compactIfNeeded(talk.messages, talk.options), [say("A summary.")]);
    assert.equal(kinds(sent), "summary");
    assert.ok(contents(sent[0]?.messages)[0]?.startsWith("old "), "nothing was cleared before it");
  });

  test("if that is not enough a summary is made, when a request arrives and within a turn", async () => {
    fileOf("a.txt", 6_000); // 2,000 tokens
    const first = talkTo(small);
    await first.ask("go", read("a.txt"), read("a.txt"), say("words ".repeat(500)));
    const { sent, printed } = await first.ask("words ".repeat(200), say("Sum."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.match(printed, /\[auto_compact triggered\]/, "the user reads that");
    const within = await talkTo(small).ask("go", ...Array(3).fill(read("a.txt")), say("Sum."), say("done"));
    assert.equal(kinds(within.sent), "call call call summary call");
    const { messages, options } = talkTo(small, withResults(2_430));
    const both = await watch(() => small.compactIfNeeded(messages, options), [say("Sum.")]);
    assert.equal(kinds(both.sent), "summary", "also if old results went, and that was not enough");
    assert.equal(contents(both.sent[0]?.messages)[0], CLEARED);
  });

  test("three rounds in a row that stay past the limit are enough: the next summary waits for a request", async () => {
    const talk = talkTo(small);
    await talk.ask("hello", say("words ".repeat(500)));
    let rounds = 6;
    const model: Model = (request) => {
      if (asksForSummary(request)) return say("A summary.");
      return rounds-- > 0 ? read("none.txt") : say("done");
    };
    const first = await talk.ask("words ".repeat(2_700), model);
    assert.equal(kinds(first.sent), `${"summary call ".repeat(3)}call call call call`);
    const { sent } = await talk.ask("and now?", model);
    assert.match(kinds(sent), /^summary call/, "a request begins the count again");
    const { messages, options, state } = await longTalk();
    state.roundsPastLimit = 3;
    await watch(() => small.compactIfNeeded([user("hello")], options));
    const next = await watch(() => small.compactIfNeeded(messages, options), [say("A summary.")]);
    assert.equal(kinds(next.sent), "summary", "so does a round below the limit");
  });

  test("layer 3 acts once, after the round in which the model calls compact, and passes on what to keep", async () => {
    const talk = talkTo(s06);
    const long = say("words ".repeat(2_000));
    await talk.ask("first", long);
    const replies = [call(use("compact", { focus: "the names" })), say("A summary."), long];
    const { sent, printed, error } = await talk.ask("second", ...replies);
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
    assert.match(lastTextOf(sent[1] ?? assert.fail()), /the names/, "what to keep");
    assert.match(printed, /\[manual compact\]/, "the user reads that");
    assert.deepEqual(outline(sent[2]?.messages), ["second", "compressed", "Understood.", "calls", "results"]);
    assert.equal(kinds((await talk.ask("third", long)).sent), "call");
    const { sent: plainly } = await talk.ask("fourth", call(use("compact", {})), say("A summary."), long);
    assert.doesNotMatch(lastTextOf(plainly[1] ?? assert.fail()), /undefined/, "nothing has to be kept above all");
    talk.state.compactAsked = {};
    const { error: thrown } = await watch(() =>
      s06.compactIfNeeded(talk.messages, { ...talk.options, signal: AbortSignal.abort() }),
    );
    assert.match(thrown, /abort/i);
    assert.equal(talk.state.compactAsked, undefined, "nor after Ctrl-C");
  });
});

step("microCompact");
test("layer 1 clears old long results, but not the three newest, those of load_skill, and what is not answered", () => {
  const long = (digit: number) => String(digit).repeat(400);
  const short = "y".repeat(100);
  const tools = ["bash", "load_skill", "read_file", "bash", "bash", "bash", "bash"];
  const rounds = tools.flatMap((name, i) => round(name, long(i), `call_${i}`));
  const messages = [user("go"), ...round("bash", short, "short"), ...rounds];
  const before = structuredClone(messages);
  const kept = [short, "[Previous: used bash]", long(1), CLEARED, ...[3, 4, 5, 6].map(long)];
  assert.deepEqual(contents(s06.microCompact(messages)), kept);
  assert.deepEqual(messages, before, "it returns a copy");
  const none = kept.map((text, i) => ([4, 5, 6].includes(i) ? "[Previous: used bash]" : text));
  assert.deepEqual(contents(s06.microCompact(messages, 0)), none, "none of the newest is kept");
  const answered: Messages = [...messages, { role: "assistant", content: "done" }];
  assert.equal(contents(s06.microCompact(answered))[4], "[Previous: used bash]", "then three of four are the newest");
  const note = { role: "user" as const, content: [{ type: "text" as const, text: "(I interrupted this.)" }] };
  assert.deepEqual(contents(s06.microCompact([...messages, note, user("more")])), kept, "after Ctrl-C: not answered");
});

test("what is not answered begins with its calls: a summary keeps them, with their results", async () => {
  const [reply, results] = round("bash", "fine", "call_1") as [Anthropic.MessageParam, Anthropic.MessageParam];
  const calls = [...blocksOf(reply), { type: "text" as const, text: "I wait for it." }]; // the call isn't the last block
  const { messages, options } = talkTo(small, [
    user("words ".repeat(3_000)),
    { role: "assistant", content: calls },
    results,
  ]);
  await watch(() => small.autoCompact(messages, "tool", options), [say("A summary.")]);
  assert.deepEqual(outline(messages).slice(1), ["compressed", "Understood.", "calls", "results"]);
});

describe("layer 2", () => {
  step("autoCompact");
  test("asks with the same prompt and one message more, which reads the prompt cache; the user sees the summary", async () => {
    const talk = await longTalk();
    const prompt = structuredClone(talk.messages);
    const { sent, printed } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.deepEqual([sent[0]?.system, sent[0]?.tools], [small.SYSTEM, small.TOOLS]);
    assert.deepEqual(sent[0]?.messages.slice(0, -1), prompt, "what the model has answered, thinking included");
    assert.ok(server.journal.at(-2)?.usage?.cache_read_input_tokens, "read from the cache");
    assert.match(printed, /A summary\./, "the user sees it");
    const saved = `[transcript saved: ${relative(folder, talk.state.file)}]`;
    assert.ok(printed.includes(saved), `${saved} is printed`);
    const { messages, options } = await longTalk();
    const more = await watch(() => small.autoCompact(messages, "tool", options, "the names"), [say("A summary.")]);
    assert.match(lastTextOf(more.sent[0] ?? assert.fail()), /the names/, "what to keep above all");
    assert.match(printed, /\[auto_compact triggered\]/);
    assert.match(more.printed, /\[manual compact\]/, "if it was asked for");
  });

  test("between turns leaves the summary, the todo list and the files, and the model has answered them", async () => {
    fileOf("kept.txt", 800);
    const talk = talkTo(small);
    const items = [{ text: "compact", status: "in_progress" }];
    const reply = call(use("todo", { items }), use("read_file", { path: "kept.txt" }));
    await talk.ask("do it", reply, say("words ".repeat(3_000)));
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    const [compressed, ...rest] = sent.at(-1)?.messages ?? [];
    assert.deepEqual(plain(rest), plain([{ role: "assistant", content: "Understood." }, user("second")]));
    const text = textsOf(compressed).join("\n");
    assert.match(text, /^\[Conversation compressed.*A summary\./s, "the mark, and the summary");
    assert.ok(text.includes(relative(folder, talk.state.file)), "it names the transcript");
    const file = `<file path="kept.txt">\n${fs.readFileSync("kept.txt", "utf8")}\n</file>`;
    assert.deepEqual(afterSummary(compressed, "A summary."), ["[>] #1: compact\n(0/1 completed)", file]);
    const child = await longTalk(optionsFor(small, { tools: small.TOOLS.filter(({ name }) => name !== "todo") }));
    await child.compact(say("A summary."));
    assert.deepEqual(afterSummary(child.messages[0], "A summary."), [""], "a subagent has no todo list");
    small.TODO.items = [];
    const unplanned = await longTalk();
    await unplanned.compact(say("A summary."));
    assert.deepEqual(afterSummary(unplanned.messages[0], "A summary."), [""], "an empty todo list is left out");
  });

  test("within a turn keeps the order: the request, what was done for it, the calls after that", async () => {
    fileOf("a.txt", 6_000);
    const talk = talkTo(small);
    await talk.ask("first", say("words ".repeat(300)));
    let rounds = 7;
    const { sent } = await talk.ask("second", (request) => {
      if (asksForSummary(request)) return say("A summary.");
      return rounds-- > 0 ? read("a.txt") : say("done");
    });
    const histories = sent.filter((request) => !asksForSummary(request)).map(({ messages }) => outline(messages));
    const after = histories.filter((history) => history.includes("compressed") && history.length === 5);
    assert.ok(after.length >= 2, "right after a summary, and again");
    for (const history of after) assert.deepEqual(history, ["second", "compressed", "Understood.", "calls", "results"]);
    assert.equal(histories.filter((history) => !history.includes("second")).length, 0, "the request is always there");
  });

  test("after Ctrl-C keeps the calls that were interrupted, and then the new request, once", async () => {
    const talk = talkTo(small);
    await talk.ask("first", say("words ".repeat(800)));
    await talk.interrupted("second", bash("true"));
    const third = "third ".repeat(2_500);
    const { sent } = await talk.ask(third, say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    const after = outline(sent[1]?.messages);
    assert.deepEqual(after.slice(0, 4), ["compressed", "Understood.", "calls", "results"], "no request before that");
    assert.deepEqual([after.at(-1), after.indexOf(third)], [third, after.length - 1], "the new request, once");
  });

  step("restoreFiles");
  test("puts back the five files touched last, whole, as they are now, the newest first", async () => {
    for (const name of ["a", "b", "c", "d", "e", "gone", "denied"])
      fs.writeFileSync(name, `one\ntwo of ${name}\nthree`);
    fileOf("long", 9_000);
    const lines = "new".padEnd(1_100, "\n"); // more than read_file gives
    const path = (name: string) => use("read_file", { path: name });
    const edit = use("edit_file", { path: "c", old_text: "\ntwo of c", new_text: "" });
    const wrong = use("edit_file", { path: "denied", old_text: "none", new_text: "x" });
    const part = use("read_file", { path: "b", offset: 2, limit: 1 });
    const talk = talkTo(medium);
    const write = use("write_file", { path: "a", content: "one\ntwo of a\nthree" });
    const calls = call(path("gone"), write, path("d"), part, edit, wrong, path("e"), path("./e"));
    await talk.ask("go", calls, say("words ".repeat(1_000)));
    fs.rmSync("gone");
    fs.writeFileSync("d", lines);
    await talk.compact(say("A summary."));
    const file = (name: string, text: string) => `<file path="${name}">\n${text}\n</file>`;
    const [a, b, e] = ["a", "b", "e"].map((name) => file(name, `one\ntwo of ${name}\nthree`));
    const five = [e, file("c", "one\nthree"), b, file("d", lines), a];
    assert.deepEqual(afterSummary(talk.messages[0], "A summary."), five, "five files");
    await talk.ask("more", call(path("long"), path("a")), say("words ".repeat(1_000)));
    fs.rmSync("c");
    fs.symlinkSync("/etc/passwd", "c");
    await talk.compact(say("A second summary."));
    const three = afterSummary(talk.messages[0], "A second summary.");
    assert.deepEqual(three, [a, e, b], "not one that is too long, gone, or outside the workspace now");
  });

  step("autoCompact");
  test("whose summary is refused, cut, empty, a call or an error changes nothing, and the turn goes on", async () => {
    const fine = say("A summary.");
    const bad: [RegExp, Reply, Failure?][] = [
      [/refused/, fine, { kind: "refusal" }],
      [/max_tokens/, fine, { kind: "max_tokens" }],
      [/Bad request/, fine, { kind: "status", status: 400 }],
      [/empty/, say(" \n")],
      [/call/, call(use("bash", { command: "touch ran" }))],
      [/call/, call({ type: "text", text: "I look first." }, use("bash", { command: "touch ran" }))],
    ];
    expectRejection(/Bad request/);
    for (const [reason, summary, failure] of bad) {
      const talk = await longTalk();
      const before = structuredClone(talk.messages);
      if (failure) server.fail(failure);
      const model: Model = (request) => (asksForSummary(request) ? summary : say("done"));
      const { error, printed, sent } = await talk.ask("second", model);
      assert.deepEqual([error, kinds(sent)], ["", "summary call"], `${reason}`);
      assert.match(printed, reason, "the user reads why");
      assert.deepEqual(talk.messages.slice(0, 3), [...before, user("second")]);
    }
    assert.equal(fs.existsSync("ran"), false);
  });

  test("that the user interrupts changes nothing, and the request stays", async () => {
    const talk = await longTalk();
    const before = structuredClone(talk.messages);
    const end = new AbortController();
    talk.options.signal = end.signal;
    const { error, sent } = await talk.ask("second", () => {
      end.abort(new Error("interrupted"));
      return say("A summary.");
    });
    assert.match(error, /abort/i, "the turn ends");
    assert.equal(kinds(sent), "summary");
    assert.deepEqual(talk.messages.slice(0, 3), [...before, user("second")]);
    assert.match((await talk.compact()).error, /abort/i, "autoCompact throws, too");
  });

  test("takes all the text of a summary", async () => {
    const talk = await longTalk();
    const parts = ["A summary,", " in two parts."].map((text) => ({ type: "text" as const, text }));
    await talk.compact({ content: parts, thinks: false });
    assert.match(textsOf(talk.messages[0]).join("\n"), /A summary,\s* in two parts\./);
  });

  test("does not summarize what is shorter than a summary, and says so", async () => {
    const talk = talkTo(s06);
    await talk.ask("hi", say("hello"));
    const before = structuredClone(talk.messages);
    const { error, sent, printed } = await talk.compact();
    assert.deepEqual([error, sent, talk.messages], ["", [], before]);
    assert.notEqual(printed, "", "the user reads that");
  });
});

step("withoutThinking");
test("each rewrite strips thinking, which no longer fits, and keeps its words as text", async () => {
  fileOf("a.txt", 3_500);
  const four = Array(4).fill(use("read_file", { path: "a.txt" }));
  const thinking = ["I note this", " "].map((thinking) => ({ type: "thinking" as const, thinking }));
  const between = { type: "thinking" as const, thinking: "and this" };
  const reply = call(...thinking, { type: "redacted_thinking" }, ...four.slice(2), between, ...four.slice(2));
  const { error, sent } = await talkTo(medium).ask("go", reply, reply, reply, say("done"));
  assert.equal(error, "", "the server takes no stale thinking");
  const { messages = [] } = sent.at(-1) ?? {};
  assert.ok(contents(messages).includes(CLEARED), "it was rewritten");
  assert.deepEqual([thinkingIn(messages), textsOf(messages[1])], [[], ["I note this", "and this"]]);
});

describe("a transcript", () => {
  step("record");
  test("has each message as it entered the history, and in each line the whole state, todos, time, model and limit", async () => {
    fileOf("a.txt", 90);
    const talk = talkTo(small);
    const items = [{ text: "one", status: "pending" }];
    const began = Date.now();
    await talk.ask("go", read("a.txt"), call(use("todo", { items })), say("done"));
    const lines = linesOf(talk.state.file);
    assert.deepEqual(historyIn(talk.state.file), talk.messages);
    const known = [...Array(2).fill([0, 0]), ...Array(2).fill([1, 0]), ...Array(2).fill([1, 1])];
    for (const [i, { time, model, limit, state, todos }] of lines.entries()) {
      assert.deepEqual([state.files.length, todos.length], known[i], `line ${i + 1}`);
      assert.deepEqual([model, limit, Object.keys(state).includes("charsPerToken")], [small.MODEL, 6_000, true]);
      assert.ok(time >= began && time <= Date.now(), `time is a number of ms since 1970: ${time}`);
    }
    const { state, todos } = lines.at(-1);
    assert.deepEqual([state, todos], [JSON.parse(JSON.stringify(talk.state)), items], "the whole state");
    assert.equal(state.usage?.output_tokens, server.journal.at(-1)?.usage?.output_tokens);
  });

  test("has a line for each rewrite, with its trigger, sizes and messages, so that it holds every history", async () => {
    fileOf("a.txt", 3_500);
    const four = call(...Array(4).fill(use("read_file", { path: "a.txt" })));
    const sum = say("A summary.");
    const talk = talkTo(medium);
    const rewrite = async (trigger: string, work: () => Promise<{ error: string }>) => {
      const { error } = await work();
      const entry = rewritesIn(talk.state.file).at(-1) ?? assert.fail("no line has the type compaction");
      assert.deepEqual(talk.messages, historyIn(talk.state.file), `${trigger}: what the transcript has is the history`);
      assert.equal(entry.trigger, trigger, `why; the turn ended with: ${error || "no error"}`);
      assert.equal(entry.after, medium.estimateTokens(entry.messages, { ...talk.options, state: entry.state }));
      assert.ok(entry.before > entry.after, `${trigger}: ${entry.before} to ${entry.after}`);
    };
    await rewrite("micro", () => talk.ask("read", four, four, four, say("done")));
    await rewrite("auto", () => talk.ask("words ".repeat(3_500), sum, say("words ".repeat(1_000))));
    await rewrite("tool", () => talk.ask("now", call(use("compact", {})), sum, say("words ".repeat(1_000))));
    await rewrite("manual", () => talk.compact(sum));
    await rewrite("refused", () => {
      server.fail({ kind: "refusal" });
      return talk.ask("something forbidden", say("no"));
    });
    await rewrite("rejected", () => {
      expectRejection(/Bad request/);
      server.fail({ kind: "status", status: 400 });
      return talk.ask("something wrong");
    });
    assert.equal(linesOf(talk.state.file).at(-1).state.usage, undefined, "that of a call that failed");
  });

  test("has a rewrite before the history has it", async () => {
    const talk = await longTalk();
    const lines: number[] = [];
    const set = (target: Messages, key: PropertyKey, value: unknown) => {
      lines.push(rewritesIn(talk.state.file).length);
      return Reflect.set(target, key, value);
    };
    const history = new Proxy(talk.messages, { set });
    await watch(() => small.autoCompact(history, "tool", talk.options), [say("A summary.")]);
    assert.deepEqual(outline(talk.messages), ["compressed", "Understood."]);
    assert.deepEqual([...new Set(lines)], [1], "lines of rewrites, at each change of the history");
  });

  test("that cannot be written ends there: the user is told once, and the conversation goes on", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("ok"));
    const { file } = talk.state;
    const whole = fs.readFileSync(file, "utf8");
    fs.rmSync(file);
    fs.mkdirSync(file); // nothing can be appended to a folder
    const failed = await talk.ask("second", read("none.txt"), say("done"));
    fs.rmSync(file, { recursive: true });
    fs.writeFileSync(file, whole);
    const { error, printed } = await talk.ask("third", say("ok"));
    assert.deepEqual([failed.error, error, talk.messages.length], ["", "", 8]);
    assert.equal(`${failed.printed}${printed}`.match(/EISDIR/g)?.length, 1, "the reason, once");
    assert.equal(fs.readFileSync(file, "utf8"), whole, "what follows a gap could not be resumed");
  });

  test("can be read by its owner alone, large results too, and git sees none", async () => {
    const long = bash("seq 20000");
    const child = [call(use("task", { prompt: "count" })), long, say("it is long")];
    await talkTo(s06).ask("go", long, ...child, say("done"));
    assert.match(s06.SYSTEM, /\.transcripts/, "the model is asked to leave it out of searches");
    const folders = ["", "outputs", "tasks", "tasks/outputs"].map((name) => join(TRANSCRIPT_DIR, name));
    for (const name of folders) {
      assert.equal(fs.statSync(name).mode & 0o777, 0o700, name);
      assert.equal(fs.readFileSync(join(name, ".gitignore"), "utf8"), "*\n", name);
      const files = fs.readdirSync(name).filter((file) => /\.(jsonl|txt)$/.test(file));
      assert.equal(files.length, 1, name);
      for (const file of files) assert.equal(fs.statSync(join(name, file)).mode & 0o777, 0o600, file);
    }
  });

  for (const name of [".transcripts", ".transcripts/outputs", ".transcripts/.gitignore"]) {
    test(`writes nothing through a link: ${name}, which the folder brought`, async (t) => {
      for (const target of [outside(t), join(folder, "elsewhere")]) {
        fs.mkdirSync(target, { recursive: true });
        if (name !== ".transcripts") fs.mkdirSync(TRANSCRIPT_DIR, { recursive: true });
        fs.symlinkSync(name.endsWith("ignore") ? join(target, "new") : target, name);
        const talk = talkTo(s06);
        const { error, printed } = await talk.ask("go", bash("seq 20000"), say("done"));
        const [result = ""] = contents(talk.messages);
        assert.deepEqual([error, fs.readdirSync(target)], ["", []]);
        fs.rmSync(name);
        if (name.endsWith("ignore")) continue; // it is not written at all
        assert.equal(savedIn(result), undefined);
        assert.ok(result.length > 49_000 && result.length < 51_000, `cut: ${result.length}`);
        assert.match(result, /^.*\.transcripts\/outputs/, "it says where it could not be saved");
        assert.match(printed, /^\[.*\.transcripts\/outputs.*\]$/m, "so does the screen");
        assert.equal(printed.includes(".transcripts/transcript_"), name === ".transcripts", "the user is told");
      }
    });
  }

  step("saveIfLarge");
  test("puts a result above 50,000 characters in a file; the model gets the path, head and tail", async () => {
    const print = (size: number) => bash(`head -c ${size} /dev/zero | tr '\\0' x; printf end`);
    const talk = talkTo(s06);
    await talk.ask("go", print(49_997), print(49_998), bash("seq 250000"), say("done"));
    const [whole = "", large = "", huge = ""] = contents(talk.messages);
    assert.deepEqual([whole.length, savedIn(whole)], [50_000, undefined]);
    assert.equal(savedOf(large), `${"x".repeat(49_998)}end`);
    assert.match(large, /x{500}.*x{500}end$/s, "head and tail");
    assert.ok(large.length < 2_300, `the model gets about 2,000 characters, not ${large.length}`);
    const saved = savedOf(huge);
    for (const lead of ["", "x"]) {
      const smileys = await talk.ask(
        "more",
        bash(`printf '${lead}'; yes 😀 | head -n 40000 | tr -d '\\n'`),
        say("done"),
      );
      const text = contents(smileys.sent.at(-1)?.messages).at(-1) ?? "";
      assert.ok(/😀/.test(text) && text.isWellFormed(), "a cut goes through no sign");
    }
    assert.ok(saved.length <= 1_000_000 && saved.startsWith("1\n2\n") && saved.endsWith("\n250000"), "of two million");
  });

  test("cuts a result that cannot be saved, and says why; to less if the prompt was too long", async () => {
    fs.mkdirSync(TRANSCRIPT_DIR);
    fs.writeFileSync(join(TRANSCRIPT_DIR, "outputs"), "a file where the folder should be");
    const talk = talkTo(s06);
    const { error, printed } = await talk.ask("go", bash("seq 20000"), say("done"));
    assert.equal(error, "");
    assert.match(printed, /^.*not.*outputs.*$/m, "the user is told, too");
    const [result = ""] = contents(talk.messages);
    assert.deepEqual([savedIn(result), /^.*outputs.*\n1\n2\n(.|\n)*\n20000$/.test(result)], [undefined, true], result);
    assert.ok(result.length > 49_000 && result.length < 51_000, `cut: ${result.length}`);
    server.contextLimit = 8_000;
    expectRejection(/^prompt is too long/);
    const short = await talkTo(s06).ask("go", bash("seq 6000"), say("done"));
    assert.deepEqual([short.error, kinds(short.sent)], ["", "call call call"], "cut to less, it fits");
  });
});

step("compactIfNeeded");
test("a subagent compacts by the same rules, in a state of its own, without its parent's todo list", async () => {
  fileOf("a.txt", 6_000);
  const items = [{ text: "of the parent", status: "pending" }];
  const child = [...Array(3).fill(read("a.txt")), say("A summary."), say("found")];
  const talk = talkTo(small);
  const replies = [call(use("todo", { items })), call(use("task", { prompt: "find it" })), ...child, say("done")];
  const { sent } = await talk.ask("go", ...replies);
  assert.equal(kinds(sent), "call call call call call summary call call");
  assert.deepEqual(contents(talk.messages)[1], "found");
  assert.deepEqual([rewritesIn(talk.state.file), talk.state.files], [[], []], "the parent's stay as they are");
  const [name = ""] = fs.readdirSync(join(TRANSCRIPT_DIR, "tasks")).filter((each) => each.endsWith(".jsonl"));
  const file = join(".transcripts/tasks", name);
  const { messages = [] } = sent.at(-2) ?? {};
  assert.deepEqual(outline(messages), ["find it", "compressed", "Understood.", "calls", "results"]);
  const text = textsOf(messages[1]).join("\n");
  assert.ok(text.includes(file), "it names its own transcript");
  assert.doesNotMatch(text, /of the parent/, "the list of its parent");
  assert.equal(rewritesIn(file)[0].trigger, "auto");
});

describe("in a cold cache", () => {
  step("runTurn");
  test("a request has old results cleared if that saves 20,000 tokens, or 40 % of the limit if that is less", async () => {
    const cases: [Lesson, number, number, boolean][] = [
      [s06, 49_000, 301, false],
      [medium, 14_700, 301, true],
      [medium, 14_100, 301, false],
      [medium, 14_700, 290, false],
    ];
    for (const [lesson, size, seconds, isCleared] of cases) {
      const talk = await talkAgo(lesson, size, seconds);
      const { sent, printed } = await talk.ask("second", say("done"));
      const what = `${size} characters after ${seconds} s`;
      assert.deepEqual([kinds(sent), contents(sent[0]?.messages)[0] === CLEARED], ["call", isCleared], what);
      assert.equal(/\[micro_compact\].*cold/.test(printed), isCleared, `${what}: the user reads why`);
    }
  });

  test("nothing else happens, however long the conversation is below its limit", async () => {
    const talk = await talkAgo(s06, 49_000, 0);
    await talk.ask("words ".repeat(30_000), read("old.txt"), ...Array(3).fill(read("new.txt")), say("ok"));
    talk.state.lastCall = 0;
    const { sent } = await talk.ask("second", say("done")); // 90,000 tokens, of which two results are 30,000
    assert.deepEqual([kinds(sent), contents(sent[0]?.messages).indexOf(CLEARED, 1)], ["call", 4]);
  });

  test("nothing is cleared within a turn", async () => {
    const talk = await talkAgo(medium, 14_700, 0);
    talk.options.approve = async () => {
      talk.state.lastCall = 0; // as if the user had thought for long
    };
    const { sent } = await talk.ask("second", bash("true"), say("done"));
    assert.doesNotMatch(JSON.stringify(sent), /\[Previous/);
  });
});

describe("a turn", () => {
  step("runTurn");
  test("whose request alone is past the limit is refused before anything is forgotten for it", async () => {
    const talk = await talkAgo(medium, 14_700, 301); // a request that is sent would have results cleared
    const before = structuredClone(talk.messages);
    const file = fs.readFileSync(talk.state.file, "utf8");
    const { error, sent } = await talk.ask("words ".repeat(6_500));
    assert.match(error, /\d.?\d{3}/, "how long it is");
    assert.deepEqual([sent, talk.messages], [[], before], "nothing is sent or cleared");
    assert.equal(fs.readFileSync(talk.state.file, "utf8"), file, "the transcript");
    assert.equal((await talk.ask("go on", say("ok"))).error, "");
    const fits = await talkTo(small).ask("words ".repeat(3_930), say("ok")); // 5,900 tokens, without system and tools
    assert.deepEqual([fits.error, kinds(fits.sent)], ["", "call"], "a request that alone is below the limit is sent");
  });

  test("loses what the API rejects, which is what was just sent: the request, or the calls with their results", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", bash("echo one"), say("ok"));
    for (const [said, left] of [
      [[], []],
      [[bash("echo two")], ["second"]],
      [
        [bash("echo two"), bash("echo three")],
        ["second", "calls", "results"],
      ],
    ] as const) {
      const { messages, ask } = talkTo(s06, [...talk.messages], talk.options);
      expectRejection(/Bad request/);
      server.fail(...said.map((): Failure => ({ kind: "slow", delay: 0 })), { kind: "status", status: 400 });
      assert.match((await ask("second", ...said)).error, /Bad request/);
      assert.deepEqual(outline(messages), ["first", "calls", "results", "ok", ...left]);
      assert.equal((await ask("go on", say("ok"))).error, "");
    }
  });

  test("loses nothing of an earlier one: calls that the user interrupted stay, with their results", async () => {
    const talk = talkTo(s06);
    await talk.interrupted("first", bash("echo one"));
    const before = talk.messages.map(s06.withoutThinking);
    assert.deepEqual(outline(before).slice(0, 3), ["first", "calls", "results"]);
    assert.match(outline(before)[3] ?? "", /interrupted/, "the model is told");
    const { printed } = await watch(() => s06.resume(talk.state.file, optionsFor(s06)));
    assert.match(printed, /\bfirst\b/, "what it is told is no request, so --resume shows the one before");
    expectRejection(/Bad request/);
    server.fail({ kind: "status", status: 400 });
    await talk.ask("second");
    assert.deepEqual(talk.messages, before);
    assert.equal((await talk.ask("go on", say("ok"))).error, "");
  });

  test("may be summarized again, though the one before stayed past the limit for three rounds", async () => {
    const talk = await longTalk();
    talk.state.roundsPastLimit = 3;
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
  });

  test("that the model refuses goes, and what was there before comes back, also after a summary", async () => {
    const talk = await longTalk();
    const before = talk.messages.map(small.withoutThinking);
    server.fail(...Array<Failure>(2).fill({ kind: "slow", delay: 0 }), { kind: "refusal" });
    const { error, sent } = await talk.ask("second", say("A summary."), bash("true"), say("no"));
    assert.notEqual(error, "");
    assert.equal(kinds(sent), "summary call call");
    assert.deepEqual(talk.messages, before);
    const cold = await talkAgo(medium, 14_700, 301);
    const results = contents(cold.messages);
    server.fail({ kind: "refusal" });
    await cold.ask("second", say("no"));
    assert.deepEqual(contents(cold.messages), results, "also what a cold cache had cleared");
  });
});

describe("a prompt that is too long after all", () => {
  let from = 0;
  beforeEach(() => {
    from = server.journal.length;
  });
  afterEach(() => {
    const rejected = server.journal.splice(from).flatMap(({ status, error = "" }) => (status === 200 ? [] : error));
    for (const error of rejected) assert.match(error, /^prompt is too long/);
  });

  step("callOrCompact");
  test("is summarized, and the call made once more; a line says what the server said, and what CONTEXT_WINDOW is", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), say("ok"));
    server.contextLimit = 8_500;
    const second = "second ".repeat(700);
    const { error, printed, sent } = await talk.ask(second, say("A summary."), say("done"));
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
    assert.deepEqual(outline(sent.at(-1)?.messages), ["compressed", "Understood.", second]);
    const line = printed.split("\n").find((each) => each.includes("CONTEXT_WINDOW")) ?? "";
    assert.match(line, /8500 maximum.*200000/, "what the server said, and what CONTEXT_WINDOW is, in a line");
  });

  test("is summarized without the files, which might make it too long again", async () => {
    fileOf("a.txt", 800);
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), read("a.txt"), say("ok"));
    server.fail({ kind: "status", status: 413 });
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    server.journal.length = from; // a 413 is none of the server's own
    assert.equal(kinds(sent), "call summary call");
    assert.doesNotMatch(JSON.stringify(sent.at(-1)?.messages), /<file /);
  });

  test("loses all old results, also the newest three, and those that are not answered go to disk", async () => {
    fileOf("a.txt", 8_000);
    server.contextLimit = 11_000;
    const talk = talkTo(s06);
    const { error, sent } = await talk.ask("go", ...Array(4).fill(read("a.txt")), say("done"));
    assert.equal(error, "");
    const [result, ...old] = contents(sent.at(-1)?.messages).reverse();
    assert.deepEqual(old, Array(3).fill(CLEARED));
    assert.equal(savedOf(result), fs.readFileSync("a.txt", "utf8"));
  });

  test("and a reply that the window cuts are one case", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), say("ok"));
    server.contextLimit = 9_000;
    const reply = say("a long reply ".repeat(500));
    const { error, sent } = await talk.ask("second", (request) => (asksForSummary(request) ? say("Sum.") : reply));
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
  });

  test("keeps what there was if no summary can be had", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(4_000), say("ok"));
    const before = talk.messages.map(s06.withoutThinking);
    server.fail(...Array<Failure>(3).fill({ kind: "status", status: 413, message: "prompt is too long" }));
    const { error, sent, printed } = await talk.ask("second", () => say("a fourth request"));
    assert.match(error, /prompt is too long/, "the error of the second call");
    assert.deepEqual([kinds(sent), talk.messages], ["call summary call", before]);
    assert.match(printed, /\/clear/, "what helps");
    assert.equal((await talk.ask("third", say("ok"))).error, "");
  });

  test("is known by a 413 and by one plain pattern, and not by other words", async () => {
    for (const [status, message, isTooLong] of [
      [413, undefined, true],
      [400, "this model's maximum context length is 8192 tokens", true],
      [400, "input length and `max_tokens` exceed context limit: 9000 + 8000 > 16000", true],
      [400, "the request took too long", false],
    ] as const) {
      const talk = talkTo(s06);
      await talk.ask("first", say("words ".repeat(2_000)));
      server.fail({ kind: "status", status, message });
      const { error, printed } = await talk.ask("second", ...(isTooLong ? [say("A summary."), say("done")] : []));
      assert.deepEqual([error === "", /auto_compact triggered/.test(printed)], [isTooLong, isTooLong], message);
    }
    server.journal.length = from; // these were not the server's own words
  });
});

describe("--resume", () => {
  step("resume");
  /** What a transcript goes on as, and what the user reads. */
  async function resume(file: string) {
    const talk = talkTo(s06);
    const { value = [], printed, sent, error } = await watch(() => s06.resume(file, talk.options));
    assert.deepEqual(sent, [], "it runs nothing by itself");
    return { ...talkTo(s06, value, talk.options), printed, error };
  }

  test("goes on in a new transcript, with history, state and todo list, and shows the last request", async () => {
    fileOf("a.txt", 90);
    const items = [{ text: "one", status: "in_progress" }];
    const talk = talkTo(s06);
    await talk.ask("plan it", say("planned"));
    server.reportedUsage = { input_tokens: 5_000, output_tokens: 1 };
    await talk.ask("make it", read("a.txt"), call(use("todo", { items })), say("made"));
    const old = fs.readFileSync(talk.state.file);
    s06.TODO.items = [];
    const { state, printed, messages, ask } = await resume(talk.state.file);
    assert.deepEqual(messages, talk.messages.map(s06.withoutThinking));
    assert.deepEqual([{ ...state, file: "" }, s06.TODO.items], [{ ...talk.state, file: "" }, items]);
    assert.match(printed, /make it/, "the user reads the last request");
    assert.doesNotMatch(printed, /\bline\b/, "each line is whole");
    assert.equal((await ask("go on", say("ok"))).error, "");
    assert.deepEqual(fs.readFileSync(talk.state.file), old, "the old one stays as it was");
    assert.deepEqual([rewritesIn(state.file)[0].trigger, historyIn(state.file)], ["resume", messages]);
    assert.deepEqual((await resume(state.file)).messages, messages.map(s06.withoutThinking), "and again");
  });

  test("begins at the last rewrite, and shows the request before Ctrl-C, by head and tail if it is long", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(2_000)));
    await talk.compact(say("A summary."));
    await talk.interrupted(`begin ${"words ".repeat(1_000)}end`, bash("true"));
    const { messages, printed } = await resume(talk.state.file);
    assert.deepEqual(messages, talk.messages.map(s06.withoutThinking));
    assert.match(printed, /begin .* end/s, "head and tail of the last request");
    assert.ok(printed.length < 1_500, `a long request is cut: ${printed.length} characters are printed`);
  });

  test("takes what is before the first line that is not whole, names that, and answers calls without a result", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", call(...["a", "b"].map((id) => use("bash", { command: "true" }, id))), say("ok"));
    const [one = "", two = "", three = "", four = ""] = fs.readFileSync(talk.state.file, "utf8").split("\n");
    const lost = "(interrupted; it may have run)";
    const cases: [string[], string, string[]][] = [
      [[one, two, three, four.slice(0, 50)], "first,calls,results", ["(no output)", "(no output)"]],
      [[one, two, three.slice(9), four], "first,calls,results", [lost, lost]],
      [[one, two.slice(0, 50), three, four], "first", []],
    ];
    for (const [i, [lines, left, results]] of cases.entries()) {
      fs.writeFileSync("old.jsonl", lines.join("\n"));
      const { messages, printed, ask } = await resume("old.jsonl");
      assert.deepEqual([outline(messages).join(), contents(messages)], [left, results]);
      assert.match(printed, new RegExp(`(?=.*old\\.jsonl).*\\b${4 - i}\\b`), "the file and the line");
      assert.equal((await ask("go on", say("ok"))).error, "");
    }
  });

  test("of a file that holds no message, or is not there, is an error that names it", async () => {
    fs.writeFileSync("empty.jsonl", "");
    for (const name of ["empty.jsonl", "missing.jsonl"])
      assert.match((await resume(name)).error, new RegExp(name), "its name");
  });
});

step("program");
describe("the program", { concurrency: true }, () => {
  const lesson = "s06_context_compact";
  /** A transcript that somebody may have. */
  const transcript = (request: string, ...before: Anthropic.MessageParam[]) => {
    const known = { state: { charsPerToken: 3, files: ["a.txt"] }, todos: [{ text: "one", status: "pending" }] };
    const messages = [...before, user(request), { role: "assistant", content: "words ".repeat(2_000) }];
    return messages.map((message) => JSON.stringify({ message, ...known })).join("\n");
  };

  test("knows /compact and what to keep, and shows tokens and limit after each turn", async (t) => {
    const input = "/compact\nhello\n/compact the names\n/clear the build folder\n/compact.ts is broken\n";
    const env = { CONTEXT_WINDOW: "100000" };
    const replies = [say("words ".repeat(2_000)), say("A summary."), say("ok"), say("ok")];
    const run = await start(t, lesson, [], { replies, input, env });
    assert.equal(await run.ended, 0, run.screen());
    const sent = run.journal.map(({ request }) => request);
    assert.equal(kinds(sent), "call summary call call", "with nothing to summarize it calls no model");
    assert.match(lastTextOf(sent[1] ?? assert.fail()), /the names/);
    assert.deepEqual(outline(sent[2]?.messages), ["compressed", "Understood.", "/clear the build folder"]);
    assert.deepEqual(sent[3]?.messages.at(-1), user("/compact.ts is broken"));
    assert.equal(run.screen().match(/\d+ .*67000/g)?.length, 5);
  });

  test("takes /clear and /compact as requests if there are more lines", async (t) => {
    for (const request of ["/clear\nand go on", "/compact\nand go on"]) {
      const run = await start(t, lesson, [request], { replies: [say("ok")] });
      assert.equal(await run.ended, 0, run.screen());
      assert.deepEqual(run.journal[0]?.request.messages, [user(request)]);
    }
  });

  test("has no dead end: where every request is rejected the error names /clear, which forgets all but the transcript", async (t) => {
    const block = { type: "text" as const, text: "later", from: "another version" };
    const files = { "old.jsonl": transcript("make it", { role: "user", content: [block] }) };
    const input = "go on\n/compact\ngo on\n/clear\nand now?\n";
    for (let i = 0; i < 3; i++) expectRejection(/from: Extra inputs/);
    const run = await start(t, lesson, ["--resume", "old.jsonl"], { files, input, replies: [say("here I am")] });
    assert.equal(await run.ended, 1, "a request failed");
    assert.match(run.screen(), /Extra inputs.*\/clear.*here I am/s);
    assert.deepEqual(run.journal.at(-1)?.request.messages, [user("and now?")]);
    const names = fs.readdirSync(join(run.cwd, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
    assert.equal(names.length, 1, "it goes on");
    const [cleared, next] = linesOf(join(run.cwd, ".transcripts", names[0] ?? "")).slice(-3);
    const { trigger, messages, todos, state } = cleared;
    assert.deepEqual([trigger, messages, todos, state.files], ["clear", [], [], []]);
    assert.deepEqual(next.message, user("and now?"));
  });

  test("resumes the transcript that was begun last, or the one that is named, and then takes a request", async (t) => {
    const files = {
      ".transcripts/transcript_1_1.jsonl": transcript("older"),
      ".transcripts/transcript_2_1.jsonl": transcript("newest"),
      "old.jsonl": transcript("named"),
    };
    for (const [words, shown, request] of [
      [["explain data.jsonl"], "newest", "explain data.jsonl"],
      [["old.jsonl", "go on"], "named", "go on"],
    ] as const) {
      const run = await start(t, lesson, ["--resume", ...words], { files, replies: [say("ok")] });
      assert.equal(await run.ended, 0, run.screen());
      assert.ok(run.screen().includes(shown), "it shows the last request");
      const { messages = [] } = run.journal[0]?.request ?? {};
      assert.deepEqual([messages[0], ...messages.slice(2)], [user(shown), user(request)]);
    }
    const none = await start(t, lesson, ["-y", "--resume"], { input: "" });
    assert.equal(await none.ended, 1, "there is none");
    assert.match(none.screen(), /--resume.*\.transcripts/);
  });
});
