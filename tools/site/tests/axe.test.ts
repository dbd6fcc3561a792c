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
          const look = async (where: object) => {
            const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(where)}, {
              resultTypes: ["violations"],
              rules: { "label-content-name-mismatch": { enabled: false } }, // VitePress' search button shows its key, too
            })`);
            for (const { id, nodes } of violations)
              found.push(...nodes.slice(0, 3).map(({ html, any }) => `${path}: ${id}: ${html} ${any[0]?.message}`));
          };
          await look({ include: "html" });
          const next = page.locator('.player [data-do=next][aria-disabled="false"]');
          while (/s0\d_/.test(path) && (await next.count()) > 0) {
            await next.click();
            await look({ include: ".player", exclude: ".rest" });
          }
        });
      assert.deepEqual(found, []);
    });
});
