/** The API's errors, and the rules behind them. */

/** `cases.ts` has accepted and rejected requests for each of these. */
export const RULES = [
  "credential",
  "version",
  "body size",
  "body is JSON",
  "field missing",
  "field unknown",
  "field type",
  "field value",
  "field pattern",
  "number too small",
  "list too long",
  "length of a string",
  "kind of block",
  "image data",
  "tool schema",
  "beta header",
  "model name",
  "sampling",
  "thinking type",
  "thinking on old models",
  "forced tools",
  "most max_tokens",
  "tool names",
  "blank system",
  "no messages",
  "role of a message",
  "system role on old models",
  "place of a system message",
  "empty message",
  "blank text",
  "tools defined",
  "role of a block",
  "reason of an error",
  "ids of calls",
  "call without result",
  "result without call",
  "one result a call",
  "prefill",
  "cache breakpoints",
  "prompt too long",
  "thinking binding",
] as const;
export type Rule = (typeof RULES)[number];

const ERRORS = {
  400: { type: "invalid_request_error", message: "Bad request" },
  401: { type: "authentication_error", message: "invalid x-api-key" },
  404: { type: "not_found_error", message: "Not Found" },
  413: { type: "request_too_large", message: "Request exceeds the maximum size" },
  429: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit." },
  500: { type: "api_error", message: "Internal server error" },
  529: { type: "overloaded_error", message: "Overloaded" },
};

export class Rejection extends Error {
  readonly status: keyof typeof ERRORS;
  /** Undefined for a failure that was ordered or a path that doesn't exist. */
  readonly rule?: Rule;
  constructor(status: keyof typeof ERRORS, message: string = ERRORS[status].message, rule?: Rule) {
    super(message);
    this.status = status;
    this.rule = rule;
  }
}

export function reject(rule: Rule, message: string): never {
  throw new Rejection(400, message, rule);
}

export const errorBody = ({ status, message }: Rejection, request_id: string): string =>
  JSON.stringify({ type: "error", error: { type: ERRORS[status].type, message }, request_id });
