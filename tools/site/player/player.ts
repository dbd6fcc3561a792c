/** Writes the HTML of a recorded run: the script, the size of the prompt, the messages and the controls, for all steps. */
import { lineNamed } from "../../lesson/lines.ts";
import type { Lesson } from "../../lesson/source.ts";
import type { Block } from "../../trace/timeline.ts";
import { type Highlight, highlightLines, indentOf, lessonCalled } from "../.vitepress/code.ts";
import { number, words } from "../.vitepress/words.ts";
import type { Run } from "./run.ts";
import { SECTIONS } from "./sections.ts";
import { type Item, type Request, type Step, stepsOf } from "./steps.ts";

type Labels = ReturnType<typeof words>["player"];
const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** Returns a player with the whole script, or for the front page, with only the loop and a caption. */
export function player(name: string, prefix: string, highlight: Highlight, isWhole: boolean): string {
  const lesson = lessonCalled(name);
  const labels = words(prefix).player;
  const { run, steps, items } = stepsOf(lesson, prefix);
  const { file } = lesson;
  const { says, inside, code = "", request } = steps[0] as Step;
  const span = widestPrompt(run);
  const link = `<a href="${prefix && "../"}source/${file}.html">${file}</a>`;
  const follow = `<button type="button" class="follow" data-do="follow" hidden>${labels.follow}</button>`;
  return `<section id="run" class="player vp-raw" v-pre aria-label="${labels.title(name)}" data-steps="${escaped(JSON.stringify(steps))}">
<p class="head"><span>${isWhole ? link : `${labels.recorded} ·`} <code class="inside">${inside}</code></span> ${isWhole ? follow : ""}</p>
${scriptPane(lesson, highlight, isWhole)}
<p class="says" aria-live="polite"><span>${says}</span> <code>${escaped(code)}</code></p>
${requestPane(run, span, request, labels)}
<ol class="messages" tabindex="0" aria-label="messages">${items.map((item) => showItem(item, labels)).join("")}</ol>
${controlPane(steps, run.threshold, span, labels)}
</section>`;
}

const TALL = 16; // lines of a loop that is shown whole
const PART = 6; // lines that a longer loop shows

function scriptPane(lesson: Lesson, highlight: Highlight, isWhole: boolean): string {
  const start = lineNamed("start", lesson);
  const end = lesson.lines.indexOf("}", start);
  const lines = highlightLines(lesson, highlight).map(
    (line, i) => `<span class="line" data-line=${i} ${indentOf(lesson.lines[i])}>${line}</span>`,
  );
  const rest = (part: string[]) => (isWhole ? `<span class="rest">${part.join("")}</span>` : "");
  const loop = `<span class="loop" style="counter-set: line ${start}">${lines.slice(start, end + 1).join("")}</span>`;
  const height = end - start < TALL ? end - start + 1 : PART;
  return `<pre class="script numbered vp-code" style="--lines: ${height}" tabindex="0" aria-label="${lesson.file}"><code>${rest(lines.slice(0, start))}${loop}${rest(lines.slice(end + 1))}</code></pre>`;
}

/** Returns the tokens that the whole width of the bar, or the height of a column, stands for. */
function widestPrompt({ threshold, calls }: Run): number {
  const sizes = calls.flatMap(({ modelCall, compactions }) => [
    modelCall.tokens,
    ...compactions.map(({ compaction }) => compaction.before.tokens),
  ]);
  return 1.05 * Math.max(threshold, ...sizes);
}

/** A lesson without a threshold has no bar. */
function requestPane({ threshold, calls }: Run, span: number, request: Request, labels: Labels): string {
  const { label, read, fresh, cache } = request;
  const isCached = calls.some(({ modelCall }) => modelCall.usage?.read);
  const count = (name: string, text: string) => `<span><i class="${name}"></i> ${text}</span>`;
  return `<div class="request" data-span="${span}" data-unit="${labels.unit}">
<p><b class="label">${label}</b> <b class="total">${number(read + fresh)} ${labels.unit}</b> <span class="cache">${cache}</span></p>
<div class="meter"${threshold ? "" : " hidden"}><i class="read" style="width: ${(100 * read) / span}%"></i><i class="fresh" style="width: ${(100 * fresh) / span}%"></i><i class="before"></i><i class="threshold" style="left: ${(100 * threshold) / span}%"></i></div>
<p class="counts"${isCached ? "" : " hidden"}>${count("read", `${labels.read} <b>${number(read)}</b>`)}${count("fresh", `${labels.fresh} <b>${number(fresh)}</b>`)}${threshold ? count("threshold", labels.threshold(threshold)) : "<span></span>"}</p>
</div>`;
}

const APART = 0.07; // of the slider, the least distance between two texts
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** Returns the texts below the slider by step: the tokens of each model call, where they fit. */
function markTexts(steps: Step[]): Map<number, string> {
  const texts = new Map<number, string>();
  let next = 0;
  for (const [i, { mark, request }] of steps.entries()) {
    const isBesideLayer = Number(steps[i - 1]?.mark) || Number(steps[i + 1]?.mark);
    if (mark !== "round" || i < next || isBesideLayer) continue;
    texts.set(i, compact.format(request.read + request.fresh));
    next = i + APART * steps.length;
  }
  return texts;
}

