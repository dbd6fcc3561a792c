/** A recorded run as its model calls: what was added to the messages before each, and what a compaction made of them. */
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
  /** The compactions before it, each with the messages that were added before that. */
  compactions: { added: Message[]; compaction: Compaction }[];
  /** The messages that were added since then. */
  added: Message[];
  modelCall: ModelCall;
  reply: Message;
};
export type Conversation = { timeline: Timeline; calls: Call[] };
export type Run = {
  command: string;
  /** Tokens of a prompt from which the lesson compacts; 0 if it never does. */
  threshold: number;
  parent: Conversation;
  /** The subagents' conversations, in their order. */
  tasks: Conversation[];
};

/** Reads the run of a lesson that `npm run docs:sync` has recorded. */
export function readRun(lesson: string): Run {
  const text = textOfFile(`tools/docs/runs/${lesson}.jsonl`);
  const task = `tools/docs/runs/tasks/${lesson}.jsonl`;
  const { command } = JSON.parse(text.slice(0, text.indexOf("\n")));
  const parent = conversationIn(text);
  const { capacity } = parent.timeline;
  const threshold = capacity?.kind === "threshold" ? capacity.tokens : 0;
  return { command, threshold, parent, tasks: isInRepository(task) ? [conversationIn(textOfFile(task))] : [] };
}

function conversationIn(text: string): Conversation {
  const timeline = readTimeline(text);
  const { modelCalls, compactions, epochs } = timeline;
  let known: Extent = { epoch: 0, length: 0 };
  const addedUntil = ({ epoch, length }: Extent) => messagesAt(timeline, { epoch, length }, known.length);
  const calls = modelCalls.map((modelCall, i): Call => {
    const before = compactions.filter((compaction) => compaction.modelCall === i);
    const told = before.map((compaction) => {
      const added = addedUntil(compaction.before);
      known = compaction.after;
      return { added, compaction };
    });
    const added = addedUntil(modelCall);
    const length = epochs[modelCall.epoch]?.length ?? 0;
    const [reply] = messagesAt(timeline, { epoch: modelCall.epoch, length }, modelCall.length);
    if (!reply) throw new Error("a model call without a reply");
    known = { epoch: modelCall.epoch, length: modelCall.length + reply.blocks.length };
    return { compactions: told, added, modelCall, reply };
  });
  return { timeline, calls };
}

/** @throws if the run ends without a reply */
export function callAt({ calls }: Conversation, at: number): Call {
  const call = calls[at];
  if (!call) throw new Error("a run ends with a reply");
  return call;
}
