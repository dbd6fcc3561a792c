import assert from "node:assert/strict";
import { test } from "node:test";
import { changesIn, draw } from "./before-after.ts";
import type { Message } from "./moments.ts";

const call = (id: string): Message => {
  return { role: "assistant", content: [{ type: "tool_use", id, name: "bash", input: { command: id } }] };
};
const result = (tool_use_id: string, content: string): Message => {
  return { role: "user", content: [{ type: "tool_result", tool_use_id, content }] };
};

test("a figure shows what stayed, what went, what is short now and what is new", () => {
  const before = [call("a"), result("a", "x".repeat(300)), { ...call("b"), isChild: true }];
  const moment = { title: "A < B", before, after: [call("a"), result("a", "cleared"), result("c", "new")] };
  assert.deepEqual(
    changesIn(moment).map(({ who, state }) => `${who} ${state}`),
    ["assistant kept", "result short", "assistant gone", "result new"],
  );
  for (const isNarrow of [false, true]) assert.match(draw(moment, isNarrow), /<title>A &lt; B<.*>cleared<.*118 → 20/s);
});
