/** A session that is open: its diagnosis, its charts, lists that lead into it, and what is in the context at a step. */

import { dollars, facts, whole } from "../trace/numbers.ts";
import { type Compaction, dollarsOf, type Step, type Timeline } from "../trace/timeline.ts";
import { makeCompaction, makeMoment } from "./details.ts";
import { diagnose } from "./diagnosis.ts";
import { make, makeRows, stepIn } from "./elements.ts";
import type { Words } from "./languages.ts";
import { makeOverTime } from "./over-time.ts";
import type { Place } from "./reader.ts";
import { sentencesOf } from "./sentences.ts";

/** What is shown of a session. A session that grows is shown again, and goes on from there. */
export type Shown = { timeline: Timeline; step: Step; place: Place };

/** Shows a step of a session, or else its largest prompt. `tell` is called with each step. */
export function makeSession(timeline: Timeline, words: Words, tell: (step: Step) => void, before?: Partial<Shown>) {
  const { moments, compactions } = timeline;
  const place = before?.place ?? { scroll: 0, search: "" };
  const shown: Shown = { timeline, step: stepAfter(timeline, before), place };
  const detail = make("div");
  const overTime = makeOverTime(timeline, words, show);
  function show(step: Step): void {
    const compaction = compactions[step.compaction ?? -1];
    const call = callOf(timeline, step);
    const moment = moments[call];
    shown.step = compaction ? { compaction: step.compaction } : { call };
    overTime.moveTo(call);
    tell(shown.step);
    if (compaction) detail.replaceChildren(makeCompaction(timeline, compaction, words, place));
    else if (moment) detail.replaceChildren(makeMoment(timeline, moment, words, place));
  }
  const goTo = (step: Step) => {
    show(step);
    detail.scrollIntoView();
  };
  const element = make(
    "div",
    {},
    makeDiagnosis(timeline, words, goTo),
    make("h2", {}, words.overTime),
    overTime.element,
    make("div", { className: "cv-columns" }, makeRequests(timeline, words, goTo), makeJumps(timeline, words, goTo)),
    detail,
    makeSources(timeline, words),
  );
  element.addEventListener("keydown", (event) => {
    const to = callFor(event.key, callOf(timeline, shown.step), moments.length);
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (isText(event.target) || (to === undefined && !by)) return;
    event.preventDefault();
    if (by) return stepIn(detail, event.target, by);
    show({ call: to });
    overTime.focus();
  });
  show(shown.step);
  return { element, shown };
}

/** What was shown; the newest call again if that was. */
function stepAfter(timeline: Timeline, before?: Partial<Shown>): Step {
  const { step, timeline: old } = before ?? {};
  const last = timeline.moments.length - 1;
  if (old && step?.call === old.moments.length - 1) return { call: last };
  const isStep = step?.call !== undefined || timeline.compactions[step?.compaction ?? -1];
  return step && isStep ? step : { call: timeline.largest };
}

/** The model call that a step is at: the last one before a compaction. */
function callOf({ moments, compactions }: Timeline, { call = 0, compaction = -1 }: Step): number {
  const before = compactions[compaction];
  return Math.max(0, Math.min(moments.length - 1, before ? before.moment - 1 : call));
}

/** Where a key leads from a model call. */
const callFor = (key: string, call: number, calls: number): number | undefined =>
  ({ ArrowLeft: call - 1, ArrowRight: call + 1, Home: 0, End: calls - 1 })[key];

/** Where the keys move the cursor in a text. */
const isText = (target: EventTarget | null) =>
  target instanceof HTMLPreElement || (target instanceof HTMLInputElement && target.type === "search");

/** What a session cost, what of it were cache misses, and what was largest; each leads to its model call. */
function makeDiagnosis(timeline: Timeline, words: Words, goTo: (step: Step) => void): HTMLElement {
  const linkTo = (text: string, call: number) => {
    const link = make("a", { href: "#" }, text);
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address names the step
      goTo({ call });
    });
    return link;
  };
  const items = sentencesOf(diagnose(timeline), words).map((sentence) => {
    const parts = sentence.map((part) => (typeof part === "string" ? part : linkTo(part.text, part.call)));
    return make("li", {}, ...parts);
  });
  return make("ul", { className: "cv-diagnosis" }, ...items);
}

/** A button for each request: its text, its model calls, and what they cost. */
function makeRequests({ requests, blocks, moments }: Timeline, words: Words, goTo: (step: Step) => void): HTMLElement {
  const items = requests.map(({ moment, block }, i) => {
    return { call: moment, label: blocks[block]?.label ?? "", calls: moments.filter(({ request }) => request === i) };
  });
  const wordsOf = ({ label, calls }: (typeof items)[number]) => {
    return [label, words.calls(calls.length), dollars(dollarsOf(calls))];
  };
  const list = makeRows(items, wordsOf, ({ call }) => goTo({ call }));
  return makeList(words.requests, list);
}

/** A button for each compaction: where it was, why, and what it took. */
function makeJumps({ compactions, moments }: Timeline, words: Words, goTo: (step: Step) => void): HTMLElement {
  const wordsOf = ({ moment, trigger, before, after }: Compaction) => {
    const sizes = `${whole(before.tokens)} → ${whole(after.tokens)}`;
    return [
      facts(words.beforeCall(moment + 1, moments.length), words.named(words.triggers[trigger] ?? trigger, sizes)),
    ];
  };
  const list = makeRows(compactions, wordsOf, (each) => goTo({ compaction: compactions.indexOf(each) }));
  list.classList.add("cv-jumps");
  return makeList(words.compactions, list);
}

function makeList(name: string, list: HTMLElement): HTMLElement {
  const { length } = list.children;
  return make("div", { hidden: length === 0 }, make("h3", {}, `${name} (${length})`), list);
}

/** Where the sizes come from, the prices, and what of the file is not shown. */
function makeSources(timeline: Timeline, words: Words): HTMLElement {
  const { moments, skipped } = timeline;
  const texts = [words.source(timeline)];
  if (moments.some(({ cost }) => cost)) texts.push(words.prices);
  if (skipped.length > 0) texts.push(words.leftOut(skipped.map(words.skipped)));
  return make("footer", { className: "cv-quiet" }, ...texts.map((text) => make("p", {}, text)));
}
