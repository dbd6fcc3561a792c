// The mutation run itself: it finds the one gap that a suite has.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { apply, changesOf } from "./mutants/operators.ts";

const home = realpathSync(mkdtempSync(join(tmpdir(), "mutants-of-")));
after(() => rmSync(home, { recursive: true }));
const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
symlinkSync(path("../node_modules"), join(home, "node_modules"));
for (const folder of ["agents", "tests/mutants"]) mkdirSync(join(home, folder), { recursive: true });
const write = (name: string, ...lines: string[]) => writeFileSync(join(home, name), `${lines.join("\n")}\n`);

const ROOM = [
  "// #region room",
  "export const isFull = (guests: number, seats: number) => guests >= seats;",
  "// #endregion",
];
const SUITE = (lesson: string, ...tests: string[]) => [
  'import assert from "node:assert/strict";',
  'import { test } from "node:test";',
  `const lesson = await import("../agents/${lesson}.ts");`,
  ...tests,
];
write("package.json", '{ "type": "module" }');
write("agents/s01_room.ts", ...ROOM);
write(
  "tests/s01_room.test.ts",
  ...SUITE("s01_room", 'test("too many", () => assert.equal(lesson.isFull(2, 1), true));'),
  'test("too few", () => assert.equal(lesson.isFull(0, 1), false));',
);
write(
  "agents/s02_door.ts",
  ...ROOM,
  "// #region door",
  'export const GREETING = "Hello";',
  "export const greet = (name?: string) => {",
  '  if (name === "nobody") throw new RangeError("nobody is there");',
  "  return name;",
  "};",
  "// #endregion",
);
write(
  "tests/s02_door.test.ts",
  ...SUITE("s02_door", 'test("greets", () => assert.equal(lesson.greet("Ann"), "Ann"));'),
  'test("needs no name", () => assert.equal(lesson.greet(), undefined));',
  'const text = (await import("node:fs")).readFileSync("agents/s02_door.ts", "utf8");',
  'test("has this text", () => assert.match(text, /"Hello";\\nexport const greet = .* => {\\n  if/));',
);

function run(...args: string[]): Promise<{ code: number; output: string }> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return new Promise((resolve) => {
    const tool = ["--import", import.meta.resolve("tsx"), path("mutants/run.ts"), "--workers", "1", ...args];
    const child = execFile(process.execPath, tool, { cwd: home, env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, output: stdout + stderr }),
    );
  });
}
const rowOf = (output: string, name: string) =>
  /│(.*)│/
    .exec(output.split("\n").find((line) => line.includes(` ${name} `)) ?? "")?.[1]
    ?.match(/(?<= )[\d.]+(?= )/g)
    ?.map(Number);

const GAP =
  "s01 room: export const isFull = (guests: number, seats: number) => guests >= seats; → export const isFull = (guests: number, seats: number) => guests > seats;";
const UNUSED = 's02 door: export const GREETING = "Hello"; → export const GREETING = "";';
const CONDITION =
  's02 door: if (name === "nobody") throw new RangeError("nobody is there"); → if (false) throw new RangeError("nobody is there");';
const MESSAGE =
  's02 door: if (name === "nobody") throw new RangeError("nobody is there"); → if (name === "nobody") throw new RangeError("");';
const KILLED = "s02 door: return name; → return;";
const name = (...keys: string[]) =>
  write(
    "tests/mutants/survivors.yaml",
    "- why: it is dull",
    "  mutants:",
    ...keys.map((key) => `    - ${JSON.stringify(key)}`),
  );

const first = run();

