// The tool as its reader meets it: screens, wrong solutions, and that nothing of the reader's is lost.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { readLessons } from "../../docs/lessons.ts";
import { draw, solution } from "../screen.ts";
import { isOpen, skeletonOf, stepsOf } from "../skeleton.ts";
import { check } from "../suite.ts";
import { folder, root } from "./root.ts";

const lessons = readLessons(root);
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
});

function lessonOf(name: string) {
  const lesson = lessons.get(name);
  assert.ok(lesson);
  return { lesson, file: join(folder, basename(lesson.file)), text: `${lesson.lines.join("\n")}\n` };
}
/** The screen of a lesson when the reader's file has this text. */
async function screenOf(name: string, text: string, limit = 60_000): Promise<string> {
  const { lesson, file } = lessonOf(name);
  writeFileSync(file, text);
  const progress = await check(root, lesson, file, limit);
  return stripVTControlCharacters(draw(root, file, lesson, progress, "s04"));
}
/** A lesson with a part replaced, which has to be there. */
function changed(name: string, from: string, to: string): string {
  const { text } = lessonOf(name);
  assert.ok(text.includes(from), from);
  return text.replace(from, () => to);
}

for (const lesson of lessons.values()) {
  test(`${lesson.name}: the first screen names the first step and where it is`, async () => {
    const [step] = stepsOf(lesson);
    const screen = await screenOf(lesson.name, skeletonOf(lesson));
    assert.match(screen, /░ 0 of \d+ {3}/);
    for (const name of step?.functions ?? []) assert.match(screen, new RegExp(`→ step 1 of .*${name} \\(line \\d+\\)`));
    assert.match(screen, new RegExp(`${basename(lesson.file)}; the page: ${lesson.page}, "`));
  });
}

const CALLS_CHECK = "if (calls.length === 0) return reply;";
const PUSH_REPLY = '    messages.push({ role: "assistant", content: reply.content });\n';
const PUSH_RESULTS = 'messages.push({ role: "user", content: results });';
for (const [name, what, text, title, words] of [
  [
    "s01",
    "stops on stop_reason",
    changed("s01", CALLS_CHECK, 'if (reply.stop_reason !== "tool_use") return reply;'),
    "looks for calls in the blocks, whatever the stop reason is",
    /wanted/,
  ],
  [
    "s01",
    "sends one message for each result",
    changed("s01", PUSH_RESULTS, 'for (const result of results) messages.push({ role: "user", content: [result] });'),
    "runs the calls of one reply in their order; the results come in that order in one message",
    /user/,
  ],
  [
    "s01",
    "never returns",
    changed("s01", CALLS_CHECK, ""),
    "goes on until the model calls no more tools, and the messages grow in place",
    /the turn ended with: /,
  ],
  [
    "s01",
    "forgets the reply",
    changed("s01", PUSH_REPLY, ""),
    "goes on until the model calls no more tools, and the messages grow in place",
    /the turn ended with: .*the API says 400: .*tool_use_id/,
  ],
  [
    "s03",
    "puts the reminder before the results",
    changed("s03", "results.push(REMINDER)", "results.unshift(REMINDER)"),
    "the reminder comes after the results of the third round without todo, and again three rounds later",
    /the turn ended with: .*the API says 400: /,
  ],
  [
    "s03",
    "does not start the count again",
    changed("s03", '(call) => call.name === "todo") ? 0', "(call) => call.name === undefined) ? 0"),
    "a call of todo starts the count again, even among other calls",
    /reminder/,
  ],
  [
    "s03",
    "counts on from one request to the next",
    `${changed("s03", "  let roundsWithoutTodo = 0;\n", "")}let roundsWithoutTodo = 0;\n`,
    "a request starts the count again",
    /reminder/,
  ],
] satisfies [string, string, string, string, RegExp][]) {
  test(`${name}: a solution that ${what} ends on the test that says so`, async () => {
    const screen = await screenOf(name, text);
    assert.match(screen, new RegExp(`^✗ ${title.replace(/[.*+?()]/g, "\\$&")}$`, "m"));
    assert.match(screen, words);
  });
}

