/** Prints a model call as JSON that fits a terminal. */
import stringify from "json-stringify-pretty-compact";
import type { JournalEntry } from "../api/server.ts";

const LONGEST = 200; // characters of a text
const WIDTH = 140; // characters of a line

const cut = (_: string, value: unknown) =>
  typeof value === "string" && value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
const showJson = (value: unknown) => stringify(value, { maxLength: WIDTH, replacer: cut });

/** Shows the request of a model call, and the reply as it was once the stream had ended. */
export function showCall({ request, status, error, reply, stop_reason, usage }: Partial<JournalEntry>): string {
  const counts = Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => typeof count === "number"));
  const answer = error ? { error } : { role: "assistant", content: reply, stop_reason, usage: counts };
  return `POST /v1/messages ${showJson(request)}\n${status} ${showJson(answer)}`;
}
