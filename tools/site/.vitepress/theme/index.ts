import { inBrowser, type Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp({ router, siteData }) {
    if (!inBrowser) return;
    // the language switch leads to the same page, which might be only in English
    const { base, themeConfig } = siteData.value;
    router.onBeforeRouteChange = (to) => {
      const [, name] = /^zh\/(.*?)(?:\.html)?$/.exec(new URL(to, location.href).pathname.slice(base.length)) ?? [];
      if (!themeConfig.englishOnly.includes(name)) return;
      router.go(`${base}zh/`);
      return false;
    };
  },
} satisfies Theme;
