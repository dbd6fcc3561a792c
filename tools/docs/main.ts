/**
 * Keeps the pages in step with the code, in the current folder.
 *
 *     npm run docs:sync    writes what is generated into the pages
 *     npm run docs:check   names each line that is stale, dead, missing or too long
 */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkPage, checkRegions } from "./check.ts";
import { readLessons } from "./lessons.ts";
import { type Directive, lineAt, type Page, readPage } from "./page.ts";
import { type Project, render } from "./render.ts";
import { recorder } from "./run.ts";

const root = process.cwd();
const failures: { file: string; line: number; text: string }[] = [];
const report = (file: string, line: number, text: string): void => {
  failures.push({ file, line, text });
};

const shorten = (text: string | undefined) => (text === undefined ? "nothing" : JSON.stringify(text.slice(0, 100)));

/** Says where a directive's content differs first. */
function reportStale(page: Page, { kind, args, start }: Directive, has: string, wanted: string): void {
  const [old, now] = [has.split("\n"), wanted.split("\n")];
  const i = now.findIndex((line, i) => line !== old[i]);
  const at = i < 0 ? now.length : i;
  const difference = `the page has ${shorten(old[at])}, it should be ${shorten(now[at])}`;
  report(page.file, lineAt(page.text, start) + at, `stale: ${`${kind} ${args}`.trim()}: ${difference}`);
}

/** Renders all directives of a page. @returns the page as it should be, and what differs */
async function refresh(page: Page, project: Project): Promise<{ text: string; stale: Directive[] }> {
  const contents = await Promise.all(
    page.directives.map((directive) =>
      render(directive, project, page).catch((error: Error) => {
        report(page.file, directive.line, `${directive.kind} ${directive.args}: ${error.message}`);
      }),
    ),
  );
  let text = "";
  let end = 0;
  const stale = page.directives.filter((directive, i) => {
    const has = page.text.slice(directive.start, directive.end);
    const content = contents[i] ?? has;
    text += page.text.slice(end, directive.start) + content;
    end = directive.end;
    if (content !== has && mode === "check") reportStale(page, directive, has, content);
    return content !== has;
  });
  return { text: text + page.text.slice(end), stale };
}

async function sync(page: Page, project: Project): Promise<void> {
  const { text, stale } = await refresh(page, project);
  if (failures.some(({ file }) => file === page.file)) return console.log(`${page.file}: not written`);
  if (stale.length === 0) return;
  writeFileSync(join(root, page.file), text);
  console.log(`${page.file}: ${stale.map(({ kind, args }) => `${kind} ${args}`.trim()).join("; ")}`);
}

const mode = process.argv[2];
if (mode !== "sync" && mode !== "check") throw new Error("say what to do: sync or check");
const project = { root, lessons: readLessons(root, report), record: recorder(root) };
const docs = existsSync("docs") ? readdirSync("docs").filter((name) => name.endsWith(".md")) : [];
const files = ["README.md", "CONTRIBUTING.md"].filter(existsSync).concat(docs.sort().map((name) => `docs/${name}`));
const pages = files.map((file) => readPage(root, file, report));
if (mode === "sync") {
  await Promise.all(pages.map((page) => sync(page, project)));
} else {
  await Promise.all(pages.flatMap((page) => [refresh(page, project), checkPage(root, page, report)]));
  checkRegions(pages, project.lessons, report);
}

failures.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
for (const { file, line, text } of failures) console.error(`${file}:${line}: ${text}`);
const count = pages.reduce((total, page) => total + page.directives.length, 0);
console.log(`${pages.length} pages, ${count} directives, ${failures.length} failures`);
if (failures.some(({ text }) => text.startsWith("stale"))) console.log("npm run docs:sync mends what is stale");
process.exitCode = failures.length > 0 ? 1 : 0;
