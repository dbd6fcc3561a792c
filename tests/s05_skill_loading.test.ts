// Skills cost one line each in the system prompt. The model gets a body when it asks for it.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { call, say, use } from "../offline/api/said.ts";
import { start } from "./program.ts";
import { useServer } from "./server.ts";
import { goOn, onEach, resultsIn, turn } from "./turn.ts";
import { useWorkspace, writeFiles } from "./workspace.ts";

const folder = useWorkspace();
await useServer();

const skillText = (name: string, description: string, body = "body") =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}`;
/** Makes a folder of skills in the workspace, each text in a folder of its own. Returns its path. */
function folderOf(texts: Record<string, string | Uint8Array>, skills = join(folder, `skills-${folders++}`)): string {
  mkdirSync(skills);
  for (const [name, text] of Object.entries(texts)) writeFiles(skills, { [`${name}/SKILL.md`]: text });
  return skills;
}
let folders = 0;

const PDF_TEXT = skillText("pdf", "Work with PDF files.", "# PDF\n\nUse pdftotext.\n");
const WEATHER = skillText("weather", "Tell the weather.", "Look out of the window.\n");
const SKILLS = folderOf({ pdf: PDF_TEXT, weather: WEATHER, broken: "Just a text.\n" }, join(folder, "skills"));
const PDF = join(SKILLS, "pdf/SKILL.md");
// Importing a lesson loads the skills of the workspace.
const s05 = await import("../agents/s05_skill_loading.ts");
const s06 = await import("../agents/s06_context_compact.ts");

/** The result of load_skill for a skill that is in this folder. */
const loaded = (name: string, at: string, body: string) => `<skill name="${name}" folder="${at}">\n${body}\n</skill>`;
const load = (name: string) => call(use("load_skill", { name }));
const done = say("Done.");

onEach("readSkill", { s05 }, ({ SkillLoader }) => {
  for (const [what, text, description, body] of [
    ["has front matter and a body", skillText("one", "d", "\n# One\n\nDo it.\n"), "d", "# One\n\nDo it."],
    ["may have CRLF line ends", "---\r\nname: one\r\ndescription: d\r\n---\r\n# One\r\n", "d", "# One"],
    ["may have blanks after its ---", "---  \nname: one\ndescription: d\n---\t\nbody", "d", "body"],
    ["may begin with a BOM", `\ufeff${skillText("one", "d")}`, "d", "body"],
    ["may end right after its front matter", "---\nname: one\ndescription: d\n---", "d", ""],
    ["may have --- in its description", skillText("one", "a --- b"), "a --- b", "body"],
    ["may have --- in its body", skillText("one", "d", "a\n\n---\n\nb"), "d", "a\n\n---\n\nb"],
    ["may contain quotes and Chinese", skillText("'one'", "'处理 PDF: \"fast\"'", "内容"), '处理 PDF: "fast"', "内容"],
  ] satisfies [string, string, string, string][]) {
    test(`a SKILL.md ${what}`, () => {
      const skills = folderOf({ mine: text });
      const loader = new SkillLoader(skills);
      assert.deepEqual(loader.warnings, []);
      assert.equal(loader.skills.get("one")?.description.trim(), description);
      assert.equal(loader.content("one"), loaded("one", join(skills, "mine"), body));
    });
  }

  for (const [what, text, reason] of [
    ["without front matter", "# Only a body\n", /front matter/],
    ["whose front matter isn't closed", "---\nname: one\ndescription: d\n", /front matter/],
    ["whose front matter isn't at the beginning", `# One\n${skillText("one", "d")}`, /front matter/],
    ["whose YAML is wrong", "---\nname: one\ndescription: this: is not YAML\n---\nbody", /at line 3,/],
    ["without a name", "---\ndescription: d\n---\nbody", /name/],
    ["with a name that breaks out of the tag", skillText("'a\"><b'", "d"), /name/],
    ["without a description", "---\nname: one\n---\nbody", /description/],
    ["with a description of more than 1,024 characters", skillText("one", "x".repeat(1_025)), /description/],
    ["that is binary", Uint8Array.from([0, 255, 254, 0, 1]), /binary/],
  ] satisfies [string, string | Uint8Array, RegExp][]) {
    test(`a SKILL.md ${what} is skipped with a warning that names the file and the reason; the others stay`, () => {
      const { skills, warnings } = new SkillLoader(
        folderOf({ a: skillText("first", "d"), m: text, z: skillText("last", "d") }),
      );
      assert.deepEqual([...skills.keys()], ["first", "last"]);
      assert.equal(warnings.length, 1, "warnings");
      assert.match(warnings[0] ?? "", /\/m\/SKILL\.md/, "the warning names the file");
      assert.match(warnings[0]?.replaceAll(/\S*SKILL\.md:/g, "") ?? "", reason, "and the reason");
    });
  }

  test("the user sees which skills a folder brings and which are skipped, and none of them can drive the terminal", async (t) => {
    const warned = "---\nname: two\ndescription: !<\u001b]52;c;b3duZWQ=\u0007> text\n---\nbody"; // the yaml package warns about the tag
    const files = {
      "skills/a/SKILL.md": skillText("one", "d"),
      "skills/b/SKILL.md": warned,
      "skills/evil/SKILL.md": "---\nname: [\u001b]0;owned\u0007\n---\n",
    };
    const run = await start(t, "s05_skill_loading", ["go"], { files, replies: [done] });
    assert.equal(await run.ended, 0, run.screen());
    assert.match(run.screen(), /one, two/, "the skills");
    assert.match(run.screen(), /evil\/SKILL\.md/, "the one that is skipped");
    assert.doesNotMatch(run.screen(), /[\u0007\u001b]/);
  });

  test("all skills of this project load, and are named like their folders", () => {
    const shipped = fileURLToPath(new URL("../skills/", import.meta.url));
    const copy = folderOf({});
    cpSync(shipped, copy, { recursive: true });
    const { skills, warnings } = new SkillLoader(copy);
    assert.deepEqual([[...skills.keys()].sort(), warnings], [readdirSync(shipped).sort(), []]);
  });
});

