/** Shows the selected model call or compaction: its bars, its largest blocks and the text of one. */
import { CHANGE_HEIGHT, type Describe, drawBar, drawChange } from "../draw/bar.ts";
import { html, type Markup } from "../draw/markup.ts";
import { PARTS, type Part, partNames, partOf, segmentsOf, sizesOf } from "../draw/parts.ts";
import { textOf } from "../sessions/events.ts";
import { sum, whole } from "../sessions/numbers.ts";
import { sumOf } from "../sessions/prices.ts";
import type { Compaction, ModelCall, Side, Timeline } from "../sessions/timeline.ts";
import { addressOf, type Selection } from "./address.ts";
import { type Link, WHY } from "./answers.ts";
import { callsWith, changeOf, isRecorded, type Sized, tokensOf } from "./taken.ts";
import { counted, dollars, labelOf, nameOf, nameOfTrigger, percent, timeOf, tokens } from "./words.ts";

export type Shown = { timeline: Timeline; selection: Selection; link: Link; file?: string };

const MOST_LISTED = 8; // blocks
const MOST_SHOWN = 300_000; // characters of a block

const drawSwatch = (part: Part) =>
  html`<svg width="12" height="12" aria-hidden="true"><rect fill="var(--${part})" width="12" height="12" rx="2"/></svg>`;

export const drawLegend = (parts: Part[], amountOf: (part: Part) => string = () => ""): Markup =>
  html`<ul>${parts.map((part) => html`<li>${drawSwatch(part)} ${PARTS[part]} <b>${amountOf(part)}</b></li>`)}</ul>`;

const drawStrip = (label: string, height: number, content: Markup): Markup =>
  html`<svg class="strip" height="${height}" role="group" aria-label="${label}">${content}</svg>`;

/** Names the segments of a bar, and links to the text of the first. */
const describeIn =
  ({ timeline, selection, file }: Shown): Describe =>
  (segments) => {
    const [first] = segments;
    const size = tokens(sum(segments.map(({ size }) => size)));
    if (!first?.block) return { title: `not in the file, ${size}` };
    const name = segments.length === 1 ? nameOf(first.block, timeline) : counted(segments.length, "small block");
    return { title: `${name}, ${size}`, href: addressOf({ ...selection, block: first.block.id }, file) };
  };

function listBlocks(blocks: Sized[], { timeline, selection, link }: Shown, total: number): Markup {
  const largest = blocks.toSorted((a, b) => b.tokens - a.tokens).slice(0, MOST_LISTED);
  const rows = largest.map(({ block, tokens: size }) => {
    const name = link({ ...selection, block: block.id }, nameOf(block, timeline));
    return html`<tr><td>${drawSwatch(partOf(block))}<td>${name}<td>${whole(size)}<td>${percent(size / total)}</tr>`;
  });
  return html`<table>${rows}</table>`;
}

function showText({ timeline, selection, link }: Shown): Markup {
  const block = timeline.blocks[selection.block ?? -1];
  if (!block) return html``;
  const text = textOf(block);
  const { first, last } = callsWith(block, timeline);
  const sent = first < 0 ? "never sent" : `sent with calls ${whole(first + 1)} to ${whole(last + 1)}`;
  const size = `about ${tokens(block.chars / timeline.charsPerToken)}, ${sent}`;
  const cut = text.length > MOST_SHOWN ? `The rest of its ${whole(text.length)} characters isn’t shown.` : "";
  return html`<section id="block"><h3>${nameOf(block, timeline)}</h3>
<p class="facts">${size} · ${link({ ...selection, block: undefined }, "close")}</p>
<pre tabindex="0">${text.slice(0, MOST_SHOWN)}</pre><p>${cut}</p></section>`;
}

function facts(...all: (string | undefined)[]): Markup {
  const known = all.filter(Boolean).join(" · ");
  return known ? html`<p class="facts">${known}</p>` : html``;
}

/** Links to the neighbours. */
function heading(title: string, what: "call" | "compaction", index: number, count: number, link: Link): Markup {
  const before = index > 0 ? link({ [what]: index - 1 }, `‹ ${what} ${whole(index)}`) : "";
  const after = index + 1 < count ? link({ [what]: index + 1 }, `${what} ${whole(index + 2)} ›`) : "";
  return html`<header><h2>${title}</h2><nav>${before} ${after}</nav></header>`;
}

// --- a model call ----------------------------------------------------------------------------------------------------

