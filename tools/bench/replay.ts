/**
 * Replays a recorded session through s06 or the tutorial's rule. Replies and tool results come from the recording, and requests
 * go through the strict server, at the session's own times.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import * as z from "zod";
import { type JournalEntry, type Reply, startServer } from "../../offline/api/server.ts";
import { CHARS_PER_TOKEN } from "../../offline/constants.ts";
import { DEFAULTS, OFFLINE } from "../../offline/start.ts";
import { SUMMARY_REQUEST } from "../../offline/wording.ts";
import { stringsIn } from "../sessions/events.ts";
import { type Prompt, pricesFor } from "./caching.ts";
import type { Strategy } from "./strategies.ts";
import type { Round, Session, Turn } from "./turns.ts";

const SUMMARY_TEXT = "Done so far. ".repeat((2_000 * CHARS_PER_TOKEN) / 13);

/** An edit of a text that the session had shown before. `tokens` is the size of what showed it last. */
type Edit = { path: string; tokens: number; isLost: boolean };
/** A model call: what its prompt costs in each row, and the edits that the reply asks for. */
export type Call = {
  isSummary: boolean;
  isCopy: boolean;
  edits: Edit[];
  output: number;
  prompts: Record<string, Prompt>;
};
/** `rejected` has the errors of requests that failed. */
export type Replayed = { calls: Call[]; rejected: string[] };

type Lesson = typeof import("../../agents/s06_context_compact.ts");

const Text = z.string().catch("");
const FileInput = z.object({ path: Text, content: Text, old_text: Text, new_text: Text, offset: z.number().catch(1) });

/** Brings a file to the state that a recorded call left or showed, so that s06 restores the right text. */
function updateFile({ runEdit, runWrite }: Lesson, call: Anthropic.ToolUseBlockParam, result: string): void {
  const { path, content, old_text, new_text, offset } = FileInput.parse(call.input);
  try {
    if (call.name === "write_file") runWrite(path, content);
    if (call.name === "edit_file") runEdit(path, old_text, new_text);
    if (call.name !== "read_file") return;
    const shown = result.replace(/\n\[the file has \d+ lines; .*\]$/, "").split("\n");
    const known = offset > 1 ? readFileSync(path, "utf8").replace(/\n$/, "").split("\n") : [];
    const before = Array.from({ length: offset - 1 }, (_, i) => known[i] ?? "");
    runWrite(path, [...before, ...shown, ...known.slice(before.length + shown.length)].join("\n"));
  } catch {} // it is outside the workspace, or the record shows too little of it
}

// --- the session that is replayed ------------------------------------------------------------------------------------

type Note = Pick<Call, "isSummary" | "isCopy" | "edits">;
const NO_ROUND: Round = { reply: [{ type: "text", text: "(the recording ends here)" }], results: [], time: 0 };

let replays = 0;
let now = 0; // in the session
Date.now = () => now;
let onAnswer = (_: JournalEntry) => {};
const server = await startServer({ contextLimit: Number.MAX_SAFE_INTEGER, onAnswer: (entry) => onAnswer(entry) });
Object.assign(process.env, DEFAULTS, OFFLINE, { ANTHROPIC_BASE_URL: server.url });

/** Replays a session in the current folder, which it empties first. `file` is s06 as the strategy changes it. */
export async function replay(session: Session, { rows }: Strategy, file: string): Promise<Replayed> {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true });
  const s06: Lesson = await import(pathToFileURL(file).href);
  const player = playRecording(s06, session);
  const pricesOf = pricesFor(rows);
  s06.TODO.items = [];
  const options = {
    system: `${s06.SYSTEM}\n(replay ${++replays})`, // keeps replays out of each other's cache
    tools: [...s06.TOOLS, ...player.otherTools],
    approve: async () => {},
    signal: new AbortController().signal,
    state: s06.newState(),
  };
  const messages: Anthropic.MessageParam[] = [];
  const calls: Call[] = [];
  const rejected: string[] = [];
  onAnswer = ({ request, usage, error }) => {
    server.journal.length = 0; // its prompts would fill the memory
    if (error || !usage) return void rejected.push(String(error));
    calls.push({ ...player.note(), output: usage.output_tokens, prompts: pricesOf(request, usage, now) });
  };
  for (const turn of session.turns) {
    player.begin(turn);
    await s06.runTurn(messages, turn.request, options).catch((error) => rejected.push(String(error)));
  }
  return { calls, rejected };
}

/** Makes the server and the tools of `s06` answer from the recording. */
function playRecording(s06: Lesson, session: Session) {
  let note: Note = { isSummary: false, isCopy: false, edits: [] }; // about the last request
  const past: string[] = []; // what the session has shown so far
  let ahead: Round[] = []; // the rounds of this turn that are still to come
  let round = NO_ROUND;
  let waiting: Anthropic.ToolUseBlockParam[] = []; // the calls of this round that haven't run yet

  function editIn({ name, input }: Anthropic.ToolUseBlockParam, context: unknown): Edit[] {
    const { path, old_text } = FileInput.parse(input);
    const isEdit = name === "edit_file" && old_text !== "";
    const source = isEdit && past.findLast((text) => text.includes(old_text));
    if (!source) return [];
    const isLost = !stringsIn(context).some((text) => text.includes(old_text));
    return [{ path, isLost, tokens: Math.ceil(source.length / CHARS_PER_TOKEN) }];
  }

  server.model = ({ messages }): Reply => {
    const isSummary = stringsIn(messages.at(-1)).some((text) => text.startsWith(SUMMARY_REQUEST));
    note = { isSummary, isCopy: (ahead[0] ?? round).isCopy === true, edits: [] };
    if (isSummary) return { content: [{ type: "text", text: SUMMARY_TEXT }], thinks: false };
    round = ahead.shift() ?? NO_ROUND;
    waiting = callsIn(round);
    note.edits = waiting.flatMap((call) => editIn(call, messages));
    past.push(...stringsIn([round.reply, round.results]));
    return { content: round.reply, thinks: false };
  };

  async function answer(): Promise<string> {
    const call = waiting.shift();
    const result = round.results.find((each) => each.tool_use_id === call?.id);
    now = round.time;
    if (!call || !result || result.is_error) throw new Error(result?.content);
    updateFile(s06, call, result.content);
    return result.content;
  }

  function begin({ request, time, rounds }: Turn): void {
    now = time;
    past.push(request);
    ahead = [...rounds];
  }

  const names = new Set(session.turns.flatMap(({ rounds }) => rounds.flatMap(callsIn)).map(({ name }) => name));
  for (const name of names) s06.TOOL_HANDLERS[name] = answer;
  for (const { name } of s06.TOOLS) names.delete(name);
  const otherTools = [...names].map((name) => ({ name, input_schema: { type: "object" as const } }));
  return { note: () => note, begin, otherTools };
}

const callsIn = ({ reply }: Round) => reply.filter((block) => block.type === "tool_use");
