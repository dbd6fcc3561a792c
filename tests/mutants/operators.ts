/**
 * What can be changed in a program: the operators that mutation tools have in common. A program whose tests are good fails
 * at least one of them after each such change.
 *
 * Left out are changes of types and imports, which do nothing at run time, `await` taken away, and what another change
 * covers: a block that holds one statement and the statement, a branch emptied and its condition false, a comparison
 * negated and the same true and false.
 */
import { parse } from "@babel/parser";
import { type Node, type TraversalAncestors, traverse } from "@babel/types";

/** `text` in the place of what stands from `start` to `end`. */
export type Change = { start: number; end: number; text: string };
/** A stretch of code that runs from its beginning if at all, and the changes that make it call something first. */
export type Stretch = { start: number; end: number; calling: (call: string) => Change[] };

/** Operators, and names of methods, with what takes their place; "" takes the call away, so that `list.sort()` is `list`. */
const OPERATORS: Record<string, string[]> = {
  "<": ["<="],
  "<=": ["<"],
  ">": [">="],
  ">=": [">"],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  ">>": ["<<"],
  "&&": ["||"],
  "||": ["&&"],
  "+=": ["-="],
  "-=": ["+="],
  "||=": ["="],
  "&&=": ["="],
  "??=": ["="],
  "++": ["--"],
  "--": ["++"],
};
const METHODS: Record<string, string> = {
  some: "every",
  every: "some",
  startsWith: "endsWith",
  endsWith: "startsWith",
  indexOf: "lastIndexOf",
  lastIndexOf: "indexOf",
  find: "findLast",
  findLast: "find",
  findIndex: "findLastIndex",
  findLastIndex: "findIndex",
};
const REMOVED =
  "flat slice sort filter trim trimEnd trimStart replace replaceAll reverse min max refine optional unref";
for (const name of REMOVED.split(" ")) METHODS[name] = "";

