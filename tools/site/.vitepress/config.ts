import GithubSlugger from "github-slugger";
import { type DefaultTheme, defineConfig, type LocaleSpecificConfig, postcssIsolateStyles } from "vitepress";
import { colours, styleSheet } from "./code.ts";
import { lessons, pageNameOf, prefixes, socialLinks, titleOf, translated } from "./files.ts";
import { configure } from "./markdown.ts";
import { words } from "./words.ts";

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

const ZH: DefaultTheme.Config = {
  outline: { label: "本页目录", level: [2, 3] },
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
    footer: {
      selectText: "打开",
      selectKeyAriaLabel: "回车键",
      navigateText: "移动",
      navigateUpKeyAriaLabel: "向上键",
      navigateDownKeyAriaLabel: "向下键",
      closeText: "关闭",
      closeKeyAriaLabel: "Esc 键",
    },
  },
};

function locale(prefix: string): LocaleSpecificConfig<DefaultTheme.Config> & { label: string } {
  const { title, siteTitle, description, footer, ...labels } = words(prefix);
  const link = (file: string) => ({
    text: labels.menu[file] ?? titleOf(translated(file, prefix)),
    link: `/${pageNameOf(translated(file, prefix))}.html`,
  });
  const all = [...lessons.values()];
  const groups = [
    { text: labels.lessons, items: all.map(({ page }) => link(page)) },
    {
      text: labels.changes,
      items: all.flatMap(({ name, before }) =>
        before ? { text: `${before.name} → ${name}`, link: `/${prefix}changes/${name}.html` } : [],
      ),
    },
    { text: labels.reference, items: Object.keys(labels.menu).map(link) },
  ];
  const viewer = { text: labels.viewer, link: `/${prefix}viewer.html` };
  return {
    label: prefix ? "简体中文" : "English",
    lang: prefix ? "zh-CN" : "en",
    title,
    description,
    themeConfig: {
      siteTitle,
      i18nRouting: false, // some pages have no translation, so languages.ts looks for it
      nav: [...groups, viewer],
      sidebar: [...groups, viewer],
      outline: { level: [2, 3] },
      socialLinks,
      footer: { message: footer },
      ...(prefix && ZH),
    },
  };
}

/** The development server keeps inline styles, because it learns about classes too late. */
const isBuilt = process.argv.includes("build");

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">${[1, 3, 5, 7, 9]
  .map((y) => `<rect x="1" y="${y}" width="10" height="1.4" rx=".7" fill="#5672cd"/>`)
  .join("")}</svg>`;

export default defineConfig({
  srcDir: "../..", // the pages link to files all over the repository
  srcExclude: ["!(docs|tools)/**/*", "tools/!(site)/**/*", "tools/site/!(pages)/**/*", "!(README|CONTRIBUTING).md"],
  outDir: ".vitepress/dist",
  base: `${process.env.BASE ?? ""}/`, // on GitHub Pages, the name of the repository
  rewrites: (page) => `${pageNameOf(page)}.md`,
  locales: Object.fromEntries(prefixes.map((prefix) => [prefix ? "zh" : "root", locale(prefix)])),
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  router: { prefetchLinks: false }, // or the pages that a lesson links to are most of what it loads
  themeConfig: {
    externalLinkIcon: true,
    search: {
      provider: "local",
      options: {
        miniSearch: { options: { tokenize } },
        locales: { zh: { translations: SEARCH_ZH } },
        _render: (source, env, md) => md.render(source, env).replace(/<section.*?<\/section>/gs, ""), // leaves out the recorded runs
      },
    },
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" },
    anchor: { slugify: (title) => new GithubSlugger().slug(title) }, // the same links to headings as on GitHub
    attrs: { disable: true },
    codeTransformers: [
      ...(isBuilt ? [colours] : []),
      {
        line(node, number) {
          if (this.options.lang === "console" && this.source.split("\n")[number - 1]?.startsWith("$ "))
            this.addClassToHast(node, "command");
        },
      },
    ],
    config: configure,
  },
  transformPageData(page) {
    const { 1: name = "" } = /^(?:zh\/)?(.*)\.md$/.exec(page.relativePath) ?? [];
    if (name === "index") page.titleTemplate = false;
    if (/^(index|s\d\d_.*)$/.test(name)) Object.assign(page.frontmatter, { pageClass: "lesson", aside: false });
    if (name === "benchmarks") Object.assign(page.frontmatter, { pageClass: "wide", aside: false });
  },
  transformHtml: (html) => html.replace("</head>", `${styleSheet()}</head>`),
  vite: {
    plugins: [vue],
    css: { postcss: { plugins: [postcssIsolateStyles({ includeFiles: [/vp-doc\.css/] })] } }, // keeps them off the viewer
    build: {
      chunkSizeWarningLimit: 2000,
      rollupOptions: { onwarn: (warning, warn) => warning.code !== "INVALID_ANNOTATION" && warn(warning) }, // zod has some
    },
  },
});
