/** The bench on small sessions: what it bills, what it counts as grounded, and what it says. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { programs } from "./programs.ts";
import { fetchSessions } from "./public.ts";
import type { Call } from "./replay.ts";
import { figuresOf } from "./report.ts";
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

test("a strategy changes s06 where it says so; what s06 does not have is an error", () => {
  const s06 = readFileSync(new URL("../../agents/s06_context_compact.ts", import.meta.url), "utf8");
  for (const strategy of STRATEGIES) {
    const isUnchanged = strategy.name === "s06" || programs.includes(strategy.name);
    assert.equal(sourceOf(s06, strategy) === s06, isUnchanged, strategy.name);
  }
  const mine = { name: "mine", constants: { GONE: "1" } };
  assert.throws(() => sourceOf(s06, mine), /strategy "mine": s06 has constant GONE 0 times, not once/);
  const twice = { name: "mine", lines: { "}": "" } };
  assert.throws(() => sourceOf(s06, twice), /strategy "mine": s06 has the line `}` \d+ times, not once/);
});

test("the bill: reads at 0.05, writes at 1.25, the rest at 1, summaries' output at 5, and what is read again", () => {
  const call: Call = {
    isSummary: false,
    context: 100,
    read: 60,
    written: 30,
    output: 7,
    edits: 0,
    lost: [],
    touched: 0,
    again: 0,
  };
  const cost = (more: Partial<Call>) => figuresOf([{ calls: [{ ...call, ...more }], rejected: [] }]).costs[1];
  assert.equal(cost({}), 60 * 0.05 + 30 * 1.25 + 10);
  assert.equal(cost({ isSummary: true }), 50.5 + 35);
  assert.equal(cost({ again: 40 }), 50.5 + 50);
  assert.equal(cost({ read: 0, written: 0, again: 40 }), 140); // without a cache nothing is written to it
});

const script = fileURLToPath(new URL("./bench.ts", import.meta.url));

const TEXT = Array.from({ length: 600 }, (_, i) => `const line${i} = ${i};`).join("\n"); // 4,300 tokens
const textOf = (name: string) => TEXT.replaceAll("line", name);
const round = (minute: number, id: string, name: string, input: object, content: string, until = minute) => [
  at(minute, reply(use(id, name, input))),
  at(until, user([result(id, content)])),
];
const read = (name: string) => round(2, `r${name}`, "read_file", { path: `${name}.ts` }, textOf(name));
const write = (name: string) =>
  round(2, `w${name}`, "write_file", { path: `${name}.ts`, content: textOf(name) }, `Wrote ${name}.ts`);
const edit = (minute: number, name: string, old_text = `const ${name}7 = 7;`) =>
  round(minute, `e${name}`, "edit_file", { path: `${name}.ts`, old_text, new_text: "x" }, `Edited ${name}.ts`);

test("npm run bench: s06 forgets when a request meets a cold cache, and the edits that lost their text are named", () => {
  const names = [..."bcdefghijklmna"];
  const edits = (minute: number) => [edit(minute, "a"), edit(minute, "b"), edit(minute, "c", "never shown")].flat();
  const done = (minute: number) => at(minute, reply(text("Done.")));
  const away = [done(2), at(30, user("Change.")), ...edits(30), done(30)];
  const files = [
    put("reads.jsonl", at(1, user("Look.")), ...names.flatMap(read), ...away),
    put("writes.jsonl", at(1, user("Write.")), ...names.flatMap(write), ...away),
    put(
      "slow.jsonl", // a command takes ten minutes; the next request comes four minutes after the last model call
      ...[at(1, user("Write.")), ...names.flatMap(write), ...round(2, "x", "bash", { command: "make" }, "ok", 12)],
      ...[...edits(12), done(12), at(16, user("Look.")), done(16)],
    ),
  ];
  const out = join(folder, "out.json");
  const others = "textbook,hosted clearing,s06 with a timer,s06 looking before every call";
  const args = ["--import", import.meta.resolve("tsx"), script, "--json", out, "--strategies", `s06,${others}`];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...args, ...files], {
    encoding: "utf8",
    cwd: folder,
  });
  assert.deepEqual([stderr, status], ["", 0]);
  const { strategies } = JSON.parse(readFileSync(out, "utf8"));
  const few = (strategy: string, session: string) => {
    const of = strategies[strategy].sessions[`${session}.jsonl`];
    return [of.requests, of.summaries, of.cold, of.edits, of.grounded, of.touched];
  };
  assert.deepEqual(few("never compacting", "reads"), [19, 0, 1, 2, 2, 2]); // the request after the pause is cold
  assert.deepEqual(few("s06", "reads"), [19, 0, 1, 2, 1, 2]); // layer 1 is enough: three results stay
  assert.deepEqual(few("s06", "writes"), [20, 1, 2, 2, 1, 1]); // a summary: the five files written last are put back
  assert.deepEqual(few("s06", "slow"), [20, 0, 1, 2, 2, 2]); // nothing is forgotten within a turn
  assert.deepEqual(few("s06 looking before every call", "slow"), [21, 1, 2, 2, 1, 1]);
  assert.deepEqual(few("s06 with a timer", "writes"), [20, 1, 1, 2, 1, 1]); // the summary reads a warm cache
  assert.deepEqual(few("hosted clearing", "reads"), few("never compacting", "reads")); // it begins at 100,000 tokens
  const largest = (strategy: string) => strategies[strategy].sessions["reads.jsonl"].largest;
  assert.ok(largest("textbook") < largest("never compacting") / 2); // three results of fourteen stay
  assert.match(stdout, /s06 would have cost 0\.\d\d of never compacting: \$0\.\d\d instead of \$0\.\d\d/);
  assert.match(
    stdout,
    /2 of its 6 edits would have lost the text .*: in reads\.jsonl \(b\.ts\); writes\.jsonl \(b\.ts\)/,
  );
});

// --- public sessions -------------------------------------------------------------------------------------------------

/** In the place of GitHub: its repositories are in a folder of this machine. */
const hub = join(folder, "hub");
const places = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: `url.file://${hub}/.insteadOf` };
const env = { ...process.env, ...places, GIT_CONFIG_VALUE_0: "https://github.com/" };

