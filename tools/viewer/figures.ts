/** Draws the recorded demo for the pages. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { readTimeline } from "../trace/read-timeline.ts";
import { drawFigure } from "./context-chart.ts";
import { WORDS } from "./languages.ts";

function drawDemo(root: string, language: "en" | "zh"): string {
  const timeline = readTimeline(readFileSync(join(root, "tools/docs/runs/demo.jsonl"), "utf8"));
  const { document } = parseHTML("<html></html>");
  const words = WORDS[language];
  const texts = { title: words.demo, description: words.overview(timeline) };
  return drawFigure(timeline, { document, width: 760, words, ...texts });
}

/** The demo's files in docs/figures, by name. */
export function demoFigures(root: string): Record<string, string> {
  return { "demo.svg": drawDemo(root, "en"), "demo.zh.svg": drawDemo(root, "zh") };
}
