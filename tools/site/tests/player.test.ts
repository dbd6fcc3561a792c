/** The recorded runs, step by step, in a Chromium: on the front page and on each lesson's. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import type { Run } from "../../docs/runs.ts";
import { ROOT } from "../.vitepress/files.ts";
import { hasChinese, PHONE, pages, visit } from "./browser.ts";

const lessons = pages.filter((page) => /^s\d\d_/.test(page));
const S06 = "s06_context_compact.html";
const line = (page: Page) => page.innerText(".player .script .marked");
const messages = (page: Page) => page.locator(".player li:is(.user, .assistant):visible").count();
const nameOf = (page: Page) => page.getAttribute(".player", "data-name");
const runOf = (path: string): Run =>
  JSON.parse(readFileSync(join(ROOT, `tools/docs/runs/${path.slice(0, 3)}.json`), "utf8"));
const isAt = async (page: Page) =>
  (await page.innerText(".player .count")).split(" / ").map(Number) as [number, number];
/** Goes to the end by keyboard. @returns what was looked at, at each step */
async function walk<Seen>(page: Page, look: () => Promise<Seen>): Promise<Seen[]> {
  await page.focus(".player .messages");
  await page.keyboard.press("Home");
  const [, steps] = await isAt(page);
  const seen: Seen[] = [];
  for (let step = 1; step <= steps; step++) {
    assert.deepEqual(await isAt(page), [step, steps]);
    seen.push(await look());
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
    assert.match(await page.innerText(".player .script"), /function agentLoop/);
    const { 1: sentence = "" } = /(One task, \d+ files.*?drawn\.)/.exec(await page.innerText(".vp-doc")) ?? [];
    const calls = /There are (\d+)/.exec(sentence)?.[1];
    await page.locator(".context-demo").scrollIntoViewIfNeeded();
    await page.locator(".cv-status", { hasText: `${calls} model calls` }).waitFor();
  });
});

test("a step shows the line that runs, its command and what it changes, by buttons and by arrow keys, back and forth", async () => {
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
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /runCall\(call/);
    assert.match(
      await page.innerText(".player .says"),
      /runs bash: echo 'console\.log\("Hello, World!"\);' > hello\.mjs/,
    );
    await page.click('.player [data-do="previous"]');
    await page.click('.player [data-do="previous"]');
    assert.match(await line(page), /role: "assistant"/);
    await page.keyboard.press("End");
    assert.match(await line(page), /return reply/);
    assert.equal(await messages(page), 6);
    assert.match(await page.innerText(".player .messages"), /hello\.mjs is there; it printed: Hello, World!/);
    await page.keyboard.press("Home");
    assert.equal(await messages(page), 1);
  });
});

describe("in each lesson", () => {
  const news: Record<string, RegExp> = {
    s01: /tool call bash/,
    s02: /tool call edit_file/,
    s03: /added by the program\s+<reminder>/,
    s04: /a subagent with messages of its own.*The test script runs/s,
    s05: /tool call load_skill.*<skill name="code-review">/s,
    s06: /Conversation compressed/,
  };
  for (const path of lessons)
    test(`${path}: what is new, the branch of each reply, and what exactly the next request sends`, async () => {
      await visit(path, {}, async (page) => {
        const seen = await walk(page, async () => ({
          name: await nameOf(page),
          line: await line(page),
          value: await page.locator(".player .marked").getAttribute("data-value"),
          messages: await page.innerText(".player .messages"),
          bar: [
            await page.innerText(".player .total"),
            await page.innerText(".player .counts .read b"),
            await page.innerText(".player .counts .fresh b"),
          ],
        }));
        assert.ok(
          seen.some(({ messages }) => news[path.slice(0, 3)]?.test(messages)),
          seen.at(-1)?.messages,
        );
        const { calls } = runOf(path);
        const branches = seen.filter(({ line }) => /if \(calls\.length === 0\)/.test(line));
        const decided = calls.flatMap(({ reply }) => {
          const count = reply?.blocks.filter(({ kind }) => kind === "tool_use").length;
          return reply ? [count === 0 ? "0 calls: return" : `${count} call: go on`] : [];
        });
        assert.deepEqual(
          branches.map(({ value }) => value),
          decided,
        );
        const bars = calls.map(({ usage }) => {
          const read = usage.cache_read_input_tokens;
          const fresh = usage.cache_creation_input_tokens + usage.input_tokens;
          return [`${read + fresh} tokens`, `${read}`, `${fresh}`];
        });
        const plain = (bar: string[]) => bar.map((text) => text.replace(",", ""));
        const sent = seen.filter(({ name = "" }) => /^(call|summary)$/.test(name ?? ""));
        const inDetail = sent.map(({ bar }) => bars.findIndex((each) => `${each}` === `${plain(bar)}`));
        assert.ok(inDetail.length > 1 && !inDetail.includes(-1), `${inDetail}`);
        const shown = new Set(seen.map(({ bar }) => `${plain(bar)}`));
        for (const bar of bars) assert.ok(shown.has(`${bar}`), `${bar}`);
        assert.equal(shown.size, bars.length + 1, "and no request at the end");
      });
    });
});

