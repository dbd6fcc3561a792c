/** A lesson's page beside its script, in a Chromium. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { PHONE, pageAt, S01, scrollTo, visit, WIDE } from "./browser.ts";

/** The text of the lines that are marked in the script beside a page. */
const marked = (page: Page) => page.locator(".script .line.marked").allTextContents();

describe("a lesson beside its script", () => {
  test("the script follows the text: what a section quotes is marked and in view", async () => {
    await visit(S01, {}, async (page) => {
      await page.waitForSelector(".script .line");
      assert.deepEqual(await marked(page), []);
      for (const heading of ["4. The history stays valid", "2. One tool", "1. The loop"]) {
        await scrollTo(page, heading);
        const section = page.locator(`.vp-doc h3:has-text("${heading}") ~ .quote code`).first();
        const quoted = (await section.locator(".line").allTextContents()).filter(Boolean);
        await page.waitForFunction(
          (line) => document.querySelector(".script .line.marked")?.textContent?.trim() === line,
          quoted[0]?.trim(),
        );
        assert.deepEqual(
          (await marked(page)).map((line) => line.trim()),
          quoted.map((line) => line.trim()),
        );
        const [line, pane] = [page.locator(".script .line.marked").first(), page.locator(".script pre")];
        const [inner, outer] = [await line.boundingBox(), await pane.boundingBox()];
        assert.ok(inner && outer && inner.y >= outer.y && inner.y < outer.y + outer.height / 2, "in the upper half");
      }
      await scrollTo(page, "5. What keeps it alive");
      await page.locator(".script .line.marked", { hasText: "stopGroup(child.pid)" }).waitFor();
      const place = () => page.locator(".script pre").evaluate(({ scrollTop }) => scrollTop);
      const before = await place();
      for (const heading of ["Try it", "What breaks without it", "Exercises"]) {
        await scrollTo(page, heading);
        await page.waitForFunction(() => !document.querySelector(".script .line.marked"));
        assert.equal(await place(), before, "where the text is no longer about the script, it stays where it was");
      }
    });
  });

  test("a quote is a link to its lines in the script, and the code where the script is not in view", async () => {
    await visit(S01, {}, async (page) => {
      const quote = page.locator(".vp-doc h3:has-text('1. The loop') ~ .quote").first();
      assert.equal(await quote.isVisible(), false);
      await page.locator(".vp-doc h3:has-text('1. The loop') ~ p sub a").first().click();
      assert.match((await marked(page)).join("\n"), /agentLoop.*callModel/s);
      assert.equal(pageAt(page.url()), S01);
      await page.setViewportSize(PHONE);
      assert.equal(await quote.isVisible(), true);
      const isClipped = (element: Element) => element.scrollWidth > element.clientWidth;
      for (const code of await page.locator(".quote pre, .language-console pre").all())
        assert.equal(await code.evaluate(isClipped), false, await code.innerText());
    });
  });

  test("it is there without JavaScript, line by line, and its regions lead to the text", async () => {
    await visit(S01, { javaScriptEnabled: false }, async (page) => {
      const lines = await page.locator(".script .line").allTextContents();
      assert.equal(lines.join("\n"), readFileSync(join(ROOT, "agents/s01_agent_loop.ts"), "utf8").trimEnd());
      await page.click('.script a:has-text("#region bash")');
      assert.match(page.url(), /#5-what-keeps-it-alive/);
    });
  });

  test("beside it the sections of the page are listed, and the list says where one is", async () => {
    await visit(S01, { viewport: { width: 1280, height: 800 } }, async (page) => {
      const list = page.locator(".VPDocAsideOutline");
      assert.equal(await list.locator("a", { hasText: "Try it" }).isVisible(), true);
      await scrollTo(page, "Try it");
      await list.locator("a.active", { hasText: "Try it" }).waitFor();
    });
  });

  test("a region leads to the text about it, by mouse and by keyboard", async () => {
    await visit(S01, {}, async (page) => {
      const isAtTop = (heading: string) =>
        page.waitForFunction((text) => {
          const headings = [...document.querySelectorAll(".vp-doc h3")];
          const { top = -1 } = headings.find((each) => each.textContent?.includes(text))?.getBoundingClientRect() ?? {};
          return top >= 0 && top < 200;
        }, heading);
      await page.click('.script a:has-text("#region bash")');
      await isAtTop("5. What keeps it alive");
      await page.focus('.script a:has-text("#region reply")');
      await page.keyboard.press("Enter");
      await isAtTop("4. The history stays valid");
      await page.locator(".script .line.marked", { hasText: "function dropRejected" }).waitFor();
    });
  });

  test("the page stays in its place while the script arrives", async () => {
    const shift = await visit(S01, {}, async (page) => {
      await page.addInitScript(`
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const { value, sources } of list.getEntries()) // VitePress' own bar at the top does move a little
            if (sources.some(({ node }) => !node?.parentElement?.closest(".VPNav"))) window.shift += value;
        }).observe({ type: "layout-shift", buffered: true });`);
      await page.reload();
      await page.waitForSelector(".script .line");
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      return page.evaluate<number>("window.shift");
    });
    assert.equal(shift, 0);
  });

  test("a narrow window doesn't show it, until it becomes wide", async () => {
    await visit(S01, { viewport: PHONE }, async (page) => {
      assert.equal(await page.locator(".script").isVisible(), false);
      await page.setViewportSize(WIDE);
      assert.equal(await page.locator(".script").isVisible(), true);
    });
  });

  test("the next lesson brings the next script", async () => {
    await visit(S01, {}, async (page) => {
      await page.click(".pager-link.next");
      await page.waitForSelector('.script a:has-text("agents/s02_tool_use.ts")');
    });
  });
});
