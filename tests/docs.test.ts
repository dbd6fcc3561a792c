// The pages are in step with the code: `docs:sync` writes what is generated, `docs:check` names what is wrong. Both run
// as programs on a small project with two lessons.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "docs-"));
after(() => rmSync(scratch, { recursive: true }));

/** A region that both lessons have. */
const COUNT = `// #region count
/** One more. */
export function count(n: number): number {
  return n + STEP;
}

type Twice = (n: number) => number;

/** Two more. */
const twice: Twice = (n) => count(count(n));
// #endregion
`;

const FILES = {
  "agents/s01_count.ts": `/**
 * s01: count
 *
 * Counting is adding one.
 *
 *     n ──▶ n + 1
 *           twice
 *
 * New in s01: config, count, main
 * Run: npx tsx agents/s01_count.ts
 */
// #region config
const STEP = 1; // per call
export const LIMIT = Number(process.env.LIMIT ?? 2_000);
// #endregion

${COUNT}
// #region main
console.error(twice(LIMIT));
// #endregion
`,
  "agents/s02_count_down.ts": `/**
 * s02: count down
 *
 * What goes up can come down.
 *
 * Same as s01: count
 * New in s02: down
 * Changed from s01: config, main
 * Run: npx tsx agents/s02_count_down.ts
 */

// #region config
const STEP = 2; // per call
export const LIMIT = Number(process.env.LIMIT ?? 2_000);
// #endregion

${COUNT}
// #region down
const down = (n: number) => n - STEP;
addTool("down", down);
function addTool(name: string, run: typeof down) {
  console.log(name, run(LIMIT));
}
// #endregion

// #region main
console.error(down(twice(LIMIT)));
// #endregion
`,
  "docs/s01_count.md": `# s01: count

It has <!--= lines s01 -->?<!--/--> lines, <!--= lines s01 count -->?<!--/--> of them in \`count\`; and one.

<!-- sync: header s01 -->
<!-- /sync -->
<!-- sync: changes s01 -->
<!-- /sync -->

## Twice \`count\`

<!-- sync: region s01 count -->
<!-- /sync -->
<!-- sync: region s01 config: LIMIT -->
<!-- /sync -->
<!-- sync: region s01 main -->
<!-- /sync -->

## Twice \`count\`

To the [first](#twice-count), the [second](#twice-count-1), [a page](s02_count_down.md#changed), [the code](../agents/), [its
lines](../agents/s01_count.ts#L13-L15), [one of them](/agents/s01_count.ts#L31), [another site](https://example.invalid/#x).

\`\`\`md
<!-- sync: nothing -->
<!--= nothing -->1<!--/-->
\`\`\`
It is written \`<!-- sync: KIND -->\` and \`<!--= KIND -->\`.
`,
  "docs/s02_count_down.md": `# s02: count down

<!-- sync: run echo counted -->
<!-- /sync -->
<!-- sync: changes s02 -->
<!-- /sync -->

## Changed

<!-- sync: diff s02 -->
<!-- /sync -->
<!-- sync: region s02 down: addTool down, addTool -->
<!-- /sync -->
<!-- sync: region s02 count: count, twice -->
<!-- /sync -->

\`\`\`mermaid
flowchart LR
  a["n"] -->|"up<br>"| b{n + 1}
\`\`\`
\`\`\`mermaid
sequenceDiagram
  A->>B: count
\`\`\`
\`\`\`mermaid
stateDiagram-v2
  [*] --> up: count
\`\`\`
`,
  "README.md": `# Counting

<!-- sync: lessons -->
<!-- /sync -->
`,
  "package.json": "{}\n",
};
type Files = Record<string, string>;

/** Makes a project: a copy of another one, with these files. */
function project(files: Files, from?: string): string {
  const root = mkdtempSync(join(scratch, "project-"));
  if (from) cpSync(from, root, { recursive: true, verbatimSymlinks: true });
  else symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

type Ended = { code: number; out: string[]; errors: string[] };

/** Runs the tool on a project. */
function docs(mode: "sync" | "check", root: string): Promise<Ended> {
  const tool = [import.meta.resolve("tsx"), join(ROOT, "tools/docs/main.ts"), mode];
  const env = { ...process.env, ANTHROPIC_API_KEY: "a-key", LIMIT: "7" };
  const lines = (text: string) => text.split("\n").filter((line) => line !== "");
  return new Promise((resolve) =>
    execFile(process.execPath, ["--import", ...tool], { cwd: root, env }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), out: lines(stdout), errors: lines(stderr) }),
    ),
  );
}

