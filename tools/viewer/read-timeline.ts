/** Reads a session file: which blocks were in the context at each request, and what each compaction took away. */
import type { Message, Rewrite, Step } from "../sessions/conversation.ts";
import { readConversation, textOf } from "../sessions/conversation.ts";
import { parseLine } from "../sessions/formats.ts";
import { CHARS_PER_TOKEN } from "../sessions/sizes.ts";
import { costOf, windowOf } from "./prices.ts";
import type { Block, Compaction, Extent, Fault, Kind, Missed, Moment, Side, Size, Timeline } from "./timeline.ts";
import { charsOf, largestOf, seriesFor, totalOf } from "./timeline.ts";

const MANY_TOOLS = 4; // with a colour of their own
/** Milliseconds that the prompt cache lives after a request. */
const CACHE_LIFE = 300_000;
/** Tokens: what is missed of the cache when nothing went wrong, too, is less. */
const LEAST_MISSED = 2_000;
/** Tokens: a prompt that grew less tells nothing about the characters in one. */
const LEAST_GROWN = 200;

// --- blocks ----------------------------------------------------------------------------------------------------------

type Draft = Omit<Block, "id">;

/** What stands in for another speaker in the user's name: `<task-notification>…</task-notification>`. */
const TAGGED = /<([a-z]+(?:-[a-z]+)+)\b[^>]*>[\s\S]*?(<\/\1>|$)|^\[Request interrupted.*/g;
const OPENING = /^\s*<([a-z-]+)[^>]*>\s*/;
const saidIn = (text: string) => text.replace(TAGGED, "").trim();

function isRequest({ role, parts, isMeta, isSummary, callId }: Message): boolean {
  const isOther = isMeta || isSummary || callId || parts.some(({ type }) => type === "tool_result");
  const isPicture = parts.some(({ type }) => type === "image" || type === "document");
  return role === "user" && !isOther && (isMeta === false || isPicture || saidIn(textOf(parts)) !== "");
}

function firstLine(text: string): string {
  const [line = ""] = text.trimStart().slice(0, 1_000).split("\n", 1);
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

function argumentsOf(input: Record<string, unknown>): string {
  const lines = Object.entries(input).map(([name, value]) => {
    return `${name}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`;
  });
  return lines.join("\n");
}

/** `calls` remembers the label of each call for its result. */
function toDraft(part: Message["parts"][number], message: Message, calls: Map<string, Draft>): Draft {
  const { role, isSummary, parts } = message;
  const draft = (kind: Kind, text: string): Draft => ({ kind, text, label: firstLine(text), chars: part.chars });
  const user = isRequest(message) ? "request" : "client";
  const said = role === "assistant" ? "reply" : user;
  if (part.type === "text") {
    const [, path] = (isSummary && part !== parts[0] && /^<file path="(.*?)"/.exec(part.text)) || [];
    if (path) return { ...draft("file", part.text), label: path };
    const label = firstLine(said === "client" ? part.text.replace(OPENING, "$1: ") : saidIn(part.text) || part.text);
    return { ...draft(isSummary ? "summary" : said, part.text), label };
  }
  if (part.type === "thinking") return draft("thinking", part.thinking);
  if (part.type === "tool_use") {
    const argument = Object.values(part.input).find((value) => typeof value === "string") ?? "";
    const label = `${part.name} ${firstLine(String(argument))}`;
    const call = { ...draft("call", argumentsOf(part.input)), tool: part.name, callId: part.id, label };
    calls.set(part.id, call);
    return call;
  }
  if (part.type === "tool_result") {
    const { tool = "?", label = "" } = calls.get(part.tool_use_id) ?? {};
    return { ...draft("result", textOf(part.content, "[image]")), tool, label, callId: part.tool_use_id };
  }
  return draft(said, part.type === "unknown" ? part.json : `[${part.type}]`);
}

// --- the context, step by step ---------------------------------------------------------------------------------------

/** A side of a compaction, with its tokens if the file has them. */
type Edge = Extent & { tokens?: number; charsPerToken?: number };
type Draw = Pick<Timeline, "blocks" | "epochs" | "requests"> & {
  compactions: (Omit<Compaction, "before" | "after"> & { before: Edge; after: Edge })[];
  moments: { extent: Extent; step: Message; sent?: number }[];
};

/** Blocks that say the same have one key. */
const keyOf = ({ kind, callId, text }: Draft) => (callId ? `${kind} ${callId}` : text);

/** Follows the context through the steps. */
function follow(steps: Step[]): Draw {
  const draw: Draw = { blocks: [], epochs: [[]], compactions: [], moments: [], requests: [] };
  const { blocks, epochs, moments } = draw;
  const calls = new Map<string, Draft>();
  let history = epochs[0] ?? [];
  let sent: number | undefined;
  let charsPerToken: number | undefined;
  const here = (): Extent => ({ epoch: epochs.length - 1, length: history.length });
  const blockOf = (id: number) => blocks[id] ?? [];
  const draftsOf = (message: Message) => message.parts.map((part) => toDraft(part, message, calls));
  function add(draft: Draft): number {
    blocks.push({ ...draft, id: blocks.length });
    return blocks.length - 1;
  }
  function begin(ids: number[], kept: number[], { trigger = "micro", time, ...rest }: Partial<Rewrite>): void {
    const before = { ...here(), tokens: rest.before, charsPerToken };
    const isResumed = trigger === "resume" && history.length === 0;
    history = ids;
    epochs.push(history);
    const after = { ...here(), tokens: rest.after, charsPerToken };
    const cost = costOf(rest.usage, rest.model);
    const isSummary = ids.some((id) => blocks[id]?.kind === "summary" && !kept.includes(id));
    if (!isResumed)
      draw.compactions.push({ moment: moments.length, trigger, time, before, after, kept, isSummary, cost });
  }
  for (const step of steps) {
    if (step.type === "clear") {
      const cleared = new Set<string | undefined>(step.callIds);
      const text = "[Old tool result content cleared]";
      const ids = history.flatMap(blockOf).map((block) => {
        const isCleared = block.kind === "result" && block.original === undefined && cleared.has(block.callId);
        const size = block.chars - block.text.length + text.length;
        return isCleared ? add({ ...block, text, chars: size, original: block.id }) : block.id;
      });
      const kept = ids.filter((id, i) => id === history[i]);
      begin(ids, kept, { time: step.time });
    } else if (step.type === "rewrite") {
      charsPerToken = step.charsPerToken ?? charsPerToken;
      const old = history.flatMap(blockOf);
      const known = new Map<string, Block[]>();
      for (const block of old) known.set(keyOf(block), [...(known.get(keyOf(block)) ?? []), block]);
      const kept: number[] = [];
      // A summary and what it puts back is new, also where it repeats a text.
      const drafts = step.messages.flatMap((message) =>
        draftsOf(message).map((draft) => ({ draft, isNew: message.isSummary })),
      );
      // From the end, since of texts that are there twice the newest is kept.
      const ids = drafts.reduceRight<number[]>((ids, { draft, isNew }) => {
        const same = isNew ? undefined : known.get(keyOf(draft))?.pop();
        const isKept = same?.kind === draft.kind && same.text === draft.text;
        if (isKept) kept.push(same.id);
        const original = draft.kind === "result" ? same?.id : undefined; // it was cleared
        const thought = same?.kind === "thinking" ? same.id : undefined;
        ids.push(isKept ? same.id : add({ ...draft, original, thought }));
        return ids;
      }, []);
      begin(ids.reverse(), kept, step);
    } else {
      if (step.role === "assistant") moments.push({ extent: here(), step, sent: sent ?? step.time });
      charsPerToken = step.charsPerToken ?? charsPerToken;
      sent = step.time ?? sent;
      for (const [i, draft] of draftsOf(step).entries()) {
        if (i === 0 && isRequest(step)) draw.requests.push({ moment: moments.length, block: blocks.length });
        history.push(add(draft));
      }
    }
  }
  return draw;
}

// --- sizes -----------------------------------------------------------------------------------------------------------

const KINDS: Kind[] = ["unexplained", "summary", "file", "request", "client", "reply", "thinking", "call"];

function seriesOf(blocks: Block[]): string[] {
  const tools = new Map<string, number>();
  for (const { kind, tool = "", chars } of blocks)
    if (kind === "result") tools.set(tool, (tools.get(tool) ?? 0) + chars);
  const names = [...tools].sort((a, b) => b[1] - a[1]).map(([name]) => `result:${name}`);
  const kinds = KINDS.filter((kind) => kind === "unexplained" || blocks.some((block) => block.kind === kind));
  return [...kinds, ...names.slice(0, MANY_TOOLS), ...(names.length > MANY_TOOLS ? ["result:"] : [])];
}

/** Characters of each series at each request. */
function charsBySeries({ blocks, epochs, moments }: Draw, series: string[]): number[][] {
  const places = blocks.map((block) => series.indexOf(seriesFor(block, series)));
  let sums: number[] = [];
  let last: Extent = { epoch: -1, length: 0 };
  return moments.map(({ extent }) => {
    const from = extent.epoch === last.epoch ? last.length : 0;
    if (from === 0) sums = series.map(() => 0);
    for (const id of epochs[extent.epoch]?.slice(from, extent.length) ?? []) {
      const place = places[id] ?? 0;
      sums[place] = (sums[place] ?? 0) + (blocks[id]?.chars ?? 0);
    }
    last = extent;
    return [...sums];
  });
}

const sumOf = (values: number[]) => values.reduce((sum, each) => sum + each, 0);

/** Characters per token: the median of what prompts grew by from one to the next. A few grow by what the file does not hold. */
function ratioOf(moments: Draw["moments"], chars: number[]): number {
  const ratios = moments.flatMap(({ extent, step }, i) => {
    const before = moments[i - 1];
    if (!step.usage || !before?.step.usage || before.extent.epoch !== extent.epoch) return [];
    const grown = totalOf(step.usage) - totalOf(before.step.usage);
    return grown > LEAST_GROWN ? ((chars[i] ?? 0) - (chars[i - 1] ?? 0)) / grown : [];
  });
  return medianOf(ratios) || CHARS_PER_TOKEN;
}

const medianOf = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Sizes that add up to `tokens`: what the blocks do not explain is not charged to them. Without a count, the blocks are all. */
function sizeFor(chars: number, charsPerToken: number, tokens = chars / charsPerToken): Size {
  const explained = chars / charsPerToken;
  if (explained <= tokens) return { tokens, unexplained: tokens - explained, charsPerToken };
  return { tokens, unexplained: 0, charsPerToken: chars / tokens };
}

/** Why the prompt before was not read from the cache, as far as this one still had room for it. */
function missedBy(before: Moment | undefined, now: Pick<Moment, "usage" | "model" | "gap" | "tokens">, isNew: boolean) {
  if (!before || !now.usage) return undefined;
  const tokens = Math.min(before.tokens, now.tokens) - now.usage.read;
  if (tokens < LEAST_MISSED) return undefined;
  const isLate = (now.gap ?? 0) > (before.usage?.isHour ? 12 : 1) * CACHE_LIFE;
  const why = now.model === before.model ? "changed" : "model";
  return { why: isNew ? "compaction" : isLate ? "pause" : why, tokens } satisfies Missed;
}

function toTimeline(draw: Draw) {
  const series = seriesOf(draw.blocks);
  const sums = charsBySeries(draw, series);
  const chars = sums.map(sumOf);
  const median = ratioOf(draw.moments, chars);
  let recorded: number | undefined;
  let last: number | undefined;
  let before: Moment | undefined;
  const moments = draw.moments.map(({ extent, step, sent }, i): Moment => {
    recorded = step.charsPerToken ?? recorded;
    const { time, model } = step;
    const gap = sent !== undefined && last !== undefined ? Math.max(0, sent - last) : undefined;
    last = sent ?? last;
    const size = sizeFor(chars[i] ?? 0, recorded ?? median, step.usage && totalOf(step.usage));
    const sizes = (sums[i] ?? []).map((sum, place) => (place === 0 ? size.unexplained : sum / size.charsPerToken));
    const written = sumOf(step.parts.map((part) => part.chars)) / size.charsPerToken;
    const isEstimate = step.usage !== undefined && !step.usage.isFinal && written > step.usage.output;
    const usage = step.usage && { ...step.usage, output: isEstimate ? Math.round(written) : step.usage.output };
    const missed = missedBy(before, { usage, model, gap, tokens: size.tokens }, extent.epoch !== before?.epoch);
    const request = draw.requests.findLastIndex(({ moment }) => moment <= i);
    const rest = { usage, isEstimate, model, cost: costOf(usage, model), missed, request };
    before = { ...extent, ...size, time, gap, sizes, ...rest };
    return before;
  });
  const isCounted = moments.some(({ usage }) => usage);
  const by: Timeline["source"]["by"] = isCounted ? "counted" : recorded ? "recorded" : "assumed";
  return { moments, series, source: { by, charsPerToken: recorded ?? median } };
}

// --- files -----------------------------------------------------------------------------------------------------------

function faultOf(text: string): Fault {
  if (text.trim() === "") return { fault: "empty" };
  if (/[\0\ufffd]/.test(text.slice(0, 4_000))) return { fault: "binary" };
  const isJson = [text, ...text.split("\n")].some((each) => typeof parseLine(each) === "object");
  return { fault: isJson ? "json" : "text" };
}

/** The limits that a transcript has; for Claude Code the window of its newest model. */
function limitsOf(steps: Step[], window?: number): Timeline["limits"] {
  if (window) return [{ tokens: window, source: "window" }];
  const recorded = new Set(steps.flatMap((step) => (step.type === "rewrite" ? (step.limit ?? []) : [])));
  return [...recorded].map((tokens) => ({ tokens, source: "recorded" }));
}

/** A side of a compaction as the file counts it; if it does not, by the model call beside it. */
function sideOf(draw: Draw, { tokens, charsPerToken, ...extent }: Edge, by: "before" | "next", beside?: Moment): Side {
  const ratio = charsPerToken ?? beside?.charsPerToken ?? CHARS_PER_TOKEN;
  const chars = charsOf(draw, extent);
  if (tokens !== undefined) return { ...extent, ...sizeFor(chars, ratio, tokens), by: "file" };
  if (by === "next" && beside?.usage && beside.epoch === extent.epoch) return { ...beside, by };
  return { ...extent, ...sizeFor(chars, ratio, chars / ratio + (beside?.unexplained ?? 0)), by: "estimate" };
}

/** @returns the timeline of a session of Claude Code or a transcript of s06; a fault if the file is neither */
export function readTimeline(text: string, name: string): Timeline | Fault {
  const { format, steps, skipped } = readConversation(text);
  if (steps.length === 0) return faultOf(text);
  const draw = follow(steps);
  const { blocks, epochs, requests } = draw;
  const { moments, series, source } = toTimeline(draw);
  const compactions = draw.compactions.map(({ before, after, ...rest }): Compaction => {
    const [last, next] = [moments[rest.moment - 1], moments[rest.moment]];
    return { ...rest, before: sideOf(draw, before, "before", last), after: sideOf(draw, after, "next", next ?? last) };
  });
  const window = format === "Claude Code" ? windowOf(moments.at(-1)?.model, largestOf({ moments })) : undefined;
  const limits = limitsOf(steps, window);
  return { name, format, blocks, epochs, moments, compactions, requests, series, limits, source, skipped };
}
