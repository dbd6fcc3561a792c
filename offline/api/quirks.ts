/** What other servers with this API do differently. A local server with quirks doesn't check signatures, as they don't. */
import type Anthropic from "@anthropic-ai/sdk";
import { CHARS_PER_TOKEN } from "../constants.ts";
import type { Line } from "./prompt.ts";
import type { ParsedRequest } from "./request.ts";
import type { Server } from "./server.ts";

export type Quirk = {
  /** Returns why a request is rejected, if it is. The size of the prompt and the context window are in tokens. */
  refuses?(request: ParsedRequest, tokens: number, window: number): string | undefined;
  /** Whether the oldest messages of a prompt are left out until it fits into the window. */
  cuts?: boolean;
  changes?(message: Anthropic.Message): void;
  says?(message: string): string;
};

export const QUIRKS = {
  /** DeepSeek, MiMo */
  needsThinking: {
    refuses({ turns }) {
      const types = turns.map(({ blocks }) => blocks.map(({ block }) => block.type));
      const isMissing = types.some((each) => each.includes("tool_use") && !each.includes("thinking"));
      return isMissing ? "The `content[].thinking` in the thinking mode must be passed back to the API." : undefined;
    },
  },
  /** Older models of Kimi, some versions of SGLang */
  rejectsAdaptive: {
    refuses: ({ thinking }) =>
      thinking?.type === "adaptive" ? "invalid thinking: only type=enabled is allowed" : undefined,
  },
  /** vLLM: prompt and reply share the window */
  countsReply: {
    refuses({ max_tokens }, tokens, window) {
      if (tokens + max_tokens <= window) return;
      return `This model's maximum context length is ${window} tokens, but you asked for ${max_tokens} after ${tokens}.`;
    },
  },
  /** Ollama */
  cutsPrompts: { cuts: true },
  /** Ollama, LiteLLM, claude-code-router: no signature, no cache fields, no usage, `end_turn` after a call */
  bareReplies: {
    changes(message) {
      const content = message.content.map((block) => (block.type === "thinking" ? { ...block, signature: "" } : block));
      Object.assign(message, { content, stop_reason: "end_turn", usage: { input_tokens: 0, output_tokens: 0 } });
    },
  },
  /** vLLM */
  errorsOfOpenAI: { says: (message) => JSON.stringify({ error: { message, type: "BadRequestError", code: 400 } }) },
  /** LM Studio */
  errorsAsString: { says: (error) => JSON.stringify({ error }) },
  /** A proxy in front of a server */
  errorsInHtml: { says: (message) => `<html>\n<body>${message}</body>\n</html>\n` },
} satisfies Record<string, Quirk>;

/** Leaves out the oldest messages of a prompt that is longer than the window, if a quirk of the server is to do so. */
export function cutPrompt(lines: Line[], { quirks, contextLimit }: Server): Line[] {
  if (!quirks.some(({ cuts }) => cuts)) return lines;
  const kept = [...lines];
  const length = () => kept.reduce((sum, { text }) => sum + text.length, 0);
  const oldest = () => kept.findIndex(({ text }) => /^(user|assistant) /.test(text));
  while (length() > contextLimit * CHARS_PER_TOKEN && oldest() >= 0) kept.splice(oldest(), 1);
  return kept;
}
