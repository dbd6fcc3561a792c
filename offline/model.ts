/**
 * The rehearsal model plays the "Try it" requests of the lessons with real tool calls, so they run without a key. It's a
 * pure function of the request: if a compaction loses a fact, the model has lost it as well. Asked for anything else, it
 * says that it isn't a language model.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { contentBlocks } from "./api/said.ts";
import type { Model, Reply, ReplyBlock } from "./api/server.ts";
import { CLEARED, CUT, INTERRUPTED, SAVED, STOPPED, SUMMARY, SUMMARY_REQUEST } from "./wording.ts";

/** A call that was made, according to the messages or a summary. */
type Done = { tool: string; result: string; failed: boolean };

/** Everything the model knows, all from the messages. */
type Memory = {
  system: string;
  tools: string[];
  request: string;
  /** The calls since the newest request, in order. */
  done: Done[];
  /** The commands that were interrupted. */
  interrupted: string[];
  /** For each folder that was listed, the names in it. */
  folders: Map<string, string[]>;
  /** For each file that was read, what it's about. */
  facts: Map<string, string>;
};

type Action = { note: string; tool: string; input: Record<string, unknown> };
/** `steps` are taken in order; then `answer` returns the answer, or another action. */
type Scene = {
  match: RegExp;
  steps?: Action[];
  answer: (memory: Memory, match: RegExpExecArray) => Action | string;
};

// --- the scenes -----------------------------------------------------------------------------------------------------

const act = (note: string, tool: string, input: Record<string, unknown>): Action => ({ note, tool, input });
const bash = (note: string, command: string) => act(note, "bash", { command });
const todo = (note: string, texts: string[], completed: number) => {
  const statusOf = (i: number) => (i < completed ? "completed" : i === completed ? "in_progress" : "pending");
  return act(note, "todo", { items: texts.map((text, i) => ({ text, status: statusOf(i) })) });
};

/** Returns the next action, an answer if a call has failed, or undefined if all are done. */
function nextOf({ done }: Memory, actions: Action[]): Action | string | undefined {
  const failed = done.find((each) => each.failed);
  if (failed) return `${failed.tool} did not work out: ${firstLine(failed.result)}. This rehearsal stops here.`;
  return actions[done.length];
}

const lastResult = (memory: Memory, tool: string) =>
  memory.done.findLast((done) => done.tool === tool)?.result ?? "(no result)";

/** Returns what a request wants done when half of the files are read, unless that was tried or needs a tool that is missing. */
function halfwayOf({ request, tools, done, interrupted }: Memory): Action | undefined {
  const compacts = /use the compact tool when half/i.test(request) && tools.includes("compact");
  if (compacts && !done.some(({ tool }) => tool === "compact"))
    return act("Half are done, so it's time to compact.", "compact", { focus: "what each file said" });
  const [, command] = /run `(.+?)` when half/i.exec(request) ?? [];
  return command && !interrupted.includes(command) ? bash("Half are done.", command) : undefined;
}

