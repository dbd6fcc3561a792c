/** `npm run docs:sync` and `npm run docs:check`, for the current folder. */
import { processPages } from "./pages.ts";

const mode = process.argv[2] === "sync" ? "sync" : "check";
const failures = await processPages(mode, process.cwd());
for (const failure of failures) console.error(failure);
console.log(`${failures.length} failures`);
process.exitCode = failures.length > 0 ? 1 : 0;
