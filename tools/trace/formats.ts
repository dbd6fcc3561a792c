/** Schemas for the lines of session files, as Claude Code and s06 write them. */
import * as z from "zod";

const Content = z.union([z.string(), z.array(z.unknown())]).nullish();
export const Message = z.object({ role: z.enum(["user", "assistant"]), content: Content });
export type Message = z.output<typeof Message>;
const Input = z.record(z.string(), z.unknown()).catch({});
const Result = z.object({ tool_use_id: z.string(), content: Content, is_error: z.boolean().nullish() });
export const Block = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.enum(["image", "document"]) }),
  z.object({ type: z.literal("thinking"), thinking: z.string() }),
  z.object({ type: z.literal("tool_use"), id: z.string(), name: z.string(), input: Input }),
  Result.extend({ type: z.literal("tool_result") }),
]);

/** A field that may be missing. A malformed value is ignored. */
const ifValid = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
const Figure = ifValid(z.number().positive());

/** Tokens as the API counts them. */
export const Usage = z
  .object({
    input_tokens: z.number(),
    output_tokens: z.number(),
    cache_read_input_tokens: z.number().nullish(),
    cache_creation_input_tokens: z.number().nullish(),
    cache_creation: z.object({ ephemeral_1h_input_tokens: z.number().nullish() }).nullish(),
  })
  .nullish()
  .catch(undefined);
export type Usage = z.output<typeof Usage>;

const Ids = z.array(z.string());
const Text = ifValid(z.string());

/** A line of s06 holds a message, or a whole history after a compaction. `usage` belongs to the last model call. */
const Line = z.object({
  time: Figure,
  model: Text,
  threshold: Figure,
  state: z.object({ lastCall: Figure, usage: Usage, charsPerToken: Figure }),
});
export const TraceMessage = Line.extend({ message: Message });
const TraceCompaction = Line.extend({
  type: z.literal("compaction"),
  trigger: z.string(),
  messages: z.array(Message),
  before: Figure, // tokens
  after: Figure,
});
export const TraceLine = z.union([TraceCompaction, TraceMessage]);
export type TraceLine = z.output<typeof TraceLine>;
/** The preserved messages follow the summary, whose id is `anchorUuid`. */
const Preserved = z.object({ uuids: Ids, anchorUuid: Text });
const Boundary = z.object({ trigger: Text, preTokens: Figure, preservedMessages: Preserved });

const ClaudeMessage = Message.extend({
  id: z.string().optional(),
  model: z.string().optional(),
  usage: Usage,
  stop_reason: z.string().nullish(), // without a reason, output_tokens is a partial count
});

/** Lines of Claude Code form a tree by `uuid` and `parentUuid`. Each block of a reply has its own line. */
export const ClaudeLine = z.object({
  type: z.string(),
  uuid: z.string().optional(),
  parentUuid: z.string().nullish(),
  logicalParentUuid: z.string().nullish(), // the line before a compaction, whose parentUuid is null
  isSidechain: z.boolean().optional(), // written by a subagent
  sessionId: z.string().optional(),
  isMeta: z.boolean().optional(), // written by the client, not by the user
  isCompactSummary: z.boolean().optional(),
  isApiErrorMessage: z.boolean().optional(),
  sourceToolUseID: z.string().optional(), // the call that the client comments on
  cwd: z.string().optional(),
  timestamp: z.string().optional(),
  message: ifValid(ClaudeMessage),
  rendered: ifValid(z.array(z.object({ content: Content }))), // what an attachment added to the prompt
  shape: ifValid(z.object({ system: z.array(z.unknown()), tools: z.array(z.unknown()) })),
  compactMetadata: ifValid(Boundary.partial()),
  microcompactMetadata: ifValid(z.object({ compactedToolIds: Ids })),
});
export type ClaudeLine = z.output<typeof ClaudeLine>;

/** Returns the value of a line of JSON with lone surrogates replaced, or undefined if the line is broken. */
export function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}
