/**
 * Runs a lesson without a key: on the local Messages API, in a scratch folder with a copy of what the lessons talk about.
 *
 *     npm start                       s06 in this folder if you have a key, otherwise offline
 *     npm run offline -- s03 [args]   any lesson, offline; --raw before s03 prints the last model call at the end.
 *                                     CONTEXT_WINDOW in the environment is also the window of the local API
 *     npm run demo                    s05 and s06 at the same task, without any typing
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { JournalEntry } from "./api/server.ts";
import { demo } from "./demo.ts";
import { runOffline } from "./offline.ts";
import { CREDENTIALS, LESSONS, lessonFile, ROOT, runLesson } from "./start.ts";
import { SCRATCH } from "./world.ts";

const USAGE = `npm run offline -- [--raw] LESSON [-y] ["a request"]     --raw: then print the last model call as JSON
LESSON is one of:
${LESSONS.map((file) => `  ${file.slice(0, 3)}  ${file.slice(4, -3).replaceAll("_", " ")}`).join("\n")}`;

/** Runs a lesson. Returns the exit code and the model calls. */
function offline([name = "", ...args]: string[]) {
  if (name === "") throw new Error(USAGE);
  console.log(`[offline: ${lessonFile(name).slice(ROOT.length)} with the rehearsal model, in ${SCRATCH}]`);
  const isHere = (arg: string, i: number) => args[i - 1] === "--resume" && existsSync(arg);
  const fromScratch = args.map((arg, i) => (isHere(arg, i) ? resolve(arg) : arg)); // the lesson runs in that folder
  return runOffline(name, fromScratch);
}

/** Runs s06 in this folder with the credentials of the environment or of .env, or offline if there are none. */
async function start(args: string[]): Promise<number> {
  if (existsSync(join(ROOT, ".env"))) process.loadEnvFile(join(ROOT, ".env"));
  if (!CREDENTIALS.some((name) => process.env[name])) {
    console.log("[no ANTHROPIC_API_KEY: this is a rehearsal; docs/running.md says how to use a key]");
    return (await offline(["s06", ...args])).code;
  }
  console.log(`[your credential, ${process.env.MODEL_ID || "the default model"}, in ${ROOT}]`);
  return runLesson(lessonFile("s06"), args, { cwd: ROOT });
}

/** Prints the request of a model call, with texts cut at 200 characters, and the reply as it was once the stream had ended. */
function printCall({ request, status, error, reply, stop_reason, usage }: JournalEntry): void {
  const answer = error ? { error } : { role: "assistant", content: reply, stop_reason, usage };
  const shorten = (_: string, value: unknown) =>
    typeof value === "string" && value.length > 200 ? `${value.slice(0, 200)}…` : value;
  const show = (value: unknown) => JSON.stringify(value, shorten, 2);
  console.log(`\nPOST /v1/messages ${show(request)}\n${status} ${show(answer)}`);
}

async function main([command = "", ...args]: string[]): Promise<number> {
  if (command === "demo") return demo();
  if (command === "start") return start(args);
  if (command !== "--raw") return (await offline([command, ...args])).code;
  const { code, journal } = await offline(args);
  for (const last of journal.slice(-1)) printCall(last);
  return code;
}

process.stdout.on("error", () => process.exit(1)); // closed, as in `| head -1`
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
