/** Every page of the built site, in a Chromium, and every link. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { addressOf, open, origin, PHONE, pageAt, pages, read, visit, WIDE } from "./browser.ts";

const isWithin = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

describe("every page", () => {
  const ids = new Map<string, Set<string>>();
  const links: { from: string; href: string }[] = [];

  /** Opens each page wide and narrow, and takes down what is wrong. */
  async function walk(paths: string[]): Promise<string[]> {
    const wrong: string[] = [];
    await visit("404.html", {}, async (page) => {
      let at = "";
      page.on("console", (message) => message.type() === "error" && wrong.push(`${at}: ${message.text()}`));
      page.on("pageerror", (error) => wrong.push(`${at}: ${error.message}`));
      page.on("request", (request) => {
        const url = request.url();
        if (!/^(data|blob):/.test(url) && !url.startsWith(origin)) wrong.push(`${at}: asks ${url}`);
      });
      const widths = [320, PHONE.width, 768, 919, WIDE.width];
      for (at of paths) {
        await open(page, at);
        const found = await page.evaluate(() => ({
          ids: Array.from(document.querySelectorAll("[id]"), ({ id }) => id),
          links: Array.from(
            document.querySelectorAll("a[href]:not([href^='#call='])"),
            (a) => a.getAttribute("href") ?? "",
          ),
          external: document.querySelectorAll('a[href^="http"]:not([target="_blank"])').length,
          title: document.title,
        }));
        ids.set(at, new Set(found.ids));
        links.push(...found.links.map((href) => ({ from: at, href: new URL(href, addressOf(at)).href })));
        if (found.external > 0) wrong.push(`${at}: a link to another site that isn't marked`);
        if (!found.title) wrong.push(`${at}: no title`);
        for (const width of widths.reverse()) {
          // the next page opens in the width that this one ends with
          await page.setViewportSize({ ...WIDE, width });
          if (!(await isWithin(page))) wrong.push(`${at}: wider than a window of ${width}`);
        }
      }
      await page.waitForLoadState("networkidle");
    });
    return wrong;
  }

  test("loads without errors and without asking another site, and fits any window", async () => {
    const half = Math.ceil(pages.length / 2);
    const wrong = await Promise.all([walk(pages.slice(0, half)), walk(pages.slice(half))]);
    assert.deepEqual(wrong.flat(), []);
  });

  test("has only links that lead to a page, and to a heading or to lines that are there", () => {
    const dead = links.filter(({ href }) => {
      const page = pageAt(href);
      const hash = decodeURIComponent(new URL(href).hash.slice(1));
      if (page === undefined) return href.startsWith(origin); // another site, or beside the base
      const [, from, to] = /^L(\d+)(?:-L(\d+))?$/.exec(hash) ?? [];
      const lines = () => read(page).match(/<span class="line"/g)?.length ?? 0;
      return !pages.includes(page) || (from ? Number(to ?? from) > lines() : hash && !ids.get(page)?.has(hash));
    });
    assert.deepEqual(dead, []);
    assert.ok(links.length > 1_000, `${links.length} links`);
  });
});
