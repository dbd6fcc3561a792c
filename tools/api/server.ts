/**
 * The Messages API on your own machine, as strict as the real one, with a function in place of the model. docs/api.md says
 * what it checks and what it ignores.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type Anthropic from "@anthropic-ai/sdk";
import { BINDING_BETA, readBetas } from "./betas.ts";
import { type Cache, countPrompt, lookUp } from "./cache.ts";
import type { Failure } from "./failures.ts";
import { promptLines } from "./prompt.ts";
import { errorBody, Rejection, type Rule, reject } from "./rejection.ts";
import {
  countUsage,
  type Draft,
  draftReply,
  eventsOf,
  finishBlocks,
  newId,
  type Reply,
  type ReplyBlock,
  type StreamEvent,
} from "./replies.ts";
import { checkRequest } from "./rules.ts";
import { checkThinking, dropsInvalid } from "./thinking.ts";

export type { Failure, Reply, ReplyBlock };

// --- interface -------------------------------------------------------------------------------------------------------

/** A function from a request to a reply. If it throws, the request fails with a 500 and that message. */
export type Model = (request: Anthropic.MessageCreateParams) => Reply;

export type JournalEntry = {
  /** The body as it was sent, whatever its shape, or an empty request if it isn't JSON. */
  request: Anthropic.MessageCreateParams;
  /** The HTTP status, which is 200 for a stream that broke. */
  status: number;
  error?: string;
  /** The rule that the request broke. */
  rule?: Rule;
  /** The size of the whole prompt, cached or not, or 0 if the request was rejected before it was counted. */
  promptTokens: number;
  /** The true usage, even if `reportedUsage` is set. */
  usage?: Anthropic.Usage;
  /** All blocks, even if the stream broke before their end. A call that was cut has an empty input. */
  reply?: Anthropic.ContentBlock[];
  stop_reason?: Anthropic.StopReason;
};

/** A running server. Any field except `url` and `journal` may be changed between requests. */
export type Server = {
  /** The value for `ANTHROPIC_BASE_URL`. */
  url: string;
  /** Every request to /v1/messages in order of arrival, including rejected ones. */
  journal: JournalEntry[];
  model: Model;
  /** The context window in tokens, 200,000 by default. */
  contextLimit: number;
  /** Sent instead of the true usage, as some compatible servers report 1 token, or `{}`. */
  reportedUsage?: Partial<Anthropic.Usage>;
  /** Queues failures. Each request uses up one, even if it is rejected for another reason. */
  fail(...failures: Failure[]): void;
  /** Also ends open connections. */
  close(): Promise<void>;
};

/** Returns a model that gives these replies in order, and throws when none is left. */
export function scripted(...replies: Reply[]): Model {
  let used = 0;
  return () => {
    const reply = replies[used++];
    if (!reply) throw new Error(`the script has run out: request ${used}, but only ${replies.length} replies`);
    return reply;
  };
}

// --- the answer to a request -----------------------------------------------------------------------------------------

/** State shared by all requests. */
type State = { server: Server; key: Buffer; cache: Cache; charactersPerToken: number };

type Answer = { message: Anthropic.Message; drafts: Draft[] };

/** Checks the request of a journal entry and has the model answer it. Fills in the entry along the way. */
function answer(entry: JournalEntry, failure: Failure | undefined, betas: string[], state: State): Answer {
  const { server, key, cache, charactersPerToken } = state;
  const { request } = entry;
  checkRequest(request, betas);
  const lines = promptLines(request);
  const now = Date.now();
  const prompt = lookUp(lines, request.model, cache, now, charactersPerToken);
  entry.promptTokens = prompt.tokens;
  if (prompt.tokens > server.contextLimit)
    reject("prompt too long", `prompt is too long: ${prompt.tokens} tokens > ${server.contextLimit} maximum`);
  const chain = checkThinking(lines, key, dropsInvalid(request));

  const output = charactersPerToken * request.max_tokens;
  const window = charactersPerToken * (server.contextLimit - prompt.tokens);
  const { drafts, stop_reason } = draftReply(server.model(request), failure?.kind, { output, window });
  const isShown = request.thinking?.type === "adaptive" && request.thinking.display === "summarized";
  const content = finishBlocks(drafts, isShown, chain);
  const usage = countUsage(prompt, drafts, charactersPerToken);
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
  const transformed = (path: string) => ({ type: "thinking_dropped", path, reason: "prefix_binding_mismatch" });
  if (betas.includes(BINDING_BETA)) Object.assign(message, { input_transformations: chain.dropped.map(transformed) });
  if (server.reportedUsage) Object.assign(message, { usage: server.reportedUsage });
  return { message, drafts };
}

// --- HTTP ------------------------------------------------------------------------------------------------------------

const LARGEST = 32 * 1024 * 1024; // bytes of a body

function checkHeaders(headers: IncomingMessage["headers"]): void {
  if (!headers["x-api-key"] && !/^Bearer ./.test(headers.authorization ?? ""))
    throw new Rejection(401, "x-api-key header is required", "credential");
  if (!headers["anthropic-version"]) reject("version", "anthropic-version: header is required");
}

