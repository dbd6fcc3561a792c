/** `npm run view` as a process of its own: what it opens and lists, and what its pages say. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  billed,
  boundary,
  claude,
  claudeSession,
  continued,
  linesOf,
  openedByCompaction,
  own,
  reply,
  result,
  said,
  text,
  use,
  user,
} from "../sessions/test-lines.ts";

const root = mkdtempSync(join(tmpdir(), "viewer-"));
after(() => rmSync(root, { recursive: true }));

const program = fileURLToPath(new URL("view.ts", import.meta.url));
const command = (path?: string) => ["--import", import.meta.resolve("tsx"), program, ...(path ? [path] : [])];
const env = { ...process.env, BROWSER: "none" };

/** Returns the texts of elements, without tags in them. */
const textsOf = (page: string, tag: string) =>
  [...page.matchAll(new RegExp(`<${tag}(?:\\s[^>]*)?>(.*?)</${tag}>`, "gs"))].map(([, content = ""]) =>
    content
      .replace(/<svg.*?<\/svg>|<.*?>/gs, "")
      .replace(/\s+/g, " ")
      .trim(),
  );

/** Starts `npm run view` and waits for its address. */
async function serve(cwd: string, path?: string, INIT_CWD = cwd) {
  const child = spawn(process.execPath, command(path), { cwd, env: { ...env, INIT_CWD } });
  after(() => child.kill());
  let [printed, errors] = ["", ""];
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [, url = "", file = ""] = await new Promise<string[]>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
      const found = /^(http\S+) shows (.*);/m.exec(printed);
      if (found) resolve(found);
    });
  });
  const open = async (path: string) => (await fetch(url + path)).text();
  return { url, file, open, errors: () => errors, printed: () => printed };
}

/** A transcript of s06 with some model calls. */
const transcript = (calls: number, request = "Look.") =>
  linesOf(own(user(request)), ...Array(calls).fill(own(reply(text("Done.")))));

function write(file: string, content: string): string {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), content);
  return join(root, file);
}

// --- what it opens ---------------------------------------------------------------------------------------------------

test("the newest run opens, and a subagent is listed below its parent", async () => {
  const cwd = join(root, "repo");
  const offline = ".offline/.transcripts/transcript_200_8.jsonl";
  const child = ".offline/.transcripts/tasks/transcript_201_8.jsonl";
  const older = ".transcripts/transcript_100_7.jsonl";
  for (const file of [older, offline, child]) write(`repo/${file}`, transcript(1, `In ${file}.`));
  utimesSync(join(cwd, older), 1, 1);
  const { url, file, open } = await serve(cwd);
  assert.equal(file, offline);
  assert.match(await open(""), /without its 1 subagent · <a href="\/sessions">2 sessions and 1 subagent</);
  const list = await open("sessions");
  assert.deepEqual(textsOf(list, "a"), [`In ${offline}.`, `In ${child}.`, `In ${older}.`]);
  const [, link = ""] = /class="child"><a href="(.*?)".*<small>subagent · /.exec(list) ?? [];
  const page = await open(link.replaceAll("&#38;", "&").slice(1));
  assert.deepEqual(textsOf(page, "h1"), [`In ${child}.`]);
  const outside = write("outside.jsonl", transcript(1));
  assert.equal((await fetch(`${url}?file=${outside}`)).status, 404);
});

test("without a session of one's own the recorded demo opens", async () => {
  const { file, open } = await serve(mkdtempSync(join(root, "none-")));
  assert.match(file, /runs\/demo\.jsonl$/);
  const page = await open("");
  const [sent, calls = "", , largest = "", , missed = "", count, compactions = ""] = textsOf(page, "dd");
  assert.match(
    `${sent} ${calls}`,
    /^[\d,]+ tokens \d+ model calls\. What they cost isn’t known: they weren’t made at list/,
  );
  assert.match(largest, /^Sent with call \d+, \d+ % of the threshold: about \d+ % results of read_file/);
  assert.match(missed, /weren’t in the prompt cache after a compaction/);
  assert.match(`${count} ${compactions}`, /^5 They took about [\d,]+ tokens, mostly results of read_file/);
  assert.doesNotMatch(page, /\$\d/);
});

