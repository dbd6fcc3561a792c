/** Finds the paths that a summary lost: what named a file before it, and is named by nothing after it. */
import { textOf } from "../sessions/events.ts";
import { blocksIn, type Compaction } from "../sessions/timeline.ts";

/** A known extension tells a file from a route. Without the first look behind, a long word would take forever. */
const FILE =
  /(?<![\w$@~.:\\/-])[\w$@~.:\\/-]*\.(?:[cm]?[jt]sx?|jsonl?|mdx?|py|dart|arb|go|rs|ya?ml|toml|s?css|html|svg|sh|ps1|sql|txt|csv|xml|java|kts?|gradle|swift|rb|php|vue|svelte|c|cs|h|cpp|lock|env|ini|conf)(?![\w\\/-]|\.\w)/gi;
const LONGEST = 200; // characters of a path

/** Returns each path once, in the order of the alphabet. */
export function lostPaths({ before, after, isSummary }: Compaction): string[] {
  if (!isSummary) return [];
  const found = new Set(blocksIn(before).flatMap((block) => textOf(block).match(FILE) ?? []));
  const left = blocksIn(after).map(textOf).join("\n");
  const isLost = (path: string) => !left.includes(path.slice(path.lastIndexOf("/") + 1));
  const paths = [...found].filter((path) => path.length <= LONGEST && !path.includes("://"));
  return longestOf(paths.map((path) => path.replace(/\\+/g, "/")).filter(isLost)).sort();
}

/** The same file may appear as src/a.ts and /app/src/a.ts. Keeps the longest path. */
function longestOf(paths: string[]): string[] {
  const ends = new Set<string>();
  const longestFirst = paths.sort((a, b) => b.length - a.length);
  return longestFirst.filter((path) => {
    const plain = path.replace(/^(\.{0,2}\/)+/, "");
    if (ends.has(plain)) return false;
    for (const { index } of plain.matchAll(/(?<=^|\/)/g)) ends.add(plain.slice(index));
    return true;
  });
}
