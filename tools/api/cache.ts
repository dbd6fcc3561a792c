/** The prompt cache: looks up the longest cached prefix of a prompt, and decides which prefixes to cache. */
import { createHash } from "node:crypto";
import { CACHE_LIFE } from "../trace/prices.ts";
import type { Line } from "./prompt.ts";

const MIN_TOKENS = 512;
const LOOKBACK = 20; // blocks

/** Maps each cached prefix to the time it was last read or written. */
export type Cache = Map<string, number>;

/** All sizes are in tokens. */
export type Lookup = {
  tokens: number;
  read: number;
  written: number;
  /** The entries whose lifetime begins anew when the request is answered. */
  keys: string[];
};

/** Returns the size of a prompt in tokens. */
export const countPrompt = (lines: Line[], charactersPerToken: number): number =>
  Math.ceil(lines.reduce((sum, { text }) => sum + text.length, 0) / charactersPerToken);

export function lookUp(lines: Line[], model: string, cache: Cache, now: number, charactersPerToken: number): Lookup {
  let characters = 0;
  let key = model;
  const prefixes = lines.map(({ text, breakpoints }) => {
    characters += text.length;
    key = createHash("sha256").update(key).update(text).digest("base64url");
    return { key, tokens: Math.ceil(characters / charactersPerToken), isMarked: breakpoints > 0 };
  });
  const isCached = ({ key }: { key: string }) => now - (cache.get(key) ?? -Infinity) <= CACHE_LIFE;
  const isNear = (_: unknown, i: number) => prefixes.slice(i, i + LOOKBACK + 1).some(({ isMarked }) => isMarked);
  const found = prefixes.filter(isNear).findLast(isCached); // the last prefix is the longest
  const written = prefixes.filter(({ isMarked, tokens }) => isMarked && tokens >= MIN_TOKENS);
  const read = found?.tokens ?? 0;
  return {
    tokens: countPrompt(lines, charactersPerToken),
    read,
    written: Math.max(0, (written.at(-1)?.tokens ?? 0) - read),
    keys: [...(found ? [found] : []), ...written].map((prefix) => prefix.key),
  };
}
