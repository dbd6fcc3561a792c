// The form of a lesson: a header that tells the truth, regions that grow from lesson to lesson, sizes, and one file that
// runs alone. How long and how complex a function may be, biome.json says.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { diffLines } from "diff";
import { folder } from "./harness.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const STEMS = [
  "s01_agent_loop",
  "s02_tool_use",
  "s03_todo_write",
  "s04_subagent",
  "s05_skill_loading",
  "s06_context_compact",
];
const NAMES: Record<string, string> = {
  s01: "agentLoop runTurn runBash TOOLS SYSTEM MODEL",
  s02: "runRead runWrite runEdit safePath TOOL_HANDLERS",
  s03: "TodoManager",
  s04: "runSubagent",
  s05: "SkillLoader",
  s06: "estimateTokens microCompact autoCompact THRESHOLD KEEP_RECENT TRANSCRIPT_DIR",
};
const PACKAGES: Record<string, string[]> = { "@anthropic-ai/sdk": ["s01", "s02", "s03", "s04", "s05", "s06"] };
PACKAGES.zod = ["s02", "s03", "s04", "s05", "s06"];
PACKAGES.yaml = ["s05", "s06"];
/** The most lines that a lesson has in all, and that it adds to the lesson before. */
const MOST_LINES: Record<string, number> = { s01: 352, s06: 1_045 };
const MOST_ADDED: Record<string, number> = { s02: 162, s03: 58, s04: 38, s05: 80 };
const MOST_OF_AGENT = 144; // lines of s01 above the dividing line

/** The line between the agent and the rest. */
const DIVIDER = /^\/\/ That is the agent\. The rest is .*\n/m;
/** The regions below that line. */
const PLUMBING = ["replies", "bash", "terminal", "main"];

const linesOf = (text: string) => text.trimEnd().split("\n");
const LESSONS = STEMS.map((stem) => {
  const file = join(ROOT, "agents", `${stem}.ts`);
  const source = readFileSync(file, "utf8");
  const [header = ""] = /^\/\*\*\n.*?\n \*\/\n/s.exec(source) ?? [];
  const region = /^\/\/ #region ([\w-]+)\n(.*?)^\/\/ #endregion\n/gms;
  const found = [...source.matchAll(region)].map(([, name = "", text = ""]) => [name, text] as const);
  const rest = source.slice(header.length).replace(region, "");
  const names = found.map(([name]) => name);
  return { stem, short: stem.slice(0, 3), file, source, header, names, regions: new Map(found), rest };
});
const [S01 = assert.fail()] = LESSONS;

test("there are six lessons and nothing else", () => {
  assert.deepEqual(
    readdirSync(join(ROOT, "agents")).sort(),
    STEMS.map((stem) => `${stem}.ts`),
  );
});

