/** The tables of bench/speed.ts, from figures that are made up here; what it measures is no matter of tests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Speed, speedTables } from "../bench/speed.ts";

const speed: Speed = {
  layer1: [
    { tokens: 50_000, below: 0.1, waiting: 0.25, clearing: 0.2 },
    { tokens: 1_000_000, below: 2, waiting: 5, clearing: 4 },
  ],
  rounds: {
    cleared: 3,
    compacted: 1,
    marks: [
      { rounds: 1_000, time: 3.21, cpu: 1.5, resident: 120_000_000, heap: 20_000_000 },
      { rounds: 10_000, time: 3.21, cpu: 1.8, resident: 132_000_000, heap: 20_000_000 },
    ],
  },
  append: { fresh: 0.1, large: 0.11 },
  resume: { time: 1_230, peak: 330_000_000 },
  plain: { time: 1_000, peak: 300_000_000 },
  start: { lessons: [{ name: "s01", tsx: 512.3, node: 123 }] },
};
/** Without the blanks that bring columns to one width. */
const rowsOf = (name: string, figures = speed) => speedTables[name]?.(figures).replace(/ +/g, " ").split("\n").slice(2);

test("the tables show each figure with its unit, and what is compared as a ratio", () => {
  assert.deepEqual(rowsOf("layer-1"), [
    "| 50,000 | 0.1 ms | 1.0× | 0.25 ms | 1.0× | 0.2 ms | 1.0× |",
    "| 1,000,000 | 2 ms | 20.0× | 5 ms | 20.0× | 4 ms | 20.0× |",
  ]);
  assert.deepEqual(rowsOf("rounds"), [
    "| 1,000 | 3.2 ms | 1.5 ms | 120 MB | 20 MB |",
    "| 10,000 | 3.2 ms | 1.8 ms | 132 MB | 20 MB |",
    "| ratio | 1.0× | 1.2× | 1.1× | 1.0× |",
    "",
    "Layer 1 cleared 3 times, layer 2 compacted 1 times.",
  ]);
  assert.deepEqual(rowsOf("transcript"), [
    "| append a message | 0.11 ms | to a new transcript | 0.1 ms | 1.1× |",
    "| resume: time | 1,230 ms | read and parse alone | 1,000 ms | 1.2× |",
    "| resume: memory at most | 330 MB | read and parse alone | 300 MB | 1.1× |",
  ]);
  assert.deepEqual(rowsOf("start"), ["| s01 | 512 ms | 123 ms |"]);
});

test("without a Node that runs TypeScript its column is left out, and the table says why", () => {
  const start = { missing: "there is none", lessons: [{ name: "s01", tsx: 512.3 }] };
  assert.deepEqual(rowsOf("start", { ...speed, start }), [
    "| s01 | 512 ms |",
    "",
    "Without tsx: not measured, since there is none.",
  ]);
});
