/** Measures what forgetting costs: replays recorded sessions under each strategy and adds up what the API would bill. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { codeHash } from "../lesson/hash.ts";
import { DEFAULTS, OFFLINE, TSX } from "../lesson/start.ts";
import { sum } from "../trace/numbers.ts";
import { allOf, changesIn, LEAST_ROUNDS, MOST_SESSIONS, newestOf, ROUND_BUDGET } from "./choose.ts";
import { oracle } from "./oracle.ts";
import { fetchSessions } from "./public.ts";
import type { Job, Replayed } from "./replay.ts";
import { addUp, type Results, tables, toResults, verdictOn } from "./report.ts";
import { STRATEGIES, type Strategy, sourceOf } from "./strategies.ts";
import { roundsIn, type Session } from "./turns.ts";

const HELP = `npm run bench [-- [FLAGS] FILE OR FOLDER…]   sessions of Claude Code or transcripts of s06
Without a path, it replays the recorded demo of s06.
  --public FOLDER          replays the sessions of tools/bench/public.tsv under all strategies and writes
                           tools/bench/public.json; fetches the sessions that FOLDER lacks, with git
  --all                    replays every session, whole, instead of the newest ${MOST_SESSIONS} that have ${LEAST_ROUNDS} rounds or more,
                           up to 200,000 tokens each and ${ROUND_BUDGET} rounds together
  --strategies NAMES       "all", or names separated by commas; the default is the first four
  --json FILE              writes the figures to FILE`;
const HINT = `This was the recorded demo of s06. Measure your own sessions, or the public ones:
npm run bench -- ~/.claude/projects
npm run bench -- --public FOLDER`;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DEMO = join(ROOT, "tools/docs/runs/demo.jsonl");
const S06 = readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8");

function startWorker(folder: string): ChildProcess {
  mkdirSync(folder);
  const env = { ...process.env, ...DEFAULTS, ...OFFLINE };
  return fork(join(ROOT, "tools/bench/replay.ts"), { cwd: folder, env, execArgv: TSX });
}

/** Replays each session under each strategy, on all cores. Returns the replays by the name of the strategy. */
async function replayAll(sessions: Session[], strategies: Strategy[]): Promise<Map<string, Replayed[]>> {
  const scratch = mkdtempSync(join(ROOT, ".bench-")); // copies of s06 find their packages from here
  process.on("exit", () => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }));
  process.on("SIGINT", () => process.exit(130));
  const replayed = new Map<string, Replayed[]>();
  for (const [k, strategy] of strategies.entries()) {
    writeFileSync(join(scratch, `${k}.ts`), sourceOf(S06, strategy));
    replayed.set(strategy.name, []);
  }
  const jobs = sessions.flatMap((session, i) =>
    strategies.map(({ name }, k) => ({ i, job: { strategy: name, file: join(scratch, `${k}.ts`), session } })),
  );
  const total = jobs.length;
  const work = async (_: unknown, n: number) => {
    const worker = startWorker(join(scratch, `${n}`));
    for (let next = jobs.shift(); next; next = jobs.shift()) {
      const { i, job } = next;
      (replayed.get(job.strategy) ?? [])[i] = await replay(worker, job);
      showProgress(total - jobs.length, total);
    }
    worker.kill();
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), total) }, work));
  return replayed;
}

/** Throws if the worker ends before it answers. */
async function replay(worker: ChildProcess, job: Job): Promise<Replayed> {
  worker.removeAllListeners();
  worker.send(job);
  const [replayed] = await Promise.race([once(worker, "message"), once(worker, "exit")]);
  if (typeof replayed !== "object") throw new Error(`a replay ended with exit code ${replayed}`);
  return replayed;
}

function showProgress(done: number, total: number): void {
  if (!process.stderr.isTTY) return;
  const bar = "█".repeat(Math.round((30 * done) / total)).padEnd(30, "░");
  process.stderr.write(done < total ? `\r${bar} ${done} of ${total} replays\x1b[K` : "\r\x1b[K");
}

/** Returns the first strategy, which all others are compared with, and those that `names` lists. */
function strategiesNamed(names: string): Strategy[] {
  const asked = names.split(",").map((name) => name.trim());
  const unknown = asked.find((name) => name !== "all" && !STRATEGIES.some((strategy) => strategy.name === name));
  if (unknown)
    throw new Error(`there is no strategy "${unknown}"; there are: ${STRATEGIES.map(({ name }) => name).join(", ")}`);
  return STRATEGIES.filter(({ name }, i) => i === 0 || asked.includes("all") || asked.includes(name));
}

type Flags = { all?: boolean; json?: string; strategies?: string; public?: string };

function sessionsFor(flags: Flags, files: string[]): ReturnType<typeof allOf> {
  const listed = flags.public ? fetchSessions(join(ROOT, "tools/bench/public.tsv"), flags.public) : [];
  const paths = [...listed, ...files].map((path) => resolve(path));
  if (paths.length === 0) return allOf([DEMO]);
  return flags.all || flags.public ? allOf(paths) : newestOf(paths);
}

/** Adds the oracles, which need the replays of never compacting. */
function addOracles(replayed: Map<string, Replayed[]>): void {
  const never = replayed.get(STRATEGIES[0]?.name ?? "") ?? [];
  const withOracle = (isOnlyWhenCold: boolean) =>
    never.map(({ calls }) => ({ calls: oracle(calls, isOnlyWhenCold), rejected: [] }));
  replayed.set("oracle when cold", withOracle(true));
  replayed.set("oracle", withOracle(false));
}

async function measure(flags: Flags, files: string[]): Promise<void> {
  const four = STRATEGIES.slice(0, 4).map(({ name }) => name);
  const strategies = strategiesNamed(flags.strategies ?? (flags.public ? "all" : four.join()));
  const { sessions, notes } = sessionsFor(flags, files);
  const replayed = await replayAll(sessions, strategies);
  addOracles(replayed);
  const figures = new Map([...replayed].map(([name, all]) => [name, all.map(addUp)]));
  const results: Results = {
    date: new Date().toISOString().slice(0, 10),
    code: codeHash(S06),
    sessions: sessions.length,
    rounds: sum(sessions.map(roundsIn)),
    ...toResults(figures),
  };

  console.log(`${results.sessions} sessions of ${results.rounds} rounds`);
  for (const note of [...notes, ...changesIn(sessions)]) console.log(`- ${note}`);
  console.log(`\n${tables.strategies?.(results)}\n\n${tables.parts?.(results)}\n`);
  const names = sessions.map(({ name }) => name);
  console.log(verdictOn(figures, names));
  const rejected = new Set([...replayed.values()].flat().flatMap((each) => each.rejected));
  for (const error of rejected) console.error(`rejected: ${error}`);
  const file = flags.json ?? (flags.public && !flags.strategies ? join(ROOT, "tools/bench/public.json") : undefined);
  if (file) writeFileSync(file, `${JSON.stringify(results, toFourDecimals, 1)}\n`);
}

const toFourDecimals = (_: string, value: unknown) => (typeof value === "number" ? Number(value.toFixed(4)) : value);

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values: flags, positionals } = parseArgs({
    allowPositionals: true,
    options: { all: flag, help: flag, json: text, strategies: text, public: text },
  });
  if (flags.help) return console.log(HELP);
  await measure(flags, positionals);
  if (!flags.public && positionals.length === 0) console.log(`\n${HINT}`);
}

main()
  .catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(process.exit);
