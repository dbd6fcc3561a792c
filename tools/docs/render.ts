/** The kinds of directives: what each writes into a page. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { changes, declarations, type Lesson, type Lines, type Region } from "./lessons.ts";
import type { Directive, Page } from "./page.ts";

export type Project = { root: string; lessons: Lesson[]; record: (command: string) => Promise<string> };
type Kind = (args: string, project: Project, page: Page) => string | Promise<string>;

/** A fence that no line of the text can close. */
function fence(language: string, text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/^ *(`{3,})/gm)].map(([, ticks = ""]) => ticks.length));
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${text}\n${ticks}`;
}

/** A table; columns that hold figures are set right. */
const table = (rows: string[][]): string => {
  const [head = [], ...body] = rows;
  const rule = head.map((name) => (/^(lines|added|removed)$/.test(name) ? "---:" : "---"));
  return [head, rule, ...body].map((row) => `| ${row.join(" | ")} |`).join("\n");
};

const number = (value: number) => value.toLocaleString("en-US");
const signed = (sign: string, value: number) => (value === 0 ? "" : sign + number(value));
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
const pathFrom = (page: Page, file: string) => relative(dirname(page.file), file);

function find<Item>(what: string, name: string, all: Map<string, Item>): Item {
  const found = all.get(name);
  if (!found) throw new Error(`there is no ${what} ${name}; there are ${[...all.keys()].join(", ")}`);
  return found;
}
const lessonOf = (name: string, { lessons }: Project) =>
  find("lesson", name, new Map(lessons.map((each) => [each.name, each])));

/** A link to lines of a region. */
function link(page: Page, lesson: Lesson, region: Region, { from, to }: Lines, label: string): string {
  return `[${label}](${pathFrom(page, lesson.file)}#L${region.line + from}-L${region.line + to})`;
}
const whole = ({ code }: Region): Lines => ({ from: 0, to: code.length - 1 });

/** The lines of the named declarations; those that follow one another are one piece. @throws if one is not there */
function pieces(region: Region, names: string[]): Lines[] {
  const all = declarations(region);
  const known = all.flatMap((each) => each.names);
  const missing = names.filter((name) => !known.includes(name));
  if (missing.length > 0)
    throw new Error(`region ${region.name} does not declare ${missing.join(", ")}; it declares ${known.join(", ")}`);
  const found: Lines[] = [];
  let follows = false;
  for (const { names: own, from, to } of all) {
    const wanted = own.some((name) => names.includes(name));
    const last = found.at(-1);
    if (wanted && follows && last) last.to = to;
    else if (wanted) found.push({ from, to });
    follows = wanted;
  }
  return found;
}

const region: Kind = (args, project, page) => {
  const [, lessonName = "", regionName = "", list] = /^(\S+) ([\w-]+)(?:: (.*))?$/.exec(args) ?? [];
  const lesson = lessonOf(lessonName, project);
  const region = find(`region of ${lessonName} called`, regionName, lesson.regions);
  const shown = list ? pieces(region, list.split(/, */)) : [whole(region)];
  const links = shown.map((lines, i) => {
    const range = `${region.line + lines.from}–${region.line + lines.to}`;
    return link(page, lesson, region, lines, i === 0 ? `\`${lesson.file}\`, lines ${range}` : range);
  });
  const code = shown.map(({ from, to }) => region.code.slice(from, to + 1).join("\n")).join("\n\n");
  return `<sub>${links.join(", ")}</sub>\n\n${fence("ts", code)}`;
};

const header: Kind = (args, project) => {
  // Title, blank, idea, blank, and at the end the line that says how to run it.
  const lines = lessonOf(args, project).header.slice(4, -1);
  const wrapped = lines.map((line) =>
    line.startsWith(" ") ? line.slice(4) : line.replace(/(.{80,100},) /g, "$1\n  "),
  );
  return fence("text", wrapped.join("\n").trim());
};

const changed: Kind = (args, project, page) => {
  const lesson = lessonOf(args, project);
  const all = changes(lesson);
  const label = ({ region }: (typeof all)[number]) => link(page, lesson, region, whole(region), `\`${region.name}\``);
  const lines = (some: typeof all) => number(sum(some.map(({ region }) => region.code.length)));
  if (!lesson.before)
    return table([["region", "lines"], ...all.map((each) => [label(each), lines([each])]), ["**all**", lines(all)]]);
  const same = all.filter(({ state }) => state === "same");
  const added = (some: typeof all) => signed("+", sum(some.map((each) => each.added)));
  const removed = (some: typeof all) => signed("−", sum(some.map((each) => each.removed)));
  const rows = all.filter(({ state }) => state !== "same");
  return table([
    ["region", "", "lines", "added", "removed"],
    ...rows.map((each) => [label(each), each.state, lines([each]), added([each]), removed([each])]),
    [same.map(({ region }) => `\`${region.name}\``).join(", "), "same", lines(same), "", ""],
    ["**all**", "", lines(all), added(all), removed(all)],
  ]);
};

const diff: Kind = (args, project) => {
  const lesson = lessonOf(args, project);
  if (!lesson.before) throw new Error(`${args} has no lesson before it`);
  const some = changes(lesson).filter(({ state }) => state === "changed");
  const title = `${lesson.before.name} → ${lesson.name}: ${some.map(({ region }) => region.name).join(", ")}`;
  const hunks = some.flatMap((change) => change.hunks).join("\n");
  return `<details>\n<summary>${title}</summary>\n\n${fence("diff", hunks)}\n\n</details>`;
};

const run: Kind = async (args, project) => {
  const [, from, to, head, tail, command = ""] =
    /^(?:(?:lines (\d+)-(\d+)|(?:head (\d+))? ?(?:tail (\d+))?): )?(.+)$/.exec(args) ?? [];
  const lines = (await project.record(command)).split("\n");
  if (Number(to) > lines.length) throw new Error(`the output has only ${lines.length} lines`);
  const isShown = (i: number) => {
    if (from) return Number(from) <= i + 1 && i + 1 <= Number(to);
    return !(head || tail) || i < Number(head ?? 0) || i >= lines.length - Number(tail ?? 0);
  };
  const shown = lines.flatMap((line, i) => (isShown(i) ? [line] : i === 0 || isShown(i - 1) ? ["[…]"] : []));
  return fence("console", [`$ ${command}`, ...shown].join("\n").trimEnd());
};

const lessons: Kind = (_, project, page) =>
  table([
    ["lesson", "the idea", "lines", "added"],
    ...project.lessons.map((lesson) => {
      const [title = "", , idea = ""] = lesson.header;
      const added = number(sum(changes(lesson).map((change) => change.added)));
      const code = `[${number(lesson.lines)}](${pathFrom(page, lesson.file)})`;
      return [`[${title}](${pathFrom(page, lesson.page)})`, idea.replace(/\.$/, ""), code, `+${added}`];
    }),
  ]);

async function results(root: string): Promise<unknown> {
  const file = join(root, "bench/results.json");
  if (!existsSync(file)) throw new Error("bench/results.json is missing: the bench writes it");
  return JSON.parse(readFileSync(file, "utf8"));
}

const bench: Kind = async (name, { root }) => {
  const file = join(root, "bench/report.ts");
  if (!existsSync(file)) throw new Error("bench/report.ts is missing: it exports the tables");
  const { tables }: { tables: Record<string, (results: unknown) => string> } = await import(pathToFileURL(file).href);
  return find("table", name, new Map(Object.entries(tables)))(await results(root)).trim();
};

const figure: Kind = async (args, { root }) => {
  const [path = "", form] = args.split(" ");
  let value = await results(root);
  for (const key of path.split(".")) value = Object(value)[key];
  if (typeof value !== "number") throw new Error(`bench/results.json has no number at ${path}`);
  if (form === "percent") return `${Math.round(value * 100)} %`;
  const digits = { minimumFractionDigits: Number(form ?? 0), maximumFractionDigits: Number(form ?? 3) };
  return value.toLocaleString("en-US", digits);
};

const lines: Kind = (args, project) => {
  const [lessonName = "", regionName] = args.split(" ");
  const lesson = lessonOf(lessonName, project);
  if (!regionName) return number(lesson.lines);
  return number(find(`region of ${lessonName} called`, regionName, lesson.regions).code.length);
};

const constant: Kind = async (args, project) => {
  const [, lessonName = "", name = ""] = /^(\w+) ([\w.]+)$/.exec(args) ?? [];
  const { file } = lessonOf(lessonName, project);
  // A line at the end of the copied lesson sees what the lesson does not export, too.
  const output = await project.record(
    `echo 'console.log(JSON.stringify(${name}))' >> ${file} && node --import tsx -e 'import("./${file}")'`,
  );
  const printed = output.split("\n").at(-1) ?? "";
  if (/^\d+(\.\d+)?$/.test(printed)) return number(Number(printed));
  if (/^".*"$/.test(printed)) return printed.slice(1, -1);
  throw new Error(`${name} of ${lessonName} is neither a number nor a text: ${printed}`);
};

const BLOCKS: Record<string, Kind> = { region, header, changes: changed, diff, run, lessons, bench };
const INLINES: Record<string, Kind> = { lines, const: constant, bench: figure };

/** What belongs between the marks of a directive. @throws if it cannot be made */
export async function render(directive: Directive, project: Project, page: Page): Promise<string> {
  const kinds = new Map(Object.entries(directive.inline ? INLINES : BLOCKS));
  const kind = find(directive.inline ? "inline value" : "directive", directive.kind, kinds);
  const text = await kind(directive.args, project, page);
  return directive.inline ? text : `${text}\n`;
}
