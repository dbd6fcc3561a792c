// The task tool runs a subagent with fresh messages. The parent sees only its last text.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { beforeEach, test } from "node:test";
import { bash, call, say, use, user } from "../offline/api/said.ts";
import type { Reply } from "../offline/api/server.ts";
import { interruptWait, WAIT } from "./program.ts";
import { expectRejection, PASS, useServer } from "./server.ts";
import { goOn, onEach, resultsIn, textsIn, turn } from "./turn.ts";
import { emptyWorkspace, useWorkspace } from "./workspace.ts";

const folder = useWorkspace();
const server = await useServer();
const s04 = await import("../agents/s04_subagent.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const task = (prompt: string): Reply => call(use("task", { prompt }));
const done = say("Done.");

beforeEach(emptyWorkspace);

onEach("agentLoop", { s04, s06 }, (lesson) => {
  test("only the agent that has the todo tool is reminded of the list, and a subagent's rounds don't count", async () => {
    const list = call(use("todo", { items: [{ text: "unfinished", status: "pending" }] }));
    const [work, child] = [call(use("none", {})), Array(4).fill(call(use("none", {})))];
    const { sent, messages } = await turn(lesson, [list, work, task("count"), ...child, say("two"), work, done]);
    assert.doesNotMatch(JSON.stringify(sent.slice(0, -1)), /<reminder>/);
    const last = messages.at(-2) ?? user("");
    assert.match(JSON.stringify(last), /<reminder>/, "after the agent's third round");
  });
});

onEach("runSubagent", { s04, s06 }, (lesson) => {
  /** Runs a subagent that gives these replies. Returns the task's result and the subagent's requests. */
  async function taskBy(...replies: Reply[]) {
    const { error, messages, results, sent, printed } = await turn(lesson, [task("count"), ...replies, done]);
    assert.equal(error, undefined);
    assert.equal(results.length, 1, "results of the task");
    const { text = "", failed } = results[0] ?? {};
    await goOn(lesson, messages);
    return { messages, text, failed, requests: sent.slice(1, -1), printed };
  }

  test("a subagent has fresh messages, its own system prompt, and all tools but task and todo", async () => {
    const { requests } = await taskBy(bash("echo 1"), say("two"));
    const [first, second] = requests;
    assert.deepEqual(textsIn(first?.messages), ["count"]);
    assert.deepEqual([first?.messages.length, second?.messages.length], [1, 3]);
    assert.ok(!String(first?.system).includes(lesson.SYSTEM), "not the parent's");
    assert.ok(String(first?.system).includes(folder), "it names the workspace");
    const names = first?.tools?.map((tool) => ("name" in tool ? tool.name : ""));
    const expected = lesson.TOOLS.map(({ name }) => name).filter((name) => !/^(task|todo)$/.test(name));
    assert.deepEqual(names, expected);
  });

  test("a subagent can't call task or todo", async () => {
    const list = lesson.TODO.update([{ text: "the parent's", status: "pending" }]);
    const { requests } = await taskBy(call(use("task", { prompt: "more" }), use("todo", { items: [] })), say("no"));
    const results = resultsIn(requests[1]?.messages);
    const failed = results.map(({ failed }) => failed);
    assert.deepEqual(failed, [true, true]);
    assert.equal(lesson.TODO.render(), list, "the parent's list");
  });

  test("only the last text of a subagent comes back", async () => {
    const look = call({ type: "text", text: "I look first." }, use("bash", { command: "echo what it saw" }));
    const last = call(
      { type: "thinking", thinking: "what it thinks" },
      { type: "text", text: "3 files, " },
      { type: "text", text: `2 folders${" and more".repeat(200)}` },
    );
    const { text, failed, messages } = await taskBy(look, last);
    assert.equal(text, `3 files, 2 folders${" and more".repeat(200)}`);
    assert.deepEqual([failed, messages.length], [false, 4]);
    assert.doesNotMatch(JSON.stringify(messages), /I look first|what it saw|what it thinks/);
  });

  test("a subagent that ends with a rejected request is an error that says why, and its parent goes on", async () => {
    expectRejection(/this is wrong/);
    server.fail(PASS, PASS, { kind: "status", status: 400, message: `this is wrong: ${"x".repeat(2_000)}` });
    const begun = call({ type: "text", text: "answer of the subagent: " }, use("none", {}));
    const { text, failed } = await taskBy(begun);
    assert.doesNotMatch(text, /answer of the subagent/, "what it said before it failed isn't an answer");
    assert.match(`${failed} ${text}`, /^true .*this is wrong/s, "is_error, and the reason");
    assert.ok(text.length <= 500, `${text.length} characters`);
  });

  test("Ctrl-C stops the subagent with its parent, and every call has a result", async () => {
    const both = call(use("task", { prompt: "wait" }), use("bash", { command: "touch never" }));
    const commands = [WAIT, "touch never"].map((command) => use("bash", { command }));
    const child = call({ type: "text", text: "half an answer" }, ...commands);
    const { error, messages, results, sent } = await turn(lesson, [both, child], { signal: interruptWait() });
    assert.match(error ?? "", /aborted/);
    assert.equal(sent.length, 2, "calls of the model");
    assert.deepEqual(
      results.map(({ text, failed }) => [text, failed]),
      Array(2).fill(["(interrupted by user)", true]),
    );
    assert.ok(!existsSync("never"), "nothing ran after that");
    await goOn(lesson, messages);
  });

  test("the user is asked about each command of a subagent", async () => {
    const answers = [undefined, "the user said no"];
    const approve = async () => {
      const answer = answers.shift();
      if (answer) throw new Error(answer);
    };
    const replies = [task("touch"), bash("touch first"), bash("touch never"), say("no"), done];
    const { sent } = await turn(lesson, replies, { approve });
    assert.match(resultsIn(sent[3]?.messages)[1]?.text ?? "", /the user said no/);
    assert.deepEqual([existsSync("first"), existsSync("never")], [true, false], "what has run");
  });
});
