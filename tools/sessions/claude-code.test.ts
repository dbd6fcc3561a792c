/** A redacted session of Claude Code 2.1.332 and one of its subagents. Their figures are Claude Code's own. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { subagentsIn } from "./files.ts";
import { sum } from "./numbers.ts";
import { sumOf } from "./prices.ts";
import { readTimeline } from "./read-timeline.ts";
import { blocksIn } from "./timeline.ts";

const folder = fileURLToPath(new URL("./fixtures", import.meta.url));
const session = `${folder}/claude-code.jsonl`;
const timelineIn = (file: string) => readTimeline(readFileSync(file, "utf8"));

test("a session has the cost and prompts that Claude Code counted, and no line of an unknown kind counts as broken", () => {
  const { modelCalls, largest, compactions, skipped } = timelineIn(session);
  assert.equal(sum(modelCalls.map(({ cost }) => sumOf(cost))).toFixed(4), "0.9034");
  assert.equal(sum(modelCalls.map(({ tokens }) => tokens)), 1_258_127);
  assert.equal(modelCalls[largest]?.tokens, 66_595);
  assert.equal(compactions[0]?.after.tokens, 18_632);
  const reasons = skipped.map(({ reason }) => reason);
  assert.ok(reasons.includes("api-request-blob line"));
  assert.ok(!reasons.some((reason) => /broken|unknown/.test(reason)));
});

test("the file of a subagent is read like a session, and its parent is known", () => {
  const [subagent = assert.fail()] = subagentsIn(folder);
  const { modelCalls, requests } = timelineIn(subagent.file);
  assert.deepEqual([modelCalls.length, requests.length, subagent.parent], [11, 1, session]);
});

test("the recorded system prompt, tools and reminders are in the context, before and after a compaction", () => {
  const timeline = timelineIn(session);
  const [compaction = assert.fail()] = timeline.compactions;
  const textsOf = (side: "before" | "after") =>
    blocksIn(compaction[side]).flatMap((block) => (block.kind === "client" ? block.text : []));
  for (const texts of [textsOf("before"), textsOf("after")]) {
    assert.match(texts[2] ?? "", /^{"name":"Agent"/); // after a system prompt of two blocks
    assert.ok(texts.some((text) => text.startsWith("<system-reminder>")));
  }
});
