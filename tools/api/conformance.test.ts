// Runs `npm run conformance` against the local server, and against a proxy that changes some of its answers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { after, beforeEach, test } from "node:test";
import { CASES, LARGE_CASES, puzzleModel } from "./cases.ts";
import { main } from "./conformance.ts";
import { startServer } from "./server.ts";

const server = await startServer();
const KEY = "sk-not-for-the-screen";

type Answer = { status: number; body: string; type: string | null };
/** Changes a request on its way through the proxy. */
let change = (request: string) => request;
/** Changes an answer on its way back. */
let alter = (_request: string, answer: Answer): Answer => answer;
const proxy = createServer(async (req, res) => {
  const sent = change(await text(req));
  const names = ["content-type", "x-api-key", "authorization", "anthropic-version", "anthropic-beta"];
  const headers = names.flatMap((name): [string, string][] =>
    req.headers[name] ? [[name, `${req.headers[name]}`]] : [],
  );
  const response = await fetch(server.url + req.url, { method: "POST", headers, body: sent });
  const type = response.headers.get("content-type");
  const answer = alter(sent, { status: response.status, body: await response.text(), type });
  res.writeHead(answer.status, { "content-type": `${answer.type}`, "retry-after": "0.01" }).end(answer.body);
}).listen(0, "127.0.0.1");
await once(proxy, "listening");
const { port } = Object(proxy.address());
after(() => {
  proxy.close();
  return server.close();
});
beforeEach(() => {
  // Empty rather than deleted, or a .env would set them.
  Object.assign(process.env, { ANTHROPIC_API_KEY: KEY, ANTHROPIC_AUTH_TOKEN: "", ANTHROPIC_PROFILE: "", MODEL_ID: "" });
  Object.assign(server, { model: puzzleModel, reportedUsage: undefined });
  change = (request) => request;
  alter = (_, answer) => answer;
});

const PROXY = `http://127.0.0.1:${port}`;
/** Runs the command on the proxy. `differing` has the lines about each case that differs. */
async function compare() {
  let output = "";
  const code = await main(["--server", PROXY], (line) => {
    output += `${line}\n`;
  });
  assert.ok(!output.includes(KEY), "the key is on the screen");
  return { code, output, differing: output.match(/^differs .*\n.*\n.*/gm) ?? [] };
}

const isRejected = (body: string, words: string) => body.includes('"type":"error"') && body.includes(words);
function reject(status: number, message: string): Answer {
  const body = JSON.stringify({ type: "error", error: { type: "invalid_request_error", message } });
  return { status, body, type: "application/json" };
}

test("a missing rule, an additional rule and another status differ; other words are shown but count as the same", async () => {
  const reword = (answer: Answer) => ({ ...answer, body: answer.body.replace("be unique.", "differ.") });
  alter = (_, answer) => reword(answer);
  assert.equal((await compare()).code, 0);
  alter = (request, answer) => {
    if (isRejected(answer.body, "prefill")) return { status: 200, body: "{}", type: "application/json" };
    if (request.includes('"stop_sequences"')) return reject(400, "no stop sequences here");
    if (isRejected(answer.body, "at least one message")) return { ...answer, status: 422 };
    return reword(answer);
  };
  const { code, output, differing } = await compare();
  assert.deepEqual([code, differing.length], [1, 3]);
  const all = differing.join("\n");
  const sent = CASES.length - LARGE_CASES.length;
  assert.match(
    all,
    /^differs +prefill .*\n +expected: 400 This model does not.* user message\.\n +answered: accepted$/m,
  );
  assert.match(all, /fields without effect\n +expected: accepted\n +answered: 400 no stop sequences here$/m);
  assert.match(all, /expected: 400 (messages: at least .*)\n +answered: 422 \1/);
  assert.match(output, /^reworded .*\n.*must be unique\.\n +answered: 400 tools: Tool names must differ\.$/m);
  const count = `${sent - 3} the same, 1 of them in other words; 3 differ, 0 could not be tried`;
  assert.ok(output.includes("\nThe lessons run on this server.\n") && output.includes(count), output);
});

test("a server that ignores stream: true is named as such", async () => {
  change = (request) => request.replace('"stream":true', '"stream":false');
  const { output } = await compare();
  assert.match(output, /^The lessons don't run on this server:\nit ignores `stream: true`/m);
});

test("if a server rejects what the lessons send, its message is shown, and THINKING=off is suggested", async () => {
  alter = (request, answer) => (request.includes('"thinking"') ? reject(400, "thinking: unknown field") : answer);
  const { output } = await compare();
  assert.match(output, /^The lessons don't run .*\nit rejects .*: 400 thinking: unknown field\n.*THINKING=off$/m);
});

test("an address without the API takes one line", async () => {
  alter = () => ({ status: 404, body: '{"detail":"Not Found"}', type: "application/json" });
  const { code, output } = await compare();
  assert.match(output, /ANTHROPIC_API_KEY\nhttp:.* has no Messages API, or doesn't know claude-sonnet-5-5 \(404\)\n$/);
  assert.equal(code, 1);
});

test("without a key, nothing is sent and a line says what to set", async () => {
  const sent = server.journal.length;
  process.env.ANTHROPIC_API_KEY = "";
  const said: string[] = [];
  assert.equal(await main([], (line) => said.push(line)), 1);
  assert.match(said.join("\n"), /^No key: set ANTHROPIC_API_KEY .*$/);
  assert.equal(server.journal.length, sent);
});

test("a wrong key ends the comparison and isn't printed", async () => {
  alter = () => reject(401, `invalid x-api-key ${KEY}`);
  const { code, output } = await compare();
  assert.match(output, /invalid x-api-key \(the key\)/);
  assert.deepEqual([code, output.includes("differ")], [1, false]);
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
