// The stand-in for the Messages API: what it refuses, what it answers, and how it fails when told to. Everything goes
// over real HTTP, through the SDK's client wherever the SDK can send it.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";
import { type Failure, type Model, type Reply, scripted, startServer } from "../offline/server.ts";
import { say } from "./replies.ts";

const server = await startServer();
after(() => server.close());

const client = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 0 });

const TOOLS: Anthropic.Tool[] = [{ name: "bash", input_schema: { type: "object" } }];
const HELLO: Anthropic.MessageParam[] = [{ role: "user", content: "hello" }];
const BASE = { model: "claude-sonnet-5-5", max_tokens: 1000, messages: HELLO };
const EPHEMERAL = { type: "ephemeral" } as const;
const SUMMARIZED = { type: "adaptive", display: "summarized" } as const;

const call = (...commands: string[]): Reply => ({
  content: commands.map((command) => ({ type: "tool_use", name: "bash", input: { command } })),
});
const use = (id: string) => ({ type: "tool_use", id, name: "bash", input: {} });
const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "done" });
const user = (...content: unknown[]) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });

const ErrorBody = z.object({
  type: z.literal("error"),
  error: z.object({ type: z.string(), message: z.string() }),
  request_id: z.string(),
});

/** Sends any body as it is, which the SDK would not. */
async function post(body: unknown, headers: Record<string, string> = { "x-api-key": "test" }) {
  const response = await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    headers: { "anthropic-version": "2023-06-01", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const answer = await response.json();
  return { status: response.status, error: response.ok ? undefined : ErrorBody.parse(answer) };
}

/** What the server emits of a stream, event by event. */
async function eventsOf(params: object): Promise<Anthropic.RawMessageStreamEvent[]> {
  const events: Anthropic.RawMessageStreamEvent[] = [];
  for await (const event of await client.messages.create({ ...BASE, ...params, stream: true })) events.push(event);
  return events;
}

function play(...replies: Reply[]): void {
  server.model = scripted(...replies);
}

const lastEntry = () => {
  const entry = server.journal.at(-1);
  assert.ok(entry);
  return entry;
};

const failsWith = (status: number, text: string) => (error: unknown) => {
  assert.ok(error instanceof Anthropic.APIError, String(error));
  assert.equal(error.status, status);
  assert.equal(error.apiMessage, text);
  return true;
};

// What is refused: sentence, request, the message it is refused with.

const MISSING = (n: number, ids: string) =>
  `messages.${n}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`;
const UNEXPECTED = (at: string, id: string) =>
  `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`;
const WITHOUT = (type: string) =>
  `"thinking.type.${type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`;
const FORCED = "Thinking may not be enabled when tool_choice forces tool use.";
/** What is wrong with a text is said in the words of the engine, which change from version to version. */
const NO_JSON = (body: string) => {
  try {
    return String(JSON.parse(body));
  } catch (error) {
    return String(error).replace(/^SyntaxError/, "The request body is not valid JSON");
  }
};
const BOUND =
  'Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".';
const NON_EMPTY = "messages: text content blocks must be non-empty";
const rounds = (...messages: unknown[]) => ({ ...BASE, tools: TOOLS, messages: [...HELLO, ...messages] });
const tool = (fields: object) => ({ ...BASE, tools: [{ ...TOOLS[0], ...fields }] });
const text = (fields: object) => ({ ...BASE, messages: [user({ type: "text", text: "hi", ...fields })] });
const marked = (n: number) => Array.from({ length: n }, () => ({ type: "text", text: "x", cache_control: EPHEMERAL }));
const IMAGE = { type: "image", source: { type: "url", url: "https://example.com/a" } };

const REFUSED: [string, unknown, string][] = [
  ["a request without a model", { ...BASE, model: undefined }, "model: Field required"],
  ["a request without max_tokens", { ...BASE, max_tokens: undefined }, "max_tokens: Field required"],
  ["max_tokens below zero", { ...BASE, max_tokens: -1 }, "max_tokens: Input should be greater than or equal to 0"],
  ["a fraction as max_tokens", { ...BASE, max_tokens: 1.5 }, "max_tokens: Input should be a valid integer"],
  [
    "more max_tokens than the models can write",
    { ...BASE, max_tokens: 128_001 },
    "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for claude-sonnet-5-5",
  ],
  ["a request without messages", { ...BASE, messages: undefined }, "messages: Field required"],
  ["an empty list of messages", { ...BASE, messages: [] }, "messages: at least one message is required"],
  [
    "more than 100,000 messages",
    { ...BASE, messages: Array(100_001).fill(HELLO[0]) },
    "messages: List should have at most 100000 items after validation",
  ],
  ["an unknown top-level field", { ...BASE, foo: 1 }, "foo: Extra inputs are not permitted"],
  ["a body that is no object", [], "Input should be a valid dictionary"],
  ["a model that is no string", { ...BASE, model: 5 }, "model: Input should be a valid string"],
  ["messages that are no list", { ...BASE, messages: "hello" }, "messages: Input should be a valid list"],
  ["a message without a role", { ...BASE, messages: [{ content: "x" }] }, "messages.0.role: Field required"],
  [
    "content that is neither string nor list",
    { ...BASE, messages: [{ role: "user", content: 5 }] },
    "messages.0.content: Input should be a valid string or list",
  ],
  ["a text that is no string", text({ text: 5 }), "messages.0.content.0.text.text: Input should be a valid string"],
  ["a flag that is no boolean", { ...BASE, stream: "yes" }, "stream: Input should be a valid boolean"],
  ["stop sequences that are no list", { ...BASE, stop_sequences: "x" }, "stop_sequences: Input should be a valid list"],
  [
    "a stop sequence that is no string",
    { ...BASE, stop_sequences: [5] },
    "stop_sequences.0: Input should be a valid string",
  ],
  ["a system prompt of another kind", { ...BASE, system: 5 }, "system: Input should be a valid string or list"],
  [
    "an unknown field of the system prompt",
    { ...BASE, system: [{ type: "text", text: "x", foo: 1 }] },
    "system.0.foo: Extra inputs are not permitted",
  ],
  ["tools that are no list", { ...BASE, tools: {} }, "tools: Input should be a valid list"],
  ["a tool without a name", tool({ name: undefined }), "tools.0.custom.name: Field required"],
  ["a tool without a schema", tool({ input_schema: undefined }), "tools.0.custom.input_schema: Field required"],
  [
    "a description that is no string",
    tool({ description: 5 }),
    "tools.0.custom.description: Input should be a valid string",
  ],
  ["a tool that the API runs", tool({ type: "web_search_20250305" }), "tools.0.custom.type: Input should be 'custom'"],
  ["strictness that is no boolean", tool({ strict: 1 }), "tools.0.custom.strict: Input should be a valid boolean"],
  [
    "cache_control of another kind",
    { ...BASE, cache_control: { type: "eternal" } },
    "cache_control.type: Input should be 'ephemeral'",
  ],
  [
    "an unknown time to live",
    text({ cache_control: { type: "ephemeral", ttl: "1d" } }),
    "messages.0.content.0.text.cache_control.ttl: Input should be '5m', '1h'",
  ],
  [
    "an unknown field of cache_control",
    tool({ cache_control: { type: "ephemeral", foo: 1 } }),
    "tools.0.custom.cache_control.foo: Extra inputs are not permitted",
  ],
  [
    "an image without a source",
    { ...BASE, messages: [user({ type: "image" })] },
    "messages.0.content.0.image.source: Field required",
  ],
  [
    "a document whose source has no type",
    { ...BASE, messages: [user({ type: "document", source: {} })] },
    "messages.0.content.0.document.source.type: Field required",
  ],
  [
    "thinking without its signature",
    rounds(assistant({ type: "thinking", thinking: "" })),
    "messages.1.content.0.thinking.signature: Field required",
  ],
  [
    "thinking without its text",
    rounds(assistant({ type: "thinking", signature: "" })),
    "messages.1.content.0.thinking.thinking: Field required",
  ],
  [
    "redacted thinking without its data",
    rounds(assistant({ type: "redacted_thinking" })),
    "messages.1.content.0.redacted_thinking.data: Field required",
  ],
  [
    "a call without a name",
    rounds(assistant({ ...use("a"), name: undefined })),
    "messages.1.content.0.tool_use.name: Field required",
  ],
  [
    "a call of a name with a space",
    rounds(assistant({ ...use("a"), name: "a b" })),
    "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'",
  ],
  [
    "a call of a name of 201 characters",
    rounds(assistant({ ...use("a"), name: "x".repeat(201) })),
    "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'",
  ],
  [
    "a tool name of 129 characters",
    tool({ name: "x".repeat(129) }),
    "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
  ],
  [
    "a result without an id",
    rounds(user({ type: "tool_result" })),
    "messages.1.content.0.tool_result.tool_use_id: Field required",
  ],
  [
    "a result whose id has a dot",
    rounds(user(result("a.b"))),
    "messages.1.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
  ],
  [
    "a result of another kind",
    rounds(user({ ...result("a"), content: 5 })),
    "messages.1.content.0.tool_result.content: Input should be a valid string or list",
  ],
  [
    "an error that is no boolean",
    rounds(user({ ...result("a"), is_error: "yes" })),
    "messages.1.content.0.tool_result.is_error: Input should be a valid boolean",
  ],
  [
    "a call inside a result",
    rounds(user({ ...result("a"), content: [use("b")] })),
    "messages.1.content.0.tool_result.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected tags: 'text', 'image', 'document'",
  ],
  [
    "an unknown field inside a result",
    rounds(user({ ...result("a"), content: [{ type: "text", text: "x", foo: 1 }] })),
    "messages.1.content.0.tool_result.content.0.text.foo: Extra inputs are not permitted",
  ],
  [
    "thinking of an unknown kind",
    { ...BASE, thinking: { type: "deep" } },
    "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags: 'adaptive', 'between_tools', 'enabled', 'disabled'",
  ],
  [
    "an unknown way to show thinking",
    { ...BASE, thinking: { type: "adaptive", display: "full" } },
    "thinking.display: Input should be 'summarized', 'omitted'",
  ],
  [
    "a budget beside adaptive thinking",
    { ...BASE, thinking: { type: "adaptive", budget_tokens: 2000 } },
    "thinking.budget_tokens: Extra inputs are not permitted",
  ],
  [
    "a display of thinking between tools",
    { ...BASE, thinking: { type: "between_tools", display: "omitted" } },
    "thinking.display: Extra inputs are not permitted",
  ],
  [
    "a tool_choice of an unknown kind",
    { ...BASE, tool_choice: { type: "all" } },
    "tool_choice: Input tag 'all' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'",
  ],
  [
    "a tool_choice without its tool",
    { ...BASE, tools: TOOLS, tool_choice: { type: "tool" } },
    "tool_choice.name: Field required",
  ],
  [
    "an unknown field of tool_choice",
    { ...BASE, tool_choice: { type: "none", foo: 1 } },
    "tool_choice.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of tool_choice auto",
    { ...BASE, tool_choice: { type: "auto", foo: 1 } },
    "tool_choice.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of a forced tool_choice",
    { ...BASE, tools: TOOLS, tool_choice: { type: "tool", name: "bash", foo: 1 } },
    "tool_choice.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of redacted thinking",
    rounds(assistant({ type: "redacted_thinking", data: "x", foo: 1 })),
    "messages.1.content.0.redacted_thinking.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of a call",
    rounds(assistant({ ...use("a"), foo: 1 })),
    "messages.1.content.0.tool_use.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of a result",
    rounds(user({ ...result("a"), foo: 1 })),
    "messages.1.content.0.tool_result.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of an image",
    { ...BASE, messages: [user({ ...IMAGE, foo: 1 })] },
    "messages.0.content.0.image.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of a document",
    { ...BASE, messages: [user({ ...IMAGE, type: "document", foo: 1 })] },
    "messages.0.content.0.document.foo: Extra inputs are not permitted",
  ],
  [
    "an unknown field of a message",
    { ...BASE, messages: [{ ...HELLO[0], id: 1 }] },
    "messages.0.id: Extra inputs are not permitted",
  ],
  ["an unknown field of a block", text({ foo: 1 }), "messages.0.content.0.text.foo: Extra inputs are not permitted"],
  ["a message without content", { ...BASE, messages: [{ role: "user" }] }, "messages.0.content: Field required"],
  ["a text block without text", text({ text: undefined }), "messages.0.content.0.text.text: Field required"],
  [
    "an unknown kind of block",
    { ...BASE, messages: [user({ type: "sound" })] },
    "messages.0.content.0: Input tag 'sound' found using 'type' does not match any of the expected tags: 'text', 'image', 'document', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result'",
  ],
  [
    "cache_control on a thinking block",
    rounds(assistant({ type: "thinking", thinking: "", signature: "x", cache_control: { type: "ephemeral" } })),
    "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
  ],
  ["an unknown field of a tool", tool({ foo: 1 }), "tools.0.custom.foo: Extra inputs are not permitted"],
  [
    "a tool name with a dot",
    tool({ name: "a.b" }),
    "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
  ],
  [
    "a schema that is no object",
    tool({ input_schema: { type: "string" } }),
    "tools.0.custom.input_schema.type: Input should be 'object'",
  ],
  ["two tools of one name", { ...BASE, tools: [...TOOLS, ...TOOLS] }, "tools: Tool names must be unique."],
  [
    "an unknown role",
    { ...BASE, messages: [{ role: "tool", content: "x" }] },
    "messages.0.role: Input should be 'user', 'assistant'",
  ],
  [
    "a first message that is not the user's",
    { ...BASE, messages: [assistant({ type: "text", text: "x" }), ...HELLO] },
    'messages: first message must use the "user" role',
  ],
  ["temperature", { ...BASE, temperature: 1 }, "`temperature` is deprecated for this model."],
  ["top_p", { ...BASE, top_p: 1 }, "`top_p` is deprecated for this model."],
  ["top_k", { ...BASE, top_k: 1 }, "`top_k` is deprecated for this model."],
  ["thinking switched off", { ...BASE, thinking: { type: "disabled" } }, WITHOUT("disabled")],
  ["a thinking budget", { ...BASE, thinking: { type: "enabled", budget_tokens: 2000 } }, WITHOUT("enabled")],
  ...["claude-3-haiku-20240307", "claude-opus-4-20250514", "claude-sonnet-4-5", "claude-haiku-4-5-20251001"].map(
    (model): [string, unknown, string] => [
      `adaptive thinking for ${model}`,
      { ...BASE, model, thinking: SUMMARIZED },
      "adaptive thinking is not supported on this model",
    ],
  ),
  ["tool_choice any", { ...BASE, tools: TOOLS, tool_choice: { type: "any" } }, FORCED],
  ["tool_choice of one tool", { ...BASE, tools: TOOLS, tool_choice: { type: "tool", name: "bash" } }, FORCED],
  [
    "a conversation that ends with the assistant",
    rounds({ role: "assistant", content: "Well," }),
    "This model does not support assistant message prefill. The conversation must end with a user message.",
  ],
  ["an empty text block", text({ text: "" }), NON_EMPTY],
  ["a text block of white space", text({ text: " \n" }), NON_EMPTY],
  ["a string of white space", { ...BASE, messages: [{ role: "user", content: " " }] }, NON_EMPTY],
  [
    "an empty block of the system prompt",
    { ...BASE, system: [{ type: "text", text: "" }] },
    "system: text content blocks must be non-empty",
  ],
  [
    "a message without blocks",
    rounds(assistant(), user({ type: "text", text: "x" })),
    "messages.1: all messages must have non-empty content except for the optional final assistant message",
  ],
  [
    "a message of an empty string",
    { ...BASE, messages: [{ role: "user", content: "" }] },
    "messages.0: all messages must have non-empty content except for the optional final assistant message",
  ],
  [
    "an error without content",
    rounds(assistant(use("a")), user({ ...result("a"), content: undefined, is_error: true })),
    "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
  ],
  [
    "an error whose content is an empty string",
    rounds(assistant(use("a"), use("b")), user(result("a"), { ...result("b"), content: "", is_error: true })),
    "messages.2.content.1.tool_result: content cannot be empty if `is_error` is true",
  ],
  [
    "an empty list as the final assistant message",
    rounds(assistant()),
    "messages.1: all messages must have non-empty content except for the optional final assistant message",
  ],
  ["a call without a result", rounds(assistant(use("a")), ...HELLO), MISSING(1, "a")],
  ["a call at the end", rounds(assistant(use("a"))), MISSING(1, "a")],
  [
    "calls of which only one has its result",
    rounds(assistant(use("a"), use("b"), use("c")), user(result("b"))),
    MISSING(1, "a, c"),
  ],
  [
    "text before the results",
    rounds(assistant(use("a")), user({ type: "text", text: "so:" }, result("a"))),
    MISSING(1, "a"),
  ],
  [
    "text between the results",
    rounds(assistant(use("a"), use("b")), user(result("a"), { type: "text", text: "and" }, result("b"))),
    MISSING(1, "b"),
  ],
  [
    "a result that comes a message late",
    rounds(assistant(use("a")), ...HELLO, assistant({ type: "text", text: "?" }), user(result("a"))),
    MISSING(1, "a"),
  ],
  ["a result without a call", rounds(user(result("a"))), UNEXPECTED("messages.1.content.0", "a")],
  [
    "a result in the first message",
    { ...BASE, tools: TOOLS, messages: [user(result("a"))] },
    UNEXPECTED("messages.0.content.0", "a"),
  ],
  [
    "a result too many",
    rounds(assistant(use("a")), user(result("a"), result("b"))),
    UNEXPECTED("messages.2.content.1", "b"),
  ],
  [
    "two results for one call",
    rounds(assistant(use("a")), user(result("a"), result("a"))),
    "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
  ],
  [
    "two calls of one id",
    rounds(assistant(use("a"), use("a")), user(result("a"))),
    "messages.1.content.1: `tool_use` ids must be unique",
  ],
  [
    "an id used again in a later round",
    rounds(assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))),
    "messages.3.content.0: `tool_use` ids must be unique",
  ],
  [
    "calls and results without tools",
    { ...rounds(assistant(use("a")), user(result("a"))), tools: undefined },
    "Requests which include `tool_use` or `tool_result` blocks must define tools.",
  ],
  [
    "a call whose input is a list",
    rounds(assistant({ ...use("a"), input: [] }), user(result("a"))),
    "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
  ],
  [
    "a call whose input is a string",
    rounds(assistant({ ...use("a"), input: "{}" }), user(result("a"))),
    "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
  ],
  [
    "an id with a space",
    rounds(assistant(use("a b")), user(result("a b"))),
    "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
  ],
  [
    "a call in a user message",
    { ...BASE, tools: TOOLS, messages: [user(use("a"))] },
    "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
  ],
  [
    "thinking in a user message",
    { ...BASE, messages: [user({ type: "thinking", thinking: "", signature: "x" })] },
    "messages.0.content.0: `thinking` blocks can only be in `assistant` messages",
  ],
  [
    "redacted thinking in a user message",
    { ...BASE, messages: [user({ type: "redacted_thinking", data: "x" })] },
    "messages.0.content.0: `redacted_thinking` blocks can only be in `assistant` messages",
  ],
  [
    "a result in an assistant message",
    rounds(assistant(result("a")), ...HELLO),
    "messages.1.content.0: `tool_result` blocks can only be in `user` messages",
  ],
  [
    "five cache breakpoints",
    { ...BASE, messages: [user(...marked(5))] },
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ],
  [
    "four cache breakpoints and the one at the top level",
    { ...BASE, cache_control: { type: "ephemeral" }, system: marked(2), messages: [user(...marked(2))] },
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ],
  [
    "five cache breakpoints in tools, system, a result and inside it",
    {
      ...rounds(assistant(use("a")), user({ ...result("a"), content: marked(2), cache_control: EPHEMERAL })),
      tools: [{ ...TOOLS[0], cache_control: EPHEMERAL }],
      system: marked(1),
    },
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ],
  ["a body that is no JSON", "{", NO_JSON("{")],
  ["an escape that JSON does not know", '{"x":"\\x"}', NO_JSON('{"x":"\\x"}')],
  [
    "a lone surrogate",
    '{"x":"\\ud83d"}',
    "The request body is not valid JSON: no low surrogate in string: line 1 column 7 (char 6)",
  ],
];

