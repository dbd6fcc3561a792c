/** What other servers with this API do differently. A local server with quirks doesn't check signatures, as they don't. */
import type { ParsedRequest } from "./request.ts";

export type Quirk = {
  /** Returns why a request is rejected, if it is. The size of the prompt and the context window are in tokens. */
  refuses?(request: ParsedRequest, tokens: number, window: number): string | undefined;
  says?(message: string): string;
};

export const QUIRKS = {
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
  /** vLLM */
  errorsOfOpenAI: { says: (message) => JSON.stringify({ error: { message, type: "BadRequestError", code: 400 } }) },
  /** LM Studio */
  errorsAsString: { says: (error) => JSON.stringify({ error }) },
  /** A proxy in front of a server */
  errorsInHtml: { says: (message) => `<html>\n<body>${message}</body>\n</html>\n` },
} satisfies Record<string, Quirk>;
