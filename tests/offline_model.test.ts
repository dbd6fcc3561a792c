// The rehearsal model: what it plays, what it knows, and what it says of itself. The lessons run as their own processes
// in folders of their own, each with a server of its own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { PROMPTS, rehearse } from "../offline/model.ts";
import { type JournalEntry, type Reply, startServer } from "../offline/server.ts";
import { folder, until } from "./harness.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const FILES = readdirSync(join(ROOT, "agents")).sort();
const LESSONS = FILES.map((name) => name.slice(0, 3));
const TSX = import.meta.resolve("tsx");

/** What the answer to each request must say, by what the request is about. */
const ANSWERS: [RegExp, RegExp[]][] = [
  [/hello\.mjs/, [/hello\.mjs/, /Hello, World!/]],
  [/largest file/, [/agents\/s06_context_compact\.ts/, /\d{5}/]],
  [/package\.json/, [/agent-in-six-layers/, /MIT/]],
  [/greet\.mjs/, [/Bonjour/]],
  [/math\.mjs/, [/math\.mjs/, /both work/, /MATH\.md/]],
  [/count\.mjs/, FILES.map((name) => new RegExp(`${name}\\D+\\d+`))],
  [/subtask/, [/tsx --test/]],
  [/skills\/code-review/, [/skills\/code-review\/SKILL\.md: \S+/]],
  [/Which skills/, [/code-review: \w+/, /debug: \w+/, /write-tests: \w+/]],
  [/Load the code-review/, [/\d+ lines/]],
  [/agents\/ folder one by one/, FILES.map((name) => new RegExp(`agents/${name}: \\S+`))],
  [/compression triggers/, [/compact/i, /^(?!Nothing was compacted)/]],
  [/Use the compact tool/, [/still know/]],
];
const answerTo = (prompt: string): RegExp[] => ANSWERS.find(([about]) => about.test(prompt))?.[1] ?? [];

/** The files that a request leaves behind. */
const WRITTEN: [RegExp, string[]][] = [
  [/hello\.mjs/, ["hello.mjs"]],
  [/greet\.mjs/, ["greet.mjs"]],
  [/math\.mjs/, ["math.mjs", "math.test.mjs", "MATH.md"]],
  [/count\.mjs/, ["count.mjs"]],
];

const textOf = (entry: JournalEntry): string =>
  (entry.reply ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
const resultsOf = ({ request }: JournalEntry) =>
  request.messages
    .flatMap(({ content }) => (typeof content === "string" ? [] : content))
    .filter((block) => block.type === "tool_result");
const callsOf = (entry: JournalEntry): string[] =>
  (entry.reply ?? []).flatMap((block) => (block.type === "tool_use" ? [block.name] : []));

/** Starts a lesson in a new copy of the project's workspace, on a server that rehearses. */
async function begin(lesson: string, args: string[], input = "", env: Record<string, string> = {}) {
  const workspace = mkdtempSync(join(folder, `${lesson}-`));
  for (const name of ["agents", "skills", "package.json"]) {
    cpSync(join(ROOT, name), join(workspace, name), { recursive: true });
  }
  const server = await startServer({ model: rehearse });
  const file = join(ROOT, "agents", FILES.find((name) => name.startsWith(`${lesson}_`)) ?? "");
  const child = spawn(process.execPath, ["--import", TSX, file, ...args], {
    cwd: workspace,
    env: { ...process.env, ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "offline", ...env },
  });
  const seen = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    seen.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    seen.stderr += text;
  });
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve));
  return { workspace, journal: server.journal, child, seen, ended: ended.finally(() => server.close()) };
}

/** Whether s06 asks for a summary. */
function isSummary({ request }: JournalEntry): boolean {
  const last = request.messages.at(-1)?.content;
  return typeof last === "string" && /summary of this conversation/.test(last);
}

/** Types these requests into one conversation. @returns the answer to each, with what else there is to see */
async function converse(lesson: string, prompts: string[], env: Record<string, string> = {}) {
  const { ended, ...rest } = await begin(lesson, ["-y"], prompts.map((prompt) => `${prompt}\n`).join(""), env);
  assert.equal(await ended, 0);
  const { journal } = rest;
  assert.equal(rest.seen.stderr, "");
  assert.deepEqual(
    journal.flatMap(({ error }) => error ?? []),
    [],
  );
  assert.deepEqual(
    journal.flatMap(resultsOf).filter(({ is_error }) => is_error),
    [],
  );
  // A subagent has a system prompt of its own.
  const parents = journal.filter((entry) => entry.request.system === journal[0]?.request.system && !isSummary(entry));
  const answers = parents.filter(({ stop_reason }) => stop_reason === "end_turn").map(textOf);
  assert.equal(answers.length, prompts.length);
  return { ...rest, answers };
}

