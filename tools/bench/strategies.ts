/** The ways to forget that the bench compares: s06 with other constants, and the programs of programs.ts. */

export type Strategy = {
  name: string;
  /** Values of constants that s06 exports, as they are written in its source. */
  constants?: Record<string, string>;
};

/** The first four are the rows that `npm run bench -- FOLDER` shows. */
export const STRATEGIES: Strategy[] = [
  { name: "never compacting", constants: { THRESHOLD: "1e9", LARGE_OUTPUT: "1e9", PAUSE: "0" } },
  { name: "textbook" },
  { name: "hosted clearing" },
  { name: "s06" },
  { name: "cached textbook" },
  { name: "cached textbook keeping read_file" },
  { name: "s06 with a limit of 50000", constants: { THRESHOLD: "50_000" } },
  { name: "s06 without pauses", constants: { PAUSE: "0" } },
  { name: "s06 with pauses above 40000", constants: { PAUSE_THRESHOLD: "40_000" } },
  { name: "s06 without layer 1", constants: { KEEP_RECENT: "1e9" } },
  { name: "s06 without a minimum saving", constants: { MIN_SAVINGS: "0" } },
  { name: "s06 without restored files", constants: { RESTORED: "0" } },
  { name: "s06 restoring 6000 tokens of files", constants: { RESTORED: "6_000" } },
  { name: "s06 restoring 20000 tokens of files", constants: { RESTORED: "20_000" } },
  { name: "s06 with large output from 20000", constants: { LARGE_OUTPUT: "20_000" } },
];

/** The source of s06 with other constants. @throws if one is not there exactly once */
export function sourceOf(s06: string, { name, constants = {} }: Strategy): string {
  let source = s06;
  for (const [constant, value] of Object.entries(constants)) {
    const pattern = new RegExp(`^(export const ${constant}(?:: \\w+)? = ).*?;(?= //|$)`, "gm");
    const times = [...source.matchAll(pattern)].length;
    if (times !== 1) throw new Error(`strategy "${name}": s06 has constant ${constant} ${times} times, not once`);
    source = source.replace(pattern, `$1${value};`);
  }
  return source;
}
