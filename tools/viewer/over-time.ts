/** Charts of all model calls, with a slider to move from call to call. */
import type { Timeline } from "../trace/timeline.ts";
import type { Selection } from "./address.ts";
import { bottomOf, type ChartOptions, drawChart, heightOf, MARGIN, type View } from "./context-chart.ts";
import { describePrompt } from "./details.ts";
import { make } from "./elements.ts";
import type { Words } from "./languages.ts";

const THUMB = 16; // width of the slider's thumb in pixels
const NEAR_ARROW = 7; // a click within this many pixels selects the compaction

type Handlers = {
  select: (step: Selection) => void;
  /** Moves the selection with the slider. `isFirst` says that a drag or a press of a key begins. */
  slide: (call: number, isFirst: boolean) => void;
};

export function makeOverTime(timeline: Timeline, words: Words, { select, slide }: Handlers) {
  const calls = timeline.modelCalls.length;
  const slider = make("input", { type: "range", min: "1", max: `${calls}`, ariaLabel: words.request });
  const isPriced = timeline.modelCalls.some(({ cost }) => cost);
  const charts = (isPriced ? (["context", "cost"] as const) : (["context"] as const)).map((view) => {
    return makeChart(timeline, view, (step) => {
      select(step);
      slider.focus({ preventScroll: true }); // the arrow keys continue from here
    });
  });
  const element = make("div", { className: "cv-plots" }, ...charts.map((chart) => chart.element), slider);
  const widthOf = () => Math.max(280, element.clientWidth);
  let selected = 0;
  let isSliding = false;

  const xOf = (call: number) => MARGIN.left + ((widthOf() - MARGIN.left - MARGIN.right) * (call + 0.5)) / calls;
  function moveTo(call: number): void {
    selected = call;
    for (const { cursor } of charts) cursor.style.left = `${xOf(call)}px`;
    slider.value = `${call + 1}`;
    slider.ariaValueText = words.named(words.atRequest(call + 1, calls), describePrompt(timeline, call, words));
  }
  function draw(): void {
    for (const chart of charts) chart.draw({ document, width: widthOf(), words });
    slider.style.marginLeft = `${xOf(0) - THUMB / 2}px`; // keeps the thumb below the cursor
    slider.style.width = `${xOf(calls - 1) - xOf(0) + THUMB}px`;
    moveTo(selected);
  }
  const observer = new ResizeObserver(() => (element.isConnected ? draw() : observer.disconnect()));
  observer.observe(element);
  slider.addEventListener("input", () => {
    slide(Number(slider.value) - 1, !isSliding);
    isSliding = true;
  });
  for (const end of ["pointerup", "keyup", "blur"] as const)
    slider.addEventListener(end, () => {
      isSliding = false;
    });
  return { element, moveTo };
}

/** A chart in which a click selects a model call, or a compaction near its arrow. */
function makeChart(timeline: Timeline, view: View, select: (step: Selection) => void) {
  const { modelCalls, compactions } = timeline;
  const cursor = make("div", { className: "cv-cursor" });
  const element = make("div", { className: "cv-chart" }, cursor);
  cursor.style.height = `${heightOf(view) - MARGIN.top - bottomOf(view)}px`;
  element.style.minHeight = `${heightOf(view)}px`; // reserves the space until it's drawn
  element.addEventListener("click", ({ clientX }) => {
    const { left, width } = element.getBoundingClientRect();
    const each = (width - MARGIN.left - MARGIN.right) / modelCalls.length;
    const at = (clientX - left - MARGIN.left) / each;
    const compaction = compactions.findIndex(({ modelCall }) => Math.abs(modelCall - at) * each < NEAR_ARROW);
    const call = Math.max(0, Math.min(modelCalls.length - 1, Math.floor(at)));
    select(compaction < 0 ? { call } : { compaction });
  });
  const draw = (options: ChartOptions) => {
    const chart = drawChart(timeline, { ...options, view });
    const labels = chart.cloneNode() as Element; // a layer above the cursor
    labels.setAttribute("aria-hidden", "true");
    labels.append(...chart.querySelectorAll("g[paint-order]"));
    element.replaceChildren(chart, cursor, labels);
  };
  return { element, cursor, draw };
}
