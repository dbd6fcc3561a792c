// When and how the agent forgets, and what it keeps: thresholds, layers, transcript, recovery, resume, the program. To
// test other thresholds, it imports the lesson again with other environment variables.

import assert from "node:assert/strict";
import fs from "node:fs";
import { join, relative } from "node:path";
import { beforeEach, test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { bash, call, say, use, user } from "../offline/api/said.ts";
import { type Failure, type Model, type Reply, scripted } from "../offline/api/server.ts";
import { start } from "./program.ts";
import { expectRejection, PASS, useServer } from "./server.ts";
import * as turns from "./turn.ts";
import { emptyWorkspace, newFolder, useWorkspace } from "./workspace.ts";

const { blocksOf, entriesIn, historyIn, onEach, onEachAtOnce, optionsFor, resultsIn, rewritesIn, textsOf } = turns;
type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = turns.Messages;
type Request = Anthropic.MessageCreateParams;

const folder = useWorkspace();
const server = await useServer();
const load = (env = {}) => turns.load<Lesson>("agents/s06_context_compact.ts", env);
const s06 = await load();
const small = await load({ COMPACT_THRESHOLD: "6000" });
const medium = await load({ COMPACT_THRESHOLD: "12000" });
const { TRANSCRIPT_DIR, KEEP_RECENT, RECENT_FILES } = s06;

type Said = Reply[] | [Model];
const isModel = (said: Said): said is [Model] => typeof said[0] === "function";
/** What `work` returns, throws, prints and sends while the model says this. The error is "" if there is none. */
async function watch<T>(work: () => T | Promise<T>, said: Said = []) {
  const { error = "", ...seen } = await turns.watch(isModel(said) ? said[0] : scripted(...said), work);
  return { ...seen, error };
}

/** Begins a conversation. `ask` runs a turn, `interrupted` presses Ctrl-C when bash asks, and `compact` is /compact. */
function talkTo(lesson: Lesson, messages: Messages = [], options = optionsFor(lesson)) {
  const now = Date.now();
  while (Date.now() === now); // or two transcripts could have the same name
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
/** Begins a conversation with a long reply, which takes it past the threshold of 6,000 tokens. */
async function longTalk(options = optionsFor(small), ...before: Reply[]) {
  const talk = talkTo(small, [], options);
  await talk.ask("first", ...before, say("words ".repeat(3_000)));
  return talk;
}
/** Replies that take a conversation past the threshold of 12,000 tokens, where clearing the first ten results is enough. */
function tenOldResults(): Reply[] {
  for (const [name, size] of Object.entries({ "old.txt": 2_700, "new.txt": 150, "last.txt": 9_000 }))
    fileOf(name, size);
  const reads = (count: number, path: string) => call(...Array(count).fill(use("read_file", { path })));
  return [reads(10, "old.txt"), reads(KEEP_RECENT, "new.txt"), reads(1, "last.txt")];
}

const isSummary = (message: Anthropic.MessageParam) => textsOf(message)[0]?.startsWith("[Conversation compressed");
/** The todo list and files that come with a summary, without the line ends around a file. */
const withSummary = (messages: Messages) =>
  textsOf(messages.find(isSummary))
    .slice(1)
    .map((text) => text.replace(/(<file [^>]*>)\n|\n(<\/file>)$/g, "$1$2"));
const file = (name: string, text: string) => `<file path="${name}">${text}</file>`;
const contents = (messages: Messages = []) => resultsIn(messages).map(({ text }) => text);
const lastTextOf = ({ messages }: Request) => textsOf(messages.at(-1)).at(-1) ?? "";
const asksForSummary = (request: Request) => lastTextOf(request).startsWith(s06.SUMMARY_PROMPT.slice(0, 40));
const kinds = (sent: Request[]) => sent.map((request) => (asksForSummary(request) ? "summary" : "call")).join(" ");
/** Describes each message of a history with a word. "note" tells the model that a turn was stopped. */
const outline = (messages: Messages = []) =>
  messages.map((message) => {
    if (isSummary(message)) return "compressed";
    if (resultsIn([message]).length > 0) return "results";
    const text = textsOf(message).at(-1);
    if (text?.startsWith("(Stopped here")) return "note";
    return blocksOf(message).some(({ type }) => type === "tool_use") ? "calls" : text;
  });
/** Returns a reply with a call, and the call's result. */
const round = (name: string, content: string, id: string, is_error = false): Messages => [
  { role: "assistant", content: [{ type: "tool_use", id, name, input: {} }] },
  { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error }] },
];
const read = (path: string) => call(use("read_file", { path }));
const CLEARED = "[Previous: used read_file]";
const TOO_LONG = /^prompt is too long/; // the server's error
/** Returns a model that reads a file in this many rounds and summarizes when asked. */
const reader =
  (path: string, rounds: number, summary = "A summary."): Model =>
  (request) => {
    if (asksForSummary(request)) return say(summary);
    return rounds-- > 0 ? read(path) : say("done");
  };
/** Writes a file with this many characters. */
const fileOf = (name: string, size: number) => fs.writeFileSync(name, `${name} `.padEnd(size, "text "));
/** How many tokens were saved, according to what layer 1 printed. */
const savedAsPrinted = (printed: string) => Number(/(\d+) tokens/.exec(printed)?.[1]);
/** Returns the path of a saved result. */
const savedIn = (result = "") => /^Output too large\. Saved to: (.*)$/m.exec(result)?.[1];
const savedOf = (result = "") => fs.readFileSync(savedIn(result) ?? assert.fail(result.slice(0, 200)), "utf8");
beforeEach(() => {
  emptyWorkspace();
  Object.assign(server, { contextLimit: 200_000, reportedUsage: undefined });
  for (const lesson of [s06, small, medium]) lesson.TODO.items = [];
});

