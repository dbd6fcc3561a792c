/** Finds the moments that the pages draw in the recorded runs: the messages before and after a step. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type Anthropic from "@anthropic-ai/sdk";

export type Message = { role: string; content: Anthropic.MessageParam["content"]; isChild?: boolean };
/** The tokens of a prompt, and how many of them the API reads from its cache. */
type Prompt = { tokens: number; cached: number };
type Sides<Value> = { before: Value; after: Value };
/** The prompts are those of the next model call, without and with the step. */
export type Moment = Sides<Message[]> & { title: string; prompts?: Sides<Prompt> };

/** A message, a usage, or the messages that a compaction left. Some recordings have the usage beside the reply. */
type Line = { message?: Message; messages?: Message[]; usage?: Usage; state?: { usage?: Usage }; system?: string };
type Usage = Pick<Anthropic.Usage, "input_tokens" | "cache_read_input_tokens" | "cache_creation_input_tokens">;
type Run = { lines: Line[]; histories: Message[][] }; // the messages before each line, and after the last

/** Estimates tokens from the characters of the JSON. */
export const tokensOf = (value: unknown): number => Math.round(JSON.stringify(value).length / 3);

function readRun(root: string, name: string): Run {
  const text = readFileSync(join(root, `tools/docs/runs/${name}.jsonl`), "utf8").trim();
  const lines: Line[] = text.split("\n").map((line) => JSON.parse(line));
  const histories: Message[][] = [[]];
  for (const { message, messages } of lines)
    histories.push(messages ?? [...(histories.at(-1) ?? []), ...(message ? [message] : [])]);
  return { lines, histories };
}

function promptOf({ message, messages, usage, state }: Line): Prompt | undefined {
  const counted = message?.role === "user" || messages ? undefined : (usage ?? state?.usage);
  const cached = counted?.cache_read_input_tokens ?? 0;
  return counted && { cached, tokens: cached + counted.input_tokens + (counted.cache_creation_input_tokens ?? 0) };
}

/** Returns each compaction that comes between two model calls. */
function rewritesIn({ lines, histories }: Run) {
  const calls = lines.flatMap((line, at) => ({ at, prompt: promptOf(line) })).filter(({ prompt }) => prompt);
  return lines.flatMap(({ messages: after }, i) => {
    const [last, next] = [calls.findLast(({ at }) => at < i), calls.find(({ at }) => at > i)];
    const before = histories[i] ?? [];
    if (!after || !last?.prompt || !next?.prompt) return [];
    const tokens = last.prompt.tokens + tokensOf(before.slice(histories[last.at]?.length));
    const cached = next.prompt.cached > 0 ? last.prompt.tokens : 0; // after a pause, nothing would have been
    return { before, after, prompts: { before: { tokens, cached }, after: next.prompt } };
  });
}

/** Returns the moments by name. */
export function momentsIn(root: string): Record<string, Moment> {
  const added = (title: string, lesson: string, text: string): Moment => {
    const { lines, histories } = readRun(root, lesson);
    const i = lines.findIndex(({ message }) => message?.role === "user" && JSON.stringify(message).includes(text));
    const skills = (lines[0]?.system?.match(/^- .*/gm) ?? []).map((content): Message => ({ role: "system", content }));
    const [before = [], after = []] = histories.slice(i, i + 2);
    return { title, before: [...skills, ...before], after: [...skills, ...after] };
  };
  const rewrites = rewritesIn(readRun(root, "s06"));
  const summary = rewrites.find(({ before, after }) => after.length < before.length);
  const cold = rewrites.findLast(({ prompts }) => prompts.after.cached === 0);
  if (!rewrites[0] || !summary || !cold) throw new Error("tools/docs/runs/s06.jsonl lacks a moment that a page draws");
  const task = added("Only a subagent's last text comes back", "s04", "tool_result");
  const child =
    readRun(root, "tasks/s04")
      .histories.at(-1)
      ?.map((message) => ({ ...message, isChild: true })) ?? [];
  return {
    s02_call: added("A call and its result", "s02", "tool_result"),
    s03_reminder: added("A reminder follows the results", "s03", "<reminder>"),
    s04_subagent: { ...task, before: [...task.before, ...child] },
    s05_skill: added("Descriptions come first, a body when it's called for", "s05", "<skill"),
    s06_layer1: { title: "Layer 1 clears an old result", ...rewrites[0] },
    s06_layer2: { title: "Layer 2 puts a summary in the place of messages", ...summary },
    s06_cold: { title: "After a pause, nothing is cached", ...cold },
  };
}
