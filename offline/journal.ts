/** What is in the server's journal: a model call to show as JSON, or whole conversations. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Line } from "../tools/sessions/s06.ts";
import type { JournalEntry } from "./api/server.ts";

const LONGEST = 200; // characters of a text

const shortenText = (_: string, value: unknown) =>
  typeof value === "string" && value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
const showJson = (value: unknown) => JSON.stringify(value, shortenText, 2);

/** Shows the request of a model call, and the reply as it was once the stream had ended. */
export function showCall({ request, status, error, reply, stop_reason, usage }: Partial<JournalEntry>): string {
  const counts = Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => typeof count === "number"));
  const answer = error ? { error } : { role: "assistant", content: reply, stop_reason, usage: counts };
  return `POST /v1/messages ${showJson(request)}\n${status} ${showJson(answer)}`;
}

/** Returns what a lesson and its subagents said and used, as s06 writes it into its transcripts. */
export function transcriptsOf(journal: JournalEntry[]): Record<"parent" | "task", Line[]> {
  const lines: Record<"parent" | "task", Line[]> = { parent: [], task: [] };
  const known = { parent: 0, task: 0 }; // messages
  const { model = "", system } = journal[0]?.request ?? {};
  if (system) lines.parent.push(Line.parse({ model, system }));
  for (const { request, reply = [], usage } of journal) {
    const { messages } = request;
    const agent = request.system === system ? "parent" : "task"; // each has its own system prompt
    if (messages.length < known[agent]) known[agent] = 0; // another subagent
    const asked = messages.slice(known[agent]).map((message) => ({ model, message }));
    const answer = [...(usage ? [{ model, usage }] : []), { model, message: { role: "assistant", content: reply } }];
    lines[agent].push(...[...asked, ...answer].map((line) => Line.parse(line)));
    known[agent] = messages.length + 1;
  }
  return lines;
}

/** Writes a lesson's transcript, and one of its subagents into the folder tasks/. */
export function saveTranscripts(journal: JournalEntry[], folder: string): void {
  const { parent, task } = transcriptsOf(journal);
  const write = (to: string, lines: Line[]) => {
    mkdirSync(to, { recursive: true });
    const file = join(to, `transcript_${Date.now()}_${process.pid}.jsonl`);
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  };
  write(folder, parent);
  if (task.length > 0) write(join(folder, "tasks"), task);
}
