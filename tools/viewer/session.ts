/** Shows an open session: its diagnosis, charts and lists, and the context at the selected step. */
import { whole } from "../trace/numbers.ts";
import { type Compaction, dollarsOf, type Step, type Timeline } from "../trace/timeline.ts";
import { makeCompaction, makeModelCall } from "./details.ts";
import { diagnose } from "./diagnosis.ts";
import { make, makeRows, moveInStrip } from "./elements.ts";
import { dollars } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";
import { makeOverTime } from "./over-time.ts";
import type { Place } from "./reader.ts";
import { sentencesOf } from "./sentences.ts";

/** What has to survive when a session grows and is drawn again. */
export type OpenSession = { timeline: Timeline; step: Step; place: Place };

/** Starts at the step that was open before, or else at the largest prompt. Calls `onStep` with every step. */
export function makeSession(
  timeline: Timeline,
  words: Words,
  onStep: (step: Step) => void,
  before?: Partial<OpenSession>,
) {
  const { modelCalls, compactions } = timeline;
  const place = before?.place ?? { scroll: 0, search: "" };
  const shown: OpenSession = { timeline, step: firstStep(timeline, before), place };
  const detail = make("div");
  const overTime = makeOverTime(timeline, words, place, showStep);
  function showStep(step: Step): void {
    const compaction = compactions[step.compaction ?? -1];
    const call = callAtStep(timeline, step);
    const modelCall = modelCalls[call];
    shown.step = compaction ? { compaction: step.compaction } : { call };
    overTime.moveTo(call);
    onStep(shown.step);
    if (compaction) detail.replaceChildren(makeCompaction(timeline, compaction, words, place));
    else if (modelCall) detail.replaceChildren(makeModelCall(timeline, modelCall, words, place));
  }
  const jumpTo = (step: Step, target?: string) => {
    showStep(step);
    (detail.querySelector(target ?? "h2") ?? detail).scrollIntoView();
  };
  const element = make(
    "div",
    {},
    makeDiagnosis(timeline, words, jumpTo),
    make("h2", {}, words.overTime),
    overTime.element,
    make(
      "div",
      { className: "cv-columns" },
      makeRequests(timeline, words, jumpTo),
      makeCompactionList(timeline, words, jumpTo),
    ),
    detail,
    makeSources(timeline, words),
  );
  element.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return; // the browser's own shortcuts
    const to = callForKey(event.key, callAtStep(timeline, shown.step), modelCalls.length);
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (isText(event.target) || (to === undefined && !by)) return;
    event.preventDefault();
    if (by) return moveInStrip(detail, event.target, by);
    showStep({ call: to });
    overTime.focus();
  });
  showStep(shown.step);
  return { element, shown, isNewest: callAtStep(timeline, shown.step) === modelCalls.length - 1, jumpTo };
}

/** Stays at the open step, but follows the newest call. */
function firstStep(timeline: Timeline, before?: Partial<OpenSession>): Step {
  const { step, timeline: old } = before ?? {};
  const last = timeline.modelCalls.length - 1;
  if (old && step?.call === old.modelCalls.length - 1) return { call: last };
  const isStep = step?.call !== undefined || timeline.compactions[step?.compaction ?? -1];
  return step && isStep ? step : { call: timeline.largest };
}

/** The model call of a step, which for a compaction is the last one before it. */
function callAtStep({ modelCalls, compactions }: Timeline, { call = 0, compaction = -1 }: Step): number {
  const before = compactions[compaction];
  return Math.max(0, Math.min(modelCalls.length - 1, before ? before.modelCall - 1 : call));
}

/** The model call that a key leads to. */
const callForKey = (key: string, call: number, calls: number): number | undefined =>
  ({ ArrowLeft: call - 1, ArrowRight: call + 1, Home: 0, End: calls - 1 })[key];

/** Whether arrow keys scroll the text or move its cursor. */
const isText = (target: EventTarget | null) =>
  target instanceof HTMLPreElement || (target instanceof HTMLInputElement && target.type === "search");

type JumpTo = (step: Step, target?: string) => void;

function makeDiagnosis(timeline: Timeline, words: Words, jumpTo: JumpTo): HTMLElement {
  const makeLink = (text: string, step: Step) => {
    const link = make("a", { href: "#" }, text);
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address already names the step
      jumpTo(step, step.compaction === undefined ? undefined : ".cv-lost");
    });
    return link;
  };
  const items = sentencesOf(diagnose(timeline), words).map(({ about, sentence }) => {
    const parts = sentence.map((part) => (typeof part === "string" ? part : makeLink(part.text, part.step)));
    return make("li", {}, make("b", {}, about), make("span", {}, ...parts));
  });
  return make("ul", { className: "cv-diagnosis" }, ...items);
}

/** Lists the requests with their model calls and cost. */
function makeRequests({ requests, modelCalls }: Timeline, words: Words, jumpTo: JumpTo): HTMLElement {
  const items = requests.map(({ modelCall, block }, i) => {
    const calls = modelCalls.filter(({ request }) => request === i);
    return { call: modelCall, label: labelOf(block), calls };
  });
  const textsFor = ({ label, calls }: (typeof items)[number]) => {
    return [label, words.calls(calls.length), dollars(dollarsOf(calls))];
  };
  const list = makeRows(items, textsFor, ({ call }) => jumpTo({ call }));
  return makeList(words.requests, list);
}

/** Lists the compactions with their place, trigger and sizes. */
function makeCompactionList({ compactions, modelCalls }: Timeline, words: Words, jumpTo: JumpTo): HTMLElement {
  const textsFor = ({ modelCall, trigger, before, after }: Compaction) => {
    const sizes = `${whole(before.tokens)} → ${whole(after.tokens)}`;
    return [words.beforeCall(modelCall + 1, modelCalls.length), words.named(words.triggers[trigger] ?? trigger, sizes)];
  };
  const list = makeRows(compactions, textsFor, (each) => jumpTo({ compaction: compactions.indexOf(each) }));
  return makeList(words.compactions, list);
}

function makeList(name: string, list: HTMLElement): HTMLElement {
  const { length } = list.children;
  return make("div", { hidden: length === 0 }, make("h3", {}, `${name} (${length})`), list);
}

/** Says where sizes and prices come from, and which lines of the file are left out. */
function makeSources(timeline: Timeline, words: Words): HTMLElement {
  const { modelCalls, skipped } = timeline;
  const texts = [words.source(timeline)];
  if (modelCalls.some(({ cost }) => cost)) texts.push(words.prices);
  if (skipped.length > 0) texts.push(words.leftOut(skipped.map(words.skipped)));
  return make("footer", { className: "cv-quiet" }, ...texts.map((text) => make("p", {}, text)));
}
