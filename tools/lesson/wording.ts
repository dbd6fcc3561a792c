/** The words and lines of s06 that tools depend on. */

/** How s06 begins each text that it writes into a conversation. */
export const STOPPED = "(Stopped here.";
export const SUMMARY = "[Conversation compressed.";
export const SUMMARY_REQUEST = "Summarize this conversation: you will continue with nothing but your summary.";
export const CLEARED = "[Previous: used ";
export const INTERRUPTED = "(interrupted";
export const SAVED = "Output too large";
export const CUT = "[... cut here";

/** The text that s06 prints when it compacts, by trigger. */
export const PRINTED = {
  micro: "[micro_compact]",
  auto: "[auto_compact triggered]",
  tool: "[manual compact]",
};

/** The line that clears old results when a request finds the cache cold. */
export const COLD_LINE = /^ +if \(isColdRequest\(.*$/gm;
/** Lines for the same place that wait for 50,000 tokens and then also summarize. */
export const COLD_LINES_AT_50000 = `\
  const isTooLong = () => isColdRequest(messages, state) && estimateTokens(messages, options) > 50_000;
  if (isTooLong()) clearOldResults(messages, options, 20_000);
  if (isTooLong()) await autoCompact(messages, "auto", options);`;
