/** What is in the context at a model call, and on both sides of a compaction. */
import { colourOf, PAID } from "./context-chart.ts";
import type { Shown, Strip } from "./elements.ts";
import { type Item, make, makeLegend, makeList, makeRows, makeStrip, makeText, nameOf } from "./elements.ts";
import { nameOfSeries, type Words } from "./languages.ts";
import { groupLost, type Lost, lostIn } from "./lost.ts";
import { dollars } from "./numbers.ts";
import { sumOf } from "./prices.ts";
import {
  type Block,
  blocksAt,
  type Compaction,
  type Extent,
  fatesOf,
  type Side,
  type Size,
  seriesFor,
  type Timeline,
} from "./timeline.ts";

/** What a reader has open, which a step and a file that grows leave open: a block, how far it is scrolled, a search. */
export type Place = { block?: number; scroll: number; search: string };

/** Hits are counted up to here. */
const MOST_HITS = 5_000;
type Hit = { shown: Shown; at: number; length: number };
/** A place for the text of a block that is chosen in a strip, or found by a search. */
type Reader = {
  element: HTMLElement;
  stripOf: (blocks: Shown[]) => HTMLElement;
  show: (shown: Shown, hit?: Hit, hits?: Set<number>) => void;
  /** One block, or a list of several. */
  open: (all: Shown[]) => void;
  clear: () => void;
};

function makeReader({ blocks }: Timeline, words: Words, place: Place): Reader {
  const element = make("div", { className: "cv-reader" });
  const strips: Strip[] = [];
  const show: Reader["show"] = (shown, hit, hits = new Set()) => {
    place.scroll = shown.block.id === place.block && !hit ? place.scroll : 0;
    place.block = shown.block.id;
    element.replaceChildren(makeText(shown, words, hit));
    const [text] = element.getElementsByTagName("pre");
    text?.scrollTo({ top: place.scroll });
    text?.addEventListener("scroll", () => {
      place.scroll = text.scrollTop;
    });
    const original = blocks[shown.block.original ?? -1];
    if (original) {
      const tokens = (shown.tokens * original.chars) / shown.block.chars;
      element.append(make("p", {}, words.original), makeText({ ...shown, block: original, tokens }, words));
    }
    if (shown.block.thought !== undefined) element.append(make("p", {}, words.thought));
    const [mark] = element.getElementsByTagName("mark");
    mark?.parentElement?.scrollTo({ top: mark.offsetTop - mark.parentElement.offsetTop - 100 });
    for (const strip of strips) strip.mark(hits, shown.block.id);
  };
  const open: Reader["open"] = (all) => {
    const [first] = all;
    if (all.length > 1) element.replaceChildren(makeList(all, words, show));
    else if (first) show(first);
  };
  const stripOf = (blocks: Shown[]) => {
    const strip = makeStrip(blocks, words, open);
    strips.push(strip);
    return strip.element;
  };
  const clear = () => {
    for (const strip of strips) strip.mark(new Set());
  };
  return { element, stripOf, show, open, clear };
}

/** The blocks of a model call or of a side of a compaction, with their names and colours; first what is not in the file. */
function shownAt(timeline: Timeline, side: Extent & Size, words: Words): Shown[] {
  const { series } = timeline;
  const { charsPerToken } = side;
  const shown = blocksAt(timeline, side).map((block) => {
    const name = seriesFor(block, series);
    const kind = block.kind === "result" ? words.results(block.tool ?? "") : nameOfSeries(name, words);
    return { block, tokens: block.chars / charsPerToken, colour: colourOf(name, series), kind };
  });
  return [...shownUnexplained(side.unexplained, words), ...shown];
}

/** What is not in the file: only its size is known. */
function shownUnexplained(tokens: number, words: Words): Shown[] {
  const kind = "unexplained";
  const block: Block = { id: -1, kind, label: "", text: words.notInFile, chars: 0 };
  return tokens >= 0.5 ? [{ block, tokens, colour: `var(--cv-${kind})`, kind: nameOfSeries(kind, words) }] : [];
}

