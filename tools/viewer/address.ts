/** What is selected, as the part of the page's address after the #. The Back button returns to the selection before. */

/** A model call or a compaction, and the id of the block that is open. What isn't in the file has the id -1. */
export type Selection = { call?: number; compaction?: number; block?: number };

/** Numbers in the address count from 1. */
export function selectionIn(hash: string): Selection & { file?: string } {
  const values = new URLSearchParams(hash.slice(1));
  const index = (name: string) => (/^\d+$/.test(values.get(name) ?? "") ? Number(values.get(name)) - 1 : undefined);
  const file = values.get("file") ?? undefined;
  return { call: index("call"), compaction: index("compaction"), block: index("block"), file };
}

export function addressOf({ call, compaction, block }: Selection, file?: string): string {
  const values = new URLSearchParams(file && { file });
  for (const [name, index] of Object.entries({ call, compaction, block }))
    if (index !== undefined) values.set(name, `${index + 1}`);
  return `#${values}`;
}
