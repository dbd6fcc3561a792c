/** Beta headers, and the fields that need one. */
import { reject } from "./errors.ts";

/** How the names of the betas begin that allow a field. */
const BETAS_OF = new Map([
  ["billing_policy", ["user-profiles-billing-"]],
  ["block_binding", ["thinking-binding-controls-"]],
  ["compaction", ["compact-2026-09-04"]],
  ["context_management", ["context-management-", "compact-2026-01-12"]],
  ["fallback_credit_token", ["fallback-credit-"]],
  ["fallbacks", ["server-side-fallback-"]],
  ["mcp_servers", ["mcp-client-"]],
  ["messages.output_config", ["mid-conversation-output-config-", "per-turn-control-"]],
  ["output_format", ["structured-outputs-"]],
  ["thread", ["message-threads-"]],
]);

/** Rejects a field as unknown unless one of the betas allows it. */
export function checkBeta(betas: string[], field: string, at = field): void {
  const beginnings = BETAS_OF.get(field) ?? [];
  if (!betas.some((name) => beginnings.some((beginning) => name.startsWith(beginning)))) reject("field unknown", at);
}

/** Returns the names in the header. Any that ends in a date may be a beta. */
export function readBetas(header: string | string[] | undefined): string[] {
  const names = String(header ?? "").split(",");
  const betas = names.map((name) => name.trim()).filter(Boolean);
  const unknown = betas.filter((name) => !/-\d{4}-?\d\d-?\d\d$/.test(name));
  if (unknown.length > 0) reject("beta header", unknown.map((name) => `\`${name}\``).join(", "));
  return betas;
}
