/**
 * Requests, and how the Messages API answers each. The local server's tests and `npm run conformance` run the same cases.
 * Each rule has a request that breaks it and one that just doesn't.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { BINDING_BETA } from "./betas.ts";
import type { Rule } from "./errors.ts";
import type { Model } from "./server.ts";

type Conversation = { system: string; tools: Anthropic.Tool[]; messages: Anthropic.MessageParam[] };
/** How a request is answered. If it's accepted, the message is empty or says what was ignored. */
export type Answer = { status: number; message: string; rule?: Rule };
export type Case = {
  name: string;
  expected: Answer;
  /** The rules that an accepted request almost breaks. */
  almost?: Rule[];
  /** Fields that replace or extend those of BASE, or the whole body as a string. */
  sends: object | string;
  /** `null` removes a header that the SDK would send. */
  headers?: Record<string, string | null>;
  /** Changes a conversation with signed thinking before it's sent. Throws if the model didn't think. */
  edit?: (conversation: Conversation) => unknown;
  /** `npm run conformance` sends large cases only with `--all`. */
  isLarge?: boolean;
};

const HELLO = { role: "user", content: "hello" } as const;
/** A valid request, which each case changes. */
export const BASE = { model: "claude-sonnet-5-5", max_tokens: 1, messages: [HELLO] };
const TOOLS: Anthropic.Tool[] = [
  { name: "bash", input_schema: { type: "object", properties: { command: { type: "string" } } } },
];
const MORE: Anthropic.Tool = { name: "more", input_schema: { type: "object" } };
export const CACHE = { type: "ephemeral" } as const;
export const HOUR = { type: "ephemeral", ttl: "1h" } as const;
const SHORT = { type: "ephemeral", ttl: "5m" };
export const SUMMARIZED = { type: "adaptive", display: "summarized" } as const;
const GREY = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAAD0lEQVR42mNoQAMMI1sAAAUMgAHjM1mKAAAAAElFTkSuQmCC";
const image = (data: string) => ({ type: "image", source: { type: "base64", media_type: "image/png", data } });
const THOUGHT = { type: "thinking", thinking: "", signature: "x" };
/** Needed for `block_binding`. Without it, the API doesn't check thinking for accounts from before September 2026. */
const BETA = { "anthropic-beta": BINDING_BETA };
const bound = (prefix_mismatch_behavior: string) => ({ ...SUMMARIZED, block_binding: { prefix_mismatch_behavior } });

const text = (fields: object = {}) => ({ type: "text", text: "x", ...fields });
const use = (id: string, fields = {}) => ({ type: "tool_use", id, name: "bash", input: {}, ...fields });
const result = (id: string, fields = {}) => ({ type: "tool_result", tool_use_id: id, content: "done", ...fields });
const user = (...content: unknown[]) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
const system = (...content: unknown[]) => ({ role: "system", content });
/** A message that changes the effort from here on. */
const EFFORT = { ...system(), output_config: { effort: "low" } };
/** Returns a request in which these messages follow the user's hello. */
const history = (...messages: unknown[]) => ({ tools: TOOLS, messages: [HELLO, ...messages] });
const first = (...content: unknown[]) => ({ messages: [user(...content)] });
const tool = (fields: object) => ({ tools: [{ ...TOOLS[0], ...fields }] });
const breakpoints = (n: number) => Array(n).fill(text({ cache_control: CACHE }));
const words = (count: number) => first(text({ text: "hello ".repeat(count) }));
const padded = (bytes: number) => JSON.stringify(BASE).padStart(bytes);

// --- rejected --------------------------------------------------------------------------------------------------------

const EXTRA = "Extra inputs are not permitted";
const BLOCKS =
  "'text', 'image', 'document', 'search_result', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result', …";
const TAG = (tag: string, tags: string) =>
  `Input tag '${tag}' found using 'type' does not match any of the expected tags: ${tags}`;
