/** Draws a timeline as SVG, in a browser or in a linkedom document. */
import * as Plot from "@observablehq/plot";
import { sumOf } from "../prices.ts";
import { groupBy, largestOf, sum, whole } from "../trace/numbers.ts";
import { type Capacity, fateOfTaken, isMissed, type ModelCall, type Timeline } from "../trace/timeline.ts";
import { dollars, escapeHtml, short } from "./format.ts";
import { nameOfSeries } from "./labels.ts";
import type { Words } from "./languages.ts";
import { type Series, seriesOf, sizesOf } from "./series.ts";

/** Every colour in light and dark mode. The page knows them as CSS variables, `--cv-NAME`. */
const COLOURS: Record<string, [light: string, dark: string]> = {
  text: ["#1f2328", "#e6edf3"],
  quiet: ["#57606a", "#9aa7b4"],
  ground: ["#ffffff", "#1b1b1f"],
  line: ["#d0d7de", "#3d444d"],
  accent: ["#3a56b0", "#a8b9f5"],
  alert: ["#b3261e", "#ff8a80"],
  cold: ["#3a56b0", "#a8b9f5"],
  unexplained: ["#9aa1ab", "#7d8590"],
  summary: ["#7c3aed", "#a78bfa"],
  file: ["#c026d3", "#e879f9"],
  request: ["#1d4ed8", "#60a5fa"],
  client: ["#475569", "#cbd5e1"],
  reply: ["#0e7490", "#22d3ee"],
  thinking: ["#db2777", "#f472b6"],
  call: ["#b45309", "#fbbf24"],
  "result-0": ["#15803d", "#4ade80"],
  "result-1": ["#84a116", "#bef264"],
  "result-2": ["#14532d", "#15803d"],
  "result-3": ["#6b8f71", "#a3b18a"],
  "result-4": ["#7a6a3a", "#d6c29a"],
  // What a model call is billed for has a hue that no kind of block has. Darker is more expensive.
  read: ["#cf9f6c", "#755334"],
  written: ["#a3662b", "#b07c49"],
  input: ["#6b3a0e", "#dba86f"],
  output: ["#331a04", "#fbe3c4"],
  // The arrows of compactions
  summarized: ["#1f2328", "#e6edf3"],
  disk: ["#b45309", "#fbbf24"],
  withdrawn: ["#b3261e", "#ff8a80"],
};

const variables = (colourIn: (pair: [light: string, dark: string]) => string) =>
  Object.entries(COLOURS)
    .map(([name, pair]) => `--cv-${name}:${colourIn(pair)}`)
    .join(";");

/** Follows the colour scheme of the page. */
export const colourRule = `.context-viewer{${variables(([light, dark]) => `light-dark(${light},${dark})`)}}`;

function colourOf({ kind, tool }: Series, series: Series[]): string {
  if (kind !== "result") return `var(--cv-${kind})`;
  const tools = series.filter((each) => each.kind === "result").map((each) => each.tool);
  return `var(--cv-result-${tool === undefined ? 4 : tools.indexOf(tool)})`;
}

export type View = "context" | "cost";
type Document = NonNullable<Plot.PlotOptions["document"]>;
export type ChartOptions = { document: Document; width: number; words: Words; view?: View };

export const MARGIN = { left: 56, right: 14, top: 34 };
/** Pixels. */
export const heightOf = (view: View) => (view === "context" ? 300 : 110);
export const bottomOf = (view: View) => (view === "context" ? 38 : 8);
const MOST_COLUMNS = 800; // beyond that, neighbouring calls share a column
const MARK = 14; // the least distance between two signs, in pixels
/** A threshold or window above this many times the largest prompt isn't drawn. */
const NEAR = 1.25;

/** Splits the model calls into at most `most` columns and returns the heaviest item in each. */
function heaviest<Item extends { x: number; weight: number }>(items: Item[], calls: number, most: number): Item[] {
  const width = Math.max(1, Math.ceil(calls / most));
  const columns = [...groupBy(items, ({ x }) => Math.floor(x / width)).values()];
  return columns.flatMap((all) => all[largestOf(all.map(({ weight }) => weight))] ?? []);
}

/** Where signs would overlap, only the heaviest is drawn. */
function signsIn<Sign extends { x: number; weight: number }>(signs: Sign[], { modelCalls }: Timeline, width: number) {
  return heaviest(signs, modelCalls.length, (width - MARGIN.left - MARGIN.right) / MARK);
}

export const BILL_PARTS = ["read", "written", "input", "output"] as const;

