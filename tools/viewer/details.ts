/** Shows what was in the context at a model call, or what a compaction took. */
import { callKey } from "../trace/events.ts";
import { groupBy, sum, whole } from "../trace/numbers.ts";
import type { Compaction, Context, ModelCall, Size, Timeline } from "../trace/timeline.ts";
import { blocksIn, dollarsOf, fateOfTaken, isMissed, keptBy } from "../trace/timeline.ts";
import { BILL_PARTS, bandsOf } from "./context-chart.ts";
import {
  idOf,
  type LegendItem,
  make,
  makeLegend,
  makeRows,
  makeStrip,
  nameBlock,
  type ShownBlock,
} from "./elements.ts";
import { dollars, facts, percent } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";
import { tokensTaken } from "./large-figures.ts";
import { lostPaths } from "./lost.ts";
import { makeReader, type Reader } from "./reader.ts";
import { changesIn, seriesFor, seriesOf, sizesOf } from "./series.ts";

const MOST_LISTED = 7; // blocks

/** A step on the page. `showBlock` opens a block, if it's in there. */
export type Detail = { element: HTMLElement; showBlock: (id?: number) => void };

/** The blocks of a prompt with their names and colours, after what the file doesn't contain. */
function pickBlocks(timeline: Timeline, side: Context & Size, words: Words): ShownBlock[] {
  const bands = bandsOf(timeline, "context", words);
  const series = seriesOf(timeline);
  const shown = blocksIn(side).map((block): ShownBlock => {
    const { name = "", colour = "" } = bands[seriesFor(block, series)] ?? {};
    const kind = block.kind === "result" ? words.result : name;
    return { block, tokens: block.chars / side.charsPerToken, colour, kind };
  });
  const [{ name = "", colour = "" } = {}] = bands;
  return side.unexplained < 0.5 ? shown : [{ tokens: side.unexplained, colour, kind: name }, ...shown];
}

/** A prompt's size, its share of the threshold or window, and its cost. */
export function describePrompt({ modelCalls, capacity }: Timeline, call: number, words: Words): string {
  const modelCall = modelCalls[call];
  if (!modelCall) return "";
  const size = words.about(words.tokens(modelCall.tokens), !modelCall.usage);
  const share = capacity && words.share(modelCall.tokens / capacity.tokens, words.capacity(capacity));
  return facts(size, share, dollars(dollarsOf([modelCall])));
}

/** The legend of the chart, where each kind of content may have a value. */
function makeKinds(timeline: Timeline, words: Words, valueAt = (_: number) => ""): HTMLElement {
  const kinds = bandsOf(timeline, "context", words).map(({ name, colour }, i) => ({ colour, name, value: valueAt(i) }));
  return makeLegend([...kinds, ...signsOf(timeline, words)]);
}

function signsOf({ modelCalls, compactions }: Timeline, words: Words): LegendItem[] {
  const names = new Set<string>(compactions.map(fateOfTaken));
  if (modelCalls.some(isMissed)) names.add("cold");
  return [...names].map((name) => {
    return { colour: `var(--cv-${name})`, name: words.marks[name] ?? "", sign: name === "cold" ? "◆" : "↓" };
  });
}

function listPaid({ usage, cost, isEstimate }: ModelCall, words: Words): LegendItem[] {
  return BILL_PARTS.flatMap((part): LegendItem[] => {
    if (!usage?.[part]) return [];
    const estimate = part === "output" && isEstimate ? words.estimate : "";
    const value = facts(words.tokens(usage[part]), dollars(cost?.[part]), estimate);
    return [{ colour: `var(--cv-${part})`, name: words.kinds[part], value }];
  });
}

export function makeModelCall(timeline: Timeline, call: number, words: Words, open: (block: number) => void): Detail {
  const { modelCalls, requests } = timeline;
  const modelCall = modelCalls[call];
  if (!modelCall) throw new Error(`there is no model call ${call}`);
  const { time, missed, model } = modelCall;
  const request = requests[modelCall.request]?.block;
  const blocks = pickBlocks(timeline, modelCall, words);
  const reader = makeReader(blocks, words, open);
  const strip = makeStrip(blocks, words, reader.openBlocks);
  const sizes = sizesOf(timeline, modelCall);
  const valueAt = (i: number) => {
    const size = sizes[i] ?? 0;
    return size < 0.5 ? "" : facts(whole(size), percent(size / modelCall.tokens));
  };
  const element = make(
    "div",
    { className: "cv-detail" },
    make("h2", {}, words.atRequest(call + 1, modelCalls.length)),
    make("p", {}, facts(describePrompt(timeline, call, words), model, time ? words.time(time) : "")),
    missed ? make("p", {}, words.missed(missed)) : "",
    strip.element,
    reader.element,
    makeKinds(timeline, words, valueAt),
    makeLegend(listPaid(modelCall, words)),
    request ? make("p", {}, words.requestOf(modelCall.request + 1, labelOf(request))) : "",
    makeLargest(blocks, reader, words),
  );
  const showBlock = (id?: number) => {
    strip.mark(id);
    reader.show(id);
  };
  return { element, showBlock };
}

