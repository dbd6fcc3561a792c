/** The built site as readers see it, in Chromium. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { htmlOf, inTab, PHONE, S01, scrollTo, urlOf } from "./browser.ts";

test("the page of changes has the new lines of each region, indented and numbered", async () => {
  const script = readFileSync(`${ROOT}/agents/s03_todo_write.ts`, "utf8").split("\n");
  await inTab("changes/s03.html", {}, async (page) => {
    const added = page.locator(".added code").filter({ hasText: "TODO.reminderAfter(calls)" });
    const lines = await added.locator(".line").allTextContents();
    const from = script.indexOf(lines[0] ?? "");
    assert.ok(from > 0 && /^ {4}\S/.test(lines[0] ?? ""));
    assert.deepEqual(lines, script.slice(from, from + lines.length));
    assert.equal(await added.evaluate((code: HTMLElement) => code.style.counterSet), `line ${from}`);
    assert.doesNotMatch(await page.innerText(".vp-doc"), /const reply = await callModel/, "a line of s02");
  });
  assert.match(htmlOf("s03_todo_write.html"), /href="\/six-lessons\/changes\/s03.html"/);
});

test("a link to lines marks them in the source and scrolls to them", async () => {
  await inTab(S01, { viewport: PHONE }, async (page) => {
    await page.locator(".vp-doc h3:has-text('4. The history') ~ p sub a").first().click();
    await page.waitForSelector(".source .line.marked");
    const lines = page.locator(".line.marked");
    assert.match((await lines.allTextContents()).join("\n"), /if \(isBadRequest\(error\)\).*throw error/s);
    await page.waitForFunction(() => {
      const { top = -1 } = document.querySelector(".line.marked")?.getBoundingClientRect() ?? {};
      return top > 0 && top < innerHeight;
    });
  });
});

test("the repository's address is in the menu, and in a clone command before npm ci", async () => {
  await inTab("index.html", {}, async (page) => {
    const link = page.locator('.VPNavBar a[href="https://github.com/example/six-lessons"]');
    assert.equal(await link.first().isVisible(), true);
  });
  const clone = "git clone https://github.com/example/six-lessons && cd six-lessons\nnpm ci && npm run demo";
  const visibleText = (page: string) => htmlOf(page).replace(/<.*?>/g, "").replaceAll("&amp;", "&");
  for (const page of ["index.html", "readme.html"]) assert.ok(visibleText(page).includes(clone), page);
});

test("the language switch keeps the section, there and back", async () => {
  const switchLanguage = (page: Page) =>
    page
      .locator(".VPNavBarTranslations a")
      .first()
      .evaluate((link: HTMLElement) => link.click());
  const isAtTop = (page: Page, text: string) =>
    page.waitForFunction((heading) => {
      const found = [...document.querySelectorAll(".vp-doc :is(h2, h3)")].find((each) =>
        each.textContent?.startsWith(heading),
      );
      const { top = -1 } = found?.getBoundingClientRect() ?? {};
      return top >= 0 && top < 200;
    }, text);
  await inTab("s02_tool_use.html", {}, async (page) => {
    await scrollTo(page, "Try it");
    await switchLanguage(page);
    await isAtTop(page, "试一试");
    await scrollTo(page, "2. ");
    await switchLanguage(page);
    await isAtTop(page, "2. ");
    assert.ok(page.url().startsWith(urlOf("s02_tool_use.html")), page.url());
  });
  await inTab("zh/viewer.html", {}, async (page) => {
    await switchLanguage(page);
    await page.waitForURL(urlOf("viewer.html"));
  });
  await inTab("promises.html", {}, async (page) => {
    await switchLanguage(page);
    await page.waitForURL(urlOf("zh/")); // it has no translation
  });
});

const searches = { "": "autoCompact", "zh/": "压缩" };
for (const [prefix, word] of Object.entries(searches))
  test(`the search finds ${word} and opens its page, by keyboard alone`, async () => {
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
