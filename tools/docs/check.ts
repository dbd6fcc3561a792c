/** What is wrong with a page besides what is generated: dead links, long lines of code, too many words. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import GithubSlugger from "github-slugger";
import { lineAt } from "./lessons.ts";
import { FENCE, type Page, type Report, withoutCode } from "./page.ts";

export function checkPage(root: string, { file, text, prose }: Page, report: Report): void {
  for (const { 0: block, 2: language = "", index } of text.matchAll(FENCE)) {
    const limit = /^(diff|console)/.test(language) ? 160 : 120;
    for (const [i, line] of block.split("\n").entries())
      if (line.length > limit) report(`${file}:${lineAt(text, index) + i}`, `code longer than ${limit} characters`);
  }
  for (const { 1: url = "", index } of withoutCode(prose).matchAll(/\]\(([^\s)]+)/g)) {
    const error = linkError(root, file, url);
    if (error) report(`${file}:${lineAt(text, index)}`, `dead link ${url}: ${error}`);
  }
  const [, lesson] = /^docs\/(s\d\d)_/.exec(file) ?? [];
  if (lesson) {
    const [maxLines, maxWords] = lesson === "s06" ? [450, 1800] : [250, 900];
    const [lines, words] = [text.trimEnd().split("\n").length, countWords(prose)];
    if (lines > maxLines) report(file, `${number(lines)} lines, more than ${number(maxLines)}`);
    if (words > maxWords) report(file, `${number(words)} words of prose, more than ${number(maxWords)}`);
  }
}

const number = (value: number) => value.toLocaleString("en-US");

/** The words of a page's prose without tables, comments and the targets of links. */
function countWords(prose: string): number {
  const text = prose.replace(/^ *\|.*$|<.*?>|\]\(.*?\)/gm, " ");
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** Why a link leads nowhere. Links to other sites are not followed. */
function linkError(root: string, from: string, url: string): string | undefined {
  if (/^[a-z]+:/.test(url)) return;
  const [path, anchor] = url.split("#");
  const file = path ? join(dirname(from), path) : from;
  if (!existsSync(join(root, file))) return `there is no ${file}`;
  if (!anchor || !file.endsWith(".md")) return;
  const slugger = new GithubSlugger();
  const text = readFileSync(join(root, file), "utf8").replace(FENCE, "");
  const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    slugger.slug(title.replace(/<.*?>|\]\(.*?\)/g, "")),
  );
  if (!anchors.includes(anchor)) return `${file} has no such heading; it has ${anchors.join(", ")}`;
}
