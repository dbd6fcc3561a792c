/** Makes the pages that have no Markdown file: sources, changes, and the viewer. */
import { regionChanges } from "../../lesson/source.ts";
import {
  isFolder,
  lessons,
  linkedFiles,
  pageNameOf,
  prefixes,
  programsIn,
  textOfFile,
  titleOf,
} from "../.vitepress/files.ts";
import { words } from "../.vitepress/words.ts";

type Page = { params: { page: string }; content: string };
const frontmatter = (pageClass: string) =>
  `---\n${JSON.stringify({ pageClass: `wide ${pageClass}`, aside: false, prev: false, next: false })}\n---\n`;

function sourcePage(file: string): Page {
  const text = isFolder(file)
    ? programsIn(file)
        .map((each) => `- [${each}](/source/${each}.html)`)
        .join("\n")
    : `\`\`\`\`\`\`${file.endsWith(".ts") ? "ts" : "text"}\n${textOfFile(file).trimEnd()}\n\`\`\`\`\`\``;
  return { params: { page: `source/${file}` }, content: `${frontmatter("source")}# ${file}\n\n${text}\n` };
}

function changesPages(name: string, prefix: string): Page[] {
  const lesson = lessons.get(name);
  if (!lesson?.before) return [];
  const { changesOf, lines, states } = words(prefix);
  const regions = regionChanges(lesson).filter(({ state }) => state !== "same");
  const parts = regions.map(({ name: region, region: { from, to }, state, added, removed }) => {
    const link = `[${lines} ${from}–${to}](/source/${lesson.file}.html#L${from}-L${to})`;
    return `## ${region}\n\n${states[state]} · ${link} · +${added} −${removed}\n\n\`\`\`added ${name} ${region}\n\`\`\`\n`;
  });
  const link = (file: string, text: string) => `[${text}](/${prefix}${pageNameOf(file)}.html)`;
  const top = `# ${changesOf(name)}\n\n${link(lesson.before.page, lesson.before.name)} → ${link(lesson.page, titleOf(lesson.page))}\n\n`;
  return [{ params: { page: `${prefix}changes/${name}` }, content: frontmatter("changes") + top + parts.join("\n") }];
}

function viewerPage(prefix: string): Page {
  const { viewer } = words(prefix);
  const content = `${frontmatter("viewer")}# ${viewer}\n\n<ContextViewer alt="${viewer}" />\n`;
  return { params: { page: `${prefix}viewer` }, content };
}

export default {
  watch: ["../../../agents/*.ts", "../../../docs/**/*.md"],
  paths: (): Page[] => [
    ...linkedFiles().map(sourcePage),
    ...prefixes.map(viewerPage),
    ...prefixes.flatMap((prefix) => [...lessons.keys()].flatMap((name) => changesPages(name, prefix))),
  ],
};
