/** Turns a conversation into the turns and rounds that the lessons would have made of it, with the lessons' tool names. */
import { basename, isAbsolute, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { STOPPED } from "../lesson/wording.ts";
import { type Conversation, type Message, type Part, textOf } from "../trace/conversation.ts";
import { readSessionFile, sessionFiles } from "../trace/files.ts";
import { sum } from "../trace/numbers.ts";
import { CHARS_PER_TOKEN, IMAGE } from "../trace/sizes.ts";

type ToolCall = Anthropic.ToolUseBlockParam;
type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | ToolCall;
type Result = { tool_use_id: string; content: string; is_error: boolean };
type Skip = (reason: string) => void;

/** A reply and the results of its calls. Times are milliseconds. */
export type Round = {
  reply: Said[];
  replied: number; // when the reply was complete
  results: Result[]; // in the order of the calls
  time: number; // when the last result was there
};
export type Turn = { request: string; time: number; rounds: Round[] };
export type Session = {
  name: string; // the file's name without its folder
  turns: Turn[];
  skipped: Record<string, number>; // how often each kind of thing was left out or completed
  problem?: string; // why some or all of the file can't be replayed
};

/** A message in the form that the API accepts. */
type Entry = { role: "user" | "assistant"; said: Said[]; results: Result[]; time: number; isMeta?: boolean };

// --- the lessons' names ----------------------------------------------------------------------------------------------

const TOOLS: Record<string, string> = {
  Bash: "bash",
  Read: "read_file",
  Write: "write_file",
  Edit: "edit_file",
  TodoWrite: "todo",
  Task: "task",
  Agent: "task",
  Skill: "load_skill",
};
const FIELDS: Record<string, string> = { file_path: "path", old_string: "old_text", new_string: "new_text" };

/** Returns the call as the lessons would have made it, with relative paths inside `cwd`. */
function inLessons(call: ToolCall, cwd: string): ToolCall {
  const rename = ([key, value]: [string, unknown]) => {
    const path = key === "file_path" && typeof value === "string" && isAbsolute(value) ? relative(cwd, value) : "..";
    return [FIELDS[key] ?? key, path.split("/")[0] === ".." ? value : path];
  };
  const name = TOOLS[call.name];
  return name ? { ...call, name, input: Object.fromEntries(Object.entries(Object(call.input)).map(rename)) } : call;
}

// --- entries ---------------------------------------------------------------------------------------------------------

/** Returns everything that was said, including what was compacted later. */
function toEntries({ steps, cwd }: Conversation, skip: Skip): Entry[] {
  const entries: Entry[] = [];
  const numbered = new Set<string>(); // calls whose results have a number before each line
  const append = (message: Message) => {
    if (message.isContext) skip("context of the client");
    else entries.push(toEntry(message, cwd, numbered, skip));
  };
  let length = 0; // of the history
  for (const step of steps) {
    if (step.type === "message") {
      append(step);
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
    else step.messages.forEach(append);
  }
  return entries;
}

function toEntry(message: Message, cwd: string, numbered: Set<string>, skip: Skip): Entry {
  const { role, time = 0, end = time, isMeta, callId } = message;
  const said: Said[] = [];
  const results: Result[] = [];
  for (const part of withoutUnusable(message.parts, skip)) {
    if (part.type === "tool_result") results.push(toResult(part, numbered, skip));
    else said.push(toSaid(part, cwd, numbered));
  }
  if (!callId) return { role, said, results, time: end, isMeta };
  const comment = { tool_use_id: toApiName(callId), content: textOf(said), is_error: false };
  return { role, said: [], results: [...results, comment], time: end, isMeta };
}

/** The API rejects blank texts. */
function withoutUnusable<Kind extends Part>(parts: Kind[], skip: Skip): Kind[] {
  return parts.filter((part) => {
    const isBlank = part.type === "text" && !part.text.trim();
    if (isBlank || part.type === "unknown") skip(isBlank ? "blank text" : "unknown block");
    return !isBlank && part.type !== "unknown";
  });
}

function toSaid(part: Part, cwd: string, numbered: Set<string>): Said {
  if (part.type === "text") return { type: part.type, text: part.text };
  if (part.type === "thinking") return { type: part.type, thinking: part.thinking, signature: "" };
  if (part.type !== "tool_use") return { type: "text", text: IMAGE };
  const call = { type: part.type, id: toApiName(part.id), name: toApiName(part.name), input: part.input };
  if (call.name === "Read") numbered.add(call.id);
  return inLessons(call, cwd);
}

function toResult(part: Part & { type: "tool_result" }, numbered: Set<string>, skip: Skip): Result {
  const id = toApiName(part.tool_use_id);
  const text = textOf(withoutUnusable(part.content, skip), IMAGE) || "(no output)";
  const content = numbered.has(id) ? text.replace(/^ *\d+(→|\t)/gm, "") : text;
  return { tool_use_id: id, content, is_error: part.is_error };
}

/** Names and ids may only have letters, digits, _ and -. */
const toApiName = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

// --- turns -----------------------------------------------------------------------------------------------------------

type TimedResult = Result & { time: number };

function toTurns(entries: Entry[], skip: Skip): Turn[] {
  const results = resultsById(entries);
  const turns: Turn[] = [];
  const called = new Set<string>();
  for (const entry of entries) {
    if (entry.role === "user") addRequest(turns, entry, skip);
    else addRound(turns, toRound(entry, called, results, skip));
  }
  return turns.filter((turn) => turn.rounds.length > 0);
}

/** Joins the results and comments that one call got. */
function resultsById(entries: Entry[]): Map<string, TimedResult> {
  const results = new Map<string, TimedResult>();
  for (const { time, results: own } of entries) {
    for (const result of own) {
      const content = [results.get(result.tool_use_id)?.content ?? [], result.content].flat().join("\n");
      results.set(result.tool_use_id, { ...result, content, time });
    }
  }
  return results;
}

function addRequest(turns: Turn[], { said, time, isMeta, results }: Entry, skip: Skip): void {
  const request = textOf(said);
  if (!request || request.startsWith(STOPPED)) return;
  const turn = turns.at(-1);
  const last = turn?.rounds.at(-1);
  const isHint = (isMeta || results.length > 0) && last?.reply.some((block) => block.type === "tool_use");
  if (isHint) skip("text of the client");
  else if (turn && !last) Object.assign(turn, { request: `${turn.request}\n${request}`.trim(), time });
  else turns.push({ request, time, rounds: [] });
}

/** `called` has the calls so far, since a file can repeat them. */
function toRound({ said, time }: Entry, called: Set<string>, results: Map<string, TimedResult>, skip: Skip): Round {
  const reply = said.filter((block) => block.type !== "tool_use" || !called.has(block.id));
  while (reply.at(-1)?.type === "thinking") reply.pop(); // the API accepts no reply that ends with it
  const found = reply.flatMap((block) => {
    if (block.type !== "tool_use") return [];
    called.add(block.id);
    const result = results.get(block.id);
    if (!result) skip("missing result");
    return result ?? { tool_use_id: block.id, content: "(no result recorded)", is_error: true, time };
  });
  return { reply, replied: time, results: found, time: Math.max(time, ...found.map((each) => each.time)) };
}

/** A reply after one without calls continues it, because nobody said anything in between. */
function addRound(turns: Turn[], round: Round): void {
  if (round.reply.length === 0) return;
  const turn = turns.at(-1);
  const last = turn?.rounds.at(-1);
  if (!turn) turns.push({ request: "(the beginning was not recorded)", time: round.replied, rounds: [round] });
  else if (last?.results.length === 0) turn.rounds.splice(-1, 1, { ...round, reply: [...last.reply, ...round.reply] });
  else turn.rounds.push(round);
}

// --- files -----------------------------------------------------------------------------------------------------------

/** Reads a session, which has no turns if the file holds no conversation. */
export function readSession(file: string): Session {
  const { conversation, problem } = readSessionFile(file);
  const skipped: Session["skipped"] = {};
  const skip = (reason: string, count = 1) => {
    skipped[reason] = (skipped[reason] ?? 0) + count;
  };
  for (const { reason, count } of conversation?.skipped ?? []) skip(reason, count);
  const turns = conversation ? toTurns(toEntries(conversation, skip), skip) : [];
  return { name: basename(file), turns, skipped, problem };
}

export const roundsIn = ({ turns }: Session) => sum(turns.map(({ rounds }) => rounds.length));

/** Returns the rounds that fit into a window of 200,000 tokens if nothing is compacted. */
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
 * Reads the newest sessions of a file or folder: the first `most` that have at least `rounds` rounds. Returns them with a
 * line for each file that has a problem. Throws if no session is left.
 */
export function readSessions(path: string, most = Infinity, rounds = 1): { sessions: Session[]; problems: string[] } {
  const sessions: Session[] = [];
  const problems: string[] = [];
  for (const file of sessionFiles(path)) {
    if (sessions.length === most) break;
    const session = readSession(file);
    if (session.problem) problems.push(`${file} ${session.problem}`);
    if (roundsIn(session) >= rounds) sessions.push(session);
  }
  if (sessions.length > 0) return { sessions, problems };
  const hint = rounds > 1 ? "; --all takes shorter ones" : "";
  const reason = `${path} holds no session of ${rounds} rounds or more, of Claude Code or of s06${hint}`;
  throw new Error([reason, ...problems].join("\n"));
}
