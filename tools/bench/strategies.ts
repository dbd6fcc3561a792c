/** The ways to forget that the bench compares: each is s06 with other constants, and some with another function. */

export type Strategy = {
  name: string;
  /** Values of exported constants, as they are written in the source. */
  constants?: Record<string, string>;
  /** Bodies of functions. */
  bodies?: Record<string, string>;
};

const NEVER = { THRESHOLD: "1e9", TURN_THRESHOLD: "1e9", LARGE_OUTPUT: "1e9", PAUSE: "0" };
const CACHED_TEXTBOOK: Strategy = {
  name: "cached textbook",
  constants: { ...NEVER, PRESERVE_RESULT_TOOLS: "[]" },
  bodies: {
    compactIfNeeded: `
  microCompact(messages);
  if (chars(messages) / 4 <= 50_000) return;
  const content = await summarize(messages, 0, { ...options, trigger: "auto" });
  rewrite(messages, [{ role: "user", content }], "auto", options);`,
    summarize: `
  const content = SUMMARY_PROMPT + JSON.stringify(messages).slice(0, 80_000);
  return textOf(await callModel([{ role: "user", content }], { ...options, tools: [] }, true));`,
  },
};
const callModel = `
  const request = { model: MODEL, max_tokens: MAX_TOKENS, thinking: THINKING, system, tools, messages };
  return client.messages.stream(request, { signal }).finalMessage();`;

/** The first four are the rows that `npm run bench -- FOLDER` shows. */
export const STRATEGIES: Strategy[] = [
  { name: "never compacting", constants: NEVER },
  { ...CACHED_TEXTBOOK, name: "textbook", bodies: { ...CACHED_TEXTBOOK.bodies, callModel } },
  {
    name: "hosted clearing", // clear_tool_uses_20250919: all but 3 results, on each call from 100,000 tokens on
    constants: { ...NEVER, PRESERVE_RESULT_TOOLS: "[]" },
    bodies: {
      compactIfNeeded: `
  const state: { freed?: number } & Transcript = options.transcript;
  if (estimateTokens(messages, options) + (state.freed ?? 0) <= 100_000) return;
  state.freed = (state.freed ?? 0) + microCompact(messages, 0, state.charsPerToken).saved;`,
    },
  },
  { name: "s06" },
  CACHED_TEXTBOOK,
  {
    ...CACHED_TEXTBOOK,
    name: "cached textbook keeping read_file",
    constants: { ...NEVER, PRESERVE_RESULT_TOOLS: '["read_file"]' },
  },
  { name: "s06 with one limit and no pauses", constants: { TURN_THRESHOLD: "THRESHOLD", PAUSE: "0" } },
  { name: "s06 without pauses", constants: { PAUSE: "0" } },
  {
    name: "rent", // compact when carrying what came since the last time has cost 2 times (in a turn: 6) what compacting costs
    constants: { PAUSE: "0" },
    bodies: {
      compactIfNeeded: `
  const state: { paid?: number; from?: number } & Transcript = options.transcript;
  const tokens = estimateTokens(messages, options);
  if (!state.from || state.from > tokens) Object.assign(state, { paid: 0, from: tokens });
  state.paid = (state.paid ?? 0) + 0.05 * (tokens - (state.from ?? 0));
  const price = 0.05 * tokens + 5 * SUMMARY + 1.25 * (state.from ?? 0);
  if (state.paid < (messages.at(-1) === options.request ? 2 : 6) * price && tokens < 150_000) return;
  if (await autoCompact(messages, { ...options, trigger: "auto", limit: tokens })) state.from = 0;`,
    },
  },
  { name: "s06 without layer 1", constants: { KEEP_RECENT: "1e9" } },
  { name: "s06 without a minimum saving", constants: { MIN_SAVINGS: "0" } },
  { name: "s06 without restored files", constants: { RESTORED: "{ files: 0, each: 0 }" } },
  { name: "s06 restoring five files", constants: { RESTORED: "{ files: 5, each: 0.08 * THRESHOLD }" } },
  { name: "s06 with pauses above 40000", constants: { PAUSE_THRESHOLD: "40_000" } },
  { name: "s06 with a first limit of 100000", constants: { THRESHOLD: "100_000" } },
];

/** The source of s06 under a strategy. @throws if what it changes is not there exactly once */
export function sourceOf(s06: string, { name, constants = {}, bodies = {} }: Strategy): string {
  let source = s06;
  const exchange = (what: string, pattern: RegExp, text: string) => {
    const times = [...source.matchAll(pattern)].length;
    if (times !== 1) throw new Error(`strategy "${name}": s06 has ${what} ${times} times, not once`);
    source = source.replace(pattern, (_, head) => head + text);
  };
  for (const [constant, value] of Object.entries(constants)) {
    exchange(
      `constant ${constant}`,
      new RegExp(`^(export const ${constant}(?:: \\w+)? = ).*?;(?= //|$)`, "gm"),
      `${value};`,
    );
  }
  for (const [body, text] of Object.entries(bodies)) {
    exchange(`function ${body}`, new RegExp(`^((?:async )?function ${body}\\(.*\\{$)[^]*?(?=\\n\\}$)`, "gm"), text);
  }
  return source;
}
