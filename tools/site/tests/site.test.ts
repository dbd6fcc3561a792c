/** The built site as readers see it, in Chromium. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { english, ROOT } from "../.vitepress/files.ts";
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

const fitsIn = (page: Page) => page.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth");
const isDrawn = (page: Page, name: string) =>
  page.locator(`img[src*="${name}"]`).evaluate(async (image: HTMLImageElement) => {
    image.scrollIntoView();
    await image.decode();
    return image.naturalWidth;
  });

const hrefsIn = (page: Page, links: string) =>
  page.locator(links).evaluateAll((all) => all.map((each) => each.getAttribute("href")));

test("the front page has two buttons, to s01 and to all lessons, and a picture that fits a phone", async () => {
  for (const prefix of ["", "zh/"])
    await inTab(`${prefix}index.html`, { viewport: PHONE }, async (page) => {
      assert.ok((await isDrawn(page, "s05_s06")) > 0 && (await fitsIn(page)));
      const pages = ["s01_agent_loop", "lessons"].map((name) => `${BASE}${prefix}${name}.html`);
      assert.deepEqual(await hrefsIn(page, ".actions a"), pages);
    });
});

test("a lesson has the menu, its sections, a figure for both widths and its neighbours", async () => {
  for (const path of ["s06_context_compact.html", "zh/s06_context_compact.html"])
    await inTab(path, {}, async (page) => {
      assert.match(await page.innerText(".VPSidebar .is-active"), /^s06/);
      assert.match(await page.innerText(".vp-doc h1 + p"), /^\S+ · \S+$/, "its script and its tests");
      assert.ok((await page.locator(".VPDocAsideOutline a").count()) > 5);
      assert.equal(await isDrawn(page, "s06_layers"), 680);
      await page.setViewportSize(PHONE);
      await page.waitForFunction(() =>
        /narrow/.test(document.querySelector<HTMLImageElement>("picture img")?.currentSrc ?? ""),
      );
      assert.equal(await fitsIn(page), true);
      await page.locator(".pager-link.next").click();
      await page.waitForURL(/s06_keeping/);
    });
});

test("the menu has all pages of the lessons, and the last leads on to what forgetting costs", async () => {
  const lessons = english.filter((name) => /^s\d\d_/.test(name));
  await inTab(`${lessons.at(-1)}.html`, {}, async (page) => {
    const wanted = ["lessons", ...lessons].map((name) => `${BASE}${name}.html`);
    assert.deepEqual(await hrefsIn(page, ".VPSidebarItem.level-0:has(.is-active) a"), wanted);
    const further = await hrefsIn(page, ".pager-link.next, h1 + p a[href*=benchmarks]");
    assert.deepEqual(further, [`${BASE}benchmarks.html`, `${BASE}readme.html`]);
  });
});

test("a page of tables fits a phone, and words have room for their meaning", async () => {
  for (const path of ["benchmarks.html", "promises.html", "lessons.html", "words.html", "zh/words.html"])
    await inTab(path, { viewport: PHONE }, async (page) => {
      assert.equal(await fitsIn(page), true, path);
      const { width = 0 } = (await page.locator("td:nth-child(2)").first().boundingBox()) ?? {};
      assert.ok(width > 300 || /benchmarks|promises/.test(path), `${path}: ${width}`);
    });
});

test("the repository's address is in a clone command before npm ci", () => {
  const text = htmlOf("readme.html").replace(/<.*?>/g, "").replaceAll("&amp;", "&");
  assert.match(text, /git clone https:\/\/github\.com\/example\/six-lessons && cd six-lessons\nnpm ci && npm run demo/);
});

test("the language switch leads to the same page, or to the front page if it's only in English", async () => {
  const targets = {
    "s02_tool_use.html": "zh/s02_tool_use.html",
    "promises.html": "zh/",
  };
  for (const [path, target] of Object.entries(targets))
    await inTab(path, {}, async (page) => {
      await page
        .locator(".VPNavBarTranslations a")
        .first()
        .evaluate((link: HTMLElement) => link.click());
      await page.waitForURL(urlOf(target));
    });
});

test("the search finds words in both languages and opens their page, by keyboard alone", async () => {
  for (const [prefix, word] of [
    ["", "autoCompact"],
    ["zh/", "压缩"],
  ] as const)
    await inTab(`${prefix}index.html`, {}, async (page) => {
      await page.keyboard.press("Control+k");
      await page.waitForSelector(".VPLocalSearchBox input");
      await page.keyboard.type(word);
      await page.waitForSelector(".VPLocalSearchBox .result");
      await page.keyboard.press("Enter");
      await page.waitForFunction((text) => document.querySelector(".vp-doc")?.textContent?.includes(text), word);
      assert.ok(page.url().startsWith(urlOf(`${prefix}s06`)), page.url());
    });
});
