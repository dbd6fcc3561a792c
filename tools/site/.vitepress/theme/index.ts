import { inBrowser, type Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import ContextViewer from "./ContextViewer.vue";
import LoopStepper from "./LoopStepper.vue";
import "./style.css";

export default {
  extends: DefaultTheme,
  enhanceApp({ app, router, siteData }) {
    app.component("ContextViewer", ContextViewer);
    app.component("LoopStepper", LoopStepper);
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
