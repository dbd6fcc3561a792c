import GithubSlugger from "github-slugger";
import { type DefaultTheme, defineConfig, type LocaleSpecificConfig, postcssIsolateStyles } from "vitepress";
import { colours, styleSheet } from "./code.ts";
import { lessons, pageOf, prefixes, socialLinks, titleOf, translated } from "./files.ts";
import { configure } from "./markdown.ts";
import { words } from "./words.ts";

/** On the server Vue is the one beside this folder, which a page in `docs/` wouldn't find. */
const vue = {
  name: "vue",
  enforce: "pre" as const,
  resolveId: (id: string, _importer: string | undefined, { ssr }: { ssr?: boolean }) =>
    ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : undefined,
};

/** Chinese has no spaces between words. A function that the site stores as text: it can use nothing around it. */
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
    link: `/${pageOf(translated(file, prefix))}.html`,
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
      i18nRouting: false, // not every page has a translation: languages.ts finds those that there are
      nav: [...groups, viewer],
      sidebar: [...groups, viewer],
      outline: { level: [2, 3] },
      socialLinks: socialLinks(),
      footer: { message: footer },
      ...(prefix && ZH),
    },
  };
}

/** Of the development server styles stay styles: there the classes of a page are known too late. */
const isBuilt = process.argv.includes("build");

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">${[1, 3, 5, 7, 9]
  .map((y) => `<rect x="1" y="${y}" width="10" height="1.4" rx=".7" fill="#5672cd"/>`)
  .join("")}</svg>`;

export default defineConfig({
  srcDir: "../..", // the pages link to files all over the repository
  srcExclude: ["!(docs|tools)/**/*", "tools/!(site)/**/*", "tools/site/!(pages)/**/*", "!(README|CONTRIBUTING).md"],
  outDir: ".vitepress/dist",
  base: `${process.env.BASE ?? ""}/`, // of GitHub Pages, for example /agent-in-six-lessons
  rewrites: (page) => `${pageOf(page)}.md`,
  locales: Object.fromEntries(prefixes.map((prefix) => [prefix ? "zh" : "root", locale(prefix)])),
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  router: { prefetchLinks: false }, // a lesson links to so many pages that they were most of its first load
  themeConfig: {
    externalLinkIcon: true,
    search: {
      provider: "local",
      options: {
        miniSearch: { options: { tokenize } },
        locales: { zh: { translations: SEARCH_ZH } },
        _render: (source, env, md) => md.render(source, env).replace(/<section.*?<\/section>/gs, ""), // runs
      },
    },
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-default" },
    anchor: { slugify: (title) => new GithubSlugger().slug(title) }, // links to headings are GitHub's
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
    if (name === "benchmarks") Object.assign(page.frontmatter, { pageClass: "wide", aside: false }); // its tables
  },
  transformHtml: (html) => html.replace("</head>", `${styleSheet()}</head>`),
  vite: {
    plugins: [vue],
    css: { postcss: { plugins: [postcssIsolateStyles({ includeFiles: [/vp-doc\.css/] })] } }, // the viewer has its own
    build: {
      chunkSizeWarningLimit: 2000,
      rollupOptions: { onwarn: (warning, warn) => warning.code !== "INVALID_ANNOTATION" && warn(warning) }, // of zod
    },
  },
});
