/** What a timeline says about a session: its sizes, cache misses and requests, and what compactions did to each block. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { groupBy, sum } from "./numbers.ts";
import { readTimeline } from "./read-timeline.ts";
import {
  billed,
  boundary,
  claude,
  claudeSession,
  compaction,
  continued,
  linesOf,
  openedByCompaction,
  own,
  reply,
  result,
  text,
  thinking,
  use,
  user,
} from "./test-lines.ts";
import { blocksAt, type Compaction, fatesOf, type Timeline } from "./timeline.ts";

/** Counts what became of the blocks before a compaction. */
function countFates(timeline: Timeline, compaction?: Compaction): Record<string, number> {
  const fates = compaction ? [...fatesOf(timeline, compaction).values()] : [];
  return Object.fromEntries([...groupBy(fates, (fate) => fate)].map(([fate, all]) => [fate, all.length]));
}

/** Names the blocks after a compaction. */
const namesAfter = (timeline: Timeline, compaction?: Compaction) =>
  compaction && blocksAt(timeline, compaction.after).map(({ kind, label }) => `${kind} ${label}`);

// --- sizes and cache misses ------------------------------------------------------------------------------------------

test("a prompt has the size that the API counted, and tokens that no block accounts for are a part of their own", () => {
  const { modelCalls, series, isCounted, format } = readTimeline(claudeSession);
  const sizes = modelCalls.map(({ tokens }) => tokens);
  assert.deepEqual([format, isCounted, sizes], ["Claude Code", true, [9_003, 13_001, 13_201, 8_701]]);
  for (const { tokens, sizes: parts } of modelCalls) assert.ok(Math.abs(sum(parts) - tokens) < 1, `${parts} ${tokens}`);
  const [first, second, , compacted] = modelCalls;
  assert.ok((first?.unexplained ?? 0) > 8_900, `${first?.unexplained}`);
  const read = second?.sizes[series.indexOf("result:Read")] ?? 0;
  assert.ok(read > 3_500 && read < 4_000, `${read}`);
  const summarized = compacted?.sizes[series.indexOf("summary")] ?? 0;
  assert.ok(summarized < 30, `${summarized} tokens for 26 characters`);
});

test("a cache miss has a reason: a pause, a compaction, another model, or none that the file shows", () => {
  const round = (minute: number, read: number, model = "claude-opus-5-5") => {
    const message = { ...billed(`m${minute}`, [read, 9_000 - read, 1, 1], text("Yes.")), model };
    return [claude(minute, user("Go on.")), claude(minute, message)];
  };
  const sonnet = "claude-sonnet-5-5";
  const before = [round(0, 0), round(1, 0), round(8, 0), round(9, 0, sonnet)].flat();
  const after = [continued(10), ...round(11, 0, sonnet), ...round(12, 9_000, sonnet)];
  const { modelCalls } = readTimeline(linesOf(...before, ...after));
  const why = modelCalls.map(({ missed }) => missed?.why);
  assert.deepEqual(why, [undefined, "changed", "pause", "model", "compaction", undefined]);
});

test("each prompt of the recorded demo has the size in its usage, and a compaction nearly the size of the next prompt", () => {
  const demo = readFileSync(new URL("../docs/runs/demo.jsonl", import.meta.url), "utf8");
  const { modelCalls, compactions, capacity } = readTimeline(demo);
  assert.ok(modelCalls.every(({ tokens, usage }) => usage && tokens === usage.input + usage.read + usage.written));
  assert.deepEqual(capacity, { tokens: 16_000, kind: "threshold" });
  assert.deepEqual(new Set(compactions.map(({ trigger }) => trigger)), new Set(["micro", "tool", "auto"]));
  for (const { before, after, modelCall } of compactions) {
    for (const side of [before, after]) assert.ok(side.unexplained > 100, `${side.unexplained}`);
    const next = modelCalls[modelCall]?.tokens ?? 0;
    assert.ok(Math.abs(next / after.tokens - 1) < 0.15, `${after.tokens} after, ${next} in the next prompt`);
  }
});

// --- blocks and requests ---------------------------------------------------------------------------------------------

test("only what the user wrote is a request, not what a client or another agent adds in the user's name", () => {
  const { requests, blocks } = readTimeline(
    linesOf(
      claude(0, user('<teammate-message teammate_id="lead">\nYou fix the tests.\n</teammate-message>')),
      claude(2, user("<task-notification>\n<status>done</status>\n</task-notification>")),
      claude(3, user("<system-reminder>\nA task ended.\n</system-reminder>\n\nWhat now?")),
    ),
  );
  const labels = requests.map(({ block }) => blocks[block]?.label);
  assert.deepEqual(labels, ["What now?"]);
  assert.deepEqual([blocks[0]?.kind, blocks[0]?.label], ["client", "teammate-message: You fix the tests."]);
});

test("a list among the arguments of a call has a line for each item", () => {
  const { blocks } = readTimeline(
    linesOf(own(reply(use("t1", "bash", { items: [{ a: 1 }, { a: 2 }], command: "ls" })))),
  );
  assert.equal(blocks[0]?.text, 'items:\n  {"a":1}\n  {"a":2}\ncommand: ls');
});

// --- compactions of Claude Code --------------------------------------------------------------------------------------

