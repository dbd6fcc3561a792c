/**
 * s06: context compact
 *
 * Forgetting on purpose, losing nothing: context is short, the disk is not.
 *
 *     before each call, past the limit?
 *       layer 1  microCompact  old tool results become one line each
 *       layer 2  autoCompact   still past it: summary + request + files + newest messages replace the history
 *     when the model calls `compact` or the person types /compact
 *       layer 3  autoCompact   the same, on request
 *     every message is in .transcripts/ before any layer can shorten it
 *
 * Same as s05: config, screen, approval, bash, workspace, files, dispatch, todo, skills, results
 * New in s06: limits, counting, transcript, requests, micro-compact, auto-compact, when, resume
 * Changed from s05: imports, subagent, system, call, bound, loop, prompt, main
 * Run: npx tsx agents/s06_context_compact.ts
 */

// #region imports
import { isUtf8 } from "node:buffer";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  accessSync,
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import { parseArgs, styleText } from "node:util";
import Anthropic, { AnthropicError, APIConnectionError, APIError } from "@anthropic-ai/sdk";
import { parse as parseYaml } from "yaml";
import { z } from "zod";

// #endregion

// #region config
if (statSync(".env", { throwIfNoEntry: false })?.isFile()) process.loadEnvFile();

export const WORKDIR = realpathSync(process.cwd());
export const MODEL = process.env.MODEL_ID || "claude-sonnet-5-5";
/** Tokens a reply may have, thinking included. */
const MAX_TOKENS = 32_000;
/** "off" leaves the field out of the request, for servers and older models that do not know it. */
const THINKING: Anthropic.ThinkingConfigParam | undefined =
  process.env.THINKING === "off" ? undefined : { type: "adaptive", display: "summarized" };
/** Reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL from the environment. Its log is off: each error is told once. */
const client = new Anthropic({ logLevel: "off" });
// #endregion

// #region screen
let lineOpen = false;
let margin = ""; // before every line; runSubagent sets it
const dim = (text: string) => (process.stdout.isTTY ? styleText("dim", text) : text);

/** Control, text-direction and invisible characters as visible signs, so that no output can drive the terminal. */
const harmless = (text: string) =>
  text
    .replaceAll("\r\n", "\n")
    .replace(/[\0-\x08\x0b-\x1f]/g, (c) => String.fromCodePoint(0x2400 + c.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");

/** Prints a piece of text as it arrives. */
function print(text: string, style = (plain: string) => plain): void {
  if (!text) return;
  const lines = harmless(text).replace(/\n(?!$)/g, `\n${margin}`);
  process.stdout.write(style(lineOpen ? lines : margin + lines));
  lineOpen = !text.endsWith("\n");
}

/** Prints text on lines of its own. */
export function printLine(text: string, style?: (plain: string) => string): void {
  if (lineOpen) print("\n");
  print(`${text}\n`, style);
}

/** The first `lines` lines of a text, each at most 200 characters. */
function glimpse(text: string, lines: number): string {
  const all = text.split("\n");
  const shown = all.slice(0, lines).map((line) => (line.length > 200 ? `${line.slice(0, 200)}…` : line));
  if (all.length > lines) shown.push(`… ${all.length - lines} more lines`);
  return shown.join("\n");
}
// #endregion

// #region approval
/** How the person is asked before a command runs. `main` sets `ask` when there is a terminal; `-y` sets `always`. */
export const approval: { always: boolean; ask?: (question: string, signal?: AbortSignal) => Promise<string> } = {
  always: false,
};

/** Returns when the command may run; throws what the model is to know when it may not. */
async function approve(command: string, signal?: AbortSignal): Promise<void> {
  if (approval.always) return;
  if (!approval.ask) {
    throw new Error(
      "bash: not run: nobody can be asked, stdin is not a terminal; the person can start the agent with -y",
    );
  }
  const lines = command.split("\n");
  printLine(`$ ${lines.join("\n| ")}`);
  // A long command can push its beginning off the screen: the question says how much there is to read.
  const size = lines.length > 1 || command.length > 200 ? ` (${lines.length} lines, ${command.length} characters)` : "";
  const answer = (await approval.ask(`Run it${size}? [Enter or y: yes, n: no, a: always] `, signal)).trim();
  if (/^a$/i.test(answer)) approval.always = true;
  else if (!/^y?$/i.test(answer)) throw new Error(`bash: the person refused to run this command (answer: ${answer})`);
}
// #endregion

// #region bash
const BASH_LIMIT = 120_000; // ms
const GRACE = 250; // ms that a command has to clean up before it is killed
const CAPTURE = 10_000_000; // bytes kept of an output: the beginning and what came last

/**
 * Runs a command with `bash -c` in the workspace, in a process group of its own.
 * @returns stdout and stderr in the order they were written, and how the command ended if not with exit code 0
 * @throws if bash cannot be started
 */
export function runBash(command: string, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    // cat makes both streams one real pipe: Node's pipes are sockets, which `> /dev/stderr` cannot open. When we stop
    // reading, the second cat takes over, so that a process left in the background can go on printing. Neither hears
    // the signals that a command sends its own group. What a command wrote may still be on its way when it ends, and a
    // process in the background may hold the pipe for ever: `end` goes after it, the same way, once stdin is closed.
    const half = crypto.randomUUID(); // ps shows it, but never twice in a row
    const end = half + half;
    const pipe = "exec > >(cat || exec cat > /dev/null) 2>&1; { read; echo $2$2; } <&0 & exec < /dev/null";
    const script = `trap "" HUP INT TERM; ${pipe}; trap - HUP INT TERM; exec bash -c "$1"`;
    const child = spawn("bash", ["-c", script, "bash", command, half], {
      cwd: WORKDIR,
      env: { ...process.env, ANTHROPIC_API_KEY: undefined, ANTHROPIC_AUTH_TOKEN: undefined },
      detached: true,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const chunks: Buffer[] = [];
    let [size, dropped, middle] = [0, 0, 0];
    child.stdout.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      while (size > CAPTURE) {
        middle ||= chunks.length >> 1;
        const oldest = chunks.splice(middle, 1)[0]?.length ?? 0;
        size -= oldest;
        dropped += oldest;
      }
      const hasEnded = child.exitCode !== null || child.signalCode !== null;
      if (hasEnded && Buffer.concat(chunks.slice(-2)).includes(end)) child.stdout.destroy();
    });

    let ending = "";
    const signalGroup = (name: NodeJS.Signals) => {
      try {
        if (child.pid) process.kill(-child.pid, name);
      } catch {} // nobody is left in the group
    };
    const stop = (why: string) => {
      ending ||= `\n(${why})`;
      signalGroup("SIGTERM");
      setTimeout(() => signalGroup("SIGKILL"), GRACE);
    };
    const interrupt = () => stop("interrupted by user");
    signal?.addEventListener("abort", interrupt);
    const timer = setTimeout(() => stop(`timed out after ${BASH_LIMIT / 1000} s and was killed`), BASH_LIMIT);
    child.on("error", (error) => reject(new Error(`bash: it cannot be started (${error.message}); is it on PATH?`)));
    child.on("exit", () => child.stdin.destroy());
    child.on("close", (code, killer) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", interrupt);
      if (dropped) chunks.splice(middle, 0, Buffer.from(`\n[... ${dropped} bytes not kept ...]\n`));
      const [text = ""] = new TextDecoder().decode(Buffer.concat(chunks)).split(end);
      const output = text.trimEnd() || "(no output)";
      resolve(output + (ending || (killer ? `\n(killed by ${killer})` : code ? `\n(exit code ${code})` : "")));
    });
  });
}
// #endregion

// #region workspace
/** Returns the real path that `path` led to. @throws if it is outside */
function checkInside(real: string, path: string): string {
  if (relative(WORKDIR, real).split(sep)[0] === "..") {
    throw new Error(`${path} is outside the workspace ${WORKDIR}; use a path inside it`);
  }
  return real;
}

/**
 * The real path of a file in the workspace, which need not exist yet.
 * @throws if it is outside, whichever way it gets there: `..`, an absolute path, a symbolic link
 */
export function safePath(path: string): string {
  const absolute = resolve(WORKDIR, path);
  let existing = absolute;
  while (!lstatSync(existing, { throwIfNoEntry: false })) existing = dirname(existing);
  return checkInside(join(realpathSync(existing), relative(existing, absolute)), path);
}

/**
 * Works on a file from within its folder, which is made if need be. A path that was checked can lead elsewhere a moment
 * later, if a command in the background puts a link into it; the current folder stays the one that was checked.
 */
