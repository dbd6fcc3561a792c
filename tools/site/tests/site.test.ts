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

test("the front page has two buttons, to s01 and to the viewer, and a picture that leads to the viewer", async () => {
  for (const prefix of ["", "zh/"])
    await inTab(`${prefix}index.html`, { viewport: PHONE }, async (page) => {
      assert.ok((await isDrawn(page, "demo")) > 0 && (await fitsIn(page)));
      const viewer = `${BASE}${prefix}viewer.html`;
      assert.deepEqual(await hrefsIn(page, ".actions a"), [`${BASE}${prefix}s01_agent_loop.html`, viewer]);
      assert.deepEqual(await hrefsIn(page, "a:has(picture)"), [viewer]);
    });
});

test("a lesson has the menu, its sections, figures for both widths and its neighbours", async () => {
  for (const path of ["s04_subagent.html", "zh/s04_subagent.html"])
    await inTab(path, {}, async (page) => {
      assert.match(await page.innerText(".VPSidebar .is-active"), /^s04/);
      assert.match(await page.innerText(".vp-doc h1 + p"), /^\S+ · \S+$/, "its script and its tests");
      assert.ok((await page.locator(".VPDocAsideOutline a").count()) > 5);
      assert.equal(await isDrawn(page, "s04_subagent"), 680);
      await page.setViewportSize(PHONE);
      await page.waitForFunction(() =>
        /narrow/.test(document.querySelector<HTMLImageElement>("picture img")?.currentSrc ?? ""),
      );
      assert.equal(await fitsIn(page), true);
      await page.locator(".pager-link.next").click();
      await page.waitForURL(/s05_skill/);
    });
});

test("the menu has all pages of the lessons, and the last leads on to the viewer and what forgetting costs", async () => {
  const lessons = english.filter((name) => /^s\d\d_/.test(name));
  await inTab(`${lessons.at(-1)}.html`, {}, async (page) => {
    const wanted = ["lessons", ...lessons].map((name) => `${BASE}${name}.html`);
    assert.deepEqual(await hrefsIn(page, ".VPSidebarItem.level-0:has(.is-active) a"), wanted);
    const further = await hrefsIn(page, ".pager-link.next, h1 + p a[href*=benchmarks]");
    assert.deepEqual(further, [`${BASE}benchmarks.html`, `${BASE}viewer.html`]);
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
    "viewer.html": "zh/viewer.html",
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

const S01 = "s01_agent_loop.html";
const visible = ".stepper li:not(.later)";

test("the stepper shows the line that runs and the messages so far, by buttons and arrow keys, on a phone", async () => {
  for (const prefix of ["", "zh/"])
    await inTab(prefix + S01, { viewport: PHONE, reducedMotion: "reduce" }, async (page) => {
      const [back, next] = [page.locator(".stepper button").first(), page.locator(".stepper button").last()];
      const shown = async () => [await page.innerText(".stepper .runs"), await page.locator(visible).count()];
      assert.deepEqual([await shown(), await back.getAttribute("aria-disabled")], [["while (true) {", 1], "true"]);
      await next.click();
      assert.match(`${await shown()}`, /callModel.*,1$/);
      await next.press("ArrowRight");
      assert.match(`${await shown()}`, /push\(\{ role: "assistant".*,2$/);
      await next.press("ArrowLeft");
      assert.match(`${await shown()}`, /callModel.*,1$/);
      for (let i = 0; i < 20; i++) await next.press("ArrowRight");
      assert.match(`${await shown()}`, /return reply;,6$/);
      assert.equal(await next.getAttribute("aria-disabled"), "true");
      assert.match(await page.locator(visible).last().innerText(), /hello\.mjs is there; it printed: Hello, World!/);
      const { height = 0 } = (await page.locator(".stepper").boundingBox()) ?? {};
      assert.ok(height > 0 && height < PHONE.height && (await fitsIn(page)), `${height}`);
    });
});

test("without JavaScript the stepper shows the last step", async () => {
  await inTab(S01, { javaScriptEnabled: false }, async (page) => {
    assert.deepEqual(
      [await page.innerText(".stepper .runs"), await page.locator(visible).count()],
      ["  if (calls.length === 0) return reply;", 6],
    );
  });
});
