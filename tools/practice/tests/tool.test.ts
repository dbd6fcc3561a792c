// What a reader sees of practice.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, beforeEach, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { parseCode, readLessons } from "../../lesson/source.ts";
import { check } from "../grade.ts";
import { draw } from "../screen.ts";
import { fileFor, skeletonOf, stepsOf, textOf } from "../skeleton.ts";
import { folderOf, root } from "./root.ts";

const lessons = readLessons(root);
const folder = join(root, "practice");
beforeEach(() => void folderOf("practice"));

function lessonOf(name: string) {
  const lesson = lessons.get(name) ?? assert.fail(name);
  return { lesson, file: join(folder, basename(lesson.file)), text: `${lesson.lines.join("\n")}\n` };
}
const { lesson, file, text } = lessonOf("s03");
/** s03 with a part replaced. */
function changed(from: string, to: string): string {
  assert.ok(text.includes(from), from);
  return text.replace(from, () => to);
}
/** s03 with a mistake in its first step. */
const WRONG = changed("{i + 1}", "{i}");

/** The screen when the reader's file has this text. */
async function screenOf(text: string, patience: number): Promise<string> {
  const { lesson, file } = lessonOf(/s\d\d(?=: )/.exec(text)?.[0] ?? "");
  writeFileSync(file, text);
  const progress = await check(lesson, file, { stepsDone: 0, greenTexts: {} }, { patience, stepsOnly: true });
  return stripVTControlCharacters(draw(lesson, progress, 0));
}

const FORMAT = `format --stdin-file-path=s03.ts --indent-width=4 --line-width=80 --semicolons=as-needed
  --javascript-formatter-quote-style=single`.split(/\s+/);
const reformatted = (text: string) =>
  execFileSync(join(root, "node_modules/.bin/biome"), FORMAT, {
    cwd: import.meta.dirname,
    input: text,
    encoding: "utf8",
  });

