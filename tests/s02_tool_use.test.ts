// The dispatch map, the file tools, and the fence around the workspace.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { beforeEach, test } from "node:test";
import type { TurnOptions } from "../agents/s02_tool_use.ts";
import { bash, call, say, use } from "../offline/api/said.ts";
import type { ReplyBlock } from "../offline/api/server.ts";
import { start } from "./program.ts";
import { useServer } from "./server.ts";
import { goOn, type Lesson, loop, onEach } from "./turn.ts";
import { emptyWorkspace, useWorkspace, writeFiles } from "./workspace.ts";

const folder = useWorkspace();
await useServer();
const s02 = await import("../agents/s02_tool_use.ts");

beforeEach(emptyWorkspace);
type Approve = TurnOptions["approve"];
const contentOf = (path: string) => fs.readFileSync(path, "utf8");

/** Makes these calls in one reply and returns their results. */
async function calling(lesson: Lesson, calls: ReplyBlock[], approve?: Approve) {
  const { error, results, messages } = await loop(lesson, [call(...calls), say("done")], approve && { approve });
  assert.equal(error, undefined);
  await goOn(lesson, messages);
  return results;
}

onEach("addTool", { s02 }, (lesson) => {
  const { TOOLS, TOOL_HANDLERS } = lesson;

  test("the model gets an input schema of each tool, and each tool has a handler", () => {
    const required = Object.fromEntries(TOOLS.map(({ name, input_schema }) => [name, input_schema.required]));
    assert.deepEqual(required, {
      bash: ["command"],
      read_file: ["path"],
      write_file: ["path", "content"],
      edit_file: ["path", "old_text", "new_text"],
    });
    assert.deepEqual(Object.keys(TOOL_HANDLERS), Object.keys(required));
  });

  test("input that doesn't fit the schema is an error that names each wrong field, and nothing runs", async () => {
    const wrong: [string, unknown, ...string[]][] = [
      ["bash", { command: ["touch", "f"] }, "command"],
      ["read_file", { path: null }, "path"],
      ["read_file", { path: "f", offset: 0, limit: 1.5 }, "offset", "limit"],
      ["write_file", { path: "f" }, "content"],
      ["edit_file", { path: "f", old_text: "" }, "old_text", "new_text"],
    ];
    const results = await calling(
      lesson,
      wrong.map(([name, input]) => use(name, input)),
    );
    for (const [i, [, , ...fields]] of wrong.entries()) {
      const words = fields.map((field) => `(?=.*${field})`).join("");
      assert.match(`${results[i]?.failed} ${results[i]?.text}`, new RegExp(`^true ${words}`, "s"));
    }
    assert.ok(!fs.existsSync("f"), "nothing was written");
  });
});

onEach("runTool", { s02 }, (lesson) => {
  const { TOOLS, TOOL_HANDLERS } = lesson;

  test("a new tool needs only a new entry: its call is shown and run, and the model is told what it throws", async (t) => {
    TOOLS.push({ name: "shout", description: "Shout.", input_schema: { type: "object" } });
    TOOL_HANDLERS.shout = (input: unknown) => {
      if (JSON.stringify(input) === "{}") throw new Error("shout what?");
      process.stdout.write("(now it runs)");
      return JSON.stringify(input).toUpperCase();
    };
    t.after(() => {
      TOOLS.pop();
      delete TOOL_HANDLERS.shout;
    });
    const { results, printed } = await loop(lesson, [
      call(use("shout", { a: "b\u202e" }), use("shout", {})),
      say("done"),
    ]);
    assert.match(printed, /shout.*b�.*\(now it runs\)/s, "a character that reverses the text is shown as �");
    const [shouted, failed] = results.map(({ text, failed }) => `${failed} ${text}`);
    assert.equal(shouted, 'false {"A":"B\u202e"}');
    assert.match(failed ?? "", /^true .*shout what\?/s);
  });

  test("a tool that the turn doesn't have is an error that lists those it has", async () => {
    const tools = TOOLS.filter(({ name }) => name !== "bash");
    const { results } = await loop(lesson, [bash("true"), say("done")], { tools });
    assert.match(`${results[0]?.failed} ${results[0]?.text}`, /^true (?=.*bash)(?=.*read_file).*edit_file/s);
  });
});

