/** Answers in four sentences what a session cost, what filled it, what was read again or not cached, and what compactions took. */
import { html, type Markup } from "../draw/markup.ts";
import { groupBy, largestOf, sum, whole } from "../sessions/numbers.ts";
import { type Cost, sumOf } from "../sessions/prices.ts";
import { MIN_MISSED } from "../sessions/read-timeline.ts";
import {
  blocksIn,
  type Compaction,
  dollarsOf,
  type Missed,
  type ModelCall,
  type Timeline,
} from "../sessions/timeline.ts";
import type { Selection } from "./address.ts";
import { lostPaths } from "./lost.ts";
import { byKind, callsWith, changeOf, isRecorded, readAgain, tokensOf } from "./taken.ts";
import { counted, dollars, listed, percent, tokens } from "./words.ts";

/** Makes a link to what's selected. */
export type Link = (selection: Selection, text: string) => Markup;
export type Answer = { about: string; said: Markup[] };

export const answersFor = (timeline: Timeline, link: Link): Answer[] => [
  { about: "Cost", said: sayCost(timeline, link) },
  { about: "Largest prompt", said: sayLargest(timeline, link) },
  { about: "Read again, or not cached", said: sayRepeated(timeline, link) },
  { about: "Compactions", said: sayCompactions(timeline, link) },
];

const linkToCall = (call: number, link: Link) => link({ call }, `call ${whole(call + 1)}`);

// --- what it cost ----------------------------------------------------------------------------------------------------

/** Returns the dollars of all calls and summaries whose price is known. */
export function totalCost({ modelCalls, compactions }: Timeline): number | undefined {
  const calls = dollarsOf(modelCalls);
  return calls === undefined ? undefined : calls + (dollarsOf(compactions) ?? 0);
}

export const BILLED = ["read", "written", "input", "output"] as const;
const COST_PARTS: Record<keyof Cost, string> = {
  written: "for writing to the prompt cache",
  read: "for reading from the prompt cache",
  input: "for input without the cache",
  output: "for output",
};

function sayCost(timeline: Timeline, link: Link): Markup[] {
  const { modelCalls, compactions } = timeline;
  const calls = counted(modelCalls.length, "model call");
  const all = totalCost(timeline);
  if (all === undefined) {
    const sent = tokens(sum(modelCalls.map((call) => call.tokens)));
    return [html`${calls} sent <b>${sent}</b> in all. The file doesn’t say enough to tell what that cost.`];
  }
  const paid = [...modelCalls, ...compactions].flatMap(({ cost }) => cost ?? []);
  const costs = modelCalls.map(({ cost }) => sumOf(cost));
  const dearest = largestOf(costs);
  const about = modelCalls.some(({ isEstimate }) => isEstimate) ? "about " : "";
  return [
    html`${calls} cost ${about}<b>${dollars(all)}</b>: ${shareOut(paid, all)}. `,
    html`The most expensive is ${linkToCall(dearest, link)}, at ${dollars(costs[dearest] ?? 0)}.`,
    html`${sayUnpriced(timeline)}`,
  ];
}

/** Says what part of the cost was for what, largest first. */
function shareOut(paid: Cost[], all: number): string {
  const parts = BILLED.map((part) => {
    return { name: COST_PARTS[part], share: sum(paid.map((cost) => cost[part])) / all };
  });
  const shown = parts.filter(({ share }) => share >= 0.005).sort((a, b) => b.share - a.share);
  return listed(shown.map(({ name, share }) => `${percent(share)} ${name}`));
}

function sayUnpriced({ modelCalls, compactions }: Timeline): string {
  const calls = modelCalls.filter(({ cost }) => !cost).length;
  const summaries = compactions.filter(({ isSummary, cost }) => isSummary && !cost).length;
  const missing = [counted(calls, "call"), counted(summaries, "summary", "summaries")];
  const named = missing.filter((text) => !text.startsWith("0 "));
  return named.length > 0 ? ` The cost of ${listed(named)} isn’t known.` : "";
}

// --- what filled it --------------------------------------------------------------------------------------------------

export const MISSING = "system prompt, tools, and whatever else the client didn’t write down";
const MOST_NAMED = 3;

function sayLargest({ modelCalls, largest, threshold }: Timeline, link: Link): Markup[] {
  const call = modelCalls[largest];
  if (!call) return [];
  const blocks = blocksIn(call).map((block) => ({ block, tokens: block.chars / call.charsPerToken }));
  const kinds = byKind(blocks).map((kind) => ({ ...kind, share: kind.tokens / call.tokens }));
  const shown = kinds.filter(({ share }) => share >= 0.005).slice(0, MOST_NAMED);
  const named = listed(shown.map(({ name, share }) => `${percent(share)} ${name}`));
  const missing = call.unexplained / call.tokens;
  const about = call.usage ? "" : "about ";
  const limit = threshold ? `, ${percent(call.tokens / threshold)} of the threshold` : "";
  return [
    html`The largest is that of ${linkToCall(largest, link)}, with ${about}<b>${tokens(call.tokens)}</b>${limit}. `,
    html`${named ? `It’s ${named}.` : ""} `,
    html`${missing < 0.005 ? "" : `About ${percent(missing)} isn’t in the file: ${MISSING}.`}`,
  ];
}

