/** Rows as a Markdown table in columns of one width, all but the first to the right; the first row is its head. */
export function table(rows: string[][]): string {
  const [head = [], ...body] = rows;
  const widths = head.map((_, i) => Math.max(3, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  const padded = (row: string[]) =>
    line(widths.map((width, i) => (i === 0 ? (row[i] ?? "").padEnd(width) : (row[i] ?? "").padStart(width))));
  const ruler = line(widths.map((width, i) => (i === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)));
  return [padded(head), ruler, ...body.map(padded)].join("\n");
}
