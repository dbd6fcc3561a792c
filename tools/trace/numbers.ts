/** Formats numbers and names the same way in every language, and adds up and groups items. */

export const whole = (value: number) => Math.round(value).toLocaleString("en-US");
export const counted = (count: number, one: string, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
/** `16.7K` for 16,725. */
export const short = (value: number) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
export const percent = (share: number) => (share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`);

/** Nothing for a cost that is not known. */
export function dollars(value?: number): string {
  if (value === undefined) return "";
  if (value > 0 && value < 0.0005) return "<$0.001";
  return `$${value.toFixed(value > 0 && value < 0.0995 ? 3 : 2)}`;
}

/** In a line, without those that are not known. */
export const facts = (...all: (string | undefined)[]) => all.filter(Boolean).join(" · ");

/** A path by its end, which tells it apart. */
export const shortened = (path: string) => (path.length > 60 ? `…${path.slice(-60)}` : path);

export const escapeHtml = (text: string) => text.replace(/[&<"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

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
