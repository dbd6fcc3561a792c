/** The kinds of directives: what each writes into a page. */
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { tables } from "../bench/report.ts";
import { changes, codeOf, type Lesson, type Lines } from "../lesson/source.ts";
import { describe, historyAt } from "./history.ts";
import { countWords, type Directive, type Page, readPage } from "./page.ts";

export type Project = { root: string; lessons: Map<string, Lesson>; record: (command: string) => Promise<string> };
type Kinds = Record<string, (args: string, project: Project, page: Page) => string | Promise<string>>;

/** A block of code; the longer ticks let the text hold a block of its own. */
function fence(language: string, text: string): string {
  const ticks = /^ *```/m.test(text) ? "````" : "```";
  return `${ticks}${language}\n${text}\n${ticks}`;
}

const table = (...rows: string[][]) => rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
const number = (value: number) => value.toLocaleString("en-US");
const isChinese = (page: Page) => page.file.startsWith("docs/zh/");
const WORDS_A_MINUTE = 200; // of prose
const CHARACTERS_A_MINUTE = 400; // of Chinese prose
const LINES_A_MINUTE = 25; // of code that is new
const pathFrom = (page: Page, file: string) => relative(dirname(page.file), file);
const linkTo = (page: Page, { file }: Lesson, { from, to }: Lines, label: string) =>
  `[${label}](${pathFrom(page, file)}#L${from}-L${to})`;

const rangeOf = ({ from, to }: Lines) => (from === to ? `${from}` : `${from}–${to}`);

function find<Item>(what: string, name: string, all: Map<string, Item>): Item {
  const found = all.get(name);
  if (!found) throw new Error(`there is no ${what} ${name}; there are ${[...all.keys()].join(", ")}`);
  return found;
}

/** The lines of a region that a list names: `agentLoop, "a line that has this", "first line" to "last line"`. */
function pick(lesson: Lesson, region: Lines, list: string): Lines[] {
  const found: Lines[] = [];
  const parts = new Map([...lesson.parts].filter(([, { from, to }]) => from >= region.from && to <= region.to));
  const lineWith = (text: string, from: number) => {
    const i = codeOf(lesson, { from, to: region.to }).findIndex((line) => line.includes(text));
    if (i < 0) throw new Error(`the region has no line with ${text}`);
    return from + i;
  };
  for (const [, first, last, name = ""] of list.matchAll(/(?:"(.+?)"(?: to "(.+?)")?|(\w[\w ]*))(?:, |$)/g)) {
    const from = first ? lineWith(first, region.from) : 0;
    const lines = first ? { from, to: last ? lineWith(last, from) : from } : find("declaration", name, parts);
    const previous = found.at(-1);
    if (previous?.to === lines.from - 1) previous.to = lines.to;
    else found.push({ ...lines });
  }
  return found;
}

/** Moves code to the left as far as its first line allows. */
const dedent = ([first = "", ...rest]: string[]) =>
  [first, ...rest].join("\n").replaceAll(new RegExp(`^ {${first.search(/\S/)}}`, "gm"), "");

const CHANGES = {
  en: { heads: ["region", "", "lines", "diff"], new: "new", changed: "changed", same: "same" },
  zh: { heads: ["区域", "", "行数", "差异"], new: "新增", changed: "有改动", same: "不变" },
};

