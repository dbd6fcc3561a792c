/** Records what the site's player shows: a request of each lesson's page, carried out on the local Messages API. */
import type Anthropic from "@anthropic-ai/sdk";
import type { Project } from "./render.ts";

/** `kind` is a block's type, and of a user's text "request" or, if the program wrote it, "note". Of a long text the head, and how many lines `more` there are. */
export type Block = { kind: string; tool?: string; text: string; more?: number };
export type Message = { role: string; blocks: Block[] };
/** In tokens: the prompt is what is read from the cache, what is written to it, and the rest of the input. */
export type Usage = Record<(typeof COUNTS)[number], number>;
/**
 * A model call: what its `messages` have that those of the call before did not have, apart from its reply; after a
 * compaction all of them. A call for a summary has no reply, and not its question.
 */
export type Call = { child: boolean; compacted: boolean; messages: Message[]; usage: Usage; reply?: Message };
/** `limit`: above how many tokens of prompt the lesson compacts; one that doesn't compact has only the model's window. */
export type Run = { command: string; request: string; model: string; window: number; limit?: number; calls: Call[] };
/** What `npm run offline -- --journal` prints. */
type Entry = { request: Anthropic.MessageCreateParams; reply: Anthropic.ContentBlock[]; usage: Usage };
type Journal = (Entry & { isSummary: boolean })[];

/** The requests, each from its lesson's page. That of s06 is smaller here: 7 files instead of 40, and a lower limit. */
const RUNS: Record<string, { request: string; before?: string; limit?: number }> = {
  s01: { request: "Create hello.mjs, a script that prints Hello, World!, and run it." },
  s02: { request: "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it." },
  s03: { request: "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md." },
  s04: { request: "Use a subtask to find out which test runner this project uses." },
  s05: { request: "Load the code-review skill and review agents/s01_agent_loop.ts with it." },
  s06: {
    request: "Read every file in notes/ one by one; use the compact tool when half are read.",
    before: "mkdir -p .offline/notes; for i in {10..16}; do (echo Fact: $i; seq 350) > .offline/notes/$i.txt; done\n",
    limit: 3500,
  },
};

const COUNTS = ["cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens"] as const;
const WINDOW = 200_000; // tokens: the model's, and the local server's
const LINES = 6; // of a block
const WIDTH = 240; // characters of a line

/** The files of the runs, by path. */
export async function recordRuns({ lessons, record }: Project): Promise<Record<string, string>> {
  const files = [...lessons.keys()].map(async (name) => {
    const { request, before = "", limit } = RUNS[name] ?? { request: "" };
    const command = `${before}${limit ? `COMPACT_THRESHOLD=${limit} ` : ""}npm run offline -- ${name} -y "${request}"`;
    const output = await record(command.replace("offline --", "-s offline -- --journal"));
    const journal: Journal = JSON.parse(output.slice(output.lastIndexOf("\n") + 1));
    const model = journal[0]?.request.model ?? "";
    const run: Run = { command, request, model, window: WINDOW, limit, calls: callsOf(journal) };
    return [`tools/docs/runs/${name}.json`, `${JSON.stringify(run, null, 1)}\n`];
  });
  return Object.fromEntries(await Promise.all(files));
}

function callsOf(journal: Journal): Call[] {
  const calls: Call[] = [];
  let parent: Anthropic.MessageParam[] = [];
  let child: Anthropic.MessageParam[] = [];
  for (const { request, reply, usage, isSummary } of journal) {
    const { system } = request;
    const messages = isSummary ? request.messages.slice(0, -1) : request.messages;
    const isChild = system !== journal[0]?.request.system;
    const before = isChild ? child : parent;
    const isSame = before.every((message, i) => JSON.stringify(message) === JSON.stringify(messages[i]));
    const known = isSame && before.length > 0 ? before.length + 1 : 0; // with the reply
    calls.push({
      child: isChild,
      compacted: !isSame,
      messages: messages.slice(known).map(({ role, content }) => ({ role, blocks: blocksOf(role, content) })),
      usage: countsOf(usage),
      ...(!isSummary && { reply: { role: "assistant", blocks: blocksOf("assistant", reply) } }),
    });
    if (isChild) child = messages;
    else {
      parent = messages;
      child = [];
    }
  }
  return calls;
}

const countsOf = (usage: Usage) => Object.fromEntries(COUNTS.map((count) => [count, usage[count]])) as Usage;

function blocksOf(role: string, content: Anthropic.MessageParam["content"]): Block[] {
  if (typeof content === "string") return [block("request", content)];
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
  const shown = lines.slice(0, LINES).map((line) => (line.length > WIDTH ? `${line.slice(0, WIDTH)} …` : line));
  const more = Math.max(0, lines.length - LINES);
  return { kind, text: shown.join("\n"), ...(more > 0 && { more }) };
}