/** Replaces a text in a file, which has it. */
function edit(root: string, file: string, old: string, by: string): void {
  const text = read(root, file);
  assert.ok(text.includes(old), `${file} has no ${old}`);
  writeFileSync(
    join(root, file),
    text.replace(old, () => by),
  );
}

/** The line in which a text begins. */
function lineOf(root: string, file: string, text: string): number {
  const [before = "", after] = read(root, file).split(text);
  assert.ok(after !== undefined, `${file} has no ${text}`);
  return before.split("\n").length;
}

const read = (root: string, file: string) => readFileSync(join(root, file), "utf8");

/** What stands between the marks of a block on a page. */
function block(root: string, file: string, directive: string): string {
  const [, content = ""] = read(root, file).split(`<!-- sync: ${directive} -->\n`);
  return content.split("<!-- /sync -->")[0] ?? "";
}

/** A project that is in step. */
let synced = "";
before(async () => {
  synced = project(FILES);
  assert.deepEqual(await docs("sync", synced), {
    code: 0,
    out: [
      "README.md: lessons",
      "docs/s01_count.md: lines s01; lines s01 count; header s01; changes s01; region s01 count; region s01 config: LIMIT; region s01 main",
      "docs/s02_count_down.md: run echo counted; changes s02; diff s02; region s02 down: addTool down, addTool; region s02 count: count, twice",
      "3 pages, 13 directives, 0 failures",
    ],
    errors: [],
  });
});

