/**
 * Changes the lessons in a thousand small ways and looks whether their suites notice.
 *
 *     npm run test:mutants                      all lessons: takes hours
 *     npm run test:mutants -- s03 s04           some
 *       --sample N                              every Nth mutant
 *       --only ID                               one, as named in the output
 *       --survivors                             those that survived last time, again
 *       --continue                              the rest of a run that was stopped
 *       --workers N                             how many at a time; the number of cores if left out
 *
 * A mutant is a lesson with one change (operators.ts) in a line that the lesson before does not have in the same region.
 * The suites of the lesson run on it in a copy of this folder until a test fails; only tests that reach the change when
 * nothing is changed are run. Survivors that no test is worth are named in survivors.yaml with the reason. Exits with 1 if
 * another one survives, or one of those named does not.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { build, transformSync } from "esbuild";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { apply, type Change, changesOf, stretchesOf } from "./operators.ts";

/** Suites beside a lesson's own, tests/sNN_*.test.ts, that run on several lessons. */
const SHARED_SUITES = ["faults", "crashes", "escapes"];
/** Packages that are put into one file each, since loading their many files is most of what a run takes. */
const BUNDLED = ["@anthropic-ai/sdk", "zod", "yaml"];

const ROOT = process.cwd();
const SCRATCH = realpathSync(mkdtempSync(join(tmpdir(), "mutants-")));
const RESULTS = join(ROOT, ".mutants");
const SURVIVORS = join(ROOT, "tests/mutants/survivors.yaml");
const WATCH = import.meta.resolve("./watch.ts");

type Mutant = Change & { id: string; lesson: string; region: string; isNewRegion: boolean; line: number; key: string };
type Suite = { file: string; tests: Map<string, number>; reachedBy: Map<number, Set<string>> };
const Result = z.object({
  id: z.string(),
  status: z.enum(["killed", "timed out", "survived", "not reached"]),
  by: z.string(),
});
type Result = z.output<typeof Result>;
const Ended = z.object({ name: z.string(), ms: z.number(), isSuite: z.boolean(), failed: z.boolean() });

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: "string", default: "1" },
    only: { type: "string" },
    survivors: { type: "boolean", default: false },
    continue: { type: "boolean", default: false },
    workers: { type: "string", default: String(availableParallelism()) },
  },
});
const STEMS = readdirSync(join(ROOT, "agents"))
  .map((name) => basename(name, ".ts"))
  .sort();
const short = (stem: string) => stem.slice(0, 3);
const sourceOf = (stem: string) => readFileSync(join(ROOT, "agents", `${stem}.ts`), "utf8");

// --- the mutants ----------------------------------------------------------------------------------------------------

/** The region that each line is in, "" for none. */
function regionsOf(source: string): string[] {
  let region = "";
  return source.split("\n").map((line) => {
    const mark = /^\/\/ #(end)?region ?(.*)$/.exec(line);
    if (mark) region = mark[1] ? "" : (mark[2] ?? "");
    return mark ? "" : region;
  });
}

function mutantsOf(stem: string): Mutant[] {
  const source = sourceOf(stem);
  const lines = source.split("\n");
  const regions = regionsOf(source);
  const before = STEMS[STEMS.indexOf(stem) - 1];
  const earlier = new Map<string, string[]>();
  if (before !== undefined) {
    const regionsBefore = regionsOf(sourceOf(before));
    for (const [i, line] of sourceOf(before).split("\n").entries()) {
      const region = regionsBefore[i] ?? "";
      earlier.set(region, [...(earlier.get(region) ?? []), line.trim()]);
    }
  }
  const isNew = lines.map((line, i) => {
    const region = regions[i] ?? "";
    return region !== "" && !earlier.get(region)?.includes(line.trim());
  });
  const keys = new Map<string, number>();
  return changesOf(source).flatMap((change) => {
    const first = source.slice(0, change.start).split("\n").length - 1;
    const last = source.slice(0, change.end).split("\n").length;
    if (!isNew.slice(first, last).includes(true)) return [];
    const region = regions[first] ?? "";
    const lineStart = source.lastIndexOf("\n", change.start - 1) + 1;
    const old = lines[first]?.trim() + (last - first > 1 ? " …" : "");
    const rest = source.slice(change.end).split("\n")[0] ?? "";
    let key = `${short(stem)} ${region}: ${old}  →  ${(source.slice(lineStart, change.start) + change.text.split("\n").join(" ") + rest).trim()}`;
    const count = (keys.get(key) ?? 0) + 1;
    keys.set(key, count);
    if (count > 1) key += ` (${count})`;
    const id = `${short(stem)}-${createHash("sha256").update(key).digest("hex").slice(0, 6)}`;
    return [{ ...change, id, lesson: stem, region, isNewRegion: !earlier.has(region), line: first + 1, key }];
  });
}

