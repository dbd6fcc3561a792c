// A reporter for node:test that prints what a person wants to know: each failure when it happens, and at the end the names
// of the failed tests, the time, and the counts. It's plain JavaScript because Node 20 loads reporters before tsx.

import { relative } from "node:path";

/** Turns the events of a run into text. The last line is `N passed, N failed`, and `, N skipped` if any were. */
export default async function* report(events) {
  const start = Date.now();
  const stderr = {}; // by file: it says why a file crashed
  const failed = [];
  let passed = 0;
  let skipped = 0;
  for await (const { type, data } of events) {
    const error = data.details?.error;
    const isGroup = error ? error.failureType === "subtestsFailed" : data.details?.type === "suite";
    if (type === "test:stderr") stderr[data.file] = (stderr[data.file] ?? "") + data.message;
    if (!["test:pass", "test:fail"].includes(type) || isGroup) continue;
    if (type === "test:fail") {
      const title = titleOf(data);
      const isFile = data.name === data.file; // the file itself failed, perhaps before its first test
      failed.push(title);
      yield `\n✖ ${title}\n${indent(isFile ? `${stderr[data.file] ?? ""}\n${textOf(error)}` : textOf(error))}\n`;
    } else if (data.skip !== undefined) skipped++;
    else passed++;
  }
  if (failed.length > 0) yield `\nFailed:\n${failed.map((title) => `✖ ${title}\n`).join("")}`;
  yield `\n${passed} passed in ${Math.round((Date.now() - start) / 1_000)} s\n`;
  yield `${passed} passed, ${failed.length} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`;
}

/** A test is defined in the harness, so its suite is the one in the stack of its error, if that has one. */
function titleOf({ name, file = "", details }) {
  if (name === file) return relative(process.cwd(), file);
  const { stack = "" } = Object(details.error.cause);
  const [suite = file] = /\/[^\s():]+\.test\.ts/.exec(stack) ?? [];
  return `${relative(process.cwd(), suite)}: ${name}`;
}

/** The message of an error, and the lines of this project in its stack. */
function textOf(error) {
  const { message = String(error.cause ?? error), stack = "" } = Object(error.cause ?? error);
  const isOurs = (line) => /^ +at .*\//.test(line) && !/node:|node_modules/.test(line);
  return [message.trim(), ...stack.split("\n").filter(isOurs)].join("\n");
}

const indent = (text) => text.trim().replace(/^(?=.)/gm, "  ");
