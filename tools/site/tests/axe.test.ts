/** Checks the accessibility of the built site with axe. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import type { AxeResults } from "axe-core";
import { inTab, PHONE, WIDE } from "./browser.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const NAMES = ["index", "s01_agent_loop", "s06_context_compact", "words", "benchmarks"];
// VitePress' search button also shows its key
const OPTIONS = { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: false } } };

for (const colorScheme of ["light", "dark"] as const)
  for (const viewport of [WIDE, PHONE])
    test(`axe finds nothing (${colorScheme}, ${viewport.width} pixels wide)`, async () => {
      const found: string[] = [];
      for (const name of [...NAMES, "zh/index", "zh/s01_agent_loop"])
        await inTab(`${name}.html`, { colorScheme, viewport, reducedMotion: "reduce" }, async (page) => {
          await page.evaluate(axe);
          const { violations } = await page.evaluate<AxeResults>(`axe.run("html", ${JSON.stringify(OPTIONS)})`);
          for (const { id, nodes } of violations)
            for (const { html, any } of nodes.slice(0, 3)) found.push(`${name}: ${id}: ${html} ${any[0]?.message}`);
        });
      assert.deepEqual(found, []);
    });
