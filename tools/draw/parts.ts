/** The parts that a prompt is drawn in. style.css has a colour for each, by its name. */
import { readFileSync } from "node:fs";
import type { Block, Kind } from "../sessions/events.ts";
import { blocksIn, type Context, type ContextBlock, type Size } from "../sessions/timeline.ts";

/** From the bottom of a chart up. */
export const PARTS = {
  missing: "not in the file",
  request: "user and client",
  reply: "replies and calls",
  summary: "summaries and files",
  result: "tool results",
};
export type Part = keyof typeof PARTS;
export type Sizes = Partial<Record<Part, number>>;
export const partNames = Object.keys(PARTS) as Part[];

const PART_OF: Record<Kind, Part> = {
  client: "request",
  request: "request",
  summary: "summary",
  file: "summary",
  reply: "reply",
  thinking: "reply",
  call: "reply",
  result: "result",
};
export const partOf = ({ kind }: Block): Part => PART_OF[kind];

/** Returns the tokens of each part of a prompt. */
export function sizesOf(prompt: Context & Size): Sizes {
  const sizes: Sizes = { missing: prompt.unexplained };
  for (const block of blocksIn(prompt)) {
    const part = partOf(block);
    sizes[part] = (sizes[part] ?? 0) + block.chars / prompt.charsPerToken;
  }
  return sizes;
}

/** A block, or what isn't in the file, as a segment of a bar. Segments with the same key show the same block. */
export type Segment = { part: Part; size: number; key: string; block?: ContextBlock };

export function segmentsOf(prompt: Context & Size): Segment[] {
  const missing: Segment = { part: "missing", size: prompt.unexplained, key: "missing" };
  const blocks = blocksIn(prompt).map((block): Segment => {
    const key = "call" in block ? `${block.kind} ${block.call.id}` : `${block.id}`; // a cleared result is another block
    return { part: partOf(block), size: block.chars / prompt.charsPerToken, key, block };
  });
  return prompt.unexplained < 1 ? blocks : [missing, ...blocks];
}

/** The colours, in light and dark mode, and how parts, marks and labels look. */
export const STYLE = readFileSync(new URL("style.css", import.meta.url), "utf8");