describe("docs:sync", { concurrency: 2 }, () => {
  test("writes how long a lesson and a region are", () => {
    const line =
      "It has <!--= lines s01 -->31<!--/--> lines, <!--= lines s01 count -->9<!--/--> of them in `count`; and one.";
    assert.equal(read(synced, "docs/s01_count.md").split("\n")[2], line);
  });

  test("writes constants of a lesson, exported or not, as they are without settings", async () => {
    const text = "By <!--= const s01 STEP -->?<!--/--> to <!--= const s01 LIMIT -->?<!--/-->";
    const root = project({ "README.md": `${text}\n\nBy <!--= const s01 STEPS -->?<!--/-->\n` }, synced);
    const failure = /^README\.md:3: const s01 STEPS: STEPS of s01 is neither a number nor a text: /;
    assert.match((await docs("sync", root)).errors.join("\n"), failure);
    writeFileSync(join(root, "README.md"), text);
    assert.deepEqual((await docs("sync", root)).errors, []);
    const expected = "By <!--= const s01 STEP -->1<!--/--> to <!--= const s01 LIMIT -->2,000<!--/-->";
    assert.equal(read(root, "README.md"), expected);
  });

  test("writes a lesson's diagram and lists", () => {
    const lists = "n ──▶ n + 1\n      twice\n\nNew in s01: config, count, main";
    assert.equal(block(synced, "docs/s01_count.md", "header s01"), `\`\`\`text\n${lists}\n\`\`\`\n`);
  });

  test("writes a region with a link to its lines", () => {
    const [, lines = ""] = /#region count\n(.*?)\n\/\/ #endregion/s.exec(FILES["agents/s01_count.ts"]) ?? [];
    assert.equal(
      block(synced, "docs/s01_count.md", "region s01 count"),
      `<sub>[\`agents/s01_count.ts\`, lines 18–26](../agents/s01_count.ts#L18-L26)</sub>\n\n\`\`\`ts\n${lines}\n\`\`\`\n`,
    );
  });

  test("writes some declarations of a region, each with the comment above it and without that of the line before", () => {
    assert.equal(
      block(synced, "docs/s02_count_down.md", "region s02 count: count, twice"),
      "<sub>[`agents/s02_count_down.ts`, lines 18–21](../agents/s02_count_down.ts#L18-L21), " +
        "[25–26](../agents/s02_count_down.ts#L25-L26)</sub>\n\n```ts\n/** One more. */\nexport function count(n: number): number " +
        "{\n  return n + STEP;\n}\n\n/** Two more. */\nconst twice: Twice = (n) => count(count(n));\n```\n",
    );
    assert.equal(
      block(synced, "docs/s01_count.md", "region s01 config: LIMIT"),
      "<sub>[`agents/s01_count.ts`, lines 14–14](../agents/s01_count.ts#L14-L14)</sub>\n\n" +
        "```ts\nexport const LIMIT = Number(process.env.LIMIT ?? 2_000);\n```\n",
    );
    assert.match(
      block(synced, "docs/s02_count_down.md", "region s02 down: addTool down, addTool"),
      /```ts\naddTool\("down", down\);\nfunction addTool\(.*\n {2}console.*\n\}\n```\n$/,
    );
  });

  test("writes what changed since the lesson before as a table", () => {
    assert.equal(
      block(synced, "docs/s02_count_down.md", "changes s02"),
      `| region |  | lines | added | removed |
| --- | --- | ---: | ---: | ---: |
| [\`config\`](../agents/s02_count_down.ts#L13-L14) | changed | 2 | +1 | −1 |
| [\`down\`](../agents/s02_count_down.ts#L30-L34) | new | 5 | +5 |  |
| [\`main\`](../agents/s02_count_down.ts#L38-L38) | changed | 1 | +1 | −1 |
| \`count\` | same | 9 |  |  |
| **all** |  | 17 | +7 | −2 |
`,
    );
    assert.match(block(synced, "docs/s01_count.md", "changes s01"), /^\| region \| lines \|\n.*\n.*config.* 2 \|\n/);
  });

  test("writes what changed since the lesson before as a diff", () => {
    assert.equal(
      block(synced, "docs/s02_count_down.md", "diff s02"),
      `<details>
<summary>s01 → s02: config, main</summary>

\`\`\`diff
@@ -13,2 +13,2 @@ config
-const STEP = 1; // per call
+const STEP = 2; // per call
 export const LIMIT = Number(process.env.LIMIT ?? 2_000);
@@ -30,1 +38,1 @@ main
-console.error(twice(LIMIT));
+console.error(down(twice(LIMIT)));
\`\`\`

</details>
`,
    );
  });

  test("writes the table of lessons", () => {
    assert.equal(
      block(synced, "README.md", "lessons"),
      `| lesson | the idea | lines | added |
| --- | --- | ---: | ---: |
| [s01: count](docs/s01_count.md) | Counting is adding one | [31](agents/s01_count.ts) | +12 |
| [s02: count down](docs/s02_count_down.md) | What goes up can come down | [39](agents/s02_count_down.ts) | +7 |
`,
    );
  });

  test("changes nothing the second time, and leaves nothing for the check", async () => {
    assert.deepEqual(await docs("sync", synced), { code: 0, out: ["3 pages, 13 directives, 0 failures"], errors: [] });
    assert.deepEqual(await docs("check", synced), { code: 0, out: ["3 pages, 13 directives, 0 failures"], errors: [] });
  });

  test("mends what a changed line of code has made stale", async () => {
    const root = project({}, synced);
    for (const file of ["agents/s01_count.ts", "agents/s02_count_down.ts"]) edit(root, file, "One more.", "One up.");
    const before = await docs("check", root);
    assert.equal(before.code, 1);
    const difference = 'the page has "/** One more. */", it should be "/** One up. */"';
    assert.deepEqual(before.errors, [
      `docs/s01_count.md:${lineOf(root, "docs/s01_count.md", "/** One more. */")}: stale: region s01 count: ${difference}`,
      `docs/s02_count_down.md:${lineOf(root, "docs/s02_count_down.md", "/** One more. */")}: stale: region s02 count: count, twice: ${difference}`,
      "npm run docs:sync mends what is stale",
    ]);
    assert.deepEqual((await docs("sync", root)).out.slice(0, 2), [
      "docs/s01_count.md: region s01 count",
      "docs/s02_count_down.md: region s02 count: count, twice",
    ]);
    assert.equal((await docs("check", root)).code, 0);
  });

  test("does not write a page with something wrong on it, but the others", async () => {
    const root = project({}, synced);
    edit(root, "docs/s01_count.md", "region s01 main", "regions s01 main");
    edit(root, "docs/s01_count.md", "It has <!--= lines s01 -->31", "It has <!--= lines s01 -->99");
    edit(root, "README.md", "| Counting", "| No counting");
    const page = read(root, "docs/s01_count.md");
    const { code, out, errors } = await docs("sync", root);
    assert.equal(code, 1);
    assert.match(
      errors.join("\n"),
      /^docs\/s01_count\.md:\d+: regions s01 main: there is no directive regions; there are .*$/,
    );
    assert.deepEqual(out.slice(0, 2), ["README.md: lessons", "docs/s01_count.md: not written"]);
    assert.equal(read(root, "docs/s01_count.md"), page);
    assert.equal(read(root, "README.md"), read(synced, "README.md"));
  });

  test("writes no page while a region of a lesson is not closed", async () => {
    const root = project({}, synced);
    edit(root, "agents/s01_count.ts", "}\n\ntype", "}\n// #region more\ntype");
    edit(root, "README.md", "| Counting", "| No counting");
    const { code, errors } = await docs("sync", root);
    assert.equal(code, 1);
    assert.deepEqual(errors, ["agents/s01_count.ts:17: region count is not closed before region more opens"]);
    assert.match(read(root, "README.md"), /No counting/);
  });
});

