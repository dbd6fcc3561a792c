/** The lessons' scripts as highlighted lines, and what is new in each. */
import { transformerStyleToClass } from "@shikijs/transformers";
import { diffArrays } from "diff";
import type { Lesson } from "../../lesson/source.ts";
import { lessons } from "./files.ts";

/** VitePress' own highlighter. Returns HTML. */
export type Highlight = (code: string, language: string, attributes: string) => string;

/** Colours become classes, because inline styles made up most of a page. */
export const colours = transformerStyleToClass({ classPrefix: "c" });
/** All colour classes. Comments get a darker shade, to stay readable on marked lines. */
export const styleSheet = () =>
  `<style>${colours.getCSS().replaceAll("#66707B", "#55606b").replaceAll("#8B949E", "#9ea7b0")}</style>`;

const highlighted = new Map<string, string[]>();
export function highlightLines({ lines }: Lesson, highlight: Highlight): string[] {
  const text = lines.join("\n");
  const [, code = ""] = (!highlighted.has(text) && /<code>(.*)<\/code>/s.exec(highlight(text, "ts", ""))) || [];
  const html =
    highlighted.get(text) ?? code.split("\n").map((line) => line.replace(/^<span class="line">(.*)<\/span>$/, "$1"));
  highlighted.set(text, html);
  return html;
}

/** The lines that a region adds to the same region of the previous lesson. */
export function addedLines(name: string, region: string, highlight: Highlight): string {
  const lesson = lessonCalled(name);
  const { from, to } = lesson.regions.get(region) ?? { from: 1, to: 0 };
  const old = lesson.before?.regions.get(region) ?? { from: 1, to: 0 };
  const html = highlightLines(lesson, highlight);
  const parts: string[] = [];
  let at = from - 1;
  const oldLines = lesson.before?.lines.slice(old.from - 1, old.to) ?? [];
  for (const { count, added, removed } of diffArrays(oldLines, lesson.lines.slice(from - 1, to))) {
    if (removed) continue;
    const lines = html.slice(at, at + count).map((line, i) => {
      const indent = indentOf(lesson.lines[at + i]);
      return `<span class="line" ${indent}>${line}</span>`;
    });
    if (added) parts.push(`<code style="counter-set: line ${at}">${lines.join("")}</code>`);
    at += count;
  }
  return `<pre class="added numbered vp-code" tabindex="0" v-pre>${parts.join("")}</pre>`;
}

/** Lets the style sheet indent the rest of a wrapped line at least as far as its beginning. */
export const indentOf = (line = "") => `style="--indent: ${line.search(/\S|$/)}"`;

export function lessonCalled(name: string): Lesson {
  const lesson = lessons.get(name);
  if (!lesson) throw new Error(`there is no lesson ${name}`);
  return lesson;
}
