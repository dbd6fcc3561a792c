// The loop and its one tool: the history stays valid however a turn ends, nothing runs unasked, bash gives back all that
// a command prints, and the terminal does what its user expects.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe } from "node:test";
import { type Failure, type Reply, type ReplyBlock, scripted } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { bash, blocksOf, call, expectRejection, folder, goOn, isRunning, onEach } = harness;
const { capture, optionsFor, resultsIn, say, server, start, step, test, turn, until, use, user } = harness;
const s01 = await import("../agents/s01_agent_loop.ts");
const s02 = await import("../agents/s02_tool_use.ts");
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request
type Messages = harness.Messages;
const never = new AbortController().signal;
const isThere = (name: string, cwd = folder) => existsSync(join(cwd, name));
const textsOf = (results: { text: string }[]) => results.map(({ text }) => text);
const pidIn = (name: string, cwd = folder) => Number(readFileSync(join(cwd, name), "utf8"));
const hasPid = (name: string, cwd = folder) => isThere(name, cwd) && pidIn(name, cwd) > 0;
/** Runs until it is killed or its folder is emptied, with a child that ignores SIGTERM. Their ids are in two files. */
const ENDLESS = `echo begun; (trap '' TERM; sh -c 'echo $PPID' > child; while [ -e child ]; do sleep 1; done) &
echo $$ > parent; wait`;
/** Runs until there is a file `go`, or its folder is emptied. */
const WAIT = "touch begun; until [ -e go ] || [ ! -e begun ]; do sleep 0.02; done";
/** Longer than the lines of a paste take to arrive. */
const aMoment = () => new Promise((resolve) => setTimeout(resolve, 200));
const goOnIn = (cwd: string) => writeFileSync(join(cwd, "go"), "");
const isUp = (cwd = folder) => hasPid("child", cwd) && hasPid("parent", cwd);
const bothEnd = (cwd = folder) => until(() => !isRunning(pidIn("child", cwd)) && !isRunning(pidIn("parent", cwd)));

