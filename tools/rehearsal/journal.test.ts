import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { say } from "../api/said.ts";
import { scripted, startServer } from "../api/server.ts";
import { showCall, transcriptsOf } from "./journal.ts";

test("shows a call with its reply, or with its error, and cuts long texts", () => {
  const request = { model: "m", max_tokens: 1, messages: [{ role: "user" as const, content: "é".repeat(300) }] };
  const reply = [{ type: "text" as const, text: "ok", citations: null }];
  const shown = showCall({ request, status: 200, reply, stop_reason: "end_turn" });
  assert.match(shown, /^POST \/v1\/messages \{\n {2}"model": "m",\n.*"é{200}…".*\n200 \{\n? *"role": "assistant",/s);
  assert.match(showCall({ request, status: 400, error: "too long" }), /\n400 \{"error": "too long"\}$/);
});

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