function inFolderOf<T>(path: string, work: (name: string) => T): T {
  const folders = relative(WORKDIR, safePath(path)).split(sep);
  const name = folders.pop() || "."; // the workspace itself
  try {
    for (const folder of [WORKDIR, ...folders]) {
      if (!lstatSync(folder, { throwIfNoEntry: false })) mkdirSync(folder);
      process.chdir(folder);
      checkInside(process.cwd(), path);
    }
    return work(name);
  } finally {
    process.chdir(WORKDIR);
  }
}
// #endregion

// #region files
const READ_LIMIT = 10_000_000; // bytes

/** The text of a file, byte order mark and line ends as they are. @throws if it is no file, too large, or not UTF-8 */
function readText(tool: string, path: string): string {
  const stat = statSync(safePath(path), { throwIfNoEntry: false });
  if (!stat) throw new Error(`${tool}: ${path} does not exist; list the folder with bash to see what does`);
  if (stat.isDirectory()) throw new Error(`${tool}: ${path} is a folder; list it with bash: ls`);
  if (!stat.isFile()) throw new Error(`${tool}: ${path} is no regular file but a device or a pipe; use bash`);
  if (stat.size > READ_LIMIT) {
    throw new Error(`${tool}: ${path} has ${stat.size} bytes, more than ${READ_LIMIT}; look at parts of it with bash`);
  }
  const bytes = inFolderOf(path, (name) => {
    // By now it may be a link or a pipe: the one is not followed, the other not waited for.
    const file = openSync(name, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      if (!fstatSync(file).isFile()) throw new Error(`${tool}: ${path} is no regular file any more`);
      return readFileSync(file);
    } finally {
      closeSync(file);
    }
  });
  if (bytes.includes(0) || !isUtf8(bytes)) {
    throw new Error(`${tool}: ${path} is not UTF-8 text but binary (${bytes.length} bytes); look at it with bash`);
  }
  return bytes.toString();
}

/** Reads a file, or `limit` lines of it from line `offset` (from 1) on. @returns the text and what is left after it */
export function runRead(path: string, offset = 1, limit = Number.POSITIVE_INFINITY): string {
  const text = readText("read_file", path);
  if (text === "") return "(empty file)";
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  if (offset > lines.length)
    throw new Error(`read_file: offset ${offset} is past the end: ${path} has ${lines.length} lines`);
  const end = offset - 1 + limit;
  const left = lines.length - end;
  const more = left > 0 ? `\n[${left} more lines; go on with offset ${end + 1}]` : "";
  return lines.slice(offset - 1, end).join("\n") + more;
}

/** Writes a file and the folders it needs: whatever happens meanwhile, the old content is there or the new one. */
export function runWrite(path: string, content: string): string {
  inFolderOf(path, (name) => {
    const before = lstatSync(name, { throwIfNoEntry: false });
    if (before && !before.isFile()) throw new Error(`write_file: ${path} is a folder or a device; name a file`);
    if (before) accessSync(name, constants.W_OK); // a rename would replace a write-protected file
    const temporary = `.${randomUUID()}.tmp`;
    const file = openSync(temporary, "wx", before?.mode);
    try {
      writeFileSync(file, content);
      if (before) fchmodSync(file, before.mode);
      renameSync(temporary, name);
    } finally {
      closeSync(file);
      rmSync(temporary, { force: true });
    }
  });
  return `Wrote ${Buffer.byteLength(content)} bytes to ${path}`;
}

/** Replaces `oldText`, literally, by `newText`. @throws if it does not occur exactly once */
export function runEdit(path: string, oldText: string, newText: string): string {
  if (oldText === "") throw new Error("edit_file: old_text is empty; use write_file to write a whole file");
  const text = readText("edit_file", path);
  // Models write \n: in a file whose lines end in \r\n it stands for that.
  const isCrlf = text.includes("\r\n") && !/(?<!\r)\n/.test(text);
  const adapt = (part: string) => (isCrlf ? part.replace(/\r?\n/g, "\r\n") : part);
  const old = adapt(oldText);
  let count = 0;
  for (let at = text.indexOf(old); at >= 0; at = text.indexOf(old, at + 1)) count++;
  if (count === 0) throw new Error(`edit_file: old_text does not occur in ${path}; read it again and copy exactly`);
  if (count > 1)
    throw new Error(`edit_file: old_text occurs ${count} times in ${path}; include more lines to make it unique`);
  const after = adapt(newText);
  const edited = text.replace(old, () => after);
  runWrite(path, edited);
  return `Edited ${path}`;
}
// #endregion

// #region dispatch
/** What a turn is given besides its messages: a subagent has a system prompt and tools of its own. */
export type TurnOptions = { signal?: AbortSignal; system?: string; tools?: Anthropic.Tool[]; maxRounds?: number };

/** What `schema` makes of an input. @throws an error that says what does not fit */
function parse<Schema extends z.ZodType>(what: string, schema: Schema, input: unknown): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw new Error(`${what} does not fit:\n${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/** The dispatch map: what runs for a name. Handlers return a result's text, or throw what the model should know. */
export const TOOL_HANDLERS: Record<string, (input: unknown, options: TurnOptions) => Promise<string>> = {};
/** What the model sees of each tool. */
export const TOOLS: Anthropic.Tool[] = [];

/** A new tool is a new entry. The schema describes the input to the model and checks what the model then sends. */
function addTool<Schema extends z.ZodObject>(
  name: string,
  description: string,
  schema: Schema,
  run: (input: z.output<Schema>, options: TurnOptions) => string | Promise<string>,
): void {
  const input_schema = { ...z.toJSONSchema(schema, { io: "input" }), $schema: undefined, type: "object" as const };
  TOOLS.push({ name, description, input_schema });
  TOOL_HANDLERS[name] = async (input, options) => run(parse(`${name}: the input`, schema, input), options);
}

addTool(
  "bash",
  "Run a bash command in the workspace. Returns its output; stops after 120 s.",
  z.object({ command: z.string() }),
  async ({ command }, { signal }) => {
    await approve(command, signal);
    return runBash(command, signal);
  },
);
addTool(
  "read_file",
  "Read a text file, or `limit` lines of it from line `offset` (from 1) on.",
  z.object({ path: z.string(), offset: z.int().min(1).optional(), limit: z.int().min(1).optional() }),
  ({ path, offset, limit }) => runRead(path, offset, limit),
);
addTool(
  "write_file",
  "Write a file, and the folders it needs. Replaces what was there.",
  z.object({ path: z.string(), content: z.string() }),
  ({ path, content }) => runWrite(path, content),
);
addTool(
  "edit_file",
  "Replace old_text, which must occur exactly once in the file, by new_text.",
  z.object({ path: z.string(), old_text: z.string(), new_text: z.string() }),
  ({ path, old_text, new_text }) => runEdit(path, old_text, new_text),
);

/** Runs one tool call and returns its output; throws what the model should know when it cannot. */
async function runTool(call: Anthropic.ToolUseBlock, options: TurnOptions): Promise<string> {
  const tools = options.tools ?? TOOLS;
  const handler = tools.some((tool) => tool.name === call.name) && TOOL_HANDLERS[call.name];
  if (!handler) throw new Error(`unknown tool ${call.name}: there are ${tools.map((tool) => tool.name).join(", ")}`);
  return handler(call.input, options);
}
// #endregion

// #region todo
const TodoItem = z.object({
  text: z.string().trim().min(1, "must not be empty"),
  status: z.enum(["pending", "in_progress", "completed"]),
});
const TodoItems = z.preprocess(
  parseJson, // models now and then send the list as a string
  z
    .array(TodoItem)
    .max(20, "at most 20 items; merge some")
    .refine((items) => items.filter((item) => item.status === "in_progress").length <= 1, {
      error: "only one item can be in_progress",
    }),
);

function parseJson(input: unknown): unknown {
  try {
    return typeof input === "string" ? JSON.parse(input) : input;
  } catch {
    return input; // not JSON: the schema says what is wrong with it
  }
}

export class TodoManager {
  items: z.output<typeof TodoItems> = [];

  /** Replaces the list. @returns it as rendered @throws if it breaks a rule; the old list then stays */
  update(items: unknown): string {
    this.items = parse("todo: the list", TodoItems, items);
    return this.render();
  }

  render(): string {
    const marks = { pending: "[ ]", in_progress: "[>]", completed: "[x]" };
    const lines = this.items.map((item, i) => `${marks[item.status]} #${i + 1}: ${item.text}`);
    const completed = this.items.filter((item) => item.status === "completed").length;
    return [...lines, `(${completed}/${lines.length} completed)`].join("\n");
  }
}
export const TODO = new TodoManager();

addTool(
  "todo",
  "Write down the plan, or its progress: the whole list, at most 20 items, one at a time in_progress.",
  z.object({ items: TodoItems }),
  ({ items }) => TODO.update(items),
);

