/** Timelines of real and made-up sessions: their sizes, compactions, diagnosis and charts. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import type { Messages } from "../../agents/s06_context_compact.ts";
import { capture, folder, server, user } from "../../tests/harness.ts";
import { isSummaryCall, rehearse } from "../rehearsal/model.ts";
import { groupBy, sum } from "../trace/numbers.ts";
import { sumOf } from "../trace/prices.ts";
import { readTimeline } from "../trace/read-timeline.ts";
import { blocksAt, type Compaction, fatesOf, type Timeline } from "../trace/timeline.ts";
import { type ChartOptions, drawChart, drawFigure, MARGIN } from "./context-chart.ts";
import { diagnose } from "./diagnosis.ts";
import { WORDS } from "./languages.ts";
import { lostIn } from "./lost.ts";
import { sentencesOf } from "./sentences.ts";

const toJsonLines = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

/** Lines of s06. */
const ownLines = (...messages: object[]) => messages.map((message) => ({ message, state: {} }));

/** Counts what became of the blocks before a compaction. */
function countFates(timeline: Timeline, compaction?: Compaction): Record<string, number> {
  const fates = compaction ? [...fatesOf(timeline, compaction).values()] : [];
  return Object.fromEntries([...groupBy(fates, (fate) => fate)].map(([fate, all]) => [fate, all.length]));
}

// --- Claude Code -----------------------------------------------------------------------------------------------------

let lines = 0;
let last: string | null = null;
/** Adds a line to the session, `minute` minutes after midnight. */
function claudeLine(minute: number, message: object, more: object = {}): object {
  const uuid = `line-${lines++}`;
  const type = "usage" in message ? "assistant" : "user";
  const timestamp = new Date(60_000 * minute).toISOString();
  const made = { type, uuid, parentUuid: last, timestamp, isSidechain: false, message, ...more };
  last = uuid;
  return made;
}
const userLine = (minute: number, content: unknown, more = {}) => claudeLine(minute, { role: "user", content }, more);
const resultLine = (minute: number, result: string, content: string) =>
  userLine(minute, [{ type: "tool_result", tool_use_id: result, content }]);
function reply(minute: number, id: string, [read, written, input, output]: number[], ...content: object[]): object {
  const cached = { cache_read_input_tokens: read, cache_creation_input_tokens: written };
  const usage = { ...cached, input_tokens: input, output_tokens: output };
  return claudeLine(minute, { role: "assistant", id, model: "claude-opus-5-5", usage, content });
}
const toolUse = (id: string, name: string, input = {}) => ({ type: "tool_use", id, name, input });

function claudeSession(): object[] {
  last = null;
  const before = [
    userLine(0, "Look at the code."),
    reply(1, "m1", [0, 9_000, 3, 8], { type: "text", text: "I look." }),
    reply(1, "m1", [0, 9_000, 3, 50], toolUse("t1", "Read", { file_path: "/app/a.ts" })),
    resultLine(2, "t1", "const a = 1;\n".repeat(1_000)),
    reply(2, "m2", [9_000, 4_000, 1, 60], toolUse("t2", "Bash", { command: "npm test" })),
    resultLine(3, "t2", "ok\n".repeat(100)),
  ];
  const aside = { ...userLine(3, "A subagent's."), isSidechain: true };
  const after = [
    reply(12, "m3", [0, 13_200, 1, 20], { type: "text", text: "Seen." }),
    { type: "system", subtype: "compact_boundary", uuid: "b", parentUuid: null, logicalParentUuid: last },
    userLine(13, "This session is continued.", { parentUuid: "b", isCompactSummary: true }),
    userLine(13, "And now?"),
    reply(13, "m4", [8_000, 700, 1, 20], { type: "text", text: "Done." }),
  ];
  Object.assign(after[1] ?? {}, { compactMetadata: { trigger: "manual", preTokens: 13_300 } });
  return [...before, aside, ...after];
}

test("a prompt has the size that the API counted, and what the file lacks is a part of its own", () => {
  const { modelCalls, series, isCounted, format } = readTimeline(toJsonLines(...claudeSession()));
  const sizes = modelCalls.map(({ tokens }) => tokens);
  assert.deepEqual([format, isCounted, sizes], ["Claude Code", true, [9_003, 13_001, 13_201, 8_701]]);
  for (const { tokens, sizes: parts } of modelCalls) assert.ok(Math.abs(sum(parts) - tokens) < 1, `${parts} ${tokens}`);
  const [first, second, , compacted] = modelCalls;
  assert.ok((first?.unexplained ?? 0) > 8_900, `${first?.unexplained}`);
  const read = second?.sizes[series.indexOf("result:Read")] ?? 0;
  assert.ok(read > 3_500 && read < 4_000, `${read}`);
  const summary = compacted?.sizes[series.indexOf("summary")] ?? 0;
  assert.ok(summary < 30, `${summary} tokens for 26 characters`);
});

