/** Generates the parts of a page that stand between marks. */
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { structuredPatch } from "diff";
import { type Results, type Row, tables } from "../bench/report.ts";
import { codeHash } from "../lesson/hash.ts";
import { codeOf, type Lesson, type Lines, regionChanges } from "../lesson/source.ts";
import { markdownTable, whole } from "../sessions/numbers.ts";
import { messageLines } from "./messages.ts";
import type { Directive, Page } from "./page.ts";
import type { Recorder } from "./recorder.ts";

export type Project = { root: string; lessons: Map<string, Lesson>; record: Recorder };
type Kinds = Record<string, (args: string, project: Project, page: Page) => string | Promise<string>>;

const fence = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\``;

const isChinese = (page: Page) => page.file.startsWith("docs/zh/");
const pathFrom = (page: Page, file: string) => relative(dirname(page.file), file);
const linkTo = (page: Page, { file }: Lesson, { from, to }: Lines, label: string) =>
  `[${label}](${pathFrom(page, file)}#L${from}-L${to})`;

const rangeOf = ({ from, to }: Lines) => (from === to ? `${from}` : `${from}–${to}`);

function findByName<Item>(what: string, name: string, all: Map<string, Item>): Item {
  const found = all.get(name);
  if (!found) throw new Error(`there is no ${what} ${name}; there are ${[...all.keys()].join(", ")}`);
  return found;
}

/** Finds what a list names in a region: `agentLoop, "a line with this text", "first line" to "last line"`. */
function pick(lesson: Lesson, region: Lines, list: string): Lines[] {
  const found: Lines[] = [];
  const parts = new Map([...lesson.parts].filter(([, { from, to }]) => from >= region.from && to <= region.to));
  const lineWith = (text: string, from: number) => {
    const i = codeOf(lesson, { from, to: region.to }).findIndex((line) => line.includes(text));
    if (i < 0) throw new Error(`the region has no line with ${text}; quote one here`);
    return from + i;
  };
  for (const [, first, last, name = ""] of list.matchAll(/(?:"(.+?)"(?: to "(.+?)")?|(\w[\w ]*))(?:, |$)/g)) {
    const from = first ? lineWith(first, region.from) : 0;
    const lines = first ? { from, to: last ? lineWith(last, from) : from } : findByName("declaration", name, parts);
    const previous = found.at(-1);
    if (previous?.to === lines.from - 1) previous.to = lines.to;
    else found.push({ ...lines });
  }
  return found;
}

/** Removes the indentation of the first line from every line. */
const dedent = ([first = "", ...rest]: string[]) =>
  [first, ...rest].join("\n").replaceAll(new RegExp(`^ {${first.search(/\S/)}}`, "gm"), "");

const CHANGES = {
  en: { heads: ["region", "state", "lines", "diff"], new: "new", changed: "changed", same: "same" },
  zh: { heads: ["区域", "状态", "行数", "差异"], new: "新增", changed: "有改动", same: "不变" },
};

