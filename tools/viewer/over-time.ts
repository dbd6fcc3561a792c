/** Charts of all model calls, with a slider to move from call to call. */

import { isMissed, type Step, type Timeline, takenBy } from "../trace/timeline.ts";
import { bottomOf, colourOf, drawChart, heightOf, MARGIN, PAID, type View } from "./context-chart.ts";
import { describePrompt } from "./details.ts";
import { type LegendItem, make, makeLegend } from "./elements.ts";
import { nameOfSeries, type Words } from "./languages.ts";

const THUMB = 16; // width of the slider's thumb in pixels
const NEAR_ARROW = 7; // a click within this many pixels selects the compaction

/** Calls `select` when a step is chosen, and draws again when the width changes. */
export function makeOverTime(timeline: Timeline, words: Words, select: (step: Step) => void) {
  const { moments } = timeline;
  const value = make("p");
  const slider = make("input", { type: "range", min: "1", max: `${moments.length}`, ariaLabel: words.request });
  const focus = () => slider.focus({ preventScroll: true });
  const selectAndFocus = (step: Step) => {
    select(step);
    focus(); // the arrow keys continue from here
  };
  const describe = (index: number) => {
    const moment = moments[index];
    const facts = moment ? describePrompt(timeline, moment, words) : "";
    value.textContent = words.named(words.atRequest(index + 1, moments.length), facts);
  };
  const charts = viewsOf(timeline).map((view) => makeChart(timeline, view, words, selectAndFocus, describe));
  const plots = make("div", { className: "cv-plots" }, ...arrange(timeline, charts, slider, words));
  const widthOf = () => Math.max(280, plots.clientWidth);
  const xOf = (index: number) => {
    const space = widthOf() - MARGIN.left - MARGIN.right;
    return MARGIN.left + (space * (index + 0.5)) / moments.length;
  };
  function moveTo(index: number): void {
    for (const { cursor } of charts) cursor.style.left = `${xOf(index)}px`;
    slider.value = `${index + 1}`;
    describe(index);
    slider.ariaValueText = value.textContent;
  }
  function draw(): void {
    for (const chart of charts) chart.draw(widthOf());
    slider.style.marginLeft = `${xOf(0) - THUMB / 2}px`; // keeps the thumb below the cursor
    slider.style.width = `${xOf(moments.length - 1) - xOf(0) + THUMB}px`;
    moveTo(Number(slider.value) - 1);
  }
  const observer = new ResizeObserver(() => (plots.isConnected ? draw() : observer.disconnect()));
  observer.observe(plots);
  slider.addEventListener("input", () => select({ call: Number(slider.value) - 1 }));
  plots.addEventListener("pointerleave", () => describe(Number(slider.value) - 1));
  return { element: make("div", {}, value, plots), moveTo, focus };
}

/** Skips the charts that the file has no numbers for. */
function viewsOf({ moments }: Timeline): View[] {
  const views: View[] = ["context"];
  if (moments.some(({ usage }) => usage)) views.push("cache");
  if (moments.some(({ cost }) => cost)) views.push("cost");
  return views;
}

type Chart = { element: HTMLElement; cursor: HTMLElement; draw: (width: number) => void };

/** A chart that reports which call or compaction is clicked or pointed at. */
function makeChart(
  timeline: Timeline,
  view: View,
  words: Words,
  selectAndFocus: (step: Step) => void,
  describe: (call: number) => void,
): Chart {
  const { moments, compactions } = timeline;
  const element = make("div", { className: "cv-chart" });
  const cursor = make("div", { className: "cv-cursor" });
  cursor.style.height = `${heightOf(view) - MARGIN.top - bottomOf(view)}px`;
  element.style.minHeight = `${heightOf(view)}px`; // reserves the space until it's drawn
  const stepAt = ({ clientX }: MouseEvent): Required<Step> => {
    const { left, width } = element.getBoundingClientRect();
    const each = (width - MARGIN.left - MARGIN.right) / moments.length;
    const place = (clientX - left - MARGIN.left) / each;
    const call = Math.max(0, Math.min(moments.length - 1, Math.floor(place)));
    return { call, compaction: compactions.findIndex(({ moment }) => Math.abs(moment - place) * each < NEAR_ARROW) };
  };
  element.addEventListener("click", (event) => selectAndFocus(stepAt(event)));
  element.addEventListener("pointermove", (event) => describe(stepAt(event).call));
  const draw = (width: number) => {
    element.replaceChildren(drawChart(timeline, { document, width, words, view }), cursor);
  };
  return { element, cursor, draw };
}

/** Puts the slider below the first chart, and a legend below each kind of chart. */
function arrange(timeline: Timeline, charts: Chart[], slider: HTMLElement, words: Words): (Node | string)[] {
  const [context, ...others] = charts.map(({ element }) => element);
  const named = (names: readonly string[]) =>
    names.map((name): LegendItem => ({ colour: colourOf(name, timeline.series), name: nameOfSeries(name, words) }));
  const paid = others.length > 0 ? makeLegend(named(PAID)) : "";
  const kinds = makeLegend([...named(timeline.series), ...signsOf(timeline, words)]);
  return [context ?? "", slider, kinds, ...others, paid];
}

const SIGNS: Record<string, string> = { cold: "◆", request: "▲" };

/** Explains the signs in the context chart. */
function signsOf({ moments, compactions, requests }: Timeline, words: Words): LegendItem[] {
  const names = new Set<string>(compactions.map(takenBy));
  if (moments.some(isMissed)) names.add("cold");
  if (requests.length > 0) names.add("request");
  return [...names].map((name) => ({
    colour: `var(--cv-${name})`,
    name: words.marks[name] ?? "",
    sign: SIGNS[name] ?? "↓",
  }));
}