onEach("microCompact", { s06 }, () => {
  /** The results in a history after layer 1, if the model has seen them all. */
  const seenIn = (messages: Messages, keep?: number) =>
    contents(s06.microCompact([...messages, { role: "assistant", content: "ok" }], keep));

  test("clears old long results, but not the newest, those of load_skill, and what isn't seen", () => {
    const long = (name: string) => `${name} `.padEnd(400, "x");
    const short = "y".repeat(100);
    const newest = Array.from({ length: KEEP_RECENT }, (_, i) => round("bash", long(`new ${i}`), `new_${i}`));
    const messages = [
      user("go"),
      ...round("bash", short, "short"),
      ...round("bash", long("old"), "old"),
      ...round("load_skill", long("skill"), "skill"),
      ...round("read_file", long("file"), "file"),
      ...newest.flat(),
      ...round("bash", long("unseen"), "unseen"),
    ];
    const before = structuredClone(messages);
    const old = [short, "[Previous: used bash]", long("skill"), CLEARED];
    const kept = [...old, ...contents(newest.flat()), long("unseen")];
    assert.deepEqual(contents(s06.microCompact(messages)), kept);
    assert.deepEqual(messages, before, "it returns a copy");
    const none = [...old, ...newest.map(() => "[Previous: used bash]"), long("unseen")];
    assert.deepEqual(contents(s06.microCompact(messages, 0)), none, "with none of the newest kept");
    const later = [...old, "[Previous: used bash]", ...kept.slice(old.length + 1)];
    assert.deepEqual(seenIn(messages), later, "once the last one is seen");
    const stopped = [...messages, user("(Stopped here.)"), user("more")];
    assert.deepEqual(contents(s06.microCompact(stopped)), kept, "after Ctrl-C and a new request, it's still unseen");
  });

  test("counts only what it could clear among the newest: no short results, errors, skills or cleared ones", () => {
    const long = Array.from({ length: KEEP_RECENT + 1 }, (_, i) => `${i} `.repeat(200));
    const others = [
      ...Array.from({ length: 3 }, (_, i) => round("todo", "[ ] #1: test\n(0/1 completed)", `todo_${i}`)).flat(),
      ...round("bash", `not run: the user said: ${"no ".repeat(100)}`, "error", true),
      ...round("load_skill", "skill ".repeat(100), "skill"),
      ...round("bash", `[Previous: used bash] Output too large. Saved to: ${"folder/".repeat(20)}1.txt`, "cleared"),
    ];
    const messages = [...long.flatMap((text, i) => round("read_file", text, `call_${i}`)), ...others];
    assert.deepEqual(seenIn(messages), [CLEARED, ...long.slice(1), ...contents(others)]);
  });

  test("clears a result that only begins like a cleared one", () => {
    const text = `[Previous: used bash] Output too large. Saved to: a.txt\n${"x".repeat(200)}`;
    assert.deepEqual(seenIn(round("read_file", text, "call"), 0), [CLEARED]);
  });

  test("looks a result's tool up in the reply before it, as some servers give every call the same id", () => {
    const tools = ["bash", "load_skill", "read_file", "load_skill", "bash"];
    const messages = tools.flatMap((name) => round(name, `${name} `.padEnd(400, "x"), "call"));
    const texts = seenIn(messages, 1).map((text) => text.split(" x")[0]);
    assert.deepEqual(texts, ["[Previous: used bash]", "load_skill", CLEARED, "load_skill", "bash"]);
  });

  test("keeps where a long result was saved, however often it acts", async () => {
    const talk = talkTo(s06);
    await talk.ask("go", bash("head -c 60000 /dev/zero | tr '\\0' x"), say("ok"));
    const [result = ""] = contents(talk.messages);
    const saved = savedIn(result) ?? assert.fail(result);
    for (const times of [1, 2]) {
      talk.messages.splice(0, Number.POSITIVE_INFINITY, ...s06.microCompact(talk.messages, 0));
      const [cleared = ""] = contents(talk.messages);
      assert.ok(cleared.length < 200, `cleared: ${cleared}`);
      assert.ok(cleared.includes(saved), `the path after ${times}: ${cleared}`);
    }
    assert.equal(fs.readFileSync(saved, "utf8").length, 60_000);
    const quote = `grep found:\nOutput too large. Saved to: ${saved}\n${"x".repeat(200)}`;
    assert.deepEqual(seenIn(round("bash", quote, "call"), 0), ["[Previous: used bash]"], "a line that's only quoted");
  });

  test("and a summary leave unseen calls with their results, wherever in the reply the calls are", async () => {
    const [reply, results] = round("bash", "x".repeat(400), "call_1") as [Messages[number], Messages[number]];
    const calls = [...blocksOf(reply), { type: "text" as const, text: "I wait for it." }]; // the call isn't the last block
    const seen: Messages = [user("go"), { role: "assistant", content: "words ".repeat(3_000) }, user("now")];
    const history: Messages = [...seen, { role: "assistant", content: calls }, results];
    assert.deepEqual(contents(small.microCompact(history, 0)), contents(history));
    const { messages, options } = talkTo(small, history);
    await watch(() => small.autoCompact(messages, "tool", options), [say("A summary.")]);
    assert.deepEqual(outline(messages), ["now", "compressed", "calls", "results"]);
  });
});

