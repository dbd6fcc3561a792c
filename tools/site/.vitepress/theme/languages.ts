/** Keeps the page and the section when the reader switches languages. */
import { withBase } from "vitepress";

const TOP = 150; // a heading less than this many pixels from the top begins the section being read

/** The address of this page in the other language, if `to` is the link of the language switch, which leads to a front page. */
export function sameSection(to: string): string | undefined {
  const { pathname } = new URL(to, location.href);
  const [base, chinese] = [withBase("/"), withBase("/zh/")];
  const isChinese = location.pathname.startsWith(chinese);
  if (pathname !== (isChinese ? base : chinese)) return;
  if (!document.querySelector("h1[data-other], .changes, .viewer")) return; // no translation
  const page = location.pathname.slice((isChinese ? chinese : base).length).replace(/^index\.html$/, "");
  const headings = [...document.querySelectorAll<HTMLElement>(".vp-doc :is(h2, h3)[id]")];
  const section = headings.findLast((heading) => heading.getBoundingClientRect().top < TOP);
  return pathname + page + (section ? `#${encodeURIComponent(section.dataset.other ?? section.id)}` : "");
}
