// The Messages API on this machine: what it rejects, what it answers, and how it fails on demand. Over real HTTP, with the SDK.
import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Reply, type ReplyBlock, type Server, scripted, startServer } from "./server.ts";

const server = await startServer();
after(() => server.close());
const settings = { ...server };
beforeEach(() => Object.assign(server, settings, { reportedUsage: undefined, model: () => say("ok") }));

const client = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 });
const TOOLS: Anthropic.Tool[] = [{ name: "bash", input_schema: { type: "object" } }];
const MORE: Anthropic.Tool = { name: "more", input_schema: { type: "object" } };
const HELLO = { role: "user", content: "hello" } as const;
const BASE = { model: "claude-sonnet-5-5", max_tokens: 1000, messages: [HELLO] };
const CACHE = { type: "ephemeral" } as const;
const SUMMARIZED = { type: "adaptive", display: "summarized" } as const;

const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
const bash = (command: string, id?: string): ReplyBlock => ({ type: "tool_use", name: "bash", input: { command }, id });
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");

const text = (fields: object = {}) => ({ type: "text", text: "x", ...fields });
const use = (id: string, fields = {}) => ({ type: "tool_use", id, name: "bash", input: {}, ...fields });
const result = (id: string, fields = {}) => ({ type: "tool_result", tool_use_id: id, content: "done", ...fields });
const user = (...content: unknown[]) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
/** A history that begins with the user's hello. */
const history = (...messages: unknown[]) => ({ tools: TOOLS, messages: [HELLO, ...messages] });
const first = (...content: unknown[]) => ({ messages: [user(...content)] });
const tool = (fields: object) => ({ tools: [{ ...TOOLS[0], ...fields }] });
const old = (model: string) => ({ model, thinking: SUMMARIZED });
const thinking = { type: "thinking", thinking: "", signature: "x" };
const breakpoints = (n: number) => Array(n).fill(text({ cache_control: CACHE }));

