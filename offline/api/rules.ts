/** Checks what the model of a request accepts, and its tools. */
import { reject } from "./errors.ts";
import { checkHistory } from "./history.ts";
import { accepts } from "./models.ts";
import type { ParsedRequest } from "./request.ts";

const MAX_OUTPUT = 128_000; // tokens

/** Throws a Rejection if the request breaks a rule, except those that need its tokens or signatures. */
export function checkRules(request: ParsedRequest): void {
  const { model, system } = request;
  if (!model.startsWith("claude-")) reject("model name", model);
  checkThinkingType(request);
  checkSettings(request);
  checkTools(request);
  if (system.some(({ text }) => !text.trim())) reject("blank system");
  checkHistory(request);
}

function checkThinkingType({ model, thinking }: ParsedRequest): void {
  if (!thinking || accepts(model, thinking.type)) return;
  if (thinking.type === "adaptive") reject("thinking on old models");
  if (thinking.type === "disabled" && accepts(model, "between_tools")) reject("thinking off");
  reject("thinking type", thinking.type);
}

function checkSettings(request: ParsedRequest): void {
  const { model, max_tokens, thinking, tool_choice } = request;
  const sampling = ["temperature", "top_p", "top_k"].find((name) => name in request);
  if (sampling && !accepts(model, "sampling")) reject("sampling", sampling);
  const thinks = thinking?.type === "adaptive" || thinking?.type === "enabled" || !accepts(model, "forced");
  if (thinks && (tool_choice?.type === "any" || tool_choice?.type === "tool")) reject("forced tools");
  if (max_tokens > MAX_OUTPUT) reject("most max_tokens", `${max_tokens}`, `${MAX_OUTPUT}`, model);
}

function checkTools({ tools }: ParsedRequest): void {
  const names = tools.map(({ name, type }) => name ?? type);
  if (new Set(names).size < names.length) reject("tool names");
  for (const [i, tool] of tools.entries()) {
    const { properties = {} } = Object(tool.input_schema);
    if (typeof properties !== "object") reject("tool schema", `tools.${i}.custom`);
  }
}
