/** Makes the page of a session: the answers, the chart, what is selected, and the user's requests. */
import { readFileSync } from "node:fs";
import { type Chart, chartHeight, drawChart } from "../draw/chart.ts";
import { html, type Markup } from "../draw/markup.ts";
import { PARTS, partNames, STYLE, sizesOf } from "../draw/parts.ts";
import { groupBy, largestOf, sum, whole } from "../sessions/numbers.ts";
import { sumOf } from "../sessions/prices.ts";
import { dollarsOf, type ModelCall, type Timeline } from "../sessions/timeline.ts";
import { addressOf, type Selection } from "./address.ts";
import { type Answer, answersFor, type Link } from "./answers.ts";
import { drawLegend, type Shown, showCall, showCompaction } from "./details.ts";
import { counted, dollars, labelOf, nameOfTrigger, timeOf, tokens } from "./words.ts";

const CSS = STYLE + readFileSync(new URL("style.css", import.meta.url), "utf8");

/** The arrow keys open the call or compaction before or after. */
const SCRIPT = `addEventListener("keydown", ({ key, altKey, ctrlKey, metaKey, target }) => {
  const sign = { ArrowLeft: "‹", ArrowRight: "›" }[key];
  if (!sign || altKey || ctrlKey || metaKey || target.matches("pre")) return;
  [...document.querySelectorAll("nav a")].find((link) => link.textContent.includes(sign))?.click();
});`;

export const makePage = (title: string, body: Markup): Markup => html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>
${{ markup: CSS }}</style>
<body>
${body}
<script>${{ markup: SCRIPT }}</script>
</body>
</html>
`;

/** `file` is in the addresses unless it's the one that was opened first. */
export type Session = { timeline: Timeline; name: string; file?: string; sessions: number; subagents: number };

/** The answers take longer than the rest of a page, and stay the same for a session. */
const known = new WeakMap<Timeline, Answer[]>();
function knownAnswers(timeline: Timeline, link: Link): Answer[] {
  const answers = known.get(timeline) ?? answersFor(timeline, link);
  known.set(timeline, answers);
  return answers;
}

/** Throws if the session doesn't have what is selected. */
export function makeSessionPage(session: Session, selection: Selection): Markup {
  const { timeline, name, file, sessions, subagents } = session;
  const { modelCalls, requests } = timeline;
  const link: Link = (to, text) => html`<a href="${addressOf(to, file)}">${text}</a>`;
  const shown: Shown = { timeline, selection, link, file };
  const detail = showSelected(shown);
  const title = requests[0] ? labelOf(requests[0].block) : name;
  const others = sessions > 1 ? html` · <a href="/sessions">all ${whole(sessions)} sessions</a>` : "";
  const children = subagents > 0 ? ` · without its ${counted(subagents, "subagent")}` : "";
  return makePage(
    title,
    html`<header><h1>${title}</h1><p class="facts">${timeline.format} · ${span(modelCalls)}${name}${children}${others}</p></header>