// --- what was read again or not cached -------------------------------------------------------------------------------

const sayRepeated = (timeline: Timeline, link: Link): Markup[] => [
  ...sayReadAgain(timeline, link),
  ...sayCache(timeline, link),
];

function sayReadAgain(timeline: Timeline, link: Link): Markup[] {
  if (!timeline.compactions.some(isRecorded)) return [];
  const again = readAgain(timeline);
  const [first] = again;
  if (!first) return [html`No file was read again after a compaction had taken it. `];
  const size = tokens(sum(again.map(({ chars }) => chars)) / timeline.charsPerToken);
  const call = linkToCall(callsWith(first, timeline).first, link);
  const times = counted(again.length, "time");
  return [html`Files were read again <b>${times}</b> after a compaction had taken them (${size}, first for ${call}). `];
}

/** Returns the price of the missed tokens, which were written to the cache or sent without it. */
function dollarsMissed({ missed, usage, cost }: ModelCall): number {
  if (!missed || !usage || !cost) return 0;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

export const WHY: Record<Missed["why"], string> = {
  compaction: "after a compaction",
  pause: "after a pause in which it expired",
  model: "after a change of model",
  changed: "for a reason that isn’t in the file",
};

const amountOf = (calls: ModelCall[]) => sum(calls.map(({ missed }) => missed?.tokens ?? 0));

function sayCache({ modelCalls }: Timeline, link: Link): Markup[] {
  if (!modelCalls.some(({ usage }) => usage)) return [html`The file doesn’t say what was in the prompt cache.`];
  const missed = modelCalls.filter((call) => call.missed);
  if (missed.length === 0) return [html`No call missed ${whole(MIN_MISSED)} tokens or more in the prompt cache.`];
  const price = sum(missed.map(dollarsMissed));
  const groups = [...groupBy(missed, (call) => call.missed?.why ?? "changed")];
  const reasons = groups.map(([why, calls], i) => {
    const [worst] = calls.toSorted((a, b) => amountOf([b]) - amountOf([a]));
    const call = worst ? linkToCall(modelCalls.indexOf(worst), link) : "";
    const amount = groups.length > 1 ? `${whole(amountOf(calls))} ` : "";
    return html`${i > 0 ? ", " : ""}${amount}${WHY[why]} (most for ${call})`;
  });
  return [
    html`<b>${tokens(amountOf(missed))}</b> weren’t in the prompt cache${groups.length > 1 ? ":" : ","} ${reasons}.`,
    html`${price > 0 ? ` They cost ${dollars(price)}.` : ""}`,
  ];
}

// --- what compactions took -------------------------------------------------------------------------------------------

function sayCompactions({ compactions }: Timeline, link: Link): Markup[] {
  if (compactions.length === 0) return [html`Nothing was compacted.`];
  const recorded = compactions.filter(isRecorded);
  const said = recorded.length > 0 ? [sayTaken(recorded), ...sayWorst(compactions, link)] : [];
  if (recorded.length < compactions.length)
    said.push(html`The file begins with a compaction. What that took isn’t in the file.`);
  return said;
}

function sayTaken(compactions: Compaction[]): Markup {
  const changes = compactions.map(changeOf);
  const left = changes.flatMap((change) => change.left);
  const kinds = byKind(left).slice(0, MOST_NAMED);
  const named = listed(kinds.map((kind) => `${kind.name} (${whole(kind.tokens)})`));
  const came = whole(tokensOf(changes.flatMap((change) => change.came)));
  const count = counted(compactions.length, "compaction");
  return html`${count} took about <b>${tokens(tokensOf(left))}</b>, mostly ${named}, and put ${came} in their place. `;
}

/** Points at the compaction that took most, and at the one after which most paths are gone. */
function sayWorst(compactions: Compaction[], link: Link): Markup[] {
  const linkTo = (compaction: number) => link({ compaction }, `compaction ${compaction + 1}`);
  const most = largestOf(compactions.map((each) => tokensOf(changeOf(each).left)));
  const losses = compactions.map((each) => lostPaths(each).length);
  const worst = largestOf(losses);
  const paths = counted(losses[worst] ?? 0, "file path");
  const said = html`${compactions.length > 1 ? "The most went with" : "See"} ${linkTo(most)}. `;
  return losses[worst] ? [said, html`Right after ${linkTo(worst)}, the prompt no longer names ${paths}. `] : [said];
}
