/** Maps files of the repository to pages of the site. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

/** VitePress bundles this file with the config, in this same folder. */
export const ROOT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");
const pagesIn = (folder: string) => {
  const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".md"));
  return names.sort().map((name) => posix.join(folder, name));
};

const OWN = "tools/site/pages";
/** The Markdown files that become pages. */
const pages = [".", "docs", "docs/zh", OWN, `${OWN}/zh`].flatMap(pagesIn);

/** README.md → readme, docs/README.md → lessons, docs/zh/s01_agent_loop.md → zh/s01_agent_loop */
export function nameOf(file: string): string {
  const name = file.replace(/\.md$/, "").replace(/^(docs\/zh)\/index$|^(docs)\/README$/, "$1$2/lessons");
  return name.replace(/^(docs|tools\/site\/pages)\//, "").replace(/[A-Z]+$/, (word) => word.toLowerCase());
}

const names = pages.map(nameOf);
/** The names of pages in English, and of those that are only in English. */
export const english = names.filter((name) => !name.startsWith("zh/"));
export const englishOnly = english.filter((name) => !names.includes(`zh/${name}`));
const lineIn = (name: string, pattern: RegExp) => {
  const file = pages.find((each) => nameOf(each) === name) ?? "";
  return pattern.exec(textOf(file))?.[1];
};
export const titleOf = (name: string) => lineIn(name, /^# (.*)$/m) ?? name;
/** Returns the sentence below a lesson's title. */
export const ideaOf = (name: string) => lineIn(name, /^> (.*)$/m) ?? "";

/** The repository's address, which CI sets when it publishes the site. */
export const { REPOSITORY } = process.env;

/** Returns the address for a link in `from`. Files that aren't pages are in the repository, and have none without it. */
export function addressOf(link: string, from: string): string | undefined {
  const [path = "", hash] = link.split("#");
  const target = posix.join(posix.dirname(from), decodeURIComponent(path)).replace(/\/$/, "");
  const at = hash ? `#${hash}` : "";
  if (pages.includes(target)) return `/${nameOf(target)}.html${at}`;
  if (!existsSync(join(ROOT, target))) throw new Error(`${from} links to ${link}, which doesn't exist`);
  return REPOSITORY && `${REPOSITORY}/blob/main/${target}${at}`;
}
