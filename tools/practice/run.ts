/** Runs tests on a reader's file in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
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
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Lesson } from "../docs/lessons.ts";
import { type Event, LOADING, type Problem } from "./events.ts";
import { type Code, type Mixed, mix, stepsOf } from "./skeleton.ts";

/** `given` is the lesson. In `patience` milliseconds the next test has to begin. */
export type Job = { root: string; lesson: Lesson; own: Code; given: Code; patience: number; signal?: AbortSignal };
export type State = "red" | "crashed" | "endless" | "timed out" | "did not load";
/** The first test that is red, or that was running when the process ended. */
export type Failure = { state: State; step: string; test: string; title?: string; problem: Problem };
const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));

/** Runs the tests of steps, or one of them, until one is red. A step's file has the lesson's own version of the other steps. */
export async function run(job: Job, steps: string[], test?: string): Promise<Failure | undefined> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "practice-")));
  chmodSync(folder, 0o711); // a test of root's runs the agent as another user
  symlinkSync(join(job.root, "node_modules"), join(folder, "node_modules"));
  const mixed = new Map(steps.map((step) => [step, mixFor(job, step)]));
  for (const [step, { text }] of mixed) {
    mkdirSync(join(folder, step));
    writeFileSync(join(folder, step, basename(job.lesson.file)), text);
  }
  const ended = await watch(start(job, folder, steps, test), job.patience);
  const failure = judge(ended, readFileSync(join(folder, "output"), "utf8"));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // a command that still waits for a file there ends
  return failure && { ...failure, problem: inReadersLines(failure.problem, folder, mixed) };
}

/** The file of a step. That of "all" is the reader's as it is. */
function mixFor({ lesson, own, given }: Job, step: string): Mixed {
  const others = stepsOf(lesson).filter(({ name }) => step !== "all" && name !== step);
  return mix(
    own,
    given,
    others.flatMap(({ functions }) => functions),
  );
}

function start({ root, lesson, patience, signal }: Job, folder: string, steps: string[], test?: string): ChildProcess {
  const name = basename(lesson.file);
  const words = ["--import", "tsx", `--test-reporter=${CHILD}`, "--test-reporter-destination=stdout", CHILD];
  const suite = join(root, "tests", name.replace(/ts$/, "test.ts"));
  const practice = { PRACTICE: join(folder, `${steps[0]}`, name), PRACTICE_FOLDER: folder, PRACTICE_TEST: test };
  const env = {
    ...process.env,
    ...practice,
    PRACTICE_WAIT: `${patience / 2}`,
    NODE_TEST_CONTEXT: undefined,
    NO_COLOR: "1",
  };
  const output = openSync(join(folder, "output"), "w");
  const options = { cwd: root, env, signal, killSignal: "SIGKILL" } as const;
  const child = spawn(process.execPath, [...words, suite, ...steps], {
    ...options,
    stdio: ["ignore", output, output, "pipe"],
  });
  return child.on("error", () => {}); // the signal: "close" follows
}

type Ended = { events: Event[]; stopped?: "endless" | "timed out" };

/** Waits until a process ends, and ends it if no test begins for too long. */
async function watch(child: ChildProcess, patience: number): Promise<Ended> {
  const ended: Ended = { events: [] };
  let lastPause = Date.now();
  const timer = setTimeout(() => {
    const isBusy = Date.now() - lastPause > patience / 2; // with a loop that never pauses
    if (child.kill("SIGKILL")) ended.stopped = isBusy ? "endless" : "timed out";
  }, patience);
  if (!(child.stdio[3] instanceof Readable)) throw new Error("no stream for the events");
  createInterface({ input: child.stdio[3] }).on("line", (line) => {
    const event: Event = JSON.parse(line);
    lastPause = Date.now();
    if (event.event === "pause") return;
    ended.events.push(event);
    timer.refresh();
  });
  await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  return ended;
}

/** The failure, if there is one. */
function judge({ events, stopped }: Ended, printed: string): Failure | undefined {
  const red = events.find((event) => event.event === "red");
  const isNew = red?.problem.message.startsWith("write me"); // a function that is called while the file loads
  if (red) return { ...red, state: red.test === LOADING && !isNew ? "did not load" : "red" };
  if (events.some(({ event }) => event === "end")) return;
  const { step, test } = events.findLast((event) => event.event === "begin") ?? { step: "", test: LOADING };
  const fail = (state: State, message: string, stack = "") => ({ state, step, test, problem: { message, stack } });
  if (stopped === "endless")
    return fail(stopped, "Stopped: it was busy all the time. Is there a loop that never ends?");
  if (stopped)
    return fail(
      stopped,
      "Stopped: it took too long, twice. Does it wait for what never comes, or is the machine busy?",
    );
  const state = test === LOADING ? "did not load" : "crashed";
  const exit = events.find((event) => event.event === "exit");
  if (exit) return fail(state, "Something called process.exit.", exit.stack);
  const [problem = "The process ended before its tests did."] = /^\w*Error.*/m.exec(printed) ?? [];
  return fail(state, problem, printed);
}

/** Names the lines of the reader's file instead of those of the file that ran. */
function inReadersLines({ message, stack, ...rest }: Problem, folder: string, mixed: Map<string, Mixed>): Problem {
  const place = new RegExp(`(?:file://)?${folder}/([\\w.]+)/(\\w+\\.ts)(?:\\?[\\w=&]*)?:(\\d+)`, "g");
  const [inMessage = "", inStack = ""] = [message, stack].map((text) =>
    text.replace(place, (_, step, name, line) => {
      const own = mixed.get(step)?.lines[line - 1];
      return own ? `practice/${name}:${own}` : `agents/${name}`;
    }),
  );
  return { message: inMessage, stack: inStack, ...rest };
}
