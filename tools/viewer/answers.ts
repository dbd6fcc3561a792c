/** Answers what a session cost, what filled it, what wasn't cached or was read again, and what compactions removed. */
import { html, type Markup } from "../draw/markup.ts";
import { groupBy, largestOf, sum, whole } from "../sessions/numbers.ts";
import { sumOf } from "../sessions/prices.ts";
import { MIN_MISSED } from "../sessions/read-timeline.ts";
import { blocksIn, type Compaction, type Missed, type ModelCall, type Timeline } from "../sessions/timeline.ts";
import type { Selection } from "./address.ts";
import { byKind, callsWith, changeOf, isRecorded, readAgain, tokensOf } from "./taken.ts";
import { counted, dollars, listed, percent, tokens } from "./words.ts";

/** Makes a link to what's selected. */
export type Link = (selection: Selection, text: string) => Markup;
export type Answer = { about: string; figure: string; said: Markup[] };

export const answersFor = (timeline: Timeline, link: Link): Answer[] => [
  sayCost(timeline, link),
  sayLargest(timeline, link),
  sayRepeated(timeline, link),
  sayCompactions(timeline, link),
];

const linkToCall = (call: number, link: Link) => link({ call }, `call ${whole(call + 1)}`);
const NOT_KNOWN = "not known";
const MOST_NAMED = 3;

// --- what it cost ----------------------------------------------------------------------------------------------------

/** Returns the dollars that are known, with those of summaries. */
export const costOfAll = ({ modelCalls, compactions }: Timeline): number =>
  sum([...modelCalls, ...compactions].map(({ cost }) => sumOf(cost)));

/** Says what a session cost, or nothing if no price is known. */
export function sayTotal(timeline: Timeline): string {
  const cost = costOfAll(timeline);
  const about = timeline.modelCalls.some(({ isEstimate }) => isEstimate) ? "about " : "";
  return cost > 0 ? `${about}${dollars(cost)}` : "";
}

function sayCost(timeline: Timeline, link: Link): Answer {
  const { modelCalls, isCounted } = timeline;
  const calls = counted(modelCalls.length, "model call");
  const total = sayTotal(timeline);
  if (!total) {
    const sent = sum(modelCalls.map((call) => call.tokens));
    const figure = `${isCounted ? "" : "about "}${tokens(sent)}`;
    return { about: "Sent in all", figure, said: [html`${calls}. What they cost isn’t known: ${sayWhy(modelCalls)}.`] };
  }
  const said = [html`${calls}${sayUnpriced(timeline)}. `, sayDearest(timeline, link)];
  return { about: "Cost", figure: total, said };
}

/** Says why no price is known. */
function sayWhy(modelCalls: ModelCall[]): string {
  const models = [...new Set(modelCalls.flatMap(({ model }) => model ?? []))];
  if (!modelCalls.some(({ usage }) => usage)) return "the file has no token counts";
  if (models.length === 0) return "the file doesn’t name the model";
  const isListed = modelCalls.some(({ usage }) => usage?.isListPrice);
  return isListed ? `${listed(models)} isn’t in the list of prices` : "they weren’t made at list prices";
}

function sayDearest({ modelCalls }: Timeline, link: Link): Markup {
  const costs = modelCalls.map(({ cost }) => sumOf(cost));
  const call = largestOf(costs);
  return html`The most expensive call is ${linkToCall(call, link)} (${dollars(costs[call] ?? 0)}).`;
}

/** Says what the figure doesn't have. */
function sayUnpriced({ modelCalls, compactions }: Timeline): string {
  const calls = modelCalls.filter(({ cost }) => !cost).length;
  const summaries = compactions.filter(({ isSummary, cost }) => isSummary && !cost).length;
  const missing = [counted(calls, "call"), counted(summaries, "summary", "summaries")];
  const named = missing.filter((text) => !text.startsWith("0 "));
  return named.length > 0 ? `, without the cost of ${listed(named)}, which isn’t known` : "";
}

// --- what filled it --------------------------------------------------------------------------------------------------

function sayLargest({ modelCalls, largest, threshold }: Timeline, link: Link): Answer {
  const about = "Largest prompt";
  const call = modelCalls[largest];
  if (!call) return { about, figure: NOT_KNOWN, said: [] };
  const blocks = blocksIn(call).map((block) => ({ block, tokens: block.chars / call.charsPerToken }));
  const kinds = byKind(blocks).map((kind) => ({ ...kind, share: kind.tokens / call.tokens }));
  const shown = kinds.filter(({ share }) => share >= 0.005).slice(0, MOST_NAMED);
  const parts = shown.map(({ name, share }) => `${percent(share)} ${name}`);
  const missing = call.unexplained / call.tokens;
  const limit = threshold ? html`, ${percent(call.tokens / threshold)} of the threshold` : "";
  const said = [
    html`Sent with ${linkToCall(largest, link)}${limit}${parts.length > 0 ? `: about ${listed(parts)}` : ""}.`,
    html`${missing < 0.005 ? "" : ` About ${percent(missing)} isn’t in the file.`}`,
  ];
  return { about, figure: `${call.usage ? "" : "about "}${tokens(call.tokens)}`, said };
}

