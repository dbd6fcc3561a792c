/** What forgetting costs: replays recorded sessions through s06 under each strategy and adds up what the API would bill. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { readSessions, roundsIn, type Session, untilWindow } from "../sessions/turns.ts";
import { fetchSessions } from "./public.ts";
import type { Job, Replayed } from "./replay.ts";
import { figuresOf, type Results, sentences, tables } from "./report.ts";
import { STRATEGIES, type Strategy, sourceOf } from "./strategies.ts";

const HELP = `npm run bench [-- [FLAGS] FILE OR FOLDER…]   sessions of Claude Code or transcripts of s06
Without a path: the sessions of this repository, under all strategies, into tools/bench/results.json.
  --public FOLDER          the sessions of tools/bench/public.tsv, under all strategies, into tools/bench/public.json;
                           those that FOLDER doesn't have are fetched into it, with git
  --all                    all sessions, whole; else the newest 10 of 10 rounds or more, as far as 200,000 tokens hold them
  --strategies NAMES       "all", or names between commas; the first four if left out
  --json FILE              writes the figures to FILE
  --verbose                figures of each session, and what was skipped in it`;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

function startWorker(folder: string): ChildProcess {
  mkdirSync(folder);
  const own = Object.entries(process.env).filter(([name]) => !/^(COMPACT_|CONTEXT_WINDOW$|THINKING$)/.test(name));
  return fork(join(ROOT, "tools/bench/replay.ts"), {
    cwd: folder,
    env: { ...Object.fromEntries(own), ANTHROPIC_API_KEY: "offline", ANTHROPIC_AUTH_TOKEN: "" },
    execArgv: ["--import", import.meta.resolve("tsx")],
  });
}

/**
 * Replays each session under each strategy, on all cores. After `seconds` no other session is begun.
 * @returns by session and strategy
 */
async function replayAll(sessions: Session[], strategies: Strategy[], seconds: number) {
  const s06 = readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8");
  const sources = strategies.map((strategy) => sourceOf(s06, strategy));
  const scratch = mkdtempSync(join(ROOT, ".bench-")); // in here, so that the copies find their packages
  process.on("exit", () => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }));
  process.on("SIGINT", () => process.exit(130));
  for (const [k, source] of sources.entries()) writeFileSync(join(scratch, `${k}.ts`), source);
  const results: Replayed[][] = [];
  const jobs = sessions.flatMap((_, i) => strategies.map((_, k) => ({ i, k })));
  const total = jobs.length;
  const start = Date.now();
  const work = async (_: unknown, n: number) => {
    const worker = startWorker(join(scratch, `${n}`));
    for (let next = jobs.shift(); next; next = jobs.shift()) {
      const { i, k } = next;
      if (i > 0 && k === 0 && Date.now() - start > seconds * 1_000) jobs.length = 0;
      else {
        worker.removeAllListeners();
        const job: Partial<Job> = {
          strategy: strategies[k],
          file: join(scratch, `${k}.ts`),
          session: sessions[i],
        };
        worker.send(job);
        const [replayed] = await Promise.race([once(worker, "message"), once(worker, "exit")]);
        if (typeof replayed !== "object") throw new Error(`a replay ended with exit code ${replayed}`);
        const own = results[i] ?? [];
        results[i] = own;
        own[k] = replayed;
        showProgress(total - jobs.length, total);
      }
    }
    worker.kill();
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), total) }, work));
  return results;
}

function showProgress(done: number, total: number): void {
  if (!process.stderr.isTTY) return;
  const bar = "█".repeat(Math.round((30 * done) / total)).padEnd(30, "░");
  process.stderr.write(done < total ? `\r${bar} ${done} of ${total} replays\x1b[K` : "\r\x1b[K");
}

