/** Finds and reads session files. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type Conversation, readConversation } from "./conversation.ts";
import { ClaudeLine, parseLine } from "./formats.ts";

/** `problem` is for the user; without a `conversation` there is nothing to show. */
export type SessionFile = { conversation?: Conversation; problem?: string };

/** Reads one file among many, so a bad file is reported instead of thrown. */
export function readSessionFile(file: string): SessionFile {
  const { text, problem } = readText(file);
  if (text === undefined) return { problem };
  if (text.trim() === "") return { problem: "is empty" };
  const conversation = readConversation(text);
  const broken = conversation.skipped.find(({ reason }) => reason === "broken line");
  if (conversation.steps.length > 0) return { conversation, problem: broken && `is broken at line ${broken.lines[0]}` };
  return { problem: text.includes("\0") ? "is binary" : "holds no session of Claude Code or s06" };
}

function readText(file: string): { text?: string; problem?: string } {
  try {
    return { text: readFileSync(file, "utf8") };
  } catch (error) {
    return { problem: `can't be read: ${Object(error).code}` };
  }
}

const isSubagent = (file: string) => /[\\/](tasks|subagents)[\\/]|[\\/]agent-[^\\/]*$/.test(file);

/** The `.jsonl` files anywhere below a folder. */
export function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"));
  return found.map((entry) => join(entry.parentPath, entry.name));
}

/** Returns `path` if that's a file, or the sessions anywhere below it, newest first. Throws if there are none. */
export function sessionFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Error(`${path} does not exist; name a session file, or a folder with .jsonl files`);
  const all = stat.isDirectory() ? filesIn(path) : [path];
  if (all.length === 0) throw new Error(`${path} has no .jsonl files in it; name another folder`);
  const main = all.filter((file) => !isSubagent(file));
  return newestFirst(main.length > 0 ? main : all); // subagents only if there's nothing else
}

export function newestFirst(files: string[]): string[] {
  const times = new Map(files.map((file) => [file, statSync(file).mtimeMs]));
  return files.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || a.localeCompare(b));
}

/** The files of subagents anywhere below a folder, each with the session that started it, if that is known. */
export function subagentsIn(folder: string): { file: string; parent?: string }[] {
  return filesIn(folder).flatMap((file) => (isSubagent(file) ? { file, parent: parentOf(file) } : []));
}

/** Claude Code names the session in the path or in the first line. In s06 a subagent runs in the process of its parent. */
function parentOf(file: string): string | undefined {
  const [, session] = /^(.*)[\\/]subagents[\\/]/.exec(file) ?? [];
  if (session) return `${session}.jsonl`;
  const folder = dirname(file);
  if (basename(folder) !== "tasks") {
    const [first = ""] = readText(file).text?.split("\n", 1) ?? [];
    const id = ClaudeLine.safeParse(parseLine(first)).data?.sessionId;
    return id && join(folder, `${id}.jsonl`);
  }
  const [time = 0, process] = startOfTranscript(basename(file));
  const before = readdirSync(dirname(folder)).filter((name) => {
    const [otherTime = 0, otherProcess] = startOfTranscript(name);
    return otherProcess === process && otherTime <= time;
  });
  const last = before.sort().at(-1);
  return last && join(dirname(folder), last);
}

/** When a transcript of s06 was started, and by which process. */
const startOfTranscript = (name: string) =>
  /^transcript_(\d+)_(\d+)\.jsonl$/.exec(name)?.slice(1).map(Number) ?? [0, 0];