test("a cache miss has a reason: a pause, a compaction, another model or something the file does not say", () => {
  const more = [
    ...[userLine(20, "More."), reply(20, "m5", [0, 8_800, 1, 1], { type: "text", text: "More." })],
    ...[userLine(21, "Other."), { ...reply(21, "m6", [0, 8_900, 1, 1], { type: "text", text: "Other." }) }],
    ...[userLine(22, "Again."), reply(22, "m7", [8_900, 100, 1, 1], { type: "text", text: "Read." })],
  ];
  Object.assign((more[3] as { message: object }).message, { model: "claude-sonnet-5-5" });
  Object.assign((more[5] as { message: object }).message, { model: "claude-sonnet-5-5" });
  const cut = claudeSession().map((each) => structuredClone(each)) as { message?: { id?: string; usage?: object } }[];
  Object.assign(cut.at(-1)?.message?.usage ?? {}, { cache_read_input_tokens: 0, cache_creation_input_tokens: 8_700 });
  const timeline = readTimeline(toJsonLines(...cut, ...more));
  const why = timeline.modelCalls.map(({ missed }) => missed?.why);
  assert.deepEqual(why, [undefined, undefined, "changed", "compaction", "pause", "model", undefined]);
  const { missed, ...modelCall } = timeline.modelCalls[4] ?? assert.fail();
  assert.match(
    missed ? WORDS.en.missed(missed, modelCall) : "",
    /7 min had passed .* lives 5 min\. Only 0 of 8,801 tokens/,
  );
});

test("a compaction in Claude Code leaves only its summary; the lines of subagents are skipped and counted", () => {
  const timeline = readTimeline(toJsonLines(...claudeSession()));
  const [compaction] = timeline.compactions;
  assert.deepEqual([compaction?.modelCall, compaction?.trigger], [3, "manual"]);
  assert.deepEqual(countFates(timeline, compaction), { summarized: 7 });
  const sides = [compaction?.before, compaction?.after].flatMap((side) => [side?.tokens, side?.by]);
  assert.deepEqual(sides, [13_300, "file", 8_701, "next"]);
  const after = compaction ? blocksAt(timeline, compaction.after).map(({ kind }) => kind) : [];
  assert.deepEqual(after, ["summary", "request"]); // as the next prompt has them
  assert.ok(timeline.skipped.some(({ reason, count }) => reason === "line of a subagent" && count === 1));
});

test("messages that Claude Code preserves in a compaction are kept, and results it cleared before stay on disk", () => {
  last = null;
  const microcompactMetadata = { compactedToolIds: ["t1"] };
  const before = [
    userLine(0, "Look."),
    reply(1, "m1", [0, 9_000, 3, 8], toolUse("t1", "Read", { file_path: "/a.ts" })),
    resultLine(2, "t1", "const a = 1;\n".repeat(100)),
    { type: "system", subtype: "microcompact_boundary", microcompactMetadata },
    userLine(3, "Keep this."),
  ];
  const compactMetadata = { trigger: "auto", preservedMessages: { uuids: [last] } };
  const after = [
    reply(3, "m2", [0, 8_600, 1, 20], { type: "text", text: "Kept." }),
    { type: "system", subtype: "compact_boundary", uuid: "b", logicalParentUuid: last, compactMetadata },
    userLine(4, "This session is continued.", { parentUuid: "b", isCompactSummary: true }),
    reply(4, "m3", [0, 8_500, 1, 20], { type: "text", text: "Done." }),
  ];
  const timeline = readTimeline(toJsonLines(...before, ...after));
  const [cleared, summarized] = timeline.compactions;
  assert.deepEqual(countFates(timeline, cleared), { kept: 2, disk: 1 });
  assert.deepEqual(countFates(timeline, summarized), { summarized: 3, disk: 1, kept: 1 });
  const left = summarized ? blocksAt(timeline, summarized.after).map(({ kind, label }) => `${kind} ${label}`) : [];
  assert.deepEqual(left, ["summary This session is continued.", "request Keep this."]);
});

