/** The bench on small sessions: its bills, the edits it counts as grounded, and its output. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { sum } from "../trace/numbers.ts";
import { linesOf, own, reply, result, text, use, user } from "../trace/test-lines.ts";
import { newestOf } from "./choose.ts";
import { oracle } from "./oracle.ts";
import { fetchSessions } from "./public.ts";
import type { Call } from "./replay.ts";
import { addUp, type Figures, type Results, toResults } from "./report.ts";
import { STRATEGIES, sourceOf } from "./strategies.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
after(() => rmSync(folder, { recursive: true }));
/** Repositories in this folder take the place of GitHub. */
const hub = join(folder, "hub");
const places = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: `url.file://${hub}/.insteadOf` };
const env = { ...process.env, ...places, GIT_CONFIG_VALUE_0: "https://github.com/" };

function put(name: string, ...lines: object[]): string {
  writeFileSync(join(folder, name), linesOf(...lines));
  return join(folder, name);
}

/** A line of s06. */
const at = (minute: number, message: object) => ({ ...own(message), time: 60_000 * minute });

test("a strategy changes s06 only where it says so, and fails if s06 lacks that place", () => {
  const s06 = readFileSync(new URL("../../agents/s06_context_compact.ts", import.meta.url), "utf8");
  for (const strategy of STRATEGIES) assert.equal(sourceOf(s06, strategy) === s06, strategy.name === "s06");
  const mine = { name: "mine", constants: { GONE: "1" } };
  assert.throws(() => sourceOf(s06, mine), /strategy "mine": s06 has constant GONE 0 times, not once/);
});

const NO_CALL = { isSummary: false, isReturn: false, context: 0, read: 0, written: 0, output: 0, edits: [] };
const source = { text: 0, from: 1, tokens: 40 };
const lost = { path: "a.ts", isLost: true, source };

test("reads cost 0.05, writes 1.25, other input 1, the output of summaries 5, and lost texts are paid for again", () => {
  const parts = (more: Partial<Call>) => {
    const call: Call = { ...NO_CALL, context: 100, read: 60, written: 30, output: 7, ...more };
    return Object.values(addUp({ calls: [call], rejected: [] }).parts);
  };
  assert.deepEqual(parts({}), [3, 0, 47.5, 0, 0]); // 30 written, 10 not
  assert.deepEqual(parts({ read: 0 }), [0, 107.5, 0, 0, 0]);
  assert.deepEqual(parts({ isSummary: true }), [0, 0, 0, 85.5, 0]);
  assert.deepEqual(parts({ edits: [lost] }), [3, 0, 47.5, 0, 50]);
  assert.deepEqual(parts({ read: 0, written: 0, edits: [lost] }), [0, 0, 100, 0, 40]); // without a cache
});

test("the 90 % interval of a difference comes from resampling the sessions", () => {
  const session = (cold: number): Figures => {
    const parts = { reads: 0, cold, fresh: 0, summaries: 0, rereading: 0 };
    return { parts, replies: 0, edits: 1, lost: [], summaries: 0, returns: 0, waits: 0 };
  };
  const ten = (costs: number[]) => Array.from({ length: 10 }, (_, i) => session(costs[i % costs.length] ?? 0));
  const rows = toResults(new Map(Object.entries({ "never compacting": ten([10]), s06: ten([5]), other: ten([4, 8]) })));
  const [from = 0, to = 0] = rows.strategies.other?.overS06?.cost ?? [];
  assert.ok(Math.abs(from) < 0.03 && Math.abs(to - 0.2) < 0.03, `${from} to ${to}`); // 0.1 ± 1.645 · 0.2 / √10
  assert.deepEqual(rows.strategies["never compacting"]?.overS06, { cost: [0.5, 0.5], grounded: [0, 0] });
});

