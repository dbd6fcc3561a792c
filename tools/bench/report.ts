/** Adds up the calls of replays, and makes tables of them for the terminal and the pages. */
import { markdownTable, sum } from "../sessions/numbers.ts";
import { dollarsForInput, IN_INPUT_TOKENS } from "../sessions/prices.ts";
import type { Prompt } from "./caching.ts";
import type { Call } from "./replay.ts";
import { MAIN, NEVER } from "./strategies.ts";

const { read: READ, write: WRITE, writeForHour, output: OUTPUT } = IN_INPUT_TOKENS;
const DEAR_READ = 0.1; // on Haiku 5.5 and most other servers

/** One session in one row. Bills are in tokens of input. */
export type Figures = {
  bill: number; // for prompts, summaries and reading lost texts again
  read: number; // tokens read from the cache
  replies: number; // the bill for the output of replies, which is the same in every row
  edits: number; // edits of a text that the session had shown before
  lost: string[]; // the paths of edits whose text was no longer in the prompt
  summaries: number;
};

const billFor = ({ input, read, written, writtenForHour }: Prompt) =>
  input + READ * read + WRITE * (written - writtenForHour) + writeForHour * writtenForHour;

/** Adds up the calls of a session in a row, except those that count in another session. */
export function addUp(all: Call[], row: string): Figures {
  const calls = all.filter((call) => !call.isCopy);
  const prompts = calls.flatMap((call) => call.prompts[row] ?? []);
  const [summaries, replies] = [true, false].map((isSummary) => calls.filter((call) => call.isSummary === isSummary));
  const bill = sum(prompts.map(billFor)) + outputOf(summaries);
  const edits = calls.flatMap((call) => call.edits);
  const lost = edits.filter((edit) => edit.isLost);
  return {
    bill: bill + sum(lost.map(({ tokens }) => tokens)) * priceOfNewTokens(prompts),
    read: sum(prompts.map(({ read }) => read)),
    replies: outputOf(replies),
    edits: edits.length,
    lost: lost.map(({ path }) => path),
    summaries: summaries?.length ?? 0,
  };
}

const outputOf = (calls: Call[] = []) => OUTPUT * sum(calls.map(({ output }) => output));

/** What it costs to read a file again, which also writes it to the cache if there is one. */
function priceOfNewTokens(prompts: Prompt[]): number {
  if (prompts.some(({ writtenForHour }) => writtenForHour > 0)) return writeForHour;
  return prompts.some(({ written }) => written > 0) ? WRITE : 1;
}

// --- results ---------------------------------------------------------------------------------------------------------

/** Costs are relative to never compacting. `costAt10` is for models where a read costs 10 % of the input, and not 5 %. */
export type Row = {
  cost: number;
  costAt10: number;
  kept: number; // the share of edits whose text was still in the prompt
  summarized: number; // the share of sessions with a summary
};
export type Results = {
  date: string; // of the measurement, as in 2026-11-24
  code: string; // the hash of the s06 that was measured
  sessions: number;
  rounds: number;
  edits: number;
  replies: number; // how much the output of replies would add to each cost
  rows: Record<string, Row>;
};

const billOf = (figures: Figures[] = [], readPrice = READ) =>
  sum(figures.map(({ bill, read }) => bill + (readPrice - READ) * read));
const lostIn = (figures: Figures[] = []) => sum(figures.map(({ lost }) => lost.length));

/** `figures` has an entry per session for each row. */
export function toResults(figures: Map<string, Figures[]>): Pick<Results, "edits" | "replies" | "rows"> {
  const never = figures.get(NEVER) ?? [];
  const edits = sum(never.map((each) => each.edits));
  const rowOf = (own: Figures[]): Row => ({
    cost: billOf(own) / billOf(never),
    costAt10: billOf(own, DEAR_READ) / billOf(never, DEAR_READ),
    kept: 1 - lostIn(own) / edits,
    summarized: own.filter(({ summaries }) => summaries > 0).length / own.length,
  });
  return {
    edits,
    replies: sum(never.map(({ replies }) => replies)) / billOf(never),
    rows: Object.fromEntries([...figures].map(([name, own]) => [name, rowOf(own)])),
  };
}

// --- tables ----------------------------------------------------------------------------------------------------------

/** Returns `96 %` for 0.957. */
const percent = (share: number) => (Number.isNaN(share) ? "no edits" : `${Math.round(100 * share)} %`);

function table({ rows }: Results, isShown: (name: string) => boolean): string {
  const heads = ["rule", "cost", "reads at 0.1", "text still there", "summarized"];
  const cells = Object.entries(rows).flatMap(([name, { cost, costAt10, kept, summarized }]) =>
    isShown(name) ? [[name, cost.toFixed(2), costAt10.toFixed(2), percent(kept), percent(summarized)]] : [],
  );
  return markdownTable(["-", "-:", "-:", "-:", "-:"], [heads, ...cells], true);
}

/** The tables by their names in the pages. */
export const tables = {
  main: (results: Results) => table(results, (name) => MAIN.includes(name)),
  others: (results: Results) => table(results, (name) => !MAIN.includes(name)),
  tutorial: (results: Results) => table(results, (name) => name.startsWith("tutorial")),
  s06: (results: Results) => table(results, (name) => name.startsWith("s06")),
};

/** Says which of the main rows would have been cheapest, which would have lost most, and what s06 would have lost. */
export function verdictOn(figures: Map<string, Figures[]>): string {
  const rows = MAIN.map((name) => ({ name, bill: billOf(figures.get(name)), lost: lostIn(figures.get(name)) }));
  const [cheapest] = rows.toSorted((a, b) => a.bill - b.bill);
  const [worst] = rows.toSorted((a, b) => b.lost - a.lost);
  const dollars = (bill = 0) => `$${dollarsForInput(bill).toFixed(2)}`;
  const cost = `${cheapest?.name} would have cost least, ${dollars(cheapest?.bill)} instead of ${dollars(billOf(figures.get(NEVER)))}`;
  if (!worst?.lost) return `${cost}; no edit would have lost its text.`;
  return `${cost}; ${worst.name} would have lost most, the text of ${worst.lost} edits, and s06 that of ${lostIn(figures.get("s06"))}.`;
}
