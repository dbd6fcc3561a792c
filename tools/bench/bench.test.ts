/** The bench on small sessions: its bills, the edits that lose their text, and its output. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { CLEARED } from "../../offline/wording.ts";
import { linesOf, own, reply, result, text, use, user } from "../sessions/test-lines.ts";
import { pricesFor } from "./caching.ts";
import type { Call } from "./replay.ts";
import { addUp, toResults } from "./report.ts";
import { STRATEGIES, sourceOf } from "./strategies.ts";
import { ownRounds, readSessions, roundsIn } from "./turns.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
after(() => rmSync(folder, { recursive: true }));
function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), linesOf(...lines));
  return join(folder, name);
}

const at = (minute: number, message: object) => ({ ...own(message), time: 60_000 * minute });

test("a strategy fails if s06 lacks what it changes", () => {
  const never = STRATEGIES.find(({ rows }) => "never compacting" in rows) ?? assert.fail();
  assert.throws(() => sourceOf("const THRESHOLD = 1;", never), /s06 lacks .*RESULT_LIMIT/);
});

// --- bills -----------------------------------------------------------------------------------------------------------

const USAGE = {
  ...{ input_tokens: 7, cache_read_input_tokens: 5, cache_creation_input_tokens: 3 },
  cache_creation: { ephemeral_1h_input_tokens: 2, ephemeral_5m_input_tokens: 1 },
};

test("a prompt is found again up to a mark that it shares with an earlier one, while the cache lives", () => {
  const price = pricesFor({
    sent: "as sent",
    end: { end: "5m" },
    both: { cleared: "5m", end: "5m" },
    hour: { cleared: "1h", end: "1h" },
  });
  const long = "long ".repeat(6_000); // 10,000 tokens
  /** Four results, of which the first are cleared. */
  const request = (cleared: number) => {
    const rounds = [..."abcd"].flatMap((id, i) => [
      reply(use(id, "bash", { command: long })),
      user([result(id, i < cleared ? `${CLEARED}bash]` : long)]),
    ]);
    return { model: "m", max_tokens: 1, messages: rounds };
  };
  const readAt = (minute: number, cleared: number) => {
    const prices = price(request(cleared), USAGE, 60_000 * minute);
    return Object.values(prices).map(({ read }) => Math.round(read / 10_000)); // 7 is all of the first prompt
  };
  assert.deepEqual(readAt(0, 1), [0, 0, 0, 0]);
  assert.deepEqual(readAt(1, 1), [0, 7, 7, 7]);
  assert.deepEqual(readAt(2, 2), [0, 0, 1, 1]); // from the end, nothing is the same any more
  assert.deepEqual(readAt(12, 2), [0, 0, 0, 6]);
  const { sent, hour } = price(request(3), USAGE, 60_000 * 13);
  assert.deepEqual(sent, { input: 7, read: 5, written: 3, writtenForHour: 2 });
  assert.equal(hour?.writtenForHour, hour?.written);
  assert.equal(Math.round((hour?.read ?? 0) / 10_000), 2); // up to the second result, the last that was cleared
});

const PROMPT = { input: 10, read: 60, written: 30, writtenForHour: 0 };
const lost = { path: "a.ts", isLost: true, tokens: 40 };

test("a token read costs 0.05, written 1.25 or for an hour 2, in a summary 5, otherwise 1; lost texts are paid again", () => {
  const bill = (prompt: object, more: Partial<Call> = {}) => {
    const call = { isSummary: false, isCopy: false, edits: [], output: 7, prompts: { row: { ...PROMPT, ...prompt } } };
    return addUp([{ ...call, ...more }], "row").bill;
  };
  assert.equal(bill({}), 3 + 37.5 + 10);
  assert.equal(bill({ writtenForHour: 20 }), 3 + 12.5 + 40 + 10);
  assert.equal(bill({}, { isSummary: true }), 3 + 37.5 + 10 + 35);
  assert.equal(bill({}, { edits: [lost] }), 3 + 37.5 + 10 + 1.25 * 40);
  assert.equal(bill({ writtenForHour: 30 }, { edits: [lost] }), 3 + 60 + 10 + 2 * 40);
  assert.equal(bill({ read: 0, written: 0 }, { edits: [lost] }), 10 + 40); // without a cache
  assert.equal(bill({}, { isCopy: true }), 0);
});

test("costs are relative to never compacting, with reads at 0.05 and at 0.1", () => {
  const session = (bill: number, read = 0) => [{ bill, read, replies: 0, edits: 1, lost: [], summaries: 0 }];
  const { rows } = toResults(new Map(Object.entries({ "never compacting": session(10, 200), s06: session(5, 40) })));
  assert.deepEqual([rows.s06?.cost, rows.s06?.costAt10], [0.5, 0.35]); // 200 reads cost 10 more, and 40 cost 2
});

// --- replays ---------------------------------------------------------------------------------------------------------

const TEXT = Array.from({ length: 600 }, (_, i) => `const line${i} = ${i};`).join("\n"); // 4,300 tokens
const fileWith = (name: string) => TEXT.replaceAll("line", name);
const round = (minute: number, id: string, name: string, input: object, content: string, until = minute) => [
  at(minute, reply(use(id, name, input))),
  at(until, user([result(id, content)])),
];
const read = (name: string) => round(2, `r${name}`, "read_file", { path: `${name}.ts` }, fileWith(name));
const write = (name: string) =>
  round(2, `w${name}`, "write_file", { path: `${name}.ts`, content: fileWith(name) }, `Wrote ${name}.ts`);
