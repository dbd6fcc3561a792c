/** The viewer's page in a linkedom document: what it shows, how to move in it, and a file that grows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { sum } from "../trace/numbers.ts";
import { readTimeline } from "../trace/read-timeline.ts";
import { billed, boundary, claude, continued, linesOf, result, text, use, user } from "../trace/test-lines.ts";
import { WORDS } from "./languages.ts";
import { mount } from "./main.ts";
import type { ListedSession } from "./sessions-list.ts";
import type { WorkerReply } from "./worker.ts";

const words = WORDS.en;

// --- as much of a browser as the viewer needs ------------------------------------------------------------------------

const { document, window, HTMLElement, Event } = parseHTML("<html><body><main></main></body></html>");
const address = { hash: "" };
const history = { state: null, replaceState: (_: null, __: string, hash: string) => Object.assign(address, { hash }) };
const answers: ((answer: WorkerReply) => void)[] = [];
class Worker {
  addEventListener(type: string, listener: (event: { data: WorkerReply }) => void) {
    if (type === "message") answers.unshift((data) => listener({ data }));
  }
  postMessage() {}
  terminate() {}
}
class ResizeObserver {
  #draw;
  constructor(draw: () => void) {
    this.#draw = draw;
  }
  observe() {
    queueMicrotask(this.#draw);
  }
  disconnect() {}
}
const { HTMLInputElement, HTMLPreElement, Element, SVGElement } = window;
const classes = { HTMLInputElement, HTMLPreElement, Element, SVGElement, Worker, ResizeObserver };
Object.defineProperty(document, "baseURI", { value: "http://localhost/" });
Object.assign(globalThis, { document, location: address, history, ...classes });
Object.assign(HTMLElement.prototype, { scrollTo() {}, scrollIntoView() {}, clientWidth: 800 });
const main = document.querySelector("main") ?? assert.fail();
const elements = (selector: string) => [...main.querySelectorAll(selector)] as HTMLElement[];
const texts = (selector: string) => elements(selector).map(({ textContent }) => textContent);
const buttonWith = (label: RegExp) =>
  elements("button").find(({ textContent }) => label.test(textContent)) ?? assert.fail(`${label}`);

async function show(session: string, isNew = true): Promise<void> {
  answers[0]?.({ ...readTimeline(session), isNew });
  await new Promise((resolve) => setTimeout(resolve)); // the chart is drawn by a microtask
}
async function openAt(hash: string, session: string): Promise<void> {
  address.hash = hash;
  mount(main, { source: { name: "session.jsonl", url: "http://localhost/session" } });
  await show(session);
}
function press(key: string, more: object = {}): Event {
  const event = Object.assign(new Event("keydown", { bubbles: true, cancelable: true }), { key, ...more });
  (elements(".cv-detail")[0] ?? main).dispatchEvent(event);
  return event;
}
const heading = () => texts(".cv-detail h2")[0];
/** The numbers below the first chart. Sizes on the other axis end with a K. */
const callsOnAxis = () => texts(".cv-chart:first-child text").map(Number).filter(Boolean);

// --- a session -------------------------------------------------------------------------------------------------------

type Made = { model?: string; stop_reason?: string };
/** A session of Claude Code in which every call reads a file. A compaction comes before the fifth. */
function session(calls: number, { model = "claude-opus-4-6", stop_reason = "tool_use" }: Made = {}): string {
  const lines: object[] = [claude(0, user(`Look at server.ts and port 8443.${" ".repeat(400)}`))];
  for (let i = 1; i <= calls; i++) {
    const cached = i === 1 || i === 5 ? [0, 9_000] : [9_000, 100 * i];
    const call = use(`t${i}`, "Read", { file_path: "/app/server.ts" });
    lines.push(claude(i, { ...billed(`m${i}`, [...cached, 3, 2], call), model, stop_reason }));
    lines.push(claude(i + 0.5, user([result(`t${i}`, `const retryLimit = ${i};\n`.repeat(20))])));
    if (i === 2) lines.push(claude(2.7, user("Now the tests.")));
    if (i === 4)
      lines.push(boundary({ trigger: "auto" }), continued(4.7, "This session is continued: server.ts was read."));
  }
  return linesOf(...lines);
}

// --- what it says ----------------------------------------------------------------------------------------------------

