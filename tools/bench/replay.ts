/**
 * Replays recorded sessions through s06 under one strategy. `bench.ts` starts a process of this on each core, since a
 * lesson belongs to a folder and an environment.
 *
 * The loop is the lesson's, or that of a program. The replies come from the record, through the strict server, and so do the results of tools.
 * The server's clock is the session's; its `usage` is the bill.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { startServer } from "../offline/server.ts";
import type { Round, Session } from "../sessions/turns.ts";
import { programOf } from "./programs.ts";
import type { Strategy } from "./strategies.ts";

const CHARACTERS_PER_TOKEN = 3;
const SUMMARY = "Done so far. ".repeat((2_000 * CHARACTERS_PER_TOKEN) / 13);

/** `file`: s06 as the strategy changes it. */
export type Job = { strategy: Strategy; file: string; session: Session };

/** One request and what it was billed for, in tokens. */
export type Call = {
  isSummary: boolean;
  /** The whole prompt, and how much was read from the cache and written to it. */
  context: number;
  read: number;
  written: number;
  output: number;
  /** Edits in its reply whose old text the session had shown before, and the paths of those for which the prompt lacks it. */
  edits: number;
  lost: string[];
  /** How many of the lost are in files that the agent had touched again since the last summary. */
  touched: number;
  /** For the lost ones: what it takes to read again what had shown the old text last. */
  again: number;
};
export type Replayed = { calls: Call[]; rejected: string[] };

type Lesson = typeof import("../../agents/s06_context_compact.ts");

/** All texts in a value, however deep. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

const OUTSIDE = "outside/";
/** A call of a file outside the workspace, which s06 would refuse, gets a path in it. No file is there. */
function intoWorkspace<Block extends Round["reply"][number]>(block: Block): Block {
  if (block.type !== "tool_use" || !/^(read|write|edit)_file$/.test(block.name)) return block;
  const { path } = Object(block.input);
  const isOutside = typeof path === "string" && /^(\/|~|\.\.)/.test(path);
  return isOutside ? { ...block, input: { ...Object(block.input), path: `${OUTSIDE}${basename(path)}` } } : block;
}

/** Brings a file to the state that a recorded call left or showed, so that s06 restores what was there. */
function follow({ runEdit, runWrite }: Lesson, call: Anthropic.ToolUseBlockParam, result: string): void {
  const { path, content, old_text, new_text, offset = 1 } = Object(call.input);
  if (String(path).startsWith(OUTSIDE)) return;
  try {
    if (call.name === "write_file") runWrite(path, content);
    if (call.name === "edit_file") runEdit(path, old_text, new_text);
    if (call.name !== "read_file") return;
    const shown = result.replace(/\n\[\d+ more lines[:;] .*\]$/, "").split("\n");
    const known = offset > 1 ? readFileSync(path, "utf8").replace(/\n$/, "").split("\n") : [];
    const before = Array.from({ length: offset - 1 }, (_, i) => known[i] ?? "");
    runWrite(path, [...before, ...shown, ...known.slice(before.length + shown.length)].join("\n"));
  } catch {} // the record shows too little of the file
}

let replays = 0;
const NONE: Round = { reply: [{ type: "text", text: "(the record ends here)" }], replied: 0, results: [], time: 0 };

