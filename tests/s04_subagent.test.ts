// The subagent: what it is given, what it may do, and what of it comes back.

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { before, beforeEach, describe } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Reply, scripted } from "../offline/server.ts";
import { carryOver, enterWorkspace, goTo, LESSON, server, start, test, underTest, until } from "./harness.ts";
import { blocksOf, call as round, say, use } from "./replies.ts";

const folder = enterWorkspace();
const s04 = await underTest<typeof import("../agents/s04_subagent.ts")>();
s04.approval.always = true;

const task = (prompt: unknown) => round(use("task", { prompt }));
const work = (command = "echo working") => round(use("bash", { command }));
/** A round that costs nothing: its call is answered with an error. */
const quick = () => round(use("nothing", {}));
const done = say("Done.");
/** A request that nothing happens to: the parent's, before the child's. */
const WELL: Failure = { kind: "slow", delay: 0 };

const resultsIn = (messages: Anthropic.MessageParam[]) =>
  messages.flatMap(blocksOf).filter((block) => block.type === "tool_result");
const contentsIn = (messages: Anthropic.MessageParam[]) => resultsIn(messages).map(({ content }) => String(content));

/** One request of the person's, answered by these replies: the parent's and the child's, as they come. */
async function ask(messages: Anthropic.MessageParam[], ...replies: Reply[]) {
  messages.push({ role: "user", content: "go on" });
  server.model = scripted(...replies);
  return s04.agentLoop(messages);
}

const requests = () => server.journal.map(({ request }) => request);
const childRequests = () => requests().filter(({ system }) => system !== s04.SYSTEM);
const toolsOf = ({ tools }: Anthropic.MessageCreateParams) =>
  (tools ?? []).map((tool) => ("name" in tool ? tool.name : ""));
const rejections = () => server.journal.flatMap(({ status, error }) => (status === 200 ? [] : error));
const assertAccepted = () => assert.deepEqual(rejections(), []);

