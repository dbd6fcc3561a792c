/** The viewer: opens a session and shows its context over time, at a model call and at a compaction. */
import { colourFor, colourRules } from "./context-chart.ts";
import { makeCompaction, makeMoment, type Place } from "./details.ts";
import { diagnose } from "./diagnosis.ts";
import { type Item, make, makeLegend, makeRows, stepIn } from "./elements.ts";
import { type Language, nameOfSeries, WORDS, type Words } from "./languages.ts";
import { makeOverTime } from "./over-time.ts";
import { listOf } from "./prices.ts";
import { type Listed, makeSessions } from "./sessions-list.ts";
import { type Compaction, isMissed, largestOf, type Timeline } from "./timeline.ts";
import type { Answer, Question } from "./worker.ts";

export type Options = {
  /** What is open at first. */
  source?: { name: string; url: string };
  /** Of `npm run view`: the file that is open at first, and whether the list of sessions is. */
  served?: { file: string; isOpen: boolean };
  lang?: Language;
};

/** What is shown: a model call or a compaction, by its index. */
type Step = { call?: number; compaction?: number };

function stepInAddress(): Step & { file?: string } {
  const values = new URLSearchParams(location.hash.slice(1));
  const index = (name: string) => (/^\d+$/.test(values.get(name) ?? "") ? Number(values.get(name)) - 1 : undefined);
  return { call: index("call"), compaction: index("compaction"), file: values.get("file") ?? undefined };
}

function setAddress({ call, compaction }: Step, file: string): void {
  const values = new URLSearchParams(file && { file });
  if (compaction !== undefined) values.set("compaction", `${compaction + 1}`);
  else values.set("call", `${(call ?? 0) + 1}`);
  history.replaceState(history.state, "", `#${values}`);
}

/** Shows the viewer in `element`. @returns what removes it */
export function mount(element: HTMLElement, { source, served, lang = "en" }: Options = {}) {
  const words = WORDS[lang];
  const end = new AbortController();
  const status = make("p", { className: "cv-status", role: "status" });
  const title = make("h1");
  const body = make("div", { className: "cv-session" });
  const list = make("div", { className: "cv-choose-from" });
  const summary = make("summary", {}, words.sessions);
  const sessions = make("details", { open: served?.isOpen }, summary, list);
  let file = "";
  let worker: Worker | undefined;

  function read(question: Question, first: Step = {}): void {
    let shown: ReturnType<typeof makeSession> | undefined;
    worker?.terminate();
    title.textContent = question.name;
    status.textContent = words.reading(question.name);
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      if (!question.isLive) worker?.terminate();
      if ("stopped" in data) status.textContent = words.stopped;
      else if ("error" in data) status.textContent = words.unreadable(question.name, data.error);
      else if ("fault" in data) status.textContent = words.faults[data.fault](question.name);
      else if (data.moments.length === 0) status.textContent = words.nothing;
      else {
        status.textContent = words.overview(data);
        const focused = body.contains(document.activeElement) && !data.isNew && labelOf(document.activeElement);
        const tell = (step: Step) => setAddress(step, file);
        shown = makeSession(data, words, tell, data.isNew ? { first } : { before: shown });
        body.replaceChildren(shown.element);
        const all = focused ? [...body.querySelectorAll<HTMLElement>("input, button, pre")] : [];
        all.find((each) => labelOf(each) === focused)?.focus({ preventScroll: true });
        return;
      }
      if (!("stopped" in data)) body.replaceChildren();
    });
    worker.addEventListener("error", ({ message }) => {
      status.textContent = words.unreadable(question.name, message);
    });
    worker.postMessage(question);
  }

  /** A file of `npm run view`. */
  function open(name: string, first?: Step): void {
    file = name;
    const url = new URL(`session?${new URLSearchParams({ file })}`, document.baseURI).href;
    read({ name: file.split(/[\\/]/).at(-1) ?? "", url, isLive: true }, first);
    void showSessions();
  }
  /** A line for each session, as `npm run view` has read it: what is there is shown. */
  async function showSessions(): Promise<void> {
    const response = await fetch("sessions", { signal: end.signal }).catch(() => undefined);
    const lines = response?.body?.pipeThrough(new TextDecoderStream()) ?? [];
    let text = "";
    if (!list.hasChildNodes()) list.textContent = words.reading(words.sessions);
    for await (const part of lines) {
      text += part;
      const listed: Listed[] = text
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line));
      summary.textContent = words.countedIn(words.sessions, listed.length);
      list.replaceChildren(makeSessions(listed, words, file, openChosen));
    }
  }
  function openChosen(name: string): void {
    sessions.open = false;
    open(name);
  }
  sessions.addEventListener("toggle", () => sessions.open && served && void showSessions());

  const choose = (question: Question) => {
    file = "";
    read(question);
  };
  const chooser = makeChooser(words, choose, end.signal);
  if (served) sessions.append(chooser);
  const parts = [make("style", {}, colourRules), title, served ? sessions : chooser, status, body];
  element.replaceChildren(make("section", { className: "context-viewer", lang }, ...parts));
  const address = stepInAddress();
  if (served) open(address.file ?? served.file, address);
  else if (source) read({ ...source, url: new URL(source.url, document.baseURI).href }, address);
  return () => {
    end.abort();
    worker?.terminate();
    element.replaceChildren();
  };
}

