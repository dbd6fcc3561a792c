// Other solutions: right ones in another style, or in other words, are green; wrong ones are not. An entry of the files
// in solutions/ is a lesson with changes: whole functions by their name, or parts of the text.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { functionsOf, type Lesson, readLessons } from "../../docs/lessons.ts";
import { check } from "../suite.ts";
import { folderOf, root } from "./root.ts";

type Changes = Record<string, string>;

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
    const all: Record<"right" | "wrong", Record<string, Changes>> = parse(readFileSync(file, "utf8"));
    for (const kind of ["right", "wrong"] as const) {
      for (const [what, changes] of Object.entries(all[kind])) {
        test(`${lesson.name}, ${kind}: ${what}`, async () => {
          const own = join(folderOf(`solution-${count++}`), basename(lesson.file));
          writeFileSync(own, changed(lesson, changes));
          const { current, failed, run } = await check(root, lesson, own, { limit: 30_000 });
          const found = `${run.state}: ${failed?.step} | ${failed?.name}: ${failed?.message}`;
          if (process.env.VERBOSE) console.log(`# ${lesson.name} ${kind} ${what} → ${found.slice(0, 150)}`);
          if (kind === "right") assert.deepEqual([run.state, failed, current], ["green", undefined, undefined], found);
          else assert.notEqual(run.state, "green");
        });
      }
    }
  }
});
