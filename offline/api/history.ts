/** Checks the list of messages, above all that each tool call has exactly one result. */
import { reject } from "./errors.ts";
import { accepts } from "./models.ts";
import type { ParsedRequest, Placed, Turn } from "./request.ts";
import type { Block, Message } from "./schema.ts";

export function checkHistory({ model, messages, turns, tools }: ParsedRequest): void {
  if (messages.length === 0) reject("no messages");
  for (const [i, message] of messages.entries()) checkContent(message, `messages.${i}`);
  checkSystemMessages(messages, model);
  const blocks = turns.flatMap((turn) => turn.blocks);
  const usesTools = callsIn(blocks).length > 0 || resultsIn(blocks).length > 0;
  if (usesTools && tools.length === 0) reject("tools defined");
  for (const turn of turns) for (const placed of turn.blocks) checkBlock(placed, turn.role);
  const ids = new Set<string>();
  for (const { id, at } of callsIn(blocks)) {
    if (ids.has(id)) reject("ids of calls", at);
    ids.add(id);
  }
  for (let i = 0; i <= turns.length; i++) checkResults(turns[i - 1]?.blocks ?? [], turns[i]?.blocks ?? []);
  const last = turns.at(-1);
  if (last?.role === "assistant") checkPrefill(last, model);
}

const callsIn = (blocks: Placed[]) =>
  blocks.flatMap(({ block, message, at }) => (block.type === "tool_use" ? { id: block.id, message, at } : []));
const resultsIn = (blocks: Placed[]) =>
  blocks.flatMap(({ block, at }) => (block.type === "tool_result" ? { id: block.tool_use_id, at } : []));

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
  if (isCachedEmpty(block)) reject("cache of empty text", `${at}.text`);
  if (block.type === "text" && block.text === "") reject("empty text");
  if (block.type === "text" && !block.text.trim()) reject("blank text");
  if (role === "user" && ["thinking", "redacted_thinking", "tool_use"].includes(block.type))
    reject("role of a block", at, block.type, "assistant");
  if (block.type !== "tool_result") return;
  if (role !== "user") reject("role of a block", at, block.type, "user");
  if (block.is_error && block.content.length === 0) reject("reason of an error", at);
  const i = block.content.findIndex(isCachedEmpty);
  if (i >= 0) reject("cache of empty text", `${at}.tool_result.content.${i}.text`);
}

const isCachedEmpty = (block: Block) => block.type === "text" && block.text === "" && Boolean(block.cache_control);

/** Checks that a turn begins with one result for each call of the turn before, and has no others. */
function checkResults(previous: Placed[], turn: Placed[]): void {
  const firstOther = turn.findIndex(({ block }) => block.type !== "tool_result");
  const first = firstOther < 0 ? turn : turn.slice(0, firstOther);
  const answered = new Set(resultsIn(first).map(({ id }) => id));
  const calls = callsIn(previous);
  const open = calls.filter(({ id }) => !answered.has(id));
  const ids = open.map(({ id }) => id).join(", ");
  if (open[0]) reject("call without result", `messages.${open[0].message}`, ids);
  const called = new Set(calls.map(({ id }) => id));
  const seen = new Set<string>();
  for (const { id, at } of resultsIn(turn)) {
    if (!called.has(id)) reject("result without call", at, id);
    if (seen.has(id)) reject("one result a call", at, id);
    seen.add(id);
  }
}

function checkPrefill({ blocks }: Turn, model: string): void {
  if (!accepts(model, "prefill")) reject("prefill");
  const block = blocks.at(-1)?.block;
  if (block?.type === "text" && /\s$/.test(block.text)) reject("end of prefill");
}
