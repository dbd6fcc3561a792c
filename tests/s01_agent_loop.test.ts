// The loop and its one tool. The history stays valid however a turn ends, nothing runs unasked, bash returns whatever a
// command prints, and the terminal behaves as its user expects.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Failure, type Reply, type ReplyBlock, scripted, startServer } from "../tools/api/server.ts";
import * as harness from "./harness.ts";

const { bash, blocksOf, call, expectRejection, folder, goOn, interruptedTurn, isRunning, loop, onEach, PASS } = harness;
const { resultsIn, say, server, start, textsIn, turn, until, use, user, WAIT } = harness;
const s01 = await import("../agents/s01_agent_loop.ts");
const s02 = await import("../agents/s02_tool_use.ts");
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const never = new AbortController().signal;
const isThere = (name: string, cwd = folder) => existsSync(join(cwd, name));
const rolesOf = (messages: harness.Messages) => messages.map(({ role }) => role);
const typesIn = (message = user("")) => blocksOf(message).map(({ type }) => type);
const outcomes = (results: { failed: boolean }[]) => results.map(({ failed }) => (failed ? "an error" : "no error"));
const outputs = (results: { text: string }[]) => results.map(({ text }) => text);
const pidIn = (name: string, cwd: string) => Number(readFileSync(join(cwd, name), "utf8"));
const hasPid = (name: string, cwd: string) => isThere(name, cwd) && pidIn(name, cwd) > 0;
const hasEnded = (name: string, cwd: string) => !hasPid(name, cwd) || !isRunning(pidIn(name, cwd));
/** Runs until SIGTERM, with a child that ignores it, or until its folder is gone. Two files have their ids. */
const ENDLESS = `(trap '' TERM; sh -c 'echo $PPID' > child; while [ -e child ]; do sleep 1; done) &
trap ': > polite; exit' TERM; echo $$ > parent
while [ -e child ] || [ -e parent ]; do wait; done`;
const isUp = (cwd: string) => hasPid("child", cwd) && hasPid("parent", cwd);
const bothEnd = (cwd: string) => until(() => hasEnded("child", cwd) && hasEnded("parent", cwd));
/** Waits for a file `go`, or until its folder is gone because the test run was stopped. */
const UNTIL_GO = 'until [ -e go ] || [ ! -d "$PWD" ]; do sleep 0.02; done';
const goOnIn = (cwd: string) => writeFileSync(join(cwd, "go"), "");
/** A reply that is still streaming when Ctrl-C comes. */
const ENDLESS_REPLY = say("word ".repeat(20_000));
const SLOWLY: Failure = { kind: "slow", delay: 50 };
const BUSY: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
const MALFORMED: Failure = { kind: "status", status: 400, message: "this request is malformed" };

const WHY = /^\w+: .*\w/; // an error's name and its message
beforeEach(harness.emptyWorkspace);

/** Runs a reply with this many calls. The user presses Ctrl-C at the first question. */
async function stoppedAtQuestion(lesson: harness.Lesson, count: number): Promise<string[]> {
  const stop = new AbortController();
  const approve = async () => {
    stop.abort(new Error("interrupted"));
    stop.signal.throwIfAborted();
  };
  const calls = bash(...Array(count).fill("true"));
  const { results } = await loop(lesson, [calls], { signal: stop.signal, approve });
  return outcomes(results);
}

// A test runs on s01, on s06, and on each lesson in between that changes the region it tests.

onEach("agentLoop", { s01, s03, s04, s06 }, (lesson) => {
  test("calls the model until a reply has no tool calls, then returns that reply; the messages grow in place", async () => {
    const first = call({ type: "text", text: "First one." }, use("bash", { command: "echo one" }));
    const replies = [first, bash("echo two"), say("It printed: one, two")];
    const { error, reply, messages, results, sent } = await loop(lesson, replies);
    assert.equal(error, undefined);
    assert.deepEqual(rolesOf(messages), ["user", "assistant", "user", "assistant", "user", "assistant"]);
    assert.deepEqual([outputs(results), sent.length], [["one", "two"], 3]);
    assert.deepEqual(textsIn(messages, "assistant"), ["First one.", "It printed: one, two"]);
    assert.deepEqual(reply?.content, messages.at(-1)?.content);
  });

  test("runs the calls of a reply one after the other, and returns their results in that order in one message", async () => {
    const content = [1, 2, 3].map((i) => use("bash", { command: `echo ${i} >> log; cat log` }, `call_${i}`));
    const before: string[] = []; // what had run when each question was asked
    const approve = async () => void before.push(isThere("log") ? readFileSync("log", "utf8") : "");
    const { messages, results } = await loop(lesson, [call(...content), say("done")], { approve });
    const printed = results.map(({ id, text }) => `${id}: ${text}`);
    assert.deepEqual(printed, ["call_1: 1", "call_2: 1\n2", "call_3: 1\n2\n3"]);
    assert.deepEqual(before, ["", "1\n", "1\n2\n"]);
    assert.deepEqual(rolesOf(messages), ["user", "assistant", "user", "assistant"]);
  });

  test("looks for calls in the blocks, whatever the stop reason says", async () => {
    const reply: Reply = { ...call(use("none", {})), stop_reason: "end_turn" };
    const ran = await loop(lesson, [...Array(51).fill(reply), say("done")]); // more rounds than a limit would allow
    assert.deepEqual([ran.results.length, ran.sent.length], [51, 52], "results, and calls of the model");
    const ended = await loop(lesson, [{ ...say("nothing to do"), stop_reason: "tool_use" }]);
    assert.deepEqual([ended.error, ended.sent.length], [undefined, 1]);
  });

  test("every call of a reply has a result after Ctrl-C", async () => {
    assert.deepEqual(await stoppedAtQuestion(lesson, 2), ["an error", "an error"]);
  });
});

