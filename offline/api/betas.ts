/** Beta headers, and the fields that need one. */
import { reject } from "./errors.ts";

export const BINDING_BETA = "thinking-binding-controls-2026-08-01";

/** The field needs a beta whose name begins with one of these. */
export const BETAS_OF_FIELD = new Map([
  ["billing_policy", ["user-profiles-billing-"]],
  ["compaction", ["compact-2026-09-04"]],
  ["context_management", ["context-management-", "compact-2026-01-12"]],
  ["fallback_credit_token", ["fallback-credit-"]],
  ["fallbacks", ["server-side-fallback-"]],
  ["mcp_servers", ["mcp-client-"]],
  ["output_format", ["structured-outputs-"]],
  ["thread", ["message-threads-"]],
]);
export const BETAS_OF_EFFORT = ["mid-conversation-output-config-", "per-turn-control-"];

/** Returns the names in the header. Any that ends in a date may be a beta. */
export function readBetas(header: string | string[] | undefined): string[] {
  const betas = String(header ?? "")
    .split(/\s*,\s*/)
    .filter(Boolean);
  const unknown = betas.filter((name) => !/-\d{4}-?\d\d-?\d\d$/.test(name));
  if (unknown.length > 0) reject("beta header", unknown.map((name) => `\`${name}\``).join(", "));
  return betas;
}
