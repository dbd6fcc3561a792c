// The agent in eighteen lines that README and s01's page begin with, and the test of it on the local API's page.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { type Reply, scripted, startServer } from "../tools/api/server.ts";
import { lessonFile, ROOT, runLesson, startLesson } from "../tools/lesson/start.ts";

test("the smallest agent runs the commands that the model asks for, sends their output back, and prints its texts", async () => {
  const replies: Reply[] = [
    {
      content: [
        { type: "text", text: "Let me look." },
        { type: "tool_use", name: "bash", input: { command: "echo one > a; cat a" } },
        { type: "tool_use", name: "bash", input: { command: "[[ $(< a) == one ]] && echo two" } }, // only bash knows [[
      ],
    },
    { content: [{ type: "text", text: "One and two." }] },
  ];
  const server = await startServer({ model: scripted(...replies) });
  const cwd = mkdtempSync(join(tmpdir(), "smallest-"));
  const child = startLesson(lessonFile("smallest"), ["What's here?"], { cwd, url: server.url });
  const printed = child.stdout ? await text(child.stdout) : "";
  await server.close();
  rmSync(cwd, { recursive: true });
  assert.equal(printed, "Let me look.\n$ echo one > a; cat a\n$ [[ $(< a) == one ]] && echo two\nOne and two.\n");
  assert.deepEqual(
    server.journal.map(({ status }) => status),
    [200, 200],
  );
  assert.match(JSON.stringify(server.journal[1]?.request), /"content":"one\\n".*"content":"two\\n"/);
});

test("the example on the local API's page runs as pasted", async () => {
  const [, code = ""] = /```ts\n(.*?)^```/ms.exec(readFileSync(join(ROOT, "docs/api.md"), "utf8")) ?? [];
  const folder = mkdtempSync(join(tmpdir(), "smallest-"));
  const file = join(folder, "try.mts");
  writeFileSync(file, code.replace('"./', `"${ROOT}`));
  assert.equal(await runLesson(file, [], { cwd: ROOT }), 0);
  rmSync(folder, { recursive: true });
});
