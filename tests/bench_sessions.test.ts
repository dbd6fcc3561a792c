// What the bench reads: recorded sessions, other people's and ours, as histories that the API accepts.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import Anthropic from "@anthropic-ai/sdk";
import { type Recorded, readSessions } from "../bench/sessions.ts";
import { startServer } from "../offline/server.ts";
import { answer, blocksOf, say, user } from "./replies.ts";

const folder = mkdtempSync(join(tmpdir(), "sessions-"));
after(() => rmSync(folder, { recursive: true }));

// --- session files written by hand ----------------------------------------------------------------------------------

let files = 0;
/** Reads a file of these lines: objects as JSON, strings as they are. */
function read(...lines: (object | string)[]): Recorded {
  const file = join(folder, `session-${files++}.jsonl`);
  writeFileSync(file, lines.map((line) => (typeof line === "string" ? line : `${JSON.stringify(line)}\n`)).join(""));
  const [session] = readSessions([file]);
  assert.ok(session);
  return session;
}

type Block = Record<string, unknown>;
/** A line of Claude Code; `from` is its parent, null of the first. */
const line = (type: string, uuid: string, from: string | null, content: string | Block[], more: object = {}) => ({
  type,
  uuid,
  parentUuid: from,
  isSidechain: false,
  cwd: "/home/ann/app",
  message: { role: type, content, ...(type === "assistant" ? { id: `msg_${uuid}` } : {}) },
  ...more,
});
const asks = (uuid: string, from: string | null, content: string | Block[], more?: object) =>
  line("user", uuid, from, content, more);
const replies = (uuid: string, from: string | null, content: string | Block[], more?: object) =>
  line("assistant", uuid, from, typeof content === "string" ? [{ type: "text", text: content }] : content, more);
/** A block of a reply that is spread over several lines. */
const partOf = (id: string, uuid: string, from: string, block: Block) => ({
  ...replies(uuid, from, [block]),
  message: { role: "assistant", id, content: [block] },
});
const calls = (id: string, name = "Bash", input: object = { command: "make" }): Block => ({
  type: "tool_use",
  id,
  name,
  input,
});
const gets = (id: string, content: unknown = `result of ${id}`): Block => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});

/** A history in few words: texts, calls as their names, results as `id: text`. */
const outline = ({ messages }: Recorded): string[] =>
  messages.map((message) => {
    const words = blocksOf(message).map((block) => {
      if (block.type === "text") return block.text;
      if (block.type === "tool_use") return `${block.name}(${block.id})`;
      return block.type === "tool_result" ? `${block.tool_use_id}: ${block.content}` : block.type;
    });
    return `${message.role}: ${words.join(" | ")}`;
  });
const callsIn = ({ messages }: Recorded) => messages.flatMap(blocksOf).filter((block) => block.type === "tool_use");
const resultsIn = ({ messages }: Recorded) =>
  messages.flatMap(blocksOf).filter((block) => block.type === "tool_result");

/** Sends a whole history to the strict server, with thinking taken out, whose signatures are another server's. */
async function isAccepted({ messages }: Recorded): Promise<void> {
  const server = await startServer({ model: () => say("Fine."), contextLimit: 10_000_000 });
  try {
    const client = new Anthropic({ baseURL: server.url, apiKey: "test-key", maxRetries: 0 });
    const sent = messages.map((message): Anthropic.MessageParam => {
      const content = blocksOf(message).filter((block) => !block.type.endsWith("thinking"));
      return { role: message.role === "assistant" ? "assistant" : "user", content };
    });
    if (sent.at(-1)?.role === "assistant") sent.push(user("Go on."));
    const names = new Set(messages.flatMap(blocksOf).flatMap((block) => (block.type === "tool_use" ? block.name : [])));
    const tools = [...names, "any"].map((name) => ({ name, input_schema: { type: "object" as const } }));
    await client.messages.create({ model: "claude-sonnet-5-5", max_tokens: 100, tools, messages: sent });
  } finally {
    await server.close();
  }
}

