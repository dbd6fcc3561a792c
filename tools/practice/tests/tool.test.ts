// The tool as its reader meets it: screens, wrong solutions, and that nothing of the reader's is lost.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { functionsOf, readLessons } from "../../docs/lessons.ts";
import { draw, solution } from "../screen.ts";
import { isOpen, skeletonOf, stepsOf } from "../skeleton.ts";
import { check } from "../suite.ts";
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
async function screenOf(name: string, text: string, limit = 60_000): Promise<string> {
  const { lesson, file } = lessonOf(name);
  writeFileSync(file, text);
  const progress = await check(root, lesson, file, { limit });
  return stripVTControlCharacters(draw(root, file, lesson, progress, "s04"));
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
  const lines = [...functionsOf({ lines: source.split("\n") })].map(([name, { from, to }]) => [name, from, to]);
  assert.deepEqual(lines, [
    ["one", 2, 5],
    ["inner", 4, 4],
    ["next", 6, 6],
    ["Two.three", 8, 9],
    ["Two.four", 10, 10],
  ]);
});

test("the first screen names the first step, where it is, and the section of the page", async () => {
  const screen = await screenOf("s01", skeletonOf(lessonOf("s01").lesson));
  assert.match(screen, /░ 0 of 6 steps {3}/);
  assert.match(
    screen,
    /→ step 1 of 6: write agentLoop \(line \d+\)\n {2}practice\/s01_agent_loop.ts; .*"1\. The loop"\n/,
  );
});

for (const [what, name, text, words] of [
  [
    "an assertion that must not hold says so, and what there was",
    "s03",
    changed("s03", '(call) => call.name === "todo") ? 0', "(call) => call.name === undefined) ? 0"),
    /must not|wanted/,
  ],
  [
    "what was thrown is shown when it is not what was wanted",
    "s02",
    changed("s02", "if (isOutside) throw", 'if (isOutside) throw new Error("no");\n  if (isOutside) throw'),
    /wanted {2}an error like .*\n {2}came {4}Error: no\n/,
  ],
  [
    "an error of the API is one line",
    "s01",
    changed("s01", '    messages.push({ role: "assistant", content: reply.content });\n', ""),
    /the turn ended with: .*the API says 400: .*tool_use_id/,
  ],
  [
    "the function that threw is named, though another step's test failed",
    "s03",
    changed("s03", 'marks = { pending: "[ ]",', 'marks = { pending: JSON.parse("["),'),
    /→ step 1 of 3: look first at TodoManager\.render \(line \d+\)\n/,
  ],
  [
    "a function that the test never reached is named",
    "s04",
    changed("s04", "runTurn(messages, prompt, {", "Promise.resolve({"),
    /→ step 2 of 3: look first at textOf \(line \d+\), which was not called, then at runSubagent/,
  ],
  [
    "a limit that is not passed on is the fault of who does not pass it on",
    "s04",
    changed("s04", ", maxRounds: 30 }", " }"),
    /→ step 2 of 3: look first at runSubagent .*"2\. Run the child"/s,
  ],
  [
    "an error of the compiler is a failure",
    "s03",
    changed("s03", "let roundsWithoutTodo = 0;", 'let roundsWithoutTodo = 0 as number | "";'),
    /✗ its types are right\n\n {2}practice\/s03_todo_write\.ts:\d+:\d+: .*\n(.|\n)*→ look first at agentLoop \(line \d+\)/,
  ],
  [
    "a syntax error is one line with its place, and no advice",
    "s03",
    changed("s03", "while (true) {", "while (true {"),
    /did not load(.|\n)*✗ the file loads\n\n {2}Expected "\)".*\n {2}thrown at practice\/s03_todo_write.ts:(\d+)\n\n→ look first at line \2\n {2}practice\/s03_todo_write.ts\n/,
  ],
  [
    "an error while the file loads is named with its line",
    "s03",
    changed("s03", "export const TODO =", "nothing.at.all();\nexport const TODO ="),
    /did not load(.|\n)*✗ the file loads\n\n {2}ReferenceError: nothing is not/,
  ],
  ["an empty file is not green", "s03", "", /red: 0 of|did not load/],
  [
    "a process that ends in the middle of the tests is not green, and the line is named",
    "s03",
    changed("s03", "results.push(REMINDER)", "process.exit(0)"),
    /crashed(.|\n)*✗ the reminder comes after the results.*\n\n {2}Something called process.exit\.(.|\n)*agentLoop \(line/,
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

test("a loop that blocks the process is stopped, and the test is named", async () => {
  const endless = changed("s03", "this.items = check(", "while (Date.now() > 0);\n    this.items = check(");
  const screen = await screenOf("s03", endless, 10_000);
  assert.match(screen, /timed out(.|\n)*✗ the list shows a mark and a number.*\n\n {2}Stopped: .*loop that never ends/);
});

test("a step is written as soon as its body is another, though the mark of what was to be written is still there", () => {
  const { lesson, text } = lessonOf("s01");
  const begun = skeletonOf(lesson, ["agentLoop"]);
  assert.deepEqual([isOpen(lesson, begun, "runTurn"), isOpen(lesson, begun, "agentLoop")], [true, false]);
  const marked = text.replace("    throw error;\n", (line) => `${line}    // write me: runTurn\n`);
  assert.equal(isOpen(lesson, marked, "runTurn"), false);
});

test("when all is green, the screen says what is next", async () => {
  const { text } = lessonOf("s03");
  const screen = await screenOf("s03", text);
  assert.match(screen, /█ 3 of 3 steps .*\n\nAll green\. .*\nNext: npm run practice -- s04\n$/);
});

test("the solution is that of a step, and of no other", () => {
  const { lesson } = lessonOf("s03");
  const shown = solution(lesson, stepsOf(lesson).slice(1, 2));
  assert.match(shown, /^ {4}roundsWithoutTodo = /m);
  assert.doesNotMatch(shown, /write me|completed/);
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

const USAGE = " Usage: npm run practice -- s03 [--once | --hint | --solution | --reset]\n";
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
  assert.match((await practice([]))[1], /^s03: todo write +(\d+) of \1 steps$/m);
});

test("a lesson or an option that does not exist is an error that names it", async () => {
  assert.deepEqual(await practice(["s07"]), [
    1,
    `There is no lesson s07, only ${[...lessons.keys()].join(", ")}.${USAGE}`,
  ]);
  assert.deepEqual(await practice(["s03", "--slow"]), [1, `There is no option slow.${USAGE}`]);
});

test("a folder that cannot be written is one line", async () => {
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "a file");
  const [code, printed] = await practice(["s03", "--once"]);
  assert.equal(code, 1);
  assert.match(printed, /^[^\n]*practice[^\n]*\n$/);
});

test("--reset asks, and keeps the old file, each time another; without an answer nothing changes", async () => {
  const { lesson, file } = lessonOf("s03");
  writeFileSync(file, "first");
  for (const answer of ["n\n", ""])
    assert.match((await practice(["s03", "--reset"], answer))[1], /Nothing was changed/);
  assert.equal(readFileSync(file, "utf8"), "first");
  await practice(["s03", "--reset"], "y\n");
  assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  writeFileSync(file, "second");
  await practice(["s03", "--reset"], "y\n");
  const old = readdirSync(folder).filter((name) => name.endsWith(".old"));
  assert.deepEqual(old.map((name) => readFileSync(join(folder, name), "utf8")).sort(), ["first", "second"]);
});
