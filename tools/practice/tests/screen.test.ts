import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ROOT } from "../../../offline/start.ts";

test("the screen says what to write or look at, even if the process hangs or ends", () => {
  const root = fs.mkdtempSync(join(tmpdir(), "practice-root-"));
  after(() => fs.rmSync(root, { recursive: true }));
  const options = { recursive: true, filter: (path: string) => !path.endsWith("node_modules") };
  for (const name of ["agents", "docs", "skills", "tests", "tools", "offline", "package.json", "tsconfig.json"])
    fs.cpSync(join(ROOT, name), join(root, name), options);
  fs.symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  const file = join(root, "practice/s03_todo_write.ts");
  const program = ["--import", "tsx", "tools/practice/main.ts", "s03"];
  for (const [from, to, ...parts] of [
    ["", "", "0 of 2", "→ step 1: write TodoManager.update (line ", 'docs/s03_todo_write.md, "2. Repl', "· the todo "],
    ["#1", "#1", "2 of 2", "All green"],
    ['"[x]"', '"[y]"', "wanted  '[x", "came    '[y", "tests/s03_", "   assert", "→ step 1: look at "],
    ["    this.roundsWithoutUpdate = 0;", "process.exit();", "1 of 2", "thrown at practice/s03_todo_write.ts:2"],
    ["this.items = items;", "while (Date.now() > 0);", "✗ the todo tool ", "endless", "→ step 1: look at "],
    ["const isUpdated =", 'console.log("mine");\n$& !', "printed:\n  mine\n", "→ step 2: look at "],
    ["private rounds", "a: 1 = 2;\n  $&", "2 of 2", "✗ syntax and types", "→ look at practice/s03_todo_write.ts:2"],
    ["while (true) {", "while (true {", "✗ syntax and types", "→ look at practice/s03_todo_write.ts:"],
  ] as const) {
    const text = fs.readFileSync(join(root, "agents/s03_todo_write.ts"), "utf8").replace(from, to);
    if (from) fs.writeFileSync(file, text);
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const { stdout, status } = spawnSync(process.execPath, program, { cwd: root, env, encoding: "utf8" });
    assert.match(stdout, new RegExp(parts.map((part) => part.replace(/\W/g, "\\$&")).join("[^]*")));
    assert.equal(status, stdout.includes("All green") ? 0 : 1);
    if (from) assert.equal(fs.readFileSync(file, "utf8"), text, "nothing was overwritten");
  }
});
