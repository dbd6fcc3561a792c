/** What the calls of replays add up to, as tables for the terminal and for docs/benchmarks.md. */
import type { Call, Replayed } from "./replay.ts";

/** Prices of Sonnet 5.5 and Opus 5.5, relative to input. */
export const READ = 0.05; // from the prompt cache
export const WRITE = 1.25; // to it
const OUTPUT = 5; // billed for summaries alone: what else was said, every strategy says

/** What a call costs, in tokens of input. */
export const priceOf = ({ context, read, written, output, isSummary }: Call) =>
  READ * read + WRITE * written + (context - read - written) + (isSummary ? OUTPUT * output : 0);

/** What the cost is made of, each in tokens of input. */
export type Parts = { reads: number; cold: number; fresh: number; summaries: number; rereading: number };

/** Of a session under a strategy. */
export type Figures = {
  parts: Parts;
  replies: number; // what the output would cost that is not in the parts
  edits: number; // of a text that the session had shown
  lost: string[]; // the paths of those for which it was no longer in the context
  summaries: number;
  returns: number; // requests after a pause in which the cache expired
  waits: number; // those that wait for a summary
};

const sum = <Item>(items: Item[], value: (item: Item) => number) => items.reduce((all, item) => all + value(item), 0);

export function figuresOf({ calls }: Replayed): Figures {
  const summaries = calls.filter((call) => call.isSummary);
  const others = calls.filter((call) => !call.isSummary);
  const edits = others.flatMap((call) => call.edits);
  const lost = edits.filter((edit) => edit.isLost);
  // What is read again is written to the cache, if there is one.
  const reading = calls.some((call) => call.written > 0) ? WRITE : 1;
  const isCold = ({ read, written }: Call) => read === 0 && written > 0;
  return {
    parts: {
      reads: sum(others, ({ read }) => READ * read),
      cold: sum(others.filter(isCold), priceOf),
      fresh: sum(others, (call) => (isCold(call) ? 0 : priceOf(call) - READ * call.read)),
      summaries: sum(summaries, priceOf),
      rereading: sum(lost, ({ source }) => reading * source.tokens),
    },
    replies: sum(others, ({ output }) => OUTPUT * output),
    edits: edits.length,
    lost: lost.map(({ path }) => path),
    summaries: summaries.length,
    returns: calls.filter((call) => call.isReturn).length,
    waits: summaries.filter((call) => call.isReturn).length,
  };
}

// --- results ---------------------------------------------------------------------------------------------------------

/** From and to. */
type Interval = [number, number];
/** A strategy. Costs are relative to never compacting, `grounded` and `summarized` are shares. */
export type Row = {
  cost: number;
  parts: Parts;
  grounded: number;
  summarized: number; // of the sessions
  waits: number;
  /** What is more or less than s06's: 90 % intervals over sessions. */
  overS06?: { cost: Interval; grounded: Interval };
};
export type Results = {
  code: string; // of s06
  sessions: number;
  rounds: number;
  edits: number;
  returns: number;
  replies: number; // what they would add to each cost
  strategies: Record<string, Row>;
};

/** In tokens of input. */
const costOf = ({ parts }: Figures) => sum(Object.values(parts), (part) => part);
const relativeCost = (own: Figures[], never: Figures[]) => sum(own, costOf) / sum(never, costOf);
const groundedIn = (own: Figures[]) => 1 - sum(own, ({ lost }) => lost.length) / sum(own, ({ edits }) => edits);

/** @param figures by strategy, for each session */
export function summed(figures: Map<string, Figures[]>): Omit<Results, "code" | "sessions" | "rounds"> {
  const never = figures.get("never compacting") ?? [];
  const s06 = figures.get("s06");
  const total = sum(never, costOf);
  const rowOf = (own: Figures[]): Row => {
    const part = (kind: keyof Parts) => sum(own, ({ parts }) => parts[kind]) / total;
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
      waits: sum(own, ({ waits }) => waits),
      overS06: s06 && own !== s06 ? differences(own, s06, never) : undefined,
    };
  };
  return {
    edits: sum(never, ({ edits }) => edits),
    returns: sum(never, ({ returns }) => returns),
    replies: sum(never, ({ replies }) => replies) / total,
    strategies: Object.fromEntries([...figures].map(([name, own]) => [name, rowOf(own)])),
  };
}

