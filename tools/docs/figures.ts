/** Draws the figures of the pages from the recorded runs, each for a wide window and for a phone. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CHANGE_HEIGHT, drawBar, drawChange, spansOf } from "../draw/bar.ts";
import { CHART_HEIGHT, type Chart, drawChart, MARGIN } from "../draw/chart.ts";
import { html, type Markup } from "../draw/markup.ts";
import { PARTS, type Part, type Segment, STYLE, segmentsOf, sizesOf } from "../draw/parts.ts";
import { whole } from "../sessions/numbers.ts";
import { readTimeline } from "../sessions/read-timeline.ts";
import type { Compaction, Timeline } from "../sessions/timeline.ts";
import { answersFor } from "../viewer/answers.ts";
import { nameOfTrigger } from "../viewer/words.ts";

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

// --- two runs, call by call ------------------------------------------------------------------------------------------

const WINDOW = 32_000; // tokens, of the demo

/** Puts a chart beside the labels of its axis. */
function framed(chart: Chart, width: number, more?: Markup): Drawing {
  const inside = width - MARGIN.left - MARGIN.right;
  const content = html`<svg x="${MARGIN.left}" width="${inside}" height="${CHART_HEIGHT}" overflow="visible">${drawChart(chart)}${more}</svg>`;
  return { height: CHART_HEIGHT + 6, content };
}

/** s06's layers by the trigger of a compaction. */
const LAYERS: Record<string, string> = { micro: "1", auto: "2", tool: "3", manual: "3" };

/** Draws the prompts of s06 as an area, and those of s05 as a line up to the one that didn't fit. */
function twoRuns(s05: Timeline, s06: Timeline, width: number): Drawing {
  const columns = s06.modelCalls.map(({ tokens }) => ({ sizes: { result: tokens } }));
  const marks = s06.compactions.map(({ modelCall, trigger }) => ({ after: modelCall, label: LAYERS[trigger] ?? "" }));
  const other = { tokens: s05.modelCalls.map(({ tokens }) => tokens), end: "s05 ends here" };
  const ends: Chart["ends"] = ["call 1", `call ${columns.length}`];
  const chart = { columns, marks, other, threshold: s06.threshold, window: WINDOW, ends };
  const name = html`<text class="middle inside" x="50%" y="${CHART_HEIGHT - 34}">s06 reads all the files</text>`;
  const limits = html`- - window: ${whole(WINDOW)} tokens, threshold: ${whole(s06.threshold ?? 0)}`;
  const numbers = html`<tspan class="strong">1</tspan> cleared, <tspan class="strong">2</tspan> summarized, <tspan class="strong">3</tspan> summarized on request`;
  return stack([framed(chart, width, name), line(limits), line(numbers)]);
}

// --- what a compaction does ------------------------------------------------------------------------------------------

type Shown = { compaction: Compaction; total: number; threshold?: number; width: number };

const limitAt = (total: number, threshold: number, width: number, height: number) => {
  const x = (threshold * width) / total;
  return html`<line class="threshold" x1="${x}" x2="${x}" y1="-2" y2="${height + 2}"/>`;
};

/** Returns where the unseen part begins, in pixels: the last calls, whose results no reply has followed. */
function startOfUnseen(segments: Segment[], total: number, width: number): number {
  const spans = spansOf(segments);
  const result = spans.findLastIndex(({ segment }) => segment.part === "result");
  const seen = spans.findLast(({ segment }, i) => i < result && segment.part !== "reply");
  return ((seen?.to ?? 0) * width) / total;
}

/** Draws the line between what the model has seen and what it hasn't. */
const seenLine = (x: number, y: number) => html`<line class="seen" x1="${x}" x2="${x}" y1="${y - 5}" y2="${y + 31}"/>`;

