import { writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import GithubSlugger from "github-slugger";
import { type DefaultTheme, defineConfig, type MarkdownRenderer, postcssIsolateStyles } from "vitepress";
import { addressOf, englishOnly, lessonFiles, nameOf, REPOSITORY, ROOT, titleOf, withClone } from "./files.ts";

/** Lets pages in `docs/` find Vue, which is installed only in this folder. */
const vue = {
  name: "vue",
  enforce: "pre" as const,
  resolveId: (id: string, _importer: string | undefined, { ssr }: { ssr?: boolean }) =>
    ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : undefined,
};

/** Splits Chinese, which has no spaces, into words. VitePress stores the function as text, so it can't use anything outside. */
const tokenize = (text: string): string[] =>
  text
    .split(/[\s\p{P}\p{S}]+/u)
    .filter(Boolean)
    .flatMap((word) =>
      /\p{Script=Han}/u.test(word)
        ? Array.from(new Intl.Segmenter("zh", { granularity: "word" }).segment(word), ({ segment }) => segment)
        : [word],
    );

const FOOTER = {
  "": "MIT license. This site loads nothing from elsewhere, and what you open in the viewer stays in your browser.",
  "zh/": "MIT 许可证。本站不加载任何外部资源；在查看器中打开的文件不会离开你的浏览器。",
};
/** The groups of the menu, each a list of pages. A page without a title here has its own. */
const MENU = {
  "": {
    Lessons: { lessons: "" },
    Reference: { benchmarks: "What forgetting costs", promises: "", python: "", api: "", words: "" },
    "Hands on": { readme: "Install and run", viewer: "Context viewer", contributing: "Contribute" },
  },
  "zh/": {
    课程: { lessons: "课程目录" },
    参考: {
      benchmarks: "遗忘的代价（英文）",
      promises: "每一课的保证（英文）",
      python: "Python → TypeScript（英文）",
      api: "本地 API（英文）",
      words: "",
    },
    动手: { readme: "安装与运行", viewer: "上下文查看器", contributing: "参与贡献（英文）" },
  },
};

function menuOf(prefix: "" | "zh/"): DefaultTheme.SidebarItem[] {
  const link = ([name, text]: [string, string]) => {
    const page = englishOnly.includes(name) ? name : prefix + name;
    return { text: text || titleOf(page), link: `/${page}` };
  };
  const groups = Object.entries(MENU[prefix]).map(([text, own]) => ({ text, items: Object.entries(own).map(link) }));
  groups[0]?.items.push(...lessonFiles.map((file) => link([nameOf(file), ""])));
  return groups;
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
  const items = menuOf(prefix).flatMap((group) => group.items ?? []);
  const nav = ["lessons", "words", "viewer"].flatMap(
    (name) => items.find(({ link }) => link === `/${prefix}${name}`) ?? [],
  );
  return {
    label: prefix ? "简体中文" : "English",
    lang: prefix ? "zh-CN" : "en",
    title: prefix ? "六课读懂 coding agent" : "A coding agent in six lessons",
    description: prefix
      ? "coding agent 的工作原理：六个脚本，一个晚上读完"
      : "How coding agents work: six scripts to read in one evening",
    themeConfig: {
      siteTitle: prefix ? "六课读懂 agent" : "Six lessons",
      nav: nav as DefaultTheme.NavItemWithLink[],
      sidebar: menuOf(prefix),
      footer: { message: FOOTER[prefix] },
      ...(prefix && ZH),
    },
  };
}

/** Changes a page for the site: the menu replaces the first line of links, and a demo of the viewer is a click away. */
function adapt(text: string, file: string): string {
  const prefix = file.startsWith("docs/zh/") ? "zh/" : "";
  return withClone(text)
    .replace(/^(# .*\n(?:<!--.*\n)?\n)((?:\[|\*\*).* · (?:.*\n)+?)\n/, (_, title, line: string) => {
      const files = line.match(/\[[^\]]+\]\([^)]*\.ts\)/g) ?? [];
      return files.length > 0 ? `${title}${files.join(" · ")}\n\n` : title;
    })
    .replace(/^<picture>.*figures\/demo.*$/m, `[$&](/${prefix}viewer.html)`)
    .replace("<!-- site: the loop, step by step -->", "<LoopStepper />");
}

