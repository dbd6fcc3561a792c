/** What the site makes of the pages' Markdown, which stays as it reads well anywhere. */
import { posix, relative } from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { diffTable, type Highlight } from "./code.ts";
import { addressOf, counterpartOf, demoNumbers, lessons, ROOT, read, translated, withClone } from "./files.ts";
import { player, stepOf } from "./player.ts";
import { SECTIONS } from "./sections.ts";
import { words } from "./words.ts";

type Env = { path: string; realPath?: string; frontmatter?: { file?: string; prefix?: string }; isRead?: boolean };
type Token = ReturnType<MarkdownRenderer["parse"]>[number];

const SHORT = 16; // characters of a cell that stays on one line
const LONG = 40; // characters of a cell whose table becomes blocks on a narrow screen

/** The file that a page's text is from, and the language of the page. */
function origin({ path, realPath, frontmatter }: Env) {
  const file = frontmatter?.file ?? relative(ROOT, realPath ?? path);
  return { file, prefix: frontmatter?.prefix ?? (file.startsWith("docs/zh/") ? "zh/" : "") };
}
const lessonOf = (file: string) => lessons.get(/^docs\/(?:zh\/)?(s\d\d)_/.exec(file)?.[1] ?? "");

export function configure(md: MarkdownRenderer): void {
  const highlight: Highlight = (...args) => md.options.highlight?.(...args) ?? "";

  // The picture of a context becomes the viewer; a lesson gets its player, and its table of regions a link to the diff.
  md.core.ruler.before("normalize", "embed", (state) => {
    const { file, prefix } = origin(state.env);
    const { diff, viewer, demo } = words(prefix);
    const lesson = lessonOf(file);
    state.src = withClone(state.src)
      .replace(/^<!-- sync: changes (s\d\d) -->$/gm, (mark, name) =>
        lessons.get(name)?.before ? `[${diff}](/${prefix}changes/${name}.html)\n\n${mark}` : mark,
      )
      .replace(/^!\[([^\]"]*)\]\([\w./]*figures\/demo(?:\.zh)?\.svg\)$/gm, '<ContextDemo alt="$1" />');
    if (lesson) state.src = state.src.replace("\n## ", `\n\`\`\`player ${lesson.name} whole\n\`\`\`$&`);
    if (file === "docs/README.md" || file === "docs/zh/index.md") {
      const [commands] = /```sh\n.*?\n```/s.exec(withClone(read(translated("README.md", prefix)))) ?? [];
      const picture = `## ${viewer}\n\n${demo(...demoNumbers())}\n\n<ContextDemo alt="${viewer}" />`;
      state.src = `\`\`\`player s01\n\`\`\`\n\n${state.src.replace(/^## /m, `${commands}\n\n${picture}\n\n$&`)}`;
    }
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

  // Each heading knows the same one in the other language, which has the same sections, and the step of the run that it is about.
  md.core.ruler.push("sections", (state) => {
    const { file } = origin(state.env);
    if (state.env.isRead) return;
    const lesson = lessonOf(file);
    const other = counterpartOf(file);
    const others = other ? idsOf(md.parse(read(other), { path: `${ROOT}/${other}`, isRead: true })) : [];
    const own = idsOf(state.tokens);
    const english = file.startsWith("docs/zh/") ? others : own;
    for (const section of Object.keys(SECTIONS[lesson?.name ?? ""] ?? {}))
      if (!english.includes(section)) throw new Error(`${file} has no section ${section}`);
    for (const [i, heading] of headings(state.tokens).entries()) {
      if (other) heading.attrSet("data-other", others[i] ?? "");
      const step = lesson && stepOf(lesson.name, english[i] ?? "");
      if (step !== undefined) heading.attrSet("data-at", String(step));
    }
  });

  md.core.ruler.push("tables", ({ tokens }) => {
    for (const [i, token] of tokens.entries()) {
      if (token.type !== "table_open") continue;
      const end = tokens.findIndex(({ type }, j) => j > i && type === "table_close");
      const cells = tokens.slice(i, end).flatMap((cell, j) => {
        const text = tokens[i + j + 1];
        return text && /^t[hd]_open$/.test(cell.type) ? [{ cell, text: textOf(text) }] : [];
      });
      const heads = cells.filter(({ cell }) => cell.type === "th_open");
      for (const [j, { cell, text }] of cells.entries()) {
        cell.attrSet("data-head", heads[j % heads.length]?.text ?? "");
        if (widthOf(text) <= SHORT) cell.attrJoin("class", "short");
      }
      token.attrSet("class", cells.some(({ text }) => widthOf(text) > LONG) ? "blocks" : "scrolls");
    }
  });
  md.renderer.rules.table_open = (tokens, i, options, _, self) =>
    `<div class="table" tabindex="0">${self.renderToken(tokens, i, options)}`;
  md.renderer.rules.table_close = () => "</table></div>";

  const { fence, text } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, i, options, env, self) => {
    const { info = "" } = tokens[i] ?? {};
    const [kind, name, region] = info.split(" ");
    if (kind === "diff-table" && name && region) return diffTable(name, region, highlight);
    if (kind === "player" && name) return player(name, origin(env).prefix, highlight, region === "whole");
    const html = fence?.(tokens, i, options, env, self) ?? "";
    if (kind === "text") return diagram(html, tokens[i]?.content ?? "");
    return html;
  };
  // Two braces in a page's text are text, no expression of Vue.
  md.renderer.rules.text = (...args) => (text?.(...args) ?? "").replaceAll("{{", "&#123;&#123;");
}

/** What fonts draw in a width of their own: in a diagram each gets the width of one letter or of two. */
const ARROW = /[▲▶▼◀→←↑↓…]/g;
const WIDE = /[⺀-鿿！-｠]/g;

const widthOf = (text: string) => text.replace(WIDE, "ww").length;
const DEEP = 24; // characters

/** A diagram's lines meet. A line that is too long goes on under its last column, and nothing is cut. */
function diagram(html: string, text: string): string {
  const columns = (line: string) => [...line.matchAll(/ {2,}(?=\S)/g)].map(({ 0: gap, index }) => index + gap.length);
  const gaps = text.split("\n").map((line) => columns(line).findLast((column) => column <= DEEP) ?? 2);
  let line = 0;
  return html
    .replace(/<span class="line">/g, () => `<span class="line" style="--gap: ${gaps[line++]}ch">`)
    .replace(ARROW, "<i>$&</i>")
    .replace(WIDE, '<i class="wide">$&</i>');
}

const headings = (tokens: Token[]) => tokens.filter(({ type }) => type === "heading_open");
const idsOf = (tokens: Token[]) => headings(tokens).map((heading) => heading.attrGet("id") ?? "");
const textOf = ({ children }: Token) =>
  (children ?? []).map(({ type, content }) => (type === "html_inline" ? "" : content)).join("");