/** Sends any body as it is, which the SDK would not. */
async function post(body: unknown, headers: Record<string, string> = { "x-api-key": "test" }) {
  const response = await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    headers: { "anthropic-version": "2023-06-01", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const answer = Object(await response.json());
  return { status: response.status, error: answer.error };
}

const ask = (fields: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) =>
  client.messages.create({ ...BASE, ...fields });
const ids = ({ content }: Anthropic.Message) =>
  content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
const isError = (status: number, message: string) => (error: unknown) => {
  assert.ok(error instanceof Anthropic.APIError, String(error));
  assert.deepEqual([error.status, error.apiMessage], [status, message]);
  return true;
};
const lastEntry = () => server.journal.at(-1) ?? assert.fail("the journal is empty");

// --- what it rejects -------------------------------------------------------------------------------------------------

const EXTRA = "Extra inputs are not permitted";
const BLOCKS = "'text', 'image', 'document', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result'";
const TAG = (tag: string, tags: string) =>
  `Input tag '${tag}' found using 'type' does not match any of the expected tags: ${tags}`;
const NAME = (length: number) => `String should match pattern '^[a-zA-Z0-9_-]{1,${length}}$'`;
const TOO_MANY =
  "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for claude-sonnet-5-5";
const BLANK = "messages: text content blocks must be non-empty";
const EMPTY = "all messages must have non-empty content except for the optional final assistant message";
const FORCED = "Thinking may not be enabled when tool_choice forces tool use.";
const PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message.";
const BREAKPOINTS = "A maximum of 4 blocks with cache_control may be provided. Found 5.";
const NO_TOOLS = "Requests which include `tool_use` or `tool_result` blocks must define tools.";
const WITHOUT = (type: string) =>
  `"thinking.type.${type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`;
const UNANSWERED = (ids: string) =>
  `messages.1: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`;
const UNIQUE = "`tool_use` ids must be unique";
const NO_REASON = "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true";
const TWICE =
  "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a";
const UNASKED = (at: string, id: string) =>
  `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`;

/** By the message that the API answers with: what each request changes in a valid one. */
const REJECTED: Record<string, object | object[]> = {
  "max_tokens: Input should be greater than or equal to 0": { max_tokens: -1 },
  "max_tokens: Input should be a valid integer": { max_tokens: 1.5 },
  [TOO_MANY]: { max_tokens: 128_001 },
  "messages: at least one message is required": { messages: [] },
  "messages: List should have at most 100000 items after validation": { messages: Array(100_001).fill(HELLO) },
  "messages.0.role: Input should be 'user', 'assistant'": { messages: [{ role: "tool", content: "x" }] },
  "messages.0.content: Input should be a valid list": { messages: [{ role: "user", content: 5 }] },
  [`messages.0.content.0: ${TAG("sound", BLOCKS)}`]: first({ type: "sound" }),
  "messages.0.content.0.text.text: Field required": first({ type: "text" }),
  [`messages.0.content.0.text.foo: ${EXTRA}`]: first(text({ foo: 1 })),
  "messages.1.content.0.thinking.signature: Field required": history(assistant({ type: "thinking", thinking: "" })),
  "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'": history(assistant(use("a b"))),
  [`messages.1.content.0.tool_use.name: ${NAME(200)}`]: history(assistant(use("a", { name: "a b" }))),
  "messages.1.content.0.tool_use.input: Input should be a valid dictionary": history(
    assistant(use("a", { input: [] })),
  ),
  "messages.1.content.0.tool_result.tool_use_id: Field required": history(user({ type: "tool_result" })),
  "system: Input should be a valid list": { system: 5 },
  "system: text content blocks must be non-empty": { system: [text({ text: " " })] },
  [`tools.0.custom.name: ${NAME(128)}`]: [tool({ name: "a.b" }), tool({ name: "x".repeat(129) })],
  [`tools.0.custom.foo: ${EXTRA}`]: tool({ foo: 1 }),
  "tools: Tool names must be unique.": { tools: [...TOOLS, ...TOOLS] },
  "cache_control.type: Input should be 'ephemeral'": { cache_control: { type: "eternal" } },
  [`foo: ${EXTRA}`]: { foo: 1 },
  [`tool_choice: ${TAG("all", "'auto', 'any', 'tool', 'none'")}`]: { tool_choice: { type: "all" } },
  [`thinking.budget_tokens: ${EXTRA}`]: { thinking: { type: "adaptive", budget_tokens: 2000 } },
  "thinking.display: Input should be 'summarized', 'omitted'": { thinking: { type: "adaptive", display: "full" } },
  // What the current models no longer take.
  "`temperature` is deprecated for this model.": { temperature: 1 },
  "`top_p` is deprecated for this model.": { top_p: 1 },
  "`top_k` is deprecated for this model.": { top_k: 1 },
  [WITHOUT("disabled")]: { thinking: { type: "disabled" } },
  [WITHOUT("enabled")]: { thinking: { type: "enabled", budget_tokens: 2000 } },
  "adaptive thinking is not supported on this model": [old("claude-3-haiku-20240307"), old("claude-sonnet-4-5")],
  [FORCED]: [{ tool_choice: { type: "any" } }, { tool_choice: { type: "tool", name: "bash" } }],
  [BREAKPOINTS]: [
    first(...breakpoints(5)),
    { ...first(...breakpoints(2)), cache_control: CACHE, system: breakpoints(2) },
    { ...history(assistant(use("a")), user(result("a", { content: breakpoints(4) }))), cache_control: CACHE },
  ],
  // Histories.
  'messages: first message must use the "user" role': { messages: [assistant(text()), HELLO] },
  [PREFILL]: history(assistant(text())),
  [BLANK]: [first(text({ text: "" })), first(text({ text: " \n" })), { messages: [{ role: "user", content: " " }] }],
  [`messages.1: ${EMPTY}`]: [history(assistant(), HELLO), history(assistant()), history({ role: "user", content: "" })],
  [NO_REASON]: history(assistant(use("a")), user(result("a", { content: "", is_error: true }))),
  [UNANSWERED("a")]: [
    history(assistant(use("a"))),
    history(assistant(use("a")), HELLO),
    history(assistant(use("a")), user(text(), result("a"))),
    history(assistant(use("a")), HELLO, assistant(text()), user(result("a"))),
  ],
  [UNANSWERED("a, c")]: history(assistant(use("a"), use("b"), use("c")), user(result("b"))),
  [UNANSWERED("b")]: history(assistant(use("a"), use("b")), user(result("a"), text(), result("b"))),
  [UNASKED("messages.1.content.0", "a")]: history(user(result("a"))),
  [UNASKED("messages.2.content.1", "b")]: history(assistant(use("a")), user(result("a"), result("b"))),
  [TWICE]: history(assistant(use("a")), user(result("a"), result("a"))),
  [`messages.1.content.1: ${UNIQUE}`]: history(assistant(use("a"), use("a")), user(result("a"))),
  [`messages.3.content.0: ${UNIQUE}`]: history(assistant(use("a")), user(result("a")), assistant(use("a"))),
  [NO_TOOLS]: { ...history(assistant(use("a")), user(result("a"))), tools: undefined },
  "messages.1.content.0: `tool_use` blocks can only be in `assistant` messages": history(user(use("a"))),
  "messages.1.content.0: `thinking` blocks can only be in `assistant` messages": history(user(thinking)),
  "messages.1.content.0: `tool_result` blocks can only be in `user` messages": history(assistant(result("a")), HELLO),
};

for (const [message, requests] of Object.entries(REJECTED))
  test(`rejects: ${message}`, async () => {
    for (const changes of [requests].flat()) {
      const answer = await post({ ...BASE, ...changes });
      assert.deepEqual(answer, { status: 400, error: { type: "invalid_request_error", message } });
      assert.deepEqual([lastEntry().status, lastEntry().error], [400, message]);
    }
  });

test("rejects a body that is not JSON, and one with half of a surrogate pair", async () => {
  assert.match((await post("{")).error.message, /^The request body is not valid JSON: /);
  const half = await post({ ...BASE, messages: [{ role: "user", content: "\ud83d" }] });
  assert.equal(half.error.message, "The request body is not valid JSON: no low surrogate in string");
  assert.equal((await post({ ...BASE, messages: [{ role: "user", content: "\u{1f600} \\ud83d" }] })).status, 200);
});

test("rejects a request without a credential, without a version, or for another path", async () => {
  assert.equal((await post(BASE, {})).status, 401);
  assert.equal((await post(BASE, { authorization: "Bearer abc" })).status, 200);
  const { error } = await post(BASE, { "x-api-key": "test", "anthropic-version": "" });
  assert.equal(error.message, "anthropic-version: header is required");
  const requests = server.journal.length;
  await assert.rejects(client.models.list(), isError(404, "Not Found"));
  assert.equal(server.journal.length, requests);
});

test("merges neighbours of one role, and accepts what the API accepts", async () => {
  const accepted = [
    history(HELLO),
    history(assistant(use("a")), assistant(use("b")), user(result("b")), user(result("a"), text())),
    history(assistant(use("a", { caller: null })), user(result("a", { content: undefined }))),
    history(assistant(use("a")), user(result("a", { content: [text()], is_error: true }))),
    { thinking: { type: "between_tools" }, tool_choice: { type: "auto" }, stop_sequences: ["x"], metadata: {} },
    { ...first(...breakpoints(4)), max_tokens: 128_000 },
    { model: "claude-haiku-4-5", ...first({ type: "image", source: { type: "url", url: "https://example.com" } }) },
  ];
  for (const changes of accepted)
    assert.deepEqual(await post({ ...BASE, ...changes }), { status: 200, error: undefined });
});

// --- the context window ----------------------------------------------------------------------------------------------

test("a prompt may fill the context window and no more; three characters are a token", async () => {
  await ask();
  const size = lastEntry().promptTokens;
  server.contextLimit = size + 100;
  await ask({ messages: [{ role: "user", content: `hello${"x".repeat(300)}` }] });
  const tooLong = ask({ messages: [{ role: "user", content: `hello${"x".repeat(303)}` }] });
  await assert.rejects(tooLong, isError(400, `prompt is too long: ${size + 101} tokens > ${size + 100} maximum`));
});

test("where max_tokens counts, prompt and max_tokens must fit into the window together", async () => {
  await ask();
  const size = lastEntry().promptTokens;
  server.contextLimit = size + 999;
  await ask();
  const message = `input length and \`max_tokens\` exceed context limit: ${size} + 1000 > ${size + 999}, decrease input length or \`max_tokens\` and try again`;
  await assert.rejects(ask({ model: "claude-3-haiku-20240307" }), isError(400, message));
  server.countsMaxTokens = true;
  await assert.rejects(ask(), isError(400, message));
  await ask({ max_tokens: 999 });
});

test("a reply is cut where max_tokens or the window ends, and never inside a character", async () => {
  const faces = { content: [{ type: "redacted_thinking" as const }, ...say("😀".repeat(500)).content] };
  server.model = () => faces;
  const short = await ask({ max_tokens: 3 });
  assert.deepEqual([textOf(short), short.stop_reason], ["😀".repeat(4), "max_tokens"]);
  server.contextLimit = lastEntry().promptTokens + 4;
  const full = await ask();
  assert.deepEqual([textOf(full), full.stop_reason], ["😀".repeat(6), "model_context_window_exceeded"]);
});

// --- replies ---------------------------------------------------------------------------------------------------------

test("a reply begins with thinking, which is empty unless a summary is asked for", async () => {
  const thinkingFor = async (thinking?: Anthropic.ThinkingConfigParam) => Object((await ask({ thinking })).content[0]);
  assert.equal((await thinkingFor()).thinking, "");
  assert.equal((await thinkingFor(SUMMARIZED)).thinking, "Looking at what is needed next.");
});

test("the script runs out with a 500, and the journal keeps each request and its answer", async () => {
  server.model = scripted(say("only this"));
  const { content, usage } = await ask();
  const { request, reply, usage: counted, stop_reason, status } = lastEntry();
  assert.deepEqual([request, reply, counted, stop_reason, status], [BASE, content, usage, "end_turn", 200]);
  await assert.rejects(ask(), isError(500, "the script has run out: request 2, but only 1 replies"));
});

const NOTE = { type: "thinking", thinking: "First I look around, then I decide what to do. 😀" } as const;
const TWO_CALLS = [NOTE, bash("ls", "a"), bash("rm -rf build; echo 你好 😀".repeat(3), "b")];
const STREAMED: Record<string, { reply: ReplyBlock[]; failure?: Failure; ends: string }> = {
  text: { reply: say("one\n\nevent: message_stop\ndata: {}\n\n".repeat(3)).content, ends: "end_turn" },
  calls: { reply: [NOTE, { type: "redacted_thinking" }, ...TWO_CALLS], ends: "tool_use" },
  nothing: { reply: [], ends: "end_turn" },
  "a refusal": { reply: TWO_CALLS, failure: { kind: "refusal" }, ends: "refusal" },
  "a slow reply": { reply: TWO_CALLS, failure: { kind: "slow", delay: 1 }, ends: "tool_use" },
  "blank text before calls": { reply: TWO_CALLS, failure: { kind: "blank_text" }, ends: "tool_use" },
  "text that is cut": {
    reply: [NOTE, ...say("0123456789").content],
    failure: { kind: "context_window" },
    ends: "model_context_window_exceeded",
  },
};
for (const [name, { reply, failure, ends }] of Object.entries(STREAMED))
  test(`a stream carries the same message as a plain answer: ${name}`, async () => {
    server.model = () => ({ content: reply });
    if (failure) server.fail(failure, failure);
    const request = { ...BASE, tools: TOOLS, thinking: SUMMARIZED };
    const plain = await ask(request);
    const { parsed_output: _, ...streamed } = await client.messages.stream(request).finalMessage();
    assert.deepEqual(JSON.parse(JSON.stringify({ ...streamed, id: plain.id })), JSON.parse(JSON.stringify(plain)));
    assert.equal(plain.stop_reason, ends);
    assert.equal(plain.stop_details?.type, ends === "refusal" ? "refusal" : undefined);
  });

test("blank text on demand comes before the calls", async () => {
  server.model = () => ({ content: TWO_CALLS });
  server.fail({ kind: "blank_text" });
  const [thinking, blank, call] = (await ask({ tools: TOOLS })).content;
  assert.deepEqual(
    [thinking?.type, blank, call?.type],
    ["thinking", { type: "text", text: "\n\n", citations: null }, "tool_use"],
  );
});

test("a call that is cut arrives with half of its JSON, the one before it whole", async () => {
  server.model = () => ({ content: TWO_CALLS });
  server.fail({ kind: "max_tokens" });
  const json = ["", "", ""];
  for await (const event of await client.messages.create({ ...BASE, tools: TOOLS, stream: true })) {
    if (event.type !== "content_block_delta" || event.delta.type !== "input_json_delta") continue;
    json[event.index] += event.delta.partial_json;
  }
  assert.deepEqual(JSON.parse(json[1] ?? ""), { command: "ls" });
  assert.match(json[2] ?? "", /^\{"command":"rm -rf [^"]*$/);
  assert.equal(lastEntry().stop_reason, "max_tokens");
});

// --- failures on demand ----------------------------------------------------------------------------------------------

const streamed = (server: Server) =>
  new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 }).messages.stream(BASE);

