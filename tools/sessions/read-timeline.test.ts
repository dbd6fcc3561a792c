/** What a timeline says about a session: its sizes, cache misses and requests, and what compactions did to each block. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf, typedText } from "./events.ts";
import { readTimeline } from "./read-timeline.ts";
import {
  billed,
  claude,
  claudeSession,
  continued,
  linesOf,
  openedByCompaction,
  own,
  reply,
  result,
  rewrite,
  summary,
  text,
  thinking,
  use,
  used,
  user,
} from "./test-lines.ts";
import { blocksIn, type Compaction, keptBy } from "./timeline.ts";

/** Counts the blocks before a compaction that it kept. */
const kept = (compaction?: Compaction) => compaction && `${keptBy(compaction).size} of ${compaction.before.length}`;

/** The kinds and first lines of the blocks after a compaction. */
const blocksAfter = (compaction?: Compaction) =>
  compaction && blocksIn(compaction.after).map((block) => `${block.kind} ${textOf(block).split("\n")[0]}`);

// --- sizes and cache misses ------------------------------------------------------------------------------------------

test("a prompt has the size that the API counted, and tokens that no block accounts for are a part of their own", () => {
  const { modelCalls, isCounted, format } = readTimeline(claudeSession);
  const sizes = modelCalls.map(({ tokens }) => tokens);
  assert.deepEqual([format, isCounted, sizes], ["Claude Code", true, [9_003, 13_001, 13_201, 8_701]]);
  const [first, second] = modelCalls;
  assert.ok((first?.unexplained ?? 0) > 8_900, `${first?.unexplained}`);
  assert.ok(second && second.tokens - second.unexplained > 3_500, `${second?.unexplained}`);
});

test("a reply has the largest counts of its lines, since a proxy may know them only at its end", () => {
  for (const early of [
    [0, 0, 0, 0],
    [0, 0, 1, 1],
  ]) {
    const { modelCalls } = readTimeline(
      linesOf(
        claude(0, user("Look.")),
        claude(1, billed("m1", early, text("I look."))),
        claude(1, billed("m1", [9_000, 400, 3, 500], use("t1", "Read"))),
        claude(1, billed("m1", early, use("t2", "Read"))),
      ),
    );
    const counts = modelCalls.map(({ tokens, usage }) => [tokens, usage?.read, usage?.written, usage?.output]);
    assert.deepEqual(counts, [[9_403, 9_000, 400, 500]]);
  }
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

// --- blocks and requests ---------------------------------------------------------------------------------------------

test("a request is what the user typed, without what a client or another agent adds in the user's name", () => {
  const opened = "<ide_opened_file>The user opened a.ts.</ide_opened_file>";
  const selected = "<ide_selection>The user selected line 4.</ide_selection>\n";
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "" } };
  const args = "<command-args>the login bug</command-args>";
  const typedIn = (...contents: unknown[]) => {
    const { requests } = readTimeline(linesOf(...contents.map((content) => claude(0, user(content)))));
    return requests.map(({ block }) => typedText(textOf(block)));
  };
  assert.deepEqual(typedIn([text(opened), text("Fix it.")], `${selected}And this.`), ["Fix it.", "And this."]);
  assert.deepEqual(typedIn(`Compare <my-tag>a</my-tag>.\n<system-reminder>\nx</system-reminder>`), [
    "Compare <my-tag>a</my-tag>.",
  ]);
  assert.deepEqual(typedIn([image, text("What is this?")], [image]), ["What is this?", "[image]"]);
  assert.deepEqual(
    typedIn(`<command-message>fix is running</command-message>\n<command-name>/fix</command-name>\n${args}`),
    ["/fix the login bug"],
  );
  assert.deepEqual(typedIn("<command-name>/clear</command-name> <command-args></command-args>"), ["/clear"]);
  assert.deepEqual(typedIn("<bash-input>git log</bash-input>", "<bash-stdout>a1</bash-stdout>"), ["!git log"]);
  assert.deepEqual(typedIn([text(opened)], "<local-command-stdout>Bye!</local-command-stdout>"), []);
  assert.deepEqual(typedIn('<teammate-message teammate_id="lead">\nFix the tests.\n</teammate-message>'), []);
  assert.deepEqual(typedIn("<task-notification>\n<status>done</status>\n</task-notification>"), []);
});

// --- compactions of Claude Code --------------------------------------------------------------------------------------

