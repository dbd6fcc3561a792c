/** What the API charges. */

/** Dollars per million tokens, and what reading from the cache costs relative to input. */
type Price = [input: number, output: number, read: number];
const SONNET_5_5: Price = [2, 10, 0.05];
/** List prices of November 2026: platform.claude.com/docs/en/about-claude/pricing */
const PRICES: Record<string, Price> = {
  "fable-5-2": [8, 40, 0.025],
  "mythos-5-2": [8, 40, 0.025],
  "fable-5-1": [10, 50, 0.025],
  "mythos-5-1": [10, 50, 0.025],
  "fable-5": [10, 50, 0.1],
  "mythos-5": [10, 50, 0.1],
  "opus-5-5": [4, 20, 0.05],
  "opus-5": [5, 25, 0.1],
  "opus-4-8": [5, 25, 0.1],
  "opus-4-7": [5, 25, 0.1],
  "opus-4-6": [5, 25, 0.1],
  "opus-4-5": [5, 25, 0.1],
  "opus-4-1": [15, 75, 0.1],
  "opus-4": [15, 75, 0.1],
  "sonnet-5-5": SONNET_5_5,
  "sonnet-5": [2, 10, 0.1],
  "sonnet-4-6": [3, 15, 0.1],
  "sonnet-4-5": [3, 15, 0.1],
  "sonnet-4": [3, 15, 0.1],
  "haiku-5-5": [0.1, 0.5, 0.1],
  "haiku-4-5": [1, 5, 0.1],
  "3-5-haiku": [0.8, 4, 0.1],
};
/** Writing to the cache, relative to input. */
const WRITE = 1.25;
const WRITE_FOR_AN_HOUR = 2;
const [INPUT, OUTPUT, READ] = SONNET_5_5;
/** Prices of Sonnet 5.5 in tokens of input. Those of Opus 5.5 are the same. */
export const IN_INPUT_TOKENS = { read: READ, write: WRITE, writeForHour: WRITE_FOR_AN_HOUR, output: OUTPUT / INPUT };
/** Dollars on Sonnet 5.5. */
export const dollarsForInput = (tokens: number) => (INPUT * tokens) / 1e6;

/** Regions have had a price of their own since Sonnet 4.5. */
const REGION = 1.1;
const WITHOUT_REGIONS = ["opus-4-1", "opus-4", "sonnet-4", "3-5-haiku"];
const SEARCH = 0.01; // dollars for each web search

/** Splits a model's id into a region and a name, without what clouds add around the name and without its date. */
const ID = /^(?:.*\/)?(?:(?:global|(us|eu|jp|au|apac))\.)?(?:anthropic\.)?claude-(.*?)(?:[-@]\d{8}|-v\d.*|\[.*)*$/;

/** The tokens of a model call, by what each costs. */
export type Tokens = {
  input: number; // without the cache
  read: number;
  written: number;
  writtenForHour: number; // the part of `written` that lives for an hour instead of five minutes
  output: number;
};
export type Used = Tokens & {
  searches: number; // of the web
  isListPrice: boolean; // false if another price applies, and the file doesn't say which
  isRegional: boolean;
};
export type Cost = Record<"read" | "written" | "input" | "output" | "searches", number>;

/** Returns the dollars of a model call, or undefined if its price isn't known. */
export function costOf(used?: Used, model = ""): Cost | undefined {
  const [, region, name = ""] = ID.exec(model) ?? [];
  const price = PRICES[name];
  if (!price || !used?.isListPrice) return undefined;
  const isLong = name === "haiku-5-5" && used.input + used.read + used.written > 100_000;
  const isRegional = (region !== undefined || used.isRegional) && !WITHOUT_REGIONS.includes(name);
  const [input, output, read] = price;
  const perToken = ((isLong ? 5 : 1) * (isRegional ? REGION : 1)) / 1e6;
  return {
    read: used.read * read * input * perToken,
    written: (WRITE * used.written + (WRITE_FOR_AN_HOUR - WRITE) * used.writtenForHour) * input * perToken,
    input: used.input * input * perToken,
    output: used.output * output * perToken,
    searches: used.searches * SEARCH,
  };
}

export const sumOf = (cost?: Cost): number =>
  cost ? cost.read + cost.written + cost.input + cost.output + cost.searches : 0;
