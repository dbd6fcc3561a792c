/**
 * Changes the lessons in many small ways, one at a time, and looks whether their suites notice.
 *
 *     npm run test:mutants              all lessons, which takes hours
 *     npm run test:mutants -- s03 s04   these lessons
 *       --workers N                     so many at a time; as many as there are cores if left out
 *       --sample N                      every Nth mutant
 *       --only ID                       one mutant, by the name that it has in the output
 *       --survivors                     those again that survived when they ran last
 *       --continue                      those that have not been run yet
 *
 * CARRIED=on runs the cases of earlier lessons, too, where a suite takes them over.
 *
 * A mutant is a lesson with one change (operators.ts) in a line that the same region of the lesson before does not have.
 * The lesson's tests that reach the change are run on it until one fails; that none does within the time it takes is a
 * gap in the tests, unless survivors.yaml names the mutant and the reason. Exits with 1 if an unnamed one survived, or a
 * named one did not. Results are kept in .mutants/.
 */
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { transformSync } from "esbuild";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { apply, type Change, changesOf } from "./operators.ts";
import { type Copy, LESSONS, linesIn, makeCopy, preparePackages, type Suite, sourceOf } from "./suites.ts";

/** `key` says what changes and stays when lines move; `id` is short for it. */
type Mutant = Change & { id: string; key: string; lesson: string; line: number; inNewRegion: boolean };
const Result = z.object({
  id: z.string(),
  end: z.enum(["killed", "timed out", "survived", "not reached"]),
  by: z.string(),
});
type Result = z.output<typeof Result>;
const Survivors = z.array(z.object({ why: z.string().min(1), mutants: z.array(z.string()) })).nullable();

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    workers: { type: "string", default: String(availableParallelism()) },
    sample: { type: "string", default: "1" },
    only: { type: "string" },
    survivors: { type: "boolean", default: false },
    continue: { type: "boolean", default: false },
  },
});

/** The lines of a lesson, each with the region that it is in. */
function linesOf(source: string): { text: string; region: string }[] {
  let region = "";
  return source.split("\n").map((text) => {
    const mark = /^\/\/ #(?:region (.*)|endregion)$/.exec(text);
    if (mark) region = mark[1] ?? "";
    return { text: text.trim(), region: mark ? "" : region };
  });
}

function mutantsOf(lesson: string): Mutant[] {
  const source = sourceOf(lesson);
  const lines = linesOf(source);
  const before = LESSONS[LESSONS.indexOf(lesson) - 1];
  const linesBefore = before === undefined ? [] : linesOf(sourceOf(before));
  const regionsBefore = new Set(linesBefore.map(({ region }) => region));
  const textsBefore = new Set(linesBefore.map(({ text, region }) => `${region}: ${text}`));
  const isNew = lines.map(({ text, region }) => region !== "" && !textsBefore.has(`${region}: ${text}`));
  const keys = new Set<string>();

  return changesOf(source).flatMap((change) => {
    const first = source.slice(0, change.start).split("\n").length - 1;
    const end = source.slice(0, change.end).split("\n").length;
    if (!isNew.slice(first, end).includes(true)) return [];
    const { region, text } = lines[first] ?? { region: "", text: "" };
    const lineStart = source.lastIndexOf("\n", change.start - 1) + 1;
    const [rest = ""] = source.slice(change.end).split("\n");
    const changed = (source.slice(lineStart, change.start) + change.text + rest).trim().replace(/\s+/g, " ");
    const sentence = `${lesson.slice(0, 3)} ${region}: ${text}${end > first + 1 ? " …" : ""} → ${changed}`;
    let key = sentence;
    for (let i = 2; keys.has(key); i++) key = `${sentence} (${i})`;
    keys.add(key);
    const id = `${lesson.slice(0, 3)}-${createHash("sha256").update(key).digest("hex").slice(0, 6)}`;
    return [{ ...change, id, key, lesson, line: first + 1, inNewRegion: !regionsBefore.has(region) }];
  });
}

/** Tests that are known to pass on their own, with nothing changed. */
const independent = new Set<string>();

/** Runs the tests that reach a mutant. @throws if it is no program */
async function judge(copy: Copy, { id, lesson, ...change }: Mutant, suites: Suite[]): Promise<Result> {
  const source = sourceOf(lesson);
  const mutated = apply(source, [change]);
  transformSync(mutated, { loader: "ts" });
  let isReached = false;
  for (const { file, ms, tests, others, reaching } of suites) {
    const names = reaching(change);
    if (names.length === 0) continue;
    isReached = true;
    copy.write(lesson, mutated);
    const isPart = names.length < tests.size + others.length;
    const oneByOne = names.reduce((sum, name) => sum + (tests.get(name) ?? 0), 0);
    const limit = 20_000 + 4 * Math.min(ms, oneByOne);
    let ran = await copy.run(file, limit, isPart ? names : []);
    if (isPart && ran.failed !== undefined && !independent.has(ran.failed)) {
      copy.write(lesson, source);
      if ((await copy.run(file, limit, [ran.failed])).passed) independent.add(ran.failed);
      else {
        console.log(`${file}: "${ran.failed}" fails on its own, with nothing changed; so all tests are run`);
        copy.write(lesson, mutated);
        ran = await copy.run(file, 20_000 + 4 * ms, others.length > 0 ? [...tests.keys()] : []);
      }
    }
    if (ran.timedOut) return { id, end: "timed out", by: file };
    if (ran.passed) continue;
    const { failed, errors } = ran;
    if (failed === undefined) {
      copy.write(lesson, source); // either this mutant cannot be loaded, or nothing can be run any more
      const { passed, errors } = await copy.run(file, limit, names.slice(0, 1));
      if (!passed) throw new Error(`${file} does not run any more, with nothing changed: ${errors}`);
    }
    return { id, end: "killed", by: failed ?? errors.split("\n").find((line) => /Error/.test(line)) ?? file };
  }
  return { id, end: isReached ? "survived" : "not reached", by: "" };
}

