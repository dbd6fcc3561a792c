/** Which file of the repository is on which page of the site. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { FENCE } from "../../docs/page.ts";
import { originalOf } from "../../docs/translation.ts";
import { readLessons } from "../../lesson/source.ts";

/** VitePress loads this from a bundle beside the config, which is in the same folder. */
export const ROOT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
export const lessons = readLessons(ROOT);
export const has = (file: string) => existsSync(join(ROOT, file));
export const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const list = (folder: string) =>
  has(folder) ? readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`) : [];

/** The Markdown files that are pages, before the site adds its own. */
export const pages = ["README.md", "CONTRIBUTING.md", "tools/README.md", ...list("docs"), ...list("docs/zh")].filter(
  (file) => file.endsWith(".md"),
);
/** What the addresses of a language begin with. There is no Chinese site without a Chinese front page. */
export const prefixes = has("docs/zh/index.md") ? ["", "zh/"] : [""];
export const titleOf = (file: string) => /^# (.*)$/m.exec(read(file))?.[1] ?? basename(file);

/** docs/README.md → index, docs/zh/s01_agent_loop.md → zh/s01_agent_loop, README.md → readme */
export function pageOf(file: string): string {
  if (file === "docs/README.md") return "index";
  const page = file.replace(/\.md$/, "").replace(/^(docs|tools\/site\/pages)\//, "");
  return page.replace(/README|CONTRIBUTING/, (name) => name.toLowerCase());
}

/** The English file, or its translation if there is one. */
export function translated(file: string, prefix: string): string {
  const translation = pages.find((each) => prefix !== "" && originalOf(each) === file);
  return translation ?? file;
}

/** The same page in the other language. */
export function counterpartOf(file: string): string | undefined {
  const original = originalOf(file);
  return original ?? pages.find((page) => originalOf(page) === file);
}

/** Where the code can be had. The workflow that publishes the site knows it; without it no page names it. */
const { REPOSITORY } = process.env;
export const socialLinks = (repository = REPOSITORY) =>
  repository ? [{ icon: "github" as const, link: repository, ariaLabel: "repository" }] : [];
/** The commands of a page begin with how one gets the code. */
export const withClone = (text: string, repository = REPOSITORY) =>
  repository
    ? text.replace(/^(```sh\n)(?=npm ci )/m, `$1git clone ${repository} && cd ${basename(repository)}\n`)
    : text;

/** Where a link of a file leads on the site. */
export function addressOf(link: string, from: string): string {
  const [path = "", hash] = link.split("#");
  const target = posix.join(posix.dirname(from), decodeURIComponent(path)).replace(/\/$/, "");
  if (!has(target)) throw new Error(`${from}: dead link ${link}`);
  const page = pages.includes(target) ? pageOf(target) : `source/${target}`;
  return `/${page}.html`.replace(/\bindex\.html$/, "") + (hash ? `#${hash}` : "");
}

/** The files and folders that pages link to and that are no pages themselves; of a folder, its programs. */
export function linkedFiles(): string[] {
  const found = new Set<string>();
  for (const page of pages)
    for (const [, path = ""] of read(page)
      .replace(FENCE, "")
      .matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)) {
      const target = posix.join(posix.dirname(page), path).replace(/\/$/, "");
      if (!has(target) || pages.includes(target) || /\.(svg|png)$/.test(target)) continue;
      found.add(target);
      for (const file of isFolder(target) ? programsIn(target) : []) found.add(file);
    }
  return [...found].sort();
}

export const isFolder = (file: string) => statSync(join(ROOT, file)).isDirectory();
export const programsIn = (folder: string) => list(folder).filter((file) => file.endsWith(".ts"));
