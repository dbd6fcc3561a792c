/** Which lines of the script the reader is reading about. */
import { linesOf } from "./source.ts";

export type Lines = { from: number; to: number };
/** From `element` on, the text is about these lines of the script. */
export type Stop = { element: HTMLElement; lines: Lines[] };

/** Headings and quotes from the script, in the order of the page; a section that begins without a quote has its first one's lines. */
export function stopsOf(page: ParentNode, file: string): Stop[] {
  const stops: Stop[] = [];
  for (const element of page.querySelectorAll<HTMLElement>(".vp-doc :is(h2, h3, sub)")) {
    const links = element.querySelectorAll<HTMLAnchorElement>(`a[href*="/source/${file}.html#L"]`);
    const lines = [...links].flatMap((link) => linesOf(link.hash) ?? []);
    if (element.localName !== "sub") stops.push({ element, lines: [] });
    else if (lines.length > 0) {
      const heading = stops.at(-1);
      if (heading?.lines.length === 0) heading.lines = lines;
      stops.push({ element, lines });
    }
  }
  return stops;
}

/** The stop that the reader has come to: the last one above this height of the window. */
export const reached = (stops: Stop[], height: number): Stop | undefined =>
  stops.findLast(({ element }) => element.getBoundingClientRect().top < height);

/** Where the text is first about a region. */
export const stopAbout = (stops: Stop[], region: Lines): Stop | undefined =>
  stops.find(({ lines }) => lines.some(({ from, to }) => from <= region.to && to >= region.from));
