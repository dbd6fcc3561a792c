/**
 * Requests, and how the Messages API answers each. The local server's tests and `npm run conformance` run the same cases.
 * Each rule has a request that breaks it and one that just doesn't.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { type Parts, type Rule, rejectionFor } from "./errors.ts";
import { bash, say } from "./said.ts";
import type { Model } from "./server.ts";

type Conversation = { system: string; tools: Anthropic.Tool[]; messages: Anthropic.MessageParam[] };
/** How a request is answered. If it's accepted, the message is empty. */
export type Answer = { status: number; message: string; rule?: Rule };
export type Case = {
  name: string;
  /** Of a message, what comes before a `…` counts. */
  expected: Answer;
  /** Fields that replace or extend those of BASE, or the whole body as a string. */
  sends: object | string;
  /** `null` removes a header that the SDK would send. */
  headers?: Record<string, string | null>;
  /** Changes a conversation before it's sent, in which each of three replies is thinking and then a call. */
  edit?: (conversation: Conversation) => unknown;
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
export const SUMMARIZED = { type: "adaptive", display: "summarized" } as const;
const GREY = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAAD0lEQVR42mNoQAMMI1sAAAUMgAHjM1mKAAAAAElFTkSuQmCC";
const image = (data: string) => ({ type: "image", source: { type: "base64", media_type: "image/png", data } });
const bound = (prefix_mismatch_behavior: string) => ({
  thinking: { ...SUMMARIZED, block_binding: { prefix_mismatch_behavior } },
});

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
/** Returns a request in which this follows a call. */
const answered = (...content: unknown[]) => history(assistant(use("a")), user(...content));
const first = (...content: unknown[]) => ({ messages: [user(...content)] });
const tool = (fields: object) => ({ tools: [{ ...TOOLS[0], ...fields }] });
const schema = (fields: object) => tool({ input_schema: { type: "object", ...fields } });
const budget = (budget_tokens: number) => ({ type: "enabled", budget_tokens });
/** The model that accepts what newer ones don't. */
const OLD = { model: "claude-haiku-4-5" };
const THOUGHT = { type: "thinking", thinking: "", signature: "x" };
const EMPTY = text({ text: "", cache_control: CACHE });
const marks = (n: number, cache_control: object = CACHE) => Array(n).fill(text({ cache_control }));
const words = (count: number) => first(text({ text: "hello ".repeat(count) }));
const NAME = (length: number) => `^[a-zA-Z0-9_-]{1,${length}}$`;
const padded = (bytes: number) => JSON.stringify(BASE).padStart(bytes);

function rejected<R extends Rule>(sends: Case["sends"], rule: R, ...parts: Parts<R>): Case {
  const { status, message } = rejectionFor(rule, ...parts);
  return { name: message, expected: { status, rule, message }, sends };
}

const CALL = "messages.1.content.0";
const RESULT = "messages.2.content.0";
const SCHEMA_PATH = "tools.0.custom.input_schema";

const REJECTED: Case[] = [
  { ...rejected({}, "credential"), headers: { "x-api-key": null, authorization: null } },
  { ...rejected({}, "version"), headers: { "anthropic-version": null } },
  rejected(padded(34e6), "body size"),
  rejected("{", "body is JSON", "…"),
  rejected(`{"a":${"[".repeat(1e4)}${"]".repeat(1e4)}}`, "body is JSON", "recursion limit exceeded at a.0.0…"),
  rejected({ messages: [{ role: "user", content: "\ud83d" }] }, "body is JSON", "no low surrogate in string"),
  rejected(history(assistant({ type: "thinking", thinking: "" })), "field missing", `${CALL}.thinking.signature`),
  rejected({ foo: 1 }, "field unknown", "foo"),
  rejected(first(text({ foo: 1 })), "field unknown", "messages.0.content.0.text.foo"),
  rejected(tool({ foo: 1 }), "field unknown", "tools.0.custom.foo"),
  rejected({ thinking: { type: "adaptive", budget_tokens: 2000 } }, "field unknown", "thinking.adaptive.budget_tokens"),
  // These need beta headers.
  rejected(bound("drop_block"), "field unknown", "thinking.adaptive.block_binding"),
  rejected({ context_management: { edits: [] } }, "field unknown", "context_management"),
  rejected(history(EFFORT), "field unknown", "messages.1.output_config"),
  rejected({ max_tokens: 1.5 }, "field type", "max_tokens", "integer"),
  rejected({ messages: [{ role: "user", content: 5 }] }, "field type", "messages.0.content", "array"),
  rejected(history(assistant(use("a", { input: [] }))), "field type", `${CALL}.tool_use.input`, "dictionary"),
  rejected({ output_config: { effort: "x" } }, "field value", "output_config.effort", "'low', 'medium', …"),
  rejected({ cache_control: { type: "eternal" } }, "field value", "cache_control.type", "'ephemeral'"),
  rejected({ cache_control: { ...CACHE, ttl: "2h" } }, "field value", "cache_control.ttl", "'5m' or '1h'"),
  rejected(history(assistant(use("a b"))), "field pattern", `${CALL}.tool_use.id`, "^[a-zA-Z0-9_-]+$"),
  rejected(history(assistant(use("a", { name: "a b" }))), "field pattern", `${CALL}.tool_use.name`, NAME(200)),
  rejected(tool({ name: "x".repeat(129) }), "field pattern", "tools.0.custom.name", NAME(128)),
  rejected({ max_tokens: -1 }, "number too small", "max_tokens", "0"),
  rejected({ messages: Array(100_001).fill(HELLO) }, "list too long", "messages", "100000"),
  rejected({ model: "" }, "length of a string", "model", "at least 1 character"),
  rejected(first(image("not base64")), "image data", "messages.0.content.0.image.source.base64…"),
  rejected(schema({ properties: 5 }), "tool schema", SCHEMA_PATH),
  rejected(schema({ anyOf: [{}] }), "schema combination", SCHEMA_PATH),
  rejected(schema({ properties: { "a b": {} } }), "property name", SCHEMA_PATH),
  rejected(first(text(), EMPTY), "cache of empty text", "messages.0.content.1.text"),
  rejected({ system: [EMPTY] }, "cache of empty text", "system.0"),
  rejected(answered(result("a", { content: [EMPTY] })), "cache of empty text", `${RESULT}.tool_result.content.0.text`),
  rejected({ stop_sequences: ["x", " \n"] }, "stop sequence"),
  rejected({ temperature: 1.1 }, "temperature range"),
  rejected({ thinking: budget(1_023) }, "thinking budget"),
  { ...rejected({}, "beta header", "`nonsense`"), headers: { "anthropic-beta": "nonsense" } },
  rejected({ model: "gpt-4" }, "model name", "gpt-4"),
  rejected(first({ type: "sound" }), "kind of block", "messages.0.content.0", "sound", "'text', 'image', …"),
  rejected({ tool_choice: { type: "all" } }, "kind of block", "tool_choice", "all", "'auto', 'any', 'tool', 'none'"),
  ...["temperature", "top_p", "top_k"].map((field) => rejected({ [field]: 1 }, "sampling", field)),
  rejected({ thinking: { type: "disabled" } }, "thinking off"),
  rejected({ model: "claude-opus-5-5", thinking: { type: "disabled" } }, "thinking type", "disabled"),
  rejected({ model: "claude-haiku-5-5", thinking: { type: "between_tools" } }, "thinking type", "between_tools"),
  rejected({ thinking: { type: "enabled", budget_tokens: 2000 } }, "thinking type", "enabled"),
  rejected({ model: "claude-sonnet-4-5", thinking: SUMMARIZED }, "thinking on old models"),
  rejected({ ...OLD, max_tokens: 1_024, thinking: budget(1_024) }, "budget above max_tokens"),
  rejected({ tool_choice: { type: "any" } }, "choice without tools"),
  rejected({ tools: TOOLS, tool_choice: { type: "tool", name: "more" } }, "chosen tool", "more"),
  rejected({ tools: TOOLS, tool_choice: { type: "tool", name: "bash" } }, "forced tools"),
  rejected({ max_tokens: 128_001 }, "most max_tokens", "128001", "128000", "…"),
  rejected({ ...OLD, max_tokens: 64_001 }, "most max_tokens", "64001", "64000", "…"),
  rejected({ model: "claude-opus-4-1", max_tokens: 32_001 }, "most max_tokens", "32001", "32000", "…"),
  rejected({ tools: [...TOOLS, ...TOOLS] }, "tool names"),
  rejected({ system: [text({ text: " " })] }, "blank system"),
  rejected({ messages: [] }, "no messages"),
  rejected({ messages: [{ role: "tool", content: "x" }] }, "role of a message", "tool"),
  rejected({ model: "claude-haiku-4-5", ...history(system(text())) }, "system role on old models"),
  rejected({ messages: [system(text()), HELLO] }, "system message first", "messages.0"),
  rejected(history(system(text()), system(text()), HELLO), "system message before user", "messages.2"),
  rejected(history(assistant(), HELLO), "empty assistant message", "messages.1"),
  rejected(history({ role: "user", content: "" }), "empty message", "messages.1", "user"),
  rejected(history(system()), "empty message", "messages.1", "…"),
  rejected(first(text({ text: "" })), "empty text"),
  rejected({ messages: [{ role: "user", content: " " }] }, "blank text"),
  rejected({ messages: [HELLO, assistant(use("a")), user(result("a"))] }, "tools defined"),
  rejected(history(user(use("a"))), "role of a block", CALL, "tool_use", "assistant"),
  rejected(history(user(THOUGHT)), "role of a block", CALL, "thinking", "assistant"),
  rejected(history(assistant(result("a")), HELLO), "role of a block", CALL, "tool_result", "user"),
  rejected(answered(result("a", { content: "", is_error: true })), "reason of an error", RESULT),
  rejected(history(assistant(use("a"), use("a")), HELLO), "ids of calls", "messages.1.content.1"),
  rejected(history(assistant(use("a"))), "call without result", "messages.1", "a"),
  rejected(history(assistant(use("a")), HELLO), "call without result", "messages.1", "a"),
  rejected(answered(text(), result("a")), "call without result", "messages.1", "a"),
  rejected(history(user(result("a"))), "result without call", CALL, "a"),
  rejected(answered(result("a"), result("b")), "result without call", "messages.2.content.1", "b"),
  rejected(answered(result("a"), result("a")), "one result a call", "messages.2.content.1", "a"),
  rejected(history(assistant(text())), "prefill"),
  rejected({ ...OLD, ...history(assistant(text({ text: "x\n" }))) }, "end of prefill"),
  rejected({ ...answered(result("a", { content: marks(4) })), cache_control: CACHE }, "cache breakpoints", "5"),
  rejected({ system: marks(1), cache_control: HOUR }, "cache lifetimes", "cache_control"),
  rejected(first(...marks(1), ...marks(1, HOUR)), "cache lifetimes", "messages.0.content.1.cache_control"),
  rejected(words(1_200_000), "prompt too long", "…", "…"),
];

const SEARCH = { type: "search_result", content: [text()], source: "x", title: "x" };
const REFERENCE = { type: "tool_reference", tool_name: "bash" };
const SERVED = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } };
const FOUND = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
const THOUGHTLESS = { model: "claude-haiku-5-5", thinking: { type: "disabled" }, tools: TOOLS };
/** What Claude Code, opencode, pi and the SDK's tool runner add to a request. */
const OF_CLIENTS = {
  system: [text({ cache_control: CACHE })],
  tools: [
    { ...TOOLS[0], type: "custom", description: "x", strict: false, eager_input_streaming: true, cache_control: CACHE },
    { ...MORE, defer_loading: true },
  ],
  messages: [
    HELLO,
    { role: "system", content: "x" },
    { role: "assistant", content: "x" },
    assistant(text({ citations: null }), use("a", { caller: { type: "direct" }, cache_control: CACHE })),
    user(result("a", { is_error: false, cache_control: CACHE })),
  ],
};

