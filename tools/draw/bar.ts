/** Draws a history as a bar whose blocks are segments, and what a compaction does to it. */
import { sum } from "../sessions/numbers.ts";
import { html, type Markup } from "./markup.ts";
import type { Segment } from "./parts.ts";

/** The title appears under the pointer, and the link is optional. */
export type Describe = (segments: Segment[]) => { title: string; href?: string };

const LEAST = 1 / 160; // of the full width: a narrower segment joins its neighbours

/** Joins neighbours that are too small to see on their own. */
function joinSmall(segments: Segment[], total: number): Segment[][] {
  const groups: Segment[][] = [];
  const isSmall = (group: Segment[]) => sum(group.map(({ size }) => size)) < LEAST * total;
  for (const segment of segments) {
    const last = groups.at(-1);
    if (last && isSmall(last) && isSmall([segment])) last.push(segment);
    else groups.push([segment]);
  }
  return groups;
}

/** Its horizontal unit is a token, and `total` of them fill the width. */
const stretched = (total: number, y: number, height: number, content: Markup[]) =>
  html`<svg y="${y}" width="100%" height="${height}" viewBox="0 0 ${total.toFixed()} 1" preserveAspectRatio="none">${content}</svg>`;

type Bar = { segments: Segment[]; total: number; y?: number; height: number; describe?: Describe };

export function drawBar({ segments, total, y = 0, height, describe }: Bar): Markup {
  let x = 0;
  const drawn = joinSmall(segments, total).map((group) => {
    const size = sum(group.map((segment) => segment.size));
    const [largest] = group.toSorted((a, b) => b.size - a.size);
    const { title, href } = describe?.(group) ?? {};
    const about = title ? html`<title>${title}</title>` : "";
    const place = html`x="${x.toFixed(1)}" width="${size.toFixed(1)}" height="1"`;
    const rect = html`<rect fill="var(--${largest?.part})" ${place}>${about}</rect>`;
    x += size;
    return href ? html`<a href="${href}" tabindex="-1">${rect}</a>` : rect;
  });
  return html`<g class="bar">${stretched(total, y, height, drawn)}</g>`;
}

/** A segment and where it is, in tokens. */
export type Span = { from: number; to: number; segment: Segment };

export function spansOf(segments: Segment[]): Span[] {
  let to = 0;
  return segments.map((segment) => {
    const from = to;
    to += segment.size;
    return { from, to, segment };
  });
}

/** Shades the way from each segment to what it became. All that is gone leads to the summary. */
function drawRibbons(before: Segment[], after: Segment[]): Markup[] {
  const [old, now] = [spansOf(before), spansOf(after)];
  const ribbon = (part: string, above: Span[], below: Span[]) => {
    const [a, b] = [above.at(0)?.from ?? 0, above.at(-1)?.to ?? 0].map((x) => x.toFixed());
    const [c, d] = [below.at(0)?.from ?? 0, below.at(-1)?.to ?? 0].map((x) => x.toFixed());
    return html`<path fill="var(--${part})" opacity="0.18" d="M${a},0H${b}L${d},1H${c}Z"/>`;
  };
  const keys = new Map(now.map((span) => [span.segment.key, span]));
  const kept = old.flatMap((span) => {
    const left = keys.get(span.segment.key);
    return left ? [ribbon(span.segment.part, [span], [left])] : [];
  });
  const gone = old.filter(({ segment }) => !keys.has(segment.key));
  const oldKeys = new Set(before.map(({ key }) => key));
  const came = now.filter(({ segment }) => segment.part === "summary" && !oldKeys.has(segment.key));
  return gone.length > 0 && came.length > 0 ? [ribbon("summary", gone, came), ...kept] : kept;
}

export const CHANGE_HEIGHT = 60;
const [OLD, GAP, NOW] = [12, 22, 26]; // pixels

type Change = { before: Segment[]; after: Segment[]; total: number; describe?: Describe };

/** Draws the bars before and after a compaction, the space that it freed, and the way of each block. */
export function drawChange({ before, after, total, describe }: Change): Markup {
  const left = sum(after.map(({ size }) => size));
  const free = html`<rect fill="var(--missing)" opacity="0.5" x="${left.toFixed()}" width="${Math.max(0, total - left).toFixed()}" height="1"/>`;
  const old = drawBar({ segments: before, total, height: OLD, describe });
  return html`<g opacity="0.5">${old}</g>
${stretched(total, OLD, GAP, drawRibbons(before, after))}
${stretched(total, OLD + GAP, NOW, [free])}
${drawBar({ segments: after, total, y: OLD + GAP, height: NOW, describe })}`;
}
