/** What a scripted model says, and what stands in a history: the words in which suites write conversations down. */
import type Anthropic from "@anthropic-ai/sdk";
import type { Reply, ReplyBlock } from "../offline/server.ts";

export const say = (text: string): Reply => ({ content: [{ type: "text", text }] });
export const use = (name: string, input: unknown, id?: string): ReplyBlock => ({ type: "tool_use", name, input, id });
export const call = (...content: ReplyBlock[]): Reply => ({ content });

export const user = (content: string): Anthropic.MessageParam => ({ role: "user", content });
export const answer = (text: string): Anthropic.MessageParam => ({
  role: "assistant",
  content: [{ type: "text", text }],
});
export const blocksOf = ({ content }: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;
