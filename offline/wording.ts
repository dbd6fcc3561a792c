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
  tool: "[compact requested]",
};