onEach({ s01, s02, s03, s04, s06 }, (lesson, test) => {
  describe("the loop", () => {
    beforeEach(harness.emptyWorkspace);

    step("agentLoop");
    test("streams a request with the cache on, summarized thinking and room for a long reply", async () => {
      const { sent } = await turn(lesson, [say("hello")]);
      const { stream, model, max_tokens, cache_control, thinking, system, tools } = sent[0] ?? {};
      assert.deepEqual([stream, model, max_tokens], [true, "claude-sonnet-5-5", 32_000]);
      assert.deepEqual(cache_control, { type: "ephemeral" });
      assert.deepEqual(thinking, { type: "adaptive", display: "summarized" });
      assert.deepEqual([system, tools], [lesson.SYSTEM, lesson.TOOLS]);
      assert.ok(lesson.SYSTEM.includes(folder), "the prompt names the workspace");
    });

    test("goes on until the model calls no more tools, and the messages grow in place", async () => {
      const messages: Messages = [];
      const { error, sent } = await turn(lesson, [bash("echo one"), bash("echo two"), say("done")], { messages });
      assert.equal(error, undefined);
      assert.equal(sent.length, 3, "calls of the model");
      const roles = messages.map(({ role }) => role);
      assert.deepEqual(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
      assert.deepEqual(textsOf(resultsIn(sent[2]?.messages ?? [])), ["one", "two"]);
    });

    test("agentLoop returns the last reply, which is the last message, too", async () => {
      server.model = scripted(bash("echo hi"), say("It printed: hi"));
      const messages = [user("go")];
      const { agentLoop }: harness.Lesson = lesson;
      const { value: reply } = await capture(() => agentLoop(messages, optionsFor<harness.Lesson>(lesson)));
      assert.match(JSON.stringify(reply.content.at(-1)), /It printed: hi/);
      assert.deepEqual([messages.length, messages[3]?.content], [4, reply.content]);
    });

    test("runs the calls of one reply in their order; the results come in that order in one message", async () => {
      const calls = ["echo a | tee log", "cat log", "echo b >> log; cat log"];
      const content = calls.map((command, i) => use("bash", { command }, `call_${i}`));
      const { messages, results } = await turn(lesson, [call(...content), say("done")]);
      assert.deepEqual(
        results.map(({ id, text }) => [id, text]),
        [
          ["call_0", "a"],
          ["call_1", "a"],
          ["call_2", "a\nb"],
        ],
      );
      assert.deepEqual(
        messages.map(({ role }) => role),
        ["user", "assistant", "user", "assistant"],
      );
    });

    test("looks for calls in the blocks, whatever the stop reason is", async () => {
      const ran = await turn(lesson, [{ ...bash("echo ran"), stop_reason: "end_turn" }, say("done")]);
      assert.deepEqual([ran.results.length, ran.sent.length], [1, 2], "results, and calls of the model");
      const ended = await turn(lesson, [{ ...say("nothing to do"), stop_reason: "tool_use" }]);
      assert.deepEqual([ended.error, ended.sent.length], [undefined, 1]);
    });

    test("sends thinking back as it came, between calls too", async () => {
      const thinking = { type: "thinking", thinking: "first this" } as const;
      const command = use("bash", { command: "true" });
      const { messages } = await turn(lesson, [
        call(thinking, { type: "redacted_thinking" }, command, thinking, command),
        say("ok"),
      ]);
      const types = messages
        .slice(0, 2)
        .flatMap(blocksOf)
        .map(({ type }) => type);
      assert.deepEqual(types, ["text", "thinking", "redacted_thinking", "tool_use", "thinking", "tool_use"]);
      await goOn(lesson, messages);
    });

    step("checkReply");
    const [before, after] = [
      { type: "thinking", thinking: "before" } as const,
      { type: "thinking", thinking: "after" } as const,
    ];
    const command = use("bash", { command: "echo ran" });
    for (const [what, content] of Object.entries<ReplyBlock[]>({
      "blank text": [before, { type: "text", text: "\n\n" }, command, after, command],
      "text that is no well-formed Unicode": [before, { type: "text", text: "half: \ud83d" }, command, after, command],
      "thinking at the end": [before, command, command, after],
      "redacted thinking at the end": [before, command, command, { type: "redacted_thinking" }],
    })) {
      test(`sends a reply with ${what} back without that block and without thinking, and runs its calls`, async () => {
        const { error, messages, results } = await turn(lesson, [call(...content), say("ok")]);
        assert.equal(error, undefined);
        const types = blocksOf(messages[1] ?? user("")).map(({ type }) => type);
        assert.deepEqual(types, ["tool_use", "tool_use"]);
        assert.deepEqual(textsOf(results), ["ran", "ran"]);
        await goOn(lesson, messages);
      });
    }

    for (const [what, reply] of Object.entries<Reply>({
      "no blocks": call(),
      "only blank text": say(" \n"),
      "only text that is no well-formed Unicode": say("\udc00"),
      "only thinking": call({ type: "thinking", thinking: "What shall I say?" }),
    })) {
      test(`says that a reply with ${what} is empty, and the conversation goes on`, async () => {
        const { error, messages, results } = await turn(lesson, [bash("echo hi"), reply]);
        assert.notEqual(error, undefined);
        assert.deepEqual([textsOf(results), messages.at(-1)?.role], [["hi"], "user"]);
        await goOn(lesson, messages);
      });
    }

    test("drops a reply that max_tokens cut, runs none of its calls, and says so", async () => {
      server.fail(PASS, { kind: "max_tokens" });
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("touch a", "touch b")]);
      assert.notEqual(error, undefined);
      assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
      assert.deepEqual(textsOf(results), ["kept"]);
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /touch a/);
    });

    test("takes a refused turn out of the conversation and runs none of its calls", async () => {
      const { messages } = await turn(lesson, [say("fine")], { request: "first" });
      server.fail(PASS, { kind: "refusal" });
      const replies = [bash("echo harmless"), bash("touch harm")];
      const { error } = await turn(lesson, replies, { messages, request: "something bad" });
      assert.notEqual(error, undefined);
      const roles = messages.map(({ role }) => role);
      assert.deepEqual(roles, ["user", "assistant"], "what was there before");
      assert.ok(!isThere("harm"));
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /something bad|echo harmless|touch harm/);
    });

    step("runTool");
    test("tells the model that a tool doesn't exist, or that its input is wrong", async () => {
      const calls = [use("python", {}), use("constructor", {}), use("bash", {}), use("bash", { command: ["ls"] })];
      const { error, messages, results } = await turn(lesson, [call(...calls), say("sorry")]);
      assert.equal(error, undefined);
      assert.ok(results.every(({ failed }) => failed));
      for (const [i, words] of [/(?=.*python)(?=.*\bbash\b)/s, /constructor/, /command/, /command/].entries()) {
        assert.match(results[i]?.text ?? "", words);
      }
      await goOn(lesson, messages);
    });

    step("runCall");
    test("tells the model what went wrong when a command cannot be started, and goes on with the next call", async () => {
      const { results, messages } = await turn(lesson, [bash("echo a\0b", "echo after"), say("sorry")]);
      assert.match(results[0]?.text ?? "", /null bytes/);
      assert.deepEqual([results[0]?.failed, results[1]?.text], [true, "after"]);
      await goOn(lesson, messages);
    });

    step("runTurn");
    test("takes out what the API rejects: a request that it rejects at once", async () => {
      expectRejection(/malformed/);
      server.fail({ kind: "status", status: 400, message: "this request is malformed" });
      const before: Messages = [user("first"), { role: "assistant", content: [{ type: "text", text: "ok" }] }];
      const { error, messages } = await turn(lesson, [], { messages: [...before], request: "bad" });
      assert.match(error ?? "", /400/);
      assert.deepEqual(messages, before);
    });

    test("takes out what the API rejects: the last round, not the turn", async () => {
      expectRejection(/input: Input should be a valid dictionary/);
      const rounds = [bash("echo one"), bash("echo two"), call(use("bash", "no object"))];
      const { error, messages, results } = await turn(lesson, rounds);
      assert.match(error ?? "", /400/);
      assert.deepEqual(textsOf(results), ["one", "two"]);
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /no object/);
    });

    test("takes out what the API rejects: the first round, but not its request", async () => {
      expectRejection(/input: Input should be a valid dictionary/);
      const { messages } = await turn(lesson, [call(use("bash", "no object"))]);
      assert.deepEqual(messages, [user("go")]);
      await goOn(lesson, messages);
    });

    test("takes out what the API rejects: results that were never answered, and the request after them", async () => {
      expectRejection(/malformed/);
      const messages: Messages = [
        user("one"),
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "bash", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "too much" }] },
      ];
      server.fail({ kind: "status", status: 400, message: "this request is malformed" });
      await turn(lesson, [], { messages, request: "after Ctrl-C" });
      assert.deepEqual(messages, [user("one")]);
    });

    test("takes out what the API rejects: calls with the same id, also if Ctrl-C ended the turn before it saw them", async () => {
      expectRejection(/ids must be unique/);
      const stop = new AbortController();
      const approve = async () => stop.abort(new Error("interrupted"));
      const twins = call(...["one", "two"].map((word) => use("bash", { command: `echo ${word}` }, "toolu_same")));
      const { messages } = await turn(lesson, [twins], { signal: stop.signal, approve });
      assert.equal(messages.length, 3);
      await turn(lesson, [], { messages });
      assert.deepEqual(messages, [user("go")]);
      await goOn(lesson, messages);
    });

    step("agentLoop");
    test("keeps the request when the API has another error, and lets the SDK try again first", async () => {
      const busy: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
      server.fail(busy, busy);
      for (const message of [/Overloaded/, /Overloaded/, /invalid x-api-key/]) expectRejection(message);
      assert.equal((await turn(lesson, [say("made it")])).error, undefined);
      server.fail({ kind: "status", status: 401 });
      const { error, messages } = await turn(lesson, []);
      assert.match(error ?? "", /401/);
      assert.deepEqual(messages, [user("go")]);
    });

    test("has a valid history when the stream breaks in the middle", async () => {
      server.fail(PASS, { kind: "drop" });
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("echo never")]);
      assert.notEqual(error, undefined);
      assert.deepEqual(textsOf(results), ["kept"]);
      await goOn(lesson, messages);
    });

    step("runCall");
    test("ends when it is interrupted in a command; each call has its one result, and the conversation goes on", async () => {
      const stop = new AbortController();
      const running = turn(lesson, [bash("echo first", ENDLESS, "touch never")], { signal: stop.signal });
      await until(isUp);
      stop.abort(new Error("interrupted"));
      const { error, messages, results, sent } = await running;
      assert.notEqual(error, undefined);
      assert.equal(sent.length, 1, "calls of the model");
      assert.equal(results[0]?.text, "first");
      assert.match(results[1]?.text ?? "", /^begun\n./);
      assert.equal(results[2]?.failed, true, "the call after Ctrl-C has an error as its result");
      assert.ok(!isThere("never"));
      await goOn(lesson, messages);
    });

    test("ends when it is interrupted in the middle of a reply, and keeps nothing of it", async () => {
      const stop = new AbortController();
      server.fail({ kind: "slow", delay: 20 });
      const before = server.journal.length;
      const running = turn(lesson, [say("word ".repeat(1000))], { signal: stop.signal });
      await until(() => server.journal[before]?.reply !== undefined);
      stop.abort(new Error("interrupted"));
      const { error, messages } = await running;
      assert.notEqual(error, undefined);
      assert.deepEqual(messages, [user("go")]);
      await goOn(lesson, messages);
    });

    step("runTool");
    test("runs nothing when it is interrupted at the question, or before it began", async () => {
      const stop = new AbortController();
      const approve = async () => {
        stop.abort(new Error("interrupted"));
        stop.signal.throwIfAborted();
      };
      const asked = await turn(lesson, [bash("touch a", "touch b")], { signal: stop.signal, approve });
      assert.equal(asked.results.length, 2);
      for (const { failed } of asked.results) assert.ok(failed);
      assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
      await goOn(lesson, asked.messages);
      const { error, sent } = await turn(lesson, [], { signal: stop.signal });
      assert.notEqual(error, undefined);
      assert.equal(sent.length, 0, "calls of the model");
    });

    test("asks before it runs a command, and tells the model what the user said", async () => {
      const approve = async () => {
        assert.ok(!isThere("a"));
        throw new Error("the user said no: use b");
      };
      const { results } = await turn(lesson, [bash("touch a"), say("ok")], { approve });
      assert.match(`${results[0]?.failed} ${results[0]?.text}`, /^true .*the user said no: use b/);
      assert.ok(!isThere("a"));
    });

    step("agentLoop");
    test("sends a result of more than 50,000 characters with its head, its tail and a note", async () => {
      const { results } = await turn(lesson, [bash("echo HEAD; seq 50000; echo TAIL"), say("done")]);
      const text = results[0]?.text ?? "";
      assert.ok(text.length <= 50_000, `${text.length} characters`);
      assert.match(text, /HEAD\n1\n2\n/);
      assert.match(text, /49999\n50000\nTAIL$/);
      assert.match(text.slice(5, -5), /[a-z]{2}/i, "a note");
    });

    step("runTurn");
    test("sends a request that is no well-formed Unicode as valid text", async () => {
      const { error, sent } = await turn(lesson, [say("ok")], { request: "half: \ud83d" });
      assert.equal(error, undefined);
      assert.deepEqual(sent[0]?.messages, [user("half: \ufffd")]);
    });

    step("runCall");
    test("sends a result that was cut inside an emoji as valid text", async () => {
      for (const lead of ["", "x"]) {
        const command = `printf '${lead}'; yes 😀 | head -n 60000 | tr -d '\\n'`;
        const { messages, results } = await turn(lesson, [bash(command), say("done")]);
        assert.match(results[0]?.text ?? "", /😀/);
        await goOn(lesson, messages);
      }
    });

    step("runTool");
    test("prints text as it arrives, a call once before it runs, and the first lines of its result", async () => {
      const content = [{ type: "text", text: "I count." } as const, use("bash", { command: "seq 2000" })];
      const { printed } = await turn(lesson, [call(...content), say("All counted.")]);
      assert.match(printed, /I count\.\n.*seq 2000\n1\n2\n(.|\n)*All counted\.\n$/);
      assert.doesNotMatch(printed, /\n1000\n/);
    });

    test("prints thinking as it arrives, on lines of its own", async () => {
      const { printed } = await turn(lesson, [
        call({ type: "thinking", thinking: "First I look." }, command),
        say("ok"),
      ]);
      assert.match(printed, /^First I look\.\n.*echo ran\n/);
    });

    step("agentLoop");
    test("prints a line end that arrives in two pieces as a line end", async () => {
      const { printed } = await turn(lesson, [say(`${"x".repeat(19)}\r\nnext line`)]);
      assert.match(printed, /\nx{19}\nnext line\n$/);
    });

    test("prints control and text-direction characters harmlessly, but line ends as they are", async () => {
      const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
      const { printed } = await turn(lesson, [bash(`printf '%s' '${evil}'`), say(`one\r\ntwo ${evil}`)]);
      assert.match(printed, /one\ntwo �\]0;owned/);
      assert.doesNotMatch(printed, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    });
  });
});

