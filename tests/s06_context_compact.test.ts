// What the agent forgets, when, and what it must not forget. Each test loads the lesson with the limits that it needs.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { text as bodyOf } from "node:stream/consumers";
import { afterEach, before, beforeEach, describe } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import type { JournalEntry, Reply } from "../offline/server.ts";
import { scripted } from "../offline/server.ts";
import { capture, carryOver, enterWorkspace, goTo, LESSON, server, test, underTest, until } from "./harness.ts";
import { answer, blocksOf, call, say, unmarked, use, user } from "./replies.ts";

type Lesson = typeof import("../agents/s06_context_compact.ts");
type Messages = Anthropic.MessageParam[];

const folder = enterWorkspace();
mkdirSync(join(folder, "skills", "tidy"), { recursive: true });
writeFileSync(
  "skills/tidy/SKILL.md",
  `---\nname: tidy\ndescription: how to tidy up\n---\n${"Tidy well. ".repeat(300)}`,
);

/** The lesson with these variables in its environment. */
async function load(env: Record<string, string> = {}): Promise<Lesson> {
  const lesson = await underTest<Lesson>(env);
  lesson.approval.always = true;
  return lesson;
}

// --- replies, histories and what is asked of them -------------------------------------------------------------------

const read = (path: string) => call(use("read_file", { path }));
const play = (...replies: Reply[]) => {
  server.model = scripted(...replies);
};