<main>
<dl>${knownAnswers(timeline, link).map(({ about, said }) => html`<div><dt>${about}</dt><dd>${said}</dd></div>`)}</dl>
<section id="chart">${showChart(shown)}</section>
<section class="detail">${detail}</section>
${listRequests(timeline, link)}
</main>
<footer>${aboutSizes(timeline)}</footer>`,
  );
}

/** The largest call is selected first. */
const callOf = ({ timeline, selection }: Shown) => selection.call ?? timeline.largest;

function showSelected(shown: Shown): Markup {
  const { timeline, selection } = shown;
  const { modelCalls, compactions } = timeline;
  const [call, compaction] = [modelCalls[callOf(shown)], compactions[selection.compaction ?? -1]];
  if (!call) throw new Error(`there is no call ${callOf(shown) + 1}: the session has ${modelCalls.length}`);
  if (selection.compaction === undefined) return showCall(shown, call, callOf(shown));
  if (compaction) return showCompaction(shown, compaction, selection.compaction);
  throw new Error(`there is no compaction ${selection.compaction + 1}: the session has ${compactions.length}`);
}

/** Says when the calls were made. */
function span(modelCalls: ModelCall[]): string {
  const [first, last] = [modelCalls[0]?.time, modelCalls.at(-1)?.time];
  return first && last ? `${timeOf(first)} to ${timeOf(last)} · ` : "";
}

// --- the chart -------------------------------------------------------------------------------------------------------

const MOST_COLUMNS = 480;

/** In a long session neighbouring calls share a column, which shows the largest of them. */
function columnsOf(modelCalls: ModelCall[]): { width: number; columns: { call: number; modelCall: ModelCall }[] } {
  const width = Math.ceil(modelCalls.length / MOST_COLUMNS);
  const calls = modelCalls.map((modelCall, call) => ({ call, modelCall }));
  const groups = [...groupBy(calls, ({ call }) => Math.floor(call / width)).values()];
  const columns = groups.flatMap((group) => group[largestOf(group.map(({ modelCall }) => modelCall.tokens))] ?? []);
  return { width, columns };
}

const NEAR = 0.055; // of the width: closer marks are dots without a number

function marksOf({ timeline, file }: Shown, width: number, columns: number): Chart["marks"] {
  const places = timeline.compactions.map(({ modelCall }) => modelCall / width);
  return timeline.compactions.map(({ trigger, before, after }, compaction) => {
    const place = places[compaction] ?? 0;
    const isCrowded = places.some((other, i) => i !== compaction && Math.abs(other - place) < NEAR * columns);
    const sizes = `${whole(before.tokens)} → ${whole(after.tokens)} tokens`;
    return {
      after: Math.min(place, columns),
      label: isCrowded ? undefined : `${compaction + 1}`,
      title: `compaction ${compaction + 1}: ${nameOfTrigger(trigger)}, ${sizes}`,
      href: addressOf({ compaction }, file),
    };
  });
}

/** Says what a prompt is made of, line by line. */
function describeCall(modelCall: ModelCall, call: number): string {
  const sizes = sizesOf(modelCall);
  const shown = partNames.filter((part) => (sizes[part] ?? 0) >= 1);
  const parts = shown.map((part) => `${whole(sizes[part] ?? 0)} ${PARTS[part]}`);
  const cost = modelCall.cost ? `, ${dollars(sumOf(modelCall.cost))}` : "";
  return [`call ${whole(call + 1)}: ${tokens(modelCall.tokens)}${cost}`, ...parts].join("\n");
}

function showChart(shown: Shown): Markup {
  const call = callOf(shown);
  const { timeline, selection, file } = shown;
  const { modelCalls, compactions, threshold } = timeline;
  const { width, columns } = columnsOf(modelCalls);
  const compaction = compactions[selection.compaction ?? -1];
  const at = Math.floor(call / width);
  const place = (compaction?.modelCall ?? 0) / width;
  const chart: Chart = {
    columns: columns.map(({ modelCall, call }) => {
      const cost = modelCall.cost && sumOf(modelCall.cost);
      return { sizes: sizesOf(modelCall), cost, title: describeCall(modelCall, call), href: addressOf({ call }, file) };
    }),
    marks: marksOf(shown, width, columns.length),
    threshold,
    ends: ["call 1", `call ${whole(modelCalls.length)}`],
    chosen: compaction
      ? { from: place, to: place, label: `compaction ${(selection.compaction ?? 0) + 1}` }
      : { from: at, to: at + 1, label: `call ${whole(call + 1)}` },
    costLabel: dollars,
  };
  const parts = partNames.filter((part) => chart.columns.some(({ sizes }) => (sizes[part] ?? 0) >= 1));
  const limit = threshold ? html`<p class="facts">The dashed line is the threshold, ${tokens(threshold)}.</p>` : "";
  return html`<h2>The prompts, call by call</h2>
<svg class="chart" height="${chartHeight(chart)}" role="group" aria-label="the tokens of each prompt by what they are">${drawChart(chart)}</svg>
${drawLegend(parts)}${limit}`;
}

// --- requests and the small print ------------------------------------------------------------------------------------

function listRequests({ requests, modelCalls }: Timeline, link: Link): Markup {
  if (requests.length === 0) return html``;
  const byRequest = groupBy(modelCalls, ({ request }) => request);
  const items = requests.map(({ modelCall, block }, i) => {
    const calls = byRequest.get(i) ?? [];
    const cost = dollarsOf(calls);
    const about = `${counted(calls.length, "call")}${cost === undefined ? "" : `, ${dollars(cost)}`}`;
    const name = labelOf(block);
    const call = Math.min(modelCall, modelCalls.length - 1);
    return html`<tr><td>${i + 1}<td>${calls.length > 0 ? link({ call }, name) : name}<td>${about}</tr>`;
  });
  return html`<section><h2>Requests</h2><table>${items}</table></section>`;
}

function aboutSizes({ isCounted, charsPerToken, skipped, modelCalls }: Timeline): Markup {
  const ratio = charsPerToken.toFixed(1);
  const counts = isCounted ? "The API counted the prompts. The sizes of their parts" : "All sizes";
  const prices = modelCalls.some(({ cost }) => cost) ? " Costs are at the list prices of November 2026." : "";
  const broken = skipped.find(({ reason }) => reason === "broken line");
  const lines = sum(skipped.map(({ count }) => count));
  return html`<p>${counts} are estimates, at ${ratio} characters a token.${prices}</p>
${lines > 0 ? html`<p>Left out: ${counted(lines, "line")} of the file without a message of this conversation.</p>` : ""}
${broken ? html`<p>Line ${broken.line} of the file is broken.</p>` : ""}`;
}
