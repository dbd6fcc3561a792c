/** Reads sessions of Claude Code. */
import { type Calls, callWith, largestUsage, toMessage, toUsage, valuesIn, withTexts } from "./blocks.ts";
import { newestBranch } from "./branches.ts";
import { type ClaudeLine, isMessage, isReply, replyId } from "./claude-lines.ts";
import { type Block, type Call, type Event, type Message, type Skip, typedText } from "./events.ts";

/** The events so far, and what later lines refer to. */
type Progress = {
  events: Event[];
  calls: Calls;
  replies: Map<string | undefined, { call: Call; message: Message }>;
  messages: Map<string | undefined, Message>; // by the ids of their lines
  setup?: Message;
  boundary?: ClaudeLine["compactMetadata"]; // announces the summary that follows
};

export function eventsOfClaudeCode(all: ClaudeLine[], skip: Skip): Event[] {
  const lines = linesOfOneAgent(all, skip).map(withAttachment);
  const progress: Progress = { events: [], calls: new Map(), replies: new Map(), messages: new Map() };
  for (const line of newestBranch(lines, skip)) {
    const { message, compactMetadata, shape } = line;
    progress.boundary = compactMetadata ?? progress.boundary;
    if (shape) addSetup(progress, shape);
    if (message && isMessage(line)) addMessage(progress, line, message, skip);
    else if (!shape) skip(`${line.type} line`);
  }
  return progress.events;
}

function addMessage(progress: Progress, line: ClaudeLine, content: Content, skip: Skip): void {
  if (line.isApiErrorMessage || content.model === "<synthetic>") skip("reply of the client");
  else if (line.isCompactSummary) addSummary(progress, line, content);
  else if (isReply(line)) addReply(progress, line, content);
  else progress.events.push(readMessage(progress, line, content));
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
  const content = line.rendered.flatMap((each) => valuesIn(each.content));
  return { ...line, message: { role: "user", content, usage: undefined } };
}

/** A resumed session records its setup again. */
function addSetup(progress: Progress, { system, tools }: NonNullable<ClaudeLine["shape"]>): void {
  if (progress.setup) return;
  progress.setup = { ...toMessage({ role: "user", content: [...system, ...tools] }, progress.calls), by: "setup" };
  progress.events.unshift(progress.setup);
}

const timeOf = ({ timestamp = "" }: ClaudeLine) => Date.parse(timestamp) || undefined;

type Content = NonNullable<ClaudeLine["message"]>;

/** Remembers the message, because a compaction may keep it. */
function readMessage({ calls, messages }: Progress, line: ClaudeLine, content: Content): Message {
  const message = withAuthor({ ...toMessage(content, calls), time: timeOf(line) }, line, calls);
  messages.set(line.uuid, message);
  return message;
}

function withAuthor(message: Message, { type, isMeta, sourceToolUseID: id }: ClaudeLine, calls: Calls): Message {
  if (type === "attachment") return { ...message, by: "setup" };
  if (isMeta) return { ...message, by: "client", about: id ? callWith(id, calls) : undefined };
  const hasResult = message.blocks.some(({ kind }) => kind === "result");
  return hasResult ? message : { ...message, blocks: message.blocks.map(asRequest) };
}

/** Texts of the client can stand beside the user's. */
function asRequest(block: Block): Block {
  if (block.kind !== "client") return block;
  const isTyped = block.standsFor ? block.standsFor === "image" : typedText(block.text) !== "";
  return isTyped ? { ...block, kind: "request" } : block;
}

/** Claude Code's own size after a compaction leaves out the system prompt and the tools, so it isn't used. */
function addSummary(progress: Progress, line: ClaudeLine, content: Content): void {
  const { boundary, setup, messages, events, calls } = progress;
  const summary: Message = { ...withTexts(toMessage(content, calls), "summary"), by: "summary", time: timeOf(line) };
  const kept = keptBy(progress).flatMap((uuid) => messages.get(uuid) ?? []);
  const { trigger = "summarized", preTokens: tokensBefore } = boundary ?? {};
  messages.set(line.uuid, summary);
  events.push({ type: "rewrite", trigger, messages: [setup ?? [], summary, kept].flat(), tokensBefore });
}

/** Returns the ids of the messages that a compaction kept: those that it lists, or all from the first one on. */
function keptBy({ boundary, messages }: Progress): (string | undefined)[] {
  const { kept, firstKept } = boundary ?? {};
  if (kept) return kept;
  const ids = firstKept === undefined ? [] : [...messages.keys()];
  const from = ids.indexOf(firstKept);
  return from < 0 ? [] : ids.slice(from);
}

/** Each block has a line. The counts may be complete in the last one only. */
function addReply(progress: Progress, line: ClaudeLine, content: Content): void {
  const { events, replies } = progress;
  const message = readMessage(progress, line, content);
  const usage = toUsage(content.usage, Boolean(content.stop_reason));
  const begun = replies.get(replyId(line));
  if (!begun) {
    const call: Call = { type: "call", usage, model: content.model, time: message.time };
    replies.set(replyId(line), { call, message });
    events.push(call, message);
    return;
  }
  begun.message.blocks.push(...message.blocks);
  begun.message.time = message.time;
  begun.call.usage = largestUsage(begun.call.usage, usage);
}
