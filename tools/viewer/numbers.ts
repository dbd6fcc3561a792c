/** Numbers and names as the viewer writes them, in any language. */

export const whole = (value: number) => Math.round(value).toLocaleString("en-US");
export const counted = (count: number, one: string, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
export const percent = (share: number, unit = " %") =>
  (share > 0 && share < 0.005 ? "<1" : `${Math.round(100 * share)}`) + unit;
export const kilobytes = (bytes: number) => `${whole(Math.ceil(bytes / 1_000))} kB`;

export function dollars(value: number): string {
  if (value > 0 && value < 0.0005) return "<$0.001";
  return `$${value.toFixed(value > 0 && value < 0.0995 ? 3 : 2)}`;
}

/** With its end, which tells paths apart. */
export const shortened = (text: string) => (text.length > 72 ? `${text.slice(0, 24)} … ${text.slice(-44)}` : text);
