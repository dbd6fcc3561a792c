/** A copy of this repository to practise in. Everything that the tests only read is linked. */
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

/** Makes an empty folder like practice/, with settings for the compiler. */
export function folderOf(name: string): string {
  const folder = join(root, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  copyFileSync(new URL("../tsconfig.practice.json", import.meta.url), join(folder, "tsconfig.json"));
  return folder;
}
