/** A lesson's page beside its run, in a Chromium. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { hasChinese, PHONE, pages, read, S01, scrollTo, visit, WIDE } from "./browser.ts";

const lessons = pages.filter((page) => /^s\d\d_/.test(page));
const isAtStep = (page: Page, name: string) => page.waitForSelector(`.player[data-name="${name}"]`);
const stepOf = (page: Page) => page.getAttribute(".player", "data-step");

describe("a lesson beside its run", () => {
  test("from the first screen on the right half is the run: the loop with its line, the bar, the messages", async () => {
    for (const path of [S01, "s06_context_compact.html", "zh/s03_todo_write.html"])
      await visit(path, {}, async (page) => {
        for (const viewport of [WIDE, { width: 1280, height: 800 }]) {
          await page.setViewportSize(viewport);
          const player = await page.locator(".player").boundingBox();
          assert.equal(player?.x, viewport.width / 2);
          for (const part of [".script .marked", ".label", ".messages .user .block", ".controls"]) {
            const box = await page.locator(`.player ${part}`).first().boundingBox();
            assert.ok(box && box.y > 0 && box.y + box.height <= viewport.height, `${path}: ${part}`);
          }
          assert.match(await page.innerText(".player .script .marked"), /function agentLoop/);
          const text = await page.locator(".vp-doc h1").boundingBox();
          assert.ok(text && text.x < viewport.width / 4);
        }
      });
  });

  test("reading on or back moves it to the step that the section is about", async () => {
    const order = [
      ["2. One tool", "run bash"],
      ["3. Every call gets a result", "results"],
      ["2. One tool", "run bash"],
    ] as const;
    await visit(S01, {}, async (page) => {
      await isAtStep(page, "start");
      for (const [heading, step] of order) {
        await scrollTo(page, heading);
        await isAtStep(page, step);
      }
      assert.match(await page.innerText(".player .script .marked"), /runCall\(call/);
      await page.evaluate("scrollTo(0, 0)");
      await isAtStep(page, "start");
    });
  });

  test("whoever reads a page from top to bottom goes through its run in order, in both languages", () => {
    const stepsOn = (page: string) =>
      [...read(page).matchAll(/<h[23][^>]* data-at="(\d+)"/g)].map(([, at]) => Number(at));
    for (const path of lessons) {
      const steps = stepsOn(path);
      assert.ok(steps.length >= 4, path);
      assert.deepEqual(
        steps,
        steps.toSorted((a, b) => a - b),
        path,
      );
      if (hasChinese) assert.deepEqual(stepsOn(`zh/${path}`), steps, path);
    }
  });

  test("a section without a step of its own shows the lines that it is about", async () => {
    const shown = [
      [S01, "4. The history stays valid", /if \(isBadRequest\(error\)\)/],
      [S01, "5. What keeps it alive", /^\/\/ That is the agent\./],
      ["s06_context_compact.html", "5. What stays", /function unfinishedRequests/],
    ] as const;
    for (const [path, heading, code] of shown)
      await visit(path, {}, async (page) => {
        await scrollTo(page, heading);
        const line = page.locator(".player .script .ran", { hasText: code });
        await line.waitFor();
        const [script, box] = [await page.locator(".player .script").boundingBox(), await line.boundingBox()];
        assert.ok(script && box && box.y >= script.y && box.y + box.height <= script.y + script.height, heading);
      });
  });

  test("what one plays by hand is not undone by scrolling, until it is told to follow again", async () => {
    await visit(S01, {}, async (page) => {
      await page.click('.player [data-do="next"]');
      await scrollTo(page, "3. Every call gets a result");
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      assert.equal(await stepOf(page), "1");
      await page.getByLabel("follows the text").check();
      await isAtStep(page, "results");
      await scrollTo(page, "2. One tool");
      await isAtStep(page, "run bash");
    });
  });

  test("without JavaScript the whole script and the whole run are there", async () => {
    await visit(S01, { javaScriptEnabled: false }, async (page) => {
      const lines = await page.locator(".player .script .line").allTextContents();
      assert.equal(lines.join("\n"), readFileSync(join(ROOT, "agents/s01_agent_loop.ts"), "utf8").trimEnd());
      assert.match(await page.innerText(".player .messages"), /it printed: Hello, World!/);
    });
  });

  test("above the text a menu lists the sections of the page, and leads to them", async () => {
    await visit(S01, {}, async (page) => {
      await page.click('.VPLocalNav button:has-text("On this page")');
      await page.click('.VPLocalNav a:has-text("Try it")');
      await page.waitForFunction(() => {
        const { top = -1 } = document.querySelector("#try-it")?.getBoundingClientRect() ?? {};
        return top >= 100 && top < 200;
      });
    });
  });

  test("the code that the text quotes is whole at each width", async () => {
    await visit(S01, {}, async (page) => {
      for (const viewport of [WIDE, PHONE]) {
        await page.setViewportSize(viewport);
        const isClipped = (element: Element) => element.scrollWidth > element.clientWidth;
        for (const code of await page.locator(":is(.language-ts, .language-console) pre").all())
          assert.equal(await code.evaluate(isClipped), false, await code.innerText());
      }
    });
  });

  test("the page stays in its place while its scripts arrive", async () => {
    for (const path of [S01, "index.html"])
      await visit(path, {}, async (page) => {
        await page.addInitScript(`
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const { value, sources } of list.getEntries()) // VitePress' own bar at the top does move a little
            if (sources.some(({ node }) => !node?.parentElement?.closest(".VPNav"))) window.shift += value;
        }).observe({ type: "layout-shift", buffered: true });`);
        await page.reload();
        await page.waitForSelector(".player[data-step]");
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
        assert.equal(await page.evaluate("window.shift"), 0, path);
      });
  });

  test("in a narrow window it is in the text, before the first section, and does not follow", async () => {
    await visit(S01, { viewport: PHONE }, async (page) => {
      const [player, heading] = [page.locator(".player"), page.locator(".vp-doc h2").first()];
      const [above, below] = [await player.boundingBox(), await heading.boundingBox()];
      assert.ok(above && below && above.y + above.height <= below.y);
      await scrollTo(page, "3. Every call gets a result");
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      assert.equal(await stepOf(page), "0");
    });
  });

  test("the next lesson brings the next run", async () => {
    await visit(S01, {}, async (page) => {
      await page.click(".pager-link.next");
      await page.waitForSelector('.player[data-step] a:has-text("agents/s02_tool_use.ts")');
      await scrollTo(page, "3. Read, edit, write");
      await isAtStep(page, "run edit_file");
    });
  });
});
