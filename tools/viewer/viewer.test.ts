/** The context viewer: what it reads from session files, that its sizes are those that were counted, and `npm run view`. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseHTML } from "linkedom";
import type { Messages } from "../../agents/s06_context_compact.ts";
import { capture, folder, server, user } from "../../tests/harness.ts";
import { isSummaryCall, rehearse } from "../rehearsal/model.ts";
import { sumOf } from "../trace/prices.ts";
import { readTimeline } from "../trace/read-timeline.ts";
import { blocksAt, type Compaction, fatesOf, type Timeline } from "../trace/timeline.ts";
import { type ChartOptions, drawChart, drawFigure } from "./context-chart.ts";
import { diagnose } from "./diagnosis.ts";
import { WORDS } from "./languages.ts";
import { lostIn } from "./lost.ts";
import { sentencesOf } from "./sentences.ts";

const path = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const linesOf = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

function open(text: string): Timeline {
  const timeline = readTimeline(text);
  assert.ok(timeline.blocks.length > 0);
  return timeline;
}
/** Lines of s06. */
const own = (...messages: object[]) => messages.map((message) => ({ message, state: {} }));
const openFile = (name: string) => open(readFileSync(path(name), "utf8"));
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

/** How often each fate came upon the blocks before a compaction. */
function countFates(timeline: Timeline, compaction?: Compaction): Record<string, number> {
  const counts: Record<string, number> = {};
  if (!compaction) return counts;
  for (const fate of fatesOf(timeline, compaction).values()) counts[fate] = (counts[fate] ?? 0) + 1;
  return counts;
}

// --- Claude Code -----------------------------------------------------------------------------------------------------

let lines = 0;
let last: string | null = null;
/** A line that follows the one before, `minute` minutes after midnight. */
function line(minute: number, message: object, more: object = {}): object {
  const uuid = `line-${lines++}`;
  const type = "usage" in message ? "assistant" : "user";
  const timestamp = new Date(60_000 * minute).toISOString();
  const made = { type, uuid, parentUuid: last, timestamp, isSidechain: false, message, ...more };
  last = uuid;
  return made;
}
const ask = (minute: number, content: unknown, more = {}) => line(minute, { role: "user", content }, more);
const answer = (minute: number, result: string, content: string) =>
  ask(minute, [{ type: "tool_result", tool_use_id: result, content }]);
function say(minute: number, id: string, [read, written, input, output]: number[], ...content: object[]): object {
  const cached = { cache_read_input_tokens: read, cache_creation_input_tokens: written };
  const usage = { ...cached, input_tokens: input, output_tokens: output };
  return line(minute, { role: "assistant", id, model: "claude-opus-5-5", usage, content });
}
const call = (id: string, name: string, input = {}) => ({ type: "tool_use", id, name, input });

function claudeSession(): object[] {
  last = null;
  const before = [
    ask(0, "Look at the code."),
    say(1, "m1", [0, 9_000, 3, 8], { type: "text", text: "I look." }),
    say(1, "m1", [0, 9_000, 3, 50], call("t1", "Read", { file_path: "/app/a.ts" })),
    answer(2, "t1", "const a = 1;\n".repeat(1_000)),
    say(2, "m2", [9_000, 4_000, 1, 60], call("t2", "Bash", { command: "npm test" })),
    answer(3, "t2", "ok\n".repeat(100)),
  ];
  const aside = { ...ask(3, "A subagent's."), isSidechain: true };
  const after = [
    say(12, "m3", [0, 13_200, 1, 20], { type: "text", text: "Seen." }),
    { type: "system", subtype: "compact_boundary", uuid: "b", parentUuid: null, logicalParentUuid: last },
    ask(13, "This session is continued.", { parentUuid: "b", isCompactSummary: true }),
    ask(13, "And now?"),
    say(13, "m4", [8_000, 700, 1, 20], { type: "text", text: "Done." }),
  ];
  Object.assign(after[1] ?? {}, { compactMetadata: { trigger: "manual", preTokens: 13_300 } });
  return [...before, aside, ...after];
}

