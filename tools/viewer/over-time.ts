/** Charts of all model calls, with a slider to move from call to call. */
import { fateOfTaken, isMissed, type Step, type Timeline } from "../trace/timeline.ts";
import type { ChartOptions, View } from "./context-chart.ts";
import { bandsOf, bottomOf, drawChart, heightOf, layerAt, MARGIN } from "./context-chart.ts";
import { describePrompt } from "./details.ts";
import { type LegendItem, make, makeButton, makeLegend } from "./elements.ts";
import { dollars, facts } from "./format.ts";
import type { Words } from "./languages.ts";
import type { Place, Range } from "./reader.ts";

const THUMB = 16; // width of the slider's thumb in pixels
const NEAR_ARROW = 7; // a click within this many pixels selects the compaction
const LEAST_DRAG = 8; // a shorter drag is a click

/** Calls `select` when a step is chosen, and draws again when the width or the range changes. */
export function makeOverTime(timeline: Timeline, words: Words, place: Place, select: (step: Step) => void) {
  const last = timeline.modelCalls.length - 1;
  const hint = make("span", { className: "cv-hint" }, words.chartHint);
  const value = make("p", { className: "cv-value" }, hint);
  const slider = make("input", { type: "range", ariaLabel: words.request });
  const focus = () => slider.focus({ preventScroll: true });
  const charts = viewsOf(timeline).map((view) => makeChart(timeline, view, place, { inspect, selectAndFocus, zoom }));
  const drawn = charts.map(({ element }) => element);
  const plots = make("div", { className: "cv-plots" }, ...arrange(timeline, drawn, slider, words));
  const zoomOut = makeButton(() => zoom(), words.zoomOut);
  const widthOf = () => Math.max(280, plots.clientWidth);
  const textAt = (call: number) => describePrompt(timeline, call, words);
  let selected = 0;

  function selectAndFocus(step: Step): void {
    select(step);
    focus(); // the arrow keys continue from here
  }
  function zoom(range?: Range): void {
    place.range = range;
    if (range && (selected < range.from || selected > range.to)) select({ call: range.from });
    draw();
  }
  /** Names what the pointer is at, and marks its layer in the legends. */
  function inspect(view?: View, call = 0, height = 0): void {
    const layer = view && layerAt(timeline, view, call, height, words);
    const amount = view === "cost" ? dollars(layer?.amount) : words.tokens(layer?.amount ?? 0);
    const name = layer && words.named(layer.name, amount);
    const text = words.named(words.diagnosis.call(call + 1), facts(name, textAt(call)));
    value.replaceChildren(view ? text : hint);
    for (const item of plots.querySelectorAll<HTMLElement>("[data-band]"))
      item.classList.toggle("cv-marked", item.dataset.band === layer?.id);
  }
  function xOf(call: number): number {
    const space = widthOf() - MARGIN.left - MARGIN.right;
    const range = shownRange(timeline, place);
    return MARGIN.left + (space * (call - range.from + 0.5)) / countCalls(range);
  }
  /** Moves the range along if the call is outside it. */
  function moveTo(call: number): void {
    const { from, to } = shownRange(timeline, place);
    const shift = Math.min(0, call - from) + Math.max(0, call - to);
    selected = call;
    if (shift !== 0) zoom({ from: from + shift, to: to + shift });
    for (const { cursor } of charts) cursor.style.left = `${xOf(call)}px`;
    slider.value = `${call + 1}`;
    slider.ariaValueText = words.named(words.atRequest(call + 1, last + 1), textAt(call));
  }
  function draw(): void {
    const { from, to } = shownRange(timeline, place);
    const inRange = sliceCalls(timeline, { from, to });
    for (const chart of charts) chart.draw(inRange, { document, width: widthOf(), words, before: from });
    Object.assign(slider, { min: `${from + 1}`, max: `${to + 1}` });
    slider.style.marginLeft = `${xOf(from) - THUMB / 2}px`; // keeps the thumb below the cursor
    slider.style.width = `${xOf(to) - xOf(from) + THUMB}px`;
    zoomOut.hidden = !place.range;
    moveTo(selected);
  }
  const observer = new ResizeObserver(() => (plots.isConnected ? draw() : observer.disconnect()));
  observer.observe(plots);
  slider.addEventListener("input", () => select({ call: Number(slider.value) - 1 }));
  plots.addEventListener("pointerleave", () => inspect());
  return { element: make("div", {}, make("div", { className: "cv-tools" }, value, zoomOut), plots), moveTo, focus };
}

/** Skips the charts that the file has no numbers for. */
function viewsOf({ modelCalls }: Timeline): View[] {
  const views: View[] = ["context"];
  if (modelCalls.some(({ usage }) => usage)) views.push("cache");
  if (modelCalls.some(({ cost }) => cost)) views.push("cost");
  return views;
}