/** Rounds of tool calls without `todo` after which the model is reminded. */
const REMIND_AFTER = 3;
const REMINDER: Anthropic.TextBlockParam = { type: "text", text: "<reminder>Update your todos.</reminder>" };
// #endregion

// #region subagent
const CHILD_SYSTEM = `You are a subagent working in ${WORKDIR}. Do the task you are given with the tools, then
answer with what was asked for: your last message is all that is passed on.`;
/** Rounds of tool calls a subagent may use. */
const CHILD_ROUNDS = 30;

/** Has a task done in a fresh context. @returns the child's last text, and how it ended if it was not done */
export async function runSubagent(prompt: string, { signal }: TurnOptions = {}): Promise<string> {
  const messages: Anthropic.MessageParam[] = wellFormed([{ role: "user", content: prompt }]);
  const tools = TOOLS.filter((tool) => tool.name !== "task" && tool.name !== "todo");
  sessions.set(messages, newSession(join(TRANSCRIPT_DIR, "tasks")));
  let outcome: string;
  margin = "  ";
  try {
    outcome = await agentLoop(messages, { signal, system: CHILD_SYSTEM, tools, maxRounds: CHILD_ROUNDS });
  } catch (error) {
    outcome = explain(error);
  } finally {
    margin = "";
  }
  if (outcome === "done" && messages.at(-1)?.role !== "assistant") outcome = "it ended without an answer";
  const texts = messages.map((message) => (message.role === "assistant" ? textOf(message.content) : ""));
  const answer = texts.findLast((text) => text !== "") ?? "(it wrote nothing)";
  return outcome === "done" ? answer : `(the subagent was not done: ${outcome})\n${answer}`;
}

/** The text in a message's content, without what surrounds it. */
function textOf(content: Anthropic.MessageParam["content"]): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

addTool(
  "task",
  "Give a self-contained task to a subagent with a fresh context. Returns only its final answer.",
  z.object({ prompt: z.string().trim().min(1), description: z.string().optional() }),
  ({ prompt }, options) => runSubagent(prompt, options),
);
// #endregion

// #region skills
const SkillHead = z.object({
  name: z.string().regex(/^[\w-]+$/, "must consist of letters, digits, _ and -"),
  description: z.string().trim().min(1, "must not be empty"),
});

/** Splits a SKILL.md into its head, the YAML between two lines of `---`, and its body. */
function readSkill(file: string): z.output<typeof SkillHead> & { body: string } {
  const stat = lstatSync(file);
  if (!stat.isFile()) throw new Error("it is no regular file but a folder, a link, a device or a pipe");
  if (stat.size > READ_LIMIT) throw new Error(`it has ${stat.size} bytes, more than ${READ_LIMIT}`);
  const match = /^\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)(.*)$/s.exec(readFileSync(file, "utf8"));
  if (!match) throw new Error("no frontmatter: it must begin with YAML between two lines of ---");
  return {
    ...parse("the frontmatter", SkillHead, parseYaml(match[1] ?? "", { logLevel: "error" })),
    body: (match[2] ?? "").trim(),
  };
}

export class SkillLoader {
  /** What to tell the person: skills that were left out, and why. */
  readonly warnings: string[] = [];
  readonly skills = new Map<string, { description: string; file: string }>();

  /** Looks for `<folder>/<any>/SKILL.md`; a missing folder is a folder without skills. */
  constructor(folder: string) {
    const names = statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? readdirSync(folder).sort() : [];
    for (const file of names.map((name) => join(folder, name, "SKILL.md")).filter((path) => existsSync(path))) {
      try {
        const { name, description } = readSkill(file);
        const taken = this.skills.get(name);
        if (taken) throw new Error(`the name ${name} is taken by ${taken.file}`);
        this.skills.set(name, { description: description.replace(/\s+/g, " ").toWellFormed(), file });
      } catch (error) {
        this.warnings.push(`skill left out: ${file}: ${explain(error)}`);
      }
    }
  }

  /** Layer 1, for the system prompt: a line a skill. */
  descriptions(): string {
    return [...this.skills].map(([name, { description }]) => `- ${name}: ${description}`).join("\n") || "(none)";
  }

  /** Layer 2, when the model asks for it: the body, as it is on disk now. */
  content(name: string): string {
    const skill = this.skills.get(name);
    if (!skill)
      throw new Error(
        `load_skill: there is no skill ${name}; there are: ${[...this.skills.keys()].join(", ") || "none"}`,
      );
    return `<skill name="${name}">\n${readSkill(skill.file).body}\n</skill>`;
  }
}
export const SKILLS = new SkillLoader(join(WORKDIR, "skills"));

addTool("load_skill", "Load the instructions of a skill by its name.", z.object({ name: z.string() }), ({ name }) =>
  SKILLS.content(name),
);
// #endregion

// #region limits
/** Variables that hold no number; `main` refuses to start with them. */
const problems: string[] = [];

/** A number of the environment: 0 counts, empty is unset. */
function fromEnv(name: string): number | undefined {
  const value = process.env[name]?.trim();
  if (!value) return undefined;
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value);
  problems.push(`${name} must be a number, not "${value}"; unset it for the default`);
}

/** The form of the original tutorial: one limit before every call, layer 1 every turn, no minimum saving. */
const TEXTBOOK = process.env.COMPACT_TEXTBOOK === "1";
const OWN_THRESHOLD = fromEnv("COMPACT_THRESHOLD");
const CONTEXT_WINDOW = fromEnv("CONTEXT_WINDOW");

/** Tokens of prompt before a call within a turn: the window without room for the reply and 13,000 to spare. */
export const autoCompactThreshold = (contextWindow = 200_000, maxOutput = 16_384): number =>
  contextWindow - Math.min(maxOutput, 20_000) - 13_000;
/** The same for the real window; of a small one, half. */
const WINDOW_THRESHOLD = Math.max((CONTEXT_WINDOW ?? 0) / 2, autoCompactThreshold(CONTEXT_WINDOW, MAX_TOKENS));
/** Tokens of prompt (system, tools and messages) that a new request may find; above it comes compaction. */
export const THRESHOLD = OWN_THRESHOLD ?? Math.min(50_000, WINDOW_THRESHOLD);
const ONE_LIMIT = TEXTBOOK || (OWN_THRESHOLD !== undefined && CONTEXT_WINDOW === undefined);
/** Tokens of prompt above which comes compaction within a turn. */
export const TURN_THRESHOLD = fromEnv("COMPACT_TURN_THRESHOLD") ?? (ONE_LIMIT ? THRESHOLD : WINDOW_THRESHOLD);

/** Newest tool results that layer 1 leaves alone. */
export const KEEP_RECENT = fromEnv("COMPACT_KEEP_RECENT") ?? 3;
/** Tools whose results layer 1 leaves alone. */
export const PRESERVE_RESULT_TOOLS = (process.env.COMPACT_PRESERVE || "load_skill")
  .split(",")
  .map((name) => name.trim());
const MIN_SAVINGS = fromEnv("COMPACT_MIN_SAVINGS");
/** Tokens that an automatic rewrite must save, or it is not worth the prompt cache and the thinking it costs. */
const savingsFor = (limit: number) => MIN_SAVINGS ?? (TEXTBOOK ? 0 : 0.4 * limit);

/** Newest messages that layer 2 keeps, in at most a quarter of THRESHOLD. */
const KEEP_MESSAGES = 5;
/** Tokens a summary is expected to have. */
const SUMMARY = Math.min(2_000, THRESHOLD / 10);
/** Files that layer 2 restores, and tokens of each. */
const RESTORED = { files: 5, tokens: 5_000 };
/** Tokens that the results of one round may have together. */
const LARGE_OUTPUT = Math.max(500, Math.min(40_000, 0.4 * THRESHOLD));
/** Where everything that was said stays, readable by its owner alone. */
export const TRANSCRIPT_DIR = join(WORKDIR, ".transcripts");
// #endregion

// #region counting
/** What is known about a list of messages besides the messages. */
type Session = {
  system: string;
  tools: Anthropic.Tool[];
  /** 4 is the rule of thumb; every reply corrects it. */
  charsPerToken: number;
  /** Its file, the folder made for it, the lines still to be written, and the messages that are in one or the other. */
  transcript: string;
  folder: string;
  unwritten: string[];
  recorded: WeakSet<Anthropic.MessageParam>;
  /** Files that calls have touched, the last one last, with the lines that were read. */
  files: Map<string, { offset?: number; limit?: number; edited: boolean }>;
  /** All that the person asked. */
  requests: string;
  /** Compactions that failed in a row. */
  failures: number;
};
const sessions = new WeakMap<Anthropic.MessageParam[], Session>();

