/** Reads recorded sessions, Claude Code's and s06's transcripts, as turns with the tools named as in the lessons. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, isAbsolute, join, relative } from "node:path";
import type { z } from "zod";
import {
  type Call,
  ClaudeLine,
  type Count,
  type Entry,
  isReply,
  newestBranch,
  OwnLine,
  parseLine,
  plain,
  type Result,
  replyId,
  type Said,
  textOf,
  toEntry,
} from "./formats.ts";

/** A reply and the results of its calls, in their order. Times are milliseconds: when the reply and the results were there. */
export type Round = { reply: Said[]; replied: number; results: Result[]; time: number };
/** What the user asked, when, and the rounds it took. */
export type Turn = { request: string; time: number; rounds: Round[] };
export type Session = {
  /** The file's name without its folder. */
  name: string;
  turns: Turn[];
  /** Whether the times are recorded; if not, `drawTimes` made them. */
  isTimed: boolean;
  /** What was left out or completed, and how often. */
  skipped: Record<string, number>;
};
// --- turns -----------------------------------------------------------------------------------------------------------

function toTurns(entries: Entry[], count: Count): Turn[] {
  const results = new Map<string, Result & { time: number }>();
  for (const { time, ...entry } of entries) {
    for (const result of entry.results) {
      const content = [results.get(result.tool_use_id)?.content ?? [], result.content].flat().join("\n");
      results.set(result.tool_use_id, { ...result, content, time });
    }
  }
  const turns: Turn[] = [];
  const called = new Set<string>();
  for (const { role, said, time, isMeta, results: own } of entries) {
    const turn = turns.at(-1);
    const last = turn?.rounds.at(-1);
    if (role === "user") {
      const request = textOf(said);
      const isHint = (isMeta || own.length > 0) && last?.reply.some((block) => block.type === "tool_use");
      if (request && isHint) count("text of the client");
      else if (turn && !last) Object.assign(turn, { request: `${turn.request}\n${request}`.trim(), time });
      else if (request) turns.push({ request, time, rounds: [] });
      continue;
    }
    const reply = said.filter((block) => block.type !== "tool_use" || !called.has(block.id));
    while (reply.at(-1)?.type === "thinking") reply.pop(); // no reply can end with it
    if (reply.length === 0) continue;
    const calls = reply.filter((block) => block.type === "tool_use");
    const found = calls.map(({ id }) => {
      called.add(id);
      if (!results.has(id)) count("missing result");
      return results.get(id) ?? { tool_use_id: id, content: "(no result recorded)", is_error: true, time };
    });
    const round = { reply, replied: time, results: found, time: Math.max(time, ...found.map((each) => each.time)) };
    if (!turn) turns.push({ request: "(the beginning was not recorded)", time, rounds: [round] });
    else if (last && last.results.length === 0) {
      turn.rounds[turn.rounds.length - 1] = { ...round, reply: [...last.reply, ...reply] };
    } else turn.rounds.push(round);
  }
  return turns.filter((turn) => turn.rounds.length > 0);
}

/** How long users take for the next request, in seconds: the shares of 1,700 requests of 168 real sessions. */
const PAUSES = [
  [0, 5],
  [0.5, 80],
  [0.77, 270],
  [0.9, 900],
  [1, 14_400],
] as const;

/**
 * Gives a session without times drawn ones, always the same: pauses as in PAUSES, a reply in 10 s, its calls in 5 s. The
 * golden ratio spreads the draws evenly, so that even a few pauses have the shares of many.
 */
function drawTimes(name: string, turns: Turn[]): void {
  const first = createHash("sha256").update(name).digest().readUInt32BE() / 2 ** 32;
  let now = 0;
  for (const [i, turn] of turns.entries()) {
    const share = (first + 0.618 * i) % 1;
    const above = PAUSES.findIndex(([upTo]) => upTo > share);
    const [[from, low], [to, high]] = [PAUSES[above - 1] ?? PAUSES[0], PAUSES[above] ?? PAUSES[4]];
    now += 1_000 * low * (high / low) ** ((share - from) / (to - from));
    turn.time = now;
    for (const round of turn.rounds) {
      round.replied = now += 10_000;
      round.time = now += 5_000;
    }
  }
}

// --- s06's transcripts -----------------------------------------------------------------------------------------------

function fromOwn(lines: z.output<typeof OwnLine>[], count: Count): Entry[] {
  const entries: Entry[] = [];
  for (const line of lines) {
    if ("role" in line) entries.push(toEntry(line, line.time ?? Number.NaN, count));
    else if (/^(refus|reject)/.test(line.trigger)) {
      count("withdrawn request");
      entries.splice(entries.findLastIndex((entry) => entry.role === "user" && entry.results.length === 0));
    } else if (entries.length === 0) {
      entries.push(...line.messages.map((message) => toEntry(message, Number.NaN, count)));
    } else count("compaction");
  }
  return entries;
}

// --- Claude Code -----------------------------------------------------------------------------------------------------

const TOOLS: Record<string, string> = {
  ...{ Bash: "bash", Read: "read_file", Write: "write_file", Edit: "edit_file" },
  ...{ TodoWrite: "todo", Task: "task", Agent: "task", Skill: "load_skill" },
};
const FIELDS: Record<string, string> = { file_path: "path", old_string: "old_text", new_string: "new_text" };