onEach("agentLoop", { s01, s02, s03, s04, s05, s06 }, (lesson) => {
  test("streams a request with caching on, summarized thinking, room for a long reply, and described tools", async () => {
    const { sent } = await loop(lesson, [say("hello")]);
    const { stream, model, max_tokens, cache_control, thinking, system, tools } = sent[0] ?? {};
    assert.deepEqual([stream, model, max_tokens], [true, "claude-sonnet-5-5", 32_000]);
    assert.deepEqual(cache_control, { type: "ephemeral" });
    assert.deepEqual(thinking, { type: "adaptive", display: "summarized" });
    assert.deepEqual([system, tools], [lesson.SYSTEM, lesson.TOOLS]);
    assert.ok(lesson.SYSTEM.includes(folder), "the system prompt names the workspace");
    for (const { name, description } of lesson.TOOLS)
      assert.match(description ?? "", /\w+ \w+/, `${name} is described`);
  });
});

onEach("runTool", { s01, s02, s06 }, (lesson) => {
  test("tells the model that a tool doesn't exist or that its input is wrong", async () => {
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

  test("shows the whole command, line by line, and asks before it runs; after a no it doesn't run", async () => {
    const lines = [`echo a > a # ${"x".repeat(3_000)} middle`, `true ${"x".repeat(3_000)}`];
    const approve = async (question: string) => {
      assert.ok(!isThere("a"), "nothing has run");
      assert.match(question, /\w/, "a question has words");
      process.stdout.write(`${question} (here the user answers)`);
      throw new Error("the user said no: use b");
    };
    const { printed, results } = await loop(lesson, [bash(lines.join("\n")), say("ok")], { approve });
    const [shown = ""] = printed.split("(here the user answers)");
    const [first = -1, second = -1] = lines.map((line) => shown.split("\n").findLastIndex((row) => row.includes(line)));
    assert.ok(first >= 0 && second > first, `each line of the command is on a line of its own:\n${shown}`);
    assert.match(`${results[0]?.failed} ${results[0]?.text}`, /^true .*the user said no: use b/s);
    assert.ok(!isThere("a"), "it hasn't run");
  });

  test("Ctrl-C ends a running command", async () => {
    const stop = new AbortController();
    const running = loop(lesson, [bash(WAIT)], { signal: stop.signal });
    await until(() => isThere("begun"));
    stop.abort(new Error("interrupted"));
    assert.match((await running).results[0]?.text ?? "", /^begun\n/);
  });

  test("runs nothing after Ctrl-C at the question, or before the turn has begun", async () => {
    const stop = new AbortController();
    const approve = async () => {
      if (stop.signal.aborted) return; // a second question would allow the call
      stop.abort(new Error("interrupted"));
      stop.signal.throwIfAborted();
    };
    const asked = await loop(lesson, [bash("touch a", "touch b")], { signal: stop.signal, approve });
    assert.deepEqual(outcomes(asked.results), ["an error", "an error"]);
    assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
    await goOn(lesson, asked.messages);
    const { error, sent } = await loop(lesson, [], { signal: stop.signal });
    assert.notEqual(error, undefined, "it throws");
    assert.equal(sent.length, 0, "calls of the model");
  });
});

onEach("runCall", { s01, s03, s04, s06 }, (lesson) => {
  test("the result of a call that Ctrl-C stopped is an error", async () => {
    assert.deepEqual(await stoppedAtQuestion(lesson, 1), ["an error"]);
  });

  test("a call that can't be started tells the model and the user what went wrong, and the next call runs", async () => {
    const [wrong, after] = ["echo a\0b", "echo after"].map((command) => use("bash", { command }));
    const reply = call(wrong ?? assert.fail(), use("none", {}), after ?? assert.fail());
    const { error, results, messages, printed } = await loop(lesson, [reply, say("sorry")]);
    assert.equal(error, undefined);
    assert.match(results[0]?.text ?? "", /null bytes/);
    assert.match(printed, /null bytes/, "what the user sees");
    assert.match(results[1]?.text ?? "", /none/);
    assert.deepEqual([results.map(({ failed }) => failed), results[2]?.text], [[true, true, false], "after"]);
    await goOn(lesson, messages);
  });

  test("prints a result, but only the head and tail if it's long", async () => {
    const { printed } = await loop(lesson, [bash("seq 2000"), say("All counted.")]);
    assert.match(printed, /\b1\s+2\s.*\b1999\s+2000\s.*All counted\./s);
    assert.doesNotMatch(printed, /\b1000\s/);
  });

  test("sends valid text even if a result is cut inside an emoji", async () => {
    for (const lead of ["", "x"]) {
      const command = `printf '${lead}'; yes 😀 | head -n 60000 | tr -d '\\n'; exit 3`;
      const { error, messages, results } = await loop(lesson, [bash(command), say("done")]);
      assert.equal(error, undefined);
      assert.match(results[0]?.text ?? "", /😀/);
      await goOn(lesson, messages);
    }
  });
});

// s06 saves a long result to disk instead.
onEach("runCall", { s01, s03, s04 }, (lesson) => {
  test("sends the head and tail of a result of more than 50,000 characters, and a note", async () => {
    const { results } = await loop(lesson, [bash("echo HEAD; seq 50000; echo TAIL; exit 3"), say("done")]);
    const text = results[0]?.text ?? "";
    assert.ok(text.length > 40_000 && text.length <= 50_000, `${text.length} characters`);
    assert.match(text, /^HEAD\n1\n2\n/);
    assert.match(text, /49999\n50000\nTAIL\n.*\b3\b.*$/);
    assert.match(text.slice(5, -5), /[a-z]{2}/i, "a note");
  });
});

onEach("runTurn", { s01, s06 }, (lesson) => {
  /** Sends one more request after a turn that was stopped, and checks that a note tells the model so. */
  async function goOnStopped(messages: harness.Messages): Promise<harness.Messages> {
    const prompt = await goOn(lesson, messages);
    const [request, note] = textsIn(prompt);
    assert.equal(request, "go");
    assert.notEqual(note, "and now?", "a note follows the request");
    return prompt;
  }

  for (const [what, failures] of [
    ["the API stays busy", [BUSY, BUSY, BUSY]],
    ["the stream breaks in the middle", [{ kind: "drop" }]],
  ] satisfies [string, Failure[]][]) {
    test(`keeps finished calls if ${what}, and the model is told that it stopped`, async () => {
      for (const failure of failures) if (failure.kind === "status") expectRejection(/Overloaded/);
      server.fail(PASS, ...failures);
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("echo never")]);
      assert.notEqual(error, undefined, "it throws");
      assert.deepEqual(outputs(results), ["kept"]);
      await goOnStopped(messages);
    });
  }

  test("keeps its calls, each with its result, if Ctrl-C stops it in a command, and the model is told", async () => {
    const replies = [bash("echo first", WAIT, "touch never")];
    const { error, messages, results, sent } = await interruptedTurn(lesson, replies);
    assert.notEqual(error, undefined, "it throws");
    assert.equal(sent.length, 1, "calls of the model");
    assert.deepEqual([results[0]?.text, results[2]?.failed, isThere("never")], ["first", true, false]);
    assert.match(results[1]?.text ?? "", /^begun\n/);
    await goOnStopped(messages);
  });

  test("keeps nothing of a reply that Ctrl-C stops, and the model is told", async () => {
    const stop = new AbortController();
    server.fail(SLOWLY);
    const before = server.journal.length;
    const running = turn(lesson, [ENDLESS_REPLY], { signal: stop.signal });
    await until(() => server.journal[before]?.reply !== undefined);
    stop.abort(new Error("interrupted"));
    const { error, messages } = await running;
    assert.notEqual(error, undefined, "it throws");
    const prompt = await goOnStopped(messages);
    assert.doesNotMatch(JSON.stringify(prompt), /word/);
  });

  test("leaves the conversation as it was if the API rejects its request", async () => {
    expectRejection(/malformed/);
    const { messages } = await turn(lesson, [bash("echo earlier"), say("ok")], { request: "first" });
    const before = structuredClone(messages);
    server.fail(MALFORMED);
    const { error } = await turn(lesson, [], { messages });
    assert.match(error ?? "", /400/);
    assert.doesNotMatch(error ?? "", /^Error: /, "the error of the SDK is thrown on, not one of our own");
    const said = (history: harness.Messages) => [
      textsIn(history),
      resultsIn(history),
      textsIn(history, "assistant").at(-1),
    ];
    assert.deepEqual(said(messages), said(before)); // in s06, thinking has become text
    await goOn(lesson, messages);
  });

  test("keeps earlier steps if the API rejects a later one, and drops only what the model hasn't answered", async () => {
    expectRejection(/malformed/);
    server.fail(PASS, PASS, MALFORMED);
    const { messages, results } = await turn(lesson, [bash("echo one"), bash("echo two")]);
    assert.deepEqual(outputs(results), ["one"]);
    await goOnStopped(messages);
  });

  test("drops nothing if the account has no credit, and the model is told that it stopped", async () => {
    const message = "Your credit balance is too low to access the Anthropic API.";
    expectRejection(/credit balance/);
    server.fail(PASS, { kind: "status", status: 400, message });
    const { error, messages, results } = await turn(lesson, [bash("echo paid")]);
    assert.match(error ?? "", /credit balance/);
    assert.deepEqual(outputs(results), ["paid"]);
    await goOnStopped(messages);
  });

  test("that was stopped by Ctrl-C isn't carried on unasked, even if the next request is rejected", async () => {
    const request = "delete build/";
    const { messages } = await interruptedTurn(lesson, [bash(WAIT)], { request });
    expectRejection(/malformed/);
    server.fail(MALFORMED);
    await turn(lesson, [], { messages, request: "now this" });
    const { error, sent } = await turn(lesson, [say("You're welcome.")], { messages, request: "thanks" });
    assert.equal(error, undefined);
    const texts = textsIn(sent[0]?.messages ?? []);
    if (!texts.includes(request)) return; // without the request, nothing needs a note
    assert.doesNotMatch(texts[texts.indexOf(request) + 1] ?? "", /^(now this|thanks)$/, "a note follows the request");
  });

  test("takes a refused turn out of the conversation even if the refusal has no text, and adds no second note", async () => {
    const { messages } = await turn(lesson, [], { request: "first", signal: AbortSignal.abort(new Error("stop")) });
    const before = textsIn(messages);
    await turn(lesson, [bash("true"), { ...call(), stop_reason: "refusal" }], { messages, request: "something bad" });
    assert.deepEqual(textsIn(messages), before);
  });
});

