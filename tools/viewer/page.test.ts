/** The viewer as a page, on a document of linkedom: what can be read and chosen, and a file that grows. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseHTML } from "linkedom";
import { readTimeline } from "../trace/read-timeline.ts";
import { mount, type Options } from "./main.ts";
import type { Listed } from "./sessions-list.ts";
import type { Answer, Question } from "./worker.ts";

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "viewer-"));
after(() => rmSync(folder, { recursive: true }));
const linesOf = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

// --- a browser, as far as the viewer needs one -----------------------------------------------------------------------

const { document, window, HTMLElement, Event } = parseHTML("<html><body><main></main></body></html>");
const address = { hash: "" };
const history = { state: null, replaceState: (_: null, __: string, hash: string) => Object.assign(address, { hash }) };
const answers: ((answer: Answer) => void)[] = [];
class Worker {
  addEventListener(type: string, listener: (event: { data: Answer }) => void) {
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
Object.assign(globalThis, { document, location: address, history, ...classes });
Object.assign(HTMLElement.prototype, { scrollTo() {}, scrollIntoView() {}, clientWidth: 800 });
const main = document.querySelector("main") ?? assert.fail();
const find = (selector: string) => [...main.querySelectorAll(selector)] as HTMLElement[];
const text = (selector: string) => find(selector).map(({ textContent }) => textContent);
const button = (label: RegExp) =>
  find("button").find(({ textContent }) => label.test(textContent)) ?? assert.fail(`${label}`);
const settle = () => new Promise((resolve) => setTimeout(resolve));

async function show(session: string, isNew = true): Promise<void> {
  answers[0]?.({ ...readTimeline(session), isNew });
  await settle(); // the chart is drawn
}
async function open(session: string, options: Options = {}): Promise<void> {
  mount(main, { source: { name: "session.jsonl", url: "http://localhost/session" }, ...options });
  await show(session);
}
async function press(key: string): Promise<void> {
  const event = Object.assign(new Event("keydown", { bubbles: true, cancelable: true }), { key });
  (find(".cv-detail")[0] ?? main).dispatchEvent(event);
  await settle();
}

// --- a session -------------------------------------------------------------------------------------------------------

type Options6 = { model?: string; isFinal?: boolean };
/** Of Claude Code: each call reads a file; the fifth follows a compaction. */
function session(calls: number, { model = "claude-opus-4-6", isFinal = true }: Options6 = {}): string {
  let parentUuid: string | null = null;
  const line = (type: string, minute: number, message: object | undefined, more: object = {}) => {
    const uuid = `${type}-${minute}`;
    const made = { type, uuid, parentUuid, timestamp: new Date(60_000 * minute).toISOString(), message, ...more };
    parentUuid = uuid;
    return made;
  };
  const lines: object[] = [
    line("user", 0, { role: "user", content: `Look at server.ts and port 8443.${" ".repeat(400)}` }),
  ];
  for (let i = 1; i <= calls; i++) {
    const usage = { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: i > 1 && i !== 5 ? 9_000 : 0 };
    Object.assign(usage, { cache_creation_input_tokens: i > 1 && i !== 5 ? 100 * i : 9_000 });
    const content = [{ type: "tool_use", id: `t${i}`, name: "Read", input: { file_path: "/app/server.ts" } }];
    const stop_reason = isFinal ? "tool_use" : null;
    lines.push(line("assistant", i, { role: "assistant", id: `m${i}`, model, usage, content, stop_reason }));
    const result = { type: "tool_result", tool_use_id: `t${i}`, content: `const retryLimit = ${i};\n`.repeat(20) };
    lines.push(line("user", i + 0.5, { role: "user", content: [result] }));
    if (i === 2) lines.push(line("user", 2.7, { role: "user", content: "Now the tests." }));
    if (i !== 4) continue;
    lines.push(line("system", 4.6, undefined, { compactMetadata: { trigger: "auto" } }));
    const summary = { role: "user", content: "This session is continued: server.ts was read." };
    lines.push(line("user", 4.7, summary, { isCompactSummary: true }));
  }
  return linesOf(...lines);
}

// --- what it says ----------------------------------------------------------------------------------------------------

test("a model call says its share of the window, its model, what it cost and what for; the session, the sum", async () => {
  address.hash = "#call=2";
  await open(session(4));
  const [facts = ""] = text(".cv-detail p");
  assert.match(facts, /^9,203 tokens · 5% of the context window 200,000 · \$0\.006 · claude-opus-4-6 · /);
  assert.match(
    text(".cv-detail").join(),
    /read from the cache 9,000 tokens · \$0\.004■ written to the cache 200 tokens · \$0\.001/,
  );
  // 3 × (9,000 × 0.5 + 200…400 × 6.25) and 9,000 × 6.25, 4 × (3 × 5 + 2 × 25), a million tokens each
  assert.match(
    text(".cv-diagnosis li")[0] ?? "",
    /^The session cost \$0\.076, without 1 summary of unknown cost: 4 model calls sent/,
  );
  assert.match(text("footer").join(), /list prices of November 2026/);
  assert.equal(text(".cv-chart svg").length, 3);
});

