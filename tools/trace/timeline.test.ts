/** How a compaction is followed from one history to the next. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readTimeline } from "./read-timeline.ts";
import { compaction, linesOf, own, reply, result, summary, text, use, user } from "./test-lines.ts";
import { blocksAt, fatesOf } from "./timeline.ts";

const call = use("t1", "bash", { items: [{ a: 1 }, { a: 2 }], command: "ls" });
const called = reply({ type: "thinking", thinking: "Hm." }, call);
const timelineOf = (...lines: object[]) => readTimeline(linesOf(...lines));

test("a message keeps its number through a compaction that changes a block of it", () => {
  const before = [user("go"), called, user([result("t1", "a long result")])];
  const after = [user("go"), reply(text("Hm."), call), user([result("t1", "cleared")])];
  const timeline = timelineOf(...before.map((message) => own(message)), compaction("micro", after));
  const [micro = assert.fail()] = timeline.compactions;
  const numbersAt = (side: "before" | "after") => blocksAt(timeline, micro[side]).map(({ message }) => message);
  assert.deepEqual(numbersAt("before"), [0, 1, 1, 2]);
  assert.deepEqual(numbersAt("after"), numbersAt("before"));
  assert.deepEqual([...fatesOf(timeline, micro).values()], ["kept", "thought", "kept", "disk"]);
});

test("a summary stays the same block when layer 1 acts later", () => {
  const blocks = [text("[Conversation compressed.] All of it."), text('<file path="a.ts">text</file>')];
  const history = [user("go"), user(blocks)];
  const timeline = timelineOf(own(user("go")), compaction("auto", history), compaction("micro", history));
  const [, later = assert.fail()] = timeline.compactions;
  assert.deepEqual([...fatesOf(timeline, later).values()], ["kept", "kept", "kept"]);
});

test("a compaction has the usage of the call that wrote its summary; a resumed conversation has none to pay for", () => {
  const usage = { input_tokens: 5, output_tokens: 7 };
  const summarized = compaction("auto", [summary], { state: { lastCall: 2, usage } });
  const resumed = compaction("resume", [summary], { state: { lastCall: 0, usage } });
  const { compactions } = timelineOf(own(user("go"), { lastCall: 1, usage }), summarized, resumed);
  const outputs = compactions.map((each) => each.usage?.output);
  assert.deepEqual(outputs, [7, undefined]);
});

test("a list among the arguments of a call has a line for each item", () => {
  const { blocks } = timelineOf(own(called));
  assert.equal(blocks[1]?.text, 'items:\n  {"a":1}\n  {"a":2}\ncommand: ls');
});
