/** Adds up, groups and writes numbers. */

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
