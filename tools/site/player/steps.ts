/** A recorded run, step by step: which line of the script runs, and what it changes in the messages. */
import { functionAround, type LineName, lineNamed } from "../../lesson/lines.ts";
import type { Lesson } from "../../lesson/source.ts";
import { type Compaction, fatesOf, type Message, messagesAt, type Timeline, totalOf } from "../../trace/timeline.ts";
import { words } from "../.vitepress/words.ts";
import { type Call, type Conversation, callAt, type Run, readRun } from "./run.ts";

/** What a model call sends, in tokens. */
export type Request = {
  label: string;
  read: number;
  fresh: number;
  /** How large the prompt was before the compaction that has just been; 0 if there was none. */
  without: number;
  /** A sentence about the prompt cache. */
  cache: string;
  /** Class names. */
  state: string;
};
export type Step = {
  /** Sections name a step by it: "call", "run bash". */
  name: string;
  /** The line that runs, and the function it's in. */
  line: number;
  inside: string;
  /** The first and last line of the rounds that are told in one step. */
  first?: number;
  last?: number;
  says: string;
  /** A command that follows the sentence. */
  code?: string;
  /** Shown beside the line. */
  value?: string;
  request: Request;
  /** Shown on the slider; a layer by its number. */
  mark?: "round" | "1" | "2" | "3" | "reminder" | "subagent" | "resume";
};
/** An entry of the list of messages: a message, a sentence about what happened, or a command. */
export type Item = {
  message?: Message;
  says?: string;
  code?: string;
  /** Whether it's a subagent's, or on disk. */
  child: boolean;
  /** The steps at which its blocks appear. */
  at: number[];
  /** The step at which it's added to messages. */
  arrived: number;
  /** The step from which a warm cache has it. */
  sent?: number;
  /** The step from which it's struck out, because a compaction is about to take it. */
  struck?: number;
  /** The step at which it's gone. */
  until?: number;
  /** Whether it's always a single line. */
  brief?: boolean;
};

const LONG = 6; // model calls: in a longer run, the rounds after the first are told in short
const ALIKE = 4; // rounds that are told in one step

/** @returns the steps of a lesson's recorded run, and the messages they show */
export function stepsOf(lesson: Lesson, prefix: string): { run: Run; steps: Step[]; items: Item[] } {
  const story = new Story(lesson, prefix);
  while (story.call) story.turn();
  return story;
}

class Story {
  readonly steps: Step[] = [];
  readonly items: Item[] = [];
  readonly run: Run;
  readonly labels: ReturnType<typeof words>["player"];
  readonly lesson: Lesson;
  readonly threshold: number; // 0 in a lesson that doesn't compact
  readonly isLong: boolean;
  readonly next = new Map<Conversation, number>(); // the model call that comes next
  talk: Conversation; // the one that goes on: the lesson's, or its subagent's
  isOpen = false; // the results of the last call aren't there yet
  isKilled = false; // the program, in the middle of a tool call
  compacted = 0; // compactions told of those before the next model call
  cold = -1; // the last model call before which the cache had expired
  without = 0;

  constructor(lesson: Lesson, prefix: string) {
    this.run = readRun(lesson.name);
    this.labels = words(prefix).player;
    this.lesson = lesson;
    this.threshold = this.run.threshold;
    this.talk = this.run.parent;
    const { parent, tasks } = this.run;
    this.isLong = [parent, ...tasks].flatMap(({ calls }) => calls).length > LONG;
  }

  get isChild(): boolean {
    return this.talk !== this.run.parent;
  }

  get at(): number {
    return this.next.get(this.talk) ?? 0;
  }

  get call(): Call | undefined {
    return this.talk.calls[this.at];
  }

  /** The compaction to come before the next model call. To resume isn't to compact. */
  get pending(): Compaction | undefined {
    const compaction = this.isOpen ? undefined : this.call?.compactions[this.compacted]?.compaction;
    return compaction?.trigger === "resume" ? undefined : compaction;
  }

  lineOf(name: string): number {
    const [line = ""] = name.split(" ");
    return lineNamed((/^(back|child|killed)$/.test(line) ? "run" : line) as LineName, this.lesson);
  }

