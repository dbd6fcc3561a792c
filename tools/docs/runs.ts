/** Records what the site's player shows: a request of each lesson's page, carried out on the local Messages API. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";
import { codeHash } from "../lesson/hash.ts";
import { STOPPED } from "../lesson/wording.ts";
import type { Project } from "./render.ts";

/** `kind` is a block's type, and of a user's text "request" or, if the program wrote it, "note". Of a long text the head, and how many lines `more` there are. */
export type Block = { kind: string; tool?: string; text: string; more?: number };
export type Message = { role: string; blocks: Block[] };
/** In tokens: the prompt is what is read from the cache, what is written to it, and the rest of the input. */
export type Usage = Record<(typeof COUNTS)[number], number>;
/**
 * A model call: what its `messages` have that those of the call before did not have, apart from its reply; after a
 * compaction all of them. A call for a summary has no reply, and not its question. `resumed`: the first of a program that
 * goes on with a transcript. `estimate`: the tokens that would have been sent, had nothing been compacted before it, and
 * how many fewer if layer 1 had acted.
 */
export type Call = {
  child: boolean;
  compacted: boolean;
  resumed?: boolean;
  estimate?: { tokens: number; saved: number };
  messages: Message[];
  usage: Usage;
  reply?: Message;
};
/** `limit`: above how many tokens of prompt the lesson compacts; one that doesn't compact has only the model's window. */
export type Run = {
  code: string; // of the lesson
  command: string;
  model: string;
  window: number;
  limit?: number;
  calls: Call[];
};
/** What `npm run offline -- --journal` prints of a model call. */
type Entry = { request: Anthropic.MessageCreateParams; reply: Anthropic.ContentBlock[]; usage: Usage } & {
  isSummary: boolean;
  resumed?: boolean;
};
type Messages = Anthropic.MessageParam[];
type Layer1 = (messages: Messages) => Messages;

/** The requests on each lesson's page. The second list goes to a program that continues the transcript. */
const RUNS: Record<string, { requests: string[][]; before?: string; limit?: number }> = {
  s01: { requests: [["Create hello.mjs, a script that prints Hello, World!, and run it."]] },
  s02: {
    requests: [["Create greet.mjs with a greet function, then edit it so that it greets in French, and run it."]],
  },
  s03: { requests: [["Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md."]] },
  s04: { requests: [["Have a subagent read every file in skills/debug/ one by one and report what each is about."]] },
  s05: { requests: [["Load the code-review skill and review agents/s01_agent_loop.ts with it."]] },
  s06: {
    limit: 16_000,
    before: `mkdir -p .offline/notes
(echo Fact: 10; seq 100000000000000000 100000000000000980) > .offline/notes/10.txt
for i in {11..14}; do (echo Fact: $i; seq 10000 10935) > .offline/notes/$i.txt; done
(echo Fact: 15; seq 80) > .offline/notes/15.txt
(echo Fact: 16; seq 100000000000000 100000000000980) > .offline/notes/16.txt
for i in {17..23}; do (echo Fact: $i; seq 10000 10750) > .offline/notes/$i.txt; done
`,
    requests: [
      [
        "Read every file in notes/ one by one; use the compact tool when half are read.",
        "Run `kill -9 $PPID`.", // this ends the lesson in the middle of a call
      ],
      ["Run `wc -l notes/*`."],
    ],
  },
};

const COUNTS = ["cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens"] as const;
const WINDOW = 200_000; // tokens: the model's, and the local server's
const LINES = 6; // of a block
const NOTE_LINES = 12; // of what the program wrote: a summary is there as a whole
const WIDTH = 240; // characters of a line

