// The steps fit the lessons, and the screen says what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { codeHash } from "../lesson/hash.ts";
import { parseCode, readLessons } from "../lesson/source.ts";
import { completed, skeletonOf, stepsOf } from "./skeleton.ts";

const repository = join(import.meta.dirname, "../..");
const read = (path: string) => fs.readFileSync(join(repository, path), "utf8");
for (const lesson of readLessons(repository).values())
  test(`${lesson.name}: each step has a section and, in the same order, tests; skeleton and steps make the lesson`, () => {
    const [steps, text, skeleton] = [stepsOf(lesson), lesson.lines.join("\n"), skeletonOf(lesson)];
    const pages = lesson.pages.map(read).join("\n");
    for (const { section } of steps) assert.match(pages, new RegExp(`^##+ ${section}\\. `, "m"));
    const suite = read(lesson.file.replace(/agents(.*)ts/, "tests$1test.ts"));
    const groups = Array.from(suite.matchAll(/^\w+\(\s*"(?:s\d\d: )?([\w.]+)/gm), ([, name = ""]) => name);
    const stepOf = (name: string) => steps.find(({ functions }) => functions.includes(name))?.number ?? "none";
    const order = [...groups.map(stepOf), "none"].filter((number, i, all) => number !== all[i - 1]);
    assert.deepEqual(order, [...steps.map(({ number }) => number), "none"], "the steps of the groups of tests");
    const { text: whole } = completed(lesson, parseCode(skeleton));
    assert.deepEqual([codeHash(whole), whole.match(/\n/g)?.length], [codeHash(text), skeleton.match(/\n/g)?.length]);
    assert.throws(
      () => stepsOf({ ...lesson, parts: new Map() }),
      /steps\.yaml: s\d\d, "\d \w.*": s\d\d has no function \w/,
    );
  });

test("the screen says what to write or look at, even if the process hangs or ends", () => {
  const root = fs.mkdtempSync(join(tmpdir(), "practice-root-"));
  after(() => fs.rmSync(root, { recursive: true }));
  const options = { recursive: true, filter: (path: string) => !path.endsWith("node_modules") };
  for (const name of ["agents", "docs", "skills", "tests", "tools", "package.json", "tsconfig.json"])
    fs.cpSync(join(repository, name), join(root, name), options);
  fs.symlinkSync(join(repository, "node_modules"), join(root, "node_modules"));
  const file = join(root, "practice/s03_todo_write.ts");
  const program = ["--import", "tsx", "tools/practice/main.ts", "s03"];
  for (const [from, to, ...parts] of [
    ["", "", "0 of 2", "→ step 1: write TodoManager.update (line ", 'docs/s03_todo_write.md, "2. Repl', "· an update "],
    ["#1", "#1", "2 of 2", "All green"],
    ['"[x]"', '"[y]"', "wanted  '[x", "came    '[y", "tests/s03_", "   assert", "→ step 1: look at "],
    ["    this.roundsWithoutUpdate = 0;", "process.exit();", "1 of 2", "thrown at practice/s03_todo_write.ts:2"],
    ["this.items = items;", "while (Date.now() > 0);", "✗ an update ", "endless", "→ step 1: look at "],
    ["const isUpdated =", 'console.log("mine");\n$& !', "printed:\n  mine\n", "→ step 2: look at "],
    ["private rounds", "a: 1 = 2;\n  $&", "2 of 2", "✗ syntax and types", "→ look at practice/s03_todo_write.ts:2"],
    ["while (true) {", "while (true {", "✗ syntax and types", "→ look at practice/s03_todo_write.ts:"],
  ] as const) {
    const text = read("agents/s03_todo_write.ts").replace(from, to);
    if (from) fs.writeFileSync(file, text);
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const { stdout, status } = spawnSync(process.execPath, program, { cwd: root, env, encoding: "utf8" });
    assert.match(stdout, new RegExp(parts.map((part) => part.replace(/\W/g, "\\$&")).join("[^]*")));
    assert.equal(status, stdout.includes("All green") ? 0 : 1);
    if (from) assert.equal(fs.readFileSync(file, "utf8"), text, "nothing was overwritten");
  }
});
