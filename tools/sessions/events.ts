/**
 * What happened in a recorded conversation, whoever wrote it down. Events keep the structure of what was recorded, and every
 * view is made from them: names and shortened texts are made where they are shown, and nothing is read back out of those.
 */
import type { Used } from "./prices.ts";

/** Tokens as the API counted them. */
export type Usage = Used & {
  isFinal: boolean; // the reply was complete when its output was counted
};

/** The name is empty if the file doesn't have the call that a result is for. */
export type ToolCall = { id: string; name: string; input: Record<string, unknown> };

/** Some blocks aren't text. Their text only stands for them. */
export type Text = { text: string; standsFor?: "image" | "unknown" };

/**
 * A block of a message. `request` is what the user wrote; `client` is in the user's name, but a program wrote it. `chars` is
 * the size as JSON, because only the API can count tokens.
 */
export type Block = { chars: number } & (
  | ({ kind: "request" | "client" | "reply" | "summary" } & Text)
  | { kind: "thinking"; text: string }
  | { kind: "file"; path: string; text: string } // a summary brought it back
  | { kind: "call"; call: ToolCall }
  | { kind: "result"; call: ToolCall; texts: Text[]; isError: boolean }
);
export type Kind = Block["kind"];

/** Times are in milliseconds. */
export type Message = {
  type: "message";
  role: "user" | "assistant";
  /** What isn't the user's own. `setup` is what is recorded apart: the system prompt, and by Claude Code tools and reminders. */
  by?: "client" | "setup" | "summary";
  about?: ToolCall; // what the client comments on
  blocks: Block[];
  time?: number; // when it was complete
};
/** A model call. The next event is its reply, or the new history for which it wrote a summary. */
export type Call = { type: "call"; usage?: Usage; model?: string; time?: number };
/** These messages replace the whole history. */
export type Rewrite = { type: "rewrite"; trigger: string; messages: Message[]; tokensBefore?: number };
export type Event = Message | Call | Rewrite;

/** Lines or blocks that were left out. `line` is the number of the first, if it's known. */
export type Skipped = { reason: string; count: number; line?: number };
export type Skip = (reason: string, line?: number) => void;

export type Recording = {
  format: "s06" | "Claude Code";
  events: Event[]; // empty if the file holds no conversation
  cwd: string; // the folder that the conversation was about
  threshold?: number; // the newest that s06 wrote, in tokens
  skipped: Skipped[];
};

/** Joins texts, with `image` in place of each image. */
export const joinTexts = (texts: Text[], image = "[image]"): string =>
  texts.map(({ text, standsFor }) => (standsFor === "image" ? image : text)).join("\n");

/** Returns what a block says. Each argument of a call is on its own line, and so is each item of a list. */
export function textOf(block: Block): string {
  if (block.kind === "result") return joinTexts(block.texts);
  if (block.kind !== "call") return block.text;
  const lines = Object.entries(block.call.input).map(([name, value]) => {
    if (Array.isArray(value)) return [`${name}:`, ...value.map((item) => `  ${JSON.stringify(item)}`)].join("\n");
    return `${name}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`;
  });
  return lines.join("\n");
}

/** What the client writes in the user's name, on lines of its own: `<task-notification>…</task-notification>` or `<ide_selection>…`. */
const ADDED = /^[ \t]*<([a-z]+(?:[-_][a-z]+)+)\b[^>]*>[\s\S]*?(?:<\/\1>|$(?![\s\S]))|^\[Request interrupted.*/gm;

/** Returns what the user typed in a text, also a command that the client split into tags. */
export function typedText(text: string): string {
  const contentOf = (tag: string) => new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(text)?.[1] ?? "";
  if (/^\s*<command-/.test(text)) return `${contentOf("command-name")} ${contentOf("command-args")}`.trim();
  if (/^\s*<bash-input>/.test(text)) return `!${contentOf("bash-input")}`;
  return text.replace(ADDED, "").trim();
}

/** Two calls with the same key ask for the same. A call that isn't in the file is like no other. */
export const callKey = ({ id, name, input }: ToolCall): string => (name ? JSON.stringify([name, input]) : id);

/** Returns all strings in a value, at any depth. */
export function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

/** Claude Code numbers the lines of a file that is read. */
export const withoutLineNumbers = (text: string): string => text.replace(/^ *\d+(→|\t)/gm, "");
