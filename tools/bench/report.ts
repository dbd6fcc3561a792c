/** Adds up the calls of replays, and makes tables of them for the terminal and docs/benchmarks.md. */
import { markdownTable } from "markdown-table";
import { sum } from "../sessions/numbers.ts";
import { dollarsForInput, IN_INPUT_TOKENS } from "../sessions/prices.ts";
import type { Call } from "./replay.ts";
import { MAIN } from "./strategies.ts";

const { read: READ, write: WRITE, writeForHour, output: OUTPUT } = IN_INPUT_TOKENS;
const DEAR_READ = 0.1; // on Haiku 5.5 and most other servers

/** Returns the bill for a call in tokens of input. Only the output of summaries counts, since other replies never differ. */
export const billFor = ({ input, read, written, writtenForHour, output, isSummary }: Call) =>
  input + READ * read + WRITE * written + (writeForHour - WRITE) * writtenForHour + (isSummary ? OUTPUT * output : 0);

/** One session under one strategy. */
export type Figures = {
  bill: number; // for prompts, summaries and reading lost texts again
  read: number; // tokens read from the cache
  replies: number; // the bill for the output of replies
  edits: number; // edits of a text that the session had shown before
  lost: string[]; // the paths of edits whose text was no longer in the context
  summaries: number;
};

export function addUp(calls: Call[]): Figures {
  const replies = calls.filter((call) => !call.isSummary);
  const edits = calls.flatMap((call) => call.edits);
  const lost = edits.filter((edit) => edit.isLost);
  // Reading a file again also writes it to the cache, unless the strategy uses none.
  const reading = calls.some((call) => call.written > 0) ? WRITE : 1;
  return {
    bill: sum(calls.map(billFor)) + sum(lost.map(({ source }) => reading * source.tokens)),
    read: sum(calls.map(({ read }) => read)),
    replies: sum(replies.map(({ output }) => OUTPUT * output)),
    edits: edits.length,
    lost: lost.map(({ path }) => path),
    summaries: calls.length - replies.length,
  };
}

// --- results ---------------------------------------------------------------------------------------------------------

/** Costs are relative to never compacting. `costAt10` is for models that charge 10 % for a read, instead of 5 %. */
type Compared<Value> = { cost: Value; costAt10: Value; grounded: Value };
type Interval = [from: number, to: number];
/** One strategy. `grounded` and `summarized` are shares of the edits and of the sessions. */
export type Row = Compared<number> & {
  summarized: number;
  overS06?: Compared<Interval>; // 90 % intervals of the differences to s06
};
export type Results = {
  date: string; // of the measurement, as in 2026-11-24
  code: string; // the hash of the s06 that was measured
  sessions: number;
  rounds: number;
  edits: number;
  replies: number; // how much the output of replies would add to each cost
  strategies: Record<string, Row>;
};

const billOf = (figures: Figures[], readPrice = READ) =>
  sum(figures.map(({ bill, read }) => bill + (readPrice - READ) * read));

function compare(own: Figures[], never: Figures[]): Compared<number> {
  const lost = sum(own.map((each) => each.lost.length));
  return {
    cost: billOf(own) / billOf(never),
    costAt10: billOf(own, DEAR_READ) / billOf(never, DEAR_READ),
    grounded: 1 - lost / sum(own.map(({ edits }) => edits)),
  };
}

/** `figures` has an entry per session for each strategy. */
export function toResults(figures: Map<string, Figures[]>): Pick<Results, "edits" | "replies" | "strategies"> {
  const never = figures.get("never compacting") ?? [];
  const s06 = figures.get("s06");
  const rowOf = (own: Figures[]): Row => ({
    ...compare(own, never),
    summarized: own.filter(({ summaries }) => summaries > 0).length / own.length,
    overS06: s06 && own !== s06 ? differences(own, s06, never) : undefined,
  });
  return {
    edits: sum(never.map(({ edits }) => edits)),
    replies: sum(never.map(({ replies }) => replies)) / billOf(never),
    strategies: Object.fromEntries([...figures].map(([name, own]) => [name, rowOf(own)])),
  };
}

const DRAWS = 2_000;

/** Bootstraps the intervals: draws the sessions again, with replacement. */
function differences(own: Figures[], s06: Figures[], never: Figures[]): Compared<Interval> {
  let seed = 1; // fixed, so that results can be reproduced
  const draw = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % own.length;
  };
  const draws = Array.from({ length: DRAWS }, () => {
    const picks = own.map(draw);
    const pick = (figures: Figures[]) => picks.flatMap((i) => figures[i] ?? []);
    return { own: compare(pick(own), pick(never)), s06: compare(pick(s06), pick(never)) };
  });
  const over = (kind: keyof Compared<number>) => middle90(draws.map((each) => each.own[kind] - each.s06[kind]));
  return { cost: over("cost"), costAt10: over("costAt10"), grounded: over("grounded") };
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

const HEADS = ["strategy", "cost", "vs s06", "cost, reads at 0.1", "vs s06", "grounded", "vs s06", "summarized"];

export const isMain = (name: string) => MAIN.some((strategy) => strategy.name === name);

function comparison({ strategies }: Results, isChosen: (name: string) => boolean): string {
  const chosen = Object.entries(strategies).filter(([name]) => isChosen(name));
  const rows = chosen.map(([name, { cost, costAt10, grounded, summarized, overS06 }]) => [
    name,
    ...[cost.toFixed(2), interval(overS06?.cost), costAt10.toFixed(2), interval(overS06?.costAt10)],
    ...[percentOfEdits(grounded), interval(overS06?.grounded, 100, 1), `${Math.round(100 * summarized)} %`],
  ]);
  return markdownTable([HEADS, ...rows], { align: ["", ...HEADS.slice(1).map(() => "r")] });
}

/** The tables by their names in the docs. */
export const tables = {
  strategies: (results: Results) => comparison(results, isMain),
  others: (results: Results) => comparison(results, (name) => !isMain(name)),
};

/** Says what s06 would have cost, and which sessions would have lost a text that an edit needs. */
export function verdictOn(figures: Map<string, Figures[]>, names: string[]): string {
  const [s06 = [], never = []] = [figures.get("s06"), figures.get("never compacting")];
  const [own, other] = [s06, never].map((all) => `$${dollarsForInput(billOf(all)).toFixed(2)}`);
  const edits = sum(s06.map((each) => each.edits));
  const lost = s06.flatMap((each) => each.lost).length;
  const pathsOf = ({ lost: paths }: Figures) => [...new Set(paths)].join(", ");
  const places = s06.flatMap((each, i) => (each.lost.length > 0 ? `${names[i]} (${pathsOf(each)})` : []));
  return `s06 would have cost ${own} instead of ${other} at the prices of Sonnet 5.5, not counting replies.
${lost} of its ${edits} edits would have lost the text to replace${lost > 0 ? `: ${places.join("; ")}` : ""}.`;
}
