/** Checks what the model of a request accepts, and its tools. */
import { reject } from "./errors.ts";
import { checkHistory } from "./history.ts";
import { accepts, mostOutput } from "./models.ts";
import type { ParsedRequest } from "./request.ts";

/** Throws a Rejection if the request breaks a rule, except those that need its tokens or signatures. */
export function checkRules(request: ParsedRequest): void {
  const { model, system } = request;
  if (!model.startsWith("claude-")) reject("model name", model);
  checkThinkingType(request);
  checkLengths(request);
  checkSampling(request);
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

function checkLengths({ model, max_tokens, thinking, betas }: ParsedRequest): void {
  const most = mostOutput(model);
  if (max_tokens > most) reject("most max_tokens", `${max_tokens}`, `${most}`, model);
  const isInterleaved = betas.some((name) => name.startsWith("interleaved-thinking-"));
  if (thinking?.type !== "enabled" || isInterleaved) return;
  if (thinking.budget_tokens >= max_tokens) reject("budget above max_tokens");
}

function checkSampling(request: ParsedRequest): void {
  const sampling = ["temperature", "top_p", "top_k"].find((name) => name in request);
  if (sampling && !accepts(request.model, "sampling")) reject("sampling", sampling);
}

function checkTools({ model, thinking, tools, tool_choice }: ParsedRequest): void {
  const names = tools.map(({ name, type }) => name ?? type);
  if (new Set(names).size < names.length) reject("tool names");
  if (tool_choice?.type !== "any" && tool_choice?.type !== "tool") return;
  if (tool_choice.type === "any" && tools.length === 0) reject("choice without tools");
  if (tool_choice.type === "tool" && !names.includes(tool_choice.name)) reject("chosen tool", tool_choice.name);
  const thinks = thinking?.type === "adaptive" || thinking?.type === "enabled";
  if (thinks || !accepts(model, "forced")) reject("forced tools");
}