for (const [name, body, message] of REFUSED)
  test(`refuses ${name}`, async () => {
    const { status, error } = await post(body);
    assert.equal(status, 400);
    assert.equal(error?.error.type, "invalid_request_error");
    assert.equal(error.error.message, message);
    assert.match(error.request_id, /^req_/);
    assert.equal(lastEntry().status, 400);
    assert.equal(lastEntry().error, error.error.message);
  });

const ACCEPTED: [string, unknown][] = [
  ["a whole surrogate pair", '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\\ud83d\\ude00"}]}'],
  ["the source text of a lone surrogate", { ...BASE, messages: [{ role: "user", content: "const x = '\\ud83d'" }] }],
  ["two messages of one role in a row", { ...BASE, messages: [...HELLO, ...HELLO] }],
  [
    "results spread over two messages in a row",
    rounds(assistant(use("a"), use("b")), user(result("a")), user(result("b"))),
  ],
  ["text after the results", rounds(assistant(use("a")), user(result("a"), { type: "text", text: "go on" }))],
  ["results in another order than the calls", rounds(assistant(use("a"), use("b")), user(result("b"), result("a")))],
  ["a result without content", rounds(assistant(use("a")), user({ type: "tool_result", tool_use_id: "a" }))],
  ["adaptive thinking", { ...BASE, thinking: SUMMARIZED }],
  ["thinking between tools", { ...BASE, thinking: { type: "between_tools" } }],
  ["stop sequences and metadata", { ...BASE, stop_sequences: ["x"], metadata: { user_id: "1" } }],
  ["four cache breakpoints", { ...BASE, messages: [user(...marked(4))] }],
  ["as many max_tokens as the models can write", { ...BASE, max_tokens: 128_000 }],
  ["a tool name of 128 characters", tool({ name: "x".repeat(128) })],
  ["a call of a name of 200 characters", rounds(assistant({ ...use("a"), name: "x".repeat(200) }), user(result("a")))],
  [
    "an empty result that is no error",
    rounds(assistant(use("a")), user({ ...result("a"), content: "", is_error: false })),
  ],
  ["an error with content", rounds(assistant(use("a")), user({ ...result("a"), is_error: true }))],
  ...["claude-opus-4-6", "claude-sonnet-5-5", "claude-haiku-5-5"].map((model): [string, unknown] => [
    `adaptive thinking for ${model}`,
    { ...BASE, model, thinking: SUMMARIZED },
  ]),
  ["an older model without thinking", { ...BASE, model: "claude-haiku-4-5" }],
  ["an image", { ...BASE, messages: [user(IMAGE)] }],
];

