/**
 * Starts the local Messages API alone, with the rehearsal model, for any client. Ctrl-C ends it.
 *
 *     npm run api [-- --port N] [--window N]     --window: the context window in tokens, 200,000 by default
 */
import { parseArgs } from "node:util";
import { type JournalEntry, startServer } from "./api/server.ts";
import { opencodeConfig, rehearseForAnyone } from "./clients.ts";

const text = { type: "string" } as const;
const { values } = parseArgs({ options: { port: text, window: text } });

/** Returns a whole number above zero, or undefined if the option isn't given. */
function readNumber(name: "port" | "window"): number | undefined {
  const value = values[name];
  if (value !== undefined && !/^[1-9]\d*$/.test(value)) throw new Error(`--${name} needs a number, not ${value}`);
  return value === undefined ? undefined : Number(value);
}

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
  const window = readNumber("window") ?? 200_000;
  const port = readNumber("port");
  const { url } = await startServer({ model: rehearseForAnyone, contextLimit: window, port, onAnswer: printRequest });
  console.log(`The Messages API is at ${url}, with the rehearsal model and a window of ${window.toLocaleString("en-US")} tokens.

Your own agent:  export ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=offline
Claude Code:     ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=offline claude
opencode:        OPENCODE_CONFIG_CONTENT='${opencodeConfig(url)}' opencode -m local/claude-sonnet-5-5

${toLine("model", "messages", "tokens", "cached", "status")}`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
