import { inBrowser, onContentUpdated, type Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h } from "vue";
import ContextDemo from "./ContextDemo.vue";
import { follow, followScript, showInScript } from "./follow.ts";
import { sameSection } from "./languages.ts";
import { startPlayers } from "./player.ts";
import { showLinesOfAddress } from "./source.ts";
import "./style.css";
import "./player.css";

export default {
  extends: DefaultTheme,
  Layout: {
    setup() {
      onContentUpdated(() => {
        followScript();
        startPlayers();
      });
      return () => h(DefaultTheme.Layout);
    },
  },
  enhanceApp({ app, router }) {
    app.component("ContextDemo", ContextDemo);
    showLinesOfAddress(router);
    if (!inBrowser) return;
    addEventListener("scroll", follow, { passive: true });
    router.onBeforeRouteChange = (to) => {
      if (showInScript(to)) return false;
      const section = sameSection(to);
      if (section === undefined || section === to) return;
      router.go(section);
      return false;
    };
  },
} satisfies Theme;
