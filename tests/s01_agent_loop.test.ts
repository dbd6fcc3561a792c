// The loop and its one tool: the history stays valid however a turn ends, nothing runs unasked, bash gives back all that
// a command prints, and the terminal does what its user expects.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Failure, Reply } from "../tools/offline/server.ts";
import * as harness from "./harness.ts";

const { bash, blocksOf, call, expectRejection, folder, goOn, isRunning, onEach } = harness;
const { resultsIn, say, server, start, turn, until, use, user } = harness;
const s01 = await import("../agents/s01_agent_loop.ts");
const s02 = await import("../agents/s02_tool_use.ts");
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const PASS: Failure = { kind: "slow", delay: 0 }; // no failure: the next one is for a later request
const never = new AbortController().signal;
const isThere = (name: string, cwd = folder) => existsSync(join(cwd, name));
const textsOf = (results: { text: string }[]) => results.map(({ text }) => text);
const pidIn = (name: string, cwd = folder) => Number(readFileSync(join(cwd, name), "utf8"));
const hasPid = (name: string, cwd = folder) => isThere(name, cwd) && pidIn(name, cwd) > 0;
/** Runs until it is killed, with a child that ignores SIGTERM. Their ids are in two files. */
const ENDLESS = "echo begun; (trap '' TERM; echo $BASHPID > child; while :; do sleep 1; done) & echo $$ > parent; wait";
const isUp = (cwd = folder) => hasPid("child", cwd) && hasPid("parent", cwd);
const bothEnd = (cwd = folder) => until(() => !isRunning(pidIn("child", cwd)) && !isRunning(pidIn("parent", cwd)));

