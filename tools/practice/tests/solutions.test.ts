// Other solutions: right ones in another style, or in other words, are green; wrong ones are not. An entry of the files
// in solutions/ is a lesson with changes: whole functions by their name, or parts of the text.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { type Lesson, read, readLessons } from "../../lesson/source.ts";
import { check, firstRed } from "../grade.ts";
import { stepsOf } from "../skeleton.ts";
import { folderOf, root } from "./root.ts";

type Changes = Record<string, string>;
/** `expect` is the step at which a wrong one has to be red. */
type Solutions = { right: Record<string, Changes>; wrong: Record<string, Changes & { expect: string }> };

function changed(lesson: Lesson, changes: Changes): string {
  let text = lesson.lines.join("\n");
  for (const [what, by] of Object.entries(changes)) {
    const { lines, parts } = read(text);
    const part = parts.get(what);
    assert.ok(part || text.includes(what), `${lesson.file} has no ${what}`);
    if (part?.body) lines.splice(part.from - 1, part.to - part.from + 1, by.trimEnd());
    text = part?.body ? lines.join("\n") : text.replace(what, () => by);
  }
  return `${text}\n`;
}

/** These solutions in as few programs as they fit in. */
function together(lesson: Lesson, solutions: Record<string, Changes>): Map<string[], Changes> {
  const programs = new Map<string[], Changes>();
  const fits = (program: Changes, changes: Changes) => {
    if (Object.keys(changes).some((what) => what in program)) return false;
    try {
      return changed(lesson, { ...program, ...changes });
    } catch {
      return false; // one changes a part of what the other replaces
    }
  };
  for (const [what, changes] of Object.entries(solutions)) {
    const [names, program] = [...programs].find(([, each]) => fits(each, changes)) ?? [[], {}];
    names.push(what);
    programs.set(names, Object.assign(program, changes));
  }
  return programs;
}

const programs = folderOf("solutions"); // right ones, for the compiler

describe("solutions", { concurrency: 3 }, () => {
  for (const lesson of readLessons(root).values()) {
    const source = new URL(`solutions/${lesson.name}.yaml`, import.meta.url);
    const { right, wrong }: Solutions = parse(readFileSync(source, "utf8"));
    const given = read(`${lesson.lines.join("\n")}\n`);
    const text = given.lines.join("\n");
    const known = Object.fromEntries(stepsOf(lesson).map(({ name }) => [name, text])); // that these are green is what steps.test.ts shows

    for (const [i, [names, changes]] of [...together(lesson, right)].entries()) {
      const isFirst = i === 0; // of each lesson all tests run on one program: that takes longest
      const folder = isFirst ? folderOf(`solutions-${lesson.name}`) : programs;
      const file = join(folder, isFirst ? basename(lesson.file) : `${lesson.name}_${i}.ts`);
      writeFileSync(file, changed(lesson, changes));
      test(`${lesson.name}, right: ${names.join("; ")}`, async () => {
        const greenTexts = { ...known };
        if (!isFirst) {
          const code = read(readFileSync(file, "utf8"));
          return assert.equal(await firstRed({ lesson, code, patience: 30_000 }, { greenTexts }), undefined);
        }
        const { state, failure, typeErrors } = await check(
          lesson,
          file,
          { stepsDone: 0, greenTexts },
          { patience: 30_000 },
        );
        assert.deepEqual([state, failure, typeErrors], ["green", undefined, []]);
      });
    }

    for (const [what, { expect, ...changes }] of Object.entries(wrong)) {
      test(`${lesson.name}, wrong: ${what}`, async () => {
        const code = read(changed(lesson, changes));
        const failure = await firstRed({ lesson, code, patience: 5_000 }, { greenTexts: { ...known } });
        const found = `${failure?.state}: ${failure?.test}: ${failure?.problem.message}`;
        assert.equal(failure?.step, expect, found);
        assert.notEqual(failure?.state, "did not load", found);
      });
    }
  }

  test("the right ones have the right types", async () => {
    const { stdout } = await promisify(execFile)(join(root, "node_modules/.bin/tsc"), ["-p", programs]).catch(
      (error) => error,
    );
    assert.equal(stdout, "");
  });
});
