/**
 * Runs a lesson without a key: starts the Messages API of this folder, copies what the lessons talk about to a scratch
 * folder, and runs the lesson there.
 *
 *     npm start                       s06 on your key, in this folder; without a key offline
 *     npm run offline -- s03 [args]   any lesson, offline; with --raw before s03, it then prints the last model call,
 *                                     with --journal all of them on one line
 *     npm run demo [-- FOLDER]        a tour without a keyboard; its transcript is left in FOLDER
 */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import chart from "simple-ascii-chart";
import { rehearse } from "./model.ts";
import { showCall } from "./raw.ts";
import { type JournalEntry, type Model, startServer } from "./server.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LESSONS = readdirSync(join(ROOT, "agents"));
const USAGE = `npm run offline -- [--raw] LESSON [-y] ["a request"]     --raw: then print the last model call as JSON
LESSON is one of:
${LESSONS.map((file) => `  ${file.slice(0, 3)}  ${file.slice(4, -3).replaceAll("_", " ")}`).join("\n")}`;

/** The file of a lesson, given as `s03`. @throws if there is no such lesson */
function lessonFile(name: string): string {
  const file = LESSONS.find((lesson) => /^s\d+$/.test(name) && lesson.startsWith(`${name}_`));
  if (!file) throw new Error(`${name ? `there is no lesson ${name}` : "which lesson?"}\n${USAGE}`);
  return join(ROOT, "agents", file);
}

type Run = { folder: string; model?: Model; env?: Record<string, string>; seen?: (output: string) => void };

/** Runs a lesson to its end. @returns its exit code */
function runLesson(name: string, args: string[], { folder, env, seen }: Run): Promise<number> {
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), lessonFile(name), ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["inherit", seen ? "pipe" : "inherit", "inherit"],
  });
  child.stdout?.setEncoding("utf8").on("data", (output: string) => {
    process.stdout.write(output);
    seen?.(output);
  });
  process.on("SIGINT", () => {}); // Ctrl-C is for the lesson, which is in the same terminal
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, killer) => resolve(code ?? 128 + (killer ? constants.signals[killer] : 0)));
  });
}

/** The same, on the Messages API of this folder with the rehearsal model. */
async function runOffline(name: string, args: string[], run: Run): Promise<{ code: number; journal: JournalEntry[] }> {
  const server = await startServer({ model: run.model ?? rehearse });
  const env = { ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "offline", ANTHROPIC_AUTH_TOKEN: "", ...run.env };
  const code = await runLesson(name, args, { ...run, env });
  await server.close();
  return { code, journal: server.journal };
}

