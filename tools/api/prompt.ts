/** Turns a prompt into lines, from which its tokens, its cached part and its thinking signatures are computed. */
import type Anthropic from "@anthropic-ai/sdk";
import { contentBlocks, turnsOf } from "./history.ts";
import { reject } from "./rejection.ts";
import { isRecord } from "./shape.ts";

/** A tool, a system block or a block of a message. */
export type Line = {
  /** The part of the prompt (tools, system, user or assistant) and the JSON. Equal blocks have equal texts. */
  text: string;
  /** How many cache breakpoints the block has. The content of a tool result may add more. */
  breakpoints: number;
  thinking?: { at: string; shown: string; signature: string };
};

/** Sorts the fields, and removes those that clients may change when they resend a block, or that are empty. */
function normalize(block: object): object {
  const fields = Object.entries(block).filter(([key, value]) => !["cache_control", "caller"].includes(key) && value);
  fields.sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(
    fields.map(([key, value]) => [key, key === "content" ? contentBlocks(value).map(normalize) : value]),
  );
}

export function promptLine(part: string, block: object): Line {
  const inside = "content" in block && Array.isArray(block.content) ? block.content : [];
  const breakpoints = [block, ...inside].filter((each) => isRecord(each) && each.cache_control).length;
  return { text: `${part} ${JSON.stringify(normalize(block))}\n`, breakpoints };
}

/** Returns the lines in the order that the cache uses: tools, system, messages. */
export function promptLines(request: Anthropic.MessageCreateParams): Line[] {
  // A deferred tool isn't in the prompt, so adding one changes nothing.
  const tools = (request.tools ?? []).filter((tool) => !("defer_loading" in tool && tool.defer_loading));
  const lines = tools.map((tool) => promptLine("tools", tool));
  for (const block of contentBlocks(request.system ?? [])) lines.push(promptLine("system", block));
  for (const { role, blocks } of turnsOf(request.messages))
    for (const { block, at } of blocks) {
      const line = promptLine(role, block);
      if (block.type === "thinking") line.thinking = { at, shown: block.thinking, signature: block.signature };
      if (block.type === "redacted_thinking") line.thinking = { at, shown: "", signature: block.data };
      lines.push(line);
    }
  const last = lines.at(-1);
  if (request.cache_control && last) last.breakpoints++;
  const breakpoints = lines.reduce((sum, line) => sum + line.breakpoints, 0);
  if (breakpoints > 4)
    reject("cache breakpoints", `A maximum of 4 blocks with cache_control may be provided. Found ${breakpoints}.`);
  return lines;
}