describe("a recorded command", { concurrency: 2 }, () => {
  /** What `run` writes for each of some commands, without the fence. */
  async function record(...all: string[]): Promise<string[][]> {
    const text = all.map((args) => `<!-- sync: run ${args} -->\n<!-- /sync -->\n`).join("");
    const root = project({ "README.md": text }, synced);
    const { code, errors } = await docs("sync", root);
    assert.deepEqual([code, errors], [0, []]);
    return all.map((args) => block(root, "README.md", `run ${args}`).split("\n").slice(1, -2));
  }

  test("is shown with stdout and stderr in their order and how it ended", async () => {
    const command = "echo one; ls nothing; node -p 2; exit 3";
    const error = "ls: cannot access 'nothing': No such file or directory";
    assert.deepEqual(await record(command), [[`$ ${command}`, "one", error, "2", "(exit code 3)"]]);
  });

  test("has a copy of the project to itself, no key, and no settings of whoever records", async () => {
    const command = "ls; echo new > new.txt; rm -r docs; env | grep -E '^(ANTHROPIC.*KEY|LIMIT)=' || echo no key";
    const [first, second] = await record(command, `sleep 1; ${command}`);
    const there = ["README.md", "agents", "docs", "node_modules", "package.json"];
    assert.deepEqual(first, [`$ ${command}`, ...there, "no key"]);
    assert.deepEqual(second, [`$ sleep 1; ${command}`, ...there, "no key"]);
  });

  test("runs once, however often it is shown", async () => {
    const [first, second] = await record("head 9: date +%s%N", "tail 9: date +%s%N");
    assert.match(first?.[1] ?? "", /^\d{19}$/);
    assert.deepEqual(first, second);
  });

  test("looks the same in every run, whatever the paths, ids, times and versions are", async () => {
    const script = `
      const { randomBytes, randomUUID } = require("node:crypto");
      const port = 1024 + Math.floor(Math.random() * 9000);
      console.log(process.cwd(), process.version, randomUUID(), "127.0.0.1:" + port);
      console.log("toolu_" + randomBytes(12).toString("hex"), "req_" + randomBytes(12).toString("hex"));
      console.log("transcript_" + Date.now() + "_" + process.pid, "duration_ms " + Math.random());
      console.log("it works (" + Math.random() + "ms)", process.cwd().length, "\\x1b[2mdim\\x1b[0m  ");
    `;
    const command = `mv README.md agents/volatile.cjs; node agents/volatile.cjs`;
    const root = project(
      { "docs/run.md": `<!-- sync: run ${command} -->\n<!-- /sync -->\n`, "README.md": script },
      synced,
    );
    assert.deepEqual((await docs("sync", root)).errors, []);
    assert.deepEqual(block(root, "docs/run.md", `run ${command}`).split("\n").slice(2, -2), [
      "~/six-layers v20.12.0 00000000-0000-4000-8000-000000000000 127.0.0.1:8080",
      "toolu_01 req_01",
      "transcript_1763000000000_4711 duration_ms 1",
      "it works (1ms) 78 dim",
    ]);
  });

  test("has its long lines cut, and is in a fence that its output cannot close", async () => {
    const [lines, fence] = await record("printf '%0200d\\n%0160d' 0 0", "printf '````\\nx'");
    assert.deepEqual(lines?.slice(1), [`${"0".repeat(159)}…`, "0".repeat(160)]);
    assert.deepEqual(fence, ["$ printf '````\\nx'", "````", "x"]);
  });

  test("can be shown in part", async () => {
    const parts = ["head 2 tail 1", "head 1", "tail 1", "lines 4-5", "head 8 tail 1"];
    const shown = await record(...parts.map((part) => `${part}: seq 9`));
    assert.deepEqual(
      shown.map((lines) => lines.join(" ")),
      ["1 2 […] 9", "1 […]", "[…] 9", "[…] 4 5 […]", "1 2 3 4 5 6 7 8 9"].map((lines) => `$ seq 9 ${lines}`),
    );
  });
});

