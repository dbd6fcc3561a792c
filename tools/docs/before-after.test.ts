import assert from "node:assert/strict";
import { test } from "node:test";
import { changesIn, draw, NARROW, WIDE } from "./before-after.ts";
import type { ShownMessage } from "./moments.ts";

const call = (id: string) => ({ id, name: "bash", input: { command: id } });
const asks = (id: string): ShownMessage => ({
  role: "assistant",
  blocks: [{ kind: "call", chars: 69, call: call(id) }],
});
const result = (id: string, text: string): ShownMessage => {
  const block = { kind: "result" as const, chars: text.length + 53, call: call(id), texts: [{ text }], isError: false };
  return { role: "user", blocks: [block] };
};

test("a figure shows what stayed, what went, what is short now and what is new", () => {
  const before = [asks("a"), result("a", "x".repeat(300)), { ...asks("b"), isChild: true }];
  const moment = { title: "A < B", before, after: [asks("a"), result("a", "cleared"), result("c", "new")] };
  assert.deepEqual(
    changesIn(moment).map(({ who, state }) => `${who} ${state}`),
    ["assistant kept", "result short", "assistant gone", "result new"],
  );
  for (const layout of [WIDE, NARROW]) {
    const figure = draw(moment, layout);
    assert.match(figure, /<title>A &lt; B<.*>cleared<.*>118 → 20<.*>23<.*>new<.*>19</s);
  }
});
