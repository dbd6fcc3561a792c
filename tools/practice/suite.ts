/** Runs tests of a lesson's suite, and the compiler, on a reader's file. */
import { execFile, type StdioOptions, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Lesson } from "../docs/lessons.ts";
import type { Result } from "./child.ts";
import { isOpen, type Step, stepsOf } from "./skeleton.ts";

export type State = "green" | "red" | "crashed" | "timed out" | "did not load";
export type Finding = Result & { step: string };
/** What stopped a run comes first. */
export type Run = { state: State; findings: Finding[]; ms: number };
type Options = { signal?: AbortSignal; limit?: number };
const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));
const LOADING = "the file loads";

/** Runs the tests of some steps. What neither ends nor begins one for `limit` milliseconds is stopped. */
export async function runSuite(root: string, file: string, steps: string[], options: Options = {}): Promise<Run> {
  const { signal, limit = 10_000 } = options;
  const began = Date.now();
  const temporary = mkdtempSync(join(tmpdir(), "practice-"));
  chmodSync(temporary, 0o711); // a test of root's runs the agent as another user
  const stem = basename(file, ".ts");
  const pattern = `^(${steps.join("|").replaceAll(".", "\\.")}) \\| (${stem.slice(0, 3)}: |(?!s\\d\\d: ))`;
  const words = ["--import", "tsx", "--import", CHILD, `--test-reporter=${CHILD}`];
  words.push("--test-reporter-destination=stdout", `--test-name-pattern=${pattern}`, `tests/${stem}.test.ts`);
  const settings = { PRACTICE: file, PRACTICE_TMPDIR: temporary, PRACTICE_WAIT: String(limit / 2), NO_COLOR: "1" };
  const env = { ...process.env, ...settings, NODE_TEST_CONTEXT: undefined };
  const output = openSync(join(temporary, "output"), "w");
  const stdio: StdioOptions = ["ignore", output, output, "pipe"];
  const child = spawn(process.execPath, words, { cwd: root, env, stdio, signal, killSignal: "SIGKILL" });
  child.on("error", () => {}); // the signal: "close" follows
  const findings: Finding[] = [];
  let current = LOADING;
  let exit: string | undefined = ""; // the stack of an early exit; undefined when the process has come to its end
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  const wait = (time: number) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isStopped = child.kill("SIGKILL");
    }, time);
  };
  wait(3 * limit); // loading may take longer
  if (!(child.stdio[3] instanceof Readable)) throw new Error("no stream for the results");
  createInterface({ input: child.stdio[3] }).on("line", (line) => {
    const { begins, ends, exits, ...result } = JSON.parse(line);
    if (begins) current = begins;
    else if (ends || exits) exit = exits;
    else findings.push({ ...result, ...nameOf(result.name) });
    wait(limit);
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  const printed = readFileSync(join(temporary, "output"), "utf8");
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  const end = (state: State, message: string, stack = ""): Run => {
    const finding = { ...nameOf(current), ok: false, parent: "", message, stack };
    return { state, findings: [finding, ...findings], ms: Date.now() - began };
  };
  if (isStopped) return end("timed out", "Stopped: nothing came for too long. Is there a loop that never ends?");
  const [, problem = "The process ended before its tests did."] =
    /ERROR: (.*)/.exec(printed) ?? /^(\w*Error.*)/m.exec(printed) ?? [];
  const state = current === LOADING ? "did not load" : "crashed";
  if (exit?.includes("process.exit")) return end(state, "Something called process.exit.", exit);
  if (exit !== undefined) return end(state, problem, printed);
  return { state: findings.every(({ ok }) => ok) ? "green" : "red", findings, ms: Date.now() - began };
}

/** Step and name of a test: "agentLoop | s03: a request starts the count again". What fails outside has a file's name. */
function nameOf(full: string): { step: string; name: string } {
  const [, step = "", name = full] = /^(\S+) \| (?:s\d\d: )?(.*)/s.exec(full) ?? [];
  return { step, name: name.endsWith(".ts") ? "after all tests" : name };
}

/** What the compiler says of a file, if anything. */
export async function typesOf(root: string, file: string, signal?: AbortSignal): Promise<Finding | undefined> {
  const words = ["-p", dirname(file), "--pretty", "false"];
  const output = await new Promise<string>((resolve) => {
    execFile(join(root, "node_modules/.bin/tsc"), words, { cwd: root, signal }, (_, stdout) => resolve(stdout));
  });
  const lines = output.split("\n").filter((line) => line.startsWith(relative(root, file)));
  const message = lines.map((line) => line.replace(/\((\d+),(\d+)\): error TS\d+/, ":$1:$2")).join("\n");
  if (message) return { step: "types", name: "its types are right", ok: false, parent: "", message, stack: message };
}

/** Where a reader is: all steps, the one to work on, and what is wrong. All is done if there is neither. */
export type Progress = { steps: Step[]; done: number; current?: Step; failed?: Finding; run: Run };

/** Runs the tests of the steps up to the first that is not written; when all is green, those of the program. */
export async function check(root: string, lesson: Lesson, file: string, options: Options = {}): Promise<Progress> {
  const steps = stepsOf(lesson);
  const source = readFileSync(file, "utf8");
  const open = steps.findIndex(({ functions }) => functions.some((name) => isOpen(lesson, source, name)));
  const reached = steps.slice(0, open < 0 ? -1 : open + 1).map(({ name }) => name);
  const types = typesOf(root, file, options.signal);
  let run = await runSuite(root, file, reached, options);
  if (open < 0 && run.state === "green") {
    const { state, findings, ms } = await runSuite(root, file, ["program"], options);
    run = { state, findings: [...findings, ...run.findings], ms: run.ms + ms };
  }
  const isStopped = run.state !== "green" && run.state !== "red";
  const wrong = await types;
  if (wrong && !isStopped) run = { ...run, state: "red", findings: [wrong, ...run.findings] };
  const order = ["types", ...steps.map(({ name }) => name), ""];
  const red = run.findings.filter(({ ok }) => !ok);
  const [failed] = isStopped ? red : red.sort((a, b) => order.indexOf(a.step) - order.indexOf(b.step));
  const current = steps.find(({ name }) => name === failed?.step) ?? steps[open];
  const done = current ? steps.indexOf(current) : steps.length;
  return { steps, done: failed && !current ? 0 : done, current, failed, run };
}
