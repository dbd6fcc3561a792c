/**
 * Replays recorded sessions through s06 under one strategy. `bench.ts` starts a process of this on each core, since a
 * lesson belongs to a folder and an environment.
 *
 * The loop is the lesson's, or the textbook's. The replies come from the record, through the strict server, and so do the
 * results of tools. The clock of this process is the session's; the server's `usage` is the bill.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { startServer } from "../api/server.ts";
import { textbook } from "./textbook.ts";
import type { Round, Session } from "./turns.ts";

const CHARACTERS_PER_TOKEN = 3;
const SUMMARY = "Done so far. ".repeat((2_000 * CHARACTERS_PER_TOKEN) / 13);
const LIFETIME = 300_000; // milliseconds that the prompt cache lives

/** `file`: s06 as the strategy changes it. */
export type Job = { strategy: string; file: string; session: Session };

/** An edit whose old text the session had shown before. */
export type Edit = {
  path: string;
  /** Whether the prompt no longer has that text. */
  isLost: boolean;
  /** What had shown it last: which text of the session, from which call on it was in the prompt, how many tokens it has. */
  source: { text: number; from: number; tokens: number };
};
/** One request and what it was billed for, in tokens. */
export type Call = {
  isSummary: boolean;
  /** Whether it is the first after a pause of the user in which the cache expired. */
  isReturn: boolean;
  /** The whole prompt, and how much was read from the cache and written to it. */
  context: number;
  read: number;
  written: number;
  output: number;
  /** In its reply. */
  edits: Edit[];
};
export type Replayed = { calls: Call[]; rejected: string[] };

type Lesson = typeof import("../../agents/s06_context_compact.ts");

/** All texts in a value, however deep. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

const isFileTool = (name: string) => ["read_file", "write_file", "edit_file"].includes(name);

const OUTSIDE = "outside/";
/** A call of a file outside the workspace, which s06 would refuse, gets a path in it. No file is there. */
function intoWorkspace<Block extends Round["reply"][number]>(block: Block): Block {
  if (block.type !== "tool_use" || !isFileTool(block.name)) return block;
  const { path } = Object(block.input);
  const isOutside = typeof path === "string" && /^(\/|~|\.\.)/.test(path);
  return isOutside ? { ...block, input: { ...Object(block.input), path: `${OUTSIDE}${basename(path)}` } } : block;
}

/** Brings a file to the state that a recorded call left or showed, so that s06 restores what was there. */
function follow({ runEdit, runWrite }: Lesson, call: Anthropic.ToolUseBlockParam, result: string): void {
  const { path, content, old_text, new_text, offset = 1 } = Object(call.input);
  if (!isFileTool(call.name) || String(path).startsWith(OUTSIDE)) return;
  makeFolders(String(path));
  try {
    if (call.name === "write_file") runWrite(path, content);
    if (call.name === "edit_file") runEdit(path, old_text, new_text);
    if (call.name !== "read_file") return;
    const shown = result.replace(/\n\[the file has \d+ lines; .*\]$/, "").split("\n");
    const known = offset > 1 ? readFileSync(path, "utf8").replace(/\n$/, "").split("\n") : [];
    const before = Array.from({ length: offset - 1 }, (_, i) => known[i] ?? "");
    runWrite(path, [...before, ...shown, ...known.slice(before.length + shown.length)].join("\n"));
  } catch {} // the record shows too little of the file
}

/** Some agents read a folder like a file. What looked like a file makes way for the folder that it is. */
function makeFolders(path: string): void {
  for (let folder = dirname(path); folder !== "."; folder = dirname(folder))
    if (existsSync(folder) && !statSync(folder).isDirectory()) rmSync(folder);
}

let replays = 0;
let now = 0; // in the session
Date.now = () => now;
const NONE: Round = { reply: [{ type: "text", text: "(the record ends here)" }], replied: 0, results: [], time: 0 };

/** Replays a session in the current folder, which it empties. */
async function replay({ strategy, file, session }: Job): Promise<Replayed> {
  for (const name of readdirSync(".")) rmSync(name, { recursive: true });
  const s06: Lesson = await import(pathToFileURL(file).href);
  const runTurn = strategy === "textbook" ? textbook(s06) : s06.runTurn;
  server.journal.length = 0;
  const calls: Call[] = [];
  const rejected: string[] = [];
  const notes: Pick<Call, "isSummary" | "isReturn" | "edits">[] = []; // of the requests of this turn
  const past: { text: string; from: number }[] = []; // what the session has shown so far
  let ahead: Round[] = []; // the rounds of this turn that are still to come
  let round = NONE;
  let waiting: Anthropic.ToolUseBlockParam[] = []; // the calls of this round that are still to be run
  let count = 0; // of replies
  let isReturn = false;
  let called = Infinity; // when the model was called last
  const remember = (value: unknown) => past.push(...textsOf(value).map((text) => ({ text, from: count })));

  server.model = ({ messages }) => {
    const isSummary = textsOf(messages.at(-1)).some((text) => text.startsWith(s06.SUMMARY_PROMPT));
    const edits: Edit[] = [];
    notes.push({ isSummary, isReturn, edits });
    isReturn = false;
    called = now;
    if (isSummary) return { content: [{ type: "text", text: SUMMARY }] };
    round = ahead.shift() ?? NONE;
    waiting = round.reply.filter((block) => block.type === "tool_use");
    const context = textsOf(messages);
    for (const { name, input } of waiting) {
      const { path, old_text } = Object(input);
      const index = name === "edit_file" ? past.findLastIndex(({ text }) => text.includes(old_text)) : -1;
      const seen = past[index];
      if (!seen) continue;
      const source = { text: index, from: seen.from, tokens: Math.ceil(seen.text.length / CHARACTERS_PER_TOKEN) };
      edits.push({ path, isLost: !context.some((text) => text.includes(old_text)), source });
    }
    count++;
    remember([round.reply, round.results]);
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
      now = round.time;
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
  const messages: Anthropic.MessageParam[] = [];
  for (const { request, time, rounds } of session.turns) {
    now = time;
    isReturn = now - called > LIFETIME;
    remember(request);
    ahead = rounds.map((each) => ({ ...each, reply: each.reply.map(intoWorkspace) }));
    await runTurn(messages, request, options).catch((error) => rejected.push(String(error)));
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
