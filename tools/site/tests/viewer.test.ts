/** The context viewer on its page, in Chromium: what only a real browser can show. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { BrowserContextOptions, Page } from "playwright-core";
import { readTimeline } from "../../trace/read-timeline.ts";
import { ROOT } from "../.vitepress/files.ts";
import { inTab, PHONE, WIDE } from "./browser.ts";

const demo = readFileSync(join(ROOT, "tools/docs/runs/demo.jsonl"), "utf8");
const demoCalls = readTimeline(demo).modelCalls.length;

const says = (page: Page, hasText: string) =>
  page.locator(".context-viewer :is(.cv-status, .cv-figures)").filter({ hasText }).waitFor();
async function openFile(page: Page, file: string, text: string): Promise<void> {
  await page.setInputFiles(".context-viewer input[type=file]", file);
  await says(page, text);
}
const inViewer = (options: BrowserContextOptions, work: (page: Page) => Promise<void>) =>
  inTab("viewer.html", options, async (page) => {
    await says(page, `${demoCalls} model calls`);
    await work(page);
  });

test("without JavaScript the viewer is a picture", async () => {
  await inTab("viewer.html", { javaScriptEnabled: false }, async (page) => {
    const picture = page.locator(".context-demo img");
    assert.ok((await picture.evaluate((image: HTMLImageElement) => image.naturalWidth)) > 0);
  });
});

test("what is selected is in sight below the chart, and Back leads to the selection before", async () => {
  for (const viewport of [WIDE, PHONE])
    await inViewer({ viewport }, async (page) => {
      const isInSight = async (text: string) => {
        await page.locator(".cv-detail h2", { hasText: text }).waitFor();
        await page.waitForFunction(() => {
          const [heading, strip] = document.querySelectorAll(".cv-detail :is(h2, .cv-strip)");
          return (
            heading &&
            heading.getBoundingClientRect().top >= 0 &&
            strip &&
            strip.getBoundingClientRect().top < innerHeight
          );
        });
      };
      await page.locator(".cv-rows button", { hasText: "before call 20" }).click();
      await isInSight("Compaction before call 20");
      await page.locator(".cv-figures a").first().click();
      await isInSight("Model call 61");
      await page.goBack();
      await isInSight("Compaction before call 20");
    });
});

test("after a file that isn't a session, a transcript of 50 MB opens, and the End key goes to its last call", async () => {
  const folder = mkdtempSync(join(tmpdir(), "viewer-"));
  const [empty, large] = [join(folder, "empty.jsonl"), join(folder, "large.jsonl")];
  writeFileSync(empty, "");
  const round = [
    { role: "assistant", content: [{ type: "tool_use", id: "t", name: "bash", input: { command: "ls" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "word ".repeat(4_000) }] },
  ];
  const lines = round.map((message) => `${JSON.stringify({ message, state: {} })}\n`).join("");
  writeFileSync(large, `{"message":{"role":"user","content":"List the files."},"state":{}}\n${lines.repeat(2_500)}`);
  try {
    await inViewer({}, async (page) => {
      await openFile(page, empty, "empty.jsonl");
      await openFile(page, large, "2,500 model calls");
      await page.focus(".context-viewer input[type=range]");
      await page.keyboard.press("End");
      await page.locator(".cv-detail h2", { hasText: /2,?500 of 2,?500/ }).waitFor();
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
