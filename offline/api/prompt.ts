/** Turns a prompt into lines, from which its tokens, its cached part and its thinking signatures are computed. */
import { reject } from "./errors.ts";
import type { ParsedRequest } from "./request.ts";
import type { Block, Tool, Ttl } from "./schema.ts";

/** A cache breakpoint, and the path of its `cache_control`. */
type Mark = { ttl: Ttl; at: string };

/** A tool, a system block or a block of a message. */
export type Line = {
  /** The part of the prompt (tools, system, user or assistant) and the JSON. Equal blocks have equal texts. */
  text: string;
  /** The type of the block. Most tools have none. */
  type: string;
  /** In order: those in the content of a tool result, the block's own, the request's. */
  marks: Mark[];
  thinking?: { at: string; shown: string; signature: string };
};

/** Returns the lines in the order that the cache uses: tools, system, messages. */
export function promptLines({ tools, system, turns, cache_control }: ParsedRequest): Line[] {
  const lines = [
    // A deferred tool isn't in the prompt, so adding one changes nothing.
    ...tools.flatMap((tool, i) => (tool.defer_loading ? [] : lineOf("tools", tool, `tools.${i}`))),
    ...system.map((block, i) => lineOf("system", block, `system.${i}`)),
    ...turns.flatMap(({ role, blocks }) => blocks.map(({ block, at }) => lineOf(role, block, at))),
  ];
  if (cache_control) lines.at(-1)?.marks.push({ ttl: cache_control.ttl, at: "cache_control" });
  checkMarks(lines.flatMap(({ marks }) => marks));
  return lines;
}

function lineOf(part: string, block: Block | Tool, at: string): Line {
  const line: Line = { text: promptText(part, block), type: block.type ?? "custom", marks: marksIn(block, at) };
  if (block.type === "thinking") line.thinking = { at, shown: block.thinking, signature: block.signature };
  if (block.type === "redacted_thinking") line.thinking = { at, shown: "", signature: block.data };
  return line;
}

const insideOf = (block: Block | Tool): Block[] =>
  block.type === "tool_result" || block.type === "search_result" ? block.content : [];

function marksIn(block: Block | Tool, at: string): Mark[] {
  const inside = insideOf(block).flatMap((inner, i) => marksIn(inner, `${at}.content.${i}`));
  const ttl = "cache_control" in block && block.cache_control?.ttl;
  return ttl ? [...inside, { ttl, at: `${at}.cache_control` }] : inside;
}

function checkMarks(marks: Mark[]): void {
  if (marks.length > 4) reject("cache breakpoints", `${marks.length}`);
  const late = marks.find(({ ttl }, i) => ttl === "1h" && marks[i - 1]?.ttl === "5m");
  if (late) reject("cache lifetimes", late.at);
}

export const promptText = (part: string, block: Block | Tool) => `${part} ${JSON.stringify(normalize(block))}\n`;

/** Sorts the fields, and removes those that clients may change when they resend a block, or that are empty. */
function normalize(block: Block | Tool): object {
  const fields = Object.entries(block).filter(([key, value]) => !["cache_control", "caller"].includes(key) && value);
  fields.sort(([a], [b]) => (a < b ? -1 : 1));
  const content = insideOf(block).map(normalize);
  return { ...Object.fromEntries(fields), ...(content.length > 0 && { content }) };
}
