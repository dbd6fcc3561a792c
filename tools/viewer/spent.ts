/** Shares out what a session cost among the parts of its prompts, and among their blocks. */
import { spansOf } from "../draw/bar.ts";
import { type Sizes, segmentsOf } from "../draw/parts.ts";
import { sum } from "../sessions/numbers.ts";
import { sumOf } from "../sessions/prices.ts";
import type { ContextBlock, ModelCall, Timeline } from "../sessions/timeline.ts";

/** In dollars. */
export type Spent = {
  all: number;
  parts: Required<Sizes>;
  blocks: Map<ContextBlock, { amount: number; calls: number }>;
};

/** Returns nothing if no price is known. */
export function spentOn({ modelCalls, compactions }: Timeline): Spent | undefined {
  const priced = modelCalls.filter(({ cost }) => cost);
  if (priced.length === 0) return undefined;
  const parts = { missing: 0, request: 0, reply: 0, summary: 0, result: 0 };
  const blocks: Spent["blocks"] = new Map();
  for (const call of priced) {
    // whoever writes something pays for the output, and it's then sent again with each call
    parts.reply += call.cost?.output ?? 0;
    parts.result += call.cost?.searches ?? 0;
    for (const { from, to, segment } of spansOf(segmentsOf(call))) {
      const amount = priceUpTo(to, call) - priceUpTo(from, call);
      parts[segment.part] += amount;
      if (segment.block) addTo(blocks, segment.block, amount);
    }
  }
  parts.summary += sum(compactions.map(({ cost }) => sumOf(cost)));
  return { all: sum(Object.values(parts)), parts, blocks };
}

function addTo(blocks: Spent["blocks"], block: ContextBlock, more: number): void {
  const { amount, calls } = blocks.get(block) ?? { amount: 0, calls: 0 };
  blocks.set(block, { amount: amount + more, calls: calls + 1 });
}

/** The cache has the beginning of a prompt. What comes next is written to it, and the end is sent without it. */
function priceUpTo(position: number, { usage, cost }: ModelCall): number {
  let price = 0;
  let from = 0;
  for (const part of ["read", "written", "input"] as const) {
    const size = usage?.[part] ?? 0;
    const share = size > 0 ? Math.min(1, Math.max(0, (position - from) / size)) : 0;
    price += share * (cost?.[part] ?? 0);
    from += size;
  }
  return price;
}
