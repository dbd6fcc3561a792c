/** Divides prompts into the series that charts show. */
import type { Block, Kind } from "../trace/events.ts";
import { sum } from "../trace/numbers.ts";
import {
  blocksIn,
  type Compaction,
  type ContextBlock,
  keptBy,
  type ModelCall,
  type Timeline,
} from "../trace/timeline.ts";

/** A kind of block, the results of a tool, or without a tool those of all others. `unexplained` isn't in the file. */
export type Series = { kind: Kind | "unexplained"; tool?: string };

const KINDS: Kind[] = ["summary", "file", "request", "client", "reply", "thinking", "call"];
const MOST_TOOLS = 4; // with a series of their own

// The page asks for these again with every step.
const known = new WeakMap<ContextBlock[], Series[]>();
const sumsOfEpochs = new WeakMap<ContextBlock[], number[][]>();

/** Returns the series of a session, what isn't in the file first. */
export function seriesOf({ blocks }: Timeline): Series[] {
  const series = known.get(blocks) ?? findSeries(blocks);
  known.set(blocks, series);
  return series;
}

function findSeries(blocks: ContextBlock[]): Series[] {
  const results = blocks.flatMap((block) => (block.kind === "result" ? block : []));
  const tools = [...new Set(results.map(({ call }) => call.name))].filter(Boolean);
  const sizeOf = (tool: string) => sum(results.map(({ call, chars }) => (call.name === tool ? chars : 0)));
  const named = tools.sort((a, b) => sizeOf(b) - sizeOf(a)).slice(0, MOST_TOOLS);
  const kinds = KINDS.filter((kind) => blocks.some((block) => block.kind === kind));
  const others = results.some(({ call }) => !named.includes(call.name)) ? [{ kind: "result" as const }] : [];
  return [{ kind: "unexplained" }, ...kinds.map((kind) => ({ kind })), ...named.map(ofTool), ...others];
}

const ofTool = (tool: string): Series => ({ kind: "result", tool });

/** Returns the index of the series that a block belongs to. */
export const seriesFor = (block: Block, series: Series[]): number =>
  series.findIndex(({ kind, tool }) => {
    return kind === block.kind && (tool === undefined || (block.kind === "result" && tool === block.call.name));
  });

/** Returns the tokens of each series in a prompt. */
export function sizesOf(timeline: Timeline, { epoch, length, unexplained, charsPerToken }: ModelCall): number[] {
  const sums = sumsOfEpochs.get(epoch) ?? addUp(epoch, seriesOf(timeline));
  sumsOfEpochs.set(epoch, sums);
  const [, ...chars] = sums[length] ?? [];
  return [unexplained, ...chars.map((each) => each / charsPerToken)];
}

/** Returns the tokens that a compaction added to each series. What it took is below zero. */
export function changesIn(timeline: Timeline, compaction: Compaction): number[] {
  const { before, after } = compaction;
  const series = seriesOf(timeline);
  const kept = keptBy(compaction);
  const changes = series.map((_, i) => (i === 0 ? after.unexplained - before.unexplained : 0));
  const add = (block: ContextBlock, tokens: number) => {
    const i = seriesFor(block, series);
    changes[i] = (changes[i] ?? 0) + tokens;
  };
  for (const block of blocksIn(before)) if (!kept.has(block)) add(block, -block.chars / before.charsPerToken);
  for (const block of blocksIn(after)) if (!kept.has(block)) add(block, block.chars / after.charsPerToken);
  return changes;
}

/** Returns the characters of each series in the first blocks: none of them, one, two, and so on. */
function addUp(blocks: ContextBlock[], series: Series[]): number[][] {
  const running = [series.map(() => 0)];
  for (const block of blocks) {
    const last = running.at(-1) ?? [];
    const own = seriesFor(block, series);
    running.push(last.with(own, (last[own] ?? 0) + block.chars));
  }
  return running;
}