describe(`what s04 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  beforeEach(() => {
    server.journal.length = 0;
  });

  describe("a subagent", () => {
    test("begins with the task alone, as a fresh conversation", async () => {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "the parent's secret" }];
      server.model = scripted(
        work("echo of the parent"),
        task("count the files"),
        work("echo of the child"),
        say("two"),
        done,
      );
      assert.equal(await s04.agentLoop(messages), "done");
      const [first, second] = childRequests();
      assert.deepEqual(first?.messages, [{ role: "user", content: "count the files" }]);
      assert.equal(second?.messages.length, 3);
      assert.doesNotMatch(JSON.stringify(childRequests()), /parent/);
      assertAccepted();
    });

    test("has a system prompt of its own, which is not the parent's", async () => {
      await ask([], task("count"), say("two"), done);
      const [child] = childRequests();
      assert.ok(typeof child?.system === "string" && child.system.trim() !== "");
      assert.ok(child.system.includes(folder));
      assert.equal(requests().filter(({ system }) => system === s04.SYSTEM).length, 2);
    });

    test("has all tools but task and todo, while the parent has them all", async () => {
      await ask([], task("count"), say("two"), done);
      const [parent, child] = requests();
      assert.ok(parent && child);
      const names = ["bash", "read_file", "write_file", "edit_file", "todo", "task"];
      assert.deepEqual(toolsOf(parent).slice(0, 6), names);
      assert.deepEqual(
        toolsOf(child),
        toolsOf(parent).filter((name) => name !== "todo" && name !== "task"),
      );
    });

    test("works in the parent's workspace", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const write = round(use("write_file", { path: "found/answer.txt", content: "42\n" }));
      await ask(
        messages,
        task("write it"),
        write,
        work("pwd"),
        say("written"),
        round(use("read_file", { path: "found/answer.txt" })),
        done,
      );
      assert.equal(readFileSync(join(folder, "found/answer.txt"), "utf8"), "42\n");
      assert.deepEqual(contentsIn(messages), ["written", "42"]);
      assert.ok(JSON.stringify(childRequests().at(-1)).includes(folder));
      assertAccepted();
    });

    test("cannot use task or todo: the call is answered with an error, no grandchild is born", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const calls = round(
        use("task", { prompt: "deeper" }),
        use("todo", { items: [] }),
        use("constructor", {}),
        use("__proto__", {}),
      );
      assert.equal(await ask(messages, task("delegate"), calls, say("alone then"), done), "done");
      assert.deepEqual(contentsIn(messages), ["alone then"]);
      const results = resultsIn(childRequests().at(-1)?.messages ?? []);
      assert.equal(results.length, 4);
      for (const { is_error, content } of results) {
        assert.equal(is_error, true);
        assert.match(String(content), /unknown tool \w+: .*bash, read_file, write_file, edit_file/);
        assert.doesNotMatch(String(content), /: .*\b(task|todo)\b/);
      }
      assert.equal(server.journal.length, 4);
      assertAccepted();
    });

    test("is not reminded of a list that it does not have, and its rounds are not the parent's", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const childRounds = Array.from({ length: 7 }, quick);
      await ask(messages, task("work"), ...childRounds, say("worked"), work(), done);
      assert.doesNotMatch(JSON.stringify(childRequests()), /<reminder>/);
      assert.doesNotMatch(JSON.stringify(messages), /<reminder>/);
      await ask(messages, work(), work(), task("work"), work(), say("worked"), done);
      const reminded = messages.filter((message) => /<reminder>/.test(JSON.stringify(message)));
      assert.equal(reminded.length, 1);
      assert.deepEqual(reminded[0] && contentsIn(reminded), ["worked"]);
      assertAccepted();
    });

    test("leaves the parent's count to the parent, which is not reminded when it has just planned", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, round(use("todo", { items: [] })), task("work"), quick(), say("worked"), work(), done);
      assert.doesNotMatch(JSON.stringify(messages), /<reminder>/);
    });
  });

  describe("what comes back", () => {
    test("is the last text alone: the child's rounds, thinking and earlier words stay behind", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const wordy = round({ type: "text", text: "I look first." }, use("bash", { command: "echo seen by the child" }));
      const last = round({ type: "thinking", thinking: "private" }, { type: "text", text: "There are 3 files." });
      assert.equal(await ask(messages, task("count"), wordy, last, done), "done");
      assert.deepEqual(contentsIn(messages), ["There are 3 files."]);
      assert.equal(resultsIn(messages)[0]?.is_error ?? false, false);
      assert.equal(messages.length, 4);
      assert.doesNotMatch(JSON.stringify(messages), /look first|seen by|private/);
      assertAccepted();
    });

    test("holds all blocks of that text", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(
        messages,
        task("count"),
        round({ type: "text", text: "Three files, " }, { type: "text", text: "两个文件夹 🚀" }),
        done,
      );
      assert.deepEqual(contentsIn(messages), ["Three files, 两个文件夹 🚀"]);
    });

    test("is an earlier text when the last reply is empty, which is said, and never nothing", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const wordy = round({ type: "text", text: "It is 7." }, use("bash", { command: "echo 7" }));
      await ask(messages, task("count"), wordy, round(), done);
      await ask(messages, task("count"), round({ type: "text", text: " \n" }), done);
      const [first, second] = contentsIn(messages);
      assert.match(first ?? "", /not done: it ended without an answer\)\nIt is 7\.$/);
      assert.match(second ?? "", /not done: it ended without an answer\)\n\(it wrote nothing\)$/);
      assertAccepted();
    });

    test("of several tasks in one reply is one result each, in their order, each from a fresh conversation", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const both = round(
        use("task", { prompt: "one" }),
        use("bash", { command: "echo between" }),
        use("task", { prompt: "two" }),
      );
      await ask(messages, both, work("echo 1"), say("first"), say("second"), done);
      assert.deepEqual(contentsIn(messages), ["first", "between", "second"]);
      assert.deepEqual(childRequests().at(-1)?.messages, [{ role: "user", content: "two" }]);
      assertAccepted();
    });

    test("is bounded like any result: head and tail are kept and the cut is stated", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, task("recite"), say(`begin ${"字".repeat(80_000)} end`), done);
      const [content = ""] = contentsIn(messages);
      assert.ok(content.length <= 50_000);
      assert.match(content, /^begin 字/);
      assert.match(content, /字 end$/);
      assert.match(content, /80010/);
      assertAccepted();
    });

    test("is well-formed, and so is what the child is sent, when the model's task or answer is not", async () => {
      const messages: Anthropic.MessageParam[] = [];
      assert.equal(await ask(messages, task("half \ud83d of it"), say("the other \ude80 half"), done), "done");
      assert.deepEqual(contentsIn(messages), ["the other \ufffd half"]);
      assert.deepEqual(childRequests()[0]?.messages, [{ role: "user", content: "half \ufffd of it" }]);
      assertAccepted();
    });
  });

  describe("a subagent that is not done says so", () => {
    test("when 30 rounds are used up; its last text comes with it", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const rounds = Array.from({ length: 30 }, (_, i) =>
        round({ type: "text", text: `round ${i + 1}` }, use("nothing", {})),
      );
      assert.equal(await ask(messages, task("never stop"), ...rounds, say("I see."), work(), done), "done");
      assert.equal(childRequests().length, 30);
      const [content = ""] = contentsIn(messages);
      assert.match(content, /out of rounds/);
      assert.match(content, /round 30$/);
      assertAccepted();
    });

    test("not when the 30th reply is its answer", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, task("hurry"), ...Array.from({ length: 29 }, quick), say("in time"), done);
      assert.deepEqual(contentsIn(messages), ["in time"]);
    });

    const FAILURES: [string, Failure[], RegExp][] = [
      [
        "the API rejects its request",
        [{ kind: "status", status: 400, message: "messages: that is wrong" }],
        /400.*that is wrong/,
      ],
      ["the key is refused", [{ kind: "status", status: 401, message: "invalid x-api-key" }], /401.*invalid x-api-key/],
      ["its stream breaks twice", [{ kind: "drop" }, { kind: "drop" }], /error/],
      ["its stream ends in an error twice", [{ kind: "error_event" }, { kind: "error_event" }], /Overloaded/],
    ];
    for (const [what, failures, reason] of FAILURES) {
      test(`when ${what}; the parent goes on`, async () => {
        const messages: Anthropic.MessageParam[] = [];
        server.fail(WELL, ...failures);
        // A stream that breaks has used up a reply.
        const lost = failures.filter(({ kind }) => kind !== "status").map(() => say("lost"));
        assert.equal(await ask(messages, task("try"), ...lost, say("I see."), done), "done");
        const [content = ""] = contentsIn(messages);
        assert.match(content, /not done/);
        assert.match(content, reason);
        assert.deepEqual(messages.at(-1)?.role, "assistant");
        assert.equal(await ask(messages, done), "done");
      });
    }

    test("but not when its stream broke once: that is tried again", async () => {
      const messages: Anthropic.MessageParam[] = [];
      server.fail(WELL, { kind: "drop" });
      await ask(messages, task("try"), say("lost"), say("found"), done);
      assert.deepEqual(contentsIn(messages), ["found"]);
    });

    test("when its requests are refused; the parent's history is untouched by that", async () => {
      const messages: Anthropic.MessageParam[] = [];
      server.fail(WELL, { kind: "refusal" });
      assert.equal(await ask(messages, task("something bad"), say("never"), say("I see."), done), "done");
      const [content = ""] = contentsIn(messages);
      assert.match(content, /refused/);
      assert.doesNotMatch(content, /never/);
      assert.equal(messages.length, 4);
      assertAccepted();
    });

    test("when its answer is cut off", async () => {
      const messages: Anthropic.MessageParam[] = [];
      server.fail(WELL, { kind: "max_tokens" });
      await ask(messages, task("recite"), say("a long, long answer"), done);
      assert.match(contentsIn(messages)[0] ?? "", /cut off.*a long/s);
      assertAccepted();
    });

    test("when it is interrupted in a command; the calls after it are answered, and the history is accepted", async () => {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "go on" }];
      const stop = new AbortController();
      const both = round(use("task", { prompt: "sleep" }), use("bash", { command: "touch too-late" }));
      const sleep = round(
        use("bash", { command: "touch begun; sleep 60" }),
        use("bash", { command: "touch too-late" }),
      );
      server.model = scripted(both, sleep);
      const turn = s04.agentLoop(messages, { signal: stop.signal });
      await until(() => existsSync(join(folder, "begun")));
      rmSync(join(folder, "begun"));
      stop.abort();
      assert.equal(await turn, "interrupted");
      const [first, second, ...more] = contentsIn(messages);
      assert.match(first ?? "", /interrupted/);
      assert.match(second ?? "", /interrupted by user/);
      assert.deepEqual(more, []);
      assert.equal(existsSync(join(folder, "too-late")), false);
      assert.equal(server.journal.length, 2);
      assert.equal(await ask(messages, done), "done");
      assertAccepted();
    });

    test("when it is interrupted while the model answers it", async () => {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "go on" }];
      const stop = new AbortController();
      server.model = scripted(task("think"), say("too late"));
      server.fail(WELL, { kind: "slow", delay: 60_000 });
      const turn = s04.agentLoop(messages, { signal: stop.signal });
      await until(() => server.journal.length === 2);
      stop.abort();
      assert.equal(await turn, "interrupted");
      assert.match(contentsIn(messages)[0] ?? "", /interrupted/);
      assert.equal(await ask(messages, done), "done");
      assertAccepted();
    });
  });

  describe("the task tool", () => {
    test("tells the model what it is for and what comes back; the system prompt says when to use it", () => {
      const description = s04.TOOLS.find(({ name }) => name === "task")?.description ?? "";
      assert.match(description, /subagent.*fresh context.*only its final answer/);
      assert.match(s04.SYSTEM, /much reading.*short answer.*task/);
    });

    test("needs a prompt: without one, or with one that is no text or blank, there is an error and no child", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const prompts = [7, ["a", "b"], null, "", " \n"];
      const inputs = [{}, { description: "only that" }, ...prompts.map((prompt) => ({ prompt }))];
      assert.equal(await ask(messages, ...inputs.map((input) => round(use("task", input))), done), "done");
      const results = resultsIn(messages);
      assert.equal(results.length, inputs.length);
      for (const { is_error, content } of results) {
        assert.equal(is_error, true);
        assert.match(String(content), /task.*prompt/s);
      }
      assert.deepEqual(childRequests(), []);
      assertAccepted();
    });

    test("may be given a description, which the child does not need", async () => {
      const messages: Anthropic.MessageParam[] = [];
      const schema = s04.TOOLS.find(({ name }) => name === "task")?.input_schema;
      assert.deepEqual(schema?.required, ["prompt"]);
      await ask(messages, round(use("task", { prompt: "count", description: "counting" })), say("two"), done);
      assert.deepEqual(contentsIn(messages), ["two"]);
      assert.deepEqual(childRequests()[0]?.messages, [{ role: "user", content: "count" }]);
      assertAccepted();
    });

    test("takes a task of one character, and one of 80 KB in one line", async () => {
      const messages: Anthropic.MessageParam[] = [];
      await ask(messages, task("x".repeat(80_000)), say("read"), task("?"), say("what?"), done);
      assert.deepEqual(contentsIn(messages), ["read", "what?"]);
      assertAccepted();
    });
  });

  describe("the loop", () => {
    test("takes system prompt, tools and rounds as options, and ends between rounds with a history that is accepted", async () => {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "go on" }];
      const tools = s04.TOOLS.filter(({ name }) => name === "bash");
      server.model = scripted(work(), round(use("read_file", { path: "x" })));
      const outcome = await s04.agentLoop(messages, { system: "Be brief.", tools, maxRounds: 2 });
      assert.equal(outcome, "out of rounds");
      assert.deepEqual(
        requests().map((request) => [request.system, toolsOf(request)]),
        [
          ["Be brief.", ["bash"]],
          ["Be brief.", ["bash"]],
        ],
      );
      assert.match(contentsIn(messages)[1] ?? "", /unknown tool read_file/);
      messages.push({ role: "user", content: "go on" });
      server.model = scripted(done);
      assert.equal(await s04.agentLoop(messages, { system: "Be brief.", tools }), "done");
      assertAccepted();
    });

    test("has no limit of rounds for the parent", async () => {
      assert.equal(await ask([], ...Array.from({ length: 35 }, quick), done), "done");
    });
  });

  describe("the person", () => {
    test("sees what the child prints indented, and what the parent prints not", async () => {
      const wordy = round(
        { type: "thinking", thinking: "child thinks\nmore thinking" },
        { type: "text", text: "child says\nmore words" },
        use("bash", { command: "echo child output; echo between; echo more output" }),
      );
      server.model = scripted(
        round({ type: "thinking", thinking: "parent thinks" }, use("task", { prompt: "count" })),
        wordy,
        say("child's answer"),
        work("echo parent output"),
        say("parent says\nthe end"),
      );
      const { code, stdout } = await start(LESSON, ["-y", "delegate"]).ended;
      assert.equal(code, 0);
      assert.match(stdout, /^parent thinks\n> task/);
      const lines = stdout.split("\n");
      const mentions = (word: RegExp) => lines.filter((line) => word.test(line));
      const childs = mentions(
        /child thinks|more thinking|child says|more words|> bash.*child|^\s*child output|more output$/,
      );
      assert.ok(childs.length >= 7, stdout);
      for (const line of childs) assert.match(line, /^\s+\S/);
      const parents = mentions(/> task|> bash.*parent|^\s*parent output|parent says|the end/);
      assert.equal(parents.length, 5, stdout);
      for (const line of parents) assert.match(line, /^\S/);
      assertAccepted();
    });

    test("sees the parent's words unindented again after a child that failed", async () => {
      server.fail(WELL, { kind: "status", status: 400, message: "no" });
      server.model = scripted(task("try"), say("parent goes on"));
      const { code, stdout } = await start(LESSON, ["-y", "delegate"]).ended;
      assert.equal(code, 0);
      assert.match(stdout, /^parent goes on$/m);
    });

    test("is asked for the child's commands, too: when nobody can be asked, they are not run", async () => {
      server.model = scripted(task("touch"), work("touch unasked"), say("not allowed"), done);
      const { code } = await start(LESSON, ["delegate"]).ended;
      assert.equal(code, 0);
      assert.equal(existsSync(join(folder, "unasked")), false);
      const [result] = resultsIn(childRequests().at(-1)?.messages ?? []);
      assert.equal(result?.is_error, true);
      assert.match(String(result?.content), /-y/);
      assertAccepted();
    });

    test("stops child and parent with one Ctrl-C, and the command goes with them", async () => {
      server.model = scripted(task("sleep"), work("echo $$ > pid; exec sleep 60"));
      const lesson = start(LESSON, ["-y", "delegate"]);
      const pidFile = join(folder, "pid");
      await until(() => existsSync(pidFile) && readFileSync(pidFile, "utf8").endsWith("\n"));
      const pid = Number(readFileSync(pidFile, "utf8"));
      rmSync(pidFile);
      lesson.child.kill("SIGINT");
      const { code, stdout } = await lesson.ended;
      assert.equal(code, 1);
      assert.match(stdout, /interrupted/);
      assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
      assert.equal(server.journal.length, 2);
      assertAccepted();
    });
  });
});

await carryOver("s03_todo_write");
