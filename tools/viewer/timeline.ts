/** Reads a session file: which blocks were in the context at each request, and what each compaction took away. */
import {
  Block as BlockSchema,
  ClaudeLine,
  IMAGE,
  isReply,
  newestBranch,
  OwnLine,
  parseLine,
  replyId,
} from "../bench/formats.ts";
import {
  type Block,
  type Compaction,
  type Extent,
  type Fault,
  type Kind,
  largestOf,
  type Moment,
  type Skipped,
  seriesFor,
  type Timeline,
  totalOf,
  type Usage,
} from "./model.ts";

/** As the bench assumes where nothing was counted. */
const CHARS_PER_TOKEN = 3;
const WRAPPER = 30; // characters of {"role":"user","content":[]} and its comma
const MOST_STEPS = 100_000; // that are followed to find a limit
const MANY_TOOLS = 4; // with a colour of their own
/** Milliseconds that the prompt cache lives after a request. */
const CACHE_LIFE = 300_000;

// --- blocks ----------------------------------------------------------------------------------------------------------

type Draft = Omit<Block, "id">;
type Content = { role: "user" | "assistant"; content?: string | unknown[] | null };

const isImage = (value: unknown) => /^(image|document)$/.test(Object(value).type);
const charsOf = (value: unknown) => JSON.stringify(value, (_, part) => (isImage(part) ? IMAGE : part))?.length ?? 0;
const firstLine = (text: string) => text.trimStart().slice(0, 120).split("\n", 1)[0] ?? "";
const partsOf = ({ content }: Content) =>
  (typeof content === "string" ? [{ type: "text", text: content }] : content) ?? [];

function textIn(content: string | unknown[] | null | undefined): string {
  const texts = partsOf({ role: "user", content }).map((part) => (isImage(part) ? "[image]" : Object(part).text));
  return texts.filter((text) => typeof text === "string").join("\n");
}

function argumentsOf(input: Record<string, unknown>): string {
  const lines = Object.entries(input).map(([name, value]) => {
    return `${name}: ${typeof value === "string" ? value : JSON.stringify(value, null, 2)}`;
  });
  return lines.join("\n");
}

