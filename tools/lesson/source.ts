/** Parses the lessons: their headers, regions and declarations, and what each adds to the lesson before it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "@babel/parser";
import { structuredPatch } from "diff";

/** The first and the last line of a part of a file, counted from 1. */
export type Lines = { from: number; to: number };
/** A declaration and the comments right above it. A function's `body` excludes its braces. */
type Declaration = Lines & { body?: Lines };
/** The lines of a lesson, ours or a reader's, and its declarations by name. */
export type Code = { lines: string[]; parts: Map<string, Declaration> };
export type Lesson = Code & {
  name: string; // s03
  file: string; // agents/s03_todo_write.ts
  pages: [own: string, ...others: string[]]; // docs/s03_todo_write.md, and others that begin with s03_
  header: string[]; // the lines inside the comment at the top, each without its " * "
  regions: Map<string, Lines>; // without the #region and #endregion lines
  before?: Lesson;
};

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;
export const codeOf = ({ lines }: Pick<Lesson, "lines">, { from, to }: Lines): string[] => lines.slice(from - 1, to);

export function readLessons(root: string): Map<string, Lesson> {
  const lessons = new Map<string, Lesson>();
  const docs = readdirSync(join(root, "docs")).map((entry) => `docs/${entry}`);
  let before: Lesson | undefined;
  for (const entry of readdirSync(join(root, "agents")).sort()) {
    const [name, file, page] = [entry.slice(0, 3), `agents/${entry}`, `docs/${entry.replace(/ts$/, "md")}`];
    const others = docs.filter((each) => each.startsWith(`docs/${name}_`) && each !== page);
    const text = readFileSync(join(root, file), "utf8");
    const code = parseCode(text.trimEnd());
    const { lines } = code;
    const header = lines.slice(1, lines.indexOf(" */")).map((line) => line.slice(3));
    const regions = new Map<string, Lines>();
    for (const { 0: all, 1: name = "", index } of text.matchAll(/^\/\/ #region (\S+)\n.*?(?=\n\/\/ #endregion)/gms))
      regions.set(name, { from: lineAt(text, index) + 1, to: lineAt(text, index + all.length) });
    before = { ...code, name, file, pages: [page, ...others.sort()], header, regions, before };
    lessons.set(name, before);
  }
  return lessons;
}

type Statement = ReturnType<typeof parse>["program"]["body"][number];
type Span = Pick<Statement, "loc">;
const spanOf = ({ loc }: Span): Lines => ({ from: loc?.start.line ?? 0, to: loc?.end.line ?? 0 });

/** The line where a declaration begins, counting the comments right above it. */
function startOf(node: Span & Pick<Statement, "leadingComments">, lines: string[]): number {
  let { from } = spanOf(node);
  for (const comment of (node.leadingComments ?? []).map(spanOf).reverse()) {
    const isWholeLine = /^\s*\/[/*](?! #)/.test(lines[comment.from - 1] ?? ""); // neither trailing nor a #region
    if (isWholeLine && comment.to === from - 1) from = comment.from;
  }
  return from;
}

/**
 * Finds the top-level declarations, and methods as `Class.method`.
 * @throws if the text can't be parsed
 */
export function parseCode(text: string): Code {
  const lines = text.split("\n");
  const parts = new Map<string, Declaration>();
  const add = (name: string, node: Statement | Member, body?: Lines) =>
    parts.set(name, { from: startOf(node, lines), to: spanOf(node).to, body });
  const addMethod = (className: string, member: Member) => {
    const body = bodyOf(member.type === "ClassProperty" ? member.value : member);
    if (body && "key" in member && member.key.type === "Identifier")
      add(`${className}.${member.key.name}`, member, body);
  };
  const { program } = parse(text, { sourceType: "module", plugins: ["typescript"], errorRecovery: true });
  for (const statement of program.body) {
    const { name, value } = declaredBy(statement);
    if (!name) continue;
    add(name, statement, bodyOf(value));
    if (value?.type === "ClassDeclaration") for (const member of value.body.body) addMethod(name, member);
  }
  return { lines, parts };
}

type Member = Extract<Statement, { type: "ClassDeclaration" }>["body"]["body"][number];
type Value = Statement | Member | Extract<Member, { type: "ClassProperty" }>["value"];

/** The name and the value that a statement declares. */
function declaredBy(statement: Statement): { name?: string; value?: Value } {
  const declaration = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
  if (declaration?.type === "VariableDeclaration") {
    const [first] = declaration.declarations;
    return first?.id.type === "Identifier" ? { name: first.id.name, value: first.init } : {};
  }
  const id = declaration && "id" in declaration ? declaration.id : undefined;
  return id?.type === "Identifier" ? { name: id.name, value: declaration ?? undefined } : {};
}

const FUNCTIONS = ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression", "ClassMethod"];

function bodyOf(value: Value | undefined): Lines | undefined {
  const isFunction = value && FUNCTIONS.includes(value.type) && "body" in value;
  if (!isFunction) return;
  const braces = spanOf(value.body as Span);
  return { from: braces.from + 1, to: braces.to - 1 };
}

/** Compares each region with the lesson before it. In s01, every region is new. */
export function regionChanges(lesson: Lesson) {
  const { before, regions } = lesson;
  return [...regions].map(([name, region]) => {
    const old = before?.regions.get(name);
    const text = (code: string[]) => code.map((line) => `${line}\n`).join("");
    const oldText = before && old ? text(codeOf(before, old)) : "";
    const { hunks } = structuredPatch("", "", oldText, text(codeOf(lesson, region)), "", "");
    const lines = hunks.flatMap(({ lines }) => lines);
    const count = (sign: string) => lines.filter((line) => line.startsWith(sign)).length;
    const state: "new" | "changed" | "same" = !old ? "new" : lines.length > 0 ? "changed" : "same";
    return { name, region, state, added: count("+"), removed: count("-") };
  });
}
