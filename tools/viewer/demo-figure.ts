/** Draws the recorded demo for the pages. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { readTimeline } from "../trace/read-timeline.ts";
import { drawFigure } from "./context-chart.ts";
import { WORDS, type Words } from "./languages.ts";

export function demoFigures(root: string): Record<string, string> {
  const timeline = readTimeline(readFileSync(join(root, "tools/docs/runs/demo.jsonl"), "utf8"));
  const { document } = parseHTML("<html></html>");
  const draw = (words: Words, width: number) =>
    drawFigure(timeline, { document, width, words, title: words.demo, description: words.overview(timeline) });
  return {
    "demo.svg": draw(WORDS.en, 760),
    "demo.narrow.svg": draw(WORDS.en, 340), // on a phone, text keeps its size
    "demo.zh.svg": draw(WORDS.zh, 760),
    "demo.zh.narrow.svg": draw(WORDS.zh, 340),
  };
}
