/**
 * The signatures of thinking blocks. A signature is "<mac of the previous thinking block>.<own mac>". The mac covers
 * everything before the block except other thinking, so a client may remove thinking from the front of the history.
 * Because each block names the previous one, the server also notices a gap or a changed order.
 */
import { createHash, createHmac, type Hash } from "node:crypto";
import type Anthropic from "@anthropic-ai/sdk";
import type { Line } from "./prompt.ts";
import { reject } from "./rejection.ts";
import { isRecord } from "./shape.ts";

/** The conversation so far, to which the next thinking block is bound. */
export type Chain = { key: Buffer; said: Hash; previous: string; dropped: string[] };

const macOf = ({ key, said }: Chain, previous: string, shown: string): string =>
  createHmac("sha256", key).update(said.copy().digest()).update(`${previous}.${shown}`).digest("base64url");

/** Returns whether invalid thinking is to be dropped rather than rejected. */
export function dropsInvalid({ thinking }: Anthropic.MessageCreateParams): boolean {
  const binding = thinking && "block_binding" in thinking ? thinking.block_binding : undefined;
  return isRecord(binding) && binding.prefix_mismatch_behavior === "drop_block";
}

/** Checks each thinking block of a prompt. If `drops` is set, `dropped` lists invalid ones; otherwise they're rejected. */
export function checkThinking(lines: Line[], key: Buffer, drops: boolean): Chain {
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

/** Returns the signature of a new thinking block, to which the next one will be bound. */
export function sign(chain: Chain, shown: string): string {
  const { previous } = chain;
  chain.previous = macOf(chain, previous, shown);
  return `${previous}.${chain.previous}`;
}