/** Each model call has a column above the slider and its tokens below. A full column stands for `span` tokens. */
function controlPane(steps: Step[], threshold: number, span: number, labels: Labels): string {
  const button = (name: "previous" | "next", sign: string) =>
    `<button type="button" data-do="${name}" title="${labels[name]}" aria-label="${labels[name]}">${sign}</button>`;
  const icon = (mark: string, style = "", text = "") =>
    `<i class="${Number(mark) ? "layer" : mark}" ${style}>${Number(mark) || text}</i>`;
  const share = (tokens: number) => `${Math.round((100 * tokens) / span)}%`;
  const last = steps.length - 1;
  const texts = markTexts(steps);
  const marks = steps.map(({ mark }, i) => (mark ? icon(mark, `style="--at: ${i / last}"`, texts.get(i)) : ""));
  const columns = steps.map(({ mark, request: { read, fresh } }, i) =>
    mark === "round" ? `<i style="--at: ${i / last}; --old: ${share(read)}; --all: ${share(read + fresh)}"></i>` : "",
  );
  const isCached = steps.some(({ mark, request }) => mark === "round" && request.read > 0);
  const kinds = new Set<string>(isCached ? ["fresh", "read"] : ["round"]);
  if (threshold) kinds.add("threshold");
  for (const { mark } of steps) if (mark && mark !== "round") kinds.add(mark);
  const legend = [...kinds].map((kind) => `<span>${icon(kind)} ${labels.marks[kind] ?? kind}</span>`);
  return `<div class="controls">
${button("previous", "‹")}${button("next", "›")}<button type="button" class="play" data-do="play" data-play="${labels.play}" data-pause="${labels.pause}">${labels.play}</button>
<div class="slide"><span class="chart" aria-hidden="true" style="--at: ${threshold ? share(threshold) : "200%"}">${columns.join("")}</span><input type="range" min="0" max="${last}" value="0" aria-label="${labels.step}"><span class="marks" aria-hidden="true">${marks.join("")}</span></div>
<span class="count">1 / ${steps.length}</span>
<p class="legend" aria-hidden="true">${legend.join("")}</p>
</div>`;
}

function showItem(item: Item, labels: Labels): string {
  const { message, says = "", code, child, at, arrived, sent, struck, until, brief } = item;
  const from = at[0] ?? arrived;
  const last = Math.max(arrived, ...at);
  const kind = message?.role ?? "event";
  const states = { child, brief, later: from > 0 };
  const classes = Object.entries(states).flatMap(([name, is]) => (is ? name : []));
  const blocks = message?.blocks.map((block, i) => showBlock(block, at[i] ?? from, labels)).join("");
  return `<li class="${[kind, ...classes].join(" ")}" ${data({ from, in: arrived, last, sent, struck, until })}>${message ? `<b>${kind}</b>${blocks}` : says}${code ? ` <code>${escaped(code)}</code>` : ""}</li>`;
}

const data = (steps: Record<string, number | undefined>) =>
  Object.entries(steps)
    .flatMap(([name, step]) => (step === undefined ? [] : `data-${name}="${step}"`))
    .join(" ");

const LINES = 6; // of a block
const NOTE_LINES = 12; // of what the program itself wrote, enough for a whole summary
const WIDTH = 240; // characters of a line

function showBlock({ kind, tool, text, original }: Block, from: number, labels: Labels): string {
  const isNote = /^(client|summary|file)$/.test(kind);
  const lines = text.trimEnd().split("\n");
  const shown = lines.slice(0, isNote ? NOTE_LINES : LINES);
  const cut = shown.map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH)} …` : line)).join("\n");
  const rest = lines.length > shown.length ? `<i>${labels.more(lines.length - shown.length)}</i>` : "";
  const name = kind === "client" && text.startsWith("<reminder>") ? "reminder" : kind;
  const label = `<span>${labels.kinds[name]}</span>${kind === "call" ? ` <code>${tool}</code>` : ""}`;
  const classes = `block ${isNote ? "note" : kind}${original === undefined ? "" : " cleared"}`;
  return `<div class="${classes}" data-from="${from}"><small>${label}</small><pre>${escaped(cut)}</pre>${rest}</div>`;
}

/** Returns the step or the lines that `SECTIONS` names for a section, if any. Throws if the run or the script lacks them. */
export function placeOf(name: string, section: string): { at?: number; lines?: string } {
  const wanted = SECTIONS[name]?.[section];
  if (wanted === undefined) return {};
  const [, text] = /^line: (.*)$/.exec(wanted) ?? [];
  const [, step, number = "1"] = /^(.*?)(?: (\d+))?$/.exec(wanted) ?? [];
  const lesson = lessonCalled(name);
  const places = stepsOf(lesson, "").steps.flatMap((each, i) => (each.name === step ? [i] : []));
  const at = places[Number(number) - 1];
  const line = lesson.lines.findIndex((each) => text && each.includes(text)) + 1;
  if (at === undefined && line === 0) throw new Error(`${name} has no "${wanted}", which is that of ${section}`);
  return at === undefined ? { lines: `${line}-${line}` } : { at };
}
