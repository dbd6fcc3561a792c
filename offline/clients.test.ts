// Tests what Claude Code needs after its compaction, and `npm run api`. `npm run test:clients` runs real clients.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import Anthropic from "@anthropic-ai/sdk";
import type { Reply } from "./api/server.ts";
import { rehearseForAnyone } from "./clients.ts";
import { TSX } from "./start.ts";

const tool = (name: string, field: string): Anthropic.Tool => {
  const properties = { [field]: { type: "string" } };
  return { name, input_schema: { type: "object", properties, required: [field] } };
};
const TOOLS = [tool("Bash", "command"), tool("Read", "file_path")];

const ask = (text: string): Anthropic.MessageParam => ({ role: "user", content: [{ type: "text", text }] });
const answer = (...messages: Anthropic.MessageParam[]) =>
  rehearseForAnyone({ model: "claude-sonnet-5-5", max_tokens: 1_000, tools: TOOLS, messages });
const callsIn = ({ content }: Reply) =>
  content.flatMap((block) => (block.type === "tool_use" ? { ...block, id: "toolu_1" } : []));
const textIn = ({ content }: Reply) => Object(content.at(-1)).text;
/** Adds a client's call and its result to a conversation. */
const round = (reply: Reply, content: string): Anthropic.MessageParam[] => [
  { role: "assistant", content: callsIn(reply) },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content }] },
];

test("the summary that Claude Code asks for is enough to go on after its compaction", () => {
  const request = ask("Read every file in the library/ folder one by one and say in one line what each is about.");
  const listed = round(answer(request), "a.txt\nb.txt");
  const read = round(answer(request, ...listed), "1\tFact: a is blue");
  const order = ask("Your task is to create a detailed summary of the conversation so far.");
  const summary = textIn(answer(request, ...listed, ...read, order));
  assert.match(summary, /^<summary>\n.*^Noted library\/a\.txt: a is blue\n<\/summary>$/ms);
  const words = "This session is being continued from a previous conversation that ran out of context.";
  const [next] = callsIn(answer(ask(`${words}\n\n${summary.replace(/<.*?>/g, "")}`)));
  assert.deepEqual(next?.input, { file_path: "library/b.txt" });
});

test("npm run api prints how to use it and a line for each request, and enforces --window", async (t) => {
  const script = fileURLToPath(new URL("serve.ts", import.meta.url));
  const child = spawn(process.execPath, [...TSX, script, "--window", "100"], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const lineWith = async (pattern: RegExp): Promise<RegExpExecArray> => {
    const { value, done } = await lines.next();
    assert.ok(!done, `it ended before it printed ${pattern}`);
    return pattern.exec(value) ?? lineWith(pattern);
  };
  const [, baseURL] = await lineWith(/export ANTHROPIC_BASE_URL=(\S+) ANTHROPIC_API_KEY=offline/);
  await lineWith(/^model +messages +tokens +cached +status$/);
  const client = new Anthropic({ baseURL, apiKey: "offline", maxRetries: 0 });
  const request = { model: "claude-haiku-5-5", max_tokens: 100 };
  await client.messages.create({ ...request, messages: [ask("hello")] });
  await lineWith(/^claude-haiku-5-5 +1 +\d+ +0 +200$/);
  await assert.rejects(client.messages.create({ ...request, messages: [ask("x".repeat(900))] }), /too long/);
  await lineWith(/^claude-haiku-5-5 +1 +\d+ +0 +400 prompt is too long: \d+ tokens > 100 maximum$/);
  const ended = once(child, "exit");
  child.kill("SIGINT");
  assert.deepEqual(await ended, [null, "SIGINT"]);
});
