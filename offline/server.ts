// The Messages API on this machine: as strict as the real one about requests, with a function in the place of the model.
//
// Top to bottom: the interface, the shape of a request, the rules of a history, the prompt as lines (tokens, thinking
// signatures and the prompt cache all come from them), the reply, the stream, and the HTTP server that joins these.
// Error texts are those of the real API where they are known. Only POST /v1/messages with tools of the client's own is
// here: no server tools nor their blocks, no search results, no `system` messages in the middle, no betas, and stop
// sequences are accepted but not obeyed.

import { createHash, createHmac, type Hash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

// #region interface

export type ReplyBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "redacted_thinking" }
  | { type: "tool_use"; name: string; input: unknown; id?: string };

/** What a model says, which may be nothing. The server adds ids and signatures, and to blocks without it thinking. */
export type Reply = {
  content: ReplyBlock[];
  /** Default: `tool_use` if there is a call, else `end_turn`. */
  stop_reason?: Anthropic.StopReason;
};

/** A pure function from a request to a reply. What it throws becomes a 500 with that message. */
export type Model = (request: Anthropic.MessageCreateParams) => Reply;

/** What goes wrong with one request. */
export type Failure =
  /** `retryAfter`: seconds for the retry-after header. The SDK obeys fractions, and backs off as usual at 0. */
  | { kind: "status"; status: 400 | 401 | 429 | 500 | 529; message?: string; retryAfter?: number }
  /** The connection breaks after half of the events; without a stream, before the answer. */
  | { kind: "drop" }
  /** After half of the events comes an `error` event, overloaded_error; without a stream, a 529. */
  | { kind: "error_event" }
  /** `delay`: milliseconds before each event of the stream, or once before the whole answer. */
  | { kind: "slow"; delay: number }
  /** The reply ends in the middle of its last block: if that is a call, its JSON is incomplete. */
  | { kind: "max_tokens" }
  /** The same cut, because the context window is full. */
  | { kind: "context_window" }
  /** The reply arrives whole, but its stop reason is `refusal`. */
  | { kind: "refusal" }
  /** A text block of white space comes before the calls. */
  | { kind: "blank_text" };

export type JournalEntry = {
  /** The body as sent. Of a rejected request nothing is promised about its shape; of one that is no JSON it is empty. */
  request: Anthropic.MessageCreateParams;
  /** Of the HTTP response: 200 also for a stream that broke. */
  status: number;
  error?: string;
  /** The whole prompt, cached or not, in tokens; 0 if the request was rejected before it was counted. */
  promptTokens: number;
  usage?: Anthropic.Usage;
  /** All blocks, even if the stream broke before their end; a call that was cut has an empty input here. */
  reply?: Anthropic.ContentBlock[];
  stop_reason?: Anthropic.StopReason;
};

export type Server = {
  /** For `ANTHROPIC_BASE_URL`. */
  url: string;
  /** Every request to /v1/messages in order of arrival, the rejected ones too. */
  journal: JournalEntry[];
  /** May be exchanged between requests. */
  model: Model;
  /** Tokens; may be changed between requests. */
  contextLimit: number;
  /** Queues failures for the next requests. Each request uses up one, even if it is rejected for another reason. */
  fail(...failures: Failure[]): void;
  /** Ends open connections too. */
  close(): Promise<void>;
};

/** A model that gives these replies, one for each request. It throws when none is left. */
export function scripted(...replies: Reply[]): Model {
  let used = 0;
  return () => {
    const reply = replies[used++];
    if (!reply) throw new Error(`the script has run out: request ${used}, but only ${replies.length} replies`);
    return reply;
  };
}

// #endregion
// #region errors

const ERRORS = {
  400: { type: "invalid_request_error", message: "Bad request" },
  401: { type: "authentication_error", message: "invalid x-api-key" },
  404: { type: "not_found_error", message: "Not Found" },
  429: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit." },
  500: { type: "api_error", message: "Internal server error" },
  529: { type: "overloaded_error", message: "Overloaded" },
};