onEach({ s01, s06 }, (lesson, test) => {
  const run = (command: string, signal = never) => lesson.runBash(command, signal);

  describe("the loop", () => {
    beforeEach(harness.emptyWorkspace);

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
      const messages = [user("go")];
      const { error, sent } = await turn(lesson, [bash("echo one"), bash("echo two"), say("done")], { messages });
      assert.equal(error, undefined);
      assert.equal(sent.length, 3);
      assert.equal(messages.map(({ role }) => role[0]).join(""), "uauaua");
      assert.deepEqual(textsOf(resultsIn(sent[2]?.messages ?? [])), ["one", "two"]);
    });

    test("runs the calls of one reply in their order; the results come in that order in one message", async () => {
      const calls = ["echo a >> log", "cat log", "echo b >> log; cat log"];
      const content = calls.map((command, i) => use("bash", { command }, `call_${i}`));
      const { messages, results } = await turn(lesson, [call(...content), say("done")]);
      assert.deepEqual(
        results.map(({ id, text }) => [id, text]),
        [
          ["call_0", "(no output)"],
          ["call_1", "a"],
          ["call_2", "a\nb"],
        ],
      );
      assert.equal(messages.length, 4);
    });

    test("looks for calls in the blocks, whatever the stop reason is", async () => {
      const ran = await turn(lesson, [{ ...bash("echo ran"), stop_reason: "end_turn" }, say("done")]);
      assert.deepEqual(textsOf(ran.results), ["ran"]);
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

    test("drops blank text, and the thinking that comes after it", async () => {
      const [before, after] = ["before", "after"].map((thinking) => ({ type: "thinking", thinking }) as const);
      assert.ok(before && after);
      const blank = { type: "text", text: "\n\n" } as const;
      const command = use("bash", { command: "true" });
      const { messages } = await turn(lesson, [call(before, blank, command, after, command), say("ok")]);
      const kept = blocksOf(messages[1] ?? user("")).map((block) =>
        "thinking" in block ? block.thinking : block.type,
      );
      assert.deepEqual(kept, ["before", "tool_use", "tool_use"]);
      await goOn(lesson, messages);
    });

    for (const [what, reply] of Object.entries<Reply>({
      "no blocks": call(),
      "only blank text": say(" \n"),
      "only thinking": call({ type: "thinking", thinking: "What shall I say?" }),
    })) {
      test(`says that a reply with ${what} is empty, and the conversation goes on`, async () => {
        const { error, messages } = await turn(lesson, [bash("echo hi"), reply]);
        assert.match(error ?? "", /the reply is empty/);
        assert.equal(messages.length, 3);
        await goOn(lesson, messages);
      });
    }

    test("does not run a call that max_tokens cut, and its result says so", async () => {
      server.fail({ kind: "max_tokens" });
      const { error, messages, results } = await turn(lesson, [bash("echo first", "touch never"), say("done")]);
      assert.equal(error, undefined);
      assert.equal(results[0]?.text, "first");
      assert.match(results[1]?.text ?? "", /not run: the reply was cut off/);
      assert.equal(results[1]?.failed, true);
      await goOn(lesson, messages);
    });

    test("takes only the last block of a cut reply for incomplete, even if it looks complete", async () => {
      const { results } = await turn(lesson, [{ ...bash("touch a", "touch b"), stop_reason: "max_tokens" }, say("ok")]);
      assert.deepEqual([isThere("a"), isThere("b")], [true, false]);
      assert.equal(results.length, 2);
      const content = [use("bash", { command: "echo ran" }), { type: "text", text: "And n" } as const];
      const whole = await turn(lesson, [{ content, stop_reason: "max_tokens" }, say("ok")]);
      assert.deepEqual(textsOf(whole.results), ["ran"]);
    });

    test("says that a text was cut off, and keeps what arrived", async () => {
      server.fail({ kind: "max_tokens" });
      const { error, messages } = await turn(lesson, [say("0123456789")]);
      assert.match(error ?? "", /cut off/);
      assert.match(JSON.stringify(await goOn(lesson, messages)), /01234/);
    });

    test("takes a refused turn out of the conversation and runs none of its calls", async () => {
      const { messages } = await turn(lesson, [say("fine")], { messages: [user("first")] });
      const before = messages.length;
      server.fail(PASS, { kind: "refusal" });
      messages.push(user("something bad"));
      const { error } = await turn(lesson, [bash("echo harmless"), bash("touch harm")], { messages });
      assert.match(error ?? "", /refused/);
      assert.equal(messages.length, before);
      assert.ok(!isThere("harm"));
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /bad|harm/);
    });

    test("tells the model of a tool that there is not, and of input that does not fit", async () => {
      const calls = [use("python", {}), use("constructor", {}), use("bash", {}), use("bash", { command: ["ls"] })];
      const { error, messages, results } = await turn(lesson, [call(...calls), say("sorry")]);
      assert.equal(error, undefined);
      assert.ok(results.every(({ failed }) => failed));
      for (const [i, words] of [
        /unknown tool python.*bash/,
        /unknown tool constructor/,
        /command/,
        /command/,
      ].entries()) {
        assert.match(results[i]?.text ?? "", words);
      }
      await goOn(lesson, messages);
    });

    test("tells the model what went wrong when a command cannot be started, and goes on with the next call", async () => {
      const { results, messages } = await turn(lesson, [bash("echo a\0b", "echo after"), say("sorry")]);
      assert.match(results[0]?.text ?? "", /null bytes/);
      assert.deepEqual([results[0]?.failed, results[1]?.text], [true, "after"]);
      await goOn(lesson, messages);
    });

    test("takes out what the API rejects, from the first request or a later one, and goes on", async () => {
      for (const rounds of [[], [bash("echo kept")]]) {
        expectRejection(/input: Input should be a valid dictionary/);
        const { error, messages } = await turn(lesson, [...rounds, call(use("bash", "no object"))]);
        assert.match(error ?? "", /400/);
        const history = JSON.stringify(await goOn(lesson, messages));
        assert.ok(!history.includes("no object"));
      }
      for (const status of [400, 413] as const) {
        for (const failure of lesson === s06 && status === 413 ? [1, 2] : [1]) {
          expectRejection(/malformed/);
          server.fail({ kind: "status", status, message: `this request is malformed ${failure}` });
        }
        const { messages } = await turn(lesson, [], { messages: [user("first"), user("bad")] });
        assert.deepEqual(messages, [user("first")]);
      }
    });

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

    test("ends when it is interrupted in a command; each call has its one result, and the conversation goes on", async () => {
      const stop = new AbortController();
      const running = turn(lesson, [bash("echo first", ENDLESS, "touch never")], { signal: stop.signal });
      await until(isUp);
      stop.abort(new Error("interrupted"));
      const { error, messages, results, sent } = await running;
      assert.deepEqual([error, sent.length], ["Error: interrupted", 1]);
      assert.deepEqual(textsOf(results), ["first", "begun\n(interrupted by user)", "(interrupted by user)"]);
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
      assert.deepEqual([error, messages], ["Error: interrupted", [user("go")]]);
      await goOn(lesson, messages);
    });

    test("runs nothing when it is interrupted at the question, or before it began", async () => {
      const stop = new AbortController();
      const approve = async () => {
        stop.abort(new Error("interrupted"));
        stop.signal.throwIfAborted();
      };
      const asked = await turn(lesson, [bash("touch a", "touch b")], { signal: stop.signal, approve });
      assert.deepEqual(textsOf(asked.results), ["(interrupted by user)", "(interrupted by user)"]);
      assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
      await goOn(lesson, asked.messages);
      const { error, sent } = await turn(lesson, [], { signal: stop.signal });
      assert.deepEqual([error, sent.length], ["Error: interrupted", 0]);
    });

    test("asks before it runs a command, and tells the model what the user said", async () => {
      const approve = async () => {
        assert.ok(!isThere("a"));
        throw new Error("the user said no: use b");
      };
      const { results } = await turn(lesson, [bash("touch a"), say("ok")], { approve });
      assert.deepEqual([results[0]?.text, results[0]?.failed], ["the user said no: use b", true]);
      assert.ok(!isThere("a"));
    });

    test("sends a result of more than 50,000 characters with its head, its tail and a note", async () => {
      const { results } = await turn(lesson, [bash("echo HEAD; seq 50000; echo TAIL"), say("done")]);
      const text = results[0]?.text ?? "";
      assert.ok(text.length <= 50_000, `${text.length} characters`);
      assert.match(text, /HEAD\n1\n2\n/);
      assert.match(text, /49999\n50000\nTAIL$/);
      assert.match(text, /cut here|too large/);
    });

    test("sends a result that was cut inside an emoji as valid text", async () => {
      for (const lead of ["", "x"]) {
        const command = `printf '${lead}'; yes 😀 | head -n 60000 | tr -d '\\n'`;
        const { messages } = await turn(lesson, [bash(command), say("done")]);
        await goOn(lesson, messages);
      }
    });

    test("prints text as it arrives, a call once before it runs, and the first lines of its result", async () => {
      const content = [{ type: "text", text: "I count." } as const, use("bash", { command: "seq 2000" })];
      const { printed } = await turn(lesson, [call(...content), say("All counted.")]);
      assert.match(printed, /I count\.\n\$ seq 2000\n1\n2\n(.|\n)* …\n(.|\n)*All counted\.\n$/);
      assert.doesNotMatch(printed, /\n1000\n/);
    });

    test("prints control and text-direction characters harmlessly, but line ends as they are", async () => {
      const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
      const { printed } = await turn(lesson, [bash(`printf '%s' '${evil}'`), say(`one\r\ntwo ${evil}`)]);
      assert.match(printed, /one\ntwo �\]0;owned/);
      assert.doesNotMatch(printed, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    });
  });

  describe("bash", () => {
    beforeEach(harness.emptyWorkspace);

    test("runs in the workspace and returns stdout and stderr in the order they were written", async () => {
      const output = await run("pwd; for i in 1 2; do echo out $i; echo err $i >&2; done");
      assert.equal(output, `${folder}\nout 1\nerr 1\nout 2\nerr 2`);
    });

    test("says how the command ended if not with 0, and when there was no output", async () => {
      assert.equal(await run("echo some; exit 3"), "some\n(exit code 3)");
      assert.equal(await run("true"), "(no output)");
      assert.match(await run("kill -9 $$"), /^\(no output\)\n.*SIGKILL/);
    });

    test("gives a command no input and does not pass on the credentials", async () => {
      process.env.ANTHROPIC_AUTH_TOKEN = "secret";
      const output = await run("cat; env");
      delete process.env.ANTHROPIC_AUTH_TOKEN;
      assert.match(output, /ANTHROPIC_BASE_URL/);
      assert.doesNotMatch(output, /ANTHROPIC_API_KEY|ANTHROPIC_AUTH_TOKEN/);
    });

    test("returns all that a script prints which sends its own output through tee", async () => {
      const script = (i: number) => `exec > >(tee log${i}) 2>&1; echo begin; seq 500; ls none; echo end ${i}`;
      const outputs = await Promise.all(Array.from({ length: 20 }, (_, i) => run(script(i))));
      for (const [i, output] of outputs.entries()) {
        assert.match(output, new RegExp(`^begin\n1\n2\n(.|\n)*\n500\nls: .*none.*\nend ${i}$`));
      }
      assert.equal(await run("exec > >(sleep 0.05; cat); echo late"), "late");
    });

    test("keeps characters of several bytes whole in long output", async () => {
      assert.doesNotMatch(await run("yes 中文字 | head -n 100000"), /\ufffd/);
    });

    test("keeps little of the output of a command that prints 50 MB", async () => {
      const output = await run("echo HEAD; yes | head -c 50000000; echo TAIL");
      assert.ok(output.length <= 1_000_000, `${output.length} characters`);
      assert.match(output, /^HEAD\ny\n[\s\S]*\n\[.*cut.*\]\n[\s\S]*y\nTAIL$/);
    });

    test("leaves a process in the background alive and returns at once", async (t) => {
      const stop = new AbortController();
      const job = "(until [ -e go ]; do sleep 0.02; done; head -c 300000 /dev/zero && touch after; sleep 30)";
      const output = await run(`${job} & echo $! $$`, stop.signal);
      const [pid = 0, group = 0] = output.split(" ").map(Number);
      t.after(() => process.kill(-group));
      stop.abort(); // too late for a command that has ended
      writeFileSync("go", "");
      await until(() => isThere("after"));
      assert.ok(isRunning(pid));
    });

    test("ends the whole process group of an interrupted command, even a child that ignores SIGTERM", async () => {
      const stop = new AbortController();
      const running = run(ENDLESS, stop.signal);
      await until(isUp);
      stop.abort();
      assert.equal(await running, "begun\n(interrupted by user)");
      await bothEnd();
    });
  });
});

