/**
 * The demo: s06 and the rehearsal model carry out one long task in a small context. All three layers must act, the answer
 * must be right, and no file may be read twice. If a compaction loses facts, the model reads again and the demo fails.
 */
import type { StdioOptions } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { filesIn } from "../tools/sessions/files.ts";
import { whole } from "../tools/sessions/numbers.ts";
import { readRecording } from "../tools/sessions/recording.ts";
import type { JournalEntry, Model } from "./api/server.ts";
import { isSummaryCall, rehearse } from "./model.ts";
import { runOffline } from "./offline.ts";
import { DEFAULTS } from "./start.ts";
import { PRINTED } from "./wording.ts";

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
  const faults = [code !== 0 && `s06 ended with exit code ${code}`, ...findFaults(journal, transcripts, facts)];
  for (const fault of faults.filter(Boolean)) console.log(`demo failed: ${fault}`);
  return faults.some(Boolean) ? 1 : 0;
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
function drawPrompts(journal: JournalEntry[]): string {
  const largest = Math.max(...journal.map(({ promptTokens }) => promptTokens));
  return journal.map(({ promptTokens }) => BARS[Math.floor((promptTokens / largest) * (BARS.length - 1))]).join("");
}

/** Prints what happened. Returns what went wrong. */
function findFaults(journal: JournalEntry[], transcripts: string, facts: string[]): (string | false)[] {
  const events = filesIn(transcripts).flatMap((file) => readRecording(readFileSync(file, "utf8")).events);
  const layers = Object.entries(PRINTED).map(([trigger, printed], i) => {
    const times = events.filter((event) => event.type === "rewrite" && event.trigger === trigger).length;
    console.log(`layer ${i + 1}: ${printed} × ${times}`);
    return times;
  });
  const replies = journal.filter(({ request }) => !isSummaryCall(request));
  const most = whole(Math.max(...replies.map(({ promptTokens }) => promptTokens)));
  const summaries = journal.length - replies.length;
  console.log(`${journal.length} model calls: ${replies.length} of at most ${most} tokens, ${summaries} for summaries`);
  const blocks = journal.flatMap(({ reply = [] }) => reply);
  const answer = blocks.at(-1);
  const right = facts.filter((fact) => answer?.type === "text" && answer.text.includes(fact)).length;
  const reads = blocks.flatMap((block) => (block.type === "tool_use" && block.name === "read_file" ? block.input : []));
  const files = new Set(reads.map((input) => JSON.stringify(input))).size;
  const again = reads.length - files;
  console.log(`${right} of ${FILES} facts right, ${files} files read, ${again} of them twice`);
  const error = journal.find((call) => call.error)?.error ?? "";
  return [
    layers.includes(0) && "a layer didn't act",
    error !== "" && `the API rejected a request: ${error}`,
    right < FILES && "the answer lacks facts",
    again > 0 && "a compaction lost what was in a file",
  ];
}
