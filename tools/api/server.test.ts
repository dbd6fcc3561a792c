// Tests the local Messages API over real HTTP, through the SDK.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, beforeEach, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { BETAS, readBetas } from "./betas.ts";
import { BASE, CACHE, CASES, HOUR, isLarge, puzzleModel, START, SUMMARIZED } from "./cases.ts";
import { converse, ask as send, tryCase } from "./conformance.ts";
import { RULES } from "./errors.ts";
import { parseRequest } from "./request.ts";
import { checkRules } from "./rules.ts";
import { type Failure, type Reply, type ReplyBlock, scripted, startServer } from "./server.ts";

const server = await startServer();
after(() => server.close());
const settings = { ...server };
beforeEach(() => Object.assign(server, settings, { model: () => say("ok") }));

const client = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 });
const TOOLS = START.tools;
const REQUEST = { ...BASE, max_tokens: 1000 };

const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
const bash = (command: string, id?: string): ReplyBlock => ({ type: "tool_use", name: "bash", input: { command }, id });

const ask = (fields: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) =>
  client.messages.create({ ...REQUEST, ...fields });
/** A client's request, in which each text is an `x`. */
type ClientRequest = { client: string; path: string; betas?: string; body: Anthropic.MessageCreateParams };
const isError = (status: number, message: string) => (error: unknown) => {
  assert.ok(error instanceof Anthropic.APIError, String(error));
  assert.deepEqual([error.status, error.apiMessage], [status, message]);
  return true;
};
const lastEntry = () => server.journal.at(-1) ?? assert.fail("the journal is empty");

// --- what it accepts and rejects -------------------------------------------------------------------------------------

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
  const broken = new Set<string | undefined>(CASES.map(({ expected }) => expected.rule));
  assert.deepEqual(
    RULES.filter((rule) => !broken.has(rule)),
    [],
  );
});

test("the requests of real clients are accepted, except for one that forces a tool on Sonnet 5.5", () => {
  const requests: ClientRequest[] = JSON.parse(readFileSync(new URL("clients.json", import.meta.url), "utf8"));
  const rejected = requests.flatMap(({ client, path, betas, body }) => {
    try {
      checkRules(parseRequest(body, readBetas(betas), path.endsWith("/count_tokens")));
      return [];
    } catch (error) {
      return `${client}: ${error}`;
    }
  });
  const forced = "Error: Thinking may not be enabled when tool_choice forces tool use.";
  assert.deepEqual([requests.length, rejected], [33, [`@langchain/anthropic 1.5: ${forced}`]]);
});

