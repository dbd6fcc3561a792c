/** The process that runs the tests of a step on a reader's file. This is also its reporter, which tells the parent how it's going. */
import { beforeEach, test } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { format, inspect } from "node:util";
import { finalChecks, patience } from "./runner.ts";

export type State = "did not load" | "crashed" | "red" | "timed out" | "green";
export type Status = {
  state: State; // the verdict if the process ended now
  test: string; // the test that failed, or else the one that is running
  problem?: Problem;
  isLate?: boolean; // whether it took too long, which may be the machine's fault
};
export type Problem = {
  message: string;
  stack: string;
  wanted?: string; // what an assertion wanted
  came?: string; // what it got
  printed?: string; // what the test printed with console.log
};

Error.stackTraceLimit = 50; // a stack should reach down to the test
const status: Status = { state: "did not load", test: "the file loads" };
function tell(news: Partial<Status> = {}): void {
  if (!status.problem && status.state !== "green") process.send?.(Object.assign(status, news));
}
const heartbeat = setInterval(tell, 500); // stops if a loop blocks the process
beforeEach(({ name }) => tell({ test: name }));
process.on("exit", () => {
  tell({ problem: { message: "Something called process.exit.", stack: `${new Error("exit").stack}` } });
});
const printed: Record<string, string> = {}; // in each test
console.log = (...values) => {
  console.info(...values); // a test may look for it
  printed[status.test] = `${printed[status.test] ?? ""}${format(...values)}\n`;
};
const loaded = load().finally(() => heartbeat.unref()); // outside the test, or its tests would be subtests
void test("the file loads", { timeout: patience }, () => loaded);

async function load(): Promise<void> {
  await import(`${import.meta.dirname}/suite.mjs`);
  tell({ state: "crashed" });
  for (const check of finalChecks) void test("the API accepts what is sent", check);
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
  const error = failure.cause instanceof Error ? failure.cause : failure; // after a timeout the cause is a text
  const { message = "", stack = "", operator, actual, expected, generatedMessage } = Object(error);
  const problem = { message, stack, printed: printed[test] };
  if (/^(waited in vain|test timed out)/.test(message)) {
    problem.message += "\nDoes it wait for what never comes, or try without end? Or is the machine busy?";
    return { state: "timed out", test, isLate: true, problem };
  }
  const isUnwritten = message.startsWith("write me"); // by a function that runs while the file loads
  const state = status.state === "did not load" && !isUnwritten ? "did not load" : "red";
  if (!["strictEqual", "deepStrictEqual", "match"].includes(operator)) return { state, test, problem };
  const [ending = ""] = /\n\n(the turn ended with: |a result says: ).*/s.exec(message) ?? [];
  problem.message = `${generatedMessage ? "" : message.split("\n")[0]}${ending}`; // without Node's own comparison
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 120, maxStringLength: 20_000 });
  return { state, test, problem: { ...problem, wanted: show(expected), came: show(actual) } };
}
