/** Writes HTML and SVG. A value is escaped unless it's markup. */

export type Markup = { markup: string };
type Value = Markup | string | number | undefined | Value[];

function textOf(value: Value): string {
  if (Array.isArray(value)) return value.map(textOf).join("");
  if (typeof value === "object") return value.markup;
  return `${value ?? ""}`.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

export const html = (texts: TemplateStringsArray, ...values: Value[]): Markup => ({
  markup: String.raw({ raw: texts }, ...values.map(textOf)),
});
