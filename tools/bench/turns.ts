/** Turns a recording into the turns and rounds that the lessons would have made of it, with the lessons' tool names. */
import { basename, isAbsolute, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { CHARS_PER_TOKEN } from "../../offline/constants.ts";
import { STOPPED } from "../../offline/wording.ts";
import { IMAGE } from "../sessions/blocks.ts";
import type { Message, Recording, Text, ToolCall } from "../sessions/events.ts";
import { joinTexts, withoutLineNumbers } from "../sessions/events.ts";
import { readSessionFile, sessionFiles } from "../sessions/files.ts";
import { sum } from "../sessions/numbers.ts";

type Said = Anthropic.TextBlockParam | Anthropic.ToolUseBlockParam;

/** A reply and the results of its calls. `time`, in milliseconds, is when all were there. */
export type Round = {
  reply: Said[];
  results: { tool_use_id: string; content: string; is_error: boolean }[]; // in the order of the calls
  time: number;
  isCopy?: boolean; // another session has it as well
};
export type Turn = { request: string; time: number; rounds: Round[] };
export type Session = {
  name: string; // the file's name without its folder
  turns: Turn[];
  problem?: string; // why some or all of the file can't be replayed
};

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
function toCall(call: ToolCall, cwd: string): Said {
  const rename = ([key, value]: [string, unknown]) => {
    const path = key === "file_path" && typeof value === "string" && isAbsolute(value) ? relative(cwd, value) : "..";
    return [FIELDS[key] ?? key, path.split("/")[0] === ".." ? value : path];
  };
  const made = { type: "tool_use" as const, id: toApiName(call.id) };
  const name = TOOLS[call.name];
  if (!name) return { ...made, name: toApiName(call.name), input: call.input };
  return { ...made, name, input: Object.fromEntries(Object.entries(call.input).map(rename)) };
}

/** Names and ids may only have letters, digits, _ and -. */
const toApiName = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

/** Joins the texts that the API accepts, with the text that stands for an image. It rejects blank ones. */
function usableText(texts: Text[]): string {
  const usable = texts.filter(({ text, standsFor }) => text.trim() !== "" && standsFor !== "unknown");
  return joinTexts(usable, IMAGE);
}

// --- messages --------------------------------------------------------------------------------------------------------

/** Returns all messages, including what was compacted later. A file can begin with the summary of another. */
function messagesIn({ events }: Recording): Message[] {
  const messages: Message[] = [];
  for (const event of events) {
    if (event.type === "message") messages.push(event);
    if (event.type === "rewrite" && messages.length === 0) messages.push(...event.messages);
  }
  return messages.filter(({ by }) => by !== "setup");
}

const hasResult = ({ blocks, about }: Message) => about !== undefined || blocks.some(({ kind }) => kind === "result");

type Result = Round["results"][number] & { time: number };

/** Returns what a message says about calls: their results, and what the client adds to one. */
function resultsIn({ blocks, about, time = 0 }: Message): Result[] {
  return blocks.flatMap((block): Result | Result[] => {
    if (block.kind === "result") {
      const text = usableText(block.texts) || "(no output)";
      const content = block.call.name === "Read" ? withoutLineNumbers(text) : text;
      return { tool_use_id: toApiName(block.call.id), content, is_error: block.isError, time };
    }
    if (!about || block.kind !== "client") return [];
    return { tool_use_id: toApiName(about.id), content: usableText([block]), is_error: false, time };
  });
}

/** Thinking becomes text, because the API would reject it under the tutorial's rule. */
function saidIn({ blocks }: Message, cwd: string): Said[] {
  return blocks.flatMap((block): Said | Said[] => {
    if (block.kind === "call") return toCall(block.call, cwd);
    const text = block.kind === "reply" || block.kind === "thinking" ? usableText([block]) : "";
    return text ? { type: "text", text } : [];
  });
}

// --- turns -----------------------------------------------------------------------------------------------------------

function toTurns(messages: Message[], cwd: string): Turn[] {
  const results = resultsById(messages);
  const turns: Turn[] = [];
  const called = new Set<string>();
  for (const message of messages) {
    if (message.role === "user") addRequest(turns, message);
    else addRound(turns, toRound(saidIn(message, cwd), message.time ?? 0, called, results));
  }
  return turns.filter((turn) => turn.rounds.length > 0);
}

/** Joins the results and comments that one call got. A result can come before its call. */
function resultsById(messages: Message[]): Map<string, Result> {
  const results = new Map<string, Result>();
  for (const result of messages.flatMap((message) => resultsIn(message))) {
    const content = [results.get(result.tool_use_id)?.content ?? [], result.content].flat().join("\n");
    results.set(result.tool_use_id, { ...result, content });
  }
  return results;
}

function addRequest(turns: Turn[], message: Message): void {
  const { blocks, by, about, time = 0 } = message;
  const texts = blocks.flatMap((block) => ("text" in block && !about ? block : []));
  const request = usableText(texts);
  if (!request || request.startsWith(STOPPED)) return;
  const turn = turns.at(-1);
  const last = turn?.rounds.at(-1);
  const isHint = (by || hasResult(message)) && last?.reply.some((block) => block.type === "tool_use");
  if (isHint) return;
  if (turn && !last) Object.assign(turn, { request: `${turn.request}\n${request}`.trim(), time });
  else turns.push({ request, time, rounds: [] });
}

/** `called` has the calls so far, since a file can repeat them. */
function toRound(said: Said[], time: number, called: Set<string>, results: Map<string, Result>): Round {
  const reply = said.filter((block) => block.type !== "tool_use" || !called.has(block.id));
  const found = reply.flatMap((block) => {
    if (block.type !== "tool_use") return [];
    called.add(block.id);
    return results.get(block.id) ?? { tool_use_id: block.id, content: "(no result recorded)", is_error: true, time };
  });
  return { reply, results: found, time: Math.max(time, ...found.map((each) => each.time)) };
}

/** A reply after one without calls continues it, because nobody said anything in between. */
function addRound(turns: Turn[], round: Round): void {
  if (round.reply.length === 0) return;
  const turn = turns.at(-1);
  const last = turn?.rounds.at(-1);
  if (!turn) turns.push({ request: "(the beginning was not recorded)", time: round.time, rounds: [round] });
  else if (last?.results.length === 0) turn.rounds.splice(-1, 1, { ...round, reply: [...last.reply, ...round.reply] });
  else turn.rounds.push(round);
}

// --- files -----------------------------------------------------------------------------------------------------------

/** Reads a session, which has no turns if the file holds no conversation. */
export function readSession(file: string): Session {
  const { recording, problem } = readSessionFile(file);
  const turns = recording ? toTurns(messagesIn(recording), recording.cwd) : [];
  return { name: basename(file), turns, problem };
}

export const roundsIn = ({ turns }: Session) => sum(turns.map(({ rounds }) => rounds.length));

export const MOST_SESSIONS = 10;
export const LEAST_ROUNDS = 10;

/** Returns the rounds that fit into a window of 200,000 tokens if nothing is compacted. */
function untilWindow(session: Session): Session {
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

/** The rounds that count in this session. */
export const ownRounds = ({ turns }: Session) => turns.flatMap(({ rounds }) => rounds.filter(({ isCopy }) => !isCopy));

/** Marks what a session has in common with a longer one, as forks do, and leaves out sessions that have nothing else. */
function markCopies(sessions: Session[]): Session[] {
  const known = new Set<string>();
  for (const { turns } of sessions.toSorted((a, b) => roundsIn(b) - roundsIn(a))) {
    // The first block is enough, and a copy can end with half a reply.
    const keyed = turns.flatMap(({ time, rounds }) =>
      rounds.map((round) => ({ round, key: JSON.stringify([time, round.reply[0]]) })),
    );
    for (const { round, key } of keyed) round.isCopy = known.has(key);
    for (const { key } of keyed) known.add(key);
  }
  return sessions.filter((session) => ownRounds(session).length > 0);
}

/**
 * Reads all sessions in files and folders, or the newest long ones, each until a window is full. Returns them with a note for
 * each file that has a problem, and one about copies. Throws if there are no sessions.
 */
export function readSessions(paths: string[], areAll: boolean): { sessions: Session[]; notes: string[] } {
  const [most, least] = areAll ? [Infinity, 1] : [MOST_SESSIONS, LEAST_ROUNDS];
  const found: Session[] = [];
  const notes: string[] = [];
  for (const file of paths.flatMap(sessionFiles)) {
    const session = readSession(file);
    if (session.problem) notes.push(`${file} ${session.problem}`);
    if (roundsIn(session) >= least) found.push(areAll ? session : untilWindow(session));
    if (found.length === most) break;
  }
  const reason = `${paths.join(", ")}: no session of ${least} rounds or more, of Claude Code or of s06`;
  if (found.length === 0) throw new Error([reason, ...notes].join("\n"));
  const sessions = markCopies(found);
  const copied = sum(found.map(roundsIn)) - sum(sessions.map((session) => ownRounds(session).length));
  if (copied > 0) notes.push(`rounds that are in several of the ${found.length} files and count once: ${copied}`);
  return { sessions: sessions.sort((a, b) => a.name.localeCompare(b.name)), notes };
}
