/** Shows the text of a block that was selected in a strip or found by the search. */
import { isCleared } from "../trace/timeline.ts";
import type { ShownBlock, Strip } from "./elements.ts";
import { idOf, make, makeButton, makeRows, makeStrip, makeText, nameBlock, textOfShown } from "./elements.ts";
import type { Words } from "./languages.ts";

/** The first and last call of a zoomed chart. */
export type Range = { from: number; to: number };
/** What stays open when the step changes or the file grows. */
export type Place = { block?: number; scroll: number; search: string; range?: Range };

type Hit = { shown: ShownBlock; at: number; length: number };
export type Reader = ReturnType<typeof makeReader>;

export function makeReader(words: Words, place: Place) {
  const element = make("div", { className: "cv-reader" });
  const strips: Strip[] = [];
  /** Marks the open block and the search hits in the strips. */
  function mark(hits: Hit[]): void {
    const found = new Set(hits.map(({ shown }) => idOf(shown)));
    for (const strip of strips) strip.mark(found, place.block);
  }
  function openText(shown: ShownBlock, hit?: Hit): void {
    const isOpen = idOf(shown) === place.block && !hit;
    Object.assign(place, { block: idOf(shown), scroll: isOpen ? place.scroll : 0 });
    element.replaceChildren(makeText(shown, words, hit), ...makeOrigin(shown, words));
    scrollText(element, place);
    mark([]);
  }
  /** Shows one block, or lists several. */
  function openBlocks(all: ShownBlock[]): void {
    const [first] = all;
    const textsFor = (shown: ShownBlock) => [nameBlock(shown, words), words.tokens(shown.tokens)];
    if (all.length > 1) element.replaceChildren(makeRows(all.slice(0, 500), textsFor, openText));
    else if (first) openText(first);
  }
  /** Shows the block that was open before, if it's still there. */
  function reopen(blocks: ShownBlock[]): void {
    const shown = blocks.find((each) => idOf(each) === place.block);
    if (shown) openText(shown);
  }
  /** Makes a strip of blocks. `share` is its width, where 1 is the full width. */
  function stripOf(blocks: ShownBlock[], share?: number): HTMLElement {
    const strip = makeStrip(blocks, words, openBlocks, share);
    strips.push(strip);
    return strip.element;
  }
  return { element, stripOf, openText, openBlocks, reopen, mark };
}

/** Shows what a compaction replaced with this block. */
function makeOrigin(shown: ShownBlock, words: Words): Element[] {
  const { block } = shown;
  if (!block?.replaces) return [];
  if (!isCleared(block)) return [make("p", {}, words.thought)];
  const tokens = (shown.tokens * block.replaces.chars) / block.chars;
  return [make("p", {}, words.original), makeText({ ...shown, block: block.replaces, tokens }, words)];
}

/** Scrolls to the marked hit, or to where the text was before. */
function scrollText(element: HTMLElement, place: Place): void {
  const [text] = element.getElementsByTagName("pre");
  const [mark] = element.getElementsByTagName("mark");
  text?.scrollTo({ top: mark ? mark.offsetTop - text.offsetTop - 100 : place.scroll });
  text?.addEventListener("scroll", () => {
    place.scroll = text.scrollTop;
  });
}

export function makeSearch(blocks: ShownBlock[], reader: Reader, words: Words, place: Place): HTMLElement {
  const input = make("input", { type: "search", placeholder: words.search, ariaLabel: words.search });
  const count = make("output");
  let hits = hitsIn(blocks, place.search, words);
  let at = 0;
  input.value = place.search;
  const go = (step: number) => {
    at = (at + step + hits.length) % (hits.length || 1);
    const hit = hits[at];
    count.textContent = input.value && words.hits(at + 1, hits.length);
    if (hit) reader.openText(hit.shown, hit);
    reader.mark(hits);
  };
  input.addEventListener("input", () => {
    place.search = input.value;
    hits = hitsIn(blocks, input.value, words);
    at = 0;
    go(0);
  });
  input.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && go(shiftKey ? -1 : 1));
  const buttons = [makeButton(() => go(-1), words.previous), makeButton(() => go(1), words.next)];
  return make("div", { className: "cv-tools" }, input, ...buttons, count);
}

/** Finds `text` in either case. */
function hitsIn(blocks: ShownBlock[], text: string, words: Words): Hit[] {
  if (!text) return [];
  const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  return blocks.flatMap((shown) =>
    [...textOfShown(shown, words).matchAll(pattern)].map(({ index, 0: { length } }) => ({ shown, at: index, length })),
  );
}
