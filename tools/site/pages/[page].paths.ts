/** The pages that no Markdown file is there for: sources, diffs, the viewer, and English pages within the Chinese site. */
import { changes } from "../../docs/lessons.ts";
import {
  isFolder,
  lessons,
  linkedFiles,
  pageOf,
  pages,
  prefixes,
  programsIn,
  read,
  titleOf,
} from "../.vitepress/files.ts";
import { words } from "../.vitepress/words.ts";

type Page = { params: { page: string }; content: string };
const frontmatter = (fields: object) => `---\n${JSON.stringify(fields)}\n---\n`;

function source(file: string, prefix: string): Page {
  const text = isFolder(file)
    ? programsIn(file)
        .map((each) => `- [${each}](/${prefix}source/${each}.html)`)
        .join("\n")
    : `\`\`\`\`\`\`${file.endsWith(".ts") ? "ts" : "text"}\n${read(file).trimEnd()}\n\`\`\`\`\`\``;
  const fields = frontmatter({ pageClass: "wide source", aside: false, prev: false, next: false });
  return { params: { page: `${prefix}source/${file}` }, content: `${fields}# ${file}\n\n${text}\n` };
}

function difference(name: string, prefix: string): Page[] {
  const lesson = lessons.get(name);
  if (!lesson?.before) return [];
  const { changesOf, onlyNew, sideBySide, lines, states } = words(prefix);
  const form = (value: string, label: string, more = "") =>
    `<label><input type="radio" name="form" value="${value}"${more}> ${label}</label>`;
  const regions = changes(lesson).filter(({ state }) => state !== "same");
  const parts = regions.map(({ name: region, region: { from, to }, state, added, removed }) => {
    const link = `[${lines} ${from}–${to}](/${prefix}source/${lesson.file}.html#L${from}-L${to})`;
    const label = state === "new" ? states.new : states.changed;
    return `## ${region}\n\n${label} · ${link} · +${added} −${removed}\n\n\`\`\`diff-table ${name} ${region}\n\`\`\`\n`;
  });
  const top = `# ${changesOf} ${name}\n\n[${lesson.before.name}](/${prefix}${pageOf(lesson.before.page)}.html) → [${titleOf(lesson.page)}](/${prefix}${pageOf(lesson.page)}.html)\n\n`;
  const forms = `<p class="form">${form("new", onlyNew, " checked")} ${form("both", sideBySide)}</p>\n\n`;
  const fields = frontmatter({ pageClass: "wide changes", aside: false, prev: false, next: false });
  return [{ params: { page: `${prefix}changes/${name}` }, content: fields + top + forms + parts.join("\n") }];
}

function viewer(prefix: string): Page {
  const { viewer, viewerIntro } = words(prefix);
  const content = `${frontmatter({ pageClass: "wide viewer", aside: false })}# ${viewer}\n\n${viewerIntro}\n\n<ContextDemo full alt="${viewer}" />\n`;
  return { params: { page: `${prefix}viewer` }, content };
}

function inEnglish(file: string): Page {
  const fields = frontmatter({ file, prefix: "zh/" });
  const content = `${fields}${read(file).replace(/^# .*$/m, `$&\n\n> ${words("zh/").untranslated}`)}`;
  return { params: { page: `zh/${pageOf(file)}` }, content };
}

export default {
  watch: ["../../../agents/*.ts", "../../../docs/**/*.md"],
  paths(): Page[] {
    const own = prefixes.flatMap((prefix) => [
      viewer(prefix),
      ...linkedFiles().map((file) => source(file, prefix)),
      ...[...lessons.keys()].flatMap((name) => difference(name, prefix)),
    ]);
    const english = pages.filter((file) => !file.startsWith("docs/zh/"));
    const missing = english.filter((file) => !pages.some((page) => pageOf(page) === `zh/${pageOf(file)}`));
    return [...own, ...(prefixes.includes("zh/") ? missing.map(inEnglish) : [])];
  },
};