onEach("SkillLoader.descriptions", { s05, s06 }, (lesson) => {
  test("the system prompt has the name and description of each skill on one line, and no body", () => {
    assert.match(lesson.SYSTEM, /^- pdf: Work with PDF files\.\n- weather: Tell the weather\.$/m);
    assert.doesNotMatch(lesson.SYSTEM, /pdftotext|window|broken/);
    const long = `Other, ${"long ".repeat(200)}end.`;
    const skills = folderOf({ a: skillText("one", "|\n  One: first,\n  then."), b: skillText("two", long) });
    const loader = new lesson.SkillLoader(skills);
    assert.match(loader.descriptions(), /^- one: One: first, then\. ?\n- two: Other, .* end\.$/);
    const none = new lesson.SkillLoader(join(folder, "nowhere"));
    assert.equal(none.descriptions(), "(none)");
  });
});

onEach("SkillLoader.content", { s05 }, (lesson) => {
  test("load_skill returns the folder of a skill and its body as it is on disk now, or an error if the file is gone", async (t) => {
    t.after(() => writeFiles(SKILLS, { "pdf/SKILL.md": PDF_TEXT }));
    const change = (command: string) => call(use("bash", { command }), use("load_skill", { name: "pdf" }));
    const replies = [load("pdf"), change(`sed -i.bak s/pdftotext/mutool/ ${PDF}`), change(`rm ${PDF}`), done];
    const { results, messages } = await turn(lesson, replies);
    const [asItWas, changed, gone] = results.filter((_, i) => i % 2 === 0); // skips bash's
    assert.equal(asItWas?.text, loaded("pdf", dirname(PDF), "# PDF\n\nUse pdftotext."));
    assert.match(changed?.text ?? "", /Use mutool\./, "the body as it is now");
    assert.equal(gone?.failed, true);
    await goOn(lesson, messages);
  });

  test("an unknown name is an error that lists the skills", async () => {
    const names = ["psd", "pd", "../pdf", "broken", "constructor"];
    const { results } = await turn(lesson, [call(...names.map((name) => use("load_skill", { name }))), done]);
    for (const { text, failed } of results)
      assert.match(`${failed} ${text}`, /true (?=.*pdf).*weather/s, "is_error, and the names");
  });
});

onEach("SkillLoader.content", { s05, s06 }, (lesson) => {
  test("a subagent knows the skills and can load them", async () => {
    const task = call(use("task", { prompt: "use the skill" }));
    const { results, sent } = await turn(lesson, [task, load("pdf"), say("read it"), done]);
    assert.equal(results[0]?.text, "read it");
    assert.match(String(sent[1]?.system), /Work with PDF files/);
    assert.match(resultsIn(sent[2]?.messages)[0]?.text ?? "", /pdftotext/);
  });
});
