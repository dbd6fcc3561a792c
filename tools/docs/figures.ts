/** Draws the figures of the pages from the recorded runs, each for a wide window and for a phone. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CACHE_LIFE } from "../../offline/constants.ts";
import { isMain, percentOfEdits, type Results } from "../bench/report.ts";
import { CHANGE_HEIGHT, drawBar, drawChange, type Span, spansOf } from "../draw/bar.ts";
import { type Chart, chartHeight, drawChart, MARGIN } from "../draw/chart.ts";
import { html, type Markup } from "../draw/markup.ts";
import { type Part, type Sizes, STYLE, segmentsOf, sizesOf } from "../draw/parts.ts";
import { sum, whole } from "../sessions/numbers.ts";
import { readTimeline } from "../sessions/read-timeline.ts";
import type { Compaction, Timeline } from "../sessions/timeline.ts";

const [WIDE, NARROW] = [680, 350]; // pixels
const PADDING = 8;
const LETTER = 7; // about the width in most fonts
const LINE = 22;
const space: Drawing = { height: 10, content: html`` };

type Drawing = { height: number; content: Markup };
type Figure = { title: string; description: string; draw: (width: number) => Drawing };

function toFile({ title, description, draw }: Figure, width: number): string {
  const drawing = draw(width - 2 * PADDING);
  const height = drawing.height + 2 * PADDING;
  return html`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">
<title id="title">${title}</title>
<desc id="desc">${description}</desc>
<style>
${{ markup: STYLE }}</style>
<svg x="${PADDING}" y="${PADDING}" width="${width - 2 * PADDING}" height="${drawing.height}" overflow="visible">
${drawing.content}</svg>
</svg>
`.markup;
}

/** Puts drawings below each other. */
function stack(drawings: Drawing[]): Drawing {
  let height = 0;
  const placed = drawings.map((drawing) => {
    const y = height;
    height += drawing.height;
    return html`<g transform="translate(0 ${y})">${drawing.content}</g>\n`;
  });
  return { height, content: html`${placed}` };
}

/** A line of text, in pieces that differ in style. */
function line(pieces: Markup): Drawing {
  return { height: LINE, content: html`<text y="15">${pieces}</text>` };
}
/** On a phone, a line has room for 46 letters. */
const lines = (texts: string[]) => texts.map((text) => line(html`${text}`));

function heading(left: string, right: string, width: number): Drawing {
  const content = html`<text class="strong" y="15">${left}</text><text class="strong end" x="${width}" y="15">${right}</text>`;
  return { height: LINE, content };
}

type Names = Partial<Record<Part, string>>;

function legend(names: Names, width: number): Drawing {
  let [x, y] = [0, 0];
  const items = Object.entries(names).map(([part, name]) => {
    const length = 18 + LETTER * name.length;
    if (x + length > width) [x, y] = [0, y + LINE];
    const item = html`<rect fill="var(--${part})" x="${x}" y="${y + 5}" width="12" height="12" rx="2"/><text class="quiet" x="${x + 18}" y="${y + 15}">${name}</text>`;
    x += length + 14;
    return item;
  });
  return { height: y + LINE, content: html`${items}` };
}

// --- the demo, call by call ------------------------------------------------------------------------------------------

/** s06's layers by the trigger of a compaction. */
const LAYERS: Record<string, string> = { micro: "1", auto: "2", tool: "3", manual: "3" };

function demoChart({ modelCalls, compactions, threshold }: Timeline, width: number): Drawing {
  const columns = modelCalls.map((modelCall) => {
    const { result = 0, summary = 0, ...rest } = sizesOf(modelCall);
    return { sizes: { result, summary, reply: sum(Object.values(rest)) } satisfies Sizes };
  });
  const marks = compactions.map(({ modelCall, trigger }) => ({ after: modelCall, label: LAYERS[trigger] ?? "" }));
  const ends: Chart["ends"] = ["call 1", `call ${columns.length}`];
  const chart = { columns, marks, threshold, ends };
  const inside = width - MARGIN.left - MARGIN.right;
  const drawn = html`<svg x="${MARGIN.left}" width="${inside}" height="${chartHeight(chart)}" overflow="visible">${drawChart(chart)}</svg>`;
  const names = { result: "files read", summary: "summary, files", reply: "the rest" };
  const numbers = html`<tspan class="strong">1</tspan> cleared, <tspan class="strong">2</tspan> summarized, <tspan class="strong">3</tspan> summarized on request`;
  return stack([{ height: chartHeight(chart) + 6, content: drawn }, legend(names, width), line(numbers)]);
}

