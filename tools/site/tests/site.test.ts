/** The built site as readers see it, in Chromium. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { createMarkdownRenderer } from "vitepress";
import { ROOT, socialLinks, withClone } from "../.vitepress/files.ts";
import { configure } from "../.vitepress/markdown.ts";
import { htmlOf, inTab, PHONE, pageAt, S01, scrollTo, urlOf, WIDE } from "./browser.ts";

const languages = ["", "zh/"];

test("braces in a page's text stay text, and a table is shaped by its longest cell", async () => {
  const md = await createMarkdownRenderer(ROOT);
  configure(md);
  const html = (text: string) => md.render(text, { path: `${ROOT}/docs/README.md` });
  const table = (cell: string) => html(`| a | b |\n| --- | --- |\n| 1 | ${cell} |\n`);
  assert.match(html("a {{ b }}"), /a &#123;&#123; b/);
  assert.match(table("12"), /<table[^>]* class="scrolls"/);
  assert.match(table("words ".repeat(10)), /<table[^>]* class="blocks"/);
});

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

test("a phone gets the chart that is drawn for it, with letters of 12 pixels", async () => {
  await inTab("benchmarks.html", { viewport: PHONE }, async (page) => {
    const chart = page.locator(".vp-doc picture img");
    assert.match(await chart.evaluate((image: HTMLImageElement) => image.currentSrc), /strategies\.narrow/);
    const scale = await chart.evaluate((image: HTMLImageElement) => image.clientWidth / image.naturalWidth);
    assert.ok(scale >= 1, `drawn at ${scale}`);
    await page.setViewportSize(WIDE);
    assert.doesNotMatch(await chart.evaluate((image: HTMLImageElement) => image.currentSrc), /narrow/);
  });
});

describe("the repository's address", () => {
  test("is in the menu, and in a clone command before npm ci", async () => {
    await inTab("index.html", {}, async (page) => {
      const link = page.locator('.VPNavBar a[href="https://github.com/example/six-lessons"]');
      assert.equal(await link.first().isVisible(), true);
    });
    const clone = "git clone https://github.com/example/six-lessons && cd six-lessons\nnpm ci && npm run demo";
    const visibleText = (page: string) => htmlOf(page).replace(/<.*?>/g, "").replaceAll("&amp;", "&");
    for (const page of ["index.html", "readme.html"]) assert.ok(visibleText(page).includes(clone), page);
  });

  test("is left out when it isn't known", () => {
    assert.deepEqual(socialLinks(""), []);
    const commands = "```sh\nnpm ci && npm run demo\n```";
    assert.equal(withClone(commands, ""), commands);
  });
});

test("each page has its own name in the menu", async () => {
  for (const prefix of languages)
    await inTab(`${prefix}index.html`, {}, async (page) => {
      const names = await page
        .locator(".VPNavBarMenu a")
        .evaluateAll((links) => links.map((link) => link.textContent?.trim()));
      assert.ok(names.length > 10);
      assert.equal(new Set(names).size, names.length, names.join(", "));
      assert.ok(!names.includes(await page.innerText(".VPNavBarTitle")), names.join(", "));
    });
});

describe("in Chinese", () => {
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
      assert.equal(pageAt(page.url()), "s02_tool_use.html");
    });
    await inTab("zh/viewer.html", {}, async (page) => {
      await switchLanguage(page);
      await page.waitForURL(({ href }) => pageAt(href) === "viewer.html");
    });
    await inTab("promises.html", {}, async (page) => {
      await switchLanguage(page);
      await page.waitForURL(urlOf("zh/")); // it has no translation
    });
  });

  test("a drawing lines up although wide characters stand in it", async () => {
    await inTab("zh/s04_subagent.html", {}, async (page) => {
      const starts = await page
        .locator(".language-text")
        .first()
        .evaluate((diagram) => {
          const texts = document.createTreeWalker(diagram, NodeFilter.SHOW_TEXT);
          const found: number[] = [];
          for (let node = texts.nextNode(); node; node = texts.nextNode())
            for (const { index } of (node.textContent ?? "").matchAll(/read_file/g)) {
              const range = document.createRange();
              range.setStart(node, index);
              range.setEnd(node, index + 1);
              found.push(Math.round(range.getBoundingClientRect().left));
            }
          return found;
        });
      assert.equal(starts.length, 2);
      assert.equal(starts[0], starts[1], "with and without wide characters before it");
    });
  });

  test("the player and the viewer speak Chinese", async () => {
    await inTab("zh/s06_context_compact.html", {}, async (page) => {
      for (const part of [".says", ".request", ".legend", ".play"])
        assert.match(await page.innerText(`.player ${part}`), /\p{Script=Han}/u, part);
    });
    await inTab("zh/viewer.html", {}, async (page) => {
      for (const part of [".cv-diagnosis", ".cv-plots"])
        await page
          .locator(part)
          .filter({ hasText: /\p{Script=Han}/u })
          .first()
          .waitFor();
    });
  });
});

describe("search", () => {
  const words = { "": "autoCompact", "zh/": "压缩" };
  for (const [prefix, word] of Object.entries(words))
    test(`finds ${word} and opens its page, by keyboard alone`, async () => {
      await inTab(`${prefix}index.html`, {}, async (page) => {
        await page.keyboard.press("Control+k");
        await page.waitForSelector(".VPLocalSearchBox input");
        await page.keyboard.type(word);
        await page.waitForSelector(".VPLocalSearchBox .result");
        await page.keyboard.press("Enter");
        await page.waitForFunction((text) => document.querySelector(".vp-doc")?.textContent?.includes(text), word);
        assert.ok(pageAt(page.url())?.startsWith(`${prefix}s06`), page.url());
      });
    });
});

test("the first Tab leads to the text", async () => {
  await inTab(S01, {}, async (page) => {
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement?.closest(".VPContent")));
  });
});
