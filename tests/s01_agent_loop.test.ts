// The loop and its one tool: the history stays valid however a turn ends, nothing runs unasked, bash gives back all that
// a command prints, and the terminal does what its user expects.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Failure, Reply, ReplyBlock } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { bash, blocksOf, call, expectRejection, folder, goOn, isRunning, loop, onEach, plain } = harness;
const { resultsIn, say, server, start, step, test, textsIn, turn, until, use, user } = harness;
const s01 = await import("../agents/s01_agent_loop.ts");
const s02 = await import("../agents/s02_tool_use.ts");
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request
const STOPPED = /interrupt|cancel|stop|abort|ctrl-c/i;
const never = new AbortController().signal;
const isThere = (name: string, cwd = folder) => existsSync(join(cwd, name));
const rolesOf = (messages: harness.Messages) => messages.map(({ role }) => role);
const outputs = (results: { text: string }[]) => results.map(({ text }) => text);
const pidIn = (name: string, cwd: string) => Number(readFileSync(join(cwd, name), "utf8"));
const hasPid = (name: string, cwd: string) => isThere(name, cwd) && pidIn(name, cwd) > 0;
/** Runs until it is killed or its folder is gone, with a child that ignores SIGTERM. Their ids are in two files. */
const ENDLESS = `(trap '' TERM; sh -c 'echo $PPID' > child; while [ -e child ]; do sleep 1; done) & echo $$ > parent
while [ -e child ] || [ -e parent ]; do wait; done`;
const isUp = (cwd: string) => hasPid("child", cwd) && hasPid("parent", cwd);
const bothEnd = (cwd: string) => until(() => !isRunning(pidIn("child", cwd)) && !isRunning(pidIn("parent", cwd)));
/** Waits for a file `go`, or until its folder is gone: then the run of these tests was stopped. */
const UNTIL_GO = 'until [ -e go ] || [ ! -d "$PWD" ]; do sleep 0.02; done';
/** Runs until there is a file `go`, or its folder is emptied. */
const WAIT = "echo begun; touch begun; until [ -e go ] || [ ! -e begun ]; do sleep 0.02; done";
const goOnIn = (cwd: string) => writeFileSync(join(cwd, "go"), "");

const kindOf = ({ failed }: { failed: boolean }) => (failed ? "an error" : "no error");
const WHY = /^\w+: .*\w/; // an error, and what it says
beforeEach(harness.emptyWorkspace);

// A case runs on s01, on s06, and on each lesson between that changes the region which the case is about.

onEach({ s01, s02, s03, s04, s05, s06 }, (lesson, test) => {
  step("agentLoop");
  test("streams a request with the cache on, summarized thinking and room for a long reply", async () => {
    const { sent } = await loop(lesson, [say("hello")]);
    const { stream, model, max_tokens, cache_control, thinking, system, tools } = sent[0] ?? {};
    assert.deepEqual([stream, model, max_tokens], [true, "claude-sonnet-5-5", 32_000]);
    assert.deepEqual(cache_control, { type: "ephemeral" });
    assert.deepEqual(thinking, { type: "adaptive", display: "summarized" });
    assert.deepEqual([system, tools], [lesson.SYSTEM, lesson.TOOLS]);
    assert.ok(lesson.SYSTEM.includes(folder), "the prompt names the workspace");
  });
});