const NAME = (length: number) => `String should match pattern '^[a-zA-Z0-9_-]{1,${length}}$'`;
const TOO_MANY = "max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for …";
const FIRST = "use the top-level 'system' parameter for the initial system prompt…";
const PRECEDE = "role 'system' must precede an 'assistant' message or end the array…";
const BETWEEN =
  'To turn thinking off on this model, send "thinking": {"type": "between_tools"} instead of {"type": "disabled"}.…';
const FORCED = "Thinking may not be enabled when tool_choice forces tool use.";
const PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message.";
const BREAKPOINTS = "A maximum of 4 blocks with cache_control may be provided. Found 5.";
const LATE = (at: string) =>
  `${at}.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: \`tools\`, \`system\`, \`messages\`.`;
const NO_TOOLS = "Requests which include `tool_use` or `tool_result` blocks must define tools.";
const WITHOUT = (type: string) =>
  `"thinking.type.${type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`;
const UNANSWERED = (ids: string) =>
  `messages.1: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`;
const UNIQUE = "`tool_use` ids must be unique";
const ONLY = (type: string, role: string) =>
  `messages.1.content.0: \`${type}\` blocks can only be in \`${role}\` messages`;
const NO_REASON = "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true";
const TWICE =
  "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a";
const UNASKED = (at: string, id: string) =>
  `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`;
const NOT_JSON = "The request body is not valid JSON: ";

