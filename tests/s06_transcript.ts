// The record on disk, how a conversation is taken up from it, and the program around both.

import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { after, afterEach, before, beforeEach, describe } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";
import type { Reply } from "../offline/server.ts";
import { scripted } from "../offline/server.ts";
import { capture, enterWorkspace, goTo, LESSON, server, start, test, underTest, until } from "./harness.ts";
import { answer, blocksOf, call, say, use, user } from "./replies.ts";

const folder = enterWorkspace();
/** What the lesson is loaded with here, and the programs are started with. */
const LIMITS = { COMPACT_THRESHOLD: "8000", COMPACT_MIN_SAVINGS: "500", COMPACT_KEEP_RECENT: "1" };
const lesson = await underTest<typeof import("../agents/s06_context_compact.ts")>(LIMITS);
lesson.approval.always = true;

type Messages = Anthropic.MessageParam[];
const { TRANSCRIPT_DIR } = lesson;
const TASKS = join(TRANSCRIPT_DIR, "tasks");

const run = (command: string) => call(use("bash", { command }));
const play = (...replies: Reply[]) => {
  server.model = scripted(...replies);
};
const calls = (...ids: string[]): Anthropic.MessageParam => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool_use", id, name: "bash", input: { command: "make" } })),
});
const results = (...ids: string[]): Anthropic.MessageParam => ({
  role: "user",
  content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: `result of ${id}` })),
});

const resultsOf = (messages: Messages) =>
  messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_result" ? [String(block.content)] : []));
const thinkingIn = (messages: Messages) =>
  messages.flatMap(blocksOf).filter((block) => block.type.endsWith("thinking")).length;

/** What something returns, without its output on the screen. */
const quiet = <T>(work: () => T | Promise<T>): Promise<T> => capture(work, () => {});
const turn = (messages: Messages) => quiet(() => lesson.agentLoop(messages));
const resume = (file: string) => quiet(() => lesson.resume(file));

const Line = z.looseObject({
  type: z.string().optional(),
  role: z.string().optional(),
  trigger: z.string().optional(),
  before: z.number().optional(),
  after: z.number().optional(),
  messages: z.array(z.unknown()).optional(),
});
/** The lines of a transcript, each of which has to be whole. */
function linesOf(file: string) {
  const text = readFileSync(file, "utf8");
  assert.ok(text.endsWith("\n"));
  return text
    .slice(0, -1)
    .split("\n")
    .map((line) => Line.parse(JSON.parse(line)));
}
const transcripts = (dir = TRANSCRIPT_DIR) =>
  existsSync(dir)
    ? readdirSync(dir)
        .filter((name) => name.startsWith("transcript_"))
        .map((name) => join(dir, name))
    : [];
function onlyTranscript(dir = TRANSCRIPT_DIR): string {
  const [file, ...more] = transcripts(dir);
  assert.ok(file && more.length === 0, `${more.length + 1} transcripts`);
  return file;
}

/** A transcript with these lines, none of them made by the lesson. */
function written(entries: object[], ending = "\n"): string {
  mkdirSync(TRANSCRIPT_DIR, { recursive: true });
  const file = join(TRANSCRIPT_DIR, "transcript_1000_1.jsonl");
  writeFileSync(file, entries.map((entry) => JSON.stringify(entry)).join("\n") + ending);
  return file;
}
const compaction = (...messages: Messages) => ({ type: "compaction", trigger: "auto", before: 9, after: 1, messages });

const sentAt = (i: number): Messages => server.journal.at(i)?.request.messages ?? assert.fail(`no request ${i}`);
const statuses = () => server.journal.map(({ status }) => status);

