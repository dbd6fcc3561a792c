/** A recorded run of a lesson as steps: which line of the script runs, and what it changes in the messages. */
import { type Block, type Call, type Message, promptOf, type Run } from "../../docs/runs.ts";
import { lessonCalled } from "./code.ts";
import { read } from "./files.ts";
import { words } from "./words.ts";

/** A part of the line that each step shows: the first such line from `agentLoop` on. Steps that aren't here show the line that runs a tool. */
const LINES: Record<string, string> = {
  start: "function agentLoop",
  again: 'role: "user", content: request }',
  check: "await compactIfNeeded(",
  call: "const reply =",
  reply: 'role: "assistant", content: reply',
  if: "if (calls.length === 0)",
  run: "runCall(call",
  remind: "TODO.reminderAfter(calls)",
  results: "content: results",
  past: "if (isPastThreshold()) clearOldResults(",
  cold: "if (isColdRequest(messages, state)) clearOldResults(",
  cleared: 'replaceHistory(messages, cleared, "micro"',
  asked: "if (state.pendingCompact) await autoCompact(",
  before: 'await autoCompact(messages, "auto"',
  summary: "callModel([...answered",
  after: "replaceHistory(messages, [...requests, message",
  pause: "const CACHE_SECONDS = ",
  resume: 'answerOpenCalls(replay(entries)), "resume"',
};

/** What a model call sends, in tokens; while none comes, what the cache has. `without`: before a compaction. `state`: classes. */
export type Request = Record<"read" | "fresh" | "without", number> & Record<"label" | "cache" | "state", string>;
/**
 * `line` is what runs, `inside` its function; of rounds that are one step, `first` and `last` are all their lines. `code` comes after what it
 * `says`, `value` beside the line. Sections name it: "call", "run bash". `mark` is what the slider shows there, of a layer its number.
 */
export type Step = {
  name: string;
  line: number;
  inside: string;
  first?: number;
  last?: number;
  says: string;
  code?: string;
  value?: string;
  request: Request;
  mark?: "round" | "1" | "2" | "3" | "reminder" | "subagent" | "resume";
};
/**
 * A message, or what happened: a sentence, a command. `at` has the step at which each block appears; at `arrived` it is in the
 * array, at `until` it is gone. From `struck` on it is about to go. A `brief` one is always a line. `child`: a subagent's, or on disk.
 */
export type Item = {
  message?: Message;
  says?: string;
  code?: string;
  child: boolean;
  at: number[];
  arrived: number;
  sent?: number; // at this step a warm cache has it
  struck?: number;
  until?: number;
  brief?: boolean;
};

export const runOf = (name: string): Run => JSON.parse(read(`tools/docs/runs/${name}.json`));
const LONG = 6; // model calls: in a longer run the rounds after the first are told in short
const ALIKE = 4; // rounds that are one step

export function stepsOf(name: string, prefix: string): { steps: Step[]; items: Item[] } {
  const story = new Story(name, prefix);
  while (story.call) story.turn(false);
  return story;
}

class Story {
  readonly steps: Step[] = [];
  readonly items: Item[] = [];
  readonly run: Run;
  readonly labels: ReturnType<typeof words>["player"];
  readonly script: string[];
  next = 0; // the model call that comes next
  isOpen = false; // the results of the last one are not there yet
  isKilled = false; // the program, in the middle of a tool call
  told = -1; // the last model call whose compaction has been told
  cold = -1; // the last one before which the cache had expired
  without = 0; // tokens of the next model call before the compaction that has just been

  constructor(name: string, prefix: string) {
    this.run = runOf(name);
    this.labels = words(prefix).player;
    this.script = lessonCalled(name).lines;
    this.add(false, [0], 0, undefined, { code: this.run.command });
  }

  get call(): Call | undefined {
    return this.run.calls[this.next];
  }

  lineOf(name: string): number {
    const text = LINES[name.split(" ")[0] ?? ""] ?? LINES.run ?? "";
    const loop = this.script.findIndex((line) => line.includes("function agentLoop"));
    const line = this.script.findIndex((each, i) => i >= loop && each.includes(text));
    if (line < 0) throw new Error(`the script has no line with ${text}`);
    return line;
  }

  functionAt(line: number): string {
    if (/^\S/.test(this.script[line] ?? "")) return ""; // at the top
    const heads = this.script.slice(0, line).map((text) => /^(?:export )?(?:async )?function (\w+)/.exec(text)?.[1]);
    return `${heads.findLast(Boolean)}()`;
  }

