/** The API's errors: a code, a status and the words for each rule. */

const SYSTEM_ANYWHERE = "the directive-only form (content: [] with output_config) is accepted at any position";
const SCHEMA_HELP =
  "It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview.";

/** What the API says about a request that breaks a rule. `at` is a path, and `cases.ts` has requests for each rule. */
const MESSAGES = {
  credential: () => "x-api-key header is required",
  version: () => "anthropic-version: header is required",
  "body size": () => "Request exceeds the maximum size",
  "body is JSON": (reason) => `The request body is not valid JSON: ${reason}`,
  "field missing": (at) => `${at}: Field required`,
  "field unknown": (at) => `${at}: Extra inputs are not permitted`,
  "field type": (at, noun) => `${at}: Input should be a valid ${noun}`,
  "field value": (at, values) => `${at}: Input should be ${values}`,
  "field pattern": (at, pattern) => `${at}: String should match pattern '${pattern}'`,
  "number too small": (at, least) => `${at}: must be greater than or equal to ${least}`,
  "list too long": (at, most) => `${at}: List should have at most ${most} items after validation`,
  "length of a string": (at, length) => `${at}: String should have ${length}`,
  "kind of block": (at, tag, tags) =>
    `${at}: Input tag '${tag}' found using 'type' does not match any of the expected tags: ${tags}`,
  "image data": (at) => `${at}: invalid base64 data`,
  "tool schema": (at) => `${at}: JSON schema is invalid. ${SCHEMA_HELP}`,
  "schema combination": (at) => `${at}: input_schema does not support oneOf, allOf, or anyOf at the top level`,
  "property name": (at) => `${at}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`,
  "cache of empty text": (at) => `${at}: cache_control cannot be set for empty text blocks`,
  "stop sequence": () => "stop_sequences: each stop sequence must contain non-whitespace",
  "temperature range": () => "temperature: range: 0..1",
  "thinking budget": () => "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
  "beta header": (names) =>
    `Unexpected value(s) ${names} for the \`anthropic-beta\` header. Please consult our documentation at docs.claude.com or try again without the header.`,
  "model name": (model) => `model: ${model}`,
  sampling: (field) => `\`${field}\` is deprecated for this model.`,
  "thinking off": () =>
    'To turn thinking off on this model, send "thinking": {"type": "between_tools"} instead of {"type": "disabled"}.',
  "thinking type": (type) =>
    `"thinking.type.${type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`,
  "thinking on old models": () => "adaptive thinking is not supported on this model",
  "budget above max_tokens": () =>
    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
  "choice without tools": () => "tool_choice.any may only be specified while providing tools",
  "chosen tool": (name) => `Tool '${name}' not found in provided tools`,
  "forced tools": () => "Thinking may not be enabled when tool_choice forces tool use.",
  "most max_tokens": (asked, most, model) =>
    `max_tokens: ${asked} > ${most}, which is the maximum allowed number of output tokens for ${model}`,
  "tool names": () => "tools: Tool names must be unique.",
  "blank system": () => "system: text content blocks must be non-empty",
  "no messages": () => "messages: at least one message is required",
  "role of a message": (role) => `messages: Unexpected role "${role}". Allowed roles are "user" or "assistant".`,
  "system role on old models": () => "role 'system' is not supported on this model",
  "system message first": (at) =>
    `${at}: use the top-level 'system' parameter for the initial system prompt; ${SYSTEM_ANYWHERE}`,
  "system message before user": (at) =>
    `${at}: role 'system' must precede an 'assistant' message or end the array; ${SYSTEM_ANYWHERE}`,
  "empty message": (at, role) => `${at}: ${role} messages must have non-empty content`,
  "empty assistant message": (at) =>
    `${at}: all messages must have non-empty content except for the optional final assistant message`,
  "empty text": () => "messages: text content blocks must be non-empty",
  "blank text": () => "messages: text content blocks must contain non-whitespace text",
  "tools defined": () => "Requests which include `tool_use` or `tool_result` blocks must define tools.",
  "role of a block": (at, type, role) => `${at}: \`${type}\` blocks can only be in \`${role}\` messages`,
  "reason of an error": (at) => `${at}.tool_result: content cannot be empty if \`is_error\` is true`,
  "ids of calls": (at) => `${at}: \`tool_use\` ids must be unique`,
  "call without result": (at, ids) =>
    `${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  "result without call": (at, id) =>
    `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
  "one result a call": (at, id) =>
    `${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
  prefill: () =>
    "This model does not support assistant message prefill. The conversation must end with a user message.",
  "end of prefill": () => "messages: final assistant content cannot end with trailing whitespace",
  "cache breakpoints": (count) => `A maximum of 4 blocks with cache_control may be provided. Found ${count}.`,
  "cache lifetimes": (at) =>
    `${at}.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: \`tools\`, \`system\`, \`messages\`.`,
  "prompt too long": (tokens, most) => `prompt is too long: ${tokens} tokens > ${most} maximum`,
  "thinking binding": (at) =>
    `${at}: Invalid \`signature\` in \`thinking\` block. The block is bound to a different conversation. Remove the block, or set \`thinking.block_binding.prefix_mismatch_behavior\` to "drop_block".`,
} satisfies Record<string, (...parts: string[]) => string>;
export type Rule = keyof typeof MESSAGES;
/** The codes of all rules. */
export const RULES: string[] = Object.keys(MESSAGES);

const STATUSES: { [rule in Rule]?: Status } = { credential: 401, "body size": 413, "model name": 404 };

type Status = keyof typeof ERRORS;
const ERRORS = {
  400: { type: "invalid_request_error", message: "Bad request" },
  401: { type: "authentication_error", message: "invalid x-api-key" },
  404: { type: "not_found_error", message: "Not Found" },
  413: { type: "request_too_large", message: MESSAGES["body size"]() },
  429: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit." },
  500: { type: "api_error", message: "Internal server error" },
  529: { type: "overloaded_error", message: "Overloaded" },
};

export class Rejection extends Error {
  readonly status: Status;
  /** Undefined for a failure that was ordered or a path that doesn't exist. */
  readonly rule?: Rule;
  constructor(status: Status, message: string = ERRORS[status].message, rule?: Rule) {
    super(message);
    this.status = status;
    this.rule = rule;
  }
}

/** What a rule's message names. */
export type Parts<R extends Rule> = Parameters<(typeof MESSAGES)[R]>;

/** Returns the Rejection of a request that breaks a rule. */
export function rejectionFor<R extends Rule>(rule: R, ...parts: Parts<R>): Rejection {
  const write: (...parts: string[]) => string = MESSAGES[rule];
  return new Rejection(STATUSES[rule] ?? 400, write(...parts).replace(/^: /, ""), rule);
}

export function reject<R extends Rule>(rule: R, ...parts: Parts<R>): never {
  throw rejectionFor(rule, ...parts);
}

export const errorBody = ({ status, message }: Rejection, request_id: string): string =>
  JSON.stringify({ type: "error", error: { type: ERRORS[status].type, message }, request_id });
