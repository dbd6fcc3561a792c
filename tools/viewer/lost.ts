/** Finds the paths that a summary lost: what named a file before it, and is named by nothing after it. */
import { textOf } from "../trace/events.ts";
import { blocksIn, type Compaction, type ContextBlock } from "../trace/timeline.ts";

/** A known extension tells a file from a route. */
const FILE =
  /^([a-z]:)?[\w@~./-]+\.([cm]?[jt]sx?|jsonl?|mdx?|py|dart|arb|go|rs|ya?ml|toml|s?css|html|svg|sh|ps1|sql|txt|csv|xml|java|kts?|gradle|swift|rb|php|vue|svelte|c|cs|h|cpp|lock|env|ini|conf|omp)$/i;
const WINDOWS_PATH = /\b[a-z]:(\\+[\w@~.-]+)+/gi;

/** Words that may be a path, without the number of a line. */
function wordsIn(block: ContextBlock): string[] {
  const plain = textOf(block).replace(WINDOWS_PATH, (path) => path.replace(/\\+/g, "/"));
  const words = plain.match(/[\w$#@~./-][\w$#@~./:,%-]*[\w$%]/g) ?? [];
  return words.map((word) => word.replace(/(?<=\.[a-z]\w*)(:\d+)+$/i, ""));
}

const fileNameIn = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** Returns each path once, in the order of the alphabet. */
export function lostPaths({ before, after, isSummary }: Compaction): string[] {
  if (!isSummary) return [];
  const left = blocksIn(after).flatMap(wordsIn);
  const known = new Set(left.flatMap((word) => [fileNameIn(word), ...word.split(/[.:]/)]));
  const words = new Set(blocksIn(before).flatMap(wordsIn));
  const paths = [...words].filter((word) => word.length <= 200 && FILE.test(word) && !known.has(fileNameIn(word)));
  return longestOf(paths).sort();
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
