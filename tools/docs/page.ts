/** A page and what is generated on it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { lineAt } from "../lesson/source.ts";

/** Takes down what is wrong and where (`docs/README.md:7`), so that a run names everything. */
export type Report = (where: string, what: string) => void;
/** What is generated is between `start` and `end`, offsets in the page's text. */
export type Directive = { inline: boolean; kind: string; args: string; line: number; start: number; end: number };
/** `prose` is the text with blocks of code and generated blocks blanked out: offsets and lines stay the same. */
export type Page = { file: string; text: string; prose: string; directives: Directive[] };

/** A block of code: the ticks, the language. */
export const FENCE = /^ *(`{3,})(.*?)\n.*?^ *\1`*$/gms;
const BLOCK = /^<!-- sync: (\S+) ?([^\n]*) -->\n((?:(?!<!-- sync).)*?)^<!-- \/sync -->$|<!-- *\/?sync[^\n]*/gms;
const VALUE = /^ *<!--=.*|<!--= (\w+) ?([^>\n]*?) -->([^<\n]*)<!--\/-->|<!--=.*|<!--\/-->/gm;

const blank = (text: string) => text.replace(/[^\n]/g, " ");
/** Blanks out code within sentences, but not what comments hold. */
export const withoutCode = (text: string): string =>
  text.replace(/<!--.*?-->|(`+)[^`](?:(?!\n\n).)*?\1(?!`)/gs, (code, ticks) => (ticks ? blank(code) : code));

export function readPage(root: string, file: string, report: Report): Page {
  const text = readFileSync(join(root, file), "utf8");
  const directives: Directive[] = [];
  let prose = text.replace(FENCE, blank);
  function collect(inline: boolean, form: RegExp, closing: string, rule: string): void {
    for (const { 0: all, 1: kind, 2: args = "", 3: content = "", index } of withoutCode(prose).matchAll(form)) {
      const line = lineAt(text, index);
      const end = index + all.length - closing.length;
      if (kind) directives.push({ inline, kind, args, line, start: end - content.length, end });
      else report(`${file}:${line}`, `${all}: ${rule}`);
    }
  }
  collect(false, BLOCK, "<!-- /sync -->", "a block needs <!-- sync: KIND --> and <!-- /sync -->, each on its own line");
  for (const { start, end } of directives)
    prose = prose.slice(0, start) + blank(text.slice(start, end)) + prose.slice(end);
  collect(
    true,
    VALUE,
    "<!--/-->",
    "a value is <!--= KIND -->value<!--/--> within a line; one that begins with it is HTML",
  );
  return { file, text, prose, directives: directives.sort((a, b) => a.start - b.start) };
}

/** The words of a page's prose without tables, comments and the targets of links. */
export function countWords(prose: string): number {
  const text = prose.replace(/^ *\|.*$|<.*?>|\]\(.*?\)/gm, " ");
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}
