// What s06 does on servers that differ from Anthropic's. docs/servers.md says what to set for them.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { QUIRKS } from "../offline/api/quirks.ts";
import { bash, say } from "../offline/api/said.ts";
import { expectRejection, useServer } from "./server.ts";
import { load, type Messages, turn } from "./turn.ts";
import { useWorkspace } from "./workspace.ts";

useWorkspace();
const server = await useServer();
const S06 = "agents/s06_context_compact.ts";

beforeEach(() => {
  Object.assign(server, { contextLimit: 200_000, quirks: [] });
});

test("where adaptive thinking is rejected, THINKING=off helps", async () => {
  server.quirks = [QUIRKS.rejectsAdaptive];
  const s06 = await load(S06, { THINKING: "off" });
  assert.equal((await turn(s06, [bash("echo hi"), say("It said hi.")])).error, undefined);
});

for (const form of ["errorsOfOpenAI", "errorsAsString", "errorsInHtml"] as const)
  test(`s06 knows a full window by its words: ${form}`, async () => {
    const s06 = await load(S06);
    const messages: Messages = [];
    await turn(s06, [say("ok")], { messages, request: "words ".repeat(3_500) });
    Object.assign(server, { contextLimit: 8_500, quirks: [QUIRKS[form]] });
    expectRejection(/prompt is too long/);
    const talk = { messages, request: "x ".repeat(2_500) };
    const { error, sent } = await turn(s06, [say("A summary."), say("done")], talk);
    assert.deepEqual([error, sent.length], [undefined, 3]);
  });

test("where prompt and reply share the window, s06 asks for less if CONTEXT_WINDOW is right", async () => {
  Object.assign(server, { contextLimit: 16_000, quirks: [QUIRKS.countsReply] });
  const s06 = await load(S06, { CONTEXT_WINDOW: "16000" });
  assert.equal((await turn(s06, [bash("echo hi"), say("It said hi.")])).error, undefined);
});