/** The largest blocks. Results of equal calls count as one. */
function makeLargest(blocks: ShownBlock[], reader: Reader, words: Words): HTMLElement {
  const keyOf = (shown: ShownBlock) => (shown.block?.kind === "result" ? callKey(shown.block.call) : idOf(shown));
  const inFile = blocks.filter(({ block }) => block);
  const groups = [...groupBy(inFile, keyOf).values()].map((all) => {
    return { all, tokens: sum(all.map(({ tokens }) => tokens)) };
  });
  const sorted = groups.sort((a, b) => b.tokens - a.tokens);
  const total = sum(blocks.map(({ tokens }) => tokens));
  const textsFor = ({ all, tokens }: (typeof groups)[number]) => {
    const [name = ""] = all.map((shown) => nameBlock(shown, words));
    return [all.length > 1 ? `${name} × ${all.length}` : name, words.tokens(tokens), percent(tokens / total)];
  };
  const list = makeRows(sorted.slice(0, MOST_LISTED), textsFor, ({ all }) => reader.openBlocks(all));
  return make("div", {}, make("h3", {}, words.largest), list);
}

export function makeCompaction(
  timeline: Timeline,
  compaction: Compaction,
  words: Words,
  open: (block: number) => void,
): Detail {
  const { modelCall, before, after, trigger } = compaction;
  const kept = keptBy(compaction);
  const [old = [], left = []] = [before, after].map((side) =>
    pickBlocks(timeline, side, words).map((shown) => ({ ...shown, isPale: shown.block && kept.has(shown.block) })),
  );
  const reader = makeReader([...old, ...left], words, open);
  const largest = Math.max(before.tokens, after.tokens);
  const upper = makeStrip(old, words, reader.openBlocks, before.tokens / largest);
  const lower = makeStrip(left, words, reader.openBlocks, after.tokens / largest);
  const changes = changesIn(timeline, compaction);
  const losses = changes.map((tokens) => -tokens);
  const size = words.fewer(tokensTaken(compaction));
  const about = facts(words.triggers[trigger] ?? trigger, size, dollars(dollarsOf([compaction])));
  const element = make(
    "div",
    { className: "cv-detail" },
    make("h2", {}, words.atCompaction(modelCall + 1, timeline.modelCalls.length)),
    make("p", {}, about),
    makeLegend(listChanges(timeline, losses, words), words.taken),
    makeLegend(listChanges(timeline, changes, words), words.added),
    make("h3", {}, words.named(words.before, words.sized(before))),
    upper.element,
    make("h3", {}, words.named(words.after, words.sized(after))),
    lower.element,
    reader.element,
    make("p", { className: "cv-quiet" }, words.pale),
    makeKinds(timeline, words),
    makeLost(lostPaths(compaction), words),
  );
  const showBlock = (id?: number) => {
    for (const strip of [upper, lower]) strip.mark(id);
    reader.show(id);
  };
  return { element, showBlock };
}

/** What grew, largest first. */
function listChanges(timeline: Timeline, changes: number[], words: Words): LegendItem[] {
  const all = bandsOf(timeline, "context", words).map((band, i) => ({ ...band, tokens: changes[i] ?? 0 }));
  const grown = all.filter(({ tokens }) => tokens >= 0.5).sort((a, b) => b.tokens - a.tokens);
  return grown.map(({ name, colour, tokens }) => ({ name, colour, value: whole(tokens) }));
}

function makeLost(paths: string[], words: Words): HTMLElement {
  const list = make("ul", { className: "cv-lost" }, ...paths.map((path) => make("li", {}, path)));
  return make("div", { hidden: paths.length === 0 }, make("h3", {}, words.lost(paths.length)), list);
}
