// The tool as its reader meets it: screens, wrong solutions, and that nothing of the reader's is lost.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { read, readLessons } from "../../lesson/source.ts";
import { check } from "../grade.ts";
import { draw } from "../screen.ts";
import { fileFor, skeletonOf, stepsOf, textOf } from "../skeleton.ts";
import { folderOf, root } from "./root.ts";

const lessons = readLessons(root);
const folder = join(root, "practice");
beforeEach(() => void folderOf("practice"));

function lessonOf(name: string) {
  const lesson = lessons.get(name);
  assert.ok(lesson);
  return { lesson, file: join(folder, basename(lesson.file)), text: `${lesson.lines.join("\n")}\n` };
}
/** The screen of a lesson when the reader's file has this text. */
async function screenOf(name: string, text: string, patience = 60_000): Promise<string> {
  const { lesson, file } = lessonOf(name);
  writeFileSync(file, text);
  const progress = await check(lesson, file, { stepsDone: 0, greenTexts: {} }, { patience });
  return stripVTControlCharacters(draw(lesson, progress, 0, "s04"));
}
/** A lesson with a part replaced, which has to be there. */
function changed(name: string, from: string, to: string): string {
  const { text } = lessonOf(name);
  assert.ok(text.includes(from), from);
  return text.replace(from, () => to);
}

test("functions are found however they are written, with the comment above", () => {
  const source = `// #region a
/** One. */
export const one = async () => {
  const inner = function () {};
}; // behind one
function next() {}
class Two {
  // about three
  three(): void {}
  static four = (): number => 4;
}
// #endregion`;
  const parts = [...read(source).parts];
  const lines = parts.filter(([, { body }]) => body).map(([name, { from, to }]) => [name, from, to]);
  assert.deepEqual(lines, [
    ["one", 2, 5],
    ["next", 6, 6],
    ["Two.three", 8, 9],
    ["Two.four", 10, 10],
  ]);
});

test("the first screen names the first step, where it is, and the section of the page, and shows its hint", async () => {
  const screen = await screenOf("s01", skeletonOf(lessonOf("s01").lesson));
  assert.match(screen, /░ 0 of 5 steps {3}red/);
  assert.match(
    screen,
    /→ step 1 of 5: write agentLoop \(line \d+\); the other steps are the lesson's here\n {2}practice\/s01_agent_loop.ts; .*"1\. The loop"\n {2}Call the model/,
  );
});

