/** Follows the events of a recording: which blocks were in the context at each model call, and before and after each compaction. */
import { type Block, type Call, type Event, type Message, type Rewrite, textOf } from "./events.ts";
import { groupBy, sum } from "./numbers.ts";
import type { Compaction, Context, ContextBlock, Timeline } from "./timeline.ts";

/** A model call with its prompt, its reply, and when it was sent. */
export type Asked = Context & {
  call: Call;
  reply?: Message;
  sent?: number;
  request: number; // the index of the newest of the user's requests
};
export type Replaced = Pick<Compaction, "modelCall" | "trigger" | "isSummary"> & {
  before: Context;
  after: Context;
  tokensBefore?: number; // if the file says so
  call?: Call; // what wrote the summary
};
export type Followed = Pick<Timeline, "blocks" | "requests"> & { asked: Asked[]; compactions: Replaced[] };
type State = Followed & {
  now: Context;
  time?: number; // of the newest message
};

export function followEvents(events: Event[]): Followed {
  const state: State = { blocks: [], requests: [], asked: [], compactions: [], now: contextOf([]) };
  for (const [i, event] of events.entries()) {
    const before = events[i - 1];
    if (event.type === "call") askModel(state, event);
    else if (event.type === "message") addMessage(state, event);
    else rewriteHistory(state, event, before?.type === "call");
  }
  return state;
}

export const charsIn = (blocks: Block[]) => sum(blocks.map(({ chars }) => chars));
const contextOf = (epoch: ContextBlock[]): Context => ({ epoch, length: epoch.length, chars: charsIn(epoch) });

function place({ blocks }: State, block: Block): ContextBlock {
  const placed = { ...block, id: blocks.length };
  blocks.push(placed);
  return placed;
}

// --- calls and messages ----------------------------------------------------------------------------------------------

function askModel({ asked, requests, now, time }: State, call: Call): void {
  asked.push({ ...now, call, sent: time ?? call.time, request: requests.length - 1 });
}

function addMessage(state: State, message: Message): void {
  const blocks = message.blocks.map((block) => place(state, block));
  const request = requestIn(blocks);
  if (request) state.requests.push({ modelCall: state.asked.length, block: request });
  const last = state.asked.at(-1);
  if (last && message.role === "assistant") last.reply = message;
  state.time = message.time ?? state.time;
  extend(state, blocks);
}

/** Images can come before the words. */
const requestIn = (blocks: ContextBlock[]): ContextBlock | undefined =>
  blocks.find((block) => block.kind === "request" && !block.standsFor) ?? blocks.find(({ kind }) => kind === "request");

/** The contexts of an epoch share its blocks, and each has a length of its own: a copy for each call would be too much. */
function extend(state: State, blocks: ContextBlock[]): void {
  const { epoch, chars } = state.now;
  epoch.push(...blocks);
  state.now = { epoch, length: epoch.length, chars: chars + charsIn(blocks) };
}

// --- compactions -----------------------------------------------------------------------------------------------------

/** Messages take the place of the context. A block that was in it before stays the same block. */
function rewriteHistory(state: State, { messages, trigger, tokensBefore }: Rewrite, isAfterCall: boolean): void {
  const old = groupBy(state.now.epoch, keyOf);
  const isNewSummary = ({ by, blocks: [first] }: Message) => by === "summary" && first && !old.has(keyOf(first));
  const summaries = new Set(messages.filter(isNewSummary));
  const blocks: ContextBlock[] = [];
  // Backwards, because of two blocks that say the same the newer one stays.
  for (const message of messages.toReversed())
    for (const block of message.blocks.toReversed()) {
      const found = summaries.has(message) ? undefined : old.get(keyOf(block))?.pop(); // a new summary has files of its own
      blocks.push(found ?? place(state, block));
    }
  const before = state.now;
  const after = contextOf(blocks.reverse());
  state.now = after;
  const isResumed = trigger === "resume"; // with the same history
  const isStart = before.length + after.length === 0; // after /clear
  if (isResumed || isStart) return;
  const isSummary = summaries.size > 0;
  const call = isSummary && isAfterCall ? state.asked.pop()?.call : undefined;
  state.compactions.push({ modelCall: state.asked.length, trigger, isSummary, before, after, tokensBefore, call });
}

/** Blocks with the same key say the same. */
const keyOf = (block: Block) => `${block.kind} ${"call" in block ? block.call.id : ""} ${textOf(block)}`;
