/** The viewer: opens a session and shows its context over time, at a model call and at a compaction. */
import { colourOf, colourRules, costOf, drawChart, MARGIN, type View } from "./chart.ts";
import { make, makeList, makeStrip, makeText, type Shown, type Strip } from "./elements.ts";
import {
  type Block,
  blocksAt,
  type Compaction,
  type Extent,
  fatesOf,
  largestOf,
  seriesFor,
  type Timeline,
  totalOf,
} from "./model.ts";
import { type Language, MOST_HITS, nameOfSeries, WORDS } from "./words.ts";
import type { Answer, Question } from "./worker.ts";

export type Options = {
  /** What is open at first. */
  source?: { name: string; text: string } | { name: string; url: string };
  /** Only the chart and the blocks, to be embedded in a page. */
  compact?: boolean;
  lang?: Language;
  /** Of the full viewer, for the compact one to link. */
  href?: string;
};

type Hit = { shown: Shown; at: number; length: number };

/** Shows the viewer in `element`. @returns what removes it */
export function mount(element: HTMLElement, { source, compact = false, lang = "en", href }: Options = {}): () => void {
  const words = WORDS[lang];
  const end = new AbortController();
  const { signal } = end;
  const status = make("p", { className: "cv-status" });
  status.role = "status";
  const title = make("h1");
  const body = make("div");
  const root = make("section", { className: `context-viewer${compact ? " cv-compact" : ""}`, lang });
  root.append(make("style", {}, colourRules), ...(compact ? [] : [title, makeChooser()]), status, body);
  element.replaceChildren(root);
  let worker: Worker | undefined;
  let endSession = () => {};

  function makeChooser(): HTMLElement {
    const input = make("input", { type: "file", accept: ".jsonl,.json,.txt" });
    const open = (file?: File) => file && read({ name: file.name, file });
    input.addEventListener("change", () => open(input.files?.[0]));
    const over = (event: DragEvent) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      open(event.dataTransfer?.files[0]);
    };
    document.addEventListener("dragover", over, { signal });
    document.addEventListener("drop", drop, { signal });
    const label = make("label", { className: "cv-choose" }, words.choose, input);
    return make("div", { className: "cv-chooser" }, label, make("p", {}, words.drop, " ", make("b", {}, words.local)));
  }

  function read(question: Question): void {
    worker?.terminate();
    title.textContent = question.name;
    status.textContent = words.reading(question.name);
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      worker?.terminate();
      endSession();
      body.replaceChildren();
      if ("error" in data) status.textContent = words.unreadable(question.name, data.error);
      else if ("fault" in data) status.textContent = words.faults[data.fault](question.name);
      else endSession = show(data);
    });
    worker.addEventListener("error", ({ message }) => {
      status.textContent = words.unreadable(question.name, message);
    });
    worker.postMessage(question);
  }

  function show(timeline: Timeline): () => void {
    const { moments, compactions, series } = timeline;
    const largest = largestOf(timeline);
    status.textContent = moments.length > 0 ? words.overview(timeline) : words.nothing;
    if (moments.length === 0) return () => {};

    const views: View[] = !compact && moments.some(({ usage }) => usage) ? ["context", "cache", "cost"] : ["context"];
    const charts = views.map(() => make("div", { className: "cv-chart" }));
    const cursor = make("div", { className: "cv-cursor" });
    const plots = make("div", { className: "cv-plots" }, ...charts, cursor);
    const slider = make("input", { type: "range", min: "1", max: `${moments.length}`, ariaLabel: words.request });
    const jumps = make("ul", { className: "cv-jumps" });
    const detail = make("div", { className: "cv-detail" });
    const reader = make("div", { className: "cv-reader" });
    let selected = moments.findIndex(({ tokens }) => tokens === largest);

    function draw(): void {
      const width = Math.max(280, plots.clientWidth);
      for (const [i, view] of views.entries()) {
        const height = view === "context" ? (compact ? 220 : 300) : 110;
        charts[i]?.replaceChildren(drawChart(timeline, { document, width, height, words, view }));
      }
      moveCursor();
    }
    function moveCursor(): void {
      const space = plots.clientWidth - MARGIN.left - MARGIN.right;
      cursor.style.left = `${MARGIN.left + (space * (selected + 0.5)) / moments.length}px`;
      slider.value = `${selected + 1}`;
    }

    const shownIn = (blocks: Block[], charsPerToken: number): Shown[] =>
      blocks.map((block) => {
        const name = seriesFor(block, series);
        const kind = block.kind === "result" ? words.results(block.tool ?? "") : nameOfSeries(name, words);
        return { block, tokens: block.chars / charsPerToken, colour: colourOf(name, series), kind };
      });
    function systemOf(tokens: number): Shown[] {
      const kind = nameOfSeries("system", words);
      const block: Block = { id: -1, kind: "system", label: words.tokens(tokens), text: words.notInFile, chars: 0 };
      return tokens > 0 ? [{ block, tokens, colour: colourOf("system", series), kind }] : [];
    }
    function showText(shown: Shown, strips: Strip[], hit?: Hit, hits = new Set<number>()): void {
      reader.replaceChildren(makeText(shown, words, hit));
      const original = timeline.blocks[shown.block.original ?? -1];
      if (original) {
        const tokens = (shown.tokens * original.chars) / shown.block.chars;
        reader.append(make("p", {}, words.original), makeText({ ...shown, block: original, tokens }, words));
      }
      const [mark] = reader.getElementsByTagName("mark");
      mark?.parentElement?.scrollTo({ top: mark.offsetTop - mark.parentElement.offsetTop - 100 });
      for (const strip of strips) strip.mark(hits, shown.block.id);
    }
    function stripOf(blocks: Shown[], strips: Strip[]): HTMLElement {
      const strip = makeStrip(blocks, words, (all) => {
        const [first] = all;
        if (all.length > 1) reader.replaceChildren(makeList(all, words, (shown) => showText(shown, strips)));
        else if (first) showText(first, strips);
      });
      strips.push(strip);
      return strip.element;
    }

    function showMoment(index: number): void {
      selected = Math.max(0, Math.min(moments.length - 1, index));
      const moment = moments[selected];
      if (!moment) return;
      moveCursor();
      const heading = words.atRequest(selected + 1, moments.length);
      slider.ariaValueText = `${heading}, ${words.tokens(moment.tokens)}`;
      const parts = series.map((name, i) => {
        const tokens = moment.sizes[i] ?? 0;
        const share = `${Math.round((100 * tokens) / (moment.tokens || 1))} %`;
        return legendItem(colourOf(name, series), nameOfSeries(name, words), `${words.tokens(tokens)} · ${share}`);
      });
      const { usage } = moment;
      const paid = (["read", "written", "input", "output"] as const).map((part) => {
        return legendItem(`var(--cv-${part})`, nameOfSeries(part, words), words.tokens(usage?.[part] ?? 0));
      });
      const strips: Strip[] = [];
      const blocks = [...systemOf(moment.system), ...shownIn(blocksAt(timeline, moment), moment.charsPerToken)];
      const facts = [words.tokens(moment.tokens)];
      if (moment.time) facts.push(new Date(moment.time).toLocaleString(lang));
      if (moment.isCold) facts.push(words.coldAfter((moment.gap ?? 0) / 60_000));
      const strip = stripOf(blocks, strips);
      const search = compact ? [] : [searchIn(blocks, strips)];
      const hint = make("p", { className: "cv-quiet" }, words.hint);
      const legends = [parts, usage ? paid : []].map((items) => make("ul", { className: "cv-legend" }, ...items));
      detail.replaceChildren(
        make("h3", {}, heading),
        make("p", {}, facts.join(" · ")),
        ...search,
        strip,
        hint,
        ...legends,
      );
      reader.replaceChildren();
    }

    function searchIn(blocks: Shown[], strips: Strip[]): HTMLElement {
      const input = make("input", { type: "search", placeholder: words.search, ariaLabel: words.search });
      const count = make("output");
      let hits: Hit[] = [];
      let at = 0;
      const go = (step: number) => {
        at = (at + step + hits.length) % (hits.length || 1);
        const hit = hits[at];
        count.textContent = input.value ? words.hits(at + 1, hits.length) : "";
        if (hit) showText(hit.shown, strips, hit, new Set(hits.map(({ shown }) => shown.block.id)));
        else for (const strip of strips) strip.mark(new Set());
      };
      input.addEventListener("input", () => {
        hits = input.value ? hitsIn(blocks, input.value) : [];
        at = 0;
        go(0);
      });
      input.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && go(shiftKey ? -1 : 1));
      const button = (label: string, step: number) => {
        const made = make("button", { type: "button", textContent: label });
        made.addEventListener("click", () => go(step));
        return made;
      };
      const buttons = [button(words.previous, -1), button(words.next, 1)];
      return make("div", { className: "cv-search" }, input, ...buttons, count);
    }

    function showCompaction(compaction: Compaction): void {
      const { moment, before, after, trigger, kept } = compaction;
      selected = Math.max(0, moment - 1);
      moveCursor();
      const charsPerToken = moments[selected]?.charsPerToken ?? 1;
      const fates = fatesOf(timeline, compaction);
      const strips: Strip[] = [];
      const side = (extent: Extent & { tokens: number }, name: string, groupOf: (shown: Shown) => [string, string]) => {
        const groups = new Map<string, { colour: string; count: number; tokens: number }>();
        const blocks = shownIn(blocksAt(timeline, extent), charsPerToken).map((shown) => {
          const [label, colour] = groupOf(shown);
          const group = groups.get(label) ?? { colour, count: 0, tokens: 0 };
          groups.set(label, { colour, count: group.count + 1, tokens: group.tokens + shown.tokens });
          return { ...shown, colour, kind: label === shown.kind ? label : `${label} · ${shown.kind}` };
        });
        const items = [...groups].map(([label, { colour, count, tokens }]) => {
          return legendItem(colour, label, `${words.blocks(count)} · ${words.tokens(tokens)}`);
        });
        const list = make("ul", { className: "cv-legend" }, ...items);
        return make(
          "div",
          {},
          make("h4", {}, `${name}: ${words.tokens(extent.tokens)}`),
          stripOf(blocks, strips),
          list,
        );
      };
      const old = side(before, words.before, ({ block }) => {
        const fate = fates.get(block.id) ?? "summarized";
        return [words.fates[fate], `var(--cv-${fate})`];
      });
      const isKept = new Set(kept);
      const young = side(after, words.after, ({ block, kind, colour }) => {
        if (isKept.has(block.id)) return [words.fates.kept, "var(--cv-kept)"];
        return block.original === undefined ? [kind, colour] : [words.fates.disk, "var(--cv-disk)"];
      });
      const heading = make("h3", {}, words.atCompaction(moment + 1));
      const reason = make("p", {}, words.triggers[trigger] ?? trigger);
      detail.replaceChildren(heading, reason, make("div", { className: "cv-sides" }, old, young));
      reader.replaceChildren();
    }

    for (const compaction of compactions) {
      const title = words.triggers[compaction.trigger] ?? "";
      const button = make("button", { type: "button", title }, words.took(compaction));
      button.addEventListener("click", () => showCompaction(compaction));
      jumps.append(make("li", {}, button));
    }
    slider.addEventListener("input", () => showMoment(Number(slider.value) - 1));
    const pick = ({ clientX, buttons }: PointerEvent) => {
      if (buttons !== 1) return;
      const { left, width } = plots.getBoundingClientRect();
      const share = (clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
      showMoment(Math.floor(share * moments.length));
      slider.focus({ preventScroll: true });
    };
    plots.addEventListener("pointerdown", pick);
    plots.addEventListener("pointermove", pick);
    const step = (event: KeyboardEvent) => {
      const to = { ArrowLeft: selected - 1, ArrowRight: selected + 1, Home: 0, End: moments.length - 1 }[event.key];
      if (to === undefined || event.target instanceof HTMLInputElement || event.target instanceof HTMLPreElement)
        return;
      event.preventDefault();
      showMoment(to);
      slider.focus({ preventScroll: true });
    };
    root.addEventListener("keydown", step);

    body.append(make("h2", {}, words.overTime), plots, slider, marksIn(timeline));
    if (compactions.length > 0) body.append(make("h3", {}, words.compactions), jumps);
    body.append(detail, reader);
    if (!compact) body.append(sourcesOf(timeline));
    else if (href) body.append(make("p", {}, make("a", { href }, words.open)));
    const observer = new ResizeObserver(draw);
    observer.observe(plots);
    draw();
    showMoment(selected);
    return () => {
      observer.disconnect();
      root.removeEventListener("keydown", step);
    };
  }

  function legendItem(colour: string, name: string, value = ""): HTMLElement {
    const swatch = make("i");
    swatch.style.background = colour;
    return make("li", {}, swatch, name, make("span", { className: "cv-quiet" }, value));
  }

  function marksIn({ moments, compactions }: Timeline): HTMLElement {
    const marks = make("ul", { className: "cv-legend" });
    if (compactions.length > 0) marks.append(legendItem("var(--cv-text)", words.compactionMark));
    if (moments.some(({ isCold }) => isCold)) marks.append(legendItem("var(--cv-cold)", words.coldMark));
    return marks;
  }

  function sourcesOf(timeline: Timeline): HTMLElement {
    const usages = timeline.moments.flatMap(({ usage }) => usage ?? []);
    const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
    const paid = sum(usages.flatMap((usage) => Object.values(costOf(usage))));
    const uncached = sum(usages.map((usage) => totalOf(usage) + 5 * usage.output));
    const texts = [words.source(timeline)];
    if (usages.length > 0) texts.push(words.cost(paid, `${Math.round((100 * paid) / uncached)} %`));
    if (timeline.skipped.length > 0) texts.push(`${words.leftOut}: ${timeline.skipped.map(words.skipped).join("; ")}.`);
    return make("footer", { className: "cv-quiet" }, ...texts.map((text) => make("p", {}, text)));
  }

  if (source) read("url" in source ? { ...source, url: new URL(source.url, document.baseURI).href } : source);
  return () => {
    end.abort();
    endSession();
    worker?.terminate();
    element.replaceChildren();
  };
}

/** Where `text` occurs, whatever the case. */
function hitsIn(blocks: Shown[], text: string): Hit[] {
  const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  const hits: Hit[] = [];
  for (const shown of blocks) {
    for (const match of shown.block.text.matchAll(pattern)) {
      hits.push({ shown, at: match.index, length: match[0].length });
      if (hits.length === MOST_HITS) return hits;
    }
  }
  return hits;
}
