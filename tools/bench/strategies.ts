/** The bench compares these strategies: s06 with other constants or one other line, and the textbook with its own loop. */
import { COLD_LINE, COLD_LINES_AT_50000 } from "../lesson/wording.ts";

export type Strategy = {
  name: string;
  /** New values for exported constants of s06, as source text. */
  constants?: Record<string, string>;
  /** Replaces the line of s06 that acts when the cache is cold. */
  whenCold?: string;
};

/** `npm run bench -- FOLDER` runs the first four by default. The loop of `textbook` is in textbook.ts. */
export const STRATEGIES: Strategy[] = [
  {
    name: "never compacting",
    constants: { THRESHOLD: "Infinity", CACHE_SECONDS: "Infinity", RESULT_LIMIT: "Infinity" },
  },
  { name: "textbook", constants: { PRESERVE_RESULT_TOOLS: "[]" } },
  { name: "nothing when cold", constants: { CACHE_SECONDS: "Infinity" } },
  { name: "s06" },
  { name: "s06 from 5k", constants: { COLD_SAVINGS: "5_000" } },
  { name: "s06 from 10k", constants: { COLD_SAVINGS: "10_000" } },
  { name: "s06 from 30k", constants: { COLD_SAVINGS: "30_000" } },
  { name: "s06 from 10k with threshold 120k", constants: { COLD_SAVINGS: "10_000", THRESHOLD: "120_000" } },
  { name: "s06 from 10k with threshold 140k", constants: { COLD_SAVINGS: "10_000", THRESHOLD: "140_000" } },
  { name: "cold held to 50k", whenCold: COLD_LINES_AT_50000 },
];

/** Returns s06's source with the changes of a strategy. Throws unless each thing to replace occurs exactly once. */
export function sourceOf(s06: string, { name, constants = {}, whenCold }: Strategy): string {
  let source = s06;
  const replace = (what: string, pattern: RegExp, text: string) => {
    const times = [...source.matchAll(pattern)].length;
    if (times !== 1) throw new Error(`strategy "${name}": s06 has ${what} ${times} times, not once`);
    source = source.replace(pattern, text);
  };
  for (const [constant, value] of Object.entries(constants)) {
    replace(`constant ${constant}`, new RegExp(`^(export const ${constant} = ).*?;(?= //|$)`, "gm"), `$1${value};`);
  }
  if (whenCold) replace("a line for a cold cache", COLD_LINE, whenCold);
  return source;
}
