import type Anthropic from "@anthropic-ai/sdk";

const KEEP_RECENT = 3; // tool results
const THRESHOLD = 50_000; // tokens
type Summarize = (text: string) => Promise<string>; // asks the model

/** Call this before each model call. Results of the tools in `keep` stay. */
export async function compact(messages: Anthropic.MessageParam[], summarize: Summarize, keep = ["read_file"]) {
  const blocks = messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
  const tools = new Map(blocks.flatMap((block) => (block.type === "tool_use" ? [[block.id, block.name]] : [])));
  const results = blocks.filter((block) => block.type === "tool_result");
  for (const result of results.slice(0, -KEEP_RECENT)) {
    const tool = tools.get(result.tool_use_id) ?? "";
    const isLong = String(result.content).length > 100;
    if (isLong && !keep.includes(tool)) result.content = `[Previous: used ${tool}]`;
  }
  const text = JSON.stringify(messages);
  if (text.length / 4 < THRESHOLD) return;
  const summary = await summarize(text.slice(-80_000));
  messages.splice(0, messages.length, { role: "user", content: `[Conversation compressed]\n\n${summary}` });
}
