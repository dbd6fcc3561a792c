/** Measures what forgetting costs: replays recorded sessions under each strategy and adds up what the API would bill. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../../offline/start.ts";
import { codeHash } from "../lesson/hash.ts";
import { userPath } from "../sessions/files.ts";
import { sum, whole } from "../sessions/numbers.ts";
import { replay } from "./replay.ts";
import { addUp, type Figures, type Results, tables, toResults, verdictOn } from "./report.ts";
import { MAIN, STRATEGIES, type Strategy, sourceOf } from "./strategies.ts";
import { LEAST_ROUNDS, MOST_SESSIONS, ownRounds, readSessions, type Session } from "./turns.ts";

const HELP = `Measures what forgetting would cost in your own sessions of Claude Code, or transcripts of s06:
npm run bench -- ~/.claude/projects   the newest ${MOST_SESSIONS} of ${LEAST_ROUNDS} rounds or more, up to 200,000 tokens each
  --all             every session, whole, under more strategies
  --public FOLDER   the same for FOLDER, with the sessions of tools/bench/public.tsv; writes tools/bench/public.json`;
const S06 = readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8");

/** Replays all sessions under each strategy. Returns the figures of each row, in the order of the sessions, and errors. */
async function replayAll(sessions: Session[], strategies: Strategy[]) {
  const scratch = mkdtempSync(join(ROOT, ".bench-")); // copies of s06 find their packages from here
  process.on("exit", () => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }));
  process.on("SIGINT", () => process.exit(130));
  mkdirSync(join(scratch, "workspace"));
  process.chdir(join(scratch, "workspace"));
  const { write } = process.stdout;
  process.stdout.write = () => true; // silences s06
  const figures = new Map<string, Figures[]>();
  const rejected = new Set<string>();
  for (const [k, strategy] of strategies.entries()) {
    const rows = Object.keys(strategy.rows);
    const file = join(scratch, `${k}.ts`);
    writeFileSync(file, sourceOf(S06, strategy));
    for (const [i, session] of sessions.entries()) {
      showProgress(k * sessions.length + i, strategies.length * sessions.length);
      const replayed = await replay(session, strategy, file);
      for (const row of rows) figures.set(row, [...(figures.get(row) ?? []), addUp(replayed.calls, row)]);
      for (const error of replayed.rejected) rejected.add(error);
    }
  }
  process.stdout.write = write;
  showProgress(0, 0);
  return { figures, rejected };
}

function showProgress(done: number, total: number): void {
  if (process.stderr.isTTY) process.stderr.write(done < total ? `\r${done} of ${total} replays` : "\r\x1b[K");
}

async function measure(paths: string[], isAll: boolean, isPublic: boolean): Promise<void> {
  const { sessions, notes } = readSessions(paths.map(userPath), isAll);
  const isMain = ({ rows }: Strategy) => Object.keys(rows).some((row) => MAIN.includes(row));
  const { figures, rejected } = await replayAll(sessions, isAll ? STRATEGIES : STRATEGIES.filter(isMain));
  const results: Results = {
    date: new Date().toISOString().slice(0, 10),
    code: codeHash(S06),
    sessions: sessions.length,
    rounds: sum(sessions.map((session) => ownRounds(session).length)),
    ...toResults(figures),
  };
  const losses = (figures.get("s06") ?? []).flatMap(({ lost }, i) =>
    lost.length > 0 ? `s06 would have lost a text in ${sessions[i]?.name}: ${[...new Set(lost)].join(", ")}` : [],
  );

  console.log(`${verdictOn(figures)}\n\n${tables.main(results)}\n`);
  console.log(`${results.sessions} sessions, ${whole(results.rounds)} rounds, ${whole(results.edits)} edits. Costs are relative to never compacting, at the prices of
Sonnet 5.5, or in the second column if reads cost twice as much. Replies would add ${results.replies.toFixed(2)} to each.\n`);
  console.log(`${tables.others(results)}\n`);
  for (const note of [...losses, ...notes]) console.log(`- ${note}`);
  for (const error of rejected) console.error(`rejected: ${error}`);
  if (isPublic) writeFileSync(join(ROOT, "tools/bench/public.json"), `${JSON.stringify(results, toFourDecimals, 1)}\n`);
}

const toFourDecimals = (_: string, value: unknown) => (typeof value === "number" ? Number(value.toFixed(4)) : value);

async function main(): Promise<void> {
  const flag = { type: "boolean" } as const;
  const options = { all: flag, help: flag, public: { type: "string" } } as const;
  const { values: flags, positionals } = parseArgs({ allowPositionals: true, options });
  const paths = [...positionals, flags.public ?? []].flat();
  const isPublic = flags.public !== undefined;
  if (flags.help || paths.length === 0) console.log(HELP);
  else await measure(paths, flags.all === true || isPublic, isPublic);
}

main()
  .catch((error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(process.exit);