/** A session whose file starts with a compaction. The messages before it are in another file. */
function openedByCompaction(): object[] {
  last = null;
  const compactMetadata = { trigger: "auto", preTokens: 998_659, postTokens: 18_101 };
  return [
    { type: "system", subtype: "compact_boundary", uuid: "b", logicalParentUuid: "gone", compactMetadata },
    userLine(0, "This session is continued. ".repeat(800), { parentUuid: "b", isCompactSummary: true }),
    reply(1, "m1", [38_000, 31_000, 2, 50], { type: "text", text: "On it." }),
  ];
}

test("a compaction at the start of a file has the size that the file gives, and then that of the next prompt", () => {
  const [compaction, ...none] = readTimeline(toJsonLines(...openedByCompaction())).compactions;
  const { modelCall, before, after } = compaction ?? assert.fail();
  assert.deepEqual([modelCall, before.tokens, after.tokens, none], [0, 998_659, 69_002, []]);
  assert.deepEqual([before.unexplained, before.by, after.by], [998_659, "file", "next"]);
});

test("only what the user wrote is a request, not what a client or another agent adds in the user's name", () => {
  last = null;
  const yes = (id: string) => reply(1, id, [0, 9_000, 3, 8], { type: "text", text: "Yes." });
  const timeline = readTimeline(
    toJsonLines(
      ...[userLine(0, '<teammate-message teammate_id="lead">\nYou fix the tests.\n</teammate-message>'), yes("m1")],
      ...[userLine(2, "<task-notification>\n<status>done</status>\n</task-notification>"), yes("m2")],
      ...[userLine(3, "<system-reminder>\nA task ended.\n</system-reminder>\n\nWhat now?"), yes("m3")],
    ),
  );
  const labels = timeline.requests.map(({ block }) => timeline.blocks[block]?.label);
  assert.deepEqual(labels, ["What now?"]);
  assert.deepEqual(
    [timeline.blocks[0]?.kind, timeline.blocks[0]?.label],
    ["client", "teammate-message: You fix the tests."],
  );
});

test("lost files are listed once and first, without routes, addresses and status codes", () => {
  last = null;
  const text =
    "In src/app.ts:12 the route /api/users/list answers 404 on port 8443, see https://example.com/docs/a.html and /work/src/app.ts.";
  const timeline = readTimeline(
    toJsonLines(
      ...[userLine(0, text), reply(1, "m1", [0, 9_000, 3, 8], { type: "text", text: "Yes." })],
      userLine(2, "This session is continued.", { isCompactSummary: true }),
      reply(3, "m2", [0, 9_000, 3, 8], { type: "text", text: "On." }),
    ),
  );
  const lost = lostIn(timeline, timeline.compactions[0] ?? assert.fail()).map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(lost, ["paths /work/src/app.ts", "values 8443"]);
});

// --- the diagnosis ---------------------------------------------------------------------------------------------------

test("the diagnosis adds up what the calls cost and what the cache misses cost", () => {
  const timeline = readTimeline(toJsonLines(...claudeSession()));
  const { dollars = 0, sent, missed, most, calls } = diagnose(timeline);
  assert.deepEqual([calls, sent], [4, 9_003 + 13_001 + 13_201 + 8_701]);
  // claude-opus-5-5: $4 and $20 a million; writing takes 1.25 of that, reading 0.05
  const million = 4 * (8 + 1.25 * (9_000 + 4_000 + 13_200 + 700) + 0.05 * (9_000 + 8_000)) + 20 * (50 + 60 + 20 + 20);
  assert.ok(Math.abs(dollars - (million - 2 * 4) / 1e6) < 1e-9, `${dollars} ${million / 1e6}`);
  assert.deepEqual([missed.tokens, missed.causes.length, most], [13_001, 1, 2]);
  const [cause] = missed.causes;
  assert.deepEqual([cause?.why, cause?.count, cause?.at], ["changed", 1, 2]);
  assert.ok(Math.abs((missed.dollars ?? 0) - (4 * 1.25 * 13_001) / 1e6) < 1e-5, `${missed.dollars}`);
});

