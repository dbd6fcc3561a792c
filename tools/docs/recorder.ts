/** Records what commands print, in a form that is the same on every machine. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import pLimit from "p-limit";

const TIMEOUT_MS = 600_000; // only a command that hangs takes this long
const SAME_PID = 'if (/\\/agents\\//.test(process.argv[1])) Object.defineProperty(process, "pid", { value: 4711 });';

/** Returns a function that runs a command in a copy of the project. Each command runs once, and two at a time. */
export function recorder(root: string): (command: string) => Promise<string> {
  const queue = pLimit(2);
  const seen = new Map<string, Promise<string>>();
  return (command) => {
    const output = seen.get(command) ?? queue(() => record(root, command));
    seen.set(command, output);
    return output;
  };
}

/** @throws if the command doesn't end in time */
async function record(root: string, command: string): Promise<string> {
  // Prompts contain the folder's path and the lesson's pid, so their lengths are fixed: the same prompt has the same tokens.
  const base = realpathSync(tmpdir());
  const home = mkdtempSync(join(base, "docs".padEnd(60 - base.length, "-")));
  const cwd = join(home, "six-lessons");
  try {
    const isCopied = (path: string) => path === root || !/^(node_modules$|\.)/.test(basename(path));
    cpSync(root, cwd, { recursive: true, filter: isCopied });
    symlinkSync(join(root, "node_modules"), join(cwd, "node_modules"));
    writeFileSync(join(home, "pid.mjs"), SAME_PID);
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
    const output = stable(readFileSync(join(home, "output"), "utf8").replaceAll(home, "~"));
    return code === 0 ? output : `${output}\n(exit code ${code})`.trimStart();
  } finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Removes colors and whatever differs from run to run. */
function stable(output: string): string {
  const ids = new Map<string, string>(); // tool calls are numbered in order of appearance
  const numbered = (id: string) =>
    ids.get(id) ?? ids.set(id, `toolu_${`${ids.size + 1}`.padStart(2, "0")}`).get(id) ?? id;
  return stripVTControlCharacters(output)
    .replace(/\btoolu_\w{10,}/g, numbered)
    .replace(/("signature":\s*)"[^"]+"/g, '$1"EqQB…"')
    .replace(/transcript_\d{13}/g, "transcript_1763000000000")
    .replace(/[^\S\n]+$/gm, "")
    .trimEnd();
}
