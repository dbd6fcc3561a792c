/** Records what commands print and leave behind, in a form that is the same on every machine. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { basename, join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { filesIn } from "../sessions/files.ts";

const TIMEOUT_MS = 600_000; // only a command that hangs takes this long
const SAME_PID = 'if (/\\/agents\\//.test(process.argv[1])) Object.defineProperty(process, "pid", { value: 4711 });';

/** What commands printed, and left behind together. */
export type Recorded = {
  outputs: Map<string, string>; // by command
  journal: string; // what the local API was asked, one model call a line
  transcripts: Record<string, string>; // of s06, by their paths in .transcripts/
};
export type Recorder = (command: string) => Promise<Recorded>;

/**
 * Returns a function that runs a command in a copy of the project. If the command belongs to a session, the others run
 * before and after it in the same copy. Everything runs once, and two copies are at work at a time.
 */
export function recorder(root: string, sessions: string[][]): Recorder {
  const seen = new Map<string, Promise<Recorded>>();
  const lanes = [Promise.resolve(), Promise.resolve()];
  const run = (commands: string[]): Promise<Recorded> => {
    const lane = seen.size % lanes.length;
    const recorded = (lanes[lane] ?? Promise.resolve()).then(() => record(root, commands));
    lanes[lane] = recorded.then(
      () => {},
      () => {},
    );
    return recorded;
  };
  return (command) => {
    const commands = sessions.find((session) => session.includes(command)) ?? [command];
    const key = commands.join("\n");
    const recorded = seen.get(key) ?? run(commands);
    seen.set(key, recorded);
    return recorded;
  };
}

/** @throws if a command doesn't end in time */
async function record(root: string, commands: string[]): Promise<Recorded> {
  // Prompts contain the folder's path and the lesson's pid, so their lengths are fixed: the same prompt has the same tokens.
  const base = fs.realpathSync("/tmp");
  const home = fs.mkdtempSync(join(base, "docs".padEnd(60 - base.length, "-")));
  const cwd = join(home, "six-lessons");
  try {
    const isCopied = (path: string) => path === root || !/^(node_modules$|\.)/.test(basename(path));
    fs.cpSync(root, cwd, { recursive: true, filter: isCopied });
    fs.symlinkSync(join(root, "node_modules"), join(cwd, "node_modules"));
    fs.writeFileSync(join(home, "pid.mjs"), SAME_PID);
    const ids = new Map<string, string>(); // of calls, the same in all files
    const read = (file: string) => stable(fs.readFileSync(file, "utf8").replaceAll(home, "~"), ids);
    const outputs = new Map<string, string>();
    for (const command of commands) {
      const code = await run(command, home, cwd);
      const output = read(join(home, "output"));
      outputs.set(command, code === 0 ? output : `${output}\n(exit code ${code})`.trimStart());
    }
    const journal = join(home, "journal.jsonl");
    const folder = join(cwd, ".offline/.transcripts");
    const files = fs.existsSync(folder) ? filesIn(folder) : [];
    return {
      outputs,
      journal: fs.existsSync(journal) ? read(journal) : "",
      transcripts: Object.fromEntries(files.map((file) => [relative(folder, file), read(file)])),
    };
  } finally {
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Runs a command, with its output in a file. Returns the exit code. */
async function run(command: string, home: string, cwd: string): Promise<number> {
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LANG: "C.UTF-8",
    ANTHROPIC_BASE_URL: "http://127.0.0.1:9", // nothing listens there, so no command needs the network
    NODE_OPTIONS: `--import=${join(home, "pid.mjs")}`,
    OFFLINE_JOURNAL: join(home, "journal.jsonl"),
    npm_config_update_notifier: "false",
  };
  const script = `exec >../output 2>&1\n${command}`;
  const child = spawn("bash", ["-c", script], { cwd, env, stdio: "ignore", timeout: TIMEOUT_MS, detached: true });
  const [code] = await once(child, "exit");
  try {
    process.kill(-Number(child.pid), "SIGKILL");
  } catch {} // there is nothing left to kill
  if (code === null) throw new Error(`not finished after ${TIMEOUT_MS / 1_000} s`);
  return code;
}

/** Removes colors and whatever differs from run to run. Tool calls are numbered in order of appearance. */
function stable(output: string, ids: Map<string, string>): string {
  const numbered = (id: string) =>
    ids.get(id) ?? ids.set(id, `toolu_${`${ids.size + 1}`.padStart(2, "0")}`).get(id) ?? id;
  return stripVTControlCharacters(output)
    .replace(/\btoolu_\w{10,}/g, numbered)
    .replace(/("signature":\s*)"[^"]+"/g, '$1"EqQB…"')
    .replace(/(transcript_|"time":)\d{13}/g, "$11763000000000")
    .replace(/[^\S\n]+$/gm, "")
    .trimEnd();
}
