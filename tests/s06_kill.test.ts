// kill -9 in the middle of things, and --resume afterwards: what was said is there, and the conversation goes on.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import type { Reply } from "../tools/offline/server.ts";
import { bash, blocksOf, resultsIn, say, start, until } from "./harness.ts";

const LESSON = "s06_context_compact";

/** A module that kills the process when a line with `text` reaches the disk, of which the part `kept` gets there. */
function killer(text: string, kept: number): NodeJS.ProcessEnv {
  const code = `import fs from "node:fs";
    const { appendFileSync } = fs;
    fs.appendFileSync = (file, line, ...rest) => {
      const isIt = line.includes(${JSON.stringify(text)});
      appendFileSync(file, isIt ? line.slice(0, ${kept} * line.length) : line, ...rest);
      if (isIt) process.kill(process.pid, "SIGKILL");
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

/** The transcripts of a process that is gone, as a new one finds them. */
function transcriptsOf(cwd: string): Record<string, string> {
  const names = readdirSync(join(cwd, ".transcripts")).map((name) => join(".transcripts", name));
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(cwd, name), "utf8")]));
}

/** Resumes with one request. @returns what the user reads and the model gets */
async function resume(t: TestContext, files: Record<string, string>) {
  const run = await start(t, LESSON, ["--resume", "go on"], { files, replies: [say("I go on")] });
  assert.equal(await run.ended, 0, run.screen());
  const messages = run.journal[0]?.request.messages ?? [];
  const texts = messages.map((message) => blocksOf(message).flatMap((block) => ("text" in block ? block.text : [])));
  return { screen: run.screen(), messages, texts: texts.flat() };
}

describe("after kill -9", { concurrency: true }, () => {
  test("while a command runs, its call is answered: it may have run", async (t) => {
    const command = "echo $$ > pid; exec sleep 600";
    const run = await start(t, LESSON, ["-y", "run it"], { replies: [bash(command)] });
    const file = join(run.cwd, "pid");
    await until(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"));
    run.child.kill("SIGKILL");
    const pid = Number(readFileSync(file, "utf8"));
    t.after(() => process.kill(pid));
    await run.ended;

    const { screen, messages, texts } = await resume(t, transcriptsOf(run.cwd));
    assert.match(screen, /The last request was: run it\]/);
    assert.deepEqual(
      resultsIn(messages).map(({ text, failed }) => [text, failed]),
      [["(interrupted; it may have run)", true]],
    );
    assert.equal(texts.at(-1), "go on");
  });

  test("while a message is written, the torn line is left out", async (t) => {
    const replies = [say("first answer"), say("second answer")];
    const input = "first\nsecond\n";
    const run = await start(t, LESSON, [], { replies, input, env: killer("second answer", 0.5) });
    await run.ended;
    assert.equal(run.child.signalCode, "SIGKILL");
    const { screen, texts } = await resume(t, transcriptsOf(run.cwd));
    assert.match(screen, /The last request was: second\]/);
    assert.deepEqual(texts.slice(-3), ["first answer", "second", "go on"]);
  });

  test("while a compaction is written, the history is as it was before it", async (t) => {
    const replies: Reply[] = [say("words ".repeat(100)), say("A summary.")];
    const input = "first\n/compact\n";
    const run = await start(t, LESSON, [], { replies, input, env: killer('"type":"compaction"', 0.5) });
    await run.ended;
    const { texts } = await resume(t, transcriptsOf(run.cwd));
    assert.deepEqual(
      texts.filter((text) => !text.startsWith("Looking")),
      ["first", "words ".repeat(100), "go on"],
    );
  });

  test("right after a compaction, the summary is there, and what it replaced is not", async (t) => {
    const replies: Reply[] = [say("words ".repeat(100)), say("A summary.")];
    const input = "first\n/compact\n";
    const run = await start(t, LESSON, [], { replies, input, env: killer('"type":"compaction"', 1) });
    await run.ended;
    assert.equal(run.child.signalCode, "SIGKILL");
    const { texts } = await resume(t, transcriptsOf(run.cwd));
    assert.equal(texts.length, 2);
    assert.match(texts[0] ?? "", /^\[Conversation compressed\. .*\n\nA summary\.$/s);
    assert.equal(texts[1], "go on");
  });
});
