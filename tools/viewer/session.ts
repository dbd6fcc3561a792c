/** Shows an open session: its four figures, the charts, the selected step below them, and lists of other steps. */
import { groupBy, sum, whole } from "../trace/numbers.ts";
import { type Compaction, dollarsOf, type Timeline } from "../trace/timeline.ts";
import type { Selection } from "./address.ts";
import { type Detail, makeCompaction, makeModelCall } from "./details.ts";
import { make, makeRows } from "./elements.ts";
import { dollars } from "./format.ts";
import { labelOf } from "./labels.ts";
import type { Words } from "./languages.ts";
import { largeFigures, type Sentence } from "./large-figures.ts";
import { makeOverTime } from "./over-time.ts";
import { reveal } from "./reader.ts";

/** How the page's address follows what is selected. */
export type Addresses = {
  addressOf: (selection: Selection) => string;
  go: (selection: Selection) => void; // leads to `show`
  /** Changes the address without a call of `show`. */
  replace: (selection: Selection, isNew: boolean) => void;
};

/** Starts at a selection, or else at the largest prompt. */
export function makeSession(timeline: Timeline, words: Words, addresses: Addresses, start: Selection) {
  const { modelCalls, compactions } = timeline;
  const dock = make("div");
  const overTime = makeOverTime(timeline, words, {
    select: addresses.go,
    slide: (call, isFirst) => {
      const selection = { call, block: shown.block };
      addresses.replace(selection, isFirst);
      show(selection);
    },
  });
  let shown: Selection = {};
  let detail: Detail | undefined;

  function show(selection: Selection): void {
    const compaction = compactions[selection.compaction ?? -1];
    const call = callAtStep(timeline, selection);
    const step: Selection = compaction ? { compaction: selection.compaction } : { call };
    const open = (block: number) => addresses.go({ ...step, block });
    if (!detail || step.call !== shown.call || step.compaction !== shown.compaction) {
      detail = compaction
        ? makeCompaction(timeline, compaction, words, open)
        : makeModelCall(timeline, call, words, open);
      dock.replaceChildren(detail.element);
    }
    shown = { ...step, block: selection.block };
    detail.showBlock(shown.block);
    overTime.moveTo(call);
  }
  const element = make(
    "div",
    {},
    makeFigures(timeline, words, addresses),
    overTime.element,
    dock,
    makeCompactionList(timeline, words, addresses.go),
    makeRequests(timeline, words, addresses.go),
    makeSources(timeline, words),
  );
  show(start);
  /** Shows what the address says, and brings it into sight. */
  function follow(selection: Selection): void {
    show(selection);
    const parts = shown.block === undefined ? [".cv-strip", "h2"] : [".cv-text"];
    for (const part of parts) reveal(dock.querySelector(part) ?? dock);
  }
  return { element, follow, shownNow: () => shown, newest: modelCalls.length - 1 };
}

/** The model call of a step, which for a compaction is the last one before it. */
function callAtStep(
  { modelCalls, compactions, largest }: Timeline,
  { call = largest, compaction = -1 }: Selection,
): number {
  const before = compactions[compaction];
  return Math.max(0, Math.min(modelCalls.length - 1, before ? before.modelCall - 1 : call));
}

function makeFigures(timeline: Timeline, words: Words, { addressOf }: Addresses): HTMLElement {
  const toNode = (part: Sentence[number]) =>
    typeof part === "string" ? part : make("a", { href: addressOf(part.step) }, part.text);
  const items = largeFigures(timeline, words).map(({ about, value, unit = "", sentence }) => {
    const number = [make("b", {}, value), " ", unit];
    return make("li", {}, make("span", {}, about), ...number, make("p", {}, ...sentence.map(toNode)));
  });
  return make("ul", { className: "cv-figures" }, ...items);
}

type Go = (selection: Selection) => void;

function makeRequests({ requests, modelCalls }: Timeline, words: Words, go: Go): HTMLElement {
  const byRequest = groupBy(modelCalls, ({ request }) => request);
  const items = requests.map(({ modelCall, block }, i) => {
    return { call: modelCall, label: labelOf(block), calls: byRequest.get(i) ?? [] };
  });
  const textsFor = ({ label, calls }: (typeof items)[number]) => {
    return [label, words.calls(calls.length), dollars(dollarsOf(calls))];
  };
  const list = makeRows(items, textsFor, ({ call }) => go({ call }));
  return makeList(words.requests, list);
}

function makeCompactionList({ compactions, modelCalls }: Timeline, words: Words, go: Go): HTMLElement {
  const textsFor = ({ modelCall, trigger, before, after }: Compaction) => {
    const sizes = `${whole(before.tokens)} → ${whole(after.tokens)}`;
    return [words.beforeCall(modelCall + 1, modelCalls.length), words.named(words.triggers[trigger] ?? trigger, sizes)];
  };
  const list = makeRows(compactions, textsFor, (each) => go({ compaction: compactions.indexOf(each) }));
  return makeList(words.compactions, list);
}

function makeList(name: string, list: HTMLElement): HTMLElement {
  const { length } = list.children;
  return make("div", { hidden: length === 0 }, make("h3", {}, `${name} (${length})`), list);
}

/** Says where sizes and prices come from, and how much of the file is left out. */
function makeSources(timeline: Timeline, words: Words): HTMLElement {
  const { modelCalls, skipped } = timeline;
  const texts = [words.source(timeline)];
  if (modelCalls.some(({ cost }) => cost)) texts.push(words.prices);
  const broken = skipped.find(({ reason }) => reason === "broken line")?.line;
  if (skipped.length > 0) texts.push(words.leftOut(sum(skipped.map(({ count }) => count))));
  if (broken !== undefined) texts.push(words.broken(broken));
  return make("footer", { className: "cv-quiet" }, ...texts.map((text) => make("p", {}, text)));
}
