/** Maps files of the repository to pages of the site. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { FENCE } from "../../docs/page.ts";
import { originalOf } from "../../docs/translation.ts";
import { readLessons } from "../../lesson/source.ts";

/** VitePress bundles this file with the config, in this same folder. */
export const ROOT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
export const lessons = readLessons(ROOT);
export const isInRepository = (file: string) => existsSync(join(ROOT, file));
export const textOfFile = (file: string) => readFileSync(join(ROOT, file), "utf8");
const filesIn = (folder: string) => readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`);

/** The Markdown files of the repository that become pages. */
export const markdownPages = [
  "README.md",
  "CONTRIBUTING.md",
  "tools/README.md",
  ...filesIn("docs"),
  ...filesIn("docs/zh"),
].filter((file) => file.endsWith(".md"));
/** The start of each language's addresses. */
export const prefixes = ["", "zh/"];
export const titleOf = (file: string) => /^# (.*)$/m.exec(textOfFile(file))?.[1] ?? basename(file);

/** docs/README.md → index, docs/zh/s01_agent_loop.md → zh/s01_agent_loop, README.md → readme */
export function pageNameOf(file: string): string {
  if (file === "docs/README.md") return "index";
  const page = file.replace(/\.md$/, "").replace(/^(docs|tools\/site\/pages)\//, "");
  return page.replace(/README|CONTRIBUTING/, (name) => name.toLowerCase());
}

/** The English file, or its translation if there is one. */
export function translated(file: string, prefix: string): string {
  return (prefix && markdownPages.find((each) => originalOf(each) === file)) || file;
}

/** The same page in the other language. */
export function counterpartOf(file: string): string | undefined {
  const original = originalOf(file);
  return original ?? markdownPages.find((page) => originalOf(page) === file);
}

/** The repository's address, which CI sets when it publishes the site. */
const { REPOSITORY } = process.env;
export const socialLinks = REPOSITORY ? [{ icon: "github" as const, link: REPOSITORY, ariaLabel: "repository" }] : [];
/** Puts `git clone` before the first commands of a page. */
export const withClone = (text: string) =>
  REPOSITORY
    ? text.replace(/^(```sh\n)(?=npm ci )/m, `$1git clone ${REPOSITORY} && cd ${basename(REPOSITORY)}\n`)
    : text;

/** The address for a link in `from`. VitePress checks that the page exists. */
export function addressOnSite(link: string, from: string): string {
  const [path = "", hash] = link.split("#");
  const target = posix.join(posix.dirname(from), decodeURIComponent(path)).replace(/\/$/, "");
  const page = markdownPages.includes(target) ? pageNameOf(target) : `source/${target}`;
  return `/${page}.html`.replace(/\bindex\.html$/, "") + (hash ? `#${hash}` : "");
}

/** The sources that pages link to, and the programs in the folders that they link to. */
export function linkedFiles(): string[] {
  const found = new Set<string>();
  for (const page of markdownPages)
    for (const [, path = ""] of textOfFile(page)
      .replace(FENCE, "")
      .matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)) {
      const target = posix.join(posix.dirname(page), path).replace(/\/$/, "");
      if (!isInRepository(target) || markdownPages.includes(target) || /\.(svg|png)$/.test(target)) continue;
      found.add(target);
      for (const file of isFolder(target) ? programsIn(target) : []) found.add(file);
    }
  return [...found].sort();
}

export const isFolder = (file: string) => statSync(join(ROOT, file)).isDirectory();
export const programsIn = (folder: string) => filesIn(folder).filter((file) => file.endsWith(".ts"));