class Rejection extends Error {
  readonly status: keyof typeof ERRORS;
  /** Seconds. */
  readonly retryAfter: number | undefined;
  constructor(status: keyof typeof ERRORS, message: string = ERRORS[status].message, retryAfter?: number) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

function reject(message: string): never {
  throw new Rejection(400, message);
}

const errorBody = ({ status, message }: Rejection, requestId: string): string =>
  JSON.stringify({ type: "error", error: { type: ERRORS[status].type, message }, request_id: requestId });

// #endregion
// #region the shape of a request

const anything = z.unknown().optional();
const flag = z.boolean().optional();
const cache_control = z.strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() }).nullish();
const display = z.enum(["summarized", "omitted"]).nullish();
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/);
// The inside of these is not checked.
const source = z.looseObject({ type: z.string() });

const TextShape = z.strictObject({ type: z.literal("text"), text: z.string(), citations: anything, cache_control });
const ImageShape = z.strictObject({ type: z.literal("image"), source, transformations: anything, cache_control });
const DocumentShape = z.strictObject({
  type: z.literal("document"),
  source,
  title: anything,
  context: anything,
  citations: anything,
  cache_control,
});
const ResultContent = z.array(z.discriminatedUnion("type", [TextShape, ImageShape, DocumentShape]));
const BlockShape = z.discriminatedUnion("type", [
  TextShape,
  ImageShape,
  DocumentShape,
  z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() }),
  z.strictObject({ type: z.literal("redacted_thinking"), data: z.string() }),
  z.strictObject({
    type: z.literal("tool_use"),
    id,
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,200}$/),
    input: z.record(z.string(), z.unknown()),
    caller: anything,
    toolset_name: anything,
    cache_control,
  }),
  z.strictObject({
    type: z.literal("tool_result"),
    tool_use_id: id,
    content: z.union([z.string(), ResultContent]).optional(),
    is_error: flag,
    toolset_name: anything,
    cache_control,
  }),
]);
const MessageShape = z.strictObject({
  role: z.enum(["user", "assistant"]),
  content: z.union([z.string(), z.array(BlockShape)]),
});
const ToolShape = z.strictObject({
  type: z.literal("custom").nullish(),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
  strict: flag,
  allowed_callers: anything,
  defer_loading: anything,
  eager_input_streaming: anything,
  input_examples: anything,
  cache_control,
});
const WithoutEffect = {
  container: anything,
  diagnostics: anything,
  inference_geo: anything,
  metadata: anything,
  output_config: anything,
  service_tier: anything,
  speed: anything,
};
/** Known only so that they are refused by name. */
const Sampling = { temperature: anything, top_p: anything, top_k: anything };
const RequestShape = z.strictObject({
  model: z.string(),
  max_tokens: z.int().min(0),
  messages: z.array(MessageShape).max(100_000),
  system: z.union([z.string(), z.array(TextShape)]).optional(),
  tools: z.array(ToolShape).optional(),
  tool_choice: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal(["auto", "any"]), disable_parallel_tool_use: flag }),
      z.strictObject({ type: z.literal("tool"), name: z.string(), disable_parallel_tool_use: flag }),
      z.strictObject({ type: z.literal("none") }),
    ])
    .optional(),
  thinking: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("adaptive"), display }),
      z.strictObject({ type: z.literal("between_tools") }),
      z.looseObject({ type: z.literal(["enabled", "disabled"]) }),
    ])
    .optional(),
  cache_control,
  stop_sequences: z.array(z.string()).optional(),
  stream: flag,
  ...WithoutEffect,
  ...Sampling,
});

const NOUNS: Record<string, string> = { array: "list", int: "integer", object: "dictionary", record: "dictionary" };

