/** Adds up the calls of replays, and makes tables of them for the terminal and docs/benchmarks.md. */
import { markdownTable } from "markdown-table";
import { dollarsForInput, IN_INPUT_TOKENS } from "../prices.ts";
import { sum } from "../trace/numbers.ts";
import type { Call, Replayed } from "./replay.ts";

const { read: READ, write: WRITE, output: OUTPUT } = IN_INPUT_TOKENS;

/** Returns the bill for a call in tokens of input. Only the output of summaries counts, since other replies never differ. */
export const billFor = ({ context, read, written, output, isSummary }: Call) =>
  READ * read + WRITE * written + (context - read - written) + (isSummary ? OUTPUT * output : 0);

/** The bill's parts, in tokens of input. */
export type Parts = {
  reads: number;
  cold: number; // prompts that find nothing in the cache
  fresh: number; // whatever is new in other prompts
  summaries: number;
  rereading: number; // texts that an edit needs and that were forgotten
};

/** One session under one strategy. */
export type Figures = {
  parts: Parts;
  replies: number; // the output of replies, which isn't among the parts
  edits: number; // edits of a text that the session had shown before
  lost: string[]; // the paths of edits whose text was no longer in the context
  summaries: number;
  returns: number; // requests after a pause that outlasted the cache
  waits: number; // returns that first waited for a summary
};

export function addUp({ calls }: Replayed): Figures {
  const summaries = calls.filter((call) => call.isSummary);
  const others = calls.filter((call) => !call.isSummary);
  const edits = others.flatMap((call) => call.edits);
  const lost = edits.filter((edit) => edit.isLost);
  // Reading a file again also writes it to the cache, unless the strategy uses none.
  const reading = calls.some((call) => call.written > 0) ? WRITE : 1;
  const isCold = ({ read, written }: Call) => read === 0 && written > 0;
  return {
    parts: {
      reads: sum(others.map(({ read }) => READ * read)),
      cold: sum(others.filter(isCold).map(billFor)),
      fresh: sum(others.map((call) => (isCold(call) ? 0 : billFor(call) - READ * call.read))),
      summaries: sum(summaries.map(billFor)),
      rereading: sum(lost.map(({ source }) => reading * source.tokens)),
    },
    replies: sum(others.map(({ output }) => OUTPUT * output)),
    edits: edits.length,
    lost: lost.map(({ path }) => path),
    summaries: summaries.length,
    returns: calls.filter((call) => call.isReturn).length,
    waits: summaries.filter((call) => call.isReturn).length,
  };
}

// --- results ---------------------------------------------------------------------------------------------------------

type Interval = [from: number, to: number];
/** One strategy. `grounded` and `summarized` are shares of the edits and of the sessions. */
export type Row = {
  cost: number; // relative to never compacting, as are the parts
  parts: Parts;
  grounded: number;
  summarized: number;
  waits: number;
  overS06?: { cost: Interval; grounded: Interval }; // 90 % intervals of the differences to s06
};
export type Results = {
  date: string; // of the measurement, as in 2026-11-24
  code: string; // the hash of the s06 that was measured
  sessions: number;
  rounds: number;
  edits: number;
  returns: number;
  replies: number; // how much the output of replies would add to each cost
  strategies: Record<string, Row>;
};

const totalBill = ({ parts }: Figures) => sum(Object.values(parts));
const relativeCost = (own: Figures[], never: Figures[]) => sum(own.map(totalBill)) / sum(never.map(totalBill));
const groundedIn = (own: Figures[]) => 1 - sum(own.map(({ lost }) => lost.length)) / sum(own.map(({ edits }) => edits));

/** `figures` has an entry per session for each strategy. */
export function toResults(figures: Map<string, Figures[]>): Omit<Results, "date" | "code" | "sessions" | "rounds"> {
  const never = figures.get("never compacting") ?? [];
  const s06 = figures.get("s06");
  const total = sum(never.map(totalBill));
  const rowOf = (own: Figures[]): Row => {
    const part = (kind: keyof Parts) => sum(own.map(({ parts }) => parts[kind])) / total;
    return {
      cost: relativeCost(own, never),
      parts: {
        reads: part("reads"),
        cold: part("cold"),
        fresh: part("fresh"),
        summaries: part("summaries"),
        rereading: part("rereading"),
      },
      grounded: groundedIn(own),
      summarized: own.filter(({ summaries }) => summaries > 0).length / own.length,
      waits: sum(own.map(({ waits }) => waits)),
      overS06: s06 && own !== s06 ? differences(own, s06, never) : undefined,
    };
  };
  return {
    edits: sum(never.map(({ edits }) => edits)),
    returns: sum(never.map(({ returns }) => returns)),
    replies: sum(never.map(({ replies }) => replies)) / total,
    strategies: Object.fromEntries([...figures].map(([name, own]) => [name, rowOf(own)])),
  };
}

