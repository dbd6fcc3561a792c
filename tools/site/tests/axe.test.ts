/** What axe says of the built site. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import type { AxeResults } from "axe-core";
import { hasChinese, PHONE, visit, WIDE } from "./browser.ts";

describe("axe finds nothing", () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const S06 = "s06_context_compact";
  const code = ["index", "s01_agent_loop", "changes/s03", "source/tests/steps.test.ts", "viewer"];
  const inChinese = hasChinese ? ["zh/index", "zh/s01_agent_loop"] : [];
  const looks = [
    { colorScheme: "light", viewport: WIDE, names: [...code, ...inChinese] },
    { colorScheme: "dark", viewport: WIDE, names: [...code, S06] },
    { colorScheme: "light", viewport: PHONE, names: ["index", S06, "benchmarks"] },
  ] as const;
  for (const { colorScheme, viewport, names } of looks)
    test(`${colorScheme}, ${viewport.width} pixels wide`, async () => {
      const found: string[] = [];
      const seen = new Set(["start"]); // steps: one of each kind
      for (const path of names.map((name) => `${name}.html`))
        await visit(path, { colorScheme, viewport }, async (page) => {
          await page.evaluate(axe);
          // most elements of a page are what colours the script
          await page.evaluate(`for (const line of document.querySelectorAll(".rest .line")) line.textContent += ""`);
          const look = async (where: object, options: object) => {
            const how = JSON.stringify({ resultTypes: ["violations"], ...options });
            const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(where)}, ${how})`);
            for (const { id, nodes } of violations)
              found.push(...nodes.slice(0, 3).map(({ html, any }) => `${path}: ${id}: ${html} ${any[0]?.message}`));
          };
          // VitePress' search button shows its key, too. The rest of a script is coloured as the sources are.
          const rules = { "label-content-name-mismatch": { enabled: false } };
          await look({ include: "html", exclude: ".rest" }, { rules });
          if (!/s0\d_/.test(path)) return;
          await page.locator(".follows").evaluate((box: HTMLInputElement) => {
            box.checked = false; // of the text, which goes: axe goes through all elements each time
            for (let part = box.closest(".player"); part && part !== document.body; part = part.parentElement)
              for (const other of [...(part.parentElement?.children ?? [])]) if (other !== part) other.remove();
          });
          const next = page.locator('.player [data-do=next][aria-disabled="false"]');
          while ((await next.count()) > 0) {
            await next.evaluate((button: HTMLElement) => button.click());
            const [name = ""] = (await page.getAttribute(".player", "data-name"))?.split(" ") ?? [];
            const parts = [".script .marked", ".says", ".request", ".messages"]; // from step to step these change, in colour
            if (!seen.has(name)) await look({ include: parts }, { runOnly: ["color-contrast"] });
            seen.add(name);
          }
        });
      assert.deepEqual(found, []);
    });
});