test("the diagnosis names what fills the largest prompt, and the file whose repeated reads took the most", () => {
  last = null;
  const files = [9_000, 2_000, 500, 500, 2_000, 1];
  const paths = ["/big.ts", "/a.ts", "/b.ts", "/b.ts", "/a.ts", "/c.ts"];
  let tokens = 1_000;
  const rounds = files.flatMap((size, i) => {
    const round = [
      reply(1, `m${i}`, [0, tokens, 3, 8], toolUse(`${i}`, "Read", { file_path: paths[i] })),
      resultLine(1, `${i}`, "x".repeat(size)),
    ];
    tokens += Math.round((size + 200) / 4);
    return round;
  });
  const end = reply(2, "m9", [0, tokens, 3, 8], { type: "text", text: "Read." });
  const { top, largest, again } = diagnose(readTimeline(toJsonLines(userLine(0, "Read."), ...rounds, end)));
  const [most, second] = top;
  assert.deepEqual([most?.series, second?.series, largest], ["result:Read", "unexplained", 6]);
  assert.equal(Math.round(10 * (most?.share ?? 0)), 8);
  assert.deepEqual([again?.path, again?.count, again?.at], ["/a.ts", 2, 5]);
});

test("the diagnosis admits unknown prices, counts and summary costs", () => {
  const unknown = diagnose(
    readTimeline(toJsonLines(...ownLines(user("Hello."), { role: "assistant", content: "Yes." }))),
  );
  assert.deepEqual([unknown.calls, unknown.dollars, unknown.isCounted], [1, undefined, false]);
  const [cost, misses] = sentencesOf(unknown, WORDS.en).map(({ sentence }) => sentence.join(""));
  assert.ok(cost?.includes(WORDS.en.diagnosis.unpriced), cost);
  assert.equal(misses, WORDS.en.diagnosis.uncounted);
  const { dollars = 0, sent, summaries } = diagnose(readTimeline(toJsonLines(...openedByCompaction())));
  assert.ok(dollars > 0);
  assert.deepEqual([sent, summaries], [69_002, { count: 1, dollars: undefined }]);
});

// --- s06 -------------------------------------------------------------------------------------------------------------

test("a run of s06 has the prompt sizes that the server counted, and compactions of two layers", async () => {
  process.env.COMPACT_THRESHOLD = "12000";
  const s06 = await import("../../agents/s06_context_compact.ts");
  mkdirSync(join(folder, "library"));
  for (let i = 10; i < 40; i++) {
    const text = `${"Page after page. ".repeat(120)}\nFact: book ${i} is red\n`;
    writeFileSync(join(folder, "library", `book-${i}.txt`), text);
  }
  server.model = rehearse;
  const { signal } = new AbortController();
  const state = s06.newState();
  const options = { system: s06.SYSTEM, tools: s06.TOOLS, approve: async () => {}, signal, state };
  const question =
    "Read every file in the library/ folder one by one and report the fact in each; use the compact tool when half are read.";
  await capture(async () => {
    const messages: Messages = [];
    s06.addMessage(messages, user(question), options);
    await s06.agentLoop(messages, options);
  });
  const timeline = readTimeline(readFileSync(state.file, "utf8"));
  const calls = server.journal.filter(({ request }) => !isSummaryCall(request));
  assert.equal(timeline.modelCalls.length, calls.length);
  for (const [i, { promptTokens }] of calls.entries()) {
    const shown = timeline.modelCalls[i]?.tokens ?? 0;
    assert.equal(shown, promptTokens, `request ${i + 1}`);
  }
  const triggers = timeline.compactions.map(({ trigger }) => trigger);
  assert.ok(triggers.includes("micro") && triggers.includes("tool"), `${triggers}`);
  for (const { triggers: names } of Object.values(WORDS)) for (const trigger of triggers) assert.ok(names[trigger]);
  assert.deepEqual(timeline.capacity, { tokens: 12_000, kind: "threshold" });
  for (const { before, after, modelCall } of timeline.compactions) {
    for (const side of [before, after]) assert.ok(side.unexplained > 100, `${side.unexplained}`);
    const next = timeline.modelCalls[modelCall]?.tokens ?? 0;
    assert.ok(Math.abs(next / after.tokens - 1) < 0.15, `${after.tokens} after, ${next} in the next prompt`);
  }
  const [request, ...none] = timeline.requests;
  assert.deepEqual([timeline.blocks[request?.block ?? -1]?.text, none], [question, []]);
});

