/** What a page shows, as the query of its address. */

/** The indices of a model call or a compaction, and the id of a block. In the address they count from 1. */
export type Selection = { call?: number; compaction?: number; block?: number };

export function selectionIn(query: URLSearchParams): Selection {
  const index = (name: string) => (/^\d+$/.test(query.get(name) ?? "") ? Number(query.get(name)) - 1 : undefined);
  return { call: index("call"), compaction: index("compaction"), block: index("block") };
}

/** The page scrolls to the chart, or to the text of a block. */
export function addressOf({ call, compaction, block }: Selection, file?: string): string {
  const query = new URLSearchParams(file && { file });
  for (const [name, index] of Object.entries({ call, compaction, block }))
    if (index !== undefined) query.set(name, `${index + 1}`);
  return `/?${query}#${block === undefined ? "chart" : "block"}`;
}