onEach("autoCompact", { s06 }, () => {
  test("asks with the last prompt plus one message, so it reads the prompt cache; the user sees the summary", async () => {
    const talk = await longTalk();
    const prompt = structuredClone(talk.messages);
    const { sent, printed } = await talk.ask("second", say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.deepEqual([sent[0]?.system, sent[0]?.tools], [small.SYSTEM, small.TOOLS]);
    assert.equal(sent[0]?.cache_control?.ttl, "1h", "so that it outlives a break");
    assert.deepEqual(sent[0]?.messages.slice(0, -1), prompt, "what the model has seen, thinking included");
    assert.ok(server.journal.at(-2)?.usage?.cache_read_input_tokens, "read from the cache");
    assert.match(printed, /^\[summary\]\n(.*\n)*A summary\.\n/m, "what streams by has a label");
  });

  test("between turns leaves the summary, the todo list and the files, and then the new request", async () => {
    fileOf("kept.txt", 800);
    const talk = talkTo(small);
    const items = [{ text: "compact", status: "in_progress" }];
    const reply = call(use("todo", { items }), use("read_file", { path: "kept.txt" }));
    await talk.ask("do it", reply, say("words ".repeat(3_000)));
    const { sent } = await talk.ask("second", say("A summary."), say("done"));
    const { messages = [] } = sent.at(-1) ?? {};
    assert.deepEqual(outline(messages), ["compressed", "second"]);
    const text = textsOf(messages[0]).join("\n");
    assert.match(text, /^\[Conversation compressed.*A summary\./s, "the mark, and the summary");
    assert.ok(text.includes(relative(folder, talk.state.file)), "it names the transcript");
    const kept = file("kept.txt", fs.readFileSync("kept.txt", "utf8"));
    assert.deepEqual(withSummary(messages), ["[>] #1: compact\n(0/1 completed)", kept]);
    const child = await longTalk(optionsFor(small, { tools: small.TOOLS.filter(({ name }) => name !== "todo") }));
    await child.compact(say("A summary."));
    assert.deepEqual(withSummary(child.messages), [], "a subagent has no todo list");
  });

  test("keeps every request since the last final reply, word for word, and that they were stopped", async () => {
    const talk = talkTo(medium);
    await talk.ask("first", say("ok"));
    const wish = "Build it, and never touch vendor/. ".repeat(30);
    await talk.interrupted(wish, bash("true"));
    await talk.interrupted("go on", bash("true"));
    fileOf("a.txt", 12_000);
    const { sent } = await talk.ask("go on", reader("a.txt", 8));
    const { messages = [] } = sent.at(-1) ?? {};
    assert.ok(rewritesIn(talk.state.file).filter(({ trigger }) => trigger === "auto").length > 1, "two summaries");
    const before = outline(messages).slice(0, outline(messages).indexOf("compressed"));
    assert.deepEqual(before, [wish, "note", "go on", "note", "go on"]);
  });

  test("after Ctrl-C keeps the interrupted calls as well, and then the new request, once", async () => {
    const talk = talkTo(small);
    await talk.ask("first", say("words ".repeat(2_000)));
    await talk.interrupted("second", bash("true"));
    const third = "third ".repeat(1_000);
    const { sent } = await talk.ask(third, say("A summary."), say("done"));
    assert.equal(kinds(sent), "summary call");
    assert.deepEqual(outline(sent[1]?.messages), ["second", "compressed", "calls", "results", "note", third]);
  });

  test("takes everything if the user types /compact, even right after Ctrl-C in the first round", async () => {
    fileOf("a.txt", 900);
    const talk = talkTo(small);
    const nine = Array(9).fill(use("read_file", { path: "a.txt" }));
    await talk.interrupted("look around", call(...nine, use("bash", { command: "true" })));
    talk.state.pendingCompact = {};
    const { sent } = await talk.compact(say("A summary."));
    assert.equal(talk.state.pendingCompact, undefined, "what the compact tool asked for is done");
    assert.deepEqual([kinds(sent), outline(talk.messages)], ["summary", ["look around", "note", "compressed"]]);
    assert.equal((await talk.ask("go on", say("ok"))).error, "");
  });

  test("changes nothing if the summary is refused, cut, empty, a call or an error, and the turn goes on", async () => {
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
    fileOf("a.txt", 100);
    for (const [reason, summary, failure] of bad) {
      const talk = await longTalk(optionsFor(small), read("a.txt"));
      const before = structuredClone(talk.messages);
      if (failure) server.fail(failure);
      const model: Model = (request) => (asksForSummary(request) ? summary : say("done"));
      const { error, printed, sent } = await talk.ask("second", model);
      assert.deepEqual([error, kinds(sent)], ["", "summary call"], `${reason}`);
      assert.match(printed, reason, "the user is told why");
      assert.deepEqual(talk.messages.slice(0, before.length + 1), [...before, user("second")]);
      assert.deepEqual(talk.state.files, ["a.txt"], "the next summary still brings the file");
    }
    assert.equal(fs.existsSync("ran"), false);
  });

  test("changes nothing if the user interrupts it, which ends the turn; the next request tries again", async () => {
    const talk = await longTalk();
    const before = structuredClone(talk.messages);
    const end = new AbortController();
    talk.options.signal = end.signal;
    const { error, sent } = await talk.ask("second", () => {
      end.abort(new Error("interrupted"));
      return say("A summary.");
    });
    assert.match(error, /aborted/);
    assert.equal(kinds(sent), "summary");
    assert.deepEqual(talk.messages.slice(0, 3), [...before, user("second")]);
    const short = talkTo(small, [user("hi")], talk.options);
    assert.match(
      (await short.compact()).error,
      /interrupted/,
      "/compact says so even if there is nothing to summarize",
    );
    talk.options.signal = new AbortController().signal;
    assert.equal(kinds((await talk.ask("third", say("A summary."), say("ok"))).sent), "summary call");
  });

  test("doesn't summarize what isn't longer than a summary and the requests that stay, and says so", async () => {
    const hello = talkTo(small);
    await hello.ask("hi", say("words ".repeat(100)));
    const stopped = talkTo(medium);
    await stopped.interrupted("words ".repeat(2_000), bash("true"));
    for (const talk of [hello, stopped]) {
      const before = structuredClone(talk.messages);
      const { error, sent, printed } = await talk.compact();
      assert.deepEqual([error, sent, talk.messages], ["", [], before]);
      assert.match(printed, /shorter/);
    }
    const longer = talkTo(small); // of 1,400 tokens: with a low threshold, a summary has 600
    await longer.ask("hi", say("words ".repeat(700)));
    assert.equal(kinds((await longer.compact(say("A summary."))).sent), "summary");
  });
});

onEach("estimateTokens", { s06 }, () => {
  test("is compared with 100,000 tokens, half a smaller window or COMPACT_THRESHOLD, if a reply still fits", async () => {
    const thresholds: [Record<string, string>, number][] = [
      [{ COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "" }, 100_000],
      [{ CONTEXT_WINDOW: "1000000" }, 100_000],
      [{ CONTEXT_WINDOW: "32767" }, 16_383],
      [{ COMPACT_THRESHOLD: "50000" }, 50_000],
      [{ COMPACT_THRESHOLD: "150000" }, 150_000],
      [{ COMPACT_THRESHOLD: "500000" }, 168_000],
      [{ CONTEXT_WINDOW: "16000", COMPACT_THRESHOLD: "16000" }, 12_000],
    ];
    for (const [env, tokens] of thresholds) {
      const { THRESHOLD, MIN_SAVINGS, FILES_TOKENS } = await load(env);
      assert.deepEqual([THRESHOLD, MIN_SAVINGS, FILES_TOKENS], [tokens, tokens / 2, tokens / 4], JSON.stringify(env));
    }
  });

  test("is compared with an estimate that follows what the API counts, cached tokens included", async () => {
    const talk = talkTo(s06);
    for (const request of ["function f(a) { return a?.b ?? {} }\n".repeat(100), "and then?"]) {
      await talk.ask(request, say("ok"));
      const counted = server.journal.at(-1)?.promptTokens ?? 0;
      const estimated = s06.estimateTokens(talk.messages.slice(0, -1), talk.options);
      assert.ok(Math.abs(estimated - counted) <= 1, `${estimated}, not ${counted}`);
    }
    assert.ok(server.journal.at(-1)?.usage?.cache_read_input_tokens, "the second prompt was read from the cache");
    const before = s06.estimateTokens(talk.messages, talk.options);
    const added = s06.estimateTokens([...talk.messages, user("x".repeat(3_000))], talk.options) - before;
    assert.ok(Math.abs(added - 1_000) < 60, `${added}: this server counts 3 characters as a token`);
    const [latin, chinese] = ["x", "中"].map((sign) => s06.estimateTokens([user(sign.repeat(900))], talk.options));
    assert.equal(chinese, latin, "it counts characters, not bytes");
  });

  test("isn't misled by a server that counts nonsense: a token has 0.5 to 10 characters", async () => {
    for (const ratio of [0.45, 0.55, 9.5, 10.5, Number.POSITIVE_INFINITY, Number.NaN]) {
      const { ask, state, options } = talkTo(s06);
      state.charsPerToken = 1;
      const length = s06.estimateTokens([user("hello")], options);
      state.charsPerToken = 3.5;
      const counted = Math.round(length / ratio);
      server.reportedUsage = { input_tokens: Number.isNaN(ratio) ? undefined : counted };
      assert.equal((await ask("hello", say("hi"))).error, "");
      assert.equal(state.charsPerToken, ratio > 0.5 && ratio < 10 ? length / counted : 3.5, `counted: ${ratio}`);
    }
  });
});

onEach("compactIfNeeded", { s06 }, () => {
  /** Returns a history past the threshold of 6,000 tokens, unless the newest results are short. Layer 1 can save this many. */
  function withResults(saved: number, request = "go", newest?: string): Messages {
    const content = "x".repeat((saved * 4) / 3 + CLEARED.length); // the lesson first assumes 4 characters per token
    const kept = newest ?? content.slice(0, (3 * content.length) / KEEP_RECENT);
    const texts = [...Array(3).fill(content), ...Array(KEEP_RECENT).fill(kept)];
    const rounds = texts.map((text, i) => round("read_file", text, `call_${i}`));
    return [user(request), ...rounds.flat(), { role: "assistant", content: "ok" }];
  }

  test("past the threshold old results go if that saves enough (MIN_SAVINGS), and the user is told how much it saved", async () => {
    for (const isCleared of [false, true]) {
      const saved = small.MIN_SAVINGS + (isCleared ? 30 : -30);
      const { messages, options, state } = talkTo(small, withResults(saved));
      if (!isCleared) state.nextSummaryAt = 100_000; // so layer 2 doesn't act
      const { sent, printed } = await watch(() => small.compactIfNeeded(messages, options));
      assert.deepEqual(sent, [], "then there is no summary");
      assert.equal(contents(messages).includes(CLEARED), isCleared);
      const told = savedAsPrinted(printed);
      assert.ok(isCleared ? Math.abs(told - saved) < 30 : Number.isNaN(told), `${saved}: ${printed}`);
    }
    const { messages, options } = talkTo(small, withResults(small.MIN_SAVINGS + 30, "go", "x".repeat(200)));
    await watch(() => small.compactIfNeeded(messages, options));
    assert.ok(!contents(messages).includes(CLEARED), "nothing goes before that");
  });

  test("if that isn't enough, the model summarizes, both for a new request and in the middle of a turn", async () => {
    fileOf("a.txt", 6_000); // 2,000 tokens
    const first = talkTo(small);
    await first.ask("go", read("a.txt"), read("a.txt"), say("words ".repeat(500)));
    const { sent } = await first.ask("words ".repeat(200), say("Sum."), say("done"));
    assert.equal(kinds(sent), "summary call");
    const within = await talkTo(small).ask("go", ...Array(3).fill(read("a.txt")), say("Sum."), say("done"));
    assert.equal(kinds(within.sent), "call call call summary call");
    const { messages, options } = talkTo(small, withResults(small.MIN_SAVINGS + 30, "words ".repeat(3_000)));
    const both = await watch(() => small.compactIfNeeded(messages, options), [say("Sum.")]);
    assert.equal(kinds(both.sent), "summary", "also if old results went and that wasn't enough");
    assert.equal(contents(both.sent[0]?.messages)[0], CLEARED);
  });

  test("after a summary that failed or didn't help, the next waits until the prompt has grown by a tenth of the threshold", async () => {
    for (const useless of [bash("true"), say("A long summary. ".repeat(1_300))]) {
      const { messages, options, compact } = await longTalk();
      const grownBy = async (tokens: number, summary = useless) => {
        messages.push(user("x".repeat(tokens * options.state.charsPerToken)), { role: "assistant", content: "ok" });
        const { sent } = await watch(() => small.compactIfNeeded(messages, options), [() => summary]);
        return kinds(sent);
      };
      assert.deepEqual([await grownBy(1), await grownBy(1), await grownBy(450)], ["summary", "", ""]);
      assert.equal(await grownBy(150), "summary");
      await compact(say("A summary."));
      const room = small.THRESHOLD - small.estimateTokens(messages, options);
      const each = [await grownBy(room - 100), await grownBy(200, say("A summary."))];
      assert.deepEqual(each, ["", "summary"], "after one that helped, the threshold counts again");
    }
  });

  test("layer 3 acts once, after the round in which the model called compact, and passes on what to keep", async () => {
    const talk = talkTo(s06);
    const long = say("words ".repeat(2_000));
    await talk.ask("first", long);
    const replies = [call(use("compact", { focus: "the names" })), say("A summary."), long];
    const { sent, error } = await talk.ask("second", ...replies);
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
    assert.match(lastTextOf(sent[1] ?? assert.fail()), /the names/, "what to keep");
    assert.deepEqual(outline(sent[2]?.messages), ["second", "compressed", "calls", "results"]);
    assert.equal(kinds((await talk.ask("third", long)).sent), "call");
    const { sent: plainly } = await talk.ask("fourth", call(use("compact", {})), say("A summary."), long);
    assert.doesNotMatch(lastTextOf(plainly[1] ?? assert.fail()), /undefined/, "there's nothing special to keep");
  });

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
    assert.deepEqual(outline(messages), ["find it", "compressed", "calls", "results"]);
    const text = textsOf(messages[1]).join("\n");
    assert.ok(text.includes(file), "it names its own transcript");
    assert.doesNotMatch(text, /of the parent/);
    assert.equal(rewritesIn(file)[0].trigger, "auto");
  });
});

