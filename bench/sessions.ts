/**
 * Reads recorded sessions, Claude Code's and our own transcripts, as histories that the Messages API accepts, with tools
 * named as in the lessons. What does not fit is left out and counted.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, isAbsolute, join, relative, sep } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { z } from "zod";

export type Recorded = {
  /** The file's name without its folder. */
  name: string;
  /**
   * The user's messages and the replies in turn, the user's first; after each reply the results of its calls, in their
   * order, as strings. What a person asked while calls were open is a message of its own after their results. Thinking
   * is as it was recorded, so its signatures are another server's. The last message may be a reply.
   */
  messages: Anthropic.MessageParam[];
  /** What was met, and how often. HANDLED says what was done with it; other keys are lines that were left out. */
  met: Record<string, number>;
};

export const HANDLED = {
  "broken line": "left out: no JSON, or not the shape of a line",
  "sidechain line": "left out: a subagent's",
  "missing parent": "the line before it in the file takes its place",
  "abandoned branch": "left out: the session is the branch that ends last in the file",
  compaction: "the summary is left out; what was before it and what came after are one history",
  "compaction at the beginning": "the summary is kept: what was before it is not in the file",
  "withdrawn request": "left out with its replies: it was refused or rejected",
  "line of a split reply": "joined to the lines before it",
  "reply of the client": "left out: an error of the API, or another text that no model wrote",
  "text of the client": "kept, since the model saw it; a skill's body is a part of its call's result",
  MultiEdit: "one call of edit_file for each edit",
  "image or document": "a text in its place takes as many tokens",
  "missing beginning": "the first message says so",
  "missing result": "the result says so",
  "result without a call": "left out",
  "repeated call": "left out",
  "blank text": "left out",
  "unknown block": "left out",
} as const;
type Count = (what: keyof typeof HANDLED | `${string} line`) => void;

// --- what stands in the files ---------------------------------------------------------------------------------------

const Content = z.union([z.string(), z.array(z.unknown())]).nullish();
const Message = z.object({ role: z.enum(["user", "assistant"]), content: Content });

const Text = z.object({ type: z.literal("text"), text: z.string() });
const Attachment = z.object({ type: z.enum(["image", "document"]) });
const OfModel = z.discriminatedUnion("type", [
  Text,
  z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string().default("") }),
  z.object({ type: z.literal("redacted_thinking"), data: z.string() }),
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()).catch({}),
  }),
]);
const OfUser = z.discriminatedUnion("type", [
  Text,
  Attachment,
  z.object({
    type: z.literal("tool_result"),
    tool_use_id: z.string(),
    content: Content,
    is_error: z.boolean().nullish(),
  }),
]);

/** Claude Code: lines make a tree by `uuid` and `parentUuid`, and a reply is a line for each of its blocks. */
const ClaudeLine = z.object({
  type: z.string(),
  uuid: z.string().optional(),
  parentUuid: z.string().nullish(),
  /** What a compaction follows; its own parent is null. */
  logicalParentUuid: z.string().nullish(),
  isSidechain: z.boolean().optional(),
  isMeta: z.boolean().optional(),
  isCompactSummary: z.boolean().optional(),
  isApiErrorMessage: z.boolean().optional(),
  /** The call that a text of the client belongs to. */
  sourceToolUseID: z.string().optional(),
  cwd: z.string().optional(),
  message: Message.extend({ id: z.string().optional(), model: z.string().optional() }).optional(),
});
type ClaudeLine = z.output<typeof ClaudeLine>;

/** Our own: a message, or a compaction, whose messages all stand before it but for the one it made. */
const OwnLine = z.union([z.object({ type: z.literal("compaction"), trigger: z.string() }), Message]);
type OwnLine = z.output<typeof OwnLine>;

// --- what both kinds become -----------------------------------------------------------------------------------------

type Call = Anthropic.ToolUseBlockParam;
type Result = Anthropic.ToolResultBlockParam & { content: string };
type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | Anthropic.RedactedThinkingBlockParam | Call;
/** A message. Its results may belong to any call of the session. */
type Turn = { role: "user" | "assistant"; said: Said[]; results: Result[]; isRequest: boolean };

/** 1,500 tokens, about what an image of 1,000 × 1,000 pixels takes, at 3 characters each. */
const IMAGE = "[image or document] ".padEnd(4_500, ".");

const partsOf = (content: z.output<typeof Content>): unknown[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);