function newSession(folder: string): Session {
  let now = Date.now();
  const file = () => join(folder, `transcript_${now}_${process.pid}.jsonl`);
  while (existsSync(file())) now++;
  const recorded = new WeakSet<Anthropic.MessageParam>();
  const known = { charsPerToken: 4, unwritten: [], recorded, files: new Map(), requests: "", failures: 0 };
  return { system: SYSTEM, tools: TOOLS, transcript: file(), folder, ...known };
}

function sessionOf(messages: Anthropic.MessageParam[]): Session {
  const session = sessions.get(messages) ?? newSession(TRANSCRIPT_DIR);
  sessions.set(messages, session);
  return session;
}

const blocksOf = (message: Anthropic.MessageParam): Anthropic.ContentBlockParam[] =>
  typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
/** Characters of a value, about as JSON has them, but counted ten times as fast as they are written out. */
const chars = (value: unknown): number =>
  typeof value === "string"
    ? value.length
    : Object.entries(value ?? {}).reduce((sum, [key, each]) => sum + key.length + 6 + chars(each), 0);
const promptChars = (messages: Anthropic.MessageParam[], { system, tools }: Session) =>
  chars(system) + chars(tools) + chars(messages);
const count = (tokens: number) => Math.round(tokens).toLocaleString("en-US");

/** Tokens of the prompt that these messages make, with system and tools: exact for what the last reply counted. */
export function estimateTokens(messages: Anthropic.MessageParam[]): number {
  const session = sessionOf(messages);
  return Math.ceil(promptChars(messages, session) / session.charsPerToken);
}

/** Corrects the characters per token by what the API counted for these messages. */
function calibrate(messages: Anthropic.MessageParam[], usage: Anthropic.Usage): void {
  const tokens = usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
  const session = sessionOf(messages);
  if (tokens > 0) session.charsPerToken = promptChars(messages, session) / tokens;
}
// #endregion

// #region transcript
let complained = false;

/** Makes a folder of the record, readable by its owner alone. @throws if it is a link, which a repository may bring */
function makePrivate(folder: string): void {
  for (const each of [TRANSCRIPT_DIR, folder]) {
    if (lstatSync(each, { throwIfNoEntry: false })?.isSymbolicLink()) {
      throw new Error(`${relative(WORKDIR, each)} is a link, not a folder; remove it`);
    }
    mkdirSync(each, { recursive: true, mode: 0o700 });
    chmodSync(each, 0o700);
  }
}

/** The model may look things up in the record, but write_file and edit_file leave it as it is. */
for (const [name, run] of Object.entries(TOOL_HANDLERS).filter(([name]) => /^(write|edit)_file$/.test(name))) {
  TOOL_HANDLERS[name] = async (input, options) => {
    const { path } = Object(input);
    const way = relative(TRANSCRIPT_DIR.toLowerCase(), safePath(String(path)).toLowerCase()); // some disks ignore case
    if (way.split(sep)[0] !== "..") throw new Error(`${name}: ${path} belongs to the record, which stays as it is`);
    return run(input, options);
  };
}

/** Appends to the transcript every message that is not in it yet; called whenever the history has grown. */
function record(messages: Anthropic.MessageParam[]): void {
  const session = sessionOf(messages);
  for (const [i, message] of messages.entries()) {
    if (session.recorded.has(message)) continue;
    session.recorded.add(message);
    session.unwritten.push(`${JSON.stringify(message)}\n`);
    takeNote(session, message, messages[i - 1]);
  }
  try {
    makePrivate(session.folder);
    const ignore = join(TRANSCRIPT_DIR, ".gitignore");
    const known = lstatSync(ignore, { throwIfNoEntry: false });
    if (!known?.isFile() || known.size === 0) {
      rmSync(ignore, { force: true }); // a link, or what a full disk left of it
      writeFileSync(ignore, "*\n", { mode: 0o600 });
    }
    while (session.unwritten[0]) {
      appendLine(session.transcript, session.unwritten[0]);
      session.unwritten.shift();
    }
  } catch (error) {
    if (!complained) printLine(`[transcript not written: ${explain(error)}; the conversation goes on without]`);
    complained = true;
  }
}

/** Appends a line, or nothing of it. */
function appendLine(file: string, line: string): void {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  try {
    appendFileSync(file, line, { mode: 0o600 });
  } catch (error) {
    if (existsSync(file)) truncateSync(file, size); // the disk may be full in the middle of it
    throw error;
  }
}

/** Replaces the history in place and writes the new one down, since no message that is in the file is changed there. */
function rewrite(messages: Anthropic.MessageParam[], trigger: string, history: Anthropic.MessageParam[]): void {
  const session = sessionOf(messages);
  record(messages);
  const before = estimateTokens(messages);
  messages.splice(0, messages.length, ...history);
  for (const message of messages) session.recorded.add(message);
  const entry = { type: "compaction", trigger, before, after: estimateTokens(messages), messages };
  session.unwritten.push(`${JSON.stringify(entry)}\n`);
  record(messages);
}

/** Remembers what the person asks in a message, or which files were touched by the calls that its results answer. */
function takeNote(session: Session, message: Anthropic.MessageParam, before?: Anthropic.MessageParam): void {
  if (typeof message.content === "string") session.requests += `\n${message.content}`;
  for (const { path, edited, offset, limit } of fileCalls(message, before)) {
    const known = session.files.get(path);
    session.files.delete(path); // the last one touched goes last
    session.files.set(path, edited ? { ...known, edited } : { offset, limit, edited: known?.edited ?? false });
  }
}

/** The calls of a message that worked, by the results in the message after it. */
function answeredCalls(results: Anthropic.MessageParam, calls?: Anthropic.MessageParam) {
  return blocksOf(results).flatMap((result) => {
    if (result.type !== "tool_result" || result.is_error || !calls) return [];
    const call = blocksOf(calls).find((block) => block.type === "tool_use" && block.id === result.tool_use_id);
    return call?.type === "tool_use" ? [{ call, text: String(result.content) }] : [];
  });
}