onEach("recentFiles", { s06 }, () => {
  const long = say("words ".repeat(1_000));
  const path = (name: string) => use("read_file", { path: name });

  test("brings back the files touched last, whole and as they are now, newest first, and so does the next summary", async () => {
    for (const name of ["a", "b", "c", "gone"]) fs.writeFileSync(name, "one\ntwo");
    const part = use("read_file", { path: "b", offset: 2, limit: 1 });
    const edit = use("edit_file", { path: "c", old_text: "\ntwo", new_text: "" });
    const talk = talkTo(medium);
    await talk.ask("go", call(path("gone"), path("a"), part, edit), long);
    fs.rmSync("gone");
    const lines = `new${"\n".repeat(1_100)}end`; // more lines than read_file returns
    fs.writeFileSync("a", lines);
    const files = [file("c", "one"), file("b", "one\ntwo"), file("a", lines)];
    await talk.compact(say("A summary."));
    assert.deepEqual(withSummary(talk.messages), files);
    await talk.ask("think", bash("true"), long);
    await talk.compact(say("A second summary."));
    assert.deepEqual(withSummary(talk.messages), files, "no file was touched since");
    fs.rmSync("c");
    fs.symlinkSync("/etc/passwd", "c");
    await talk.ask("more", call(path("a")), long);
    await talk.compact(say("A third summary."));
    assert.deepEqual(
      withSummary(talk.messages),
      [file("a", lines), file("b", "one\ntwo")],
      "not what is outside by now",
    );
  });

  test("brings back what fits into FILES_TOKENS, and into half of what the summary frees; others are left out", async () => {
    const { FILES_TOKENS, SUMMARY_TOKENS } = medium;
    for (const [parts, seen, fitting] of [
      [{ newest: 0.5, newer: 0.3, older: 0.5, oldest: 0.15 }, 4 * FILES_TOKENS, ["newest", "newer", "oldest"]],
      [{ whole: 0.97 }, 4 * FILES_TOKENS, ["whole"]],
      [{ more: 1.03, less: 0.5 }, 4 * FILES_TOKENS, ["less"]],
      [{ more: 0.53, less: 0.47 }, FILES_TOKENS + SUMMARY_TOKENS, ["less"]],
    ] as const) {
      for (const [name, part] of Object.entries(parts)) fileOf(name, 3 * part * FILES_TOKENS);
      const talk = talkTo(medium, [user("go"), { role: "assistant", content: "x".repeat(3 * seen) }]);
      Object.assign(talk.state, { charsPerToken: 3, files: Object.keys(parts) });
      await talk.compact(say("A summary."));
      const files = fitting.map((name) => file(name, fs.readFileSync(name, "utf8")));
      assert.deepEqual(withSummary(talk.messages), files);
    }
  });

  test("leaves out files that calls in progress are about, and what is in .transcripts/", async () => {
    fs.mkdirSync(TRANSCRIPT_DIR);
    for (const name of ["a", "b", "c", ".transcripts/notes"]) fs.writeFileSync(name, name);
    const talk = talkTo(small);
    await talk.ask("first", call(path(".transcripts/notes"), path("a"), path("b"), path("c")), long);
    const edit = use("edit_file", { path: "b", old_text: "none", new_text: "" });
    await talk.ask("second", call(path("./a"), edit, use("compact", {})), say("A summary."), say("ok"));
    assert.deepEqual(withSummary(talk.messages), [file("c", "c")]);
  });

  test("notes a file by its path in the workspace, once, and only if the call succeeded; ten at most", async () => {
    fs.mkdirSync("src");
    for (const name of ["src/a", "b"]) fs.writeFileSync(name, "one");
    const write = use("write_file", { path: "./new/c", content: "one" });
    const edit = use("edit_file", { path: "b", old_text: "two", new_text: "" });
    const names = ["./src/a", "b", join(folder, "src/../src/a"), "none", "/etc/passwd"];
    const talk = talkTo(small);
    await talk.ask("go", call(...names.map(path), write, edit, path("src")), say("ok"));
    assert.deepEqual(talk.state.files, ["new/c", "src/a", "b"]);
    const more = Array.from({ length: RECENT_FILES - 1 }, (_, i) => use("write_file", { path: `${i}`, content: "" }));
    await talk.ask("go on", call(...more), say("ok"));
    assert.deepEqual([talk.state.files.length, talk.state.files.at(-1)], [RECENT_FILES, "new/c"]);
  });

  test("makes no result an error, even if a reader's own read_file goes where safePath wouldn't", async (t) => {
    const { read_file: handler = assert.fail() } = small.TOOL_HANDLERS;
    t.after(() => {
      small.TOOL_HANDLERS.read_file = handler;
    });
    small.TOOL_HANDLERS.read_file = () => "what I read";
    const talk = talkTo(small);
    await talk.ask("go", call(path("/etc/hosts"), use("read_file", { file: "a" })), long);
    const results = resultsIn(talk.messages).map(({ text, failed }) => [text, failed]);
    assert.deepEqual(results, Array(2).fill(["what I read", false]));
    await talk.compact(say("A summary."));
    assert.deepEqual(withSummary(talk.messages), []);
  });
});