const edit = (minute: number, name: string, old_text = `const ${name}7 = 7;`) =>
  round(minute, `e${name}`, "edit_file", { path: `${name}.ts`, old_text, new_text: "x" }, `Edited ${name}.ts`);
const done = (minute: number) => at(minute, reply(text("Done.")));

const names = [..."bcdefghijklmna"]; // with 60,000 tokens

/** Runs the bench as npm does when it is called in `folder`. Returns its output. */
function bench(...args: string[]): string {
  const script = fileURLToPath(new URL("./bench.ts", import.meta.url));
  const env = { ...process.env, INIT_CWD: folder };
  const run = spawnSync(process.execPath, ["--import", import.meta.resolve("tsx"), script, ...args], { env });
  assert.equal(String(run.stderr), "");
  return String(run.stdout);
}

test("without a path, npm run bench says how to measure one's own sessions", () => {
  assert.match(bench(), /npm run bench -- ~\/\.claude\/projects/);
});

test("npm run bench says first what is cheapest and what loses text, and names where s06 does", () => {
  const after = (minute: number, ...edited: string[]) => {
    const edits = [...edited.flatMap((name) => edit(minute, name)), ...edit(minute, "c", "never shown")];
    return [done(2), at(minute, user("Change.")), ...edits, done(minute)];
  };
  const reads = [..."opqrstuvwxyzABC", ...names].flatMap(read); // layer 1 clears those that came first
  put("reads.jsonl", at(1, user("Look.")), ...reads, ...after(50, "a", "b"));
  put("writes.jsonl", at(0, user("Write.")), ...names.flatMap(write), ...after(51, "a", "b", "k")); // layer 1 can't clear any of these texts
  const stdout = bench("--all", "reads.jsonl", "writes.jsonl");
  const verdict =
    /^tutorial's code, best marks would have cost least, \$\d\.\d\d instead of \$\d\.\d\d; s06 at 50,000 would have lost most, the text of 2 edits, and s06 that of 1\.\n\n\|/;
  assert.match(stdout, verdict);
  const row = (name: string) => {
    const [cost = "", , kept = "", summarized = ""] =
      new RegExp(`^\\| ${name} +\\|(.*)`, "m").exec(stdout)?.[1]?.split("|") ?? [];
    return [Math.sign(Number(cost) - 1), kept.trim(), summarized.trim()];
  };
  assert.deepEqual(row("never compacting"), [0, "100 %", "0 %"]);
  assert.deepEqual(row("never compacting, an hour"), [-1, "100 %", "0 %"]);
  assert.deepEqual(row("s06"), [-1, "80 %", "0 %"]);
  assert.deepEqual(row("s06 at 50,000"), [-1, "60 %", "50 %"]); // the summary comes with k.ts
  assert.deepEqual(row("tutorial's text, no cache"), [1, "80 %", "0 %"]);
  assert.deepEqual(row("tutorial's code, no cache"), [1, "80 %", "50 %"]); // files stay until they are summarized
  assert.match(stdout, /^- s06 would have lost a text in reads\.jsonl: b\.ts$/m);
});

// --- sessions --------------------------------------------------------------------------------------------------------

test("the newest long sessions are replayed until a window is full, and broken files are named", () => {
  const home = join(folder, "home");
  mkdirSync(home);
  const rounds = (n: number, result = "ok") =>
    Array.from({ length: n }, (_, i) => round(20, `t${i}`, "bash", {}, result)).flat();
  const contents = [rounds(9), rounds(30, TEXT.repeat(3)), ...Array.from({ length: 10 }, () => rounds(10))];
  for (const [i, lines] of contents.entries()) {
    const file = put(`home/${i}.jsonl`, at(i, user("Go.")), ...lines);
    if (i === 0) appendFileSync(file, '{"message":{"ro');
    utimesSync(file, 1_000 - i, 1_000 - i);
  }
  const { sessions, notes } = readSessions([home], false);
  assert.deepEqual([sessions.length, readSessions([home], true).sessions.length], [10, 12]);
  const [first = assert.fail(), ...rest] = sessions;
  assert.deepEqual([first.name, roundsIn(first)], ["1.jsonl", 15]);
  assert.deepEqual(new Set(rest.map(roundsIn)), new Set([10]));
  assert.match(notes.join(), /0\.jsonl is broken at line 20$/);
  assert.throws(() => readSessions([join(home, "0.jsonl")], false), /no session of 10 rounds or more.*\n.*line 20/);
});

test("what a session has in common with a longer one counts there, and one that has nothing else is left out", () => {
  const rounds = (...ids: string[]) => ids.flatMap((id, i) => round(i + 1, id, "bash", {}, "ok"));
  const files = [rounds("a", "b"), rounds("a", "b", "c"), rounds("a", "b", "d", "e")].map((lines, i) =>
    put(`fork${i}.jsonl`, at(1, user("Go.")), ...lines),
  );
  const { sessions, notes } = readSessions(files, true);
  const counted = sessions.map((session) => [session.name, roundsIn(session), ownRounds(session).length]);
  assert.deepEqual(counted, [
    ["fork1.jsonl", 3, 1],
    ["fork2.jsonl", 4, 4],
  ]);
  assert.deepEqual(notes, ["rounds that are in several of the 3 files and count once: 4"]);
});