const AS_IT_IS: Answer = { status: 200, message: "" };
const PLAIN: Record<string, Case["sends"]> = {
  "31 MB, nearly all spaces": padded(31e6),
  "a whole surrogate pair, and half of one in text": first(text({ text: "\u{1f600} \\ud83d" })),
  "fields without effect": { stop_sequences: ["\nx"], metadata: { user_id: "x".repeat(256) }, service_tier: "auto" },
  "a Claude model that isn't listed": { model: "claude-sonnet-9", output_config: { effort: "low" } },
  "a tool with properties": schema({ properties: { "a.b-c": { anyOf: [{}] }, d: {} }, required: ["d"] }),
  "what clients add": OF_CLIENTS,
  "a server tool": { tools: [{ type: "web_search_20250305", name: "web_search" }] },
  "a reply with a server tool": history(assistant(SERVED, FOUND, text()), HELLO),
  "a result of many kinds": answered(result("a", { content: [text(), SEARCH, REFERENCE, image(GREY)] })),
  "a system message before a reply": history(system(text()), assistant(text()), HELLO),
  "two system messages at the end": history(system(text()), system(text({ cache_control: CACHE }))),
  "an assistant message at the start": { messages: [assistant(text()), HELLO] },
  "an old model: temperature and prefill": { ...OLD, temperature: 1, ...history(assistant(text())) },
  "an old model: a reply that ends in a line break": { ...OLD, ...history(assistant(text({ text: "x\n" })), HELLO) },
  "an old model: a thinking budget": { ...OLD, max_tokens: 1_025, thinking: { ...budget(1_024), display: "omitted" } },
  "an old model: max_tokens of 64,000": { ...OLD, max_tokens: 64_000 },
  "Haiku 5.5: any tool without thinking": { ...THOUGHTLESS, tool_choice: { type: "any" } },
  "Haiku 5.5: one tool without thinking": { ...THOUGHTLESS, tool_choice: { type: "tool", name: "bash" } },
  "a free choice without tools": { tool_choice: { type: "auto" } },
  "a name of 128 letters": tool({ name: "x".repeat(128) }),
  "two tools, and a free choice": { tools: [...TOOLS, MORE], tool_choice: { type: "auto" } },
  "max_tokens of 0": { max_tokens: 0 },
  "max_tokens of 128,000": { max_tokens: 128_000 },
  "thinking that isn't shown": { thinking: { type: "adaptive", display: "omitted" } },
  "thinking between tools": { thinking: { type: "between_tools" } },
  "four breakpoints": first(...marks(4)),
  "breakpoints for an hour, then for five minutes": { ...first(...marks(1, HOUR), ...marks(1)), cache_control: CACHE },
  "merged messages": history(assistant(use("a")), assistant(use("b")), user(result("b")), user(result("a"), text())),
  "a result without content": answered(result("a", { content: undefined })),
  "an error with a text": answered(result("a", { content: [text()], is_error: true })),
  "a long prompt and max_tokens, above the window together": { max_tokens: 128_000, ...words(90_000) },
};
const ACCEPTED = Object.entries(PLAIN).map(([name, sends]): Case => ({ name, sends, expected: AS_IT_IS }));
const WITH_BETAS: [beta: string, sends: object][] = [
  ["messages-2023-12-15,claude-code-20250219", {}],
  ["context-management-2025-06-27", { context_management: { edits: [] } }],
  ["mid-conversation-output-config-2026-07-01", history(EFFORT, HELLO)],
  ["message-threads-2026-08-12", { thread: { type: "create" } }],
  ["interleaved-thinking-2025-05-14", { ...OLD, tools: TOOLS, max_tokens: 1_024, thinking: budget(1_024) }],
];
for (const [beta, sends] of WITH_BETAS)
  ACCEPTED.push({ name: `with ${beta}`, sends, expected: AS_IT_IS, headers: { "anthropic-beta": beta } });

