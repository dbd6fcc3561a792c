// The form of a lesson: its header tells the truth about its regions, it is one file that runs alone, and importing it
// does nothing.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { z } from "zod";
import { type Reply, scripted, startServer } from "../offline/server.ts";
import { filesIn, folder } from "./harness.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const AGENTS = join(ROOT, "agents");

type Lesson = {
  /** s03_todo_write */
  stem: string;
  /** s03 */
  short: string;
  header: string;
  /** Region names, in the file's order, with the text between their marks. */
  regions: Map<string, string>;
  /** What is neither header nor region. */
  rest: string;
};

function readLesson(stem: string): Lesson {
  const source = readFileSync(join(AGENTS, `${stem}.ts`), "utf8");
  const header = /^\/\*\*\n.*?\n \*\/\n/s.exec(source)?.[0] ?? "";
  const mark = /^\/\/ #region ([\w-]+)\n(.*?)^\/\/ #endregion\n/gms;
  const code = source.slice(header.length);
  const found = [...code.matchAll(mark)].map(([, name = "", text = ""]): [string, string] => [name, text]);
  const regions = new Map(found);
  assert.equal(regions.size, found.length, `${stem}: a region's name is there twice`);
  return { stem, short: stem.slice(0, 3), header, regions, rest: code.replace(mark, "") };
}

/** The names in a field of the header: `New in s03: todo` */
function field(lesson: Lesson, name: string): string[] {
  const [line] = lesson.header.split("\n").filter((each) => each.startsWith(` * ${name}: `));
  return line?.slice(` * ${name}: `.length).split(", ") ?? [];
}

const LESSONS = readdirSync(AGENTS)
  .map((name) => basename(name, ".ts"))
  .sort()
  .map(readLesson);
const PAIRS = LESSONS.slice(1).flatMap((lesson, i) => {
  const before = LESSONS[i];
  return before ? [{ before, lesson }] : [];
});

/** Runs a script with tsx from a folder in which node_modules can be reached. */
function run(
  cwd: string,
  args: string[],
  more: Record<string, string> = {},
): Promise<{ stdout: string; stderr: string; failed: boolean }> {
  const { ANTHROPIC_API_KEY: _, ...inherited } = process.env;
  const env = { ...inherited, ...more };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ["--import", "tsx", ...args], { cwd, env }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, failed: error !== null }),
    );
    child.stdin?.end();
  });
}

test("the folder holds the six lessons and nothing else", () => {
  assert.deepEqual(readdirSync(AGENTS).sort(), [
    "s01_agent_loop.ts",
    "s02_tool_use.ts",
    "s03_todo_write.ts",
    "s04_subagent.ts",
    "s05_skill_loading.ts",
    "s06_context_compact.ts",
  ]);
});

describe("the header", () => {
  for (const lesson of LESSONS) {
    test(`of ${lesson.short} has a title, the idea in one sentence, and how to run it`, () => {
      const [opening, title = "", blank, idea = "", after] = lesson.header.split("\n");
      assert.equal(opening, "/**");
      const [number, words = ""] = title.slice(3).split(": ");
      assert.equal(number, lesson.short);
      assert.equal(words.replace(/^the /, "").replaceAll(" ", "_"), lesson.stem.slice(4));
      assert.equal(blank, " *");
      assert.match(idea, /^ \* [A-Z][^.]*\.$/);
      assert.equal(after, " *");
      assert.equal(lesson.header.split("\n").at(-3), ` * Run: npx tsx agents/${lesson.stem}.ts`);
    });
  }

  test("of s01 names all its regions as new, and has nothing to be compared with", () => {
    const [first] = LESSONS;
    assert.ok(first);
    assert.deepEqual(field(first, "New in s01"), [...first.regions.keys()]);
    assert.doesNotMatch(first.header, /^ \* (Same as|Changed from)/m);
  });

  for (const { before, lesson } of PAIRS) {
    const names = [...lesson.regions.keys()];

    test(`of ${lesson.short} names the regions that are byte for byte those of ${before.short}`, () => {
      const same = names.filter((name) => lesson.regions.get(name) === before.regions.get(name));
      assert.deepEqual(field(lesson, `Same as ${before.short}`), same);
    });

    test(`of ${lesson.short} names the regions that ${before.short} does not have`, () => {
      const added = names.filter((name) => !before.regions.has(name));
      assert.ok(added.length > 0);
      assert.deepEqual(field(lesson, `New in ${lesson.short}`), added);
    });

    test(`of ${lesson.short} names the regions that differ from those of ${before.short}`, () => {
      const changed = names.filter(
        (name) => before.regions.has(name) && lesson.regions.get(name) !== before.regions.get(name),
      );
      assert.deepEqual(field(lesson, `Changed from ${before.short}`), changed);
    });

    test(`of ${lesson.short} has each of its fields once, and no others`, () => {
      const [fieldLines = ""] = lesson.header.split("\n *\n").slice(-1);
      const fields = [...fieldLines.matchAll(/^ \* (.*?): /gm)].map(([, name]) => name);
      assert.equal(fieldLines.trimEnd().split("\n").length, fields.length + 1);
      const { short } = lesson;
      assert.deepEqual(fields, [`Same as ${before.short}`, `New in ${short}`, `Changed from ${before.short}`, "Run"]);
    });
  }
});