onEach("withoutThinking", { s06 }, () => {
  test("a rewrite turns all thinking into text, in its place", async () => {
    fileOf("a.txt", 3_500);
    const two = Array(2).fill(use("read_file", { path: "a.txt" }));
    const thinking = ["I note this", " "].map((thinking) => ({ type: "thinking" as const, thinking }));
    const between = { type: "thinking" as const, thinking: "and this" };
    const reply = call(...thinking, { type: "redacted_thinking" }, ...two, between, ...two);
    const talk = talkTo(s06);
    await talk.ask("go", reply, reply, say("done"));
    server.fail({ kind: "status", status: 413 });
    expectRejection(/maximum size/);
    const { error, sent } = await talk.ask("second", say("done"));
    assert.equal(error, "", "the server rejects stale thinking");
    const { messages = [] } = sent.at(-1) ?? {};
    assert.equal(contents(messages)[0], CLEARED, "the history was rewritten");
    for (const message of [messages[1], messages[3]]) {
      const blocks = blocksOf(message ?? assert.fail()).map((block) =>
        block.type === "text" ? block.text : block.type,
      );
      assert.deepEqual(blocks, ["I note this", "tool_use", "tool_use", "and this", "tool_use", "tool_use"]);
    }
  });

  test("with THINKING=keep no rewrite touches thinking, resume and recovery included, and it's still asked for", async (t) => {
    t.after(() => {
      process.env.THINKING = "";
    });
    process.env.THINKING = "keep";
    const thoughts = (messages: Messages) =>
      messages.flatMap(blocksOf).filter(({ type }) => type === "thinking").length;
    fileOf("a.txt", 500);
    const talk = talkTo(s06);
    const { sent } = await talk.ask("go", read("a.txt"), say("done"));
    assert.deepEqual(sent[0]?.thinking, { type: "adaptive", display: "summarized" });
    const { value: resumed = [] } = await watch(() => s06.resume(talk.state.file, optionsFor(s06)));
    assert.equal(thoughts(resumed), 2);
    server.fail(...Array<Failure>(2).fill({ kind: "status", status: 413 }));
    for (let i = 0; i < 2; i++) expectRejection(/maximum size/);
    await talk.ask("too long");
    assert.equal(contents(talk.messages)[0], CLEARED, "the recovery rewrote the history");
    assert.equal(thoughts(talk.messages), 2);
  });
});

onEach("record", { s06 }, () => {
  test("has each message as it entered the history; each line has all of the state, todos, time, model and threshold", async () => {
    const talk = talkTo(small);
    const items = [{ text: "one", status: "pending" }];
    const began = Date.now();
    await talk.ask("go", call(use("todo", { items })), say("done"));
    const lines = entriesIn(talk.state.file);
    assert.deepEqual(historyIn(talk.state.file), talk.messages);
    for (const [i, { time, model, threshold, state, todos }] of lines.entries()) {
      assert.deepEqual([model, threshold, todos.length], [small.MODEL, 6_000, [0, 0, 0, 1, 1, 1][i]], `line ${i + 1}`);
      assert.equal(typeof state.charsPerToken, "number");
      assert.ok(time >= began && time <= Date.now(), `time is a number of ms since 1970: ${time}`);
    }
    const { state, todos } = lines.at(-1);
    assert.deepEqual([state, todos], [JSON.parse(JSON.stringify(talk.state)), items], "all of the state");
    assert.equal(lines.at(-2).usage?.output_tokens, server.journal.at(-1)?.usage?.output_tokens);
  });

  test("has a line for each rewrite, with its trigger and messages, so it holds every history", async () => {
    const sum = say("A summary.");
    const long = say("words ".repeat(1_000));
    const talk = talkTo(medium);
    await talk.ask("read", ...tenOldResults(), say("words ".repeat(4_500)));
    await talk.ask("more", sum, long);
    await talk.ask("now", call(use("compact", {})), sum, long);
    await talk.compact(sum);
    await talk.ask("again", long);
    expectRejection(/maximum size/);
    server.fail({ kind: "status", status: 413 });
    await talk.ask("too long after all", sum, say("ok"));
    server.fail({ kind: "refusal" });
    await talk.ask("something forbidden", say("no"));
    expectRejection(/Bad request/);
    server.fail({ kind: "status", status: 400 });
    await talk.ask("something wrong");
    const triggers = rewritesIn(talk.state.file).map(({ trigger }) => trigger);
    assert.deepEqual(triggers, ["micro", "auto", "tool", "manual", "recovery", "refused", "rejected"]);
    assert.deepEqual(talk.messages, historyIn(talk.state.file));
    assert.equal(entriesIn(talk.state.file).at(-1).usage, undefined, "a call that failed used nothing");
  });

  test("gets a rewrite before the history changes", async () => {
    const talk = await longTalk();
    const lines: number[] = [];
    const set = (target: Messages, key: PropertyKey, value: unknown) => {
      lines.push(rewritesIn(talk.state.file).length);
      return Reflect.set(target, key, value);
    };
    const history = new Proxy(talk.messages, { set });
    await watch(() => small.autoCompact(history, "tool", talk.options), [say("A summary.")]);
    assert.deepEqual(outline(talk.messages), ["compressed"]);
    assert.deepEqual([...new Set(lines)], [1], "rewrites on disk, at each change of the history");
  });

  test("that can't be written ends there: the user is told once, and the conversation goes on without it", async () => {
    const talk = await longTalk();
    const { file } = talk.state;
    const whole = fs.readFileSync(file, "utf8");
    fs.rmSync(file);
    fs.mkdirSync(file); // a folder can't be appended to
    const failed = await talk.ask("second", say("A summary."), read("none.txt"), say("done"));
    fs.rmSync(file, { recursive: true });
    fs.writeFileSync(file, whole);
    const { error, printed } = await talk.ask("third", say("ok"));
    assert.deepEqual([failed.error, error, outline(talk.messages).at(0)], ["", "", "compressed"]);
    assert.equal(`${failed.printed}${printed}`.match(/EISDIR/g)?.length, 1, "the reason, once");
    const isNamed = failed.printed.slice(failed.printed.indexOf("A summary.")).includes(relative(folder, file));
    assert.equal(isNamed, false, "nobody is told that the whole conversation is in there");
    assert.match(textsOf(talk.messages[0])[0] ?? "", /^\[Conversation compressed\.\]\n/, "nor is the model");
    assert.equal(fs.readFileSync(file, "utf8"), whole, "with a gap, it couldn't be resumed");
  });

  test("can be read by its owner alone, as can large results, and git ignores them", async () => {
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

  test("gets a .gitignore even if the folder was there before, but not through a link", async () => {
    const ignore = join(TRANSCRIPT_DIR, ".gitignore");
    fs.mkdirSync(TRANSCRIPT_DIR);
    await talkTo(s06).ask("go", say("ok"));
    assert.equal(fs.readFileSync(ignore, "utf8"), "*\n");
    const outside = newFolder();
    fs.rmSync(ignore);
    fs.symlinkSync(join(outside, "new"), ignore);
    const { error, printed } = await talkTo(s06).ask("go", say("ok"));
    assert.deepEqual([error, fs.readdirSync(outside)], ["", []]);
    assert.match(printed, /\.gitignore/, "the user is told why there is no transcript");
  });

  for (const name of [".transcripts", ".transcripts/outputs"]) {
    test(`isn't written through a link that the folder brought: ${name}`, async () => {
      const outside = newFolder();
      fs.mkdirSync("elsewhere");
      if (name !== ".transcripts") fs.mkdirSync(".transcripts");
      for (const target of [outside, join(folder, "elsewhere")]) {
        fs.symlinkSync(target, name);
        const talk = talkTo(s06);
        const { error, printed } = await talk.ask("go", bash("seq 20000"), say("done"));
        fs.rmSync(name);
        const [result = ""] = contents(talk.messages);
        assert.deepEqual([error, savedIn(result), fs.readdirSync(target)], ["", undefined, []]);
        assert.match(result, /^.*\.transcripts/, "it says where it couldn't be saved");
        assert.match(printed, /\.transcripts/, "so does the screen");
        assert.equal(talk.state.transcriptEnded, name === ".transcripts");
      }
    });
  }
});

onEach("resume", { s06 }, () => {
  /** Resumes a transcript. Returns the conversation and what was printed. */
  async function resume(file: string) {
    const talk = talkTo(s06);
    const { value = [], printed, sent, error } = await watch(() => s06.resume(file, talk.options));
    assert.deepEqual(sent, [], "it runs nothing by itself");
    return { ...talkTo(s06, value, talk.options), printed, error };
  }

  test("continues in a new transcript, with history, state and todo list, and prints the last request", async () => {
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
    assert.deepEqual(state, { ...talk.state, file: state.file });
    assert.deepEqual(s06.TODO.items, items);
    assert.match(printed, /make it/, "the user sees the last request");
    assert.equal((await ask("go on", say("ok"))).error, "");
    assert.deepEqual(fs.readFileSync(talk.state.file), old, "the old one stays as it was");
    const said = (file: string) => entriesIn(file).flatMap(({ message }) => message ?? []);
    const all = said(talk.state.file);
    assert.deepEqual(said(state.file).slice(0, all.length), all, "the new one, which a summary names, has all of it");
    assert.deepEqual([rewritesIn(state.file)[0].trigger, historyIn(state.file)], ["resume", messages]);
    assert.deepEqual((await resume(state.file)).messages, messages.map(s06.withoutThinking), "and again");
  });

  test("with a lower threshold summarizes at once, even if the last summary failed", async () => {
    const talk = talkTo(medium);
    await talk.ask("first", say("words ".repeat(4_000)));
    await talk.compact(bash("true"));
    await talk.ask("second", say("ok"));
    const options = optionsFor(small);
    const { value = [] } = await watch(() => small.resume(talk.state.file, options));
    const { sent } = await talkTo(small, value, options).ask("third", say("A summary."), say("ok"));
    assert.equal(kinds(sent), "summary call");
  });

  test("begins at the last rewrite, and prints the request before Ctrl-C, head and tail if it's long", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("words ".repeat(2_000)));
    await talk.compact(say("A summary."));
    await talk.interrupted(`begin ${"words ".repeat(1_000)}end`, bash("true"));
    const { messages, printed } = await resume(talk.state.file);
    assert.deepEqual(messages, talk.messages.map(s06.withoutThinking), "with one note, not two");
    assert.match(printed, /begin .* end/s, "head and tail of the last request");
    assert.ok(printed.length < 1_500, `a long request is cut: ${printed.length} characters are printed`);
  });

  test("takes all complete lines, answers open calls and says the turn stopped, but takes no file that was edited", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", call(...["a", "b"].map((id) => use("bash", { command: "true" }, id))), say("ok"));
    const lines = fs.readFileSync(talk.state.file, "utf8").split("\n");
    const [one = "", two = "", three = "", four = ""] = lines.filter((line) => !line.includes('"usage":'));
    const cases: [string[], string, RegExp[]][] = [
      [[one, two, three, four.slice(0, 50)], "first,calls,results,note", [/no output/, /no output/]],
      [[one, two, three.slice(0, -1)], "first,calls,results,note", [/m(ay|ight) have run/, /m(ay|ight) have run/]],
      [[one, two.slice(0, 50)], "first,note", []],
    ];
    for (const [lines, left, results] of cases) {
      fs.writeFileSync("old.jsonl", lines.join("\n"));
      const { messages, ask } = await resume("old.jsonl");
      assert.equal(outline(messages).join(), left);
      for (const [n, text] of contents(messages).entries()) assert.match(text, results[n] ?? assert.fail(text));
      assert.equal((await ask("go on", say("ok"))).error, "");
    }
    fs.writeFileSync("edited.jsonl", [one, two.slice(9), three, ""].join("\n"));
    assert.match((await resume("edited.jsonl")).error, /edited\.jsonl/, "the file");
  });
});

