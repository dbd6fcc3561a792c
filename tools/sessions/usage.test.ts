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

test("what is written for an hour costs more, and no price is given where another than the list's applies", () => {
  const counts = { input_tokens: 1e5, output_tokens: 1e4, cache_creation_input_tokens: 1e6 };
  const costIn = (more: object) => {
    const cost = costOf(toUsage(ApiUsage.parse({ ...counts, ...more }), true), "claude-opus-4-8");
    return cost && sumOf(cost);
  };
  assert.equal(costIn({ cache_creation: { ephemeral_1h_input_tokens: 4e5 } }), 0.5 + 0.25 + 3.75 + 4);
  assert.equal(costIn({ speed: "standard", inference_geo: "not_available", iterations: [{}] }), 0.5 + 0.25 + 6.25);
  for (const other of [{ speed: "fast" }, { inference_geo: "us" }, { iterations: [{}, {}] }])
    assert.equal(costIn(other), undefined);
});
