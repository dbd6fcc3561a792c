/** What each model accepts and its limits, from the documentation of November 2026. */

type Feature =
  | "adaptive"
  | "between_tools"
  | "disabled"
  | "enabled" // thinking with a budget
  | "forced" // a tool_choice that forces a call
  | "prefill" // a conversation that ends with an assistant message
  | "sampling" // temperature, top_p and top_k
  | "system"; // messages with the role system

/** The first pattern that matches a name decides. A Claude model that isn't listed follows the rules of Sonnet 5.5. */
type Table<T> = [name: RegExp, value: T][];

const FEATURES: Table<Feature[]> = [
  [/^(opus-5-5|(fable|mythos)-5-[12])$/, ["adaptive", "system"]],
  [/^(haiku-5-5|opus-5|sonnet-5|opus-4-8)$/, ["adaptive", "disabled", "forced", "system"]],
  [/^(fable|mythos)-5$/, ["adaptive", "forced", "system"]],
  [/^(opus-4-7|mythos-preview)$/, ["adaptive", "disabled", "forced"]],
  [/^(opus|sonnet)-4-6$/, ["adaptive", "disabled", "enabled", "forced", "sampling"]],
  [/^(3-.*|[a-z]+-4(-[0-5])?)$/, ["disabled", "enabled", "forced", "prefill", "sampling"]],
];
const OUTPUT: Table<number> = [
  [/^opus-4(-[01])?$/, 32_000],
  [/^(3-.*|[a-z]+-4(-[0-5])?)$/, 64_000],
];
const CACHED: Table<number> = [
  [/^(haiku-4-5|opus-4-[56])$/, 4_096],
  [/^(opus-4-7|mythos-preview)$/, 2_048],
  [/^(3-.*|opus-4(-[018])?|sonnet-4(-[056])?|sonnet-5)$/, 1_024],
];

function lookUp<T>(table: Table<T>, model: string, otherwise: T): T {
  const name = model.replace(/^claude-/, "").replace(/-(\d{8}|latest)$/, "");
  return table.find(([pattern]) => pattern.test(name))?.[1] ?? otherwise;
}

export const accepts = (model: string, feature: Feature): boolean =>
  lookUp(FEATURES, model, ["adaptive", "between_tools", "system"]).includes(feature);

/** Returns how many tokens a reply may have. */
export const mostOutput = (model: string): number => lookUp(OUTPUT, model, 128_000);

/** Returns from how many tokens on a prompt is cached. */
export const leastCached = (model: string): number => lookUp(CACHED, model, 512);
