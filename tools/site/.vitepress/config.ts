import { relative } from "node:path";
import GithubSlugger from "github-slugger";
import { type DefaultTheme, defineConfig, type MarkdownRenderer } from "vitepress";
import { addressOf, english, englishOnly, ideaOf, nameOf, REPOSITORY, ROOT, titleOf } from "./files.ts";

/** Splits Chinese, which has no spaces, into words. VitePress stores the function as text, so it can't use anything outside. */
function tokenize(text: string): string[] {
  const segmenter = new Intl.Segmenter("zh", { granularity: "word" });
  const segments = segmenter.segment(text.replace(/[\p{P}\p{S}]/gu, " "));
  return Array.from(segments, ({ segment }) => segment.trim()).filter(Boolean);
}

const FOOTER = {
  "": "MIT license. This site loads nothing from elsewhere.",
  "zh/": "MIT 许可证。本站不加载任何外部资源。",
};
/** Titles in the menu that aren't those of the pages. */
const TITLES: Record<string, Record<string, string>> = {
  "": { readme: "Start here" },
  "zh/": {
    readme: "从这里开始",
    contributing: "参与贡献",
    api: "本地 API",
    benchmarks: "遗忘的代价",
    promises: "每一课的保证",
    python: "Python → TypeScript",
  },
};
const HANDS_ON = ["readme", "running", "servers", "contributing", "security"];

function itemOf(prefix: string, name: string) {
  const isTranslated = !englishOnly.includes(name);
  const text = TITLES[prefix]?.[name] ?? titleOf(isTranslated ? prefix + name : name);
  if (isTranslated) return { text, link: `/${prefix}${name}` };
  return { text: prefix ? `${text}（英文）` : text, link: `/${name}` };
}

/** Any page that is neither a lesson nor for trying something out is in the reference. */
function menuOf(prefix: string): DefaultTheme.SidebarItem[] {
  const lessons = ["lessons", ...english.filter((name) => /^s\d\d_/.test(name))];
  const handsOn = HANDS_ON.filter((name) => english.includes(name));
  const reference = english.filter((name) => ![...lessons, ...handsOn, "index"].includes(name));
  const titles = prefix ? ["课程", "动手", "参考"] : ["Lessons", "Hands on", "Reference"];
  return [lessons, handsOn, reference].map((names, i) => ({
    text: titles[i],
    items: names.map((name) => itemOf(prefix, name)),
  }));
}

/** The front page has a card for each lesson. */
function cardsFor(prefix: string): { title: string; details: string; link: string }[] {
  const lessons = english.filter((name) => /^s\d\d_/.test(name) && name !== "s06_keeping_it_alive");
  return lessons.map((name) => {
    const page = prefix + name;
    return { title: titleOf(page), details: ideaOf(page), link: `/${page}` };
  });
}

const ZH: DefaultTheme.Config = {
  outline: { level: [2, 3], label: "本页目录" },
  docFooter: { prev: "上一页", next: "下一页" },
  sidebarMenuLabel: "目录",
  returnToTopLabel: "回到顶部",
  darkModeSwitchLabel: "外观",
  lightModeSwitchTitle: "切换到浅色模式",
  darkModeSwitchTitle: "切换到深色模式",
  langMenuLabel: "切换语言",
  skipToContentLabel: "跳到主要内容",
  notFound: { title: "页面不存在", quote: "这个地址没有对应的页面。", linkLabel: "回到首页", linkText: "回到首页" },
};

const SEARCH_ZH = {
  button: { buttonText: "搜索", buttonAriaLabel: "搜索" },
  modal: {
    displayDetails: "显示详细列表",
    resetButtonTitle: "清除搜索词",
    backButtonTitle: "关闭搜索",
    noResultsText: "没有找到相关内容：",
    footer: { selectText: "打开", navigateText: "移动", closeText: "关闭" },
  },
};

function localeOf(prefix: "" | "zh/") {
  return {
    label: prefix ? "简体中文" : "English",
    lang: prefix ? "zh-CN" : "en",
    title: prefix ? "六课读懂 coding agent" : "A coding agent in six lessons",
    description: prefix
      ? "coding agent 的工作原理：六个脚本，一个晚上读完"
      : "How coding agents work: six scripts to read in one evening",
    themeConfig: {
      siteTitle: prefix ? "六课读懂 agent" : "Six lessons",
      nav: ["lessons", "words"].map((name) => itemOf(prefix, name)),
      sidebar: menuOf(prefix),
      footer: { message: FOOTER[prefix] },
      ...(prefix && ZH),
    },
  };
}

/** Links lead to pages by their names on the site, and to other files in the repository. */
function configure(md: MarkdownRenderer): void {
  md.core.ruler.push("addresses", ({ tokens, env }) => {
    const file = relative(ROOT, env.realPath ?? env.path);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const link = token.attrGet("href");
      if (!link || /^([a-z]+:|[#/])/.test(link)) continue;
      const address = addressOf(link, file);
      token.attrs = address ? [["href", address]] : [];
    }
  });
}

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">
  <path stroke="#5672cd" stroke-width="1.4" d="M1 2h10M1 4h10M1 6h10M1 8h10M1 10h10"/></svg>`;

export default defineConfig({
  srcDir: "../..", // the pages are in docs/
  srcExclude: ["!(docs|tools)/**/*", "tools/!(site)/**/*", "tools/site/!(pages)/**/*", "tools/*.md"],
  outDir: ".vitepress/dist",
  base: `${process.env.BASE ?? ""}/`, // on GitHub Pages, the name of the repository
  rewrites: (page) => `${nameOf(page)}.md`,
  locales: { root: localeOf(""), zh: localeOf("zh/") },
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  themeConfig: {
    i18nRouting: false, // not every page has a translation
    outline: { level: [2, 3] },
    socialLinks: REPOSITORY ? [{ icon: "github", link: REPOSITORY, ariaLabel: "repository" }] : [],
    search: {
      provider: "local",
      options: { miniSearch: { options: { tokenize } }, locales: { zh: { translations: SEARCH_ZH } } },
    },
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" },
    anchor: { slugify: (title) => new GithubSlugger().slug(title) }, // the same links to headings as on GitHub
    attrs: { disable: true },
    config: configure,
  },
  transformPageData({ frontmatter, relativePath }) {
    if (frontmatter.layout === "home") frontmatter.features = cardsFor(relativePath.startsWith("zh/") ? "zh/" : "");
  },
  transformHtml: (html) => html.replace('<div class="VPContent is-home"', '$& role="main"'), // the home layout has no main part
  vite: {
    build: { assetsInlineLimit: 0 }, // figures stay files
  },
});