// No lesson changes this region.
onEach({ s01 }, (lesson, test) => {
  const run = (command: string, signal = never) => lesson.runBash(command, signal);

  describe("bash", () => {
    beforeEach(harness.emptyWorkspace);

    step("program");
    test("runs in the workspace and returns stdout and stderr in the order they were written", async () => {
      const output = await run("pwd; for i in 1 2; do echo out $i; echo err $i >&2; done");
      assert.equal(output, `${folder}\nout 1\nerr 1\nout 2\nerr 2`);
    });

    test("says how the command ended if not with 0, and when there was no output", async () => {
      assert.match(await run("echo some; exit 3"), /^some\n.*\b3\b/);
      assert.match(await run("true"), /./);
      assert.match(await run("kill -9 $$"), /SIGKILL|137|\b9\b/);
    });

    test("gives a command no input, and no variable that begins with ANTHROPIC_", async () => {
      process.env.ANTHROPIC_CUSTOM_HEADERS = "x-secret: 1";
      const output = await run("cat; env");
      delete process.env.ANTHROPIC_CUSTOM_HEADERS;
      assert.match(output, /^PATH=/m);
      assert.doesNotMatch(output, /ANTHROPIC_/);
    });

    test("runs no file of BASH_ENV or ENV before a command", async () => {
      writeFileSync("hook", "echo hooked");
      Object.assign(process.env, { BASH_ENV: join(folder, "hook"), ENV: join(folder, "hook") });
      const output = await run('echo "BASH_ENV=$BASH_ENV ENV=$ENV"');
      delete process.env.BASH_ENV;
      delete process.env.ENV;
      assert.equal(output, "BASH_ENV= ENV=");
    });

    test("returns all that a script prints which sends its own output through tee", async () => {
      const script = (i: number) => `exec > >(tee log${i}) 2>&1; echo begin; seq 500; ls none; echo end ${i}`;
      const outputs = await Promise.all(Array.from({ length: 8 }, (_, i) => run(script(i))));
      for (const [i, output] of outputs.entries()) {
        assert.match(output, new RegExp(`^begin\n1\n2\n(.|\n)*\n500\nls: .*none.*\nend ${i}$`));
      }
      assert.equal(await run("exec > >(sleep 0.05; cat); echo late"), "late");
    });

    test("keeps characters of several bytes whole in long output", async () => {
      assert.doesNotMatch(await run("yes 中文字 | head -n 100000"), /\ufffd/);
    });

    test("keeps little of the output of a command that prints 10 MB", async () => {
      const output = await run("echo HEAD; yes | head -c 10000000; echo TAIL");
      assert.ok(output.length <= 50_000, `${output.length} characters`);
      assert.match(output, /^HEAD\ny\n[\s\S]*\n.*[^y\n].*\n[\s\S]*y\nTAIL$/);
    });

    test("leaves a process in the background alive, returns at once, and says that it is there", async (t) => {
      const stop = new AbortController();
      const job = "(until [ -e go ]; do sleep 0.02; done; head -c 300000 /dev/zero && touch after; sleep 30)";
      const output = await run(`${job} & echo $! $$`, stop.signal);
      const [pid = 0, group = 0] = output.split("\n", 1).join().split(" ").map(Number);
      t.after(() => process.kill(-group));
      assert.match(output, new RegExp(`^${pid} ${group}\n.`));
      stop.abort(); // too late for a command that has ended
      goOnIn(folder);
      await until(() => isThere("after"));
      assert.ok(isRunning(pid));
    });

    test("says that more may come when a slow reader still has the output", async (t) => {
      t.after(() => goOnIn(folder));
      assert.notEqual(await run(`exec > >(${WAIT}; cat > late); echo more`), await run("true"));
      goOnIn(folder);
      await until(() => isThere("late") && readFileSync("late", "utf8") === "more\n");
    });

    test("leaves a server alive that prints elsewhere, whatever ends later: the turn, or the time of the call", async (t) => {
      const stop = new AbortController();
      const output = await lesson.runBash("sleep 30 > /dev/null 2>&1 & echo $! $$", stop.signal, 300);
      const [pid = 0, group = 0] = output.split(" ").map(Number);
      t.after(() => process.kill(-group));
      assert.match(output, /^\d+ \d+$/, "nothing is said of it");
      stop.abort();
      await new Promise((resolve) => setTimeout(resolve, 500));
      assert.ok(isRunning(pid));
    });

    test("ends the whole process group of an interrupted command, even a child that ignores SIGTERM", async () => {
      const stop = new AbortController();
      const running = run(ENDLESS, stop.signal);
      await until(isUp);
      stop.abort();
      assert.match(await running, /^begun\n./);
      await bothEnd();
    });

    test("lets an interrupted command clean up, and does not wait for it", async () => {
      const stop = new AbortController();
      const running = run(
        "trap 'sleep 0.5; touch clean; exit' TERM; touch begun; while true; do sleep 0.02; done",
        stop.signal,
      );
      await until(() => isThere("begun"));
      stop.abort();
      assert.match(await running, /./);
      assert.ok(!isThere("clean"), "it is not over yet");
      await until(() => isThere("clean"));
    });

    test("ends a command that takes too long, and says how long it had", async () => {
      const output = await lesson.runBash("echo begun; echo $$ > parent; sleep 60; touch late", never, 500);
      assert.match(output, /^begun\n.*(0\.5|500)/);
      await until(() => !isRunning(pidIn("parent")));
    });
  });
});

