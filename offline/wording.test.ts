// s06's words and lines are quoted in wording.ts, and nowhere else.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import * as wording from "./wording.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const S06 = readFileSync(new URL("../agents/s06_context_compact.ts", import.meta.url), "utf8");
const { PRINTED, ...begun } = wording;
const WORDS = [...Object.values(begun), ...Object.values(PRINTED)];

test("s06's code has the words that tools look for", () => {
  const code = S06.replace(/^ *(\/\/|\/?\*).*$| \/\/ .*$/gm, "");
  for (const words of WORDS)
    assert.ok(
      code.includes(words),
      `s06 has no "${words}": write its new words in offline/wording.ts, and wherever \`git grep\` finds the old`,
    );
});

const FILES = ["offline", "tools"]
  .flatMap((folder) =>
    readdirSync(ROOT + folder, { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  )
  .filter((file) => /\.ts$/.test(file) && !/wording\.ts$|\.test\.ts$|\/(node_modules|tests|cache|dist)\//.test(file));

test("no other folder quotes s06", () => {
  assert.ok(FILES.includes("tools/bench/strategies.ts"));
  for (const file of FILES) {
    const source = readFileSync(ROOT + file, "utf8");
    for (const words of WORDS) assert.ok(!source.includes(words), `${file} quotes s06: ${words}`);
  }
});