function configure(md: MarkdownRenderer): void {
  const fileOf = (env: { path: string; realPath?: string }) => relative(ROOT, env.realPath ?? env.path);
  md.core.ruler.before("normalize", "adapt", (state) => {
    state.src = adapt(state.src, fileOf(state.env));
  });
  md.core.ruler.push("addresses", ({ tokens, env }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const link = token.attrGet("href");
      if (link && !/^([a-z]+:|[#/])/.test(link)) token.attrSet("href", addressOf(link, fileOf(env)) ?? "#");
    }
  });
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, i, ...rest) => {
    const token = tokens[i];
    const { info } = token ?? {};
    if (token && info === "console") token.info = "txt"; // output isn't highlighted
    const html = fence?.(tokens, i, ...rest) ?? "";
    if (info === "console") return html.replace(/<span>\$ .*?<\/span>/g, "<b>$&</b>");
    return info === "text" ? html.replace(ARROW, "<i>$&</i>").replace(WIDE, '<i class="wide">$&</i>') : html;
  };
}

// In a diagram, arrows get the width of one letter and wide characters that of two, whatever the font does.
const ARROW = /[▲▶▼◀→←↑↓…]/g;
const WIDE = /[⺀-鿿！-｠]/g;

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">${[1, 3, 5, 7, 9]
  .map((y) => `<rect x="1" y="${y}" width="10" height="1.4" rx=".7" fill="#5672cd"/>`)
  .join("")}</svg>`;

export default defineConfig({
  srcDir: "../..", // the pages are in docs/
  srcExclude: [
    "!(docs|tools)/**/*",
    "tools/!(site)/**/*",
    "tools/site/!(pages)/**/*",
    "!(README|CONTRIBUTING).md",
    "tools/*.md",
  ],
  outDir: ".vitepress/dist",
  base: `${process.env.BASE ?? ""}/`, // on GitHub Pages, the name of the repository
  rewrites: (page) => `${nameOf(page)}.md`,
  locales: { root: localeOf(""), zh: localeOf("zh/") },
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  themeConfig: {
    englishOnly,
    externalLinkIcon: true,
    outline: { level: [2, 3] },
    socialLinks: REPOSITORY ? [{ icon: "github", link: REPOSITORY, ariaLabel: "repository" }] : [],
    search: {
      provider: "local",
      options: { miniSearch: { options: { tokenize } }, locales: { zh: { translations: SEARCH_ZH } } },
    },
  } as DefaultTheme.Config,
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" },
    anchor: { slugify: (title) => new GithubSlugger().slug(title) }, // the same links to headings as on GitHub
    attrs: { disable: true },
    config: configure,
  },
  transformHtml: (html) => html.replace('<div class="VPContent is-home"', '$& role="main"'), // the home layout has no main part
  buildEnd({ outDir }) {
    const toFront =
      '<!DOCTYPE html><meta charset="utf-8"><title>→</title><meta http-equiv="refresh" content="0; url=./">';
    for (const name of englishOnly) writeFileSync(join(outDir, `zh/${name}.html`), toFront); // for the language switch
  },
  vite: {
    plugins: [vue],
    css: { postcss: { plugins: [postcssIsolateStyles({ includeFiles: [/vp-doc\.css/] })] } }, // keeps them off the viewer
    build: {
      assetsInlineLimit: 0,
      chunkSizeWarningLimit: 2000,
      rollupOptions: { onwarn: (warning, warn) => warning.code !== "INVALID_ANNOTATION" && warn(warning) }, // zod has some
    },
  },
});