onEach("runTurn", { s06 }, () => {
  test("whose request is longer than half the threshold is refused, with its size, before anything changes", async () => {
    const talk = talkTo(medium);
    for (const request of ["first", "second"]) await talk.ask(request, say("words ".repeat(3_000)));
    const before = structuredClone(talk.messages);
    const file = fs.readFileSync(talk.state.file, "utf8");
    for (const part of [0.9, 0.52]) {
      const { error, sent } = await talk.ask("words ".repeat((part * 12_000 * 3) / 6));
      const size = Number(/\d{4,}/.exec(error));
      assert.ok(Math.abs(size / (part * 12_000) - 1) < 0.02, error);
      assert.deepEqual([sent, talk.messages], [[], before], "nothing is sent");
    }
    assert.equal(fs.readFileSync(talk.state.file, "utf8"), file, "the transcript");
    const { error, sent } = await talk.ask("words ".repeat((0.48 * 12_000 * 3) / 6), say("A summary."), say("ok"));
    assert.deepEqual([error, kinds(sent)], ["", "summary call"], "a little less is fine, and then the summary comes");
  });

  test("that the model refuses is dropped, and what was there before comes back, even after a summary", async () => {
    const talk = await longTalk();
    const before = talk.messages.map(small.withoutThinking);
    server.fail(PASS, PASS, { kind: "refusal" });
    const { error, sent } = await talk.ask("second", say("A summary."), bash("true"), say("no"));
    assert.match(error, /refused/);
    assert.equal(kinds(sent), "summary call call");
    assert.deepEqual(talk.messages, before);
  });

  test("that the API rejects right after a summary leaves the summary", async () => {
    const talk = await longTalk();
    await talk.compact(say("A summary."));
    const before = structuredClone(talk.messages);
    expectRejection(/Bad request/);
    server.fail({ kind: "status", status: 400 });
    assert.match((await talk.ask("second")).error, /400/);
    assert.deepEqual(talk.messages, before);
  });
});

onEach("saveIfLarge", { s06 }, () => {
  test("of more than 50,000 characters goes to a file; the model gets the path, head and tail", async () => {
    const print = (size: number) => bash(`head -c ${size} /dev/zero | tr '\\0' x; printf end`);
    const talk = talkTo(s06);
    const { printed } = await talk.ask("go", print(49_997), print(49_998), bash("seq 250000"), say("done"));
    const [whole = "", large = "", huge = ""] = contents(talk.messages);
    assert.deepEqual([whole.length, savedIn(whole)], [50_000, undefined]);
    assert.equal(savedOf(large), `${"x".repeat(49_998)}end`);
    assert.ok(printed.includes(savedIn(large) ?? assert.fail(large)), "the user sees the path");
    assert.match(large, /x{500}.*x{500}end$/s, "head and tail");
    assert.ok(large.length < 2_300, `the model gets about 2,000 characters, not ${large.length}`);
    const saved = savedOf(huge);
    assert.ok(saved.length > 990_000 && saved.length <= 1_000_000, `${saved.length} of two million characters`);
    assert.ok(saved.startsWith("1\n2\n") && saved.endsWith("\n250000"), "head and tail");
  });

  test("that can't be saved is cut, and says why; it's cut further if the prompt was too long", async () => {
    fs.mkdirSync(TRANSCRIPT_DIR);
    fs.writeFileSync(join(TRANSCRIPT_DIR, "outputs"), "a file where the folder should be");
    const talk = talkTo(s06);
    const { error, printed } = await talk.ask("go", bash("seq 20000"), say("done"));
    assert.equal(error, "");
    assert.match(printed, /^.*outputs.*$/m, "the user is told as well");
    const [result = ""] = contents(talk.messages);
    assert.equal(savedIn(result), undefined);
    assert.match(result, /(?=.*outputs).*1\n2\n.*19999\n20000/s);
    assert.ok(result.length > 49_000 && result.length < 51_000, `cut: ${result.length}`);
    server.contextLimit = 8_000;
    expectRejection(TOO_LONG);
    const short = await talkTo(s06).ask("go", bash("seq 6000"), say("done"));
    assert.deepEqual([short.error, kinds(short.sent)], ["", "call call call"], "cut further, it fits");
  });
});