test("the size of each request is what the API counted, and its parts add up to it", () => {
  const { moments, isCounted, format } = open(linesOf(...claudeSession()));
  const sizes = moments.map(({ tokens }) => tokens);
  assert.deepEqual([format, isCounted, sizes], ["Claude Code", true, [9_003, 13_001, 13_201, 8_701]]);
  for (const { tokens, sizes: parts } of moments) assert.ok(Math.abs(sum(parts) - tokens) < 1, `${parts} ${tokens}`);
});

test("what the blocks do not explain is shown as not in the file; results are named by tool", () => {
  const { moments, series } = open(linesOf(...claudeSession()));
  const [first, second] = moments;
  assert.ok((first?.unexplained ?? 0) > 8_900, `${first?.unexplained}`);
  const read = second?.sizes[series.indexOf("result:Read")] ?? 0;
  assert.ok(read > 3_500 && read < 4_000, `${read}`);
});

test("a reply of several lines is one request, with its last count; a long pause leaves the cache cold", () => {
  const timeline = open(linesOf(...claudeSession()));
  const [first, second] = timeline.moments;
  assert.deepEqual(first?.usage, { input: 3, read: 0, written: 9_000, output: 50, isHour: false, isFinal: false });
  const kinds = second ? blocksAt(timeline, second).map(({ kind, label }) => `${kind} ${label}`) : [];
  const expected = ["request Look at the code.", "reply I look.", "call Read /app/a.ts", "result Read /app/a.ts"];
  assert.deepEqual(kinds, expected);
});

test("why the prompt cache was missed: a pause, a compaction, another model, or what the file does not say", () => {
  const more = [
    ...[ask(20, "More."), say(20, "m5", [0, 8_800, 1, 1], { type: "text", text: "More." })],
    ...[ask(21, "Other."), { ...say(21, "m6", [0, 8_900, 1, 1], { type: "text", text: "Other." }) }],
    ...[ask(22, "Again."), say(22, "m7", [8_900, 100, 1, 1], { type: "text", text: "Read." })],
  ];
  Object.assign((more[3] as { message: object }).message, { model: "claude-sonnet-5-5" });
  Object.assign((more[5] as { message: object }).message, { model: "claude-sonnet-5-5" });
  const cut = claudeSession().map((each) => structuredClone(each)) as { message?: { id?: string; usage?: object } }[];
  Object.assign(cut.at(-1)?.message?.usage ?? {}, { cache_read_input_tokens: 0, cache_creation_input_tokens: 8_700 });
  const timeline = open(linesOf(...cut, ...more));
  const why = timeline.moments.map(({ missed }) => missed?.why);
  assert.deepEqual(why, [undefined, undefined, "changed", "compaction", "pause", "model", undefined]);
  const { missed, ...moment } = timeline.moments[4] ?? assert.fail();
  assert.match(
    missed ? WORDS.en.missed(missed, moment) : "",
    /7 min had passed .* lives 5 min\. Only 0 of 8,801 tokens/,
  );
});

test("a compaction of Claude Code takes all but its summary; a subagent's lines are left out and counted", () => {
  const timeline = open(linesOf(...claudeSession()));
  const [compaction] = timeline.compactions;
  assert.deepEqual([compaction?.moment, compaction?.trigger], [3, "manual"]);
  assert.deepEqual(countFates(timeline, compaction), { summarized: 7 });
  const sides = [compaction?.before, compaction?.after].map((side) => [side?.tokens, side?.by]);
  assert.deepEqual(sides, [
    [13_300, "file"],
    [8_701, "next"],
  ]);
  const after = compaction ? blocksAt(timeline, compaction.after).map(({ kind }) => kind) : [];
  assert.deepEqual(after, ["summary", "request"]); // as the next prompt has them
  assert.ok(timeline.skipped.some(({ reason, count }) => reason === "line of a subagent" && count === 1));
});

