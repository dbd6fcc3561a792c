/**
 * Keeps the pages in step with the code, in the current folder.
 *
 *     npm run docs:sync    writes what is generated into the pages
 *     npm run docs:check   names each line that is stale, dead, missing or too long
 */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { checkPage, checkRegions } from "./check.ts";
import { readLessons } from "./lessons.ts";
import { type Directive, lineAt, nameOf, type Page, readPage } from "./page.ts";
import { render } from "./render.ts";
import { recorder } from "./run.ts";

const failures: { file: string; line: number; text: string }[] = [];
const report = (file: string, line: number, text: string): void => {
  failures.push({ file, line, text });
};

/** A directive whose content is not what it should be. */
type Stale = { directive: Directive; has: string; wanted: string };

/** Renders the directives of a page. */
async function findStale(page: Page): Promise<Stale[]> {
  const all = page.directives.map(async (directive) => {
    const has = page.text.slice(directive.start, directive.end);
    try {
      return { directive, has, wanted: await render(directive, project, page) };
    } catch (error) {
      report(page.file, directive.line, `${nameOf(directive)}: ${Object(error).message}`);
      return { directive, has, wanted: has };
    }
  });
  return (await Promise.all(all)).filter(({ has, wanted }) => has !== wanted);
}

/** Says where a directive's content differs first. */
function reportStale(page: Page, { directive, has, wanted }: Stale): void {
  const [old, now] = [has.split("\n"), wanted.split("\n")];
  const i = (old.length > now.length ? old : now).findIndex((_, i) => old[i] !== now[i]);
  const show = (line = "nothing") => JSON.stringify(line.slice(0, 100));
  const difference = `the page has ${show(old[i])}, it should be ${show(now[i])}`;
  report(page.file, lineAt(page.text, directive.start) + i, `stale: ${nameOf(directive)}: ${difference}`);
}

/** Writes the directives' new content into a page, unless something is wrong with the page or with a lesson. */
function write(page: Page, stale: Stale[]): void {
  const isWrong = failures.some(({ file }) => file === page.file || file.startsWith("agents/"));
  if (isWrong) console.log(`${page.file}: not written`);
  if (isWrong || stale.length === 0) return;
  let { text } = page;
  for (const { directive, wanted } of stale.toReversed())
    text = text.slice(0, directive.start) + wanted + text.slice(directive.end);
  writeFileSync(page.file, text);
  console.log(`${page.file}: ${stale.map(({ directive }) => nameOf(directive)).join("; ")}`);
}

const mode = process.argv[2];
if (mode !== "sync" && mode !== "check") throw new Error("say what to do: sync or check");
const root = process.cwd();
const project = { root, lessons: readLessons(root, report), record: recorder(root) };
const docs = existsSync("docs") ? readdirSync("docs").filter((name) => name.endsWith(".md")) : [];
const files = ["README.md", "CONTRIBUTING.md"].filter(existsSync).concat(docs.map((name) => `docs/${name}`));
const pages = files.map((file) => readPage(root, file, report));
const stale = await Promise.all(pages.map(findStale));

if (mode === "sync") {
  for (const [i, page] of pages.entries()) write(page, stale[i] ?? []);
} else {
  for (const [i, page] of pages.entries()) for (const each of stale[i] ?? []) reportStale(page, each);
  await Promise.all(pages.map((page) => checkPage(root, page, report)));
  checkRegions(pages, project.lessons, report);
}
failures.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
for (const { file, line, text } of failures) console.error(`${file}:${line}: ${text}`);
if (failures.some(({ text }) => text.startsWith("stale: "))) console.error("npm run docs:sync mends what is stale");
const directives = pages.flatMap((page) => page.directives).length;
console.log(`${pages.length} pages, ${directives} directives, ${failures.length} failures`);
process.exitCode = failures.length > 0 ? 1 : 0;
