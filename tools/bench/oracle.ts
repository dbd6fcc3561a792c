/**
 * A floor: what forgetting would cost if one knew all edits and pauses beforehand. The oracle rewrites the history at
 * moments of its choice, as a summary and, whole, each text that a later edit replaces; so no edit ever loses its text.
 *
 * It goes by the calls of never compacting. A rewrite makes all prompts until the next one shorter by the same number of
 * tokens, so sums of all calls up to each tell what lies between two, and the best moments follow from the last one back.
 */
import type { Call } from "./replay.ts";
import { priceOf, READ, WRITE } from "./report.ts";

const SYSTEM = 1_000; // tokens: about what s06's system prompt and tools have
const SUMMARY = 2_000;

/** @returns the calls that the oracle makes instead of those of never compacting */
export function oracle(calls: Call[], isOnlyWhenCold: boolean): Call[] {
  const made: Call[] = [];
  let saved = 0; // tokens of each prompt, since the last rewrite
  const rewrites = new Set(bestMoments(calls, isOnlyWhenCold));
  for (const [i, call] of calls.entries()) {
    const edits = call.edits.map((edit) => ({ ...edit, isLost: false }));
    if (rewrites.has(i)) {
      made.push(summaryAt(calls, i, saved));
      saved = savedAt(calls, i);
      const context = call.context - saved;
      made.push({ ...call, edits, isReturn: false, context, read: 0, written: context });
    } else {
      const read = isCold(call) ? 0 : call.read - saved;
      const written = isCold(call) ? call.written - saved : call.written;
      made.push({ ...call, edits, context: call.context - saved, read, written });
    }
  }
  return made;
}

/** The calls before which a rewrite lets the whole cost least. */
function bestMoments(calls: Call[], isOnlyWhenCold: boolean): number[] {
  const bills = [0]; // of the calls before each
  const shares = [0]; // what one token less in each of these prompts would save
  for (const [i, call] of calls.entries()) {
    bills.push((bills[i] ?? 0) + priceOf(call));
    shares.push((shares[i] ?? 0) + (isCold(call) ? WRITE : READ));
  }
  const between = (from: number, to: number, saved: number) => {
    const bill = (bills[to] ?? 0) - (bills[from] ?? 0);
    const share = (shares[to] ?? 0) - (shares[from] ?? 0);
    return bill - saved * share;
  };
  const costs: number[] = []; // from a rewrite before each call on
  const next: number[] = []; // before which call the next rewrite comes then
  for (const [i, call] of [...calls.entries()].reverse()) {
    const saved = i === 0 ? 0 : savedAt(calls, i);
    let best = between(i + 1, calls.length, saved);
    next[i] = calls.length;
    for (let later = i + 1; later < calls.length; later++) {
      if (isOnlyWhenCold && !isCold(calls[later])) continue;
      const cost = between(i + 1, later, saved) + priceOf(summaryAt(calls, later, saved)) + (costs[later] ?? 0);
      if (cost >= best) continue;
      best = cost;
      next[i] = later;
    }
    costs[i] = WRITE * (call.context - saved) + best; // nothing that is rewritten is in the cache
  }
  const moments: number[] = [];
  for (let i = next[0] ?? 0; i < calls.length; i = next[i] ?? calls.length) moments.push(i);
  return moments;
}

const isCold = (call?: Call) => call?.read === 0;

/** The call for the summary before call `i`, when each prompt is `saved` tokens shorter than without rewrites. */
function summaryAt(calls: Call[], i: number, saved: number): Call {
  const isReturn = calls[i]?.isReturn ?? false;
  const context = (calls[i - 1]?.context ?? 0) - saved;
  const read = isCold(calls[i]) ? 0 : context;
  return { isSummary: true, isReturn, context, read, written: context - read, output: SUMMARY, edits: [] };
}

/** How many tokens a rewrite before call `i` saves: all but for system prompt, summary, what is needed, and what is new. */
function savedAt(calls: Call[], i: number): number {
  const needed = new Map<number, number>();
  for (const { source } of calls.slice(i).flatMap(({ edits }) => edits))
    if (source.from < i) needed.set(source.text, source.tokens);
  const kept = [...needed.values()].reduce((sum, tokens) => sum + tokens, 0);
  return (calls[i - 1]?.context ?? 0) - SYSTEM - SUMMARY - kept;
}
