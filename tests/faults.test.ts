// What goes wrong with the API and with the model, by one table for all lessons. After each fault the history is valid,
// nothing is lost, the requests are as few as they should be, and the person is told in one line.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import { text as bodyOf } from "node:stream/consumers";
import { after, describe, mock, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Reply, type Server, scripted, startServer } from "../offline/server.ts";
import { folder, load, server, start, until } from "./harness.ts";
import { answer, say, use, user } from "./replies.ts";

type Messages = Anthropic.MessageParam[];

// The way to the server, and what can go wrong on it.

/** What becomes of a request on its way; `answer` has the server answer it and returns the whole stream. */
type Way = (res: ServerResponse, answer: () => Promise<string>) => void;
/** What the server does or what happens on the way; nothing lets the request through. */
type Fault = Failure | Way | undefined;

/** A server in front of the strict one that does to each request what is next in `faults`. */
async function startWay(behind: Server) {
  const faults: Fault[] = [];
  const count = { requests: 0, answers: 0 };
  const http = createServer(async (req, res) => {
    const body = await bodyOf(req);
    count.requests++;
    res.on("finish", () => count.answers++);
    const fault = faults.shift();
    const pass = () => {
      if (fault && typeof fault !== "function") behind.fail(fault);
      const headers = { "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "test" };
      return fetch(`${behind.url}${req.url}`, { method: "POST", headers, body });
    };
    if (typeof fault === "function") return fault(res, async () => (await pass()).text());
    const answered = await pass();
    for (const name of ["content-type", "retry-after"]) res.setHeader(name, answered.headers.get(name) ?? "");
    res.writeHead(answered.status).end(await answered.text());
  }).listen(0, "127.0.0.1");
  await once(http, "listening");
  const address = http.address();
  const close = () => {
    http.close();
    http.closeAllConnections();
  };
  const url = typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "";
  return { url, faults, count, close };
}

const status = (code: 400 | 401 | 429 | 500 | 529, message?: string): Failure => {
  return { kind: "status", status: code, message, retryAfter: 0.01 };
};
const TOO_LONG = status(400, "prompt is too long: 210000 tokens > 200000 maximum");
const CUT: Failure = { kind: "max_tokens" };
const FULL: Failure = { kind: "context_window" };
const REFUSAL: Failure = { kind: "refusal" };
const ERROR_EVENT: Failure = { kind: "error_event" };

/** An answer that is not from the server. */
const foreign =
  (code: number, text: string, retryAfter = 0.01): Way =>
  (res) =>
    void res.writeHead(code, { "content-type": "text/html", "retry-after": `${retryAfter}` }).end(text);
/** The server's answer, changed on its way. */
const changed =
  (change: (text: string) => string): Way =>
  async (res, answer) =>
    void res.writeHead(200, { "content-type": "text/event-stream" }).end(change(await answer()));
/** The server's answer up to there; then the connection breaks, or nothing more comes. */
const begun =
  (end: (text: string) => number, then: "breaks" | "stalls" = "breaks"): Way =>
  async (res, answer) => {
    const text = await answer();
    res.writeHead(200, { "content-type": "text/event-stream" });
    res.write(text.slice(0, end(text)), () => then === "breaks" && res.destroy());
  };
const half = (text: string) => text.length / 2;
const beforeEnd = (text: string) => text.lastIndexOf("event: message_delta");

const PAGE = `<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n${"<p>nginx</p>\n".repeat(200)}</html>`;
const page = foreign(502, PAGE);
const welcome = foreign(200, PAGE);
const bare = foreign(503, "");
const inAnHour = foreign(429, "", 3600);
const tooLarge = foreign(
  413,
  '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
);
const reset: Way = (res) => void res.destroy();
const drop = begun(half);
const dropAfterCall = begun(beforeEnd);
const stall = begun(half, "stalls");
const noEnd = changed((text) => text.slice(0, beforeEnd(text)));
const notJson = changed((text) => text.replace(/data: (?=\{"type":"content_block_delta")/, "data: \x1b[2J"));
const badCall = changed((text) => text.replace('"partial_json":"{', '"partial_json":"{nonsense,'));
/** Servers that only speak the API's language may count nothing. */
const noUsage = changed((text) =>
  text.replace(
    /^data: (.*)$/gm,
    (_, data) => `data: ${JSON.stringify(JSON.parse(data), (key, value) => (key === "usage" ? {} : value))}`,
  ),
);

const times = <T>(count: number, each: T): T[] => Array.from({ length: count }, () => each);
/** As often as the SDK tries. */
const toTheEnd = (fault: Fault) => times(3, fault);

// Replies and histories.

const call = (...commands: string[]): Reply => ({ content: commands.map((command) => use("bash", { command })) });
const thinking: Reply = { content: [{ type: "thinking", thinking: "hm" }] };

/** About 4,700 tokens with system and tools. */
const TALK: Messages = [user("tell me"), answer("a word ".repeat(2_000)), user("more"), answer("done")];
const REQUEST = "count the files";
const RESULT = "result-of-the-round";

const write = call("echo once >> log; echo and some words more");
const wroteOnce = () => assert.equal(readFileSync("log", "utf8"), "once\n");
const notRun = (messages: Messages) => [wroteNothing(), tells(/: not run: the reply reached its limit/)(messages)];
const wroteNothing = () =>
  assert.deepEqual(
    readdirSync(folder).filter((name) => name !== ".transcripts"),
    [],
  );
const fine = [say("fine")];
const task: Reply = { content: [use("task", { prompt: "Think." })] };
/** The last result says this. */
const tells = (what: RegExp) => (messages: Messages) => {
  const blocks = messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
  assert.match(String(blocks.findLast((block) => block.type === "tool_result")?.content), what);
};

// The table. Each row is a turn that has a round behind it when the fault comes.

type Row = {
  fault: string;
  /** Of the requests after the round, in their order; where there is none, they go through. */
  faults?: Fault[];
  replies?: Reply[];
  /** How the turn ends, or the error that is thrown. */
  ends: string | { status?: number; says: RegExp };
  /** Requests after the round. */
  requests: number;
  /** What the loop itself tells the person, line by line. */
  told?: RegExp[];
  /** The person presses Ctrl-C as soon as this is so. */
  stopWhen?: () => boolean;
  /** The turn leaves the history. */
  dropped?: true;
  /** A compaction has replaced the round; it is in the transcript. */
  forgotten?: true;
  /** What else is to be so. */
  also?: (messages: Messages) => void;
  /** The lessons that this is about, by their names; all of them if left out. */
  only?: RegExp;
};
/** A row for s06, with much said before and the limits that it needs. */
type LongRow = Row & { limits: Record<string, string> };

const BROKE = /^\[the reply broke off \(.+\); trying once more\]$/;
const REFUSED = /^\[the model refused; this request is taken out of the conversation\]$/;

/** Of faults that the same code meets in all lessons, the first and the last. */
const ENDS = /s01|s06/;
/** Those that cannot compact. */
const SHORT = /s0[1-5]/;
/** Those that have subagents. */
const PARENTS = /s0[4-6]/;

// biome-ignore format: a table
const ROWS: Row[] = [
  // The API answers with an error.
  { fault: "401", faults: [status(401)], ends: { status: 401, says: /^invalid x-api-key$/ }, requests: 1 },
  { fault: "429 with retry-after, once", faults: [status(429)], replies: fine, ends: "done", requests: 2 },
  { fault: "529 to the end", faults: toTheEnd(status(529)), ends: { status: 529, says: /^Overloaded$/ }, requests: 3 },
  { fault: "500 to the end", faults: toTheEnd(status(500)), ends: { status: 500, says: /^Internal/ }, requests: 3, only: ENDS },
  { fault: "400", faults: [status(400, "no good")], ends: { status: 400, says: /^no good$/ }, requests: 1 },
  { fault: "a page of a proxy's", faults: toTheEnd(page), ends: { status: 502, says: /Bad Gateway/ }, requests: 3, only: ENDS },
  { fault: "an error without a body", faults: toTheEnd(bare), ends: { status: 503, says: /no body/ }, requests: 3, only: ENDS },
  { fault: "429 for an hour, and Ctrl-C", faults: [inAnHour], ends: "interrupted", requests: 1, stopWhen: () => way.count.answers === 2, only: ENDS },
  { fault: "a prompt that is too long", faults: [TOO_LONG], ends: { status: 400, says: /^prompt is too long/ }, requests: 1, only: SHORT },
  { fault: "a prompt that is too large", faults: [tooLarge], ends: { status: 413, says: /^Request exceeds/ }, requests: 1, only: /s01/ },

  // The connection.
  { fault: "a connection that breaks before the reply", faults: [reset], replies: fine, ends: "done", requests: 2, only: ENDS },
  { fault: "no connection to the end", faults: toTheEnd(reset), ends: { says: /^Connection error/ }, requests: 3, only: ENDS },
  { fault: "a stream that breaks", faults: [drop], replies: [write, write, ...fine], ends: "done", requests: 3, told: [BROKE], also: wroteOnce },
  { fault: "a stream that breaks twice", faults: [drop, drop], replies: [write, write], ends: { says: /terminated/ }, requests: 2, told: [BROKE], also: wroteNothing },
  { fault: "a stream that breaks after a whole call", faults: [dropAfterCall], replies: [write, write, ...fine], ends: "done", requests: 3, told: [BROKE], also: wroteOnce, only: ENDS },
  { fault: "a stream that breaks, then 529 to the end", faults: [drop, ...toTheEnd(status(529))], replies: [write], ends: { status: 529, says: /^Overloaded$/ }, requests: 4, told: [BROKE], also: wroteNothing, only: ENDS },
  { fault: "streams without an end", faults: [noEnd, noEnd], replies: [write, write], ends: { says: /stream ended/ }, requests: 2, told: [BROKE], also: wroteNothing, only: ENDS },
  { fault: "an error event", faults: [ERROR_EVENT], replies: [write, write, ...fine], ends: "done", requests: 3, told: [BROKE], also: wroteOnce, only: ENDS },
  { fault: "two error events", faults: [ERROR_EVENT, ERROR_EVENT], replies: [write, write], ends: { says: /^Overloaded$/ }, requests: 2, told: [BROKE], also: wroteNothing, only: ENDS },
  { fault: "streams that are no JSON", faults: [notJson, notJson], replies: [write, write], ends: { says: /JSON/ }, requests: 2, told: [BROKE], also: wroteNothing, only: ENDS },
  { fault: "calls that are no JSON", faults: [badCall, badCall], replies: [write, write], ends: { says: /JSON/ }, requests: 2, told: [BROKE], only: ENDS, also: wroteNothing },
  { fault: "a page in the place of a stream", faults: [welcome, welcome], ends: { says: /without sending any chunks/ }, requests: 2, told: [BROKE], only: ENDS },
  { fault: "a stream that stalls, and Ctrl-C", faults: [stall], replies: [say("word ".repeat(100))], ends: "interrupted", requests: 1, stopWhen: () => screen.includes("word") },

  // The model.
  { fault: "a call that max_tokens cuts", faults: [CUT], replies: [write, ...fine], ends: "done", requests: 2, also: notRun },
  { fault: "a call that max_tokens ends", replies: [{ ...write, stop_reason: "max_tokens" }, ...fine], ends: "done", requests: 2, also: notRun },
  { fault: "three calls that max_tokens cuts", faults: times(3, CUT), replies: times(3, write), ends: "cut off", requests: 3, also: wroteNothing, only: ENDS },
  { fault: "a text that max_tokens cuts", faults: [CUT], replies: [say("0123456789")], ends: "cut off", requests: 1, only: ENDS },
  { fault: "a text that fills the window", faults: [FULL], replies: [say("0123456789")], ends: "cut off", requests: 1, only: SHORT },
  { fault: "a call that fills the window", faults: [FULL], replies: [write, ...fine], ends: "done", requests: 2, only: SHORT, also: notRun },
  { fault: "a refusal", faults: [REFUSAL], replies: [write], ends: "refused", requests: 1, told: [REFUSED], dropped: true, also: wroteNothing },
  { fault: "an empty reply", replies: [{ content: [] }], ends: "done", requests: 1 },
  { fault: "a reply of thinking alone", replies: [thinking], ends: "done", requests: 1, only: ENDS },
  { fault: "thinking alone that max_tokens cuts", faults: [CUT], replies: [thinking], ends: "cut off", requests: 1, only: ENDS },
  { fault: "blank text beside a call", faults: [{ kind: "blank_text" }], replies: [write, ...fine], ends: "done", requests: 2, also: wroteOnce },
  { fault: "replies without usage", faults: [noUsage, noUsage], replies: [write, ...fine], ends: "done", requests: 2, also: wroteOnce, only: ENDS },

  // A subagent meets it.
  { fault: "429 in a subagent", faults: [undefined, status(429)], replies: [task, say("42"), ...fine], ends: "done", requests: 4, only: PARENTS, also: tells(/^42$/) },
  { fault: "401 in a subagent", faults: [undefined, status(401)], replies: [task, ...fine], ends: "done", requests: 3, only: PARENTS, also: tells(/not done: API error 401: invalid x-api-key/) },
  { fault: "a stream that breaks twice in a subagent", faults: [undefined, drop, drop], replies: [task, write, write, ...fine], ends: "done", requests: 4, told: [BROKE], only: PARENTS, also: (messages) => [tells(/not done: error: terminated/)(messages), wroteNothing()] },
  { fault: "a refusal in a subagent", faults: [undefined, undefined, REFUSAL], replies: [task, call("echo working"), write, ...fine], ends: "done", requests: 4, told: [REFUSED], only: PARENTS, also: (messages) => [tells(/not done: refused/)(messages), wroteNothing()] },
  { fault: "a subagent that stalls, and Ctrl-C", faults: [undefined, stall], replies: [task, say("word ".repeat(100))], ends: "interrupted", requests: 2, stopWhen: () => screen.includes("word"), only: PARENTS, also: tells(/interrupted/) },
];

const TRIGGERED = /^\[auto_compact triggered\]$/;
const SAVED = /^\[transcript saved: \.transcripts\/transcript_\d+_\d+\.jsonl\]$/;
const failed = (why: string) => new RegExp(`^\\[compaction failed: ${why}\\]$`);
const COMPACTED = [TRIGGERED, SAVED];
/** Compacts before the second call of the turn, or when the API demands it. */
const EARLY = { COMPACT_TURN_THRESHOLD: "4000", COMPACT_THRESHOLD: "100000" };
const LATE = { COMPACT_THRESHOLD: "100000" };
const isTooLong = { status: 400, says: /^prompt is too long/ };
const summary = [say("A summary.")];
const hasSummary = (messages: Messages) => assert.match(JSON.stringify(messages[0]), /A summary\./);
const hasNoSummary = (messages: Messages) => assert.match(JSON.stringify(messages[0]), /There is no summary/);
const isWhole = (messages: Messages) => assert.deepEqual(messages.slice(0, TALK.length), TALK);
const compact: Reply = { content: [use("compact", {})] };
const MUCH = call(
  ...Array.from({ length: 10 }, (_, i) => `echo ${i}-begins; head -c 6400 /dev/zero | tr '\\0' x; echo ${i}-ends`),
);
/** All that the ten calls printed is in the history or in a file. */
const hasMuch = (messages: Messages) => {
  const files = readdirSync(".transcripts/outputs").map((name) => join(".transcripts/outputs", name));
  const held = [JSON.stringify(messages), ...files.map((file) => readFileSync(file, "utf8"))].join("\n");
  for (let i = 0; i < 10; i++) assert.match(held, new RegExp(`${i}-begins(\\n|\\\\n)x{6400}${i}-ends`));
};

// biome-ignore format: a table
const LONG_ROWS: LongRow[] = [
  // A compaction because the limit is passed, and a fault in it.
  { fault: "a limit that is passed", limits: EARLY, replies: [...summary, ...fine], ends: "done", requests: 2, told: COMPACTED, also: hasSummary },
  { fault: "529 to the end in the summary call", limits: EARLY, faults: toTheEnd(status(529)), replies: fine, ends: "done", requests: 4, told: [TRIGGERED, failed("API error 529: Overloaded")], also: isWhole },
  { fault: "401 in the summary call and after it", limits: EARLY, faults: [status(401), status(401)], ends: { status: 401, says: /^invalid x-api-key$/ }, requests: 2, told: [TRIGGERED, failed("API error 401: invalid x-api-key")], also: isWhole },
  { fault: "a summary that breaks off", limits: EARLY, faults: [drop], replies: [...summary, ...summary, ...fine], ends: "done", requests: 3, told: [TRIGGERED, BROKE, SAVED] },
  { fault: "a summary that breaks off twice", limits: EARLY, faults: [drop, drop], replies: [...summary, ...summary, ...fine], ends: "done", requests: 3, told: [TRIGGERED, BROKE, failed("error: terminated")], also: isWhole },
  { fault: "a summary that is empty", limits: EARLY, replies: [{ content: [] }, ...fine], ends: "done", requests: 2, told: [TRIGGERED, failed("error: the summary is empty")], also: isWhole },
  { fault: "a summary that is cut off", limits: EARLY, faults: [CUT], replies: [...summary, ...fine], ends: "done", requests: 2, told: [TRIGGERED, failed("error: the summary ended with max_tokens")], also: isWhole },
  { fault: "a summary that calls a tool", limits: EARLY, replies: [write, ...fine], ends: "done", requests: 2, told: [TRIGGERED, failed("error: the summary ended with tool_use")], also: (messages) => [isWhole(messages), wroteNothing()] },
  { fault: "a summary that is refused", limits: EARLY, faults: [REFUSAL], replies: [...summary, ...fine], ends: "done", requests: 2, told: [TRIGGERED, failed("error: the summary ended with refusal")], also: isWhole },
  { fault: "a prompt that is too long for its summary", limits: EARLY, faults: [TOO_LONG], replies: [...summary, ...fine], ends: "done", requests: 3, told: COMPACTED },
  { fault: "a prompt that is too long for any summary", limits: EARLY, faults: [TOO_LONG, TOO_LONG], replies: fine, ends: "done", requests: 3, told: COMPACTED, also: hasNoSummary },
  { fault: "a summary that stalls, and Ctrl-C", limits: EARLY, faults: [stall], replies: summary, ends: "interrupted", requests: 1, told: [TRIGGERED], stopWhen: () => server.journal[1]?.reply !== undefined, also: isWhole },
  { fault: "a refusal after a compaction in the turn", limits: EARLY, faults: [undefined, REFUSAL], replies: [...summary, write], ends: "refused", requests: 2, told: [...COMPACTED, REFUSED], dropped: true, also: (messages) => [wroteNothing(), hasSummary(messages)] },

  // A compaction because the API demands it, and a fault in it.
  { fault: "a prompt that is too long", limits: LATE, faults: [TOO_LONG], replies: [...summary, ...fine], ends: "done", requests: 3, told: COMPACTED, also: hasSummary },
  { fault: "a prompt that is too large", limits: LATE, faults: [tooLarge], replies: [...summary, ...fine], ends: "done", requests: 3, told: COMPACTED },
  { fault: "a prompt that is too large for any summary", limits: LATE, faults: [tooLarge, tooLarge], replies: fine, ends: "done", requests: 3, told: COMPACTED, also: hasNoSummary },
  { fault: "a prompt that stays too long", limits: LATE, faults: [TOO_LONG, TOO_LONG, TOO_LONG], ends: isTooLong, requests: 3, told: COMPACTED, also: hasNoSummary },
  { fault: "a prompt that is too long, and an empty summary", limits: LATE, faults: [TOO_LONG], replies: [{ content: [] }], ends: isTooLong, requests: 2, told: [TRIGGERED, failed("error: the summary is empty")], also: isWhole },
  { fault: "a stream that breaks, a prompt that is too long, and 529 for its summary", limits: LATE, faults: [drop, TOO_LONG, ...toTheEnd(status(529))], replies: [write], ends: isTooLong, requests: 5, told: [BROKE, TRIGGERED, failed("API error 529: Overloaded")], also: isWhole },
  { fault: "a reply that fills the window", limits: LATE, faults: [FULL], replies: [write, ...summary, ...fine], ends: "done", requests: 3, told: COMPACTED, also: wroteNothing },
  { fault: "replies that fill the window", limits: LATE, faults: [FULL, undefined, FULL], replies: [write, ...summary, write], ends: "cut off", requests: 3, told: COMPACTED, also: wroteNothing },
  { fault: "three calls that max_tokens cuts, and a compaction between them", limits: LATE, faults: [CUT, TOO_LONG, undefined, CUT, CUT], replies: [write, ...summary, write, write], ends: "cut off", requests: 5, told: COMPACTED, forgotten: true, also: wroteNothing },
  { fault: "a prompt that is too long in a subagent, and 529 for its summary", limits: LATE, faults: [undefined, undefined, undefined, TOO_LONG, ...toTheEnd(status(529))], replies: [task, call("echo one"), call("echo two"), ...fine], ends: "done", requests: 8, told: [TRIGGERED, failed("API error 529: Overloaded")], also: (messages) => [tells(/not done: API error 400: prompt is too long/)(messages), isWhole(messages)] },
  { fault: "a compaction that the model asked for, and 529", limits: LATE, faults: [undefined, ...toTheEnd(status(529))], replies: [compact, ...fine], ends: "done", requests: 5, told: [/^\[manual compact\]$/, failed("API error 529: Overloaded")], also: isWhole },
  { fault: "a compaction that the model asked for, and a refusal", limits: LATE, faults: [undefined, undefined, REFUSAL], replies: [compact, ...summary, write], ends: "refused", requests: 3, told: [/^\[manual compact\]$/, SAVED, REFUSED], dropped: true, also: (messages) => [wroteNothing(), hasSummary(messages)] },
  { fault: "ten calls whose results are twice the limit", limits: { COMPACT_THRESHOLD: "8000" }, replies: [MUCH, ...summary, ...fine], ends: "done", requests: 3, told: COMPACTED, forgotten: true, also: hasMuch },
];

// The checks.

let screen = "";
/** What something returns or throws; `screen` holds what is printed meanwhile, whoever prints it. */
async function watched<T>(run: () => Promise<T>): Promise<T | unknown> {
  screen = "";
  const mocks = [process.stdout, process.stderr].map((stream) => {
    const write = stream.write.bind(stream);
    return mock.method(stream, "write", (chunk: string | Uint8Array) => {
      if (typeof chunk !== "string") return write(chunk); // the test runner's own report
      screen += chunk;
      return true;
    });
  });
  try {
    return await run();
  } catch (error) {
    return error;
  } finally {
    for (const each of mocks) each.mock.restore();
  }
}

type Lesson = {
  agentLoop(messages: Messages, options?: { signal?: AbortSignal }): Promise<string>;
  approval: { always: boolean };
};
type S06 = typeof import("../agents/s06_context_compact.ts");

const way = await startWay(server);
process.env.ANTHROPIC_BASE_URL = way.url;
after(way.close);

/** A turn of a lesson with a fault in it, and what has to hold after every fault. */
async function check(lesson: Lesson, row: Row, said: Messages = [], s06?: S06): Promise<void> {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
  lesson.approval.always = true;
  server.journal.length = 0;
  const before = [...structuredClone(said), user("hello"), answer("hello to you")];
  const messages = [...before, user(REQUEST)];
  const stop = new AbortController();
  Object.assign(way.count, { requests: 0, answers: 0 });
  way.faults.splice(0, way.faults.length, undefined, ...(row.faults ?? []));
  server.model = scripted(call(`echo ${RESULT}`), ...(row.replies ?? []));

  const ended = await watched(async () => {
    const running = lesson.agentLoop(messages, { signal: stop.signal });
    if (row.stopWhen) {
      await until(row.stopWhen);
      stop.abort();
    }
    return running;
  });
  if (typeof row.ends === "string") assert.equal(ended, row.ends, screen);
  else {
    assert.ok(ended instanceof Anthropic.AnthropicError, `${ended}\n${screen}`);
    const fromApi = ended instanceof Anthropic.APIError;
    assert.equal(fromApi ? ended.status : undefined, row.ends.status);
    assert.match((fromApi && ended.apiMessage) || ended.message, row.ends.says);
  }

  // The number of requests.
  assert.equal(way.count.requests, 1 + row.requests);
  assert.equal(way.faults.length, 0);

  // What the person is told.
  const notices = screen.split("\n").filter((line) => /^ *\[/.test(line));
  assert.equal(notices.length, row.told?.length ?? 0, screen);
  for (const [i, expected] of row.told?.entries() ?? []) assert.match(notices[i]?.trim() ?? "", expected);
  assert.doesNotMatch(screen, /^ +at |[\0-\x08\x0b-\x1f]/m);

  // Nothing is lost: it is in the history, and s06 has it in the transcript, which makes the same history.
  const held = JSON.stringify(messages);
  assert.equal(held.includes(REQUEST), !row.dropped, held);
  assert.equal(held.includes(RESULT), !row.dropped && !row.forgotten, held);
  if (row.dropped && said.length === 0) assert.deepEqual(messages, before);
  if (s06) {
    const name = readdirSync(s06.TRANSCRIPT_DIR).find((each) => each.startsWith("transcript_")) ?? "";
    const file = join(s06.TRANSCRIPT_DIR, name);
    const transcript = readFileSync(file, "utf8");
    for (const text of [REQUEST, RESULT]) assert.ok(transcript.includes(text), `${text}: ${transcript}`);
    const expected = structuredClone(messages);
    s06.stripThinking(expected);
    assert.deepEqual(await watched(async () => s06.resume(file)), expected);
  }
  row.also?.(messages);

  // The history is valid: no reply ends with thinking, and the next request gets its answer.
  for (const { content } of messages) if (Array.isArray(content)) assert.notEqual(content.at(-1)?.type, "thinking");
  messages.push(user("and now?"));
  server.model = scripted(say("still here"));
  const asked = server.journal.length;
  assert.equal(await watched(() => lesson.agentLoop(messages)), "done", screen);
  assert.deepEqual(messages.at(-1)?.content?.slice(-1), [{ type: "text", text: "still here", citations: null }]);
  assert.deepEqual(
    server.journal.slice(asked).map(({ status }) => status),
    [200],
  );
}

const LESSONS = readdirSync(new URL("../agents/", import.meta.url)).filter((name) => /^s\d\d_.*\.ts$/.test(name));

for (const name of LESSONS) {
  describe(`${name} keeps a valid history that lacks nothing, and tells the person, after`, async () => {
    const lesson: Lesson = await import(`../agents/${name}`);
    const s06: S06 | undefined = name.startsWith("s06") ? await import(`../agents/${name}`) : undefined;
    for (const row of ROWS) if (row.only?.test(name) ?? true) test(row.fault, () => check(lesson, row, [], s06));
  });
}

describe("s06, which forgets, does so after", () => {
  for (const row of LONG_ROWS) {
    test(row.fault, async () => {
      const s06 = await load<S06>("s06_context_compact", row.limits);
      await check(s06, row, TALK, s06);
    });
  }
});

// The line that the person reads.

/** Each is a request of the person's; `gone` if it leaves the history. */
type Turn = { faults?: Fault[]; replies?: Reply[]; lines: string[]; gone?: true; only?: RegExp };

// biome-ignore format: a table
const TURNS: Turn[] = [
  { faults: [status(401)], lines: ["[API error 401: invalid x-api-key]"] },
  { faults: [status(400, "messages: no\ngood")], lines: ["[API error 400: messages: no good]"], gone: true },
  { faults: [tooLarge], lines: ["[API error 413: Request exceeds the maximum size]"], gone: true, only: SHORT },
  { faults: toTheEnd(status(529)), lines: ["[API error 529: Overloaded]"] },
  { faults: toTheEnd(page), lines: [`[API error 502: ${PAGE.replace(/\s+/g, " ").slice(0, 485)}]`] },
  { faults: toTheEnd(bare), lines: ["[API error 503: status code (no body)]"] },
  { faults: [drop, drop], replies: times(2, say("some words")), lines: ["[the reply broke off (error: terminated); trying once more]", "[error: terminated]"] },
  { faults: times(2, ERROR_EVENT), replies: times(2, say("some words")), lines: ["[the reply broke off (API error: Overloaded); trying once more]", "[API error: Overloaded]"] },
  { faults: [REFUSAL], replies: [say("no")], lines: ["[the model refused; this request is taken out of the conversation]"], gone: true },
  { faults: [CUT], replies: [say("0123456789")], lines: ["[cut off]"] },
  { replies: [say("still here")], lines: [] },
];

describe("the program tells each fault in one line and goes on", { concurrency: true }, () => {
  for (const name of LESSONS) {
    test(name, async (t) => {
      const turns = TURNS.filter(({ only }) => only?.test(name) ?? true);
      const requests = turns.map(({ gone }, i) => (gone ? `request ${i}, which leaves` : `request ${i}`));
      const own = await startServer({ model: scripted(...turns.flatMap(({ replies = [] }) => replies)) });
      const ownWay = await startWay(own);
      ownWay.faults.push(...turns.flatMap(({ faults = [undefined] }) => faults));
      const expected = ownWay.faults.length;
      const run = start(name.replace(".ts", ""), [], { ANTHROPIC_BASE_URL: ownWay.url }, requests.join("\n"));
      t.after(() => {
        run.child.kill("SIGKILL");
        ownWay.close();
        return own.close();
      });
      const { code, stdout, stderr } = await run.ended;
      assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
      const lines = stdout.split("\n").filter((line) => line.startsWith("["));
      assert.deepEqual(
        lines,
        turns.flatMap((turn) => turn.lines),
      );
      assert.equal(ownWay.count.requests, expected);
      const last = own.journal.at(-1);
      assert.equal(last?.status, 200);
      assert.deepEqual(
        last.request.messages.flatMap(({ content }) => (typeof content === "string" ? [content] : [])),
        requests.filter((request) => !request.endsWith("leaves")),
      );
    });
  }
});