onEach({ s01, s02, s03, s04, s05 }, (lesson, test) => {
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
});

const sideBySide = { concurrency: 4, timeout: 120_000 };

describe("the program", sideBySide, () => {
  const unset = { ANTHROPIC_API_KEY: undefined };
  const lesson = "s01_agent_loop";

  test("carries out a request, with the settings of .env; those of the environment win", async (t) => {
    const files = { ".env": "ANTHROPIC_API_KEY=from-file\nMODEL_ID=model-of-file\nTHINKING=off\n" };
    const replies = [bash("echo 6 > made"), say("All done.")];
    const env = { ...unset, MODEL_ID: "model-of-environment" };
    const run = await start(t, lesson, ["-y", "please", "make it"], { replies, files, env });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), /\$ echo 6 > made\n(.|\n)*All done\.\n$/);
    assert.ok(isThere("made", run.cwd));
    const request = run.journal[0]?.request;
    assert.deepEqual(request?.messages, [user("please make it")]);
    assert.deepEqual([request?.model, request?.thinking], ["model-of-environment", undefined]);
  });

  test("exits with 1 when a request is not done, and says why", async (t) => {
    const run = await start(t, lesson, ["go"], { replies: [call({ type: "thinking", thinking: "hm" })] });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\[the reply is empty\]$/m);
  });

  test("says in one line what to set when there is no credential, and exits with 1", async (t) => {
    const run = await start(t, lesson, ["go"], { env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\n?\[.*ANTHROPIC_API_KEY.*npm run demo.*\]\n$/);
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

  test("explains its command line, which needs no credential", async (t) => {
    const run = await start(t, lesson, ["--help"], { env: unset });
    assert.equal(await run.ended, 0);
    for (const part of ["agents/s01_agent_loop", "-y", "Ctrl-C", "Ctrl-D"]) assert.ok(run.screen().includes(part));
  });

  test("takes piped requests one per line, asks nobody, and then runs nothing", async (t) => {
    const replies = [bash("touch never"), say("I could not."), say("two")];
    const run = await start(t, lesson, [], { replies, input: "first\n\nsecond\nq\nthird\n" });
    assert.equal(await run.ended, 0);
    assert.ok(!isThere("never", run.cwd));
    const { messages = [] } = run.journal[2]?.request ?? {};
    assert.match(resultsIn(messages)[0]?.text ?? "", /nobody can be asked.*-y/);
    assert.deepEqual(
      messages.filter(({ content }) => typeof content === "string"),
      [user("first"), user("second")],
    );
    assert.equal(run.journal.length, 3);
  });

  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    test(`takes the running command along on ${signal}`, async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)] });
      await until(() => isUp(run.cwd));
      run.child.kill(signal);
      assert.equal(await run.ended, 1);
      await bothEnd(run.cwd);
    });
  }
});

