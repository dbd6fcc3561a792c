import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, before, beforeEach, describe, type TestContext } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { type Failure, type Reply, type ReplyBlock, scripted, startServer } from "../offline/server.ts";
import {
  enterWorkspace,
  FILE,
  filesIn,
  goTo,
  isRunning,
  LESSON,
  server,
  start,
  TSX,
  test,
  underTest,
  until,
} from "./harness.ts";
import { say, user } from "./replies.ts";

const folder = enterWorkspace();
const s01 = await underTest<typeof import("../agents/s01_agent_loop.ts")>();
const { agentLoop, approval, runBash } = s01;

// Replies, histories and what is in them.

const use = (input: unknown, name = "bash"): ReplyBlock => ({ type: "tool_use", name, input });
const call = (...commands: string[]): Reply => ({ content: commands.map((command) => use({ command })) });
const blocksIn = (messages: Anthropic.MessageParam[]) =>
  messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
const resultsIn = (messages: Anthropic.MessageParam[]) =>
  blocksIn(messages)
    .filter((block) => block.type === "tool_result")
    .map((result) => ({ id: result.tool_use_id, text: String(result.content), failed: result.is_error === true }));
const callsIn = (messages: Anthropic.MessageParam[]) => blocksIn(messages).filter((block) => block.type === "tool_use");
/** No failure: lets one request through to the next in the queue. */
const PASS: Failure = { kind: "slow", delay: 0 };
const status = (code: 400 | 401 | 429 | 529, message?: string): Failure => ({
  kind: "status",
  status: code,
  message,
  retryAfter: 0.01,
});

/** Runs the loop on a history that ends with a request, against these replies. */
async function turn(replies: Reply[], messages = [user("go")], signal?: AbortSignal) {
  server.model = scripted(...replies);
  const before = server.journal.length;
  const outcome = await agentLoop(messages, { signal });
  const sent = server.journal.slice(before);
  for (const entry of sent)
    if (entry.error !== "drop" && entry.error !== "error_event") assert.equal(entry.error, undefined);
  return { outcome, messages, sent, results: resultsIn(messages) };
}

/** Goes on with a history, which shows that the API still accepts it. Returns the request as it was sent. */
async function goOn(messages: Anthropic.MessageParam[]): Promise<Anthropic.MessageParam[]> {
  const { outcome, sent } = await turn([say("still here")], [...messages, user("and now?")]);
  assert.equal(outcome, "done");
  return sent[0]?.request.messages ?? [];
}

/** The one result of a command that the model calls. */
async function resultOf(command: string) {
  const { results } = await turn([call(command), say("done")]);
  assert.equal(results.length, 1);
  return results[0] ?? { id: "", text: "", failed: false };
}

function pidIn(name: string): number {
  const pid = Number(readFileSync(join(folder, name), "utf8"));
  assert.equal(pid > 0, true);
  return pid;
}

/**
 * A command that goes on until it is killed, with a child in the background; their ids go into two files. What it prints
 * is more than pipes hold, so that the beginning has arrived when it is up.
 */
const ENDLESS = `echo before; head -c 300000 /dev/zero | tr '\\0' x
  sleep 1000 & echo $! > child; echo $$ > parent; echo > up; wait`;
const isUp = () => existsSync(join(folder, "up"));
const bothEnded = () => !isRunning(pidIn("parent")) && !isRunning(pidIn("child"));

