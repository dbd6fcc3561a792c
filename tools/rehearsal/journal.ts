/** Shows what is in the server's journal: a model call as JSON, or a whole conversation as a trace. */
import stringify from "json-stringify-pretty-compact";
import type { JournalEntry } from "../api/server.ts";

const LONGEST = 200; // characters of a text
const WIDTH = 140; // characters of a line

const shortenText = (_: string, value: unknown) =>
  typeof value === "string" && value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
const showJson = (value: unknown) => stringify(value, { maxLength: WIDTH, replacer: shortenText });

/** Shows the request of a model call, and the reply as it was once the stream had ended. */
export function showCall({ request, status, error, reply, stop_reason, usage }: Partial<JournalEntry>): string {
  const counts = Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => typeof count === "number"));
  const answer = error ? { error } : { role: "assistant", content: reply, stop_reason, usage: counts };
  return `POST /v1/messages ${showJson(request)}\n${status} ${showJson(answer)}`;
}

/**
 * Returns a JSON line for each message, in the order they were sent. The first has the system prompt, and those of a subagent,
 * which has one of its own, have `task: true`.
 */
export function traceOf(journal: JournalEntry[]): string[] {
  const lines: string[] = [];
  const known = { parent: 0, task: 0 }; // messages written so far
  for (const [i, { request, reply = [], usage }] of journal.entries()) {
    const isTask = request.system !== journal[0]?.request.system;
    const agent = isTask ? "task" : "parent";
    const { model, system } = request;
    const add = (message: object, state: object) => {
      const more = isTask ? { task: true } : lines.length === 0 && { system };
      lines.push(JSON.stringify({ message, ...more, model, state }));
    };
    for (const message of request.messages.slice(known[agent])) add(message, { lastCall: i });
    add({ role: "assistant", content: reply }, { lastCall: i + 1, usage });
    known[agent] = request.messages.length + 1;
    if (!isTask) known.task = 0; // the next subagent begins with nothing
  }
  return lines;
}
