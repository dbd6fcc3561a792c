/** The ways to forget that the bench compares: each is s06 with other constants, and some with another function. */

export type Strategy = {
  name: string;
  /** Values of exported constants, as they are written in the source. */
  constants?: Record<string, string>;
  /** Bodies of functions. */
  bodies?: Record<string, string>;
};

const NEVER = { THRESHOLD: "1e9", LARGE_OUTPUT: "1e9", PAUSE: "0" };
const CACHED_TEXTBOOK: Strategy = {
  name: "cached textbook",
  constants: { ...NEVER, PRESERVE_RESULT_TOOLS: "[]" },
  bodies: {
    compactIfNeeded: `
  const cleared = microCompact(messages);
  if (chars(cleared) < chars(messages)) rewrite(messages, cleared, "micro", options);
  if (chars(messages) / 4 <= 50_000) return;
  const content = await summarize(messages, options, "");
  rewrite(messages, [{ role: "user", content }], "auto", options);`,
    summarize: `
  const content = SUMMARY_PROMPT + JSON.stringify(messages).slice(0, 80_000);
  return textOf(await callModel([{ role: "user", content }], { ...options, tools: [] }, true));`,
  },
};
const callModel = `
  const request = { model: MODEL, max_tokens: MAX_TOKENS, thinking: { type: "adaptive" }, system, tools, messages };
  return client.messages.stream(request, { signal }).finalMessage();`;
/** s06 past a limit: what compactIfNeeded does once it has one. */
const pastLimit = (limit: string) => `
  const limit = ${limit};
  const size = (history: Messages) => estimateTokens(history, options);
  if (size(messages) <= limit) return;
  const cleared = microCompact(messages);
  if (size(messages) - size(cleared) >= MIN_SAVINGS * limit) rewrite(messages, cleared, "micro", options);
  if (size(messages) <= limit || size(messages) - size(kept(messages)) - SUMMARY < MIN_SAVINGS * limit) return;
  await autoCompact(messages, "auto", options);`;

/** The first four are the rows that `npm run bench -- FOLDER` shows. */
export const STRATEGIES: Strategy[] = [
  { name: "never compacting", constants: NEVER },
  { ...CACHED_TEXTBOOK, name: "textbook", bodies: { ...CACHED_TEXTBOOK.bodies, callModel } },
  {
    name: "hosted clearing", // clear_tool_uses_20250919: all but 3 results, on each call from 100,000 tokens on
    constants: { ...NEVER, PRESERVE_RESULT_TOOLS: "[]" },
    bodies: {
      compactIfNeeded: `
  const state: { freed?: number } & State = options.state;
  const before = estimateTokens(messages, options);
  if (before + (state.freed ?? 0) <= 100_000) return;
  const cleared = microCompact(messages);
  if (chars(cleared) < chars(messages)) rewrite(messages, cleared, "micro", options);
  state.freed = (state.freed ?? 0) + before - estimateTokens(messages, options);`,
    },
  },
  { name: "s06" },
  CACHED_TEXTBOOK,
  {
    ...CACHED_TEXTBOOK,
    name: "cached textbook keeping read_file",
    constants: { ...NEVER, PRESERVE_RESULT_TOOLS: '["read_file"]' },
  },
  { name: "s06 with a limit of 50000", constants: { THRESHOLD: "50_000" } },
  {
    name: "s06 with a limit of 50000 when a request arrives",
    bodies: {
      compactIfNeeded: pastLimit("isRequest(messages.at(-1) ?? { role: 'user', content: [] }) ? 50_000 : THRESHOLD"),
    },
  },
  { name: "s06 without pauses", constants: { PAUSE: "0" } },
  { name: "s06 with pauses above 40000", constants: { PAUSE_THRESHOLD: "40_000" } },
  { name: "s06 without layer 1", constants: { KEEP_RECENT: "1e9" } },
  { name: "s06 without a minimum saving", constants: { MIN_SAVINGS: "0" } },
  { name: "s06 without restored files", constants: { RESTORED: "{ files: 0, each: 0 }" } },
  { name: "s06 restoring three files", constants: { RESTORED: "{ files: 3, each: 5_000 }" } },
  { name: "s06 restoring ten files", constants: { RESTORED: "{ files: 10, each: 5_000 }" } },
  {
    name: "s06 keeping the newest 4000 tokens, too",
    bodies: {
      kept: `
  let from = openAt(messages);
  for (let i = from - 1; i > 0 && chars(messages.slice(i)) <= 12_000; i--) {
    if (messages[i]?.role === "assistant") from = i;
  }
  const open = messages.slice(from);
  if (open.length === 0 || open.some(isRequest)) return open;
  return [...messages.filter(isRequest).slice(-1), ...open];`,
    },
  },
  { name: "s06 with large output from 20000", constants: { LARGE_OUTPUT: "20_000" } },
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