  /** What the bar shows while no model call comes: how many tokens of the last prompt are in the cache. */
  get idle(): Request {
    const { labels, at, without, cold } = this;
    const usage = this.talk.calls[at - 1]?.modelCall.usage;
    const read = usage && cold !== at ? totalOf(usage) - usage.input : 0;
    const cache = this.threshold && !without ? labels.cache(read) : ""; // a first lesson says less
    const state = read > 0 ? "idle warm" : "idle"; // idle: no message has a colour
    return { label: labels.noCall, read, fresh: 0, without, cache, state };
  }

  /** What the model call sends that is due: the last one, the one for a summary, or the next, before or after compaction. */
  requestAt(name: string, summary?: Compaction): Request {
    const { labels, isOpen, idle, pending, isChild, without } = this;
    const usage = summary ? summary.usage : this.talk.calls[isOpen ? this.at - 1 : this.at]?.modelCall.usage;
    const cache = isOpen ? "" : idle.cache;
    const warm = idle.read > 0 ? "warm" : "";
    if (pending && !summary) {
      const fresh = Math.round(pending.before.tokens) - idle.read;
      return { ...idle, label: labels.estimate, fresh, cache, state: `${warm} ahead` };
    }
    if (!usage) return idle;
    const when = isOpen ? "last" : /^(call|summary)$/.test(name) ? "now" : "next";
    const label = labels.modelCall(when, isChild, summary !== undefined, without);
    return {
      ...idle,
      label,
      read: usage.read,
      fresh: totalOf(usage) - usage.read,
      cache,
      state: isOpen ? "idle" : warm,
    };
  }

  /** @returns the number of the step */
  step(name: string, says: string, more: Partial<Step> = {}): number {
    const line = more.line ?? this.lineOf(name);
    const inside = functionAround(line, this.lesson);
    const request = more.request ?? this.requestAt(name);
    return this.steps.push({ name, line, inside, says, ...more, request }) - 1;
  }

  add(at: number[], arrived: number, message?: Message, more: Partial<Item> = {}): void {
    this.items.push({ message, child: this.isChild, at, arrived, ...more });
  }

  current(): Item[] {
    return this.items.filter((item) => item.child === this.isChild && item.until === undefined);
  }

  count(): number {
    return this.current().filter(({ message }) => message).length;
  }

  /** Model calls are made: from the coming step on, the cache has all that is there. */
  send(calls = 1): void {
    for (const item of this.current()) item.sent ??= this.steps.length;
    this.without = 0;
    this.compacted = 0;
    this.next.set(this.talk, this.at + calls);
  }

  /** The results of the calls in a reply; none if the program was killed. */
  resultsAfter(at: number): Message | undefined {
    const next = this.talk.calls[at + 1];
    const [first] = next?.compactions ?? [];
    return (first ?? next)?.added[0];
  }

  /** A request and its rounds, until a reply without a call, or until the program is killed. */
  turn(): void {
    const { labels, call, isChild } = this;
    const isFirst = this.steps.length === 0;
    this.isOpen = false;
    const [first] = call?.compactions ?? [];
    const added = [...(call?.compactions ?? []), call].flatMap((each) => each?.added ?? []);
    const request = added.pop();
    if (first?.compaction.trigger === "resume") this.restart(first.compaction, added);
    const line = this.lineOf(isChild || isFirst ? "start" : "again");
    const now = this.step("start", isChild ? labels.prompt : isFirst ? labels.start : labels.again, { line });
    this.add([now], now, request);
    if (isFirst && this.threshold) this.step("check", labels.check(this.threshold));
    while (this.round());
  }

  /** A command has killed the program. Time passes, and a new one reads the transcript, and adds a note to it. */
  restart(resume: Compaction, notes: Message[]): void {
    const { labels } = this;
    const past = this.current();
    const killed = this.steps.length - 1;
    this.cold = this.at;
    this.step("pause", labels.paused, { request: this.idle });
    const now = this.step("resume", labels.resume, { request: this.idle, mark: "resume" });
    for (const item of past) item.until = killed;
    this.add([killed], killed, undefined, { says: labels.disk, until: now });
    const requests = past.filter(({ message }) => message?.blocks[0]?.kind === "request");
    for (const { message } of past.slice(past.indexOf(requests.at(-2) as Item)))
      this.add([killed], killed, message, { brief: true, child: true, until: now });
    this.add([now], now, undefined, { code: `${this.run.command} --continue` });
    const known = new Set(past.map(({ message }) => message?.number));
    for (const message of messagesAt(this.talk.timeline, resume.after))
      this.add([now], now, message, { brief: known.has(message.number) });
    for (const note of notes) this.add([now], now, note);
    this.isKilled = false;
    this.compacted++;
  }