test("a compaction is seen before, while the summary is written, and after: what goes is struck out, the rest stays", async () => {
  await visit(S06, {}, async (page) => {
    const { calls } = runOf(S06);
    const summaries = calls.filter(({ reply }) => !reply).length;
    assert.equal(await page.locator(".player .marks .compaction").count(), summaries);
    const [, steps] = await isAt(page);
    assert.ok(steps <= 25, `${steps} steps`);
    const look = async () => ({
      name: await nameOf(page),
      line: await line(page),
      struck: await page.locator(".player li.struck:visible").count(),
      pending: await page
        .locator(".player li.pending:visible")
        .innerText({ timeout: 50 })
        .catch(() => ""),
      messages: await messages(page),
      text: await page.innerText(".player .messages"),
    });
    const seen = await walk(page, look);
    const at = seen.findIndex(({ name }) => name === "before");
    const [before, summary, after] = seen.slice(at, at + 3);
    assert.match(before?.line ?? "", /autoCompact\(messages, "auto"/);
    assert.match(summary?.line ?? "", /callModel\(\[\.\.\.answered/);
    assert.match(after?.line ?? "", /replaceHistory\(/);
    assert.equal(before?.struck, 0);
    assert.match(summary?.pending ?? "", /Conversation compressed/);
    assert.equal(summary?.struck, (before?.messages ?? 0) - 3, "all but the request and the open round");
    assert.equal(after?.messages, 4);
    const [call] = /path: notes\/\d+\.txt(?!.*path: )/s.exec(before?.text ?? "") ?? [];
    assert.ok(call && after?.text.includes(call), "the open round");
  });
});

test("the slider goes to any step, by mouse and by keyboard, and has a mark for each round", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const slider = page.getByRole("slider", { name: "Step" });
    const [, steps] = await isAt(page);
    const { calls } = runOf("s04");
    assert.equal(await page.locator(".player .marks .round").count(), calls.length);
    assert.equal(await page.locator(".player .marks .between").count(), 1, "the subagent");
    const { width = 0, height = 0 } = (await slider.boundingBox()) ?? {};
    await slider.click({ position: { x: width - 4, y: height / 2 } });
    assert.deepEqual(await isAt(page), [steps, steps]);
    await page.keyboard.press("ArrowLeft");
    assert.deepEqual(await isAt(page), [steps - 1, steps]);
    await page.keyboard.press("Home");
    assert.deepEqual(await isAt(page), [1, steps]);
  });
});

test("the subagent's messages come and go", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const counts = await walk(page, () => page.locator(".player .child:visible").count());
    assert.equal(Math.max(...counts), 5, "a sentence, and four messages");
    assert.deepEqual([counts[0], counts.at(-1)], [0, 0]);
  });
});

