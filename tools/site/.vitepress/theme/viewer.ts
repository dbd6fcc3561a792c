/** The context viewer with the recorded demo, and the picture that stands for it until its scripts run. */
import { useData, withBase } from "vitepress";
import { computed } from "vue";
import pictureEnglish from "../../../../docs/figures/demo.svg?url";
import pictureChinese from "../../../../docs/figures/demo.zh.svg?url";
import session from "../../../viewer/demo.jsonl?url";

export function useViewer() {
  const { localeIndex } = useData();
  const lang = computed(() => (localeIndex.value === "zh" ? "zh" : "en"));
  const picture = computed(() => (lang.value === "zh" ? pictureChinese : pictureEnglish));
  const page = computed(() => withBase(lang.value === "zh" ? "/zh/viewer.html" : "/viewer.html"));

  /** Returns what takes the viewer out again. */
  async function show(element: HTMLElement, compact: boolean): Promise<() => void> {
    const { mount } = await import("../../../viewer/main.ts");
    await import("../../../viewer/style.css");
    const source = { name: "npm run demo", url: session };
    return element.isConnected ? mount(element, { source, compact, lang: lang.value, href: page.value }) : () => {};
  }
  return { picture, page, show };
}
