/** `npm run docs:sync` and `npm run docs:check`, for the current folder. */
import { docs } from "./pages.ts";

const failures = await docs(process.argv[2] === "sync" ? "sync" : "check", process.cwd());
for (const failure of failures) console.error(failure);
console.log(`${failures.length} failures`);
process.exitCode = failures.length > 0 ? 1 : 0;