onEach({ s01, s03, s04, s06 }, (lesson, test) => {
  step("agentLoop");
  test("goes on until the model calls no more tools; the messages grow in place, and the last one is the reply", async () => {
    const first = call({ type: "text", text: "First one." }, use("bash", { command: "echo one" }));
    const { error, messages, results, sent } = await loop(lesson, [
      first,
      bash("echo two"),
      say("It printed: one, two"),
    ]);
    assert.equal(error, undefined);
    assert.deepEqual(rolesOf(messages), ["user", "assistant", "user", "assistant", "user", "assistant"]);
    assert.deepEqual([outputs(results), sent.length], [["one", "two"], 3]);
    assert.deepEqual(textsIn(messages, "assistant"), ["First one.", "It printed: one, two"]);
  });

  test("runs the calls of one reply one after the other; the results come in that order in one message", async () => {
    const calls = ["sleep 0.1; echo a | tee log", "cat log", "echo b >> log; cat log"];
    const content = calls.map((command, i) => use("bash", { command }, `call_${i}`));
    const { messages, results } = await loop(lesson, [call(...content), say("done")]);
    assert.deepEqual(
      results.map(({ id, text }) => [id, text]),
      [
        ["call_0", "a"],
        ["call_1", "a"],
        ["call_2", "a\nb"],
      ],
    );
    assert.deepEqual(rolesOf(messages), ["user", "assistant", "user", "assistant"]);
  });

  test("looks for calls in the blocks, whatever the stop reason is", async () => {
    const ran = await loop(lesson, [{ ...bash("echo ran"), stop_reason: "end_turn" }, say("done")]);
    assert.deepEqual([ran.results.length, ran.sent.length], [1, 2], "results, and calls of the model");
    const ended = await loop(lesson, [{ ...say("nothing to do"), stop_reason: "tool_use" }]);
    assert.deepEqual([ended.error, ended.sent.length], [undefined, 1]);
  });

  test("sends thinking back as it came, between calls too", async () => {
    const thinking = { type: "thinking", thinking: "first this" } as const;
    const command = use("bash", { command: "true" });
    const reply = call(thinking, { type: "redacted_thinking" }, command, thinking, command);
    const { messages } = await loop(lesson, [reply, say("ok")]);
    const types = blocksOf(messages[1] ?? user("")).map(({ type }) => type);
    assert.deepEqual(types, ["thinking", "redacted_thinking", "tool_use", "thinking", "tool_use"]);
    await goOn(lesson, messages);
  });

  test("has no limit of rounds", async () => {
    const { error, sent } = await loop(lesson, [...Array(40).fill(call(use("none", {}))), say("done")]);
    assert.deepEqual([error, sent.length], [undefined, 41]);
  });

  test("throws what a call of the model throws; the messages are then as they were before it", async () => {
    expectRejection(/invalid x-api-key/);
    server.fail(PASS, { kind: "status", status: 401 });
    const { error, messages, results } = await loop(lesson, [bash("echo done")]);
    assert.match(error ?? "", /401/);
    assert.deepEqual([rolesOf(messages), outputs(results)], [["user", "assistant", "user"], ["done"]]);
  });

  for (const [part, count, what] of [
    ["agentLoop", 2, "the calls after it have one, too"],
    ["runCall", 1, "it is an error"],
  ] as const) {
    step(part);
    test(`a call that Ctrl-C stops has a result: ${what}`, async () => {
      const stop = new AbortController();
      const approve = async () => {
        stop.abort(new Error("interrupted"));
        stop.signal.throwIfAborted();
      };
      const calls = bash(...Array(count).fill("true"));
      const { results } = await loop(lesson, [calls], { signal: stop.signal, approve });
      assert.deepEqual(results.map(kindOf), Array(count).fill("an error"), "one for each call");
    });
  }

  test("a no reaches the model with all that the user said", async () => {
    const approve = async () => {
      throw new Error(`the user said no: ${"because ".repeat(100)}that is all`);
    };
    const { results } = await loop(lesson, [bash("true"), say("ok")], { approve });
    assert.match(results[0]?.text ?? "", /no: (because ){100}that is all/);
  });

  test("a call that cannot be started tells the model what went wrong, and the next call runs", async () => {
    const [wrong, after] = ["echo a\0b", "echo after"].map((command) => use("bash", { command }));
    const reply = call(wrong ?? assert.fail(), use("none", {}), after ?? assert.fail());
    const { error, results, messages, printed } = await loop(lesson, [reply, say("sorry")]);
    assert.equal(error, undefined);
    assert.match(results[0]?.text ?? "", /null bytes/);
    assert.match(printed, /null bytes/, "the user reads it, too");
    assert.match(results[1]?.text ?? "", /none/);
    assert.deepEqual([results.map(({ failed }) => failed), results[2]?.text], [[true, true, false], "after"]);
    await goOn(lesson, messages);
  });

  test("a result is printed, of a long one head and tail", async () => {
    const { printed } = await loop(lesson, [bash("seq 2000"), say("All counted.")]);
    assert.match(printed, /^1\n2\n(.|\n)*\n1999\n2000\n(.|\n)*All counted\.\n/m);
    assert.doesNotMatch(printed, /\n1000\n/);
  });

  test("a result that is cut inside an emoji is valid text", async () => {
    for (const lead of ["", "x"]) {
      const command = `printf '${lead}'; yes 😀 | head -n 60000 | tr -d '\\n'; exit 3`;
      const { error, messages, results } = await loop(lesson, [bash(command), say("done")]);
      assert.equal(error, undefined);
      assert.match(results[0]?.text ?? "", /😀/);
      await goOn(lesson, messages);
    }
  });
});

// In s06 a long result goes to disk.
onEach({ s01, s03, s04 }, (lesson, test) => {
  step("runCall");
  test("a result of more than 50,000 characters is sent with its head, its tail and a note", async () => {
    const { results } = await loop(lesson, [bash("echo HEAD; seq 50000; echo TAIL; exit 3"), say("done")]);
    const text = results[0]?.text ?? "";
    assert.ok(text.length > 40_000 && text.length <= 50_000, `${text.length} characters`);
    assert.match(text, /^HEAD\n1\n2\n/);
    assert.match(text, /49999\n50000\nTAIL\n.*\b3\b.*$/);
    assert.match(text.slice(5, -5), /[a-z]{2}/i, "a note");
  });
});

