/** The beta headers that the API knows, and the fields that need one. */
import type Anthropic from "@anthropic-ai/sdk";
import { reject } from "./rejection.ts";

/** From the SDK's types, which a test compares with this list. */
const SDK_BETAS = `
admin-user-sign-out-2026-10-08 advisor-tool-2026-03-01 agent-memory-2026-07-22 analytics-usage-cost-2026-08-24
cache-diagnosis-2026-04-07 ce-claude-code-managed-settings-2026-10-06 ce-plugins-2026-09-01
ce-user-management-2026-07-13 code-execution-2025-05-22 compact-2026-01-12 compact-2026-09-04 computer-use-2024-10-22
computer-use-2025-01-24 computer-use-2025-11-24 context-1m-2025-08-07 context-management-2025-06-27
dev-full-thinking-2025-05-14 dreaming-2026-04-21 efs-2026-10-01 experimental-claude-tag-2026-10-21
extended-cache-ttl-2025-04-11 fallback-credit-2026-06-01 fallback-credit-2026-07-01 fast-mode-2026-02-01
files-api-2025-04-14 google-managed-data-controls-2026-09-01 inline-tools-2026-09-15 interleaved-thinking-2025-05-14
managed-agents-2026-04-01 mcp-client-2025-04-04 mcp-client-2025-11-20 mcp-client-2026-09-15 mcp-tunnels-2026-06-22
message-batches-2024-09-24 message-threads-2026-08-12 mid-conversation-output-config-2026-07-01
mid-conversation-system-clear-at-2026-08-21 mid-conversation-tool-changes-2026-07-01
model-context-window-exceeded-2025-08-26 output-128k-2025-02-19 output-300k-2026-03-24 pdfs-2024-09-25
prompt-caching-2024-07-31 server-side-fallback-2026-06-01 server-side-fallback-2026-07-01 skills-2025-10-02
spend-limit-reads-2026-09-26 structured-outputs-2025-11-13 task-budgets-2026-03-13 telemetry-destinations-2026-08-11
thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18 thinking-token-count-2026-05-13
token-counting-2024-11-01 token-efficient-tools-2025-02-19 user-profiles-2026-03-24 user-profiles-2026-08-18
user-profiles-2026-09-04 user-profiles-billing-2026-10-01 webhooks-2026-10-07
`;
/** From the code of the SDK, Claude Code and the Vercel AI SDK. */
const OTHER_BETAS = `
advanced-tool-use-2025-11-20 afk-mode-2026-01-31 cache-keepalive-2026-09-03 claude-code-20250219
claude-code-side-query-2026-09-29 code-execution-2025-08-25 code-execution-web-tools-2026-02-09
context-hint-2026-04-09 dangerous-tool-use-2026-09-03 effort-2025-11-24 fine-grained-tool-streaming-2025-05-14
mcp-servers-2025-12-04 mid-conversation-system-2026-04-07 oauth-2025-04-20 oidc-federation-2026-04-01
per-turn-control-2026-07-01 prompt-caching-evict-2026-05-12 prompt-caching-scope-2026-01-05 redact-thinking-2026-02-12
request-tags-2026-08-21 structured-outputs-2025-12-15 thinking-resumption-2026-07-17 timing-2026-09-09
tool-provenance-2026-10-26 tool-search-tool-2025-10-19 web-fetch-2025-09-10 web-search-2025-03-05
`;
export const BETAS: ReadonlySet<string> = new Set(`${SDK_BETAS} ${OTHER_BETAS}`.trim().split(/\s+/));

export const BINDING_BETA = "thinking-binding-controls-2026-08-01";

/** Any beta whose name begins like this unlocks the field. */
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
  const unknown = betas.filter((name) => !BETAS.has(name)).map((name) => `\`${name}\``);
  if (unknown.length > 0)
    reject(
      "beta header",
      `Unexpected value(s) ${unknown.join(", ")} for the \`anthropic-beta\` header. Please consult our documentation at docs.claude.com or try again without the header.`,
    );
  return betas;
}

/** Rejects a field whose beta header is missing, as if the API had never heard of it. */
export function checkBetaFields(request: Anthropic.MessageCreateParams, betas: string[]): void {
  const has = (prefixes: string[]) => betas.some((name) => prefixes.some((prefix) => name.startsWith(prefix)));
  const needs = (isSent: boolean, field: string, prefixes: string[]) => {
    if (isSent && !has(prefixes)) reject("field unknown", `${field}: Extra inputs are not permitted`);
  };
  for (const [field, prefixes] of Object.entries(BETAS_OF_FIELD)) needs(field in request, field, prefixes);
  const isBound = request.thinking !== undefined && "block_binding" in request.thinking;
  needs(isBound, "thinking.adaptive.block_binding", [BINDING_BETA]);
  for (const [i, message] of request.messages.entries())
    needs("output_config" in message, `messages.${i}.output_config`, EFFORT_BETAS);
}
