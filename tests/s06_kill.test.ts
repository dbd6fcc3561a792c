// After kill -9 and -c, no complete line of the transcript is lost, and the conversation goes on.

import assert from "node:assert/strict";
import fs from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import * as harness from "./harness.ts";

const { bash, blocksOf, capture, isRunning, optionsFor, resultsIn } = harness;
const { say, server, start, textsIn, until } = harness;
const LESSON = "s06_context_compact";
const s06 = await import("../agents/s06_context_compact.ts");

/** A conversation, and the history that is resumed if the transcript ends after its first, second, … line. */
const INPUT = "first\n/compact\nsecond\n/clear\nthird\n";
const REPLIES = [bash("echo hi"), say("words ".repeat(2_000)), say("A summary."), say("ok"), say("ok")];
const HISTORIES = [
  "first note",
  "first calls lost note",
  "first calls hi note",
  "first calls hi words",
  "compressed",
  "compressed second note",
  "compressed second ok",
  "",
  "third note",
  "third ok",
];
/** The line at which the process is killed, and how much of that line reaches the disk. */
const MOMENTS = [
  [2, 1],
  [3, 0.5],
  [5, 0.5],
  [5, 1],
  [8, 1],
  [10, 0.5],
] as const;

/** Makes Node load a module that kills the process at this line. */
function killer(line: number, part: number): NodeJS.ProcessEnv {
  const code = `import fs from "node:fs";
    const { appendFileSync } = fs;
    let lines = 0;
    fs.appendFileSync = (file, text, ...rest) => {
      const isLast = ++lines === ${line};
      appendFileSync(file, isLast ? text.slice(0, ${part} * text.length) : text, ...rest);
      if (isLast) process.kill(process.pid, "SIGKILL");
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

/** Describes each message of a history with a word. "note" tells the model that a turn was stopped. */
function outline(messages: harness.Messages): string {
  const words = messages.map((message) => {
    const [result] = resultsIn([message]);
    if (result) return /may have run/.test(result.text) ? "lost" : result.text;
    if (blocksOf(message).some(({ type }) => type === "tool_use")) return "calls";
    const text = textsIn([message], message.role === "user" ? "user" : "assistant").at(-1) ?? "";
    if (text.startsWith("[Conversation compressed")) return "compressed";
    return text.startsWith("(Stopped here") ? "note" : text.split(" ")[0];
  });
  return words.join(" ");
}

const transcriptIn = (cwd: string) => {
  const names = fs.readdirSync(join(cwd, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
  return join(cwd, ".transcripts", names[0] ?? assert.fail("no transcript"));
};

describe("after the program was killed", { concurrency: true }, () => {
  test("by kill -9 while a line is written, the complete lines are there, and the conversation goes on", async (t) => {
    const killed = MOMENTS.map(async ([line, part]) => {
      const env = killer(line, part);
      const run = await start(t, LESSON, ["-y"], { replies: REPLIES, input: INPUT, env });
      await run.ended;
      assert.equal(run.child.signalCode, "SIGKILL", run.screen());
      return { file: transcriptIn(run.cwd), whole: part === 1 ? line : line - 1 };
    });
    for (const { file, whole } of await Promise.all(killed)) {
      const options = { ...optionsFor(s06), state: s06.newState(join(s06.TRANSCRIPT_DIR, basename(file))) };
      const { value: messages } = await capture(() => s06.resume(file, options));
      assert.equal(outline(messages), HISTORIES[whole - 1], `after line ${whole}`);
      server.model = () => say("I go on");
      await capture(() => s06.runTurn(messages, "go on", options));
    }
  });

  test("by kill -9 while a command runs: its call is answered, and the next request comes after a note", async (t) => {
    const deletes = { replies: [bash("echo $$ > pid; exec sleep 600")] };
    const run = await start(t, LESSON, ["-y", "delete all logs"], deletes);
    const pidFile = join(run.cwd, "pid");
    await until(() => fs.existsSync(pidFile) && fs.readFileSync(pidFile, "utf8").endsWith("\n"));
    const pid = Number(fs.readFileSync(pidFile, "utf8"));
    run.child.kill("SIGKILL");
    t.after(() => isRunning(pid) && process.kill(pid));
    await run.ended;

    const files = { ".transcripts/transcript_1_1.jsonl": fs.readFileSync(transcriptIn(run.cwd), "utf8") };
    const next = await start(t, LESSON, ["-c", "how many lines has a.ts?"], { files, replies: [say("ten")] });
    assert.equal(await next.ended, 0, next.screen());
    assert.match(next.screen(), /delete all logs/, "it prints the last request");
    assert.equal(outline(next.journal[0]?.request.messages ?? []), "delete calls lost note how");
  });
});
