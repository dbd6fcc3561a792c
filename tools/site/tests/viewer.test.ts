/** The context viewer on its page, in a Chromium: what opens, what it shows of it, and what it says of other files. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { addressOf, open as goTo, hasChinese, PHONE, visit, WIDE } from "./browser.ts";

type File = { name: string; mimeType: string; buffer: Buffer };
const file = (name: string, content: string | Buffer): File => ({
  name,
  mimeType: "application/octet-stream",
  buffer: Buffer.from(content),
});
const jsonLines = (lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
const demo = readFileSync(join(ROOT, "tools/docs/runs/demo.jsonl"), "utf8");
const calls = demo.match(/^\{"message":\{"role":"assistant"/gm)?.length ?? 0;
const compactions = demo.match(/^\{"type":"compaction"/gm)?.length ?? 0;

/** A session of Claude Code: each call reads what the one before wrote, and adds `grows` tokens; every fourth is asked for. */
function claudeSession(requests: number, resultChars: number, grows: number): object[] {
  let parentUuid: string | null = null;
  const line = (type: string, message: object, i: number) => {
    const made = { type, uuid: `${type}-${i}`, parentUuid, timestamp: new Date(60_000 * i).toISOString(), message };
    parentUuid = made.uuid;
    return made;
  };
  return Array.from({ length: requests }, (_, i) => {
    const cached = { cache_read_input_tokens: i * grows, cache_creation_input_tokens: grows };
    const usage = { ...cached, input_tokens: 3, output_tokens: 50 };
    const content = [{ type: "tool_use", id: `t${i}`, name: "Read", input: { file_path: `/${i}.ts` } }];
    const result = { type: "tool_result", tool_use_id: `t${i - 1}`, content: `${i} `.padEnd(resultChars, "word ") };
    const asked = { role: "user", content: `Request ${i / 4}.` };
    return [
      line("user", { role: "user", content: i === 0 ? "Read all." : [result] }, i),
      ...(i > 0 && i % 4 === 0 ? [line("user", asked, i + 0.5)] : []),
      line("assistant", { role: "assistant", id: `m${i}`, model: "claude-opus-5-5", usage, content }, i),
    ];
  }).flat();
}

const status = (page: Page) => page.locator(".cv-status");
/** Chooses a file on the viewer's page, and waits for a sentence about it that has this. */
async function choose(page: Page, chosen: File | string, expected: RegExp): Promise<void> {
  await page.setInputFiles(".context-viewer input[type=file]", chosen);
  await status(page).filter({ hasText: expected }).waitFor();
}
const viewer = <Result>(work: (page: Page) => Promise<Result>) =>
  visit("viewer.html", {}, async (page) => {
    await status(page)
      .filter({ hasText: `${calls} model calls` })
      .waitFor();
    return work(page);
  });

test("the front page and s06 show a picture of the recorded demo, which leads to the viewer", async () => {
  for (const path of ["index.html", "s06_context_compact.html"])
    await visit(path, { viewport: PHONE }, async (page) => {
      const picture = page.locator('.vp-doc a[href$="viewer.html"] img');
      await picture.scrollIntoViewIfNeeded();
      assert.equal(await picture.evaluate((image: HTMLImageElement) => image.naturalWidth), 760);
      assert.equal(await page.locator(".context-viewer").count(), 0);
      await picture.click();
      await page.waitForURL(addressOf("viewer.html"));
      await status(page)
        .filter({ hasText: `${calls} model calls, ${compactions} compactions` })
        .waitFor();
    });
});

test("without JavaScript it is a picture", async () => {
  await visit("viewer.html", { javaScriptEnabled: false }, async (page) => {
    const picture = page.locator(".context-demo img");
    assert.equal(await picture.evaluate((image) => image instanceof HTMLImageElement && image.naturalWidth), 760);
  });
});