// --- running suites in a copy of the folder -------------------------------------------------------------------------

/** A copy of the project, with a temporary folder of its own. */
function makeCopy(name: string): string {
  const copy = join(SCRATCH, name);
  const left = ["node_modules", ".git", ".mutants", ".offline", ".transcripts", ".env"].map((each) => join(ROOT, each));
  cpSync(ROOT, join(copy, "project"), { recursive: true, filter: (path) => !left.includes(path) });
  symlinkSync(join(SCRATCH, "node_modules"), join(copy, "project/node_modules"));
  mkdirSync(join(copy, "tmp"));
  return copy;
}

async function bundlePackages(): Promise<void> {
  const packages = join(SCRATCH, "node_modules");
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    mkdirSync(packages, { recursive: true });
    if (!BUNDLED.some((each) => each.split("/")[0] === name))
      symlinkSync(join(ROOT, "node_modules", name), join(packages, name));
  }
  for (const name of BUNDLED) {
    const names = Object.keys(await import(name));
    await build({
      stdin: { contents: `export { ${names} } from "${name}"`, resolveDir: ROOT },
      outfile: join(packages, name, "index.mjs"),
      banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
      bundle: true,
      platform: "node",
      format: "esm",
    });
    writeFileSync(
      join(packages, name, "package.json"),
      JSON.stringify({ name, exports: { ".": "./index.mjs", "./package.json": "./package.json" } }),
    );
  }
}

/** Ends what a run left behind: its process group, and on Linux whatever else carries its mark. */
function sweep(copy: string): void {
  for (const pid of existsSync("/proc") ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : []) {
    try {
      if (readFileSync(`/proc/${pid}/environ`, "utf8").includes(`MUTANTS_COPY=${copy}\0`))
        process.kill(Number(pid), "SIGKILL");
    } catch {} // it has ended, or is not ours
  }
  for (const name of readdirSync(join(copy, "tmp"))) {
    if (!name.startsWith("tsx")) rmSync(join(copy, "tmp", name), { recursive: true, force: true }); // its cache
  }
}

const escaped = (name: string) => name.replace(/[^\w ]/g, "\\$&");

/** Runs a suite, or these tests of it, until one fails. @param limit ms @returns how each test ended */
async function runSuite(copy: string, suite: string, limit: number, tests: string[] = []) {
  const report = join(copy, "report");
  rmSync(report, { force: true });
  const { NODE_V8_COVERAGE: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  const child = spawn(
    process.execPath,
    [
      ...["--import", "tsx", "--import", WATCH, "--test-reporter", WATCH, "--test-reporter-destination", "stdout"],
      ...tests.map((name) => `--test-name-pattern=/${escaped(name)}$/`),
      suite,
    ],
    {
      cwd: join(copy, "project"),
      env: { ...env, CARRIED: "off", TMPDIR: join(copy, "tmp"), MUTANTS_COPY: copy, MUTANTS_REPORT: report },
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
    },
  );
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const killGroup = () => {
    try {
      if (child.pid) process.kill(-child.pid, "SIGKILL");
    } catch {} // it has ended
  };
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup();
  }, limit);
  const code = await new Promise((resolve) => child.on("exit", resolve));
  clearTimeout(timer);
  killGroup();
  sweep(copy);
  const ended = existsSync(report)
    ? readFileSync(report, "utf8")
        .trim()
        .split("\n")
        .filter(Boolean)
        .map((line) => Ended.parse(JSON.parse(line)))
    : [];
  const failed = ended.find((each) => each.failed)?.name;
  return { passed: code === 0, timedOut, failed, ended, errors };
}