for (const [what, source, words] of [
  [
    "the first screen names the first step, its line, and the section of the page",
    skeletonOf(lessonOf("s01").lesson),
    /░ 0 of 5 steps {3}red(.|\n)*→ step 1 of 5: write agentLoop \(line \d+\); .*\n {2}practice\/s01_agent_loop.ts; .*"1\. The loop"\n/,
  ],
  [
    "both sides of an assertion are shown, with its line",
    WRONG,
    /✗ s03: .*\n\n {2}wanted .*#1: .*\n {2}came .*#0: .*\n {2}tests\/s03_todo_write\.test\.ts:\d+ {3}assert(.|\n)*step 1 of 2: look at TodoManager\.update \(line \d+\), look at TodoManager\.render/,
  ],
  [
    "an error of the API is one line",
    lessonOf("s01").text.replace('    messages.push({ role: "assistant", content: reply.content });\n', ""),
    /the API says: .*tool_use_id(.|\n)*step 1 of 5: look at agentLoop/,
  ],
  [
    "what console.log prints in that test is shown, with control characters escaped",
    changed("const isUpdated = calls", 'console.log("mine\\x1b[2J");\n    const isUpdated = !calls'),
    /✗ s03: (.|\n)*\n {2}printed by console\.log:\n {2}mine\\u\{1b\}\[2J\n(.|\n)*→ step 2 of 2/,
  ],
  [
    "at most three of the given functions that were changed are named",
    WRONG.replaceAll(/^(function (cutMiddle|describeError|rootCause|reportError)\(.*\n)/gm, "$1  void 0;\n"),
    /→ not as it was given: (\w+ \(line \d+\)(, )?){3} and 1 more\n {2}step 1 of 2/,
  ],
  [
    "formatting and line ends are no changes",
    reformatted(WRONG).replaceAll("\n", "\r\n"),
    /\n→ step 1 of 2: look at TodoManager\.update /,
  ],
  [
    "a type error keeps the bar where it was, and has its line and the compiler's reasons",
    changed("export const TODO =", 'export const MINE: { a: 1 } = { a: "b" } as { a: string };\nexport const TODO ='),
    /█ 2 of 2 steps(.|\n)*✗ its types\n\n {2}(practice\/s03_todo_write\.ts:\d+): .*\n +Types of property 'a'(.|\n)*→ look at \2\n/,
  ],
  [
    "a syntax error is one line with its place",
    changed("while (true) {", "while (true {"),
    /did not load(.|\n)*\n {2}practice\/s03_todo_write\.ts:(\d+): .*\n(.|\n)*→ look at practice\/s03_todo_write\.ts:\2\n/,
  ],
  [
    "an error that only the bundler finds is one line",
    `${text}const TODO = 1;\n`,
    /did not load(.|\n)*✗ the file loads\n\n {2}The symbol "TODO" has already been declared\n {2}thrown at (practice\/s03_todo_write\.ts:\d+)\n(.|\n)*→ look at \2\n/,
  ],
  [
    "an error while the file loads is shown with its line",
    changed("export const TODO =", "nothing.at.all();\nexport const TODO ="),
    /did not load(.|\n)*✗ the file loads\n\n {2}nothing is not.*\n.*\n {2}thrown at (practice\/s03_todo_write\.ts:\d+)\n(.|\n)*→ look at \2\n/,
  ],
  [
    "a process that ends in the middle of the tests isn't green, and the line is named",
    changed("this.roundsWithoutUpdate = 0;\n    const text", "process.exit(0);\n    const text"),
    /crashed(.|\n)*✗ s03: .*\n\n {2}Something called process\.exit\.\n.*\n {2}thrown at practice\/s03_todo_write\.ts:\d+/,
  ],
  [
    "a loop that blocks the process is stopped, and the test is named",
    changed("this.items = items;", "while (Date.now() > 0);"),
    /timed out(.|\n)*✗ s03: .*\n\n {2}Stopped: .*loop that never ends/,
  ],
  [
    "a function that isn't written says so, even if that makes a turn fail",
    skeletonOf(lessonOf("s06").lesson, ["microCompact", "splitAnswered"]),
    /\n {2}the turn ended with: Error: write me: \w+\n(.|\n)*→ step 2 of 11: write autoCompact /,
  ],
] satisfies [string, string, RegExp][]) {
  test(what, async () => {
    const screen = await screenOf(source, /loop/.test(what) ? 4_000 : 60_000);
    assert.match(screen, words);
    assert.doesNotMatch(screen, /All green/);
  });
}

test("an assertion's sides begin at the first difference, with control characters escaped and repetitions counted", () => {
  const shown = (wanted: string, came: string) => {
    const failure = { state: "red" as const, test: "a test", problem: { message: "", stack: "", wanted, came } };
    const progress = { stepsDone: 0, greenTexts: {}, state: failure.state, typeErrors: [], ranAll: false, failure };
    const lines = draw(lesson, progress, 0).split("\n");
    return lines.flatMap((line) => /^ {2}(?:wanted|came) .*/.exec(line) ?? []);
  };
  assert.deepEqual(shown("/401/", "''"), ["  wanted  /401/", "  came    ''"]);
  assert.deepEqual(shown("{\n  a: 1,\n  b: 2\n}", "{\n  a: 1,\n  b: 3\n}"), ["  wanted    b: 2", "  came      b: 3"]);
  assert.deepEqual(shown("'a\\n'", "'a\\n' +\n  '\\n'"), [
    "  wanted  'a\\n'",
    "  came    'a\\n' +",
    "  came      '\\n'",
  ]);
  assert.deepEqual(shown("1", "1\n2"), ["  wanted  (nothing)", "  came    2"]);
  assert.deepEqual(shown(`'${"0".repeat(300)}'`, `'${"0".repeat(299)}'`), [
    "  wanted  '0 × 300'",
    "  came    '0 × 299'",
  ]);
  assert.deepEqual(shown("'\u202e'", "'\u202d'"), ["  wanted  '\\u{202e}'", "  came    '\\u{202d}'"]);
  const numbers = Array.from({ length: 400 }, (_, i) => i).join(" ");
  assert.match(shown(`${numbers}a`, `${numbers}b`).join("\n"), /^ {2}wanted {2}… .{100}a\n {2}came {4}… .{100}b$/);
});

const PROGRAM = ["--import", "tsx", join(root, "tools/practice/main.ts")];
/** Starts a command. `printed` returns what it has printed so far, and `ended` is its exit code. */
function start(command: string, args: string[], env = process.env) {
  const child = spawn(command, args, { cwd: root, env });
  after(() => child.kill("SIGKILL")); // if a test fails while it waits
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data) => {
      printed += data;
    });
  }
  const ended: Promise<number> = once(child, "close").then(([code]) => code);
  return {
    type: (keys: string) => child.stdin.write(keys),
    ended,
    printed: () => stripVTControlCharacters(printed).replaceAll("\r", ""),
  };
}

/** Runs the program. Returns its exit code and what it printed. */
async function practice(...args: string[]): Promise<[number, string]> {
  const { ended, printed } = start(process.execPath, [...PROGRAM, ...args]);
  return [await ended, printed()];
}

const waitFor = async (isSo: () => boolean) => {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20)); // the runner has a limit for each test
};

/** Starts the program on s03 at a terminal. `leftovers` returns its temporary files. */
function atTerminal() {
  const temporary = mkdtempSync(join(root, "temporary-"));
  const command = [process.execPath, ...PROGRAM, "s03"].join(" ");
  const env = { ...process.env, TMPDIR: temporary, NO_COLOR: "1" };
  const leftovers = () => readdirSync(temporary).filter((name) => !name.startsWith("tsx-"));
  return { ...start("/usr/bin/script", ["-qec", command, "/dev/null"], env), leftovers };
}
const inTerminal = { skip: !existsSync("/usr/bin/script") && "needs script from util-linux" };