const DRAWS = 2_000;

/** Draws the sessions again, with replacement, and takes the middle 90 % of the differences. */
function differences(own: Figures[], s06: Figures[], never: Figures[]): Row["overS06"] {
  const costs: number[] = [];
  const grounded: number[] = [];
  let seed = 1; // the same draws each time, for each strategy
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
  return { cost: middle(costs), grounded: middle(grounded) };
}

function middle(values: number[]): Interval {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b); // some draws have no edits
  const at = (share: number) => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
  return [at(0.05), at(0.95)];
}

// --- tables ----------------------------------------------------------------------------------------------------------

const percent = (share: number) => (Number.isNaN(share) ? "no edits" : `${(100 * share).toFixed(1)} %`);
const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const between = ([from, to]: Interval = [0, 0], scale = 1, digits = 2) =>
  from < to ? `${signed(scale * from, digits)} to ${signed(scale * to, digits)}` : "";

/** Rows as a Markdown table, all columns but the first to the right; the first row is its head. */
function table([head = [], ...body]: string[][]): string {
  const widths = head.map((_, i) => Math.max(...[head, ...body].map((row) => row[i]?.length ?? 0), 3));
  const line = (row: string[]) => `| ${row.join(" | ")} |`;
  const padded = (row: string[]) =>
    line(widths.map((width, i) => (i ? (row[i] ?? "").padStart(width) : (row[i] ?? "").padEnd(width))));
  const ruler = line(widths.map((width, i) => (i ? `${"-".repeat(width - 1)}:` : "-".repeat(width))));
  return [padded(head), ruler, ...body.map(padded)].join("\n");
}

const IN_PARTS = ["never compacting", "s06", "cold held to 50k", "oracle when cold"];

/** The tables, by the name that the docs give them. */
export const tables: Record<string, (results: Results) => string> = {
  strategies: ({ strategies }) =>
    table([
      ["strategy", "cost", "vs s06", "grounded", "vs s06", "summarized", "waits"],
      ...Object.entries(strategies).map(([name, { cost, grounded, summarized, waits, overS06 }]) => [
        ...[name, cost.toFixed(2), between(overS06?.cost), percent(grounded), between(overS06?.grounded, 100, 1)],
        ...[`${Math.round(100 * summarized)} %`, `${waits}`],
      ]),
    ]),
  parts: ({ strategies }) =>
    table([
      ["strategy", "cache reads", "cold writes", "new tokens", "summaries", "rereading", "cost"],
      ...Object.entries(strategies)
        .filter(([name]) => IN_PARTS.includes(name))
        .map(([name, { parts, cost }]) => {
          const { reads, cold, fresh, summaries, rereading } = parts;
          return [name, ...[reads, cold, fresh, summaries, rereading, cost].map((each) => each.toFixed(2))];
        }),
    ]),
};

/** What s06 would have cost, and which sessions would have lost something. */
export function sentences(figures: Map<string, Figures[]>, names: string[]): string {
  const s06 = figures.get("s06");
  const never = figures.get("never compacting");
  if (!s06 || !never) return "";
  const dollars = (own: Figures[]) => `$${((2 * sum(own, costOf)) / 1e6).toFixed(2)}`;
  const ratio = relativeCost(s06, never).toFixed(2);
  const cost = `s06 would have cost ${ratio} of never compacting: ${dollars(s06)} instead of ${dollars(never)} at the prices of Sonnet 5.5, replies not counted.`;
  const edits = sum(s06, (each) => each.edits);
  const lost = sum(s06, (each) => each.lost.length);
  if (edits === 0) return `${cost}\nThe sessions have no edits.`;
  if (lost === 0) return `${cost}\nNone of its ${edits} edits would have lost the text that it replaces.`;
  const places = s06.flatMap((each, i) => {
    return each.lost.length > 0 ? [`${names[i]} (${[...new Set(each.lost)].join(", ")})`] : [];
  });
  const more = places.length > 3 ? `; and in ${places.length - 3} other sessions` : "";
  const where = places.slice(0, 3).join("; ") + more;
  return `${cost}\n${lost} of its ${edits} edits would have lost the text that they replace: in ${where}.`;
}
