/** Opens every page of the built site in Chromium, in windows of many widths. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { builtPages, htmlOf, inTab, openPage, PHONE, siteOrigin, urlOf, WIDE } from "./browser.ts";

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

const WIDTHS = [320, PHONE.width, 768, 919, 1280, WIDE.width];

async function brokenAt(page: Page, width: number): Promise<string[]> {
  await page.setViewportSize({ ...WIDE, width });
  const found: string[] = [];
  const isWithin = () => document.documentElement.scrollWidth <= innerWidth; // the viewer draws again first
  await page.waitForFunction(isWithin).catch(() => found.push("wider than the window"));
  for (const find of [brokenListings, brokenTables]) found.push(...(await page.evaluate(find)));
  return found.map((what) => `at ${width} pixels: ${what}`);
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
      const found = (await page.title()) ? [] : ["no title"];
      for (const width of widths.reverse()) found.push(...(await brokenAt(page, width))); // opens at the last width
      wrong.push(...found.map((what) => `${at}: ${what}`));
    }
    await page.waitForLoadState("networkidle");
  });
  return wrong;
}

test("every page loads without errors or requests to other sites, and nothing is cut off at any width", async () => {
  const half = Math.ceil(builtPages.length / 2);
  const wrong = await Promise.all([findBroken(builtPages.slice(0, half)), findBroken(builtPages.slice(half))]);
  assert.deepEqual(wrong.flat(), []);
});

// VitePress checks neither the menu nor links to source files.
test("every link within the site leads to a page", () => {
  const addressOf = (link: string, from: string) =>
    new URL(link, urlOf(from)).href.replace(/(index\.html)?(#.*)?$/, "");
  const pages = new Set(builtPages.map((page) => addressOf("", page)));
  const linksOn = (page: string) =>
    [...htmlOf(page).matchAll(/<a [^>]*?href="([^"]+)"/g)].map(([, link = ""]) => addressOf(link, page));
  const isDead = (link: string) => link.startsWith(siteOrigin) && !pages.has(link);
  const dead = builtPages.flatMap((from) => linksOn(from).flatMap((to) => (isDead(to) ? { from, to } : [])));
  assert.deepEqual(dead, []);
});
