/** Writes the generated parts into the pages, and checks the pages. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readLessons } from "../lesson/source.ts";
import { checkPage } from "./check.ts";
import { drawFigures } from "./figures.ts";
import { type Report, readPage } from "./page.ts";
import { recorder } from "./recorder.ts";
import { render } from "./render.ts";
import { recordRuns, sessions } from "./transcripts.ts";
import { checkTranslation } from "./translation.ts";

/**
 * `sync` writes the generated parts into a project's pages, and `check` looks for parts that are stale and other problems.
 * Returns the problems, as `file:line: text`, and warnings of Chinese text that is behind.
 */
export async function processPages(mode: "sync" | "check", root: string) {
  const failures: string[] = [];
  const warnings: string[] = [];
  const warn: Report = (where, what) => warnings.push(`${where}: ${what}`);
  const report: Report = (where, what) => failures.push(`${where}: ${what}`);
  const project = { root, lessons: readLessons(root), record: recorder(root, sessions) };

  async function visit(file: string): Promise<void> {
    const page = readPage(root, file, report);
    const contents = await Promise.allSettled(page.directives.map((directive) => render(directive, project, page)));
    let { text } = page;
    for (const [i, { kind, args, line, start, end }] of [...page.directives.entries()].reverse()) {
      const content = contents[i];
      if (content?.status === "fulfilled") text = text.slice(0, start) + content.value + text.slice(end);
      else report(`${file}:${line}`, `${kind} ${args}: ${content?.reason.message}`);
    }
    if (mode === "sync") {
      if (text !== page.text) writeFileSync(join(root, file), text);
    } else {
      const [old, wanted] = [page.text.split("\n"), text.split("\n")];
      const at = old.findIndex((line, i) => line !== wanted[i]);
      if (at >= 0)
        report(`${file}:${at + 1}`, `stale (npm run docs:sync): it has "${old[at]}" instead of "${wanted[at]}"`);
      checkPage(root, page, report);
      checkTranslation(root, page, report, warn);
    }
  }

  /** Writes a file, or reports that it's stale. */
  function update(name: string, text: string): void {
    const file = join(root, name);
    if (existsSync(file) && readFileSync(file, "utf8") === text) return;
    if (mode === "sync") writeFileSync(file, text);
    else report(name, "stale (npm run docs:sync): what it was recorded or drawn from has changed");
  }

  const isWhole = existsSync(join(root, "offline/run.ts"));
  const runs = isWhole ? await recordRuns(project.record) : {};
  for (const [name, text] of Object.entries(runs)) update(name, text);
  for (const [name, text] of Object.entries(drawFigures(root))) update(`docs/figures/${name}`, text);

  const inDocs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" });
  const files = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "tools/README.md"].concat(
    inDocs.map((name) => `docs/${name}`),
  );
  await Promise.all(files.filter((file) => file.endsWith(".md") && existsSync(join(root, file))).map(visit));
  const byPlace = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });
  return { failures: failures.sort(byPlace), warnings: warnings.sort(byPlace) };
}
