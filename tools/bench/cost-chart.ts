/** Draws the cost of each strategy for docs/benchmarks.md. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { isMain, percentOfEdits, type Results } from "./report.ts";

const COLOURS = {
  light: "--text:#1f2328;--line:#d0d7de;--other:#8c959f;--s06:#0969da",
  dark: "--text:#e6edf3;--line:#3d444d;--other:#6e7681;--s06:#58a6ff",
};
const STYLE = `svg{font:12px system-ui,sans-serif;color:var(--text);${COLOURS.light}}@media (prefers-color-scheme:dark){svg{${COLOURS.dark}}}`;

/** Draws a bar for each strategy of the main table. A narrow chart has the names above the bars. */
function drawStrategies({ strategies }: Results, isNarrow: boolean): string {
  const rows = Object.entries(strategies).flatMap(([name, { cost, grounded }]) => {
    return isMain(name) ? { name, cost, label: `${cost.toFixed(2)} · ${percentOfEdits(grounded)} grounded` } : [];
  });
  const { document } = parseHTML("<html></html>");
  const text = (channel: string, more: Plot.TextOptions) =>
    Plot.text(rows, { y: "name", text: channel, textAnchor: "start", fill: "var(--text)", ...more });
  const chart = Plot.plot({
    document,
    width: isNarrow ? 340 : 760,
    height: 75 + (isNarrow ? 42 : 22) * rows.length,
    marginLeft: isNarrow ? 12 : 225,
    marginRight: isNarrow ? 148 : 160,
    marginBottom: 40,
    style: { background: "transparent", fontSize: "12px" },
    x: { label: "cost, where never compacting is 1", grid: true, ticks: 5 },
    y: { label: null, domain: rows.map(({ name }) => name), tickSize: 0, axis: isNarrow ? null : "left" },
    marks: [
      Plot.barX(rows, {
        x: "cost",
        y: "name",
        fill: ({ name }) => (name === "s06" ? "var(--s06)" : "var(--other)"),
        insetTop: isNarrow ? 20 : 0,
      }),
      text("label", { x: "cost", dx: 6, dy: isNarrow ? 10 : 0 }),
      isNarrow ? text("name", { x: 0, dy: -9 }) : undefined,
    ],
  });
  const style = document.createElement("style");
  style.textContent = STYLE;
  chart.querySelector("style")?.replaceWith(style);
  chart.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", "The cost of each strategy, and the share of edits that found their text");
  return `${chart.outerHTML}\n`;
}

export function benchFigures(root: string): Record<string, string> {
  const results: Results = JSON.parse(readFileSync(join(root, "tools/bench/public.json"), "utf8"));
  return { "strategies.svg": drawStrategies(results, false), "strategies.narrow.svg": drawStrategies(results, true) };
}
