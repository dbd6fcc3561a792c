/** Checks the list of messages, above all that each tool call has exactly one result. */
import type Anthropic from "@anthropic-ai/sdk";
import { accepts } from "./models.ts";
import { reject } from "./rejection.ts";

/** A block and its path in the request, such as `messages.0.content.1`. */
type Placed = { block: Anthropic.ContentBlockParam; message: number; at: string };
type Turn = { role: string; blocks: Placed[] };

/** Returns content as blocks. A string counts as one text block. */
export const contentBlocks = (content: Anthropic.MessageParam["content"]): Anthropic.ContentBlockParam[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

/** Merges consecutive messages of the same role, as the API does. Messages without content are left out. */
export function turnsOf(messages: Anthropic.MessageParam[]): Turn[] {
  const turns: Turn[] = [];
  for (const [message, { role, content = [] }] of messages.entries()) {
    if (content.length === 0) continue;
    if (turns.at(-1)?.role !== role) turns.push({ role, blocks: [] });
    for (const [i, block] of contentBlocks(content).entries())
      turns.at(-1)?.blocks.push({ block, message, at: `messages.${message}.content.${i}` });
  }
  return turns;
}

export function checkHistory({ model, messages, tools }: Anthropic.MessageCreateParams): void {
  checkMessages(messages);
  checkSystemMessages(messages, model);
  const turns = turnsOf(messages);
  const blocks = turns.flatMap((turn) => turn.blocks);
  if (!tools?.length && blocks.some(({ block }) => block.type === "tool_use" || block.type === "tool_result"))
    reject("tools defined", "Requests which include `tool_use` or `tool_result` blocks must define tools.");
  for (const turn of turns) for (const placed of turn.blocks) checkBlock(placed, turn.role);
  checkCallIds(blocks);
  for (const [i, turn] of turns.entries()) checkResults(turn, turns[i - 1]);
  checkLastTurn(turns.at(-1), model);
}

function checkMessages(messages: Anthropic.MessageParam[]): void {
  if (messages.length === 0) reject("no messages", "messages: at least one message is required");
  for (const [i, { role, content = [], ...rest }] of messages.entries()) {
    if (content.length > 0 || "output_config" in rest) continue;
    const rule = role === "assistant" ? "all messages" : `${role} messages`;
    const exception = role === "assistant" ? " except for the optional final assistant message" : "";
    reject("empty message", `messages.${i}: ${rule} must have non-empty content${exception}`);
  }
}

const ANYWHERE = "the directive-only form (content: [] with output_config) is accepted at any position";

/** Checks that no system message comes first or right before a user message. */
function checkSystemMessages(messages: Anthropic.MessageParam[], model: string): void {
  for (const [i, { role, content = [] }] of messages.entries()) {
    if (role !== "system") continue;
    if (!accepts(model, "system")) reject("system role on old models", "role 'system' is not supported on this model");
    if (content.length === 0) continue;
    if (messages.slice(0, i).every((message) => message.role === "system"))
      reject(
        "place of a system message",
        `messages.${i}: use the top-level 'system' parameter for the initial system prompt; ${ANYWHERE}`,
      );
    if (messages[i + 1]?.role === "user")
      reject(
        "place of a system message",
        `messages.${i}: role 'system' must precede an 'assistant' message or end the array; ${ANYWHERE}`,
      );
  }
}

function checkBlock({ block, at }: Placed, role: string): void {
  const { type } = block;
  if (type === "text" && !block.text.trim())
    reject(
      "blank text",
      `messages: text content blocks must ${block.text ? "contain non-whitespace text" : "be non-empty"}`,
    );
  if (type === "tool_result" && role !== "user")
    reject("role of a block", `${at}: \`tool_result\` blocks can only be in \`user\` messages`);
  if (role === "user" && ["thinking", "redacted_thinking", "tool_use"].includes(type))
    reject("role of a block", `${at}: \`${type}\` blocks can only be in \`assistant\` messages`);
  if (type === "tool_result" && block.is_error && !block.content?.length)
    reject("reason of an error", `${at}.tool_result: content cannot be empty if \`is_error\` is true`);
}

function checkCallIds(blocks: Placed[]): void {
  const ids = new Set<string>();
  for (const { block, at } of blocks) {
    if (block.type !== "tool_use") continue;
    if (ids.has(block.id)) reject("ids of calls", `${at}: \`tool_use\` ids must be unique`);
    ids.add(block.id);
  }
}

/** Checks that each call has one result at the head of the next turn, and each result a call in the turn before. */
function checkResults(turn: Turn, previous: Turn | undefined): void {
  checkAnswered(previous, turn);
  const calls = new Set(callsIn(previous).map(({ block }) => block.id));
  const seen = new Set<string>();
  for (const { block, at } of turn.blocks) {
    if (block.type !== "tool_result") continue;
    const id = block.tool_use_id;
    if (!calls.has(id))
      reject(
        "result without call",
        `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    if (seen.has(id))
      reject(
        "one result a call",
        `${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
      );
    seen.add(id);
  }
}

type PlacedCall = Placed & { block: Anthropic.ToolUseBlockParam };
const isCall = (placed: Placed): placed is PlacedCall => placed.block.type === "tool_use";
const callsIn = (turn: Turn | undefined): PlacedCall[] => turn?.blocks.filter(isCall) ?? [];

/** Checks that the next turn begins with the results of all calls. */
function checkAnswered(turn: Turn | undefined, next: Turn | undefined): void {
  const answered = new Set<string>();
  for (const { block } of next?.blocks ?? []) {
    if (block.type !== "tool_result") break;
    answered.add(block.tool_use_id);
  }
  const open = callsIn(turn).filter(({ block }) => !answered.has(block.id));
  const [first] = open;
  if (first)
    reject(
      "call without result",
      `messages.${first.message}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.map(({ block }) => block.id).join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    );
}

function checkLastTurn(turn: Turn | undefined, model: string): void {
  checkAnswered(turn, undefined);
  if (turn?.role === "assistant" && !accepts(model, "prefill"))
    reject(
      "prefill",
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
}
