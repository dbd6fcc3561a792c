/**
 * Loaded into a suite that runs on its own, as a preload and as its reporter: writes down how each test ended, ends the
 * run at the first failure if MUTANTS_STOP is on, and lets the lesson know which tests are running (several may run side by side).
 */
import { appendFileSync } from "node:fs";
import { afterEach, beforeEach } from "node:test";
import type { TestEvent } from "node:test/reporters";

const running = new Set<string>();
const tell = () => {
  process.env.MUTANTS_RUNNING = JSON.stringify([...running]);
};
beforeEach((t) => {
  if ("name" in t) running.add(t.name);
  tell();
});
afterEach((t) => {
  if ("name" in t) running.delete(t.name);
  tell();
});
tell();

export default async function* report(events: AsyncIterable<TestEvent>) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const { name, details } = data;
    const ended = { name, ms: details.duration_ms, isSuite: details.type === "suite", failed: type === "test:fail" };
    appendFileSync(process.env.MUTANTS_REPORT ?? "", `${JSON.stringify(ended)}\n`);
    if (ended.failed && process.env.MUTANTS_STOP === "on") process.exit(1);
    yield "";
  }
}
