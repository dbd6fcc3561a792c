/** What breaks practice when a lesson changes; the rest, which takes minutes, is in tests/ (npm run test:practice). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readLessons } from "../docs/lessons.ts";
import { skeletonOf, stepsOf } from "./skeleton.ts";

for (const lesson of readLessons(fileURLToPath(new URL("../..", import.meta.url))).values()) {
  test(`${lesson.name}: each step has functions that the lesson has, and tests; written, they make the lesson`, () => {
    const steps = stepsOf(lesson).slice(0, -1); // without the late tests
    for (const { name, tests } of steps) assert.ok(tests.length > 0, name);
    assert.match(skeletonOf(lesson), /write me/);
    const all = steps.flatMap(({ functions }) => functions);
    assert.equal(skeletonOf(lesson, all), `${lesson.lines.join("\n")}\n`);
  });
}