test("a path is one of the folder in which npm was started, and only this machine's names are answered", async () => {
  const one = write("sub/one.jsonl", transcript(1));
  const { url, file } = await serve(root, "one.jsonl", join(root, "sub"));
  assert.equal(file, one);
  const { port } = new URL(url);
  const statusOf = (host: string) =>
    new Promise((resolve) => get({ port, headers: { host } }, ({ statusCode }) => resolve(statusCode)));
  const hosts = [`localhost:${port}`, "localhost:8080", `127.0.0.1:${port}`, `example.com:${port}`];
  assert.deepEqual(await Promise.all(hosts.map(statusOf)), [200, 200, 200, 404]);
});

test("files that can't be shown are named in the list and in the terminal, and the newest good one opens", async () => {
  const contents = { "half.jsonl": `${transcript(2)}{"mess`, "empty.jsonl": "\n", "binary.jsonl": "\0\u0001PNG\0" };
  for (const [name, content] of Object.entries(contents)) write(`bad/${name}`, content);
  utimesSync(join(root, "bad/half.jsonl"), 1, 1);
  const { file, open, errors } = await serve(root, join(root, "bad"));
  assert.equal(file, join(root, "bad/half.jsonl"));
  assert.match(await open(""), /Line 4 of the file is broken/);
  const list = await open("sessions");
  for (const row of ["binary.jsonl<br><small>is binary", "empty.jsonl<br><small>is empty"])
    assert.ok(list.includes(row), list);
  for (const problem of ["binary.jsonl is binary", "empty.jsonl is empty"]) assert.ok(errors().includes(problem));
});

test("a file that isn't a session, or isn't there, ends it with a message", () => {
  const endsWith = (path: string) => {
    const { status, stderr } = spawnSync(process.execPath, command(path), { env, encoding: "utf8" });
    return `${status} ${stderr}`;
  };
  const readme = fileURLToPath(new URL("../../README.md", import.meta.url));
  const wanted = /^1 .*(foreign\.jsonl|README\.md) holds no session of Claude Code or s06\n.*name a transcript of s06/;
  for (const path of [write("foreign.jsonl", '{"a":1}\n'), readme]) assert.match(endsWith(path), wanted);
  assert.match(endsWith(write("no\ncall.jsonl", transcript(0))), /^1 \S*no\\ncall\.jsonl has no model call\n/);
  assert.match(endsWith(join(root, "gone.jsonl")), /^1 .*gone\.jsonl does not exist; name a session file/);
});

test("while a large file is read, the terminal shows how much of it has been", async () => {
  const { printed } = await serve(root, write("large.jsonl", transcript(99, "x".repeat(6e6))));
  assert.match(printed(), /\rreading large\.jsonl, \d MB: 50 %\r[\s\S]* 100 %\n/);
});

