/** Compares a Chinese page with its English one, section by section. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { lineAt } from "../lesson/source.ts";
import { FENCE, type Page, type Report, readPage } from "./page.ts";

/** A heading and what follows it, without the generated parts. */
type Section = { title: string; line: number; text: string };

/** Returns the page that a Chinese page translates. */
function originalOf(file: string): string | undefined {
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
    for (const part of inside.reverse()) own = own.slice(0, part.start - index) + own.slice(part.end - index);
    return { title, line: lineAt(text, index), text: own };
  });
}

const hashOf = (text: string) => createHash("sha256").update(text.replace(/\s+/g, " ")).digest("hex").slice(0, 8);

/** What begins each generated part of a page. */
const marksIn = ({ directives }: Page) =>
  directives.map(({ inline, kind, args }) => (inline ? `<!--= ${kind} ${args} -->` : `<!-- sync: ${kind} ${args} -->`));

/**
 * Warns of sections whose English text has changed, and of generated parts that only the English page has: whoever changed it
 * may not know Chinese. Below each heading of a Chinese page, `<!-- en: HASH -->` names the version of the English section it
 * was last compared with.
 */
export function checkTranslation(root: string, page: Page, report: Report, warn: Report): void {
  const file = originalOf(page.file);
  if (!file) return;
  if (!existsSync(join(root, file))) {
    report(page.file, `it translates ${file}, which doesn't exist: delete it, or rename it like the English page`);
    return;
  }
  const original = readPage(root, file, () => {});
  for (const mark of marksIn(original)) {
    if (!marksIn(page).includes(mark)) warn(page.file, `${file} has ${mark}: add it here`);
  }
  for (const mark of marksIn(page)) {
    if (!marksIn(original).includes(mark)) report(page.file, `${file} has no ${mark}: remove it here`);
  }
  const [english, chinese] = [sectionsOf(original), sectionsOf(page)];
  if (english.length !== chinese.length) {
    warn(page.file, `it has ${chinese.length} sections, and ${file} has ${english.length}: write the same ones`);
    return;
  }
  for (const [i, { line, text }] of chinese.entries()) {
    const { title, text: wanted } = english[i] ?? { title: "", text: "" };
    const [, hash = "none"] = /<!-- en: (\w+) -->/.exec(text) ?? [];
    const now = hashOf(wanted);
    if (hash !== now)
      warn(`${page.file}:${line}`, `"${title}" in ${file} has changed: compare, then set <!-- en: ${now} -->`);
  }
}
