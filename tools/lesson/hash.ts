/** Tells which version of a lesson a recording was made with. */
import { createHash } from "node:crypto";
import { transformSync } from "esbuild";

/** Returns a hash of TypeScript source that ignores comments, white space and types. */
export function codeHash(source: string): string {
  const { code } = transformSync(source, { loader: "ts", minifyWhitespace: true, legalComments: "none" });
  return createHash("sha256").update(code).digest("hex").slice(0, 12);
}
