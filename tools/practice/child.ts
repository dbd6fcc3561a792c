/**
 * Loaded before a suite, and its reporter: the reader's file takes the place of the lesson, and what happens is told line
 * by line on a stream of its own, since a lesson prints, too.
 */
import { writeSync } from "node:fs";
import { Session } from "node:inspector";
import { register } from "node:module";
import { afterEach, beforeEach } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";

/** `reached` are the functions of the reader's file that were called. */
export type Result = { name: string; ok: boolean; parent: string; reached?: string[] } & Problem;
type Problem = {
  message: string;
  ending?: string;
  stack: string;
  operator?: string;
  actual?: string;
  expected?: string;
};

process.env.TMPDIR = process.env.PRACTICE_TMPDIR; // of the tests alone; what tsx keeps there stays where it was
// Other lessons are not needed, so all are that file: it takes half the time.
const own = pathToFileURL(process.env.PRACTICE ?? "").href;
const hook = `export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  return { ...found, url: found.url.replace(/^.*\\/agents\\/\\w+\\.ts/, "${own}") };
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const tell = (event: object) => void writeSync(3, `${JSON.stringify(event)}\n`); // at once: the test may block the process
const reached = new Map<string, string[]>(); // by each test
const profiler = new Session();
profiler.connect();
profiler.post("Profiler.enable");
profiler.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
beforeEach((t) => tell({ begins: t.name }));
afterEach((t) => {
  profiler.post("Profiler.takePreciseCoverage", (_, { result }) => {
    const functions = result.filter(({ url }) => url.startsWith(own)).flatMap((script) => script.functions);
    const called = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
    reached.set(
      t.name,
      called.map(({ functionName }) => functionName),
    );
  });
});
let isDone = false; // or else something calls process.exit
process.on("beforeExit", () => {
  isDone = true;
});
process.on("exit", () => tell(isDone ? { ends: true } : { exits: new Error("exit").stack }));

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []; // of the tests and groups that have started, by their depth
  for await (const { type, data } of events) {
    if (type === "test:start") names[data.nesting] = data.name;
    if ((type !== "test:pass" && type !== "test:fail") || data.details.type === "suite") continue;
    if (/^test name does not match/.test(String(data.skip))) continue; // nobody asked for it
    const problem = problemOf(type === "test:fail" ? data.details.error : undefined);
    const parent = names.slice(0, data.nesting).join(" ");
    tell({ name: data.name, ok: type === "test:pass", parent, reached: reached.get(data.name), ...problem });
    yield "";
  }
}

function problemOf(failure?: Error): Problem {
  const { message = "", stack = "", operator, actual, expected, generatedMessage } = Object(failure?.cause ?? failure);
  const [what, ending] = message.split("\n\nthe turn ended with: ");
  if (!operator || operator === "fail") return { message: what, ending, stack };
  const said = generatedMessage ? "" : what.split("\n", 1).join();
  if (operator === "==") return { message: said, ending, stack }; // its line in the suite says what was wanted
  const show = (value: unknown) =>
    value instanceof Error ? String(value) : inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 });
  const found = operator === "doesNotMatch" ? String(actual).match(expected)?.[0] : actual;
  return { message: said, ending, stack, operator, actual: show(found), expected: show(expected) };
}
