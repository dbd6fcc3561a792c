/** A lesson's script beside its page, on wide screens: it follows the text, and shows the lines of a link that leads to it. */
import { type Lines, linesOf } from "./source.ts";

/** From `element` on, the text is about these lines of the script. */
type Stop = { element: HTMLElement; lines: Lines[] };

const LINE = 320; // pixels from the top of the window: what is above has been reached
let stops: Stop[] = [];
let reached: Stop | undefined;

const pane = () => document.querySelector<HTMLElement>(".script pre");

/** To be called for each page: headings and quotes in their order. A heading has the lines of its first quote, or of the function in it. */
export function followScript(): void {
  stops = [];
  reached = undefined;
  if (!pane()) return;
  for (const element of document.querySelectorAll<HTMLElement>(".vp-doc :is(h2, h3, sub)")) {
    const links = [...element.querySelectorAll<HTMLAnchorElement>("a")].filter(({ href }) => isOfScript(href));
    const lines = links.flatMap((link) => linesOf(link.hash) ?? []);
    if (element.localName !== "sub") stops.push({ element, lines: [] });
    else if (lines.length > 0) {
      const heading = stops.at(-1);
      if (heading?.lines.length === 0) heading.lines = lines;
      stops.push({ element, lines });
    }
  }
  for (const stop of stops) {
    const lines = linesOf(stop.element.dataset.lines ?? "");
    if (lines && stop.lines.length === 0) stop.lines = [lines];
  }
  follow();
}

/** Whether an address is of the script that is in view. */
const isOfScript = (address: string) =>
  address.includes(document.querySelector(".script")?.getAttribute("aria-label") ?? "no script");

export function follow(): void {
  const stop = stops.findLast(({ element }) => element.getBoundingClientRect().top < LINE);
  if (stop === reached) return;
  reached = stop;
  mark(stop?.lines ?? []);
}

function mark(shown: Lines[]): void {
  const lines = pane()?.querySelectorAll<HTMLElement>(".line") ?? [];
  for (const [i, line] of lines.entries())
    line.classList.toggle(
      "marked",
      shown.some(({ from, to }) => i + 1 >= from && i + 1 <= to),
    );
  const first = lines[(shown[0]?.from ?? 0) - 1];
  if (first) pane()?.scrollTo({ top: first.offsetTop - 96 });
}

/** Shows the lines of an address, if the script is in view and they are of it. */
export function showInScript(address: string): boolean {
  const lines = linesOf(address);
  if (!lines || !isOfScript(address) || !pane()?.offsetParent) return false;
  mark([lines]);
  return true;
}