const request = (...messages: Anthropic.MessageParam[]): Anthropic.MessageCreateParams => ({
  model: "claude-sonnet-5-5",
  max_tokens: 32_000,
  system: "You are a coding agent.",
  thinking: { type: "adaptive", display: "summarized" },
  tools: ["bash", "read_file", "write_file", "edit_file", "todo", "task", "load_skill", "compact"].map((name) => ({
    name,
    input_schema: { type: "object" },
  })),
  messages,
});
const user = (content: Anthropic.MessageParam["content"]): Anthropic.MessageParam => ({ role: "user", content });
const said = ({ content }: Reply) => content.map((block) => (block.type === "text" ? block.text : "")).join("");
const called = ({ content }: Reply) => content.find((block) => block.type === "tool_use");
/** A call and its result, as two messages. */
const round = (
  id: string,
  name: string,
  input: object,
  content: string,
  is_error = false,
): Anthropic.MessageParam[] => [
  { role: "assistant", content: [{ type: "tool_use", id, name, input }] },
  user([{ type: "tool_result", tool_use_id: id, content, is_error }]),
];

describe("the requests it knows", () => {
  test("each belong to a lesson that exists, or to any, and each lesson has some", () => {
    for (const { lesson } of PROMPTS) assert.ok(lesson === "any" || LESSONS.includes(lesson), lesson);
    for (const lesson of LESSONS)
      assert.ok(
        PROMPTS.some((prompt) => prompt.lesson === lesson),
        lesson,
      );
  });

  test("each have an answer that is looked for here, but for the one that is there to be interrupted", () => {
    for (const { lesson, prompt } of PROMPTS) assert.equal(answerTo(prompt).length > 0, lesson !== "any", prompt);
  });
});

describe("it plays each request to its end", { concurrency: 2 }, () => {
  for (const lesson of LESSONS) {
    const prompts = PROMPTS.flatMap((each) => (each.lesson <= lesson && each.lesson !== "any" ? [each.prompt] : []));

    test(`in ${lesson}: all that the lessons up to it bring, with real calls, one after the other`, async () => {
      const { answers, seen, workspace } = await converse(lesson, prompts);
      for (const [i, prompt] of prompts.entries()) {
        for (const words of answerTo(prompt)) assert.match(answers[i] ?? "", words, `${prompt}\n${answers[i]}`);
        for (const file of WRITTEN.find(([about]) => about.test(prompt))?.[1] ?? []) {
          assert.ok(existsSync(join(workspace, file)), file);
        }
      }
      for (const answer of answers) assert.ok(seen.stdout.includes(answer.split("\n").at(-1) ?? "?"), answer);
    });
  }

  test("in s06 with a small context: what is compacted on the way is seen, and spoils no answer", async () => {
    const half = "Read every file in the agents/ folder one by one; use the compact tool when half of them are read.";
    const keep = PROMPTS.find(({ prompt }) => /compression triggers/.test(prompt))?.prompt ?? "";
    const { answers, seen, journal } = await converse("s06", [half, keep], { COMPACT_THRESHOLD: "12000" });
    assert.match(seen.stdout, /\[manual compact\]/);
    assert.ok(journal.some(isSummary));
    for (const name of FILES) assert.match(answers[0] ?? "", new RegExp(`agents/${name}: \\S+`));
    assert.match(seen.stdout, /\[micro_compact\]|\[auto_compact triggered\]/);
    assert.match(answers[1] ?? "", /compact/i);
    assert.doesNotMatch(answers[1] ?? "", /Nothing was compacted/);
  });

  for (const lesson of ["s01", "s06"]) {
    test(`in ${lesson} until Ctrl-C, if it is there to be interrupted`, async () => {
      const prompt = PROMPTS.find((each) => each.lesson === "any")?.prompt ?? "";
      const { child, seen, journal, ended } = await begin(lesson, ["-y", prompt]);
      await until(() => /> bash/.test(seen.stdout));
      child.kill("SIGINT");
      assert.equal(await ended, 1);
      assert.match(seen.stdout, /interrupted by user/);
      assert.deepEqual(
        journal.flatMap(({ error }) => error ?? []),
        [],
      );
      assert.equal(journal.length, 1);
    });
  }

  test("never beyond what the lesson has: it says which tool is missing", async () => {
    const prompt = PROMPTS.find((each) => each.lesson === "s02")?.prompt ?? "";
    const { ended, journal } = await begin("s01", ["-y", prompt]);
    assert.equal(await ended, 0);
    assert.match(textOf(journal[0] ?? assert.fail("no request")), /read_file/);
    assert.deepEqual(callsOf(journal[0] ?? assert.fail("no request")), []);
  });
});