/** The API's wording for one of zod's findings. */
function describe(issue: z.core.$ZodRawIssue): string {
  const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`).join(", ") : "");
  if (issue.code === "unrecognized_keys") return "Extra inputs are not permitted";
  if (issue.input === undefined) return "Field required";
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
      if (issue.discriminator === undefined) return "Input should be a valid string or list";
      return `Input tag '${isRecord(issue.input) && issue.input.type}' found using 'type' does not match any of the expected tags: ${quoted(issue.options)}`;
  }
  return "Invalid input";
}

function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}

/** Throws if the body does not have the shape of a request; the message names the first place that is wrong. */
function checkShape(body: unknown): void {
  const [issue] = RequestShape.safeParse(body, { error: describe }).error?.issues ?? [];
  if (issue) reject(explain(issue, [], body));
}

function explain(issue: z.core.$ZodIssue, parents: PropertyKey[], body: unknown): string {
  const path = [...parents, ...issue.path];
  // Of string-or-list, the branch that got furthest is the one that was meant.
  if (issue.code === "invalid_union") {
    const inner = issue.errors.flat().sort((a, b) => b.path.length - a.path.length)[0];
    if (inner && inner.path.length > 0) return explain(inner, path, body);
    if (path.at(-1) === "type") path.pop();
  }
  if (issue.code === "unrecognized_keys" && issue.keys[0] !== undefined) path.push(issue.keys[0]);
  return [place(path, body), issue.message].filter(Boolean).join(": ");
}

/** The path as the API writes it, with the kind of a block or tool after its index: messages.0.content.0.text.foo */
function place(path: PropertyKey[], body: unknown): string {
  const words: string[] = [];
  let value = body;
  for (const [i, key] of path.entries()) {
    value = isRecord(value) ? value[key] : undefined;
    words.push(String(key));
    if (typeof key !== "number" || i === path.length - 1) continue;
    if (path[i - 1] === "content" && isRecord(value)) words.push(String(value.type));
    if (path[i - 1] === "tools") words.push("custom");
  }
  return words.join(".");
}

/** Where in a JSON text the first lone surrogate is escaped, counted in characters from 0, or -1. */
function loneSurrogate(json: string): number {
  if (!/\\ud/i.test(json)) return -1; // so most of them are done with at once
  // The second branch takes other escapes whole, so that an escaped backslash before a "u" is not misread.
  for (const { 0: escapes, index } of json.matchAll(/(?:\\u[0-9a-f]{4})+|\\./gi))
    if (escapes.length > 2 && !String(JSON.parse(`"${escapes}"`)).isWellFormed()) return index;
  return -1;
}

// #endregion
// #region what the current models reject

const MAX_OUTPUT = 128_000;
/** The models up to 4.5; those of 4.0 have a date behind the 4. */
const BEFORE_ADAPTIVE = /^claude-(3|[a-z]+-4-([0-5]\b|20))/;

function checkParameters(request: Anthropic.MessageCreateParams): void {
  for (const name of ["temperature", "top_p", "top_k"])
    if (name in request) reject(`\`${name}\` is deprecated for this model.`);
  if (request.thinking?.type === "disabled" || request.thinking?.type === "enabled")
    reject(
      `"thinking.type.${request.thinking.type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`,
    );
  if (request.thinking?.type === "adaptive" && BEFORE_ADAPTIVE.test(request.model))
    reject("adaptive thinking is not supported on this model");
  if (request.tool_choice?.type === "any" || request.tool_choice?.type === "tool")
    reject("Thinking may not be enabled when tool_choice forces tool use.");
  if (request.max_tokens > MAX_OUTPUT)
    reject(
      `max_tokens: ${request.max_tokens} > ${MAX_OUTPUT}, which is the maximum allowed number of output tokens for ${request.model}`,
    );
  const names = (request.tools ?? []).map((tool) => ("name" in tool ? tool.name : ""));
  if (new Set(names).size < names.length) reject("tools: Tool names must be unique.");
  if (Array.isArray(request.system) && request.system.some((block) => !block.text.trim()))
    reject("system: text content blocks must be non-empty");
}

/** `size` and `limit` in tokens. Only the oldest models count max_tokens too. */
function checkSize(size: number, { model, max_tokens }: Anthropic.MessageCreateParams, limit: number): void {
  if (size > limit) reject(`prompt is too long: ${size} tokens > ${limit} maximum`);
  if (model.startsWith("claude-3") && size + max_tokens > limit)
    reject(
      `input length and \`max_tokens\` exceed context limit: ${size} + ${max_tokens} > ${limit}, decrease input length or \`max_tokens\` and try again`,
    );
}

