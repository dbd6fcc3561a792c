// Each lesson, written step by step: what the tool says after each.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { read, readLessons } from "../../lesson/source.ts";
import { check, firstRed } from "../grade.ts";
import { skeletonOf, stepsOf } from "../skeleton.ts";
import { folderOf, root } from "./root.ts";

const lessons = [...readLessons(root).values()].filter(({ name }) => (process.env.LESSONS ?? name).includes(name));

describe("step by step", { concurrency: 2 }, () => {
  for (const lesson of lessons) {
    const steps = stepsOf(lesson);
    const functionsTo = (i: number) => steps.slice(0, i).flatMap(({ functions }) => functions);

    test(`${lesson.name}: what is written is green, and the first step that is not is the one to write`, async () => {
      const file = join(folderOf(`steps-${lesson.name}`), basename(lesson.file));
      const kept = { stepsDone: 0, greenTexts: {} };
      const patience = 60_000;
      for (const [i, { name }] of steps.entries()) {
        const code = read(skeletonOf(lesson, functionsTo(i)));
        const failure = await firstRed({ lesson, code, patience }, kept);
        assert.deepEqual([failure?.state, failure?.step], ["red", name], failure?.test);
      }
      writeFileSync(file, readFileSync(join(root, lesson.file)));
      const stepsOnly = true; // all tests run on a right solution, and in npm test
      const { state, failure, stepsDone, typeErrors } = await check(lesson, file, kept, { patience, stepsOnly });
      assert.deepEqual([state, failure, stepsDone, typeErrors], ["green", undefined, steps.length, []]);
    });
  }
});

test("what a reader begins with, and has after each step, has the right types", () => {
  const folder = folderOf("types");
  for (const lesson of lessons) {
    const steps = stepsOf(lesson);
    for (const i of steps.keys()) {
      const written = steps.slice(0, i).flatMap(({ functions }) => functions);
      writeFileSync(join(folder, `${lesson.name}_after_${i}.ts`), skeletonOf(lesson, written));
    }
  }
  const { stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  assert.equal(stdout, "");
});