/** How an element that takes the focus is called, in a session that grows, too. */
const labelOf = (element: Element | null) =>
  element?.getAttribute("aria-label") || element?.ariaLabel || element?.textContent;

/** Takes a file that is chosen, or dropped anywhere on the page until `signal` ends that. */
function makeChooser(words: Words, read: (question: Question) => void, signal: AbortSignal): HTMLElement {
  const input = make("input", { type: "file", accept: ".jsonl,.json,.txt" });
  const open = (file?: File) => file && read({ name: file.name, file });
  input.addEventListener("change", () => open(input.files?.[0]));
  const drop = (event: DragEvent) => {
    event.preventDefault();
    if (event.type === "drop") open(event.dataTransfer?.files[0]);
  };
  document.addEventListener("dragover", drop, { signal });
  document.addEventListener("drop", drop, { signal });
  const label = make("label", { className: "cv-choose" }, words.choose, input);
  return make("div", { className: "cv-chooser" }, label, make("p", {}, words.drop, " ", make("b", {}, words.local)));
}

type Shown = { timeline: Timeline; step: Step; place: Place };

/**
 * A session that has model calls: the largest prompt is shown first, or what is shown of the session `before` it grew, or
 * its newest call if that was shown. `tell` is called with each step.
 */
function makeSession(
  timeline: Timeline,
  words: Words,
  tell: (step: Step) => void,
  { first = {}, before }: { first?: Step; before?: Shown },
) {
  const { moments, compactions } = timeline;
  const largest = largestOf(timeline);
  const place: Place = before?.place ?? { scroll: 0, search: "" };
  const shown: Shown = { timeline, step: {}, place };
  let selected = 0;
  const detail = make("div");
  const overTime = makeOverTime(timeline, words, (chosen) =>
    typeof chosen === "number" ? show(chosen) : showCompaction(chosen),
  );
  function select(index: number): void {
    selected = Math.max(0, Math.min(moments.length - 1, index));
    overTime.moveTo(selected);
  }
  function show(index: number): void {
    select(index);
    shown.step = { call: selected };
    tell(shown.step);
    detail.replaceChildren(makeMoment(timeline, selected, words, place));
  }
  function showCompaction(compaction: Compaction): void {
    select(compaction.moment - 1);
    shown.step = { compaction: compactions.indexOf(compaction) };
    tell(shown.step);
    detail.replaceChildren(makeCompaction(timeline, compaction, words, place));
  }
  /** From what leads to a step: shows where it is, too. */
  const goTo = (index: number) => {
    show(index);
    detail.scrollIntoView();
  };
  const jumps = makeRows(
    compactions,
    (each) => [words.took(each, moments.length)],
    (each) => {
      showCompaction(each);
      detail.scrollIntoView({ block: "nearest" });
    },
  );
  jumps.classList.add("cv-jumps");
  const lists = [
    makeRequests(timeline, words, goTo),
    make(
      "div",
      { hidden: compactions.length === 0 },
      make("h3", {}, words.countedIn(words.compactions, compactions.length)),
      jumps,
    ),
  ];
  const parts = [
    makeDiagnosis(timeline, words, goTo),
    ...[make("h2", {}, words.overTime), overTime.element, makeMarks(timeline, words)],
    ...[make("div", { className: "cv-lists" }, ...lists), detail],
  ];
  const element = make("div", {}, ...parts, makeSources(timeline, words));
  element.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if ((target instanceof HTMLInputElement && target.type === "search") || target instanceof HTMLPreElement) return;
    const to = { ArrowLeft: selected - 1, ArrowRight: selected + 1, Home: 0, End: moments.length - 1 }[key];
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (to === undefined && !step) return;
    event.preventDefault();
    if (to !== undefined) {
      show(to);
      overTime.focus();
    } else {
      const strip = (target instanceof Element && target.closest(".cv-strip")) || detail.querySelector(".cv-strip");
      if (strip) stepIn(strip, step ?? 0);
    }
  });
  const { call, compaction } = before?.step ?? first;
  const isLast = before !== undefined && call === before.timeline.moments.length - 1;
  const chosen = compactions[compaction ?? -1];
  if (chosen) showCompaction(chosen);
  else show(isLast ? moments.length - 1 : (call ?? moments.findIndex(({ tokens }) => tokens === largest)));
  return Object.assign(shown, { element }); // whose step changes
}