describe("the regions", () => {
  for (const { before, lesson } of PAIRS) {
    test(`of ${before.short} are all in ${lesson.short}, in the same order`, () => {
      const shared = [...lesson.regions.keys()].filter((name) => before.regions.has(name));
      assert.deepEqual(shared, [...before.regions.keys()]);
    });
  }

  for (const lesson of LESSONS) {
    test(`of ${lesson.short} hold every line of code but one that is blank, and none is empty`, () => {
      assert.equal(lesson.rest.trim(), "");
      for (const [name, text] of lesson.regions) {
        assert.notEqual(text.trim(), "", name);
        assert.doesNotMatch(text, /#(end)?region/, name);
      }
    });

    test(`of ${lesson.short} go from imports and configuration over the tools and layers to the loop, the prompt and main`, () => {
      const names = [...lesson.regions.keys()];
      assert.deepEqual(names.slice(0, 2), ["imports", "config"]);
      assert.deepEqual(names.slice(-3), ["loop", "prompt", "main"]);
      const layers = ["bash", "dispatch", "todo", "subagent", "skills", "micro-compact", "auto-compact", "loop"];
      assert.deepEqual(
        names.filter((name) => layers.includes(name)),
        layers.filter((name) => names.includes(name)),
      );
    });
  }

  test("let the loop of s01 be read alone: it has fewer than 40 lines", () => {
    const loop = /^export async function agentLoop.*?^\}/ms.exec(LESSONS[0]?.regions.get("loop") ?? "")?.[0];
    assert.ok(loop);
    assert.ok(loop.split("\n").length < 40);
  });
});