type Requests = object | string | (object | string)[];
const STATUSES: { [rule in Rule]?: number } = { credential: 401, "body size": 413, "model name": 404 };
/** For each rule, the API's messages and the requests that get them. A `…` stands for any text. */
const REJECTED: { [rule in Exclude<Rule, "thinking binding">]: Record<string, Requests> } = {
  credential: { "x-api-key header is required": {} },
  version: { "anthropic-version: header is required": {} },
  "body size": { "Request exceeds the maximum size": padded(34e6) },
  "body is JSON": {
    [`${NOT_JSON}…`]: "{",
    [`${NOT_JSON}no low surrogate in string…`]: { messages: [{ role: "user", content: "\ud83d" }] },
  },
  "field missing": {
    "messages.0.content.0.text.text: Field required": first({ type: "text" }),
    "messages.1.content.0.thinking.signature: Field required": history(assistant({ type: "thinking", thinking: "" })),
  },
  "field unknown": {
    [`foo: ${EXTRA}`]: { foo: 1 },
    [`messages.0.content.0.text.foo: ${EXTRA}`]: first(text({ foo: 1 })),
    [`tools.0.custom.foo: ${EXTRA}`]: tool({ foo: 1 }),
    [`thinking.adaptive.budget_tokens: ${EXTRA}`]: { thinking: { type: "adaptive", budget_tokens: 2000 } },
    // These need beta headers.
    [`thinking.adaptive.block_binding: ${EXTRA}`]: { thinking: bound("drop_block") },
    [`context_management: ${EXTRA}`]: { context_management: { edits: [] } },
    [`messages.1.output_config: ${EXTRA}`]: history(EFFORT),
    [`metadata.team: ${EXTRA}`]: { metadata: { team: "x" } },
    [`output_config.length: ${EXTRA}`]: { output_config: { length: 1 } },
  },
  "field type": {
    "max_tokens: Input should be a valid integer": { max_tokens: 1.5 },
    "messages.0.content: Input should be a valid array": { messages: [{ role: "user", content: 5 }] },
    "messages.1.content.0.tool_use.input: Input should be a valid dictionary": history(
      assistant(use("a", { input: [] })),
    ),
    "system: Input should be a valid array": { system: 5 },
  },
  "field value": {
    "service_tier: Input should be 'auto' or 'standard_only'": { service_tier: "fast" },
    "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'": {
      output_config: { effort: "x" },
    },
    "cache_control.type: Input should be 'ephemeral'": { cache_control: { type: "eternal" } },
    "thinking.adaptive.display: Input should be 'summarized' or 'omitted'": {
      thinking: { type: "adaptive", display: "full" },
    },
  },
  "field pattern": {
    "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'": history(assistant(use("a b"))),
    [`messages.1.content.0.tool_use.name: ${NAME(200)}`]: history(assistant(use("a", { name: "a b" }))),
    [`tools.0.custom.name: ${NAME(128)}`]: [tool({ name: "a.b" }), tool({ name: "x".repeat(129) })],
  },
  "number too small": { "max_tokens: must be greater than or equal to 0": { max_tokens: -1 } },
  "list too long": {
    "messages: List should have at most 100000 items after validation": { messages: Array(100_001).fill(HELLO) },
  },
  "length of a string": {
    "model: String should have at least 1 character": { model: "" },
    "metadata.user_id: String should have at most 256 characters": { metadata: { user_id: "x".repeat(257) } },
  },
  "image data": {
    "messages.0.content.0.image.source.base64…: invalid base64 data": first(image("not base64")),
  },
  "tool schema": {
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12…": tool({
      input_schema: { type: "object", properties: 5 },
    }),
  },
  "beta header": { "Unexpected value(s) `nonsense-2026-01-01` for the `anthropic-beta` header. …": {} },
  "model name": { "model: gpt-4": { model: "gpt-4" } },
  "kind of block": {
    [`messages.0.content.0: ${TAG("sound", BLOCKS)}`]: first({ type: "sound" }),
    [`tool_choice: ${TAG("all", "'auto', 'any', 'tool', 'none'")}`]: { tool_choice: { type: "all" } },
  },
  sampling: {
    "`temperature` is deprecated for this model.": { temperature: 1 },
    "`top_p` is deprecated for this model.": { top_p: 1 },
    "`top_k` is deprecated for this model.": { top_k: 1 },
  },
  "thinking off": { [BETWEEN]: { thinking: { type: "disabled" } } },
  "thinking type": {
    [WITHOUT("disabled")]: { model: "claude-opus-5-5", thinking: { type: "disabled" } },
    [WITHOUT("between_tools")]: { model: "claude-haiku-5-5", thinking: { type: "between_tools" } },
    [WITHOUT("enabled")]: { thinking: { type: "enabled", budget_tokens: 2000 } },
  },
  "thinking on old models": {
    "adaptive thinking is not supported on this model": { model: "claude-sonnet-4-5", thinking: SUMMARIZED },
  },
  "forced tools": { [FORCED]: { tools: TOOLS, tool_choice: { type: "tool", name: "bash" } } },
  "most max_tokens": { [TOO_MANY]: { max_tokens: 128_001 } },
  "tool names": { "tools: Tool names must be unique.": { tools: [...TOOLS, ...TOOLS] } },
  "blank system": { "system: text content blocks must be non-empty": { system: [text({ text: " " })] } },
  "no messages": { "messages: at least one message is required": { messages: [] } },
  "role of a message": {
    'messages: Unexpected role "tool". Allowed roles are "user" or "assistant".': {
      messages: [{ role: "tool", content: "x" }],
    },
  },
  "system role on old models": {
    "role 'system' is not supported on this model": { model: "claude-haiku-4-5", ...history(system(text())) },
  },
  "system message first": { [`messages.0: ${FIRST}`]: { messages: [system(text()), HELLO] } },
  "system message before user": { [`messages.2: ${PRECEDE}`]: history(system(text()), system(text()), HELLO) },
  "empty assistant message": {
    "messages.1: all messages must have non-empty content except for the optional final assistant message": history(
      assistant(),
      HELLO,
    ),
  },
  "empty message": {
    "messages.1: user messages must have non-empty content": history({ role: "user", content: "" }),
    "messages.1: …": history(system()),
  },
  "empty text": { "messages: text content blocks must be non-empty": first(text({ text: "" })) },
  "blank text": {
    "messages: text content blocks must contain non-whitespace text": { messages: [{ role: "user", content: " " }] },
    "…must contain non-whitespace text": history(system(text({ text: " " }))),
  },
  "tools defined": { [NO_TOOLS]: { messages: [HELLO, assistant(use("a")), user(result("a"))] } },
  "role of a block": {
    [ONLY("tool_use", "assistant")]: history(user(use("a"))),
    [ONLY("thinking", "assistant")]: history(user(THOUGHT)),
    [ONLY("tool_result", "user")]: history(assistant(result("a")), HELLO),
  },
  "reason of an error": {
    [NO_REASON]: history(assistant(use("a")), user(result("a", { content: "", is_error: true }))),
  },
  "ids of calls": {
    [`messages.1.content.1: ${UNIQUE}`]: history(assistant(use("a"), use("a")), user(result("a"))),
    [`messages.3.content.0: ${UNIQUE}`]: history(assistant(use("a")), user(result("a")), assistant(use("a"))),
  },
  "call without result": {
    [UNANSWERED("a")]: [
      history(assistant(use("a"))),
      history(assistant(use("a")), HELLO),
      history(assistant(use("a")), user(text(), result("a"))),
    ],
    [UNANSWERED("a, c")]: history(assistant(use("a"), use("b"), use("c")), user(result("b"))),
  },
  "result without call": {
    [UNASKED("messages.1.content.0", "a")]: history(user(result("a"))),
    [UNASKED("messages.2.content.1", "b")]: history(assistant(use("a")), user(result("a"), result("b"))),
  },
  "one result a call": { [TWICE]: history(assistant(use("a")), user(result("a"), result("a"))) },
  prefill: { [PREFILL]: history(assistant(text())) },
  "cache breakpoints": {
    [BREAKPOINTS]: [
      { ...first(...breakpoints(2)), cache_control: CACHE, system: breakpoints(2) },
      { ...history(assistant(use("a")), user(result("a", { content: breakpoints(4) }))), cache_control: CACHE },
    ],
  },
  "cache lifetimes": {
    [LATE("messages.0.content.1.cache_control")]: first(text({ cache_control: CACHE }), text({ cache_control: HOUR })),
    [LATE("cache_control")]: { system: [text({ cache_control: CACHE })], cache_control: HOUR },
    [LATE("messages.2.content.0.content.0.cache_control")]: {
      ...history(assistant(use("a")), user(result("a", { content: [text({ cache_control: HOUR })] }))),
      tools: [{ ...TOOLS[0], cache_control: SHORT }],
    },
  },
  "prompt too long": { "prompt is too long: … tokens > … maximum": words(1_200_000) },
};