  /** While no model call comes: how many tokens the prompt cache has of what was sent last. A short prompt is not cached. */
  get idle(): Request {
    const { labels, run, call, next, without } = this;
    const { usage } = run.calls.slice(0, next).findLast(({ child }) => child === (call?.child ?? false)) ?? {};
    const read = usage && this.cold !== next ? promptOf(usage) - usage.input_tokens : 0;
    const cache = run.limit && !without ? labels.cache(read) : ""; // a first lesson says less
    const state = read > 0 ? "idle warm" : "idle"; // idle: no message has a colour
    return { label: labels.noCall, read, fresh: 0, without, cache, state };
  }

  /** With what the next model call sends, or would without the compaction to come, or the last one did. @returns the number of the step */
  step(name: string, says: string, more: Partial<Step> = {}): number {
    const { labels, run, isOpen, next, idle } = this;
    const { reply, usage, estimate, child = false } = run.calls[isOpen ? next - 1 : next] ?? {};
    const isAhead = !isOpen && estimate && this.told < next && (!reply || this.clearsMore());
    const when = isOpen ? "last" : /^(call|summary)$/.test(name) ? "now" : "next";
    const label = isAhead ? labels.estimate : labels.modelCall(when, child, !reply, this.without);
    const read = isAhead ? idle.read : (usage?.cache_read_input_tokens ?? 0);
    const prompt = isAhead ? estimate.tokens : usage && promptOf(usage);
    const cache = run.limit ? (isOpen ? "" : idle.cache) : labels.share((100 * (prompt ?? 0)) / run.window);
    const state = isOpen ? "idle" : `${idle.read > 0 ? "warm" : ""} ${isAhead ? "ahead" : ""}`;
    const request = prompt === undefined ? idle : { ...idle, label, read, fresh: prompt - read, cache, state };
    const line = more.line ?? this.lineOf(name);
    return this.steps.push({ name, line, inside: this.functionAt(line), says, request, ...more }) - 1;
  }

  add(child: boolean, at: number[], arrived: number, message?: Message, more: Partial<Item> = {}): void {
    this.items.push({ message, child, at, arrived, ...more });
  }

  current(child: boolean): Item[] {
    return this.items.filter((item) => item.child === child && item.until === undefined);
  }

  /** Model calls are made: from the step that comes next the cache has all that is there. */
  send(child: boolean, calls = 1): void {
    for (const item of this.current(child)) item.sent ??= this.steps.length;
    this.without = 0;
    this.next += calls;
  }

  count(child: boolean): number {
    return this.current(child).filter(({ message }) => message).length;
  }

  /** The results of the calls in a reply; a compaction may come between. None if the program was ended. */
  resultsAfter(at: number): Message | undefined {
    const { calls } = this.run;
    const next = calls.find(({ child, reply }, i) => i > at && child === calls[at]?.child && reply);
    return next?.resumed ? undefined : next?.messages.at(-1);
  }

