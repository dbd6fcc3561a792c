/**
 * Reads a recorded session of Claude Code or s06 and says what happened in it, step by step. This is the only file that
 * knows both formats. It also runs in a browser.
 */
import { STOPPED, SUMMARY } from "../lesson/wording.ts";
import { isMessage, isReply, newestBranch, replyId } from "./branches.ts";
import { Block, ClaudeLine, type Message as Content, type Usage as Counted, parseLine, TraceLine } from "./formats.ts";
import { sizeOf, WRAPPER } from "./sizes.ts";

export type Part =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "tool_use"; id: string; name: string; input: Record<string, unknown> }
  | { type: "tool_result"; tool_use_id: string; content: Part[]; is_error: boolean }
  | { type: "image" | "document" }
  | { type: "unknown"; json: string };
/** Tokens as the API counted them. */
export type Usage = {
  input: number;
  read: number;
  written: number;
  output: number;
  isHour: boolean; // cache entries live for an hour instead of five minutes
  isFinal: boolean; // the reply was complete when its output was counted
};

/** Times are milliseconds. */
export type Message = {
  type: "message";
  role: "user" | "assistant";
  parts: (Part & { chars: number })[]; // `chars` is the length as JSON, which s06 counts as well
  time?: number;
  end?: number; // when the last part of a reply arrived
  usage?: Usage;
  model?: string;
  charsPerToken?: number;
  isSummary?: boolean; // this message replaces earlier ones
  isMeta?: boolean; // true if the client wrote the message, false if the user did, undefined if the file doesn't say
  /** Whether this is the system prompt, the tools or a reminder, which Claude Code records apart from its messages. */
  isContext?: boolean;
  callId?: string; // the call that a text of the client belongs to
};
/** These messages replace the whole history. Sizes are tokens. */
export type Rewrite = {
  type: "rewrite";
  trigger: string;
  messages: Message[];
  time?: number;
  before?: number;
  after?: number;
  threshold?: number;
  charsPerToken?: number;
  usage?: Usage; // what the call that wrote the summary took
  model?: string;
};
/** The results of these calls are replaced by a short placeholder. */
export type Clear = { type: "clear"; callIds: string[]; time?: number };
export type SessionEvent = Message | Rewrite | Clear;

/** Lines or blocks that were left out. `lines` has the numbers of the first ten, if they are known. */
export type Skipped = { reason: string; count: number; lines: number[] };
export type Conversation = {
  format: "s06" | "Claude Code";
  steps: SessionEvent[]; // empty if the file holds no session
  cwd: string; // the folder the session ran in
  skipped: Skipped[];
};
type Skip = (reason: string, line?: number) => void;

const partsIn = (content: Content["content"]) =>
  (typeof content === "string" ? [{ type: "text", text: content }] : content) ?? [];

function toPart(value: unknown): Part {
  const block = Block.safeParse(value).data;
  if (!block) return { type: "unknown", json: JSON.stringify(value) ?? "" };
  if (block.type !== "tool_result") return block;
  return { ...block, content: partsIn(block.content).map(toPart), is_error: block.is_error === true };
}

function toMessage({ role, content }: Content): Message {
  const values = partsIn(content);
  const parts = values.map((value, i) => ({ ...toPart(value), chars: sizeOf(value) + (i === 0 ? WRAPPER : 0) }));
  return { type: "message", role, parts };
}

/** Joins the texts among `parts` with line breaks, with `image` in place of each image. */
export function textOf(parts: { type: string; text?: string }[], image = ""): string {
  return parts.flatMap(({ type, text }) => (/^(image|document)$/.test(type) ? image : (text ?? []))).join("\n");
}

/** In s06, requests of the user are strings, and a summary is blocks with a fixed opening. */
function toLessonMessage(content: Content): Message {
  const message = toMessage(content);
  const text = textOf(message.parts);
  const isRequest = typeof content.content === "string" && !text.startsWith(STOPPED);
  const isMeta = message.role === "user" && !isRequest;
  return { ...message, isMeta, isSummary: isMeta && text.startsWith(SUMMARY) };
}

function fromLesson(lines: TraceLine[]): SessionEvent[] {
  let lastCall: number | undefined;
  return lines.map((line) => {
    const { time, model, threshold, state } = line;
    const isNew = state.lastCall !== undefined && state.lastCall !== lastCall; // the first line after a model call
    lastCall = state.lastCall;
    const usage = isNew ? toUsage(state.usage, true) : undefined;
    const call = { time, model, usage, charsPerToken: state.charsPerToken };
    if ("message" in line) return { ...toLessonMessage(line.message), ...call };
    const { trigger, before, after } = line;
    const messages = line.messages.map(toLessonMessage);
    return { type: "rewrite", trigger, messages, before, after, threshold, ...call };
  });
}

function toUsage(usage: Counted, isFinal: boolean): Usage | undefined {
  if (!usage) return undefined;
  const [input, output] = [usage.input_tokens, usage.output_tokens];
  const [read, written] = [usage.cache_read_input_tokens ?? 0, usage.cache_creation_input_tokens ?? 0];
  const isHour = (usage.cache_creation?.ephemeral_1h_input_tokens ?? 0) > 0;
  const isCounted = input + read + written > 0; // some servers report zeros
  return isCounted ? { input, output, read, written, isHour, isFinal } : undefined;
}

// --- Claude Code -----------------------------------------------------------------------------------------------------