for (const [what, name, text, words] of [
  [
    "what an assertion wanted is shown beside what came, with its line",
    "s03",
    changed("s03", "{i + 1}", "{i}"),
    /✗ s03: .*\n\n {2}wanted .*#1: read.*\n {2}came .*#0: read.*\n {2}tests\/s03_todo_write\.test\.ts:\d+ {3}assert/,
  ],
  [
    "what was thrown is shown when it is not what was wanted, and its line",
    "s02",
    changed("s02", "if (isOutside) throw", 'if (isOutside) throw new Error("no");\n  if (isOutside) throw'),
    /did not match .*passwd.*\n {2}'Error: no'(.|\n)*step 3 of 6: look at safePath/,
  ],
  [
    "an error of the API is one line",
    "s01",
    changed("s01", '    messages.push({ role: "assistant", content: reply.content });\n', ""),
    /the API says: .*tool_use_id(.|\n)*step 1 of 5: look at agentLoop/,
  ],
  [
    "the line that threw is named",
    "s03",
    changed("s03", 'marks = { pending: "[ ]",', 'marks = { pending: JSON.parse("["),'),
    /thrown at practice\/s03_todo_write\.ts:\d+\n(.|\n)*→ step 1 of 2: look at TodoManager\.update \(line \d+\), look at TodoManager\.render/,
  ],
  [
    "the first lines that the reader's console.log prints in that test are shown, without their control characters",
    "s03",
    changed(
      "s03",
      "const isUpdated = calls",
      'for (const n of [1, 2, 3, 4, 5]) console.log("mine\\x1b[2J", n);\n    const isUpdated = !calls',
    ),
    /✗ s03: (.|\n)*\n {2}printed by console\.log:\n {2}mine�\[2J 1\n(.|\n)* {2}mine�\[2J 5\n\n→ step 2 of 2/,
  ],
  [
    "what was given and is not as it was is named",
    "s01",
    changed("s01", "content: reply.content });", "content: [] });").replace("exec 2>&1", "true"),
    /→ not as it was given: runBash \(line \d+\)\n {2}step 1 of 5: look at agentLoop/,
  ],
  [
    "an error of the compiler keeps the bar where it was, and names the line",
    "s03",
    changed("s03", "export const TODO =", 'export const MINE: number = "";\nexport const TODO ='),
    /█ 2 of 2 steps(.|\n)*✗ its types\n\n {2}practice\/s03_todo_write\.ts:(\d+): .*\n(.|\n)*→ look at practice\/s03_todo_write\.ts:\2\n/,
  ],
  [
    "the compiler's reasons are shown",
    "s03",
    changed(
      "s03",
      "export const TODO =",
      `const MINE = { role: "me", content: "" };\nexport const YOURS: Anthropic.MessageParam = MINE;\nexport const TODO =`,
    ),
    /practice\/s03_todo_write\.ts:\d+: .*'MessageParam'\.\n.*\n +Types of property 'role' are incompatible/,
  ],
  [
    "a syntax error is one line with its place",
    "s03",
    changed("s03", "while (true) {", "while (true {"),
    /did not load(.|\n)*\n {2}practice\/s03_todo_write\.ts:(\d+): .*\n(.|\n)*→ look at practice\/s03_todo_write\.ts:\2\n/,
  ],
  [
    "an error while the file loads is named with its line",
    "s03",
    changed("s03", "export const TODO =", "nothing.at.all();\nexport const TODO ="),
    /did not load(.|\n)*✗ the file loads\n\n {2}nothing is not.*\n.*\n {2}thrown at (practice\/s03_todo_write\.ts:\d+)\n(.|\n)*→ look at \2\n/,
  ],
  ["an empty file is not green", "s03", "", /░ 0 of 2 steps/],
  [
    "a process that ends in the middle of the tests is not green, and the line is named",
    "s03",
    changed("s03", "this.roundsWithoutUpdate = 0;\n    const text", "process.exit(0);\n    const text"),
    /crashed(.|\n)*✗ s03: .*\n\n {2}Something called process.exit\.\n.*\n {2}thrown at practice\/s03_todo_write\.ts:\d+/,
  ],
  [
    "a process that ends while the file loads is not green",
    "s03",
    changed("s03", "export const TODO =", "process.exit(0);\nexport const TODO ="),
    /did not load/,
  ],
] satisfies [string, string, string, RegExp][]) {
  test(what, async () => {
    const screen = await screenOf(name, text);
    assert.match(screen, words);
    assert.doesNotMatch(screen, /All green/);
  });
}

test("of what an assertion compared each line that differs is shown, but for a bracket alone", () => {
  const { lesson } = lessonOf("s03");
  const shown = (wanted: string, came: string) => {
    const problem = { message: "", stack: "", wanted, came };
    const failure = { state: "red", test: "a test", step: "agentLoop", problem } as const;
    const screen = draw(
      lesson,
      { stepsDone: 0, greenTexts: {}, state: "red", code: lesson, typeErrors: [], ranAll: false, failure },
      0,
    );
    return screen.split("\n").flatMap((line) => /^ {2}(?:wanted|came) .*/.exec(line) ?? []);
  };
  assert.deepEqual(shown("/401/", "''"), ["  wanted  /401/", "  came    ''"]);
  assert.deepEqual(shown("[]", "[ 'a' ]"), ["  wanted  []", "  came    [ 'a' ]"]);
  assert.deepEqual(shown("{\n  a: 1\n}", "{\n  a: 2\n},"), ["  wanted    a: 1", "  came      a: 2"]);
});

test("a loop that blocks the process is stopped, and the test is named", async () => {
  const endless = changed("s03", "this.items = items;", "while (Date.now() > 0);");
  const screen = await screenOf("s03", endless, 4_000);
  assert.match(screen, /timed out(.|\n)*✗ s03: .*\n\n {2}Stopped: .*loop that never ends/);
});

test("when all is green, the screen says what is next", async () => {
  const { text } = lessonOf("s03");
  const screen = await screenOf("s03", text);
  assert.match(
    screen,
    /█ 2 of 2 steps .*\n\nAll green\. .*\nRun it, .*s03_todo_write\.ts\nNext: npm run practice -- s04\n$/,
  );
});

const PROGRAM = ["--import", "tsx", join(root, "tools/practice/main.ts")];
/** What a process prints, as it comes. */
function printedBy(child: ChildProcess): () => string {
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (data) => {
      printed += data;
    });
  }
  return () => stripVTControlCharacters(printed);
}