// s06 shortens the prompt instead.
onEach("runTurn", { s01 }, (lesson) => {
  test("the conversation recovers from results that make every prompt too long, even if Ctrl-C followed them", async () => {
    const { messages } = await interruptedTurn(lesson, [bash("seq 20000", WAIT)]);
    server.contextLimit = 5_000;
    expectRejection(/prompt is too long/);
    assert.match((await turn(lesson, [], { messages, request: "and now?" })).error ?? "", /too long/);
    assert.equal((await turn(lesson, [say("Here I am.")], { messages, request: "hello?" })).error, undefined);
    server.contextLimit = 200_000;
  });

  test("drops what is too large for the API (413), and the conversation goes on", async () => {
    expectRejection(/exceeds the maximum size/);
    server.fail(PASS, { kind: "status", status: 413 });
    const { error, messages, results } = await turn(lesson, [bash("echo large")]);
    assert.match(error ?? "", /413/);
    assert.equal(results.length, 0);
    await goOn(lesson, messages);
  });
});

onEach("checkReply", { s01, s06 }, (lesson) => {
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
    test(`runs the calls of a reply with ${what}, but doesn't send that block back`, async () => {
      const { error, messages, results } = await loop(lesson, [call(...content), say("ok")]);
      assert.equal(error, undefined);
      assert.deepEqual([typesIn(messages[1]), outputs(results)], [kept.map(({ type }) => type), ["ran", "ran"]]);
      await goOn(lesson, messages);
    });
  }

  test("keeps text unchanged in any language and drops thinking after it", async () => {
    const text: ReplyBlock = { type: "text", text: "完成了。\n" };
    const { error, messages } = await loop(lesson, [call(before, text, after, command), call(before, text, after)]);
    assert.equal(error, undefined);
    assert.deepEqual(textsIn(messages, "assistant"), [text.text, text.text]);
    assert.deepEqual(typesIn(messages[1]), ["thinking", "text", "thinking", "tool_use"]);
    assert.deepEqual(typesIn(messages[3]), ["thinking", "text"]);
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

  // If a reply fills the window, s06 shortens the prompt and tries again.
  for (const kind of lesson === s01 ? (["max_tokens", "context_window"] as const) : (["max_tokens"] as const)) {
    test(`drops a reply that is cut off (${kind}), and runs none of its calls`, async () => {
      server.fail(PASS, { kind });
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("touch a", "touch b")]);
      assert.match(error ?? "nothing", WHY);
      assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
      assert.deepEqual(outputs(results), ["kept"]);
      server.fail({ kind });
      assert.match((await turn(lesson, [say("half a sentence")], { messages })).error ?? "nothing", WHY);
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /touch a|half/);
    });
  }

  test("takes a refused turn out of the conversation, and runs none of its calls", async () => {
    const { messages } = await turn(lesson, [say("fine")], { request: "first" });
    server.fail(PASS, { kind: "refusal" });
    const replies = [bash("echo harmless"), bash("touch harm")];
    const { error } = await turn(lesson, replies, { messages, request: "something bad" });
    assert.notEqual(error, undefined);
    assert.deepEqual(rolesOf(messages), ["user", "assistant"], "what was there before");
    assert.ok(!isThere("harm"), "nothing has run");
    assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /something bad|echo harmless|touch harm/);
  });
});