test("a program is changed in each of its parts, and in no type", () => {
  const cases: [string, ...string[]][] = [
    ["type T = 1; let a: 'b' = c as 5;"],
    ["while (a < 1) ;", "while (false) ;", "while (true) ;", "while (a <= 1) ;", "while (a < 2) ;"],
    ["if (a) b();", "if (true) b();", "if (false) b();"],
    [
      "if (a) b(); else c();",
      "if (true) b(); else c();",
      "if (false) b(); else c();",
      "if (a) ; else c();",
      "if (a) b(); else ;",
    ],
    ["v = a && b;", "", "v = (a || b);", "v = (a);", "v = (b);"],
    ["v = a ?? b;", "", "v = (a);", "v = (b);"],
    ["a += b - !c;", "", "a -= b - !c;", "a += b + !c;", "a += b - c;"],
    ["v = 'a' + b;", "", 'v = "" + b;'],
    ["v = [`a`];", "", "v = [];", 'v = [""];'],
    ["v = { a: '' };", "", "v = {};", 'v = { a: "mutant" };'],
    ["v = a?.b?.[c]?.();", "", "v = a.b?.[c]?.();", "v = a?.b[c]?.();", "v = a?.b?.[c]();"],
    ["v = a.sort().some(b);", "", "v = a.some(b);", "v = a.sort().every(b);"],
    ["v = a.toString();", ""],
    ["v = Math.floor(a);", "", "v = Math.min(a);"],
    [
      "v = /^[^a]+?\\s$/g;",
      "",
      "v = /[^a]+?\\s$/g;",
      "v = /^[a]+?\\s$/g;",
      "v = /^[^a]\\s$/g;",
      "v = /^[^a]+?\\S$/g;",
      "v = /^[^a]+?\\s/g;",
      "v = /^[^a]+?\\s$/;",
    ],
    ["v = /^/;", "", "v = /(?:)/;"],
    ["v = (a) => b;", "", "v = (a) => undefined;"],
    [
      "function f() { a(); return b; }",
      "function f() {}",
      "function f() { ; return b; }",
      "function f() { a(); return; }",
    ],
    ["function f() { a(); return undefined; }", "function f() {}", "function f() { ; return undefined; }"],
    [
      "function f() { if (a) { return b; } }",
      "function f() {}",
      "function f() { if (true) { return b; } }",
      "function f() { if (false) { return b; } }",
      "function f() { if (a) { return; } }",
    ],
  ];
  for (const [program, ...expected] of cases) {
    const changed = changesOf(program).map((change) => apply(program, [change]).replace(/^;$/, ""));
    assert.deepEqual(changed.toSorted(), expected.toSorted(), program);
  }
});

test("the mutation run finds the changes that no test notices, in the lines that a lesson adds, and exits with 1", async () => {
  const { code, output } = await first;
  assert.equal(code, 1, output);
  const survivors = output.split("\n").flatMap((line) => (line.startsWith("  - ") ? [JSON.parse(line.slice(4))] : []));
  assert.deepEqual(survivors, [GAP, UNUSED, CONDITION, MESSAGE]);
  assert.match(output, /^s01-\w{6} survived: agents\/s01_room\.ts:2 /m);
  assert.match(output, /^tests\/s02_door\.test\.ts: left out, .*: has this text$/m);
  assert.match(output, /^s02-\w{6} not reached: agents\/s02_door\.ts:7 /m);
  //                                                mutants, killed, timed out, survived, not reached, named, score
  assert.deepEqual(rowOf(output, "s01_room")?.slice(0, 7), [3, 2, 0, 1, 0, 0, 66.6]);
  assert.deepEqual(rowOf(output, "s02, new regions"), [6, 3, 0, 2, 1, 0, 50]);
});

test("it goes on where it was, and is content when each survivor is named with a reason", async () => {
  await first;
  name(GAP, UNUSED, CONDITION, MESSAGE);
  const { code, output } = await run("--continue");
  assert.equal(code, 0, output);
  assert.doesNotMatch(output, /mutants; its tests take/);
});

test("it is not content with a named survivor that is none, or of which there is no mutant", async () => {
  await first;
  name(GAP, UNUSED, CONDITION, MESSAGE, KILLED, "s01 room: nothing → nothing");
  const { code, output } = await run("--continue");
  assert.equal(code, 1);
  assert.ok(output.includes(`named as a survivor, but killed: ${KILLED}`), output);
  assert.ok(output.includes("named as a survivor, but no mutant: s01 room: nothing → nothing"), output);
});

test("it runs the survivors again, and the tests that were added since kill them", async () => {
  await first;
  write(
    "tests/s01_room.test.ts",
    ...SUITE("s01_room", 'test("just enough", () => assert.equal(lesson.isFull(1, 1), true));'),
  );
  name(UNUSED, CONDITION, MESSAGE);
  const { code, output } = await run("s01", "--survivors");
  assert.equal(code, 0, output);
  assert.match(output, /^s01_room: 1 of 3 mutants/m);
  assert.deepEqual(rowOf(output, "s01_room")?.slice(0, 7), [3, 3, 0, 0, 0, 0, 100]);
});

test("it stops when nothing can be run any more, and calls no mutant killed for that", async () => {
  await first;
  write(
    "tests/s01_room.test.ts",
    'import { existsSync, writeFileSync } from "node:fs";',
    'if (existsSync("ran")) throw new Error("it has run once");',
    'writeFileSync("ran", "");',
    ...SUITE("s01_room", 'test("too many", () => assert.equal(lesson.isFull(2, 1), true));'),
  );
  const { code, output } = await run("s01");
  assert.equal(code, 1);
  assert.match(output, /s01_room\.test\.ts does not run any more, with nothing changed: .*it has run once/s);
});