test("a model call shows its size, its share of the window, its model and its cost by part", async () => {
  await openAt("#call=2", session(4));
  const [facts = ""] = texts(".cv-detail p");
  for (const part of ["9,203", "5%", "200,000", "$0.006", "claude-opus-4-6"]) assert.ok(facts.includes(part), facts);
  const detail = texts(".cv-detail").join();
  for (const part of ["9,000 tokens · $0.004", "200 tokens · $0.001"]) assert.ok(detail.includes(part), detail);
  // 3 × (9,000 × 0.5 + 200…400 × 6.25) and 9,000 × 6.25, 4 × (3 × 5 + 2 × 25), a million tokens each
  assert.match(texts(".cv-diagnosis li")[0] ?? "", /\$0\.076/);
});

test("output is called an estimate if the file has only a part of the count", async () => {
  await openAt("#call=2", session(4, { stop_reason: "" }));
  assert.ok(texts(".cv-legend").join().includes(words.estimate));
  await openAt("#call=2", session(4));
  assert.ok(!texts("section").join().includes(words.estimate));
});

test("without a known price there are no dollars and no cost chart", async () => {
  await openAt("", session(4));
  assert.equal(elements(".cv-chart").length, 3);
  await openAt("", session(4, { model: "claude-opus-5-9" }));
  assert.doesNotMatch(texts("section").join(), /\$\d/);
  assert.equal(elements(".cv-chart").length, 2);
});

test("a request is listed with its calls and cost, marked in the chart, and leads to its first call", async () => {
  await openAt("#call=1", session(5));
  const titles = texts(".cv-chart svg title").map((title) => title.trim());
  for (const label of ["Look at server.ts and port 8443.", "Now the tests."]) assert.ok(titles.includes(label), label);
  const request = buttonWith(/^Now the tests/);
  assert.match(request.textContent, /3 calls · \$0\.07/);
  request.click();
  assert.equal(heading(), words.atRequest(3, 5));
  assert.ok(texts(".cv-detail").join().includes(words.requestOf(2, "Now the tests.")));
});

test("repeated reads are listed as one row that opens each of them, but not two pages or two long paths", async () => {
  await openAt("#call=4", session(4));
  buttonWith(/server\.ts × 3/).click();
  assert.equal(elements(".cv-reader .cv-rows li").length, 3);
  const long = (name: string) => ({ file_path: `/app/${"deep/".repeat(30)}${name}` });
  const calls = [{ file_path: "/a.ts" }, { file_path: "/a.ts", offset: 900 }, long("b.ts"), long("c.ts")];
  const rounds = calls.flatMap((input, i) => [
    claude(1, billed(`m${i}`, [0, 9_000, 3, 8], use(`t${i}`, "Read", input))),
    claude(1, user([result(`t${i}`)])),
  ]);
  await openAt(
    "",
    linesOf(claude(0, user("Read.")), ...rounds, claude(2, billed("m9", [0, 9_500, 3, 8], text("Ok.")))),
  );
  assert.ok(texts(".cv-diagnosis").join().includes(words.diagnosis.once));
  assert.doesNotMatch(texts(".cv-rows").join(), /×/);
  for (const name of ["b.ts", "c.ts"]) assert.ok(texts(".cv-rows").join().includes(name), name);
});

test("both sides of a compaction add up, and what nothing names after it is listed", async () => {
  await openAt("#compaction=1", session(4));
  assert.equal(heading(), words.atCompaction(5, 4));
  const [before, after] = elements(".cv-sides .cv-strip").map(({ style }) => parseFloat(style.width));
  assert.ok(before === 100 && after && after < 100, `drawn ${before}% and ${after}% wide`);
  const sides = elements(".cv-sides > div");
  assert.equal(sides.length, 2);
  for (const { textContent } of sides) {
    const numbers = (textContent.match(/[\d,]+(?= tokens)/g) ?? []).map((each) => +each.replace(/,/g, ""));
    const [total = 0, ...parts] = numbers;
    assert.ok(Math.abs(sum(parts) - total) < 3, textContent);
  }
  assert.deepEqual(texts(".cv-lost button"), ["retryLimit", "8443"]); // server.ts is in the summary
  buttonWith(/^8443$/).click();
  assert.deepEqual(texts(".cv-reader mark"), ["8443"]);
});

test("the list of sessions is sorted by the time it shows, with subagents below their session and costs", async () => {
  const row = (file: string, time: number, parent?: string): ListedSession => {
    return { file, parent, time, request: file, calls: 1, compactions: 0, dollars: time / 100 };
  };
  const rows = [row("old", 1), row("child", 9, "old"), row("new", 2)].map((each) => `${JSON.stringify(each)}\n`);
  globalThis.fetch = async () => new Response(rows.join(""));
  mount(main, { served: { file: "old", isOpen: true } });
  elements("details")[0]?.dispatchEvent(new Event("toggle"));
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(texts(".cv-sessions .cv-name"), ["new", "old", "child"]);
  assert.ok(texts(".cv-sessions").join().includes("$0.020"));
});

