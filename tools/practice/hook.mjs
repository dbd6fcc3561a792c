// Loaded into each process that runs a suite for practice. It's plain JavaScript because Node loads it before tsx.
import { writeSync } from "node:fs";
import * as module from "node:module";
import { after, beforeEach } from "node:test";

delete process.env.NODE_OPTIONS; // it names this file, which the programs that tests start don't need
const mapped = ({ url, ...found }, lesson = process.env.LESSON) => {
  return { ...found, url: url.replace(`/agents/${lesson}_`, `/practice/.${lesson}_`) };
};
if (module.registerHooks) module.registerHooks({ resolve: (name, context, next) => mapped(next(name, context)) });
else
  module.register(`data:text/javascript,const mapped = ${mapped};
    export const resolve = async (name, context, next) => mapped(await next(name, context));`); // Node before 22.15

console.log = (...values) => [console.error, console.info].map((print) => print(...values)); // for the reader, and for tests
Error.stackTraceLimit = 50; // a stack should reach down to the test
beforeEach(() => new Promise(setImmediate)); // so Node says which test begins, before a loop can block it
process.on("exit", endsEarly);
after(() => process.off("exit", endsEarly));
/** Without this, a suite that process.exit(0) ends in the middle would count as green. */
function endsEarly() {
  process.exitCode = 1;
  writeSync(2, `${new Error("Something ended the process, such as process.exit.").stack}\n`);
}
