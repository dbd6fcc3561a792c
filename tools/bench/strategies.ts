/** The ways to forget that the bench compares: s06 with other constants or lines, and the programs of programs.ts. */

export type Strategy = {
  name: string;
  /** Values of constants that s06 exports, as they are written in its source. */
  constants?: Record<string, string>;
  /** Lines of its source, and what stands in their place. */
  lines?: Record<string, string>;
  /** Summarizes a prompt of more than `limit` tokens `seconds` after a reply, while the user is away. The bench does that. */
  timer?: { seconds: number; limit: number };
  /** It was tried, and is not in s06. */
  isTried?: boolean;
};

const NEVER_COLD = { COLD: "Infinity" };
const COLD_AT_40000 = { COLD_THRESHOLD: "40_000" };
const AT_REQUESTS = "    if (isCacheCold) await compactIfNeeded(messages, options, COLD_THRESHOLD);";
const ONLY_LAYER_1 =
  "    if (isCacheCold && estimateTokens(messages, options) > COLD_THRESHOLD) clearOldResults(messages, options, COLD_THRESHOLD);";
const BEFORE_CALLS = "    await compactIfNeeded(messages, options);";
const COLD_BEFORE_CALLS =
  "    await compactIfNeeded(messages, options, isCold(options.state) ? COLD_THRESHOLD : THRESHOLD);";

/** The first four are the rows that `npm run bench -- FOLDER` shows. */
export const STRATEGIES: Strategy[] = [
  { name: "never compacting", constants: { THRESHOLD: "Infinity", LARGE_OUTPUT: "Infinity", ...NEVER_COLD } },
  { name: "textbook" },
  { name: "hosted clearing" },
  { name: "s06" },
  { name: "cached textbook keeping read_file" },
  { name: "s06 with a limit of 50000", constants: { THRESHOLD: "50_000" } },
  { name: "s06 without a cold limit", constants: NEVER_COLD },
  { name: "s06 without restored files", constants: { RECENT_FILES: "0" } },
  { name: "s06 with a cold limit of 40000", constants: COLD_AT_40000, isTried: true },
  { name: "s06 with a cold limit of 25000", constants: { COLD_THRESHOLD: "25_000" }, isTried: true },
  {
    name: "s06 with 40000 and 8 files of 8000",
    constants: { ...COLD_AT_40000, RECENT_FILES: "8", FILE_LIMIT: "8_000" },
    isTried: true,
  },
  { name: "s06 looking before every call", lines: { [BEFORE_CALLS]: COLD_BEFORE_CALLS }, isTried: true },
  { name: "s06 with only layer 1 when cold", lines: { [AT_REQUESTS]: ONLY_LAYER_1 }, isTried: true },
  { name: "s06 with a timer", constants: NEVER_COLD, timer: { seconds: 240, limit: 25_000 }, isTried: true },
];

/** The source of s06 with other constants and lines. @throws if one is not there exactly once */
export function sourceOf(s06: string, { name, constants = {}, lines = {} }: Strategy): string {
  let source = s06;
  const replace = (what: string, pattern: RegExp, text: string) => {
    const times = [...source.matchAll(pattern)].length;
    if (times !== 1) throw new Error(`strategy "${name}": s06 has ${what} ${times} times, not once`);
    source = source.replace(pattern, text);
  };
  for (const [constant, value] of Object.entries(constants)) {
    const pattern = new RegExp(`^(export const ${constant}(?:: \\w+)? = ).*?;(?= //|$)`, "gm");
    replace(`constant ${constant}`, pattern, `$1${value};`);
  }
  for (const [line, other] of Object.entries(lines)) {
    const pattern = new RegExp(`^${line.replace(/[^\w\s]/g, "\\$&")}(?= //|$)`, "gm");
    replace(`the line \`${line.trim()}\``, pattern, other);
  }
  return source;
}
