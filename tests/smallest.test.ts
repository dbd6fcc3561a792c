// The agent in eighteen lines that README and s01's page begin with, and the test of it on the local API's page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { bash, call, say } from "../offline/api/said.ts";
import { lessonFile, ROOT, runLesson, startLesson } from "../offline/start.ts";
import { newServer } from "./server.ts";
import { newFolder } from "./workspace.ts";

test("the smallest agent runs the commands that the model asks for, sends their output back, and prints its texts", async (t) => {
  const { content } = bash("echo one > a; cat a", "[[ $(< a) == one ]] && echo two"); // only bash knows [[
  const look = call({ type: "text", text: "Let me look." }, ...content);
  const server = await newServer(look, say("One and two."));
  t.after(() => server.close());
  const child = startLesson(lessonFile("smallest"), ["What's here?"], { cwd: newFolder(), url: server.url });
  const printed = child.stdout ? await text(child.stdout) : "";
  assert.equal(printed, "Let me look.\n$ echo one > a; cat a\n$ [[ $(< a) == one ]] && echo two\nOne and two.\n");
  assert.match(JSON.stringify(server.journal[1]?.request), /"content":"one\\n".*"content":"two\\n"/);
});

test("the example on the local API's page runs as pasted", async () => {
  const [, code = ""] = /```ts\n(.*?)^```/ms.exec(readFileSync(join(ROOT, "docs/api.md"), "utf8")) ?? [];
  const folder = newFolder({ "try.mts": code.replace('"./', `"${ROOT}`) });
  assert.equal(await runLesson(join(folder, "try.mts"), [], { cwd: ROOT }), 0);
});
