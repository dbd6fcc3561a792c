/** A recorded run of a lesson as steps: which line of the script runs, and what it changes in the messages. */
import type { Lesson } from "../../docs/lessons.ts";
import type { Block, Message, Run, Usage } from "../../docs/runs.ts";
import { lessonCalled } from "./code.ts";
import { read } from "./files.ts";
import { words } from "./words.ts";

/** What the lines of the script have that the steps are about: those of `agentLoop`, and of what compacts. */
const LINES = {
  start: "function agentLoop",
  check: "await compactIfNeeded(",
  call: "const reply =",
  reply: 'role: "assistant", content: reply',
  if: "if (calls.length === 0)",
  run: "runCall(call",
  remind: "push(REMINDER)",
  results: "content: results",
  asked: "if (asked) await autoCompact",
  auto: 'await autoCompact(messages, "auto"',
  summary: "callModel([...answered",
  after: "replaceHistory(messages, next, { trigger, summary",
};
type Mark = keyof typeof LINES;

/** What the next request sends, in tokens; while its results are still to come, `isWaiting`. */
export type Request = { label: string; read: number; fresh: number; isWaiting: boolean };
/**
 * `line` is what runs; of a round that is one step, `first` and `last` are all its lines. `code` comes after what it `says`,
 * `value` beside the line. Sections name it: "call", "run bash". `mark` is what the slider shows there.
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
 * array, at `until` it is gone. From `struck` on a summary is being written for it.
 */
export type Item = {
  message?: Message;
  says: string;
  child: boolean;
  at: number[];
  arrived: number;
  struck?: number;
  until?: number;
};

export const promptOf = (usage: Usage) =>
  usage.cache_read_input_tokens + usage.cache_creation_input_tokens + usage.input_tokens;
export const runOf = (name: string): Run => JSON.parse(read(`tools/docs/runs/${name}.json`));
const LONG = 6; // model calls: in a longer run the rounds after the first are one step each