onEach({ s01, s02, s06 }, (lesson, test) => {
  step("runTool");
  test("tells the model that a tool doesn't exist, or that its input is wrong", async () => {
    const calls = [use("python", {}), use("constructor", {}), use("bash", {}), use("bash", { command: ["ls"] })];
    const approve = async () => assert.fail("nobody should be asked");
    const { error, messages, results } = await loop(lesson, [call(...calls), say("sorry")], { approve });
    assert.equal(error, undefined);
    for (const [i, words] of [/(?=.*python)(?=.*\bbash\b)/s, /constructor/, /command/, /command/].entries()) {
      const { text = "", failed } = results[i] ?? {};
      assert.equal(failed, true, `${JSON.stringify(calls[i])} is an error`);
      assert.match(text, words);
    }
    await goOn(lesson, messages);
  });

  test("shows the whole of a command and asks before it runs; after a no the model reads what the user said", async () => {
    const command = `echo a > a # ${"x".repeat(3_000)} middle\ntrue ${"x".repeat(3_000)}`;
    const approve = async (question: string) => {
      assert.ok(!isThere("a"), "nothing has run");
      assert.match(question, /\w/, "a question has words");
      process.stdout.write(`${question} (here the user answers)`);
      throw new Error("the user said no: use b");
    };
    const { printed, results } = await loop(lesson, [bash(command), say("ok")], { approve });
    const [shown = ""] = printed.split("(here the user answers)");
    for (const line of command.split("\n")) assert.ok(shown.includes(line), "all of it is shown before the answer");
    assert.match(`${results[0]?.failed} ${results[0]?.text}`, /^true .*the user said no: use b/);
    assert.ok(!isThere("a"), "it has not run");
  });

  test("ends a command with Ctrl-C", async () => {
    const stop = new AbortController();
    const running = loop(lesson, [bash(WAIT)], { signal: stop.signal });
    await until(() => isThere("begun"));
    stop.abort(new Error("interrupted"));
    assert.match((await running).results[0]?.text ?? "", /^begun\n/);
  });

  test("runs nothing when it is interrupted at the question, or before it began", async () => {
    const stop = new AbortController();
    const approve = async () => {
      if (stop.signal.aborted) return; // nobody should ask again
      stop.abort(new Error("interrupted"));
      stop.signal.throwIfAborted();
    };
    const asked = await loop(lesson, [bash("touch a", "touch b")], { signal: stop.signal, approve });
    assert.deepEqual(asked.results.map(kindOf), ["an error", "an error"], "after Ctrl-C no call runs");
    assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
    await goOn(lesson, asked.messages);
    const { error, sent } = await loop(lesson, [], { signal: stop.signal });
    assert.notEqual(error, undefined, "it throws");
    assert.equal(sent.length, 0, "calls of the model");
  });
});

onEach({ s01, s06 }, (lesson, test) => {
  describe("a turn", () => {
    step("runTurn");
    test("adds its request, and is over when the answer is there", async () => {
      const { messages } = await turn(lesson, [say("fine")], { request: "first" });
      const { error } = await turn(lesson, [bash("echo ran"), say("All done.")], { messages, request: "second" });
      assert.equal(error, undefined);
      assert.deepEqual(textsIn(messages), ["first", "second"]);
      assert.deepEqual(textsIn(messages.slice(-1), "assistant"), ["All done."]);
    });

    test("keeps its request when the API has an error that passes, after the SDK has tried again", async () => {
      const busy: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
      server.fail(busy, busy);
      for (const message of [/Overloaded/, /Overloaded/, /invalid x-api-key/]) expectRejection(message);
      assert.equal((await turn(lesson, [say("made it")])).error, undefined);
      server.fail({ kind: "status", status: 401 });
      const { error, messages } = await turn(lesson, []);
      assert.match(error ?? "", /401/);
      assert.deepEqual(plain(messages), plain([user("go")]));
    });

    test("keeps finished calls when the API stays busy", async () => {
      const busy: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
      server.fail(PASS, busy, busy, busy);
      for (const message of Array(3).fill(/Overloaded/)) expectRejection(message);
      const { error, messages, results } = await turn(lesson, [bash("echo kept")]);
      assert.match(error ?? "", /529/);
      assert.deepEqual([outputs(results), textsIn(messages)[0]], [["kept"], "go"]);
      await goOn(lesson, messages);
    });

    test("keeps finished calls when the stream breaks in the middle", async () => {
      server.fail(PASS, { kind: "drop" });
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("echo never")]);
      assert.notEqual(error, undefined, "it throws");
      assert.deepEqual(outputs(results), ["kept"]);
      await goOn(lesson, messages);
    });

    test("that the user interrupts in a command keeps its calls, each with its result, and tells the model", async () => {
      const stop = new AbortController();
      const running = turn(lesson, [bash("echo first", WAIT, "touch never")], { signal: stop.signal });
      await until(() => isThere("begun"));
      stop.abort(new Error("interrupted"));
      const { error, messages, results, sent } = await running;
      assert.notEqual(error, undefined, "it throws");
      assert.equal(sent.length, 1, "calls of the model");
      assert.deepEqual([results[0]?.text, results[2]?.failed, isThere("never")], ["first", true, false]);
      assert.match(results[1]?.text ?? "", /^begun\n/);
      const [request, ...rest] = textsIn(await goOn(lesson, messages));
      assert.equal(request, "go");
      assert.match(rest.join("\n"), STOPPED);
    });

    test("that the user interrupts in a reply keeps nothing of it, and tells the model", async () => {
      const stop = new AbortController();
      server.fail({ kind: "slow", delay: 20 });
      const before = server.journal.length;
      const running = turn(lesson, [say("word ".repeat(1000))], { signal: stop.signal });
      await until(() => server.journal[before]?.reply !== undefined);
      stop.abort(new Error("interrupted"));
      const { error, messages } = await running;
      assert.notEqual(error, undefined, "it throws");
      const left = await goOn(lesson, messages);
      const [request, ...rest] = textsIn(left);
      assert.equal(request, "go");
      assert.match(rest.join("\n"), STOPPED);
      assert.doesNotMatch(JSON.stringify(left), /word/);
    });
  });
});