function parseBody(body: string): Anthropic.MessageCreateParams {
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

function readRequest({ headers }: IncomingMessage, body: string): Anthropic.MessageCreateParams {
  if (Buffer.byteLength(body) > LARGEST) throw new Rejection(413, undefined, "body size");
  checkHeaders(headers);
  return parseBody(body);
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A request and its response. */
type Exchange = { req: IncomingMessage; res: ServerResponse; requestId: string; entry: JournalEntry };

async function handle(exchange: Exchange, failures: Failure[], state: State): Promise<void> {
  const { req, res, entry } = exchange;
  const path = req.url?.split("?")[0];
  if (req.method === "POST" && path === "/v1/messages/count_tokens") return await countTokens(exchange, state);
  if (req.method !== "POST" || path !== "/v1/messages") throw new Rejection(404);
  const body = await text(req);
  state.server.journal.push(entry);
  const failure = failures.shift();
  entry.request = readRequest(req, body);
  if (failure?.kind === "status") {
    if (failure.retryAfter !== undefined) res.setHeader("retry-after", failure.retryAfter);
    throw new Rejection(failure.status, failure.message);
  }
  const { message, drafts } = answer(entry, failure, readBetas(req.headers["anthropic-beta"]), state);
  if (failure?.kind === "drop" || failure?.kind === "error_event") entry.error = failure.kind;
  if (entry.request.stream) await sendEvents(exchange, [...eventsOf(message, drafts)], failure);
  else await sendMessage(res, message, failure);
}

async function countTokens({ req, res, entry }: Exchange, { charactersPerToken }: State): Promise<void> {
  entry.request = readRequest(req, await text(req));
  checkRequest(entry.request, readBetas(req.headers["anthropic-beta"]), true);
  entry.promptTokens = countPrompt(promptLines(entry.request), charactersPerToken);
  sendJson(res, 200, JSON.stringify({ input_tokens: entry.promptTokens }));
}

const sendJson = (res: ServerResponse, status: number, body: string) =>
  res.writeHead(status, { "content-type": "application/json" }).end(body);
const asEvent = (type: string, data: string): string => `event: ${type}\ndata: ${data}\n\n`;

async function sendEvents({ res, requestId }: Exchange, events: StreamEvent[], failure?: Failure): Promise<void> {
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (const [i, event] of events.entries()) {
    if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
    if (res.destroyed) return; // the client has left
    const isHalfway = i === Math.floor(events.length / 2);
    if (isHalfway && failure?.kind === "error_event")
      return void res.end(asEvent("error", errorBody(new Rejection(529), requestId)));
    const chunk = asEvent(event.type, JSON.stringify(event));
    if (isHalfway && failure?.kind === "drop") return void res.write(chunk, () => res.destroy());
    res.write(chunk);
  }
  res.end();
}

async function sendMessage(res: ServerResponse, message: Anthropic.Message, failure?: Failure): Promise<void> {
  if (failure?.kind === "drop") return void res.destroy();
  if (failure?.kind === "error_event") throw new Rejection(529);
  if (failure?.kind === "slow") await sleep(failure.delay, undefined, { ref: false });
  sendJson(res, 200, JSON.stringify(message));
}

function sendError({ res, requestId, entry }: Exchange, error: unknown): void {
  const isModelError = !(error instanceof Rejection);
  const rejection = isModelError ? new Rejection(500, messageOf(error)) : error;
  entry.status = rejection.status;
  entry.error = rejection.message;
  entry.rule = rejection.rule;
  if (isModelError) res.setHeader("x-should-retry", "false"); // or the SDK would call the model again
  if (res.destroyed) return; // the client left before its body was read
  sendJson(res, rejection.status, errorBody(rejection, requestId));
}

type Settings = Partial<Pick<Server, "model" | "contextLimit">> & {
  /** UTF-16 units, 3 by default. */
  charactersPerToken?: number;
  /** Any free port by default. */
  port?: number;
  /** Called with each request once it's answered. `asked` is its method and URL. */
  onAnswer?: (entry: JournalEntry, asked: string) => void;
};

/** Starts a Messages API on 127.0.0.1. Without a model, each valid request fails with a 500. */
export async function startServer(options: Settings = {}): Promise<Server> {
  const { charactersPerToken = 3, port = 0, onAnswer, ...settings } = options;
  const failures: Failure[] = [];
  const http = createServer(async (req, res) => {
    const entry: JournalEntry = { request: { model: "", max_tokens: 0, messages: [] }, status: 200, promptTokens: 0 };
    const exchange = { req, res, requestId: newId("req_"), entry };
    res.setHeader("request-id", exchange.requestId);
    await handle(exchange, failures, state).catch((error) => sendError(exchange, error));
    onAnswer?.(entry, `${req.method} ${req.url}`);
  });
  http.keepAliveTimeout = 0; // or a busy machine closes an idle connection while its client sends the next request
  http.listen(port, "127.0.0.1");
  await once(http, "listening");
  const address = http.address();

  const server: Server = {
    url: typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "",
    journal: [],
    model: scripted(),
    contextLimit: 200_000,
    ...settings,
    fail: (...more) => void failures.push(...more),
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  const state: State = { server, key: randomBytes(32), cache: new Map(), charactersPerToken };
  return server;
}
