/** Output of commands as a person sees it, the same on every machine. */
import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import pLimit from "p-limit";

const COPIED = ["agents", "offline", "skills", "docs", "bench", "tests", "package.json", "tsconfig.json", "README.md"];
const LIMIT = 120_000; // ms
const WIDTH = 160; // characters
const SAME_PID = 'if (/\\/agents\\//.test(process.argv[1])) Object.defineProperty(process, "pid", { value: 4711 });';

/** Makes a function that runs a command with `bash -c` in a copy of the project, once each, two at a time. */
export function recorder(root: string): (command: string) => Promise<string> {
  const limit = pLimit(2);
  const seen = new Map<string, Promise<string>>();
  return (command) => {
    const output = seen.get(command) ?? limit(() => record(root, command));
    seen.set(command, output);
    return output;
  };
}

/** @throws when the command does not end in time */
async function record(root: string, command: string): Promise<string> {
  // Prompts hold the folder's path and the lesson's pid. Both are as long in every run, or prompts would differ in tokens.
  const base = realpathSync(tmpdir());
  const home = mkdtempSync(join(base, "docs".padEnd(60 - base.length, "-")));
  try {
    const folder = join(home, "six-layers");
    mkdirSync(folder);
    const filter = (file: string) => !file.endsWith("node_modules");
    for (const name of COPIED.filter((name) => existsSync(join(root, name))))
      cpSync(join(root, name), join(folder, name), { recursive: true, filter });
    if (existsSync(join(root, "node_modules"))) symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    writeFileSync(join(home, "pid.mjs"), SAME_PID);
    const code = await run(command, folder, home);
    const output = stable(readFileSync(join(home, "output"), "utf8"), home);
    return output + (code === 0 ? "" : `${output && "\n"}(exit code ${code})`);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function run(command: string, cwd: string, home: string): Promise<number | null> {
  const both = openSync(join(home, "output"), "a"); // one file for both streams keeps their order
  const path = (process.env.PATH ?? "").split(":").filter((folder) => !folder.includes("node_modules"));
  const child = spawn("bash", ["-c", command], {
    cwd,
    // No key, and an address that leads nowhere: what a page shows needs no network.
    env: {
      PATH: path.join(":"),
      HOME: home,
      LANG: "C.UTF-8",
      TZ: "UTC",
      ANTHROPIC_BASE_URL: "http://127.0.0.1:9",
      NODE_OPTIONS: `--import=${join(home, "pid.mjs")}`,
      npm_config_offline: "true",
      npm_config_update_notifier: "false",
    },
    detached: true,
    stdio: ["ignore", both, both],
  });
  const end = () => {
    try {
      if (child.pid) process.kill(-child.pid, "SIGKILL");
    } catch {} // nobody is left in the group
  };
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      end();
      reject(new Error(`it did not end within ${LIMIT / 1000} s`));
    }, LIMIT);
    child.on("error", reject);
    child.on("exit", (code) => {
      clearTimeout(timer);
      end();
      resolve(code);
    });
  });
}

/** Replaces what differs from run to run and from machine to machine. */
function stable(output: string, home: string): string {
  return stripVTControlCharacters(output)
    .replaceAll(home, "~")
    .replaceAll(process.versions.node, "20.12.0")
    .replace(/\b(toolu|msg|req)_\w{10,}/g, "$1_01")
    .replace(/transcript_\d{13}/g, "transcript_1763000000000")
    .replace(/\b[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b/g, "00000000-0000-4000-8000-000000000000")
    .replace(/\b127\.0\.0\.1:\d+/g, "127.0.0.1:8080")
    .replace(/\(\d+(\.\d+)?ms\)/g, "(1ms)")
    .replace(/\b(duration_ms:?) [\d.]+/g, "$1 1")
    .trimEnd()
    .split(/[^\S\n]*\n/)
    .map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH - 1)}…` : line))
    .join("\n");
}
