// `docs:sync` writes the generated parts into the pages, and `docs:check` reports what is wrong with them.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { readTimeline } from "../sessions/read-timeline.ts";
import { drawFigures } from "./figures.ts";
import { messageLines } from "./messages.ts";
import { recorder } from "./recorder.ts";
import { processPages } from "./sync.ts";

const failuresOf = async (mode: "sync" | "check") => (await processPages(mode, root)).failures;

const root = mkdtempSync(join(tmpdir(), "docs-test-"));
after(() => rmSync(root, { recursive: true }));
const ours = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url));
symlinkSync(ours("node_modules"), join(root, "node_modules"));
for (const folder of ["tools/docs/runs/tasks", "docs/figures"]) mkdirSync(join(root, folder), { recursive: true });
const write = (file: string, text: string) => {
  mkdirSync(join(root, dirname(file)), { recursive: true });
  writeFileSync(join(root, file), text);
};

write(
  "agents/s01_count.ts",
  `/**
 * s01: count
 */
// #region config
const STEP = 1; // per call
export const LIMIT = 2_000;
// #endregion
// #region count
export const count = (n: number) => n + STEP;
// #endregion
`,
);
write("docs/s01_count.md", "");

async function check(page: string): Promise<string[]> {
  write("docs/page.md", `${page}\n`);
  return (await failuresOf("check")).map((failure) => failure.replace("docs/page.md:", ""));
}

const fence = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\`\n`;

test("a command runs in a copy of the project, and its streams are shown in order, with its exit code", async () => {
  const command = "rm -r agents; cat a >&2; echo ~ toolu_0123456789; exit 3";
  const output = "cat: a: No such file or directory\n~ toolu_01\n(exit code 3)";
  write("docs/page.md", `<!-- sync: run ${command} -->\n<!-- /sync -->\n`);
  assert.deepEqual([await failuresOf("sync"), await failuresOf("check")], [[], []]);
  const shown = fence("console", `$ ${command}\n${output}`);
  assert.equal(
    readFileSync(join(root, "docs/page.md"), "utf8"),
    `<!-- sync: run ${command} -->\n${shown}<!-- /sync -->\n`,
  );
});

test("a file is shown whole, and a declaration beside that of the lesson before", async () => {
  const [s01, s02] = ["agents/s01_count.ts", "agents/s02_count.ts"];
  write(s02, readFileSync(join(root, s01), "utf8").replace("n + STEP", "n"));
  write("docs/s02_count.md", "");
  write(
    "docs/page.md",
    "<!-- sync: file package.json -->\n<!-- /sync -->\n<!-- sync: diff s02 STEP, count -->\n<!-- /sync -->\n",
  );
  write("package.json", "{}\n");
  assert.deepEqual(await failuresOf("sync"), []);
  const page = readFileSync(join(root, "docs/page.md"), "utf8");
  assert.match(page, /```ts\n\{\}\n```\n.*```diff\n-export .* => n \+ STEP;\n\+export .* => n;\n```/s);
  for (const file of [s02, "docs/s02_count.md", "docs/page.md"]) rmSync(join(root, file));
});

test("stale figures are reported and drawn again", async () => {
  const recordings = ["tools/docs/runs/demo.jsonl", "tools/docs/runs/demo_s05.jsonl"];
  for (const file of recordings) write(file, readFileSync(ours(file), "utf8"));
  const figures = ["s05_s06", "s06_layers", "viewer"].flatMap((name) => [`${name}.narrow.svg`, `${name}.svg`]);
  for (const figure of figures) write(`docs/figures/${figure}`, "<svg></svg>");
  const isStale = "stale (npm run docs:sync): what it was recorded or drawn from has changed";
  assert.deepEqual(
    await failuresOf("check"),
    figures.map((figure) => `docs/figures/${figure}: ${isStale}`),
  );
  assert.deepEqual([await failuresOf("sync"), await failuresOf("check")], [[], []]);
  for (const file of recordings) rmSync(join(root, file));
});

