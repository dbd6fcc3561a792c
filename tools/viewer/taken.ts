/** Finds out what a compaction took out of the prompt, what it put in, and what was read again after it. */
import { callKey } from "../sessions/events.ts";
import { groupBy, sum } from "../sessions/numbers.ts";
import {
  blocksIn,
  type Compaction,
  type ContextBlock,
  keptBy,
  type ModelCall,
  type Timeline,
} from "../sessions/timeline.ts";
import { kindOf } from "./words.ts";

export type Sized = { block: ContextBlock; tokens: number };
type Change = { left: Sized[]; came: Sized[] };

export function changeOf(compaction: Compaction): Change {
  const kept = keptBy(compaction);
  const [left = [], came = []] = [compaction.before, compaction.after].map((side) => {
    const blocks = blocksIn(side).filter((block) => !kept.has(block));
    return blocks.map((block) => ({ block, tokens: block.chars / side.charsPerToken }));
  });
  return { left, came };
}

export const tokensOf = (all: Sized[]) => sum(all.map(({ tokens }) => tokens));

/** Adds up blocks by their kind, largest first. */
export function byKind(all: Sized[]): { name: string; tokens: number }[] {
  const groups = [...groupBy(all, ({ block }) => kindOf(block))];
  return groups.map(([name, group]) => ({ name, tokens: tokensOf(group) })).sort((a, b) => b.tokens - a.tokens);
}

/** Whether the file has what the prompt held before. It doesn't if it begins with a compaction. */
export const isRecorded = ({ before }: Compaction) => before.length > 0;

type Result = ContextBlock & { kind: "result" };
const isReading = (block: ContextBlock): block is Result => block.kind === "result" && /^read/i.test(block.call.name);

/** Returns, for each result of reading a file that a compaction took, the next one of the same call. */
export function readAgain({ blocks, compactions }: Timeline): Result[] {
  const readings = groupBy(blocks.filter(isReading), ({ call }) => callKey(call));
  const found = compactions.flatMap((compaction) => {
    const known = [compaction.before, compaction.after].flatMap(blocksIn);
    const newest = known.reduce((most, { id }) => Math.max(most, id), -1);
    const taken = changeOf(compaction).left.flatMap(({ block }) => (isReading(block) ? block : []));
    return taken.flatMap(({ call }) => readings.get(callKey(call))?.find(({ id }) => id > newest) ?? []);
  });
  return [...new Set(found)];
}

/** Returns the indices of the first and the last model call that send a block. */
export function callsWith(block: ContextBlock, { modelCalls }: Timeline): { first: number; last: number } {
  const isSent = ({ epoch, length }: ModelCall) => length > 0 && epoch.lastIndexOf(block, length - 1) >= 0;
  return { first: modelCalls.findIndex(isSent), last: modelCalls.findLastIndex(isSent) };
}