describe("a session of Claude Code", () => {
  test("becomes requests, replies and results, with the tools named as in the lessons", async () => {
    const session = read(
      asks("a", null, "Mend the build."),
      replies("b", "a", [
        { type: "thinking", thinking: "Let me see.", signature: "sig" },
        calls("t1"),
        calls("t2", "Read", { file_path: "/home/ann/app/src/a.ts", offset: 5, limit: 2 }),
        calls("t3", "Write", { file_path: "/etc/motd", content: "Hi" }),
        calls("t4", "Edit", { file_path: "/home/ann/app/a.ts", old_string: "x", new_string: "y", replace_all: false }),
        calls("t5", "TodoWrite", { todos: [{ content: "look", status: "pending", activeForm: "looking" }] }),
        calls("t6", "Agent", { description: "find", prompt: "Find it.", subagent_type: "Explore" }),
        calls("t7", "Skill", { skill: "review" }),
        calls("t8", "mcp__my.server__look up", { pattern: "x" }),
        calls("t9", "Edit", { file_path: "/home/ann/application/a.ts", old_string: "x", new_string: "y" }),
      ]),
      asks(
        "c",
        "b",
        ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"].map((id) => gets(id)),
      ),
      replies("d", "c", "Done."),
    );
    assert.deepEqual(
      callsIn(session).map(({ name, input }) => [name, input]),
      [
        ["bash", { command: "make" }],
        ["read_file", { path: "src/a.ts", offset: 5, limit: 2 }],
        ["write_file", { path: "/etc/motd", content: "Hi" }],
        ["edit_file", { path: "a.ts", old_text: "x", new_text: "y" }],
        ["todo", { items: [{ text: "look", status: "pending" }] }],
        ["task", { description: "find", prompt: "Find it." }],
        ["load_skill", { name: "review" }],
        ["mcp__my_server__look_up", { pattern: "x" }],
        ["edit_file", { path: "/home/ann/application/a.ts", old_text: "x", new_text: "y" }],
      ],
    );
    assert.deepEqual(session.messages[0], user("Mend the build."));
    assert.deepEqual(blocksOf(session.messages[1] ?? user(""))[0], {
      type: "thinking",
      thinking: "Let me see.",
      signature: "sig",
    });
    assert.deepEqual(session.met, {});
    await isAccepted(session);
  });

  test("keeps a call whose input is not as expected, under its own name", () => {
    const session = read(asks("a", null, "Go."), replies("b", "a", [calls("t1", "Edit", { file: "a.ts" })]));
    assert.deepEqual(callsIn(session), [calls("t1", "Edit", { file: "a.ts" })]);
  });

  test("is the branch that ends last; the others are counted", async () => {
    const session = read(
      asks("a", null, "First."),
      replies("b", "a", "One."),
      asks("c", "b", "This was taken back."),
      replies("d", "c", "Gone."),
      asks("e", "b", "Second."),
      replies("f", "e", "Gone, too."),
      asks("g", "b", "Third."),
      replies("h", "g", "Three."),
    );
    assert.deepEqual(outline(session), ["user: First.", "assistant: One.", "user: Third.", "assistant: Three."]);
    assert.deepEqual(session.met, { "abandoned branch": 2 });
    await isAccepted(session);
  });

  test("has one message for a reply that is spread over lines, and one for the results, in the order of the calls", async () => {
    // t1 is answered before t2 is called, and the next line hangs on the result that came last: that of t3.
    const session = read(
      asks("a", null, "Go."),
      partOf("msg_1", "b", "a", { type: "text", text: "I look." }),
      partOf("msg_1", "c", "b", calls("t1")),
      asks("d", "c", [gets("t1")]),
      partOf("msg_1", "e", "d", calls("t2")),
      partOf("msg_1", "f", "e", calls("t3")),
      { type: "progress", uuid: "p", parentUuid: "f", isSidechain: false },
      asks("g", "f", [gets("t3")]),
      asks("h", "e", [gets("t2")]),
      replies("i", "g", "Seen."),
    );
    assert.deepEqual(outline(session), [
      "user: Go.",
      "assistant: I look. | bash(t1) | bash(t2) | bash(t3)",
      "user: t1: result of t1 | t2: result of t2 | t3: result of t3",
      "assistant: Seen.",
    ]);
    assert.deepEqual(session.met, { "line of a split reply": 3, "progress line": 1 });
    await isAccepted(session);
  });

  test("leaves out what subagents did", () => {
    const session = read(
      asks("a", null, "Go."),
      asks("s", null, "A subagent's task.", { isSidechain: true }),
      replies("t", "s", "Its answer.", { isSidechain: true }),
      replies("b", "a", "Done."),
    );
    assert.deepEqual(outline(session), ["user: Go.", "assistant: Done."]);
    assert.deepEqual(session.met, { "sidechain line": 2 });
  });

  test("goes on across an earlier compaction, without its summary", async () => {
    const boundary = (uuid: string, logicalParentUuid: string) => ({
      type: "system",
      subtype: "compact_boundary",
      uuid,
      parentUuid: null,
      logicalParentUuid,
    });
    const summary = { isCompactSummary: true };
    const session = read(
      asks("a", null, "First."),
      replies("b", "a", "One."),
      boundary("c", "b"),
      asks("d", "c", "This session is continued: …", summary),
      replies("e", "d", [calls("t1")]),
      asks("f", "e", [gets("t1")]),
      boundary("g", "a record of another file"),
      asks("h", "g", "Continued again: …", summary),
      asks("i", "h", "Second."),
      replies("j", "i", "Two."),
    );
    assert.deepEqual(outline(session), [
      "user: First.",
      "assistant: One. | bash(t1)",
      "user: t1: result of t1",
      "user: Second.",
      "assistant: Two.",
    ]);
    assert.deepEqual(session.met, { "system line": 2, compaction: 2, "missing parent": 1 });
    await isAccepted(session);
  });

  test("joins a summary that is the first of its own tree to the line before it", () => {
    const session = read(
      asks("a", null, "First."),
      replies("b", "a", "One."),
      asks("c", null, "This session is continued: …", { isCompactSummary: true }),
      asks("d", "c", "Second."),
      replies("e", "d", "Two."),
    );
    assert.deepEqual(outline(session), ["user: First.", "assistant: One.", "user: Second.", "assistant: Two."]);
  });

  test("keeps the summary that it begins with: what was before is in another file", () => {
    const session = read(
      asks("a", "elsewhere", "This session is continued: …", { isCompactSummary: true }),
      replies("b", "a", "I go on."),
    );
    assert.deepEqual(outline(session), ["user: This session is continued: …", "assistant: I go on."]);
    assert.deepEqual(session.met, { "compaction at the beginning": 1 });
  });

  test("survives broken and unknown lines, also where they stood between others", async () => {
    const session = read(
      '{"type":"summary","summary":"About","leafUuid":"x"}\n',
      asks("a", null, "First."),
      '{"type":"assistant","uuid":"b","parentUuid":"a","mess\n',
      asks("c", "b", "Second."),
      "\n",
      "[]\n",
      { type: "a-type-of-tomorrow", uuid: "d", parentUuid: "c", data: [1] },
      replies("e", "d", [
        { type: "text", text: "Two." },
        { type: "server_tool_use", id: "s" },
      ]),
      '{"type":"user"',
    );
    assert.deepEqual(outline(session), ["user: First. | Second.", "assistant: Two."]);
    assert.deepEqual(session.met, {
      "broken line": 3,
      "missing parent": 1,
      "summary line": 1,
      "a-type-of-tomorrow line": 1,
      "unknown block": 1,
    });
    await isAccepted(session);
  });

  test("gives a call without a result one that says so, and leaves out results without a call", async () => {
    const session = read(
      asks("a", null, [gets("t0")]),
      asks("b", "a", "Go."),
      replies("c", "b", [calls("t1"), calls("t2"), calls("t2")]),
      asks("d", "c", [gets("t2")]),
      replies("e", "d", [calls("t3")]),
    );
    assert.deepEqual(outline(session), [
      "user: Go.",
      "assistant: bash(t1) | bash(t2)",
      "user: t1: (no result recorded) | t2: result of t2",
      "assistant: bash(t3)",
      "user: t3: (no result recorded)",
    ]);
    assert.deepEqual(session.met, { "missing result": 2, "result without a call": 1, "repeated call": 1 });
    await isAccepted(session);
  });

  test("begins with a user's message even if the first that was recorded is a reply", async () => {
    const session = read(replies("a", "elsewhere", "I go on."), asks("b", "a", "Do."), replies("c", "b", "Done."));
    assert.equal(outline(session)[0], "user: (the beginning was not recorded)");
    assert.deepEqual(session.met, { "missing beginning": 1 });
    await isAccepted(session);
  });

  test("keeps apart from the results what a person asked while calls were open", async () => {
    const session = read(
      asks("a", null, "Go."),
      replies("b", "a", [calls("t1")]),
      asks("c", "b", [gets("t1", "Interrupted"), { type: "text", text: "A hint of the client." }]),
      asks("d", "c", "[Request interrupted by user]"),
      asks("e", "d", "Something else."),
      replies("f", "e", "Well."),
    );
    assert.deepEqual(outline(session), [
      "user: Go.",
      "assistant: bash(t1)",
      "user: t1: Interrupted | A hint of the client.",
      "user: [Request interrupted by user] | Something else.",
      "assistant: Well.",
    ]);
    await isAccepted(session);
  });

  test("has results as strings, with a text as long as its tokens for each image", async () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
    const text = (text: string) => ({ type: "text", text });
    const session = read(
      asks("a", null, [text("What is this?"), image]),
      replies("b", "a", [calls("t1"), calls("t2"), calls("t3")]),
      asks("c", "b", [
        gets("t1", [text("one"), text("two")]),
        gets("t2", [image]),
        { ...gets("t3", ""), is_error: true },
      ]),
    );
    const results = resultsIn(session).map(({ content }) => String(content));
    assert.equal(results[0], "one\ntwo");
    assert.match(results[1] ?? "", /^\[image or document\] \.+$/);
    assert.equal(results[1]?.length, 4_500);
    assert.equal(results[2], "(no output)");
    assert.equal(JSON.stringify(session).includes("iVBOR"), false);
    assert.deepEqual(session.met, { "image or document": 2 });
    await isAccepted(session);
  });

  test("shows what was read as the lessons do, without line numbers", () => {
    const session = read(
      asks("a", null, "Read."),
      replies("b", "a", [
        calls("t1", "Read", { file_path: "a" }),
        calls("t2", "Read", { file_path: "b" }),
        calls("t3"),
      ]),
      asks("c", "b", [
        gets("t1", "     9→one\n    10→\n    11→2→two"),
        gets("t2", "1\t\tx\n2\ty"),
        gets("t3", " 1→one"),
      ]),
    );
    assert.deepEqual(
      resultsIn(session).map(({ content }) => content),
      ["one\n\n2→two", "\tx\ny", " 1→one"],
    );
  });

  test("makes a call of each edit of a MultiEdit", async () => {
    const edits = ["a", "b"].map((old_string) => ({ old_string, new_string: "c" }));
    const session = read(
      asks("a", null, "Edit."),
      replies("b", "a", [calls("t1", "MultiEdit", { file_path: "/home/ann/app/f", edits })]),
      asks("c", "b", [gets("t1", "Applied 2 edits")]),
    );
    assert.deepEqual(
      callsIn(session).map(({ name, input }) => [name, input]),
      edits.map(({ old_string }) => ["edit_file", { path: "f", old_text: old_string, new_text: "c" }]),
    );
    assert.deepEqual(session.met, { MultiEdit: 1 });
    await isAccepted(session);
  });

  test("leaves out replies that no model wrote, and keeps the client's texts, a skill's with its call", async () => {
    const session = read(
      asks("a", null, "Review it."),
      replies("b", "a", "API Error: 529 Overloaded", { isApiErrorMessage: true }),
      {
        ...replies("c", "b", "No response requested."),
        message: {
          role: "assistant",
          model: "<synthetic>",
          content: [{ type: "text", text: "No response requested." }],
        },
      },
      asks("d", "c", "Once more."),
      replies("e", "d", [calls("t1", "Skill", { skill: "review" })]),
      asks("f", "e", [gets("t1", "Launching skill: review")]),
      asks("g", "f", [{ type: "text", text: "Look twice." }], { isMeta: true, sourceToolUseID: "t1" }),
      asks("h", "g", "A remark of the client.", { isMeta: true }),
      replies("i", "h", "Done."),
    );
    assert.deepEqual(outline(session), [
      "user: Review it. | Once more.",
      "assistant: load_skill(t1)",
      "user: t1: Launching skill: review\nLook twice. | A remark of the client.",
      "assistant: Done.",
    ]);
    assert.deepEqual(session.met, { "reply of the client": 2, "text of the client": 2 });
    await isAccepted(session);
  });

  test("has no blank text, no broken Unicode and no reply of thinking alone", async () => {
    const session = read(
      asks("a", null, "Go."),
      replies("b", "a", [{ type: "text", text: " \n" }, calls("t 1", "Bash", { command: "echo \ud800" })]),
      asks("c", "b", [gets("t 1", "a \udc00 b"), { type: "text", text: "" }]),
      replies("d", "c", [{ type: "thinking", thinking: "Interrupted.", signature: "sig" }]),
      asks("e", "d", "Still there?"),
      replies("f", "e", "Yes. \ud83d\ude00"),
    );
    assert.deepEqual(outline(session), [
      "user: Go.",
      "assistant: bash(t_1)",
      "user: t_1: a \ufffd b",
      "user: Still there?",
      "assistant: Yes. \u{1f600}",
    ]);
    assert.deepEqual(callsIn(session)[0]?.input, { command: "echo \ufffd" });
    assert.deepEqual(session.met, { "blank text": 2 });
    await isAccepted(session);
  });
});