describe("a lesson's code", () => {
  const NEEDS: Record<string, string[]> = { zod: ["s02", "s03", "s04", "s05", "s06"], yaml: ["s05", "s06"] };
  for (const lesson of LESSONS) {
    test(`imports in ${lesson.short} only what comes with Node, the SDK, and the packages it needs by then`, () => {
      const source = [...lesson.regions.values()].join("");
      const imports = [...source.matchAll(/(?:\bfrom|^import|\bimport\(|\brequire\() ?["'`]([^"'`]+)["'`]/gm)];
      const names = imports.map(([, name = ""]) => name);
      assert.ok(names.includes("@anthropic-ai/sdk"));
      for (const name of names) {
        const builtin = name.startsWith("node:") && builtinModules.includes(name.slice(5));
        assert.ok(builtin || name === "@anthropic-ai/sdk" || NEEDS[name]?.includes(lesson.short), name);
      }
      for (const [name, lessons] of Object.entries(NEEDS))
        assert.equal(names.includes(name), lessons.includes(lesson.short));
      assert.equal(source.match(/^import\b/gm)?.length, names.length, "an import that this test cannot read");
      assert.equal([...(lesson.regions.get("imports")?.matchAll(/^import\b/gm) ?? [])].length, names.length);
    });

    test(`waits in ${lesson.short} for nothing at the top level`, () => {
      const source = [...lesson.regions.values()].join("");
      assert.doesNotMatch(source, /^(?!\/\/|async |export (default )?async |\s|\*).*\bawait\b/m);
    });
  }
});

describe("each lesson", { concurrency: 2 }, () => {
  for (const { stem } of LESSONS) {
    test(`${stem} carries out a request alone in an empty folder beside the installed packages`, async (t) => {
      const beside = mkdtempSync(join(folder, "beside-"));
      symlinkSync(join(ROOT, "node_modules"), join(beside, "node_modules"));
      const home = join(beside, "alone");
      mkdirSync(home);
      cpSync(join(AGENTS, `${stem}.ts`), join(home, `${stem}.ts`));
      const call: Reply = { content: [{ type: "tool_use", name: "bash", input: { command: "echo 6 > file; ls" } }] };
      const own = await startServer({ model: scripted(call, { content: [{ type: "text", text: "All done." }] }) });
      t.after(own.close);
      const { stdout, stderr, failed } = await run(home, [`${stem}.ts`, "-y", "go"], {
        ANTHROPIC_BASE_URL: own.url,
        ANTHROPIC_API_KEY: "test-key",
      });
      assert.equal(failed, false, stderr);
      assert.equal(stderr, "");
      assert.match(stdout, /echo 6 > file.*\nfile\n.*All done\.\n$/s);
      assert.equal(readFileSync(join(home, "file"), "utf8"), "6\n");
      assert.deepEqual(
        own.journal.map(({ error }) => error),
        [undefined, undefined],
      );
      assert.deepEqual(filesIn(home), ["file", `${stem}.ts`]);
    });
  }
});

describe("importing a lesson", { concurrency: 2 }, () => {
  /** Imports all lessons in a new workspace. */
  async function importAll(files: Record<string, string>) {
    const workspace = mkdtempSync(join(folder, "import-"));
    symlinkSync(join(ROOT, "node_modules"), join(workspace, "node_modules"));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(workspace, name, ".."), { recursive: true });
      writeFileSync(join(workspace, name), text);
    }
    const before = readdirSync(workspace);
    const urls = LESSONS.map(({ stem }) => pathToFileURL(join(AGENTS, `${stem}.ts`)).href);
    const script = `(async () => {
      const lessons = [];
      for (const url of ${JSON.stringify(urls)}) {
        delete process.env.MODEL_ID; // each has to read .env itself
        const lesson = await import(url);
        const listeners = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => process.listenerCount(signal));
        lessons.push({ ...lesson, names: Object.keys(lesson), listeners });
      }
      console.log(JSON.stringify(lessons));
    })()`;
    const ended = await run(workspace, ["-e", script]);
    assert.equal(ended.failed, false, ended.stderr);
    assert.deepEqual(readdirSync(workspace), before);
    return ended;
  }
  const Imported = z.array(
    z.object({
      names: z.array(z.string()),
      listeners: z.array(z.number()),
      MODEL: z.string(),
      TOOLS: z.array(z.object({ name: z.string() })),
    }),
  );

  test("prints nothing, starts nothing, leaves nothing behind and needs no key; .env is read", async () => {
    const { stdout, stderr } = await importAll({ ".env": "MODEL_ID=model-of-the-env-file\n" });
    assert.equal(stderr, "");
    assert.equal(stdout.trim().split("\n").length, 1);
    for (const lesson of Imported.parse(JSON.parse(stdout))) {
      assert.equal(lesson.MODEL, "model-of-the-env-file");
      assert.deepEqual(lesson.listeners, [0, 0, 0]);
    }
  });

  test("prints nothing when skills in the workspace are broken or odd", async () => {
    const { stdout, stderr } = await importAll({
      "skills/headless/SKILL.md": "no head\n",
      "skills/wrong/SKILL.md": "---\nname: [\n---\n",
      "skills/odd/SKILL.md": "---\nname: odd\ndescription: !important Use it.\n---\nbody\n",
    });
    assert.equal(stderr, "");
    assert.equal(stdout.trim().split("\n").length, 1);
  });

  test("gives the names of the tutorial and everything that the lesson before gives", async () => {
    const { stdout } = await importAll({});
    const lessons = Imported.parse(JSON.parse(stdout));
    const NAMES: Record<string, string[]> = {
      s01: ["agentLoop", "runBash", "TOOLS", "SYSTEM", "MODEL"],
      s02: ["runRead", "runWrite", "runEdit", "safePath", "TOOL_HANDLERS"],
      s03: ["TodoManager"],
      s04: ["runSubagent"],
      s05: ["SkillLoader"],
      s06: ["estimateTokens", "microCompact", "autoCompact", "THRESHOLD", "KEEP_RECENT", "TRANSCRIPT_DIR"],
    };
    const TOOLS = ["bash", "read_file write_file edit_file", "todo", "task", "load_skill", "compact"];
    for (const [i, lesson] of lessons.entries()) {
      const wanted = [...(lessons[i - 1]?.names ?? []), ...(NAMES[`s0${i + 1}`] ?? [])];
      assert.deepEqual(
        wanted.filter((name) => !lesson.names.includes(name)),
        [],
        `s0${i + 1}`,
      );
      assert.deepEqual(
        lesson.TOOLS.map(({ name }) => name),
        TOOLS.slice(0, i + 1).flatMap((names) => names.split(" ")),
      );
    }
  });
});
