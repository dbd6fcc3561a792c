/** This repository for a test to practise in: all is linked but for what it writes. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
export const root = mkdtempSync(join(tmpdir(), "practice-root-"));
after(() => rmSync(root, { recursive: true }));
for (const name of ["agents", "docs", "node_modules", "package.json", "skills", "tests", "tools", "tsconfig.json"])
  symlinkSync(join(repository, name), join(root, name));

process.chdir(root);

/** An empty folder like practice/, where the compiler finds its settings. */
export function folderOf(name: string): string {
  const folder = join(root, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  copyFileSync(new URL("../tsconfig.practice.json", import.meta.url), join(folder, "tsconfig.json"));
  return folder;
}
