// Each lesson, written step by step: what turns green, and that each function left out turns something red.
// After a change of the suites, `UPDATE=1 npm run test:practice` writes the tests of each step to tests.json.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { readLessons } from "../../docs/lessons.ts";
import { IS_LATE, skeletonOf, stepsOf } from "../skeleton.ts";
import { exactly, runSuite } from "../suite.ts";
import { folder, root } from "./root.ts";

const TESTS = new URL("../tests.json", import.meta.url);
type TestsOfSteps = Record<string, Record<string, string[]>>;
const read = (): TestsOfSteps => JSON.parse(readFileSync(TESTS, "utf8"));
const found = read();
const lessons = [...readLessons(root).values()].filter(({ name }) => (process.env.LESSONS ?? name).includes(name));

for (const lesson of lessons) {
  const file = join(folder, basename(lesson.file));
  const steps = stepsOf(lesson).slice(0, -1);
  const functions = steps.flatMap((step) => step.functions);
  const prefix = `${lesson.name}: `;
  let early = "";

  /** The tests of the lesson that are green, and those that are red, when these functions are written. */
  async function run(written: string[], pattern: string) {
    writeFileSync(file, skeletonOf(lesson, written));
    const { results } = await runSuite(root, file, pattern, 60_000);
    assert.deepEqual(
      results.filter(({ message }) => message.startsWith("Stopped")),
      [],
    );
    const own = results.filter(({ name }) => name.startsWith(prefix) || !/^s\d\d: /.test(name));
    const names = (isGreen: boolean) => own.filter(({ ok }) => ok === isGreen).map(({ name }) => name);
    const late = own.filter(({ name, parent }) => IS_LATE.test(`${parent} ${name}`)).map(({ name }) => name);
    return { green: names(true), red: names(false), late };
  }

  describe(lesson.name, () => {
    test("when all is written, the file is the lesson, and all tests are green", async () => {
      assert.equal(skeletonOf(lesson, functions), readFileSync(join(root, lesson.file), "utf8"));
      const { green, red, late } = await run(functions, `^${prefix}|^(?!<root>|s\\d\\d: )`);
      assert.equal(new Set(green).size, green.length, "each name is there once");
      found[lesson.name] = { late };
      early = exactly(green.filter((name) => !late.includes(name)));
      assert.deepEqual(red, []);
    });

    test("after each step at least one more test is green, and none that was green is red", async () => {
      const tests = found[lesson.name] ?? {};
      let before = (await run([], early)).green;
      for (const [i, { name }] of steps.entries()) {
        const written = steps.slice(0, i + 1).flatMap((step) => step.functions);
        const { green } = await run(written, early);
        const lost = before.filter((each) => !green.includes(each));
        assert.deepEqual(lost, [], `red after ${name}`);
        tests[name] = green.filter((each) => !before.includes(each));
        before = green;
      }
      const idle = steps.filter(({ name }) => tests[name]?.length === 0).map(({ name }) => name);
      assert.deepEqual(idle, [], "steps with which nothing turns green");
    });

    for (const left of functions) {
      test(`without ${left} something is red`, async () => {
        const { name = "" } = steps.find((step) => step.functions.includes(left)) ?? {};
        const tests = found[lesson.name]?.[name] ?? []; // those that were just found
        assert.ok(tests.length > 0, name);
        const { red } = await run(
          functions.filter((name) => name !== left),
          exactly(tests),
        );
        assert.ok(red.length > 0);
      });
    }
  });
}

test("what a reader begins with, and has after each step, has the right types", () => {
  for (const lesson of lessons) {
    const steps = stepsOf(lesson);
    for (const i of steps.keys()) {
      const written = steps.slice(0, i).flatMap(({ functions }) => functions);
      writeFileSync(join(folder, `${lesson.name}_after_${i}.ts`), skeletonOf(lesson, written));
    }
  }
  writeFileSync(join(folder, "tsconfig.json"), readFileSync(new URL("../tsconfig.practice.json", import.meta.url)));
  const { stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  assert.equal(stdout, "");
});

test("tests.json has the tests of each step", () => {
  if (process.env.UPDATE) writeFileSync(TESTS, `${JSON.stringify(found, null, 2)}\n`);
  assert.deepEqual(found, read());
});
