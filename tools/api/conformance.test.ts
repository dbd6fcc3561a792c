// Runs `npm run conformance` against the local server, and against a proxy that changes some of its answers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { after, beforeEach, test } from "node:test";
import { CASES, play } from "./cases.ts";
import { main } from "./conformance.ts";
import { startServer } from "./server.ts";

const server = await startServer();
const KEY = "sk-not-for-the-screen";

type Answer = { status: number; body: string };
/** What the proxy makes of an answer. */
let alter = (_request: string, answer: Answer): Answer => answer;
const proxy = createServer(async (req, res) => {
  const sent = await text(req);
  const names = ["content-type", "x-api-key", "authorization", "anthropic-version", "anthropic-beta"];
  const headers = names.flatMap((name): [string, string][] =>
    req.headers[name] ? [[name, `${req.headers[name]}`]] : [],
  );
  const response = await fetch(server.url + req.url, { method: "POST", headers, body: sent });
  const answer = alter(sent, { status: response.status, body: await response.text() });
  res.writeHead(answer.status, { "content-type": "application/json", "retry-after": "0.01" }).end(answer.body);
}).listen(0, "127.0.0.1");
await once(proxy, "listening");
const { port } = Object(proxy.address());
after(() => {
  proxy.close();
  return server.close();
});
beforeEach(() => {
  // Set to empty, because an .env would only fill in what is missing.
  Object.assign(process.env, { ANTHROPIC_API_KEY: KEY, ANTHROPIC_AUTH_TOKEN: "", ANTHROPIC_PROFILE: "", MODEL_ID: "" });
  Object.assign(server, { model: play, reportedUsage: undefined });
  alter = (_, answer) => answer;
});

const PROXY = `http://127.0.0.1:${port}`;
/** Runs the command on the proxy. `differing` has what it prints about the cases that differ. */
async function compare(...args: string[]) {
  let output = "";
  const code = await main(["-y", "--server", PROXY, ...args], (line) => {
    output += `${line}\n`;
  });
  assert.ok(!output.includes(KEY), "the key is on the screen");
  return { code, output, differing: output.match(/^differs .*\n.*\n.*/gm) ?? [] };
}

const isRejected = (body: string, words: string) => body.includes('"type":"error"') && body.includes(words);
const rejection = (message: string) =>
  JSON.stringify({ type: "error", error: { type: "invalid_request_error", message } });

test("nothing differs on the local server", async () => {
  const { code, output } = await compare();
  const small = CASES.filter(({ isLarge }) => !isLarge).length;
  const count = `${small} the same, 0 differ, 0 could not be tried; ${CASES.length - small} left out`;
  assert.ok(output.includes(count), output);
  assert.equal(code, 0);
});

test("a missing rule, an additional rule, another message and another status are reported with both answers", async () => {
  alter = (request, { status, body }) => {
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

test("without a terminal or without a key, nothing is sent and a line says why", async () => {
  const sent = server.journal.length;
  process.stdin.isTTY = false;
  const said: string[] = [];
  const unasked = await main(["--server", PROXY], (line) => said.push(line));
  process.env.ANTHROPIC_API_KEY = "";
  const keyless = await main(["-y"], (line) => said.push(line));
  const [cost, reason, missing] = said;
  assert.match(cost ?? "", /^\d+ requests to .*, with ANTHROPIC_API_KEY: at most about \$0\.\d\d /);
  assert.match(reason ?? "", /no terminal/);
  assert.match(missing ?? "", /^No key: set ANTHROPIC_API_KEY /);
  assert.deepEqual([unasked, keyless, server.journal.length], [1, 1, sent]);
});

test("a wrong key ends the comparison and isn't printed", async () => {
  alter = () => ({ status: 401, body: rejection(`invalid x-api-key ${KEY}`) });
  const { code, output } = await compare();
  assert.match(output, /invalid x-api-key \(the key\)/);
  assert.deepEqual([code, output.includes("differ")], [1, false]);
});

test("lessons that would suffer without thinking, usage or a cache are named", async () => {
  server.model = (request) => ({ ...play(request), thinks: false });
  server.reportedUsage = {};
  const { output } = await compare();
  assert.match(output, /s06: no thinking.*\ns06: no usage.*\ns01 to s06: nothing is read from a cache/);
  assert.match(output, /not tried {2}thinking binding .*\n +the model did not think before its call 1\n/);
});

test("if a server doesn't know the thinking field, THINKING=off is suggested", async () => {
  alter = (request, answer) =>
    request.includes('"thinking"') ? { status: 400, body: rejection("thinking: unknown field") } : answer;
  const { output } = await compare();
  assert.match(output, /s01 to s06: a request with thinking.* fails .*unknown field.*\n.*THINKING=off/);
});
