/** Which session files are found, and what is said of those that can't be read. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { originalOf, sessionFiles, subagentsIn } from "./files.ts";
import { claude, linesOf, own, reply, said, text, user } from "./test-lines.ts";

const root = mkdtempSync(join(tmpdir(), "sessions-"));
after(() => rmSync(root, { recursive: true }));
let time = 1_000;
function put(file: string, content = linesOf(own(user(file)))): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), content);
  utimesSync(join(root, file), time, time++);
}
const found = (folder: string) => sessionFiles(join(root, folder)).map((file) => file.slice(root.length + 1));
const subagents = (folder: string) =>
  subagentsIn(join(root, folder)).map(({ file, parent }) => [file, parent].map((each) => each?.slice(root.length + 1)));

test("neither a locked folder nor a broken link hides other sessions; links are followed, and nothing is found twice", () => {
  put("home/shared/project/a.jsonl");
  put("home/projects/b.jsonl");
  mkdirSync(join(root, "home/projects/locked"), { mode: 0 });
  symlinkSync(join(root, "home/shared/project"), join(root, "home/projects/linked"));
  symlinkSync(join(root, "home/projects"), join(root, "home/projects/circle"));
  symlinkSync(join(root, "home/projects/b.jsonl"), join(root, "home/projects/again.jsonl"));
  symlinkSync("gone", join(root, "home/projects/gone.jsonl"));
  const files = found("home/projects").map((file) => file.replace("again", "b"));
  chmodSync(join(root, "home/projects/locked"), 0o700);
  assert.deepEqual(files.sort(), ["home/projects/b.jsonl", "home/projects/linked/a.jsonl"]);
});

test("subagents are left out and known by their session, but a folder or file that is only named like them stays", () => {
  const session = (more: object = {}) => linesOf(claude(0, said("m1", text("Done.")), more));
  for (const file of ["tasks/shop/one.jsonl", "subagents/two.jsonl", "blog/agent-notes.jsonl"])
    put(`p/${file}`, session());
  put("p/blog/three.jsonl", session());
  put("p/blog/three/subagents/agent-a.jsonl", session({ isSidechain: true }));
  put("p/blog/agent-b.jsonl", session({ isSidechain: true, sessionId: "three" }));
  put("p/blog/three/subagents/workflows/run-1/agent-c.jsonl", session({ isSidechain: true }));
  put("p/blog/three/subagents/workflows/run-1/journal.jsonl", session());
  put("p/tasks/.transcripts/transcript_100_7.jsonl");
  put("p/tasks/.transcripts/tasks/transcript_200_7.jsonl");
  const names = [
    "blog/agent-notes",
    "blog/three",
    "subagents/two",
    "tasks/.transcripts/transcript_100_7",
    "tasks/shop/one",
  ];
  assert.deepEqual(
    found("p").sort(),
    names.map((name) => `p/${name}.jsonl`),
  );
  assert.deepEqual(subagents("p").sort(), [
    ["p/blog/agent-b.jsonl", "p/blog/three.jsonl"],
    ["p/blog/three/subagents/agent-a.jsonl", "p/blog/three.jsonl"],
    ["p/blog/three/subagents/workflows/run-1/agent-c.jsonl", "p/blog/three.jsonl"],
    ["p/tasks/.transcripts/tasks/transcript_200_7.jsonl", "p/tasks/.transcripts/transcript_100_7.jsonl"],
  ]);
});

test("a session that begins with the lines of another continues it, but a subagent doesn't", () => {
  const said = (sessionId: string, more: object = {}) => claude(0, user("Look."), { sessionId, uuid: "u1", ...more });
  const snapshot = { type: "file-history-snapshot", messageId: "m" };
  put("f/one.jsonl", linesOf(snapshot, said("one")));
  put("f/two.jsonl", linesOf(snapshot, said("one"), said("two", { uuid: "u2" })));
  put("f/three.jsonl", linesOf(said("gone")));
  put("f/agent-a.jsonl", linesOf(said("one", { isSidechain: true })));
  put("f/transcript_1_7.jsonl", linesOf(own(user("Look."))));
  put("f/transcript_2_7.jsonl", linesOf(own(user("Another."))));
  put("f/transcript_3_7.jsonl", linesOf(own(user("Look.")), own(reply(text("Done.")))));
  const originalsOf = (...names: string[]) =>
    names.map((name) => originalOf(join(root, `f/${name}.jsonl`))?.slice(root.length + 3));
  assert.deepEqual(originalsOf("one", "two", "three", "agent-a"), [undefined, "one.jsonl", undefined, undefined]);
  assert.deepEqual(originalsOf("transcript_2_7", "transcript_3_7"), [undefined, "transcript_1_7.jsonl"]);
});

test("newlines and control characters of a path are visible", () => {
  const path = join(root, "a\nb\x1b[2J\u202egone");
  assert.throws(() => sessionFiles(path), /a\\nb�\[2J�gone does not exist/);
});
