/** Turns a model's reply into a message of the API, with ids, signatures and usage, and into stream events. */
import { randomBytes } from "node:crypto";
import type Anthropic from "@anthropic-ai/sdk";
import type { Lookup } from "./cache.ts";
import type { Failure } from "./failures.ts";
import { promptLine } from "./prompt.ts";
import { type Chain, sign } from "./thinking.ts";

export type ReplyBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "redacted_thinking" }
  | { type: "tool_use"; name: string; input: unknown; id?: string };

/** A model's reply. The server adds ids and signatures. */
export type Reply = {
  content: ReplyBlock[];
  /** Unless this is false, the server adds thinking if there is none, because real models nearly always think. */
  thinks?: boolean;
  /** By default `tool_use` if there is a call, and `end_turn` otherwise. */
  stop_reason?: Anthropic.StopReason;
};

/** A block and the characters that the model generates for it: its text, or the JSON of a call's input. */
export type Draft = { block: ReplyBlock; generated: string };

export const newId = (prefix: string): string => prefix + randomBytes(12).toString("hex");

// --- drafts ----------------------------------------------------------------------------------------------------------

function draftsOf(reply: Reply, failure: Failure["kind"] | undefined): Draft[] {
  const content = [...reply.content];
  const first = content[0]?.type;
  if (reply.thinks !== false && (first === "text" || first === "tool_use"))
    content.unshift({ type: "thinking", thinking: "Looking at what is needed next." });
  return content.map((block) => {
    const generated = generatedFor(block);
    const isBroken = failure === "broken_json" && block.type === "tool_use";
    return { block, generated: isBroken ? generated.replace('"', "") : generated };
  });
}

function generatedFor(block: ReplyBlock): string {
  if (block.type === "text") return block.text;
  if (block.type === "thinking") return block.thinking;
  return block.type === "tool_use" ? JSON.stringify(block.input === undefined ? {} : block.input) : "";
}

const lengthOf = (drafts: Draft[]): number => drafts.reduce((sum, { generated }) => sum + generated.length, 0);

/** Keeps the first `limit` characters of a reply and drops the blocks that would begin after them. */
function cutDrafts(drafts: Draft[], limit: number): Draft[] {
  let left = limit;
  return drafts.flatMap(({ block, generated }) => {
    if (left <= 0) return [];
    const head = generated.slice(0, left);
    left -= generated.length;
    return [{ block, generated: head.isWellFormed() ? head : head.slice(0, -1) }];
  });
}

/** Drafts a reply that fits into `room`, given in characters, and decides on its stop reason. */
export function draftReply(
  reply: Reply,
  failure: Failure["kind"] | undefined,
  room: { output: number; window: number },
) {
  const drafts = draftsOf(reply, failure);
  const ending = (stop_reason: Anthropic.StopReason, kept = drafts) => ({ drafts: kept, stop_reason });
  const halfway = lengthOf(drafts) - Math.ceil((drafts.at(-1)?.generated.length ?? 0) / 2);
  const output = failure === "max_tokens" ? Math.min(halfway, room.output) : room.output;
  const window = failure === "context_window" ? Math.min(halfway, room.window) : room.window;
  if (lengthOf(drafts) > Math.min(output, window))
    return window < output
      ? ending("model_context_window_exceeded", cutDrafts(drafts, window))
      : ending("max_tokens", cutDrafts(drafts, output));
  if (failure === "refusal") return ending("refusal");
  return ending(reply.stop_reason ?? (reply.content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn"));
}

// --- the message -----------------------------------------------------------------------------------------------------

/** Returns the blocks as the client gets them, each signature bound to everything before it. */
export function finishBlocks(drafts: Draft[], isShown: boolean, chain: Chain): Anthropic.ContentBlock[] {
  return drafts.map(({ block, generated }): Anthropic.ContentBlock => {
    if (block.type === "redacted_thinking") return { type: "redacted_thinking", data: sign(chain, "") };
    if (block.type === "thinking") {
      const thinking = isShown ? generated : "";
      return { type: "thinking", thinking, signature: sign(chain, thinking) };
    }
    const sent = block.type === "text" ? finishText(generated) : finishCall(block, generated);
    // The client can't send blank text back, so no signature may depend on it.
    if (sent.type !== "text" || sent.text.trim()) chain.said.update(promptLine("assistant", sent).text);
    return sent;
  });
}

const finishText = (text: string): Anthropic.TextBlock => ({ type: "text", text, citations: null });

function finishCall(block: Extract<ReplyBlock, { type: "tool_use" }>, generated: string): Anthropic.ToolUseBlock {
  const input = generated === generatedFor(block) ? JSON.parse(generated) : {};
  return { type: "tool_use", id: block.id ?? newId("toolu_"), name: block.name, input, caller: { type: "direct" } };
}

export function countUsage(prompt: Lookup, drafts: Draft[], charactersPerToken: number): Anthropic.Usage {
  const tokensIn = (drafts: Draft[]) => Math.ceil(lengthOf(drafts) / charactersPerToken);
  return {
    input_tokens: prompt.tokens - prompt.read - prompt.written,
    cache_read_input_tokens: prompt.read,
    cache_creation_input_tokens: prompt.written,
    cache_creation: { ephemeral_5m_input_tokens: prompt.written, ephemeral_1h_input_tokens: 0 },
    output_tokens: tokensIn(drafts), // includes thinking, even when it isn't shown
    output_tokens_details: { thinking_tokens: tokensIn(drafts.filter(({ block }) => block.type === "thinking")) },
    inference_geo: null,
    server_tool_use: null,
    service_tier: "standard",
    speed: "standard",
  };
}

// --- the events of a stream ------------------------------------------------------------------------------------------

export type StreamEvent = Anthropic.RawMessageStreamEvent | { type: "ping" };

/** Yields the stream events of a message. `drafts` has one draft for each of its blocks. */
export function* eventsOf(message: Anthropic.Message, drafts: Draft[]): Generator<StreamEvent> {
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
  return [...deltas, { type: "signature_delta", signature: block.signature }];
}