// --- moving from step to step ----------------------------------------------------------------------------------------

Object.assign(HTMLElement.prototype, { getBoundingClientRect: () => ({ left: 0, top: 0, width: 800 }) });
const ARROW = 56 + (4 / 6) * 730; // where the compaction of six calls is
const pointAt = (chart: HTMLElement, type: string, clientX: number, more: object = {}) =>
  chart.dispatchEvent(Object.assign(new Event(type), { clientX, ...more }));

test("links of the diagnosis and arrow keys change the step and the address, and the open block stays open", async () => {
  await openAt("", session(6));
  elements(".cv-diagnosis a")[1]?.click();
  assert.deepEqual([heading(), address.hash], [words.atRequest(5, 6), "#call=5"]);
  buttonWith(/^before call 5/).click();
  assert.equal(address.hash, "#compaction=1");
  press("ArrowDown");
  press("ArrowDown");
  assert.match(texts(".cv-reader h4").join(), /Look at server\.ts/);
  press("ArrowLeft");
  assert.equal(address.hash, "#call=3");
  assert.match(texts(".cv-reader h4").join(), /Look at server\.ts/);
});

test("a click near a compaction's arrow opens it, and the slider's thumb is below the cursor", async () => {
  await openAt("#call=2", session(6));
  const chart = elements(".cv-chart")[0] ?? assert.fail();
  const style = elements("input[type=range]")[0]?.style ?? assert.fail();
  const cursor = parseFloat(elements(".cv-cursor")[0]?.style.left ?? "");
  const [left, width] = [parseFloat(style.marginLeft), parseFloat(style.width)];
  assert.ok(Math.abs(left + 8 + (width - 16) / 5 - cursor) < 0.01, `${left} ${width} ${cursor}`); // call 2 of 6
  pointAt(chart, "click", ARROW + 3);
  assert.equal(heading(), words.atCompaction(5, 6));
  pointAt(chart, "click", ARROW + 23);
  assert.equal(heading(), words.atRequest(5, 6));
});

test("the layer under the pointer is named and marked in the legend, and a drag zooms until all calls are asked for", async () => {
  await openAt("#call=2", session(6));
  const chart = elements(".cv-chart")[0] ?? assert.fail();
  pointAt(chart, "pointermove", ARROW + 23, { clientY: 255, buttons: 0 });
  const [marked = "", ...none] = texts(".cv-marked").map((name) => name.replace("■", "").trim());
  assert.deepEqual([marked, none], [words.kinds.unexplained, []]);
  assert.ok(texts(".cv-value").join().includes(marked));
  pointAt(chart, "pointerdown", ARROW + 3);
  pointAt(chart, "pointerup", ARROW + 240);
  assert.equal(heading(), words.atRequest(5, 6));
  assert.deepEqual(callsOnAxis(), [5, 6]);
  press("ArrowLeft");
  assert.equal(heading(), words.atRequest(4, 6));
  assert.deepEqual(callsOnAxis(), [4, 5], "the chart moves along");
  buttonWith(new RegExp(words.zoomOut)).click();
  assert.deepEqual(callsOnAxis(), [1, 2, 3, 4, 5, 6]);
});

test("the browser keeps its own shortcuts", async () => {
  await openAt("#call=2", session(3));
  assert.equal(press("ArrowLeft", { altKey: true }).defaultPrevented, false);
  assert.equal(heading(), words.atRequest(2, 3));
});

// --- a file that grows -----------------------------------------------------------------------------------------------

test("when a session grows, the open step stays, but the newest call is followed; a new file starts over", async () => {
  await openAt("#call=2", session(3));
  press("ArrowDown");
  const [block] = texts(".cv-reader h4").map((each) => each.replace(/[\d,]+ tokens/, ""));
  await show(session(6), false);
  assert.equal(heading(), words.atRequest(2, 6));
  assert.ok(texts(".cv-status").join().includes(words.newest));
  assert.ok(block && texts(".cv-reader h4")[0]?.startsWith(block), block);
  press("End");
  await show(session(7), false);
  assert.equal(heading(), words.atRequest(7, 7));
  assert.equal(texts(".cv-status").join(), words.following);
  address.hash = "";
  await show(session(2));
  assert.deepEqual([heading(), texts(".cv-reader h4")], [words.atRequest(2, 2), []]);
});
