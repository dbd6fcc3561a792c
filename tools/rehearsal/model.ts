/**
 * The rehearsal model plays the "Try it" requests of the lessons with real tool calls, so they run without a key. It's a
 * pure function of the request: if a compaction loses a fact, the model has lost it as well. Asked for anything else, it
 * says that it isn't a language model.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { contentBlocks, type Model, type Reply, type ReplyBlock } from "../api/server.ts";
import { CLEARED, CUT, INTERRUPTED, SAVED, STOPPED, SUMMARY, SUMMARY_REQUEST } from "../lesson/wording.ts";

/** A call that was made, according to the messages or a summary. `key` tells it from other calls of the same tool. */
type Done = { tool: string; key: string; result: string; failed: boolean };

/** Everything the model knows, all from the messages. */
type Memory = {
  request: string;
  /** The calls since the newest request, in order. */
  done: Done[];
  /** For each folder that was listed, the names in it. */
  folders: Map<string, string[]>;
  /** For each file read since the newest request, its fact. */
  facts: Map<string, string>;
  /** The same for the whole conversation. */
  known: Map<string, string>;
  system: string;
};

type Action = { note: string; tool: string; input: Record<string, unknown> };
/** Returns the next call, or the answer. */
type Play = (memory: Memory, match: RegExpExecArray) => Action | string;

// --- the scenes -----------------------------------------------------------------------------------------------------

const act = (note: string, tool: string, input: Record<string, unknown>): Action => ({ note, tool, input });
const bash = (note: string, command: string) => act(note, "bash", { command });
const todo = (note: string, texts: string[], completed: number) =>
  act(note, "todo", {
    items: texts.map((text, i) => ({
      text,
      status: i < completed ? "completed" : i === completed ? "in_progress" : "pending",
    })),
  });

/** Returns the first action that hasn't been taken, an answer if a call has failed, or undefined if all are done. */
function nextOf(memory: Memory, ...actions: Action[]): Action | string | undefined {
  const failed = memory.done.find((done) => done.failed);
  if (failed) return `${failed.tool} did not work out: ${firstLine(failed.result)}. This rehearsal stops here.`;
  return actions.find(
    ({ tool, input }) => !memory.done.some((done) => done.tool === tool && done.key === keyOf(input)),
  );
}

const lastResult = (memory: Memory, tool: string) =>
  memory.done.findLast((done) => done.tool === tool)?.result ?? "(no result)";

/** Reads every file of a folder, one at a time, and notes its fact. `halfway` is done when half of them are read. */
function readAll(memory: Memory, folder: string, halfway?: Action): Action | string {
  const listing = memory.done.findLast((done) => done.key === `ls -p ${folder}`);
  if (listing?.failed) return `I cannot list ${folder}: ${firstLine(listing.result)}.`;
  const names = memory.folders.get(folder);
  if (!names) return bash(`First, the names in ${folder}.`, `ls -p ${folder}`);
  const isHalfway = memory.facts.size >= names.length / 2;
  if (halfway && isHalfway && !memory.done.some((done) => done.tool === halfway.tool)) return halfway;
  const next = names.find((name) => !memory.facts.has(`${folder}/${name}`));
  if (next) return act(lastNote(memory), "read_file", { path: `${folder}/${next}` });
  const lines = names.map((name) => `- ${folder}/${name}: ${memory.facts.get(`${folder}/${name}`)}`);
  const which = names.length === 1 ? "the only file" : `all ${names.length} files`;
  return `I have read ${which} in ${folder}:\n${lines.join("\n")}`;
}

/** Returns a note of the last file's fact, which stays when the result is cleared. */
function lastNote(memory: Memory): string {
  const last = memory.done.findLast((done) => done.tool === "read_file");
  const fact = last && memory.facts.get(last.key);
  return fact ? `Noted ${last.key}: ${fact}` : "Now one file at a time.";
}

/** Returns all that a script can honestly say about code: what it can count. */
function review(memory: Memory): string {
  const code = lastResult(memory, "read_file");
  const lines = code.split("\n");
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
  return `I loaded the skill and read the file, but a rehearsal does not judge code. What can be counted in the part I was shown: ${lines.length} lines, ${count(/\bany\b/)} with "any", ${count(/catch \{\s*\}/)} empty catch blocks, ${count(/TODO|FIXME/)} open TODOs. With a real key, the model follows the skill.`;
}

