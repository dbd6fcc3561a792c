/** Makes the page of a session: the answers, the chart, what is selected, and the user's requests. */
import { readFileSync } from "node:fs";
import { CHART_HEIGHT, type Chart, type Column, drawChart } from "../draw/chart.ts";
import { html, type Markup } from "../draw/markup.ts";
import { partNames, STYLE, sizesOf } from "../draw/parts.ts";
import { groupBy, largestOf, sum, whole } from "../sessions/numbers.ts";
import { sumOf } from "../sessions/prices.ts";
import type { ModelCall, Timeline } from "../sessions/timeline.ts";
import { addressOf, type Selection } from "./address.ts";
import { answersFor, costOfAll, type Link } from "./answers.ts";
import { drawLegend, type Shown, sayChange, showCall, showCompaction } from "./details.ts";
import { counted, dollars, labelOf, nameOfTrigger, percent, timeOf, titleOf, tokens } from "./words.ts";

const CSS = STYLE + readFileSync(new URL("style.css", import.meta.url), "utf8");

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
</body>
</html>
`;

/** `file` is in the addresses unless it's the one that was opened first. */
type Session = { timeline: Timeline; name: string; file?: string; list?: string; subagents: number };

/** Throws if the session doesn't have what is selected. */
export function makeSessionPage(session: Session, selection: Selection): Markup {
  const { timeline, name, file, list, subagents } = session;
  const link: Link = (to, text) => html`<a href="${addressOf(to, file)}">${text}</a>`;
  const shown: Shown = { timeline, selection, link, file };
  const answers = answersFor(timeline, link).map(
    ({ about, figure, said }) => html`<div><dt>${about}</dt><dd class="figure">${figure}</dd><dd>${said}</dd></div>`,
  );
  const title = titleOf(timeline);
  const others = list ? html` · <a href="/sessions">${list}</a>` : "";
  const children = subagents > 0 ? ` · without its ${counted(subagents, "subagent")}` : "";
  return makePage(
    title,
    html`<header><h1>${title}</h1><p class="facts">${timeline.format} · ${span(timeline.modelCalls)}${name}${children}${others}</p></header>
<main>
<dl>${answers}</dl>
<section id="chart">${showChart(shown)}</section>
<section class="detail">${showSelected(shown)}</section>
${listRequests(shown)}
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

/** In a long session `width` neighbouring calls share a column, which has the largest prompt of them. */
function columnsOf(modelCalls: ModelCall[], width: number, file?: string): Column[] {
  const calls = modelCalls.map((modelCall, call) => ({ call, modelCall }));
  const groups = [...groupBy(calls, ({ call }) => Math.floor(call / width)).values()];
  return groups.flatMap((group) => {
    const largest = group[largestOf(group.map(({ modelCall }) => modelCall.tokens))];
    if (!largest) return [];
    const { call, modelCall } = largest;
    const cost = modelCall.cost ? `, ${dollars(sumOf(modelCall.cost))}` : "";
    const title = `call ${whole(call + 1)}: ${tokens(modelCall.tokens)}${cost}`;
    return { sizes: sizesOf(modelCall), title, href: addressOf({ call }, file) };
  });
}

const NEAR = 0.055; // of the width: closer marks are dots without a number

function marksOf({ timeline, file }: Shown, width: number, columns: number): Chart["marks"] {
  const places = timeline.compactions.map(({ modelCall }) => modelCall / width);
  return timeline.compactions.map((each, compaction) => {
    const place = places[compaction] ?? 0;
    const isCrowded = places.some((other, i) => i !== compaction && Math.abs(other - place) < NEAR * columns);
    return {
      after: Math.min(place, columns),
      label: isCrowded ? undefined : `${compaction + 1}`,
      title: `compaction ${compaction + 1}: ${nameOfTrigger(each.trigger)}, ${sayChange(each)}`,
      href: addressOf({ compaction }, file),
    };
  });
}

function showChart(shown: Shown): Markup {
  const { timeline, selection, file } = shown;
  const { modelCalls, compactions, threshold } = timeline;
  const width = Math.ceil(modelCalls.length / MOST_COLUMNS);
  const columns = columnsOf(modelCalls, width, file);
  const call = callOf(shown);
  const compaction = compactions[selection.compaction ?? -1];
  const at = Math.floor(call / width);
  const place = (compaction?.modelCall ?? 0) / width;
  const chosen = compaction ? { from: place, to: place } : { from: at, to: at + 1 };
  const ends: Chart["ends"] = ["call 1", `call ${whole(modelCalls.length)}`];
  const chart = { columns, marks: marksOf(shown, width, columns.length), threshold, ends, chosen };
  const parts = partNames.filter((part) => columns.some(({ sizes }) => (sizes[part] ?? 0) >= 1));
  const notes = [
    threshold ? `The dashed line is the threshold, ${tokens(threshold)}.` : "",
    compactions.length > 0 ? "Circles are compactions." : "",
    compaction ? "" : `The frame is call ${whole(call + 1)}.`,
    width > 1 ? `A column has the largest prompt of ${width} calls.` : "",
  ];
  return html`<h2>The tokens of each prompt</h2>
<svg class="chart" height="${CHART_HEIGHT}" role="group" aria-label="the tokens of each prompt by what they are">${drawChart(chart)}</svg>
${drawLegend(parts)}<p class="facts">${notes.join(" ")}</p>`;
}

// --- requests and the small print ------------------------------------------------------------------------------------

function listRequests({ timeline, link }: Shown): Markup {
  const { requests, modelCalls } = timeline;
  if (requests.length < 2) return html``; // it's the title
  const all = costOfAll(timeline);
  const byRequest = groupBy(modelCalls, ({ request }) => request);
  const items = requests.map(({ modelCall, block }, i) => {
    const calls = byRequest.get(i) ?? [];
    const cost = sum(calls.map((call) => sumOf(call.cost)));
    const price = cost > 0 ? html`<td>${dollars(cost)}<td>${percent(cost / all)}` : html`<td><td>`;
    const name = labelOf(block);
    return html`<tr><td>${i + 1}<td>${calls.length > 0 ? link({ call: modelCall }, name) : name}<td>${counted(calls.length, "call")}${price}</tr>`;
  });
  return html`<section><h2>The user’s requests</h2><table>${items}</table></section>`;
}

function aboutSizes({ isCounted, charsPerToken, skipped, modelCalls }: Timeline): Markup {
  const ratio = charsPerToken.toFixed(1);
  const some = modelCalls.every(({ usage }) => usage) ? "" : "some of ";
  const counts = isCounted ? `The API counted ${some}the prompts. The sizes of their parts` : "All sizes";
  const prices = modelCalls.some(({ cost }) => cost) ? " Costs are at the list prices of November 2026." : "";
  const isIncomplete = modelCalls.some(({ unexplained, tokens }) => unexplained > tokens / 200);
  const missing = isIncomplete ? " What isn’t in the file is usually the system prompt and the tools." : "";
  const left = skipped.filter(({ reason }) => /^line of/.test(reason));
  const broken = skipped.find(({ reason }) => reason === "broken line");
  return html`<p>${counts} are estimates, at ${ratio} characters a token.${prices}${missing}</p>
${left.map(({ count, reason }) => html`<p>Left out, with whatever it cost: ${whole(count)} × ${reason}.</p>`)}
${broken ? html`<p>Line ${broken.line} of the file is broken.</p>` : ""}`;
}