export type Band = { id: string; name: string; colour: string };

/** Returns the layers of a chart from the bottom up. Those of different charts have different ids. */
export function bandsOf(timeline: Timeline, view: View, words: Words): Band[] {
  if (view === "cost") return BILL_PARTS.map((id) => ({ id, name: words.kinds[id], colour: `var(--cv-${id})` }));
  const series = seriesOf(timeline);
  return series.map((each, i) => {
    return { id: `series-${i}`, name: nameOfSeries(each, words), colour: colourOf(each, series) };
  });
}

const heightsAt = (timeline: Timeline, view: View, modelCall: ModelCall): number[] =>
  view === "context" ? sizesOf(timeline, modelCall) : BILL_PARTS.map((part) => modelCall.cost?.[part] ?? 0);

/** The corners of a stepped area. A column shows its largest or most expensive call. */
function cornersOf(timeline: Timeline, view: View, bands: Band[]) {
  const { modelCalls } = timeline;
  const calls = modelCalls.map(({ tokens, cost }, call) => {
    return { x: call + 1, call, weight: view === "cost" ? sumOf(cost) : tokens };
  });
  const columns = heaviest(calls, modelCalls.length, MOST_COLUMNS);
  const first = { x: 0.5, call: columns[0]?.call ?? 0 };
  const last = { x: modelCalls.length + 0.5, call: columns.at(-1)?.call ?? 0 };
  return [first, ...columns, last].flatMap(({ x, call }) => {
    const modelCall = modelCalls[call];
    const heights = modelCall ? heightsAt(timeline, view, modelCall) : [];
    return bands.map(({ id, name }, i) => ({ x, y: heights[i] ?? 0, band: id, name }));
  });
}

const LABEL = { fill: "var(--cv-text)", stroke: "var(--cv-ground)", strokeWidth: 3 };
function missSigns(timeline: Timeline, width: number): Plot.Markish {
  const missed = timeline.modelCalls.flatMap((modelCall, i) => {
    return isMissed(modelCall) ? { x: i + 0.5, weight: modelCall.missed?.tokens ?? 0 } : [];
  });
  const place = { x: "x", frameAnchor: "top", dy: -8, r: 4 } as const;
  return Plot.dot(signsIn(missed, timeline, width), { ...place, fill: "var(--cv-cold)", symbol: "diamond2" });
}

/** Named above the chart, where no column is. */
function capacitySigns(capacities: Capacity[], words: Words): Plot.Markish[] {
  const text = (capacity: Capacity) => `- - ${words.capacity(capacity)}`;
  const fill = "var(--cv-alert)";
  return [
    Plot.ruleY(capacities, { y: "tokens", stroke: fill, strokeDasharray: "6 4", strokeWidth: 1.5 }),
    Plot.text(capacities, { frameAnchor: "top-right", lineAnchor: "top", dy: -MARGIN.top + 3, fill, text }),
  ];
}

/** An arrow for each compaction, labelled with the tokens it removed. */
function compactionSigns(timeline: Timeline, width: number, top: number): Plot.Markish[] {
  const compactions = timeline.compactions.map((each) => {
    const [from, to] = [Math.min(top, each.before.tokens), each.after.tokens];
    const weight = each.before.tokens - to;
    return { x: each.modelCall + 0.5, weight, from, to, colour: `var(--cv-${fateOfTaken(each)})` };
  });
  const drawn = signsIn(compactions, timeline, width);
  const isMany = drawn.length > width / 90; // labels would cover the chart
  const stroke = { value: "colour", scale: null };
  const strokeWidth = isMany ? 1 : 2.5;
  const isEarly = ({ x }: { x: number }) => x < timeline.modelCalls.length / 10; // its label would cover the axis
  const labels = (["start", "end"] as const).map((textAnchor) => {
    const placed = drawn.filter((each) => isEarly(each) === (textAnchor === "start"));
    const text = ({ weight }: { weight: number }) => `−${short(weight)}`;
    return Plot.text(isMany ? [] : placed, { ...LABEL, x: "x", y: "from", dy: -9, textAnchor, text });
  });
  return [Plot.ruleX(drawn, { x: "x", y1: "to", y2: "from", markerStart: "arrow", stroke, strokeWidth }), ...labels];
}