test("each queued status fails one request, and the SDK retries what can be retried", async () => {
  for (const status of [400, 401, 429, 500, 529] as const) {
    server.fail({ kind: "status", status, message: "on demand" });
    await assert.rejects(ask(), isError(status, "on demand"));
    await ask();
  }
  const requests = server.journal.length;
  server.fail({ kind: "status", status: 529, retryAfter: 0.01 }, { kind: "status", status: 429, retryAfter: 0.01 });
  await client.messages.create(BASE, { maxRetries: 2 });
  const statuses = server.journal.slice(requests).map(({ status }) => status);
  assert.deepEqual(statuses, [529, 429, 200]);
});

test("a connection that drops and an overloaded server break a stream halfway, and a plain answer at once", async () => {
  server.model = () => say(`x${"😀".repeat(300)}`);
  for (const kind of ["drop", "error_event"] as const) {
    server.fail({ kind }, { kind });
    const seen: string[] = [];
    const stream = streamed(server).on("text", (text) => seen.push(text));
    await assert.rejects(stream.finalMessage(), Anthropic.AnthropicError);
    assert.ok(seen.length > 1 && seen.every((text) => text.isWellFormed()));
    assert.equal(lastEntry().error, kind);
    await assert.rejects(ask(), kind === "drop" ? Anthropic.APIConnectionError : isError(529, "Overloaded"));
  }
});