/** The first lines of a translated page as a lesson's header has them: the title, a blank line, the idea. */
function headOf(root: string, file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  return [/^# (.*)$/m.exec(text)?.[1] ?? "", "", /^> (.*)$/m.exec(text)?.[1] ?? ""];
}

/** The figures of the bench on the public sessions. */
const figuresOf = (root: string) => JSON.parse(readFileSync(join(root, "tools/bench/public.json"), "utf8"));

/** The row of a strategy on the public sessions. */
function measured(root: string, name: string): { cost: number; grounded: number } {
  const { strategies } = figuresOf(root);
  if (!strategies[name])
    throw new Error(`there is no strategy ${name}; there are ${Object.keys(strategies).join(", ")}`);
  return strategies[name];
}

const BLOCKS: Kinds = {
  region(args, { lessons }, page) {
    const [, lessonName = "", name = "", list] = /^(\S+) (\S+?)(?:: (.*))?$/.exec(args) ?? [];
    const lesson = find("lesson", lessonName, lessons);
    const region = find("region", name, lesson.regions);
    const shown = list ? pick(lesson, region, list) : [region];
    const links = shown.map((lines) => linkTo(page, lesson, lines, rangeOf(lines)));
    const code = shown.map((lines) => dedent(codeOf(lesson, lines))).join("\n\n");
    const place = isChinese(page) ? `，第 ${links.join("、")} 行` : `, lines ${links.join(", ")}`;
    return `<sub>\`${lesson.file}\`${place}</sub>\n\n${fence("ts", code)}`;
  },

  header(args, { lessons }) {
    const { header } = find("lesson", args, lessons);
    const isLast = (line: string) => line.startsWith("Run:"); // how to run it, and in s06 "See it compact:"
    const lines = header.slice(4, header.findIndex(isLast)); // from the diagram on
    return fence("text", lines.join("\n").replaceAll(/^ {4}/gm, ""));
  },

  changes(args, { lessons }, page) {
    const lesson = find("lesson", args, lessons);
    const words = CHANGES[isChinese(page) ? "zh" : "en"];
    const all = changes(lesson);
    const rows = all.flatMap(({ name, region, state, added, removed }) => {
      const label = linkTo(page, lesson, region, `\`${name}\``);
      return state === "same"
        ? []
        : [[label, words[state], number(region.to - region.from + 1), `+${added} −${removed}`]];
    });
    const same = all.flatMap(({ name, state }) => (state === "same" ? [`\`${name}\``] : []));
    if (same.length > 0) rows.push([same.join(", "), words.same, "", ""]);
    return table(words.heads, ["---", "---", "---:", "---"], ...rows);
  },

  diff(args, { lessons }) {
    const [lessonName = "", region] = args.split(" ");
    const lesson = find("lesson", lessonName, lessons);
    const changed = changes(lesson).filter(({ name, state }) => state === "changed" && (!region || name === region));
    const title = `${lesson.before?.name} → ${lesson.name}: ${changed.map(({ name }) => name).join(", ")}`;
    const diff = fence("diff", changed.flatMap(({ diff }) => diff).join("\n"));
    return `<details>\n<summary>${title}</summary>\n\n${diff}\n\n</details>`;
  },

  async run(args, { record }) {
    const [, head, tail, command = ""] = /^(?:(?:head (\d+))? ?(?:tail (\d+))?: )?(.+)$/.exec(args) ?? [];
    let lines = (await record(command)).replace(/^(.{159}).{2,}/gm, "$1…").split("\n");
    const cut = lines.length - Number(head ?? 0) - Number(tail ?? 0);
    if ((head || tail) && cut > 0) lines = lines.toSpliced(Number(head ?? 0), cut, "[…]");
    return fence("console", [`$ ${command}`, ...lines].join("\n").trimEnd());
  },

  lessons(_, { root, lessons }, page) {
    const rows = [...lessons.values()].map((lesson) => {
      const file = isChinese(page) ? lesson.page.replace("docs", "docs/zh") : lesson.page;
      const [title = "", , idea = ""] = isChinese(page) ? headOf(root, file) : lesson.header;
      const added = changes(lesson).reduce((sum, change) => sum + change.added, 0);
      const code = `[${number(lesson.lines.length)}](${pathFrom(page, lesson.file)})`;
      const words = countWords(readPage(root, file, () => {}).prose.replaceAll(/\p{Script=Han}/gu, " $& "));
      const rate = isChinese(page) ? CHARACTERS_A_MINUTE : WORDS_A_MINUTE;
      const minutes = Math.ceil(words / rate + added / LINES_A_MINUTE);
      const link = `[${title}](${pathFrom(page, file)})`;
      return [link, idea.replace(/[.。]$/, ""), code, `+${added}`, `${minutes} ${isChinese(page) ? "分钟" : "min"}`];
    });
    const chinese = ["课程", "要点", "行数", "新增", "阅读"];
    const heads = isChinese(page) ? chinese : ["lesson", "the idea", "lines", "added", "reading"];
    return table(heads, ["---", "---", "---:", "---:", "---:"], ...rows);
  },

  /** `FILE N before 4` shows the last messages before the Nth summary, `FILE N after 6` what replaced all; `micro:N` counts layer 1. */
  history(args, { root }) {
    const [file = "", which = "", side, number = ""] = args.split(" ");
    if (side !== "before" && side !== "after") throw new Error("name the side: before or after");
    const messages = historyAt(join(root, file), which, side);
    const shown = side === "before" ? messages.slice(-number) : messages;
    const more = messages.length > shown.length ? [`… earlier messages: ${messages.length - shown.length}\n`] : [];
    const most = side === "before" ? 3 : Number(number);
    return fence("text", [...more, ...shown.map((message) => describe(message, most))].join("\n"));
  },

  bench(args, { root }) {
    const write = find("table", args.replace(/^public /, ""), new Map(Object.entries(tables)));
    return write(figuresOf(root)).trim();
  },
};

const VALUES: Kinds = {
  lines(args, { lessons }) {
    const [name = "", region] = args.split(" ");
    const lesson = find("lesson", name, lessons);
    return number(codeOf(lesson, region ? find("region", region, lesson.regions) : { from: 1, to: Infinity }).length);
  },

  async const(args, { lessons, record }) {
    const [lesson = "", name = ""] = args.split(" ");
    const value = find("constant", name, await constantsOf(find("lesson", lesson, lessons), record));
    return typeof value === "number" ? number(value) : String(value);
  },

  cost: (name, { root }) => measured(root, name).cost.toFixed(2),
  grounded: (name, { root }) => (100 * measured(root, name).grounded).toFixed(1),

  bench(args, { root }) {
    const [, path = "", digits = "0"] = /^(?:public )?(\S+) ?(\d)?$/.exec(args) ?? [];
    const value = path.split(".").reduce((all, key) => Object(all)[key], figuresOf(root));
    if (typeof value !== "number") throw new Error(`tools/bench/public.json has no number at ${path}`);
    return value.toLocaleString("en-US", { maximumFractionDigits: Number(digits) });
  },
};

/** The constants of a lesson by name: numbers and texts. A line at the end of a copy sees what is not exported, too. */
async function constantsOf(lesson: Lesson, record: Project["record"]): Promise<Map<string, unknown>> {
  const names = [...lesson.parts.keys()].filter((name) => /^[A-Z][A-Z_]+$/.test(name));
  const print = `echo 'console.log(JSON.stringify({ ${names.join(", ")} }))' >> ${lesson.file}`;
  const output = await record(`${print} && node --import tsx -e 'import("./${lesson.file}")'`);
  if (!output.startsWith("{")) throw new Error(/^\w*Error: .*/m.exec(output)?.[0] ?? output);
  const values = Object.entries(JSON.parse(output));
  return new Map(values.filter(([, value]) => typeof value === "number" || typeof value === "string"));
}

/** What belongs between the marks of a directive. @throws if it cannot be made */
export async function render({ inline, kind, args }: Directive, project: Project, page: Page): Promise<string> {
  const write = find("kind", kind, new Map(Object.entries(inline ? VALUES : BLOCKS)));
  return (await write(args, project, page)) + (inline ? "" : "\n");
}
