/** Shows the text of the block that is selected. */
import { textOf } from "../trace/events.ts";
import { idOf, make, makeRows, nameBlock, type ShownBlock } from "./elements.ts";
import type { Words } from "./languages.ts";

export type Reader = ReturnType<typeof makeReader>;

/** `select` opens a block by its id. */
export function makeReader(blocks: ShownBlock[], words: Words, select: (block: number) => void) {
  const element = make("div", { className: "cv-reader" });
  /** Opens one block, or lists several. */
  function openBlocks(all: ShownBlock[]): void {
    const [first] = all;
    const textsFor = (shown: ShownBlock) => [nameBlock(shown, words), words.tokens(shown.tokens)];
    const openOne = (shown: ShownBlock) => select(idOf(shown));
    if (all.length === 1 && first) {
      openOne(first);
      return;
    }
    element.replaceChildren(makeRows(all.slice(0, 500), textsFor, openOne));
    reveal(element);
  }
  function show(id?: number): void {
    const shown = blocks.find((each) => idOf(each) === id);
    element.replaceChildren(shown ? makeText(shown, words) : "");
  }
  return { element, openBlocks, show };
}

/** Scrolls no further than it takes. */
export const reveal = (element: Element) => element.scrollIntoView({ block: "nearest" });

function makeText(shown: ShownBlock, words: Words): HTMLElement {
  const { block } = shown;
  const size = make("span", { className: "cv-quiet" }, words.tokens(shown.tokens));
  const heading = make("h4", {}, nameBlock(shown, words), " ", size);
  const text = make("pre", { tabIndex: 0 }, block ? textOf(block) : words.notInFile);
  return make("article", { className: "cv-text" }, heading, text);
}
