/** Finds and reads session files. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { ClaudeLine } from "./claude-lines.ts";
import type { Recording } from "./events.ts";
import { type Progress, parseLine, readRecording } from "./recording.ts";

/** Returns a path as one line that controls no terminal. */
export const shownPath = (path: string): string =>
  path.replaceAll("\n", "\\n").replace(/\p{Cc}|\p{Bidi_Control}/gu, "�");

/** Resolves a path that the user typed. npm runs scripts in the project's folder, wherever it was called. */
export const userPath = (path: string): string => resolve(process.env.INIT_CWD ?? "", path);

/** `problem` is for the user; without a `recording` there is nothing to show. */
export type SessionFile = { recording?: Recording; problem?: string };

/** Reads one file among many, so a bad file is reported instead of thrown. */
export function readSessionFile(file: string, onProgress?: Progress): SessionFile {
  try {
    return readSession(readFileSync(file, "utf8"), onProgress);
  } catch (error) {
    return { problem: `can't be read: ${reasonOf(error)}` };
  }
}

function readSession(text: string, onProgress?: Progress): SessionFile {
  if (text.trim() === "") return { problem: "is empty" };
  const recording = readRecording(text, onProgress);
  const broken = recording.skipped.find(({ reason }) => reason === "broken line");
  if (recording.events.length > 0) return { recording, problem: broken && `is broken at line ${broken.line}` };
  return { problem: text.includes("\0") ? "is binary" : "holds no session of Claude Code or s06" };
}

const reasonOf = (error: unknown) => {
  if (!(error instanceof Error)) return String(error);
  return "code" in error ? `${error.code}` : error.message;
};

/** Returns `path` if that's a file, or the sessions anywhere below it, newest first. Throws if there are none. */
export function sessionFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Error(`${shownPath(path)} does not exist; name a session file, or a folder with .jsonl files`);
  const all = stat.isDirectory() ? filesIn(path) : [path];
  if (all.length === 0) throw new Error(`${shownPath(path)} has no .jsonl files in it; name another folder`);
  const main = all.filter((file) => !parentOf(file));
  return newestFirst(main.length > 0 ? main : all); // subagents only if there's nothing else
}

/** The files of subagents anywhere below a folder, each with the session that started it. */
export function subagentsIn(folder: string): { file: string; parent: string }[] {
  return filesIn(folder).flatMap((file) => {
    const parent = parentOf(file);
    return parent ? { file, parent } : [];
  });
}

export function newestFirst(files: string[]): string[] {
  const times = new Map(files.map((file) => [file, statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0]));
  return files.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || a.localeCompare(b));
}

/** The `.jsonl` files anywhere below a folder, also behind links, each once. Names the folders that it can't read. */
export const filesIn = (folder: string): string[] => search(folder, new Set([realpathSync(folder)]));

/** Claude Code keeps it beside the subagents of a workflow. */
const JOURNAL = /[\\/]subagents[\\/]workflows[\\/][^\\/]+[\\/]journal\.jsonl$/;

function search(folder: string, known: Set<string>): string[] {
  return namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const target = targetOf(path);
    if (!target || known.has(target.path)) return [];
    known.add(target.path);
    if (target.isFolder) return search(path, known);
    return name.endsWith(".jsonl") && !JOURNAL.test(path) ? [path] : [];
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    console.error(`${shownPath(folder)} can't be read: ${reasonOf(error)}`);
    return [];
  }
}

/** Returns nothing for a broken link, or for a name that isn't UTF-8. */
function targetOf(path: string): { path: string; isFolder: boolean } | undefined {
  try {
    const target = realpathSync(path);
    return { path: target, isFolder: statSync(target).isDirectory() };
  } catch {
    return undefined;
  }
}

// --- subagents -------------------------------------------------------------------------------------------------------

const TRANSCRIPT = /^transcript_(\d+)_(\d+)\.jsonl$/;

/** The folder of a session's subagents, or of those in a workflow. */
const SUBAGENTS = /^(.*)[\\/]subagents(?:[\\/]workflows[\\/][^\\/]+)?$/;

/** Returns the session that started a subagent, or nothing if it isn't the file of one. */
function parentOf(file: string): string | undefined {
  const [name, folder] = [basename(file), dirname(file)];
  if (basename(folder) === "tasks") return parentOfTask(name, dirname(folder));
  if (!name.startsWith("agent-")) return undefined;
  const [, session] = SUBAGENTS.exec(folder) ?? [];
  if (session) return `${session}.jsonl`;
  const line = ClaudeLine.safeParse(parseLine(firstLine(file))).data;
  return line?.isSidechain ? join(folder, `${line.sessionId}.jsonl`) : undefined;
}

/** A subagent of s06 runs in the process of its parent, which began earlier. A transcript's name says both. */
function parentOfTask(name: string, folder: string): string | undefined {
  const [, time, id] = TRANSCRIPT.exec(name) ?? [];
  const before = namesIn(folder).filter((other) => {
    const [, start, process] = TRANSCRIPT.exec(other) ?? [];
    return process !== undefined && process === id && Number(start) <= Number(time);
  });
  const last = before.sort().at(-1);
  return last && join(folder, last);
}

// --- sessions that go on in a copy -----------------------------------------------------------------------------------

/** Returns the session that another one continues, in a copy of its lines. */
export const originalOf = (file: string): string | undefined =>
  TRANSCRIPT.test(basename(file)) ? originalTranscript(file) : originalSession(file);

/** A transcript of s06 begins with a time, so two with the same first line have the same beginning. */
function originalTranscript(file: string): string | undefined {
  const folder = dirname(file);
  const older = namesIn(folder).filter((name) => TRANSCRIPT.test(name) && name < basename(file));
  const paths = older.sort().map((name) => join(folder, name));
  return paths.findLast((path) => firstLine(path) === firstLine(file));
}

/** In Claude Code the copied lines still have the original's id, which names its file. */
function originalSession(file: string): string | undefined {
  const lines = headOf(file)
    .split("\n")
    .flatMap((line) => ClaudeLine.safeParse(parseLine(line)).data ?? []);
  const first = lines.find(({ uuid, sessionId }) => uuid && sessionId);
  if (!first || first.isSidechain) return undefined;
  const original = join(dirname(file), `${first.sessionId}.jsonl`);
  return original !== file && existsSync(original) ? original : undefined;
}

const HEAD = 100_000; // bytes

const firstLine = (file: string): string => headOf(file).split("\n", 1)[0] ?? "";

/** Returns the beginning of a file, or nothing if it's gone. */
function headOf(file: string): string {
  try {
    const handle = openSync(file, "r");
    const head = Buffer.alloc(HEAD);
    const length = readSync(handle, head);
    closeSync(handle);
    return head.toString("utf8", 0, length);
  } catch {
    return "";
  }
}