// --- what a compaction does ------------------------------------------------------------------------------------------

type Shown = { compaction: Compaction; total: number; threshold?: number; width: number };

const limitAt = (total: number, threshold: number, width: number, height: number) => {
  const x = (threshold * width) / total;
  return html`<line class="threshold" x1="${x}" x2="${x}" y1="-2" y2="${height + 2}"/>`;
};

/** Draws both bars of a compaction, and the tokens that are free after it. */
function change({ compaction, total, threshold, width }: Shown): Drawing {
  const [before, after] = [segmentsOf(compaction.before), segmentsOf(compaction.after)];
  const left = (width * compaction.after.tokens) / total;
  const freed = `−${whole(compaction.before.tokens - compaction.after.tokens)}`;
  const content = html`${drawChange({ before, after, total })}
<text class="quiet middle" x="${(left + width) / 2}" y="${CHANGE_HEIGHT - 8}">${freed}</text>
${threshold ? limitAt(total, threshold, width, CHANGE_HEIGHT) : ""}`;
  return { height: CHANGE_HEIGHT + 4, content };
}

/** Draws a full prompt, and which of its results layer 1 would clear. */
function fullPrompt({ compaction, total, threshold = 0, width }: Shown): Drawing {
  const segments = segmentsOf(compaction.before);
  const kept = new Set(segmentsOf(compaction.after).map(({ block }) => block));
  const results = spansOf(segments).filter(({ segment }) => segment.part === "result");
  const recent = results.findLastIndex(({ segment }) => !kept.has(segment.block)) + 1;
  let end = width; // of the next label, from the right
  const bracket = (name: string, spans: Span[]) => {
    const from = ((spans.at(0)?.from ?? 0) * width) / total;
    const to = ((spans.at(-1)?.to ?? 0) * width) / total;
    const half = (name.length * LETTER) / 2;
    const middle = Math.min(end - half, (from + to) / 2);
    end = middle - half - 12;
    return html`<path fill="none" stroke="var(--quiet)" d="M${from + 1},30v5H${to - 1}v-5"/><text class="middle" x="${middle}" y="50">${name}</text>`;
  };
  const content = html`${drawBar({ segments, total, height: 26 })}
${bracket("unseen", results.slice(-1))}
${bracket("newest", results.slice(recent, -1))}
${bracket("old results", results.slice(0, recent))}
<text class="end" fill="var(--stop)" x="${width}" y="-7">threshold ${whole(threshold)}</text>
${limitAt(total, threshold, width, 26)}`;
  return { height: 60, content };
}

const NAMES: Names = {
  missing: "system, tools",
  request: "request",
  reply: "replies, calls",
  result: "tool results",
  summary: "summary, last files",
};

function firstOf(trigger: string, compactions: Compaction[]): Compaction {
  const found = compactions.find((compaction) => compaction.trigger === trigger);
  if (!found) throw new Error(`the recorded run has no compaction that a figure shows: ${trigger}`);
  return found;
}

function threeLayers({ compactions, threshold }: Timeline, width: number): Drawing {
  const layer1 = firstOf("micro", compactions);
  const layer2 = firstOf("auto", compactions);
  const layer3 = firstOf("tool", compactions);
  const total = Math.max(...[layer1, layer2, layer3].map(({ before }) => before.tokens));
  const row = (compaction: Compaction, title: string, note: string) => [
    heading(title, whole(compaction.after.tokens), width),
    change({ compaction, total, threshold, width }),
    ...lines([note]),
    space,
  ];
  return stack([
    heading(`A full prompt: ${whole(layer1.before.tokens)} tokens`, "", width),
    fullPrompt({ compaction: layer1, total, threshold, width }),
    legend(NAMES, width),
    space,
    ...row(layer1, "Layer 1: when it’s full", "Old results shrink to a line each. Calls stay."),
    ...row(layer2, "Layer 2: if that’s not enough", "All that was seen becomes a summary."),
    ...row(layer3, "Layer 3: when asked", "Layer 2, when you or the model choose."),
  ]);
}