onEach({ s01, s02, s03, s04, s05 }, (lesson, test) => {
  step("runTurn");
  test("goes on after a prompt that became too long in a later round", async (t) => {
    t.after(() => {
      server.contextLimit = 200_000;
    });
    server.contextLimit = 10_000;
    expectRejection(/prompt is too long/);
    const { error, messages, sent } = await turn(lesson, [bash("echo short"), bash("seq 9000")]);
    assert.match(error ?? "", /prompt is too long/);
    assert.equal(sent.length, 3);
    assert.match(JSON.stringify(await goOn(lesson, messages)), /short/);
  });

  step("checkReply");
  test("keeps nothing of a reply that fills the context window, and runs none of its calls", async () => {
    harness.emptyWorkspace();
    server.fail(PASS, { kind: "context_window" });
    const { error, messages } = await turn(lesson, [bash("echo kept"), bash("touch a", "touch b")]);
    assert.notEqual(error, undefined);
    assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
    assert.match(JSON.stringify(await goOn(lesson, messages)), /kept/);
  });

  step("runTurn");
  test("takes out what is too large for the server", async () => {
    expectRejection(/exceeds the maximum size/);
    server.fail(PASS, { kind: "status", status: 413 });
    const { error, messages } = await turn(lesson, [bash("echo large")]);
    assert.match(error ?? "", /413/);
    assert.deepEqual(messages, [user("go")]);
  });
});

