/** Starts lessons as programs. */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));
export const LESSONS = readdirSync(join(ROOT, "agents")).sort();

/**
 * The file of a lesson such as `s03`, of a reader's version such as `practice/s03_todo_write.ts`, or of the `smallest` agent.
 * @throws if there is no such lesson
 */
export function lessonFile(name: string): string {
  const isPractice = /^practice\/s\d\d_\w+\.ts$/.test(name) && existsSync(join(ROOT, name));
  if (isPractice) return join(ROOT, name);
  if (name === "smallest") return join(ROOT, "docs/smallest.ts");
  const file = LESSONS.find((lesson) => /^s\d+$/.test(name) && lesson.startsWith(`${name}_`));
  if (!file)
    throw new Error(`there is no lesson ${name}; there are ${LESSONS.map((each) => each.slice(0, 3)).join(", ")}`);
  return join(ROOT, "agents", file);
}

/** Flags that let this version of Node run TypeScript. */
export const TSX = ["--import", import.meta.resolve("tsx")];
/** The lessons' settings at their defaults. An empty variable also hides a line of .env. */
export const DEFAULTS = { MODEL_ID: "", CONTEXT_WINDOW: "", COMPACT_THRESHOLD: "", THINKING: "" };
/** Where the SDK finds the user's credentials. */
export const CREDENTIALS = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"];
/** The credentials for a server on this machine. */
export const OFFLINE = { ANTHROPIC_API_KEY: "offline", ANTHROPIC_AUTH_TOKEN: "" };

export type Start = SpawnOptions & {
  /** A server on this machine; without one, the lesson takes its server and credentials from `env`. */
  url?: string;
  /** What runs the lesson: a program and its flags. */
  runtime?: string[];
};

export function startLesson(file: string, args: string[], { url, runtime, env = process.env, ...options }: Start) {
  const [program = "", ...flags] = runtime ?? [process.execPath, ...TSX];
  const server = url && { ...OFFLINE, ANTHROPIC_BASE_URL: url };
  return spawn(program, [...flags, file, ...args], { ...options, env: { ...env, ...server } });
}

/** Runs a lesson in the foreground, and passes on the signals that this process gets. Returns the exit code. */
export function runLesson(file: string, args: string[], start: Start): Promise<number> {
  const child: ChildProcess = startLesson(file, args, { stdio: "inherit", ...start });
  process.on("exit", () => child.kill());
  process.on("SIGINT", () => {}); // Ctrl-C also reaches the lesson, which decides what it means
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, killer) => resolve(code ?? 128 + (killer ? constants.signals[killer] : 0)));
  });
}