/** Draws one compaction, and how much of the next prompt is cached, without it and with it. */
function oneLayer({ modelCalls }: Timeline, compaction: Compaction, notes: string[], width: number): Drawing {
  const { before, after, modelCall } = compaction;
  const [last, next] = [modelCalls[modelCall - 1], modelCalls[modelCall]];
  const isCold = (next?.gap ?? 0) > CACHE_LIFE;
  const cached = isCold ? 0 : (last?.tokens ?? 0);
  const say = (tokens: number, read: number) => `${whole(read)} cached, ${whole(tokens - read)} new`;
  const parts = new Set<string>([...segmentsOf(before), ...segmentsOf(after)].map(({ part }) => part));
  const names = Object.fromEntries(Object.entries(NAMES).filter(([part]) => parts.has(part)));
  return stack([
    heading("Before", `${whole(before.tokens)} tokens`, width),
    change({ compaction, total: before.tokens, width }),
    heading("After", `${whole(after.tokens)} tokens`, width),
    legend(names, width),
    space,
    ...lines([
      ...notes,
      `Next call without it: ${say(before.tokens, cached)}.`,
      `Next call with it: ${say(after.tokens, next?.usage?.read ?? 0)}.`,
    ]),
  ]);
}

// --- the bench -------------------------------------------------------------------------------------------------------

/** Draws a bar for each strategy of the main table. On a phone, its name is above it. */
function strategies(results: Results, width: number): Drawing {
  const rows = Object.entries(results.strategies).filter(([name]) => isMain(name));
  const names = width > NARROW ? 210 : 0;
  const scale = (width - names - 150) / Math.max(...rows.map(([, { cost }]) => cost));
  const bars = rows.map(([name, { cost, grounded }]): Drawing => {
    const y = names ? 0 : LINE;
    const bar = html`<rect fill="var(--${name === "s06" ? "request" : "reply"})" x="${names}" y="${y + 2}" width="${cost * scale}" height="18" rx="2"/>`;
    const label = html`<text x="${names + cost * scale + 8}" y="${y + 16}"><tspan class="strong">${cost.toFixed(2)}</tspan> <tspan class="quiet">${percentOfEdits(grounded)}</tspan></text>`;
    return { height: y + 30, content: html`<text y="16">${name}</text>${bar}${label}` };
  });
  return stack([line(html`cost (never compacting: 1), grounded edits`), ...bars]);
}

// --- all of them -----------------------------------------------------------------------------------------------------

function figuresIn(root: string): Record<string, Figure> {
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const demo = readTimeline(read("tools/docs/runs/demo.jsonl"));
  const run = readTimeline(read("tools/docs/runs/s06.jsonl"));
  const results: Results = JSON.parse(read("tools/bench/public.json"));
  const clearing = firstOf("micro", run.compactions);
  const summary = firstOf("auto", run.compactions);
  const cold = firstOf("micro", run.compactions.toReversed());
  const about = ({ before, after }: Compaction) =>
    `The prompt shrinks from ${whole(before.tokens)} to ${whole(after.tokens)} tokens.`;
  const layer = (title: string, compaction: Compaction, ...notes: string[]): Figure => {
    return { title, description: about(compaction), draw: (width) => oneLayer(run, compaction, notes, width) };
  };
  return {
    demo: {
      title: "npm run demo, and which layer made room",
      description: `${demo.modelCalls.length} prompts of up to ${whole(demo.modelCalls[demo.largest]?.tokens ?? 0)} tokens, and ${demo.compactions.length} compactions.`,
      draw: (width) => demoChart(demo, width),
    },
    three_layers: {
      title: "What each layer does to the messages and to the size of the prompt",
      description: demo.compactions.map(about).join(" "),
      draw: (width) => threeLayers(demo, width),
    },
    s06_layer1: layer(
      "Layer 1 clears old results",
      clearing,
      "Old results are a line each now. The newest",
      "three stay, and so does the unseen one.",
    ),
    s06_layer2: layer(
      "Layer 2 puts a summary in the place of messages",
      summary,
      "The model hasn’t seen the long result yet,",
      "so it stays.",
    ),
    s06_cold: layer(
      "Layer 1 after a pause",
      cold,
      "After ten minutes, the cache is empty,",
      "so clearing costs nothing extra.",
    ),
    strategies: {
      title: "What each strategy costs",
      description: "The cost relative to never forgetting, and the share of edits that found their text.",
      draw: (width) => strategies(results, width),
    },
  };
}

/** Returns the files of docs/figures by name, if the project has the recordings that they show. */
export function drawFigures(root: string): Record<string, string> {
  if (!existsSync(join(root, "tools/docs/runs/demo.jsonl"))) return {};
  const files = Object.entries(figuresIn(root)).flatMap(([name, figure]) => [
    [`${name}.svg`, toFile(figure, WIDE)],
    [`${name}.narrow.svg`, toFile(figure, NARROW)],
  ]);
  return Object.fromEntries(files);
}
