import { type Theme, useData } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h } from "vue";
import ContextDemo from "./ContextDemo.vue";
import Script from "./Script.vue";
import { showLinesOfAddress } from "./source.ts";
import "./style.css";

export default {
  extends: DefaultTheme,
  Layout: () => {
    const { frontmatter } = useData();
    return h(DefaultTheme.Layout, null, {
      "home-hero-after": () => [
        h("pre", { class: "commands", tabindex: 0 }, h("code", frontmatter.value.commands)),
        h(ContextDemo),
      ],
      "layout-bottom": () => frontmatter.value.lesson && h(Script, { key: frontmatter.value.lesson }),
    });
  },
  enhanceApp({ app, router }) {
    app.component("ContextDemo", ContextDemo);
    showLinesOfAddress(router);
  },
} satisfies Theme;