const PUZZLE =
  "Which three-digit numbers are 15 times the sum of their digits? In each of your next three replies work out one step in your head, then call bash once, with an echo of what you found.";
const SYSTEM = "Think before every call. Keep what you write short, and never explain it.";
export const START: Conversation = { system: SYSTEM, tools: TOOLS, messages: [{ role: "user", content: PUZZLE }] };

/** The local server's model for these cases: makes three calls if there's room, and says "ok" to anything else. */
export const puzzleModel: Model = ({ messages, tools, max_tokens }) =>
  messages.length < 7 && tools && max_tokens > 1 ? bash("echo 135") : say("ok");

const blocks = ({ messages }: Conversation, i: number) => Object(messages[i]).content;
/** Changes the first block of a message. */
const clear = (conversation: Conversation, i: number) =>
  Object.assign(blocks(conversation, i)[0], i % 2 ? { thinking: "." } : { content: "(cleared)" });
const openWith = (text: string) => (conversation: Conversation) => {
  conversation.messages[0] = { role: "user", content: [{ type: "text", text, cache_control: CACHE }] };
};

/** How the API answers an edit of a conversation with signed thinking. */
function edited(name: string, expected: Answer, edit: Case["edit"], sends: object = bound("error")): Case {
  // Without `block_binding`, the API doesn't check thinking for accounts from before September 2026.
  const headers = "thinking" in sends ? { "anthropic-beta": "thinking-binding-controls-2026-08-01" } : undefined;
  return { name: `thinking: ${name}`, expected, edit, sends, headers };
}
/** `message` is the one with the first invalid block. */
const unbound = (message: number) => rejected({}, "thinking binding", `messages.${message}.content.0`).expected;