export function stepsOf(name: string, prefix: string): { steps: Step[]; items: Item[] } {
  const { calls, limit } = runOf(name);
  const labels = words(prefix).player;
  const lineOf = lineFinder(lessonCalled(name));
  const steps: Step[] = [];
  const items: Item[] = [];
  let next = 0; // the model call that comes next
  let isWaiting = false; // for results that it will send

  function step(name: string, mark: Mark, says: string, more: Partial<Step> = {}): number {
    const call = calls[next];
    const label = call ? labels.request(call.child, !call.reply, isWaiting) : "";
    const { cache_read_input_tokens: read = 0 } = call?.usage ?? {};
    const request = call && { label, read, fresh: promptOf(call.usage) - read, isWaiting };
    return steps.push({ name, line: lineOf(mark), says, request, ...more }) - 1;
  }
  const add = (child: boolean, at: number[], arrived: number, message?: Message, says = "") =>
    items.push({ message, says, child, at, arrived });
  const current = (child: boolean) => items.filter((item) => item.child === child && item.until === undefined);
  const length = (child: boolean) => current(child).filter(({ message }) => message).length;

  /** The results of the round that goes on; when a summary comes between, they are in the history after it. */
  function coming(child: boolean): Message {
    const at = calls.findIndex((call, i) => i >= next && call.child === child);
    const call = calls[at]?.reply ? calls[at] : calls[at + 1];
    return call?.messages.at(-1) ?? { role: "user", blocks: [] };
  }

  /** One step for a whole round. */
  function round(child: boolean, reply: Message, results: Message): void {
    const tools = toolsOf(reply);
    const value = labels.value(tools.length);
    const code = tools.map(commandOf).join("; ");
    const lines = { first: lineOf("call"), last: lineOf("results") };
    const says = labels.round(length(child));
    const now = step("round", "if", says, { code, value, ...lines, mark: "round" });
    const isNews = limit === undefined; // in s06 a reminder is no step of its own
    const at = results.blocks.map(({ kind }) =>
      kind === "note" && isNews ? step("remind", "remind", labels.remind, { mark: "between" }) : now,
    );
    add(child, [now], now, reply);
    add(child, at, now, results);
  }

  function inDetail(child: boolean, reply: Message, isDone: boolean): void {
    const call = calls[next];
    const says = labels.call(length(child), call ? promptOf(call.usage) : 0);
    const now = step("call", "call", says, { mark: "round" });
    next++;
    isWaiting = !isDone;
    add(child, [now], step("reply", "reply", labels.reply), reply);
    const tools = toolsOf(reply);
    step("if", "if", child && isDone ? labels.childEnd : labels.if(tools.length), {
      value: labels.value(tools.length),
    });
    if (isDone) return;
    const results = coming(child);
    const at = results.blocks.map(({ kind }, i) => {
      const tool = tools[i];
      if (kind === "note" || !tool) return step("remind", "remind", labels.remind, { mark: "between" });
      if (tool.tool !== "task")
        return step(`run ${tool.tool}`, "run", labels.run(tool.tool ?? ""), { code: commandOf(tool) });
      isWaiting = false;
      const begins = step("child", "run", labels.child, { mark: "between" });
      add(true, [begins], begins, undefined, labels.child);
      loop(true);
      const ends = step("back", "run", labels.back);
      for (const item of current(true)) item.until = ends;
      return ends;
    });
    isWaiting = false;
    add(child, at, step("results", "results", labels.results), results);
  }

  /** Before the summary call, the call, after it. */
  function compact(child: boolean, last: Message | undefined): void {
    const old = current(child);
    const { messages = [] } = calls[next + 1] ?? {};
    const isAsked = last !== undefined && toolsOf(last).some(({ tool }) => tool === "compact");
    const before = labels.before(isAsked, length(child), limit ?? 0);
    step("before", isAsked ? "asked" : "auto", before, { mark: "compaction" });
    const { usage } = calls[next] ?? {};
    const summary = step("summary", "summary", usage ? labels.summary(promptOf(usage), usage.output_tokens) : "");
    for (const item of old) if (!messages.some((message) => isSame(message, item.message))) item.struck = summary;
    const count = length(child);
    next++;
    const after = step("after", "after", labels.after(count, messages.length));
    for (const item of old) item.until = after;
    for (const [i, message] of messages.entries()) add(child, [i === 0 ? summary : after], after, message);
  }

  function loop(child: boolean): void {
    const now = step("start", "start", child ? labels.prompt : labels.start);
    for (const message of calls[next]?.messages ?? []) add(child, [now], now, message);
    if (limit !== undefined) step("check", "check", labels.check(limit));
    let last: Message | undefined;
    while (true) {
      if (!calls[next]?.reply) compact(child, last);
      const { reply } = calls[next] ?? {};
      if (!reply) throw new Error(`${name}: a run ends with a reply`);
      const isDone = toolsOf(reply).length === 0;
      if (calls.length <= LONG || !last || isDone) inDetail(child, reply, isDone);
      else {
        next++;
        round(child, reply, coming(child));
      }
      if (isDone) return;
      last = reply;
    }
  }
  loop(false);
  return { steps, items };
}

function lineFinder({ name, lines }: Lesson): (mark: Mark) => number {
  const loop = lines.findIndex((line) => line.includes(LINES.start));
  return (mark) => {
    const line = lines.findIndex((each, i) => i >= loop && each.includes(LINES[mark]));
    if (line < 0) throw new Error(`${name} has no line with ${LINES[mark]}`);
    return line;
  };
}

const toolsOf = ({ blocks }: Message) => blocks.filter(({ kind }) => kind === "tool_use");

/** Whether both are the same message, before and after a compaction: it makes text of thinking. */
const isSame = (one: Message, other: Message | undefined) =>
  one.blocks.some(
    ({ kind, text }) =>
      !/note|text|thinking/.test(kind) && other?.blocks.some((each) => each.kind === kind && each.text === text),
  );

const SHOWN = 72; // characters of a command
/** Of bash the command; of other tools the name and the first field of the input. */
function commandOf({ tool = "", text }: Block): string {
  const value = (text.split("\n")[0] ?? "").replace(/^\w+: ?/, "");
  const command = tool === "bash" ? value : `${tool} ${value}`.trim();
  return command.length > SHOWN ? `${command.slice(0, SHOWN)} …` : command;
}
