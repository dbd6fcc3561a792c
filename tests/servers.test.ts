// What s01 and s06 do on servers that differ from Anthropic's. docs/servers.md says what to set for them.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
import { QUIRKS } from "../offline/api/quirks.ts";
import { bash, call, say, use } from "../offline/api/said.ts";
import { expectRejection, useServer } from "./server.ts";
import { goOn, load, type Messages, optionsFor, resultsIn, textsOf, turn, watch } from "./turn.ts";
import { emptyWorkspace, useWorkspace } from "./workspace.ts";

useWorkspace();
const server = await useServer();
const [S01, S06] = ["agents/s01_agent_loop.ts", "agents/s06_context_compact.ts"] as const;
const s01 = await load(S01);
const s06 = await load(S06);
const read = call(use("read_file", { path: "a.txt" }));

beforeEach(() => {
  emptyWorkspace();
  writeFileSync("a.txt", "text ".repeat(600));
  Object.assign(server, { contextLimit: 200_000, quirks: [] });
});

test("where each call needs its thinking, s06 goes on after a compaction only with THINKING=keep", async (t) => {
  t.after(() => {
    process.env.THINKING = "";
  });
  server.quirks = [QUIRKS.needsThinking];
  for (const [setting, error] of [
    ["", /must be passed back/],
    ["keep", /^undefined$/],
  ] as const) {
    process.env.THINKING = setting;
    const messages: Messages = [];
    await turn(s06, [read, say("done")], { messages });
    server.fail({ kind: "status", status: 413 });
    expectRejection(/maximum size/);
    assert.match(`${(await turn(s06, [say("here I am")], { messages })).error}`, error);
  }
  expectRejection(/must be passed back/);
});

test("where adaptive thinking is rejected, THINKING=off helps", async () => {
  server.quirks = [QUIRKS.rejectsAdaptive];
  expectRejection(/type=enabled/);
  assert.match(`${(await turn(s01, [say("hi")])).error}`, /type=enabled/);
  for (const file of [S01, S06]) {
    const lesson = await load(file, { THINKING: "off" });
    const { error, results } = await turn(lesson, [bash("echo hi"), say("It said hi.")]);
    assert.deepEqual([error, results[0]?.text], [undefined, "hi"]);
  }
});

for (const form of ["errorsOfOpenAI", "errorsAsString", "errorsInHtml"] as const)
  test(`s06 knows a full window by its words: ${form}`, async () => {
    const messages: Messages = [];
    await turn(s06, [say("ok")], { messages, request: "words ".repeat(3_500) });
    Object.assign(server, { contextLimit: 8_500, quirks: [QUIRKS[form]] });
    expectRejection(/prompt is too long/);
    const talk = { messages, request: "x ".repeat(2_500) };
    const { error, sent } = await turn(s06, [say("A summary."), say("done")], talk);
    assert.deepEqual([error, sent.length], [undefined, 3]);
  });

test("where prompts are cut without a word, s06 compacts in time only if CONTEXT_WINDOW is right", async () => {
  Object.assign(server, { contextLimit: 8_000, quirks: [QUIRKS.cutsPrompts] });
  for (const [lesson, isRight] of [
    [await load(S06, { CONTEXT_WINDOW: "8000" }), true],
    [s06, false],
  ] as const) {
    let reads = 12;
    const play = ({ messages }: { messages: Messages }) => {
      if (/^Summarize/.test(textsOf(messages.at(-1)).at(-1) ?? "")) return say("A summary.");
      return reads-- > 0 ? read : say("done");
    };
    const { error, sent } = await watch(play, () => lesson.runTurn([], "go", optionsFor(lesson)));
    const wasCut = sent.some(
      ({ system, tools, messages }) => JSON.stringify({ system, tools, messages }).length > 24_000,
    );
    assert.deepEqual([error, wasCut], [undefined, !isRight]);
    const { promptTokens = 0 } = server.journal.at(-1) ?? {};
    assert.ok(promptTokens <= 8_000, "the server counts what is left");
  }
});

test("where prompt and reply share the window, s06 asks for less if CONTEXT_WINDOW is right; s01 needs a larger one", async () => {
  Object.assign(server, { contextLimit: 16_000, quirks: [QUIRKS.countsReply] });
  expectRejection(/maximum context length/);
  assert.match(`${(await turn(s01, [say("hi")])).error}`, /maximum context length is 16000 tokens/);
  const lesson = await load(S06, { CONTEXT_WINDOW: "16000" });
  assert.equal((await turn(lesson, [bash("echo hi"), say("It said hi.")])).error, undefined);
});

test("without signatures, cache fields and usage, and with `end_turn` after a call, all goes on", async () => {
  server.quirks = [QUIRKS.bareReplies];
  for (const lesson of [s01, s06]) {
    const { error, messages } = await turn(lesson, [bash("echo hi"), bash("echo there"), say("Done.")]);
    assert.deepEqual([error, resultsIn(messages).map(({ text }) => text)], [undefined, ["hi", "there"]]);
    await goOn(lesson, messages);
  }
});
