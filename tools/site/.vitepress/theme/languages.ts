/** Switching the language keeps the section. */

const NAV = 150; // pixels at the top of the window: a heading above them is of the section that one reads

/** The address of the section that one reads, if `to` is this page in the other language. */
export function sameSection(to: string): string | undefined {
  const { pathname } = new URL(to, location.href);
  const plain = (path: string) => path.replace("/zh/", "/").replace(/index\.html$/, "");
  if (pathname === location.pathname || plain(pathname) !== plain(location.pathname)) return;
  const headings = [...document.querySelectorAll<HTMLElement>(".vp-doc :is(h2, h3)[id]")];
  const section = headings.findLast((heading) => heading.getBoundingClientRect().top < NAV);
  const id = section?.dataset.other ?? section?.id;
  return id ? `${pathname}#${encodeURIComponent(id)}` : pathname;
}
