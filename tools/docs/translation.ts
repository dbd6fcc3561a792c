/** Compares a Chinese page with its English one, section by section. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { lineAt } from "../lesson/source.ts";
import { FENCE, type Page, type Report, readPage } from "./page.ts";

type Section = {
  title: string;
  line: number;
  text: string; // without the generated parts
  directives: string[]; // the names of these parts, in order
};

/** Returns the page that a Chinese page translates. */
export function originalOf(file: string): string | undefined {
  const [, name] = /^docs\/zh\/(.*)$/.exec(file) ?? [];
  if (name === "README.md") return "README.md";
  return name === "index.md" ? "docs/README.md" : name && `docs/${name}`;
}

function sectionsOf({ text, directives }: Page): Section[] {
  const headings = [...text.replace(FENCE, (code) => code.replace(/[^\n]/g, " ")).matchAll(/^#+ (.*)$/gm)];
  return headings.map(({ 1: title = "", index }, i) => {
    const end = headings[i + 1]?.index ?? text.length;
    const inside = directives.filter(({ start }) => start > index && start < end);
    let own = text.slice(index, end);
    for (const { start, end } of [...inside].reverse()) own = own.slice(0, start - index) + own.slice(end - index);
    const names = inside.map(({ kind, args }) => `${kind} ${args}`);
    return { title, line: lineAt(text, index), text: own, directives: names };
  });
}

const hashOf = ({ text }: Section) => createHash("sha256").update(text.replace(/\s+/g, " ")).digest("hex").slice(0, 8);

/**
 * Reports sections whose English text has changed and generated parts that only one of the two pages has. Each section of a
 * Chinese page has `<!-- en: HASH -->`, the hash of the English section it was last compared with.
 */
export function checkTranslation(root: string, page: Page, report: Report): void {
  const file = originalOf(page.file);
  if (!file) return;
  if (!existsSync(join(root, file))) {
    report(page.file, `it translates ${file}, which doesn't exist`);
    return;
  }
  const english = sectionsOf(readPage(root, file, () => {}));
  const chinese = sectionsOf(page);
  if (english.length !== chinese.length)
    report(page.file, `it has ${chinese.length} sections, and ${file} has ${english.length}`);
  for (const [i, section] of chinese.entries()) {
    const original = english[i];
    if (!original) break;
    const where = `${page.file}:${section.line}`;
    const [, hash = "none"] = /<!-- en: (\w+) -->/.exec(section.text) ?? [];
    if (hash !== hashOf(original))
      report(where, `"${original.title}" in ${file} has changed: compare, then set <!-- en: ${hashOf(original)} -->`);
    const sorted = (names: string[]) => [...names].sort().join("; ");
    if (sorted(section.directives) !== sorted(original.directives))
      report(where, `${file} generates other parts here: ${sorted(original.directives) || "none"}`);
  }
}
