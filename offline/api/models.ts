/** The features that each model accepts, from the migration guides of November 2026. */

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
const MODELS: [name: RegExp, accepts: Feature[]][] = [
  [/^(opus-5-5|(fable|mythos)-5-[12])$/, ["adaptive", "system"]],
  [/^(haiku-5-5|opus-5|sonnet-5|opus-4-8)$/, ["adaptive", "disabled", "forced", "system"]],
  [/^(fable|mythos)-5$/, ["adaptive", "forced", "system"]],
  [/^(opus-4-7|mythos-preview)$/, ["adaptive", "disabled", "forced"]],
  [/^(opus|sonnet)-4-6$/, ["adaptive", "disabled", "enabled", "forced", "sampling"]],
  [/^(3-.*|[a-z]+-4(-[0-5])?)$/, ["disabled", "enabled", "forced", "prefill", "sampling"]],
  [/^/, ["adaptive", "between_tools", "system"]],
];

export function accepts(model: string, feature: Feature): boolean {
  const name = model.replace(/^claude-/, "").replace(/-(\d{8}|latest)$/, "");
  return MODELS.find(([pattern]) => pattern.test(name))?.[1].includes(feature) ?? false;
}
