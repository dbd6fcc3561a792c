/**
 * What the Messages API rejects, with its words where they are known: requests of the wrong shape, parameters that the
 * current models no longer take, and histories whose calls and results do not fit together.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

/** `hasBinding`: whether the beta header is there that `thinking.block_binding` needs. */
type Leave = { hasBinding: boolean; repeatsIds: boolean };

/** Checks all that can be known without counting tokens. Throws a Rejection. */
export function checkRequest(request: Anthropic.MessageCreateParams, { hasBinding, repeatsIds }: Leave): void {
  checkShape(request);
  if (!hasBinding && request.thinking && "block_binding" in request.thinking)
    reject("field unknown", "thinking.adaptive.block_binding: Extra inputs are not permitted");
  checkParameters(request);
  checkHistory(request, repeatsIds);
}

// --- errors ----------------------------------------------------------------------------------------------------------

const ERRORS = {
  400: { type: "invalid_request_error", message: "Bad request" },
  401: { type: "authentication_error", message: "invalid x-api-key" },
  404: { type: "not_found_error", message: "Not Found" },
  413: { type: "request_too_large", message: "Request exceeds the maximum size" },
  429: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit." },
  500: { type: "api_error", message: "Internal server error" },
  529: { type: "overloaded_error", message: "Overloaded" },
};

/** The names of the rules. `cases.ts` has a request on each side of every rule. */
export const RULES = [
  "credential",
  "version",
  "body size",
  "body is JSON",
  "field missing",
  "field unknown",
  "field type",
  "field value",
  "field pattern",
  "number too small",
  "list too long",
  "kind of block",
  "sampling",
  "thinking type",
  "thinking on old models",
  "forced tools",
  "most max_tokens",
  "tool names",
  "blank system",
  "no messages",
  "first role",
  "empty message",
  "blank text",
  "tools defined",
  "role of a block",
  "reason of an error",
  "ids of calls",
  "call without result",
  "result without call",
  "one result a call",
  "prefill",
  "cache breakpoints",
  "prompt too long",
  "max_tokens in the window",
  "thinking binding",
] as const;
export type Rule = (typeof RULES)[number];

export class Rejection extends Error {
  readonly status: keyof typeof ERRORS;
  /** None for a failure on demand and for another path. */
  readonly rule?: Rule;
  constructor(status: keyof typeof ERRORS, message: string = ERRORS[status].message, rule?: Rule) {
    super(message);
    this.status = status;
    this.rule = rule;
  }
}

export function reject(rule: Rule, message: string): never {
  throw new Rejection(400, message, rule);
}

export const errorBody = ({ status, message }: Rejection, request_id: string): string =>
  JSON.stringify({ type: "error", error: { type: ERRORS[status].type, message }, request_id });

// --- the shape of a request ------------------------------------------------------------------------------------------

/** Fields that are accepted and have no effect. */
const ignored = (...names: string[]) => Object.fromEntries(names.map((name) => [name, z.unknown().optional()]));
/** A string, which needs no further check, or a list of blocks. */
const stringOr = (list: z.ZodType) => z.preprocess((value) => (typeof value === "string" ? [] : value), list);
const block = <T extends string>(type: T, fields: z.ZodRawShape) =>
  z.strictObject({ type: z.literal(type), ...fields });

const flag = z.boolean().optional();
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/);
const source = z.looseObject({ type: z.string() });
const cache_control = block("ephemeral", { ttl: z.enum(["5m", "1h"]).optional() }).nullish();

