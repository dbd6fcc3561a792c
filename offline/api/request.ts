/**
 * The border: turns a body into a typed request, or rejects it. In a request, content is always a list of blocks,
 * consecutive messages of one role are merged into turns, and defaults are filled in.
 */
import { z } from "zod";
import { BETAS_OF_EFFORT, BETAS_OF_FIELD, BINDING_BETA } from "./betas.ts";
import { reject } from "./errors.ts";
import { mostOutput } from "./models.ts";

// --- the body is JSON ------------------------------------------------------------------------------------------------

const MAX_DEPTH = 200; // levels; the real limit isn't documented

export function parseJson(body: string) {
  try {
    const value = JSON.parse(body);
    checkJson(value, []);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return reject("body is JSON", error.message);
  }
}

/** Rejects what JavaScript takes for JSON and the API doesn't: half a surrogate pair, and very deep nesting. */
function checkJson(value: unknown, path: string[]): void {
  if (typeof value === "string" && !value.isWellFormed()) reject("body is JSON", "no low surrogate in string");
  if (!isRecord(value)) return;
  if (path.length > MAX_DEPTH) reject("body is JSON", `recursion limit exceeded at ${path.slice(0, 8).join(".")}`);
  for (const [key, inner] of Object.entries(value)) {
    checkJson(key, path);
    checkJson(inner, [...path, key]);
  }
}

const isRecord = (value: unknown): value is Record<PropertyKey, unknown> => typeof value === "object" && value !== null;

// --- fields and their types ------------------------------------------------------------------------------------------

/** A field that is accepted and has no effect. */
const ignored = z.unknown().optional();
const flag = z.boolean().optional();
/** The rules about one value, whose messages begin with its path. */
type ValueRule =
  | "cache of empty text"
  | "property name"
  | "schema combination"
  | "stop sequence"
  | "temperature range"
  | "thinking budget"
  | "tool schema";
/** Tells `rejectIssue` which rule a value breaks if a check fails. */
const breaks = (rule: ValueRule) => ({ params: { rule } });
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/);
const tagged = <T extends string, F extends z.ZodRawShape>(type: T, fields: F) =>
  z.strictObject({ type: z.literal(type), ...fields });
const cache_control = tagged("ephemeral", { ttl: z.enum(["5m", "1h"]).default("5m") }).nullish();
/** A block that may be a cache breakpoint. */
const block = <T extends string, F extends z.ZodRawShape>(type: T, fields: F) =>
  tagged(type, { ...fields, cache_control });
/** A list of blocks, which may be sent as a string. */
const textOr = <T extends z.ZodType>(list: T) =>
  z.preprocess((value) => (typeof value === "string" ? textBlocks(value) : value), list);
const textBlocks = (text: string) => (text ? [{ type: "text", text }] : []);

const Text = block("text", { text: z.string(), citations: ignored }).refine(
  ({ text, cache_control }) => text || !cache_control,
  breaks("cache of empty text"),
);
const ImageSource = z.discriminatedUnion("type", [
  tagged("base64", { media_type: z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]), data: z.base64() }),
  tagged("url", { url: z.string() }),
  tagged("file", { file_id: z.string() }),
]);
const Image = block("image", { source: ImageSource, transformations: ignored });
const Source = z.looseObject({ type: z.string() });
const Document = block("document", { source: Source, title: ignored, context: ignored, citations: ignored });
const Found = { content: z.array(Text), source: z.string(), title: z.string() };
const SearchResult = block("search_result", { ...Found, citations: ignored });
const ToolReference = block("tool_reference", { tool_name: z.string() });
const Result = z.discriminatedUnion("type", [Text, Image, Document, SearchResult, ToolReference]);
/** Blocks of server tools, which may contain anything. */
const Served = z.looseObject({
  type: z.literal([
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "tool_search_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "container_upload",
  ]),
  cache_control,
});
const Block = z.discriminatedUnion("type", [
  Text,
  Image,
  Document,
  SearchResult,
  tagged("thinking", { thinking: z.string(), signature: z.string() }),
  tagged("redacted_thinking", { data: z.string() }),
  block("tool_use", {
    id,
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,200}$/),
    input: z.record(z.string(), z.unknown()),
    caller: ignored,
    toolset_name: ignored,
  }),
  block("tool_result", {
    tool_use_id: id,
    content: textOr(z.array(Result).default([])),
    is_error: flag,
    toolset_name: ignored,
  }),
  Served,
]);
const effort = z.enum(["low", "medium", "high", "xhigh", "max"]).nullish();
const Message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal(["user", "assistant"]), content: textOr(z.array(Block)) }),
  z.strictObject({
    role: z.literal("system"),
    content: textOr(z.array(Text).default([])),
    output_config: z.strictObject({ effort }).nullish(),
  }),
]);
/** A server tool, whose type ends with a date. Its other fields aren't checked. */
const ServerTool = z.looseObject({ type: z.templateLiteral([z.string(), "_20", z.number()]), cache_control });
const InputSchema = z
  .looseObject({ type: z.literal("object") })
  .refine(({ properties = {} }) => isRecord(properties), breaks("tool schema"))
  .refine((schema) => !["oneOf", "allOf", "anyOf"].some((key) => key in schema), breaks("schema combination"))
  .refine(
    ({ properties }) => Object.keys(Object(properties)).every((name) => /^[\w.-]{1,64}$/.test(name)),
    breaks("property name"),
  );