/** Runs a lesson's suites unchanged, noting which tests reach which stretches of it. @throws if a test fails */
async function measure(copy: string, stem: string): Promise<Suite[]> {
  const source = sourceOf(stem);
  const hits = join(copy, "hits");
  const notes = stretchesOf(source).flatMap(({ start, end, open, close }, i) => [
    {
      start: start + (close ? 0 : 1),
      end: start + (close ? 0 : 1),
      text: close ? open(`__note(${i})`) : `__note(${i});`,
    },
    { start: end, end, text: close },
  ]);
  const noting = `
import { appendFileSync as __append } from "node:fs";
function __note(stretch) {
  const note = \`[\${process.env.MUTANTS_RUNNING ?? "[]"},\${stretch}]\\n\`;
  __note.seen ??= new Set();
  if (!__note.seen.has(note)) __append(${JSON.stringify(hits)}, note);
  __note.seen.add(note);
}`;
  writeFileSync(join(copy, "project/agents", `${stem}.ts`), apply(source, notes) + noting);
  const names = readdirSync(join(ROOT, "tests")).filter(
    (name) => name.startsWith(`${short(stem)}_`) && name.endsWith(".test.ts"),
  );
  const shared = SHARED_SUITES.map((name) => `${name}.test.ts`).filter((name) => existsSync(join(ROOT, "tests", name)));
  const suites: Suite[] = [];
  for (const name of [...names, ...shared]) {
    const file = join("tests", name);
    rmSync(hits, { force: true });
    const { passed, ended, failed, errors } = await runSuite(copy, file, 600_000);
    if (!passed) throw new Error(`${file} fails with nothing changed: ${failed ?? errors}`);
    const reachedBy = new Map<number, Set<string>>();
    for (const line of existsSync(hits) ? readFileSync(hits, "utf8").trim().split("\n") : []) {
      const [running, stretch] = z.tuple([z.array(z.string()), z.number()]).parse(JSON.parse(line));
      const reached = reachedBy.get(stretch) ?? new Set();
      reachedBy.set(stretch, reached);
      for (const test of running.length > 0 ? running : ["*"]) reached.add(test); // before or after a test: may concern all
    }
    const tests = ended.filter((each) => !each.isSuite).map(({ name, ms }): [string, number] => [name, ms]);
    suites.push({ file, tests: new Map(tests), reachedBy });
  }
  return suites;
}

/** The tests that reach a change. */
function testsFor({ start, end, lesson }: Mutant, { tests, reachedBy }: Suite): string[] {
  const around = stretchesOf(sourceOf(lesson)).findLastIndex((stretch) => stretch.start <= start && stretch.end >= end);
  const reached = around < 0 ? new Set(["*"]) : (reachedBy.get(around) ?? new Set());
  return [...tests.keys()].filter((name) => reached.has("*") || reached.has(name));
}

const trusted = new Set<string>();

async function judge(copy: string, mutant: Mutant, suites: Suite[]): Promise<Result> {
  const { id, lesson } = mutant;
  const file = join(copy, "project/agents", `${lesson}.ts`);
  const source = sourceOf(lesson);
  const mutated = apply(source, [mutant]);
  transformSync(mutated, { loader: "ts" }); // throws if an operator made what is no program
  let isReached = false;
  for (const suite of suites) {
    const tests = testsFor(mutant, suite);
    if (tests.length === 0) continue;
    isReached = true;
    writeFileSync(file, mutated);
    const some = tests.length < suite.tests.size ? tests : [];
    const limit = 20_000 + 4 * tests.reduce((sum, name) => sum + (suite.tests.get(name) ?? 0), 0);
    const { passed, timedOut, failed, errors } = await runSuite(copy, suite.file, limit, some);
    if (timedOut) return { id, status: "timed out", by: suite.file };
    if (passed) continue;
    if (failed !== undefined && some.length > 0 && !trusted.has(failed) && suite.tests.has(failed)) {
      // Only part of the suite ran: a test that needs those before it says nothing about the mutant.
      writeFileSync(file, source);
      const alone = await runSuite(copy, suite.file, limit, [failed]);
      if (!alone.passed) throw new Error(`${suite.file}: "${failed}" fails alone, with nothing changed`);
      trusted.add(failed);
    }
    return {
      id,
      status: "killed",
      by:
        failed ??
        (errors
          .trim()
          .split("\n")
          .findLast((line) => /Error/.test(line)) ||
          "the suite ended"),
    };
  }
  return { id, status: isReached ? "survived" : "not reached", by: "" };
}

// --- the run --------------------------------------------------------------------------------------------------------

