/** The built site in a Chromium, as readers have it. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { createMarkdownRenderer } from "vitepress";
import { addressOf as addressOnSite, ROOT } from "../.vitepress/files.ts";
import { configure } from "../.vitepress/markdown.ts";
import { addressOf, hasChinese, open, origin, PHONE, pageAt, pages, read, visit, WIDE } from "./browser.ts";

const S01 = "s01_agent_loop.html";
const languages = hasChinese ? ["", "zh/"] : [""];
const isWithin = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
/** The text of the lines that are marked in the script beside a page. */
const marked = (page: Page) => page.locator(".script .line.marked").allTextContents();
const scrollTo = (page: Page, heading: string) =>
  page.locator(".vp-doc :is(h2, h3)", { hasText: heading }).evaluate((element) => element.scrollIntoView());

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
      for (at of paths) {
        await page.setViewportSize(WIDE);
        await open(page, at);
        if (!(await isWithin(page))) wrong.push(`${at}: wider than a wide window`);
        const found = await page.evaluate(() => ({
          ids: Array.from(document.querySelectorAll("[id]"), ({ id }) => id),
          links: Array.from(document.querySelectorAll("a[href]"), (a) => a.getAttribute("href") ?? ""),
          external: document.querySelectorAll('a[href^="http"]:not([target="_blank"])').length,
          title: document.title,
        }));
        ids.set(at, new Set(found.ids));
        links.push(...found.links.map((href) => ({ from: at, href: new URL(href, addressOf(at)).href })));
        if (found.external > 0) wrong.push(`${at}: a link to another site that isn't marked`);
        if (!found.title) wrong.push(`${at}: no title`);
        await page.setViewportSize(PHONE);
        if (!(await isWithin(page))) wrong.push(`${at}: wider than a phone`);
      }
      await page.waitForLoadState("networkidle");
    });
    return wrong;
  }

  test("loads without errors and without asking another site, and fits a wide window and a phone", async () => {
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

test("a page with a dead link is an error", () => {
  assert.throws(
    () => addressOnSite("s00_nothing.md", "docs/README.md", ""),
    /docs\/README.md: dead link s00_nothing.md/,
  );
});

test("braces in a page's text stay text", async () => {
  const md = await createMarkdownRenderer(ROOT);
  configure(md);
  assert.match(md.render("a {{ b }}", { path: `${ROOT}/docs/README.md` }), /a &#123;&#123; b/);
});

describe("a lesson beside its script", () => {
  test("the script follows the text: what a section quotes is marked and in view", async () => {
    await visit(S01, {}, async (page) => {
      await page.waitForSelector(".script .line");
      assert.deepEqual(await marked(page), []);
      for (const heading of [
        "6. Recover when the API says no",
        "5. Run the command",
        "1. Loop while there are tool calls",
      ]) {
        await scrollTo(page, heading);
        const section = page.locator(`.vp-doc h3:has-text("${heading}") ~ div[class*=language-] code`).first();
        const quoted = (await section.innerText()).split("\n").filter(Boolean);
        await page.waitForFunction(
          (line) => document.querySelector(".script .line.marked")?.textContent?.trim() === line,
          quoted[0]?.trim(),
        );
        assert.deepEqual(
          (await marked(page)).map((line) => line.trim()),
          quoted.map((line) => line.trim()),
        );
        const [line, pane] = [page.locator(".script .line.marked").first(), page.locator(".script pre")];
        const [inner, outer] = [await line.boundingBox(), await pane.boundingBox()];
        assert.ok(inner && outer && inner.y >= outer.y && inner.y < outer.y + outer.height / 2, "in the upper half");
      }
      await scrollTo(page, "Exercises");
      await page.waitForFunction(() => !document.querySelector(".script .line.marked"));
    });
  });

  test("a region leads to the text about it, by mouse and by keyboard", async () => {
    await visit(S01, {}, async (page) => {
      const isAtTop = (heading: string) =>
        page.waitForFunction((text) => {
          const headings = [...document.querySelectorAll(".vp-doc h3")];
          const { top = -1 } = headings.find((each) => each.textContent?.includes(text))?.getBoundingClientRect() ?? {};
          return top >= 0 && top < 200;
        }, heading);
      await page.click('.script button:has-text("#region bash")');
      await isAtTop("5. Run the command");
      await page.focus('.script button:has-text("#region dispatch")');
      await page.keyboard.press("Enter");
      await isAtTop("4. Describe the tool, ask before running it");
      await page.locator(".script .line.marked", { hasText: "const description" }).waitFor();
    });
  });

  test("the page stays in its place while the script arrives", async () => {
    const shift = await visit(S01, {}, async (page) => {
      await page.addInitScript(`
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const { value, sources } of list.getEntries()) // VitePress' own bar at the top does move a little
            if (sources.some(({ node }) => !node?.parentElement?.closest(".VPNav"))) window.shift += value;
        }).observe({ type: "layout-shift", buffered: true });`);
      await page.reload();
      await page.waitForSelector(".script .line");
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      return page.evaluate<number>("window.shift");
    });
    assert.equal(shift, 0);
  });

  test("a narrow window neither shows nor loads it, until it becomes wide", async () => {
    await visit(S01, { viewport: PHONE }, async (page) => {
      assert.equal(await page.locator(".script").isVisible(), false);
      assert.equal(await page.locator(".script .line").count(), 0);
      await page.setViewportSize(WIDE);
      await page.waitForSelector(".script .line");
    });
  });

  test("the next lesson brings the next script", async () => {
    await visit(S01, {}, async (page) => {
      await page.click(".pager-link.next");
      await page.waitForSelector('.script a:has-text("agents/s02_tool_use.ts")');
    });
  });
});

test("what changed: only new lines, or both lessons side by side, switched by keyboard", async () => {
  await visit("changes/s03.html", {}, async (page) => {
    const [added, same] = [page.locator("tr.new td.new").first(), page.locator("tr.same td.old").first()];
    assert.deepEqual([await added.isVisible(), await same.isVisible()], [true, false]);
    await page.focus("input[value=new]");
    await page.keyboard.press("ArrowRight");
    assert.deepEqual([await added.isVisible(), await same.isVisible()], [true, true]);
    const lines = await page.locator("tr.same td.new").allInnerTexts();
    assert.ok(
      lines.some((line) => /^ {2}\S/.test(line)),
      "code is indented",
    );
  });
  assert.match(read("s03_todo_write.html"), /href="\/six-lessons\/changes\/s03.html"/);
});

test("a link to lines marks them in the source and scrolls there", async () => {
  await visit(S01, { viewport: PHONE }, async (page) => {
    await page.click('.vp-doc sub a:has-text("161–162")');
    await page.waitForSelector(".source .line.marked");
    const lines = page.locator(".line.marked");
    assert.match((await lines.allTextContents()).join("\n"), /^ {4}child\.on\("close".*\n {4}child\.on\("exit"/);
    await page.waitForFunction(() => {
      const { top = -1 } = document.querySelector(".line.marked")?.getBoundingClientRect() ?? {};
      return top > 0 && top < innerHeight;
    });
  });
});

describe("search", () => {
  const words = { "": "preserved", "zh/": "压缩" };
  for (const prefix of languages)
    test(`finds a word and opens its page, by keyboard alone (/${prefix})`, async () => {
      await visit(`${prefix}index.html`, {}, async (page) => {
        const word = words[prefix as keyof typeof words];
        await page.keyboard.press("Control+k");
        await page.waitForSelector(".VPLocalSearchBox input");
        await page.keyboard.type(word);
        await page.waitForSelector(".VPLocalSearchBox .result");
        await page.keyboard.press("Enter");
        await page.waitForFunction((text) => document.querySelector(".vp-doc")?.textContent?.includes(text), word);
        assert.ok(pageAt(page.url())?.startsWith(`${prefix}s06`), page.url());
      });
    });
});

test("the first thing that Tab reaches leads to the text", async () => {
  await visit(S01, {}, async (page) => {
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement?.closest(".VPContent")));
  });
});

test("pages read without JavaScript", async () => {
  await visit(S01, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
    assert.match(await page.innerText("main"), /An agent is a loop.*const calls = content\.filter/s);
  });
});

describe("axe finds nothing serious", () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const code = ["index", "s01_agent_loop", "changes/s03", "source/tests/steps.test.ts", "viewer"];
  const looks = [
    { colorScheme: "light", viewport: WIDE, names: code },
    { colorScheme: "dark", viewport: WIDE, names: code },
    { colorScheme: "light", viewport: PHONE, names: ["index", "s06_context_compact"] },
  ] as const;
  for (const { colorScheme, viewport, names } of looks)
    test(`${colorScheme}, ${viewport.width} pixels wide`, async () => {
      const found: string[] = [];
      const inChinese = hasChinese ? ["zh/index", "zh/s01_agent_loop"] : [];
      for (const path of [...names, ...inChinese].map((name) => `${name}.html`))
        await visit(path, { colorScheme, viewport }, async (page) => {
          if (path.includes("s01")) await scrollTo(page, "1."); // so that lines are marked
          await page.evaluate(axe);
          const { violations } = await page.evaluate<AxeResults>(`axe.run({
            resultTypes: ["violations"],
            rules: { "label-content-name-mismatch": { enabled: false } }, // VitePress' search button shows its key, too
          })`);
          for (const { id, impact, nodes } of violations)
            if (impact === "serious" || impact === "critical")
              found.push(...nodes.slice(0, 3).map(({ html, any }) => `${path}: ${id}: ${html} ${any[0]?.message}`));
        });
      assert.deepEqual(found, []);
    });
});
