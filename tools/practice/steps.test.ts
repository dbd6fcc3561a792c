import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "../../offline/start.ts";
import { codeHash } from "../lesson/hash.ts";
import { parseCode, readLessons } from "../lesson/source.ts";
import { completed, skeletonOf, stepsOf } from "./skeleton.ts";

const read = (path: string) => fs.readFileSync(join(ROOT, path), "utf8");
for (const lesson of readLessons(ROOT).values())
  test(`${lesson.name}: each step has a section and, in the same order, tests; skeleton and steps make the lesson`, () => {
    const [steps, text, skeleton] = [stepsOf(lesson), lesson.lines.join("\n"), skeletonOf(lesson)];
    const pages = lesson.pages.map(read).join("\n");
    const missing = steps.filter(({ section }) => !pages.includes(`# ${section}. `));
    assert.deepEqual(missing, [], `tools/practice/steps.yaml names sections that ${lesson.pages.join(" and ")} lack`);
    const suite = read(lesson.file.replace(/agents(.*)ts/, "tests$1test.ts"));
    const groups = Array.from(suite.matchAll(/^\w+\(\s*"(?:s\d\d: )?([\w.]+)/gm), ([, name = ""]) => name);
    const stepOf = (name: string) => steps.find(({ functions }) => functions.includes(name))?.number ?? "none";
    const order = [...groups.map(stepOf), "none"].filter((number, i, all) => number !== all[i - 1]);
    const wanted = [...steps.map(({ number }) => number), "none"];
    assert.deepEqual(order, wanted, "groups are in the order of tools/practice/steps.yaml, others come last");
    const { text: whole } = completed(lesson, parseCode(skeleton));
    assert.deepEqual([codeHash(whole), whole.match(/\n/g)?.length], [codeHash(text), skeleton.match(/\n/g)?.length]);
    const gone = { ...lesson, parts: new Map() };
    assert.throws(() => stepsOf(gone), /steps\.yaml: s\d\d, "\d \w.*": s\d\d has no function \w/);
  });
