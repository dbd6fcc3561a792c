/** Draws a run as stacked areas: what each prompt was made of, call by call, with a mark at each compaction. */
import { sum } from "../sessions/numbers.ts";
import { html, type Markup } from "./markup.ts";
import { partNames, type Sizes } from "./parts.ts";

/** A model call, or several in a long run. */
export type Column = { sizes: Sizes; title?: string; href?: string };
/** `after` is the number of columns before it. A mark without a label is a dot. */
type Mark = { after: number; label?: string; title?: string; href?: string };
export type Chart = {
  columns: Column[];
  marks: Mark[];
  threshold?: number; // in tokens, like the window
  window?: number;
  other?: { tokens: number[]; end: string }; // the prompts of another run, as a line, and what to call its end
  ends: [first: string, last: string]; // labels of the axis
  chosen?: { from: number; to: number }; // in columns: both are the same between two of them
};

// in pixels
/** The space that labels and marks take beside the chart. */
export const MARGIN = { left: 42, right: 6 };
const [TOP, PLOT, AXIS] = [24, 204, 24];

export const CHART_HEIGHT = TOP + PLOT + AXIS;

const totalOf = ({ sizes }: Column) => sum(Object.values(sizes));
/** A chart and the most tokens that it has room for. */
type Scaled = Chart & { top: number };
const heightOf = (tokens: number, { top }: Scaled) => (PLOT * tokens) / top;

/** Fills the width of the SVG around it. */
export function drawChart(plain: Chart): Markup {
  const top = Math.max(plain.threshold ?? 0, plain.window ?? 0, ...plain.columns.map(totalOf));
  const chart: Scaled = { ...plain, top };
  return html`${drawGrid(chart)}
${stretched(chart, drawAreas(chart))}
${stretched(chart, drawColumns(chart))}
${drawLimit(chart.window, chart)}
${drawLimit(chart.threshold, chart)}
${drawOther(chart)}
${chart.marks.map((mark) => drawMark(mark, chart))}
${drawAxis(chart)}`;
}

/** Holds areas, where a column is 1 wide. Whatever keeps its shape is outside, at percentages of the width. */
const stretched = ({ columns }: Chart, content: Markup[]) =>
  html`<svg y="${TOP}" width="100%" height="${PLOT}" viewBox="0 0 ${columns.length} ${PLOT}" preserveAspectRatio="none">${content}</svg>`;

const percentOf = (columns: number, chart: Chart) => `${((100 * columns) / chart.columns.length).toFixed(2)}%`;

// --- areas -----------------------------------------------------------------------------------------------------------

const stepsOf = (tokens: number[], chart: Scaled) =>
  tokens.map((each, i) => `V${(PLOT - heightOf(each, chart)).toFixed(1)}H${i + 1}`).join("");

/** Draws each part down to the axis, over those above it, so that no gap shows between two parts. */
function drawAreas(chart: Scaled): Markup[] {
  const parts = partNames.filter((part) => chart.columns.some(({ sizes }) => sizes[part]));
  const areas = parts.map((part, i) => {
    const below = parts.slice(0, i + 1);
    const tokens = chart.columns.map(({ sizes }) => sum(below.map((each) => sizes[each] ?? 0)));
    return html`<path fill="var(--${part})" d="M0,${PLOT}${stepsOf(tokens, chart)}V${PLOT}Z"/>`;
  });
  return areas.reverse();
}

/** Covers each column with what can be clicked. */
function drawColumns(chart: Chart): Markup[] {
  const links = chart.columns.map(({ title, href }, x) => {
    const rect = html`<rect class="column" x="${x}" width="1" height="${PLOT}"><title>${title}</title></rect>`;
    return href ? html`<a href="${href}" tabindex="-1">${rect}</a>` : html``;
  });
  const { from, to } = chart.chosen ?? {};
  const chosen = from === undefined ? html`` : html`<path class="chosen" d="M${from},0V${PLOT}H${to}V0Z"/>`;
  return [chosen, ...links];
}

// --- lines, marks and labels -----------------------------------------------------------------------------------------

const inThousands = (tokens: number) => (tokens === 0 ? "0" : `${Number((tokens / 1_000).toFixed(1))}K`);

/** Returns the distance between two lines of the grid, of which there are five at most. */
function stepFor(top: number): number {
  const unit = 10 ** Math.floor(Math.log10(top / 5));
  return unit * ([1, 2, 4, 5].find((step) => step * unit * 5 >= top) ?? 10);
}

function drawGrid(chart: Scaled): Markup[] {
  const step = stepFor(chart.top);
  const lines = Array.from({ length: Math.floor(chart.top / step) + 1 }, (_, i) => i * step);
  return lines.map((tokens) => {
    const y = TOP + PLOT - heightOf(tokens, chart);
    return html`<line class="grid" x2="100%" y1="${y}" y2="${y}"/><text class="quiet end" x="-8" y="${y + 4.5}">${inThousands(tokens)}</text>`;
  });
}

function drawLimit(tokens: number | undefined, chart: Scaled): Markup | undefined {
  if (!tokens) return undefined;
  const y = TOP + PLOT - heightOf(tokens, chart);
  return html`<line class="threshold" x2="100%" y1="${y}" y2="${y}"/>`;
}

/** Draws another run as a line that ends with a cross where it meets the window. */
function drawOther(chart: Scaled): Markup | undefined {
  const { other, window = 0 } = chart;
  if (!other) return undefined;
  const top = PLOT - heightOf(window, chart);
  const line = html`<path class="other" d="M0,${PLOT}${stepsOf(other.tokens, chart)}V${top}"/>`;
  const x = percentOf(other.tokens.length, chart);
  const cross = html`<svg class="cross" x="${x}" y="${TOP + top}" overflow="visible"><path d="M-5,-5 5,5M-5,5 5,-5"/></svg>`;
  const label = html`<text class="strong" x="${x}" dx="10" y="${TOP + top + 20}">${other.end}</text>`;
  return html`${stretched(chart, [line])}${cross}${label}`;
}

/** Sits on the columns beside it. */
function drawMark({ after, label, title, href }: Mark, chart: Scaled): Markup {
  const beside = chart.columns.slice(Math.max(0, after - 1), after + 1).map(totalOf);
  const x = percentOf(after, chart);
  const y = TOP + PLOT - heightOf(Math.max(...beside), chart) - (label ? 13 : 8);
  const text = label ? html`<text x="${x}" y="${y + 4.5}">${label}</text>` : "";
  const circle = html`<circle cx="${x}" cy="${y}" r="${label ? 10 : 5}"/>`;
  const mark = html`<g class="mark">${circle}${text}<title>${title}</title></g>`;
  return href ? html`<a href="${href}" tabindex="-1">${mark}</a>` : mark;
}

function drawAxis({ ends: [first, last] }: Chart): Markup {
  const y = TOP + PLOT + 17;
  return html`<text class="quiet" y="${y}">${first}</text><text class="quiet end" x="100%" y="${y}">${last}</text>`;
}
