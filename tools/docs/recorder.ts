/** Records what commands print and leave behind, in a form that is the same on every machine. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import pLimit from "p-limit";
import { filesIn } from "../sessions/files.ts";

const TIMEOUT_MS = 600_000; // only a command that hangs takes this long
const SAME_PID = 'if (/\\/agents\\//.test(process.argv[1])) Object.defineProperty(process, "pid", { value: 4711 });';

/** What a command printed, and the texts of the transcripts that it left in the folder out/, by path. */
export type Recorded = { output: string; transcripts: Record<string, string> };

/** Returns a function that runs a command in a copy of the project. Each command runs once, and two at a time. */
export function recorder(root: string): (command: string) => Promise<Recorded> {
  const queue = pLimit(2);
  const seen = new Map<string, Promise<Recorded>>();
  return (command) => {
    const recorded = seen.get(command) ?? queue(() => record(root, command));
    seen.set(command, recorded);
    return recorded;
  };
}

/** @throws if the command doesn't end in time */
async function record(root: string, command: string): Promise<Recorded> {
  // Prompts contain the folder's path and the lesson's pid, so their lengths are fixed: the same prompt has the same tokens.
  const base = fs.realpathSync(tmpdir());
  const home = fs.mkdtempSync(join(base, "docs".padEnd(60 - base.length, "-")));
  const cwd = join(home, "six-lessons");
  try {
    const isCopied = (path: string) => path === root || !/^(node_modules$|\.)/.test(basename(path));
    fs.cpSync(root, cwd, { recursive: true, filter: isCopied });
    fs.symlinkSync(join(root, "node_modules"), join(cwd, "node_modules"));
    fs.writeFileSync(join(home, "pid.mjs"), SAME_PID);
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      LANG: "C.UTF-8",
      ANTHROPIC_BASE_URL: "http://127.0.0.1:9", // nothing listens there, so no command needs the network
      NODE_OPTIONS: `--import=${join(home, "pid.mjs")}`,
      npm_config_update_notifier: "false",
    };
    const script = `exec >../output 2>&1\n${command}`;
    const child = spawn("bash", ["-c", script], { cwd, env, stdio: "ignore", timeout: TIMEOUT_MS, detached: true });
    const [code] = await once(child, "exit");
    try {
      process.kill(-Number(child.pid), "SIGKILL");
    } catch {} // there is nothing left to kill
    if (code === null) throw new Error(`not finished after ${TIMEOUT_MS / 1_000} s`);
    const ids = new Map<string, string>(); // of calls, the same in all files
    const read = (file: string) => stable(fs.readFileSync(file, "utf8").replaceAll(home, "~"), ids);
    const output = read(join(home, "output"));
    const out = join(cwd, "out");
    const files = fs.existsSync(out) ? filesIn(out) : [];
    return {
      output: code === 0 ? output : `${output}\n(exit code ${code})`.trimStart(),
      transcripts: Object.fromEntries(files.map((file) => [relative(out, file), read(file)])),
    };
  } finally {
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Removes colors and whatever differs from run to run. Tool calls are numbered in order of appearance. */
function stable(output: string, ids: Map<string, string>): string {
  const numbered = (id: string) =>
    ids.get(id) ?? ids.set(id, `toolu_${`${ids.size + 1}`.padStart(2, "0")}`).get(id) ?? id;
  return stripVTControlCharacters(output)
    .replace(/\btoolu_\w{10,}/g, numbered)
    .replace(/("signature":\s*)"[^"]+"/g, '$1"EqQB…"')
    .replace(/transcript_\d{13}/g, "transcript_1763000000000")
    .replace(/[^\S\n]+$/gm, "")
    .trimEnd();
}