const sideBySide = { concurrency: 4, timeout: 120_000 };

describe("the program", sideBySide, () => {
  const unset = { ANTHROPIC_API_KEY: undefined };
  const lesson = "s01_agent_loop";

  step("program");
  test("carries out a request of several words", async (t) => {
    const replies = [bash("echo 6 > made"), say("All done.")];
    const run = await start(t, lesson, ["-y", "please", "make it"], { replies });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), / echo 6 > made\n(.|\n)*All done\.\n$/);
    assert.ok(isThere("made", run.cwd));
    assert.deepEqual(run.journal[0]?.request.messages, [user("please make it")]);
  });

  test("takes its settings from the .env beside the lessons; those of the environment win", async (t) => {
    const dotEnv = "ANTHROPIC_API_KEY=from-file\nMODEL_ID=model-of-file\nTHINKING=off\n";
    const env = { ...unset, MODEL_ID: "model-of-environment" };
    const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], dotEnv, env });
    assert.equal(await run.ended, 0, run.screen());
    const { request } = run.journal[0] ?? {};
    assert.deepEqual([request?.model, request?.thinking], ["model-of-environment", undefined]);
  });

  test("does not read the .env of the workspace", async (t) => {
    const files = { ".env": "ANTHROPIC_API_KEY=planted\n" };
    const run = await start(t, lesson, ["go"], { files, env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /\[no key: /);
  });

  test("exits with 1 when a request is not done, and says why", async (t) => {
    const run = await start(t, lesson, ["go"], { replies: [call({ type: "thinking", thinking: "hm" })] });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\[.+\]$/m);
  });

  test("names the server when there is no connection", async (t) => {
    const run = await start(t, lesson, ["go"], { env: { ANTHROPIC_BASE_URL: "http://127.0.0.1:9" } });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\[.*http:\/\/127\.0\.0\.1:9.*\]$/m);
  });

  for (const [what, failure, why] of [
    ["an error in the middle of a reply", { kind: "error_event" }, /^\[API error overloaded_error: Overloaded\]$/m],
    ["a connection that breaks", { kind: "drop" }, /^\[the reply broke off, .* dropped: terminated\]$/m],
    ["a call that is no JSON", { kind: "broken_json" }, /^\[.* could not be read, and is dropped: .*JSON.*\]$/m],
  ] satisfies [string, Failure, RegExp][]) {
    test(`says why a turn ends with ${what}`, async (t) => {
      const run = await start(t, lesson, ["go"], { replies: [bash("echo never")], failures: [failure] });
      assert.equal(await run.ended, 1);
      assert.match(run.screen(), why);
    });
  }

  test("says in one line what to set when there is no credential, and exits with 1", async (t) => {
    const run = await start(t, lesson, ["go"], { env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\n?\[.*ANTHROPIC_API_KEY.* in \/\S+\/\.env; .*npm run demo.*\]\n$/);
    assert.doesNotMatch(run.screen(), /agents/); // the .env is beside that folder
    assert.equal(run.journal.length, 0);
  });

  test("takes the credentials of a profile of the SDK", async (t) => {
    const config = mkdtempSync(join(folder, "config-"));
    for (const name of ["configs", "credentials"]) mkdirSync(join(config, name));
    writeFileSync(join(config, "configs/mine.json"), '{ "authentication": { "type": "user_oauth" } }');
    writeFileSync(join(config, "credentials/mine.json"), '{ "access_token": "token" }', { mode: 0o600 });
    const env = { ...unset, ANTHROPIC_PROFILE: "mine", ANTHROPIC_CONFIG_DIR: config };
    const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], env });
    assert.equal(await run.ended, 0, run.screen());
  });

  test("says in one line how it is used when it does not know an option, and exits with 1", async (t) => {
    const run = await start(t, lesson, ["--help"], { env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\n?\[.*--help.*usage: npx tsx agents\/s01_agent_loop.*-y.*\]\n$/);
  });

  test("says what becomes of a request that is too long, and what the user can do", async (t) => {
    const message = "prompt is too long: 201 tokens > 200 maximum";
    expectRejection(/prompt is too long/);
    const failures: Failure[] = [PASS, { kind: "status", status: 400, message }];
    const run = await start(t, lesson, ["-y", "go"], { replies: [bash("echo hi")], failures });
    assert.equal(await run.ended, 1);
    const [line = ""] = run.screen().split("\n").slice(-2);
    assert.ok(line.includes(message), run.screen());
    assert.match(line, /effects remain.*ask for less or begin again/);
  });

  for (const each of [lesson, "s06_context_compact"]) {
    test(`${each.slice(0, 3)}: ends quietly when nobody reads what it prints, and runs no further command`, async (t) => {
      const replies = [bash("until [ -e closed ]; do sleep 0.02; done", "touch never"), say("Done.")];
      const shell = (agent: string) => `${agent} | (head -1; exec <&-; touch closed)`;
      const run = await start(t, each, ["-y", "go"], { replies, shell });
      assert.equal(await run.ended, 1);
      assert.equal(run.screen(), "Looking at what is needed next.\n");
      assert.ok(isThere("closed", run.cwd), "the first command has run");
      assert.ok(!isThere("never", run.cwd));
    });
  }

  const skip = !existsSync("/dev/full") && "needs /dev/full";
  test("ends quietly when what it prints cannot be written", { skip }, async (t) => {
    const shell = (agent: string) => `${agent} > /dev/full`;
    const run = await start(t, lesson, ["-y", "go"], { replies: [bash("touch never"), say("Done.")], shell });
    assert.equal(await run.ended, 1);
    assert.deepEqual([run.screen(), isThere("never", run.cwd)], ["", false]);
  });

  test("takes piped requests one per line, asks nobody, and then runs nothing", async (t) => {
    const replies = [bash("touch never"), say("I could not."), say("two")];
    const run = await start(t, lesson, [], { replies, input: "first\n\nsecond\n q \nthird\n" });
    assert.equal(await run.ended, 0);
    assert.ok(!isThere("never", run.cwd));
    const { messages = [] } = run.journal[2]?.request ?? {};
    assert.match(resultsIn(messages)[0]?.text ?? "", /nobody can be asked.*-y/);
    assert.deepEqual(
      messages.filter(({ content }) => typeof content === "string"),
      [user("first"), user("second")],
    );
    assert.equal(run.journal.length, 3, "requests: nothing after the q");
  });

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    test(`takes the running command along on ${signal}, even if it comes twice`, async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)] });
      await until(() => isUp(run.cwd));
      for (let i = 0; i < 2; i++) run.child.kill(signal);
      assert.equal(await run.ended, 1);
      await bothEnd(run.cwd);
    });
  }
});

