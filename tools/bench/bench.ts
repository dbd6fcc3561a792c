/** Measures what forgetting costs: replays recorded sessions under each strategy and adds up what the API would bill. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DEFAULTS, OFFLINE, TSX } from "../../offline/start.ts";
import { codeHash } from "../lesson/hash.ts";
import { userPath } from "../sessions/files.ts";
import { sum } from "../sessions/numbers.ts";
import { oracle } from "./oracle.ts";
import { fetchSessions } from "./public.ts";
import type { Job, Replayed } from "./replay.ts";
import { addUp, type Results, tables, toResults, verdictOn } from "./report.ts";
import { MAIN, OTHERS, type Strategy, sourceOf } from "./strategies.ts";
import { LEAST_ROUNDS, MOST_SESSIONS, readSessions, roundsIn, type Session } from "./turns.ts";

const HELP = `Measures what forgetting would cost in your own sessions of Claude Code, or transcripts of s06:
npm run bench -- ~/.claude/projects   the newest ${MOST_SESSIONS} of ${LEAST_ROUNDS} rounds or more, up to 200,000 tokens each
  --all             every session, whole, under more strategies
  --public FOLDER   the same for the sessions of tools/bench/public.tsv, which are fetched if FOLDER lacks them;
                    writes tools/bench/public.json
  --json FILE       writes the figures to FILE`;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
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
  if (process.stderr.isTTY) process.stderr.write(done < total ? `\r${done} of ${total} replays` : "\r\x1b[K");
}

async function measure(flags: { all?: boolean; json?: string; public?: string }, files: string[]): Promise<void> {
  const list = join(ROOT, "tools/bench/public.tsv");
  const listed = flags.public ? await fetchSessions(list, userPath(flags.public)) : [];
  const paths = [...listed, ...files.map(userPath)];
  const isAll = flags.all === true || flags.public !== undefined;
  const { sessions, problems } = readSessions(paths, isAll);
  const replayed = await replayAll(sessions, isAll ? [...MAIN, ...OTHERS] : MAIN);
  const figures = new Map([...replayed].map(([name, all]) => [name, all.map(({ calls }) => addUp(calls))]));
  figures.set("oracle", replayed.get("never compacting")?.map(({ calls }) => addUp(oracle(calls))) ?? []);
  const results: Results = {
    date: new Date().toISOString().slice(0, 10),
    code: codeHash(S06),
    sessions: sessions.length,
    rounds: sum(sessions.map(roundsIn)),
    ...toResults(figures),
  };

  console.log(`${results.sessions} sessions of ${results.rounds} rounds`);
  for (const problem of problems) console.log(`- ${problem}`);
  console.log(`\n${tables.strategies(results)}\n\n${tables.others(results)}\n`);
  const names = sessions.map(({ name }) => name);
  console.log(verdictOn(figures, names));
  const rejected = new Set([...replayed.values()].flat().flatMap((each) => each.rejected));
  for (const error of rejected) console.error(`rejected: ${error}`);
  const file = flags.json ? userPath(flags.json) : join(ROOT, "tools/bench/public.json");
  if (flags.json || flags.public) writeFileSync(file, `${JSON.stringify(results, toFourDecimals, 1)}\n`);
}

const toFourDecimals = (_: string, value: unknown) => (typeof value === "number" ? Number(value.toFixed(4)) : value);

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = { all: flag, help: flag, json: text, public: text };
  const { values: flags, positionals } = parseArgs({ allowPositionals: true, options });
  const isAsked = positionals.length > 0 || flags.public;
  if (flags.help || !isAsked) console.log(HELP);
  else await measure(flags, positionals);
}

main()
  .catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(process.exit);