test("kinds of content have one legend, cache and cost another, in colours of their own", async () => {
  address.hash = "";
  await open(session(6));
  const colours = find(".cv-plots .cv-legend").map((legend) =>
    [...legend.querySelectorAll("b")].map((swatch) => (swatch as HTMLElement).style.color),
  );
  const [kinds = [], paid = []] = colours;
  assert.deepEqual([colours.length, kinds.length > 3, paid.length], [2, true, 4]);
  const rules = text("style").join();
  const shownAs = (colour: string) => rules.split(`${colour.slice(4, -1)}:`)[1]?.split(/[;}]/)[0];
  const values = kinds.map(shownAs);
  assert.ok(!values.includes(undefined));
  for (const colour of paid) assert.ok(!values.includes(shownAs(colour)), colour);
});

test("it opens with the diagnosis: its sentences lead to the calls that they are about", async () => {
  address.hash = "";
  await open(session(6));
  const [cost = "", misses = "", filling = ""] = text(".cv-diagnosis li");
  assert.match(cost, /^The session cost \$\d.*6 model calls sent 5\d,\d+ tokens\. The most expensive is call \d\.$/);
  assert.match(
    misses,
    /^The prompt cache was never missed\. 1 prompt after a compaction had to be written to the cache: \$0\.0\d+\.$/,
  );
  assert.match(filling, /^Of the largest prompt, \d+% was .*, \d+% was .*\. \/app\/server\.ts was read 6 times/);
  const [, compaction] = find(".cv-diagnosis a");
  compaction?.click();
  assert.deepEqual([text(".cv-detail h3"), address.hash], [["At model call 5 of 6"], "#call=5"]);
});

test("output that the file has only a part of is estimated from the blocks, and called so", async () => {
  address.hash = "#call=2";
  await open(session(4, { isFinal: false }));
  assert.match(text(".cv-legend").join(), /output 3\d tokens · \$0\.001 · estimated from the blocks/);
  await open(session(4));
  assert.doesNotMatch(text("section").join(), /estimated from the blocks/);
});

test("a model without a known price has tokens, and no dollars", async () => {
  await open(session(4, { model: "claude-opus-5-9" }));
  assert.doesNotMatch(text("section").join(), /\$\d/);
  assert.match(text(".cv-diagnosis li")[0] ?? "", /^What the session cost is not known/);
  assert.equal(text(".cv-chart svg").length, 2);
});

test("requests are marked with their text, their calls and their cost, and lead there; no legend entry is 0", async () => {
  address.hash = "#call=1";
  await open(session(5));
  assert.match(button(/Now the tests/).textContent, /^Now the tests\.3 calls · \$0\.07\d?$/);
  const marks = text(".cv-chart svg title")
    .filter((title) => /^(Look|Now)/.test(title))
    .map((title) => title.trim());
  assert.deepEqual(marks, ["Look at server.ts and port 8443.", "Now the tests."]);
  button(/Now the tests/).click();
  assert.deepEqual(text(".cv-detail h3"), ["At model call 3 of 5"]);
  assert.match(text(".cv-detail").join(), /Request 2: Now the tests\./);
  await press("Home");
  assert.doesNotMatch(text(".cv-detail .cv-legend").join(), /results|(?<!\d)0 tokens/);
});

test("what is largest, and what was read more than once", async () => {
  address.hash = "#call=4";
  await open(session(4));
  const again = button(/Read \/app\/server\.ts × 3.* tokens · \d+%/);
  again.click();
  assert.equal(find(".cv-reader .cv-rows li").length, 3);
});

test("a compaction: both sides add up, with what is not in the file; what nothing names any more is listed", async () => {
  address.hash = "#compaction=1";
  await open(session(4));
  assert.deepEqual(text(".cv-detail h3"), ["At the compaction at the end"]);
  for (const side of find(".cv-sides > div")) {
    const [total = 0, ...parts] = (side.textContent.match(/[\d,]+(?= tokens)/g) ?? []).map(
      (each) => +each.replace(/,/g, ""),
    );
    assert.match(side.textContent, /not in the file/);
    assert.ok(Math.abs(parts.reduce((sum, part) => sum + part, 0) - total) < 3, side.textContent);
  }
  const lost = text(".cv-detail .cv-chips button");
  assert.deepEqual(lost.sort(), ["8443", "retryLimit"]); // server.ts is in the summary
  button(/^8443$/).click();
  assert.deepEqual(text(".cv-reader mark"), ["8443"]);
});