describe("the terminal", { ...sideBySide, skip: harness.noTerminal }, () => {
  const [CTRL_C, CTRL_D, CTRL_U, LEFT] = ["\x03", "\x04", "\x15", "\x1b[D"];

  for (const lesson of ["s01_agent_loop", "s06_context_compact"]) {
    const prompt = `${lesson.slice(0, 3)} >> `;

    test(`${prompt.slice(0, 3)}: asks before each command: y, a for all, anything else is a no; /exit leaves`, async (t) => {
      const replies = [bash(...[..."abcdef"].map((name) => `touch ${name}`)), say("Finished.")];
      const run = await start(t, lesson, [], { replies, terminal: true });
      await run.waitFor(prompt);
      run.type("make files\r");
      for (const [command, answer] of ["", "yes, but with tee", "Y", "y", "a"].entries()) {
        await run.waitFor(`touch ${"abcde"[command]}\r\n`);
        await run.waitFor("anything else: no] ");
        run.type(`${answer}\r`);
      }
      await run.waitFor("Finished.");
      await run.waitFor(prompt);
      run.type("/exit\r");
      assert.equal(await run.ended, 0);
      assert.deepEqual(
        [..."abcdef"].map((name) => isThere(name, run.cwd)),
        [false, false, false, true, true, true],
      );
      const [enter, words] = textsOf(resultsIn(run.journal[1]?.request.messages ?? []));
      assert.match(`${enter}; ${words}`, /the user said no: \(nothing\); .*the user said no: yes, but with tee/);
    });

    test(`${prompt.slice(0, 3)}: comes back to the prompt on Ctrl-C, once or twice, and remembers the conversation`, async (t) => {
      const word = say("word ".repeat(1000));
      const replies = [say("I see."), bash("touch never"), bash(ENDLESS), word, say("still here")];
      const failures: Failure[] = [PASS, PASS, PASS, { kind: "slow", delay: 20 }];
      const run = await start(t, lesson, [], { replies, failures, terminal: true });
      const interrupt = async (keys: string) => {
        run.type(keys);
        await run.waitFor("[interrupted]");
        await run.waitFor(prompt);
        run.type(CTRL_C); // the second of two in a row arrives at the prompt
      };
      await run.waitFor(prompt);
      run.type("first\r");
      await run.waitFor("I see.");
      await run.waitFor(prompt);
      run.type("second\r");
      await run.waitFor("anything else: no] ");
      await interrupt(CTRL_C);
      run.type("third\r");
      await run.waitFor("anything else: no] ");
      run.type("y\r");
      await until(() => isUp(run.cwd));
      await interrupt(CTRL_C);
      await bothEnd(run.cwd);
      run.type("fourth\r");
      await run.waitFor("word");
      await interrupt(CTRL_C + CTRL_C);
      run.type(`half a requ${LEFT}${CTRL_C}fifth\r`);
      await run.waitFor("still here");
      await run.waitFor(prompt);
      run.type(CTRL_D);
      assert.equal(await run.ended, 0);
      const { messages = [] } = run.journal[4]?.request ?? {};
      const requests = messages.filter(({ content }) => typeof content === "string");
      assert.deepEqual(requests, ["first", "second", "third", "fourth", "fifth"].map(user));
      assert.ok(!isThere("never", run.cwd));
    });

    test(`${prompt.slice(0, 3)}: keeps a line in its order that is typed while a turn runs`, async (t) => {
      const replies = [bash(WAIT), say("First done."), say("Second done.")];
      const run = await start(t, lesson, ["-y"], { replies, terminal: true });
      await run.waitFor(prompt);
      run.type("go\r");
      await until(() => isThere("begun", run.cwd));
      run.type("now fix the te");
      await run.waitFor("now fix the te");
      goOnIn(run.cwd);
      await run.waitFor("First done.");
      await run.waitFor(`${prompt}now fix the te\x1b[${prompt.length + 15}G`); // the cursor is behind it
      run.type("sts in src\r");
      await run.waitFor("Second done.");
      assert.deepEqual(run.journal[2]?.request.messages.at(-1), user("now fix the tests in src"));
    });

    test(`${prompt.slice(0, 3)}: what was typed before a question opens is in sight on its line, and no yes`, async (t) => {
      const replies = [bash(WAIT, "touch never"), say("First done.")];
      const run = await start(t, lesson, [], { replies, terminal: true });
      await run.waitFor(prompt);
      run.type("go\r");
      await run.waitFor("anything else: no] ");
      run.type("y\r");
      await until(() => isThere("begun", run.cwd));
      run.type("half a l");
      await run.waitFor("half a l");
      goOnIn(run.cwd);
      await run.waitFor("anything else: no] half a l");
      run.type("y\r");
      await run.waitFor("First done.");
      assert.ok(!isThere("never", run.cwd), "the answer was no");
    });

    test(`${prompt.slice(0, 3)}: Ctrl-C drops what was typed ahead`, async (t) => {
      const run = await start(t, lesson, ["-y"], { replies: [bash(WAIT), say("Done.")], terminal: true });
      await run.waitFor(prompt);
      run.type("go\r");
      await until(() => isThere("begun", run.cwd));
      run.type("a line\r");
      await run.waitFor("a line");
      run.type("and a half");
      await run.waitFor("and a half");
      run.type(CTRL_C);
      await run.waitFor("[interrupted]");
      await run.waitFor(prompt);
      run.type("next\r");
      await run.waitFor("Done.");
      const { messages = [] } = run.journal[1]?.request ?? {};
      assert.deepEqual(
        messages.filter(({ content }) => typeof content === "string"),
        [user("go"), user("next")],
      );
    });

    test(`${prompt.slice(0, 3)}: lines that arrive together are one request, when Enter has ended the last`, async (t) => {
      const replies = [bash(WAIT), say("First done."), say("Second done.")];
      const run = await start(t, lesson, ["-y"], { replies, terminal: true });
      await run.waitFor(prompt);
      run.type("one\rtwo\rthree");
      await run.waitFor("three");
      await aMoment();
      run.type("\r");
      await until(() => isThere("begun", run.cwd));
      run.type("typed\rahead\r");
      await run.waitFor("ahead");
      goOnIn(run.cwd);
      await run.waitFor("Second done.");
      const requests = run.journal.at(-1)?.request.messages.filter(({ content }) => typeof content === "string");
      assert.deepEqual(requests, [user("one\ntwo\nthree"), user("typed\nahead")]);
    });

    test(`${prompt.slice(0, 3)}: text that was discarded is not sent when Ctrl-D leaves`, async (t) => {
      const run = await start(t, lesson, ["-y"], { replies: [bash("touch never")], terminal: true });
      await run.waitFor(prompt);
      run.type("one\rtwo");
      await run.waitFor("two");
      await aMoment();
      run.type(`${CTRL_U}${CTRL_D}`);
      await run.ended;
      assert.equal(run.journal.length, 0, "calls of the model");
    });

    test(`${prompt.slice(0, 3)}: Ctrl-C at an empty prompt says how to leave`, async (t) => {
      const run = await start(t, lesson, [], { terminal: true });
      await run.waitFor(prompt);
      run.type(CTRL_C);
      await run.waitFor("Ctrl-D");
      await run.waitFor(prompt);
      run.type(CTRL_D);
      await run.ended;
    });

    test(`${prompt.slice(0, 3)}: exits with 1 on Ctrl-D when a line was not carried out`, async (t) => {
      const run = await start(t, lesson, ["-y"], { replies: [bash("touch never")], terminal: true });
      await run.waitFor(prompt);
      run.type(`go\r${CTRL_D}`);
      assert.equal(await run.ended, 1);
    });

    test(`${prompt.slice(0, 3)}: exits with 1 on Ctrl-D while a request of the command line is carried out`, async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
      await until(() => isUp(run.cwd));
      run.type(CTRL_D);
      assert.equal(await run.ended, 1);
      await bothEnd(run.cwd);
    });
  }

  test("s01: runs nothing when nobody sees the question, as stdout is no terminal", async (t) => {
    const replies = [bash("echo one > ran"), say("ok")];
    const shell = (command: string) => `${command} | cat`;
    const run = await start(t, "s01_agent_loop", ["go"], { replies, terminal: true, shell });
    await run.ended;
    const [result] = textsOf(resultsIn(run.journal[1]?.request.messages ?? []));
    assert.match(result ?? "", /there is no terminal, so nobody can be asked/);
  });

  test("s01: asks nobody when requests are piped in at a terminal, and runs nothing", async (t) => {
    const replies = [bash("touch never"), say("ok")];
    const shell = (agent: string) => `echo go | ${agent}`;
    const run = await start(t, "s01_agent_loop", [], { replies, terminal: true, shell });
    assert.equal(await run.ended, 0);
    assert.ok(!isThere("never", run.cwd));
    assert.match(resultsIn(run.journal[1]?.request.messages ?? [])[0]?.text ?? "", /nobody can be asked/);
  });

  for (const [what, command, visible] of [
    ["blanks in a command", `ls${" ".repeat(40)}; touch hidden`, /ls \[40 blanks\] ; touch hidden/],
    ["what only looks blank", `ls ${"\u200b\u2800\u3164\uffa0 ".repeat(480)}; touch hidden`, /ls.*2401.*touch hidden/],
    ["the middle of a long command", `first ${".".repeat(5_000)} last`, / first(.|\n)*5011 characters(.|\n)* last/],
    ["nothing that fits", "echo one\n  echo two\necho three", / echo one\n {2}echo two\necho three\n/],
  ] as const) {
    test(`s01: shows what the user is asked about, and counts ${what} instead of showing it`, async (t) => {
      assert.match(await harness.screenAt(t, "s01_agent_loop", use("bash", { command })), visible);
    });
  }

  test("s01: prints thinking dimmed and the reply not", async (t) => {
    const replies = [call({ type: "thinking", thinking: "I think." }, { type: "text", text: "I say." })];
    const run = await start(t, "s01_agent_loop", ["go"], { replies, terminal: true });
    await run.waitFor("\x1b[2mI think.\x1b[22m\r\nI say.\r\n");
    assert.equal(await run.ended, 0);
  });

  test("s01: takes the running command along when its terminal is closed", async (t) => {
    const run = await start(t, "s01_agent_loop", ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
    await until(() => isUp(run.cwd));
    run.child.kill("SIGKILL"); // script is the terminal
    await bothEnd(run.cwd);
  });

  const isRoot = process.getuid?.() === 0;
  test("s01: ends what ignores Ctrl-C, also when the user leaves right after it", async (t) => {
    const run = await start(t, "s01_agent_loop", ["-y"], { replies: [bash(ENDLESS)], terminal: true });
    await run.waitFor("s01 >> ");
    run.type("go\r");
    await until(() => isUp(run.cwd));
    run.type(CTRL_C);
    await run.waitFor("s01 >> ");
    run.type(CTRL_D);
    await run.ended;
    await bothEnd(run.cwd);
  });

  test("s01: goes on after Ctrl-C in a command of another user, which may not be ended", {
    skip: !isRoot && "needs root",
  }, async (t) => {
    const replies = [bash(`./as-root --reuid=0 --clear-groups sleep 31.${process.pid}`), say("still here")];
    const shell = (agent: string) => `cp "$(which setpriv)" as-root; chmod 4755 as-root; chmod 755 .
      chmod -R a+rX "$(dirname ${agent.split(" ")[1]})/.."; exec setpriv --reuid=65534 --clear-groups ${agent}`;
    const run = await start(t, "s01_agent_loop", ["-y"], { replies, terminal: true, shell });
    const pids = () =>
      spawnSync("pgrep", ["-f", `^sleep 31.${process.pid}`], { encoding: "utf8" })
        .stdout.split("\n")
        .filter(Boolean);
    t.after(() => pids().forEach((pid) => void process.kill(Number(pid))));
    await run.waitFor("s01 >> ");
    run.type("first\r");
    await until(() => pids().length > 0);
    run.type(CTRL_C);
    await run.waitFor("[interrupted]");
    run.type("second\r");
    await run.waitFor("still here");
    const [result] = textsOf(resultsIn(run.journal[1]?.request.messages ?? []));
    assert.match(result ?? "", /./);
    assert.equal(pids().length, 1, "it is still running");
  });
});
