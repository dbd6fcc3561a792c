/** A line of JSON for each test that has ended, on a stream of its own: a lesson prints, too. */
import { writeSync } from "node:fs";
import type { TestEvent } from "node:test/reporters";
import { inspect } from "node:util";

export type Result = { name: string; ok: boolean; parent: string } & Problem;
type Problem = {
  message: string;
  ending?: string;
  stack: string;
  operator?: string;
  actual?: string;
  expected?: string;
};

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const names: string[] = []; // of the tests and groups that have started, by their depth
  for await (const { type, data } of events) {
    if (type === "test:start") names[data.nesting] = data.name;
    if ((type !== "test:pass" && type !== "test:fail") || data.details.type === "suite") continue;
    if (/^test name does not match/.test(String(data.skip))) continue; // nobody asked for it
    const problem = problemOf(type === "test:fail" ? data.details.error : undefined);
    const parent = names.slice(0, data.nesting).join(" ");
    writeSync(3, `${JSON.stringify({ name: data.name, ok: type === "test:pass", parent, ...problem })}\n`);
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
