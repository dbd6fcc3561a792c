/** Checks what the model of a request accepts, and its tools. */
import { reject } from "./errors.ts";
import { checkHistory } from "./history.ts";
import { accepts, mostOutput } from "./models.ts";
import type { ParsedRequest } from "./request.ts";
import type { Tool } from "./schema.ts";

/** Throws a Rejection if the request breaks a rule, except those that need its tokens or signatures. */
export function checkRules(request: ParsedRequest): void {
  checkValues(request);
  if (!request.model.startsWith("claude-")) reject("model name", request.model);
  checkSampling(request);
  checkThinking(request);
  checkToolChoice(request);
  checkHistory(request);
}

/** Checks what is wrong for every model. */
function checkValues({ temperature = 1, stop_sequences = [], thinking, tools, system }: ParsedRequest): void {
  if (temperature < 0 || temperature > 1) reject("temperature range");
  if (stop_sequences.some((text) => !text.trim())) reject("stop sequence");
  if (thinking?.type === "enabled" && thinking.budget_tokens < 1024) reject("thinking budget");
  for (const [i, tool] of tools.entries()) checkTool(tool, `tools.${i}.custom.input_schema`);
  if (new Set(tools.map(nameOf)).size < tools.length) reject("tool names");
  for (const [i, { text, cache_control }] of system.entries()) {
    if (text === "" && cache_control) reject("cache of empty text", `system.${i}`);
    if (!text.trim()) reject("blank system");
  }
}

const nameOf = (tool: Tool) => tool.name ?? tool.type;

function checkTool(tool: Tool, at: string): void {
  if (tool.type && tool.type !== "custom") return; // a server tool
  const { properties = {} } = tool.input_schema;
  if (typeof properties !== "object" || properties === null) reject("tool schema", at);
  if (["oneOf", "allOf", "anyOf"].some((key) => key in tool.input_schema)) reject("schema combination", at);
  if (Object.keys(properties).some((name) => !/^[\w.-]{1,64}$/.test(name))) reject("property name", at);
}

function checkSampling(request: ParsedRequest): void {
  const sampling = ["temperature", "top_p", "top_k"].find((name) => name in request);
  if (sampling && !accepts(request.model, "sampling")) reject("sampling", sampling);
}

function checkThinking({ model, max_tokens, thinking, betas }: ParsedRequest): void {
  if (thinking && !accepts(model, thinking.type)) {
    if (thinking.type === "adaptive") reject("thinking on old models");
    if (thinking.type === "disabled" && accepts(model, "between_tools")) reject("thinking off");
    reject("thinking type", thinking.type);
  }
  const most = mostOutput(model);
  if (max_tokens > most) reject("most max_tokens", `${max_tokens}`, `${most}`, model);
  const isInterleaved = betas.some((name) => name.startsWith("interleaved-thinking-"));
  if (thinking?.type !== "enabled" || isInterleaved) return;
  if (thinking.budget_tokens >= max_tokens) reject("budget above max_tokens");
}

function checkToolChoice({ model, thinking, tools, tool_choice }: ParsedRequest): void {
  if (!tool_choice || tool_choice.type === "auto" || tool_choice.type === "none") return;
  const isUnknown = tool_choice.type === "tool" && !tools.map(nameOf).includes(tool_choice.name);
  if (isUnknown) reject("chosen tool", tool_choice.name);
  if (tools.length === 0) reject("choice without tools");
  const thinks = thinking?.type === "adaptive" || thinking?.type === "enabled";
  if (thinks || !accepts(model, "forced")) reject("forced tools");
}
