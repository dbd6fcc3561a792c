/** How session files of Claude Code and s06 become turns and rounds of the lessons. */
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { STOPPED } from "../../offline/wording.ts";
import { line, linesOf, own, reply, result, rewrite, said, summary, text, use, user } from "../sessions/test-lines.ts";
import { readSession } from "./turns.ts";

const folder = mkdtempSync(join(tmpdir(), "turns-"));
after(() => rmSync(folder, { recursive: true }));
function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), linesOf(...lines));
  return join(folder, name);
}

test("a session of Claude Code becomes turns and rounds, with the lessons' tools and its own times", () => {
  const file = put(
    "claude.jsonl",
    line(null, "a", 1, user("Look.")),
    line("a", "b", 2, said("m1", use("t1", "Read", { file_path: "/app/src/a.ts", offset: 5 }))),
    line("b", "c", 2, said("m1", use("t2", "Edit", { file_path: "/x", old_string: "o", new_string: "n" }))),
    line("c", "d", 3, user([result("t2")])),
    line("b", "e", 4, user([result("t1", "  5→const a = 1;\n  6→let b;")])),
    line("e", "f", 5, user("Taken back.")),
    line(null, "g", 5, said("m2", text("A subagent's.")), { isSidechain: true }),
    line("e", "h", 5, said("m3", { type: "thinking", thinking: "Hm." }, text("Seen."))),
    line("h", "s", 8, user("This session is continued."), { isCompactSummary: true }),
    line("s", "i", 9, user("And now?")),
    line("i", "j", 10, said("m4", text("Done."))),
  );
  const { turns } = readSession(file);
  const outline = turns.map(({ request, time, rounds }) => [request, time / 60_000, rounds.length]);
  assert.deepEqual(outline, [["Look.", 1, 2], ["And now?", 9, 1]]); // biome-ignore format: two turns
  const [round, last] = turns[0]?.rounds ?? [];
  const inputs = round?.reply.map((block) => block.type === "tool_use" && { [block.name]: block.input });
  const read = { read_file: { path: "src/a.ts", offset: 5 } };
  assert.deepEqual(inputs, [read, { edit_file: { path: "/x", old_text: "o", new_text: "n" } }]);
  assert.deepEqual(last?.reply, [text("Hm."), text("Seen.")]);
  const results = round?.results.map(({ content }) => content);
  assert.deepEqual([results, round?.time], [["const a = 1;\nlet b;", "result of t2"], 240_000]);
});

test("a transcript of s06 continues across compactions, without broken lines and notes of a stop", () => {
  const file = put(
    "own.jsonl",
    ...[user("First."), reply(use("t1", "bash")), user([result("t1"), text("<reminder>")])].map((line) => own(line)),
    rewrite("auto", [user("First."), summary]),
    own(reply(text("One."))),
    own(user(`${STOPPED} Whatever ran has taken effect.)`)),
    own(user("Second.")),
    own(reply(use("t2", "bash"))),
  );
  appendFileSync(file, '{"message":{"role":"us');
  const { turns } = readSession(file);
  const outline = turns.map(({ request, rounds }) => `${request} ${rounds.length}`);
  assert.deepEqual(outline, ["First. 2", "Second. 1"]);
  assert.equal(turns[1]?.rounds[0]?.results[0]?.content, "(no result recorded)");
});
