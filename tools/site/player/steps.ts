/** Tells a recorded run in steps. Each names the line of the script that runs and what changes in the messages. */
import { functionAround, type LineName, lineNamed } from "../../lesson/lines.ts";
import type { Lesson } from "../../lesson/source.ts";
import { type Compaction, fatesOf, type Message, messagesAt, type Timeline, totalOf } from "../../trace/timeline.ts";
import { words } from "../.vitepress/words.ts";
import { type Call, type Conversation, type Run, readRun } from "./run.ts";

/** What a model call sends: tokens that the cache has, and new ones. */
export type Request = {
  label: string;
  read: number;
  fresh: number;
  /** The prompt before the compaction that has just happened, or 0. */
  tokensBefore: number;
  /** A sentence about the prompt cache. */
  cache: string;
  /** Class names. */
  state: string;
};
export type Step = {
  /** For example "call" or "run bash". `SECTIONS` uses these names. */
  name: string;
  /** The index of the line that runs. */
  line: number;
  /** The function that the line is in. */
  inside: string;
  /** The first line that runs in this step, if there are several. */
  first?: number;
  last?: number;
  says: string;
  /** A command that follows the sentence. */
  code?: string;
  /** Shown beside the line. */
  value?: string;
  request: Request;
  /** The mark below the slider. A number stands for a layer. */
  mark?: "round" | "1" | "2" | "3" | "reminder" | "subagent" | "resume";
};
/** An entry in the list of messages: a message, a sentence about what happened, or a command. Its numbers are steps. */
export type Item = {
  message?: Message;
  says?: string;
  code?: string;
  /** Indented, because it belongs to the subagent or is on disk. */
  child: boolean;
  /** When each block appears, if not when the message is added. */
  at: number[];
  /** When the message is added to the history. */
  arrived: number;
  /** When it begins to be in the cache. */
  sent?: number;
  /** When it's struck out, because a compaction is about to take it. */
  struck?: number;
  /** When it disappears. */
  until?: number;
  /** Whether it's always a single line. */
  brief?: boolean;
};

const LONG = 6; // model calls; a longer run tells only its first round in detail
const AT_ONCE = 4; // the most rounds that one step tells