test("the screen says which file was made, and shows a hint when h is pressed", inTerminal, async () => {
  const { printed, type, ended } = atTerminal();
  await waitFor(() => printed().includes("h shows a hint"));
  assert.match(printed().split("running…").at(-1) ?? "", /Made practice\/s03_todo_write\.ts(.|\n)*0 of 2 steps/);
  assert.doesNotMatch(printed(), /Check before you assign/);
  type("h");
  await waitFor(() => printed().includes("Check before you assign"));
  type("\x03");
  await ended;
});

test("saving stops a run and starts the next, and Ctrl-C leaves no temporary files", inTerminal, async () => {
  const endless = "while (Date.now() > 0);\n";
  writeFileSync(file, endless);
  const { printed, leftovers, type, ended } = atTerminal();
  await waitFor(() => leftovers().length > 0);
  writeFileSync(file, text);
  await waitFor(() => printed().includes("All green."));
  assert.match(
    printed(),
    /(running…(.|\n)*){2}Each step is green\. All tests of the program run…(.|\n)*█ 2 of 2 steps .*\s+All green\..*\s+Run it, .*s03_todo_write\.ts\s+Next: npm run practice -- s04\s/,
  );
  writeFileSync(file, `${text}// mine\n`);
  await waitFor(() => printed().includes("A key runs all tests"));
  type(" ");
  await waitFor(() => printed().split("All green.").length === 3);
  assert.doesNotMatch(printed(), /timed out/);
  writeFileSync(file, endless);
  await waitFor(() => leftovers().length > 0);
  type("\x03");
  assert.deepEqual([await ended, leftovers()], [130, []]);
});

test("without a terminal the hint is shown at once, and --solution shows the step that was red", async () => {
  writeFileSync(file, skeletonOf(lesson, ["TodoManager.update", "TodoManager.render"]));
  assert.match((await practice("s03"))[1], /A hint: reminderAfter counts /);
  writeFileSync(file, "this is no code");
  const [, shown] = await practice("s03", "--solution");
  assert.match(shown, /this\.roundsWithoutUpdate = /);
  assert.doesNotMatch(shown, /write me|marks = /);
});

test("if only a test of the whole program is red, the step to blame is named, and the bar stays full", async () => {
  const wrong = changed("roundsWithoutUpdate < 3", "roundsWithoutUpdate < 4");
  const code = parseCode(wrong);
  const greenTexts = Object.fromEntries(stepsOf(lesson).map(({ name }) => [name, textOf(fileFor(lesson, code, name))]));
  writeFileSync(file, wrong);
  writeFileSync(`${file}.json`, JSON.stringify({ stepsDone: 2, greenTexts })); // as if the steps' tests had let it pass
  const [, printed] = await practice("s03");
  assert.match(printed, /█ 2 of 2 steps {3}red(.|\n)*→ step 2 of 2: look at agentLoop .*; the other steps are yours\n/);
});

test("if a step that was green turns red, the screen names what has changed since then", async () => {
  writeFileSync(file, `${text}const MINE = 1;\n`);
  await practice("s03");
  writeFileSync(file, changed("roundsWithoutUpdate < 3", "roundsWithoutUpdate < 4"));
  const [, printed] = await practice("s03");
  assert.match(printed, /\n {2}it was green; since then you changed TodoManager\.reminderAfter \(line \d+\)\n/);
});

test("two terminals make the file once, an existing file never changes, and --reset keeps it under another name", async () => {
  const both = await Promise.all([practice("s03"), practice("s03")]);
  assert.equal(both.filter(([, printed]) => printed.includes("Made practice/s03_todo_write.ts")).length, 1);
  assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  writeFileSync(file, text);
  assert.equal((await practice("s03"))[0], 0);
  assert.equal(readFileSync(file, "utf8"), text);
  assert.match(
    (await practice("s03", "--reset"))[1],
    /→ step 1 of 2: write TodoManager\.update/,
    "and tests the new one",
  );
  assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  const [old = ""] = readdirSync(folder).filter((name) => name.endsWith(".old"));
  assert.equal(readFileSync(join(folder, old), "utf8"), text);
});

test("a lesson or an option that doesn't exist, or a folder that can't be written, is an error of one line", async () => {
  const names = [...lessons.keys()].join(", ");
  assert.deepEqual(await practice("s07"), [1, `Name one of the lessons ${names}: npm run practice -- s01\n`]);
  assert.match((await practice("s03", "--slow")).join(": "), /^1: Unknown option '--slow'.*\n$/);
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "a file");
  assert.match((await practice("s03")).join(": "), /^1: [^\n]*practice[^\n]*\n$/);
});
