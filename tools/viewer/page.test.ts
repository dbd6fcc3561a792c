/** The viewer's page in a linkedom document: what it shows, how to move in it, and a file that grows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { readTimeline } from "../trace/read-timeline.ts";
import { billed, boundary, claude, continued, linesOf, result, text, use, user } from "../trace/test-lines.ts";
import { WORDS } from "./languages.ts";
import { mount } from "./main.ts";
import type { ListedSession } from "./sessions-list.ts";
import type { WorkerReply } from "./worker.ts";

const words = WORDS.en;

// --- as much of a browser as the viewer needs ------------------------------------------------------------------------

const { document, window, HTMLElement, Event } = parseHTML("<html><body><main></main></body></html>");
/** The address, of which `entries` are the history. */
const entries = ["#"];
const address = {
  get hash() {
    return entries.at(-1) ?? "";
  },
  set hash(hash) {
    if (hash === entries.at(-1)) return;
    entries.push(hash);
    window.dispatchEvent(new Event("hashchange"));
  },
};
const history = {
  pushState: (_: null, __: string, hash: string) => entries.push(hash),
  replaceState: (_: null, __: string, hash: string) => entries.splice(-1, 1, hash),
  back: () => {
    entries.pop();
    window.dispatchEvent(new Event("hashchange"));
  },
};
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
Object.assign(globalThis, { document, window, location: address, history, ...classes });
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
let close = () => {};
async function openAt(hash: string, session: string): Promise<void> {
  close();
  entries.splice(0, entries.length, hash);
  close = mount(main, { source: { name: "session.jsonl", url: "http://localhost/session" } });
  await show(session);
}
function follow(link = elements(".cv-figures a")[0]): void {
  address.hash = link?.getAttribute("href") ?? "";
}
const heading = () => texts(".cv-detail h2")[0];
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

test("the four figures say what it cost, the largest prompt, the cold calls and what compactions took", async () => {
  await openAt("", session(5));
  const [cost = "", largest = "", cold = "", taken = ""] = texts(".cv-figures li");
  // 3 × (9,000 × 0.5 + 200…400 × 6.25) and twice 9,000 × 6.25, 5 × (3 × 5 + 2 × 25), a million tokens each
  for (const part of ["$0.13", "call 1 ($0.056)", words.figures.otherSummaries(1)])
    assert.ok(cost.includes(part), cost);
  for (const part of ["9,403", "call 4", "5% of the context window"]) assert.ok(largest.includes(part), largest);
  assert.ok(cold.includes(words.figures.hit) && cold.includes("1 prompt"), cold);
  assert.match(taken, /1 compaction, which took mostly .*results of Read \(\d+\)/);
});

test("a model call shows its size, its share of the window, its model and its cost by part", async () => {
  await openAt("#call=2", session(4));
  const [facts = ""] = texts(".cv-detail p");
  for (const part of ["9,203", "5%", "200,000", "$0.006", "claude-opus-4-6"]) assert.ok(facts.includes(part), facts);
  const detail = texts(".cv-detail").join();
  for (const part of ["9,000 tokens · $0.004", "200 tokens · $0.001"]) assert.ok(detail.includes(part), detail);
});

test("output is called an estimate if the file has only a part of the count", async () => {
  await openAt("#call=2", session(4, { stop_reason: "" }));
  assert.ok(texts(".cv-legend").join().includes(words.estimate));
  await openAt("#call=2", session(4));
  assert.ok(!texts("section").join().includes(words.estimate));
});

test("without a known price there are no dollars and no cost chart", async () => {
  await openAt("", session(4));
  assert.equal(elements(".cv-chart").length, 2);
  await openAt("", session(4, { model: "claude-opus-5-9" }));
  assert.doesNotMatch(texts("section").join(), /\$\d/);
  assert.ok(texts(".cv-figures").join().includes(words.figures.unpriced));
  assert.equal(elements(".cv-chart").length, 1);
});

test("a request is listed with its calls and cost, and leads to its first call", async () => {
  await openAt("#call=1", session(5));
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
  assert.doesNotMatch(texts(".cv-rows").join(), /×/);
  for (const name of ["b.ts", "c.ts"]) assert.ok(texts(".cv-rows").join().includes(name), name);
});