// In s06 what the API rejects takes the last step with it.
onEach({ s01 }, (lesson, test) => {
  step("runTurn");
  for (const [what, status, rounds] of [
    ["at once", 400, []],
    ["in a later round", 400, [bash("echo one"), bash("echo two")]],
    ["as too large", 413, [bash("echo large")]],
  ] satisfies [string, 400 | 413, Reply[]][]) {
    test(`a turn that the API rejects ${what} is forgotten, and nothing else is`, async () => {
      expectRejection(status === 400 ? /malformed/ : /exceeds the maximum size/);
      const { messages } = await turn(lesson, [bash("echo earlier"), say("ok")], { request: "first" });
      const before = structuredClone(messages);
      const message = status === 400 ? "this request is malformed" : undefined;
      server.fail(...rounds.map(() => PASS), { kind: "status", status, message });
      const { error } = await turn(lesson, rounds, { messages });
      assert.match(error ?? "", new RegExp(String(status)));
      assert.doesNotMatch(error ?? "", /^Error: /, "what was thrown goes on as it was: report looks at its class");
      assert.deepEqual(messages, before);
      await goOn(lesson, messages);
    });
  }

  test("a turn that the API rejects leaves the one before, also if the user interrupted that in a command", async () => {
    const stop = new AbortController();
    const running = turn(lesson, [bash("echo first", WAIT)], { signal: stop.signal, request: "first" });
    await until(() => isThere("begun"));
    stop.abort(new Error("interrupted"));
    const { messages } = await running;
    const before = structuredClone(messages);
    expectRejection(/malformed/);
    server.fail({ kind: "status", status: 400, message: "this request is malformed" });
    const { error, results } = await turn(lesson, [], { messages });
    assert.match(error ?? "", /400/);
    assert.deepEqual([results.length, messages], [2, before]);
    await goOn(lesson, messages);
  });
});