/** Draws both bars of a compaction, and the tokens that are free after it. */
function change({ compaction, total, threshold = 0, width }: Shown): Drawing {
  const [before, after] = [segmentsOf(compaction.before), segmentsOf(compaction.after)];
  const left = (width * compaction.after.tokens) / total;
  const freed = `−${whole(compaction.before.tokens - compaction.after.tokens)}`;
  const content = html`${drawChange({ before, after, total })}
<text class="quiet middle" x="${(left + width) / 2}" y="${CHANGE_HEIGHT - 8}">${freed}</text>
${limitAt(total, threshold, width, CHANGE_HEIGHT)}
${seenLine(startOfUnseen(after, total, width), CHANGE_HEIGHT - 26)}`;
  return { height: CHANGE_HEIGHT + 4, content };
}

/** Draws a full prompt. */
function fullPrompt({ compaction, total, threshold = 0, width }: Shown): Drawing {
  const segments = segmentsOf(compaction.before);
  const x = startOfUnseen(segments, total, width);
  const content = html`${drawBar({ segments, total, height: 26 })}
<text class="middle" x="${x / 2}" y="46">seen by the model</text>
<text class="end" x="${width}" y="46">not yet</text>
<text class="end" x="${width}" y="-7">threshold ${whole(threshold)}</text>
${limitAt(total, threshold, width, 26)}
${seenLine(x, 0)}`;
  return { height: 56, content };
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

// --- the viewer's page -----------------------------------------------------------------------------------------------

const SELECTED = 3; // the compaction that is shown as bars

/** Draws what the viewer shows of a run: its answers, the chart of all calls, and a compaction. */
function viewerPage(run: Timeline, width: number): Drawing {
  const answers = answersFor(run, (_, text) => html`${text}`);
  const columns = run.modelCalls.map((call) => ({ sizes: sizesOf(call) }));
  const marks = run.compactions.map(({ modelCall }, i) => ({ after: modelCall, label: `${i + 1}` }));
  const ends: Chart["ends"] = ["call 1", `call ${columns.length}`];
  const chart = framed({ columns, marks, threshold: run.threshold, ends }, width);
  const shown = run.compactions.slice(SELECTED, SELECTED + 1).flatMap(({ before, after, trigger }) => {
    const bars = drawChange({ before: segmentsOf(before), after: segmentsOf(after), total: before.tokens });
    const title = `Compaction ${SELECTED + 1} of ${marks.length}`;
    return [heading(title, nameOfTrigger(trigger), width), { height: CHANGE_HEIGHT, content: bars }];
  });
  return stack([
    ...answers.map(({ about, figure }) => heading(about, figure, width)),
    space,
    heading("The tokens of each prompt", "", width),
    chart,
    legend(PARTS, width),
    space,
    ...shown,
  ]);
}

// --- all of them -----------------------------------------------------------------------------------------------------

function figuresIn(root: string): Record<string, Figure> {
  const read = (name: string) => readTimeline(readFileSync(join(root, `tools/docs/runs/${name}.jsonl`), "utf8"));
  const [s05, s06] = [read("demo_s05"), read("demo")];
  const largest = (run: Timeline) => whole(run.modelCalls[run.largest]?.tokens ?? 0);
  const about = ({ before, after }: Compaction) =>
    `The prompt shrinks from ${whole(before.tokens)} to ${whole(after.tokens)} tokens.`;
  return {
    s05_s06: {
      title: "The size of each prompt of s05 and s06, at the same task in the same window",
      description: `s05: ${s05.modelCalls.length} prompts of up to ${largest(s05)} tokens, then one that is too long. s06: ${s06.modelCalls.length} prompts of up to ${largest(s06)} tokens, and ${s06.compactions.length} compactions.`,
      draw: (width) => twoRuns(s05, s06, width),
    },
    viewer: {
      title: "What the viewer shows of a run of s06",
      description: `The largest of ${s06.modelCalls.length} prompts has ${largest(s06)} tokens. A chart shows all of them and ${s06.compactions.length} compactions, and below it one compaction as two bars.`,
      draw: (width) => viewerPage(s06, width),
    },
    s06_layers: {
      title: "What each layer leaves of a prompt",
      description: s06.compactions.map(about).join(" "),
      draw: (width) => threeLayers(s06, width),
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
