// Runs `npm run conformance` against the local server, and against one that always gives the same answer.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, beforeEach, test } from "node:test";
import { CASES, isLarge, puzzleModel } from "./cases.ts";
import { main } from "./conformance.ts";
import { startServer } from "./server.ts";

const server = await startServer();
const KEY = "sk-not-for-the-screen";

let same = { status: 200, body: "{}" };
const stubborn = createServer((_, res) =>
  res.writeHead(same.status, { "content-type": "application/json", "x-should-retry": "false" }).end(same.body),
).listen(0, "127.0.0.1");
await once(stubborn, "listening");
const { port } = Object(stubborn.address());
after(() => {
  stubborn.close();
  return server.close();
});
beforeEach(() => {
  // Empty rather than deleted, or a .env would set them.
  Object.assign(process.env, { ANTHROPIC_API_KEY: KEY, ANTHROPIC_AUTH_TOKEN: "", ANTHROPIC_PROFILE: "", MODEL_ID: "" });
  Object.assign(server, { model: puzzleModel, reportedUsage: undefined });
});

/** Runs the command on a server. */
async function compare(url = server.url, cases = CASES) {
  const lines: string[] = [];
  const code = await main(["--server", url], (line) => lines.push(line), cases);
  return { code, output: lines.join("\n") };
}

test("the local server answers every case as expected, and the lessons run on it", async () => {
  const { code, output } = await compare();
  const small = CASES.filter((each) => !isLarge(each)).length;
  assert.match(output, /^The lessons run on this server\.$/m);
  assert.match(output, new RegExp(`^${small} the same, 0 of them in other words; 0 differ, 0 could not be tried`, "m"));
  assert.equal(code, 0);
});

test("a missing rule, an additional rule and another status differ; other words are shown but count as the same", async () => {
  const [prefill, effectless, none] = ["prefill", "fields without effect", "no messages"].map(
    (name) => CASES.find((each) => each.name === name || each.expected.rule === name) ?? assert.fail(name),
  );
  assert.ok(prefill && effectless && none);
  const changed = [
    { ...prefill, expected: effectless.expected },
    { ...effectless, expected: prefill.expected },
    { ...none, expected: { ...none.expected, status: 422 } },
    { ...none, expected: { ...none.expected, message: "messages: too few" } },
  ];
  const { code, output } = await compare(server.url, changed);
  assert.match(
    output,
    /^differs +This .*\n +expected: accepted\n +answered: 400 This model does not .* user message\.$/m,
  );
  assert.match(output, /^differs +prefill +fields without effect\n +expected: 400 This .*\n +answered: accepted$/m);
  assert.match(output, /expected: 422 (messages: at least .*)\n +answered: 400 \1/);
  assert.match(output, /^reworded .*\n.*too few\n +answered: 400 messages: at least/m);
  assert.match(output, /^1 the same, 1 of them in other words; 3 differ/m);
  assert.equal(code, 1);
});

const error = (message: string) => JSON.stringify({ type: "error", error: { type: "x", message } });
const STUBBORN: Record<string, { status: number; body: string; says: RegExp }> = {
  "ignores stream: true": { status: 200, body: "{}", says: /^The lessons don't run on .*\nit ignores `stream: true`/m },
  "rejects what the lessons send": {
    status: 400,
    body: error("thinking: unknown field"),
    says: /^The lessons don't run .*\nit rejects .*: 400 thinking: unknown field\n.*THINKING=off$/m,
  },
  "has no Messages API": {
    status: 404,
    body: "{}",
    says: /\nhttp:.* has no Messages API, or doesn't know .* \(404\)$/,
  },
  "rejects the key, which isn't printed": {
    status: 401,
    body: error(`invalid x-api-key ${KEY}`),
    says: /\n.*invalid x-api-key \(the key\)[^\n]*$/,
  },
};
for (const [name, { says, ...answer }] of Object.entries(STUBBORN))
  test(`it says so if a server ${name}`, async () => {
    same = answer;
    const { code, output } = await compare(`http://127.0.0.1:${port}`);
    assert.match(output, says);
    assert.deepEqual([code, output.includes(KEY)], [1, false]);
  });

test("without a key, nothing is sent and a line says what to set", async () => {
  const sent = server.journal.length;
  process.env.ANTHROPIC_API_KEY = "";
  const said: string[] = [];
  assert.equal(await main([], (line) => said.push(line)), 1);
  assert.match(said.join("\n"), /^No key: set ANTHROPIC_API_KEY .*$/);
  assert.equal(server.journal.length, sent);
});

test("whatever the lessons would miss is named: thinking, usage, a cache", async () => {
  server.model = (request) => ({ ...puzzleModel(request), thinks: false });
  server.reportedUsage = {};
  const { output } = await compare();
  assert.match(
    output,
    /^The lessons run on this server, but:\nno thinking.*\nno usage.*\nnothing is read from a cache/m,
  );
  assert.match(output, /not tried {2}thinking binding .*\n +the model did not think before its call 1\n/);
});
