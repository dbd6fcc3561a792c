// The todo list: which lists are accepted, and when the model is reminded to update it.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Messages } from "../agents/s03_todo_write.ts";
import { bash, call, say, use } from "../offline/api/said.ts";
import { useServer } from "./server.ts";
import { blocksOf, goOn, onEach, resultsIn, turn } from "./turn.ts";
import { useWorkspace } from "./workspace.ts";

useWorkspace();
await useServer();
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s06 = await import("../agents/s06_context_compact.ts");

type Status = "pending" | "in_progress" | "completed";
const item = (text: string, status: Status = "pending") => ({ text, status });
const items = (count: number) => Array.from({ length: count }, (_, i) => item(`step ${i + 1}`));
const PLAN = [item("read", "completed"), item("write", "in_progress"), item("test")];
const RENDERED = "[x] #1: read\n[>] #2: write\n[ ] #3: test\n(1/3 completed)";
const plan = (list: unknown) => call(use("todo", { items: list }));
const work = () => bash("true");
const done = say("Done.");

/** Describes each round's results, as in "result, result, reminder". */
const rounds = (messages: Messages, list = RENDERED) =>
  messages
    .filter((message) => resultsIn([message]).length > 0)
    .map((message) => {
      const blocks = blocksOf(message);
      for (const block of blocks) if (block.type === "text") assert.equal(block.text, reminder(list));
      return blocks.map(({ type }) => (type === "text" ? "reminder" : "result")).join(", ");
    });
const reminder = (list: string) => `<reminder>Update your todos:\n${list}</reminder>`;

onEach("TodoManager.update", { s03 }, (lesson) => {
  const { TODO } = lesson;
  beforeEach(() => {
    TODO.items = [];
  });

  test("the todo tool accepts 20 items and returns the list, with blanks around a text removed", async () => {
    const replies = [plan([item(" read \n", "completed"), ...PLAN.slice(1)]), plan(items(20)), done];
    const { error, results } = await turn(lesson, replies);
    assert.equal(error, undefined);
    assert.equal(results[0]?.text, RENDERED);
    assert.match(results[1]?.text ?? "", /\[ \] #20: step 20\n\(0\/20 completed\)$/);
  });

  test("a list that breaks a rule is an error that says which, the old list stays, and the turn goes on", async () => {
    const wrong: [list: unknown, reason: RegExp][] = [
      [items(21), /items/],
      [[item("a", "in_progress"), item("b", "in_progress")], /in_progress/],
      [[item(" \n")], /text/],
      [[{ status: "pending" }], /text/],
      [[{ text: "a", status: "done" }], /status/],
      [["a"], /items/],
    ];
    const replies = [plan(PLAN), call(...wrong.map(([list]) => use("todo", { items: list }))), done];
    const { error, results, messages } = await turn(lesson, replies);
    assert.equal(error, undefined);
    assert.equal(TODO.render(), RENDERED);
    for (const [i, [, reason]] of wrong.entries()) {
      const { text = "", failed } = results[i + 1] ?? {};
      assert.match(`${failed} ${text}`, new RegExp(`^true .*(${reason.source})`, "s"));
    }
    await goOn(lesson, messages);
  });
});

onEach("agentLoop", { s03, s04, s06 }, (lesson) => {
  const quiet = Array(2).fill("result");
  const untilReminder = [...quiet, "result, reminder"];

  test("every three rounds without a call to todo, a reminder with the list follows the results", async () => {
    const two = bash("true", "true");
    const { messages } = await turn(lesson, [plan(PLAN), work(), two, work(), ...Array(7).fill(null).map(work), done]);
    const first = ["result", "result, result", "result, reminder"];
    assert.deepEqual(rounds(messages), ["result", ...first, ...untilReminder, ...untilReminder, "result"]);
    await goOn(lesson, messages);
  });

  test("a call to todo starts the count again, even among other calls", async () => {
    const command = use("bash", { command: "true" });
    const among = call(command, use("todo", { items: [item("write", "in_progress")] }), command);
    const { messages } = await turn(lesson, [plan(PLAN), work(), work(), among, work(), work(), work(), done]);
    const list = "[>] #1: write\n(0/1 completed)";
    assert.deepEqual(rounds(messages, list), ["result", ...quiet, "result, result, result", ...untilReminder]);
  });

  test("there is no reminder of an empty or finished list", async () => {
    for (const list of [[], [item("read", "completed")]]) {
      const { messages } = await turn(lesson, [plan(list), work(), work(), work(), work(), done]);
      assert.deepEqual(rounds(messages), Array(5).fill("result"));
    }
  });
});
