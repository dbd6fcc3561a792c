/** Reads transcripts of s06, and the runs of the other lessons that are saved in the same form: one line for each event. */
import * as z from "zod";
import { STOPPED, SUMMARY } from "../../offline/wording.ts";
import { ApiMessage, ApiUsage, type Calls, Figure, ifValid, toMessage, toUsage, withTexts } from "./blocks.ts";
import type { Block, Event, Message } from "./events.ts";

const About = { time: Figure, model: ifValid(z.string()), threshold: Figure };
const Untyped = z.object({ type: z.undefined().optional(), ...About }); // Claude Code's lines have a type
export const Line = z.union([
  Untyped.extend({ message: ApiMessage }), // is added to the history
  Untyped.extend({ usage: ApiUsage.unwrap().unwrap() }), // of a model call, before its reply
  Untyped.extend({ system: z.string() }), // the system prompt, in a saved run
  z.object({ type: z.literal("rewrite"), trigger: z.string(), messages: z.array(ApiMessage), ...About }),
]);
export type Line = z.output<typeof Line>;

export function eventsOfS06(lines: Line[]): Event[] {
  const calls: Calls = new Map();
  return lines.flatMap((line, i): Event | Event[] => {
    const { time, model } = line;
    if ("usage" in line) return { type: "call", usage: toUsage(line.usage, true), model, time };
    if ("system" in line) return { ...toMessage({ role: "user", content: line.system }, calls), by: "setup" };
    if ("messages" in line) {
      const messages = line.messages.map((message) => readMessage(message, calls));
      return { type: "rewrite", trigger: line.trigger, messages };
    }
    const message = { ...readMessage(line.message, calls), time };
    const before = lines[i - 1];
    const isCounted = before !== undefined && "usage" in before;
    return message.role === "assistant" && !isCounted ? [{ type: "call", model, time }, message] : message;
  });
}

/** Requests of the user are strings. A summary is a list of texts with a fixed opening, and files may follow it. */
function readMessage(content: ApiMessage, calls: Calls): Message {
  const message = toMessage(content, calls);
  if (message.role === "assistant") return message;
  const [first] = message.blocks;
  const text = first?.kind === "client" ? first.text : "";
  if (typeof content.content === "string" && !text.startsWith(STOPPED)) return withTexts(message, "request");
  if (!text.startsWith(SUMMARY)) return { ...message, by: "client" };
  const { blocks } = withTexts(message, "summary");
  return { ...message, by: "summary", blocks: blocks.map(asFile) };
}

function asFile(block: Block): Block {
  const text = block.kind === "summary" ? block.text : "";
  const [, path] = /^<file path="(.*?)"/.exec(text) ?? [];
  return path === undefined ? block : { kind: "file", path, text, chars: block.chars };
}
