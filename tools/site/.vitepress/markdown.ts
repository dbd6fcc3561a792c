/** What the site makes of the pages' Markdown, which stays as it reads well anywhere. */
import { posix, relative } from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { addedLines, type Highlight } from "./code.ts";
import { addressOf, counterpartOf, has, lessons, ROOT, read, translated, withClone } from "./files.ts";
import { placeOf, player } from "./player.ts";
import { SECTIONS } from "./sections.ts";
import { words } from "./words.ts";

type Env = { path: string; realPath?: string; isRead?: boolean };
type Token = ReturnType<MarkdownRenderer["parse"]>[number];

const SHORT = 16; // characters of a cell that stays on one line
const LONG = 40; // characters of a cell whose table becomes blocks on a narrow screen
const MIDDLE = 4; // the step of the front page's run that it begins at: the first command runs

/** The file that a page's text is from, and the language of the page. */
function origin({ path, realPath }: Env) {
  const file = relative(ROOT, realPath ?? path);
  return { file, prefix: file.startsWith("docs/zh/") ? "zh/" : "" };
}
const lessonOf = (file: string) => lessons.get(/^docs\/(?:zh\/)?(s\d\d)_/.exec(file)?.[1] ?? "");

export function configure(md: MarkdownRenderer): void {
  md.core.ruler.before("normalize", "embed", (state) => {
    const { file, prefix } = origin(state.env);
    state.src = adapt(state.src, file, prefix);
  });
  addressLinks(md);
  markSections(md);
  shapeTables(md);
  render(md);
}

/** A page gets what the site alone has: its player, the way to the viewer, and to what changed. It has a menu of its own. */
function adapt(text: string, file: string, prefix: string): string {
  const { diff } = words(prefix);
  const lesson = lessonOf(file);
  const page = withClone(text)
    .replace(/^(# .*\n(?:<!--.*\n)?\n)\[(?:.*\n)+?\n/, "$1")
    .replace(/^<!-- sync: changes (s\d\d) -->$/gm, (mark, name) =>
      lessons.get(name)?.before ? `[${diff}](/${prefix}changes/${name}.html)\n\n${mark}` : mark,
    )
    .replace(/^!\[.*figures\/demo.*\)$/gm, `[$&](/${prefix}viewer.html)`);
  if (file === "docs/README.md" || file === "docs/zh/index.md") return frontPage(page, prefix);
  return lesson ? page.replace("\n## ", `\n\`\`\`player ${lesson.name} 0\n\`\`\`$&`) : page;
}

function frontPage(page: string, prefix: string): string {
  const { title, tagline, viewer, demo } = words(prefix);
  const [commands] = /```sh\n.*?\n```/s.exec(withClone(read(translated("README.md", prefix)))) ?? [];
  const figure = prefix ? "../figures/demo.zh.svg" : "figures/demo.svg";
  const picture = `## ${viewer}\n\n${demo}\n\n[![${viewer}](${figure})](/${prefix}viewer.html)`;
  return page
    .replace(/^# .*$/m, `# ${title}\n\n${tagline}\n\n\`\`\`player s01 ${MIDDLE}\n\`\`\``)
    .replace(/^## /m, `${commands}\n\n${picture}\n\n$&`);
}

function addressLinks(md: MarkdownRenderer): void {
  md.core.ruler.push("addresses", (state) => {
    const { file } = origin(state.env);
    for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
      const attribute = token.type === "image" ? "src" : "href";
      const link = token.attrGet(attribute);
      if (!link || /^([a-z]+:|[#/])/.test(link)) continue;
      const image = `/${posix.join(posix.dirname(file), link)}`;
      token.attrSet(attribute, token.type === "image" ? image : addressOf(link, file));
    }
  });
}

/** Each heading knows the same one in the other language, which has the same sections, and its place in the run. */
function markSections(md: MarkdownRenderer): void {
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
      if (!lesson) continue;
      const { at, lines = quotedIn(state.tokens, heading) } = placeOf(lesson.name, english[i] ?? "");
      if (at !== undefined) heading.attrSet("data-at", String(at));
      else if (lines) heading.attrSet("data-lines", lines);
    }
  });
}

/** The first lines that a section quotes. */
function quotedIn(tokens: Token[], heading: Token): string | undefined {
  const section = tokens.slice(tokens.indexOf(heading) + 1);
  const end = section.findIndex(({ type }) => type === "heading_open");
  const quotes = section.slice(0, end < 0 ? undefined : end).filter(({ content }) => content.startsWith("<sub>"));
  const [, from, to] = /#L(\d+)-L(\d+)/.exec(quotes[0]?.content ?? "") ?? [];
  return from && `${from}-${to}`;
}

function shapeTables(md: MarkdownRenderer): void {
  md.core.ruler.push("tables", ({ tokens }) => {
    for (const [i, token] of tokens.entries()) {
      if (token.type !== "table_open") continue;
      const end = tokens.findIndex(({ type }, j) => j > i && type === "table_close");
      const cells = tokens.slice(i, end).flatMap((cell, j) => {
        const [text, close] = tokens.slice(i + j + 1);
        return text && close && /^t[hd]_open$/.test(cell.type) ? [{ cell, close, text: textOf(text) }] : [];
      });
      const heads = cells.filter(({ cell }) => cell.type === "th_open");
      for (const { cell, close } of heads.filter(({ text }) => text === "")) cell.tag = close.tag = "td";
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
}

function render(md: MarkdownRenderer): void {
  const highlight: Highlight = (...args) => md.options.highlight?.(...args) ?? "";
  const { fence, image, text } = md.renderer.rules;
  md.renderer.rules.image = (tokens, i, ...rest) => {
    const html = image?.(tokens, i, ...rest) ?? "";
    const narrow = tokens[i]?.attrGet("src")?.replace(/\.svg$/, ".narrow.svg") ?? ""; // drawn for narrow screens
    return has(narrow.slice(1))
      ? `<picture><source media="(max-width: 640px)" srcset="${narrow}">${html}</picture>`
      : html;
  };
  md.renderer.rules.fence = (tokens, i, options, env, self) => {
    const { info = "", content = "" } = tokens[i] ?? {};
    const [kind, name = "", more = ""] = info.split(" ");
    if (kind === "added") return addedLines(name, more, highlight);
    if (kind === "player") return player(name, origin(env).prefix, highlight, Number(more));
    const html = fence?.(tokens, i, options, env, self) ?? "";
    if (kind !== "text") return html;
    const drawn = /[│▶▼┘]/.test(content) ? html.replace('class="', 'class="drawn ') : html;
    return drawn.replace(ARROW, "<i>$&</i>").replace(WIDE, '<i class="wide">$&</i>');
  };
  // Two braces in a page's text are text, no expression of Vue.
  md.renderer.rules.text = (...args) => (text?.(...args) ?? "").replaceAll("{{", "&#123;&#123;");
}

/** What fonts draw in a width of their own: in a diagram each gets the width of one letter or of two. */
const ARROW = /[▲▶▼◀→←↑↓…]/g;
const WIDE = /[⺀-鿿！-｠]/g;

const widthOf = (text: string) => text.replace(WIDE, "ww").length;
const headings = (tokens: Token[]) => tokens.filter(({ type }) => type === "heading_open");
const idsOf = (tokens: Token[]) => headings(tokens).map((heading) => heading.attrGet("id") ?? "");
const textOf = ({ children }: Token) =>
  (children ?? []).map(({ type, content }) => (type === "html_inline" ? "" : content)).join("");