const Text = block("text", { text: z.string(), cache_control, ...ignored("citations") });
const Image = block("image", { source, cache_control, ...ignored("transformations") });
const Document = block("document", { source, cache_control, ...ignored("title", "context", "citations") });
const Block = z.discriminatedUnion("type", [
  Text,
  Image,
  Document,
  block("thinking", { thinking: z.string(), signature: z.string() }),
  block("redacted_thinking", { data: z.string() }),
  block("tool_use", {
    id,
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,200}$/),
    input: z.record(z.string(), z.unknown()),
    cache_control,
    ...ignored("caller", "toolset_name"),
  }),
  block("tool_result", {
    tool_use_id: id,
    content: stringOr(z.array(z.discriminatedUnion("type", [Text, Image, Document])).optional()),
    is_error: flag,
    cache_control,
    ...ignored("toolset_name"),
  }),
]);
const Message = z.strictObject({
  role: z.enum(["user", "assistant"]),
  content: stringOr(z.array(Block)),
});
const Tool = z.strictObject({
  type: z.literal("custom").nullish(),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
  strict: flag,
  cache_control,
  ...ignored("allowed_callers", "defer_loading", "eager_input_streaming", "input_examples"),
});
const ToolChoice = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal(["auto", "any"]), disable_parallel_tool_use: flag }),
  z.strictObject({ type: z.literal("tool"), name: z.string(), disable_parallel_tool_use: flag }),
  z.strictObject({ type: z.literal("none") }),
]);
const Thinking = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("adaptive"),
    display: z.enum(["summarized", "omitted"]).nullish(),
    block_binding: z.strictObject({ prefix_mismatch_behavior: z.enum(["error", "drop_block"]).nullish() }).nullish(),
  }),
  z.strictObject({ type: z.literal("between_tools") }),
  z.looseObject({ type: z.literal(["enabled", "disabled"]) }),
]);
const Body = z.strictObject({
  model: z.string(),
  max_tokens: z.int().min(0),
  messages: z.array(Message).max(100_000),
  system: stringOr(z.array(Text).optional()),
  tools: z.array(Tool).optional(),
  tool_choice: ToolChoice.optional(),
  thinking: Thinking.optional(),
  cache_control,
  stop_sequences: z.array(z.string()).optional(),
  stream: flag,
  ...ignored("container", "diagnostics", "inference_geo", "metadata", "output_config", "service_tier", "speed"),
  ...ignored("temperature", "top_p", "top_k"), // checkParameters rejects them by name
});

const MISSING = "Field required";
const NOUNS: Record<string, string> = { array: "list", int: "integer", object: "dictionary", record: "dictionary" };

/** The API's wording for one of zod's findings. */
function describe(issue: z.core.$ZodRawIssue): string {
  const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`).join(", ") : "");
  if (issue.code === "unrecognized_keys") return "Extra inputs are not permitted";
  if (issue.input === undefined) return MISSING;
  switch (issue.code) {
    case "invalid_type":
      return `Input should be a valid ${NOUNS[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `Input should be ${quoted(issue.values)}`;
    case "invalid_format":
      return `String should match pattern '${String(issue.pattern).slice(1, -1)}'`;
    case "too_small":
      return `Input should be greater than or equal to ${issue.minimum}`;
    case "too_big":
      return `List should have at most ${issue.maximum} items after validation`;
    case "invalid_union":
      return `Input tag '${isRecord(issue.input) && issue.input.type}' found using 'type' does not match any of the expected tags: ${quoted(issue.options)}`;
  }
  return "Invalid input";
}

export function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}

const SHAPES: Record<string, Rule> = {
  unrecognized_keys: "field unknown",
  invalid_type: "field type",
  invalid_value: "field value",
  invalid_format: "field pattern",
  too_small: "number too small",
  too_big: "list too long",
  invalid_union: "kind of block",
};

/** Throws if the body does not have the shape of a request; the message names the first place that is wrong. */
function checkShape(body: unknown): void {
  const [issue] = Body.safeParse(body, { error: describe }).error?.issues ?? [];
  if (!issue) return;
  const path = issue.code === "invalid_union" ? issue.path.slice(0, -1) : [...issue.path];
  if (issue.code === "unrecognized_keys") path.push(...issue.keys.slice(0, 1));
  const rule = issue.message === MISSING ? "field missing" : (SHAPES[issue.code] ?? "field type");
  reject(rule, [place(path, body), issue.message].filter(Boolean).join(": "));
}

/** The path as the API writes it, with the kind of a block, tool or thinking: messages.0.content.0.text.foo, thinking.adaptive.foo */
function place(path: PropertyKey[], body: unknown): string {
  const words: string[] = [];
  let value = body;
  for (const [i, key] of path.entries()) {
    value = isRecord(value) ? value[key] : undefined;
    words.push(String(key));
    if (i === path.length - 1) continue;
    if (path.length > 1 && i === 0 && key === "thinking" && isRecord(value)) words.push(String(value.type));
    if (typeof key !== "number") continue;
    if (path[i - 1] === "content" && isRecord(value)) words.push(String(value.type));
    if (path[i - 1] === "tools") words.push("custom");
  }
  return words.join(".");
}

// --- what the current models reject ----------------------------------------------------------------------------------

const MAX_OUTPUT = 128_000;
/** The models up to 4.5; those of 4.0 have a date after the 4. */
const BEFORE_ADAPTIVE = /^claude-(3|[a-z]+-4-([0-5]\b|20))/;

