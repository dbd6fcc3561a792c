/**
 * The signatures of thinking blocks. A signature is "<mac of the previous thinking block>.<own mac>". The mac covers
 * everything before the block except other thinking, so a client may remove thinking from the front of the history.
 * Because each block names the previous one, the server also notices a gap or a changed order.
 */
import { createHash, createHmac, type Hash } from "node:crypto";
import { reject } from "./errors.ts";
import type { Line } from "./prompt.ts";
import type { ParsedRequest } from "./request.ts";

/** The conversation so far, to which the next thinking block is bound. */
export type Chain = { key: Buffer; said: Hash; previous: string };

const macOf = ({ key, said }: Chain, previous: string, shown: string): string =>
  createHmac("sha256", key).update(said.copy().digest()).update(`${previous}.${shown}`).digest("base64url");

/** Checks each thinking block of a prompt. Invalid ones are rejected, or ignored if the request asks for that. */
export function checkThinking(lines: Line[], key: Buffer, settings: ParsedRequest["thinking"]): Chain {
  const drops = settings?.type === "adaptive" && settings.block_binding?.prefix_mismatch_behavior === "drop_block";
  const chain: Chain = { key, said: createHash("sha256"), previous: "" };
  for (const { text, thinking } of lines) {
    if (!thinking) {
      chain.said.update(text);
      continue;
    }
    const [previous = "", mac = ""] = thinking.signature.split(".");
    const follows = chain.previous === "" || chain.previous === previous;
    if (follows && mac === macOf(chain, previous, thinking.shown)) chain.previous = mac;
    else if (!drops) reject("thinking binding", thinking.at);
  }
  return chain;
}

/** Returns the signature of a new thinking block, to which the next one will be bound. */
export function sign(chain: Chain, shown: string): string {
  const { previous } = chain;
  chain.previous = macOf(chain, previous, shown);
  return `${previous}.${chain.previous}`;
}