const GREET = 'const greet = (name) => "Hello, " + name;\nconsole.log(greet("World"));\n';
const MATH_STEPS = ["write math.mjs", "test it", "describe it in MATH.md"];
const MATH = "export const add = (a, b) => a + b;\nexport const multiply = (a, b) => a * b;\n";
const MATH_TEST =
  'import assert from "node:assert/strict";\nimport { add, multiply } from "./math.mjs";\nassert.equal(add(2, 3), 5);\nassert.equal(multiply(2, 3), 6);\nconsole.log("both work");\n';
const MATH_PAGE = "# math.mjs\n\n`add(a, b)` and `multiply(a, b)`; `node math.test.mjs` tests both.\n";
const COUNT_STEPS = ["write count.mjs", "run it"];
const COUNT =
  'import { readdirSync, readFileSync } from "node:fs";\nfor (const name of readdirSync("agents")) {\n  console.log(name + ": " + (readFileSync("agents/" + name, "utf8").split("\\n").length - 1));\n}\n';
/** The requests on the lessons' pages, and how each is played. */
const SCENES: { prompt: string; match: RegExp; play: Play }[] = [
  {
    prompt: "Create hello.mjs, a script that prints Hello, World!, and run it.",
    match: /create hello\.mjs/i,
    play: (memory) =>
      nextOf(
        memory,
        bash("A file with one line is enough.", "echo 'console.log(\"Hello, World!\");' > hello.mjs"),
        bash("Now I'll run it.", "node hello.mjs"),
      ) ?? `hello.mjs is there; it printed: ${firstLine(lastResult(memory, "bash"))}`,
  },
  {
    prompt: "Read package.json and tell me the name and the license of this project.",
    match: /^read package\.json/i,
    play: (memory) => {
      const field = (name: string) =>
        new RegExp(`"${name}": "([^"]*)"`).exec(lastResult(memory, "read_file"))?.[1] ?? "unknown";
      const next = nextOf(memory, act("package.json should have both.", "read_file", { path: "package.json" }));
      return next ?? `The project is called ${field("name")}; its license is ${field("license")}.`;
    },
  },
  {
    prompt: "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it.",
    match: /create greet\.mjs/i,
    play: (memory) =>
      nextOf(
        memory,
        act("First, the English version.", "write_file", { path: "greet.mjs", content: GREET }),
        act("Now the French greeting.", "edit_file", {
          path: "greet.mjs",
          old_text: "Hello, ",
          new_text: "Bonjour, ",
        }),
        bash("Does it work?", "node greet.mjs"),
      ) ?? `greet.mjs greets in French: ${firstLine(lastResult(memory, "bash"))}`,
  },
  {
    prompt: "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md.",
    match: /math\.mjs/i,
    play: (memory) =>
      nextOf(
        memory,
        todo("Three steps. I'll write them down.", MATH_STEPS, 0),
        act("First the module.", "write_file", { path: "math.mjs", content: MATH }),
        act("Now its test.", "write_file", { path: "math.test.mjs", content: MATH_TEST }),
        bash("Now I'll run the test.", "node math.test.mjs"),
        todo("Right, two steps are done.", MATH_STEPS, 2),
        act("Now the description.", "write_file", { path: "MATH.md", content: MATH_PAGE }),
        todo("All done.", MATH_STEPS, 3),
      ) ?? `math.mjs is written, tested (${firstLine(lastResult(memory, "bash"))}) and described in MATH.md.`,
  },
  {
    prompt: "Plan and write count.mjs, a script that counts the lines of each file in agents/, and run it.",
    match: /count\.mjs/i,
    play: (memory) =>
      nextOf(
        memory,
        todo("Two steps.", COUNT_STEPS, 0),
        act("First the script.", "write_file", { path: "count.mjs", content: COUNT }),
        todo("The script is written.", COUNT_STEPS, 1),
        bash("Now I'll run it.", "node count.mjs"),
        todo("Done.", COUNT_STEPS, 2),
      ) ?? `count.mjs says:\n${lastResult(memory, "bash")}`,
  },
  {
    prompt: "Have a subagent read every file in skills/code-review/ one by one and report what each is about.",
    match: /^have a subagent (read every file in \S+ one by one.*)$/is,
    play: (memory, match) => {
      const prompt = `R${match[1]?.slice(1)}`;
      const next = nextOf(
        memory,
        act("That's a lot to read for a short report, so I'll use a subagent.", "task", { prompt }),
      );
      return next ?? `The subagent's report:\n${lastResult(memory, "task")}`;
    },
  },
  {
    prompt: "Which skills do you have?",
    match: /which skills/i,
    play: (memory) => {
      const skills = memory.system.match(/^- [\w-]+: .*$/gm) ?? [];
      return skills.length ? `My system prompt names these:\n${skills.join("\n")}` : "My system prompt names none.";
    },
  },
  {
    prompt: "Load the code-review skill and review agents/s01_agent_loop.ts with it.",
    match: /load the code-review skill/i,
    play: (memory) =>
      nextOf(
        memory,
        act("First the skill.", "load_skill", { name: "code-review" }),
        act("Now the file.", "read_file", { path: "agents/s01_agent_loop.ts" }),
      ) ?? review(memory),
  },
  {
    prompt: "Read every file in the agents/ folder one by one and say in one line what each is about.",
    match: /^read every file in (?:the )?([\w./-]+?)\/?(?: folder)? one by one/i,
    play: (memory, match) => {
      const compacts = /use the compact tool when half/i.test(memory.request);
      const compact = act("Half of them are done, so it's time to compact.", "compact", {
        focus: "what each file said",
      });
      return readAll(memory, match[1] ?? ".", compacts ? compact : undefined);
    },
  },
  {
    prompt: "Run `sleep 60`.",
    match: /^run `(.+)`/is,
    play: (memory, match) =>
      nextOf(memory, bash("OK, running it.", match[1] ?? "")) ?? `It printed:\n${lastResult(memory, "bash")}`,
  },
];

