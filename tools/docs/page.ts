/** Reads a page and finds its directives, the marks around what is generated. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { lineAt } from "../lesson/source.ts";

/** Collects problems with their place, such as `docs/README.md:7`, so that one run reports all of them. */
export type Report = (where: string, what: string) => void;
export type Directive = {
  inline: boolean;
  kind: string;
  args: string;
  line: number;
  start: number; // offset of the generated text
  end: number;
};
export type Page = {
  file: string;
  text: string;
  prose: string; // the text with blanks for code, comments and generated blocks, so offsets and lines stay the same
  directives: Directive[];
};

/** A block of code. Its groups are the ticks and the language. */
export const FENCE = /^ *(`{3,})(.*?)\n.*?^ *\1`*$/gms;
const BLOCK = /^<!-- sync: (\S+) ?([^\n]*) -->\n((?:(?!<!-- sync).)*?)^<!-- \/sync -->$|<!-- *\/?sync[^\n]*/gms;
const VALUE = /^ *<!--=.*|<!--= (\w+) ?([^>\n]*?) -->([^<\n]*)<!--\/-->|<!--=.*|<!--\/-->/gm;

const blank = (text: string) => text.replace(/[^\n]/g, " ");
/** Blanks out code within sentences, but leaves comments alone. */
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
  prose = prose.replace(/<!--.*?-->/gs, blank); // a command isn't prose
  return { file, text, prose, directives: directives.sort((a, b) => a.start - b.start) };
}

/** Counts the words of a page's prose without tables, comments and link targets. */
export function countWords(prose: string): number {
  const text = prose.replace(/^ *\|.*$|<.*?>|\]\(.*?\)/gm, " ");
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}