describe("figures of the bench", () => {
  const page = `<!-- sync: bench costs -->
<!-- /sync -->

It is <!--= bench forms.two.cost 2 -->?<!--/-->, <!--= bench forms.two.grounded percent -->?<!--/-->, <!--= bench sessions -->?<!--/-->.
`;
  const results = JSON.stringify({ sessions: 1200, forms: { two: { cost: 0.6151, grounded: 0.974 } } });
  const report = `export const tables = { costs: ({ forms }) => "| two |\\n| --- |\\n| " + forms.two.cost + " |" };\n`;

  test("come from its results and its tables", async () => {
    const files = { "README.md": page, "bench/results.json": results, "bench/report.ts": report };
    const root = project(files, synced);
    assert.deepEqual((await docs("sync", root)).errors, []);
    assert.equal(block(root, "README.md", "bench costs"), "| two |\n| --- |\n| 0.6151 |\n");
    assert.match(read(root, "README.md"), /2 -->0\.62<.* percent -->97 %<.* sessions -->1,200</);
  });

  test("are missed when they are not there", async () => {
    const root = project({ "README.md": page, "bench/report.ts": report }, synced);
    const { errors } = await docs("sync", root);
    assert.equal(errors[0], "README.md:1: bench costs: bench/results.json is missing: the bench writes it");
    writeFileSync(join(root, "bench/results.json"), "{}");
    assert.match((await docs("sync", root)).errors[1] ?? "", /^README.md:4: .* has no number at forms\.two\.cost$/);
  });
});

