/** What the pages show of the lessons: header, regions, declarations, and the difference to the lesson before. */
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parse } from "@babel/parser";
import { getBindingIdentifiers, isCallExpression, isIdentifier, isStringLiteral, type Statement } from "@babel/types";
import { structuredPatch } from "diff";

/** Takes down what is wrong, so that a run names everything. Lines count from 1. */
export type Report = (file: string, line: number, text: string) => void;

/** A region's code without its marks; `line` is that of its first line in the file. */
export type Region = { name: string; line: number; code: string[] };
export type Lesson = {
  /** s03 */
  name: string;
  /** agents/s03_todo_write.ts */
  file: string;
  /** docs/s03_todo_write.md */
  page: string;
  lines: number;
  /** The lines of the comment that opens the file, without its marks. */
  header: string[];
  regions: Map<string, Region>;
  before?: Lesson;
};

export function readLessons(root: string, report: Report): Lesson[] {
  const lessons: Lesson[] = [];
  for (const entry of readdirSync(join(root, "agents")).sort()) {
    const stem = basename(entry, ".ts");
    const file = `agents/${entry}`;
    const lines = readFileSync(join(root, file), "utf8").trimEnd().split("\n");
    const header = lines.slice(1, lines.indexOf(" */")).map((line) => line.slice(3));
    const regions = readRegions(lines, (line, text) => report(file, line, text));
    const page = `docs/${stem}.md`;
    lessons.push({ name: stem.slice(0, 3), file, page, lines: lines.length, header, regions, before: lessons.at(-1) });
  }
  return lessons;
}

function readRegions(lines: string[], report: (line: number, text: string) => void): Map<string, Region> {
  const regions = new Map<string, Region>();
  let open: Region | undefined;
  for (const [i, line] of lines.entries()) {
    const [, mark, name = ""] = /^\/\/ #(region|endregion) ?(.*)$/.exec(line) ?? [];
    if (!mark) {
      open?.code.push(line);
    } else if (mark === "endregion") {
      if (!open) report(i + 1, "#endregion without a #region before it");
      while (open?.code.at(-1) === "") open.code.pop();
      open = undefined;
    } else {
      if (open) report(open.line - 1, `region ${open.name} is not closed before region ${name} opens`);
      if (regions.has(name)) report(i + 1, `region ${name} is there twice`);
      open = { name, line: i + 2, code: [] };
      regions.set(name, open);
    }
  }
  if (open) report(open.line - 1, `region ${open.name} is not closed`);
  return regions;
}

/** Lines of a region, both included; the first line is 0. */
export type Lines = { from: number; to: number };

/** The top-level declarations of a region with the comments right above them. `addTool("x", …)` is called `addTool x`. */
export function declarations({ code }: Region): (Lines & { names: string[] })[] {
  let end = 0;
  return parse(code.join("\n"), { sourceType: "module", plugins: ["typescript"] }).program.body.map((node) => {
    // A comment at the end of the declaration before belongs to that one.
    const comment = node.leadingComments?.find(({ loc }) => loc && loc.start.line > end);
    const from = (comment ?? node).loc?.start.line ?? 1;
    end = node.loc?.end.line ?? from;
    return { names: namesOf(node), from: from - 1, to: end - 1 };
  });
}

function namesOf(node: Statement): string[] {
  if (node.type === "ExportNamedDeclaration" && node.declaration) return namesOf(node.declaration);
  if (node.type === "TSTypeAliasDeclaration" || node.type === "TSInterfaceDeclaration") return [node.id.name];
  if (node.type === "ExpressionStatement" && isCallExpression(node.expression)) {
    const { callee, arguments: given } = node.expression;
    if (isIdentifier(callee) && isStringLiteral(given[0])) return [`${callee.name} ${given[0].value}`];
  }
  return Object.keys(getBindingIdentifiers(node));
}

export type Change = {
  region: Region;
  state: "new" | "changed" | "same";
  added: number;
  removed: number;
  /** The hunks of a unified diff, with the lines of the files. */
  hunks: string[];
};

/** What each region is, compared with the lesson before; in the first lesson all are new. */
export function changes({ regions, before }: Lesson): Change[] {
  return [...regions.values()].map((region) => {
    const old = before?.regions.get(region.name);
    if (!old) return { region, state: "new", added: region.code.length, removed: 0, hunks: [] };
    const patch = structuredPatch("", "", `${old.code.join("\n")}\n`, `${region.code.join("\n")}\n`, "", "", {
      context: 3,
    });
    const lines = patch.hunks.flatMap((hunk) => hunk.lines);
    const count = (sign: string) => lines.filter((line) => line.startsWith(sign)).length;
    const hunks = patch.hunks.map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      const [from, to] = [oldStart + old.line - 1, newStart + region.line - 1];
      return [`@@ -${from},${oldLines} +${to},${newLines} @@ ${region.name}`, ...lines].join("\n");
    });
    return { region, state: lines.length > 0 ? "changed" : "same", added: count("+"), removed: count("-"), hunks };
  });
}
