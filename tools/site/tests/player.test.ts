/** The recorded runs, step by step, in a Chromium: on the front page and on each lesson's. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { hasChinese, PHONE, pages, visit } from "./browser.ts";

const lessons = pages.filter((page) => /^s\d\d_/.test(page));
const line = (page: Page) => page.innerText(".player .loop .marked");
const messages = (page: Page) => page.locator(".player li:is(.user, .assistant):visible").count();
const isAt = async (page: Page) =>
  (await page.innerText(".player .count")).split(" / ").map(Number) as [number, number];
/** Goes to the end by keyboard. @returns what the messages show at each step */
async function walk(page: Page): Promise<string[]> {
  await page.focus(".player .messages");
  const [, steps] = await isAt(page);
  const seen: string[] = [];
  for (let step = 1; step <= steps; step++) {
    assert.deepEqual(await isAt(page), [step, steps]);
    seen.push(await page.innerText(".player .messages"));
    await page.keyboard.press("ArrowRight");
  }
  assert.deepEqual(await isAt(page), [steps, steps]);
  return seen;
}

test("the front page begins with the loop of s01; then come the lessons, then the viewer and what it shows", async () => {
  await visit("index.html", {}, async (page) => {
    const places = [".player", "h1:has-text('The lessons')", "table", ".context-demo"];
    const tops = await Promise.all(
      places.map(async (place) => (await page.locator(`.vp-doc ${place}`).first().boundingBox())?.y ?? 0),
    );
    assert.deepEqual(
      tops,
      [...tops].sort((a, b) => a - b),
    );
    assert.ok((tops[0] ?? 0) < 400, "in the first window");
    assert.match(await page.innerText(".player .loop"), /function agentLoop/);
    const { 1: sentence = "" } = /(One task, \d+ files.*?drawn\.)/.exec(await page.innerText(".vp-doc")) ?? [];
    const calls = /There are (\d+)/.exec(sentence)?.[1];
    await page.locator(".context-demo").scrollIntoViewIfNeeded();
    await page.locator(".cv-status", { hasText: `${calls} model calls` }).waitFor();
  });
});