/** The pieces of a regular expression that change, outside a class and in one. */
const REGEX_PIECE = /\\.|\[\^?|\]|\(\?(?:<?[=!]|:|<\w+>)|[*+?]\??|\{\d+(?:,\d*)?\}\??|[$^]|./gsu;

function regexChanges(pattern: string, flags: string): string[] {
  const changed: string[] = [...flags].map((flag) => `/${pattern}/${flags.replace(flag, "")}`);
  let inClass = false;
  for (const { 0: piece, index } of pattern.matchAll(REGEX_PIECE)) {
    const put = (text: string) => {
      const other = pattern.slice(0, index) + text + pattern.slice(index + piece.length);
      changed.push(`/${other || "(?:)"}/${flags}`);
    };
    if (/^\\[dDsSwWbB]$/.test(piece)) {
      const letter = piece.charAt(1);
      put(`\\${letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()}`);
    } else if (inClass) inClass = piece !== "]";
    else if (piece.startsWith("[")) {
      inClass = true;
      put(piece === "[" ? "[^" : "[");
    } else if (/^\(\?<?[=!]$/.test(piece)) put(piece.slice(0, -1) + (piece.endsWith("=") ? "!" : "="));
    else if (/^([*+?{].*|[$^])$/.test(piece)) put("");
  }
  return changed.filter((text) => {
    try {
      return new RegExp(text.slice(1, text.lastIndexOf("/")), text.slice(text.lastIndexOf("/") + 1));
    } catch {
      return false; // "u" taken away from a pattern that needs it
    }
  });
}

/** An `if` without `else`: to empty what it runs is to make its condition false. */
const isBranch = (above?: Node) => above?.type === "IfStatement" && !above.alternate;
/** Whether another change takes away the statement that has these ancestors. */
function isTakenAway(ancestors: TraversalAncestors): boolean {
  const above = ancestors.at(-1)?.node;
  return isBranch(above) || (above?.type === "BlockStatement" && above.body.length === 1);
}

const isComparison = (node: Node) => node.type === "BinaryExpression" && /^([<>]=?|[!=]==)$/.test(node.operator);

/** All changes of a program, in the order of its text. */
export function changesOf(source: string): Change[] {
  const changes: Change[] = [];
  const add = ({ start, end }: { start?: number | null; end?: number | null }, ...texts: string[]) => {
    for (const text of texts) changes.push({ start: start ?? 0, end: end ?? 0, text });
  };
  const code = ({ start, end }: Node) => source.slice(start ?? 0, end ?? 0);
  /** A token after a node, past brackets. */
  const token = (after: Node, text: string) => {
    const start = source.indexOf(text, after.end ?? 0);
    return { start, end: start + text.length };
  };

  traverse(parse(source, { sourceType: "module", plugins: ["typescript"] }), (node, ancestors) => {
    if (
      ancestors.some(
        ({ node, key }) => (node.type.startsWith("TS") && key !== "expression") || node.type === "ImportDeclaration",
      )
    )
      return;
    const above = ancestors.at(-1);
    switch (node.type) {
      case "IfStatement":
      case "ConditionalExpression":
        return add(node.test, "true", "false");
      case "WhileStatement":
      case "DoWhileStatement":
        return add(node.test, "false");
      case "ForStatement":
        return node.test ? add(node.test, "false") : undefined;
      case "LogicalExpression": {
        const at = token(node.left, node.operator);
        for (const operator of OPERATORS[node.operator] ?? [])
          add(node, `(${source.slice(node.start ?? 0, at.start)}${operator}${source.slice(at.end, node.end ?? 0)})`);
        return add(node, `(${code(node.left)})`, `(${code(node.right)})`);
      }
      case "BinaryExpression": {
        const operators = OPERATORS[node.operator] ?? [];
        const isText = [node.left, node.right].some(
          ({ type }) => type === "StringLiteral" || type === "TemplateLiteral",
        );
        if (node.operator !== "+" || !isText) add(token(node.left, node.operator), ...operators);
        return isComparison(node) ? add(node, "true", "false") : undefined;
      }
      case "AssignmentExpression":
        return add(token(node.left, node.operator), ...(OPERATORS[node.operator] ?? []));
      case "UpdateExpression":
        return add(
          node.prefix ? { start: node.start, end: (node.start ?? 0) + 2 } : token(node.argument, node.operator),
          ...(OPERATORS[node.operator] ?? []),
        );
      case "UnaryExpression":
        return node.operator === "!" || node.operator === "-" ? add(node, code(node.argument)) : undefined;
      case "NumericLiteral":
        return add(node, String(node.value + 1));
      case "BooleanLiteral":
        return add(node, String(!node.value));
      case "StringLiteral": {
        const isName = above?.node.type === "ObjectProperty" && above.key === "key";
        const isCompared = above?.node.type === "BinaryExpression" && /^[!=]==$/.test(above.node.operator); // made false, too
        return isName || isCompared ? undefined : add(node, node.value === "" ? '"mutant"' : '""');
      }
      case "TemplateLiteral":
        return add(node, '""');
      case "RegExpLiteral":
        return add(node, ...regexChanges(node.pattern, node.flags));
      case "ArrayExpression":
        return node.elements.length > 0 ? add(node, "[]") : undefined;
      case "ObjectExpression":
        return node.properties.length > 0 ? add(node, "{}") : undefined;
      case "OptionalMemberExpression":
        return node.optional ? add(token(node.object, "?."), node.computed ? "" : ".") : undefined;
      case "OptionalCallExpression":
      case "CallExpression": {
        const { callee } = node;
        if (node.type === "OptionalCallExpression" && node.optional) add(token(callee, "?."), "");
        if (callee.type !== "MemberExpression" && callee.type !== "OptionalMemberExpression") return;
        if (callee.property.type !== "Identifier") return;
        // Of one number, the smallest is the number: this takes Math.floor away, too.
        if (code(callee.object) === "Math") return add(callee.property, callee.property.name === "min" ? "max" : "min");
        const { name } = callee.property;
        const other = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
        return other === "" ? add(node, code(callee.object)) : other ? add(callee.property, other) : undefined;
      }
      case "BlockStatement":
        return node.body.length > 0 && !isBranch(above?.node) ? add(node, "{}") : undefined;
      case "ArrowFunctionExpression":
        return node.body.type === "BlockStatement" || isComparison(node.body) ? undefined : add(node.body, "undefined");
      case "ReturnStatement": {
        const inBranch = isBranch(above?.node) || isBranch(ancestors.at(-2)?.node);
        const returns = node.argument && code(node.argument) !== "undefined";
        return returns && (inBranch || !isTakenAway(ancestors)) ? add(node, "return;") : undefined;
      }
      case "ExpressionStatement":
      case "ThrowStatement":
      case "BreakStatement":
      case "ContinueStatement":
        return isTakenAway(ancestors) ? undefined : add(node, ";");
    }
  });

  const seen = new Set<string>();
  return changes
    .sort((a, b) => a.start - b.start || a.end - b.end)
    .filter(({ start, end, text }) => {
      const key = `${start} ${end} ${text}`;
      return source.slice(start, end) !== text && !seen.has(key) && seen.add(key);
    });
}

export function apply(source: string, changes: Change[]): string {
  return changes
    .toSorted((a, b) => b.start - a.start || b.end - a.end)
    .reduce((text, { start, end, text: by }) => text.slice(0, start) + by + text.slice(end), source);
}

/** The stretches of a program: blocks, and what stands for one after `if` or `=>`. Inner ones come after outer ones. */
export function stretchesOf(source: string): Stretch[] {
  const stretches: Stretch[] = [];
  const insert = (at: number, text: string) => ({ start: at, end: at, text });
  traverse(parse(source, { sourceType: "module", plugins: ["typescript"] }), (node, ancestors) => {
    const { start, end } = node;
    const { node: above, key } = ancestors.at(-1) ?? {};
    if (typeof start !== "number" || typeof end !== "number" || !above) return;
    const standsAlone =
      /^(If|For|ForOf|ForIn|While|DoWhile)Statement$/.test(above.type) &&
      /^(consequent|alternate|body)$/.test(`${key}`);
    if (node.type === "BlockStatement") {
      stretches.push({ start, end, calling: (call) => [insert(start + 1, `${call};`)] });
    } else if (standsAlone) {
      stretches.push({ start, end, calling: (call) => [insert(start, `{${call};`), insert(end, "}")] });
    } else if (above.type === "ArrowFunctionExpression" && key === "body") {
      stretches.push({ start, end, calling: (call) => [insert(start, `(${call},`), insert(end, ")")] });
    }
  });
  return stretches;
}