test("a slow stream can be left, a slow answer keeps nobody else waiting, and close ends both", async () => {
  const other = await startServer({ model: () => say("x".repeat(2000)) });
  other.fail({ kind: "slow", delay: 5 }, { kind: "slow", delay: 600_000 });
  const left = streamed(other);
  left.on("text", () => left.abort());
  await assert.rejects(left.finalMessage(), Anthropic.APIUserAbortError);
  const late = streamed(other);
  const ended = assert.rejects(late.finalMessage(), Anthropic.AnthropicError);
  while (other.journal.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal((await streamed(other).finalMessage()).stop_reason, "end_turn");
  await other.close();
  await ended;
});

// --- thinking is bound to what came before it ------------------------------------------------------------------------

const BOUND =
  'Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".';
type Change = (messages: Anthropic.MessageParam[]) => unknown;
const blocksIn = (messages: Anthropic.MessageParam[], i: number) => Object(messages[i]).content;
const hello = (text: string) => ({
  role: "user" as const,
  content: [{ type: "text" as const, text, cache_control: CACHE }],
});
/** Messages 1, 3 and 5 begin with thinking, each before a call; 2, 4 and 6 are results. */
const VALID: Record<string, Change> = {
  "nothing changes": () => {},
  "a message is added": (messages) => messages.push(HELLO),
  "a text is written as a block with a breakpoint": (messages) => messages.splice(0, 1, hello("hello")),
  "a result is written as a block with a breakpoint": (messages) =>
    Object.assign(blocksIn(messages, 2)[0], { content: hello("a b c").content }),
  "a reply comes in two messages": (messages) =>
    messages.splice(1, 1, ...blocksIn(messages, 1).map((block: unknown) => assistant(block))),
  "the oldest thinking goes": (messages) => blocksIn(messages, 1).shift(),
  "all thinking goes, and a result is cleared": (messages) => {
    for (const i of [1, 3, 5]) blocksIn(messages, i).shift();
    blocksIn(messages, 2)[0].content = "(cleared)";
  },
};
/** By the place of the first block that is no longer valid. */
const INVALID: Record<string, [at: string, change: Change]> = {
  "the first message changes": ["1.content.0", (messages) => messages.splice(0, 1, hello("hullo"))],
  "a round goes": ["1.content.0", (messages) => messages.splice(1, 2)],
  "an old result is cleared": ["3.content.0", (messages) => Object.assign(blocksIn(messages, 2)[0], { content: "…" })],
  "thinking goes from the middle": ["5.content.0", (messages) => blocksIn(messages, 3).shift()],
  "its text changes": ["5.content.0", (messages) => Object.assign(blocksIn(messages, 5)[0], { thinking: "." })],
  "it moves behind its call": ["5.content.1", (messages) => blocksIn(messages, 5).reverse()],
};

/** Three rounds of a call and its result, with thinking before every call. */
async function conversation() {
  server.model = ({ messages }) => (messages.length < 7 ? { content: [bash("ls")] } : say("done"));
  const request = { ...BASE, tools: TOOLS, thinking: SUMMARIZED, system: "Be brief." };
  const messages: Anthropic.MessageParam[] = [HELLO];
  while (messages.length < 7) {
    const reply = await ask({ ...request, messages });
    const results = ids(reply).map((id) => ({ type: "tool_result" as const, tool_use_id: id, content: "a b c" }));
    messages.push({ role: "assistant", content: reply.content }, { role: "user", content: results });
  }
  return { ...request, messages };
}

for (const [name, change] of Object.entries(VALID))
  test(`thinking stays valid when ${name}`, async () => {
    const request = await conversation();
    change(request.messages);
    await ask(request);
  });

for (const [name, [at, change]] of Object.entries(INVALID))
  test(`thinking is rejected when ${name}`, async () => {
    const request = await conversation();
    change(request.messages);
    await assert.rejects(ask(request), isError(400, `messages.${at}: ${BOUND}`));
  });

test("thinking is rejected when system or tools change, or on another server", async () => {
  const request = await conversation();
  const other = await startServer({ model: () => say("ok") });
  const refused = isError(400, `messages.1.content.0: ${BOUND}`);
  await assert.rejects(ask({ ...request, system: "Be quick." }), refused);
  await assert.rejects(ask({ ...request, tools: [...TOOLS, MORE] }), refused);
  await assert.rejects(client.withOptions({ baseURL: other.url }).messages.create(request), refused);
  await other.close();
});

// --- usage and the prompt cache --------------------------------------------------------------------------------------

const long = (letter: string): Anthropic.MessageParam => ({ role: "user", content: letter.repeat(3000) });
const blocks = (count: number): Anthropic.MessageParam => ({
  role: "user",
  content: Array.from({ length: count }, () => ({ type: "text", text: "x" })),
});
/** What a prompt reads from the cache and writes to it; a breakpoint is at its end. */
async function cached(messages: Anthropic.MessageParam[], fields: Partial<Anthropic.MessageCreateParams> = {}) {
  const { usage } = await ask({ messages, cache_control: CACHE, ...fields, stream: false });
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, input_tokens } = usage;
  assert.equal(input_tokens + (read ?? 0) + (written ?? 0), lastEntry().promptTokens);
  return { read, written, size: lastEntry().promptTokens };
}

