/** What is read from session files, of Claude Code and of s06: steps, turns and rounds, times, and what is left out. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readSession, readSessions } from "../bench/turns.ts";
import { readConversation, type Step, textOf } from "./conversation.ts";
import { readSessionFile } from "./files.ts";

const folder = mkdtempSync(join(tmpdir(), "sessions-"));
after(() => rmSync(folder, { recursive: true }));
const linesOf = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), linesOf(...lines));
  return join(folder, name);
}

const text = (text: string) => ({ type: "text", text });
const use = (id: string, name: string, input: object = {}) => ({ type: "tool_use", id, name, input });
const result = (id: string, content: unknown = `result of ${id}`) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});
const user = (content: unknown) => ({ role: "user", content });
const reply = (...content: object[]) => ({ role: "assistant", content });
/** A line of s06. */
const own = (message: object, state: object = {}) => ({ message, state });
const SUMMARY = [text("[Conversation compressed. Transcript: t.jsonl]\n\nAll.")];
/** A line of Claude Code: its parent, name and minute. Replies of one `id` are one. */
function line(parentUuid: string | null, uuid: string, minute: number, message: object, more: object = {}): object {
  const timestamp = new Date(60_000 * minute).toISOString();
  return { type: "id" in message ? "assistant" : "user", uuid, parentUuid, timestamp, cwd: "/app", message, ...more };
}
const said = (id: string, ...content: object[]) => ({ ...reply(...content), id });

/** A step in short: a message's role and the types of its parts, or what happened. */
const short = (step: Step) =>
  step.type === "message" ? [step.role, ...step.parts.map(({ type }) => type)].join(" ") : step.type;

test("both formats become the same conversation", () => {
  const clear = { type: "system", uuid: "c", parentUuid: "a3", microcompactMetadata: { compactedToolIds: ["t1"] } };
  const claude = readConversation(
    linesOf(
      line(null, "a1", 1, user("Look.")),
      line("a1", "a2", 2, said("m1", use("t1", "Read"))),
      line("a2", "a3", 2, user([result("t1")])),
      clear,
      line("c", "a4", 3, said("m2", text("Seen."))),
      line("a4", "a5", 4, user("This session is continued."), { isCompactSummary: true }),
    ),
  );
  const compaction = { type: "compaction", state: {} };
  const s06 = readConversation(
    linesOf(
      ...[user("Look."), reply(use("t1", "Read")), user([result("t1")])].map((message) => own(message)),
      { ...compaction, trigger: "micro", messages: [user("Look.")], threshold: 9_000, before: 9_500, after: 400 },
      own(reply(text("Seen."))),
      { ...compaction, trigger: "auto", messages: [user("Look."), user(SUMMARY)] },
    ),
  );
  const messages = ["user text", "assistant tool_use", "user tool_result"];
  assert.deepEqual(claude.steps.map(short), [...messages, "clear", "assistant text", "rewrite"]);
  assert.deepEqual(s06.steps.map(short), [...messages, "rewrite", "assistant text", "rewrite"]);
  assert.deepEqual([claude.format, s06.format], ["Claude Code", "s06"]);
  const micro = s06.steps[3];
  assert.deepEqual(micro?.type === "rewrite" && [micro.threshold, micro.before, micro.after], [9_000, 9_500, 400]);
  const summaries = ({ steps }: typeof s06) =>
    steps.map((step) => step.type === "rewrite" && step.messages.map(({ isSummary }) => isSummary));
  assert.deepEqual(summaries(claude).at(-1), [true]);
  assert.deepEqual([summaries(s06)[3], summaries(s06).at(-1)], [[false], [false, true]]);
});

test("sizes are those of the JSON; an image has the size of one, and its text is what the reader asks for", () => {
  const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(90_000) } };
  const blocks = [text("See:"), result("t1", [text("Here:"), picture])];
  const [step] = readConversation(linesOf(own(user(blocks)))).steps;
  const [first, second] = step?.type === "message" ? step.parts : [];
  assert.equal(first?.chars, JSON.stringify(text("See:")).length + 30); // and the message around it
  assert.ok(second && second.chars > 4_500 && second.chars < 4_700, `${second?.chars}`);
  assert.equal(second?.type === "tool_result" && textOf(second.content, "[image]"), "Here:\n[image]");
});

