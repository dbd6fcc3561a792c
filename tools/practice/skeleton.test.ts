/** What breaks practice when a lesson changes; the rest, which takes minutes, is in tests/ (npm run test:practice). */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readLessons } from "../lesson/source.ts";
import { skeletonOf, stepsOf } from "./skeleton.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
for (const lesson of readLessons(root).values()) {
  const steps = stepsOf(lesson);

  test(`${lesson.name}: the steps have functions that the lesson has; written, they make the lesson`, () => {
    assert.match(skeletonOf(lesson), /write me/);
    const all = steps.flatMap(({ functions }) => functions);
    assert.equal(skeletonOf(lesson, all), `${lesson.lines.join("\n")}\n`);
  });

  test(`${lesson.name}: the tests name these steps and no others`, () => {
    const suite = readFileSync(join(root, lesson.file.replace(/^agents(.*)ts$/, "tests$1test.ts")), "utf8");
    const named = new Set([...suite.matchAll(/^ *step\("(.*?)"\);$/gm)].map(([, name]) => name));
    assert.deepEqual([...named].filter((name) => name !== "program").sort(), steps.map(({ name }) => name).sort());
  });

  test(`${lesson.name}: each step points to a section that the page has`, () => {
    const text = readFileSync(join(root, lesson.page), "utf8");
    const missing = steps.filter(({ page }) => !text.includes(`\n### ${page}\n`));
    assert.deepEqual(missing, []);
  });
}
