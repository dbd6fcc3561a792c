/**
 * Replays recorded sessions through s06 under one strategy. `run.ts` starts this file as a process, since a lesson belongs
 * to a folder and an environment, and gives it one job after another.
 *
 * The loop is the lesson's. What it would wait for is recorded: the replies, which the server of this process gives in
 * their order, and what the tools returned. The server's `usage` is the bill.
 */
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { blocksOf, type ReplyBlock, startServer } from "../offline/server.ts";
import { type Recorded, readSessions } from "./sessions.ts";

/** What the figures rest on besides the sessions; each is a flag of `npm run bench`. */
export type Assumptions = {
  charactersPerToken: number;
  /** Tokens of a summary. */
  summary: number;
};

/** A strategy as run.ts has made it: the source of s06 with its lines, and the variables it needs. */
export type Job = { source: string; env: Record<string, string>; paths: string[]; assumptions: Assumptions };

/** One request and what it was billed for, in tokens. */
export type Call = {
  isSummary: boolean;
  /** Whether it comes after a round of ten parallel calls or more. */
  isWide: boolean;
  /** The whole prompt, and what of it was read from the cache and written to it. */
  context: number;
  read: number;
  written: number;
  output: number;
  /** Edits in its reply whose old text the session had shown before, and those of them for which the prompt holds it. */
  edits: number;
  grounded: number;
  /** For the others: what it takes to read again what had shown the old text last. */
  again: number;
};

export type Replayed = { session: string; calls: Call[]; rejected: string[] };
/** What the process tells: that a request was answered, or that the job is done. */
export type News = "request" | Replayed[];

let copies = 0;
type Lesson = typeof import("../agents/s06_context_compact.ts");
type Round = { reply: Anthropic.ContentBlockParam[]; results: Anthropic.ToolResultBlockParam[] };

/** What the person asked, each with the rounds that it took: a reply, and the results of its calls. */
export function turnsOf(messages: Anthropic.MessageParam[]): { request: string; rounds: Round[] }[] {
  const turns: { request: string; rounds: Round[] }[] = [];
  for (const message of messages) {
    const blocks = blocksOf(message.content);
    const results = blocks.filter((block) => block.type === "tool_result");
    if (message.role === "assistant") {
      turns.at(-1)?.rounds.push({ reply: blocks, results: [] });
    } else if (results.length > 0) {
      const last = turns.at(-1)?.rounds.at(-1);
      last?.results.push(...results);
    } else {
      const request = blocks.map((block) => (block.type === "text" ? block.text : "")).join("\n");
      turns.push({ request, rounds: [] });
    }
  }
  return turns;
}

/** All texts in a value, however deep. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** A recorded block as the model of the server says it again. */
function sayAgain(block: Anthropic.ContentBlockParam): ReplyBlock[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  if (block.type === "thinking") return [{ type: "thinking", thinking: block.thinking }];
  return block.type === "tool_use" ? [{ type: "tool_use", id: block.id, name: block.name, input: block.input }] : [];
}

/** Brings a file to the state that a recorded call left or showed, so that s06 restores what was there. */
function follow({ runEdit, runRead, runWrite }: Lesson, call: Anthropic.ToolUseBlockParam, result: string): void {
  const { path, content, old_text, new_text, offset = 1 } = Object(call.input);
  const shown = result.replace(/\n\[\d+ more lines; .*\]$/, "").split("\n");
  try {
    if (call.name === "write_file") runWrite(path, content);
    if (call.name === "edit_file") runEdit(path, old_text, new_text);
    if (call.name !== "read_file") return;
    const known = offset > 1 ? runRead(path).split("\n") : [];
    const before = Array.from({ length: offset - 1 }, (_, i) => known[i] ?? "");
    runWrite(path, [...before, ...shown, ...known.slice(before.length + shown.length)].join("\n"));
  } catch {} // a file outside the workspace, or one of which the record shows too little
}

