/** The rehearsal model for any client: translates its requests into a lesson's, and the replies back. */
import type Anthropic from "@anthropic-ai/sdk";
import { contentBlocks } from "./api/said.ts";
import type { Model, ReplyBlock } from "./api/server.ts";
import { isSummaryCall, rehearse } from "./model.ts";
import { SUMMARY, SUMMARY_REQUEST } from "./wording.ts";

/** Returns opencode's settings for a server. Its own provider would ask the network for a list of models. */
export const opencodeConfig = (url: string): string => {
  const options = { baseURL: `${url}/v1`, apiKey: "offline" };
  return JSON.stringify({
    provider: { local: { npm: "@ai-sdk/anthropic", options, models: { "claude-sonnet-5-5": {} } } },
  });
};

const PATH = /path$|^file/i;
/** The lessons' tools, with patterns for other clients' names for them and their fields. */
const TOOLS = [
  { tool: "bash", names: /^(bash|shell|exec|run)/i, fields: { command: /^(command|cmd|script)$/ } },
  { tool: "read_file", names: /^(read|view|open)/i, fields: { path: PATH } },
  { tool: "write_file", names: /^(write|create)/i, fields: { path: PATH, content: /^(content|text)/ } },
  { tool: "edit_file", names: /edit|replace/i, fields: { path: PATH, old_text: /^old/, new_text: /^new/ } },
];

/** A client's tool. `fields` pairs the lesson's names with the client's. */
type Translation = { tool: string; name: string; fields: [ours: string, theirs: string][]; required: string[] };

function translateTools(offered: Anthropic.ToolUnion[] = []): Translation[] {
  const own = offered.filter((tool): tool is Anthropic.Tool => "input_schema" in tool);
  return TOOLS.flatMap(({ tool, names, fields }) => {
    const theirs = own.find(({ name }) => names.test(name));
    if (!theirs) return [];
    const { properties, required } = theirs.input_schema;
    const known = Object.keys(properties ?? {});
    const pairs = Object.entries(fields).map(([field, words]): [string, string] => {
      return [field, known.find((name) => words.test(name)) ?? field];
    });
    return { tool, name: theirs.name, fields: pairs, required: required ?? [] };
  });
}

/** How Claude Code begins the message with its summary. */
const CONTINUED = /^This session is being continued from a previous conversation/;
const ASKS_FOR_SUMMARY = /(summary of|summarize) (the|this|our) conversation|continuing (the|this|our) conversation/i;
/** Line numbers that clients add to a file. */
const LINE_NUMBERS = /^ *\d+(\t|→|: |\| ?)/gm;

const plainText = (content: Anthropic.ToolResultBlockParam["content"] = ""): string =>
  contentBlocks(content as Anthropic.MessageParam["content"])
    .map((block) => (block.type === "text" ? block.text : ""))
    .join("\n");

/** Translates the texts of a user message into messages of a lesson. */
function translateRequest(texts: string[]): Anthropic.MessageParam[] {
  const text = texts.findLast((each) => !each.startsWith("<")); // the client adds reminders
  if (text === undefined) return [];
  if (CONTINUED.test(text)) {
    const [, goal = ""] = /^Goal: (.*)$/m.exec(text) ?? [];
    const summary = { type: "text" as const, text: `${SUMMARY}\n\n${text}` };
    return [
      { role: "user", content: goal },
      { role: "user", content: [summary] },
    ];
  }
  const request = text.trim().replace(/^"(.*)"$/s, "$1"); // opencode adds quotes
  return [{ role: "user", content: ASKS_FOR_SUMMARY.test(text) ? SUMMARY_REQUEST : request }];
}

function translateMessage({ role, content }: Anthropic.MessageParam, tools: Translation[]): Anthropic.MessageParam[] {
  if (role === "system") return [];
  const blocks = contentBlocks(content);
  if (role === "assistant") {
    const translated = blocks.map((block) => (block.type === "tool_use" ? toLesson(block, tools) : block));
    return [{ role, content: translated }];
  }
  const texts = blocks.flatMap((block) => (block.type === "text" ? block.text : []));
  const results = blocks.filter((block) => block.type === "tool_result");
  const plain = results.map((block) => ({ ...block, content: plainText(block.content).replace(LINE_NUMBERS, "") }));
  return [...(plain.length > 0 ? [{ role, content: plain }] : []), ...translateRequest(texts)];
}

function toLesson(call: Anthropic.ToolUseBlockParam, tools: Translation[]): Anthropic.ToolUseBlockParam {
  const found = tools.find(({ name }) => name === call.name);
  if (!found) return call;
  const input = Object.fromEntries(found.fields.map(([field, theirs]) => [field, Object(call.input)[theirs]]));
  return { ...call, name: found.tool, input };
}

function toClient(block: ReplyBlock, tools: Translation[]): ReplyBlock {
  const found = block.type === "tool_use" && tools.find(({ tool }) => tool === block.name);
  if (!found) return block;
  const input = Object.fromEntries(found.fields.map(([field, theirs]) => [theirs, Object(block.input)[field]]));
  for (const field of found.required) input[field] ??= "part of a rehearsal";
  return { ...block, name: found.name, input };
}

/** Adds the tags without which Claude Code asks again. */
const wrapSummary = (block: ReplyBlock): ReplyBlock =>
  block.type === "text" ? { ...block, text: `<summary>\n${block.text}\n</summary>` } : block;

/** Plays the lessons' requests with the client's own tools. */
export const rehearseForAnyone: Model = (request) => {
  const tools = translateTools(request.tools);
  const messages = request.messages.flatMap((message) => translateMessage(message, tools));
  const lessonTools = tools.map(({ tool }) => ({ name: tool, input_schema: { type: "object" as const } }));
  const others = (request.tools ?? []).filter(
    (tool) => "name" in tool && !tools.some(({ name }) => name === tool.name),
  );
  const reply = rehearse({ ...request, messages, tools: [...lessonTools, ...others] });
  const content = isSummaryCall({ messages }) ? reply.content.map(wrapSummary) : reply.content;
  return { ...reply, content: content.map((block) => toClient(block, tools)) };
};
