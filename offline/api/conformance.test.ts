// Runs `npm run conformance` against the local server, with and without quirks, and against one that always says the same.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, beforeEach, test } from "node:test";
import { CACHE, CASES, HOUR, puzzleModel } from "./cases.ts";
import { main } from "./conformance.ts";
import { QUIRKS } from "./quirks.ts";
import { startServer } from "./server.ts";

const server = await startServer();
after(() => server.close());
beforeEach(() => {
  // Empty rather than deleted, or a .env would set them.
  Object.assign(process.env, { ANTHROPIC_API_KEY: "k", ANTHROPIC_AUTH_TOKEN: "", ANTHROPIC_PROFILE: "" });
  Object.assign(process.env, { MODEL_ID: "", THINKING: "" });
  Object.assign(server, { model: puzzleModel, quirks: [] });
});

async function compare(url: string, cases = CASES, ...args: string[]) {
  const lines: string[] = [];
  const code = await main(["--server", url, ...args], (line) => lines.push(line), cases);
  return { code, output: lines.join("\n") };
}

test("three requests show that the lessons run: plain, with a tool, and with its result and a cache of an hour", async () => {
  process.env.MODEL_ID = "claude-haiku-5-5";
  const { code, output } = await compare(server.url);
  assert.match(output, /^The lessons run on this server\.$/m);
  const sent = server.journal.map(({ request }) => request);
  assert.deepEqual([code, ...sent.map(({ messages }) => messages.length)], [0, 1, 1, 3]);
  const settings = sent.map(({ model, max_tokens, stream, cache_control }) => [
    model,
    max_tokens,
    stream,
    cache_control,
  ]);
  const lesson = (cache: object) => ["claude-haiku-5-5", 32_000, true, cache];
  assert.deepEqual(settings, [lesson(CACHE), lesson(CACHE), lesson(HOUR)]);
});

test("where adaptive thinking is rejected it says so, and with THINKING=off the lessons run", async () => {
  server.quirks = [QUIRKS.rejectsAdaptive];
  const { output } = await compare(server.url);
  assert.match(output, /^The lessons don't run on this server: 400 invalid thinking: .*\ndocs\/servers\.md/m);
  process.env.THINKING = "off";
  assert.equal((await compare(server.url)).code, 0);
});

test("with --all a missing rule and an additional one differ; other words are shown, but count as the same", async () => {
  const taken = { name: "taken", sends: {}, expected: { status: 200, message: "" } };
  const empty = { name: "empty", sends: { messages: [] }, expected: { status: 400, message: "messages: too few" } };
  const thinking = CASES.filter(({ edit }) => edit).slice(-1);
  const cases = [{ ...taken, expected: empty.expected }, { ...empty, expected: taken.expected }, empty, ...thinking];
  const { code, output } = await compare(server.url, cases, "--all");
  assert.match(output, /^differs +taken\n +expected: 400 messages: too few\n +answered: accepted$/m);
  assert.match(output, /^differs +empty\n +expected: accepted\n +answered: 400 messages: at least/m);
  assert.match(output, /^reworded +empty\n.*too few\n +answered: 400 messages: at least/m);
  assert.match(output, /^2 the same, 1 of them in other words; 2 differ, 0 could not be tried/m);
  assert.equal(code, 1);
  server.model = (request) => ({ ...puzzleModel(request), thinks: false });
  const thoughtless = await compare(server.url, thinking, "--all");
  assert.match(thoughtless.output, /^not tried .*\n +the model didn't think before each of three calls$/m);
});

const STUBBORN = {
  "doesn't stream": { status: 200, body: "{}", says: /^The lessons don't run on .*: it doesn't stream/m },
  "has no Messages API": { status: 404, body: "not found", says: /: 404 not found$/m },
};
for (const [name, { status, body, says }] of Object.entries(STUBBORN))
  test(`it says so if a server ${name}`, async (t) => {
    const headers = { "content-type": "application/json", "x-should-retry": "false" };
    const stubborn = createServer((_, res) => res.writeHead(status, headers).end(body)).listen(0, "127.0.0.1");
    await once(stubborn, "listening");
    t.after(() => stubborn.close());
    const { code, output } = await compare(`http://127.0.0.1:${Object(stubborn.address()).port}`);
    assert.match(output, says);
    assert.equal(code, 1);
  });

test("without a key, nothing is sent and a line says what to set", async () => {
  process.env.ANTHROPIC_API_KEY = "";
  const said: string[] = [];
  assert.equal(await main([], (line) => said.push(line)), 1);
  assert.match(said.join("\n"), /^No key: set ANTHROPIC_API_KEY .*$/);
});