/** The API takes letters, digits, _ and - in names and ids. */
const plain = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

/** What a message or a result says, block by block. */
function textsIn(parts: unknown[], count: Count): string[] {
  return parts.flatMap((part) => {
    const block = z.union([Text, Attachment]).safeParse(part).data;
    if (block?.type === "text" && block.text.trim()) return [block.text];
    count(!block ? "unknown block" : block.type === "text" ? "blank text" : "image or document");
    return block && block.type !== "text" ? [IMAGE] : [];
  });
}

const resultOf = (id: string, content: string): Result => ({
  type: "tool_result",
  tool_use_id: plain(id),
  content,
});

function toTurn({ role, content }: z.output<typeof Message>, count: Count): Turn {
  const turn: Turn = { role, said: [], results: [], isRequest: false };
  for (const part of partsOf(content)) {
    const block = (role === "user" ? OfUser : OfModel).safeParse(part).data;
    if (block?.type === "tool_result") {
      const result = resultOf(
        block.tool_use_id,
        textsIn(partsOf(block.content || []), count).join("\n") || "(no output)",
      );
      turn.results.push(block.is_error ? { ...result, is_error: true } : result);
    } else if (block?.type === "tool_use") turn.said.push({ ...block, id: plain(block.id), name: plain(block.name) });
    else if (block?.type === "thinking" || block?.type === "redacted_thinking") turn.said.push(block);
    else turn.said.push(...textsIn([part], count).map((text) => ({ type: "text" as const, text })));
  }
  turn.isRequest = role === "user" && turn.results.length === 0;
  return turn;
}

/** The turns as the API takes them: both roles in turn, and after a reply the results of its calls, in their order. */
function toHistory(turns: Turn[], count: Count): Anthropic.MessageParam[] {
  const results = new Map<string, Result>();
  for (const result of turns.flatMap((turn) => turn.results)) {
    const before = results.get(result.tool_use_id);
    results.set(result.tool_use_id, before ? { ...before, content: `${before.content}\n${result.content}` } : result);
  }
  const history: { role: Turn["role"]; content: Anthropic.ContentBlockParam[] }[] = [];
  const add = (role: Turn["role"], content: Anthropic.ContentBlockParam[], isRequest = false) => {
    const last = history.at(-1);
    const isApart = isRequest && last?.content[0]?.type === "tool_result";
    if (last?.role === role && !isApart) last.content.push(...content);
    else if (content.length > 0) history.push({ role, content: [...content] });
  };

  const called = new Set<string>();
  for (const { role, said, isRequest } of turns) {
    const content = said.filter((block) => {
      if (block.type !== "tool_use") return true;
      if (called.has(block.id)) count("repeated call");
      return !called.has(block.id) && called.add(block.id);
    });
    while (content.at(-1)?.type.endsWith("thinking")) content.pop(); // no reply can end with it
    if (role === "assistant" && history.length === 0 && content.length > 0) {
      count("missing beginning");
      add("user", [{ type: "text", text: "(the beginning was not recorded)" }]);
    }
    add(role, content, isRequest);
    for (const block of content) {
      if (block.type !== "tool_use") continue;
      const result = results.get(block.id);
      if (!result) count("missing result");
      results.delete(block.id);
      add("user", [result ?? { ...resultOf(block.id, "(no result recorded)"), is_error: true }]);
    }
  }
  for (const _ of results) count("result without a call");
  return history.map(({ role, content }) => {
    // As in the lessons, a request is a string.
    const [first, second] = content;
    return role === "user" && first?.type === "text" && !second ? { role, content: first.text } : { role, content };
  });
}

// --- our own transcripts --------------------------------------------------------------------------------------------

function fromOwn(lines: OwnLine[], count: Count): Turn[] {
  const turns: Turn[] = [];
  for (const line of lines) {
    if ("role" in line) turns.push(toTurn(line, count));
    else if (line.trigger === "refusal" || line.trigger === "rejected") {
      count("withdrawn request");
      turns.splice(
        Math.max(
          0,
          turns.findLastIndex((turn) => turn.isRequest),
        ),
      );
    } else count("compaction");
  }
  return turns;
}

// --- Claude Code ----------------------------------------------------------------------------------------------------

type Node = { line: ClaudeLine; parent: Node | undefined };

