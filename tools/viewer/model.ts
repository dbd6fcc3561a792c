/** What the viewer shows of a session, and how to look things up in it. */
export type Kind = "system" | "request" | "reply" | "thinking" | "call" | "result" | "summary" | "file";
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
};
/** Tokens as the API counted them. `isHour`: the cache entry lives an hour, not five minutes. */
export type Usage = { input: number; read: number; written: number; output: number; isHour: boolean };
/** The first `length` blocks of an epoch. */
export type Extent = { epoch: number; length: number };
/** A request to the model. Times are milliseconds. */
export type Moment = Extent & {
  time?: number;
  /** Since the request before. */
  gap?: number;
  /** Whether the gap was longer than the prompt cache lives. */
  isCold: boolean;
  /** Of the whole prompt. */
  tokens: number;
  /** Of the system prompt and the tools, which are not in the file. */
  system: number;
  /** Of all other blocks. */
  charsPerToken: number;
  /** Tokens, as in `Timeline.series`. */
  sizes: number[];
  usage?: Usage;
};
export type Compaction = {
  /** The first request after it; `moments.length` if there is none. */
  moment: number;
  trigger: string;
  time?: number;
  before: Extent & { tokens: number };
  after: Extent & { tokens: number };
  /** Blocks that are on both sides word for word. Thinking that became text is another block. */
  kept: number[];
};
export type Fate = "kept" | "summarized" | "disk" | "withdrawn";
export type Skipped = { reason: string; count: number; lines: number[] };
export type Timeline = {
  name: string;
  format: "s06" | "Claude Code";
  blocks: Block[];
  /** Each compaction begins an epoch: blocks by id, in their order. */
  epochs: number[][];
  moments: Moment[];
  compactions: Compaction[];
  /** A kind, or `result:` and a tool; "" there is all the other tools. */
  series: string[];
  /** Tokens. `inferred`: from where old results must have been cleared. */
  limits: { tokens: number; source: "inferred" | "window" }[];
  source: {
    by: "counted" | "recorded" | "assumed";
    /** Of most requests, from and to. */
    charsPerToken: [number, number];
    isSystemKnown: boolean;
    /** Whether old results were cleared that are still shown, as nothing tells where. */
    isUnclear: boolean;
  };
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
export function fatesOf({ blocks, epochs }: Timeline, { before, after, kept, trigger }: Compaction): Map<number, Fate> {
  const extents = (extent: Extent) => epochs[extent.epoch]?.slice(0, extent.length) ?? [];
  const isKept = new Set(kept);
  const replaced = new Set(extents(after).map((id) => blocks[id]?.original));
  return new Map(
    extents(before).map((id) => {
      if (isKept.has(id)) return [id, "kept"];
      if (replaced.has(id) || blocks[id]?.original !== undefined) return [id, "disk"];
      return [id, /^(refus|reject)/.test(trigger) ? "withdrawn" : "summarized"];
    }),
  );
}

/** The blocks of a request or of a side of a compaction, in their order. */
export function blocksAt({ blocks, epochs }: Timeline, { epoch, length }: Extent): Block[] {
  return (epochs[epoch]?.slice(0, length) ?? []).flatMap((id) => blocks[id] ?? []);
}

/** Tokens of the largest prompt. */
export const largestOf = ({ moments }: Pick<Timeline, "moments">): number =>
  moments.reduce((most, { tokens }) => Math.max(most, tokens), 0);
