import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { say } from "./api/said.ts";
import { scripted, startServer } from "./api/server.ts";
import { transcriptsOf } from "./journal.ts";

test("saves each message and what each call used, and those of subagents apart", async () => {
  const server = await startServer({ model: scripted(say("One."), say("A child's."), say("Another's."), say("Two.")) });
  const history: Anthropic.MessageParam[] = [];
  const client = new Anthropic({ baseURL: server.url, apiKey: "offline" });
  const ask = async (system: string, content: string, messages = history) => {
    messages.push({ role: "user", content });
    const reply = await client.messages.create({ model: "claude-sonnet-5-5", max_tokens: 99, system, messages });
    messages.push({ role: "assistant", content: reply.content });
  };
  await ask("parent", "First?");
  await ask("child", "Look.", []);
  await ask("child", "Look again.", []);
  await ask("parent", "Second?");
  await server.close();
  const { parent, task } = transcriptsOf(server.journal);
  const outlineOf = (lines: typeof parent) =>
    lines.map((line) =>
      "message" in line && line.message.role === "user" ? line.message.content : Object.keys(line)[1],
    );
  assert.deepEqual(outlineOf(parent), ["system", "First?", "usage", "message", "Second?", "usage", "message"]);
  assert.deepEqual(outlineOf(task), ["Look.", "usage", "message", "Look again.", "usage", "message"]);
});
