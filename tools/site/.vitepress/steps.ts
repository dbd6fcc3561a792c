/** A recorded run of a lesson as steps: which line of the script runs, and what it changes in the messages. */
import { type Block, type Call, type Message, promptOf, type Run } from "../../docs/runs.ts";
import { lessonCalled } from "./code.ts";
import { read } from "./files.ts";
import { words } from "./words.ts";

/** What the lines of the script have that the steps are about. They are looked for from `agentLoop` on. */
export const LINES = {
  start: "function agentLoop",
  check: "await compactIfNeeded(",
  call: "const reply =",
  reply: 'role: "assistant", content: reply',
  if: "if (calls.length === 0)",
  run: "runCall(call",
  remind: "push(REMINDER)",
  results: "content: results",
  past: "if (isPastLimit()) clearOldResults(",
  cold: "if (isCold) clearOldResults(",
  cleared: 'replaceHistory(messages, cleared, "micro"',
  asked: "if (asked) await autoCompact(",
  auto: 'await autoCompact(messages, "auto"',
  summary: "callModel([...answered",
  after: "replaceHistory(messages, compacted(",
  resume: 'replaceHistory(messages, history, "resume"',
};
type Mark = keyof typeof LINES;

/** What the next model call sends, in tokens, and its share of the window. `isOpen`: what is new in it isn't there yet. */
export type Request = { label: string; read: number; fresh: number; share: string; isOpen: boolean };
/**
 * `line` is what runs; of rounds that are one step, `first` and `last` are all their lines. `code` comes after what it
 * `says`, `value` beside the line. Sections name it: "call", "run bash". `mark` is what the slider shows there.
 */
export type Step = {
  name: string;
  line: number;
  first?: number;
  last?: number;
  says: string;
  code?: string;
  value?: string;
  request?: Request;
  mark?: "round" | "compaction" | "between";
};
/**
 * A message, or a sentence about what happened. `at` has the step at which each block appears; at `arrived` it is in the
 * array, at `until` it is gone. From `struck` on it is about to go. A `brief` one is always a line.
 */