describe(`the record on disk, in ${LESSON}`, () => {
  before(async () => {
    await goTo(folder);
    Object.assign(process.env, LIMITS);
  });
  after(() => {
    for (const name of Object.keys(LIMITS)) delete process.env[name];
  });

  beforeEach(() => {
    rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
    server.journal.length = 0;
  });
  let mayReject = false;
  afterEach(() => {
    const expected = mayReject;
    mayReject = false;
    if (!expected) assert.ok(statuses().every((status) => status === 200));
  });

  // --- the transcript -------------------------------------------------------------------------------------------------

  test("every message is on disk in the order it entered the history", async () => {
    const messages = [user("run it")];
    play(run("echo one"), call(use("bash", { command: "echo two" }), use("nonsense", {})), say("done"));
    await turn(messages);
    assert.deepEqual(linesOf(onlyTranscript()), JSON.parse(JSON.stringify(messages)));
    assert.match(onlyTranscript(), new RegExp(`transcript_\\d{13}_${process.pid}\\.jsonl$`));
  });

  test("a message is on disk before the next thing happens", async () => {
    const messages = [user("look at your transcript")];
    const cat = "cat .transcripts/transcript_*.jsonl | wc -l";
    const lines: number[] = [];
    const replies = scripted(run(cat), run(cat), say("done"));
    server.model = (request) => {
      lines.push(linesOf(onlyTranscript()).length);
      return replies(request);
    };
    await turn(messages);
    assert.deepEqual(lines, [1, 3, 5]); // when the model is called
    assert.deepEqual(resultsOf(messages), ["2", "4"]); // when a command runs, its call is there
  });

  test("what layer 1 clears and layer 2 replaces is on disk as it was", async () => {
    const messages = [user("print")];
    const print = (mark: string) => run(`printf '${mark}%.0s' {1..3000}`);
    play(print("ab"), print("cd"), print("ef"), print("gh"), print("ij"), say("printed"));
    await turn(messages);
    assert.ok(resultsOf(messages).includes("[Previous: used bash]"));
    const text = readFileSync(onlyTranscript(), "utf8");
    for (const mark of ["ab", "cd", "ef", "gh", "ij"]) assert.ok(text.includes(mark.repeat(3_000)), mark);
    assert.ok(!text.includes("[Previous: used bash]"));

    play(say("A summary."));
    assert.equal(await quiet(() => lesson.autoCompact(messages, { trigger: "manual" })), "done");
    assert.ok(readFileSync(onlyTranscript(), "utf8").startsWith(text), "what was written stays");
    const last = linesOf(onlyTranscript()).at(-1);
    assert.equal(last?.type, "compaction");
    assert.equal(last?.trigger, "manual");
    assert.ok(last?.before && last.after && last.before > last.after);
    assert.deepEqual(last?.messages, JSON.parse(JSON.stringify(messages)));
  });

  test("the line of a compaction says what brought it about", async () => {
    for (const trigger of ["auto", "tool", "manual", "reactive"] as const) {
      rmSync(TRANSCRIPT_DIR, { recursive: true, force: true });
      const messages = [user("tell me"), answer("a word ".repeat(5_000)), user("more")];
      play(say("A summary."));
      assert.equal(await quiet(() => lesson.autoCompact(messages, { trigger })), "done");
      assert.equal(linesOf(onlyTranscript()).at(-1)?.trigger, trigger);
    }
  });

  test("only the owner can read the folder and its files, and git leaves them alone", async () => {
    play(call(use("task", { prompt: "say hello" })), say("hello"), run("printf 'x%.0s' {1..30000}"), say("done"));
    await turn([user("delegate")]);
    const mode = (path: string) => statSync(path).mode & 0o777;
    for (const dir of [TRANSCRIPT_DIR, TASKS, join(TRANSCRIPT_DIR, "outputs")]) assert.equal(mode(dir), 0o700, dir);
    const outputs = readdirSync(join(TRANSCRIPT_DIR, "outputs")).map((name) => join(TRANSCRIPT_DIR, "outputs", name));
    assert.equal(outputs.length, 1);
    const ignore = join(TRANSCRIPT_DIR, ".gitignore");
    for (const file of [onlyTranscript(), onlyTranscript(TASKS), ignore, ...outputs])
      assert.equal(mode(file), 0o600, file);
    assert.equal(readFileSync(ignore, "utf8").trim(), "*");
  });

  test("a subagent's messages go to a transcript of its own, and each conversation has one", async () => {
    play(call(use("task", { prompt: "say hello" })), say("hello from the child"), say("done"), say("another"));
    await turn([user("delegate")]);
    assert.match(readFileSync(onlyTranscript(TASKS), "utf8"), /say hello.*\n.*hello from the child/);
    assert.equal(linesOf(onlyTranscript()).length, 4);
    await turn([user("again")]);
    assert.equal(transcripts().length, 2);
  });

  test("two conversations begun in the same millisecond have a transcript each, the newer one after the other", async (t) => {
    t.mock.timers.enable({ apis: ["Date"], now: 1_800_000_000_000 });
    play(say("first"), say("second"));
    await turn([user("the one")]);
    await turn([user("the other")]);
    const [one = "", other = ""] = transcripts().sort();
    assert.deepEqual(
      [basename(one), basename(other)].map((name) => name.split("_")[1]),
      ["1800000000000", "1800000000001"],
    );
    assert.match(readFileSync(one, "utf8"), /the one.*\n.*first.*\n$/);
    assert.match(readFileSync(other, "utf8"), /the other.*\n.*second.*\n$/);
  });

  test("if nothing can be written, the agent says so once, goes on, and shows what would have been saved", async () => {
    writeFileSync(TRANSCRIPT_DIR, "a file where the folder should be");
    play(run("echo one"), run("printf 'x%.0s' {1..30000}"), say("done"));
    const { code, stdout } = await start(LESSON, ["-y", "run"]).ended;
    assert.equal(code, 0);
    assert.equal(stdout.match(/not written/g)?.length, 1, stdout);
    assert.match(stdout, /^\[output not saved: .*EEXIST/m);
    assert.match(resultsOf(sentAt(-1))[1] ?? "", /could not be saved[\s\S]*xxxx/);
    assert.equal(readFileSync(TRANSCRIPT_DIR, "utf8"), "a file where the folder should be");
  });

  test("what could not be written is written once it can be", async () => {
    writeFileSync(TRANSCRIPT_DIR, "in the way");
    const messages = [user("first")];
    play(say("one"), say("two"));
    await turn(messages);
    rmSync(TRANSCRIPT_DIR);
    messages.push(user("second"));
    await turn(messages);
    const text = readFileSync(onlyTranscript(), "utf8");
    const [first, second] = [text.indexOf('"first"'), text.indexOf('"second"')];
    assert.ok(first >= 0 && first < second, text);
    assert.deepEqual((await resume(onlyTranscript())).length, 4);
  });

  test("after kill -9 in the middle of a command, --resume goes on where it was", async () => {
    play(run("echo before"), run("echo $$ > pid; sleep 60"), say("went on"));
    const first = start(LESSON, ["-y", "work long"]);
    await until(() => existsSync("pid") && readFileSync("pid", "utf8").endsWith("\n"));
    const pid = Number(readFileSync("pid", "utf8"));
    first.child.kill("SIGKILL");
    await first.ended;
    process.kill(-pid, "SIGKILL"); // the command outlives its agent
    rmSync("pid");
    assert.equal(linesOf(onlyTranscript()).length, 4);

    const { code, stderr } = await start(LESSON, ["--resume", "-y"]).ended;
    assert.equal(code, 0, stderr);
    assert.equal(server.journal.length, 3);
    assert.deepEqual(resultsOf(sentAt(-1)), ["before", "(interrupted; it may have run)"]);
    assert.equal(thinkingIn(sentAt(-1)), 0);
    const lines = linesOf(onlyTranscript()); // the same file, still the only one
    assert.deepEqual(
      lines.map(({ role }) => role),
      ["user", "assistant", "user", "assistant", "user", "assistant"],
    );
  });

  // --- resume ---------------------------------------------------------------------------------------------------------

  const TALK: Messages = [user("build it"), calls("t1"), results("t1"), answer("built: 把它建好了 😀")];

  test("a resumed history is the one that was left, and goes on in the same file", async () => {
    const messages = [user("run it")];
    play(run("echo one"), say("done"));
    await turn(messages);
    const file = onlyTranscript();
    const resumed = await resume(file);
    assert.deepEqual(resultsOf(resumed), ["one"]);
    assert.deepEqual(
      resumed.map(({ role }) => role),
      messages.map(({ role }) => role),
    );
    assert.equal(thinkingIn(resumed), 0); // it belongs to another run
    assert.ok(thinkingIn(messages) > 0);
    resumed.push(user("and now?"));
    play(run("echo two"), say("done again"));
    assert.equal(await turn(resumed), "done");
    assert.equal(linesOf(onlyTranscript()).length, 8);
  });

  test("resume begins with the last compaction and adds what came after it", async () => {
    const file = written([
      ...TALK,
      compaction(user("first compaction")),
      answer("never mind"),
      compaction(user("second compaction"), calls("t5")),
      results("t5"),
      answer("so far"),
    ]);
    assert.deepEqual(await resume(file), [user("second compaction"), calls("t5"), results("t5"), answer("so far")]);
  });

  test("a last line that is torn at any byte is cut off, and the file goes on without it", async () => {
    const whole = [...TALK, compaction(user("a summary 摘要"), answer("ok"))];
    for (const lines of [TALK, whole]) {
      const bytes = readFileSync(written(lines));
      const before = readFileSync(written(lines.slice(0, -1)));
      const expected = await resume(written(lines.slice(0, -1)));
      for (let end = before.length; end < bytes.length - 1; end++) {
        const file = written([]);
        writeFileSync(file, bytes.subarray(0, end));
        const messages = await resume(file);
        assert.deepEqual(messages, expected, `${end}`);
        assert.deepEqual(readFileSync(file), before, `${end}`);
      }
    }
    const file = written(TALK.slice(0, -1), '\n{"role":"assist');
    const messages = await resume(file);
    play(say("went on"));
    assert.equal(await turn(messages), "done");
    assert.equal(linesOf(file).length, 4);
  });

  test("a last line that is whole but for its end is kept, and the next one is a line of its own", async () => {
    const file = written(TALK, "");
    const messages = await resume(file);
    assert.deepEqual(messages, TALK);
    messages.push(user("next"));
    play(say("ok"));
    await turn(messages);
    assert.equal(linesOf(file).length, 6);
  });

  test("every call that was left open is answered, and the API accepts the history", async () => {
    const file = written([...TALK, user("more"), calls("a", "b", "c")]);
    const messages = await resume(file);
    assert.deepEqual(
      resultsOf(messages.slice(-1)),
      ["a", "b", "c"].map(() => "(interrupted; it may have run)"),
    );
    play(say("ok"));
    assert.equal(await turn(messages), "done");
    assert.equal(linesOf(file).length, 8);
  });

  test("resume removes all thinking and keeps the notes in it", async () => {
    const content: Anthropic.ContentBlockParam[] = [
      { type: "thinking", thinking: "I note: port 8080.", signature: "of another run" },
      { type: "redacted_thinking", data: "d" },
    ];
    const file = written([user("go"), { role: "assistant", content }, user("on"), answer("ok")]);
    const messages = await resume(file);
    assert.equal(thinkingIn(messages), 0);
    assert.deepEqual(messages[1], answer("I note: port 8080."));
    messages.push(user("next"));
    play(say("ok"));
    assert.equal(await turn(messages), "done");
  });

  test("resume restores the todo list as the last valid call left it, also from before a compaction", async () => {
    const plan = (id: string, items: unknown): Anthropic.MessageParam => ({
      role: "assistant",
      content: [{ type: "tool_use", id, name: "todo", input: { items } }],
    });
    const file = written([
      user("plan"),
      plan("p1", [{ text: "draw", status: "pending" }]),
      results("p1"),
      plan("p2", JSON.stringify([{ text: "paint", status: "in_progress" }])),
      results("p2"),
      plan("p3", [{ text: "", status: "pending" }]),
      results("p3"),
      compaction(user("a summary"), answer("ok")),
    ]);
    lesson.TODO.update([]);
    await resume(file);
    assert.deepEqual(lesson.TODO.items, [{ text: "paint", status: "in_progress" }]);
    lesson.TODO.update([]);
  });

  test("a resumed conversation knows its request and its files when it is compacted", async () => {
    writeFileSync("plan.txt", "content of the plan, as it is now");
    const read: Anthropic.MessageParam = {
      role: "assistant",
      content: [{ type: "tool_use", id: "r1", name: "read_file", input: { path: "plan.txt" } }],
    };
    const file = written([user("correct plan.txt"), read, results("r1"), answer("a word ".repeat(600))]);
    const messages = await resume(file);
    play(say("A summary."), say("ok"));
    assert.equal(await quiet(() => lesson.autoCompact(messages, { trigger: "manual" })), "done");
    const text = JSON.stringify(messages);
    assert.match(text, /<request>\\ncorrect plan\.txt/);
    assert.match(text, /content of the plan, as it is now/);
    assert.ok(text.includes(basename(file)));
    messages.push(user("go on"));
    assert.equal(await turn(messages), "done");
  });

  test("resume refuses a line in the middle that is broken or no message, and names it", async () => {
    const good = written(TALK);
    const lines = readFileSync(good, "utf8").split("\n");
    for (const bad of [
      '{"role":"assist',
      "null",
      '{"role":"system","content":"hi"}',
      '{"role":"user","content":[1]}',
      "7",
    ]) {
      const text = [lines[0], bad, ...lines.slice(1)].join("\n");
      writeFileSync(good, text);
      await assert.rejects(resume(good), (error: Error) => {
        assert.ok(error.message.includes(basename(good)) && error.message.includes("line 2"), error.message);
        return true;
      });
      assert.equal(readFileSync(good, "utf8"), text);
    }
  });

  test("--resume takes the conversation that was begun last", async () => {
    const file = written([user("the old one"), answer("ok")]);
    renameSync(file, join(TRANSCRIPT_DIR, "transcript_999_7.jsonl"));
    writeFileSync(file, readFileSync(written([user("the new one"), answer("ok")])));
    play(say("went on"));
    const { code } = await start(LESSON, ["--resume", "-y", "go on"]).ended;
    assert.equal(code, 0);
    assert.match(JSON.stringify(sentAt(0)), /the new one.*go on/);
  });

  test("--transcript names the conversation to go on with, wherever it is", async () => {
    written([user("the newest"), answer("ok")]);
    const file = join(folder, "elsewhere.jsonl");
    copyFileSync(written([user("the named one"), answer("ok")]), file);
    play(say("went on"));
    const { code } = await start(LESSON, ["-y", "--transcript", "elsewhere.jsonl", "go on"]).ended;
    assert.equal(code, 0);
    assert.match(JSON.stringify(sentAt(0)), /the named one/);
    assert.equal(linesOf(file).length, 4);
  });

  test("a transcript that is missing, empty or no transcript is refused by its name", async () => {
    writeFileSync("empty.jsonl", "");
    writeFileSync("other.jsonl", '{"a":1}\n');
    for (const name of ["missing.jsonl", "empty.jsonl", "other.jsonl"])
      await assert.rejects(resume(name), (error: Error) => error.message.includes(name));
    assert.ok(!existsSync("missing.jsonl"));
  });

  test("--resume without a transcript ends the program with one line", async () => {
    const { code, stderr } = await start(LESSON, ["--resume", "hi"]).ended;
    assert.equal(code, 1);
    assert.match(stderr, /^.*--resume.*\n$/);
    assert.equal(server.journal.length, 0);
    assert.ok(!existsSync(TRANSCRIPT_DIR), "looking makes no folder");
  });

  test("what was answered waits for the next request, also after a compaction at the prompt", async () => {
    const messages = TALK.map((message) => structuredClone(message));
    play(say("A summary."));
    assert.equal(await quiet(() => lesson.autoCompact(messages, { trigger: "manual" })), "done");
    const files = [onlyTranscript(), written(TALK)];
    const ended = await Promise.all(files.map((file) => start(LESSON, ["-y", "--transcript", file]).ended));
    assert.deepEqual(
      ended.map(({ code }) => code),
      [0, 0],
    );
    assert.equal(server.journal.length, 1);
  });

  test("after a compaction within a turn, a resumed conversation goes on with the request at once", async () => {
    const open = [
      ...TALK.map((message) => structuredClone(message)),
      answer("a word ".repeat(2_000)),
      user("the roof"),
    ];
    play(say("A summary."), say("the roof is on"));
    assert.equal(await quiet(() => lesson.autoCompact(open, { trigger: "reactive" })), "done");
    assert.equal((await start(LESSON, ["-y", "--resume"]).ended).code, 0);
    assert.equal(server.journal.length, 2);
    assert.match(JSON.stringify(sentAt(-1)), /<request>\\nthe roof/);
  });

  test("a request that speaks of answered requests is still open after a compaction, whose summary does so, too", async () => {
    const words = "Explain what this means:\n<request>\nx\n</request>\n(answered)\nin a transcript";
    const open = [...TALK.map((message) => structuredClone(message)), answer("a word ".repeat(2_000)), user(words)];
    play(say("A summary.\n<request>\nx\n</request>\n(answered)"), say("It means that"));
    assert.equal(await quiet(() => lesson.autoCompact(open, { trigger: "reactive" })), "done");
    assert.equal((await start(LESSON, ["-y", "--resume"]).ended).code, 0);
    assert.equal(server.journal.length, 2);
  });

  test("a conversation of which only a summary is left waits for the next request", async () => {
    const text = "[Conversation compressed. Transcript: .transcripts/x.jsonl]\n\nA summary.";
    written([compaction({ role: "user", content: [{ type: "text", text }] })]);
    assert.equal((await start(LESSON, ["-y", "--resume"]).ended).code, 0);
    assert.equal(server.journal.length, 0);
  });

  test("a conversation whose only request was refused can still be resumed after the next one", async () => {
    const messages = [user("something bad")];
    play({ ...say("no"), stop_reason: "refusal" }, say("gladly"));
    assert.equal(await turn(messages), "refused");
    messages.push(user("something good"));
    assert.equal(await turn(messages), "done");
    const resumed = await resume(onlyTranscript());
    assert.equal(resumed.length, 2);
    assert.ok(!JSON.stringify(resumed).includes("bad"));
  });

  // --- the program ----------------------------------------------------------------------------------------------------

  test("a variable that is no number ends the program with a line that names it", async () => {
    const wrong = {
      COMPACT_THRESHOLD: "5k",
      COMPACT_TURN_THRESHOLD: "-1",
      CONTEXT_WINDOW: "many",
      COMPACT_KEEP_RECENT: "NaN",
      COMPACT_MIN_SAVINGS: "1,000",
    };
    const { code, stderr, stdout } = await start(LESSON, ["hi"], wrong).ended;
    assert.equal(code, 1);
    for (const name of Object.keys(wrong)) assert.match(stderr, new RegExp(`^${name} `, "m"));
    assert.equal(stdout, "");
    assert.equal(server.journal.length, 0);
  });

  test("/context, /help and /compact are carried out, an unknown command is named, and none is sent to the model", async () => {
    play(say("hello"), say("A summary."), say("yes"));
    const input =
      "/help\n/context\nhi\n/bogus\n/compact the colours and the shapes\n/compact\n/etc/hosts, what is it?\n";
    const { code, stdout, stderr } = await start(LESSON, [], {}, input).ended;
    assert.equal(code, 0, stderr);
    for (const command of ["/context", "/compact", "/help", "exit"]) assert.ok(stdout.includes(command), command);
    assert.match(stdout, /context: ~[\d,]+ tokens.*8,000/);
    assert.match(stdout, /unknown command \/bogus/);
    assert.match(stdout, /\[manual compact\]/);
    assert.match(stdout, /\[transcript saved: \.transcripts\/transcript_/);
    assert.match(stdout, /nothing to compact/);
    assert.equal(server.journal.length, 3);
    assert.match(JSON.stringify(sentAt(1).at(-1)), /the colours and the shapes/);
    assert.match(JSON.stringify(sentAt(2)), /A summary\..*\/etc\/hosts/);
  });

  test("a command in place of a request is carried out, and the exit code says whether there is such a command", async () => {
    for (const [command, code] of [
      ["/help", 0],
      ["/context", 0],
      ["/bogus", 1],
    ] as const)
      assert.equal((await start(LESSON, [command]).ended).code, code, command);
    assert.equal(server.journal.length, 0);
  });

  test("the command line's help names the ways to take up a conversation", async () => {
    const { code, stdout } = await start(LESSON, ["--help"]).ended;
    assert.equal(code, 0);
    for (const flag of ["-y", "--resume", "--transcript"]) assert.ok(stdout.includes(flag), flag);
    assert.deepEqual(transcripts(), []);
  });

  test("SIGINT during a compaction ends the turn and returns to the prompt with the history as it was", async () => {
    const file = written([user("tell me"), answer("a word ".repeat(5_000)), user("go on")]);
    play(say("A summary."), say("A summary."), say("went on"));
    server.fail({ kind: "slow", delay: 300 });
    const first = start(LESSON, ["-y", "--resume"]);
    await until(() => server.journal.length === 1);
    first.child.kill("SIGINT");
    const { code, stdout } = await first.ended;
    assert.equal(code, 0, stdout);
    assert.match(stdout, /interrupted/);
    assert.ok(!/compaction failed/.test(stdout), stdout);
    assert.equal(linesOf(file).length, 3);
    const messages = await resume(file);
    assert.equal(await turn(messages), "done");
    assert.equal(server.journal.length, 3);
  });

  test("SIGINT during /compact returns to the prompt with the history as it was", async () => {
    const said = answer("a word ".repeat(500));
    const file = written([user("tell me"), said]);
    play(say("A summary."), say("still here"));
    server.fail({ kind: "slow", delay: 300 });
    const run = start(LESSON, ["-y", "--resume"], {}, "/compact\nnext\n");
    await until(() => server.journal.length === 1);
    run.child.kill("SIGINT");
    const { code, stdout } = await run.ended;
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^\[interrupted\]$/m);
    assert.ok(!/compaction failed/.test(stdout), stdout);
    assert.deepEqual(sentAt(-1), [user("tell me"), said, user("next")]);
    assert.equal(linesOf(file).length, 4);
  });

  test("a request that the API calls invalid is taken out, and the conversation can be resumed", async () => {
    mayReject = true;
    server.fail({ kind: "status", status: 400, message: "something is invalid" });
    play(say("fine"));
    const { code, stdout } = await start(LESSON, ["-y"], {}, "the invalid one\nthe valid one\n").ended;
    assert.equal(code, 0);
    assert.match(stdout, /400.*something is invalid/);
    assert.deepEqual(sentAt(-1), [user("the valid one")]);
    assert.deepEqual(
      (await resume(onlyTranscript())).map(({ role }) => role),
      ["user", "assistant"],
    );
  });

  test("a file that is no transcript is refused and stays as it is", async () => {
    for (const text of ["precious, no newline", `{"name":"x"}`, "a\nb", ""]) {
      const file = join(folder, "precious.txt");
      writeFileSync(file, text);
      await assert.rejects(resume(file), /precious\.txt/);
      assert.equal(readFileSync(file, "utf8"), text);
    }
  });

  test("what two runs wrote into one file is put in order: a result without its call is left out, a call gets its result", async () => {
    const file = written([
      user("go"),
      calls("a", "b"),
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "one" }] },
      answer("next"),
      results("b"),
      user("again"),
      calls("c"),
      user("are you there?"),
    ]);
    const messages = await resume(file);
    play(say("all in order"));
    assert.equal(await turn(messages), "done");
    assert.deepEqual(resultsOf(messages).sort(), [
      "(interrupted; it may have run)",
      "(interrupted; it may have run)",
      "one",
    ]);
  });

  test("a conversation whose only request was refused can be resumed, and is empty", async () => {
    play({ content: [{ type: "text", text: "no" }], stop_reason: "refusal" }, say("hello"));
    await start(LESSON, ["something"]).ended;
    const { code, stdout } = await start(LESSON, ["--resume", "something else"]).ended;
    assert.equal(code, 0, stdout);
    assert.deepEqual(sentAt(1), [user("something else")]);
  });

  test("a small window has limits that fit into it", async () => {
    const { stdout } = await start(LESSON, [], { COMPACT_THRESHOLD: "", CONTEXT_WINDOW: "32768" }, "/context\n").ended;
    assert.match(stdout, /above 16,384 when a request arrives, above 16,384 within a turn/);
  });

  test("a request that was too long stays for the next compaction when this one fails", async () => {
    mayReject = true;
    play(
      say("one"),
      { content: [{ type: "text", text: "cut" }], stop_reason: "max_tokens" },
      say("A summary."),
      say("both"),
    );
    server.fail(
      { kind: "slow", delay: 0 },
      { kind: "status", status: 400, message: "prompt is too long: 9 tokens > 8 maximum" },
    );
    const { stdout } = await start(LESSON, ["-y"], {}, "first\nfix the parser\n/compact\nand the lexer\n").ended;
    assert.match(stdout, /400.*too long/);
    assert.match(JSON.stringify(sentAt(-1)), /fix the parser.*and the lexer/);
  });

  test("a request that begins with a path is a request", async () => {
    play(say("hello"));
    const { stdout } = await start(LESSON, [], {}, "/tmp is full, clean it\n").ended;
    assert.deepEqual(sentAt(-1), [user("/tmp is full, clean it")], stdout);
  });

  test("--resume passes over a transcript that a kill left without a whole line", async () => {
    written([user("tell me"), answer("told")]);
    writeFileSync(join(TRANSCRIPT_DIR, "transcript_2000_1.jsonl"), '{"role":"us');
    play(say("hello"));
    const { code, stderr } = await start(LESSON, ["--resume", "go on"]).ended;
    assert.equal(code, 0, stderr);
    assert.match(JSON.stringify(sentAt(-1)), /tell me/);
  });

  test("a todo list whose update did not run is not taken up", async () => {
    const update = (id: string, text: string): Anthropic.MessageParam => ({
      role: "assistant",
      content: [{ type: "tool_use", id, name: "todo", input: { items: [{ text, status: "completed" }] } }],
    });
    const failed: Anthropic.MessageParam = {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "b", content: "(interrupted by user)", is_error: true }],
    };
    await resume(written([user("plan"), update("a", "first"), results("a"), update("b", "second"), failed]));
    assert.match(lesson.TODO.render(), /#1: first/);
  });
});