function chosen(names: string): Strategy[] {
  const asked = names.split(",").map((name) => name.trim());
  const unknown = asked.find((name) => name !== "all" && !STRATEGIES.some((strategy) => strategy.name === name));
  if (unknown)
    throw new Error(`there is no strategy "${unknown}"; there are: ${STRATEGIES.map(({ name }) => name).join(", ")}`);
  return STRATEGIES.filter(({ name }, i) => i === 0 || asked.includes("all") || asked.includes(name));
}

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values: flags, positionals } = parseArgs({
    allowPositionals: true,
    options: { all: flag, verbose: flag, help: flag, json: text, strategies: text, public: text },
  });
  if (flags.help) return console.log(HELP);
  const own = flags.public ? "public" : positionals.length === 0 && "results"; // where the figures go
  const listed = flags.public ? fetchSessions(join(ROOT, "tools/bench/public.tsv"), flags.public) : [];
  const paths = [...listed, ...positionals].map((path) => resolve(path));
  if (own === "results") paths.push(join(ROOT, "tools/bench/sessions"));
  const four = STRATEGIES.slice(0, 4).map(({ name }) => name);
  const strategies = chosen(flags.strategies ?? (own ? "all" : four.join()));
  const isWhole = flags.all || own;
  const whole = paths.flatMap((path) => (isWhole ? readSessions(path) : readSessions(path, 10, 10)));
  const found = isWhole ? whole : whole.map(untilWindow);
  if (isWhole) found.sort((a, b) => a.name.localeCompare(b.name));
  const replayed = await replayAll(found, strategies, isWhole ? Infinity : 40);
  const sessions = found.slice(0, replayed.length);
  const results: Results = {
    sessions: sessions.map((session, i) => ({
      ...{ name: session.name, requests: session.turns.length, rounds: roundsIn(session), isTimed: session.isTimed },
      edits: figuresOf(replayed[i]?.slice(0, 1) ?? []).edits,
    })),
    strategies: Object.fromEntries(
      strategies.map(({ name }, k) => {
        const each = replayed.map((own, i) => [sessions[i]?.name, figuresOf(own.slice(k, k + 1))]);
        const all = figuresOf(replayed.flatMap((own) => own.slice(k, k + 1)));
        return [name, { ...all, sessions: Object.fromEntries(each) }];
      }),
    ),
  };

  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  console.log(`${sessions.length} sessions of ${sum(sessions.map(roundsIn))} rounds`);
  const cut = sessions.filter((each, i) => whole[i] && roundsIn(each) < roundsIn(whole[i]));
  const skips = sum(sessions.flatMap(({ skipped }) => Object.values(skipped)));
  const notes: [count: number, text: string][] = [
    [found.length - sessions.length, "older ones are left out, as there was no time; --all takes them too"],
    [cut.length, "are cut where 200,000 tokens are full; --all takes them whole"],
    [sessions.filter(({ isTimed }) => !isTimed).length, "have no times: their pauses are drawn, as long as real ones"],
    [skips, "lines and blocks are left out or completed; --verbose lists them"],
  ];
  for (const [count, text] of notes) if (count > 0) console.log(`${count} ${text}`);
  console.log(`\n${tables.strategies?.(results)}\n`);
  if (flags.verbose) {
    console.log(`${tables.sessions?.(results)}\n\n${tables["per session"]?.(results)}\n`);
    for (const { name, skipped } of sessions) console.log(name, skipped);
  }
  const s06 = strategies.findIndex(({ name }) => name === "s06");
  const lost = sessions.map(({ name }, i) => [name, replayed[i]?.[s06]?.calls.flatMap((call) => call.lost) ?? []]);
  console.log(sentences(results, Object.fromEntries(lost)));
  for (const error of new Set(replayed.flat().flatMap((each) => each.rejected))) console.error(`rejected: ${error}`);
  const file = flags.json ?? (own && !flags.strategies ? join(ROOT, `tools/bench/${own}.json`) : undefined);
  if (flags.public) for (const each of Object.values(results.strategies)) delete each.sessions; // they are too many to read
  if (file) writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`);
}

main()
  .catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(process.exit);