const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
const isMessage = (line: ClaudeLine) => isReply(line) || (line.type === "user" && line.message !== undefined);
const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;
const ofClient = ({ isApiErrorMessage, message }: ClaudeLine) => isApiErrorMessage || message?.model === "<synthetic>";

/** The lines but for the sidechains', each with its parent, in the order of the file: parents come first. */
function toTree(lines: ClaudeLine[], count: Count): Node[] {
  const nodes = new Map<string, Node>();
  let last: Node | undefined;
  for (const [i, line] of lines.entries()) {
    if (line.isSidechain) {
      count("sidechain line");
      continue;
    }
    if (!isMessage(line)) count(`${line.type} line`);
    const id = line.uuid ?? (isMessage(line) ? `line ${i}` : "");
    if (!id || nodes.has(id)) continue;
    const parentId = line.parentUuid ?? line.logicalParentUuid;
    const isRoot = line.parentUuid === null && !parentId && !line.isCompactSummary;
    const parent = parentId ? nodes.get(parentId) : undefined;
    if (parentId && !parent && last) count("missing parent");
    last = { line, parent: parent ?? (isRoot ? undefined : last) };
    nodes.set(id, last);
  }
  return [...nodes.values()];
}

/** The lines of the branch that ends last, with the rest of its replies and the results of parallel calls beside it. */
function newestBranch(nodes: Node[], count: Count): ClaudeLine[] {
  const path = new Set<Node>();
  for (let node = nodes.findLast(({ line }) => isMessage(line)); node; node = node.parent) path.add(node);
  const ids = new Set([...path].flatMap(({ line }) => (isReply(line) ? [replyId(line)] : [])));
  const isPartOfReply = ({ line }: Node) => isReply(line) && ids.has(replyId(line));
  const blocks = nodes.filter(isPartOfReply).flatMap(({ line }) => partsOf(line.message?.content));
  const calls = new Set(blocks.flatMap((block) => Object(block).id ?? []));
  const isAnswer = ({ line }: Node) =>
    line.type === "user" && partsOf(line.message?.content).some((block) => calls.has(Object(block).tool_use_id));
  const kept = new Set(nodes.filter((node) => path.has(node) || isPartOfReply(node) || isAnswer(node)));
  for (const node of nodes) {
    if (!isMessage(node.line) || kept.has(node)) continue;
    let above = node.parent;
    while (above && !isMessage(above.line)) above = above.parent;
    if (!above || kept.has(above)) count("abandoned branch");
  }
  return [...kept].map(({ line }) => line);
}

const Edit = z.object({ old_string: z.string(), new_string: z.string() });
const Todo = z.object({ content: z.string(), status: z.string() });
const file_path = z.string();
const lines = z.number().optional();
const Task = z
  .object({ prompt: z.string(), description: z.string().optional() })
  .transform((input) => [{ name: "task", input }]);
/** The tools of Claude Code that the lessons have, too, under other names; a MultiEdit is several calls. */
const IN_LESSONS: Record<string, z.ZodType<{ name: string; input: Record<string, unknown> }[]>> = {
  Bash: z.object({ command: z.string() }).transform((input) => [{ name: "bash", input }]),
  Read: z
    .object({ file_path, offset: lines, limit: lines })
    .transform(({ file_path: path, ...part }) => [{ name: "read_file", input: { path, ...part } }]),
  Write: z
    .object({ file_path, content: z.string() })
    .transform(({ file_path: path, content }) => [{ name: "write_file", input: { path, content } }]),
  Edit: Edit.extend({ file_path }).transform((edit) => [editFile(edit.file_path, edit)]),
  MultiEdit: z
    .object({ file_path, edits: z.array(Edit).min(1) })
    .transform(({ file_path, edits }) => edits.map((edit) => editFile(file_path, edit))),
  TodoWrite: z.object({ todos: z.array(Todo) }).transform(({ todos }) => {
    return [{ name: "todo", input: { items: todos.map(({ content, status }) => ({ text: content, status })) } }];
  }),
  Task,
  Agent: Task,
  Skill: z.object({ skill: z.string() }).transform(({ skill }) => [{ name: "load_skill", input: { name: skill } }]),
};

const editFile = (path: string, { old_string, new_string }: z.output<typeof Edit>) => ({
  name: "edit_file",
  input: { path, old_text: old_string, new_text: new_string },
});

