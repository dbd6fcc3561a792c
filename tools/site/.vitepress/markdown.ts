/** Changes the pages' Markdown for the site. The files themselves stay readable on GitHub. */
import { posix, relative } from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { functionAround } from "../../lesson/lines.ts";
import type { Lesson } from "../../lesson/source.ts";
import { placeOf, player } from "../player/player.ts";
import { SECTIONS } from "../player/sections.ts";
import { addedLines, type Highlight, indentOf } from "./code.ts";
import {
  addressOnSite,
  counterpartOf,
  isInRepository,
  lessons,
  ROOT,
  textOfFile,
  translated,
  withClone,
} from "./files.ts";
import { words } from "./words.ts";

type Env = { path: string; realPath?: string; isCounterpart?: boolean };
type Token = ReturnType<MarkdownRenderer["parse"]>[number];

const SHORT = 16; // the longest cell, in characters, that stays on one line
const LONG = 40; // a table with a longer cell than this turns into blocks on a narrow screen

/** The file that a page is made from, and the prefix of its language. */
function sourceOf({ path, realPath }: Env) {
  const file = relative(ROOT, realPath ?? path);
  return { file, prefix: file.startsWith("docs/zh/") ? "zh/" : "" };
}
const lessonOfPage = (file: string) => lessons.get(/^docs\/(?:zh\/)?(s\d\d)_/.exec(file)?.[1] ?? "");

export function configure(md: MarkdownRenderer): void {
  md.core.ruler.before("normalize", "adapt", (state) => {
    const { file, prefix } = sourceOf(state.env);
    state.src = adapt(state.src, file, prefix);
  });
  addressLinks(md);
  markSections(md);
  shapeTables(md);
  setRenderers(md);
}

