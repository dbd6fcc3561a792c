/** What was in the context at each model call of a recorded conversation, and functions to look it up. */
import type { Skipped, Usage } from "./conversation.ts";
import { sum } from "./numbers.ts";
import { type Cost, sumOf } from "./prices.ts";

/**
 * A `client` block is in the user's name, but the program wrote it. `unexplained` stands for the tokens that the API counted
 * but no block in the file accounts for.
 */
export type Kind = "unexplained" | "request" | "client" | "reply" | "thinking" | "call" | "result" | "summary" | "file";
export type Block = {
  id: number;
  kind: Kind;
  tool?: string; // the tool of a call or a result
  label: string; // the first line of its text; for a call, the tool and its first argument
  text: string;
  chars: number; // its size as JSON, in characters
  since: number; // the first model call that sends it
  callId?: string;
  message: number; // the number of its message
  original?: number; // the id of the result that this block replaced
  thought?: number; // the id of the thinking that became this text
};
/** A context: the first `length` blocks of an epoch. */
export type Extent = { epoch: number; length: number };
/** The size of a prompt in tokens, how many of them no block accounts for, and the characters per token of its blocks. */
export type Size = { tokens: number; unexplained: number; charsPerToken: number };
/** A model call. Times are in milliseconds. */
export type ModelCall = Extent &
  Size & {
    time?: number;
    gap?: number; // the time since the previous model call
    missed?: Missed;
    sizes: number[]; // the tokens of each of `Timeline.series`
    usage?: Usage;
    isEstimate: boolean; // whether the output is estimated, because the file has the count of an unfinished reply
    model?: string;
    /** In dollars. Missing if the model's price isn't known. */
    cost?: Cost;
    request: number; // the index of the newest of `Timeline.requests`
  };
/** Why tokens of the previous prompt weren't read from the cache, and how many. New tokens don't count. */
export type Missed = { why: "pause" | "compaction" | "model" | "changed"; tokens: number };
/** One side of a compaction. */
export type Side = Extent & Size & { sizeSource: "file" | "next" | "estimate" };
export type Compaction = {
  modelCall: number; // the index of the first model call after it, even if there is none
  trigger: string;
  before: Side;
  after: Side;
  isSummary: boolean; // whether a model call wrote a summary
  usage?: Usage; // what that model call used and cost, if the file has it
  cost?: Cost;
};
export type Fate = "kept" | "thought" | "summarized" | "disk" | "withdrawn";
/** The most tokens of a prompt: s06's threshold, or the model's context window. */
export type Capacity = { tokens: number; kind: "threshold" | "window" };
export type Timeline = {
  format: "s06" | "Claude Code";
  blocks: Block[];
  /** The ids of blocks in order. Each compaction begins a new epoch. */
  epochs: number[][];
  modelCalls: ModelCall[];
  compactions: Compaction[];
  largest: number; // the model call with the largest prompt
  /** For each of the user's requests, its block and the first model call that sends it. */
  requests: { modelCall: number; block: number }[];
  series: string[]; // the bands of a chart: a kind, `result:` with a tool, or `result:` alone for all other tools
  capacity?: Capacity;
  /** Whether the API counted the prompts. Otherwise they're estimates. */
  isCounted: boolean;
  charsPerToken: number; // an estimate, for single blocks
  skipped: Skipped[];
};
/** A model call or a compaction, by its index. */
export type Step = { call?: number; compaction?: number };

/** The series that a block belongs to. */
export function seriesFor({ kind, tool }: Block, series: string[]): string {
  const name = kind === "result" ? `result:${tool}` : kind;
  return series.includes(name) ? name : "result:";
}

/** Returns the tokens of a whole prompt. */
export const totalOf = ({ input, read, written }: Usage) => input + read + written;

/** Returns what a compaction did to each block, by the block's id. */
export function fatesOf(timeline: Timeline, compaction: Compaction): Map<number, Fate> {
  const left = blocksAt(timeline, compaction.after);
  const kept = new Set(left.map(({ id }) => id));
  const replaced = new Set(left.map(({ original }) => original));
  const thoughts = new Set(left.map(({ thought }) => thought));
  const fate = fateOfTaken(compaction);
  const fateOf = ({ id, original }: Block): Fate => {
    if (kept.has(id)) return "kept";
    if (thoughts.has(id)) return "thought";
    return replaced.has(id) || original !== undefined ? "disk" : fate;
  };
  return new Map(blocksAt(timeline, compaction.before).map((block) => [block.id, fateOf(block)]));
}

/** Returns the blocks of a model call or of one side of a compaction, in order. */
export function blocksAt({ blocks, epochs }: Pick<Timeline, "blocks" | "epochs">, { epoch, length }: Extent): Block[] {
  return (epochs[epoch]?.slice(0, length) ?? []).flatMap((id) => blocks[id] ?? []);
}

/** A message keeps its number when a compaction leaves it in place. */
export type Message = { number: number; role: "user" | "assistant"; blocks: Block[] };

/** Returns the messages of a model call or of one side of a compaction, without the first `skipped` blocks. */
export function messagesAt(timeline: Timeline, extent: Extent, skipped = 0): Message[] {
  const messages: Message[] = [];
  for (const block of blocksAt(timeline, extent).slice(skipped)) {
    const last = messages.at(-1);
    if (last?.number === block.message) last.blocks.push(block);
    else messages.push({ number: block.message, role: roleOf(block), blocks: [block] });
  }
  return messages;
}

const roleOf = ({ kind }: Block) => (/^(reply|thinking|call)$/.test(kind) ? "assistant" : "user");

/** Whether the prompt cache was missed for another reason than a compaction. */
export const isMissed = ({ missed }: ModelCall) => missed !== undefined && missed.why !== "compaction";

/** Returns the fate of the blocks that a compaction takes out of the context. */
export function fateOfTaken({ trigger }: Compaction): "summarized" | "disk" | "withdrawn" {
  if (trigger === "micro") return "disk";
  return /^(refus|reject|clear)/.test(trigger) ? "withdrawn" : "summarized";
}

/** Returns what model calls cost in dollars, or nothing if no price is known. */
export const dollarsOf = (calls: { cost?: Cost }[]): number | undefined =>
  calls.some(({ cost }) => cost) ? sum(calls.map(({ cost }) => sumOf(cost))) : undefined;