test("a compaction in Claude Code leaves only its summary; the lines of subagents are skipped and counted", () => {
  const timeline = readTimeline(claudeSession);
  const [manual = assert.fail()] = timeline.compactions;
  const { modelCall, trigger, before, after } = manual;
  assert.deepEqual([modelCall, trigger], [3, "manual"]);
  assert.equal(kept(manual), "0 of 7");
  assert.deepEqual([before.tokens, before.isEstimate, after.tokens, after.isEstimate], [13_300, false, 8_701, false]);
  const kinds = blocksIn(after).map(({ kind }) => kind);
  assert.deepEqual(kinds, ["summary", "request"]); // as the next prompt has them
  assert.ok(timeline.skipped.some(({ reason, count }) => reason === "line of a subagent" && count === 1));
});

test("a compaction at the start of a file has the size that the file gives, and then that of the next prompt", () => {
  const [compaction, ...none] = readTimeline(openedByCompaction).compactions;
  const { modelCall, before, after } = compaction ?? assert.fail();
  assert.deepEqual([modelCall, before.tokens, after.tokens, none], [0, 998_659, 69_002, []]);
  assert.deepEqual([before.unexplained, before.isEstimate, after.isEstimate], [998_659, false, false]);
});

// --- compactions of s06 ----------------------------------------------------------------------------------------------

test("the text that layer 1 clears is still there", () => {
  const [call, asked] = [use("t1", "bash"), user("Look.")];
  const before = [asked, reply(thinking("Hm."), call), user([result("t1", "a long result")])];
  const after = [asked, reply(text("Hm."), call), user([result("t1", "[Previous: used bash]")])];
  const lines = before.map((message) => own(message));
  const timeline = readTimeline(linesOf(...lines, rewrite("micro", after, { threshold: 2_500 })));
  const [micro = assert.fail()] = timeline.compactions;
  assert.equal(kept(micro), "2 of 4");
  const [cleared = assert.fail()] = blocksIn(micro.before).slice(-1);
  assert.equal(textOf(cleared), "a long result");
  assert.equal(timeline.threshold, 2_500);
});

test("the model call before a summary wrote it; one whose reply was dropped still counts; neither resuming nor a new start compacts", () => {
  const call = used([0, 0, 9_000, 10], { model: "claude-sonnet-5-5" });
  const timeline = readTimeline(
    linesOf(
      rewrite("clear", []), // before the first message, nothing is taken
      own(user("Look.")),
      call, // its reply was refused
      rewrite("refused", []),
      own(user("Look again.")),
      call,
      own(reply(text("Done."))),
      call, // for the summary
      rewrite("auto", [summary]),
      rewrite("resume", [summary]),
      own(user("And now?")),
      own(reply(text("Done."))),
    ),
  );
  const { modelCalls, compactions } = timeline;
  const taken = modelCalls.map(({ usage }) => usage?.input);
  const made = compactions.map(({ trigger, usage, modelCall }) => `${trigger} ${usage?.input} ${modelCall}`);
  assert.deepEqual(taken, [9_000, 9_000, undefined]);
  assert.deepEqual(made, ["refused undefined 1", "auto 9000 2"]);
  assert.ok((compactions[1]?.cost?.input ?? 0) > 0.01);
  assert.deepEqual(compactions.map(kept), ["0 of 1", "0 of 2"]);
});

test("a summary and its files stay when layer 1 acts later, but are new when another summary replaces them", () => {
  const withFile = (words: string) =>
    user([text(`[Conversation compressed. Transcript: t.jsonl]\n\n${words}`), text('<file path="a.ts">\na\n</file>')]);
  const [one, two] = [user("One?"), user("Two?")];
  const yes = own(reply(text("Yes.")));
  const first = [own(one), yes, own(two), rewrite("auto", [two, withFile("A")])];
  const second = [rewrite("micro", [two, withFile("A")]), yes, own(one), rewrite("auto", [one, withFile("B")])];
  const timeline = readTimeline(linesOf(...first, ...second));
  const [auto, micro, last] = timeline.compactions;
  assert.equal(kept(auto), "1 of 3");
  const names = ["request Two?", "summary [Conversation compressed. Transcript: t.jsonl]", 'file <file path="a.ts">'];
  assert.deepEqual(blocksAfter(auto), names);
  assert.equal(kept(micro), "3 of 3");
  assert.equal(kept(last), "1 of 5");
});