/** Those of them that are about a file, and whether its text is there to be seen. */
function fileCalls(results: Anthropic.MessageParam, calls?: Anthropic.MessageParam) {
  return answeredCalls(results, calls).flatMap(({ call, text }) => {
    const { path, offset, limit } = Object(call.input);
    if (!/^(read|write|edit)_file$/.test(call.name) || typeof path !== "string") return [];
    const isShown = call.name !== "edit_file" && !/^(\[Previous: used |Output too large)/.test(text);
    const name = relative(WORKDIR, resolve(WORKDIR, path));
    return [{ path: name, offset, limit, edited: call.name !== "read_file", isShown }];
  });
}

/** Characters of a saved output that the model is shown. */
const PREVIEW = 2_000;
/** The line by which a saved output is found again; a command may print one that only looks like it. */
const SAVED_LINE = /^Output too large\. Saved to: \.transcripts\/outputs\/[\w-]+\.txt$/m;

/** Saves a text too large for the context. @returns what stands for it there: where it is, its beginning and end */
function saveOutput(id: string, text: string, preview = PREVIEW): string {
  const folder = join(TRANSCRIPT_DIR, "outputs");
  const name = id.replace(/[^\w-]/g, "_").slice(0, 100);
  const taken = (n: number) => existsSync(join(folder, `${name}${n || ""}.txt`));
  let n = 0;
  while (taken(n)) n++;
  const file = join(folder, `${name}${n || ""}.txt`);
  const half = preview / 2; // the exit code of a command stands at the end
  const [head, tail] = [text.slice(0, half), text.slice(text.length - half)];
  const shown = `[the first and the last ${half} of ${text.length} characters:]\n${head}\n[...]\n${tail}`;
  try {
    makePrivate(folder);
    writeFileSync(file, text, { mode: 0o600, flag: "wx" });
    return `Output too large. Saved to: ${relative(WORKDIR, file)}\n${shown}`;
  } catch (error) {
    if (existsSync(file)) rmSync(file); // a part of it would only take the room of the transcript
    printLine(`[output not saved: ${explain(error)}]`);
    return `Output too large, and it could not be saved (${explain(error)}).\n${shown}`;
  }
}
// #endregion

// #region requests
const COMPRESSED = "[Conversation compressed. Transcript: ";
const ANSWERED = "</request>\n(answered)";

const isCompressed = ({ content }: Anthropic.MessageParam) =>
  Array.isArray(content) && textOf(content).startsWith(COMPRESSED);

/** What the person asks in a message, itself or as a compaction kept it; nothing if it holds no request. */
function requestIn(message: Anthropic.MessageParam): string | undefined {
  const blocks = blocksOf(message);
  if (message.role !== "user" || blocks.some((block) => block.type === "tool_result")) return undefined;
  if (!isCompressed(message)) return textOf(message.content) === REMINDER.text ? undefined : textOf(message.content);
  const kept = blocks.map((block) =>
    block.type === "text" ? /^<request>\n(.*)\n<\/request>/s.exec(block.text)?.[1] : undefined,
  );
  return kept.find((text) => text !== undefined);
}

/** Whether the model has still to answer: the history ends with the person's words, results, or a request kept open. */
function isUnfinished(messages: Anthropic.MessageParam[]): boolean {
  const last = messages.at(-1);
  if (last?.role !== "user" || !isCompressed(last)) return last?.role === "user";
  const isAnswered = blocksOf(last).some(
    (block) => block.type === "text" && block.text.startsWith("<request>") && block.text.endsWith(ANSWERED),
  );
  return requestIn(last) !== undefined && !isAnswered;
}

/** Takes the newest request and its rounds out of the history; of a compressed one that is the request it kept. */
function dropTurn(messages: Anthropic.MessageParam[]): void {
  const start = messages.findLastIndex((message) => requestIn(message) !== undefined);
  const history = messages.slice(0, Math.max(0, start));
  const first = messages[start];
  if (first && isCompressed(first)) {
    const content = blocksOf(first).filter((block) => block.type !== "text" || !block.text.startsWith("<request>"));
    history.push({ role: "user", content });
  }
  rewrite(messages, "refusal", history);
}
// #endregion

// #region micro-compact
/** Removes all thinking: it does not fit once anything before it is rewritten. What the model noted stays, as text. */
export function stripThinking(messages: Anthropic.MessageParam[]): void {
  for (const message of messages) {
    if (message.role !== "assistant" || typeof message.content === "string") continue;
    message.content = message.content.flatMap((block): Anthropic.ContentBlockParam[] => {
      if (block.type === "redacted_thinking") return [];
      if (block.type !== "thinking") return [block];
      return block.thinking.trim() ? [{ type: "text", text: block.thinking }] : [];
    });
    if (message.content.length === 0) message.content = [{ type: "text", text: "(thinking removed)" }];
  }
}

/**
 * Layer 1: replaces old tool results by one line each, in place and without a model call, if that saves at least
 * `minSavings` tokens. Old are those the model has answered, but for the KEEP_RECENT newest.
 * @returns how many were cleared and about how many tokens that saved
 */
export function microCompact(messages: Anthropic.MessageParam[], minSavings = 0): { cleared: number; saved: number } {
  const names = new Map<string, string>();
  for (const block of messages.flatMap(blocksOf)) if (block.type === "tool_use") names.set(block.id, block.name);

  const lastReply = messages.findLastIndex((message) => message.role === "assistant");
  const answered = messages.slice(0, Math.max(0, lastReply));
  const results = answered.flatMap(blocksOf).filter((block) => block.type === "tool_result");
  const clear = results.slice(0, Math.max(0, results.length - KEEP_RECENT)).flatMap((result) => {
    const name = names.get(result.tool_use_id) ?? "a tool";
    if (typeof result.content !== "string" || result.content.length <= 100) return [];
    if (PRESERVE_RESULT_TOOLS.includes(name)) return [];
    const saved = SAVED_LINE.exec(result.content);
    const line = `[Previous: used ${name}]${saved ? `\n${saved[0]}` : ""}`;
    return line.length < result.content.length ? [{ result, line, chars: chars(result.content) - chars(line) }] : [];
  });

  const saved = clear.reduce((sum, each) => sum + each.chars, 0) / sessionOf(messages).charsPerToken;
  if (clear.length === 0 || saved < minSavings) return { cleared: 0, saved: 0 };
  for (const { result, line } of clear) result.content = line;
  stripThinking(messages);
  return { cleared: clear.length, saved: Math.round(saved) };
}
// #endregion

// #region auto-compact
export type Trigger = "auto" | "tool" | "manual" | "reactive";
export type CompactOptions = { trigger?: Trigger; focus?: string; limit?: number; signal?: AbortSignal };

/** Failures in a row after which automatic compaction stays off. */
const MAX_FAILURES = 3;
const NOTHING = "nothing to compact yet";
const NO_SUMMARY = "(There is no summary: this was too long even for that. Look up what you need in the transcript.)";
const textBlock = (text: string): Anthropic.TextBlockParam => ({ type: "text", text });
const isTooLong = (error: unknown) =>
  error instanceof APIError &&
  (error.status === 413 || (error.status === 400 && /prompt is too long|exceed context limit/.test(error.message)));

/**
 * Where the part of the history begins that layer 2 keeps: at an assistant message, so that no call is parted from its
 * result. A round that the model has not answered is kept whatever its size.
 */
function tailStart(messages: Anthropic.MessageParam[], trigger: Trigger): number {
  const last = messages.findLastIndex((message) => message.role === "assistant");
  const { charsPerToken } = sessionOf(messages);
  let start = messages.length;
  for (let i = last; i >= 0; i--) {
    const message = messages[i];
    if (message?.role !== "assistant") continue;
    const unanswered = i === last && blocksOf(message).some((block) => block.type === "tool_use");
    const tokens = chars(messages.slice(i)) / charsPerToken;
    const fits =
      (trigger === "auto" || trigger === "tool") && messages.length - i <= KEEP_MESSAGES && tokens <= THRESHOLD / 4;
    if (!unanswered && !fits) break;
    start = i;
  }
  return start;
}

/** Whether a summary would replace anything: more than the message a conversation begins with, unless that is huge. */
function isWorthCompacting(messages: Anthropic.MessageParam[], trigger: Trigger): boolean {
  const head = messages.slice(0, tailStart(messages, trigger));
  return head.length > 1 || chars(head) / sessionOf(messages).charsPerToken > LARGE_OUTPUT;
}

const SUMMARY_PROMPT = `Write a summary of this conversation. It will replace everything above, and the work goes
on from it alone, so leave nothing out that is still needed:
1. the goal, and the person's standing instructions
2. what was accomplished
3. the current state
4. key decisions, with their reasons
5. files touched, and what matters in each
6. skills in use
7. the next step
Be brief (about ${count(SUMMARY)} tokens) but keep details: paths, names, values, error messages. Call no tools;
answer with the summary only.`;

/**
 * Asks for the summary with the prompt as it is, so that it is read from the prompt cache; if that is too long, with
 * old results cleared. @returns nothing if even that is too long, or on interruption @throws if the summary is useless
 */
async function summarize(messages: Anthropic.MessageParam[], options: CompactOptions): Promise<string | undefined> {
  const { system, tools } = sessionOf(messages);
  const { focus, signal } = options;
  const request = focus ? `${SUMMARY_PROMPT}\nPay particular attention to this: ${focus}` : SUMMARY_PROMPT;
  for (const cleared of options.trigger === "reactive" ? [true] : [false, true]) {
    const history = cleared ? structuredClone(messages) : messages;
    if (cleared) {
      sessions.set(history, sessionOf(messages));
      microCompact(history);
      stripThinking(history);
    }
    try {
      const question: Anthropic.MessageParam = wellFormed({ role: "user", content: request });
      const reply = await callModel([...history, question], { system, tools, signal }, true);
      if (!reply) return undefined;
      if (reply.stop_reason === "model_context_window_exceeded") continue;
      const summary = textOf(reply.content).trim();
      if (reply.stop_reason !== "end_turn") throw new Error(`the summary ended with ${reply.stop_reason}`);
      if (reply.content.some((block) => block.type === "tool_use")) throw new Error("the summary calls a tool");
      if (!summary) throw new Error("the summary is empty");
      return summary;
    } catch (error) {
      if (!isTooLong(error)) throw error;
    }
  }
}

/** Whether a text has a name in it that is no part of a longer one. */
function mentions(text: string, name: string): boolean {
  const parts = text.split(name);
  return parts.slice(1).some((after, i) => !/^\w/.test(after) && !/[\w-]$/.test(parts[i] ?? ""));
}

/** Files to show again, as they are on disk now: named by the person and not edited yet, then the two touched last. */
function restoreFiles(session: Session, tail: Anthropic.MessageParam[], budget: number): Anthropic.TextBlockParam[] {
  const calls = tail.flatMap((message, i) => fileCalls(message, tail[i - 1]));
  const shown = new Set(calls.flatMap(({ path, isShown }) => (isShown ? [path] : [])));
  const all = [...session.files];
  const named = all.filter(([path, { edited }]) => !edited && mentions(session.requests, basename(path)));
  const blocks: Anthropic.TextBlockParam[] = [];
  let left = budget;
  for (const [path, { offset, limit }] of new Map([...named, ...all.slice(-2)])) {
    if (blocks.length === RESTORED.files || shown.has(path)) continue;
    try {
      const size = Math.floor(RESTORED.tokens * session.charsPerToken);
      const content = runRead(path, offset, limit);
      const cut = content.length > size ? `${content.slice(0, size)}\n[cut here; read on with read_file]` : content;
      if (`${path}\n${cut}`.includes("</file>")) continue; // what follows it would look like the person's words
      const name = JSON.stringify(path);
      const block = textBlock(`<file path=${name}${offset ? ` offset="${offset}"` : ""}>\n${cut}\n</file>`);
      const tokens = chars(block) / session.charsPerToken;
      if (tokens > left) continue;
      left -= tokens;
      blocks.push(block);
    } catch {
      // the file is gone, or is no text any more: nothing to show
    }
  }
  return blocks;
}

/** The person's request if it stands before `start`, and how many characters of it the context takes. */
function requestBefore(messages: Anthropic.MessageParam[], start: number) {
  const at = messages.findLastIndex((message) => requestIn(message) !== undefined);
  const message = messages[at];
  const request = (at < start && message && requestIn(message)) || "";
  const isLarge = request.length / sessionOf(messages).charsPerToken > LARGE_OUTPUT;
  return { request, isLarge, size: isLarge ? PREVIEW : request.length };
}

/** The message that stands for what was before `start`: summary, request, todos, and files in at most `room` tokens. */
function compressed(
  messages: Anthropic.MessageParam[],
  start: number,
  summary: string,
  room: number,
): Anthropic.MessageParam {
  const session = sessionOf(messages);
  const file = session.unwritten.length > 0 ? "not written" : relative(WORKDIR, session.transcript);
  const blocks = [textBlock(`${COMPRESSED}${file}]\n\n${summary}`)];
  const { request, isLarge } = requestBefore(messages, start);
  if (request) {
    const words = isLarge ? saveOutput(`request_${Date.now()}`, request) : request;
    blocks.push(textBlock(`<request>\n${words}\n${messages.at(-1)?.role === "assistant" ? ANSWERED : "</request>"}`));
  }
  const plans = session.tools.some((tool) => tool.name === "todo");
  if (plans && TODO.items.length > 0) blocks.push(textBlock(TODO.render()));
  const left = room - chars(summary) / session.charsPerToken;
  blocks.push(...restoreFiles(session, messages.slice(start), Math.min(0.4 * THRESHOLD, left)));
  return wellFormed({ role: "user", content: blocks });
}

/**
 * Layer 2, and layer 3 on request: a summary, the request, the todos, some files and the newest messages replace the
 * history, in place. What is replaced is in the transcript.
 * @param options.limit tokens that were passed, of which an automatic compaction must save a part
 * @returns "done", or why the history is as it was: "skipped" (not worth it), "failed", "interrupted"
 */
export async function autoCompact(
  messages: Anthropic.MessageParam[],
  options: CompactOptions = {},
): Promise<"done" | "skipped" | "failed" | "interrupted"> {
  const { trigger = "auto", limit = THRESHOLD, signal } = options;
  const session = sessionOf(messages);
  record(messages);
  if (trigger === "manual") session.failures = 0;
  if (!isWorthCompacting(messages, trigger)) {
    if (trigger !== "auto") printLine(`[${NOTHING}]`);
    return "skipped";
  }
  const start = tailStart(messages, trigger);
  const tail = messages.slice(start);
  const kept = (promptChars(tail, session) + requestBefore(messages, start).size) / session.charsPerToken;
  if (trigger === "auto" && estimateTokens(messages) - kept - SUMMARY < savingsFor(limit)) return "skipped";

  printLine(trigger === "auto" || trigger === "reactive" ? "[auto_compact triggered]" : "[manual compact]");
  let summary: string | undefined;
  try {
    summary = await summarize(messages, { ...options, trigger });
    if (signal?.aborted) return "interrupted";
    if (summary && chars(summary) >= chars(messages.slice(0, start))) {
      throw new Error("the summary is no shorter than what it replaces");
    }
  } catch (error) {
    session.failures++;
    const off = session.failures >= MAX_FAILURES ? "; automatic compaction is off until the next /compact" : "";
    printLine(`[compaction failed: ${explain(error)}${off}]`);
    return "failed";
  }
  session.failures = 0;
  const first = compressed(messages, start, summary ?? NO_SUMMARY, limit - savingsFor(limit) - kept);
  stripThinking(tail);
  rewrite(messages, trigger, [first, ...tail]);
  if (session.unwritten.length === 0) printLine(`[transcript saved: ${relative(WORKDIR, session.transcript)}]`);
  printLine(`context: ~${count(estimateTokens(messages))} tokens`);
  return "done";
}
// #endregion

// #region when
const CompactInput = z.object({ focus: z.string().optional() });
addTool(
  "compact",
  "Replace the conversation so far by a summary, to free context. `focus` says what to keep above all.",
  CompactInput,
  () => "After this round; if it succeeds, the conversation begins with a summary.",
);

/** Before each call: layer 1 when the prompt is past its limit, layer 2 when it then still is. */
async function compactIfNeeded(messages: Anthropic.MessageParam[], signal?: AbortSignal): Promise<void> {
  const last = messages.at(-1);
  const limit = last && requestIn(last) !== undefined ? THRESHOLD : TURN_THRESHOLD;
  if (!TEXTBOOK && estimateTokens(messages) <= limit) return;
  const { cleared, saved } = microCompact(messages, savingsFor(limit));
  if (cleared) printLine(`[micro_compact] cleared ${cleared} old tool results (~${count(saved)} tokens)`);
  if (estimateTokens(messages) <= limit || sessionOf(messages).failures >= MAX_FAILURES) return;
  await autoCompact(messages, { trigger: "auto", limit, signal });
}

/** After a round in which the model called `compact`; its result says so when there is nothing to compact. */
async function compactIfAsked(
  messages: Anthropic.MessageParam[],
  calls: Anthropic.ToolUseBlock[],
  signal?: AbortSignal,
): Promise<void> {
  const call = calls.find((each) => each.name === "compact");
  const results = messages.slice(-1).flatMap(blocksOf);
  const result = results.find((block) => block.type === "tool_result" && block.tool_use_id === call?.id);
  if (!call || result?.type !== "tool_result" || result.is_error || signal?.aborted) return;
  if (!isWorthCompacting(messages, "tool")) result.content = NOTHING;
  const { focus } = parse("compact: the input", CompactInput, call.input);
  await autoCompact(messages, { trigger: "tool", focus, signal });
}

/** Calls the model; if the prompt turns out to be too long for it, compacts and tries once more. */
async function callOrCompact(
  messages: Anthropic.MessageParam[],
  options: TurnOptions,
): Promise<Anthropic.Message | undefined> {
  let reply: Anthropic.Message | undefined;
  let tooLong: unknown;
  try {
    reply = await callModel(messages, options);
  } catch (error) {
    if (!isTooLong(error)) throw error;
    tooLong = error;
  }
  if (tooLong || reply?.stop_reason === "model_context_window_exceeded") {
    const outcome = await autoCompact(messages, { trigger: "reactive", signal: options.signal });
    if (outcome === "interrupted") return undefined;
    if (outcome !== "done" && tooLong) throw tooLong;
    if (outcome === "done") reply = await callModel(messages, options);
  }
  if (reply?.stop_reason === "model_context_window_exceeded") reply.content = []; // there was no room for it
  if (reply) calibrate(messages, reply.usage);
  return reply;
}
// #endregion

// #region resume
const MessageShape = z.object({
  role: z.enum(["user", "assistant"]),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
});
const Message = z.custom<Anthropic.MessageParam>((value) => MessageShape.safeParse(value).success, "no message");
const Entry = z.union([z.object({ type: z.literal("compaction"), messages: z.array(Message) }), Message], {
  error: "neither a message nor a compaction; take the line out of the file to go on without it",
});

/** The transcript that was begun last. @throws if there is none */
function newestTranscript(): string {
  const started = (name: string) => Number(/^transcript_(\d+)_\d+\.jsonl$/.exec(name)?.[1] ?? 0);
  const isThere = existsSync(TRANSCRIPT_DIR);
  if (isThere) makePrivate(TRANSCRIPT_DIR);
  const entries = isThere ? readdirSync(TRANSCRIPT_DIR, { withFileTypes: true }) : [];
  const names = entries.flatMap((entry) => (entry.isFile() && started(entry.name) ? [entry.name] : []));
  const isBegun = (name: string) => readFileSync(join(TRANSCRIPT_DIR, name)).includes("\n");
  const newest = names.sort((a, b) => started(a) - started(b)).findLast(isBegun);
  if (!newest) throw new Error(`--resume: there is no transcript in ${TRANSCRIPT_DIR}; start without it`);
  return join(TRANSCRIPT_DIR, newest);
}

/**
 * Continues a transcript: its last compaction and what came after, as a history that the API accepts; what happens from
 * now on is appended to the same file. @throws if it is no transcript; it then stays as it is
 */
export function resume(file: string): Anthropic.MessageParam[] {
  if (!existsSync(file)) throw new Error(`--transcript: ${file} does not exist; ls ${TRANSCRIPT_DIR} shows what does`);
  const bytes = readFileSync(file);
  const lines = bytes.toString().split("\n");
  const last = lines.pop() ?? ""; // "" after a whole line
  const isWhole = typeof parseJson(last) === "object";
  if (isWhole) lines.push(last);

  const session = { ...newSession(TRANSCRIPT_DIR), transcript: resolve(file) };
  let messages: Anthropic.MessageParam[] = [];
  for (const [i, line] of lines.entries()) {
    if (line === "") continue;
    const entry = parse(`${file}: line ${i + 1}`, Entry, parseJson(line));
    if ("messages" in entry) messages = entry.messages;
    else {
      takeNote(session, entry, messages.at(-1));
      noteTodos(entry, messages.at(-1));
      messages.push(entry);
    }
  }
  if (lines.length === 0) throw new Error(`${file} holds no messages; start without it`);
  if (isWhole) appendFileSync(file, "\n");
  else if (last !== "") truncateSync(file, bytes.lastIndexOf("\n") + 1); // a kill tore the last line
  chmodSync(file, 0o600);

  stripThinking(messages); // it belongs to another run
  for (const message of messages) session.recorded.add(message);
  const history = pairUp(messages);
  for (const message of history.slice(0, -1)) session.recorded.add(message);
  sessions.set(history, session);
  printLine(`[resumed ${relative(WORKDIR, session.transcript)}: ~${count(estimateTokens(history))} tokens]`);
  return history;
}

/** Gives each call one result, right after it: a kill leaves calls without one, two runs in one file spare ones. */
function pairUp(messages: Anthropic.MessageParam[]): Anthropic.MessageParam[] {
  const idsIn = (message: Anthropic.MessageParam) =>
    blocksOf(message).map((block) =>
      block.type === "tool_use" ? block.id : "tool_use_id" in block && block.tool_use_id,
    );
  return messages.flatMap((message, i): Anthropic.MessageParam[] => {
    const before = messages.slice(Math.max(0, i - 1), i).flatMap(idsIn);
    const after = messages.slice(i + 1, i + 2).flatMap(idsIn);
    const blocks = blocksOf(message);
    const content = blocks.filter((block) => block.type !== "tool_result" || before.includes(block.tool_use_id));
    const open = blocks.filter((block) => block.type === "tool_use").filter((call) => !after.includes(call.id));
    const results = open.map(({ id }): Anthropic.ToolResultBlockParam => {
      return { type: "tool_result", tool_use_id: id, content: "(interrupted; it may have run)", is_error: true };
    });
    const kept = content.length < blocks.length ? { role: "user" as const, content } : message;
    return [kept, { role: "user" as const, content: results }].filter((each) => each.content.length > 0);
  });
}

/** The list as the last call of `todo` that worked left it. */
function noteTodos(message: Anthropic.MessageParam, before?: Anthropic.MessageParam): void {
  for (const { call } of answeredCalls(message, before)) {
    const items = TodoItems.safeParse(Object(call.input).items);
    if (call.name === "todo" && items.success) TODO.items = items.data;
  }
}
// #endregion

// #region system
export const SYSTEM = `You are a coding agent working in ${WORKDIR}. Use the tools to solve the task.
Act first, then report briefly.
Use the file tools for files, and bash for the rest.
Plan a task of several steps with todo: mark a step in_progress before you begin it and completed when it is done.
Give what needs much reading but has a short answer to a subagent with task.
When a skill fits the task, load it with load_skill before you begin. Skills:
${SKILLS.descriptions()}
When the conversation is long and a part of the work is done, call compact: a summary replaces what was said.
`;
// #endregion

// #region call
/** An error in one line, cut at 500 characters: its status, if it has one, and what the API or the system said. */
function explain(error: unknown): string {
  const fromApi = error instanceof APIError;
  const kind = fromApi ? `API error ${error.status ?? ""}`.trim() : "error";
  // When a proxy answers in the API's place, the SDK's message is the status and the proxy's whole page.
  const reason = (fromApi && error.apiMessage) || String(Object(error).message || error).replace(/^\d{3} /, "");
  return `${kind}: ${reason}`.replace(/\s+/g, " ").slice(0, 500);
}

/** Blocks that the API goes back from a breakpoint to find an entry of the prompt cache. */
const LOOKBACK = 20;

/** The messages, with a breakpoint where the last request ended if ten parallel calls and their results hide that. */
function withBreakpoint(messages: Anthropic.MessageParam[]): Anthropic.MessageParam[] {
  const end = messages.findLastIndex((message) => message.role === "assistant") - 1;
  const last = messages[end];
  if (last?.role !== "user" || messages.slice(end + 1).flatMap(blocksOf).length <= LOOKBACK) return messages;
  const content = structuredClone(blocksOf(last));
  Object.assign(content.at(-1) ?? {}, { cache_control: { type: "ephemeral" } });
  return messages.with(end, { ...last, content });
}

/**
 * One request to the model; the reply is printed as it streams.
 * @returns nothing when `signal` aborted it
 * @throws AnthropicError when the API does not answer
 */
async function callModel(
  messages: Anthropic.MessageParam[],
  { signal, system = SYSTEM, tools = TOOLS }: TurnOptions,
  quiet = false,
): Promise<Anthropic.Message | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      const stream = client.messages.stream(
        {
          model: MODEL,
          max_tokens: MAX_TOKENS,
          cache_control: { type: "ephemeral" },
          thinking: THINKING,
          system,
          tools,
          messages: withBreakpoint(messages),
        },
        { signal },
      );
      stream.on("thinking", (delta) => quiet || print(delta, dim));
      stream.on("text", (delta) => quiet || print(delta));
      stream.on("contentBlock", () => lineOpen && print("\n"));
      return await stream.finalMessage();
    } catch (error) {
      if (signal?.aborted) return undefined;
      // The SDK retries what fails before the stream begins; one that breaks has neither status nor connection error.
      const answered = error instanceof APIConnectionError || (error instanceof APIError && error.status);
      if (attempt === 2 || answered || !(error instanceof AnthropicError)) throw error;
      printLine(`[the reply broke off (${explain(error)}); trying once more]`);
    }
  }
}
// #endregion

