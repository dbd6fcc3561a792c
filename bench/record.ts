/**
 * Records the sessions in bench/sessions/ anew: s06 carries out each in a copy of this repository, on the strict server,
 * and what it writes to its transcript is kept. The same sources give the same files.
 *
 *     npx tsx bench/record.ts
 */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, hostname, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "../offline/server.ts";
import { play, SESSIONS, type Session } from "./work.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TARGET = join(ROOT, "bench", "sessions");

/** A folder with what the sessions work on. */
function copy(): string {
  const folder = mkdtempSync(join(tmpdir(), "record-"));
  for (const name of ["agents", "offline", "skills", "README.md"]) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  mkdirSync(join(folder, "tests"));
  for (const name of readdirSync(join(ROOT, "tests")).filter((name) => name.endsWith(".ts"))) {
    cpSync(join(ROOT, "tests", name), join(folder, "tests", name));
  }
  return folder;
}

/** Carries out a session. @returns its transcript @throws if a request was rejected, or the text tells about this machine */
async function record(session: Session): Promise<string> {
  const folder = copy();
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sources = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8")).join("\n");
  const machine = [folder, ROOT, homedir(), hostname(), userInfo().username].filter((word) => !sources.includes(word));
  const never = "1000000000"; // tokens: nothing is compacted
  const server = await startServer({ model: play(session), contextLimit: Number(never) });
  const lesson = join(ROOT, "agents", "s06_context_compact.ts");
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), lesson, "-y"], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      LC_ALL: "C",
      ANTHROPIC_BASE_URL: server.url,
      ANTHROPIC_API_KEY: "offline",
      COMPACT_THRESHOLD: never,
      COMPACT_TURN_THRESHOLD: never,
    },
    stdio: ["pipe", "ignore", "inherit"],
  });
  child.stdin?.end(session.requests.map(({ asks }) => `${asks}\n`).join(""));
  const code = await new Promise((resolve) => child.on("close", resolve));
  await server.close();
  const error = server.journal.find((entry) => entry.error)?.error;
  if (error || code !== 0) throw new Error(`${session.name}: ${error ?? `s06 ended with exit code ${code}`}`);

  const [file = ""] = readdirSync(join(folder, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
  // Signatures are made with a key of this run, and no other server takes them.
  const text = readFileSync(join(folder, ".transcripts", file), "utf8").replace(/("signature":)"[^"]*"/g, '$1""');
  const told = machine.find((word) => text.includes(word));
  if (told) throw new Error(`${session.name}: the transcript names ${told}; take out the call that printed it`);
  rmSync(folder, { recursive: true });
  return text;
}

rmSync(TARGET, { recursive: true, force: true });
mkdirSync(TARGET, { recursive: true });
for (const session of SESSIONS) {
  const text = await record(session);
  writeFileSync(join(TARGET, `${session.name}.jsonl`), text);
  console.log(`${session.name}: ${text.length} characters`);
}
