/** Turns the server's journal into a trace, for the lessons that write no transcript of their own. */
import type { JournalEntry } from "../api/server.ts";

/**
 * Each message of a conversation as a line of a trace, in the order in which they were sent.
 * @returns JSON lines; those of a subagent, which has a system prompt of its own, have `task: true`
 */
export function traceOf(journal: JournalEntry[]): string[] {
  const lines: string[] = [];
  const known = { parent: 0, task: 0 }; // messages written so far
  for (const [i, { request, reply = [], usage }] of journal.entries()) {
    const isTask = request.system !== journal[0]?.request.system;
    const agent = isTask ? "task" : "parent";
    const add = (message: object, state: object) =>
      lines.push(JSON.stringify({ message, ...(isTask && { task: true }), model: request.model, state }));
    for (const message of request.messages.slice(known[agent])) add(message, { lastCall: i });
    add({ role: "assistant", content: reply }, { lastCall: i + 1, usage });
    known[agent] = request.messages.length + 1;
    if (!isTask) known.task = 0; // the next subagent begins with nothing
  }
  return lines;
}
