/** Shows what was in the context at a model call, or before and after a compaction. */
import { dollars, facts, groupBy, percent, sum } from "../trace/numbers.ts";
import type { Block, Compaction, Extent, ModelCall, Size, Timeline } from "../trace/timeline.ts";
import { blocksAt, dollarsOf, fatesOf, seriesFor } from "../trace/timeline.ts";
import { BILL_PARTS, colourOf } from "./context-chart.ts";
import { type LegendItem, make, makeLegend, makeRows, nameBlock, type ShownBlock } from "./elements.ts";
import { nameOfSeries, type Words } from "./languages.ts";
import { type Lost, lostIn } from "./lost.ts";
import { makeReader, makeSearch, type Place, type Reader } from "./reader.ts";

/** The blocks of a prompt with their names and colours, after what the file doesn't contain. */
function pickBlocks(timeline: Timeline, side: Extent & Size, words: Words): ShownBlock[] {
  const { series } = timeline;
  const shown = blocksAt(timeline, side).map((block) => {
    const name = seriesFor(block, series);
    const kind = block.kind === "result" ? words.result : nameOfSeries(name, words);
    return { block, tokens: block.chars / side.charsPerToken, colour: colourOf(name, series), kind };
  });
  return [...pickUnexplained(side.unexplained, words), ...shown];
}

/** Stands for the tokens that no block in the file accounts for. */
function pickUnexplained(tokens: number, words: Words): ShownBlock[] {
  const kind = "unexplained";
  const block: Block = { id: -1, kind, label: "", text: words.notInFile, chars: 0, since: 0, message: -1 };
  return tokens >= 0.5 ? [{ block, tokens, colour: `var(--cv-${kind})`, kind: nameOfSeries(kind, words) }] : [];
}

/** A prompt's size, its share of the threshold or window, and its cost. */
export function describePrompt({ modelCalls, capacity }: Timeline, call: number, words: Words): string {
  const modelCall = modelCalls[call];
  if (!modelCall) return "";
  const share = capacity && words.share(modelCall.tokens / capacity.tokens, words.capacity(capacity));
  return facts(words.tokens(modelCall.tokens), share, dollars(dollarsOf([modelCall])));
}

/** The tokens and share of each kind of content. */
function listKinds({ series }: Timeline, { sizes, tokens }: ModelCall, words: Words): LegendItem[] {
  return series.flatMap((name, i): LegendItem[] => {
    const size = sizes[i] ?? 0;
    const value = facts(words.tokens(size), percent(size / tokens));
    return size >= 0.5 ? [{ colour: colourOf(name, series), name: nameOfSeries(name, words), value }] : [];
  });
}

/** The tokens and dollars of each billed part. */
function listPaid({ usage, cost, isEstimate }: ModelCall, words: Words): LegendItem[] {
  return BILL_PARTS.flatMap((part): LegendItem[] => {
    if (!usage?.[part]) return [];
    const estimate = part === "output" && isEstimate ? words.estimate : "";
    const value = facts(words.tokens(usage[part]), dollars(cost?.[part]), estimate);
    return [{ colour: `var(--cv-${part})`, name: nameOfSeries(part, words), value }];
  });
}

export function makeModelCall(timeline: Timeline, modelCall: ModelCall, words: Words, place: Place): HTMLElement {
  const { modelCalls, requests } = timeline;
  const { time, missed, model } = modelCall;
  const request = timeline.blocks[requests[modelCall.request]?.block ?? -1];
  const blocks = pickBlocks(timeline, modelCall, words);
  const reader = makeReader(timeline, words, place);
  const strip = reader.stripOf(blocks);
  const number = modelCalls.indexOf(modelCall) + 1;
  reader.reopen(blocks);
  return make(
    "div",
    { className: "cv-detail" },
    make("h2", {}, words.atRequest(number, modelCalls.length)),
    make("p", {}, facts(describePrompt(timeline, number - 1, words), model, time ? words.time(time) : "")),
    missed ? make("p", { className: "cv-missed" }, words.missed(missed, modelCall)) : "",
    request ? make("p", {}, words.requestOf(modelCall.request + 1, request.label)) : "",
    makeSearch(blocks, reader, words, place),
    strip,
    make("p", { className: "cv-quiet cv-hint" }, words.hint),
    makeLegend(listKinds(timeline, modelCall, words)),
    makeLegend(listPaid(modelCall, words)),
    reader.element,
    makeLargest(blocks, reader, words),
  );
}

/** The five largest blocks, and what the context holds more than once. Results of the same call count as one. */
function makeLargest(blocks: ShownBlock[], reader: Reader, words: Words): HTMLElement {
  const byCall = groupBy(blocks, ({ block }) => (block.kind === "result" ? block.label : block.id));
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
  const fates = fatesOf(timeline, compaction);
  const reader = makeReader(timeline, words, place);
  const groupedBefore = groupByFate(pickBlocks(timeline, before, words), ({ block }) => {
    const fate = fates.get(block.id) ?? "summarized";
    return [words.fates[fate], `var(--cv-${fate})`];
  });
  const groupedAfter = groupByFate(pickBlocks(timeline, after, words), ({ block, kind, colour }) => {
    if (fates.has(block.id)) return [words.fates.kept, "var(--cv-kept)"];
    if (block.thought !== undefined) return [words.fates.thought, "var(--cv-thought)"];
    return block.original === undefined ? [kind, colour] : [words.fates.disk, "var(--cv-disk)"];
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
    makeLost(lostIn(timeline, compaction), all, reader, words),
  );
}

type Grouped = { shown: ShownBlock; name: string };

/** Names and colours each block after its group. What isn't in the file belongs to none. */
function groupByFate(blocks: ShownBlock[], fateOf: (shown: ShownBlock) => [name: string, colour: string]): Grouped[] {
  return blocks.map((shown) => {
    const { kind } = shown;
    const [name, colour] = shown.block.kind === "unexplained" ? [kind, shown.colour] : fateOf(shown);
    return { name, shown: { ...shown, colour, kind: name === kind ? kind : facts(name, kind) } };
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
    const shown = blocks.find((each) => each.block.id === block.id);
    const at = Math.max(0, block.text.indexOf(text));
    if (shown) reader.openText(shown, { shown, at, length: text.length });
    reader.element.scrollIntoView({ block: "nearest" });
  };
  const groups = [...groupBy(lost, ({ kind }) => kind)].flatMap(([kind, items]) => [
    make("h4", {}, words.lostKind(kind, items.length)),
    makeRows(items, ({ text }) => [text], openFirst),
  ]);
  return make("div", { className: "cv-lost", hidden: groups.length === 0 }, make("h3", {}, words.lost), ...groups);
}
