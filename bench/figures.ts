/** What the calls of a replay add up to. */
import type { Call, Replayed } from "./replay.ts";

/** Prices of reading from the prompt cache, relative to input: of most models, of Sonnet 5.5 and Opus 5.5, and the lowest. */
export const READ_PRICES = [0.1, 0.05, 0.025];
/** The other prices, relative to input. Output is billed for summaries alone: what else was said, every strategy says. */
const WRITE = 1.25;
const OUTPUT = 5;

export type Figures = {
  /** For each of READ_PRICES: what the calls cost, in tokens of input, and what the edits that had lost their text add. */
  costs: number[];
  requests: number;
  summaries: number;
  rejected: number;
  /** Tokens. */
  written: number;
  read: number;
  uncached: number;
  largest: number;
  mean: number;
  /** Edits of a text that the session had shown, and the share of them for which it was still in the context. */
  edits: number;
  grounded: number;
  /** The requests after a round of ten or more parallel calls, and their tokens. */
  wide: { requests: number; written: number; read: number };
};

const sum = (calls: Call[], value: (call: Call) => number) => calls.reduce((total, call) => total + value(call), 0);

export function figuresOf(replayed: Replayed[]): Figures {
  const calls = replayed.flatMap((each) => each.calls);
  const wide = calls.filter((call) => call.isWide);
  const uncached = ({ context, read, written }: Call) => context - read - written;
  const edits = sum(calls, (call) => call.edits);
  // What is read again is written to the cache, if there is one.
  const reading = sum(calls, (call) => call.written) > 0 ? WRITE : 1;
  const bill = (price: number) =>
    sum(
      calls,
      (call) =>
        price * call.read +
        WRITE * call.written +
        uncached(call) +
        (call.isSummary ? OUTPUT * call.output : 0) +
        reading * call.again,
    );
  return {
    costs: READ_PRICES.map(bill),
    requests: calls.length,
    summaries: calls.filter((call) => call.isSummary).length,
    rejected: replayed.flatMap((each) => each.rejected).length,
    written: sum(calls, (call) => call.written),
    read: sum(calls, (call) => call.read),
    uncached: sum(calls, uncached),
    largest: Math.max(...calls.map((call) => call.context)),
    mean: Math.round(sum(calls, (call) => call.context) / calls.length),
    edits,
    grounded: sum(calls, (call) => call.grounded) / edits,
    wide: {
      requests: wide.length,
      written: sum(wide, (call) => call.written),
      read: sum(wide, (call) => call.read),
    },
  };
}
