/** Prints what went over the wire as JSON that fits a terminal. */
import type { JournalEntry } from "../api/server.ts";

const LONGEST = 200; // characters of a text
const WIDTH = 140; // characters of a line, if its value can be broken

/** The JSON of a value: on one line if that is short, otherwise each of its fields on a line of its own; long texts are cut. */
export function showJson(value: unknown, indent = ""): string {
  const cut = (_: string, each: unknown) =>
    typeof each === "string" && each.length > LONGEST ? `${each.slice(0, LONGEST)}…` : each;
  const text = JSON.stringify(value, cut);
  if (typeof value !== "object" || value === null || indent.length + text.length <= WIDTH) return text;
  const inner = `${indent}  `;
  if (Array.isArray(value)) return `[\n${value.map((item) => inner + showJson(item, inner)).join(",\n")}]`;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${showJson(field, inner)}`).join(`,\n${inner}`)}}`;
}

/** The request of a model call, and the reply as it is once the stream has ended. */
export function showCall({ request, status, error, reply, stop_reason, usage }: Partial<JournalEntry>): string {
  const counts = Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => typeof count === "number"));
  const answer = error ? { error } : { role: "assistant", content: reply, stop_reason, usage: counts };
  return `POST /v1/messages ${showJson(request)}\n${status} ${showJson(answer)}`;
}