onEach("runBash", { s01, s06 }, (lesson) => {
  const run = (command: string) => lesson.runBash(command, never);

  test("runs each command in a new shell in the workspace, and returns both streams in the order they were written", async () => {
    await run("cd /; export LEFT=over");
    const output = await run("pwd; for i in 1 2; do echo out $i; echo err $i >&2; done; echo $LEFT");
    assert.equal(output, `${folder}\nout 1\nerr 1\nout 2\nerr 2`);
  });

  test("says how a command ended unless with exit code 0, and says so if there was no output", async () => {
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

  test("returns everything a script prints through tee, or says that something is still running", async () => {
    const script = (i: number) => `exec > >(tee log${i}) 2>&1; echo begin; seq 500; ls none; echo end ${i}`;
    const all = await Promise.all(Array.from({ length: 8 }, (_, i) => run(script(i))));
    for (const [i, output] of all.entries()) {
      const isWhole = new RegExp(`^begin\n1\n2\n(.|\n)*\n500\nls: .*none.*\nend ${i}$`).test(output);
      assert.ok(isWhole || /\n.*(running|background).*$/.test(output), output);
    }
  });

  test("keeps the head and tail of a command that prints 10 MB, and little else", async () => {
    const output = await run("echo HEAD; yes 中文字 | head -n 1000000; echo TAIL");
    assert.ok(output.length <= 1_000_000, `${output.length} characters`);
    assert.match(output, /^HEAD\n中文字\n[\s\S]*\n.*[^中文字\n].*\n[\s\S]*中文字\nTAIL$/);
    assert.doesNotMatch(output, /\ufffd/, "half characters");
  });
});

onEach("print", { s01, s06 }, (lesson) => {
  test("control and text-direction characters are replaced when printed, but newlines stay", async () => {
    const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
    const { printed } = await loop(lesson, [bash(`printf '%s' '${evil}'`), say(`one\r\ntwo ${evil}`)]);
    assert.match(printed, /one\ntwo �\]0;owned/);
    assert.doesNotMatch(printed, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
  });
});

// --- in parallel, each test in its own folder -------------------------------------------------------------------------

const TOGETHER = { concurrency: 6, timeout: 600_000 };

onEach(
  "runBash",
  { s01, s06 },
  (lesson) => {
    const run = (cwd: string, command: string, signal = never, limit?: number) =>
      lesson.runBash(`cd '${cwd}'\n${command}`, signal, limit);
    const newFolder = (t: TestContext) => {
      const made = mkdtempSync(`${folder}-`);
      t.after(() => rmSync(made, { recursive: true }));
      return made;
    };

    test("bash doesn't wait for background jobs, leaves them alive, and says so if they hold the output", async (t) => {
      const cwd = newFolder(t);
      const stop = new AbortController();
      const job = (name: string) => `(${UNTIL_GO}; head -c 300000 /dev/zero && touch ${name})`;
      const output = await run(cwd, `${job("quiet")} > /dev/null 2>&1 & ${job("loud")} & echo begun`, stop.signal);
      assert.match(output, /^begun\n.+/);
      stop.abort(); // the command has already ended
      goOnIn(cwd);
      await until(() => ["quiet", "loud"].every((name) => isThere(name, cwd)));
    });

    test("Ctrl-C ends a command's whole process group with SIGTERM, then whatever is left with SIGKILL", async (t) => {
      const cwd = newFolder(t);
      const stop = new AbortController();
      const running = run(cwd, `echo begun; ${ENDLESS}`, stop.signal);
      await until(() => isUp(cwd));
      stop.abort();
      assert.match(await running, /^begun\n.+/);
      await bothEnd(cwd);
      assert.ok(isThere("polite", cwd), "the parent had time to end by itself");
    });

    test("bash ends a command that takes too long, even if garbage is collected meanwhile, and says how long it had", async (t) => {
      const cwd = newFolder(t);
      setFlagsFromString("--expose-gc");
      const collecting = setInterval(runInNewContext("gc"), 100);
      t.after(() => clearInterval(collecting));
      const output = await run(cwd, `echo $$ > parent; ${UNTIL_GO}`, never, 1_200);
      assert.match(output, /1\.2|1,?200/);
      await until(() => hasEnded("parent", cwd));
    });
  },
  TOGETHER,
);

// --- the program ---------------------------------------------------------------------------------------------------

const PROGRAMS = { s01: "s01_agent_loop", s06: "s06_context_compact" };

// The main of s02 to s04 is the same as in s01, and s05 only announces the skills first.
onEach(
  "main",
  PROGRAMS,
  (lesson) => {
    test("carries out a request of several words, and leaves a background job alive when it ends", async (t) => {
      const job = `(${UNTIL_GO}; touch after) > /dev/null 2>&1 &`;
      const run = await start(t, lesson, ["-y", "please", "make it"], {
        replies: [bash(`${job} echo 6`), say("All done.")],
      });
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /echo 6.*\n.*\b6\n.*All done\.\n/s);
      assert.deepEqual(textsIn(run.journal[0]?.request.messages ?? []), ["please make it"]);
      goOnIn(run.cwd);
      await until(() => isThere("after", run.cwd));
    });

    test("takes piped requests one per line; without a terminal there's no one to ask, so nothing runs", async (t) => {
      const replies = [bash("touch never"), say("I could not."), say("two")];
      const run = await start(t, lesson, [], { replies, input: "first\n\nsecond\n q \nthird\n" });
      assert.equal(await run.ended, 0);
      assert.ok(!isThere("never", run.cwd), "nothing has run");
      const { messages = [] } = run.journal[2]?.request ?? {};
      assert.match(resultsIn(messages)[0]?.text ?? "", /-y/);
      assert.deepEqual(textsIn(messages), ["first", "second"]);
      assert.equal(run.journal.length, 3, "requests: none after the q");
    });

    test("says in one line why a request failed and what was dropped, and exits with 1 in the end", async (t) => {
      const run = await start(t, lesson, ["-y"], {
        input: "1\n2\n3\n4\n5\n6\n",
        replies: [bash("echo never"), bash("echo never"), call(), bash("echo done"), say("All done.")],
        failures: [
          { kind: "status", status: 401 },
          { kind: "error_event" },
          { kind: "broken_json" },
          PASS,
          PASS,
          MALFORMED,
        ],
      });
      for (const message of [/invalid x-api-key/, /malformed/]) expectRejection(message);
      assert.equal(await run.ended, 1);
      const lines = run.screen().match(/^\[(?!context).*\]$/gm) ?? [];
      const whys = [/401/, /Overloaded/, /JSON/, /./, /malformed.*(drop|remov|discard|forg)/];
      assert.equal(lines.length, whys.length, run.screen());
      for (const [i, why] of whys.entries()) assert.match(lines[i] ?? "", why);
      assert.match(run.screen(), /All done\.\n(\[.*\n)?$/);
    });

    test("a slow reader gets everything it prints, including error messages, and the exit code", async (t) => {
      const run = await start(t, lesson, [], {
        input: "1\n2\n3\n4\n",
        replies: Array(3).fill(say(`${"%".repeat(50_000)} the end`)),
        failures: [{ kind: "status", status: 400, message: "that is too much" }],
        shell: (agent) => `${agent} | (${UNTIL_GO}; cat)`,
      });
      expectRejection(/is too much/);
      await until(() => run.journal.length > 0);
      goOnIn(run.cwd);
      assert.equal(await run.ended, 1);
      assert.equal(run.screen().split("%").length - 1, 150_000, "characters that arrived");
      assert.match(run.screen(), /is too much(.|\n)* the end\n.*\n?$/);
    });

    test("ends quietly when nobody reads its output any more, and the running command ends with it", async (t) => {
      const replies = [bash("until [ -e closed ]; do sleep 0.02; done", `echo $$ > next; ${UNTIL_GO}`)];
      const shell = (agent: string) => `${agent} | (head -1; exec <&-; touch closed)`;
      const run = await start(t, lesson, ["-y", "go"], { replies, shell });
      assert.equal(await run.ended, 1);
      assert.equal(run.screen(), "Looking at what is needed next.\n");
      assert.ok(isThere("closed", run.cwd), "the first command has run");
      await until(() => hasEnded("next", run.cwd));
    });

    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      test(`the running command ends with the agent on ${signal}`, async (t) => {
        const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)] });
        await until(() => isUp(run.cwd));
        run.child.kill(signal);
        assert.equal(await run.ended, 1);
        await bothEnd(run.cwd);
      });
    }

    test("names the server and the reason if it can't connect", async (t) => {
      const gone = await startServer({ model: scripted() });
      await gone.close();
      const url = gone.url.replace("127.0.0.1", "localhost");
      const run = await start(t, lesson, ["go"], { env: { ANTHROPIC_BASE_URL: url } });
      assert.equal(await run.ended, 1);
      assert.match(run.screen(), new RegExp(`^\\[.*${url}.*ECONNREFUSED.*\\]$`, "m"));
    });
  },
  TOGETHER,
);

