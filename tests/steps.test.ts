// The form of the lessons: true headers, regions that carry over from one lesson to the next, sizes, and files that run on
// their own. The limits for functions are in biome.json.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { diffLines } from "diff";
import { ROOT, TSX } from "../offline/start.ts";
import { codeOf, readLessons } from "../tools/lesson/source.ts";
import { newFolder } from "./workspace.ts";

/** The tutorial's names that each lesson exports, besides those of the lesson before. */
const NAMES: Record<string, string> = {
  s01: "agentLoop runTurn runBash TOOLS SYSTEM MODEL",
  s02: "runRead runWrite runEdit safePath TOOL_HANDLERS",
  s03: "TodoManager",
  s04: "runSubagent",
  s05: "SkillLoader",
  s06: "estimateTokens microCompact autoCompact THRESHOLD KEEP_RECENT TRANSCRIPT_DIR",
};
/** The first lesson that imports each package. */
const PACKAGES: Record<string, string> = { "@anthropic-ai/sdk": "s01", zod: "s02", yaml: "s05" };
const MOST_LINES: Record<string, number> = { s01: 375, s06: 1_120 };
const MOST_OF_AGENT = 146; // lines of s01 above the dividing line

/** Separates the agent from the plumbing. */
const DIVIDER = /^\/\/ That is the agent\. The rest is .*\n/m;
/** Separates what s06 adds from what keeps it safe. */
const SECOND_DIVIDER = /^\/\/ That is compaction\. The next three regions .*\n/m;
/** The regions below the divider. */
const PLUMBING = ["replies", "bash", "terminal", "main"];

const LESSONS = [...readLessons(ROOT).values()].map((lesson) => {
  const { name: short, lines, header } = lesson;
  const regions = new Map([...lesson.regions].map(([name, region]) => [name, codeOf(lesson, region).join("\n")]));
  const known = [{ from: 2, to: header.length + 1 }, ...lesson.regions.values()]; // and the lines around each
  const outside = lines.filter((_, i) => !known.some(({ from, to }) => i + 2 >= from && i <= to));
  return {
    short,
    stem: basename(lesson.file, ".ts"),
    file: lesson.file,
    lines,
    source: lines.join("\n"),
    header,
    names: [...regions.keys()],
    regions,
    parts: new Map([...lesson.parts].map(([name, part]) => [name, codeOf(lesson, part).join("\n")])),
    outside,
  };
});
const [S01 = assert.fail()] = LESSONS;
type Part = (typeof LESSONS)[number];
const partOf = ({ parts }: Part = S01, name: string) => parts.get(name) ?? "";
/** The declarations of the lesson before that this lesson changes in a region. */
function changedIn(short: string, region: string): string[] {
  const at = LESSONS.findIndex((lesson) => lesson.short === short);
  const [before, now] = [LESSONS[at - 1], LESSONS[at]];
  const names = [...(before?.parts.keys() ?? [])].filter((name) =>
    before?.regions.get(region)?.includes(partOf(before, name)),
  );
  return names.filter((name) => partOf(before, name) !== partOf(now, name));
}

