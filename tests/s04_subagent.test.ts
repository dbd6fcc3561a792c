// The task tool: a child with fresh messages, whose last text is all that its parent sees.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { beforeEach } from "node:test";
import { type Failure, type Reply, scripted } from "../tools/offline/server.ts";
import {
  bash,
  call,
  capture,
  emptyWorkspace,
  expectRejection,
  folder,
  goOn,
  type Lesson,
  noTerminal,
  onEach,
  optionsFor,
  resultsIn,
  say,
  server,
  start,
  step,
  test,
  turn,
  until,
  use,
  user,
} from "./harness.ts";

const s04 = await import("../agents/s04_subagent.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request
const task = (prompt: string): Reply => call(use("task", { prompt }));
const done = say("Done.");

beforeEach(emptyWorkspace);

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
    server.model = scripted(bash("true"), bash("true"), done);
    const messages = [user("go")];
    const { agentLoop }: Lesson = lesson;
    const options = { ...optionsFor<Lesson>(lesson), maxRounds: 2 };
    const { value } = await capture(() => agentLoop(messages, options).catch(String));
    assert.match(String(value), /2/);
    assert.deepEqual([messages.length, resultsIn(messages).length], [5, 2]);
  });

  test("a loop without the todo tool has no reminder", async () => {
    const tools = lesson.TOOLS.filter(({ name }) => name !== "todo");
    const { messages } = await turn(lesson, [...Array.from({ length: 3 }, () => bash("true")), done], { tools });
    assert.doesNotMatch(JSON.stringify(messages), /<reminder>/);
  });

  step("runSubagent");
  test("a child has fresh messages, its own system prompt, and all tools but task and todo", async () => {
    const { requests } = await taskBy(bash("echo 1"), say("two"));
    const [first, second] = requests;
    assert.deepEqual(first?.messages, [user("count")]);
    assert.equal(second?.messages.length, 3);
    assert.notEqual(first?.system, lesson.SYSTEM);
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
      { type: "text", text: "2 folders" },
    );
    const { text, failed, messages } = await taskBy(look, last);
    assert.match(text, /^3 files, \s*2 folders$/);
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
    assert.deepEqual(sent[3]?.messages, [user("two")]);
  });

  test("a child that is out of rounds says so after its last text", async () => {
    const rounds = Array.from({ length: 30 }, (_, i) =>
      call({ type: "text", text: `round ${i + 1}` }, use("none", {})),
    );
    const { text, requests } = await taskBy(...rounds);
    assert.equal(requests.length, 30);
    assert.match(text, /^round 30\n.*30/s);
  });

  test("a child may answer in its 30th round; its parent has no limit", async () => {
    const rounds = Array.from({ length: 29 }, () => call(use("none", {})));
    const answer = "in time, ".repeat(30).trim();
    assert.equal((await taskBy(...rounds, say(answer))).text, answer);
    const { error } = await turn(lesson, [...rounds, ...rounds, done]);
    assert.equal(error, undefined);
  });

  for (const [what, failure, reason] of [
    ["a rejected request", { kind: "status", status: 400, message: "this is wrong" }, /this is wrong/],
    ["a refusal", { kind: "refusal" }, /./],
    ["an answer that is cut off", { kind: "max_tokens" }, /./],
    ["a stream that breaks", { kind: "drop" }, /./],
  ] satisfies [string, Failure, RegExp][]) {
    test(`a child that ends with ${what} says so, and its parent goes on`, async () => {
      if (failure.kind === "status") expectRejection(/this is wrong/);
      server.fail(PASS, failure);
      const { text } = await taskBy(...(failure.kind === "status" ? [] : [say("answer of the child")]));
      assert.doesNotMatch(text, /answer of the child$/);
      assert.match(text, reason);
    });
  }

  test("a child that says nothing never comes back as nothing", async () => {
    assert.match((await taskBy(call())).text, /./);
    const wordy = call({ type: "text", text: "It is 7." }, use("bash", { command: "true" }));
    assert.match((await taskBy(wordy, call())).text, /^It is 7\.\s+\S/);
  });

  test("an interrupt stops the child with its parent, and every call is answered", async () => {
    const stop = new AbortController();
    const both = call(use("task", { prompt: "wait" }), use("bash", { command: "touch never" }));
    const child = bash("touch begun; sleep 30", "touch never");
    const running = turn(lesson, [both, child], { signal: stop.signal });
    await until(() => existsSync("begun"));
    stop.abort(new Error("interrupted"));
    const { error, messages, results, sent } = await running;
    assert.notEqual(error, undefined);
    assert.equal(sent.length, 2, "calls of the model");
    for (const { text } of results) assert.match(text, /./);
    assert.deepEqual([results.length, existsSync("never")], [2, false]);
    await goOn(lesson, messages);
  });

  test("a task without a prompt is an error, and no child is started", async () => {
    const inputs = [{}, { prompt: 7 }, { prompt: " \n" }];
    const { results, sent } = await turn(lesson, [call(...inputs.map((input) => use("task", input))), done]);
    for (const { text, failed } of results) assert.match(`${failed} ${text}`, /true .*prompt/s);
    assert.equal(sent.length, 2);
  });

  test("the user is asked about the commands of a child, too", async () => {
    const approve = async () => {
      throw new Error("the user said no");
    };
    const { sent } = await turn(lesson, [task("touch"), bash("touch never"), say("no"), done], { approve });
    assert.match(resultsIn(sent[2]?.messages ?? [])[0]?.text ?? "", /the user said no/);
    assert.ok(!existsSync("never"));
  });

  test("a child is not reminded of todos, which it does not have", async () => {
    const { requests } = await taskBy(...Array.from({ length: 4 }, () => bash("true")), say("ok"));
    assert.doesNotMatch(JSON.stringify(requests.at(-1)?.messages), /<reminder>/);
  });

  test("what a child prints is indented, and what its parent prints is not, even after a child that failed", async () => {
    const wordy = call({ type: "text", text: "child says\nmore" }, use("bash", { command: "seq 8 9" }));
    const { printed } = await taskBy(wordy, call());
    for (const line of ["> task", "Done."]) assert.match(printed, new RegExp(`^${line}`, "m"));
    assert.match(printed, /^( +)child says\n\1more\n\1.*seq 8 9\n\1 *8\n\1 *9$/m);
    const pieces = `${"x".repeat(19)}\n${"\r".repeat(20)}next`; // of 20 characters; nothing of the second is printed
    assert.match((await taskBy(say(pieces))).printed, /^( +)x{19}\n\1next$/m);
  });
});

step("program");
test("the question about a command of a child counts its margin, too", { skip: noTerminal }, async (t) => {
  const command = ["rm -rf here", ...Array.from({ length: 18 }, () => `: ${"x".repeat(78)}`)].join("\n");
  const replies = [call(use("task", { prompt: "go" })), bash(command), say("Child done."), say("Done.")];
  const shell = (agent: string) => `stty cols 80 rows 24; ${agent}`;
  const run = await start(t, "s04_subagent", [], { replies, terminal: true, shell });
  await run.waitFor("s04 >> ");
  run.type("go\r");
  await run.waitFor("anything else: no] ");
  assert.match(run.screen(), /rm -rf here[\s\S]*19 lines in all/);
  run.type("\r");
  await run.waitFor("Done.");
});