let ids = 0;
/** A call and its result, as two messages. */
function round(name: string, input: object, content: Anthropic.ToolResultBlockParam["content"]): Messages {
  const id = `call_${ids++}`;
  return [
    { role: "assistant", content: [{ type: "tool_use", id, name, input }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
  ];
}
const bashRound = (content: string) => round("bash", { command: "make" }, content);

const textsOf = (message: Anthropic.MessageParam | undefined) =>
  message ? blocksOf(message).flatMap((block) => (block.type === "text" ? [block.text] : [])) : [];
const resultsOf = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_result" ? [String(block.content)] : []));
const thinkingIn = (messages: Messages) =>
  messages.flatMap(blocksOf).filter((block) => block.type === "thinking" || block.type === "redacted_thinking");
const copy = (messages: Messages): Messages => structuredClone(messages);

function entry(i: number): JournalEntry {
  const found = server.journal.at(i);
  assert.ok(found, `there is no request ${i}`);
  return found;
}
const sent = (i: number) => entry(i).request.messages;
const requests = () => server.journal.length;
const rejected = () => server.journal.filter(({ status }) => status !== 200).map(({ error }) => error);

let screen = "";
/** What something returns, without its output on the screen, which `screen` then holds. */
const quiet = <T>(work: () => T | Promise<T>): Promise<T> =>
  capture(work, (text) => {
    screen += text;
  });

const turn = (lesson: Lesson, messages: Messages, options: { signal?: AbortSignal } = {}) =>
  quiet(() => lesson.agentLoop(messages, options));
const compact = (lesson: Lesson, messages: Messages, options: Parameters<Lesson["autoCompact"]>[1] = {}) =>
  quiet(() => lesson.autoCompact(messages, options));

const client = new Anthropic({ maxRetries: 0 });
/** Asserts that the API takes this history: as it is if it ends with the person, else with one request more. */
async function assertAccepted({ MODEL, SYSTEM, TOOLS }: Lesson, messages: Messages): Promise<void> {
  server.model = () => say("fine");
  const open = messages.at(-1)?.role === "user" ? messages : [...messages, user("and now?")];
  await client.messages.create({
    model: MODEL,
    max_tokens: 100,
    thinking: { type: "adaptive", display: "summarized" },
    system: SYSTEM,
    tools: TOOLS,
    messages: open,
  });
}

describe(`what s06 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  beforeEach(() => {
    server.journal.length = 0;
    server.contextLimit = 200_000;
    screen = "";
  });
  let allowed: RegExp | undefined;
  afterEach(() => {
    const expected = allowed;
    allowed = undefined;
    for (const error of rejected()) assert.ok(error && expected?.test(error), `rejected: ${error}`);
  });

  // --- constants ------------------------------------------------------------------------------------------------------

  test("without variables the limits are 50,000 tokens for a new request and 167,000 within a turn", async () => {
    const lesson = await load();
    assert.equal(lesson.THRESHOLD, 50_000);
    assert.equal(lesson.TURN_THRESHOLD, 167_000);
    assert.equal(lesson.KEEP_RECENT, 3);
    assert.deepEqual(lesson.PRESERVE_RESULT_TOOLS, ["load_skill"]);
    assert.equal(lesson.TRANSCRIPT_DIR, join(folder, ".transcripts"));
  });

  test("the limit within a turn is the window without the reply, of which at most 20,000 count, and without 13,000", async () => {
    const { autoCompactThreshold } = await load();
    assert.equal(autoCompactThreshold(), 170_616);
    assert.equal(autoCompactThreshold(1_000_000, 8_000), 979_000);
    assert.equal(autoCompactThreshold(200_000, 64_000), 167_000);
  });

  test("each limit can be set, and the one within a turn follows whatever else is set", async () => {
    const limits = async (env: Record<string, string>) => {
      const { THRESHOLD, TURN_THRESHOLD } = await load(env);
      return [THRESHOLD, TURN_THRESHOLD];
    };
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "9000" }), [9_000, 9_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "9000", COMPACT_TURN_THRESHOLD: "12000" }), [9_000, 12_000]);
    assert.deepEqual(await limits({ COMPACT_TURN_THRESHOLD: "12000.25" }), [50_000, 12_000.25]);
    assert.deepEqual(await limits({ CONTEXT_WINDOW: "1000000" }), [50_000, 967_000]);
    assert.deepEqual(await limits({ COMPACT_THRESHOLD: "9000", CONTEXT_WINDOW: "100000" }), [9_000, 67_000]);
    const { KEEP_RECENT, PRESERVE_RESULT_TOOLS } = await load({
      COMPACT_KEEP_RECENT: "7",
      COMPACT_PRESERVE: "read_file, load_skill",
    });
    assert.equal(KEEP_RECENT, 7);
    assert.deepEqual(PRESERVE_RESULT_TOOLS, ["read_file", "load_skill"]);
  });

  test("a 0 in the environment counts", async () => {
    const zero = await load({ COMPACT_THRESHOLD: "0", COMPACT_KEEP_RECENT: "0" });
    assert.deepEqual([zero.THRESHOLD, zero.TURN_THRESHOLD, zero.KEEP_RECENT], [0, 0, 0]);
    const turnOnly = await load({ COMPACT_TURN_THRESHOLD: "0" });
    assert.deepEqual([turnOnly.THRESHOLD, turnOnly.TURN_THRESHOLD], [50_000, 0]);
  });

  test("an empty variable is an unset one, and blanks do not count", async () => {
    const names = ["COMPACT_THRESHOLD", "COMPACT_TURN_THRESHOLD", "CONTEXT_WINDOW", "COMPACT_KEEP_RECENT"];
    const others = ["COMPACT_MIN_SAVINGS", "COMPACT_TEXTBOOK", "COMPACT_PRESERVE"];
    const lesson = await load(Object.fromEntries([...names, ...others].map((name) => [name, ""])));
    assert.deepEqual([lesson.THRESHOLD, lesson.TURN_THRESHOLD, lesson.KEEP_RECENT], [50_000, 167_000, 3]);
    assert.deepEqual(lesson.PRESERVE_RESULT_TOOLS, ["load_skill"]);
    const blank = await load({ COMPACT_THRESHOLD: " 9000 ", COMPACT_TURN_THRESHOLD: " ", COMPACT_KEEP_RECENT: " 7" });
    assert.deepEqual([blank.THRESHOLD, blank.TURN_THRESHOLD, blank.KEEP_RECENT], [9_000, 9_000, 7]);
  });

  // --- counting -------------------------------------------------------------------------------------------------------

  /** A server between the lesson and the strict one that changes what it answers. */
  async function startProxy(change: (answer: string) => string) {
    const http = createServer(async (req, res) => {
      const answered = await fetch(`${server.url}${req.url}`, {
        method: "POST",
        headers: { "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "test" },
        body: await bodyOf(req),
      });
      const type = answered.headers.get("content-type") ?? "";
      res.writeHead(answered.status, { "content-type": type }).end(change(await answered.text()));
    }).listen(0, "127.0.0.1");
    await once(http, "listening");
    const address = http.address();
    const url = typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "";
    const close = () => {
      http.close();
      http.closeAllConnections();
    };
    return { url, close };
  }
  /** One that multiplies the tokens a prompt is said to have. */
  const startScale = (factor: number) =>
    startProxy((answer) =>
      answer.replace(
        /"((?:cache_read_|cache_creation_)?input_tokens)":(\d+)/g,
        (_, name, tokens) => `"${name}":${Math.round(Number(tokens) * factor)}`,
      ),
    );

  test("before the first reply 4 characters are a token, and system and tools count", async () => {
    const { estimateTokens, SYSTEM, TOOLS } = await load();
    const [small, large] = [estimateTokens([user("x")]), estimateTokens([user("x".repeat(4_001))])];
    assert.equal(large - small, 1_000);
    assert.equal(estimateTokens([user("\n".repeat(4_001))]), large); // though JSON writes two characters for it
    assert.ok(small >= (SYSTEM.length + JSON.stringify(TOOLS).length) / 4, `${small}`);
  });

  test("after a reply the prompt has the size that usage reported, cached or not", async () => {
    const lesson = await load();
    const messages = [user("function f(a){return a?.b??{}}".repeat(200))];
    for (const words of ["one", "two"]) {
      play(say(words));
      await turn(lesson, messages);
      const [prompt, reply] = [messages.slice(0, -1), messages.slice(-1)];
      messages.splice(0, messages.length, ...prompt);
      const tokens = lesson.estimateTokens(messages);
      assert.ok(Math.abs(tokens - entry(-1).promptTokens) <= 1, `${tokens}, and it was ${entry(-1).promptTokens}`);
      messages.push(...reply, user(`${words}?`));
    }
    assert.ok(entry(-1).usage?.cache_read_input_tokens, "the second prompt was read from the cache");
  });

  test("what is added after a reply counts at the characters per token of that reply", async () => {
    const lesson = await load();
    const messages = [user("hello ".repeat(1_000))];
    play(say("hello"));
    await turn(lesson, messages);
    const before = lesson.estimateTokens(messages);
    messages.push(user("x".repeat(3_000)));
    const added = lesson.estimateTokens(messages) - before;
    assert.ok(added > 950 && added < 1_080, `${added}`); // 3 characters a token, not 4
  });

  test("Chinese, near one token a character, is compacted in time from the second call on", async () => {
    const scale = await startScale(3);
    try {
      const lesson = await load({ COMPACT_THRESHOLD: "9000", ANTHROPIC_BASE_URL: scale.url });
      const messages = [user("把这些话都记住。".repeat(900))];
      play(say("好"), say("摘要"), say("好"));
      await turn(lesson, messages);
      assert.equal(requests(), 1); // 7,200 characters seemed to be fewer tokens than the limit
      assert.ok(lesson.estimateTokens(messages) > 9_000, `${lesson.estimateTokens(messages)}`);
      messages.push(user("然后呢？"));
      await turn(lesson, messages);
      assert.equal(requests(), 3); // a summary in between
    } finally {
      scale.close();
    }
  });

  test("a server that reports no usage leaves the count as it was", async () => {
    const scale = await startScale(0);
    try {
      const lesson = await load({ ANTHROPIC_BASE_URL: scale.url });
      const messages = [user("x".repeat(8_000))];
      const before = lesson.estimateTokens(messages);
      play(say("ok"));
      await turn(lesson, messages);
      messages.pop();
      assert.equal(lesson.estimateTokens(messages), before);
    } finally {
      scale.close();
    }
  });

  test("a server without a prompt cache tells the prompt's size in one figure, which counts", async () => {
    const proxy = await startProxy((answer) =>
      answer.replace(/"cache_\w+_input_tokens":\d+,/g, "").replace(/"input_tokens":\d+/g, '"input_tokens":5000'),
    );
    try {
      const lesson = await load({ ANTHROPIC_BASE_URL: proxy.url });
      const messages = [user("hello")];
      play(say("hello"));
      await turn(lesson, messages);
      messages.pop();
      assert.equal(lesson.estimateTokens(messages), 5_000);
    } finally {
      proxy.close();
    }
  });

  // --- layer 1 --------------------------------------------------------------------------------------------------------

  const LONG = "x".repeat(400);

  test("layer 1 clears the results the model has answered, but for the three newest, and names their tools", async () => {
    const { microCompact } = await load();
    const messages = [
      user("go"),
      ...bashRound(`1${LONG}`),
      ...round("read_file", { path: "a" }, `2${LONG}`),
      ...bashRound(`3${LONG}`),
      ...bashRound(`4${LONG}`),
      ...bashRound(`5${LONG}`),
      ...bashRound(`6${LONG}`), // not answered
    ];
    const { cleared, saved } = microCompact(messages);
    assert.equal(cleared, 2);
    assert.ok(saved > 150 && saved < 210, `${saved}`); // 2 × 375 characters, 4 a token
    const expected = ["3", "4", "5", "6"].map((digit) => digit + LONG);
    assert.deepEqual(resultsOf(messages), ["[Previous: used bash]", "[Previous: used read_file]", ...expected]);
  });

  test("layer 1 counts the results of one message one by one", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "2" });
    const content: Anthropic.ToolUseBlockParam[] = ["a", "b", "c"].map((id) => ({
      type: "tool_use",
      id,
      name: "bash",
      input: {},
    }));
    const messages: Messages = [
      user("go"),
      { role: "assistant", content },
      {
        role: "user",
        content: content.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: id + LONG })),
      },
      answer("done"),
    ];
    assert.equal(microCompact(messages).cleared, 1);
    assert.deepEqual(resultsOf(messages), ["[Previous: used bash]", `b${LONG}`, `c${LONG}`]);
  });

  test("layer 1 leaves what is short, what is not a string, and what a preserved tool returned", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const image: Anthropic.ToolResultBlockParam["content"] = [{ type: "text", text: LONG }];
    const messages = [
      user("go"),
      ...bashRound("y".repeat(100)),
      ...bashRound("z".repeat(101)),
      ...round("bash", { command: "look" }, image),
      ...round("load_skill", { name: "tidy" }, LONG),
      ...round("read_file", { path: "a" }, LONG),
      answer("done"),
    ];
    const before = copy(messages);
    assert.equal(microCompact(messages).cleared, 2);
    const changed = messages.flatMap((message, i) =>
      JSON.stringify(message) === JSON.stringify(before[i]) ? [] : [i],
    );
    assert.deepEqual(changed, [4, 10]);
  });

  test("COMPACT_PRESERVE says whose results layer 1 leaves", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0", COMPACT_PRESERVE: "read_file" });
    const messages = [
      user("go"),
      ...round("load_skill", { name: "tidy" }, LONG),
      ...round("read_file", { path: "a" }, LONG),
      answer("done"),
    ];
    assert.equal(microCompact(messages).cleared, 1);
    assert.deepEqual(resultsOf(messages), ["[Previous: used load_skill]", LONG]);
  });

  test("with KEEP_RECENT 0 layer 1 clears every answered result, and still none that is not answered", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const messages = [user("go"), ...bashRound(LONG), ...bashRound(LONG)];
    assert.equal(microCompact(messages).cleared, 1);
    assert.deepEqual(resultsOf(messages), ["[Previous: used bash]", LONG]);
  });

  test("an answer that is one text has no thinking, and stays as it is", async () => {
    const { stripThinking } = await load();
    const messages: Messages = [user("go"), { role: "assistant", content: "gone" }];
    stripThinking(messages);
    assert.deepEqual(messages, [user("go"), { role: "assistant", content: "gone" }]);
  });

  test("layer 1 keeps the line that says where an output was saved, and none that only looks like it", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const line = "Output too large. Saved to: .transcripts/outputs/a.txt";
    const messages = [
      user("go"),
      ...bashRound(`${line}\n${LONG}`),
      ...bashRound(`${line} or elsewhere\nsee ${line}\n${LONG}`),
      answer("done"),
    ];
    assert.equal(microCompact(messages).cleared, 2);
    assert.deepEqual(resultsOf(messages), [`[Previous: used bash]\n${line}`, "[Previous: used bash]"]);
  });

  test("layer 1 clears nothing twice, and nothing where there is nothing", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const nothing = { cleared: 0, saved: 0 };
    const saved = `Output too large. Saved to: .transcripts/outputs/${"a".repeat(100)}.txt\n${LONG}`;
    const messages = [user("go"), ...bashRound(saved), ...bashRound(LONG), answer("done")];
    assert.equal(microCompact(messages).cleared, 2);
    const once = copy(messages);
    assert.deepEqual(microCompact(messages), nothing);
    assert.deepEqual(messages, once);
    assert.deepEqual(microCompact([]), nothing);
    assert.deepEqual(microCompact([user("go")]), nothing);
  });

  const noted = (...content: Anthropic.ContentBlockParam[]): Anthropic.MessageParam => ({ role: "assistant", content });
  const thought = (thinking: string): Anthropic.ThinkingBlockParam => ({ type: "thinking", thinking, signature: "s" });
  const withThinking = (): Messages => [
    user("go"),
    noted(thought("I note the port: 8080."), { type: "text", text: "Looking." }),
    user("and?"),
    noted(thought(""), { type: "redacted_thinking", data: "d" }),
    user("well?"),
    noted(thought("  "), { type: "tool_use", id: "t1", name: "bash", input: {} }),
    { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: LONG }] },
    noted(thought("Done, I think."), { type: "text", text: "Done." }),
  ];

  test("layer 1 removes all thinking; a note stays as text, and an emptied message says what it was", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const messages = withThinking();
    assert.equal(microCompact(messages).cleared, 1);
    assert.deepEqual(thinkingIn(messages), []);
    assert.deepEqual(textsOf(messages[1]), ["I note the port: 8080.", "Looking."]);
    assert.deepEqual(textsOf(messages[3]), ["(thinking removed)"]);
    assert.deepEqual(textsOf(messages[5]), []);
    assert.deepEqual(textsOf(messages[7]), ["Done, I think.", "Done."]);
  });

  test("below the minimum that it must save, layer 1 changes nothing, not even thinking", async () => {
    const { microCompact } = await load({ COMPACT_KEEP_RECENT: "0" });
    const messages = withThinking();
    const before = copy(messages);
    assert.deepEqual(microCompact(messages, 100), { cleared: 0, saved: 0 });
    assert.deepEqual(messages, before);
    assert.equal(microCompact(messages, 90).cleared, 1); // 400 − 21 characters are about 95 tokens
  });

  // --- when -----------------------------------------------------------------------------------------------------------

  for (const name of ["p", "q", "r", "s", "t", "u", "v", "w"]) writeFileSync(`${name}.txt`, `${name} `.repeat(3_000));

  test("within a turn the agent keeps what it read; with the next request it forgets all but the newest", async () => {
    const lesson = await load({
      COMPACT_THRESHOLD: "6000",
      COMPACT_TURN_THRESHOLD: "15000",
      COMPACT_MIN_SAVINGS: "500",
      COMPACT_KEEP_RECENT: "1",
    });
    const messages = [user("read three files")];
    play(read("p.txt"), read("q.txt"), read("r.txt"), say("read"), say("again"));
    await turn(lesson, messages);
    assert.ok(entry(-1).promptTokens > 6_000);
    assert.deepEqual(
      resultsOf(sent(-1)).map((result) => result.length),
      [5_999, 5_999, 5_999].map((length) => length + 1),
    );
    assert.ok(thinkingIn(messages).length > 0);

    messages.push(user("what next?"));
    assert.equal(await turn(lesson, messages), "done");
    assert.deepEqual(
      resultsOf(sent(-1)).map((result) => result.slice(0, 26)),
      ["[Previous: used read_file]", "[Previous: used read_file]", "r ".repeat(13)],
    );
    assert.deepEqual(thinkingIn(sent(-1)), []);
    assert.equal(requests(), 5); // layer 1 was enough: no summary
    assert.match(screen, /\[micro_compact\] cleared 2 old tool results \(~[\d,]+ tokens\)/);
  });

  test("within a turn layer 1 comes at the limit for turns, and the history stays valid", async () => {
    const lesson = await load({
      COMPACT_THRESHOLD: "6000",
      COMPACT_TURN_THRESHOLD: "10000",
      COMPACT_MIN_SAVINGS: "500",
      COMPACT_KEEP_RECENT: "1",
    });
    const messages = [user("read them all")];
    const names = ["p", "q", "r", "s", "t", "u", "v", "w"];
    play(...names.map((name) => read(`${name}.txt`)), say("read"));
    assert.equal(await turn(lesson, messages), "done");
    const sizes = server.journal.map(({ promptTokens }) => promptTokens);
    assert.ok(Math.max(...sizes) > 8_000 && Math.max(...sizes) < 10_100, `${sizes}`);
    assert.equal(requests(), names.length + 1);
    assert.match(screen, /\[micro_compact\]/);
    await assertAccepted(lesson, messages);
  });

  test("layer 1 has to save 40 % of the limit that was passed, or what is set", async () => {
    const history = () => [
      user("go"),
      ...bashRound("1".repeat(6_000)), // all that could be cleared: 1,500 of 5,000 tokens
      ...["2", "3", "4"].flatMap((digit) => bashRound(digit.repeat(4_200))),
      answer("done"),
      user("next"),
    ];
    play(say("a summary"), say("done"));
    await turn(await load({ COMPACT_THRESHOLD: "5000" }), history());
    assert.equal(resultsOf(sent(0))[0]?.length, 6_000);
    assert.equal(requests(), 2);

    server.journal.length = 0;
    play(say("done"));
    await turn(await load({ COMPACT_THRESHOLD: "5000", COMPACT_MIN_SAVINGS: "1400" }), history());
    assert.deepEqual(resultsOf(sent(0))[0], "[Previous: used bash]");
    assert.equal(requests(), 1);
  });

  test("the 40 % are of the limit within a turn in a turn, and of the other one for a new request", async () => {
    const limits = { COMPACT_THRESHOLD: "5000", COMPACT_TURN_THRESHOLD: "10000", COMPACT_KEEP_RECENT: "0" };
    const ends: [Messages, number][] = [
      [bashRound("open"), 16_000], // 4,000 tokens
      [[answer("so"), user("next")], 8_000], // 2,000
    ];
    for (const [end, size] of ends) {
      for (const [length, isCleared] of [
        [size, false],
        [size + 60, true],
      ] as const) {
        const history = [user("go"), ...bashRound("1".repeat(length)), answer("w".repeat(30_000)), user("on"), ...end];
        server.journal.length = 0;
        server.model = () => say("fine"); // a summary, too, if one is asked for
        assert.equal(await turn(await load(limits), copy(history)), "done");
        assert.equal(resultsOf(sent(0))[0] === "[Previous: used bash]", isCleared, `${length}`);
      }
    }
  });

  test("layer 2 comes when layer 1 was not enough, and then the request goes on", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "4000" });
    const messages = [user("tell me much"), answer("much ".repeat(4_000)), user("and now build it")];
    const same = messages;
    play(say("We talked much."), say("built"));
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 2);
    assert.match(screen, /\[auto_compact triggered\]/);
    assert.match(screen, /\[transcript saved: \.transcripts\/transcript_\d+_\d+\.jsonl\]/);
    assert.match(screen, /context: ~[\d,]+ tokens/);
    assert.equal(messages, same);
    assert.equal(sent(-1).length, 1);
    assert.match(textsOf(sent(-1)[0]).join("\n"), /We talked much\.[\s\S]*and now build it/);
    assert.ok(!JSON.stringify(messages).includes("much much"));
  });

  test("below the limit nothing is compacted and no second call is made", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "50000", COMPACT_MIN_SAVINGS: "0", COMPACT_KEEP_RECENT: "0" });
    const messages = [user("go"), ...bashRound(LONG), answer("much ".repeat(4_000)), user("next")];
    const before = copy(messages);
    play(say("ok"));
    await turn(lesson, messages);
    assert.equal(requests(), 1);
    assert.deepEqual(sent(0), before);
  });

  test("the textbook form clears every turn, whatever it saves, at one limit of 50,000", async () => {
    const lesson = await load({ COMPACT_TEXTBOOK: "1" });
    assert.deepEqual([lesson.THRESHOLD, lesson.TURN_THRESHOLD], [50_000, 50_000]);
    writeFileSync("short.txt", "0123456789".repeat(20));
    const messages = [user("read it five times")];
    play(...Array.from({ length: 5 }, () => read("short.txt")), say("done"));
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(resultsOf(sent(-1)).filter((result) => result.startsWith("[Previous: used read_file]")).length, 1);
    const plain = await load();
    const kept = [user("read it five times")];
    play(...Array.from({ length: 5 }, () => read("short.txt")), say("done"));
    await turn(plain, kept);
    assert.equal(resultsOf(sent(-1)).filter((result) => result.startsWith("[Previous")).length, 0);
  });

  // --- large outputs --------------------------------------------------------------------------------------------------

  const savedFile = (result: string | undefined) => {
    const path = /Saved to: (.+)$/m.exec(result ?? "")?.[1];
    assert.ok(path, `not saved: ${result?.slice(0, 100)}`);
    return path;
  };
  const print = (character: string, length: number) => ({
    command: `head -c ${length} /dev/zero | tr '\\0' ${character}`,
  });

  test("a result above the limit goes to disk whole, and the model gets its place and a preview", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" }); // 4,000 tokens of output
    const messages = [user("print")];
    play(call(use("bash", print("x", 200_000))), say("ok"));
    assert.equal(await turn(lesson, messages), "done");
    const [result = ""] = resultsOf(sent(-1));
    assert.match(result, /^Output too large\. Saved to: \.transcripts\/outputs\//);
    const previews = result.split("\n").filter((line) => /^x+$/.test(line));
    assert.deepEqual(
      previews.map(({ length }) => length),
      [1_000, 1_000],
    );
    const file = savedFile(result);
    assert.equal(readFileSync(file, "utf8"), "x".repeat(200_000));
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(join(lesson.TRANSCRIPT_DIR, "outputs")).mode & 0o777, 0o700);
  });

  test("of a result that went to disk the end is shown, too, where the exit code of a command stands", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" });
    play(call(use("bash", { command: "seq 100000; echo 1 test failed; exit 1" })), say("ok"));
    assert.equal(await turn(lesson, [user("test")]), "done");
    assert.match(resultsOf(sent(-1))[0] ?? "", /^Output too large\. .*\n1\n2\n.*\n1 test failed\n\(exit code 1\)$/s);
  });

  test("of several results the largest go to disk, until the rest fits", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" }); // 4,000 tokens, 12,000 characters
    const messages = [user("print")];
    const sizes = [5_000, 11_000, 3_000, 30];
    play(call(...sizes.map((size, i) => use("bash", print(String(i), size)))), say("ok"));
    await turn(lesson, messages);
    const results = resultsOf(sent(-1));
    assert.deepEqual(
      results.map((result) => result.startsWith("Output too large")),
      [false, true, false, false],
    );
    assert.equal(readFileSync(savedFile(results[1]), "utf8"), "1".repeat(11_000));
  });

  test("many results that are large together stay within the limit", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "20000" }); // 8,000 tokens of output
    const messages = [user("print")];
    const calls = Array.from({ length: 30 }, (_, i) => use("bash", print(String(i % 10), 3_000)));
    play(call(...calls), say("ok"));
    await turn(lesson, messages);
    assert.ok(resultsOf(sent(-1)).join("").length <= 8_000 * 4);
  });

  test("40,000 tokens are the limit, however large the threshold is; up to it a result stays whole", async () => {
    const scale = await startScale(0); // so that 4 characters remain a token
    try {
      const large = { COMPACT_THRESHOLD: "200000", COMPACT_TURN_THRESHOLD: "400000" };
      const lesson = await load({ ...large, ANTHROPIC_BASE_URL: scale.url });
      play(call(use("bash", print("x", 160_000))), call(use("bash", print("y", 160_001))), say("ok"));
      await turn(lesson, [user("print")]);
      const [first = "", second = ""] = resultsOf(sent(-1));
      assert.equal(first.length, 160_000);
      assert.match(second, /^Output too large/);
    } finally {
      scale.close();
    }
  });

  test("an error that is too large goes to disk as well", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000", COMPACT_TURN_THRESHOLD: "100000" });
    play(call(use("read_file", { path: "e".repeat(60_000) })), say("ok"));
    assert.equal(await turn(lesson, [user("read")]), "done");
    const [block] = blocksOf(sent(-1)[2] ?? user(""));
    assert.ok(block?.type === "tool_result" && block.is_error);
    assert.match(String(block.content), /^Output too large/);
  });

  test("an id becomes a name that is safe for a file, and no two outputs share one", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" });
    const long = "i".repeat(400);
    const outputs = [`${long}1`, `${long}2`].map((id, i) => use("bash", print(String(i), 20_000), id));
    play(call(...outputs), say("ok"), call(...outputs), say("ok"));
    await turn(lesson, [user("print")]);
    const first = resultsOf(sent(-1)).map(savedFile);
    await turn(lesson, [user("print again")]);
    const files = [...first, ...resultsOf(sent(-1)).map(savedFile)];
    assert.equal(new Set(files).size, 4);
    assert.deepEqual(
      files.map((file) => readFileSync(file, "utf8")[0]),
      ["0", "1", "0", "1"],
    );
  });

  test("an id that is a path cannot leave the folder for outputs", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" });
    allowed = /String should match pattern/; // the API would not send such an id, nor take it back
    play(call(use("bash", print("x", 20_000), "../../escaped")), say("ok"));
    const messages = [user("print")];
    await assert.rejects(turn(lesson, messages));
    const file = savedFile(resultsOf(messages)[0]);
    assert.match(file, /^\.transcripts\/outputs\/[\w-]+\.txt$/);
    assert.ok(existsSync(file));
    assert.ok(!existsSync(join(folder, "escaped.txt")) && !existsSync(join(folder, "..", "escaped.txt")));
  });

  test("an output that is cut inside an emoji is still valid for the API", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" });
    const emoji = (before: string) => use("bash", { command: `printf '${before}'; printf '😀%.0s' {1..12000}` });
    play(call(emoji(""), emoji("x")), say("ok"));
    assert.equal(await turn(lesson, [user("print")]), "done");
  });

  // --- layer 2: the call ----------------------------------------------------------------------------------------------

  test("the summary is asked for with the prompt as it was, plus one message, and read from the prompt cache", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "9000", COMPACT_TURN_THRESHOLD: "30000" });
    const messages = [user("read three files")];
    play(...["p", "q", "r", "s"].map((name) => read(`${name}.txt`)), say("read"), say("A summary."), say("done"));
    await turn(lesson, messages);
    const last = entry(-1);
    const history = [...copy(messages), user("now go on")];
    messages.push(user("now go on"));
    await turn(lesson, messages);
    const { request, usage } = entry(5);
    assert.deepEqual(request.messages.slice(0, -1), history);
    assert.equal(request.messages.at(-1)?.role, "user");
    assert.deepEqual({ ...request, messages: [] }, { ...last.request, messages: [] });
    assert.equal(usage?.cache_read_input_tokens, last.promptTokens);
    assert.equal(requests(), 7);
  });

  test("after a round of ten parallel calls, too, the prompt is read from the prompt cache up to where the last one ended", async () => {
    const lesson = await load();
    const messages = [user(`read ten files ${"at your leisure ".repeat(200)}`)];
    const ten = Array.from({ length: 10 }, (_, i) =>
      use("read_file", { path: `${"pqrs"[i % 4]}.txt`, offset: 1 + (i >> 2) }),
    );
    play(call(...ten), call(...ten), say("read"));
    await turn(lesson, messages);
    for (const i of [1, 2]) {
      assert.equal(entry(i).usage?.cache_read_input_tokens, entry(i - 1).promptTokens);
      assert.deepEqual(unmarked(sent(i)), messages.slice(0, 2 * i + 1));
    }
    assert.ok(!JSON.stringify(messages).includes("cache_control"), "the history itself has no breakpoint");
  });

  test("the summary is asked for all that the work needs, and for the focus if there is one", async () => {
    const ask = async (focus?: string, limits = {}) => {
      play(say("A summary."));
      await compact(await load(limits), [user("a"), answer("b".repeat(2_000)), user("c"), answer("d")], {
        trigger: "manual",
        focus,
      });
      return textsOf(sent(-1).at(-1)).join("");
    };
    const words = await ask();
    for (const topic of ["goal", "instructions", "accomplished", "state", "decisions", "files", "skills", "next step"])
      assert.match(words, new RegExp(topic, "i"));
    for (const wish of [/\bbrief\b/, /about 2,000 tokens/, /keep details/, /call no tools/i]) assert.match(words, wish);
    assert.ok(!words.includes("the database schema"));
    assert.match(await ask("the database schema"), /the database schema/);
    assert.match(await ask(undefined, { COMPACT_THRESHOLD: "8000" }), /about 800 tokens/);
  });

  /** A threshold under which TALK does not fit into the tail. */
  const SMALL = { COMPACT_THRESHOLD: "8000" };
  const TALK = (): Messages => [user("tell me"), answer("a word ".repeat(2_000)), user("more"), answer("done")];

  const useless: [string, Reply, RegExp][] = [
    [
      "calls a tool",
      call({ type: "text", text: "first" }, use("bash", { command: "touch called" })),
      /ended with tool_use/,
    ],
    [
      "calls a tool although it ends its turn",
      { ...call({ type: "text", text: "a" }, use("bash", { command: "touch called" })), stop_reason: "end_turn" },
      /the summary calls a tool/,
    ],
    ["is blank", say(" \n "), /the summary is empty/],
    ["holds nothing but thinking", { content: [{ type: "thinking", thinking: "hm" }] }, /the summary is empty/],
    ["was refused", { ...say("I will not"), stop_reason: "refusal" }, /ended with refusal/],
    ["was cut off", { ...say("so far"), stop_reason: "max_tokens" }, /ended with max_tokens/],
    ["paused", { ...say("so far"), stop_reason: "pause_turn" }, /ended with pause_turn/],
    ["is longer than what it replaces", say("a word ".repeat(3_000)), /no shorter than what it replaces/],
  ];
  for (const [what, reply, reason] of useless)
    test(`a summary that ${what} is not accepted, the person is told why, and the history stays as it was`, async () => {
      const lesson = await load();
      const messages = TALK();
      const before = copy(messages);
      play(reply);
      assert.equal(await compact(lesson, messages, { trigger: "manual" }), "failed");
      assert.match(screen, reason);
      assert.deepEqual(messages, before);
      assert.equal(requests(), 1);
      assert.ok(!existsSync("called"));
      await assertAccepted(lesson, messages);
    });

  test("what a summary has to be shorter than is all that it replaces, the first message included", async () => {
    const lesson = await load();
    const messages = [user("a".repeat(3_000)), answer("b".repeat(2_000)), user("more"), answer("done")];
    play(say("c".repeat(4_000)));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    await assertAccepted(lesson, messages);
  });

  test("an API error during the summary call leaves the history as it was and is reported in one line", async () => {
    const lesson = await load();
    const messages = TALK();
    const before = copy(messages);
    allowed = /no key/;
    server.fail({ kind: "status", status: 401, message: "no key" });
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "failed");
    assert.deepEqual(messages, before);
    assert.match(screen, /^.*401.*no key.*$/m);
  });

  test("a summary call that is too long is made once more on a copy with old results cleared", async () => {
    const lesson = await load({ COMPACT_KEEP_RECENT: "1" });
    const messages = [user("read four files")];
    play(...["p", "q", "r", "s"].map((name) => read(`${name}.txt`)), say("read"), say("A summary."));
    await turn(lesson, messages);
    server.contextLimit = 6_000;
    allowed = /prompt is too long/;
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    assert.deepEqual(rejected().length, 1);
    const results = resultsOf(sent(-1));
    assert.equal(results.filter((result) => result.startsWith("[Previous: used read_file]")).length, 3);
    assert.deepEqual(thinkingIn(sent(-1)), []);
    assert.match(textsOf(messages[0])[0] ?? "", /A summary\./);
    await assertAccepted(lesson, messages);
  });

  test("a summary that the window has no room for is asked for once more in the same way", async () => {
    const lesson = await load();
    const messages = TALK();
    server.fail({ kind: "context_window" });
    play(say("half of a summary"), say("A summary."));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    assert.equal(requests(), 2);
    assert.match(textsOf(messages[0])[0] ?? "", /A summary\.$/);
  });

  test("when the call on the cleared copy fails, the history itself keeps its results", async () => {
    const lesson = await load({ COMPACT_KEEP_RECENT: "0" });
    const messages = [...TALK(), user("go"), ...bashRound("x".repeat(3_000)), answer("done")];
    const before = copy(messages);
    server.fail({ kind: "status", status: 400, message: "prompt is too long: 2 tokens > 1 maximum" });
    allowed = /prompt is too long/;
    play(say(" "));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "failed");
    assert.deepEqual(resultsOf(sent(-1)), ["[Previous: used bash]"]);
    assert.deepEqual(messages, before);
  });

  test("when even that is too long, the history is one without a summary that says so and names the transcript", async () => {
    const lesson = await load({ COMPACT_KEEP_RECENT: "1" });
    const messages = [user("remember this"), answer("a word ".repeat(4_000)), user("fix the bug"), answer("ok")];
    server.contextLimit = 4_000;
    allowed = /prompt is too long/;
    play();
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    assert.equal(requests(), 2);
    const [head = "", ...rest] = textsOf(messages[0]);
    assert.match(head, /^\[Conversation compressed\. Transcript: \.transcripts\/transcript_\d+_\d+\.jsonl\]/);
    assert.match(head, /no summary/i);
    assert.ok(rest.some((text) => text.includes("fix the bug")));
    assert.equal(messages.length, 1);
    await assertAccepted(lesson, messages);
  });

  test("after three failures in a row automatic compaction stays off, until the person asks for one", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "2000" });
    const messages = TALK();
    const ask = async (...replies: Reply[]) => {
      server.journal.length = 0;
      messages.push(user("go on"));
      play(...replies);
      assert.equal(await turn(lesson, messages), "done");
      return requests();
    };
    for (let i = 0; i < 3; i++) assert.equal(await ask(say(" "), say("ok")), 2);
    assert.equal(screen.match(/automatic compaction is off until the next \/compact/g)?.length, 1, screen);
    assert.equal(await ask(say("ok")), 1);
    play(say(" "));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "failed");
    for (let i = 0; i < 2; i++) assert.equal(await ask(say(" "), say("ok")), 2);
    assert.equal(await ask(say("ok")), 1);
    play(say("A summary."));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    messages.push(answer("a word ".repeat(2_000)), user("and"), answer("so"));
    assert.equal(await ask(say("A summary."), say("ok")), 2);
  });

  test("a compaction that succeeds starts the count of failures anew", async () => {
    const lesson = await load(SMALL);
    const messages = TALK();
    const attempt = async (reply: Reply) => {
      play(reply);
      return compact(lesson, messages, { trigger: "auto", limit: 1_000 });
    };
    for (const _ of [1, 2]) assert.equal(await attempt(say(" ")), "failed");
    assert.equal(await attempt(say("A summary.")), "done");
    messages.push(...TALK());
    for (const _ of [1, 2]) assert.equal(await attempt(say(" ")), "failed");
    assert.ok(!/is off/.test(screen), screen);
  });

  /** Stops what runs as soon as the server has the next request. */
  async function interruptAt(count: number, run: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
    const controller = new AbortController();
    const running = run(controller.signal);
    await until(() => requests() >= count);
    controller.abort();
    return running;
  }

  test("Ctrl-C during the summary ends the turn, leaves the history as it was, and is no failure", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "2000" });
    const messages = [...TALK(), user("go on")];
    const before = copy(messages);
    for (let i = 1; i <= 4; i++) {
      play(say("A summary."));
      server.fail({ kind: "slow", delay: 200 });
      assert.equal(await interruptAt(i, (signal) => turn(lesson, messages, { signal })), "interrupted");
      assert.deepEqual(messages, before);
    }
    assert.ok(!/failed/.test(screen), screen);
    play(say("A summary."), say("ok"));
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 6);
  });

  // --- layer 2: the new history ---------------------------------------------------------------------------------------

  /** The history that a compaction makes of this one. */
  async function compacted(lesson: Lesson, messages: Messages, options: Parameters<Lesson["autoCompact"]>[1] = {}) {
    play(say("A summary."));
    assert.equal(await compact(lesson, messages, options), "done");
    const [first, ...tail] = messages;
    assert.ok(first?.role === "user" && Array.isArray(first.content));
    assert.deepEqual(
      first.content.map(({ type }) => type),
      first.content.map(() => "text"),
    );
    await assertAccepted(lesson, messages);
    return { texts: textsOf(first), tail };
  }
  const auto = { trigger: "auto", limit: 0 } as const; // always worth it

  test("the new history begins with the transcript's place and the summary, then the request", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("build it"), ...[1, 2, 3].flatMap(() => bashRound("ok ".repeat(100)))];
    const { texts, tail } = await compacted(lesson, messages, { trigger: "tool" });
    const [head = "", request] = texts;
    assert.match(
      head,
      /^\[Conversation compressed\. Transcript: (\.transcripts\/transcript_\d+_\d+\.jsonl)\]\s+A summary\./,
    );
    const file = /Transcript: (\S+)\]/.exec(head)?.[1] ?? "";
    assert.ok(existsSync(file));
    assert.equal(request, "<request>\nbuild it\n</request>");
    assert.equal(tail.length, 4);
  });

  test("the request survives verbatim, whatever is in it, one compaction after the other", async () => {
    const lesson = await load();
    const words = "Replace `$&` by </request>\n</request> and <request>\n(answered)\n\n  keep   this\t";
    const messages = [...TALK(), user(words)];
    for (let i = 0; i < 3; i++) {
      messages.push(...bashRound("x".repeat(3_000)), ...bashRound("y".repeat(300)));
      const { texts } = await compacted(lesson, messages, { trigger: "tool" });
      const request = texts.filter((text) => text.startsWith("<request>"));
      assert.deepEqual(request, [`<request>\n${words}\n</request>`]);
    }
  });

  test("the newest request counts, not the one that an earlier compaction kept", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("the first"), ...bashRound("ok")];
    await compacted(lesson, messages, { trigger: "tool" });
    messages.push(answer("done ".repeat(500)), user("the second"), ...bashRound("x".repeat(2_000)), ...bashRound("y"));
    const { texts, tail } = await compacted(lesson, messages, { trigger: "manual" });
    const all = [...texts, ...tail.flatMap(textsOf)].join("\n");
    assert.match(all, /<request>\nthe second\n<\/request>/);
    assert.ok(!all.includes("the first"));
  });

  test("a request that the tail shows is not said twice", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("small talk"), ...bashRound("ok")];
    const { texts, tail } = await compacted(lesson, messages, auto);
    assert.ok(!texts.some((text) => text.includes("<request>")));
    assert.equal(tail.flatMap(textsOf).filter((text) => text === "small talk").length, 1);
  });

  test("a request above the limit for outputs goes to disk with a preview", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000" });
    const words = "Mend this log:\n".concat("line of a log 😀\n".repeat(2_000));
    const messages = [...TALK(), user(words), ...bashRound("x".repeat(6_000)), ...bashRound("y")];
    const { texts } = await compacted(lesson, messages, { trigger: "tool" });
    const request = texts.find((text) => text.startsWith("<request>")) ?? "";
    assert.match(request, /Mend this log:/);
    assert.ok(request.length > 2_000 && request.length < 2_500, `${request.length}`);
    assert.equal(readFileSync(savedFile(request), "utf8"), words);
  });

  test("the todo list is shown as rendered if there is one", async () => {
    const lesson = await load();
    assert.ok(!(await compacted(lesson, TALK(), { trigger: "manual" })).texts.some((text) => text.includes("[ ]")));
    lesson.TODO.update([
      { text: "draw", status: "completed" },
      { text: "paint", status: "in_progress" },
    ]);
    const { texts } = await compacted(lesson, TALK(), { trigger: "manual" });
    assert.ok(texts.includes(lesson.TODO.render()), texts.join("\n---\n"));
  });

  test("a lone surrogate in a todo does not spoil the new history", async () => {
    const lesson = await load();
    const messages = [user("plan")];
    play(
      call(use("todo", { items: [{ text: "half an emoji: \ud83d", status: "pending" }] })),
      say("a word ".repeat(1_000)),
    );
    await turn(lesson, messages);
    await compacted(lesson, messages, { trigger: "manual" });
  });

  test("the tail is at most five messages, begins with an assistant message and parts no pair", async () => {
    const lesson = await load();
    for (let extra = 0; extra < 3; extra++) {
      const messages = [user("go")];
      for (let i = 0; i < 6; i++) messages.push(...bashRound(`${i}`));
      messages.push(...([[], [answer("done")], [answer("done"), user("next")]][extra] ?? []));
      const before = copy(messages);
      const { tail } = await compacted(lesson, messages, { ...auto, trigger: "tool" });
      assert.equal(tail[0]?.role, "assistant");
      assert.ok(tail.length >= 4 && tail.length <= 5, `${tail.length}`);
      assert.deepEqual(tail, before.slice(-tail.length));
    }
  });

  test("the tail is at most a quarter of the threshold", async () => {
    const lesson = await load(SMALL); // 2,000 tokens of tail
    const messages = [...TALK(), user("next"), ...bashRound("x".repeat(10_000)), answer("so"), user("and?")];
    const { tail } = await compacted(lesson, messages, { trigger: "tool" });
    assert.deepEqual(tail, [answer("so"), user("and?")]);
  });

  test("a round that the model has not answered is always kept whole", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "8000" });
    const messages = [...TALK(), user("print"), ...bashRound("z".repeat(12_000))];
    const before = copy(messages);
    const { texts, tail } = await compacted(lesson, messages, { trigger: "tool" });
    assert.deepEqual(tail, before.slice(-2));
    assert.ok(texts.includes("<request>\nprint\n</request>"));

    const byHand = [...TALK(), user("print"), ...bashRound("z".repeat(12_000))];
    assert.equal((await compacted(lesson, byHand, { trigger: "manual" })).tail.length, 2);
  });

  test("asked for at the prompt, compaction keeps no tail and makes up no assistant message", async () => {
    const lesson = await load();
    const messages = TALK();
    const { texts, tail } = await compacted(lesson, messages, { trigger: "manual" });
    assert.deepEqual(tail, []);
    assert.match(texts.join("\n"), /<request>\nmore\n<\/request>/);
    assert.match(screen, /\[manual compact\]/);
  });

  test("the tail loses its thinking but not the notes in it", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("go")];
    const note = (text: string): Reply => ({
      content: [{ type: "thinking", thinking: text }, use("bash", { command: "echo" })],
    });
    play(note("I note: port 8080."), say("done"));
    await turn(lesson, messages);
    const { tail } = await compacted(lesson, messages, { ...auto, trigger: "tool" });
    assert.deepEqual(thinkingIn(tail), []);
    assert.ok(tail.flatMap(textsOf).includes("I note: port 8080."));
  });

  test("automatic compaction must save its minimum; the one that was asked for need not", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "5000" }); // 2,000 tokens to save
    const history = () => [user("a"), answer("b ".repeat(1_500)), user("c".repeat(6_000))];
    assert.equal(await compact(lesson, history(), { trigger: "auto" }), "skipped");
    assert.equal(requests(), 0);
    for (const trigger of ["manual", "tool", "reactive"] as const) {
      play(say("A summary."));
      assert.equal(await compact(lesson, history(), { trigger }), "done");
    }
    const cheaper = await load({ COMPACT_THRESHOLD: "5000", COMPACT_MIN_SAVINGS: "0" });
    play(say("A summary."));
    assert.equal(await compact(cheaper, history(), { trigger: "auto" }), "done");
  });

  test("what would remain is the summary, the request, the tail, system and tools; the rest must be 40 % of the limit", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "5000" }); // 2,000 tokens to save, 500 for the summary
    const history = (said: number) => [
      user("a"),
      answer("b".repeat(said)),
      user("c".repeat(4_000)), // 1,000 tokens of request
      ...bashRound("x".repeat(3_500)), // and as many of an open round
    ];
    assert.equal(await compact(lesson, history(9_600), { trigger: "auto" }), "skipped"); // about 1,930 tokens
    assert.equal(requests(), 0);
    play(say("A summary."));
    assert.equal(await compact(lesson, history(10_400), { trigger: "auto" }), "done"); // about 2,130
  });

  test("of a request that goes to disk only what is shown of it remains", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "5000" }); // 2,000 tokens to save, and as many of one output
    const messages = [user("a"), answer("b".repeat(2_000)), user("c".repeat(12_000)), ...bashRound("ok")];
    play(say("A summary."));
    assert.equal(await compact(lesson, messages, { trigger: "auto" }), "done");
  });

  // --- restored files -------------------------------------------------------------------------------------------------

  const reads = (...paths: string[]) => paths.flatMap((path) => round("read_file", { path }, "(what it was then)"));
  const filler = (): Messages => [...bashRound("f"), ...bashRound("f"), answer("a word ".repeat(500))];
  const filesShown = (texts: string[]) => texts.flatMap((text) => /content of (\S+),/.exec(text)?.[1] ?? []);
  const restored = (texts: string[], mark: string) => texts.filter((text) => text.includes(mark)).length;
  function file(name: string, content = `content of ${name}, as it is now`): string {
    mkdirSync("files", { recursive: true });
    const path = `files/${name}`;
    writeFileSync(path, content);
    return path;
  }

  test("the two files touched last are shown again as they are on disk now", async () => {
    const lesson = await load();
    const [a, b, c] = [file("a1"), file("b1"), file("c1")];
    const messages = [user("look"), ...reads(a, b, c), ...filler()];
    messages.push(...round("edit_file", { path: b, old_text: "x", new_text: "y" }, "Edited"), ...filler());
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    assert.deepEqual(
      [a, b, c].map((path) => restored(texts, `content of ${path.slice(6)}, as it is now`)),
      [0, 1, 1],
    );
    assert.ok(texts.some((text) => text.includes(b) && text.includes("content of b1")));
    assert.ok(!texts.some((text) => text.includes("(what it was then)")));
  });

  test("a file that the person named and that was not edited yet is shown first", async () => {
    const lesson = await load();
    const [wanted, edited, c, d] = [file("wanted.txt"), file("edited.txt"), file("c2"), file("d2")];
    const messages = [
      user("Correct wanted.txt and edited.txt"),
      ...reads(wanted, edited),
      ...round("edit_file", { path: edited, old_text: "x", new_text: "y" }, "Edited"),
      ...reads(c, d),
      ...filler(),
    ];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    const shown = filesShown(texts);
    assert.equal(shown[0], "wanted.txt");
    assert.deepEqual(shown.toSorted(), ["c2", "d2", "wanted.txt"]);
  });

  test("a file that was edited stays edited when it is read again", async () => {
    const lesson = await load();
    const [edited, c, d] = [file("edited2.txt"), file("c3"), file("d3")];
    const messages = [
      user("Correct edited2.txt"),
      ...round("edit_file", { path: edited, old_text: "x", new_text: "y" }, "Edited"),
      ...reads(edited, c, d),
      ...filler(),
    ];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    const shown = filesShown(texts);
    assert.deepEqual(shown.toSorted(), ["c3", "d3"]);
  });

  test("of parallel calls each file is remembered, by the result of its own call", async () => {
    const lesson = await load();
    const [a, b] = [file("a4"), file("b4")];
    const [call1, call2, call3] = ["one", "two", "three"].map((id) => `parallel_${id}`);
    const use = (id = "", path = "") => ({ type: "tool_use" as const, id, name: "read_file", input: { path } });
    const result = (id = "", more = {}) => ({ type: "tool_result" as const, tool_use_id: id, content: "…", ...more });
    const messages: Messages = [
      user("look"),
      { role: "assistant", content: [use(call1, "nowhere"), use(call2, a), use(call3, b)] },
      { role: "user", content: [result(call1, { is_error: true }), result(call2), result(call3)] },
      ...filler(),
    ];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    const shown = filesShown(texts);
    assert.deepEqual(shown.toSorted(), ["a4", "b4"]);
  });

  test("a call of any other tool is about no file, whatever its input has", async () => {
    const lesson = await load();
    const messages = [user("go"), ...round("bash", { command: "make", path: file("b6") }, "…"), ...filler()];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    assert.equal(restored(texts, "content of b6"), 0);
  });

  test("a file is read again with the offset and the limit of the last time", async () => {
    const lesson = await load();
    const path = file("lines", Array.from({ length: 50 }, (_, i) => `line ${i + 1};`).join("\n"));
    const messages = [
      user("look"),
      ...reads(path),
      ...round("read_file", { path, offset: 10, limit: 2 }, "…"),
      ...filler(),
    ];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    const shown = texts.find((text) => text.includes("line 10;")) ?? "";
    assert.match(shown, /line 10;\nline 11;/);
    assert.ok(!shown.includes("line 9;") && !shown.includes("line 12;"));
  });

  test("a file that is gone, has become binary or lies outside is passed over", async () => {
    const lesson = await load();
    const [gone, binary] = [file("gone"), file("binary")];
    const messages = [user("look at gone, binary and passwd"), ...reads(gone, "/etc/passwd", binary), ...filler()];
    rmSync(gone);
    writeFileSync(binary, Buffer.from([0, 1, 2, 0xff]));
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    assert.equal(restored(texts, "root:"), 0);
    assert.equal(texts.length, 2); // summary and request
  });

  test("a file that the tail shows is not shown twice", async () => {
    const lesson = await load();
    const [a, b] = [file("a3"), file("b3")];
    const messages = [user("look"), ...reads(a), ...filler(), user("and"), ...reads(b)];
    const { texts, tail } = await compacted(lesson, messages, { trigger: "tool" });
    assert.ok(JSON.stringify(tail).includes(b));
    assert.equal(restored(texts, "content of b3"), 0);
    assert.equal(restored(texts, "content of a3"), 1);
  });

  test("an edit that failed is none: the file is still to be edited", async () => {
    const lesson = await load();
    const [wanted, c, d] = [file("plan.txt"), file("c4"), file("d4")];
    const [attempt, refusal] = round("edit_file", { path: wanted, old_text: "x", new_text: "y" }, "does not occur");
    assert.ok(attempt && refusal);
    for (const block of blocksOf(refusal)) if (block.type === "tool_result") block.is_error = true;
    const messages = [user("work by plan.txt"), ...reads(wanted), attempt, refusal, ...reads(c, d), ...filler()];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    assert.equal(restored(texts, "content of plan.txt"), 1);
  });

  test("a file that the tail only names, edited or cleared or saved to disk, is shown", async () => {
    for (const [name, result] of [
      ["edit_file", "Edited"],
      ["read_file", "[Previous: used read_file]"],
      ["read_file", "Output too large. Saved to: x\nthe beginning"],
    ] as const) {
      const lesson = await load();
      const path = file("e5");
      const tail = round(name, { path, old_text: "a", new_text: "b" }, result);
      const messages = [user("look"), ...reads(path), ...filler(), user("and"), ...tail];
      const { texts } = await compacted(lesson, messages, { trigger: "tool" });
      assert.equal(restored(texts, "content of e5"), 1, result);
    }
  });

  test("at most five files are shown, each cut at 5,000 tokens", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "500000", COMPACT_TURN_THRESHOLD: "600000" });
    const paths = Array.from({ length: 7 }, (_, i) => file(`n${i}.txt`, `first ${"n".repeat(30_000)}`));
    const messages = [user(`compare ${paths.join(" ")}`), ...reads(...paths), ...filler()];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    const shown = texts.filter((text) => text.includes("nnnn"));
    assert.equal(shown.length, 5);
    for (const text of shown) {
      assert.ok(text.length > 15_000 && text.length < 21_000, `${text.length}`);
      assert.match(text.slice(0, 50), /^<file path="files\/n\d\.txt">\nfirst n/);
    }
    assert.ok(!screen.includes("A summary."), "the summary is not for the person");
  });

  test("the files together have at most 40 % of the threshold, and perhaps none has room", async () => {
    const paths = Array.from({ length: 5 }, (_, i) => file(`m${i}.txt`, "m".repeat(3_600))); // 900 tokens each
    const history = () => [user(`compare ${paths.join(" ")}`), ...reads(...paths), ...filler()];
    const shown = async (threshold: string) => {
      const { texts } = await compacted(await load({ COMPACT_THRESHOLD: threshold }), history(), { trigger: "manual" });
      return restored(texts, "mmmm");
    };
    assert.equal(await shown("8000"), 3);
    assert.equal(await shown("1000"), 0);
  });

  test("a long summary leaves less room for files", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "10000", COMPACT_MIN_SAVINGS: "0" });
    const room = 10_000 - lesson.estimateTokens([]); // tokens
    const path = file("long.txt", "l".repeat(4 * Math.min(3_800, room - 500)));
    const shown = async (summary: string) => {
      const messages = [user("read long.txt"), ...reads(path), answer("a word ".repeat(8_000))];
      play(say(summary));
      assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
      return restored(textsOf(messages[0]), "llll");
    };
    assert.equal(await shown("A summary."), 1);
    assert.equal(await shown("s".repeat(4 * (room - 1_000))), 0);
  });

  test("the files leave the minimum saving free below the limit that was passed", async () => {
    const paths = Array.from({ length: 3 }, (_, i) => file(`k${i}.txt`, "k".repeat(3_600))); // 900 tokens each
    const history = () => [
      user(`compare ${paths.join(" ")}`),
      ...reads(...paths),
      ...filler(),
      user("w".repeat(9_000)), // 2,250 tokens that stay
    ];
    const shown = async (savings: string) => {
      const lesson = await load({ COMPACT_THRESHOLD: "8000", COMPACT_MIN_SAVINGS: savings });
      const { texts } = await compacted(lesson, history(), { trigger: "tool", limit: 8_000 });
      return restored(texts, "kkkk");
    };
    assert.equal(await shown("0"), 3);
    assert.equal(await shown("3600"), 1);
    assert.equal(await shown("5500"), 0);
  });

  test("a file that is cut inside an emoji does not spoil the new history", async () => {
    const lesson = await load();
    const paths = [file("even.txt", "😀".repeat(15_000)), file("odd.txt", `x${"😀".repeat(15_000)}`)];
    const messages = [user("look"), ...reads(...paths), ...filler()];
    const { texts } = await compacted(lesson, messages, { trigger: "manual" });
    assert.equal(restored(texts, "😀"), 2);
  });

  // --- layer 3 --------------------------------------------------------------------------------------------------------

  test("the compact tool compacts after its batch, with its focus, and the loop goes on", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("now compact")];
    play(
      call(use("bash", { command: "echo batch" }), use("compact", { focus: "the colours" })),
      say("A summary."),
      say("went on"),
    );
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 3);
    assert.match(textsOf(sent(1).at(-1)).join(""), /the colours/);
    assert.equal(resultsOf(sent(1)).length, 2); // the batch was answered before the summary was asked for
    assert.match(textsOf(sent(2)[0])[0] ?? "", /A summary\./);
    assert.deepEqual(resultsOf(sent(2))[0], "batch");
    assert.deepEqual(thinkingIn(sent(2)), []);
    assert.deepEqual(textsOf(messages.at(-1)), ["went on"]);
    assert.match(lesson.SYSTEM, /compact/);
  });

  test("a focus with a lone surrogate does not make compaction fail", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("now compact")];
    play(call(use("compact", { focus: "colours \ud83d" })), say("A summary."), say("went on"));
    assert.equal(await turn(lesson, messages), "done");
    assert.match(textsOf(messages[0])[0] ?? "", /A summary\./);
  });

  test("with nothing before the tail the compact tool says so, and no call is made for it", async () => {
    const lesson = await load();
    const messages = [user("compact")];
    play(call(use("compact", {})), say("ok"));
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 2);
    assert.match(resultsOf(sent(1))[0] ?? "", /nothing to compact/i);
  });

  test("directly after a compaction there is nothing to compact", async () => {
    const lesson = await load();
    const messages = TALK();
    await compacted(lesson, messages, { trigger: "manual" });
    server.journal.length = 0;
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "skipped");
    assert.equal(await compact(lesson, [], { trigger: "manual" }), "skipped");
    assert.equal(requests(), 0);
  });

  test("when compaction by the tool fails, the turn goes on with the history as it was", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("now compact")];
    play(call(use("compact", {})), say("  "), say("went on"));
    assert.equal(await turn(lesson, messages), "done");
    assert.deepEqual(textsOf(sent(-1)[0]), ["tell me"]);
    assert.equal(messages.length, 8);
  });

  test("the compact tool works although three failures have switched automatic compaction off", async () => {
    const lesson = await load(SMALL);
    const messages = TALK();
    for (let i = 0; i < 3; i++) {
      play(say(" "));
      assert.equal(await compact(lesson, messages, auto), "failed");
    }
    messages.push(user("now compact"));
    play(call(use("compact", {})), say("A summary."), say("went on"));
    await turn(lesson, messages);
    assert.match(textsOf(sent(-1)[0])[0] ?? "", /A summary\./);
  });

  test("Ctrl-C during the compaction that the tool asked for leaves a valid history", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("now compact")];
    play(call(use("compact", {})), say("A summary."));
    server.fail({ kind: "slow", delay: 0 }, { kind: "slow", delay: 200 });
    assert.equal(await interruptAt(2, (signal) => turn(lesson, messages, { signal })), "interrupted");
    assert.equal(messages.length, 7);
    await assertAccepted(lesson, messages);
  });

  test("a compact call with an input that does not fit is answered with an error and compacts nothing", async () => {
    const lesson = await load();
    const messages = [...TALK(), user("now compact")];
    play(call(use("compact", { focus: ["a", "list"] })), say("ok"));
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 2);
    const block = blocksOf(sent(-1).at(-1) ?? user(""))[0];
    assert.ok(block?.type === "tool_result" && block.is_error);
  });

  // --- reactive -------------------------------------------------------------------------------------------------------

  const TOO_LONG = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length";

  for (const message of ["prompt is too long: 210000 tokens > 200000 maximum", TOO_LONG])
    test(`a 400 "${message.slice(0, 30)}…" compacts and tries once more`, async () => {
      const lesson = await load({ ...SMALL, COMPACT_KEEP_RECENT: "0" });
      const messages = [...TALK(), user("go"), ...bashRound("x".repeat(3_000)), answer("done"), user("next")];
      allowed = /too long|exceed context limit/;
      server.fail({ kind: "status", status: 400, message });
      play(say("A summary."), say("went on"));
      assert.equal(await turn(lesson, messages), "done");
      assert.equal(requests(), 3);
      assert.match(screen, /\[auto_compact triggered\]/);
      assert.deepEqual(resultsOf(sent(1)), ["[Previous: used bash]"]); // it began with the cleared copy
      assert.match(textsOf(sent(2)[0])[0] ?? "", /A summary\./);
      assert.match(JSON.stringify(sent(2)), /next/);
    });

  test("a reply that hits the window is dropped, the history compacted, and the call made once more", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("next")];
    server.fail({ kind: "context_window" });
    play(
      call({ type: "text", text: "half" }, use("bash", { command: "touch half" })),
      say("A summary."),
      say("went on"),
    );
    assert.equal(await turn(lesson, messages), "done");
    assert.equal(requests(), 3);
    assert.ok(!JSON.stringify(sent(2)).includes("half"));
    assert.ok(!existsSync("half"));
  });

  test("in the middle of a turn the round that was too much is kept, and the request with it", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("print much")];
    allowed = /prompt is too long/;
    server.contextLimit = 7_000; // the history is about 5,600
    play(call(use("bash", print("x", 5_000))), say("A summary."), say("went on"));
    assert.equal(await turn(lesson, messages), "done");
    assert.deepEqual(resultsOf(sent(-1)), ["x".repeat(5_000)]);
    assert.match(JSON.stringify(sent(-1)), /print much/);
  });

  test("what is still too long after the compaction is reported, not tried for ever", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("w".repeat(9_000))];
    allowed = /prompt is too long/;
    server.contextLimit = 2_000;
    play();
    await assert.rejects(turn(lesson, messages), /prompt is too long/);
    assert.equal(requests(), 3); // the call, the summary from the cleared copy, the call again
    assert.ok(JSON.stringify(messages).includes("w".repeat(9_000)));
    server.contextLimit = 200_000;
    await assertAccepted(lesson, messages);
  });

  test("reactive compaction works although three failures have switched automatic compaction off", async () => {
    const lesson = await load(SMALL);
    const messages = TALK();
    for (let i = 0; i < 3; i++) {
      play(say(" "));
      await compact(lesson, messages, auto);
    }
    messages.push(user("next"));
    server.fail({ kind: "status", status: 400, message: "prompt is too long: 2 tokens > 1 maximum" });
    allowed = /too long/;
    play(say("A summary."), say("went on"));
    assert.equal(await turn(lesson, messages), "done");
  });

  test("when nothing but one message is before a tail that fills the window, only the open round is kept", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "190000" });
    const messages = [user("look"), ...bashRound("x".repeat(9_000)), answer("w".repeat(9_000)), user("next")];
    server.contextLimit = 6_000; // the history is about 7,500
    allowed = /prompt is too long/;
    play(say("A summary."), say("went on"));
    assert.equal(await turn(lesson, messages), "done");
    assert.match(JSON.stringify(sent(-1)), /Conversation compressed.*next/);
  });

  test("the second try for a summary carries no thinking, also when there was no result to clear", async () => {
    const lesson = await load(SMALL);
    const messages = [user("one")];
    play(say("w".repeat(6_000)));
    await turn(lesson, messages);
    messages.push(user("two"));
    play(say("w".repeat(6_000)));
    await turn(lesson, messages);
    assert.ok(thinkingIn(messages).length > 0);
    server.contextLimit = 3_000;
    allowed = /prompt is too long/;
    play();
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    assert.equal(thinkingIn(sent(-1)).length, 0);
    assert.ok(thinkingIn(sent(-2)).length > 0);
  });

  test("with a system prompt and tools of its own, a conversation is counted and summarized with these", async () => {
    const lesson = await load();
    const messages = [user("one")];
    const options = { system: "Be brief. ".repeat(300), tools: lesson.TOOLS.slice(0, 1) };
    for (const request of ["two", "three"]) {
      play(say(`${request} words `.repeat(200)));
      await quiet(() => lesson.agentLoop(messages, options));
      messages.push(user(request));
    }
    play(say("fine"));
    await quiet(() => lesson.agentLoop(messages, options));
    assert.equal(lesson.estimateTokens(messages.slice(0, -1)) > 0, true);
    play(say("A summary."));
    assert.equal(await compact(lesson, messages, { trigger: "manual" }), "done");
    assert.equal(entry(-1).request.system, options.system);
    assert.equal(entry(-1).request.tools?.length, 1);
  });

  test("another 400 compacts nothing", async () => {
    const lesson = await load(SMALL);
    const messages = [...TALK(), user("next")];
    const before = copy(messages);
    server.fail({ kind: "status", status: 400, message: "something else" });
    allowed = /something else/;
    await assert.rejects(turn(lesson, messages), /something else/);
    assert.equal(requests(), 1);
    assert.deepEqual(messages, before);
  });

  // --- refusals after a compaction ------------------------------------------------------------------------------------

  test("a refused request leaves the history although a compaction had kept it", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "4000" });
    const messages = [user("tell me"), answer("a word ".repeat(2_000)), user("do something bad")];
    play(say("A summary."), { ...say("no"), stop_reason: "refusal" });
    assert.equal(await turn(lesson, messages), "refused");
    assert.equal(requests(), 2);
    assert.ok(!JSON.stringify(messages).includes("something bad"), JSON.stringify(messages));
    assert.match(textsOf(messages[0])[0] ?? "", /A summary\./);
    messages.push(user("something good"));
    play(say("gladly"));
    assert.equal(await turn(lesson, messages), "done");
  });

  test("a refusal in the middle of a turn that was compacted takes its rounds out as well", async () => {
    const lesson = await load(SMALL);
    const messages = [user("tell me"), answer("a word ".repeat(2_000)), user("do something bad")];
    const refusal: Reply = { ...call(use("bash", { command: "touch bad" })), stop_reason: "refusal" };
    play(call(use("bash", { command: "echo round" }), use("compact", {})), say("A summary."), refusal);
    assert.equal(await turn(lesson, messages), "refused");
    assert.ok(!/something bad|round/.test(JSON.stringify(messages)), JSON.stringify(messages));
    assert.ok(!existsSync("bad"));
    await assertAccepted(lesson, messages);
  });

  // --- subagents ------------------------------------------------------------------------------------------------------

  test("a subagent compacts by the same rules, with its own prompt and without the parent's todos", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "6000", COMPACT_MIN_SAVINGS: "100", COMPACT_KEEP_RECENT: "1" });
    lesson.TODO.update([{ text: "the parent's plan", status: "pending" }]);
    const messages = [user("have it read")];
    const names = ["p", "q", "r", "s"];
    play(
      call(use("task", { prompt: "Read the files." })),
      ...names.slice(0, 3).map((name) => read(`${name}.txt`)),
      call(use("compact", {})),
      say("A child's summary."),
      say("child done"),
      say("parent done"),
    );
    assert.equal(await turn(lesson, messages), "done");
    assert.deepEqual(resultsOf(messages), ["child done"]);
    const child = server.journal.slice(1, -1).map(({ request }) => request);
    assert.ok(child.some((request) => resultsOf(request.messages).includes("[Previous: used read_file]")));
    assert.equal(new Set(child.map(({ system }) => JSON.stringify(system))).size, 1);
    assert.notDeepEqual(child[0]?.system, entry(0).request.system);
    const after = JSON.stringify(child.at(-1)?.messages);
    assert.match(after, /A child's summary\./);
    assert.match(after, /Read the files\./);
    assert.match(after, /\.transcripts\/tasks\/transcript_/);
    assert.ok(!after.includes("the parent's plan"));
    assert.ok(readdirSync(join(lesson.TRANSCRIPT_DIR, "tasks")).length > 0);
  });

  test("the results of a preserved skill survive layer 1 in a whole conversation", async () => {
    const lesson = await load({ COMPACT_THRESHOLD: "6000", COMPACT_MIN_SAVINGS: "0", COMPACT_KEEP_RECENT: "0" });
    const messages = [user("load and read")];
    play(call(use("load_skill", { name: "tidy" })), read("p.txt"), read("q.txt"), read("r.txt"), say("done"));
    assert.equal(await turn(lesson, messages), "done");
    const results = resultsOf(sent(-1));
    assert.match(results[0] ?? "", /Tidy well\./);
    assert.equal(results[1], "[Previous: used read_file]");
  });
});

await import("./s06_transcript.ts");
const SAVED = "what is too large is saved instead of cut";
await carryOver("s05_skill_loading", {
  "is bounded like any result": SAVED,
  "is bounded like any result: head and tail are kept and the cut is stated": SAVED,
  "a file of 200 KB on one line reaches the model cut to 50,000 characters": SAVED,
  "200 KB on one line are cut to 50,000 characters: head and tail stay, and the cut is stated": SAVED,
  "a call that a full context window cut is not run either": "compaction makes room, and the model is asked again",
});
