/** Draws a moment as one list of messages: what stayed, what went, and what came. */
import { diffArrays } from "diff";
import { type Block, textOf } from "../trace/events.ts";
import { sum, whole } from "../trace/numbers.ts";
import { type Moment, momentsIn, type Prompt, type ShownMessage, tokensOf } from "./moments.ts";

type State = "kept" | "gone" | "new" | "short" | "prompt";
/** A short row is a result that is only a line now. `was` is its size before. */
type Sizes = { tokens: number; was?: number; cached?: number };
type Row = Sizes & { id: string; who: string; text: string; state: State; isChild?: boolean };

const onOneLine = (value: unknown) =>
  `${typeof value === "string" ? value : JSON.stringify(value)}`.replace(/\s+/g, " ");

function rowOf(block: Block, { role, isChild }: ShownMessage): Row {
  const row = { who: role, tokens: tokensOf([block]), state: "kept" as const, isChild };
  if (block.kind === "result") return { ...row, who: "result", id: block.call.id, text: onOneLine(textOf(block)) };
  if (block.kind !== "call") return { ...row, id: block.text, text: onOneLine(block.text) };
  const { id, name, input } = block.call;
  const [argument] = Object.values(input);
  return { ...row, id, text: `${name} ${onOneLine(argument)}` };
}

/** Returns a row for each reply, and for each block of the other messages. */
function rowsOf(message: ShownMessage): Row[] {
  const rows = message.blocks.filter(({ kind }) => kind !== "thinking").map((block) => rowOf(block, message));
  if (message.role !== "assistant") return rows;
  return rows.slice(-1).map((row) => ({ ...row, tokens: tokensOf(message.blocks) }));
}

const isSame = (a: Row, b: Row) => a.id === b.id && a.who === b.who;

export function changesIn({ before, after }: Moment): Row[] {
  const old = before.flatMap(rowsOf);
  const now = after.flatMap(rowsOf);
  return diffArrays(old, now, { comparator: isSame }).flatMap(({ value, added, removed }) =>
    value.map((row): Row => {
      if (added) return { ...row, state: "new" };
      if (removed) return { ...row, state: "gone" };
      const was = old.find((each) => isSame(each, row));
      const isShort = was?.who === "result" && was.text !== row.text;
      return isShort ? { ...row, state: "short", was: was.tokens } : row;
    }),
  );
}

/** Leaves the ends of a long stretch of one state, and a row for the rest. */
function foldLong(changes: Row[]): Row[] {
  const starts = changes.flatMap(({ state }, i) => (state === changes[i - 1]?.state ? [] : i));
  return starts.flatMap((start, i) => {
    const stretch = changes.slice(start, starts[i + 1]);
    const [first] = stretch;
    const middle = stretch.slice(3, -2);
    if (!first || middle.length < 4) return stretch;
    const tokens = sum(middle.map((row) => row.tokens));
    return stretch.toSpliced(3, middle.length, { ...first, who: "", text: `… ${middle.length} more`, tokens });
  });
}

function promptRow([who, { tokens, cached }]: [string, Prompt]): Row {
  const text = `${whole(cached)} cached, ${whole(tokens - cached)} new`;
  return { id: who, who, text, tokens, cached, state: "prompt" };
}

const sizeOf = ({ tokens, was }: Sizes) => (was ? `${whole(was)} → ${whole(tokens)}` : whole(tokens));

const STYLE = `
svg { --c: var(--quiet); --text: #1f2328; --quiet: #57606a; --back: #e6f4ea; --total: #f1f3f5; background: #fff }
.user { --c: #1d4ed8 } .assistant { --c: #b45309 } .result { --c: #15803d }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6edf3; --quiet: #9aa7b4; --back: #12301d; --total: #2a2d33; background: #1b1b1f }
  .user { --c: #60a5fa } .assistant { --c: #fbbf24 } .result { --c: #4ade80 }
}
.prompt { --c: var(--text); --back: var(--total) }
text { font: 13px system-ui, sans-serif; fill: var(--text) }
.says { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.size { text-anchor: end }
.size, .gone text { fill: var(--quiet) }
.sign, .who { font-weight: 600 }
.who, .bar { fill: var(--c) }
.cached { fill: var(--c); opacity: .3 }
.back { fill: var(--back) }
.gone .says { text-decoration: line-through }
.gone .bar, .was { fill: none; stroke: var(--quiet) }
`;
const SIGNS = { kept: "", gone: "−", new: "+", short: "↓", prompt: "" };

// in pixels
export const WIDE = { width: 680, rowHeight: 24, left: 106, barLeft: 360, barRight: 588, barTop: 3, barHeight: 10 };
/** For phones: each bar is below its text. */
export const NARROW = { width: 350, rowHeight: 30, left: 98, barLeft: 98, barRight: 344, barTop: 18, barHeight: 5 };
type Layout = typeof WIDE;
const TOP = 22;
const LETTER = 7.3; // in monospace

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const label = (name: string, x: number, text: string) =>
  text && `<text class="${name}" x="${x}" y="13">${escaped(text)}</text>`;

function drawRow(row: Row, scale: number, layout: Layout): string {
  const { who, text, tokens, state, was = 0, cached = 0 } = row;
  const { width, rowHeight, left, barLeft, barTop, barHeight } = layout;
  const indent = row.isChild ? 18 : 0;
  const size = sizeOf(row);
  const textEnd = layout === WIDE ? barLeft - 8 : width - 14 - LETTER * size.length;
  const letters = Math.floor((textEnd - left - indent) / LETTER);
  const bar = (name: string, amount: number, from = 0) => {
    const x = (barLeft + from * scale).toFixed(1);
    const length = Math.max(1.5, amount * scale).toFixed(1);
    return amount && `<rect class="${name}" x="${x}" y="${barTop}" width="${length}" height="${barHeight}"/>`;
  };
  const parts = [
    /new|short|prompt/.test(state) && `<rect class="back" y="-4" width="${width}" height="${rowHeight}"/>`,
    label("sign", 6, SIGNS[state]),
    label("who", 20 + indent, who),
    label("says", left + indent, text.length > letters ? `${text.slice(0, letters - 1)}…` : text),
    bar("was", was),
    bar("cached", cached),
    bar("bar", tokens - cached, cached),
    label("size", width - 6, size),
  ];
  return parts.filter(Boolean).join("");
}

export function draw(moment: Moment, layout: Layout): string {
  const { width, rowHeight, barLeft, barRight } = layout;
  const prompts = Object.entries(moment.prompts ?? {}).map(promptRow);
  const all = [...foldLong(changesIn(moment)), ...prompts];
  const longest = Math.max(...all.flatMap(({ tokens, was = 0 }) => [tokens, was]));
  const scale = (barRight - barLeft) / longest;
  const rows = all.map((row, i) => {
    const y = TOP + i * rowHeight;
    return `<g class="${row.state} ${row.who}" transform="translate(0 ${y})">${drawRow(row, scale, layout)}</g>`;
  });
  const height = TOP + all.length * rowHeight;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escaped(moment.title)}</title><style>${STYLE}</style>
${label("size", width - 6, "≈ tokens")}
${rows.join("\n")}
</svg>
`;
}

export function momentFigures(root: string): Record<string, string> {
  const files = Object.entries(momentsIn(root)).flatMap(([name, moment]) => [
    [`${name}.svg`, draw(moment, WIDE)],
    [`${name}.narrow.svg`, draw(moment, NARROW)],
  ]);
  return Object.fromEntries(files);
}