// --- accepted --------------------------------------------------------------------------------------------------------

/** Beta headers that real clients send. Each allows some fields. */
const BETAS = {
  "anthropic-beta":
    "context-management-2025-06-27,mid-conversation-output-config-2026-07-01,message-threads-2026-08-12,server-side-fallback-2026-07-01",
};
const SCHEMA = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const SEARCH = { type: "search_result", content: [text()], source: "x", title: "x" };
const REFERENCE = { type: "tool_reference", tool_name: "bash" };
const SERVED = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } };
const FOUND = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
const OLD = { model: "claude-haiku-4-5", max_tokens: 2_000 };

/** For each accepted request, the rules that it almost breaks. */
const ACCEPTED: Record<string, [Rule[], object | string, Case["headers"]?]> = {
  "one message": [["credential", "version", "no messages", "prefill", "sampling", "empty text", "blank text"], {}],
  "31 MB, nearly all spaces": [["body size"], padded(31e6)],
  "a whole surrogate pair, and half of one in text": [
    ["body is JSON"],
    { messages: [{ role: "user", content: "\u{1f600} \\ud83d" }] },
  ],
  "fields without effect": [
    ["field unknown", "field value", "length of a string"],
    {
      stop_sequences: ["x"],
      metadata: { user_id: "x".repeat(256) },
      service_tier: "auto",
      output_config: { effort: "low" },
    },
  ],
  "fields of betas": [
    ["beta header", "field unknown"],
    { context_management: { edits: [] }, thread: { type: "create" }, fallbacks: "default" },
    BETAS,
  ],
  "an effort without content, and betas": [
    ["empty message", "system message first", "system message before user"],
    history(EFFORT, HELLO),
    BETAS,
  ],
  "a Claude model that isn't listed": [["model name"], { model: "claude-sonnet-9" }],
  "a tool with properties": [["tool schema"], tool({ input_schema: SCHEMA })],
  "a server tool": [["kind of block"], { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
  "a reply with a server tool": [["kind of block"], history(assistant(SERVED, FOUND, text()), HELLO)],
  "a search result, a tool reference and an image as a result": [
    ["kind of block", "image data", "field missing"],
    history(assistant(use("a")), user(result("a", { content: [SEARCH, REFERENCE, image(GREY)] }))),
  ],
  "a system message before a reply, and two at the end": [
    ["system role on old models", "system message first", "system message before user", "role of a message"],
    history(system(text()), assistant(text()), HELLO, system(text()), system(text())),
  ],
  "an assistant message at the start": [["role of a message"], { messages: [assistant(text()), HELLO] }],
  "an old model: temperature and prefill": [
    ["sampling", "prefill"],
    { ...OLD, temperature: 1, ...history(assistant(text())) },
  ],
  "an old model: a thinking budget": [
    ["thinking type"],
    { ...OLD, thinking: { type: "enabled", budget_tokens: 1_024 } },
  ],
  "Haiku 5.5: a forced tool without thinking": [
    ["forced tools", "thinking type"],
    { model: "claude-haiku-5-5", thinking: { type: "disabled" }, tools: TOOLS, tool_choice: { type: "any" } },
  ],
  "a name of 128 letters": [["field pattern"], tool({ name: "x".repeat(128) })],
  "two tools, and a free choice": [
    ["tool names", "forced tools", "kind of block"],
    { tools: [...TOOLS, MORE], tool_choice: { type: "auto" } },
  ],
  "max_tokens of 0": [["number too small"], { max_tokens: 0 }],
  "max_tokens of 128,000": [["most max_tokens"], { max_tokens: 128_000 }],
  "thinking that isn't shown": [
    ["field value", "thinking on old models"],
    { thinking: { type: "adaptive", display: "omitted" } },
  ],
  "thinking between tools": [["thinking off", "thinking type"], { thinking: { type: "between_tools" } }],
  "a system prompt in blocks": [["blank system"], { system: [text()] }],
  "two messages of one role": [["list too long", "empty message", "empty assistant message"], history(HELLO)],
  "four breakpoints": [["cache breakpoints"], first(...breakpoints(4))],
  "breakpoints for an hour, then for five minutes": [
    ["cache lifetimes"],
    { ...first(text({ cache_control: HOUR })), system: [text({ cache_control: HOUR })], cache_control: SHORT },
  ],
  "results in another order than the calls, which came in two messages, and a text after them": [
    ["call without result", "one result a call", "ids of calls", "result without call"],
    history(assistant(use("a")), assistant(use("b")), user(result("b")), user(result("a"), text())),
  ],
  "a result without content": [
    ["field type", "tools defined", "role of a block"],
    history(assistant(use("a", { caller: null })), user(result("a", { content: undefined }))),
  ],
  "an error with a text": [
    ["reason of an error"],
    history(assistant(use("a")), user(result("a", { content: [text()], is_error: true }))),
  ],
  "a long prompt and max_tokens, above the window together": [
    ["prompt too long"],
    { max_tokens: 128_000, ...words(90_000) },
  ],
};

// --- thinking is bound to what came before it ------------------------------------------------------------------------

const PUZZLE =
  "Which three-digit numbers are 15 times the sum of their digits? In each of your next three replies work out one step in your head, then call bash once, with an echo of what you found.";
/** Long enough to be cached. */
const SYSTEM = `Think before every call. ${"Keep what you write short, and never explain it. ".repeat(60)}`;
export const START: Conversation = { system: SYSTEM, tools: TOOLS, messages: [{ role: "user", content: PUZZLE }] };

/** The local server's model for these cases: makes three calls for the puzzle, and says "ok" to anything else. */
export const puzzleModel: Model = ({ messages, max_tokens }) =>
  messages.length < 7 && messages[0]?.content === PUZZLE && max_tokens > 1
    ? { content: [{ type: "tool_use", name: "bash", input: { command: "echo 135" } }] }
    : { content: [{ type: "text", text: "ok" }] };

type Edit = (conversation: Conversation) => unknown;
/** Returns the blocks of a message. Messages 1, 3 and 5 have thinking and then a call. */
function blocks({ messages }: Conversation, i: number) {
  const { content } = Object(messages[i]);
  if (i % 2 && content?.[0]?.type !== "thinking")
    throw new Error(`the model did not think before its call ${(i + 1) / 2}`);
  return content;
}
const openWith = (text: string) => (conversation: Conversation) => {
  for (const i of [1, 3, 5]) blocks(conversation, i);
  conversation.messages[0] = { role: "user", content: [{ type: "text", text, cache_control: CACHE }] };
};

/** How the real API continues this message depends on the case. */
const unbound = (at: string): Answer => ({
  status: 400,
  rule: "thinking binding",
  message: `messages.${at}: Invalid \`signature\` in \`thinking\` block…`,
});
const AS_IT_IS = { status: 200, message: "" };
const DROPPED = { status: 200, message: "dropped messages.1.content.0, messages.3.content.0, messages.5.content.0" };

/** How the API answers each edit of a conversation with signed thinking. An error names the first invalid block. */
const BINDING: Record<string, [expected: Answer, edit: Edit, sends?: object]> = {
  "a message is added": [AS_IT_IS, ({ messages }) => messages.push(HELLO)],
  "a text is written as a block with a breakpoint": [AS_IT_IS, openWith(PUZZLE)],
  "the oldest thinking goes": [AS_IT_IS, (conversation) => blocks(conversation, 1).shift()],
  "all thinking goes, and a result is cleared": [
    AS_IT_IS,
    (conversation) => {
      for (const i of [1, 3, 5]) blocks(conversation, i).shift();
      blocks(conversation, 2)[0].content = "(cleared)";
    },
  ],
  "the system prompt changes": [
    unbound("1.content.0"),
    (conversation) => Object.assign(conversation, { system: "Be quick." }),
  ],
  "a tool is added": [unbound("1.content.0"), ({ tools }) => tools.push(MORE)],
  "an old result is cleared": [
    unbound("3.content.0"),
    (conversation) => blocks(conversation, 3) && Object.assign(blocks(conversation, 2)[0], { content: "…" }),
  ],
  "thinking goes from the middle": [
    unbound("5.content.0"),
    (conversation) => blocks(conversation, 5) && blocks(conversation, 3).shift(),
  ],
  "a text of thinking changes": [
    unbound("5.content.0"),
    (conversation) => Object.assign(blocks(conversation, 5)[0], { thinking: "." }),
  ],
  "the first message changes": [unbound("1.content.0"), openWith("Something else."), {}],
  "the first message changes, with drop_block": [
    DROPPED,
    openWith("Something else."),
    { thinking: bound("drop_block") },
  ],
};

// --- the cases -------------------------------------------------------------------------------------------------------

const LARGE: Rule[] = ["body size", "list too long", "prompt too long"];
const HEADERS: { [rule in Rule]?: Case["headers"] } = {
  credential: { "x-api-key": null, authorization: null },
  version: { "anthropic-version": null },
  "beta header": { "anthropic-beta": "nonsense-2026-01-01" },
};

const rejected = Object.entries(REJECTED).flatMap(([key, messages]) => {
  const rule = key as keyof typeof REJECTED;
  return Object.entries(messages).flatMap(([message, requests]) =>
    [requests].flat().map((sends, i): Case => {
      const name = i === 0 ? message : `(${i + 1}) ${message}`;
      const expected = { status: STATUSES[rule] ?? 400, message, rule };
      return { name, expected, sends, headers: HEADERS[rule], isLarge: LARGE.includes(rule) };
    }),
  );
});
const accepted = Object.entries(ACCEPTED).map(([name, [almost, sends, headers]]): Case => {
  const isLarge = typeof sends === "string" || almost.includes("prompt too long");
  return { name, expected: AS_IT_IS, almost, sends, headers, isLarge };
});
const binding = Object.entries(BINDING).map(([name, [expected, edit, sends = { thinking: bound("error") }]]): Case => {
  const headers = "thinking" in sends ? BETA : undefined;
  return { name: `thinking: ${name}`, expected, almost: ["thinking binding"], edit, sends, headers };
});
export const CASES: Case[] = [...rejected, ...accepted, ...binding];
