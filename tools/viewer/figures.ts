/** The pictures of the pages, drawn from recordings. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { drawStrategies } from "../bench/chart.ts";
import { drawFigure } from "./chart.ts";
import { readTimeline } from "./timeline.ts";
import { WORDS } from "./words.ts";

function drawDemo(root: string, language: "en" | "zh"): string {
  const timeline = readTimeline(readFileSync(join(root, "tools/viewer/demo.jsonl"), "utf8"), "demo.jsonl");
  if ("fault" in timeline)
    throw new Error("tools/viewer/demo.jsonl holds no session; npx tsx tools/viewer/record.ts records it");
  const words = WORDS[language];
  const texts = { title: words.demo, description: words.overview(timeline) };
  const { document } = parseHTML("<html></html>");
  return drawFigure(timeline, { document, width: 760, height: 300, words, ...texts });
}

/** The files of docs/figures, drawn from the recordings of the project at `root`. */
export function figures(root: string): Record<string, string> {
  return {
    "demo.svg": drawDemo(root, "en"),
    "demo.zh.svg": drawDemo(root, "zh"),
    "strategies.svg": drawStrategies(JSON.parse(readFileSync(join(root, "tools/bench/results.json"), "utf8"))),
  };
}
