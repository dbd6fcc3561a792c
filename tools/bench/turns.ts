/** A conversation as the turns and rounds that the lessons would have made of it, with their names of tools. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, isAbsolute, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { STOPPED } from "../lesson/wording.ts";
import { type Message, type Part, readConversation, type Step, textOf } from "../trace/conversation.ts";
import { sessionFiles } from "../trace/files.ts";
import { CHARS_PER_TOKEN, IMAGE } from "../trace/sizes.ts";

type Call = Anthropic.ToolUseBlockParam;
type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | Call;
type Result = { tool_use_id: string; content: string; is_error: boolean };
type Skip = (what: string) => void;

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

/** A message as the API takes it. */
type Entry = { role: "user" | "assistant"; said: Said[]; results: Result[]; time: number; isMeta?: boolean };

// --- the lessons' names ----------------------------------------------------------------------------------------------

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

// --- entries ---------------------------------------------------------------------------------------------------------

/** The API takes letters, digits, _ and - in names and ids. */
const plain = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

/** Without blank texts, which the API rejects, and what it doesn't know. */
function known<Kind extends Part>(parts: Kind[], skip: Skip): Kind[] {
  return parts.filter((part) => {
    const isBlank = part.type === "text" && !part.text.trim();
    if (isBlank || part.type === "unknown") skip(isBlank ? "blank text" : "unknown block");
    return !isBlank && part.type !== "unknown";
  });
}

/** `reads`: the calls whose results are lines with numbers. */
function toEntry(message: Message, cwd: string, reads: Set<string>, skip: Skip): Entry {
  const { role, time = Number.NaN, end = time, isMeta, callId } = message;
  const entry: Entry = { role, said: [], results: [], time: end, isMeta };
  for (const part of known(message.parts, skip)) {
    if (part.type === "tool_use") {
      const call = { type: part.type, id: plain(part.id), name: plain(part.name), input: part.input };
      if (call.name === "Read") reads.add(call.id);
      entry.said.push(inLessons(call, cwd));
    } else if (part.type === "thinking") entry.said.push({ type: part.type, thinking: part.thinking, signature: "" });
    else if (part.type === "text") entry.said.push({ type: part.type, text: part.text });
    else if (part.type === "tool_result") {
      const id = plain(part.tool_use_id);
      const text = textOf(known(part.content, skip), IMAGE) || "(no output)";
      // `  12→` stands before each line of a file; the lessons show the text alone.
      const content = reads.has(id) ? text.replace(/^ *\d+(→|\t)/gm, "") : text;
      entry.results.push({ tool_use_id: id, content, is_error: part.is_error });
    } else entry.said.push({ type: "text", text: IMAGE });
  }
  if (callId) {
    const content = textOf(entry.said.splice(0));
    entry.results.push({ tool_use_id: plain(callId), content, is_error: false });
  }
  return entry;
}

/** All that was said, whatever was compacted later. */
function toEntries(steps: Step[], cwd: string, skip: Skip): Entry[] {
  const entries: Entry[] = [];
  const reads = new Set<string>();
  let length = 0; // of the history
  for (const step of steps) {
    if (step.type === "message") {
      entries.push(toEntry(step, cwd, reads, skip));
      length++;
    }
    if (step.type !== "rewrite") continue;
    const dropped = length - step.messages.length;
    length = step.messages.length;
    if (step.trigger === "rejected") {
      skip("rejected step");
      entries.splice(entries.length - dropped);
    } else if (step.trigger === "refused") {
      skip("withdrawn request");
      entries.splice(entries.findLastIndex((entry) => entry.role === "user" && entry.results.length === 0));
    } else if (entries.length > 0) skip("compaction");
    else entries.push(...step.messages.map((message) => toEntry(message, cwd, reads, skip)));
  }
  return entries;
}

// --- turns -----------------------------------------------------------------------------------------------------------

function toTurns(entries: Entry[], skip: Skip): Turn[] {
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
      if (request.startsWith(STOPPED)) continue;
      const isHint = (isMeta || own.length > 0) && last?.reply.some((block) => block.type === "tool_use");
      if (request && isHint) skip("text of the client");
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
      if (!results.has(id)) skip("missing result");
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
const PAUSES = [5, 80, 270, 900, 14_400];
const SHARES = [0, 0.5, 0.77, 0.9, 1]; // of pauses that are shorter

/**
 * Gives a session without times drawn ones, always the same: pauses as in PAUSES, a reply in 10 s, its calls in 5 s. The
 * golden ratio spreads the draws evenly, so that even a few pauses have the shares of many.
 */
function drawTimes(name: string, turns: Turn[]): void {
  const first = createHash("sha256").update(name).digest().readUInt32BE() / 2 ** 32;
  let now = 0;
  for (const [i, turn] of turns.entries()) {
    const share = (first + 0.618 * i) % 1;
    const below = SHARES.findLastIndex((upTo) => upTo <= share);
    const [from = 0, to = 1] = SHARES.slice(below);
    const [low = 0, high = 0] = PAUSES.slice(below);
    now += 1_000 * low * (high / low) ** ((share - from) / (to - from));
    turn.time = now;
    for (const round of turn.rounds) {
      round.replied = now += 10_000;
      round.time = now += 5_000;
    }
  }
}

// --- files -----------------------------------------------------------------------------------------------------------

/** @returns a session without turns if the file holds no conversation */
export function readSession(file: string): Session {
  const { steps, cwd, skipped: left } = readConversation(readFileSync(file, "utf8"));
  const skipped = Object.fromEntries(left.map(({ reason, count }) => [reason, count]));
  const skip: Skip = (what) => {
    skipped[what] = (skipped[what] ?? 0) + 1;
  };
  const turns = toTurns(toEntries(steps, cwd, skip), skip);
  const isTimed = turns.every((turn) => turn.time > 0 && turn.rounds.every((round) => round.time > 0));
  if (!isTimed) drawTimes(basename(file), turns);
  return { name: basename(file), turns, isTimed, skipped };
}

export const roundsIn = ({ turns }: Session) => turns.reduce((sum, turn) => sum + turn.rounds.length, 0);

/** The rounds of a session that fit into a window of 200,000 tokens when nothing is compacted. */
export function untilWindow(session: Session): Session {
  let left = 200_000 * CHARS_PER_TOKEN;
  const turns = session.turns.map((turn) => ({
    ...turn,
    rounds: turn.rounds.filter((round) => {
      left -= JSON.stringify(round).length;
      return left > 0;
    }),
  }));
  return { ...session, turns: turns.filter(({ rounds }) => rounds.length > 0) };
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