/** What a session cost, what of it were cache misses, and what was largest; each leads to its model call. */
function makeDiagnosis(timeline: Timeline, words: Words, goTo: (call: number) => void): HTMLElement {
  const sentences = words.diagnosis(diagnose(timeline), (series) => nameOfSeries(series, words));
  const linkTo = (text: string, call: number) => {
    const link = make("a", { href: `#call=${call + 1}` }, text);
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address names the file, too
      goTo(call);
    });
    return link;
  };
  const items = sentences.map((sentence) => {
    const parts = sentence.map((part) => (typeof part === "string" ? part : linkTo(part.text, part.call)));
    return make("li", {}, ...parts);
  });
  return make("ul", { className: "cv-diagnosis" }, ...items);
}

/** What the signs in the chart mean. */
function makeMarks({ moments, compactions, requests }: Timeline, words: Words): HTMLElement {
  const colours = new Set(compactions.map(colourFor));
  if (moments.some(isMissed)) colours.add("var(--cv-cold)");
  if (requests.length > 0) colours.add("var(--cv-request)");
  const items = [...colours].map((colour): Item => {
    const mark = colour.slice(9, -1); // of var(--cv-…)
    return { colour, name: words.marks[mark] ?? "", sign: { cold: "◆", request: "▲" }[mark] ?? "↓" };
  });
  return makeLegend(items);
}

/** A button for each request: its text, its model calls, and what they cost. */
function makeRequests(
  { requests, blocks, moments }: Timeline,
  words: Words,
  show: (moment: number) => void,
): HTMLElement {
  const wordsOf = ({ block }: Timeline["requests"][number], i: number) => {
    return [`${i + 1} · ${blocks[block]?.label}`, ...words.asked(moments.filter(({ request }) => request === i))];
  };
  const items = requests.map((each, i) => ({ ...each, words: wordsOf(each, i) }));
  const list = makeRows(
    items,
    ({ words }) => words,
    ({ moment }) => show(moment),
  );
  return make(
    "div",
    { hidden: items.length === 0 },
    make("h3", {}, words.countedIn(words.requests, items.length)),
    list,
  );
}

/** Where the sizes come from, the prices, and what of the file is not shown. */
function makeSources(timeline: Timeline, words: Words): HTMLElement {
  const { moments } = timeline;
  const texts = [words.source(timeline)];
  const models = [...new Set(moments.flatMap(({ model }) => model ?? []))];
  texts.push(...models.map((model) => words.prices(model, listOf(model))));
  const estimates = moments.filter(({ isEstimate }) => isEstimate).length;
  if (estimates > 0) texts.push(words.estimates(estimates));
  if (timeline.skipped.length > 0) texts.push(words.leftOut(timeline.skipped.map(words.skipped)));
  return make("footer", { className: "cv-quiet" }, ...texts.map((text) => make("p", {}, text)));
}