test("the sizes of a Claude Code session are those of its usage, model call by model call, by keyboard", async () => {
  await viewer(async (page) => {
    const session = file("session.jsonl", jsonLines(claudeSession(5, 4_000, 1_000)));
    await choose(page, session, /5 model calls, 0 compactions, largest prompt 5,003 tokens/);
    await page.focus(".context-viewer input[type=range]");
    for (const [key, request, tokens] of [
      ["Home", 1, "1,003"],
      ["ArrowRight", 2, "2,003"],
      ["End", 5, "5,003"],
    ] as const) {
      await page.keyboard.press(key);
      const heading = page.locator(".cv-detail h3", { hasText: `At model call ${request} of 5` });
      await heading.waitFor();
      assert.match(await page.innerText(".cv-detail p"), new RegExp(`^${tokens} tokens`));
    }
    assert.match(await page.innerText(".cv-detail"), /read from the cache\s*4,000 tokens/);
  });
});

test("it opens with the diagnosis, whose links lead to the calls: there they are in sight", async () => {
  for (const viewport of [WIDE, PHONE])
    await visit("viewer.html", { viewport }, async (page) => {
      const sentences = page.locator(".cv-diagnosis li");
      await sentences.last().waitFor();
      const [cost = "", misses = "", filling = ""] = await sentences.allInnerTexts();
      assert.match(cost, new RegExp(`^The session cost \\$0\\.\\d+, .* for \\d summaries: ${calls} model calls sent`));
      const written = `${compactions} prompts after a compaction`;
      assert.match(
        misses,
        new RegExp(`^The prompt cache was never missed\\. ${written} had to be written to the cache: \\$0\\.\\d+`),
      );
      assert.match(filling, /^Of the largest prompt, \d+% was /);
      await page.getByRole("link", { name: written }).click();
      const heading = page.locator(".cv-detail h3");
      const { y = -1 } = (await heading.boundingBox()) ?? {};
      assert.ok(y >= 0 && y < viewport.height / 2, `the model call is at ${y}`);
      await page.locator(".cv-missed").waitFor();
    });
});

test("a list shows whole rows, and a scrolled one, too", async () => {
  for (const viewport of [WIDE, PHONE])
    await visit("viewer.html", { viewport }, async (page) => {
      await choose(page, file("long.jsonl", jsonLines(claudeSession(100, 400, 100))), /100 model calls/);
      const list = page.locator(".cv-rows").first();
      assert.match(await page.locator(".cv-columns h3").first().innerText(), /Requests \(25\)/);
      const sizes = () =>
        list.evaluate((element) => [element.clientHeight, element.scrollTop, element.children[0]?.clientHeight ?? 0]);
      const [height = 0, , row = 0] = await sizes();
      await list.evaluate((element) => element.scrollTo({ top: 50 }));
      const [, top = 0] = await sizes();
      assert.ok(row >= (viewport === PHONE ? 44 : 24) && top > 0, `${row} ${top}`);
      assert.deepEqual([height % row, top % row], [0, 0], `${height} and ${top} are not rows of ${row}`);
    });
});

test("nothing jumps while the demo is read, nor when another session is", async (t) => {
  for (const viewport of [WIDE, PHONE])
    await visit("viewer.html", { viewport }, async (page) => {
      await page.locator(".cv-chart svg").first().waitFor();
      await choose(page, file("session.jsonl", jsonLines(claudeSession(50, 4_000, 1_000))), /50 model calls/);
      await page.locator(".cv-chart svg").first().waitFor();
      const shift = await page.evaluate<number>(`new Promise((resolve) => {
        const observer = new PerformanceObserver((list) => {
          resolve(list.getEntries().reduce((sum, { value }) => sum + value, 0));
        });
        observer.observe({ type: "layout-shift", buffered: true });
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(0)));
      })`);
      t.diagnostic(`${viewport.width} pixels wide: ${shift}`);
      assert.ok(shift < 0.1, `${viewport.width} pixels wide: ${shift}`);
    });
});

