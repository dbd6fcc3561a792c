/** Finds what a summary lost: paths, names and values that nothing mentions after it. */
import { stringsIn, textOf, withoutLineNumbers } from "../trace/events.ts";
import { blocksIn, type Compaction, type ContextBlock } from "../trace/timeline.ts";

export type Lost = { kind: (typeof LOST_KINDS)[number]; text: string; block: ContextBlock; weight: number };

const LOST_KINDS = ["paths", "names", "values"] as const;

/** A known extension tells a file from a route. */
const FILE =
  /^[\w@~./-]+\.([cm]?[jt]sx?|jsonl?|mdx?|py|dart|arb|go|rs|ya?ml|toml|s?css|html|svg|sh|ps1|sql|txt|csv|xml|java|kts?|gradle|swift|rb|php|vue|svelte|c|cs|h|cpp|lock|env|ini|conf|omp)$/i;
const NAME =
  /^[a-z_$][\w$]*([a-z][A-Z]|[a-z]_[a-z])[\w$]*$|^[A-Z][A-Z0-9]*_[A-Z0-9_]+$|^[A-Z][a-z0-9]+([A-Z][a-z0-9]*)+$/;
const VALUE = /^\$?\d[\d.,:]*\d\w{0,3}%?$|^v\d+\.\d|^#\d+$|^(?=.*\d)(?=.*[a-f])[\da-f]{7,40}$/;

/** What a block says, without the names of arguments and line numbers. */
function plainText(block: ContextBlock): string {
  if (block.kind === "call") return stringsIn(block.call.input).join("\n");
  return block.kind === "result" ? withoutLineNumbers(textOf(block)) : textOf(block);
}

/** Words that may be a path, a name or a value. */
function wordsIn(block: ContextBlock): Set<string> {
  const plain = plainText(block).replace(/<\/?[\w-]+/g, " ");
  const words = plain.match(/[\w$#@~./-][\w$#@~./:,%-]*[\w$%]/g) ?? [];
  return new Set(words.map((word) => word.replace(/(?<=\.[a-z]\w*)(:\d+)+$/i, "")));
}

function classify(word: string): Lost["kind"] | undefined {
  if (word.length > 120) return undefined;
  if (VALUE.test(word)) return word.replace(/\D/g, "").length > 3 ? "values" : undefined; // 404 says little
  if (FILE.test(word)) return "paths";
  return NAME.test(word) ? "names" : undefined;
}

const fileNameIn = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** Paths first, and the heaviest of each kind. What the user or model wrote counts ten times as much as a tool's result. */
export function lostIn({ before, after, isSummary }: Compaction): Lost[] {
  if (!isSummary) return [];
  const left = blocksIn(after).flatMap((block) => [...wordsIn(block)]);
  const known = new Set(left.flatMap((word) => [fileNameIn(word), ...word.split(/[.:]/)]));
  const lost = new Map<string, Lost>();
  for (const block of blocksIn(before)) {
    for (const word of wordsIn(block)) {
      const kind = classify(word);
      if (!kind || known.has(fileNameIn(word))) continue;
      const entry = lost.get(word) ?? { kind, text: word, block, weight: 0 };
      entry.weight += block.kind === "result" ? 1 : 10;
      lost.set(word, entry);
    }
  }
  const sorted = mergePaths([...lost.values()]).sort((a, b) => b.weight - a.weight);
  return LOST_KINDS.flatMap((kind) => sorted.filter((each) => each.kind === kind));
}

/** The same file may appear as src/a.ts and /app/src/a.ts. Keeps the longest path, with the weight of all. */
function mergePaths(lost: Lost[]): Lost[] {
  const byEnd = new Map<string, Lost>();
  return lost
    .sort((a, b) => b.text.length - a.text.length)
    .filter((each) => {
      const path = each.text.replace(/^(\.{0,2}\/)+/, "");
      const longer = byEnd.get(path);
      if (longer) longer.weight += each.weight;
      else for (const { index } of path.matchAll(/(?<=^|\/)/g)) byEnd.set(path.slice(index), each);
      return !longer;
    });
}