for (const [name, body] of ACCEPTED)
  test(`accepts ${name}`, async () => {
    play(say("yes"));
    const { status, error } = await post(body);
    assert.equal(status, 200, error?.error.message);
  });

// What the SDK knows. These tables name every member of its types, so that an SDK which gains or loses one does not
// compile until it is decided here what the server does about it.

const CITED = { type: "char_location", cited_text: "x", document_index: 0, document_title: null } as const;

const FIELDS = {
  model: "claude-opus-5-5",
  max_tokens: 100,
  messages: HELLO,
  system: "Be brief.",
  tools: TOOLS,
  tool_choice: { type: "auto" },
  thinking: { type: "adaptive" },
  cache_control: { type: "ephemeral", ttl: "1h" },
  stop_sequences: ["x"],
  stream: true,
  container: "container_1",
  diagnostics: { previous_message_id: null },
  inference_geo: "eu",
  metadata: { user_id: "1" },
  output_config: { effort: "low" },
  service_tier: "auto",
  speed: "standard",
  user_profile_id: "profile_1",
  workspace_id: "wrkspc_1",
} satisfies Required<Anthropic.MessageCreateParamsStreaming>;
/** These the SDK sends as headers. */
const HEADERS = ["user_profile_id", "workspace_id"];

for (const [name, value] of Object.entries(FIELDS))
  test(`the field ${name} of the SDK is accepted as the SDK sends it`, async () => {
    play(say("yes"));
    await client.messages.create({ ...BASE, tools: TOOLS, [name]: value }).asResponse();
    const isHeader = HEADERS.includes(name);
    assert.equal(name in lastEntry().request, !isHeader);
    if (!isHeader) return;
    const { error } = await post({ ...BASE, [name]: value });
    assert.equal(error?.error.message, `${name}: Extra inputs are not permitted`);
  });

/** One value for each `type` of a union with every field that it can have, and with what it is refused, if it is. */
type Each<T extends { type: string }> = { [K in T as K["type"]]: [Required<K>, string?] };

const THINKING = {
  adaptive: [{ type: "adaptive", display: "summarized" }],
  between_tools: [{ type: "between_tools" }],
  disabled: [{ type: "disabled" }, WITHOUT("disabled")],
  enabled: [{ type: "enabled", budget_tokens: 2000, display: "omitted" }, WITHOUT("enabled")],
} satisfies Each<Anthropic.ThinkingConfigParam>;

const CHOICES = {
  auto: [{ type: "auto", disable_parallel_tool_use: true }],
  none: [{ type: "none" }],
  any: [{ type: "any", disable_parallel_tool_use: true }, FORCED],
  tool: [{ type: "tool", name: "bash", disable_parallel_tool_use: true }, FORCED],
} satisfies Each<Anthropic.ToolChoice>;

const ELSEWHERE = "belongs to the API's own tools or to search results, which are not here";
const KINDS = {
  text: {
    type: "text",
    text: "x",
    cache_control: null,
    citations: [{ ...CITED, start_char_index: 0, end_char_index: 1 }],
  },
  image: {
    type: "image",
    source: { type: "file", file_id: "file_1" },
    cache_control: EPHEMERAL,
    transformations: null,
  },
  document: {
    type: "document",
    source: { type: "text", media_type: "text/plain", data: "x" },
    title: "x",
    context: "x",
    citations: { enabled: true },
    cache_control: EPHEMERAL,
  },
  thinking: { type: "thinking", thinking: "x", signature: "x" },
  redacted_thinking: { type: "redacted_thinking", data: "x" },
  tool_use: {
    type: "tool_use",
    id: "a",
    name: "bash",
    input: {},
    caller: { type: "direct" },
    toolset_name: null,
    cache_control: EPHEMERAL,
  },
  tool_result: {
    type: "tool_result",
    tool_use_id: "a",
    content: [{ type: "text", text: "x" }],
    is_error: true,
    toolset_name: null,
    cache_control: EPHEMERAL,
  },
  search_result: ELSEWHERE,
  server_tool_use: ELSEWHERE,
  web_search_tool_result: ELSEWHERE,
  web_fetch_tool_result: ELSEWHERE,
  code_execution_tool_result: ELSEWHERE,
  bash_code_execution_tool_result: ELSEWHERE,
  text_editor_code_execution_tool_result: ELSEWHERE,
  tool_search_tool_result: ELSEWHERE,
  container_upload: ELSEWHERE,
} satisfies { [B in Anthropic.ContentBlockParam as B["type"]]: Required<B> | typeof ELSEWHERE };

/** A history in which a block of this kind has its place. */
function around(block: { type: string }): object {
  if (block.type === "tool_use") return rounds(assistant(block), user(result("a")));
  if (block.type === "tool_result") return rounds(assistant(use("a")), user(block));
  return block.type.endsWith("thinking") ? rounds(assistant(block), ...HELLO) : rounds(user(block));
}

const EVERY_TOOL_FIELD = {
  type: "custom",
  name: "bash",
  description: "x",
  input_schema: { type: "object", properties: {}, required: [] },
  strict: true,
  allowed_callers: ["direct"],
  defer_loading: false,
  eager_input_streaming: true,
  input_examples: [{}],
  cache_control: EPHEMERAL,
} satisfies Required<Anthropic.Tool>;

