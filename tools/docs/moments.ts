/** Finds the moments that the pages draw in the recorded runs: the messages before and after a step. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CHARS_PER_TOKEN } from "../prices.ts";
import { type Block, type Event, textOf, type Usage } from "../trace/events.ts";
import { sum } from "../trace/numbers.ts";
import { readRecording } from "../trace/recording.ts";

/** A message, or with the role `system` a part of the system prompt. */
export type Message = { role: "user" | "assistant" | "system"; blocks: Block[]; isChild?: boolean };
/** The tokens of a prompt, and how many of them the API reads from its cache. */
type Prompt = { tokens: number; cached: number };
type Sides<Value> = { before: Value; after: Value };
/** The prompts are those of the next model call, without and with the step. */
export type Moment = Sides<Message[]> & { title: string; prompts?: Sides<Prompt> };
type Run = { events: Event[]; histories: Message[][] }; // the messages before each event, and after the last

/** Estimates tokens from the characters of the JSON. */
export const tokensOf = (blocks: Block[]): number =>
  Math.round(sum(blocks.map(({ chars }) => chars)) / CHARS_PER_TOKEN);

function readRun(root: string, name: string): Run {
  const { events } = readRecording(readFileSync(join(root, `tools/docs/runs/${name}.jsonl`), "utf8"));
  const histories: Message[][] = [[]];
  for (const event of events) histories.push(historyAfter(histories.at(-1) ?? [], event));
  return { events, histories };
}

function historyAfter(history: Message[], event: Event): Message[] {
  if (event.type === "rewrite") return event.messages;
  return event.type === "message" && event.by !== "setup" ? [...history, event] : history;
}

const promptOf = ({ input, read, written }: Usage): Prompt => ({ tokens: input + read + written, cached: read });

/** Returns each compaction that comes between two model calls. Calls that wrote a summary aren't among these. */
function rewritesIn({ events, histories }: Run) {
  const calls = events.flatMap((event, at) => {
    const isCounted = event.type === "call" && event.usage && events[at + 1]?.type !== "rewrite";
    return isCounted && event.usage ? { at, prompt: promptOf(event.usage) } : [];
  });
  return events.flatMap((event, i) => {
    const [last, next] = [calls.findLast(({ at }) => at < i), calls.find(({ at }) => at > i)];
    const before = histories[i] ?? [];
    if (event.type !== "rewrite" || !last || !next) return [];
    const added = before.slice(histories[last.at]?.length).flatMap(({ blocks }) => blocks);
    const cached = next.prompt.cached > 0 ? last.prompt.tokens : 0; // after a pause, nothing would have been
    const prompts = { before: { tokens: last.prompt.tokens + tokensOf(added), cached }, after: next.prompt };
    return { before, after: event.messages, prompts };
  });
}

/** The lines of the system prompt that describe a skill. */
function skillsIn(events: Event[]): Message[] {
  const setup = events.flatMap((event) => (event.type === "message" && event.by === "setup" ? event.blocks : []));
  const lines = setup.flatMap((block) => textOf(block).match(/^- .*/gm) ?? []);
  return lines.map((text) => ({ role: "system", blocks: [{ kind: "client", text, chars: text.length }] }));
}

/** Returns the moments by name. */
export function momentsIn(root: string): Record<string, Moment> {
  const added = (title: string, lesson: string, text = ""): Moment => {
    const { events, histories } = readRun(root, lesson);
    const i = events.findIndex((event) => {
      const blocks = event.type === "message" ? event.blocks : [];
      return blocks.some(({ kind }) => kind === "result") && blocks.some((block) => textOf(block).includes(text));
    });
    const skills = skillsIn(events);
    const [before = [], after = []] = histories.slice(i, i + 2);
    return { title, before: [...skills, ...before], after: [...skills, ...after] };
  };
  const rewrites = rewritesIn(readRun(root, "s06"));
  const summary = rewrites.find(({ before, after }) => after.length < before.length);
  const cold = rewrites.findLast(({ prompts }) => prompts.after.cached === 0);
  if (!rewrites[0] || !summary || !cold) throw new Error("tools/docs/runs/s06.jsonl lacks a moment that a page draws");
  const task = added("Only a subagent's last text comes back", "s04");
  const child = readRun(root, "tasks/s04").histories.at(-1) ?? [];
  return {
    s02_call: added("A call and its result", "s02"),
    s03_reminder: added("A reminder follows the results", "s03", "<reminder>"),
    s04_subagent: { ...task, before: [...task.before, ...child.map((message) => ({ ...message, isChild: true }))] },
    s05_skill: added("Descriptions come first, a body when it's called for", "s05", "<skill"),
    s06_layer1: { title: "Layer 1 clears an old result", ...rewrites[0] },
    s06_layer2: { title: "Layer 2 puts a summary in the place of messages", ...summary },
    s06_cold: { title: "After a pause, nothing is cached", ...cold },
  };
}