for (const [i, { short, stem, file, lines, source, header, names, regions, outside }] of LESSONS.entries()) {
  const before = LESSONS[i - 1];

  describe(short, () => {
    test("has a header with a title, the idea in one sentence, a diagram, its needs, and how to run it", () => {
      const title = stem.slice(4).replaceAll("_", " ");
      const opening = `${short}: (the )?${title}\\n\\n[A-Z][^.\\n]*\\.\\n`;
      const diagram = "\\n(( {4}.*)?\\n)+\\n";
      const needs = before ? "" : "Needs: .*Node.*bash.*\\n";
      const run = `Run: npx tsx agents/${stem}\\.ts.*\\n( {5}.*\\n)?`;
      const seeIt = short === "s06" ? "See it compact: .*COMPACT_THRESHOLD=.*\\n" : "";
      const whole = new RegExp(`^${opening}${diagram}((Same|New|Changed) .*\\n)+${needs}${run}${seeIt}$`);
      assert.match(`${header.join("\n")}\n`, whole, `the header of ${file} lacks one, or has another order`);
    });

    test("has a header that says which regions are the same as before, new and changed", () => {
      const isSame = (name: string) => regions.get(name) === before?.regions.get(name);
      const old = names.filter((name) => before?.regions.has(name));
      const wanted = [`New in ${short}: ${names.filter((name) => !old.includes(name)).join(", ")}`];
      if (before) {
        wanted.unshift(`Same as ${before.short}: ${old.filter(isSame).join(", ")}`);
        wanted.push(`Changed from ${before.short}: ${old.filter((name) => !isSame(name)).join(", ")}`);
      }
      const said = header.filter((line) => /^(Same|New|Changed) /.test(line));
      const advice = `Make the same change in each lesson that has the region, or write in the header of ${file}:`;
      assert.deepEqual(said, wanted, `${advice}\n${wanted.join("\n")}\n`);
    });

    test("keeps the regions of the lesson before in their order, and has no code outside its regions", () => {
      const carried = names.filter((name) => before?.regions.has(name));
      assert.deepEqual(carried, before?.names ?? [], `${file} has all regions of ${before?.file}, in its order`);
      const code = outside.join("\n").replace(DIVIDER, "").replace(SECOND_DIVIDER, "").trim();
      assert.equal(code, "", `in ${file}, put this between a // #region and its // #endregion: ${code}`);
    });

    test("puts the agent first, then the divider, then the plumbing", () => {
      const [, below = ""] = source.split(DIVIDER);
      const regions = [...below.matchAll(/^\/\/ #region (\w+)/gm)].map(([, name]) => name);
      assert.deepEqual(regions, PLUMBING, `the regions of ${file} below "// That is the agent. The rest is …"`);
    });

    test("stays within its limits: lines, and 120 columns", () => {
      const most = MOST_LINES[short] ?? Infinity;
      const advice = "make it shorter, or raise the limit at the top of tests/steps.test.ts and say why";
      assert.ok(lines.length <= most, `${file} has ${lines.length} lines, more than ${most}: ${advice}`);
      const wide = lines.flatMap((line, i) => (line.length > 120 ? `${file}:${i + 1}` : []));
      assert.deepEqual(wide, [], "lines of more than 120 characters: break them");
    });

    test("imports only Node's modules and the packages it needs by now", () => {
      const packages = [...source.matchAll(/\bfrom "(?!node:)(.+)"/g)].map(([, name]) => name);
      const needed = Object.keys(PACKAGES).filter((name) => (PACKAGES[name] ?? "") <= short);
      assert.deepEqual(packages.sort(), needed.sort(), `the packages of ${file}, by PACKAGES in this test`);
    });
  });
}

// The suites run what follows on s01 alone, or on s01 and s06. So the lessons between must not change it.
test("what the suites test once changes only in the lessons that they test it on", () => {
  const [s04, s05, s06] = ["s04", "s05", "s06"].map((short) => LESSONS.find((lesson) => lesson.short === short));
  const mainOfS05 = s05?.regions.get("main")?.replace("  announceSkills();\n", "");
  assert.equal(mainOfS05, s04?.regions.get("main"), "give s04 and s05 the same region main");
  for (const name of ["bash", "terminal"]) assert.equal(s06?.regions.get(name), s05?.regions.get(name));
  for (const short of ["s03", "s04"]) assert.deepEqual(changedIn(short, "loop"), ["agentLoop"]);
  assert.deepEqual(changedIn("s06", "main"), ["typedRequests", "FLAGS", "main"]);
  const gone = diffLines(partOf(s05, "main"), partOf(s06, "main")).flatMap(({ removed, value }) =>
    removed ? value.trim().split("\n") : [],
  );
  const rest = gone.filter((line) => !/\b(messages|options|announceSkills|args\.values\.help)\b/.test(line));
  assert.deepEqual(rest, [], "main of s06 keeps every other line of s05's");
});

test("a command times out when bash's description says it does", () => {
  const [, seconds] = /Times out after (\d+) s\./.exec(S01.source) ?? [];
  const inCode = new RegExp(`function runBash\\(.*timeoutMs = ${seconds}_000\\)`);
  assert.match(S01.source, inCode, `runBash's timeoutMs is ${seconds}_000, as in the description of bash`);
});

test("the loop of s01 ends by line 60 and has at most 12 lines of code, without guards", () => {
  const { lines } = S01;
  const begin = lines.findIndex((line) => line.startsWith("export async function agentLoop"));
  const end = lines.indexOf("}", begin) + 1;
  assert.ok(begin > 0 && end <= 60, `agentLoop of ${S01.file} ends in line ${end}, after line 60`);
  const code = lines.slice(begin + 1, end - 1).filter((line) => line.trim() !== "");
  assert.ok(code.length <= 12, `agentLoop of ${S01.file} has ${code.length} lines, more than 12`);
  const guards = code.filter((line) => /\b(if|try|catch|throw|break|continue|switch)\b|\?/.test(line));
  assert.deepEqual(
    guards.map((line) => line.trim().split(" // ")[0]),
    ["if (calls.length === 0) return reply;"],
    "the only condition is whether the model calls tools",
  );
});

test("the agent of s01 has at most 146 lines", () => {
  const size = S01.lines.findIndex((line) => DIVIDER.test(`${line}\n`));
  assert.ok(size <= MOST_OF_AGENT, `the agent of ${S01.file} has ${size} lines, more than ${MOST_OF_AGENT}`);
});

test("a lesson can be copied elsewhere; importing it prints nothing, needs no key and exports the tutorial's names", () => {
  const elsewhere = newFolder();
  symlinkSync(join(ROOT, "node_modules"), join(elsewhere, "node_modules"));
  const urls = LESSONS.map(({ short, file }) => {
    mkdirSync(join(elsewhere, short)); // in separate folders: lessons don't need each other
    cpSync(join(ROOT, file), join(elsewhere, short, "lesson.ts"));
    return pathToFileURL(join(elsewhere, short, "lesson.ts")).href;
  });
  const code = `Promise.all(${JSON.stringify(urls)}.map((url) => import(url))).then((lessons) => {
    console.log(JSON.stringify(lessons.map((lesson) => Object.keys(lesson.default ?? lesson))));
  })`;
  const env = { ...process.env, ANTHROPIC_API_KEY: undefined };
  const { stdout, stderr } = spawnSync(process.execPath, [...TSX, "-e", code], {
    cwd: elsewhere,
    env,
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  let wanted: string[] = [];
  for (const [i, exported] of JSON.parse(stdout).entries()) {
    wanted = [...wanted, ...(NAMES[`s0${i + 1}`] ?? "").split(" ")];
    const missing = wanted.filter((name) => !exported.includes(name));
    assert.deepEqual(missing, [], `${LESSONS[i]?.file} doesn't export these names of NAMES in this test`);
  }
  assert.deepEqual(readdirSync(elsewhere).sort(), ["node_modules", ...LESSONS.map(({ short }) => short)]);
});
