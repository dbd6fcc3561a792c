/** The fields of a request, and their types. In a parsed request, content is a list of blocks, and defaults are filled in. */
import { z } from "zod";

/** A field that is accepted and has no effect. */
const ignored = z.unknown().optional();
const flag = z.boolean().optional();
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

const Text = block("text", { text: z.string(), citations: ignored });
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
const ClientTool = z.strictObject({
  type: z.literal("custom").nullish(),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
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
  z.looseObject({ type: z.literal("enabled"), budget_tokens: z.int() }),
  z.looseObject({ type: z.literal("disabled") }),
]);
export const Body = z.object({
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
  stop_sequences: z.array(z.string()).optional(),
  stream: z.boolean().default(false),
  metadata: z.strictObject({ user_id: z.string().max(256).nullish() }).optional(),
  output_config: z.strictObject({ effort, format: ignored, task_budget: ignored }).optional(),
  service_tier: z.enum(["auto", "standard_only"]).optional(),
  speed: z.enum(["standard", "fast"]).nullish(),
  temperature: z.number().optional(), // rules.ts rejects this and the next two for newer models
  top_p: ignored,
  top_k: ignored,
});
/** More fields without effect. `betas.ts` has those that need a beta header. */
export const IGNORED = ["container", "diagnostics", "inference_geo", "safeguards"];
const UNCOUNTED = { max_tokens: true, metadata: true, service_tier: true, stop_sequences: true, stream: true } as const;
export const CountBody = Body.omit(UNCOUNTED);

/** A block of a message or of a tool result. */
export type Block = z.output<typeof Block> | z.output<typeof Result>;
export type Tool = z.output<typeof ServerTool> | z.output<typeof ClientTool>;
export type Message = z.output<typeof Message>;
/** `5m` or `1h`. */
export type Ttl = NonNullable<z.output<typeof cache_control>>["ttl"];