describe("a transcript of ours", () => {
  const reply = (...content: Block[]) => ({ role: "assistant", content });
  const results = (...content: Block[]) => ({ role: "user", content });

  test("is read whole: a compaction's messages stand before it, a torn line is counted", async () => {
    const session = read(
      user("First."),
      reply(calls("t1", "bash")),
      results(gets("t1"), { type: "text", text: "<reminder>Update your todos.</reminder>" }),
      { type: "compaction", trigger: "auto", before: 9, after: 3, messages: [user("[Conversation compressed. …]")] },
      answer("One."),
      user("Second."),
      answer("Two."),
      '{"role":"user","conte',
    );
    assert.deepEqual(outline(session), [
      "user: First.",
      "assistant: bash(t1)",
      "user: t1: result of t1 | <reminder>Update your todos.</reminder>",
      "assistant: One.",
      "user: Second.",
      "assistant: Two.",
    ]);
    assert.deepEqual(session.met, { compaction: 1, "broken line": 1 });
    await isAccepted(session);
  });

  test("loses a request that was refused, with its replies", async () => {
    const session = read(
      user("First."),
      answer("One."),
      user("A request that is refused."),
      reply(calls("t1", "bash")),
      results(gets("t1")),
      { type: "compaction", trigger: "refusal", before: 9, after: 3, messages: [user("First."), answer("One.")] },
      user("One that the API does not take."),
      { type: "compaction", trigger: "rejected", before: 9, after: 3, messages: [user("First."), answer("One.")] },
      user("Second."),
      answer("Two."),
    );
    assert.deepEqual(outline(session), ["user: First.", "assistant: One.", "user: Second.", "assistant: Two."]);
    assert.deepEqual(session.met, { "withdrawn request": 2 });
    await isAccepted(session);
  });
});