onEach({ s01, s06 }, (lesson, test) => {
  describe("what comes back from the model", () => {
    step("checkReply");
    const before: ReplyBlock = { type: "thinking", thinking: "before" };
    const after: ReplyBlock = { type: "thinking", thinking: "after" };
    const blank: ReplyBlock = { type: "text", text: "\n\n" };
    const words: ReplyBlock = { type: "text", text: "That is all." };
    const redacted: ReplyBlock = { type: "redacted_thinking" };
    const command = use("bash", { command: "echo ran" });
    for (const [what, content, kept] of [
      ["blank text", [before, blank, command, after, command, words], [before, command, after, command, words]],
      ["thinking at the end", [before, command, command, after], [before, command, command]],
      ["thinking before blank text at the end", [before, command, command, after, blank], [before, command, command]],
      ["redacted thinking at the end", [before, command, command, after, redacted], [before, command, command]],
    ] satisfies [string, ReplyBlock[], ReplyBlock[]][]) {
      test(`sends a reply with ${what} back without that block, and runs its calls`, async () => {
        const { error, messages, results } = await loop(lesson, [call(...content), say("ok")]);
        assert.equal(error, undefined);
        const types = blocksOf(messages[1] ?? user("")).map(({ type }) => type);
        assert.deepEqual([types, outputs(results)], [kept.map(({ type }) => type), ["ran", "ran"]]);
        await goOn(lesson, messages);
      });
    }

    test("keeps text as it came, in any language, but no thinking after it", async () => {
      const text: ReplyBlock = { type: "text", text: "完成了。\n" };
      const { error, messages } = await loop(lesson, [call(before, text, after, command), call(before, text, after)]);
      assert.equal(error, undefined);
      assert.deepEqual(textsIn(messages, "assistant"), [text.text, text.text]);
      assert.deepEqual(
        [1, 3].map((i) => blocksOf(messages[i] ?? user("")).map(({ type }) => type)),
        [
          ["thinking", "text", "thinking", "tool_use"],
          ["thinking", "text"],
        ],
      );
      await goOn(lesson, messages);
    });

    for (const [what, reply] of Object.entries<Reply>({
      "no blocks": call(),
      "only blank text": say(" \n"),
      "only thinking": call({ type: "thinking", thinking: "What shall I say?" }),
    })) {
      test(`drops a reply with ${what}, and the conversation goes on`, async () => {
        const { error, messages, results } = await turn(lesson, [bash("echo hi"), reply]);
        assert.match(error ?? "nothing", WHY);
        assert.deepEqual([outputs(results), messages.at(-1)?.role], [["hi"], "user"]);
        await goOn(lesson, messages);
      });
    }

    // s06 makes room for a reply that fills the window, and tries again.
    for (const kind of lesson === s01 ? (["max_tokens", "context_window"] as const) : (["max_tokens"] as const)) {
      test(`drops a reply that is cut (${kind}), and runs none of its calls`, async () => {
        server.fail(PASS, { kind });
        const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("touch a", "touch b")]);
        assert.match(error ?? "nothing", /^\w+: .*(max_tokens|token|window|limit|cut|long)/i, "it says why");
        assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
        assert.deepEqual(outputs(results), ["kept"]);
        server.fail({ kind });
        assert.match((await turn(lesson, [say("half a sentence")], { messages })).error ?? "nothing", WHY);
        assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /touch a|half/);
      });
    }

    test("takes a refused turn out of the conversation and runs none of its calls", async () => {
      const { messages } = await turn(lesson, [say("fine")], { request: "first" });
      server.fail(PASS, { kind: "refusal" });
      const replies = [bash("echo harmless"), bash("touch harm")];
      const { error } = await turn(lesson, replies, { messages, request: "something bad" });
      assert.match(error ?? "nothing", WHY);
      assert.deepEqual(rolesOf(messages), ["user", "assistant"], "what was there before");
      assert.ok(!isThere("harm"), "nothing has run");
      await turn(lesson, [{ ...call(), stop_reason: "refusal" }], { messages, request: "something worse" });
      assert.deepEqual(rolesOf(messages), ["user", "assistant"], "also if the refusal has no words");
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /something bad|echo harmless|touch harm/);
    });
  });

  describe("bash", () => {
    step("program");
    const run = (command: string) => lesson.runBash(command, never);

    test("runs each command in a new shell in the workspace, and returns both streams in the order they were written", async () => {
      await run("cd /; export LEFT=over");
      const output = await run("pwd; for i in 1 2; do echo out $i; echo err $i >&2; done; echo $LEFT");
      assert.equal(output, `${folder}\nout 1\nerr 1\nout 2\nerr 2`);
    });

    test("runs a command in the workspace also when that was deleted and made again", async (t) => {
      t.after(() => process.chdir(folder));
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
      writeFileSync(join(folder, "new"), "here");
      assert.equal(await run("cat new"), "here");
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

    test("returns all that a script prints which sends its own output through tee", async () => {
      const script = (i: number) => `exec > >(tee log${i}) 2>&1; echo begin; seq 500; ls none; echo end ${i}`;
      const all = await Promise.all(Array.from({ length: 8 }, (_, i) => run(script(i))));
      for (const [i, output] of all.entries()) {
        assert.match(output, new RegExp(`^begin\n1\n2\n(.|\n)*\n500\nls: .*none.*\nend ${i}$`));
      }
    });

    test("keeps characters of several bytes whole in long output", async () => {
      assert.doesNotMatch(await run("yes x中文字 | head -n 9000"), /\ufffd/);
    });

    test("keeps head and tail of a command that prints 10 MB, and little else", async () => {
      const output = await run("echo HEAD; yes | head -c 10000000; echo TAIL");
      assert.ok(output.length <= 1_000_000, `${output.length} characters`);
      assert.match(output, /^HEAD\ny\n[\s\S]*\n.*[^y\n].*\n[\s\S]*y\nTAIL$/);
    });
  });

  describe("the screen", () => {
    test("shows control and text-direction characters harmlessly, and line ends as they are", async () => {
      const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
      const { printed } = await loop(lesson, [bash(`printf '%s' '${evil}'`), say(`one\r\ntwo ${evil}`)]);
      assert.match(printed, /one\ntwo �\]0;owned/);
      assert.doesNotMatch(printed, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    });
  });
});

// --- what takes a moment: side by side, each in a folder of its own --------------------------------------------------

