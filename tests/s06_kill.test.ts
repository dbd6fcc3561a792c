// kill -9 in the middle of things, and --resume afterwards: no line that was written whole is lost, and it goes on.

import assert from "node:assert/strict";
import fs from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { bash, blocksOf, capture, optionsFor, resultsIn, say, server, start, until } from "./harness.ts";

const LESSON = "s06_context_compact";
const s06 = await import("../agents/s06_context_compact.ts");

/** A conversation, and the history that its transcript holds after one line, after two … */
const INPUT = "first\n/compact\nsecond\n/clear\nthird\n";
const REPLIES = [bash("echo hi"), say("words ".repeat(2_000)), say("A summary."), say("ok"), say("ok")];
const HISTORIES = [
  "first",
  "first calls lost",
  "first calls hi",
  "first calls hi words",
  "compressed Understood.",
  "compressed Understood. second",
  "compressed Understood. second ok",
  "",
  "third",
  "third ok",
];
/** At which line the process is killed, and which part of that reaches the disk. */
const MOMENTS = [
  [2, 1],
  [3, 0.5],
  [5, 0.5],
  [5, 1],
  [8, 1],
  [10, 0.5],
] as const;

/** A module that kills the process at a moment. */
function killer(line: number, part: number): NodeJS.ProcessEnv {
  const code = `import fs from "node:fs";
    const { appendFileSync } = fs;
    let lines = 0;
    fs.appendFileSync = (file, text, ...rest) => {
      const isIt = ++lines === ${line};
      appendFileSync(file, isIt ? text.slice(0, ${part} * text.length) : text, ...rest);
      if (isIt) process.kill(process.pid, "SIGKILL");
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

/** Each message in a word. */
function outline(messages: Anthropic.MessageParam[]): string {
  const words = messages.map((message) => {
    const text =
      blocksOf(message)
        .flatMap((block) => (block.type === "text" ? block.text : []))
        .at(-1) ?? "";
    const [result] = resultsIn([message]);
    if (result) return result.text === "(interrupted; it may have run)" ? "lost" : result.text;
    if (blocksOf(message).some(({ type }) => type === "tool_use")) return "calls";
    return text.startsWith("[Conversation compressed") ? "compressed" : text.split(" ")[0];
  });
  return words.join(" ");
}

const transcriptIn = (cwd: string) => {
  const names = fs.readdirSync(join(cwd, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
  return join(cwd, ".transcripts", names[0] ?? assert.fail("no transcript"));
};

describe("after kill -9", { concurrency: true }, () => {
  test("while a line is written: what was whole is there, and the conversation goes on", async (t) => {
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

  test("while a command runs, its call is answered: it may have run", async (t) => {
    const run = await start(t, LESSON, ["-y", "run it"], { replies: [bash("echo $$ > pid; exec sleep 600")] });
    const pidFile = join(run.cwd, "pid");
    await until(() => fs.existsSync(pidFile) && fs.readFileSync(pidFile, "utf8").endsWith("\n"));
    run.child.kill("SIGKILL");
    const pid = Number(fs.readFileSync(pidFile, "utf8"));
    t.after(() => process.kill(pid));
    await run.ended;

    const files = { ".transcripts/transcript_1_1.jsonl": fs.readFileSync(transcriptIn(run.cwd), "utf8") };
    const next = await start(t, LESSON, ["--resume", "go on"], { files, replies: [say("I go on")] });
    assert.equal(await next.ended, 0, next.screen());
    assert.match(next.screen(), /run it/, "it shows the last request");
    assert.equal(outline(next.journal[0]?.request.messages ?? []), "run calls lost go");
  });
});
