/** Checks what isn't generated on a page: dead links, tests that don't exist, and pages that are too long. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import GithubSlugger from "github-slugger";
import { lineAt } from "../lesson/source.ts";
import { countWords, FENCE, type Page, type Report, withoutCode } from "./page.ts";

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
  const tests = testNames(root);
  for (const { 1: name = "", index } of withoutCode(prose).matchAll(NAME_OF_A_TEST)) {
    const isTest = tests.some((pattern) => pattern.test(name.replace(/\s+/g, " ")));
    if (!isTest) report(`${file}:${lineAt(text, index)}`, `there is no test "${name}"; italics are for names of tests`);
  }
  const sizes: Record<Size, number> = {
    lines: text.trimEnd().split("\n").length,
    "words of prose": countWords(prose),
    "lines of code": countCode(text),
    rows: countRows(text),
  };
  const budget = BUDGETS.find(({ pages }) => pages.test(file))?.most ?? [];
  for (const [what, most] of budget)
    if (sizes[what] > most) report(file, `${number(sizes[what])} ${what}, more than ${number(most)}`);
  if (file.startsWith("docs/zh/")) checkChinese(file, prose, report);
}

type Size = "lines" | "words of prose" | "lines of code" | "rows";
/** How much a page may have at most. */
const BUDGETS: { pages: RegExp; most: [Size, number][] }[] = [
  {
    pages: /^docs\/(zh\/)?s06_/,
    most: [
      ["lines", 270],
      ["words of prose", 1_200],
      ["lines of code", 80],
    ],
  },
  {
    pages: /^docs\/(zh\/)?s\d\d_/,
    most: [
      ["lines", 230],
      ["words of prose", 800],
      ["lines of code", 50],
    ],
  },
  {
    pages: /^docs\/promises\.md$/,
    most: [
      ["lines", 120],
      ["rows", 40],
    ],
  },
];

/** Three words or more in italics. */
const NAME_OF_A_TEST = /(?<![*\w])\*(?!\*)(\S+\s\S+\s(?:(?!\n\n)[^*])*?)\*(?![*\w])/g;
const TITLE = /\btest\w*\(\s*(["`])(?:\$\{.*?\}: )?(.*?)\1,/g;

/** The names of the tests, without the lesson or prompt in front; what comes from a variable can be anything. */
function testNames(root: string): RegExp[] {
  const folder = join(root, "tests");
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".ts")) : [];
  const code = files.map((name) => readFileSync(join(folder, name), "utf8")).join("\n");
  return [...code.matchAll(TITLE)].flatMap(([, , title = ""]) => {
    const literals = title.split(/\$\{.*?\}/).map((part) => part.replace(/[^\w\s]/g, "\\$&"));
    return literals.join("") ? [new RegExp(`^${literals.join(".*")}$`)] : [];
  });
}

/** What a Chinese text would not have. Punctuation may have a bold part beside it. */
const CHINESE: [what: string, found: RegExp][] = [
  ["half-width punctuation beside Chinese", /\p{Script=Han}\**[:,;!?()]|[:,;!?()]\**\p{Script=Han}/u],
  ["a blank beside full-width punctuation", /[^\s|>.-] +\**[，。：；！？、（）]|[，。：；！？、（）]\** +[^\s|]/],
  ["a blank before %", /\d %/],
  [
    "** closes no bold part between punctuation and a letter",
    /^(?:[^*]*\*\*[^*]+\*\*)*?[^*]*\*\*[^*]*[，。：；！？、）]\*\*[\p{L}\p{N}]/u,
  ],
];

/** Code, links, comments and names of tests are not looked at. */
function checkChinese(file: string, prose: string, report: Report): void {
  const text = prose
    .replace(/(`+)[^`].*?\1(?!`)/g, "`")
    .replace(/<.*?>|(?<=\])\(.*?\)/g, "")
    .replace(NAME_OF_A_TEST, "");
  for (const [i, line] of text.split("\n").entries())
    for (const [what, found] of CHINESE) {
      const part = found.exec(line)?.[0];
      if (part) report(`${file}:${i + 1}`, `${what}: "${part.slice(-5)}"`);
    }
}

const number = (value: number) => value.toLocaleString("en-US");

/** The lines of code on a page: not of diagrams, output and diffs. */
function countCode(text: string): number {
  const blocks = [...text.matchAll(FENCE)].filter(([, , language = ""]) => /^(ts|js|sh|json|python)/.test(language));
  return blocks.flatMap(([block]) => block.split("\n").slice(1, -1)).length;
}

/** The rows of a page's tables, without their heads. */
function countRows(text: string): number {
  const rows = text.match(/^\|.*$/gm) ?? [];
  const rulers = rows.filter((row) => /^[|: -]+$/.test(row));
  return rows.length - 2 * rulers.length;
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
