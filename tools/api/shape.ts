/** Checks the shape of a request: its fields and their types, as the API's own validation does before anything else. */
import { z } from "zod";
import { type Rule, reject } from "./rejection.ts";

/** These fields are accepted and have no effect. */
const ignored = (...names: string[]) => Object.fromEntries(names.map((name) => [name, z.unknown().optional()]));
/** A string always passes; anything else has to be a valid list. */
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

const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`).join(", ") : "");

/** Words a zod issue as the API does. */
function describeIssue(issue: z.core.$ZodRawIssue): string {
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

const RULE_OF_ISSUE: Record<string, Rule> = {
  unrecognized_keys: "field unknown",
  invalid_type: "field type",
  invalid_value: "field value",
  invalid_format: "field pattern",
  too_small: "number too small",
  too_big: "list too long",
  invalid_union: "kind of block",
};

/** Rejects a body that isn't shaped like a request. The message names the first problem only. */
export function checkShape(body: unknown): void {
  const [issue] = Body.safeParse(body, { error: describeIssue }).error?.issues ?? [];
  if (!issue) return;
  const path = issue.code === "invalid_union" ? issue.path.slice(0, -1) : [...issue.path];
  if (issue.code === "unrecognized_keys") path.push(...issue.keys.slice(0, 1));
  const rule = issue.message === MISSING ? "field missing" : (RULE_OF_ISSUE[issue.code] ?? "field type");
  reject(rule, [apiPath(path, body), issue.message].filter(Boolean).join(": "));
}

/** Adds the type of each block, tool or thinking setting to a path: messages.0.content.0.text.foo, thinking.adaptive.foo */
function apiPath(path: PropertyKey[], body: unknown): string {
  const words: string[] = [];
  let value = body;
  for (const [i, key] of path.entries()) {
    value = isRecord(value) ? value[key] : undefined;
    words.push(String(key));
    const isLast = i === path.length - 1;
    if (!isLast) words.push(...tagOf(path[i - 1], key, value));
  }
  return words.join(".");
}

function tagOf(parent: PropertyKey | undefined, key: PropertyKey, value: unknown): string[] {
  const isBlock = parent === "content" && typeof key === "number";
  const isThinking = parent === undefined && key === "thinking";
  if (isRecord(value) && (isBlock || isThinking)) return [String(value.type)];
  return parent === "tools" ? ["custom"] : [];
}