/** The steps so far, and what later lines refer to. */
type Progress = {
  steps: SessionEvent[];
  replies: Map<string | undefined, Message>;
  messagesByLine: Map<string | undefined, Message>;
  setup?: Message; // the system prompt and the tools
  boundary?: ClaudeLine["compactMetadata"]; // announces the summary that follows
};

function fromClaude(all: ClaudeLine[], skip: Skip): SessionEvent[] {
  const lines = linesOfOneAgent(all, skip).map(withAttachment);
  const branch = new Set(newestBranch(lines, skip));
  const progress: Progress = { steps: [], replies: new Map(), messagesByLine: new Map() };
  for (const line of lines) {
    const { compactMetadata, microcompactMetadata, shape } = line;
    progress.boundary = compactMetadata ?? progress.boundary;
    if (shape) addSetup(progress, shape);
    if (microcompactMetadata) {
      progress.steps.push({ type: "clear", callIds: microcompactMetadata.compactedToolIds, time: timeOf(line) });
    }
    if (!line.message || !branch.has(line)) continue;
    if (line.isApiErrorMessage || line.message.model === "<synthetic>") skip("reply of the client");
    else addMessage(progress, line, line.message);
  }
  return progress.steps;
}

/** Leaves out the lines of subagents, unless the whole file is one. */
function linesOfOneAgent(lines: ClaudeLine[], skip: Skip): ClaudeLine[] {
  if (lines.every((line) => !isMessage(line) || line.isSidechain)) return lines;
  return lines.filter(({ isSidechain }) => {
    if (isSidechain) skip("line of a subagent");
    return !isSidechain;
  });
}

/** Attachments become messages of the client. */
function withAttachment(line: ClaudeLine): ClaudeLine {
  if (!line.rendered) return line;
  const content = line.rendered.flatMap((each) => partsIn(each.content));
  return { ...line, isMeta: true, message: { role: "user", content, usage: undefined } };
}

/** A resumed session records its setup again. */
function addSetup(progress: Progress, { system, tools }: NonNullable<ClaudeLine["shape"]>): void {
  if (progress.setup) return;
  const message = toMessage({ role: "user", content: [...system, ...tools] });
  progress.setup = { ...message, isMeta: true, isContext: true };
  progress.steps.unshift(progress.setup);
}

const timeOf = ({ timestamp = "" }: ClaudeLine) => Date.parse(timestamp) || undefined;

function addMessage(progress: Progress, line: ClaudeLine, content: NonNullable<ClaudeLine["message"]>): void {
  const { steps, replies, messagesByLine } = progress;
  const time = timeOf(line);
  const callId = line.isMeta ? line.sourceToolUseID : undefined;
  const { isMeta, type } = line;
  const isContext = type === "attachment" || undefined;
  const message = { ...toMessage(content), time, end: time, isMeta, isContext, callId, model: content.model };
  messagesByLine.set(line.uuid, message);
  if (line.isCompactSummary) {
    steps.push(toRewrite(message, progress));
    return;
  }
  const step = { ...message, usage: toUsage(content.usage, Boolean(content.stop_reason)) };
  const begun = isReply(line) ? replies.get(replyId(line)) : undefined;
  if (begun) {
    continueReply(begun, step);
    return;
  }
  steps.push(step);
  if (isReply(line)) replies.set(replyId(line), step);
}

/** Claude Code's own size after a compaction leaves out the system prompt and the tools, so it isn't used. */
function toRewrite(summary: Message, { boundary, messagesByLine, setup }: Progress): Rewrite {
  const { trigger = "auto", preservedMessages, preTokens: before } = boundary ?? {};
  const kept = (preservedMessages?.uuids ?? []).flatMap((uuid) => messagesByLine.get(uuid) ?? []);
  const messages = [setup ?? [], { ...summary, isSummary: true }, kept].flat();
  return { type: "rewrite", trigger, messages, time: summary.time, before };
}

/** The output of a reply is complete in its last line only. */
function continueReply(reply: Message, { parts, end, usage }: Message): void {
  reply.parts = [...reply.parts, ...parts];
  reply.end = end;
  if (!usage || !reply.usage) return;
  reply.usage.output = Math.max(usage.output, reply.usage.output);
  reply.usage.isFinal ||= usage.isFinal;
}

// --- files -----------------------------------------------------------------------------------------------------------

/** Reads the text of a session file. Whatever can't be read is counted in `skipped`. */
export function readConversation(text: string): Conversation {
  const skipped = new Map<string, Skipped>();
  const skip: Skip = (reason, line) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, lines: [] };
    entry.count++;
    if (line !== undefined && entry.lines.length < 10) entry.lines.push(line);
    skipped.set(reason, entry);
  };
  const lines = text.split("\n").flatMap((line, i) => (line.trim() ? [{ number: i + 1, value: parseLine(line) }] : []));
  const own = lines.map(({ value }) => TraceLine.safeParse(value).data);
  const isOwn = own.some((line) => line !== undefined);
  const claude = isOwn ? [] : lines.map(({ value }) => ClaudeLine.safeParse(value).data);
  for (const [i, line] of (isOwn ? own : claude).entries()) {
    const reason = lines[i]?.value === undefined ? "broken line" : "unknown line";
    if (!line) skip(reason, lines[i]?.number);
  }
  const claudeLines = claude.filter((line) => line !== undefined);
  const steps = isOwn ? fromLesson(own.filter((line) => line !== undefined)) : fromClaude(claudeLines, skip);
  const cwd = claudeLines.find((line) => line.cwd)?.cwd ?? "/";
  return { format: isOwn ? "s06" : "Claude Code", steps, cwd, skipped: [...skipped.values()] };
}