/** Returns the title and the idea of a translated page, with a blank line between them as in a lesson's header. */
function headOf(root: string, file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  return [/^# (.*)$/m.exec(text)?.[1] ?? "", "", /^> (.*)$/m.exec(text)?.[1] ?? ""];
}

const benchResults = (root: string): Results => JSON.parse(readFileSync(join(root, "tools/bench/public.json"), "utf8"));

const benchRow = (root: string, name: string) =>
  findByName("row of the bench", name, new Map<string, Row>(Object.entries(benchResults(root).rows)));

const BLOCKS: Kinds = {
  file: (name, { root }) => fence("ts", readFileSync(join(root, name), "utf8").trimEnd()),

  region(args, { lessons }, page) {
    const [, lessonName = "", name = "", list = ""] = /^(\S+) (\S+): (.*)$/.exec(args) ?? [];
    const lesson = findByName("lesson", lessonName, lessons);
    const shown = pick(lesson, findByName("region", name, lesson.regions), list);
    const links = shown.map((lines) => linkTo(page, lesson, lines, rangeOf(lines)));
    const code = shown.map((lines) => dedent(codeOf(lesson, lines))).join("\n\n");
    const place = isChinese(page) ? `，第 ${links.join("、")} 行` : `, lines ${links.join(", ")}`;
    return `<sub>\`${lesson.file}\`${place}</sub>\n\n${fence("ts", code)}`;
  },

  changes(args, { lessons }, page) {
    const lesson = findByName("lesson", args, lessons);
    const words = CHANGES[isChinese(page) ? "zh" : "en"];
    const all = regionChanges(lesson);
    const rows = all.flatMap(({ name, region, state, added, removed }) => {
      const label = linkTo(page, lesson, region, `\`${name}\``);
      return state === "same"
        ? []
        : [[label, words[state], whole(region.to - region.from + 1), `+${added} −${removed}`]];
    });
    const same = all.flatMap(({ name, state }) => (state === "same" ? [`\`${name}\``] : []));
    if (same.length > 0) rows.push([same.join(", "), words.same, "", ""]);
    return markdownTable([":-", ":-", "-:", ":-"], [words.heads, ...rows]);
  },

  /** Compares declarations with those of the lesson before. */
  diff(args, { lessons }) {
    const [, lessonName = "", list = ""] = /^(\S+) (.*)$/.exec(args) ?? [];
    const lesson = findByName("lesson", lessonName, lessons);
    const codeIn = (one: Lesson | undefined, name: string) =>
      one ? `${codeOf(one, findByName("declaration", name, one.parts)).join("\n")}\n` : "";
    const hunks = list.split(", ").flatMap((name) => {
      const [old, now] = [codeIn(lesson.before, name), codeIn(lesson, name)];
      return structuredPatch("", "", old, now, "", "", { context: 1 }).hunks;
    });
    return fence("diff", hunks.map(({ lines }) => lines.join("\n")).join("\n\n"));
  },

  /** The messages of a recorded run, up to one with a text. */
  messages(args, { root }) {
    const [, name = "", last = ""] = /^(\S+) to "(.+)"$/.exec(args) ?? [];
    return fence("text", messageLines(root, name, last).join("\n"));
  },

  async run(args, { record }) {
    const [, head, tail, command = ""] = /^(?:(?:head (\d+))? ?(?:tail (\d+))?: )?(.+)$/.exec(args) ?? [];
    const { outputs } = await record(command);
    let lines = (outputs.get(command) ?? "").replace(/^(.{159}).{2,}/gm, "$1…").split("\n");
    const cut = lines.length - Number(head ?? 0) - Number(tail ?? 0);
    if ((head || tail) && cut > 0) lines = lines.toSpliced(Number(head ?? 0), cut, "[…]");
    return fence("console", [`$ ${command}`, ...lines].join("\n").trimEnd());
  },

  lessons(_, { root, lessons }, page) {
    const rows = [...lessons.values()].map((lesson) => {
      const [own] = lesson.pages;
      const file = isChinese(page) ? own.replace("docs", "docs/zh") : own;
      const [title = "", , idea = ""] = isChinese(page) ? headOf(root, file) : lesson.header;
      const added = regionChanges(lesson).reduce((sum, change) => sum + change.added, 0);
      const code = `[${whole(lesson.lines.length)}](${pathFrom(page, lesson.file)})`;
      const link = `[${title}](${pathFrom(page, file)})`;
      return [link, idea.replace(/[.。]$/, ""), code, whole(added)];
    });
    const heads = isChinese(page) ? ["课程", "要点", "行数", "新增"] : ["lesson", "the idea", "lines", "new"];
    return markdownTable([":-", ":-", "-:", "-:"], [heads, ...rows]);
  },

  /** Says which s06 the figures belong to. They take long to measure, so they may be older than the lesson. */
  measured(_, { root, lessons }) {
    const { date, code, sessions, rounds } = benchResults(root);
    const { file } = findByName("lesson", "s06", lessons);
    const isCurrent = code === codeHash(readFileSync(join(root, file), "utf8"));
    const version = isCurrent ? "this version of s06" : "an earlier version of s06, which has changed since";
    return `Measured on ${date} on ${sessions} sessions of ${whole(rounds)} rounds, with ${version} (code hash \`${code}\`).`;
  },

  bench(args, { root }) {
    const write = findByName("table", args, new Map(Object.entries(tables)));
    return write(benchResults(root)).trim();
  },
};

const VALUES: Kinds = {
  async const(args, { lessons, record }) {
    const [lesson = "", name = ""] = args.split(" ");
    return whole(findByName("constant", name, await constantsOf(findByName("lesson", lesson, lessons), record)));
  },

  cost: (name, { root }) => benchRow(root, name).cost.toFixed(2),
  costAt10: (name, { root }) => benchRow(root, name).costAt10.toFixed(2),
  kept: (name, { root }) => whole(100 * benchRow(root, name).kept),
  lost: (name, { root }) => whole(100 - 100 * benchRow(root, name).kept),
  summarized: (name, { root }) => whole(100 * benchRow(root, name).summarized),
  replies: (_, { root }) => benchResults(root).replies.toFixed(2),
};

/** Returns the numbers among a lesson's constants. A copy prints them, because not all of them are exported. */
async function constantsOf(lesson: Lesson, record: Project["record"]): Promise<Map<string, number>> {
  const names = [...lesson.parts.keys()].filter((name) => /^[A-Z][A-Z_]+$/.test(name));
  const print = `echo 'console.log(JSON.stringify({ ${names.join(", ")} }))' >> ${lesson.file}`;
  const command = `${print} && node --import tsx -e 'import("./${lesson.file}")'`;
  const output = (await record(command)).outputs.get(command) ?? "";
  if (!output.startsWith("{")) throw new Error(/^\w*Error: .*/m.exec(output)?.[0] ?? output);
  const values = Object.entries<number>(JSON.parse(output));
  return new Map(values.filter(([, value]) => typeof value === "number"));
}

/** @throws if the directive is wrong */
export async function render({ inline, kind, args }: Directive, project: Project, page: Page): Promise<string> {
  const write = findByName("kind", kind, new Map(Object.entries(inline ? VALUES : BLOCKS)));
  return (await write(args, project, page)) + (inline ? "" : "\n");
}