describe("the terminal", { ...sideBySide, skip: harness.noTerminal }, () => {
  const [CTRL_C, CTRL_D, LEFT] = ["\x03", "\x04", "\x1b[D"];

  for (const lesson of ["s01_agent_loop", "s06_context_compact"]) {
    const prompt = `${lesson.slice(0, 3)} >> `;

    test(`${prompt.slice(0, 3)}: asks before each command: y, a for all, anything else is a no; /exit leaves`, async (t) => {
      const replies = [bash("touch a", "touch b", "touch c", "touch d", "touch e"), say("Finished.")];
      const run = await start(t, lesson, [], { replies, terminal: true });
      await run.waitFor(prompt);
      run.type("make files\r");
      for (const [command, answer] of ["", "use tee", "y", "a"].entries()) {
        await run.waitFor(`$ touch ${"abcd"[command]}\r\nRun this command?`);
        run.type(`${answer}\r`);
      }
      await run.waitFor("Finished.");
      await run.waitFor(prompt);
      run.type("/exit\r");
      assert.equal(await run.ended, 0);
      assert.deepEqual(
        [..."abcde"].map((name) => isThere(name, run.cwd)),
        [false, false, true, true, true],
      );
      const [enter, words] = textsOf(resultsIn(run.journal[1]?.request.messages ?? []));
      assert.match(`${enter}; ${words}`, /the user said no: \(nothing\); .*the user said no: use tee/);
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
      await run.ended;
      const { messages = [] } = run.journal[4]?.request ?? {};
      const requests = messages.filter(({ content }) => typeof content === "string");
      assert.deepEqual(requests, ["first", "second", "third", "fourth", "fifth"].map(user));
      assert.ok(!isThere("never", run.cwd));
    });

    test(`${prompt.slice(0, 3)}: takes a paste of several lines as one request, once its last line is ended`, async (t) => {
      const run = await start(t, lesson, [], { replies: [say("Got one."), say("Got two.")], terminal: true });
      await run.waitFor(prompt);
      run.type("a function:\rq\rand its end\r");
      await run.waitFor("Got one.");
      await run.waitFor(prompt);
      run.type("line one\rline two");
      await run.waitFor("line two");
      await new Promise((resolve) => setTimeout(resolve, 50)); // what it should not do takes time
      run.type(" and more\r");
      await run.waitFor("Got two.");
      await run.waitFor(prompt);
      run.type("q\r");
      assert.equal(await run.ended, 0);
      const { messages = [] } = run.journal[1]?.request ?? {};
      assert.deepEqual(
        [messages[0], messages.at(-1)],
        ["a function:\nq\nand its end", "line one\nline two and more"].map(user),
      );
      assert.equal(run.journal.length, 2);
    });
  }
});

test("s01: ends a command that takes too long, also after a garbage collection", async () => {
  const [copy, modules] = [
    mkdtempSync(join(tmpdir(), "copy-")),
    fileURLToPath(new URL("../node_modules", import.meta.url)),
  ];
  after(() => rmSync(copy, { recursive: true }));
  symlinkSync(modules, join(copy, "node_modules"));
  const source = readFileSync(new URL("../agents/s01_agent_loop.ts", import.meta.url), "utf8");
  assert.ok(source.includes("AbortSignal.timeout(120_000)"));
  writeFileSync(join(copy, "quick.mts"), source.replace("AbortSignal.timeout(120_000)", "AbortSignal.timeout(400)"));
  const { runBash }: typeof s01 = await import(pathToFileURL(join(copy, "quick.mts")).href);
  const output = runBash("echo begun; sleep 10", never);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setImmediate(resolve)); // what this turn of the event loop has made is not collected
    collect();
  }
  assert.equal(await output, "begun\n(timed out after 120 s)");
});
