// The task tool: a child with fresh messages, whose last text is all that its parent sees.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { beforeEach } from "node:test";
import type { Failure, Reply } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { bash, call, expectRejection, folder, goOn, loop, onEach, plain } = harness;
const { resultsIn, say, server, step, turn, until, use, user } = harness;
const s04 = await import("../agents/s04_subagent.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request
const task = (prompt: string): Reply => call(use("task", { prompt }));
const done = say("Done.");

beforeEach(harness.emptyWorkspace);

onEach({ s04, s06 }, (lesson, test) => {
  /** The one result of a task that these replies carry out, and the child's requests. */
  async function taskBy(...replies: Reply[]) {
    const { error, messages, results, sent, printed } = await turn(lesson, [task("count"), ...replies, done]);
    assert.equal(error, undefined);
    assert.equal(results.length, 1, "results of the task");
    const { text = "", failed } = results[0] ?? {};
    await goOn(lesson, messages);
    return { messages, text, failed, requests: sent.slice(1, -1), printed };
  }

  step("agentLoop");
  test("a loop that is out of rounds ends with an error that names the limit, and every call has its result", async () => {
    const replies = [bash("true", "true"), bash("true"), done];
    const { error, messages, results } = await loop(lesson, replies, { maxRounds: 2 });
    assert.match(error ?? "", /2/, "the error names the limit");
    assert.deepEqual([messages.length, results.length], [5, 3]);
  });

  test("a loop that has no limit goes on", async () => {
    const rounds = Array.from({ length: 51 }, () => call(use("none", {})));
    assert.equal((await loop(lesson, [...rounds, done])).error, undefined);
  });

  test("a reminder comes in the third round without a call of todo, if there is that tool", async () => {
    const [work, plan] = [call(use("none", {})), call(use("todo", { items: [] }))];
    const others = lesson.TOOLS.filter(({ name }) => name !== "todo");
    for (const tools of [lesson.TOOLS, others]) {
      const { messages } = await loop(lesson, [work, plan, work, work, work, work, done], { tools });
      const reminded = messages.flatMap((message, i) => (/<reminder>/.test(JSON.stringify(message)) ? [i] : []));
      const expected = tools === others ? 0 : 1;
      assert.equal(reminded.length, expected, `messages with a reminder, ${expected ? "with" : "without"} todo`);
    }
  });

  step("runSubagent");
  test("a child has fresh messages, its own system prompt, and all tools but task and todo", async () => {
    const { requests } = await taskBy(bash("echo 1"), say("two"));
    const [first, second] = requests;
    assert.deepEqual(plain(first?.messages ?? []), plain([user("count")]));
    assert.equal(second?.messages.length, 3);
    assert.ok(!String(first?.system).includes(lesson.SYSTEM), "not the parent's");
    assert.ok(String(first?.system).includes(folder), "it is told the workspace");
    const names = first?.tools?.map((tool) => ("name" in tool ? tool.name : ""));
    const expected = lesson.TOOLS.map(({ name }) => name).filter((name) => !/^(task|todo)$/.test(name));
    assert.deepEqual(names, expected);
  });

  test("a child cannot call task or todo", async () => {
    const list = lesson.TODO.update([{ text: "the parent's", status: "pending" }]);
    const { requests } = await taskBy(call(use("task", { prompt: "more" }), use("todo", { items: [] })), say("no"));
    const results = resultsIn(requests[1]?.messages ?? []);
    assert.deepEqual(
      results.map(({ failed }) => failed),
      [true, true],
    );
    assert.equal(lesson.TODO.render(), list, "the parent's list");
  });

  test("only its last text comes back", async () => {
    const look = call({ type: "text", text: "I look first." }, use("bash", { command: "echo what it saw" }));
    const last = call(
      { type: "thinking", thinking: "what it thinks" },
      { type: "text", text: "3 files, " },
      { type: "text", text: `2 folders${" and more".repeat(200)}` },
    );
    const { text, failed, messages } = await taskBy(look, last);
    assert.match(text, /^3 files, \s*2 folders( and more){200}$/, "the text of the last message");
    assert.deepEqual([failed, messages.length], [false, 4]);
    assert.doesNotMatch(JSON.stringify(messages), /I look first|what it saw|what it thinks/);
  });

  test("each task of a reply has one result, in the order of the calls", async () => {
    const three = call(
      use("task", { prompt: "one" }),
      use("bash", { command: "echo between" }),
      use("task", { prompt: "two" }),
    );
    const { results, sent } = await turn(lesson, [three, bash("true"), say("first"), say("second"), done]);
    assert.deepEqual(
      results.map(({ text }) => text),
      ["first", "between", "second"],
    );
    assert.deepEqual(plain(sent[3]?.messages ?? []), plain([user("two")]));
  });

  test("a child that is out of rounds is an error that names the limit", async () => {
    const rounds = Array.from({ length: 30 }, () => call(use("none", {})));
    const { text, failed, requests } = await taskBy(...rounds);
    assert.equal(requests.length, 30, "calls of the model");
    assert.match(`${failed} ${text}`, /true .*30/s, "is_error, and the limit");
  });

  test("a child may answer in its 30th round", async () => {
    const rounds = Array.from({ length: 29 }, () => call(use("none", {})));
    assert.equal((await taskBy(...rounds, say("in time"))).text, "in time");
  });

  for (const [what, failure, reason] of [
    ["a rejected request", { kind: "status", status: 400, message: "this is wrong" }, /this is wrong/],
    ["a refusal", { kind: "refusal" }, /./],
    ["an answer that is cut off", { kind: "max_tokens" }, /./],
    ["a stream that breaks", { kind: "drop" }, /./],
  ] satisfies [string, Failure, RegExp][]) {
    test(`a child that ends with ${what} is an error that says why, and its parent goes on`, async () => {
      if (failure.kind === "status") expectRejection(/this is wrong/);
      server.fail(PASS, PASS, failure);
      const begun = call({ type: "text", text: "answer of the child: " }, use("none", {}));
      const { text, failed } = await taskBy(begun, ...(failure.kind === "status" ? [] : [say("answer of the child")]));
      assert.doesNotMatch(text, /answer of the child/, "what it said before it failed is no answer");
      assert.match(`${failed} ${text}`, new RegExp(`true .*${reason.source}`, "s"), "is_error, and the reason");
    });
  }

  test("an empty reply of a child is an error, not an empty answer", async () => {
    const { text, failed } = await taskBy(call());
    assert.match(`${failed} ${text}`, /true ./, "is_error, and a reason");
  });

  test("an interrupt stops the child with its parent, and every call is answered", async () => {
    const stop = new AbortController();
    const both = call(use("task", { prompt: "wait" }), use("bash", { command: "touch never" }));
    const commands = ["touch begun; sleep 30", "touch never"].map((command) => use("bash", { command }));
    const child = call({ type: "text", text: "half an answer" }, ...commands);
    const running = turn(lesson, [both, child], { signal: stop.signal });
    await until(() => existsSync("begun"));
    stop.abort(new Error("interrupted"));
    const { error, messages, results, sent } = await running;
    assert.notEqual(error, undefined);
    assert.equal(sent.length, 2, "calls of the model");
    for (const { text, failed } of results) assert.match(`${failed} ${text}`, /^true (?!.*half an answer)./);
    assert.deepEqual([results.length, existsSync("never")], [2, false]);
    await goOn(lesson, messages);
  });

  test("a task without a prompt is an error, and no child is started", async () => {
    const inputs = [{}, { prompt: 7 }, { prompt: " \n" }];
    const { results, sent } = await turn(lesson, [call(...inputs.map((input) => use("task", input))), done]);
    for (const { text, failed } of results) assert.match(`${failed} ${text}`, /true .*prompt/s, "is_error: no prompt");
    assert.equal(sent.length, 2);
  });

  test("the user is asked about each command of a child, too", async () => {
    const answers = [undefined, "the user said no"];
    const approve = async () => {
      const answer = answers.shift();
      if (answer) throw new Error(answer);
    };
    const replies = [task("touch"), bash("touch first"), bash("touch never"), say("no"), done];
    const { sent } = await turn(lesson, replies, { approve });
    assert.match(resultsIn(sent[3]?.messages ?? [])[1]?.text ?? "", /the user said no/);
    assert.deepEqual([existsSync("first"), existsSync("never")], [true, false], "what has run");
  });

  test("a child is not reminded of todos, which it does not have", async () => {
    const { requests } = await taskBy(...Array.from({ length: 4 }, () => bash("true")), say("ok"));
    assert.doesNotMatch(JSON.stringify(requests.at(-1)?.messages), /<reminder>/);
  });

  test("the user sees where a child begins", async () => {
    const { printed } = await turn(lesson, [task("count\u202e"), say("I have counted."), done]);
    assert.match(
      printed,
      /^((?!I have counted).)*subagent.*count�.*I have counted/s,
      "it is called a subagent, with its prompt, before it works",
    );
  });
});
