/** The recorded runs on the front page and on each lesson's page, step by step, in Chromium. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { builtPages, inTab, PHONE, S01, WIDE } from "./browser.ts";

const lessons = builtPages.filter((page) => /^s\d\d_/.test(page));
const S06 = "s06_context_compact.html";
const markedLine = (page: Page) => page.innerText(".player .script .marked");
const countMessages = (page: Page) => page.locator(".player li:is(.user, .assistant):visible").count();
const stepShown = async (page: Page) =>
  (await page.innerText(".player .count")).split(" / ").map(Number) as [number, number];
/** Goes through all steps within the page and returns what `look` saw at each. */
const lookAtSteps = <Seen>(page: Page, look: (player: Element) => Seen): Promise<Seen[]> =>
  page.locator(".player").evaluate((player, source) => {
    const look: (player: Element) => Seen = new Function(`const __name = (named) => named; return ${source}`)(); // esbuild adds calls of __name
    const count = player.querySelector(".count");
    const steps = Number(count?.textContent?.split(" / ")[1]);
    const seen: Seen[] = [];
    for (let step = 1; step <= steps; step++) {
      const key = step === 1 ? "Home" : "ArrowRight";
      player.dispatchEvent(new KeyboardEvent("keydown", { key }));
      if (count?.textContent !== `${step} / ${steps}`) throw new Error(`${count?.textContent} after ${step}`);
      seen.push(look(player));
    }
    return seen;
  }, look.toString());

test("the first screen of the front page has two ways to begin, the lessons, and the run of s01 from its start", async () => {
  for (const path of ["index.html", "zh/index.html"])
    await inTab(path, { viewport: { width: 1280, height: 800 } }, async (page) => {
      for (const part of [".start a:last-child", ".vp-doc tr:nth-child(3)", ".player .script", ".player .controls"]) {
        const { y = -1, height = 0 } = (await page.locator(part).first().boundingBox()) ?? {};
        assert.ok(y > 0 && y + height <= 800, `${path}: ${part} ends at ${y + height}`);
      }
      assert.match(await page.innerText(".player .head"), /hello\.mjs/);
      assert.deepEqual((await stepShown(page))[0], 1);
      await page.click(".start a:first-child");
      await page.waitForSelector('.player a:has-text("agents/s01_agent_loop.ts")');
    });
});

