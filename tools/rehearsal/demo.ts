/**
 * The demo: s06 and the rehearsal model carry out one long task in a small context. All three layers must act, the answer
 * must be right, and no file may be read twice. If a compaction loses facts, the model reads again and the demo fails.
 */
import type { StdioOptions } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JournalEntry, Model } from "../api/server.ts";
import { DEFAULTS } from "../lesson/start.ts";
import { PRINTED } from "../lesson/wording.ts";
import { whole } from "../trace/numbers.ts";
import { readRecording } from "../trace/recording.ts";
import { isSummaryCall, rehearse } from "./model.ts";
import { runOffline } from "./offline.ts";

// A summary brings back files this short, and layer 1 can't clear those, so in the end layer 2 has to act.
const FILES = 64;
const FILE_SIZE = 2_000; // characters
const THRESHOLD = 16_000; // tokens
const COLOURS = ["amber", "azure", "coral", "ebony", "ivory", "khaki", "mauve", "olive"];
const REQUEST =
  "Read every file in the library/ folder one by one and report the fact in each; use the compact tool when half are read.";

/** Runs the demo and prints the result. Returns the exit code. `keep` is a folder to copy the transcript to. */
export async function demo(keep?: string): Promise<number> {
  const folder = temporaryFolder();
  const facts = fillLibrary(folder);
  const all = Math.round((FILES * FILE_SIZE) / 3_000);
  console.log(`[demo: s06 compacts at ${whole(THRESHOLD)} tokens; the ${FILES} files have about ${all},000]`);
  const env = { ...process.env, ...DEFAULTS, COMPACT_THRESHOLD: String(THRESHOLD) };
  const stdio: StdioOptions = ["inherit", "ignore", "inherit"];
  const { code, journal } = await runOffline("s06", ["-y", REQUEST], { cwd: folder, env, stdio }, withProgress());
  const transcripts = join(folder, ".transcripts");
  if (keep) cpSync(transcripts, keep, { recursive: true });
  console.log(`${drawPrompts(journal)}\n`);
  const faults = [...checkLayers(transcripts), ...checkPrompts(journal), ...checkAnswer(journal, facts)];
  if (code !== 0) faults.push(`s06 ended with exit code ${code}`);
  for (const fault of faults) console.log(`demo failed: ${fault}`);
  if (faults.length > 0) console.log("demo failed; `npm run demo -- FOLDER` leaves its transcript in FOLDER");
  return faults.length === 0 ? 0 : 1;
}

/** Makes a folder that is removed when this process ends, even by a signal. */
function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "six-lessons-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  return folder;
}

/** Writes the files. Returns the lines about their facts that the answer must have. */
function fillLibrary(folder: string): string[] {
  mkdirSync(join(folder, "library"));
  return Array.from({ length: FILES }, (_, i) => {
    const name = `library/book-${String(i + 1).padStart(2, "0")}.txt`;
    const fact = `the cover of book ${i + 1} is ${COLOURS[(i * 5) % COLOURS.length]}`;
    const pages = `Page after page of book ${i + 1}. `.repeat(200).slice(0, FILE_SIZE);
    writeFileSync(join(folder, name), `${pages}\nFact: ${fact}\n`);
    return `${name}: ${fact}`;
  });
}

/** Returns the rehearsal model, which here shows its progress and gives up if it reads in circles. */
function withProgress(): Model {
  let calls = 0;
  return (request) => {
    calls++;
    if (process.stdout.isTTY) process.stdout.write(`\r[model call ${calls}]\r`);
    return calls > 3 * FILES ? { content: [{ type: "text", text: "I give up." }] } : rehearse(request);
  };
}

const BARS = "▁▂▃▄▅▆▇█";
/** Returns a line with a bar for each prompt. */
function drawPrompts(journal: JournalEntry[]): string {
  const largest = Math.max(...journal.map(({ promptTokens }) => promptTokens));
  return journal.map(({ promptTokens }) => BARS[Math.floor((promptTokens / largest) * (BARS.length - 1))]).join("");
}

// Each check prints its figures and returns the faults it found.

function checkLayers(transcripts: string): string[] {
  const names = existsSync(transcripts) ? readdirSync(transcripts).filter((name) => name.endsWith(".jsonl")) : [];
  const events = names.flatMap((name) => readRecording(readFileSync(join(transcripts, name), "utf8")).events);
  const faults: string[] = [];
  for (const [i, [trigger, printed]] of Object.entries(PRINTED).entries()) {
    const times = events.filter((event) => event.type === "rewrite" && event.trigger === trigger).length;
    console.log(`layer ${i + 1}: ${printed} × ${times}`);
    if (times === 0) faults.push(`layer ${i + 1} did not act`);
  }
  return faults;
}

function checkPrompts(journal: JournalEntry[]): string[] {
  const replies = journal.filter(({ request }) => !isSummaryCall(request));
  const most = whole(Math.max(...replies.map(({ promptTokens }) => promptTokens)));
  const summaries = journal.length - replies.length;
  console.log(
    `${journal.length} model calls: ${replies.length} of at most ${most} tokens, and ${summaries} for summaries`,
  );
  return journal.flatMap(({ error }) => (error ? `the API rejected a request: ${error}` : []));
}

function checkAnswer(journal: JournalEntry[], facts: string[]): string[] {
  const blocks = journal.flatMap(({ reply = [] }) => reply);
  const answer = blocks.at(-1);
  const missing = facts.filter((fact) => answer?.type !== "text" || !answer.text.includes(fact));
  const reads = blocks.flatMap((block) =>
    block.type === "tool_use" && block.name === "read_file" ? JSON.stringify(block.input) : [],
  );
  const files = new Set(reads).size;
  const again = reads.length - files;
  const right = facts.length - missing.length;
  console.log(`${right} of ${facts.length} facts right, ${files} files read, ${again} of them twice`);
  const faults: string[] = [];
  if (missing.length > 0) faults.push(`the answer lacks ${missing.length} facts, such as "${missing[0]}"`);
  if (again > 0) faults.push(`${again} files were read twice: a compaction lost what was in them`);
  return faults;
}
