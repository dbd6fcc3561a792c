/** The drawings that the viewer and the pages share. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawBar, drawChange } from "./bar.ts";
import { drawChart } from "./chart.ts";
import { html } from "./markup.ts";
import type { Segment } from "./parts.ts";

const segment = (key: string, size: number, part: Segment["part"] = "result"): Segment => ({ key, size, part });

/** The parts of rectangles with their places and widths. */
const rectsIn = (markup: string) =>
  [...markup.matchAll(/<rect fill="var\(--(\w+)\)" x="([\d.]+)" width="([\d.]+)"/g)].map(([, ...all]) => all.join(" "));

test("a value is escaped unless it's markup, also in lists and attributes", () => {
  const { markup } = html`<a title="${'"<'}">${["&", html`<b>${"it's"}</b>`, undefined]}\n</a>`;
  assert.equal(markup, '<a title="&#34;&#60;">&#38;<b>it&#39;s</b>\n</a>');
});

test("a bar has a segment for each block, except that small neighbours are joined in the colour of the largest", () => {
  const small = [segment("b", 1), segment("c", 2, "reply"), segment("d", 1)];
  const segments = [segment("a", 500, "request"), ...small, segment("e", 496)];
  const describe = (all: Segment[]) => ({ title: all.map(({ key }) => key).join("+"), href: `/${all[0]?.key}` });
  const { markup } = drawBar({ segments, total: 1_000, height: 9, describe });
  assert.deepEqual(rectsIn(markup), ["request 0.0 500.0", "reply 500.0 4.0", "result 504.0 496.0"]);
  assert.match(markup, /<a href="\/b" tabindex="-1">.*<title>b\+c\+d<\/title>/);
});

test("ribbons lead from each block to what it became, and from all that is gone to the summary", () => {
  const before = [segment("a", 100, "request"), segment("b", 300), segment("c", 400), segment("d", 200)];
  const ribbonsTo = (after: Segment[]) => {
    const { markup } = drawChange({ before, after, total: 1_000 });
    return [...markup.matchAll(/<path fill="var\(--(\w+)\)" opacity="0.18" d="(.*?)"/g)].map(
      ([, part, path]) => `${part} ${path}`,
    );
  };
  const reply = segment("r", 9, "reply"); // new, but no summary
  assert.deepEqual(ribbonsTo([segment("a", 100, "request"), segment("b", 10), segment("d", 200), reply]), [
    "request M0,0H100L100,1H0Z",
    "result M100,0H400L110,1H100Z",
    "result M800,0H1000L310,1H110Z",
  ]);
  const summarized = ribbonsTo([segment("a", 100, "request"), segment("s", 50, "summary"), segment("d", 200)]);
  assert.equal(summarized[0], "summary M100,0H800L150,1H100Z");
});

test("a chart has an area for each part over those above it, a threshold, marks on the columns and labels", () => {
  const columns = [
    { sizes: { reply: 50 }, title: "first", href: "/1" },
    { sizes: { reply: 50, result: 50 }, title: "second", href: "/2" },
  ];
  const marks = [{ after: 1, label: "1", title: "a compaction", href: "/c" }];
  const { markup } = drawChart({ columns, marks, threshold: 200, ends: ["call 1", "call 2"] });
  const areas = [...markup.matchAll(/<path fill="var\(--(\w+)\)" d="(.*?)"/g)].map(
    ([, part, path]) => `${part} ${path}`,
  );
  const [all, bottom] = areas; // the axis is at 204
  assert.deepEqual([all, bottom], ["result M0,204V153.0H1V102.0H2V204Z", "reply M0,204V153.0H1V153.0H2V204Z"]);
  assert.match(markup, /<line class="threshold" x2="100%" y1="24"/);
  assert.match(markup, /<a href="\/c" tabindex="-1"><g class="mark"><circle cx="50.00%" cy="113"/);
  assert.match(markup, /<a href="\/2" tabindex="-1"><rect class="column" x="1" width="1".*?<title>second<\/title>/);
});
