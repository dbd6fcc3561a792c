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
import { CHARS_PER_TOKEN } from "../constants.ts";
import { readBetas } from "./betas.ts";
import { type Body, bodyOf, plainBody } from "./body.ts";
import { type Cache, priceOf } from "./cache.ts";
import { errorBody, Rejection, type Rule, reject } from "./errors.ts";
import type { Failure } from "./failures.ts";
import { promptLines } from "./prompt.ts";
import type { Quirk } from "./quirks.ts";
import { draftReply, finishBlocks, messageOf, newId, type Reply, type ReplyBlock, usageOf } from "./replies.ts";
import { type ParsedRequest, parseJson, parseRequest } from "./request.ts";
import { checkRules } from "./rules.ts";
import { checkThinking } from "./thinking.ts";

export type { Failure, Reply, ReplyBlock };

const LARGEST = 32 * 1024 * 1024; // bytes of a body

/** A function from a request, as the client sent it, to a reply. If it throws, the request fails with a 500 and that message. */
export type Model = (request: Anthropic.MessageCreateParams) => Reply;

export type JournalEntry = {
  /** The body as it was sent, whatever its shape, or an empty request if it isn't JSON. */
  request: Anthropic.MessageCreateParams;
  /** The HTTP status, which is 200 for a stream that broke. */
  status: number;
  error?: string;
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
  /** Returns the time in milliseconds, by which cache entries live. That of the process by default. */
  clock: () => number;
  /** Sent instead of the true usage, as some compatible servers report 1 token, or `{}`. */
  reportedUsage?: Partial<Anthropic.Usage>;
  /** What it does as other servers do: see quirks.ts. None by default. */
  quirks: Quirk[];
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

type Settings = Partial<Pick<Server, "model" | "contextLimit">> & {
  /** Any free port by default. */
  port?: number;
  /** Called with each request once it's answered. `asked` is its method and URL. */
  onAnswer?: (entry: JournalEntry, asked: string) => void;
};

/** Starts a Messages API on 127.0.0.1. Without a model, each valid request fails with a 500. */
export async function startServer({ port = 0, onAnswer, ...settings }: Settings = {}): Promise<Server> {
  const failures: Failure[] = [];
  const http = createServer(async (req, res) => {
    const entry: JournalEntry = { request: { model: "", max_tokens: 0, messages: [] }, status: 200, promptTokens: 0 };
    const exchange = { req, res, requestId: newId("req_"), entry };
    res.setHeader("request-id", exchange.requestId);
    await handle(exchange, state).catch((error) => sendError(exchange, error, server.quirks));
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
    clock: () => Date.now(),
    quirks: [],
    ...settings,
    fail: (...more) => void failures.push(...more),
    async close() {
      http.closeAllConnections();
      await once(http.close(), "close");
    },
  };
  const state: State = { server, failures, key: randomBytes(32), cache: new Map() };
  return server;
}

type State = { server: Server; failures: Failure[]; key: Buffer; cache: Cache };
type Exchange = { req: IncomingMessage; res: ServerResponse; requestId: string; entry: JournalEntry };

/** Takes a request through every step: parse, price, ask, finish, send. Throws a Rejection if it breaks a rule. */
async function handle({ req, res, requestId, entry }: Exchange, state: State): Promise<void> {
  const { server, failures, key, cache } = state;
  const path = req.url?.split("?")[0];
  const isCount = path === "/v1/messages/count_tokens";
  if (req.method !== "POST" || !(isCount || path === "/v1/messages")) throw new Rejection(404);
  const sent = await text(req);
  if (!isCount) server.journal.push(entry);
  const failure = isCount ? undefined : failures.shift();

  checkHeaders(req.headers, sent);
  entry.request = parseJson(sent);
  if (failure?.kind === "status") {
    if (failure.retryAfter !== undefined) res.setHeader("retry-after", failure.retryAfter);
    throw new Rejection(failure.status, failure.message);
  }
  const request = parseRequest(entry.request, readBetas(req.headers["anthropic-beta"]), isCount);
  checkRules(request);

  const lines = promptLines(request);
  const price = priceOf(lines, request.model, cache, server.clock());
  entry.promptTokens = price.tokens;
  if (isCount) return send(res, plainBody({ input_tokens: price.tokens }));
  checkSize(request, price.tokens, server);
  const chain = checkThinking(server.quirks.length === 0 ? lines : [], key, request.thinking);

  const window = server.contextLimit - price.tokens;
  const room = { output: CHARS_PER_TOKEN * request.max_tokens, window: CHARS_PER_TOKEN * window };
  const { drafts, stop_reason } = draftReply(server.model(entry.request), room, failure);
  for (const [prefix, cached] of price.entries) cache.set(prefix, cached);
  const content = finishBlocks(drafts, request, chain);
  const usage = usageOf(price, drafts);
  Object.assign(entry, { reply: content, stop_reason, usage });

  const message = messageOf(request.model, { content, stop_reason, usage });
  if (server.reportedUsage) Object.assign(message, { usage: server.reportedUsage });
  const body = bodyOf({ message, drafts, isStream: request.stream }, requestId, failure);
  entry.error = body.error;
  return send(res, body);
}

function checkSize(request: ParsedRequest, tokens: number, { contextLimit, quirks }: Server): void {
  const reason = quirks.map(({ refuses }) => refuses?.(request, tokens, contextLimit)).find(Boolean);
  if (reason) throw new Rejection(400, reason);
  if (tokens > contextLimit) reject("prompt too long", `${tokens}`, `${contextLimit}`);
}

function checkHeaders(headers: IncomingMessage["headers"], body: string): void {
  if (Buffer.byteLength(body) > LARGEST) reject("body size");
  if (!headers["x-api-key"] && !/^Bearer ./.test(headers.authorization ?? "")) reject("credential");
  if (!headers["anthropic-version"]) reject("version");
}

async function send(res: ServerResponse, { type, chunks, delay, breaks }: Body): Promise<void> {
  for (const chunk of chunks) {
    if (delay !== undefined) await sleep(delay, undefined, { ref: false });
    if (res.destroyed) return; // the client has left
    if (!res.headersSent) res.writeHead(200, { "content-type": type, "cache-control": "no-cache" });
    res.write(chunk);
  }
  if (breaks) res.socket?.destroySoon();
  else res.end();
}

function sendError({ res, requestId, entry }: Exchange, error: unknown, quirks: Quirk[]): void {
  const isModelError = !(error instanceof Rejection);
  const rejection = isModelError ? new Rejection(500, error instanceof Error ? error.message : String(error)) : error;
  const { status, message, rule } = rejection;
  Object.assign(entry, { status, error: message, rule });
  if (isModelError) res.setHeader("x-should-retry", "false"); // or the SDK would call the model again
  if (res.destroyed) return; // the client left before its body was read
  const body = quirks.find(({ says }) => says)?.says?.(message) ?? errorBody(rejection, requestId);
  res.writeHead(status, { "content-type": body.startsWith("<") ? "text/html" : "application/json" }).end(body);
}
