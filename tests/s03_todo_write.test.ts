// The todo list: what it accepts and how it looks, and the reminder that keeps the model at it.

import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { before, beforeEach, describe } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { type Reply, scripted } from "../offline/server.ts";
import { carryOver, enterWorkspace, goTo, LESSON, server, start, test, underTest, until } from "./harness.ts";
import { blocksOf, call as round, say, use } from "./replies.ts";

const folder = enterWorkspace();
const s03 = await underTest<typeof import("../agents/s03_todo_write.ts")>();
s03.approval.always = true;

type Item = { text: string; status: string };

const item = (text: string, status = "pending"): Item => ({ text, status });
const items = (count: number) => Array.from({ length: count }, (_, i) => item(`step ${i + 1}`));
const PLAN = [item("read", "completed"), item("write", "in_progress"), item("test")];
const RENDERED = "[x] #1: read\n[>] #2: write\n[ ] #3: test\n(1/3 completed)";

const plan = (list: unknown) => round(use("todo", { items: list }));
const work = () => round(use("bash", { command: "echo working" }));
const done = say("Done.");

const REMINDER = { type: "text", text: "<reminder>Update your todos.</reminder>" };

const resultsIn = (messages: Anthropic.MessageParam[]) =>
  messages.flatMap(blocksOf).filter((block) => block.type === "tool_result");
const isReminder = (block: Anthropic.ContentBlockParam) => block.type === "text" && /<reminder>/.test(block.text);

/** Which rounds of the history, counted from 1, end with a reminder. */
function reminded(messages: Anthropic.MessageParam[]): number[] {
  const rounds = messages.filter((message) => blocksOf(message).some((block) => block.type === "tool_result"));
  return rounds.flatMap((message, i) => (blocksOf(message).some(isReminder) ? [i + 1] : []));
}

/** One request of the person's, answered by these replies. */
async function ask(messages: Anthropic.MessageParam[], ...replies: Reply[]) {
  messages.push({ role: "user", content: "go on" });
  server.model = scripted(...replies);
  return s03.agentLoop(messages);
}

const assertAccepted = () =>
  assert.deepEqual(
    server.journal.flatMap(({ error }) => error ?? []),
    [],
  );