const ClientTool = z.strictObject({
  type: z.literal("custom").nullish(),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: InputSchema,
  strict: flag,
  cache_control,
  allowed_callers: ignored,
  defer_loading: ignored,
  eager_input_streaming: ignored,
  input_examples: ignored,
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
  z.looseObject({
    type: z.literal("enabled"),
    budget_tokens: z.int().refine((tokens) => tokens >= 1024, breaks("thinking budget")),
  }),
  z.looseObject({ type: z.literal("disabled") }),
]);
const Body = z.object({
  model: z.string().min(1).max(256),
  max_tokens: z.int().min(0),
  messages: z.array(Message).max(100_000),
  system: z.preprocess(
    (value) => (typeof value === "string" ? textBlocks(value.trim() && value) : value),
    z.array(Text).default([]),
  ),
  tools: z.array(z.union([ServerTool, ClientTool])).default([]),
  tool_choice: ToolChoice.optional(),
  thinking: Thinking.optional(),
  cache_control,
  stop_sequences: z
    .array(z.string())
    .refine((texts) => texts.every((text) => text.trim()), breaks("stop sequence"))
    .optional(),
  stream: z.boolean().default(false),
  metadata: z.strictObject({ user_id: z.string().max(256).nullish() }).optional(),
  output_config: z.strictObject({ effort, format: ignored, task_budget: ignored }).optional(),
  service_tier: z.enum(["auto", "standard_only"]).optional(),
  speed: z.enum(["standard", "fast"]).nullish(),
  // rules.ts rejects these for newer models
  temperature: z
    .number()
    .refine((value) => value >= 0 && value <= 1, breaks("temperature range"))
    .optional(),
  top_p: ignored,
  top_k: ignored,
});
/** More fields without effect. `betas.ts` has those that need a beta header. */
const IGNORED = ["container", "diagnostics", "inference_geo", "safeguards"];
const UNCOUNTED = { max_tokens: true, metadata: true, service_tier: true, stop_sequences: true, stream: true } as const;
const CountBody = Body.omit(UNCOUNTED);

// --- the request -----------------------------------------------------------------------------------------------------

/** A block of a message or of a tool result. */
export type Block = z.output<typeof Block> | z.output<typeof Result>;
export type Tool = z.output<typeof ServerTool> | z.output<typeof ClientTool>;
export type Message = z.output<typeof Message>;
/** `5m` or `1h`. */
export type Ttl = NonNullable<z.output<typeof cache_control>>["ttl"];
/** A block and its path in the request, such as `messages.0.content.1`. */
export type Placed = { block: Block; message: number; at: string };
export type Turn = { role: Message["role"]; blocks: Placed[] };
type Fields = z.output<typeof CountBody>;
export type ParsedRequest = z.output<typeof Body> & { turns: Turn[]; betas: string[] };

/** Returns the request in a body. One that counts tokens is treated as if it asked for the longest reply. */
export function parseRequest(body: unknown, betas: string[], isCount: boolean): ParsedRequest {
  const schema = isCount ? CountBody : Body;
  const { data, error } = schema.safeParse(body, { reportInput: true });
  if (error) return rejectIssue(error.issues[0], [], body);
  checkFields(Object(body), schema.shape, data, betas);
  return { max_tokens: mostOutput(data.model), stream: false, ...data, turns: turnsOf(data.messages), betas };
}

/** Merges consecutive messages of the same role. Messages without content are left out. */
function turnsOf(messages: Message[]): Turn[] {
  const turns: Turn[] = [];
  for (const [message, { role, content }] of messages.entries()) {
    if (content.length === 0) continue;
    if (turns.at(-1)?.role !== role) turns.push({ role, blocks: [] });
    for (const [i, block] of content.entries())
      turns.at(-1)?.blocks.push({ block, message, at: `messages.${message}.content.${i}` });
  }
  return turns;
}

