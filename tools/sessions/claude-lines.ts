/** The lines of Claude Code's session files. */
import * as z from "zod";
import { ApiMessage, ApiUsage, Content, Figure, ifValid } from "./blocks.ts";

const Text = ifValid(z.string());
/** Messages that a compaction keeps follow its summary. Older versions only name the first and the last of them. */
const Boundary = z
  .object({
    trigger: Text,
    preTokens: Figure,
    preservedMessages: ifValid(z.object({ uuids: z.array(z.string()), anchorUuid: Text })),
    preservedSegment: ifValid(z.object({ headUuid: z.string(), tailUuid: z.string(), anchorUuid: Text })),
  })
  .transform(({ trigger, preTokens, preservedMessages: messages, preservedSegment: segment }) => ({
    trigger,
    preTokens,
    kept: messages?.uuids,
    firstKept: segment?.headUuid,
    lastKept: messages?.uuids.at(-1) ?? segment?.tailUuid,
    summary: (messages ?? segment)?.anchorUuid,
  }));

const ClaudeMessage = ApiMessage.extend({
  id: z.string().optional(),
  model: z.string().optional(),
  usage: ApiUsage,
  stop_reason: z.string().nullish(), // without a reason, output_tokens is a partial count
});

/** Lines form a tree by `uuid` and `parentUuid`. Each block of a reply has its own line. */
export const ClaudeLine = z.object({
  type: z.string(),
  uuid: z.string().optional(),
  parentUuid: z.string().nullish(),
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
  compactMetadata: ifValid(Boundary),
});
export type ClaudeLine = z.output<typeof ClaudeLine>;

export const isReply = ({ type, message }: ClaudeLine) => type === "assistant" && message !== undefined;
/** Other types of lines can have a `message` as well. */
export const isMessage = ({ type, message }: ClaudeLine) =>
  message !== undefined && /^(user|assistant|attachment)$/.test(type);
export const replyId = ({ message, uuid }: ClaudeLine) => message?.id ?? uuid;