describe("docs:check", () => {
  /** What is wrong: a page that has nothing else wrong, the line, and how the failure begins. */
  const FAULTS: Record<string, [page: string, line: number, failure: string]> = {
    "a figure that is stale": [
      "\nIt has <!--= lines s01 -->30<!--/--> lines.",
      2,
      'stale: lines s01: the page has "30", it should be "31"',
    ],
    "a stale line of a block": [
      "<!-- sync: run echo 1; echo 2 -->\n```console\n$ echo 1; echo 2\n1\n3\n```\n<!-- /sync -->",
      5,
      'stale: run echo 1; echo 2: the page has "3", it should be "2"',
    ],
    "a line that is missing in a block": [
      "<!-- sync: run echo 1 -->\n```console\n$ echo 1\n```\n<!-- /sync -->",
      4,
      'stale: run echo 1: the page has "```", it should be "1"',
    ],
    "a line too many in a block": [
      "<!-- sync: run echo 1 -->\n```console\n$ echo 1\n1\n```\n\n<!-- /sync -->",
      7,
      'stale: run echo 1: the page has "", it should be "nothing"',
    ],
    "a directive that does not exist": [
      "<!-- sync: heading s01 -->\n<!-- /sync -->",
      1,
      "heading s01: there is no directive heading; there are region, header, ",
    ],
    "an inline value that does not exist": [
      "It has <!--= line s01 -->31<!--/--> lines.",
      1,
      "line s01: there is no inline value line; there are lines, ",
    ],
    "a block that the next one opens in": [
      "<!-- sync: header s01 -->\n<!-- sync: run echo -->\n```console\n$ echo\n```\n<!-- /sync -->",
      1,
      "header s01 is not closed with <!-- /sync -->",
    ],
    "a block that is never closed": ["\n<!-- sync: lessons -->", 2, "lessons is not closed with <!-- /sync -->"],
    "an end without a beginning": ["\n<!-- /sync -->", 2, "<!-- /sync --> closes nothing"],
    "a directive that has no line of its own": [
      "See <!-- sync: lessons -->",
      1,
      "See <!-- sync: lessons --> is no directive: ",
    ],
    "an inline value that is not closed": [
      "It has <!--= lines s01 -->31 lines.",
      1,
      "<!--= lines s01 -->31 lines. is no inline value: ",
    ],
    "an inline value that begins a line": [
      "<!--= lines s01 -->31<!--/--> lines.",
      1,
      "a line that begins with an inline value is HTML for GitHub",
    ],
    "a lesson that does not exist": [
      "It has <!--= lines s07 -->31<!--/--> lines.",
      1,
      "lines s07: there is no lesson s07; there are s01, s02",
    ],
    "a region that does not exist": [
      "<!-- sync: region s01 counting -->\n<!-- /sync -->",
      1,
      "region s01 counting: there is no region of s01 called counting; there are config, count, main",
    ],
    "a declaration that does not exist": [
      "<!-- sync: region s01 config: LIMITS -->\n<!-- /sync -->",
      1,
      "region s01 config: LIMITS: region config does not declare LIMITS; it declares STEP, LIMIT",
    ],
    "lines that an output does not have": [
      "<!-- sync: run lines 2-3: echo -->\n<!-- /sync -->",
      1,
      "run lines 2-3: echo: the output has only 1 lines",
    ],
    "a link to a file that does not exist": ["\n[x](../agent/)", 2, "dead link ../agent/: there is no agent/"],
    "an image that does not exist": ["![x](x.png)", 1, "dead link x.png: there is no docs/x.png"],
    "a link out of the project": ["[x](../../)", 1, "dead link ../../: there is no ../"],
    "an HTML link to a file that does not exist": ['<a href="x.md">x</a>', 1, "dead link x.md: there is no docs/x.md"],
    "a reference to a file that does not exist": ["[x]\n\n[x]: x.md", 3, "dead link x.md: there is no docs/x.md"],
    "a link that is no address": ["[x](%zz)", 1, "dead link %zz: URI malformed"],
    "an anchor on the same page that no heading has": [
      "# One\n[x](#one-1)",
      2,
      "dead link #one-1: docs/fault.md has no such heading; it has one",
    ],
    "an anchor on another page that no heading has": [
      "[x](s01_count.md#twice)",
      1,
      "dead link s01_count.md#twice: docs/s01_count.md has no such heading; it has s01-count, twice-count, twice-count-1",
    ],
    "a line that a file does not have": [
      "[x](/agents/s01_count.ts#L32)",
      1,
      "dead link /agents/s01_count.ts#L32: agents/s01_count.ts has 31 lines; an anchor is #L10 or #L10-L20",
    ],
    "lines in the wrong order": [
      "[x](../agents/s01_count.ts#L15-L13)",
      1,
      "dead link ../agents/s01_count.ts#L15-L13: agents/s01_count.ts has 31 lines; ",
    ],
    "a line of code that is too long": [
      `\`\`\`ts\n${"–".repeat(120)}\n${"–".repeat(121)}\n\`\`\``,
      3,
      "code of 121 characters, more than 120",
    ],
    "a line of output that is too long": [
      `\`\`\`console\n${"–".repeat(160)}\n${"–".repeat(161)}\n\`\`\``,
      3,
      "code of 161 characters, more than 160",
    ],
    "a broken flowchart": ["\n```mermaid\nflowchart LR\n  a[x --> b\n```", 2, "mermaid: Parse error on line "],
    "a broken sequence diagram": [
      "```mermaid\nsequenceDiagram\n  A->>>>B count\n```",
      1,
      "mermaid: Parse error on line 2",
    ],
    "a broken state diagram": ["```mermaid\nstateDiagram-v2\n  [*] -->-> up\n```", 1, "mermaid: Parse error on line 2"],
    "a diagram of no known kind": ["```mermaid\nflow LR\n  a --> b\n```", 1, "mermaid: No diagram type detected"],
  };
  const pageOf = (i: number) => `docs/fault-${String(i).padStart(2, "0")}.md`;

  let all: Ended;
  before(async () => {
    const pages = Object.values(FAULTS).map(([text], i): [string, string] => [pageOf(i), `${text}\n`]);
    all = await docs("check", project(Object.fromEntries(pages), synced));
  });

  for (const [i, [what, [, line, failure]]] of Object.entries(FAULTS).entries()) {
    test(`names ${what}`, () => {
      const errors = all.errors.filter((error) => error.startsWith(pageOf(i)));
      const expected = `${pageOf(i)}:${line}: ${failure.replace("docs/fault.md", pageOf(i))}`;
      assert.deepEqual(
        errors.map((error) => error.slice(0, expected.length)),
        [expected],
      );
    });
  }

  test("names all that is wrong, page by page, and fails", () => {
    const count = Object.keys(FAULTS).length;
    assert.equal(all.code, 1);
    assert.equal(all.errors.pop(), "npm run docs:sync mends what is stale");
    assert.equal(all.errors.length, count);
    assert.deepEqual(all.errors, [...all.errors].sort());
    assert.deepEqual(all.out, [`${3 + count} pages, ${all.out[0]?.split(" ")[2]} directives, ${count} failures`]);
  });

  test("names regions of a lesson that its page does not show, wherever else they are shown", async () => {
    const root = project({}, synced);
    edit(root, "docs/s01_count.md", "sync: region s01 main", "sync: region s02 main");
    edit(root, "docs/s02_count_down.md", "sync: diff s02", "sync: region s02 config");
    const { errors } = await docs("check", root);
    assert.deepEqual(errors.slice(0, 2), [
      "agents/s01_count.ts:29: new region main is not shown on docs/s01_count.md",
      "agents/s02_count_down.ts:37: changed region main is not shown on docs/s02_count_down.md",
    ]);
  });

  test("names a region that was renamed, wherever it is shown, and a lesson that has no page", async () => {
    const root = project({}, synced);
    edit(root, "agents/s01_count.ts", "#region count", "#region counting");
    rmSync(join(root, "docs/s02_count_down.md"));
    const { errors } = await docs("check", root);
    const page = "docs/s01_count.md";
    for (const directive of ["region s01 count", "lines s01 count"]) {
      const why = "there is no region of s01 called count; there are config, counting, main";
      const failure = `${page}:${lineOf(root, page, `${directive} -->`)}: ${directive}: ${why}`;
      assert.ok(errors.includes(failure), errors.join("\n"));
    }
    assert.ok(errors.includes(`agents/s01_count.ts:17: new region counting is not shown on ${page}`));
    assert.ok(errors.includes("agents/s02_count_down.ts:1: its page docs/s02_count_down.md is missing"));
  });

  test("names marks of regions in lessons that do not pair up", async () => {
    const root = project({}, synced);
    edit(root, "agents/s01_count.ts", "(LIMIT));\n// #endregion", "(LIMIT));");
    edit(root, "agents/s02_count_down.ts", "// #region main\n", "");
    edit(root, "agents/s02_count_down.ts", "#region count", "#region config");
    const { errors } = await docs("check", root);
    for (const failure of [
      "agents/s01_count.ts:29: region main is not closed",
      "agents/s02_count_down.ts:17: region config is there twice",
      "agents/s02_count_down.ts:38: #endregion without a #region before it",
    ]) {
      assert.ok(errors.includes(failure), errors.join("\n"));
    }
  });
});
