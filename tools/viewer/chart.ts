/** Draws a timeline as SVG, in a browser or on a document of linkedom. */
import * as Plot from "@observablehq/plot";
import { largestOf, type Timeline, type Usage } from "./model.ts";
import { nameOfSeries, type Words } from "./words.ts";

/** Each colour on a light and on a dark ground, as a CSS variable `--cv-NAME`. */
const COLOURS: Record<string, [light: string, dark: string]> = {
  text: ["#1f2328", "#e6edf3"],
  quiet: ["#57606a", "#9aa7b4"],
  ground: ["#ffffff", "#1b1b1f"],
  line: ["#d0d7de", "#3d444d"],
  accent: ["#0550ae", "#79b8ff"],
  alert: ["#b3261e", "#ff8a80"],
  cold: ["#0969da", "#6cb6ff"],
  system: ["#6b7280", "#9ca3af"],
  summary: ["#7c3aed", "#a78bfa"],
  file: ["#c026d3", "#e879f9"],
  request: ["#1d4ed8", "#60a5fa"],
  reply: ["#0e7490", "#22d3ee"],
  thinking: ["#db2777", "#f472b6"],
  call: ["#b45309", "#fbbf24"],
  "result-0": ["#15803d", "#4ade80"],
  "result-1": ["#4d7c0f", "#bef264"],
  "result-2": ["#0f766e", "#2dd4bf"],
  "result-3": ["#3f6212", "#a3b18a"],
  "result-4": ["#7a6a3a", "#d6c29a"],
  read: ["#15803d", "#4ade80"],
  written: ["#b45309", "#fbbf24"],
  input: ["#b3261e", "#ff8a80"],
  output: ["#7c3aed", "#a78bfa"],
  kept: ["#15803d", "#4ade80"],
  summarized: ["#7c3aed", "#a78bfa"],
  disk: ["#b45309", "#fbbf24"],
  withdrawn: ["#6b7280", "#9ca3af"],
};

const variables = (i: 0 | 1) =>
  Object.entries(COLOURS)
    .map(([name, pair]) => `--cv-${name}:${pair[i]}`)
    .join(";");

/** The rules that set the colours: dark inside `.dark`, as VitePress has it. */
export const colourRules = `.context-viewer{${variables(0)}}.dark .context-viewer{${variables(1)}}`;

/** The CSS variable of a series of a timeline. */
export function colourOf(name: string, series: string[]): string {
  if (!name.startsWith("result:")) return `var(--cv-${name})`;
  const results = series.filter((each) => each.startsWith("result:"));
  return `var(--cv-result-${name === "result:" ? 4 : results.indexOf(name)})`;
}

/** In units of the price of an input token, as of Sonnet 5.5 and Opus 5.5; an entry that lives an hour is written at 2. */
export function costOf({ input, read, written, output, isHour }: Usage) {
  return { read: 0.05 * read, written: (isHour ? 2 : 1.25) * written, input, output: 5 * output };
}

export type View = "context" | "cache" | "cost";
export type ChartOptions = { document: Document; width: number; height: number; words: Words; view?: View };

export const MARGIN = { left: 56, right: 14 };
const MOST_COLUMNS = 800; // more requests than that share columns

/** Of each column the largest request. */
function columnsOf({ moments }: Timeline): number[] {
  const each = Math.ceil(moments.length / MOST_COLUMNS);
  const columns: number[] = [];
  for (const [i, { tokens }] of moments.entries()) {
    const column = Math.floor(i / each);
    if (tokens >= (moments[columns[column] ?? i]?.tokens ?? 0)) columns[column] = i;
  }
  return columns;
}

type Row = { x: number; y: number; series: string };

function rowsOf(timeline: Timeline, view: View): { rows: Row[]; series: string[] } {
  const columns = columnsOf(timeline);
  const ends = [
    { x: -0.5, of: columns[0] ?? 0 },
    { x: timeline.moments.length - 0.5, of: columns.at(-1) ?? 0 },
  ];
  const places = [...ends.slice(0, 1), ...columns.map((x) => ({ x, of: x })), ...ends.slice(1)];
  const rows = places.flatMap(({ x, of }): Row[] => {
    const moment = timeline.moments[of];
    if (view === "context") return timeline.series.map((series, i) => ({ x, y: moment?.sizes[i] ?? 0, series }));
    const usage = moment?.usage ?? { input: 0, read: 0, written: 0, output: 0, isHour: false };
    const { read, written, input } = usage;
    const parts = view === "cost" ? costOf(usage) : { read, written, input };
    return Object.entries(parts).map(([series, y]) => ({ x, y, series }));
  });
  const series = {
    context: timeline.series,
    cache: ["read", "written", "input"],
    cost: ["read", "written", "input", "output"],
  };
  return { rows, series: series[view] };
}