/** The requests that the model can play. */
export const PROMPTS = SCENES.map(({ prompt }) => prompt);

const HELP = `This is a rehearsal, not a language model: a script that can play these requests and nothing else.
${PROMPTS.map((prompt) => `- ${prompt}`).join("\n")}
Set ANTHROPIC_API_KEY to talk to a model.`;

// --- reading the messages -------------------------------------------------------------------------------------------

/** Returns whether this is s06's call for a summary. */
export function isSummaryCall({ messages }: Pick<Anthropic.MessageCreateParams, "messages">): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(SUMMARY_REQUEST);
}

const firstLine = (text: string) => text.split("\n").find((line) => line.trim()) ?? "";

/** Returns the part of a call's input that tells it from other calls of the same tool. */
function keyOf(input: unknown): string {
  const { path, command, name, items, prompt } = Object(input);
  if (Array.isArray(items)) return items.map((item) => Object(item).status).join(",");
  return String(path ?? command ?? name ?? prompt ?? "");
}

/** Returns what a file is about: its line that begins with "Fact:", or else its first line with a letter. */
function factOf(text: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith(SAVED) && !line.startsWith(CUT));
  const fact = lines.find((line) => line.startsWith("Fact:"))?.slice(5) ?? lines.find((line) => /\p{L}/u.test(line));
  return (fact ?? "(nothing)")
    .replace(/^[\s/*#<!-]+/, "")
    .trim()
    .slice(0, 80);
}

const NOTHING_DONE = () => ({ done: [], folders: new Map(), facts: new Map() });

/** Returns what the messages of a model call say, read from first to last. */
function recall({ messages, system }: Anthropic.MessageCreateParams): Memory {
  const lasting = { known: new Map(), system: typeof system === "string" ? system : "" };
  let memory: Memory = { ...lasting, ...NOTHING_DONE(), request: "" };
  const calls = new Map<string, Anthropic.ToolUseBlockParam>();
  for (const message of messages) {
    const request = requestIn(message);
    if (request !== undefined) memory = { ...memory, ...NOTHING_DONE(), request };
    for (const block of contentBlocks(message.content)) {
      if (block.type === "tool_use") calls.set(block.id, block);
      else if (block.type === "tool_result") readResult(memory, calls.get(block.tool_use_id), block);
      else readWords(memory, message.role, block);
    }
  }
  return memory;
}

/** Returns the user's request, which is a string in every lesson, or undefined for any other message. */
function requestIn({ role, content }: Anthropic.MessageParam): string | undefined {
  const isRequest = role === "user" && typeof content === "string" && !content.startsWith(STOPPED);
  return isRequest ? content : undefined;
}

function learn(memory: Memory, path: string, fact: string): void {
  memory.facts.set(path, fact);
  memory.known.set(path, fact);
}

function readNotes(memory: Memory, text: string): void {
  for (const [, path, fact] of text.matchAll(/^Noted (\S+): (.*)$/gm)) if (path && fact) learn(memory, path, fact);
}

function readWords(memory: Memory, role: string, block: Anthropic.ContentBlockParam): void {
  if (block.type === "thinking") readNotes(memory, block.thinking);
  if (block.type !== "text") return;
  if (role === "assistant") readNotes(memory, block.text);
  else if (block.text.startsWith(SUMMARY)) readSummary(memory, block.text);
}

function readResult(
  memory: Memory,
  call: Anthropic.ToolUseBlockParam | undefined,
  result: Anthropic.ToolResultBlockParam,
) {
  const text = typeof result.content === "string" ? result.content : "";
  if (!call || text.startsWith(INTERRUPTED)) return; // so the call is made again
  const key = keyOf(call.input);
  const failed = result.is_error === true;
  memory.done.push({ tool: call.name, key, result: text, failed });
  if (text.startsWith(CLEARED)) return;
  if (call.name === "read_file") learn(memory, key, failed ? firstLine(text) : factOf(text));
  else if (key.startsWith("ls -p ") && !failed) {
    const names = text.split("\n").filter((name) => name && !/\/$|^\(/.test(name));
    memory.folders.set(key.slice("ls -p ".length), names);
  }
}

// --- the summary, written so that the model can read it back --------------------------------------------------------

function summarize(memory: Memory): string {
  const folders = [...memory.folders].map(([folder, names]) => `Folder ${folder}: ${names.join(" ")}`);
  const facts = [...memory.known].map(([path, fact]) => `Noted ${path}: ${fact}`);
  const calls = memory.done.filter((done) => done.tool !== "read_file" && !done.key.startsWith("ls -p "));
  const made = calls.map(
    (done) => `Did ${JSON.stringify([done.tool, done.key, firstLine(done.result).slice(0, 80), done.failed])}`,
  );
  return [`Goal: ${firstLine(memory.request).slice(0, 150)}`, ...folders, ...facts, ...made].join("\n");
}

function readSummary(memory: Memory, text: string): void {
  readNotes(memory, text);
  for (const [, folder = "", names = ""] of text.matchAll(/^Folder (\S+): (.*)$/gm))
    memory.folders.set(folder, names.split(" "));
  for (const [, call = ""] of text.matchAll(/^Did (.*)$/gm)) {
    const [tool, key, result, failed] = JSON.parse(call);
    memory.done.push({ tool, key, result, failed });
  }
}

// --- the reply ------------------------------------------------------------------------------------------------------

/** The rehearsal model: plays the scene that matches the newest request, or writes a summary if asked for one. */
export const rehearse: Model = (request) => {
  if (isSummaryCall(request)) return say(summarize(recall({ ...request, messages: request.messages.slice(0, -1) })));
  const memory = recall(request);
  for (const scene of SCENES) {
    const match = scene.match.exec(memory.request);
    if (match) return toReply(scene.play(memory, match), request);
  }
  return say(HELP);
};

const say = (text: string): Reply => ({ content: [{ type: "text", text }], thinks: false });

/** Makes a reply. The note before a call is thinking, or text if the API would return empty thinking. */
function toReply(next: Action | string, { thinking, tools }: Anthropic.MessageCreateParams): Reply {
  if (typeof next === "string") return say(next);
  if (!tools?.some((tool) => "name" in tool && tool.name === next.tool))
    return say(`This part needs the tool ${next.tool}, which I do not have here.`);
  const summarized = thinking?.type === "adaptive" && thinking.display === "summarized";
  const note: ReplyBlock = summarized ? { type: "thinking", thinking: next.note } : { type: "text", text: next.note };
  return { content: [note, { type: "tool_use", name: next.tool, input: next.input }] };
}
