/** The prompt cache: what a prompt reads from it, and what it writes. */
import { createHash } from "node:crypto";
import { CACHE_LIFE, CHARS_PER_TOKEN, LONG_CACHE_LIFE } from "../constants.ts";
import { leastCached } from "./models.ts";
import type { Line } from "./prompt.ts";
import type { Ttl } from "./schema.ts";

const LOOKBACK = 20; // positions, of which the breakpoint is the first
const LIFE = { "5m": CACHE_LIFE, "1h": LONG_CACHE_LIFE }; // milliseconds

/** An entry lives for `life` milliseconds after it was last used. */
type Entry = { life: number; used: number };
/** The entries, each under a key of the whole prefix. */
export type Cache = Map<string, Entry>;

/** A prompt's size and price, in tokens. */
export type Price = {
  tokens: number;
  read: number;
  written: Record<Ttl, number>;
  /** What is in the cache once the request is answered: the entry that was read and those at breakpoints. */
  entries: Cache;
};

/** A prompt up to the end of a line. `ttl` is set at a breakpoint. */
type Prefix = { key: string; tokens: number; index: number; position: number; ttl?: Ttl };

/** Returns what a prompt costs at a time. The cache changes only when `entries` are added to it. */
export function priceOf(lines: Line[], model: string, cache: Cache, now: number): Price {
  const prefixes = prefixesOf(lines, model);
  const breakpoints = prefixes.filter(({ ttl, tokens }) => ttl && tokens >= leastCached(model));
  const lifeOf = (key: string) => {
    const entry = cache.get(key);
    return entry && now - entry.used <= entry.life ? entry.life : undefined; // undefined also once it has expired
  };
  const isNear = ({ index, position }: Prefix) =>
    breakpoints.some((each) => each.index >= index && each.position - position < LOOKBACK);
  const found = prefixes.findLast((prefix) => lifeOf(prefix.key) && isNear(prefix)); // the last is the longest

  const endOf = (life: Ttl) => breakpoints.findLast(({ ttl }) => ttl === life)?.tokens ?? 0;
  const read = found?.tokens ?? 0;
  const forHour = Math.max(read, endOf("1h")); // breakpoints of an hour come first
  const written = { "1h": forHour - read, "5m": Math.max(forHour, endOf("5m")) - forHour };
  const entries: Cache = new Map();
  // An entry that is read keeps the life it was written with, whatever the breakpoint asks for now.
  for (const { key, ttl = "5m" } of found ? [found, ...breakpoints] : breakpoints)
    entries.set(key, { life: lifeOf(key) ?? LIFE[ttl], used: now });
  return { tokens: prefixes.at(-1)?.tokens ?? 0, read, written, entries };
}

/** Returns a prefix for each line. A run of calls or of results is one position. */
function prefixesOf(lines: Line[], model: string): Prefix[] {
  let key = model;
  let characters = 0;
  let position = 0;
  return lines.map(({ text, type, marks }, index) => {
    key = createHash("sha256").update(key).update(text).digest("base64url");
    characters += text.length;
    const isRun = (type === "tool_use" || type === "tool_result") && type === lines[index - 1]?.type;
    if (!isRun) position++;
    // A line may have several breakpoints; longer lives come first.
    return { key, tokens: Math.ceil(characters / CHARS_PER_TOKEN), index, position, ttl: marks[0]?.ttl };
  });
}