// #endregion
// #region the rules of a history

type Turn = { role: string; blocks: { block: Anthropic.ContentBlockParam; message: number; at: string }[] };

/** The blocks of a message's content, of which a string is one of text. */
export const blocksOf = (content: Anthropic.MessageParam["content"]): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

/** The messages with neighbours of one role merged; each block keeps the place that it was sent in. */
function turnsOf(messages: Anthropic.MessageParam[]): Turn[] {
  const turns: Turn[] = [];
  for (const [message, { role, content }] of messages.entries()) {
    if (turns.at(-1)?.role !== role) turns.push({ role, blocks: [] });
    for (const [i, block] of blocksOf(content).entries())
      turns.at(-1)?.blocks.push({ block, message, at: `messages.${message}.content.${i}` });
  }
  return turns;
}

function checkHistory({ messages, tools }: Anthropic.MessageCreateParams): void {
  if (messages.length === 0) reject("messages: at least one message is required");
  if (messages[0]?.role !== "user") reject('messages: first message must use the "user" role');
  for (const [i, { content }] of messages.entries())
    if (content.length === 0)
      reject(`messages.${i}: all messages must have non-empty content except for the optional final assistant message`);

  const turns = turnsOf(messages);
  const callIds = new Set<string>();
  for (const { role, blocks } of turns)
    for (const { block, at } of blocks) {
      if (block.type === "text" && !block.text.trim()) reject("messages: text content blocks must be non-empty");
      if ((block.type === "tool_use" || block.type === "tool_result") && !tools?.length)
        reject("Requests which include `tool_use` or `tool_result` blocks must define tools.");
      if (block.type === "tool_result" && role !== "user")
        reject(`${at}: \`tool_result\` blocks can only be in \`user\` messages`);
      if (role === "user" && ["thinking", "redacted_thinking", "tool_use"].includes(block.type))
        reject(`${at}: \`${block.type}\` blocks can only be in \`assistant\` messages`);
      if (block.type === "tool_result" && block.is_error && !block.content?.length)
        reject(`${at}.tool_result: content cannot be empty if \`is_error\` is true`);
      if (block.type !== "tool_use") continue;
      if (callIds.has(block.id)) reject(`${at}: \`tool_use\` ids must be unique`);
      callIds.add(block.id);
    }

  for (let i = 0; i <= turns.length; i++) checkPairs(turns[i - 1], turns[i]);
  if (turns.at(-1)?.role === "assistant")
    reject("This model does not support assistant message prefill. The conversation must end with a user message.");
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
      `messages.${first}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open.keys()].join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    );

  const seen = new Set<string>();
  for (const { block, at } of next?.blocks ?? []) {
    if (block.type !== "tool_result") continue;
    const callId = block.tool_use_id;
    if (!calls.has(callId))
      reject(
        `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${callId}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    if (seen.has(callId))
      reject(
        `${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${callId}`,
      );
    seen.add(callId);
  }
}

// #endregion
// #region the prompt as lines

/** One tool, system block or message block of a prompt. */
type Line = {
  /** Where it stands (tools, system, user or assistant) and its canonical JSON. */
  text: string;
  /** How many cache breakpoints the block has; a tool result may have some inside. */
  breakpoints: number;
  thinking?: { at: string; shown: string; signature: string };
};

/** JSON with sorted keys, so that equal values have equal texts. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, part) =>
    isRecord(part) && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );

/**
 * A block without what may differ when the same block is sent again: cache_control, caller and fields that are empty,
 * false or null. A string as content becomes a list of one text block.
 */
function bare(block: object): object {
  const fields = Object.entries(block).filter(([key, value]) => !["cache_control", "caller"].includes(key) && value);
  return Object.fromEntries(fields.map(([key, value]) => [key, key === "content" ? blocksOf(value).map(bare) : value]));
}

