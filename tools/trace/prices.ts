/** What a model call costs: the list prices of the model that the file names. */
import type { Usage } from "./conversation.ts";

/** Dollars for a million tokens of input and output, what reading the cache costs of input, and the window in tokens. */
type Price = [input: number, output: number, read: number, window: number];
const OLD = 200_000;
const NEW = 1_000_000;
/** As of November 2026: platform.claude.com/docs/en/about-claude/pricing */
const PRICES: Record<string, Price> = {
  ...{ "fable-5-1": [10, 50, 0.025, NEW], "fable-5": [10, 50, 0.1, NEW] },
  ...{ "opus-5-5": [4, 20, 0.05, NEW], "opus-5": [5, 25, 0.1, NEW] },
  ...{ "opus-4-8": [5, 25, 0.1, NEW], "opus-4-7": [5, 25, 0.1, NEW] },
  ...{ "opus-4-6": [5, 25, 0.1, OLD], "opus-4-5": [5, 25, 0.1, OLD], "opus-4-1": [15, 75, 0.1, OLD] },
  ...{ "opus-4": [15, 75, 0.1, OLD], "sonnet-5-5": [2, 10, 0.05, NEW], "sonnet-5": [2, 10, 0.1, NEW] },
  ...{ "sonnet-4-6": [3, 15, 0.1, OLD], "sonnet-4-5": [3, 15, 0.1, OLD], "sonnet-4": [3, 15, 0.1, OLD] },
  ...{ "haiku-5-5": [0.1, 0.5, 0.1, NEW], "haiku-4-5": [1, 5, 0.1, OLD], "3-5-haiku": [0.8, 4, 0.1, OLD] },
};

/** Also with the date of a version, or what a cloud puts around the name. */
const priceOf = (model = ""): Price | undefined =>
  PRICES[model.replace(/^.*claude-/, "").replace(/([-@]\d{8}|-v\d.*|\[.*)+$/, "")];

export type Cost = Record<"read" | "written" | "input" | "output", number>;

/** Dollars of a model call; nothing if the model's price is not known. */
export function costOf(usage?: Usage, model?: string): Cost | undefined {
  const price = priceOf(model);
  if (!price || !usage) return undefined;
  const isLong = /haiku-5-5/.test(model ?? "") && usage.input + usage.read + usage.written > 100_000;
  const [input, output, read] = price;
  const token = (isLong ? 5 : 1) / 1e6;
  return {
    ...{ read: usage.read * read * input * token, written: usage.written * (usage.isHour ? 2 : 1.25) * input * token },
    ...{ input: usage.input * input * token, output: usage.output * output * token },
  };
}

export const sumOf = (cost?: Cost): number => Object.values(cost ?? {}).reduce((sum, each) => sum + each, 0);

/** Tokens of the model's window, if the model is known; an old one had a larger one for whoever asked for it. */
export function windowOf(model: string | undefined, largest: number): number | undefined {
  const window = priceOf(model)?.[3];
  return window !== undefined && largest > window ? NEW : window;
}