const ROLES = {
  user: [rounds(user({ type: "text", text: "x" }))],
  assistant: [rounds(assistant({ type: "text", text: "x" }), ...HELLO)],
  system: [rounds({ role: "system", content: "x" }), "messages.1.role: Input should be 'user', 'assistant'"],
} satisfies Record<Anthropic.MessageParam["role"], [object, string?]>;

const knownKinds = Object.entries(KINDS).flatMap(([kind, block]) => (block === ELSEWHERE ? [] : [`'${kind}'`]));
const SDK: [string, object, string?][] = [
  ...Object.entries(THINKING).map(([name, [thinking, refusal]]): [string, object, string?] => [
    `thinking ${name}`,
    { ...BASE, thinking },
    refusal,
  ]),
  ...Object.entries(CHOICES).map(([name, [tool_choice, refusal]]): [string, object, string?] => [
    `tool_choice ${name}`,
    { ...BASE, tools: TOOLS, tool_choice },
    refusal,
  ]),
  ...Object.entries(ROLES).map(([name, [request, refusal]]): [string, object, string?] => [
    `role ${name}`,
    request,
    refusal,
  ]),
  ...Object.entries(KINDS).map(([kind, block]): [string, object, string?] => {
    if (typeof block !== "string")
      return [`block ${kind}`, around(block), kind.endsWith("thinking") ? `messages.1.content.0: ${BOUND}` : undefined];
    const refusal = `Input tag '${kind}' found using 'type' does not match any of the expected tags: ${knownKinds.join(", ")}`;
    return [`block ${kind}`, around({ type: kind }), `messages.1.content.0: ${refusal}`];
  }),
  ["tool with every field", { ...BASE, tools: [EVERY_TOOL_FIELD] }],
];

for (const [name, request, refusal] of SDK)
  test(`the SDK's ${name} is ${refusal ? "refused with the reason" : "accepted"}`, async () => {
    play(say("yes"));
    const { error } = await post(request);
    assert.equal(error?.error.message, refusal);
  });

test("every stop reason of the SDK reaches the client, with details for a refusal alone", async () => {
  const ends = <R extends Anthropic.StopReason>(stop_reason: R) => ({ ...say("hi"), stop_reason });
  const reasons = {
    end_turn: ends("end_turn"),
    max_tokens: ends("max_tokens"),
    stop_sequence: ends("stop_sequence"),
    tool_use: ends("tool_use"),
    pause_turn: ends("pause_turn"),
    model_context_window_exceeded: ends("model_context_window_exceeded"),
    refusal: ends("refusal"),
  } satisfies { [R in Anthropic.StopReason]: { stop_reason: R } };
  for (const [reason, reply] of Object.entries(reasons)) {
    play(reply);
    const { stop_reason, stop_details } = await client.messages.stream(BASE).finalMessage();
    assert.equal(stop_reason, reason);
    const details = { type: "refusal", category: null, explanation: null };
    assert.deepEqual(stop_details, reason === "refusal" ? details : null);
  }
});

test("every error that the server knows is the SDK's error of that type", async () => {
  const errors = {
    invalid_request_error: [400, Anthropic.BadRequestError],
    authentication_error: [401, Anthropic.AuthenticationError],
    not_found_error: [404, Anthropic.NotFoundError],
    rate_limit_error: [429, Anthropic.RateLimitError],
    api_error: [500, Anthropic.InternalServerError],
    overloaded_error: [529, Anthropic.OverloadedError],
    billing_error: undefined,
    permission_error: undefined,
    timeout_error: undefined,
    conflict_error: undefined,
    memory_path_conflict_error: undefined,
    memory_precondition_failed_error: undefined,
  } satisfies Record<Anthropic.ErrorType, [400 | 401 | 404 | 429 | 500 | 529, object] | undefined>;
  for (const [type, known] of Object.entries(errors)) {
    if (!known) continue;
    const [status, kind] = known;
    if (status !== 404) server.fail({ kind: "status", status });
    await assert.rejects(status === 404 ? client.models.list() : client.messages.create(BASE), (error) => {
      assert.ok(error instanceof Anthropic.APIError, String(error));
      assert.deepEqual([error.constructor, error.status, error.type], [kind, status, type]);
      return true;
    });
  }
});

test("no credential is a 401, and a bearer token is one", async () => {
  const refused = await post(BASE, {});
  assert.equal(refused.status, 401);
  assert.deepEqual(refused.error?.error, { type: "authentication_error", message: "x-api-key header is required" });
  play(say("yes"));
  assert.equal((await post(BASE, { authorization: "Bearer abc" })).status, 200);
});

test("a request without the anthropic-version header is refused", async () => {
  const { status, error } = await post(BASE, { "x-api-key": "test", "anthropic-version": "" });
  assert.equal(status, 400);
  assert.equal(error?.error.message, "anthropic-version: header is required");
});

test("any other path is a 404 that the journal does not keep", async () => {
  const kept = server.journal.length;
  const response = await fetch(`${server.url}/v1/complete`, { method: "POST" });
  assert.equal(response.status, 404);
  assert.equal(ErrorBody.parse(await response.json()).error.type, "not_found_error");
  assert.equal(server.journal.length, kept);
});

test("an error carries its request-id as a header too", async () => {
  await assert.rejects(client.messages.create({ ...BASE, messages: [] }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.requestID ?? "", /^req_/);
    return true;
  });
});

test("100,000 messages are accepted", async (t) => {
  t.after(() => {
    server.contextLimit = 200_000;
  });
  server.contextLimit = 2_000_000;
  play(say("so many"));
  assert.equal((await post({ ...BASE, messages: Array(100_000).fill(HELLO[0]) })).status, 200);
});

test("max_tokens of zero fills the cache and writes nothing", async () => {
  play(say("never said"), say("hi"));
  const params = { ...BASE, messages: [long("0")], cache_control: EPHEMERAL };
  const { content, stop_reason, usage } = await client.messages.create({ ...params, max_tokens: 0 });
  assert.deepEqual([content, stop_reason, usage.output_tokens], [[], "max_tokens", 0]);
  const { usage: next } = await client.messages.create(params);
  assert.equal(next.cache_read_input_tokens, usage.cache_creation_input_tokens);
  assert.equal(next.cache_read_input_tokens, lastEntry().promptTokens);
});

// The context limit.

test("a prompt above the context limit is too long, one at the limit is not", async (t) => {
  t.after(() => {
    server.contextLimit = 200_000;
  });
  play(say("fits"), say("fits"));
  await client.messages.create(BASE);
  const size = lastEntry().promptTokens;
  server.contextLimit = size;
  await client.messages.create(BASE);
  server.contextLimit = size - 1;
  await assert.rejects(
    client.messages.create(BASE),
    failsWith(400, `prompt is too long: ${size} tokens > ${size - 1} maximum`),
  );
});

test("max_tokens beyond the limit is accepted, except for the oldest models", async (t) => {
  t.after(() => {
    server.contextLimit = 200_000;
  });
  server.contextLimit = 500;
  play(say("fits"));
  await client.messages.create(BASE);
  const size = lastEntry().promptTokens;
  const oldest = { ...BASE, model: "claude-3-haiku-20240307", max_tokens: 500 - size };
  play(say("fits"));
  await client.messages.create(oldest);
  await assert.rejects(
    client.messages.create({ ...oldest, max_tokens: oldest.max_tokens + 1 }),
    failsWith(
      400,
      `input length and \`max_tokens\` exceed context limit: ${size} + ${501 - size} > 500, decrease input length or \`max_tokens\` and try again`,
    ),
  );
});

test("a reply that fills the window stops with model_context_window_exceeded", async (t) => {
  t.after(() => {
    server.contextLimit = 200_000;
  });
  play(say("fits"), say("x".repeat(3000)));
  await client.messages.create(BASE);
  server.contextLimit = lastEntry().promptTokens + 100;
  const message = await client.messages.create(BASE);
  assert.equal(message.stop_reason, "model_context_window_exceeded");
  assert.equal(message.usage.output_tokens, 100);
  play(say("x".repeat(3000)));
  assert.equal((await client.messages.create({ ...BASE, max_tokens: 100 })).stop_reason, "max_tokens");
});

// Replies.

test("a reply begins with thinking, which is empty unless asked for", async () => {
  play(say("hi"), say("hi"), say("hi"));
  for (const thinking of [undefined, { type: "adaptive", display: "omitted" } as const]) {
    const message = await client.messages.create({ ...BASE, thinking });
    const [first, second] = message.content;
    assert.ok(first?.type === "thinking" && second?.type === "text");
    assert.equal(first.thinking, "");
    assert.ok(first.signature.length > 40);
  }
  const [first] = (await client.messages.create({ ...BASE, thinking: SUMMARIZED })).content;
  assert.equal(first?.type === "thinking" && first.thinking, "Looking at what is needed next.");
});

test("thinking of the model's own stays as it is", async () => {
  play({
    content: [{ type: "redacted_thinking" }, { type: "thinking", thinking: "hm" }, { type: "text", text: "hi" }],
  });
  const { content } = await client.messages.create({ ...BASE, thinking: SUMMARIZED });
  assert.deepEqual(
    content.map((block) => block.type),
    ["redacted_thinking", "thinking", "text"],
  );
  assert.equal(content[1]?.type === "thinking" && content[1].thinking, "hm");
});