test("a syntax error is one line with its place", async () => {
  const screen = await screenOf("s03", changed("s03", "while (true) {", "while (true {"));
  assert.match(screen, /✗ the file loads\n\n {2}practice\/s03_todo_write\.ts:\d+:\d+: .*\n\n→/);
});

test("an error while the file loads is named with its line", async () => {
  const screen = await screenOf("s03", changed("s03", "export const TODO =", "nothing.at.all();\nexport const TODO ="));
  assert.match(screen, /✗ the file loads\n\n {2}practice\/s03_todo_write\.ts[:\d]+: ReferenceError: nothing is not/);
});

test("a loop that blocks the process is stopped, and the test is named", async () => {
  const endless = changed("s03", "this.items = check(", "while (Date.now() > 0);\n    this.items = check(");
  const screen = await screenOf("s03", endless, 10_000);
  assert.match(screen, /✗ the list shows a mark and a number.*\n\n {2}Stopped: .*loop that never ends/);
});

test("a process that ends in the middle of the tests is not green, and the test is named", async () => {
  const screen = await screenOf("s03", changed("s03", "results.push(REMINDER)", "process.exit(0)"));
  assert.match(screen, /✗ the reminder comes after the results.*\n\n {2}The process ended here/);
});

test("a step is written as soon as its body is another, though the mark of what was to be written is still there", () => {
  const { lesson, text } = lessonOf("s01");
  const begun = skeletonOf(lesson, ["agentLoop"]);
  assert.deepEqual([isOpen(lesson, begun, "runTurn"), isOpen(lesson, begun, "agentLoop")], [true, false]);
  const marked = text.replace("    throw error;\n", (line) => `${line}    // write me: runTurn\n`);
  assert.equal(isOpen(lesson, marked, "runTurn"), false);
});

test("when all is green, the screen says how much was written, and what is next", async () => {
  const { text } = lessonOf("s03");
  const screen = await screenOf("s03", text);
  assert.match(screen, /█ (\d+) of \1 .*\n\nAll green\. You wrote \d+ lines; .*\nNext: npm run practice -- s04\n$/);
});

test("the solution is the difference of a step, and of no other", () => {
  const { lesson } = lessonOf("s03");
  const shown = solution(skeletonOf(lesson), lesson, stepsOf(lesson)[1]);
  assert.match(shown, /^\+ {4}roundsWithoutTodo = /m);
  assert.doesNotMatch(shown, /write me|completed/);
});

/** Runs the program. @returns its exit code and what it printed */
async function practice(args: string[], input = ""): Promise<[number | null, string]> {
  const program = join(root, "tools/practice/main.ts");
  const child = spawn(process.execPath, ["--import", "tsx", program, ...args], { cwd: root });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data) => {
      printed += data;
    });
  }
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return [code, printed];
}

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
  assert.match((await practice([]))[1], /^s03: todo write +(\d+) of \1$/m);
});

test("a lesson or an option that does not exist is an error that names it", async () => {
  assert.deepEqual(await practice(["s07"]), [
    1,
    `There is no lesson s07, only ${[...lessons.keys()].join(", ")}.${USAGE}`,
  ]);
  assert.deepEqual(await practice(["s03", "--slow"]), [1, `There is no option slow.${USAGE}`]);
});

test("--reset asks, and keeps the old file, each time another", async () => {
  const { lesson, file } = lessonOf("s03");
  writeFileSync(file, "first");
  assert.match((await practice(["s03", "--reset"], "n\n"))[1], /Nothing was changed/);
  assert.equal(readFileSync(file, "utf8"), "first");
  await practice(["s03", "--reset"], "y\n");
  assert.equal(readFileSync(file, "utf8"), skeletonOf(lesson));
  writeFileSync(file, "second");
  await practice(["s03", "--reset"], "y\n");
  const old = readdirSync(folder).filter((name) => name.endsWith(".old"));
  assert.deepEqual(old.map((name) => readFileSync(join(folder, name), "utf8")).sort(), ["first", "second"]);
  assert.ok(existsSync(file));
});
