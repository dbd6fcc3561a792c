/** Loaded before a suite: the reader's file takes the place of the lesson, and what happens is told on a stream. */
import { writeSync } from "node:fs";
import { Session } from "node:inspector";
import { register } from "node:module";
import { afterEach, beforeEach } from "node:test";
import { pathToFileURL } from "node:url";

process.env.TMPDIR = process.env.PRACTICE_TMPDIR; // of the tests alone; what tsx keeps there stays where it was
// Other lessons are not needed, so all are that file: it takes half the time.
const own = pathToFileURL(process.env.PRACTICE ?? "").href;
const hook = `export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  return { ...found, url: found.url.replace(/^.*\\/agents\\/\\w+\\.ts/, "${own}") };
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const tell = (event: object) => void writeSync(3, `${JSON.stringify(event)}\n`); // at once: the test may block the process
const profiler = new Session();
profiler.connect();
profiler.post("Profiler.enable");
profiler.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
beforeEach((t) => tell({ begins: t.name }));
afterEach((t) => {
  profiler.post("Profiler.takePreciseCoverage", (_, { result }) => {
    const functions = result.filter(({ url }) => url.startsWith(own)).flatMap((script) => script.functions);
    const reached = functions
      .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
      .map(({ functionName }) => functionName);
    tell({ of: t.name, reached });
  });
});
let isDone = false; // or else something calls process.exit
process.on("beforeExit", () => {
  isDone = true;
});
process.on("exit", () => tell(isDone ? { ends: true } : { exits: new Error("exit").stack }));