step("program");
describe("side by side", { concurrency: 6, timeout: 120_000 }, () => {
  onEach({ s01, s06 }, (lesson, test) => {
    const run = (cwd: string, command: string, signal = never, limit?: number) =>
      lesson.runBash(`cd '${cwd}'\n${command}`, signal, limit);
    const newFolder = (t: TestContext) => {
      const made = mkdtempSync(`${folder}-`);
      t.after(() => rmSync(made, { recursive: true }));
      return made;
    };

    test("leaves a job in the background alive; the result comes at once, and names a job that holds the output", async (t) => {
      const cwd = newFolder(t);
      const stop = new AbortController();
      const job = (name: string) => `(${UNTIL_GO}; head -c 300000 /dev/zero && touch ${name})`;
      const output = await run(cwd, `${job("quiet")} > /dev/null 2>&1 & ${job("loud")} & echo begun`, stop.signal);
      assert.match(output, /^begun\n.+/);
      const quiet = `(touch up; ${job("third")}) > /dev/null 2>&1 & until [ -e up ]; do sleep 0.02; done; echo begun`;
      assert.equal(await run(cwd, quiet), "begun", "a job that holds no output is not named");
      stop.abort(); // too late for a command that has ended
      goOnIn(cwd);
      await until(() => ["quiet", "loud", "third"].every((name) => isThere(name, cwd)));
    });

    test("ends the whole process group of a command on Ctrl-C: SIGTERM, a second later SIGKILL, and nobody waits for it", async (t) => {
      const cwd = newFolder(t);
      const stop = new AbortController();
      const running = run(cwd, `echo begun; trap 'touch clean' TERM; ${ENDLESS}`, stop.signal);
      await until(() => isUp(cwd));
      stop.abort();
      assert.match(await running, /^begun\n.+/);
      assert.ok(isRunning(pidIn("child", cwd)), "it has a second from now");
      await bothEnd(cwd);
      assert.ok(isThere("clean", cwd), "it could do something on SIGTERM");
    });

    test("ends a command that takes too long, also if garbage is collected meanwhile, and says how long it had", async (t) => {
      const cwd = newFolder(t);
      setFlagsFromString("--expose-gc");
      const collecting = setInterval(runInNewContext("gc"), 100);
      t.after(() => clearInterval(collecting));
      const output = await run(cwd, "echo begun; echo $$ > parent; sleep 5; touch late", never, 1_200);
      assert.match(output, /^begun\n.*(1\.2|1,?200)/);
      await until(() => !isRunning(pidIn("parent", cwd)));
      assert.ok(!isThere("late", cwd), "it has not gone on");
    });
  });

  // --- the program ---------------------------------------------------------------------------------------------------

  // s02 to s04 have the same main as s01; that of s05 only names the skills first.
  const PROGRAMS = ["s01_agent_loop", "s06_context_compact"];
  for (const lesson of PROGRAMS) {
    const short = lesson.slice(0, 3);

    test(`${short}: carries out a request of several words, and leaves a job in the background alive`, async (t) => {
      const job = `(${UNTIL_GO}; touch after) > /dev/null 2>&1 &`;
      const run = await start(t, lesson, ["-y", "please", "make it"], {
        replies: [bash(`${job} echo 6`), say("All done.")],
      });
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /echo 6.*\n(.|\n)*^6\n(.|\n)*All done\.\n/m);
      assert.deepEqual(textsIn(run.journal[0]?.request.messages ?? []), ["please make it"]);
      goOnIn(run.cwd);
      await until(() => isThere("after", run.cwd));
    });

    test(`${short}: takes piped requests one per line, asks nobody, and then runs nothing`, async (t) => {
      const replies = [bash("touch never"), say("I could not."), say("two")];
      const run = await start(t, lesson, [], { replies, input: "first\n\nsecond\n q \nthird\n" });
      assert.equal(await run.ended, 0);
      assert.ok(!isThere("never", run.cwd), "nothing has run");
      const { messages = [] } = run.journal[2]?.request ?? {};
      assert.match(resultsIn(messages)[0]?.text ?? "", /-y/);
      assert.deepEqual(textsIn(messages), ["first", "second"]);
      assert.equal(run.journal.length, 3, "requests: nothing after the q");
    });

    test(`${short}: says in one line why a request failed, and exits with 1 though a later one is done`, async (t) => {
      const run = await start(t, lesson, ["-y"], {
        input: "1\n2\n3\n4\n5\n6\n",
        replies: [bash("echo never"), bash("echo never"), call(), bash("echo done"), say("All done.")],
        failures: [
          { kind: "status", status: 401 },
          { kind: "error_event" },
          { kind: "broken_json" },
          PASS,
          PASS,
          { kind: "status", status: 400, message: "this is malformed" },
        ],
      });
      for (const message of [/invalid x-api-key/, /this is malformed/]) expectRejection(message);
      assert.equal(await run.ended, 1);
      const lines = run.screen().match(/^\[(?!context).*\]$/gm) ?? [];
      const whys = [/401/, /Overloaded/, /JSON/, /./, /this is malformed.*(remain|stay|ke(ep|pt))/];
      assert.equal(lines.length, whys.length, run.screen());
      for (const [i, why] of whys.entries()) assert.match(lines[i] ?? "", why);
      assert.match(run.screen(), /All done\.\n(\[.*\n)?$/);
    });

    test(`${short}: all that it prints arrives, also at a slow reader, and so do error messages and the exit code`, async (t) => {
      const message = `${"%".repeat(550_000)} is too much`;
      const run = await start(t, lesson, [], {
        input: "1\n2\n",
        replies: [say(`${"%".repeat(50_000)} the end`)],
        failures: [{ kind: "status", status: 400, message }],
        shell: (agent) => `${agent} | (sleep 1; cat)`,
      });
      expectRejection(/is too much/);
      assert.equal(await run.ended, 1);
      assert.equal(run.screen().split("%").length - 1, 600_000, "characters that arrived");
      assert.match(run.screen(), /is too much(.|\n)* the end\n.*\n?$/);
    });

    test(`${short}: ends quietly when nobody reads what it prints, and the command that runs then ends with it`, async (t) => {
      const replies = [bash("until [ -e closed ]; do sleep 0.02; done", "echo $$ > next; sleep 5; touch never")];
      const shell = (agent: string) => `${agent} | (head -1; exec <&-; touch closed)`;
      const run = await start(t, lesson, ["-y", "go"], { replies, shell });
      assert.equal(await run.ended, 1);
      assert.equal(run.screen(), "Looking at what is needed next.\n");
      assert.ok(isThere("closed", run.cwd), "the first command has run");
      await until(() => !hasPid("next", run.cwd) || !isRunning(pidIn("next", run.cwd)));
      assert.ok(!isThere("never", run.cwd), "the second has not gone on");
    });

    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      test(`${short}: takes the running command along on ${signal}`, async (t) => {
        const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)] });
        await until(() => isUp(run.cwd));
        run.child.kill(signal);
        assert.equal(await run.ended, 1);
        await bothEnd(run.cwd);
      });
    }
  }

  const [lesson = ""] = PROGRAMS;
  const unset = { ANTHROPIC_API_KEY: undefined };

  test("takes its settings from the .env beside the lessons; those of the environment win", async (t) => {
    const dotEnv = "ANTHROPIC_API_KEY=from-file\nMODEL_ID=model-of-file\nTHINKING=off\n";
    const env = { ...unset, MODEL_ID: "model-of-environment" };
    const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], dotEnv, env });
    assert.equal(await run.ended, 0, run.screen());
    const { request } = run.journal[0] ?? {};
    assert.deepEqual([request?.model, request?.thinking], ["model-of-environment", undefined]);
  });

  test("says in one line what to set when there is no key, also if the workspace has a .env with one", async (t) => {
    const files = { ".env": "ANTHROPIC_API_KEY=planted\n" };
    const run = await start(t, lesson, ["go"], { files, env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\n?\[.*ANTHROPIC_API_KEY.*npm run demo.*\]\n$/);
    assert.equal(run.journal.length, 0);
  });

  test("takes the credentials of a profile of the SDK", async (t) => {
    const config = mkdtempSync(`${folder}-config-`);
    t.after(() => rmSync(config, { recursive: true }));
    for (const name of ["configs", "credentials"]) mkdirSync(join(config, name));
    writeFileSync(join(config, "configs/mine.json"), '{ "authentication": { "type": "user_oauth" } }');
    writeFileSync(join(config, "credentials/mine.json"), '{ "access_token": "token" }', { mode: 0o600 });
    const env = { ...unset, ANTHROPIC_PROFILE: "mine", ANTHROPIC_CONFIG_DIR: config };
    const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], env });
    assert.equal(await run.ended, 0, run.screen());
  });

  test("names the server when there is no connection", async (t) => {
    const run = await start(t, lesson, ["go"], { env: { ANTHROPIC_BASE_URL: "http://127.0.0.1:9" } });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\[.*http:\/\/127\.0\.0\.1:9.*\]$/m);
  });
  // --- in a terminal -------------------------------------------------------------------------------------------------

  const inTerminal = { skip: harness.noTerminal };
  const [CTRL_C, CTRL_D] = ["\x03", "\x04"];
  const QUESTION = /\[y.*\] /;
  const INTERRUPTED = /^\[.*(interrupt|cancel|stop|abort).*\]\r$/im;
  /** Longer than the lines of a paste take to arrive. */
  const aMoment = () => sleep(200);

  for (const lesson of PROGRAMS) {
    const short = lesson.slice(0, 3);
    const prompt = `${short} >> `;

    test(
      `${short}: asks before each command, harmlessly; yes and always are understood, all else is a no; thinking is dim`,
      inTerminal,
      async (t) => {
        const answers = ["", "yes, but with tee", "n", " Y ", "Yes", short === "s01" ? "A" : " always "];
        const commands = [..."abcdefg"].map((name) => `touch ${name} # \x1b[2J`);
        const last = call({ type: "thinking", thinking: "I think." }, { type: "text", text: "Finished." });
        const run = await start(t, lesson, [], { replies: [bash(...commands), last], terminal: true });
        await run.waitFor(prompt);
        run.type("make files\r");
        for (const [i, answer] of answers.entries()) {
          await run.waitFor(`touch ${"abcdefg"[i]} # �[2J`);
          await run.waitFor(QUESTION);
          run.type(`${answer}\r`);
        }
        await run.waitFor("\x1b[2mI think.\x1b[22m\r\nFinished.\r\n");
        await run.waitFor(prompt);
        run.type("q\r");
        assert.equal(await run.ended, 0);
        assert.deepEqual(
          [..."abcdefg"].map((name) => isThere(name, run.cwd)),
          [false, false, false, true, true, true, true],
        );
        const results = resultsIn(run.journal[1]?.request.messages ?? []);
        assert.match(results[1]?.text ?? "", /yes, but with tee/);
      },
    );

    test(
      `${short}: comes back to the prompt on Ctrl-C, drops what was typed, and remembers the conversation`,
      inTerminal,
      async (t) => {
        const word = say("word ".repeat(1000));
        const replies = [say("I see."), bash("touch never"), bash(ENDLESS), word, say("still here")];
        const failures: Failure[] = [PASS, PASS, PASS, { kind: "slow", delay: 20 }];
        const run = await start(t, lesson, [], { replies, failures, terminal: true });
        const interrupt = async (keys: string) => {
          run.type(keys);
          await run.waitFor(INTERRUPTED);
          await run.waitFor(prompt);
          run.type(CTRL_C); // the second of two in a row arrives at the prompt
        };
        await run.waitFor(prompt);
        run.type("first\r");
        await run.waitFor("I see.");
        await run.waitFor(prompt);
        run.type("second\r");
        await run.waitFor(QUESTION);
        await interrupt(CTRL_C);
        run.type("third\r");
        await run.waitFor(QUESTION);
        run.type("y\r");
        await until(() => isUp(run.cwd));
        run.type("a line\rand a half");
        await run.waitFor("and a half");
        await interrupt(CTRL_C);
        await bothEnd(run.cwd);
        run.type("fourth\r");
        await run.waitFor("word");
        await interrupt(CTRL_C + CTRL_C);
        run.type(`half a request${CTRL_C}fifth\r`);
        await run.waitFor("still here");
        await run.waitFor(prompt);
        run.type(CTRL_D);
        assert.equal(await run.ended, 1, "a request has failed");
        const asked = textsIn(run.journal[4]?.request.messages ?? []).filter((text) => !STOPPED.test(text));
        assert.deepEqual(asked, ["first", "second", "third", "fourth", "fifth"]);
        assert.ok(!isThere("never", run.cwd), "nothing has run unasked");
      },
    );

    test(
      `${short}: lines that arrive together are one request: 100 KB, when Enter ends the last, and what was typed meanwhile`,
      inTerminal,
      async (t) => {
        const job = "(while [ -e begun ]; do sleep 0.05; done) &"; // it prints to the agent, and does not keep it
        const replies = [bash(`${WAIT}; ${job}`), say("First done."), say("Second done.")];
        const run = await start(t, lesson, ["-y"], { replies, terminal: true });
        const lines = Array.from({ length: 100 }, (_, i) => `${i} ${"x".repeat(1_000)}`);
        await run.waitFor(prompt);
        run.type(lines.join("\r"));
        await run.waitFor("99 x");
        await aMoment();
        assert.equal(run.journal.length, 0, "requests: its last line waits for Enter");
        run.type("\r");
        await until(() => isThere("begun", run.cwd));
        run.type("typed\rahea");
        await run.waitFor("ahea");
        goOnIn(run.cwd);
        await run.waitFor("First done.");
        await run.waitFor(prompt);
        run.type("d");
        await run.waitFor("d");
        run.type("\r");
        await run.waitFor("Second done.");
        const asked = textsIn(run.journal.at(-1)?.request.messages ?? []);
        assert.deepEqual(asked, [lines.join("\n"), "typed\nahead"]);
        await run.waitFor(prompt);
        run.type(CTRL_D);
        assert.equal(await run.ended, 0);
      },
    );

    test(
      `${short}: a request of the command line ends with Ctrl-C, and so does a command that ignores it`,
      inTerminal,
      async (t) => {
        const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
        await until(() => isUp(run.cwd));
        run.type(CTRL_C);
        assert.equal(await run.ended, 1);
        await bothEnd(run.cwd);
      },
    );

    test(`${short}: takes the running command along when its terminal is closed`, inTerminal, async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
      await until(() => isUp(run.cwd));
      run.child.kill("SIGKILL"); // script is the terminal
      await bothEnd(run.cwd);
    });
  }

  const isRoot = process.getuid?.() === 0;
  test("s01: goes on after Ctrl-C in a command of another user, which may not be ended", {
    skip: harness.noTerminal || (!isRoot && "needs root"),
  }, async (t) => {
    const replies = [bash("echo $$ > pid; exec ./as-root --reuid=0 --clear-groups sleep 60"), say("still here")];
    const shell = (agent: string) => `cp "$(which setpriv)" as-root; chmod 4755 as-root; chmod 777 .
      chmod -R a+rX "$(dirname ${agent.split(" ")[1]})/.."; exec setpriv --reuid=65534 --clear-groups ${agent}`;
    const run = await start(t, "s01_agent_loop", ["-y"], { replies, terminal: true, shell });
    await run.waitFor("s01 >> ");
    run.type("first\r");
    await until(() => hasPid("pid", run.cwd));
    const pid = pidIn("pid", run.cwd);
    t.after(() => process.kill(pid));
    await until(() => readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n");
    run.type(CTRL_C);
    await run.waitFor(INTERRUPTED);
    run.type("second\r");
    await run.waitFor("still here");
    assert.ok(isRunning(pid), "it runs on");
  });
});
