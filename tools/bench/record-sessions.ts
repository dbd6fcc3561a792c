/**
 * Records the sessions in tools/bench/sessions/ again: s06 carries out each in a copy of this repository, on the strict
 * server, and the messages of its transcript are kept. The same sources give the same files.
 *
 *     npx tsx tools/bench/record-sessions.ts
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, hostname, tmpdir, userInfo } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "../offline/server.ts";
import { OwnMessage, parseLine } from "../sessions/formats.ts";
import { play, SESSIONS, type Session } from "./work.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TARGET = join(ROOT, "tools/bench/sessions");
const NEVER = 1_000_000_000; // tokens: nothing is compacted

/** A folder with what the sessions work on: `tools/offline/` is `offline/` there. */
function copy(): string {
  const folder = mkdtempSync(join(tmpdir(), "record-"));
  for (const name of ["agents", "skills", "tests", "tools/offline"]) {
    cpSync(join(ROOT, name), join(folder, basename(name)), {
      recursive: true,
      filter: (path) => !path.includes("node_modules"),
    });
  }
  return folder;
}

/** Carries out a session. @returns its messages @throws if a request was rejected, or the text tells about this machine */
async function record(session: Session): Promise<string> {
  const folder = copy();
  const server = await startServer({ model: play(session), contextLimit: NEVER });
  const lesson = join(ROOT, "agents", "s06_context_compact.ts");
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), lesson, "-y"], {
    cwd: folder,
    env: {
      ...{ PATH: process.env.PATH, LC_ALL: "C", ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "offline" },
      ...{ COMPACT_THRESHOLD: `${NEVER}`, CONTEXT_WINDOW: `${NEVER}` },
    },
    stdio: ["pipe", "ignore", "inherit"],
  });
  child.stdin?.end(session.requests.map(([asks]) => `${asks}\n`).join(""));
  const [code] = await once(child, "close");
  await server.close();
  const error = server.journal.find((entry) => entry.error)?.error;
  if (error || code !== 0) throw new Error(`${session.name}: ${error ?? `s06 ended with exit code ${code}`}`);

  const [file = ""] = readdirSync(join(folder, ".transcripts")).filter((name) => name.endsWith(".jsonl"));
  const lines = readFileSync(join(folder, ".transcripts", file), "utf8")
    .trim()
    .split("\n");
  rmSync(folder, { recursive: true });
  // Signatures are made with a key of this run, and no other server takes them.
  const unsigned = lines.map((line) => line.replaceAll(/(?<="signature":)"[^"]*"/g, '""'));
  const messages = unsigned.map((line) => OwnMessage.parse(parseLine(line)).message);
  const text = messages.map((message) => `${JSON.stringify({ message, state: {} })}\n`).join("");
  const machine = [folder, ROOT, homedir(), hostname(), userInfo().username].filter((word) => word.length > 4);
  const told = machine.find((word) => text.includes(word));
  if (told) throw new Error(`${session.name}: the transcript names ${told}; take out the call that printed it`);
  return text;
}

const texts = await Promise.all(SESSIONS.map(record));
rmSync(TARGET, { recursive: true, force: true });
mkdirSync(TARGET, { recursive: true });
for (const [i, { name }] of SESSIONS.entries()) {
  writeFileSync(join(TARGET, `${name}.jsonl`), texts[i] ?? "");
  console.log(`${name}: ${texts[i]?.length} characters`);
}