test("messages that a compaction of Claude Code preserves are kept; results that it cleared before are on disk", () => {
  last = null;
  const micro = {
    type: "system",
    subtype: "microcompact_boundary",
    microcompactMetadata: { compactedToolIds: ["t1"] },
  };
  const before = [
    ask(0, "Look."),
    say(1, "m1", [0, 9_000, 3, 8], call("t1", "Read", { file_path: "/a.ts" })),
    answer(2, "t1", "const a = 1;\n".repeat(100)),
    micro,
    ask(3, "Keep this."),
  ];
  const compactMetadata = { trigger: "auto", preservedMessages: { uuids: [last] } };
  const after = [
    say(3, "m2", [0, 8_600, 1, 20], { type: "text", text: "Kept." }),
    { type: "system", subtype: "compact_boundary", uuid: "b", logicalParentUuid: last, compactMetadata },
    ask(4, "This session is continued.", { parentUuid: "b", isCompactSummary: true }),
    say(4, "m3", [0, 8_500, 1, 20], { type: "text", text: "Done." }),
  ];
  const timeline = open(linesOf(...before, ...after));
  const [cleared, summarized] = timeline.compactions;
  assert.deepEqual(countFates(timeline, cleared), { kept: 2, disk: 1 });
  assert.deepEqual(countFates(timeline, summarized), { summarized: 3, disk: 1, kept: 1 });
  const left = summarized ? blocksAt(timeline, summarized.after).map(({ kind, label }) => `${kind} ${label}`) : [];
  assert.deepEqual(left, ["summary This session is continued.", "request Keep this."]);
});

/** A session that opens with a compaction: what was before it, and what it kept, is in another file. */
function openedByCompaction(): object[] {
  last = null;
  const compactMetadata = { trigger: "auto", preTokens: 998_659, postTokens: 18_101 };
  return [
    {
      type: "system",
      subtype: "compact_boundary",
      uuid: "b",
      parentUuid: null,
      logicalParentUuid: "gone",
      compactMetadata,
    },
    ask(0, "This session is continued. ".repeat(800), { parentUuid: "b", isCompactSummary: true }),
    say(1, "m1", [38_000, 31_000, 2, 50], { type: "text", text: "On it." }),
  ];
}

test("a compaction that a file opens with is shown, with the sizes that the file says", () => {
  const [compaction, ...none] = open(linesOf(...openedByCompaction())).compactions;
  const { moment, before, after } = compaction ?? assert.fail();
  assert.deepEqual([moment, before.tokens, after.tokens, none], [0, 998_659, 18_101, []]);
  assert.deepEqual([before.unexplained, before.by, after.by], [998_659, "file", "file"]);
});

test("after a compaction, what the file does not explain is not charged to the summary", () => {
  const session = claudeSession();
  const timeline = open(linesOf(...session));
  const at = timeline.moments[3] ?? assert.fail();
  const summary = at.sizes[timeline.series.indexOf("summary")] ?? 0;
  assert.ok(summary < 30, `${summary} tokens for 26 characters`);
  assert.ok(at.unexplained > 8_600, `${at.unexplained}`);
});

test("no more tokens are missed than the prompt has, as the file counts them", () => {
  const [, , , afterCompaction] = open(
    linesOf(...claudeSession().with(-1, say(13, "m4", [2_000, 6_700, 1, 20]))),
  ).moments;
  assert.deepEqual(afterCompaction?.missed, { why: "compaction", tokens: 6_701 }); // of 8,701
});

test("what a client or another agent writes in the user's name is no request; what a user says beside it is", () => {
  last = null;
  const reply = (id: string) => say(1, id, [0, 9_000, 3, 8], { type: "text", text: "Yes." });
  const timeline = open(
    linesOf(
      ...[ask(0, '<teammate-message teammate_id="lead">\nYou fix the tests.\n</teammate-message>'), reply("m1")],
      ...[ask(2, "<task-notification>\n<status>done</status>\n</task-notification>"), reply("m2")],
      ...[ask(3, "<system-reminder>\nA task ended.\n</system-reminder>\n\nWhat now?"), reply("m3")],
    ),
  );
  const labels = timeline.requests.map(({ block }) => timeline.blocks[block]?.label);
  assert.deepEqual(labels, ["What now?"]);
  assert.deepEqual(
    [timeline.blocks[0]?.kind, timeline.blocks[0]?.label],
    ["client", "teammate-message: You fix the tests."],
  );
});

test("lost paths are of files, not routes or addresses; a status code is no lost value", () => {
  last = null;
  const text =
    "In src/app.ts:12 the route /api/users/list answers 404, see https://example.com/docs/a.html; the port is 8443.";
  const timeline = open(
    linesOf(
      ...[ask(0, text), say(1, "m1", [0, 9_000, 3, 8], { type: "text", text: "Yes." })],
      ask(2, "This session is continued.", { isCompactSummary: true }),
      say(3, "m2", [0, 9_000, 3, 8], { type: "text", text: "On." }),
    ),
  );
  const lost = lostIn(timeline, timeline.compactions[0] ?? assert.fail()).map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(lost, ["paths src/app.ts:12", "values 8443"]);
});