describe(`what s01 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  describe("the loop and its tool", () => {
    beforeEach(() => {
      approval.always = true;
      approval.ask = undefined;
    });
    afterEach(() => {
      for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
    });

    // The call.

    test("a request goes out as a stream, with the cache on, thinking in words and much room for the reply", async () => {
      const { sent } = await turn([say("hello")]);
      const request = sent[0]?.request;
      assert.ok(request, "there is none");
      assert.equal(request.stream, true);
      assert.equal(request.model, "claude-sonnet-5-5");
      assert.equal(request.max_tokens, 32_000);
      assert.deepEqual(request.cache_control, { type: "ephemeral" });
      assert.deepEqual(request.thinking, { type: "adaptive", display: "summarized" });
      assert.equal(request.system, s01.SYSTEM);
      assert.equal(s01.SYSTEM.includes(folder), true);
    });

    test("the only tool is bash, in plain JSON Schema", async () => {
      const { sent } = await turn([say("hello")]);
      const [tool, ...others] = s01.TOOLS;
      assert.deepEqual(others, []);
      assert.equal(tool?.name, "bash");
      assert.match(tool.description ?? "", /workspace.*120 s/);
      assert.deepEqual(tool.input_schema.properties, { command: { type: "string" } });
      assert.deepEqual(tool.input_schema.required, ["command"]);
      assert.deepEqual(sent[0]?.request.tools, s01.TOOLS);
    });

    // The loop.

    test("a reply without calls ends the turn after one request", async () => {
      const { outcome, messages, sent } = await turn([say("hello")]);
      assert.equal(outcome, "done");
      assert.equal(sent.length, 1);
      assert.deepEqual(
        messages.map((message) => message.role),
        ["user", "assistant"],
      );
    });

    test("the loop goes on until the model calls no more, and extends the caller's own array", async () => {
      const messages = [user("go")];
      const { outcome, sent } = await turn([call("echo one"), call("echo two"), say("done")], messages);
      assert.equal(outcome, "done");
      assert.equal(sent.length, 3);
      assert.deepEqual(
        messages.map((message) => message.role),
        ["user", "assistant", "user", "assistant", "user", "assistant"],
      );
      assert.deepEqual(
        resultsIn(sent[2]?.request.messages ?? []).map((result) => result.text),
        ["one", "two"],
      );
    });

    test("several calls in one reply run in their order, and their results come in that order in one message", async () => {
      const { messages, results } = await turn([
        call("echo a >> log", "cat log", "echo b >> log; cat log"),
        say("done"),
      ]);
      assert.deepEqual(
        results.map((result) => result.text),
        ["(no output)", "a", "a\nb"],
      );
      assert.deepEqual(
        results.map((result) => result.id),
        callsIn(messages).map((block) => block.id),
      );
      assert.equal(messages.length, 4);
    });

    test("calls are run although the stop reason says that the turn has ended", async () => {
      const { results, sent } = await turn([{ ...call("echo ran"), stop_reason: "end_turn" }, say("done")]);
      assert.equal(results[0]?.text, "ran");
      assert.equal(sent.length, 2);
    });

    test("a reply without calls ends the turn although the stop reason says tool_use", async () => {
      const { outcome, sent } = await turn([{ ...say("nothing to do"), stop_reason: "tool_use" }]);
      assert.equal(outcome, "done");
      assert.equal(sent.length, 1);
    });

    test("thinking goes back with its signature, also redacted and between calls", async () => {
      const reply: Reply = {
        content: [
          { type: "thinking", thinking: "first this" },
          { type: "redacted_thinking" },
          { type: "text", text: "I look around." },
          use({ command: "echo 1" }),
          { type: "thinking", thinking: "then that" },
          use({ command: "echo 2" }),
        ],
      };
      const { messages } = await turn([reply, say("done")]);
      assert.equal(blocksIn(messages).filter((block) => block.type.endsWith("thinking")).length, 4);
      await goOn(messages);
    });

    test("an empty reply ends the turn and leaves nothing in the history", async () => {
      for (const content of [
        [],
        [{ type: "text", text: " \n" }],
        [{ type: "text", text: "" }],
      ] satisfies ReplyBlock[][]) {
        const { outcome, messages } = await turn([{ content }]);
        assert.equal(outcome, "done");
        assert.deepEqual(messages, [user("go")]);
        await goOn(messages);
      }
    });

    test("an empty reply after results leaves a history that goes on", async () => {
      const { messages } = await turn([call("echo hi"), { content: [] }]);
      assert.equal(messages.length, 3);
      await goOn(messages);
    });

    test("blank text beside a call is left out, and so is the thinking that followed it", async () => {
      server.fail({ kind: "blank_text" });
      const [before, after] = ["before", "after"].map((thinking) => ({ type: "thinking", thinking }) as const);
      assert.ok(before && after, "there is none");
      const content = [before, use({ command: "echo hi" }), after, use({ command: "echo ho" })];
      const { messages, results } = await turn([{ content }, say("done")]);
      assert.deepEqual(
        results.map((result) => result.text),
        ["hi", "ho"],
      );
      const kept = blocksIn(messages.slice(0, 2)).map((block) =>
        block.type === "thinking" ? block.thinking : block.type,
      );
      assert.deepEqual(kept, ["before", "tool_use", "tool_use"]);
      await goOn(messages);
    });

    test("lone surrogates in a reply do not reach the history, in a text or deep in an input", async () => {
      const reply: Reply = {
        content: [
          { type: "text", text: "half \ud83d of it" },
          use({ command: "printf '%s' 'a\udc00b'", more: [{ deep: "\ud800" }] }),
        ],
      };
      const { messages, results } = await turn([reply, say("so \udfff")]);
      assert.equal(results[0]?.text, "a\ufffdb");
      assert.equal(JSON.stringify(messages).includes("half \ufffd of it"), true);
      await goOn(messages);
    });

    test("a lone surrogate in the name of a field does not reach the history", async () => {
      const { messages } = await turn([{ content: [use({ command: "echo hi", "more\ud800": 1 })] }, say("done")]);
      await goOn(messages);
    });

    test("a lone surrogate before thinking of the same reply does not spoil the history", async () => {
      const reply: Reply = {
        content: [
          { type: "text", text: "half \ud83d of it" },
          { type: "thinking", thinking: "and then" },
          use({ command: "echo hi" }),
        ],
      };
      const { messages } = await turn([reply, say("done")]);
      await goOn(messages);
    });

    test("what the model or the tools write in Chinese arrives unharmed", async () => {
      const { messages, results } = await turn([call("echo '你好，世界 😀'"), say("好的")]);
      assert.equal(results[0]?.text, "你好，世界 😀");
      assert.equal(JSON.stringify(await goOn(messages)).includes("好的"), true);
    });

    // Calls that cannot be run.

    test("an unknown tool is an error that the model is told, whatever the name", async () => {
      const names = ["python", "constructor", "__proto__", "toString", "Bash"];
      const { outcome, messages, results } = await turn([
        { content: names.map((name) => use({ command: "touch ran" }, name)) },
        say("sorry"),
      ]);
      assert.equal(outcome, "done");
      for (const [i, name] of names.entries()) {
        assert.equal(results[i]?.failed, true);
        assert.match(results[i].text, new RegExp(`unknown tool.*${name}.*bash`, "s"));
      }
      assert.equal(existsSync(join(folder, "ran")), false);
      await goOn(messages);
    });

    test("an input that does not fit the schema is an error that names the field", async () => {
      const inputs = [{}, { command: 7 }, { command: null }, { command: ["ls"] }, { cmd: "ls" }, { command: { a: 1 } }];
      const { messages, results } = await turn([{ content: inputs.map((input) => use(input)) }, say("sorry")]);
      assert.equal(results.length, inputs.length);
      for (const result of results) {
        assert.equal(result.failed, true);
        assert.match(result.text, /command/);
      }
      await goOn(messages);
    });

    test("an input that is no object is an error and leaves a history that the API accepts", async () => {
      for (const input of ["ls", ["ls"], null]) {
        const { messages, results } = await turn([{ content: [use(input)] }, say("sorry")]);
        assert.equal(results[0]?.failed, true);
        assert.deepEqual(callsIn(messages)[0]?.input, { input }, "the model sees what it sent");
        await goOn(messages);
      }
    });

    test("a name that no tool may have is mended in the history, so that the API accepts it", async () => {
      const names = ["functions.bash", "ls -l", "查", "", "x".repeat(201)];
      const { messages, results } = await turn([{ content: names.map((name) => use({}, name)) }, say("sorry")]);
      assert.deepEqual(
        callsIn(messages).map(({ name }) => name),
        ["functions_bash", "ls_-l", "_", "_", "x".repeat(200)],
      );
      assert.ok(results.every(({ text, failed }) => failed && text.startsWith("unknown tool")));
      await goOn(messages);
    });

    test("a command that cannot be started is an error that the model is told", async () => {
      const { results, messages } = await turn([call("echo a\0b", "echo after"), say("sorry")]);
      assert.deepEqual(
        results.map((result) => result.failed),
        [true, false],
      );
      await goOn(messages);
    });

    // Cut replies.

    test("a call that max_tokens cut is not run, and its result says so; the loop goes on", async () => {
      server.fail({ kind: "max_tokens" });
      const { outcome, messages, results, sent } = await turn([
        call("echo whole > first", "touch part-of-a-long-name"),
        say("done"),
      ]);
      assert.equal(outcome, "done");
      assert.equal(sent[0]?.stop_reason, "max_tokens");
      assert.deepEqual(filesIn(folder), ["first"]);
      assert.equal(results[0]?.failed, false);
      assert.equal(results[1]?.failed, true);
      assert.match(results[1].text, /not run.*(limit|incomplete)/);
      await goOn(messages);
    });

    test("with max_tokens the last call is not run even if it looks complete", async () => {
      const { results } = await turn([{ ...call("touch a", "touch b"), stop_reason: "max_tokens" }, say("done")]);
      assert.deepEqual(filesIn(folder), ["a"]);
      assert.deepEqual(
        results.map((result) => result.failed),
        [false, true],
      );
    });

    test("with max_tokens a call that is not the last block is whole and is run", async () => {
      const reply: Reply = { content: [use({ command: "echo ran" }), { type: "text", text: "And n" }] };
      const { results } = await turn([{ ...reply, stop_reason: "max_tokens" }, say("done")]);
      assert.deepEqual(results[0] && { ...results[0], id: "" }, { id: "", text: "ran", failed: false });
    });

    test("three cut replies in a row end the turn", async () => {
      server.fail({ kind: "max_tokens" }, { kind: "max_tokens" }, { kind: "max_tokens" });
      const { outcome, messages, sent, results } = await turn([call("touch a1"), call("touch a2"), call("touch a3")]);
      assert.equal(outcome, "cut off");
      assert.equal(sent.length, 3);
      assert.equal(
        results.every((result) => result.failed),
        true,
      );
      await goOn(messages);
    });

    test("a whole reply between them starts the count of cut replies anew", async () => {
      const cut: Failure = { kind: "max_tokens" };
      server.fail(cut, cut, PASS, cut, cut);
      const { outcome, sent } = await turn([
        ...Array.from({ length: 5 }, (_, i) => call(`echo number ${i}`)),
        say("done"),
      ]);
      assert.equal(outcome, "done");
      assert.equal(sent.length, 6);
    });

    test("a text that max_tokens cut ends the turn at once and stays", async () => {
      server.fail({ kind: "max_tokens" });
      const { outcome, messages, sent } = await turn([say("0123456789")]);
      assert.equal(outcome, "cut off");
      assert.equal(sent.length, 1);
      assert.equal(JSON.stringify(messages.at(-1)).includes("01234"), true);
      await goOn(messages);
    });

    test("a call that a full context window cut is not run either", async () => {
      server.fail({ kind: "context_window" });
      const { results, messages } = await turn([call("touch part-of-a-long-name"), say("done")]);
      assert.equal(results[0]?.failed, true);
      assert.deepEqual(filesIn(folder), []);
      await goOn(messages);
    });

    // Refusal.

    test("a refusal takes the request and its rounds out of the history, and runs none of its calls", async () => {
      const messages = [user("first")];
      await turn([say("fine")], messages);
      const before = structuredClone(messages);
      messages.push(user("something bad"));
      server.fail(PASS, { kind: "refusal" });
      const { outcome } = await turn([call("echo harmless"), call("touch harm")], messages);
      assert.equal(outcome, "refused");
      assert.deepEqual(messages, before);
      assert.deepEqual(filesIn(folder), []);
      assert.equal(JSON.stringify(await goOn(messages)).includes("bad"), false);
    });

    // The bound.

    test("200 KB on one line are cut to 50,000 characters: head and tail stay, and the cut is stated", async () => {
      const { text, failed } = await resultOf("printf BEGIN; head -c 200000 /dev/zero | tr '\\0' x; printf END");
      assert.ok(text.length <= 50_000 && text.length > 49_000, String(text.length));
      const [, head = "", cut, tail = ""] = /^(BEGINx+)\n.* (\d+) of 200008 .*\n(x+END)$/.exec(text) ?? [];
      assert.equal(head.length + Number(cut) + tail.length, 200_008);
      assert.equal(failed, false);
      const oneTooMany = await resultOf("head -c 50001 /dev/zero | tr '\\0' x");
      assert.match(oneTooMany.text, /^x+\n.* of 50001 .*\nx+$/);
    });

    test("a result of 50,000 characters is left as it is", async () => {
      const { text } = await resultOf("head -c 50000 /dev/zero | tr '\\0' x");
      assert.equal(text, "x".repeat(50_000));
    });

    test("an emoji that the cut splits does not spoil the history", async () => {
      for (const lead of ["", "x"]) {
        const { messages, results } = await turn([
          call(`printf '${lead}'; yes 😀 | head -n 60000 | tr -d '\\n'`),
          say("ok"),
        ]);
        assert.equal(results[0] && results[0].text.length <= 50_000 && results[0].text.isWellFormed(), true);
        await goOn(messages);
      }
    });

    test("an error message is bounded as well", async () => {
      approval.always = false;
      approval.ask = async () => "no ".repeat(70_000);
      const { results, messages } = await turn([call("ls"), say("ok")]);
      assert.equal(results[0]?.failed, true);
      assert.equal(results[0].text.length <= 50_000, true);
      await goOn(messages);
    });

    // API errors.

    const isStatus = (code: number) => (error: unknown) => error instanceof Anthropic.APIError && error.status === code;

    test("an API error is thrown at once and leaves the history as it was", async () => {
      for (const code of [400, 401] as const) {
        const messages = [user("go")];
        const before = server.journal.length;
        server.fail(status(code));
        await assert.rejects(agentLoop(messages), isStatus(code));
        assert.equal(server.journal.length, before + 1);
        assert.deepEqual(messages, [user("go")]);
        await goOn(messages);
      }
    });

    test("an API error after a round keeps the round", async () => {
      const messages = [user("go")];
      server.model = scripted(call("echo kept"));
      server.fail(PASS, status(401));
      await assert.rejects(agentLoop(messages), isStatus(401));
      assert.equal(resultsIn(messages)[0]?.text, "kept");
      await goOn(messages);
    });

    test("an overloaded server is tried again by the SDK, and then reported", async () => {
      server.fail(status(529), status(429));
      server.model = scripted(say("made it"));
      const messages = [user("go")];
      assert.equal(await agentLoop(messages), "done");
      server.fail(status(529), status(529), status(529));
      const before = server.journal.length;
      await assert.rejects(agentLoop([...messages, user("more")]), isStatus(529));
      assert.equal(server.journal.length, before + 3);
    });

    test("a stream that breaks in the middle is tried once more", async () => {
      for (const kind of ["drop", "error_event"] as const) {
        server.fail({ kind });
        const { outcome, messages, sent } = await turn([
          call("echo once >> log"),
          call("echo once >> log"),
          say("done"),
        ]);
        assert.equal(outcome, "done");
        assert.equal(sent.length, 3);
        assert.equal(callsIn(messages).length, 1);
        await goOn(messages);
      }
      assert.equal(readFileSync("log", "utf8"), "once\nonce\n");
    });

    test("a stream that breaks twice is reported, and the history stays valid", async () => {
      for (const kind of ["drop", "error_event"] as const) {
        const messages = [user("go")];
        const before = server.journal.length;
        server.model = scripted(say("some words that break off"), say("some words that break off"));
        server.fail({ kind }, { kind });
        await assert.rejects(agentLoop(messages), Anthropic.AnthropicError);
        assert.equal(server.journal.length, before + 2);
        assert.deepEqual(messages, [user("go")]);
        await goOn(messages);
      }
    });

    test("each call of a turn may break once", async () => {
      server.fail({ kind: "drop" }, PASS, { kind: "drop" });
      const { outcome } = await turn([call("echo 1"), call("echo 1"), say("all done here"), say("all done here")]);
      assert.equal(outcome, "done");
    });

    // Interruption.

    test("an interrupt kills the running command with all that it started, and answers the remaining calls", async () => {
      const stop = new AbortController();
      const running = turn([call("echo first", ENDLESS, "touch never", "touch nor-this")], [user("go")], stop.signal);
      await until(isUp);
      stop.abort();
      const { outcome, messages, results, sent } = await running;
      assert.equal(outcome, "interrupted");
      assert.equal(sent.length, 1);
      await until(bothEnded);
      assert.equal(results.length, 4);
      assert.equal(results[0]?.text, "first");
      assert.match(results[1]?.text ?? "", /before\nx.*interrupted/s);
      assert.deepEqual(
        results.slice(2).map((result) => result.text),
        ["(interrupted by user)", "(interrupted by user)"],
      );
      assert.equal(!existsSync("never") && !existsSync("nor-this"), true);
      await goOn(messages);
    });

    test("an interrupt in the middle of a reply ends the turn without an error", async () => {
      const stop = new AbortController();
      const messages = [user("go")];
      server.fail({ kind: "slow", delay: 60 });
      const before = server.journal.length;
      const running = turn([say("word ".repeat(1000))], messages, stop.signal);
      await until(() => server.journal[before]?.reply !== undefined);
      stop.abort();
      const { outcome } = await running;
      assert.equal(outcome, "interrupted");
      assert.deepEqual(messages, [user("go")]);
      await goOn(messages);
    });

    test("with a signal that has already been given, nothing is sent", async () => {
      const { outcome, sent } = await turn([], [user("go")], AbortSignal.abort());
      assert.equal(outcome, "interrupted");
      assert.equal(sent.length, 0);
    });

    test("the question for a long command says how much there is to read, and shows which lines belong to it", async () => {
      const questions: string[] = [];
      approval.always = false;
      approval.ask = async (question) => {
        questions.push(question);
        return "n";
      };
      await turn([
        call(
          "true",
          `touch a${"\n".repeat(60)}$ ls`,
          "true\ntrue",
          `true ${" ".repeat(195)}`,
          `true ${" ".repeat(196)}`,
        ),
        say("as you like"),
      ]);
      const sizes = ["", " (61 lines, 71 characters)", " (2 lines, 9 characters)", "", " (1 lines, 201 characters)"];
      assert.deepEqual(
        questions.map((question) => question.split("?")[0]),
        sizes.map((size) => `Run it${size}`),
      );
    });

    test("an interrupt while the person is asked is no answer: nothing runs", async () => {
      const stop = new AbortController();
      approval.always = false;
      approval.ask = (_question, signal) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason));
          stop.abort();
        });
      const { outcome, results, messages } = await turn([call("touch a", "touch b")], [user("go")], stop.signal);
      assert.equal(outcome, "interrupted");
      assert.deepEqual(
        results.map((result) => result.text),
        ["(interrupted by user)", "(interrupted by user)"],
      );
      assert.deepEqual(filesIn(folder), []);
      await goOn(messages);
    });

    // Approval.

    /** What becomes of two commands when the person answers like this; an answer too many fails the test. */
    async function answering(...answers: string[]) {
      const questions: string[] = [];
      approval.always = false;
      approval.ask = async (question) => {
        questions.push(question);
        const answer = answers.shift();
        assert.ok(answer !== undefined, "asked too often");
        return answer;
      };
      const { results, messages } = await turn([call("touch a; echo ran a", "touch b; echo ran b"), say("ok")]);
      await goOn(messages);
      return { questions, results, files: filesIn(folder) };
    }

    test("Enter and y run the command; the person is asked about each", async () => {
      const { questions, files } = await answering("", " Y ");
      assert.equal(questions.length, 2);
      assert.deepEqual(files, ["a", "b"]);
    });

    test("n refuses one command, and the model is told so", async () => {
      const { results, files } = await answering("n", "y");
      assert.deepEqual(files, ["b"]);
      assert.equal(results[0]?.failed, true);
      assert.match(results[0].text, /refused/);
    });

    test("any other answer refuses too", async () => {
      for (const answers of [
        ["no way", "yy"],
        ["all", "ya"],
      ])
        assert.deepEqual((await answering(...answers)).files, []);
    });

    for (const letter of ["a", "A"]) {
      test(`${letter} runs the command and stops asking`, async () => {
        const { questions, files } = await answering(letter);
        assert.equal(questions.length, 1);
        assert.deepEqual(files, ["a", "b"]);
      });
    }

    test("an error without words is one all the same: the API takes no failed result that is empty", async () => {
      approval.always = false;
      approval.ask = async () => {
        throw new Error("");
      };
      const { results, messages } = await turn([call("ls"), say("a pity")]);
      assert.deepEqual(
        results.map(({ text, failed }) => [text, failed]),
        [["Error", true]],
      );
      await goOn(messages);
    });

    test("when nobody can be asked, the command is refused and the model is told how the person can allow it", async () => {
      approval.always = false;
      const { results } = await turn([call("touch a"), say("ok")]);
      assert.equal(results[0]?.failed, true);
      assert.match(results[0].text, /-y/);
      assert.deepEqual(filesIn(folder), []);
    });

    test("no words in a command forbid it: the person decides", async () => {
      const words = "sudo rm -rf / && shutdown now && reboot > /dev/sda";
      assert.equal((await resultOf(`echo '${words}'`)).text, words);
    });

    // bash.

    test("bash runs in the workspace", async () => {
      assert.equal((await resultOf("pwd")).text, folder);
    });

    test("stdout and stderr come back in the order in which they were written", async () => {
      const command = "for i in 1 2 3; do echo out $i; echo err $i >&2; done; echo last > /dev/stderr";
      assert.equal(await runBash(command), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nlast");
    });

    test("the exit code is told when it is not 0", async () => {
      assert.equal(await runBash("echo some; exit 3"), "some\n(exit code 3)");
      assert.match(await runBash("kill -9 $$"), /SIGKILL/);
      assert.match(await runBash("if then"), /syntax error.*\(exit code 2\)$/s);
    });

    test("a command that prints nothing says so", async () => {
      assert.equal(await runBash("true"), "(no output)");
      assert.equal(await runBash("false"), "(no output)\n(exit code 1)");
    });

    test("a command gets no input, and does not wait for any", async () => {
      assert.equal(await runBash("cat"), "(no output)");
    });

    test("the credentials are not inherited, the rest of the environment is", async (t) => {
      process.env.ANTHROPIC_AUTH_TOKEN = "secret";
      t.after(() => delete process.env.ANTHROPIC_AUTH_TOKEN);
      const output = await runBash("env");
      assert.doesNotMatch(output, /ANTHROPIC_API_KEY|ANTHROPIC_AUTH_TOKEN/);
      assert.match(output, /ANTHROPIC_BASE_URL/);
    });

    test("after 120 s a command is killed, and what it has printed is kept", async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const running = runBash(ENDLESS);
      while (!isUp()) await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(120_000);
      assert.match(await running, /^before\nx.*120 s/s);
      t.mock.timers.reset();
      await until(bothEnded);
    });

    test("a process in the background lives on, prints on, and does not keep the call waiting", async (t) => {
      const pid = Number(
        await runBash(
          "(until [ -e go ]; do sleep 0.02; done; head -c 300000 /dev/zero && touch after; sleep 1000) & echo $!",
        ),
      );
      t.after(() => process.kill(pid));
      assert.equal(isRunning(pid), true);
      writeFileSync("go", "");
      await until(() => existsSync("after"));
      assert.equal(isRunning(pid), true);
    });

    test("all that a command wrote arrives, however long it is on its way", async (t) => {
      const path = process.env.PATH;
      t.after(() => {
        process.env.PATH = path;
      });
      mkdirSync("slow");
      writeFileSync("slow/cat", "#!/bin/sh\nsleep 1\ndd bs=2 count=1 2> /dev/null\nsleep 1\nexec /bin/cat\n", {
        mode: 0o755,
      });
      process.env.PATH = `${join(folder, "slow")}:${path}`;
      assert.equal(await runBash("echo all"), "all");
      for (const [last, ending] of [
        ["true", ""],
        ["kill -9 $$", "\n(killed by SIGKILL)"],
      ]) {
        const output = await runBash(`sleep 1000 & echo $! > pid; echo of it; ${last}`);
        process.kill(pidIn("pid"), "SIGKILL");
        assert.equal(output, `of it${ending}`);
      }
      assert.match(await runBash("ps ax -o args; echo $((6 * 7))"), /\n42$/);
    });

    test("an interrupt after its command has ended does not reach a process in the background", async (t) => {
      const stop = new AbortController();
      const pid = Number(await runBash("sleep 1000 & echo $!", stop.signal));
      t.after(() => process.kill(pid));
      stop.abort();
      assert.equal(await runBash("echo later"), "later");
      assert.equal(isRunning(pid), true);
    });

    test("of 23 MB of output 10 MB are captured: beginning and end stay, and the cut is stated", async () => {
      const whole = Array.from({ length: 3_000_000 }, (_, i) => i + 1).join("\n");
      const inPieces = "for i in {1..3000}; do echo $i; done; seq 3001 3000000";
      for (const command of ["seq 3000000", inPieces]) {
        const output = await runBash(command);
        assert.ok(output.length < 10_001_000, String(output.length));
        const [head = "", missing, tail = ""] = output.split(/\n\[.* (\d+) bytes.*\]\n/);
        assert.ok(whole.startsWith(head) && whole.endsWith(tail), "nothing else is missing");
        assert.equal(head.length + Number(missing) + tail.length, whole.length);
        assert.ok(Math.min(head.length, tail.length) > 1_000, `the middle goes, not what comes after ${head.length}`);
      }
      const zeros = (bytes: number) => runBash(`head -c ${bytes} /dev/zero | tr '\\0' x`);
      assert.equal((await zeros(9_999_900)).length, 9_999_900);
      assert.match(await zeros(10_000_001), /not kept/);
    });

    test("binary output becomes well-formed text that the API accepts", async () => {
      const { messages, results } = await turn([
        call("printf '\\xff\\xfe\\x00\\xed\\xa0\\x80end'", "head -c 3000 /dev/urandom"),
        say("ok"),
      ]);
      assert.match(results[0]?.text ?? "", /end$/);
      assert.equal(
        results.every((result) => result.text.isWellFormed()),
        true,
      );
      await goOn(messages);
    });

    test("characters of several bytes survive in long output", async () => {
      assert.doesNotMatch(await runBash("yes 中文字 | head -n 100000"), /[^中文字\n]/);
    });
  });

  // The program.

  const unset = { ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined };
  type Setting = { env?: Record<string, string | undefined>; input?: string; failures?: Failure[] };

  /** Starts the lesson against a server of its own, so that such tests may run side by side. */
  async function lesson(t: TestContext, replies: Reply[], args: string[], { env, input, failures = [] }: Setting = {}) {
    const own = await startServer({ model: scripted(...replies) });
    own.fail(...failures);
    const run = start(LESSON, args, { ANTHROPIC_BASE_URL: own.url, ...env }, input);
    t.after(() => {
      run.child.kill("SIGKILL");
      return own.close();
    });
    return { ...run, journal: own.journal };
  }

  const errorsIn = (journal: { error?: string | undefined }[]) => journal.map((entry) => entry.error).filter(Boolean);

  describe("the program without a terminal", { concurrency: 4 }, () => {
    test("carries out one request with -y and exits with 0; each call is shown before it runs, its result after it", async (t) => {
      const run = await lesson(
        t,
        [call("touch begun; until [ -e release ]; do sleep 0.02; done; seq 2000"), say("All counted.")],
        ["-y", "count", "please"],
      );
      await until(() => existsSync("begun") && run.seen.stdout.includes("touch begun"));
      assert.match(run.seen.stdout, /^.*bash.*touch begun.*\n/m);
      writeFileSync("release", "");
      const { code, stdout, stderr } = await run.ended;
      assert.equal(code, 0, stderr);
      assert.ok(stdout.includes("\n1\n2\n") && !stdout.includes("\n1000\n"), stdout);
      assert.equal(stdout.indexOf("\n1\n2\n") < stdout.indexOf("All counted."), true);
      assert.deepEqual(run.journal[0]?.request.messages, [user("count please")]);
      assert.equal(resultsIn(run.journal[1]?.request.messages ?? [])[0]?.text.length, 8892);
    });

    test("of a result with long lines the beginnings are shown, and how many more lines there are", async (t) => {
      const run = await lesson(
        t,
        [
          call("for n in 5000 200 201; do printf '%*s\\n' $n '' | tr ' ' x; done; seq 9"),
          call("seq 101 105"),
          say("seen"),
        ],
        ["-y", "go"],
      );
      const { stdout } = await run.ended;
      assert.match(stdout, /^x{200}…\nx{200}\nx{200}…\n1\n2\n… 7 more lines$/m);
      assert.match(stdout, /^104\n105\n(?!…)/m);
    });

    test("takes piped requests one a line; blank lines do nothing, q leaves, and the history goes along", async (t) => {
      const run = await lesson(t, [call("cat"), say("one"), say("two")], ["-y"], {
        input: "first\n\n   \nsecond\nq\nthird\n",
        failures: [{ kind: "slow", delay: 20 }],
      });
      const { code, stderr } = await run.ended;
      assert.equal(code, 0, stderr);
      assert.equal(run.journal.length, 3);
      const sent = run.journal[2]?.request.messages ?? [];
      assert.deepEqual(
        sent.filter((message) => typeof message.content === "string"),
        [user("first"), user("second")],
      );
      assert.deepEqual(errorsIn(run.journal), []);
    });

    test("exit leaves as q does, and --yes is -y", async (t) => {
      const run = await lesson(t, [call("touch yes-file"), say("one"), say("two")], ["--yes"], {
        input: "first\nexit\nsecond\n",
      });
      assert.equal((await run.ended).code, 0);
      assert.equal(existsSync("yes-file"), true);
      assert.equal(run.journal.length, 2);
    });

    test("refuses commands when nobody can be asked", async (t) => {
      const run = await lesson(t, [call("touch refused-file"), say("I could not.")], ["make a file"]);
      assert.equal((await run.ended).code, 0);
      assert.equal(existsSync("refused-file"), false);
      assert.match(resultsIn(run.journal[1]?.request.messages ?? [])[0]?.text ?? "", /-y/);
    });

    test("reports API errors on one line each and goes on with a valid history, to a last line without line end", async (t) => {
      const run = await lesson(t, [say("half of this"), say("half of this"), say("fine")], [], {
        failures: [
          status(400, "messages: this one is\n  malformed"),
          status(401, "invalid x-api-key"),
          { kind: "drop" },
          { kind: "drop" },
        ],
        input: "first\nsecond\nthird\n你好",
      });
      const { code, stdout } = await run.ended;
      assert.equal(code, 0);
      assert.match(stdout, /^.*400.*messages: this one is malformed.*$/m);
      assert.match(stdout, /^.*401.*invalid x-api-key.*$/m);
      assert.match(stdout, /^\[(?!.*(401|400)).*error.*\]$/m);
      assert.equal(stdout.includes("fine"), true);
      assert.equal(run.journal.length, 5);
      const sent = run.journal[4]?.request.messages ?? [];
      assert.deepEqual(sent.at(-1), user("你好"));
      assert.ok(!JSON.stringify(sent).includes("first"), "what the API calls invalid must not stay");
      assert.ok(JSON.stringify(sent).includes("second"), "what it was not even asked must");
    });

    test("says what is wrong when the server is not there, and exits with 1", async (t) => {
      // Servers listen at 127.0.0.1. The port of one that was closed could be another one's by now.
      const nowhere = server.url.replace("127.0.0.1", "[::1]");
      const run = await lesson(t, [], ["hello"], { env: { ANTHROPIC_BASE_URL: nowhere } });
      const { code, stdout, stderr } = await run.ended;
      assert.equal(code, 1);
      assert.match(stdout, /^\[API error: Connection error/);
      assert.ok(!stderr.includes("    at "), stderr);
    });

    test("exits with 1 after a refusal, and tells the person", async (t) => {
      const run = await lesson(t, [call("touch refused-too")], ["-y", "bad"], { failures: [{ kind: "refusal" }] });
      const { code, stdout } = await run.ended;
      assert.equal(code, 1);
      assert.match(stdout, /refused/);
      assert.equal(existsSync("refused-too"), false);
    });

    test("prints control characters as visible signs, from the model, its calls and its results", async (t) => {
      const evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m";
      const replies = [call(`printf '%s' '${evil}'`), say(`look: ${evil}`)];
      const { stdout } = await (await lesson(t, replies, ["-y", evil])).ended;
      assert.match(stdout, /look: ␛\]0;owned/);
      assert.doesNotMatch(stdout, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
    });

    test("each block of a reply begins on a line of its own, with no blank one before it", async (t) => {
      const content: ReplyBlock[] = [
        { type: "thinking", thinking: "hm" },
        { type: "text", text: "one\n" },
        { type: "text", text: "two" },
      ];
      const { stdout } = await (await lesson(t, [{ content }], ["hello"])).ended;
      assert.match(stdout, /^hm\none\ntwo\n/m);
    });

    test("prints a line end of Windows as a line end", async (t) => {
      const { stdout } = await (await lesson(t, [say("one\r\ntwo")], ["hello"])).ended;
      assert.match(stdout, /^one\ntwo$/m);
    });

    for (const [what, args, env] of [
      ["a request", ["hello"], unset],
      ["the prompt", [], { ANTHROPIC_API_KEY: "" }],
    ] satisfies [string, string[], Setting["env"]][]) {
      test(`without a credential, ${what} says in one line what to set, and exits with 1`, async (t) => {
        const run = await lesson(t, [], args, { env });
        const { code, stdout, stderr } = await run.ended;
        assert.equal(code, 1);
        assert.equal(stdout, "");
        assert.match(stderr, /^.*ANTHROPIC_API_KEY.*\.env.*npm run demo.*\n$/);
        assert.equal(run.journal.length, 0);
      });
    }

    test("a token in place of the key is a credential, too", async (t) => {
      const run = await lesson(t, [say("hello")], ["hi"], { env: { ...unset, ANTHROPIC_AUTH_TOKEN: "token" } });
      const { code, stderr } = await run.ended;
      assert.equal(code, 0, stderr);
      assert.deepEqual(
        run.journal.map((entry) => entry.status),
        [200],
      );
    });

    test("an unknown option is an error that names it", async (t) => {
      const run = await lesson(t, [say("hi")], ["--yolo", "hello"]);
      const { code, stderr } = await run.ended;
      assert.equal(code, 1);
      assert.match(stderr, /--yolo/);
      assert.ok(!stderr.includes("    at "), stderr);
      assert.equal(run.journal.length, 0);
    });

    test("SIGINT in a command kills its group and ends the turn; the next request finds a valid history", async (t) => {
      const command = "sleep 1000 & echo $! > int-child; echo $$ > int-parent; echo > int-up; wait";
      const run = await lesson(t, [call(command, "touch int-never"), say("yes?")], ["-y"], {
        input: "first\nsecond\n",
      });
      await until(() => existsSync("int-up"));
      run.child.kill("SIGINT");
      assert.equal((await run.ended).code, 0);
      await until(() => !isRunning(pidIn("int-parent")) && !isRunning(pidIn("int-child")));
      assert.equal(existsSync("int-never"), false);
      assert.deepEqual(errorsIn(run.journal), []);
      assert.deepEqual(
        resultsIn(run.journal[1]?.request.messages ?? []).map((result) => /interrupted/.test(result.text)),
        [true, true],
      );
    });

    test("SIGINT in a model call ends the turn; in a single request it means exit code 1", async (t) => {
      const failures: Failure[] = [{ kind: "slow", delay: 50 }];
      const run = await lesson(t, [say("word ".repeat(2000))], ["tell me much"], { failures });
      await until(() => run.seen.stdout.includes("word"));
      run.child.kill("SIGINT");
      const { code, stdout } = await run.ended;
      assert.equal(code, 1);
      assert.match(stdout, /interrupted/);
      assert.doesNotMatch(stdout, /error/i);
    });

    for (const signal of ["SIGTERM", "SIGHUP"] as const) {
      test(`${signal} ends the agent and takes the running command along`, async (t) => {
        const [parent, child, up] = ["parent", "child", "up"].map((name) => `${signal}-${name}`);
        assert.ok(parent && child && up, "there is none");
        const command = `trap '' HUP TERM; sleep 1000 & echo $! > ${child}; echo $$ > ${parent}; echo > ${up}; wait`;
        const run = await lesson(t, [call(command)], ["-y", "wait"]);
        await until(() => existsSync(up));
        run.child.kill(signal);
        await run.ended;
        assert.equal(run.child.signalCode, signal);
        await until(() => !isRunning(pidIn(parent)) && !isRunning(pidIn(child)));
      });
    }

    test("ends the turn without a stack trace when nobody reads its output any more", async (t) => {
      const run = await lesson(t, [call("echo one"), call("sleep 0.2; echo two"), say("done")], ["-y", "go"]);
      await until(() => run.seen.stdout.includes("one"));
      run.child.stdout?.destroy();
      const { code, stderr } = await run.ended;
      assert.equal(stderr, "");
      assert.equal(code, 1);
    });

    test("sends no empty request but says that it is empty", async (t) => {
      for (const words of ["", "  "]) {
        const run = await lesson(t, [say("what?")], ["-y", words]);
        const { code, stderr } = await run.ended;
        assert.equal(code, 1);
        assert.match(stderr, /^The request is empty.*--help.*\n$/);
        assert.equal(run.journal.length, 0);
      }
    });

    test("starts in a folder that has a folder called .env", async (t) => {
      mkdirSync(".env");
      const run = await lesson(t, [say("hello")], ["hi"]);
      const { code, stderr } = await run.ended;
      rmSync(".env", { recursive: true });
      assert.equal(code, 0, stderr);
    });

    test("says what is missing when there is no bash", async (t) => {
      const run = await lesson(t, [call("true"), say("a pity")], ["-y", "go"], { env: { PATH: folder } });
      const { code } = await run.ended;
      assert.equal(code, 0);
      const [result] = resultsIn(run.journal[1]?.request.messages ?? []);
      assert.match(result?.text ?? "", /^bash: .*ENOENT.*PATH/);
    });
  });

  describe("the file", { concurrency: 4 }, () => {
    /** Runs a program in the workspace with input that stays open. */
    async function node(t: TestContext, args: string[], env: Record<string, string | undefined> = {}) {
      const child = spawn(process.execPath, ["--import", TSX, ...args], {
        cwd: folder,
        env: { ...process.env, ...env },
        stdio: "pipe",
      });
      t.after(() => child.kill("SIGKILL"));
      let output = "";
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding("utf8").on("data", (text: string) => {
          output += text;
        });
      const code = await new Promise((resolve) => child.on("close", resolve));
      return { code, output };
    }

    test("importing it starts nothing, prints nothing and needs no credential", async (t) => {
      const code = `console.log((await import(${JSON.stringify(FILE)})).approval);`;
      writeFileSync("importer.mjs", code);
      for (const program of [["importer.mjs"], ["--input-type=module", "--eval", code, "no-file"]])
        assert.deepEqual(await node(t, program, unset), { code: 0, output: "{ always: false }\n" });
    });

    test("--help explains the command line through a linked folder too, and needs no credential", async (t) => {
      symlinkSync(dirname(FILE), join(folder, "linked"));
      const { code, output } = await node(t, [join("linked", `${LESSON}.ts`), "--help"], unset);
      assert.equal(code, 0);
      for (const part of [`agents/${LESSON}.ts`, "-y", "Ctrl-C", "exit"]) assert.ok(output.includes(part), part);
      assert.equal(output.split("\n").length < 15, true);
    });

    test("a linked file runs too, and one request does not wait for the end of an input that stays open", async (t) => {
      symlinkSync(FILE, join(folder, "link.ts"));
      const own = await startServer({ model: scripted(say("hi")) });
      t.after(own.close);
      const { code, output } = await node(t, ["link.ts", "hello"], { ANTHROPIC_BASE_URL: own.url });
      assert.equal(code, 0);
      assert.equal(output.includes("hi"), true);
    });
  });

  test(".env in the working directory is read, with the credential, MODEL_ID and THINKING; the environment goes first", async (t) => {
    t.after(() => rmSync(".env"));
    writeFileSync(".env", "ANTHROPIC_API_KEY=from-file\nMODEL_ID=model-of-file\nTHINKING=off\n");
    const run = await lesson(t, [say("hi")], ["hello"], { env: { ...unset, MODEL_ID: "model-of-environment" } });
    assert.equal((await run.ended).code, 0);
    assert.equal(run.journal[0]?.request.model, "model-of-environment");
    assert.equal("thinking" in run.journal[0].request, false);
  });

  // A terminal is made by util-linux' script, which not every system has.
  const noTerminal =
    process.platform === "linux" && existsSync("/usr/bin/script") ? false : "needs script of util-linux";

  describe("the program at a terminal", { concurrency: 4, skip: noTerminal }, () => {
    const PROMPT = `${LESSON.slice(0, 3)} >> `;

    /** `before` stands in front of the command, like `echo words |`. */
    async function terminal(t: TestContext, replies: Reply[], failures: Failure[] = [], before = "") {
      const own = await startServer({ model: scripted(...replies) });
      own.fail(...failures);
      const command = [process.execPath, "--import", TSX, FILE].map((word) => `'${word}'`).join(" ");
      const child = spawn("/usr/bin/script", ["-qec", before + command, "/dev/null"], {
        cwd: folder,
        env: {
          ...process.env,
          ANTHROPIC_BASE_URL: own.url,
          TERM: "xterm",
          NO_COLOR: undefined,
          FORCE_COLOR: undefined,
          CI: undefined,
        },
        stdio: "pipe",
      });
      t.after(() => {
        child.kill("SIGKILL");
        return own.close();
      });
      let screen = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        screen += text;
      });
      const ended = new Promise((resolve) => child.on("close", resolve));
      /** Waits until this appears after what was waited for last, then types. */
      let seen = 0;
      const at = async (text: string, keys: string) => {
        await until(() => screen.includes(text, seen));
        seen = screen.indexOf(text, seen) + text.length;
        child.stdin.write(keys);
      };
      return { at, ended, journal: own.journal, screen: () => screen };
    }

    test("asks before a command: n refuses, a runs it and asks no more; q leaves", async (t) => {
      const run = await terminal(t, [call("touch tty-a"), call("touch tty-b"), call("touch tty-c"), say("Finished.")]);
      await run.at(PROMPT, "make files\r");
      await run.at("touch tty-a\r\n", "");
      await run.at("Run it?", "n\r");
      await run.at("Run it?", "a\r");
      await run.at("Finished.", "");
      await run.at(PROMPT, "q\r");
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /q\r+\n$/, "no blank line");
      assert.deepEqual(
        ["tty-a", "tty-b", "tty-c"].map((name) => existsSync(name)),
        [false, true, true],
      );
      assert.deepEqual(errorsIn(run.journal), []);
      assert.ok(run.screen().includes("\x1b[2mLooking"), "notes are dimmed");
    });

    test("requests from a pipe get no prompt, and nobody is asked about their commands", async (t) => {
      const run = await terminal(t, [call("touch tty-piped"), say("Finished.")], [], "echo go | ");
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /nobody can be asked/);
      assert.match(run.screen(), /Finished\.\r\n$/);
      assert.equal(existsSync("tty-piped"), false);
      assert.equal(run.screen().includes(PROMPT), false);
    });

    test("what was typed before the question is no answer to it", async (t) => {
      const slow: Failure = { kind: "slow", delay: 200 };
      const run = await terminal(t, [call("touch typed-ahead"), say("Finished.")], [slow]);
      await run.at(PROMPT, "go\r");
      await run.at("Looking", "n");
      await run.at("Run it?", "\r");
      await run.at("Finished.", "");
      assert.equal(existsSync("typed-ahead"), true);
    });

    test("Ctrl-C at the question, in a command and in a reply returns to the prompt; at the prompt it leaves", async (t) => {
      const endless = "sleep 1000 & echo $! > tty-child; echo $$ > tty-parent; printf 'is %s\\n' up > /dev/tty; wait";
      const run = await terminal(
        t,
        [call("touch tty-never", "touch tty-nor"), call(endless), say("word ".repeat(1000)), say("still here")],
        [PASS, PASS, { kind: "slow", delay: 50 }],
      );
      await run.at(PROMPT, "first\r");
      await run.at("Run it?", "\x03");
      await run.at(PROMPT, "second\r");
      await run.at("Run it?", "\r");
      await until(() => existsSync("tty-parent") && readFileSync("tty-parent", "utf8") !== "");
      await run.at("", "\x03");
      await run.at("interrupted", "");
      await run.at(PROMPT, "third\r");
      await run.at("word", "\x03");
      await run.at("interrupted", "");
      await run.at(PROMPT, "fourth\r");
      await run.at("still here", "");
      await run.at(PROMPT, "\x03");
      assert.equal(await run.ended, 0);
      await until(() => !isRunning(pidIn("tty-parent")) && !isRunning(pidIn("tty-child")));
      assert.equal(!existsSync("tty-never") && !existsSync("tty-nor"), true);
      assert.deepEqual(errorsIn(run.journal), []);
      assert.equal(run.journal.length, 4);
    });

    test("Ctrl-D at the prompt leaves; an API error returns to it", async (t) => {
      const run = await terminal(t, [], [status(401, "invalid x-api-key")]);
      await run.at(PROMPT, "hello\r");
      await run.at("invalid x-api-key", "");
      await run.at(PROMPT, "\x04");
      assert.equal(await run.ended, 0);
    });

    test("Ctrl-D at the question or in a command ends the turn, with the command, and the program", async (t) => {
      const asked = await terminal(t, [call("touch eof-never")]);
      await asked.at(PROMPT, "first\r");
      await asked.at("Run it?", "\x04");
      await asked.ended;
      assert.equal(existsSync("eof-never"), false);
      assert.equal(asked.journal.length, 1);

      const run = await terminal(t, [call("echo $$ > eof-pid; exec sleep 1000")]);
      await run.at(PROMPT, "first\r");
      await run.at("Run it?", "\r");
      await until(() => existsSync("eof-pid") && readFileSync("eof-pid", "utf8") !== "");
      await run.at("", "\x04");
      assert.equal(await run.ended, 0);
      assert.match(run.screen(), /\[interrupted\]\r\n\r\n$/, "the shell's prompt goes on a line of its own");
      await until(() => !isRunning(pidIn("eof-pid")));
      assert.equal(run.journal.length, 1);
    });
  });
});