test("a session of Claude Code becomes turns of rounds, with the lessons' tools and times", () => {
  const file = put(
    "claude.jsonl",
    line(null, "a", 1, user("Look.")),
    line("a", "b", 2, said("m1", use("t1", "Read", { file_path: "/app/src/a.ts", offset: 5 }))),
    line("b", "c", 2, said("m1", use("t2", "Edit", { file_path: "/x", old_string: "o", new_string: "n" }))),
    line("c", "d", 3, user([result("t2")])),
    line("b", "e", 4, user([result("t1", "  5→const a = 1;\n  6→let b;")])),
    line("e", "f", 5, user("Taken back.")),
    line(null, "g", 5, said("m2", text("A subagent's.")), { isSidechain: true }),
    line("e", "h", 5, said("m3", text("Seen."))),
    line("h", "s", 8, user("This session is continued."), { isCompactSummary: true }),
    line("s", "i", 9, user("And now?")),
    line("i", "j", 10, said("m4", text("Done."))),
  );
  const { turns, isTimed, skipped } = readSession(file);
  const outline = turns.map(({ request, time, rounds }) => [request, time / 60_000, rounds.length]);
  assert.deepEqual(outline, [["Look.", 1, 2], ["And now?", 9, 1]]); // biome-ignore format: two turns
  const [round] = turns[0]?.rounds ?? [];
  assert.deepEqual(
    round?.reply.map((block) => block.type === "tool_use" && [block.name, block.input]),
    [
      ["read_file", { path: "src/a.ts", offset: 5 }],
      ["edit_file", { path: "/x", old_text: "o", new_text: "n" }],
    ],
  );
  const results = round?.results.map(({ content }) => content);
  assert.deepEqual([results, round?.time], [["const a = 1;\nlet b;", "result of t2"], 240_000]);
  assert.deepEqual(
    [isTimed, skipped],
    [true, { "line of a subagent": 1, "line of an abandoned branch": 1, compaction: 1 }],
  );
});

test("what was said after messages that a compaction preserved follows its summary", () => {
  const preservedMessages = { uuids: ["b"], anchorUuid: "s" };
  const compactMetadata = { trigger: "manual", preTokens: 297_190, postTokens: 16_970, preservedMessages };
  const { steps, skipped } = readConversation(
    linesOf(
      ...[line(null, "a", 1, user("Look.")), line("a", "b", 2, said("m1", text("Kept.")))],
      { type: "system", uuid: "c", parentUuid: null, logicalParentUuid: "b", compactMetadata },
      { ...line("c", "s", 3, user("This session is continued.")), isCompactSummary: true },
      ...[line("b", "d", 4, user("And now?")), line("d", "e", 5, said("m2", text("Done.")))],
    ),
  );
  const kinds = steps.map((step) =>
    step.type === "rewrite" ? [step.before, step.after, step.messages.length] : step.type,
  );
  assert.deepEqual(kinds, ["message", "message", [297_190, 16_970, 2], "message", "message"]);
  assert.deepEqual(skipped, [{ reason: "system line", count: 1, lines: [] }]);
});

test("a result that stands in the file before its call is read as the call says", () => {
  const file = put(
    "parallel.jsonl",
    line(null, "a", 1, user("Look.")),
    line("a", "b", 2, said("m1", use("t1", "Bash"))),
    line("b", "c", 3, user([result("t2", "  5→const a = 1;")])),
    line("b", "d", 3, said("m1", use("t2", "Read", { file_path: "/app/a.ts" }))),
    line("d", "e", 3, user([result("t1")])),
  );
  const results = readSession(file).turns[0]?.rounds[0]?.results.map(({ content }) => content);
  assert.deepEqual(results, ["result of t1", "const a = 1;"]);
});

test("a transcript of s06 goes on across compactions, without what was taken out and what is broken", () => {
  const file = put(
    "own.jsonl",
    ...[user("First."), reply(use("t1", "bash")), user([result("t1"), text("<reminder>")])].map((line) => own(line)),
    { type: "compaction", trigger: "auto", messages: [user("First."), user(SUMMARY)], state: {} },
    ...[own(reply(text("One."))), own(user("Refused."))],
    { type: "compaction", trigger: "refused", messages: [user(SUMMARY)], state: {} },
    ...[own(user("Second.")), own(reply(use("t2", "bash")))],
  );
  writeFileSync(file, `${readFileSync(file, "utf8")}{"message":{"role":"us`);
  const { turns, skipped } = readSession(file);
  const outline = turns.map(({ request, rounds }) => `${request} ${rounds.length}`);
  assert.deepEqual(outline, ["First. 2", "Second. 1"]);
  assert.equal(turns[1]?.rounds[0]?.results[0]?.content, "(no result recorded)");
  const names = ["text of the client", "compaction", "withdrawn request", "missing result", "broken line"];
  assert.deepEqual(Object.keys(skipped).sort(), names.sort());
});

