/** The bench on small sessions: its bills, the edits it counts as grounded, and its output. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { CLEARED } from "../../offline/wording.ts";
import { linesOf, own, reply, result, text, use, user } from "../sessions/test-lines.ts";
import { totalOf } from "../sessions/timeline.ts";
import { oracle } from "./oracle.ts";
import { fetchSessions } from "./public.ts";
import type { Call } from "./replay.ts";
import { addUp, type Figures, type Results, toResults } from "./report.ts";
import { MAIN, OTHERS, sourceOf } from "./strategies.ts";
import { markCleared } from "./textbook.ts";
import { readSessions, roundsIn } from "./turns.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
after(() => rmSync(folder, { recursive: true }));
function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), linesOf(...lines));
  return join(folder, name);
}

const at = (minute: number, message: object) => ({ ...own(message), time: 60_000 * minute });

test("a strategy changes s06 only where it says so, and fails if s06 lacks that place", () => {
  const s06 = readFileSync(new URL("../../agents/s06_context_compact.ts", import.meta.url), "utf8");
  for (const strategy of [...MAIN, ...OTHERS])
    assert.equal(sourceOf(s06, strategy) === s06, strategy.name === "s06", strategy.name);
  const mine = { name: "mine", constants: { GONE: "1" } };
  assert.throws(() => sourceOf(s06, mine), /strategy "mine": s06 declares GONE 0 times, not once/);
});

test("the textbook's cache mark moves to the last cleared result", () => {
  const cleared: Anthropic.ToolResultBlockParam = { type: "tool_result", tool_use_id: "t", content: `${CLEARED}bash]` };
  const results = [
    { ...cleared, cache_control: { type: "ephemeral" as const } },
    cleared,
    { ...cleared, content: "all" },
  ];
  markCleared([{ role: "user", content: results }]);
  const marks = results.map((each) => each.cache_control?.type);
  assert.deepEqual(marks, [undefined, "ephemeral", undefined]);
});

const CALL = { input: 10, read: 60, written: 30, writtenForHour: 0, output: 7, isSummary: false, edits: [] };
const source = { text: 0, from: 1, tokens: 40 };
const lost = { path: "a.ts", isLost: true, source };

test("reads cost 0.05, writes 1.25 or for an hour 2, other input 1, the output of summaries 5, and lost texts are paid again", () => {
  const bill = (more: Partial<Call>) => addUp([{ ...CALL, ...more }]).bill;
  assert.equal(bill({}), 3 + 37.5 + 10);
  assert.equal(bill({ writtenForHour: 20 }), 3 + 12.5 + 40 + 10);
  assert.equal(bill({ isSummary: true }), 3 + 37.5 + 10 + 35);
  assert.equal(bill({ edits: [lost] }), 3 + 37.5 + 10 + 1.25 * 40);
  assert.equal(bill({ read: 0, written: 0, edits: [lost] }), 10 + 40); // without a cache
});

test("costs are relative to never compacting, with reads at 0.05 and at 0.1, and differences have a 90 % interval", () => {
  const session = (bill: number, read = 0) => ({ bill, read, replies: 0, edits: 1, lost: [], summaries: 0 });
  const five = (...two: Figures[]) => Array.from({ length: 5 }, () => two).flat();
  const [never, half] = [session(10, 200), session(5)];
  const rows = { "never compacting": five(never, never), s06: five(half, half), other: five(session(4), session(8)) };
  const { strategies } = toResults(new Map(Object.entries(rows)));
  const [from = 0, to = 0] = strategies.other?.overS06?.cost ?? [];
  assert.ok(Math.abs(from) < 0.03 && Math.abs(to - 0.2) < 0.03, `${from} to ${to}`); // 0.1 ± 1.645 · 0.2 / √10
  assert.deepEqual([strategies.s06?.cost, strategies.s06?.costAt10], [0.5, 0.25]); // 200 reads cost 10 more
  assert.deepEqual(strategies["never compacting"]?.overS06?.costAt10, [0.75, 0.75]);
});

test("the oracle rewrites where it pays and loses no text that a later edit needs", () => {
  // The second call adds 100,000 tokens, of which only a text of 1,000 is needed later. A pause and many small calls follow.
  const edit = { path: "a.ts", isLost: true, source: { text: 7, from: 1, tokens: 1_000 } };
  const calls: Call[] = Array.from({ length: 40 }, (_, i) => {
    const size = i === 0 ? 5_000 : 105_000 + 100 * i;
    const [read, written] = [0, 1, 20].includes(i) ? [0, size] : [size - 100, 100];
    return { ...CALL, input: 0, read, written, edits: i === 30 ? [edit] : [] };
  });
  const cost = (made: Call[]) => addUp(made).bill;
  const best = oracle(calls);
  assert.ok(cost(best) < cost(calls) / 2, `${cost(best)} of ${cost(calls)}`);
  const [first = 0] = best.flatMap(({ isSummary }, i) => (isSummary ? i : []));
  assert.equal(first, 2);
  assert.equal(totalOf(best[first + 1] ?? CALL), 1_000 + 2_000 + 1_000 + 100); // system prompt, summary, text, request
  assert.deepEqual([addUp(best).edits, addUp(best).lost], [1, []]);
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

const names = [..."bcdefghijklmna"];

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

test("npm run bench compares the strategies, names lost edits, and writes nothing but figures", () => {
  const edits = (minute: number) => [edit(minute, "a"), edit(minute, "b"), edit(minute, "c", "never shown")].flat();
  const away = [done(2), at(90, user("Change.")), ...edits(90), done(90)];
  put("reads.jsonl", at(1, user("Look.")), ...names.flatMap(read), ...away); // layer 1 clears 11 of 14 results
  put("writes.jsonl", at(1, user("Write.")), ...names.flatMap(write), ...away); // layer 1 can't clear any of these texts
  const pauses = [12, 23, 34, 45].flatMap((minute) => [at(minute, user("And?")), done(minute)]);
  put("pauses.jsonl", at(1, user("Write.")), ...names.flatMap(write), done(2), ...pauses);
  const files = ["reads", "writes", "pauses"].map((name) => `${name}.jsonl`);
  const stdout = bench("--all", "--json", "out.json", ...files);
  const written = readFileSync(join(folder, "out.json"), "utf8");
  const results: Results = JSON.parse(written);
  assert.deepEqual([results.sessions, results.edits], [3, 4]);
  const row = (name: string) => {
    const { cost = 0, grounded = 0, summarized = 0 } = results.strategies[name] ?? {};
    return [Math.sign(cost - 1), Math.round(4 * grounded), Math.round(3 * summarized)];
  };
  assert.deepEqual(row("never compacting"), [0, 4, 0]);
  assert.deepEqual(row("s06"), [-1, 3, 0]); // only the three newest results are left
  assert.deepEqual(row("s06 at 50,000"), [-1, 2, 2]); // what was written can only be summarized
  assert.equal(row("textbook")[0], 1);
  const cost = (name: string) => results.strategies[name]?.cost ?? 0;
  assert.ok(cost("never compacting, with the hour") < 1, stdout);
  assert.ok(cost("s06") < cost("s06, five minutes only"), stdout);
  assert.match(
    stdout,
    /s06 would have cost \$\d\.\d\d instead of \$\d\.\d\d .*\n1 of its 4 edits .*: reads\.jsonl \(b\.ts\)\./,
  );
  assert.doesNotMatch(written, /Look|\.ts/);
});

// --- sessions --------------------------------------------------------------------------------------------------------

test("the newest long sessions are replayed until a window is full, and broken files are named", () => {
  const home = join(folder, "home");
  mkdirSync(home);
  const rounds = (n: number, result = "ok") =>
    Array.from({ length: n }, (_, i) => round(1, `t${i}`, "bash", {}, result)).flat();
  const contents = [rounds(9), rounds(30, TEXT.repeat(3)), ...Array.from({ length: 10 }, () => rounds(10))];
  for (const [i, lines] of contents.entries()) {
    const file = put(`home/${i}.jsonl`, at(1, user("Go.")), ...lines);
    if (i === 0) appendFileSync(file, '{"message":{"ro');
    utimesSync(file, 1_000 - i, 1_000 - i);
  }
  const { sessions, problems } = readSessions([home], false);
  assert.deepEqual([sessions.length, readSessions([home], true).sessions.length], [10, 12]);
  const [first = assert.fail(), ...others] = sessions;
  assert.deepEqual([first.name, roundsIn(first)], ["1.jsonl", 15]);
  assert.deepEqual(new Set(others.map(roundsIn)), new Set([10]));
  assert.match(problems.join(), /0\.jsonl is broken at line 20$/);
  assert.throws(() => readSessions([join(home, "0.jsonl")], false), /no session of 10 rounds or more.*\n.*line 20/);
});

test("public sessions come from their commits, those that are there stay, and those that can't be had are counted", async (t) => {
  const server = createServer((req, res) => {
    if (req.url?.includes("gone")) res.statusCode = 404;
    res.end(req.url);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  const list = join(folder, "list.tsv");
  const rows = [
    "id\trepo\tcommit\tpath",
    ...["a", "b", "gone"].map((id) => `${id}\tteam/work\tc0ffee\tlog/${id}.jsonl`),
  ];
  writeFileSync(list, rows.join("\n"));
  const said = t.mock.method(console, "error", () => {});
  const target = join(folder, "fetched");
  mkdirSync(target);
  writeFileSync(join(target, "b.jsonl"), "mine");
  const address = server.address();
  const host = `http://127.0.0.1:${typeof address === "object" && address?.port}`;
  const texts = (await fetchSessions(list, target, host)).map((file) => readFileSync(file, "utf8"));
  assert.deepEqual(texts, ["/team/work/c0ffee/log/a.jsonl", "mine"]);
  assert.match(String(said.mock.calls[0]?.arguments), /^1 sessions can't be fetched\. .*gone\.jsonl: 404/);
  const none = fetchSessions(list, join(folder, "none"), `${host}/gone`);
  await assert.rejects(none, /none holds no session of .*list\.tsv/);
});
