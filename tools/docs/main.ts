/** `npm run docs:sync` and `npm run docs:check`, for the current folder. With `--strict`, warnings are failures. */
import { processPages } from "./sync.ts";

const mode = process.argv[2] === "sync" ? "sync" : "check";
const { failures, warnings } = await processPages(mode, process.cwd());
const isStrict = process.argv.includes("--strict");
for (const warning of warnings) console.error(isStrict ? warning : `warning: ${warning}`);
for (const failure of failures) console.error(failure);
console.log(`${failures.length} failures, ${warnings.length} warnings`);
process.exitCode = failures.length > 0 || (isStrict && warnings.length > 0) ? 1 : 0;
