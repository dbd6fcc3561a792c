/** The text of a block that is chosen in a strip, or found by a search. */

import type { Timeline } from "../trace/timeline.ts";
import type { Shown, Strip } from "./elements.ts";
import { make, makeButton, makeRows, makeStrip, makeText, nameOf } from "./elements.ts";
import type { Words } from "./languages.ts";

/** What a reader has open, which a step and a file that grows leave open: a block, how far it is scrolled, a search. */
export type Place = { block?: number; scroll: number; search: string };

type Hit = { shown: Shown; at: number; length: number };
export type Reader = {
  element: HTMLElement;
  stripOf: (blocks: Shown[]) => HTMLElement;
  show: (shown: Shown, hit?: Hit) => void;
  /** One block, or a list of several. */
  open: (all: Shown[]) => void;
  /** What was open before a step, if it is among `blocks`. */
  reopen: (blocks: Shown[]) => void;
  /** In the strips: what is open, and where something was found. */
  mark: (hits: Hit[]) => void;
};

export function makeReader(timeline: Timeline, words: Words, place: Place): Reader {
  const element = make("div", { className: "cv-reader" });
  const strips: Strip[] = [];
  const mark: Reader["mark"] = (hits) => {
    const found = new Set(hits.map(({ shown }) => shown.block.id));
    for (const strip of strips) strip.mark(found, place.block);
  };
  const show: Reader["show"] = (shown, hit) => {
    const isOpen = shown.block.id === place.block && !hit;
    Object.assign(place, { block: shown.block.id, scroll: isOpen ? place.scroll : 0 });
    element.replaceChildren(makeText(shown, words, hit), ...makeOrigin(shown, timeline, words));
    scrollText(element, place);
    mark([]);
  };
  const open: Reader["open"] = (all) => {
    const [first] = all;
    const wordsOf = (shown: Shown) => [nameOf(shown, words), words.tokens(shown.tokens)];
    if (all.length > 1) element.replaceChildren(makeRows(all.slice(0, 500), wordsOf, show));
    else if (first) show(first);
  };
  const reopen: Reader["reopen"] = (blocks) => {
    const shown = blocks.find(({ block }) => block.id === place.block);
    if (shown) show(shown);
  };
  const stripOf = (blocks: Shown[]) => {
    const strip = makeStrip(blocks, words, open);
    strips.push(strip);
    return strip.element;
  };
  return { element, stripOf, show, open, reopen, mark };
}

/** What a block was before a compaction: the result that was cleared, or thinking. */
function makeOrigin(shown: Shown, { blocks }: Timeline, words: Words): Element[] {
  const { original, thought, chars } = shown.block;
  if (thought !== undefined) return [make("p", {}, words.thought)];
  const block = blocks[original ?? -1];
  if (!block) return [];
  const tokens = (shown.tokens * block.chars) / chars;
  return [make("p", {}, words.original), makeText({ ...shown, block, tokens }, words)];
}

/** Scrolls the text to what is marked in it, or to where it was. */
function scrollText(element: HTMLElement, place: Place): void {
  const [text] = element.getElementsByTagName("pre");
  const [mark] = element.getElementsByTagName("mark");
  text?.scrollTo({ top: mark ? mark.offsetTop - text.offsetTop - 100 : place.scroll });
  text?.addEventListener("scroll", () => {
    place.scroll = text.scrollTop;
  });
}

export function makeSearch(blocks: Shown[], reader: Reader, words: Words, place: Place): HTMLElement {
  const input = make("input", { type: "search", placeholder: words.search, ariaLabel: words.search });
  const count = make("output");
  let hits = hitsIn(blocks, place.search);
  let at = 0;
  input.value = place.search;
  const go = (step: number) => {
    at = (at + step + hits.length) % (hits.length || 1);
    const hit = hits[at];
    count.textContent = input.value && words.hits(at + 1, hits.length);
    if (hit) reader.show(hit.shown, hit);
    reader.mark(hits);
  };
  input.addEventListener("input", () => {
    place.search = input.value;
    hits = hitsIn(blocks, input.value);
    at = 0;
    go(0);
  });
  input.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && go(shiftKey ? -1 : 1));
  const buttons = [makeButton(() => go(-1), words.previous), makeButton(() => go(1), words.next)];
  return make("div", { className: "cv-search" }, input, ...buttons, count);
}

/** Where `text` occurs, whatever the case. */
function hitsIn(blocks: Shown[], text: string): Hit[] {
  if (!text) return [];
  const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  return blocks.flatMap((shown) =>
    [...shown.block.text.matchAll(pattern)].map(({ index, 0: { length } }) => ({ shown, at: index, length })),
  );
}