describe("paths", () => {
  test("name files, or folders that are searched to the bottom for files with a conversation", () => {
    const top = join(folder, "projects");
    mkdirSync(join(top, "app", "subagents"), { recursive: true });
    const put = (path: string, ...lines: object[]) =>
      writeFileSync(join(top, path), lines.map((each) => JSON.stringify(each)).join("\n"));
    put("app/b.jsonl", user("B."), answer("One."));
    put("a.jsonl", asks("a", null, "A."), replies("b", "a", "One."));
    put("app/subagents/agent.jsonl", { ...replies("b", null, "Not told."), isSidechain: true });
    put("app/empty.jsonl");
    put("notes.json", user("No."), answer("No."));
    assert.deepEqual(
      readSessions([top, join(top, "app/b.jsonl")]).map(({ name, messages }) => [name, messages.length]),
      [
        ["a.jsonl", 2],
        ["b.jsonl", 2],
        ["b.jsonl", 2],
      ],
    );
  });

  test("without a conversation are an error that names them", () => {
    const put = (name: string, content: string) => {
      writeFileSync(join(folder, name), content);
      return join(folder, name);
    };
    const none = join(folder, "none");
    mkdirSync(none);
    const isNamed = (path: string, reason: RegExp) =>
      assert.throws(
        () => readSessions([path]),
        (error: Error) => error.message.includes(path) && reason.test(error.message),
      );
    isNamed(put("empty.jsonl", ""), /holds no conversation/);
    isNamed(put("text.jsonl", "Not JSON.\n"), /holds no conversation/);
    isNamed(put("unanswered.jsonl", `${JSON.stringify(user("Hello?"))}\n`), /holds no conversation/);
    isNamed(none, /no \.jsonl files/);
    isNamed(join(folder, "missing"), /does not exist/);
  });
});

