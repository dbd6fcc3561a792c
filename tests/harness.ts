/**
 * What every suite runs on: an empty workspace, which is the current folder from now on, and the strict server. Lessons
 * read both when they are imported, so suites import them afterwards: `const s01 = await import("../agents/…")`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { startServer } from "../offline/server.ts";

export const server = await startServer();
export const folder = realpathSync(mkdtempSync(join(tmpdir(), "lesson-")));
process.chdir(folder);
process.env.ANTHROPIC_BASE_URL = server.url;
process.env.ANTHROPIC_API_KEY = "test-key";
delete process.env.ANTHROPIC_AUTH_TOKEN;

after(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const TSX = import.meta.resolve("tsx");

export type Ended = { code: number | null; stdout: string; stderr: string };

/**
 * Starts a lesson as its own process, as a person does, in the workspace and without a terminal.
 * @param input what is piped in before the end of input; nothing if left out
 */
export function start(lesson: string, args: string[], env: Record<string, string | undefined> = {}, input = "") {
  const file = fileURLToPath(new URL(`../agents/${lesson}.ts`, import.meta.url));
  const child: ChildProcess = spawn(process.execPath, ["--import", TSX, file, ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: "pipe",
  });
  const seen: Ended = { code: null, stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    seen.stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    seen.stderr += text;
  });
  child.stdin?.end(input);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ ...seen, code }));
  });
  return { child, seen, ended };
}

/** Waits until something is so; the suite's own time limit ends a wait in vain. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 10));
}
