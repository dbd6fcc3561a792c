/** Draws a timeline as SVG, in a browser or on a document of linkedom. */
import * as Plot from "@observablehq/plot";
import { nameOfSeries, type Words } from "./languages.ts";
import { type Compaction, isClearing, isWithdrawal, largestOf, type Timeline } from "./timeline.ts";

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
  thought: ["#db2777", "#f472b6"],
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

/** A compaction by what it does: summing up, clearing results, or taking out. */
export const colourFor = (compaction: Compaction): string =>
  `var(--cv-${isClearing(compaction) ? "disk" : isWithdrawal(compaction) ? "withdrawn" : "text"})`;

export type View = "context" | "cache" | "cost";
export type ChartOptions = { document: Document; width: number; height: number; words: Words; view?: View };

export const MARGIN = { left: 56, right: 14, top: 34 };
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

/** What a model call is paid for. */
export const PAID = ["read", "written", "input", "output"] as const;

/** At most `most` whole numbers from 1 to `last`, evenly spread. */
function wholeTicks(last: number, most: number): number[] {
  const least = last / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = power * ([1, 2, 5].find((each) => each * power >= least) ?? 10);
  return Array.from({ length: Math.floor(last / step) }, (_, i) => (i + 1) * step - 1);
}

type Row = { x: number; y: number; series: string };

function rowsOf(timeline: Timeline, view: View): { rows: Row[]; series: string[] } {
  const columns = columnsOf(timeline);
  const last = { x: timeline.moments.length - 0.5, of: columns.at(-1) ?? 0 };
  const places = [{ x: -0.5, of: columns[0] ?? 0 }, ...columns.map((x) => ({ x, of: x })), last];
  const rows = places.flatMap(({ x, of }): Row[] => {
    const moment = timeline.moments[of];
    if (view === "context") return timeline.series.map((series, i) => ({ x, y: moment?.sizes[i] ?? 0, series }));
    const parts = view === "cost" ? moment?.cost : moment?.usage;
    return PAID.slice(0, view === "cost" ? 4 : 3).map((series) => ({ x, y: parts?.[series] ?? 0, series }));
  });
  return { rows, series: view === "context" ? timeline.series : PAID.slice(0, view === "cost" ? 4 : 3) };
}

/** `context`: what each prompt is made of; `cache`: what of it was read from the cache; `cost`: what was paid. */
export function drawChart(timeline: Timeline, { document, width, height, words, view = "context" }: ChartOptions) {
  const { moments, compactions, requests, blocks } = timeline;
  const { rows, series } = rowsOf(timeline, view);
  const isContext = view === "context";
  const limits = isContext ? timeline.limits : [];
  const cold = moments.flatMap(({ missed }, x) => (missed ? [x - 0.5] : []));
  const rewrites = compactions.map((each) => {
    return { x: each.moment - 0.5, from: each.before.tokens, to: each.after.tokens, colour: colourFor(each) };
  });
  const largest = largestOf(timeline);
  const top = Math.max(largest, ...limits.map(({ tokens }) => tokens), ...rewrites.map(({ from }) => from));
  const label = { fill: "var(--cv-text)", stroke: "var(--cv-ground)", strokeWidth: 3, className: "cv-label" };
  const diamond = { fill: "var(--cv-cold)", symbol: "diamond2" as const };
  const arrow = { stroke: "colour", markerStart: "arrow" as const };
  const asked = { x: ({ moment }: { moment: number }) => moment - 0.5, fill: "var(--cv-request)", dy: 4 };
  const marks = [
    Plot.areaY(rows, { x: "x", y: "y", fill: "series", z: "series", order: series, curve: "step" }),
    Plot.ruleX(cold, { stroke: "var(--cv-cold)", strokeDasharray: "1 3", strokeWidth: 2 }),
  ];
  const isMany = rewrites.length > width / 90; // their labels would overlap
  if (isContext) {
    marks.push(
      Plot.dot(cold, { ...diamond, x: (x: number) => x, frameAnchor: "top", r: 4, dy: -8 }),
      Plot.ruleX(rewrites, { ...arrow, x: "x", y1: "to", y2: "from", strokeWidth: isMany ? 1 : 2.5 }),
      Plot.dot(requests, {
        ...{ ...asked, symbol: "triangle", frameAnchor: "bottom", r: 5, stroke: "var(--cv-ground)" },
        title: ({ block }) => blocks[block]?.label,
      }),
      Plot.ruleY(limits, { y: "tokens", stroke: "var(--cv-alert)", strokeDasharray: "6 4", strokeWidth: 1.5 }),
      Plot.text(limits, {
        ...label,
        y: "tokens",
        text: ({ tokens, source }) => words.limit(tokens, source),
        frameAnchor: "left",
        dx: 4,
        dy: 9,
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
    marginTop: MARGIN.top,
    marginBottom: isContext ? 38 : 8,
    style: { background: "transparent", color: "var(--cv-text)", fontSize: "12px" },
    x: {
      domain: [-0.5, moments.length - 0.5],
      axis: isContext ? "bottom" : null,
      label: words.request,
      ticks: wholeTicks(moments.length, width / 50),
      tickFormat: (x) => `${x + 1}`,
    },
    y: {
      domain: isContext ? [0, top * 1.04] : undefined,
      label: words.axis[view],
      tickFormat: view === "cost" ? words.dollars : words.short,
      grid: true,
      ticks: Math.max(2, Math.round(height / 50)),
    },
    color: {
      domain: [...series, ...rewrites.map(({ colour }) => colour)],
      range: [...series.map((name) => colourOf(name, timeline.series)), ...rewrites.map(({ colour }) => colour)],
    },
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
