/** Formats numbers and names the same way in every language. */
import { whole } from "../trace/numbers.ts";

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

export const escapeHtml = (text: string) => text.replace(/[&<"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
