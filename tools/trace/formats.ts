/** The lines of recorded sessions, as Claude Code and s06 write them: their schemas. */
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

const Figure = z.number().positive().optional().catch(undefined);

/** Tokens of a request, as the API counted them. */
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
const Text = z.string().optional().catch(undefined);

/** A line of s06's transcript: a message, or a new history after a compaction. `usage` belongs to the last model call. */
const Line = z.object({
  ...{ time: Figure, model: Text, threshold: Figure },
  state: z.object({ lastCall: Figure, usage: Usage, charsPerToken: Figure }),
});
export const OwnMessage = Line.extend({ message: Message });
const OwnCompaction = Line.extend({
  ...{ type: z.literal("compaction"), trigger: z.string(), messages: z.array(Message) },
  ...{ before: Figure, after: Figure }, // tokens
});
export const OwnLine = z.union([OwnCompaction, OwnMessage]);
export type OwnLine = z.output<typeof OwnLine>;
/** `anchorUuid`: the summary that the preserved messages come after. */
const Preserved = z.object({ uuids: Ids, anchorUuid: Text });
const Boundary = z.object({ trigger: Text, preTokens: Figure, postTokens: Figure, preservedMessages: Preserved });

/** Of a session of Claude Code: lines make a tree by `uuid` and `parentUuid`; a reply is a line for each of its blocks. */
export const ClaudeLine = z.object({
  type: z.string(),
  uuid: z.string().optional(),
  parentUuid: z.string().nullish(),
  logicalParentUuid: z.string().nullish(), // what a compaction follows; its own parent is null
  isSidechain: z.boolean().optional(), // a subagent's
  sessionId: z.string().optional(),
  isMeta: z.boolean().optional(), // the client wrote it, not the user
  isCompactSummary: z.boolean().optional(),
  isApiErrorMessage: z.boolean().optional(),
  sourceToolUseID: z.string().optional(), // the call that a text of the client belongs to
  cwd: z.string().optional(),
  timestamp: z.string().optional(),
  message: Message.extend({
    ...{ id: z.string().optional(), model: z.string().optional(), usage: Usage },
    stop_reason: z.string().nullish(), // only the line that has it knows all of the output
  }).optional(),
  compactMetadata: Boundary.partial().optional().catch(undefined),
  microcompactMetadata: z.object({ compactedToolIds: Ids }).optional().catch(undefined),
});
export type ClaudeLine = z.output<typeof ClaudeLine>;

/** A line's JSON, in well-formed Unicode; nothing if it is none. */
export function parseLine(line: string): unknown {
  try {
    const repair = (_: string, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value);
    return JSON.parse(line, /\\ud[89a-f]/i.test(line) ? repair : undefined);
  } catch {
    return undefined;
  }
}
