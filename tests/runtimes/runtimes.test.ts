// Runs each lesson under every runtime that it promises to run under: a command, its result, and an answer.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { bash, say } from "../../offline/api/said.ts";
import { scripted, startServer } from "../../offline/api/server.ts";
import { LESSONS, ROOT, startLesson, TSX } from "../../offline/start.ts";
import { resultsIn } from "../turn.ts";
import { newFolder } from "../workspace.ts";

/** What to write before the name of a lesson, in npm's packages for this platform. */
const RUNTIMES: Record<string, string[]> = {
  "Node 20 with tsx": ["node20", "bin/node", ...TSX],
  "Node 22": ["node22", "bin/node"],
  "Node 24": ["node24", "bin/node"],
  "Node 26": ["node26", "bin/node"],
  Deno: ["deno", "deno", "run", "-A"],
  Bun: ["bun", "bin/bun"],
};
/** Node before 24.3 says this whenever it runs TypeScript. */
const NOTICE = /^\(node:\d+\) ExperimentalWarning: Type Stripping .*\n\(Use `node --trace-warnings .*\n/;
const SKILL = "---\nname: greeting\ndescription: How to greet\n---\nSay hello.\n";

describe("runtimes", { concurrency: 2 }, () => {
  for (const [name, [alias = "", program = "", ...flags]] of Object.entries(RUNTIMES)) {
    for (const lesson of LESSONS) {
      test(`${name} runs ${lesson}`, { timeout: 120_000 }, async (t) => {
        const path = join(import.meta.dirname, "node_modules", `${alias}-${process.platform}-${process.arch}`, program);
        assert.ok(existsSync(path), `${name} isn't installed; package.json beside this file may lack this platform`);
        const server = await startServer({
          model: scripted(bash("echo 完成 | tee made.txt; exit 3"), say("Done: 完成.")),
        });
        t.after(() => server.close());
        const home = newFolder({ "skills/greeting/SKILL.md": SKILL }); // Deno and Bun keep their caches in it
        const child = startLesson(join(ROOT, "agents", lesson), ["-y", "make it"], {
          runtime: [path, ...flags],
          url: server.url,
          cwd: home,
          env: { PATH: process.env.PATH, HOME: home },
          stdio: ["ignore", "pipe", "pipe"],
          signal: t.signal,
        });
        assert.ok(child.stdout && child.stderr);
        const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
        assert.equal(errors.replace(NOTICE, ""), "");
        assert.equal(code, 0, out);
        const results = resultsIn(server.journal.at(-1)?.request.messages).map((result) => result.text);
        assert.deepEqual(results, ["完成\n(exit code 3)"]);
        assert.equal(readFileSync(join(home, "made.txt"), "utf8"), "完成\n");
        assert.match(out, /\nDone: 完成\.\n(\[context.*\n)?$/);
        assert.equal(out.includes("[skills: greeting]"), lesson >= "s05");
      });
    }
  }
});
