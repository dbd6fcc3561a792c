/** Switching the language keeps the page, and the section that one reads. */
import { withBase } from "vitepress";

const NAV = 150; // pixels at the top of the window: a heading above them is of the section that one reads

/** The address of this page in the other language, if `to` is where the switch leads: the front page of that language. */
export function sameSection(to: string): string | undefined {
  const { pathname } = new URL(to, location.href);
  const [base, chinese] = [withBase("/"), withBase("/zh/")];
  const isChinese = location.pathname.startsWith(chinese);
  if (pathname !== (isChinese ? base : chinese)) return;
  if (!document.querySelector("h1[data-other], .changes, .viewer")) return; // there is no such page
  const page = location.pathname.slice((isChinese ? chinese : base).length).replace(/^index\.html$/, "");
  const headings = [...document.querySelectorAll<HTMLElement>(".vp-doc :is(h2, h3)[id]")];
  const section = headings.findLast((heading) => heading.getBoundingClientRect().top < NAV);
  return pathname + page + (section ? `#${encodeURIComponent(section.dataset.other ?? section.id)}` : "");
}
