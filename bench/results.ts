/** bench/results.json: what docs/benchmarks.md shows. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Figures } from "./figures.ts";
import type { Assumptions } from "./replay.ts";
import type { Speed } from "./speed.ts";

/** Of all sessions together, and of each by its name. */
export type PerSession = { all: Figures; sessions: Record<string, Figures> };
export type Session = { name: string; characters: number; requests: number; rounds: number };

export type Results = {
  assumptions: Assumptions;
  sessions: Session[];
  /** By the name of the strategy; `rules` at limits at which layer 2 acts often. */
  strategies: Record<string, PerSession>;
  rules: Record<string, PerSession>;
  /** By the form and the threshold in tokens. */
  sweep: Record<string, Record<number, Figures>>;
  /** Tokens of context, request by request, in the session with the largest. */
  context: { session: string; strategies: Record<string, number[]> };
  /** Only `npm run bench:speed` measures it. */
  speed?: Speed;
};

const FILE = new URL("results.json", import.meta.url);

/** Writes a part of the results into the file and leaves the rest as it is. @returns all of them */
export function keep(part: Partial<Results>): Results {
  const known = existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : {};
  const results: Results = { ...known, ...part };
  writeFileSync(FILE, `${JSON.stringify(results, null, 1)}\n`);
  return results;
}
