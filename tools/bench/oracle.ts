/**
 * A lower bound: the least that forgetting could cost if all edits and pauses were known beforehand. At moments of its
 * choice, the oracle replaces the history with a summary and the whole of each text that a later edit needs, so no edit
 * ever loses its text.
 *
 * It starts from the calls of never compacting. A rewrite shortens every prompt until the next rewrite by the same number
 * of tokens, so running totals tell what the calls between two rewrites cost, and the best moments follow backwards.
 */

import { IN_INPUT_TOKENS } from "../prices.ts";
import { sum } from "../trace/numbers.ts";
import type { Call } from "./replay.ts";
import { billFor } from "./report.ts";

const SYSTEM_TOKENS = 1_000; // about the size of s06's system prompt and tools
const SUMMARY_TOKENS = 2_000;

/** Returns the calls that the oracle makes instead of those of never compacting. */
export function oracle(calls: Call[], isOnlyWhenCold: boolean): Call[] {
  const made: Call[] = [];
  let saved = 0; // tokens in each prompt since the last rewrite
  const rewrites = new Set(bestMoments(calls, isOnlyWhenCold));
  for (const [i, call] of calls.entries()) {
    const edits = call.edits.map((edit) => ({ ...edit, isLost: false }));
    if (rewrites.has(i)) {
      made.push(summaryAt(calls, i, saved));
      saved = savedAt(calls, i);
      const context = call.context - saved;
      made.push({ ...call, edits, isReturn: false, context, read: 0, written: context });
    } else {
      const read = findsNothing(call) ? 0 : call.read - saved;
      const written = findsNothing(call) ? call.written - saved : call.written;
      made.push({ ...call, edits, context: call.context - saved, read, written });
    }
  }
  return made;
}

/** What the calls from a rewrite on cost if the next rewrite comes before call `next`. */
type Plan = { cost: number; next: number };

/** Returns the calls before which a rewrite makes the whole session cheapest. */
function bestMoments(calls: Call[], isOnlyWhenCold: boolean): number[] {
  const billBetween = billsOf(calls);
  const plans: Plan[] = []; // the best one for a rewrite before each call
  for (let i = calls.length - 1; i >= 0; i--) plans[i] = bestPlan(i);

  function bestPlan(i: number): Plan {
    const saved = i === 0 ? 0 : savedAt(calls, i);
    const best = { cost: billBetween(i + 1, calls.length, saved), next: calls.length };
    for (let later = i + 1; later < calls.length; later++) {
      if (isOnlyWhenCold && !findsNothing(calls[later])) continue;
      const summary = billFor(summaryAt(calls, later, saved));
      const cost = billBetween(i + 1, later, saved) + summary + (plans[later]?.cost ?? 0);
      if (cost < best.cost) Object.assign(best, { cost, next: later });
    }
    const prompt = (calls[i]?.context ?? 0) - saved; // none of it is in the cache any more
    return { ...best, cost: IN_INPUT_TOKENS.write * prompt + best.cost };
  }

  const moments: number[] = [];
  const nextAfter = (i: number) => plans[i]?.next ?? calls.length;
  for (let i = nextAfter(0); i < calls.length; i = nextAfter(i)) moments.push(i);
  return moments;
}

/** Returns a function for the bill of the calls between two, whose prompts are `saved` tokens shorter. */
function billsOf(calls: Call[]): (from: number, to: number, saved: number) => number {
  const bills = [0]; // for all calls before each one
  const prices = [0]; // of one token in the prompts of all these calls
  for (const [i, call] of calls.entries()) {
    bills.push((bills[i] ?? 0) + billFor(call));
    prices.push((prices[i] ?? 0) + (findsNothing(call) ? IN_INPUT_TOKENS.write : IN_INPUT_TOKENS.read));
  }
  return (from, to, saved) => {
    const bill = (bills[to] ?? 0) - (bills[from] ?? 0);
    const price = (prices[to] ?? 0) - (prices[from] ?? 0);
    return bill - saved * price;
  };
}

/** Whether the whole prompt was missing from the cache. */
const findsNothing = (call?: Call) => call?.read === 0;

/** The call that writes a summary before call `i`, while prompts are `saved` tokens shorter. */
function summaryAt(calls: Call[], i: number, saved: number): Call {
  const isReturn = calls[i]?.isReturn ?? false;
  const context = (calls[i - 1]?.context ?? 0) - saved;
  const read = findsNothing(calls[i]) ? 0 : context;
  return { isSummary: true, isReturn, context, read, written: context - read, output: SUMMARY_TOKENS, edits: [] };
}

/** Returns the tokens that a rewrite before call `i` takes from each prompt. The system prompt and needed texts stay. */
function savedAt(calls: Call[], i: number): number {
  const needed = new Map<number, number>();
  for (const { source } of calls.slice(i).flatMap(({ edits }) => edits))
    if (source.from < i) needed.set(source.text, source.tokens);
  return (calls[i - 1]?.context ?? 0) - SYSTEM_TOKENS - SUMMARY_TOKENS - sum([...needed.values()]);
}