test("layer 1 and a summary are drawn apart; the legend names both", async () => {
  const demo = readFileSync(path("../docs/runs/demo.jsonl"), "utf8");
  const count = (mark: string) => demo.split(mark).length - 1;
  await open(demo);
  const strokes = new Set(find(".cv-chart svg line").map((line) => line.getAttribute("stroke")));
  assert.ok(strokes.has("var(--cv-disk)") && strokes.has("var(--cv-summarized)"), `${[...strokes]}`);
  assert.match(
    text(".cv-legend").join(),
    /compaction: what it took away.*layer 1: old results cleared|layer 1.*compaction/,
  );
  const compactions = `${count('"type":"compaction"')} compactions,`;
  assert.ok(text(".cv-status").join().includes(compactions), compactions);
});

test("the axis of a short session has whole numbers", async () => {
  await open(session(3));
  const [chart] = find(".cv-chart svg");
  const ticks = [...(chart?.querySelectorAll("text") ?? [])].map(({ textContent }) => textContent ?? "");
  assert.deepEqual(
    ticks.filter((tick) => /^[\d.]+$/.test(tick) && Number(tick) < 10 && tick !== "0"),
    ["1", "2", "3"],
  );
});

// --- going from step to step -----------------------------------------------------------------------------------------

test("arrow keys go on from a compaction; the address holds the step; the open block stays open", async () => {
  address.hash = "";
  await open(session(6));
  button(/^before call 5/).click();
  assert.equal(address.hash, "#compaction=1");
  await press("ArrowDown");
  await press("ArrowDown");
  assert.match(text(".cv-reader h4").join(), /Look at server\.ts/);
  await press("ArrowLeft");
  assert.equal(address.hash, "#call=3");
  assert.match(text(".cv-reader h4").join(), /^requests: Look at server\.ts/);
  const before = find(".cv-detail");
  await press("ArrowRight");
  assert.notEqual(find(".cv-detail")[0], before[0]);
  assert.match(text(".cv-reader h4").join(), /^requests: Look at server\.ts/);
});

test("the arrow of a compaction in the chart opens it; the cursor is in one line with the slider's thumb", async () => {
  address.hash = "#call=2";
  await open(session(6));
  const chart = find(".cv-chart")[0] ?? assert.fail();
  const style = find("input[type=range]")[0]?.style ?? assert.fail();
  const cursor = parseFloat(find(".cv-cursor")[0]?.style.left ?? "");
  const [left, width] = [parseFloat(style.marginLeft), parseFloat(style.width)];
  assert.ok(Math.abs(left + 8 + (width - 16) / 5 - cursor) < 0.01, `${left} ${width} ${cursor}`); // the second of six
  Object.assign(HTMLElement.prototype, { getBoundingClientRect: () => ({ left: 0, width: 800 }) });
  const x = 56 + (4 / 6) * 730 + 3; // beside the arrow, between the fourth and the fifth
  chart.dispatchEvent(Object.assign(new Event("click"), { clientX: x }));
  assert.deepEqual(text(".cv-detail h3"), ["At the compaction before call 5"]);
  chart.dispatchEvent(Object.assign(new Event("click"), { clientX: x + 20 }));
  assert.deepEqual(text(".cv-detail h3"), ["At model call 5 of 6"]);
});

// --- a file that grows -----------------------------------------------------------------------------------------------

test("while a session grows, the reader's place stays; who was at its end follows; a new file begins again", async () => {
  address.hash = "#call=2";
  await open(session(3));
  await press("ArrowDown");
  const [opened] = text(".cv-reader h4").map((heading) => heading.replace(/[\d,]+ tokens/, ""));
  await show(session(6), false);
  assert.deepEqual(text(".cv-detail h3"), ["At model call 2 of 6"]);
  assert.ok(opened && text(".cv-reader h4")[0]?.startsWith(opened), `${text(".cv-reader h4")} ${opened}`);
  await press("End");
  await show(session(7), false);
  assert.deepEqual(text(".cv-detail h3"), ["At model call 7 of 7"]);
  address.hash = "";
  await show(session(2));
  assert.deepEqual([text(".cv-detail h3"), text(".cv-reader h4")], [["At model call 2 of 2"], []]);
});

