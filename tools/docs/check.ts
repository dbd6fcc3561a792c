/** What is wrong with a page besides what is generated: links, anchors, long lines of code, diagrams, regions not shown. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createContext, runInContext } from "node:vm";
import GithubSlugger from "github-slugger";
import { Window } from "happy-dom";
import type { Nodes } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { toString as textOf } from "mdast-util-to-string";
import { visit } from "unist-util-visit";
import { changes, type Lesson, type Report } from "./lessons.ts";
import type { Page } from "./page.ts";

const LONGEST: Record<string, number> = { diff: 160, console: 160 }; // characters; 120 in any other code

export async function checkPage(root: string, page: Page, report: Report): Promise<void> {
  const diagrams: Promise<void>[] = [];
  visit(page.tree, (node) => {
    const line = node.position?.start.line ?? 1;
    if (node.type === "code") {
      const limit = LONGEST[node.lang ?? ""] ?? 120;
      for (const [i, text] of node.value.split("\n").entries())
        if ([...text].length > limit)
          report(page.file, line + 1 + i, `code of ${[...text].length} characters, more than ${limit}`);
      if (node.lang === "mermaid") diagrams.push(checkDiagram(node.value, (error) => report(page.file, line, error)));
    }
    const urls = "url" in node ? [node.url] : [];
    if (node.type === "html") for (const [, url = ""] of node.value.matchAll(/\b(?:href|src)="(.*?)"/g)) urls.push(url);
    for (const url of urls) {
      try {
        checkLink(root, page, url);
      } catch (error) {
        report(page.file, line, `dead link ${url}: ${Object(error).message}`);
      }
    }
  });
  await Promise.all(diagrams);
}

/** The anchors that GitHub gives the headings of a page. */
function anchors(tree: Nodes): string[] {
  const slugger = new GithubSlugger();
  const found: string[] = [];
  visit(tree, "heading", (node) => {
    found.push(slugger.slug(textOf(node, { includeHtml: false })));
  });
  return found;
}

/** @throws if a link leads nowhere; links to other sites are not followed */
function checkLink(root: string, page: Page, url: string): void {
  if (/^([a-z][a-z\d+.-]*:|\/\/)/i.test(url)) return;
  const [path = "", anchor] = decodeURIComponent(url).split("#");
  const file = path ? join(path.startsWith("/") ? "." : dirname(page.file), path) : page.file;
  if (file.startsWith("..") || !existsSync(join(root, file))) throw new Error(`there is no ${file}`);
  if (anchor === undefined) return;
  const text = readFileSync(join(root, file), "utf8");
  if (file.endsWith(".md")) {
    const known = anchors(fromMarkdown(text));
    if (!known.includes(anchor)) throw new Error(`${file} has no such heading; it has ${known.join(", ")}`);
  } else {
    const [, from, to = from] = /^L(\d+)(?:-L(\d+))?$/.exec(anchor) ?? [];
    const lines = text.trimEnd().split("\n").length;
    const fits = 1 <= Number(from) && Number(from) <= Number(to) && Number(to) <= lines;
    if (!fits) throw new Error(`${file} has ${lines} lines; an anchor is #L10 or #L10-L20`);
  }
}

let mermaid: { parse(diagram: string): Promise<unknown> } | undefined;

/** Asks Mermaid's own parser. It wants a browser's document, to clean labels with. */
async function checkDiagram(diagram: string, fail: (error: string) => void): Promise<void> {
  if (!mermaid) {
    const script = createRequire(import.meta.url).resolve("@mermaid-js/tiny");
    mermaid = runInContext(`${readFileSync(script, "utf8")}\nmermaid`, createContext(new Window()));
  }
  try {
    await mermaid?.parse(diagram);
  } catch (error) {
    fail(`mermaid: ${Object(error).message}`.replace(/\s+/g, " "));
  }
}

/** Each region that a lesson adds or changes has to be on its page; the diff shows the changed ones. */
export function checkRegions(pages: Page[], lessons: Lesson[], report: Report): void {
  for (const lesson of lessons) {
    const page = pages.find(({ file }) => file === lesson.page);
    if (!page) {
      report(lesson.file, 1, `its page ${lesson.page} is missing`);
      continue;
    }
    const { directives } = page;
    const shown = directives.flatMap(({ kind, args }) => (kind === "region" ? [args.split(":")[0]] : []));
    const diff = directives.some(({ kind, args }) => kind === "diff" && args === lesson.name);
    for (const { region, state } of changes(lesson)) {
      if (state === "same" || (state === "changed" && diff) || shown.includes(`${lesson.name} ${region.name}`))
        continue;
      report(lesson.file, region.line - 1, `${state} region ${region.name} is not shown on ${lesson.page}`);
    }
  }
}