  /** @returns whether the turn goes on */
  round(): boolean {
    for (let compaction = this.pending; compaction; compaction = this.pending) this.compact(compaction);
    const { reply } = callAt(this.talk, this.at);
    const isFirst = !this.items.some(({ child, message }) => child === this.isChild && message?.role === "assistant");
    if ((isFirst && !this.threshold) || !this.isLong) return this.inDetail(reply);
    return toolCallsIn(reply).length > 0 ? this.inShort(reply) : this.answer(reply);
  }

  inDetail(reply: Message): boolean {
    const { labels } = this;
    const calls = toolCallsIn(reply);
    const results = this.resultsAfter(this.at);
    const now = this.step("call", labels.call(this.count(), this.call?.modelCall.tokens ?? 0), { mark: "round" });
    this.send();
    this.isOpen = true;
    this.add([now], this.step("reply", labels.reply), reply);
    this.step("if", labels.if(calls.length), { value: labels.value(calls.length) });
    if (calls.length === 0 || !results) return false;
    const at = results.blocks.map((_, i) => this.runTool(calls[i]));
    this.isOpen = false;
    this.add(at, this.step("results", labels.results), results);
    return true;
  }

  /** @returns the step at which a block of the results appears: a tool's, or if no call belongs to it, the reminder */
  runTool(call: Message["blocks"][number] | undefined): number {
    const { labels } = this;
    if (!call) return this.step("remind", labels.remind, { mark: "reminder" });
    if (call.tool === "task") return this.runTask();
    return this.step(`run ${call.tool}`, labels.run(call.tool ?? ""), { code: firstArgument(call.text) });
  }

  runTask(): number {
    const { labels, talk, run } = this;
    const next = run.tasks.find((task) => !this.next.has(task));
    if (!next) throw new Error(`the run of ${this.lesson.name} has a task without a trace of its own`);
    this.isOpen = false;
    this.talk = next;
    const begins = this.step("child", labels.child, { mark: "subagent" });
    this.add([begins], begins, undefined, { says: labels.child });
    this.turn();
    const ends = this.step("back", labels.back);
    this.talk = talk;
    for (const item of this.items) if (item.child) item.until ??= ends;
    return ends;
  }

  answer(reply: Message): boolean {
    this.send();
    this.isOpen = true;
    const now = this.step("if", this.labels.if(0), { value: this.labels.value(0), mark: "round" });
    this.add([now], now, reply);
    return false;
  }

  /** One step for the coming rounds that call the same tool. */
  inShort(reply: Message): boolean {
    const { labels, at: first } = this;
    const replies = this.alike(reply);
    const calls = replies.flatMap(toolCallsIn);
    this.send(replies.length);
    this.isKilled = this.resultsAfter(this.at - 1) === undefined;
    const more = { code: inOneLine(calls.map(commandOf)), mark: "round" as const };
    const lines = { line: this.lineOf("run"), first: this.lineOf("call"), last: this.lineOf("results") };
    const now = this.isKilled
      ? this.step("killed", labels.killed, { ...more, request: this.idle })
      : this.step(`run ${calls[0]?.tool}`, labels.rounds(replies.length), { ...more, ...lines });
    for (const [i, each] of replies.entries()) this.addRound(each, first + i, now, i < replies.length - 1);
    const usage = first === 0 && this.threshold ? this.call?.modelCall.usage : undefined; // after the first, how the cache works
    if (usage) this.step("call", labels.cached(this.count(), totalOf(usage) - usage.read));
    return !this.isKilled;
  }

  /** A reply and its results. In s06 a reminder is no step of its own. */
  addRound(reply: Message, call: number, now: number, brief: boolean): void {
    const sent = brief ? now : undefined;
    this.add([now], now, reply, { brief, sent });
    const results = this.resultsAfter(call);
    const at = results?.blocks.map(({ kind }) =>
      kind === "client" && !this.threshold ? this.runTool(undefined) : now,
    );
    if (results && at) this.add(at, now, results, { brief, sent });
  }

