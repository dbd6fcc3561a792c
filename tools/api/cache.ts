/** The prompt cache: which prefix of a prompt is read from it, and what is written to it. */
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
  /** Answering the request begins a new lifetime for these entries. */
  keys: string[];
};

/** Returns the tokens of a prompt. */
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