export function makeMoment(timeline: Timeline, index: number, words: Words, place: Place): HTMLElement {
  const { moments, series, requests, blocks: all, limits } = timeline;
  const moment = moments[index];
  if (!moment) return make("div");
  const { tokens, sizes, usage, time, cost, missed, model, isEstimate } = moment;
  const parts = series.flatMap((name, i): Item[] => {
    const size = sizes[i] ?? 0;
    if (size < 0.5) return [];
    const value = `${words.tokens(size)} · ${words.percent(size / (tokens || 1))}`;
    return [{ colour: colourOf(name, series), name: nameOfSeries(name, words), value }];
  });
  const paid = PAID.flatMap((part): Item[] => {
    if (!usage?.[part]) return [];
    const facts = [words.tokens(usage[part]), ...(cost ? [dollars(cost[part])] : [])];
    if (part === "output" && isEstimate) facts.push(words.estimate);
    return [{ colour: `var(--cv-${part})`, name: nameOfSeries(part, words), value: facts.join(" · ") }];
  });
  const facts = [words.tokens(tokens)];
  const [limit] = limits;
  if (limit) facts.push(words.share(tokens / limit.tokens, words.limit(limit.tokens, limit.source)));
  if (cost) facts.push(dollars(sumOf(cost)));
  if (model) facts.push(model);
  if (time) facts.push(words.time(time));
  const request = all[requests[moment.request]?.block ?? -1];
  const blocks = shownAt(timeline, moment, words);
  const reader = makeReader(timeline, words, place);
  const element = make(
    "div",
    { className: "cv-detail" },
    make("h3", {}, words.atRequest(index + 1, moments.length)),
    make("p", {}, facts.join(" · ")),
    ...(missed ? [make("p", { className: "cv-missed" }, words.missed(missed, moment))] : []),
    ...(request ? [make("p", {}, words.requestOf(moment.request + 1, request.label))] : []),
    makeSearch(blocks, reader, words, place),
    reader.stripOf(blocks),
    make("p", { className: "cv-quiet" }, words.hint),
    makeLegend(parts),
    makeLegend(paid),
    reader.element,
    makeLargest(blocks, reader, words),
  );
  reopen(blocks, reader, place);
  return element;
}

/** Opens the block that was open before the step, if it is still in the context. */
function reopen(blocks: Shown[], reader: Reader, place: Place): void {
  const shown = blocks.find(({ block }) => block.id === place.block);
  if (shown) reader.show(shown);
}

/** The largest consumers, and what was read more than once: results of the same call count together. */
function makeLargest(blocks: Shown[], reader: Reader, words: Words): HTMLElement {
  const groups = new Map<string, { all: Shown[]; tokens: number; share: number }>();
  const total = blocks.reduce((sum, { tokens }) => sum + tokens, 0);
  for (const shown of blocks) {
    const { kind, label, id } = shown.block;
    const key = kind === "result" ? label : `${id}`;
    const group = groups.get(key) ?? { all: [], tokens: 0, share: 0 };
    const tokens = group.tokens + shown.tokens;
    group.all.push(shown);
    groups.set(key, { ...group, tokens, share: tokens / total });
  }
  const sorted = [...groups.values()].sort((a, b) => b.tokens - a.tokens);
  const again = sorted.slice(5).filter(({ all }) => all.length > 1);
  const chosen = [...sorted.slice(0, 5), ...again.slice(0, 5)];
  const wordsOf = ({ all, tokens, share }: (typeof chosen)[number]) => {
    const [name = ""] = all.map((shown) => nameOf(shown, words));
    return [all.length > 1 ? `${name} × ${all.length}` : name, words.tokens(tokens), words.percent(share)];
  };
  const list = makeRows(chosen, wordsOf, ({ all }) => reader.open(all));
  return make("div", {}, make("h4", {}, words.largest), list);
}

function makeSearch(blocks: Shown[], reader: Reader, words: Words, place: Place): HTMLElement {
  const input = make("input", { type: "search", placeholder: words.search, ariaLabel: words.search });
  input.value = place.search;
  const count = make("output");
  let hits = place.search ? hitsIn(blocks, place.search) : [];
  let at = 0;
  const go = (step: number) => {
    at = (at + step + hits.length) % (hits.length || 1);
    const hit = hits[at];
    count.textContent = input.value ? words.hits(at + 1, hits.length, MOST_HITS) : "";
    if (hit) reader.show(hit.shown, hit, new Set(hits.map(({ shown }) => shown.block.id)));
    else reader.clear();
  };
  input.addEventListener("input", () => {
    place.search = input.value;
    hits = input.value ? hitsIn(blocks, input.value) : [];
    at = 0;
    go(0);
  });
  input.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && go(shiftKey ? -1 : 1));
  const button = (label: string, step: number) => {
    const made = make("button", { type: "button" }, label);
    made.addEventListener("click", () => go(step));
    return made;
  };
  const buttons = [button(words.previous, -1), button(words.next, 1)];
  return make("div", { className: "cv-search" }, input, ...buttons, count);
}