/** Runs the program. @returns its exit code and what it printed */
async function practice(args: string[], input = ""): Promise<[number | null, string]> {
  const child = spawn(process.execPath, [...PROGRAM, ...args], { cwd: root });
  const printed = printedBy(child);
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return [code, printed()];
}

const waitFor = async (isSo: () => boolean) => {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20)); // the runner has a limit for each test
};

/** The program at a terminal, with a temporary folder of its own. */
function atTerminal(lesson: string) {
  const temporary = mkdtempSync(join(root, "temporary-"));
  const env = { ...process.env, TMPDIR: temporary, NO_COLOR: "1" };
  const command = [process.execPath, ...PROGRAM, lesson].join(" ");
  const child = spawn("/usr/bin/script", ["-qec", command, "/dev/null"], { cwd: root, env });
  const leftovers = () => readdirSync(temporary).filter((name) => !name.startsWith("tsx-"));
  return { child, printed: printedBy(child), leftovers };
}
const skip = !existsSync("/usr/bin/script") && "needs script of util-linux";

test("saving stops the run that is going on and starts the next, which says at once that it runs", {
  skip,
}, async () => {
  const { file, text } = lessonOf("s03");
  writeFileSync(file, `while (Date.now() > 0);\n${text}`);
  const { child, printed, leftovers } = atTerminal("s03");
  await waitFor(() => leftovers().length > 0); // the first run has begun, and never ends
  writeFileSync(file, text);
  await waitFor(() => printed().includes("All green."));
  assert.equal(printed().match(/running…/g)?.length, 2);
  assert.doesNotMatch(printed(), /timed out/);
  child.stdin.write("\x03");
  await once(child, "close");
});

test("Ctrl-C ends the run and leaves nothing in the temporary folder", { skip }, async () => {
  writeFileSync(lessonOf("s03").file, "while (Date.now() > 0);\n");
  const { child, leftovers } = atTerminal("s03");
  await waitFor(() => leftovers().length > 0);
  child.stdin.write("\x03");
  const [code] = await once(child, "close");
  assert.deepEqual([code, leftovers()], [130, []]);
});

test("a key runs all tests again; without it a change runs those of the steps", { skip }, async () => {
  const { file, text } = lessonOf("s03");
  writeFileSync(file, text);
  const { child, printed } = atTerminal("s03");
  await waitFor(() => printed().includes("All green."));
  assert.match(printed(), /Each step is green\. All tests of the program run…/);
  writeFileSync(file, `${text}// mine\n`);
  await waitFor(() => printed().includes("A key runs all tests"));
  child.stdin.write(" ");
  await waitFor(() => printed().split("All green.").length === 3);
  child.stdin.write("\x03");
  await once(child, "close");
});

test("--hint and --solution are about the step that was red in the last run, and need no run", async () => {
  const { lesson, file } = lessonOf("s03");
  writeFileSync(file, skeletonOf(lesson, ["TodoManager.update", "TodoManager.render"]));
  assert.match((await practice(["s03", "--hint"]))[1], /^Step TodoManager\.update: /);
  await practice(["s03", "--once"]);
  writeFileSync(file, "this is no code");
  assert.match((await practice(["s03", "--hint"]))[1], /^Step agentLoop: /);
  const [, shown] = await practice(["s03", "--solution"]);
  assert.match(shown, /this\.roundsWithoutUpdate = /);
  assert.doesNotMatch(shown, /write me|marks = /);
});

