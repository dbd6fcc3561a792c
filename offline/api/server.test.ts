// Tests the local Messages API over real HTTP, through the SDK.
import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { BASE, CACHE, CASES, HOUR, isLarge, puzzleModel, START, SUMMARIZED } from "./cases.ts";
import { converse, ask as send, tryCase } from "./conformance.ts";
import { RULES } from "./errors.ts";
import { say, use } from "./said.ts";
import { type Failure, type ReplyBlock, scripted, startServer } from "./server.ts";

const server = await startServer();
after(() => server.close());
const settings = { ...server };
beforeEach(() => Object.assign(server, settings, { model: () => say("ok") }));

const client = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 });
const TOOLS = START.tools;
const REQUEST = { ...BASE, max_tokens: 1000 };

const ask = (fields: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) =>
  client.messages.create({ ...REQUEST, ...fields });
const isError = (status: number, apiMessage: string) => ({ status, apiMessage });
const lastEntry = () => server.journal.at(-1) ?? assert.fail("the journal is empty");

server.model = puzzleModel;
const talk = await converse(client, 3);
for (const each of CASES)
  test(`${each.expected.rule ? "rejects" : "accepts"}: ${each.name}`, async () => {
    server.model = puzzleModel;
    const { verdict, answer, reason } = await tryCase(client, each, talk);
    assert.equal(verdict, "same", reason ?? `${answer?.status} ${answer?.message}`);
    const { status, error = "", rule } = lastEntry();
    assert.deepEqual([status, rule], [each.expected.status, each.expected.rule]);
    if (rule) assert.equal(error, answer?.message);
  });

test("every rule has a rejected case", () => {
  const broken = CASES.map(({ expected }) => `${expected.rule}`);
  for (const rule of RULES) assert.ok(broken.includes(rule), rule);
});

test("count_tokens returns the size of a prompt without an answer from the model", async () => {
  await ask({ tools: TOOLS });
  const { max_tokens: _, ...request } = { ...REQUEST, tools: TOOLS };
  const requests = server.journal.length;
  assert.deepEqual(await client.messages.countTokens(request), { input_tokens: lastEntry().promptTokens });
  const withOutput = client.post("/v1/messages/count_tokens", { body: REQUEST });
  await assert.rejects(withOutput, isError(400, "max_tokens: Extra inputs are not permitted"));
  assert.equal(server.journal.length, requests);
});

test("a bearer token is a credential as well, and other paths answer 404 without a journal entry", async () => {
  await client.withOptions({ apiKey: null, authToken: "abc" }).messages.create(REQUEST);
  const requests = server.journal.length;
  await assert.rejects(client.models.list(), isError(404, "Not Found"));
  assert.equal(server.journal.length, requests);
});

test("an idle connection stays open, so a client that is slow to send its next request doesn't lose it", async () => {
  const { headers } = await fetch(server.url);
  assert.deepEqual([headers.get("connection"), headers.get("keep-alive")], ["keep-alive", null]); // no time limit
});

test("prompt and reply fill the window but don't exceed it, nor max_tokens, and no character is split", async () => {
  server.model = () => ({ ...say("😀".repeat(500)), thinks: false });
  const endOf = ({ content, stop_reason }: Anthropic.Message) => [Object(content[0]).text, stop_reason];
  assert.deepEqual(endOf(await ask({ max_tokens: 3 })), ["😀".repeat(4), "max_tokens"]);
  const { promptTokens } = lastEntry();
  server.contextLimit = promptTokens + 4;
  assert.deepEqual(endOf(await ask()), ["😀".repeat(6), "model_context_window_exceeded"]);
  const longer = ask({ messages: [{ role: "user", content: `hello${"x".repeat(15)}` }] }); // three characters a token
  const message = `prompt is too long: ${promptTokens + 5} tokens > ${promptTokens + 4} maximum`;
  await assert.rejects(longer, isError(400, message));
});

test("the journal has each request with its answer, and a script that has run out is a 500", async () => {
  server.model = scripted(say("only this"));
  const { content, usage } = await ask();
  const { request, reply, usage: counted, stop_reason, status } = lastEntry();
  assert.deepEqual([request, reply, counted, stop_reason, status], [REQUEST, content, usage, "end_turn", 200]);
  await assert.rejects(ask(), isError(500, "the script has run out: request 2, but only 1 replies"));
});

const NOTE = { type: "thinking", thinking: "First I look around, then I decide what to do. 😀" } as const;
const CALLS = [use("bash", { command: "ls" }, "a"), use("bash", { command: "echo 你好 😀".repeat(9) }, "b")];
const STREAMED: Record<string, { reply: ReplyBlock[]; failure?: Failure; ends: string }> = {
  text: { reply: say("one\n\nevent: message_stop\ndata: {}\n\n".repeat(3)).content, ends: "end_turn" },
  calls: { reply: [NOTE, { type: "redacted_thinking" }, ...CALLS], ends: "tool_use" },
  "a refusal": { reply: CALLS, failure: { kind: "refusal" }, ends: "refusal" },
};
for (const [name, { reply, failure, ends }] of Object.entries(STREAMED))
  test(`a stream adds up to the same message as a plain answer: ${name}`, async () => {
    server.model = () => ({ content: reply });
    if (failure) server.fail(failure, failure);
    const request = { ...REQUEST, tools: TOOLS, thinking: SUMMARIZED };
    const plain = await ask(request);
    const { parsed_output: _, ...streamed } = await client.messages.stream(request).finalMessage();
    assert.deepEqual(JSON.parse(JSON.stringify({ ...streamed, id: plain.id })), JSON.parse(JSON.stringify(plain)));
    assert.equal(plain.stop_reason, ends);
    assert.equal(plain.stop_details?.type, ends === "refusal" ? "refusal" : undefined);
  });

