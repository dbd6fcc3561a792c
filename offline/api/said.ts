/** What a model and a user say: replies, the blocks in them, and requests. */
import type Anthropic from "@anthropic-ai/sdk";
import type { Reply, ReplyBlock } from "./server.ts";

export const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
export const call = (...content: ReplyBlock[]): Reply => ({ content });
export const use = (name: string, input: unknown, id?: string): ReplyBlock => ({ type: "tool_use", name, input, id });
/** A reply that calls bash once for each command. */
export const bash = (...commands: string[]): Reply => call(...commands.map((command) => use("bash", { command })));
export const user = (content: string): Anthropic.MessageParam => ({ role: "user", content });
/** Returns a message's content as blocks: a client may send a string instead. */
export const contentBlocks = (content: Anthropic.MessageParam["content"]): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;