function lineOf(part: string, block: object): Line {
  const inside = "content" in block && Array.isArray(block.content) ? block.content : [];
  const breakpoints = [block, ...inside].filter((each) => isRecord(each) && each.cache_control).length;
  return { text: `${part} ${canonical(bare(block))}\n`, breakpoints };
}

/** The prompt in the order of the cache's prefix: tools, system, messages. */
function linesOf(request: Anthropic.MessageCreateParams): Line[] {
  const lines = (request.tools ?? []).map((tool) => lineOf("tools", tool));
  for (const block of blocksOf(request.system ?? [])) lines.push(lineOf("system", block));
  for (const { role, blocks } of turnsOf(request.messages))
    for (const { block, at } of blocks) {
      const line = lineOf(role, block);
      if (block.type === "thinking") line.thinking = { at, shown: block.thinking, signature: block.signature };
      if (block.type === "redacted_thinking") line.thinking = { at, shown: "", signature: block.data };
      lines.push(line);
    }
  const last = lines.at(-1);
  if (request.cache_control && last) last.breakpoints++;
  return lines;
}

// #endregion
// #region thinking signatures

// A signature is "<mac of the thinking block before it>.<own mac>". The mac covers all that was said before the block
// except other thinking, so taking thinking away from the front changes nothing; the name of the block before it
// makes a gap or another order show.
type Chain = { key: Buffer; said: Hash; previous: string };

const macOf = ({ key, said }: Chain, previous: string, shown: string): string =>
  createHmac("sha256", key).update(said.copy().digest()).update(`${previous}.${shown}`).digest("base64url");

/** Checks every thinking block of a prompt. Returns what the next one will be bound to. */
function checkThinking(lines: Line[], key: Buffer): Chain {
  const chain: Chain = { key, said: createHash("sha256"), previous: "" };
  for (const { text, thinking } of lines) {
    if (!thinking) {
      chain.said.update(text);
      continue;
    }
    const [previous = "", mac = ""] = thinking.signature.split(".");
    const follows = chain.previous === "" || chain.previous === previous;
    if (!follows || mac !== macOf(chain, previous, thinking.shown))
      reject(
        `${thinking.at}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different conversation. Remove the block, or set \`thinking.block_binding.prefix_mismatch_behavior\` to "drop_block".`,
      );
    chain.previous = mac;
  }
  return chain;
}

function sign(chain: Chain, shown: string): string {
  const { previous } = chain;
  chain.previous = macOf(chain, previous, shown);
  return `${previous}.${chain.previous}`;
}

// #endregion
// #region the prompt cache

const MIN_CACHED = 512;
const LOOKBACK = 20;

/**
 * The size of a prompt, what of it is read from the cache and what is written to it, all in tokens, and the keys of the
 * entries that an answer writes. Entries never expire: a session on this server is over before one would.
 */
function lookUp(lines: Line[], model: string, cache: Set<string>, charactersPerToken: number) {
  const tokens = (characters: number) => Math.ceil(characters / charactersPerToken);
  let characters = 0;
  let key = model;
  const prefixes = lines.map((line) => {
    characters += line.text.length;
    key = createHash("sha256").update(key).update(line.text).digest("base64url");
    return { key, tokens: tokens(characters) };
  });
  const breakpoints = [...lines.keys()].filter((i) => lines[i]?.breakpoints);
  const near = breakpoints.flatMap((i) => prefixes.slice(Math.max(0, i - LOOKBACK), i + 1));
  const marked = breakpoints.flatMap((i) => prefixes[i] ?? []).filter((prefix) => prefix.tokens >= MIN_CACHED);
  const longest = (found: typeof prefixes) => Math.max(0, ...found.map((prefix) => prefix.tokens));
  const read = longest(near.filter((prefix) => cache.has(prefix.key)));
  const written = Math.max(0, longest(marked) - read);
  return { tokens: tokens(characters), read, written, keys: marked.map((prefix) => prefix.key) };
}

// #endregion
// #region the reply

/** A block of a reply and what the model generates for it: its text, or the JSON of a call's input. */
type Draft = { block: ReplyBlock; generated: string };