// --- the diagnosis ---------------------------------------------------------------------------------------------------

test("the diagnosis adds up: what all calls cost, and what of that the tokens took that the cache did not have", () => {
  const timeline = open(linesOf(...claudeSession()));
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

test("the diagnosis names the kind that fills the largest prompt, and the file whose second reading took most", () => {
  last = null;
  const files = [9_000, 2_000, 500, 500, 2_000, 1];
  const paths = ["/big.ts", "/a.ts", "/b.ts", "/b.ts", "/a.ts", "/c.ts"];
  let tokens = 1_000;
  const rounds = files.flatMap((size, i) => {
    const round = [
      say(1, `m${i}`, [0, tokens, 3, 8], call(`${i}`, "Read", { file_path: paths[i] })),
      answer(1, `${i}`, "x".repeat(size)),
    ];
    tokens += Math.round((size + 200) / 4);
    return round;
  });
  const end = say(2, "m9", [0, tokens, 3, 8], { type: "text", text: "Read." });
  const { top, largest, again } = diagnose(open(linesOf(ask(0, "Read."), ...rounds, end)));
  const [most, second] = top;
  assert.deepEqual([most?.series, second?.series, largest], ["result:Read", "unexplained", 6]);
  assert.equal(Math.round(10 * (most?.share ?? 0)), 8);
  assert.deepEqual([again?.path, again?.count, again?.at], ["/a.ts", 2, 5]);
});

test("the diagnosis says what it cannot know: prices, counts, what summaries cost", () => {
  const textsOf = (text: string) =>
    sentencesOf(diagnose(open(text)), WORDS.en).map((parts) =>
      parts.map((part) => (typeof part === "string" ? part : part.text)).join(""),
    );
  const [uncounted = "", unread = ""] = textsOf(
    linesOf(...own(user("Hello."), { role: "assistant", content: "Yes." })),
  );
  assert.match(
    uncounted,
    /^What the session cost is not known, as .* no model with a known price: 1 model call sent about \d+ tokens\./,
  );
  assert.equal(unread, "The file does not say what was read from the prompt cache.");
  const [without = ""] = textsOf(linesOf(...openedByCompaction()));
  assert.match(without, /^The session cost \$0\.\d+, without 1 summary of unknown cost: 1 model call sent 69,002/);
});

// --- s06 -------------------------------------------------------------------------------------------------------------

test("the sizes of a run of s06 are those that the server counted, and layer 1 is among its compactions", async () => {
  process.env.COMPACT_THRESHOLD = "12000";
  const s06 = await import("../../agents/s06_context_compact.ts");
  mkdirSync(join(folder, "library"));
  for (let i = 10; i < 40; i++) {
    writeFileSync(
      join(folder, "library", `book-${i}.txt`),
      `${"Page after page. ".repeat(120)}\nFact: book ${i} is red\n`,
    );
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
  const timeline = open(readFileSync(state.file, "utf8"));
  const calls = server.journal.filter(({ request }) => !isSummaryCall(request));
  assert.equal(timeline.moments.length, calls.length);
  for (const [i, { promptTokens }] of calls.entries()) {
    const shown = timeline.moments[i]?.tokens ?? 0;
    assert.equal(shown, promptTokens, `request ${i + 1}`);
  }
  const triggers = timeline.compactions.map(({ trigger }) => trigger);
  assert.ok(triggers.includes("micro") && triggers.includes("tool"), `${triggers}`);
  assert.deepEqual(timeline.capacity, { tokens: 12_000, kind: "threshold" });
  for (const { before, after, moment } of timeline.compactions) {
    for (const side of [before, after]) assert.ok(side.unexplained > 100, `${side.unexplained}`);
    const next = timeline.moments[moment]?.tokens ?? 0;
    assert.ok(Math.abs(next / after.tokens - 1) < 0.15, `${after.tokens} after, ${next} in the next prompt`);
  }
  const [request, ...none] = timeline.requests;
  assert.deepEqual([timeline.blocks[request?.block ?? -1]?.text, none], [question, []]);
});

/** A transcript in which layer 1 clears a result, and then layer 2 sums up. */
function ownSession(): string {
  const result = (id: string, content: string) => ({
    role: "user",
    content: [{ type: "tool_result", tool_use_id: id, content }],
  });
  const use = (id: string, path: string) => ({
    role: "assistant",
    content: [{ type: "thinking", thinking: `Read ${path}.`, signature: "s" }, call(id, "read_file", { path })],
  });
  const note = (path: string) => ({ type: "text", text: `Read ${path}.` });
  const said = (id: string, path: string) => ({
    role: "assistant",
    content: [note(path), call(id, "read_file", { path })],
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
  const line = (message: object) => ({ message, ...common });
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
  return linesOf(
    ...[asked, ...reads].map(line),
    compaction("micro", 4_200, 2_400, micro),
    line({ role: "assistant", content: "Two files." }),
    { ...compaction("auto", 2_600, 1_303, after), state: { charsPerToken: 3, lastCall: 1, usage } },
    line({ role: "assistant", content: "Done." }),
  );
}

test("a transcript shows what layer 1 cleared, what the summary took, and the threshold, all as it has them", () => {
  const timeline = open(ownSession());
  const [micro, auto] = timeline.compactions;
  assert.deepEqual([micro?.trigger, micro?.moment, auto?.trigger, auto?.moment], ["micro", 2, "auto", 3]);
  assert.deepEqual(countFates(timeline, micro), { kept: 4, thought: 2, disk: 1 });
  assert.deepEqual(countFates(timeline, auto), { kept: 1, summarized: 6, disk: 1 });
  const sizes = [micro, auto].map((each) => [each?.before.tokens, each?.after.tokens]);
  assert.deepEqual(sizes, [
    [4_200, 2_400],
    [2_600, 1_303],
  ]);
  const after = auto ? blocksAt(timeline, auto.after).map(({ kind, label }) => `${kind} ${label}`) : [];
  const summary = "summary [Conversation compressed. Transcript: t.jsonl]";
  assert.deepEqual(after, ["request Read both.", summary, "file b.ts"]);
  const cleared = micro && blocksAt(timeline, micro.after).find(({ original }) => original !== undefined);
  assert.equal(timeline.blocks[cleared?.original ?? -1]?.text, "a".repeat(6_000));
  assert.deepEqual(timeline.capacity, { tokens: 2_500, kind: "threshold" });
});

test("the demo cost what its usage says: the calls, and the summaries, at the prices of the model", () => {
  type Line = { type?: string; state: { lastCall: number; usage?: Record<string, number> } };
  const lines = readFileSync(path("tools/docs/runs/demo.jsonl"), "utf8").trim().split("\n");
  const parsed = lines.map((line): Line => JSON.parse(line));
  const paid = parsed.filter(({ state }, i) => state.lastCall !== (parsed[i - 1]?.state.lastCall ?? 0));
  const costOf = ({ state: { usage: u = {} } }: Line) => {
    const [input = 0, read = 0] = [u.input_tokens, u.cache_read_input_tokens];
    const [written = 0, output = 0] = [u.cache_creation_input_tokens, u.output_tokens];
    return (2 * (input + 0.05 * read + 1.25 * written) + 10 * output) / 1e6; // claude-sonnet-5-5
  };
  const summaries = paid.filter(({ type }) => type === "compaction").map(costOf);
  const found = diagnose(openFile("tools/docs/runs/demo.jsonl"));
  assert.equal(found.dollars?.toFixed(9), sum(paid.map(costOf)).toFixed(9));
  assert.deepEqual([found.summaries.count, found.summaries.dollars?.toFixed(9)], [3, sum(summaries).toFixed(9)]);
});

test("what a summary begins with is new, though an earlier summary had put the same file back", () => {
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
  const first = [...own(one, said, two), rewrite("A", two)];
  const timeline = open(linesOf(...first, ...own(said, one), rewrite("B", one), ...own(said)));
  const [, last] = timeline.compactions;
  assert.deepEqual(countFates(timeline, last), { summarized: 4, kept: 1 });
});

test("where ids repeat from reply to reply, a cleared result is shown with its own text", () => {
  const round = (content: string) => [
    { role: "assistant", content: [call("call_0", "bash")] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content }] },
  ];
  const messages = [user("Look."), ...round("[Previous: used bash]"), ...round("second")];
  const micro = { type: "compaction", trigger: "micro", messages, state: {} };
  const done = { role: "assistant", content: "Done." };
  const rounds = [...round("first"), ...round("second")];
  const timeline = open(linesOf(...own(user("Look."), ...rounds), micro, ...own(done)));
  const texts = blocksAt(timeline, timeline.compactions[0]?.after ?? { epoch: 0, length: 0 }).map(
    ({ text, original }) => [text, timeline.blocks[original ?? -1]?.text],
  );
  assert.deepEqual(texts.slice(2), [
    ["[Previous: used bash]", "first"],
    ["", undefined],
    ["second", undefined],
  ]);
});

test("the recorded demo: each of its compactions is shown, with what it keeps, sums up and restores", () => {
  const recorded = readFileSync(path("tools/docs/runs/demo.jsonl"), "utf8").match(/^\{"type":"compaction"/gm) ?? [];
  const timeline = openFile("tools/docs/runs/demo.jsonl");
  assert.equal(timeline.compactions.length, recorded.length);
  for (const compaction of timeline.compactions.filter(({ trigger }) => trigger !== "micro")) {
    const { kept = 0, summarized = 0 } = countFates(timeline, compaction);
    assert.ok(kept > 0 && summarized > 0, `${kept} ${summarized}`);
    const [request, summary, file] = blocksAt(timeline, compaction.after);
    assert.deepEqual([request?.kind, summary?.kind, file?.kind], ["request", "summary", "file"]);
    assert.match(file?.label ?? "", /^library\/book-\d+\.txt$/);
  }
});

test("the viewer has words for each trigger of s06", () => {
  const s06 = readFileSync(path("agents/s06_context_compact.ts"), "utf8");
  const [, names = ""] = /^type Trigger = (.*);$/m.exec(s06) ?? [];
  for (const [, name = ""] of names.matchAll(/"(\w+)"/g))
    for (const { triggers } of Object.values(WORDS)) assert.ok(triggers[name], name);
  assert.match(names, /recovery/);
});

test("a refused request is taken out, and says so", () => {
  const [asked, said] = [
    { role: "user", content: "First." },
    { role: "assistant", content: "One." },
  ];
  const refused = { type: "compaction", trigger: "refused", messages: [asked, said], state: {} };
  const timeline = open(linesOf(...own(asked, said, user("Bad.")), refused, ...own(asked, said)));
  assert.deepEqual(countFates(timeline, timeline.compactions[0]), { kept: 2, withdrawn: 1 });
});

// --- files that are none ---------------------------------------------------------------------------------------------

test("broken lines are counted and named; the rest of the file is shown", () => {
  const text = linesOf(...claudeSession()).split("\n");
  text[2] = "{torn";
  text.push(`{"type":"assistant","mess`);
  const { moments, skipped } = open(text.join("\n"));
  const broken = skipped.find(({ reason }) => reason === "broken line");
  assert.deepEqual([moments.length, broken], [4, { reason: "broken line", count: 2, lines: [3, 14] }]);
});

test("a file that is no session has no model call", () => {
  const png = Buffer.from("89504e470d0a1a0a0000000d49484452000000ff", "hex").toString("utf8");
  const files = { empty: " \n", binary: png, text: "Dear diary,\nnothing.\n", json: '{"name":"viewer"}\n' };
  for (const text of Object.values(files)) assert.deepEqual(readTimeline(text).moments, []);
});

// --- pictures and the command ----------------------------------------------------------------------------------------

test("the chart is a picture of its own: colours of both grounds, a legend, a title, no script", () => {
  const { document } = parseHTML("<html></html>");
  const words = WORDS.en;
  const picture = { document, width: 700, words, title: "The demo", description: "It <fills>." };
  const svg = drawFigure(open(ownSession()), picture);
  for (const part of [
    "<title id=",
    "It &lt;fills>.",
    "prefers-color-scheme:dark",
    ">restored files<",
    ">threshold 2,500<",
  ]) {
    assert.ok(svg.includes(part), part);
  }
  assert.doesNotMatch(svg, /<script|NaN|undefined|href/);
});

/** The largest value of an axis, and the texts of a chart. */
function chartOf(timeline: Timeline, options: Partial<ChartOptions> = {}) {
  const { document } = parseHTML("<html></html>");
  const chart = drawChart(timeline, { document, width: 800, words: WORDS.en, ...options });
  const texts = [...chart.querySelectorAll("text")].map(({ textContent }) => textContent);
  const marks = chart.querySelectorAll("path[fill]").length;
  return { top: Math.max(...(chart.scale("y")?.domain ?? [])), texts, chart, marks };
}

test("the axis spans the data, and a threshold that is near", () => {
  const far = chartOf(open(linesOf(...claudeSession())));
  assert.ok(far.top < 14_000, `${far.top}`);
  const near = chartOf(open(ownSession()));
  assert.ok(near.top < 4_500 && near.texts.includes("threshold 2,500"), `${near.top} ${near.texts}`);
});

test("the axis of the cost ends with its largest bar, also where calls share a column", () => {
  last = null;
  const calls = Array.from({ length: 2_000 }, (_, i) => {
    const isMissed = i === 1_001;
    return say(i, `m${i}`, isMissed ? [0, 50_000, 3, 10] : [50_000, 10, 3, 10], { type: "text", text: "Yes." });
  });
  const timeline = open(linesOf(ask(0, "Go on."), ...calls));
  const { top, chart, texts } = chartOf(timeline, { view: "cost" });
  const largest = Math.max(...timeline.moments.map(({ cost }) => sumOf(cost)));
  assert.deepEqual([top, texts.includes("$0.25")], [largest, true]);
  const highest = Number(chart.scale("y")?.apply(largest));
  const drawn = [...chart.querySelectorAll("path[fill^='var(--cv']")].flatMap((path) =>
    (path.getAttribute("d") ?? "").split(/[A-Z]/).map((point) => Number(point.split(",")[1] ?? 1e9)),
  );
  assert.ok(Math.abs(Math.min(...drawn) - highest) < 1, `${Math.min(...drawn)} ${highest}`); // the bar is drawn
});

test("marks of a long session stay apart, so that the chart is not buried", () => {
  last = null;
  const calls = Array.from({ length: 3_000 }, (_, i) => [
    ask(i, `Request ${i}.`),
    say(i, `m${i}`, i % 2 ? [0, 50_000, 3, 10] : [50_000, 10, 3, 10], { type: "text", text: "Yes." }),
  ]);
  const { chart } = chartOf(open(linesOf(...calls.flat())));
  const titles = [...chart.querySelectorAll("title")].length;
  assert.ok(titles > 30 && titles <= 60, `${titles} of 3,000 requests are marked`);
});

const view = (...args: string[]) => ["--import", import.meta.resolve("tsx"), path("tools/viewer/view.ts"), ...args];
const env = { ...process.env, BROWSER: "none" };

test("npm run view serves the newest session of a folder, to this machine only", async () => {
  const sessions = join(folder, "projects", "deep");
  mkdirSync(sessions, { recursive: true });
  writeFileSync(join(sessions, "new.jsonl"), linesOf(...claudeSession()));
  writeFileSync(join(folder, "projects", "old.jsonl"), "{}\n");
  utimesSync(join(folder, "projects", "old.jsonl"), 1, 1);
  const child = spawn(process.execPath, view(join(folder, "projects")), { env });
  try {
    const [, url = ""] = await new Promise<string[]>((resolve) => {
      child.stdout
        .setEncoding("utf8")
        .on("data", (text: string) => resolve(/^(\S+) shows .*new\.jsonl;/.exec(text) ?? []));
    });
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
    const get = async (file: string) => (await fetch(url + file)).text();
    assert.equal(await get("session"), readFileSync(join(sessions, "new.jsonl"), "utf8"));
    assert.match(await get(""), /<title>new\.jsonl<\/title>/);
    for (const file of ["page.js", "worker.ts", "style.css"]) assert.ok((await get(file)).length > 1_000, file);
  } finally {
    child.kill();
  }
});

test("npm run view names what it cannot open", () => {
  mkdirSync(join(folder, "none"));
  for (const [name, reason] of [
    ["gone", /gone does not exist; name/],
    ["none", /none has no \.jsonl files in it; name/],
  ] as const) {
    const { stderr, status } = spawnSync(process.execPath, view(join(folder, name)), { encoding: "utf8", env });
    assert.match(stderr, reason);
    assert.equal(status, 1);
  }
});
