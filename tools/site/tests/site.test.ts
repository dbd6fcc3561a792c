/** The built site as readers see it, in Chromium. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { BASE, builtPages, htmlOf, inTab, PHONE, REPOSITORY, urlOf } from "./browser.ts";

test("every link leads to a page with that heading, or to a file of the repository", () => {
  for (const page of builtPages)
    for (const [, href = ""] of htmlOf(page).matchAll(/<a [^>]*?href="([^"]*)"/g)) {
      const file = href.startsWith(`${REPOSITORY}/blob/main/`) && href.slice(`${REPOSITORY}/blob/main/`.length);
      if (file) assert.ok(existsSync(join(ROOT, file.replace(/#.*/, ""))), `${page}: ${href}`);
      if (/^[a-z]+:/.test(href)) continue;
      const { pathname, hash } = new URL(href, urlOf(page));
      const target = pathname.slice(BASE.length).replace(/(^|\/)$/, "$1index.html");
      assert.ok(pathname.startsWith(BASE) && builtPages.includes(target), `${page}: ${href}`);
      const id = decodeURIComponent(hash.slice(1));
      if (id) assert.match(htmlOf(target), new RegExp(`id="${id}"`), `${page}: ${href}`);
    }
});

const isDrawn = (page: Page, name: string) =>
  page.locator(`img[src*="${name}"]`).evaluate(async (image: HTMLImageElement) => {
    image.scrollIntoView();
    await image.decode();
    return image.naturalWidth;
  });

const hrefsIn = (page: Page, links: string) =>
  page.locator(links).evaluateAll((all) => all.map((each) => each.getAttribute("href")));

test("the front page has two buttons, to s01 and to all lessons, a card for each lesson, and a picture that fits a phone", async () => {
  for (const prefix of ["", "zh/"])
    await inTab(`${prefix}index.html`, { viewport: PHONE }, async (page) => {
      assert.ok((await isDrawn(page, "s05_s06")) > 0);
      const pages = ["s01_agent_loop", "lessons"].map((name) => `${BASE}${prefix}${name}.html`);
      assert.deepEqual(await hrefsIn(page, ".actions a"), pages);
      const cards = await page.locator("a.VPFeature").allInnerTexts();
      assert.deepEqual(
        cards.map((card) => /^s(\d\d).*\n+\S/.exec(card)?.[1]),
        ["01", "02", "03", "04", "05", "06"],
      );
    });
});

test("a lesson has the menu, its sections, a figure for both widths and its neighbours", async () => {
  for (const path of ["s06_context_compact.html", "zh/s06_context_compact.html"])
    await inTab(path, {}, async (page) => {
      assert.match(await page.innerText(".VPSidebar .is-active"), /^s06/);
      assert.ok((await page.locator(".VPDocAsideOutline a").count()) > 5);
      assert.equal(await isDrawn(page, "s06_layers"), 680);
      await page.setViewportSize(PHONE);
      await page.waitForFunction(() =>
        /narrow/.test(document.querySelector<HTMLImageElement>("picture img")?.currentSrc ?? ""),
      );
      await page.locator(".pager-link.next").click();
      await page.waitForURL(/s06_keeping/);
    });
});

test("on a phone no page is wider than the window, and neither is a table", async () => {
  await inTab("index.html", { viewport: PHONE }, async (page) => {
    for (const path of builtPages) {
      await page.goto(urlOf(path));
      const wide = await page.evaluate<string[]>(`[document.documentElement, ...document.querySelectorAll("table")]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ innerText }) => innerText.slice(0, 99))`);
      assert.deepEqual(wide, [], path);
    }
  });
});