// #region bound
/** Keeps the results of one round within LARGE_OUTPUT: the largest go to disk until the rest fits. */
function boundResults(
  results: Anthropic.ToolResultBlockParam[],
  messages: Anthropic.MessageParam[],
): Anthropic.ToolResultBlockParam[] {
  const limit = LARGE_OUTPUT * sessionOf(messages).charsPerToken;
  const preview = Math.min(PREVIEW, 2 * Math.floor(limit / results.length / 4));
  const size = (result: Anthropic.ToolResultBlockParam) => String(result.content).length;
  for (const result of results.toSorted((a, b) => size(b) - size(a))) {
    const total = results.reduce((sum, other) => sum + size(other), 0);
    if (total <= limit || size(result) <= 2 * preview) break;
    result.content = saveOutput(result.tool_use_id, String(result.content), preview);
  }
  return results;
}
// #endregion

// #region results
const isCut = (reply: Anthropic.Message) =>
  reply.stop_reason === "max_tokens" || reply.stop_reason === "model_context_window_exceeded";

/** The API takes no lone surrogates, which models and cut texts sometimes contain; JSON writes them as `\ud…`. */
const wellFormed = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value).replace(/\\(ud...|.)/g, (all, rest) => (rest.length > 1 ? "\ufffd" : all)));

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * What of a reply the API takes back: no blank text, no broken strings, no input that is no object, no name that no
 * tool may have, no thinking at the end, and none after a block that had to change, as it is bound to what was before.
 */