const EDITED: Case[] = [
  edited("a text is written as a block with a breakpoint", AS_IT_IS, openWith(PUZZLE)),
  edited("the oldest thinking goes", AS_IT_IS, (conversation) => blocks(conversation, 1).shift()),
  edited("all thinking goes, and a result is cleared", AS_IT_IS, (conversation) => {
    for (const i of [1, 3, 5]) blocks(conversation, i).shift();
    clear(conversation, 2);
  }),
  edited("the system prompt changes", unbound(1), (conversation) => Object.assign(conversation, { system: "" })),
  edited("a tool is added", unbound(1), ({ tools }) => tools.push(MORE)),
  edited("an old result is cleared", unbound(3), (conversation) => clear(conversation, 2)),
  edited("thinking goes from the middle", unbound(5), (conversation) => blocks(conversation, 3).shift()),
  edited("a text of thinking changes", unbound(5), (conversation) => clear(conversation, 5)),
  edited("the first message changes", unbound(1), openWith("Something else."), {}),
  edited("the first message changes, with drop_block", AS_IT_IS, openWith("Something else."), bound("drop_block")),
];

export const CASES: Case[] = [...REJECTED, ...ACCEPTED, ...EDITED];
/** Returns whether a case takes more than 100 KB. */
export const isLarge = ({ sends }: Case): boolean => JSON.stringify(sends).length > 100_000;