/** Where `text` occurs, whatever the case. */
function hitsIn(blocks: Shown[], text: string): Hit[] {
  const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  const hits: Hit[] = [];
  for (const shown of blocks) {
    for (const match of shown.block.text.matchAll(pattern)) {
      hits.push({ shown, at: match.index, length: match[0].length });
      if (hits.length === MOST_HITS) return hits;
    }
  }
  return hits;
}

export function makeCompaction(timeline: Timeline, compaction: Compaction, words: Words, place: Place): HTMLElement {
  const { moment, before, after, trigger, kept } = compaction;
  const fates = fatesOf(timeline, compaction);
  const isKept = new Set(kept);
  const reader = makeReader(timeline, words, place);
  const all: Shown[] = [];
  /** `groupOf`: what became of a block, or what it is, and the colour of that. */
  const side = (extent: Side, name: string, groupOf: (shown: Shown) => [string, string]) => {
    const groups = new Map<string, { colour: string; count: number; tokens: number }>();
    const blocks = shownAt(timeline, extent, words).map((shown) => {
      const [label, colour] = shown.block.kind === "unexplained" ? [shown.kind, shown.colour] : groupOf(shown);
      const group = groups.get(label) ?? { colour, count: 0, tokens: 0 };
      groups.set(label, { colour, count: group.count + 1, tokens: group.tokens + shown.tokens });
      return { ...shown, colour, kind: label === shown.kind ? label : `${label} · ${shown.kind}` };
    });
    all.push(...blocks);
    const items = [...groups].map(([name, { colour, count, tokens }]): Item => {
      return { colour, name, value: `${words.blocks(count)} · ${words.tokens(tokens)}` };
    });
    const heading = make("h4", {}, words.named(name, words.sized(extent)));
    return make("div", {}, heading, reader.stripOf(blocks), makeLegend(items));
  };
  const old = side(before, words.before, ({ block }) => {
    const fate = fates.get(block.id) ?? "summarized";
    return [words.fates[fate], `var(--cv-${fate})`];
  });
  const young = side(after, words.after, ({ block, kind, colour }) => {
    if (isKept.has(block.id)) return [words.fates.kept, "var(--cv-kept)"];
    if (block.thought !== undefined) return [words.fates.thought, "var(--cv-thought)"];
    return block.original === undefined ? [kind, colour] : [words.fates.disk, "var(--cv-disk)"];
  });
  const element = make(
    "div",
    { className: "cv-detail" },
    make("h3", {}, words.atCompaction(moment + 1, timeline.moments.length)),
    make("p", {}, words.triggers[trigger] ?? trigger),
    make("div", { className: "cv-sides" }, old, young),
    make("p", { className: "cv-quiet" }, words.hint),
    reader.element,
    makeLost(lostIn(timeline, compaction), all, reader, words),
  );
  reopen(all, reader, place);
  return element;
}

const MOST_LOST = 24; // of each kind

/** What nothing names after the compaction; each opens the block that had it first. */
function makeLost(lost: Lost[], blocks: Shown[], reader: Reader, words: Words): HTMLElement {
  const groups = groupLost(lost).map(({ kind, items }) => {
    const open = ({ text, block }: Lost) => {
      const shown = blocks.find((each) => each.block.id === block.id);
      if (shown) reader.show(shown, { shown, at: Math.max(0, block.text.indexOf(text)), length: text.length });
    };
    const list = makeRows(items.slice(0, MOST_LOST), ({ text }) => [text], open);
    list.classList.add("cv-chips");
    return make("div", {}, make("p", {}, words.lostKind(kind, items.length, MOST_LOST)), list);
  });
  return make("div", { hidden: groups.length === 0 }, make("h4", {}, words.lost), ...groups);
}
