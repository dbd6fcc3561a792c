/** What the bench found as tables, for the terminal and for docs/benchmarks.md, and as charts. */
import { LineChart } from "echarts/charts";
import { GridComponent, LegendComponent } from "echarts/components";
import { type EChartsCoreOption, init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { type Figures, READ_PRICES } from "./figures.ts";
import type { PerSession, Results } from "./results.ts";
import { speedTables } from "./speed.ts";
import { table } from "./table.ts";

const percent = (share: number) => (Number.isNaN(share) ? "none" : `${Math.round(100 * share)} %`);
const count = (tokens: number) => Math.round(tokens).toLocaleString("en-US");
const thousands = (tokens: number) => `${count(tokens / 1000)}k`;

/** The costs of a strategy relative to those of never compacting. */
function relative(figures: Figures, nothing?: Figures): string[] {
  return figures.costs.map((cost, i) => (cost / (nothing?.costs[i] ?? Number.NaN)).toFixed(2));
}

const costs = (strategies: Record<string, PerSession>, nothing?: PerSession) =>
  table([
    ["strategy", ...READ_PRICES.map((price) => `cost, read ${price}×`), "grounded", "largest", "mean", "summaries"],
    ...Object.entries(strategies).map(([name, { all }]) => [
      name,
      ...relative(all, nothing?.all),
      percent(all.grounded),
      thousands(all.largest),
      thousands(all.mean),
      String(all.summaries),
    ]),
  ]);

/** The tables in Markdown, by the name that docs/benchmarks.md gives them. */
export const tables: Record<string, (results: Results) => string> = {
  sessions: ({ sessions, strategies }) =>
    table([
      ["session", "characters", "requests", "rounds", "edits of a text seen before"],
      ...sessions.map(({ name, characters, requests, rounds }) => {
        const edits = strategies.nothing?.sessions[name]?.edits ?? 0;
        return [name, count(characters), String(requests), String(rounds), String(edits)];
      }),
    ]),
  strategies: ({ strategies }) => costs(strategies, strategies.nothing),
  rules: ({ rules, strategies }) => costs(rules, strategies.nothing),
  tokens: ({ strategies }) =>
    table([
      ["strategy", "written", "read", "uncached", "requests", "rejected"],
      ...Object.entries(strategies).map(([name, { all }]) => [
        name,
        ...[all.written, all.read, all.uncached].map(thousands),
        ...[all.requests, all.rejected].map(String),
      ]),
    ]),
  "per session": ({ sessions, strategies }) =>
    table([
      ["strategy", ...sessions.map(({ name }) => name.replace(".jsonl", ""))],
      ...Object.entries(strategies).map(([name, each]) => [
        name,
        ...sessions.map(({ name: session }) => {
          const figures = each.sessions[session];
          if (!figures) return "";
          const cost = relative(figures, strategies.nothing?.sessions[session])[1];
          return `${cost}, ${percent(figures.grounded)}`;
        }),
      ]),
    ]),
  wide: ({ strategies }) =>
    table([
      ["strategy", "such requests", "written for each", "read for each"],
      ...Object.entries(strategies).map(([name, { all }]) => {
        const { requests, written, read } = all.wide;
        const each = (tokens: number) => (requests > 0 ? count(tokens / requests) : "none");
        return [name, String(requests), each(written), each(read)];
      }),
    ]),
  sweep: ({ sweep, strategies }) =>
    table([
      ["form", ...Object.keys(Object.values(sweep)[0] ?? {}).map((threshold) => thousands(Number(threshold)))],
      ...Object.entries(sweep).map(([form, points]) => [
        form,
        ...Object.values(points).map(
          (figures) => `${relative(figures, strategies.nothing?.all)[1]}, ${percent(figures.grounded)}`,
        ),
      ]),
    ]),
  ...Object.fromEntries(
    Object.entries(speedTables).map(([name, render]) => [
      name,
      ({ speed }: Results) => (speed ? render(speed) : "Not measured: `npm run bench:speed` does."),
    ]),
  ),
};

// --- charts ----------------------------------------------------------------------------------------------------------

use([LineChart, GridComponent, LegendComponent, SVGRenderer]);

/** Stands for the colour of text and lines, which follows the reader's light or dark screen. */
const INK = "#010203";
const PALETTE = ["#d1495b", "#2a9d8f", "#4f86f7", "#c98b00", "#8e6bbf"];

function draw(option: EChartsCoreOption): string {
  const chart = init(null, null, { renderer: "svg", ssr: true, width: 820, height: 420 });
  chart.setOption({ animation: false, color: PALETTE, textStyle: { color: INK, fontFamily: "sans-serif" }, ...option });
  const svg = chart.renderToSVGString();
  chart.dispose();
  const style = "<style>:root{color:#24292f}@media(prefers-color-scheme:dark){:root{color:#e6edf3}}</style>";
  return `${svg.replaceAll(INK, "currentColor").replace(/(<svg[^>]*>)/, `$1\n${style}`)}\n`;
}

const axis = (name: string) => ({
  name,
  nameLocation: "middle",
  nameGap: 40,
  nameTextStyle: { color: INK },
  axisLabel: { color: INK },
  axisLine: { show: true, lineStyle: { color: INK } },
  splitLine: { lineStyle: { color: INK, opacity: 0.15 } },
});
const legend = { top: 4, itemGap: 30, textStyle: { color: INK } };
const grid = { left: 80, right: 40, top: 50, bottom: 60 };

/** The charts of docs/, by file name. */
export const charts: Record<string, (results: Results) => string> = {
  "context.svg": ({ context }) =>
    draw({
      legend,
      grid,
      xAxis: { type: "value", max: "dataMax", ...axis(`request of ${context.session}`) },
      yAxis: { type: "value", ...axis("tokens of context"), nameGap: 60 },
      series: Object.entries(context.strategies).map(([name, tokens]) => ({
        name,
        type: "line",
        symbol: "none",
        data: tokens.map((each, i) => [i + 1, each]),
      })),
    }),
  "cost-grounding.svg": ({ sweep, strategies }) =>
    draw({
      legend,
      grid,
      xAxis: { type: "value", min: 0, ...axis("input cost relative to never compacting (reads at 0.05×)") },
      yAxis: { type: "value", scale: true, ...axis("edits whose text was still there, %"), nameGap: 50 },
      series: Object.entries(sweep).map(([name, points], i) => ({
        name,
        type: "line",
        symbolSize: 7,
        label: { show: true, position: i === 1 ? "left" : "right", color: INK, formatter: "{@[2]}" },
        data: Object.entries(points).map(([threshold, figures]) => [
          Number(relative(figures, strategies.nothing?.all)[1]),
          Math.round(1000 * figures.grounded) / 10,
          thousands(Number(threshold)),
        ]),
      })),
    }),
};