for (const [i, { stem, short, source, header, names, regions, rest }] of LESSONS.entries()) {
  const before = LESSONS[i - 1];

  describe(short, () => {
    test("has a header: title, the idea in one sentence, a diagram, what it needs, and how to run it", () => {
      const title = stem.slice(4).replaceAll("_", " ");
      const opening = `/\\*\\*\\n \\* ${short}: (the )?${title}\\n \\*\\n \\* [A-Z][^.\\n]*\\.\\n`;
      const diagram = " \\*\\n( \\*( {5}.*)?\\n)+ \\*\\n";
      const needs = before ? "" : " \\* Needs: .*Node.*bash.*\\n";
      const run = ` \\* Run: npx tsx agents/${stem}\\.ts.*\\n( \\* {6}.*\\n)?`;
      const seeIt = short === "s06" ? ` \\* See it compact: .*npx tsx agents/${stem}\\.ts.*\\n` : "";
      assert.match(
        header,
        new RegExp(`^${opening}${diagram}( \\* (Same|New|Changed) .*\\n)+${needs}${run}${seeIt} \\*/\\n$`),
      );
    });

    test("says in its header which regions are the same as before, new and changed", () => {
      const isSame = (name: string) => regions.get(name) === before?.regions.get(name);
      const old = names.filter((name) => before?.regions.has(name));
      const lines = [` * New in ${short}: ${names.filter((name) => !old.includes(name)).join(", ")}`];
      if (before) {
        lines.unshift(` * Same as ${before.short}: ${old.filter(isSame).join(", ")}`);
        lines.push(` * Changed from ${before.short}: ${old.filter((name) => !isSame(name)).join(", ")}`);
      }
      assert.deepEqual(header.match(/^ \* (Same|New|Changed) .*$/gm), lines);
    });

    test("has every region of the lesson before, in the same order, and no code outside of regions", () => {
      assert.deepEqual(
        names.filter((name) => before?.regions.has(name)),
        before?.names ?? [],
      );
      assert.equal(regions.size, names.length, "a name is there twice");
      assert.equal(rest.replace(DIVIDER, "").trim(), "");
    });

    test("has the agent first, then a line that says so, and below it what can wait for a second reading", () => {
      const [, below = ""] = source.split(DIVIDER);
      assert.deepEqual(
        [...below.matchAll(/^\/\/ #region (\w+)/gm)].map(([, name]) => name),
        PLUMBING,
      );
    });

    test("keeps to its size: lines in all, lines added, and 120 columns", () => {
      const changes = diffLines(before?.source ?? "", source);
      const added = changes.reduce((sum, part) => sum + (part.added ? part.count : 0), 0);
      assert.ok(added <= (MOST_ADDED[short] ?? Infinity), `${added} lines are added`);
      assert.ok(linesOf(source).length <= (MOST_LINES[short] ?? Infinity), `${linesOf(source).length} lines`);
      assert.deepEqual(
        linesOf(source).filter((line) => line.length > 120),
        [],
      );
    });

    test("imports what comes with Node, the SDK, and the packages it needs by now", () => {
      const imports = [...source.matchAll(/(?:\bfrom |^import |\bimport\(|\brequire\()"([^"]+)"/gm)].map(
        ([, name = ""]) => name,
      );
      assert.equal(imports.length, source.match(/\b(import|require)\b[\s({"]/g)?.length, "an import this cannot read");
      const packages = imports.filter((name) => !(name.startsWith("node:") && builtinModules.includes(name.slice(5))));
      assert.deepEqual(
        packages.sort(),
        Object.keys(PACKAGES)
          .filter((name) => PACKAGES[name]?.includes(short))
          .sort(),
      );
    });
  });
}

test("the main of s05 only names the skills first: what the suites show of the programs s01 and s06 holds for it, too", () => {
  const [s04, s05] = ["s04", "s05"].map((short) =>
    LESSONS.find((lesson) => lesson.short === short)?.regions.get("main"),
  );
  assert.equal(s05?.replace("  announceSkills();\n", ""), s04);
});

test("a command has as long as bash's description tells the model", () => {
  const [, seconds] = /Times out after (\d+) s\./.exec(S01.source) ?? [];
  assert.match(S01.source, new RegExp(`function runBash\\(.*timeoutMs = ${seconds}_000\\)`));
});

test("the loop of s01 is complete by line 60 and has at most 12 lines of code, none of them a guard", () => {
  const lines = linesOf(S01.source);
  const begin = lines.findIndex((line) => line.startsWith("export async function agentLoop"));
  const end = lines.indexOf("}", begin) + 1;
  assert.ok(begin > 0 && end <= 60, `it ends in line ${end}`);
  const code = lines.slice(begin + 1, end - 1).filter((line) => line.trim() !== "");
  assert.ok(code.length <= 12, `it has ${code.length} lines`);
  const guards = code.filter((line) => /\b(if|try|catch|throw|break|continue|switch)\b|\?/.test(line));
  assert.deepEqual(
    guards.map((line) => line.trim().split(" // ")[0]),
    ["if (calls.length === 0) return reply;"],
    "the only question is whether the model calls tools",
  );
});

test("the agent of s01 is setup, loop, tools and turn, in fewer than 140 lines", () => {
  const [agent = ""] = S01.source.split(DIVIDER);
  assert.deepEqual(
    [...agent.matchAll(/#region (\w+)/g)].map(([, name]) => name),
    ["setup", "loop", "tools", "turn"],
  );
  assert.ok(linesOf(agent).length <= MOST_OF_AGENT, `it has ${linesOf(agent).length} lines`);
});

test("a copy of a lesson runs elsewhere: importing it prints nothing, needs no key and exports the tutorial's names", () => {
  const elsewhere = mkdtempSync(join(folder, "elsewhere-"));
  symlinkSync(join(ROOT, "node_modules"), join(elsewhere, "node_modules"));
  const urls = LESSONS.map(({ short, file }) => {
    mkdirSync(join(elsewhere, short)); // a folder each: a lesson needs no other
    cpSync(file, join(elsewhere, short, "lesson.ts"));
    return pathToFileURL(join(elsewhere, short, "lesson.ts")).href;
  });
  const code = `Promise.all(${JSON.stringify(urls)}.map((url) => import(url))).then((lessons) => {
    console.log(JSON.stringify(lessons.map((lesson) => Object.keys(lesson.default ?? lesson))));
  })`;
  const env = { ...process.env, ANTHROPIC_API_KEY: undefined };
  const args = ["--import", import.meta.resolve("tsx"), "-e", code];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: elsewhere, env, encoding: "utf8" });
  assert.equal(stderr, "");
  let wanted: string[] = [];
  for (const [i, exported] of JSON.parse(stdout).entries()) {
    wanted = [...wanted, ...(NAMES[`s0${i + 1}`] ?? "").split(" ")];
    assert.deepEqual(
      wanted.filter((name) => !exported.includes(name)),
      [],
    );
  }
  assert.deepEqual(readdirSync(elsewhere).sort(), ["node_modules", ...LESSONS.map(({ short }) => short)]);
});