  /** A request, and its rounds until a reply without a call, or until the program is ended. */
  turn(child: boolean): void {
    const { labels, run } = this;
    const { messages = [], resumed } = this.call ?? {};
    const isFirst = this.steps.length === 0;
    this.isOpen = false;
    if (resumed) this.restart(messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1, -1));
    const line = this.lineOf(child || isFirst ? "start" : "again");
    const now = this.step("start", child ? labels.prompt : isFirst ? labels.start : labels.again, { line });
    this.add(child, [now], now, messages.at(-1));
    if (isFirst && run.limit) this.step("check", labels.check(run.limit));
    while (this.round(child));
  }

  /** A command has killed the program. Time passes, and a new one reads the transcript. It adds a result for the call, and a note. */
  restart(added: Message[]): void {
    const { labels } = this;
    const past = this.current(false);
    const killed = this.steps.length - 1;
    this.cold = this.next;
    this.step("pause", labels.paused, { request: this.idle });
    const now = this.step("resume", labels.resume, { request: this.idle, mark: "resume" });
    const brief = true;
    for (const item of past) item.until = killed;
    this.add(false, [killed], killed, undefined, { says: labels.disk, until: now });
    const requests = past.filter(({ message }) => message?.blocks[0]?.kind === "request");
    for (const { message } of past.slice(past.indexOf(requests.at(-2) as Item)))
      this.add(true, [killed], killed, message, { brief, until: now });
    this.add(false, [now], now, undefined, { code: `${this.run.command} --continue` });
    for (const { message } of past) if (message) this.add(false, [now], now, asText(message), { brief });
    for (const message of added) this.add(false, [now], now, message);
    this.isKilled = false;
  }

  /** Whether layer 1 acts before the next model call. */
  clearsMore(): boolean {
    const now = this.current(false).flatMap(({ message }) => message ?? []);
    return clearedIn(this.call?.messages ?? []) > clearedIn(now);
  }

  /** @returns whether the turn goes on */
  round(child: boolean): boolean {
    if (this.call && !this.call.reply) this.summarize(child);
    else if (this.call?.compacted && this.clearsMore()) this.clear(child);
    const { calls, limit } = this.run;
    const { reply } = this.call ?? {};
    if (!reply) throw new Error("a run ends with a reply");
    const isFirst = !this.items.some((item) => item.child === child && item.message?.role === "assistant");
    if ((isFirst && !limit) || calls.length <= LONG) return this.inDetail(child, reply);
    return toolsOf(reply).length > 0 ? this.inShort(child, reply) : this.answer(child, reply);
  }

  inDetail(child: boolean, reply: Message): boolean {
    const { labels } = this;
    const tools = toolsOf(reply);
    const results = this.resultsAfter(this.next);
    const prompt = this.call ? promptOf(this.call.usage) : 0;
    const now = this.step("call", labels.call(this.count(child), prompt), { mark: "round" });
    this.send(child);
    this.isOpen = true;
    this.add(child, [now], this.step("reply", labels.reply), reply);
    this.step("if", labels.if(tools.length), { value: labels.value(tools.length) });
    if (tools.length === 0 || !results) return false;
    const at = results.blocks.map((_, i) => this.runTool(tools[i]));
    this.isOpen = false;
    this.add(child, at, this.step("results", labels.results), results);
    return true;
  }

  /** What comes back in one block of the results: of a tool, or if there is none, the reminder. */
  runTool(call: Block | undefined): number {
    const { labels } = this;
    if (!call) return this.step("remind", labels.remind, { mark: "reminder" });
    if (call.tool !== "task")
      return this.step(`run ${call.tool}`, labels.run(call.tool ?? ""), { code: inputOf(call) });
    this.isOpen = false;
    const begins = this.step("child", labels.child, { mark: "subagent" });
    this.add(true, [begins], begins, undefined, { says: labels.child });
    this.turn(true);
    const ends = this.step("back", labels.back);
    for (const item of this.current(true)) item.until = ends;
    return ends;
  }

  answer(child: boolean, reply: Message): boolean {
    this.send(child);
    this.isOpen = true;
    const now = this.step("if", this.labels.if(0), { value: this.labels.value(0), mark: "round" });
    this.add(child, [now], now, reply);
    return false;
  }

  /** One step for the rounds to come that call the same tool. In s06 a reminder is no step of its own. */
  inShort(child: boolean, reply: Message): boolean {
    const { labels, run, next } = this;
    const replies = this.alike(reply);
    const tools = replies.flatMap(toolsOf);
    this.send(child, replies.length);
    const [line, first, last] = ["run", "call", "results"].map((name) => this.lineOf(name));
    const lines = { line, first, last };
    const more = { code: listOf(tools.map(commandOf)), mark: "round" as const };
    const isFirst = next === 0 && run.limit; // after it, how the cache works
    this.isKilled = this.resultsAfter(this.next - 1) === undefined;
    const now = this.isKilled
      ? this.step("killed", labels.killed, { ...more, request: this.idle })
      : this.step(`run ${tools[0]?.tool}`, labels.rounds(replies.length), { ...more, ...lines });
    for (const [i, each] of replies.entries()) {
      const isBrief = i < replies.length - 1;
      const sent = isBrief ? now : undefined;
      this.add(child, [now], now, each, { brief: isBrief, sent });
      const results = this.resultsAfter(next + i);
      const at = results?.blocks.map(({ kind }) => (kind === "note" && !run.limit ? this.runTool(undefined) : now));
      if (results && at) this.add(child, at, now, results, { brief: isBrief, sent });
    }
    const usage = isFirst && this.call?.usage;
    if (usage) this.step("call", labels.cached(this.count(child), promptOf(usage) - usage.cache_read_input_tokens));
    return !this.isKilled;
  }

  alike(reply: Message): Message[] {
    const tool = (message: Message | undefined) => message && toolsOf(message)[0]?.tool;
    const found = [reply];
    while (found.length < ALIKE) {
      const at = this.next + found.length;
      const call = this.run.calls[at];
      const isReminded = !this.run.limit && this.resultsAfter(at - 1)?.blocks.some(({ kind }) => kind === "note");
      if (!call?.reply || call.compacted || isReminded || tool(call.reply) !== tool(reply)) break;
      found.push(call.reply);
    }
    return found;
  }

  /** Layer 1: past the threshold, or when a request comes after a pause. */
  clear(child: boolean): void {
    const { labels } = this;
    const { messages = [], estimate: { tokens, saved } = { tokens: 0, saved: 0 } } = this.call ?? {};
    const isCold = this.cold === this.next;
    const says = isCold ? labels.cold(saved) : labels.past(tokens, saved);
    const now = this.step(isCold ? "cold" : "past", says, { mark: "1" });
    this.told = this.next;
    this.without = tokens;
    this.replace(child, now, "cleared", labels.cleared(clearedIn(messages), isCold));
  }

  /** Before the call for a summary, the call, and after it. */
  summarize(child: boolean): void {
    const { labels, run } = this;
    const { usage, estimate: { tokens, saved } = { tokens: 0, saved: 0 } } = this.call ?? {};
    const isAsked = this.steps.at(-1)?.name === "run compact";
    const before = isAsked ? labels.asked : labels.before(tokens, saved, 0.4 * (run.limit ?? 0));
    this.step(isAsked ? "asked" : "before", before, { mark: isAsked ? "3" : "2" });
    this.told = this.next;
    const struck = this.step("summary", usage ? labels.summary(promptOf(usage), usage) : "");
    this.next++;
    this.without = tokens;
    this.replace(child, struck, "after", labels.after(this.count(child), this.call?.messages.length ?? 0));
  }

  /** From this step on there are the messages of the next model call. What they leave out is struck out from step `struck` on. */
  replace(child: boolean, struck: number, name: "cleared" | "after", says: string): void {
    const { messages, usage } = this.call as Call;
    const past = this.current(child).filter(({ message }) => message); // what happened stays
    const found = usage.cache_read_input_tokens;
    const isChanged = (message: Message, i: number) => JSON.stringify(message) !== JSON.stringify(past[i]?.message);
    const same = found > 0 ? messages.findIndex(isChanged) : 0;
    const made = name === "after" ? messages.findIndex(isSummary) : messages.length;
    const now = this.step(name, says);
    for (const item of past) {
      if (!messages.some((message) => isSame(message, item.message))) item.struck = struck;
      item.until = now;
    }
    for (const [i, message] of messages.entries()) {
      const at = i === made ? struck : now;
      this.add(child, [at], now, message, { brief: i !== made, sent: i < same ? now : undefined });
    }
    const isCold = this.cold === this.next; // there is nothing to lose
    const price = this.labels[`${name}Price`];
    if (!isCold) this.step(`${name} price`, price(this.without - promptOf(usage), promptOf(usage) - found));
  }
}

