/** Checks a request's fields and their types, which the API validates before anything else. */
import { z } from "zod";
import { type Rule, reject } from "./rejection.ts";

/** Fields that are accepted and have no effect. */
const ignored = (...names: string[]) => Object.fromEntries(names.map((name) => [name, z.unknown().optional()]));
/** Accepts any string, and otherwise requires a valid list. */
const stringOr = (list: z.ZodType) => z.preprocess((value) => (typeof value === "string" ? [] : value), list);
const block = <T extends string>(type: T, fields: z.ZodRawShape) =>
  z.strictObject({ type: z.literal(type), ...fields });

const flag = z.boolean().optional();
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/);
const cache_control = block("ephemeral", { ttl: z.enum(["5m", "1h"]).optional() }).nullish();

const Text = block("text", { text: z.string(), cache_control, ...ignored("citations") });
const ImageSource = z.discriminatedUnion("type", [
  block("base64", { media_type: z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]), data: z.base64() }),
  block("url", { url: z.string() }),
  block("file", { file_id: z.string() }),
]);
const Image = block("image", { source: ImageSource, cache_control, ...ignored("transformations") });
const Document = block("document", {
  source: z.looseObject({ type: z.string() }),
  cache_control,
  ...ignored("title", "context", "citations"),
});
const SearchResult = block("search_result", {
  content: z.array(Text),
  source: z.string(),
  title: z.string(),
  cache_control,
  ...ignored("citations"),
});
const ToolReference = block("tool_reference", { tool_name: z.string(), cache_control });
const Result = z.discriminatedUnion("type", [Text, Image, Document, SearchResult, ToolReference]);
const SEARCHES = ["web_search", "web_fetch", "tool_search"];
const EXECUTIONS = ["code_execution", "bash_code_execution", "text_editor_code_execution"];
const RESULTS = [...SEARCHES, ...EXECUTIONS].map((tool) => `${tool}_tool_result`);
/** Blocks of server tools, which may contain anything. */
const served = ["server_tool_use", ...RESULTS, "container_upload"].map((type) =>
  z.looseObject({ type: z.literal(type) }),
);
const Block = z.discriminatedUnion("type", [
  Text,
  Image,
  Document,
  SearchResult,
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
    content: stringOr(z.array(Result).optional()),
    is_error: flag,
    cache_control,
    ...ignored("toolset_name"),
  }),
  ...served,
]);
const effort = z.enum(["low", "medium", "high", "xhigh", "max"]).nullish();
const Message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("user"), content: stringOr(z.array(Block)) }),
  z.strictObject({ role: z.literal("assistant"), content: stringOr(z.array(Block)) }),
  z.strictObject({
    role: z.literal("system"),
    content: stringOr(z.array(Text).optional()),
    output_config: z.strictObject({ effort }).nullish(),
  }),
]);
const ClientTool = z.strictObject({
  type: z.literal("custom").nullish(),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
  strict: flag,
  cache_control,
  ...ignored("allowed_callers", "defer_loading", "eager_input_streaming", "input_examples"),
});
/** Returns whether it's a server tool, whose type ends with a date. Its other fields aren't checked. */
const isServerTool = (tool: unknown) => isRecord(tool) && /_20\d{6}$/.test(String(tool.type));
const ANY_TOOL = { name: "any", input_schema: { type: "object" } };
const Tool = z.preprocess((tool) => (isServerTool(tool) ? ANY_TOOL : tool), ClientTool);
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
  model: z.string().min(1).max(256),
  max_tokens: z.int().min(0),
  messages: z.array(Message).max(100_000),
  system: stringOr(z.array(Text).optional()),
  tools: z.array(Tool).optional(),
  tool_choice: ToolChoice.optional(),
  thinking: Thinking.optional(),
  cache_control,
  stop_sequences: z.array(z.string()).optional(),
  stream: flag,
  metadata: z.strictObject({ user_id: z.string().max(256).nullish() }).optional(),
  output_config: z.strictObject({ effort, ...ignored("format", "task_budget") }).optional(),
  service_tier: z.enum(["auto", "standard_only"]).optional(),
  speed: z.enum(["standard", "fast"]).nullish(),
  ...ignored("container", "diagnostics", "inference_geo", "safeguards"),
  ...ignored("temperature", "top_p", "top_k"), // rules.ts rejects these for newer models
  // betas.ts rejects these without their header
  ...ignored("billing_policy", "compaction", "context_management", "fallback_credit_token", "fallbacks"),
  ...ignored("mcp_servers", "output_format", "thread"),
});
const UNCOUNTED = { max_tokens: true, metadata: true, service_tier: true, stop_sequences: true, stream: true } as const;
const CountBody = Body.omit(UNCOUNTED);

