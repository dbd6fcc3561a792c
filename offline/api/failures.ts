/** The failures that a test can order: how each changes what the server does with a request. */
import { errorBody, Rejection } from "./errors.ts";
import {
  type Answer,
  asEvent,
  type Draft,
  type Drafted,
  draftsOf,
  encode,
  fitReply,
  lengthOf,
  type Reply,
  type Room,
} from "./replies.ts";

/** Orders the failure of one request. */
export type Failure =
  /** `retryAfter` becomes the retry-after header. It may be a fraction of a second. */
  | { kind: "status"; status: 400 | 401 | 413 | 429 | 500 | 529; message?: string; retryAfter?: number }
  /** The connection breaks after half of the stream's events, or before a plain answer. */
  | { kind: "drop" }
  /** An overloaded_error follows half of the stream's events. A plain answer becomes a 529. */
  | { kind: "error_event" }
  /** Waits `delay` milliseconds before each event of the stream, or before a plain answer. */
  | { kind: "slow"; delay: number }
  /** The reply reaches max_tokens in the middle of its last block. If that is a call, its JSON is incomplete. */
  | { kind: "max_tokens" }
  /** The reply fills the context window in the middle of its last block. */
  | { kind: "context_window" }
  /** The reply arrives whole, with the stop reason `refusal`. */
  | { kind: "refusal" }
  /** The input of each call is invalid JSON. */
  | { kind: "broken_json" };

/** Throws a Rejection if a status was ordered. */
export function failAtOnce(failure: Failure | undefined): void {
  if (failure?.kind === "status") throw new Rejection(failure.status, failure.message, undefined, failure.retryAfter);
}

/** Drafts a reply that fits into the room. */
export function draftWith(failure: Failure | undefined, reply: Reply, room: Room): Drafted {
  const kind = failure?.kind;
  const drafts = kind === "broken_json" ? draftsOf(reply).map(breakJson) : draftsOf(reply);
  const halfway = lengthOf(drafts) - Math.ceil((drafts.at(-1)?.generated.length ?? 0) / 2);
  const output = kind === "max_tokens" ? Math.min(room.output, halfway) : room.output;
  const window = kind === "context_window" ? Math.min(room.window, halfway) : room.window;
  const stop_reason = kind === "refusal" ? kind : reply.stop_reason;
  return fitReply({ ...reply, stop_reason }, drafts, { output, window });
}

const breakJson = ({ block, generated }: Draft): Draft => ({
  block,
  generated: block.type === "tool_use" ? generated.replace('"', "") : generated,
});

/** The body of an answer, of which each chunk is sent after a delay in milliseconds. */
export type Encoded = {
  type?: string;
  chunks: string[];
  delay?: number;
  /** Whether the connection breaks after the chunks. */
  breaks?: boolean;
  /** What the journal says about an answer that isn't whole. */
  error?: string;
};

/** Encodes an answer, or throws a Rejection if a plain one is to fail. */
export function encodeWith(failure: Failure | undefined, answer: Answer, requestId: string): Encoded {
  const { type, chunks } = encode(answer);
  const half = chunks.slice(0, Math.floor(chunks.length / 2)); // empty for a plain answer
  if (failure?.kind === "slow") return { type, chunks, delay: failure.delay };
  if (failure?.kind === "drop") return { type, chunks: half, breaks: true, error: "drop" };
  if (failure?.kind !== "error_event") return { type, chunks };
  const overloaded = new Rejection(529);
  if (!answer.isStream) throw overloaded;
  return { type, chunks: [...half, asEvent("error", errorBody(overloaded, requestId))], error: "error_event" };
}