onEach("callWithRecovery", { s06 }, () => {
  test("is summarized and sent once more; a line names the server's error, CONTEXT_WINDOW and /clear", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), say("ok"));
    server.contextLimit = 8_500;
    expectRejection(TOO_LONG);
    const second = "second ".repeat(700);
    const { error, printed, sent } = await talk.ask(second, say("A summary."), say("done"));
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
    assert.deepEqual(outline(sent.at(-1)?.messages), ["compressed", second]);
    for (const what of [/8500 maximum/, /CONTEXT_WINDOW/, /200.?000/, /\/clear/]) assert.match(printed, what);
  });

  test("is summarized without the files, which could make it too long again; the next summary has them", async () => {
    fileOf("a.txt", 800);
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), read("a.txt"), say("ok"));
    server.fail({ kind: "error_event", status: 413 }); // in the middle of a stream
    const { sent } = await talk.ask("second", say("half of this"), say("A summary."), say("done"));
    assert.equal(kinds(sent), "call summary call");
    assert.doesNotMatch(JSON.stringify(sent.at(-1)?.messages), /<file /);
    await talk.ask("more", say("words ".repeat(3_500)));
    await talk.compact(say("A second summary."));
    assert.deepEqual(withSummary(talk.messages), [file("a.txt", fs.readFileSync("a.txt", "utf8"))]);
  });

  test("loses all old results, even the newest three, and those that aren't seen go to disk", async () => {
    fileOf("a.txt", 8_000);
    server.contextLimit = 11_000;
    expectRejection(TOO_LONG);
    const talk = talkTo(s06);
    const both = call(use("read_file", { path: "a.txt" }), use("bash", { command: "echo short" }));
    const { error, sent } = await talk.ask("go", ...Array(3).fill(read("a.txt")), both, say("done"));
    assert.equal(error, "");
    const [short, result, ...old] = contents(sent.at(-1)?.messages).reverse();
    assert.deepEqual([short, old], ["short", Array(3).fill(CLEARED)]);
    assert.equal(savedOf(result), fs.readFileSync("a.txt", "utf8"));
  });

  test("leaves the history unchanged if nothing would be shorter", async () => {
    const talk = talkTo(s06);
    await talk.ask("first", say("ok"));
    const before = structuredClone(talk.messages);
    server.fail({ kind: "status", status: 413 });
    expectRejection(/maximum size/);
    const { error, sent } = await talk.ask("second", say("ok"));
    assert.deepEqual([error, kinds(sent), rewritesIn(talk.state.file)], ["", "call call", []]);
    assert.deepEqual(talk.messages.slice(0, before.length), before, "thinking included");
  });

  test("can also show up as a reply that the window cuts off", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(3_500), say("ok"));
    server.contextLimit = 9_000;
    const reply = say("a long reply ".repeat(500));
    const { error, sent } = await talk.ask("second", (request) => (asksForSummary(request) ? say("Sum.") : reply));
    assert.deepEqual([error, kinds(sent)], ["", "call summary call"]);
  });

  test("is dropped if no summary can be had, and the rest stays", async () => {
    const talk = talkTo(s06);
    await talk.ask("words ".repeat(4_000), say("ok"));
    const before = structuredClone(talk.messages);
    server.fail(...Array<Failure>(3).fill({ kind: "status", status: 413, message: "prompt is too long" }));
    for (let i = 0; i < 3; i++) expectRejection(TOO_LONG);
    const { error, sent, printed } = await talk.ask("second", () => say("a fourth request"));
    assert.match(error, /prompt is too long/, "the error of the second call");
    assert.deepEqual([kinds(sent), talk.messages], ["call summary call", before.map(s06.withoutThinking)]);
    assert.match(printed, /\/clear/, "what helps");
    assert.equal((await talk.ask("third", say("ok"))).error, "");
  });

  test("is recognized by a 413 or by the words of the servers known, but not by other words", async () => {
    for (const [status, message, isTooLong] of [
      [413, undefined, true],
      [400, "prompt is too long: 250000 tokens > 200000 maximum", true],
      [400, "input length and `max_tokens` exceed context limit: 9000 + 8000 > 16000", true],
      [400, "this model's maximum context length is 8192 tokens", true],
      [400, "the request exceeds the available context size, try increasing it", true],
      [400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", true],
      [400, "Input token length too long", true],
      [400, "Prompt exceeds max length", true],
      [400, "Prompt 超长", true],
      [400, `${"{".repeat(300)} prompt is too long ${"}".repeat(300)}`, true],
      [400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 258048]", true],
      [400, "Total tokens of image and text exceed max message tokens", true],
      [400, "The input (300000 tokens) exceeds the maximum allowed input length of 262144 tokens", true],
      [400, "the request took too long", false],
      [400, "token limit per minute reached", false],
    ] as const) {
      const talk = talkTo(s06);
      await talk.ask("first", say("words ".repeat(2_000)));
      server.fail({ kind: "status", status, message });
      expectRejection(/./);
      const { error, sent } = await talk.ask("second", ...(isTooLong ? [say("A summary."), say("done")] : []));
      assert.deepEqual([error === "", kinds(sent)], [isTooLong, isTooLong ? "call summary call" : "call"], message);
    }
  });
});

