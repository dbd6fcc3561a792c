/**
 * The Messages API on this machine: as strict about requests as the real one, with a function in the place of the model.
 *
 * Error texts are those of the real API where they are known. Only POST /v1/messages with the client's own tools is
 * here: no server tools, search results, `system` messages, or betas but `block_binding`. Stop sequences are accepted but
 * not obeyed.
 */
import { createHash, createHmac, type Hash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type Anthropic from "@anthropic-ai/sdk";
import { blocksOf, checkRequest, errorBody, isRecord, Rejection, type Rule, reject, turnsOf } from "./rules.ts";

export { blocksOf };

// --- interface -------------------------------------------------------------------------------------------------------

export type ReplyBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "redacted_thinking" }
  | { type: "tool_use"; name: string; input: unknown; id?: string };

/** What a model says. The server adds ids and signatures. */
export type Reply = {
  content: ReplyBlock[];
  /** Whether a reply that doesn't begin with thinking gets some. Default: true, as models nearly always think. */
  thinks?: boolean;
  /** Default: `tool_use` if there is a call, else `end_turn`. */
  stop_reason?: Anthropic.StopReason;
};

/** A function from a request to a reply. What it throws becomes a 500 with that message. */
export type Model = (request: Anthropic.MessageCreateParams) => Reply;

/** What goes wrong with one request. */
export type Failure =
  /** `retryAfter`: seconds, fractions too, for the retry-after header. */
  | { kind: "status"; status: 400 | 401 | 413 | 429 | 500 | 529; message?: string; retryAfter?: number }
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
  | { kind: "blank_text" }
  /** The input of each call is no JSON. */
  | { kind: "broken_json" }
  /** The reply does not say its usage, which some servers leave out. */
  | { kind: "no_usage" };

export type JournalEntry = {
  /** The body as sent, whatever its shape; without content if it is not JSON. */
  request: Anthropic.MessageCreateParams;
  /** Of the HTTP response: 200 also for a stream that broke. */
  status: number;
  error?: string;
  /** Which rule it broke. */
  rule?: Rule;
  /** The whole prompt, cached or not, in tokens; 0 if the request was rejected before it was counted. */
  promptTokens: number;
  /** As counted, whatever was reported. */
  usage?: Anthropic.Usage;
  /** All blocks, even if the stream broke before their end; a call that was cut has an empty input here. */
  reply?: Anthropic.ContentBlock[];
  stop_reason?: Anthropic.StopReason;
};

