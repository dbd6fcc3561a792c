/** Splits a recorded run into its model calls, each with the messages and compactions that came before it. */
import { readTimeline } from "../../trace/read-timeline.ts";
import {
  type Compaction,
  type Extent,
  type Message,
  type ModelCall,
  messagesAt,
  type Timeline,
} from "../../trace/timeline.ts";
import { isInRepository, textOfFile } from "../.vitepress/files.ts";

export type Call = {
  /** The compactions since the previous model call, each with the messages that were added before it. */
  compactions: { added: Message[]; compaction: Compaction }[];
  /** The messages that were added after the last of these compactions. */
  added: Message[];
  modelCall: ModelCall;
  reply: Message;
};
export type Conversation = { timeline: Timeline; calls: Call[] };
export type Run = {
  command: string;
  /** The prompt size in tokens where compaction begins, or 0 if the lesson doesn't compact. */
  threshold: number;
  parent: Conversation;
  subagent?: Conversation;
  /** The model calls of the lesson and its subagent. */
  calls: Call[];
};

/** Reads the run of a lesson that `npm run docs:sync` has recorded. */
export function readRun(lesson: string): Run {
  const text = textOfFile(`tools/docs/runs/${lesson}.jsonl`);
  const task = `tools/docs/runs/tasks/${lesson}.jsonl`;
  const { command } = JSON.parse(text.slice(0, text.indexOf("\n")));
  const parent = conversationIn(text);
  const subagent = isInRepository(task) ? conversationIn(textOfFile(task)) : undefined;
  const { capacity } = parent.timeline;
  const threshold = capacity?.kind === "threshold" ? capacity.tokens : 0;
  return { command, threshold, parent, subagent, calls: [...parent.calls, ...(subagent?.calls ?? [])] };
}

function conversationIn(text: string): Conversation {
  const timeline = readTimeline(text);
  const { modelCalls, compactions, epochs } = timeline;
  let known: Extent = { epoch: 0, length: 0 };
  const addedUntil = ({ epoch, length }: Extent) => messagesAt(timeline, { epoch, length }, known.length);
  const calls = modelCalls.map((modelCall, i): Call => {
    const before = compactions.filter((compaction) => compaction.modelCall === i);
    const withMessages = before.map((compaction) => {
      const added = addedUntil(compaction.before);
      known = compaction.after;
      return { added, compaction };
    });
    const added = addedUntil(modelCall);
    const length = epochs[modelCall.epoch]?.length ?? 0;
    const [reply] = messagesAt(timeline, { epoch: modelCall.epoch, length }, modelCall.length);
    if (!reply) throw new Error("a model call without a reply");
    known = { epoch: modelCall.epoch, length: modelCall.length + reply.blocks.length };
    return { compactions: withMessages, added, modelCall, reply };
  });
  return { timeline, calls };
}
