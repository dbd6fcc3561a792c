/** The parts the viewer is built from: rows, legends and strips of blocks. */
import { largestOf, sum } from "../trace/numbers.ts";
import type { ContextBlock } from "../trace/timeline.ts";
import { facts } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";

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

function makeButton(click: () => void, ...label: (Node | string)[]): HTMLButtonElement {
  const button = make("button", { type: "button" }, ...label);
  button.addEventListener("click", click);
  return button;
}

/** A name on one line. A long path loses its middle rather than its end. */
function makeName(name: string): HTMLElement {
  const [, start = name, end = ""] = /^(.*\/.*)(\/[^/\s]+)$/.exec(name) ?? [];
  return make("span", { className: "cv-name", title: name }, make("span", {}, start), end);
}

/** Lists items as buttons of equal height. A long name is cut, the facts after it aren't. */
export function makeRows<Each>(items: Each[], textsFor: (item: Each) => string[], select: (item: Each) => void) {
  const made = items.map((item) => {
    const [name = "", ...rest] = textsFor(item);
    const about = make("span", { className: "cv-quiet" }, facts(...rest));
    const button = makeButton(() => select(item), makeName(name), about);
    return make("li", {}, button);
  });
  return make("ul", { className: "cv-rows" }, ...made);
}

/** `sign` replaces the square. */
export type LegendItem = { colour: string; name: string; value?: string; sign?: string };

/** Names what each colour stands for, after a text. */
export function makeLegend(items: LegendItem[], text?: string): HTMLElement {
  const made = items.map(({ colour, name, value = "", sign = "■" }) => {
    const swatch = make("b", {}, sign);
    swatch.style.color = colour;
    return make("li", {}, swatch, ` ${name} `, make("span", { className: "cv-quiet" }, value));
  });
  return make("ul", { className: "cv-legend", hidden: made.length === 0 }, text ? make("li", {}, text) : "", ...made);
}

/** A block as it's shown. Without a block, it isn't in the file. */
export type ShownBlock = {
  block?: ContextBlock;
  tokens: number;
  colour: string;
  kind: string; // the name of its kind
  isPale?: boolean; // a compaction kept it
};
export const idOf = ({ block }: ShownBlock): number => block?.id ?? -1;

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
    if (last && last.tokens < least && shown.tokens < least && last.all[0]?.isPale === shown.isPale) {
      last.all.push(shown);
      last.tokens += shown.tokens;
    } else groups.push({ all: [shown], tokens: shown.tokens });
  }
  return groups;
}

const MOST_PARTS = 160; // in a strip of the full width

/** A strip of blocks. `share` is its width, where 1 is the full width. Arrow keys move from block to block. */
export function makeStrip(blocks: ShownBlock[], words: Words, select: (all: ShownBlock[]) => void, share = 1) {
  const groups = mergeSmall(blocks, MOST_PARTS * share).map(({ all, tokens }) => {
    return { all, button: makeStripButton(all, tokens, words, () => select(all)) };
  });
  const buttons = groups.map(({ button }) => button);
  const element = make("div", { className: "cv-strip", role: "group" }, ...buttons);
  element.style.width = `${100 * share}%`;
  element.addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
    const to = step && buttons[buttons.findIndex((button) => button.matches(":focus")) + step];
    if (!to) return;
    to.focus();
    to.click();
  });
  const mark = (selected?: number) => {
    for (const { all, button } of groups)
      button.setAttribute("aria-pressed", `${all.some((shown) => idOf(shown) === selected)}`);
    setTabStop(buttons);
  };
  setTabStop(buttons);
  return { element, mark };
}

/** Tab reaches one button of a strip: the pressed one, or else the first. */
function setTabStop(buttons: HTMLButtonElement[]): void {
  const pressed = buttons.find((button) => button.getAttribute("aria-pressed") === "true");
  for (const button of buttons) button.tabIndex = button === (pressed ?? buttons[0]) ? 0 : -1;
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
  button.classList.toggle("cv-pale", largest?.isPale ?? false);
  return button;
}
