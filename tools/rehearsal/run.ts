/**
 * Runs a lesson without a key: starts the Messages API of this folder, copies what the lessons talk about to a scratch
 * folder, and runs the lesson there.
 *
 *     npm start                       s06 on your key, in this folder; without a key offline
 *     npm run offline -- s03 [args]   any lesson, offline; with --raw before s03, it then prints the last model call,
 *                                     with --journal the conversation as a trace (s06 writes its own)
 *     npm run demo [-- FOLDER]        a tour without a keyboard; its transcript is left in FOLDER. With --verbose it shows
 *                                     what s06 prints
 */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import chart from "simple-ascii-chart";
import { type JournalEntry, type Model, type Reply, startServer } from "../api/server.ts";
import { readConversation } from "../trace/conversation.ts";
import { traceOf } from "./journal.ts";
import { isSummaryCall, rehearse } from "./model.ts";
import { showCall } from "./raw.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LESSONS = readdirSync(join(ROOT, "agents"));
const USAGE = `npm run offline -- [--raw] LESSON [-y] ["a request"]     --raw: then print the last model call as JSON
LESSON is one of:
${LESSONS.map((file) => `  ${file.slice(0, 3)}  ${file.slice(4, -3).replaceAll("_", " ")}`).join("\n")}`;

/** The file of a lesson, given as `s03`. @throws if there is no such lesson */
function lessonFile(name: string): string {
  const own = join(ROOT, name); // a reader's version
  if (/^practice\/s\d\d_\w+\.ts$/.test(name) && existsSync(own)) return own;
  const file = LESSONS.find((lesson) => /^s\d+$/.test(name) && lesson.startsWith(`${name}_`));
  if (!file) throw new Error(`${name ? `there is no lesson ${name}` : "which lesson?"}\n${USAGE}`);
  return join(ROOT, "agents", file);
}

/** `isSilent`: nobody sees what the lesson prints. */
type Run = { folder: string; model?: Model; env?: Record<string, string>; isSilent?: boolean };

/** Runs a lesson to its end. @returns its exit code */
function runLesson(name: string, args: string[], { folder, env, isSilent }: Run): Promise<number> {
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), lessonFile(name), ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["inherit", isSilent ? "ignore" : "inherit", "inherit"],
  });
  process.on("exit", () => child.kill());
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
  if (then === "--journal") console.log(`\n${traceOf(journal).join("\n")}`);
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

/**
 * How many files the demo reads, how long each is in characters, and the threshold of s06 in tokens. A summary brings back
 * files this short, and layer 1 can't clear those: they are no tool results. So in the end layer 2 has to act.
 */
const DEMO = { files: 64, size: 2_000, threshold: 16_000 };
/** A call for a summary may be longer than the threshold, since it sends what has just passed it. */
const MAX_PROMPT = 1.1 * DEMO.threshold;
const COLOURS = ["amber", "azure", "coral", "ebony", "ivory", "khaki", "mauve", "olive"];
const REQUEST =
  "Read every file in the library/ folder one by one and report the fact in each; use the compact tool when half are read.";
/** What s06 prints for each trigger. */
const LAYERS = {
  micro: "layer 1: [micro_compact]",
  auto: "layer 2: [auto_compact triggered]",
  tool: "layer 3: [manual compact]",
};

const format = (tokens: number) => tokens.toLocaleString("en-US");

/** Writes the files. Returns their facts, as the answer has to report them. */
function fillLibrary(folder: string): string[] {
  mkdirSync(join(folder, "library"));
  return Array.from({ length: DEMO.files }, (_, i) => {
    const name = `library/book-${String(i + 1).padStart(2, "0")}.txt`;
    const fact = `the cover of book ${i + 1} is ${COLOURS[(i * 5) % COLOURS.length]}`;
    const pages = `Page after page of book ${i + 1}. `.repeat(200).slice(0, DEMO.size);
    writeFileSync(join(folder, name), `${pages}\nFact: ${fact}\n`);
    return `${name}: ${fact}`;
  });
}

/** The files that a reply asks to read. */
const readsIn = (blocks: { type: string; name?: string; input?: unknown }[] = []): string[] =>
  blocks.flatMap(({ type, name, input }) =>
    type === "tool_use" && name === "read_file" ? String(Object(input).path) : [],
  );

/** The rehearsal model. It shows its progress, and gives up if it reads in circles. */
function withProgress(isVerbose: boolean): Model {
  let calls = 0;
  let reads = 0;
  return (request) => {
    calls++;
    const reply: Reply =
      calls > 3 * DEMO.files ? { content: [{ type: "text", text: "I give up." }] } : rehearse(request);
    reads += readsIn(reply.content).length;
    const isShown = !isVerbose && process.stdout.isTTY;
    if (isShown) process.stdout.write(`\r[model call ${calls}: ${reads} of ${DEMO.files} files read]`);
    return reply;
  };
}

