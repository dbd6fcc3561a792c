/** What the bench compares: s06 with other constants, and the tutorial's rule, each with one or more ways to cache. */
import type { Ttl } from "../../offline/api/schema.ts";

/** Where a prompt has cache marks, and how long what they cache lives. `cleared` is the last result that was cleared. */
export type Caching = { cleared?: Ttl; end?: Ttl };

/** A replay of s06 with changes to its source. It gives several rows if they only differ in caching: the texts are the same. */
export type Strategy = { changes: [from: RegExp, to: string][]; rows: Record<string, Caching | "as sent"> };

const constant = (name: string, value: string): [RegExp, string] => [
  new RegExp(`^((?:export )?const ${name} = )[^;]*;(?= //|$)`, "m"),
  `$1${value};`,
];
const NO_LIMITS = [constant("THRESHOLD", "Infinity"), constant("RESULT_LIMIT", "Infinity")];

/** `keep` is the last parameter of `compact`. */
const tutorial = (name: string, keep: string): Strategy => ({
  changes: [
    ...NO_LIMITS,
    [/^export async function compactIfNeeded\(/m, "export async function compactAsS06("],
    [/$/, 'import { tutorialRule } from "../tools/bench/tutorial.ts";\n'],
    [/$/, `const compactIfNeeded = tutorialRule(${keep});\n`],
  ],
  rows: {
    [`${name}, no cache`]: {},
    [`${name}, one mark`]: { end: "5m" },
    [`${name}, two marks`]: { cleared: "5m", end: "5m" },
    [`${name}, an hour`]: { cleared: "1h", end: "1h" },
    [`${name}, best marks`]: { cleared: "1h", end: "5m" },
  },
});

export const NEVER = "never compacting";
const TEXT = "tutorial's text"; // says nothing of files, so it clears them
const CODE = "tutorial's code";
/** The rows that are shown first. */
export const MAIN = [NEVER, `${NEVER}, an hour`, `${TEXT}, best marks`, `${CODE}, best marks`, "s06", "s06 at 50,000"];

const at = (threshold: string): Strategy => ({
  changes: [constant("THRESHOLD", threshold.replace(",", "_"))],
  rows: { [`s06 at ${threshold}`]: "as sent" },
});

export const STRATEGIES: Strategy[] = [
  { changes: NO_LIMITS, rows: { [NEVER]: { end: "5m" }, [`${NEVER}, an hour`]: "as sent" } },
  tutorial(TEXT, "[]"),
  tutorial(CODE, '["read_file"]'),
  { changes: [], rows: { s06: "as sent", "s06, five minutes": { end: "5m" } } },
  at("50,000"),
  at("80,000"),
  at("120,000"),
];

/** Returns s06's source as a strategy changes it. Throws if s06 lacks what should change. */
export function sourceOf(s06: string, { changes }: Strategy): string {
  return changes.reduce((source, [from, to]) => {
    if (!from.test(source)) throw new Error(`s06 lacks ${from}; change tools/bench/strategies.ts`);
    return source.replace(from, to);
  }, s06);
}