/** Stands in for the offline runner: leaves a journal and transcripts, and counts how often it ran. */
const RUNNER = `import fs from "node:fs";
const name = process.argv[2];
fs.appendFileSync("${root}/ran.txt", name + "\\n");
if (fs.existsSync("saved/" + name)) fs.cpSync("saved/" + name, ".offline/.transcripts", { recursive: true });
const journal = "saved/" + name + ".jsonl";
if (fs.existsSync(journal)) fs.appendFileSync(process.env.OFFLINE_JOURNAL, fs.readFileSync(journal));
console.log("ran " + name);`;

test("a run is made once, for its page and as a transcript, with its subagent's apart, and is named when it changes", async () => {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const entry = (lesson: string, system: string, ...said: string[]) => {
    const messages = said.map((content, i) => ({ role: i % 2 ? "assistant" : "user", content }));
    return { lesson, request: { model: "m", system, messages }, reply: [{ type: "text", text: "yes" }], usage };
  };
  const writeLines = (file: string, lines: unknown[]) =>
    write(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const child = [entry("s04", "child", "look"), entry("s04", "child", "look again")];
  writeLines("saved/s04.jsonl", [entry("s04", "parent", "go"), ...child, entry("s04", "parent", "go", "yes", "on")]);
  const rejected = { ...entry("s05", "", "read", "yes", "all"), reply: undefined, usage: undefined };
  writeLines("saved/demo.jsonl", [entry("s05", "", "read"), rejected, entry("s06", "", "read")]);
  const message = (content: string) => ({ message: { role: "user", content }, state: { file: "/somewhere" } });
  writeLines("saved/s06/transcript_1_1.jsonl", [message("older")]);
  writeLines("saved/s06/transcript_2_2.jsonl", [message("older"), message("newer")]);
  write("offline/run.ts", "");
  write("offline.mjs", RUNNER);
  write("package.json", '{"scripts":{"offline":"node offline.mjs","demo":"node offline.mjs demo"}}');
  write("docs/page.md", "<!-- sync: run tail 1: npm run demo -->\n<!-- /sync -->\n");

  await failuresOf("sync");
  assert.match(readFileSync(join(root, "docs/page.md"), "utf8"), /^ran demo$/m);
  const ran = readFileSync(join(root, "ran.txt"), "utf8").split("\n");
  assert.equal(ran.filter((name) => name === "demo").length, 1);
  const said = (name: string) => {
    const lines = readFileSync(join(root, `tools/docs/runs/${name}.jsonl`), "utf8")
      .trim()
      .split("\n");
    return lines.map((line) => JSON.parse(line)).map((line) => line.message?.content ?? Object.keys(line)[1]);
  };
  const yes = [{ type: "text", text: "yes" }];
  assert.deepEqual(said("s04"), ["system", "go", "usage", yes, "on", "usage", yes]);
  assert.deepEqual(said("tasks/s04"), ["look", "usage", yes, "look again", "usage", yes]);
  assert.deepEqual(said("demo_s05"), ["read", "usage", yes, "all"]);
  assert.deepEqual(said("s06"), ["older", "newer"]);
  assert.doesNotMatch(readFileSync(join(root, "tools/docs/runs/s06.jsonl"), "utf8"), /state/);

  writeLines("saved/s04.jsonl", [entry("s04", "parent", "come")]);
  const stale = (await failuresOf("check")).filter((failure) => /runs/.test(failure));
  assert.match(stale.join("\n"), /^tools\/docs\/runs\/s04\.jsonl: stale \(npm run docs:sync\).*$/);
  rmSync(join(root, "offline/run.ts"));
});

test("the commands of a session run in one folder, in order", async () => {
  const [first, second] = ["echo one > a", "cat a"] as const;
  const record = recorder(root, [[first, second]]);
  const { outputs } = await record(second);
  assert.deepEqual([outputs.get(second), (await record("cat a")).outputs.get(second)], ["one", "one"]);
});

test("a figure has a title and a description, keeps its labels within its width, and says what happened in the run", () => {
  const figures = drawFigures(ours(""));
  for (const [name, figure] of Object.entries(figures)) {
    assert.match(figure, /<title id="title">[^<]+<\/title>\n<desc id="desc">[^<]+<\/desc>/, name);
    const width = Number(/ width="(\d+)"/.exec(figure)?.[1]);
    for (const [, x] of figure.matchAll(/<text[^>]* x="([\d.]+)"/g)) assert.ok(Number(x) < width, `${name}: ${x}`);
  }
  const { "s05_s06.svg": runs = "", "s06_layers.narrow.svg": bars = "" } = figures;
  const { modelCalls, compactions } = readTimeline(readFileSync(ours("tools/docs/runs/demo.jsonl"), "utf8"));
  assert.match(runs, /s05: \d+ prompts of up to 31,\d{3} tokens, then one that is too long\./);
  assert.match(
    runs,
    RegExp(`s06: ${modelCalls.length} prompts of up to 15,\\d{3} tokens, and ${compactions.length} compactions`),
  );
  const marks = [...runs.matchAll(/<circle.*?<text.*?>(\d)</g)].map(([, label = ""]) => label);
  const layers = ["", "micro", "auto", "tool"];
  assert.deepEqual(
    marks.map((label) => layers[Number(label)]),
    compactions.map(({ trigger }) => trigger),
  );
  assert.match(
    figures["viewer.svg"] ?? "",
    RegExp(`>Compactions<.*>${compactions.length}<.*>Compaction 4 of ${compactions.length}<`, "s"),
  );
  assert.equal(runs.match(/class="cross"/g)?.length, 1);
  assert.equal(bars.match(/class="seen"/g)?.length, 4, "in a full prompt, and after each layer");
});

test("messages of a run are shown up to a text, with those of a subagent indented", async () => {
  const lines = messageLines(ours(""), "s04", "result");
  assert.deepEqual(
    lines.map((line) => line.split(/ {2,}/).filter(Boolean)[0]),
    ["user", "assistant", "user", "assistant", "result", "assistant", "result", "assistant", "result"],
  );
  assert.match(lines[2] ?? "", /^ {4}user {7}Read every file/);
  assert.throws(
    () => messageLines(ours(""), "s04", "nothing like it"),
    /no message of s04 has the text nothing like it/,
  );
});

test("the first stale line of a page is reported", async () => {
  const page = `\n<!-- sync: run echo 1 -->\n${fence("console", "$ echo 1\n2")}<!-- /sync -->`;
  assert.deepEqual(await check(page), ['5: stale (npm run docs:sync): it has "2" instead of "1"']);
});

test("a wrong directive is reported, with what it could say instead", async () => {
  const region = ['region s01 config: "X"', "region s01 config: X", "region s01 X: X"];
  const page = ["changes s03", "heading s01", ...region]
    .map((directive) => `<!-- sync: ${directive} -->\n<!-- /sync -->`)
    .join("\n");
  assert.deepEqual(await check(`${page}\nIt is <!--= const s01 X -->1<!--/-->`), [
    "1: changes s03: there is no lesson s03; there are s01",
    "3: heading s01: there is no kind heading; there are file, region, changes, diff, messages, run, lessons, measured, bench",
    '5: region s01 config: "X": the region has no line with X; quote one here',
    "7: region s01 config: X: there is no declaration X; there are STEP, LIMIT",
    "9: region s01 X: X: there is no region X; there are config, count",
    "11: const s01 X: there is no constant X; there are STEP, LIMIT",
  ]);
});

test("marks that don't pair up are reported, except in code", async () => {
  const marks = "<!-- sync: lessons -->\nSee <!-- sync: lessons -->\n<!-- /sync -->";
  const values = "It has <!--= const s01 X -->34 lines.\n<!--= const s01 X -->33<!--/--> lines begin a line.";
  const found = await check(`${marks}\n${values}\n\`<!-- sync: X -->\`\n${fence("md", "<!--= X -->")}`);
  const rules = [...Array(3).fill("a block needs"), ...Array(2).fill("a value is")];
  assert.equal(found.length, 5);
  for (const [i, failure] of found.entries()) assert.match(failure, new RegExp(`^${i + 1}: .*: ${rules[i]} `));
});

test("dead links to files, headings and other anchors are reported, except in code", async () => {
  const page =
    '# `One` [two](page.md)\n# One two\n[x](#one-two) [x](page.md#one-two-1) [x](https://x.invalid/#x) <a id="four"></a>[x](#four)\n';
  assert.deepEqual(await check(`${page}[\`x\`](../agent/)\n[x](#three) \`[x](x.md)\`\n<img src="./x.svg">`), [
    "4: dead link ../agent/: there is no agent/; name another file here",
    "5: dead link #three: docs/page.md has no such anchor; write one of one-two, one-two-1, four",
    "6: dead link ./x.svg: there is no docs/x.svg; name another file here",
  ]);
});

test("words in italics that aren't the name of a test are reported", async () => {
  write("tests/a.test.ts", `test("adds one to n", () => {});\ntest(\`\${each}: adds \${n} at once\`, () => {});\n`);
  assert.deepEqual(
    await check(
      "*adds one to n* *adds two at once* *two words* **not in italics** <!-- cat *.md | tail *.md -->\n*adds nothing to n*",
    ),
    ['2: no test in tests/ is called "adds nothing to n"; write the name of one here, or no italics'],
  );
  rmSync(join(root, "tests"), { recursive: true });
});

test("a Chinese page that is behind its English page is a warning, but it can't have generated parts of its own", async () => {
  const run = "<!-- sync: run echo hi -->\n<!-- /sync -->\n";
  write("docs/page.md", `# Page\n\nOne.\n\n## Two\n\n${run}`);
  write("docs/zh/page.md", `# 页面\n\n一。\n\n## 二\n\n${run}`);
  await failuresOf("sync");
  const { failures, warnings } = await processPages("check", root);
  assert.deepEqual(failures, []);
  const hashes = warnings.flatMap((warning) => /<!-- en: \w+ -->/.exec(warning) ?? []);
  assert.equal(hashes.length, 2);
  write("docs/zh/page.md", `# 页面\n${hashes[0]}\n\n一。\n\n## 二\n${hashes[1]}\n\n${run}`);
  await failuresOf("sync");
  assert.deepEqual(await processPages("check", root), { failures: [], warnings: [] });

  write("docs/page.md", `# Page\n\nOne.\n\n## Two\n\n${run}\n${run.replace("hi", "ho")}`);
  await failuresOf("sync");
  const more = await processPages("check", root);
  assert.deepEqual(more.failures, []);
  assert.equal(more.warnings[0], "docs/zh/page.md: docs/page.md has <!-- sync: run echo ho -->: add it here");

  write("docs/page.md", `# Page\n\nOne.\n\n## Two\n\nTwo.\n`);
  const changed = await processPages("check", root);
  assert.deepEqual(changed.failures, [
    "docs/zh/page.md: docs/page.md has no <!-- sync: run echo hi -->: remove it here",
  ]);
  assert.match(changed.warnings.join(), /^docs\/zh\/page\.md:6: "Two" in docs\/page\.md has changed: compare/);
  write("docs/page.md", `# Page\n\n${run}\n## Two\n\n## Three\n`);
  const longer = await processPages("check", root);
  assert.match(
    longer.warnings.join(),
    /^docs\/zh\/page\.md: it has 2 sections, and docs\/page\.md has 3: write [^,]*$/,
  );
  rmSync(join(root, "docs/zh"), { recursive: true });
});

test("pages that are too long are reported; code, tables and generated parts don't count as words", async () => {
  const rest = `| a table |\n\n${fence("ts", "code")}\n<!-- a comment -->\n<!-- sync: run echo words -->\n<!-- /sync -->\n`;
  const page = `${rest}${"a [word](page.md) –\n".repeat(210)}${"word ".repeat(480)}`;
  write("docs/page.md", "");
  write("docs/s01_count.md", page);
  assert.deepEqual([await failuresOf("sync"), await failuresOf("check")], [[], []]);
  write("docs/s01_count.md", `${readFileSync(join(root, "docs/s01_count.md"), "utf8")}${"word\n".repeat(20)}`);
  assert.deepEqual(await failuresOf("check"), [
    "docs/s01_count.md: it has 243 lines; cut it to 240",
    "docs/s01_count.md: it has 920 words of prose; cut it to 900",
  ]);
  write("docs/s01_count.md", "");
  write("docs/promises.md", `${"| promise | test |\n| --- | --- |\n".repeat(2)}${"| a | b |\n".repeat(41)}`);
  assert.deepEqual(await failuresOf("check"), ["docs/promises.md: it has 41 rows; cut it to 40"]);
  rmSync(join(root, "docs/promises.md"));
});