/** Replays one session in the current folder, which it empties. */
async function replay({ name, messages: record }: Recorded, job: Job): Promise<Replayed> {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true });
  const { charactersPerToken, summary } = job.assumptions;
  const server = await startServer({ contextLimit: Number.MAX_SAFE_INTEGER, charactersPerToken });
  // Each session gets a lesson of its own, which knows nothing of the one before and has this server's address.
  const file = resolve(`../lesson-${process.pid}-${copies++}.ts`);
  writeFileSync(file, job.source);
  Object.assign(process.env, job.env, { ANTHROPIC_BASE_URL: server.url });
  const s06: Lesson = await import(pathToFileURL(file).href);
  for (const name of Object.keys(job.env)) delete process.env[name];
  rmSync(file);

  const calls: Call[] = [];
  const rejected: string[] = [];
  const notes: Pick<Call, "isSummary" | "isWide" | "edits" | "grounded" | "again">[] = [];
  const past: string[] = []; // what the session has shown so far
  let ahead: Round[] = []; // the rounds of this turn that are still to come
  let round: Round = { reply: [], results: [] };
  let waiting: Anthropic.ToolUseBlockParam[] = []; // the calls of this round that are still to be run

  server.model = ({ messages }) => {
    process.send?.("request" satisfies News);
    const note = { isSummary: false, isWide: round.results.length >= 10, edits: 0, grounded: 0, again: 0 };
    notes.push(note);
    if (textsOf(messages.at(-1)).some((text) => text.startsWith("Write a summary of this conversation."))) {
      note.isSummary = true;
      return { content: [{ type: "text", text: "Done so far. ".repeat((summary * charactersPerToken) / 13) }] };
    }
    round = ahead.shift() ?? { reply: [{ type: "text", text: "(the record of this turn ends here)" }], results: [] };
    waiting = round.reply.filter((block) => block.type === "tool_use");
    const context = textsOf(messages);
    for (const call of waiting) {
      const old = String(Object(call.input).old_text);
      const seen = call.name === "edit_file" && past.findLast((text) => text.includes(old));
      if (!seen) continue;
      note.edits++;
      if (context.some((text) => text.includes(old))) note.grounded++;
      else note.again += Math.ceil(seen.length / charactersPerToken);
    }
    past.push(...textsOf(round));
    return { content: round.reply.flatMap(sayAgain) };
  };

  const recorded = record.flatMap(({ content }) => blocksOf(content));
  for (const name of new Set(recorded.flatMap((block) => (block.type === "tool_use" ? [block.name] : [])))) {
    if (!s06.TOOLS.some((tool) => tool.name === name)) s06.TOOLS.push({ name, input_schema: { type: "object" } });
    s06.TOOL_HANDLERS[name] = async () => {
      const call = waiting.shift();
      const result = round.results.find((each) => each.tool_use_id === call?.id);
      const text = textsOf(result?.content).join("\n");
      if (result?.is_error) throw new Error(text);
      if (call) follow(s06, call, text);
      return text;
    };
  }

  const messages: Anthropic.MessageParam[] = [];
  for (const { request, rounds } of turnsOf(record)) {
    past.push(request);
    messages.push({ role: "user", content: request });
    ahead = [...rounds];
    await s06.agentLoop(messages).catch((error) => rejected.push(String(error)));
    for (const { usage, error } of server.journal.splice(0)) {
      const note = usage && notes.shift();
      if (error || !note) rejected.push(String(error));
      else {
        const { input_tokens, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
        const tokens = { read: read ?? 0, written: written ?? 0, output: usage.output_tokens };
        calls.push({ ...note, ...tokens, context: input_tokens + tokens.read + tokens.written });
      }
    }
  }
  await server.close();
  return { session: name, calls, rejected };
}

process.on("message", async (job: Job) => {
  process.stdout.write = () => true; // what the lesson prints
  const replayed: Replayed[] = [];
  for (const session of readSessions(job.paths)) replayed.push(await replay(session, job));
  process.send?.(replayed satisfies News);
});
