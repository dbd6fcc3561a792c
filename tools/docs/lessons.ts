/** What the pages show of the lessons: header, regions, declarations, and the difference to the lesson before. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "@babel/parser";
import { type Comment, isClassDeclaration, isFunction, isIdentifier, type Node, traverse } from "@babel/types";
import { structuredPatch } from "diff";

/** Lines of a file, both included, as editors count them. */
export type Lines = { from: number; to: number };
export type Lesson = {
  name: string; // s03
  file: string; // agents/s03_todo_write.ts
  page: string; // docs/s03_todo_write.md
  lines: string[];
  header: string[]; // the lines of the comment that opens the file, without its marks
  regions: Map<string, Lines>; // without the marks
  before?: Lesson;
};

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;
export const codeOf = ({ lines }: Lesson, { from, to }: Lines): string[] => lines.slice(from - 1, to);

export function readLessons(root: string): Map<string, Lesson> {
  const lessons = new Map<string, Lesson>();
  let before: Lesson | undefined;
  for (const entry of readdirSync(join(root, "agents")).sort()) {
    const [name, file, page] = [entry.slice(0, 3), `agents/${entry}`, `docs/${entry.replace(/ts$/, "md")}`];
    const text = readFileSync(join(root, file), "utf8");
    const lines = text.trimEnd().split("\n");
    const header = lines.slice(1, lines.indexOf(" */")).map((line) => line.slice(3));
    const regions = new Map<string, Lines>();
    for (const { 0: all, 1: name = "", index } of text.matchAll(/^\/\/ #region (\S+)\n.*?(?=\n\/\/ #endregion)/gms))
      regions.set(name, { from: lineAt(text, index) + 1, to: lineAt(text, index + all.length) });
    before = { name, file, page, lines, header, regions, before };
    lessons.set(name, before);
  }
  return lessons;
}

const DECLARATION = /^(?:export )?(?:async )?(?:(?:function|const|let|class|type) (\w+)|(\w+)\(\s*"(.*?)")/;
const GOES_ON = /^([\s)}\]]|$)/; // the code is formatted: a declaration's lines are indented, blank, or close it

/** The top-level declarations of a region with the comments right above; `addTool("x", …)` is called `addTool x`. */
export function declarations(lesson: Lesson, region: Lines): Map<string, Lines> {
  const found = new Map<string, Lines>();
  const code = codeOf(lesson, region);
  for (const [i, line] of code.entries()) {
    const [, name, callee, first] = DECLARATION.exec(`${line}\n${code[i + 1]}`) ?? [];
    if (!name && !callee) continue;
    let from = i;
    while (/^(\/\/|\/\*\*| \*)/.test(code[from - 1] ?? "")) from--;
    const opensTemplate = /^[^`]*`[^`]*$/.test(line);
    let to = opensTemplate ? code.findIndex((each, j) => j > i && each.endsWith("`;")) : i;
    while (GOES_ON.test(code[to + 1] ?? "end")) to++;
    while (code[to] === "") to--;
    found.set(name ?? `${callee} ${first}`, { from: region.from + from, to: region.from + to });
  }
  return found;
}

const linesOf = ({ loc }: Node | Comment): Lines => ({ from: loc?.start.line ?? 0, to: loc?.end.line ?? 0 });

/** The name of a function, or of the constant or the property that it is. */
function nameOf(node: Node, parent: Node | undefined): string | undefined {
  for (const each of [node, parent]) {
    if (each && "id" in each && isIdentifier(each.id)) return each.id.name;
    if (each && "key" in each && isIdentifier(each.key)) return each.key.name;
  }
}

/** The lines of all functions that have a name, comments included, and of their bodies. A method is Class.method. */
export function functionsOf({ lines }: Pick<Lesson, "lines">): Map<string, Lines & { body: Lines }> {
  const found = new Map<string, Lines & { body: Lines }>();
  const file = parse(lines.join("\n"), { sourceType: "module", plugins: ["typescript"], errorRecovery: true });
  traverse(file, (node, ancestors) => {
    if (!isFunction(node)) return;
    const above = ancestors.map((ancestor) => ancestor.node).reverse();
    const name = nameOf(node, above[0]);
    const owner = above.find((each) => isClassDeclaration(each))?.id?.name;
    const fullName = owner ? `${owner}.${name}` : name;
    if (!name || !fullName || found.has(fullName)) return;
    const { from, to } = linesOf(node);
    const heads = [node, ...above].filter((each) => linesOf(each).from === from); // its export, its const
    const comments = heads.flatMap(({ leadingComments }) => leadingComments ?? []);
    const starts = comments.map((comment) => linesOf(comment).from);
    const own = starts.filter((line) => /^\s*\/[/*](?! #)/.test(lines[line - 1] ?? "")); // not behind code, no region
    const braces = linesOf(node.body);
    found.set(fullName, { from: Math.min(from, ...own), to, body: { from: braces.from + 1, to: braces.to - 1 } });
  });
  return found;
}

/** The innermost function that has this line. */
export function functionAt(parts: Map<string, Lines>, line: number): string | undefined {
  const around = [...parts].filter(([, { from, to }]) => from <= line && line <= to);
  return around.sort(([, a], [, b]) => b.from - a.from)[0]?.[0];
}

/** What each region is, compared with the lesson before; in the first lesson all are new. */
export function changes(lesson: Lesson) {
  const { before, regions } = lesson;
  return [...regions].map(([name, region]) => {
    const old = before?.regions.get(name);
    const text = (code: string[]) => code.map((line) => `${line}\n`).join("");
    const oldText = before && old ? text(codeOf(before, old)) : "";
    const { hunks } = structuredPatch("", "", oldText, text(codeOf(lesson, region)), "", "", { context: 1 });
    const lines = hunks.flatMap(({ newStart, lines }) => [
      `@@ ${name}, line ${newStart + region.from - 1} @@`,
      ...lines,
    ]);
    const count = (sign: string) => lines.filter((line) => line.startsWith(sign)).length;
    const state: "new" | "changed" | "same" = !old ? "new" : lines.length > 0 ? "changed" : "same";
    return { name, region, state, added: count("+"), removed: count("-"), diff: lines };
  });
}
