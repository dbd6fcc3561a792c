/** The context over all model calls: charts, and a slider that goes from call to call. */
import { colourOf, drawChart, drawnCompactions, MARGIN, PAID, type View } from "./context-chart.ts";
import { make, makeLegend, makeSvg } from "./elements.ts";
import { nameOfSeries, type Words } from "./languages.ts";
import type { Compaction, Timeline } from "./timeline.ts";

const THUMB = 16; // pixels, as in style.css

/** `show`: a model call or a compaction was chosen. It is drawn again whenever its width changes. */
export function makeOverTime(timeline: Timeline, words: Words, show: (chosen: number | Compaction) => void) {
  const { moments, compactions } = timeline;
  const all: View[] = ["context", "cache", "cost"];
  const isKnown = { context: true, cache: moments.some(({ usage }) => usage), cost: moments.some(({ cost }) => cost) };
  const views = all.filter((view) => isKnown[view]);
  const heightOf = (view: View) => (view === "context" ? 300 : 110);
  const charts = views.map((view) => {
    const chart = make("div", { className: "cv-chart" });
    chart.style.minHeight = `${heightOf(view)}px`; // until it is drawn
    return chart;
  });
  const value = make("p", { className: "cv-value" });
  const plots = make("div", { className: "cv-plots" });
  const slider = make("input", { type: "range", min: "1", max: `${moments.length}`, ariaLabel: words.request });
  const focus = () => slider.focus({ preventScroll: true });
  const placeOf = (index: number) => {
    const space = Math.max(280, plots.clientWidth) - MARGIN.left - MARGIN.right;
    return MARGIN.left + (space * (index + 0.5)) / moments.length;
  };
  const tell = (index: number) => {
    value.textContent = words.at(timeline, Math.max(0, Math.min(moments.length - 1, index)));
  };

  function moveTo(index: number): void {
    for (const line of plots.querySelectorAll(".cv-cursor"))
      line.setAttribute("transform", `translate(${placeOf(index)})`);
    slider.value = `${index + 1}`;
    tell(index);
    slider.ariaValueText = value.textContent;
  }
  function draw(): void {
    const width = Math.max(280, plots.clientWidth);
    for (const [i, view] of views.entries()) {
      const height = heightOf(view);
      const chart = drawChart(timeline, { document, width, height, words, view });
      const bottom = height - (view === "context" ? 38 : 8);
      const line = makeSvg("line", { class: "cv-cursor", y1: MARGIN.top, y2: bottom });
      chart.insertBefore(line, chart.querySelector(".cv-label")); // which stays readable
      const y = chart.scale("y");
      for (const compaction of view === "context" ? drawnCompactions(timeline, width) : []) {
        const at = compactions.indexOf(compaction);
        const x = placeOf(compaction.moment - 0.5);
        const ends = { x1: x, x2: x, y1: y?.apply(compaction.before.tokens), y2: y?.apply(compaction.after.tokens) };
        const title = makeSvg("title", {}, document.createTextNode(words.took(compaction, moments.length)));
        chart.append(makeSvg("line", { ...ends, class: "cv-arrow", "data-compaction": at }, title));
      }
      charts[i]?.replaceChildren(chart);
    }
    slider.style.marginLeft = `${placeOf(0) - THUMB / 2}px`; // the thumb is below the cursor
    slider.style.width = `${placeOf(moments.length - 1) - placeOf(0) + THUMB}px`;
    moveTo(Number(slider.value) - 1);
  }
  const observer = new ResizeObserver(() => (plots.isConnected ? draw() : observer.disconnect()));
  observer.observe(plots);
  slider.addEventListener("input", () => show(Number(slider.value) - 1));
  const pick = ({ clientX, buttons, target, type }: PointerEvent) => {
    if (target === slider) return; // it moves by itself
    const { left, width } = plots.getBoundingClientRect();
    const share = (clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
    const index = Math.floor(share * moments.length);
    const compaction = target instanceof SVGElement ? compactions[Number(target.dataset.compaction)] : undefined;
    if (buttons !== 1) tell(index);
    else if (type === "pointerdown" || !compaction) show((type === "pointerdown" && compaction) || index);
  };
  plots.addEventListener("pointerdown", pick);
  plots.addEventListener("pointermove", pick);
  plots.addEventListener("mousedown", (event) => {
    if (event.target === slider) return;
    event.preventDefault(); // which would take the focus away, and the arrow keys with it
    focus();
  });
  plots.addEventListener("pointerleave", () => tell(Number(slider.value) - 1));
  const named = (names: readonly string[]) =>
    makeLegend(names.map((name) => ({ colour: colourOf(name, timeline.series), name: nameOfSeries(name, words) })));
  const paid = isKnown.cost ? PAID : PAID.slice(0, 3);
  const [context, ...others] = charts;
  if (context) plots.append(context, slider, named(timeline.series));
  if (others.length > 0) plots.append(...others, named(paid));
  return { element: make("div", {}, value, plots), moveTo, focus };
}
