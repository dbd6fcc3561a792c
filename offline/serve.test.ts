import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import Anthropic from "@anthropic-ai/sdk";
import { user } from "./api/said.ts";
import { TSX } from "./start.ts";

test("npm run api prints how to use it and a line for each request, and enforces --window", async (t) => {
  const script = fileURLToPath(new URL("serve.ts", import.meta.url));
  const child = spawn(process.execPath, [...TSX, script, "--window", "100"], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const lineWith = async (pattern: RegExp): Promise<RegExpExecArray> => {
    const { value, done } = await lines.next();
    assert.ok(!done, `it ended before it printed ${pattern}`);
    return pattern.exec(value) ?? lineWith(pattern);
  };
  const [, baseURL] = await lineWith(/export ANTHROPIC_BASE_URL=(\S+) ANTHROPIC_API_KEY=offline/);
  await lineWith(/^model +messages +tokens +cached +status$/);
  const client = new Anthropic({ baseURL, apiKey: "offline", maxRetries: 0 });
  const request = { model: "claude-haiku-5-5", max_tokens: 100 };
  await client.messages.create({ ...request, messages: [user("hello")] });
  await lineWith(/^claude-haiku-5-5 +1 +\d+ +0 +200$/);
  await assert.rejects(client.messages.create({ ...request, messages: [user("x".repeat(900))] }), /too long/);
  await lineWith(/^claude-haiku-5-5 +1 +\d+ +0 +400 prompt is too long: \d+ tokens > 100 maximum$/);
  const ended = once(child, "exit");
  child.kill("SIGINT");
  assert.deepEqual(await ended, [null, "SIGINT"]);
});