test("the note that a turn was stopped isn't a request", () => {
  const stopped = own(user("(Stopped here. Whatever ran has taken effect.)"));
  const first = [user("First."), reply(use("t1", "bash")), user([result("t1")])].map((message) => own(message));
  const file = put("stopped.jsonl", ...first, stopped, own(user("Second.")), own(reply(text("Done."))));
  const { turns } = readSession(file);
  assert.deepEqual(
    turns.map(({ request, rounds }) => `${request} ${rounds.length}`),
    ["First. 1", "Second. 1"],
  );
  const { steps } = readConversation(readFileSync(file, "utf8"));
  const requests = steps.filter((step) => step.type === "message" && step.role === "user" && !step.isMeta);
  assert.equal(requests.length, 2);
});

test("of a turn that the API rejected in its last step, the steps before stay", () => {
  const before = [user("Look."), reply(use("t1", "bash")), user([result("t1")])];
  const rejected = [reply(use("t2", "bash")), user([result("t2", "too long")])];
  const messages = [...before, ...rejected].map((message) => own(message));
  const compaction = { type: "compaction", trigger: "rejected", messages: before, state: {} };
  const file = put("rejected.jsonl", ...messages, compaction);
  const { turns, skipped } = readSession(file);
  const ids = turns.map(({ rounds }) => rounds.flatMap(({ results }) => results.map((each) => each.tool_use_id)));
  assert.deepEqual([ids, skipped], [[["t1"]], { "rejected step": 1 }]);
});

test("a transcript says once what each model call took, also the one for a summary; a resumed one does not repeat it", () => {
  const usage = { input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 3, cache_creation_input_tokens: 4 };
  const rewrite = (trigger: string, state: object) => ({
    type: "compaction",
    trigger,
    messages: [user(SUMMARY)],
    state,
  });
  const { steps } = readConversation(
    linesOf(
      rewrite("resume", { lastCall: 0, usage }),
      own(user("Look."), { lastCall: 0, usage }),
      own(reply(use("t1", "bash")), { lastCall: 5, usage }),
      own(user([result("t1")]), { lastCall: 5, usage }),
      rewrite("micro", { lastCall: 5, usage }),
      rewrite("auto", { lastCall: 6, usage }),
      own(user("And now?"), { lastCall: 7 }), // a call that failed
    ),
  );
  const counted = { input: 1, output: 2, read: 3, written: 4, isHour: false, isFinal: true };
  const took = steps.map((step) => step.type !== "clear" && step.usage);
  const none = undefined;
  assert.deepEqual(took, [none, none, counted, none, none, counted, none]);
});

test("a session without times gets pauses like those of real ones, the same each time", () => {
  const lines = Array.from({ length: 200 }, (_, i) => [own(user(`${i}`)), own(reply(text("Yes.")))]).flat();
  const { turns, isTimed } = readSession(put("untimed.jsonl", ...lines));
  const pauses = turns.slice(1).map(({ time }, i) => time - (turns[i]?.rounds[0]?.replied ?? 0));
  const long = pauses.filter((pause) => pause > 270_000).length / pauses.length;
  assert.ok(!isTimed && long > 0.15 && long < 0.32, `${long}`);
  assert.deepEqual(readSession(join(folder, "untimed.jsonl")).turns, turns);
});

test("a path without a session is an error of one line that names it", () => {
  mkdirSync(join(folder, "empty"));
  writeFileSync(join(folder, "notes.txt"), "Not JSON.\n");
  assert.throws(() => readSessions(join(folder, "missing")), /missing does not exist; name/);
  assert.throws(() => readSessions(join(folder, "empty")), /empty has no \.jsonl files/);
  assert.throws(() => readSessions(join(folder, "notes.txt")), /notes\.txt holds no session/);
});

test("a file that can't be shown says why, and a half-written one is read up to where it breaks", () => {
  const problemOf = (name: string, content: string) => {
    writeFileSync(join(folder, name), content);
    return readSessionFile(join(folder, name)).problem;
  };
  assert.equal(readSessionFile(folder).problem, "can't be read: EISDIR");
  assert.equal(problemOf("blank.jsonl", "\n"), "is empty");
  assert.equal(problemOf("binary.jsonl", "\0ELF"), "is binary");
  assert.equal(problemOf("other.jsonl", '{"a":1}\n'), "holds no session of Claude Code or s06");
  assert.equal(problemOf("good.jsonl", linesOf(own(user("Look.")))), undefined);
  assert.equal(problemOf("half.jsonl", `${linesOf(own(user("Look.")))}{"message":`), "is broken at line 2");
  assert.equal(readSessionFile(join(folder, "half.jsonl")).conversation?.steps.length, 1);
});