/** Reads every file of a folder, one at a time, and notes its fact. `halfway` is done when half of them are read. */
function readAll({ done, folders, facts }: Memory, folder: string, halfway?: Action): Action | string {
  const names = folders.get(folder);
  const last = done.at(-1);
  if (!names && last?.failed) return `I cannot list ${folder}: ${firstLine(last.result)}.`;
  if (!names) return bash(`First, the names in ${folder}.`, `ls -p ${folder}`);
  const paths = names.map((name) => `${folder}/${name}`);
  const left = paths.filter((path) => !facts.has(path));
  const isHalfway = left.length === Math.floor(paths.length / 2);
  if (halfway && isHalfway) return halfway;
  const [path, fact] = [...facts].at(-1) ?? [];
  const note = done.some(({ tool }) => tool === "read_file") ? `Noted ${path}: ${fact}` : "Now one file at a time."; // stays when the result is cleared
  if (left[0]) return act(note, "read_file", { path: left[0] });
  const which = paths.length === 1 ? "the only file" : `all ${paths.length} files`;
  return `I have read ${which} in ${folder}:\n${paths.map((path) => `- ${path}: ${facts.get(path)}`).join("\n")}`;
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
const SCENES: Scene[] = [
  {
    match: /create hello\.mjs/i,
    steps: [
      bash("A file with one line is enough.", "echo 'console.log(\"Hello, World!\");' > hello.mjs"),
      bash("Now I'll run it.", "node hello.mjs"),
    ],
    answer: (memory) => `hello.mjs is there; it printed: ${firstLine(lastResult(memory, "bash"))}`,
  },
  {
    match: /^read package\.json/i,
    steps: [act("package.json should have both.", "read_file", { path: "package.json" })],
    answer: (memory) => {
      const field = (name: string) => new RegExp(`"${name}": "(.*)"`).exec(lastResult(memory, "read_file"))?.[1];
      return `The project is called ${field("name")}; its license is ${field("license")}.`;
    },
  },
  {
    match: /create greet\.mjs/i,
    steps: [
      act("First, the English version.", "write_file", { path: "greet.mjs", content: GREET }),
      act("Now the French greeting.", "edit_file", { path: "greet.mjs", old_text: "Hello, ", new_text: "Bonjour, " }),
      bash("Does it work?", "node greet.mjs"),
    ],
    answer: (memory) => `greet.mjs greets in French: ${firstLine(lastResult(memory, "bash"))}`,
  },
  {
    match: /math\.mjs/i,
    steps: [
      todo("Three steps. I'll write them down.", MATH_STEPS, 0),
      act("First the module.", "write_file", { path: "math.mjs", content: MATH }),
      act("Now its test.", "write_file", { path: "math.test.mjs", content: MATH_TEST }),
      bash("Now I'll run the test.", "node math.test.mjs"),
      todo("Right, two steps are done.", MATH_STEPS, 2),
      act("Now the description.", "write_file", { path: "MATH.md", content: MATH_PAGE }),
      todo("All done.", MATH_STEPS, 3),
    ],
    answer: (memory) =>
      `math.mjs is written, tested (${firstLine(lastResult(memory, "bash"))}) and described in MATH.md.`,
  },
  {
    match: /count\.mjs/i,
    steps: [
      todo("Two steps.", COUNT_STEPS, 0),
      act("First the script.", "write_file", { path: "count.mjs", content: COUNT }),
      todo("The script is written.", COUNT_STEPS, 1),
      bash("Now I'll run it.", "node count.mjs"),
      todo("Done.", COUNT_STEPS, 2),
    ],
    answer: (memory) => `count.mjs says:\n${lastResult(memory, "bash")}`,
  },
  {
    match: /^have a subagent r(ead every file in \S+ one by one.*)$/is,
    answer: (memory, match) => {
      const note = "That's a lot to read for a short report, so I'll use a subagent.";
      const next = nextOf(memory, [act(note, "task", { prompt: `R${match[1]}` })]);
      return next ?? `The subagent's report:\n${lastResult(memory, "task")}`;
    },
  },
  {
    match: /which skills/i,
    answer: ({ system }) => {
      const skills = system.match(/^- [\w-]+: .*$/gm) ?? [];
      return skills.length ? `My system prompt names these:\n${skills.join("\n")}` : "My system prompt names none.";
    },
  },
  {
    match: /load the code-review skill/i,
    steps: [
      act("First the skill.", "load_skill", { name: "code-review" }),
      act("Now the file.", "read_file", { path: "agents/s01_agent_loop.ts" }),
    ],
    answer: () => "I loaded the skill and read the file, but only a real model can judge code.",
  },
  {
    match: /^read every file in (?:the )?([\w./-]+?)\/?(?: folder)? one by one/i,
    answer: (memory, match) => readAll(memory, match[1] ?? ".", halfwayOf(memory)),
  },
  {
    match: /^run `(.+)`/is,
    answer: (memory, match) =>
      nextOf(memory, [bash("OK, running it.", match[1] ?? "")]) ?? `It printed:\n${lastResult(memory, "bash")}`,
  },
];

const HELP = `This is a rehearsal, not a language model: a script that knows the requests on
the lessons' pages (docs/, under "Try it"), such as "Which skills do you have?".
For anything else, set ANTHROPIC_API_KEY; docs/running.md says how.`;

// --- reading the messages -------------------------------------------------------------------------------------------

/** Returns whether this is s06's call for a summary. */
export function isSummaryCall({ messages }: Pick<Anthropic.MessageCreateParams, "messages">): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(SUMMARY_REQUEST);
}

const firstLine = (text: string) => text.split("\n").find((line) => line.trim()) ?? "";

