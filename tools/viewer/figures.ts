/** Draws the recorded demo for the pages. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { readTimeline } from "../trace/read-timeline.ts";
import { drawFigure } from "./context-chart.ts";
import { type Language, WORDS } from "./languages.ts";

/** At the width of a phone, text keeps its size. */
function drawDemo(root: string, language: Language, width: number): string {
  const timeline = readTimeline(readFileSync(join(root, "tools/docs/runs/demo.jsonl"), "utf8"));
  const { document } = parseHTML("<html></html>");
  const words = WORDS[language];
  const texts = { title: words.demo, description: words.overview(timeline) };
  return drawFigure(timeline, { document, width, words, ...texts });
}

/** The demo's files in docs/figures, by name. */
export function demoFigures(root: string): Record<string, string> {
  return {
    "demo.svg": drawDemo(root, "en", 760),
    "demo.narrow.svg": drawDemo(root, "en", 340),
    "demo.zh.svg": drawDemo(root, "zh", 760),
    "demo.zh.narrow.svg": drawDemo(root, "zh", 340),
  };
}
