/** Writes the generated parts into the pages, and checks the pages. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeHash } from "../lesson/hash.ts";
import { type Lesson, readLessons } from "../lesson/source.ts";
import { checkPage } from "./check.ts";
import { drawFigures } from "./figures.ts";
import { type Report, readPage } from "./page.ts";
import { recorder } from "./recorder.ts";
import { render } from "./render.ts";
import { recordRuns } from "./transcripts.ts";
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
  const project = { root, lessons: readLessons(root), record: recorder(root) };

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

  const isRecorded = mode === "sync" && existsSync(join(root, "offline/run.ts"));
  const runs = isRecorded ? await recordRuns(project) : {};
  for (const [name, text] of Object.entries(runs)) writeFileSync(join(root, name), text);
  for (const [figure, text] of Object.entries(drawFigures(root))) {
    const name = `docs/figures/${figure}`;
    const file = join(root, name);
    if (mode === "sync") writeFileSync(file, text);
    else if (!existsSync(file) || readFileSync(file, "utf8") !== text)
      report(name, "stale (npm run docs:sync): its recording has changed");
  }
  checkRecordings(root, project.lessons, report);

  const inDocs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" });
  const files = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "tools/README.md"].concat(
    inDocs.map((name) => `docs/${name}`),
  );
  await Promise.all(files.filter((file) => file.endsWith(".md") && existsSync(join(root, file))).map(visit));
  const byPlace = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });
  return { failures: failures.sort(byPlace), warnings: warnings.sort(byPlace) };
}

/** Reports recordings of a lesson whose code has changed since. Comments don't matter. */
function checkRecordings(root: string, lessons: Map<string, Lesson>, report: Report): void {
  const runs = [...lessons.keys()].map((name) => ({ file: `tools/docs/runs/${name}.jsonl`, name }));
  for (const { file, name } of [{ file: "tools/docs/runs/demo.jsonl", name: "s06" }, ...runs]) {
    const lesson = lessons.get(name);
    if (!lesson || !existsSync(join(root, file))) continue;
    const [, code] = /"code": ?"(\w+)"/.exec(readFileSync(join(root, file), "utf8")) ?? [];
    const now = codeHash(readFileSync(join(root, lesson.file), "utf8"));
    if (code !== now) report(file, `stale (npm run docs:sync): ${lesson.file} has changed since`);
  }
}
