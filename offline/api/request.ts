/** The border: turns a body into a typed request, or rejects it. */
import type { z } from "zod";
import { checkBeta } from "./betas.ts";
import { reject } from "./errors.ts";
import { mostOutput } from "./models.ts";
import { type Block, Body, CountBody, IGNORED, type Message } from "./schema.ts";

const MAX_DEPTH = 200; // levels; the real limit isn't documented

export function parseJson(body: string) {
  try {
    const value = JSON.parse(body);
    checkJson(value, []);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return reject("body is JSON", error.message);
  }
}

/** Rejects what JavaScript takes for JSON and the API doesn't: half a surrogate pair, and very deep nesting. */
function checkJson(value: unknown, path: string[]): void {
  if (typeof value === "string" && !value.isWellFormed()) reject("body is JSON", "no low surrogate in string");
  if (!isRecord(value)) return;
  if (path.length > MAX_DEPTH) reject("body is JSON", `recursion limit exceeded at ${path.slice(0, 8).join(".")}`);
  for (const [key, inner] of Object.entries(value)) {
    checkJson(key, path);
    checkJson(inner, [...path, key]);
  }
}

const isRecord = (value: unknown): value is Record<PropertyKey, unknown> => typeof value === "object" && value !== null;

/** A block and its path in the request, such as `messages.0.content.1`. */
export type Placed = { block: Block; message: number; at: string };
export type Turn = { role: Message["role"]; blocks: Placed[] };
type Fields = z.output<typeof CountBody>;
export type ParsedRequest = z.output<typeof Body> & { turns: Turn[]; betas: string[] };

/** Returns the request in a body. One that counts tokens is treated as if it asked for the longest reply. */
export function parseRequest(body: unknown, betas: string[], isCount: boolean): ParsedRequest {
  const schema = isCount ? CountBody : Body;
  const { data, error } = schema.safeParse(body, { reportInput: true });
  if (error) return rejectIssue(error.issues[0], [], body);
  checkFields(Object(body), schema.shape, data, betas);
  return { max_tokens: mostOutput(data.model), stream: false, ...data, turns: turnsOf(data.messages), betas };
}

/** Merges consecutive messages of the same role. Messages without content are left out. */
function turnsOf(messages: Message[]): Turn[] {
  const turns: Turn[] = [];
  for (const [message, { role, content }] of messages.entries()) {
    if (content.length === 0) continue;
    if (turns.at(-1)?.role !== role) turns.push({ role, blocks: [] });
    for (const [i, block] of content.entries())
      turns.at(-1)?.blocks.push({ block, message, at: `messages.${message}.content.${i}` });
  }
  return turns;
}

/** Rejects unknown fields, among them those whose beta header is missing. */
function checkFields(body: object, known: object, { thinking, messages }: Fields, betas: string[]): void {
  for (const field of Object.keys(body))
    if (!Object.hasOwn(known, field) && !IGNORED.includes(field)) checkBeta(betas, field);
  if (thinking && "block_binding" in thinking) checkBeta(betas, "block_binding", "thinking.adaptive.block_binding");
  for (const [i, message] of messages.entries())
    if ("output_config" in message) checkBeta(betas, "messages.output_config", `messages.${i}.output_config`);
}

const NOUNS: Record<string, string> = { int: "integer", object: "dictionary", record: "dictionary" };

const asText = (value: unknown) => (typeof value === "string" ? value : `${JSON.stringify(value)}`); // String() may throw
const quoted = (values: unknown) => (Array.isArray(values) ? values.map((value) => `'${value}'`) : []);
/** Joins values as in 'a', 'b' or 'c'. */
const either = (values: unknown) => new Intl.ListFormat("en-GB", { type: "disjunction" }).format(quoted(values));

/** Rejects a body in the API's words for an issue of zod's. `outside` is the path to the value that the issue is about. */
function rejectIssue(issue: z.core.$ZodIssue | undefined, outside: PropertyKey[], body: unknown): never {
  if (!issue) throw new Error("a body that isn't valid has no issue");
  const path = [...outside, ...issue.path];
  const at = apiPath(path, body);
  if (issue.code === "unrecognized_keys") reject("field unknown", apiPath([...path, ...issue.keys.slice(0, 1)], body));
  if (issue.code === "invalid_union") rejectUnion(issue, path, body);
  if (issue.input === undefined) reject("field missing", at);
  switch (issue.code) {
    case "invalid_value":
      return reject("field value", at, either(issue.values));
    case "invalid_format":
      if (issue.format === "base64") reject("image data", at);
      return reject("field pattern", at, String(issue.pattern).slice(1, -1));
    case "too_small":
      if (issue.origin === "string") reject("length of a string", at, `at least ${issue.minimum} character`);
      return reject("number too small", at, `${issue.minimum}`);
    case "too_big":
      if (issue.origin === "string") reject("length of a string", at, `at most ${issue.maximum} characters`);
      if (issue.origin === "array") reject("list too long", at, `${issue.maximum}`);
      return reject("field type", at, "integer"); // above 2^53
    case "invalid_type":
      return reject("field type", at, NOUNS[issue.expected] ?? issue.expected);
    default:
      return reject("field type", at, "value");
  }
}

/** Rejects a value that is none of several kinds. For one without a discriminator, the last kind's problem is named. */
function rejectUnion(issue: z.core.$ZodIssueInvalidUnion, path: PropertyKey[], body: unknown): never {
  const { discriminator, errors, input } = issue;
  const last = errors.at(-1)?.[0];
  if (last) rejectIssue(last, path, body);
  const tag = asText(isRecord(input) && discriminator && input[discriminator]);
  if (discriminator === "role") reject("role of a message", tag);
  const tags = quoted("options" in issue && issue.options).join(", ");
  return reject("kind of block", apiPath(path.slice(0, -1), body), tag, tags);
}

/** Writes a path as the API does, with the types of blocks, sources, tools and thinking: thinking.adaptive.foo */
function apiPath(path: PropertyKey[], body: unknown): string {
  const words: string[] = [];
  let value = body;
  for (const [i, key] of path.entries()) {
    value = isRecord(value) ? value[key] : undefined;
    words.push(String(key));
    const isLast = i === path.length - 1;
    if (!isLast) words.push(...tagOf(path[i - 1], key, value));
  }
  return words.join(".");
}

function tagOf(parent: PropertyKey | undefined, key: PropertyKey, value: unknown): string[] {
  const isBlock = parent === "content" && typeof key === "number";
  const isThinking = parent === undefined && key === "thinking";
  if (isRecord(value) && (isBlock || isThinking || key === "source")) return [asText(value.type)];
  return parent === "tools" ? ["custom"] : [];
}