/** Replays a session in the current folder, which it empties. */
async function replay({ strategy, file, session }: Job): Promise<Replayed> {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true });
  const s06 = programOf(strategy.name, await import(pathToFileURL(file).href));
  server.journal.length = 0;
  const calls: Call[] = [];
  const rejected: string[] = [];
  const notes: Pick<Call, "isSummary" | "edits" | "lost" | "touched" | "again">[] = [];
  const past: string[] = []; // what the session has shown so far
  let ahead: Round[] = []; // the rounds of this turn that are still to come
  let round = NONE;
  const touched = new Set<string>(); // paths, since the last summary
  let waiting: Anthropic.ToolUseBlockParam[] = []; // the calls of this round that are still to be run
  let now = 0;
  let called = 0; // when the model was called last

  server.now = () => now;
  server.model = ({ messages }) => {
    const note = { isSummary: false, edits: 0, lost: [] as string[], touched: 0, again: 0 };
    notes.push(note);
    called = now;
    if (textsOf(messages.at(-1)).some((text) => text.startsWith(s06.SUMMARY_PROMPT))) {
      note.isSummary = true;
      touched.clear();
      return { content: [{ type: "text", text: SUMMARY }] };
    }
    round = ahead.shift() ?? NONE;
    waiting = round.reply.filter((block) => block.type === "tool_use");
    const context = textsOf(messages);
    for (const call of waiting) {
      const { path, old_text } = Object(call.input);
      const seen = call.name === "edit_file" && past.findLast((text) => text.includes(old_text));
      if (!seen) continue;
      note.edits++;
      if (context.some((text) => text.includes(old_text))) continue;
      note.lost.push(path);
      if (touched.has(path)) note.touched++;
      note.again += Math.ceil(seen.length / CHARACTERS_PER_TOKEN);
    }
    for (const { name, input } of waiting) if (/^(read|write|edit)_file$/.test(name)) touched.add(Object(input).path);
    past.push(...textsOf([round.reply, round.results]));
    return { content: round.reply };
  };

  const rounds = session.turns.flatMap((turn) => turn.rounds);
  const names = rounds.flatMap(({ reply }) =>
    reply.flatMap((block) => (block.type === "tool_use" ? [block.name] : [])),
  );
  const known = s06.TOOLS.map((tool) => tool.name);
  const more = [...new Set(names)].filter((name) => !known.includes(name));
  const tools = [...s06.TOOLS, ...more.map((name) => ({ name, input_schema: { type: "object" as const } }))];
  for (const name of names) {
    s06.TOOL_HANDLERS[name] = async () => {
      const call = waiting.shift();
      const result = round.results.find((each) => each.tool_use_id === call?.id);
      setClock(round.time);
      if (!call || !result || result.is_error) throw new Error(result?.content);
      follow(s06, call, result.content);
      return result.content;
    };
  }

  s06.TODO.items = [];
  const options = {
    system: `${s06.SYSTEM}\n(replay ${++replays})`, // no replay finds what another left in the cache
    ...{ tools, approve: async () => {}, signal: new AbortController().signal },
    state: s06.newState(),
  };
  /** Lets time pass: s06's clock is the real one, so the last model call is set back instead. */
  const setClock = (time: number) => {
    now = time;
    options.state.lastCall = Date.now() - (now - called);
  };
  const messages: Anthropic.MessageParam[] = [];
  for (const { request, time, rounds } of session.turns) {
    const { seconds = Infinity, limit = Infinity } = strategy.timer ?? {};
    const alarm = round.replied + 1_000 * seconds;
    if (messages.length > 0 && alarm < time && s06.estimateTokens(messages, options) > limit) {
      now = alarm;
      await s06.autoCompact(messages, "auto", options);
    }
    setClock(time);
    past.push(request);
    ahead = rounds.map((each) => ({ ...each, reply: each.reply.map(intoWorkspace) }));
    await s06.runTurn(messages, request, options).catch((error) => rejected.push(String(error)));
    round = rounds.at(-1) ?? round;
    for (const { usage, error } of server.journal.splice(0)) {
      const note = usage && notes.shift();
      if (error || !note) rejected.push(String(error));
      else {
        const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens: output } = usage;
        const [read, written] = [cache_read_input_tokens ?? 0, cache_creation_input_tokens ?? 0];
        calls.push({ ...note, read, written, output, context: input_tokens + read + written });
      }
    }
  }
  return { calls, rejected };
}

const server = await startServer({ contextLimit: Number.MAX_SAFE_INTEGER, charactersPerToken: CHARACTERS_PER_TOKEN });
process.env.ANTHROPIC_BASE_URL = server.url;
process.on("message", async (job: Job) => {
  process.stdout.write = () => true; // what the lesson prints
  process.send?.(await replay(job));
});