test("of 15,860 calls the marks and the numbers of the axis stay apart", async () => {
  const session = file("large.jsonl", jsonLines(claudeSession(15_860, 100, 30)));
  await viewer(async (page) => {
    await choose(page, session, /15,860 model calls/);
    const chart = page.locator(".cv-chart svg").first();
    const middlesOf = async (all: Locator) => {
      const boxes = await Promise.all((await all.all()).map((each) => each.boundingBox()));
      return boxes.flatMap((box) => (box ? box.x + box.width / 2 : [])).sort((a, b) => a - b);
    };
    const ticks = await middlesOf(chart.locator("text").filter({ hasText: /^\d[\d,]{2,}$/ }));
    const marks = await middlesOf(chart.locator("path:has(title)"));
    assert.ok(ticks.length >= 5 && marks.length >= 20, `${ticks.length} ${marks.length}`);
    const least = (places: number[]) => Math.min(...places.slice(1).map((place, i) => place - (places[i] ?? 0)));
    assert.ok(least(ticks) > 40 && least(marks) > 12, `${least(ticks)} and ${least(marks)} pixels apart`);
  });
});

test("a compaction of a transcript: before and after, and what was kept", async () => {
  await viewer(async (page) => {
    await choose(page, file("transcript_1.jsonl", demo), new RegExp(`${compactions} compactions`));
    const jump = page.locator(".cv-jumps button").last();
    const [place] = (await jump.innerText()).split(" ·");
    await jump.click();
    await page.locator(".cv-detail h3", { hasText: `At the compaction ${place}` }).waitFor();
    const sides = await page.locator(".cv-detail .cv-columns h4").allInnerTexts();
    assert.deepEqual(
      sides.map((side) => side.replace(/\s*[\d,]+ tokens/, "")),
      ["Before:", "After:"],
    );
    assert.match(await page.innerText(".cv-detail .cv-columns"), /kept word for word/);
  });
});

test("a torn file shows what it has, and counts the broken line", async () => {
  await viewer(async (page) => {
    await choose(page, file("torn.jsonl", demo.slice(0, demo.length / 2)), /\d+ model calls/);
    assert.match(await page.innerText(".context-viewer footer"), /1 × broken line \(line \d+\)/);
  });
});

test("a file that is no session gets a sentence, and the next file opens", async () => {
  await viewer(async (page) => {
    await choose(page, file("empty.jsonl", ""), /empty\.jsonl holds no model call/);
    const png = Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex");
    await choose(page, file("picture.png", png), /picture\.png holds no model call/);
    await choose(page, file("transcript_1.jsonl", demo), new RegExp(`${calls} model calls`));
  });
});

test("a session of 50 MB opens and steps to its end; how long that takes is printed", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "viewer-"));
  const large = join(folder, "large.jsonl");
  writeFileSync(large, jsonLines(claudeSession(2_500, 20_000, 60)));
  try {
    await viewer(async (page) => {
      const start = performance.now();
      await choose(page, large, /2,500 model calls/);
      const opened = performance.now() - start;
      await page.focus(".context-viewer input[type=range]");
      const step = performance.now();
      await page.keyboard.press("End");
      await page.locator(".cv-detail h3", { hasText: /^At model call 2,?500 of 2,?500/ }).waitFor();
      const stepped = performance.now() - step;
      const heap = await page.evaluate<number>("performance.memory.usedJSHeapSize / 1e6");
      t.diagnostic(`opened in ${Math.round(opened)} ms, a step in ${Math.round(stepped)} ms, ${Math.round(heap)} MB`);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("it speaks the language of the page", { skip: !hasChinese }, async () => {
  await visit("zh/viewer.html", {}, async (page) => {
    await status(page)
      .filter({ hasText: `${calls} 次模型调用` })
      .waitFor();
    await goTo(page, "viewer.html");
    await status(page)
      .filter({ hasText: `${calls} model calls` })
      .waitFor();
  });
});