function checkParameters(request: Anthropic.MessageCreateParams): void {
  const { model, max_tokens, thinking, tool_choice, tools = [], system = "" } = request;
  for (const name of ["temperature", "top_p", "top_k"])
    if (name in request) reject("sampling", `\`${name}\` is deprecated for this model.`);
  if (thinking?.type === "disabled" || thinking?.type === "enabled")
    reject(
      "thinking type",
      `"thinking.type.${thinking.type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`,
    );
  if (thinking?.type === "adaptive" && BEFORE_ADAPTIVE.test(model))
    reject("thinking on old models", "adaptive thinking is not supported on this model");
  if (tool_choice?.type === "any" || tool_choice?.type === "tool")
    reject("forced tools", "Thinking may not be enabled when tool_choice forces tool use.");
  if (max_tokens > MAX_OUTPUT)
    reject(
      "most max_tokens",
      `max_tokens: ${max_tokens} > ${MAX_OUTPUT}, which is the maximum allowed number of output tokens for ${model}`,
    );
  const names = tools.map((tool) => ("name" in tool ? tool.name : ""));
  if (new Set(names).size < names.length) reject("tool names", "tools: Tool names must be unique.");
  if (typeof system !== "string" && system.some(({ text }) => !text.trim()))
    reject("blank system", "system: text content blocks must be non-empty");
}

// --- the rules of a history ------------------------------------------------------------------------------------------

type Turn = { role: string; blocks: { block: Anthropic.ContentBlockParam; message: number; at: string }[] };

/** The blocks of a message's content; a string is one block of text. */
export const blocksOf = (content: Anthropic.MessageParam["content"]): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

/** The messages with neighbours of one role merged. Each block knows the place it was sent in. */
export function turnsOf(messages: Anthropic.MessageParam[]): Turn[] {
  const turns: Turn[] = [];
  for (const [message, { role, content }] of messages.entries()) {
    if (turns.at(-1)?.role !== role) turns.push({ role, blocks: [] });
    for (const [i, block] of blocksOf(content).entries())
      turns.at(-1)?.blocks.push({ block, message, at: `messages.${message}.content.${i}` });
  }
  return turns;
}

function checkHistory({ messages, tools }: Anthropic.MessageCreateParams, repeatsIds: boolean): void {
  if (messages.length === 0) reject("no messages", "messages: at least one message is required");
  if (messages[0]?.role !== "user") reject("first role", 'messages: first message must use the "user" role');
  for (const [i, { content }] of messages.entries())
    if (content.length === 0)
      reject(
        "empty message",
        `messages.${i}: all messages must have non-empty content except for the optional final assistant message`,
      );

  const turns = turnsOf(messages);
  const callIds = new Set<string>();
  for (const { role, blocks } of turns) {
    if (repeatsIds) callIds.clear();
    for (const { block, at } of blocks) {
      const { type } = block;
      if (type === "text" && !block.text.trim())
        reject("blank text", "messages: text content blocks must be non-empty");
      if ((type === "tool_use" || type === "tool_result") && !tools?.length)
        reject("tools defined", "Requests which include `tool_use` or `tool_result` blocks must define tools.");
      if (type === "tool_result" && role !== "user")
        reject("role of a block", `${at}: \`tool_result\` blocks can only be in \`user\` messages`);
      if (role === "user" && ["thinking", "redacted_thinking", "tool_use"].includes(type))
        reject("role of a block", `${at}: \`${type}\` blocks can only be in \`assistant\` messages`);
      if (type === "tool_result" && block.is_error && !block.content?.length)
        reject("reason of an error", `${at}.tool_result: content cannot be empty if \`is_error\` is true`);
      if (type !== "tool_use") continue;
      if (callIds.has(block.id)) reject("ids of calls", `${at}: \`tool_use\` ids must be unique`);
      callIds.add(block.id);
    }
  }

  for (let i = 0; i <= turns.length; i++) checkPairs(turns[i - 1], turns[i]);
  if (turns.at(-1)?.role === "assistant")
    reject(
      "prefill",
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
}

/** Every call of a turn has one result at the head of the next turn, and every result has its call. */
function checkPairs(turn: Turn | undefined, next: Turn | undefined): void {
  const calls = new Map<string, number>();
  for (const { block, message } of turn?.blocks ?? []) if (block.type === "tool_use") calls.set(block.id, message);
  const open = new Map(calls);
  for (const { block } of next?.blocks ?? []) {
    if (block.type !== "tool_result") break;
    open.delete(block.tool_use_id);
  }
  const [first] = open.values();
  if (first !== undefined)
    reject(
      "call without result",
      `messages.${first}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open.keys()].join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    );

  const seen = new Set<string>();
  for (const { block, at } of next?.blocks ?? []) {
    if (block.type !== "tool_result") continue;
    const id = block.tool_use_id;
    if (!calls.has(id))
      reject(
        "result without call",
        `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    if (seen.has(id))
      reject(
        "one result a call",
        `${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
      );
    seen.add(id);
  }
}
