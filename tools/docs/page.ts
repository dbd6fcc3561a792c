/** A page and its directives. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Nodes } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { visit } from "unist-util-visit";
import type { Report } from "./lessons.ts";

/** Something on a page that is generated: what stands between `start` and `end`, offsets in the page's text. */
export type Directive = { inline: boolean; kind: string; args: string; line: number; start: number; end: number };
export type Page = { file: string; text: string; tree: Nodes; directives: Directive[] };

export const nameOf = ({ kind, args }: Directive): string => `${kind} ${args}`.trim();
export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;

export function readPage(root: string, file: string, report: Report): Page {
  const text = readFileSync(join(root, file), "utf8");
  const tree = fromMarkdown(text);
  const fail = (offset: number, what: string) => report(file, lineAt(text, offset), what);

  // What looks like a directive inside code is text.
  let prose = text;
  visit(tree, ["code", "inlineCode"], ({ position }) => {
    const [from, to] = [position?.start.offset ?? 0, position?.end.offset ?? 0];
    prose = prose.slice(0, from) + prose.slice(from, to).replace(/[^\n]/g, " ") + prose.slice(to);
  });

  const blocks: Directive[] = [];
  let open: Directive | undefined;
  const unclosed = () => open && fail(open.start - 1, `${nameOf(open)} is not closed with <!-- /sync -->`);
  for (const { 0: mark, index } of prose.matchAll(/^.*<!-- *\/?sync.*$/gm)) {
    const [, kind, args = ""] = /^<!-- sync: (\S+) ?(.*?) -->$/.exec(mark) ?? [];
    if (kind) {
      unclosed();
      const start = index + mark.length + 1;
      open = { inline: false, kind, args, line: lineAt(text, index), start, end: start };
    } else if (mark !== "<!-- /sync -->") {
      fail(index, `${mark.trim()} is no directive: <!-- sync: KIND ARGS --> or <!-- /sync --> has a line of its own`);
    } else if (!open) {
      fail(index, "<!-- /sync --> closes nothing");
    } else {
      blocks.push({ ...open, end: index });
      open = undefined;
    }
  }
  unclosed();

  const inlines: Directive[] = [];
  for (const match of prose.matchAll(/<!--= (\w+) ?([^>\n]*?) -->([^<\n]*)<!--\/-->|<!--=.*|<!--\/-->/g)) {
    const [all, kind, args = "", value = ""] = match;
    const end = match.index + all.length - "<!--/-->".length;
    if (blocks.some((block) => block.start <= match.index && match.index < block.end)) continue;
    if (kind)
      inlines.push({ inline: true, kind, args, line: lineAt(text, match.index), start: end - value.length, end });
    else fail(match.index, `${all} is no inline value: <!--= KIND ARGS -->value<!--/--> in one line`);
  }
  visit(tree, "html", ({ value, position }, _, parent) => {
    if (value.startsWith("<!--=") && parent && !["paragraph", "heading"].includes(parent.type))
      fail(
        position?.start.offset ?? 0,
        "a line that begins with an inline value is HTML for GitHub: begin it with a word",
      );
  });
  return { file, text, tree, directives: [...blocks, ...inlines].sort((a, b) => a.start - b.start) };
}
