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

/** The messages of a request without the breakpoint that s06 sets in one of them; a request in words that had it is words again. */
export const unmarked = (messages: Anthropic.MessageParam[]): Anthropic.MessageParam[] =>
  messages.map((message) => {
    if (!JSON.stringify(message).includes('"cache_control"')) return message;
    const content = blocksOf(message).map((block) => ({ ...block, cache_control: undefined }));
    const [first, ...rest] = JSON.parse(JSON.stringify(content));
    const isWords = rest.length === 0 && first.type === "text" && !first.text.startsWith("[Conversation compressed");
    return { ...message, content: isWords ? first.text : [first, ...rest] };
  });
