/** How session files of Claude Code and s06 become a conversation. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { STOPPED } from "../lesson/wording.ts";
import { readConversation, type SessionEvent, textOf } from "./conversation.ts";
import { readSessionFile } from "./files.ts";
import { compaction, line, linesOf, own, reply, result, said, summary, text, use, user } from "./test-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sessions-"));
after(() => rmSync(folder, { recursive: true }));

/** A message's role and the types of its parts, or the type of another step. */
const outlineOf = (step: SessionEvent) =>
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
  const sizes = { threshold: 9_000, before: 9_500, after: 400 };
  const s06 = readConversation(
    linesOf(
      ...[user("Look."), reply(use("t1", "Read")), user([result("t1")])].map((message) => own(message)),
      compaction("micro", [user("Look.")], sizes),
      own(reply(text("Seen."))),
      compaction("auto", [user("Look."), summary]),
    ),
  );
  const messages = ["user text", "assistant tool_use", "user tool_result"];
  assert.deepEqual(claude.steps.map(outlineOf), [...messages, "clear", "assistant text", "rewrite"]);
  assert.deepEqual(s06.steps.map(outlineOf), [...messages, "rewrite", "assistant text", "rewrite"]);
  assert.deepEqual([claude.format, s06.format], ["Claude Code", "s06"]);
  const micro = s06.steps[3];
  assert.deepEqual(micro?.type === "rewrite" && [micro.threshold, micro.before, micro.after], [9_000, 9_500, 400]);
  const summaries = ({ steps }: typeof s06) =>
    steps.map((step) => step.type === "rewrite" && step.messages.map(({ isSummary }) => isSummary));
  assert.deepEqual(summaries(claude).at(-1), [true]);
  assert.deepEqual([summaries(s06)[3], summaries(s06).at(-1)], [[false], [false, true]]);
});

test("parts are as large as their JSON, except images, whose size is an estimate", () => {
  const picture = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(90_000) } };
  const blocks = [text("See:"), result("t1", [text("Here:"), picture])];
  const [step] = readConversation(linesOf(own(user(blocks)))).steps;
  const [first, second] = step?.type === "message" ? step.parts : [];
  assert.equal(first?.chars, JSON.stringify(text("See:")).length + 30); // 30 for the message around it
  assert.ok(second && second.chars > 4_500 && second.chars < 4_700, `${second?.chars}`);
  assert.equal(second?.type === "tool_result" && textOf(second.content, "[image]"), "Here:\n[image]");
});

test("messages that a compaction preserved come after its summary, and later ones follow them", () => {
  const preservedMessages = { uuids: ["b"], anchorUuid: "s" };
  const compactMetadata = { trigger: "manual", preTokens: 297_190, postTokens: 16_970, preservedMessages };
  const { steps, skipped } = readConversation(
    linesOf(
      line(null, "a", 1, user("Look.")),
      line("a", "b", 2, said("m1", text("Kept."))),
      { type: "system", uuid: "c", parentUuid: null, logicalParentUuid: "b", compactMetadata },
      { ...line("c", "s", 3, user("This session is continued.")), isCompactSummary: true },
      line("b", "d", 4, user("And now?")),
      line("d", "e", 5, said("m2", text("Done."))),
    ),
  );
  const kinds = steps.map((step) => (step.type === "rewrite" ? [step.before, step.messages.length] : step.type));
  assert.deepEqual(kinds, ["message", "message", [297_190, 2], "message", "message"]);
  assert.deepEqual(skipped, [{ reason: "system line", count: 1, lines: [] }]);
});

test("the usage of each model call is counted once, even if the transcript is resumed", () => {
  const usage = { input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 3, cache_creation_input_tokens: 4 };
  const rewrite = (trigger: string, state: object) => compaction(trigger, [summary], { state });
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
  const callsWithUsage = took.flatMap((usage, i) => (usage ? i : []));
  assert.deepEqual(callsWithUsage, [2, 5]);
  assert.deepEqual([took[2], took[5]], [counted, counted]);
});

test("the note that a turn was stopped isn't a request of the user", () => {
  const lines = linesOf(own(user(`${STOPPED} Whatever ran has taken effect.)`)), own(user("Second.")));
  const { steps } = readConversation(lines);
  const areMeta = steps.map((step) => step.type === "message" && step.isMeta);
  assert.deepEqual(areMeta, [true, false]);
});

test("a file that can't be read says why, and a half-written one is read up to where it breaks", () => {
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
