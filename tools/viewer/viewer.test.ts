/** What the viewer finds in a session, and its charts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { SUMMARY } from "../lesson/wording.ts";
import { sumOf } from "../prices.ts";
import { sum } from "../trace/numbers.ts";
import { readTimeline } from "../trace/read-timeline.ts";
import {
  billed,
  claude,
  claudeSession,
  continued,
  linesOf,
  openedByCompaction,
  own,
  reply,
  result,
  rewrite,
  summary,
  text,
  use,
  used,
  user,
} from "../trace/test-lines.ts";
import { drawChart, MARGIN } from "./context-chart.ts";
import { WORDS } from "./languages.ts";
import { largeFigures } from "./large-figures.ts";
import { lostPaths } from "./lost.ts";
import { seriesOf, sizesOf } from "./series.ts";

test("lost files are listed once, without routes, addresses and names, and on Windows as well", () => {
  const words =
    "In src/app.ts:12 the route /api/users/list answers parseUser, see https://example.com/docs/a.html, /work/src/app.ts and D:\\my-app\\src\\view.js.";
  const timeline = readTimeline(linesOf(claude(0, user(words)), continued(2)));
  const lost = lostPaths(timeline.compactions[0] ?? assert.fail());
  assert.deepEqual(lost, ["/work/src/app.ts", "D:/my-app/src/view.js"]);
});

// --- the four figures ------------------------------------------------------------------------------------------------

/** Reads a figure as one line of text, and the steps that it links to. */
function figuresOf(session: string) {
  return largeFigures(readTimeline(session), WORDS.en).map(({ about, value, unit = "", sentence }) => {
    const steps = sentence.flatMap((part) => (typeof part === "string" ? [] : part.step));
    const said = sentence.map((part) => (typeof part === "string" ? part : part.text)).join("");
    return { said: `${about}: ${value} ${unit}. ${said}`, steps };
  });
}

test("a cold call costs what wasn't read again, though it was there", () => {
  const [, , cold] = figuresOf(claudeSession);
  const paid = (4 * 1.25 * 13_001) / 1e6; // claude-opus-5-5: $4 a million, and 1.25 of that to write
  assert.ok(cold?.said.startsWith("Cold calls: 1 of 4."), cold?.said);
  assert.ok(cold?.said.includes(`$${paid.toFixed(3)}`) && cold.said.includes(WORDS.en.causes.changed), cold?.said);
  assert.deepEqual(cold?.steps, [{ call: 2 }]);
});

test("the figures name what fills the largest prompt, and what of it isn't in the file", () => {
  const read = claude(1, billed("m1", [0, 2_000, 3, 8], use("1", "Read", { file_path: "/a.ts" })));
  const results = claude(1, user([result("1", "x".repeat(30_000))]));
  const end = claude(2, billed("m2", [0, 12_000, 3, 8], text("Read.")));
  const [, { said } = assert.fail()] = figuresOf(linesOf(claude(0, user("Read.")), read, results, end));
  assert.match(said, /^Largest prompt: 12,003 tokens\. At call 2, 1% .*: 83% results of Read\. 17% isn't in the file/);
});

test("costs of summaries are counted if the file has them, and unknown prices, counts and summaries are admitted", () => {
  const say = WORDS.en.figures;
  const [sent, largest, cold] = figuresOf(linesOf(own(user("Hello.")), own(reply(text("Yes.")))));
  assert.ok(sent?.said.startsWith("Sent: about ") && sent.said.includes(say.unpriced), sent?.said);
  assert.ok(largest?.said.startsWith("Largest prompt: about "), largest?.said);
  assert.ok(cold?.said.includes(say.uncounted), cold?.said);
  const model = "claude-sonnet-5-5";
  const asked = [used([0, 0, 1_000, 1_000], { model }), own(reply(text("Yes.")))];
  const summarized = [used([0, 0, 1_000, 1_000], { model }), rewrite("auto", [summary])];
  const other = user([text(`${SUMMARY} Transcript: t.jsonl]\n\nMore.`)]);
  const [cost] = figuresOf(linesOf(own(user("Hello.")), ...asked, ...summarized, rewrite("auto", [other])));
  // $2 and $10 a million
  for (const part of ["$0.024", say.summaries(1, "$0.012"), say.otherSummaries(1)])
    assert.ok(cost?.said.includes(part), cost?.said);
});

test("a compaction whose messages aren't in the file took what isn't in the file", () => {
  const [, , , { said } = assert.fail()] = figuresOf(openedByCompaction);
  assert.match(said, /^Taken by compactions: 929,657 tokens\. .* mostly what isn't in the file \(9\d\d,\d+\)/);
});

test("the series of each prompt add up to its size", () => {
  const timeline = readTimeline(claudeSession);
  const names = seriesOf(timeline).map(({ kind, tool }) => tool ?? kind);
  assert.deepEqual(names, ["unexplained", "summary", "request", "reply", "call", "Read", "Bash"]);
  const prompts = timeline.modelCalls.map((modelCall) => sizesOf(timeline, modelCall));
  for (const [i, sizes] of prompts.entries())
    assert.ok(Math.abs(sum(sizes) - (timeline.modelCalls[i]?.tokens ?? 0)) < 1, `${sizes}`);
  const read = prompts[1]?.[names.indexOf("Read")] ?? 0;
  assert.ok(read > 3_500 && read < 4_000, `${read}`);
});

// --- charts ----------------------------------------------------------------------------------------------------------

/** Draws a chart and reads the top of its axis and its texts. */
function chartOf(session: string, view: "context" | "cost") {
  const { document } = parseHTML("<html></html>");
  const timeline = readTimeline(session);
  const chart = drawChart(timeline, { document, width: 800, words: WORDS.en, view });
  const texts = [...chart.querySelectorAll("text")].map(({ textContent }) => textContent);
  return { timeline, top: Math.max(...(chart.scale("y")?.domain ?? [])), texts, chart };
}

test("the axis spans the prompts, but neither a distant window nor what came before the file", () => {
  const { top } = chartOf(claudeSession, "context");
  assert.ok(top < 14_000, `${top}`);
  const opened = chartOf(openedByCompaction, "context");
  assert.ok(opened.top < 75_000, `the largest prompt has 69,002, not ${opened.top}`);
});

test("in a long session calls share columns, but the most expensive call is drawn, and signs don't overlap", () => {
  const calls = Array.from({ length: 2_000 }, (_, i) => {
    const sizes = i % 2 === 0 ? [50_000, 10, 3, 10] : [0, i === 1_001 ? 90_000 : 50_000, 3, 10];
    return [claude(i, user(`Request ${i}.`)), claude(i, billed(`m${i}`, sizes, text("Yes.")))];
  });
  const session = linesOf(...calls.flat());
  const { timeline, top, chart, texts } = chartOf(session, "cost");
  const largest = Math.max(...timeline.modelCalls.map(({ cost }) => sumOf(cost)));
  assert.deepEqual([top, texts.includes(`$${largest.toFixed(2)}`)], [largest, true]);
  const paths = [...chart.querySelectorAll("path[fill^='var(--cv']")].map((path) => path.getAttribute("d") ?? "");
  assert.match(paths.join(), new RegExp(`,${MARGIN.top}L`), "the expensive call reaches the top");
  const signs = chartOf(session, "context").chart.querySelectorAll('g[fill="var(--cv-cold)"] path').length;
  assert.ok(signs > 30 && signs <= 60, `${signs} of 1,000 cold calls are marked`);
});
