/** The process in which the tests of a step run, on the file of that step, and their reporter. It tells its parent how it stands. */
import { beforeEach, test } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { format, inspect } from "node:util";

export type State = "did not load" | "crashed" | "red" | "timed out" | "green";
/** `state`: what it is if the process ends now. `test`: that fails or runs. `isLate`: another time it may be green. */
export type Status = { state: State; test: string; problem?: Problem; isLate?: boolean };
/** `wanted` and `came` if these are what an assertion compared. `printed`: by console.log. */
export type Problem = { message: string; stack: string; wanted?: string; came?: string; printed?: string };

Error.stackTraceLimit = 50; // a stack should reach down to the test
const status: Status = { state: "did not load", test: "the file loads" };
function tell(news: Partial<Status> = {}): void {
  if (!status.problem && status.state !== "green") process.send?.(Object.assign(status, news));
}
const pulse = setInterval(tell, 500); // unless a loop never pauses
beforeEach(({ name }) => tell({ test: name }));
process.on("exit", () => {
  tell({ problem: { message: "Something called process.exit.", stack: `${new Error("exit").stack}` } });
});
const printed: Record<string, string> = {}; // in each test
console.log = (...values) => {
  console.info(...values); // a test may look for it
  printed[status.test] = `${printed[status.test] ?? ""}${format(...values)}\n`;
};
const loaded = load().finally(() => pulse.unref()); // not in the test, or the suite's tests were its parts
void test("the file loads", { timeout: Number(process.env.PRACTICE_PATIENCE) }, () => loaded);

async function load(): Promise<void> {
  const { checkRejections } = await import("../../tests/harness.ts");
  await import(`${import.meta.dirname}/suite.mjs`);
  tell({ state: "crashed" });
  void test("the API accepts what is sent", checkRejections);
  void test("the end", () => {});
}

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type === "test:fail" && data.details.type !== "suite") tell(judge(data.name, data.details.error));
    if (type === "test:pass" && data.name === "the end") {
      tell({ state: "green" });
      process.exit(); // whatever a test has left running
    }
    yield "";
  }
}

function judge(test: string, failure: Error): Status {
  const error = failure.cause instanceof Error ? failure.cause : failure; // of a test that took too long the cause is a text
  const { message = "", stack = "", operator, actual, expected, generatedMessage } = Object(error);
  const problem = { message, stack, printed: printed[test] };
  if (/^(waited in vain|test timed out)/.test(message)) {
    problem.message += "\nDoes it wait for what never comes, or try without end? Or is the machine busy?";
    return { state: "timed out", test, isLate: true, problem };
  }
  const isOpen = message.startsWith("write me"); // a function that is called while the file loads
  const state = status.state === "did not load" && !isOpen ? "did not load" : "red";
  if (!["strictEqual", "deepStrictEqual", "match"].includes(operator)) return { state, test, problem };
  const [ending = ""] = /\n\n(the turn ended with: |a result says: ).*/s.exec(message) ?? [];
  problem.message = `${generatedMessage ? "" : message.split("\n")[0]}${ending}`; // what it leaves out compares the two
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 });
  return { state, test, problem: { ...problem, wanted: show(expected), came: show(actual) } };
}
