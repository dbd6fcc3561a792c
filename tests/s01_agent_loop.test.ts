// The loop and its one tool. The history stays valid however a turn ends, nothing runs unasked, bash returns whatever a
// command prints, and the terminal behaves as its user expects.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { bash, call, say, use, user } from "../offline/api/said.ts";
import { type Failure, type Reply, type ReplyBlock, scripted, startServer } from "../offline/api/server.ts";
import { interruptWait, isRunning, noTerminal, start, startProxy, until, WAIT } from "./program.ts";
import { expectRejection, PASS, useServer } from "./server.ts";
import { blocksOf, goOn, loop, type Messages, onEach, onEachAtOnce, resultsIn, textsIn, turn } from "./turn.ts";
import { emptyWorkspace, newFolder, useWorkspace } from "./workspace.ts";

const folder = useWorkspace();
const server = await useServer();
const s01 = await import("../agents/s01_agent_loop.ts");
const s02 = await import("../agents/s02_tool_use.ts");
const s03 = await import("../agents/s03_todo_write.ts");
const s04 = await import("../agents/s04_subagent.ts");
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const never = new AbortController().signal;
const isThere = (name: string, cwd = folder) => existsSync(join(cwd, name));
const rolesOf = (messages: Messages) => messages.map(({ role }) => role);
const typesIn = (message = user("")) => blocksOf(message).map(({ type }) => type);
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
const STILL_RUNNING = "\n(something is still running in the background)";
const goOnIn = (cwd: string) => writeFileSync(join(cwd, "go"), "");
/** A reply that is still streaming when Ctrl-C comes. */
const ENDLESS_REPLY = say("word ".repeat(20_000));
const SLOWLY: Failure = { kind: "slow", delay: 50 };
const BUSY: Failure = { kind: "status", status: 529, retryAfter: 0.01 };
const MALFORMED: Failure = { kind: "status", status: 400, message: "this request is malformed" };

beforeEach(emptyWorkspace);

const NOTE = "(Stopped here. Whatever ran has taken effect.)";

// A test runs on s01, and again on each lesson that changes the code it tests. steps.test.ts proves that the others don't.

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
});

onEach("agentLoop", { s01, s02, s03, s04, s05, s06 }, (lesson) => {
  test("streams a request with caching on, summarized thinking, room for a long reply, and described tools", async () => {
    const { sent } = await loop(lesson, [say("hello")]);
    const { stream, model, max_tokens, cache_control, thinking, system, tools } = sent[0] ?? {};
    assert.deepEqual([stream, model, max_tokens], [true, "claude-sonnet-5-5", 32_000]);
    assert.deepEqual(cache_control, { type: "ephemeral", ...(lesson === s06 && { ttl: "1h" }) });
    assert.deepEqual(thinking, { type: "adaptive", display: "summarized" });
    assert.deepEqual([system, tools], [lesson.SYSTEM, lesson.TOOLS]);
    assert.ok(lesson.SYSTEM.includes(folder), "the system prompt names the workspace");
    for (const { name, description } of lesson.TOOLS)
      assert.match(description ?? "", /^[A-Z].* .*\.$/, `${name} is described`);
  });
});

onEach("runTool", { s01, s02 }, (lesson) => {
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
      assert.match(question, /\?$/, "it's a question");
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

  test("runs nothing after Ctrl-C at the question, or before the turn has begun", async () => {
    const stop = new AbortController();
    const approve = async () => {
      if (stop.signal.aborted) return; // a second question would allow the call
      stop.abort(new Error("interrupted"));
      stop.signal.throwIfAborted();
    };
    const asked = await loop(lesson, [bash("touch a", "touch b")], { signal: stop.signal, approve });
    const stopped = asked.results.map(({ failed, text }) => [failed, text]);
    assert.deepEqual(stopped, Array(2).fill([true, "(interrupted by user)"]));
    assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
    await goOn(lesson, asked.messages);
    const { error, sent } = await loop(lesson, [], { signal: stop.signal });
    assert.match(error ?? "", /aborted/);
    assert.equal(sent.length, 0, "calls of the model");
  });
});