test("the oracle rewrites where it pays and loses no text that a later edit needs", () => {
  // The second call adds 100,000 tokens, of which only a text of 1,000 is needed later. A pause and many small calls follow.
  const edit = { path: "a.ts", isLost: false, source: { text: 7, from: 1, tokens: 1_000 } };
  const calls: Call[] = Array.from({ length: 40 }, (_, i) => {
    const context = i === 0 ? 5_000 : 105_000 + 100 * i;
    const isCold = [0, 1, 20].includes(i);
    const isReturn = i === 20;
    const [read, written] = isCold ? [0, context] : [context - 100, 100];
    return { ...NO_CALL, isReturn, context, read, written, edits: i === 30 ? [edit] : [] };
  });
  const figures = (made: Call[]) => addUp({ calls: made, rejected: [] });
  const cost = (made: Call[]) => sum(Object.values(figures(made).parts));
  const [whenCold, anyTime] = [oracle(calls, true), oracle(calls, false)];
  assert.ok(cost(anyTime) < cost(whenCold) && cost(whenCold) < cost(calls));
  assert.deepEqual(whenCold.map(({ isSummary }) => isSummary).indexOf(true), 20);
  assert.equal(figures(whenCold).waits, 1);
  assert.equal(whenCold[21]?.context, 1_000 + 2_000 + 1_000 + 100); // system prompt, summary, text, request
  assert.deepEqual([figures(whenCold).edits, figures(whenCold).lost], [1, []]);
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

/** Runs the bench. Returns its output and the figures it writes. */
function bench(strategies: string, ...args: string[]) {
  const script = fileURLToPath(new URL("./bench.ts", import.meta.url));
  const out = join(folder, "out.json");
  const flags = ["--import", import.meta.resolve("tsx"), script, "--json", out, "--strategies", strategies];
  const run = spawnSync(process.execPath, [...flags, ...args], { encoding: "utf8", cwd: folder, env });
  assert.equal(run.status, 0, run.stderr);
  return { ...run, written: readFileSync(out, "utf8"), results: JSON.parse(readFileSync(out, "utf8")) as Results };
}

test("npm run bench compares what each strategy does in a cold cache and names lost edits", () => {
  const edits = (minute: number) => [edit(minute, "a"), edit(minute, "b"), edit(minute, "c", "never shown")].flat();
  const away = [done(2), at(30, user("Change.")), ...edits(30), done(30)];
  const files = [
    put("reads.jsonl", at(1, user("Look.")), ...names.flatMap(read), ...away), // layer 1 clears 11 of 14 results
    put("writes.jsonl", at(1, user("Write.")), ...names.flatMap(write), ...away), // layer 1 can't clear any of these texts
    put(
      "slow.jsonl", // a command takes ten minutes, and the next request comes four minutes after the last model call
      ...[at(1, user("Look.")), ...names.flatMap(read), ...round(2, "x", "bash", { command: "make" }, "ok", 12)],
      ...[...edits(12), done(12), at(16, user("Go on.")), done(16)],
    ),
    put(
      "folders.jsonl", // two folders are read as if they were files
      ...[at(1, user("Look.")), ...round(1, "r1", "read_file", { path: "src" }, "a.ts\nlib/")],
      ...round(1, "r2", "read_file", { path: "src/lib" }, "b.ts"),
      ...round(1, "r3", "read_file", { path: "src/lib/b.ts" }, fileWith("b")),
      ...round(1, "e1", "edit_file", { path: "src/lib/b.ts", old_text: "const b7 = 7;", new_text: "x" }, "Edited"),
      done(1),
    ),
  ];
  const { stdout, stderr, results } = bench("s06,textbook,nothing when cold,cold held to 50k", "--all", ...files);
  assert.equal(stderr, "");
  const { strategies } = results;
  assert.deepEqual([results.edits, results.returns], [7, 2]); // nobody returns to the slow session
  const row = (name: string) => {
    const { cost = 0, grounded = 0, summarized, waits } = strategies[name] ?? {};
    return [Math.sign(cost - 1), Math.round(7 * grounded), Math.round(4 * (summarized ?? 0)), waits];
  };
  assert.deepEqual(row("never compacting"), [0, 7, 0, 0]);
  assert.deepEqual(row("nothing when cold"), [0, 7, 0, 0]);
  assert.deepEqual(row("s06"), [-1, 6, 0, 0]); // only the three newest results are left
  assert.deepEqual(row("cold held to 50k"), [-1, 5, 1, 1]); // the summary replaces written texts as well
  assert.equal(row("textbook")[0], 1);
  assert.match(stdout, /s06 would have cost 0\.\d\d of never compacting: \$\d\.\d\d instead of \$\d\.\d\d/);
  assert.match(stdout, /1 of its 7 edits would have lost the text .*: in reads\.jsonl \(b\.ts\)/);
});

test("the newest sessions are replayed until the budget of rounds is spent, and the rest and broken files are named", () => {
  const home = join(folder, "home");
  mkdirSync(home);
  const rounds = (n: number) => Array.from({ length: n }, (_, i) => round(1, `t${i}`, "bash", {}, "ok")).flat();
  for (const [i, count] of [30, 12, 12, 9].entries()) {
    const file = put(`home/${i}.jsonl`, at(1, user("Go.")), ...rounds(count));
    utimesSync(file, 1_000 - i, 1_000 - i);
  }
  appendFileSync(join(home, "3.jsonl"), '{"message":{"ro');
  const { sessions, notes } = newestOf([home], 45);
  const names = sessions.map(({ name }) => name);
  assert.deepEqual(names, ["0.jsonl", "1.jsonl"]);
  assert.match(notes.join("\n"), /3\.jsonl is broken at line 20\n.*45 .*: 2\.jsonl$/);
  assert.equal(newestOf([home], 1).sessions.length, 1);
});

// --- public sessions -------------------------------------------------------------------------------------------------

/** Makes a repository whose two sessions change in the newest commit. Returns the commit before that. */
function publish(name: string): string {
  const cwd = join(hub, name);
  mkdirSync(cwd, { recursive: true });
  const script = `git init -q
    git config user.name a; git config user.email a@example.com; git config uploadpack.allowFilter true
    printf 1 > one.jsonl; printf 2 > two.jsonl; git add .; git commit -qm Sessions; git rev-parse HEAD
    printf changed | tee one.jsonl > two.jsonl; git commit -qam Later`;
  return execFileSync("bash", ["-ec", script], { cwd, encoding: "utf8" }).trim();
}

test("public sessions come from their commits, and a repository that can't be fetched is named", (t) => {
  const commit = publish("team/work");
  const rows = [`a\tteam/work\t${commit}\tone.jsonl`, `b\tteam/work\t${commit}\ttwo.jsonl`];
  const list = join(folder, "list.tsv");
  writeFileSync(list, ["id\trepo\tcommit\tpath", ...rows, `c\tteam/gone\t${commit}\tone.jsonl`].join("\n"));
  Object.assign(process.env, env);
  const said = t.mock.method(console, "error", () => {});
  const target = join(folder, "fetched");
  const files = fetchSessions(list, target);
  assert.deepEqual(files, [join(target, "a.jsonl"), join(target, "b.jsonl")]);
  const texts = files.map((file) => readFileSync(file, "utf8"));
  assert.deepEqual(texts, ["1", "2"]);

  rmSync(join(hub, "team"), { recursive: true }); // now nothing can be fetched
  writeFileSync(join(target, "a.jsonl"), "mine");
  assert.deepEqual(fetchSessions(list, target), files);
  assert.equal(readFileSync(join(target, "a.jsonl"), "utf8"), "mine");
  const [first, second, ...none] = said.mock.calls.map(({ arguments: [line] }) => String(line));
  assert.match(
    first ?? "",
    new RegExp(`^team/gone ${commit} can't be fetched; sessions left out: 1\n(.*\n)*fatal: .*gone`),
  );
  assert.deepEqual([second, none], [first, []]); // one line for the missing repository each time
  assert.throws(() => fetchSessions(list, join(folder, "none")), /none holds no session of .*list\.tsv/);
});

test("npm run bench -- --public replays only listed sessions, and writes nothing but figures", () => {
  const [, row = ""] = readFileSync(new URL("./public.tsv", import.meta.url), "utf8").split("\n");
  const [id = ""] = row.split("\t");
  const target = join(folder, "public");
  mkdirSync(target);
  const input = { file_path: "secret.ts" };
  const rounds = [reply(use("t1", "Read", input)), user([result("t1")]), reply(text("Done."))];
  const lines = [user("Private words."), ...rounds].map((message) => at(1, message));
  for (const name of [id, "unlisted"]) put(`public/${name}.jsonl`, ...lines);
  const { stderr, written, results } = bench("s06", "--public", target);
  assert.match(stderr, /\/\S+ [0-9a-f]{40} can't be fetched; sessions left out: \d+/);
  assert.deepEqual([results.sessions, results.rounds], [1, 2]);
  assert.deepEqual(Object.keys(results.strategies), ["never compacting", "s06", "oracle when cold", "oracle"]);
  assert.doesNotMatch(written, /Private|secret/);
});