test("the stop reason follows from the blocks unless the reply names one", async () => {
  play(say("hi"), call("ls"), { ...call("ls"), stop_reason: "end_turn" });
  for (const expected of ["end_turn", "tool_use", "end_turn"])
    assert.equal((await client.messages.create({ ...BASE, tools: TOOLS })).stop_reason, expected);
});

test("no two ids of calls and messages are alike", async () => {
  const ids: string[] = [];
  play(call("a", "b"), call("a", "b"));
  for (let i = 0; i < 2; i++) {
    const message = await client.messages.create({ ...BASE, tools: TOOLS });
    ids.push(message.id, ...message.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : [])));
  }
  assert.equal(ids.length, 6);
  assert.equal(new Set(ids).size, 6);
  assert.match(ids[1] ?? "", /^toolu_.{24}$/);
});

test("an id that the reply names is kept, and input may be what the schema forbids", async () => {
  play({ content: [{ type: "tool_use", name: "bash", input: ["ls"], id: "call_1" }] });
  const { content } = await client.messages.stream({ ...BASE, tools: TOOLS }).finalMessage();
  const block = content.at(-1);
  assert.ok(block?.type === "tool_use");
  assert.equal(block.id, "call_1");
  assert.deepEqual(block.input, ["ls"]);
});

// Streams, read in three ways: the SDK's final message, its iterator, and a parser of our own over the bytes.

type StreamEvent = Anthropic.RawMessageStreamEvent;

/** The fields of every event and of every delta, none more and none less. */
const EVENT_FIELDS = {
  message_start: { type: 1, message: 1 },
  content_block_start: { type: 1, index: 1, content_block: 1 },
  content_block_delta: { type: 1, index: 1, delta: 1 },
  content_block_stop: { type: 1, index: 1 },
  message_delta: { type: 1, delta: 1, usage: 1 },
  message_stop: { type: 1 },
} satisfies { [E in StreamEvent as E["type"]]: Record<keyof E, 1> };
const DELTA_FIELDS = {
  text_delta: { type: 1, text: 1 },
  thinking_delta: { type: 1, thinking: 1 },
  signature_delta: { type: 1, signature: 1 },
  input_json_delta: { type: 1, partial_json: 1 },
  citations_delta: { type: 1, citation: 1 },
} satisfies { [D in Anthropic.RawContentBlockDelta as D["type"]]: Record<keyof D, 1> };
const END_FIELDS = {
  stop_reason: 1,
  stop_sequence: 1,
  stop_details: 1,
  container: 1,
} satisfies Record<keyof Anthropic.RawMessageDeltaEvent["delta"], 1>;
const END_USAGE_FIELDS = {
  input_tokens: 1,
  cache_creation_input_tokens: 1,
  cache_read_input_tokens: 1,
  output_tokens: 1,
  output_tokens_details: 1,
  server_tool_use: 1,
} satisfies Record<keyof Anthropic.MessageDeltaUsage, 1>;

function hasFields(value: object, fields: object): void {
  assert.deepEqual(Object.keys(value).sort(), Object.keys(fields).sort());
}

/** The events of a stream without pings, taken from the bytes themselves. */
async function bytesOf(params: object): Promise<StreamEvent[]> {
  const response = await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    headers: { "anthropic-version": "2023-06-01", "x-api-key": "test" },
    body: JSON.stringify({ ...params, stream: true }),
  });
  const sent = new TextDecoder("utf-8", { fatal: true }).decode(await response.arrayBuffer());
  assert.ok(sent.endsWith("\n\n"), "the last event is whole");
  const events = sent
    .slice(0, -2)
    .split("\n\n")
    .map((lines) => {
      const [, name, data] = /^event: (\w+)\ndata: ([^\r\n]+)$/.exec(lines) ?? [];
      assert.ok(data, `one line for the name, one for the data: ${lines}`);
      const event: StreamEvent | { type: "ping" } = JSON.parse(data);
      assert.equal(event.type, name);
      return event;
    });
  return events.flatMap((event) => (event.type === "ping" ? [] : [event]));
}

