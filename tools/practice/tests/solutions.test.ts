// Other solutions: right ones in another style, or in other words, are green; wrong ones are not. An entry of the files
// in solutions/ is a lesson with changes: whole functions by their name, or parts of the text.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { functionsOf, type Lesson, readLessons } from "../../docs/lessons.ts";
import { check } from "../check.ts";
import { folderOf, root } from "./root.ts";

type Changes = Record<string, string>;
/** Where a wrong one has to be red: `expect` is a step, or "all" if only the whole program shows it. */
type Solutions = { right: Record<string, Changes>; wrong: Record<string, Changes & { expect: string }> };

function changed(lesson: Lesson, changes: Changes): string {
  let lines = [...lesson.lines];
  for (const [what, by] of Object.entries(changes)) {
    const part = functionsOf({ lines }).get(what);
    const text = lines.join("\n");
    assert.ok(part || text.includes(what), `${lesson.file} has no ${what}`);
    if (part) lines.splice(part.from - 1, part.to - part.from + 1, by.trimEnd());
    else lines = text.replace(what, () => by).split("\n");
    lines = lines.join("\n").split("\n");
  }
  return `${lines.join("\n")}\n`;
}

describe("solutions", { concurrency: 2 }, () => {
  let count = 0;
  for (const lesson of readLessons(root).values()) {
    const file = new URL(`solutions/${lesson.name}.yaml`, import.meta.url);
    const { right, wrong }: Solutions = parse(readFileSync(file, "utf8"));
    const checkOf = (changes: Changes, step?: string) => {
      const own = join(folderOf(`solution-${count++}`), basename(lesson.file));
      writeFileSync(own, changed(lesson, changes));
      return check(root, lesson, own, { patience: 30_000, isWhole: step === undefined || step === "all" });
    };

    for (const [what, changes] of Object.entries(right)) {
      test(`${lesson.name}, right: ${what}`, async () => {
        const { state, failure, types } = await checkOf(changes);
        assert.deepEqual([state, failure, types], ["green", undefined, []]);
      });
    }
    for (const [what, { expect, ...changes }] of Object.entries(wrong)) {
      test(`${lesson.name}, wrong: ${what}`, async () => {
        const { failure, types } = await checkOf(changes, expect);
        assert.equal(failure?.step, expect, `${failure?.test}: ${failure?.problem.message} ${types}`);
      });
    }
  }
});
