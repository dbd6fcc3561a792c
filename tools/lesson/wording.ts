/** What s06 itself writes into a conversation. A test compares this with the lesson. */
export const STOPPED = "(Stopped here.";
export const SUMMARY = "[Conversation compressed.";
export const CLEARED = "[Previous: used ";
export const INTERRUPTED = "(interrupted";
export const SAVED = "Output too large";
