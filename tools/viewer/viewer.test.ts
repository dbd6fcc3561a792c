/** What the viewer finds in a session, and its charts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
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
import { diagnose } from "./diagnosis.ts";
import { WORDS } from "./languages.ts";
import { lostIn } from "./lost.ts";
import { sentencesOf } from "./sentences.ts";
import { seriesOf, sizesOf } from "./series.ts";

test("lost files are listed once and first, without routes, addresses and status codes", () => {
  const words =
    "In src/app.ts:12 the route /api/users/list answers 404 on port 8443, see https://example.com/docs/a.html and /work/src/app.ts.";
  const timeline = readTimeline(linesOf(claude(0, user(words)), continued(2)));
  const lost = lostIn(timeline.compactions[0] ?? assert.fail()).map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(lost, ["paths /work/src/app.ts", "values 8443"]);
});

// --- the diagnosis ---------------------------------------------------------------------------------------------------

test("the diagnosis adds up what the calls cost and what the cache misses cost", () => {
  const { dollars = 0, sent, missed, dearest, calls } = diagnose(readTimeline(claudeSession));
  assert.deepEqual([calls, sent], [4, 9_003 + 13_001 + 13_201 + 8_701]);
  // claude-opus-5-5: $4 and $20 a million; writing takes 1.25 of that, reading 0.05
  const million = 4 * (6 + 1.25 * (9_000 + 4_000 + 13_200 + 700) + 0.05 * (9_000 + 8_000)) + 20 * (50 + 60 + 20 + 20);
  assert.ok(Math.abs(dollars - million / 1e6) < 1e-9, `${dollars} ${million / 1e6}`);
  assert.deepEqual([missed.tokens, missed.causes.length, dearest], [13_001, 1, 2]);
  const [cause] = missed.causes;
  assert.deepEqual([cause?.why, cause?.count, cause?.at], ["changed", 1, 2]);
  assert.ok(Math.abs((missed.dollars ?? 0) - (4 * 1.25 * 13_001) / 1e6) < 1e-5, `${missed.dollars}`);
});

test("the diagnosis names what fills the largest prompt, and the file whose repeated reads took the most", () => {
  const files = [9_000, 2_000, 500, 500, 2_000, 1];
  const paths = ["/big.ts", "/a.ts", "/b.ts", "/b.ts", "/a.ts", "/c.ts"];
  let tokens = 1_000;
  const rounds = files.flatMap((size, i) => {
    const call = use(`${i}`, "Read", { file_path: paths[i] });
    const round = [
      claude(1, billed(`m${i}`, [0, tokens, 3, 8], call)),
      claude(1, user([result(`${i}`, "x".repeat(size))])),
    ];
    tokens += Math.round((size + 200) / 4);
    return round;
  });
  const end = claude(2, billed("m9", [0, tokens, 3, 8], text("Read.")));
  const { top, largest, readAgain } = diagnose(readTimeline(linesOf(claude(0, user("Read.")), ...rounds, end)));
  const [first, second] = top;
  assert.deepEqual([first?.series, second?.series], [{ kind: "result", tool: "Read" }, { kind: "unexplained" }]);
  assert.equal(largest, 6);
  assert.equal(Math.round(10 * (first?.share ?? 0)), 8);
  assert.deepEqual([readAgain?.path, readAgain?.count, readAgain?.at], ["/a.ts", 2, 5]);
});

test("the diagnosis has the cost of summaries if the file does, and admits unknown prices, counts and summary costs", () => {
  const unknown = diagnose(readTimeline(linesOf(own(user("Hello.")), own(reply(text("Yes."))))));
  assert.deepEqual([unknown.calls, unknown.dollars, unknown.isCounted], [1, undefined, false]);
  const [cost, misses] = sentencesOf(unknown, WORDS.en).map(({ sentence }) => sentence.join(""));
  assert.ok(cost?.includes(WORDS.en.diagnosis.unpriced), cost);
  assert.equal(misses, WORDS.en.diagnosis.uncounted);
  const { dollars = 0, sent, summaries } = diagnose(readTimeline(openedByCompaction));
  assert.ok(dollars > 0);
  assert.deepEqual([sent, summaries], [69_002, { count: 1, dollars: undefined }]);
  const paid = used([0, 0, 1_000, 1_000], { model: "claude-sonnet-5-5" });
  const known = diagnose(readTimeline(linesOf(own(user("Hello.")), paid, rewrite("auto", [summary]))));
  assert.deepEqual(known.summaries, { count: 1, dollars: (2 * 1_000 + 10 * 1_000) / 1e6 });
});

test("a cache miss is explained with how long the cache lives and how much was read from it", () => {
  const late = [claude(30, user("More.")), claude(30, billed("m5", [0, 8_800, 1, 1], text("More.")))];
  const { missed, ...modelCall } = readTimeline(claudeSession + linesOf(...late)).modelCalls[4] ?? assert.fail();
  const sentence = missed ? WORDS.en.missed(missed, modelCall) : "";
  assert.match(sentence, /17 min had passed .* lives 5 min\. None of 8,801 tokens/);
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
    const sizes = i === 1_001 ? [0, 50_000, 3, 10] : [50_000, 10, 3, 10];
    return [claude(i, user(`Request ${i}.`)), claude(i, billed(`m${i}`, sizes, text("Yes.")))];
  });
  const session = linesOf(...calls.flat());
  const { timeline, top, chart, texts } = chartOf(session, "cost");
  const largest = Math.max(...timeline.modelCalls.map(({ cost }) => sumOf(cost)));
  assert.deepEqual([top, texts.includes("$0.25")], [largest, true]);
  const paths = [...chart.querySelectorAll("path[fill^='var(--cv']")].map((path) => path.getAttribute("d") ?? "");
  assert.match(paths.join(), new RegExp(`,${MARGIN.top}L`), "the expensive call reaches the top");
  const titles = [...chartOf(session, "context").chart.querySelectorAll("title")].length;
  assert.ok(titles > 30 && titles <= 60, `${titles} of 2,000 requests are marked`);
});
