/** Finds dead links, tests that don't exist and pages that are too long. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import GithubSlugger from "github-slugger";
import { lineAt } from "../lesson/source.ts";
import { whole } from "../sessions/numbers.ts";
import { countWords, FENCE, type Page, type Report, withoutCode } from "./page.ts";

export function checkPage(root: string, page: Page, report: Report): void {
  checkLinks(root, page, report);
  checkItalics(root, page, report);
  checkSizes(page, report);
}

function checkLinks(root: string, { file, text, prose }: Page, report: Report): void {
  for (const { 1: url = "", index } of withoutCode(prose).matchAll(/(?:\]\(|(?:src|srcset)=")([^\s)"]+)/g)) {
    const error = linkError(root, file, url);
    if (error) report(`${file}:${lineAt(text, index)}`, `dead link ${url}: ${error}`);
  }
}

function checkItalics(root: string, { file, text, prose }: Page, report: Report): void {
  const tests = testNames(root);
  for (const { 1: name = "", index } of withoutCode(prose).matchAll(NAME_OF_A_TEST)) {
    const isTest = tests.some((pattern) => pattern.test(name.replace(/\s+/g, " ")));
    const what = `no test in tests/ is called "${name}"; write the name of one here, or no italics`;
    if (!isTest) report(`${file}:${lineAt(text, index)}`, what);
  }
}

function checkSizes(page: Page, report: Report): void {
  const limits: Record<string, number> = LIMITS.find(([pages]) => pages.test(page.file))?.[1] ?? {};
  for (const [what, size] of Object.entries(sizesOf(page))) {
    const limit = limits[what] ?? Infinity;
    if (size > limit) report(page.file, `it has ${whole(size)} ${what}; cut it to ${whole(limit)}`);
  }
}

/** Of the English pages; the Chinese ones have the same sections. The first that matches counts. */
const LIMITS: [pages: RegExp, limits: Partial<ReturnType<typeof sizesOf>>][] = [
  [/^README/, { lines: 125 }],
  [/^docs\/s01_/, { lines: 240, "words of prose": 900 }],
  [/^docs\/s06_context_compact/, { lines: 230, "words of prose": 1_150 }],
  [/^docs\/s06_keeping_it_alive/, { lines: 140, "words of prose": 800 }],
  [/^docs\/s\d\d_/, { lines: 200, "words of prose": 800 }],
  [/^docs\/promises/, { lines: 120, rows: 40 }],
];

const sizesOf = ({ text, prose }: Page) => ({
  lines: text.trimEnd().split("\n").length,
  "words of prose": countWords(prose),
  rows: countRows(text),
});

/** Three words or more in italics. */
const NAME_OF_A_TEST = /(?<![*\w])\*(?!\*)(\S+\s\S+\s(?:(?!\n\n)[^*])*?)\*(?![*\w])/g;
const TITLE = /\btest\w*\(\s*(["`])(?:\$\{.*?\}: )?(.*?)\1,/g;

/** Returns patterns for the names of all tests, without the lesson in front. A variable may stand for anything. */
function testNames(root: string): RegExp[] {
  const folder = join(root, "tests");
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".ts")) : [];
  const code = files.map((name) => readFileSync(join(folder, name), "utf8")).join("\n");
  return [...code.matchAll(TITLE)].flatMap(([, , title = ""]) => {
    const literals = title.split(/\$\{.*?\}/).map((part) => part.replace(/[^\w\s]/g, "\\$&"));
    return literals.join("") ? [new RegExp(`^${literals.join(".*")}$`)] : [];
  });
}

/** Counts the rows of all tables, without their heads. */
function countRows(text: string): number {
  const rows = text.match(/^\|.*$/gm) ?? [];
  const rulers = rows.filter((row) => /^[|: -]+$/.test(row));
  return rows.length - 2 * rulers.length;
}

/** Says why a link is dead. Links to other sites aren't followed. */
function linkError(root: string, from: string, url: string): string | undefined {
  if (/^[a-z]+:/.test(url)) return;
  const [path, anchor] = url.split("#");
  const file = path ? join(dirname(from), path) : from;
  if (!existsSync(join(root, file))) return `there is no ${file}; name another file here`;
  if (!anchor || !file.endsWith(".md")) return;
  const slugger = new GithubSlugger();
  const text = readFileSync(join(root, file), "utf8").replace(FENCE, "");
  const anchors = [...text.matchAll(/^#+ (.*)$|<a id="(.*?)">/gm)].map(
    ([, title = "", id]) => id ?? slugger.slug(title.replace(/<.*?>|\]\(.*?\)/g, "")),
  );
  if (!anchors.includes(anchor)) return `${file} has no such anchor; write one of ${anchors.join(", ")}`;
}