test("a breakpoint writes the prompt to the cache, and the next prompt that begins with it reads it", async () => {
  const one = await cached([long("a")]);
  assert.deepEqual([one.read, one.written], [0, one.size]);
  const two = await cached([long("a"), long("b")]);
  assert.deepEqual([two.read, two.written], [one.size, two.size - one.size]);
  assert.equal((await cached([long("a"), long("b")])).read, two.size);
  assert.equal((await cached([long("a"), long("c")], { cache_control: null })).read, 0);
});

test("a change in tools, system, messages or model misses the cache", async () => {
  const base = { tools: TOOLS, system: "Be brief." };
  await cached([long("d")], base);
  assert.ok((await cached([long("d")], base)).read);
  assert.equal((await cached([long("e")], base)).read, 0);
  for (const change of [{ tools: [] }, { system: "" }, { model: "claude-haiku-5-5" }])
    assert.equal((await cached([long("d")], { ...base, ...change })).read, 0);
});

test("an entry is found 20 blocks before a breakpoint, not 21, and a prompt under 512 tokens is not cached", async () => {
  const { size } = await cached([long("f")]);
  assert.equal((await cached([long("f"), blocks(21)])).read, 0);
  assert.equal((await cached([long("f"), blocks(20)])).read, size);
  const short = (tokens: number) => cached([{ role: "user", content: "s".repeat(3 * tokens) }]);
  const { size: empty } = await short(100);
  assert.equal((await short(511 - empty + 100)).written, 0);
  assert.equal((await short(512 - empty + 100)).written, 512);
});

test("an entry lives for five minutes after it was last read or written", async () => {
  const readAt = async (minute: number) => {
    server.now = () => minute * 60_000;
    return (await cached([long("g"), long(`${minute}`)])).read;
  };
  server.now = () => 0;
  const { size } = await cached([long("g")]);
  assert.deepEqual([await readAt(4), await readAt(9), await readAt(15)], [size, size, 0]);
});

test("a server can report another usage than the true one, which the journal keeps", async () => {
  for (const reportedUsage of [{ input_tokens: 1, output_tokens: 1 }, {}]) {
    server.reportedUsage = reportedUsage;
    assert.deepEqual((await ask()).usage, reportedUsage);
    const { usage } = await streamed(server).finalMessage();
    assert.deepEqual([usage.input_tokens, usage.cache_read_input_tokens], [reportedUsage.input_tokens, undefined]);
    assert.equal(lastEntry().usage?.input_tokens, lastEntry().promptTokens);
  }
});
