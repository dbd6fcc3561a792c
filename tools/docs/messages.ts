/** Shows the messages of a recorded run as text, one line for each block. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Block, type Message, textOf } from "../sessions/events.ts";
import { readRecording } from "../sessions/recording.ts";

const LONGEST = 76; // characters

function lineOf(block: Block, role: string): string[] {
  if (block.kind === "thinking") return [];
  const who = block.kind === "result" ? "result" : role;
  const text = block.kind === "call" ? `${block.call.name} ${argumentOf(block.call.input)}` : textOf(block);
  return [`${who.padEnd(10)} ${text.replace(/\s+/g, " ")}`];
}

function argumentOf(input: Record<string, unknown>): string {
  const [first] = Object.values(input);
  return typeof first === "string" ? first : JSON.stringify(first);
}

function messagesIn(file: string): Message[] {
  const { events } = readRecording(readFileSync(file, "utf8"));
  return events.flatMap((event) => (event.type === "message" ? event : []));
}

/** Of the system prompt, only a list's items are shown. */
const linesOf = ({ role, by, blocks }: Message): string[] =>
  by === "setup"
    ? blocks.flatMap((block) => textOf(block).match(/^- .*/gm) ?? []).map((item) => `${"system".padEnd(10)} ${item}`)
    : blocks.flatMap((block) => lineOf(block, role));

/** Returns the lines up to the first one with a text. A subagent's are indented, after the call that started it. */
export function messageLines(root: string, name: string, last: string): string[] {
  const folder = join(root, "tools/docs/runs");
  const task = join(folder, `tasks/${name}.jsonl`);
  const child = existsSync(task) ? messagesIn(task).flatMap(linesOf) : [];
  const lines = messagesIn(join(folder, `${name}.jsonl`)).flatMap(linesOf);
  const end = lines.findIndex((line) => line.includes(last));
  if (end < 0) throw new Error(`no message of ${name} has the text ${last}`);
  const all = lines.slice(0, end + 1).flatMap((line) => {
    return /^assistant +task /.test(line) ? [line, ...child.map((each) => `    ${each}`)] : [line];
  });
  return all.map((line) => (line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line));
}
