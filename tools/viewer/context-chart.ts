/** Draws a timeline as SVG, in a browser or on a document of linkedom. */
import * as Plot from "@observablehq/plot";
import { nameOfSeries, type Words } from "./languages.ts";
import { dollars } from "./numbers.ts";
import { sumOf } from "./prices.ts";
import {
  type Compaction,
  dearestOf,
  isClearing,
  isMissed,
  isWithdrawal,
  largestOf,
  type Timeline,
} from "./timeline.ts";

/** Each colour on a light and on a dark ground, as a CSS variable `--cv-NAME`. */
const COLOURS: Record<string, [light: string, dark: string]> = {
  text: ["#1f2328", "#e6edf3"],
  quiet: ["#57606a", "#9aa7b4"],
  ground: ["#ffffff", "#1b1b1f"],
  line: ["#d0d7de", "#3d444d"],
  accent: ["#0550ae", "#79b8ff"],
  alert: ["#b3261e", "#ff8a80"],
  cold: ["#0969da", "#6cb6ff"],
  unexplained: ["#9aa1ab", "#7d8590"],
  summary: ["#7c3aed", "#a78bfa"],
  file: ["#c026d3", "#e879f9"],
  request: ["#1d4ed8", "#60a5fa"],
  client: ["#475569", "#cbd5e1"],
  reply: ["#0e7490", "#22d3ee"],
  thinking: ["#db2777", "#f472b6"],
  call: ["#b45309", "#fbbf24"],
  "result-0": ["#15803d", "#4ade80"],
  "result-1": ["#4d7c0f", "#bef264"],
  "result-2": ["#0f766e", "#2dd4bf"],
  "result-3": ["#3f6212", "#a3b18a"],
  "result-4": ["#7a6a3a", "#d6c29a"],
  // Of the cache and the cost: one hue that no kind of block has, the darker the more expensive.
  read: ["#cf9f6c", "#755334"],
  written: ["#a3662b", "#b07c49"],
  input: ["#6b3a0e", "#dba86f"],
  output: ["#331a04", "#fbe3c4"],
  // What became of a block: no hue of a kind, but of thinking that stays, and of the arrow of what took it.
  kept: ["#a8b0b8", "#6e7681"],
  thought: ["#db2777", "#f472b6"],
  summarized: ["#1f2328", "#e6edf3"],
  disk: ["#b45309", "#fbbf24"],
  withdrawn: ["#b3261e", "#ff8a80"],
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
type Page = NonNullable<Plot.PlotOptions["document"]>;
export type ChartOptions = { document: Page; width: number; height: number; words: Words; view?: View };

export const MARGIN = { left: 56, right: 14, top: 34 };
const MOST_COLUMNS = 800; // more requests than that share columns
const MARK = 14; // pixels from one mark to the next
const NEAR = 1.25; // of the largest prompt: a limit up to there is drawn where it is

/** Of each of `most` columns of model calls the item that weighs most. */
function heaviest<Item>(items: Item[], calls: number, most: number, of: (item: Item) => { x: number; weight: number }) {
  const each = Math.max(1, Math.ceil(calls / most));
  const columns = new Map<number, Item>();
  for (const item of items) {
    const { x, weight } = of(item);
    const column = Math.floor(x / each);
    const best = columns.get(column);
    if (best === undefined || weight > of(best).weight) columns.set(column, item);
  }
  return [...columns.values()];
}

/** The model calls that are drawn: of each column the largest, or the most expensive. */
function columnsOf({ moments }: Timeline, view: View): number[] {
  const weightOf = ({ tokens, cost }: Timeline["moments"][number]) => (view === "cost" ? sumOf(cost) : tokens);
  const calls = moments.map((moment, x) => ({ x, weight: weightOf(moment) }));
  return heaviest(calls, moments.length, MOST_COLUMNS, (call) => call).map(({ x }) => x);
}

/** How many marks there is space for in a chart. */
const marksIn = (width: number) => (width - MARGIN.left - MARGIN.right) / MARK;

/** The compactions that are drawn: of those that are too close to be told apart, the one that took away most. */
export const drawnCompactions = ({ compactions, moments }: Timeline, width: number): Compaction[] =>
  heaviest(compactions, moments.length, marksIn(width), ({ moment: x, before, after }) => {
    return { x, weight: before.tokens - after.tokens };
  });

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
  const columns = columnsOf(timeline, view);
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
  const { moments, blocks } = timeline;
  const { rows, series } = rowsOf(timeline, view);
  const isContext = view === "context";
  const calls = moments.map((moment, x) => ({ moment, x, weight: moment.missed?.tokens ?? 0 }));
  const missed = calls.filter(({ moment }) => isMissed(moment));
  const drawn = heaviest(missed, moments.length, marksIn(width), (each) => each);
  const cold = drawn.map(({ x }) => x - 0.5);
  const requests = heaviest(timeline.requests, moments.length, marksIn(width), ({ moment: x }) => ({ x, weight: 0 }));
  const rewrites = drawnCompactions(timeline, width).map((each) => {
    return { x: each.moment - 0.5, from: each.before.tokens, to: each.after.tokens, colour: colourFor(each) };
  });
  const most = { context: largestOf(timeline), cache: largestOf(timeline), cost: dearestOf(timeline) }[view];
  const data = isContext ? Math.max(most, ...rewrites.map(({ from }) => from)) : most;
  const limits = isContext ? timeline.limits.filter(({ tokens }) => tokens <= NEAR * data) : [];
  const above = isContext ? timeline.limits.filter(({ tokens }) => tokens > NEAR * data) : [];
  const top = Math.max(data, ...limits.map(({ tokens }) => tokens));
  const label = { fill: "var(--cv-text)", stroke: "var(--cv-ground)", strokeWidth: 3, className: "cv-label" };
  const diamond = { fill: "var(--cv-cold)", symbol: "diamond2" as const };
  const arrow = { stroke: "colour", markerStart: "arrow" as const };
  const asked = { x: ({ moment }: { moment: number }) => moment - 0.5, fill: "var(--cv-request)", dy: 4 };
  const marks = [Plot.areaY(rows, { x: "x", y: "y", fill: "series", z: "series", order: series, curve: "step" })];
  const isMany = Math.max(rewrites.length, cold.length) > width / 90; // their labels and lines would be all that one sees
  if (isContext && !isMany)
    marks.push(Plot.ruleX(cold, { stroke: "var(--cv-cold)", strokeDasharray: "1 3", strokeWidth: 2 }));
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
      Plot.text(above, {
        ...{ ...label, fill: "var(--cv-alert)", frameAnchor: "top-right", dy: -27, textAnchor: "end" },
        text: ({ tokens, source }) => `↑ ${words.limit(tokens, source)}`,
      }),
    );
    if (!isMany) {
      const taken = ({ from, to }: (typeof rewrites)[number]) => `−${words.short(from - to)}`;
      const isEarly = ({ x }: { x: number }) => x < moments.length / 10; // to the left there is the axis
      for (const textAnchor of ["start", "end"] as const) {
        const placed = rewrites.filter((each) => isEarly(each) === (textAnchor === "start"));
        marks.push(Plot.text(placed, { ...label, x: "x", y: "from", text: taken, dy: -9, textAnchor }));
      }
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
      domain: [0, isContext ? top * 1.04 : top],
      label: words.axis[view],
      tickFormat: view === "cost" ? dollars : words.short,
      grid: true,
      ticks: isContext ? Math.round(height / 50) : [0, top / 2, top], // the small ones name their largest bar
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
  const names = /plot-marker-\d+/g; // numbered on from one picture to the next
  const markers = [...new Set(holder.innerHTML.match(names))];
  const drawn = holder.innerHTML.replace(names, (name: string) => `marker-${markers.indexOf(name) + 1}`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${total}" viewBox="0 0 ${width} ${total}" role="img" aria-labelledby="title desc">
<title id="title">${escapeXml(title)}</title>
<desc id="desc">${escapeXml(description)}</desc>
<style>${style}</style>
${drawn}
${legend.join("\n")}
</svg>
`;
}

const escapeXml = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