onEach("runCall", { s01, s06 }, (lesson) => {
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
onEach("runCall", { s01 }, (lesson) => {
  test("sends the head and tail of a result of more than 50,000 characters, and a note", async () => {
    const { results } = await loop(lesson, [bash("echo HEAD; seq 50000; echo TAIL; exit 3"), say("done")]);
    const text = results[0]?.text ?? "";
    assert.ok(text.length > 40_000 && text.length <= 50_000, `${text.length} characters`);
    assert.match(text, /^HEAD\n1\n2\n/);
    assert.match(text, /49999\n50000\nTAIL\n\(exit code 3\)$/);
    assert.match(text, /\n.*\b50000 characters.*\n/, "a note says that it was cut");
    const whole = await loop(lesson, [bash("head -c 50000 /dev/zero | tr '\\0' x"), say("done")]);
    assert.equal(whole.results[0]?.text, "x".repeat(50_000), "this one isn't cut");
    const approve = () => Promise.reject(new Error("no ".repeat(30_000)));
    const refused = await loop(lesson, [bash("true"), say("ok")], { approve });
    assert.equal(refused.results[0]?.text.length, text.length, "an error has no more characters");
  });
});

onEach("runTurn", { s01, s06 }, (lesson) => {
  /** Sends one more request after a turn that was stopped, and checks that a note tells the model so. */
  async function goOnStopped(messages: Messages): Promise<Messages> {
    const prompt = await goOn(lesson, messages);
    assert.deepEqual(textsIn(prompt), ["go", NOTE, "and now?"]);
    return prompt;
  }

  for (const [what, reason, failures] of [
    ["the API stays busy", /529/, [BUSY, BUSY, BUSY]],
    ["the stream breaks in the middle", /terminated/, [{ kind: "drop" }]],
  ] satisfies [string, RegExp, Failure[]][]) {
    test(`keeps finished calls if ${what}, and the model is told that it stopped`, async () => {
      for (const failure of failures) if (failure.kind === "status") expectRejection(/Overloaded/);
      server.fail(PASS, ...failures);
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("echo never")]);
      assert.match(error ?? "", reason);
      assert.deepEqual(outputs(results), ["kept"]);
      await goOnStopped(messages);
    });
  }

  test("keeps its calls, each with its result, if Ctrl-C stops it in a command, and the model is told", async () => {
    const replies = [bash("echo first", WAIT, "touch never")];
    const { error, messages, results, sent } = await turn(lesson, replies, { signal: interruptWait() });
    assert.match(error ?? "", /aborted/);
    assert.equal(sent.length, 1, "calls of the model");
    assert.deepEqual(outputs(results), ["first", "begun\n(interrupted by user)", "(interrupted by user)"]);
    assert.ok(!isThere("never"), "the third call didn't run");
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
    assert.match(error ?? "", /aborted/);
    const prompt = await goOnStopped(messages);
    assert.doesNotMatch(JSON.stringify(prompt), /word/);
  });

  test("keeps earlier steps if the API rejects a later one, even in a stream, and drops only what the model hasn't seen", async () => {
    expectRejection(/malformed/);
    for (const failure of [MALFORMED, { kind: "error_event", status: 400 } as const]) {
      server.fail(PASS, PASS, failure);
      const { messages, results } = await turn(lesson, [bash("echo one"), bash("echo two"), say("half of this")]);
      assert.deepEqual(outputs(results), ["one"]);
      await goOnStopped(messages);
    }
  });

  test("drops nothing if a 400 is about the account, and the model is told that it stopped", async () => {
    for (const message of [
      "Your credit balance is too low to access the Anthropic API.",
      "You have reached your specified API usage limits.",
      "This organization has been disabled.",
    ]) {
      expectRejection(new RegExp(message));
      server.fail(PASS, { kind: "status", status: 400, message });
      const { error, messages, results } = await turn(lesson, [bash("echo paid")]);
      assert.match(error ?? "", new RegExp(message));
      assert.deepEqual(outputs(results), ["paid"]);
      await goOnStopped(messages);
    }
  });

  test("that was stopped by Ctrl-C isn't carried on unasked, even if the next request is rejected", async () => {
    const request = "delete build/";
    const { messages } = await turn(lesson, [bash(WAIT)], { request, signal: interruptWait() });
    expectRejection(/malformed/);
    server.fail(MALFORMED);
    await turn(lesson, [], { messages, request: "now this" });
    const { error, sent } = await turn(lesson, [say("You're welcome.")], { messages, request: "thanks" });
    assert.equal(error, undefined);
    assert.deepEqual(textsIn(sent[0]?.messages), [request, NOTE, "thanks"]);
  });

  test("takes a refused turn out of the conversation even if the refusal has no text, and adds no second note", async () => {
    const messages: Messages = [];
    const signal = AbortSignal.abort(new Error("stop"));
    for (const request of ["first", "second"]) await turn(lesson, [], { messages, request, signal });
    await turn(lesson, [bash("true"), { ...call(), stop_reason: "refusal" }], { messages, request: "something bad" });
    assert.deepEqual(textsIn(messages), ["first", NOTE, "second", NOTE]);
  });
});

