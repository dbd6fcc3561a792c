/** The lines of recorded sessions, Claude Code's and s06's transcripts: their schemas, and how they hang together. */
import type Anthropic from "@anthropic-ai/sdk";
import * as z from "zod";

export type Call = Anthropic.ToolUseBlockParam;
export type Said = Anthropic.TextBlockParam | Anthropic.ThinkingBlockParam | Call;
export type Result = { tool_use_id: string; content: string; is_error: boolean };
export type Count = (what: string) => void;

/** Of a line, whoever wrote it. `isMeta`: the client wrote it, not the user. */
export type Entry = { role: "user" | "assistant"; said: Said[]; results: Result[]; time: number; isMeta?: boolean };

// --- blocks ----------------------------------------------------------------------------------------------------------

const Content = z.union([z.string(), z.array(z.unknown())]).nullish();
export const Message = z.object({ role: z.enum(["user", "assistant"]), content: Content });
export const Block = z.discriminatedUnion("type", [
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
export const IMAGE = "[image or document] ".padEnd(4_500, ".");

/** The API takes letters, digits, _ and - in names and ids. */
export const plain = (name: string) => name.replace(/[^\w-]/g, "_").slice(0, 128) || "_";

export function toEntry({ role, content }: z.output<typeof Message>, time: number, count: Count): Entry {
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

export const textOf = (said: Said[]) => said.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");

// --- s06's transcripts -----------------------------------------------------------------------------------------------

const Figure = z.number().positive().optional().catch(undefined);

/** A message, or a rewritten history, all of which stands before it but for what a compaction made. */
export const OwnLine = z.union([
  z.object({
    type: z.literal("compaction"),
    trigger: z.string(),
    messages: z.array(Message).default([]),
    ...{ before: Figure, after: Figure }, // tokens
    ...{ time: Figure, charsPerToken: Figure },
  }),
  Message.extend({ time: z.number().optional(), charsPerToken: Figure }),
]);
export type OwnLine = z.output<typeof OwnLine>;

// --- Claude Code -----------------------------------------------------------------------------------------------------

/** Tokens of a request, as the API counted them. */
const Usage = z
  .object({
    input_tokens: z.number(),
    output_tokens: z.number(),
    cache_read_input_tokens: z.number().nullish(),
    cache_creation_input_tokens: z.number().nullish(),
    cache_creation: z.object({ ephemeral_1h_input_tokens: z.number().nullish() }).nullish(),
  })
  .nullish()
  .catch(undefined);

/** Lines make a tree by `uuid` and `parentUuid`; a reply is a line for each of its blocks. */
export const ClaudeLine = z.object({
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
  message: Message.extend({ id: z.string().optional(), model: z.string().optional(), usage: Usage }).optional(),
  compactMetadata: z
    .object({ trigger: z.string(), preservedMessages: z.object({ uuids: z.array(z.string()) }) })
    .partial()
    .optional()
    .catch(undefined),
  microcompactMetadata: z
    .object({ compactedToolIds: z.array(z.string()) })
    .optional()
    .catch(undefined),
});
export type ClaudeLine = z.output<typeof ClaudeLine>;
type Node = { line: ClaudeLine; parent?: Node };

export const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
const isMessage = (line: ClaudeLine) => isReply(line) || (line.type === "user" && line.message !== undefined);
export const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;

/** The branch that ends last, with the rest of its replies and the results of parallel calls beside it. */
export function newestBranch(lines: ClaudeLine[], count: Count): ClaudeLine[] {
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

// --- lines -----------------------------------------------------------------------------------------------------------

/** A line's JSON, in well-formed Unicode; nothing if it is none. */
export function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}