/** Rejects unknown fields, among them those whose beta header is missing. */
function checkFields(body: object, known: object, { thinking, messages }: Fields, betas: string[]): void {
  const isUnlocked = (prefixes: string[]) => betas.some((name) => prefixes.some((prefix) => name.startsWith(prefix)));
  for (const field of Object.keys(body)) {
    const isKnown = Object.hasOwn(known, field) || IGNORED.includes(field);
    if (!isKnown && !isUnlocked(BETAS_OF_FIELD.get(field) ?? [])) reject("field unknown", field);
  }
  if (thinking && "block_binding" in thinking && !isUnlocked([BINDING_BETA]))
    reject("field unknown", "thinking.adaptive.block_binding");
  for (const [i, message] of messages.entries())
    if ("output_config" in message && !isUnlocked(BETAS_OF_EFFORT))
      reject("field unknown", `messages.${i}.output_config`);
}

// --- what is wrong with a field --------------------------------------------------------------------------------------

const NOUNS: Record<string, string> = { int: "integer", object: "dictionary", record: "dictionary" };

const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`) : []);
/** Joins values as in 'a', 'b' or 'c'. */
const either = (values: unknown) => new Intl.ListFormat("en-GB", { type: "disjunction" }).format(quoted(values));

/** Rejects a body in the API's words for an issue of zod's. `outside` is the path to the value that the issue is about. */
function rejectIssue(issue: z.core.$ZodIssue | undefined, outside: PropertyKey[], body: unknown): never {
  if (!issue) throw new Error("a body that isn't valid has no issue");
  const path = [...outside, ...issue.path];
  if (issue.code === "custom") {
    const rule: ValueRule = issue.params?.rule;
    return reject(rule, apiPath(path, body, true));
  }
  const at = apiPath(path, body);
  if (issue.code === "unrecognized_keys") reject("field unknown", apiPath([...path, ...issue.keys.slice(0, 1)], body));
  if (issue.code === "invalid_union") rejectUnion(issue, path, body);
  if (issue.input === undefined) reject("field missing", at);
  switch (issue.code) {
    case "invalid_value":
      return reject("field value", at, either(issue.values));
    case "invalid_format":
      if (issue.format === "base64") reject("image data", at);
      return reject("field pattern", at, String(issue.pattern).slice(1, -1));
    case "too_small":
      if (issue.origin === "string") reject("length of a string", at, `at least ${issue.minimum} character`);
      return reject("number too small", at, `${issue.minimum}`);
    case "too_big":
      if (issue.origin === "string") reject("length of a string", at, `at most ${issue.maximum} characters`);
      if (issue.origin === "array") reject("list too long", at, `${issue.maximum}`);
      return reject("field type", at, "integer"); // above 2^53
    case "invalid_type":
      return reject("field type", at, NOUNS[issue.expected] ?? issue.expected);
    default:
      return reject("field type", at, "value");
  }
}

/** Rejects a value that is none of several kinds. For one without a discriminator, the last kind's problem is named. */
function rejectUnion(issue: z.core.$ZodIssueInvalidUnion, path: PropertyKey[], body: unknown): never {
  const { discriminator, errors, input } = issue;
  const last = errors.at(-1)?.[0];
  if (last) rejectIssue(last, path, body);
  const tag = String(isRecord(input) && discriminator && input[discriminator]);
  if (discriminator === "role") reject("role of a message", tag);
  return reject("kind of block", apiPath(path.slice(0, -1), body), tag, quoted(Object(issue).options).join(", "));
}

/**
 * Writes a path as the API does, with the types of blocks, sources, tools and thinking: thinking.adaptive.foo. The last
 * value's own type is only written for a rule of ours.
 */
function apiPath(path: PropertyKey[], body: unknown, hasLastType = false): string {
  const words: string[] = [];
  let value = body;
  for (const [i, key] of path.entries()) {
    value = isRecord(value) ? value[key] : undefined;
    words.push(String(key));
    const isLast = i === path.length - 1;
    if (!isLast || hasLastType) words.push(...tagOf(path[i - 1], key, value));
  }
  return words.join(".");
}

function tagOf(parent: PropertyKey | undefined, key: PropertyKey, value: unknown): string[] {
  const isBlock = parent === "content" && typeof key === "number";
  const isThinking = parent === undefined && key === "thinking";
  if (isRecord(value) && (isBlock || isThinking || key === "source")) return [String(value.type)];
  return parent === "tools" ? ["custom"] : [];
}