const wanted = STEMS.filter((stem) => positionals.length === 0 || positionals.includes(short(stem)));
const named = new Map<string, string>();
if (existsSync(SURVIVORS)) {
  const Groups = z.array(z.object({ why: z.string().min(1), mutants: z.array(z.string()) }));
  for (const { why, mutants } of Groups.parse(parseYaml(readFileSync(SURVIVORS, "utf8"))))
    for (const key of mutants) named.set(key, why);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const copies: string[] = [];
process.on("exit", () => {
  for (const copy of copies) sweep(copy);
  rmSync(SCRATCH, { recursive: true, force: true });
});
mkdirSync(RESULTS, { recursive: true });
await bundlePackages();
for (let i = 0; i < Number(options.workers); i++) copies.push(makeCopy(String(i)));

const complaints: string[] = [];
const table: Record<string, Record<string, string | number>> = {};
const began = Date.now();
for (const stem of wanted) {
  const start = Date.now();
  const mutants = mutantsOf(stem);
  const log = join(RESULTS, `${stem}.jsonl`);
  if (!options.continue && !options.survivors && !options.only) rmSync(log, { force: true });
  const results = new Map<string, Result>();
  for (const line of existsSync(log) ? readFileSync(log, "utf8").trim().split("\n").filter(Boolean) : []) {
    const result = Result.parse(JSON.parse(line));
    results.set(result.id, result);
  }
  const survives = ({ id }: Mutant) => /^(survived|not reached)$/.test(results.get(id)?.status ?? "");
  const todo = mutants.filter((mutant, i) => {
    if (options.only) return mutant.id === options.only;
    if (options.survivors) return survives(mutant);
    return i % Number(options.sample) === 0 && !results.has(mutant.id);
  });
  if (todo.length > 0) {
    const suites = await measure(copies[0] ?? "", stem);
    console.log(
      `${stem}: ${todo.length} of ${mutants.length} mutants to run; clean run ${Math.round((Date.now() - start) / 1000)} s`,
    );
    let done = 0;
    await Promise.all(
      copies.map(async (copy) => {
        for (let mutant = todo.shift(); mutant; mutant = todo.shift()) {
          const result = await judge(copy, mutant, suites);
          results.set(mutant.id, result);
          appendFileSync(log, `${JSON.stringify(result)}\n`);
          if (survives(mutant)) {
            console.log(
              `${named.has(mutant.key) ? "named " : ""}${result.status}: ${mutant.id} agents/${stem}.ts:${mutant.line}\n  ${mutant.key}`,
            );
          } else if (options.only) console.log(`${result.status} by ${result.by}`);
          if (++done % 20 === 0)
            console.log(`… ${done} done, ${todo.length} left, ${Math.round((Date.now() - start) / 1000)} s`);
        }
        writeFileSync(join(copy, "project/agents", `${stem}.ts`), sourceOf(stem));
      }),
    );
  }
  const judged = mutants.filter(({ id }) => results.has(id));
  for (const mutant of judged) {
    if (survives(mutant) && !named.has(mutant.key))
      complaints.push(`survived: ${mutant.id} agents/${stem}.ts:${mutant.line}\n  - ${JSON.stringify(mutant.key)}`);
    if (!survives(mutant) && named.has(mutant.key))
      complaints.push(`named as a survivor, but ${results.get(mutant.id)?.status}: ${mutant.key}`);
  }
  for (const key of named.keys()) {
    if (key.startsWith(`${short(stem)} `) && !mutants.some((mutant) => mutant.key === key))
      complaints.push(`named as a survivor, but there is no such mutant: ${key}`);
  }
  const row = (some: Mutant[]) => {
    const count = (status: string) => some.filter(({ id }) => results.get(id)?.status === status).length;
    const dead = count("killed") + count("timed out");
    const seconds = Math.round((Date.now() - start) / 1000);
    return {
      mutants: some.length,
      killed: count("killed"),
      "timed out": count("timed out"),
      survived: count("survived"),
      "not reached": count("not reached"),
      "of these named": some.filter((mutant) => survives(mutant) && named.has(mutant.key)).length,
      "score %": some.length > 0 ? Math.floor((1000 * dead) / some.length) / 10 : "",
      seconds,
    };
  };
  table[short(stem)] = row(judged);
  if (stem !== STEMS[0]) table[`${short(stem)}, new regions`] = row(judged.filter(({ isNewRegion }) => isNewRegion));
}
console.log(complaints.join("\n"));
console.table(table);
console.log(`${Math.round((Date.now() - began) / 1000)} s`);
process.exitCode = complaints.length > 0 ? 1 : 0;
