/** Turns a recording into the turns and rounds that the lessons would have made of it, with the lessons' tool names. */
import { basename, isAbsolute, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { STOPPED } from "../lesson/wording.ts";
import { CHARS_PER_TOKEN } from "../prices.ts";
import type { Message, Recording, Skip, Text, ToolCall } from "../trace/events.ts";
import { joinTexts, withoutLineNumbers } from "../trace/events.ts";
import { readSessionFile, sessionFiles } from "../trace/files.ts";
import { sum } from "../trace/numbers.ts";
import { IMAGE } from "../trace/sizes.ts";

type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | Anthropic.ToolUseBlockParam;

/** A reply and the results of its calls. Times are milliseconds. */
export type Round = {
  reply: Said[];
  replied: number; // when the reply was complete
  results: { tool_use_id: string; content: string; is_error: boolean }[]; // in the order of the calls
  time: number; // when the last result was there
};
export type Turn = { request: string; time: number; rounds: Round[] };
export type Session = {
  name: string; // the file's name without its folder
  turns: Turn[];
  skipped: Record<string, number>; // how often each kind of thing was left out or completed
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
function usableText(texts: Text[], skip: Skip): string {
  const usable = texts.filter(({ text, standsFor }) => {
    const isBlank = !text.trim();
    if (isBlank || standsFor === "unknown") skip(isBlank ? "blank text" : "unknown block");
    return !isBlank && standsFor !== "unknown";
  });
  return joinTexts(usable, IMAGE);
}

// --- messages --------------------------------------------------------------------------------------------------------

/** Returns all messages that were accepted, including what was compacted later. */
function messagesIn({ events }: Recording, skip: Skip): Message[] {
  const messages: Message[] = [];
  let length = 0; // of the history
  for (const event of events) {
    if (event.type === "message") {
      messages.push(event);
      length++;
    }
    if (event.type !== "rewrite") continue;
    const dropped = length - event.messages.length;
    length = event.messages.length;
    if (event.trigger === "rejected") {
      skip("rejected step");
      messages.splice(messages.length - dropped);
    } else if (event.trigger === "refused") {
      skip("withdrawn request");
      messages.splice(messages.findLastIndex((message) => message.role === "user" && !hasResult(message)));
    } else if (messages.length === 0) messages.push(...event.messages);
    else if (event.trigger !== "resume") skip("compaction");
  }
  return messages.filter(({ by }) => {
    if (by === "setup") skip("context of the client");
    return by !== "setup";
  });
}

const hasResult = ({ blocks, about }: Message) => about !== undefined || blocks.some(({ kind }) => kind === "result");

type Result = Round["results"][number] & { time: number };

/** Returns what a message says about calls: their results, and what the client adds to one. */
function resultsIn({ blocks, about, time = 0 }: Message, skip: Skip): Result[] {
  return blocks.flatMap((block): Result | Result[] => {
    if (block.kind === "result") {
      const text = usableText(block.texts, skip) || "(no output)";
      const content = block.call.name === "Read" ? withoutLineNumbers(text) : text;
      return { tool_use_id: toApiName(block.call.id), content, is_error: block.isError, time };
    }
    if (!about || block.kind !== "client") return [];
    return { tool_use_id: toApiName(about.id), content: usableText([block], skip), is_error: false, time };
  });
}

/** Returns the blocks of a reply. */
function saidIn({ blocks }: Message, cwd: string, skip: Skip): Said[] {
  return blocks.flatMap((block): Said | Said[] => {
    if (block.kind === "call") return toCall(block.call, cwd);
    if (block.kind === "thinking") return { type: "thinking", thinking: block.text, signature: "" };
    const text = block.kind === "reply" ? usableText([block], skip) : "";
    return text ? { type: "text", text } : [];
  });
}

// --- turns -----------------------------------------------------------------------------------------------------------

function toTurns(messages: Message[], cwd: string, skip: Skip): Turn[] {
  const results = resultsById(messages, skip);
  const turns: Turn[] = [];
  const called = new Set<string>();
  for (const message of messages) {
    if (message.role === "user") addRequest(turns, message, skip);
    else addRound(turns, toRound(saidIn(message, cwd, skip), message.time ?? 0, called, results, skip));
  }
  return turns.filter((turn) => turn.rounds.length > 0);
}

/** Joins the results and comments that one call got. A result can come before its call. */
function resultsById(messages: Message[], skip: Skip): Map<string, Result> {
  const results = new Map<string, Result>();
  for (const result of messages.flatMap((message) => resultsIn(message, skip))) {
    const content = [results.get(result.tool_use_id)?.content ?? [], result.content].flat().join("\n");
    results.set(result.tool_use_id, { ...result, content });
  }
  return results;
}

function addRequest(turns: Turn[], message: Message, skip: Skip): void {
  const { blocks, by, about, time = 0 } = message;
  const texts = blocks.flatMap((block) => ("text" in block && !about ? block : []));
  const request = usableText(texts, skip);
  if (!request || request.startsWith(STOPPED)) return;
  const turn = turns.at(-1);
  const last = turn?.rounds.at(-1);
  const isHint = (by || hasResult(message)) && last?.reply.some((block) => block.type === "tool_use");
  if (isHint) skip("text of the client");
  else if (turn && !last) Object.assign(turn, { request: `${turn.request}\n${request}`.trim(), time });
  else turns.push({ request, time, rounds: [] });
}

/** `called` has the calls so far, since a file can repeat them. */
function toRound(said: Said[], time: number, called: Set<string>, results: Map<string, Result>, skip: Skip): Round {
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
  const { recording, problem } = readSessionFile(file);
  const counts = recording?.skipped.map(({ reason, count }): [string, number] => [reason, count]) ?? [];
  const skipped: Session["skipped"] = Object.fromEntries(counts);
  const skip: Skip = (reason) => {
    skipped[reason] = (skipped[reason] ?? 0) + 1;
  };
  const turns = recording ? toTurns(messagesIn(recording, skip), recording.cwd, skip) : [];
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
