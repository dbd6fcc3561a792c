// A reporter for node:test. It prints a line for each suite when it has ended, each failure when it happens, and in the end the names
// of the failed tests, the time and the counts. It's plain JavaScript because Node 20 loads reporters before tsx.

import { relative } from "node:path";
import { fileURLToPath } from "node:url";

/** Turns the events of a run into text. The last line is `N passed, N failed`, and `, N skipped` if any were. */
export default async function* report(events) {
  const start = Date.now();
  const run = { suite: "", path: [], stderr: {}, passed: 0, skipped: 0, failed: [] };
  for await (const { type, data } of events) yield HANDLERS[type]?.(data, run) ?? "";
  if (run.failed.length > 0) yield `\nFailed:\n${run.failed.map((title) => `✖ ${title}\n`).join("")}`;
  yield `${secondsIn(Date.now() - start)}  in all\n`;
  yield `${run.passed} passed, ${run.failed.length} failed${run.skipped > 0 ? `, ${run.skipped} skipped` : ""}\n`;
}

/** What to do with an event. Some return a text to print. The events of tests come in the order of their suites. */
const HANDLERS = {
  "test:stderr": ({ file, message }, { stderr }) => {
    stderr[file] = (stderr[file] ?? "") + message; // says why a suite crashed
  },
  "test:start": ({ name, file, nesting }, run) => {
    run.path = [...run.path.slice(0, nesting), name]; // the groups that a test is in, and its own name
    if (/\.test\.ts$/.test(file)) run.suite = nameOf(file); // a group may be described in another file
  },
  "test:complete": (data) => {
    if (isSuite(data)) return `${secondsIn(data.details.duration_ms)}  ${nameOf(data.file)}\n`;
  },
  "test:pass": ({ details, skip }, run) => {
    if (details.type !== "suite") run[skip === undefined ? "passed" : "skipped"]++; // a group isn't counted
  },
  "test:fail": (data, { suite, path, stderr, failed }) => {
    if (data.details.error.failureType === "subtestsFailed") return; // a group: its tests have been reported
    failed.push(isSuite(data) ? suite : `${suite}: ${path.join(": ")}`);
    return `\n✖ ${failed.at(-1)}\n${reasonOf(data.details, isSuite(data) && stderr[data.file])}\n\n`;
  },
};

const isSuite = ({ name, file }) => name === file;
const nameOf = (file) => relative(process.cwd(), file.startsWith("file:") ? fileURLToPath(file) : file); // Node 20 has the URL
const secondsIn = (ms) => `${(ms / 1_000).toFixed(1).padStart(6)} s`;

/** What a crashed suite printed, the message of the error, and the lines of this project in its stack, all indented. */
function reasonOf({ error }, printed) {
  const { message = String(error), stack = "" } = Object(error.cause ?? error);
  const isOurs = (line) => /^ +at .*\//.test(line) && !/node:|node_modules/.test(line);
  const text = [printed || "", message.trim(), ...stack.split("\n").filter(isOurs)].join("\n");
  return text.trim().replace(/^(?=.)/gm, "  ");
}
