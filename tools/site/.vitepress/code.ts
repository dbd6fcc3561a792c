/** The lessons' scripts as highlighted lines, and what is new in each beside the one before. */
import { diffArrays } from "diff";
import type { MarkdownOptions } from "vitepress";
import type { Lesson } from "../../docs/lessons.ts";
import { lessons } from "./files.ts";

/** VitePress' own highlighter, as the Markdown renderer has it: code, language, attributes → HTML. */
export type Highlight = (code: string, language: string, attributes: string) => string;

/** Colours of the two themes are classes of style.css: as styles they made up most of a page. The colour of plain code needs neither. */
const COLOURS: Record<string, string> = {
  "#0E1116": "",
  "#A0111F": "keyword",
  "#032563": "string",
  "#023B95": "constant",
  "#622CBC": "function",
  "#702C00": "parameter",
  "#66707B": "comment",
};
export const colours: NonNullable<MarkdownOptions["codeTransformers"]>[number] = {
  span(node) {
    const [, light = ""] = /^--shiki-light:(#\w+);--shiki-dark:#\w+;?$/.exec(String(node.properties.style)) ?? [];
    const name = COLOURS[light];
    if (name === undefined) return;
    delete node.properties.style;
    if (name) node.properties.class = name;
  },
};

const highlighted = new Map<string, string[]>();
export function highlightLines({ lines }: Lesson, highlight: Highlight): string[] {
  const text = lines.join("\n");
  const [, code = ""] = (!highlighted.has(text) && /<code>(.*)<\/code>/s.exec(highlight(text, "ts", ""))) || [];
  const html =
    highlighted.get(text) ??
    code
      .replace(/<span>([^<]*)<\/span>/g, "$1")
      .split("\n")
      .map((line) => line.replace(/^<span class="line">(.*)<\/span>$/, "$1"));
  highlighted.set(text, html);
  return html;
}

/** A region of a lesson beside the same region of the lesson before, as a table; CSS can leave out all that isn't new. */
export function diffTable(name: string, region: string, highlight: Highlight): string {
  const lesson = lessonCalled(name);
  const side = (of: Lesson | undefined) => {
    const { from, to } = of?.regions.get(region) ?? { from: 1, to: 0 };
    const code = of ? highlightLines(of, highlight) : [];
    return { from, text: of?.lines.slice(from - 1, to) ?? [], html: code.slice(from - 1, to) };
  };
  const [before, after] = [side(lesson.before), side(lesson)];
  const rows: string[] = [];
  let [oldLine, newLine] = [0, 0];
  const cells = ({ from, html }: typeof before, line: number | undefined, kind: string) =>
    line === undefined
      ? `<td></td><td></td>`
      : `<td>${from + line}</td><td class="${kind}"><pre>${html[line]}</pre></td>`;
  const row = (kind: string, old: number | undefined, now: number | undefined) =>
    rows.push(`<tr class="${kind}">${cells(before, old, "old")}${cells(after, now, "new")}</tr>`);

  let removed = 0; // lines taken out right before the lines to come, which stand beside them
  for (const { count, added, removed: isRemoved } of [...diffArrays(before.text, after.text), { count: 0 }]) {
    if (isRemoved) {
      removed = count;
      continue;
    }
    const addedLines = added ? count : 0;
    for (let i = 0; i < Math.max(removed, addedLines); i++)
      row(i < addedLines ? "new" : "gone", i < removed ? oldLine++ : undefined, i < addedLines ? newLine++ : undefined);
    removed = 0;
    for (let i = addedLines; i < count; i++) row("same", oldLine++, newLine++);
  }
  return `<table class="diff" tabindex="0" v-pre><tbody>${rows.join("")}</tbody></table>`;
}

export function lessonCalled(name: string): Lesson {
  const lesson = lessons.get(name);
  if (!lesson) throw new Error(`there is no lesson ${name}`);
  return lesson;
}
