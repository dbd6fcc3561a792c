/** Finds the moments that the pages draw in the recorded runs: the messages before and after a step. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CACHE_LIFE, CHARS_PER_TOKEN } from "../prices.ts";
import { type Block, type Event, textOf } from "../trace/events.ts";
import { sum } from "../trace/numbers.ts";
import { readRecording } from "../trace/recording.ts";
import { totalOf } from "../trace/timeline.ts";

/** A message, or with the role `system` a part of the system prompt. */
export type ShownMessage = { role: "user" | "assistant" | "system"; blocks: Block[]; isChild?: boolean };
/** The tokens of a prompt, and how many of them the API reads from its cache. */
export type Prompt = { tokens: number; cached: number };
type Sides<Value> = { before: Value; after: Value };
/** The prompts are those of the next model call, without and with the step. */
export type Moment = Sides<ShownMessage[]> & { title: string; prompts?: Sides<Prompt> };
/** The histories are the messages before each event, and after the last. */
type Run = { events: Event[]; histories: ShownMessage[][] };

/** Estimates tokens from the characters of the JSON. */
export const tokensOf = (blocks: Block[]): number =>
  Math.round(sum(blocks.map(({ chars }) => chars)) / CHARS_PER_TOKEN);

function readRun(root: string, name: string): Run {
  const { events } = readRecording(readFileSync(join(root, `tools/docs/runs/${name}.jsonl`), "utf8"));
  const histories: ShownMessage[][] = [[]];
  for (const event of events) histories.push(historyAfter(histories.at(-1) ?? [], event));
  return { events, histories };
}

function historyAfter(history: ShownMessage[], event: Event): ShownMessage[] {
  if (event.type === "rewrite") return event.messages;
  return event.type === "message" && event.by !== "setup" ? [...history, event] : history;
}

/** Returns the model calls with their place among the events, but not those that wrote a summary. */
function callsIn(events: Event[]) {
  return events.flatMap((event, at) => {
    const wroteSummary = events[at + 1]?.type === "rewrite";
    if (event.type !== "call" || !event.usage || wroteSummary) return [];
    return { at, time: event.time ?? 0, prompt: { tokens: totalOf(event.usage), cached: event.usage.read } };
  });
}

/** Returns each compaction that comes between two model calls. */
function rewritesIn({ events, histories }: Run) {
  const calls = callsIn(events);
  return events.flatMap((event, i) => {
    const last = calls.findLast(({ at }) => at < i);
    const next = calls.find(({ at }) => at > i);
    if (event.type !== "rewrite" || !last || !next) return [];
    const before = histories[i] ?? [];
    const added = before.slice(histories[last.at]?.length).flatMap(({ blocks }) => blocks);
    const isCold = next.time - last.time > CACHE_LIFE;
    const uncut = { tokens: last.prompt.tokens + tokensOf(added), cached: isCold ? 0 : last.prompt.tokens };
    return { before, after: event.messages, prompts: { before: uncut, after: next.prompt }, isCold };
  });
}

/** Returns the messages before and after the first one with a tool result and this text. */
function resultIn(root: string, name: string, text = ""): Sides<ShownMessage[]> {
  const { events, histories } = readRun(root, name);
  const skills = skillsIn(events);
  const i = events.findIndex((event) => {
    const blocks = event.type === "message" ? event.blocks : [];
    return blocks.some(({ kind }) => kind === "result") && blocks.some((block) => textOf(block).includes(text));
  });
  const [before = [], after = []] = histories.slice(i, i + 2);
  return { before: [...skills, ...before], after: [...skills, ...after] };
}

/** Returns the lines of the system prompt that describe a skill. */
function skillsIn(events: Event[]): ShownMessage[] {
  const setup = events.flatMap((event) => (event.type === "message" && event.by === "setup" ? event.blocks : []));
  const lines = setup.flatMap((block) => textOf(block).match(/^- .*/gm) ?? []);
  return lines.map((text) => ({ role: "system", blocks: [{ kind: "client", text, chars: text.length }] }));
}

export function momentsIn(root: string): Record<string, Moment> {
  const task = resultIn(root, "s04");
  const child = readRun(root, "tasks/s04").histories.at(-1) ?? [];
  const withChild = [...task.before, ...child.map((message) => ({ ...message, isChild: true }))];
  const rewrites = rewritesIn(readRun(root, "s06"));
  const clearing = rewrites[0];
  const summary = rewrites.find(({ before, after }) => after.length < before.length);
  const cold = rewrites.findLast(({ isCold }) => isCold);
  if (!clearing || !summary || !cold) throw new Error("tools/docs/runs/s06.jsonl lacks a moment that a page draws");
  return {
    s02_call: { title: "A call and its result", ...resultIn(root, "s02") },
    s03_reminder: { title: "A reminder follows the results", ...resultIn(root, "s03", "<reminder>") },
    s04_subagent: { title: "Only a subagent's last text comes back", before: withChild, after: task.after },
    s05_skill: { title: "Descriptions come first, a body when it's called for", ...resultIn(root, "s05", "<skill") },
    s06_layer1: { title: "Layer 1 clears old results", ...clearing },
    s06_layer2: { title: "Layer 2 puts a summary in the place of messages", ...summary },
    s06_cold: { title: "After a pause, nothing is cached", ...cold },
  };
}
