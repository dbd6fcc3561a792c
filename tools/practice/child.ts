/**
 * The process with the tests: imports a suite once for each step, with the file of that step for a lesson. The tests then
 * run step by step. What happens is told on a stream of its own, since a lesson prints, too. Also the reporter of these tests.
 */
import { writeSync } from "node:fs";
import { register } from "node:module";
import { basename } from "node:path";
import { beforeEach, test } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { inspect } from "node:util";

/** What is told, line by line. `title`: a test with the groups that it is in. */
export type Event =
  | { event: "begin"; step: string; test: string }
  | { event: "red"; state: "red" | "did not load"; step: string; test: string; title: string; problem: Problem }
  | { event: "pause" } // told every now and then, unless a loop never pauses
  | { event: "end" } // all tests have run
  | { event: "exit"; stack: string };
/** `wanted` and `came` if these are what an assertion compared. */
export type Problem = { message: string; stack: string; wanted?: string; came?: string };

const LOADING = "the file loads"; // as if it were a test
const { PRACTICE = "", PRACTICE_FOLDER } = process.env;
const [suite = "", ...steps] = process.argv.slice(2);
process.env.TMPDIR = PRACTICE_FOLDER; // of the tests alone; what tsx keeps there stays where it was

const hook = `export async function resolve(specifier, context, next) {
  if (specifier === "@anthropic-ai/sdk") return { url: "file://${PRACTICE_FOLDER}/sdk.mjs", shortCircuit: true };
  const found = await next(specifier, context);
  const [, step] = /[?&]step=([\\w.]*)/.exec(context.parentURL) ?? [];
  const file = "file://${PRACTICE_FOLDER}/" + step + "/${basename(PRACTICE)}"; // for each lesson: others are not needed
  return step ? { ...found, url: found.url.replace(/^.*\\/agents\\/\\w+\\.ts/, file) } : found;
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const tell = (event: Event) => void writeSync(3, `${JSON.stringify(event)}\n`); // at once: a test may block the process
const stepIn = (title: string, before: string) => /^step (.*)/.exec(title)?.[1] ?? before;

/** Registers the tests of each step, up to one whose file does not load. */
async function load(): Promise<void> {
  const { checkRejections } = await import("../../tests/harness.ts");
  for (const step of steps) {
    tell({ event: "begin", step, test: LOADING });
    void test(`step ${step}`, () => {});
    process.env.PRACTICE_STEP = step;
    try {
      await import(`${suite}?step=${step}`);
    } catch (error) {
      return void test(LOADING, () => Promise.reject(error));
    }
    void test("the API accepts what is sent", checkRejections);
  }
}

let running = "";
beforeEach(({ name }) => {
  running = stepIn(name, running);
  tell({ event: "begin", step: running, test: name });
});
process.on("exit", () => tell({ event: "exit", stack: `${new Error("exit").stack}` }));
const pulse = setInterval(() => tell({ event: "pause" }), 500);
const loaded = load().finally(() => {
  void test("the end", () => {});
  pulse.unref(); // a test that waits for what never comes is red at once
});
void test("all is loaded", () => loaded);

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []; // of the tests and groups that have started, by their depth
  let step = "";
  for await (const { type, data } of events) {
    if (type === "test:start") {
      names[data.nesting] = data.name;
      step = stepIn(data.name, step);
    }
    if (type === "test:fail" && data.details.type !== "suite") {
      const problem = problemOf(data.details.error);
      const isNew = problem.message.startsWith("write me"); // a function that is called while the file loads
      const state = data.name === LOADING && !isNew ? "did not load" : "red";
      tell({ event: "red", state, step, test: data.name, title: names.slice(0, data.nesting + 1).join(" "), problem });
    }
    if (type === "test:pass" && data.name === "the end") {
      tell({ event: "end" });
      process.exit(); // whatever a test has left running
    }
    yield "";
  }
}

function problemOf(failure: Error): Problem {
  const { message = "", stack = "", operator, actual, expected, generatedMessage } = Object(failure.cause ?? failure);
  const isComparison = ["strictEqual", "deepStrictEqual", "match"].includes(operator);
  if (!isComparison) return { message, stack };
  const [said, ending] = message.split(/\n\n(?=the turn ended with: )/);
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 });
  const lines = [generatedMessage ? "" : said, ending];
  return { message: lines.join("\n"), stack, wanted: show(expected), came: show(actual) };
}
