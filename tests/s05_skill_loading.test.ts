// Skills: one line each in the system prompt, and the body when the model asks for it.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { bash, call, folder, goOn, onEach, resultsIn, say, start, step, test as testOf, turn, use } from "./harness.ts";

/** Writes `<skills>/<name>/SKILL.md`. @returns its path */
function write(skills: string, name: string, text: string | Uint8Array): string {
  mkdirSync(join(skills, name), { recursive: true });
  writeFileSync(join(skills, name, "SKILL.md"), text);
  return join(skills, name, "SKILL.md");
}
const skillText = (name: string, description: string, body: string) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}`;

// The lessons read the skills of the workspace when they are imported.
const SKILLS = join(folder, "skills");
const PDF = write(SKILLS, "pdf", skillText("pdf", "Work with PDF files.", "# PDF\n\nUse pdftotext.\n"));
write(SKILLS, "weather", skillText("weather", "Tell the weather.", "Look out of the window.\n"));
write(SKILLS, "broken", "Just a text.\n");
const OUTSIDE = mkdtempSync(`${folder}-`);
after(() => rmSync(OUTSIDE, { recursive: true }));
writeFileSync(join(OUTSIDE, "SKILL.md"), skillText("outside", "From elsewhere.", "body"));
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

const load = (name: unknown) => call(use("load_skill", { name }));
const done = say("Done.");

onEach({ s05, s06 }, (lesson, test) => {
  /** A loader for a folder with these skills. */
  function loaderFor(texts: Record<string, string | Uint8Array>) {
    const skills = mkdtempSync(join(folder, "skills-"));
    for (const [name, text] of Object.entries(texts)) write(skills, name, text);
    return new lesson.SkillLoader(skills);
  }
  /** The description and the body of the one skill of a folder. */
  function read(text: string) {
    const loader = loaderFor({ folder: text });
    assert.deepEqual(loader.warnings, []);
    return [loader.descriptions().replace(/^[-*\s]*one[-:\s]*/, ""), loader.content("one")];
  }
  const tagged = (body: string) => `<skill name="one">\n${body}\n</skill>`;

  step("SkillLoader.content");
  for (const [what, text, description, body] of [
    [
      "has a head of YAML and a body",
      skillText("one", "What for.", "\n# One\n\nDo it.\n"),
      "What for.",
      "# One\n\nDo it.",
    ],
    ["may have CRLF line ends", "---\r\nname: one\r\ndescription: d\r\n---\r\n# One\r\n", "d", "# One"],
    ["may begin with a byte order mark", `\ufeff${skillText("one", "d", "body")}`, "d", "body"],
    [
      "may have --- in its body",
      skillText("one", "d", "a\n\n---\n\nname: two\n---\nb"),
      "d",
      "a\n\n---\n\nname: two\n---\nb",
    ],
    ["may have --- inside a line of its head", skillText("one", "a --- b", "body"), "a --- b", "body"],
    [
      "may have blanks after its head, and other fields in it",
      "---\nname: one\ntags: [a]\ndescription: d\n--- \nbody",
      "d",
      "body",
    ],
    [
      "may describe itself in several lines",
      skillText("one", "|\n  One: first,\n\n  then.", "body"),
      "One: first, then.",
      "body",
    ],
    ["may quote, and be Chinese", skillText("'one'", "'处理 PDF: \"fast\"'", "正文"), '处理 PDF: "fast"', "正文"],
    [
      "may describe itself in 1,024 characters",
      skillText("one", "x".repeat(1_024), "long ".repeat(50)),
      "x".repeat(1_024),
      "long ".repeat(50).trim(),
    ],
    [
      "may have half a character in its description, which the API would reject",
      skillText("one", '"half: \\ud83d"', "body"),
      "half: \ufffd",
      "body",
    ],
    ["may have no body", "---\nname: one\ndescription: d\n---", "d", ""],
  ] satisfies [string, string, string, string][]) {
    test(`a SKILL.md ${what}`, () => {
      assert.deepEqual(read(text), [description, tagged(body)]);
    });
  }

  step("readSkill");
  for (const [what, text, reason] of [
    ["without a head", "# Only a body\n", /./],
    ["that is empty", "", /./],
    ["whose head is not closed", "---\nname: one\ndescription: d\n", /./],
    ["whose YAML is wrong", "---\nname: one\ndescription: [unclosed\n---\nbody", /./],
    ["without a name", "---\ndescription: d\n---\nbody", /name/],
    ["with a name that breaks out of the tag", skillText("'a\"><b'", "d", "body"), /name/],
    ["with a name of more than 64 characters", skillText("x".repeat(65), "d", "body"), /name/],
    ["with a blank description", skillText("one", "' '", "body"), /description/],
    ["with a very long head", `---\nname: one\ndescription: d\nlist:\n${"- a\n".repeat(3_000)}---\nbody`, /10,000/],
    ["that is binary", Uint8Array.from([0, 255, 254, 0, 1]), /./],
    ["with a description of more than 1,024 characters", skillText("one", "x".repeat(1_025), "body"), /description/],
  ] satisfies [string, string | Uint8Array, RegExp][]) {
    test(`a SKILL.md ${what} is left out with a warning that names file and reason; the others stay`, () => {
      const skill = (name: string) => skillText(name, "d", "body");
      const { skills, warnings } = loaderFor({ a: skill("first"), m: text, z: skill("last") });
      assert.deepEqual([...skills.keys()], ["first", "last"]);
      assert.equal(warnings.length, 1);
      const [, why = ""] = warnings[0]?.split("/m/SKILL.md") ?? []; // or else it does not name the file
      assert.match(why, reason);
    });
  }

  /** A folder of skills with one that is sound, and one at m/SKILL.md that is made by a command. */
  async function loaderWith(command: string) {
    const skills = mkdtempSync(join(folder, "skills-"));
    write(skills, "a", skillText("first", "d", "body"));
    await lesson.runBash(`mkdir ${skills}/m; cd ${skills}/m; ${command}`, new AbortController().signal);
    const { skills: found, warnings } = new lesson.SkillLoader(skills);
    assert.deepEqual([...found.keys()], ["first"]);
    assert.equal(warnings.length, 1, "warnings");
    return warnings[0] ?? "";
  }

  test("a SKILL.md that is a pipe is left out with a warning, and nothing waits for it", async () => {
    assert.match(await loaderWith("mkfifo SKILL.md"), /\/m\/SKILL\.md/);
  });

  for (const [what, command] of Object.entries({
    "its file": `ln -s ${OUTSIDE}/SKILL.md SKILL.md`,
    "its folder": `cd ..; rmdir m; ln -s ${OUTSIDE} m`,
  })) {
    test(`a skill is left out with a warning when ${what} is a link that leads out of the workspace`, async () => {
      assert.match(await loaderWith(command), /\/m\/SKILL\.md/);
    });
  }

  step("SkillLoader.descriptions");
  test("skills whose descriptions would make the prompt long are left out with a warning; shorter ones still fit", () => {
    const long = (name: string) => skillText(name, "x".repeat(999), "body");
    const many = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`a${i + 10}`, long(`a${i + 10}`)]));
    const loader = loaderFor({ ...many, z: skillText("short", "d", "body") });
    assert.equal(loader.warnings.length, 6);
    assert.match(loader.warnings[0] ?? "", /a29.*20000 characters/);
    assert.ok(loader.skills.has("short"));
    assert.ok(loader.descriptions().length <= 20_000);
  });

  step("readSkill");
  test("of two skills of one name the first stays, and the other is left out with a warning", () => {
    const first = skillText("same", "The first.", "1");
    const { skills, warnings } = loaderFor({ a: first, b: skillText("same", "The second.", "2") });
    assert.deepEqual([[...skills.keys()], skills.get("same")?.description], [["same"], "The first."]);
    assert.match(warnings.join("\n"), /\/b\/SKILL\.md.*same/);
  });

  step("SkillLoader.descriptions");
  test("a folder of skills may be a file, or a link to itself", () => {
    writeFileSync(join(folder, "file"), "no folder");
    symlinkSync("loop", join(folder, "loop"));
    for (const name of ["file", "loop"]) {
      const loader = new lesson.SkillLoader(join(folder, name));
      assert.deepEqual([typeof loader.descriptions(), loader.warnings], ["string", []]);
    }
    rmSync(join(folder, "loop"));
  });

  test("a folder of skills need not be there, and may hold other things", () => {
    const none = new lesson.SkillLoader(join(folder, "nowhere"));
    assert.deepEqual([typeof none.descriptions(), none.warnings], ["string", []]);
    const skills = mkdtempSync(join(folder, "skills-"));
    writeFileSync(join(skills, "README.md"), "no skill");
    mkdirSync(join(skills, "notes"));
    const other = new lesson.SkillLoader(skills);
    assert.deepEqual([other.skills.size, other.warnings], [0, []]);
  });

  test("the system prompt has the name and description of each skill, and no body", () => {
    assert.match(lesson.SYSTEM, /^.*pdf.*Work with PDF files\.\n.*weather.*Tell the weather\.$/m);
    assert.doesNotMatch(lesson.SYSTEM, /pdftotext|window|broken/);
  });

  step("SkillLoader.content");
  test("system prompt and tools stay the same whatever happens in the folder", async () => {
    const late = write(SKILLS, "late", skillText("late", "Comes late.", "body"));
    const { sent, results } = await turn(lesson, [bash("ls skills"), load("pdf"), done]);
    rmSync(join(late, ".."), { recursive: true });
    assert.match(results.map(({ text }) => text).join("\n"), /late(.|\n)*pdftotext/);
    assert.match(lesson.SYSTEM, /pdf/);
    assert.ok(lesson.TOOLS.some(({ name }) => name === "load_skill"));
    const prefixes = sent.map(({ system, tools }) => JSON.stringify([system, tools]));
    const first = JSON.stringify([lesson.SYSTEM, lesson.TOOLS]);
    assert.deepEqual(prefixes, Array(3).fill(first));
    assert.doesNotMatch(lesson.SYSTEM, /late/);
  });

  test("load_skill returns the body as it is on disk now, and an error when it is gone or broken", async (t) => {
    const text = readFileSync(PDF);
    t.after(() => write(SKILLS, "pdf", text));
    const change = (command: string) => call(use("bash", { command }), use("load_skill", { name: "pdf" }));
    const replies = [
      load("pdf"),
      change(`sed -i.bak s/pdftotext/mutool/ ${PDF}`),
      change(`echo > ${PDF}`),
      change(`rm ${PDF}`),
    ];
    const { results, messages } = await turn(lesson, [...replies, done]);
    const [asItWas, changed, broken, gone] = results.filter((_, i) => i % 2 === 0); // the others are of bash
    assert.equal(asItWas?.text, '<skill name="pdf">\n# PDF\n\nUse pdftotext.\n</skill>');
    assert.match(changed?.text ?? "", /Use mutool\./);
    assert.deepEqual([broken?.failed, gone?.failed], [true, true]);
    await goOn(lesson, messages);
  });

  test("a name that is unknown or no text is an error; the first lists the skills that exist", async () => {
    const names = ["psd", "PDF", "../pdf", "broken", "constructor", 7];
    const { results } = await turn(lesson, [call(...names.map((name) => use("load_skill", { name }))), done]);
    assert.ok(results.every(({ failed }) => failed));
    for (const { text } of results.slice(0, -1)) assert.match(text, /pdf, weather/);
    assert.match(results.at(-1)?.text ?? "", /load_skill.*name/s);
  });

  test("a subagent can load skills, too", async () => {
    const task = call(use("task", { prompt: "use the skill" }));
    const { results, sent } = await turn(lesson, [task, load("pdf"), say("read it"), done]);
    assert.equal(results[0]?.text, "read it");
    assert.match(resultsIn(sent[2]?.messages ?? [])[0]?.text ?? "", /pdftotext/);
  });
});

step("program");
testOf("the user sees the names of the skills when the program starts", async (t) => {
  const files = { "skills/a/SKILL.md": skillText("one", "d", "body"), "skills/b/SKILL.md": skillText("two", "d", "") };
  const run = await start(t, "s05_skill_loading", ["go"], { files, replies: [done] });
  assert.equal(await run.ended, 0);
  assert.match(run.screen(), /^\[skills: one, two\]\n/);
});

testOf("a `skills` that is a file does not keep the program from starting", async (t) => {
  const run = await start(t, "s05_skill_loading", ["go"], { files: { skills: "my skills" }, replies: [done] });
  assert.equal(await run.ended, 0, run.screen());
});

testOf("the user sees the warning about a skill that is left out, and it cannot drive the terminal", async (t) => {
  const run = await start(t, "s05_skill_loading", ["go"], {
    files: { "skills/evil/SKILL.md": "---\nname: [\u001b]0;owned\u0007\n---\n" },
    replies: [done],
  });
  assert.equal(await run.ended, 0);
  assert.match(run.screen(), /evil\/SKILL\.md/);
  assert.doesNotMatch(run.screen(), /[\u0007\u001b]/);
});

testOf("what yaml warns of in a SKILL.md does not reach the terminal as it is", async (t) => {
  const run = await start(t, "s05_skill_loading", ["go"], {
    files: { "skills/evil/SKILL.md": "---\nname: evil\ndescription: !<\u001b]52;c;b3duZWQ=\u0007> text\n---\nbody" },
    replies: [done],
  });
  assert.equal(await run.ended, 0);
  assert.match(run.screen(), /\[skills: evil\]/);
  assert.doesNotMatch(run.screen(), /[\u0007\u001b]/);
});

step("readSkill");
testOf("the skills of this project are all sound, and are called like their folders", () => {
  const shipped = fileURLToPath(new URL("../skills/", import.meta.url));
  const copy = mkdtempSync(join(folder, "shipped-"));
  cpSync(shipped, copy, { recursive: true });
  const { skills, warnings } = new s05.SkillLoader(copy);
  assert.deepEqual([[...skills.keys()].sort(), warnings], [readdirSync(shipped).sort(), []]);
});