/** A call as the lessons would have made it, with paths in `cwd` relative to it; others are as they were. */
function inLessons(call: Call, cwd: string): Call[] {
  const calls = IN_LESSONS[call.name]?.safeParse(call.input).data ?? [];
  if (calls.length === 0) return [call];
  return calls.map(({ name, input }, i) => {
    const path = typeof input.path === "string" && isAbsolute(input.path) ? relative(cwd, input.path) : "..";
    const id = i ? `${call.id}_${i + 1}` : call.id;
    return { ...call, id, name, input: path.split(sep)[0] === ".." ? input : { ...input, path } };
  });
}

function fromClaude(lines: ClaudeLine[], count: Count): Turn[] {
  const cwd = lines.find((line) => line.cwd)?.cwd ?? "/";
  const turns: Turn[] = [];
  const replies = new Map<string | undefined, Turn>();
  const reads = new Set<string>();
  for (const line of newestBranch(toTree(lines, count), count)) {
    if (!isMessage(line) || !line.message) continue;
    const isUndone = line.isCompactSummary && turns.length > 0;
    if (line.isCompactSummary) count(isUndone ? "compaction" : "compaction at the beginning");
    if (ofClient(line)) count("reply of the client");
    if (isUndone || ofClient(line)) continue;

    const read = toTurn(line.message, count);
    const turn: Turn = { ...read, said: [], isRequest: read.isRequest && !line.isMeta };
    for (const result of read.results) {
      // `  12→` stands before each line of a file; the lessons show the text alone.
      if (reads.has(result.tool_use_id)) result.content = result.content.replace(/^ *\d+(→|\t)/gm, "");
    }
    if (line.isMeta) count("text of the client");
    for (const block of read.said) {
      if (block.type === "text" && line.isMeta && line.sourceToolUseID) {
        turn.results.push(resultOf(line.sourceToolUseID, block.text));
      } else if (block.type === "tool_use") {
        if (block.name === "Read") reads.add(block.id);
        const calls = inLessons(block, cwd);
        if (calls.length > 1) count("MultiEdit");
        turn.said.push(...calls);
        turn.results.push(...calls.slice(1).map(({ id }) => resultOf(id, "(see the first of these edits)")));
      } else turn.said.push(block);
    }

    const begun = isReply(line) && replies.get(replyId(line));
    if (begun) {
      count("line of a split reply");
      begun.said.push(...turn.said);
      begun.results.push(...turn.results);
      continue;
    }
    turns.push(turn);
    if (isReply(line)) replies.set(replyId(line), turn);
  }
  return turns;
}

// --- the files ------------------------------------------------------------------------------------------------------

/** A line's JSON, in well-formed Unicode; nothing if it is none. */
function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}

/** @returns nothing if the file holds no conversation: at least one reply that is kept */
function readSession(file: string): Recorded | undefined {
  const met: Record<string, number> = {};
  const count: Count = (what) => {
    met[what] = (met[what] ?? 0) + 1;
  };
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.trim())
    .map(parseLine);
  const own = lines.flatMap((line) => OwnLine.safeParse(line).data ?? []);
  const claude = own.length > 0 ? [] : lines.flatMap((line) => ClaudeLine.safeParse(line).data ?? []);
  for (let broken = lines.length - own.length - claude.length; broken > 0; broken--) count("broken line");
  const messages = toHistory(own.length > 0 ? fromOwn(own, count) : fromClaude(claude, count), count);
  return messages.some(({ role }) => role === "assistant") ? { name: basename(file), messages, met } : undefined;
}

/**
 * Reads files, and of folders every `.jsonl` file in them and below that holds a conversation.
 * @throws if a path cannot be read, or there is no conversation in it
 */
export function readSessions(paths: string[]): Recorded[] {
  return paths.flatMap((path) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat) throw new Error(`${path} does not exist; name a session file or a folder with .jsonl files`);
    const isFolder = stat.isDirectory();
    const entries = isFolder ? readdirSync(path, { recursive: true, withFileTypes: true }) : [];
    const files = entries.flatMap((entry) =>
      entry.isFile() && entry.name.endsWith(".jsonl") ? [join(entry.parentPath, entry.name)] : [],
    );
    if (isFolder && files.length === 0) throw new Error(`${path} has no .jsonl files in it; name another folder`);
    const sessions = (isFolder ? files.sort() : [path]).flatMap((file) => readSession(file) ?? []);
    if (sessions.length === 0) {
      throw new Error(`${path} holds no conversation; it takes Claude Code's session files and our own transcripts`);
    }
    return sessions;
  });
}
