/**
 * The disk, as a lesson sees it: a look at each moment at which a kill would leave something else behind, and a disk on
 * which only so many bytes fit. A kill stops the process and nothing else, so what lies in the folder at a moment is what
 * a kill at that moment leaves. Loaded with `--import` and STAGE_OF_KILL, it kills the process itself at that stage.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join, relative, resolve } from "node:path";

type Watcher = {
  /** Before each call that changes the workspace, and within one that writes: when the file is there, when half is. */
  stage?: (what: string) => void;
  /** Bytes that the disk still takes. */
  room?: () => number;
};
let watcher: Watcher | undefined;
let workspace = process.cwd();
/** The paths of the files that are open, by their numbers. */
const open = new Map<number, string>();

const CALLS = [
  "appendFileSync",
  "chmodSync",
  "copyFileSync",
  "cpSync",
  "fchmodSync",
  "linkSync",
  "mkdirSync",
  "openSync",
  "renameSync",
  "rmSync",
  "symlinkSync",
  "truncateSync",
  "unlinkSync",
  "writeFileSync",
] as const;
const originals = Object.fromEntries(CALLS.map((name) => [name, fs[name]]));
const { appendFileSync } = fs;

/** Writes as the original does, but in two parts, and no more than there is room for. */
function write(original: (typeof fs)[(typeof CALLS)[number]], args: unknown[], now: Watcher, what: string): void {
  const [file, text, options] = args;
  const bytes = Buffer.from(String(text));
  const room = Math.max(0, now.room?.() ?? bytes.length);
  Reflect.apply(original, fs, [file, "", options]);
  now.stage?.(`${what}, begun`);
  const parts = [bytes.subarray(0, bytes.length >> 1), bytes.subarray(bytes.length >> 1)];
  let written = 0;
  for (const [i, part] of parts.entries()) {
    if (i > 0) now.stage?.(`${what}, half`);
    appendFileSync(typeof file === "number" ? file : String(file), part.subarray(0, Math.max(0, room - written)));
    written += part.length;
  }
  if (bytes.length > room) throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
}

/** What stands for one of the functions as long as the program runs; without a watcher it is that function. */
const watched = (name: (typeof CALLS)[number]) =>
  function (this: unknown, ...args: unknown[]): unknown {
    const original = originals[name] ?? fs[name];
    const [first, target] = args;
    const now = watcher;
    const path = relative(workspace, resolve(typeof first === "number" ? (open.get(first) ?? "/") : String(first)));
    if (!now || path.startsWith("..")) return Reflect.apply(original, this, args);
    watcher = undefined; // one of these functions may call another
    try {
      const what = [name, path, name === "renameSync" ? target : ""].join(" ").trim();
      const isReading = name === "openSync" && (target === undefined || target === "r");
      if (!isReading) now.stage?.(what);
      const isWrite = name === "writeFileSync" || name === "appendFileSync";
      if (isWrite) return write(original, args, now, what);
      const result = Reflect.apply(original, this, args);
      if (name === "openSync") open.set(result, resolve(String(first)));
      return result;
    } finally {
      watcher = now;
    }
  };
Object.assign(fs, Object.fromEntries(CALLS.map((name) => [name, watched(name)])));
syncBuiltinESMExports();

/** What something returns, with the disk watched meanwhile. */
export async function watching<T>(by: Watcher, work: () => T | Promise<T>): Promise<T> {
  workspace = process.cwd();
  watcher = by;
  try {
    return await work();
  } finally {
    watcher = undefined;
  }
}

/** All files of a folder by their names, also hidden ones, with mode and content; a link with its target. */
export function picture(folder: string, under = ""): Map<string, { mode: number; text: string }> {
  const files = new Map<string, { mode: number; text: string }>();
  for (const entry of fs.readdirSync(join(folder, under), { withFileTypes: true })) {
    const name = join(under, entry.name);
    const path = join(folder, name);
    if (entry.isDirectory()) for (const [inner, file] of picture(folder, name)) files.set(inner, file);
    else if (entry.isSymbolicLink()) files.set(name, { mode: 0, text: `-> ${fs.readlinkSync(path)}` });
    else files.set(name, { mode: fs.statSync(path).mode & 0o7777, text: fs.readFileSync(path, "utf8") });
  }
  return files;
}

/** Bytes that the files of a folder have. */
export const sizeOf = (folder: string): number =>
  [...picture(folder).values()].reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);

let left = Number(process.env.STAGE_OF_KILL);
if (left > 0) watcher = { stage: () => --left === 0 && process.kill(process.pid, "SIGKILL") };
