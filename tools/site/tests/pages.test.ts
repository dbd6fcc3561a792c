/** Every page of the built site, in a Chromium, and every link. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { addressOf, open, origin, PHONE, pageAt, pages, read, visit, WIDE } from "./browser.ts";

// What is cut, broken or too small in a window as wide as this one. These run in the page, without functions of their own.

/** Of what is drawn or printed with letters. */
function brokenListings(): string[] {
  const found: string[] = [];
  for (const block of document.querySelectorAll(".vp-doc .language-text pre")) {
    const code = block.querySelector("code") ?? block;
    const isDrawing = /[│▶▼┘]/.test(code.textContent ?? ""); // a wide one scrolls
    const heights = [...block.querySelectorAll(".line")].map((line) => line.clientHeight).filter(Boolean);
    const isBroken = isDrawing && Math.max(...heights) > 1.5 * Math.min(...heights);
    const isCut = !isDrawing && block.scrollWidth > block.clientWidth;
    const isSmall = Number.parseFloat(getComputedStyle(code).fontSize) < 12;
    if (isBroken || isCut || isSmall) found.push(`${code.textContent}`);
  }
  return found;
}

/** On a phone a table of text becomes blocks, and one of numbers scrolls. */
function brokenTables(): string[] {
  const found: string[] = [];
  const isPhone = innerWidth === 390;
  const isWide = innerWidth >= 1440 && !location.pathname.endsWith("/python.html"); // whose table scrolls
  for (const table of document.querySelectorAll<HTMLTableElement>(".vp-doc table")) {
    const isBlocks = isPhone && table.matches(".blocks");
    const cell = table.rows[1]?.cells[0] ?? table;
    if (isBlocks && getComputedStyle(cell).display !== "block") found.push(`no blocks: ${table.textContent}`);
    const { scrollWidth = 0, clientWidth = 0 } = table.parentElement ?? {};
    if ((isBlocks || isWide) && scrollWidth > clientWidth) found.push(`cut: ${table.textContent}`);
    for (const short of isPhone ? table.querySelectorAll(".short") : []) {
      const text = document.createRange();
      text.selectNodeContents(short);
      const bottoms = [...text.getClientRects()].map(({ bottom }) => bottom);
      const height = Math.max(...bottoms) - Math.min(...bottoms); // of code and text on a line 3 pixels
      if (height > 14) found.push(`two lines: ${short.textContent}`);
    }
  }
  return found;
}

/** Words of tables that go on in another line. */
function brokenWords(): string[] {
  const found: string[] = [];
  for (const table of document.querySelectorAll(".vp-doc table")) {
    const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode())
      for (const { 0: word, index } of (node.textContent ?? "").matchAll(/[\p{L}\p{N}.,%]{2,20}/gu)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1 && !/\p{Script=Han}/u.test(word)) found.push(`in the middle: ${word}`);
      }
  }
  return found;
}

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
      const widths = [320, PHONE.width, 768, 919, 1280, WIDE.width];
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
          const isWithin = () => document.documentElement.scrollWidth <= innerWidth; // the viewer draws again
          await page.waitForFunction(isWithin).catch(() => wrong.push(`${at}: wider than a window of ${width}`));
          for (const find of [brokenListings, brokenTables, brokenWords])
            wrong.push(...(await page.evaluate(find)).map((what) => `${at}, ${width}: ${what}`));
        }
      }
      await page.waitForLoadState("networkidle");
    });
    return wrong;
  }

  test("loads without errors and without asking another site; in any window no table, no drawing and no listing is cut or broken", async () => {
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
