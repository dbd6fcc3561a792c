/** Shows what was in the context at a model call, or before and after a compaction. */
import { callKey, textOf } from "../trace/events.ts";
import { groupBy, sum } from "../trace/numbers.ts";
import type { Compaction, Context, ContextBlock, Fate, ModelCall, Size, Timeline } from "../trace/timeline.ts";
import { blocksIn, dollarsOf, fatesOf, isCleared } from "../trace/timeline.ts";
import { BILL_PARTS, bandsOf } from "./context-chart.ts";
import { idOf, type LegendItem, make, makeLegend, makeRows, nameBlock, type ShownBlock } from "./elements.ts";
import { dollars, facts, percent } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";
import { type Lost, lostIn } from "./lost.ts";
import { makeReader, makeSearch, type Place, type Reader } from "./reader.ts";
import { seriesFor, seriesOf, sizesOf } from "./series.ts";

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
  const share = capacity && words.share(modelCall.tokens / capacity.tokens, words.capacity(capacity));
  return facts(words.tokens(modelCall.tokens), share, dollars(dollarsOf([modelCall])));
}

/** The tokens and share of each kind of content. */
function listKinds(timeline: Timeline, modelCall: ModelCall, words: Words): LegendItem[] {
  const sizes = sizesOf(timeline, modelCall);
  return bandsOf(timeline, "context", words).flatMap(({ name, colour }, i): LegendItem[] => {
    const size = sizes[i] ?? 0;
    const value = facts(words.tokens(size), percent(size / modelCall.tokens));
    return size >= 0.5 ? [{ colour, name, value }] : [];
  });
}

/** The tokens and dollars of each billed part. */
function listPaid({ usage, cost, isEstimate }: ModelCall, words: Words): LegendItem[] {
  return BILL_PARTS.flatMap((part): LegendItem[] => {
    if (!usage?.[part]) return [];
    const estimate = part === "output" && isEstimate ? words.estimate : "";
    const value = facts(words.tokens(usage[part]), dollars(cost?.[part]), estimate);
    return [{ colour: `var(--cv-${part})`, name: words.kinds[part], value }];
  });
}

export function makeModelCall(timeline: Timeline, modelCall: ModelCall, words: Words, place: Place): HTMLElement {
  const { modelCalls, requests } = timeline;
  const { time, missed, model } = modelCall;
  const request = requests[modelCall.request]?.block;
  const blocks = pickBlocks(timeline, modelCall, words);
  const reader = makeReader(words, place);
  const strip = reader.stripOf(blocks);
  const number = modelCalls.indexOf(modelCall) + 1;
  reader.reopen(blocks);
  return make(
    "div",
    { className: "cv-detail" },
    make("h2", {}, words.atRequest(number, modelCalls.length)),
    make("p", {}, facts(describePrompt(timeline, number - 1, words), model, time ? words.time(time) : "")),
    missed ? make("p", { className: "cv-missed" }, words.missed(missed, modelCall)) : "",
    request ? make("p", {}, words.requestOf(modelCall.request + 1, labelOf(request))) : "",
    makeSearch(blocks, reader, words, place),
    strip,
    make("p", { className: "cv-quiet cv-hint" }, words.hint),
    makeLegend(listKinds(timeline, modelCall, words)),
    makeLegend(listPaid(modelCall, words)),
    reader.element,
    makeLargest(blocks, reader, words),
  );
}

/** The five largest blocks, and what the context holds more than once. Results of equal calls count as one. */
function makeLargest(blocks: ShownBlock[], reader: Reader, words: Words): HTMLElement {
  const keyOf = (shown: ShownBlock) => (shown.block?.kind === "result" ? callKey(shown.block.call) : idOf(shown));
  const byCall = groupBy(blocks, keyOf);
  const groups = [...byCall.values()].map((all) => ({ all, tokens: sum(all.map(({ tokens }) => tokens)) }));
  const sorted = groups.sort((a, b) => b.tokens - a.tokens);
  const repeated = sorted.slice(5).filter(({ all }) => all.length > 1);
  const total = sum(sorted.map(({ tokens }) => tokens));
  const textsFor = ({ all, tokens }: (typeof groups)[number]) => {
    const [name = ""] = all.map((shown) => nameBlock(shown, words));
    return [all.length > 1 ? `${name} × ${all.length}` : name, words.tokens(tokens), percent(tokens / total)];
  };
  const list = makeRows([...sorted.slice(0, 5), ...repeated.slice(0, 5)], textsFor, ({ all }) =>
    reader.openBlocks(all),
  );
  return make("div", {}, make("h3", {}, words.largest), list);
}