const shownRange = ({ modelCalls }: Timeline, { range }: Place): Range =>
  range ?? { from: 0, to: modelCalls.length - 1 };
const countCalls = ({ from, to }: Range) => to - from + 1;

/** The part of a timeline that a zoomed chart shows. */
function sliceCalls(timeline: Timeline, { from, to }: Range): Timeline {
  const clip = <Sign extends { modelCall: number }>(signs: Sign[]) => {
    const inRange = signs.filter(({ modelCall }) => modelCall >= from && modelCall <= to + 1);
    return inRange.map((sign) => ({ ...sign, modelCall: sign.modelCall - from }));
  };
  const modelCalls = timeline.modelCalls.slice(from, to + 1);
  return { ...timeline, modelCalls, compactions: clip(timeline.compactions), requests: clip(timeline.requests) };
}

type ChartHandlers = {
  inspect: (view: View, call: number, height: number) => void;
  selectAndFocus: (step: Step) => void;
  zoom: (range: Range) => void;
};

/** A chart that reports what the pointer is at, what is clicked and which calls a drag covers. */
function makeChart(timeline: Timeline, view: View, place: Place, { inspect, selectAndFocus, zoom }: ChartHandlers) {
  const { compactions } = timeline;
  const cursor = make("div", { className: "cv-cursor" });
  const dragged = make("div", { className: "cv-dragged", hidden: true });
  const element = make("div", { className: "cv-chart" }, cursor, dragged);
  let chart: ReturnType<typeof drawChart> | undefined;
  let start = Number.NaN;
  for (const { style } of [cursor, dragged]) style.height = `${heightOf(view) - MARGIN.top - bottomOf(view)}px`;
  element.style.minHeight = `${heightOf(view)}px`; // reserves the space until it's drawn
  const isDrag = (clientX: number) => Math.abs(clientX - start) >= LEAST_DRAG;
  const stepAt = (clientX: number): Required<Step> => {
    const { from, to } = shownRange(timeline, place);
    const { left, width } = element.getBoundingClientRect();
    const each = (width - MARGIN.left - MARGIN.right) / countCalls({ from, to });
    const at = from + (clientX - left - MARGIN.left) / each;
    const call = Math.max(from, Math.min(to, Math.floor(at)));
    return { call, compaction: compactions.findIndex(({ modelCall }) => Math.abs(modelCall - at) * each < NEAR_ARROW) };
  };
  element.addEventListener("pointerdown", ({ clientX }) => {
    start = clientX;
  });
  element.addEventListener("pointermove", ({ clientX, clientY, buttons }) => {
    const { left, top } = element.getBoundingClientRect();
    inspect(view, stepAt(clientX).call, Number(chart?.scale("y")?.invert?.(clientY - top)));
    dragged.hidden = buttons === 0 || !isDrag(clientX);
    dragged.style.left = `${Math.min(start, clientX) - left}px`;
    dragged.style.width = `${Math.abs(start - clientX)}px`;
  });
  element.addEventListener("pointerup", ({ clientX }) => {
    const [from = 0, to = 0] = [stepAt(start).call, stepAt(clientX).call].sort((a, b) => a - b);
    dragged.hidden = true;
    if (isDrag(clientX)) zoom({ from, to });
  });
  element.addEventListener("click", ({ clientX }) => {
    if (!isDrag(clientX)) selectAndFocus(stepAt(clientX));
  });
  const draw = (inRange: Timeline, options: ChartOptions) => {
    chart = drawChart(inRange, { ...options, view });
    const labels = chart.cloneNode() as Element; // a layer above the cursor
    labels.setAttribute("aria-hidden", "true");
    labels.append(...chart.querySelectorAll("g[paint-order]"));
    element.replaceChildren(chart, cursor, dragged, labels);
  };
  return { element, cursor, draw };
}

/** Puts the slider below the first chart, and a legend below each kind of chart. */
function arrange(timeline: Timeline, charts: Element[], slider: Element, words: Words): (Element | string)[] {
  const [context, ...others] = charts;
  const paid = others.length > 0 ? makeLegend(bandsOf(timeline, "cost", words)) : "";
  const kinds = makeLegend([...bandsOf(timeline, "context", words), ...signsOf(timeline, words)]);
  return [context ?? "", slider, kinds, ...others, paid];
}

const SIGNS: Record<string, string> = { cold: "◆", request: "▲" };

/** Explains the signs in the context chart. */
function signsOf({ modelCalls, compactions, requests }: Timeline, words: Words): LegendItem[] {
  const names = new Set<string>(compactions.map(fateOfTaken));
  if (modelCalls.some(isMissed)) names.add("cold");
  if (requests.length > 0) names.add("request");
  return [...names].map((name) => {
    return { colour: `var(--cv-${name})`, name: words.marks[name] ?? "", sign: SIGNS[name] ?? "↓" };
  });
}
