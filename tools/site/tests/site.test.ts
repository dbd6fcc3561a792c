/** The built site in a Chromium, as readers have it. `npm run test:site` builds it first. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { createMarkdownRenderer } from "vitepress";
import { addressOf as addressOnSite, ROOT, socialLinks, withClone } from "../.vitepress/files.ts";
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
        const section = page.locator(`.vp-doc h3:has-text("${heading}") ~ .quote code`).first();
        const quoted = (await section.locator(".line").allTextContents()).filter(Boolean);
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
      const place = () => page.locator(".script pre").evaluate(({ scrollTop }) => scrollTop);
      const before = await place();
      for (const heading of ["What changed", "Try it", "What breaks without it", "Exercises"]) {
        await scrollTo(page, heading);
        await page.waitForFunction(() => !document.querySelector(".script .line.marked"));
        assert.equal(await place(), before, "after what changed it stays where it was");
      }
    });
  });

  test("a quote is a link to its lines in the script, and the code where the script is not in view", async () => {
    await visit(S01, {}, async (page) => {
      const quote = page.locator(".vp-doc h3:has-text('1. The loop') ~ .quote").first();
      assert.equal(await quote.isVisible(), false);
      await page.click('.vp-doc sub a:has-text("35–50")');
      assert.match((await marked(page)).join("\n"), /agentLoop.*callModel/s);
      assert.equal(pageAt(page.url()), S01);
      await page.setViewportSize(PHONE);
      assert.equal(await quote.isVisible(), true);
      const isClipped = (element: Element) => element.scrollWidth > element.clientWidth;
      for (const code of await page.locator(".quote pre, .language-console pre").all())
        assert.equal(await code.evaluate(isClipped), false, await code.innerText());
    });
  });

  test("it is there without JavaScript, line by line, and its regions lead to the text", async () => {
    await visit(S01, { javaScriptEnabled: false }, async (page) => {
      const lines = await page.locator(".script .line").allTextContents();
      assert.equal(lines.join("\n"), readFileSync(join(ROOT, "agents/s01_agent_loop.ts"), "utf8").trimEnd());
      await page.click('.script a:has-text("#region bash")');
      assert.ok((await page.locator("h3", { hasText: "5. " }).boundingBox())?.y ?? -1 >= 0);
    });
  });

  test("beside it the sections of the page are listed, and the list says where one is", async () => {
    await visit(S01, { viewport: { width: 1280, height: 800 } }, async (page) => {
      const list = page.locator(".VPDocAsideOutline");
      assert.equal(await list.locator("a", { hasText: "Try it" }).isVisible(), true);
      await scrollTo(page, "Try it");
      await list.locator("a.active", { hasText: "Try it" }).waitFor();
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
      await page.click('.script a:has-text("#region bash")');
      await isAtTop("5. Run the command");
      await page.focus('.script a:has-text("#region dispatch")');
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

  test("a narrow window doesn't show it, until it becomes wide", async () => {
    await visit(S01, { viewport: PHONE }, async (page) => {
      assert.equal(await page.locator(".script").isVisible(), false);
      await page.setViewportSize(WIDE);
      assert.equal(await page.locator(".script").isVisible(), true);
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

describe("tables", () => {
  const cells = (page: Page, selector: string) =>
    page.locator(selector).evaluateAll((all) =>
      all.map((cell) => {
        const { height } = cell.getBoundingClientRect();
        const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(cell);
        const lines =
          (height - Number.parseFloat(paddingTop) - Number.parseFloat(paddingBottom)) / Number.parseFloat(lineHeight);
        return { text: cell.textContent ?? "", lines: Math.round(lines) };
      }),
    );

  test("on a phone a table of text becomes blocks, one of numbers scrolls, and no short cell breaks", async () => {
    for (const path of ["s06_context_compact.html", "benchmarks.html", "promises.html", "index.html"])
      await visit(path, { viewport: PHONE }, async (page) => {
        const broken = (await cells(page, ".vp-doc .scrolls td.short")).filter(({ lines }) => lines > 1);
        assert.deepEqual(broken, []);
        for (const table of await page.locator(".vp-doc table.blocks").all()) {
          assert.equal(
            await table
              .locator("td")
              .first()
              .evaluate((cell) => getComputedStyle(cell).display),
            "block",
          );
          const fits = await table.evaluate(
            ({ parentElement }) => Number(parentElement?.scrollWidth) <= Number(parentElement?.clientWidth),
          );
          assert.ok(fits, await table.innerText());
        }
      });
    await visit("benchmarks.html", { viewport: PHONE }, async (page) => {
      assert.ok((await page.locator(".vp-doc table.scrolls").count()) > 0);
    });
  });

  test("no word of a table breaks in the middle", async () => {
    const broken = (table: Element) => {
      const found: string[] = [];
      const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
      for (let node = texts.nextNode(); node; node = texts.nextNode())
        for (const { 0: word, index } of (node.textContent ?? "").matchAll(/[\p{L}\p{N}.,%]{2,20}/gu)) {
          if (/\p{Script=Han}/u.test(word)) continue;
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + word.length);
          if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word);
        }
      return found;
    };
    for (const viewport of [PHONE, WIDE])
      for (const path of [
        "index.html",
        "readme.html",
        S01,
        "s06_context_compact.html",
        "promises.html",
        "benchmarks.html",
      ])
        await visit(path, { viewport }, async (page) => {
          const words = await page.locator(".vp-doc table").evaluateAll((tables, source) => {
            const find = new Function(`return ${source}`)();
            return tables.flatMap((table) => find(table));
          }, broken.toString());
          assert.deepEqual(words, [], `${path}, ${viewport.width}`);
        });
  });
});

describe("where the code is", () => {
  test("is in the head, and comes before npm ci", async () => {
    await visit("index.html", {}, async (page) => {
      const link = page.locator('.VPNavBar a[href="https://github.com/example/six-lessons"]');
      assert.equal(await link.isVisible(), true);
    });
    const clone = "git clone https://github.com/example/six-lessons && cd six-lessons\nnpm ci && npm run demo";
    const textOf = (page: string) => read(page).replace(/<.*?>/g, "").replaceAll("&amp;", "&");
    for (const page of ["index.html", "readme.html"]) assert.ok(textOf(page).includes(clone), page);
  });

  test("is shown nowhere when it isn't known", () => {
    assert.deepEqual(socialLinks(""), []);
    const commands = "```sh\nnpm ci && npm run demo\n```";
    assert.equal(withClone(commands, ""), commands);
  });
});

test("each page has a name of its own in the menu", async () => {
  for (const prefix of languages)
    await visit(`${prefix}index.html`, {}, async (page) => {
      const names = await page
        .locator(".VPNavBarMenu a")
        .evaluateAll((links) => links.map((link) => link.textContent?.trim()));
      assert.equal(new Set(names).size, names.length, names.join(", "));
      assert.ok(!names.includes(await page.innerText(".VPNavBarTitle")), names.join(", "));
      assert.ok(names.includes(prefix ? "参与贡献（英文）" : "Contribute"), names.join(", "));
    });
});

describe("in Chinese", { skip: !hasChinese }, () => {
  test("the language switch keeps the section, there and back", async () => {
    const other = (page: Page) =>
      page
        .locator(".VPNavBarTranslations a")
        .first()
        .evaluate((link: HTMLElement) => link.click());
    const isAtTop = (page: Page, text: string) =>
      page.waitForFunction((heading) => {
        const found = [...document.querySelectorAll(".vp-doc :is(h2, h3)")].find((each) =>
          each.textContent?.startsWith(heading),
        );
        const { top = -1 } = found?.getBoundingClientRect() ?? {};
        return top >= 0 && top < 200;
      }, text);
    await visit("s02_tool_use.html", {}, async (page) => {
      await scrollTo(page, "Try it");
      await other(page);
      await isAtTop(page, "试一试");
      await scrollTo(page, "2. ");
      await other(page);
      await isAtTop(page, "2. ");
      assert.equal(pageAt(page.url()), "s02_tool_use.html");
    });
  });

  test("what is drawn with letters lines up with wide characters", async () => {
    await visit("zh/s04_subagent.html", {}, async (page) => {
      const starts = await page
        .locator(".language-text")
        .first()
        .evaluate((diagram) => {
          const left = (text: string) => {
            const texts = document.createTreeWalker(diagram, NodeFilter.SHOW_TEXT);
            for (let node = texts.nextNode(); node; node = texts.nextNode()) {
              const at = node.textContent?.indexOf(text) ?? -1;
              if (at < 0) continue;
              const range = document.createRange();
              range.setStart(node, at);
              range.setEnd(node, at + 1);
              return Math.round(range.getBoundingClientRect().left);
            }
          };
          return [left("find the"), left("It is in api"), left("read_file")];
        });
      assert.equal(new Set(starts).size, 1, starts.join(", "));
    });
  });

  test("menus, minutes and the buttons of compactions are Chinese", async () => {
    await visit("zh/index.html", {}, async (page) => {
      assert.match(await page.innerText(".vp-doc table"), /\d 分钟/);
      assert.doesNotMatch(await page.innerText(".vp-doc table"), /\d min/);
    });
    await visit("zh/viewer.html", {}, async (page) => {
      await page.waitForSelector(".cv-jumps button");
      assert.match((await page.locator(".cv-jumps button").allInnerTexts()).join("\n"), /模型要求：[\d,]+ → [\d,]+/);
      assert.doesNotMatch((await page.locator(".cv-jumps button").allInnerTexts()).join("\n"), /[a-z]/);
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
