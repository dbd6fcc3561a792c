// The rehearsal model plays the lessons' requests to their end, and knows only what is in the messages.
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { SUMMARY_PROMPT } from "../../agents/s06_context_compact.ts";
import type { Reply } from "../api/server.ts";
import { isSummaryCall, PROMPTS, rehearse } from "./model.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "model-"));
after(() => rmSync(folder, { recursive: true }));
for (const name of ["agents", "skills", "package.json"])
  cpSync(join(ROOT, name), join(folder, name), { recursive: true });

type Input = Record<string, string>;
const TOOLS: Record<string, (input: Input) => string> = {
  bash: ({ command = "" }) => execSync(command, { cwd: folder, encoding: "utf8" }) || "(no output)",
  read_file: ({ path = "" }) => readFileSync(join(folder, path), "utf8"),
  write_file: ({ path = "", content = "" }) => String(writeFileSync(join(folder, path), content)),
  edit_file: ({ path = "", old_text = "", new_text = "" }) =>
    String(writeFileSync(join(folder, path), readFileSync(join(folder, path), "utf8").replace(old_text, new_text))),
  todo: () => "(1/3 completed)",
  task: ({ prompt = "" }) => answerOf(play([user(prompt)])),
  load_skill: ({ name = "" }) => readFileSync(join(folder, "skills", name, "SKILL.md"), "utf8"),
  compact: () => "The conversation will be summarized before your next reply.",
};

const user = (content: Anthropic.MessageParam["content"]): Anthropic.MessageParam => ({ role: "user", content });
const request = (messages: Anthropic.MessageParam[], tools = Object.keys(TOOLS)): Anthropic.MessageCreateParams => ({
  model: "claude-sonnet-5-5",
  max_tokens: 32_000,
  system: "Skills:\n- code-review: reviews code",
  tools: tools.map((name) => ({ name, input_schema: { type: "object" } })),
  messages,
});
const reply = (...messages: Anthropic.MessageParam[]) => rehearse(request(messages));
const answerOf = ({ content }: Reply) => content.map((block) => (block.type === "text" ? block.text : "")).join("");
const callOf = ({ content }: Reply) => content.find((block) => block.type === "tool_use");

/** Two messages: a call and its result. */
function round(name: string, input: unknown, content: string, is_error = false): Anthropic.MessageParam[] {
  const id = `${name}_${JSON.stringify(input)}`;
  return [
    { role: "assistant", content: [{ type: "tool_use", id, name, input }] },
    user([{ type: "tool_result", tool_use_id: id, content, is_error }]),
  ];
}

/** Adds rounds to the messages until a reply makes no call. Returns that reply, or the one after `rounds` rounds. */
function play(messages: Anthropic.MessageParam[], rounds = 50): Reply {
  for (;;) {
    const next = reply(...messages);
    const call = callOf(next);
    if (!call || rounds-- === 0) return next;
    messages.push(...round(call.name, call.input, TOOLS[call.name]?.(Object(call.input)) ?? assert.fail(call.name)));
  }
}

/** The answer to each request when its tools really run. */
const ANSWERS: Record<string, RegExp> = {
  "Create hello.mjs": /it printed: Hello, World!/,
  "Which is the largest": /\d{5} \.\/agents\/s06_context_compact\.ts/,
  "Read package.json": /called agent-in-six-lessons; its license is MIT/,
  "Create greet.mjs": /Bonjour, World/,
  "Plan and build a module math.mjs": /tested \(both work\) and described/,
  "Plan and write count.mjs": /s01_agent_loop\.ts: \d+/,
  "Use a subagent": /The subagent says: The test script runs: tsx --test/,
  "Have a subagent": /- skills\/code-review\/SKILL\.md: \S+/,
  "Which skills": /code-review: reviews code/,
  "Load the code-review": /read the file.*: \d+ lines/,
  "Read every file in the agents/": /I have read all 6 files in agents:\n- agents\/s01/,
  "Use the compact tool": /Nothing was summarized/,
};
for (const { prompt } of PROMPTS.filter(({ prompt }) => !/^Run|until compression/.test(prompt)))
  test(`the model carries out: ${prompt}`, () => {
    const expected = Object.keys(ANSWERS).find((start) => prompt.startsWith(start)) ?? "(not in the table)";
    assert.match(answerOf(play([user(prompt)])), ANSWERS[expected] ?? /(no answer)/);
  });

test("the model is a pure function, and answers only the newest request", () => {
  const asked = [
    user("Read every file in agents/ one by one."),
    ...round("bash", { command: "ls -p agents" }, "a.ts\n"),
  ];
  const before = structuredClone(asked);
  assert.deepEqual(reply(...asked), reply(...asked));
  assert.deepEqual(asked, before);
  const hello = user("Create hello.mjs and run it.");
  assert.deepEqual(callOf(reply(...asked, { role: "assistant", content: "Enough." }, hello)), callOf(reply(hello)));
});