/** A transcript in which layer 1 clears a result and layer 2 then writes a summary. */
function ownSession(): string {
  const result = (id: string, content: string) => ({
    role: "user",
    content: [{ type: "tool_result", tool_use_id: id, content }],
  });
  const use = (id: string, path: string) => ({
    role: "assistant",
    content: [{ type: "thinking", thinking: `Read ${path}.`, signature: "s" }, toolUse(id, "read_file", { path })],
  });
  const note = (path: string) => ({ type: "text", text: `Read ${path}.` });
  const said = (id: string, path: string) => ({
    role: "assistant",
    content: [note(path), toolUse(id, "read_file", { path })],
  });
  const asked = user("Read both.");
  const open = [said("t2", "b.ts"), result("t2", "b".repeat(3_000))];
  const micro = [asked, said("t1", "a.ts"), result("t1", "[Previous: used read_file]"), ...open];
  const content = [
    { type: "text", text: "[Conversation compressed. Transcript: t.jsonl]\n\nBoth are read." },
    { type: "text", text: '<file path="b.ts">\nbbb\n</file>' },
  ];
  const usage = { input_tokens: 1_000, output_tokens: 1_000 };
  const common = { time: 1, model: "claude-sonnet-5-5", threshold: 2_500, state: { charsPerToken: 3 } };
  const messageLine = (message: object) => ({ message, ...common });
  const compaction = (trigger: string, before: number, after: number, messages: object[]) => ({
    ...{ type: "compaction", trigger, before, after, messages },
    ...common,
  });
  const reads = [
    use("t1", "a.ts"),
    result("t1", "a".repeat(6_000)),
    use("t2", "b.ts"),
    result("t2", "b".repeat(3_000)),
  ];
  const after = [asked, { role: "user", content }];
  return toJsonLines(
    ...[asked, ...reads].map(messageLine),
    compaction("micro", 4_200, 2_400, micro),
    messageLine({ role: "assistant", content: "Two files." }),
    { ...compaction("auto", 2_600, 1_303, after), state: { charsPerToken: 3, lastCall: 1, usage } },
    messageLine({ role: "assistant", content: "Done." }),
  );
}

test("a transcript shows what layer 1 cleared, what the summary replaced and what that cost", () => {
  const timeline = readTimeline(ownSession());
  const [micro, auto] = timeline.compactions;
  assert.deepEqual([micro?.trigger, micro?.modelCall, auto?.trigger, auto?.modelCall], ["micro", 2, "auto", 3]);
  assert.deepEqual(countFates(timeline, micro), { kept: 4, thought: 2, disk: 1 });
  assert.deepEqual(countFates(timeline, auto), { kept: 1, summarized: 6, disk: 1 });
  const sizes = [micro, auto].flatMap((each) => [each?.before.tokens, each?.after.tokens]);
  assert.deepEqual(sizes, [4_200, 2_400, 2_600, 1_303]);
  const after = auto ? blocksAt(timeline, auto.after).map(({ kind, label }) => `${kind} ${label}`) : [];
  const summary = "summary [Conversation compressed. Transcript: t.jsonl]";
  assert.deepEqual(after, ["request Read both.", summary, "file b.ts"]);
  const cleared = micro && blocksAt(timeline, micro.after).find(({ original }) => original !== undefined);
  assert.equal(timeline.blocks[cleared?.original ?? -1]?.text, "a".repeat(6_000));
  assert.deepEqual(timeline.capacity, { tokens: 2_500, kind: "threshold" });
  const { summaries } = diagnose(timeline);
  assert.deepEqual(summaries, { count: 1, dollars: (2 * 1_000 + 10 * 1_000) / 1e6 }); // claude-sonnet-5-5
});

test("a summary is new even if an earlier one restored the same file", () => {
  const message = (text: string) => [
    { type: "text", text },
    { type: "text", text: '<file path="a.ts">\na\n</file>' },
  ];
  const rewrite = (summary: string, request: object) => ({
    ...{ type: "compaction", trigger: "auto", state: {} },
    messages: [
      request,
      { role: "user", content: message(`[Conversation compressed. Transcript: t.jsonl]\n\n${summary}`) },
    ],
  });
  const [one, two] = [user("One?"), user("Two?")];
  const said = { role: "assistant", content: "Yes." };
  const first = [...ownLines(one, said, two), rewrite("A", two)];
  const timeline = readTimeline(toJsonLines(...first, ...ownLines(said, one), rewrite("B", one), ...ownLines(said)));
  const [, last] = timeline.compactions;
  assert.deepEqual(countFates(timeline, last), { summarized: 4, kept: 1 });
});

