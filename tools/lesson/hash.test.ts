import assert from "node:assert/strict";
import { test } from "node:test";
import { codeHash } from "./hash.ts";

test("comments and blanks don't change the hash of a lesson", () => {
  const code = codeHash("const a = 1; // one\n");
  assert.equal(codeHash("/** One. */\nconst  a = /* still */ 1;"), code);
  assert.notEqual(codeHash("const a = 2;"), code);
});