const named = new Set<string>();
const file = "tests/mutants/survivors.yaml";
for (const { mutants } of Survivors.parse(existsSync(file) ? parseYaml(readFileSync(file, "utf8")) : []) ?? [])
  for (const key of mutants) named.add(key);

mkdirSync(".mutants", { recursive: true });
await preparePackages();
const copies = Array.from({ length: Number(options.workers) }, makeCopy);
const complaints: string[] = [];
const table: Record<string, Record<string, number>> = {};
let isKnown = false;

for (const lesson of LESSONS.filter((each) => positionals.length === 0 || positionals.includes(each.slice(0, 3)))) {
  const began = Date.now();
  const seconds = () => Math.round((Date.now() - began) / 1000);
  const log = `.mutants/${lesson}.jsonl`;
  if (!options.only && !options.survivors && !options.continue) rmSync(log, { force: true });
  const results = new Map<string, Result>();
  for (const line of linesIn(log)) {
    const result = Result.parse(JSON.parse(line));
    results.set(result.id, result);
  }
  const survived = ({ id }: Mutant) => ["survived", "not reached"].includes(results.get(id)?.end ?? "");

  const mutants = mutantsOf(lesson);
  isKnown ||= mutants.some(({ id }) => id === options.only);
  const waiting = mutants.filter((mutant, i) => {
    if (options.only) return mutant.id === options.only;
    if (options.survivors) return survived(mutant);
    return i % Number(options.sample) === 0 && !results.has(mutant.id);
  });
  if (waiting.length > 0) {
    const suites = (await copies[0]?.measure(lesson)) ?? [];
    for (const { file, others } of suites)
      for (const name of others) console.log(`${file}: left out, since it reads the lesson's text: ${name}`);
    console.log(`${lesson}: ${waiting.length} of ${mutants.length} mutants; its tests take ${seconds()} s`);
    const work = async (copy: Copy) => {
      for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
        const result = await judge(copy, mutant, suites);
        results.set(mutant.id, result);
        appendFileSync(log, `${JSON.stringify(result)}\n`);
        const { id, line, key } = mutant;
        if (survived(mutant) || options.only)
          console.log(
            `${id} ${result.end}${named.has(key) ? " (named)" : ""}: agents/${lesson}.ts:${line} ${result.by}\n  ${key}`,
          );
        if (waiting.length % 20 === 0) console.log(`… ${waiting.length} to go after ${seconds()} s`);
      }
      copy.write(lesson, sourceOf(lesson));
    };
    await Promise.all(copies.map(work));
  }

  const judged = mutants.filter(({ id }) => results.has(id));
  for (const mutant of judged) {
    const { id, key, line } = mutant;
    if (survived(mutant) && !named.has(key))
      complaints.push(`${id} agents/${lesson}.ts:${line}\n  - ${JSON.stringify(key)}`);
    if (!survived(mutant) && named.has(key))
      complaints.push(`named as a survivor, but ${results.get(id)?.end}: ${key}`);
  }
  for (const key of named)
    if (key.startsWith(lesson.slice(0, 3)) && !mutants.some((mutant) => mutant.key === key))
      complaints.push(`named as a survivor, but no mutant: ${key}`);

  const count = (some: Mutant[]) => {
    const ends = some.map(({ id }) => results.get(id)?.end);
    const [killed = 0, timedOut = 0, passed = 0, unreached = 0] = Result.shape.end.options.map(
      (end) => ends.filter((each) => each === end).length,
    );
    const score = Math.floor((1000 * (killed + timedOut)) / some.length) / 10;
    const ofThese = some.filter((mutant) => survived(mutant) && named.has(mutant.key)).length;
    return {
      mutants: some.length,
      killed,
      "timed out": timedOut,
      survived: passed,
      "not reached": unreached,
      named: ofThese,
      "score in %": score,
    };
  };
  table[lesson] = { ...count(judged), seconds: seconds() };
  if (lesson !== LESSONS[0])
    table[`${lesson.slice(0, 3)}, new regions`] = count(judged.filter(({ inNewRegion }) => inNewRegion));
}

if (options.only && !isKnown) complaints.push(`there is no mutant ${options.only}`);
console.log(["", ...complaints].join("\n"));
console.table(table);
process.exitCode = complaints.length > 0 ? 1 : 0;
