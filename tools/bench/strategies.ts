/** The bench compares these strategies: s06 with other constants, and the textbook with its own loop. */

/** `constants` has new values for constants of s06, as source text. */
export type Strategy = { name: string; constants?: Record<string, string> };

const FIVE_MINUTES = { HOUR: "0" }; // no pause is shorter, so s06 never asks for an hour
const NEVER = { THRESHOLD: "Infinity", COLD_SAVINGS: "Infinity", RESULT_LIMIT: "Infinity" };
const TEXTBOOK = { PRESERVE_RESULT_TOOLS: "[]" };

/** All are compared with the first. The loop of the textbook is in textbook.ts. */
export const MAIN: Strategy[] = [
  { name: "never compacting", constants: { ...NEVER, ...FIVE_MINUTES } },
  { name: "textbook", constants: TEXTBOOK },
  { name: "textbook, cached", constants: TEXTBOOK },
  { name: "s06" },
  { name: "s06 at 80,000", constants: { THRESHOLD: "80_000" } },
];
/** With --all and --public, sessions are replayed under these as well. */
export const OTHERS: Strategy[] = [
  { name: "s06 at 50,000", constants: { THRESHOLD: "50_000" } },
  { name: "s06, five minutes only", constants: FIVE_MINUTES },
  { name: "never compacting, with the hour", constants: NEVER },
];

/** Returns s06's source with the changes of a strategy. Throws unless each constant is declared exactly once. */
export function sourceOf(s06: string, { name, constants = {} }: Strategy): string {
  let source = s06;
  for (const [constant, value] of Object.entries(constants)) {
    const declaration = new RegExp(`^((?:export )?const ${constant} = ).*?;(?= //|$)`, "gm");
    const times = [...source.matchAll(declaration)].length;
    if (times !== 1) throw new Error(`strategy "${name}": s06 declares ${constant} ${times} times, not once`);
    source = source.replace(declaration, `$1${value};`);
  }
  return source;
}
