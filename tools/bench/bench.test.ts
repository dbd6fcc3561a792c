/** The bench on small sessions: what it reads, what it bills, what it counts as grounded, and what it says. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Call } from "./replay.ts";
import { figuresOf } from "./report.ts";
import { readSession, readSessions } from "./sessions.ts";
import { STRATEGIES, sourceOf } from "./strategies.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
after(() => rmSync(folder, { recursive: true }));
function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return join(folder, name);
}

const text = (text: string) => ({ type: "text", text });
const use = (id: string, name: string, input: object = {}) => ({ type: "tool_use", id, name, input });
const result = (id: string, content = `result of ${id}`) => ({ type: "tool_result", tool_use_id: id, content });
const user = (content: unknown) => ({ role: "user", content });
const reply = (...content: object[]) => ({ role: "assistant", content });
const at = (minute: number, message: object) => ({ time: 60_000 * minute, ...message });

test("a session of Claude Code becomes turns of rounds, with the lessons' tools and times", () => {
  /** A line: its parent, name and minute. Replies of one `id` are one. */
  const line = (parentUuid: string | null, uuid: string, minute: number, message: object, more: object = {}) => {
    const timestamp = new Date(60_000 * minute).toISOString();
    const type = "id" in message ? "assistant" : "user";
    return { type, uuid, parentUuid, timestamp, cwd: "/app", message, ...more };
  };
  const said = (id: string, ...content: object[]) => ({ ...reply(...content), id });
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

test("a transcript of s06 goes on across compactions, without what was taken out and what is broken", () => {
  const file = put(
    "own.jsonl",
    ...[user("First."), reply(use("t1", "bash")), user([result("t1"), text("<reminder>")])],
    { type: "compaction", trigger: "auto", messages: [user("[Conversation compressed.]")] },
    ...[reply(text("One.")), user("Refused."), { type: "compaction", trigger: "refused", messages: [] }],
    ...[user("Second."), reply(use("t2", "bash"))],
  );
  writeFileSync(file, `${readFileSync(file, "utf8")}{"role":"us`);
  const { turns, skipped } = readSession(file);
  const outline = turns.map(({ request, rounds }) => `${request} ${rounds.length}`);
  assert.deepEqual(outline, ["First. 2", "Second. 1"]);
  assert.equal(turns[1]?.rounds[0]?.results[0]?.content, "(no result recorded)");
  const names = ["text of the client", "compaction", "withdrawn request", "missing result", "broken line"];
  assert.deepEqual(Object.keys(skipped).sort(), names.sort());
});

test("a session without times gets pauses like those of real ones, the same each time", () => {
  const lines = Array.from({ length: 200 }, (_, i) => [user(`${i}`), reply(text("Yes."))]).flat();
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

test("a strategy changes s06 where it says so; what s06 does not have is an error", () => {
  const s06 = readFileSync(new URL("../../agents/s06_context_compact.ts", import.meta.url), "utf8");
  for (const strategy of STRATEGIES) assert.equal(sourceOf(s06, strategy) === s06, strategy.name === "s06");
  const mine = { name: "mine", constants: { GONE: "1" } };
  assert.throws(() => sourceOf(s06, mine), /strategy "mine": s06 has constant GONE 0 times, not once/);
});

test("the bill: reads at 0.05, writes at 1.25, the rest at 1, summaries' output at 5, and what is read again", () => {
  const call: Call = { isSummary: false, context: 100, read: 60, written: 30, output: 7, edits: 0, lost: [], again: 0 };
  const cost = (more: Partial<Call>) => figuresOf([{ calls: [{ ...call, ...more }], rejected: [] }]).costs[1];
  assert.equal(cost({}), 60 * 0.05 + 30 * 1.25 + 10);
  assert.equal(cost({ isSummary: true }), 50.5 + 35);
  assert.equal(cost({ again: 40 }), 50.5 + 50);
  assert.equal(cost({ read: 0, written: 0, again: 40 }), 140); // without a cache nothing is written to it
});

test("npm run bench: s06 compacts in a pause, and the edits that lost their text are named", () => {
  const lines = Array.from({ length: 600 }, (_, i) => `const line${i} = ${i};`).join("\n");
  const round = (minute: number, id: string, name: string, input: object, content: string) => [
    at(minute, reply(use(id, name, input))),
    at(minute, user([result(id, content)])),
  ];
  const read = (name: string) =>
    round(2, `r${name}`, "read_file", { path: `${name}.ts` }, lines.replaceAll("line", name));
  const edit = (id: string, old_text: string) =>
    round(30, id, "edit_file", { path: "a.ts", old_text, new_text: "x" }, "Edited a.ts");
  const file = put(
    "work.jsonl",
    ...[at(1, user("Look.")), ...[..."bcdefghia"].flatMap(read)],
    ...[...round(2, "x", "bash", { command: "cat old" }, lines), at(2, reply(text("Seen.")))],
    ...[at(30, user("Change.")), ...edit("e1", "const a7 = 7;"), ...edit("e2", "const line7 = 7;")],
    ...[...edit("e3", "never shown"), at(31, reply(text("Done.")))],
  );
  const out = join(folder, "out.json");
  const script = fileURLToPath(new URL("./run.ts", import.meta.url));
  const args = ["--import", import.meta.resolve("tsx"), script, "--json", out, "--strategies", "s06", file];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: "utf8", cwd: folder });
  assert.deepEqual([stderr, status], ["", 0]);
  const { s06, "never compacting": never } = JSON.parse(readFileSync(out, "utf8")).strategies;
  const few = (of: typeof s06) => [of.requests, of.summaries, of.cold, of.edits, of.grounded];
  assert.deepEqual(few(never), [15, 0, 1, 2, 2]); // the request after the pause is cold
  assert.deepEqual(few(s06), [16, 1, 1, 2, 1]); // what was read from a.ts is restored, what bash printed is not
  assert.match(stdout, /s06 would have cost 0\.\d\d of never compacting: \$0\.\d\d instead of \$0\.\d\d/);
  assert.match(stdout, /1 of its 2 edits would have lost the text .*: in work\.jsonl \(a\.ts\)/);
});
