/** Prices of models. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ApiUsage, toUsage } from "./blocks.ts";
import { costOf, sumOf } from "./prices.ts";

test("each model that the SDK names has a price", () => {
  const types = readFileSync(
    new URL("messages.d.ts", import.meta.resolve("@anthropic-ai/sdk/resources/messages/messages.mjs")),
    "utf8",
  );
  const [, union = ""] = /export type Model = (.*);/.exec(types) ?? [];
  const models = [...union.matchAll(/'(.+?)'/g)].flatMap(([, name]) => name ?? []);
  const usage = toUsage(ApiUsage.parse({ input_tokens: 1, output_tokens: 1 }), true);
  const unknown = models.filter((model) => !costOf(usage, model));
  assert.ok(models.length > 15);
  assert.deepEqual(unknown, ["claude-mythos-preview"]); // deprecated, and not in the price list
});

const costIn = (more: object, model = "claude-opus-4-8") => {
  const counts = { input_tokens: 1e5, output_tokens: 1e4, cache_creation_input_tokens: 1e6 };
  const cost = costOf(toUsage(ApiUsage.parse({ ...counts, ...more }), true), model);
  return cost && Number(sumOf(cost).toFixed(6));
};
const PLAIN = 7; // 0.5 for input, 0.25 for output and 6.25 for what is written to the cache

test("what is written for an hour costs more, and no price is given where another than the list's applies", () => {
  assert.equal(costIn({ cache_creation: { ephemeral_1h_input_tokens: 4e5 } }), 0.5 + 0.25 + 3.75 + 4);
  assert.equal(costIn({ speed: "standard", inference_geo: "not_available", iterations: [{}] }), PLAIN);
  for (const other of [{ speed: "fast" }, { iterations: [{}, {}] }, { inference_geo: "local" }])
    assert.equal(costIn(other), undefined);
  assert.equal(costIn({}, "us-gov.anthropic.claude-opus-4-8"), undefined);
});

test("a region costs a tenth more since Sonnet 4.5, however it was asked for, and a web search costs a cent", () => {
  for (const region of ["us", "eu", "jp", "au", "apac"])
    assert.equal(costIn({}, `${region}.anthropic.claude-opus-4-8-20260210-v1:0`), 7.7, region);
  assert.equal(costIn({ inference_geo: "us" }, "us.anthropic.claude-opus-4-8"), 7.7);
  assert.equal(costIn({ inference_geo: "global" }, "global.anthropic.claude-opus-4-8"), PLAIN);
  assert.equal(costIn({}, "us.anthropic.claude-opus-4-1"), costIn({}, "claude-opus-4-1"));
  const searches = { server_tool_use: { web_search_requests: 3 }, inference_geo: "us" };
  assert.equal(costIn(searches), 7.73);
});
