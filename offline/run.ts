/**
 * Runs a lesson without a key: on the local Messages API, in a scratch folder with a copy of what the lessons talk about.
 *
 *     npm start                       s06 in this folder if you have a key, otherwise offline
 *     npm run offline -- s03 [args]   any lesson, offline. With --raw before s03, it prints the last model call at the
 *                                     end; with --save FOLDER, it writes transcripts like those of s06
 *     npm run demo [-- FOLDER]        a tour that needs no typing; leaves its transcript in FOLDER
 */
import { cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { JournalEntry } from "./api/server.ts";
import { demo } from "./demo.ts";
import { saveTranscripts, showCall } from "./journal.ts";
import { runOffline } from "./offline.ts";
import { CREDENTIALS, LESSONS, lessonFile, ROOT, runLesson } from "./start.ts";

const USAGE = `npm run offline -- [--raw] LESSON [-y] ["a request"]     --raw: then print the last model call as JSON
LESSON is one of:
${LESSONS.map((file) => `  ${file.slice(0, 3)}  ${file.slice(4, -3).replaceAll("_", " ")}`).join("\n")}`;

/** Fills a folder that git ignores, where the agent can't harm anything. It stays, so conversations can be resumed. */
function fillScratch(): string {
  const folder = join(ROOT, ".offline");
  mkdirSync(folder, { recursive: true });
  for (const name of ["agents", "docs", "skills", "package.json"]) {
    rmSync(join(folder, name), { recursive: true, force: true });
    if (existsSync(join(ROOT, name))) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return folder;
}

/** Runs a lesson. Returns the exit code. `then` gets the model calls. */
async function offline([name = "", ...args]: string[], then = (_: JournalEntry[]) => {}): Promise<number> {
  if (name === "") throw new Error(USAGE);
  const file = lessonFile(name);
  const folder = fillScratch();
  console.log(`[offline: ${file.slice(ROOT.length)} with the rehearsal model, in ${folder}]`);
  const isHere = (arg: string, i: number) => args[i - 1] === "--resume" && existsSync(arg);
  const fromScratch = args.map((arg, i) => (isHere(arg, i) ? resolve(arg) : arg)); // the lesson runs in that folder
  const { code, journal } = await runOffline(name, fromScratch, { cwd: folder });
  then(journal);
  return code;
}

/** Runs s06 in this folder with the credentials of the environment or of .env, or offline if there are none. */
async function start(args: string[]): Promise<number> {
  if (existsSync(join(ROOT, ".env"))) process.loadEnvFile(join(ROOT, ".env"));
  if (!CREDENTIALS.some((name) => process.env[name])) {
    console.log("[no ANTHROPIC_API_KEY: this is a rehearsal; docs/running.md says how to use a key]");
    return offline(["s06", ...args]);
  }
  console.log(`[your credential, ${process.env.MODEL_ID || "the default model"}, in ${ROOT}]`);
  return runLesson(lessonFile("s06"), args, { cwd: ROOT });
}

async function main([command = "", ...args]: string[]): Promise<number> {
  const [folder = "", ...rest] = args;
  if (command === "demo") return demo(args[0]);
  if (command === "start") return start(args);
  if (command === "--raw")
    return offline(args, (journal) => {
      for (const last of journal.slice(-1)) console.log(`\n${showCall(last)}`);
    });
  if (command === "--save") return offline(rest, (journal) => saveTranscripts(journal, folder));
  return offline([command, ...args]);
}

process.stdout.on("error", () => process.exit(1)); // closed, as in `| head -1`
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