/** The message that events carry. Their order and fields are those of the API; JSON that was cut counts as empty. */
function joined([start, ...events]: StreamEvent[]): Anthropic.Message {
  assert.ok(start?.type === "message_start");
  hasFields(start, EVENT_FIELDS.message_start);
  const message = structuredClone(start.message);
  assert.deepEqual([message.content, message.stop_reason, message.stop_details], [[], null, null]);
  let open: Anthropic.ContentBlock | undefined;
  let json = "";
  let ended = false;
  assert.equal(events.pop()?.type, "message_stop");
  for (const event of events) {
    hasFields(event, EVENT_FIELDS[event.type]);
    assert.equal(ended, false, "message_delta is the last but one");
    if ("index" in event) assert.equal(event.index, message.content.length);
    assert.equal(open === undefined, event.type === "content_block_start" || event.type === "message_delta");
    if (event.type === "content_block_start") {
      open = event.content_block;
      json = "";
      if (open.type === "text") assert.equal(open.text, "");
      if (open.type === "thinking") assert.equal(open.thinking + open.signature, "");
      if (open.type === "tool_use") assert.deepEqual(open.input, {});
    } else if (event.type === "content_block_delta") {
      const { delta } = event;
      hasFields(delta, DELTA_FIELDS[delta.type]);
      if (delta.type === "text_delta" && open?.type === "text") open.text += delta.text;
      else if (delta.type === "input_json_delta" && open?.type === "tool_use") json += delta.partial_json;
      else {
        assert.ok(open?.type === "thinking" && open.signature === "", `${delta.type} in ${open?.type}`);
        if (delta.type === "thinking_delta") open.thinking += delta.thinking;
        else if (delta.type === "signature_delta") open.signature = delta.signature;
        else assert.fail(delta.type);
      }
    } else if (event.type === "content_block_stop") {
      assert.ok(open);
      if (open.type === "tool_use" && isJson(json)) open.input = JSON.parse(json);
      message.content.push(open);
      open = undefined;
    } else if (event.type === "message_delta") {
      hasFields(event.delta, END_FIELDS);
      hasFields(event.usage, END_USAGE_FIELDS);
      const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = message.usage;
      const input = { input_tokens, cache_creation_input_tokens, cache_read_input_tokens };
      assert.deepEqual({ ...event.usage, ...input }, event.usage, "the input is the same at both ends");
      assert.deepEqual([message.usage.output_tokens, message.usage.output_tokens_details], [1, null]);
      Object.assign(message, event.delta);
      Object.assign(message.usage, event.usage);
      ended = true;
    } else assert.fail(event.type);
  }
  assert.equal(ended, true);
  return message;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const named = (id: string, input: object) => ({ type: "tool_use", name: "bash", input, id }) as const;
const NOTE = { type: "thinking", thinking: "First I look around, then I decide what there is to do." } as const;
const LONG_CALL = named("toolu_2", { command: "rm -rf build", reason: "it is old, and nobody needs it" });

type Streamed = {
  reply: Reply;
  failure?: Failure;
  params?: Partial<Anthropic.MessageCreateParamsStreaming>;
  /** What the SDK makes of the last call's input when its JSON was cut. */
  fragment?: unknown;
};

const STREAMS: Record<string, Streamed> = {
  "a text": { reply: say("a text that is long enough for some events, surely") },
  "summarized thinking": { reply: { content: [NOTE, ...say("hi").content] }, params: { thinking: SUMMARIZED } },
  "thinking that is not shown": { reply: { content: [NOTE, ...say("hi").content] } },
  "thinking between calls, some redacted": {
    reply: {
      content: [
        { type: "redacted_thinking" },
        named("a", { command: "ls" }),
        NOTE,
        LONG_CALL,
        { type: "redacted_thinking" },
      ],
    },
    params: { thinking: SUMMARIZED },
  },
  "calls side by side": {
    reply: {
      content: [
        { type: "text", text: "Three at once." },
        named("a", { command: "ls -la /tmp", nested: { list: [1, "😀", null, 0.5, true] } }),
        named("b", {}),
        LONG_CALL,
      ],
    },
  },
  "a call that is cut": {
    reply: { content: [NOTE, named("a", { command: "ls" }), LONG_CALL] },
    failure: { kind: "max_tokens" },
    fragment: { command: "rm -rf build" },
  },
  "a call that the window cuts": {
    reply: { content: [NOTE, named("a", { command: "a long one to write" })] },
    failure: { kind: "context_window" },
    fragment: {},
  },
  "a text that max_tokens cuts": { reply: say("x".repeat(600)), params: { max_tokens: 50 } },
  "thinking that max_tokens cuts": { reply: { content: [NOTE] }, params: { max_tokens: 5, thinking: SUMMARIZED } },
  "a refusal with calls": { reply: { content: [NOTE, LONG_CALL] }, failure: { kind: "refusal" } },
  "blank text beside a call": { reply: { content: [NOTE, LONG_CALL] }, failure: { kind: "blank_text" } },
  "an empty reply": { reply: { content: [] } },
  "a refusal without content": { reply: { content: [] }, failure: { kind: "refusal" } },
  "a reply without room": { reply: say("hi"), params: { max_tokens: 0 } },
  "Chinese and emoji": {
    reply: {
      content: [
        { type: "thinking", thinking: "先看看有什么文件，再决定怎么做。".repeat(4) },
        { type: "text", text: `${"你好，世界。".repeat(9)}${"👩‍👩‍👧‍👦😀".repeat(20)}` },
        named("a", { command: "echo 你好 😀".repeat(5) }),
      ],
    },
    params: { thinking: SUMMARIZED },
  },
  "text that looks like a stream": {
    reply: say('\r\n\r\nevent: message_stop\ndata: {"type":"message_stop"}\n\n\u2028\u2029\u0085\u0000\ufeff:\tping'),
  },
  "a slow reply": { reply: { content: [NOTE, LONG_CALL] }, failure: { kind: "slow", delay: 1 } },
};

for (const [name, { reply, failure, params, fragment }] of Object.entries(STREAMS))
  test(`a stream carries the same message as a plain answer: ${name}`, async () => {
    const request = { ...BASE, tools: TOOLS, ...params };
    const prepared = () => {
      play(reply);
      if (failure) server.fail(failure);
      return client.messages;
    };
    // Of one request the answers differ in nothing but the id of the message.
    const plain = await prepared().create({ ...request, stream: false });
    const { id } = plain;
    prepared();
    const sent = await bytesOf(request);
    const iterated: StreamEvent[] = [];
    for await (const event of await prepared().create({ ...request, stream: true })) iterated.push(event);
    const { parsed_output: _, ...final } = await prepared().stream(request).finalMessage();

    for (const [first] of [sent, iterated]) if (first?.type === "message_start") first.message.id = id;
    assert.deepEqual(iterated, sent);
    assert.deepEqual({ ...joined(sent), id }, JSON.parse(JSON.stringify(plain)));
    const expected = structuredClone(plain);
    const last = expected.content.at(-1);
    if (fragment && last?.type === "tool_use") last.input = fragment;
    assert.deepEqual(JSON.parse(JSON.stringify({ ...final, id })), JSON.parse(JSON.stringify(expected)));
  });

test("the streams above hold every kind of event and delta that can occur", async () => {
  const seen = new Set<string>();
  for (const { reply, params } of Object.values(STREAMS)) {
    play(reply);
    for (const event of await bytesOf({ ...BASE, tools: TOOLS, ...params }))
      seen.add(event.type === "content_block_delta" ? event.delta.type : event.type);
  }
  const { content_block_delta: _, ...events } = EVENT_FIELDS;
  const { citations_delta: __, ...deltas } = DELTA_FIELDS;
  hasFields(Object.fromEntries([...seen].map((each) => [each, 1])), { ...events, ...deltas });
});

test("text, thinking and input come in pieces that never split a character", async () => {
  play({
    content: [
      { type: "thinking", thinking: "😀".repeat(60) },
      { type: "text", text: `x${"😀".repeat(60)}` },
      { type: "tool_use", name: "bash", input: { command: "😀".repeat(60) } },
    ],
  });
  const deltas = (await eventsOf({ tools: TOOLS, thinking: SUMMARIZED })).flatMap((event) =>
    event.type === "content_block_delta" ? [event.delta] : [],
  );
  for (const kind of ["thinking_delta", "text_delta", "input_json_delta"])
    assert.ok(deltas.filter((delta) => delta.type === kind).length > 2, kind);
  for (const delta of deltas)
    assert.ok(Object.values(delta).every((value) => typeof value === "string" && value.isWellFormed()));
  assert.equal(deltas.filter((delta) => delta.type === "signature_delta").length, 1);
});

test("the events of a stream come in the order of the API", async () => {
  play(say("hi"));
  const response = await client.messages.create({ ...BASE, stream: true }).asResponse();
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  assert.match(response.headers.get("request-id") ?? "", /^req_/);
  const names = [...(await response.text()).matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
  const block = (deltas: number) => [
    "content_block_start",
    ...Array(deltas).fill("content_block_delta"),
    "content_block_stop",
  ];
  assert.deepEqual(names, ["message_start", "ping", ...block(1), ...block(1), "message_delta", "message_stop"]);
});

test("output longer than max_tokens is cut, and a call then arrives incomplete", async () => {
  play(call("x".repeat(600)));
  const events = await eventsOf({ tools: TOOLS, max_tokens: 100 });
  const json = events.flatMap((event) =>
    event.type === "content_block_delta" && event.delta.type === "input_json_delta" ? [event.delta.partial_json] : [],
  );
  assert.throws(() => JSON.parse(json.join("")));
  const end = events.find((event) => event.type === "message_delta");
  assert.equal(end?.delta.stop_reason, "max_tokens");
  assert.equal(end?.usage.output_tokens, 100);
});

test("a reply of just max_tokens is whole, and one character more is cut", async () => {
  const reply = (length: number): Reply => ({
    content: [{ type: "redacted_thinking" }, ...say("x".repeat(length)).content],
  });
  play(reply(300), reply(301));
  for (const reason of ["end_turn", "max_tokens"]) {
    const message = await client.messages.create({ ...BASE, max_tokens: 100 });
    assert.deepEqual([message.stop_reason, textOf(message).length], [reason, 300]);
  }
});

test("a cut never splits a character", async () => {
  play({ content: [{ type: "redacted_thinking" }, { type: "text", text: "😀".repeat(50) }] });
  const message = await client.messages.create({ ...BASE, max_tokens: 3 });
  assert.equal(textOf(message), "😀".repeat(4));
});

test("a model that throws is a 500 with its message, and so is a script that has run out", async () => {
  server.model = () => {
    throw new Error("the model is confused");
  };
  await assert.rejects(client.messages.create(BASE), failsWith(500, "the model is confused"));
  play(say("only this"));
  await client.messages.create(BASE);
  await assert.rejects(
    client.messages.create(BASE),
    failsWith(500, "the script has run out: request 2, but only 1 replies"),
  );
});

test("the journal keeps request, answer and usage", async () => {
  play(say("hi"));
  const message = await client.messages.create(BASE);
  const entry = lastEntry();
  assert.deepEqual(entry.request, BASE);
  assert.equal(entry.status, 200);
  assert.equal(entry.error, undefined);
  assert.deepEqual(entry.reply, message.content);
  assert.deepEqual(entry.usage, message.usage);
  assert.equal(entry.stop_reason, "end_turn");
});

// Thinking is bound to what came before it.

const talk: Model = (request) => (request.messages.length < 8 ? call("ls") : say("done"));

/** Five rounds with thinking in front of every call, ending with a result. */
async function conversation(params: Partial<Anthropic.MessageCreateParams> = {}) {
  server.model = talk;
  const request = { ...BASE, tools: TOOLS, thinking: SUMMARIZED, ...params };
  const messages: Anthropic.MessageParam[] = [...HELLO];
  for (let round = 0; round < 3; round++) {
    const { content } = await client.messages.stream({ ...request, messages, stream: true }).finalMessage();
    messages.push({ role: "assistant", content });
    const results = content.flatMap((block) =>
      block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "a b c" }] : [],
    );
    messages.push({ role: "user", content: results });
  }
  return { ...request, messages, stream: false as const };
}

type Conversation = Awaited<ReturnType<typeof conversation>>;

/** The request with its messages passed through `change`, which gets a copy to do what it likes with. */
function changed(request: Conversation, change: (messages: Anthropic.MessageParam[]) => void): Conversation {
  const copy = structuredClone(request);
  change(copy.messages);
  return copy;
}

const blocks = (messages: Anthropic.MessageParam[], i: number): Anthropic.ContentBlockParam[] => {
  const content = messages[i]?.content;
  assert.ok(Array.isArray(content));
  return content;
};

const VALID: [string, (messages: Anthropic.MessageParam[]) => void][] = [
  ["nothing changed", () => {}],
  ["the oldest thinking removed", (messages) => blocks(messages, 1).shift()],
  [
    "the two oldest thinking blocks removed",
    (messages) => {
      blocks(messages, 1).shift();
      blocks(messages, 3).shift();
    },
  ],
  [
    "all thinking removed",
    (messages) => {
      for (const i of [1, 3, 5]) blocks(messages, i).shift();
    },
  ],
  ["a message appended", (messages) => messages.push({ role: "user", content: "<reminder/>" })],
  ["text appended to the last message", (messages) => blocks(messages, 6).push({ type: "text", text: "<reminder/>" })],
  [
    "the first string as a list of one block with cache_control",
    (messages) => {
      messages[0] = {
        role: "user",
        content: [{ type: "text", text: "hello", cache_control: { type: "ephemeral" } }],
      };
    },
  ],
  [
    "a result's string as a list of one block with cache_control",
    (messages) => {
      const text = { type: "text", text: "a b c", cache_control: { type: "ephemeral" } } as const;
      blocks(messages, 2)[0] = { type: "tool_result", tool_use_id: idOfCall(messages, 1), content: [text] };
    },
  ],
  [
    "an assistant message split in two",
    (messages) => {
      const [thinking, ...calls] = blocks(messages, 3);
      assert.ok(thinking);
      messages.splice(3, 1, { role: "assistant", content: [thinking] }, { role: "assistant", content: calls });
    },
  ],
  [
    "calls without the caller field, their keys in another order",
    (messages) => {
      for (const i of [1, 3, 5])
        messages[i] = {
          role: "assistant",
          content: blocks(messages, i).map((block) =>
            block.type === "tool_use"
              ? { input: block.input, name: block.name, id: block.id, type: block.type }
              : block,
          ),
        };
    },
  ],
  [
    "all thinking removed and the history rewritten",
    (messages) => {
      for (const i of [1, 3, 5]) blocks(messages, i).shift();
      blocks(messages, 2)[0] = { ...result(idOfCall(messages, 1)), type: "tool_result", content: "(cleared)" };
    },
  ],
];

