/** Adds up, groups and writes numbers, and makes tables of them. */

export const whole = (value: number) => Math.round(value).toLocaleString("en-US");

export const sum = (values: number[]) => values.reduce((total, each) => total + each, 0);

/** The index of the largest of some numbers that are not below 0. */
export const largestOf = (values: number[]) => values.indexOf(Math.max(...values));

export function groupBy<Item, Key>(items: Item[], keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item)) ?? [];
    group.push(item);
    groups.set(keyOf(item), group);
  }
  return groups;
}

/**
 * Writes a table in Markdown. The first row has the heads, and `rulers` has `:-` or `-:` for each column: the side that it's
 * aligned to. Padded columns line up in a terminal.
 */
export function markdownTable(rulers: string[], rows: string[][], isPadded = false): string {
  const widths = rulers.map((_, i) => (isPadded ? Math.max(...rows.map((row) => row[i]?.length ?? 0)) : 0));
  const pad = (text: string, i: number, filler: string) =>
    rulers[i] === "-:" ? text.padStart(widths[i] ?? 0, filler) : text.padEnd(widths[i] ?? 0, filler);
  const [heads = [], ...rest] = rows.map((row) => row.map((cell, i) => pad(cell, i, " ")));
  const lines = [heads, rulers.map((ruler, i) => pad(ruler, i, "-")), ...rest];
  return lines.map((cells) => `|${cells.map((cell) => (cell ? ` ${cell} ` : " ")).join("|")}|`).join("\n");
}