/** `npm run view` in a folder. */
async function serve(cwd: string, ...args: string[]) {
  const command = ["--import", import.meta.resolve("tsx"), path("view.ts"), ...args];
  const child = spawn(process.execPath, command, { cwd, env: { ...process.env, BROWSER: "none" } });
  const ended = new Promise((resolve) => child.on("close", resolve));
  const [, url = "", file = ""] = await new Promise<string[]>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (out: string) => resolve(/^(\S+) shows (.*);/.exec(out) ?? []));
  });
  const end = () => {
    child.kill();
    return ended;
  };
  const list = async (): Promise<Listed[]> => {
    const lines = await (await fetch(`${url}sessions`)).text();
    return lines
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  };
  return { url, file, end, list };
}

test("a real file is followed while it is written, and read anew when it shrinks; the end of the server is told", async () => {
  const file = join(folder, "growing.jsonl");
  writeFileSync(file, session(2));
  const { url, end } = await serve(folder, file);
  const said: Answer[] = [];
  let wake = () => {};
  let ask: (event: { data: Question }) => void = () => {};
  const post = (answer: Answer) => {
    said.push(answer);
    wake();
  };
  const self = { addEventListener: (_: string, listener: typeof ask) => Object.assign(worker, { ask: listener }) };
  const worker = { ask };
  Object.assign(globalThis, { self, postMessage: post });
  await import("./worker.ts");
  ask = worker.ask;
  const next = async () => {
    if (said.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    const answer = said.shift() ?? assert.fail();
    return "moments" in answer ? [answer.moments.length, answer.isNew] : answer;
  };
  ask({ data: { name: "growing.jsonl", url: `${url}session`, isLive: true } });
  assert.deepEqual(await next(), [2, true]);
  appendFileSync(file, session(3).slice(session(2).length));
  assert.deepEqual(await next(), [3, false]);
  writeFileSync(file, session(1));
  assert.deepEqual(await next(), [1, true]);
  await end();
  assert.ok(Object.hasOwn(Object(await next()), "error"));
});

test("npm run view opens the newest run, offline or not; a subagent's file is listed below its parent", async () => {
  const cwd = join(folder, "repo");
  const put = (name: string) => {
    mkdirSync(join(cwd, name, ".."), { recursive: true });
    const lines = [
      { message: { role: "user", content: `In ${name}.` }, state: {} },
      { message: { role: "assistant", content: "Done." }, state: {} },
    ];
    writeFileSync(join(cwd, name), linesOf(...lines));
  };
  put(".transcripts/transcript_100_7.jsonl");
  put(".offline/.transcripts/transcript_200_8.jsonl");
  put(".offline/.transcripts/tasks/transcript_201_8.jsonl");
  const { url, file, list, end } = await serve(cwd);
  assert.equal(file, ".offline/.transcripts/transcript_200_8.jsonl");
  const rows = await list();
  const shown = rows.map(({ file, parent, request, calls, compactions }) => [
    file,
    parent,
    request,
    calls,
    compactions,
  ]);
  const offline = ".offline/.transcripts/transcript_200_8.jsonl";
  const child = ".offline/.transcripts/tasks/transcript_201_8.jsonl";
  assert.deepEqual(shown, [
    [offline, undefined, `In ${offline}.`, 1, 0],
    [child, offline, `In ${child}.`, 1, 0],
    [".transcripts/transcript_100_7.jsonl", undefined, "In .transcripts/transcript_100_7.jsonl.", 1, 0],
  ]);
  const status = async (name: string) => (await fetch(`${url}session?file=${encodeURIComponent(name)}`)).status;
  assert.deepEqual([await status(child), await status("/etc/passwd")], [200, 404]);
  await end();
});

test("of Claude Code, too: a subagent's file is no session of its own, but opens", async () => {
  const cwd = join(folder, "claude");
  mkdirSync(join(cwd, "one", "subagents"), { recursive: true });
  writeFileSync(join(cwd, "one.jsonl"), session(2));
  const aside = session(1).replaceAll('"type":"user","uuid"', '"isSidechain":true,"type":"user","uuid"');
  const lines = aside.replaceAll('"type":"assistant","uuid"', '"isSidechain":true,"type":"assistant","uuid"');
  writeFileSync(join(cwd, "one", "subagents", "agent-a.jsonl"), lines);
  writeFileSync(join(cwd, "agent-b.jsonl"), lines.replace("{", '{"sessionId":"one",'));
  const { file, list, end } = await serve(cwd, cwd);
  assert.equal(file, join(cwd, "one.jsonl"));
  const rows = (await list()).map(({ file, parent, calls }) => [file.slice(cwd.length + 1), parent, calls]);
  assert.deepEqual(rows.sort(), [
    ["agent-b.jsonl", join(cwd, "one.jsonl"), 1],
    ["one.jsonl", undefined, 2],
    ["one/subagents/agent-a.jsonl", join(cwd, "one.jsonl"), 1],
  ]);
  await end();
});