const newId = (prefix: string): string => prefix + randomBytes(12).toString("hex");

function draftsOf(reply: Reply, failure: Failure | undefined): Draft[] {
  const content = [...reply.content];
  const first = content[0]?.type;
  if (first && first !== "thinking" && first !== "redacted_thinking")
    content.unshift({ type: "thinking", thinking: "Looking at what is needed next." });
  if (failure?.kind === "blank_text") {
    const call = content.findIndex((block) => block.type === "tool_use");
    content.splice(call < 0 ? content.length : call, 0, { type: "text", text: "\n\n" });
  }
  return content.map((block) => ({ block, generated: generatedFor(block) }));
}

function generatedFor(block: ReplyBlock): string {
  if (block.type === "text") return block.text;
  if (block.type === "thinking") return block.thinking;
  return block.type === "tool_use" ? JSON.stringify(block.input === undefined ? {} : block.input) : "";
}

const sizeOf = (drafts: Draft[]): number => drafts.reduce((sum, { generated }) => sum + generated.length, 0);

/** The first `limit` characters of a reply. A block that would begin after them is not there. */
function cut(drafts: Draft[], limit: number): Draft[] {
  let left = limit;
  return drafts.flatMap(({ block, generated }) => {
    if (left <= 0) return [];
    const head = generated.slice(0, left);
    left -= generated.length;
    return [{ block, generated: head.isWellFormed() ? head : head.slice(0, -1) }];
  });
}

