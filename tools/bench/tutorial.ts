/** The rule of the tutorial that this course is based on, in place of s06's `compactIfNeeded`. */
import Anthropic from "@anthropic-ai/sdk";
import type { Messages, TurnOptions } from "../../agents/s06_context_compact.ts";
import { compact } from "../../docs/smallest_compaction.ts";
import { SUMMARY_REQUEST } from "../../offline/wording.ts";

/** Returns the rule, which clears no results of the tools in `keep`. */
export function tutorialRule(keep: string[]): (messages: Messages, options: TurnOptions) => Promise<void> {
  const client = new Anthropic();
  return async (messages, { system }) => {
    const summarize = async (text: string) => {
      const prompt: Messages = [{ role: "user", content: `${SUMMARY_REQUEST}\n${text.toWellFormed()}` }];
      const settings = { model: "claude-sonnet-5-5", max_tokens: 32_000, system };
      const reply = await client.messages.stream({ ...settings, messages: prompt }).finalMessage();
      return reply.content.flatMap((block) => (block.type === "text" ? block.text : [])).join("\n");
    };
    await compact(messages, summarize, keep);
  };
}