test("a step shows the line that runs and what it changes, by buttons and by arrow keys, back and forth", async () => {
  await visit("index.html", {}, async (page) => {
    assert.match(await line(page), /function agentLoop/);
    assert.equal(await messages(page), 1);
    await page.click('.player [data-do="next"]');
    assert.match(await line(page), /await callModel/);
    assert.equal(await messages(page), 2);
    assert.equal(await page.locator(".player li.pending:visible").count(), 1);
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /messages\.push\(\{ role: "assistant"/);
    assert.equal(await page.locator(".player li.pending:visible").count(), 0);
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /runCall\(call/);
    await page.click('.player [data-do="previous"]');
    assert.match(await line(page), /role: "assistant"/);
    await walk(page).catch(() => undefined);
    await page.keyboard.press("Home");
    assert.equal(await messages(page), 1);
    await walk(page);
    assert.match(await line(page), /return reply/);
    assert.equal(await messages(page), 6);
    assert.match(await page.innerText(".player .messages"), /hello\.mjs is there; it printed: Hello, World!/);
    await page.click('.player [data-do="first"]');
    assert.equal(await messages(page), 1);
  });
});

test("it plays only when it is asked, to the end, and stops when one takes over", async () => {
  await visit("index.html", {}, async (page) => {
    await page.clock.install();
    await page.reload();
    await page.waitForSelector(".player[data-step]");
    await page.clock.runFor(60_000);
    assert.equal((await isAt(page))[0], 1);
    await page.click(".player .play");
    await page.clock.runFor(4_000);
    const [playing] = await isAt(page);
    assert.ok(playing > 1);
    await page.click('.player [data-do="previous"]');
    await page.clock.runFor(60_000);
    assert.equal((await isAt(page))[0], playing - 1);
    await page.click(".player .play");
    await page.clock.runFor(60_000);
    const [at, of] = await isAt(page);
    assert.equal(at, of);
    assert.equal(await page.innerText(".player .play"), "Play");
  });
});

test("who asked the system for less motion gets no way to play it, and can step", async () => {
  await visit("index.html", { reducedMotion: "reduce" }, async (page) => {
    assert.equal(await page.locator(".player .play").isVisible(), false);
    await page.click('.player [data-do="next"]');
    assert.equal((await isAt(page))[0], 2);
  });
});

test("on a phone it fits, and its place stays the same at every step", async () => {
  await visit("s04_subagent.html", { viewport: PHONE, hasTouch: true }, async (page) => {
    const height = async () => (await page.locator(".player").boundingBox())?.height;
    const before = await height();
    const [, steps] = await isAt(page);
    for (let step = 1; step < steps; step++) {
      await page.tap('.player [data-do="next"]');
      const wide = await page
        .locator(".player, .player :is(.loop, .messages, .bar)")
        .evaluateAll((parts) =>
          parts.filter((part) => part.scrollWidth > part.clientWidth).map(({ className }) => className),
        );
      assert.deepEqual(wide, []);
      assert.equal(await height(), before);
    }
  });
});

describe("on a lesson's page it shows what is new", () => {
  const news: Record<string, RegExp> = {
    s01: /tool call bash/,
    s02: /tool call edit_file/,
    s03: /\[>\] #2|\(2\/3 completed\)/,
    s04: /a subagent with messages of its own.*The prompt|The test script runs/s,
    s05: /tool call load_skill.*<skill name="code-review">/s,
    s06: /\d+ messages become [45].*Conversation compressed/s,
  };
  for (const path of lessons)
    test(path, async () => {
      await visit(path, {}, async (page) => {
        const before = page.locator(".vp-doc :is(h2, .player)");
        const order = await before.evaluateAll((all) => all.map((each) => each.id || each.className));
        assert.equal(order[order.findIndex((each) => each.startsWith("player")) - 1], "try-it");
        const seen = await walk(page);
        assert.ok(
          seen.some((each) => news[path.slice(0, 3)]?.test(each)),
          seen.at(-1),
        );
      });
    });

  test("a reminder, the child's messages and a compaction come and go", async () => {
    await visit("s03_todo_write.html", {}, async (page) => {
      assert.ok((await walk(page)).some((each) => /added by the program\s+<reminder>/.test(each)));
    });
    await visit("s04_subagent.html", {}, async (page) => {
      const counts: number[] = [];
      await page.focus(".player .messages");
      for (let [at, of] = await isAt(page); at < of; at++) {
        counts.push(await page.locator(".player .child:visible").count());
        await page.keyboard.press("ArrowRight");
      }
      assert.equal(Math.max(...counts), 5, "a sentence, and four messages");
      assert.deepEqual([counts[0], counts.at(-1)], [0, 0]);
    });
    await visit("s06_context_compact.html", {}, async (page) => {
      const counts: number[] = [];
      await page.focus(".player .messages");
      for (let [at, of] = await isAt(page); at < of; at++) {
        if ((await page.locator(".player .gone:visible").count()) === 0) counts.push(await messages(page));
        await page.keyboard.press("ArrowRight");
      }
      const falls = counts.filter((count, i) => count < (counts[i - 1] ?? 0));
      assert.ok(falls.length > 0 && Math.min(...falls) <= 5, counts.join(" "));
    });
  });
});

test("without JavaScript all of the run is text", async () => {
  for (const path of ["index.html", ...lessons])
    await visit(path, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
      const { hidden, clipped } = await page.locator(".player").evaluate((player) => ({
        hidden: [...player.querySelectorAll("li, .block, .line")].filter((each) => each.getClientRects().length === 0)
          .length,
        clipped: [...player.querySelectorAll(".loop, .messages")].some(
          (each) => each.scrollHeight > each.clientHeight + 1,
        ),
      }));
      assert.deepEqual({ hidden, clipped }, { hidden: 0, clipped: false }, path);
      assert.equal(await page.locator(".player .bar").isVisible(), false);
    });
});

test("on the Chinese site it speaks Chinese", { skip: !hasChinese }, async () => {
  await visit("zh/s06_context_compact.html", {}, async (page) => {
    await page.click('.player [data-do="next"]');
    assert.match(await page.innerText(".player .says"), /模型收到这条消息/);
    assert.equal(await page.innerText(".player .play"), "播放");
  });
});