/** Returns what a file is about: its line that begins with "Fact:", or else its first line with a letter. */
function factOf(text: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith(SAVED) && !line.startsWith(CUT));
  const fact = lines.find((line) => line.startsWith("Fact:"))?.slice(5) ?? lines.find((line) => /\p{L}/u.test(line));
  return (fact ?? "(nothing)")
    .replace(/^[\s/*#<!-]+/, "")
    .trim()
    .slice(0, 80);
}

/** Returns what the messages of a model call say, read from first to last. */
function recall({ messages, system, tools = [] }: Anthropic.MessageCreateParams): Memory {
  const names = tools.flatMap((tool) => ("name" in tool ? tool.name : []));
  const about = { system: String(system), tools: names, request: "", done: [], interrupted: [] };
  const memory: Memory = { ...about, folders: new Map(), facts: new Map() };
  const calls = new Map<string, Anthropic.ToolUseBlockParam>();
  for (const message of messages) {
    readRequest(memory, message);
    for (const block of contentBlocks(message.content)) {
      if (block.type === "tool_use") calls.set(block.id, block);
      else if (block.type === "tool_result") readResult(memory, calls.get(block.tool_use_id), block);
      else if (block.type === "thinking") readNotes(memory, block.thinking);
      else if (block.type === "text") readText(memory, message.role, block.text);
    }
  }
  return memory;
}

const GO_ON = /^(go on|continue)\b/i;

/** A request is a string. After "go on", only what failed is done again. */
function readRequest(memory: Memory, { role, content }: Anthropic.MessageParam): void {
  if (role !== "user" || typeof content !== "string" || content.startsWith(STOPPED)) return;
  const isOld = GO_ON.test(content);
  memory.done = memory.done.filter(({ failed }) => isOld && !failed);
  if (!isOld) memory.request = content;
}

/** In thinking that a compaction left as text, there are notes as well. */
function readText(memory: Memory, role: string, text: string): void {
  const isSummary = role === "user" && text.startsWith(SUMMARY);
  if (isSummary) readSummary(memory, text);
  if (isSummary || role === "assistant") readNotes(memory, text);
}

function readNotes({ facts }: Memory, text: string): void {
  for (const [, path = "", fact = ""] of text.matchAll(/^Noted (\S+): (.*)$/gm)) facts.set(path, fact);
}

function readResult(
  { done, interrupted, folders, facts }: Memory,
  call: Anthropic.ToolUseBlockParam | undefined,
  { content, is_error: failed = false }: Anthropic.ToolResultBlockParam,
) {
  const result = typeof content === "string" ? content : "";
  const { path, command = "" } = Object(call?.input);
  if (result.startsWith(INTERRUPTED)) interrupted.push(command); // not done, so the call is made again
  if (!call || result.startsWith(INTERRUPTED)) return;
  done.push({ tool: call.name, result, failed });
  if (result.startsWith(CLEARED)) return;
  if (call.name === "read_file") facts.set(path, failed ? firstLine(result) : factOf(result));
  const [, folder] = /^ls -p (.*)$/.exec(command) ?? [];
  const names = result.split("\n").filter((name) => name && !/\/$|^\(/.test(name));
  if (folder && !failed) folders.set(folder, names);
}

// --- the summary, written so that the model can read it back --------------------------------------------------------

function summarize({ request, folders, facts, done }: Memory): string {
  const calls = done.filter(({ tool, failed }) => tool !== "read_file" && !failed);
  return [
    `Goal: ${firstLine(request).slice(0, 150)}`,
    ...calls.map(({ tool, result }) => `Called ${tool} → ${firstLine(result).slice(0, 80)}`),
    ...[...folders].map(([folder, names]) => `Folder ${folder}: ${names.join(" ")}`),
    ...[...facts].map(([path, fact]) => `Noted ${path}: ${fact}`),
  ].join("\n");
}

function readSummary({ folders, done }: Memory, text: string): void {
  for (const [, folder = "", names = ""] of text.matchAll(/^Folder (\S+): (.*)$/gm))
    folders.set(folder, names.split(" "));
  for (const [, tool = "", result = ""] of text.matchAll(/^Called (\w+) → (.*)$/gm))
    done.push({ tool, result, failed: false });
}

// --- the reply ------------------------------------------------------------------------------------------------------

/** The rehearsal model: plays the scene that matches the newest request, or writes a summary if asked for one. */
export const rehearse: Model = (request) => {
  if (isSummaryCall(request)) return say(summarize(recall({ ...request, messages: request.messages.slice(0, -1) })));
  const memory = recall(request);
  for (const scene of SCENES) {
    const match = scene.match.exec(memory.request);
    if (!match) continue;
    const next = (scene.steps && nextOf(memory, scene.steps)) ?? scene.answer(memory, match);
    if (typeof next === "string") return say(next);
    if (memory.tools.includes(next.tool)) return toReply(next, request);
    return say(`This part needs the tool ${next.tool}, which I do not have here.`);
  }
  return say(HELP);
};

const say = (text: string): Reply => ({ content: [{ type: "text", text }], thinks: false });

/** Makes a reply with a call. The note before it is thinking, or text if the API would return empty thinking. */
function toReply({ note, tool, input }: Action, { thinking }: Anthropic.MessageCreateParams): Reply {
  const isSummarized = thinking?.type === "adaptive" && thinking.display === "summarized";
  const said: ReplyBlock = isSummarized ? { type: "thinking", thinking: note } : { type: "text", text: note };
  return { content: [said, { type: "tool_use", name: tool, input }] };
}