test("a test of the whole program that is red is about the step that makes it so, and the bar stays full", async () => {
  const { lesson, file, text } = lessonOf("s03");
  const wrong = text.replace("roundsWithoutUpdate < 3", "roundsWithoutUpdate < 4");
  writeFileSync(file, wrong);
  const code = read(wrong);
  const greenTexts = Object.fromEntries(stepsOf(lesson).map(({ name }) => [name, textOf(fileFor(lesson, code, name))]));
  writeFileSync(`${file}.json`, JSON.stringify({ stepsDone: 2, greenTexts })); // as if the tests of the steps had let it pass
  const [, printed] = await practice(["s03", "--once"]);
  assert.match(printed, /█ 2 of 2 steps {3}red(.|\n)*→ step 2 of 2: look at agentLoop .*; the other steps are yours\n/);
  assert.match((await practice(["s03", "--hint"]))[1], /^Step agentLoop: /);
});

test("if a step that was green turns red, what was changed since then is named", async () => {
  const { file, text } = lessonOf("s03");
  writeFileSync(file, `${text}const MINE = 1;\n`);
  await practice(["s03", "--once"]);
  writeFileSync(file, text.replace("roundsWithoutUpdate < 3", "roundsWithoutUpdate < 4"));
  for (const _ of ["once", "again"]) {
    const [, printed] = await practice(["s03", "--once"]);
    assert.match(
      printed,
      /step 2 of 2: look at agentLoop .*\n.*\n.*\n {2}it was green; since then you changed TodoManager\.reminderAfter \(line \d+\)\n/,
    );
  }
});

test("two terminals make the file once, and run it; a file that is there stays as it is", async () => {
  const { lesson, file, text } = lessonOf("s03");
  const first = await Promise.all([practice(["s03", "--once"]), practice(["s03", "--once"])]);
  assert.equal(first.filter(([, printed]) => printed.includes("Made practice/s03_todo_write.ts")).length, 1);
  assert.deepEqual(
    first.map(([code]) => code),
    [1, 1],
  );
  assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  writeFileSync(file, `${text}// mine\n`);
  const second = await Promise.all([practice(["s03", "--once"]), practice(["s03", "--hint"])]);
  assert.deepEqual(
    second.map(([code]) => code),
    [0, 0],
  );
  assert.equal(readFileSync(file, "utf8"), `${text}// mine\n`);
});

test("a lesson or an option that does not exist is an error that names it", async () => {
  const names = [...lessons.keys()].join(", ");
  const name = `Name one of the lessons ${names}: npm run practice -- s01\n`;
  for (const words of [[], ["s07"]]) assert.deepEqual(await practice(words), [1, name]);
  const [code, printed] = await practice(["s03", "--slow"]);
  assert.equal(code, 1);
  assert.match(printed, /^Unknown option '--slow'.*\n$/);
});

test("a folder that cannot be written is one line", async () => {
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "a file");
  const [code, printed] = await practice(["s03", "--once"]);
  assert.equal(code, 1);
  assert.match(printed, /^[^\n]*practice[^\n]*\n$/);
});

test("--reset begins again, and keeps each old file", async () => {
  const { lesson, file } = lessonOf("s03");
  for (const text of ["first", "second"]) {
    writeFileSync(file, text);
    const [, printed] = await practice(["s03", "--reset"]);
    assert.match(printed, /→ step 1 of 2: write TodoManager\.update/, "and goes on with a run");
    assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  }
  const old = readdirSync(folder).filter((name) => name.endsWith(".old"));
  assert.deepEqual(old.map((name) => readFileSync(join(folder, name), "utf8")).sort(), ["first", "second"]);
});
