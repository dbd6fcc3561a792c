/** Checks the list of messages, above all that each tool call has exactly one result. */
import { reject } from "./errors.ts";
import { accepts } from "./models.ts";
import type { Message, ParsedRequest, Placed, Turn } from "./request.ts";

export function checkHistory({ model, messages, turns, tools }: ParsedRequest): void {
  if (messages.length === 0) reject("no messages");
  for (const [i, message] of messages.entries()) checkContent(message, `messages.${i}`);
  checkSystemMessages(messages, model);
  const blocks = turns.flatMap((turn) => turn.blocks);
  const calls = turns.flatMap(callsIn);
  if (tools.length === 0 && (calls.length > 0 || blocks.some(isResult))) reject("tools defined");
  for (const turn of turns) for (const placed of turn.blocks) checkBlock(placed, turn.role);
  const ids = new Set<string>();
  for (const { id, at } of calls) {
    if (ids.has(id)) reject("ids of calls", at);
    ids.add(id);
  }
  for (const [i, turn] of turns.entries()) {
    checkAnswered(turns[i - 1], turn);
    checkResults(turn, turns[i - 1]);
  }
  checkAnswered(turns.at(-1), undefined);
  const last = turns.at(-1);
  if (last?.role === "assistant") checkPrefill(last, model);
}

function checkPrefill({ blocks }: Turn, model: string): void {
  if (!accepts(model, "prefill")) reject("prefill");
  const block = blocks.at(-1)?.block;
  if (block?.type === "text" && /\s$/.test(block.text)) reject("end of prefill");
}

const isResult = ({ block }: Placed) => block.type === "tool_result";
const callsIn = (turn: Turn | undefined) =>
  turn?.blocks.flatMap(({ block, message, at }) => (block.type === "tool_use" ? { id: block.id, message, at } : [])) ??
  [];

function checkContent(message: Message, at: string): void {
  if (message.content.length > 0 || "output_config" in message) return;
  if (message.role === "assistant") reject("empty assistant message", at);
  reject("empty message", at, message.role);
}

/** Checks that no system message comes first or right before a user message. */
function checkSystemMessages(messages: Message[], model: string): void {
  for (const [i, { role, content }] of messages.entries()) {
    if (role !== "system") continue;
    if (!accepts(model, "system")) reject("system role on old models");
    if (content.length === 0) continue;
    const isFirst = messages.slice(0, i).every((message) => message.role === "system");
    if (isFirst) reject("system message first", `messages.${i}`);
    if (messages[i + 1]?.role === "user") reject("system message before user", `messages.${i}`);
  }
}

function checkBlock({ block, at }: Placed, role: string): void {
  if (block.type === "text" && block.text === "") reject("empty text");
  if (block.type === "text" && !block.text.trim()) reject("blank text");
  if (role === "user" && ["thinking", "redacted_thinking", "tool_use"].includes(block.type))
    reject("role of a block", at, block.type, "assistant");
  if (block.type !== "tool_result") return;
  if (role !== "user") reject("role of a block", at, block.type, "user");
  if (block.is_error && block.content.length === 0) reject("reason of an error", at);
}

/** Checks that the next turn begins with the results of all calls. */
function checkAnswered(turn: Turn | undefined, next: Turn | undefined): void {
  const answered = new Set<string>();
  for (const { block } of next?.blocks ?? []) {
    if (block.type !== "tool_result") break;
    answered.add(block.tool_use_id);
  }
  const open = callsIn(turn).filter(({ id }) => !answered.has(id));
  const ids = open.map(({ id }) => id).join(", ");
  if (open[0]) reject("call without result", `messages.${open[0].message}`, ids);
}

/** Checks that each result has a call in the turn before, and is the only one of it. */
function checkResults({ blocks }: Turn, previous: Turn | undefined): void {
  const calls = new Set(callsIn(previous).map(({ id }) => id));
  const seen = new Set<string>();
  for (const { block, at } of blocks) {
    if (block.type !== "tool_result") continue;
    const id = block.tool_use_id;
    if (!calls.has(id)) reject("result without call", at, id);
    if (seen.has(id)) reject("one result a call", at, id);
    seen.add(id);
  }
}
