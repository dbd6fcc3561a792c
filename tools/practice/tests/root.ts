/** This repository for a test to practise in: all is linked, and practice/ is its own. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
export const root = mkdtempSync(join(tmpdir(), "practice-root-"));
after(() => rmSync(root, { recursive: true }));
for (const name of ["agents", "docs", "node_modules", "package.json", "tests", "tools", "tsconfig.json"])
  symlinkSync(join(repository, name), join(root, name));
export const folder = join(root, "practice");
mkdirSync(folder);
