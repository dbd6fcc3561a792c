/** What the viewer shows of a session, and how to look things up in it. */
import type { Skipped, Usage } from "../sessions/conversation.ts";
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
  callId?: string;
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
  time?: number;
  before: Side;
  after: Side;
  /** Whether a model call wrote a summary for it. */
  isSummary: boolean;
  /** Of the model call that wrote its summary, if the file says that. */
  cost?: Cost;
  /** Blocks that are on both sides word for word. Thinking that became text is not one. */
  kept: number[];
};
export type Fate = "kept" | "thought" | "summarized" | "disk" | "withdrawn";
export type Timeline = {
  name: string;
  format: "s06" | "Claude Code";
  blocks: Block[];
  /** Each compaction begins an epoch: blocks by id, in their order. */
  epochs: number[][];
  moments: Moment[];
  compactions: Compaction[];
  /** What the user asked: the first model call with it, and its block. */
  requests: { moment: number; block: number }[];
  /** A kind, or `result:` and a tool; "" there is all the other tools. */
  series: string[];
  /** Tokens. `recorded`: in the compactions of a transcript. */
  limits: { tokens: number; source: "recorded" | "window" }[];
  /** Who says how large prompts are, and the characters per token of their blocks. */
  source: { by: "counted" | "recorded" | "assumed"; charsPerToken: number };
  skipped: Skipped[];
};
/** Why a file is no session. */
export type Fault = { fault: "empty" | "binary" | "text" | "json" };

/** The series that a block belongs to. */
export function seriesFor({ kind, tool }: Block, series: string[]): string {
  const name = kind === "result" ? `result:${tool}` : kind;
  return series.includes(name) ? name : "result:";
}

/** Tokens of a whole prompt. */
export const totalOf = ({ input, read, written }: Usage) => input + read + written;

/** What became of a block of the context before a compaction. */
export function fatesOf({ blocks, epochs }: Timeline, compaction: Compaction): Map<number, Fate> {
  const { before, after, kept } = compaction;
  const extents = (extent: Extent) => epochs[extent.epoch]?.slice(0, extent.length) ?? [];
  const isKept = new Set(kept);
  const replaced = new Set(extents(after).map((id) => blocks[id]?.original));
  const thoughts = new Set(extents(after).map((id) => blocks[id]?.thought));
  return new Map(
    extents(before).map((id) => {
      if (isKept.has(id)) return [id, "kept"];
      if (thoughts.has(id)) return [id, "thought"];
      if (replaced.has(id) || blocks[id]?.original !== undefined) return [id, "disk"];
      return [id, isWithdrawal(compaction) ? "withdrawn" : isClearing(compaction) ? "disk" : "summarized"];
    }),
  );
}

/** The blocks of a request or of a side of a compaction, in their order. */
export function blocksAt({ blocks, epochs }: Pick<Timeline, "blocks" | "epochs">, { epoch, length }: Extent): Block[] {
  return (epochs[epoch]?.slice(0, length) ?? []).flatMap((id) => blocks[id] ?? []);
}

export const charsOf = (timeline: Pick<Timeline, "blocks" | "epochs">, extent: Extent): number =>
  blocksAt(timeline, extent).reduce((sum, { chars }) => sum + chars, 0);

/** Tokens of the largest prompt. */
export const largestOf = ({ moments }: Pick<Timeline, "moments">): number =>
  moments.reduce((most, { tokens }) => Math.max(most, tokens), 0);

/** Dollars of the most expensive model call. */
export const dearestOf = ({ moments }: Pick<Timeline, "moments">): number =>
  moments.reduce((most, { cost }) => Math.max(most, sumOf(cost)), 0);

/** Whether the prompt cache was missed. What a compaction makes new is written to it, and not missed. */
export const isMissed = ({ missed }: Moment) => missed !== undefined && missed.why !== "compaction";
export const isClearing = ({ trigger }: Compaction) => trigger === "micro";
export const isWithdrawal = ({ trigger }: Compaction) => /^(refus|reject|clear)/.test(trigger);

/** Dollars of some model calls, or of those for summaries; nothing if the price of none is known. */
export const dollarsOf = (calls: { cost?: Cost }[]): number | undefined =>
  calls.some(({ cost }) => cost) ? calls.reduce((sum, { cost }) => sum + sumOf(cost), 0) : undefined;