test("every beta in the SDK's types is known", () => {
  const types = new URL("resources/beta/beta.d.ts", import.meta.resolve("@anthropic-ai/sdk/index.js"));
  const [, union = ""] = /type AnthropicBeta = (.*);/.exec(readFileSync(types, "utf8")) ?? [];
  const names = Array.from(union.matchAll(/'(.+?)'/g), ([, name]) => name ?? "");
  assert.ok(names.length > 50);
  for (const name of names) assert.ok(BETAS.includes(name), name);
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

// --- the context window ----------------------------------------------------------------------------------------------

test("a prompt may fill the context window but not exceed it, at three characters per token", async () => {
  await ask();
  const size = lastEntry().promptTokens;
  server.contextLimit = size + 100;
  await ask({ messages: [{ role: "user", content: `hello${"x".repeat(300)}` }] });
  const tooLong = ask({ messages: [{ role: "user", content: `hello${"x".repeat(303)}` }] });
  await assert.rejects(tooLong, isError(400, `prompt is too long: ${size + 101} tokens > ${size + 100} maximum`));
});

test("a reply stops at max_tokens or at the end of the window without splitting a character", async () => {
  server.model = () => ({ ...say("😀".repeat(500)), thinks: false });
  const endOf = ({ content, stop_reason }: Anthropic.Message) => [Object(content[0]).text, stop_reason];
  assert.deepEqual(endOf(await ask({ max_tokens: 3 })), ["😀".repeat(4), "max_tokens"]);
  server.contextLimit = lastEntry().promptTokens + 4;
  assert.deepEqual(endOf(await ask()), ["😀".repeat(6), "model_context_window_exceeded"]);
});

// --- replies ---------------------------------------------------------------------------------------------------------

test("the journal has each request with its answer, and a script that has run out is a 500", async () => {
  server.model = scripted(say("only this"));
  const { content, usage } = await ask();
  const { request, reply, usage: counted, stop_reason, status } = lastEntry();
  assert.deepEqual([request, reply, counted, stop_reason, status], [REQUEST, content, usage, "end_turn", 200]);
  await assert.rejects(ask(), isError(500, "the script has run out: request 2, but only 1 replies"));
});

const NOTE = { type: "thinking", thinking: "First I look around, then I decide what to do. 😀" } as const;
const TWO_CALLS = [NOTE, bash("ls", "a"), bash("rm -rf build; echo 你好 😀".repeat(3), "b")];
const STREAMED: Record<string, { reply: ReplyBlock[]; failure?: Failure; ends: string }> = {
  text: { reply: say("one\n\nevent: message_stop\ndata: {}\n\n".repeat(3)).content, ends: "end_turn" },
  calls: { reply: [NOTE, { type: "redacted_thinking" }, ...TWO_CALLS], ends: "tool_use" },
  nothing: { reply: [], ends: "end_turn" },
  "a refusal": { reply: TWO_CALLS, failure: { kind: "refusal" }, ends: "refusal" },
  "text that is cut": {
    reply: [NOTE, ...say("0123456789").content],
    failure: { kind: "context_window" },
    ends: "model_context_window_exceeded",
  },
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

test("when a reply is cut, its last call has half of its JSON and the call before it is complete", async () => {
  server.model = () => ({ content: TWO_CALLS });
  server.fail({ kind: "max_tokens" });
  const json = ["", "", ""];
  for await (const event of await client.messages.create({ ...REQUEST, tools: TOOLS, stream: true })) {
    if (event.type !== "content_block_delta" || event.delta.type !== "input_json_delta") continue;
    json[event.index] += event.delta.partial_json;
  }
  assert.deepEqual(JSON.parse(json[1] ?? ""), { command: "ls" });
  assert.match(json[2] ?? "", /^\{"command":"rm -rf [^"]*$/);
  assert.equal(lastEntry().stop_reason, "max_tokens");
});

// --- failures on demand ----------------------------------------------------------------------------------------------

test("each failure fails one request, with the ordered message, and the SDK retries after a 429 or 529", async () => {
  server.fail({ kind: "status", status: 400, message: "on demand" });
  await assert.rejects(ask(), isError(400, "on demand"));
  const requests = server.journal.length;
  server.fail({ kind: "status", status: 529, retryAfter: 0.01 }, { kind: "status", status: 429, retryAfter: 0.01 });
  await client.messages.create(REQUEST, { maxRetries: 2 });
  const statuses = server.journal.slice(requests).map(({ status }) => status);
  assert.deepEqual(statuses, [529, 429, 200]);
});

test("a dropped connection or an overload breaks a stream halfway and a plain answer at once", async () => {
  server.model = () => say(`x${"😀".repeat(300)}`);
  for (const kind of ["drop", "error_event"] as const) {
    server.fail({ kind }, { kind });
    const seen: string[] = [];
    const stream = client.messages.stream(REQUEST).on("text", (text) => seen.push(text));
    await assert.rejects(stream.finalMessage(), Anthropic.AnthropicError);
    assert.ok(seen.length > 1 && seen.every((text) => text.isWellFormed()));
    assert.equal(lastEntry().error, kind);
    await assert.rejects(ask(), kind === "drop" ? Anthropic.APIConnectionError : isError(529, "Overloaded"));
  }
});

// --- usage and the prompt cache --------------------------------------------------------------------------------------

const long = (letter: string): Anthropic.MessageParam => ({ role: "user", content: letter.repeat(3000) });
const texts = (count: number): Anthropic.MessageParam => ({
  role: "user",
  content: Array.from({ length: count }, () => ({ type: "text", text: "x" })),
});
/** Sends a prompt that ends with a breakpoint. Returns what was read from the cache and written to it. */
async function cached(messages: Anthropic.MessageParam[], fields: Partial<Anthropic.MessageCreateParams> = {}) {
  const { usage } = await ask({ messages, cache_control: CACHE, ...fields, stream: false });
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, cache_creation, input_tokens } = usage;
  const forHour = cache_creation?.ephemeral_1h_input_tokens ?? 0;
  assert.equal(forHour + (cache_creation?.ephemeral_5m_input_tokens ?? 0), written);
  assert.equal(input_tokens + (read ?? 0) + (written ?? 0), lastEntry().promptTokens);
  return { read, written, forHour, size: lastEntry().promptTokens };
}

test("a breakpoint writes the prompt to the cache, where a prompt that begins the same way finds it", async () => {
  const one = await cached([long("a")]);
  assert.deepEqual([one.read, one.written], [0, one.size]);
  const two = await cached([long("a"), long("b")]);
  assert.deepEqual([two.read, two.written], [one.size, two.size - one.size]);
  assert.equal((await cached([long("a"), long("b")])).read, two.size);
  assert.equal((await cached([long("a"), long("c")], { cache_control: null })).read, 0);
});

test("after a change of tools, system, messages or model nothing is read from the cache", async () => {
  const base = { tools: TOOLS, system: "Be brief." };
  await cached([long("d")], base);
  assert.ok((await cached([long("d")], base)).read);
  assert.equal((await cached([long("e")], base)).read, 0);
  for (const change of [{ tools: [] }, { system: "" }, { model: "claude-haiku-5-5" }])
    assert.equal((await cached([long("d")], { ...base, ...change })).read, 0);
});

test("a deferred tool isn't part of the prompt, so adding one keeps the cache", async () => {
  const [tool = assert.fail()] = TOOLS;
  const { size } = await cached([long("h")], { tools: TOOLS });
  const deferred = { ...tool, name: "later", defer_loading: true };
  assert.equal((await cached([long("h")], { tools: [...TOOLS, deferred] })).read, size);
});

test("a lookup goes back 20 positions, the breakpoint's own included, and under 512 tokens nothing is cached", async () => {
  const { size } = await cached([long("f")]);
  assert.equal((await cached([long("f"), texts(20)])).read, 0);
  assert.equal((await cached([long("f"), texts(19)])).read, size);
  const short = (tokens: number) => cached([{ role: "user", content: "s".repeat(3 * tokens) }]);
  const { size: empty } = await short(100);
  assert.equal((await short(511 - empty + 100)).written, 0);
  assert.equal((await short(512 - empty + 100)).written, 512);
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
  for (const [ttl, minutes] of [
    ["5m", [4, 9, 15]],
    ["1h", [59, 118, 179]],
  ] as const) {
    const readAt = async (minute: number) => {
      server.clock = () => minute * 60_000;
      return (await cached([long(ttl), long(`${minute}`)])).read;
    };
    server.clock = () => 0;
    const { size, forHour } = await cached([long(ttl)], { cache_control: { type: "ephemeral", ttl } });
    assert.equal(forHour, ttl === "1h" ? size : 0);
    const reads: unknown[] = [];
    for (const minute of minutes) reads.push(await readAt(minute));
    assert.deepEqual(reads, [size, size, 0]);
  }
});

test("an hour costs what it adds: up to the last breakpoint of an hour, and five minutes from there", async () => {
  const marked = (letter: string, ttl: "5m" | "1h"): Anthropic.MessageParam => {
    const text = letter.repeat(3000);
    return { role: "user", content: [{ type: "text", text, cache_control: { type: "ephemeral", ttl } }] };
  };
  const [short, hour] = [await cached([long("j")]), await cached([long("j"), long("k")], { cache_control: HOUR })];
  assert.deepEqual([short.forHour, hour.read, hour.forHour], [0, short.size, hour.size - short.size]);
  const both = await cached([long("j"), long("k"), marked("l", "1h"), long("m")]);
  assert.deepEqual([both.read, both.forHour, both.written], [hour.size, 1010, both.size - hour.size]);
});

// --- requests that nobody thought of ---------------------------------------------------------------------------------

/** Sends a body, and checks that it's accepted or that a rule rejects it. Returns the answer. */
async function sendAnything(body: string) {
  const answer = await send(client, body);
  const { status, rule = "" } = lastEntry();
  assert.ok(status === 200 || rule, `${status} ${answer.message}: ${body}`);
  if (rule.startsWith("field ")) assert.match(answer.message, /^[a-z_]+.*: (Field|Extra|Input|String)/s, "the place");
  return answer;
}

test("a request with anything in any place of it is accepted or rejected by a rule, and never a 500", async () => {
  const small = CASES.filter((each) => typeof each.sends === "object" && !isLarge(each));
  const requests = small.map(({ sends }) => ({ ...BASE, ...Object(sends) }));
  const tampering = [fc.constantFrom(...requests), fc.nat({ max: 60 }), fc.option(fc.jsonValue())] as const;
  const check = async (request: object, place: number, value: unknown) => {
    let visited = 0; // JSON.stringify visits the request itself first, and undefined removes a field
    const tampered = JSON.stringify(request, (_, old) => (visited++ === place + 1 ? (value ?? undefined) : old));
    await sendAnything(tampered);
  };
  await fc.assert(fc.asyncProperty(...tampering, check), { numRuns: 300 });
});

test("a body nested 100,000 deep is rejected with the place, and 10 MB of text fill the window", async () => {
  const nested = `{"messages":[{"role":"user","content":${"[".repeat(1e5)}${"]".repeat(1e5)}}]}`;
  const at = "messages.0.content.0.0.0.0.0";
  const message = `The request body is not valid JSON: recursion limit exceeded at ${at}`;
  assert.deepEqual(await sendAnything(nested), { status: 400, message });
  const { message: tooLong } = await sendAnything(JSON.stringify({ ...BASE, messages: [long("x".repeat(3_400))] }));
  assert.match(tooLong, /^prompt is too long: 34\d+ tokens > 200000 maximum$/);
});