/** A folder beside the lessons that git ignores: a conversation in it can be resumed, and what the agent does there harms nothing. */
function scratch(): string {
  const folder = join(ROOT, ".offline");
  mkdirSync(folder, { recursive: true });
  for (const name of ["agents", "docs", "skills", "package.json"]) {
    rmSync(join(folder, name), { recursive: true, force: true });
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return folder;
}

async function offline(name: string, args: string[], then?: "--raw" | "--journal"): Promise<number> {
  const file = lessonFile(name);
  const folder = scratch();
  console.log(`[offline: ${file.slice(ROOT.length)} with the rehearsal model, in ${folder}]`);
  const { code, journal } = await runOffline(name, args, { folder });
  const last = journal.at(-1);
  if (then === "--raw" && last) console.log(`\n${showCall(last)}`);
  if (then === "--journal") console.log(`\n${JSON.stringify(journal)}`);
  return code;
}

/** s06 in this folder, with the key or profile of the environment or of .env; without one offline. */
async function start(args: string[]): Promise<number> {
  if (existsSync(join(ROOT, ".env"))) process.loadEnvFile(join(ROOT, ".env"));
  const credentials = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"];
  if (!credentials.some((name) => process.env[name])) {
    console.log("[no ANTHROPIC_API_KEY: this is a rehearsal; README.md says how to use a key]");
    return offline("s06", args);
  }
  console.log(`[your credential, ${process.env.MODEL_ID || "the default model"}, in ${ROOT}]`);
  return runLesson("s06", args, { folder: ROOT });
}

/** Files that the demo reads, characters of each, and tokens of context that s06 may use. */
const DEMO = { files: 48, size: 3_000, threshold: 16_000 };
/** How far a prompt may pass the limit: a summary is asked for with the history that has just passed it. */
const TOLERANCE = 1.1;
const COLOURS = ["amber", "azure", "coral", "ebony", "ivory", "khaki", "mauve", "olive"];

/**
 * One long task in s06 with a small context. All three layers have to act, the answer has to be right, and no file may be
 * read twice: a compaction that loses facts makes the model read again, and fails the demo.
 */
async function demo(keep?: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "six-lessons-"));
  mkdirSync(join(folder, "library"));
  const facts: string[] = [];
  for (let i = 0; i < DEMO.files; i++) {
    const name = `library/book-${String(i + 1).padStart(2, "0")}.txt`;
    const fact = `the cover of book ${i + 1} is ${COLOURS[(i * 5) % COLOURS.length]}`;
    facts.push(`${name}: ${fact}`);
    writeFileSync(
      join(folder, name),
      `${`Page after page of book ${i + 1}. `.repeat(200).slice(0, DEMO.size)}\nFact: ${fact}\n`,
    );
  }
  const request =
    "Read every file in the library/ folder one by one and report the fact in each; use the compact tool when half are read.";
  console.log(
    `[demo: s06 may use ${DEMO.threshold} tokens; the ${DEMO.files} files alone have about ${(DEMO.files * DEMO.size) / 3}]\n`,
  );
  const own = Object.keys(process.env).filter((name) => /^(COMPACT_|CONTEXT_WINDOW$|THINKING$)/.test(name));
  let output = "";
  let requests = 0;
  const { code, journal } = await runOffline("s06", ["-y", request], {
    folder,
    model: (request) => {
      requests++;
      return requests > 3 * DEMO.files ? { content: [{ type: "text", text: "I give up." }] } : rehearse(request);
    },
    env: { ...Object.fromEntries(own.map((name) => [name, ""])), COMPACT_THRESHOLD: String(DEMO.threshold) },
    seen: (part) => {
      output += part;
    },
  });
  if (keep) cpSync(join(folder, ".transcripts"), keep, { recursive: true });
  rmSync(folder, { recursive: true });

  const points = journal.map(({ promptTokens }, i): [number, number] => [i + 1, promptTokens]);
  const settings = {
    title: "context (tokens) by model call; the line is the limit",
    width: 76,
    height: 14,
    thresholds: [{ y: DEMO.threshold }],
    customXAxisTicks: points.flatMap(([x]) => (x % 10 === 0 ? [x] : [])),
    customYAxisTicks: [0, 4_000, 8_000, 12_000, 16_000],
    yRange: [0, 17_000] satisfies [number, number],
    formatter: (value: number) => value.toLocaleString("en-US"),
  };
  console.log(`\n${chart(points, settings)}\n`);

  const answer = output.slice(output.lastIndexOf("I have read all"));
  const missing = facts.filter((fact) => !answer.includes(fact));
  const reads = output.match(/^> read_file .*/gm) ?? [];
  const again = reads.length - new Set(reads).size;
  const marks = { "layer 1": "[micro_compact]", "layer 2": "[auto_compact triggered]", "layer 3": "[manual compact]" };
  const faults: string[] = [];
  if (missing.length > 0) faults.push(`the answer lacks ${missing.length} facts, such as "${missing[0]}"`);
  if (again > 0) faults.push(`${again} reads were of files read before: a compaction lost what was in them`);
  for (const [layer, mark] of Object.entries(marks)) {
    const times = output.split(mark).length - 1;
    console.log(`${layer}: ${mark} × ${times}`);
    if (times === 0) faults.push(`${layer} did not act`);
  }
  for (const { error } of journal) if (error) faults.push(`the API rejected a request: ${error}`);
  if (code !== 0) faults.push(`the lesson ended with exit code ${code}`);
  const largest = Math.max(...journal.map(({ promptTokens }) => promptTokens));
  const isSummary = ({ request }: JournalEntry) => /Write a summary/.test(JSON.stringify(request?.messages?.at(-1)));
  const others = journal.filter((entry) => !isSummary(entry)).map(({ promptTokens }) => promptTokens);
  const format = (tokens: number) => tokens.toLocaleString("en-US");
  const within = `${others.length} of at most ${format(Math.max(...others))} tokens (the limit is ${format(DEMO.threshold)})`;
  console.log(`${journal.length} model calls: ${within}, ${journal.length - others.length} for summaries`);
  if (largest > TOLERANCE * DEMO.threshold)
    faults.push("the context grew past its limit: compaction does not shorten it");
  const files = reads.length - again;
  const once = files === DEMO.files && again === 0;
  const read = once ? "each file read once" : `${files} files read, ${again} reads repeated`;
  console.log(`${facts.length - missing.length} of ${facts.length} facts right, ${read}`);
  for (const fault of faults) console.error(`demo: ${fault}`);
  const more = faults.length > 1 ? `; and ${faults.length - 1} more` : "";
  if (faults.length > 0) console.log(`demo failed: ${faults[0]}${more}`); // what `| tail -1` shows
  return faults.length === 0 ? 0 : 1;
}

async function main([command = "", ...args]: string[]): Promise<number> {
  if (command === "demo") return demo(args[0]);
  if (command === "start") return start(args);
  if (command === "--raw" || command === "--journal") return offline(args.shift() ?? "", args, command);
  return offline(command, args);
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  },
);