test("a compaction says how much it took of each kind, in its colour, and which paths nothing names after it", async () => {
  const other = user("See src/lost.ts and /app/src/lost.ts.");
  await openAt("#compaction=1", linesOf(claude(0, other)) + session(4));
  assert.equal(heading(), words.atCompaction(5, 4));
  const [taken, added] = elements(".cv-detail .cv-legend");
  assert.match(taken?.textContent ?? "", /results of Read \d+/);
  assert.match(taken?.innerHTML ?? "", /var\(--cv-result-0\)/);
  assert.match(added?.textContent ?? "", /summary \d+/);
  const [before, after] = elements(".cv-strip").map(({ style }) => parseFloat(style.width));
  assert.ok(before === 100 && after && after < 100, `drawn ${before}% and ${after}% wide`);
  assert.deepEqual(texts(".cv-lost li"), ["/app/src/lost.ts"]); // server.ts is in the summary
  assert.doesNotMatch(texts(".cv-detail").join(), /retryLimit|8443/);
});

test("the list of sessions is sorted by the time it shows, with subagents below their session and costs", async () => {
  const row = (file: string, time: number, parent?: string): ListedSession => {
    return { file, parent, time, request: file, calls: 1, compactions: 0, dollars: time / 100 };
  };
  const rows = [row("old", 1), row("child", 9, "old"), row("new", 2)].map((each) => `${JSON.stringify(each)}\n`);
  globalThis.fetch = async () => new Response(rows.join(""));
  close();
  close = mount(main, { served: { file: "old", opened: "file", count: 3, isOpen: true } });
  elements("details")[0]?.dispatchEvent(new Event("toggle"));
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(texts(".cv-sessions .cv-name"), ["new", "old", "child"]);
  assert.ok(texts(".cv-sessions").join().includes("$0.020"));
  buttonWith(/^new/).click();
  assert.equal(address.hash, "#file=new");
  assert.deepEqual(texts("h1"), ["new"]);
});

// --- moving from step to step ----------------------------------------------------------------------------------------

Object.assign(HTMLElement.prototype, { getBoundingClientRect: () => ({ left: 0, top: 0, width: 800 }) });
const ARROW = 56 + (4 / 6) * 730; // where the compaction of six calls is
const pointAt = (chart: HTMLElement, type: string, clientX: number, more: object = {}) =>
  chart.dispatchEvent(Object.assign(new Event(type), { clientX, ...more }));

test("links, lists and blocks lead to addresses, and Back returns to the one before", async () => {
  await openAt("#", session(6));
  follow();
  buttonWith(/^before call 5/).click();
  const strip = elements(".cv-strip")[0];
  [...(strip?.querySelectorAll("button") ?? [])][1]?.click();
  assert.deepEqual([...entries], ["#", "#call=1", "#compaction=1", "#compaction=1&block=1"]);
  assert.match(texts(".cv-reader h4").join(), /Look at server\.ts/);
  history.back();
  assert.deepEqual(texts(".cv-reader h4"), []);
  history.back();
  assert.equal(heading(), words.atRequest(1, 6));
  history.back();
  assert.equal(heading(), words.atRequest(6, 6), "the largest prompt");
});

test("a drag of the slider is one address, keeps the block open, and the next drag is another", async () => {
  await openAt("#call=1&block=1", session(6));
  const slider = elements("input[type=range]")[0] as HTMLInputElement;
  const slide = (call: number, type = "input") => {
    slider.value = `${call}`;
    slider.dispatchEvent(new Event(type));
  };
  slide(2);
  slide(3);
  slide(3, "pointerup");
  slide(4);
  assert.deepEqual([...entries], ["#call=1&block=1", "#call=3&block=1", "#call=4&block=1"]);
  assert.equal(heading(), words.atRequest(4, 6));
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

// --- a file that grows -----------------------------------------------------------------------------------------------

test("when a session grows, the open step stays, but the newest call is followed; a new file starts over", async () => {
  await openAt("#call=2&block=1", session(3));
  await show(session(6), false);
  assert.equal(heading(), words.atRequest(2, 6));
  assert.match(texts(".cv-reader h4").join(), /Look at server\.ts/);
  address.hash = "#call=6";
  await show(session(7), false);
  assert.deepEqual([heading(), address.hash], [words.atRequest(7, 7), "#call=7"]);
  await openAt("", session(2));
  assert.deepEqual([heading(), texts(".cv-reader h4")], [words.atRequest(2, 2), []]);
});