/** A running server. All but `url` and `journal` may be changed between requests. */
export type Server = {
  /** For `ANTHROPIC_BASE_URL`. */
  url: string;
  /** Every request to /v1/messages in order of arrival, rejected ones too. */
  journal: JournalEntry[];
  model: Model;
  /** Tokens. */
  contextLimit: number;
  /** Whether prompt and `max_tokens` must fit into the limit together, as on the oldest models and many local servers. */
  countsMaxTokens: boolean;
  /** Whether a reply may repeat the ids of earlier ones: some servers begin with `call_0` in each. Those of one reply differ. */
  repeatsIds: boolean;
  /** Sent to the client instead of the true usage: some servers report a usage of 1, or `{}`. */
  reportedUsage?: Partial<Anthropic.Usage>;
  /** The clock of the prompt cache, in milliseconds. */
  now: () => number;
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

// --- the prompt as lines ---------------------------------------------------------------------------------------------

// Tokens, thinking signatures and the prompt cache are all worked out from the prompt as a list of lines.

/** One tool, system block or message block of a prompt. */
type Line = {
  /** The part it belongs to (tools, system, user or assistant) and its JSON, the same for equal blocks. */
  text: string;
  /** How many cache breakpoints the block has; a tool result may have some inside. */
  breakpoints: number;
  thinking?: { at: string; shown: string; signature: string };
};

/**
 * A block without what may differ when the same block is sent again: the order of its fields, cache_control, caller and
 * fields that are empty, false or null. A string as content becomes a list of one text block.
 */
function bare(block: object): object {
  const fields = Object.entries(block).filter(([key, value]) => !["cache_control", "caller"].includes(key) && value);
  fields.sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(fields.map(([key, value]) => [key, key === "content" ? blocksOf(value).map(bare) : value]));
}

function lineOf(part: string, block: object): Line {
  const inside = "content" in block && Array.isArray(block.content) ? block.content : [];
  const breakpoints = [block, ...inside].filter((each) => isRecord(each) && each.cache_control).length;
  return { text: `${part} ${JSON.stringify(bare(block))}\n`, breakpoints };
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
  const breakpoints = lines.reduce((sum, line) => sum + line.breakpoints, 0);
  if (breakpoints > 4)
    reject("cache breakpoints", `A maximum of 4 blocks with cache_control may be provided. Found ${breakpoints}.`);
  return lines;
}

/** `size`: tokens of the prompt. */
function checkSize(size: number, { model, max_tokens }: Anthropic.MessageCreateParams, server: Server): void {
  const limit = server.contextLimit;
  if (size > limit) reject("prompt too long", `prompt is too long: ${size} tokens > ${limit} maximum`);
  if ((server.countsMaxTokens || model.startsWith("claude-3")) && size + max_tokens > limit)
    reject(
      "max_tokens in the window",
      `input length and \`max_tokens\` exceed context limit: ${size} + ${max_tokens} > ${limit}, decrease input length or \`max_tokens\` and try again`,
    );
}

// --- thinking signatures ---------------------------------------------------------------------------------------------

// A signature is "<mac of the thinking block before it>.<own mac>". The mac covers everything before the block except
// other thinking, so thinking can be removed from the front. Naming the block before it shows a gap or another order.
type Chain = { key: Buffer; said: Hash; previous: string; dropped: string[] };

const macOf = ({ key, said }: Chain, previous: string, shown: string): string =>
  createHmac("sha256", key).update(said.copy().digest()).update(`${previous}.${shown}`).digest("base64url");

/** Checks every thinking block of a prompt, and drops or rejects what is invalid. Returns what the next one will be bound to. */
function checkThinking(lines: Line[], key: Buffer, drops: boolean): Chain {
  const chain: Chain = { key, said: createHash("sha256"), previous: "", dropped: [] };
  for (const { text, thinking } of lines) {
    if (!thinking) {
      chain.said.update(text);
      continue;
    }
    const [previous = "", mac = ""] = thinking.signature.split(".");
    const follows = chain.previous === "" || chain.previous === previous;
    if (follows && mac === macOf(chain, previous, thinking.shown)) chain.previous = mac;
    else if (drops) chain.dropped.push(thinking.at);
    else
      reject(
        "thinking binding",
        `${thinking.at}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different conversation. Remove the block, or set \`thinking.block_binding.prefix_mismatch_behavior\` to "drop_block".`,
      );
  }
  return chain;
}

function sign(chain: Chain, shown: string): string {
  const { previous } = chain;
  chain.previous = macOf(chain, previous, shown);
  return `${previous}.${chain.previous}`;
}

// --- the prompt cache ------------------------------------------------------------------------------------------------

const MIN_CACHED = 512;
const LOOKBACK = 20;
const LIFETIME = 5 * 60_000;

/**
 * The size of a prompt, how much is read from the cache and how much is written to it, all in tokens, and the keys of the
 * entries that begin a new lifetime when the request is answered. `cache`: when each entry was last read or written.
 */
function lookUp(lines: Line[], model: string, cache: Map<string, number>, now: number, charactersPerToken: number) {
  let characters = 0;
  let key = model;
  const prefixes = lines.map(({ text, breakpoints }) => {
    characters += text.length;
    key = createHash("sha256").update(key).update(text).digest("base64url");
    return { key, tokens: Math.ceil(characters / charactersPerToken), marked: breakpoints > 0 };
  });
  const isCached = ({ key }: { key: string }) => now - (cache.get(key) ?? -Infinity) <= LIFETIME;
  const isNear = (_: unknown, i: number) => prefixes.slice(i, i + LOOKBACK + 1).some(({ marked }) => marked);
  // Prefixes grow, so the last is the longest.
  const found = prefixes.filter(isNear).findLast(isCached);
  const written = prefixes.filter(({ marked, tokens }) => marked && tokens >= MIN_CACHED);
  const read = found?.tokens ?? 0;
  return {
    tokens: prefixes.at(-1)?.tokens ?? 0,
    read,
    written: Math.max(0, (written.at(-1)?.tokens ?? 0) - read),
    keys: [...(found ? [found] : []), ...written].map((prefix) => prefix.key),
  };
}

// --- the reply -------------------------------------------------------------------------------------------------------

/** A block of a reply and what the model generates for it: its text, or the JSON of a call's input. */
type Draft = { block: ReplyBlock; generated: string };

const newId = (prefix: string): string => prefix + randomBytes(12).toString("hex");

function draftsOf(reply: Reply, failure: Failure | undefined): Draft[] {
  const content = [...reply.content];
  const first = content[0]?.type;
  if (reply.thinks !== false && (first === "text" || first === "tool_use"))
    content.unshift({ type: "thinking", thinking: "Looking at what is needed next." });
  if (failure?.kind === "blank_text") {
    const call = content.findIndex((block) => block.type === "tool_use");
    content.splice(call < 0 ? content.length : call, 0, { type: "text", text: "\n\n" });
  }
  const breaks = (block: ReplyBlock) => failure?.kind === "broken_json" && block.type === "tool_use";
  return content.map((block) => {
    const generated = generatedFor(block);
    return { block, generated: breaks(block) ? generated.replace('"', "") : generated };
  });
}

function generatedFor(block: ReplyBlock): string {
  if (block.type === "text") return block.text;
  if (block.type === "thinking") return block.thinking;
  return block.type === "tool_use" ? JSON.stringify(block.input === undefined ? {} : block.input) : "";
}

const sizeOf = (drafts: Draft[]): number => drafts.reduce((sum, { generated }) => sum + generated.length, 0);

/** The first `limit` characters of a reply. A block that would begin after them is left out. */
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
function finish(reply: Reply, failure: Failure | undefined, room: { output: number; window: number }) {
  const drafts = draftsOf(reply, failure);
  const last = drafts.at(-1)?.generated ?? "";
  const half = sizeOf(drafts) - Math.ceil(last.length / 2);
  const output = failure?.kind === "max_tokens" ? Math.min(half, room.output) : room.output;
  const window = failure?.kind === "context_window" ? Math.min(half, room.window) : room.window;
  const ending = (stop_reason: Anthropic.StopReason, kept = drafts) => ({ drafts: kept, stop_reason });
  if (sizeOf(drafts) > Math.min(output, window))
    return window < output
      ? ending("model_context_window_exceeded", cut(drafts, window))
      : ending("max_tokens", cut(drafts, output));
  if (failure?.kind === "refusal") return ending("refusal");
  return ending(reply.stop_reason ?? (reply.content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn"));
}

/** The blocks as the client gets them, with ids, and signatures that bind them to all that came before. */
function deliver(drafts: Draft[], isShown: boolean, chain: Chain): Anthropic.ContentBlock[] {
  return drafts.map(({ block, generated }): Anthropic.ContentBlock => {
    if (block.type === "redacted_thinking") return { type: "redacted_thinking", data: sign(chain, "") };
    if (block.type === "thinking") {
      const thinking = isShown ? generated : "";
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
  return {
    input_tokens: prompt.tokens - prompt.read - prompt.written,
    cache_read_input_tokens: prompt.read,
    cache_creation_input_tokens: prompt.written,
    cache_creation: { ephemeral_5m_input_tokens: prompt.written, ephemeral_1h_input_tokens: 0 },
    output_tokens: tokens(drafts), // thinking is paid for whether it is shown or not
    output_tokens_details: { thinking_tokens: tokens(drafts.filter(({ block }) => block.type === "thinking")) },
    inference_geo: null,
    server_tool_use: null,
    service_tier: "standard",
    speed: "standard",
  };
}

// --- the stream ------------------------------------------------------------------------------------------------------

type StreamEvent = Anthropic.RawMessageStreamEvent | { type: "ping" };

/** The events that carry a message, which has one block for each draft. */
function* eventsOf(message: Anthropic.Message, drafts: Draft[]): Generator<StreamEvent> {
  const { stop_reason, stop_sequence, stop_details, container } = message;
  const { cache_creation, inference_geo, service_tier, speed, ...usage } = message.usage;
  const before = { ...message.usage, output_tokens: 1, output_tokens_details: null };
  const opening = { ...message, content: [], stop_reason: null, stop_details: null, usage: before };
  yield { type: "message_start", message: opening };
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

/** What a block holds, in pieces of at most 20 characters. */
function deltasOf(block: Anthropic.ContentBlock, generated: string): Anthropic.RawContentBlockDelta[] {
  const sent = block.type === "thinking" ? block.thinking : generated;
  const pieces = sent.match(/.{1,20}/gsu) ?? []; // never cut inside a surrogate pair
  if (block.type === "text") return pieces.map((text) => ({ type: "text_delta", text }));
  if (block.type === "tool_use") return pieces.map((partial_json) => ({ type: "input_json_delta", partial_json }));
  if (block.type !== "thinking") return [];
  const deltas = pieces.map((thinking) => ({ type: "thinking_delta" as const, thinking }));
  return [...deltas, { type: "signature_delta", signature: block.signature }];
}

const withoutUsage = (key: string, value: unknown) => (key === "usage" ? undefined : value);

const frame = (type: string, data: string): string => `event: ${type}\ndata: ${data}\n\n`;

async function stream(res: ServerResponse, events: StreamEvent[], failure: Failure | undefined, requestId: string) {
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (const [i, event] of events.entries()) {
    if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
    if (res.destroyed) return; // the client has left
    const isHalfway = i === Math.floor(events.length / 2);
    if (isHalfway && failure?.kind === "error_event")
      return void res.end(frame("error", errorBody(new Rejection(529), requestId)));
    const chunk = frame(event.type, JSON.stringify(event, failure?.kind === "no_usage" ? withoutUsage : undefined));
    if (isHalfway && failure?.kind === "drop") return void res.write(chunk, () => res.destroy());
    res.write(chunk);
  }
  res.end();
}

// --- the server ------------------------------------------------------------------------------------------------------

const LARGEST = 32 * 1024 * 1024; // bytes of a body

function parse(body: string): Anthropic.MessageCreateParams {
  try {
    return JSON.parse(body, (key, value) => {
      const isBroken = !key.isWellFormed() || (typeof value === "string" && !value.isWellFormed());
      if (isBroken) throw new Error("no low surrogate in string");
      return value;
    });
  } catch (error) {
    return reject("body is JSON", `The request body is not valid JSON: ${messageOf(error)}`);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

type Settings = Partial<Pick<Server, "model" | "contextLimit" | "countsMaxTokens" | "repeatsIds">>;

/**
 * Starts a Messages API on a free port of 127.0.0.1. `contextLimit` is 200,000 tokens unless set; `charactersPerToken`
 * UTF-16 units make a token. Without a model every valid request fails with a 500.
 */
export async function startServer({
  charactersPerToken = 3,
  ...settings
}: Settings & { charactersPerToken?: number } = {}): Promise<Server> {
  const key = randomBytes(32);
  const cache = new Map<string, number>();
  const failures: Failure[] = [];

  /** Checks the request of a journal entry and has the model answer it. Fills in the entry as far as it gets. */
  function answer(entry: JournalEntry, failure: Failure | undefined, hasBinding: boolean) {
    const { request } = entry;
    checkRequest(request, { hasBinding, repeatsIds: server.repeatsIds });
    const lines = linesOf(request);
    const now = server.now();
    const prompt = lookUp(lines, request.model, cache, now, charactersPerToken);
    entry.promptTokens = prompt.tokens;
    checkSize(prompt.tokens, request, server);
    const binding =
      request.thinking && "block_binding" in request.thinking ? request.thinking.block_binding : undefined;
    const drops = isRecord(binding) && binding.prefix_mismatch_behavior === "drop_block";
    const chain = checkThinking(lines, key, drops);
    const path = (at: string) => ({ type: "thinking_dropped", path: at, reason: "prefix_binding_mismatch" });
    const input_transformations = chain.dropped.map(path);

    const output = charactersPerToken * request.max_tokens;
    const window = charactersPerToken * (server.contextLimit - prompt.tokens);
    const { drafts, stop_reason } = finish(server.model(request), failure, { output, window });
    const isShown = request.thinking?.type === "adaptive" && request.thinking.display === "summarized";
    const content = deliver(drafts, isShown, chain);
    const usage = usageOf(prompt, drafts, charactersPerToken);
    for (const prefix of prompt.keys) cache.set(prefix, now);
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
    if (hasBinding) Object.assign(message, { input_transformations });
    if (server.reportedUsage) Object.assign(message, { usage: server.reportedUsage });
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
      if (Buffer.byteLength(body) > LARGEST) throw new Rejection(413, undefined, "body size");
      if (!req.headers["x-api-key"] && !/^Bearer ./.test(req.headers.authorization ?? ""))
        throw new Rejection(401, "x-api-key header is required", "credential");
      if (!req.headers["anthropic-version"]) reject("version", "anthropic-version: header is required");
      entry.request = parse(body);
      if (failure?.kind === "status") {
        if (failure.retryAfter !== undefined) res.setHeader("retry-after", failure.retryAfter);
        throw new Rejection(failure.status, failure.message);
      }

      const hasBinding = `${req.headers["anthropic-beta"]}`.includes("thinking-binding-controls-2026-08-01");
      const { message, events } = answer(entry, failure, hasBinding);
      if (failure?.kind === "drop" || failure?.kind === "error_event") entry.error = failure.kind;
      if (entry.request.stream) return await stream(res, events, failure, requestId);
      if (failure?.kind === "drop") return void res.destroy();
      if (failure?.kind === "error_event") throw new Rejection(529);
      if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
      const json = JSON.stringify(message, failure?.kind === "no_usage" ? withoutUsage : undefined);
      res.writeHead(200, { "content-type": "application/json" }).end(json);
    } catch (error) {
      const rejection = error instanceof Rejection ? error : new Rejection(500, messageOf(error));
      entry.status = rejection.status;
      entry.error = rejection.message;
      entry.rule = rejection.rule;
      if (rejection !== error) res.setHeader("x-should-retry", "false"); // the model threw; the SDK would ask it again
      if (res.destroyed) return; // the client left before its body was read
      res.writeHead(rejection.status, { "content-type": "application/json" }).end(errorBody(rejection, requestId));
    }
  }

  const http = createServer(respond).listen(0, "127.0.0.1");
  await once(http, "listening");
  const address = http.address();

  const server: Server = {
    url: typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "",
    journal: [],
    model: scripted(),
    contextLimit: 200_000,
    countsMaxTokens: false,
    repeatsIds: false,
    now: Date.now,
    ...settings,
    fail: (...more) => void failures.push(...more),
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}
