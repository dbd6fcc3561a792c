/** Checks the accessibility of the built site with axe. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { inTab, PHONE, WIDE } from "./browser.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function violationsOn(page: Page, where: object, options: object): Promise<string[]> {
  const how = JSON.stringify({ resultTypes: ["violations"], ...options });
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(where)}, ${how})`);
  return violations.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(({ html, any }) => `${page.url()}: ${id}: ${html} ${any[0]?.message}`),
  );
}

/** Goes through a run and checks the colours of the first step of each kind. */
async function violationsInRun(page: Page, kinds: Set<string>): Promise<string[]> {
  // axe visits every element each time, so only the player stays
  await page.locator(".player").evaluate((player) => {
    for (let part: Element | null = player; part && part !== document.body; part = part.parentElement)
      for (const other of [...(part.parentElement?.children ?? [])]) if (other !== part) other.remove();
  });
  const found: string[] = [];
  const next = page.locator('.player [data-do=next][aria-disabled="false"]');
  while ((await next.count()) > 0) {
    await next.evaluate((button: HTMLElement) => button.click());
    const [kind = ""] = (await page.getAttribute(".player", "data-name"))?.split(" ") ?? [];
    const include = [".script .marked", ".says", ".request", ".messages"];
    if (!kinds.has(kind)) found.push(...(await violationsOn(page, { include }, { runOnly: ["color-contrast"] })));
    kinds.add(kind);
  }
  return found;
}

describe("axe finds nothing", () => {
  const S06 = "s06_context_compact";
  const code = ["index", "s01_agent_loop", "changes/s03", "source/tests/steps.test.ts", "viewer"];
  const inChinese = ["zh/index", "zh/s01_agent_loop"];
  const looks = [
    { colorScheme: "light", viewport: WIDE, names: [...code, ...inChinese] },
    { colorScheme: "dark", viewport: WIDE, names: [...code, S06] },
    { colorScheme: "light", viewport: PHONE, names: ["index", S06, "benchmarks"] },
  ] as const;
  // VitePress' search button also shows its key. The rest of a script has the same colours as the source pages.
  const rules = { "label-content-name-mismatch": { enabled: false } };
  const where = { include: "html", exclude: ".rest" };
  for (const { colorScheme, viewport, names } of looks)
    test(`${colorScheme}, ${viewport.width} pixels wide`, async () => {
      const found: string[] = [];
      const kinds = new Set(["start"]);
      for (const name of names)
        await inTab(`${name}.html`, { colorScheme, viewport }, async (page) => {
          await page.evaluate(axe);
          // without colours the script has far fewer elements
          await page.evaluate(`for (const line of document.querySelectorAll(".rest .line")) line.textContent += ""`);
          found.push(...(await violationsOn(page, where, { rules })));
          if (/s0\d_/.test(name)) found.push(...(await violationsInRun(page, kinds)));
        });
      assert.deepEqual(found, []);
    });
});
