/**
 * The least that forgetting could cost, about, if all edits and pauses were known beforehand. At moments of its choice, the
 * oracle replaces the history with a summary and the whole of each text that a later edit needs, so no edit ever loses its
 * text. It only knows a cache of five minutes, and reads at 0.05.
 *
 * It starts from the calls of never compacting. A rewrite shortens every prompt until the next rewrite by the same number
 * of tokens, and so the best moments follow backwards.
 */

import { sum } from "../sessions/numbers.ts";
import { IN_INPUT_TOKENS } from "../sessions/prices.ts";
import { totalOf } from "../sessions/timeline.ts";
import type { Call } from "./replay.ts";
import { billFor } from "./report.ts";

const SYSTEM_TOKENS = 1_000; // about the size of s06's system prompt and tools
const SUMMARY_TOKENS = 2_000;
const NONE = { input: 0, read: 0, written: 0, writtenForHour: 0, output: 0, isSummary: false, edits: [] };

/** Returns the calls that the oracle makes instead of those of never compacting. */
export function oracle(calls: Call[]): Call[] {
  const made: Call[] = [];
  let saved = 0; // tokens in each prompt since the last rewrite
  const rewrites = new Set(bestMoments(calls));
  for (const [i, call] of calls.entries()) {
    const edits = call.edits.map((edit) => ({ ...edit, isLost: false }));
    if (rewrites.has(i)) {
      made.push(summaryAt(calls, i, saved));
      saved = savedAt(calls, i);
      made.push({ ...call, edits, read: 0, written: totalOf(call) - saved });
    } else made.push({ ...shorten(call, saved), edits });
  }
  return made;
}

/** What the calls from a rewrite on cost if the next rewrite comes before call `next`. */
type Plan = { cost: number; next: number };

/** Returns the calls before which a rewrite makes the whole session cheapest. */
function bestMoments(calls: Call[]): number[] {
  const plans: Plan[] = []; // the best one for a rewrite before each call
  for (let i = calls.length - 1; i >= 0; i--) plans[i] = bestPlan(i);

  function bestPlan(i: number): Plan {
    const saved = i === 0 ? 0 : savedAt(calls, i);
    const best = { cost: Infinity, next: calls.length };
    let cost = IN_INPUT_TOKENS.write * (sizeAt(calls, i) - saved); // none of this prompt is in the cache any more
    for (const [later, call] of calls.entries()) {
      if (later <= i) continue;
      const withRewrite = cost + billFor(summaryAt(calls, later, saved)) + (plans[later]?.cost ?? 0);
      if (withRewrite < best.cost) Object.assign(best, { cost: withRewrite, next: later });
      cost += billFor(shorten(call, saved));
    }
    return cost < best.cost ? { cost, next: calls.length } : best;
  }

  const moments: number[] = [];
  const nextAfter = (i: number) => plans[i]?.next ?? calls.length;
  for (let i = nextAfter(0); i < calls.length; i = nextAfter(i)) moments.push(i);
  return moments;
}

const shorten = (call: Call, tokens: number): Call =>
  isCold(call) ? { ...call, written: call.written - tokens } : { ...call, read: call.read - tokens };

/** Whether the whole prompt was missing from the cache. */
const isCold = (call?: Call) => call?.read === 0;
const sizeAt = (calls: Call[], i: number) => totalOf(calls[i] ?? NONE);

/** The call that writes a summary before call `i`, while prompts are `saved` tokens shorter. */
function summaryAt(calls: Call[], i: number, saved: number): Call {
  const size = sizeAt(calls, i - 1) - saved;
  const prompt = isCold(calls[i]) ? { written: size } : { read: size };
  return { ...NONE, ...prompt, isSummary: true, output: SUMMARY_TOKENS };
}

/** Returns the tokens that a rewrite before call `i` takes from each prompt. The system prompt and needed texts stay. */
function savedAt(calls: Call[], i: number): number {
  const needed = new Map<number, number>();
  for (const { source } of calls.slice(i).flatMap(({ edits }) => edits))
    if (source.from < i) needed.set(source.text, source.tokens);
  return sizeAt(calls, i - 1) - SYSTEM_TOKENS - SUMMARY_TOKENS - sum([...needed.values()]);
}
