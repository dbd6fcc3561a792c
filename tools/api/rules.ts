/** Checks a request in the order of the API: its shape, the settings that a model takes, and its history. */
import type Anthropic from "@anthropic-ai/sdk";
import { checkHistory } from "./history.ts";
import { reject } from "./rejection.ts";
import { checkShape } from "./shape.ts";

/** The beta header that `thinking.block_binding` needs. */
export const BINDING_BETA = "thinking-binding-controls-2026-08-01";
const MAX_OUTPUT = 128_000; // tokens
/** Models up to 4.5. Those of version 4.0 have a date after the 4. */
const BEFORE_ADAPTIVE = /^claude-(3|[a-z]+-4-([0-5]\b|20))/;

/** Throws a Rejection if the request breaks any rule that doesn't depend on counting tokens. `betas`: the beta header. */
export function checkRequest(request: Anthropic.MessageCreateParams, betas: string): void {
  checkShape(request);
  if (!betas.includes(BINDING_BETA) && request.thinking && "block_binding" in request.thinking)
    reject("field unknown", "thinking.adaptive.block_binding: Extra inputs are not permitted");
  checkSettings(request);
  checkTexts(request);
  checkHistory(request);
}

function checkSettings(request: Anthropic.MessageCreateParams): void {
  const { model, max_tokens, thinking, tool_choice } = request;
  const sampling = ["temperature", "top_p", "top_k"].find((name) => name in request);
  if (sampling) reject("sampling", `\`${sampling}\` is deprecated for this model.`);
  if (thinking?.type === "disabled" || thinking?.type === "enabled")
    reject(
      "thinking type",
      `"thinking.type.${thinking.type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`,
    );
  if (thinking?.type === "adaptive" && BEFORE_ADAPTIVE.test(model))
    reject("thinking on old models", "adaptive thinking is not supported on this model");
  if (tool_choice?.type === "any" || tool_choice?.type === "tool")
    reject("forced tools", "Thinking may not be enabled when tool_choice forces tool use.");
  if (max_tokens > MAX_OUTPUT)
    reject(
      "most max_tokens",
      `max_tokens: ${max_tokens} > ${MAX_OUTPUT}, which is the maximum allowed number of output tokens for ${model}`,
    );
}

function checkTexts({ tools = [], system = "" }: Anthropic.MessageCreateParams): void {
  const names = tools.map((tool) => ("name" in tool ? tool.name : ""));
  if (new Set(names).size < names.length) reject("tool names", "tools: Tool names must be unique.");
  if (typeof system !== "string" && system.some(({ text }) => !text.trim()))
    reject("blank system", "system: text content blocks must be non-empty");
}