/** `context`: what each prompt is made of; `cache`: what of it was read from the cache; `cost`: what was paid. */
export function drawChart(timeline: Timeline, { document, width, height, words, view = "context" }: ChartOptions) {
  const { moments, compactions } = timeline;
  const { rows, series } = rowsOf(timeline, view);
  const isContext = view === "context";
  const limits = isContext ? timeline.limits : [];
  const cold = moments.flatMap(({ isCold }, x) => (isCold ? [x - 0.5] : []));
  const rewrites = compactions.map(({ moment, before, after }) => {
    return { x: moment - 0.5, from: before.tokens, to: after.tokens };
  });
  const largest = largestOf(timeline);
  const top = Math.max(largest, ...limits.map(({ tokens }) => tokens), ...rewrites.map(({ from }) => from));
  const label = { fill: "var(--cv-text)", stroke: "var(--cv-ground)", strokeWidth: 3 };
  const marks = [
    Plot.areaY(rows, { x: "x", y: "y", fill: "series", z: "series", order: series, curve: "step" }),
    Plot.ruleX(cold, { stroke: "var(--cv-cold)", strokeDasharray: "1 3", strokeWidth: 2 }),
  ];
  const isMany = rewrites.length > width / 90; // their labels would overlap
  if (isContext) {
    marks.push(
      Plot.dot(cold, {
        x: (x: number) => x,
        frameAnchor: "top",
        fill: "var(--cv-cold)",
        symbol: "diamond2",
        r: 4,
        dy: -8,
      }),
      Plot.ruleX(rewrites, {
        x: "x",
        y1: "to",
        y2: "from",
        stroke: "var(--cv-text)",
        strokeWidth: isMany ? 1 : 2,
        markerStart: "arrow",
      }),
      Plot.ruleY(limits, { y: "tokens", stroke: "var(--cv-alert)", strokeDasharray: "6 4", strokeWidth: 1.5 }),
      Plot.text(limits, {
        ...label,
        y: "tokens",
        text: ({ tokens, source }) => words.limit(tokens, source),
        frameAnchor: "left",
        dx: 4,
        dy: -8,
        textAnchor: "start",
      }),
    );
    if (!isMany) {
      const taken = ({ from, to }: (typeof rewrites)[number]) => `−${words.short(from - to)}`;
      marks.push(Plot.text(rewrites, { ...label, x: "x", y: "from", text: taken, dy: -9, textAnchor: "end" }));
    }
  }
  const chart = Plot.plot({
    document,
    width,
    height,
    marginLeft: MARGIN.left,
    marginRight: MARGIN.right,
    marginTop: 22,
    marginBottom: isContext ? 38 : 8,
    style: { background: "transparent", color: "var(--cv-text)", fontSize: "12px" },
    x: {
      domain: [-0.5, moments.length - 0.5],
      axis: isContext ? "bottom" : null,
      label: words.request,
      tickFormat: (x) => `${x + 1}`,
    },
    y: {
      domain: isContext ? [0, top * 1.04] : undefined,
      label: words.axis[view],
      tickFormat: words.short,
      grid: true,
      ticks: Math.max(2, Math.round(height / 50)),
    },
    color: { domain: series, range: series.map((name) => colourOf(name, timeline.series)) },
    marks,
  });
  chart.querySelector("style")?.remove(); // its rules are for a chart in an article
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", words.axis[view]);
  for (const part of chart.querySelectorAll("g")) part.removeAttribute("aria-label"); // only a role makes it valid
  return chart;
}

/** A picture of its own, with a legend and its colours: for pages without JavaScript. @returns the text of an SVG file */
export function drawFigure(timeline: Timeline, options: ChartOptions & { title: string; description: string }): string {
  const { document, width, height, words, title, description } = options;
  const chart = drawChart(timeline, options);
  const rowHeight = 20;
  let [x, y] = [MARGIN.left, height + rowHeight];
  const legend = timeline.series.map((name) => {
    const label = nameOfSeries(name, words);
    const space = 24 + [...label].reduce((sum, letter) => sum + (letter > "\u2e80" ? 13 : 7.2), 0);
    if (x + space > width) [x, y] = [MARGIN.left, y + rowHeight];
    const place = x;
    x += space;
    return `<rect x="${place}" y="${y - 10}" width="11" height="11" rx="2" fill="${colourOf(name, timeline.series)}"/><text x="${place + 16}" y="${y}">${escapeXml(label)}</text>`;
  });
  const style = `svg{font:12px system-ui,sans-serif;fill:var(--cv-text);background:var(--cv-ground);${variables(0)}}@media (prefers-color-scheme:dark){svg{${variables(1)}}}`;
  const total = y + rowHeight / 2;
  chart.setAttribute("height", `${height}`);
  const holder = document.createElement("div");
  holder.append(chart);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${total}" viewBox="0 0 ${width} ${total}" role="img" aria-labelledby="title desc">
<title id="title">${escapeXml(title)}</title>
<desc id="desc">${escapeXml(description)}</desc>
<style>${style}</style>
${holder.innerHTML}
${legend.join("\n")}
</svg>
`;
}

const escapeXml = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
