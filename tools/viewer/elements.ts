/** The parts the viewer is built from: rows, legends, strips of blocks and the text of a block. */
import { textOf } from "../trace/events.ts";
import { largestOf, sum } from "../trace/numbers.ts";
import type { ContextBlock } from "../trace/timeline.ts";
import { facts } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";

/** Creates an element with properties and children. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

export function makeButton(click: () => void, ...label: (Node | string)[]): HTMLButtonElement {
  const button = make("button", { type: "button" }, ...label);
  button.addEventListener("click", click);
  return button;
}

/** Tab reaches one button of a group. The arrow keys reach the others. */
export function setTabStop(buttons: HTMLElement[], stop = buttons[0]): void {
  for (const button of buttons) button.tabIndex = button === stop ? 0 : -1;
}

/** A name on one line. A long path loses its middle rather than its end. */
export function makeName(name: string): HTMLElement {
  const [, start = name, end = ""] = /^(.*\/.*)(\/[^/\s]+)$/.exec(name) ?? [];
  return make("span", { className: "cv-name", title: name }, make("span", {}, start), end);
}

/** Lists items as buttons of equal height. A long name is cut, the facts after it aren't. */
export function makeRows<Each>(items: Each[], textsFor: (item: Each) => string[], select: (item: Each) => void) {
  const made = items.map((item) => {
    const [name = "", ...rest] = textsFor(item);
    const about = make("span", { className: "cv-quiet" }, facts(...rest));
    return make(
      "li",
      {},
      makeButton(() => select(item), makeName(name), about),
    );
  });
  return make("ul", { className: "cv-rows" }, ...made);
}

/** `sign` replaces the square. `id` is that of the layer for which the pointer marks it. */
export type LegendItem = { colour: string; name: string; value?: string; sign?: string; id?: string };

/** Names what each colour stands for. */
export function makeLegend(items: LegendItem[]): HTMLElement {
  const made = items.map(({ colour, name, value = "", sign = "■", id }) => {
    const swatch = make("b", {}, sign);
    swatch.style.color = colour;
    const item = make("li", {}, swatch, ` ${name} `, make("span", { className: "cv-quiet" }, value));
    if (id) item.dataset.band = id;
    return item;
  });
  return make("ul", { className: "cv-legend" }, ...made);
}

/** A block as it's shown: its size in tokens, its colour, and the name of its kind. Without a block, it isn't in the file. */
export type ShownBlock = { block?: ContextBlock; tokens: number; colour: string; kind: string };
export const idOf = ({ block }: ShownBlock): number => block?.id ?? -1;
export const textOfShown = ({ block }: ShownBlock, words: Words): string => (block ? textOf(block) : words.notInFile);

export function nameBlock({ kind, block }: ShownBlock, words: Words): string {
  const label = block && labelOf(block);
  return label ? words.named(kind, label) : kind;
}

type Merged = { all: ShownBlock[]; tokens: number };

/** Merges neighbours too small to see on their own. */
function mergeSmall(blocks: ShownBlock[], most: number): Merged[] {
  const least = sum(blocks.map(({ tokens }) => tokens)) / most;
  const groups: Merged[] = [];
  for (const shown of blocks) {
    const last = groups.at(-1);
    if (last && last.tokens < least && shown.tokens < least) {
      last.all.push(shown);
      last.tokens += shown.tokens;
    } else groups.push({ all: [shown], tokens: shown.tokens });
  }
  return groups;
}

export type Strip = ReturnType<typeof makeStrip>;

/** Selects the next or previous block of the focused strip, or of the first strip. */
export function moveInStrip(detail: Element, focused: EventTarget | null, step: number): void {
  const own = focused instanceof Element ? focused.closest(".cv-strip") : null;
  const strip = own ?? detail.querySelector(".cv-strip");
  const buttons = [...(strip?.getElementsByTagName("button") ?? [])];
  const from = buttons.findIndex(isPressed);
  const to = buttons[from < 0 ? 0 : from + step];
  to?.focus();
  to?.click();
}

const isPressed = (button: Element) => button.getAttribute("aria-pressed") === "true";

const MOST_PARTS = 160; // in a strip of the full width

export function makeStrip(blocks: ShownBlock[], words: Words, select: (all: ShownBlock[]) => void, share = 1) {
  const groups = mergeSmall(blocks, MOST_PARTS * share).map(({ all, tokens }) => {
    return { all, button: makeStripButton(all, tokens, words, () => select(all)) };
  });
  const buttons = groups.map(({ button }) => button);
  const element = make("div", { className: "cv-strip", role: "group" }, ...buttons);
  element.style.width = `${100 * share}%`;
  setTabStop(buttons);
  const mark = (ids: Set<number>, selected?: number) => {
    for (const { all, button } of groups) {
      const isHit = all.some((shown) => ids.has(idOf(shown)));
      const isSelected = all.some((shown) => idOf(shown) === selected);
      button.classList.toggle("cv-hit", isHit);
      button.setAttribute("aria-pressed", `${isSelected}`);
    }
    setTabStop(buttons, buttons.find(isPressed));
  };
  return { element, mark };
}

/** A button for one block, or for merged neighbours in the colour of the largest. */
function makeStripButton(all: ShownBlock[], tokens: number, words: Words, select: () => void): HTMLButtonElement {
  const [first] = all;
  const name = all.length === 1 && first ? nameBlock(first, words) : words.blocks(all.length);
  const largest = all[largestOf(all.map((shown) => shown.tokens))];
  const button = makeButton(select);
  button.ariaLabel = button.title = `${name}, ${words.tokens(tokens)}`;
  button.style.flexGrow = `${tokens}`;
  button.style.background = largest?.colour ?? "";
  return button;
}

/** Shows a block's text with the search hit marked. */
export function makeText(shown: ShownBlock, words: Words, hit?: { at: number; length: number }): HTMLElement {
  const text = textOfShown(shown, words);
  const end = hit ? hit.at + hit.length : 0;
  const marked = hit ? [text.slice(0, hit.at), make("mark", {}, text.slice(hit.at, end))] : [];
  const size = make("span", { className: "cv-quiet" }, words.tokens(shown.tokens));
  const heading = make("h4", {}, nameBlock(shown, words), " ", size);
  return make("article", { className: "cv-text" }, heading, make("pre", { tabIndex: 0 }, ...marked, text.slice(end)));
}