const DRAWS = 2_000;

/** Bootstraps the intervals: draws the sessions again, with replacement. */
function differences(own: Figures[], s06: Figures[], never: Figures[]): Row["overS06"] {
  const costs: number[] = [];
  const grounded: number[] = [];
  let seed = 1; // fixed, so that results can be reproduced
  const draw = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % own.length;
  };
  for (let n = 0; n < DRAWS; n++) {
    const picks = own.map(draw);
    const pick = (figures: Figures[]) => picks.flatMap((i) => figures[i] ?? []);
    costs.push(relativeCost(pick(own), pick(never)) - relativeCost(pick(s06), pick(never)));
    grounded.push(groundedIn(pick(own)) - groundedIn(pick(s06)));
  }
  return { cost: middle90(costs), grounded: middle90(grounded) };
}

function middle90(values: number[]): Interval {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b); // some draws have no edits
  const at = (share: number) => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
  return [at(0.05), at(0.95)];
}

// --- tables ----------------------------------------------------------------------------------------------------------

/** Returns `96.5 %` for 0.965. */
export const percentOfEdits = (share: number) => (Number.isNaN(share) ? "no edits" : `${(100 * share).toFixed(1)} %`);
const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const interval = ([from, to]: Interval = [0, 0], scale = 1, digits = 2) =>
  from < to ? `${signed(scale * from, digits)} to ${signed(scale * to, digits)}` : "";

/** Aligns all columns but the first to the right. */
const figureTable = (rows: string[][]) =>
  markdownTable(rows, { align: ["", ...(rows[0] ?? []).slice(1).map(() => "r")] });

const IN_PARTS = ["never compacting", "s06", "cold held to 50k", "oracle when cold"];

/** The tables by their names in the docs. */
export const tables: Record<string, (results: Results) => string> = {
  strategies: ({ strategies }) =>
    figureTable([
      ["strategy", "cost", "vs s06", "grounded", "vs s06", "summarized", "waits"],
      ...Object.entries(strategies).map(([name, { cost, grounded, summarized, waits, overS06 }]) => {
        const costs = [cost.toFixed(2), interval(overS06?.cost)];
        const shares = [percentOfEdits(grounded), interval(overS06?.grounded, 100, 1)];
        return [name, ...costs, ...shares, `${Math.round(100 * summarized)} %`, `${waits}`];
      }),
    ]),
  parts: ({ strategies }) =>
    figureTable([
      ["strategy", "cache reads", "cold writes", "new tokens", "summaries", "rereading", "cost"],
      ...Object.entries(strategies)
        .filter(([name]) => IN_PARTS.includes(name))
        .map(([name, { parts, cost }]) => {
          const { reads, cold, fresh, summaries, rereading } = parts;
          return [name, ...[reads, cold, fresh, summaries, rereading, cost].map((each) => each.toFixed(2))];
        }),
    ]),
};

/** Says what s06 would have cost, and which sessions would have lost a text that an edit needs. */
export function verdictOn(figures: Map<string, Figures[]>, names: string[]): string {
  const s06 = figures.get("s06");
  const never = figures.get("never compacting");
  if (!s06 || !never) return "";
  const ratio = relativeCost(s06, never).toFixed(2);
  const [own, other] = [s06, never].map((all) => `$${dollarsForInput(sum(all.map(totalBill))).toFixed(2)}`);
  const cost = `s06 would have cost ${ratio} of never compacting: ${own} instead of ${other} at the prices of Sonnet 5.5, not counting replies.`;
  return `${cost}\n${lossesIn(s06, names)}`;
}

function lossesIn(s06: Figures[], names: string[]): string {
  const edits = sum(s06.map((each) => each.edits));
  const lost = sum(s06.map((each) => each.lost.length));
  if (edits === 0) return "The sessions have no edits.";
  if (lost === 0) return `None of its ${edits} edits would have lost the text to replace.`;
  const pathsOf = ({ lost: paths }: Figures) => [...new Set(paths)].join(", ");
  const places = s06.flatMap((each, i) => (each.lost.length > 0 ? `${names[i]} (${pathsOf(each)})` : []));
  const more = places.length > 3 ? `; and in ${places.length - 3} other sessions` : "";
  return `${lost} of its ${edits} edits would have lost the text to replace: in ${places.slice(0, 3).join("; ")}${more}.`;
}