test("a compaction in Claude Code leaves only its summary; the lines of subagents are skipped and counted", () => {
  const timeline = readTimeline(claudeSession);
  const [manual = assert.fail()] = timeline.compactions;
  const { modelCall, trigger, before, after } = manual;
  assert.deepEqual([modelCall, trigger], [3, "manual"]);
  assert.deepEqual(countFates(timeline, manual), { summarized: 7 });
  assert.deepEqual([before.tokens, before.sizeSource, after.tokens, after.sizeSource], [13_300, "file", 8_701, "next"]);
  const kinds = blocksAt(timeline, after).map(({ kind }) => kind);
  assert.deepEqual(kinds, ["summary", "request"]); // as the next prompt has them
  assert.ok(timeline.skipped.some(({ reason, count }) => reason === "line of a subagent" && count === 1));
});

test("messages that Claude Code preserves in a compaction are kept, and results it cleared before stay on disk", () => {
  const timeline = readTimeline(
    linesOf(
      claude(0, user("Look.")),
      claude(1, billed("m1", [0, 9_000, 3, 8], use("t1", "Read"))),
      claude(2, user([result("t1", "const a = 1;\n".repeat(100))])),
      { type: "system", microcompactMetadata: { compactedToolIds: ["t1"] } },
      claude(3, user("Keep this."), { uuid: "kept" }),
      claude(3, billed("m2", [0, 8_600, 1, 20], text("Kept."))),
      boundary({ trigger: "auto", preservedMessages: { uuids: ["kept"] } }),
      continued(4),
    ),
  );
  const [cleared, summarized] = timeline.compactions;
  assert.deepEqual(countFates(timeline, cleared), { kept: 2, disk: 1 });
  assert.deepEqual(countFates(timeline, summarized), { summarized: 3, disk: 1, kept: 1 });
  assert.deepEqual(namesAfter(timeline, summarized), ["summary This session is continued.", "request Keep this."]);
});

test("a compaction at the start of a file has the size that the file gives, and then that of the next prompt", () => {
  const [compaction, ...none] = readTimeline(openedByCompaction).compactions;
  const { modelCall, before, after } = compaction ?? assert.fail();
  assert.deepEqual([modelCall, before.tokens, after.tokens, none], [0, 998_659, 69_002, []]);
  assert.deepEqual([before.unexplained, before.sizeSource, after.sizeSource], [998_659, "file", "next"]);
});

// --- compactions of s06 ----------------------------------------------------------------------------------------------

test("a message keeps its number when layer 1 clears its result, and the cleared text is still there", () => {
  const [call, asked] = [use("t1", "bash"), user("Look.")];
  const before = [asked, reply(thinking("Hm."), call), user([result("t1", "a long result")])];
  const after = [asked, reply(text("Hm."), call), user([result("t1", "[Previous: used bash]")])];
  const sizes = { before: 4_200, after: 2_400, threshold: 2_500 };
  const lines = before.map((message) => own(message, { charsPerToken: 3 }));
  const timeline = readTimeline(linesOf(...lines, compaction("micro", after, sizes)));
  const [micro = assert.fail()] = timeline.compactions;
  assert.deepEqual([micro.modelCall, micro.before.tokens, micro.after.tokens], [1, 4_200, 2_400]);
  assert.deepEqual([...fatesOf(timeline, micro).values()], ["kept", "thought", "kept", "disk"]);
  for (const side of [micro.before, micro.after]) {
    const numbers = blocksAt(timeline, side).map(({ message }) => message);
    assert.deepEqual(numbers, [0, 1, 1, 2]);
  }
  const cleared = blocksAt(timeline, micro.after).at(-1);
  assert.equal(timeline.blocks[cleared?.original ?? -1]?.text, "a long result");
  assert.deepEqual(timeline.capacity, { tokens: 2_500, kind: "threshold" });
});

test("a summary and its files stay when layer 1 acts later, but are new when another summary replaces them", () => {
  const withFile = (words: string) =>
    user([text(`[Conversation compressed. Transcript: t.jsonl]\n\n${words}`), text('<file path="a.ts">\na\n</file>')]);
  const [one, two] = [user("One?"), user("Two?")];
  const yes = own(reply(text("Yes.")));
  const first = [own(one), yes, own(two), compaction("auto", [two, withFile("A")])];
  const second = [compaction("micro", [two, withFile("A")]), yes, own(one), compaction("auto", [one, withFile("B")])];
  const timeline = readTimeline(linesOf(...first, ...second));
  const [auto, micro, last] = timeline.compactions;
  assert.deepEqual(countFates(timeline, auto), { summarized: 2, kept: 1 });
  const names = ["request Two?", "summary [Conversation compressed. Transcript: t.jsonl]", "file a.ts"];
  assert.deepEqual(namesAfter(timeline, auto), names);
  assert.deepEqual(countFates(timeline, micro), { kept: 3 });
  assert.deepEqual(countFates(timeline, last), { summarized: 4, kept: 1 });
});

test("a refused request counts as withdrawn", () => {
  const kept = [user("First."), reply(text("One."))];
  const lines = [...kept, user("Bad.")].map((message) => own(message));
  const timeline = readTimeline(linesOf(...lines, compaction("refused", kept)));
  assert.deepEqual(countFates(timeline, timeline.compactions[0]), { kept: 2, withdrawn: 1 });
});
