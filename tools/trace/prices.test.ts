/** Prices and windows of models. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { costOf, windowOf } from "./prices.ts";

const usage = { input: 1e6, output: 1e6, read: 1e6, written: 1e6, isHour: false, isFinal: true };

test("each model that the SDK names has a price and a window", () => {
  const types = readFileSync(
    new URL("messages.d.ts", import.meta.resolve("@anthropic-ai/sdk/resources/messages/messages.mjs")),
    "utf8",
  );
  const [, union = ""] = /export type Model = (.*);/.exec(types) ?? [];
  const models = [...union.matchAll(/'(.+?)'/g)].flatMap(([, name]) => name ?? []);
  const unknown = models.filter((model) => !windowOf(model, 0) || !costOf(usage, model));
  assert.ok(models.length > 15);
  assert.deepEqual(unknown, ["claude-mythos-preview"]); // deprecated, and not in the price list
});
