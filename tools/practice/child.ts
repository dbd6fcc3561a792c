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
import { type Event, LOADING, type Problem } from "./events.ts";

const { PRACTICE = "", PRACTICE_FOLDER } = process.env;
const [suite = "", ...steps] = process.argv.slice(2);
process.env.TMPDIR = PRACTICE_FOLDER; // of the tests alone; what tsx keeps there stays where it was

const hook = `export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  const [, step] = /[?&]step=([\\w.]*)/.exec(context.parentURL) ?? [];
  const file = "file://${PRACTICE_FOLDER}/" + step + "/${basename(PRACTICE)}"; // for each lesson: others are not needed
  return step ? { ...found, url: found.url.replace(/^.*\\/agents\\/\\w+\\.ts/, file) } : found;
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const tell = (event: Event) => void writeSync(3, `${JSON.stringify(event)}\n`); // at once: a test may block the process
let running = "";
/** Registers the tests of each step, up to one whose file does not load. */
async function load(): Promise<void> {
  const { checkRejections } = await import("../../tests/harness.ts");
  for (const step of steps) {
    tell({ event: "begin", step, test: LOADING });
    void test(`step ${step}`, () => {});
    process.env.PRACTICE_STEP = step;
    const failed = await import(`${suite}?step=${step}`).then(
      () => undefined,
      (error) => ({ error }),
    );
    if (failed) return void test(LOADING, () => Promise.reject(failed.error));
    void test("the API accepts what is sent", checkRejections);
  }
}

const stepIn = (title: string, before: string) => /^step (.*)/.exec(title)?.[1] ?? before;
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
      const title = [...names.slice(0, data.nesting), data.name].join(" ");
      tell({ event: "red", step, test: data.name, title, problem: problemOf(data.details.error) });
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
  const [wanted, came] = [expected, actual].map((value) =>
    inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 }),
  );
  return { message: [generatedMessage ? "" : said, ending].join("\n"), stack, wanted, came };
}