function idOfCall(messages: Anthropic.MessageParam[], i: number): string {
  const block = blocks(messages, i).find((each) => each.type === "tool_use");
  assert.ok(block?.type === "tool_use");
  return block.id;
}

for (const [name, change] of VALID)
  test(`thinking stays valid with ${name}`, async () => {
    await client.messages.create(changed(await conversation(), change));
  });

const INVALID: [string, (messages: Anthropic.MessageParam[]) => void, string][] = [
  [
    "an earlier message changed",
    (messages) => messages.splice(0, 1, { role: "user", content: "hullo" }),
    "messages.1.content.0",
  ],
  [
    "an old result cleared",
    (messages) => {
      blocks(messages, 2)[0] = { type: "tool_result", tool_use_id: idOfCall(messages, 1), content: "(cleared)" };
    },
    "messages.3.content.0",
  ],
  [
    "a call's input changed",
    (messages) => {
      blocks(messages, 1)[1] = { type: "tool_use", id: idOfCall(messages, 1), name: "bash", input: {} };
    },
    "messages.3.content.0",
  ],
  ["a round removed", (messages) => messages.splice(1, 2), "messages.1.content.0"],
  ["thinking removed from the middle", (messages) => blocks(messages, 3).shift(), "messages.5.content.0"],
  [
    "two thinking blocks exchanged",
    (messages) => {
      const [one, two] = [blocks(messages, 1).shift(), blocks(messages, 3).shift()];
      assert.ok(one && two);
      blocks(messages, 1).unshift(two);
      blocks(messages, 3).unshift(one);
    },
    "messages.1.content.0",
  ],
  [
    "the text of a thinking block changed",
    (messages) => {
      const block = blocks(messages, 5)[0];
      assert.ok(block?.type === "thinking");
      block.thinking += ".";
    },
    "messages.5.content.0",
  ],
  [
    "a signature made up",
    (messages) => {
      const block = blocks(messages, 1)[0];
      assert.ok(block?.type === "thinking");
      block.signature = "abc.def";
    },
    "messages.1.content.0",
  ],
  [
    "thinking moved behind the call",
    (messages) => {
      blocks(messages, 5).reverse();
    },
    "messages.5.content.1",
  ],
];

for (const [name, change, at] of INVALID)
  test(`thinking is refused with ${name}`, async () => {
    await assert.rejects(
      client.messages.create(changed(await conversation(), change)),
      failsWith(400, `${at}: ${BOUND}`),
    );
  });

test("thinking is refused when system or tools change, not when only cache_control does", async () => {
  const request = await conversation({ system: "You are careful." });
  await client.messages.create({
    ...request,
    system: [{ type: "text", text: "You are careful.", cache_control: { type: "ephemeral" } }],
    cache_control: { type: "ephemeral" },
  });
  await assert.rejects(
    client.messages.create({ ...request, system: "You are quick." }),
    failsWith(400, `messages.1.content.0: ${BOUND}`),
  );
  await assert.rejects(
    client.messages.create({ ...request, system: undefined }),
    failsWith(400, `messages.1.content.0: ${BOUND}`),
  );
  const tools = [...TOOLS, { name: "more", input_schema: { type: "object" as const } }];
  await assert.rejects(client.messages.create({ ...request, tools }), failsWith(400, `messages.1.content.0: ${BOUND}`));
});

test("thinking from before a rewrite is refused behind it, thinking from after it is valid", async () => {
  const request = await conversation();
  const rewritten = changed(request, (messages) => {
    for (const i of [1, 3, 5]) blocks(messages, i).shift();
    messages[0] = { role: "user", content: "summary" };
  });
  const { content } = await client.messages.create(rewritten);
  rewritten.messages.push({ role: "assistant", content });
  rewritten.messages.push({
    role: "user",
    content: [{ type: "tool_result", tool_use_id: idOfCall(rewritten.messages, 7) }],
  });
  await client.messages.create(rewritten);
  const [old] = blocks(request.messages, 1);
  assert.ok(old);
  blocks(rewritten.messages, 1).unshift(old);
  await assert.rejects(client.messages.create(rewritten), failsWith(400, `messages.1.content.0: ${BOUND}`));
});

test("redacted thinking is bound in the same way", async () => {
  play({ content: [{ type: "redacted_thinking" }, { type: "text", text: "hi" }] }, say("again"));
  const { content } = await client.messages.create(BASE);
  const messages: Anthropic.MessageParam[] = [...HELLO, { role: "assistant", content }, { role: "user", content: "?" }];
  await client.messages.create({ ...BASE, messages });
  messages[0] = { role: "user", content: "hullo" };
  await assert.rejects(client.messages.create({ ...BASE, messages }), failsWith(400, `messages.1.content.0: ${BOUND}`));
});

test("thinking between the blocks of one reply is bound to those before it", async () => {
  const [head, notes] = [
    { type: "text", text: "one" },
    { type: "thinking", thinking: "so" },
  ] as const;
  play({ content: [head, notes, { type: "text", text: "two" }] }, say("fine"));
  const { content } = await client.messages.create(BASE);
  const next = (reply: Anthropic.ContentBlockParam[]): Anthropic.MessageParam[] => [
    ...HELLO,
    { role: "assistant", content: reply },
    { role: "user", content: "?" },
  ];
  await client.messages.create({ ...BASE, messages: next(content) });
  const forged = content.map((block) => (block.type === "text" ? { ...block, text: `${block.text}!` } : block));
  await assert.rejects(
    client.messages.create({ ...BASE, messages: next(forged) }),
    failsWith(400, `messages.1.content.2: ${BOUND}`),
  );
});

test("another server does not accept this server's thinking", async () => {
  const request = await conversation();
  const other = await startServer({ model: talk });
  const otherClient = new Anthropic({ baseURL: other.url, apiKey: "test", maxRetries: 0 });
  await assert
    .rejects(otherClient.messages.create(request), failsWith(400, `messages.1.content.0: ${BOUND}`))
    .finally(other.close);
});

// Usage and the prompt cache.

const sizes = ({ usage }: Anthropic.Message) => {
  const { input_tokens: input, cache_read_input_tokens: read, cache_creation_input_tokens: created } = usage;
  assert.ok(read !== null && created !== null);
  assert.equal(input + read + created, lastEntry().promptTokens);
  return { input, read, created };
};
const answerTo = async (params: object) => sizes(await client.messages.create({ ...BASE, ...params, stream: false }));
const long = (letter: string): Anthropic.MessageParam => ({ role: "user", content: letter.repeat(3000) });
/** So many blocks behind the first message. */
const tail = (count: number): Anthropic.MessageParam => ({
  role: "user",
  content: Array.from({ length: count }, (_, i) => ({ type: "text", text: `block ${i}` })),
});

function silence(): void {
  server.model = () => say("ok");
}

test("three characters are a token", async () => {
  silence();
  const short = await answerTo({ messages: [{ role: "user", content: "x".repeat(300) }] });
  const longer = await answerTo({ messages: [{ role: "user", content: "x".repeat(600) }] });
  assert.equal(longer.input - short.input, 100);
  play({
    content: [
      { type: "thinking", thinking: "" },
      { type: "text", text: "x".repeat(31) },
    ],
  });
  assert.equal((await client.messages.create(BASE)).usage.output_tokens, 11);
});

test("system and tools count as part of the prompt", async () => {
  silence();
  const plain = await answerTo({});
  assert.ok((await answerTo({ system: "x".repeat(300) })).input >= plain.input + 100);
  assert.ok((await answerTo({ tools: [{ ...TOOLS[0], description: "x".repeat(300) }] })).input >= plain.input + 100);
});

test("without a breakpoint nothing is cached", async () => {
  silence();
  const messages = [long("n")];
  await answerTo({ messages });
  const second = await answerTo({ messages });
  assert.equal(second.read + second.created, 0);
});

test("the top-level breakpoint writes the whole prompt, and the next request reads it", async () => {
  silence();
  const first = await answerTo({ messages: [long("a")], cache_control: EPHEMERAL });
  assert.deepEqual(first, { input: 0, read: 0, created: lastEntry().promptTokens });
  const second = await answerTo({ messages: [long("a"), long("b")], cache_control: EPHEMERAL });
  assert.equal(second.read, first.created);
  assert.equal(second.input, 0);
  const again = await answerTo({ messages: [long("a"), long("b")], cache_control: EPHEMERAL });
  assert.deepEqual(again, { input: 0, read: lastEntry().promptTokens, created: 0 });
});

test("a prefix of 512 tokens is cached, one of 511 is not", async () => {
  silence();
  const frame = (await answerTo({ messages: [{ role: "user", content: "s".repeat(300) }] })).input - 100;
  for (const [size, written] of [
    [511, 0],
    [512, 512],
  ] as const) {
    const messages = [{ role: "user", content: "s".repeat(3 * (size - frame)) }];
    const { created } = await answerTo({ messages, cache_control: EPHEMERAL });
    assert.deepEqual([lastEntry().promptTokens, created], [size, written]);
    assert.equal((await answerTo({ messages, cache_control: EPHEMERAL })).read, written);
  }
});