function usableContent(reply: Anthropic.Message): Anthropic.ContentBlock[] {
  const isThinking = (block?: Anthropic.ContentBlock) => block?.type.endsWith("thinking");
  const content: Anthropic.ContentBlock[] = [];
  let changed = false;
  for (const original of reply.content) {
    const block = wellFormed(original);
    if (block.type === "tool_use") {
      if (!isObject(block.input)) block.input = { input: block.input };
      block.name = block.name.replace(/[^\w-]/g, "_").slice(0, 200) || "_";
    }
    const isBlank = block.type === "text" && block.text.trim() === "";
    changed ||= isBlank || JSON.stringify(block) !== JSON.stringify(original);
    if (!isBlank && !(changed && isThinking(block))) content.push(block);
  }
  while (isThinking(content.at(-1))) content.pop();
  return content;
}

/** Runs the calls in their order; whatever happens, each gets exactly one result. */
async function runCalls(
  reply: Anthropic.Message,
  calls: Anthropic.ToolUseBlock[],
  options: TurnOptions,
): Promise<Anthropic.ToolResultBlockParam[]> {
  const results: Anthropic.ToolResultBlockParam[] = [];
  const last = reply.content.at(-1);
  for (const call of calls) {
    const result: Anthropic.ToolResultBlockParam = { type: "tool_result", tool_use_id: call.id };
    results.push(result);
    try {
      printLine(`> ${call.name} ${glimpse(JSON.stringify(call.input), 1)}`);
      if (isCut(reply) && last?.type === "tool_use" && last.id === call.id) {
        throw new Error(
          `${call.name}: not run: the reply reached its limit inside this call, which is incomplete; send less at once`,
        );
      }
      options.signal?.throwIfAborted();
      result.content = await runTool(call, options);
    } catch (error) {
      result.is_error = true;
      result.content = (error instanceof Error && error.message) || String(error);
      if (options.signal?.aborted) result.content = "(interrupted by user)";
    }
    printLine(glimpse(result.content, call.name === "todo" ? 25 : 5), dim); // the plan is shown whole
  }
  return results;
}
// #endregion

