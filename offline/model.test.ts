// Plays the lessons' requests in s06, with real tools, on the strict server.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { user } from "./api/said.ts";
import { startServer } from "./api/server.ts";
import { rehearse } from "./model.ts";
import { DEFAULTS, OFFLINE, ROOT } from "./start.ts";
import { INTERRUPTED, STOPPED, SUMMARY, SUMMARY_REQUEST } from "./wording.ts";
import { LIBRARY } from "./world.ts";

type Messages = Anthropic.MessageParam[];

const folder = realpathSync(mkdtempSync(join(tmpdir(), "rehearsal-")));
const server = await startServer({ model: rehearse });
after(() => {
  rmSync(folder, { recursive: true });
  return server.close();
});
for (const name of ["agents", "skills", "package.json"])
  cpSync(join(ROOT, name), join(folder, name), { recursive: true });
mkdirSync(join(folder, "library"));
for (const { path, text } of LIBRARY) writeFileSync(join(folder, path), text);
process.chdir(folder);
Object.assign(process.env, DEFAULTS, OFFLINE, { ANTHROPIC_BASE_URL: server.url, COMPACT_THRESHOLD: "16000" });
const s06 = await import("../agents/s06_context_compact.ts");

const REQUEST = { model: "claude-sonnet-5-5", max_tokens: 1_000, tools: s06.TOOLS };
/** Has s06 carry out a request. Returns the model's last words. */
async function answerTo(request: string, approve = async () => {}): Promise<string> {
  const messages: Messages = [];
  const { signal } = new AbortController();
  const options = { system: s06.SYSTEM, tools: s06.TOOLS, approve, signal, state: s06.newState() };
  await s06.runTurn(messages, request, options);
  const blocks = messages.at(-1)?.content ?? [];
  return Object(typeof blocks === "string" ? undefined : blocks.at(-1)).text ?? "";
}

/** Answers that no page shows. docs:check compares the others with the pages. */
const ANSWERS: Record<string, RegExp> = {
  "Create hello.mjs, a script that prints Hello, World!, and run it.": /it printed: Hello, World!/,
  "Read package.json and tell me the name and the license of this project.":
    /called agent-in-six-lessons; its license is MIT/,
  "Plan and write count.mjs, a script that counts the lines of each file in agents/, and run it.":
    /s01_agent_loop\.ts: \d+/,
  "Read every file in the agents/ folder one by one and report.": /I have read all 6 files in agents:\n- agents\/s01/,
};
for (const [request, answer] of Object.entries(ANSWERS))
  test(`the model carries out: ${request}`, async () => {
    assert.match(await answerTo(request), answer);
  });

test("after compactions in the middle of a turn, the model goes on", async () => {
  const answer = await answerTo("Read every file in library/ one by one.");
  for (const { path, fact } of LIBRARY) assert.ok(answer.includes(`${path}: ${fact}`), answer);
});

test("the model stops when the user says no", async () => {
  const approve = async () => {
    throw new Error("not run: the user said no");
  };
  assert.match(await answerTo("Create hello.mjs and run it.", approve), /bash did not work out: .*said no/);
});

const call = (name: string, input: object, id = name): Anthropic.MessageParam => ({
  role: "assistant",
  content: [{ type: "tool_use", id, name, input }],
});
const result = (id: string, content: string, isError = false): Anthropic.MessageParam => ({
  role: "user",
  content: [{ type: "tool_result", tool_use_id: id, content, is_error: isError }],
});
const replyTo = (...messages: Messages) => rehearse({ ...REQUEST, messages }).content;
const callFor = (...messages: Messages) => Object(replyTo(...messages).find(({ type }) => type === "tool_use")).input;

test("the model repeats a call that was interrupted, and goes on after that, unless there is a new request", () => {
  const [list, hello] = [user("Read every file in notes/ one by one."), user("Create hello.mjs and run it.")];
  const listing = call("bash", { command: "ls -p notes" });
  const stopped = [list, listing, result("bash", INTERRUPTED, true), user(STOPPED)];
  for (const more of [[], [user("go on")]]) assert.deepEqual(callFor(...stopped, ...more), { command: "ls -p notes" });
  assert.deepEqual(callFor(...stopped, hello), callFor(hello));
  const listed = [list, listing, result("bash", "a.txt\nb.txt"), user(STOPPED), user("Go on.")];
  assert.deepEqual(callFor(...listed), { path: "notes/a.txt" });
});

test("when half of the files are read, the model runs a command or compacts, once, if it has the tool", () => {
  const callIn = (request: string, tools = s06.TOOLS, ...then: Messages) => {
    const listed = [user(request), call("bash", { command: "ls -p notes" }), result("bash", "a.txt\nb.txt")];
    const read = [call("read_file", { path: "notes/a.txt" }), result("read_file", "Fact: a")];
    const { content } = rehearse({ ...REQUEST, tools, messages: [...listed, ...read, ...then] });
    return Object(content.find(({ type }) => type === "tool_use")).input;
  };
  const [kills, compacts] = ["run `kill $PPID`", "use the compact tool"].map(
    (what) => `Read every file in notes/ one by one; ${what} when half are read.`,
  ) as [string, string];
  const next = { path: "notes/b.txt" };
  assert.deepEqual(callIn(kills), { command: "kill $PPID" });
  const killed = [call("bash", { command: "kill $PPID" }, "kill"), result("kill", INTERRUPTED, true), user(STOPPED)];
  assert.deepEqual(callIn(kills, s06.TOOLS, ...killed, user("Go on.")), next);
  assert.deepEqual(callIn(compacts), { focus: "what each file said" });
  assert.deepEqual(callIn(compacts, s06.TOOLS, call("compact", {}), result("compact", "It will.")), next);
  const others = s06.TOOLS.filter(({ name }) => name !== "compact");
  assert.deepEqual(callIn(compacts, others), next);
});

test("the model goes on from its summary, which is plain text", () => {
  const request = user("Create hello.mjs and run it.");
  const first = callFor(request);
  const done = [request, call("bash", first), result("bash", "(no output)")];
  const second = callFor(...done);
  assert.notDeepEqual(second, first);
  const text = Object(replyTo(...done, user(SUMMARY_REQUEST))[0]).text;
  assert.match(text, /^Goal: Create hello.mjs and run it.\nCalled bash → \(no output\)$/);
  const summary = { role: "user" as const, content: [{ type: "text" as const, text: `${SUMMARY}]\n${text}` }] };
  assert.deepEqual(callFor(request, summary), second);
});

test("asked for anything else, the model says in three lines what it is, and it names a tool that is missing", async () => {
  const help = await answerTo("Write a poem.");
  assert.match(help, /rehearsal, not a language model.*docs\/, under "Try it"/s);
  assert.equal(help.split("\n").length, 3);
  const { content } = rehearse({ ...REQUEST, tools: [], messages: [user("Run `ls`.")] });
  assert.match(Object(content[0]).text, /needs the tool bash/);
});
