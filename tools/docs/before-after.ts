/** Draws a moment as one list of messages: what stayed, what went, and what came. */
import { diffArrays } from "diff";
import { textOf } from "../trace/events.ts";
import { type Message, type Moment, momentsIn, tokensOf } from "./moments.ts";

/** A short row is a result that is only a line now; `was` is its size before. */
type Sizes = { tokens: number; was?: number; cached?: number };
type State = "kept" | "gone" | "new" | "short" | "prompt";
type Row = Sizes & { id: string; who: string; text: string; state: State; isChild?: boolean };

const onOneLine = (value: unknown) =>
  `${typeof value === "string" ? value : JSON.stringify(value)}`.replace(/\s+/g, " ");

/** A row for each reply, and for each block of the other messages. */
function rowsOf({ role, blocks, isChild }: Message): Row[] {
  const rows = blocks.flatMap((block): Row[] => {
    if (block.kind === "thinking") return [];
    const row = { who: role, tokens: tokensOf([block]), state: "kept" as const, isChild };
    if (block.kind === "result") return [{ ...row, who: "result", id: block.call.id, text: onOneLine(textOf(block)) }];
    if (block.kind !== "call") return [{ ...row, id: block.text, text: onOneLine(block.text) }];
    const { id, name, input } = block.call;
    return [{ ...row, id, text: `${name} ${onOneLine(Object.values(input)[0])}` }];
  });
  return role === "assistant" ? rows.slice(-1).map((row) => ({ ...row, tokens: tokensOf(blocks) })) : rows;
}

export function changesIn({ before, after }: Moment): Row[] {
  const [old, now] = [before.flatMap(rowsOf), after.flatMap(rowsOf)];
  const isSame = (a: Row, b: Row) => a.id === b.id && a.who === b.who;
  return diffArrays(old, now, { comparator: isSame }).flatMap(({ value, added, removed }) =>
    value.map((row) => {
      if (added || removed) return { ...row, state: added ? "new" : "gone" };
      const was = old.find((each) => isSame(each, row));
      return was?.who === "result" && was.text !== row.text ? { ...row, state: "short", was: was.tokens } : row;
    }),
  );
}

/** Leaves the ends of a long stretch of one state, and a row for the rest. */
function foldLong(changes: Row[]): Row[] {
  const starts = changes.flatMap(({ state }, i) => (state === changes[i - 1]?.state ? [] : i));
  return starts.flatMap((start, i) => {
    const all = changes.slice(start, starts[i + 1]);
    const [first, middle] = [all[0], all.slice(3, -2)];
    if (!first || middle.length < 4) return all;
    const tokens = middle.reduce((sum, each) => sum + each.tokens, 0);
    return all.toSpliced(3, middle.length, { ...first, who: "", text: `… ${middle.length} more`, tokens });
  });
}

const STYLE = `svg{--c:var(--quiet);--text:#1f2328;--quiet:#57606a;--line:#d0d7de;--back:#e6f4ea;background:#fff}
.user{--c:#1d4ed8}.assistant{--c:#b45309}.result{--c:#15803d}.prompt{--c:var(--text)}
@media(prefers-color-scheme:dark){svg{--text:#e6edf3;--quiet:#9aa7b4;--line:#3d444d;--back:#12301d;background:#1b1b1f}
.user{--c:#60a5fa}.assistant{--c:#fbbf24}.result{--c:#4ade80}}
text{font:13px system-ui,sans-serif;fill:var(--text)}.m{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.n{text-anchor:end;fill:var(--quiet)}.sign,.who{font-weight:600}.who,.bar{fill:var(--c)}.back{fill:var(--back)}
.gone text{fill:var(--quiet)}.gone .m{text-decoration:line-through}.cached{fill:var(--c);opacity:.3}
.gone .bar,.ghost{fill:none;stroke:var(--quiet)}path{stroke:var(--line)}`;
const SIGNS = { kept: "", gone: "−", new: "+", short: "↓", prompt: "" };
const LETTER = 7.3; // pixels of a letter in monospace

const number = (value: number) => value.toLocaleString("en-US");
const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const label = (name: string, x: number, text: string) =>
  text && `<text class="${name}" x="${x}" y="13">${escaped(text)}</text>`;

/** Returns an SVG file. A narrow one, for phones, has each bar below its text. */
export function draw(moment: Moment, isNarrow: boolean): string {
  const changes = foldLong(changesIn(moment));
  const totals = Object.entries(moment.prompts ?? {}).map(([who, { tokens, cached }]): Row => {
    const text = `${number(cached)} cached, ${number(tokens - cached)} new`;
    return { id: who, who, text, tokens, cached, state: "prompt" };
  });
  const all = [...changes, ...totals];
  const [width, height, left] = isNarrow ? [350, 32, 98] : [680, 24, 106];
  const [barLeft, barTop, thick, barRight] = isNarrow ? [left, 18, 5, width - 6] : [360, 3, 10, width - 92];
  const scale = (barRight - barLeft) / Math.max(...all.flatMap(({ tokens, was = 0 }) => [tokens, was]));
  const bar = (name: string, tokens: number, from = 0) => {
    const [x, size] = [barLeft + from * scale, Math.max(1.5, tokens * scale)].map((value) => value.toFixed(1));
    return tokens && `<rect class="${name}" x="${x}" y="${barTop}" width="${size}" height="${thick}"/>`;
  };
  const rows = all.map(({ who, text, tokens, state, was = 0, isChild, cached = 0 }, i) => {
    const indent = isChild ? 18 : 0;
    const size = was ? `${number(was)} → ${number(tokens)}` : number(tokens);
    const letters = Math.floor(((isNarrow ? width - 14 - LETTER * size.length : barLeft - 8) - left - indent) / LETTER);
    const shown = text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
    const parts = [
      /new|short/.test(state) && `<rect class="back" y="-4" width="${width}" height="${height}"/>`,
      ...[label("sign", 6, SIGNS[state]), label("who", 20 + indent, who), label("m", left + indent, shown)],
      ...[bar("ghost", was), bar("cached", cached), bar("bar", tokens - cached, cached), label("n", width - 6, size)],
    ];
    const y = (state === "prompt" ? 26 : 18) + i * height;
    return `<g class="${state} ${who}" transform="translate(0 ${y})">${parts.filter(Boolean).join("")}</g>`;
  });
  const rule = totals.length > 0 ? `<path d="M0 ${18 + changes.length * height}H${width}"/>` : "";
  const bottom = (rule ? 26 : 18) + all.length * height;
  const parts = changes.flatMap(({ state, who, text }) =>
    state === "kept" ? [] : `${state}: ${who} ${text.slice(0, 40)}`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${bottom}" viewBox="0 0 ${width} ${bottom}" role="img">
<title>${escaped(moment.title)}</title><desc>${escaped(parts.join("; "))}</desc><style>${STYLE}</style>${label("n", width - 6, "≈ tokens")}
${rows.join("\n")}${rule}</svg>\n`;
}

/** Returns the files of docs/figures by name. */
export function momentFigures(root: string): Record<string, string> {
  const files = Object.entries(momentsIn(root)).flatMap(([name, moment]) => [
    [`${name}.svg`, draw(moment, false)],
    [`${name}.narrow.svg`, draw(moment, true)],
  ]);
  return Object.fromEntries(files);
}
