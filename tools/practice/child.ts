/**
 * The process in which the tests of a step run, on the file of that step. It tells its parent what happens, since a lesson
 * prints, too. Also the reporter of these tests.
 */
import { beforeEach, test } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { inspect } from "node:util";

/** `title`: a test with the groups that it is in. `isExit`: something called process.exit. */
export type Event =
  | { event: "begin"; test: string }
  | { event: "red"; isExit: boolean; test: string; title: string; problem: Problem }
  | { event: "loaded" | "pause" | "end" }; // a pause is told every now and then, unless a loop never pauses
/** `wanted` and `came` if these are what an assertion compared. */
export type Problem = { message: string; stack: string; wanted?: string; came?: string };

const tell = (event: Event) => process.send?.(event);
const timeout = Number(process.env.PRACTICE_PATIENCE);
let running = "";
beforeEach(({ name }) => {
  running = name;
  tell({ event: "begin", test: name });
});
const onExit = () => {
  const problem = { message: "Something called process.exit.", stack: `${new Error("exit").stack}` };
  tell({ event: "red", isExit: true, test: running, title: running, problem });
};
process.on("exit", onExit);
const pulse = setInterval(() => tell({ event: "pause" }), 500);
const loaded = load().finally(() => pulse.unref()); // a test that waits for what never comes is red at once
void test("the file loads", { timeout }, () => loaded);

async function load(): Promise<void> {
  const { checkRejections } = await import("../../tests/harness.ts");
  await import(`${import.meta.dirname}/tests/suite.js`);
  tell({ event: "loaded" });
  void test("the API accepts what is sent", checkRejections);
  void test("the end", () => {});
}

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []; // of the tests and groups that have started, by their depth
  for await (const { type, data } of events) {
    if (type === "test:start") names[data.nesting] = data.name;
    if (type === "test:fail" && data.details.type !== "suite") {
      const title = names.slice(0, data.nesting + 1).join(" ");
      tell({ event: "red", isExit: false, test: data.name, title, problem: problemOf(data.details.error) });
    }
    if (type === "test:pass" && data.name === "the end") {
      tell({ event: "end" });
      process.off("exit", onExit);
      process.exit(); // whatever a test has left running
    }
    yield "";
  }
}

function problemOf(failure: Error): Problem {
  const error = failure.cause instanceof Error ? failure.cause : failure; // of a test that took too long the cause is a text
  const { message = "", stack = "", operator, actual, expected, generatedMessage } = Object(error);
  const isComparison = ["strictEqual", "deepStrictEqual", "match"].includes(operator);
  if (!isComparison) return { message, stack };
  const [said, ending] = message.split(/\n\n(?=the turn ended with: |a result says: )/);
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 });
  const lines = [generatedMessage ? "" : said, ending];
  return { message: lines.join("\n"), stack, wanted: show(expected), came: show(actual) };
}