// s06 shortens the prompt instead.
onEach("runTurn", { s01 }, (lesson) => {
  test("the conversation recovers from results that make every prompt too long, even if Ctrl-C followed them", async () => {
    const { messages } = await turn(lesson, [bash("seq 20000", WAIT)], { signal: interruptWait() });
    server.contextLimit = 5_000;
    expectRejection(/prompt is too long/);
    assert.match((await turn(lesson, [], { messages, request: "and now?" })).error ?? "", /too long/);
    assert.equal((await turn(lesson, [say("Here I am.")], { messages, request: "hello?" })).error, undefined);
    server.contextLimit = 200_000;
  });

  test("drops what is too large for the API (413, also in the middle of a stream), and the conversation goes on", async () => {
    expectRejection(/exceeds the maximum size/);
    for (const kind of ["status", "error_event"] as const) {
      server.fail(PASS, { kind, status: 413 });
      const { error, messages, results } = await turn(lesson, [bash("echo large"), say("half of this")]);
      assert.match(error ?? "", /exceeds the maximum size/);
      assert.equal(results.length, 0);
      await goOn(lesson, messages);
    }
  });
});

onEach("checkReply", { s01 }, (lesson) => {
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

  test("keeps a reply that begins with its only text or call, without thinking", async () => {
    const replies = [call(command), call(words)].map((reply) => ({ ...reply, thinks: false }));
    const { error, messages } = await loop(lesson, replies);
    assert.equal(error, undefined);
    assert.deepEqual([messages[1], messages[3]].map(typesIn), [["tool_use"], ["text"]]);
  });

  for (const [what, reply] of Object.entries<Reply>({
    "no blocks": call(),
    "only blank text": say(" \n"),
    "only thinking": call({ type: "thinking", thinking: "What shall I say?" }),
  })) {
    test(`drops a reply with ${what}, and the conversation goes on`, async () => {
      const { error, messages, results } = await turn(lesson, [bash("echo hi"), reply]);
      assert.match(error ?? "", /empty/);
      assert.deepEqual([outputs(results), messages.at(-1)?.role], [["hi"], "user"]);
      await goOn(lesson, messages);
    });
  }

  for (const kind of ["max_tokens", "context_window"] as const) {
    test(`drops a reply that is cut off (${kind}), and runs none of its calls`, async () => {
      server.fail(PASS, { kind });
      const { error, messages, results } = await turn(lesson, [bash("echo kept"), bash("touch a", "touch b")]);
      assert.match(error ?? "", new RegExp(kind));
      assert.deepEqual([isThere("a"), isThere("b")], [false, false]);
      assert.deepEqual(outputs(results), ["kept"]);
      server.fail({ kind });
      assert.match((await turn(lesson, [say("half a sentence")], { messages })).error ?? "", new RegExp(kind));
      assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /touch a|half/);
    });
  }

  test("takes a refused turn out of the conversation, and runs none of its calls", async () => {
    const { messages } = await turn(lesson, [say("fine")], { request: "first" });
    server.fail(PASS, { kind: "refusal" });
    const replies = [bash("echo harmless"), bash("touch harm")];
    const { error } = await turn(lesson, replies, { messages, request: "something bad" });
    assert.match(error ?? "", /refused/);
    assert.deepEqual(rolesOf(messages), ["user", "assistant"], "what was there before");
    assert.ok(!isThere("harm"), "nothing has run");
    assert.doesNotMatch(JSON.stringify(await goOn(lesson, messages)), /something bad|echo harmless|touch harm/);
  });
});

