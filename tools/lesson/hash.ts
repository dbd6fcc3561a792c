/** Which code a recording was made with. */
import { createHash } from "node:crypto";
import { transformSync } from "esbuild";

/** @returns a hash of a TypeScript source: comments, blanks and types do not change it */
export function codeHash(source: string): string {
  const { code } = transformSync(source, { loader: "ts", minifyWhitespace: true, legalComments: "none" });
  return createHash("sha256").update(code).digest("hex").slice(0, 12);
}
