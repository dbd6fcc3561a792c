/** What the viewer shows of a session, and how to look things up in it. */
import type { Skipped, Usage } from "./conversation.ts";
import { sum } from "./numbers.ts";
import { type Cost, sumOf } from "./prices.ts";

/** `client`: in the user's name, but not by the user. `unexplained`: counted, but not in the file. */
export type Kind = "unexplained" | "request" | "client" | "reply" | "thinking" | "call" | "result" | "summary" | "file";
export type Block = {
  id: number;
  kind: Kind;
  /** Of calls and results: the name of the tool. */
  tool?: string;
  /** Its first line, or a call's tool and first argument. */
  label: string;
  text: string;
  /** As JSON, which is how s06 counts. */
  chars: number;
  /** The first model call after it. */
  since: number;
  callId?: string;
  /** The message it belongs to: blocks of one message have the same number. */
  message: number;
  /** The result that this line replaced. */
  original?: number;
  /** The thinking that this text was. */
  thought?: number;
};
/** The first `length` blocks of an epoch. */
export type Extent = { epoch: number; length: number };
/** How large a prompt is: its tokens, those that no block in the file explains, and an estimate for the blocks. */
export type Size = { tokens: number; unexplained: number; charsPerToken: number };
/** A request to the model. Times are milliseconds. */
export type Moment = Extent &
  Size & {
    time?: number;
    /** Since the request before. */
    gap?: number;
    missed?: Missed;
    /** Tokens, as in `Timeline.series`. */
    sizes: number[];
    usage?: Usage;
    /** Whether its output is an estimate from the blocks, as the file has only a part of the count. */
    isEstimate: boolean;
    model?: string;
    /** Dollars, if the model's price is known. */
    cost?: Cost;
    /** The newest of `Timeline.requests` at it. */
    request: number;
  };
/** Why `tokens` of the prompt were not read from the cache. What is new since the prompt before is not among them. */
export type Missed = { why: "pause" | "compaction" | "model" | "changed"; tokens: number };
/** One side of a compaction; `by`: who says how large it is. `next`: the prompt after it was counted. */
export type Side = Extent & Size & { by: "file" | "next" | "estimate" };
export type Compaction = {
  /** The first request after it; `moments.length` if there is none. */
  moment: number;
  trigger: string;
  before: Side;
  after: Side;
  /** Whether a model call wrote a summary for it. */
  isSummary: boolean;
  /** Of the model call that wrote its summary, if the file has them. */
  usage?: Usage;
  cost?: Cost;
};
export type Fate = "kept" | "thought" | "summarized" | "disk" | "withdrawn";
/** How many tokens a prompt may have: up to s06's threshold, or the model's context window. */
export type Capacity = { tokens: number; kind: "threshold" | "window" };
export type Timeline = {
  format: "s06" | "Claude Code";
  blocks: Block[];
  /** Each compaction begins an epoch: blocks by id, in their order. */
  epochs: number[][];
  moments: Moment[];
  compactions: Compaction[];
  /** The model call with the largest prompt. */
  largest: number;
  /** What the user asked: the first model call with it, and its block. */
  requests: { moment: number; block: number }[];
  /** A kind, or `result:` and a tool; "" there is all the other tools. */
  series: string[];
  capacity?: Capacity;
  /** Whether the API counted the prompts; if not, they are estimates. */
  isCounted: boolean;
  /** Of the blocks: always an estimate. */
  charsPerToken: number;
  skipped: Skipped[];
};
/** What is shown: a model call or a compaction, by its index. */
export type Step = { call?: number; compaction?: number };

/** The series that a block belongs to. */
export function seriesFor({ kind, tool }: Block, series: string[]): string {
  const name = kind === "result" ? `result:${tool}` : kind;
  return series.includes(name) ? name : "result:";
}

/** Tokens of a whole prompt. */
export const totalOf = ({ input, read, written }: Usage) => input + read + written;

/** What became of a block of the context before a compaction. */
export function fatesOf(timeline: Timeline, compaction: Compaction): Map<number, Fate> {
  const left = blocksAt(timeline, compaction.after);
  const kept = new Set(left.map(({ id }) => id));
  const replaced = new Set(left.map(({ original }) => original));
  const thoughts = new Set(left.map(({ thought }) => thought));
  const taken = takenBy(compaction);
  const fateOf = ({ id, original }: Block): Fate => {
    if (kept.has(id)) return "kept";
    if (thoughts.has(id)) return "thought";
    return replaced.has(id) || original !== undefined ? "disk" : taken;
  };
  return new Map(blocksAt(timeline, compaction.before).map((block) => [block.id, fateOf(block)]));
}

/** The blocks of a request or of a side of a compaction, in their order. */
export function blocksAt({ blocks, epochs }: Pick<Timeline, "blocks" | "epochs">, { epoch, length }: Extent): Block[] {
  return (epochs[epoch]?.slice(0, length) ?? []).flatMap((id) => blocks[id] ?? []);
}

/** A message keeps its number when a compaction leaves it in place. */
export type Message = { number: number; role: "user" | "assistant"; blocks: Block[] };

/** The messages of a request or of a side of a compaction, without the first `skipped` blocks. */
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

/** Whether the prompt cache was missed. What a compaction makes new is written to it, and not missed. */
export const isMissed = ({ missed }: Moment) => missed !== undefined && missed.why !== "compaction";

/** What a compaction does to the blocks it takes. */
export function takenBy({ trigger }: Compaction): "summarized" | "disk" | "withdrawn" {
  if (trigger === "micro") return "disk";
  return /^(refus|reject|clear)/.test(trigger) ? "withdrawn" : "summarized";
}

/** Dollars of some model calls, or of those for summaries; nothing if the price of none is known. */
export const dollarsOf = (calls: { cost?: Cost }[]): number | undefined =>
  calls.some(({ cost }) => cost) ? sum(calls.map(({ cost }) => sumOf(cost))) : undefined;
