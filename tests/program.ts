/** Runs a lesson as a program, in a terminal if need be, and waits for facts about processes. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Failure, Reply } from "../offline/api/server.ts";
import { newServer } from "./server.ts";
import { type Files, writeFiles } from "./workspace.ts";

// --- waiting ---------------------------------------------------------------------------------------------------------

/** Waits until something is true and all earlier output has been read. Throws if that takes suspiciously long. */
export async function until(isSo: () => boolean): Promise<void> {
  const end = Date.now() + 300_000;
  while (!isSo()) {
    assert.ok(Date.now() < end, `waited in vain: ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await new Promise((resolve) => setImmediate(resolve));
}

/** Whether a process exists and isn't a zombie. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc") || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** A command that runs until the file `go` appears or the workspace is emptied. */
export const WAIT = "echo begun; touch begun; until [ -e go ] || [ ! -e begun ]; do sleep 0.02; done";

/** Returns a signal that's aborted, as by Ctrl-C, once WAIT runs in the current folder. */
export function interruptWait(): AbortSignal {
  const stop = new AbortController();
  until(() => existsSync("begun")).then(() => stop.abort(new Error("interrupted")));
  return stop.signal;
}

// --- programs --------------------------------------------------------------------------------------------------------

/** Makes a folder beside the workspace, which is removed with it. */
const folderBeside = (name: string) => mkdtempSync(join(process.cwd(), `../${name}-`));

const programs = new Map<string, Promise<string>>();
/** Bundles a lesson into `<folder>/agents/<lesson>.mjs`, so that the .env it loads is `<folder>/.env`. */
async function programOf(lesson: string, dotEnv: string | undefined): Promise<string> {
  const above = folderBeside("bundle");
  const outfile = join(above, "agents", `${lesson}.mjs`);
  const source = fileURLToPath(import.meta.resolve(`../agents/${lesson}.ts`)); // in practice, the reader's
  if (dotEnv !== undefined) writeFiles(above, { ".env": dotEnv });
  await build({
    entryPoints: [source],
    outfile,
    bundle: true, // with its packages, so it starts six times as fast as under tsx
    minifyWhitespace: true,
    platform: "node",
    format: "esm",
    target: "es2024",
    logLevel: "silent", // esbuild throws the errors as well
    banner: {
      js: 'import { createRequire as $makeRequire } from "node:module"; const require = $makeRequire(import.meta.url);',
    },
  });
  return outfile;
}

/** Why tests that need a terminal are skipped, or false. The terminal is `script` from util-linux. */
export const noTerminal: string | false =
  process.platform === "linux" && existsSync("/usr/bin/script") ? false : "needs script from util-linux";

type Setting = {
  replies?: Reply[];
  failures?: Failure[];
  input?: string;
  env?: NodeJS.ProcessEnv;
  /** Files in the workspace. */
  files?: Files;
  /** The .env in the folder above the lesson. Without it, there is none. */
  dotEnv?: string;
  terminal?: boolean;
  /** Makes a shell line of the command, such as `${agent} | head -1`. It runs with `pipefail`. */
  shell?: (agent: string) => string;
};

/** The program to start, and its arguments. */
function commandFor(agent: string[], { terminal, shell }: Setting): [string, string[]] {
  const quoted = agent.map((word) => `'${word}'`).join(" ");
  const line = shell?.(quoted) ?? quoted;
  if (terminal) return ["/usr/bin/script", ["-qec", line, "/dev/null"]];
  const [name = "", ...words] = agent;
  return shell ? ["bash", ["--norc", "-c", `set -o pipefail; ${line}`]] : [name, words];
}

/** Starts a lesson as a process with its own folder and server. Without `input`, stdin stays open. */
export async function start(t: TestContext, lesson: string, args: string[] = [], setting: Setting = {}) {
  const { replies = [], failures = [], input, env, files = {}, dotEnv } = setting;
  const cwd = folderBeside("program");
  writeFiles(cwd, files);
  const own = await newServer(...replies);
  own.fail(...failures);
  const program = programs.get(`${lesson} ${dotEnv}`) ?? programOf(lesson, dotEnv);
  programs.set(`${lesson} ${dotEnv}`, program); // the promise, since another test may need it before it's done
  const [name, words] = commandFor([process.execPath, await program, ...args], setting);
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([, value]) => value));
  const colors = { TERM: "xterm", NO_COLOR: undefined, CI: undefined }; // or Node might print no colors
  const plain = { SHELL: "/bin/sh", BASH_ENV: undefined }; // not what the developer's own shell sets up
  const variables = { ...inherited, ANTHROPIC_BASE_URL: own.url, ...colors, ...plain, ...env };
  const child = spawn(name, words, { cwd, env: variables });
  let screen = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      screen += text;
    });
  }
  if (input !== undefined) child.stdin.end(input);
  let isOver = false;
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  ended.then(() => {
    isOver = true;
  });
  t.after(() => {
    child.kill("SIGKILL");
    rmSync(cwd, { recursive: true, force: true });
  });
  let seen = 0;
  /** Waits until this appears on the screen, after what the last call waited for. */
  const waitFor = async (what: string | RegExp) => {
    const find = () => {
      const [found = ""] = typeof what === "string" ? [what] : (what.exec(screen.slice(seen)) ?? []);
      const at = found === "" ? -1 : screen.indexOf(found, seen);
      return at < 0 ? undefined : at + found.length;
    };
    await until(() => find() !== undefined || isOver);
    seen = find() ?? assert.fail(`${what} did not appear:\n${screen}`);
  };
  const type = (keys: string) => child.stdin.write(keys);
  /** Types this once that appears on the screen. */
  const typeAt = async (what: string | RegExp, keys: string) => {
    await waitFor(what);
    type(keys);
  };
  return { child, cwd, journal: own.journal, ended, screen: () => screen, waitFor, type, typeAt };
}

/** Starts a server that gives every request this answer, as a proxy may. Returns its URL. */
export async function startProxy(t: TestContext, status: number, type: string, body: string): Promise<string> {
  const proxy = createServer((_request, response) => {
    response.writeHead(status, { "content-type": type, "x-should-retry": "false" }).end(body);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  const address = proxy.address();
  return typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "";
}