onEachAtOnce("main", { s06 }, false, () => {
  const lesson = "s06_context_compact";
  /** Returns the text of a transcript. */
  const transcript = (request: string, ...before: Anthropic.MessageParam[]) => {
    const state = { charsPerToken: 3, files: ["a.txt"] };
    const known = { state, todos: [{ text: "one", status: "pending" }] };
    const messages = [...before, user(request), { role: "assistant", content: "words ".repeat(2_000) }];
    return messages.map((message) => `${JSON.stringify({ message, ...known })}\n`).join("");
  };

  /** Returns the paths of a program's transcripts, the oldest first. */
  const transcriptsIn = (cwd: string) => {
    const names = fs.readdirSync(join(cwd, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
    return names.sort().map((name) => join(cwd, ".transcripts", name));
  };

  test("has /compact, with or without what to keep, and prints tokens and threshold after each turn", async (t) => {
    const input = "/compact\nhello\n/compact the names\n/clear the build folder\n/compact.ts is broken\n";
    const env = { CONTEXT_WINDOW: "100000" };
    const replies = [say("words ".repeat(2_000)), say("A summary."), say("ok"), say("ok")];
    const run = await start(t, lesson, [], { replies, input, env });
    assert.equal(await run.ended, 0, run.screen());
    const sent = run.journal.map(({ request }) => request);
    assert.equal(kinds(sent), "call summary call call", "with nothing to summarize it calls no model");
    assert.match(lastTextOf(sent[1] ?? assert.fail()), /the names/);
    assert.deepEqual(outline(sent[2]?.messages), ["compressed", "/clear the build folder"]);
    assert.deepEqual(sent[3]?.messages.at(-1), user("/compact.ts is broken"));
    assert.equal(run.screen().match(/\d+ .*50000/g)?.length, 5);
    assert.match(run.screen(), /A summary\..*\.transcripts\/transcript_/s, "it says where the whole conversation is");
  });

  test("has no dead end: if every request is rejected the error says what helps, and after /clear all is well", async (t) => {
    const block = { type: "text" as const, text: "later", from: "another version" };
    const files = { "old.jsonl": transcript("make it", { role: "user", content: [block] }) };
    const input = "go on\n/compact\ngo on\n/clear\nand now?\n";
    for (let i = 0; i < 3; i++) expectRejection(/from: Extra inputs/);
    const run = await start(t, lesson, ["--resume", "old.jsonl"], { files, input, replies: [say("here I am")] });
    assert.equal(await run.ended, 1, "a request failed");
    assert.match(run.screen(), /Extra inputs.*\n.*\/clear(.*\n)*.*here I am/);
    assert.deepEqual(run.journal.at(-1)?.request.messages, [user("and now?")]);
    const [old = [], next = [], ...others] = transcriptsIn(run.cwd).map(entriesIn);
    assert.deepEqual([others, old[0].message.content], [[], [block]], "the old transcript stays");
    const [{ trigger, messages, todos, state }, { message }] = next;
    assert.deepEqual([trigger, messages, todos, state.files, message], ["clear", [], [], [], user("and now?")]);
  });

  test("doesn't bring back with -c what /clear has cleared", async (t) => {
    const shell = (agent: string) => `printf 'hello\\n/clear\\n' | ${agent}; echo 'and now?' | ${agent} -c`;
    const run = await start(t, lesson, [], { shell, replies: [say("hi"), say("ok")] });
    assert.equal(await run.ended, 0, run.screen());
    assert.deepEqual(run.journal.at(-1)?.request.messages, [user("and now?")]);
  });

  test("says what helps, /clear or THINKING=keep, after an error that may recur", async (t) => {
    const statuses = [429, 429, 429, 400, 413, 413, 401] as const; // the SDK tries a 429 three times, s06 a 413 twice
    const failures = statuses.map((status): Failure => ({ kind: "status", status, message: "no", retryAfter: 0.001 }));
    for (const _ of failures) expectRejection(/^no$/);
    failures.push({ kind: "error_event", status: 429 });
    const run = await start(t, lesson, [], { input: "1\n2\n3\n4\n5\n", failures, replies: [say("half of this")] });
    assert.equal(await run.ended, 1);
    const told = [...run.screen().matchAll(/^\[API error (\d+).*\n(.*\/clear.*THINKING=keep)?/gm)];
    const advice = told.map(([, status, advice]) => [status, advice !== undefined]);
    const first = ["413", false]; // before it tries again
    assert.deepEqual(advice, [["429", true], ["400", true], first, ["413", true], ["401", false], ["429", true]]);
  });

  test("a setting that is no number of tokens is named in one line, and nothing begins", async (t) => {
    const windows = ["0", "200k", "32_000"].map((value) => ["CONTEXT_WINDOW", value]);
    const thresholds = ["0.8", "-1", "1e5"].map((value) => ["COMPACT_THRESHOLD", value]);
    for (const [name = "", value] of [...windows, ...thresholds]) {
      const run = await start(t, lesson, ["hello"], { env: { [name]: value } });
      assert.equal(await run.ended, 1, run.screen());
      assert.match(run.screen().trim(), new RegExp(`^\\[${name} .* ${value}\\]$`));
      assert.deepEqual([run.journal, fs.readdirSync(run.cwd)], [[], []]);
    }
  });

  test("continues the transcript written last with -c or --continue, and any with --resume; other words are a request", async (t) => {
    const files = {
      ".transcripts/transcript_1_1.jsonl": transcript("newest"),
      ".transcripts/transcript_2_1.jsonl": transcript("older"),
      ".transcripts/transcript_3_1.jsonl": "", // a full disk leaves such files
      "old talks/a talk.jsonl": transcript("named"),
    };
    const shell = (agent: string) => `touch -t 202001010000 .transcripts/transcript_2_1.jsonl; ${agent}`;
    for (const [words, last] of [
      [["-c"], "newest"],
      [["--continue"], "newest"],
      [["-c", "--resume", "old talks/a talk.jsonl"], "named"],
    ] as const) {
      const args = [...words, "explain", "data.jsonl"];
      const run = await start(t, lesson, args, { files, shell, replies: [say("ok")] });
      assert.equal(await run.ended, 0, run.screen());
      const name = last === "named" ? "old talks/a talk" : ".transcripts/transcript_1_1";
      assert.ok(run.screen().includes(`[resumed ${name}.jsonl. The last request was: ${last}]`), run.screen());
      const { messages = [] } = run.journal[0]?.request ?? {};
      assert.deepEqual([messages[0], ...messages.slice(2)], [user(last), user("explain data.jsonl")]);
    }
  });

  test("continues the old transcript if a kill or a full disk has left half a copy", async (t) => {
    const files = { ".transcripts/transcript_1_1.jsonl": transcript("begin") };
    const shell = (agent: string) => `(ulimit -f 4; ${agent}); ${agent}`; // the first can't write more than 4 KB
    const run = await start(t, lesson, ["-c", "go on"], { files, shell, replies: [say("ok"), say("ok")] });
    assert.equal(await run.ended, 0, run.screen());
    assert.match(run.screen(), /transcript ends here.*EFBIG/);
    const [first, second] = run.journal.map(({ request }) => request.messages);
    assert.equal(outline(second).at(0), "begin");
    assert.deepEqual(second, first);
  });

  for (const signal of ["KILL", "HUP"])
    test(`goes on with -c after SIG${signal} in a command: no complete line is lost, even if half a line follows`, async (t) => {
      const run = await start(t, lesson, ["-y", "delete all logs"], {
        replies: [bash(`kill -${signal} $PPID; sleep 5`)],
      });
      await run.ended;
      const [path = ""] = transcriptsIn(run.cwd);
      const text = fs.readFileSync(path, "utf8");
      const left = `${text}{"message":{"role":"user","content":[{"type":"tool_re`;
      const files = { ".transcripts/transcript_1_1.jsonl": left };
      const next = await start(t, lesson, ["-c", "how many are left?"], { files, replies: [say("ten")] });
      assert.equal(await next.ended, 0, next.screen());
      assert.match(next.screen(), /delete all logs/, "it prints the last request");
      const { messages = [] } = next.journal[0]?.request ?? {};
      assert.deepEqual(outline(messages), ["delete all logs", "calls", "results", "note", "how many are left?"]);
      assert.equal(resultsIn(messages)[0]?.failed, true, "the result of the command is an error");
    });

  test("says in one line what is wrong if there is nothing to continue", async (t) => {
    for (const [words, what] of [
      [["-c"], /--continue.*\.transcripts/],
      [["--resume"], /--resume.*missing/],
      [["--resume", "no such file.jsonl"], /no such file\.jsonl/],
      [["--resume", "other.jsonl"], /other\.jsonl/],
    ] as const) {
      const files = { "other.jsonl": '{"type":"user"}\n' }; // from another program
      const run = await start(t, lesson, [...words], { input: "go on\n", files });
      assert.equal(await run.ended, 1, run.screen());
      assert.deepEqual([run.screen().trim().split("\n").length, run.journal.length], [1, 0], run.screen());
      assert.match(run.screen(), what);
    }
  });
});
