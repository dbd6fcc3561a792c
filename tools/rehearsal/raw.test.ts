import assert from "node:assert/strict";
import { test } from "node:test";
import { showCall, showJson } from "./raw.ts";

test("breaks JSON only where it has to, cuts long texts, and stays JSON", () => {
  assert.equal(showJson({ a: [1, { b: "two" }], c: undefined }), '{"a":[1,{"b":"two"}]}');
  const [a, b] = ["a".repeat(80), "b".repeat(80)];
  const shown = showJson({ name: "bash", items: [a, b], text: "é".repeat(300), none: undefined });
  assert.deepEqual(shown.split("\n").slice(0, 4), ['{"name":"bash",', '  "items":[', `    "${a}",`, `    "${b}"],`]);
  assert.deepEqual(JSON.parse(shown), { name: "bash", items: [a, b], text: `${"é".repeat(200)}…` });
});

test("shows a call with its reply, or with the error it got", () => {
  const request = { model: "m", max_tokens: 1, messages: [] };
  const reply = [{ type: "text" as const, text: "ok", citations: null }];
  assert.match(showCall({ request, status: 200, reply, stop_reason: "end_turn" }), /\n200 \{"role":"assistant",/);
  assert.match(showCall({ request, status: 400, error: "too long" }), /\n400 \{"error":"too long"\}$/);
});