onEach(
  "main",
  { s01: PROGRAMS.s01 },
  (lesson) => {
    const unset = { ANTHROPIC_API_KEY: undefined };

    test("takes its settings from the .env above the lessons, but variables of the environment win", async (t) => {
      const dotEnv = "ANTHROPIC_API_KEY=from-file\nMODEL_ID=claude-of-file\nTHINKING=off\n";
      const env = { ...unset, MODEL_ID: "claude-of-environment" };
      const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], dotEnv, env });
      assert.equal(await run.ended, 0, run.screen());
      const { request } = run.journal[0] ?? {};
      assert.deepEqual([request?.model, request?.thinking], ["claude-of-environment", undefined]);
    });

    test("says in one line what to set if there is no key, even if the workspace has a .env with one", async (t) => {
      const files = { ".env": "ANTHROPIC_API_KEY=planted\n" };
      const run = await start(t, lesson, ["go"], { files, env: unset });
      assert.equal(await run.ended, 1);
      assert.match(run.screen(), /^\n?\[.*ANTHROPIC_API_KEY.*npm start.*\]\n$/);
      assert.equal(run.journal.length, 0);
    });
  },
  TOGETHER,
);

// --- in a terminal -------------------------------------------------------------------------------------------------

const [CTRL_A, CTRL_C, CTRL_D, CTRL_Z] = ["\x01", "\x03", "\x04", "\x1a"];
const QUESTION = /\[y\].*: /;
const INTERRUPTED = /^\[.*(interrupt|cancel|stop|abort).*\]\r$/im;

