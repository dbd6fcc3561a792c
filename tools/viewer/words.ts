/** Names blocks, and writes numbers as the pages show them. */
import { PARTS, partOf } from "../draw/parts.ts";
import { type Block, textOf, typedText } from "../sessions/events.ts";
import { shownPath } from "../sessions/files.ts";
import { whole } from "../sessions/numbers.ts";
import type { Timeline } from "../sessions/timeline.ts";

export const counted = (count: number, one: string, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
export const percent = (share: number) => (share > 0 && share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`);
export const tokens = (count: number) => counted(Math.round(count), "token");
export const timeOf = (time: number) =>
  new Date(time).toLocaleString("en-US", { dateStyle: "medium", timeStyle: "short" });

export function dollars(value: number): string {
  if (value > 0 && value < 0.0005) return "less than $0.001";
  return `$${value.toFixed(value < 0.0995 ? 3 : 2)}`;
}

/** Writes `a, b and c`. */
export const listed = (items: string[]) => items.join(", ").replace(/, ([^,]*)$/, " and $1");

const LONGEST = 120; // characters of a name

function headline(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST).toWellFormed()}…` : line;
}

/** Names a call or its result after the tool and the first text among the arguments. */
export function labelOf(block: Block): string {
  if (block.kind === "file") return shownPath(block.path);
  if (block.kind === "request") return headline(typedText(block.text) || block.text);
  if (block.kind === "client") return headline(block.text.replace(/^\s*<([a-z_-]+)[^>]*>\s*/, "$1: "));
  if (block.kind !== "call" && block.kind !== "result") return headline(textOf(block));
  const { name, input } = block.call;
  const [key = "", argument = ""] = Object.entries(input).find(([, value]) => typeof value === "string") ?? [];
  const about = /path|file/.test(key) ? shownPath(`${argument}`) : headline(`${argument}`);
  return `${name || "a call that isn't in the file"} ${about}`;
}

/** Returns the first request that the model answered, or else the first. */
export function titleOf({ requests, modelCalls }: Timeline): string {
  const request = requests[modelCalls[0]?.request ?? 0] ?? requests[0];
  return request ? labelOf(request.block) : "Nothing in the file was typed by the user";
}

/** A result has the name of its call. Paths are relative to the session's folder. */
export function nameOf(block: Block, { cwd }: Timeline): string {
  if (block.kind === "summary") return "summary";
  const label = labelOf(block).replaceAll(`${cwd}/`, "");
  if (block.kind === "result") return label;
  return block.kind === "call" ? `call of ${label}` : `${block.kind}: ${label}`;
}

/** Names what a block is: its part, or whose text it is, or the tool that a result is from. */
export function kindOf(block: Block): string {
  if (block.kind === "client") return "text of the client";
  if (block.kind === "request") return "the user’s requests";
  return block.kind === "result" && block.call.name ? `results of ${block.call.name}` : PARTS[partOf(block)];
}

const TRIGGERS: Record<string, string> = {
  tool: "summarized, as the model asked",
  manual: "summarized, as the user asked",
  recovery: "summarized, because the prompt was too long",
  micro: "old results cleared",
  rejected: "messages taken out that the API rejected",
  refused: "messages taken out after a refusal",
  clear: "the user started over",
  auto: "summarized automatically",
};
export const nameOfTrigger = (trigger: string): string => TRIGGERS[trigger] ?? trigger;
