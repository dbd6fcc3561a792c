/** The parts of the viewer: a strip of blocks in proportion to their size, and the text of a block. */
import type { Block } from "./model.ts";
import type { Words } from "./words.ts";

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

/** A block as the strip shows it: its size, its colour, and what it is in words. */
export type Shown = { block: Block; tokens: number; colour: string; kind: string };
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

/** One tab stop; the arrow keys up and down go from block to block. */
export function makeStrip(blocks: Shown[], words: Words, select: (all: Shown[]) => void): Strip {
  const groups = groupsOf(blocks, 160);
  const buttons = groups.map(({ all, tokens }, i) => {
    const [first] = all;
    const name = all.length > 1 ? words.group(all.length) : `${first?.kind}: ${first?.block.label}`;
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
  element.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const from = event.target instanceof HTMLButtonElement ? buttons.indexOf(event.target) : -1;
    const to = buttons[from + (step ?? 0)];
    if (!step || !to) return;
    event.preventDefault();
    for (const button of buttons) button.tabIndex = button === to ? 0 : -1;
    to.focus();
    to.click();
  });
  const mark: Strip["mark"] = (ids, selected) => {
    for (const [i, { all }] of groups.entries()) {
      buttons[i]?.classList.toggle(
        "cv-hit",
        all.some(({ block }) => ids.has(block.id)),
      );
      const isSelected = all.some(({ block }) => block.id === selected);
      buttons[i]?.setAttribute("aria-pressed", `${isSelected}`);
    }
  };
  return { element, mark };
}

const FIRST = 20_000; // characters of a text that are shown at once
const MORE = 200_000;

/** The text of a block; of a long one a part, from shortly before `hit`. */
export function makeText(
  { block, tokens, kind }: Shown,
  words: Words,
  hit?: { at: number; length: number },
): HTMLElement {
  const { text, label } = block;
  let from = Math.max(0, (hit?.at ?? 0) - FIRST / 4);
  let to = from + FIRST;
  const pre = make("pre", { tabIndex: 0 });
  const note = make("p", { className: "cv-quiet" });
  const earlier = make("button", { type: "button", textContent: `↑ ${words.more}` });
  const later = make("button", { type: "button", textContent: `↓ ${words.more}` });
  function draw(): void {
    const end = hit ? hit.at + hit.length : from;
    const marked = hit ? [text.slice(from, hit.at), make("mark", {}, text.slice(hit.at, end))] : [];
    pre.replaceChildren(...marked, text.slice(end, to));
    earlier.hidden = from === 0;
    later.hidden = to >= text.length;
    note.hidden = earlier.hidden && later.hidden;
    note.textContent = words.cut(Math.min(to, text.length) - from, text.length);
  }
  earlier.addEventListener("click", () => {
    from = Math.max(0, from - MORE);
    draw();
  });
  later.addEventListener("click", () => {
    to += MORE;
    draw();
  });
  draw();
  const heading = make("h4", {}, `${kind}: ${label}`, make("span", {}, words.tokens(tokens)));
  return make("article", { className: "cv-text" }, heading, note, earlier, pre, later);
}

/** The blocks of a group, each opens its text. */
export function makeList(all: Shown[], words: Words, select: (shown: Shown) => void): HTMLElement {
  const items = all.slice(0, 500).map((shown) => {
    const button = make("button", { type: "button" }, `${shown.kind}: ${shown.block.label}`);
    button.addEventListener("click", () => select(shown));
    return make("li", {}, button, make("span", { className: "cv-quiet" }, words.tokens(shown.tokens)));
  });
  return make("ul", { className: "cv-list" }, ...items);
}
