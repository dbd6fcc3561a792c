import assert from "node:assert/strict";
import { test } from "node:test";
import { showCall } from "./journal.ts";

test("shows a call with its reply, or with its error, and cuts long texts", () => {
  const request = { model: "m", max_tokens: 1, messages: [{ role: "user" as const, content: "é".repeat(300) }] };
  const reply = [{ type: "text" as const, text: "ok", citations: null }];
  const shown = showCall({ request, status: 200, reply, stop_reason: "end_turn" });
  assert.match(shown, /^POST \/v1\/messages \{\n {2}"model": "m",\n.*"é{200}…".*\n200 \{\n? *"role": "assistant",/s);
  assert.match(showCall({ request, status: 400, error: "too long" }), /\n400 \{"error": "too long"\}$/);
});
