/**
 * The rehearsal model plays the "Try it" requests of the lessons with real tool calls, so that they run without a key. It's
 * a pure function of the request, not a language model: if a compaction loses a fact, the model has lost it as well. When
 * it's asked for anything else, it says what it is.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { blocksOf } from "../api/history.ts";
import type { Model, Reply, ReplyBlock } from "../api/server.ts";
import { CLEARED, CUT, INTERRUPTED, SAVED, STOPPED, SUMMARY, SUMMARY_REQUEST } from "../lesson/wording.ts";

/** A call that was made, found in the messages or in a summary. `key` tells it from other calls of the tool. */
type Done = { tool: string; key: string; result: string; failed: boolean };

/** What the messages say about the newest request. */
type View = {
  request: string;
  /** The calls since the request, in order, first those that a summary names. */
  done: Done[];
  /** The names in each folder that was listed. */
  folders: Map<string, string[]>;
  /** The fact in each file, from its text, the model's notes or a summary. */
  facts: Map<string, string>;
  /** The facts found in the whole conversation. */
  known: Map<string, string>;
  /** The newest summary. */
  summary: string;
  /** Whether that summary comes after the request. */
  compacted: boolean;
  /** How many results layer 1 has cleared. */
  cleared: number;
  system: string;
};

type Step = { note: string; tool: string; input: Record<string, unknown> };
type Part = {
  lesson: string;
  prompt: string;
  match: RegExp;
  play: (view: View, match: RegExpExecArray) => Step | string;
};

// --- the parts ------------------------------------------------------------------------------------------------------

const step = (note: string, tool: string, input: Record<string, unknown>): Step => ({ note, tool, input });
const bash = (note: string, command: string) => step(note, "bash", { command });
const todo = (note: string, texts: string[], completed: number) =>
  step(note, "todo", {
    items: texts.map((text, i) => ({
      text,
      status: i < completed ? "completed" : i === completed ? "in_progress" : "pending",
    })),
  });

/** Plays the steps in order, each once, and stops if one fails. */
function script(steps: Step[], ending: (view: View) => string): Part["play"] {
  return (view) => {
    const failed = view.done.find((done) => done.failed);
    if (failed) return `${failed.tool} did not work out: ${firstLine(failed.result)}. This rehearsal stops here.`;
    const next = steps.find(
      ({ tool, input }) => !view.done.some((done) => done.tool === tool && done.key === keyOf(input)),
    );
    return next ?? ending(view);
  };
}

const resultOf = (view: View, tool: string) =>
  view.done.findLast((done) => done.tool === tool)?.result ?? "(no result)";

/** Reads every file of a folder, one a round, and notes what each says. Halfway through, it can take another step. */
function readAll(view: View, folder: string, halfway?: Step): Step | string {
  const listing = view.done.findLast((done) => done.key === `ls -p ${folder}`);
  if (listing?.failed) return `I cannot list ${folder}: ${firstLine(listing.result)}.`;
  const names = view.folders.get(folder);
  if (!names) return bash(`First, the names in ${folder}.`, `ls -p ${folder}`);
  const isHalfway = view.facts.size >= names.length / 2;
  if (halfway && isHalfway && !view.done.some((done) => done.tool === halfway.tool)) return halfway;
  const next = names.find((name) => !view.facts.has(`${folder}/${name}`));
  if (next) return step(lastNote(view), "read_file", { path: `${folder}/${next}` });
  const lines = names.map((name) => `- ${folder}/${name}: ${view.facts.get(`${folder}/${name}`)}`);
  const which = names.length === 1 ? "the only file" : `all ${names.length} files`;
  return `I have read ${which} in ${folder}:\n${lines.join("\n")}`;
}

/** A note of the last file's fact, which survives when the result is cleared. */
function lastNote(view: View): string {
  const last = view.done.findLast((done) => done.tool === "read_file");
  const fact = last && view.facts.get(last.key);
  return fact ? `Noted ${last.key}: ${fact}` : "Now one file at a time.";
}