test("it plays only when it is asked, as fast as it is told, to the end, and stops when one takes over", async () => {
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
    await page.keyboard.press("Home");
    await page.selectOption(".player .speed", "4");
    await page.click(".player .play");
    await page.clock.runFor(4_000);
    assert.ok((await isAt(page))[0] > playing + 2, "faster");
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

describe("on a phone", () => {
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

  for (const path of ["s01_agent_loop.html", "s04_subagent.html", S06])
    test(`${path}: script, bar, messages and controls are in one screen at every step`, async () => {
      await visit(path, phone, async (page) => {
        await page.locator(".player").evaluate((player) => player.scrollIntoView());
        const bar = await page.locator(".VPLocalNav").boundingBox();
        const top = (bar?.y ?? 0) + (bar?.height ?? 0);
        const outside = () =>
          page.locator(".player :is(.script, .marked, .says, .meter, .messages, .controls)").evaluateAll(
            (parts, top) =>
              parts.flatMap((part) => {
                const box = part.getBoundingClientRect();
                const isInside = box.top >= top - 1 && box.bottom <= innerHeight && box.left >= 0;
                const isTooWide = part.matches(":not(.script, .marked)") && part.scrollWidth > part.clientWidth;
                const isTooLow = part.matches(".messages") && box.height < 120;
                return isInside && !isTooWide && !isTooLow ? [] : [`${part.className} ${box.top} ${box.height}`];
              }),
            top,
          );
        const wrong = await walk(page, outside);
        assert.deepEqual(wrong.flat(), []);
      });
    });

  test("a swipe moves, and what one taps is 44 pixels large", async () => {
    await visit(S06, phone, async (page) => {
      await page.locator(".player").evaluate((player) => player.scrollIntoView());
      const sizes = await page.locator(".player :is(button, select, input[type=range])").evaluateAll((targets) =>
        targets
          .filter((each) => each.checkVisibility())
          .map((each) => {
            const { width, height } = each.getBoundingClientRect();
            return Math.min(width, height);
          }),
      );
      assert.ok(sizes.length >= 4 && Math.min(...sizes) >= 44, sizes.join(" "));
      const session = await page.context().newCDPSession(page);
      const swipe = async (from: number, to: number) => {
        const { y = 0 } = (await page.locator(".player .messages").boundingBox()) ?? {};
        const touch = (type: "touchStart" | "touchMove" | "touchEnd", ...places: number[]) =>
          session.send("Input.dispatchTouchEvent", { type, touchPoints: places.map((x) => ({ x, y: y + 40 })) });
        await touch("touchStart", from);
        for (let i = 1; i <= 5; i++) await touch("touchMove", from + ((to - from) * i) / 5);
        await touch("touchEnd");
      };
      await swipe(300, 100);
      assert.equal((await isAt(page))[0], 2);
      await swipe(300, 100);
      await swipe(100, 300);
      assert.equal((await isAt(page))[0], 2);
      await swipe(200, 215);
      assert.equal((await isAt(page))[0], 2, "a short way is no swipe");
    });
  });
});

test("without JavaScript all of the run is text", async () => {
  for (const path of ["index.html", ...lessons])
    await visit(path, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
      const { hidden, clipped } = await page.locator(".player").evaluate((player) => ({
        hidden: [...player.querySelectorAll("li, .block, .loop .line")].filter(
          (each) => each.getClientRects().length === 0,
        ).length,
        clipped: [...player.querySelectorAll(".script, .messages")].some(
          (each) => each.scrollHeight > each.clientHeight + 1,
        ),
      }));
      assert.deepEqual({ hidden, clipped }, { hidden: 0, clipped: false }, path);
      assert.equal(await page.locator(".player .controls").isVisible(), false);
    });
});

test("on the Chinese site it speaks Chinese", { skip: !hasChinese }, async () => {
  await visit("zh/s06_context_compact.html", {}, async (page) => {
    await page.click('.player [data-do="next"]');
    await page.click('.player [data-do="next"]');
    assert.match(await page.innerText(".player .says"), /模型收到这条消息/);
    assert.match(await page.innerText(".player .request"), /下一次模型调用.*缓存命中/s);
    assert.equal(await page.innerText(".player .play"), "播放");
  });
});