// #region loop
/** How a turn ended. */
export type Outcome = "done" | "cut off" | "refused" | "interrupted" | "out of rounds";

/**
 * Calls the model and runs its tool calls until it calls no more. `messages` ends with the request and is extended in
 * place; when the loop returns or throws, it is a history that the API accepts.
 * @throws AnthropicError when the API does not answer
 */
export async function agentLoop(messages: Anthropic.MessageParam[], options: TurnOptions = {}): Promise<Outcome> {
  const session = sessionOf(messages);
  session.system = options.system ?? session.system;
  session.tools = options.tools ?? session.tools;
  let cutReplies = 0;
  let roundsWithoutTodo = 0;
  const plans = (options.tools ?? TOOLS).some((tool) => tool.name === "todo");
  let rounds = 0;
  while (!options.signal?.aborted) {
    if (rounds++ === options.maxRounds) return "out of rounds";
    record(messages);
    await compactIfNeeded(messages, options.signal);
    if (options.signal?.aborted) break;
    const reply = await callOrCompact(messages, options);
    if (!reply) break;
    if (reply.stop_reason === "refusal") {
      dropTurn(messages); // a refused request that stays is refused again and again
      printLine("[the model refused; this request is taken out of the conversation]");
      return "refused";
    }
    const content = usableContent(reply);
    if (content.length > 0) messages.push({ role: "assistant", content });
    record(messages);

    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return isCut(reply) ? "cut off" : "done";

    const results = boundResults(await runCalls(reply, calls, options), messages);
    roundsWithoutTodo = calls.some((call) => call.name === "todo") ? 0 : roundsWithoutTodo + 1;
    const remind = plans && roundsWithoutTodo > 0 && roundsWithoutTodo % REMIND_AFTER === 0;
    messages.push(wellFormed({ role: "user", content: remind ? [...results, REMINDER] : results }));
    await compactIfAsked(messages, calls, options.signal);
    record(messages);
    cutReplies = isCut(reply) ? cutReplies + 1 : 0;
    if (cutReplies === 3) return "cut off";
  }
  return "interrupted";
}
// #endregion

// #region prompt
const COMMANDS = `/context          how full the context is, and when it is compacted
/compact [focus]  compact the conversation now
/help             this list
q, exit           leave`;

/** Carries out one of the COMMANDS. @returns whether it was done */
async function runCommand(messages: Anthropic.MessageParam[], line: string, signal?: AbortSignal): Promise<boolean> {
  const [command, ...focus] = line.split(/\s+/);
  if (command === "/compact") {
    const outcome = await autoCompact(messages, { trigger: "manual", focus: focus.join(" ") || undefined, signal });
    if (outcome === "interrupted") printLine("[interrupted]");
    return outcome === "done";
  }
  if (command === "/context") {
    printLine(
      `context: ~${count(estimateTokens(messages))} tokens; compacted above ${count(THRESHOLD)} ` +
        `when a request arrives, above ${count(TURN_THRESHOLD)} within a turn`,
    );
  } else printLine(command === "/help" ? COMMANDS : `unknown command ${command}; /help lists the commands`);
  return command === "/help" || command === "/context";
}

/**
 * Carries out one request, or without one what the history leaves open, and tells the person how it ended, unless it
 * was done. @returns whether it was
 */
async function runTurn(
  messages: Anthropic.MessageParam[],
  content: string | undefined,
  options: TurnOptions,
): Promise<boolean> {
  if (content && /^\/((compact|context|help)\s|\w+$)/.test(content))
    return runCommand(messages, content, options.signal);
  const request: Anthropic.MessageParam | undefined = content ? wellFormed({ role: "user", content }) : undefined;
  if (request) messages.push(request);
  try {
    const outcome = await agentLoop(messages, options);
    if (outcome !== "done" && outcome !== "refused") printLine(`[${outcome}]`); // of a refusal the loop has told
    return outcome === "done";
  } catch (error) {
    printLine(`[${explain(error)}]`);
    // What the API calls invalid would be invalid in every later call, too; what is too long, compaction can mend.
    if (error instanceof APIError && error.status === 400 && !isTooLong(error) && messages.at(-1) === request) {
      rewrite(messages, "rejected", messages.slice(0, -1));
    }
    return false;
  }
}
// #endregion

// #region main
const FILE = fileURLToPath(import.meta.url);
const LESSON = basename(FILE).split("_")[0];
const HELP = `npx tsx agents/${basename(FILE)} [-y] [--resume | --transcript FILE] ["a request"]

  "a request"        carry out this one and exit (0 if it was done, else 1); without it, a prompt opens
  -y, --yes          run bash commands without asking
  --resume           go on with the newest conversation in .transcripts/
  --transcript FILE  go on with this one

At the prompt, /help lists the commands; Ctrl-C stops a turn; q, exit or Ctrl-D leaves. Requests may be piped in, one
a line.`;

async function main(): Promise<void> {
  const { values: flags, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      yes: { type: "boolean", short: "y", default: false },
      resume: { type: "boolean" },
      transcript: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (flags.help) return console.log(HELP);
  const request = positionals.join(" ");
  if (positionals.length > 0 && !request.trim()) throw new Error("The request is empty; --help shows how to give one.");
  if (!process.env.ANTHROPIC_API_KEY && !process.env.ANTHROPIC_AUTH_TOKEN) {
    throw new Error("No credential: set ANTHROPIC_API_KEY in the environment or in .env (npm run demo needs none).");
  }

  if (problems.length > 0) throw new Error(problems.join("\n"));
  const file = flags.transcript ?? (flags.resume ? newestTranscript() : undefined);
  const messages = file ? resume(file) : [];

  const terminal = process.stdin.isTTY && process.stdout.isTTY;
  const rl = createInterface({ input: process.stdin, output: process.stdout, terminal, prompt: `${LESSON} >> ` });
  for (const warning of SKILLS.warnings) console.error(harmless(warning));
  approval.always = flags.yes;
  if (process.stdin.isTTY) {
    approval.ask = (question, signal) => {
      if (terminal) rl.write(null, { ctrl: true, name: "u" }); // what was typed before the question is no answer
      return rl.question(question, { signal });
    };
  }

  let turn: AbortController | undefined;
  let open = true;
  const interrupt = () => (turn ? turn.abort() : rl.close());
  rl.on("SIGINT", interrupt);
  process.on("SIGINT", interrupt);
  rl.on("close", () => {
    open = false;
    if (process.stdin.isTTY) turn?.abort(); // but the end of piped input is no wish to stop
  });
  process.stdout.on("error", () => {
    turn?.abort(); // nobody reads on: the terminal is closed, or the other end of a pipe
    rl.close();
  });
  for (const signal of ["SIGHUP", "SIGTERM"]) {
    process.once(signal, () => {
      turn?.abort(); // takes the running command along
      setTimeout(() => process.kill(process.pid, signal), 2 * GRACE);
    });
  }
  const carryOut = async (request?: string) => {
    turn = new AbortController();
    const done = await runTurn(messages, request, { signal: turn.signal });
    turn = undefined;
    return done;
  };

  if (positionals.length > 0) {
    process.exitCode = (await carryOut(request)) ? 0 : 1;
  } else {
    if (isUnfinished(messages)) await carryOut();
    const showPrompt = () => terminal && open && rl.prompt();
    showPrompt();
    for await (const line of rl) {
      const words = line.trim();
      if (words === "q" || words === "exit") break;
      if (words) await carryOut(words);
      showPrompt();
    }
    if (terminal && !open) printLine(""); // the shell's prompt goes on a line of its own
  }
  rl.close();
}

const script = process.argv[1] ?? "";
if (existsSync(script) && realpathSync(script) === realpathSync(FILE)) {
  main().catch((error: Error) => {
    console.error(harmless(error.message));
    process.exitCode = 1;
  });
}
// #endregion