const long = (letter: string): Anthropic.MessageParam => ({ role: "user", content: letter.repeat(3000) });
const X: Anthropic.TextBlockParam = { type: "text", text: "x" };
const texts = (count: number): Anthropic.MessageParam => ({ role: "user", content: Array(count).fill(X) });
/** Sends a prompt that ends with a breakpoint. Returns what was read from the cache and written to it. */
async function cached(messages: Anthropic.MessageParam[], fields: Partial<Anthropic.MessageCreateParams> = {}) {
  const { usage } = await ask({ messages, cache_control: CACHE, ...fields, stream: false });
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, cache_creation, input_tokens } = usage;
  const forHour = cache_creation?.ephemeral_1h_input_tokens ?? 0;
  assert.equal(forHour + (cache_creation?.ephemeral_5m_input_tokens ?? 0), written);
  assert.equal(input_tokens + (read ?? 0) + (written ?? 0), lastEntry().promptTokens);
  return { read, written, forHour, size: lastEntry().promptTokens };
}

test("after a change of tools, system or model nothing is read from the cache, except after that of a deferred tool", async () => {
  const base = { tools: TOOLS, system: "Be brief." };
  const { size } = await cached([long("d")], base);
  for (const change of [{ tools: [] }, { system: "" }, { model: "claude-haiku-5-5" }])
    assert.equal((await cached([long("d")], { ...base, ...change })).read, 0);
  const deferred = { name: "later", input_schema: { type: "object" as const }, defer_loading: true };
  assert.equal((await cached([long("d")], { ...base, tools: [...TOOLS, deferred] })).read, size);
});

test("a lookup goes back 20 positions, the breakpoint's own included", async () => {
  const { size } = await cached([long("f")]);
  assert.equal((await cached([long("f"), texts(20)])).read, 0);
  assert.equal((await cached([long("f"), texts(19)])).read, size);
});

const LEAST = { "claude-sonnet-5-5": 512, "claude-sonnet-5": 1024, "claude-opus-4-7": 2048, "claude-haiku-4-5": 4096 };
for (const [model, least] of Object.entries(LEAST))
  test(`${model} caches ${least} tokens, but not one less`, async () => {
    const ofSize = (tokens: number) => cached([{ role: "user", content: "s".repeat(3 * tokens) }], { model });
    const { size: empty } = await ofSize(100);
    assert.equal((await ofSize(least - empty + 99)).written, 0);
    assert.equal((await ofSize(least - empty + 100)).written, least);
  });

test("a run of calls or of results is one position", async () => {
  const ids = Array.from({ length: 30 }, (_, i) => `call_${i}`);
  const calls = ids.map((id) => ({ type: "tool_use" as const, id, name: "bash", input: {} }));
  const results = ids.map((id) => ({ type: "tool_result" as const, tool_use_id: id, content: "x" }));
  const round: Anthropic.MessageParam[] = [
    { role: "assistant", content: calls },
    { role: "user", content: results },
  ];
  const { size } = await cached([long("i")], { tools: TOOLS });
  assert.equal((await cached([long("i"), ...round, texts(18)], { tools: TOOLS })).read, 0);
  assert.equal((await cached([long("i"), ...round, texts(17)], { tools: TOOLS })).read, size);
});

test("a cache entry lives for five minutes, or for an hour if its breakpoint says so, after its last use", async () => {
  for (const ttl of ["5m", "1h"] as const) {
    const life = ttl === "1h" ? 60 : 5; // minutes
    server.clock = () => 0;
    const { size, forHour } = await cached([long(ttl)], { cache_control: { type: "ephemeral", ttl } });
    assert.equal(forHour, ttl === "1h" ? size : 0);
    for (const minute of [life - 1, 2 * life - 2, 3 * life - 1]) {
      server.clock = () => minute * 60_000;
      assert.equal((await cached([long(ttl), long(`${minute}`)])).read, minute > 2 * life ? 0 : size);
    }
  }
});

test("an hour costs what it adds: up to the last breakpoint of an hour, and five minutes from there", async () => {
  const text = { type: "text", text: "l".repeat(3000), cache_control: HOUR } as const;
  const [short, hour] = [await cached([long("j")]), await cached([long("j"), long("k")], { cache_control: HOUR })];
  assert.deepEqual([short.forHour, hour.read, hour.forHour], [0, short.size, hour.size - short.size]);
  const both = await cached([long("j"), long("k"), { role: "user", content: [text] }, long("m")]);
  assert.deepEqual([both.read, both.forHour, both.written], [hour.size, 1010, both.size - hour.size]);
});

test("a request with anything in any place of it is accepted or rejected by a rule, and never a 500", async () => {
  const small = CASES.filter((each) => typeof each.sends === "object" && !isLarge(each));
  const requests = small.map(({ sends }) => ({ ...BASE, ...Object(sends) }));
  const tampering = [fc.constantFrom(...requests), fc.nat({ max: 60 }), fc.option(fc.jsonValue())] as const;
  const check = async (request: object, place: number, value: unknown) => {
    let visited = 0; // JSON.stringify visits the request itself first, and undefined removes a field
    const body = JSON.stringify(request, (_, old) => (visited++ === place + 1 ? (value ?? undefined) : old));
    const { message } = await send(client, body);
    const { status, rule = "" } = lastEntry();
    assert.ok(status === 200 || rule, `${status} ${message}: ${body}`);
    if (rule.startsWith("field ")) assert.match(message, /^[a-z_]+.*: (Field|Extra|Input|String)/s, "the place");
  };
  await fc.assert(fc.asyncProperty(...tampering, check), { numRuns: 300, examples: [[BASE, 4, { toString: {} }]] });
});
