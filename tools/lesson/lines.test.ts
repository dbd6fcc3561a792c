/** Whether the lines that the tools name are in the lessons. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { functionAround, LINE_NAMES, lineNamed } from "./lines.ts";
import { readLessons } from "./source.ts";

const lessons = readLessons(fileURLToPath(new URL("../..", import.meta.url)));
const s06 = lessons.get("s06") ?? assert.fail("there is no s06");

test("s06 has every line that a tool names", () => {
  for (const name of LINE_NAMES) lineNamed(name, s06);
  assert.throws(() => lineNamed("call", { ...s06, lines: [] }), /has no line with/);
});

test("a line knows its function", () => {
  assert.equal(functionAround(lineNamed("call", s06), s06), "agentLoop()");
  assert.equal(functionAround(lineNamed("pause", s06), s06), "");
});
