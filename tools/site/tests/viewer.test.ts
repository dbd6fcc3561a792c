/** The context viewer on its page, in Chromium: what only a real browser can show. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { BrowserContextOptions, Page } from "playwright-core";
import { ROOT } from "../.vitepress/files.ts";
import { inTab, PHONE, urlOf, WIDE } from "./browser.ts";

type File = { name: string; mimeType: string; buffer: Buffer };
const jsonlFile = (name: string, content: string): File => ({
  name,
  mimeType: "application/octet-stream",
  buffer: Buffer.from(content),
});
const jsonLines = (lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
const demo = readFileSync(join(ROOT, "tools/docs/runs/demo.jsonl"), "utf8");
const demoCalls = demo.match(/^\{"message":\{"role":"assistant"/gm)?.length ?? 0;

/** A session of Claude Code. Each call reads what the previous one wrote; every fourth follows a request. */
function growingSession(calls: number, resultChars: number, grows: number): string {
  let parentUuid: string | null = null;
  const line = (type: string, message: object, i: number) => {
    const made = { type, uuid: `${type}-${i}`, parentUuid, timestamp: new Date(60_000 * i).toISOString(), message };
    parentUuid = made.uuid;
    return made;
  };
  const lines = Array.from({ length: calls }, (_, i) => {
    const cached = { cache_read_input_tokens: i * grows, cache_creation_input_tokens: grows };
    const usage = { ...cached, input_tokens: 3, output_tokens: 50 };
    const content = [{ type: "tool_use", id: `t${i}`, name: "Read", input: { file_path: `/${i}.ts` } }];
    const result = { type: "tool_result", tool_use_id: `t${i - 1}`, content: `${i} `.padEnd(resultChars, "word ") };
    const request = { role: "user", content: `Request ${i / 4}.` };
    return [
      line("user", { role: "user", content: i === 0 ? "Read all." : [result] }, i),
      ...(i > 0 && i % 4 === 0 ? [line("user", request, i + 0.5)] : []),
      line("assistant", { role: "assistant", id: `m${i}`, model: "claude-opus-5-5", usage, content }, i),
    ];
  });
  return jsonLines(lines.flat());
}

const says = (page: Page, hasText: string) =>
  page.locator(".context-viewer :is(.cv-status, .cv-diagnosis)").filter({ hasText }).waitFor();
async function openFile(page: Page, file: File | string, text: string): Promise<void> {
  await page.setInputFiles(".context-viewer input[type=file]", file);
  await says(page, text);
}
const inViewer = (options: BrowserContextOptions, work: (page: Page) => Promise<void>) =>
  inTab("viewer.html", options, async (page) => {
    await says(page, `${demoCalls} model calls`);
    await work(page);
  });

test("the front page and s06 show a picture of the recorded demo, which leads to the viewer", async () => {
  for (const path of ["index.html", "s06_context_compact.html"])
    await inTab(path, { viewport: PHONE }, async (page) => {
      const picture = page.locator('.vp-doc a[href$="viewer.html"] img');
      await picture.scrollIntoViewIfNeeded();
      assert.ok((await picture.evaluate((image: HTMLImageElement) => image.naturalWidth)) > 0);
      assert.equal(await page.locator(".context-viewer").count(), 0);
      await picture.click();
      await page.waitForURL(urlOf("viewer.html"));
      await says(page, `${demoCalls} model calls`);
    });
});

test("without JavaScript the viewer is a picture", async () => {
  await inTab("viewer.html", { javaScriptEnabled: false }, async (page) => {
    const picture = page.locator(".context-demo img");
    assert.ok((await picture.evaluate((image: HTMLImageElement) => image.naturalWidth)) > 0);
  });
});

test("a link in the diagnosis brings its model call into sight", async () => {
  for (const viewport of [WIDE, PHONE])
    await inViewer({ viewport }, async (page) => {
      await page.locator(".cv-diagnosis a").first().click();
      const { y = -1 } = (await page.locator(".cv-detail h2").first().boundingBox()) ?? {};
      const bar = viewport === WIDE ? 64 : 0; // the site's navigation
      assert.ok(y >= bar && y < viewport.height / 2, `the model call is at ${y}`);
    });
});

test("a list shows whole rows, also after scrolling", async () => {
  for (const viewport of [WIDE, PHONE])
    await inViewer({ viewport }, async (page) => {
      await openFile(page, jsonlFile("long.jsonl", growingSession(100, 400, 100)), "100 model calls");
      const list = page.locator(".cv-rows").first();
      const sizes = () =>
        list.evaluate((element) => [element.clientHeight, element.scrollTop, element.children[0]?.clientHeight ?? 0]);
      const [height = 0, , row = 0] = await sizes();
      await list.evaluate((element) => element.scrollTo({ top: 50 }));
      const [, top = 0] = await sizes();
      assert.ok(row >= (viewport === PHONE ? 44 : 24) && top > 0, `${row} ${top}`);
      assert.deepEqual([height % row, top % row], [0, 0], `${height} and ${top} are not rows of ${row}`);
    });
});

test("nothing moves while a session opens", async () => {
  for (const viewport of [WIDE, PHONE])
    await inViewer({ viewport }, async (page) => {
      await openFile(page, jsonlFile("session.jsonl", growingSession(50, 4_000, 1_000)), "50 model calls");
      await page.locator(".cv-chart svg").first().waitFor();
      const shift = await page.evaluate<number>(`new Promise((resolve) => {
        const observer = new PerformanceObserver((list) => {
          resolve(list.getEntries().reduce((sum, { value }) => sum + value, 0));
        });
        observer.observe({ type: "layout-shift", buffered: true });
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(0)));
      })`);
      assert.ok(shift < 0.1, `${viewport.width} pixels wide: ${shift}`);
    });
});

test("after a file that isn't a session, the next file opens", async () => {
  await inViewer({}, async (page) => {
    await openFile(page, jsonlFile("empty.jsonl", ""), "empty.jsonl");
    await openFile(page, jsonlFile("transcript_1.jsonl", demo), `${demoCalls} model calls`);
  });
});

test("a session of 50 MB opens, and the End key goes to its last call", async () => {
  const folder = mkdtempSync(join(tmpdir(), "viewer-"));
  const large = join(folder, "large.jsonl");
  writeFileSync(large, growingSession(2_500, 20_000, 60));
  try {
    await inViewer({}, async (page) => {
      await openFile(page, large, "2,500 model calls");
      await page.focus(".context-viewer input[type=range]");
      await page.keyboard.press("End");
      await page.locator(".cv-detail h2", { hasText: /2,?500 of 2,?500/ }).waitFor();
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
