/**
 * Starts the local Messages API alone, with the rehearsal model, for any agent. Ctrl-C ends it.
 *
 *     npm run api [-- --port N] [--window N]     --window: the context window in tokens, 200,000 by default
 */
import { parseArgs } from "node:util";
import { type JournalEntry, startServer } from "./api/server.ts";
import { rehearse } from "./model.ts";
import { toNumber } from "./offline.ts";

const COLUMNS = [26, 10, 10, 10]; // characters
const toLine = (...cells: string[]) => cells.map((cell, i) => cell.padEnd(COLUMNS[i] ?? 0)).join(" ");

function printRequest({ request, promptTokens, usage, status, error }: JournalEntry, asked: string): void {
  const { model, messages } = Object(request);
  if (!model) return void console.log(`${status} ${asked}`);
  const count = Array.isArray(messages) ? `${messages.length}` : "";
  const outcome = error ? `${status} ${error.slice(0, 120)}` : `${status}`;
  console.log(toLine(String(model), count, `${promptTokens}`, `${usage?.cache_read_input_tokens ?? 0}`, outcome));
}

try {
  const text = { type: "string" } as const;
  const { port, window = "200000" } = parseArgs({ options: { port: text, window: text } }).values;
  const contextLimit = toNumber("--window", window);
  const settings = { contextLimit, port: port === undefined ? 0 : toNumber("--port", port), onAnswer: printRequest };
  const { url } = await startServer({ model: rehearse, ...settings });
  console.log(`The Messages API is at ${url}, with the rehearsal model and a window of ${contextLimit.toLocaleString("en-US")} tokens.

export ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=offline

${toLine("model", "messages", "tokens", "cached", "status")}`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