const toolsOf = ({ blocks }: Message) => blocks.filter(({ kind }) => kind === "tool_use");
const clearedIn = (messages: Message[]) =>
  messages.flatMap(({ blocks }) => blocks).filter(({ text }) => text.startsWith("[Previous: used ")).length;
const asText = ({ role, blocks }: Message) => ({
  role,
  blocks: blocks.map((block) => (block.kind === "thinking" ? { ...block, kind: "text" } : block)),
});
const isSummary = ({ blocks }: Message) => /^\[Conversation compressed/.test(blocks[0]?.text ?? "");

/** Whether both are the same message, before and after a compaction: it makes text of thinking. */
const isSame = (one: Message, other: Message | undefined) =>
  one.blocks.some(
    ({ kind, text }) =>
      kind !== "thinking" &&
      !text.startsWith("<") && // a reminder, a file
      other?.blocks.some((each) => each.kind === kind && each.text === text),
  );

const SHOWN = 72; // characters of a command
/** The first field of a call's input. */
function inputOf({ text }: Block): string {
  const value = (text.split("\n")[0] ?? "").replace(/^\w+: ?/, "");
  return value.length > SHOWN ? `${value.slice(0, SHOWN)} …` : value;
}
const listOf = (all: string[]) => (all.length > 2 ? `${all[0]} … ${all.at(-1)}` : all.join("; "));
const commandOf = (call: Block) => (call.tool === "bash" ? inputOf(call) : `${call.tool} ${inputOf(call)}`);
