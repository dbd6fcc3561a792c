/** Turns a message into the body of an answer: a stream of events, or plain JSON. */
import type Anthropic from "@anthropic-ai/sdk";
import { errorBody, Rejection } from "./errors.ts";
import type { Failure } from "./failures.ts";
import type { Draft } from "./replies.ts";

/** A message, and a draft for each of its blocks. */
export type Answer = { message: Anthropic.Message; drafts: Draft[]; isStream: boolean };

export type Body = {
  type: string;
  chunks: string[];
  /** Milliseconds before each chunk. */
  delay?: number;
  /** Whether the connection breaks after the chunks. */
  breaks?: boolean;
  /** What the journal says about a body that isn't whole. */
  error?: string;
};

/** Returns the body of an answer, or throws a Rejection if a plain one is to fail. */
export function bodyOf(answer: Answer, requestId: string, failure?: Failure): Body {
  const body = answer.isStream ? streamOf(answer) : plainBody(answer.message);
  const half = body.chunks.slice(0, Math.floor(body.chunks.length / 2)); // empty for a plain answer
  if (failure?.kind === "slow") return { ...body, delay: failure.delay };
  if (failure?.kind === "drop") return { ...body, chunks: half, breaks: true, error: "drop" };
  if (failure?.kind !== "error_event") return body;
  const rejection = new Rejection(failure.status ?? 529);
  if (!answer.isStream) throw rejection;
  return { ...body, chunks: [...half, asEvent("error", errorBody(rejection, requestId))], error: "error_event" };
}

export const plainBody = (value: object): Body => ({ type: "application/json", chunks: [JSON.stringify(value)] });

function streamOf(answer: Answer): Body {
  const chunks = Array.from(eventsOf(answer), (event) => asEvent(event.type, JSON.stringify(event)));
  return { type: "text/event-stream; charset=utf-8", chunks };
}

const asEvent = (type: string, data: string): string => `event: ${type}\ndata: ${data}\n\n`;

function* eventsOf({ message, drafts }: Answer): Generator<Anthropic.RawMessageStreamEvent | { type: "ping" }> {
  const { stop_reason, stop_sequence, stop_details, container } = message;
  const { cache_creation, inference_geo, service_tier, speed, ...usage } = message.usage;
  const early = { ...message.usage, output_tokens: 1, output_tokens_details: null };
  const opening = { ...message, content: [], stop_reason: null, stop_details: null, usage: early };
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

/** Splits a block into deltas of at most 20 characters. */
function deltasOf(block: Anthropic.ContentBlock, generated: string): Anthropic.RawContentBlockDelta[] {
  const sent = block.type === "thinking" ? block.thinking : generated;
  const pieces = sent.match(/.{1,20}/gsu) ?? []; // with `u`, a cut never splits a surrogate pair
  if (block.type === "text") return pieces.map((text) => ({ type: "text_delta", text }));
  if (block.type === "tool_use") return pieces.map((partial_json) => ({ type: "input_json_delta", partial_json }));
  if (block.type !== "thinking") return [];
  const deltas = pieces.map((thinking) => ({ type: "thinking_delta" as const, thinking }));
  return block.signature ? [...deltas, { type: "signature_delta", signature: block.signature }] : deltas;
}
