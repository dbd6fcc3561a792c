/**
 * Replays recorded sessions through s06 under one strategy. `bench.ts` runs this file in a process per core, because a
 * lesson belongs to one folder and one environment.
 *
 * The loop is the lesson's or the textbook's. Replies and tool results come from the recording, and requests go through
 * the strict server, whose `usage` is the bill. The clock of this process shows the session's time.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import * as z from "zod";
import { startServer } from "../../offline/api/server.ts";
import { CHARS_PER_TOKEN } from "../../offline/constants.ts";
import { SUMMARY_REQUEST } from "../../offline/wording.ts";
import { toUsage } from "../sessions/blocks.ts";
import { stringsIn } from "../sessions/events.ts";
import type { Tokens } from "../sessions/prices.ts";
import { textbook } from "./textbook.ts";
import type { Round, Session, Turn } from "./turns.ts";

const SUMMARY_TEXT = "Done so far. ".repeat((2_000 * CHARS_PER_TOKEN) / 13);

/** `file` is s06 as the strategy changes it. */
export type Job = { strategy: string; file: string; session: Session };

/** An edit of a text that the session had shown before. */
type Edit = {
  path: string;
  isLost: boolean; // the prompt no longer has that text
  source: { text: number; from: number; tokens: number }; // what showed it last: its index, its first call, its size
};
/** A request, its bill in tokens, and the edits that the reply asks for. */
export type Call = Tokens & { isSummary: boolean; edits: Edit[] };
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

type Note = Pick<Call, "isSummary" | "edits">;
const NO_ROUND: Round = { reply: [{ type: "text", text: "(the recording ends here)" }], results: [], time: 0 };

let replays = 0;
let now = 0; // in the session
Date.now = () => now;
const server = await startServer({ contextLimit: Number.MAX_SAFE_INTEGER });
process.env.ANTHROPIC_BASE_URL = server.url;

/** Replays a session in the current folder, which it empties first. */
async function replay({ strategy, file, session }: Job): Promise<Replayed> {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true });
  const s06: Lesson = await import(pathToFileURL(file).href);
  const runTurn = strategy.startsWith("textbook") ? textbook(s06, strategy === "textbook, cached") : s06.runTurn;
  const player = playRecording(s06, session);
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
  server.journal.length = 0;
  for (const turn of session.turns) {
    player.begin(turn);
    await runTurn(messages, turn.request, options).catch((error) => rejected.push(String(error)));
    for (const { usage, error } of server.journal.splice(0)) {
      const note = usage && player.notes.shift();
      const tokens = toUsage(usage, true);
      if (error || !note || !tokens) rejected.push(String(error));
      else calls.push({ ...note, ...tokens });
    }
  }
  return { calls, rejected };
}

/** Makes the server and the tools of `s06` answer from the recording. */
function playRecording(s06: Lesson, session: Session) {
  const notes: Note[] = []; // about the requests of this turn
  const past: { text: string; from: number }[] = []; // what the session has shown so far
  let ahead: Round[] = []; // the rounds of this turn that are still to come
  let round = NO_ROUND;
  let waiting: Anthropic.ToolUseBlockParam[] = []; // the calls of this round that haven't run yet
  let replies = 0;
  const remember = (value: unknown) => past.push(...stringsIn(value).map((text) => ({ text, from: replies })));

  function editIn({ name, input }: Anthropic.ToolUseBlockParam, context: string[]): Edit[] {
    const { path, old_text } = FileInput.parse(input);
    const isEdit = name === "edit_file" && old_text !== "";
    const index = isEdit ? past.findLastIndex(({ text }) => text.includes(old_text)) : -1;
    const seen = past[index];
    if (!seen) return [];
    const source = { text: index, from: seen.from, tokens: Math.ceil(seen.text.length / CHARS_PER_TOKEN) };
    return [{ path, isLost: !context.some((text) => text.includes(old_text)), source }];
  }

  server.model = ({ messages }) => {
    const isSummary = stringsIn(messages.at(-1)).some((text) => text.startsWith(SUMMARY_REQUEST));
    const note: Note = { isSummary, edits: [] };
    notes.push(note);
    if (isSummary) return { content: [{ type: "text", text: SUMMARY_TEXT }] };
    round = ahead.shift() ?? NO_ROUND;
    waiting = callsIn(round);
    const context = stringsIn(messages);
    note.edits = waiting.flatMap((call) => editIn(call, context));
    replies++;
    remember([round.reply, round.results]);
    return { content: round.reply };
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
    remember(request);
    ahead = [...rounds];
  }

  const names = new Set(session.turns.flatMap(({ rounds }) => rounds.flatMap(callsIn)).map(({ name }) => name));
  for (const name of names) s06.TOOL_HANDLERS[name] = answer;
  for (const { name } of s06.TOOLS) names.delete(name);
  const otherTools = [...names].map((name) => ({ name, input_schema: { type: "object" as const } }));
  return { notes, begin, otherTools };
}

const callsIn = ({ reply }: Round) => reply.filter((block) => block.type === "tool_use");

process.on("message", async (job: Job) => {
  process.stdout.write = () => true; // silences the lesson
  process.send?.(await replay(job));
});
