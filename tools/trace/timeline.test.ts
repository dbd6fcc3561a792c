/** How a compaction is followed from one history to the next. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readTimeline } from "./read-timeline.ts";
import { blocksAt, fatesOf } from "./timeline.ts";

const state = { lastCall: 1 };
const user = (content: unknown) => ({ role: "user", content });
const call = { type: "tool_use", id: "t1", name: "bash", input: { items: [{ a: 1 }, { a: 2 }], command: "ls" } };
const reply = { role: "assistant", content: [{ type: "thinking", thinking: "Hm." }, call] };
const result = (content: string) => user([{ type: "tool_result", tool_use_id: "t1", content }]);
const summary = user([
  { type: "text", text: "[Conversation compressed.] All of it." },
  { type: "text", text: '<file path="a.ts">text</file>' },
]);
const rewrite = (trigger: string, messages: object[]) => ({ type: "compaction", trigger, messages, state });
const timelineOf = (...lines: object[]) => readTimeline(lines.map((line) => JSON.stringify(line)).join("\n"));

test("a message keeps its number through a compaction that changes a block of it", () => {
  const before = [user("go"), reply, result("a long result")];
  const after = [user("go"), { role: "assistant", content: [{ type: "text", text: "Hm." }, call] }, result("cleared")];
  const messages = before.map((message) => ({ message, state }));
  const timeline = timelineOf(...messages, rewrite("micro", after));
  const [compaction = assert.fail()] = timeline.compactions;
  const numbersAt = (side: "before" | "after") => blocksAt(timeline, compaction[side]).map(({ message }) => message);
  assert.deepEqual(numbersAt("before"), [0, 1, 1, 2]);
  assert.deepEqual(numbersAt("after"), numbersAt("before"));
  assert.deepEqual([...fatesOf(timeline, compaction).values()], ["kept", "thought", "kept", "disk"]);
});

test("a summary stays the same block when layer 1 acts later", () => {
  const lines = [{ message: user("go"), state }, rewrite("auto", [user("go"), summary])];
  const timeline = timelineOf(...lines, rewrite("micro", [user("go"), summary]));
  const [, later = assert.fail()] = timeline.compactions;
  assert.deepEqual([...fatesOf(timeline, later).values()], ["kept", "kept", "kept"]);
});

test("a compaction has the usage of the call that wrote its summary; a resumed conversation has none to pay for", () => {
  const usage = { input_tokens: 5, output_tokens: 7 };
  const lines = [{ message: user("go"), state: { lastCall: 1, usage } }];
  const summarized = { ...rewrite("auto", [summary]), state: { lastCall: 2, usage } };
  const resumed = { ...rewrite("resume", [summary]), state: { lastCall: 0, usage } };
  const { compactions } = timelineOf(...lines, summarized, resumed);
  assert.deepEqual(
    compactions.map((each) => each.usage?.output),
    [7, undefined],
  );
});

test("a list among the arguments of a call has a line for each item", () => {
  const { blocks } = timelineOf({ message: reply, state });
  assert.equal(blocks[1]?.text, 'items:\n  {"a":1}\n  {"a":2}\ncommand: ls');
});