/** Adds the player and links to pages that only the site has, and shortens the line of links, which the menu replaces. */
function adapt(text: string, file: string, prefix: string): string {
  const { diff, smallerRun, place } = words(prefix);
  const lesson = lessonOfPage(file);
  const number = place(Number(lesson?.name.slice(1)), lessons.size);
  const page = withClone(text)
    .replace(/^(# .*\n(?:<!--.*\n)?\n)(\[(?:.*\n)+?)\n/, (_, title, links: string) => {
      const kept = links.split(/\s·\s/).filter((link) => lesson && /^(\*\*|\[←|.*→\])/.test(link));
      return `${title}${kept.join(" · ").replace(/\*\*.*\*\*/, number)}\n\n`;
    })
    .replace(/^<!-- sync: changes (s\d\d) -->$/gm, (mark, name) =>
      lessons.get(name)?.before ? `[${diff}](/${prefix}changes/${name}.html)\n\n${mark}` : mark,
    )
    .replace(/^!\[.*figures\/demo.*\)$/gm, `[$&](/${prefix}viewer.html)`)
    .replace(/figures\/demo.*?\n(?=\n## )/s, lesson ? `$&\n${smallerRun}\n` : "$&");
  if (file === "docs/README.md" || file === "docs/zh/index.md") return frontPage(page, prefix);
  return lesson ? page.replace(/\n## (?:Idea|思路)\n.*?(?=\n## )/s, `$&\n\`\`\`player ${lesson.name}\n\`\`\`\n`) : page;
}

function frontPage(page: string, prefix: string): string {
  const { title, tagline, start, ownSession, viewer, demo } = words(prefix);
  const [, time = ""] = /^\|.*\(s01_.*\| (.*?) \|$/m.exec(page) ?? [];
  const s01 = `/${prefix}s01_agent_loop.html`;
  const buttons = `<div class="start">\n\n[${start("s01", time)}](${s01}) [${ownSession}](/${prefix}viewer.html)\n\n</div>`;
  const [commands] = /```sh\n.*?\n```/s.exec(withClone(textOfFile(translated("README.md", prefix)))) ?? [];
  const figure = prefix ? "../figures/demo.zh.svg" : "figures/demo.svg";
  const picture = `## ${viewer}\n\n${demo}\n\n[![${viewer}](${figure})](/${prefix}viewer.html)`;
  return page
    .replace(/^# .*$/m, `# ${title}\n\n${tagline}\n\n${buttons}`)
    .replace("<!-- /sync -->", "$&\n\n```player s01 loop\n```")
    .replace(/^## /m, `${commands}\n\n${picture}\n\n$&`);
}

function addressLinks(md: MarkdownRenderer): void {
  md.core.ruler.push("addresses", (state) => {
    const { file } = sourceOf(state.env);
    for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
      const attribute = token.type === "image" ? "src" : "href";
      const link = token.attrGet(attribute);
      if (!link || /^([a-z]+:|[#/])/.test(link)) continue;
      const image = `/${posix.join(posix.dirname(file), link)}`;
      token.attrSet(attribute, token.type === "image" ? image : addressOnSite(link, file));
    }
  });
}

/** Gives each heading its counterpart in the other language and, on a lesson's page, its place in the recorded run. */
function markSections(md: MarkdownRenderer): void {
  md.core.ruler.push("sections", (state) => {
    const { file, prefix } = sourceOf(state.env);
    if (state.env.isCounterpart) return;
    const own = idsOf(state.tokens);
    const other = counterpartOf(file);
    const others = other ? idsOf(md.parse(textOfFile(other), { path: `${ROOT}/${other}`, isCounterpart: true })) : [];
    for (const [i, heading] of headings(state.tokens).entries())
      if (other) heading.attrSet("data-other", others[i] ?? "");
    const lesson = lessonOfPage(file);
    if (lesson) linkToRun(lesson, state.tokens, prefix ? others : own, words(prefix));
  });
}

/** `ids` are those of the English headings, which `SECTIONS` names. */
function linkToRun(lesson: Lesson, tokens: Token[], ids: string[], labels: ReturnType<typeof words>): void {
  const missing = Object.keys(SECTIONS[lesson.name] ?? {}).filter((section) => !ids.includes(section));
  if (missing.length > 0) throw new Error(`sections.ts: ${lesson.name} has no section ${missing.join(", ")}`);
  for (const [i, heading] of headings(tokens).entries()) {
    const { at, lines = quotedIn(tokens, heading) } = placeOf(lesson.name, ids[i] ?? "");
    if (at !== undefined) {
      heading.attrSet("data-at", String(at));
      addStepLink(tokens, heading, at, labels.showStep);
    } else if (lines) {
      heading.attrSet("data-lines", lines);
      heading.attrSet("data-inside", functionAround(Number.parseInt(lines, 10) - 1, lesson));
      heading.attrSet("data-says", labels.player.lines);
    }
  }
}

/** The first lines that a section quotes. */
function quotedIn(tokens: Token[], heading: Token): string | undefined {
  const section = tokens.slice(tokens.indexOf(heading) + 1);
  const end = section.findIndex(({ type }) => type === "heading_open");
  const quotes = section.slice(0, end < 0 ? undefined : end).filter(({ content }) => content.startsWith("<sub>"));
  const [, from, to] = /#L(\d+)-L(\d+)/.exec(quotes[0]?.content ?? "") ?? [];
  return from && `${from}-${to}`;
}

/** The link that a phone shows beside a heading, because the player isn't beside the text there. */
function addStepLink(tokens: Token[], heading: Token, step: number, label: string): void {
  const { children } = tokens[tokens.indexOf(heading) + 1] ?? {};
  const html = `<a class="to-step ignore-header vp-raw" href="#run" data-step="${step}" aria-label="${label}"></a>`;
  children?.push(Object.assign(Object.create(heading), { type: "html_inline", content: html }));
}

function shapeTables(md: MarkdownRenderer): void {
  md.core.ruler.push("tables", ({ tokens }) => {
    for (const [i, token] of tokens.entries()) if (token.type === "table_open") shapeTable(token, tokens.slice(i));
  });
  md.renderer.rules.table_open = (tokens, i, options, _, self) =>
    `<div class="table" tabindex="0">${self.renderToken(tokens, i, options)}`;
  md.renderer.rules.table_close = () => "</table></div>";
}

/** `tokens` begin with the table. */
function shapeTable(table: Token, tokens: Token[]): void {
  const end = tokens.findIndex(({ type }) => type === "table_close");
  const cells = tokens.slice(0, end).flatMap((cell, i) => {
    const [content, close] = tokens.slice(i + 1);
    return content && close && /^t[hd]_open$/.test(cell.type) ? [{ cell, close, text: textOfCell(content) }] : [];
  });
  const heads = cells.filter(({ cell }) => cell.type === "th_open");
  for (const { cell, close } of heads.filter(({ text }) => text === "")) cell.tag = close.tag = "td";
  for (const [i, { cell, text }] of cells.entries()) {
    cell.attrSet("data-head", heads[i % heads.length]?.text ?? "");
    if (columnsOf(text) <= SHORT) cell.attrJoin("class", "short");
  }
  table.attrSet("class", cells.some(({ text }) => columnsOf(text) > LONG) ? "blocks" : "scrolls");
}

function setRenderers(md: MarkdownRenderer): void {
  const highlight: Highlight = (...args) => md.options.highlight?.(...args) ?? "";
  const { fence, image } = md.renderer.rules;
  md.renderer.rules.image = (tokens, i, ...rest) => {
    const html = image?.(tokens, i, ...rest) ?? "";
    const narrow = tokens[i]?.attrGet("src")?.replace(/\.svg$/, ".narrow.svg") ?? ""; // drawn for narrow screens
    return isInRepository(narrow.slice(1))
      ? `<picture><source media="(max-width: 640px)" srcset="${narrow}">${html}</picture>`
      : html;
  };
  md.renderer.rules.fence = (tokens, i, options, env, self) => {
    const { info = "", content = "" } = tokens[i] ?? {};
    const [kind, name = "", more = ""] = info.split(" ");
    if (kind === "added") return addedLines(name, more, highlight);
    if (kind === "player") return player(name, sourceOf(env).prefix, highlight, more !== "loop");
    const html = fence?.(tokens, i, options, env, self) ?? "";
    if (kind === "ts") {
      const lines = content.split("\n").values();
      return html.replaceAll('<span class="line"', (line) => `${line} ${indentOf(lines.next().value)}`);
    }
    if (kind !== "text") return html;
    const column = ALIGNED.exec(content)?.[0].length;
    const aligned = column ? html.replace('class="', `style="--column: ${column}ch" class="aligned `) : html;
    const drawn = /[│▶▼┘█]| \| /.test(content) ? html.replace('class="', 'class="drawn ') : aligned;
    return drawn.replace(ARROW, "<i>$&</i>").replace(WIDE, '<i class="wide">$&</i>');
  };
}

/** What stands before the last column in a listing of messages. */
const ALIGNED = /^(?:user|assistant) {2,}\S+ {2,}/m;
// In a diagram, arrows get the width of one letter and wide characters that of two, whatever the font does.
const ARROW = /[▲▶▼◀→←↑↓…]/g;
const WIDE = /[⺀-鿿！-｠]/g;

const columnsOf = (text: string) => text.replace(WIDE, "ww").length;
const headings = (tokens: Token[]) => tokens.filter(({ type }) => type === "heading_open");
const idsOf = (tokens: Token[]) => headings(tokens).map((heading) => heading.attrGet("id") ?? "");
const textOfCell = ({ children }: Token) =>
  (children ?? []).map(({ type, content }) => (type === "html_inline" ? "" : content)).join("");
