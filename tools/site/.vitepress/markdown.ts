/** What the site makes of the pages' Markdown, which stays as it reads well anywhere. */
import { posix, relative } from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { diffTable, type Highlight } from "./code.ts";
import { addressOf, lessons, ROOT } from "./files.ts";
import { words } from "./words.ts";

type Env = { path: string; realPath?: string; frontmatter?: { file?: string; prefix?: string } };

/** The file that a page's text is from, and the language of the page. */
function origin({ path, realPath, frontmatter }: Env) {
  const file = frontmatter?.file ?? relative(ROOT, realPath ?? path);
  return { file, prefix: frontmatter?.prefix ?? (file.startsWith("docs/zh/") ? "zh/" : "") };
}

export function configure(md: MarkdownRenderer): void {
  // A lesson's table of regions gets a link to the diff, and the picture of a context becomes the viewer.
  md.core.ruler.before("normalize", "embed", (state) => {
    const { prefix } = origin(state.env);
    state.src = state.src
      .replace(/^<!-- sync: changes (s\d\d) -->$/gm, (mark, name) =>
        lessons.get(name)?.before ? `[${words(prefix).diff}](/${prefix}changes/${name}.html)\n\n${mark}` : mark,
      )
      .replace(/^!\[([^\]"]*)\]\([\w./]*figures\/demo(?:\.zh)?\.svg\)$/gm, '<ContextDemo alt="$1" />');
  });

  md.core.ruler.push("addresses", (state) => {
    const { file, prefix } = origin(state.env);
    for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
      const attribute = token.type === "image" ? "src" : "href";
      const link = token.attrGet(attribute);
      if (!link || /^([a-z]+:|[#/])/.test(link)) continue;
      const image = `/${posix.join(posix.dirname(file), link)}`;
      token.attrSet(attribute, token.type === "image" ? image : addressOf(link, file, prefix));
    }
  });

  const { fence, text } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, i, options, env, self) => {
    const [kind, name, region] = tokens[i]?.info.split(" ") ?? [];
    if (kind === "diff-table" && name && region) return diffTable(name, region, md.options.highlight as Highlight);
    return fence?.(tokens, i, options, env, self) ?? "";
  };
  // Two braces in a page's text are text, no expression of Vue.
  md.renderer.rules.text = (...args) => (text?.(...args) ?? "").replaceAll("{{", "&#123;&#123;");
}