/** The files of the runs, by path. */
export async function recordRuns({ root, lessons, record }: Project): Promise<Record<string, string>> {
  const files = [...lessons.values()].map(async ({ name, file }) => {
    const { requests, before = "", limit } = RUNS[name] ?? { requests: [] };
    const command = `${limit ? `COMPACT_THRESHOLD=${limit} ` : ""}npm run offline -- ${name} -y`;
    const starts = requests.map((lines, i) => {
      const typed = lines.map((line) => `'${line}'`).join(" ");
      const start = `printf '%s\\n' ${typed} | ${command.replace("offline --", "-s offline -- --journal")}`;
      return i === 0 ? start : `${start} --continue`;
    });
    const output = await record(before + starts.join("\n"));
    const journals: Entry[][] = (output.match(/^\[\{"request".*$/gm) ?? []).map((line) => JSON.parse(line));
    const journal = journals.flatMap((each, i) => each.map((entry, j) => ({ ...entry, resumed: i > 0 && j === 0 })));
    const model = journal[0]?.request.model ?? "";
    const code = codeHash(readFileSync(join(root, file), "utf8"));
    const { microCompact } = await import("../../agents/s06_context_compact.ts");
    const run: Run = { code, command, model, window: WINDOW, limit, calls: callsOf(journal, microCompact) };
    return [`tools/docs/runs/${name}.json`, `${JSON.stringify(run, null, 1)}\n`];
  });
  return Object.fromEntries(await Promise.all(files));
}

function callsOf(journal: Entry[], clear: Layer1): Call[] {
  let parent: Messages = [];
  let child: Messages = [];
  return journal.map((entry, i) => {
    const { request, reply, usage, isSummary, resumed } = entry;
    const messages = isSummary ? request.messages.slice(0, -1) : request.messages;
    const isChild = request.system !== journal[0]?.request.system;
    const before = isChild ? child : parent;
    const isSame = before.every((message, j) => JSON.stringify(message) === JSON.stringify(messages[j]));
    const known = isSame && before.length > 0 ? before.length + 1 : 0; // with the reply
    if (isChild) child = messages;
    else [parent, child] = [messages, []];
    const estimate = isSummary || !isSame ? estimateAt(journal, i, clear) : undefined;
    return {
      child: isChild,
      compacted: !isSame,
      ...(resumed && { resumed }),
      ...(estimate && { estimate }),
      messages: messages.slice(known).map(({ role, content }) => ({ role, blocks: blocksOf(role, content) })),
      usage: countsOf(usage),
      ...(!isSummary && { reply: { role: "assistant", blocks: blocksOf("assistant", reply) } }),
    };
  });
}

/** What a model call would have sent, had nothing been compacted since the one before; by its characters per token. */
function estimateAt(journal: Entry[], at: number, clear: Layer1): Call["estimate"] {
  const before = journal[at - 1];
  const after = journal.find(({ isSummary }, i) => i >= at && !isSummary)?.request.messages ?? [];
  if (!before || before.isSummary) return;
  const open = after.slice(after.findLastIndex(({ role }) => role === "assistant") + 1);
  const { system, tools, messages } = before.request;
  const lengthOf = (all: Messages) => JSON.stringify([system, tools, all]).length;
  const all = [...messages, { role: "assistant" as const, content: before.reply }, ...open];
  const tokensOf = (all: Messages) => Math.round((promptOf(before.usage) * lengthOf(all)) / lengthOf(messages));
  return { tokens: tokensOf(all), saved: tokensOf(all) - tokensOf(clear(all)) };
}

export const promptOf = (usage: Usage) =>
  usage.cache_read_input_tokens + usage.cache_creation_input_tokens + usage.input_tokens;
const countsOf = (usage: Usage) => Object.fromEntries(COUNTS.map((count) => [count, usage[count]])) as Usage;

function blocksOf(role: string, content: Anthropic.MessageParam["content"]): Block[] {
  if (typeof content === "string") {
    const user = content.startsWith(STOPPED) ? "note" : "request";
    return [block(role === "user" ? user : "text", content)];
  }
  return content.map((each) => {
    if (each.type === "text") return block(role === "user" ? "note" : "text", each.text);
    if (each.type === "thinking") return block("thinking", each.thinking);
    if (each.type === "tool_use") return { ...block("tool_use", textOf(each.input)), tool: each.name };
    if (each.type === "tool_result") return block("tool_result", String(each.content));
    throw new Error(`the player does not show a block of type ${each.type}`);
  });
}

/** A call's input, a field a line; of a list each item. */
function textOf(input: unknown): string {
  const fields = Object.entries(Object(input)).map(([name, value]) => {
    const items = Array.isArray(value) ? value.map((item) => `\n  ${JSON.stringify(item)}`).join("") : ` ${value}`;
    return `${name}:${items}`;
  });
  return fields.join("\n");
}

function block(kind: string, text: string): Block {
  const lines = text.trimEnd().split("\n");
  const limit = kind === "note" ? NOTE_LINES : LINES;
  const shown = lines.slice(0, limit).map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH)} …` : line));
  const more = Math.max(0, lines.length - limit);
  return { kind, text: shown.join("\n"), ...(more > 0 && { more }) };
}
