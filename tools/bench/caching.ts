/** What requests cost, with the cache marks they were sent with and with others. */
import type Anthropic from "@anthropic-ai/sdk";
import { type Cache, priceOf } from "../../offline/api/cache.ts";
import { type Line, promptLines } from "../../offline/api/prompt.ts";
import { parseRequest } from "../../offline/api/request.ts";
import { CLEARED } from "../../offline/wording.ts";
import type { Tokens } from "../sessions/prices.ts";
import type { Caching, Strategy } from "./strategies.ts";

export type Prompt = Omit<Tokens, "output">;
type Usage = Pick<Anthropic.Usage, "input_tokens" | `cache_${"read" | "creation"}_input_tokens` | "cache_creation">;
type Prices = (request: object, usage: Usage, time: number) => Record<string, Prompt>;

/** Returns a function that prices the requests of one conversation, in their order, for each row. Times are in milliseconds. */
export function pricesFor(rows: Strategy["rows"]): Prices {
  const all = Object.entries(rows).map(([name, caching]) => ({
    name,
    price: caching === "as sent" ? undefined : priceWith(caching),
  }));
  const areSent = all.every(({ price }) => price === undefined);
  return (request, usage, time) => {
    const lines = areSent ? [] : promptLines(parseRequest(request, [], false));
    return Object.fromEntries(all.map(({ name, price }) => [name, price ? price(lines, time) : promptOf(usage)]));
  };
}

const promptOf = (usage: Usage): Prompt => ({
  input: usage.input_tokens,
  read: usage.cache_read_input_tokens ?? 0,
  written: usage.cache_creation_input_tokens ?? 0,
  writtenForHour: usage.cache_creation?.ephemeral_1h_input_tokens ?? 0,
});

function priceWith(caching: Caching): (lines: Line[], time: number) => Prompt {
  const cache: Cache = new Map();
  return (lines, time) => {
    const { tokens, read, written: by, entries } = priceOf(mark(lines, caching), "", cache, time);
    for (const [key, entry] of entries) cache.set(key, entry);
    const written = by["5m"] + by["1h"];
    return { input: tokens - read - written, read, written, writtenForHour: by["1h"] };
  };
}

function mark(lines: Line[], caching: Caching): Line[] {
  const cleared = lines.findLastIndex(isCleared);
  return lines.map((line, i) => {
    const ttls = [i === cleared && caching.cleared, i === lines.length - 1 && caching.end]; // longer lives come first
    return { ...line, marks: ttls.flatMap((ttl) => (ttl ? { ttl, at: "" } : [])) };
  });
}

const isCleared = ({ type, text }: Line) => type === "tool_result" && text.includes(`"text":"${CLEARED}`);
