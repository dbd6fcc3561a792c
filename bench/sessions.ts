/** Reads recorded sessions, Claude Code's and s06's transcripts, as turns with the tools named as in the lessons. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, isAbsolute, join, relative } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

type Call = Anthropic.ToolUseBlockParam;
type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | Call;
export type Result = { tool_use_id: string; content: string; is_error: boolean };
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
type Count = (what: string) => void;

/** Of a line, whoever wrote it. `isMeta`: the client wrote it, not the user. */
type Entry = { role: "user" | "assistant"; said: Said[]; results: Result[]; time: number; isMeta?: boolean };

// --- blocks ----------------------------------------------------------------------------------------------------------

const Content = z.union([z.string(), z.array(z.unknown())]).nullish();
const Message = z.object({ role: z.enum(["user", "assistant"]), content: Content });
const Block = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.enum(["image", "document"]) }),
  z.object({ type: z.literal("thinking"), thinking: z.string() }),
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()).catch({}),
  }),
  z.object({
    type: z.literal("tool_result"),
    tool_use_id: z.string(),
    content: Content,
    is_error: z.boolean().nullish(),
  }),
]);
/** 1,500 tokens, about what an image of 1,000 × 1,000 pixels takes, at 3 characters each. */
const IMAGE = "[image or document] ".padEnd(4_500, ".");

/** The API takes letters, digits, _ and - in names and ids. */
const plain = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

function toEntry({ role, content }: z.output<typeof Message>, time: number, count: Count): Entry {
  const entry: Entry = { role, said: [], results: [], time };
  for (const part of typeof content === "string" ? [{ type: "text", text: content }] : (content ?? [])) {
    const block = Block.safeParse(part).data;
    if (!block || (block.type === "text" && !block.text.trim())) count(block ? "blank text" : "unknown block");
    else if (block.type === "tool_use") entry.said.push({ ...block, id: plain(block.id), name: plain(block.name) });
    else if (block.type === "thinking") entry.said.push({ ...block, signature: "" });
    else if (block.type === "text") entry.said.push(block);
    else if (block.type === "tool_result") {
      const inside = toEntry({ role, content: block.content }, time, count);
      const text = textOf(inside.said) || "(no output)";
      entry.results.push({ tool_use_id: plain(block.tool_use_id), content: text, is_error: block.is_error === true });
    } else entry.said.push({ type: "text", text: IMAGE });
  }
  return entry;
}

const textOf = (said: Said[]) => said.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");

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

/** A message, or a rewritten history, all of which stands before it but for what a compaction made. */
const OwnLine = z.union([
  z.object({ type: z.literal("compaction"), trigger: z.string(), messages: z.array(Message).default([]) }),
  Message.extend({ time: z.number().optional() }),
]);

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

/** Lines make a tree by `uuid` and `parentUuid`; a reply is a line for each of its blocks. */
const ClaudeLine = z.object({
  type: z.string(),
  uuid: z.string().optional(),
  parentUuid: z.string().nullish(),
  logicalParentUuid: z.string().nullish(), // what a compaction follows; its own parent is null
  isSidechain: z.boolean().optional(), // a subagent's
  isMeta: z.boolean().optional(),
  isCompactSummary: z.boolean().optional(),
  isApiErrorMessage: z.boolean().optional(),
  sourceToolUseID: z.string().optional(), // the call that a text of the client belongs to
  cwd: z.string().optional(),
  timestamp: z.string().optional(),
  message: Message.extend({ id: z.string().optional(), model: z.string().optional() }).optional(),
});
type ClaudeLine = z.output<typeof ClaudeLine>;
type Node = { line: ClaudeLine; parent?: Node };

const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
const isMessage = (line: ClaudeLine) => isReply(line) || (line.type === "user" && line.message !== undefined);
const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;

/** The branch that ends last, with the rest of its replies and the results of parallel calls beside it. */
function newestBranch(lines: ClaudeLine[], count: Count): ClaudeLine[] {
  const nodes = new Map<string, Node>();
  let last: Node | undefined;
  for (const [i, line] of lines.entries()) {
    if (line.isSidechain || !isMessage(line)) count(line.isSidechain ? "line of a subagent" : `${line.type} line`);
    const id = line.uuid ?? (isMessage(line) ? `line ${i}` : "");
    if (line.isSidechain || !id || nodes.has(id)) continue;
    const parentId = line.parentUuid ?? line.logicalParentUuid;
    const isRoot = line.parentUuid === null && !parentId && !line.isCompactSummary;
    last = { line, parent: nodes.get(parentId ?? "") ?? (isRoot ? undefined : last) };
    nodes.set(id, last);
  }
  const all = [...nodes.values()];
  const path = new Set<Node>();
  for (let node = all.findLast(({ line }) => isMessage(line)); node; node = node.parent) path.add(node);
  const ids = new Set([...path].flatMap(({ line }) => (isReply(line) ? [replyId(line)] : [])));
  const isPart = ({ line }: Node) => isReply(line) && ids.has(replyId(line));
  const partsOf = ({ line }: Node) => [line.message?.content ?? []].flat().map(Object);
  const calls = new Set(all.filter(isPart).flatMap((node) => partsOf(node).map((part) => part.id)));
  const isAnswer = (node: Node) =>
    node.line.type === "user" && partsOf(node).some((part) => part.tool_use_id && calls.has(part.tool_use_id));
  const messages = all.filter(({ line }) => isMessage(line));
  const kept = messages.filter((node) => path.has(node) || isPart(node) || isAnswer(node));
  for (let gone = messages.length - kept.length; gone > 0; gone--) count("line of an abandoned branch");
  return kept.map(({ line }) => line);
}

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

/** A line's JSON, in well-formed Unicode; nothing if it is none. */
function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}

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

/**
 * Reads a file, or of a folder and those below it the newest `.jsonl` files: the first `most` sessions of at least
 * `rounds` rounds. @throws if the path cannot be read, or no session is found
 */
export function readSessions(path: string, most = Infinity, rounds = 1): Session[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Error(`${path} does not exist; name a session file, or a folder with .jsonl files`);
  const entries = stat.isDirectory() ? readdirSync(path, { recursive: true, withFileTypes: true }) : [];
  const found = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"));
  const files = stat.isDirectory() ? found.map((entry) => join(entry.parentPath, entry.name)) : [path];
  if (files.length === 0) throw new Error(`${path} has no .jsonl files in it; name another folder`);
  const times = new Map(files.map((file) => [file, statSync(file).mtimeMs]));
  files.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || a.localeCompare(b));
  const sessions: Session[] = [];
  for (const file of files) {
    const session = sessions.length < most && readSession(file);
    if (session && roundsIn(session) >= rounds) sessions.push(session);
  }
  if (sessions.length > 0) return sessions;
  const hint = rounds > 1 ? "; --all takes shorter ones" : "";
  throw new Error(`${path} holds no session of ${rounds} rounds or more, of Claude Code or of s06${hint}`);
}
