// Skills: what a SKILL.md may look like, what of it is in the system prompt, and what comes when the model asks for it.

import assert from "node:assert/strict";
import fs, { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { before, beforeEach, describe } from "node:test";
import { fileURLToPath } from "node:url";
import type Anthropic from "@anthropic-ai/sdk";
import { type Reply, scripted } from "../offline/server.ts";
import { carryOver, enterWorkspace, goTo, LESSON, server, start, test, underTest } from "./harness.ts";
import { call as round, say, use } from "./replies.ts";

/** Writes `<skills>/<name>/SKILL.md`. @returns its path */
function write(skills: string, name: string, text: string | Uint8Array): string {
  const file = join(skills, name, "SKILL.md");
  mkdirSync(join(skills, name), { recursive: true });
  writeFileSync(file, text);
  return file;
}
const skillText = (name: string, description: string, body: string) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}`;

// The workspace's skills must be there before the lesson is imported, which builds the system prompt.
const folder = enterWorkspace();
const SKILLS = join(folder, "skills");
write(SKILLS, "pdf", skillText("pdf", "Work with PDF files.", "# PDF\n\nUse pdftotext.\n"));
write(SKILLS, "weather", skillText("weather", "Tell the weather.", "Look out of the window.\n"));
const BROKEN = write(SKILLS, "broken", "Just a text without a head.\n");

const s05 = await underTest<typeof import("../agents/s05_skill_loading.ts")>();
s05.approval.always = true;

const load = (name: unknown) => round(use("load_skill", { name }));
const done = say("Done.");

const resultsIn = (messages: Anthropic.MessageParam[]) =>
  messages
    .flatMap(({ content }) => (typeof content === "string" ? [] : content))
    .filter((block) => block.type === "tool_result");

/** One request of the person's, answered by these replies. @returns the results of its calls */
async function ask(...replies: Reply[]) {
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "go on" }];
  server.model = scripted(...replies);
  assert.equal(await s05.agentLoop(messages), "done");
  assert.deepEqual(
    server.journal.flatMap(({ error }) => error ?? []),
    [],
  );
  return resultsIn(messages);
}

/** A loader for a new folder that holds these skills, by the name of their folder. */
function loaderFor(texts: Record<string, string | Uint8Array>) {
  const skills = mkdtempSync(join(folder, "skills-"));
  for (const [name, text] of Object.entries(texts)) write(skills, name, text);
  return { skills, loader: new s05.SkillLoader(skills) };
}
/** The one skill of a folder as the loader reads it. */
function read(text: string) {
  const { loader } = loaderFor({ one: text });
  assert.deepEqual(loader.warnings, []);
  const [name = ""] = loader.skills.keys();
  return { description: loader.descriptions(), content: loader.content(name) };
}

describe(`what s05 teaches, in ${LESSON}`, () => {
  before(() => goTo(folder));

  beforeEach(() => {
    server.journal.length = 0;
  });

  describe("a SKILL.md", () => {
    test("is a head of YAML between lines of --- and a body, which alone is loaded", () => {
      const { description, content } = read(
        "---\nname: one\ndescription: What it is for.\ntags: [a, b]\n---\n\n# One\n\nDo it.\n",
      );
      assert.equal(description, "- one: What it is for.");
      assert.equal(content, '<skill name="one">\n# One\n\nDo it.\n</skill>');
    });

    test("is called by the name in its head, not by its folder", () => {
      const { loader } = loaderFor({ folder: skillText("other", "d", "b") });
      assert.equal(loader.descriptions(), "- other: d");
      assert.throws(() => loader.content("folder"));
    });

    for (const [kind, sign] of Object.entries({ literal: "|", folded: ">", "literal, stripped": "|-" })) {
      test(`may have a description over several lines as a ${kind} block, which takes one line in the prompt`, () => {
        const { description } = read(
          `---\nname: one\ndescription: ${sign}\n  First line: with a colon,\n\n  second line.\n---\nbody`,
        );
        assert.equal(description.trim(), "- one: First line: with a colon, second line.");
      });
    }

    test("may have quotes, colons, comments and Chinese in its head", () => {
      const { description } = read(
        '---\n# a comment\nname: "one"\ndescription: \'处理 PDF: "fast" # really\'\n---\nbody',
      );
      assert.equal(description, '- one: 处理 PDF: "fast" # really');
    });

    test("may have CRLF line ends", () => {
      const { description, content } = read(
        "---\r\nname: one\r\ndescription: |\r\n  First\r\n  second.\r\ntags:\r\n  - a\r\n---\r\n# One\r\n\r\nDo it.\r\n",
      );
      assert.equal(description.trim(), "- one: First second.");
      assert.match(content, /^<skill name="one">\r?\n# One\r?\n\r?\nDo it\.\r?\n<\/skill>$/);
    });

    test("may begin with a byte order mark", () => {
      const { description, content } = read(`\ufeff${skillText("one", "d", "body")}`);
      assert.equal(description, "- one: d");
      assert.equal(content, '<skill name="one">\nbody\n</skill>');
    });

    test("may have lines of --- in its body, which begin no second head", () => {
      const body = "above\n\n---\n\nname: two\ndescription: no\n---\nbelow";
      const { description, content } = read(skillText("one", "d", body));
      assert.equal(description, "- one: d");
      assert.equal(content, `<skill name="one">\n${body}\n</skill>`);
    });

    test("may have --- within a line of its head and within a block scalar", () => {
      const { description, content } = read("---\nname: one\ndescription: |\n  a --- b\n  ---\n  c\n---\nbody");
      assert.equal(description.trim(), "- one: a --- b --- c");
      assert.equal(content, '<skill name="one">\nbody\n</skill>');
    });

    test("may have blanks after the line that ends its head", () => {
      assert.equal(read("---\nname: one\ndescription: d\n--- \t\nbody").content, '<skill name="one">\nbody\n</skill>');
    });

    test("may have a head of which the YAML parser has doubts, which nobody is told", (t) => {
      const warning = t.mock.method(process, "emitWarning", () => {});
      assert.equal(read("---\nname: one\ndescription: !unknown d\n---\nbody").description, "- one: d");
      assert.equal(warning.mock.callCount(), 0);
    });

    test("may end with its head", () => {
      assert.match(read("---\nname: one\ndescription: d\n---").content, /^<skill name="one">\s*<\/skill>$/);
    });

    test("may have one tag in place of a list, or other fields beside it", () => {
      assert.equal(
        read("---\nname: one\ndescription: d\ntags: a\nlicense: MIT\nversion: 2\n---\nbody").description,
        "- one: d",
      );
    });

    test("may have 200 KB in one line", () => {
      const { content } = read(skillText("one", "d", "x".repeat(200_000)));
      assert.equal(content.length, 200_000 + '<skill name="one">\n\n</skill>'.length);
    });
  });

  describe("a broken SKILL.md is left out with a warning that names file and reason", () => {
    const BROKEN_TEXTS: [string, string | Uint8Array, RegExp][] = [
      ["without a head", "# Only a body\n", /frontmatter|---/],
      ["that is empty", "", /frontmatter|---/],
      ["whose head is not closed", "---\nname: one\ndescription: d\n\nbody\n", /frontmatter|---/],
      ["whose head ends in a line that goes on", "---\nname: one\ndescription: d\n---more\nbody\n", /frontmatter|---/],
      ["whose head comes after other text", `Hello.\n${skillText("one", "d", "b")}`, /frontmatter|---/],
      ["whose YAML is wrong", "---\nname: one\ndescription: [unclosed\n---\nbody", /flow|line|\]/i],
      ["whose YAML has one key twice", "---\nname: one\nname: two\ndescription: d\n---\nbody", /unique|duplicate/i],
      ["without a name", "---\ndescription: d\n---\nbody", /the frontmatter does not fit.*name/],
      ["without a description", "---\nname: one\n---\nbody", /description/],
      ["with an empty description", '---\nname: one\ndescription: ""\n---\nbody', /must not be empty.*description/],
      ["with a blank description", '---\nname: one\ndescription: "  "\n---\nbody', /must not be empty.*description/],
      ["with a list as its description", "---\nname: one\ndescription: [a, b]\n---\nbody", /description/],
      ["with a number as its name", "---\nname: 7\ndescription: d\n---\nbody", /name/],
      [
        "with a name that breaks out of the tag",
        "---\nname: 'a\"><b'\ndescription: d\n---\nbody",
        /letters, digits.*name/,
      ],
      ["whose head is a list", "---\n- name\n- description\n---\nbody", /object|frontmatter/],
      ["whose head is a text", "---\njust text\n---\nbody", /object|frontmatter/],
      ["that is binary", Uint8Array.from([0x2d, 0x2d, 0x2d, 0x0a, 0, 255, 254, 0, 1]), /frontmatter|---/],
    ];
    for (const [what, text, reason] of BROKEN_TEXTS) {
      test(`one ${what}; the others are loaded`, () => {
        const { skills, loader } = loaderFor({
          a: skillText("first", "d", "b"),
          m: text,
          z: skillText("last", "d", "b"),
        });
        assert.deepEqual([...loader.skills.keys()], ["first", "last"]);
        const [warning = "", ...more] = loader.warnings;
        assert.deepEqual(more, []);
        const named = warning.indexOf(join(skills, "m", "SKILL.md"));
        assert.ok(named >= 0, warning);
        assert.match(warning.slice(named).replace(join(skills, "m", "SKILL.md"), ""), reason);
      });
    }

    test("one that is a folder or a link", () => {
      const { skills } = loaderFor({ real: skillText("real", "d", "b") });
      mkdirSync(join(skills, "odd", "SKILL.md"), { recursive: true });
      mkdirSync(join(skills, "linked"));
      symlinkSync(join(skills, "real", "SKILL.md"), join(skills, "linked", "SKILL.md"));
      const { skills: found, warnings } = new s05.SkillLoader(skills);
      assert.deepEqual([...found.keys()], ["real"]);
      assert.match(warnings.join("\n"), /linked.SKILL\.md: .*no regular file.*\n.*odd.SKILL\.md: .*no regular file/);
    });

    test("one of more than 10 MB, with its size; one of just 10 MB is read", () => {
      const text = skillText("large", "d", "").padEnd(10_000_000, "x");
      const { loader } = loaderFor({ large: text, larger: `${text}x` });
      assert.deepEqual([...loader.skills.keys()], ["large"]);
      assert.match(loader.warnings.join("\n"), /larger.SKILL\.md: .*10000001 bytes, more than 10000000/);
    });

    test("one with a name that another has; the other stays", () => {
      const { loader } = loaderFor({ a: skillText("same", "the first", "1"), b: skillText("same", "the second", "2") });
      assert.equal(loader.descriptions(), "- same: the first");
      assert.match(loader.content("same"), /1/);
      assert.equal(loader.warnings.length, 1);
      assert.match(loader.warnings[0] ?? "", /b.SKILL\.md.*same/);
    });

    test("on stderr, when the lesson runs", async () => {
      server.model = scripted(done);
      const { code, stdout, stderr } = await start(LESSON, ["go"]).ended;
      assert.equal(code, 0);
      assert.doesNotMatch(stdout, /broken/);
      assert.ok(stderr.includes(BROKEN), stderr);
      assert.match(stderr, /frontmatter|---/);
      assert.equal(stderr.trim().split("\n").length, 1);
    });
  });

  describe("a folder of skills", () => {
    test("need not be there", () => {
      const loader = new s05.SkillLoader(join(folder, "nowhere"));
      assert.equal(loader.skills.size, 0);
      assert.deepEqual(loader.warnings, []);
      assert.equal(loader.descriptions(), "(none)");
      assert.throws(() => loader.content("pdf"), /no skill pdf; there are: none/);
    });

    test("may hold other files, and folders without a SKILL.md", () => {
      const { skills } = loaderFor({ one: skillText("one", "d", "b") });
      writeFileSync(join(skills, "README.md"), "no skill");
      mkdirSync(join(skills, "notes"));
      const loader = new s05.SkillLoader(skills);
      assert.deepEqual([...loader.skills.keys()], ["one"]);
      assert.deepEqual(loader.warnings, []);
    });

    test("may be a file, which holds no skills", () => {
      const file = join(folder, "skills.txt");
      writeFileSync(file, "none");
      assert.equal(new s05.SkillLoader(file).skills.size, 0);
    });

    test("is listed in the same order, whatever order the system lists its folders in", (t) => {
      const texts = { c: skillText("c", "third", ""), a: skillText("a", "first", ""), b: skillText("b", "second", "") };
      t.mock.method(fs, "readdirSync", () => Object.keys(texts)); // Node itself sorts names, other runtimes do not
      syncBuiltinESMExports();
      t.after(() => {
        t.mock.restoreAll();
        syncBuiltinESMExports();
      });
      assert.equal(loaderFor(texts).loader.descriptions(), "- a: first\n- b: second\n- c: third");
    });
  });

  describe("layer 1, the system prompt", () => {
    test("names each skill with its description, and holds no body", () => {
      assert.match(s05.SYSTEM, /^- pdf: Work with PDF files\.\n- weather: Tell the weather\.$/m);
      assert.match(s05.SYSTEM, /load it with load_skill before you begin/);
      assert.doesNotMatch(s05.SYSTEM, /pdftotext|window|broken/);
    });

    test("is built once: what happens in the folder later changes neither it nor the tools", async () => {
      const file = write(SKILLS, "late", skillText("late", "Comes too late.", "body"));
      await ask(round(use("bash", { command: "ls skills" })), load("pdf"), done);
      rmSync(file);
      const prefixes = server.journal.map(({ request }) => JSON.stringify([request.system, request.tools]));
      assert.equal(new Set(prefixes).size, 1);
      assert.equal(server.journal[0]?.request.system, s05.SYSTEM);
      assert.doesNotMatch(prefixes[0] ?? "", /too late/);
    });
  });

  describe("layer 2, load_skill", () => {
    test("is a tool that says what it loads, and by what", () => {
      const description = s05.TOOLS.find(({ name }) => name === "load_skill")?.description ?? "";
      assert.match(description, /instructions of a skill by its name/);
    });

    test("gives the body in a skill tag", async () => {
      const [result] = await ask(load("pdf"), done);
      assert.equal(result?.content, '<skill name="pdf">\n# PDF\n\nUse pdftotext.\n</skill>');
      assert.equal(result?.is_error ?? false, false);
    });

    test("reads the body from disk each time", async () => {
      const file = write(SKILLS, "weather", skillText("weather", "Tell the weather.", "Ask the radio.\n"));
      const [first] = await ask(load("weather"), done);
      assert.equal(first?.content, '<skill name="weather">\nAsk the radio.\n</skill>');
      writeFileSync(file, skillText("weather", "Tell the weather.", "Look out of the window.\n"));
      const [second] = await ask(load("weather"), done);
      assert.equal(second?.content, '<skill name="weather">\nLook out of the window.\n</skill>');
    });

    const UNKNOWN = ["psd", "", "PDF", "../pdf", "pdf/SKILL.md", "broken", "constructor", "__proto__", "has", "pdf\n"];
    test("answers an unknown name with an error that lists the skills that exist", async () => {
      const results = await ask(...UNKNOWN.map(load), done);
      assert.equal(results.length, UNKNOWN.length);
      for (const [i, { is_error, content }] of results.entries()) {
        assert.equal(is_error, true, UNKNOWN[i]);
        assert.match(String(content), /\bpdf, weather\b/);
      }
    });

    test("answers input that does not fit with an error that says so", async () => {
      const inputs = [{}, { skill: "pdf" }, { name: 7 }, { name: ["pdf"] }, { name: null }];
      const results = await ask(...inputs.map((input) => round(use("load_skill", input))), done);
      for (const { is_error, content } of results) {
        assert.equal(is_error, true);
        assert.match(String(content), /load_skill.*name/s);
      }
    });

    test("answers with an error when the file has gone or been broken since, and the turn goes on", async () => {
      const text = readFileSync(join(SKILLS, "pdf", "SKILL.md"));
      writeFileSync(join(SKILLS, "pdf", "SKILL.md"), "broken now");
      const [broken] = await ask(load("pdf"), done);
      rmSync(join(SKILLS, "pdf", "SKILL.md"));
      const [gone] = await ask(load("pdf"), done);
      write(SKILLS, "pdf", text);
      for (const result of [broken, gone]) assert.equal(result?.is_error, true);
      assert.match(String(broken?.content), /frontmatter|---/);
      assert.match(String(gone?.content), /ENOENT|no such file/);
      const [again] = await ask(load("pdf"), done);
      assert.equal(again?.is_error ?? false, false);
    });

    test("is bounded like any result", async () => {
      const file = write(SKILLS, "weather", skillText("weather", "Tell the weather.", "雨".repeat(200_000)));
      const [result] = await ask(load("weather"), done);
      writeFileSync(file, skillText("weather", "Tell the weather.", "Look out of the window.\n"));
      assert.ok(String(result?.content).length <= 50_000);
      assert.match(String(result?.content), /^<skill name="weather">.*cut.*<\/skill>$/s);
    });

    test("can be used by a subagent, too", async () => {
      const [result] = await ask(round(use("task", { prompt: "use the skill" })), load("pdf"), say("read it"), done);
      assert.equal(result?.content, "read it");
      const child = server.journal[2]?.request;
      assert.match(String(resultsIn(child?.messages ?? [])[0]?.content), /pdftotext/);
    });
  });

  describe("the skills of this project", () => {
    const shipped = fileURLToPath(new URL("../skills/", import.meta.url));

    test("are all sound, and code-review is among them", () => {
      const loader = new s05.SkillLoader(shipped);
      assert.deepEqual(loader.warnings, []);
      assert.ok(loader.skills.has("code-review"));
      assert.equal(loader.skills.size, readdirSync(shipped).length);
      assert.ok(loader.skills.size >= 2);
      for (const name of loader.skills.keys()) assert.ok(loader.content(name).length > 500, name);
    });

    test("have folders of their own names and descriptions that say when to use them", () => {
      const loader = new s05.SkillLoader(shipped);
      assert.deepEqual([...loader.skills.keys()].sort(), readdirSync(shipped).sort());
      for (const line of loader.descriptions().split("\n")) assert.match(line, /^- [\w-]+: .*\buse when\b/i);
    });
  });

  test("a description with broken characters does not spoil every request", async () => {
    const { description } = read('---\nname: one\ndescription: "bad \\uD800 x"\n---\nbody');
    assert.equal(description, "- one: bad \ufffd x");
  });

  test("a warning about a skill cannot drive the terminal", async () => {
    const file = write(SKILLS, "evil", "---\nname: [\u001b]0;PWNED\u0007\n---\n");
    server.model = scripted(say("hello"));
    const { stderr } = await start(LESSON, ["hi"]).ended;
    rmSync(join(file, ".."), { recursive: true });
    assert.match(stderr, /evil.SKILL\.md/);
    assert.doesNotMatch(stderr, /[\u0007\u001b]/);
  });
});

await carryOver("s04_subagent");