/** Reads the same files over and over until the messages show that something was forgotten. */
function readUntilForgotten(view: View): Step | string {
  const reads = view.done.filter((done) => done.tool === "read_file").length;
  if (view.compacted)
    return `The history was compacted: it now begins with a summary. I had read ${view.facts.size} files.`;
  if (view.cleared > 0)
    return `Compaction has set in after ${reads} reads: ${view.cleared} old results are one line each now.`;
  if (reads >= 200) return "Nothing was compacted within 200 reads; a lower COMPACT_THRESHOLD makes it happen sooner.";
  const names = view.folders.get("agents");
  if (!names) return bash("First, the names in agents.", "ls -p agents");
  return step(lastNote(view), "read_file", { path: `agents/${names[reads % names.length]}` });
}

/** All that a script can honestly say about code: what it can count. */
function review(view: View): string {
  const code = resultOf(view, "read_file");
  const lines = code.split("\n");
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
  return `I loaded the skill and read the file, but a rehearsal does not judge code. What can be counted in the part I was shown: ${lines.length} lines, ${count(/\bany\b/)} with "any", ${count(/catch \{\s*\}/)} empty catch blocks, ${count(/TODO|FIXME/)} open TODOs. With a real key, the model follows the skill.`;
}

const MATH = ["write math.mjs", "test it", "describe it in MATH.md"];
const COUNT = ["write count.mjs", "run it"];
const PARTS: Part[] = [
  {
    lesson: "s01",
    prompt: "Create hello.mjs, a script that prints Hello, World!, and run it.",
    match: /create hello\.mjs/i,
    play: script(
      [
        bash("A file with one line is enough.", "echo 'console.log(\"Hello, World!\");' > hello.mjs"),
        bash("Now I'll run it.", "node hello.mjs"),
      ],
      (view) => `hello.mjs is there; it printed: ${firstLine(resultOf(view, "bash"))}`,
    ),
  },
  {
    lesson: "s01",
    prompt: "Which is the largest file in this folder and the folders below it?",
    match: /largest file/i,
    play: script(
      [
        bash(
          "I'll sort the files by size.",
          "find . -type f -not -path '*/.*' -not -path '*/node_modules/*' -exec wc -c {} + | grep -v ' total$' | sort -n | tail -1",
        ),
      ],
      (view) => `The largest file, with its bytes: ${firstLine(resultOf(view, "bash"))}`,
    ),
  },
  {
    lesson: "s02",
    prompt: "Read package.json and tell me the name and the license of this project.",
    match: /^read package\.json/i,
    play: script([step("package.json should have both.", "read_file", { path: "package.json" })], (view) => {
      const field = (name: string) =>
        new RegExp(`"${name}": "([^"]*)"`).exec(resultOf(view, "read_file"))?.[1] ?? "unknown";
      return `The project is called ${field("name")}; its license is ${field("license")}.`;
    }),
  },
  {
    lesson: "s02",
    prompt: "Create greet.mjs with a greet function, then edit it so that it greets in French, and run it.",
    match: /create greet\.mjs/i,
    play: script(
      [
        step("First, the English version.", "write_file", {
          path: "greet.mjs",
          content: 'const greet = (name) => "Hello, " + name;\nconsole.log(greet("World"));\n',
        }),
        step("Now the French greeting.", "edit_file", {
          path: "greet.mjs",
          old_text: "Hello, ",
          new_text: "Bonjour, ",
        }),
        bash("Does it work?", "node greet.mjs"),
      ],
      (view) => `greet.mjs greets in French: ${firstLine(resultOf(view, "bash"))}`,
    ),
  },
  {
    lesson: "s03",
    prompt: "Plan and build a module math.mjs with add and multiply, test it, and describe it in MATH.md.",
    match: /math\.mjs/i,
    play: script(
      [
        todo("Three steps. I'll write them down.", MATH, 0),
        step("First the module.", "write_file", {
          path: "math.mjs",
          content: "export const add = (a, b) => a + b;\nexport const multiply = (a, b) => a * b;\n",
        }),
        step("Now its test.", "write_file", {
          path: "math.test.mjs",
          content:
            'import assert from "node:assert/strict";\nimport { add, multiply } from "./math.mjs";\nassert.equal(add(2, 3), 5);\nassert.equal(multiply(2, 3), 6);\nconsole.log("both work");\n',
        }),
        bash("Now I'll run the test.", "node math.test.mjs"),
        todo("Right, two steps are done.", MATH, 2),
        step("Now the description.", "write_file", {
          path: "MATH.md",
          content: "# math.mjs\n\n`add(a, b)` and `multiply(a, b)`; `node math.test.mjs` tests both.\n",
        }),
        todo("All done.", MATH, 3),
      ],
      (view) => `math.mjs is written, tested (${firstLine(resultOf(view, "bash"))}) and described in MATH.md.`,
    ),
  },
  {
    lesson: "s03",
    prompt: "Plan and write count.mjs, a script that counts the lines of each file in agents/, and run it.",
    match: /count\.mjs/i,
    play: script(
      [
        todo("Two steps.", COUNT, 0),
        step("First the script.", "write_file", {
          path: "count.mjs",
          content:
            'import { readdirSync, readFileSync } from "node:fs";\nfor (const name of readdirSync("agents")) {\n  console.log(name + ": " + (readFileSync("agents/" + name, "utf8").split("\\n").length - 1));\n}\n',
        }),
        todo("The script is written.", COUNT, 1),
        bash("Now I'll run it.", "node count.mjs"),
        todo("Done.", COUNT, 2),
      ],
      (view) => `count.mjs says:\n${resultOf(view, "bash")}`,
    ),
  },
  {
    lesson: "s04",
    prompt: "Use a subagent to find out which test runner this project uses.",
    match: /subagent to find out which test runner/i,
    play: script(
      [
        step("A subagent can look that up.", "task", {
          prompt: "Find the test runner: read package.json and report the command of the test script.",
        }),
      ],
      (view) => `The subagent says: ${resultOf(view, "task")}`,
    ),
  },
  {
    lesson: "s04",
    prompt: "Have a subagent read every file in skills/code-review/ one by one and report what each is about.",
    match: /^have a subagent (read every file in \S+ one by one.*)$/is,
    play: (view, match) =>
      script(
        [
          step("That's a lot to read for a short report, so I'll use a subagent.", "task", {
            prompt: `R${match[1]?.slice(1)}`,
          }),
        ],
        () => `The subagent's report:\n${resultOf(view, "task")}`,
      )(view, match),
  },
  {
    lesson: "s05",
    prompt: "Which skills do you have?",
    match: /which skills/i,
    play: (view) => {
      const skills = view.system.match(/^- [\w-]+: .*$/gm) ?? [];
      return skills.length ? `My system prompt names these:\n${skills.join("\n")}` : "My system prompt names none.";
    },
  },
  {
    lesson: "s05",
    prompt: "Load the code-review skill and review agents/s01_agent_loop.ts with it.",
    match: /load the code-review skill/i,
    play: script(
      [
        step("First the skill.", "load_skill", { name: "code-review" }),
        step("Now the file.", "read_file", { path: "agents/s01_agent_loop.ts" }),
      ],
      review,
    ),
  },
  {
    lesson: "s06",
    prompt: "Read every file in the agents/ folder one by one and say in one line what each is about.",
    match: /^read every file in (?:the )?([\w./-]+?)\/?(?: folder)? one by one/i,
    play: (view, match) => {
      const compact = /use the compact tool when half/i.test(view.request);
      const halfway = step("Half of them are done, so it's time to compact.", "compact", {
        focus: "what each file said",
      });
      return readAll(view, match[1] ?? ".", compact ? halfway : undefined);
    },
  },
  {
    lesson: "s06",
    prompt: "Keep reading the files in agents/ until compression triggers by itself.",
    match: /until compression triggers/i,
    play: readUntilForgotten,
  },
  {
    lesson: "s06",
    prompt: "Use the compact tool, then say what you still know.",
    match: /use the compact tool/i,
    play: script([step("OK, compacting.", "compact", {})], (view) =>
      view.summary
        ? `What I still know is the summary:\n${view.summary}`
        : "Nothing was summarized, so I still know everything.",
    ),
  },
  {
    lesson: "any",
    prompt: "Run `sleep 60`.",
    match: /^run `(.+)`/is,
    play: (view, match) =>
      script([bash("OK, running it.", match[1] ?? "")], () => `It printed:\n${resultOf(view, "bash")}`)(view, match),
  },
  {
    lesson: "subagent",
    prompt: "",
    match: /^find the test runner/i,
    play: script([step("It should be in package.json.", "read_file", { path: "package.json" })], (view) => {
      const command = /"test": "([^"]*)"/.exec(resultOf(view, "read_file"))?.[1];
      return command ? `The test script runs: ${command}` : "package.json has no test script.";
    }),
  },
];