describe("the sessions that are shipped", () => {
  const sessions = readSessions([fileURLToPath(new URL("../bench/sessions", import.meta.url))]);
  const requestsIn = ({ messages }: Recorded) => messages.filter(({ content }) => typeof content === "string");
  const errorsIn = (session: Recorded) => resultsIn(session).filter((result) => result.is_error);

  test("are at least four, each of 200,000 characters or more", () => {
    assert.ok(sessions.length >= 4);
    for (const { name, messages } of sessions) assert.ok(JSON.stringify(messages).length >= 200_000, name);
  });

  for (const session of sessions) {
    test(`${session.name}: whole, of several requests, and accepted by the strict server`, async () => {
      assert.deepEqual(session.met, {});
      assert.ok(requestsIn(session).length >= 4);
      assert.equal(session.messages.at(-1)?.role, "assistant");
      await isAccepted(session);
    });

    test(`${session.name}: reads, edits, shell output, parallel calls, and edits that fail`, () => {
      const names = new Set(callsIn(session).map(({ name }) => name));
      for (const name of ["bash", "read_file", "write_file", "edit_file", "todo"]) assert.ok(names.has(name), name);
      const most = session.messages.map(
        (message) => blocksOf(message).filter((block) => block.type === "tool_use").length,
      );
      assert.ok(Math.max(...most) >= 2);
      assert.ok(errorsIn(session).length > 0);
    });

    test(`${session.name}: an edit that worked replaces text that was shown before`, () => {
      const failed = new Set(errorsIn(session).map((result) => result.tool_use_id));
      const shown: string[] = [];
      let [edits, unseen] = [0, 0];
      for (const block of session.messages.flatMap(blocksOf)) {
        if (block.type === "tool_result") shown.push(String(block.content));
        if (block.type !== "tool_use") continue;
        const { old_text, new_text, content } = Object(block.input);
        if (block.name === "edit_file" && !failed.has(block.id)) {
          edits++;
          if (!shown.some((text) => text.includes(old_text))) unseen++;
        }
        shown.push(...[new_text, content].filter((text) => typeof text === "string"));
      }
      assert.ok(edits >= 20);
      assert.ok(unseen <= edits / 20, `${unseen} of ${edits}`);
    });
  }

  test("have rounds of ten parallel calls and more in at least two", () => {
    const isWide = (message: Anthropic.MessageParam) =>
      blocksOf(message).filter((block) => block.type === "tool_use").length >= 10;
    assert.ok(sessions.filter(({ messages }) => messages.some(isWide)).length >= 2);
  });
});
