/** What the viewer is made of: a legend, a strip of blocks in proportion to their size, the text of a block. */

import { largestOf } from "../trace/numbers.ts";
import type { Block } from "../trace/timeline.ts";
import type { Words } from "./languages.ts";

/** An element with properties and children. */
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

/** Of buttons that the arrow keys go through, one is a tab stop. */
export function setTabStop(buttons: HTMLElement[], stop = buttons[0]): void {
  for (const button of buttons) button.tabIndex = button === stop ? 0 : -1;
}

/** A button for each item, in a list whose rows are equally high: its name, which may be cut, and facts. */
export function makeRows<Each>(items: Each[], wordsOf: (item: Each) => string[], select: (item: Each) => void) {
  const made = items.map((item) => {
    const [name = "", ...rest] = wordsOf(item);
    const label = make("span", { className: "cv-name", title: name }, name);
    const facts = make("span", { className: "cv-quiet" }, rest.join(" · "));
    const button = makeButton(() => select(item), label, facts);
    return make("li", {}, button);
  });
  return make("ul", { className: "cv-rows" }, ...made);
}

/** `sign`: in place of a square. */
export type Item = { colour: string; name: string; value?: string; sign?: string };

/** Names and values beside their colours. */
export function makeLegend(items: Item[]): HTMLElement {
  const made = items.map(({ colour, name, value = "", sign = "■" }) => {
    const swatch = make("b", {}, sign);
    swatch.style.color = colour;
    return make("li", {}, swatch, ` ${name} `, make("span", { className: "cv-quiet" }, value));
  });
  return make("ul", { className: "cv-legend" }, ...made);
}

/** A block as the strip shows it: its size, its colour, and what it is in words. */
export type Shown = { block: Block; tokens: number; colour: string; kind: string };
export const nameOf = ({ kind, block }: Shown, words: Words): string =>
  block.label ? words.named(kind, block.label) : kind;
type Group = { all: Shown[]; tokens: number };

/** Neighbours that are too small to be seen alone are one group. */
function groupsOf(blocks: Shown[], most: number): Group[] {
  const least = blocks.reduce((sum, { tokens }) => sum + tokens, 0) / most;
  const groups: Group[] = [];
  for (const shown of blocks) {
    const last = groups.at(-1);
    if (last && last.tokens < least && shown.tokens < least) {
      last.all.push(shown);
      last.tokens += shown.tokens;
    } else groups.push({ all: [shown], tokens: shown.tokens });
  }
  return groups;
}

export type Strip = { element: HTMLElement; mark: (ids: Set<number>, selected?: number) => void };

/** Goes to the block before or after the selected one: of the strip that has the focus, or else of the first. */
export function stepIn(detail: Element, focused: EventTarget | null, step: number): void {
  const own = focused instanceof Element ? focused.closest(".cv-strip") : null;
  const strip = own ?? detail.querySelector(".cv-strip");
  const buttons = [...(strip?.getElementsByTagName("button") ?? [])];
  const from = buttons.findIndex(isPressed);
  const to = buttons[from < 0 ? 0 : from + step];
  to?.focus();
  to?.click();
}

const isPressed = (button: Element) => button.getAttribute("aria-pressed") === "true";

export function makeStrip(blocks: Shown[], words: Words, select: (all: Shown[]) => void): Strip {
  const groups = groupsOf(blocks, 160).map(({ all, tokens }) => {
    return { all, button: makePart(all, tokens, words, () => select(all)) };
  });
  const buttons = groups.map(({ button }) => button);
  const element = make("div", { className: "cv-strip", role: "group" }, ...buttons);
  setTabStop(buttons);
  const mark: Strip["mark"] = (ids, selected) => {
    for (const { all, button } of groups) {
      const isHit = all.some(({ block }) => ids.has(block.id));
      const isSelected = all.some(({ block }) => block.id === selected);
      button.classList.toggle("cv-hit", isHit);
      button.setAttribute("aria-pressed", `${isSelected}`);
    }
    setTabStop(buttons, buttons.find(isPressed));
  };
  return { element, mark };
}

/** A block of a strip, or neighbours that have the colour of the largest. */
function makePart(all: Shown[], tokens: number, words: Words, select: () => void): HTMLButtonElement {
  const [first] = all;
  const name = all.length === 1 && first ? nameOf(first, words) : words.blocks(all.length);
  const largest = all[largestOf(all.map((shown) => shown.tokens))];
  const button = makeButton(select);
  button.ariaLabel = button.title = `${name}, ${words.tokens(tokens)}`;
  button.style.flexGrow = `${tokens}`;
  button.style.background = largest?.colour ?? "";
  return button;
}

/** The text of a block, with `hit` marked in it. */
export function makeText(shown: Shown, words: Words, hit?: { at: number; length: number }): HTMLElement {
  const { text } = shown.block;
  const end = hit ? hit.at + hit.length : 0;
  const marked = hit ? [text.slice(0, hit.at), make("mark", {}, text.slice(hit.at, end))] : [];
  const size = make("span", { className: "cv-quiet" }, words.tokens(shown.tokens));
  const heading = make("h4", {}, nameOf(shown, words), " ", size);
  return make("article", { className: "cv-text" }, heading, make("pre", { tabIndex: 0 }, ...marked, text.slice(end)));
}
