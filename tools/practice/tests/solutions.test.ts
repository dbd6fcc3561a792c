// Right solutions pass and wrong ones fail. For each lesson, solutions/ has a right program in another style and in other
// words, and changes to the lesson that are wrong, about one for each test that a step has.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { type Lesson, parseCode, readLessons } from "../../lesson/source.ts";
import { check, firstRed } from "../grade.ts";
import { skeletonOf, stepsOf } from "../skeleton.ts";
import { folderOf, root } from "./root.ts";

/** What to replace: whole declarations by their names, or parts of the text. */
type Changes = Record<string, string>;
/** `expect` is the step that has to be red. */
type Solutions = { right: Changes; wrong: Record<string, Changes & { expect: string }> };

function changed(lesson: Lesson, changes: Changes): string {
  let text = lesson.lines.join("\n");
  for (const [what, replacement] of Object.entries(changes)) {
    const { lines, parts } = parseCode(text);
    const part = parts.get(what);
    assert.ok(part || text.includes(what), `${lesson.file} has no ${what}`);
    if (part) lines.splice(part.from - 1, part.to - part.from + 1, replacement.trimEnd());
    text = part ? lines.join("\n") : text.replace(what, () => replacement);
  }
  return text;
}

/** The text with which each step of a lesson is green: the lesson's own, as its suite shows. */
const greenTextsOf = (lesson: Lesson) =>
  Object.fromEntries(stepsOf(lesson).map(({ name }) => [name, lesson.lines.join("\n")]));

const folder = folderOf("practice");
const SELECT = "export const select = <T>(all: T[], isSelected: (one: T) => boolean) => all.filter(isSelected);\n";
writeFileSync(join(folder, "select.ts"), SELECT); // one of the right solutions imports it

describe("solutions", { concurrency: 3 }, () => {
  for (const lesson of readLessons(root).values()) {
    const source = new URL(`solutions/${lesson.name}.yaml`, import.meta.url);
    const { right, wrong }: Solutions = parse(readFileSync(source, "utf8"));

    test(`${lesson.name}: the right solution is green`, async () => {
      const file = join(folder, basename(lesson.file));
      writeFileSync(file, changed(lesson, right));
      const progress = await check(lesson, file, { stepsDone: 0, greenTexts: {} }, { patience: 30_000 });
      const { state, failure, typeErrors } = progress;
      assert.deepEqual([state, failure, typeErrors], ["green", undefined, []]);
    });

    test(`${lesson.name}: the first step that isn't written is red, and the file has the right types`, async () => {
      const types = folderOf(`types-${lesson.name}`);
      const written: string[] = [];
      for (const { name, functions } of stepsOf(lesson)) {
        const skeleton = skeletonOf(lesson, written);
        writeFileSync(join(types, `before_${name}.ts`), skeleton);
        const job = { lesson, code: parseCode(skeleton.trimEnd()), patience: 60_000 };
        const failure = await firstRed(job, { greenTexts: greenTextsOf(lesson) });
        assert.deepEqual([failure?.step, failure?.state], [name, "red"], failure?.test);
        written.push(...functions);
      }
      const { stdout } = spawnSync("node_modules/.bin/tsc", ["-p", types], { encoding: "utf8" });
      assert.equal(stdout, "");
    });

    for (const [what, { expect, ...changes }] of Object.entries(wrong)) {
      test(`${lesson.name}: a solution that ${what} is red`, async () => {
        const code = parseCode(changed(lesson, changes));
        const failure = await firstRed({ lesson, code, patience: 5_000 }, { greenTexts: greenTextsOf(lesson) });
        const found = `${failure?.state}: ${failure?.test}: ${failure?.problem.message}`;
        assert.equal(failure?.step, expect, found);
        assert.notEqual(failure?.state, "did not load", found);
      });
    }
  }
});
