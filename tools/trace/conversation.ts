/**
 * Reads a recorded session, of Claude Code or of s06, as what happened in it, step by step. Both formats become the same
 * conversation here and nowhere else. It also runs in a browser.
 */

import { STOPPED, SUMMARY } from "../lesson/wording.ts";
import { isReply, newestBranch, replyId } from "./branches.ts";
import { Block, ClaudeLine, type Message as Content, type Usage as Counted, OwnLine, parseLine } from "./formats.ts";
import { sizeOf, WRAPPER } from "./sizes.ts";

export type Part =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "tool_use"; id: string; name: string; input: Record<string, unknown> }
  | { type: "tool_result"; tool_use_id: string; content: Part[]; is_error: boolean }
  | { type: "image" | "document" }
  | { type: "unknown"; json: string };
/**
 * Tokens as the API counted them. `isHour`: the cache entry lives an hour, not five minutes. `isFinal`: the reply had ended
 * when its output was counted.
 */
export type Usage = { input: number; read: number; written: number; output: number; isHour: boolean; isFinal: boolean };

/** Times are milliseconds. */
export type Message = {
  type: "message";
  role: "user" | "assistant";
  /** `chars`: its size as JSON, which is how s06 counts. */
  parts: (Part & { chars: number })[];
  time?: number;
  /** When the last part of a reply was there. */
  end?: number;
  usage?: Usage;
  model?: string;
  charsPerToken?: number;
  /** It takes the place of messages. */
  isSummary?: boolean;
  /** The client wrote it, not the user; undefined where the file does not say who. */
  isMeta?: boolean;
  /** The call that a text of the client belongs to. */
  callId?: string;
};
/** From here on the history is these messages. Sizes are tokens. */
export type Rewrite = {
  type: "rewrite";
  trigger: string;
  messages: Message[];
  time?: number;
  before?: number;
  after?: number;
  threshold?: number;
  charsPerToken?: number;
  /** Of the call for its summary. */
  usage?: Usage;
  model?: string;
};
/** The results of these calls are no longer in the history. */
export type Clear = { type: "clear"; callIds: string[]; time?: number };
export type Step = Message | Rewrite | Clear;

