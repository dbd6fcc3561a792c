// Tests the local Messages API over real HTTP, through the SDK.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, beforeEach, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { BETAS, readBetas } from "./betas.ts";
import { BASE, CACHE, CASES, puzzleModel, START, SUMMARIZED } from "./cases.ts";
import { tryCase } from "./conformance.ts";
import { RULES } from "./errors.ts";
import { parseRequest } from "./request.ts";
import { checkRules } from "./rules.ts";
import { type Failure, type Reply, type ReplyBlock, scripted, startServer } from "./server.ts";
import { converse } from "./talk.ts";

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
const talk = await converse(client);
for (const each of CASES)
  test(`${each.expected.rule ? "rejects" : "accepts"}: ${each.name}`, async () => {
    server.model = puzzleModel;
    const { verdict, answer, reason } = await tryCase(client, each, talk);
    assert.equal(verdict, "same", reason ?? `${answer?.status} ${answer?.message}`);
    const { status, error = "", rule } = lastEntry();
    assert.deepEqual([status, rule], [each.expected.status, each.expected.rule]);
    if (rule) assert.equal(error, answer?.message);
  });

test("every rule has an accepted and a rejected case", () => {
  const broken = new Set<string | undefined>(CASES.map(({ expected }) => expected.rule));
  const almostBroken = new Set<string>(CASES.flatMap(({ almost = [] }) => almost));
  const lacking = RULES.filter((rule) => !broken.has(rule) || !almostBroken.has(rule));
  assert.deepEqual(lacking, []);
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
const blocks = (count: number): Anthropic.MessageParam => ({
  role: "user",
  content: Array.from({ length: count }, () => ({ type: "text", text: "x" })),
});
/** Sends a prompt that ends with a breakpoint. Returns what was read from the cache and written to it. */
async function cached(messages: Anthropic.MessageParam[], fields: Partial<Anthropic.MessageCreateParams> = {}) {
  const { usage } = await ask({ messages, cache_control: CACHE, ...fields, stream: false });
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, input_tokens } = usage;
  assert.equal(input_tokens + (read ?? 0) + (written ?? 0), lastEntry().promptTokens);
  return { read, written, size: lastEntry().promptTokens };
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

test("a lookup goes back 20 blocks from a breakpoint, and prompts under 512 tokens aren't cached", async () => {
  const { size } = await cached([long("f")]);
  assert.equal((await cached([long("f"), blocks(21)])).read, 0);
  assert.equal((await cached([long("f"), blocks(20)])).read, size);
  const short = (tokens: number) => cached([{ role: "user", content: "s".repeat(3 * tokens) }]);
  const { size: empty } = await short(100);
  assert.equal((await short(511 - empty + 100)).written, 0);
  assert.equal((await short(512 - empty + 100)).written, 512);
});

test("a cache entry lives for five minutes after its last use", async (t) => {
  t.mock.timers.enable({ apis: ["Date"] });
  const readAt = async (minute: number) => {
    t.mock.timers.setTime(minute * 60_000);
    return (await cached([long("g"), long(`${minute}`)])).read;
  };
  const { size } = await cached([long("g")]);
  assert.deepEqual([await readAt(4), await readAt(9), await readAt(15)], [size, size, 0]);
});