export type Item = {
  message?: Message;
  says?: string;
  child: boolean;
  at: number[];
  arrived: number;
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
  isOpen = false; // its results are still to come
  isEnded = false; // the program, in the middle of a call
  told = -1; // the last model call whose compaction has been told

  constructor(name: string, prefix: string) {
    this.run = runOf(name);
    this.labels = words(prefix).player;
    this.script = lessonCalled(name).lines;
  }

  get call(): Call | undefined {
    return this.run.calls[this.next];
  }

  lineOf(mark: Mark): number {
    const loop = this.script.findIndex((line) => line.includes(LINES.start));
    const line = this.script.findIndex((each, i) => i >= loop && each.includes(LINES[mark]));
    if (line < 0) throw new Error(`the script has no line with ${LINES[mark]}`);
    return line;
  }

  request(label: string, read: number, total: number, isOpen: boolean): Request {
    const share = this.run.limit ? "" : this.labels.share((100 * total) / this.run.window);
    return { label, read, fresh: total - read, share, isOpen };
  }

  /** With what the next model call sends, or would without the compaction to come. @returns the number of the step */
  step(name: string, mark: Mark, says: string, more: Partial<Step> = {}): number {
    const { labels, call, isOpen } = this;
    const { reply, usage, estimate, resumed } = call ?? {};
    const isAhead = estimate !== undefined && this.told < this.next;
    const isCompacted = isAhead && (!reply || this.clearsMore());
    const label = isCompacted ? labels.estimate : labels.nextCall(call?.child ?? false, !reply, isOpen);
    const before = this.run.calls[this.next - 1]?.usage;
    const cached = isCompacted && before && !resumed ? promptOf(before) : 0;
    const request =
      usage && isCompacted
        ? this.request(label, cached, estimate, true)
        : usage && this.request(label, usage.cache_read_input_tokens, promptOf(usage), isOpen);
    return this.steps.push({ name, line: this.lineOf(mark), says, request, ...more }) - 1;
  }

  add(child: boolean, at: number[], arrived: number, message?: Message, more: Partial<Item> = {}): void {
    this.items.push({ message, child, at, arrived, ...more });
  }

  current(child: boolean): Item[] {
    return this.items.filter((item) => item.child === child && item.until === undefined);
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
    if (resumed) this.resume(messages.slice(0, -1));
    const now = this.step("start", "start", child ? labels.prompt : isFirst ? labels.start : labels.again);
    this.add(child, [now], now, messages.at(-1));
    if (isFirst && run.limit) this.step("check", "check", labels.check(run.limit));
    while (this.round(child));
  }

  /** The history comes from the transcript, thinking as text, and what was under way is answered. */
  resume(messages: Message[]): void {
    const now = this.step("resume", "resume", this.labels.resume(this.isEnded), {
      mark: "between",
      request: undefined,
    });
    if (!this.clearsMore()) this.replace(false, messages, now, now);
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
    const { calls } = this.run;
    const { reply } = this.call ?? {};
    if (!reply) throw new Error("a run ends with a reply");
    const isFirst = !this.items.some((item) => item.child === child && item.message?.role === "assistant");
    if (isFirst || calls.length <= LONG || this.next === calls.length - 1) return this.inDetail(child, reply);
    return toolsOf(reply).length > 0 ? this.inShort(child, reply) : this.answer(child, reply);
  }

  inDetail(child: boolean, reply: Message): boolean {
    const { labels } = this;
    const tools = toolsOf(reply);
    const results = this.resultsAfter(this.next);
    const prompt = this.call ? promptOf(this.call.usage) : 0;
    const now = this.step("call", "call", labels.call(this.count(child), prompt), { mark: "round" });
    this.next++;
    this.isOpen = tools.length > 0 || child; // results of this round, or that of task
    this.add(child, [now], this.step("reply", "reply", labels.reply), reply);
    const says = child && tools.length === 0 ? labels.childEnd : labels.if(tools.length);
    this.step("if", "if", says, { value: labels.value(tools.length) });
    if (tools.length === 0 || !results) return false;
    const at = results.blocks.map((_, i) => this.runTool(tools[i]));
    this.isOpen = false;
    this.add(child, at, this.step("results", "results", labels.results), results);
    return true;
  }

  /** What comes back in one block of the results: of a tool, or if there is none, the reminder. */
  runTool(call: Block | undefined): number {
    const { labels } = this;
    if (!call) return this.step("remind", "remind", labels.remind, { mark: "between" });
    if (call.tool !== "task")
      return this.step(`run ${call.tool}`, "run", labels.run(call.tool ?? ""), { code: inputOf(call) });
    this.isOpen = false;
    const begins = this.step("child", "run", labels.child, { mark: "between" });
    this.add(true, [begins], begins, undefined, { says: labels.child });
    this.turn(true);
    const ends = this.step("back", "run", labels.back);
    for (const item of this.current(true)) item.until = ends;
    return ends;
  }

  answer(child: boolean, reply: Message): boolean {
    this.next++;
    const now = this.step("answer", "if", this.labels.if(0), {
      value: this.labels.value(0),
      mark: "round",
      request: undefined,
    });
    this.add(child, [now], now, reply);
    return false;
  }

  /** One step for the rounds to come that call the same tool. */
  inShort(child: boolean, reply: Message): boolean {
    const { labels, next: first } = this;
    const replies = this.alike(reply);
    const tools = replies.flatMap(toolsOf);
    this.next += replies.length;
    const lines = { first: this.lineOf("call"), last: this.lineOf("results") };
    const more = { code: listOf(tools.map(commandOf)), value: labels.value(1), ...lines, mark: "round" as const };
    this.isEnded = this.resultsAfter(this.next - 1) === undefined;
    const says = this.isEnded ? labels.ended : labels.rounds(replies.length);
    const now = this.isEnded
      ? this.step("ended", "run", says, { code: more.code, mark: "round", request: undefined })
      : this.step(`run ${tools[0]?.tool}`, "if", says, more);
    for (const [i, each] of replies.entries()) {
      const isBrief = i < replies.length - 1;
      this.add(child, [now], now, each, { brief: isBrief });
      const results = this.resultsAfter(first + i);
      const at = results?.blocks.map(({ kind }) => (kind === "note" && this.isNews ? this.runTool(undefined) : now));
      if (results && at) this.add(child, at, now, results, { brief: isBrief });
    }
    return !this.isEnded;
  }

  /** In s06 a reminder is no step of its own. */
  get isNews(): boolean {
    return this.run.limit === undefined;
  }

  alike(reply: Message): Message[] {
    const tool = (message: Message | undefined) => message && toolsOf(message)[0]?.tool;
    const found = [reply];
    while (found.length < ALIKE) {
      const at = this.next + found.length;
      const call = this.run.calls[at];
      const isReminded = this.isNews && this.resultsAfter(at - 1)?.blocks.some(({ kind }) => kind === "note");
      if (!call?.reply || call.compacted || isReminded || tool(call.reply) !== tool(reply)) break;
      found.push(call.reply);
    }
    return found;
  }

  /** Layer 1: past the limit, or when a request comes after a pause. */
  clear(child: boolean): void {
    const { labels, run } = this;
    const { messages = [], estimate = 0 } = this.call ?? {};
    const isCold = this.current(child).at(-1)?.message?.blocks[0]?.kind === "request";
    const says = isCold ? labels.cold : labels.past(estimate, run.limit ?? 0);
    const now = this.step(isCold ? "cold" : "past", isCold ? "cold" : "past", says, { mark: "compaction" });
    this.told = this.next;
    this.replace(child, messages, now, this.step("cleared", "cleared", labels.cleared(clearedIn(messages))));
  }

  /** Before the call for a summary, the call, and after it. */
  summarize(child: boolean): void {
    const { labels, run } = this;
    const { usage, estimate = 0 } = this.call ?? {};
    const { messages = [] } = run.calls[this.next + 1] ?? {};
    const isAsked = this.current(child).some(
      ({ message }, i, all) => i >= all.length - 2 && message?.blocks.some(({ tool }) => tool === "compact"),
    );
    const before = labels.before(isAsked, estimate, run.limit ?? 0);
    this.step(isAsked ? "asked" : "before", isAsked ? "asked" : "auto", before, { mark: "compaction" });
    this.told = this.next;
    const says = usage ? labels.summary(promptOf(usage), usage.output_tokens) : "";
    const struck = this.step("summary", "summary", says);
    const count = this.count(child);
    this.next++;
    this.replace(child, messages, struck, this.step("after", "after", labels.after(count, messages.length)));
  }

  /** From step `now` on these are all messages. What they leave out is struck out from step `struck` on. */
  replace(child: boolean, messages: Message[], struck: number, now: number): void {
    for (const item of this.current(child)) {
      if (!messages.some((message) => isSame(message, item.message))) item.struck = struck;
      item.until = now;
    }
    for (const message of messages) {
      const isNew = isSummary(message) && !this.items.some((item) => item.message && isSame(message, item.message));
      this.add(child, [isNew ? struck : now], now, message, { brief: !isNew });
    }
  }
}

const toolsOf = ({ blocks }: Message) => blocks.filter(({ kind }) => kind === "tool_use");
const clearedIn = (messages: Message[]) =>
  messages.flatMap(({ blocks }) => blocks).filter(({ text }) => text.startsWith("[Previous: used ")).length;
const isSummary = ({ blocks }: Message) => /^\[Conversation compressed/.test(blocks[0]?.text ?? "");

/** Whether both are the same message, before and after a compaction: it makes text of thinking. */
const isSame = (one: Message, other: Message | undefined) =>
  one.blocks.some(
    ({ kind, text }) =>
      kind !== "thinking" &&
      !text.startsWith("<reminder>") &&
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
