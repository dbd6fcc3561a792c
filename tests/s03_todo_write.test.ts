// The todo list: what it accepts and how it looks, and the reminder to keep it.

import assert from "node:assert/strict";
import { beforeEach } from "node:test";
import type { Messages } from "../agents/s03_todo_write.ts";
import { bash, blocksOf, call, goOn, onEach, say, step, turn, use } from "./harness.ts";

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

/** What the messages with results consist of, such as "result, result, reminder". Two of the user's are one. */
const rounds = (messages: Messages) =>
  messages.flatMap((message, i) => {
    const next = messages[i + 1];
    const rest = next?.role === "user" && typeof next.content !== "string" ? next.content : [];
    const blocks = message.role === "user" ? [...blocksOf(message), ...rest] : [];
    if (!blocks.some(({ type }) => type === "tool_result")) return [];
    const texts = blocks.flatMap((block) => (block.type === "text" ? block.text : []));
    for (const text of texts) assert.equal(text, "<reminder>Update your todos.</reminder>");
    return blocks.map(({ type }) => (type === "text" ? "reminder" : "result")).join(", ");
  });

onEach({ s03, s06 }, (lesson, test) => {
  const { TODO, TodoManager } = lesson;
  beforeEach(() => {
    TODO.items = [];
  });

  step("TodoManager.update");
  test("the list shows a mark and a number for each item, and how many are completed", () => {
    const todo = new TodoManager();
    assert.equal(todo.update(PLAN), RENDERED);
    assert.equal(todo.render(), RENDERED);
  });

  test("an update replaces the whole list, also by an empty one", () => {
    const todo = new TodoManager();
    todo.update(PLAN);
    assert.equal(todo.update([item("rest", "completed")]), "[x] #1: rest\n(1/1 completed)");
    assert.equal(todo.update([]), "(0/0 completed)");
    const mixed = [item("last"), item("first", "completed")];
    assert.equal(todo.update(mixed), "[ ] #1: last\n[x] #2: first\n(1/2 completed)", "in the order of the model");
  });

  for (const [what, list, reason] of [
    ["more than 20 items", items(21), /20|21|twenty/i],
    ["two items in progress", [item("a", "in_progress"), item("b", "in_progress")], /in.progress|active|at a time/i],
  ] satisfies [string, typeof PLAN, RegExp][]) {
    test(`a list with ${what} is refused with the reason, and the old one stays`, () => {
      const todo = new TodoManager();
      todo.update(PLAN);
      assert.throws(() => todo.update(list), reason);
      assert.equal(todo.render(), RENDERED);
    });
  }

  test("20 items are allowed", () => {
    assert.match(new TodoManager().update(items(20)), /\[ \] #20: step 20\n\(0\/20 completed\)$/);
  });

  test("the todo tool returns the list; a list that breaks a rule is an error, and the turn goes on", async () => {
    const wrong = [
      items(21),
      [item(" \n")],
      [{ status: "pending" }],
      [{ text: "a", status: "done" }],
      ["a"],
      "no list",
    ];
    const replies = [plan(PLAN), call(...wrong.map((list) => use("todo", { items: list }))), done];
    const { error, results, messages } = await turn(lesson, replies);
    assert.equal(error, undefined);
    assert.deepEqual([results[0]?.text, TODO.render()], [RENDERED, RENDERED]);
    const reasons = [/(20|21|twenty)/, /text/, /text/, /status/, /items/, /items/];
    for (const [i, reason] of reasons.entries()) {
      const { text = "", failed } = results[i + 1] ?? {};
      assert.match(`${failed} ${text}`, new RegExp(`^true .*${reason.source}`, "s"));
    }
    await goOn(lesson, messages);
  });

  test("the model learns the shape of the list from the tool, and when to plan from the system prompt", () => {
    const schema = JSON.stringify(lesson.TOOLS.find(({ name }) => name === "todo")?.input_schema);
    for (const part of ['"in_progress"', '"text"', '"required":["items"]']) assert.ok(schema.includes(part), part);
    assert.match(lesson.SYSTEM, /todo/);
  });
});

onEach({ s03, s04, s06 }, (lesson, test) => {
  beforeEach(() => {
    lesson.TODO.items = [];
  });

  step("agentLoop");
  test("the reminder comes after the results of the third round without todo, and again three rounds later", async () => {
    const two = bash("true", "true");
    const { messages } = await turn(lesson, [work(), work(), two, work(), work(), work(), work(), done]);
    const third = "result, result, reminder";
    const expected = ["result", "result", third, "result", "result", "result, reminder", "result"];
    assert.deepEqual(rounds(messages), expected);
    await goOn(lesson, messages);
  });

  test("a request starts the count again", async () => {
    const { messages } = await turn(lesson, [work(), work(), done]);
    await turn(lesson, [work(), work(), work(), done], { messages, request: "more" });
    assert.deepEqual(rounds(messages), ["result", "result", "result", "result", "result, reminder"]);
  });

  test("a call of todo starts the count again, even among other calls", async () => {
    const command = use("bash", { command: "true" });
    for (const list of [PLAN, []]) {
      const among = call(command, use("todo", { items: list }), command);
      const { messages } = await turn(lesson, [work(), among, work(), work(), work(), done]);
      const expected = ["result", "result, result, result", "result", "result", "result, reminder"];
      assert.deepEqual(rounds(messages), expected);
    }
  });
});
