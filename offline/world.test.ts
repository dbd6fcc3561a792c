// The scratch folder, and the demo in it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { contentBlocks } from "./api/said.ts";
import type { JournalEntry } from "./api/server.ts";
import { judge } from "./demo.ts";
import { isSummaryCall } from "./model.ts";
import { TSX } from "./start.ts";
import { fillScratch, LIBRARY, SCRATCH } from "./world.ts";

const folder = mkdtempSync(join(tmpdir(), "demo-"));
after(() => rmSync(folder, { recursive: true }));
const runner = fileURLToPath(new URL("run.ts", import.meta.url));
/** Runs npm run offline or demo, from another folder. */
const run = (args: string[], env = {}) =>
  promisify(execFile)(process.execPath, [...TSX, runner, ...args], { cwd: folder, env: { ...process.env, ...env } });

test("the scratch folder gets what differs, in one step, and keeps the rest", (t) => {
  fillScratch();
  const [mine, book, other] = ["docs/mine.txt", "library/book-01.txt", "library/book-02.txt"].map((path) =>
    join(SCRATCH, path),
  ) as [string, string, string];
  t.after(() => rmSync(mine));
  for (const file of [mine, book]) writeFileSync(file, "changed");
  const inodes = () => [mine, book, other].map((file) => statSync(file).ino);
  const before = inodes();
  fillScratch();
  const isSame = inodes().map((inode, i) => inode === before[i]);
  assert.deepEqual(isSame, [true, false, true], "another file takes the place of one that is being read");
  assert.deepEqual([readFileSync(mine, "utf8"), readFileSync(book, "utf8")], ["changed", LIBRARY[0]?.text]);
});

test("two agents can start at once", async () => {
  const often = `import { fillScratch } from "${new URL("world.ts", import.meta.url)}"; for (let i = 0; i < 20; i++) fillScratch();`;
  const fill = () => promisify(execFile)(process.execPath, [...TSX, "--input-type=module", "-e", often]);
  await Promise.all([fill(), fill()]);
});

test("CONTEXT_WINDOW is also the window of the local API, and has to be a number", async () => {
  const request = ["s05", "-y", "Which skills do you have?"];
  const failure = (window: string) => run(request, { CONTEXT_WINDOW: window }).catch((error) => error);
  const small = await failure("300");
  assert.match(small.stdout, /prompt is too long: \d+ tokens > 300 maximum/);
  assert.equal(small.code, 1);
  assert.equal((await failure("32k")).stderr, "CONTEXT_WINDOW needs a whole number such as 32000, not 32k\n");
});

test("the demo shows s05 running into the window and s06 going on, and fails if anything is lost", async () => {
  const file = join(folder, "journal.jsonl");
  const { stdout } = await run(["demo"], { OFFLINE_JOURNAL: file });
  const shown = stdout.trimEnd().split("\n");
  assert.match(shown.at(-2) ?? "", /^s05: \d+ files read, then: (prompt is too long|model_context_window_exceeded)$/);
  assert.equal(shown.at(-1), "s06: 64 files read, none of them twice, and 64 of 64 facts right");
  for (const layer of [1, 2, 3]) assert.match(stdout, new RegExp(`^layer ${layer}: \\[.*\\] × [1-9]$`, "m"));

  const entries = readFileSync(file, "utf8").trim().split("\n");
  const journalOf = (name: string): JournalEntry[] =>
    entries.map((line) => JSON.parse(line)).filter(({ lesson }) => lesson === name);
  const faultsAfter = (change: (s05: JournalEntry[], s06: JournalEntry[]) => unknown) => {
    const [s05, s06] = [journalOf("s05"), journalOf("s06")];
    change(s05, s06);
    return judge({ code: 1, journal: s05 }, { code: 0, journal: s06 }).faults;
  };
  const goOn = (s05: JournalEntry[]) => s05.pop();
  assert.deepEqual(faultsAfter(goOn), ["s05 didn't run into the window"]);
  const forget = (_: JournalEntry[], s06: JournalEntry[]) => {
    const answer = Object(s06.at(-1)?.reply?.at(-1));
    answer.text = answer.text.replace("book 7 is", "book 7 was");
  };
  assert.deepEqual(faultsAfter(forget), ["the answer lacks facts"]);
  const neverSummarize = (_: JournalEntry[], s06: JournalEntry[]) =>
    s06.splice(0, s06.length, ...s06.filter(({ request }) => !isSummaryCall(request)));
  assert.deepEqual(faultsAfter(neverSummarize), ["a layer didn't act"]);
  const readAgain = (_: JournalEntry[], s06: JournalEntry[]) => {
    const blocks = s06.flatMap(({ request }) => request.messages.flatMap(({ content }) => contentBlocks(content)));
    const read = blocks.find((block) => block.type === "tool_use" && block.name === "read_file");
    s06.at(-1)?.request.messages.push({ role: "assistant", content: [{ ...Object(read), id: "again" }] });
  };
  assert.deepEqual(faultsAfter(readAgain), ["a compaction lost what was in a file"]);
});