  alike(reply: Message): Message[] {
    const toolOf = (message: Message | undefined) => message && toolCallsIn(message)[0]?.tool;
    const found = [reply];
    while (found.length < ALIKE) {
      const at = this.at + found.length;
      const call = this.talk.calls[at];
      const isReminded = !this.threshold && this.resultsAfter(at - 1)?.blocks.some(({ kind }) => kind === "client");
      if (!call || call.compactions.length > 0 || isReminded || toolOf(call.reply) !== toolOf(reply)) break;
      found.push(call.reply);
    }
    return found;
  }

  compact(compaction: Compaction): void {
    const isLayer1 = compaction.trigger === "micro";
    if (isLayer1) this.clear(compaction);
    else this.summarize(compaction);
  }

  /** Layer 1: past the threshold, or when a request comes after a pause. */
  clear(compaction: Compaction): void {
    const { labels, threshold } = this;
    const { before, after } = compaction;
    const isCold = before.tokens <= threshold;
    const saved = before.tokens - after.tokens;
    const says = isCold ? labels.cold(saved) : labels.past(before.tokens, saved);
    const now = this.step(isCold ? "cold" : "past", says, { mark: "1" });
    const cleared = [...fatesOf(this.talk.timeline, compaction).values()].filter((fate) => fate === "disk").length;
    this.replace(compaction, now, "cleared", labels.cleared(cleared, isCold), !isCold);
  }

  /** Layers 2 and 3: before the model call for the summary, during it, and after it. */
  summarize(compaction: Compaction): void {
    const { labels, threshold } = this;
    const { trigger, before, after, usage } = compaction;
    if (trigger === "auto") this.step("before", labels.before(before.tokens, threshold), { mark: "2" });
    else this.step("asked", labels.asked, { mark: "3" });
    const request = this.requestAt("summary", compaction);
    const struck = this.step("summary", usage ? labels.summary(totalOf(usage), usage.output) : "", { request });
    const messages = messagesAt(this.talk.timeline, after);
    this.replace(compaction, struck, "after", labels.after(this.count(), messages.length), true);
  }

  /** From here on there are the messages that the compaction left. Those it took are struck out from step `struck` on. */
  replace(compaction: Compaction, struck: number, name: "cleared" | "after", says: string, isPriced: boolean): void {
    const { timeline } = this.talk;
    this.compacted++;
    this.without = Math.round(compaction.before.tokens);
    const past = this.current().filter(({ message }) => message); // sentences and commands stay
    const now = this.step(name, says);
    const fates = fatesOf(timeline, compaction);
    const isTaken = ({ blocks }: Message) => !blocks.some(({ id }) => /^(kept|thought)$/.test(fates.get(id) ?? ""));
    for (const item of past) {
      if (item.message && isTaken(item.message)) item.struck = struck;
      item.until = now;
    }
    const usage = this.call?.modelCall.usage;
    const isCached = (usage?.read ?? 0) > 0;
    const same = isCached ? sharedStart(timeline, compaction) : 0;
    for (const [i, message] of messagesAt(timeline, compaction.after).entries()) {
      const isNew = message.blocks[0]?.kind === "summary" && name === "after";
      this.add([isNew ? struck : now], now, message, { brief: !isNew, sent: i < same ? now : undefined });
    }
    const price = this.labels[`${name}Price`];
    if (isPriced && usage)
      this.step(`${name} price`, price(this.without - totalOf(usage), totalOf(usage) - usage.read));
  }
}

/** How many messages at the start of the history a compaction left as they were. */
function sharedStart(timeline: Timeline, { before, after }: Compaction): number {
  const old = messagesAt(timeline, before);
  const idsOf = (message?: Message) => message?.blocks.map(({ id }) => id).join();
  return messagesAt(timeline, after).findIndex((message, i) => idsOf(message) !== idsOf(old[i]));
}

const toolCallsIn = ({ blocks }: Message) => blocks.filter(({ kind }) => kind === "call");

const SHOWN = 72; // characters of a command
function firstArgument(text: string): string {
  const value = (text.split("\n")[0] ?? "").replace(/^\w+: ?/, "");
  return value.length > SHOWN ? `${value.slice(0, SHOWN)} …` : value;
}
const inOneLine = (all: string[]) => (all.length > 2 ? `${all[0]} … ${all.at(-1)}` : all.join("; "));
const commandOf = ({ tool, text }: Message["blocks"][number]) =>
  tool === "bash" ? firstArgument(text) : `${tool} ${firstArgument(text)}`;
