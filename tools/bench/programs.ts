/**
 * The ways to forget that are not s06 with other constants, as programs: what the tutorial that this course belongs to
 * describes, and what the API offers. Each is a plain loop that forgets before every call.
 */
import Anthropic from "@anthropic-ai/sdk";
import type { Messages, TurnOptions } from "../../agents/s06_context_compact.ts";

type Lesson = typeof import("../../agents/s06_context_compact.ts");
type Call = (messages: Messages, tools?: Anthropic.Tool[]) => Promise<Anthropic.Message>;
type Forget = (messages: Messages, options: TurnOptions, call: Call) => Promise<void>;

const chars = (value: unknown) => JSON.stringify(value).length;

/** Replaces the answered results by one line, except for the newest three and those of some tools. */
function clear({ withoutThinking }: Lesson, messages: Messages, preserved: string[]): void {
  const copy = structuredClone(messages);
  const answered = copy.slice(
    0,
    copy.findLastIndex(({ role }) => role === "assistant"),
  );
  const blocks = answered.flatMap(({ content }) => (typeof content === "string" ? [] : content));
  const names = new Map(blocks.flatMap((block) => (block.type === "tool_use" ? [[block.id, block.name]] : [])));
  const results = blocks.filter((block) => block.type === "tool_result");
  for (const result of results.slice(0, -3)) {
    const name = names.get(result.tool_use_id) ?? "";
    if (chars(result.content) > 100 && !preserved.includes(name)) result.content = `[Previous: used ${name}]`;
  }
  if (chars(copy) < chars(messages)) messages.splice(0, messages.length, ...copy.map(withoutThinking));
}

/** The tutorial: clears before every call; past 50,000 tokens by its count, asks for a summary of 80,000 characters. */
const textbook = (preserved: string[]) => (s06: Lesson) => {
  const forget: Forget = async (messages, _, call) => {
    clear(s06, messages, preserved);
    if (chars(messages) / 4 <= 50_000) return;
    const content = `${s06.SUMMARY_PROMPT}\n${JSON.stringify(messages).slice(0, 80_000)}`;
    const reply = await call([{ role: "user", content: content.toWellFormed() }], []);
    const summary = reply.content.filter((block) => block.type === "text");
    messages.splice(0, messages.length, { role: "user", content: summary });
  };
  return forget;
};

/** clear_tool_uses_20250919: from 100,000 tokens on (of 3 characters, here), each call clears all results but three. */
function hosted(s06: Lesson): Forget {
  let freed = 0;
  return async (messages, { system, tools }) => {
    const before = chars([system, tools, messages]);
    if (before + freed <= 300_000) return;
    clear(s06, messages, []);
    freed += before - chars([system, tools, messages]);
  };
}

/** By strategy: how it forgets, and whether it uses the prompt cache. */
const PROGRAMS: Record<string, { forget(s06: Lesson): Forget; isCached: boolean }> = {
  textbook: { forget: textbook([]), isCached: false },
  "hosted clearing": { forget: hosted, isCached: true },
  "cached textbook keeping read_file": { forget: textbook(["read_file"]), isCached: true },
};
export const programs = Object.keys(PROGRAMS);

/** @returns s06 with the loop of that program in place of its own; s06 itself if it is none */
export function programOf(strategy: string, s06: Lesson): Lesson {
  const program = PROGRAMS[strategy];
  if (!program) return s06;
  const client = new Anthropic();
  const forget = program.forget(s06);
  const cache_control = program.isCached ? ({ type: "ephemeral" } as const) : undefined;
  const runTurn: Lesson["runTurn"] = async (messages, request, options) => {
    const call: Call = (messages, tools = options.tools) => {
      const thinking = { type: "adaptive" } as const;
      const rest = { model: s06.MODEL, max_tokens: 32_000, system: options.system, thinking, cache_control };
      return client.messages.stream({ ...rest, tools, messages }).finalMessage();
    };
    messages.push({ role: "user", content: request });
    while (true) {
      await forget(messages, options, call);
      const { content } = await call(messages);
      messages.push({ role: "assistant", content });
      const calls = content.filter((block) => block.type === "tool_use");
      if (calls.length === 0) return;
      const results: Anthropic.ToolResultBlockParam[] = [];
      for (const { id, name, input } of calls) {
        const [text, is_error] = await Promise.resolve(s06.TOOL_HANDLERS[name]?.(input, options)).then(
          (text) => [text ?? "", false] as const,
          (error: Error) => [error.message, true] as const,
        );
        results.push({ type: "tool_result", tool_use_id: id, content: text.slice(0, 50_000).toWellFormed(), is_error });
      }
      messages.push({ role: "user", content: results });
    }
  };
  return { ...s06, runTurn };
}
