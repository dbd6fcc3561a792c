/** Turns a model's reply into a message of the API, with ids, signatures and usage. */
import { randomBytes } from "node:crypto";
import type Anthropic from "@anthropic-ai/sdk";
import { CHARS_PER_TOKEN } from "../constants.ts";
import type { Price } from "./cache.ts";
import type { Failure } from "./failures.ts";
import { promptText } from "./prompt.ts";
import type { ParsedRequest } from "./request.ts";
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

/** How many characters a reply may have: what `max_tokens` allows, and what is left of the context window. */
type Room = { output: number; window: number };
type Drafted = { drafts: Draft[]; stop_reason: Anthropic.StopReason };

/** Drafts a reply, cuts what doesn't fit into the room, and decides on the stop reason. */
export function draftReply(reply: Reply, room: Room, failure?: Failure): Drafted {
  const drafts = failure?.kind === "broken_json" ? draftsOf(reply).map(breakJson) : draftsOf(reply);
  const length = lengthOf(drafts);
  const halfway = length - Math.ceil((drafts.at(-1)?.generated.length ?? 0) / 2);
  const output = failure?.kind === "max_tokens" ? Math.min(room.output, halfway) : room.output;
  const window = failure?.kind === "context_window" ? Math.min(room.window, halfway) : room.window;
  if (length > window && window < output)
    return { drafts: cutDrafts(drafts, window), stop_reason: "model_context_window_exceeded" };
  if (length > output) return { drafts: cutDrafts(drafts, output), stop_reason: "max_tokens" };
  if (failure?.kind === "refusal") return { drafts, stop_reason: "refusal" };
  const calls = reply.content.some(({ type }) => type === "tool_use");
  return { drafts, stop_reason: reply.stop_reason ?? (calls ? "tool_use" : "end_turn") };
}

/** Returns a draft for each block of a reply, and for the thinking before it. */
function draftsOf({ content, thinks }: Reply): Draft[] {
  const isThoughtless = content[0]?.type === "text" || content[0]?.type === "tool_use";
  const thought: ReplyBlock = { type: "thinking", thinking: "Looking at what is needed next." };
  const blocks = isThoughtless && thinks !== false ? [thought, ...content] : content;
  return blocks.map((block) => ({ block, generated: generatedFor(block) }));
}

const breakJson = (draft: Draft): Draft =>
  draft.block.type === "tool_use" ? { ...draft, generated: draft.generated.replace('"', "") } : draft;

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

/** Returns the blocks as the client gets them, each signature bound to everything before it. */
export function finishBlocks(drafts: Draft[], { thinking }: ParsedRequest, chain: Chain): Anthropic.ContentBlock[] {
  const isShown = thinking?.type === "adaptive" && thinking.display === "summarized";
  return drafts.map(({ block, generated }): Anthropic.ContentBlock => {
    if (block.type === "redacted_thinking") return { type: "redacted_thinking", data: sign(chain, "") };
    if (block.type === "thinking") {
      const shown = isShown ? generated : "";
      return { type: "thinking", thinking: shown, signature: sign(chain, shown) };
    }
    if (block.type === "text") {
      // The client can't send blank text back, so no signature may depend on it.
      if (generated.trim()) chain.said.update(promptText("assistant", { type: "text", text: generated }));
      return { type: "text", text: generated, citations: null };
    }
    const input = generated === generatedFor(block) ? JSON.parse(generated) : {};
    const call = { type: "tool_use" as const, id: block.id ?? newId("toolu_"), name: block.name, input };
    chain.said.update(promptText("assistant", call));
    return { ...call, caller: { type: "direct" } };
  });
}

type Finished = Pick<Anthropic.Message, "content" | "stop_reason" | "usage">;

export function messageOf(model: string, reply: Finished): Anthropic.Message {
  return {
    id: newId("msg_"),
    type: "message",
    role: "assistant",
    model,
    ...reply,
    stop_sequence: null,
    stop_details: reply.stop_reason === "refusal" ? { type: "refusal", category: null, explanation: null } : null,
    container: null,
    diagnostics: null,
  };
}

export function usageOf({ tokens, read, written }: Price, drafts: Draft[]): Anthropic.Usage {
  const tokensIn = (drafts: Draft[]) => Math.ceil(lengthOf(drafts) / CHARS_PER_TOKEN);
  return {
    input_tokens: tokens - read - written["5m"] - written["1h"],
    cache_read_input_tokens: read,
    cache_creation_input_tokens: written["5m"] + written["1h"],
    cache_creation: { ephemeral_5m_input_tokens: written["5m"], ephemeral_1h_input_tokens: written["1h"] },
    output_tokens: tokensIn(drafts), // includes thinking, even when it isn't shown
    output_tokens_details: { thinking_tokens: tokensIn(drafts.filter(({ block }) => block.type === "thinking")) },
    inference_geo: "local", // no price applies
    server_tool_use: null,
    service_tier: "standard",
    speed: "standard",
  };
}