export function makeCompaction(timeline: Timeline, compaction: Compaction, words: Words, place: Place): HTMLElement {
  const { modelCall, before, after, trigger } = compaction;
  const fates = fatesOf(compaction);
  const reader = makeReader(words, place);
  const groupedBefore = groupByFate(pickBlocks(timeline, before, words), words, (block) => fates.get(block));
  const groupedAfter = groupByFate(pickBlocks(timeline, after, words), words, (block) => {
    if (fates.has(block)) return "kept";
    if (!block.replaces) return undefined; // it's new
    return isCleared(block) ? "disk" : "thought";
  });
  const largest = Math.max(before.tokens, after.tokens);
  const sides = [
    makeSide(groupedBefore, words.named(words.before, words.sized(before)), before.tokens / largest, reader, words),
    makeSide(groupedAfter, words.named(words.after, words.sized(after)), after.tokens / largest, reader, words),
  ];
  const all = [...groupedBefore, ...groupedAfter].map(({ shown }) => shown);
  reader.reopen(all);
  return make(
    "div",
    { className: "cv-detail" },
    make("h2", {}, words.atCompaction(modelCall + 1, timeline.modelCalls.length)),
    make("p", {}, words.triggers[trigger] ?? trigger),
    make("div", { className: "cv-sides" }, ...sides),
    make("p", { className: "cv-quiet cv-hint" }, words.hint),
    reader.element,
    makeLost(lostIn(compaction), all, reader, words),
  );
}

type Grouped = { shown: ShownBlock; name: string };

/** Names and colours each block after its fate. What is new or isn't in the file has none. */
function groupByFate(blocks: ShownBlock[], words: Words, fateOf: (block: ContextBlock) => Fate | undefined): Grouped[] {
  return blocks.map((shown) => {
    const fate = shown.block && fateOf(shown.block);
    if (!fate) return { name: shown.kind, shown };
    const name = words.fates[fate];
    return { name, shown: { ...shown, colour: `var(--cv-${fate})`, kind: facts(name, shown.kind) } };
  });
}

/** One side of a compaction: its blocks and the size of each group. Both sides are drawn on one scale. */
function makeSide(blocks: Grouped[], heading: string, share: number, reader: Reader, words: Words): HTMLElement {
  const items = [...groupBy(blocks, ({ name }) => name)].map(([name, all]): LegendItem => {
    const tokens = sum(all.map(({ shown }) => shown.tokens));
    return { colour: all[0]?.shown.colour ?? "", name, value: facts(words.blocks(all.length), words.tokens(tokens)) };
  });
  const all = blocks.map(({ shown }) => shown);
  return make("div", {}, make("h3", {}, heading), reader.stripOf(all, share), makeLegend(items));
}

/** Lists what nothing names after the compaction. Each entry opens the block that named it first. */
function makeLost(lost: Lost[], blocks: ShownBlock[], reader: Reader, words: Words): HTMLElement {
  const openFirst = ({ text, block }: Lost) => {
    const shown = blocks.find((each) => each.block === block);
    const at = Math.max(0, textOf(block).indexOf(text));
    if (shown) reader.openText(shown, { shown, at, length: text.length });
    reader.element.scrollIntoView({ block: "nearest" });
  };
  const groups = [...groupBy(lost, ({ kind }) => kind)].flatMap(([kind, items]) => [
    make("h4", {}, words.lostKind(kind, items.length)),
    makeRows(items, ({ text }) => [text], openFirst),
  ]);
  return make("div", { className: "cv-lost", hidden: groups.length === 0 }, make("h3", {}, words.lost), ...groups);
}