onEach("safePath", { s02 }, ({ safePath }) => {
  test("safePath allows paths inside the workspace, including new ones and links", () => {
    fs.mkdirSync("src");
    fs.symlinkSync("src", "link");
    fs.symlinkSync(folder, "self");
    for (const [path, real] of Object.entries({
      "./src/../a.txt": "a.txt",
      "new/deep/a.txt": "new/deep/a.txt",
      [join(folder, "a.txt")]: "a.txt",
      "link/a.txt": "src/a.txt",
      "self/self/link/new/a.txt": "src/new/a.txt",
      "..name": "..name",
      "...": "...",
      "名 前/a.txt": "名 前/a.txt",
    })) {
      assert.equal(safePath(path), join(folder, real));
    }
  });

  test("safePath refuses paths that lead out of the workspace, including new ones and links", () => {
    const sibling = `${folder}-beside`; // its name begins with the workspace's name
    writeFiles(sibling, { secret: "secret" });
    fs.mkdirSync("sub");
    fs.symlinkSync(sibling, "link");
    fs.symlinkSync("link", "link-to-link");
    fs.symlinkSync(`../${basename(sibling)}`, "relative-link");
    fs.symlinkSync(join(sibling, "secret"), "file-link");
    fs.symlinkSync(join(sibling, "fresh"), "dangling-link");
    fs.symlinkSync(tmpdir(), "sub/up");
    for (const path of [
      "..",
      "/etc/passwd",
      `../${basename(sibling)}/secret`,
      `sub/../../${basename(sibling)}/secret`,
      `new/../../${basename(sibling)}/fresh`,
      join(sibling, "secret"),
      join(sibling, "fresh"),
      "link/secret",
      "link/new/fresh",
      "link-to-link/secret",
      "relative-link/secret",
      "file-link",
      "dangling-link",
      `sub/up/${basename(sibling)}/secret`,
    ]) {
      assert.throws(() => safePath(path), new RegExp(basename(path)));
    }
  });
});

onEach("runRead", { s02 }, ({ runRead }) => {
  test("read_file returns a file, or some of its lines and the offset at which to continue", async () => {
    fs.writeFileSync("f", "1\n2\n3\n4\n5\n");
    assert.equal(await runRead("f"), "1\n2\n3\n4\n5");
    assert.equal(await runRead("f", 4), "4\n5");
    assert.equal(await runRead("f", 4, 2), "4\n5");
    assert.match(await runRead("f", 1, 2), /^1\n2\n(?!3\n)(?=.*\b3\b)/s, "line 3 is next");
    assert.match(await runRead("f", 2, 2), /^2\n3\n(?!4\n)(?=.*\b4\b)/s, "line 4 is next");
    await assert.rejects(async () => runRead("f", 6), /\b5\b/);
    fs.writeFileSync("blank", "1\n\n\n");
    assert.match(await runRead("blank"), /^1\n\n/, "blank lines at the end count");
    fs.writeFileSync("marked", "\ufeffa");
    assert.equal(await runRead("marked"), "\ufeffa", "a BOM stays");
    fs.writeFileSync("empty", "");
    assert.equal(await runRead("empty"), "(empty)");
  });

  test("read_file returns 1,000 lines unless asked for more", async () => {
    fs.writeFileSync("f", Array.from({ length: 1_200 }, (_, i) => `line ${i + 1}\n`).join(""));
    const text = await runRead("f");
    assert.match(text, /^line 1\n.*\nline 1000\n(?!line)(?=.*\b1,?001\b)/s);
    assert.match(await runRead("f", 1_001), /^line 1001\n(?:.|\n)*\nline 1200$/);
    assert.match(await runRead("f", 1, 1_200), /\nline 1200$/);
  });

  test("read_file returns as many lines as fit into a result, so a long file can be read step by step", async () => {
    const lines = Array.from({ length: 900 }, (_, i) => `line ${i + 1} ${"x".repeat(100)}`);
    fs.writeFileSync("f", `${lines.join("\n")}\n`);
    const read: string[] = [];
    while (read.length < lines.length) {
      const text = await runRead("f", read.length + 1);
      const part = text.split("\n").filter((line) => line.startsWith("line "));
      assert.ok(part.length > 0 && text.length <= 50_000, `${part.length} lines, ${text.length} characters`);
      read.push(...part);
      const next = new RegExp(`\\b${read.length + 1}\\b`);
      if (read.length < lines.length) assert.match(text.split("\n").at(-1) ?? "", next, "the offset of the next line");
    }
    assert.deepEqual(read, lines);
    fs.writeFileSync("f", "x".repeat(60_000));
    await assert.rejects(async () => runRead("f"), /(?=.*\bf\b).*bash/s, "one line that doesn't fit");
  });

  test("read_file says what is wrong with a missing file, a folder, a binary file or one above 10 MB", async () => {
    await assert.rejects(async () => runRead("missing"), /missing/);
    execFileSync("mkfifo", ["pipe"]);
    fs.mkdirSync("sub");
    for (const path of ["sub", "pipe"]) await assert.rejects(async () => runRead(path), new RegExp(path));
    await assert.rejects(async () => runRead("/etc/passwd"), /passwd/);
    fs.writeFileSync("large", "1\n");
    fs.truncateSync("large", 10_000_001);
    await assert.rejects(async () => runRead("large", 1, 1), /(?=.*large)(?=.*\b10).*bash/s);
    for (const bytes of [Buffer.from(`${"a".repeat(10_000)}\0`), Buffer.from("caf\xe9", "latin1")]) {
      fs.writeFileSync("blob", bytes);
      await assert.rejects(async () => runRead("blob"), /(?=.*blob).*bash/s);
    }
  });
});

