/** The beta headers that the API knows, and the fields that need one. */
import type Anthropic from "@anthropic-ai/sdk";
import names from "./betas.json" with { type: "json" };
import { reject } from "./rejection.ts";

/** Every beta that the SDK, Claude Code or the Vercel AI SDK names in its types or code. */
export const BETAS: string[] = names;

export const BINDING_BETA = "thinking-binding-controls-2026-08-01";

/** The field needs a beta whose name begins with one of these. */
const BETAS_OF_FIELD: Record<string, string[]> = {
  billing_policy: ["user-profiles-billing-"],
  compaction: ["compact-2026-09-04"],
  context_management: ["context-management-", "compact-2026-01-12"],
  fallback_credit_token: ["fallback-credit-"],
  fallbacks: ["server-side-fallback-"],
  mcp_servers: ["mcp-client-"],
  output_format: ["structured-outputs-"],
  thread: ["message-threads-"],
};
const EFFORT_BETAS = ["mid-conversation-output-config-", "per-turn-control-"];

/** Returns the names in the anthropic-beta header. */
export function readBetas(header: string | string[] | undefined): string[] {
  const betas = String(header ?? "")
    .split(/\s*,\s*/)
    .filter(Boolean);
  const unknown = betas.filter((name) => !BETAS.includes(name)).map((name) => `\`${name}\``);
  if (unknown.length > 0)
    reject(
      "beta header",
      `Unexpected value(s) ${unknown.join(", ")} for the \`anthropic-beta\` header. Please consult our documentation at docs.claude.com or try again without the header.`,
    );
  return betas;
}

/** Rejects a field whose beta header is missing, as if the API had never heard of it. */
export function checkBetaFields(request: Anthropic.MessageCreateParams, betas: string[]): void {
  const needs = (field: string, prefixes: string[] = []) => {
    const isUnlocked = betas.some((name) => prefixes.some((prefix) => name.startsWith(prefix)));
    if (!isUnlocked) reject("field unknown", `${field}: Extra inputs are not permitted`);
  };
  for (const field of Object.keys(request)) if (field in BETAS_OF_FIELD) needs(field, BETAS_OF_FIELD[field]);
  if (request.thinking && "block_binding" in request.thinking) needs("thinking.adaptive.block_binding", [BINDING_BETA]);
  for (const [i, message] of request.messages.entries())
    if ("output_config" in message) needs(`messages.${i}.output_config`, EFFORT_BETAS);
}