/** A call as the lessons would have made it, with paths in `cwd` relative to it. */
function inLessons(call: Call, cwd: string): Call {
  const rename = ([key, value]: [string, unknown]) => {
    const path = key === "file_path" && typeof value === "string" && isAbsolute(value) ? relative(cwd, value) : "..";
    return [FIELDS[key] ?? key, path.split("/")[0] === ".." ? value : path];
  };
  const name = TOOLS[call.name];
  return name ? { ...call, name, input: Object.fromEntries(Object.entries(Object(call.input)).map(rename)) } : call;
}

function fromClaude(lines: ClaudeLine[], count: Count): Entry[] {
  const cwd = lines.find((line) => line.cwd)?.cwd ?? "/";
  const entries: Entry[] = [];
  const replies = new Map<string | undefined, Entry>();
  const reads = new Set<string>();
  for (const line of newestBranch(lines, count)) {
    if (!line.message) continue;
    const isOfClient = line.isApiErrorMessage || line.message.model === "<synthetic>";
    const isUndone = line.isCompactSummary && entries.length > 0; // what it sums up is in the file
    if (isOfClient || isUndone) count(isUndone ? "compaction" : "reply of the client");
    if (isOfClient || isUndone) continue;
    const time = Date.parse(line.timestamp ?? "");
    const entry: Entry = { ...toEntry(line.message, time, count), isMeta: line.isMeta };
    for (const block of entry.said) if (block.type === "tool_use" && block.name === "Read") reads.add(block.id);
    entry.said = entry.said.map((block) => (block.type === "tool_use" ? inLessons(block, cwd) : block));
    for (const result of entry.results) {
      // `  12→` stands before each line of a file; the lessons show the text alone.
      if (reads.has(result.tool_use_id)) result.content = result.content.replace(/^ *\d+(→|\t)/gm, "");
    }
    if (line.isMeta && line.sourceToolUseID) {
      const content = textOf(entry.said.splice(0));
      entry.results.push({ tool_use_id: plain(line.sourceToolUseID), content, is_error: false });
    }
    const begun = isReply(line) && replies.get(replyId(line));
    if (begun) Object.assign(begun, { said: [...begun.said, ...entry.said], time });
    else entries.push(entry);
    if (isReply(line) && !begun) replies.set(replyId(line), entry);
  }
  return entries;
}

// --- files -----------------------------------------------------------------------------------------------------------

/** @returns a session without turns if the file holds no conversation */
export function readSession(file: string): Session {
  const skipped: Record<string, number> = {};
  const count: Count = (what) => {
    skipped[what] = (skipped[what] ?? 0) + 1;
  };
  const lines = readFileSync(file, "utf8").split("\n");
  const values = lines.filter((line) => line.trim()).map(parseLine);
  const own = values.flatMap((value) => OwnLine.safeParse(value).data ?? []);
  const claude = own.length > 0 ? [] : values.flatMap((value) => ClaudeLine.safeParse(value).data ?? []);
  for (let broken = values.length - own.length - claude.length; broken > 0; broken--) count("broken line");
  const turns = toTurns(own.length > 0 ? fromOwn(own, count) : fromClaude(claude, count), count);
  const isTimed = turns.every((turn) => turn.time > 0 && turn.rounds.every((round) => round.time > 0));
  if (!isTimed) drawTimes(basename(file), turns);
  return { name: basename(file), turns, isTimed, skipped };
}

export const roundsIn = ({ turns }: Session) => turns.reduce((sum, turn) => sum + turn.rounds.length, 0);

/** The rounds of a session that fit into a window of 200,000 tokens, at 3 characters each, when nothing is compacted. */
export function untilWindow(session: Session): Session {
  let left = 600_000;
  const turns = session.turns.map((turn) => ({
    ...turn,
    rounds: turn.rounds.filter((round) => {
      left -= JSON.stringify(round).length;
      return left > 0;
    }),
  }));
  return { ...session, turns: turns.filter(({ rounds }) => rounds.length > 0) };
}

/** The file, or of a folder and those below it the `.jsonl` files, newest first. @throws if there is none */
export function sessionFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Error(`${path} does not exist; name a session file, or a folder with .jsonl files`);
  const entries = stat.isDirectory() ? readdirSync(path, { recursive: true, withFileTypes: true }) : [];
  const found = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"));
  const files = stat.isDirectory() ? found.map((entry) => join(entry.parentPath, entry.name)) : [path];
  if (files.length === 0) throw new Error(`${path} has no .jsonl files in it; name another folder`);
  const times = new Map(files.map((file) => [file, statSync(file).mtimeMs]));
  return files.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || a.localeCompare(b));
}

/**
 * Reads the newest sessions of a file or folder: the first `most` of at least `rounds` rounds.
 * @throws if the path cannot be read, or no session is found
 */
export function readSessions(path: string, most = Infinity, rounds = 1): Session[] {
  const sessions: Session[] = [];
  for (const file of sessionFiles(path)) {
    const session = sessions.length < most && readSession(file);
    if (session && roundsIn(session) >= rounds) sessions.push(session);
  }
  if (sessions.length > 0) return sessions;
  const hint = rounds > 1 ? "; --all takes shorter ones" : "";
  throw new Error(`${path} holds no session of ${rounds} rounds or more, of Claude Code or of s06${hint}`);
}