test("the list has what the user typed, a session that continues another, and paths without control characters", async () => {
  const own = (uuid: string, sessionId = "one") => ({ uuid, sessionId });
  const asked = claude(0, user("<command-name>/fix</command-name><command-args>it</command-args>"), own("u1"));
  const lines = linesOf(asked, claude(1, said("m1", text("Done.")), own("u2")));
  write("typed\u001b[2J/one.jsonl", lines);
  write("typed\u001b[2J/two.jsonl", lines + linesOf(claude(2, user("More."), own("u3", "two"))));
  write("typed\u001b[2J/none.jsonl", linesOf(claude(3, said("m2", text("Hello.")))));
  const { url, file, open } = await serve(root, join(root, "typed\u001b[2J"));
  const list = await open("sessions");
  assert.ok(/typed�\[2J/.test(file) && /typed�\[2J</.test(list));
  assert.ok(url && list.includes("Nothing in the file was typed by the user"));
  const rows = textsOf(list, "p").filter((row) => row.startsWith("/fix it"));
  assert.deepEqual(rows.map((row) => /continues that of Jan 1, 1970.*, and counts its calls again$/.test(row)).sort(), [
    false,
    true,
  ]);
});

// --- what a page says ------------------------------------------------------------------------------------------------

/** A session of Claude Code in which every call reads a file. A compaction comes before the fifth. */
function reading(calls: number, { model = "claude-opus-4-6", stop_reason = "tool_use" } = {}): string {
  const lines: object[] = [claude(0, user(`See src/lost.ts, server.ts and <b>this</b>.${" ".repeat(400)}`))];
  for (let i = 1; i <= calls; i++) {
    const cached = i === 1 || i === 5 ? [0, 9_000] : [9_000, 100 * i];
    const call = use(`t${i}`, "Read", { file_path: "/app/server.ts" });
    lines.push(claude(i, { ...billed(`m${i}`, [...cached, 3, 2], call), model, stop_reason }));
    lines.push(claude(i + 0.5, user([result(`t${i}`, `const retryLimit = ${i};\n`.repeat(20))])));
    if (i === 2) lines.push(claude(2.7, user("Now the tests.")));
    if (i === 4)
      lines.push(boundary({ trigger: "auto" }), continued(4.7, "This session is continued: server.ts was read."));
  }
  return linesOf(...lines);
}

const files: Record<string, string> = {
  "claude.jsonl": claudeSession,
  "opened.jsonl": openedByCompaction,
  "reading.jsonl": reading(6),
  "unpriced.jsonl": reading(4, { model: "claude-opus-5-9" }),
  "unfinished.jsonl": reading(4, { stop_reason: "" }),
  "uncounted.jsonl": transcript(2),
};
for (const [name, content] of Object.entries(files)) write(`pages/${name}`, content);
const pages = await serve(root, join(root, "pages"));
const pageOf = (name: string, selection: object = {}) =>
  pages.open(`?${new URLSearchParams({ file: join(root, "pages", name), ...selection })}`);
/** Each answer as its figure and what is said below it. */
const answersOf = async (name: string) => {
  const texts = textsOf(await pageOf(name), "dd");
  return [0, 2, 4, 6].map((i) => `${texts[i]}: ${texts[i + 1]}`);
};

test("the cost has its most expensive call, and what isn't known", async () => {
  const [cost = ""] = await answersOf("reading.jsonl");
  // in millionths: 36,000 × 0.5 to read, 19,500 × 6.25 to write, 18 × 5 without the cache, 12 × 25 for output
  assert.match(cost, /^\$0\.14: 6 model calls, without the cost of 1 summary, which isn’t known\. /);
  assert.match(cost, /The most expensive call is call 1 \(\$0\.056\)\.$/);
  const [unfinished = ""] = await answersOf("unfinished.jsonl");
  assert.match(unfinished, /^about \$\d/);
  const [unpriced = ""] = await answersOf("unpriced.jsonl");
  assert.match(
    unpriced,
    /^36,\d+ tokens: 4 model calls\. What they cost isn’t known: claude-opus-5-9 isn’t in the list of prices\./,
  );
  assert.doesNotMatch(await pageOf("unpriced.jsonl"), /\$\d/);
  const [uncounted = ""] = await answersOf("uncounted.jsonl");
  assert.match(uncounted, /^about \d+ tokens: 2 model calls\. .*: the file has no token counts\./);
});

test("the other answers say what the file shows, and what it doesn't", async () => {
  const [, largest = "", missed = ""] = await answersOf("claude.jsonl");
  assert.match(
    largest,
    /^13,201 tokens: Sent with call 3: about \d+ % results of Read.* About \d+ % isn’t in the file\.$/,
  );
  assert.match(
    missed,
    /^13,001 tokens: They weren’t .* for a reason that isn’t in the file \(most for call 3\)\. They cost/,
  );
  const [, , ...uncounted] = await answersOf("uncounted.jsonl");
  const unknown = "not known: The file doesn’t say what was in the prompt cache.";
  assert.deepEqual(uncounted, [unknown, "none: The file has no compaction."]);
  const [, , hit] = await answersOf("unpriced.jsonl"); // its file is read four times, but never taken
  assert.equal(hit, "none: No call missed 2,000 tokens or more in the prompt cache.");
  const [, , , opened] = await answersOf("opened.jsonl");
  assert.equal(opened, "1: The file begins with a compaction. What that took isn’t in it.");
  const [, , again = "", compactions = ""] = await answersOf("reading.jsonl");
  const times =
    / Files were read again 1 time after a compaction had taken them \(about \d+ tokens, first for call 6\)/;
  assert.match(again, times);
  const amounts = compactions.match(/[\d,]+(?= tokens)|(?<=\()[\d,]+(?=\))/g) ?? [];
  const [all = 0, ...parts] = amounts.map((each) => Number(each.replace(",", "")));
  assert.ok(parts.length > 1 && parts.every((part) => part < all), compactions);
});

test("a call has its bar, its largest blocks, and the escaped text of one at a click", async () => {
  const page = await pageOf("reading.jsonl", { call: 4 });
  assert.ok(textsOf(page, "h2").includes("Call 4 of 6"));
  assert.match(page, /9,403 tokens · \$0\.007 · claude-opus-4-6/);
  assert.match(textsOf(page, "tr").join(), /^Read server\.ts\d+ %,.*request: Now the tests/);
  const block = await pageOf("reading.jsonl", { call: 4, block: 1 });
  assert.match(block, /<pre tabindex="0">See src\/lost\.ts, server\.ts and &#60;b&#62;this/);
  assert.match(block, /sent with calls 1 to 4/);
});

test("a compaction has both bars with their sizes, what it took out and what it put in", async () => {
  const page = await pageOf("reading.jsonl", { compaction: 1 });
  assert.ok(textsOf(page, "h2").includes("Compaction 1 of 1, before call 5"));
  assert.match(page, /summarized automatically<.*>before: about 10,003 tokens<.*>after: 9,003 tokens</s);
  assert.match(page, /<path fill="var\(--summary\)" opacity/);
  assert.match(textsOf(page, "h3").join(), /Taken out: about [\d,]+ tokens,Put in: about \d+ token/);
});

test("requests lead to their first call, with their calls and cost", async () => {
  const page = await pageOf("reading.jsonl");
  assert.match(page, /<a href="[^"]*call=3#chart">Now the tests\.<\/a><td>4 calls<td>\$0\.07\d<td>\d+ %</);
});

test("an address without a call, a compaction or a page says so", async () => {
  assert.match(await pageOf("reading.jsonl", { call: 9 }), /there is no call 9: the session has 6/);
  assert.match(await pageOf("reading.jsonl", { compaction: 2 }), /there is no compaction 2: the session has 1/);
  assert.match(await pages.open("other"), /there is no page \/other/);
});

test("a session that has grown shows its new calls when the page is loaded again", async () => {
  const file = write("growing.jsonl", transcript(2));
  const { open } = await serve(root, file);
  assert.match(await open(""), /of 2<\/h2>/);
  appendFileSync(file, transcript(3).slice(transcript(2).length));
  assert.match(await open(""), /of 3<\/h2>/);
});

test("in a long session calls share columns, and marks that would overlap are dots", async () => {
  const calls = Array.from({ length: 1_000 }, (_, i) => {
    const summarized = i % 50 === 49 ? [boundary({ trigger: "auto" }), continued(i)] : [];
    return [
      ...summarized,
      claude(i, user(`Request ${i}.`)),
      claude(i, billed(`m${i}`, [9_000, 10, 3, 10], text("Yes."))),
    ];
  });
  const { open } = await serve(root, write("long.jsonl", linesOf(...calls.flat())));
  const page = await open("?call=1000");
  assert.equal(page.match(/class="column"/g)?.length, 334);
  assert.equal(page.match(/<circle [^>]*r="5"/g)?.length, 20);
});
