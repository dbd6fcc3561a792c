// A reporter for node:test that prints each failure when it happens, and at the end the names of the failed tests, the time and
// the counts. It's plain JavaScript because Node 20 loads reporters before tsx.

import { relative } from "node:path";

/** Turns the events of a run into text. The last line is `N passed, N failed`, and `, N skipped` if any were. */
export default async function* report(events) {
  const start = Date.now();
  const stderr = {}; // by file, since it says why a file crashed
  const failed = [];
  let passed = 0;
  let skipped = 0;
  for await (const { type, data } of events) {
    if (type === "test:stderr") stderr[data.file] = (stderr[data.file] ?? "") + data.message;
    if (!["test:pass", "test:fail"].includes(type) || isGroup(data.details)) continue;
    if (type === "test:fail") {
      failed.push(titleOf(data));
      yield `\n✖ ${titleOf(data)}\n${indent(reasonOf(data, stderr))}\n`;
    } else if (data.skip === undefined) passed++;
    else skipped++;
  }
  if (failed.length > 0) yield `\nFailed:\n${failed.map((title) => `✖ ${title}\n`).join("")}`;
  yield `\n${passed} passed in ${Math.round((Date.now() - start) / 1_000)} s\n`;
  yield `${passed} passed, ${failed.length} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`;
}

/** Whether an event is about a group of tests, which were counted one by one. */
const isGroup = ({ error, type }) => (error ? error.failureType === "subtestsFailed" : type === "suite");

/** The harness defines the tests, so the path of the suite comes from the stack of the error. */
function titleOf({ name, file = "", details }) {
  if (name === file) return relative(process.cwd(), file);
  const { stack = "" } = Object(details.error.cause);
  const [suite = file] = /\/[^\s():]+\.test\.ts/.exec(stack) ?? [];
  return `${relative(process.cwd(), suite)}: ${name}`;
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