const MISSING = "Field required";
const NOUNS: Record<string, string> = { array: "array", int: "integer", object: "dictionary", record: "dictionary" };

const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`) : []);
/** Joins values as in 'a', 'b' or 'c'. */
const either = (values: unknown) =>
  quoted(values)
    .join(", ")
    .replace(/, ([^,]*)$/, " or $1");

/** Returns the API's message for a zod issue. */
function describeIssue(issue: z.core.$ZodRawIssue): string {
  if (issue.code === "unrecognized_keys") return "Extra inputs are not permitted";
  if (issue.input === undefined) return MISSING;
  switch (issue.code) {
    case "invalid_type":
      return `Input should be a valid ${NOUNS[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `Input should be ${either(issue.values)}`;
    case "invalid_format":
      if (issue.format === "base64") return "invalid base64 data";
      return `String should match pattern '${String(issue.pattern).slice(1, -1)}'`;
    case "too_small":
      if (issue.origin === "string") return `String should have at least ${issue.minimum} character`;
      return `must be greater than or equal to ${issue.minimum}`;
    case "too_big":
      if (issue.origin === "string") return `String should have at most ${issue.maximum} characters`;
      return `List should have at most ${issue.maximum} items after validation`;
    case "invalid_union":
      if (issue.discriminator === "role")
        return `Unexpected role "${isRecord(issue.input) && issue.input.role}". Allowed roles are "user" or "assistant".`;
      return `Input tag '${isRecord(issue.input) && issue.input.type}' found using 'type' does not match any of the expected tags: ${quoted(issue.options).join(", ")}`;
  }
  return "Invalid input";
}

export function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}

/** How the API's messages begin, and the rules behind them. The first match decides. */
const MESSAGES: [start: string, rule: Rule][] = [
  [MISSING, "field missing"],
  ["Extra inputs", "field unknown"],
  ["Input should be a valid", "field type"],
  ["Input should be", "field value"],
  ["Input tag", "kind of block"],
  ["Unexpected role", "role of a message"],
  ["String should match", "field pattern"],
  ["String should have", "length of a string"],
  ["List should have", "list too long"],
  ["must be greater", "number too small"],
  ["invalid base64", "image data"],
];
const ruleOf = (message: string): Rule => MESSAGES.find(([start]) => message.startsWith(start))?.[1] ?? "field type";

/** Returns the path that the API names. For an unknown role, that is only `messages`. */
function pathOf(issue: z.core.$ZodIssue): PropertyKey[] {
  if (issue.code === "unrecognized_keys") return [...issue.path, ...issue.keys.slice(0, 1)];
  if (issue.code !== "invalid_union") return issue.path;
  return issue.path.at(-1) === "role" ? issue.path.slice(0, 1) : issue.path.slice(0, -1);
}

/** Rejects a body that isn't shaped like a request, for its first problem. */
export function checkShape(body: unknown, isCount: boolean): void {
  const schema = isCount ? CountBody : Body;
  const [issue] = schema.safeParse(body, { error: describeIssue }).error?.issues ?? [];
  if (issue) reject(ruleOf(issue.message), [apiPath(pathOf(issue), body), issue.message].filter(Boolean).join(": "));
}

/** Writes a path as the API does, with the types of blocks, sources, tools and thinking: thinking.adaptive.foo */
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
  if (isRecord(value) && (isBlock || isThinking || key === "source")) return [String(value.type)];
  return parent === "tools" ? ["custom"] : [];
}
