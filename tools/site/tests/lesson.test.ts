/** A lesson's page beside its recorded run, in Chromium. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { builtPages, htmlOf, inTab, PHONE, S01, scrollTo, WIDE } from "./browser.ts";

const lessons = builtPages.filter((page) => /^s\d\d_/.test(page));
const isAtStep = (page: Page, name: string) => page.waitForSelector(`.player[data-name="${name}"]`);
const twoFrames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

describe("a lesson beside its run", () => {
  test("the run fills the right half of the first screen: the loop, the bar, the messages, the controls", async () => {
    for (const path of [S01, "s06_context_compact.html", "zh/s03_todo_write.html"])
      await inTab(path, {}, async (page) => {
        for (const viewport of [WIDE, { width: 1280, height: 800 }]) {
          await page.setViewportSize(viewport);
          const player = await page.locator(".player").boundingBox();
          assert.equal(player?.x, viewport.width / 2);
          for (const part of [".script .marked", ".label", ".messages .user .block", ".controls"]) {
            const box = await page.locator(`.player ${part}`).first().boundingBox();
            assert.ok(box && box.y > 0 && box.y + box.height <= viewport.height, `${path}: ${part}`);
          }
          assert.match(await page.innerText(".player .script .marked"), /function agentLoop/);
          const title = await page.locator(".vp-doc h1").boundingBox();
          assert.ok(title && title.x < viewport.width / 4);
        }
      });
  });

  test("scrolling up or down shows the step that the section is about", async () => {
    const order = [
      ["2. One tool", "run bash"],
      ["3. Every call gets a result", "results"],
      ["2. One tool", "run bash"],
    ] as const;
    await inTab(S01, {}, async (page) => {
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

  test("the sections of a page follow its run in order, in both languages", () => {
    const stepsOn = (page: string) =>
      [...htmlOf(page).matchAll(/<h[23][^>]* data-at="(\d+)"/g)].map(([, at]) => Number(at));
    for (const path of lessons) {
      const steps = stepsOn(path);
      assert.ok(steps.length >= 4, path);
      const inOrder = steps.toSorted((a, b) => a - b);
      assert.deepEqual([steps, stepsOn(`zh/${path}`)], [inOrder, steps], path);
    }
  });

  test("a section without a step shows the lines it's about", async () => {
    const shown = [
      [S01, "5. What keeps it alive", /^\/\/ That is the agent\./],
      ["s06_context_compact.html", "5. What stays", /function unfinishedRequests/],
    ] as const;
    for (const [path, heading, code] of shown)
      await inTab(path, {}, async (page) => {
        await scrollTo(page, heading);
        const line = page.locator(".player .script .ran", { hasText: code });
        await line.waitFor();
        const [script, box] = [await page.locator(".player .script").boundingBox(), await line.boundingBox()];
        assert.ok(script && box && box.y >= script.y && box.y + box.height <= script.y + script.height, heading);
      });
  });

  test("scrolling doesn't move a run that the reader has moved, until it's told to follow again", async () => {
    await inTab(S01, {}, async (page) => {
      await page.click('.player [data-do="next"]');
      await scrollTo(page, "3. Every call gets a result");
      await page.evaluate(twoFrames);
      assert.equal(await page.getAttribute(".player", "data-step"), "1");
      await page.getByLabel("follows the text").check();
      await isAtStep(page, "results");
      await scrollTo(page, "2. One tool");
      await isAtStep(page, "run bash");
    });
  });

  test("a menu above the text leads to each section", async () => {
    await inTab(S01, {}, async (page) => {
      await page.click('.VPLocalNav button:has-text("On this page")');
      await page.click('.VPLocalNav a:has-text("Try it")');
      await page.waitForFunction(() => {
        const { top = -1 } = document.querySelector("#try-it")?.getBoundingClientRect() ?? {};
        return top >= 100 && top < 200;
      });
    });
  });

  test("nothing moves while the scripts of a page arrive", async () => {
    for (const path of [S01, "index.html"])
      await inTab(path, {}, async (page) => {
        await page.addInitScript(`
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const { value, sources } of list.getEntries()) // VitePress' own bar moves a little
            if (sources.some(({ node }) => !node?.parentElement?.closest(".VPNav"))) window.shift += value;
        }).observe({ type: "layout-shift", buffered: true });`);
        await page.reload();
        await page.waitForSelector(".player[data-step]");
        await page.evaluate(twoFrames);
        assert.equal(await page.evaluate("window.shift"), 0, path);
      });
  });

  test("in a narrow window the player stands in the text, before the first section, and doesn't follow it", async () => {
    await inTab(S01, { viewport: PHONE }, async (page) => {
      const above = await page.locator(".player").boundingBox();
      const below = await page.locator(".vp-doc h2").first().boundingBox();
      assert.ok(above && below && above.y + above.height <= below.y);
      await scrollTo(page, "3. Every call gets a result");
      await page.evaluate(twoFrames);
      assert.equal(await page.getAttribute(".player", "data-step"), "0");
    });
  });

  test("the next lesson brings its own run", async () => {
    await inTab(S01, {}, async (page) => {
      await page.click(".pager-link.next");
      await page.waitForSelector('.player[data-step] a:has-text("agents/s02_tool_use.ts")');
      await scrollTo(page, "3. Read, edit, write");
      await isAtStep(page, "run edit_file");
    });
  });
});
