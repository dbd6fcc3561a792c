/** The ways to forget that the bench compares: s06 with other constants, one with another line, and a loop of its own. */

export type Strategy = {
  name: string;
  /** Values of constants that s06 exports, as they are written in its source. */
  constants?: Record<string, string>;
  /** What happens when a request finds the cache cold, in place of s06's line. */
  whenCold?: string;
};

const HELD_TO_50000 = `\
    const isTooLong = () => isCold && estimateTokens(messages, options) > 50_000;
    if (isTooLong()) clearOldResults(messages, options, 20_000);
    if (isTooLong()) await autoCompact(messages, "auto", options);`;

/** The first four are the rows that `npm run bench -- FOLDER` shows. The loop of `textbook` is in textbook.ts. */
export const STRATEGIES: Strategy[] = [
  { name: "never compacting", constants: { THRESHOLD: "Infinity", COLD: "Infinity", RESULT_LIMIT: "Infinity" } },
  { name: "textbook", constants: { PRESERVE_RESULT_TOOLS: "[]" } },
  { name: "nothing when cold", constants: { COLD: "Infinity" } },
  { name: "s06" },
  { name: "s06 from 5k", constants: { COLD_SAVINGS: "5_000" } },
  { name: "s06 from 10k", constants: { COLD_SAVINGS: "10_000" } },
  { name: "s06 from 30k", constants: { COLD_SAVINGS: "30_000" } },
  { name: "s06 from 10k with limit 120k", constants: { COLD_SAVINGS: "10_000", THRESHOLD: "120_000" } },
  { name: "s06 from 10k with limit 140k", constants: { COLD_SAVINGS: "10_000", THRESHOLD: "140_000" } },
  { name: "cold held to 50k", whenCold: HELD_TO_50000 },
];

/** The source of s06 with other constants, or another line. @throws if what they replace is not there exactly once */
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
  if (whenCold) replace("a line for a cold cache", /^ +if \(isCold\) .*$/gm, whenCold);
  return source;
}