onEach("runWrite", { s02 }, ({ runWrite }) => {
  test("write_file creates missing folders, replaces the whole file, and refuses a folder without leaving anything behind", () => {
    assert.match(runWrite("a/b/c.txt", "中文"), /\b6\b.*a\/b\/c\.txt/, "the bytes, and the file");
    assert.equal(contentOf("a/b/c.txt"), "中文");
    runWrite("a/b/c.txt", "");
    assert.equal(contentOf("a/b/c.txt"), "");
    for (const path of ["a/b", "."])
      assert.throws(
        () => runWrite(path, "x"),
        ({ message }: Error) => message.includes(path) && !message.includes(folder),
        `an error that names ${path} as it was given`,
      );
    assert.deepEqual([fs.readdirSync("a"), fs.readdirSync("a/b")], [["b"], ["c.txt"]]);
  });

  test("a write replaces the file at once, keeps its mode, and leaves nothing else behind", () => {
    fs.writeFileSync("f", "the old content");
    fs.chmodSync("f", 0o775); // most umasks would remove some of these bits
    fs.linkSync("f", "other"); // keeps the old content if f is replaced by a rename
    runWrite("f", "new");
    assert.deepEqual([contentOf("f"), contentOf("other")], ["new", "the old content"]);
    assert.equal(fs.statSync("f").mode & 0o777, 0o775);
    assert.deepEqual(fs.readdirSync("."), ["f", "other"]);
  });

  test("a write that fails leaves no temporary file behind, and the old file as it was", async (t) => {
    const write = call(use("write_file", { path: "a.txt", content: "x".repeat(5_000) }));
    const shell = (agent: string) => `ulimit -f 1; ${agent}`; // a file may have 1,024 bytes
    const run = await start(t, "s02_tool_use", ["-y", "go"], {
      files: { "a.txt": "old" },
      replies: [write, say("done")],
      shell,
    });
    assert.equal(await run.ended, 0);
    assert.match(run.screen(), /EFBIG/, "the write failed");
    assert.deepEqual(fs.readdirSync(run.cwd), ["a.txt"]);
    assert.equal(contentOf(join(run.cwd, "a.txt")), "old");
  });
});

