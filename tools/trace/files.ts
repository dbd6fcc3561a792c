/** Finds session files. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ClaudeLine, parseLine } from "./formats.ts";

const isSubagent = (file: string) => /[\\/](tasks|subagents)[\\/]|[\\/]agent-[^\\/]*$/.test(file);

/** `.jsonl` files of a folder and those below it. */
export function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"));
  return found.map((entry) => join(entry.parentPath, entry.name));
}

/** The file, or the sessions in a folder and those below it, newest first, without those of subagents. @throws if there is none */
export function sessionFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Error(`${path} does not exist; name a session file, or a folder with .jsonl files`);
  const all = stat.isDirectory() ? filesIn(path) : [path];
  if (all.length === 0) throw new Error(`${path} has no .jsonl files in it; name another folder`);
  const main = all.filter((file) => !isSubagent(file));
  return newestFirst(main.length > 0 ? main : all);
}

export function newestFirst(files: string[]): string[] {
  const times = new Map(files.map((file) => [file, statSync(file).mtimeMs]));
  return files.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || a.localeCompare(b));
}

/** The files of subagents in a folder and those below it, with the session that each belongs to, if it can be told. */
export function subagentsIn(folder: string): { file: string; parent?: string }[] {
  return filesIn(folder).flatMap((file) => (isSubagent(file) ? { file, parent: parentOf(file) } : []));
}

/** Claude Code names the session in the path, or in the first line; s06's children have the process of their parent. */
function parentOf(file: string): string | undefined {
  const [, session] = /^(.*)[\\/]subagents[\\/]/.exec(file) ?? [];
  if (session) return `${session}.jsonl`;
  const folder = dirname(file);
  if (basename(folder) !== "tasks") {
    const [first = ""] = readFileSync(file, "utf8").split("\n", 1);
    const id = ClaudeLine.safeParse(parseLine(first)).data?.sessionId;
    return id && join(folder, `${id}.jsonl`);
  }
  const begunBy = (name: string) => /^transcript_(\d+)_(\d+)\.jsonl$/.exec(name)?.slice(1).map(Number) ?? [0, 0];
  const [time = 0, process] = begunBy(basename(file));
  const before = readdirSync(dirname(folder)).filter(
    (name) => begunBy(name)[1] === process && (begunBy(name)[0] ?? 0) <= time,
  );
  return before.length > 0 ? join(dirname(folder), before.sort().at(-1) ?? "") : undefined;
}
