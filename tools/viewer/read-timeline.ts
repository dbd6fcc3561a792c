/** Reads a session file: which blocks were in the context at each request, and what each compaction took away. */
import type { Conversation, Message, Rewrite, Step, Usage } from "../sessions/conversation.ts";
import { readConversation, textOf } from "../sessions/conversation.ts";
import { parseLine } from "../sessions/formats.ts";
import { CHARS_PER_TOKEN } from "../sessions/sizes.ts";
import { costOf, windowOf } from "./prices.ts";
import type { Block, Compaction, Extent, Fault, Kind, Missed, Moment, Side, Timeline } from "./timeline.ts";
import { blocksAt, largestOf, seriesFor, totalOf } from "./timeline.ts";

const MANY_TOOLS = 4; // with a colour of their own
/** Milliseconds that the prompt cache lives after a request. */
const CACHE_LIFE = 300_000;
/** Tokens: shorter prompts are not cached. */
const LEAST_CACHED = 512;

// --- blocks ----------------------------------------------------------------------------------------------------------

type Draft = Omit<Block, "id">;

const firstLine = (text: string) => text.trimStart().slice(0, 120).split("\n", 1)[0] ?? "";

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
  const said = role === "assistant" ? "reply" : "request";
  if (part.type === "text") {
    const [, path] = (isSummary && part !== parts[0] && /^<file path="(.*?)"/.exec(part.text)) || [];
    return path ? { ...draft("file", part.text), label: path } : draft(isSummary ? "summary" : said, part.text);
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

/** A side of a compaction, with its tokens if the transcript has them. */
type Edge = Extent & { tokens?: number; charsPerToken: number };
type Draw = Pick<Timeline, "blocks" | "epochs" | "requests"> & {
  compactions: (Omit<Compaction, "before" | "after"> & { before: Edge; after: Edge })[];
  moments: { extent: Extent; step: Message; sent?: number; chars: number }[];
};

/** Blocks that say the same have one key. */
const keyOf = ({ kind, callId, text }: Draft) => (callId ? `${kind} ${callId}` : text);

/** What the client writes in the user's name. */
const CLIENT = /^\s*(<(local-command|command-|system-reminder|bash-|task-notification)|\[Request interrupted)/;

function isRequest({ role, parts, isMeta, isSummary, callId }: Message): boolean {
  const isOther = isMeta || isSummary || callId || parts.some(({ type }) => type === "tool_result");
  return role === "user" && !isOther && !CLIENT.test(textOf(parts));
}

/** Follows the context through the steps. */
function follow(steps: Step[]): Draw {
  const draw: Draw = { blocks: [], epochs: [[]], compactions: [], moments: [], requests: [] };
  const { blocks, epochs, moments } = draw;
  const calls = new Map<string, Draft>();
  let history = epochs[0] ?? [];
  let chars = 0;
  let sent: number | undefined;
  let charsPerToken = CHARS_PER_TOKEN;
  const here = (): Extent => ({ epoch: epochs.length - 1, length: history.length });
  const blockOf = (id: number) => blocks[id] ?? [];
  const draftsOf = (message: Message) => message.parts.map((part) => toDraft(part, message, calls));
  function add(draft: Draft): number {
    blocks.push({ ...draft, id: blocks.length });
    return blocks.length - 1;
  }
  function begin(ids: number[], kept: number[], { trigger = "micro", time, ...rest }: Partial<Rewrite>): void {
    const before = { ...here(), tokens: rest.before, charsPerToken };
    const isFirst = history.length === 0;
    history = ids;
    chars = ids.flatMap(blockOf).reduce((sum, block) => sum + block.chars, 0);
    epochs.push(history);
    const after = { ...here(), tokens: rest.after, charsPerToken };
    const cost = costOf(rest.usage, rest.model);
    if (!isFirst) draw.compactions.push({ moment: moments.length, trigger, time, before, after, kept, cost });
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
      // What a summary begins with is new, also where it repeats a text.
      const news = step.summary === undefined ? 0 : step.messages.length - (step.kept ?? 0);
      const firstOld = step.messages.slice(0, news).flatMap(({ parts }) => parts).length;
      // From the end, since of texts that are there twice the newest is kept.
      const ids = step.messages.flatMap(draftsOf).reduceRight<number[]>((ids, draft, i) => {
        const same = i < firstOld ? undefined : known.get(keyOf(draft))?.pop();
        const isKept = same?.kind === draft.kind && same.text === draft.text;
        if (isKept) kept.push(same.id);
        const isCleared = draft.kind === "result" && (step.cleared?.includes(draft.callId ?? "") ?? true);
        const original = isCleared ? same?.id : undefined;
        const thought = same?.kind === "thinking" ? same.id : undefined;
        ids.push(isKept ? same.id : add({ ...draft, original, thought }));
        return ids;
      }, []);
      begin(ids.reverse(), kept, step);
    } else {
      if (step.role === "assistant") moments.push({ extent: here(), step, sent: sent ?? step.time, chars });
      charsPerToken = step.charsPerToken ?? charsPerToken;
      sent = step.time ?? sent;
      for (const [i, draft] of draftsOf(step).entries()) {
        if (i === 0 && isRequest(step)) draw.requests.push({ moment: moments.length, block: blocks.length });
        history.push(add(draft));
        chars += draft.chars;
      }
    }
  }
  return draw;
}

// --- sizes -----------------------------------------------------------------------------------------------------------

const KINDS: Kind[] = ["system", "summary", "file", "request", "reply", "thinking", "call"];

function seriesOf(blocks: Block[]): string[] {
  const tools = new Map<string, number>();
  for (const { kind, tool = "", chars } of blocks)
    if (kind === "result") tools.set(tool, (tools.get(tool) ?? 0) + chars);
  const names = [...tools].sort((a, b) => b[1] - a[1]).map(([name]) => `result:${name}`);
  const kinds = KINDS.filter((kind) => kind === "system" || blocks.some((block) => block.kind === kind));
  return [...kinds, ...names.slice(0, MANY_TOOLS), ...(names.length > MANY_TOOLS ? ["result:"] : [])];
}

/** Characters of each series at each request. */
function charsBySeries({ blocks, epochs, moments }: Draw, series: string[]): number[][] {
  const places = blocks.map((block) => series.indexOf(seriesFor(block, series)));
  return moments.map(({ extent }) => {
    const sums = series.map(() => 0);
    for (const id of epochs[extent.epoch]?.slice(0, extent.length) ?? []) {
      const place = places[id] ?? 0;
      sums[place] = (sums[place] ?? 0) + (blocks[id]?.chars ?? 0);
    }
    return sums;
  });
}

/** Characters per token by what the prompt grew while the blocks grew, up to the first compaction. */
function ratioOf({ moments }: Draw): number {
  const first = moments.filter(({ step, extent }) => step.usage && extent.epoch === moments[0]?.extent.epoch);
  const [from, to] = [first[0], first.at(-1)];
  if (!from?.step.usage || !to?.step.usage) return CHARS_PER_TOKEN;
  const ratio = (to.chars - from.chars) / (totalOf(to.step.usage) - totalOf(from.step.usage));
  return to.chars - from.chars > 5_000 && ratio > 1.5 && ratio < 8 ? ratio : CHARS_PER_TOKEN;
}

/** Sizes by what was counted: what the blocks of the first prompt leave unexplained is the system prompt and the tools. */
function sizesBy({ moments }: Draw, ratio: number) {
  const first = moments.find(({ step }) => step.usage);
  const base = first?.step.usage ? Math.max(0, totalOf(first.step.usage) - first.chars / ratio) : 0;
  return (chars: number, usage?: Usage): { tokens: number; system: number } => {
    const estimate = base + chars / ratio;
    const tokens = usage ? totalOf(usage) : estimate;
    const isSmaller = tokens - base < (0.5 * chars) / ratio; // the system prompt must be another one now
    return { tokens, system: isSmaller ? (base * tokens) / estimate : base };
  };
}

/** Why a prompt was not read from the cache, at least half of what the prompt before it left there. */
function missedBy(before: Moment | undefined, now: Pick<Moment, "usage" | "model" | "gap">, isNew: boolean) {
  const isLate = (now.gap ?? 0) > (before?.usage?.isHour ? 12 : 1) * CACHE_LIFE;
  const tokens = (before?.tokens ?? 0) - (now.usage?.read ?? 0);
  const isMissed = now.usage ? now.usage.read < 0.5 * (before?.tokens ?? 0) : isLate;
  if (!before || !isMissed || tokens < LEAST_CACHED) return undefined;
  const why = now.model === before.model ? "changed" : "model";
  return { why: isNew ? "compaction" : isLate ? "pause" : why, tokens } satisfies Missed;
}

function toTimeline(draw: Draw, system: number) {
  const series = seriesOf(draw.blocks);
  const sums = charsBySeries(draw, series);
  const isCounted = draw.moments.some(({ step }) => step.usage);
  const counted = sizesBy(draw, ratioOf(draw));
  let recorded: number | undefined;
  let last: number | undefined;
  let before: Moment | undefined;
  const moments = draw.moments.map(({ extent, step, sent, chars }, i): Moment => {
    recorded = step.charsPerToken ?? recorded;
    const { time, model } = step;
    const gap = sent !== undefined && last !== undefined ? Math.max(0, sent - last) : undefined;
    last = sent ?? last;
    const ratio = recorded ?? CHARS_PER_TOKEN;
    const size = isCounted ? counted(chars, step.usage) : { tokens: (system + chars) / ratio, system: system / ratio };
    const charsPerToken = chars > 0 && size.tokens > size.system ? chars / (size.tokens - size.system) : ratio;
    const sizes = (sums[i] ?? []).map((sum, place) => (place === 0 ? size.system : sum / charsPerToken));
    const written = step.parts.reduce((sum, part) => sum + part.chars, 0) / charsPerToken;
    const isEstimate = step.usage !== undefined && !step.usage.isFinal && written > step.usage.output;
    const usage = step.usage && { ...step.usage, output: isEstimate ? Math.round(written) : step.usage.output };
    const missed = missedBy(before, { usage, model, gap }, extent.epoch !== before?.epoch);
    const request = draw.requests.findLastIndex(({ moment }) => moment <= i);
    const rest = { usage, isEstimate, model, cost: costOf(usage, model), missed, request };
    before = { ...extent, ...size, time, gap, charsPerToken, sizes, ...rest };
    return before;
  });
  const ratios = moments.map((moment) => moment.charsPerToken).sort((a, b) => a - b);
  const by: Timeline["source"]["by"] = isCounted ? "counted" : recorded ? "recorded" : "assumed";
  const share = (part: number) => ratios[Math.floor(part * (ratios.length - 1))] ?? 0;
  const range: [number, number] = [share(0.1), share(0.9)];
  return { moments, series, source: { by, charsPerToken: range, isSystemKnown: isCounted || system > 0 } };
}

// --- files -----------------------------------------------------------------------------------------------------------

function faultOf(text: string): Fault {
  if (text.trim() === "") return { fault: "empty" };
  if (/[\0\ufffd]/.test(text.slice(0, 4_000))) return { fault: "binary" };
  const isJson = [text, ...text.split("\n")].some((each) => typeof parseLine(each) === "object");
  return { fault: isJson ? "json" : "text" };
}

/** Characters of the system prompt and the tools: what the first compaction of a transcript leaves unexplained. */
function systemOf(steps: Step[]): number {
  for (const step of steps) {
    if (step.type !== "rewrite" || !step.after || !step.charsPerToken) continue;
    const parts = step.messages.flatMap((message) => message.parts);
    return Math.max(0, step.after * step.charsPerToken - parts.reduce((sum, { chars }) => sum + chars, 0));
  }
  return 0;
}

function limitsOf({ steps }: Conversation, largest: number, window = Infinity): Timeline["limits"] {
  const recorded = new Set(steps.flatMap((step) => (step.type === "rewrite" ? (step.limit ?? []) : [])));
  const limits = [...recorded].map((tokens) => ({ tokens, source: "recorded" as const }));
  return largest <= 0.5 * window ? limits : [{ tokens: window, source: "window" }];
}

/** @returns the timeline of a session of Claude Code or a transcript of s06; a fault if the file is neither */
export function readTimeline(text: string, name: string): Timeline | Fault {
  const conversation = readConversation(text);
  const { format, steps, skipped } = conversation;
  if (steps.length === 0) return faultOf(text);
  const system = systemOf(steps);
  const draw = follow(steps);
  const { blocks, epochs, requests } = draw;
  const { moments, series, source } = toTimeline(draw, system);
  /** As the transcript counted; a session of Claude Code by the model call beside it. */
  const toSide = ({ tokens, ...edge }: Edge, moment?: Moment): Side => {
    const by = format === "Claude Code" ? moment : undefined;
    const charsPerToken = by?.charsPerToken ?? edge.charsPerToken;
    const shown = blocksAt({ blocks, epochs }, edge).reduce((sum, { chars }) => sum + chars, 0) / charsPerToken;
    const rest = tokens === undefined ? (by?.system ?? system / charsPerToken) : Math.max(0, tokens - shown);
    return { ...edge, charsPerToken, system: rest, tokens: shown + rest };
  };
  const compactions = draw.compactions.map(({ before, after, ...rest }): Compaction => {
    const [last, next] = [moments[rest.moment - 1], moments[rest.moment]];
    return { ...rest, before: toSide(before, last ?? next), after: toSide(after, next ?? last) };
  });
  const largest = largestOf({ moments });
  const window = format === "Claude Code" ? windowOf(moments.at(-1)?.model, largest) : undefined;
  const limits = limitsOf(conversation, largest, window);
  return { name, format, blocks, epochs, moments, compactions, requests, window, series, limits, source, skipped };
}
