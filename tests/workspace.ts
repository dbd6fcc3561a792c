/** Folders for tests. Each is removed when the test or the suite that made it ends. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";

/** Texts or bytes, by the path of the file. */
export type Files = Record<string, string | Uint8Array>;

/** Makes a folder with these files. Returns its real path. */
export function newFolder(files: Files = {}): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "lesson-")));
  chmodSync(folder, 0o711); // a program in it may run as another user
  after(() => rmSync(folder, { recursive: true, force: true }));
  writeFiles(folder, files);
  return folder;
}

export function writeFiles(folder: string, files: Files): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

/** Makes an empty folder the current one: a lesson that's imported later takes it as its workspace. Returns its path. */
export function useWorkspace(): string {
  const folder = join(newFolder(), "work");
  mkdirSync(folder);
  process.chdir(folder);
  return folder;
}

export function emptyWorkspace(): void {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true, force: true });
}
