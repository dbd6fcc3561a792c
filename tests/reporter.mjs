// A reporter for node:test that prints each failure when it happens, and at the end the names of the failed tests, the time and
// the counts. It's plain JavaScript because Node 20 loads reporters before tsx.

import { relative } from "node:path";
import { fileURLToPath } from "node:url";

/** Turns the events of a run into text. The last line is `N passed, N failed`, and `, N skipped` if any were. */
export default async function* report(events) {
  const start = Date.now();
  const stderr = {}; // by file, since it says why a file crashed
  const path = {}; // by file: the names of the groups that the current test is in, and its own
  const failed = [];
  let passed = 0;
  let skipped = 0;
  for await (const { type, data } of events) {
    if (type === "test:stderr") stderr[data.file] = (stderr[data.file] ?? "") + data.message;
    path[data.file] = pathAfter(type, data, path[data.file]);
    if (!["test:pass", "test:fail"].includes(type) || isGroup(data.details)) continue;
    if (type === "test:fail") {
      const title = titleOf(data, path[data.file]);
      failed.push(title);
      yield `\n✖ ${title}\n${indent(reasonOf(data, stderr))}\n`;
    } else if (data.skip === undefined) passed++;
    else skipped++;
  }
  if (failed.length > 0) yield `\nFailed:\n${failed.map((title) => `✖ ${title}\n`).join("")}`;
  yield `\n${passed} passed in ${Math.round((Date.now() - start) / 1_000)} s\n`;
  yield `${passed} passed, ${failed.length} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`;
}

/** Whether an event is about a group of tests, which were counted one by one. */
const isGroup = ({ error, type }) => (error ? error.failureType === "subtestsFailed" : type === "suite");

const pathAfter = (type, { name, nesting }, path = []) =>
  type === "test:start" ? [...path.slice(0, nesting), name] : path;

/** The file, and the names of the groups around the test. */
function titleOf({ name, file = "" }, path = []) {
  const suite = relative(process.cwd(), file.startsWith("file:") ? fileURLToPath(file) : file); // Node 20 has the URL
  return name === file ? suite : `${suite}: ${path.join(": ")}`;
}

/** The message of an error and the lines of this project in its stack. If a whole file failed, also what it wrote to stderr. */
function reasonOf({ name, file, details }, stderr) {
  const error = details.error.cause ?? details.error;
  const { message = String(error), stack = "" } = Object(error);
  const isOurs = (line) => /^ +at .*\//.test(line) && !/node:|node_modules/.test(line);
  const lines = [message.trim(), ...stack.split("\n").filter(isOurs)];
  return [...(name === file ? [stderr[file] ?? ""] : []), ...lines].join("\n");
}

const indent = (text) => text.trim().replace(/^(?=.)/gm, "  ");
