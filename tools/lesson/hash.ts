/** Tells which version of a lesson a recording was made with. */
import { createHash } from "node:crypto";
import { parse } from "@babel/parser";

type Token = { type: "CommentLine" | "CommentBlock" | object; start: number; end: number };

/** Returns a hash of TypeScript source that ignores comments and white space. */
export function codeHash(source: string): string {
  const file = parse(source, { sourceType: "module", plugins: ["typescript"], tokens: true });
  const tokens: Token[] = file.tokens ?? [];
  const code = tokens.filter(({ type }) => typeof type === "object").map(({ start, end }) => source.slice(start, end));
  return createHash("sha256").update(code.join(" ")).digest("hex").slice(0, 12);
}