/** How often each trigger occurs in the transcripts of a folder. */
function countTriggers(folder: string): Record<string, number> {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")) : [];
  const counts: Record<string, number> = {};
  for (const name of names) {
    const { steps } = readConversation(readFileSync(join(folder, name), "utf8"));
    for (const step of steps) if (step.type === "rewrite") counts[step.trigger] = (counts[step.trigger] ?? 0) + 1;
  }
  return counts;
}

/** A chart of the prompts' sizes, at most 79 columns wide. */
function drawPrompts(journal: JournalEntry[]): string {
  const { threshold } = DEMO;
  const points = journal.map(({ promptTokens }, i): [number, number] => [i + 1, promptTokens]);
  const summaries = points.filter((_, i) => isSummaryCall(journal[i]?.request ?? { messages: [] }));
  const top = Math.max(threshold, ...points.map(([, tokens]) => tokens));
  const step = Math.ceil(top / threshold) * (threshold / 4);
  const plot = chart(points, {
    title: "tokens of each prompt; the line is the threshold, S a call for a summary",
    width: 68,
    height: 15,
    thresholds: [{ y: threshold }],
    points: summaries.map(([x, y]) => ({ x, y })),
    symbols: { point: "S" },
    customXAxisTicks: points.flatMap(([x]) => (x % 10 === 0 ? [x] : [])),
    customYAxisTicks: Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => step * i),
    yRange: [0, top],
    formatter: format,
  });
  return plot.replace(/ +$/gm, "");
}

/**
 * One long task in s06 with a small context. All three layers have to act, the answer has to be right, and no file may be
 * read twice. If a compaction loses facts, the model reads again, and the demo fails.
 */
async function demo(args: string[]): Promise<number> {
  const isVerbose = args.includes("--verbose");
  const [keep] = args.filter((arg) => arg !== "--verbose");
  const folder = mkdtempSync(join(tmpdir(), "six-lessons-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      console.log(); // after the progress
      process.exit(128 + constants.signals[signal]);
    });
  const facts = fillLibrary(folder);
  const all = Math.round((DEMO.files * DEMO.size) / 3_000);
  console.log(
    `[demo: s06 compacts at ${format(DEMO.threshold)} tokens; the ${DEMO.files} files have about ${all},000]`,
  );
  const own = Object.keys(process.env).filter((name) => /^(COMPACT_|CONTEXT_WINDOW$|THINKING$)/.test(name));
  const env = { ...Object.fromEntries(own.map((name) => [name, ""])), COMPACT_THRESHOLD: String(DEMO.threshold) };
  const run = { folder, model: withProgress(isVerbose), env, isSilent: !isVerbose };
  const { code, journal } = await runOffline("s06", ["-y", REQUEST], run);
  const transcripts = join(folder, ".transcripts");
  const triggers = countTriggers(transcripts);
  if (keep) cpSync(transcripts, keep, { recursive: true });
  if (process.stdout.isTTY) console.log(); // after the progress
  console.log(`${drawPrompts(journal)}\n`);

  const faults: string[] = [];
  const answer = (journal.at(-1)?.reply ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
  const missing = facts.filter((fact) => !answer.includes(fact));
  if (missing.length > 0) faults.push(`the answer lacks ${missing.length} facts, such as "${missing[0]}"`);
  const reads = journal.flatMap(({ reply }) => readsIn(reply));
  const again = reads.length - new Set(reads).size;
  if (again > 0) faults.push(`${again} files were read twice: a compaction lost what was in them`);
  for (const [trigger, layer] of Object.entries(LAYERS)) {
    console.log(`${layer} × ${triggers[trigger] ?? 0}`);
    if (!triggers[trigger]) faults.push(`${layer} did not act`);
  }
  for (const { error } of journal) if (error) faults.push(`the API rejected a request: ${error}`);
  if (code !== 0) faults.push(`s06 ended with exit code ${code}`);
  const sizes = journal.filter(({ request }) => !isSummaryCall(request)).map(({ promptTokens }) => promptTokens);
  const most = format(Math.max(...sizes));
  const summaries = journal.length - sizes.length;
  console.log(
    `${journal.length} model calls: ${sizes.length} of at most ${most} tokens, and ${summaries} for summaries`,
  );
  if (journal.some(({ promptTokens }) => promptTokens > MAX_PROMPT))
    faults.push("a prompt is far above the threshold: compaction doesn't shorten it");
  const right = facts.length - missing.length;
  console.log(`${right} of ${facts.length} facts right, ${new Set(reads).size} files read, ${again} of them twice`);
  if (faults.length > 0) console.log("demo failed; --verbose shows what s06 prints");
  for (const fault of faults) console.log(`demo failed: ${fault}`); // the last line says so even in `| tail -1`
  return faults.length === 0 ? 0 : 1;
}

async function main([command = "", ...args]: string[]): Promise<number> {
  if (command === "demo") return demo(args);
  if (command === "start") return start(args);
  if (command === "--raw" || command === "--journal") return offline(args.shift() ?? "", args, command);
  return offline(command, args);
}

process.stdout.on("error", () => process.exit(1)); // closed, as in `| head -1`
main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  },
);