// --- what wasn't cached or was read again ----------------------------------------------------------------------------

/** Returns the price of the missed tokens, which were written to the cache or sent without it. */
function dollarsMissed({ missed, usage, cost }: ModelCall): number {
  if (!missed || !usage || !cost) return 0;
  return (missed.tokens * (cost.written + cost.input)) / (usage.written + usage.input);
}

export const WHY: Record<Missed["why"], string> = {
  compaction: "after a compaction",
  pause: "after a pause in which the cache expired",
  model: "after a change of model",
  changed: "for a reason that isn’t in the file",
};

const amountOf = (calls: ModelCall[]) => sum(calls.map(({ missed }) => missed?.tokens ?? 0));

function sayRepeated(timeline: Timeline, link: Link): Answer {
  const { modelCalls } = timeline;
  const missed = modelCalls.filter((call) => call.missed);
  const isCounted = modelCalls.some(({ usage }) => usage);
  const figure = missed.length > 0 ? tokens(amountOf(missed)) : "none";
  const said = [sayMissed(modelCalls, missed, link), sayReadAgain(timeline, link)];
  return { about: "Not cached, or read again", figure: isCounted ? figure : NOT_KNOWN, said };
}

function sayMissed(modelCalls: ModelCall[], missed: ModelCall[], link: Link): Markup {
  if (!modelCalls.some(({ usage }) => usage)) return html`The file doesn’t say what was in the prompt cache.`;
  if (missed.length === 0) return html`No call missed ${whole(MIN_MISSED)} tokens or more in the prompt cache.`;
  const price = sum(missed.map(dollarsMissed));
  const groups = [...groupBy(missed, (call) => call.missed?.why ?? "changed")];
  groups.sort(([, a], [, b]) => amountOf(b) - amountOf(a));
  const reasons = groups.map(([why, calls], i) => {
    const isOne = (call: ModelCall) => call.missed?.why === why;
    const worst = largestOf(modelCalls.map((call) => (isOne(call) ? amountOf([call]) : 0)));
    const amount = groups.length > 1 ? `${whole(amountOf(calls))} ` : "";
    return html`${i > 0 ? ", " : ""}${amount}${WHY[why]} (most for ${linkToCall(worst, link)})`;
  });
  const colon = groups.length > 1 ? ":" : "";
  return html`They weren’t in the prompt cache${colon} ${reasons}. ${price > 0 ? `They cost ${dollars(price)}.` : ""}`;
}

function sayReadAgain(timeline: Timeline, link: Link): Markup {
  const again = readAgain(timeline);
  const [first] = again;
  if (!first) return html``;
  const size = tokens(sum(again.map(({ chars }) => chars)) / timeline.charsPerToken);
  const call = linkToCall(callsWith(first, timeline).first, link);
  const times = counted(again.length, "time");
  return html` Files were read again <b>${times}</b> after a compaction had taken them (about ${size}, first for ${call}).`;
}

// --- what compactions removed----------------------------------------------------------------------------------------

function sayCompactions({ compactions }: Timeline, link: Link): Answer {
  const about = "Compactions";
  if (compactions.length === 0) return { about, figure: "none", said: [html`The file has no compaction.`] };
  const recorded = compactions.filter(isRecorded);
  const said = recorded.length > 0 ? [sayTaken(recorded), linkToWorst(compactions, link)] : [];
  if (recorded.length < compactions.length)
    said.push(html` The file begins with a compaction. What that took isn’t in it.`);
  return { about, figure: whole(compactions.length), said };
}

function sayTaken(compactions: Compaction[]): Markup {
  const changes = compactions.map(changeOf);
  const left = changes.flatMap((change) => change.left);
  const kinds = byKind(left).slice(0, MOST_NAMED);
  const named = listed(kinds.map((kind) => `${kind.name} (${whole(kind.tokens)})`));
  const came = whole(tokensOf(changes.flatMap((change) => change.came)));
  return html`${compactions.length > 1 ? "They" : "It"} took about <b>${tokens(tokensOf(left))}</b>, mostly ${named}, and put about ${came} in their place.`;
}

/** Points at the compaction that took most. */
function linkToWorst(compactions: Compaction[], link: Link): Markup {
  const most = largestOf(compactions.map((each) => tokensOf(changeOf(each).left)));
  const said = compactions.length > 1 ? "The most went with" : "See";
  return html` ${said} ${link({ compaction: most }, `compaction ${most + 1}`)}.`;
}
