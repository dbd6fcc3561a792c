/** What axe says of the built site. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import type { AxeResults } from "axe-core";
import { hasChinese, PHONE, visit, WIDE } from "./browser.ts";

describe("axe finds nothing", () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const code = ["index", "s01_agent_loop", "changes/s03", "source/tests/steps.test.ts", "viewer"];
  const looks = [
    { colorScheme: "light", viewport: WIDE, names: code },
    { colorScheme: "dark", viewport: WIDE, names: code },
    { colorScheme: "light", viewport: PHONE, names: ["index", "s06_context_compact", "benchmarks"] },
  ] as const;
  for (const { colorScheme, viewport, names } of looks)
    test(`${colorScheme}, ${viewport.width} pixels wide`, async () => {
      const found: string[] = [];
      const inChinese = hasChinese ? ["zh/index", "zh/s01_agent_loop"] : [];
      for (const path of [...names, ...inChinese].map((name) => `${name}.html`))
        await visit(path, { colorScheme, viewport }, async (page) => {
          await page.evaluate(axe);
          const look = async (where: string) => {
            const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(where)}, {
              resultTypes: ["violations"],
              rules: { "label-content-name-mismatch": { enabled: false } }, // VitePress' search button shows its key, too
            })`);
            for (const { id, nodes } of violations)
              found.push(...nodes.slice(0, 3).map(({ html, any }) => `${path}: ${id}: ${html} ${any[0]?.message}`));
          };
          await look("html");
          const steps = await page
            .locator(".player .slide input")
            .getAttribute("max", { timeout: 100 })
            .catch(() => 0);
          for (let i = 0; i < Number(steps); i++) {
            await page.click('.player [data-do="next"]');
            await look(".player");
          }
        });
      assert.deepEqual(found, []);
    });
});
