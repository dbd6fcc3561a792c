/**
 * What forgetting costs: replays recorded sessions through s06 under each strategy and adds up what the API would bill.
 *
 *     npm run bench [-- FILE OR FOLDER…]   sessions of Claude Code or transcripts of s06; if left out, bench/sessions/
 *       --characters-per-token N           3 if left out
 *       --summary N                        tokens of a summary; 2,000 if left out
 *
 * Without a path it writes bench/results.json and the charts of docs/.
 */
import { fork } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { figuresOf } from "./figures.ts";
import { type Assumptions, type Job, type News, type Replayed, turnsOf } from "./replay.ts";
import { charts, tables } from "./report.ts";
import { keep, type PerSession, type Results } from "./results.ts";
import { readSessions } from "./sessions.ts";
import { RULES, SHOWN, STRATEGIES, type Strategy, SWEEP, sourceOf, THRESHOLDS } from "./strategies.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A process that carries out one job after another. */
function startWorker(folder: string, seen: () => void) {
  mkdirSync(folder, { recursive: true });
  const own = Object.entries(process.env).filter(([name]) => !/^(COMPACT_|CONTEXT_WINDOW$|THINKING$)/.test(name));
  const child = fork(join(ROOT, "bench/replay.ts"), {
    cwd: folder,
    env: { ...Object.fromEntries(own), ANTHROPIC_API_KEY: "offline", ANTHROPIC_AUTH_TOKEN: "" },
    execArgv: ["--import", import.meta.resolve("tsx")],
  });
  const carryOut = (job: Job) =>
    new Promise<Replayed[]>((resolve, reject) => {
      child.removeAllListeners();
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`the replay ended with exit code ${code}`)));
      child.on("message", (news: News) => (news === "request" ? seen() : resolve(news)));
      child.send(job);
    });
  const end = () => {
    child.removeAllListeners();
    child.kill();
  };
  return { carryOut, end };
}

/** Replays the sessions under each strategy, on all cores. `seen` is called for each request. */
async function replayAll(strategies: Strategy[], job: Pick<Job, "paths" | "assumptions">, seen: () => void) {
  const s06 = readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8");
  const jobs = strategies.map((strategy) => ({ ...job, source: sourceOf(s06, strategy), env: strategy.env ?? {} }));
  const waiting = [...jobs.entries()];
  const results: Replayed[][] = [];
  const scratch = mkdtempSync(join(ROOT, ".bench-")); // in here, so that the lessons find their packages
  process.on("exit", () => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }));
  process.on("SIGINT", () => process.exit(130));
  // One more than there are cores, since each now and then waits for its server.
  const workers = Array.from({ length: availableParallelism() + 1 }, (_, i) =>
    startWorker(join(scratch, `${i}`), seen),
  );
  const work = async ({ carryOut }: (typeof workers)[number]) => {
    for (let next = waiting.shift(); next; next = waiting.shift()) results[next[0]] = await carryOut(next[1]);
  };
  try {
    await Promise.all(workers.map(work));
  } finally {
    for (const { end } of workers) end();
  }
  return results;
}

/** Draws a bar on the screen, if there is one. */
function showProgress(share: number, what: string): void {
  if (!process.stderr.isTTY) return;
  const bar = "█".repeat(Math.round(30 * Math.min(1, share))).padEnd(30, "░");
  process.stderr.write(share < 1 ? `\r${bar} ${Math.floor(100 * share)} % ${what}\x1b[K` : "\r\x1b[K");
}

function numberOf(flag: string, value: string): number {
  if (!(Number(value) > 0)) throw new Error(`--${flag} must be a number above 0, not "${value}"`);
  return Number(value);
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      "characters-per-token": { type: "string", default: "3" },
      summary: { type: "string", default: "2000" },
    },
  });
  const isOwn = positionals.length === 0;
  const paths = isOwn ? [join(ROOT, "bench/sessions")] : positionals.map((path) => resolve(path));
  const assumptions: Assumptions = {
    charactersPerToken: numberOf("characters-per-token", values["characters-per-token"]),
    summary: numberOf("summary", values.summary),
  };
  const sessions = readSessions(paths);

  const swept = Object.entries(SWEEP).flatMap(([form, make]) =>
    THRESHOLDS.map((threshold) => ({ form, threshold, strategy: make(threshold) })),
  );
  const all = [...STRATEGIES, ...RULES, ...swept.map((each) => each.strategy)];
  const rounds = sessions.flatMap(({ messages }) => turnsOf(messages).flatMap((turn) => turn.rounds)).length;
  let done = 0;
  const replayed = await replayAll(
    all,
    { paths, assumptions },
    () => showProgress(++done / (1.05 * rounds * all.length), "replayed"), // some requests are for summaries
  );
  showProgress(1, "");

  const figures = all.map((_, i): PerSession => {
    const each = replayed[i] ?? [];
    return {
      all: figuresOf(each),
      sessions: Object.fromEntries(each.map((one) => [one.session, figuresOf([one])])),
    };
  });
  const named = figures.map((each, i): [string, PerSession] => [all[i]?.name ?? "", each]);
  const strategies = Object.fromEntries(named.slice(0, STRATEGIES.length));
  const rules = Object.fromEntries(named.slice(STRATEGIES.length, STRATEGIES.length + RULES.length));
  const sweep: Results["sweep"] = {};
  for (const [i, { form, threshold }] of swept.entries()) {
    const found = figures[all.length - swept.length + i];
    if (found) sweep[form] = { ...sweep[form], [threshold]: found.all };
  }
  const largest = (name: string) => strategies.nothing?.sessions[name]?.largest ?? 0;
  const session = sessions.map(({ name }) => name).sort((a, b) => largest(b) - largest(a))[0] ?? "";
  const context = Object.fromEntries(
    SHOWN.map((name) => {
      const found = replayed[STRATEGIES.findIndex((strategy) => strategy.name === name)];
      return [name, found?.find((each) => each.session === session)?.calls.map((call) => call.context) ?? []];
    }),
  );
  const results: Results = {
    assumptions,
    sessions: sessions.map(({ name, messages }) => ({
      name,
      characters: JSON.stringify(messages).length,
      requests: turnsOf(messages).length,
      rounds: turnsOf(messages).flatMap((turn) => turn.rounds).length,
    })),
    strategies,
    rules,
    sweep,
    context: { session, strategies: context },
  };
  for (const name of ["sessions", "strategies", "rules", "tokens", "per session", "wide", "sweep"]) {
    console.log(`${name}\n${tables[name]?.(results)}\n`);
  }
  for (const { name, met } of sessions) {
    const counts = Object.entries(met).map(([what, times]) => `${what} × ${times}`);
    if (counts.length > 0) console.log(`${name}: ${counts.join(", ")}`);
  }
  for (const error of replayed.flat().flatMap((each) => each.rejected)) console.error(`rejected: ${error}`);
  if (!isOwn) return;
  const kept = keep(results);
  for (const [name, draw] of Object.entries(charts)) writeFileSync(join(ROOT, "docs", name), draw(kept));
}

main().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
