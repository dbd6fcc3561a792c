/** Opens every page of the built site in Chromium, wide and narrow, and checks every link. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { builtPages, htmlOf, inTab, openPage, PHONE, pageAt, siteOrigin, WIDE } from "./browser.ts";

// The following functions run in the page, so they can't call anything outside themselves.

/** Drawings whose lines don't meet, and listings that are cut off or too small. */
function brokenListings(): string[] {
  const found: string[] = [];
  for (const block of document.querySelectorAll(":is(.language-text, .language-console, .lesson .language-ts) pre")) {
    const code = block.querySelector("code") ?? block;
    const isDrawing = block.closest(".drawn");
    const heights = [...block.querySelectorAll(".line")].map((line) => line.clientHeight).filter(Boolean);
    const isBroken = isDrawing && Math.max(...heights) > 1.5 * Math.min(...heights);
    const isCut = !isDrawing && block.scrollWidth > block.clientWidth;
    const isSmall = Number.parseFloat(getComputedStyle(code).fontSize) < 12;
    if (isBroken || isCut || isSmall) found.push(`listing: ${code.textContent}`);
  }
  return found;
}

/** Tables of text that aren't blocks on a phone, and tables that are cut off. */
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
  }
  return found;
}

/** Short cells that take two lines on a phone. */
function brokenCells(): string[] {
  const found: string[] = [];
  for (const cell of innerWidth === 390 ? document.querySelectorAll(".vp-doc .short") : []) {
    const text = document.createRange();
    text.selectNodeContents(cell);
    const bottoms = [...text.getClientRects()].map(({ bottom }) => bottom);
    const height = Math.max(...bottoms) - Math.min(...bottoms); // code and text on one line differ by 3 pixels
    if (height > 14) found.push(`two lines: ${cell.textContent}`);
  }
  return found;
}

/** Words in tables that continue on another line. */
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
        if (lines.size > 1 && !/\p{Script=Han}/u.test(word)) found.push(`split word: ${word}`);
      }
  }
  return found;
}

const WIDTHS = [320, PHONE.width, 768, 919, 1280, WIDE.width];

async function brokenAt(page: Page, width: number): Promise<string[]> {
  await page.setViewportSize({ ...WIDE, width });
  const found: string[] = [];
  const isWithin = () => document.documentElement.scrollWidth <= innerWidth; // the viewer draws again first
  await page.waitForFunction(isWithin).catch(() => found.push("wider than the window"));
  for (const find of [brokenListings, brokenTables, brokenCells, brokenWords])
    found.push(...(await page.evaluate(find)));
  return found.map((what) => `at ${width} pixels: ${what}`);
}

describe("every page", () => {
  const ids = new Map<string, Set<string>>();
  const links: { from: string; href: string }[] = [];

  async function readLinks(page: Page, path: string): Promise<string[]> {
    const found = await page.evaluate(() => ({
      ids: [...document.querySelectorAll("[id]")].map(({ id }) => id),
      hrefs: [...document.querySelectorAll<HTMLAnchorElement>("a[href]:not([href^='#call='])")].map(({ href }) => href),
      unmarked: document.querySelectorAll('a[href^="http"]:not([target="_blank"])').length,
    }));
    ids.set(path, new Set(found.ids));
    links.push(...found.hrefs.map((href) => ({ from: path, href })));
    return found.unmarked > 0 ? ["a link to another site opens in this tab"] : [];
  }

  async function findBroken(paths: string[]): Promise<string[]> {
    const wrong: string[] = [];
    await inTab("404.html", {}, async (page) => {
      let at = "";
      page.on("console", (message) => message.type() === "error" && wrong.push(`${at}: ${message.text()}`));
      page.on("pageerror", (error) => wrong.push(`${at}: ${error.message}`));
      page.on("request", (request) => {
        const url = request.url();
        if (!/^(data|blob):/.test(url) && !url.startsWith(siteOrigin)) wrong.push(`${at}: asks ${url}`);
      });
      const widths = [...WIDTHS];
      for (at of paths) {
        await openPage(page, at);
        const found = await readLinks(page, at);
        if (!(await page.title())) found.push("no title");
        for (const width of widths.reverse()) found.push(...(await brokenAt(page, width))); // opens at the last width
        wrong.push(...found.map((what) => `${at}: ${what}`));
      }
      await page.waitForLoadState("networkidle");
    });
    return wrong;
  }

  test("loads without errors and without asking another site, and nothing on it is cut off in any window", async () => {
    const half = Math.ceil(builtPages.length / 2);
    const wrong = await Promise.all([findBroken(builtPages.slice(0, half)), findBroken(builtPages.slice(half))]);
    assert.deepEqual(wrong.flat(), []);
  });

  test("links only to pages, headings and lines that exist", () => {
    const dead = links.filter(({ href }) => {
      const page = pageAt(href);
      const hash = decodeURIComponent(new URL(href).hash.slice(1));
      if (page === undefined) return href.startsWith(siteOrigin); // without the base path
      const [, from, to] = /^L(\d+)(?:-L(\d+))?$/.exec(hash) ?? [];
      const lines = () => htmlOf(page).match(/<span class="line"/g)?.length ?? 0;
      return !builtPages.includes(page) || (from ? Number(to ?? from) > lines() : hash && !ids.get(page)?.has(hash));
    });
    assert.deepEqual(dead, []);
    assert.ok(links.length > 1_000, `${links.length} links`);
  });
});
