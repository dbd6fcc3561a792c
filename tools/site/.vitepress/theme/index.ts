import { inBrowser, onContentUpdated, type Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h } from "vue";
import { startPlayers } from "../../player/playback.ts";
import ContextViewer from "./ContextViewer.vue";
import { sameSection } from "./languages.ts";
import { showLinesOfAddress } from "./source.ts";
import "./style.css";
import "../../player/player.css";

export default {
  extends: DefaultTheme,
  Layout: {
    setup() {
      onContentUpdated(startPlayers);
      return () => h(DefaultTheme.Layout);
    },
  },
  enhanceApp({ app, router }) {
    app.component("ContextViewer", ContextViewer);
    showLinesOfAddress(router);
    if (!inBrowser) return;
    router.onBeforeRouteChange = (to) => {
      const section = sameSection(to);
      if (section === undefined || section === to) return;
      router.go(section);
      return false;
    };
  },
} satisfies Theme;