const PAID = [
  ["read", "read from the cache"],
  ["written", "written to the cache"],
  ["input", "not cached"],
  ["output", "output"],
  ["searches", "web searches"],
] as const;

function sayPaid({ usage, cost, isEstimate }: ModelCall): string {
  const paid = PAID.map(([part, name]) => {
    const about = part === "output" && isEstimate ? "about " : "";
    return usage?.[part] ? `${about}${whole(usage[part])} ${name}${cost ? ` (${dollars(cost[part])})` : ""}` : "";
  });
  return paid.filter(Boolean).join(", ");
}

export function showCall(shown: Shown, call: ModelCall, index: number): Markup {
  const { modelCalls, requests } = shown.timeline;
  const segments = segmentsOf(call);
  const sizes = sizesOf(call);
  const parts = partNames.filter((part) => (sizes[part] ?? 0) >= 1);
  const share = (part: Part) => `${whole(sizes[part] ?? 0)} (${percent((sizes[part] ?? 0) / call.tokens)})`;
  const request = requests[call.request];
  const blocks = segments.flatMap(({ block, size }) => (block ? { block, tokens: size } : []));
  const describe = describeIn({ ...shown, selection: { ...shown.selection, call: index } });
  const size = `${call.usage ? "" : "about "}${tokens(call.tokens)}`;
  const title = `Call ${whole(index + 1)} of ${whole(modelCalls.length)}`;
  const missed = call.missed && `${tokens(call.missed.tokens)} weren’t in the prompt cache ${WHY[call.missed.why]}`;
  return html`${heading(title, "call", index, modelCalls.length, shown.link)}
${facts(size, call.cost && dollars(sumOf(call.cost)), call.model, call.time ? timeOf(call.time) : "")}
${facts(sayPaid(call))}
${facts(missed)}
${requests.length > 1 ? facts(request && `for request ${whole(call.request + 1)}: ${labelOf(request.block)}`) : ""}
${drawStrip("the blocks of the prompt", 30, drawBar({ segments, total: call.tokens, height: 30, describe }))}
${drawLegend(parts, share)}
${showText(shown)}
<h3>Its largest blocks, in tokens</h3>
${listBlocks(blocks, { ...shown, selection: { call: index } }, call.tokens)}`;
}

// --- a compaction ----------------------------------------------------------------------------------------------------

const sizeOf = ({ tokens: size, isEstimate }: Side) => `${isEstimate ? "about " : ""}${tokens(size)}`;
export const sayChange = ({ before, after }: Compaction) => `from ${sizeOf(before)} to ${sizeOf(after)}`;

export function showCompaction(shown: Shown, compaction: Compaction, index: number): Markup {
  const { modelCalls, compactions } = shown.timeline;
  const { trigger, modelCall } = compaction;
  const [before, after] = [segmentsOf(compaction.before), segmentsOf(compaction.after)];
  const total = Math.max(compaction.before.tokens, compaction.after.tokens);
  const cost = compaction.cost && `its summary cost ${dollars(sumOf(compaction.cost))}`;
  const describe = describeIn({ ...shown, selection: { ...shown.selection, compaction: index } });
  const parts = partNames.filter((part) => [...before, ...after].some((segment) => segment.part === part));
  const place = modelCall < modelCalls.length ? `before call ${whole(modelCall + 1)}` : "at the end";
  const title = `Compaction ${index + 1} of ${compactions.length}, ${place}`;
  return html`${heading(title, "compaction", index, compactions.length, shown.link)}
${facts(nameOfTrigger(trigger), cost)}
${facts(`before: ${sizeOf(compaction.before)}`)}
${drawStrip("the prompt before and after", CHANGE_HEIGHT, drawChange({ before, after, total, describe }))}
${facts(`after: ${sizeOf(compaction.after)}`)}
${drawLegend(parts)}
${showText(shown)}
${showChange(compaction, { ...shown, selection: { compaction: index } })}`;
}

function showChange(compaction: Compaction, shown: Shown): Markup {
  if (!isRecorded(compaction)) return html`<p>The file begins here. What the prompt held before isn’t in it.</p>`;
  const { left, came } = changeOf(compaction);
  const list = (title: string, all: Sized[]) =>
    html`<section><h3>${title}: about ${tokens(tokensOf(all))}</h3>${listBlocks(all, shown, tokensOf(all))}</section>`;
  return html`<div class="columns">${list("Taken out", left)}${list("Put in", came)}</div>`;
}