test("buttons and arrow keys go back and forth, and each step marks its line and shows what it changes", async () => {
  await inTab(S01, {}, async (page) => {
    const pending = page.locator(".player li.pending:visible");
    assert.match(await markedLine(page), /function agentLoop/);
    assert.equal(await countMessages(page), 1);
    await page.click('.player [data-do="next"]');
    assert.match(await markedLine(page), /await callModel/);
    assert.deepEqual([await countMessages(page), await pending.count()], [2, 1]);
    await page.keyboard.press("ArrowRight");
    assert.match(await markedLine(page), /messages\.push\(\{ role: "assistant"/);
    assert.deepEqual([await countMessages(page), await pending.count()], [2, 0]);
    await page.click('.player [data-do="previous"]');
    assert.match(await markedLine(page), /await callModel/);
    await page.locator(".player").dispatchEvent("keydown", { key: "ArrowRight", altKey: true });
    assert.match(await markedLine(page), /await callModel/, "Alt and an arrow belong to the browser");
    await page.keyboard.press("End");
    assert.match(await markedLine(page), /if \(calls\.length === 0\) return/);
    await page.keyboard.press("Home");
    assert.equal(await countMessages(page), 1);
  });
});

describe("in s06", async () => {
  const seen = await inTab(S06, {}, (page) =>
    lookAtSteps(page, (player) => {
      const shown = [...player.querySelectorAll<HTMLElement>("li")].filter((each) => each.checkVisibility());
      return {
        name: player.getAttribute("data-name") ?? "",
        struck: shown.filter((each) => each.matches(".struck:not(.event)")).length,
        messages: shown.filter((each) => !each.matches(".event, .child")).length,
        text: player.querySelector<HTMLElement>(".messages")?.innerText ?? "",
        disk: shown.flatMap((each) => (each.matches(".child") ? each.innerText : [])).join("\n"),
      };
    }),
  );
  type Seen = (typeof seen)[0];
  /** The steps from the first one with this name. */
  const stepsFrom = (name: string) => {
    const start = seen.findIndex((each) => each.name === name);
    assert.ok(start >= 0, `no step is called ${name}`);
    return seen.slice(start) as [Seen, Seen, Seen];
  };

  test("layer 1 strikes out old results, and then each is one line", () => {
    for (const name of ["past", "cold"]) {
      const [before, cleared] = stepsFrom(name);
      const lines = (text: string) => text.match(/\[Previous: used \w+\]/g)?.length ?? 0;
      assert.ok(before.struck > 0);
      assert.equal(lines(cleared.text) - lines(before.text), before.struck);
      assert.deepEqual([cleared.messages, cleared.struck], [before.messages, 0]);
    }
  });

  test("layer 2 strikes out messages while the summary is written, and then the summary replaces them", () => {
    const [before, summary, after] = stepsFrom("before");
    assert.deepEqual([before.struck > 0, summary.struck > 0, after.struck], [false, true, 0]);
    assert.match(after.text, /Conversation compressed/);
    assert.equal(after.messages, before.messages - summary.struck + 1);
  });

  test("a killed program leaves its messages on disk, and a new program has them all and a result for the last call", () => {
    const before = seen[seen.findIndex(({ name }) => name === "killed") - 1];
    const [killed, pause, resume] = stepsFrom("killed");
    for (const { messages, disk } of [killed, pause]) {
      assert.equal(messages, 0);
      assert.match(disk, /kill -9 \$PPID$/);
    }
    assert.equal(resume.disk, "");
    assert.ok(resume.messages > Number(before?.messages));
    assert.match(resume.text, /kill -9 \$PPID\s+user\s+tool result\s+\(interrupted; it may have run\)/);
    assert.doesNotMatch(resume.text, /^thinking$/m);
  });
});

describe("at each step", () => {
  const screens = [WIDE, { width: 1280, height: 800 }, { width: 1000, height: 800 }, PHONE];
  for (const path of [...lessons, `zh/${S06}`])
    test(`${path}: the newest message is in sight, and nothing moves or is cut off`, async () => {
      await inTab(path, { reducedMotion: "reduce" }, async (page) => {
        for (const viewport of screens) {
          await page.setViewportSize(viewport);
          const seen = await lookAtSteps(page, (player) => {
            const shown = [...player.querySelectorAll("li")].filter((each) => each.checkVisibility());
            const newest = shown.findLast((each) => !each.matches(".brief, .old, .event")) ?? shown.at(-1) ?? player;
            const box = (part: string | Element) => {
              const element = typeof part === "string" ? (player.querySelector(part) ?? player) : part;
              const { top, bottom, height } = element.getBoundingClientRect();
              return { top, bottom, height, isCut: element.scrollHeight > element.clientHeight };
            };
            const [script, marked, messages, last] = [".script", ".script .marked", ".messages", newest].map(box);
            if (!script || !marked || !messages || !last) throw new Error("a part is missing");
            const least = Math.min(last.height, messages.height / 2); // a long message shows its beginning
            const end = box(shown.at(-1) ?? newest).bottom;
            const top = player.getBoundingClientRect().top;
            const parts = [".script", ".says", ".request", ".messages", ".controls"].map(box);
            return {
              name: player.getAttribute("data-name") ?? "",
              places: parts.map((each) => `${Math.round(each.top - top)} ${each.height}`),
              isSeen: last.top >= messages.top - 1 && last.top + least <= messages.bottom + 1,
              isEndSeen: end <= messages.bottom + 1 || end - last.top > messages.height - 1,
              isMarkSeen: marked.top >= script.top - 1 && marked.top + 18 <= script.bottom,
              isCut: box(".says").isCut,
            };
          });
          for (const [i, { name, places, ...rest }] of seen.entries()) {
            const step = `${viewport.width}: step ${i + 1}, ${name}`;
            assert.deepEqual(places, seen[0]?.places, step);
            assert.deepEqual(rest, { isSeen: true, isEndSeen: true, isMarkSeen: true, isCut: false }, step);
          }
        }
      });
    });
});

test("the controls are in sight with the script", async () => {
  for (const path of ["index.html", ...lessons])
    await inTab(path, {}, async (page) => {
      for (const viewport of [{ width: 1280, height: 800 }, { width: 1000, height: 800 }, PHONE]) {
        await page.setViewportSize(viewport);
        await page.locator(".player").evaluate((player) => player.scrollIntoView());
        const { y = -1, height = 0 } = (await page.locator(".player .controls").boundingBox()) ?? {};
        assert.ok(y > 0 && y + height <= viewport.height && height < 120, `${path}, ${viewport.width}: ${y}`);
      }
    });
});

test("the slider goes to any step by mouse and by keyboard, and says it in words", async () => {
  await inTab("s04_subagent.html", {}, async (page) => {
    const slider = page.getByRole("slider", { name: "Step" });
    const [, steps] = await stepShown(page);
    assert.ok((await page.locator(".player .marks .subagent").count()) > 0);
    assert.equal(await page.locator(".player .chart i").count(), await page.locator(".player .marks .round").count());
    const { width = 0, height = 0 } = (await slider.boundingBox()) ?? {};
    await slider.click({ position: { x: width - 4, y: height / 2 } });
    assert.deepEqual(await stepShown(page), [steps, steps]);
    await page.keyboard.press("ArrowLeft");
    assert.deepEqual(await stepShown(page), [steps - 1, steps]);
    const says = await page.innerText(".player .says span");
    assert.equal(await slider.getAttribute("aria-valuetext"), `${steps - 1} / ${steps}: ${says}`);
  });
});

test("Play advances at once, goes to the end, and stops when the reader takes over", async () => {
  await inTab(S01, {}, async (page) => {
    await page.clock.install();
    await page.reload();
    await page.waitForSelector(".player[data-step]");
    await page.clock.pauseAt(Date.now() + 60_000); // from here on, its clock moves only when we say so
    await page.click(".player .play");
    assert.equal((await stepShown(page))[0], 2);
    await page.clock.runFor(600_000);
    const [at, steps] = await stepShown(page);
    assert.deepEqual([at, await page.innerText(".player .play")], [steps, "Play"]);
    await page.keyboard.press("Home");
    await page.click(".player .play");
    await page.clock.runFor(10_000);
    const [playing] = await stepShown(page);
    await page.click('.player [data-do="previous"]');
    await page.clock.runFor(60_000);
    assert.equal((await stepShown(page))[0], playing - 1);
  });
});

test("readers who asked for less motion can step through a run, but not play it", async () => {
  await inTab("index.html", { reducedMotion: "reduce" }, async (page) => {
    const [at] = await stepShown(page);
    assert.equal(await page.locator(".player .play").isVisible(), false);
    await page.click('.player [data-do="next"]');
    assert.equal((await stepShown(page))[0], at + 1);
  });
});

test("on a phone, everything to tap is at least 44 pixels wide and high", async () => {
  await inTab(S06, { viewport: PHONE, hasTouch: true, isMobile: true }, async (page) => {
    await page.locator(".player").evaluate((player) => player.scrollIntoView());
    const sizes = await page.locator(".player :is(button, input[type=range]):visible").evaluateAll((targets) =>
      targets.map((each) => {
        const { width, height } = each.getBoundingClientRect();
        return Math.min(width, height);
      }),
    );
    assert.ok(sizes.length >= 4 && Math.min(...sizes) >= 44, sizes.join(" "));
  });
});

test("without JavaScript a page has all of its text, the script and the run", async () => {
  for (const path of ["index.html", ...lessons])
    await inTab(path, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
      const hidden = await page
        .locator("main")
        .evaluate((main) =>
          [...main.querySelectorAll(".player :is(li, .block, .loop .line), h2, p > a")].flatMap((each) =>
            each.getClientRects().length === 0 ? `${each.textContent}` : [],
          ),
        );
      assert.deepEqual(hidden, [], path);
    });
  await inTab(S01, { javaScriptEnabled: false }, async (page) => {
    const lines = await page.locator(".player .script .line").allTextContents();
    assert.equal(lines.join("\n"), readFileSync(join(ROOT, "agents/s01_agent_loop.ts"), "utf8").trimEnd());
  });
});