/** Returns the steps of a lesson's recorded run and the messages they show. */
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
  readonly next = new Map<Conversation, number>(); // the index of the next model call
  talk: Conversation; // the lesson's or its subagent's, whichever is running
  isOpen = false; // between a model call and its results
  compacted = 0; // how many of the compactions before the next model call have been told

  constructor(lesson: Lesson, prefix: string) {
    this.run = readRun(lesson.name);
    this.labels = words(prefix).player;
    this.lesson = lesson;
    this.talk = this.run.parent;
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

  /** The compaction that comes before the next model call. Resuming isn't a compaction. */
  get pending(): Compaction | undefined {
    const compaction = this.isOpen ? undefined : this.call?.compactions[this.compacted]?.compaction;
    return compaction?.trigger === "resume" ? undefined : compaction;
  }

  lineOf(name: string): number {
    const [line = ""] = name.split(" ");
    return lineNamed((/^(back|child|killed)$/.test(line) ? "run" : line) as LineName, this.lesson);
  }

  /** What the bar shows while no model call is due: how much of the last prompt is in the cache. */
  get idle(): Request {
    const { labels } = this;
    const told = this.call?.compactions.slice(0, this.compacted).map(({ compaction }) => compaction) ?? [];
    const isCold = told.some(({ trigger }) => trigger === "resume"); // which comes after a pause
    const usage = this.talk.calls[this.at - 1]?.modelCall.usage;
    const read = usage && !isCold ? totalOf(usage) - usage.input : 0;
    const tokensBefore = Math.round(told.findLast(({ trigger }) => trigger !== "resume")?.before.tokens ?? 0);
    const cache = this.run.threshold && !tokensBefore ? labels.cache(read) : ""; // only s06 is about the cache
    const state = read > 0 ? "idle warm" : "idle"; // messages have no colours while idle
    return { label: labels.noCall, read, fresh: 0, tokensBefore, cache, state };
  }

  /** The model call that is due: the last one, one for a summary, or the next, before or after compaction. */
  requestAt(name: string, summary?: Compaction): Request {
    const { labels, isOpen, idle, pending } = this;
    const usage = summary ? summary.usage : this.talk.calls[isOpen ? this.at - 1 : this.at]?.modelCall.usage;
    const warm = idle.read > 0 ? "warm" : "";
    if (pending && !summary) {
      const fresh = Math.round(pending.before.tokens) - idle.read;
      return { ...idle, label: labels.estimate, fresh, state: `${warm} ahead` };
    }
    if (!usage) return idle;
    const when = isOpen ? "last" : /^(call|summary)$/.test(name) ? "now" : "next";
    const label = labels.modelCall(when, this.isChild, summary !== undefined, idle.tokensBefore);
    const tokens = { read: usage.read, fresh: totalOf(usage) - usage.read };
    return { ...idle, ...tokens, label, cache: isOpen ? "" : idle.cache, state: isOpen ? "idle" : warm };
  }

  /** Adds a step and returns its number. */
  step(name: string, says: string, more: Partial<Step> = {}): number {
    const line = more.line ?? this.lineOf(name);
    const inside = functionAround(line, this.lesson);
    const request = more.request ?? this.requestAt(name);
    return this.steps.push({ name, line, inside, says, ...more, request }) - 1;
  }

  add(arrived: number, message?: Message, more: Partial<Item> = {}): void {
    this.items.push({ message, child: this.isChild, at: [], arrived, ...more });
  }

  /** The entries of the running conversation that haven't disappeared. */
  current(): Item[] {
    return this.items.filter((item) => item.child === this.isChild && item.until === undefined);
  }

  count(): number {
    return this.current().filter(({ message }) => message).length;
  }

  /** Makes model calls. From the next step on, all messages so far are in the cache. */
  send(calls = 1): void {
    for (const item of this.current()) item.sent ??= this.steps.length;
    this.compacted = 0;
    this.next.set(this.talk, this.at + calls);
  }

  /** Returns the results of the tool calls in a reply, or nothing if the program was killed. */
  resultsAfter(at: number): Message | undefined {
    const next = this.talk.calls[at + 1];
    const [first] = next?.compactions ?? [];
    return (first ?? next)?.added[0];
  }

  /** Tells a request and its rounds, until a reply has no tool call or the program is killed. */
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
    this.add(now, request);
    const { threshold } = this.run;
    if (isFirst && threshold) this.step("check", labels.check(threshold));
    while (this.round());
  }

  /** A command has killed the program. After a pause, a new program reads the transcript and adds a note. */
  restart(resume: Compaction, notes: Message[]): void {
    const { labels } = this;
    const past = this.current();
    const killed = this.steps.length - 1;
    this.compacted++;
    this.step("pause", labels.paused, { request: this.idle });
    const now = this.step("resume", labels.resume, { request: this.idle, mark: "resume" });
    for (const item of past) item.until = killed;
    this.add(killed, undefined, { says: labels.disk, until: now });
    const requests = past.filter(({ message }) => message?.blocks[0]?.kind === "request");
    for (const { message } of past.slice(past.indexOf(requests.at(-2) as Item)))
      this.add(killed, message, { brief: true, child: true, until: now });
    this.add(now, undefined, { code: `${this.run.command} --continue` });
    const known = new Set(past.map(({ message }) => message?.number));
    for (const message of messagesAt(this.talk.timeline, resume.after))
      this.add(now, message, { brief: known.has(message.number) });
    for (const note of notes) this.add(now, note);
  }

  /** Tells a round, or several in one step. Returns whether the turn goes on. */
  round(): boolean {
    for (let compaction = this.pending; compaction; compaction = this.pending) {
      if (compaction.trigger === "micro") this.clear(compaction);
      else this.summarize(compaction);
    }
    const { call, run } = this;
    if (!call) throw new Error("a run ends with a reply");
    const isInDetail = run.calls.length <= LONG || (this.at === 0 && !run.threshold);
    if (isInDetail) return this.inDetail(call);
    return toolCallsIn(call.reply).length > 0 ? this.inShort(call.reply) : this.answer(call.reply);
  }

  inDetail({ reply, modelCall }: Call): boolean {
    const { labels } = this;
    const calls = toolCallsIn(reply);
    const results = this.resultsAfter(this.at);
    const now = this.step("call", labels.call(this.count(), modelCall.tokens), { mark: "round" });
    this.send();
    this.isOpen = true;
    this.add(this.step("reply", labels.reply), reply, { at: [now] });
    this.step("if", labels.if(calls.length), { value: labels.value(calls.length) });
    if (calls.length === 0 || !results) return false;
    const at = results.blocks.map((_, i) => this.runTool(calls[i]));
    this.isOpen = false;
    this.add(this.step("results", labels.results), results, { at });
    return true;
  }

  /** Tells a tool call, or without one, the reminder. Returns the step at which its result appears. */
  runTool(call: Message["blocks"][number] | undefined): number {
    const { labels } = this;
    if (!call) return this.step("remind", labels.remind, { mark: "reminder" });
    if (call.tool === "task") return this.runTask();
    return this.step(`run ${call.tool}`, labels.run(call.tool ?? ""), { code: firstArgument(call.text) });
  }

  runTask(): number {
    const { labels, talk, run } = this;
    if (!run.subagent) throw new Error(`the run of ${this.lesson.name} has no trace of its subagent`);
    this.isOpen = false;
    this.talk = run.subagent;
    this.add(this.step("child", labels.child, { mark: "subagent" }), undefined, { says: labels.child });
    this.turn();
    const ends = this.step("back", labels.back);
    this.talk = talk;
    for (const item of this.items) if (item.child) item.until ??= ends;
    return ends;
  }

  answer(reply: Message): boolean {
    this.send();
    this.isOpen = true;
    this.add(this.step("if", this.labels.if(0), { value: this.labels.value(0), mark: "round" }), reply);
    return false;
  }

  /** Tells the next rounds that call the same tool in one step. */
  inShort(reply: Message): boolean {
    const { labels, at: first } = this;
    const replies = this.repliesLike(reply);
    const calls = replies.flatMap(toolCallsIn);
    this.send(replies.length);
    const isKilled = this.resultsAfter(this.at - 1) === undefined;
    const more = { code: inOneLine(calls.map(commandOf)), mark: "round" as const };
    const lines = { line: this.lineOf("run"), first: this.lineOf("call"), last: this.lineOf("results") };
    const now = isKilled
      ? this.step("killed", labels.killed, { ...more, request: this.idle })
      : this.step(`run ${calls[0]?.tool}`, labels.rounds(replies.length), { ...more, ...lines });
    for (const [i, each] of replies.entries()) this.addRound(each, first + i, now, i < replies.length - 1);
    const usage = first === 0 && this.run.threshold ? this.call?.modelCall.usage : undefined;
    if (usage) this.step("call", labels.cached(this.count(), totalOf(usage) - usage.read)); // s06 explains the cache once
    return !isKilled;
  }

  /** Adds a reply and its results. In s06 a reminder has no step of its own. */
  addRound(reply: Message, call: number, now: number, brief: boolean): void {
    const more = { brief, sent: brief ? now : undefined };
    this.add(now, reply, more);
    const results = this.resultsAfter(call);
    if (!results) return;
    const at = results.blocks.map(({ kind }) =>
      kind === "client" && !this.run.threshold ? this.runTool(undefined) : now,
    );
    this.add(now, results, { at, ...more });
  }

  /** Returns this reply and those after it that call the same tool, with no compaction or reminder in between. */
  repliesLike(reply: Message): Message[] {
    const toolOf = (message: Message) => toolCallsIn(message)[0]?.tool;
    const found = [reply];
    while (found.length < AT_ONCE) {
      const at = this.at + found.length;
      const call = this.talk.calls[at];
      const isReminded = !this.run.threshold && this.resultsAfter(at - 1)?.blocks.some(({ kind }) => kind === "client");
      if (!call || call.compactions.length > 0 || isReminded || toolOf(call.reply) !== toolOf(reply)) break;
      found.push(call.reply);
    }
    return found;
  }

  /** Tells layer 1, which acts past the threshold or when a request comes after a pause. */
  clear(compaction: Compaction): void {
    const { labels } = this;
    const { before, after } = compaction;
    const isCold = before.tokens <= this.run.threshold;
    const saved = before.tokens - after.tokens;
    const says = isCold ? labels.cold(saved) : labels.past(before.tokens, saved);
    const now = this.step(isCold ? "cold" : "past", says, { mark: "1" });
    const cleared = [...fatesOf(this.talk.timeline, compaction).values()].filter((fate) => fate === "disk").length;
    this.replace(compaction, now, "cleared", labels.cleared(cleared, isCold));
  }

  /** Tells layer 2 or 3 in steps before, during and after the model call for the summary. */
  summarize(compaction: Compaction): void {
    const { labels } = this;
    const { trigger, before, after, usage } = compaction;
    if (trigger === "auto") this.step("before", labels.before(before.tokens, this.run.threshold), { mark: "2" });
    else this.step("asked", labels.asked, { mark: "3" });
    const request = this.requestAt("summary", compaction);
    const struck = this.step("summary", usage ? labels.summary(totalOf(usage), usage.output) : "", { request });
    const messages = messagesAt(this.talk.timeline, after);
    this.replace(compaction, struck, "after", labels.after(this.count(), messages.length));
  }

  /** Shows the messages that a compaction left. Those it took are struck out from step `struck` until then. */
  replace(compaction: Compaction, struck: number, name: "cleared" | "after", says: string): void {
    const { timeline } = this.talk;
    this.compacted++;
    const past = this.current().filter(({ message }) => message); // sentences and commands stay
    const now = this.step(name, says);
    const fates = fatesOf(timeline, compaction);
    const isTaken = ({ blocks }: Message) => !blocks.some(({ id }) => /^(kept|thought)$/.test(fates.get(id) ?? ""));
    for (const item of past) {
      if (item.message && isTaken(item.message)) item.struck = struck;
      item.until = now;
    }
    const usage = this.call?.modelCall.usage;
    const isCached = usage !== undefined && usage.read > 0;
    const same = isCached ? sharedStart(timeline, compaction) : 0;
    for (const [i, message] of messagesAt(timeline, compaction.after).entries()) {
      const isNew = message.blocks[0]?.kind === "summary" && name === "after";
      this.add(now, message, { at: isNew ? [struck] : [], brief: !isNew, sent: i < same ? now : undefined });
    }
    const price = this.labels[`${name}Price`];
    const saved = Math.round(compaction.before.tokens) - (usage ? totalOf(usage) : 0);
    if (isCached) this.step(`${name} price`, price(saved, totalOf(usage) - usage.read));
  }
}

/** Returns how many messages at the start of the history a compaction left in place. */
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