test("a cleared result shows its own text even if call ids repeat", () => {
  const round = (content: string) => [
    { role: "assistant", content: [toolUse("call_0", "bash")] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content }] },
  ];
  const messages = [user("Look."), ...round("[Previous: used bash]"), ...round("second")];
  const micro = { type: "compaction", trigger: "micro", messages, state: {} };
  const done = { role: "assistant", content: "Done." };
  const rounds = [...round("first"), ...round("second")];
  const timeline = readTimeline(toJsonLines(...ownLines(user("Look."), ...rounds), micro, ...ownLines(done)));
  const { after } = timeline.compactions[0] ?? assert.fail();
  const texts = blocksAt(timeline, after).map(({ text, original }) => [text, timeline.blocks[original ?? -1]?.text]);
  assert.deepEqual(texts.slice(2).flat(), ["[Previous: used bash]", "first", "", undefined, "second", undefined]);
});

test("a refused request counts as withdrawn", () => {
  const [asked, said] = [
    { role: "user", content: "First." },
    { role: "assistant", content: "One." },
  ];
  const refused = { type: "compaction", trigger: "refused", messages: [asked, said], state: {} };
  const timeline = readTimeline(toJsonLines(...ownLines(asked, said, user("Bad.")), refused, ...ownLines(asked, said)));
  assert.deepEqual(countFates(timeline, timeline.compactions[0]), { kept: 2, withdrawn: 1 });
});

// --- charts ----------------------------------------------------------------------------------------------------------

test("a figure has a title, a legend and the colours of both modes, and no script", () => {
  const { document } = parseHTML("<html></html>");
  const words = WORDS.en;
  const picture = { document, width: 700, words, title: "The demo", description: "It <fills>." };
  const svg = drawFigure(readTimeline(ownSession()), picture);
  const parts = ["<title id=", "It &lt;fills>.", "prefers-color-scheme:dark", ">restored files<", ">threshold 2,500<"];
  for (const part of parts) assert.ok(svg.includes(part), part);
  assert.doesNotMatch(svg, /<script|NaN|undefined|href/);
});

/** Draws a chart and reads its axis and texts back. */
function chartOf(timeline: Timeline, options: Partial<ChartOptions> = {}) {
  const { document } = parseHTML("<html></html>");
  const chart = drawChart(timeline, { document, width: 800, words: WORDS.en, ...options });
  const texts = [...chart.querySelectorAll("text")].map(({ textContent }) => textContent);
  return { top: Math.max(...(chart.scale("y")?.domain ?? [])), texts, chart };
}

test("the axis spans the prompts and a nearby threshold", () => {
  const far = chartOf(readTimeline(toJsonLines(...claudeSession())));
  assert.ok(far.top < 14_000, `${far.top}`);
  const near = chartOf(readTimeline(ownSession()));
  assert.ok(near.top < 4_500 && near.texts.includes("threshold 2,500"), `${near.top} ${near.texts}`);
  const opened = chartOf(readTimeline(toJsonLines(...openedByCompaction())));
  assert.ok(opened.top < 75_000, `the largest prompt has 69,002, not ${opened.top}`);
});

test("the cost axis ends at the most expensive call, even if calls share a column", () => {
  last = null;
  const calls = Array.from({ length: 2_000 }, (_, i) => {
    const isMissed = i === 1_001;
    return reply(i, `m${i}`, isMissed ? [0, 50_000, 3, 10] : [50_000, 10, 3, 10], { type: "text", text: "Yes." });
  });
  const timeline = readTimeline(toJsonLines(userLine(0, "Go on."), ...calls));
  const { top, chart, texts } = chartOf(timeline, { view: "cost" });
  const largest = Math.max(...timeline.modelCalls.map(({ cost }) => sumOf(cost)));
  assert.deepEqual([top, texts.includes("$0.25")], [largest, true]);
  const paths = [...chart.querySelectorAll("path[fill^='var(--cv']")].map((path) => path.getAttribute("d") ?? "");
  assert.match(paths.join(), new RegExp(`,${MARGIN.top}L`), "the expensive call reaches the top");
});

test("signs of a long session do not overlap", () => {
  last = null;
  const calls = Array.from({ length: 3_000 }, (_, i) => [
    userLine(i, `Request ${i}.`),
    reply(i, `m${i}`, i % 2 ? [0, 50_000, 3, 10] : [50_000, 10, 3, 10], { type: "text", text: "Yes." }),
  ]);
  const { chart } = chartOf(readTimeline(toJsonLines(...calls.flat())));
  const titles = [...chart.querySelectorAll("title")].length;
  assert.ok(titles > 30 && titles <= 60, `${titles} of 3,000 requests are marked`);
});