test("the model says what it is when asked for anything else, and names the tool that a lesson lacks", () => {
  const answer = answerOf(reply(user("Write a poem.")));
  assert.match(answer, /rehearsal, not a language model/);
  for (const { prompt } of PROMPTS) assert.ok(answer.includes(prompt));
  assert.match(
    answerOf(rehearse(request([user("Which skills do you have? Use the compact tool.")], []))),
    /system prompt/,
  );
  assert.match(answerOf(rehearse(request([user("Run `ls`.")], []))), /needs the tool bash/);
});

test("the model stops when a call has failed", () => {
  const asked = user("Create hello.mjs and run it.");
  const failed = round("bash", callOf(reply(asked))?.input, "not run: the user said: no", true);
  assert.match(answerOf(reply(asked, ...failed)), /not run: the user said: no/);
});

test("a call that was interrupted is made again, unless there is a new request", () => {
  const interrupted = round("bash", { command: "ls -p notes" }, "(interrupted; it may have run)", true);
  const stopped = user("(Stopped here. Whatever ran has taken effect.)");
  const hello = user("Create hello.mjs and run it.");
  assert.deepEqual(callOf(reply(user(READ), ...interrupted, stopped, hello)), callOf(reply(hello)));
  assert.deepEqual(callOf(reply(user(READ), ...interrupted, stopped)), callOf(reply(user(READ))));
});

const READ = "Read every file in the notes/ folder one by one.";
const listed = round("bash", { command: "ls -p notes" }, "one.txt\ntwo.txt\nold/\n");
const one = (content: string) => round("read_file", { path: "notes/one.txt" }, content);

test("the model reads a cleared file again unless it noted the fact", () => {
  assert.deepEqual(callOf(reply(user(READ), ...listed))?.input, { path: "notes/one.txt" });
  assert.deepEqual(callOf(reply(user(READ), ...listed, ...one("Fact: red")))?.input, { path: "notes/two.txt" });
  const cleared = one("[Previous: used read_file]");
  assert.deepEqual(callOf(reply(user(READ), ...listed, ...cleared))?.input, { path: "notes/one.txt" });
  const note: Anthropic.MessageParam = { role: "assistant", content: "Noted notes/one.txt: red" };
  assert.deepEqual(callOf(reply(user(READ), ...listed, ...cleared, note))?.input, { path: "notes/two.txt" });
});

test("the model stops reading when it sees that results were cleared, if asked to", () => {
  const asked = user("Keep reading the files in agents/ until compression triggers by itself.");
  const names = round("bash", { command: "ls -p agents" }, "one.ts\n");
  const read = (content: string) => round("read_file", { path: "agents/one.ts" }, content);
  assert.equal(callOf(reply(asked, ...names, ...read("Fact: red")))?.name, "read_file");
  assert.match(answerOf(reply(asked, ...names, ...read("[Previous: used read_file]"))), /1 old results/);
});

/** The message with which s06 replaces what it summarized. */
const compressed = (summary: string) =>
  user([
    { type: "text", text: `[Conversation compressed. Transcript: t.jsonl]\n\n${summary}` },
    { type: "text", text: `<file path="notes/one.txt">\n${SUMMARY_PROMPT}\n</file>` },
  ]);
const question = user(SUMMARY_PROMPT);

test("a request for a summary is recognized by s06's words, with or without a focus", () => {
  const isAsked = (...messages: Anthropic.MessageParam[]) => isSummaryCall({ messages });
  assert.ok(isAsked(user(READ), question));
  assert.ok(isAsked(user(READ), user(`${SUMMARY_PROMPT}\nAbove all, keep: the names`)));
  assert.ok(!isAsked(user("Write a summary of this conversation.")));
  assert.ok(!isAsked(question, { role: "assistant", content: SUMMARY_PROMPT }));
  assert.ok(!isAsked(compressed("(lost)")));
});

test("the model starts over if a summary lost its notes", () => {
  assert.deepEqual(callOf(reply(user(READ), compressed("(lost)")))?.input, { command: "ls -p notes" });
});

test("a request after a compaction isn't mistaken for the one that was summarized", () => {
  const summary = answerOf(reply(user(READ), ...listed, ...one("Fact: one is red"), question));
  const again = user("Read every file in notes/ one by one, please.");
  assert.deepEqual(callOf(reply(compressed(summary), again))?.input, { command: "ls -p notes" });
});

test("a plan continues after a compaction, and a reminder isn't a request", () => {
  const plan = user(PROMPTS.find(({ prompt }) => prompt.includes("math.mjs"))?.prompt ?? "");
  const messages = [plan];
  play(messages, 2);
  const next = callOf(reply(...messages));
  const history = [plan, compressed(answerOf(reply(...messages, question)))];
  assert.deepEqual(callOf(reply(...history)), next);
  assert.deepEqual(
    callOf(
      reply(
        ...history,
        user([{ type: "text", text: "<reminder>Update your todos:\n[ ] #1: write math.mjs</reminder>" }]),
      ),
    ),
    next,
  );
});
