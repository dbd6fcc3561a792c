/** The built site in a Chromium, as readers have it. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { createMarkdownRenderer } from "vitepress";
import { addressOf as addressOnSite, ROOT, socialLinks, withClone } from "../.vitepress/files.ts";
import { configure } from "../.vitepress/markdown.ts";
import { addressOf, hasChinese, PHONE, pageAt, read, S01, scrollTo, visit, WIDE } from "./browser.ts";

const languages = hasChinese ? ["", "zh/"] : [""];

test("a page with a dead link is an error", () => {
  assert.throws(() => addressOnSite("s00_nothing.md", "docs/README.md"), /docs\/README.md: dead link s00_nothing.md/);
});

test("braces in a page's text stay text", async () => {
  const md = await createMarkdownRenderer(ROOT);
  configure(md);
  assert.match(md.render("a {{ b }}", { path: `${ROOT}/docs/README.md` }), /a &#123;&#123; b/);
});

test("what changed: the new lines of each region, indented and with their numbers", async () => {
  const script = readFileSync(`${ROOT}/agents/s03_todo_write.ts`, "utf8").split("\n");
  await visit("changes/s03.html", {}, async (page) => {
    const added = page.locator(".added code").filter({ hasText: "TODO.reminderAfter(calls)" });
    const lines = await added.locator(".line").allTextContents();
    const from = script.indexOf(lines[0] ?? "");
    assert.ok(from > 0 && /^ {4}\S/.test(lines[0] ?? ""));
    assert.deepEqual(lines, script.slice(from, from + lines.length));
    assert.equal(await added.evaluate((code: HTMLElement) => code.style.counterSet), `line ${from}`);
    assert.doesNotMatch(await page.innerText(".vp-doc"), /const reply = await callModel/, "what was there before");
  });
  assert.match(read("s03_todo_write.html"), /href="\/six-lessons\/changes\/s03.html"/);
});

test("a link to lines marks them in the source and scrolls there", async () => {
  await visit(S01, { viewport: PHONE }, async (page) => {
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

test("on a phone a table of text becomes blocks, one of numbers scrolls", () => {
  for (const prefix of languages) assert.match(read(`${prefix}index.html`), /<table[^>]* class="[^"]*blocks/);
  assert.match(read("benchmarks.html"), /<table[^>]* class="[^"]*scrolls/);
});

test("on a phone the chart of the strategies is drawn for it", async () => {
  await visit("benchmarks.html", { viewport: PHONE }, async (page) => {
    const chart = page.locator(".vp-doc picture img");
    assert.match(await chart.evaluate((image: HTMLImageElement) => image.currentSrc), /strategies\.narrow/);
    const scale = await chart.evaluate((image: HTMLImageElement) => image.clientWidth / image.naturalWidth);
    assert.ok(scale >= 1, `its letters of 12 pixels are drawn at ${scale}`);
    await page.setViewportSize(WIDE);
    assert.doesNotMatch(await chart.evaluate((image: HTMLImageElement) => image.currentSrc), /narrow/);
  });
});

describe("where the code is", () => {
  test("is in the head, and comes before npm ci", async () => {
    await visit("index.html", {}, async (page) => {
      const link = page.locator('.VPNavBar a[href="https://github.com/example/six-lessons"]');
      assert.equal(await link.first().isVisible(), true);
    });
    const clone = "git clone https://github.com/example/six-lessons && cd six-lessons\nnpm ci && npm run demo";
    const textOf = (page: string) => read(page).replace(/<.*?>/g, "").replaceAll("&amp;", "&");
    for (const page of ["index.html", "readme.html"]) assert.ok(textOf(page).includes(clone), page);
  });

  test("is shown nowhere when it isn't known", () => {
    assert.deepEqual(socialLinks(""), []);
    const commands = "```sh\nnpm ci && npm run demo\n```";
    assert.equal(withClone(commands, ""), commands);
  });
});

test("each page has a name of its own in the menu", async () => {
  for (const prefix of languages)
    await visit(`${prefix}index.html`, {}, async (page) => {
      const names = await page
        .locator(".VPNavBarMenu a")
        .evaluateAll((links) => links.map((link) => link.textContent?.trim()));
      assert.equal(new Set(names).size, names.length, names.join(", "));
      assert.ok(!names.includes(await page.innerText(".VPNavBarTitle")), names.join(", "));
      assert.ok(names.includes(prefix ? "参与贡献（英文）" : "Contribute"), names.join(", "));
    });
});

describe("in Chinese", { skip: !hasChinese }, () => {
  test("the language switch keeps the section, there and back", async () => {
    const other = (page: Page) =>
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
    await visit("s02_tool_use.html", {}, async (page) => {
      await scrollTo(page, "Try it");
      await other(page);
      await isAtTop(page, "试一试");
      await scrollTo(page, "2. ");
      await other(page);
      await isAtTop(page, "2. ");
      assert.equal(pageAt(page.url()), "s02_tool_use.html");
    });
    await visit("zh/viewer.html", {}, async (page) => {
      await other(page);
      await page.waitForURL(/six-lessons\/viewer\.html/);
    });
    await visit("promises.html", {}, async (page) => {
      await other(page);
      await page.waitForURL(addressOf("zh/")); // it has no translation
    });
  });

  test("what is drawn with letters lines up with wide characters", async () => {
    await visit("zh/s04_subagent.html", {}, async (page) => {
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
      assert.equal(starts[0], starts[1], "with and without wide characters before");
    });
  });

  test("menus, minutes and the buttons of compactions are Chinese", async () => {
    await visit("zh/index.html", {}, async (page) => {
      assert.match(await page.innerText(".vp-doc table"), /\d 分钟/);
      assert.doesNotMatch(await page.innerText(".vp-doc table"), /\d min/);
    });
    await visit("zh/viewer.html", {}, async (page) => {
      await page.waitForSelector(".cv-jumps button");
      assert.match((await page.locator(".cv-jumps button").allInnerTexts()).join("\n"), /模型要求：[\d,]+ → [\d,]+/);
      assert.doesNotMatch((await page.locator(".cv-jumps button").allInnerTexts()).join("\n"), /[a-z]/);
    });
  });
});

describe("search", () => {
  const words = { "": "autoCompact", "zh/": "压缩" };
  for (const prefix of languages)
    test(`finds a word and opens its page, by keyboard alone (/${prefix})`, async () => {
      await visit(`${prefix}index.html`, {}, async (page) => {
        const word = words[prefix as keyof typeof words];
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

test("the first thing that Tab reaches leads to the text", async () => {
  await visit(S01, {}, async (page) => {
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement?.closest(".VPContent")));
  });
});

test("pages read without JavaScript", async () => {
  await visit(S01, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
    assert.match(await page.innerText("main"), /An agent is a loop.*const calls = reply\.content\.filter/s);
  });
});