onEach("runEdit", { s02 }, (lesson) => {
  const { runEdit } = lesson;

  test("edit_file needs the old text exactly once, and says whether it is missing or occurs more than once", () => {
    fs.writeFileSync("f", "x = 1;\nx = 1;\ny = 2;\n");
    assert.throws(() => runEdit("f", "x = 1;", "y"), /more than once in f\b/);
    assert.throws(() => runEdit("f", "X = 1;", "y"), /not occur in f\b/);
    fs.writeFileSync("overlap", "}\n}\n}\n");
    assert.throws(() => runEdit("overlap", "}\n}\n", "}\n"), /more than once/);
    assert.equal(contentOf("f"), "x = 1;\nx = 1;\ny = 2;\n");
    runEdit("f", "1;\ny = 2", "1;\ny = 3");
    assert.equal(contentOf("f"), "x = 1;\nx = 1;\ny = 3;\n");
  });

  /** Returns what is left of a text after an edit. */
  function afterEdit(text: string, old: string, by: string): string {
    fs.writeFileSync("f", text);
    runEdit("f", old, by);
    return contentOf("f");
  }

  test("edit_file takes both texts literally, including blanks at their ends", () => {
    const signs = "$& $1 $$ $` $' \\1 .*+?^()[]{}|";
    assert.equal(afterEdit("a (.*) b", "(.*)", signs), `a ${signs} b`);
    assert.equal(afterEdit(`a ${signs} b`, signs, "$&"), "a $& b");
    assert.equal(afterEdit("a b", " b", "\n"), "a\n");
  });

  test("edit_file keeps the line ends of a CRLF file, and those of all other lines if the line ends are mixed", () => {
    assert.equal(afterEdit("a\r\nb\r\nc\r\n", "a\nb", "a\nnew\nb"), "a\r\nnew\r\nb\r\nc\r\n");
    assert.equal(afterEdit("a\r\nb\r\nc\r\n", "b\r\nc", "c"), "a\r\nc\r\n");
    assert.equal(afterEdit("a\r\nb\r\n", "b", "one\ntwo"), "a\r\none\r\ntwo\r\n", "one line becomes two");
    assert.equal(afterEdit("a\r\nb\nc\r\nd\n", "c", "see"), "a\r\nb\nsee\r\nd\n");
    assert.equal(afterEdit("a\r\nb\nc\r\nd\n", "b\n", "bee\n"), "a\r\nbee\nc\r\nd\n");
  });

  test("write_file and edit_file show the change and ask; after a no the file stays unchanged, and the model is told", async () => {
    fs.writeFileSync("f", "old text");
    const questions: string[] = [];
    const no: Approve = async (question) => {
      questions.push(question);
      throw new Error("the user said no: not there");
    };
    const edit = use("edit_file", { path: "f", old_text: "old", new_text: "first\nsecond" });
    const write = use("write_file", { path: "new", content: "some\ncontent" });
    const results = await calling(lesson, [edit, write, use("read_file", { path: "f" })], no);
    assert.equal(questions.length, 2, "reading needs no question");
    assert.match(questions[0] ?? "", /^- old\n\+ first\n\+ second\n.*\bf\b/);
    assert.match(questions[1] ?? "", /^some\ncontent\n.*\/new\b/);
    for (const { text, failed } of results.slice(0, 2)) {
      assert.match(`${failed} ${text}`, /^true .*the user said no: not there/s);
    }
    assert.deepEqual([contentOf("f"), fs.readdirSync(".").includes("new")], ["old text", false]);
  });

  test("write_file and edit_file ask about the real path of the file, even behind a link", async () => {
    fs.mkdirSync("real");
    fs.symlinkSync("real", "link");
    fs.writeFileSync("real/g", "old");
    fs.symlinkSync("real/g", "file-link");
    const asked: string[] = [];
    const approve: Approve = async (question) => void asked.push(question);
    for (const [path, real] of Object.entries({ "link/f": "real/f", "file-link": "real/g", "~/f": "~/f" })) {
      const write = use("write_file", { path, content: "new" });
      const edit = use("edit_file", { path, old_text: "new", new_text: "newer" });
      const results = await calling(lesson, [write, edit], approve);
      assert.equal(contentOf(real), "newer");
      const named = [...asked.splice(0), ...results.map(({ text }) => text)];
      assert.equal(named.length, 4, "two questions and two results");
      for (const text of named) assert.ok(text.includes(join(folder, real)), text);
    }
  });

  test("an edit or a write that can't be made is an error, and nobody is asked", async () => {
    fs.writeFileSync("f", "text");
    fs.writeFileSync("../f", "text");
    const edit = (path: string, old_text: string) => use("edit_file", { path, old_text, new_text: "x" });
    const calls = [edit("f", "none"), edit("../f", "text"), use("write_file", { path: "../f", content: "x" })];
    const results = await calling(lesson, calls, async () => assert.fail("nobody should be asked"));
    for (const [i, reason] of [/occur in f\b/, /\.\.\/f is outside/, /\.\.\/f is outside/].entries())
      assert.match(`${results[i]?.failed} ${results[i]?.text}`, new RegExp(`^true .*${reason.source}`, "s"));
    assert.equal(contentOf("../f"), "text");
  });
});
