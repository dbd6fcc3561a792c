// Checks that find out quickly whether a changed lesson breaks practice. The slow tests are in tests/ (npm run test:practice).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readLessons } from "../lesson/source.ts";
import { skeletonOf, stepsOf, suiteOf } from "./skeleton.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
for (const lesson of readLessons(root).values()) {
  const steps = stepsOf(lesson);

  test(`${lesson.name}: writing the functions of all steps gives the lesson`, () => {
    assert.match(skeletonOf(lesson), /write me/);
    const all = steps.flatMap(({ functions }) => functions);
    assert.equal(skeletonOf(lesson, all), `${lesson.lines.join("\n")}\n`);
  });

  test(`${lesson.name}: the suite has tests for each step, and for no others`, () => {
    const suite = readFileSync(join(root, suiteOf(lesson.file)), "utf8");
    const named = new Set([...suite.matchAll(/^ *step\("(.*?)"\);$/gm)].map(([, name]) => name));
    assert.deepEqual([...named].filter((name) => name !== "program").sort(), steps.map(({ name }) => name).sort());
  });

  test(`${lesson.name}: each step points to a section of the page`, () => {
    const text = readFileSync(join(root, lesson.page), "utf8");
    const missing = steps.filter(({ page }) => !text.includes(`\n### ${page}\n`));
    assert.deepEqual(missing, []);
  });
}
