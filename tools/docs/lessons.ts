/** What the pages show of the lessons: header, regions, declarations, and the difference to the lesson before. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "@babel/parser";
import {
  type Comment,
  isCallExpression,
  isClassDeclaration,
  isExportNamedDeclaration,
  isExpressionStatement,
  isFunction,
  isIdentifier,
  isStringLiteral,
  isVariableDeclaration,
  type Node,
  type Statement,
  traverse,
} from "@babel/types";
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

const parseLesson = ({ lines }: Pick<Lesson, "lines">) =>
  parse(lines.join("\n"), { sourceType: "module", plugins: ["typescript"], errorRecovery: true });

const linesOf = ({ loc }: Node | Comment): Lines => ({ from: loc?.start.line ?? 0, to: loc?.end.line ?? 0 });

/** The line where code begins, with the comments right above it. `nodes` are those that begin with it: its export, its const. */
function startOf(nodes: Node[], lines: string[]): number {
  let from = Math.min(...nodes.map((node) => linesOf(node).from));
  const comments = nodes.flatMap(({ leadingComments }) => leadingComments ?? []).map(linesOf);
  for (const comment of comments.sort((a, b) => b.to - a.to)) {
    const isOwn = /^\s*\/[/*](?! #)/.test(lines[comment.from - 1] ?? ""); // not behind code, and no mark of a region
    if (isOwn && comment.to === from - 1) from = comment.from;
  }
  return from;
}

/** The top-level declarations of a region with the comments right above; `addTool("x", …)` is called `addTool x`. */
export function declarations(lesson: Lesson, region: Lines): Map<string, Lines> {
  const found = new Map<string, Lines>();
  for (const statement of parseLesson(lesson).program.body) {
    const { from, to } = linesOf(statement);
    const name = nameOfStatement(statement);
    if (name && from >= region.from && to <= region.to)
      found.set(name, { from: startOf([statement], lesson.lines), to });
  }
  return found;
}

function nameOfStatement(statement: Statement): string | undefined {
  const declaration = isExportNamedDeclaration(statement) ? statement.declaration : statement;
  const node = isVariableDeclaration(declaration) ? declaration.declarations[0] : declaration;
  if (node && "id" in node && isIdentifier(node.id)) return node.id.name;
  if (!isExpressionStatement(node) || !isCallExpression(node.expression)) return;
  const { callee, arguments: all } = node.expression;
  return isIdentifier(callee) && isStringLiteral(all[0]) ? `${callee.name} ${all[0].value}` : undefined;
}

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
  traverse(parseLesson({ lines }), (node, ancestors) => {
    if (!isFunction(node)) return;
    const above = ancestors.map((ancestor) => ancestor.node).reverse();
    const name = nameOf(node, above[0]);
    const owner = above.find((each) => isClassDeclaration(each))?.id?.name;
    const fullName = owner ? `${owner}.${name}` : name;
    if (!name || !fullName || found.has(fullName)) return;
    const { from, to } = linesOf(node);
    const heads = [node, ...above].filter((each) => linesOf(each).from === from);
    const braces = linesOf(node.body);
    found.set(fullName, { from: startOf(heads, lines), to, body: { from: braces.from + 1, to: braces.to - 1 } });
  });
  return found;
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
