/** What the calls of replays add up to, as tables for the terminal and for docs/benchmarks.md. */
import type { Call, Replayed } from "./replay.ts";
import { STRATEGIES } from "./strategies.ts";

/** Prices of reading from the prompt cache, relative to input: of most models, and of Sonnet 5.5 and Opus 5.5. */
export const READ_PRICES = [0.1, 0.05];
/** The other prices. Output is billed for summaries alone: what else was said, every strategy says. */
const WRITE = 1.25;
const OUTPUT = 5;

export type Figures = {
  /** For each of READ_PRICES, in tokens of input: all calls, and reading again what edits had lost. */
  costs: number[];
  requests: number;
  summaries: number;
  rejected: number;
  /** Requests of more than 5,000 tokens that found nothing in the cache. */
  cold: number;
  /** Tokens of context. */
  largest: number;
  mean: number;
  /** Edits of a text that the session had shown, and those for which it was still in the context. */
  edits: number;
  grounded: number;
  /** Those, and the ones in files that the agent had touched again since the last summary. */
  touched: number;
};
export type Results = {
  sessions: { name: string; requests: number; rounds: number; isTimed: boolean; edits: number }[];
  strategies: Record<string, Figures & { sessions?: Record<string, Figures> }>;
};

const sum = (calls: Call[], value: (call: Call) => number) => calls.reduce((total, call) => total + value(call), 0);

export function figuresOf(replayed: Replayed[]): Figures {
  const calls = replayed.flatMap((each) => each.calls);
  // What is read again is written to the cache, if there is one.
  const reading = calls.some((call) => call.written > 0) ? WRITE : 1;
  const bill = (price: number) =>
    sum(calls, ({ context, read, written, again, output, isSummary }) => {
      const input = price * read + WRITE * written + (context - read - written);
      return input + reading * again + (isSummary ? OUTPUT * output : 0);
    });
  const edits = sum(calls, (call) => call.edits);
  const grounded = edits - sum(calls, (call) => call.lost.length);
  return {
    costs: READ_PRICES.map(bill),
    requests: calls.length,
    summaries: calls.filter((call) => call.isSummary).length,
    rejected: replayed.flatMap((each) => each.rejected).length,
    cold: calls.filter((call) => call.read === 0 && call.context > 5_000).length,
    largest: Math.max(...calls.map((call) => call.context)),
    mean: Math.round(sum(calls, (call) => call.context) / calls.length),
    ...{ edits, grounded, touched: grounded + sum(calls, (call) => call.touched) },
  };
}

const count = (value: number) => Math.round(value).toLocaleString("en-US");
const thousands = (tokens: number) => `${count(tokens / 1000)}k`;
const share = ({ grounded, edits }: Figures) => (edits > 0 ? `${((100 * grounded) / edits).toFixed(1)} %` : "no edits");
const ratio = (figures: Figures, base?: Figures, i = 1) =>
  ((figures.costs[i] ?? 0) / (base?.costs[i] ?? Number.NaN)).toFixed(2);

/** Rows as a Markdown table, all columns but the first to the right; the first row is its head. */
function table([head = [], ...body]: string[][]): string {
  const widths = head.map((_, i) => Math.max(...[head, ...body].map((row) => row[i]?.length ?? 0), 3));
  const line = (row: string[]) => `| ${row.join(" | ")} |`;
  const padded = (row: string[]) =>
    line(widths.map((width, i) => (i ? (row[i] ?? "").padStart(width) : (row[i] ?? "").padEnd(width))));
  const ruler = line(widths.map((width, i) => (i ? `${"-".repeat(width - 1)}:` : "-".repeat(width))));
  return [padded(head), ruler, ...body.map(padded)].join("\n");
}

/** Names of the strategies that were tried and are not in s06. */
export const tried = STRATEGIES.filter(({ isTried }) => isTried).map(({ name }) => name);

function strategiesTable(strategies: Results["strategies"], isShown: (name: string) => boolean): string {
  const base = strategies["never compacting"];
  const head = ["strategy", "cost", "read at 0.1×", "grounded", "largest", "mean", "summaries", "cold"];
  const shown = Object.entries(strategies).filter(([name]) => isShown(name));
  const rows = shown.map(([name, each]) => [
    ...[name, ratio(each, base), ratio(each, base, 0), share(each)],
    ...[thousands(each.largest), thousands(each.mean), `${each.summaries}`, `${each.cold}`],
  ]);
  return table([head, ...rows]);
}

/** The tables, by the name that the docs give them. */
export const tables: Record<string, (results: Results) => string> = {
  sessions: ({ sessions }) =>
    table([
      ["session", "requests", "rounds", "edits of a text seen before"],
      ...sessions.map(({ name, requests, rounds, edits }) => [name, `${requests}`, `${rounds}`, `${edits}`]),
    ]),
  strategies: ({ strategies }) => strategiesTable(strategies, () => true),
  compared: ({ strategies }) => strategiesTable(strategies, (name) => !tried.includes(name)),
  tried: ({ strategies }) => strategiesTable(strategies, (name) => name === "s06" || tried.includes(name)),
  "per session": ({ sessions, strategies }) =>
    table([
      ["strategy", ...sessions.map(({ name }) => name.replace(".jsonl", ""))],
      ...Object.entries(strategies).map(([name, each]) => [
        name,
        ...sessions.map(({ name: session }) => {
          const figures = each.sessions?.[session];
          return figures
            ? `${ratio(figures, strategies["never compacting"]?.sessions?.[session])}, ${share(figures)}`
            : "";
        }),
      ]),
    ]),
};

/** What s06 would have cost, and where it would have lost something. `lost`: the paths of such edits, by session. */
export function sentences({ strategies }: Results, lost: Record<string, string[]>): string {
  const { s06, "never compacting": never } = strategies;
  if (!s06 || !never) return "";
  const dollars = (each: Figures) => `$${((2 * (each.costs[1] ?? 0)) / 1e6).toFixed(2)}`;
  const cost = `s06 would have cost ${ratio(s06, never)} of never compacting: ${dollars(s06)} instead of ${dollars(never)} at the prices of Sonnet 5.5, replies not counted.`;
  const places = Object.entries(lost).flatMap(([session, paths]) => {
    return paths.length > 0 ? [`${session} (${[...new Set(paths)].join(", ")})`] : [];
  });
  const gone = s06.edits - s06.grounded;
  if (gone === 0) return `${cost}\nNone of its ${s06.edits} edits would have lost the text that it replaces.`;
  const more = places.length > 3 ? `, and in ${places.length - 3} other sessions` : "";
  const where = places.slice(0, 3).join("; ") + more;
  return `${cost}\n${gone} of its ${s06.edits} edits would have lost the text that they replace: in ${where}.`;
}