/** The requests that the model can play, and the first lesson with the tools for each. */
export const PROMPTS = PARTS.filter((part) => part.prompt).map(({ lesson, prompt }) => ({ lesson, prompt }));

const CONFESSION = `This is a rehearsal, not a language model: a script that can play these requests and nothing else.
${PROMPTS.map(({ prompt }) => `- ${prompt}`).join("\n")}
Set ANTHROPIC_API_KEY to talk to a model.`;

// --- reading the messages -------------------------------------------------------------------------------------------

/** Whether s06 asks for a summary. The rest of its message varies. */
export function isSummaryCall({ messages }: Pick<Anthropic.MessageCreateParams, "messages">): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(SUMMARY_REQUEST);
}

const firstLine = (text: string) => text.split("\n").find((line) => line.trim()) ?? "";

/** The part of a call's input that tells it from other calls of the same tool. */
function keyOf(input: unknown): string {
  const { path, command, name, items, prompt } = Object(input);
  if (Array.isArray(items)) return items.map((item) => Object(item).status).join(",");
  return String(path ?? command ?? name ?? prompt ?? "");
}

/** One line that says what a file is about: its line that begins with "Fact:", or else the first line with a letter. */
function factOf(text: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith(SAVED) && !line.startsWith(CUT));
  const fact = lines.find((line) => line.startsWith("Fact:"))?.slice(5) ?? lines.find((line) => /\p{L}/u.test(line));
  return (fact ?? "(nothing)")
    .replace(/^[\s/*#<!-]+/, "")
    .trim()
    .slice(0, 80);
}

const NOTHING_DONE = () => ({ done: [], folders: new Map(), facts: new Map(), compacted: false, cleared: 0 });

/** Reads the messages of a model call from first to last. */
function look({ messages, system }: Anthropic.MessageCreateParams): View {
  const lasting = { known: new Map(), summary: "", system: typeof system === "string" ? system : "" };
  let view: View = { ...lasting, ...NOTHING_DONE(), request: "" };
  const calls = new Map<string, Anthropic.ToolUseBlockParam>();
  for (const message of messages) {
    const request = requestIn(message);
    if (request !== undefined) view = { ...view, ...NOTHING_DONE(), request };
    for (const block of blocksOf(message.content)) {
      if (block.type === "tool_use") calls.set(block.id, block);
      else if (block.type === "tool_result") readResult(view, calls.get(block.tool_use_id), block);
      else readWords(view, message.role, block);
    }
  }
  return view;
}

/** The user's request, which is a string in every lesson; undefined if the message is something else. */
function requestIn({ role, content }: Anthropic.MessageParam): string | undefined {
  const isRequest = role === "user" && typeof content === "string" && !content.startsWith(STOPPED);
  return isRequest ? content : undefined;
}

function learn(view: View, path: string, fact: string): void {
  view.facts.set(path, fact);
  view.known.set(path, fact);
}

function readNotes(view: View, text: string): void {
  for (const [, path, fact] of text.matchAll(/^Noted (\S+): (.*)$/gm)) if (path && fact) learn(view, path, fact);
}

function readWords(view: View, role: string, block: Anthropic.ContentBlockParam): void {
  if (block.type === "thinking") readNotes(view, block.thinking);
  if (block.type !== "text") return;
  if (role === "assistant") readNotes(view, block.text);
  else if (block.text.startsWith(SUMMARY)) readSummary(view, block.text);
}

function readResult(view: View, call: Anthropic.ToolUseBlockParam | undefined, result: Anthropic.ToolResultBlockParam) {
  const text = typeof result.content === "string" ? result.content : "";
  if (!call || text.startsWith(INTERRUPTED)) return; // so it has to be called again
  const key = keyOf(call.input);
  const failed = result.is_error === true;
  view.done.push({ tool: call.name, key, result: text, failed });
  if (text.startsWith(CLEARED)) view.cleared++;
  else if (call.name === "read_file") learn(view, key, failed ? firstLine(text) : factOf(text));
  else if (key.startsWith("ls -p ") && !failed) {
    const names = text.split("\n").filter((name) => name && !/\/$|^\(/.test(name));
    view.folders.set(key.slice("ls -p ".length), names);
  }
}

// --- the summary, written so that the model can read it back --------------------------------------------------------

function summarize(view: View): string {
  const folders = [...view.folders].map(([folder, names]) => `Folder ${folder}: ${names.join(" ")}`);
  const facts = [...view.known].map(([path, fact]) => `Noted ${path}: ${fact}`);
  const calls = view.done.filter((done) => done.tool !== "read_file" && !done.key.startsWith("ls -p "));
  const made = calls.map(
    (done) => `Did ${JSON.stringify([done.tool, done.key, firstLine(done.result).slice(0, 80), done.failed])}`,
  );
  return [`Goal: ${firstLine(view.request).slice(0, 150)}`, ...folders, ...facts, ...made].join("\n");
}

function readSummary(view: View, text: string): void {
  view.compacted = true;
  view.summary = text.slice(text.indexOf("\n\n") + 2); // without its first line
  readNotes(view, view.summary);
  for (const [, folder = "", names = ""] of view.summary.matchAll(/^Folder (\S+): (.*)$/gm))
    view.folders.set(folder, names.split(" "));
  for (const [, call = ""] of view.summary.matchAll(/^Did (.*)$/gm)) {
    const [tool, key, result, failed] = JSON.parse(call);
    view.done.push({ tool, key, result, failed });
  }
}

// --- the reply ------------------------------------------------------------------------------------------------------

/** Plays the part that matches the newest request, or writes a summary when asked for one. */
export const rehearse: Model = (request) => {
  if (isSummaryCall(request)) return say(summarize(look({ ...request, messages: request.messages.slice(0, -1) })));
  const view = look(request);
  for (const part of PARTS) {
    const match = part.match.exec(view.request);
    if (match) return toReply(part.play(view, match), request);
  }
  return say(CONFESSION);
};

const say = (text: string): Reply => ({ content: [{ type: "text", text }], thinks: false });

/** Makes a reply. The note before a call is thinking, or text if the API would return empty thinking. */
function toReply(next: Step | string, { thinking, tools }: Anthropic.MessageCreateParams): Reply {
  if (typeof next === "string") return say(next);
  if (!tools?.some((tool) => "name" in tool && tool.name === next.tool))
    return say(`This part needs the tool ${next.tool}, which this lesson does not have yet.`);
  const summarized = thinking?.type === "adaptive" && thinking.display === "summarized";
  const note: ReplyBlock = summarized ? { type: "thinking", thinking: next.note } : { type: "text", text: next.note };
  return { content: [note, { type: "tool_use", name: next.tool, input: next.input }] };
}
