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

  test("a link to a section shows its step, and scrolling through a tall window skips none", async () => {
    await inTab(S01, { viewport: { width: 1920, height: 1400 } }, async (page) => {
      const sections = await page
        .locator(".vp-doc [data-at]")
        .evaluateAll((all) => all.map((each) => ({ id: each.id, at: each.getAttribute("data-at") ?? "" })));
      const seen = new Set<string>();
      for (let y = 0; y <= (await page.evaluate<number>("document.body.scrollHeight")); y += 50) {
        await page.evaluate(`scrollTo(0, ${y})`);
        await page.evaluate(twoFrames);
        seen.add(`${await page.getAttribute(".player", "data-step")}`);
      }
      const { at: last } = sections.at(-1) ?? {};
      const skipped = sections.filter(({ at }) => !seen.has(at) && at !== last); // the last one may be too far down
      assert.deepEqual(skipped, []);
      for (const { id, at } of sections.reverse()) {
        await page.evaluate(`location.hash = "${id}"`);
        await page.waitForSelector(`.player[data-step="${at}"]`);
      }
    });
  });

  test("a section without a step shows the lines it's about, and their function", async () => {
    const shown = [
      [S01, "2. One tool", /options\.approve/, "runTool()"],
      [S01, "4. The history stays valid", /dropUnanswered/, "runTurn()"],
      [S01, "5. What keeps it alive", /^\/\/ That is the agent\./, ""],
      ["s06_context_compact.html", "4. When it compacts", /clearOldResults/, "compactIfNeeded()"],
    ] as const;
    for (const [path, heading, code, inside] of shown)
      await inTab(path, {}, async (page) => {
        await scrollTo(page, heading);
        const line = page.locator(".player .script .ran", { hasText: code }).first();
        await line.waitFor();
        assert.equal(await page.innerText(".player .inside"), inside);
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
      await page.getByRole("button", { name: "Back to the text" }).click();
      await isAtStep(page, "results");
      await scrollTo(page, "1. The loop");
      await isAtStep(page, "if");
    });
  });

  test("a long line of a listing with columns continues in its column", async () => {
    await inTab("s06_context_compact.html", {}, async (page) => {
      const lefts = await page.locator(".language-text:not(.drawn) .line").evaluateAll((lines) =>
        lines.flatMap((line) => {
          const text = document.createRange();
          text.selectNodeContents(line);
          const [first, ...rest] = text.getClientRects();
          const wrapped = rest.filter(({ top }) => first && top >= first.bottom - 1);
          return wrapped.map(({ left }) => left - (first?.left ?? 0));
        }),
      );
      assert.ok(lefts.length > 0 && Math.min(...lefts) > 100, lefts.join(" "));
    });
  });

  test("the site's title, the menu of sections and the text have one left edge", async () => {
    for (const width of [1280, 1440, 1920])
      await inTab(S01, { viewport: { width, height: 1080 } }, async (page) => {
        await page.click('.VPLocalNav button:has-text("On this page")');
        const parts = [".VPNavBarTitle a", ".VPLocalNavOutlineDropdown > button", ".VPLocalNav .items", ".vp-doc h1"];
        const lefts = await Promise.all(parts.map(async (part) => (await page.locator(part).first().boundingBox())?.x));
        assert.deepEqual(lefts, [40, 40, 40, 40], `${width}`);
      });
  });

  test("below the title are the number of the lesson and links to its neighbours", async () => {
    await inTab("s04_subagent.html", {}, async (page) => {
      const place = page.locator(".vp-doc h1 + p");
      assert.equal(await place.innerText(), "← s03 · 4 of 6 · s05 →");
      await place.getByRole("link", { name: "s05" }).click();
      await page.waitForURL(/s05_skill/);
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

  test("on a phone the player follows the idea, and headings link to their steps", async () => {
    await inTab(S01, { viewport: PHONE }, async (page) => {
      const [idea, player, how] = await Promise.all(
        ["#idea", ".player", "#how-it-works"].map((part) => page.locator(part).boundingBox()),
      );
      assert.ok(idea && player && how && idea.y < player.y && player.y + player.height <= how.y);
      await scrollTo(page, "3. Every call gets a result");
      await page.evaluate(twoFrames);
      assert.equal(await page.getAttribute(".player", "data-step"), "0");
      await page.locator("h3", { hasText: "3. Every call gets a result" }).locator(".to-step").click();
      await isAtStep(page, "results");
      await page.waitForFunction(() => {
        const { top = -1 } = document.querySelector(".player")?.getBoundingClientRect() ?? {};
        return top >= 0 && top < innerHeight / 2;
      });
      const heights = await page
        .locator(".player .line")
        .evaluateAll((lines) => lines.filter((line) => line.checkVisibility()).map((line) => line.clientHeight));
      assert.ok(Math.min(...heights) > 12, "a blank line has no height");
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