describe(`what s03 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  beforeEach(() => {
    server.journal.length = 0;
    s03.TODO.items = [];
  });

  describe("the list", () => {
    test("is rendered with a mark and a number for each item and the count of those completed", () => {
      assert.equal(new s03.TodoManager().update(PLAN), RENDERED);
    });

    test("is replaced as a whole by each update", () => {
      const todo = new s03.TodoManager();
      todo.update(PLAN);
      assert.equal(todo.update([item("rest", "completed")]), "[x] #1: rest\n(1/1 completed)");
      assert.equal(todo.render(), "[x] #1: rest\n(1/1 completed)");
    });

    test("may be emptied", () => {
      const todo = new s03.TodoManager();
      todo.update(PLAN);
      assert.equal(todo.update([]), "(0/0 completed)");
    });

    test("may arrive as a JSON string", () => {
      assert.equal(new s03.TodoManager().update(JSON.stringify(PLAN)), RENDERED);
    });

    test("holds 20 items and refuses the 21st", () => {
      const todo = new s03.TodoManager();
      assert.match(todo.update(items(20)), /\[ \] #20: step 20\n\(0\/20 completed\)$/);
      assert.throws(() => todo.update(items(21)), /at most 20 items/);
      assert.match(todo.render(), /\(0\/20 completed\)$/);
    });

    test("may have one item in progress, or none, but not two", () => {
      const todo = new s03.TodoManager();
      assert.match(todo.update([item("a", "in_progress"), item("b", "completed")]), /\[>\] #1: a\n\[x\] #2: b/);
      assert.match(todo.update([item("a")]), /\[ \] #1: a/);
      assert.throws(() => todo.update([item("a", "in_progress"), item("b", "in_progress")]), /only one .*in_progress/);
    });

    test("keeps texts as they are: Chinese, emoji, markup, other names of objects' properties", () => {
      const texts = ["写测试", "ship it 🚀", "<b>& $& \\n", "constructor", "__proto__"];
      const rendered = new s03.TodoManager().update(texts.map((text) => item(text)));
      for (const [i, text] of texts.entries()) assert.ok(rendered.includes(`[ ] #${i + 1}: ${text}\n`), text);
    });

    const WRONG: [string, unknown, RegExp][] = [
      ["an item with an empty text", [item("")], /must not be empty.*text/s],
      ["an item with a blank text", [item(" \n\t ")], /must not be empty.*text/s],
      ["an item without a text", [{ status: "pending" }], /text/],
      ["an item with a number as its text", [{ text: 5, status: "pending" }], /text/],
      ["an item without a status", [{ text: "a" }], /status/],
      ["an item with an unknown status", [item("a", "done")], /status/],
      ["an item with the status of a prototype", [item("a", "constructor")], /status/],
      ["a list of strings", ["a", "b"], /object/],
      ["null", null, /array/],
      ["nothing", undefined, /array/],
      ["an object", { 0: item("a") }, /array/],
      ["a number", 7, /array/],
      ["text that is not JSON", "- [ ] a", /array/],
      ["a JSON string that is cut", JSON.stringify(PLAN).slice(0, -5), /array/],
      ["a JSON string of no list", '{"text":"a","status":"pending"}', /array/],
      ["a JSON string of a list that breaks a rule", JSON.stringify([item("a", "done")]), /status/],
      ["200 KB of text in place of a list", "x".repeat(200_000), /array/],
    ];
    for (const [what, input, reason] of WRONG) {
      test(`refuses ${what}, says why, and stays as it was`, () => {
        const todo = new s03.TodoManager();
        todo.update(PLAN);
        assert.throws(
          () => todo.update(input),
          (error) => error instanceof Error && /todo/.test(error.message) && reason.test(error.message),
        );
        assert.equal(todo.render(), RENDERED);
      });
    }
  });

  describe("the tool", () => {
    test("tells the model what it is for, and the list's shape and limits; the system prompt tells it when to plan", () => {
      const tool = s03.TOOLS.find(({ name }) => name === "todo");
      assert.match(tool?.description ?? "", /plan/);
      const schema = JSON.stringify(tool?.input_schema);
      assert.match(schema, /"type":"array"/);
      assert.match(schema, /"maxItems":20/);
      assert.match(schema, /"enum":\["pending","in_progress","completed"\]/);
      assert.deepEqual(tool?.input_schema.required, ["items"]);
      assert.match(s03.SYSTEM, /steps with todo: .*in_progress before .*completed when/);
    });

    test("answers with the rendered list and keeps it for later requests", async () => {
      const messages: Anthropic.MessageParam[] = [];
      assert.equal(await ask(messages, plan(PLAN), done), "done");
      await ask(messages, work(), done);
      const [first] = resultsIn(messages);
      assert.equal(first?.content, RENDERED);
      assert.equal(first?.is_error ?? false, false);
      assert.equal(s03.TODO.render(), RENDERED);
      assertAccepted();
    });

    test("takes the list as a JSON string, as models now and then send it", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, plan(JSON.stringify(PLAN)), done);
      assert.equal(resultsIn(messages)[0]?.content, RENDERED);
      assertAccepted();
    });

    test("answers a list that breaks a rule with an error that names the rule, and the turn goes on", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const inputs = [{ items: items(21) }, { items: [item("")] }, { todos: [] }, { items: "nonsense" }, {}];
      const outcome = await ask(messages, ...inputs.map((input) => round(use("todo", input))), plan(PLAN), done);
      assert.equal(outcome, "done");
      const results = resultsIn(messages);
      assert.deepEqual(
        results.map(({ is_error }) => is_error ?? false),
        [true, true, true, true, true, false],
      );
      assert.match(String(results[0]?.content), /todo.*20/s);
      assert.match(String(results[1]?.content), /text/);
      assert.match(String(results[2]?.content), /items/);
      assert.equal(s03.TODO.render(), RENDERED);
      assertAccepted();
    });

    test("is not run when the reply was cut inside the call: the list stays, and the history is accepted", async () => {
      s03.TODO.update(PLAN);
      const messages: Anthropic.MessageParam[] = [];
      server.fail({ kind: "max_tokens" });
      assert.equal(await ask(messages, plan(items(20)), done), "done");
      const [result] = resultsIn(messages);
      assert.equal(result?.is_error, true);
      assert.match(String(result?.content), /incomplete|limit/);
      assert.equal(s03.TODO.render(), RENDERED);
      assertAccepted();
    });

    test("takes a text with a lone surrogate without spoiling the history", async () => {
      const messages: Anthropic.MessageParam[] = [];
      assert.equal(await ask(messages, plan([item("half \ud83d of it")]), work(), done), "done");
      assert.match(String(resultsIn(messages)[0]?.content), /\[ \] #1: half \ufffd of it/);
      assertAccepted();
    });

    test("is one of several calls: each has its result, in their order, an unknown tool an error", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const calls = [
        use("bash", { command: "echo first" }),
        use("todo", { items: PLAN }),
        use("constructor", {}),
        use("__proto__", {}),
        use("todos", { items: PLAN }),
      ];
      assert.equal(await ask(messages, round(...calls), done), "done");
      const results = resultsIn(messages);
      assert.equal(results[0]?.content, "first");
      assert.equal(results[1]?.content, RENDERED);
      assert.deepEqual(
        results.map(({ is_error }) => is_error ?? false),
        [false, false, true, true, true],
      );
      for (const { content } of results.slice(2)) assert.match(String(content), /unknown tool.*bash.*todo/s);
      assertAccepted();
    });

    test("leaves the list as it is when it comes after an interruption, and the history is accepted", async () => {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "go on" }];
      const stop = new AbortController();
      server.model = scripted(
        round(
          use("todo", { items: PLAN }),
          use("bash", { command: "touch begun; sleep 60" }),
          use("todo", { items: [] }),
        ),
        done,
      );
      const turn = s03.agentLoop(messages, { signal: stop.signal });
      await until(() => existsSync(`${folder}/begun`));
      rmSync(`${folder}/begun`);
      stop.abort();
      assert.equal(await turn, "interrupted");
      const results = resultsIn(messages);
      assert.equal(results.length, 3);
      assert.equal(results[0]?.content, RENDERED);
      assert.match(String(results[1]?.content), /interrupted by user/);
      assert.match(String(results[2]?.content), /interrupted by user/);
      assert.equal(s03.TODO.render(), RENDERED);
      assert.equal(await ask(messages, done), "done");
      assertAccepted();
    });
  });

  describe("the reminder", () => {
    test("comes after the results of the third round without todo, and not before", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, work(), work(), work(), work(), done);
      assert.deepEqual(reminded(messages), [3]);
      const third = server.journal[3]?.request.messages.at(-1);
      assert.ok(third);
      assert.deepEqual(
        blocksOf(third).map(({ type }) => type),
        ["tool_result", "text"],
      );
      assert.deepEqual(blocksOf(third).at(-1), REMINDER);
      assertAccepted();
    });

    test("comes after the last result of a round of several calls, which counts once", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const three = () => round(use("bash", { command: "echo 1" }), use("nothing", {}), use("nothing", {}));
      await ask(messages, three(), three(), three(), done);
      assert.deepEqual(reminded(messages), [3]);
      const last = messages.findLast((message) => blocksOf(message).some(isReminder));
      assert.deepEqual(last && blocksOf(last).map(({ type }) => type), [
        "tool_result",
        "tool_result",
        "tool_result",
        "text",
      ]);
      assertAccepted();
    });

    test("comes again when the model goes on without todo", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, ...Array.from({ length: 6 }, work), done);
      const [first, ...more] = reminded(messages);
      assert.equal(first, 3);
      assert.ok(more.length > 0);
      assertAccepted();
    });

    test("waits three rounds from the last call of todo, also if that was one of several calls", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const both = round(use("bash", { command: "echo 1" }), use("todo", { items: PLAN }));
      await ask(messages, work(), work(), both, work(), work(), plan(PLAN), work(), work(), work(), done);
      assert.deepEqual(reminded(messages), [9]);
      assertAccepted();
    });

    test("counts anew with each request of the person's", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, work(), work(), done);
      await ask(messages, work(), work(), done);
      assert.deepEqual(reminded(messages), []);
      await ask(messages, work(), work(), work(), done);
      assert.deepEqual(reminded(messages), [7]);
      assertAccepted();
    });

    test("changes neither the system prompt nor the tools", async () => {
      await ask([], work(), plan(PLAN), work(), work(), work(), done);
      const prefixes = new Set(server.journal.map(({ request }) => JSON.stringify([request.system, request.tools])));
      assert.equal(server.journal.length, 6);
      assert.equal(prefixes.size, 1);
    });

    test("stays in a history that goes on being accepted when the turn ends right after it", async () => {
      const messages: Anthropic.MessageParam[] = [];
      server.fail({ kind: "max_tokens" }, { kind: "max_tokens" }, { kind: "max_tokens" });
      assert.equal(await ask(messages, work(), work(), work()), "cut off");
      assert.deepEqual(reminded(messages), [3]);
      assert.equal(await ask(messages, done), "done");
      assertAccepted();
    });
  });

  describe("the person", () => {
    test("sees every update of the plan whole, also a long one", async () => {
      server.model = scripted(plan(items(20)), plan(PLAN), done);
      const { code, stdout } = await start(LESSON, ["-y", "plan it"]).ended;
      assert.equal(code, 0);
      for (let i = 1; i <= 20; i++) assert.ok(stdout.includes(`[ ] #${i}: step ${i}\n`), `item ${i}`);
      assert.ok(stdout.includes("(0/20 completed)"));
      for (const line of RENDERED.split("\n")) assert.ok(stdout.includes(line), line);
      assertAccepted();
    });

    test("sees five lines of any other result, and how many more there are", async () => {
      server.model = scripted(round(use("bash", { command: "seq 11 17" })), done);
      const { stdout } = await start(LESSON, ["-y", "count"]).ended;
      assert.match(stdout, /^11\n12\n13\n14\n15\n… 2 more lines\n/m);
    });
  });
});

await carryOver("s02_tool_use", {
  "the model is given the four tools, each with the schema of its input": "there are more tools",
});