onEach(
  "main",
  PROGRAMS,
  (lesson) => {
    const prompt = `${lesson.slice(0, 3)} >> `;

    test("asks before each command; yes and always are understood, anything else is a no; thinking is dim", async (t) => {
      const answers = ["", "yes, but with tee", "n", " Y ", "Yes", lesson === PROGRAMS.s01 ? "A" : " always "];
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
    });

    test("Ctrl-C brings back the prompt and drops the whole line being typed, and the conversation goes on", async (t) => {
      const replies = [say("I see."), bash("touch never"), bash(ENDLESS), ENDLESS_REPLY, say("still here")];
      const failures = [PASS, PASS, PASS, SLOWLY];
      const run = await start(t, lesson, [], { replies, failures, terminal: true });
      const interrupt = async (keys: string) => {
        run.type(keys);
        await run.waitFor(INTERRUPTED);
        await run.waitFor(prompt);
        run.type(CTRL_C); // a second Ctrl-C reaches the prompt
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
      run.type(`half a request${CTRL_A}${CTRL_C}fifth\r`);
      await run.waitFor("still here");
      await run.waitFor(prompt);
      run.type(CTRL_D);
      assert.equal(await run.ended, 1, "a request failed");
      const asked = textsIn(run.journal[4]?.request.messages ?? []);
      const requests = asked.filter((text) => !text.startsWith("(Stopped here"));
      assert.deepEqual(requests, ["first", "second", "third", "fourth", "fifth"]);
      assert.ok(!isThere("never", run.cwd), "nothing has run unasked");
    });

    test("Ctrl-Z does nothing, at the prompt, at a question or during a command", async (t) => {
      const replies = [bash(WAIT), say("First done."), say("Second done.")];
      const shell = (agent: string) => `set -m; ${agent}; exit $?`; // with job control, like an interactive shell
      const run = await start(t, lesson, [], { replies, terminal: true, shell });
      await run.waitFor(prompt);
      run.type(`${CTRL_Z}first\r`);
      await run.waitFor(QUESTION);
      run.type(`${CTRL_Z}y\r`);
      await until(() => isThere("begun", run.cwd));
      run.type(`${CTRL_Z}draft`);
      await run.waitFor("draft");
      goOnIn(run.cwd);
      await run.waitFor("First done.");
      await run.waitFor(prompt);
      run.type(`${CTRL_C}second\r`);
      await run.waitFor("Second done.");
      await run.waitFor(prompt);
      run.type("q\r");
      assert.equal(await run.ended, 0, run.screen());
    });

    test("a long draft isn't the answer to a question; it comes back after it, and erases nothing from the screen", async (t) => {
      const asking = call({ type: "text", text: "Before the question." }, use("bash", { command: "touch never" }));
      const replies = [bash(WAIT), asking, say("First done."), say("Second done.")];
      const shell = (agent: string) => `stty cols 40; ${agent}`;
      const run = await start(t, lesson, [], { replies, terminal: true, shell });
      await run.waitFor(prompt);
      run.type("first\r");
      await run.waitFor(QUESTION);
      run.type("y\r");
      await until(() => isThere("begun", run.cwd));
      const draft = `${"long ".repeat(25)}END`;
      run.type(draft);
      await run.waitFor("END");
      run.type("X\x7f"); // a correction makes readline redraw the line and count its rows
      await run.waitFor("END");
      goOnIn(run.cwd);
      await run.waitFor(QUESTION);
      const [, below = "", up = "0"] = /touch never.*\r\n([\s\S]*?)\x1b\[(\d+)A/.exec(run.screen()) ?? [];
      assert.ok(
        below.split("\n").length > Number(up),
        "readline moves up to erase the draft, but not past the command",
      );
      run.type("\r");
      await run.waitFor("First done.");
      await run.waitFor(prompt);
      run.type(" and more\r");
      await run.waitFor("Second done.");
      run.type(CTRL_D);
      assert.equal(await run.ended, 0);
      const { messages = [] } = run.journal[3]?.request ?? {};
      assert.deepEqual(textsIn(messages), ["first", `${draft} and more`]);
      assert.doesNotMatch(resultsIn(messages)[1]?.text ?? "long", /long/, "the answer");
      assert.ok(!isThere("never", run.cwd), "an empty answer is a no");
    });

    test("lines that arrive together are one request once Enter ends the last: a paste of 100 KB, or lines typed during a turn", async (t) => {
      const job = "(while [ -e begun ]; do sleep 0.05; done) &"; // keeps the output open, but doesn't block the agent
      const replies = [bash(`${WAIT}; ${job}`), say("First done."), say("Second done.")];
      const run = await start(t, lesson, ["-y"], { replies, terminal: true });
      /** Types one key at a time and waits for each to appear, so the line can't have been sent yet. */
      const typeSlowly = async (keys: string) => {
        for (const key of keys) {
          run.type(key);
          await run.waitFor(key);
        }
      };
      const lines = Array.from({ length: 100 }, (_, i) => `${i} ${"x".repeat(1_000)}`);
      await run.waitFor(prompt);
      run.type(lines.join("\r"));
      await run.waitFor("99 x");
      await typeSlowly(" and its end");
      run.type("\r");
      await until(() => isThere("begun", run.cwd));
      run.type("typed\rahea");
      await run.waitFor("ahea");
      goOnIn(run.cwd);
      await run.waitFor("First done.");
      await run.waitFor(prompt);
      await typeSlowly("d of the turn");
      run.type("\r");
      await run.waitFor("Second done.");
      const asked = textsIn(run.journal.at(-1)?.request.messages ?? []);
      assert.deepEqual(asked, [`${lines.join("\n")} and its end`, "typed\nahead of the turn"]);
      await run.waitFor(prompt);
      run.type(CTRL_D);
      assert.equal(await run.ended, 0);
    });

    test("a request of the command line ends with Ctrl-C, and so does a command that ignores SIGTERM", async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
      await until(() => isUp(run.cwd));
      run.type(CTRL_C);
      assert.equal(await run.ended, 1);
      await bothEnd(run.cwd);
    });

    test("the running command ends with the agent when its terminal is closed", async (t) => {
      const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
      await until(() => isUp(run.cwd));
      run.child.kill("SIGKILL"); // the child is script, which plays the terminal
      await bothEnd(run.cwd);
    });
  },
  { ...TOGETHER, skip: harness.noTerminal },
);

const isRoot = process.getuid?.() === 0;
onEach(
  "main",
  { s01: PROGRAMS.s01 },
  (lesson) => {
    test("goes on after Ctrl-C in another user's command, which it isn't allowed to end", async (t) => {
      const replies = [bash("echo $$ > pid; exec ./as-root --reuid=0 --clear-groups sleep 3600"), say("still here")];
      const shell = (agent: string) => `cp "$(which setpriv)" as-root; chmod 4755 as-root; chmod 777 .
      chmod -R a+rX "$(dirname ${agent.split(" ")[1]})/.."; exec setpriv --reuid=65534 --clear-groups ${agent}`;
      const run = await start(t, lesson, ["-y"], { replies, terminal: true, shell });
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
  },
  { skip: harness.noTerminal || (!isRoot && "needs root") },
);
