/** What was in the context at each model call of a recording, and functions to look it up. */

import type { Block, Skipped, Usage } from "./events.ts";
import type { Cost, Tokens } from "./prices.ts";

export type ContextBlock = Block & { id: number };
/** The first `length` blocks of an epoch, which has all blocks between two compactions. `chars` is their size together. */
export type Context = { epoch: ContextBlock[]; length: number; chars: number };
/** The size of a prompt in tokens, how many of them no block accounts for, and the characters per token of its blocks. */
export type Size = { tokens: number; unexplained: number; charsPerToken: number };
/** A model call. Times are in milliseconds. */
export type ModelCall = Context &
  Size & {
    time?: number; // when the reply was complete
    gap?: number; // between sending the previous call and this one
    missed?: Missed;
    usage?: Usage;
    isEstimate: boolean; // whether the output is estimated, because the file has the count of an unfinished reply
    model?: string;
    /** In dollars. Missing if the price isn't known. */
    cost?: Cost;
    request: number; // the index of the newest of `Timeline.requests`
  };
/** Why tokens of the previous prompt weren't read from the cache, and how many. New tokens don't count. */
export type Missed = { why: "pause" | "compaction" | "model" | "changed"; tokens: number };
export type Side = Context & Size & { isEstimate: boolean };
export type Compaction = {
  modelCall: number; // the index of the first model call after it, even if there is none
  trigger: string;
  before: Side;
  after: Side;
  isSummary: boolean; // whether a model call wrote a summary
  usage?: Usage; // what that model call used and cost, if the file has it
  cost?: Cost;
};
export type Timeline = {
  format: "s06" | "Claude Code";
  cwd: string; // the folder that the conversation was about
  blocks: ContextBlock[]; // all that were ever in a context, by their ids
  modelCalls: ModelCall[];
  compactions: Compaction[];
  largest: number; // the model call with the largest prompt
  /** For each of the user's requests, its block and the first model call that sends it. */
  requests: { modelCall: number; block: ContextBlock }[];
  threshold?: number; // of s06, in tokens
  /** Whether the API counted the prompts. Otherwise they're estimates. */
  isCounted: boolean;
  charsPerToken: number; // an estimate, for single blocks
  skipped: Skipped[];
};

export const totalOf = ({ input, read, written }: Tokens) => input + read + written;

/** Returns the blocks of a model call or of one side of a compaction, in order. */
export const blocksIn = ({ epoch, length }: Context): ContextBlock[] => epoch.slice(0, length);

/** Returns the blocks that a compaction left in the context. */
export function keptBy({ before, after }: Compaction): Set<ContextBlock> {
  const left = new Set(blocksIn(after));
  return new Set(blocksIn(before).filter((block) => left.has(block)));
}
