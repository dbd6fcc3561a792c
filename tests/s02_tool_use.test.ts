import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { after, afterEach, before, beforeEach, describe } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import { type ReplyBlock, scripted } from "../offline/server.ts";
import { watching } from "./disk.ts";
import {
  carryOver,
  enterWorkspace,
  FILE,
  filesIn,
  goTo,
  LESSON,
  server,
  TSX,
  test,
  underTest,
  until,
} from "./harness.ts";
import { say, use, user } from "./replies.ts";

const folder = enterWorkspace();
const s02 = await underTest<typeof import("../agents/s02_tool_use.ts")>();
const { runEdit, runRead, runWrite, safePath, TOOL_HANDLERS, TOOLS } = s02;

/** A sibling of the workspace whose name merely begins the same. */
const outside = `${folder}-evil`;
mkdirSync(outside);
after(() => rmSync(outside, { recursive: true, force: true }));

describe(`what s02 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  beforeEach(() => {
    s02.approval.always = true;
    writeFileSync(join(outside, "secret"), "secret");
  });
  afterEach(() => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
  });

  const contentOf = (path: string | URL) => readFileSync(path, "utf8");
  const resultsIn = (messages: Anthropic.MessageParam[]) =>
    messages
      .flatMap(({ content }) => (typeof content === "string" ? [] : content))
      .filter((block) => block.type === "tool_result")
      .map((result) => ({ text: String(result.content), failed: result.is_error === true }));

  /** Has the model make these calls in one reply. Nothing that is sent may be rejected, also not afterwards. */
  async function calling(...calls: ReplyBlock[]) {
    server.model = scripted({ content: calls }, say("done"), say("still here"));
    const before = server.journal.length;
    const messages = [user("go")];
    assert.equal(await s02.agentLoop(messages), "done");
    messages.push(user("and now?"));
    assert.equal(await s02.agentLoop(messages), "done");
    const sent = server.journal.slice(before);
    assert.deepEqual(
      sent.map((entry) => entry.error),
      [undefined, undefined, undefined],
    );
    const results = resultsIn(messages);
    assert.equal(results.length, calls.length);
    return { results, sent };
  }

  /** The result of one call. */
  async function resultOf(name: string, input: unknown) {
    const [result] = (await calling(use(name, input))).results;
    assert.ok(result, "there is none");
    return result;
  }

  // Dispatch.

  test("the model is given the four tools, each with the schema of its input", async () => {
    const { sent } = await calling(use("bash", { command: "true" }));
    const tools = sent[0]?.request.tools ?? [];
    const schemas = tools.map((tool) =>
      "input_schema" in tool && "name" in tool ? [tool.name, tool.input_schema] : [],
    );
    const string = { type: "string" };
    const fields = (properties: object, required: string[]) => ({ type: "object", properties, required });
    const line = { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
    assert.deepEqual(Object.fromEntries(schemas), {
      bash: fields({ command: string }, ["command"]),
      read_file: fields({ path: string, offset: line, limit: line }, ["path"]),
      write_file: fields({ path: string, content: string }, ["path", "content"]),
      edit_file: fields({ path: string, old_text: string, new_text: string }, ["path", "old_text", "new_text"]),
    });
    for (const tool of TOOLS) assert.ok(tool.description, "there is none");
  });

  test("the system prompt names the workspace, and says that files are for the file tools", () => {
    assert.ok(s02.SYSTEM.includes(folder), s02.SYSTEM);
    assert.match(s02.SYSTEM, /file tools for files/);
  });

  test("each tool has a handler, and each handler a tool", () => {
    assert.deepEqual(
      Object.keys(TOOL_HANDLERS),
      TOOLS.map((tool) => tool.name),
    );
  });

  test("calls of different tools in one reply see each other's effects, in their order", async () => {
    const { results } = await calling(
      use("write_file", { path: "src/a.txt", content: "one\n" }),
      use("edit_file", { path: "src/a.txt", old_text: "one", new_text: "two" }),
      use("bash", { command: "cat src/a.txt; echo three >> src/a.txt" }),
      use("read_file", { path: "src/a.txt" }),
    );
    assert.deepEqual(
      results.map((result) => result.failed),
      [false, false, false, false],
    );
    assert.equal(results[2]?.text, "two");
    assert.equal(results[3]?.text, "two\nthree");
  });

  test("a new tool is a new entry: the loop runs it without a change", async (t) => {
    TOOLS.push({ name: "shout", description: "Shout.", input_schema: { type: "object" } });
    TOOL_HANDLERS.shout = async (input) => JSON.stringify(input).toUpperCase();
    t.after(() => {
      TOOLS.pop();
      delete TOOL_HANDLERS.shout;
    });
    assert.deepEqual(await resultOf("shout", { a: "b" }), { text: '{"A":"B"}', failed: false });
  });

  test("whatever a handler throws, the model is told and the loop goes on", async (t) => {
    const original = TOOL_HANDLERS.bash;
    assert.ok(original, "there is none");
    t.after(() => {
      TOOL_HANDLERS.bash = original;
    });
    for (const thrown of [new Error("it broke"), "it broke"]) {
      TOOL_HANDLERS.bash = () => Promise.reject(thrown);
      assert.deepEqual(await resultOf("bash", { command: "true" }), { text: "it broke", failed: true });
    }
  });

  test("an unknown tool is an error that names the tools there are", async () => {
    const names = ["write", "constructor", "__proto__", "toString", "hasOwnProperty"];
    const { results } = await calling(...names.map((name) => use(name, { path: "a", content: "b" })));
    for (const [i, name] of names.entries()) {
      assert.equal(results[i]?.failed, true);
      assert.match(results[i].text, new RegExp(`${name}\\b.* bash, read_file, write_file, edit_file\\b`));
    }
  });

  test("an input that does not fit is an error that names tool and field, and nothing runs", async () => {
    const wrong: [string, unknown, string][] = [
      ["bash", {}, "command"],
      ["bash", { command: ["touch", "ran"] }, "command"],
      ["read_file", {}, "path"],
      ["read_file", { path: null }, "path"],
      ["read_file", { path: "f", offset: 0 }, "offset"],
      ["read_file", { path: "f", offset: "2" }, "offset"],
      ["read_file", { path: "f", limit: -1 }, "limit"],
      ["read_file", { path: "f", limit: 1.5 }, "limit"],
      ["read_file", { path: "f", limit: 1e300 }, "limit"],
      ["write_file", { path: "ran" }, "content"],
      ["write_file", { path: "ran", content: { a: 1 } }, "content"],
      ["write_file", { path: ["ran"], content: "x" }, "path"],
      ["edit_file", { path: "f", old_text: "a" }, "new_text"],
      ["edit_file", { path: "f", new_text: "a" }, "old_text"],
    ];
    writeFileSync("f", "a\nb\nc\n");
    const { results } = await calling(...wrong.map(([name, input]) => use(name, input)));
    for (const [i, [name, , field]] of wrong.entries()) {
      assert.ok(results[i]?.failed, `${i}`);
      assert.match(results[i].text, new RegExp(`${name}.*${field}`, "s"));
    }
    assert.deepEqual(filesIn(folder), ["f"]);
    assert.equal(contentOf("f"), "a\nb\nc\n");
  });

  test("only bash asks the person; file tools stay in the workspace and do not", async () => {
    s02.approval.always = false;
    const { results } = await calling(
      use("write_file", { path: "a", content: "x" }),
      use("bash", { command: "touch b" }),
      use("read_file", { path: "a" }),
    );
    assert.deepEqual(
      results.map((result) => result.failed),
      [false, true, false],
    );
    assert.deepEqual(filesIn(folder), ["a"]);
  });

  test("a file of 200 KB on one line reaches the model cut to 50,000 characters", async () => {
    writeFileSync("long", `BEGIN${"中".repeat(200_000)}END`);
    const { text, failed } = await resultOf("read_file", { path: "long" });
    assert.equal(!failed && text.length <= 50_000 && text.startsWith("BEGIN中") && text.endsWith("中END"), true);
    assert.match(text, /200008/);
  });

  // The fence.

  test("paths inside the workspace are allowed, also those that do not exist yet", () => {
    mkdirSync("src");
    symlinkSync("src", "lib");
    symlinkSync(folder, "self");
    const paths: [string, string][] = [
      ["a.txt", "a.txt"],
      ["./src/../a.txt", "a.txt"],
      ["new/deep/er/a.txt", "new/deep/er/a.txt"],
      [join(folder, "src", "a.txt"), "src/a.txt"],
      ["lib/a.txt", "src/a.txt"],
      ["self/self/lib/new/a.txt", "src/new/a.txt"],
      ["..a.txt", "..a.txt"],
      ["...", "..."],
      ["名 前/a.txt", "名 前/a.txt"],
      [".", ""],
    ];
    for (const [path, real] of paths) assert.equal(safePath(path), join(folder, real), path);
  });

  /** Every way out that a path may try. Each leads to `secret` in the sibling folder, or to where `fresh` would be. */
  function waysOut(): string[] {
    mkdirSync("sub");
    symlinkSync(outside, "folder-link");
    symlinkSync(join(outside, "secret"), "file-link");
    symlinkSync(relative(folder, outside), "relative-link");
    symlinkSync("folder-link", "link-to-link");
    symlinkSync(join(outside, "fresh"), "dangling-link");
    symlinkSync(join(outside, "fresh-folder"), "dangling-folder");
    symlinkSync(dirname(folder), "sub/up");
    const sibling = relative(dirname(folder), outside);
    return [
      `../${sibling}/secret`,
      `sub/../../${sibling}/secret`,
      `./sub/.././../${sibling}/fresh`,
      join(outside, "secret"),
      join(outside, "fresh"),
      "folder-link/secret",
      "folder-link/fresh",
      "folder-link/new/fresh",
      "file-link",
      "relative-link/secret",
      "link-to-link/secret",
      "dangling-link",
      "dangling-folder/fresh",
      `sub/up/${sibling}/secret`,
      `new/../../${sibling}/fresh`,
    ];
  }

  test("whatever ends outside the workspace is refused, whichever way it gets there", () => {
    for (const path of waysOut()) assert.throws(() => safePath(path), path);
    for (const path of ["..", "../", "/", "/etc/passwd", "../..", `${folder}/..`, outside])
      assert.throws(() => safePath(path), /outside/, path);
  });

  test("no file tool reads or writes outside", async () => {
    const paths = waysOut();
    const { results } = await calling(
      ...paths.map((path) => use("read_file", { path })),
      ...paths.map((path) => use("write_file", { path, content: "owned" })),
      ...paths.map((path) => use("edit_file", { path, old_text: "secret", new_text: "owned" })),
    );
    for (const result of results) {
      assert.equal(result.failed, true);
      assert.notEqual(result.text, "secret");
    }
    assert.deepEqual(readdirSync(outside), ["secret"]);
    assert.equal(contentOf(join(outside, "secret")), "secret");
  });

  test("a path with a NUL, a link to itself and a file in the place of a folder are errors", async () => {
    symlinkSync("loop", "loop");
    writeFileSync("file", "x");
    const { results } = await calling(
      use("read_file", { path: "a\0b" }),
      use("write_file", { path: "loop", content: "x" }),
      use("write_file", { path: "file/below", content: "x" }),
      use("read_file", { path: "file/below" }),
    );
    assert.equal(
      results.every((result) => result.failed),
      true,
    );
    assert.equal(contentOf("file"), "x");
  });

  // read_file.

  test("a file is read whole, or from a line on, or so many lines of it, and says how many remain", () => {
    writeFileSync("f", "1\n2\n3\n4\n5\n");
    assert.equal(runRead("f"), "1\n2\n3\n4\n5");
    assert.equal(runRead("f", 4), "4\n5");
    assert.match(runRead("f", 2, 2), /^2\n3\n.*\b2 more lines.*offset 4/);
    assert.match(runRead("f", 3, 2), /^3\n4\n.*\b1 more lines.*offset 5/);
    assert.equal(runRead("f", 4, 2), "4\n5");
    assert.equal(runRead("f", 1, 99), "1\n2\n3\n4\n5");
    writeFileSync("f", "1\n\n中文");
    assert.equal(runRead("f"), "1\n\n中文");
    assert.match(runRead("f", 1, 1), /^1\n.*2 more lines/);
  });

  test("an offset past the end is an error that says how long the file is", () => {
    writeFileSync("f", "1\n2\n");
    assert.throws(() => runRead("f", 3), /\b3\b.*\b2\b/);
  });

  test("an empty file is told from a missing one", () => {
    writeFileSync("empty", "");
    assert.match(runRead("empty"), /empty/);
    assert.throws(() => runRead("missing"), /missing.*not exist/);
  });

  test("a folder and binary files are refused with a clear error", () => {
    mkdirSync("src");
    assert.throws(() => runRead("src"), /src.*folder/);
    for (const bytes of [Buffer.from("a\0b"), Buffer.from([0xff, 0xfe, 0x41]), Buffer.from("caf\xe9", "latin1")]) {
      writeFileSync("blob", bytes);
      assert.throws(() => runRead("blob"), /blob.*binary/);
    }
  });

  test("a named pipe is refused and not waited for", async (t) => {
    await s02.runBash("mkfifo pipe");
    const writer = spawn("bash", ["-c", "echo data > pipe"], { stdio: "ignore" });
    t.after(() => writer.kill());
    assert.throws(() => runRead("pipe"), /pipe/);
  });

  test("a file that becomes a pipe between the check and the reading is refused, too", async () => {
    writeFileSync("f", "text");
    const swap = (what: string) => {
      if (what !== "openSync f") return;
      rmSync("f");
      assert.equal(spawnSync("mkfifo", ["f"]).status, 0);
    };
    await watching({ stage: swap }, () =>
      assert.throws(() => runRead("f"), /read_file: f is no regular file any more/),
    );
  });

  test("CRLF, a byte order mark and characters of several bytes are read as they are", () => {
    writeFileSync("f", "\ufeff一\r\n😀\r\n");
    assert.equal(runRead("f", 1, 1).split("\n")[0], "\ufeff一\r");
    assert.match(runRead("f"), /^\ufeff一\r\n😀/);
  });

  // write_file.

  test("write_file creates the folders it needs and reports bytes, not characters", () => {
    assert.match(runWrite("a/b/c.txt", "中文"), /\b6 bytes\b.*a\/b\/c\.txt/);
    assert.equal(contentOf("a/b/c.txt"), "中文");
  });

  test("write_file replaces the whole file, and an empty content is a content", () => {
    runWrite("f", "long content");
    runWrite("f", "short");
    assert.equal(contentOf("f"), "short");
    assert.match(runWrite("f", ""), /\b0 bytes/);
    assert.equal(contentOf("f"), "");
  });

  test("a file keeps its mode when it is written or edited; a new one has the usual mode", () => {
    for (const mode of [0o755, 0o600, 0o664]) {
      writeFileSync("f", "a");
      chmodSync("f", mode);
      runWrite("f", "b");
      assert.equal(statSync("f").mode & 0o777, mode);
      runEdit("f", "b", "c");
      assert.equal(statSync("f").mode & 0o777, mode);
    }
    runWrite("new", "x");
    writeFileSync("usual", "x");
    assert.equal(statSync("new").mode, statSync("usual").mode);
  });

  test("writing through a link changes the file behind it and leaves the link", () => {
    mkdirSync("real");
    writeFileSync("real/f", "old");
    symlinkSync("real/f", "link");
    runWrite("link", "new");
    runEdit("link", "new", "newer");
    assert.equal(lstatSync("link").isSymbolicLink(), true);
    assert.equal(readlinkSync("link"), "real/f");
    assert.equal(contentOf("real/f"), "newer");
  });

  test("the old content is never written over: whoever has the file open still reads it whole", (t) => {
    writeFileSync("f", "the old content");
    linkSync("f", "other");
    const open = openSync("f", "r");
    t.after(() => closeSync(open));
    runWrite("f", "new");
    runEdit("f", "new", "newer");
    assert.equal(readFileSync(open, "utf8"), "the old content");
    assert.equal(contentOf("other"), "the old content");
  });

  test("a write that fails leaves the old file and nothing else", () => {
    mkdirSync("src/inner", { recursive: true });
    assert.throws(() => runWrite("src", "x"), /src.*folder/);
    assert.throws(() => runWrite(`src/${"n".repeat(300)}`, "x"));
    assert.deepEqual(readdirSync("src"), ["inner"]);
    assert.deepEqual(filesIn(folder), ["src"]);
  });

  test("when the disk is full, a write fails and leaves the old file and nothing else", async () => {
    writeFileSync("f", "old");
    await watching({ room: () => 10 }, () => assert.throws(() => runWrite("f", "much more than fits"), /ENOSPC/));
    assert.equal(contentOf("f"), "old");
    assert.deepEqual(filesIn(folder), ["f"]);
  });

  test("no file stays open, whether reading and writing go well or not", async () => {
    /** The lowest number that no open file has. */
    const free = () => {
      const file = openSync(".", "r");
      closeSync(file);
      return file;
    };
    const before = free();
    runWrite("f", "x");
    runEdit("f", "x", "y");
    runRead("f");
    await watching({ room: () => 0 }, () => assert.throws(() => runWrite("f", "x"), /ENOSPC/));
    assert.equal(free(), before);
  });

  test("after a write only the file is there", () => {
    runWrite("src/f", "x");
    runEdit("src/f", "x", "y");
    assert.deepEqual(readdirSync("src"), ["f"]);
  });

  test("killed at any moment, a writer leaves the old file or the new one", async (t) => {
    const [a, b] = ["a", "b"].map((letter) => letter.repeat(2_000_000));
    const script = `import { runWrite } from ${JSON.stringify(FILE)};
    for (let i = 0; ; i++) { runWrite("f", (i % 2 ? "a" : "b").repeat(2_000_000)); if (i === 3) runWrite("up", ""); }`;
    writeFileSync("writer.mjs", script);
    const child = spawn(process.execPath, ["--import", TSX, "writer.mjs"], { stdio: "ignore" });
    t.after(() => child.kill("SIGKILL"));
    await until(() => existsSync("up"));
    for (let i = 0; i < 50; i++) assert.ok([a, b].includes(contentOf("f")), "a reader sees a whole file");
    const ended = new Promise((resolve) => child.on("close", resolve));
    child.kill("SIGKILL");
    await ended;
    assert.equal([a, b].includes(contentOf("f")), true);
  });

  // edit_file.

  test("edit_file replaces the one place and says what it edited", () => {
    writeFileSync("f", "one\ntwo\nthree\n");
    assert.match(runEdit("f", "two\nth", "2\nth"), /f/);
    assert.equal(contentOf("f"), "one\n2\nthree\n");
    runEdit("f", "2\n", "");
    assert.equal(contentOf("f"), "one\nthree\n");
  });

  test("old_text that occurs more often, or not at all, is an error that says so and changes nothing", () => {
    writeFileSync("f", "x = 1;\nx = 1;\nx = 1;\n");
    assert.throws(() => runEdit("f", "x = 1;", "y"), /3 times.*f/);
    assert.throws(() => runEdit("f", "z", "y"), /does not occur.*f/);
    assert.throws(() => runEdit("f", "X = 1;", "y"), /does not occur/);
    assert.throws(() => runEdit("f", "", "y"), /empty/);
    assert.equal(contentOf("f"), "x = 1;\nx = 1;\nx = 1;\n");
  });

  test("places that overlap are counted each: none of them is meant for certain", () => {
    writeFileSync("f", "}\n}\n}\n");
    assert.throws(() => runEdit("f", "}\n}", "}"), /2 times/);
    assert.equal(contentOf("f"), "}\n}\n}\n");
    writeFileSync("f", "aaa");
    assert.throws(() => runEdit("f", "aa", "b"), /2 times/);
  });

  test("both texts are literal", () => {
    const signs = "$& $1 $$ $` $' \\1 .*+?^()[]{}|";
    writeFileSync("f", "a (.*) b");
    runEdit("f", "(.*)", signs);
    assert.equal(contentOf("f"), `a ${signs} b`);
    runEdit("f", signs, "$&");
    assert.equal(contentOf("f"), "a $& b");
  });

  test("line ends and a byte order mark outlive an edit", () => {
    writeFileSync("f", "\ufeffone\r\ntwo\r\n");
    runEdit("f", "two", "2");
    assert.equal(contentOf("f"), "\ufeffone\r\n2\r\n");
  });

  test("a missing file, a folder and a binary file cannot be edited, and stay as they are", () => {
    mkdirSync("src");
    const bytes = Buffer.from([0x61, 0xff, 0x62]);
    writeFileSync("blob", bytes);
    assert.throws(() => runEdit("missing", "a", "b"), /missing.*not exist/);
    assert.throws(() => runEdit("src", "a", "b"), /src.*folder/);
    assert.throws(() => runEdit("blob", "a", "b"), /blob.*binary/);
    assert.deepEqual(readFileSync("blob"), bytes);
    assert.deepEqual(filesIn(folder), ["blob", "src"]);
  });

  test("a file of more than 10 MB is refused with its size, not read", () => {
    writeFileSync("big", "");
    truncateSync("big", 10_000_001);
    assert.throws(() => runRead("big", 1, 5), /read_file: big has 10000001 bytes.*bash/);
    assert.throws(() => runEdit("big", "a", "b"), /edit_file: big has 10000001 bytes/);
    writeFileSync("big", "x".repeat(10_000_000));
    assert.equal(runRead("big").length, 10_000_000);
  });

  test("in a file whose lines end in CRLF, an edit with plain line ends fits and keeps them", () => {
    writeFileSync("f", "a\r\nb\r\nc\r\n");
    runEdit("f", "a\nb", "a\nnew\nb");
    assert.equal(contentOf("f"), "a\r\nnew\r\nb\r\nc\r\n");
    runEdit("f", "new\r\n", "");
    assert.equal(contentOf("f"), "a\r\nb\r\nc\r\n");
  });

  test("a file of one line without an end has no line ends to keep", () => {
    writeFileSync("f", "ab");
    runEdit("f", "b", "\nb\n");
    assert.equal(contentOf("f"), "a\nb\n");
  });

  test("in a file with both kinds of line end, an edit is literal", () => {
    writeFileSync("f", "a\r\nb\nc\n");
    assert.throws(() => runEdit("f", "a\nb", "x"), /does not occur/);
    runEdit("f", "b\nc", "b\nd");
    assert.equal(contentOf("f"), "a\r\nb\nd\n");
  });

  test("a write does not put a file in the place of a pipe", () => {
    assert.equal(spawnSync("mkfifo", ["pipe"]).status, 0);
    assert.throws(() => runWrite("pipe", "x"), /write_file: pipe is .* device/);
    assert.equal(lstatSync("pipe").isFIFO(), true);
  });

  test("a write-protected file is not replaced", () => {
    runWrite("f", "older");
    runWrite("f", "old");
    chmodSync("f", 0o444);
    chmodSync(".", 0o777); // so that only the file's own protection is in the way
    const script = `import { runWrite } from ${JSON.stringify(FILE)};
    if (process.getuid() === 0) process.setuid(65534); // root may write everywhere
    try { runWrite("f", "new"); } catch (error) { console.log(error.message); }`;
    writeFileSync("writer.mjs", script);
    const { stdout } = spawnSync(process.execPath, ["--import", TSX, "writer.mjs"], { encoding: "utf8" });
    assert.match(stdout, /EACCES.* access 'f'/);
    assert.equal(contentOf("f"), "old");
  });
});

await carryOver("s01_agent_loop", {
  "the only tool is bash, in plain JSON Schema": "there are file tools, and zod writes the schemas",
});
