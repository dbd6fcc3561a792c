/** A line of JSON for each test that has ended, and one for the end, on a stream of its own: a lesson prints, too. */
import { writeSync } from "node:fs";
import type { TestEvent } from "node:test/reporters";
import { inspect } from "node:util";

export type Result = { name: string; ok: boolean; parent: string } & Problem;
type Problem = { message: string; stack: string; actual?: string; expected?: string };

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
  writeSync(3, `${JSON.stringify({ ends: true })}\n`);
}

function problemOf(failure?: Error): Problem {
  const { message = "", stack = "", operator, actual, expected } = Object(failure?.cause ?? failure);
  if (!/equal|match/i.test(operator)) return { message, stack };
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 120, maxStringLength: 1_000 });
  return { message, stack, actual: show(actual), expected: show(expected) };
}