/** Cuts a reply to the room there is, in characters, and says why it ends. */
function finish(reply: Reply, failure: Failure | undefined, most: number, window: number) {
  const drafts = draftsOf(reply, failure);
  let limit = Math.min(most, window);
  let reason: Anthropic.StopReason = window < most ? "model_context_window_exceeded" : "max_tokens";
  if (failure?.kind === "max_tokens" || failure?.kind === "context_window") {
    limit = Math.min(limit, sizeOf(drafts) - Math.ceil((drafts.at(-1)?.generated.length ?? 0) / 2));
    reason = failure.kind === "max_tokens" ? "max_tokens" : "model_context_window_exceeded";
  }
  if (sizeOf(drafts) > limit) return { drafts: cut(drafts, limit), stop_reason: reason };
  if (failure?.kind === "refusal") reason = "refusal";
  else reason = reply.stop_reason ?? (reply.content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn");
  return { drafts, stop_reason: reason };
}

/** The blocks as the client gets them, with ids, and signatures that bind them to all that came before. */
function deliver(drafts: Draft[], summarized: boolean, chain: Chain): Anthropic.ContentBlock[] {
  return drafts.map(({ block, generated }): Anthropic.ContentBlock => {
    if (block.type === "redacted_thinking") return { type: "redacted_thinking", data: sign(chain, "") };
    if (block.type === "thinking") {
      const thinking = summarized ? generated : "";
      return { type: "thinking", thinking, signature: sign(chain, thinking) };
    }
    const sent = block.type === "text" ? textBlock(generated) : callBlock(block, generated);
    // Blank text cannot be sent back, so nothing may be bound to it.
    if (sent.type !== "text" || sent.text.trim()) chain.said.update(lineOf("assistant", sent).text);
    return sent;
  });
}

const textBlock = (text: string): Anthropic.TextBlock => ({ type: "text", text, citations: null });

function callBlock(block: Extract<ReplyBlock, { type: "tool_use" }>, generated: string): Anthropic.ToolUseBlock {
  const input = generated === generatedFor(block) ? JSON.parse(generated) : {};
  return { type: "tool_use", id: block.id ?? newId("toolu_"), name: block.name, input, caller: { type: "direct" } };
}

function usageOf(prompt: ReturnType<typeof lookUp>, drafts: Draft[], charactersPerToken: number): Anthropic.Usage {
  const tokens = (drafts: Draft[]) => Math.ceil(sizeOf(drafts) / charactersPerToken);
  const thinking = drafts.filter(({ block }) => block.type === "thinking");
  return {
    input_tokens: prompt.tokens - prompt.read - prompt.written,
    cache_read_input_tokens: prompt.read,
    cache_creation_input_tokens: prompt.written,
    cache_creation: { ephemeral_5m_input_tokens: prompt.written, ephemeral_1h_input_tokens: 0 },
    // Thinking is paid for whether it is shown or not.
    output_tokens: tokens(drafts),
    output_tokens_details: { thinking_tokens: tokens(thinking) },
    inference_geo: null,
    server_tool_use: null,
    service_tier: "standard",
    speed: "standard",
  };
}

// #endregion
// #region the stream

type StreamEvent = Anthropic.RawMessageStreamEvent | { type: "ping" };

/** The events that carry a message. It has one block for each draft. */
function* eventsOf(message: Anthropic.Message, drafts: Draft[]): Generator<StreamEvent> {
  const { stop_reason, stop_sequence, stop_details, container } = message;
  const { cache_creation, inference_geo, service_tier, speed, ...usage } = message.usage;
  const opening = { ...message, content: [], stop_reason: null, stop_details: null };
  const before = { ...message.usage, output_tokens: 1, output_tokens_details: null };
  yield { type: "message_start", message: { ...opening, usage: before } };
  yield { type: "ping" };
  for (const [index, block] of message.content.entries()) {
    yield { type: "content_block_start", index, content_block: emptied(block) };
    for (const delta of deltasOf(block, drafts[index]?.generated ?? ""))
      yield { type: "content_block_delta", index, delta };
    yield { type: "content_block_stop", index };
  }
  yield { type: "message_delta", delta: { stop_reason, stop_sequence, stop_details, container }, usage };
  yield { type: "message_stop" };
}

function emptied(block: Anthropic.ContentBlock): Anthropic.ContentBlock {
  if (block.type === "text") return { ...block, text: "" };
  if (block.type === "thinking") return { ...block, thinking: "", signature: "" };
  return block.type === "tool_use" ? { ...block, input: {} } : block;
}

function* deltasOf(block: Anthropic.ContentBlock, generated: string): Generator<Anthropic.RawContentBlockDelta> {
  if (block.type === "text") for (const text of pieces(generated)) yield { type: "text_delta", text };
  if (block.type === "tool_use")
    for (const partial_json of pieces(generated)) yield { type: "input_json_delta", partial_json };
  if (block.type !== "thinking") return;
  for (const thinking of pieces(block.thinking)) yield { type: "thinking_delta", thinking };
  yield { type: "signature_delta", signature: block.signature };
}

/** A text in pieces of a few characters, never cut inside a surrogate pair. */
const pieces = (text: string): string[] => text.match(/.{1,20}/gsu) ?? [];

const frame = (type: string, data: string): string => `event: ${type}\ndata: ${data}\n\n`;

async function stream(res: ServerResponse, events: StreamEvent[], failure: Failure | undefined, requestId: string) {
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (const [i, event] of events.entries()) {
    if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
    if (res.destroyed) return; // the client has gone, which is its right
    const halfway = i === Math.floor(events.length / 2);
    if (halfway && failure?.kind === "error_event")
      return void res.end(frame("error", errorBody(new Rejection(529), requestId)));
    const chunk = frame(event.type, JSON.stringify(event));
    if (halfway && failure?.kind === "drop") return void res.write(chunk, () => res.destroy());
    res.write(chunk);
  }
  res.end();
}

// #endregion
// #region the server

function parse(body: string): Anthropic.MessageCreateParams {
  const at = loneSurrogate(body);
  if (at >= 0)
    reject(`The request body is not valid JSON: no low surrogate in string: line 1 column ${at + 1} (char ${at})`);
  try {
    return JSON.parse(body);
  } catch (error) {
    return reject(`The request body is not valid JSON: ${messageOf(error)}`);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * Starts a Messages API on 127.0.0.1. `contextLimit` is in tokens (default 200,000), `port` 0 takes a free one, a
 * taken one throws. Without a model every valid request fails with a 500. Tokens are counted by characters, in UTF-16
 * units: in a prompt over its lines, in a reply over its texts; `charactersPerToken` (default 3) is how many make one.
 */
export async function startServer(
  options: { model?: Model; contextLimit?: number; port?: number; charactersPerToken?: number } = {},
): Promise<Server> {
  const { charactersPerToken = 3 } = options;
  const key = randomBytes(32);
  const cache = new Set<string>();
  const failures: Failure[] = [];

  /** Checks the request of a journal entry and has the model answer it. Fills in the entry as far as it gets. */
  function answer(entry: JournalEntry, failure: Failure | undefined) {
    const { request } = entry;
    checkShape(request);
    checkParameters(request);
    checkHistory(request);
    const lines = linesOf(request);
    const breakpoints = lines.reduce((sum, line) => sum + line.breakpoints, 0);
    if (breakpoints > 4) reject(`A maximum of 4 blocks with cache_control may be provided. Found ${breakpoints}.`);
    const prompt = lookUp(lines, request.model, cache, charactersPerToken);
    entry.promptTokens = prompt.tokens;
    checkSize(prompt.tokens, request, server.contextLimit);
    const chain = checkThinking(lines, key);

    const reply = server.model(request);
    const most = charactersPerToken * request.max_tokens;
    const window = charactersPerToken * (server.contextLimit - prompt.tokens);
    const { drafts, stop_reason } = finish(reply, failure, most, window);
    const summarized = request.thinking?.type === "adaptive" && request.thinking.display === "summarized";
    const content = deliver(drafts, summarized, chain);
    const usage = usageOf(prompt, drafts, charactersPerToken);
    for (const prefix of prompt.keys) cache.add(prefix);
    Object.assign(entry, { reply: content, stop_reason, usage });
    const message: Anthropic.Message = {
      id: newId("msg_"),
      type: "message",
      role: "assistant",
      model: request.model,
      content,
      usage,
      stop_reason,
      stop_sequence: null,
      stop_details: stop_reason === "refusal" ? { type: "refusal", category: null, explanation: null } : null,
      container: null,
      diagnostics: null,
    };
    return { message, events: [...eventsOf(message, drafts)] };
  }

  async function respond(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const entry: JournalEntry = { request: { model: "", max_tokens: 0, messages: [] }, status: 200, promptTokens: 0 };
    const requestId = newId("req_");
    res.setHeader("request-id", requestId);
    try {
      if (req.method !== "POST" || req.url?.split("?")[0] !== "/v1/messages") throw new Rejection(404);
      const body = await text(req);
      server.journal.push(entry);
      const failure = failures.shift();
      if (!req.headers["x-api-key"] && !/^Bearer ./.test(req.headers.authorization ?? ""))
        throw new Rejection(401, "x-api-key header is required");
      if (!req.headers["anthropic-version"]) reject("anthropic-version: header is required");
      entry.request = parse(body);
      if (failure?.kind === "status") throw new Rejection(failure.status, failure.message, failure.retryAfter);

      const { message, events } = answer(entry, failure);
      if (failure?.kind === "drop" || failure?.kind === "error_event") entry.error = failure.kind;
      if (entry.request.stream) return await stream(res, events, failure, requestId);
      if (failure?.kind === "drop") return void res.destroy();
      if (failure?.kind === "error_event") throw new Rejection(529);
      if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
      res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(message));
    } catch (error) {
      const rejection = error instanceof Rejection ? error : new Rejection(500, messageOf(error));
      entry.status = rejection.status;
      entry.error = rejection.message;
      if (res.destroyed) return; // the client left before its body was read
      if (rejection.retryAfter !== undefined) res.setHeader("retry-after", rejection.retryAfter);
      res.writeHead(rejection.status, { "content-type": "application/json" }).end(errorBody(rejection, requestId));
    }
  }

  const http = createServer(respond).listen(options.port ?? 0, "127.0.0.1");
  await once(http, "listening");
  const address = http.address();

  const server: Server = {
    url: typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "",
    journal: [],
    model: options.model ?? scripted(),
    contextLimit: options.contextLimit ?? 200_000,
    fail: (...more) => void failures.push(...more),
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}

// #endregion
