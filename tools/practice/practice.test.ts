// The steps fit the lessons, and the screen says what to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { codeHash } from "../lesson/hash.ts";
import { parseCode, readLessons } from "../lesson/source.ts";
import { completed, functionsOf, skeletonOf, stepsOf } from "./skeleton.ts";

const repository = join(import.meta.dirname, "../..");
const read = (path: string) => fs.readFileSync(join(repository, path), "utf8");
for (const lesson of readLessons(repository).values())
  test(`${lesson.name}: each step has a section and, in the same order, tests; skeleton and steps make the lesson`, () => {
    const [steps, text, skeleton] = [stepsOf(lesson), lesson.lines.join("\n"), skeletonOf(lesson)];
    for (const { section } of steps) assert.match(read(lesson.page), new RegExp(`^### ${section}\\. `, "m"));
    const groups = read(lesson.file.replace(/agents(.*)ts/, "tests$1test.ts")).matchAll(
      /^\w+\(\s*"(?:s\d\d: )?([\w.]+)/gm,
    );
    const stepFor = (name = "") => steps.find(({ functions }) => functions.includes(name));
    const numbers = Array.from(groups, ([, name]) => stepFor(name)?.number ?? steps.length + 1);
    const changes = numbers.filter((number, i) => number !== numbers[i - 1]);
    assert.deepEqual(
      changes,
      Array.from(changes, (_, i) => i + 1),
      "the steps of the groups; others come last",
    );
    assert.equal(skeletonOf(lesson, functionsOf(lesson)), `${text}\n`);
    const { text: whole } = completed(lesson, parseCode(skeleton));
    assert.deepEqual([codeHash(whole), whole.match(/\n/g)?.length], [codeHash(text), skeleton.match(/\n/g)?.length]);
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
  for (const [from, to, screen] of [
    ["", "", /░ 0 of 2(.|\n)*→ step 1: write TodoManager\.update \(line \d+\)(.|\n)*"2\. Repl(.|\n)*· an update /],
    ["#1", "#1", /█ 2 of 2(.|\n)*All green/],
    ['"[x]"', '"[y]"', /wanted {2}'\[x(.|\n)*came {4}'\[y(.|\n)*tests\/s03_.*:\d+ {3}assert(.|\n)*→ step 1: look at /],
    ["    this.roundsWithoutUpdate = 0;", "process.exit();", /1 of 2(.|\n)*thrown at practice\/s03_\w+\.ts:\d/],
    ["this.items = items;", "while (Date.now() > 0);", /✗ an update (.|\n)*endless(.|\n)*→ step 1: look at /],
    ["const isUpdated =", 'console.log("mine");\n$& !', /printed:\n {2}mine\n(.|\n)*→ step 2: look at /],
    [
      "private rounds",
      "a: 1 = 2;\n  $&",
      /2 of 2(.|\n)*✗ syntax and types(.|\n)*→ look at practice\/s03_\w+\.ts:\d+\n/,
    ],
    ["while (true) {", "while (true {", /✗ syntax and types(.|\n)*→ look at practice\/s03_\w+\.ts:\d+\n/],
  ] as const) {
    const text = read("agents/s03_todo_write.ts").replace(from, to);
    if (from) fs.writeFileSync(file, text);
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const { stdout, status } = spawnSync(process.execPath, program, { cwd: root, env, encoding: "utf8" });
    assert.match(stdout, screen);
    assert.equal(status, /All green/.test(stdout) ? 0 : 1);
    if (from) assert.equal(fs.readFileSync(file, "utf8"), text, "nothing was overwritten");
  }
});