/** What was left out, how often, and the first lines of the file where it was, if they are known. */
export type Skipped = { reason: string; count: number; lines: number[] };
export type Conversation = {
  format: "s06" | "Claude Code";
  /** None if the file holds no session. */
  steps: Step[];
  /** Where the session ran. */
  cwd: string;
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

/** The texts among parts, one below the other, and `image` for each image. */
export function textOf(parts: { type: string; text?: string }[], image = ""): string {
  return parts.flatMap(({ type, text }) => (/^(image|document)$/.test(type) ? image : (text ?? []))).join("\n");
}

/** In s06, the user's requests are strings. A summary is blocks, and its first text says so. */
function toOwn(content: Content): Message {
  const message = toMessage(content);
  const text = textOf(message.parts);
  const isRequest = typeof content.content === "string" && !text.startsWith(STOPPED);
  const isMeta = message.role === "user" && !isRequest;
  return { ...message, isMeta, isSummary: isMeta && text.startsWith(SUMMARY) };
}

function fromOwn(lines: OwnLine[]): Step[] {
  let lastCall: number | undefined;
  return lines.map((line) => {
    const { time, model, threshold, state } = line;
    const isNew = state.lastCall !== undefined && state.lastCall !== lastCall; // the first line after a model call
    lastCall = state.lastCall;
    const usage = isNew ? usageOf(state.usage, true) : undefined;
    const call = { time, model, usage, charsPerToken: state.charsPerToken };
    if ("message" in line) return { ...toOwn(line.message), ...call };
    const { trigger, before, after } = line;
    return { type: "rewrite", trigger, messages: line.messages.map(toOwn), before, after, threshold, ...call };
  });
}

function usageOf(usage: Counted, isFinal: boolean): Usage | undefined {
  if (!usage) return undefined;
  const [input, output] = [usage.input_tokens, usage.output_tokens];
  const [read, written] = [usage.cache_read_input_tokens ?? 0, usage.cache_creation_input_tokens ?? 0];
  const isHour = (usage.cache_creation?.ephemeral_1h_input_tokens ?? 0) > 0;
  return input + read + written > 0 ? { input, output, read, written, isHour, isFinal } : undefined; // some report none
}

function fromClaude(all: ClaudeLine[], skip: Skip): Step[] {
  const isSubagent = all.every(({ message, isSidechain }) => !message || isSidechain); // the whole file is one
  const lines = isSubagent ? all.map((line) => ({ ...line, isSidechain: false })) : all;
  const steps: Step[] = [];
  const replies = new Map<string | undefined, Message>();
  const messages = new Map<string | undefined, Message>(); // by line
  const branch = new Set(newestBranch(lines, skip));
  let boundary: ClaudeLine["compactMetadata"];
  for (const line of lines) {
    const time = Date.parse(line.timestamp ?? "") || undefined;
    if (line.compactMetadata && !line.isSidechain) boundary = line.compactMetadata;
    if (line.microcompactMetadata && !line.isSidechain) {
      steps.push({ type: "clear", callIds: line.microcompactMetadata.compactedToolIds, time });
    }
    if (!line.message || !branch.has(line)) continue;
    if (line.isApiErrorMessage || line.message.model === "<synthetic>") {
      skip("reply of the client");
      continue;
    }
    const callId = line.isMeta ? line.sourceToolUseID : undefined;
    const { model } = line.message;
    const message = { ...toMessage(line.message), time, end: time, isMeta: line.isMeta, callId, model };
    messages.set(line.uuid, message);
    const usage = usageOf(line.message.usage, Boolean(line.message.stop_reason));
    const begun = isReply(line) ? replies.get(replyId(line)) : undefined;
    if (line.isCompactSummary) {
      const { trigger = "auto", preservedMessages, preTokens: before, postTokens: after } = boundary ?? {};
      const kept = (preservedMessages?.uuids ?? []).flatMap((uuid) => messages.get(uuid) ?? []);
      steps.push({
        type: "rewrite",
        trigger,
        messages: [{ ...message, isSummary: true }, ...kept],
        time,
        before,
        after,
      });
    } else if (begun) {
      begun.parts = [...begun.parts, ...message.parts];
      begun.end = time;
      if (usage && begun.usage) {
        begun.usage.output = Math.max(usage.output, begun.usage.output); // the last line has it all
        begun.usage.isFinal ||= usage.isFinal;
      }
    } else {
      const step = { ...message, usage };
      steps.push(step);
      if (isReply(line)) replies.set(replyId(line), step);
    }
  }
  return steps;
}

/** Reads the text of a session file. What cannot be read is counted in `skipped`. */
export function readConversation(text: string): Conversation {
  const skipped = new Map<string, Skipped>();
  const skip: Skip = (reason, line) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, lines: [] };
    entry.count++;
    if (line !== undefined && entry.lines.length < 10) entry.lines.push(line);
    skipped.set(reason, entry);
  };
  const lines = text.split("\n").flatMap((line, i) => (line.trim() ? [{ number: i + 1, value: parseLine(line) }] : []));
  const own = lines.map(({ value }) => OwnLine.safeParse(value).data);
  const isOwn = own.some((line) => line !== undefined);
  const claude = isOwn ? [] : lines.map(({ value }) => ClaudeLine.safeParse(value).data);
  for (const [i, line] of (isOwn ? own : claude).entries()) if (!line) skip("broken line", lines[i]?.number);
  const claudeLines = claude.filter((line) => line !== undefined);
  const steps = isOwn ? fromOwn(own.filter((line) => line !== undefined)) : fromClaude(claudeLines, skip);
  const cwd = claudeLines.find((line) => line.cwd)?.cwd ?? "/";
  return { format: isOwn ? "s06" : "Claude Code", steps, cwd, skipped: [...skipped.values()] };
}
