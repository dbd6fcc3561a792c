/** Checks a request in the API's order: its shape, what its model accepts, its history. */
import type Anthropic from "@anthropic-ai/sdk";
import { checkBetaFields } from "./betas.ts";
import { checkHistory } from "./history.ts";
import { accepts, checkModel } from "./models.ts";
import { reject } from "./rejection.ts";
import { checkShape, isRecord } from "./shape.ts";

const MAX_OUTPUT = 128_000; // tokens

/** Throws a Rejection if the request breaks a rule, except those that need its tokens or signatures. */
export function checkRequest(request: Anthropic.MessageCreateParams, betas: string[], isCount = false): void {
  checkShape(request, isCount);
  checkBetaFields(request, betas);
  checkModel(request.model);
  checkThinkingType(request);
  checkSettings(request);
  checkTools(request);
  if (Array.isArray(request.system) && request.system.some(({ text }) => !text.trim()))
    reject("blank system", "system: text content blocks must be non-empty");
  checkHistory(request);
}

function checkThinkingType({ model, thinking }: Anthropic.MessageCreateParams): void {
  if (!thinking || accepts(model, thinking.type)) return;
  if (thinking.type === "adaptive")
    reject("thinking on old models", "adaptive thinking is not supported on this model");
  if (thinking.type === "disabled" && accepts(model, "between_tools"))
    reject(
      "thinking type",
      'To turn thinking off on this model, send "thinking": {"type": "between_tools"} instead of {"type": "disabled"}.',
    );
  reject(
    "thinking type",
    `"thinking.type.${thinking.type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`,
  );
}

function checkSettings(request: Anthropic.MessageCreateParams): void {
  const { model, max_tokens, thinking, tool_choice } = request;
  const sampling = ["temperature", "top_p", "top_k"].find((name) => name in request);
  if (sampling && !accepts(model, "sampling")) reject("sampling", `\`${sampling}\` is deprecated for this model.`);
  const thinks = thinking?.type === "adaptive" || thinking?.type === "enabled" || !accepts(model, "forced");
  if (thinks && (tool_choice?.type === "any" || tool_choice?.type === "tool"))
    reject("forced tools", "Thinking may not be enabled when tool_choice forces tool use.");
  if (max_tokens > MAX_OUTPUT)
    reject(
      "most max_tokens",
      `max_tokens: ${max_tokens} > ${MAX_OUTPUT}, which is the maximum allowed number of output tokens for ${model}`,
    );
}

function checkTools({ tools = [] }: Anthropic.MessageCreateParams): void {
  const names = tools.map((tool) => ("name" in tool ? tool.name : tool.type));
  if (new Set(names).size < names.length) reject("tool names", "tools: Tool names must be unique.");
  for (const [i, tool] of tools.entries())
    if ("input_schema" in tool && !isRecord(tool.input_schema.properties ?? {}))
      reject(
        "tool schema",
        `tools.${i}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview.`,
      );
}
