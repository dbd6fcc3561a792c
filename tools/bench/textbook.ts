/** The agent of the tutorial that this course is based on, as its text describes it. It forgets before every call. */
import Anthropic from "@anthropic-ai/sdk";
import type { Messages, TurnOptions } from "../../agents/s06_context_compact.ts";
import { contentBlocks } from "../../offline/api/said.ts";
import { CLEARED, SUMMARY_REQUEST } from "../../offline/wording.ts";

type Lesson = typeof import("../../agents/s06_context_compact.ts");
const THRESHOLD = 200_000; // characters, which it counts as 50,000 tokens
const SUMMARIZED = 80_000; // characters that the model sees when it writes the summary
const CACHE = { type: "ephemeral" } as const;

/** Returns the tutorial's loop, which has s06's tools and layer 1, to replace s06's `runTurn`. */
export function textbook(s06: Lesson, isCached: boolean): Lesson["runTurn"] {
  const client = new Anthropic();
  const call = async (messages: Messages, options: object) => {
    const settings = { model: s06.MODEL, max_tokens: 32_000, thinking: { type: "adaptive" } as const };
    return (await client.messages.stream({ ...settings, ...options, messages }).finalMessage()).content;
  };

  async function forget(messages: Messages, system: string): Promise<void> {
    const cleared = s06.microCompact(messages);
    const size = JSON.stringify(cleared).length;
    const isShorter = size < JSON.stringify(messages).length;
    if (isShorter) messages.splice(0, messages.length, ...cleared.map(s06.withoutThinking));
    if (size <= THRESHOLD) return;
    const text = JSON.stringify(messages).slice(0, SUMMARIZED).toWellFormed();
    const summary = await call([{ role: "user", content: `${SUMMARY_REQUEST}\n${text}` }], { system });
    messages.splice(0, messages.length, { role: "user", content: summary.filter(({ type }) => type === "text") });
  }

  async function resultOf({ id, name, input }: Anthropic.ToolUseBlock, options: TurnOptions) {
    const text = await Promise.resolve(s06.TOOL_HANDLERS[name]?.(input, options)).catch(String);
    return { type: "tool_result" as const, tool_use_id: id, content: String(text).slice(0, 50_000).toWellFormed() };
  }

  return async (messages, request, options) => {
    const { system, tools } = options;
    messages.push({ role: "user", content: request });
    while (true) {
      await forget(messages, system);
      if (isCached) markCleared(messages);
      const content = await call(messages, { system, tools, cache_control: isCached ? CACHE : undefined });
      messages.push({ role: "assistant", content });
      const calls = content.filter((block) => block.type === "tool_use");
      if (calls.length === 0) return;
      const results: Anthropic.ToolResultBlockParam[] = [];
      for (const each of calls) results.push(await resultOf(each, options));
      messages.push({ role: "user", content: results });
    }
  };
}

/** Puts a cache mark after the last cleared result. The prompt up to there stays the same. */
export function markCleared(messages: Messages): void {
  const results = messages
    .flatMap(({ content }) => contentBlocks(content))
    .filter((block) => block.type === "tool_result");
  const last = results.findLast(({ content }) => String(content).startsWith(CLEARED));
  for (const result of results) result.cache_control = result === last ? CACHE : undefined;
}