/** A repository of which only its newest commit has these files. @returns the commit before that */
function publish(name: string, files: Record<string, string>): string {
  const at = join(hub, name);
  mkdirSync(at, { recursive: true });
  const git = (...args: string[]) => execFileSync("git", args, { cwd: at, encoding: "utf8" }).trim();
  git("init", "-q");
  git("config", "uploadpack.allowFilter", "true");
  const commit = () => {
    git("add", "-A");
    git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Sessions");
    return git("rev-parse", "HEAD");
  };
  for (const [path, text] of Object.entries(files)) writeFileSync(join(at, path), text);
  const first = commit();
  for (const path of Object.keys(files)) writeFileSync(join(at, path), "Changed later.");
  commit();
  return first;
}

test("public sessions come from their commits; a repository that is gone is named, and what is there stays", (t) => {
  const commit = publish("team/work", { "one.jsonl": "1", "two.jsonl": "2" });
  const rows = [`a\tteam/work\t${commit}\tone.jsonl`, `b\tteam/work\t${commit}\ttwo.jsonl`];
  const list = join(folder, "list.tsv");
  writeFileSync(list, ["id\trepo\tcommit\tpath", ...rows, `c\tteam/gone\t${commit}\tone.jsonl`].join("\n"));
  Object.assign(process.env, env);
  const said = t.mock.method(console, "error", () => {});
  const target = join(folder, "fetched");
  const files = fetchSessions(list, target);
  assert.deepEqual(
    files.map((file) => [file, readFileSync(file, "utf8")]),
    [
      [join(target, "a.jsonl"), "1"],
      [join(target, "b.jsonl"), "2"],
    ],
  );

  rmSync(join(hub, "team"), { recursive: true }); // nothing can be fetched any more
  writeFileSync(join(target, "a.jsonl"), "mine");
  assert.deepEqual(fetchSessions(list, target), files);
  assert.equal(readFileSync(join(target, "a.jsonl"), "utf8"), "mine");
  const lines = said.mock.calls.map(({ arguments: [line] }) => String(line));
  assert.equal(lines.length, 2); // of the one that is gone, each time
  const named = new RegExp(`^team/gone ${commit} cannot be fetched; sessions left out: 1\n(.*\n)*fatal: .*gone`);
  for (const line of lines) assert.match(line, named);
  assert.throws(() => fetchSessions(list, join(folder, "none")), /none holds no session of .*list\.tsv/);
});

test("npm run bench -- --public: figures alone, of those sessions of its list that there are", () => {
  const [, row = ""] = readFileSync(new URL("./public.tsv", import.meta.url), "utf8").split("\n");
  const [id = ""] = row.split("\t");
  const target = join(folder, "public");
  mkdirSync(target);
  const input = { file_path: "secret.ts" };
  const lines = [user("Private words."), reply(use("t1", "Read", input)), user([result("t1")]), reply(text("Done."))];
  for (const name of [id, "unlisted"])
    writeFileSync(join(target, `${name}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const out = join(folder, "public.json");
  const args = [
    "--import",
    import.meta.resolve("tsx"),
    script,
    "--public",
    target,
    "--json",
    out,
    "--strategies",
    "s06",
  ];
  const { stderr, status } = spawnSync(process.execPath, args, { encoding: "utf8", env });
  assert.equal(status, 0, stderr);
  assert.match(stderr, /\/\S+ [0-9a-f]{40} cannot be fetched; sessions left out: \d+/);
  const written = readFileSync(out, "utf8");
  const { sessions, strategies } = JSON.parse(written);
  assert.deepEqual(sessions, [{ name: `${id}.jsonl`, requests: 1, rounds: 2, isTimed: false, edits: 0 }]);
  assert.deepEqual(Object.keys(strategies), ["never compacting", "s06"]);
  assert.deepEqual([strategies.s06.requests, strategies.s06.sessions], [2, undefined]);
  assert.doesNotMatch(written, /Private|secret/);
});