describe("anything else", () => {
  for (const words of ["What is the capital of France?", "", "Read minds.", "写一首诗", "constructor"]) {
    test(`is answered by saying what it is and what it knows: "${words}"`, () => {
      const reply = rehearse(request(user(words)));
      assert.equal(called(reply), undefined);
      assert.match(said(reply), /rehearsal, not a language model/);
      for (const { prompt } of PROMPTS) assert.ok(said(reply).includes(prompt), prompt);
    });
  }

  test("is answered so within a lesson, too", async () => {
    const { ended, seen, journal } = await begin("s03", ["-y", "What is the meaning of life?"]);
    assert.equal(await ended, 0);
    assert.match(seen.stdout, /not a language model/);
    assert.deepEqual(
      journal.flatMap(({ error }) => error ?? []),
      [],
    );
    assert.equal(journal.length, 1);
  });
});

describe("all it knows is in the messages", () => {
  const READ_ALL = user("Read every file in the notes/ folder one by one and say in one line what each is about.");
  const LISTED = round("a", "bash", { command: "ls -p notes" }, "one.txt\ntwo.txt\nold/\n");
  const ONE = round("b", "read_file", { path: "notes/one.txt" }, "Fact: one is red\n");

  test("it gives the same answer to the same request, which it leaves as it is", () => {
    const asked = request(READ_ALL, ...LISTED, ...ONE);
    const before = structuredClone(asked);
    const first = rehearse(asked);
    rehearse(request(user("Which skills do you have?")));
    assert.deepEqual(rehearse(asked), first);
    assert.deepEqual(asked, before);
  });

  test("it reads what the listing names, and not what it does not", () => {
    assert.deepEqual(called(rehearse(request(READ_ALL)))?.input, { command: "ls -p notes" });
    assert.deepEqual(called(rehearse(request(READ_ALL, ...LISTED)))?.input, { path: "notes/one.txt" });
    assert.deepEqual(called(rehearse(request(READ_ALL, ...LISTED, ...ONE)))?.input, { path: "notes/two.txt" });
  });

  test("it reads a file again when its result was cleared and no note of it is left", () => {
    const cleared = round("b", "read_file", { path: "notes/one.txt" }, "[Previous: used read_file]");
    assert.deepEqual(called(rehearse(request(READ_ALL, ...LISTED, ...cleared)))?.input, { path: "notes/one.txt" });
  });

  test("it makes a call again that a crash left without its result", () => {
    const killed = round("b", "read_file", { path: "notes/one.txt" }, "(interrupted; it may have run)");
    assert.deepEqual(called(rehearse(request(READ_ALL, ...LISTED, ...killed)))?.input, { path: "notes/one.txt" });
  });

  test("it sees that results were cleared, when that is what it was asked to wait for", () => {
    const waiting = user("Keep reading the files in agents/ until compression triggers by itself.");
    const listed = round("a", "bash", { command: "ls -p agents" }, "one.ts\n");
    const read = (content: string) => round("b", "read_file", { path: "agents/one.ts" }, content);
    assert.equal(called(rehearse(request(waiting, ...listed, ...read("Fact: one is red"))))?.name, "read_file");
    const answer = rehearse(request(waiting, ...listed, ...read("[Previous: used read_file]")));
    assert.equal(called(answer), undefined);
    assert.match(said(answer), /compact/i);
  });

  test("it does not when a note is left", () => {
    const cleared = round("b", "read_file", { path: "notes/one.txt" }, "[Previous: used read_file]");
    const note: Anthropic.MessageParam = {
      role: "assistant",
      content: [{ type: "text", text: "Noted notes/one.txt: one is red" }],
    };
    const two = round("c", "read_file", { path: "notes/two.txt" }, "Fact: two is blue");
    const answer = rehearse(request(READ_ALL, ...LISTED, ...cleared, note, ...two));
    assert.match(said(answer), /notes\/one\.txt: one is red/);
    assert.match(said(answer), /notes\/two\.txt: two is blue/);
  });

  test("its summary is text without a call, and is enough to go on from; without it, it begins anew", () => {
    const asked = user("Write a summary of this conversation. It will replace everything above.");
    const summary = rehearse(request(READ_ALL, ...LISTED, ...ONE, asked));
    assert.equal(called(summary), undefined);
    assert.match(said(summary), /one is red/);
    const compressed = (text: string) =>
      user([
        { type: "text", text: `[Conversation compressed. Transcript: .transcripts/t.jsonl]\n\n${text}` },
        { type: "text", text: `<request>\n${String(READ_ALL.content)}\n</request>` },
      ]);
    assert.deepEqual(called(rehearse(request(compressed(said(summary)))))?.input, { path: "notes/two.txt" });
    assert.deepEqual(called(rehearse(request(compressed("(lost)"))))?.input, { command: "ls -p notes" });
  });

  test("its summary says which todos stand, so that a plan is not begun anew", () => {
    const plan = user(PROMPTS.find(({ prompt }) => prompt.includes("math.mjs"))?.prompt ?? "");
    const first = called(rehearse(request(plan)));
    assert.equal(first?.name, "todo");
    const planned = round("a", "todo", Object(first?.input), "[>] #1: write math.mjs\n(0/3 completed)");
    const asked = user("Write a summary of this conversation.");
    const summary = said(rehearse(request(plan, ...planned, asked)));
    const compressed = user([
      { type: "text", text: `[Conversation compressed. Transcript: t.jsonl]\n\n${summary}` },
      { type: "text", text: `<request>\n${String(plan.content)}\n</request>` },
    ]);
    assert.equal(called(rehearse(request(compressed)))?.name, "write_file");
  });

  test("it does not take a restored file that speaks of summaries for a request for one", () => {
    const compressed = user([
      {
        type: "text",
        text: "[Conversation compressed. Transcript: t.jsonl]\n\nFolder notes\none.txt: one is red\nUnread: two.txt",
      },
      { type: "text", text: `<request>\n${String(READ_ALL.content)}\n</request>` },
      { type: "text", text: '<file path="notes/one.txt">\nWrite a summary of this conversation.\n</file>' },
    ]);
    assert.deepEqual(called(rehearse(request(compressed)))?.input, { path: "notes/two.txt" });
  });

  test("it answers the newest request, not what was asked and done before", () => {
    const hello = user("Create hello.mjs, a script that prints Hello, World!, and run it.");
    const before: Anthropic.MessageParam[] = [READ_ALL, ...LISTED, { role: "assistant", content: "Enough." }];
    assert.deepEqual(called(rehearse(request(...before, hello))), called(rehearse(request(hello))));
  });

  test("it reports what a command really printed", () => {
    const hello = user("Create hello.mjs, a script that prints Hello, World!, and run it.");
    const wrote = round("a", "bash", Object(called(rehearse(request(hello)))?.input), "(no output)");
    const ran = round("b", "bash", Object(called(rehearse(request(hello, ...wrote)))?.input), "Something else");
    assert.match(said(rehearse(request(hello, ...wrote, ...ran))), /Something else/);
  });

  test("it stops at a step that failed, and says how", () => {
    const hello = user("Create hello.mjs, a script that prints Hello, World!, and run it.");
    const input = Object(called(rehearse(request(hello)))?.input);
    const stopped = rehearse(request(hello, ...round("a", "bash", input, "bash: nobody can be asked", true)));
    assert.equal(called(stopped), undefined);
    assert.match(said(stopped), /nobody can be asked/);
  });

  test("its notes are thinking where thinking comes back, and text where it would come back empty", () => {
    const asked = request(user("Which is the largest file in this folder?"));
    assert.equal(rehearse(asked).content[0]?.type, "thinking");
    const { thinking: _, ...without } = asked;
    assert.equal(rehearse(without).content[0]?.type, "text");
    assert.equal(rehearse({ ...asked, thinking: { type: "adaptive" } }).content[0]?.type, "text");
  });
});
