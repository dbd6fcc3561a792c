/** What the viewer is made of: a legend, a strip of blocks in proportion to their size, the text of a block. */
import type { Words } from "./languages.ts";
import type { Block } from "./timeline.ts";

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

/** An element of a picture. */
export function makeSvg(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, `${value}`);
  element.append(...children);
  return element;
}

/** A button for each item, in a list whose rows are equally high: its name, which may be cut, and facts. */
export function makeRows<Each>(items: Each[], wordsOf: (item: Each) => string[], select: (item: Each) => void) {
  const made = items.map((item) => {
    const [name = "", ...facts] = wordsOf(item);
    const label = make("span", { className: "cv-name", title: name }, name);
    const button = make(
      "button",
      { type: "button" },
      label,
      make("span", { className: "cv-quiet" }, facts.join(" · ")),
    );
    button.addEventListener("click", () => select(item));
    return make("li", {}, button);
  });
  return make("ul", { className: "cv-rows" }, ...made);
}

/** `sign`: in place of a square. */
export type Item = { colour: string; name: string; value?: string; sign?: string };

/** Names and values beside their colours. */
export function makeLegend(items: Item[]): HTMLElement {
  const made = items.map(({ colour, name, value = "", sign }) => {
    const swatch = sign ? make("b", {}, sign) : make("i");
    swatch.style[sign ? "color" : "background"] = colour;
    return make("li", {}, swatch, name, make("span", { className: "cv-quiet" }, value));
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

/** Goes to the block before or after the selected one of a strip, which is its one tab stop. */
export function stepIn(strip: Element, step: number): void {
  const buttons = [...strip.getElementsByTagName("button")];
  const from = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  const to = buttons[from < 0 ? 0 : from + step];
  to?.focus();
  to?.click();
}

export function makeStrip(blocks: Shown[], words: Words, select: (all: Shown[]) => void): Strip {
  const groups = groupsOf(blocks, 160);
  const buttons = groups.map(({ all, tokens }, i) => {
    const [first] = all;
    const name = all.length === 1 && first ? nameOf(first, words) : words.group(all.length);
    const button = make("button", { type: "button", tabIndex: i === 0 ? 0 : -1 });
    button.ariaLabel = button.title = `${name}, ${words.tokens(tokens)}`;
    button.style.flexGrow = `${tokens}`;
    const largest = all.reduce((most, shown) => (shown.tokens > most.tokens ? shown : most));
    button.style.background = largest.colour;
    button.addEventListener("click", () => select(all));
    return button;
  });
  const element = make("div", { className: "cv-strip" }, ...buttons);
  element.role = "group";
  const mark: Strip["mark"] = (ids, selected) => {
    for (const [i, { all }] of groups.entries()) {
      const isHit = all.some(({ block }) => ids.has(block.id));
      buttons[i]?.classList.toggle("cv-hit", isHit);
      const isSelected = all.some(({ block }) => block.id === selected);
      buttons[i]?.setAttribute("aria-pressed", `${isSelected}`);
      if (buttons[i]) buttons[i].tabIndex = isSelected ? 0 : -1;
    }
    if (buttons[0] && buttons.every(({ tabIndex }) => tabIndex < 0)) buttons[0].tabIndex = 0;
  };
  return { element, mark };
}

/** The text of a block, with `hit` marked in it. */
export function makeText(shown: Shown, words: Words, hit?: { at: number; length: number }): HTMLElement {
  const { text } = shown.block;
  const end = hit ? hit.at + hit.length : 0;
  const marked = hit ? [text.slice(0, hit.at), make("mark", {}, text.slice(hit.at, end))] : [];
  const heading = make("h4", {}, nameOf(shown, words), make("span", {}, words.tokens(shown.tokens)));
  return make("article", { className: "cv-text" }, heading, make("pre", { tabIndex: 0 }, ...marked, text.slice(end)));
}

/** The blocks of a group, each opens its text. */
export const makeList = (all: Shown[], words: Words, select: (shown: Shown) => void): HTMLElement =>
  makeRows(all.slice(0, 500), (shown) => [nameOf(shown, words), words.tokens(shown.tokens)], select);
