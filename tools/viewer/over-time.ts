/** The context over all model calls: charts, and a slider that goes from call to call. */

import { isMissed, type Step, type Timeline, takenBy } from "../trace/timeline.ts";
import { bottomOf, colourOf, drawChart, heightOf, MARGIN, PAID, type View } from "./context-chart.ts";
import { factsOf } from "./details.ts";
import { type Item, make, makeLegend } from "./elements.ts";
import { nameOfSeries, type Words } from "./languages.ts";

const THUMB = 16; // pixels, of the slider
const NEAR = 7; // pixels, to the arrow of a compaction

/** `show`: a model call or a compaction was chosen. It is drawn again whenever its width changes. */
export function makeOverTime(timeline: Timeline, words: Words, show: (step: Step) => void) {
  const { moments } = timeline;
  const value = make("p");
  const slider = make("input", { type: "range", min: "1", max: `${moments.length}`, ariaLabel: words.request });
  const focus = () => slider.focus({ preventScroll: true });
  const choose = (step: Step) => {
    show(step);
    focus(); // the arrow keys go on from here
  };
  const tell = (index: number) => {
    const moment = moments[index];
    const facts = moment ? factsOf(timeline, moment, words) : "";
    value.textContent = words.named(words.atRequest(index + 1, moments.length), facts);
  };
  const charts = viewsOf(timeline).map((view) => makeChart(timeline, view, words, choose, tell));
  const plots = make("div", { className: "cv-plots" }, ...arrange(timeline, charts, slider, words));
  const widthOf = () => Math.max(280, plots.clientWidth);
  const placeOf = (index: number) => {
    const space = widthOf() - MARGIN.left - MARGIN.right;
    return MARGIN.left + (space * (index + 0.5)) / moments.length;
  };
  function moveTo(index: number): void {
    for (const { cursor } of charts) cursor.style.left = `${placeOf(index)}px`;
    slider.value = `${index + 1}`;
    tell(index);
    slider.ariaValueText = value.textContent;
  }
  function draw(): void {
    for (const chart of charts) chart.draw(widthOf());
    slider.style.marginLeft = `${placeOf(0) - THUMB / 2}px`; // the thumb is below the cursor
    slider.style.width = `${placeOf(moments.length - 1) - placeOf(0) + THUMB}px`;
    moveTo(Number(slider.value) - 1);
  }
  const observer = new ResizeObserver(() => (plots.isConnected ? draw() : observer.disconnect()));
  observer.observe(plots);
  slider.addEventListener("input", () => show({ call: Number(slider.value) - 1 }));
  plots.addEventListener("pointerleave", () => tell(Number(slider.value) - 1));
  return { element: make("div", {}, value, plots), moveTo, focus };
}

/** What is known of the model calls can be drawn. */
function viewsOf({ moments }: Timeline): View[] {
  const views: View[] = ["context"];
  if (moments.some(({ usage }) => usage)) views.push("cache");
  if (moments.some(({ cost }) => cost)) views.push("cost");
  return views;
}

type Chart = { element: HTMLElement; cursor: HTMLElement; draw: (width: number) => void };

/** A chart that says which call is clicked or pointed at, or which compaction, where its arrow is near. */
function makeChart(
  timeline: Timeline,
  view: View,
  words: Words,
  choose: (step: Step) => void,
  tell: (call: number) => void,
): Chart {
  const { moments, compactions } = timeline;
  const element = make("div", { className: "cv-chart" });
  const cursor = make("div", { className: "cv-cursor" });
  cursor.style.height = `${heightOf(view) - MARGIN.top - bottomOf(view)}px`;
  element.style.minHeight = `${heightOf(view)}px`; // until it is drawn
  const stepAt = ({ clientX }: MouseEvent): Required<Step> => {
    const { left, width } = element.getBoundingClientRect();
    const each = (width - MARGIN.left - MARGIN.right) / moments.length;
    const place = (clientX - left - MARGIN.left) / each;
    const call = Math.max(0, Math.min(moments.length - 1, Math.floor(place)));
    return { call, compaction: compactions.findIndex(({ moment }) => Math.abs(moment - place) * each < NEAR) };
  };
  element.addEventListener("click", (event) => choose(stepAt(event)));
  element.addEventListener("pointermove", (event) => tell(stepAt(event).call));
  const draw = (width: number) => {
    element.replaceChildren(drawChart(timeline, { document, width, words, view }), cursor);
  };
  return { element, cursor, draw };
}

/** The charts, with the slider below the first, and what their colours and signs mean. */
function arrange(timeline: Timeline, charts: Chart[], slider: HTMLElement, words: Words): (Node | string)[] {
  const [context, ...others] = charts.map(({ element }) => element);
  const named = (names: readonly string[]) =>
    names.map((name): Item => ({ colour: colourOf(name, timeline.series), name: nameOfSeries(name, words) }));
  const paid = others.length > 0 ? makeLegend(named(PAID)) : "";
  const kinds = makeLegend([...named(timeline.series), ...signsOf(timeline, words)]);
  return [context ?? "", slider, kinds, ...others, paid];
}

const SIGNS: Record<string, string> = { cold: "◆", request: "▲" };

/** What the signs in the chart of the context mean. */
function signsOf({ moments, compactions, requests }: Timeline, words: Words): Item[] {
  const names = new Set<string>(compactions.map(takenBy));
  if (moments.some(isMissed)) names.add("cold");
  if (requests.length > 0) names.add("request");
  return [...names].map((name) => ({
    colour: `var(--cv-${name})`,
    name: words.marks[name] ?? "",
    sign: SIGNS[name] ?? "↓",
  }));
}