onEach("runBash", { s01 }, (lesson) => {
  const run = (command: string) => lesson.runBash(command, never);

  test("runs each command in a new shell in the workspace, and returns both streams in the order they were written", async () => {
    await run("cd /; export LEFT=over");
    const output = await run("pwd; for i in 1 2; do echo out $i; echo err $i >&2; done; echo $LEFT");
    assert.equal(output, `${folder}\nout 1\nerr 1\nout 2\nerr 2`);
  });

  test("says how a command ended unless with exit code 0, and says so if there was no output", async () => {
    assert.equal(await run("echo some; exit 3"), "some\n(exit code 3)");
    assert.equal(await run("true"), "(no output)");
    assert.equal(await run("kill -9 $$"), "(no output)\n(killed by SIGKILL)");
  });

  test("gives a command no input, and no variable that begins with ANTHROPIC_ or TSX_", async () => {
    const ours = { ANTHROPIC_CUSTOM_HEADERS: "x-secret: 1", TSX_TSCONFIG_PATH: "tsconfig.json" };
    Object.assign(process.env, ours);
    const output = await run("cat; env");
    for (const name of Object.keys(ours)) delete process.env[name];
    assert.match(output, /^PATH=/m);
    assert.doesNotMatch(output, /ANTHROPIC_|TSX_/);
  });

  test("names the line of an error as the command counts it, and runs BASH_ENV once", async () => {
    assert.match(await run("true\nnone-such"), /^bash\b.*\b2\b.*none-such.*\n\(exit code 127\)$/);
    assert.match(await run("true\nif then"), /^bash\b.*\b2\b.*`then'\n.*\n\(exit code 2\)$/);
    assert.match(await run("-c"), /^bash\b.*\b1\b.*-c: .*\n\(exit code 127\)$/);
    assert.equal(await run(""), "(no output)");
    writeFileSync("setup.sh", "echo set up");
    process.env.BASH_ENV = "setup.sh";
    const output = await run("echo done");
    delete process.env.BASH_ENV;
    assert.equal(output, "set up\ndone");
  });

  test("keeps the head and tail of a command that prints 10 MB, and no half characters", async () => {
    const output = await run("echo HEAD; yes 中 | head -n 3500000 | tr -d '\n'; echo; echo TAIL");
    assert.ok(output.length <= 1_000_000, `${output.length} characters`);
    assert.match(output, /^HEAD\n中{20000,}\n.*characters.*\n中{20000,}\nTAIL$/);
  });
});

onEach("print", { s01 }, (lesson) => {
  test("control, text-direction and invisible characters are replaced when printed, but newlines stay", async () => {
    const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
    const { printed } = await loop(lesson, [bash(`printf '%s' '${evil}'`), say(`one\r\ntwo ${evil}`)]);
    assert.match(printed, /one\ntwo �\]0;owned/);
    assert.doesNotMatch(printed, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    const invisible = ["\u{e0041}", "\u200b", "\u2060", "\xad", "\u3164", "\ufeff", "\ufe0e", "\u{e0100}"];
    const needed = "👩\u200d💻 ❤\ufe0f می\u200cخواهم"; // an emoji of two, a red heart, two parts of a Persian word
    const { printed: shown } = await loop(lesson, [{ ...say(`${invisible.join("|")} ${needed}`), thinks: false }]);
    assert.equal(shown, `${invisible.fill("�").join("|")} ${needed}\n`);
  });
});

// --- in parallel, each test in its own folder -------------------------------------------------------------------------

onEachAtOnce("runBash", { s01 }, false, (lesson) => {
  const run = (cwd: string, command: string, signal = never, limit?: number) =>
    lesson.runBash(`cd '${cwd}'\n${command}`, signal, limit);

  test("bash doesn't wait for background jobs, leaves them alive, and says so if they hold the output", async () => {
    const cwd = newFolder();
    const stop = new AbortController();
    const job = (name: string) => `(${UNTIL_GO}; head -c 300000 /dev/zero && touch ${name})`;
    const output = await run(cwd, `${job("quiet")} > /dev/null 2>&1 & ${job("loud")} & echo begun`, stop.signal);
    assert.equal(output, `begun${STILL_RUNNING}`);
    stop.abort(); // the command has already ended
    goOnIn(cwd);
    await until(() => ["quiet", "loud"].every((name) => isThere(name, cwd)));
  });

  test("Ctrl-C ends a command's whole process group with SIGTERM, then whatever is left with SIGKILL", async () => {
    const cwd = newFolder();
    const stop = new AbortController();
    const running = run(cwd, `echo begun; ${ENDLESS}`, stop.signal);
    await until(() => isUp(cwd));
    const stopped = performance.now();
    stop.abort();
    assert.equal(await running, "begun\n(interrupted by user)");
    assert.ok(performance.now() - stopped > 900, "what ignores SIGTERM had a second");
    await bothEnd(cwd);
    assert.ok(isThere("polite", cwd), "the parent had time to end by itself");
  });

  test("bash ends a command that takes too long, even if garbage is collected meanwhile, and says how long it had", async (t) => {
    const cwd = newFolder();
    setFlagsFromString("--expose-gc");
    const collecting = setInterval(runInNewContext("gc"), 100);
    t.after(() => clearInterval(collecting));
    const output = await run(cwd, `echo $$ > parent; ${UNTIL_GO}`, never, 1_200);
    assert.equal(output, "(no output)\n(timed out after 1.2 s)");
    await until(() => hasEnded("parent", cwd));
  });
});

// --- the program ---------------------------------------------------------------------------------------------------

const PROGRAMS = { s01: "s01_agent_loop", s06: "s06_context_compact" };

onEachAtOnce("main", { s01: PROGRAMS.s01 }, false, (lesson) => {
  test("carries out a request of several words, and leaves a background job alive when it ends", async (t) => {
    const job = `(${UNTIL_GO}; touch after) > /dev/null 2>&1 &`;
    const run = await start(t, lesson, ["-y", "please", "make it"], {
      replies: [bash(`${job} echo 6`), say("All done.")],
    });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), /echo 6.*\n.*\b6\n.*All done\.\n/s);
    assert.deepEqual(textsIn(run.journal[0]?.request.messages), ["please make it"]);
    goOnIn(run.cwd);
    await until(() => isThere("after", run.cwd));
  });

  test("leaves a pipe alone if the request is on the command line, so that a loop in a shell can read from it", async (t) => {
    const shell = (agent: string) => `printf '%s\\n' a b c | while read -r file; do ${agent} "Review $file"; done`;
    const run = await start(t, lesson, [], { replies: [bash("touch never"), ...Array(3).fill(say("Fine."))], shell });
    assert.equal(await run.ended, 0, run.screen());
    const asked = run.journal.flatMap(({ request }) => textsIn(request.messages));
    assert.deepEqual(asked, ["Review a", "Review a", "Review b", "Review c"]);
    assert.match(resultsIn(run.journal[1]?.request.messages)[0]?.text ?? "", /^not run: .*-y/);
  });

  test("takes piped requests one per line; without a terminal there's no one to ask, so nothing runs", async (t) => {
    const replies = [bash("touch never"), say("I could not."), say("two")];
    const run = await start(t, lesson, [], { replies, input: "first\n\nsecond\n q \nthird\n" });
    assert.equal(await run.ended, 0);
    assert.ok(!isThere("never", run.cwd), "nothing has run");
    const { messages = [] } = run.journal[2]?.request ?? {};
    assert.match(resultsIn(messages)[0]?.text ?? "", /^not run: .*-y/);
    assert.deepEqual(textsIn(messages), ["first", "second"]);
    assert.equal(run.journal.length, 3, "requests: none after the q");
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

  test("says in one line of at most 500 characters what a proxy answered, or that no server did", async (t) => {
    const gone = await startServer({ model: scripted() });
    await gone.close();
    const page = `<!DOCTYPE html>\n<title>Bad gateway</title>\n${"<p>Please try again later.</p>\n".repeat(185)}`;
    const down = await startProxy(t, 502, "text/html", page);
    const unsure = await startProxy(t, 422, "application/json", '{"detail":"what is this?"}');
    for (const [url, line] of [
      [down, /^\n\[API error 502 .*Bad gateway.{1,450}\]\n$/],
      [unsure, /^\n\[API error 422 {"detail":"what is this\?"}\]\n$/], // nothing was dropped
      [gone.url, /^\n\[.*http:\/\/127\.0\.0\.1:.*ECONNREFUSED.*\]\n$/],
    ] as const) {
      const run = await start(t, lesson, ["go"], { env: { ANTHROPIC_BASE_URL: url } });
      assert.equal(await run.ended, 1);
      assert.match(run.screen(), line);
    }
  });

  const unset = { ANTHROPIC_API_KEY: undefined };

  test("takes its settings from the .env above the lessons, but variables of the environment win", async (t) => {
    const dotEnv = "ANTHROPIC_API_KEY=from-file\nMODEL_ID=claude-of-file\nTHINKING=off\n";
    const env = { ...unset, MODEL_ID: "claude-of-environment" };
    const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], dotEnv, env });
    assert.equal(await run.ended, 0, run.screen());
    const { request } = run.journal[0] ?? {};
    assert.deepEqual([request?.model, request?.thinking], ["claude-of-environment", undefined]);
  });

  test("names the variable and the character if a key can't be sent, but never shows the key", async (t) => {
    for (const [name, key, stray] of [
      ["ANTHROPIC_API_KEY", "secret-…", '"…"'],
      ["ANTHROPIC_API_KEY", "secret\nsecret", String.raw`"\n"`],
      ["ANTHROPIC_AUTH_TOKEN", "“secret”", '"“"'],
    ] as const) {
      const run = await start(t, lesson, ["go"], { env: { ...unset, [name]: key } });
      assert.equal(await run.ended, 1);
      assert.match(run.screen(), new RegExp(`^\n\\[${name} contains .*\\]\n$`));
      assert.ok(run.screen().includes(stray) && !run.screen().includes("secret"), run.screen());
      assert.equal(run.journal.length, 0);
    }
  });

  test("cuts blanks and newlines off the ends of a key, in the environment as in .env", async (t) => {
    const settings = [{ env: { ANTHROPIC_API_KEY: " key\n" } }, { env: unset, dotEnv: 'ANTHROPIC_API_KEY=" key\n"\n' }];
    for (const setting of settings) {
      const run = await start(t, lesson, ["go"], { replies: [say("Hello.")], ...setting });
      assert.equal(await run.ended, 0, run.screen());
    }
  });

  test("says in one line what to set if there is no key, even if the workspace has a .env with one", async (t) => {
    const files = { ".env": "ANTHROPIC_API_KEY=planted\n" };
    const run = await start(t, lesson, ["go"], { files, env: unset });
    assert.equal(await run.ended, 1);
    assert.match(run.screen(), /^\n?\[.*ANTHROPIC_API_KEY.*npm start.*\]\n$/);
    assert.equal(run.journal.length, 0);
  });
});

onEachAtOnce("main", PROGRAMS, false, (lesson) => {
  test("says in one line why a request failed and what was dropped, and exits with 1 in the end", async (t) => {
    const run = await start(t, lesson, ["-y"], {
      input: "1\n2\n3\n4\n5\n6\n7\n8\n",
      replies: [say("half"), ...Array(3).fill(bash("echo never")), call(), bash("echo done"), say("All done.")],
      failures: [
        { kind: "status", status: 401 },
        { kind: "drop" },
        { kind: "error_event" },
        { kind: "error_event", status: 429 },
        { kind: "broken_json" },
        PASS,
        PASS,
        MALFORMED,
      ],
    });
    for (const message of [/invalid x-api-key/, /malformed/]) expectRejection(message);
    assert.equal(await run.ended, 1);
    const lines = run.screen().match(/^\[(?!context|if ).*\]$/gm) ?? [];
    const whys = [/401/, /^\[the reply broke off: \w+/, /Overloaded/, /429/, /JSON/, /empty/, /malformed.*dropped/];
    assert.equal(lines.length, whys.length, run.screen());
    for (const [i, why] of whys.entries()) assert.match(lines[i] ?? "", why);
    assert.match(run.screen(), /All done\.\n(\[.*\n)?$/);
  });

  test("--help and -h print how to start it, and nothing else happens", async (t) => {
    for (const flag of ["--help", "-h"]) {
      const run = await start(t, lesson, [flag, "a request"]);
      assert.equal(await run.ended, 0);
      const usage = `^npx tsx .*${lesson}.* \\[-y: never ask\\] \\["a request"\\]\n(.*--resume FILE.*\n)?$`;
      assert.match(run.screen(), new RegExp(usage));
      assert.equal(run.screen().includes("--resume"), lesson === PROGRAMS.s06);
      assert.equal(run.journal.length, 0);
    }
  });
});

// --- in a terminal -------------------------------------------------------------------------------------------------

const [CTRL_A, CTRL_C, CTRL_D, CTRL_Z] = ["\x01", "\x03", "\x04", "\x1a"];
const QUESTION = /\[y\].*: /;
const STOPPED = /^\[interrupted\]\r$/m;

onEachAtOnce("main", PROGRAMS, noTerminal, (lesson) => {
  const prompt = `${lesson.slice(0, 3)} >> `;

  test("asks before each command; yes and always are understood, anything else is a no; thinking is dim", async (t) => {
    const answers = ["", "yes, but with tee", "n", " Y ", "Yes", lesson === PROGRAMS.s01 ? "A" : " always "];
    const commands = [..."abcdefg"].map((name) => `touch ${name} # \x1b[2J`);
    const last = call({ type: "thinking", thinking: "I think." }, { type: "text", text: "Finished." });
    const run = await start(t, lesson, [], { replies: [bash(...commands), last], terminal: true });
    await run.typeAt(prompt, "make files\r");
    for (const [i, answer] of answers.entries()) {
      await run.waitFor(`touch ${"abcdefg"[i]} # �[2J`);
      await run.typeAt(QUESTION, `${answer}\r`);
    }
    await run.waitFor("\x1b[2mI think.\x1b[22m\r\nFinished.\r\n");
    await run.typeAt(prompt, "q\r");
    assert.equal(await run.ended, 0);
    assert.deepEqual(
      [..."abcdefg"].map((name) => isThere(name, run.cwd)),
      [false, false, false, true, true, true, true],
    );
    const results = resultsIn(run.journal[1]?.request.messages);
    assert.match(results[1]?.text ?? "", /yes, but with tee/);
  });

  test("Ctrl-C brings back the prompt and drops the whole line being typed, and the conversation goes on", async (t) => {
    const replies = [say("I see."), bash("touch never"), bash(ENDLESS), ENDLESS_REPLY, say("still here")];
    const failures = [PASS, PASS, PASS, SLOWLY];
    const run = await start(t, lesson, [], { replies, failures, terminal: true });
    const interrupt = async (keys: string) => {
      run.type(keys);
      await run.waitFor(STOPPED);
      await run.typeAt(prompt, CTRL_C); // a second Ctrl-C reaches the prompt
    };
    await run.typeAt(prompt, "first\r");
    await run.waitFor("I see.");
    await run.typeAt(prompt, "second\r");
    await run.waitFor(QUESTION);
    await interrupt(CTRL_C);
    run.type("third\r");
    await run.typeAt(QUESTION, "y\r");
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
    await run.typeAt(prompt, CTRL_D);
    assert.equal(await run.ended, 1, "a request failed");
    const asked = textsIn(run.journal[4]?.request.messages);
    const requests = asked.filter((text) => text !== NOTE);
    assert.deepEqual(requests, ["first", "second", "third", "fourth", "fifth"]);
    assert.ok(!isThere("never", run.cwd), "nothing has run unasked");
  });
});

onEachAtOnce("main", { s01: PROGRAMS.s01 }, noTerminal, (lesson) => {
  const prompt = "s01 >> ";

  test("Ctrl-Z does nothing, at the prompt, at a question or during a command", async (t) => {
    const replies = [bash(WAIT), say("First done."), say("Second done.")];
    const shell = (agent: string) => `set -m; ${agent}; exit $?`; // with job control, like an interactive shell
    const run = await start(t, lesson, [], { replies, terminal: true, shell });
    await run.typeAt(prompt, `${CTRL_Z}first\r`);
    await run.typeAt(QUESTION, `${CTRL_Z}y\r`);
    await until(() => isThere("begun", run.cwd));
    run.type(`${CTRL_Z}draft`);
    await run.waitFor("draft");
    goOnIn(run.cwd);
    await run.waitFor("First done.");
    await run.typeAt(prompt, `${CTRL_C}second\r`);
    await run.waitFor("Second done.");
    await run.typeAt(prompt, "q\r");
    assert.equal(await run.ended, 0, run.screen());
  });

  test("a long draft isn't the answer to a question; it comes back after it, and erases nothing from the screen", async (t) => {
    const asking = call({ type: "text", text: "Before the question." }, use("bash", { command: "touch never" }));
    const replies = [bash(WAIT), asking, say("First done."), say("Second done.")];
    const shell = (agent: string) => `stty cols 40; ${agent}`;
    const run = await start(t, lesson, [], { replies, terminal: true, shell });
    await run.typeAt(prompt, "first\r");
    await run.typeAt(QUESTION, "y\r");
    await until(() => isThere("begun", run.cwd));
    const draft = `${"long ".repeat(25)}END`;
    run.type(draft);
    await run.typeAt("END", "X\x7f"); // a correction makes readline redraw the line and count its rows
    await run.waitFor("END");
    goOnIn(run.cwd);
    await run.waitFor(QUESTION);
    const [, below = "", up = "0"] = /touch never.*\r\n([\s\S]*?)\x1b\[(\d+)A/.exec(run.screen()) ?? [];
    assert.ok(below.split("\n").length > Number(up), "readline moves up to erase the draft, but not past the command");
    run.type("\r");
    await run.waitFor("First done.");
    await run.typeAt(prompt, " and more\r");
    await run.typeAt("Second done.", CTRL_D);
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
    await run.typeAt(prompt, lines.join("\r"));
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
    await run.typeAt(prompt, CTRL_D);
    assert.equal(await run.ended, 0);
  });

  test("the running command ends with the agent when its terminal is closed", async (t) => {
    const run = await start(t, lesson, ["-y", "go"], { replies: [bash(ENDLESS)], terminal: true });
    await until(() => isUp(run.cwd));
    run.child.kill("SIGKILL"); // the child is script, which plays the terminal
    await bothEnd(run.cwd);
  });
});

const isRoot = process.getuid?.() === 0;
onEachAtOnce("main", { s01: PROGRAMS.s01 }, noTerminal || (!isRoot && "needs root"), (lesson) => {
  test("goes on after Ctrl-C in another user's command, which it isn't allowed to end", async (t) => {
    const replies = [bash("echo $$ > pid; exec ./as-root --reuid=0 --clear-groups sleep 3600"), say("still here")];
    const shell = (agent: string) => `cp "$(which setpriv)" as-root; chmod 4755 as-root; chmod 777 .
    chmod -R a+rX "$(dirname ${agent.split(" ")[1]})/.."; exec setpriv --reuid=65534 --clear-groups ${agent}`;
    const run = await start(t, lesson, ["-y"], { replies, terminal: true, shell });
    await run.typeAt("s01 >> ", "first\r");
    await until(() => hasPid("pid", run.cwd));
    const pid = pidIn("pid", run.cwd);
    t.after(() => process.kill(pid));
    await until(() => readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n");
    run.type(CTRL_C);
    await run.typeAt(STOPPED, "second\r");
    await run.waitFor("still here");
    assert.ok(isRunning(pid), "it runs on");
  });
});