/** The blocks of a message. `calls` remembers the label of each call for its result. */
function draftsOf(message: Content, calls: Map<string, Draft>): Draft[] {
  const parts = partsOf(message);
  const isCompacted = message.role === "user" && /^\[Conversation compressed\./.test(Object(parts[0]).text);
  const drafts = parts.map((part): Draft => {
    const block = BlockSchema.safeParse(part).data;
    const chars = charsOf(part);
    const draft = (kind: Kind, text: string): Draft => ({ kind, text, label: firstLine(text), chars });
    if (block?.type === "text") {
      if (message.role === "assistant") return draft("reply", block.text);
      if (!isCompacted) return draft("request", block.text);
      const [, path] = /^<file path="(.*?)"/.exec(block.text) ?? [];
      return path ? { ...draft("file", block.text), label: path } : draft("summary", block.text);
    }
    if (block?.type === "thinking") return draft("thinking", block.thinking);
    if (block?.type === "tool_use") {
      const argument = Object.values(block.input).find((value) => typeof value === "string") ?? "";
      const call = { ...draft("call", argumentsOf(block.input)), tool: block.name, callId: block.id };
      calls.set(block.id, { ...call, label: `${block.name} ${firstLine(String(argument))}` });
      return calls.get(block.id) ?? call;
    }
    if (block?.type === "tool_result") {
      const { tool = "?", label = "" } = calls.get(block.tool_use_id) ?? {};
      return { ...draft("result", textIn(block.content)), tool, label, callId: block.tool_use_id };
    }
    const kind = message.role === "assistant" ? "reply" : "request";
    return draft(kind, block ? `[${block.type}]` : (JSON.stringify(part) ?? ""));
  });
  if (drafts[0]) drafts[0].chars += WRAPPER;
  return drafts;
}

// --- steps: what happened to the context, in the order of the file ----------------------------------------------------

type Said = {
  type: "message";
  role: "user" | "assistant";
  drafts: Draft[];
  time?: number;
  charsPerToken?: number;
  usage?: Usage;
};
type Rewrite = {
  type: "rewrite";
  trigger: string;
  drafts: Draft[];
  time?: number;
  before?: number;
  after?: number;
  charsPerToken?: number;
};
type Clear = { type: "clear"; ids: Set<string>; time?: number };
type Step = Said | Rewrite | Clear;

function stepsOfOwn(lines: OwnLine[]): Step[] {
  const calls = new Map<string, Draft>();
  return lines.map((line): Step => {
    if ("role" in line) return { ...line, type: "message", drafts: draftsOf(line, calls) };
    return { ...line, type: "rewrite", drafts: line.messages.flatMap((message) => draftsOf(message, calls)) };
  });
}

function usageOf(message: ClaudeLine["message"]): Usage | undefined {
  const { usage } = message ?? {};
  if (!usage) return undefined;
  const [input, output] = [usage.input_tokens, usage.output_tokens];
  const [read, written] = [usage.cache_read_input_tokens ?? 0, usage.cache_creation_input_tokens ?? 0];
  const isHour = (usage.cache_creation?.ephemeral_1h_input_tokens ?? 0) > 0;
  return input + read + written > 0 ? { input, output, read, written, isHour } : undefined; // some servers report none
}

function stepsOfClaude(all: ClaudeLine[], count: (reason: string) => void): Step[] {
  const steps: Step[] = [];
  const calls = new Map<string, Draft>();
  const replies = new Map<string | undefined, Said>();
  const draftsByLine = new Map<string | undefined, Draft[]>();
  const branch = newestBranch(all, count);
  const inBranch = new Set(branch);
  let boundary: ClaudeLine["compactMetadata"];
  for (const line of all) {
    const time = Date.parse(line.timestamp ?? "") || undefined;
    if (line.compactMetadata && !line.isSidechain) boundary = line.compactMetadata;
    if (line.microcompactMetadata && !line.isSidechain) {
      steps.push({ type: "clear", ids: new Set(line.microcompactMetadata.compactedToolIds), time });
    }
    if (!line.message || !inBranch.has(line)) continue;
    if (line.isApiErrorMessage || line.message.model === "<synthetic>") {
      count("reply of the client");
      continue;
    }
    const drafts = draftsOf(line.message, calls);
    draftsByLine.set(line.uuid, drafts);
    const usage = usageOf(line.message);
    const begun = isReply(line) ? replies.get(replyId(line)) : undefined;
    if (line.isCompactSummary) {
      const { trigger = "auto", preservedMessages } = boundary ?? {};
      const kept = (preservedMessages?.uuids ?? []).flatMap((uuid) => draftsByLine.get(uuid) ?? []);
      const summary = drafts.map((draft): Draft => ({ ...draft, kind: "summary" }));
      steps.push({ type: "rewrite", trigger, drafts: [...summary, ...kept], time });
    } else if (begun) {
      begun.drafts.push(...drafts);
      if (usage && begun.usage) begun.usage.output = Math.max(usage.output, begun.usage.output); // the last line has it all
    } else {
      const step: Said = { type: "message", role: line.message.role, drafts, time, usage };
      steps.push(step);
      if (isReply(line)) replies.set(replyId(line), step);
    }
  }
  return steps;
}

// --- the context, step by step ---------------------------------------------------------------------------------------

type Draw = Pick<Timeline, "blocks" | "epochs" | "compactions"> & {
  moments: { extent: Extent; step: Said; sent?: number; chars: number; estimate: number }[];
  /** How far the size recorded at each compaction is from the size of the blocks: 0.1 is a tenth. */
  errors: number[];
};

/** Two blocks with one key say the same. Thinking may have become text; of a long text its ends and its length tell. */
function keyOf({ kind, callId = "", text }: Draft): string {
  const ends = `${text.length} ${text.slice(0, 500)} ${text.slice(-500)}`;
  return kind === "call" ? callId : `${kind === "result" ? callId : ""} ${ends}`;
}

/**
 * Follows the context through the steps. `system`: characters of the system prompt and the tools. Past `limit` tokens old
 * results are cleared as in layer 1 of s06, which leaves no line in the transcript.
 */
function follow(steps: Step[], system: number, limit = Infinity): Draw {
  const draw: Draw = { blocks: [], epochs: [[]], compactions: [], moments: [], errors: [] };
  const { blocks, epochs, moments } = draw;
  let history = epochs[0] ?? [];
  let chars = 0;
  let beforeReply = 0; // blocks before the newest reply
  let sent: number | undefined;
  let charsPerToken = CHARS_PER_TOKEN;
  const here = (): Extent => ({ epoch: epochs.length - 1, length: history.length });
  const blockOf = (id: number) => blocks[id] ?? [];
  function add(draft: Draft): number {
    blocks.push({ ...draft, id: blocks.length });
    return blocks.length - 1;
  }
  function begin(ids: number[], trigger: string, kept: number[], more: Partial<Rewrite> = {}): void {
    const before = { ...here(), tokens: more.before ?? (system + chars) / charsPerToken };
    const isFirst = history.length === 0;
    history = ids;
    chars = ids.flatMap(blockOf).reduce((sum, block) => sum + block.chars, 0);
    epochs.push(history);
    beforeReply = 0;
    const after = { ...here(), tokens: more.after ?? (system + chars) / charsPerToken };
    if (!isFirst) draw.compactions.push({ moment: moments.length, trigger, time: more.time, before, after, kept });
  }
  /** Replaces results by the line that is left of each, and thinking by its text. */
  function clear(lineFor: (block: Block) => string | undefined, time?: number): void {
    const kept: number[] = [];
    const ids = history.flatMap(blockOf).flatMap((block) => {
      const text = lineFor(block);
      if (text)
        return add({ ...block, text, chars: block.chars - block.text.length + text.length, original: block.id });
      const isThinking = block.kind === "thinking";
      if (isThinking && !block.text.trim()) return [];
      const id = isThinking ? add({ ...block, kind: "reply", chars: block.text.length + WRAPPER }) : block.id;
      kept.push(block.id, id);
      return id;
    });
    begin(ids, "micro", kept, { time });
  }
  /** As microCompact of s06 does it. */
  function clearPastLimit(time?: number): void {
    const answered = history.slice(0, beforeReply).flatMap(blockOf);
    const old = answered.filter(({ kind }) => kind === "result").slice(0, -3);
    const lines = new Map(
      old.flatMap(({ id, text, tool }): [number, string][] => {
        const [place = ""] = /^Output too large\. Saved to: .*$/m.exec(text) ?? [];
        const line = `[Previous: used ${tool}]\n${place}`.trim();
        return text.length <= Math.max(100, line.length) || tool === "load_skill" ? [] : [[id, line]];
      }),
    );
    const saved = old.reduce((sum, { id, text }) => sum + text.length - (lines.get(id) ?? text).length, 0);
    if (lines.size > 0 && saved / charsPerToken >= 0.4 * limit) clear(({ id }) => lines.get(id), time);
  }
  for (const step of steps) {
    if (step.type === "clear") {
      clear(({ callId = "", kind, original }) => {
        const isOld = kind === "result" && original === undefined && step.ids.has(callId);
        return isOld ? "[Old tool result content cleared]" : undefined;
      }, step.time);
      continue;
    }
    if (step.type === "rewrite") {
      charsPerToken = step.charsPerToken ?? charsPerToken;
      if (step.before && step.charsPerToken && step.trigger !== "micro") {
        draw.errors.push(Math.abs((system + chars) / (step.before * step.charsPerToken) - 1));
      }
      const old = history.flatMap(blockOf);
      const known = new Map(old.map((block) => [keyOf(block), block]));
      const results = new Map(
        old.flatMap((block) => (block.kind === "result" ? [[block.callId, block] as const] : [])),
      );
      const kept: number[] = [];
      const ids = step.drafts.map((draft) => {
        const same = known.get(keyOf(draft));
        if (same) kept.push(same.id);
        if (same?.kind === draft.kind) return same.id;
        const id = add(draft.kind === "result" ? { ...draft, original: results.get(draft.callId)?.id } : draft);
        if (same) kept.push(id);
        return id;
      });
      begin(ids, step.trigger, kept, step);
      continue;
    }
    if (step.role === "assistant") {
      const estimate = () => (system + chars) / charsPerToken;
      if (estimate() > limit) clearPastLimit(sent);
      moments.push({ extent: here(), step, sent: sent ?? step.time, chars, estimate: estimate() });
      beforeReply = history.length;
    }
    charsPerToken = step.charsPerToken ?? charsPerToken;
    sent = step.time ?? sent;
    for (const draft of step.drafts) {
      history.push(add(draft));
      chars += draft.chars;
    }
  }
  return draw;
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);

type Followed = { draw: Draw; limit?: number; isUnclear?: boolean };

/**
 * If the context was smaller at a compaction than its blocks, layer 1 cleared old results before. Tries limits on the part
 * up to the next compaction, and the best of them on all: which one explains the sizes? `isUnclear`: none does.
 */
function followOwn(steps: Step[], system: number): Followed {
  const draw = follow(steps, system);
  if (mean(draw.errors) < 0.02) return { draw };
  const automatic = steps.flatMap((step) =>
    step.type === "rewrite" && step.trigger === "auto" ? (step.before ?? []) : [],
  );
  const first = draw.errors.findIndex((error) => error > 0.02);
  const rewrites = steps.flatMap((step, i) => (step.type === "rewrite" ? [i] : []));
  const part = steps.slice(0, (rewrites[first + 1] ?? steps.length) + 1);
  const largest = Math.max(...follow(steps.slice(0, rewrites[first]), system).moments.map(({ estimate }) => estimate));
  const most = Math.min(largest, ...automatic); // an automatic compaction happens past the limit
  const each = 1_000 * Math.ceil((most / 1_000) * (part.length / MOST_STEPS)); // limits are round numbers
  const limits = Array.from({ length: Math.floor(most / each) }, (_, i) => each * (i + 1));
  const trials = limits.map((limit) => ({ limit, error: mean(follow(part, system, limit).errors) }));
  const least = Math.min(...trials.map(({ error }) => error));
  const good = trials.filter(({ error }) => error < least + 0.005).slice(0, 5);
  const found = good.map(({ limit }) => ({ limit, draw: follow(steps, system, limit) }));
  const [best] = found.sort((a, b) => mean(a.draw.errors) - mean(b.draw.errors));
  return best && mean(best.draw.errors) < 0.05 ? best : { draw, isUnclear: true };
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

/** Characters of each series at each request: the blocks of an epoch are added up once. */
function charsBySeries({ blocks, epochs, moments }: Draw, series: string[]): number[][] {
  const places = blocks.map((block) => series.indexOf(seriesFor(block, series)));
  let epoch = -1;
  let length = 0;
  let sums: number[] = [];
  return moments.map(({ extent }) => {
    if (extent.epoch !== epoch) {
      sums = series.map(() => 0);
      length = 0;
      epoch = extent.epoch;
    }
    for (const id of epochs[epoch]?.slice(length, extent.length) ?? []) {
      const place = places[id] ?? 0;
      sums[place] = (sums[place] ?? 0) + (blocks[id]?.chars ?? 0);
    }
    length = extent.length;
    return [...sums];
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

function toTimeline(draw: Draw, system: number) {
  const series = seriesOf(draw.blocks);
  const sums = charsBySeries(draw, series);
  const isCounted = draw.moments.some(({ step }) => step.usage);
  const counted = sizesBy(draw, ratioOf(draw));
  let recorded: number | undefined;
  let last: number | undefined;
  const moments = draw.moments.map(({ extent, step, sent, chars }, i): Moment => {
    recorded = step.charsPerToken ?? recorded;
    const { usage, time } = step;
    const gap = sent !== undefined && last !== undefined ? Math.max(0, sent - last) : undefined;
    last = sent ?? last;
    const isCold = (gap ?? 0) > (usage?.isHour ? 12 : 1) * CACHE_LIFE;
    const ratio = recorded ?? CHARS_PER_TOKEN;
    const size = isCounted ? counted(chars, usage) : { tokens: (system + chars) / ratio, system: system / ratio };
    const charsPerToken = chars > 0 && size.tokens > size.system ? chars / (size.tokens - size.system) : ratio;
    const sizes = (sums[i] ?? []).map((sum, place) => (place === 0 ? size.system : sum / charsPerToken));
    return { ...extent, ...size, time, gap, isCold, charsPerToken, sizes, usage };
  });
  const ratios = moments.map((moment) => moment.charsPerToken).sort((a, b) => a - b);
  const by: Timeline["source"]["by"] = isCounted ? "counted" : recorded ? "recorded" : "assumed";
  const share = (part: number) => ratios[Math.floor(part * (ratios.length - 1))] ?? 0;
  const range: [number, number] = [share(0.1), share(0.9)];
  return { moments, series, source: { by, charsPerToken: range, isSystemKnown: isCounted || system > 0 } };
}

// --- files -----------------------------------------------------------------------------------------------------------

function faultOf(text: string, lines: { value: unknown }[]): Fault {
  if (text.trim() === "") return { fault: "empty" };
  if (/[\0\ufffd]/.test(text.slice(0, 4_000))) return { fault: "binary" };
  const isJson = lines.some(({ value }) => typeof value === "object") || parseLine(text) !== undefined;
  return { fault: isJson ? "json" : "text" };
}

/** @returns the timeline of a session of Claude Code or a transcript of s06; a fault if the file is neither */
export function readTimeline(text: string, name: string): Timeline | Fault {
  const skipped = new Map<string, Skipped>();
  const count = (reason: string, line?: number) => {
    const entry = skipped.get(reason) ?? { reason, count: 0, lines: [] };
    entry.count++;
    if (line !== undefined && entry.lines.length < 10) entry.lines.push(line);
    skipped.set(reason, entry);
  };
  const lines = text.split("\n").flatMap((line, i) => (line.trim() ? [{ number: i + 1, value: parseLine(line) }] : []));
  const own = lines.map(({ value }) => OwnLine.safeParse(value).data);
  const isOwn = own.some((line) => line !== undefined);
  const claude = isOwn ? [] : lines.map(({ value }) => ClaudeLine.safeParse(value).data);
  for (const [i, line] of (isOwn ? own : claude).entries()) if (!line) count("broken line", lines[i]?.number);
  const ownLines = own.filter((line) => line !== undefined);
  const claudeLines = claude.filter((line) => line !== undefined);
  const steps = isOwn ? stepsOfOwn(ownLines) : stepsOfClaude(claudeLines, count);
  if (steps.length === 0) return faultOf(text, lines);

  let system = 0;
  for (const line of ownLines) {
    if ("role" in line || !line.after || !line.charsPerToken) continue;
    system = Math.max(0, line.after * line.charsPerToken - charsOf(line.messages));
    break;
  }
  const { draw, limit, isUnclear = false }: Followed = isOwn ? followOwn(steps, system) : { draw: follow(steps, 0) };
  const { moments, series, ...by } = toTimeline(draw, system);
  const source = { ...by.source, isUnclear };
  const compactions = draw.compactions.map(({ moment, before, after, ...rest }): Compaction => {
    // Of a session of Claude Code the requests on both sides are counted.
    const [last, next] = isOwn ? [] : [moments[moment - 1]?.tokens, moments[moment]?.tokens];
    return {
      ...{ ...rest, moment },
      before: { ...before, tokens: last ?? before.tokens },
      after: { ...after, tokens: next ?? after.tokens },
    };
  });
  const largest = largestOf({ moments });
  const window = largest > 200_000 ? 1_000_000 : 200_000;
  const limits: Timeline["limits"] = limit ? [{ tokens: limit, source: "inferred" }] : [];
  if (!isOwn && largest > 0.5 * window) limits.push({ tokens: window, source: "window" });
  const format = isOwn ? "s06" : "Claude Code";
  const { blocks, epochs } = draw;
  return { name, format, blocks, epochs, moments, compactions, series, limits, source, skipped: [...skipped.values()] };
}
