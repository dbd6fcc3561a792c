// `npm run conformance` against the offline server, and against servers that do one thing differently.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, beforeEach, test } from "node:test";
import { CASES, play } from "./cases.ts";
import { main, type Result } from "./conformance.ts";
import { startServer } from "./server.ts";

const server = await startServer();
const folder = mkdtempSync(join(tmpdir(), "conformance-"));
const KEY = "sk-not-for-the-screen";

type Answer = { status: number; body: string };
/** What a server that stands before the offline one does with its answers. */
let altered = (_request: string, answer: Answer): Answer => answer;
const front = createServer(async (req, res) => {
  const sent = await text(req);
  const names = ["content-type", "x-api-key", "authorization", "anthropic-version", "anthropic-beta"];
  const headers = names.flatMap((name): [string, string][] =>
    req.headers[name] ? [[name, `${req.headers[name]}`]] : [],
  );
  const response = await fetch(server.url + req.url, { method: "POST", headers, body: sent });
  const answer = altered(sent, { status: response.status, body: await response.text() });
  res.writeHead(answer.status, { "content-type": "application/json", "retry-after": "0.01" }).end(answer.body);
}).listen(0, "127.0.0.1");
await once(front, "listening");
const { port } = Object(front.address());
after(() => {
  rmSync(folder, { recursive: true });
  front.close();
  return server.close();
});
beforeEach(() => {
  // Empty, so that no .env has its say.
  Object.assign(process.env, { ANTHROPIC_API_KEY: KEY, ANTHROPIC_AUTH_TOKEN: "", ANTHROPIC_PROFILE: "", MODEL_ID: "" });
  Object.assign(server, { model: play, reportedUsage: undefined });
  altered = (_, answer) => answer;
});

const URL_IN_FRONT = `http://127.0.0.1:${port}`;
/** Runs it on the server in front. `differing` is what it says of the cases that differ. */
async function compare(...args: string[]) {
  let output = "";
  const code = await main(["-y", "--server", URL_IN_FRONT, ...args], (line) => {
    output += `${line}\n`;
  });
  assert.ok(!output.includes(KEY), "the key is on the screen");
  return { code, output, differing: output.match(/^differs .*\n.*\n.*/gm) ?? [] };
}

const isRejected = (body: string, words: string) => body.includes('"type":"error"') && body.includes(words);
const rejection = (message: string) =>
  JSON.stringify({ type: "error", error: { type: "invalid_request_error", message } });

test("nothing differs on the offline server, and a file keeps every result", async () => {
  const file = join(folder, "results.json");
  const { code, output } = await compare("--all", "--json", file);
  assert.match(output, new RegExp(`\n${CASES.length} the same, 0 differ, 0 could not be tried\n$`));
  assert.equal(code, 0);
  const { model, results } = JSON.parse(readFileSync(file, "utf8"));
  assert.equal(model, "claude-sonnet-5-5");
  assert.deepEqual(
    results.map(({ name, verdict }: Result) => `${verdict} ${name}`),
    CASES.map(({ name }) => `same ${name}`),
  );
});

test("whatever differs is reported with both answers: a missing rule, a new one, another message, another status", async () => {
  altered = (request, { status, body }) => {
    if (isRejected(body, "prefill")) return { status: 200, body: "{}" };
    if (request.includes('"stop_sequences"')) return { status: 400, body: rejection("no stop sequences here") };
    if (isRejected(body, "at least one message")) return { status: 422, body };
    return { status, body: body.replace("be unique.", "differ.") };
  };
  const { code, differing } = await compare();
  assert.deepEqual([code, differing.length], [1, 4]);
  const all = differing.join("\n");
  assert.match(
    all,
    /^differs +prefill .*\n +expected: 400 This model does not.* user message\.\n +answered: accepted$/m,
  );
  assert.match(all, /fields without effect\n +expected: accepted\n +answered: 400 no stop sequences here$/m);
  assert.match(all, /answered: 400 tools: Tool names must differ\./);
  assert.match(all, /expected: 400 (messages: at least .*)\n +answered: 422 \1/);
});

test("an overloaded server that recovers changes nothing; a case that it never answers could not be tried", async () => {
  let requests = 0;
  altered = (request, answer) => {
    const isBusy = requests++ % 50 === 20 || request.includes('"image"');
    return isBusy ? { status: 529, body: rejection("Overloaded") } : answer;
  };
  const { code, output } = await compare();
  const images = CASES.filter(({ sends }) => JSON.stringify(sends).includes('"image"'));
  assert.match(output, new RegExp(`\n\\d+ the same, 0 differ, ${images.length} could not be tried; \\d+ left out`));
  assert.equal(code, 0);
});

test("without a terminal to ask on, or without a key, it sends nothing and says why", async () => {
  const sent = server.journal.length;
  process.stdin.isTTY = false;
  const said: string[] = [];
  const unasked = await main(["--server", URL_IN_FRONT], (line) => said.push(line));
  process.env.ANTHROPIC_API_KEY = "";
  const keyless = await main(["-y"], (line) => said.push(line));
  const [cost, reason, missing] = said;
  assert.match(cost ?? "", /^\d+ requests to .*, with ANTHROPIC_API_KEY: at most about \$0\.\d\d /);
  assert.match(reason ?? "", /no terminal/);
  assert.match(missing ?? "", /^No key: set ANTHROPIC_API_KEY /);
  assert.deepEqual([unasked, keyless, server.journal.length], [1, 1, sent]);
});

test("a key that is wrong ends it, and isn't printed", async () => {
  altered = () => ({ status: 401, body: rejection(`invalid x-api-key ${KEY}`) });
  const { code, output } = await compare();
  assert.match(output, /invalid x-api-key \(the key\)/);
  assert.deepEqual([code, output.includes("differ")], [1, false]);
});

test("it says which lessons a server without thinking, usage and cache would trouble", async () => {
  server.model = (request) => ({ ...play(request), thinks: false });
  server.reportedUsage = {};
  const { output } = await compare();
  assert.match(output, /s06: no thinking.*\ns06: no usage.*\ns01 to s06: nothing is read from a cache/);
  assert.match(output, /not tried {2}thinking binding .*\n +the model did not think before its call 1\n/);
});

test("it says what to do on a server that doesn't know the thinking field", async () => {
  altered = (request, answer) =>
    request.includes('"thinking"') ? { status: 400, body: rejection("thinking: unknown field") } : answer;
  const { output } = await compare();
  assert.match(output, /s01 to s06: a request with thinking.* fails .*unknown field.*\n.*THINKING=off/);
});