test("an entry is found 20 blocks before a breakpoint and not 21", async () => {
  silence();
  const { created } = await answerTo({ messages: [long("c")], cache_control: EPHEMERAL });
  assert.equal((await answerTo({ messages: [long("c"), tail(21)], cache_control: EPHEMERAL })).read, 0);
  assert.equal((await answerTo({ messages: [long("c"), tail(20)], cache_control: EPHEMERAL })).read, created);
});

test("a change in the prefix misses, be it in tools, system, messages or the model", async () => {
  silence();
  const base = { tools: TOOLS, system: "be brief", messages: [long("d")], cache_control: EPHEMERAL };
  await answerTo(base);
  assert.ok((await answerTo(base)).read > 0);
  for (const change of [
    { tools: [{ ...TOOLS[0], description: "new" }] },
    { system: "be long" },
    { messages: [long("e")] },
    { model: "claude-haiku-5-5" },
  ])
    assert.equal((await answerTo({ ...base, ...change })).read, 0);
});

test("a breakpoint on the system prompt keeps it cached when the messages change", async () => {
  silence();
  const system = [{ type: "text", text: "z".repeat(3000), cache_control: EPHEMERAL }];
  const first = await answerTo({ system, messages: [long("f")] });
  assert.ok(first.created >= 1000 && first.input >= 1000);
  const second = await answerTo({ system, messages: [long("g")] });
  assert.equal(second.read, first.created);
  assert.equal(second.created, 0);
});

test("a rejected request writes nothing to the cache", async () => {
  server.model = () => {
    throw new Error("no");
  };
  await assert.rejects(answerTo({ messages: [long("h")], cache_control: EPHEMERAL }));
  silence();
  assert.equal((await answerTo({ messages: [long("h")], cache_control: EPHEMERAL })).read, 0);
});

test("a stream tells the input side of its usage at the start", async () => {
  silence();
  const [start] = await eventsOf({ messages: [long("i")], cache_control: EPHEMERAL });
  assert.ok(start?.type === "message_start");
  assert.equal(start.message.usage.cache_creation_input_tokens, lastEntry().promptTokens);
});

// Failures on order.

test("a queued status is used up by one request, with the error type of that status", async () => {
  silence();
  const types = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
  };
  for (const status of [400, 401, 429, 500, 529] as const) {
    server.fail({ kind: "status", status, message: "on order" });
    const { status: got, error } = await post(BASE);
    assert.equal(got, status);
    assert.deepEqual(error?.error, { type: types[status], message: "on order" });
    assert.equal((await post(BASE)).status, 200);
  }
});

test("the SDK retries what is queued, obeys retry-after, and gives up after its retries", async () => {
  silence();
  const retrying = new Anthropic({ baseURL: server.url, apiKey: "test", maxRetries: 2 });
  const overloaded: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
  const before = server.journal.length;
  server.fail(overloaded, { kind: "status", status: 429, retryAfter: 0.01 });
  await retrying.messages.create(BASE);
  assert.deepEqual(
    server.journal.slice(before).map((entry) => entry.status),
    [529, 429, 200],
  );
  server.fail(overloaded, overloaded, overloaded);
  await assert.rejects(retrying.messages.create(BASE), failsWith(529, "Overloaded"));
  assert.equal(server.journal.length, before + 6);
});

test("retry-after reaches the client as a header", async () => {
  server.fail({ kind: "status", status: 429, retryAfter: 7 });
  await assert.rejects(client.messages.create(BASE), (error) => {
    assert.ok(error instanceof Anthropic.RateLimitError);
    assert.equal(error.headers.get("retry-after"), "7");
    return true;
  });
});

/** Streams one reply under a failure: the text that arrived, and how it ended. */
async function streamUnder(failure: Failure, reply: Reply = say("a text that is long enough for some events, surely")) {
  play(reply);
  server.fail(failure);
  const stream = client.messages.stream({ ...BASE, tools: TOOLS, thinking: SUMMARIZED });
  let events = 0;
  stream.on("streamEvent", () => events++);
  const message = await stream.finalMessage().catch((error: unknown) => error);
  return { events, message };
}

test("a dropped connection breaks the stream after some events", async () => {
  const { events, message } = await streamUnder({ kind: "drop" });
  assert.ok(events > 2);
  assert.ok(message instanceof Anthropic.AnthropicError && !(message instanceof Anthropic.BadRequestError));
  assert.equal(lastEntry().error, "drop");
});

test("a plain request can be dropped or meet an overloaded server too", async () => {
  silence();
  server.fail({ kind: "drop" }, { kind: "error_event" });
  await assert.rejects(client.messages.create(BASE), Anthropic.APIConnectionError);
  await assert.rejects(client.messages.create(BASE), failsWith(529, "Overloaded"));
});

test("an error event in the middle of the stream is an overloaded_error", async () => {
  const { events, message } = await streamUnder({ kind: "error_event" });
  assert.ok(events > 2);
  assert.ok(message instanceof Anthropic.APIError);
  assert.equal(message.type, "overloaded_error");
});

test("a slow stream arrives whole, and can be left early without harm", async () => {
  const { message } = await streamUnder({ kind: "slow", delay: 1 });
  assert.ok(!(message instanceof Error));

  play(say("x".repeat(2000)));
  server.fail({ kind: "slow", delay: 5 });
  const stream = client.messages.stream(BASE);
  stream.on("text", () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  play(say("still here"));
  assert.equal((await client.messages.create(BASE)).stop_reason, "end_turn");
});

test("a slow plain answer keeps its own client waiting, and no other", async () => {
  play(say("late"), say("at once"));
  server.fail({ kind: "slow", delay: 600_000 });
  const leaving = new AbortController();
  const before = server.journal.length;
  const late = client.messages.create(BASE, { signal: leaving.signal });
  const left = assert.rejects(late, Anthropic.APIUserAbortError);
  while (server.journal.length === before) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(textOf(await client.messages.create(BASE)), "at once");
  leaving.abort();
  await left;
});

test("max_tokens on order cuts the last block: the JSON of the last call is incomplete, the first is whole", async () => {
  play(call("ls -la", "rm -rf build"));
  server.fail({ kind: "max_tokens" });
  const events = await eventsOf({ tools: TOOLS });
  const json = (index: number) =>
    events
      .flatMap((event) =>
        event.type === "content_block_delta" && event.index === index && event.delta.type === "input_json_delta"
          ? [event.delta.partial_json]
          : [],
      )
      .join("");
  assert.deepEqual(JSON.parse(json(1)), { command: "ls -la" });
  assert.ok(json(2).length > 0);
  assert.throws(() => JSON.parse(json(2)));
  assert.equal(lastEntry().stop_reason, "max_tokens");
});

test("context_window on order cuts the reply with its own stop reason", async () => {
  const { message } = await streamUnder({ kind: "context_window" }, say("0123456789"));
  assert.ok(isMessage(message));
  assert.equal(message.stop_reason, "model_context_window_exceeded");
  assert.equal(textOf(message), "01234");
});

test("a refusal comes with its content and details", async () => {
  const { message } = await streamUnder({ kind: "refusal" }, call("ls"));
  assert.ok(isMessage(message));
  assert.equal(message.stop_reason, "refusal");
  assert.equal(message.stop_details?.type, "refusal");
  assert.equal(message.content.at(-1)?.type, "tool_use");
});

test("blank text on order stands before the calls, must not be sent back, and binds nothing", async () => {
  const thinking = { type: "thinking", thinking: "and now" } as const;
  const { message } = await streamUnder(
    { kind: "blank_text" },
    { content: [thinking, ...call("ls").content, thinking] },
  );
  assert.ok(isMessage(message));
  assert.deepEqual(
    message.content.map((block) => block.type),
    ["thinking", "text", "tool_use", "thinking"],
  );
  assert.equal(textOf(message).trim(), "");
  silence();
  const next = (content: Anthropic.ContentBlockParam[]) => ({
    ...BASE,
    tools: TOOLS,
    messages: [
      ...HELLO,
      { role: "assistant" as const, content },
      { role: "user" as const, content: [{ type: "tool_result" as const, tool_use_id: callIn(message).id }] },
    ],
  });
  await assert.rejects(client.messages.create(next(message.content)), failsWith(400, NON_EMPTY));
  await client.messages.create(next(message.content.filter((block) => block.type !== "text")));
});

const isMessage = (value: unknown): value is Anthropic.Message => !(value instanceof Error);
const textOf = (message: Anthropic.Message) =>
  message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

function callIn(message: Anthropic.Message): Anthropic.ToolUseBlock {
  const block = message.content.find((each) => each.type === "tool_use");
  assert.ok(block?.type === "tool_use");
  return block;
}

test("a client that leaves while it sends its request does no harm", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.write("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{", () => socket.destroy());
  await once(socket, "close");
  play(say("still here"));
  assert.equal((await client.messages.create(BASE)).stop_reason, "end_turn");
});

test("close ends a stream that is still open", async () => {
  const other = await startServer({ model: () => say("x".repeat(2000)) });
  other.fail({ kind: "slow", delay: 20 });
  const stream = new Anthropic({ baseURL: other.url, apiKey: "test", maxRetries: 0 }).messages.stream(BASE);
  stream.on("text", () => void other.close());
  await assert.rejects(stream.finalMessage(), Anthropic.AnthropicError);
});

test("a port that is taken is an error", async () => {
  await assert.rejects(startServer({ port: Number(new URL(server.url).port) }), { code: "EADDRINUSE" });
});
