/** Reads what both formats share with the API: messages, their blocks, and token counts. */
import * as z from "zod";
import { CHARS_PER_TOKEN } from "../../offline/constants.ts";
import type { Block, Message, Text, ToolCall, Usage } from "./events.ts";

export const Content = z.union([z.string(), z.array(z.unknown())]).nullish();
export const ApiMessage = z.object({ role: z.enum(["user", "assistant"]), content: Content });
export type ApiMessage = z.output<typeof ApiMessage>;

const ApiText = z.object({ type: z.literal("text"), text: z.string() });
const Image = z.object({ type: z.enum(["image", "document"]) });
const TextOrImage = z.union([ApiText, Image]);
const ApiBlock = z.discriminatedUnion("type", [
  ApiText,
  Image,
  z.object({ type: z.literal("thinking"), thinking: z.string() }),
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()).catch({}),
  }),
  z.object({
    type: z.literal("tool_result"),
    tool_use_id: z.string(),
    content: Content,
    is_error: z.boolean().nullish(),
  }),
]);

/** A field that may be missing. A malformed value is ignored. */
export const ifValid = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
export const Figure = ifValid(z.number().positive());

const Tokens = z.number().nullish();
export const ApiUsage = z
  .object({
    input_tokens: z.number(),
    output_tokens: z.number(),
    cache_read_input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    cache_creation: z.object({ ephemeral_1h_input_tokens: Tokens }).nullish(),
    server_tool_use: z.object({ web_search_requests: Tokens }).nullish(),
    speed: z.string().nullish(),
    inference_geo: z.string().nullish(),
    iterations: z.array(z.unknown()).nullish(),
  })
  .nullish()
  .catch(undefined);

/** Returns nothing if the counts are zeros, as some servers report them. */
export function toUsage(usage: z.output<typeof ApiUsage>, isFinal: boolean): Usage | undefined {
  if (!usage) return undefined;
  const [input, output] = [usage.input_tokens, usage.output_tokens];
  const [read, written] = [usage.cache_read_input_tokens ?? 0, usage.cache_creation_input_tokens ?? 0];
  const writtenForHour = usage.cache_creation?.ephemeral_1h_input_tokens ?? 0;
  const searches = usage.server_tool_use?.web_search_requests ?? 0;
  const geo = usage.inference_geo ?? "";
  const isRegional = /^(us|eu|jp|au|apac)$/.test(geo);
  const isPriced = isRegional || /^(|not_available|global)$/.test(geo); // not at the local API
  const isOneTry = (usage.iterations ?? []).length <= 1; // the counts leave out refused attempts
  const isListPrice = usage.speed !== "fast" && isPriced && isOneTry;
  if (input + read + written === 0) return undefined;
  return { input, output, read, written, writtenForHour, searches, isFinal, isListPrice, isRegional };
}

/** Some proxies write zeros with the first blocks of a reply, and the counts with its last. */
export function largestUsage(a: Usage | undefined, b: Usage | undefined): Usage | undefined {
  if (!a || !b) return a ?? b;
  const largest: Usage = { ...a, ...b, isFinal: a.isFinal || b.isFinal };
  for (const count of COUNTS) largest[count] = Math.max(a[count], b[count]);
  return largest;
}
const COUNTS = ["input", "output", "read", "written", "writtenForHour", "searches"] as const;

/** Finds the calls that results are for. A result can come before its call. */
export type Calls = Map<string, ToolCall>;
export function callWith(id: string, calls: Calls): ToolCall {
  const call = calls.get(id) ?? { id, name: "", input: {} };
  calls.set(id, call);
  return call;
}

export const valuesIn = (content: z.output<typeof Content>): unknown[] =>
  (typeof content === "string" ? [{ type: "text", text: content }] : content) ?? [];

// Only the API can count tokens, so sizes are the characters of the JSON.
/** Characters of {"role":"user","content":[]} and a comma. */
const WRAPPER = 30;
/** Stands in for an image: 1,500 tokens, about as many as 1,000 × 1,000 pixels take. */
export const IMAGE = "[image or document] ".padEnd(1_500 * CHARS_PER_TOKEN, ".");

const isImage = (value: unknown) => /^(image|document)$/.test(Object(value).type);
const withoutImages = (_: string, value: unknown) => (isImage(value) ? IMAGE : value);

/** Returns the characters of a value as JSON, with images at their estimated size. */
function sizeOf(value: unknown): number {
  const json = JSON.stringify(value) ?? "";
  const mayHaveImages = /"(image|document)"/.test(json); // replacing takes long
  return mayHaveImages ? JSON.stringify(value, withoutImages).length : json.length;
}

/** Reads a message. Texts in the user's name count as the client's until the format says otherwise. */
export function toMessage({ role, content }: ApiMessage, calls: Calls): Message {
  const said = role === "assistant" ? "reply" : "client";
  const blocks = valuesIn(content).map((value, i) =>
    toBlock(value, said, sizeOf(value) + (i === 0 ? WRAPPER : 0), calls),
  );
  return { type: "message", role, blocks };
}

function toBlock(value: unknown, said: "reply" | "client", chars: number, calls: Calls): Block {
  const { data: block } = ApiBlock.safeParse(value);
  if (block?.type === "thinking") return { kind: "thinking", chars, text: block.thinking };
  if (block?.type === "tool_use") {
    const { id, name, input } = block;
    if (calls.get(id)?.name) calls.delete(id); // some servers give an id twice
    return { kind: "call", chars, call: Object.assign(callWith(id, calls), { name, input }) };
  }
  if (block?.type === "tool_result") {
    const texts = valuesIn(block.content).map(toText);
    return { kind: "result", chars, call: callWith(block.tool_use_id, calls), texts, isError: block.is_error === true };
  }
  return { kind: said, chars, ...toText(value) };
}

function toText(value: unknown): Text {
  const { data: block } = TextOrImage.safeParse(value);
  if (block?.type === "text") return { text: block.text };
  if (block) return { text: `[${block.type}]`, standsFor: "image" };
  return { text: JSON.stringify(value) ?? "", standsFor: "unknown" };
}

/** Returns the message with another kind for its texts. */
export const withTexts = (message: Message, kind: "request" | "summary"): Message => ({
  ...message,
  blocks: message.blocks.map((block) => (block.kind === "client" ? { ...block, kind } : block)),
});
