/**
 * The ways to forget that the bench compares. All of them are s06 itself: with other variables in its environment, with a
 * few of its lines exchanged, or both. A line that is not there exactly once is an error, so that no strategy can turn
 * into another one unnoticed when s06 changes.
 */

export type Strategy = {
  name: string;
  env?: Record<string, string>;
  /** Lines of s06 and what stands in their place. */
  patch?: [before: string, after: string][];
};

const NEVER = "1000000000";

/** The summary of the original: a call of its own with the history as JSON text, of which the first 80,000 characters. */
const summaryOfText = (end: string): [string, string][] => [
  [
    "callModel([...history, question], { system, tools, signal }, true)",
    `callModel([{ role: "user", content: request + JSON.stringify(history)${end} }], { tools: [], signal }, true)`,
  ],
];
const WITHOUT_CACHE: [string, string][] = [['cache_control: { type: "ephemeral" },', ""]];
const ONE_BREAKPOINT: [string, string][] = [["messages: withBreakpoint(messages),", "messages,"]];
const WITHOUT_TAIL: [string, string][] = [["const KEEP_MESSAGES = 5;", "const KEEP_MESSAGES = 0;"]];
const WITHOUT_FILES: [string, string][] = [["{ files: 5, tokens: 5_000 }", "{ files: 0, tokens: 5_000 }"]];
const ORIGINAL = {
  env: { COMPACT_TEXTBOOK: "1", COMPACT_PRESERVE: "none" },
  patch: [...summaryOfText(".slice(0, 80_000)"), ...ONE_BREAKPOINT, ...WITHOUT_TAIL, ...WITHOUT_FILES],
};

/** The hosted `clear_tool_uses_20250919` by default: all but 3 results on each call from 100,000 tokens of input on. */
const HOSTED: [string, string][] = [
  ["let complained = false;", "let complained = false;\nlet freed = 0;"],
  [
    "if (!TEXTBOOK && estimateTokens(messages) <= limit) return;",
    "if (estimateTokens(messages) + freed > 100_000) freed += microCompact(messages).saved;\n  if (limit) return;",
  ],
];

/**
 * Forget when carrying what came since the last compaction has cost `times` what a compaction costs, or at 150,000 tokens.
 * @param first the same when a request has just arrived
 */
const rent = (first: number, times: number): [string, string][] => [
  ["let complained = false;", "let complained = false;\nconst RENT = { paid: 0, from: 0 };"],
  [
    "if (!TEXTBOOK && estimateTokens(messages) <= limit) return;",
    `const READ = 0.05;
  const tokens = estimateTokens(messages);
  if (RENT.from > tokens || RENT.from === 0) Object.assign(RENT, { paid: 0, from: tokens });
  RENT.paid += READ * (tokens - RENT.from);
  const price = READ * tokens + 5 * SUMMARY + 1.25 * RENT.from;
  const isNew = last && requestIn(last) !== undefined;
  if (RENT.paid < (isNew ? ${first} : ${times}) * price && tokens < 150_000) return;
  if ((await autoCompact(messages, { trigger: "auto", limit: tokens, signal })) === "done") RENT.from = 0;
  if (limit) return;`,
  ],
];

export const STRATEGIES: Strategy[] = [
  { name: "nothing", env: { COMPACT_THRESHOLD: NEVER } },
  { name: "the original, without a cache", ...ORIGINAL, patch: [...ORIGINAL.patch, ...WITHOUT_CACHE] },
  { name: "the original", ...ORIGINAL },
  { name: "the original, keeping read_file", ...ORIGINAL, env: { ...ORIGINAL.env, COMPACT_PRESERVE: "read_file" } },
  { name: "the computed limit", env: { COMPACT_THRESHOLD: "167000" } },
  { name: "summary only", env: { COMPACT_KEEP_RECENT: NEVER } },
  { name: "hosted clear_tool_uses", patch: HOSTED },
  { name: "one limit", env: { COMPACT_THRESHOLD: "50000" } },
  { name: "two limits" },
  { name: "rent", patch: rent(2, 6) },
  { name: "two limits, one breakpoint", patch: ONE_BREAKPOINT },
];

/** Limits at which layer 2 acts often in sessions of a few hundred thousand characters, so that its rules can be told apart. */
const SMALL = { COMPACT_THRESHOLD: "20000", COMPACT_TURN_THRESHOLD: "40000" };
/** Two limits, small, with one rule of s06 taken out at a time. */
export const RULES: Strategy[] = [
  { name: "all rules", env: SMALL },
  { name: "without two limits", env: { COMPACT_THRESHOLD: "20000" } },
  {
    name: "without the waiting of layer 1",
    env: SMALL,
    patch: [["microCompact(messages, savingsFor(limit))", "microCompact(messages)"]],
  },
  {
    name: "without a minimum saving of layer 2",
    env: SMALL,
    patch: [["- kept - SUMMARY < savingsFor(limit)", "- kept - SUMMARY < 0"]],
  },
  { name: "without the cached summary call", env: SMALL, patch: summaryOfText("") },
  { name: "without the tail", env: SMALL, patch: WITHOUT_TAIL },
  { name: "without restored files", env: SMALL, patch: WITHOUT_FILES },
];

/** Forms of which the bench shows what the threshold does to them. */
export const SWEEP: Record<string, (threshold: number) => Strategy> = {
  "the original": (threshold) => ({
    ...ORIGINAL,
    name: `the original at ${threshold}`,
    env: { ...ORIGINAL.env, COMPACT_THRESHOLD: `${threshold}` },
  }),
  "one limit": (threshold) => ({ name: `one limit of ${threshold}`, env: { COMPACT_THRESHOLD: `${threshold}` } }),
  "two limits": (threshold) => ({
    name: `two limits, ${threshold}`,
    env: { COMPACT_THRESHOLD: `${threshold}`, COMPACT_TURN_THRESHOLD: "167000" },
  }),
};
/** Tokens. */
export const THRESHOLDS = [25_000, 50_000, 100_000];
/** The strategies whose context the bench draws. */
export const SHOWN = ["nothing", "the original", "two limits"];

/** The source of s06 with the lines of a strategy in it. @throws if a line is not there exactly once */
export function sourceOf(s06: string, { name, patch = [] }: Strategy): string {
  return patch.reduce((source, [before, after]) => {
    const times = source.split(before).length - 1;
    if (times !== 1) throw new Error(`strategy "${name}": its line occurs ${times} times in s06: ${before}`);
    return source.replace(before, () => after);
  }, s06);
}