/** The largest value in a chart, and the threshold or window if it's close enough to draw. */
function topOfAxis({ modelCalls, compactions, capacity }: Timeline, view: View) {
  const values = modelCalls.map(({ cost, tokens }) => (view === "cost" ? sumOf(cost) : tokens));
  if (view !== "context") return { most: Math.max(...values), capacities: [] };
  const shown = compactions.filter(({ modelCall }) => modelCall > 0); // what came before call 1 may be far larger
  const most = Math.max(...values, ...shown.map(({ before }) => before.tokens));
  return { most, capacities: capacity && capacity.tokens <= NEAR * most ? [capacity] : [] };
}

/** Draws what each prompt is made of (`context`) or what it cost (`cost`). A layer's name appears under the pointer. */
export function drawChart(timeline: Timeline, options: ChartOptions) {
  const { document, width, words, view = "context" } = options;
  const { modelCalls } = timeline;
  const { most, capacities } = topOfAxis(timeline, view);
  const top = Math.max(most, ...capacities.map(({ tokens }) => tokens));
  const isContext = view === "context";
  const bands = bandsOf(timeline, view, words);
  const order = bands.map(({ id }) => id);
  const signs = [missSigns(timeline, width), capacitySigns(capacities, words)];
  const area = { x: "x", y: "y", fill: "band", z: "band", order, title: "name", curve: "step" } as const;
  const chart = Plot.plot({
    document,
    width,
    height: heightOf(view),
    marginBottom: bottomOf(view),
    marginLeft: MARGIN.left,
    marginRight: MARGIN.right,
    marginTop: MARGIN.top,
    style: { background: "transparent", color: "var(--cv-text)", fontSize: "12px" },
    x: {
      domain: [0.5, modelCalls.length + 0.5], // call 1 covers 0.5 to 1.5
      axis: isContext ? "bottom" : null,
      label: words.request,
      ticks: Math.min(modelCalls.length, width / 50),
      tickFormat: (call: number) => whole(call),
    },
    y: {
      domain: [0, isContext ? top * 1.04 : top],
      label: words.axis[view],
      tickFormat: view === "cost" ? dollars : short,
      grid: true,
      ticks: isContext ? heightOf(view) / 50 : [0, top / 2, top], // a small chart has room for three
    },
    color: { domain: order, range: bands.map(({ colour }) => colour) },
    marks: [
      Plot.areaY(cornersOf(timeline, view, bands), area),
      ...(isContext ? [...signs, compactionSigns(timeline, width, top)] : []),
    ],
  });
  chart.querySelector("style")?.remove(); // Plot's defaults would override the page's fonts and colours
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", words.axis[view]);
  for (const part of chart.querySelectorAll("g")) part.removeAttribute("aria-label"); // not allowed without a role
  return chart;
}

/** Draws a standalone SVG file with its own legend and colours, for pages without JavaScript. */
export function drawFigure(timeline: Timeline, options: ChartOptions & { title: string; description: string }): string {
  const { document, width, words, title, description } = options;
  const holder = document.createElement("div");
  holder.append(drawChart(timeline, options));
  const { legend, bottom } = drawLegend(bandsOf(timeline, "context", words), width);
  const names = /plot-marker-\d+/g; // Plot keeps counting, so the same picture would differ from run to run
  const markers = [...new Set(holder.innerHTML.match(names))];
  const drawn = holder.innerHTML.replace(names, (name: string) => `marker-${markers.indexOf(name) + 1}`);
  const style = `svg{font:12px system-ui,sans-serif;fill:var(--cv-text);background:var(--cv-ground);${variables(([light]) => light)}}@media (prefers-color-scheme:dark){svg{${variables(([, dark]) => dark)}}}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${bottom}" viewBox="0 0 ${width} ${bottom}" role="img" aria-labelledby="title desc">
<title id="title">${escapeHtml(title)}</title>
<desc id="desc">${escapeHtml(description)}</desc>
<style>${style}</style>
${drawn}
${legend.join("\n")}
</svg>
`;
}

/** Wraps the names into as many rows as they need. */
function drawLegend(bands: Band[], width: number): { legend: string[]; bottom: number } {
  const rowHeight = 20;
  let [x, y] = [MARGIN.left, heightOf("context") + rowHeight];
  const legend = bands.map(({ name, colour }) => {
    const space = 28 + sum([...name].map((letter) => (letter > "\u2e80" ? 13 : 7.2)));
    if (x + space > width) [x, y] = [MARGIN.left, y + rowHeight];
    const place = x;
    x += space;
    return `<rect x="${place}" y="${y - 10}" width="11" height="11" rx="2" fill="${colour}"/><text x="${place + 16}" y="${y}">${escapeHtml(name)}</text>`;
  });
  return { legend, bottom: y + rowHeight / 2 };
}
